//! Ed25519 keys and what they sign.
//!
//! Home of the signature and base64 crates: nobody else names them. No file is opened here, no randomness is
//! drawn, and nothing is known of roles; a key is a key. The text of a key file is in `key_file`.

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
/// Why a key or a signature is refused.
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

    /// Returns the seed, which whoever has it can sign with.
    pub(super) fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
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

/// Returns a public key as OpenSSH lists it: `ssh-ed25519 AAAA... name`.
pub fn ssh_line(key: &PublicKey, name: &str) -> String {
    // string "ssh-ed25519", string key; a string is its length in four bytes, and its bytes
    let mut blob = Vec::new();
    for part in [&b"ssh-ed25519"[..], key.as_bytes()] {
        blob.extend((part.len() as u32).to_be_bytes());
        blob.extend(part);
    }
    format!("ssh-ed25519 {} {name}", base64(&blob))
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
    fn debug_shows_no_seed() {
        let seed: [u8; 32] = std::array::from_fn(|at| 0xa0 + at as u8);
        let shown = format!("{:?}", SigningKey::from_seed(&seed)).to_lowercase();
        for secret in [hex(&seed[..3]), base64(&seed)[..4].to_lowercase(), "160, 161".into()] {
            assert!(!shown.contains(&secret), "{shown}");
        }
    }

    #[test]
    fn the_line_of_ssh_is_made_of_the_public_key_and_the_name() {
        let line = ssh_line(&key(1).public(), "kim lab");
        let (form, rest) = line.split_once(' ').unwrap();
        let (blob, name) = rest.split_once(' ').unwrap();
        assert_eq!((form, name), ("ssh-ed25519", "kim lab"));
        let blob = unbase64(blob).unwrap();
        assert_eq!(blob[..19], *b"\0\0\0\x0bssh-ed25519\0\0\0\x20");
        assert_eq!(blob[19..], *key(1).public().as_bytes());
    }
}
