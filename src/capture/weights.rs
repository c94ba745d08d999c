//! Reads a checkpoint directory: which files a loader reads, which tensors they hold, and whether it is whole.
//!
//! Nothing is ever unpickled, and no rule here decides later which files count: the set that is found goes
//! into the record as data. Hashing whole files is `walk`'s work, reading one weights file
//! `safetensors`'s, and the names of shards are understood by `shards`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::capture::safetensors;
use crate::capture::shards::{Index, Shard, ShardSet};
use crate::capture::walk::{self, Root, Seen, Tree};
use crate::id::{ObjectId, object_id};
use crate::model::content::{self, escape, join, split};

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
    /// The files that a loader reads: weights, configuration, tokenizer, custom code.
    pub weights: BTreeSet<Vec<u8>>,
    /// The tensors, if all weights are safetensors files that agree with each other.
    pub tensors: Option<TensorSet>,
    /// What is wrong, fatal or not.
    pub problems: Vec<Problem>,
    /// The training step, from the directory's name or the trainer's state.
    pub step: Option<u64>,
    /// Weights that run code when they are loaded.
    pub unsafe_pickles: Vec<Vec<u8>>,
}

impl Weights {
    /// Returns the problems for which the directory is not a whole checkpoint.
    pub fn incomplete(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_fatal())
    }
}

/// The record over all tensors of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSet {
    /// Its id.
    pub id: ObjectId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How many tensors there are.
    pub count: usize,
}

/// Something that is wrong with a checkpoint. Paths are relative to its directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// There is no file at all.
    #[error("there is no file in it")]
    Empty,
    /// A pointer of git-lfs lies where the weights should be.
    #[error(
        "`{}` is a git-lfs pointer of {size} bytes, not the file itself; `git lfs pull` fetches it",
        escape(path)
    )]
    LfsPointer {
        /// The file.
        path: Vec<u8>,
        /// Bytes of the pointer.
        size: u64,
    },
    /// DVC describes a file that was not fetched.
    #[error("`{}` describes a file that is not there; `dvc pull` fetches it", escape(path))]
    DvcPointer {
        /// The `.dvc` file.
        path: Vec<u8>,
    },
    /// A loader would follow this link out of what was hashed.
    #[error(
        "`{}` is a symbolic link to `{}`, which is not a file of the checkpoint; `cp -rL` makes a whole copy",
        escape(path),
        escape(target)
    )]
    Link {
        /// The link.
        path: Vec<u8>,
        /// Where it points.
        target: Vec<u8>,
    },
    /// A safetensors file is cut short or malformed.
    #[error("`{}` is not a whole safetensors file", escape(path))]
    Damaged {
        /// The file.
        path: Vec<u8>,
        /// What is wrong with it.
        #[source]
        source: safetensors::Damage,
    },
    /// An archive of `torch.save` or numpy has no end.
    #[error("`{}` is cut short: its archive has no directory at the end", escape(path))]
    TornArchive {
        /// The file.
        path: Vec<u8>,
        /// Whether a loader reads it, or only a resumed training.
        is_weights: bool,
    },
    /// Some files of a sharded set are not there.
    #[error("`{}` needs {} more: {}", escape(path), files(*count), some(named, *count))]
    MissingShards {
        /// The index, or a shard whose name tells how many there are.
        path: Vec<u8>,
        /// How many are missing.
        count: usize,
        /// The names of the first few.
        named: Vec<String>,
    },
    /// A shard that the index does not name, so that no loader reads it.
    #[error("`{}` is not named by `{}`", escape(path), escape(index))]
    ExtraShard {
        /// The shard.
        path: Vec<u8>,
        /// The index beside it.
        index: Vec<u8>,
    },
    /// An index that cannot be understood in one way.
    #[error("`{}` is not an index of shards: {why}", escape(path))]
    BadIndex {
        /// The index.
        path: Vec<u8>,
        /// What is wrong with it.
        why: String,
    },
    /// The index promises a tensor that its shard does not hold.
    #[error("`{}` names tensor `{}` in `{}`, which does not hold it", escape(index), escape(tensor.as_bytes()), escape(shard))]
    NotInShard {
        /// The index.
        index: Vec<u8>,
        /// The tensor.
        tensor: String,
        /// The shard.
        shard: Vec<u8>,
    },
    /// Two files hold a tensor of one name, and which one a loader takes is not known here.
    #[error("tensor `{}` stands in `{}` and in `{}`", escape(tensor.as_bytes()), escape(first), escape(second))]
    TensorTwice {
        /// The tensor.
        tensor: String,
        /// One file.
        first: Vec<u8>,
        /// The other.
        second: Vec<u8>,
    },
    /// The record over all tensors would be larger than a record may be.
    #[error("{count} tensors are too many for one record; files are compared instead")]
    TooManyTensors {
        /// How many there are.
        count: usize,
    },
    /// Part files of a distributed checkpoint whose description is written last.
    #[error("`{}` is missing, so the save did not finish", escape(path))]
    Unfinished {
        /// The file that is written last.
        path: Vec<u8>,
    },
    /// The name of the directory and the trainer's state give different steps.
    #[error("the name says step {named}, `{}` says {stated}", escape(path))]
    StepDiffers {
        /// The state file.
        path: Vec<u8>,
        /// Step in the name, which is the one taken.
        named: u64,
        /// Step in the file.
        stated: u64,
    },
}

