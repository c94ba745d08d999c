//! Ed25519 keys, what they sign, and the text of a key file.
//!
//! Home of the signature and base64 crates: nobody else names them. No file is opened here, no randomness is
//! drawn, and nothing is known of roles; a key is a key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};

use crate::codec::Writer;
use crate::id::{HolderId, KeyId, sha256};

/// COSE algorithm of every signature here: `EdDSA`.
pub const COSE_EDDSA: i64 = -8;
/// Content type of a possession proof, which keeps it apart from everything else that a key signs.
pub const POSSESSION_TYPE: &str = "application/vnd.lineage-ledger.possession+cbor";
/// The longest key file that is read.
pub const MAX_KEY_FILE: usize = 65_536;
/// The longest display name in a key file.
pub const MAX_NAME: usize = 256;

const FIRST_LINE: &str = "ledger-key/1";

/// Why a key, a signature or a key file is refused. No message repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not standard base64 with its padding.
    #[error("not base64 in standard form")]
    Base64,
    /// The bytes are no point of the curve in its one encoding.
    #[error("the bytes are not an Ed25519 public key")]
    NotAKey,
    /// A key under which one signature fits many messages.
    #[error("the key is weak: its signatures bind no message")]
    WeakKey,
    /// The signature is not by this key over this message.
    #[error("the signature is not by key {key} over this message")]
    Signature {
        /// The key.
        key: KeyId,
    },
    /// The file does not begin as key files do.
    #[error("a key file begins with the line `{FIRST_LINE}`")]
    FirstLine,
    /// A line of a key file is wrong.
    #[error("line {line} of the key file: {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A line that every key file has is missing.
    #[error("the key file has no line `{field}`")]
    Missing {
        /// The line's first word.
        field: &'static str,
    },
    /// A name that one line cannot hold.
    #[error("a display name is one line of 1 to {MAX_NAME} bytes without space around it")]
    Name,
    /// The author seed is also the log seed.
    #[error("the author key and the log key are the same")]
    SameSeeds,
    /// More bytes than any key file has.
    #[error("{size} bytes are more than a key file has")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
}

/// Writes bytes in standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads standard base64, of which every byte string has exactly one form.
pub fn unbase64(text: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(text).map_err(|_| Error::Base64)
}

/// A secret key. Its memory is overwritten when it is dropped.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Derives the key from its seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Returns the public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {:?})", self.public().thumbprint())
    }
}

/// A public key that is fit for use, with its point already computed so that each verification need not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Takes a public key, refusing weak ones and every second encoding of one point.
    pub fn parse(bytes: &[u8; 32]) -> Result<Self, Error> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| Error::NotAKey)?;
        // One point under two encodings would be two keys, of which revoking one leaves the other.
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(Error::NotAKey);
        }
        if key.is_weak() { Err(Error::WeakKey) } else { Ok(Self(key)) }
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Returns the COSE key thumbprint of RFC 9679.
    pub fn thumbprint(&self) -> KeyId {
        thumbprint(self.as_bytes())
    }

    /// Checks a signature by the strict rules, under which it fits one message and one key only.
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> Result<(), Error> {
        self.0
            .verify_strict(message, &Signature::from_bytes(signature))
            .map_err(|_| Error::Signature { key: self.thumbprint() })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?})", self.thumbprint())
    }
}

/// Returns the COSE key thumbprint (RFC 9679) of 32 bytes that are, or claim to be, an Ed25519 public key.
pub fn thumbprint(bytes: &[u8; 32]) -> KeyId {
    // SHA256 of the COSE_Key {1 (kty): 1 (OKP), -1 (crv): 6 (Ed25519), -2 (x): bytes}
    let mut writer = Writer::new();
    writer.map(3).int(1).int(1).int(-1).int(6).int(-2).byte_string(bytes);
    KeyId::from_bytes(*sha256(&writer.finish()).as_bytes())
}

/// Returns what a `COSE_Sign1` message without external data has signed (RFC 9052 section 4.4).
pub fn sig_structure(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    // ["Signature1", protected, external_aad = h'', payload]
    let mut writer = Writer::new();
    writer.array(4).text("Signature1").byte_string(protected).byte_string(b"").byte_string(payload);
    writer.finish()
}

/// Returns what a key signs to prove that whoever registers it holds it.
///
/// `ctx` ties the proof to one ledger: the nonce of genesis for the keys that genesis introduces, the ledger id
/// for later ones. The message is a CBOR array and therefore never the text of a note.
pub fn possession_message(ctx: &[u8], key: &PublicKey, holder: HolderId) -> Vec<u8> {
    // protected {1 (alg): -8, 3 (content type): POSSESSION_TYPE}
    let mut protected = Writer::new();
    protected.map(2).int(1).int(COSE_EDDSA).int(3).text(POSSESSION_TYPE);
    let mut payload = Writer::new();
    payload.map(3).text("ctx").byte_string(ctx).text("key").byte_string(key.as_bytes());
    payload.text("holder").byte_string(holder.first_key().as_bytes());
    sig_structure(&protected.finish(), &payload.finish())
}

