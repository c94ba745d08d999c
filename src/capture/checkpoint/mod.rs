//! Reads a checkpoint: who wrote it, what each file is for, which tensors it holds, and whether it is whole.
//!
//! Nothing is ever unpickled, and no rule here decides later which files count: the set that is found goes
//! into the record as data. Hashing whole files is `walk`'s work, reading one weights file `safetensors`'s.
//!
//! | file | what it knows |
//! |---|---|
//! | `layout` | which library's directory it is |
//! | `role` | what a file is for |
//! | `shards`, `tensors` | indexes, numbered files, and the tensors in them |
//! | `ranks` | files that every rank writes; torch DCP |
//! | `torch`, `zip`, `pickle` | archives of `torch.save`, looked through without running them |
//! | `gguf`, `onnx` | headers of other formats |
//! | `trained` | step, epoch, tokens, adapter, and saves that were cut off |
//! | `pointers` | what stands in the place of a file |
//! | `described` | all of it as one JSON document, and in words |

mod archive;
mod described;
mod gguf;
mod layout;
mod onnx;
mod pickle;
mod pointers;
mod problem;
mod ranks;
mod role;
mod shards;
mod tensors;
mod torch;
mod trained;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::capture::walk::{self, Root, Seen, Tree};
use crate::id::object_id;
use crate::model::content::{escape, split};

pub use described::{Description, SCHEMA};
pub use layout::Layout;
pub use problem::{Problem, Severity};
pub use role::Role;
pub use tensors::TensorSet;
pub use torch::Pickle;
pub use trained::{Adapter, Training};

use layout::Parts;
use ranks::ByFile;

/// Why a checkpoint could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened.
    #[error(transparent)]
    Open(#[from] walk::Error),
    /// Reading failed.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The tensors are not those of the bytes that were hashed before.
    #[error("`{}` changed after it was hashed", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

/// What a checkpoint directory holds.
#[derive(Debug)]
pub struct Weights {
    /// The form of the weights in one word, such as `safetensors` or `torch-pickle`.
    pub format: &'static str,
    /// Whose directory it is.
    pub layout: Layout,
    /// The files that a loader reads: weights, indexes, configuration, tokenizer, custom code.
    pub weights: BTreeSet<Vec<u8>>,
    /// What each file is for.
    pub roles: BTreeMap<Vec<u8>, Role>,
    /// The tensors, if all weights are safetensors files that agree with each other.
    pub tensors: Option<TensorSet>,
    /// What is wrong, fatal or not.
    pub problems: Vec<Problem>,
    /// The training step, from the directory's name or the trainer's state.
    pub step: Option<u64>,
    /// How far the training had come.
    pub training: Training,
    /// The adapter that it is, without the model that it adapts.
    pub adapter: Option<Adapter>,
    /// The ranks that left files of their own; none where all was written by one process.
    pub ranks: BTreeSet<u32>,
    /// Checkpoints inside, each of which may be recorded by itself.
    pub inside: Vec<Inside>,
    /// Files that run code when they are loaded.
    pub pickles: Vec<Pickle>,
    /// What the headers of files say of themselves, in words.
    pub headers: Vec<(Vec<u8>, String)>,
    /// Whether a configuration asks for the code that lies beside it, as `trust_remote_code` lets it run.
    pub has_custom_code: bool,
}

/// A checkpoint inside another directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// Its path.
    pub path: Vec<u8>,
    /// Whose directory it is.
    pub layout: Layout,
    /// Its step, if its name says so.
    pub step: Option<u64>,
    /// Whether nothing is missing in it.
    pub is_complete: bool,
}

impl Weights {
    /// Returns the problems for which the directory is not a whole checkpoint.
    pub fn incomplete(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity() > Severity::Note)
    }

    /// Returns the problems for which the weights cannot be used, whether or not a training could go on.
    pub fn unusable(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_fatal())
    }

    /// Returns the pointers that stand in the place of weights.
    pub fn pointers(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity() == Severity::Pointer)
    }
}

