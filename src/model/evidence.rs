//! Records of what came out of a run: checkpoints, evaluations with their benchmark, claims of others, and notes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::words;
use super::{Facts, Kind, Link, Nonce, Record, TypedId};

/// Weights on disk, by three digests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The attempt that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<TypedId>,
    /// Tree of everything in the directory.
    pub full: TypedId,
    /// Tree of every file that a loader reads; mode bits and empty directories ignored.
    pub weights: TypedId,
    /// Every tensor's name, dtype, shape and bytes; survives another sharding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TypedId>,
    /// The checkpoint that training went on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TypedId>,
    /// What the recogniser saw, as `safetensors`.
    pub format: String,
    /// Training step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Where it lay, relative to the project; absent when it lay elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whose directory it is, as `hf-trainer`; a word of the recogniser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// A word of [`CheckpointState`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Passes over the data, in decimal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Tokens of input that the training had seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The best checkpoint so far, as the trainer names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// How many ranks left files of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
    /// What it adapts, and how, if it is an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// A JSON document of what each file is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<TypedId>,
}

/// An adapter of a base model, which is not part of the checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The method, as `LORA`.
    pub method: String,
    /// Name or path of the base model, as the adapter's configuration has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Revision of the base model, where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Rank of the matrices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Their weight, in decimal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<String>,
    /// Modules that are adapted, or one pattern for them; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

words! {
    /// Whether everything that belongs to a checkpoint was there.
    CheckpointState {
        /// Nothing that could be checked was missing.
        Complete = "complete",
        /// Something was missing, and it was recorded on request.
        Incomplete = "incomplete",
    }
}

impl Checkpoint {
    /// Makes a record with nothing but what every checkpoint has.
    pub fn bare(full: TypedId, weights: TypedId, format: impl Into<String>) -> Self {
        Self {
            start: None,
            full,
            weights,
            tensors: None,
            parent: None,
            format: format.into(),
            step: None,
            path: None,
            layout: None,
            state: None,
            epoch: None,
            tokens: None,
            best: None,
            ranks: None,
            adapter: None,
            files: None,
        }
    }
}

impl Record for Checkpoint {
    const KIND: Kind = Kind::Checkpoint;

    fn links(&self) -> Vec<Link> {
        let mut links = vec![Link::new("full", self.full), Link::new("weights", self.weights)];
        links.extend(self.start.map(|target| Link::new("start", target)));
        links.extend(self.tensors.map(|target| Link::new("tensors", target)));
        links.extend(self.parent.map(|target| Link::new("parent", target)));
        links.extend(self.files.map(|target| Link::new("files", target)));
        links
    }

    fn facts(&self) -> Facts {
        Facts::Named { name: None }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.state.as_ref().is_some_and(|state| CheckpointState::from_word(state).is_none()) {
            return Err("`state` is not a word of this version");
        }
        if self.adapter.iter().all(|adapter| super::ascending(&adapter.targets, Clone::clone)) {
            Ok(())
        } else {
            Err("the targets of an adapter are not in ascending order")
        }
    }
}

/// What was measured on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// A file that defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<TypedId>,
    /// What it is made of as the harness says, sorted by name; none where it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
}

impl Benchmark {
    /// Makes one of which nothing but its name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), definition: None, tasks: Vec::new() }
    }
}

/// One task of a benchmark, with all that tells it from another one of its name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name in the harness.
    pub name: String,
    /// Its version, as the harness writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The harness's own digest over the samples that were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Where its samples come from: a repository of data sets, or a path as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The part of that data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// The split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The data set's commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Number of examples before each question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub few_shot: Option<u64>,
    /// Number of samples of the whole task, however many of them were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
}

impl Record for Benchmark {
    const KIND: Kind = Kind::Benchmark;

    fn links(&self) -> Vec<Link> {
        self.definition.iter().map(|target| Link::new("definition", *target)).collect()
    }

    fn check(&self) -> Result<(), &'static str> {
        if super::ascending(&self.tasks, |task| task.name.clone()) {
            Ok(())
        } else {
            Err("tasks are not in ascending order")
        }
    }
}

words! {
    /// How an evaluation is bound to the weights that it names.
    Binding {
        /// The path held these bytes before and after the harness ran.
        Observed = "observed",
        /// The harness was given a verified private copy.
        Sealed = "sealed",
        /// Somebody said so.
        Asserted = "asserted",
    }
}

words! {
    /// Which of two values of a metric is the better one.
    Better {
        /// The larger one.
        Higher = "higher",
        /// The smaller one.
        Lower = "lower",
    }
}

words! {
    /// Who says so, where it is not a harness apart from what it measures.
    Reporter {
        /// The process that trained the weights measured them itself.
        Training = "training",
    }
}