/// The content of a key file: who signs, and with which keys.
#[derive(Debug)]
pub struct KeyFile {
    name: String,
    author: SigningKey,
    log: Option<SigningKey>,
}

impl KeyFile {
    /// Puts a key file together. `log` is absent for those who do not write tree heads.
    pub fn new(name: &str, author: SigningKey, log: Option<SigningKey>) -> Result<Self, Error> {
        if name.is_empty() || name.len() > MAX_NAME || name.trim() != name || name.contains(char::is_control)
        {
            return Err(Error::Name);
        }
        // What one key signs in one role must not count in the other.
        if log.as_ref().is_some_and(|log| log.public() == author.public()) {
            return Err(Error::SameSeeds);
        }
        Ok(Self { name: name.to_owned(), author, log })
    }

    /// Returns the display name of the keys' holder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key that signs statements.
    pub const fn author(&self) -> &SigningKey {
        &self.author
    }

    /// Returns the key that signs tree heads.
    pub const fn log(&self) -> Option<&SigningKey> {
        self.log.as_ref()
    }

    /// Parses the text of a key file. Blank lines and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_KEY_FILE {
            return Err(Error::TooLarge { size: text.len() });
        }
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != FIRST_LINE) {
            return Err(Error::FirstLine);
        }
        let (mut name, mut author, mut log) = (None, None, None);
        for (index, line) in lines {
            let wrong = |what| Error::Line { line: index + 1, what };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (field, value) =
                line.split_once(' ').ok_or_else(|| wrong("a word and a value are wanted"))?;
            let seed = || {
                let bytes = unbase64(value).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                bytes
                    .map(|seed| SigningKey::from_seed(&seed))
                    .ok_or_else(|| wrong("not the base64 of 32 bytes"))
            };
            let is_first = match field {
                "name" => name.replace(value).is_none(),
                "author" => author.replace(seed()?).is_none(),
                "log" => log.replace(seed()?).is_none(),
                _ => return Err(wrong("no such field; there are `name`, `author` and `log`")),
            };
            if !is_first {
                return Err(wrong("the field stands here a second time"));
            }
        }
        let name = name.ok_or(Error::Missing { field: "name" })?;
        let author = author.ok_or(Error::Missing { field: "author" })?;
        Self::new(name, author, log)
    }

    /// Returns the text of the key file, with its secrets: it goes into a file of mode 0600 and nowhere else.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\n# Keep this file secret. It signs for you; mode 0600.\nname {}\nauthor {}\n",
            self.name,
            base64(self.author.0.as_bytes())
        );
        if let Some(log) = &self.log {
            text.push_str("log ");
            text.push_str(&base64(log.0.as_bytes()));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::hex;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&[byte; 32])
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let (ours, other) = (key(1), key(2));
        let signature = ours.sign(b"message");
        assert_eq!(ours.public().verify(b"message", &signature), Ok(()));
        assert!(ours.public().verify(b"massage", &signature).is_err());
        assert!(other.public().verify(b"message", &signature).is_err());
        for bit in 0..512 {
            let mut changed = signature;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.public().verify(b"message", &changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_first_vector_of_rfc_8032_is_met() {
        let seed = *KeyId::from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
            .unwrap()
            .as_bytes();
        let key = SigningKey::from_seed(&seed);
        assert_eq!(
            hex(key.public().as_bytes()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        assert_eq!(
            hex(&key.sign(b"")),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
             d25bf5f0595bbe24655141438e7a100b"
        );
    }

    #[test]
    fn keys_that_bind_nothing_are_refused() {
        // Points of small order, and the first again in its second encoding (y = p + 1).
        let one = {
            let mut y = [0; 32];
            y[0] = 1;
            y
        };
        let minus_one = {
            let mut y = [0xff; 32];
            y[0] = 0xec;
            y[31] = 0x7f;
            y
        };
        for weak in [one, minus_one, [0; 32]] {
            assert_eq!(PublicKey::parse(&weak).err(), Some(Error::WeakKey), "{}", hex(&weak));
        }
        let second_form = {
            let mut y = [0xff; 32];
            y[0] = 0xee;
            y[31] = 0x7f;
            y
        };
        assert_eq!(PublicKey::parse(&second_form).err(), Some(Error::NotAKey));
        // y = p + 3 and y = p + 4 decompress to points of large order, which have another name already.
        let mut large = 0;
        for low in 0xed..=0xff {
            let mut y = [0xff; 32];
            (y[0], y[31]) = (low, 0x7f);
            large += usize::from(VerifyingKey::from_bytes(&y).is_ok_and(|key| !key.is_weak()));
            assert_eq!(PublicKey::parse(&y).err(), Some(Error::NotAKey), "{low:x}");
        }
        assert!(large > 0, "the check of the encoding must be needed");
        assert_eq!(PublicKey::parse(&[2; 32]).err(), Some(Error::NotAKey), "not on the curve");
        assert!(PublicKey::parse(key(1).public().as_bytes()).is_ok());
    }

    #[test]
    fn a_thumbprint_is_the_hash_of_the_cose_key() {
        let key = key(3).public();
        let cose_key = format!("a301012006215820{}", hex(key.as_bytes()));
        let bytes: Vec<u8> = (0..cose_key.len() / 2)
            .map(|at| u8::from_str_radix(&cose_key[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert_eq!(key.thumbprint().as_bytes(), sha256(&bytes).as_bytes());
    }

    #[test]
    fn base64_has_one_form() {
        assert_eq!(base64(&[0xff, 0xfe]), "//4=");
        assert_eq!(unbase64("//4=").unwrap(), [0xff, 0xfe]);
        for bad in ["//4", "//5=", "__4=", "//4==", "//4=\n", " //4=", "=", "//4=//4="] {
            assert_eq!(unbase64(bad), Err(Error::Base64), "{bad:?}");
        }
    }

    #[test]
    fn a_possession_proof_names_ledger_key_and_holder() {
        let (key, other) = (key(1), key(2));
        let holder = HolderId::of_first_key(key.public().thumbprint());
        let message = possession_message(b"nonce", &key.public(), holder);
        assert_eq!(message[..12], *b"\x84\x6aSignature1");
        let proof = key.sign(&message);
        let elsewhere = possession_message(b"other", &key.public(), holder);
        assert!(key.public().verify(&elsewhere, &proof).is_err());
        let of_other = possession_message(b"nonce", &other.public(), holder);
        assert!(key.public().verify(&of_other, &proof).is_err());
        let to_other =
            possession_message(b"nonce", &key.public(), HolderId::of_first_key(other.public().thumbprint()));
        assert!(key.public().verify(&to_other, &proof).is_err());

        let mut payload = vec![0xa3, 0x63];
        payload.extend(b"ctx\x45nonce\x63key\x58\x20");
        payload.extend(key.public().as_bytes());
        payload.extend(b"\x66holder\x58\x20");
        payload.extend(holder.first_key().as_bytes());
        crate::codec::check(&payload).unwrap();
        assert!(message.ends_with(&payload));
    }

    #[test]
    fn a_key_file_is_read_as_written() {
        for log in [None, Some(key(2))] {
            let file = KeyFile::new("Kim, Lab 3", key(1), log).unwrap();
            let text = file.to_text();
            let again = KeyFile::parse(&text).unwrap();
            assert_eq!(again.name(), "Kim, Lab 3");
            assert_eq!(again.author().public(), key(1).public());
            assert_eq!(again.log().map(SigningKey::public), file.log().map(SigningKey::public));
            assert_eq!(again.to_text(), text);
            assert_eq!(KeyFile::parse(&text.replace('\n', "\r\n")).unwrap().to_text(), text);
            assert_eq!(KeyFile::parse(text.trim_end()).unwrap().to_text(), text);
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_and_without_its_secret() {
        let (one, two) = (base64(&[1; 32]), base64(&[2; 32]));
        let short = base64(&[1; 31]);
        for (body, wanted) in [
            (format!("name a\nauthor {one}\nlogs {two}\n"), "line 4"),
            (format!("name a\nauthor {short}\n"), "line 3"),
            (format!("# a\n\nname a\nauthor {one} \n"), "line 5"),
            (format!("name a\nauthor {one}\nauthor {two}\n"), "line 4"),
            (format!("name a\nname b\nauthor {one}\n"), "line 3"),
            (format!("name a\nauthor\n{one}\n"), "line 3"),
            (format!("author {one}\n"), "`name`"),
            ("name a\n".to_owned(), "`author`"),
            (format!("name  a\nauthor {one}\n"), "display name"),
            (format!("name a\u{7}\nauthor {one}\n"), "display name"),
            (format!("name {}\nauthor {one}\n", "a".repeat(MAX_NAME + 1)), "display name"),
            (format!("name a\nauthor {one}\nlog {one}\n"), "same"),
        ] {
            let error = KeyFile::parse(&format!("ledger-key/1\n{body}")).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains(wanted), "{body}: {said}");
            assert!(!said.contains(&one[..8]), "{said}");
        }
        for text in ["", "ledger-key/2\n", "\nledger-key/1\n", " ledger-key/1\n", "ledger-key/1x\n"] {
            assert_eq!(KeyFile::parse(text).unwrap_err(), Error::FirstLine, "{text:?}");
        }
        let large = format!("ledger-key/1\n#{}\nname a\nauthor {one}\n", " ".repeat(MAX_KEY_FILE));
        assert!(matches!(KeyFile::parse(&large), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn debug_shows_no_seed() {
        let seed: [u8; 32] = std::array::from_fn(|at| 0xa0 + at as u8);
        let file = KeyFile::new("a", SigningKey::from_seed(&seed), Some(key(2))).unwrap();
        let shown = format!("{file:?} {file:#?}").to_lowercase();
        for secret in [hex(&seed[..3]), base64(&seed)[..4].to_lowercase(), "160, 161".into(), "160,\n".into()]
        {
            assert!(!shown.contains(&secret), "{shown}");
        }
    }
}
