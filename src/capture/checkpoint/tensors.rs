//! The tensors of a checkpoint: one record over all of them, and whether the indexes tell the truth about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;

use super::role::Role;
use super::shards::Index;
use super::{Error, Problem, Scene};
use crate::capture::safetensors::{self, Contents, Damage};
use crate::capture::walk::Seen;
use crate::id::ObjectId;
use crate::model::content::{self, Tensor, escape, split};

/// The record over all tensors of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSet {
    /// Its id.
    pub id: ObjectId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How many tensors there are.
    pub count: usize,
    /// How many elements they have together.
    pub parameters: u64,
    /// The types of their elements, as the files spell them.
    pub dtypes: BTreeSet<String>,
}

/// Digests every tensor of the safetensors files that a loader reads.
///
/// Files in folders are parts of one pipeline, so a tensor's name has its folder before it.
pub(super) fn read(
    scene: &Scene<'_>,
    roles: &BTreeMap<Vec<u8>, Role>,
    indexes: &[Index],
    problems: &mut Vec<Problem>,
) -> Result<Option<TensorSet>, Error> {
    let is_pointer = |path: &[u8]| {
        problems.iter().any(|p| matches!(p, Problem::LfsPointer { path: pointer, .. } if pointer == path))
    };
    let is_extra = |path: &[u8]| indexes.iter().any(|index| index.governs(path) && !index.names(path));
    let weights = || roles.iter().filter(|(_, role)| **role == Role::Weights).map(|(path, _)| path);
    let files: Vec<&Seen> = weights()
        .filter(|path| path.ends_with(b".safetensors") && !is_pointer(path) && !is_extra(path))
        .filter_map(|path| scene.tree.file(path))
        .collect();
    let contents = files.par_iter().map(|file| read_one(scene, file)).collect::<Result<Vec<_>, Error>>()?;

    let mut whole: Vec<(&Seen, Vec<Tensor>)> = Vec::with_capacity(files.len());
    for (file, contents) in files.into_iter().zip(contents) {
        match contents {
            Ok(contents) => whole.push((file, contents.tensors)),
            Err(source) => problems.push(Problem::Damaged { path: file.path.clone(), source }),
        }
    }
    for index in indexes {
        check_index(index, &whole, problems);
    }
    let twice = qualify(&mut whole);
    let is_one_set = twice.is_none();
    problems.extend(twice);
    // A digest over part of the weights would look like one over all of them.
    let is_whole = is_one_set
        && weights().all(|path| path.ends_with(b".safetensors"))
        && !problems.iter().any(Problem::is_fatal);
    let tensors: Vec<Tensor> = whole.into_iter().flat_map(|(_, tensors)| tensors).collect();
    if tensors.is_empty() || !is_whole {
        return Ok(None);
    }
    let count = tensors.len();
    let elements = |tensor: &Tensor| tensor.shape.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
    let parameters = tensors.iter().map(elements).fold(0_u64, u64::saturating_add);
    let dtypes = tensors.iter().map(|tensor| tensor.dtype.clone()).collect();
    if let Ok((id, bytes)) = (content::Tensors { tensors }).encode() {
        return Ok(Some(TensorSet { id, bytes, count, parameters, dtypes }));
    }
    // Names differ by construction, so the one rule left to break is the size of a record.
    problems.push(Problem::TooManyTensors { count });
    Ok(None)
}

fn read_one(scene: &Scene<'_>, file: &Seen) -> Result<Result<Contents, Damage>, Error> {
    let path = scene.locate(&file.path);
    match safetensors::read(&path, file.size) {
        // Tensors and the digest of the file must speak of the same bytes.
        Ok(contents) if contents.file != file.blake3 => Err(Error::Changed { path }),
        Ok(contents) => Ok(Ok(contents)),
        Err(safetensors::Error::Damage(damage)) => Ok(Err(damage)),
        Err(safetensors::Error::Open(error)) => Err(error.into()),
        Err(safetensors::Error::Read(source)) => Err(Error::Read { path, source }),
    }
}

/// Puts the folder before the names of tensors, and finds one that two files hold.
fn qualify(whole: &mut [(&Seen, Vec<Tensor>)]) -> Option<Problem> {
    for (file, tensors) in whole.iter_mut() {
        let dir = escape(split(&file.path).0);
        if !dir.is_empty() {
            for tensor in tensors {
                tensor.name = format!("{dir}/{}", tensor.name);
            }
        }
    }
    let mut all: Vec<(&str, &Seen)> =
        whole.iter().flat_map(|(file, tensors)| tensors.iter().map(|t| (&t.name[..], *file))).collect();
    all.sort_unstable_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
    let pair = all.windows(2).find(|pair| pair[0].0 == pair[1].0)?;
    let [(tensor, first), (_, second)] = pair else { return None };
    Some(Problem::TensorTwice {
        tensor: (*tensor).to_owned(),
        first: first.path.clone(),
        second: second.path.clone(),
    })
}

/// Holds an index to the headers of its shards: every tensor where it says, none more, and as many bytes.
fn check_index(index: &Index, whole: &[(&Seen, Vec<Tensor>)], problems: &mut Vec<Problem>) {
    let numbers: HashMap<&[u8], u32> =
        index.shards.iter().zip(0..).map(|(shard, number)| (&shard[..], number)).collect();
    let mut held: Vec<(&str, u32)> = Vec::new();
    let (mut bytes, mut is_known, mut read) = (0_u64, true, BTreeSet::new());
    for (file, tensors) in whole {
        let Some(number) = numbers.get(&file.path[..]) else { continue };
        read.insert(*number);
        for tensor in tensors {
            held.push((&tensor.name, *number));
            match safetensors::bytes_of(&tensor.dtype, &tensor.shape) {
                Some(size) => bytes = bytes.saturating_add(size),
                None => is_known = false,
            }
        }
    }
    held.sort_unstable();
    let shard = |number: u32| index.shards.get(number as usize).cloned().unwrap_or_default();
    let is_held = |tensor: &str, number: u32| held.binary_search(&(tensor, number)).is_ok();
    let wrong = index.tensors.iter().find(|(name, n)| read.contains(n) && !is_held(name, *n));
    if let Some((tensor, number)) = wrong {
        let (index, tensor, shard) = (index.path.clone(), tensor.clone(), shard(*number));
        problems.push(Problem::NotInShard { index, tensor, shard });
        return;
    }
    let is_named =
        |tensor: &str| index.tensors.binary_search_by(|(known, _)| known.as_str().cmp(tensor)).is_ok();
    if let Some((tensor, number)) = held.iter().find(|(tensor, _)| !is_named(tensor)) {
        let (index, tensor, shard) = (index.path.clone(), (*tensor).to_owned(), shard(*number));
        problems.push(Problem::NotInIndex { index, tensor, shard });
    }
    // Shards that hold a tensor twice, or are not all there, have told of it already.
    let is_whole = is_known && read.len() == index.shards.len() && held.len() == index.tensors.len();
    if let Some(stated) = index.total_size.filter(|stated| is_whole && *stated != bytes) {
        problems.push(Problem::TotalSize { path: index.path.clone(), stated, found: bytes });
    }
}
