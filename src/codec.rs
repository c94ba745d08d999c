//! The one encoding: core deterministic CBOR (RFC 8949 section 4.2.1) with text keys and no tags in records.
//!
//! Three tools stand here. [`encode`] and [`decode`] turn records, which are serde structs, into bytes and
//! back. [`check`] accepts exactly the bytes that `encode` could have written, before anything is allocated.
//! [`Writer`] and [`Reader`] are the same rules as a stream, for the log's statements, of which a program
//! reads a million in a second. What the bytes mean is not known here.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use serde_cbor::Value;

/// Records above this many bytes are refused before they are decoded.
pub const MAX_RECORD: usize = 16 << 20;
/// Arrays and maps may nest this deep; no record needs more than six levels.
pub const MAX_DEPTH: usize = 32;

/// Why bytes are not the one form of anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside an item.
    #[error("the bytes end at {at}, inside an item")]
    Truncated {
        /// Offset of the item.
        at: usize,
    },
    /// Bytes follow the one item.
    #[error("{extra} bytes follow the item that ends at {at}")]
    Trailing {
        /// Where the item ends.
        at: usize,
        /// How many bytes follow.
        extra: usize,
    },
    /// A form that the deterministic rules exclude.
    #[error("byte {at}: {what}")]
    NotCanonical {
        /// Offset.
        at: usize,
        /// The rule that is broken.
        what: &'static str,
    },
    /// Another item was wanted.
    #[error("byte {at}: expected {expected}")]
    Unexpected {
        /// Offset.
        at: usize,
        /// What the format has here.
        expected: &'static str,
    },
    /// More than [`MAX_RECORD`] bytes.
    #[error("{size} bytes are more than the {MAX_RECORD} that a record may have")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
    /// The fields do not fit the record.
    #[error("the fields are not those of this record")]
    Fields(#[source] serde_cbor::Error),
}

/// Encodes a record.
///
/// The value passes through [`Value`], whose maps order their keys as the deterministic rules want; writing
/// a struct directly would keep the order of its fields instead.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, Error> {
    let value = serde_cbor::value::to_value(record).map_err(Error::Fields)?;
    let bytes = serde_cbor::to_vec(&value).map_err(Error::Fields)?;
    if bytes.len() > MAX_RECORD {
        return Err(Error::TooLarge { size: bytes.len() });
    }
    debug_assert!(check(&bytes).is_ok(), "a record has a field that CBOR cannot hold in one form");
    Ok(bytes)
}

/// Decodes a record from exactly the bytes that [`encode`] would write.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    check(bytes)?;
    serde_cbor::from_slice(bytes).map_err(Error::Fields)
}

/// Accepts one item in deterministic form and nothing after it.
pub fn check(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() > MAX_RECORD {
        return Err(Error::TooLarge { size: bytes.len() });
    }
    let mut reader = Reader::new(bytes);
    reader.skip()?;
    reader.end()
}

/// An entry of a map: the bytes of its key and of its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// Takes a map with text keys apart, which [`check`] has accepted: it alone counts levels from the outermost.
pub fn entries(bytes: &[u8]) -> Result<Vec<(&str, Entry<'_>)>, Error> {
    let mut reader = Reader::new(bytes);
    let mut map = reader.map()?;
    let mut entries = Vec::with_capacity(map.left as usize);
    loop {
        let start = reader.position();
        let Some(name) = reader.key(&mut map)? else { break };
        let key = &bytes[start..reader.position()];
        entries.push((name, (key, reader.skip()?)));
    }
    reader.end()?;
    Ok(entries)
}

/// Puts a map together from entries with different keys.
pub fn map_of(mut entries: Vec<Entry<'_>>) -> Result<Vec<u8>, Error> {
    entries.sort_unstable();
    let size: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    // No head of a map is longer than nine bytes.
    let mut writer = Writer { bytes: Vec::with_capacity(size + 9) };
    writer.map(entries.len());
    for (key, value) in entries {
        writer.raw(key).raw(value);
    }
    let bytes = writer.finish();
    if bytes.len() > MAX_RECORD {
        return Err(Error::TooLarge { size: bytes.len() });
    }
    Ok(bytes)
}

const UINT: u8 = 0;
const NINT: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

