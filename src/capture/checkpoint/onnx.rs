//! ONNX: which other files hold the weights of a model, and whether they are there and long enough.
//!
//! A model is one protobuf message. Only the way to the names of external files is followed; everything else is
//! stepped over. Source of the field numbers: `onnx.proto` of ONNX, IR version 13.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader};

use super::problem::NAMED;
use super::shards::is_inside;
use super::{Error, Problem, Scene};
use crate::capture::walk;
use crate::model::content::{escape, join, split};

/// Finds the files that models name as their weights, and tells of those that are absent or too short.
pub(super) fn external(scene: &Scene<'_>, problems: &mut Vec<Problem>) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut all = BTreeSet::new();
    for file in scene.tree.files.iter().filter(|file| file.path.ends_with(b".onnx")) {
        let at = scene.locate(&file.path);
        let (open, _) = walk::open_regular(&at)?;
        let mut input = Input { file: BufReader::new(open), at: 0, found: BTreeMap::new() };
        let malformed = |why: String| Problem::Malformed {
            path: file.path.clone(),
            format: "ONNX",
            why,
            is_weights: true,
        };
        match input.message(Part::Model, file.size, 0) {
            Ok(()) => {}
            Err(Fault::Wrong(why)) => {
                problems.push(malformed(why));
                continue;
            }
            Err(Fault::Read(source)) => return Err(Error::Read { path: at, source }),
        }
        let mut absent = Vec::new();
        for (name, needed) in input.found {
            if !is_inside(&name) {
                problems.push(malformed(format!("`{}` leads out of the directory", escape(name.as_bytes()))));
                continue;
            }
            let path = join(split(&file.path).0, name.as_bytes());
            match scene.tree.file(&path) {
                None => absent.push(name),
                Some(data) if data.size < needed => {
                    let why =
                        format!("it is cut short: {needed} bytes are promised, {} are there", data.size);
                    problems.push(Problem::Malformed {
                        path: path.clone(),
                        format: "ONNX data",
                        why,
                        is_weights: true,
                    });
                }
                Some(_) => {}
            }
            all.insert(path);
        }
        let count = absent.len();
        if count > 0 {
            absent.truncate(NAMED);
            problems.push(Problem::MissingShards { path: file.path.clone(), count, named: absent });
        }
    }
    Ok(all)
}

enum Fault {
    Wrong(String),
    Read(io::Error),
}

/// The messages on the way to a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Sparse,
    Tensor,
    Entry,
}

impl Part {
    /// Returns the message in a field, if the way leads through it.
    const fn below(self, field: u64) -> Option<Self> {
        match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Some(Self::Graph),
            (Self::Model, 25) => Some(Self::Function),
            (Self::Graph, 1) | (Self::Function, 7) => Some(Self::Node),
            (Self::Graph, 5) | (Self::Sparse, 1 | 2) | (Self::Attribute, 5 | 10) => Some(Self::Tensor),
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Some(Self::Sparse),
            (Self::Node, 5) => Some(Self::Attribute),
            (Self::Tensor, 13) => Some(Self::Entry),
            _ => None,
        }
    }
}

struct Input<R> {
    file: R,
    at: u64,
    /// File names and the bytes that each must have.
    found: BTreeMap<String, u64>,
}

/// Graphs hold graphs in the branches of `If` and `Loop`.
const MAX_DEPTH: u32 = 100;
const MAX_FILES: usize = 100_000;
const MAX_TEXT: u64 = 4096;

impl<R: BufRead> Input<R> {
    /// Reads the fields of one message up to `end`.
    fn message(&mut self, part: Part, end: u64, depth: u32) -> Result<(), Fault> {
        if depth == MAX_DEPTH {
            return Err(Fault::Wrong("its graphs are nested too deep".into()));
        }
        let mut entries: BTreeMap<String, String> = BTreeMap::new();
        while self.at < end {
            let tag = self.varint()?;
            let (field, wire) = (tag >> 3, tag & 7);
            let length = match wire {
                0 => {
                    self.varint()?;
                    continue;
                }
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                _ => return Err(Fault::Wrong("it is no protobuf message".into())),
            };
            let stop = self.at.checked_add(length).filter(|stop| *stop <= end);
            let Some(stop) = stop else { return Err(Fault::Wrong("it is cut short".into())) };
            match part.below(field).filter(|_| wire == 2) {
                Some(Part::Entry) => {
                    if let Some((key, value)) = self.entry(stop)? {
                        entries.insert(key, value);
                    }
                }
                Some(below) => self.message(below, stop, depth + 1)?,
                None => self.skip(stop)?,
            }
        }
        if let Some(location) = entries.remove("location") {
            let number = |key: &str| entries.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            if self.found.len() == MAX_FILES {
                return Err(Fault::Wrong(format!("it names more than {MAX_FILES} files")));
            }
            let needed = self.found.entry(location).or_default();
            *needed = (*needed).max(number("offset").saturating_add(number("length")));
        }
        Ok(())
    }

