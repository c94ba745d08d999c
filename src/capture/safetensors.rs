//! Reads safetensors files: a strict header, and one digest for each tensor's bytes.
//!
//! The format is eight bytes of header length, a JSON header, and the tensors' bytes without gaps. Nothing here
//! interprets an element, and nothing here knows which file belongs to which checkpoint.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::capture::walk;
use crate::id::{Digests, Hasher, ObjectId};
use crate::model::content::{Tensor, escape};

/// The header may have this many bytes; writers of the format hold themselves to the same limit.
const MAX_HEADER: u64 = 100_000_000;

/// Why a file could not be read as safetensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    #[error(transparent)]
    Open(walk::Error),
    /// Reading failed.
    #[error("reading stopped")]
    Read(#[source] io::Error),
    /// The bytes are not a whole safetensors file.
    #[error(transparent)]
    Damage(#[from] Damage),
}

/// What is wrong with the bytes of a safetensors file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Fewer bytes than the header and the tensors need.
    #[error("it is cut short: {expected} bytes are promised, {found} are there")]
    Short {
        /// Bytes that the file must have at least.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// Bytes that belong to no tensor.
    #[error("{extra} bytes follow the last tensor")]
    Trailing {
        /// How many.
        extra: u64,
    },
    /// The header is longer than any writer makes it.
    #[error("its header claims {0} bytes, at most {MAX_HEADER} are allowed")]
    HeaderSize(u64),
    /// The header is not the JSON that the format wants.
    #[error("its header is not valid: {0}")]
    Header(String),
    /// The bytes of two tensors overlap or leave a gap.
    #[error("tensor `{}` begins at {found}, where {expected} was expected", escape(name.as_bytes()))]
    Offset {
        /// The tensor.
        name: String,
        /// Where the one before it ends.
        expected: u64,
        /// Where it begins.
        found: u64,
    },
    /// The shape does not fit the number of bytes, or any number of bytes.
    #[error("tensor `{}` has {found} bytes, which its shape and type do not give", escape(name.as_bytes()))]
    Size {
        /// The tensor.
        name: String,
        /// The bytes it has.
        found: u64,
    },
}

/// A whole safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Its tensors, in the order of their bytes.
    pub tensors: Vec<Tensor>,
    /// BLAKE3 of the whole file as it was read for the tensors.
    pub file: ObjectId,
}

/// Reads a file of `size` bytes and digests each of its tensors.
pub fn read(path: &Path, size: u64) -> Result<Contents, Error> {
    let (file, _) = walk::open_regular(path).map_err(Error::Open)?;
    read_from(file, size)
}

/// Returns the bits of one element, or `None` for a type that came after this table.
///
/// The bytes of an unknown type are still delimited by their offsets, so its digest is as good; only the check
/// of its shape is left out.
pub fn element_bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

/// What the header says of one tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

fn read_from(mut file: impl Read, size: u64) -> Result<Contents, Error> {
    let mut whole = Hasher::new(Digests::Blake3);
    if size < 8 {
        return Err(Damage::Short { expected: 8, found: size }.into());
    }
    let mut length = [0; 8];
    fill(&mut file, &mut length, 0, size)?;
    whole.update(&length);
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(Damage::HeaderSize(length).into());
    }
    if length > size - 8 {
        return Err(Damage::Short { expected: 8 + length, found: size }.into());
    }
    let mut header = vec![0; length as usize];
    fill(&mut file, &mut header, 8, size)?;
    whole.update(&header);
    let described = parse_header(&header, size - 8 - length)?;
    drop(header);

    let mut buffer = vec![0; 256 << 10];
    let mut tensors = Vec::with_capacity(described.len());
    for (name, Described { dtype, shape, data_offsets: (start, end) }) in described {
        let mut hasher = Hasher::new(Digests::Blake3);
        let mut left = end - start;
        while left > 0 {
            let part = &mut buffer[..left.min(256 << 10) as usize];
            fill(&mut file, part, size - left, size)?;
            hasher.update(part);
            whole.update(part);
            left -= part.len() as u64;
        }
        tensors.push(Tensor { name, dtype, shape, id: hasher.finish().blake3 });
    }
    Ok(Contents { tensors, file: whole.finish().blake3 })
}

/// Fills `part`; a file that ends here is shorter than the `size` that it had.
fn fill(file: &mut impl Read, part: &mut [u8], at: u64, size: u64) -> Result<(), Error> {
    file.read_exact(part).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Damage::Short { expected: size, found: at }.into(),
        _ => Error::Read(error),
    })
}

/// Parses the header and holds its tensors to the `data` bytes that follow: each exactly once, without gaps.
fn parse_header(header: &[u8], data: u64) -> Result<Vec<(String, Described)>, Damage> {
    // Writers pad at the end only; a header that begins otherwise is another format.
    if header.first() != Some(&b'{') {
        return Err(Damage::Header("it does not begin with `{`".into()));
    }
    let Header(mut tensors) =
        serde_json::from_slice(header).map_err(|error| Damage::Header(error.to_string()))?;
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut next = 0;
    for (name, Described { dtype, shape, data_offsets: (start, end) }) in &tensors {
        if *start != next {
            return Err(Damage::Offset { name: name.clone(), expected: next, found: *start });
        }
        let bytes = end.checked_sub(*start).ok_or_else(|| {
            Damage::Header(format!("tensor `{}` ends before it begins", escape(name.as_bytes())))
        })?;
        let wrong = || Damage::Size { name: name.clone(), found: bytes };
        // A dimension of 2^63 must not wrap into a plausible size.
        let elements =
            shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size)).ok_or_else(wrong)?;
        if let Some(bits) = element_bits(dtype) {
            let bits = elements.checked_mul(bits).ok_or_else(wrong)?;
            if bits % 8 != 0 || bits / 8 != bytes {
                return Err(wrong());
            }
        }
        next = *end;
    }
    if next > data {
        let before = 8 + header.len() as u64;
        return Err(Damage::Short { expected: before.saturating_add(next), found: before + data });
    }
    if next < data {
        return Err(Damage::Trailing { extra: data - next });
    }
    Ok(tensors)
}

