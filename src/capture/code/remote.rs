//! A remote's address without anything secret in it.
//!
//! Which remote is meant is decided by the readers. An address that cannot be taken apart surely is dropped: a
//! missing address costs a word in a report, a leaked token costs the account.

/// Returns an address without user, password, query and fragment, or nothing if it may still hold a secret.
pub(super) fn public(url: &str) -> Option<String> {
    let url = url.trim();
    // `ext::` runs a command line, which can hold anything.
    if url.is_empty() || url.starts_with("ext::") || url.contains(char::is_control) {
        return None;
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        return with_scheme(scheme, rest);
    }
    let head = url.split('/').next().unwrap_or_default();
    if !head.contains(':') {
        // A path on this machine.
        return Some(url.to_owned());
    }
    // `user@host:path`. A colon before the first `@` is a password or token, and then only what follows the
    // last `@` before the path's first slash is surely none.
    let host_and_path = match url.split_once('@') {
        Some((user, rest)) if !user.contains([':', '/']) => rest,
        _ => match head.rfind('@') {
            Some(at) => &url[at + 1..],
            None => url,
        },
    };
    Some(host_and_path.to_owned())
}

fn with_scheme(scheme: &str, rest: &str) -> Option<String> {
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let host = match authority.rfind('@') {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    // `user:pa/ss@host` is cut at the password's slash: what looks like a port is then no number.
    let port = match host.rfind(']') {
        Some(bracket) => host[bracket + 1..].strip_prefix(':'),
        None => host.split_once(':').map(|(_, port)| port),
    };
    if port.is_some_and(|port| !port.bytes().all(|digit| digit.is_ascii_digit())) || scheme.contains('@') {
        return None;
    }
    Some(format!("{scheme}://{host}{path}"))
}

/// Picks the address of the branch's upstream, or else that of `origin`, from `(key, value)` settings.
///
/// The first address of a remote is the one git fetches from. Addresses are taken as written: `insteadOf` rules
/// are a common place for tokens.
pub(super) fn choose(settings: &[(String, String)], branch: Option<&str>) -> Option<String> {
    let last =
        |key: &str| settings.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let first = |key: &str| settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let upstream = branch.and_then(|branch| last(&format!("branch.{branch}.remote")));
    upstream
        .and_then(|remote| first(&format!("remote.{remote}.url")))
        .or_else(|| first("remote.origin.url"))
        .and_then(public)
}

/// Hides the addresses in a message of git.
pub(super) fn redact(message: &str) -> String {
    let word = |word: &str| {
        if word.contains('@') || word.contains("://") { "<address>".to_owned() } else { word.to_owned() }
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_host_and_path_only() {
        for (url, expected) in [
            ("https://example.org/a/b.git", Some("https://example.org/a/b.git")),
            ("https://kim:s3cret@example.org/a", Some("https://example.org/a")),
            ("https://s3cret@example.org:8443/a", Some("https://example.org:8443/a")),
            ("https://a@s3cret@example.org/@scope/x", Some("https://example.org/@scope/x")),
            ("https://example.org/a?token=s3cret", Some("https://example.org/a")),
            ("https://example.org?token=s3cret", Some("https://example.org")),
            ("https://example.org/a#s3cret", Some("https://example.org/a")),
            ("https://kim:s3/cret@example.org/a", None),
            ("ssh://git@example.org:22/a", Some("ssh://example.org:22/a")),
            ("ssh://git:s3cret@[::1]:22/a", Some("ssh://[::1]:22/a")),
            ("git@example.org:a/b.git", Some("example.org:a/b.git")),
            ("kim:s3cret@example.org:a/b.git", Some("example.org:a/b.git")),
            ("git@example.org:a@b/c", Some("example.org:a@b/c")),
            ("helper::region://s3cret@repo", Some("helper::region://repo")),
            ("ext::ssh -i s3cret host", None),
            ("/data/mirrors/@a:b.git", Some("/data/mirrors/@a:b.git")),
            ("../mirror", Some("../mirror")),
            ("file:///data/mirror", Some("file:///data/mirror")),
            ("https://example.org/a\ns3cret", None),
            ("", None),
        ] {
            let found = public(url);
            assert_eq!(found.as_deref(), expected, "{url}");
            assert!(!found.unwrap_or_default().contains("s3"), "{url}");
        }
    }

    #[test]
    fn the_upstream_goes_before_origin() {
        let settings = [
            ("remote.origin.url", "https://example.org/origin"),
            ("remote.fork.url", "https://example.org/fork"),
            ("remote.fork.url", "https://example.org/second"),
            ("branch.main.remote", "fork"),
            ("branch.local.remote", "."),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let pick = |branch| choose(&settings, branch);
        assert_eq!(pick(Some("main")).as_deref(), Some("https://example.org/fork"));
        assert_eq!(pick(Some("other")).as_deref(), Some("https://example.org/origin"));
        assert_eq!(pick(Some("local")).as_deref(), Some("https://example.org/origin"));
        assert_eq!(pick(None).as_deref(), Some("https://example.org/origin"));
        assert_eq!(choose(&settings[1..], None), None);
    }

    #[test]
    fn a_message_of_git_shows_no_address() {
        let shown = redact("fatal: unable to access 'https://kim:s3cret@example.org/a': 403");
        assert_eq!(shown, "fatal: unable to access <address> 403");
        assert!(!redact("from kim:s3cret@example.org:a now").contains("s3cret"));
    }
}
