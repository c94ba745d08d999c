//! The names by which a sharded model holds together: numbered files, and the index that lists them.
//!
//! Only names and the index's own text are read here; whether the files exist and what is in them is judged by
//! `weights`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::model::content::{escape, join, split};

/// An index of shards: which file holds which tensor.
pub(crate) struct Index {
    /// The index itself.
    pub(crate) path: Vec<u8>,
    /// Tensor name and the shard's path.
    pub(crate) tensors: Vec<(String, Vec<u8>)>,
    /// The paths of all shards.
    pub(crate) shards: BTreeSet<Vec<u8>>,
}

impl Index {
    /// Parses the index at `path`; its shards lie beside it.
    pub(crate) fn parse(path: &[u8], bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let dir = split(path).0;
        let IndexFile { weight_map: Pairs(pairs) } = serde_json::from_slice(bytes)?;
        let tensors: Vec<(String, Vec<u8>)> =
            pairs.into_iter().map(|(tensor, shard)| (tensor, join(dir, shard.as_bytes()))).collect();
        let shards = tensors.iter().map(|(_, shard)| shard.clone()).collect();
        Ok(Self { path: path.to_vec(), tensors, shards })
    }

    /// Returns whether a shard named like `path` would be one of this index.
    pub(crate) fn governs(&self, path: &[u8]) -> bool {
        Shard::parse(path).is_some_and(|shard| {
            self.path == join(shard.dir, format!("{}{}.index.json", shard.stem, shard.suffix).as_bytes())
        })
    }
}

/// The shards of one set for which there is no index.
pub(crate) struct ShardSet<'a> {
    /// One of them.
    pub(crate) shard: Shard<'a>,
    /// The path of that one.
    pub(crate) path: &'a [u8],
    /// The numbers that are there.
    pub(crate) found: BTreeSet<u32>,
}

/// A file name of the form `model-00001-of-00004.safetensors`.
pub(crate) struct Shard<'a> {
    dir: &'a [u8],
    stem: &'a str,
    /// Its own number.
    pub(crate) number: u32,
    /// How many there are.
    pub(crate) count: u32,
    digits: usize,
    suffix: &'a str,
}

impl<'a> Shard<'a> {
    /// Parses the name of a shard; most names are none.
    pub(crate) fn parse(path: &'a [u8]) -> Option<Self> {
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
    pub(crate) fn name(&self, number: u32) -> String {
        let Self { stem, digits, count, suffix, .. } = *self;
        format!("{stem}-{number:0digits$}-of-{count:0digits$}{suffix}")
    }

    /// Returns what all shards of one set have in common.
    pub(crate) fn set(&self) -> Vec<u8> {
        join(self.dir, self.name(0).as_bytes())
    }
}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: Pairs,
}

/// A map of text to text in which no name stands twice.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensor names to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = BTreeMap::new();
                while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
                    if let Some(_first) = pairs.insert(tensor.clone(), shard) {
                        let tensor = escape(tensor.as_bytes());
                        return Err(de::Error::custom(format_args!("`{tensor}` stands twice")));
                    }
                }
                Ok(Pairs(pairs.into_iter().collect()))
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
        assert_eq!(index.shards, [b"a/m-01-of-02.bin".to_vec()].into());
        assert!(index.governs(b"a/m-07-of-09.bin"));
        for other in [&b"m-01-of-02.bin"[..], b"a/n-01-of-02.bin", b"a/m-01-of-02.pt", b"a/m.bin"] {
            assert!(!index.governs(other), "{}", escape(other));
        }
    }
}