impl Problem {
    /// Returns whether the weights are not all there.
    pub const fn is_fatal(&self) -> bool {
        match self {
            Self::ExtraShard { .. }
            | Self::TensorTwice { .. }
            | Self::TooManyTensors { .. }
            | Self::StepDiffers { .. } => false,
            Self::TornArchive { is_weights, .. } => *is_weights,
            _ => true,
        }
    }
}

/// Of many missing files this many are named.
const NAMED: usize = 4;

fn files(count: usize) -> String {
    if count == 1 { "one file".into() } else { format!("{count} files") }
}

fn some(named: &[String], count: usize) -> String {
    let mut text: Vec<String> = named.iter().map(|name| format!("`{}`", escape(name.as_bytes()))).collect();
    if named.len() < count {
        text.push("...".into());
    }
    text.join(", ")
}

/// Reads the checkpoint at `dir` that was walked before; `dir` may also be one weights file.
///
/// Whether it is whole is an answer, not an error: see [`Weights::incomplete`].
pub fn observe(tree: &Tree, dir: &Path) -> Result<Weights, Error> {
    let checkpoint = Checkpoint { tree, dir };
    let mut problems = Vec::new();
    let weights = checkpoint.loader_reads();
    if weights.is_empty() {
        problems.push(Problem::Empty);
    }
    let mut unsafe_pickles = Vec::new();
    for file in &tree.files {
        checkpoint.probe(file, weights.contains(&file.path), &mut problems, &mut unsafe_pickles)?;
    }
    checkpoint.check_links(&mut problems);
    let indexes = checkpoint.check_shards(&weights, &mut problems)?;
    let tensors = checkpoint.tensors(&weights, &indexes, &mut problems)?;
    let step = checkpoint.step(&mut problems)?;
    Ok(Weights { format: format_of(tree, &weights), weights, tensors, problems, step, unsafe_pickles })
}

/// File names and suffixes of weights themselves.
const WEIGHTS: [&str; 14] = [
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".npz",
    ".npy",
    ".gguf",
    ".onnx",
    ".onnx.data",
    ".onnx_data",
    ".distcp",
    ".h5",
    ".msgpack",
];
/// Files that a loader reads beside the weights.
const BESIDE: [&str; 22] = [
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "quantization_config.json",
    "quantize_config.json",
    "model_index.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "params.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    ".metadata",
];
/// Beginnings of names that belong to the training, not to the model.
const TRAINING: [&str; 11] = [
    "optimizer",
    "scheduler",
    "rng_state",
    "random_states",
    "sampler",
    "dl_state_dict",
    "custom_checkpoint",
    "training_args.bin",
    "trainer_state.json",
    "state.json",
    "scaler",
];

/// Returns whether a path belongs to the training only; no loader of the model reads it.
fn is_training(path: &[u8]) -> bool {
    let (dirs, name) = split(path);
    TRAINING.iter().any(|start| name.starts_with(start.as_bytes()))
        || contains(name, b"optim_states")
        || dirs.split(|byte| *byte == b'/').any(|dir| dir.starts_with(b"optimizer"))
}

fn is_weights(path: &[u8]) -> bool {
    WEIGHTS.iter().any(|end| path.ends_with(end.as_bytes())) && !is_training(path)
}

