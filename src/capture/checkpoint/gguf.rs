//! GGUF, the one-file format of llama.cpp: whether the file is as long as its tensors need.
//!
//! Values and names are stepped over, not kept, so no claimed count costs memory. Source of the format:
//! `docs/gguf.md` of ggml, versions 1 to 3; sizes of blocks are those of `ggml.h`.

use std::fmt;
use std::io::{self, BufRead, BufReader};

use super::{Error, Scene};
use crate::capture::walk::{self, Seen};
use crate::model::content::escape;

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Version of the format.
    pub(super) version: u64,
    /// Number of tensors.
    pub(super) tensors: u64,
    /// `general.architecture`, as `llama`.
    pub(super) architecture: Option<String>,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GGUF version {}, {} tensors", self.version, self.tensors)?;
        match &self.architecture {
            Some(architecture) => write!(f, ", architecture {}", escape(architecture.as_bytes())),
            None => Ok(()),
        }
    }
}

/// Reads the header of a file and holds the file's size to it; the inner error says what is wrong with it.
pub(super) fn check(scene: &Scene<'_>, file: &Seen) -> Result<Result<Header, String>, Error> {
    let path = scene.locate(&file.path);
    let (open, _) = walk::open_regular(&path)?;
    match read(&mut Input { file: BufReader::new(open), at: 0, size: file.size }) {
        Ok(header) => Ok(Ok(header)),
        Err(Fault::Wrong(why)) => Ok(Err(why)),
        Err(Fault::Read(source)) => Err(Error::Read { path, source }),
    }
}

enum Fault {
    Wrong(String),
    Read(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

struct Input<R> {
    file: R,
    at: u64,
    size: u64,
}

/// Texts longer than this are stepped over.
const MAX_TEXT: u64 = 256;
/// Arrays may hold arrays; no writer nests them deeper.
const MAX_DEPTH: u32 = 8;

fn read(input: &mut Input<impl BufRead>) -> Result<Header, Fault> {
    if input.number(4)? != u64::from(u32::from_le_bytes(*b"GGUF")) {
        return Err(Fault::Wrong("it does not begin with `GGUF`".into()));
    }
    let version = input.number(4)?;
    if !(1..=3).contains(&version) {
        return Err(Fault::Wrong(format!("version {version} is not known")));
    }
    // Counts and lengths have 32 bits in the first version only.
    let wide = if version == 1 { 4 } else { 8 };
    let (tensors, values) = (input.number(wide)?, input.number(wide)?);
    let (mut architecture, mut alignment) = (None, 32);
    for _ in 0..values {
        let key = input.text(wide)?;
        let kind = input.number(4)?;
        match (key.as_deref(), kind) {
            (Some("general.architecture"), 8) => architecture = input.text(wide)?,
            (Some("general.alignment"), 4) => alignment = input.number(4)?.max(1),
            _ => input.skip_value(kind, wide, 0)?,
        }
    }
    let mut end = 0_u64;
    for _ in 0..tensors {
        input.text(wide)?;
        let dimensions = input.number(4)?;
        let mut elements = Some(1_u64);
        for _ in 0..dimensions {
            let size = input.number(wide)?;
            elements = elements.and_then(|elements| elements.checked_mul(size));
        }
        let kind = input.number(4)?;
        let offset = input.number(8)?;
        let bytes = elements.and_then(|elements| size_of(kind, elements));
        let bytes = bytes.ok_or_else(|| Fault::Wrong("a tensor's shape does not fit its type".into()))?;
        end = end.max(offset.checked_add(bytes).ok_or_else(|| input.short(u64::MAX))?);
    }
    let data = input.at.checked_next_multiple_of(alignment).ok_or_else(|| input.short(u64::MAX))?;
    let needed = data.checked_add(end).ok_or_else(|| input.short(u64::MAX))?;
    if tensors > 0 && needed > input.size {
        return Err(input.short(needed));
    }
    Ok(Header { version, tensors, architecture })
}

/// Returns the bytes of so many elements; a type that came after this table counts as none.
fn size_of(kind: u64, elements: u64) -> Option<u64> {
    // Elements and bytes of one block.
    let (block, bytes) = match kind {
        0 | 26 => (1, 4),
        1 | 25 | 30 => (1, 2),
        24 => (1, 1),
        27 | 28 => (1, 8),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        9 => (32, 36),
        39 => (32, 17),
        10 => (256, 84),
        11 | 21 => (256, 110),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        15 => (256, 292),
        16 | 35 => (256, 66),
        17 => (256, 74),
        18 => (256, 98),
        19 => (256, 50),
        22 => (256, 82),
        23 => (256, 136),
        29 => (256, 56),
        34 => (256, 54),
        _ => return Some(0),
    };
    if elements.is_multiple_of(block) { (elements / block).checked_mul(bytes) } else { None }
}

impl<R: BufRead> Input<R> {
    fn short(&self, needed: u64) -> Fault {
        Fault::Wrong(format!("it is cut short: {needed} bytes are promised, {} are there", self.size))
    }

    fn number(&mut self, size: usize) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        match self.file.read_exact(&mut bytes[..size]) {
            Ok(()) => self.at += size as u64,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.short(self.at + size as u64));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a text, or steps over a long one.
    fn text(&mut self, wide: usize) -> Result<Option<String>, Fault> {
        let length = self.number(wide)?;
        if length > MAX_TEXT {
            self.skip(length)?;
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        for _ in 0..length {
            bytes.push(self.number(1)? as u8);
        }
        Ok(String::from_utf8(bytes).ok())
    }

    fn skip_value(&mut self, kind: u64, wide: usize, depth: u32) -> Result<(), Fault> {
        match kind {
            8 => {
                self.text(wide)?;
                Ok(())
            }
            9 => {
                let (of, count) = (self.number(4)?, self.number(wide)?);
                if let Some(size) = fixed(of) {
                    let bytes = count.checked_mul(size).ok_or_else(|| self.short(u64::MAX))?;
                    return self.skip(bytes);
                }
                if depth == MAX_DEPTH {
                    return Err(Fault::Wrong("its arrays are nested too deep".into()));
                }
                for _ in 0..count {
                    self.skip_value(of, wide, depth + 1)?;
                }
                Ok(())
            }
            _ => match fixed(kind) {
                Some(size) => self.skip(size),
                None => Err(Fault::Wrong(format!("a value of the unknown type {kind}"))),
            },
        }
    }

    fn skip(&mut self, length: u64) -> Result<(), Fault> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.size);
        let Some(end) = end else { return Err(self.short(self.at.saturating_add(length))) };
        while self.at < end {
            let ready = (self.file.fill_buf()?.len() as u64).min(end - self.at);
            if ready == 0 {
                return Err(self.short(end));
            }
            self.file.consume(ready as usize);
            self.at += ready;
        }
        Ok(())
    }
}

/// Returns the bytes of a value of fixed size.
const fn fixed(kind: u64) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headed(bytes: &[u8]) -> Result<Header, String> {
        let mut input = Input { file: bytes, at: 0, size: bytes.len() as u64 };
        read(&mut input).map_err(|fault| match fault {
            Fault::Wrong(why) => why,
            Fault::Read(error) => error.to_string(),
        })
    }

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn file(tensors: u64, values: u64, rest: &[u8]) -> Vec<u8> {
        [b"GGUF\x03\0\0\0", &tensors.to_le_bytes()[..], &values.to_le_bytes(), rest].concat()
    }

