//! What differs between two things: the tensors and files of weights, or the inputs of two runs, field by field.
//!
//! Of weights that are recorded nothing is read but what the ledger holds, so a checkpoint that was deleted long
//! ago is compared like one that lies there. What cannot be compared is said, and is never taken for equal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::acts;
use crate::capture::walk::{self, Options};
use crate::capture::weights;
use crate::codec::MAX_RECORD;
use crate::id::{Digests, ObjectId};
use crate::ledger::{self, Ledger};
use crate::model::content::{self, Tensor, Tensors, What, escape};
use crate::model::{Checkpoint, Dataset, Kind, Model, Plan, TypedId};

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory cannot be read.
    #[error(transparent)]
    Walk(#[from] walk::Error),
    /// Weights cannot be read.
    #[error(transparent)]
    Weights(#[from] weights::Error),
    /// The ledger or a record of it cannot be read.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The inputs of a run cannot be compared.
    #[error(transparent)]
    Acts(#[from] acts::Error),
    /// This kind of thing has neither files nor inputs.
    #[error("{} has neither files nor inputs to compare", id.short())]
    Kind {
        /// The thing.
        id: TypedId,
    },
    /// A run beside weights.
    #[error("a run is compared with a run, and files with files")]
    Mixed,
}

/// A part that is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// Names, types, shapes and bytes of tensors.
    Tensors,
    /// Names and bytes of files.
    Files,
    /// The frozen configuration.
    Config,
    /// The commit and what differs from it.
    Code,
    /// Lock file, interpreter and platform.
    Env,
    /// Data by role.
    Data,
    /// Base models by role.
    Base,
    /// Command, seed, study, arm, contracts and policies.
    Command,
}

impl Part {
    /// Returns the part's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Files => "files",
            Self::Config => "config",
            Self::Code => "code",
            Self::Env => "env",
            Self::Data => "data",
            Self::Base => "base",
            Self::Command => "command",
        }
    }

    /// Returns whether it is a part of files; the others are parts of a run.
    pub const fn is_of_files(self) -> bool {
        matches!(self, Self::Tensors | Self::Files)
    }
}

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Of which part.
    pub part: Part,
    /// How: `added`, `removed`, `renamed`, `changed`, or for a tensor `dtype` and `shape`.
    pub how: &'static str,
    /// Which tensor, file or field.
    pub path: String,
    /// What the first has, if it has something.
    pub before: Option<String>,
    /// What the second has, if it has something.
    pub after: Option<String>,
}

impl Change {
    fn new(part: Part, how: &'static str, path: String) -> Self {
        Self { part, how, path, before: None, after: None }
    }

    fn from(mut self, text: impl Into<String>) -> Self {
        self.before = Some(text.into());
        self
    }

    fn to(mut self, text: impl Into<String>) -> Self {
        self.after = Some(text.into());
        self
    }
}

/// Everything that was found out about two things.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// What differs, by part and path.
    pub changes: Vec<Change>,
    /// How many tensors, files or fields are equal, by part.
    pub same: Vec<(Part, usize)>,
    /// What could not be compared, and why.
    pub open: Vec<(Part, String)>,
}

impl Diff {
    /// Leaves only some parts; none means all.
    pub fn only(&mut self, parts: &[Part]) {
        let is_meant = |part: &Part| parts.is_empty() || parts.contains(part);
        self.changes.retain(|change| is_meant(&change.part));
        self.same.retain(|(part, _)| is_meant(part));
        self.open.retain(|(part, _)| is_meant(part));
    }
}

/// One of the two things.
#[derive(Debug)]
pub enum Side {
    /// Files, recorded or lying somewhere.
    Files(Files),
    /// The inputs of a run.
    Run(Box<Plan>),
}

/// Files and the tensors in them. `Err` says why there are none to compare.
#[derive(Debug)]
pub struct Files {
    files: Result<BTreeMap<Vec<u8>, File>, String>,
    tensors: Result<Vec<Tensor>, String>,
}

