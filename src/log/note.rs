//! Tree heads: the size and root of a log as a C2SP signed note, and as a COSE receipt signature.
//!
//! Nothing here decides whose signature counts: the caller brings the keys that may sign. (C2SP calls a tree
//! head a *checkpoint*; here that word means model weights.)

use super::key::{self, COSE_EDDSA, PublicKey, SigningKey, base64, sig_structure, unbase64};
use super::merkle::{MAX_SIZE, empty_root};
use crate::codec::Writer;
use crate::id::{LedgerId, TreeHash, sha256};

/// The longest note that is read.
pub const MAX_NOTE: usize = 1_000_000;
/// The most signature lines that are read.
pub const MAX_LINES: usize = 100;

/// Type byte of a plain Ed25519 key in key ids and verifier keys.
const ED25519: u8 = 1;
/// COSE tag of a message with one signature.
pub(super) const COSE_SIGN1: u64 = 18;
/// COSE header label that names the kind of verifiable data structure (RFC 9942).
const VDS: i64 = 395;
/// The kind that [`VDS`] names: the SHA-256 tree of RFC 9162.
const VDS_RFC9162_SHA256: i64 = 1;

/// Why a tree head, a note or a receipt is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More bytes than any note has.
    #[error("{size} bytes are more than a signed tree head has")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
    /// Not a signed note.
    #[error("not a signed note: {what}")]
    Note {
        /// The rule that is broken.
        what: &'static str,
    },
    /// The note's text is not a tree head.
    #[error("not a tree head: {what}")]
    Head {
        /// The rule that is broken.
        what: &'static str,
    },
    /// Not a verifier key.
    #[error("not an Ed25519 verifier key: {what}")]
    Vkey {
        /// The rule that is broken.
        what: &'static str,
    },
    /// A key that is no key.
    #[error("the verifier key does not hold a usable key")]
    Key(#[source] key::Error),
    /// None of the given keys has signed.
    #[error("no signature is by a key that may sign for `{origin}`")]
    Unsigned {
        /// Who should have signed.
        origin: String,
    },
    /// A line of a given key does not verify.
    #[error("the signature line {name} {id:08x} does not verify")]
    BadSignature {
        /// Name in the line.
        name: String,
        /// Key id in the line.
        id: u32,
    },
    /// The bytes are not the receipt signature of any given key.
    #[error("not a receipt signature by a key that may sign")]
    NotAReceipt,
    /// The receipt is for another root.
    #[error("the receipt is not for root {root}")]
    BadReceipt {
        /// The root that it should be for.
        root: TreeHash,
        /// What the key says.
        #[source]
        source: key::Error,
    },
}

/// Returns the name under which a ledger's log signs.
pub fn origin(ledger: LedgerId) -> String {
    format!("lineage-ledger/{ledger}")
}

/// Returns the four bytes that tell a signature line's key apart under one name.
pub fn key_id(name: &str, key: &PublicKey) -> u32 {
    // first 4 bytes of SHA256(name || 0x0A || 0x01 || key), big-endian
    let digest = sha256(&[name.as_bytes(), b"\n", &[ED25519], key.as_bytes()].concat());
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Returns the text by which other tools are told a log's key: `<name>+<key id>+<base64 of type and key>`.
pub fn vkey(origin: &str, key: &PublicKey) -> String {
    let typed = [&[ED25519], key.as_bytes().as_slice()].concat();
    format!("{origin}+{:08x}+{}", key_id(origin, key), base64(&typed))
}

/// Parses a verifier key into its name and key.
pub fn parse_vkey(text: &str) -> Result<(String, PublicKey), Error> {
    let wrong = |what| Error::Vkey { what };
    // Base64 has `+` among its digits, names have not: the first two are the separators.
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(typed)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong("three parts are wanted, with `+` between them"));
    };
    if !is_name(name) {
        return Err(wrong("the name is empty or has space in it"));
    }
    let typed = unbase64(typed).map_err(Error::Key)?;
    let Some((&ED25519, bytes)) = typed.split_first() else { return Err(wrong("another type of key")) };
    let bytes = bytes.try_into().map_err(|_| wrong("a key has 32 bytes"))?;
    let key = PublicKey::parse(bytes).map_err(Error::Key)?;
    if id != format!("{:08x}", key_id(name, &key)) {
        return Err(wrong("the key id is that of another name or key"));
    }
    Ok((name.to_owned(), key))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+')
}

