//! Secrets in files that would be stored as they are: found so that they can be refused.
//!
//! A command line is recorded with its secrets struck. A config or a lock file is stored byte for byte, because
//! its digest is its identity; so one that holds a secret cannot be taken at all. Only what is certain is found
//! here: a false alarm stops somebody's work.

use std::fmt;

use super::redact::is_secret_name;

/// Where a secret is and what it looks like; never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// A line, counted from 1, or a key.
    pub place: Where,
    /// What it looks like.
    pub what: &'static str,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// A line, counted from 1.
    Line(usize),
    /// A dotted key.
    Key(String),
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Where::Line(line) => write!(f, "line {line}: {}", self.what),
            Where::Key(key) => write!(f, "`{key}`: {}", self.what),
        }
    }
}

/// How many are told; one is enough to stop.
const MAX_TOLD: usize = 8;

/// Finds secrets by their shape in a text.
pub fn find_secrets(text: &str) -> Vec<Secret> {
    let lines = text.lines().zip(1..);
    let found = lines
        .filter_map(|(line, number)| shape_of(line).map(|what| Secret { place: Where::Line(number), what }));
    found.take(MAX_TOLD).collect()
}

/// Judges a value by the name it stands under.
pub fn named_secret(name: &str, value: &str) -> Option<&'static str> {
    if let Some(what) = shape_of(value) {
        return Some(what);
    }
    let is_dense = value.len() >= 8
        && value.len() <= 512
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().all(|b| b.is_ascii_graphic());
    // `<HUB_TOKEN>`, `***`, `${oc.env:X}`, `$X`: somebody has masked it, or it comes from elsewhere.
    let is_masked = value.starts_with(['<', '*', '$', '{', '/', '.']) || value.contains("${");
    (is_dense && !is_masked && is_secret_name(name)).then_some("a value that its name calls a secret")
}

/// Tells what a line holds, if it holds a secret for certain.
fn shape_of(line: &str) -> Option<&'static str> {
    if line.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    if has_login(line) {
        return Some("an address with a password in it");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    line.split(|c| !is_part(c)).find_map(token)
}