/// What a name stands for; of recorded data that is one file, the size is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum File {
    Regular { size: Option<u64>, exec: bool, id: ObjectId },
    Link(Vec<u8>),
}

impl File {
    fn text(&self) -> String {
        match self {
            Self::Regular { size: Some(size), id, .. } => format!("{size} bytes {}", digest(*id)),
            Self::Regular { size: None, id, .. } => digest(*id),
            Self::Link(target) => format!("-> {}", escape(target)),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Regular { id: a, .. }, Self::Regular { id: b, .. }) => a == b,
            (a, b) => a == b,
        }
    }
}

/// A digest for people, as `b3:9c1d04aa10e0`.
fn digest(id: ObjectId) -> String {
    format!("b3:{}", &id.to_hex()[..12])
}

impl Files {
    /// Returns whether there are tensors to compare.
    pub const fn has_tensors(&self) -> bool {
        self.tensors.is_ok()
    }
}

impl Side {
    /// Reads what lies at a path.
    pub fn at(path: &Path, progress: &(dyn Fn(u64) + Sync)) -> Result<Self, Error> {
        let tree = walk::observe(path, &Options::new(Digests::Blake3), progress)?;
        let found = weights::observe(&tree, path)?;
        let files = tree.files.iter().map(|file| {
            let regular = File::Regular { size: Some(file.size), exec: file.exec, id: file.blake3 };
            (file.path.clone(), regular)
        });
        let links = tree.links.iter().map(|(path, target)| (path.clone(), File::Link(target.clone())));
        let shown = path.display();
        let tensors = match &found.tensors {
            Some(set) => Tensors::decode(&set.bytes)
                .map(|tensors| tensors.tensors)
                .map_err(|error| format!("the tensors of `{shown}` cannot be listed: {error}")),
            None => Err(match found.incomplete().next() {
                Some(problem) => format!("`{shown}` is not whole: {problem}"),
                None => format!("the weights of `{shown}` are not all safetensors files ({})", found.format),
            }),
        };
        Ok(Self::Files(Files { files: Ok(files.chain(links).collect()), tensors }))
    }

    /// Reads what is recorded: a checkpoint, model or dataset, a run or an attempt of it.
    pub fn of(ledger: &Ledger, id: TypedId) -> Result<Self, Error> {
        let no_tensors = || Err(format!("no tensors are recorded of {}", id.short()));
        match id.kind {
            Kind::Plan => Ok(Self::Run(Box::new(ledger.record(id.id)?))),
            Kind::Start => match ledger.state().attempt(id.id) {
                Some(attempt) => Ok(Self::Run(Box::new(ledger.record(attempt.plan)?))),
                None => Err(Error::Kind { id }),
            },
            Kind::Checkpoint => {
                let record: Checkpoint = ledger.record(id.id)?;
                let tensors = match record.tensors {
                    Some(tensors) => listed_tensors(ledger, id, tensors.id),
                    None => no_tensors(),
                };
                Ok(Self::Files(Files { files: listed(ledger, id, record.full), tensors }))
            }
            Kind::Model | Kind::Dataset => {
                let root = if id.kind == Kind::Model {
                    ledger.record::<Model>(id.id)?.root
                } else {
                    ledger.record::<Dataset>(id.id)?.root
                };
                Ok(Self::Files(Files { files: listed(ledger, id, root), tensors: no_tensors() }))
            }
            Kind::Tree => Ok(Self::Files(Files { files: listed(ledger, id, id), tensors: no_tensors() })),
            _ => Err(Error::Kind { id }),
        }
    }
}

