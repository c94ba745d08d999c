//! What a command finds around it: directory, variables, clock, keys, trust, `ledger.toml`.
//!
//! Nothing is read before a command asks for it. Trust and keys never come from `ledger.toml` or from the
//! directory under test. Printing is in `ui.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::durable::{Created, Disk, RealDisk, outside};
use crate::id::{KeyId, LedgerId, object_id};
use crate::ledger::{Home, Ledger, Outcome, Signer};
use crate::log::key::{KeyFile, MAX_KEY_FILE, SigningKey};
use crate::state::Standing;

use super::error::Failure;
use super::ui::{Exit, Ui};

/// Name of the project's settings.
pub(crate) const PROJECT_FILE: &str = "ledger.toml";
const TRUST_FORMAT: &str = "ledger-trust/1";
const SITE_TRUST: &str = "/etc/ledger/trust.toml";
/// Settings and trust files are not larger than this.
const MAX_SETTINGS: usize = 1 << 20;

/// One command's surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Output.
    pub(crate) ui: Ui,
    /// The directory that the command runs in, after `-C`.
    pub(crate) cwd: PathBuf,
    /// All environment variables.
    pub(crate) vars: Vec<(OsString, OsString)>,
    /// Seconds since 1970.
    pub(crate) now: u64,
    /// How long to wait for a lock.
    pub(crate) lock_wait: Duration,
}

/// What to do when recording fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Fail.
    Enforce,
    /// Go on and state the gap.
    Warn,
    /// Record nothing.
    Off,
}

/// What `ledger.toml` says. Relative paths are meant from `root`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Project {
    /// The directory of `ledger.toml`, or of the ledger where there is none.
    pub(crate) root: PathBuf,
    /// Configuration files, merged in this order.
    pub(crate) config: Vec<PathBuf>,
    /// Data by role: a path or `data:NAME`.
    pub(crate) data: BTreeMap<String, String>,
    /// Base models by role: a path, `ck:` or `model:`.
    pub(crate) base: BTreeMap<String, String>,
    /// The lock file.
    pub(crate) lock: Option<PathBuf>,
    /// The seed.
    pub(crate) seed: Option<u64>,
    /// The study.
    pub(crate) study: Option<String>,
    /// The arm of the study.
    pub(crate) arm: Option<String>,
    /// Contracts that the run is made for.
    pub(crate) contract: Vec<PathBuf>,
    /// The policy.
    pub(crate) policy: Option<PathBuf>,
    /// Where a run's files go.
    pub(crate) out: Option<PathBuf>,
}

/// The text of `ledger.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    #[serde(default)]
    config: Vec<PathBuf>,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    base: BTreeMap<String, String>,
    lock: Option<PathBuf>,
    seed: Option<u64>,
    study: Option<String>,
    arm: Option<String>,
    #[serde(default)]
    contract: Vec<PathBuf>,
    policy: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// The ledgers that somebody trusts, and where that is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trust {
    /// The ledgers.
    pub(crate) ledgers: Vec<TrustedLedger>,
    /// Where they are named, for people.
    pub(crate) source: String,
}

/// One trusted ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TrustedLedger {
    /// Its id.
    pub(crate) id: LedgerId,
    /// What its truster calls it.
    pub(crate) name: Option<String>,
    /// A log that ends before this size is known to be old.
    pub(crate) min_head: Option<u64>,
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

impl Project {
    /// Reads the `ledger.toml` of a directory.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let path = root.join(PROJECT_FILE);
        let gone = || {
            let message = format!("`{}` vanished while it was read", path.display());
            Failure::new("changed-while-read", Exit::Busy, message)
        };
        let file: ProjectFile = read_toml(&path)?.ok_or_else(gone)?;
        Ok(Self {
            root: root.to_owned(),
            config: file.config,
            data: file.data,
            base: file.base,
            lock: file.lock,
            seed: file.seed,
            study: file.study,
            arm: file.arm,
            contract: file.contract,
            policy: file.policy,
            out: file.out,
        })
    }
}

impl Trust {
    /// Returns what is said of a ledger.
    pub(crate) fn find(&self, id: LedgerId) -> Option<&TrustedLedger> {
        self.ledgers.iter().find(|ledger| ledger.id == id)
    }
}

