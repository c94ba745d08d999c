//! Seeds under a passphrase, in the form that OpenSSL reads: PKCS#8 with PBES2, scrypt and AES-256-CBC.
//!
//! Home of the PKCS#8 crate, and of memory that is overwritten when it is dropped. Randomness comes in as an
//! argument, passphrases come from elsewhere, and how a sealed seed stands in a key file is in `key_file`.

use std::fmt;

use pkcs8::der::Decode as _;
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::{EncryptionScheme, scrypt};
use pkcs8::{EncryptedPrivateKeyInfoRef, ObjectIdentifier, PrivateKeyInfoRef, SecretDocument};

/// A value whose memory is overwritten when it is dropped.
pub type Wiped<T> = pkcs8::der::zeroize::Zeroizing<T>;

/// The seed of an Ed25519 key.
pub type Seed = Wiped<[u8; 32]>;

/// OpenSSL refuses scrypt above 32 MiB, so memory is half of that, and five rounds make up for it.
const SCRYPT: (u8, u32, u32) = (14, 8, 5);
/// More memory than this is not spent on opening a key.
const MAX_SCRYPT_BYTES: u64 = 1 << 30;
/// More scrypt work than this (N times r times p) is not spent on opening a key.
const MAX_SCRYPT_WORK: u64 = 1 << 27;
/// More rounds of PBKDF2 than this are not spent on opening a key.
const MAX_ROUNDS: u32 = 20_000_000;

const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// Keys that are no use here, by the name that people know.
const OTHERS: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.1", "RSA"),
    ("1.2.840.113549.1.1.10", "RSA"),
    ("1.2.840.10045.2.1", "ECDSA"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.3.101.110", "X25519"),
    ("1.3.101.113", "Ed448"),
];

/// `PrivateKeyInfo` of an Ed25519 key up to its seed (RFC 8410 section 7).
const BEFORE_SEED: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Why a private key of another program, or a sealed seed, cannot be used. No message repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was opened is not what was sealed.
    #[error("the passphrase is not the right one")]
    WrongPassphrase,
    /// It is under a passphrase, and none was given.
    #[error("the key is sealed under a passphrase")]
    Sealed,
    /// Not a private key of a known form.
    #[error("this is not a private key in PKCS#8 or OpenSSH form")]
    Form,
    /// A key of another algorithm.
    #[error("this is a key of {algorithm}, not of Ed25519")]
    Algorithm {
        /// The algorithm's name.
        algorithm: String,
    },
    /// Sealed by means that this program does not have.
    #[error("the key is sealed in a way that this program does not know")]
    Scheme,
    /// Opening it would take more memory or time than anybody's key should.
    #[error("opening the key would cost more than any key should")]
    Costly,
}

/// What somebody types to open a key. It is shown by nothing, and its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Wiped<Vec<u8>>);

