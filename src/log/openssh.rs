//! Private keys in the form of OpenSSH, for whoever brings one along.
//!
//! Home of the SSH crate. Such keys are read and never written; the public line is written as text in `key`.

use ssh_key::private::KeypairData;
use ssh_key::{Error as SshError, PrivateKey};

use super::sealed::{Error, Passphrase, Seed, Wiped};

/// The line that such a file begins with.
const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
/// More rounds of bcrypt than this are not spent on opening a key; `ssh-keygen` makes 16 or 24.
const MAX_ROUNDS: u32 = 1024;

/// Whether a text is a private key of OpenSSH.
pub fn is_openssh(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// Reads the seed of an Ed25519 key, and the comment that its owner gave it.
pub fn from_openssh(text: &str, passphrase: Option<&Passphrase>) -> Result<(Seed, String), Error> {
    let key = PrivateKey::from_openssh(text.trim_start()).map_err(|error| worded(&error))?;
    let algorithm = key.algorithm();
    if algorithm.as_str() != "ssh-ed25519" {
        return Err(Error::Algorithm { algorithm: named(algorithm.as_str()) });
    }
    let key = match (key.is_encrypted(), passphrase) {
        (false, _) => key,
        (true, None) => return Err(Error::Sealed),
        (true, Some(passphrase)) => {
            if matches!(key.kdf(), ssh_key::Kdf::Bcrypt { rounds, .. } if *rounds > MAX_ROUNDS) {
                return Err(Error::Costly);
            }
            key.decrypt(passphrase.as_bytes()).map_err(|error| match worded(&error) {
                Error::Form => Error::WrongPassphrase,
                other => other,
            })?
        }
    };
    let KeypairData::Ed25519(pair) = key.key_data() else { return Err(Error::Form) };
    let comment = String::from_utf8_lossy(key.comment().as_bytes()).into_owned();
    Ok((Wiped::new(pair.private.to_bytes()), comment))
}

fn worded(error: &SshError) -> Error {
    match error {
        SshError::AlgorithmUnsupported { algorithm } => {
            Error::Algorithm { algorithm: named(algorithm.as_str()) }
        }
        SshError::AlgorithmUnknown => Error::Algorithm { algorithm: "an unknown kind".to_owned() },
        _ => Error::Form,
    }
}

/// Returns the name that people know for an algorithm of SSH.
fn named(word: &str) -> String {
    match word {
        "ssh-rsa" => "RSA".to_owned(),
        "ssh-dss" => "DSA".to_owned(),
        _ if word.starts_with("ecdsa-sha2-") => "ECDSA".to_owned(),
        _ if word.starts_with("sk-") => format!("a hardware token ({word})"),
        _ => word.to_owned(),
    }
}