    /// Reads a pair of texts: field 1 is the key, field 2 the value.
    fn entry(&mut self, end: u64) -> Result<Option<(String, String)>, Fault> {
        let (mut key, mut value) = (None, None);
        while self.at < end {
            let tag = self.varint()?;
            let length = if tag & 7 == 2 { self.varint()? } else { u64::MAX };
            let stop = self.at.checked_add(length).filter(|stop| *stop <= end);
            let Some(stop) = stop else { return Err(Fault::Wrong("it is cut short".into())) };
            if length > MAX_TEXT {
                return Err(Fault::Wrong("a name in it is longer than any file's".into()));
            }
            let mut bytes = Vec::with_capacity(length as usize);
            while self.at < stop {
                bytes.push(self.byte()?);
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match tag >> 3 {
                1 => key = Some(text),
                2 => value = Some(text),
                _ => {}
            }
        }
        Ok(key.zip(value))
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let mut byte = [0];
        match self.file.read_exact(&mut byte) {
            Ok(()) => self.at += 1,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Fault::Wrong("it is cut short".into()));
            }
            Err(error) => return Err(Fault::Read(error)),
        }
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Fault::Wrong("it is no protobuf message".into()))
    }

    fn skip(&mut self, to: u64) -> Result<(), Fault> {
        while self.at < to {
            let ready = self.file.fill_buf().map_err(Fault::Read)?.len() as u64;
            let ready = ready.min(to - self.at);
            if ready == 0 {
                return Err(Fault::Wrong("it is cut short".into()));
            }
            self.file.consume(ready as usize);
            self.at += ready;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut length = content.len();
        let mut bytes = vec![number << 3 | 2];
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        [&bytes, content].concat()
    }

    fn model(location: &str, offset: &str, length: &str) -> Vec<u8> {
        let pair = |key: &str, value: &str| {
            field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let tensor = [pair("location", location), pair("offset", offset), pair("length", length)].concat();
        [b"\x08\x0d".to_vec(), field(7, &field(5, &tensor))].concat()
    }

    fn files(bytes: &[u8]) -> Result<BTreeMap<String, u64>, String> {
        let mut input = Input { file: bytes, at: 0, found: BTreeMap::new() };
        match input.message(Part::Model, bytes.len() as u64, 0) {
            Ok(()) => Ok(input.found),
            Err(Fault::Wrong(why)) => Err(why),
            Err(Fault::Read(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn external_files_are_named_with_their_size() {
        assert_eq!(files(&model("w.data", "4096", "100")).unwrap(), [("w.data".to_owned(), 4196)].into());
        assert_eq!(files(&model("w.data", "x", "")).unwrap(), [("w.data".to_owned(), 0)].into());
        let twice = [model("a", "0", "10"), model("a", "10", "20"), model("b", "0", "1")].concat();
        assert_eq!(files(&twice).unwrap(), [("a".to_owned(), 30), ("b".to_owned(), 1)].into());
        assert!(files(b"").unwrap().is_empty());
    }

    #[test]
    fn hostile_models_are_refused() {
        let whole = model("w.data", "4096", "100");
        for end in 3..whole.len() {
            assert!(files(&whole[..end]).is_err(), "cut at {end}");
        }
        let mut deep = Vec::new();
        for _ in 0..200 {
            deep = field(1, &field(5, &field(6, &deep)));
        }
        assert!(files(&field(7, &deep)).unwrap_err().contains("nested too deep"));
        let endless = [&b"\x3a"[..], &[0xff; 9], &[1]].concat();
        assert_eq!(files(&endless).unwrap_err(), "it is cut short");
        assert_eq!(files(&[0xff; 20]).unwrap_err(), "it is no protobuf message");
        let long = model(&"x".repeat(5000), "0", "1");
        assert!(files(&long).unwrap_err().contains("longer than any"));
    }
}