/// What a log says of itself: so many leaves have this root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeHead {
    /// Name of the log.
    pub origin: String,
    /// Number of leaves.
    pub size: u64,
    /// Root of the tree of these leaves.
    pub root: TreeHash,
}

impl TreeHead {
    /// Returns the text that is signed: origin, size and root, a line each.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, base64(self.root.as_bytes()))
    }

    /// Parses exactly the text that [`TreeHead::text`] writes. The format allows further lines; logs here have none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |what| Error::Head { what };
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root), Some(""), None) =
            (lines.next(), lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(wrong("three lines are wanted"));
        };
        let root = unbase64(root).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let head = Self {
            origin: origin.to_owned(),
            size: size.parse().map_err(|_| wrong("the size is not a number"))?,
            root: TreeHash::from_bytes(root.ok_or_else(|| wrong("the root is not the base64 of 32 bytes"))?),
        };
        head.is_valid()?;
        // Finds `+5` and `05`, which the parser of numbers takes.
        if head.text() == text { Ok(head) } else { Err(wrong("the size is not in its shortest form")) }
    }

    fn is_valid(&self) -> Result<(), Error> {
        let wrong = |what| Error::Head { what };
        if !is_name(&self.origin) {
            return Err(wrong("the origin is empty or has space or `+` in it"));
        }
        if self.size > MAX_SIZE {
            return Err(wrong("the size is larger than any tree"));
        }
        if self.size == 0 && self.root != empty_root() {
            return Err(wrong("a log without leaves has the root of the empty tree"));
        }
        Ok(())
    }
}

/// One signature of a note, by whomever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteLine {
    /// Name of the signer.
    pub name: String,
    /// The signer's key id.
    pub id: u32,
    /// The signature; its form depends on the signer's type of key.
    pub signature: Vec<u8>,
}

/// A tree head with its signatures. That it was parsed says nothing of whether they verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    head: TreeHead,
    lines: Vec<NoteLine>,
    note: String,
}

impl SignedHead {
    /// Signs a tree head with the log's key.
    pub fn sign(head: TreeHead, key: &SigningKey) -> Result<Self, Error> {
        head.is_valid()?;
        let text = head.text();
        let (name, id) = (head.origin.clone(), key_id(&head.origin, &key.public()));
        let signature = key.sign(text.as_bytes()).to_vec();
        let blob = [id.to_be_bytes().as_slice(), &signature].concat();
        let note = format!("{text}\n\u{2014} {name} {}\n", base64(&blob));
        Ok(Self { head, lines: vec![NoteLine { name, id, signature }], note })
    }

