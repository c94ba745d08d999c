//! Digests and ids: one newtype for each thing that is addressed, their text, and the hashers that make them.
//!
//! Nothing here knows what the digested bytes mean, and no file is read but one that is mapped on request. There
//! is no conversion between kinds of id other than through their bytes, so that a file's SHA-256 cannot stand
//! where an object id is wanted.

use std::fmt;
use std::io;
use std::path::Path;

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Digits are missing or too many.
    #[error("expected {expected} hex digits, found {found}")]
    Length {
        /// Hex digits of a whole id.
        expected: usize,
        /// Hex digits given.
        found: usize,
    },
    /// A character outside `0-9a-f`.
    #[error("`{0}` is not a lower-case hex digit")]
    Digit(char),
    /// Too short to name anything.
    #[error("an id is shortened to {min} hex digits at least, `{text}` has {found}")]
    TooShort {
        /// The text given.
        text: String,
        /// Its hex digits.
        found: usize,
        /// The fewest allowed.
        min: usize,
    },
    /// A holder id without its `h:`.
    #[error("a holder id begins with `h:`")]
    NotAHolder,
}

fn parse_hex(text: &str) -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    let mut all = 0;
    if text.len() == 64 {
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
            all |= high | low;
            *byte = (high << 4) | (low & 15);
        }
        if all < 16 {
            return Ok(bytes);
        }
    }
    // Only a wrong text is looked at character by character.
    match text.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        Some(bad) => Err(Error::Digit(bad)),
        None => Err(Error::Length { expected: 64, found: text.len() }),
    }
}

/// Value of each lower-case hex digit; 255 for every other byte. A million statements hold two million ids as text.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut n = 0;
    while n < 16 {
        values[b"0123456789abcdef"[n] as usize] = n as u8;
        n += 1;
    }
    values
};

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    }
}

/// Writes bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Takes 32 bytes that are already known to be this kind of digest.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Returns the digest's bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Parses 64 lower-case hex digits.
            pub fn from_hex(text: &str) -> Result<Self, Error> {
                parse_hex(text).map(Self)
            }

            /// Returns the 64 lower-case hex digits.
            pub fn to_hex(&self) -> String {
                hex(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({}..)"), hex(&self.0[..4]))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize_array(deserializer).map(Self)
            }
        }
    };
}

digest! {
    /// BLAKE3-256 of an object's bytes: its address in the store.
    ObjectId
}
digest! {
    /// SHA-256 of bytes, for the log and for tools that know no BLAKE3.
    Sha256
}
digest! {
    /// RFC 6962 leaf hash of a statement's bytes: `SHA256(0x00 || bytes)`.
    StatementId
}
digest! {
    /// RFC 6962 leaf hash of the genesis statement, which is the log's root at size 1.
    LedgerId
}
digest! {
    /// COSE key thumbprint (RFC 9679, SHA-256) of a public key.
    KeyId
}
digest! {
    /// Root or inner node of the log's Merkle tree.
    TreeHash
}

impl LedgerId {
    /// Returns the id of the ledger whose genesis statement is `genesis`.
    pub const fn of_genesis(genesis: StatementId) -> Self {
        Self(*genesis.as_bytes())
    }
}

/// A person or machine: the thumbprint of the first key it was given. Text is `h:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HolderId(KeyId);

impl HolderId {
    /// Returns the holder whose first key is `key`.
    pub const fn of_first_key(key: KeyId) -> Self {
        Self(key)
    }

    /// Returns the thumbprint of the holder's first key.
    pub const fn first_key(&self) -> KeyId {
        self.0
    }

    /// Parses `h:` and 64 hex digits.
    pub fn parse(text: &str) -> Result<Self, Error> {
        KeyId::from_hex(text.strip_prefix("h:").ok_or(Error::NotAHolder)?).map(Self)
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h:{}", self.0)
    }
}

/// One claim in the log: a statement and the position in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClaimRef {
    /// The statement.
    pub statement: StatementId,
    /// The claim's place in it, from 0.
    pub position: u16,
}

/// Reads a CBOR byte string of exactly `N` bytes.
pub(crate) fn deserialize_array<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    struct Bytes<const N: usize>;
    impl<const N: usize> serde::de::Visitor<'_> for Bytes<N> {
        type Value = [u8; N];
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a byte string of {N} bytes")
        }
        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<[u8; N], E> {
            bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
        }
    }
    deserializer.deserialize_bytes(Bytes::<N>)
}