/// Tells whether an address holds a password: `user:password@host`, or a token in the user's place.
fn has_login(line: &str) -> bool {
    line.match_indices("://").any(|(at, _)| {
        let scheme_is_web = line[..at].ends_with("http") || line[..at].ends_with("https");
        let rest = &line[at + 3..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>' | ','))
            .unwrap_or(rest.len());
        let Some(login) = rest[..end].rfind('@').map(|at| &rest[..at]) else { return false };
        let is_open = |text: &str| {
            !text.is_empty() && !text.contains(['$', '{', '<', '*']) && !text.eq_ignore_ascii_case("redacted")
        };
        match login.split_once(':') {
            Some((_, password)) => is_open(password),
            // `git@host` names an account; nobody puts one of twenty letters in front of a web address.
            None => scheme_is_web && login.len() >= 20 && is_open(login),
        }
    })
}

/// Names the service whose access token a word is.
fn token(word: &str) -> Option<&'static str> {
    let dense =
        |tail: &str, least: usize| tail.len() >= least && tail.bytes().all(|b| b.is_ascii_alphanumeric());
    let loose = |tail: &str, least: usize| {
        tail.len() >= least
            && !tail.contains('.')
            && tail.bytes().any(|b| b.is_ascii_digit())
            && tail.bytes().any(|b| b.is_ascii_uppercase())
            && tail.bytes().any(|b| b.is_ascii_lowercase())
    };
    let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| word.strip_prefix(prefix));
    if after(&["hf_", "api_org_"]).is_some_and(|tail| dense(tail, 30)) {
        return Some("an access token of Hugging Face");
    }
    if after(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]).is_some_and(|tail| dense(tail, 36))
        || after(&["github_pat_"]).is_some_and(|tail| loose(tail, 40))
    {
        return Some("an access token of GitHub");
    }
    if after(&["glpat-"]).is_some_and(|tail| loose(tail, 20)) {
        return Some("an access token of GitLab");
    }
    if after(&["sk-", "sk_live_", "rk_live_"]).is_some_and(|tail| loose(tail, 24)) {
        return Some("an access token");
    }
    if after(&["npm_", "gsk_", "r8_"]).is_some_and(|tail| dense(tail, 30))
        || after(&["nvapi-", "pypi-", "dckr_pat_", "wandb_v1_", "AIza", "ya29."])
            .is_some_and(|tail| loose(tail, 27))
        || after(&["xoxb-", "xoxp-", "xoxa-"]).is_some_and(|tail| loose(tail, 20))
    {
        return Some("an access token");
    }
    let is_key_id = word.len() == 20
        && (word.starts_with("AKIA") || word.starts_with("ASIA"))
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_digit());
    if is_key_id {
        return Some("an access key of AWS");
    }
    let mut parts = word.split('.');
    let is_web_token = word.len() > 60
        && word.matches('.').count() == 2
        && parts.all(|part| part.len() >= 10)
        && word.starts_with("eyJ");
    is_web_token.then_some("a web token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_is_found_and_not_repeated() {
        let tokens = [
            ("hf_", "abcdefghijKLMNOPqrstUVWXyzABCDEFGH"),
            ("ghp_", "0123456789abcdefghij0123456789abcdef"),
            ("github_pat_", "11ABCDEFG0_abcdefghij0123456789abcdefghij"),
            ("glpat-", "abcDEF123456abcDEF12"),
            ("sk-", "proj-abcDEF123456abcDEF123456"),
            ("AKIA", "ABCDEFGHIJKLMNO1"),
            ("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IngifQ.c2lnbmF0dXJl"),
            ("-----BEGIN OPENSSH ", "PRIVATE KEY-----"),
            ("https://kim:", "planted@host/simple"),
            ("https://", "abcdefghij0123456789abcdef@host/simple"),
            ("index = \"https://__token__:", "planted@host/simple\""),
        ];
        for (head, tail) in tokens {
            let text = format!("first\nkey: \"{head}{tail}\" # why\n");
            let found = find_secrets(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].to_string().starts_with("line 2: "), "{found:?}");
            assert!(!found[0].to_string().contains(tail));
        }
        assert_eq!(find_secrets(&"https://a:planted@b\n".repeat(100)).len(), MAX_TOLD);
    }

    #[test]
    fn what_only_looks_like_one_passes() {
        for line in [
            "hf_internal_testing/tiny-random-LlamaForCausalLM",
            "model: hf_model_large_v2_finetuned_on_everything",
            "sk-learn-contrib-extended-0.24.0.tar.gz",
            "git+ssh://git@github.example/x/y.git@0123456789abcdef0123456789abcdef01234567",
            "ssh://git@host:22/x",
            "--extra-index-url https://user:${TOKEN}@host/simple",
            "https://<redacted>@host/simple",
            "https://user:****@host/simple",
            "https://host/a@b:c",
            "--hash=sha256:7aa1511a46c39138de78d9eba92ce47e63124d8003fc98b3a351909e04239efa",
            "url = \"https://host/packages/16/fc/cee2c45553c9a9bf77d8b0c391560c556d7ed756b1f0bb35eb5d48db09ea/x.whl\"",
            "hub_token: <HUB_TOKEN>",
            "AKIAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(find_secrets(line), [], "{line}");
        }
    }

    #[test]
    fn a_name_makes_a_secret_of_a_value_that_could_be_one() {
        assert!(named_secret("wandb.api_key", "0123456789abcdef0123456789abcdef01234567").is_some());
        assert!(named_secret("db.password", "hunter2hunter").is_some());
        for (name, value) in [
            ("hub_token", "<HUB_TOKEN>"),
            ("hub_token", "None"),
            ("api_key", "${oc.env:API_KEY_2}"),
            ("api_key", "/run/secrets/key1"),
            ("pad_token", "<|endoftext_100|>"),
            ("token_budget", "100000000"),
            ("name", "0123456789abcdef"),
            ("password", ""),
            ("secret_word", "abracadabra"),
        ] {
            assert_eq!(named_secret(name, value), None, "{name} {value}");
        }
    }
}
