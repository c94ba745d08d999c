//! Reads safetensors files: a strict header, and one digest for each tensor's bytes.
//!
//! The format is eight bytes of header length, a JSON header, and the tensors' bytes without gaps. Nothing here
//! interprets an element, and nothing here knows which file belongs to which checkpoint.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::capture::walk;
use crate::id::{Digests, Hasher, ObjectId};
use crate::model::content::{Tensor, escape};

/// The header may have this many bytes; writers of the format hold themselves to the same limit.
const MAX_HEADER: u64 = 100_000_000;
/// More tensors than this have no record that would hold them; the largest public models have some 100,000.
const MAX_TENSORS: usize = 400_000;
/// Bytes of all names together, for the same reason.
const MAX_NAMES: usize = 32 << 20;
/// No library has tensors of more dimensions.
const MAX_DIMENSIONS: usize = 64;

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

/// Returns the bytes of a tensor, or `None` for an unknown type or a shape that no bytes can have.
pub(crate) fn bytes_of(dtype: &str, shape: &[u64]) -> Option<u64> {
    // A dimension of 2^63 must not wrap into a plausible size.
    let elements = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size))?;
    let bits = elements.checked_mul(element_bits(dtype)?)?;
    if bits % 8 == 0 { Some(bits / 8) } else { None }
}

/// What the header says of one tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    dtype: String,
    #[serde(deserialize_with = "shape")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads a shape, and no more of it than any tensor has.
fn shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    struct Sizes;
    impl<'de> Visitor<'de> for Sizes {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of sizes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u64>, A::Error> {
            let mut sizes = Vec::new();
            while let Some(size) = seq.next_element()? {
                if sizes.len() == MAX_DIMENSIONS {
                    return Err(de::Error::custom(format_args!("more than {MAX_DIMENSIONS} dimensions")));
                }
                sizes.push(size);
            }
            Ok(sizes)
        }
    }
    deserializer.deserialize_seq(Sizes)
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
        serde_json::from_slice(header).map_err(|error| Damage::Header(clipped(&error.to_string())))?;
    // JSON readers silently keep one of two equal names, and which one differs.
    tensors.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Damage::Header(format!("`{}` stands twice", escape(clipped(&pair[0].0).as_bytes()))));
    }
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut next = 0;
    for (name, Described { dtype, shape, data_offsets: (start, end) }) in &tensors {
        if *start != next {
            return Err(Damage::Offset { name: clipped(name), expected: next, found: *start });
        }
        let bytes = end.checked_sub(*start).ok_or_else(|| {
            Damage::Header(format!("tensor `{}` ends before it begins", escape(clipped(name).as_bytes())))
        })?;
        let wrong = || Damage::Size { name: clipped(name), found: bytes };
        // The bytes of an unknown type are not held to its shape, but no shape may wrap.
        let elements = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        if elements.is_none() || element_bits(dtype).is_some() && bytes_of(dtype, shape) != Some(bytes) {
            return Err(wrong());
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

/// Returns the beginning of a text, which may be as long as a header.
fn clipped(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The tensors of a header, which may still hold a name twice.
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
                let (mut tensors, mut names, mut has_metadata) = (Vec::new(), 0, false);
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        if has_metadata {
                            return Err(de::Error::custom("`__metadata__` stands twice"));
                        }
                        has_metadata = true;
                        map.next_value::<Metadata>()?;
                        continue;
                    }
                    names += name.len();
                    if tensors.len() == MAX_TENSORS || names > MAX_NAMES {
                        let most =
                            format_args!("more than {MAX_TENSORS} tensors or {MAX_NAMES} bytes of names");
                        return Err(de::Error::custom(most));
                    }
                    tensors.push((name, map.next_value()?));
                }
                Ok(Header(tensors))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

/// Free text of the writer, which says nothing that a loader acts on: it must be text, and is not kept.
struct Metadata;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                while map.next_entry::<Text, Text>()?.is_some() {}
                Ok(Metadata)
            }
        }
        deserializer.deserialize_map(Texts)
    }
}

struct Text;

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, _: &str) -> Result<Text, E> {
                Ok(Text)
            }
        }
        deserializer.deserialize_str(Any)
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
        let long = format!("\"{}\"", "n".repeat(MAX_NAMES + 1));
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
            ("depth in a field", one("U8", &"[".repeat(100_000), "[0,8]")),
            ("more dimensions than any tensor", one("U8", &format!("[{}8]", "1,".repeat(64)), "[0,8]")),
            ("a name longer than all names may be", one("U8", "[8]", "[0,8]").replace("\"t\"", &long)),
        ] {
            assert!(parsed(&file(&header, b"bbbbwwww")).is_err(), "{why} must be refused");
        }
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert!(read_from(&huge[..], u64::MAX).is_err(), "the claimed length is not allocated");
    }

    #[test]
    fn more_tensors_than_a_record_holds_are_refused_and_named_shortly() {
        let one = |name: usize| format!(r#""{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
        let header = |count: usize| format!("{{{}}}", (0..count).map(one).collect::<Vec<_>>().join(","));
        assert_eq!(parsed(&file(&header(1000), b"")).unwrap().tensors.len(), 1000);
        let error = parsed(&file(&header(MAX_TENSORS + 1), b"")).unwrap_err();
        assert!(error.contains("more than 400000 tensors"), "{error}");
        let name = "n".repeat(1 << 20);
        let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}}}"#);
        let error = parsed(&file(&header, b"12")).unwrap_err();
        assert!(error.len() < 400, "{} bytes of message", error.len());
    }
}