/// Reads the checkpoint at `dir` that was walked before; `dir` may also be one weights file.
///
/// Whether it is whole is an answer, not an error: see [`Weights::incomplete`].
pub fn observe(tree: &Tree, dir: &Path) -> Result<Weights, Error> {
    let scene = Scene { tree, dir };
    let mut problems = Vec::new();
    let parts = layout::recognise(&scene)?;
    let data = onnx::external(&scene, &mut problems)?;
    let mut roles = role::assign(tree, &parts, &data);
    if tree.files.is_empty() && !tree.links.iter().any(|(path, _)| role::by_name(path).is_read()) {
        problems.push(Problem::Empty);
    }
    pointers::check(&scene, &roles, &mut problems)?;
    let (pickles, found) = look_at_archives(&scene, &roles, &mut problems)?;
    let mut headers = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(b".gguf")) {
        let path = file.path.clone();
        match gguf::check(&scene, file)? {
            Ok(header) => headers.push((path, header.to_string())),
            Err(why) => problems.push(Problem::Malformed { path, format: "GGUF", why, is_weights: true }),
        }
    }
    let indexes = shards::check(&scene, &roles, &mut problems)?;
    let ranks = ranks::check(&scene, &parts, &found, &mut problems);
    ranks::check_dcp(&scene, &found, &mut problems);
    for problem in &problems {
        // No loader reads what its index does not name.
        if let Problem::ExtraShard { path, .. } = problem {
            roles.insert(path.clone(), Role::Other);
        }
    }
    let weights = role::read_by_loader(&roles);
    let tensors = tensors::read(&scene, &roles, &indexes, &mut problems)?;
    trained::check_interrupted(&scene, &parts, &mut problems);
    let training = trained::read(&scene, &parts, &found, &mut problems)?;
    let is_script = pickles.iter().any(|pickle| pickle.is_script);
    let layout = match layout::whole(&parts) {
        Layout::Torch if is_script && tree.root != Root::Dir => Layout::TorchScript,
        layout => layout,
    };
    Ok(Weights {
        format: format_of(tree, &weights),
        layout,
        inside: inside(&scene, &parts, &problems),
        tensors,
        step: training.step,
        training,
        adapter: trained::adapter(&scene)?,
        ranks,
        pickles,
        headers,
        has_custom_code: trained::has_custom_code(&scene)?,
        weights,
        roles,
        problems,
    })
}

/// Looks at everything that may be an archive or a pickle.
fn look_at_archives(
    scene: &Scene<'_>,
    roles: &BTreeMap<Vec<u8>, Role>,
    problems: &mut Vec<Problem>,
) -> Result<(Vec<Pickle>, ByFile), Error> {
    let files: Vec<&Seen> = scene.tree.files.iter().filter(|file| torch::may_be(&file.path)).collect();
    let role = |file: &Seen| roles.get(&file.path).copied().unwrap_or(Role::Other);
    let looks = files
        .par_iter()
        .map(|file| torch::look(scene, file, role(file)))
        .collect::<Result<Vec<_>, Error>>()?;
    let (mut pickles, mut found) = (Vec::new(), ByFile::new());
    for (file, look) in files.into_iter().zip(looks) {
        if look.pickle.is_some() {
            found.insert(file.path.clone(), look.found);
        }
        pickles.extend(look.pickle);
        problems.extend(look.problem);
    }
    Ok((pickles, found))
}

