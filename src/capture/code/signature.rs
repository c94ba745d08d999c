//! Checks an SSH signature over a commit against a file of allowed signers.
//!
//! Formats: the signature block is OpenSSH's `PROTOCOL.sshsig`, the file is the one that `ssh-keygen(1)` describes
//! under ALLOWED SIGNERS and git names in `gpg.ssh.allowedSignersFile`. Ed25519 keys are checked here, those in
//! security keys included; of every other key the answer is *unknown*, and never "signed".

use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};

/// The namespace that git signs in; a signature made for another purpose is none over a commit.
const NAMESPACE: &str = "git";
/// Header fields of a commit that hold its signature, for repositories of either object format.
const FIELDS: [&[u8]; 2] = [b"gpgsig", b"gpgsig-sha256"];
/// A time without a zone is that of whoever wrote it; zones reach this many seconds to either side.
const ZONES: i64 = 14 * 3600;

/// Why a file is not one of allowed signers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the allowed signers: {why}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What a commit's signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signature {
    /// It is right, and its key stands in the file for commits of that time.
    Good {
        /// The principals that the file gives for the key, as `kim@lab.example`.
        principals: String,
        /// The key, as `SHA256:...`.
        fingerprint: String,
    },
    /// The commit bears none.
    Absent,
    /// It is no signature over these bytes by the key that it names.
    Wrong {
        /// Why not.
        reason: String,
    },
    /// It cannot be judged here, or by nobody who is allowed.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// Keys that may sign commits.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedSigners(Vec<Signer>);

#[derive(Debug, Clone, PartialEq)]
struct Signer {
    principals: String,
    key: PublicKey,
    /// Seconds since 1970 between which, both included, a commit must have been made.
    valid: (i64, i64),
    /// Whether the line admits signatures over commits; some admit only other purposes.
    for_git: bool,
    /// An authority signs certificates, not commits.
    is_authority: bool,
}

impl AllowedSigners {
    /// Reads such a file. A line that cannot be understood is an error, so that no restriction is overlooked.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut signers = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            signers.push(signer(line).map_err(|why| Malformed { line: number + 1, why })?);
        }
        Ok(Self(signers))
    }

    /// Judges the signature in the raw bytes of a commit object, which its id must vouch for already.
    pub fn judge(&self, commit: &[u8]) -> Signature {
        let Some((block, covered)) = take_signature(commit) else { return Signature::Absent };
        let wrong = |reason: &str| Signature::Wrong { reason: reason.to_owned() };
        let unknown = |reason: String| Signature::Unknown { reason };
        let trimmed = block.trim_ascii_start();
        if !trimmed.starts_with(b"-----BEGIN SSH SIGNATURE-----") {
            let what = if trimmed.starts_with(b"-----BEGIN PGP") {
                "of OpenPGP"
            } else {
                "of a kind not known here"
            };
            return unknown(format!("its signature is {what}; `git verify-commit` may check it"));
        }
        let Ok(signature) = SshSig::from_pem(&block) else {
            return wrong("it is not in the form of OpenSSH");
        };
        let key = PublicKey::from(signature.public_key().clone());
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        if !matches!(key.algorithm(), Algorithm::Ed25519 | Algorithm::SkEd25519) {
            let algorithm = key.algorithm();
            return unknown(format!(
                "its key {fingerprint} is of {algorithm}; `git verify-commit` checks such"
            ));
        }
        if let Err(error) = key.verify(NAMESPACE, &covered, &signature) {
            return wrong(&format!("it is none of {fingerprint} over this commit: {error}"));
        }
        let named: Vec<&Signer> = self
            .0
            .iter()
            .filter(|signer| signer.key.key_data() == key.key_data() && !signer.is_authority)
            .collect();
        if named.is_empty() {
            return unknown(format!("{fingerprint}, which signed it, is not among the allowed signers"));
        }
        let Some(made) = committed(&covered) else { return wrong("the commit states no time") };
        match named.iter().find(|signer| signer.for_git && (signer.valid.0..=signer.valid.1).contains(&made))
        {
            Some(signer) => Signature::Good { principals: signer.principals.clone(), fingerprint },
            None => unknown(format!(
                "{fingerprint}, which signed it, was not allowed to sign commits at that time"
            )),
        }
    }
}