fn is_beside(path: &[u8]) -> bool {
    let (dirs, name) = split(path);
    let is_python = name.ends_with(b".py");
    let is_index = name.ends_with(b".index.json");
    let is_open = name.starts_with(b"vocab.") || name.starts_with(b"chat_template.");
    let is_template = dirs.ends_with(b"additional_chat_templates");
    !is_training(path)
        && (is_python
            || is_index
            || is_open
            || is_template
            || BESIDE.iter().any(|known| name == known.as_bytes()))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
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
    ];
    match known.iter().find(|(end, _)| any(end)) {
        Some((_, format)) => format,
        None if tree.root == Root::Dir => "files",
        None => "file",
    }
}

/// The directory under observation.
struct Checkpoint<'a> {
    tree: &'a Tree,
    dir: &'a Path,
}

impl Checkpoint<'_> {
    fn locate(&self, path: &[u8]) -> PathBuf {
        match self.tree.root {
            Root::File { .. } => self.dir.to_owned(),
            Root::Dir => self.dir.join(OsStr::from_bytes(path)),
        }
    }

    fn loader_reads(&self) -> BTreeSet<Vec<u8>> {
        let paths = || self.tree.files.iter().map(|file| &file.path);
        if paths().any(|path| is_weights(path)) {
            paths().filter(|path| is_weights(path) || is_beside(path)).cloned().collect()
        } else {
            // An unknown format: a configuration alone must not stand for the whole.
            paths().cloned().collect()
        }
    }

    /// Looks at the first and last bytes of one file.
    fn probe(
        &self,
        file: &Seen,
        is_weights: bool,
        problems: &mut Vec<Problem>,
        unsafe_pickles: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        const LFS: &[u8] = b"version https://git-lfs";
        let path = || file.path.clone();
        if let Some(target) = file.path.strip_suffix(b".dvc")
            && self.tree.file(target).is_none()
            && !self.tree.dirs.iter().any(|dir| dir == target)
        {
            problems.push(Problem::DvcPointer { path: path() });
        }
        let may_be_archive = [".bin", ".pt", ".pth", ".ckpt", ".npz", ".distcp"]
            .iter()
            .any(|end| file.path.ends_with(end.as_bytes()));
        let may_be_pointer = is_weights && file.size <= 1024;
        if !may_be_archive && !may_be_pointer {
            return Ok(());
        }
        let at = self.locate(&file.path);
        let (mut open, _) = walk::open_regular(&at)?;
        let mut read = |from: SeekFrom, most: u64| {
            let mut bytes = Vec::new();
            open.seek(from).and_then(|_| (&open).take(most).read_to_end(&mut bytes))?;
            Ok::<_, io::Error>(bytes)
        };
        let failed = |source| Error::Read { path: at.clone(), source };
        let start = read(SeekFrom::Start(0), 64).map_err(failed)?;
        if may_be_pointer && start.starts_with(LFS) {
            problems.push(Problem::LfsPointer { path: path(), size: file.size });
        }
        if !may_be_archive {
            return Ok(());
        }
        let is_zip = start.starts_with(b"PK\x03\x04");
        if is_zip {
            // The end record of a zip is 22 bytes and a comment of up to 65,535.
            let tail = file.size.min(22 + 65_535);
            let end = read(SeekFrom::Start(file.size - tail), tail).map_err(failed)?;
            if !contains(&end, b"PK\x05\x06") {
                problems.push(Problem::TornArchive { path: path(), is_weights });
            }
        }
        // 0x80 opens every pickle since protocol 2; numpy archives are not unpickled by default.
        let is_pickle = start.first() == Some(&0x80) || is_zip;
        if is_weights && is_pickle && !file.path.ends_with(b".npz") {
            unsafe_pickles.push(path());
        }
        Ok(())
    }

    /// Finds links through which a loader would read what was not hashed.
    fn check_links(&self, problems: &mut Vec<Problem>) {
        for (path, target) in &self.tree.links {
            let is_inside =
                resolve(split(path).0, target).is_some_and(|target| self.tree.file(&target).is_some());
            if (is_weights(path) || is_beside(path)) && !is_inside {
                problems.push(Problem::Link { path: path.clone(), target: target.clone() });
            }
        }
    }

    /// Reads a small file, and makes sure that it is the one that was hashed.
    fn read_small(&self, file: &Seen, most: u64) -> Result<Option<Vec<u8>>, Error> {
        if file.size > most {
            return Ok(None);
        }
        let path = self.locate(&file.path);
        let (open, _) = walk::open_regular(&path)?;
        let mut bytes = Vec::new();
        match open.take(most + 1).read_to_end(&mut bytes) {
            Err(source) => Err(Error::Read { path, source }),
            Ok(_) if object_id(&bytes) != file.blake3 => Err(Error::Changed { path }),
            Ok(_) => Ok(Some(bytes)),
        }
    }

    fn read_index(&self, file: &Seen) -> Result<Result<Index, Problem>, Error> {
        const MAX_INDEX: u64 = 64 << 20;
        let bad = |why: String| Problem::BadIndex { path: file.path.clone(), why };
        let Some(bytes) = self.read_small(file, MAX_INDEX)? else {
            return Ok(Err(bad(format!("it has {} bytes", file.size))));
        };
        Ok(Index::parse(&file.path, &bytes).map_err(|error| bad(error.to_string())))
    }

    /// Compares the shards that are there with those that an index or their own names promise.
    fn check_shards(
        &self,
        weights: &BTreeSet<Vec<u8>>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<Index>, Error> {
        let mut indexes = Vec::new();
        for file in &self.tree.files {
            if !(weights.contains(&file.path) && file.path.ends_with(b".index.json")) {
                continue;
            }
            match self.read_index(file)? {
                Ok(index) => {
                    let absent = || index.shards.iter().filter(|shard| self.tree.file(shard).is_none());
                    let count = absent().count();
                    if count > 0 {
                        let text = |shard: &Vec<u8>| String::from_utf8_lossy(shard).into_owned();
                        let named = absent().take(NAMED).map(text).collect();
                        problems.push(Problem::MissingShards { path: file.path.clone(), count, named });
                    }
                    indexes.push(index);
                }
                Err(problem) => problems.push(problem),
            }
        }
        let mut sets: BTreeMap<Vec<u8>, ShardSet<'_>> = BTreeMap::new();
        for path in weights.iter().filter(|path| is_weights(path)) {
            if let Some(index) = indexes.iter().find(|index| index.governs(path)) {
                if !index.shards.contains(path) {
                    problems.push(Problem::ExtraShard { path: path.clone(), index: index.path.clone() });
                }
            } else if let Some(shard) = Shard::parse(path) {
                let set = shard.set();
                let number = shard.number;
                let set = sets.entry(set).or_insert(ShardSet { shard, path, found: BTreeSet::new() });
                set.found.insert(number);
            }
            let dir = split(path).0;
            let last = join(dir, b".metadata");
            let is_told = problems.iter().any(|p| matches!(p, Problem::Unfinished { path } if *path == last));
            if path.ends_with(b".distcp") && self.tree.file(&last).is_none() && !is_told {
                problems.push(Problem::Unfinished { path: last });
            }
        }
        for ShardSet { shard, path, found } in sets.into_values() {
            // Most writers count from one, a few from zero.
            let first = u32::from(!found.contains(&0));
            let absent = || (first..first + shard.count).filter(|number| !found.contains(number));
            let count = absent().count();
            if count > 0 {
                let named = absent().take(NAMED).map(|number| shard.name(number)).collect();
                problems.push(Problem::MissingShards { path: path.to_vec(), count, named });
            }
        }
        Ok(indexes)
    }

    /// Digests every tensor of the safetensors files that a loader reads.
    fn tensors(
        &self,
        weights: &BTreeSet<Vec<u8>>,
        indexes: &[Index],
        problems: &mut Vec<Problem>,
    ) -> Result<Option<TensorSet>, Error> {
        let is_pointer = |path: &[u8]| {
            problems.iter().any(|p| matches!(p, Problem::LfsPointer { path: pointer, .. } if pointer == path))
        };
        let is_extra = |path: &[u8]| indexes.iter().any(|i| i.governs(path) && !i.shards.contains(path));
        let read: Vec<&Seen> = weights
            .iter()
            .filter(|path| path.ends_with(b".safetensors") && !is_training(path))
            .filter(|path| !is_pointer(path) && !is_extra(path))
            .filter_map(|path| self.tree.file(path))
            .collect();
        let contents: Vec<(&Seen, Result<safetensors::Contents, safetensors::Damage>)> = read
            .par_iter()
            .map(|file| {
                let path = self.locate(&file.path);
                match safetensors::read(&path, file.size) {
                    // Tensors and the digest of the file must speak of the same bytes.
                    Ok(contents) if contents.file != file.blake3 => Err(Error::Changed { path }),
                    Ok(contents) => Ok((*file, Ok(contents))),
                    Err(safetensors::Error::Damage(damage)) => Ok((*file, Err(damage))),
                    Err(safetensors::Error::Open(error)) => Err(error.into()),
                    Err(safetensors::Error::Read(source)) => Err(Error::Read { path, source }),
                }
            })
            .collect::<Result<_, Error>>()?;

        let mut all: BTreeMap<String, (&Seen, content::Tensor)> = BTreeMap::new();
        let mut held: HashMap<&[u8], BTreeSet<String>> = HashMap::new();
        let mut is_one_set = true;
        for (file, contents) in contents {
            let contents = match contents {
                Ok(contents) => contents,
                Err(source) => {
                    problems.push(Problem::Damaged { path: file.path.clone(), source });
                    continue;
                }
            };
            let dir = escape(split(&file.path).0);
            for mut tensor in contents.tensors {
                held.entry(&file.path).or_default().insert(tensor.name.clone());
                // Parts of one pipeline lie in folders and use the same names for their tensors.
                if !dir.is_empty() {
                    tensor.name = format!("{dir}/{}", tensor.name);
                }
                if let Some((first, _)) = all.get(&tensor.name) {
                    if is_one_set {
                        problems.push(Problem::TensorTwice {
                            tensor: tensor.name.clone(),
                            first: first.path.clone(),
                            second: file.path.clone(),
                        });
                    }
                    is_one_set = false;
                    continue;
                }
                all.insert(tensor.name.clone(), (file, tensor));
            }
        }
        for index in indexes {
            let wrong = index
                .tensors
                .iter()
                .find(|(tensor, shard)| held.get(&shard[..]).is_some_and(|names| !names.contains(tensor)));
            if let Some((tensor, shard)) = wrong {
                let (index, tensor, shard) = (index.path.clone(), tensor.clone(), shard.clone());
                problems.push(Problem::NotInShard { index, tensor, shard });
            }
        }
        // A digest over part of the weights would look like one over all of them.
        let is_other = |path: &Vec<u8>| is_weights(path) && !path.ends_with(b".safetensors");
        let is_whole = is_one_set && !weights.iter().any(is_other) && !problems.iter().any(Problem::is_fatal);
        if all.is_empty() || !is_whole {
            return Ok(None);
        }
        let count = all.len();
        let tensors = all.into_values().map(|(_, tensor)| tensor).collect();
        if let Ok((id, bytes)) = (content::Tensors { tensors }).encode() {
            return Ok(Some(TensorSet { id, bytes, count }));
        }
        // Names differ by construction, so the one rule left to break is the size of a record.
        problems.push(Problem::TooManyTensors { count });
        Ok(None)
    }

    fn step(&self, problems: &mut Vec<Problem>) -> Result<Option<u64>, Error> {
        const MAX_STATE: u64 = 64 << 20;
        // A path such as `.` has no name of its own.
        let whole = if self.dir.file_name().is_none() { self.dir.canonicalize().ok() } else { None };
        let path = whole.as_deref().unwrap_or(self.dir);
        let name = match self.tree.root {
            Root::File { .. } => path.file_stem(),
            Root::Dir => path.file_name(),
        };
        let named = name.and_then(OsStr::to_str).and_then(step_in_name);
        for state in ["trainer_state.json", "state.json"] {
            let Some(file) = self.tree.file(state.as_bytes()).filter(|_| self.tree.root == Root::Dir) else {
                continue;
            };
            let Some(bytes) = self.read_small(file, MAX_STATE)? else { continue };
            let Ok(state) = serde_json::from_slice::<State>(&bytes) else { continue };
            let Some(stated) = state.global_step.or(state.step) else { continue };
            return Ok(Some(match named {
                Some(named) if named != stated => {
                    problems.push(Problem::StepDiffers { path: file.path.clone(), named, stated });
                    named
                }
                _ => stated,
            }));
        }
        Ok(named)
    }
}

