//! Evidence: checkpoints, datasets and models become records of what was seen on disk.
//!
//! Bytes are fingerprinted where they lie. Repeating an act is harmless: an equal claim of the same key is
//! found and its id is given again. Which run a checkpoint belongs to is never guessed: it is named, or the
//! one attempt that was under way when the files were written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::capture::dataset;
use crate::capture::environment::redact_text;
use crate::capture::hub;
use crate::capture::walk::{self, Options, Reading, Root, Tree};
use crate::capture::weights::{self, Problem, Weights};
use crate::codec::MAX_RECORD;
use crate::id::{Digests, ObjectId, object_id};
use crate::ledger::{Ledger, Outcome, Signer, StagedClaim};
use crate::model::{self, About, Checkpoint, Dataset, Kind, Model, Name, Note, Private, TypedId};
use crate::store::Batch;

use super::refuse::refuse_pointers;
use super::{Entropy, Error, count, draw, private_path, project_path, size};

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its id.
    pub id: TypedId,
    /// How it was stated; `None` when this key had stated it before.
    pub outcome: Option<Outcome>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// One line for people.
    pub summary: String,
    /// The attempt that it belongs to.
    pub start: Option<TypedId>,
}

/// Which attempt a checkpoint belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// This attempt.
    Attempt(TypedId),
    /// This attempt, or an earlier one of its run if that was under way when the files were written.
    ///
    /// A requeued attempt finds what the one before it left behind.
    AttemptOrEarlier(TypedId),
    /// The run's latest attempt.
    Run(TypedId),
    /// The attempt of this holder that was under way when the files were written.
    UnderWay,
    /// None.
    Nobody,
}

/// A checkpoint to record.
#[derive(Debug)]
pub struct CheckpointRequest<'a> {
    /// The directory, or a single file.
    pub path: &'a Path,
    /// Whose it is.
    pub whose: Whose,
    /// Training step; read from names and state files when absent.
    pub step: Option<u64>,
    /// The checkpoint that training went on from.
    pub parent: Option<TypedId>,
    /// Copy the bytes into the store.
    pub store: bool,
    /// A ledger-wide name.
    pub name: Option<Name>,
    /// How its files are read.
    pub reading: Reading,
}

/// A directory of weights as it was seen.
#[derive(Debug)]
pub struct Subject {
    /// Everything in it.
    pub tree: Tree,
    /// What was recognised.
    pub weights: Weights,
    /// Tree over what a loader reads.
    pub subset: walk::Subset,
}

/// Reads a directory of weights, all of it, and refuses one whose weights are not all there.
///
/// What only a resumed training needs may be missing: weights can be evaluated without it.
pub fn observe_subject(
    path: &Path,
    digests: Digests,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Subject, Error> {
    let subject = subject_of(path, &Options::new(digests), progress)?;
    refuse(path, subject.weights.unusable())?;
    Ok(subject)
}

/// Reads a directory of weights in whatever state it is; what stands in the place of weights is refused.
fn subject_of(path: &Path, options: &Options, progress: &(dyn Fn(u64) + Sync)) -> Result<Subject, Error> {
    let tree = walk::observe(path, options, progress)?;
    let weights = weights::observe(&tree, path)?;
    let pointers: Vec<&Problem> = weights.pointers().collect();
    if !pointers.is_empty() {
        let is_lfs = pointers.iter().any(|problem| matches!(problem, Problem::LfsPointer { .. }));
        let fetch = if is_lfs { "git lfs pull" } else { "dvc pull" };
        let problems = pointers.into_iter().map(Problem::text).collect();
        return Err(Error::NotFetched { path: path.to_owned(), problems, fetch });
    }
    let subset = tree.subset(&weights.weights)?;
    Ok(Subject { tree, weights, subset })
}

fn refuse<'a>(path: &Path, problems: impl Iterator<Item = &'a Problem>) -> Result<(), Error> {
    let problems: Vec<String> = problems.map(Problem::text).collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::Incomplete { path: path.to_owned(), problems }) }
}

impl Subject {
    /// Returns the tree of everything: for a single file one entry.
    fn full(&self) -> Result<walk::Subset, Error> {
        match self.tree.root {
            Root::Dir => Ok(walk::Subset { id: self.tree.id, nodes: self.tree.nodes.clone() }),
            Root::File { .. } => {
                Ok(self.tree.subset(&self.tree.files.iter().map(|file| file.path.clone()).collect())?)
            }
        }
    }
}