/// Splits a commit into its signature and the bytes that were signed: everything but the signature's own field.
fn take_signature(commit: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut block, mut signed) = (None::<Vec<u8>>, Vec::with_capacity(commit.len()));
    let (mut in_header, mut in_block) = (true, false);
    for line in commit.split_inclusive(|byte| *byte == b'\n') {
        if in_header && line == b"\n" {
            in_header = false;
        }
        // A field goes on in lines that begin with a space.
        if in_header && in_block && line.first() == Some(&b' ') {
            block.as_mut()?.extend_from_slice(&line[1..]);
            continue;
        }
        in_block = false;
        let field = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        if in_header && FIELDS.contains(&field) {
            // Which of two a reader takes is not settled, so neither counts.
            if block.is_some() {
                return Some((Vec::new(), Vec::new()));
            }
            in_block = true;
            block = Some(line.get(field.len() + 1..).unwrap_or_default().to_vec());
            continue;
        }
        signed.extend_from_slice(line);
    }
    Some((block?, signed))
}

/// The time that the `committer` field states, in seconds since 1970.
fn committed(commit: &[u8]) -> Option<i64> {
    let header = commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let line = header.into_iter().find_map(|line| line.strip_prefix(b"committer "))?;
    let after = line.rsplit(|byte| *byte == b'>').next()?;
    std::str::from_utf8(after).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads one line: principals, options if there are any, and the key.
fn signer(line: &str) -> Result<Signer, &'static str> {
    let (principals, rest) = word(line)?;
    let (first, after) = word(rest)?;
    // Options have no algorithm's name; a key begins with one.
    let (options, key) = if Algorithm::new(first).is_ok() { ("", rest) } else { (first, after) };
    let key = PublicKey::from_openssh(key.trim()).map_err(|_| "no public key stands where one must")?;
    let mut signer = Signer {
        principals: principals.replace('"', ""),
        key,
        valid: (i64::MIN, i64::MAX),
        for_git: true,
        is_authority: false,
    };
    for option in split_options(options) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "cert-authority" => signer.is_authority = true,
            "namespaces" => signer.for_git = value.split(',').any(|pattern| matches(pattern, NAMESPACE)),
            "valid-after" => signer.valid.0 = time(value, ZONES)?,
            "valid-before" => signer.valid.1 = time(value, -ZONES)?,
            _ => return Err("an option is not known here"),
        }
    }
    Ok(signer)
}

/// Takes the first word of a text, in which double quotes keep spaces, and what follows it.
fn word(text: &str) -> Result<(&str, &str), &'static str> {
    let text = text.trim_start();
    let mut is_quoted = false;
    let end = text.find(|letter: char| {
        is_quoted ^= letter == '"';
        letter.is_ascii_whitespace() && !is_quoted
    });
    match end {
        _ if text.is_empty() => Err("the line ends too early"),
        None if is_quoted => Err("a quote is not closed"),
        None => Ok((text, "")),
        Some(end) => Ok(text.split_at(end)),
    }
}

fn split_options(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |letter: char| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    })
    .filter(|option| !option.is_empty())
}

/// Whether a pattern of `ssh_config(5)` admits a word: `*` is any text, `?` any letter.
fn matches(pattern: &str, word: &str) -> bool {
    fn admits(pattern: &[u8], word: &[u8]) -> bool {
        match pattern.split_first() {
            None => word.is_empty(),
            Some((b'*', rest)) => (0..=word.len()).any(|at| admits(rest, &word[at..])),
            Some((letter, rest)) => word
                .split_first()
                .is_some_and(|(at, word)| (*letter == b'?' || letter == at) && admits(rest, word)),
        }
    }
    // Every star may try each of a short word's letters, so their number is what a hostile line could grow.
    pattern.matches('*').count() <= 4 && admits(pattern.as_bytes(), word.as_bytes())
}