    fn tensor(kind: u32, dimensions: &[u64], offset: u64) -> Vec<u8> {
        let sizes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
        let count = (dimensions.len() as u32).to_le_bytes();
        [text("t"), count.to_vec(), sizes, kind.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()]
            .concat()
    }

    #[test]
    fn a_file_must_be_as_long_as_its_tensors() {
        let value = [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text("llama")].concat();
        let mut bytes = file(1, 1, &[value, tensor(2, &[64], 0)].concat());
        bytes.resize(bytes.len().next_multiple_of(32) + 36, 0);
        let header = headed(&bytes).unwrap();
        assert_eq!((header.version, header.tensors, header.architecture.as_deref()), (3, 1, Some("llama")));
        for end in 0..bytes.len() {
            assert!(headed(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(headed(&bytes[..bytes.len() - 1]).unwrap_err().contains("cut short"));
        assert!(headed(&file(0, 0, b"")).is_ok(), "a vocabulary alone has no tensors");
    }

    #[test]
    fn hostile_headers_are_refused() {
        let array = |kind: u32, count: u64| {
            [
                text("k"),
                9_u32.to_le_bytes().to_vec(),
                kind.to_le_bytes().to_vec(),
                count.to_le_bytes().to_vec(),
            ]
            .concat()
        };
        let nested: Vec<u8> =
            (0..20).flat_map(|_| [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat()).collect();
        let deep = [text("k"), 9_u32.to_le_bytes().to_vec(), nested].concat();
        for (why, bytes) in [
            ("another magic", b"GGML\x03\0\0\0".to_vec()),
            ("a later version", b"GGUF\x09\0\0\0".to_vec()),
            ("2^63 values", file(0, 1 << 63, b"")),
            ("2^63 tensors", file(1 << 63, 0, b"")),
            ("an array of 2^63 numbers", file(0, 1, &array(10, 1 << 63))),
            ("an array of 2^63 texts", file(0, 1, &array(8, 1 << 63))),
            ("depth", file(0, 1, &deep)),
            ("a text of 2^63 bytes", file(0, 1, &(1_u64 << 63).to_le_bytes())),
            ("a wrapped shape", file(1, 0, &tensor(0, &[1 << 63, 2], 0))),
            ("a wrapped offset", file(1, 0, &tensor(0, &[1], u64::MAX))),
            ("a broken block", file(1, 0, &tensor(2, &[31], 0))),
            ("an unknown value", file(0, 1, &[text("k"), 99_u32.to_le_bytes().to_vec()].concat())),
        ] {
            assert!(headed(&bytes).is_err(), "{why} must be refused");
        }
    }
}