/// Reads a directory of weights that is to be recorded, and refuses one in which something is missing.
pub fn observe_checkpoint(
    path: &Path,
    reading: &Reading,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Subject, Error> {
    let subject = observe_as_it_is(path, reading, progress)?;
    refuse(path, subject.weights.incomplete())?;
    Ok(subject)
}

/// Reads a directory of weights that is to be recorded whatever is missing; one that changed is refused.
///
/// Each file is held to what it was when it was opened; here it is made sure that none came, went or was
/// written again meanwhile. Files are compared with what they were, never with a clock.
pub fn observe_as_it_is(
    path: &Path,
    reading: &Reading,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Subject, Error> {
    let subject = subject_of(path, &Options::new(Digests::All).reading(reading), progress)?;
    if walk::stat_digest(path, &Options::new(Digests::All))? != subject.tree.stat_digest() {
        let what = "files came, went or were written again";
        return Err(walk::Error::Changed { path: path.to_owned(), what }.into());
    }
    Ok(subject)
}

/// Records a checkpoint.
pub fn record_checkpoint(
    ledger: &mut Ledger,
    request: &CheckpointRequest<'_>,
    signer: &Signer<'_>,
    progress: &(dyn Fn(u64) + Sync),
    entropy: &mut Entropy<'_>,
) -> Result<Recorded, Error> {
    let subject = observe_checkpoint(request.path, &request.reading, progress)?;
    record_observed(ledger, request, &subject, signer, entropy)
}

/// Records a checkpoint that was read before.
pub fn record_observed(
    ledger: &mut Ledger,
    request: &CheckpointRequest<'_>,
    subject: &Subject,
    signer: &Signer<'_>,
    entropy: &mut Entropy<'_>,
) -> Result<Recorded, Error> {
    let start = match request.whose {
        Whose::Attempt(start) => Some(start),
        Whose::AttemptOrEarlier(start) => Some(writer_until(ledger, &subject.tree, start)?),
        Whose::Run(run) => Some(super::attempt_at(ledger, run, None)?),
        Whose::UnderWay => Some(under_way(ledger, &subject.tree, request.path, signer)?),
        Whose::Nobody => None,
    };
    let full = subject.full()?;
    let seen = &subject.weights;
    let description = serde_json::to_vec(&seen.description()).unwrap_or_default();
    // So many files that a list of them is larger than a record may be are found in the tree alone.
    let files = (description.len() <= MAX_RECORD).then_some(description);
    let record = Checkpoint {
        start,
        tensors: seen.tensors.as_ref().map(|set| TypedId::new(Kind::Tensors, set.id)),
        parent: request.parent,
        step: request.step.or(seen.step),
        path: project_path(request.path, ledger.project()),
        layout: Some(seen.layout.word().to_owned()),
        state: Some(seen.state().to_owned()),
        epoch: seen.training.epoch.clone(),
        tokens: seen.training.tokens,
        best: seen.training.best.clone(),
        ranks: Some(seen.ranks.len() as u64).filter(|ranks| *ranks > 0),
        adapter: seen.adapter.as_ref().map(adapter),
        files: files.as_ref().map(|bytes| TypedId::new(Kind::Blob, object_id(bytes))),
        ..Checkpoint::bare(
            TypedId::new(Kind::Tree, full.id),
            TypedId::new(Kind::Tree, subject.subset.id),
            seen.format,
        )
    };
    let warnings = subject.weights.warnings();
    let encoded = model::encode(&record)?;
    let summary = describe(&record, subject);
    let mut claim = StagedClaim::new(&record, &encoded).named(request.name.clone());
    if let Some((sums, _)) = &subject.tree.sums {
        claim = claim.beside("sums", TypedId::new(Kind::Sums, *sums));
    }
    if request.store {
        store_files(ledger, request.path, &subject.tree)?;
    }
    if ledger.repeats(&claim, signer.author)? {
        return Ok(Recorded { id: encoded.id, outcome: None, warnings, summary, start });
    }
    let mut tx = ledger.transaction();
    let private = tx.put(&here(request.path, tx.ledger(), entropy))?;
    tx.put_objects([encoded.bytes]);
    tx.put_objects(full.nodes.into_iter().map(|(_, bytes)| bytes));
    tx.put_objects(subject.subset.nodes.iter().map(|(_, bytes)| bytes.clone()));
    tx.put_objects(subject.weights.tensors.iter().map(|set| set.bytes.clone()));
    tx.put_objects(files);
    let sums = subject.tree.sums.iter().flat_map(|(_, nodes)| nodes);
    tx.put_objects(sums.map(|(_, bytes)| bytes.clone()));
    tx.claim(claim.beside("private", private.id));
    let outcome = tx.commit(signer)?;
    Ok(Recorded { id: encoded.id, outcome: Some(outcome), warnings, summary, start })
}

fn describe(record: &Checkpoint, subject: &Subject) -> String {
    let seen = &subject.weights;
    let mut parts = vec![seen.whose(), record.format.clone()];
    // Where the layout says no more than the format, one word is enough.
    parts.retain(|part| !part.is_empty());
    parts.dedup();
    parts.push(count(subject.tree.files.len() as u64, "file"));
    parts.push(size(subject.tree.bytes));
    parts.extend(seen.tensors.as_ref().map(|set| count(set.count as u64, "tensor")));
    parts.extend(record.step.map(|step| format!("step {step}")));
    parts.extend(record.epoch.as_ref().map(|epoch| format!("epoch {epoch}")));
    parts.extend(record.ranks.filter(|ranks| *ranks > 1).map(|ranks| format!("{ranks} ranks")));
    parts.extend(seen.incomplete().next().map(|_| "INCOMPLETE".to_owned()));
    parts.join(", ")
}

fn adapter(seen: &weights::Adapter) -> model::Adapter {
    let weights::Adapter { method, base, revision, rank, alpha, targets } = seen.clone();
    model::Adapter { method, base, revision, rank, alpha, targets }
}

fn here(path: &Path, ledger: &Ledger, entropy: &mut Entropy<'_>) -> Private {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Private {
        salt: draw(entropy),
        argv: Vec::new(),
        texts: BTreeMap::new(),
        paths: [("subject".to_owned(), private_path(&absolute, ledger.project()))].into(),
        variables: BTreeMap::new(),
        stats: BTreeMap::new(),
    }
}

/// Returns the second in which files were last written; `None` if there are none, or they are older than time.
fn last_written(tree: &Tree) -> Option<u64> {
    let seconds = tree.files.iter().map(|file| file.mtime_ns.div_euclid(1_000_000_000)).max()?;
    u64::try_from(seconds).ok()
}

/// Finds the attempt of a run, not later than `start`, that had begun last when the files were written.
///
/// Clocks decide only between attempts of one run, and in doubt it is the one given.
fn writer_until(ledger: &Ledger, tree: &Tree, start: TypedId) -> Result<TypedId, Error> {
    let (Some(written), Some(row)) = (last_written(tree), ledger.state().attempt(start.id)) else {
        return Ok(start);
    };
    let attempts = ledger.state().attempts(row.plan);
    for (earlier, attempt) in attempts.into_iter().skip_while(|(id, _)| *id != start.id) {
        if ledger.stated(attempt.claim)?.time <= written {
            return Ok(TypedId::new(Kind::Start, earlier));
        }
    }
    Ok(start)
}

/// Finds the latest attempt of this holder whose time holds the last change of the files.
fn under_way(ledger: &Ledger, tree: &Tree, path: &Path, signer: &Signer<'_>) -> Result<TypedId, Error> {
    let which = || Error::WhichRun { path: path.to_owned() };
    let written = last_written(tree).ok_or_else(which)?;
    let holder = ledger.holder_of(signer.author)?;
    let mut runs = ledger.state().runs();
    runs.retain(|(_, run)| run.attempts > 0);
    for (plan, _) in runs.into_iter().rev() {
        for (start, attempt) in ledger.state().attempts(plan) {
            let begun = ledger.stated(attempt.claim)?;
            if begun.holder != holder || written < begun.time {
                continue;
            }
            let ended = attempt.ended.map(|(_, place)| ledger.stated(place)).transpose()?;
            if ended.is_none_or(|end| written <= end.time) {
                return Ok(TypedId::new(Kind::Start, start));
            }
        }
    }
    Err(which())
}

/// Copies every file into the store, hashed while it is copied, and holds it to what was seen before.
fn store_files(ledger: &Ledger, path: &Path, tree: &Tree) -> Result<(), Error> {
    use std::io::Read as _;
    let store = ledger.store();
    let mut batch = store.batch();
    let mut there = BTreeSet::new();
    for file in &tree.files {
        let source = tree.place_of(path, &file.path);
        if !there.insert(file.blake3) || store.contains(file.blake3)? {
            continue;
        }
        let (mut reader, _) = walk::open_regular(&source)?;
        let stored = if file.size <= Batch::MAX_OBJECT as u64 {
            let mut bytes = Vec::with_capacity(file.size as usize + 1);
            reader
                .take(file.size + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| Error::Read { path: source.clone(), source: error })?;
            batch.add(bytes)?
        } else {
            store.put_file(&mut reader)?.blake3
        };
        if stored != file.blake3 {
            let what = "its content is not what was fingerprinted";
            return Err(walk::Error::Changed { path: source, what }.into());
        }
    }
    Ok(batch.finish()?)
}

/// A dataset or model to record under a name.
#[derive(Debug)]
pub struct NamedContent<'a> {
    /// [`Kind::Dataset`] or [`Kind::Model`].
    pub kind: Kind,
    /// File or directory.
    pub path: &'a Path,
    /// Its name.
    pub name: Option<Name>,
    /// Descriptions: `licence`, `source`, `description`.
    pub about: BTreeMap<String, String>,
    /// Datasets that it was made from.
    pub from: Vec<TypedId>,
    /// Copy the bytes into the store.
    pub store: bool,
    /// How its files are read.
    pub reading: Reading,
}

