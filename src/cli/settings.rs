//! What a command finds around it: directory, variables, clock, `ledger.toml`.
//!
//! Nothing is read before a command asks for it. Keys are read in `keyring.rs`, and never come from `ledger.toml`
//! or from the directory under test. Whom the user trusts is read in `trust.rs`; printing is in `ui.rs`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;

use crate::durable::{Disk, RealDisk, outside};
use crate::id::object_id;
use crate::ledger::{Home, Ledger, Outcome};
use crate::log::sealed::Passphrase;
use crate::state::Standing;

use super::error::Failure;
use super::ui::{Answer, Exit, Ui};

/// Name of the project's settings.
pub(crate) const PROJECT_FILE: &str = "ledger.toml";
/// Settings and trust files are not larger than this.
pub(super) const MAX_SETTINGS: usize = 1 << 20;

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
    /// The key file that a flag named.
    pub(crate) key_flag: Option<PathBuf>,
    /// The passphrase file that a flag named.
    pub(crate) passphrase_flag: Option<PathBuf>,
    /// What was typed at a prompt of this command.
    pub(crate) typed: Arc<Mutex<Option<Passphrase>>>,
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

impl Context {
    /// Surroundings of a test: a directory and a few variables.
    #[cfg(test)]
    pub(super) fn of_test(cwd: &Path, vars: &[(&str, &str)]) -> Self {
        use super::ui::Style;
        Self {
            ui: Ui::new(Style { is_quiet: true, ..Style::default() }),
            cwd: cwd.to_owned(),
            vars: vars.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            now: 0,
            lock_wait: Duration::from_secs(1),
            key_flag: None,
            passphrase_flag: None,
            typed: Arc::default(),
        }
    }

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

    /// Opens the ledger, with all that was kept of its folded state read and checked.
    pub(crate) fn open(&self) -> Result<Ledger, Failure> {
        let ledger = Ledger::open(&self.locate()?, self.home())?;
        Ok(self.settled(ledger))
    }

    /// Opens the ledger to answer a question, reading no more of the State file than the answer needs.
    ///
    /// Should that file be damaged where the answer looked, the question is answered again from a whole fold.
    pub(crate) fn ask(&self, answer: impl Fn(&Ledger) -> Result<Answer, Failure>) -> Result<Answer, Failure> {
        let ledger = self.settled(Ledger::open_to_ask(&self.locate()?, self.home())?);
        let answered = answer(&ledger);
        if ledger.state().is_sound() {
            return answered;
        }
        self.ui.verbose(1, "note: the folded state that was kept is damaged; folding the log anew");
        answer(&self.open()?)
    }

    /// Tells what became of statements of this user that were queued.
    fn settled(&self, mut ledger: Ledger) -> Ledger {
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
        ledger
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
        let mut filled = 0;
        while filled < N {
            let flags = rustix::rand::GetRandomFlags::empty();
            match rustix::rand::getrandom(&mut bytes[filled..], flags) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(
                        Failure::new("io", Exit::Busy, "the system gives no random bytes").because(error)
                    );
                }
            }
        }
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

    /// Returns the same surroundings with one more variable, as a child would have it.
    pub(crate) fn with_var(&self, name: &str, value: &OsStr) -> Self {
        let mut other = self.clone();
        other.vars.retain(|(known, _)| known != name);
        other.vars.push((name.into(), value.to_owned()));
        other
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

/// Writes a command so that a shell reads it as these words.
pub(crate) fn shell<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")
}

/// The disk of the user's own files.
pub(crate) fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Reads a file of settings; `None` where there is none.
pub(super) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
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
    use super::*;

    #[test]
    fn directories_follow_xdg_and_are_absolute() {
        let cwd = Path::new("/");
        let none = Context::of_test(cwd, &[]);
        assert_eq!(none.config_dir(), None);
        assert_eq!(none.home().state, None);
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().to_str().unwrap();
        let home = Context::of_test(cwd, &[("HOME", there), ("XDG_CACHE_HOME", "relative")]);
        assert_eq!(home.config_dir(), Some(dir.path().join(".config/ledger")));
        assert_eq!(home.home().state, Some(dir.path().join(".local/state/ledger")));
        assert_eq!(home.home().cache, Some(dir.path().join(".cache/ledger")));
        let gone = dir.path().join("gone");
        assert_eq!(Context::of_test(cwd, &[("HOME", gone.to_str().unwrap())]).config_dir(), None);
        let xdg = Context::of_test(cwd, &[("HOME", there), ("XDG_CONFIG_HOME", "/c")]);
        assert_eq!(xdg.config_dir(), Some("/c/ledger".into()));
        assert_eq!(Context::of_test(cwd, &[("HOME", "")]).config_dir(), None);
    }

    #[test]
    fn the_first_rank_that_is_a_number_counts() {
        let rank = |vars| Context::of_test(Path::new("/"), vars).rank();
        assert_eq!(rank(&[]), None);
        assert_eq!(rank(&[("RANK", "3"), ("SLURM_PROCID", "5")]), Some(3));
        assert_eq!(rank(&[("LEDGER_RANK", ""), ("PMI_RANK", "7")]), Some(7));
        assert_eq!(rank(&[("RANK", "-1")]), None);
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