/// The program that measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harness {
    /// Its name, as `lm-eval`.
    pub name: String,
    /// Its version, where it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One measured number, with its exact decimal text; `NaN`, `Infinity` and `-Infinity` are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name, as `accuracy`; with a task before it, `verbs/acc`, and a filter after it, `gsm8k/exact,strict`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Number of samples that it was measured on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// The task of the benchmark that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What was done to the outputs before they were scored, or to the scores before they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// A word of [`Better`], where the harness says which values are better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<String>,
}

/// An evaluation of weights.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Eval {
    /// Weights tree of the subject: content, so that an evaluation may come before the checkpoint's record.
    pub subject: TypedId,
    /// The recorded checkpoint, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<TypedId>,
    /// What was measured on.
    pub benchmark: TypedId,
    /// Result files as the harness wrote them.
    pub results: Vec<TypedId>,
    /// The attempt that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<TypedId>,
    /// A word of [`Binding`].
    pub binding: String,
    /// Numbers, sorted by name.
    pub metrics: Vec<Metric>,
    /// Why the evaluation is partial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What the reader of the results recognised, as `json`.
    pub format: String,
    /// What measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<Harness>,
    /// How answers were made, as `temperature`, in the words of the results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decoding: BTreeMap<String, String>,
    /// Seeds by what they are for, in the words of the results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seeds: BTreeMap<String, String>,
    /// A word of [`Reporter`], where no harness apart from the training measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by: Option<String>,
}

impl Eval {
    /// Makes one without results, for the rest to be filled in.
    pub fn new(subject: TypedId, benchmark: TypedId, binding: Binding, format: impl Into<String>) -> Self {
        Self {
            subject,
            of: None,
            benchmark,
            results: Vec::new(),
            start: None,
            binding: binding.word().to_owned(),
            metrics: Vec::new(),
            partial: None,
            format: format.into(),
            harness: None,
            decoding: BTreeMap::new(),
            seeds: BTreeMap::new(),
            reported_by: None,
        }
    }
}

impl Record for Eval {
    const KIND: Kind = Kind::Eval;

    fn links(&self) -> Vec<Link> {
        let mut links = vec![Link::new("subject", self.subject), Link::new("benchmark", self.benchmark)];
        links.extend(self.of.map(|target| Link::new("of", target)));
        links.extend(self.results.iter().map(|target| Link::new("result", *target)));
        links.extend(self.start.map(|target| Link::new("start", target)));
        links
    }

    fn check(&self) -> Result<(), &'static str> {
        if Binding::from_word(&self.binding).is_none() {
            return Err("`binding` is not a word of this version");
        }
        if self.reported_by.as_deref().is_some_and(|word| Reporter::from_word(word).is_none()) {
            return Err("`reported_by` is not a word of this version");
        }
        let better = self.metrics.iter().filter_map(|metric| metric.better.as_deref());
        if better.into_iter().any(|word| Better::from_word(word).is_none()) {
            return Err("`better` is not a word of this version");
        }
        if super::ascending(&self.metrics, |metric| metric.name.clone()) {
            Ok(())
        } else {
            Err("metrics are not in ascending order")
        }
    }
}

/// A number that a document gives for weights: somebody's word, and no evaluation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    /// Its decimal text, as that of a [`Metric`].
    pub value: String,
    /// What is said to have been measured, as `accuracy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The document's own words for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// On what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Where the document says that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When the document says that it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// A document of somebody else about things here, and what it claims.
///
/// It has no nonce: the same document about the same things is imported once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// The document as it lay.
    pub document: TypedId,
    /// What it is about, sorted: weights trees, and checkpoints where they are recorded.
    pub subjects: Vec<TypedId>,
    /// What its reader recognised, as `model-card`.
    pub format: String,
    /// What it claims, in its order.
    pub claims: Vec<Claimed>,
}

impl Record for Import {
    const KIND: Kind = Kind::Import;

    fn links(&self) -> Vec<Link> {
        let mut links = vec![Link::new("document", self.document)];
        links.extend(self.subjects.iter().map(|target| Link::new("subject", *target)));
        links
    }

    fn check(&self) -> Result<(), &'static str> {
        if super::ascending(&self.subjects, |subject| (subject.kind.word(), subject.id)) {
            Ok(())
        } else {
            Err("subjects are not in ascending order")
        }
    }
}

/// A remark about anything.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Keeps two equal remarks two.
    pub nonce: Nonce,
    /// What it is about.
    pub subject: TypedId,
    /// The remark.
    pub text: String,
}

impl Record for Note {
    const KIND: Kind = Kind::Note;

    fn links(&self) -> Vec<Link> {
        vec![Link::new("subject", self.subject)]
    }
}
