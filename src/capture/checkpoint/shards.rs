//! Sharded models: the index that lists the shards, numbered names, and whether all of them are there.
//!
//! An index comes from elsewhere: its paths must stay in its directory, each tensor stands in it once, and what
//! it claims is counted before it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::problem::NAMED;
use super::role::Role;
use super::{Error, Problem, Scene};
use crate::capture::walk::Seen;
use crate::model::content::{escape, join, split};

/// An index of shards: which file holds which tensor.
pub(super) struct Index {
    /// The index itself.
    pub(super) path: Vec<u8>,
    /// Tensor name and the number of its shard, by ascending name.
    pub(super) tensors: Vec<(String, u32)>,
    /// The paths of all shards, by their numbers.
    pub(super) shards: Vec<Vec<u8>>,
    /// Bytes of all tensors, if the index states them.
    pub(super) total_size: Option<u64>,
}

/// More tensors than any model has, and than one record of tensors holds; a file of 64 MiB could name millions.
const MAX_TENSORS: usize = 400_000;
/// The largest index of a public model has 15 MB.
const MAX_INDEX: u64 = 64 << 20;

impl Index {
    /// Parses the index at `path`; its shards lie beside it.
    pub(super) fn parse(path: &[u8], bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let dir = split(path).0;
        let IndexFile { weight_map: Map { mut tensors, shards }, metadata } = serde_json::from_slice(bytes)?;
        tensors.sort_unstable();
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let tensor = escape(pair[0].0.as_bytes());
            return Err(de::Error::custom(format_args!("`{tensor}` stands twice")));
        }
        let shards = shards.iter().map(|shard| join(dir, shard.as_bytes())).collect();
        let total_size = metadata.and_then(|metadata| metadata.total_size).and_then(|size| size.as_u64());
        Ok(Self { path: path.to_vec(), tensors, shards, total_size })
    }

    /// Returns whether this is one of its shards.
    pub(super) fn names(&self, path: &[u8]) -> bool {
        self.shards.iter().any(|shard| shard == path)
    }

    /// Returns whether a shard named like `path` would be one of this index.
    pub(super) fn governs(&self, path: &[u8]) -> bool {
        Shard::parse(path).is_some_and(|shard| {
            self.path == join(shard.dir, format!("{}{}.index.json", shard.stem, shard.suffix).as_bytes())
        })
    }
}

