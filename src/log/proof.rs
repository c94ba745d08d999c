//! Proofs for people who do not have the log: that a statement is in it, and that it continues an older head.
//!
//! Each proof has two forms, the text of C2SP around a signed head and the COSE receipt of RFC 9942. They are
//! written, read and checked here. The hashes of a path are found in `tree.rs`, and what may be done with them is
//! arithmetic of `merkle.rs`.

use crate::codec::{self, Reader, Writer};
use crate::id::{StatementId, TreeHash};

use super::key::{PublicKey, base64, unbase64};
use super::merkle;
use super::note::{self, COSE_SIGN1, MAX_NOTE, SignedHead};

/// The longest path: a tree has less than 2^63 leaves, and a consistency proof one hash more than it is high.
pub const MAX_PATH: usize = 64;

/// First line of an inclusion proof in text.
const FIRST_LINE: &str = "c2sp.org/tlog-proof@v1";
/// COSE header label of proofs (RFC 9942).
const PROOFS: i64 = 396;
/// Label of inclusion proofs among them.
const INCLUSION: i64 = -1;
/// Label of consistency proofs among them.
const CONSISTENCY: i64 = -2;

/// Why bytes prove nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not the text of a proof.
    #[error("not a proof: {what}")]
    Text {
        /// The rule that is broken.
        what: &'static str,
    },
    /// Not a receipt in its one byte form.
    #[error("not a receipt in its one byte form")]
    Encoding(#[from] codec::Error),
    /// CBOR that is no receipt of this log's kind.
    #[error("not a receipt: {what}")]
    Receipt {
        /// The rule that is broken.
        what: &'static str,
    },
    /// A proof of the other kind was wanted.
    #[error("this proof is about something else: {what}")]
    Subject {
        /// What it is about.
        what: &'static str,
    },
    /// The signed head, or the signature of a receipt.
    #[error("the signature in the proof does not hold")]
    Signature(#[source] note::Error),
    /// The path leads elsewhere.
    #[error("the hashes in the proof do not lead to the signed root")]
    Path(#[from] merkle::Error),
}

/// What a proof is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A leaf is in the log, at this index.
    Leaf {
        /// Its index.
        index: u64,
    },
    /// The log begins with the one that had so many leaves.
    Past {
        /// Its number of leaves.
        size: u64,
    },
}

/// What whoever checks a proof holds already, and wants to see under a newer head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// A statement.
    Statement(StatementId),
    /// The root of an older head.
    Root(TreeHash),
}

/// A path of hashes and what it proves; the head that it leads to stands beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    /// What is proven.
    pub subject: Subject,
    /// The hashes, in the order of RFC 6962.
    pub path: Vec<TreeHash>,
}

impl Proof {
    /// Returns the root of a tree of `size` leaves that the path leads to from what is held.
    ///
    /// Every log continues the empty one, so from there the answer is `None`: no hash leads anywhere.
    pub fn root(&self, held: Held, size: u64) -> Result<Option<TreeHash>, Error> {
        match (self.subject, held) {
            (Subject::Leaf { index }, Held::Statement(id)) => {
                Ok(Some(merkle::inclusion_root(id, index, size, &self.path)?))
            }
            (Subject::Past { size: old }, Held::Root(root)) => {
                Ok(merkle::continued_root(old, root, size, &self.path)?)
            }
            (Subject::Leaf { .. }, Held::Root(_)) => Err(Error::Subject { what: "a statement" }),
            (Subject::Past { .. }, Held::Statement(_)) => Err(Error::Subject { what: "an older head" }),
        }
    }

    /// Writes the text form: a `.tlog-proof` file, or what C2SP witnesses take as a consistency proof.
    pub fn to_text(&self, head: &SignedHead) -> String {
        let mut text = match self.subject {
            Subject::Leaf { index } => format!("{FIRST_LINE}\nindex {index}\n"),
            Subject::Past { size } => format!("old {size}\n"),
        };
        for hash in &self.path {
            text.push_str(&base64(hash.as_bytes()));
            text.push('\n');
        }
        text.push('\n');
        text.push_str(head.as_str());
        text
    }

