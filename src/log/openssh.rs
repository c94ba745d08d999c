//! Private keys in the form of OpenSSH, for whoever brings one along.
//!
//! Home of the SSH crate. Such keys are read and never written; the public line is written as text in `key`.

use ssh_key::private::KeypairData;
use ssh_key::{Error as SshError, PrivateKey};

use super::key::unbase64;
use super::sealed::{Error, Passphrase, Seed, Wiped};

/// The line that such a file begins with.
const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
/// The algorithm whose keys are taken.
const ED25519: &str = "ssh-ed25519";
/// More rounds of bcrypt than this are not spent on opening a key; `ssh-keygen` makes 16 or 24.
const MAX_ROUNDS: u32 = 1024;

/// Whether a text is a private key of OpenSSH.
pub fn is_openssh(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// Reads the seed of an Ed25519 key, and the comment that its owner gave it.
pub fn from_openssh(text: &str, passphrase: Option<&Passphrase>) -> Result<(Seed, String), Error> {
    let key = PrivateKey::from_openssh(text.trim_start()).map_err(|error| worded(&error, text))?;
    let algorithm = key.algorithm();
    if algorithm.as_str() != ED25519 {
        return Err(Error::Algorithm { algorithm: named(algorithm.as_str()) });
    }
    let key = match (key.is_encrypted(), passphrase) {
        (false, _) => key,
        (true, None) => return Err(Error::Sealed),
        (true, Some(passphrase)) => {
            if matches!(key.kdf(), ssh_key::Kdf::Bcrypt { rounds, .. } if *rounds > MAX_ROUNDS) {
                return Err(Error::Costly);
            }
            key.decrypt(passphrase.as_bytes()).map_err(|error| match worded(&error, text) {
                Error::Form => Error::WrongPassphrase,
                other => other,
            })?
        }
    };
    let KeypairData::Ed25519(pair) = key.key_data() else { return Err(Error::Form) };
    let comment = String::from_utf8_lossy(key.comment().as_bytes()).into_owned();
    Ok((Wiped::new(pair.private.to_bytes()), comment))
}

fn worded(error: &SshError, text: &str) -> Error {
    match error {
        SshError::AlgorithmUnsupported { algorithm } => {
            Error::Algorithm { algorithm: named(algorithm.as_str()) }
        }
        // The crate reads few algorithms; the file says by itself which one it is of.
        _ => match algorithm_in(text) {
            Some(word) if word != ED25519 => Error::Algorithm { algorithm: named(&word) },
            _ => Error::Form,
        },
    }
}

/// Reads the algorithm's word out of the public key, which stands in clear even beside a sealed private key.
fn algorithm_in(text: &str) -> Option<String> {
    let body: String = text.lines().filter(|line| !line.contains('-')).map(str::trim).collect();
    let bytes = unbase64(&body).ok()?;
    // "openssh-key-v1\0", strings cipher, kdf, kdf options, uint32 count of keys, string public key,
    // which begins with a string of its own: the algorithm. A string is its length in four bytes, and its bytes.
    let mut rest = bytes.strip_prefix(b"openssh-key-v1\0")?;
    for _ in 0..3 {
        rest = string(rest)?.1;
    }
    let (public, _) = string(rest.get(4..)?)?;
    let (word, _) = string(public)?;
    String::from_utf8(word.to_vec()).ok().filter(|word| word.chars().all(|c| c.is_ascii_graphic()))
}

fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::key::base64;

    fn file(algorithm: &str) -> String {
        let string = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        let public = string(&[string(algorithm.as_bytes()), string(&[7; 32])].concat());
        let mut bytes = b"openssh-key-v1\0".to_vec();
        for part in [string(b"none"), string(b"none"), string(b""), vec![0, 0, 0, 1], public] {
            bytes.extend(part);
        }
        format!("{BEGIN}\n{}\n-----END OPENSSH PRIVATE KEY-----\n", base64(&bytes))
    }

    #[test]
    fn a_key_of_another_algorithm_is_named() {
        for (word, name) in [
            ("ssh-rsa", "RSA"),
            ("ssh-dss", "DSA"),
            ("ecdsa-sha2-nistp256", "ECDSA"),
            ("sk-ssh-ed25519@openssh.com", "a hardware token (sk-ssh-ed25519@openssh.com)"),
        ] {
            let error = from_openssh(&file(word), None).unwrap_err();
            assert_eq!(error, Error::Algorithm { algorithm: name.to_owned() });
        }
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let whole = file("ssh-ed25519");
        assert!(is_openssh(&whole));
        assert_eq!(from_openssh(&whole, None).unwrap_err(), Error::Form);
        for end in 0..whole.len() {
            assert_eq!(from_openssh(&whole[..end], None).unwrap_err(), Error::Form, "{end}");
        }
    }
}