impl Context {
    /// Returns a variable that is set and is text.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.vars.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.to_str())
    }

    /// Returns a variable that is set to something; for paths and choices an empty one says nothing.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.var(name).filter(|value| !value.is_empty())
    }

    /// Returns a directory by the rules of the XDG base directories: absolute or not at all.
    fn base_dir(&self, xdg: &str, below_home: &str) -> Option<PathBuf> {
        let absolute = |name: &str| {
            let value = self.vars.iter().find(|(key, _)| key == name).map(|(_, value)| PathBuf::from(value));
            value.filter(|path| path.is_absolute())
        };
        // Making files in a home is ours to do, making a home is not: users without one have this as its name.
        let home = || absolute("HOME").filter(|home| home.is_dir());
        let base = absolute(xdg).or_else(|| Some(home()?.join(below_home)))?;
        Some(base.join("ledger"))
    }

    /// Returns where this user's memory of ledgers lies.
    pub(crate) fn home(&self) -> Home {
        Home::new(self.base_dir("XDG_STATE_HOME", ".local/state"), self.base_dir("XDG_CACHE_HOME", ".cache"))
    }

    /// Returns the directory of this user's keys and trust.
    pub(crate) fn config_dir(&self) -> Option<PathBuf> {
        self.base_dir("XDG_CONFIG_HOME", ".config")
    }

    /// Returns a path as seen from the command's directory, without `.` in it.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.cwd.join(path).components().collect()
    }

    /// Returns the number of the user, who owns what is pending.
    #[expect(clippy::unused_self, reason = "a fact of the surroundings like the others")]
    pub(crate) fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Returns the directory of the ledger that is meant: `LEDGER_DIR`, else the nearest one upwards.
    pub(crate) fn locate(&self) -> Result<PathBuf, Failure> {
        if let Some(dir) = self.filled("LEDGER_DIR") {
            let dir = self.path(Path::new(dir));
            let inner = dir.join(crate::ledger::DIR);
            let is_outer = !dir.join("format").exists() && inner.join("format").exists();
            return Ok(if is_outer { inner } else { dir });
        }
        Ledger::find(&self.cwd).ok_or_else(|| {
            let here = self.cwd.display();
            Failure::new("not-a-ledger", Exit::Unknown, format!("there is no ledger at or above `{here}`"))
                .hint("ledger init")
        })
    }

    /// Opens the ledger, and tells what became of statements of this user that were queued.
    pub(crate) fn open(&self) -> Result<Ledger, Failure> {
        let root = self.locate()?;
        let mut ledger = Ledger::open(&root, self.home())?;
        for notice in ledger.notices() {
            self.ui.verbose(1, format!("note: {notice}"));
        }
        match ledger.settle_own(self.user()) {
            Ok(settled) => {
                for (id, standing) in settled {
                    let short = &id.to_hex()[..8];
                    match standing {
                        Standing::Accepted => {
                            self.ui.talk(format!("note: queued statement {short} is in the log"));
                        }
                        Standing::Rejected(reason) => {
                            self.ui.warn(format!("queued statement {short} was rejected: {reason}"));
                        }
                        Standing::Unknown => {
                            self.ui.warn(format!("queued statement {short} is of newer rules than these"));
                        }
                    }
                }
            }
            // A reader of a ledger that cannot be written has nothing to settle.
            Err(error) => self.ui.verbose(1, format!("note: queued statements stay as they are: {error}")),
        }
        Ok(ledger)
    }

    /// Returns the path of the key file, whether or not there is one; `None` without a configuration directory.
    pub(crate) fn key_path(&self) -> Option<PathBuf> {
        match self.filled("LEDGER_KEY_FILE") {
            Some(path) => Some(self.path(Path::new(path))),
            None => Some(self.config_dir()?.join("keys/default.key")),
        }
    }

    /// Reads this user's keys: from `LEDGER_KEY`, from the file in `LEDGER_KEY_FILE`, or the default file.
    pub(crate) fn key_file(&self) -> Result<KeyFile, Failure> {
        let no_key = |message: String| Failure::new("no-key", Exit::Unknown, message).hint("ledger key new");
        if let Some(text) = self.filled("LEDGER_KEY") {
            return KeyFile::parse(text).map_err(|error| {
                Failure::new("no-key", Exit::Unknown, "`LEDGER_KEY` does not hold a key file")
                    .hint("LEDGER_KEY=\"$(cat FILE)\"")
                    .because(error)
            });
        }
        let path = self.key_path().ok_or_else(|| {
            Failure::new("no-key", Exit::Unknown, "there is no home directory to read a key from")
                .hint("LEDGER_KEY_FILE=FILE ledger key new")
        })?;
        let shown = path.display();
        match std::fs::metadata(&path) {
            Ok(found) if found.permissions().mode() & 0o077 != 0 => {
                return Err(Failure::new(
                    "loose-key",
                    Exit::Unknown,
                    format!("others may read the key `{shown}`"),
                )
                .hint(format!("chmod 600 {}", quoted(&path))));
            }
            _ => {}
        }
        let bytes = match outside::read(&path, MAX_KEY_FILE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(no_key(format!("there is no key at `{shown}`"))),
            Err(error) => return Err(no_key(format!("the key `{shown}` cannot be read")).because(error)),
        };
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        KeyFile::parse(text).map_err(|error| {
            Failure::new("no-key", Exit::Unknown, format!("`{shown}` is not a key file"))
                .hint("bring back your copy of it, or name another one: LEDGER_KEY_FILE=FILE")
                .because(error)
        })
    }

    /// Makes a key file for this user and returns it with its path; there must be none yet.
    pub(crate) fn make_key(&self, name: &str) -> Result<(KeyFile, PathBuf), Failure> {
        let no_home = || {
            Failure::new("no-key", Exit::Unknown, "there is no home directory to keep a key in")
                .hint("LEDGER_KEY_FILE=FILE ledger key new")
        };
        let path = self.key_path().ok_or_else(no_home)?;
        let key = KeyFile::new(name, self.new_key()?, Some(self.new_key()?))
            .map_err(|error| Failure::usage("the display name of a key cannot be used").because(error))?;
        match outside::create(&disk(), &path, key.to_text().as_bytes(), 0o600) {
            Ok(Created::New) => Ok((key, path)),
            Ok(Created::Exists) => {
                let shown = path.display();
                Err(Failure::new("exists", Exit::Refused, format!("there is a key at `{shown}` already"))
                    .hint("ledger key show"))
            }
            Err(error @ crate::durable::Error::Full { .. }) => Err(error.into()),
            Err(error) => {
                let shown = path.display();
                Err(Failure::new("no-key", Exit::Unknown, format!("no key can be kept at `{shown}`"))
                    .hint("LEDGER_KEY_FILE=FILE ledger key new")
                    .because(error))
            }
        }
    }

    /// Draws a new key.
    pub(crate) fn new_key(&self) -> Result<SigningKey, Failure> {
        Ok(SigningKey::from_seed(&self.random()?))
    }

    /// Returns the name by which a new key's holder is shown, unless another is given.
    pub(crate) fn user_name(&self) -> String {
        ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| self.filled(name))
            .map_or_else(|| "author".to_owned(), str::to_owned)
    }

    /// Returns whoever writes now.
    pub(crate) fn signer<'k>(&self, key: &'k KeyFile) -> Signer<'k> {
        Signer {
            author: key.author(),
            log: key.log(),
            time: self.now,
            wait: self.lock_wait,
            user: self.user(),
        }
    }

    /// Tells of a statement that waits, and returns the index of one that does not.
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<u32> {
        match outcome {
            Outcome::Accepted { index, .. } => Some(index),
            Outcome::Queued { statement, why } => {
                let short = &statement.to_hex()[..8];
                self.ui.talk(format!("queued: statement {short} is durable and not yet in the log: {why}"));
                None
            }
        }
    }

    /// Returns the index of a statement whose place in the order is the answer; one that waits is exit 6.
    #[expect(clippy::unused_self, reason = "the strict sibling of `settle`")]
    pub(crate) fn ordered(&self, outcome: Outcome) -> Result<u32, Failure> {
        match outcome {
            Outcome::Accepted { index, .. } => Ok(index),
            Outcome::Queued { statement, why } => Err(Failure::new(
                "busy",
                Exit::Busy,
                "the statement is durable and waits for its place in the log, which the answer needs",
            )
            .fact(format!("statement  {statement}"))
            .fact(format!("because    {why}"))
            .hint("ledger sequence")),
        }
    }

    /// Draws random bytes from the operating system.
    #[expect(clippy::unused_self, reason = "randomness is one of the surroundings")]
    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], Failure> {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes).map_err(|error| {
            Failure::new("io", Exit::Busy, "the system gives no random bytes").because(error)
        })?;
        Ok(bytes)
    }

    /// Returns a source of random bytes: one draw from the operating system, stretched as far as is asked.
    pub(crate) fn entropy(&self) -> Result<impl FnMut(&mut [u8]), Failure> {
        let seed: [u8; 32] = self.random()?;
        let mut block: u64 = 0;
        Ok(move |out: &mut [u8]| {
            for chunk in out.chunks_mut(32) {
                // BLAKE3(seed || counter)
                let mut input = seed.to_vec();
                input.extend(block.to_be_bytes());
                block += 1;
                chunk.copy_from_slice(&object_id(&input).as_bytes()[..chunk.len()]);
            }
        })
    }

    /// Returns the same surroundings at a later time: after a command of the user has run.
    pub(crate) fn later(&self) -> Self {
        Self { now: super::clock(), ..self.clone() }
    }

    /// Returns the rank of this process in a distributed job.
    pub(crate) fn rank(&self) -> Option<u32> {
        ["LEDGER_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]
            .iter()
            .find_map(|name| self.var(name)?.trim().parse().ok())
    }

    /// Returns what to do when recording fails.
    pub(crate) fn mode(&self) -> Result<Mode, Failure> {
        match self.filled("LEDGER_MODE") {
            None | Some("enforce") => Ok(Mode::Enforce),
            Some("warn") => Ok(Mode::Warn),
            Some("off") => Ok(Mode::Off),
            Some(other) => Err(Failure::usage(format!("`LEDGER_MODE` is `{other}`"))
                .fact("it may be `enforce`, `warn` or `off`")),
        }
    }

    /// Reads the nearest `ledger.toml`; without one everything is empty and the ledger's directory is the root.
    pub(crate) fn project(&self, ledger: &Ledger) -> Result<Project, Failure> {
        let nearest = self.cwd.ancestors().find(|dir| dir.join(PROJECT_FILE).exists());
        match nearest {
            Some(root) => Project::read(root),
            None => Ok(Project { root: self.path(ledger.project()), ..Project::default() }),
        }
    }

    /// Returns the trusted ledgers: those of the flag or of `LEDGER_TRUST`, else the user's and the site's.
    pub(crate) fn trust(&self, flag: Option<&str>) -> Result<Trust, Failure> {
        if let Some(given) = flag.or_else(|| self.filled("LEDGER_TRUST")) {
            let origin = if flag.is_some() { "--trust" } else { "LEDGER_TRUST" };
            if let Ok(id) = LedgerId::from_hex(given) {
                let ledgers = vec![TrustedLedger { id, name: None, min_head: None }];
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

/// Writes text as TOML does.
pub(crate) fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Writes a path so that a shell reads it as one word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@,+-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The disk of the user's own files.
pub(crate) fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Returns the keys of a key file by thumbprint: author, then log.
pub(crate) fn thumbprints(key: &KeyFile) -> (KeyId, Option<KeyId>) {
    (key.author().public().thumbprint(), key.log().map(|log| log.public().thumbprint()))
}

fn read_trust(path: &Path) -> Result<Option<Vec<TrustedLedger>>, Failure> {
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
        Ok(TrustedLedger { id, name: entry.name, min_head: entry.min_head })
    };
    file.ledger.into_iter().map(ledger).collect::<Result<_, Failure>>().map(Some)
}

fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let Some(bytes) = outside::read(path, MAX_SETTINGS)? else { return Ok(None) };
    let shown = path.display();
    let bad = |message: String| Failure::new("bad-config", Exit::Usage, message);
    let text = String::from_utf8(bytes).map_err(|_| bad(format!("`{shown}` is not UTF-8")))?;
    toml::from_str(&text).map(Some).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        bad(format!("`{shown}` line {line}: {}", error.message().trim_end().replace('\n', "; ")))
            .hint(format!("correct line {line} of {}", quoted(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::ui::Style;
    use super::*;

    fn context(cwd: &Path, vars: &[(&str, &str)]) -> Context {
        Context {
            ui: Ui::new(Style { is_quiet: true, ..Style::default() }),
            cwd: cwd.to_owned(),
            vars: vars.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            now: 0,
            lock_wait: Duration::from_secs(1),
        }
    }

    #[test]
    fn directories_follow_xdg_and_are_absolute() {
        let cwd = Path::new("/");
        let none = context(cwd, &[]);
        assert_eq!(none.config_dir(), None);
        assert_eq!(none.home().state, None);
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().to_str().unwrap();
        let home = context(cwd, &[("HOME", there), ("XDG_CACHE_HOME", "relative")]);
        assert_eq!(home.config_dir(), Some(dir.path().join(".config/ledger")));
        assert_eq!(home.home().state, Some(dir.path().join(".local/state/ledger")));
        assert_eq!(home.home().cache, Some(dir.path().join(".cache/ledger")));
        let gone = dir.path().join("gone");
        assert_eq!(context(cwd, &[("HOME", gone.to_str().unwrap())]).config_dir(), None);
        let xdg = context(cwd, &[("HOME", there), ("XDG_CONFIG_HOME", "/c")]);
        assert_eq!(xdg.config_dir(), Some("/c/ledger".into()));
        assert_eq!(context(cwd, &[("HOME", "")]).config_dir(), None);
    }

    #[test]
    fn the_first_rank_that_is_a_number_counts() {
        let rank = |vars| context(Path::new("/"), vars).rank();
        assert_eq!(rank(&[]), None);
        assert_eq!(rank(&[("RANK", "3"), ("SLURM_PROCID", "5")]), Some(3));
        assert_eq!(rank(&[("LEDGER_RANK", ""), ("PMI_RANK", "7")]), Some(7));
        assert_eq!(rank(&[("RANK", "-1")]), None);
    }

    #[test]
    fn a_pin_is_added_once_and_leaves_the_rest_alone() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().to_str().unwrap();
        let context = context(dir.path(), &[("XDG_CONFIG_HOME", text)]);
        let (one, two) = (LedgerId::from_bytes([1; 32]), LedgerId::from_bytes([2; 32]));
        let path = context.pin(one, Some("the \"lab\"")).unwrap();
        let first = std::fs::read_to_string(&path).unwrap() + "# mine";
        outside::replace(&disk(), &path, first.as_bytes(), 0o600).unwrap();
        context.pin(one, None).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        context.pin(two, None).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&first));
        let trust = context.trust(None).unwrap();
        assert_eq!(trust.find(one).unwrap().name.as_deref(), Some("the \"lab\""));
        assert!(trust.find(two).is_some());
        assert!(trust.find(LedgerId::from_bytes([3; 32])).is_none());
        assert_eq!(context.trust(Some(&two.to_hex())).unwrap().ledgers.len(), 1);
        assert_eq!(context.trust(Some("nowhere")).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_wrong_trust_file_is_an_error_and_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.toml");
        let context = context(dir.path(), &[]);
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

    #[test]
    fn an_unknown_key_of_the_project_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PROJECT_FILE);
        outside::replace(&disk(), &path, b"study = \"s\"\nconfigs = []\n", 0o600).unwrap();
        let failure = Project::read(dir.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("line 2"), "{}", failure.message);
        assert!(failure.message.contains("`configs`"), "{}", failure.message);
    }

    #[test]
    fn the_example_project_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits");
        let project = Project::read(&root).unwrap();
        assert_eq!(project.config, [Path::new("config.yaml")]);
        assert_eq!(project.data, [("train".to_owned(), "digits.csv".to_owned())].into());
        assert_eq!(project.lock.as_deref(), Some(Path::new("requirements.lock")));
        assert_eq!(project.study.as_deref(), Some("digits"));
        assert_eq!((project.seed, project.base.len(), project.out), (None, 0, None));
    }

    #[test]
    fn a_path_is_quoted_for_the_shell_when_it_must_be() {
        assert_eq!(quoted(Path::new("/a/b-c.key")), "/a/b-c.key");
        assert_eq!(quoted(Path::new("a b")), "'a b'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
    }
}