/// Lists the files below a recorded root.
fn listed(ledger: &Ledger, id: TypedId, root: TypedId) -> Result<BTreeMap<Vec<u8>, File>, String> {
    if root.kind == Kind::Blob {
        // A single file stands for itself, whatever its name.
        return Ok([(Vec::new(), File::Regular { size: None, exec: false, id: root.id })].into());
    }
    let entries = content::list(root.id, &mut |node| ledger.store().get(node, MAX_RECORD))
        .map_err(|error| format!("the files of {} cannot be listed: {error}", id.short()))?;
    let file = |(path, what)| match what {
        What::File { exec, size, id } => Some((path, File::Regular { size: Some(size), exec, id })),
        What::Link(target) => Some((path, File::Link(target))),
        What::Dir(_) => None,
    };
    Ok(entries.into_iter().filter_map(file).collect())
}

fn listed_tensors(ledger: &Ledger, id: TypedId, tensors: ObjectId) -> Result<Vec<Tensor>, String> {
    let failed =
        |error: &dyn std::error::Error| format!("the tensors of {} cannot be listed: {error}", id.short());
    let bytes = ledger.store().get(tensors, MAX_RECORD).map_err(|error| failed(&error))?;
    Ok(Tensors::decode(&bytes).map_err(|error| failed(&error))?.tensors)
}

/// Compares two things, the first being what was before.
pub fn diff(ledger: &Ledger, before: &Side, after: &Side) -> Result<Diff, Error> {
    match (before, after) {
        (Side::Files(before), Side::Files(after)) => Ok(of_files(before, after)),
        (Side::Run(before), Side::Run(after)) => of_runs(ledger, before, after),
        _ => Err(Error::Mixed),
    }
}

fn of_files(before: &Files, after: &Files) -> Diff {
    let mut diff = Diff::default();
    match (&before.tensors, &after.tensors) {
        (Ok(before), Ok(after)) => {
            let same = tensors(before, after, &mut diff.changes);
            diff.same.push((Part::Tensors, same));
        }
        // Data has no tensors, and nobody would miss them.
        (Err(_), Err(_)) => {
            let why = [before, after].into_iter().find_map(|side| side.tensors.as_ref().err());
            diff.open.extend(why.map(|why| (Part::Tensors, why.clone())));
        }
        (Err(why), _) | (_, Err(why)) => diff.open.push((Part::Tensors, why.clone())),
    }
    match (&before.files, &after.files) {
        (Ok(before), Ok(after)) => {
            let same = files(Part::Files, "", before, after, &mut diff.changes);
            diff.same.push((Part::Files, same));
        }
        (Err(why), _) | (_, Err(why)) => diff.open.push((Part::Files, why.clone())),
    }
    diff
}