/// Returns whether a relative path of an index stays in the directory of the index.
pub(super) fn is_inside(path: &str) -> bool {
    !path.contains(['\0', '\\']) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Compares the shards that are there with those that an index or their own names promise.
///
/// Returns the indexes that can be understood.
pub(super) fn check(
    scene: &Scene<'_>,
    roles: &BTreeMap<Vec<u8>, Role>,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Index>, Error> {
    let mut indexes = Vec::new();
    for (path, _) in
        roles.iter().filter(|(path, role)| **role == Role::Index && path.ends_with(b".index.json"))
    {
        let Some(file) = scene.tree.file(path) else { continue };
        match read(scene, file)? {
            Ok(index) => {
                let absent = || index.shards.iter().filter(|shard| scene.tree.file(shard).is_none());
                let count = absent().count();
                if count > 0 {
                    let text = |shard: &Vec<u8>| String::from_utf8_lossy(shard).into_owned();
                    let mut named: Vec<String> = absent().map(text).collect();
                    named.sort_unstable();
                    named.truncate(NAMED);
                    problems.push(Problem::MissingShards { path: path.clone(), count, named });
                }
                indexes.push(index);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut sets: BTreeMap<Vec<u8>, ShardSet<'_>> = BTreeMap::new();
    for (path, _) in roles.iter().filter(|(_, role)| **role == Role::Weights) {
        if let Some(index) = indexes.iter().find(|index| index.governs(path)) {
            if !index.names(path) {
                problems.push(Problem::ExtraShard { path: path.clone(), index: index.path.clone() });
            }
        } else if let Some(shard) = Shard::parse(path) {
            let set = shard.set();
            let number = shard.number;
            let set = sets.entry(set).or_insert(ShardSet { shard, path, found: BTreeSet::new() });
            set.found.insert(number);
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

fn read(scene: &Scene<'_>, file: &Seen) -> Result<Result<Index, Problem>, Error> {
    let bad = |why: String| Problem::BadIndex { path: file.path.clone(), why };
    let Some(bytes) = scene.read_small(file, MAX_INDEX)? else {
        return Ok(Err(bad(format!("it has {} bytes, at most {MAX_INDEX} are read", file.size))));
    };
    Ok(Index::parse(&file.path, &bytes).map_err(|error| bad(error.to_string())))
}

/// The shards of one set for which there is no index.
struct ShardSet<'a> {
    /// One of them.
    pub(super) shard: Shard<'a>,
    /// The path of that one.
    pub(super) path: &'a [u8],
    /// The numbers that are there.
    pub(super) found: BTreeSet<u32>,
}

/// A file name of the form `model-00001-of-00004.safetensors`.
struct Shard<'a> {
    dir: &'a [u8],
    stem: &'a str,
    /// Its own number.
    pub(super) number: u32,
    /// How many there are.
    pub(super) count: u32,
    digits: usize,
    suffix: &'a str,
}

impl<'a> Shard<'a> {
    /// Parses the name of a shard; most names are none.
    pub(super) fn parse(path: &'a [u8]) -> Option<Self> {
        let (dir, name) = split(path);
        let name = std::str::from_utf8(name).ok()?;
        let (rest, _) = name.rsplit_once('.')?;
        let (rest_of, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest_of.rsplit_once('-')?;
        let is_number =
            |text: &str| text.len() == count.len() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Five digits are what every writer uses; more would let one name promise millions of files.
        if !(is_number(number) && is_number(count) && (2..=6).contains(&count.len())) {
            return None;
        }
        Some(Self {
            dir,
            stem,
            number: number.parse().ok()?,
            count: count.parse().ok()?,
            digits: count.len(),
            suffix: &name[rest.len()..],
        })
    }

    /// Returns the name of the shard with another number.
    pub(super) fn name(&self, number: u32) -> String {
        let Self { stem, digits, count, suffix, .. } = *self;
        format!("{stem}-{number:0digits$}-of-{count:0digits$}{suffix}")
    }

    /// Returns what all shards of one set have in common.
    pub(super) fn set(&self) -> Vec<u8> {
        join(self.dir, self.name(0).as_bytes())
    }
}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: Map,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    total_size: Option<serde_json::Value>,
}

/// A map of tensors to files, in which each file's name is kept once.
struct Map {
    tensors: Vec<(String, u32)>,
    shards: Vec<String>,
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Map;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensor names to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
                let (mut tensors, mut known) = (Vec::new(), BTreeMap::<String, u32>::new());
                while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
                    if tensors.len() == MAX_TENSORS {
                        return Err(de::Error::custom(format_args!(
                            "it has more than {MAX_TENSORS} tensors"
                        )));
                    }
                    if !is_inside(&shard) {
                        let shard = escape(shard.as_bytes());
                        return Err(de::Error::custom(format_args!("`{shard}` leads out of the directory")));
                    }
                    let next = known.len() as u32;
                    tensors.push((tensor, *known.entry(shard).or_insert(next)));
                }
                let mut shards: Vec<(u32, String)> = known.into_iter().map(|(shard, n)| (n, shard)).collect();
                shards.sort_unstable();
                Ok(Map { tensors, shards: shards.into_iter().map(|(_, shard)| shard).collect() })
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_told_by_their_names() {
        let shard = Shard::parse(b"unet/model-00002-of-00010.fp16.safetensors");
        assert!(shard.is_none(), "a variant stands before the numbers");
        let shard = Shard::parse(b"unet/model.fp16-00002-of-00010.safetensors").unwrap();
        assert_eq!(
            (shard.number, shard.count, shard.name(3)),
            (2, 10, "model.fp16-00003-of-00010.safetensors".into())
        );
        for name in [
            &b"model.safetensors"[..],
            b"model-1-of-10.bin",
            b"model-00001-of-0010.bin",
            b"a-of-b.bin",
            b"model-0000000001-of-0000000010.bin",
            b"model-+0001-of-00010.bin",
            b"\xff-00001-of-00010.bin",
            b"model-00001-of-00010",
        ] {
            assert!(Shard::parse(name).is_none(), "{}", escape(name));
        }
    }

    #[test]
    fn an_index_governs_the_shards_beside_it() {
        let index =
            Index::parse(b"a/m.bin.index.json", br#"{"weight_map": {"t": "m-01-of-02.bin"}, "x": 1}"#)
                .unwrap();
        assert_eq!(index.shards, [b"a/m-01-of-02.bin".to_vec()]);
        assert!(index.governs(b"a/m-07-of-09.bin"));
        for other in [&b"m-01-of-02.bin"[..], b"a/n-01-of-02.bin", b"a/m-01-of-02.pt", b"a/m.bin"] {
            assert!(!index.governs(other), "{}", escape(other));
        }
    }

    #[test]
    fn an_index_that_leads_astray_is_refused() {
        let long = format!("`{}` leads out", "x/..");
        for (text, why) in [
            (r#"{"weight_map": {"a": "../m.bin"}}"#, "`../m.bin` leads out of the directory"),
            (r#"{"weight_map": {"a": "/etc/passwd"}}"#, "`/etc/passwd` leads out"),
            (r#"{"weight_map": {"a": "x/.."}}"#, &long),
            (r#"{"weight_map": {"a": "x//y"}}"#, "leads out"),
            (r#"{"weight_map": {"a": ""}}"#, "`` leads out"),
            (r#"{"weight_map": {"a": "b\u0000"}}"#, "leads out"),
            (r#"{"weight_map": {"a": "x", "b": "x", "a": "x"}}"#, "`a` stands twice"),
            (r#"{"weight_map": {"a": "x"}, "weight_map": {}}"#, "duplicate field"),
            (r#"{"weight_map": {"a": {"b": "x"}}}"#, "expected a string"),
            (r#"{"metadata": {}}"#, "missing field"),
        ] {
            let error = Index::parse(b"m.index.json", text.as_bytes()).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.contains(why)), "{text}: {error:?}");
        }
        let deep = format!(r#"{{"weight_map": {}"#, r#"{"a":"#.repeat(100_000));
        assert!(Index::parse(b"m.index.json", deep.as_bytes()).is_err());
        let stated = r#"{"metadata": {"total_size": 12}, "weight_map": {"a": "x", "b": "y", "c": "x"}}"#;
        let index = Index::parse(b"d/m.index.json", stated.as_bytes()).unwrap();
        assert_eq!((index.total_size, index.shards.len()), (Some(12), 2));
        assert!(index.names(b"d/x") && !index.names(b"x"));
    }
}