    /// Parses a signed note whose text is a tree head.
    pub fn parse(note: &str) -> Result<Self, Error> {
        let wrong = |what| Error::Note { what };
        if note.len() > MAX_NOTE {
            return Err(Error::TooLarge { size: note.len() });
        }
        if note.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
            return Err(wrong("it has a control character"));
        }
        // The last blank line separates, because the text may hold blank lines of its own.
        let (text, signatures) =
            note.rsplit_once("\n\n").ok_or_else(|| wrong("no blank line before the signatures"))?;
        let text = &note[..=text.len()];
        let signatures = signatures.strip_suffix('\n').ok_or_else(|| wrong("the last line does not end"))?;
        let mut lines = Vec::new();
        for line in signatures.split('\n') {
            if lines.len() == MAX_LINES {
                return Err(wrong("too many signature lines"));
            }
            lines.push(parse_line(line).ok_or_else(|| wrong("a signature line is malformed"))?);
        }
        Ok(Self { head: TreeHead::parse(text)?, lines, note: note.to_owned() })
    }

    /// Returns the tree head.
    pub const fn head(&self) -> &TreeHead {
        &self.head
    }

    /// Returns the signature lines in their order.
    pub fn lines(&self) -> &[NoteLine] {
        &self.lines
    }

    /// Returns the whole note, as it was read or signed.
    pub fn as_str(&self) -> &str {
        &self.note
    }

    /// Checks the signatures by `keys` and returns the first of these keys that has signed.
    ///
    /// A line belongs to a key when the name is the log's origin and the id is the key's. Other lines are not
    /// looked at: witnesses and newer types of key may stand there, and so may noise. A line that does
    /// belong to a key and fails is a forgery, and no other line mends it.
    pub fn verify<'k>(&self, keys: &'k [PublicKey]) -> Result<&'k PublicKey, Error> {
        let origin = &self.head.origin;
        let text = self.head.text();
        let ids: Vec<u32> = keys.iter().map(|key| key_id(origin, key)).collect();
        let mut first = None;
        for line in self.lines.iter().filter(|line| line.name == *origin && ids.contains(&line.id)) {
            // Two keys may share an id of four bytes, so the line may be by either.
            let signer = keys.iter().zip(&ids).find(|(key, id)| {
                let signature = line.signature.as_slice().try_into();
                **id == line.id && signature.is_ok_and(|bytes| key.verify(text.as_bytes(), bytes).is_ok())
            });
            match signer {
                Some((key, _)) => first = first.or(Some(key)),
                None => return Err(Error::BadSignature { name: line.name.clone(), id: line.id }),
            }
        }
        first.ok_or_else(|| Error::Unsigned { origin: origin.clone() })
    }
}

fn parse_line(line: &str) -> Option<NoteLine> {
    let (name, blob) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
    let blob = unbase64(blob).ok()?;
    let (id, signature) = blob.split_first_chunk()?;
    let is_line = is_name(name) && !signature.is_empty();
    is_line.then(|| NoteLine {
        name: name.to_owned(),
        id: u32::from_be_bytes(*id),
        signature: signature.to_vec(),
    })
}

/// Protected header of a receipt signature: algorithm, key, and the kind of tree.
fn receipt_protected(key: &PublicKey) -> Vec<u8> {
    // {1 (alg): -8, 4 (kid): thumbprint, 395 (vds): 1}
    let mut writer = Writer::new();
    writer.map(3).int(1).int(COSE_EDDSA).int(4).byte_string(key.thumbprint().as_bytes());
    writer.int(VDS).int(VDS_RFC9162_SHA256);
    writer.finish()
}

/// Puts a receipt signature together from its two parts that vary.
pub(super) fn receipt(protected: &[u8], signature: &[u8]) -> Vec<u8> {
    // 18([protected, {}, nil, signature]): the root is detached, since a proof leads to it
    let mut writer = Writer::new();
    writer.tag(COSE_SIGN1).array(4).byte_string(protected).map(0).null().byte_string(signature);
    writer.finish()
}

/// Signs a root as the receipts of RFC 9942 want it, so that anybody can later add a leaf's proof to it.
pub fn sign_receipt(root: TreeHash, key: &SigningKey) -> Vec<u8> {
    let protected = receipt_protected(&key.public());
    receipt(&protected, &key.sign(&sig_structure(&protected, root.as_bytes())))
}

