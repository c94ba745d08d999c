//! Whom the user trusts: the trust files of user and site, a flag, and the pin that `init` and `key trust` set.
//!
//! Trust never comes from `ledger.toml`, from a ledger, or from the directory under test: who could write there
//! could vouch for himself.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::durable::outside;
use crate::id::LedgerId;
use crate::verify::Trusted;

use super::error::Failure;
use super::settings::{Context, MAX_SETTINGS, disk, read_toml, toml_text};
use super::ui::Exit;

const TRUST_FORMAT: &str = "ledger-trust/1";
const SITE_TRUST: &str = "/etc/ledger/trust.toml";

/// The ledgers that somebody trusts, and where that is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trust {
    /// The ledgers.
    pub(crate) ledgers: Vec<Trusted>,
    /// Where they are named, for people.
    pub(crate) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    format: String,
    #[serde(default)]
    ledger: Vec<TrustEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustEntry {
    id: String,
    name: Option<String>,
    min_head: Option<u64>,
}

impl Context {
    /// Returns the trusted ledgers: those of the flag or of `LEDGER_TRUST`, else the user's and the site's.
    pub(crate) fn trust(&self, flag: Option<&str>) -> Result<Trust, Failure> {
        if let Some(given) = flag.or_else(|| self.filled("LEDGER_TRUST")) {
            let origin = if flag.is_some() { "--trust" } else { "LEDGER_TRUST" };
            if let Ok(id) = LedgerId::from_hex(given) {
                let ledgers = vec![Trusted { id, name: None, min_head: None }];
                return Ok(Trust { ledgers, source: origin.to_owned() });
            }
            let path = self.path(Path::new(given));
            let ledgers = read_trust(&path)?.ok_or_else(|| {
                Failure::usage(format!("`{origin}` names `{given}`, which is neither a ledger id nor a file"))
            })?;
            return Ok(Trust { ledgers, source: path.display().to_string() });
        }
        let mut trust = Trust::default();
        let mut sources = Vec::new();
        for path in [self.trust_path(), Some(PathBuf::from(SITE_TRUST))].into_iter().flatten() {
            if let Some(ledgers) = read_trust(&path)? {
                trust.ledgers.extend(ledgers);
                sources.push(path.display().to_string());
            }
        }
        trust.source = if sources.is_empty() { "no trust file".to_owned() } else { sources.join(" and ") };
        Ok(trust)
    }

    /// Returns the path of this user's trust file.
    pub(crate) fn trust_path(&self) -> Option<PathBuf> {
        Some(self.config_dir()?.join("trust.toml"))
    }

    /// Adds a ledger to this user's trust file, if it is not there, and returns the file's path.
    pub(crate) fn pin(&self, id: LedgerId, name: Option<&str>) -> Result<PathBuf, Failure> {
        let path = self.trust_path().ok_or_else(|| {
            Failure::new("not-writable", Exit::Busy, "there is no home directory for a trust file")
                .hint(format!("LEDGER_TRUST={id}"))
        })?;
        let lock = outside::lock(&disk(), &path.with_extension("lock"), self.lock_wait)?;
        let known = read_trust(&path)?;
        if known.iter().flatten().any(|ledger| ledger.id == id) {
            return Ok(path);
        }
        // What people have written into the file stays as it is, comments and all.
        let mut text = match outside::read(&path, MAX_SETTINGS)? {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => format!("# The ledgers whose word counts here.\nformat = \"{TRUST_FORMAT}\"\n"),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&trust_entry(id, name));
        outside::replace(&disk(), &path, text.as_bytes(), 0o600)?;
        drop(lock);
        Ok(path)
    }
}

/// Returns the lines that name one ledger in a trust file.
pub(crate) fn trust_entry(id: LedgerId, name: Option<&str>) -> String {
    let name = name.map(|name| format!("name = {}\n", toml_text(name))).unwrap_or_default();
    format!("\n[[ledger]]\nid = \"{id}\"\n{name}")
}

/// Returns the text of a trust file that names one ledger.
pub(crate) fn trust_file(id: LedgerId, name: Option<&str>) -> String {
    format!("format = \"{TRUST_FORMAT}\"\n{}", trust_entry(id, name))
}

fn read_trust(path: &Path) -> Result<Option<Vec<Trusted>>, Failure> {
    let Some(file) = read_toml::<TrustFile>(path)? else { return Ok(None) };
    let bad = |message: String| Failure::new("bad-config", Exit::Usage, message);
    if file.format != TRUST_FORMAT {
        let shown = path.display();
        return Err(bad(format!("`{shown}` has the format `{}`, not `{TRUST_FORMAT}`", file.format)));
    }
    let ledger = |entry: TrustEntry| {
        let id = LedgerId::from_hex(&entry.id).map_err(|error| {
            bad(format!("`{}` names `{}`, which is no ledger id", path.display(), entry.id)).because(error)
        })?;
        Ok(Trusted { id, name: entry.name, min_head: entry.min_head })
    };
    file.ledger.into_iter().map(ledger).collect::<Result<_, Failure>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_added_once_and_leaves_the_rest_alone() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().to_str().unwrap();
        let context = Context::of_test(dir.path(), &[("XDG_CONFIG_HOME", text)]);
        let (one, two) = (LedgerId::from_bytes([1; 32]), LedgerId::from_bytes([2; 32]));
        let path = context.pin(one, Some("the \"lab\"")).unwrap();
        let first = std::fs::read_to_string(&path).unwrap() + "# mine";
        outside::replace(&disk(), &path, first.as_bytes(), 0o600).unwrap();
        context.pin(one, None).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        context.pin(two, None).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&first));
        let trust = context.trust(None).unwrap();
        let found: Vec<_> = trust.ledgers.iter().map(|one| (one.id, one.name.as_deref())).collect();
        assert_eq!(found, [(one, Some("the \"lab\"")), (two, None)]);
        assert_eq!(context.trust(Some(&two.to_hex())).unwrap().ledgers.len(), 1);
        assert_eq!(context.trust(Some("nowhere")).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_wrong_trust_file_is_an_error_and_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.toml");
        let context = Context::of_test(dir.path(), &[]);
        let id = "ab".repeat(32);
        for text in [
            String::new(),
            "format = \"ledger-trust/2\"\n".to_owned(),
            format!("{TRUST_FORMAT}\n"),
            format!("format = \"{TRUST_FORMAT}\"\n[[ledgers]]\nid = \"{id}\"\n"),
            format!("format = \"{TRUST_FORMAT}\"\n[[ledger]]\nid = \"{}\"\n", &id[1..]),
        ] {
            outside::replace(&disk(), &path, text.as_bytes(), 0o600).unwrap();
            let failure = context.trust(Some("trust.toml")).unwrap_err();
            assert_eq!((failure.slug, failure.exit), ("bad-config", Exit::Usage), "{text}");
        }
    }
}