    /// Reads the text form. Neither path nor signature is checked.
    pub fn from_text(text: &str) -> Result<(Self, SignedHead), Error> {
        let wrong = |what| Error::Text { what };
        if text.len() > MAX_NOTE {
            return Err(wrong("it is too large"));
        }
        let (before, note) = text.split_once("\n\n").ok_or_else(|| wrong("there is no signed head in it"))?;
        let mut lines = before.split('\n').peekable();
        let subject = if lines.next_if_eq(&FIRST_LINE).is_some() {
            // This line is for whoever wrote the file; nothing vouches for it.
            lines.next_if(|line| line.starts_with("extra "));
            let index = number(lines.next(), "index ").ok_or_else(|| wrong("the index is no number"))?;
            Subject::Leaf { index }
        } else {
            let size = number(lines.next(), "old ").ok_or_else(|| wrong("it does not begin as one"))?;
            Subject::Past { size }
        };
        let mut path = Vec::new();
        for line in lines {
            if path.len() == MAX_PATH {
                return Err(wrong("it has more hashes than any tree is high"));
            }
            let hash = unbase64(line).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            path.push(TreeHash::from_bytes(hash.ok_or_else(|| wrong("a line is not the base64 of a hash"))?));
        }
        Ok((Self { subject, path }, SignedHead::parse(note).map_err(Error::Signature)?))
    }

    /// Writes the receipt: `signature` is the receipt signature of a head of `size` leaves.
    pub fn to_receipt(&self, size: u64, signature: &[u8]) -> Result<Vec<u8>, Error> {
        // inclusion-proof = [tree-size, leaf-index, path]; consistency-proof = [old size, new size, path]
        let (label, first, second) = match self.subject {
            Subject::Leaf { index } => (INCLUSION, size, index),
            Subject::Past { size: 0 } => {
                return Err(Error::Receipt { what: "the empty log has no receipts" });
            }
            Subject::Past { size: old } => (CONSISTENCY, old, size),
        };
        let (protected, signature) = parts(signature)?;
        let mut proof = Writer::new();
        proof.array(3).uint(first).uint(second).array(self.path.len());
        for hash in &self.path {
            proof.byte_string(hash.as_bytes());
        }
        // 18([protected, {396: {label: [proof]}}, nil, signature])
        let mut writer = Writer::new();
        writer.tag(COSE_SIGN1).array(4).byte_string(protected);
        writer.map(1).int(PROOFS).map(1).int(label).array(1).byte_string(&proof.finish());
        writer.null().byte_string(signature);
        Ok(writer.finish())
    }

    /// Reads a receipt into its proof, the size of its head, and the receipt signature. Nothing is checked.
    pub fn from_receipt(bytes: &[u8]) -> Result<(Self, u64, Vec<u8>), Error> {
        let wrong = |what| Error::Receipt { what };
        let mut r = Reader::new(bytes);
        r.tag(COSE_SIGN1)?;
        r.array_len(4, "the four parts of a signed message")?;
        let protected = r.bytes()?;
        let mut header = r.map()?;
        if r.label(&mut header)? != Some(PROOFS) {
            return Err(wrong("there are no proofs in its header"));
        }
        let mut proofs = r.map()?;
        let label = r.label(&mut proofs)?;
        r.array_len(1, "one proof")?;
        let mut proof = Reader::new(r.bytes()?);
        if r.label(&mut proofs)?.is_some() || r.label(&mut header)?.is_some() {
            return Err(wrong("its header holds more than one proof"));
        }
        r.null()?;
        let signature = r.bytes()?;
        r.end()?;

        proof.array_len(3, "the three parts of a proof")?;
        let (first, second) = (proof.uint()?, proof.uint()?);
        let count = proof.array()? as usize;
        if count > MAX_PATH {
            return Err(wrong("it has more hashes than any tree is high"));
        }
        let path = (0..count).map(|_| Ok(TreeHash::from_bytes(proof.array_of()?)));
        let path = path.collect::<Result<Vec<_>, codec::Error>>()?;
        proof.end()?;
        let (subject, size) = match label {
            Some(INCLUSION) => (Subject::Leaf { index: second }, first),
            Some(CONSISTENCY) if first > 0 => (Subject::Past { size: first }, second),
            Some(CONSISTENCY) => return Err(wrong("the empty log has no receipts")),
            _ => return Err(wrong("its proof is of no known kind")),
        };
        Ok((Self { subject, path }, size, note::receipt(protected, signature)))
    }
}

/// Splits a receipt signature into protected header and signature.
fn parts(signature: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut r = Reader::new(signature);
    r.tag(COSE_SIGN1)?;
    r.array_len(4, "the four parts of a signed message")?;
    let protected = r.bytes()?;
    let mut header = r.map()?;
    if r.label(&mut header)?.is_some() {
        return Err(Error::Receipt { what: "the signature is one of a whole receipt already" });
    }
    r.null()?;
    let signature = r.bytes()?;
    r.end()?;
    Ok((protected, signature))
}