/// Checks a receipt signature and returns the key that made it.
///
/// All bytes but the signature follow from the key, so they are compared and never parsed.
pub fn verify_receipt<'k>(
    bytes: &[u8],
    root: TreeHash,
    keys: &'k [PublicKey],
) -> Result<&'k PublicKey, Error> {
    let signature: &[u8; 64] = bytes.last_chunk().ok_or(Error::NotAReceipt)?;
    for key in keys {
        let protected = receipt_protected(key);
        if receipt(&protected, signature) == bytes {
            return match key.verify(&sig_structure(&protected, root.as_bytes()), signature) {
                Ok(()) => Ok(key),
                Err(source) => Err(Error::BadReceipt { root, source }),
            };
        }
    }
    Err(Error::NotAReceipt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::hex;
    use proptest::prelude::*;

    const ORIGIN: &str = "log.example/lineage";
    const VKEY: &str = "log.example/lineage+0bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
    const TEXT: &str = "log.example/lineage\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n";
    const LINE: &str = "\u{2014} log.example/lineage C94zcpMqqn6WTIDtufeYnTaAxCTZgkkDnXlGqJcoyjV7PjK8ch3QZvHdr6S+B3+kMy56pfxcf25ub5CfNg2143/44Q8=\n";
    const WITNESS_LINE: &str = "\u{2014} witness.example/w1 3xwKNQAAAABpLCIgkpv9cRO8AIqVXoc7JwgJwVVLmaWYGgLGiv4EUKTABgj/btVig9XJ8KxpZspNH+hsUxWRW/qITc3dZy5WlUBpDA==\n";
    const ROOT_8: &str = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";

    fn key() -> SigningKey {
        SigningKey::from_seed(&[1; 32])
    }

    fn head() -> TreeHead {
        TreeHead { origin: ORIGIN.into(), size: 8, root: TreeHash::from_hex(ROOT_8).unwrap() }
    }

    /// A signature line with any name, key id and signature.
    fn line(name: &str, id: u32, signature: &[u8]) -> String {
        format!("\u{2014} {name} {}\n", base64(&[&id.to_be_bytes(), signature].concat()))
    }

    fn verdict(note: &str) -> Result<(), Error> {
        SignedHead::parse(note)?.verify(&[key().public()]).map(|_| ())
    }

    #[test]
    fn the_published_vectors_are_met() {
        assert_eq!(vkey(ORIGIN, &key().public()), VKEY);
        assert_eq!(parse_vkey(VKEY), Ok((ORIGIN.into(), key().public())));
        assert_eq!(head().text(), TEXT);
        let signed = SignedHead::sign(head(), &key()).unwrap();
        assert_eq!(signed.as_str(), format!("{TEXT}\n{LINE}"));
        assert_eq!(SignedHead::parse(signed.as_str()), Ok(signed));
        let cosigned = format!("{TEXT}\n{LINE}{WITNESS_LINE}");
        assert_eq!(verdict(&cosigned), Ok(()));
        let parsed = SignedHead::parse(&cosigned).unwrap();
        assert_eq!(parsed.as_str(), cosigned);
        assert_eq!(parsed.lines()[1].id, 0xdf1c_0a35);
        // The key of the specification's own example.
        assert!(parse_vkey("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k").is_ok());
    }

    #[test]
    fn lines_of_nobody_we_know_are_ignored() {
        let id = key_id(ORIGIN, &key().public());
        let signature = key().sign(TEXT.as_bytes());
        for noise in [
            line(ORIGIN, id ^ 1, &signature),
            line(ORIGIN, id.swap_bytes(), b"x"),
            line("log.example/lineage2", id, &[0; 64]),
            line("grease.invalid", 0, &[7; 4000]),
            WITNESS_LINE.to_owned(),
        ] {
            assert_eq!(verdict(&format!("{TEXT}\n{noise}{LINE}")), Ok(()), "{noise}");
            assert_eq!(verdict(&format!("{TEXT}\n{LINE}{noise}")), Ok(()), "{noise}");
            let unsigned = verdict(&format!("{TEXT}\n{noise}"));
            assert_eq!(unsigned, Err(Error::Unsigned { origin: ORIGIN.into() }), "{noise}");
        }
    }

    #[test]
    fn a_bad_line_of_a_known_key_spoils_the_note() {
        let id = key_id(ORIGIN, &key().public());
        let signature = key().sign(TEXT.as_bytes());
        let refused = Err(Error::BadSignature { name: ORIGIN.into(), id });
        for forged in [&[0; 64][..], &signature[..63], &[signature.as_slice(), &[0]].concat()] {
            let forged = line(ORIGIN, id, forged);
            assert_eq!(verdict(&format!("{TEXT}\n{forged}")), refused);
            assert_eq!(verdict(&format!("{TEXT}\n{LINE}{forged}")), refused);
            assert_eq!(verdict(&format!("{TEXT}\n{forged}{LINE}")), refused);
        }
        let other_size = format!("{}\n{LINE}", TEXT.replace("\n8\n", "\n9\n"));
        assert_eq!(verdict(&other_size), refused);
        let other_origin = format!("{}\n{LINE}", TEXT.replace("lineage", "lineages"));
        assert_eq!(verdict(&other_origin), Err(Error::Unsigned { origin: "log.example/lineages".into() }));
        // The right name in the line does not lend the key to another log's head.
        let foreign = format!("{}\n{LINE}", TEXT.replace("log.example", "other.example"));
        assert!(matches!(verdict(&foreign), Err(Error::Unsigned { .. })));
    }

    #[test]
    fn any_of_the_keys_will_do() {
        let other = SigningKey::from_seed(&[2; 32]).public();
        let keys = [other, key().public()];
        let signed = SignedHead::sign(head(), &key()).unwrap();
        assert_eq!(signed.verify(&keys), Ok(&keys[1]));
        assert!(signed.verify(&keys[..1]).is_err());
        assert!(signed.verify(&[]).is_err());
    }

    #[test]
    fn a_note_has_one_form() {
        let good = format!("{TEXT}\n{LINE}");
        assert_eq!(verdict(&good), Ok(()));
        for (note, why) in [
            (String::new(), "nothing"),
            (TEXT.to_owned(), "no signatures"),
            (format!("{TEXT}\n"), "no signatures"),
            (format!("{TEXT}\n\n"), "an empty signature line"),
            (format!("{TEXT}{LINE}"), "no blank line"),
            (format!("{TEXT}\n{}", LINE.trim_end()), "no last line feed"),
            (format!("{TEXT}\n{LINE}\n"), "a blank line at the end"),
            (format!("{TEXT}\n{LINE}x"), "text after the signatures"),
            (format!("{TEXT}\nsignatures:\n{LINE}"), "a line that is no signature"),
            (good.replace("\u{2014} ", "- "), "a hyphen"),
            (good.replace("\u{2014} ", "\u{2014}  "), "two spaces"),
            (good.replace("4Q8=\n", "4Q8=\t\n"), "a tab"),
            (good.replace('\n', "\r\n"), "carriage returns"),
            (good.replace("lineage\n8", "lineage\u{0}\n8"), "a control character"),
            (good.replace("4Q8=", "4Q8"), "no padding"),
            (good.replace("4Q8=", "4Q9="), "free bits in the base64"),
            (format!("{TEXT}\n{LINE}{}", line("a+b", 1, b"x")), "a plus in a name"),
            (format!("{TEXT}\n{LINE}{}", line("a\u{a0}b", 1, b"x")), "a space in a name"),
            (format!("{TEXT}\n{LINE}{}", line("", 1, b"x")), "no name"),
            (format!("{TEXT}\n{LINE}{}", line("a", 1, b"")), "no signature"),
            (format!("{TEXT}\n{LINE}\u{2014} a AAAA\n"), "no key id"),
        ] {
            assert!(matches!(SignedHead::parse(&note), Err(Error::Note { .. })), "{why}: {note:?}");
        }
        let many = |count| format!("{TEXT}\n{LINE}{}", line("a", 1, b"x").repeat(count));
        assert_eq!(verdict(&many(MAX_LINES - 1)), Ok(()));
        assert!(SignedHead::parse(&many(MAX_LINES)).is_err());
        let large = format!("{TEXT}\n{LINE}{}", line("a", 1, &vec![0; MAX_NOTE]));
        assert!(matches!(SignedHead::parse(&large), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_tree_head_has_one_form() {
        assert_eq!(TreeHead::parse(TEXT), Ok(head()));
        let empty = TreeHead { origin: ORIGIN.into(), size: 0, root: empty_root() };
        assert_eq!(TreeHead::parse(&empty.text()), Ok(empty));
        for (text, why) in [
            (TEXT.replace("\n8\n", "\n08\n"), "a leading zero"),
            (TEXT.replace("\n8\n", "\n+8\n"), "a sign"),
            (TEXT.replace("\n8\n", "\n-8\n"), "a sign"),
            (TEXT.replace("\n8\n", "\n 8\n"), "a space"),
            (TEXT.replace("\n8\n", "\n8 \n"), "a space"),
            (TEXT.replace("\n8\n", "\n0x8\n"), "hex"),
            (TEXT.replace("\n8\n", "\n\n"), "no size"),
            (TEXT.replace("\n8\n", "\n18446744073709551616\n"), "more than 64 bits"),
            (TEXT.replace("\n8\n", "\n9223372036854775808\n"), "more than a tree may have"),
            (TEXT.replace("\n8\n", "\n0\n"), "leaves in the empty tree"),
            (TEXT.replace("Qyg=", "Qyh="), "free bits in the base64"),
            (TEXT.replace("Qyg=", "Qyg"), "no padding"),
            (TEXT.replace("Qyg=", "Qw=="), "31 bytes"),
            (TEXT.replace(ORIGIN, ""), "no origin"),
            (TEXT.replace(ORIGIN, "log example"), "a space in the origin"),
            (TEXT.replace(ORIGIN, "log+example"), "a plus in the origin"),
            (TEXT.trim_end().to_owned(), "no last line feed"),
            (format!("{TEXT}extension\n"), "an extension line"),
            (format!("{TEXT}\n"), "a blank line"),
            (format!("\n{TEXT}"), "a blank line"),
            (String::new(), "nothing"),
        ] {
            assert!(matches!(TreeHead::parse(&text), Err(Error::Head { .. })), "{why}: {text:?}");
        }
        for origin in ["", "a b", "a+b", "a\nb"] {
            let head = TreeHead { origin: origin.into(), ..head() };
            assert!(SignedHead::sign(head, &key()).is_err(), "{origin:?}");
        }
    }

    #[test]
    fn a_vkey_has_one_form() {
        for (text, why) in [
            ("log.example/lineage", "one part"),
            ("log.example/lineage+0bde3372", "two parts"),
            ("log.example/lineage+0BDE3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "upper case"),
            ("log.example/lineage+bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "seven digits"),
            ("log.example/lineage+0bde3373+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "another id"),
            ("log.example/lineagE+0bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "another name"),
            ("log.example/lineage+0bde3372+BIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "another type"),
            ("log.example/lineage+0bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D28=", "31 bytes"),
            ("log.example/lineage+0bde3372+", "no key"),
            (" log.example/lineage+0bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", "a space"),
            ("log.example/lineage+0bde3372+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c\n", "a line feed"),
        ] {
            assert!(parse_vkey(text).is_err(), "{why}");
        }
    }

    #[test]
    fn a_receipt_has_one_form_and_one_root() {
        let root = TreeHash::from_hex(ROOT_8).unwrap();
        let keys = [SigningKey::from_seed(&[2; 32]).public(), key().public()];
        let bytes = sign_receipt(root, &key());
        assert_eq!(verify_receipt(&bytes, root, &keys), Ok(&keys[1]));
        assert_eq!(verify_receipt(&bytes, root, &keys[..1]), Err(Error::NotAReceipt));
        assert!(matches!(verify_receipt(&bytes, empty_root(), &keys), Err(Error::BadReceipt { .. })));

        let kid = hex(keys[1].thumbprint().as_bytes());
        let start = format!("d284582aa30127045820{kid}19018b01a0f65840");
        assert_eq!(hex(&bytes[..bytes.len() - 64]), start);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_receipt(&changed, root, &keys).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(verify_receipt(&bytes[..len], root, &keys), Err(Error::NotAReceipt), "cut at {len}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(verify_receipt(&longer, root, &keys), Err(Error::NotAReceipt));
    }

    proptest! {
        #[test]
        fn no_text_is_a_reason_to_panic(
            cut in 0usize..400, noise in "[ \n+=\u{2014}a0/]{0,12}", any in "(?s).{0,40}",
        ) {
            let note = format!("{TEXT}\n{LINE}");
            let at = note.floor_char_boundary(cut.min(note.len()));
            for noise in [&noise, &any] {
                let changed = format!("{}{noise}{}", &note[..at], &note[at..]);
                if !noise.is_empty() {
                    prop_assert!(verdict(&changed).is_err());
                }
                let _ = parse_vkey(&format!("{noise}{VKEY}"));
                prop_assert!(SignedHead::parse(noise).is_err());
                prop_assert!(TreeHead::parse(noise).is_err());
            }
        }
    }
}