/// Reads items in deterministic form from borrowed bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The state of a map that is being read: entries left, and the last key for the order check.
#[derive(Debug, Clone, Copy)]
pub struct MapState<'a> {
    left: u64,
    last: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next item.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Ends the reading: nothing may follow.
    pub const fn end(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(Error::Trailing { at: self.at, extra: self.bytes.len() - self.at })
        }
    }

    fn head(&mut self) -> Result<(u8, u64), Error> {
        let start = self.at;
        let truncated = Error::Truncated { at: start };
        let Some(&first) = self.bytes.get(start) else { return Err(truncated) };
        let (major, info) = (first >> 5, first & 31);
        let width = match info {
            0..=23 => {
                self.at += 1;
                return Ok((major, u64::from(info)));
            }
            24..=27 => 1_usize << (info - 24),
            28..=30 => return Err(Error::NotCanonical { at: start, what: "reserved length" }),
            _ => return Err(Error::NotCanonical { at: start, what: "indefinite length" }),
        };
        let Some(raw) = self.bytes.get(start + 1..start + 1 + width) else { return Err(truncated) };
        let value = raw.iter().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
        let smallest = match width {
            1 => 24,
            2 => 1 << 8,
            4 => 1 << 16,
            _ => 1 << 32,
        };
        if major != SIMPLE && value < smallest {
            return Err(Error::NotCanonical {
                at: start,
                what: "a length or integer is not in its shortest form",
            });
        }
        self.at += 1 + width;
        Ok((major, value))
    }

    fn expect(&mut self, major: u8, expected: &'static str) -> Result<u64, Error> {
        let at = self.at;
        match self.head()? {
            (found, value) if found == major => Ok(value),
            _ => Err(Error::Unexpected { at, expected }),
        }
    }

    fn run(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let at = self.at;
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let Some(run) = end.and_then(|end| self.bytes.get(at..end)) else {
            return Err(Error::Truncated { at });
        };
        self.at += run.len();
        Ok(run)
    }

    /// Reads an unsigned integer.
    pub fn uint(&mut self) -> Result<u64, Error> {
        self.expect(UINT, "an unsigned integer")
    }

    /// Reads an integer that fits `i64`.
    pub fn int(&mut self) -> Result<i64, Error> {
        let at = self.at;
        let wrong = Error::Unexpected { at, expected: "an integer of 64 bits" };
        match self.head()? {
            (UINT, value) => i64::try_from(value).map_err(|_| wrong),
            (NINT, value) => i64::try_from(value).map(|value| -1 - value).map_err(|_| wrong),
            _ => Err(wrong),
        }
    }

    /// Reads a byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let len = self.expect(BYTES, "a byte string")?;
        self.run(len)
    }

    /// Reads a byte string of exactly `N` bytes.
    pub fn array_of<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let at = self.at;
        self.bytes()?
            .try_into()
            .map_err(|_| Error::Unexpected { at, expected: "a byte string of the right length" })
    }

    /// Reads a text string.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let len = self.expect(TEXT, "a text")?;
        let at = self.at;
        std::str::from_utf8(self.run(len)?)
            .map_err(|_| Error::NotCanonical { at, what: "a text that is not UTF-8" })
    }

    /// Reads the head of an array and returns the number of its items.
    pub fn array(&mut self) -> Result<u64, Error> {
        let at = self.at;
        let len = self.expect(ARRAY, "an array")?;
        self.plausible(len, at)
    }

    /// Reads the head of an array that must have `len` items.
    pub fn array_len(&mut self, len: u64, expected: &'static str) -> Result<(), Error> {
        let at = self.at;
        if self.array()? == len { Ok(()) } else { Err(Error::Unexpected { at, expected }) }
    }

    /// Reads the head of a map.
    pub fn map(&mut self) -> Result<MapState<'a>, Error> {
        let at = self.at;
        let left = self.expect(MAP, "a map")?;
        Ok(MapState { left: self.plausible(left, at)?, last: &[] })
    }

    /// Every item takes a byte at least, so a longer count than bytes left is a lie: found before any loop.
    fn plausible(&self, count: u64, at: usize) -> Result<u64, Error> {
        if count > (self.bytes.len() - self.at) as u64 { Err(Error::Truncated { at }) } else { Ok(count) }
    }

    /// Reads the next text key of a map, or `None` at its end.
    pub fn key(&mut self, map: &mut MapState<'a>) -> Result<Option<&'a str>, Error> {
        if map.left == 0 {
            return Ok(None);
        }
        let start = self.at;
        let key = self.text()?;
        self.ordered(map, start)?;
        Ok(Some(key))
    }

    /// Reads the next integer key of a COSE map, or `None` at its end.
    pub fn label(&mut self, map: &mut MapState<'a>) -> Result<Option<i64>, Error> {
        if map.left == 0 {
            return Ok(None);
        }
        let start = self.at;
        let label = self.int()?;
        self.ordered(map, start)?;
        Ok(Some(label))
    }

    fn ordered(&self, map: &mut MapState<'a>, start: usize) -> Result<(), Error> {
        let key = &self.bytes[start..self.at];
        if key <= map.last {
            return Err(Error::NotCanonical {
                at: start,
                what: "map keys are not in strictly ascending order",
            });
        }
        map.last = key;
        map.left -= 1;
        Ok(())
    }

    /// Reads a tag and requires it to be `tag`.
    pub fn tag(&mut self, tag: u64) -> Result<(), Error> {
        let at = self.at;
        if self.expect(TAG, "a tag")? == tag {
            Ok(())
        } else {
            Err(Error::Unexpected { at, expected: "another tag" })
        }
    }

    /// Reads `null`.
    pub fn null(&mut self) -> Result<(), Error> {
        let at = self.at;
        if self.expect(SIMPLE, "null")? == 22 {
            Ok(())
        } else {
            Err(Error::Unexpected { at, expected: "null" })
        }
    }

    /// Steps over one item of any kind, holding it to the rules of records, and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], Error> {
        let start = self.at;
        // Items that are still to come at each level, and for maps the state of their keys. Most items are a
        // word or a number, so the levels have room only once there are some.
        let mut open: Vec<(u64, Option<MapState<'a>>)> = Vec::new();
        let mut outermost: (u64, Option<MapState<'a>>) = (1, None);
        loop {
            let (left, map) = open.last_mut().unwrap_or(&mut outermost);
            if *left == 0 {
                if open.pop().is_none() {
                    break;
                }
                continue;
            }
            *left -= 1;
            if let Some(map) = map {
                self.key(map)?;
            }
            let at = self.at;
            let (major, value) = self.head()?;
            match major {
                UINT | NINT => {}
                BYTES => {
                    self.run(value)?;
                }
                TEXT => {
                    self.at = at;
                    self.text()?;
                }
                ARRAY => open.push((self.plausible(value, at)?, None)),
                MAP => {
                    let left = self.plausible(value, at)?;
                    open.push((left, Some(MapState { left, last: &[] })));
                }
                TAG => return Err(Error::NotCanonical { at, what: "a tag" }),
                _ => self.simple(at, value)?,
            }
            if open.len() > MAX_DEPTH {
                return Err(Error::NotCanonical { at, what: "nested too deep" });
            }
        }
        Ok(&self.bytes[start..self.at])
    }

    /// Holds booleans, null and floats to their one form.
    fn simple(&self, at: usize, value: u64) -> Result<(), Error> {
        let not_shortest = Error::NotCanonical { at, what: "a float is not in its shortest form" };
        match self.at - at {
            1 if (20..=22).contains(&value) => Ok(()),
            3 => {
                // All exponent bits and any mantissa bit: not a number.
                let is_nan = value & 0x7fff > 0x7c00;
                if is_nan && value != 0x7e00 { Err(not_shortest) } else { Ok(()) }
            }
            5 => {
                let single = f32::from_bits(value as u32);
                if single.is_nan() || fits_half(single) { Err(not_shortest) } else { Ok(()) }
            }
            9 => {
                let double = f64::from_bits(value);
                let narrowed = double as f32;
                let fits = f64::from(narrowed).to_bits() == value;
                if double.is_nan() || fits { Err(not_shortest) } else { Ok(()) }
            }
            _ => Err(Error::NotCanonical { at, what: "a simple value other than true, false and null" }),
        }
    }
}

/// Returns whether a single-precision number is also a half-precision one.
fn fits_half(value: f32) -> bool {
    if value == 0.0 || value.is_infinite() {
        return true;
    }
    let bits = value.to_bits();
    let mantissa = bits & 0x007f_ffff;
    // The exponent is biased by 127: half precision has normal numbers from 2^-14 to 2^15 with 10 bits of
    // mantissa, and below them multiples of 2^-24.
    match (bits >> 23) & 0xff {
        113..=142 => mantissa.trailing_zeros() >= 13,
        exponent @ 103..=112 => mantissa.trailing_zeros() >= 126 - exponent,
        _ => false,
    }
}

/// Writes items in deterministic form; the caller gives map keys in ascending order of their encoding.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts an empty output.
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(256) }
    }

    /// Returns what was written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, major: u8, value: u64) -> &mut Self {
        let major = major << 5;
        match value {
            0..=23 => self.bytes.push(major | value as u8),
            24..=0xff => self.bytes.extend([major | 0x18, value as u8]),
            0x100..=0xffff => {
                self.bytes.push(major | 0x19);
                self.bytes.extend((value as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                self.bytes.push(major | 0x1a);
                self.bytes.extend((value as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(major | 0x1b);
                self.bytes.extend(value.to_be_bytes());
            }
        }
        self
    }

    /// Writes an unsigned integer.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.head(UINT, value)
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64) -> &mut Self {
        match u64::try_from(value) {
            Ok(value) => self.head(UINT, value),
            Err(_) => self.head(NINT, !value as u64),
        }
    }

    /// Writes a byte string.
    pub fn byte_string(&mut self, bytes: &[u8]) -> &mut Self {
        self.head(BYTES, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Writes a text string.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.head(TEXT, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    /// Opens an array of `len` items.
    pub fn array(&mut self, len: usize) -> &mut Self {
        self.head(ARRAY, len as u64)
    }

    /// Opens a map of `len` entries.
    pub fn map(&mut self, len: usize) -> &mut Self {
        self.head(MAP, len as u64)
    }

    /// Writes a tag; the tagged item follows.
    pub fn tag(&mut self, tag: u64) -> &mut Self {
        self.head(TAG, tag)
    }

    /// Writes `null`.
    pub fn null(&mut self) -> &mut Self {
        self.bytes.push(0xf6);
        self
    }

    /// Appends an item that is already in deterministic form.
    pub fn raw(&mut self, item: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(item);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_other_form_is_refused() {
        for (bytes, why) in [
            (&[0x18, 0x17][..], "long integer"),
            (&[0x19, 0x00, 0xff], "long integer"),
            (&[0x5f, 0x41, 0x00, 0xff], "indefinite bytes"),
            (&[0x9f, 0xff], "indefinite array"),
            (&[0xbf, 0xff], "indefinite map"),
            (&[0xc0, 0x60], "tag"),
            (&[0xf7], "undefined"),
            (&[0xf8, 0x20], "simple value"),
            (&[0xfa, 0x3f, 0x80, 0, 0], "1.0 as single"),
            (&[0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0], "1.0 as double"),
            (&[0xfa, 0x7f, 0xc0, 0, 0], "NaN as single"),
            (&[0xf9, 0x7e, 0x01], "NaN with a payload"),
            (&[0xa2, 0x61, b'b', 0, 0x61, b'a', 0], "keys out of order"),
            (&[0xa2, 0x61, b'a', 0, 0x61, b'a', 0], "key twice"),
            (&[0xa1, 0x01, 0x02], "integer key"),
            (&[0x62, 0xc3, 0x28], "not UTF-8"),
            (&[0x00, 0x00], "trailing byte"),
            (&[0x42, 0x00], "truncated"),
            (&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "a length that cannot be"),
            (&[], "nothing"),
        ] {
            assert!(check(bytes).is_err(), "{why} must be refused");
        }
        let mut deep = vec![0x81; MAX_DEPTH + 2];
        deep.push(0);
        assert!(check(&deep).is_err(), "depth is limited");
        assert!(check(&deep[3..]).is_ok());
        assert!(check(&vec![0x81; 1 << 20]).is_err(), "a million open arrays are refused without recursion");
    }

    #[test]
    fn keys_are_ordered_by_their_encoding() {
        let map: std::collections::BTreeMap<&str, u8> = [("", 4), ("aa", 2), ("b", 3), ("z", 1)].into();
        let bytes = encode(&map).unwrap();
        // Shorter keys first, because the head byte carries the length (RFC 8949 4.2.1).
        assert_eq!(bytes, [0xa4, 0x60, 4, 0x61, b'b', 3, 0x61, b'z', 1, 0x62, b'a', b'a', 2]);
        assert!(check(&bytes).is_ok());
    }

    #[test]
    fn writer_and_encoder_agree() {
        let mut writer = Writer::new();
        writer.array(4).uint(500).int(-500).byte_string(&[1, 2]).text("x");
        let value = Value::Array(vec![
            Value::Integer(500),
            Value::Integer(-500),
            Value::Bytes(vec![1, 2]),
            Value::Text("x".into()),
        ]);
        assert_eq!(writer.finish(), encode(&value).unwrap());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null),
            (-(1i128 << 64)..(1i128 << 64)).prop_map(Value::Integer),
            any::<f64>().prop_map(Value::Float),
            any::<f32>().prop_map(|x| Value::Float(f64::from(x))),
            (-2048i32..2048).prop_map(|x| Value::Float(f64::from(x) / 16_777_216.0)),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            ".*".prop_map(Value::Text),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::btree_map(".*".prop_map(Value::Text), inner, 0..8).prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_accepted_and_read_alike_by_another_decoder(value in values()) {
            let bytes = encode(&value).unwrap();
            prop_assert!(check(&bytes).is_ok());
            let other: ciborium::Value = ciborium::from_reader(&bytes[..]).unwrap();
            let ours: ciborium::Value = ciborium::Value::serialized(&value).unwrap();
            prop_assert_eq!(format!("{other:?}"), format!("{ours:?}"));
        }

        #[test]
        fn what_is_accepted_encodes_to_itself(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if check(&bytes).is_ok() {
                let value: Value = decode(&bytes).unwrap();
                prop_assert_eq!(encode(&value).unwrap(), bytes);
            }
        }
    }
}