impl Passphrase {
    /// Takes the bytes of a passphrase; an empty one is one, too.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Wiped::new(bytes))
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// Seals a seed: the DER of an `EncryptedPrivateKeyInfo`. Salt and IV are to be random and used once.
pub fn seal(
    seed: &[u8; 32],
    passphrase: &Passphrase,
    salt: [u8; 16],
    iv: [u8; 16],
) -> Result<Vec<u8>, Error> {
    let mut der = Wiped::new(BEFORE_SEED.to_vec());
    der.extend_from_slice(seed);
    let info = PrivateKeyInfoRef::from_der(&der).map_err(|_| Error::Form)?;
    let (log_n, r, p) = SCRYPT;
    let costs = scrypt::Params::new(log_n, r, p).map_err(|_| Error::Scheme)?;
    let scheme = Parameters::generate_scrypt_aes256cbc(costs, &salt, iv).map_err(|_| Error::Scheme)?;
    let sealed = info.encrypt_with_params(scheme, passphrase.as_bytes()).map_err(|_| Error::Scheme)?;
    Ok(sealed.as_bytes().to_vec())
}

/// Opens what [`seal`] or another program sealed.
///
/// A wrong passphrase is noticed by its padding or by what comes out; whoever knows the public key compares it.
pub fn open(der: &[u8], passphrase: &Passphrase) -> Result<Seed, Error> {
    let sealed = EncryptedPrivateKeyInfoRef::from_der(der).map_err(|_| Error::Form)?;
    is_affordable(&sealed.encryption_algorithm)?;
    let opened = sealed.decrypt(passphrase.as_bytes()).map_err(|_| Error::WrongPassphrase)?;
    match seed_of(opened.as_bytes()) {
        Err(Error::Form) => Err(Error::WrongPassphrase),
        found => found,
    }
}

/// Refuses to work for hours or to fill the memory because a file says so.
fn is_affordable(scheme: &EncryptionScheme) -> Result<(), Error> {
    let parameters = scheme.pbes2().ok_or(Error::Scheme)?;
    let fits = match &parameters.kdf {
        Kdf::Scrypt(costs) => {
            let (n, r) = (costs.cost_parameter, u64::from(costs.block_size));
            let memory = n.checked_mul(128 * r).is_some_and(|bytes| bytes <= MAX_SCRYPT_BYTES);
            let work = n.checked_mul(r * u64::from(costs.parallelization));
            memory && work.is_some_and(|work| work <= MAX_SCRYPT_WORK)
        }
        Kdf::Pbkdf2(costs) => costs.iteration_count <= MAX_ROUNDS,
        _ => return Err(Error::Scheme),
    };
    if fits { Ok(()) } else { Err(Error::Costly) }
}

/// Reads the seed of a private key in PKCS#8 PEM, as `openssl genpkey` writes it.
pub fn from_pem(text: &str, passphrase: Option<&Passphrase>) -> Result<Seed, Error> {
    let (label, der) = SecretDocument::from_pem(text).map_err(|_| Error::Form)?;
    match (label, passphrase) {
        ("PRIVATE KEY", _) => seed_of(der.as_bytes()),
        ("ENCRYPTED PRIVATE KEY", Some(passphrase)) => open(der.as_bytes(), passphrase),
        ("ENCRYPTED PRIVATE KEY", None) => Err(Error::Sealed),
        (other, _) => match other.strip_suffix(" PRIVATE KEY") {
            Some("EC") => Err(Error::Algorithm { algorithm: "ECDSA".to_owned() }),
            Some(algorithm @ ("RSA" | "DSA")) => Err(Error::Algorithm { algorithm: algorithm.to_owned() }),
            _ => Err(Error::Form),
        },
    }
}

fn seed_of(der: &[u8]) -> Result<Seed, Error> {
    let info = PrivateKeyInfoRef::from_der(der).map_err(|_| Error::Form)?;
    if info.algorithm.oid != ED25519 {
        let oid = info.algorithm.oid.to_string();
        let name = OTHERS.iter().find(|(known, _)| *known == oid).map(|(_, name)| (*name).to_owned());
        return Err(Error::Algorithm { algorithm: name.unwrap_or(oid) });
    }
    // CurvePrivateKey ::= OCTET STRING, inside the OCTET STRING of every private key
    match info.private_key.as_bytes() {
        [0x04, 0x20, seed @ ..] => <[u8; 32]>::try_from(seed).map(Wiped::new).map_err(|_| Error::Form),
        _ => Err(Error::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_sealed_opens_with_its_passphrase_only() {
        for text in ["correct horse", "", "\u{fc}\0"] {
            let sealed = seal(&[7; 32], &phrase(text), [1; 16], [2; 16]).unwrap();
            assert_eq!(*open(&sealed, &phrase(text)).unwrap(), [7; 32]);
            let other = open(&sealed, &phrase("correct horsf"));
            assert_eq!(other.unwrap_err(), Error::WrongPassphrase, "{text:?}");
            assert!(!sealed.windows(8).any(|bytes| bytes == [7; 8]), "the seed stands in clear");
        }
    }

    #[test]
    fn a_file_cannot_make_us_work_for_hours() {
        let sealed = seal(&[7; 32], &phrase("a"), [1; 16], [2; 16]).unwrap();
        // cost_parameter is INTEGER 16384
        let at = sealed.windows(4).position(|bytes| bytes == [0x02, 0x02, 0x40, 0x00]).unwrap();
        for (high, wanted) in [(0x40, Error::WrongPassphrase), (0x7f, Error::WrongPassphrase)] {
            let mut changed = sealed.clone();
            changed[at + 2] = high;
            assert_eq!(open(&changed, &phrase("b")).unwrap_err(), wanted, "{high:x}");
        }
        // block_size INTEGER 8, parallelization INTEGER 5 follow; 127 blocks of 127 are too much work.
        let mut changed = sealed;
        assert_eq!(changed[at + 4..at + 10], [0x02, 0x01, 0x08, 0x02, 0x01, 0x05]);
        (changed[at + 6], changed[at + 9]) = (0x7f, 0x7f);
        assert_eq!(open(&changed, &phrase("a")).unwrap_err(), Error::Costly);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(from_pem(text, None).unwrap_err(), Error::Form, "{text:?}");
        }
        assert_eq!(open(&[0x30, 0x00], &phrase("a")).unwrap_err(), Error::Form);
        let mut der = BEFORE_SEED.to_vec();
        der.extend([7; 32]);
        assert_eq!(*seed_of(&der).unwrap(), [7; 32]);
        // X25519 in place of Ed25519, and a seed that is one byte short.
        der[11] = 0x6e;
        assert_eq!(seed_of(&der).unwrap_err(), Error::Algorithm { algorithm: "X25519".to_owned() });
        assert_eq!(seed_of(&der[..47]).unwrap_err(), Error::Form);
    }

    #[test]
    fn debug_shows_no_passphrase() {
        assert_eq!(format!("{:?}", phrase("correct horse")), "Passphrase(..)");
    }
}
