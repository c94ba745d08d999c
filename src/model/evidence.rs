//! Records of what came out of a run: checkpoints, evaluations with their benchmark, and notes.

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
}

impl Record for Benchmark {
    const KIND: Kind = Kind::Benchmark;

    fn links(&self) -> Vec<Link> {
        self.definition.iter().map(|target| Link::new("definition", *target)).collect()
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

/// One measured number, with its exact decimal text; `NaN`, `Infinity` and `-Infinity` are kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name, as `accuracy`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
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
        if super::ascending(&self.metrics, |metric| metric.name.clone()) {
            Ok(())
        } else {
            Err("metrics are not in ascending order")
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