/// Reads a word and a number in its shortest form.
fn number(line: Option<&str>, word: &str) -> Option<u64> {
    let text = line?.strip_prefix(word)?;
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// Checks the text form of a proof and returns the head that what is held is under.
pub fn verify_text(text: &str, held: Held, keys: &[PublicKey]) -> Result<SignedHead, Error> {
    let (proof, signed) = Proof::from_text(text)?;
    signed.verify(keys).map_err(Error::Signature)?;
    let end = signed.head();
    match proof.root(held, end.size)? {
        Some(found) if found != end.root => {
            Err(merkle::Error::Root { size: end.size, expected: end.root, found }.into())
        }
        _ => Ok(signed),
    }
}

/// Checks a receipt and returns the signed root that what is held is under.
///
/// That root is all that a receipt's signature covers. The sizes and the index in it are as right as the shape
/// of the path makes them, so they are read from it for looking a thing up and never believed.
pub fn verify_receipt(bytes: &[u8], held: Held, keys: &[PublicKey]) -> Result<TreeHash, Error> {
    let (proof, size, signature) = Proof::from_receipt(bytes)?;
    let root = proof.root(held, size)?.ok_or(Error::Receipt { what: "the empty log has no receipts" })?;
    // The root is not in the receipt, so a path that leads elsewhere shows here too, as a signature that fails.
    note::verify_receipt(&signature, root, keys).map_err(Error::Signature)?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::statement_id;
    use crate::log::key::SigningKey;
    use crate::log::note::{TreeHead, sign_receipt};
    use crate::log::tree::{MemoryTiles, consistency_proof, inclusion_proof, root_at};
    use proptest::prelude::*;

    fn key() -> SigningKey {
        SigningKey::from_seed(&[1; 32])
    }

    fn leaf(index: u64) -> StatementId {
        statement_id(&index.to_be_bytes())
    }

    /// One proof in both forms, with what it must hold for.
    struct Made {
        held: Held,
        proof: Proof,
        text: String,
        receipt: Option<Vec<u8>>,
    }

    fn head(tiles: &MemoryTiles, size: u64) -> SignedHead {
        let head = TreeHead { origin: "log.example".into(), size, root: root_at(tiles, size).unwrap() };
        SignedHead::sign(head, &key()).unwrap()
    }

    fn made(tiles: &MemoryTiles, subject: Subject, size: u64) -> Made {
        let signed = head(tiles, size);
        let (held, path) = match subject {
            Subject::Leaf { index } => {
                (Held::Statement(leaf(index)), inclusion_proof(tiles, index, size).unwrap())
            }
            Subject::Past { size: old } => {
                (Held::Root(root_at(tiles, old).unwrap()), consistency_proof(tiles, old, size).unwrap())
            }
        };
        let proof = Proof { subject, path };
        let receipt = proof.to_receipt(size, &sign_receipt(signed.head().root, &key())).ok();
        Made { held, text: proof.to_text(&signed), proof, receipt }
    }

    fn tiles(size: u64) -> MemoryTiles {
        let mut tiles = MemoryTiles::new();
        tiles.extend((0..size).map(leaf));
        tiles
    }

    #[test]
    fn every_proof_of_small_logs_is_read_back_and_holds_in_both_forms() {
        let tiles = tiles(20);
        let keys = [key().public()];
        for size in 1..=20 {
            let leaves = (0..size).map(|index| Subject::Leaf { index });
            let pasts = (0..=size).map(|size| Subject::Past { size });
            for subject in leaves.chain(pasts) {
                let made = made(&tiles, subject, size);
                assert_eq!(Proof::from_text(&made.text).unwrap().0, made.proof);
                assert_eq!(verify_text(&made.text, made.held, &keys).unwrap(), head(&tiles, size));
                let Some(receipt) = made.receipt else {
                    assert_eq!(subject, Subject::Past { size: 0 }, "only the empty log has none");
                    continue;
                };
                let (proof, at, _) = Proof::from_receipt(&receipt).unwrap();
                assert_eq!((proof, at), (made.proof, size));
                assert_eq!(
                    verify_receipt(&receipt, made.held, &keys).unwrap(),
                    root_at(&tiles, size).unwrap()
                );
            }
        }
    }

    #[test]
    fn a_proof_holds_for_nothing_else() {
        let tiles = tiles(13);
        let (keys, others) = ([key().public()], [SigningKey::from_seed(&[2; 32]).public()]);
        for subject in [Subject::Leaf { index: 5 }, Subject::Past { size: 6 }] {
            let made = made(&tiles, subject, 13);
            let receipt = made.receipt.unwrap();
            let strange = match subject {
                Subject::Leaf { .. } => [Held::Statement(leaf(6)), Held::Root(root_at(&tiles, 6).unwrap())],
                Subject::Past { .. } => [Held::Root(root_at(&tiles, 7).unwrap()), Held::Statement(leaf(5))],
            };
            for held in strange {
                assert!(verify_text(&made.text, held, &keys).is_err(), "{subject:?}");
                assert!(verify_receipt(&receipt, held, &keys).is_err(), "{subject:?}");
            }
            assert!(verify_text(&made.text, made.held, &others).is_err(), "another key");
            assert!(verify_receipt(&receipt, made.held, &others).is_err(), "another key");
            // The same path under the head of another size of the same log.
            let elsewhere = head(&tiles, 12);
            assert!(verify_text(&made.proof.to_text(&elsewhere), made.held, &keys).is_err());
            let signature = sign_receipt(elsewhere.head().root, &key());
            let moved = made.proof.to_receipt(12, &signature).unwrap();
            assert!(verify_receipt(&moved, made.held, &keys).is_err(), "{subject:?}");
        }
    }

    #[test]
    fn no_bit_of_a_receipt_is_free_but_those_that_its_path_does_not_fix() {
        let tiles = tiles(13);
        let (keys, root) = ([key().public()], root_at(&tiles, 13).unwrap());
        for subject in [Subject::Leaf { index: 5 }, Subject::Past { size: 6 }] {
            let made = made(&tiles, subject, 13);
            let receipt = made.receipt.unwrap();
            for bit in 0..receipt.len() * 8 {
                let mut changed = receipt.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let Ok(found) = verify_receipt(&changed, made.held, &keys) else { continue };
                // Sizes of the same shape are told apart by no hash: 13 leaves and 12 have equally long paths.
                let (proof, size, _) = Proof::from_receipt(&changed).unwrap();
                assert_eq!((proof, found), (made.proof.clone(), root), "{subject:?} bit {bit}");
                assert_ne!(size, 13, "{subject:?} bit {bit}");
            }
            for len in 0..receipt.len() {
                assert!(Proof::from_receipt(&receipt[..len]).is_err(), "cut at {len}");
            }
            assert!(Proof::from_receipt(&[receipt.as_slice(), &[0]].concat()).is_err());
            let again = made.proof.to_receipt(13, &receipt);
            assert!(matches!(again, Err(Error::Receipt { .. })), "a receipt is no receipt signature");
        }
    }

    #[test]
    fn a_proof_file_ends_with_the_note_verbatim() {
        let tiles = tiles(2);
        let signed = head(&tiles, 2);
        let hash = base64(leaf(1).as_bytes());
        let made = made(&tiles, Subject::Leaf { index: 0 }, 2);
        assert_eq!(made.text, format!("c2sp.org/tlog-proof@v1\nindex 0\n{hash}\n\n{}", signed.as_str()));
        let extra = made.text.replace("index 0", "extra AAAA\nindex 0");
        assert!(verify_text(&extra, made.held, &[key().public()]).is_ok(), "the format allows the line");
    }

    #[test]
    fn a_text_has_one_form() {
        let tiles = tiles(13);
        let text = made(&tiles, Subject::Leaf { index: 5 }, 13).text;
        let hash = text.lines().nth(2).unwrap();
        for (from, to) in [
            ("tlog-proof@v1", "tlog-proof@v2"),
            ("index 5", "index 05"),
            ("index 5", "index +5"),
            ("index 5", "index 5 "),
            ("index 5", "old 5"),
            (hash, &hash[..43]),
            (hash, ""),
            ("\n\n", "\n"),
            ("index 5\n", ""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(Proof::from_text(&changed).is_err(), "{from:?} to {to:?}");
        }
        let long = text.replacen(hash, &vec![hash; MAX_PATH + 1].join("\n"), 1);
        assert!(matches!(Proof::from_text(&long), Err(Error::Text { .. })));
        assert!(matches!(Proof::from_text(&"old 1\n".repeat(200_000)), Err(Error::Text { .. })));
    }

    proptest! {
        #[test]
        fn nothing_is_a_reason_to_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), byte: u8,
        ) {
            let _ = Proof::from_receipt(&bytes);
            let _ = Proof::from_text(&String::from_utf8_lossy(&bytes));
            let mut receipt = made(&tiles(9), Subject::Past { size: 7 }, 9).receipt.unwrap();
            let at = at.index(receipt.len());
            receipt[at] = byte;
            let _ = verify_receipt(&receipt, Held::Root(root_at(&tiles(9), 7).unwrap()), &[key().public()]);
        }
    }
}