/// The beginning of an id as a person types it: at least six hex digits.
///
/// Six digits name one of 16 million, so a ledger of thousands of runs is rarely ambiguous and a typing
/// error rarely hits another run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix(String);

impl Prefix {
    /// The fewest hex digits that name an id.
    pub const MIN_HEX_LEN: usize = 6;

    /// Parses 6 to 64 lower-case hex digits.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(bad) = text.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
            return Err(Error::Digit(bad));
        }
        if text.len() < Self::MIN_HEX_LEN {
            return Err(Error::TooShort { text: text.to_owned(), found: text.len(), min: Self::MIN_HEX_LEN });
        }
        if text.len() > 64 {
            return Err(Error::Length { expected: 64, found: text.len() });
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns whether a digest's hex begins with this prefix.
    pub fn matches(&self, digest: &[u8; 32]) -> bool {
        let whole = self.0.len() / 2;
        let digits = self.0.as_bytes();
        (0..whole).all(|i| digest[i] == (nibble(digits[2 * i]) << 4) | nibble(digits[2 * i + 1]))
            && (digits.len().is_multiple_of(2) || digest[whole] >> 4 == nibble(digits[2 * whole]))
    }

    /// Returns the bytes that the digits give whole; an odd last digit is left out.
    pub fn whole_bytes(&self) -> Vec<u8> {
        self.0.as_bytes().chunks_exact(2).map(|pair| (nibble(pair[0]) << 4) | nibble(pair[1])).collect()
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// BLAKE3 of whole bytes in memory.
pub fn object_id(bytes: &[u8]) -> ObjectId {
    ObjectId(*blake3::hash(bytes).as_bytes())
}

/// BLAKE3 of a file that is mapped into memory, on all cores; small files are read.
///
/// The file must not become shorter meanwhile: the system ends a process that touches what is gone.
pub fn object_id_of_mapped(path: &Path) -> io::Result<ObjectId> {
    Ok(ObjectId(*blake3::Hasher::new().update_mmap_rayon(path)?.finalize().as_bytes()))
}

/// SHA-256 of whole bytes in memory.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(bytes).into())
}

/// SHA-256 of a one-byte prefix and then `parts`, as RFC 6962 forms leaf (`0x00`) and node (`0x01`) hashes.
pub fn sha256_prefixed(prefix: u8, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = sha2::Sha256::new();
    hasher.update([prefix]);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// RFC 6962 leaf hash of a statement: `SHA256(0x00 || bytes)`.
pub fn statement_id(bytes: &[u8]) -> StatementId {
    StatementId(sha256_prefixed(0, &[bytes]))
}

/// Which digests a [`Hasher`] makes. BLAKE3 is always made: it is the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digests {
    /// BLAKE3 only.
    Blake3,
    /// BLAKE3 and SHA-256.
    All,
}

/// Both digests and the length of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// BLAKE3 of the bytes.
    pub blake3: ObjectId,
    /// SHA-256 of the bytes, if it was asked for.
    pub sha256: Option<Sha256>,
    /// Number of bytes.
    pub size: u64,
}

/// Hashes a stream once for all wanted digests.
#[derive(Clone, Debug)]
pub struct Hasher {
    blake3: blake3::Hasher,
    sha256: Option<sha2::Sha256>,
    size: u64,
}

impl Hasher {
    /// Starts an empty stream.
    pub fn new(digests: Digests) -> Self {
        Self {
            blake3: blake3::Hasher::new(),
            sha256: (digests == Digests::All).then(sha2::Sha256::new),
            size: 0,
        }
    }

    /// Adds bytes to the stream.
    pub fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.size += bytes.len() as u64;
    }

    /// Ends the stream.
    pub fn finish(self) -> Fingerprint {
        Fingerprint {
            blake3: ObjectId(*self.blake3.finalize().as_bytes()),
            sha256: self.sha256.map(|hasher| Sha256(hasher.finalize().into())),
            size: self.size,
        }
    }
}