/// Lists what differs between two sets of tensors, and returns how many are equal.
///
/// A tensor that has only another name is one change. Two of one content are told apart by nothing but their
/// names, so then neither counts as renamed.
pub fn tensors(before: &[Tensor], after: &[Tensor], changes: &mut Vec<Change>) -> usize {
    let by_name = |tensors: &[Tensor]| -> BTreeMap<String, Tensor> {
        tensors.iter().map(|tensor| (tensor.name.clone(), tensor.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let content = |tensor: &Tensor| (tensor.id, tensor.dtype.clone(), tensor.shape.clone());
    let renamed = renamed(&before, &after, &content);
    let new_names: BTreeSet<&String> = renamed.values().copied().collect();
    let name = |name: &str| escape(name.as_bytes());
    let change = |how, path: &str| Change::new(Part::Tensors, how, name(path));
    let mut same = 0;
    for (path, was) in &before {
        let Some(is) = after.get(path) else {
            changes.push(match renamed.get(path) {
                Some(new) => change("renamed", path).from(name(path)).to(name(new)),
                None => change("removed", path).from(form(was)),
            });
            continue;
        };
        let (dtype, shape) = (was.dtype != is.dtype, was.shape != is.shape);
        if dtype {
            changes.push(change("dtype", path).from(was.dtype.as_str()).to(is.dtype.as_str()));
        }
        if shape {
            changes.push(change("shape", path).from(shape_text(&was.shape)).to(shape_text(&is.shape)));
        }
        if was.id != is.id && !dtype && !shape {
            changes.push(change("changed", path).from(digest(was.id)).to(digest(is.id)));
        }
        same += usize::from(was.id == is.id && !dtype && !shape);
    }
    let added = after.iter().filter(|(path, _)| !before.contains_key(*path) && !new_names.contains(path));
    changes.extend(added.map(|(path, is)| change("added", path).to(form(is))));
    same
}

/// Pairs what is gone under one name with what has come under another, where the content leaves no choice.
fn renamed<'a, K: Ord, V, C: Ord>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
    content: &dyn Fn(&V) -> C,
) -> BTreeMap<&'a K, &'a K> {
    let only_in = |one: &'a BTreeMap<K, V>, other: &BTreeMap<K, V>| {
        let mut found: BTreeMap<C, Vec<&'a K>> = BTreeMap::new();
        for (key, value) in one.iter().filter(|(key, _)| !other.contains_key(*key)) {
            found.entry(content(value)).or_default().push(key);
        }
        found
    };
    let (gone, come) = (only_in(before, after), only_in(after, before));
    let pair = |(content, old): (C, Vec<&'a K>)| match (&old[..], come.get(&content).map(Vec::as_slice)) {
        ([old], Some([new])) => Some((*old, *new)),
        _ => None,
    };
    gone.into_iter().filter_map(pair).collect()
}

fn form(tensor: &Tensor) -> String {
    format!("{} {}", tensor.dtype, shape_text(&tensor.shape))
}

fn shape_text(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Lists what differs between two sets of files, and returns how many are equal.
fn files(
    part: Part,
    role: &str,
    before: &BTreeMap<Vec<u8>, File>,
    after: &BTreeMap<Vec<u8>, File>,
    changes: &mut Vec<Change>,
) -> usize {
    let name = |path: &[u8]| match (role, path) {
        ("", path) => escape(path),
        (role, []) => escape(role.as_bytes()),
        (role, path) => escape(&content::join(role.as_bytes(), path)),
    };
    // A single file has no name of its own where it is recorded.
    if let ([(_, was)], [(path, is)]) = (&entries(before)[..], &entries(after)[..])
        && (before.contains_key(&Vec::new()) || after.contains_key(&Vec::new()))
    {
        if !was.is_same(is) {
            changes.push(Change::new(part, "changed", name(path)).from(was.text()).to(is.text()));
        }
        return usize::from(was.is_same(is));
    }
    // Empty files are equal without being the same one.
    let content = |file: &File| match file {
        File::Regular { size: Some(0), .. } | File::Link(_) => None,
        File::Regular { id, .. } => Some(*id),
    };
    let renamed: BTreeMap<_, _> = renamed(before, after, &content)
        .into_iter()
        .filter(|(old, _)| before.get(*old).is_some_and(|file| content(file).is_some()))
        .collect();
    let new_names: BTreeSet<&Vec<u8>> = renamed.values().copied().collect();
    let mut same = 0;
    for (path, was) in before {
        let Some(is) = after.get(path) else {
            changes.push(match renamed.get(path) {
                Some(new) => Change::new(part, "renamed", name(path)).from(name(path)).to(name(new)),
                None => Change::new(part, "removed", name(path)).from(was.text()),
            });
            continue;
        };
        match (was, is) {
            (was, is) if was == is => same += 1,
            (File::Regular { exec, .. }, File::Regular { .. }) if was.is_same(is) => {
                let bit = |is_set: bool| if is_set { "executable" } else { "not executable" };
                let change = Change::new(part, "mode", name(path));
                changes.push(change.from(bit(*exec)).to(bit(!*exec)));
            }
            (was, is) => {
                changes.push(Change::new(part, "changed", name(path)).from(was.text()).to(is.text()));
            }
        }
    }
    let added = after.iter().filter(|(path, _)| !before.contains_key(*path) && !new_names.contains(path));
    changes.extend(added.map(|(path, is)| Change::new(part, "added", name(path)).to(is.text())));
    same
}

fn entries(files: &BTreeMap<Vec<u8>, File>) -> Vec<(&Vec<u8>, &File)> {
    files.iter().take(2).collect()
}

fn of_runs(ledger: &Ledger, before: &Plan, after: &Plan) -> Result<Diff, Error> {
    let drift = acts::compare_recorded(ledger, before, after)?;
    let mut diff = Diff::default();
    let mut same: BTreeMap<Part, usize> = BTreeMap::new();
    for word in &drift.same {
        *same.entry(part_of(word)).or_default() += 1;
    }
    for found in drift.differences {
        let part = part_of(&found.part);
        let path = match (part, found.path.as_str()) {
            (Part::Config | Part::Code, path) if !path.is_empty() => path.to_owned(),
            (_, "") => found.part.clone(),
            (_, path) => path.to_owned(),
        };
        diff.changes.push(Change::new(part, "changed", path).from(found.frozen).to(found.found));
    }
    for (part, before, after) in
        [(Part::Data, &before.data, &after.data), (Part::Base, &before.base, &after.base)]
    {
        let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (before.iter().cloned().collect(), after.iter().cloned().collect());
        for (role, was) in &before {
            match after.get(role) {
                None => {
                    diff.changes
                        .push(Change::new(part, "removed", escape(role.as_bytes())).from(was.short()));
                }
                Some(is) if is == was => *same.entry(part).or_default() += 1,
                Some(is) => of_inputs(ledger, part, role, *was, *is, &mut diff)?,
            }
        }
        let added = after.iter().filter(|(role, _)| !before.contains_key(*role));
        let change = |role: &String| Change::new(part, "added", escape(role.as_bytes()));
        diff.changes.extend(added.map(|(role, is)| change(role).to(is.short())));
    }
    diff.changes.sort_by_key(|change| change.part);
    diff.same = same.into_iter().collect();
    Ok(diff)
}

/// Names the files by which two inputs of one role differ.
fn of_inputs(
    ledger: &Ledger,
    part: Part,
    role: &str,
    was: TypedId,
    is: TypedId,
    diff: &mut Diff,
) -> Result<(), Error> {
    let read = |id: TypedId| match Side::of(ledger, id) {
        Ok(Side::Files(files)) => Ok(files.files.ok()),
        Ok(Side::Run(_)) | Err(Error::Kind { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let count = diff.changes.len();
    if let (Some(before), Some(after)) = (read(was)?, read(is)?) {
        files(part, role, &before, &after, &mut diff.changes);
    }
    if diff.changes.len() == count {
        let change = Change::new(part, "changed", escape(role.as_bytes()));
        diff.changes.push(change.from(was.short()).to(is.short()));
    }
    Ok(())
}

/// Returns the part that a word of a comparison of plans belongs to.
fn part_of(word: &str) -> Part {
    match word {
        "config" => Part::Config,
        "code" => Part::Code,
        "lock" | "environment" => Part::Env,
        _ => Part::Command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::object_id;

    fn tensor(name: &str, dtype: &str, shape: &[u64], bytes: &[u8]) -> Tensor {
        Tensor { name: name.into(), dtype: dtype.into(), shape: shape.to_vec(), id: object_id(bytes) }
    }

    fn told(before: &[Tensor], after: &[Tensor]) -> (Vec<String>, usize) {
        let mut changes = Vec::new();
        let same = tensors(before, after, &mut changes);
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let line = |one: Change| format!("{} {} {} {}", one.how, one.path, text(one.before), text(one.after));
        (changes.into_iter().map(line).collect(), same)
    }

    #[test]
    fn tensors_differ_by_name_type_shape_or_bytes() {
        let before = [
            tensor("bytes", "F32", &[2], b"1"),
            tensor("dtype", "F32", &[2], b"2"),
            tensor("gone", "I64", &[], b"3"),
            tensor("same", "F32", &[2], b"4"),
            tensor("shape", "F32", &[2, 3], b"5"),
        ];
        let after = [
            tensor("bytes", "F32", &[2], b"6"),
            tensor("come", "F32", &[7], b"7"),
            tensor("dtype", "BF16", &[2], b"8"),
            tensor("same", "F32", &[2], b"4"),
            tensor("shape", "F32", &[3, 2], b"5"),
        ];
        let (lines, same) = told(&before, &after);
        let digests = [digest(object_id(b"1")), digest(object_id(b"6"))].join(" ");
        let expected = [
            format!("changed bytes {digests}"),
            "dtype dtype F32 BF16".to_owned(),
            "removed gone I64 [] -".to_owned(),
            "shape shape [2, 3] [3, 2]".to_owned(),
            "added come - F32 [7]".to_owned(),
        ];
        assert_eq!((lines, same), (expected.to_vec(), 1));
        assert_eq!(told(&before, &before), (vec![], 5));
    }

    #[test]
    fn a_tensor_under_another_name_is_one_change_unless_two_could_be_meant() {
        let of =
            |names: &[&str]| names.iter().map(|name| tensor(name, "F32", &[1], b"x")).collect::<Vec<_>>();
        assert_eq!(told(&of(&["a"]), &of(&["b"])), (vec!["renamed a a b".to_owned()], 0));
        let (lines, _) = told(&of(&["a"]), &of(&["b", "c"]));
        assert_eq!(lines, ["removed a F32 [1] -", "added b - F32 [1]", "added c - F32 [1]"]);
    }

    #[test]
    fn files_differ_by_name_bytes_and_mode() {
        let file =
            |bytes: &[u8], exec| File::Regular { size: Some(bytes.len() as u64), exec, id: object_id(bytes) };
        let set = |list: &[(&str, File)]| -> BTreeMap<Vec<u8>, File> {
            list.iter().map(|(name, file)| (name.as_bytes().to_vec(), file.clone())).collect()
        };
        let before = set(&[
            ("a", file(b"1", false)),
            ("empty", file(b"", false)),
            ("link", File::Link(b"a".to_vec())),
            ("moved", file(b"2", false)),
            ("run.sh", file(b"3", false)),
            ("same", file(b"4", false)),
        ]);
        let after = set(&[
            ("a", file(b"5", false)),
            ("empty2", file(b"", false)),
            ("elsewhere", file(b"2", false)),
            ("link", File::Link(b"same".to_vec())),
            ("run.sh", file(b"3", true)),
            ("same", file(b"4", false)),
        ]);
        let mut changes = Vec::new();
        assert_eq!(files(Part::Files, "", &before, &after, &mut changes), 1);
        let told: Vec<(&str, &str)> = changes.iter().map(|one| (one.how, one.path.as_str())).collect();
        let expected = [
            ("changed", "a"),
            ("removed", "empty"),
            ("changed", "link"),
            ("renamed", "moved"),
            ("mode", "run.sh"),
            ("added", "empty2"),
        ];
        assert_eq!(told, expected);
        changes.clear();
        assert_eq!(files(Part::Data, "train", &before, &set(&[]), &mut changes), 0);
        assert_eq!((changes.len(), changes[0].path.as_str()), (6, "train/a"));
        // Recorded as one file, found under a name.
        let one =
            BTreeMap::from([(Vec::new(), File::Regular { size: None, exec: false, id: object_id(b"1") })]);
        changes.clear();
        assert_eq!(files(Part::Files, "", &one, &set(&[("x.csv", file(b"1", true))]), &mut changes), 1);
        assert_eq!(files(Part::Files, "", &one, &set(&[("x.csv", file(b"2", false))]), &mut changes), 0);
        assert_eq!((changes.len(), changes[0].path.as_str()), (1, "x.csv"));
    }
}