/// Reads `YYYYMMDD[HHMM[SS]][Z]` as seconds since 1970; without `Z` it is moved by `slack`, to the narrower side.
fn time(text: &str, slack: i64) -> Result<i64, &'static str> {
    const WRONG: &str = "a time is not of the form YYYYMMDD[HHMM[SS]][Z]";
    let (digits, slack) = text.strip_suffix('Z').map_or((text, slack), |digits| (digits, 0));
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG);
    }
    let part =
        |from: usize, to: usize| digits.get(from..to).map_or(Ok(0), str::parse::<i64>).map_err(|_| WRONG);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return Err(WRONG);
    }
    Ok(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second + slack)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; years begin in March, so that leap days end them.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB";

    fn only(line: &str) -> Result<Signer, &'static str> {
        signer(line)
    }

    #[test]
    fn times_are_those_of_the_calendar_and_narrow_without_a_zone() {
        assert_eq!(time("19700101Z", ZONES), Ok(0));
        assert_eq!(time("20000229123456Z", ZONES), Ok(951_827_696));
        assert_eq!(time("202012312359Z", ZONES), Ok(1_609_459_140));
        assert_eq!(time("19700101", ZONES), Ok(ZONES));
        assert_eq!(time("19700101", -ZONES), Ok(-ZONES));
        for bad in ["", "1970", "197001011", "19701301Z", "19700100Z", "1970010124Z", "19700101+1"] {
            assert!(time(bad, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_are_read_with_all_their_options() {
        let plain = only(&format!("kim@lab.example {KEY} a comment")).unwrap();
        assert_eq!(
            (plain.principals.as_str(), plain.for_git, plain.is_authority),
            ("kim@lab.example", true, false)
        );
        let line = format!("\"a b\",c namespaces=\"file,gi?\",valid-before=\"20200101Z\" {KEY}");
        let full = only(&line).unwrap();
        assert_eq!((full.principals.as_str(), full.for_git), ("a b,c", true));
        assert_eq!(full.valid, (i64::MIN, 1_577_836_800));
        assert!(!only(&format!("k namespaces=\"file\" {KEY}")).unwrap().for_git);
        assert!(only(&format!("k cert-authority {KEY}")).unwrap().is_authority);
        for bad in [format!("k no-such {KEY}"), "k".into(), format!("\"k {KEY}"), "k ssh-ed25519 AAAA".into()]
        {
            assert!(only(&bad).is_err(), "{bad}");
        }
        assert_eq!(AllowedSigners::parse("# none\n\n k\n").unwrap_err().line, 3);
    }

    #[test]
    fn a_signature_is_cut_out_and_the_rest_was_signed() {
        let commit =
            b"tree 1\ncommitter K <k@x> 7 +0000\ngpgsig -----BEGIN\n one\n two\nencoding x\n\ngpgsig no\n";
        let (block, signed) = take_signature(commit).unwrap();
        assert_eq!(block, b"-----BEGIN\none\ntwo\n");
        assert_eq!(signed, b"tree 1\ncommitter K <k@x> 7 +0000\nencoding x\n\ngpgsig no\n");
        assert_eq!(committed(&signed), Some(7));
        assert_eq!(take_signature(b"tree 1\n\ngpgsig in the message\n"), None);
        let two = AllowedSigners(vec![]).judge(b"gpgsig a\ngpgsig b\n\n");
        assert!(!matches!(two, Signature::Good { .. } | Signature::Absent), "{two:?}");
    }

    #[test]
    fn patterns_are_those_of_ssh() {
        for (pattern, is_admitted) in [
            ("git", true),
            ("*", true),
            ("g*t", true),
            ("???", true),
            ("gi", false),
            ("git?", false),
            ("file", false),
        ] {
            assert_eq!(matches(pattern, "git"), is_admitted, "{pattern}");
        }
    }
}