/// Reads `checkpoint-500`, `global_step2`, `epoch=2-step=12` and the like.
fn step_in_name(name: &str) -> Option<u64> {
    let word = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let step = name[word.len()..].parse().ok()?;
    let word = word.strip_suffix(['-', '_', '=']).unwrap_or(word);
    ["step", "checkpoint", "ckpt", "iter"].iter().any(|known| word.ends_with(known)).then_some(step)
}

/// Follows `target` from inside `dir` without asking the disk, or `None` if it leaves the root.
fn resolve(dir: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut path: Vec<&[u8]> = dir.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    if target.starts_with(b"/") {
        return None;
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                path.pop()?;
            }
            _ => path.push(part),
        }
    }
    Some(path.join(&b'/'))
}

/// What a trainer's state says of the step; the rest is free.
#[derive(Deserialize)]
struct State {
    #[serde(default, deserialize_with = "count")]
    step: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    global_step: Option<u64>,
}

/// Takes a whole number and lets anything else be, since these files are not ours to judge.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_u64())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::capture::walk::Options;
    use crate::id::Digests;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkpoints").join(name)
    }

    fn seen(dir: &Path) -> Weights {
        let tree = walk::observe(dir, &Options::new(Digests::Blake3), &|_| {}).unwrap();
        observe(&tree, dir).unwrap()
    }

    /// A directory called `name` with these files; a safetensors file holds one tensor of the given name.
    fn lay(name: &str, files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(name);
        fs::create_dir(&dir).unwrap();
        for (file, bytes) in files {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let is_tensor = file.ends_with(".safetensors") && bytes.len() == 1;
            fs::write(path, if is_tensor { one_tensor(bytes[0]) } else { bytes.to_vec() }).unwrap();
        }
        (root, dir)
    }

    fn one_tensor(name: u8) -> Vec<u8> {
        let name = char::from(name);
        let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), b"x"].concat()
    }

    fn texts(weights: &Weights) -> Vec<String> {
        weights.problems.iter().map(ToString::to_string).collect()
    }

    fn paths(weights: &Weights) -> Vec<&str> {
        weights.weights.iter().map(|path| std::str::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn tensors_survive_sharding_and_saving_again_but_not_a_cast() {
        let single = seen(&fixture("hf-single/model"));
        let tensors = single.tensors.as_ref().unwrap();
        assert_eq!((single.format, tensors.count, single.problems.len()), ("safetensors", 21, 0));
        assert_eq!(content::Tensors::decode(&tensors.bytes).unwrap().tensors.len(), 21);
        assert_eq!(tensors.id.to_hex(), "83b35233863ebd7db34b74f0751e948cb1e32b97016b01e07fcc99570b39121f");
        let sharded = seen(&fixture("hf-sharded/model"));
        assert_eq!((sharded.format, sharded.problems.len()), ("sharded-safetensors", 0));
        assert_eq!(sharded.weights.len(), 9);
        for again in [
            sharded,
            seen(&fixture("hf-resaved/metadata-order-a")),
            seen(&fixture("hf-resaved/metadata-order-b")),
        ] {
            assert_eq!(again.tensors.as_ref(), Some(tensors));
        }
        let cast = seen(&fixture("hf-bf16/model"));
        assert_eq!(cast.tensors.as_ref().map(|tensors| tensors.count), Some(21));
        assert_ne!(cast.tensors.unwrap().id, tensors.id);
    }

    #[test]
    fn a_missing_shard_is_named() {
        let weights = seen(&fixture("hf-missing-shard/model"));
        let text = "`model.safetensors.index.json` needs one file more: `model-00003-of-00004.safetensors`";
        assert_eq!(texts(&weights), [text]);
        assert_eq!((weights.incomplete().count(), weights.tensors), (1, None));

        let (_root, dir) = lay("m", &[("m-00001-of-00003.gguf", b"1"), ("m-00003-of-00003.gguf", b"3")]);
        let weights = seen(&dir);
        assert_eq!(texts(&weights), ["`m-00001-of-00003.gguf` needs one file more: `m-00002-of-00003.gguf`"]);
        assert_eq!(weights.incomplete().count(), 1);
        fs::write(dir.join("m-00002-of-00003.gguf"), "2").unwrap();
        assert!(seen(&dir).problems.is_empty());
    }

    #[test]
    fn a_shard_that_no_index_names_is_left_out_of_the_tensors() {
        let index = br#"{"weight_map": {"a": "model-00001-of-00001.safetensors"}}"#;
        let files: [(&str, &[u8]); 3] = [
            ("model.safetensors.index.json", index),
            ("model-00001-of-00001.safetensors", b"a"),
            ("model-00002-of-00006.safetensors", b"a"),
        ];
        let (_root, dir) = lay("m", &files);
        let weights = seen(&dir);
        let text = "`model-00002-of-00006.safetensors` is not named by `model.safetensors.index.json`";
        assert_eq!((texts(&weights), weights.incomplete().count()), (vec![text.to_owned()], 0));
        let (_alone, dir) = lay("m", &[("x.safetensors", b"a")]);
        assert_eq!(weights.tensors, seen(&dir).tensors);
    }

    #[test]
    fn an_index_is_held_to_the_headers() {
        for (index, text) in [
            (r#"{"weight_map": {"b": "m-00001-of-00001.safetensors"}}"#, "names tensor `b`"),
            (r#"{"weight_map": {"a": "m-00001-of-00001.safetensors", "a": "x"}}"#, "`a` stands twice"),
            (r#"{"weight_map": {"a": "../m.safetensors"}}"#, "needs one file more"),
            (r#"{"weight_map": 1}"#, "is not an index"),
            ("{", "is not an index"),
        ] {
            let files: [(&str, &[u8]); 2] =
                [("m.safetensors.index.json", index.as_bytes()), ("m-00001-of-00001.safetensors", b"a")];
            let (_root, dir) = lay("m", &files);
            let weights = seen(&dir);
            assert!(
                texts(&weights).iter().any(|found| found.contains(text)),
                "{index}: {:?}",
                texts(&weights)
            );
            assert!(weights.incomplete().count() > 0 && weights.tensors.is_none(), "{index}");
        }
    }

    #[test]
    fn pointers_in_place_of_weights_are_told() {
        let weights = seen(&fixture("lfs-pointer/model"));
        let text = "`model.safetensors` is a git-lfs pointer of 130 bytes, not the file itself; `git lfs pull` fetches it";
        assert_eq!((texts(&weights), weights.incomplete().count()), (vec![text.to_owned()], 1));

        let (_root, dir) = lay("m", &[("config.json", b"{}"), ("model.pt.dvc", b"outs:")]);
        assert!(matches!(seen(&dir).problems[..], [Problem::DvcPointer { .. }]));
        fs::write(dir.join("model.pt"), "fetched").unwrap();
        assert!(seen(&dir).problems.is_empty());

        let (_root, dir) = lay("m", &[("config.json", b"{}"), ("model.pt", b"x")]);
        symlink("../blobs/1234", dir.join("model.safetensors")).unwrap();
        symlink("model.pt", dir.join("last.ckpt")).unwrap();
        symlink("/somewhere", dir.join("notes.txt")).unwrap();
        let weights = seen(&dir);
        assert!(
            matches!(&weights.problems[..], [Problem::Link { path, .. }] if path == b"model.safetensors")
        );
        assert_eq!(weights.incomplete().count(), 1);
    }

    #[test]
    fn torn_files_are_told() {
        let whole = fs::read(fixture("hf-single/model/model.safetensors")).unwrap();
        let (_root, dir) = lay("m", &[("model.safetensors", &whole[..20_000])]);
        let weights = seen(&dir);
        assert!(matches!(weights.problems[..], [Problem::Damaged { .. }]) && weights.tensors.is_none());
        assert_eq!(weights.incomplete().count(), 1);

        let zip = |end: &[u8]| [b"PK\x03\x04 some entries".as_slice(), end].concat();
        let end = b"PK\x05\x06".iter().copied().chain([0; 18]).collect::<Vec<u8>>();
        let files: [(&str, &[u8]); 2] = [("model.pt", &zip(&end)), ("optimizer.pt", &zip(b"..."))];
        let (_root, dir) = lay("m", &files);
        let weights = seen(&dir);
        assert_eq!(weights.unsafe_pickles, [b"model.pt".to_vec()]);
        assert_eq!(texts(&weights), ["`optimizer.pt` is cut short: its archive has no directory at the end"]);
        assert_eq!(weights.incomplete().count(), 0, "the weights are whole");
        fs::write(dir.join("model.pt"), zip(b"...")).unwrap();
        assert_eq!(seen(&dir).incomplete().count(), 1);

        let (_root, dir) = lay("m", &[("__0_0.distcp", b"1"), ("__1_0.distcp", b"2")]);
        assert_eq!(texts(&seen(&dir)), ["`.metadata` is missing, so the save did not finish"]);
        fs::write(dir.join(".metadata"), "x").unwrap();
        assert!(seen(&dir).problems.is_empty());
    }

    #[test]
    fn what_only_a_training_reads_is_not_weights() {
        let files: Vec<(&str, &[u8])> = [
            "model.safetensors",
            "config.json",
            "tokenizer.json",
            "vocab.txt",
            "chat_template.jinja",
            "custom.py",
            "additional_chat_templates/tool.jinja",
            "optimizer.pt",
            "optimizer.bin",
            "scheduler.pt",
            "rng_state_0.pth",
            "random_states_0.pkl",
            "training_args.bin",
            "trainer_state.json",
            "state.json",
            "scaler.pt",
            "optimizer_0/__0_0.distcp",
            "optimizer_0/.metadata",
            "README.md",
            "train_config.json",
            "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
        ]
        .into_iter()
        .map(|name| (name, &b"a"[..]))
        .chain([("optimizer.safetensors", &b"not one"[..])])
        .collect();
        let (_root, dir) = lay("m", &files);
        let weights = seen(&dir);
        let expected = [
            "additional_chat_templates/tool.jinja",
            "chat_template.jinja",
            "config.json",
            "custom.py",
            "model.safetensors",
            "tokenizer.json",
            "vocab.txt",
        ];
        assert_eq!(paths(&weights), expected);
        assert_eq!(weights.tensors.unwrap().count, 1);

        let (_root, dir) = lay("m", &[("config.json", b"{}"), ("weights.dat", b"1"), ("notes", b"2")]);
        let weights = seen(&dir);
        assert_eq!((paths(&weights), weights.format), (vec!["config.json", "notes", "weights.dat"], "files"));
        let (_root, dir) = lay("m", &[]);
        assert!(matches!(seen(&dir).problems[..], [Problem::Empty]));
    }

    #[test]
    fn one_tensor_name_in_two_files_leaves_the_tensors_open() {
        let (_root, dir) =
            lay("m", &[("a.safetensors", b"t"), ("b.safetensors", b"t"), ("sub/a.safetensors", b"t")]);
        let weights = seen(&dir);
        assert_eq!(texts(&weights), ["tensor `t` stands in `a.safetensors` and in `b.safetensors`"]);
        assert_eq!((weights.incomplete().count(), weights.tensors), (0, None));
        let (_root, dir) = lay("m", &[("a.safetensors", b"t"), ("sub/a.safetensors", b"t")]);
        let record = seen(&dir).tensors.unwrap();
        let names: Vec<String> =
            content::Tensors::decode(&record.bytes).unwrap().tensors.into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["sub/t", "t"]);
        fs::write(dir.join("more.bin"), "other weights").unwrap();
        assert_eq!(seen(&dir).tensors, None, "a digest over part of the weights would mislead");
    }

    #[test]
    fn a_file_that_changed_since_it_was_hashed_is_named() {
        let (_root, dir) = lay("m", &[("a.safetensors", b"t"), ("state.json", b"{\"step\": 1}")]);
        let tree = walk::observe(&dir, &Options::new(Digests::Blake3), &|_| {}).unwrap();
        assert!(observe(&tree, &dir).is_ok());
        fs::write(dir.join("state.json"), "{\"step\": 2}").unwrap();
        assert!(matches!(observe(&tree, &dir), Err(Error::Changed { path }) if path.ends_with("state.json")));
        fs::write(dir.join("a.safetensors"), one_tensor(b'u')).unwrap();
        assert!(
            matches!(observe(&tree, &dir), Err(Error::Changed { path }) if path.ends_with("a.safetensors"))
        );
    }

    #[test]
    fn steps_come_from_the_name_or_the_state() {
        for (name, step) in [
            ("step-300", Some(300)),
            ("checkpoint-500", Some(500)),
            ("global_step2", Some(2)),
            ("step_7", Some(7)),
            ("epoch=2-step=12", Some(12)),
            ("iter_0000500", Some(500)),
            ("model", None),
            ("step", None),
            ("step-", None),
            ("llama-7", None),
            ("step-99999999999999999999", None),
            ("step-3-old", None),
        ] {
            assert_eq!(step_in_name(name), step, "{name}");
        }
        let (_root, dir) =
            lay("step-3", &[("a.safetensors", b"t"), ("state.json", b"{\"step\": 3, \"x\": 1e400}")]);
        let weights = seen(&dir);
        assert_eq!((weights.step, weights.problems.len()), (Some(3), 0));
        fs::write(dir.join("state.json"), "{\"step\": 4}").unwrap();
        let weights = seen(&dir);
        assert_eq!(
            (weights.step, texts(&weights)),
            (Some(3), vec!["the name says step 3, `state.json` says 4".into()])
        );
        let (_root, dir) =
            lay("out", &[("a.safetensors", b"t"), ("trainer_state.json", b"{\"global_step\": 10}")]);
        assert_eq!(seen(&dir).step, Some(10));
        fs::write(dir.join("trainer_state.json"), "not json").unwrap();
        assert_eq!(seen(&dir).step, None);
        let (_root, dir) = lay("m", &[("epoch=1-step=8.ckpt", b"x")]);
        let one = seen(&dir.join("epoch=1-step=8.ckpt"));
        assert_eq!(
            (one.step, one.format, paths(&one)),
            (Some(8), "torch-pickle", vec!["epoch=1-step=8.ckpt"])
        );
    }
}