/// Lists the checkpoints inside: parts that are named for a step, or everything where the whole has no layout.
fn inside(scene: &Scene<'_>, parts: &Parts, problems: &[Problem]) -> Vec<Inside> {
    let is_complete = |path: &[u8]| {
        let is_in =
            |at: &[u8]| at == path || at.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
        let mut bad = problems.iter().filter(|problem| problem.severity() > Severity::Note);
        !bad.any(|problem| problem.path().is_some_and(is_in))
    };
    let step = |path: &[u8]| trained::step_in_name(&String::from_utf8_lossy(split(path).1));
    let has_own = parts.dirs.contains_key(&b""[..]);
    let mut found = Vec::new();
    for (dir, layout) in parts.dirs.iter().filter(|(dir, _)| !dir.is_empty()) {
        let number = || std::str::from_utf8(split(dir).1).ok().and_then(|name| name.parse().ok());
        let step = step(dir).or_else(|| if *layout == Layout::Orbax { number() } else { None });
        // What lies in a checkpoint that is listed already is a part of it.
        let is_within = found.iter().any(|outer: &Inside| {
            dir.strip_prefix(&outer.path[..]).is_some_and(|rest| rest.starts_with(b"/"))
        });
        if !is_within && *layout != Layout::Lightning && (!has_own || step.is_some()) {
            found.push(Inside { path: dir.clone(), layout: *layout, step, is_complete: is_complete(dir) });
        }
    }
    // Each file of Lightning is a checkpoint by itself.
    if scene.tree.root == Root::Dir {
        for file in &scene.tree.files {
            let layout = parts.of(&file.path).map(|(_, layout)| layout);
            if file.path.ends_with(b".ckpt") && layout == Some(Layout::Lightning) {
                let (path, step) = (file.path.clone(), step(&file.path));
                let is_complete = is_complete(&path);
                found.push(Inside { path, layout: Layout::Lightning, step, is_complete });
            }
        }
    }
    found
}

fn format_of(tree: &Tree, weights: &BTreeSet<Vec<u8>>) -> &'static str {
    let any = |end: &str| weights.iter().any(|path| path.ends_with(end.as_bytes()));
    let known = [
        (".safetensors.index.json", "sharded-safetensors"),
        (".safetensors", "safetensors"),
        (".distcp", "torch-dcp"),
        (".gguf", "gguf"),
        (".onnx", "onnx"),
        (".npz", "numpy"),
        (".npy", "numpy"),
        (".bin", "torch-pickle"),
        (".pt", "torch-pickle"),
        (".pth", "torch-pickle"),
        (".ckpt", "torch-pickle"),
        ("manifest.ocdbt", "ocdbt"),
    ];
    match known.iter().find(|(end, _)| any(end)) {
        Some((_, format)) => format,
        None if tree.root == Root::Dir => "files",
        None => "file",
    }
}

/// The path under observation.
struct Scene<'a> {
    tree: &'a Tree,
    dir: &'a Path,
}

impl Scene<'_> {
    fn locate(&self, path: &[u8]) -> PathBuf {
        self.tree.place_of(self.dir, path)
    }

    /// Returns the name of the directory or file itself.
    fn own_name(&self) -> Vec<u8> {
        // A path such as `.` has no name of its own.
        let whole = if self.dir.file_name().is_none() { self.dir.canonicalize().ok() } else { None };
        let name = whole.as_deref().unwrap_or(self.dir).file_name();
        name.map(|name| name.as_bytes().to_vec()).unwrap_or_default()
    }

    /// Reads a small file, and makes sure that it is the one that was hashed; a larger one is left alone.
    fn read_small(&self, file: &Seen, most: u64) -> Result<Option<Vec<u8>>, Error> {
        if file.size > most {
            return Ok(None);
        }
        let path = self.locate(&file.path);
        let (open, _) = walk::open_regular(&path)?;
        let mut bytes = Vec::with_capacity(file.size as usize);
        match open.take(file.size.saturating_add(1)).read_to_end(&mut bytes) {
            Err(source) => Err(Error::Read { path, source }),
            Ok(_) if object_id(&bytes) != file.blake3 => Err(Error::Changed { path }),
            Ok(_) => Ok(Some(bytes)),
        }
    }
}

/// Returns a path as it is shown.
fn shown(path: &[u8]) -> String {
    escape(path)
}

#[cfg(test)]
mod tests;