/// Records a dataset or model.
pub fn record_content(
    ledger: &mut Ledger,
    request: &NamedContent<'_>,
    signer: &Signer<'_>,
    progress: &(dyn Fn(u64) + Sync),
    entropy: &mut Entropy<'_>,
) -> Result<Recorded, Error> {
    let digests = if request.kind == Kind::Model { Digests::All } else { Digests::Blake3 };
    let tree = walk::observe(request.path, &Options::new(digests).reading(&request.reading), progress)?;
    refuse_pointers(&tree, request.path)?;
    let content = if matches!(tree.root, Root::Dir) { Kind::Tree } else { Kind::Blob };
    let root = TypedId::new(content, tree.id);
    let mut summary = format!("{}, {}", count(tree.files.len() as u64, "file"), size(tree.bytes));
    let mut warnings = Vec::new();
    let (line, mut texts) = if request.kind == Kind::Dataset {
        let found = dataset::describe(&tree, request.path);
        warnings.clone_from(&found.notes);
        (found.line(), found.texts())
    } else {
        let place = hub::locate(request.path);
        (place.as_ref().map_or(String::new(), hub::Located::short), dataset::place_texts(place.as_ref()))
    };
    if !line.is_empty() && line != "files" {
        summary = format!("{summary}, {line}");
    }
    // What somebody says stands over what was found; a login in it helps nobody who reads the log.
    texts.extend(request.about.iter().map(|(key, text)| (key.clone(), redact_text(text))));
    if request.store {
        store_files(ledger, request.path, &tree)?;
    }
    let (encoded, claim) = if request.kind == Kind::Model {
        let record = Model { root };
        let encoded = model::encode(&record)?;
        (encoded.clone(), StagedClaim::new(&record, &encoded))
    } else {
        let record = Dataset { root };
        let encoded = model::encode(&record)?;
        (encoded.clone(), StagedClaim::new(&record, &encoded))
    };
    let mut claim = claim.named(request.name.clone());
    for from in &request.from {
        claim = claim.beside("from", *from);
    }
    if let Some((sums, _)) = &tree.sums {
        claim = claim.beside("sums", TypedId::new(Kind::Sums, *sums));
    }
    let about = About { texts };
    if !about.texts.is_empty() {
        claim = claim.beside("about", model::encode(&about)?.id);
    }
    let id = encoded.id;
    let mut outcome = None;
    if !ledger.repeats(&claim, signer.author)? {
        let mut tx = ledger.transaction();
        let private = tx.put(&here(request.path, tx.ledger(), entropy))?;
        tx.put_objects([encoded.bytes]);
        tx.put_objects(tree.nodes.into_iter().map(|(_, bytes)| bytes));
        tx.put_objects(tree.sums.into_iter().flat_map(|(_, nodes)| nodes).map(|(_, bytes)| bytes));
        if !about.texts.is_empty() {
            tx.put(&about)?;
        }
        tx.claim(claim.beside("private", private.id));
        outcome = Some(tx.commit(signer)?);
    }
    if let Some(name) = &request.name
        && let Some(row) = ledger.state().name(request.kind, name)
        && row.holder != ledger.holder_of(signer.author)?
    {
        // The claim stands; the name was not granted.
        let holder = ledger.who(row.holder.first_key());
        return Err(Error::NameHeld { name: name.clone(), holder });
    }
    Ok(Recorded { id, outcome, warnings, summary, start: None })
}

/// States a remark about anything in the ledger.
pub fn note(
    ledger: &mut Ledger,
    subject: TypedId,
    text: &str,
    signer: &Signer<'_>,
    entropy: &mut Entropy<'_>,
) -> Result<Recorded, Error> {
    let record = Note { nonce: draw(entropy), subject, text: text.to_owned() };
    let mut tx = ledger.transaction();
    let encoded = tx.put(&record)?;
    tx.claim(StagedClaim::new(&record, &encoded));
    let outcome = tx.commit(signer)?;
    Ok(Recorded {
        id: encoded.id,
        outcome: Some(outcome),
        warnings: Vec::new(),
        summary: text.to_owned(),
        start: None,
    })
}

/// Finds the recorded checkpoint whose weights are this tree, the latest first.
pub fn checkpoint_of(ledger: &Ledger, weights: ObjectId) -> Result<Option<TypedId>, Error> {
    for (_, place) in ledger.state().with_digest(weights) {
        let claim = ledger.stated(place)?;
        if claim.object.kind == Kind::Checkpoint
            && claim.link("weights").is_some_and(|link| link.id == weights)
        {
            return Ok(Some(claim.object));
        }
    }
    Ok(None)
}