/// The header with every name once. JSON readers silently keep one of two equal names, and which one differs.
struct Header(Vec<(String, Described)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut tensors, mut known) = (Vec::new(), HashSet::new());
                while let Some(name) = map.next_key::<String>()? {
                    if !known.insert(name.clone()) {
                        let name = escape(name.as_bytes());
                        return Err(de::Error::custom(format_args!("`{name}` stands twice")));
                    }
                    if name == "__metadata__" {
                        // Free text of the writer; it says nothing that a loader acts on.
                        map.next_value::<BTreeMap<String, String>>()?;
                    } else {
                        tensors.push((name, map.next_value()?));
                    }
                }
                Ok(Header(tensors))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::object_id;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    fn parsed(bytes: &[u8]) -> Result<Contents, String> {
        read_from(bytes, bytes.len() as u64).map_err(|error| error.to_string())
    }

    const TWO: &str = r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},
        "b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   "#;

    #[test]
    fn each_tensor_has_the_digest_of_its_bytes() {
        let bytes = file(TWO, b"bbbbwwww");
        let contents = parsed(&bytes).unwrap();
        let names: Vec<_> =
            contents.tensors.iter().map(|t| (&t.name[..], &t.dtype[..], &t.shape[..])).collect();
        assert_eq!(names, [("b", "F32", &[][..]), ("w", "F16", &[2])]);
        assert_eq!(contents.tensors[0].id, object_id(b"bbbb"));
        assert_eq!(contents.tensors[1].id, object_id(b"wwww"));
        assert_eq!(contents.file, object_id(&bytes));
    }

    #[test]
    fn types_of_less_than_a_byte_and_later_types_are_read() {
        let header =
            |dtype, shape| format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,3]}}}}"#);
        assert!(parsed(&file(&header("F4", "[2,3]"), b"123")).is_ok());
        assert!(parsed(&file(&header("F6_E2M3", "[4]"), b"123")).is_ok());
        assert!(parsed(&file(&header("F4", "[5]"), b"123")).is_err());
        assert!(parsed(&file(&header("NEW_TYPE", "[5]"), b"123")).is_ok());
        assert!(parsed(&file(&header("U8", "[4]"), b"123")).is_err());
        assert!(parsed(&file("{}", b"")).is_ok(), "no tensor at all is a whole file");
        let none = r#"{"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},
            "b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        assert_eq!(parsed(&file(none, b"1")).unwrap().tensors.len(), 2);
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = file(TWO, b"bbbbwwww");
        for end in 0..bytes.len() {
            let error = parsed(&bytes[..end]).unwrap_err();
            assert!(error.contains("cut short"), "cut at {end}: {error}");
        }
        // The file became shorter after its size was asked for.
        let error = read_from(&bytes[..bytes.len() - 1], bytes.len() as u64).unwrap_err();
        assert!(matches!(error, Error::Damage(Damage::Short { .. })));
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(parsed(&longer).unwrap_err(), "1 bytes follow the last tensor");
    }

    #[test]
    fn headers_that_readers_would_read_differently_are_refused() {
        let one = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        let pair = |first: &str, second: &str| {
            format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},
                    "b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
            )
        };
        for (why, header) in [
            ("two of one name", TWO.replace("\"w\"", "\"b\"")),
            ("metadata twice", r#"{"__metadata__":{},"__metadata__":{}}"#.into()),
            ("metadata that is not text", r#"{"__metadata__":{"a":1}}"#.into()),
            ("a field twice", r#"{"t":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#.into()),
            ("a field too many", r#"{"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1}}"#.into()),
            ("a field missing", r#"{"t":{"dtype":"U8","data_offsets":[0,8]}}"#.into()),
            ("an overlap", pair("[0,4]", "[3,8]")),
            ("a gap", pair("[0,3]", "[4,8]")),
            ("the same bytes twice", pair("[0,4]", "[0,4]")),
            ("a beginning after the end", one("U8", "[8]", "[8,0]")),
            ("a first byte that is not the first", one("U8", "[7]", "[1,8]")),
            ("a wrapped shape", one("U8", "[9223372036854775808,2]", "[0,0]")),
            ("a wrapped number of bits", one("F64", "[2305843009213693952]", "[0,8]")),
            ("an end beyond everything", one("NEW", "[1]", "[0,18446744073709551615]")),
            ("a negative dimension", one("U8", "[-8]", "[0,8]")),
            ("a dimension of 2^64", one("U8", "[18446744073709551616]", "[0,8]")),
            ("a fraction", one("U8", "[8.0]", "[0,8]")),
            ("an array", "[]".into()),
            ("leading space", format!(" {TWO}")),
            ("something after it", format!("{TWO}{{}}")),
            ("nothing", String::new()),
            ("depth", "{\"a\":".repeat(100_000)),
        ] {
            assert!(parsed(&file(&header, b"bbbbwwww")).is_err(), "{why} must be refused");
        }
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert!(read_from(&huge[..], u64::MAX).is_err(), "the claimed length is not allocated");
    }
}