/// Hashes one piece of a longer input for BLAKE3, whose tree joins pieces that were hashed apart.
///
/// Pieces have one length, a power of two and at least 1,024 bytes; only the last one may be shorter, and none is
/// empty. Anything else gives an id of nothing.
#[derive(Clone, Debug)]
pub struct PieceHasher(blake3::Hasher);

/// What a piece gives to the tree above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece(ChainingValue);

impl PieceHasher {
    /// Starts the piece that begins at this byte of the input.
    pub fn at(offset: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        Self(hasher)
    }

    /// Adds bytes of the piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Ends the piece, which holds a byte at least.
    pub fn finish(self) -> Piece {
        Piece(self.0.finalize_non_root())
    }
}

/// Joins the pieces of a whole input, in order, to its BLAKE3; `None` unless they are two at least.
pub fn join_pieces(pieces: &[Piece]) -> Option<ObjectId> {
    let (left, right) = halves(pieces)?;
    Some(ObjectId(*merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes()))
}

fn subtree(pieces: &[Piece]) -> ChainingValue {
    match (pieces, halves(pieces)) {
        (_, Some((left, right))) => merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash),
        ([piece], None) => piece.0,
        _ => ChainingValue::default(),
    }
}

/// Splits pieces as BLAKE3 does: to the left the largest power of two that leaves something to the right.
fn halves(pieces: &[Piece]) -> Option<(&[Piece], &[Piece])> {
    let power = pieces.len().checked_sub(1)?.checked_ilog2()?;
    pieces.split_at_checked(1 << power)
}

/// Hashes a stream for SHA-256 alone, where BLAKE3 is made of the same bytes elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Sha256Hasher(sha2::Sha256);

impl Sha256Hasher {
    /// Adds bytes to the stream.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Ends the stream.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_digest_of_the_whole() {
        const LEN: usize = 1024;
        let bytes: Vec<u8> = (0..33 * LEN).map(|n| (n % 251) as u8).collect();
        for piece in [LEN, 4 * LEN] {
            for size in (0..33).flat_map(|n| [n * LEN + 1, n * LEN + LEN - 1, (n + 1) * LEN]) {
                let chunks = bytes[..size].chunks(piece).zip((0u64..).step_by(piece));
                let pieces: Vec<Piece> = chunks
                    .map(|(chunk, offset)| {
                        let mut hasher = PieceHasher::at(offset);
                        chunk.chunks(700).for_each(|part| hasher.update(part));
                        hasher.finish()
                    })
                    .collect();
                let expected = (size > piece).then(|| object_id(&bytes[..size]));
                assert_eq!(join_pieces(&pieces), expected, "{size} bytes in pieces of {piece}");
            }
        }
        assert_eq!(join_pieces(&[]), None);
    }

    #[test]
    fn text_is_lower_case_and_whole() {
        let id = object_id(b"");
        // BLAKE3 of nothing, as b3sum prints it.
        assert_eq!(id.to_hex(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(ObjectId::from_hex(&id.to_hex()), Ok(id));
        assert_eq!(ObjectId::from_hex("AF"), Err(Error::Digit('A')));
        assert_eq!(ObjectId::from_hex("af"), Err(Error::Length { expected: 64, found: 2 }));
    }

    #[test]
    fn a_prefix_matches_odd_and_even_lengths() {
        let id = *object_id(b"").as_bytes();
        for len in 6..=64 {
            assert!(Prefix::parse(&hex(&id)[..len]).unwrap().matches(&id));
        }
        assert!(!Prefix::parse("af1348").unwrap().matches(&id));
        assert!(!Prefix::parse("af1349b8").unwrap().matches(&id));
        assert!(matches!(Prefix::parse("af134"), Err(Error::TooShort { found: 5, .. })));
    }

    #[test]
    fn one_pass_gives_both_digests() {
        let mut hasher = Hasher::new(Digests::All);
        hasher.update(b"a");
        hasher.update(b"bc");
        let print = hasher.finish();
        assert_eq!(print.blake3, object_id(b"abc"));
        assert_eq!(print.sha256, Some(sha256(b"abc")));
        assert_eq!(print.size, 3);
    }

    #[test]
    fn an_empty_leaf_has_the_hash_of_rfc_6962() {
        let expected = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        assert_eq!(statement_id(b"").to_hex(), expected);
    }
}
