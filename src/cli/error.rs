//! What people are told when something fails: slug, exit code, wording and hint.
//!
//! This is the only place that chooses them for errors of the library; commands make a [`Failure`] of their own
//! only for what they find themselves. Printing is in `ui.rs`.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::acts;
use crate::capture::dataset::Pointer;
use crate::capture::{code, config, environment, results, safetensors, walk, weights};
use crate::contract;
use crate::ledger::ResolveError;
use crate::log::{files, key, note, sealed, statement};
use crate::state::Reason;
use crate::{backup, codec, diff, durable, fsck, id, ledger, model, store, verify};

use super::settings::{quoted, shell};
use super::ui::{Exit, size};

/// A command's failure, as people read it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// A stable word that names the kind of failure.
    pub(crate) slug: &'static str,
    /// The exit code.
    pub(crate) exit: Exit,
    /// One sentence without a period.
    pub(crate) message: String,
    /// Aligned lines.
    pub(crate) facts: Vec<String>,
    /// A command that works when pasted.
    pub(crate) hint: Option<String>,
    /// What led to it.
    pub(crate) cause: Option<Box<dyn StdError>>,
}

impl Failure {
    /// Makes a failure of a command's own.
    pub(crate) fn new(slug: &'static str, exit: Exit, message: impl Into<String>) -> Self {
        Self { slug, exit, message: message.into(), facts: Vec::new(), hint: None, cause: None }
    }

    /// Adds a line of facts.
    pub(crate) fn fact(mut self, fact: impl Into<String>) -> Self {
        self.facts.push(fact.into());
        self
    }

    /// Sets the command that helps.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets what led to it.
    pub(crate) fn because(mut self, cause: impl StdError + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// Wrong usage that clap cannot see.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", Exit::Usage, message)
    }

    /// A system call that failed on a user's path; `step` is a verb.
    pub(crate) fn io(step: &str, path: &Path, source: io::Error) -> Self {
        let slug = if source.kind() == io::ErrorKind::StorageFull { "disk-full" } else { "io" };
        Self::new(slug, Exit::Busy, format!("cannot {step} `{}`", path.display())).because(source)
    }

    /// Standard output could not be written.
    pub(super) fn stdout(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Self::new("closed-pipe", Exit::ClosedPipe, "nobody reads"),
            io::ErrorKind::StorageFull => {
                Self::new("disk-full", Exit::Busy, "no space is left for the answer").because(source)
            }
            _ => Self::new("not-writable", Exit::Busy, "the answer cannot be written").because(source),
        }
    }

    /// Returns the causes as texts, without those that the message has said already.
    pub(super) fn causes(&self) -> Vec<String> {
        let mut said = vec![self.message.clone()];
        let mut next: Option<&dyn StdError> = self.cause.as_deref();
        while let Some(cause) = next {
            let text = cause.to_string();
            if said.last() != Some(&text) {
                said.push(text);
            }
            next = cause.source();
        }
        said.split_off(1)
    }

    /// Returns the document that `--json` prints.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "schema": "ledger.error/1",
            "ok": false,
            "exit": self.exit as i32,
            "findings": [{
                "kind": self.slug,
                "id": null,
                "severity": "fail",
                "at": null,
                "message": self.message,
                "hint": self.hint,
                "facts": self.facts,
                "causes": self.causes(),
            }],
        })
    }
}

/// Slug, exit code and hint of one kind of library error.
type Class = (&'static str, Exit, Option<&'static str>);

const DAMAGED: Class = ("damaged", Exit::Damaged, Some("ledger fsck"));
const PARENT: Class = (
    "damaged",
    Exit::Damaged,
    Some("copy `.ledger/parents` back from a backup, and look again: ledger fsck"),
);
const BUG: Class = ("bug", Exit::Bug, None);
const BAD_DATA: Class =
    ("bad-data", Exit::Usage, Some("name what can be read, and look first: ledger freeze --dry-run"));
const BAD_CONFIG: Class =
    ("bad-config", Exit::Usage, Some("correct the file, and look first: ledger freeze --dry-run"));
const BUSY_READING: Class = ("io", Exit::Busy, Some("look at the path and who may read it: ls -ld PATH"));
const CHANGED: Class =
    ("changed-while-read", Exit::Busy, Some("give the command again when nothing writes there"));
const REFUSED: Class = ("refused", Exit::Refused, Some("see what your key may state: ledger key show"));
const TOO_MUCH: Class =
    ("refused", Exit::Refused, Some("name fewer things at once: a directory counts as one"));
const BUSY: Class = ("busy", Exit::Busy, Some("give the command again, or wait longer: --lock-timeout 120"));
const NOT_WRITABLE: Class = ("not-writable", Exit::Busy, Some("see who may write here: ls -ld .ledger"));
const ENDED: Class = ("already-ended", Exit::Refused, Some("see how: ledger log RUN"));
const NEWER: Class =
    ("newer-format", Exit::Unknown, Some("use a newer program than this one: ledger --version"));
const FULL: Class = ("disk-full", Exit::Busy, Some("free some space and give the command again: df -h ."));
const NO_SUCH_ID: Class = ("no-such-id", Exit::Unknown, Some("ledger log"));

fn of_ledger(error: &ledger::Error) -> Class {
    use ledger::Error;
    match error {
        Error::NotALedger { .. } => NOT_A_LEDGER,
        Error::Format { found, .. } if !found.starts_with("ledger-format/") => DAMAGED,
        Error::Format { .. } | Error::Rules { .. } => NEWER,
        Error::Copied { .. } => (
            "copy",
            Exit::Refused,
            Some("write where this was copied from; if that is gone for good: ledger adopt"),
        ),
        Error::Behind { .. } => {
            ("behind", Exit::Unknown, Some("bring back the newest copy of this ledger's directory"))
        }
        Error::Fork { .. } => {
            ("fork", Exit::Damaged, Some("ask an owner which log is the right one: ledger head"))
        }
        Error::Parent { source, .. } => match of_ledger(source) {
            class @ (_, Exit::Busy, _) => class,
            _ => PARENT,
        },
        Error::HalfForked { .. } => ("half-forked", Exit::Refused, Some("finish it: ledger init --fork")),
        Error::Replaced { .. } => {
            ("replaced", Exit::Refused, Some("give the command again, in the ledger that stands here now"))
        }
        Error::Files(error) => of_files(error),
        Error::Store(error) => of_store(error),
        Error::Disk(error) => of_disk(error),
        Error::Statement(error) => of_statement(error),
        Error::Encode(model::Error::Encoding(codec::Error::TooLarge { .. })) => REFUSED,
        Error::Encode(_) => BUG,
        Error::Stuck { source, .. } => of_ledger(source),
        Error::Refused { reason } => match reason {
            Reason::LostRace => ("lost-race", Exit::Refused, Some("see what was said meanwhile: ledger log")),
            Reason::AlreadyEnded => ENDED,
            _ => REFUSED,
        },
        Error::NoSuchHead { .. } | Error::RetiredHead { .. } => {
            ("no-head", Exit::Unknown, Some("prove it under the newest head: leave out --at"))
        }
        Error::NoReceipt { .. } => {
            ("no-receipt", Exit::Unknown, Some("leave out --receipt: the text form needs none"))
        }
        Error::UnknownKey { .. } => ("unknown-key", Exit::Unknown, Some("ledger key show --request")),
        _ => DAMAGED,
    }
}

const NOT_A_LEDGER: Class = ("not-a-ledger", Exit::Unknown, Some("ledger init"));

fn of_disk(error: &durable::Error) -> Class {
    use durable::Error;
    match error {
        Error::Full { .. } => FULL,
        Error::Busy { .. } => BUSY,
        Error::Exists { .. } => ("exists", Exit::Refused, Some("choose another name")),
        Error::NotWritable { .. } | Error::Sync { .. } | Error::Lacks { .. } => NOT_WRITABLE,
        Error::NotReadable { .. } | Error::Io { .. } => BUSY_READING,
        Error::NotPlain { .. } => BUG,
        _ => DAMAGED,
    }
}

fn of_files(error: &files::Error) -> Class {
    match error {
        files::Error::Disk(error) => of_disk(error),
        _ => DAMAGED,
    }
}

fn of_store(error: &store::Error) -> Class {
    match error {
        store::Error::Disk(error) => of_disk(error),
        store::Error::Missing { .. } => NO_SUCH_ID,
        store::Error::Write(source) if source.kind() == io::ErrorKind::BrokenPipe => {
            ("closed-pipe", Exit::ClosedPipe, None)
        }
        store::Error::Write(_) => NOT_WRITABLE,
        store::Error::Read(_) => BUSY_READING,
        _ => DAMAGED,
    }
}

fn of_statement(error: &statement::Error) -> Class {
    match error {
        statement::Error::TooLarge { .. } | statement::Error::TooManyLinks { .. } => TOO_MUCH,
        _ => BUG,
    }
}

fn of_sealed(error: &sealed::Error) -> Class {
    match error {
        sealed::Error::Algorithm { .. } => (
            "not-ed25519",
            Exit::Usage,
            Some("make one that can be used: ssh-keygen -t ed25519 -f FILE, or ledger key new"),
        ),
        sealed::Error::Form => (
            "bad-data",
            Exit::Usage,
            Some("name the private key, not the public one; or make a new key: ledger key new"),
        ),
        sealed::Error::WrongPassphrase => ("wrong-passphrase", Exit::Unknown, None),
        sealed::Error::Sealed => ("locked-key", Exit::Unknown, None),
        _ => ("bad-data", Exit::Usage, None),
    }
}

fn of_resolve(error: &ResolveError) -> Class {
    match error {
        ResolveError::Nothing(_) => NO_SUCH_ID,
        ResolveError::Ambiguous { .. } => ("ambiguous", Exit::Usage, None),
        ResolveError::Ledger(error) => of_ledger(error),
        _ => ("usage", Exit::Usage, None),
    }
}

fn of_walk(error: &walk::Error) -> Class {
    match error {
        walk::Error::Io { source, .. }
            if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) =>
        {
            BAD_DATA
        }
        walk::Error::Io { .. } => BUSY_READING,
        walk::Error::Changed { .. } => CHANGED,
        walk::Error::NotSeen { .. } => BUG,
        _ => BAD_DATA,
    }
}

fn of_weights(error: &weights::Error) -> Class {
    match error {
        weights::Error::Open(error) => of_walk(error),
        weights::Error::Read { .. } => BUSY_READING,
        weights::Error::Changed { .. } => CHANGED,
    }
}

fn of_acts(error: &acts::Error) -> Class {
    use acts::Error;
    match error {
        Error::Ledger(error) => of_ledger(error),
        Error::Config(_)
        | Error::Lock(_)
        | Error::UnknownFormat { .. }
        | Error::Unresolved { .. }
        | Error::Multirun { .. } => BAD_CONFIG,
        Error::Walk(error) => of_walk(error),
        Error::Weights(error) => of_weights(error),
        Error::Code(_) => BAD_DATA,
        Error::Results { source, .. } | Error::Joined(source) => of_results(source),
        Error::ClaimsOnly { .. } => (
            "claims-only",
            Exit::Refused,
            Some("claims are imported from a file of their own: ledger record eval README.md --subject DIR"),
        ),
        Error::Read { source, .. }
            if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) =>
        {
            BAD_DATA
        }
        Error::Read { .. } => BUSY_READING,
        Error::Pointer { .. } | Error::NotFetched { .. } => ("pointer", Exit::Refused, None),
        Error::Secret { .. } => (
            "secret",
            Exit::Refused,
            Some("take it out, read it from the environment instead, and replace it if anybody saw it"),
        ),
        Error::DirtyTree { .. } => ("dirty-tree", Exit::Refused, None),
        Error::Drift { .. } => ("frozen-drift", Exit::Refused, None),
        Error::NotAvailable { .. } => {
            ("not-recorded", Exit::Unknown, Some("bring back what is missing, or freeze anew: ledger freeze"))
        }
        Error::Completed { .. } => ("completed", Exit::Refused, None),
        Error::NoAttempt { .. } => ("not-started", Exit::Refused, None),
        Error::EndedOtherwise { .. } => ENDED,
        Error::NameHeld { .. } => ("name-held", Exit::Refused, Some("choose another name: --name NAME")),
        Error::Incomplete { .. } => ("incomplete-checkpoint", Exit::Unknown, None),
        Error::WhichRun { .. } => ("which-run", Exit::Usage, None),
        Error::SubjectChanged { .. } => ("subject-changed", Exit::Refused, None),
    }
}

impl From<verify::Error> for Failure {
    fn from(error: verify::Error) -> Self {
        match error {
            verify::Error::Walk(error) => error.into(),
            verify::Error::Weights(error) => error.into(),
            verify::Error::Ledger(error) => error.into(),
        }
    }
}

impl From<diff::Error> for Failure {
    fn from(error: diff::Error) -> Self {
        match error {
            diff::Error::Walk(error) => error.into(),
            diff::Error::Weights(error) => error.into(),
            diff::Error::Ledger(error) => error.into(),
            diff::Error::Acts(error) => error.into(),
            diff::Error::Kind { .. } | diff::Error::Mixed => {
                Self::usage(error.to_string()).hint("ledger diff --help")
            }
        }
    }
}

impl From<backup::Error> for Failure {
    fn from(error: backup::Error) -> Self {
        use backup::Error;
        let message = error.to_string();
        let told = |slug, exit, hint: &str| Self::new(slug, exit, message.clone()).hint(hint);
        match error {
            Error::Ledger(error) => error.into(),
            Error::Unusable { source, .. } => {
                told("exists", Exit::Refused, "leave it as it is, and name another directory").because(source)
            }
            Error::Itself { .. } => {
                told("usage", Exit::Usage, "name a directory elsewhere, better on another disk")
            }
            Error::NotABackup { .. } => told("exists", Exit::Refused, "name another directory"),
            Error::Foreign { found, .. } => {
                told("exists", Exit::Refused, "give each ledger a directory of its own")
                    .fact(format!("ledger  {found}"))
            }
            Error::Newer { .. } => told(
                "behind",
                Exit::Unknown,
                "statements are lost here: restore the backup, or ask who changed this ledger",
            ),
            Error::Fork { here, backup, .. } => told(
                "fork",
                Exit::Damaged,
                "keep both, and ask an owner which log is the right one: ledger head",
            )
            .fact(format!("here    {here}"))
            .fact(format!("backup  {backup}")),
        }
    }
}

impl From<fsck::Error> for Failure {
    fn from(error: fsck::Error) -> Self {
        match error {
            fsck::Error::Ledger(error) => error.into(),
            fsck::Error::Disk(error) => error.into(),
        }
    }
}

impl From<acts::Error> for Failure {
    fn from(error: acts::Error) -> Self {
        if let acts::Error::Ledger(error) = error {
            return error.into();
        }
        let (slug, exit, hint) = of_acts(&error);
        let mut failure = Self::new(slug, exit, error.to_string());
        failure.hint = hint.map(str::to_owned);
        match &error {
            acts::Error::DirtyTree { files, diff, .. } => {
                let shown = files.iter().take(8).map(|(path, change)| format!("{change} {path}"));
                failure.facts.extend(shown);
                failure.facts.extend((files.len() > 8).then(|| format!("and {} more", files.len() - 8)));
                failure = failure.hint(format!(
                    "commit them, or freeze with --allow-dirty: the diff ({}) is then stored",
                    size(*diff as u64)
                ));
            }
            acts::Error::Drift { run, differences, same } => {
                let wide = |of: fn(&acts::Difference) -> usize| differences.iter().map(of).max().unwrap_or(0);
                let (part, path) = (wide(|d| d.part.len()).max("same".len()), wide(|d| d.path.len()));
                for d in differences {
                    // Whole parts have no path in them; then there is no column for one.
                    let path = if path == 0 { String::new() } else { format!("{:<path$}  ", d.path) };
                    failure.facts.push(format!("{:<part$}  {path}{} -> {}", d.part, d.frozen, d.found));
                }
                if !same.is_empty() {
                    failure.facts.push(format!("{:<part$}  {}", "same", same.join(", ")));
                }
                let short = run.short();
                failure = failure.hint(format!(
                    "restore what differs, or make a new run: ledger freeze --from {short} [-- CMD...]"
                ));
            }
            acts::Error::Unresolved { what, job } => {
                if let config::Problem::Unresolved(found) = &what.problem {
                    let wide = found.iter().take(SHOWN).map(|value| value.path.len()).max().unwrap_or(0);
                    let lines = found.iter().take(SHOWN);
                    failure.facts.extend(lines.map(|value| format!("{:<wide$}  {}", value.path, value.text)));
                    failure
                        .facts
                        .extend((found.len() > SHOWN).then(|| format!("and {} more", found.len() - SHOWN)));
                }
                failure = failure.hint(resolving(job.as_deref()));
            }
            acts::Error::Multirun { jobs, .. } => {
                failure.facts.extend(jobs.iter().take(SHOWN).map(|job| job.display().to_string()));
                failure
                    .facts
                    .extend((jobs.len() > SHOWN).then(|| format!("and {} more", jobs.len() - SHOWN)));
                let first = jobs.first().map_or("JOB".to_owned(), |job| quoted(job));
                failure = failure.hint(format!("freeze one run for each job: ledger freeze -c {first}"));
            }
            acts::Error::Pointer { pointers } => {
                failure.facts.extend(pointers.iter().take(SHOWN).map(pointer_fact));
                failure.hint = pointers.first().map(fetching);
            }
            acts::Error::Secret { found, .. } => failure.facts.extend(found.iter().cloned()),
            acts::Error::Read { path, .. } => {
                failure = failure.hint(format!("ls -l {}", super::settings::quoted(path)));
            }
            acts::Error::Completed { run } => {
                failure = failure.hint(format!("ledger start {} --again", run.short()));
            }
            acts::Error::EndedOtherwise { run, .. } => {
                failure = failure.hint(format!("ledger show {}", run.short()));
            }
            acts::Error::NoAttempt { run } => failure = failure.hint(format!("ledger start {}", run.short())),
            acts::Error::Incomplete { problems, .. } => {
                failure.facts.extend(problems.iter().cloned());
                failure = failure.hint("wait until it is written, or write it again");
            }
            acts::Error::NotFetched { problems, fetch, .. } => {
                failure.facts.extend(problems.iter().cloned());
                failure = failure.hint(*fetch);
            }
            acts::Error::WhichRun { path } => {
                failure.facts.push("`--run none` is for weights that no run here wrote".to_owned());
                failure = failure.hint(format!("ledger record checkpoint {} --run RUN", quoted(path)));
            }
            acts::Error::SubjectChanged { before, after } => {
                failure.facts.push(format!("before  weights {before}"));
                failure.facts.push(format!("after   weights {after}"));
                failure = failure.hint("evaluate a copy that nothing writes to");
            }
            acts::Error::UnknownFormat { .. } => {
                failure = failure.hint("name it .json, .yaml, .yml or .toml");
            }
            _ => {}
        }
        failure.because(error)
    }
}

/// How many of several findings are shown.
const SHOWN: usize = 8;

/// Says how to get a config whose values are all final.
fn resolving(job: Option<&config::hydra::Job>) -> String {
    let Some(job) = job else {
        return "resolve it first: OmegaConf.save(cfg, 'resolved.yaml', resolve=True); or fill values in with --set K=V"
            .to_owned();
    };
    let app = job.app.as_deref().map_or("APP.py".to_owned(), |app| format!("{app}.py"));
    let words = ["python", &app].into_iter().chain(job.overrides.iter().map(String::as_str));
    let command = shell(words.chain(["--cfg", "job", "--resolve"]));
    format!("let Hydra resolve it, then freeze with -c resolved.yaml: {command} > resolved.yaml")
}

fn pointer_fact(pointer: &Pointer) -> String {
    match pointer {
        Pointer::Lfs { path, oid, size } => format!("{}  sha256:{oid}, {size} bytes", path.display()),
        Pointer::Dvc { path, out, .. } => format!("{}  stands for {}", path.display(), out.display()),
        Pointer::Annex { path } => path.display().to_string(),
    }
}

/// Says how to get what a pointer stands for.
fn fetching(pointer: &Pointer) -> String {
    match pointer {
        Pointer::Lfs { path, .. } => format!("fetch it: git lfs pull --include {}", quoted(path)),
        Pointer::Dvc { out, is_there: true, .. } => format!("name the data itself: {}", quoted(out)),
        Pointer::Dvc { path, .. } => format!("fetch it: dvc pull {}", quoted(path)),
        Pointer::Annex { path } => format!("fetch it: git annex get {}", quoted(path)),
    }
}

impl From<contract::Error> for Failure {
    fn from(error: contract::Error) -> Self {
        use contract::Error;
        let mut failure = Self::new("bad-expression", Exit::Usage, error.to_string());
        match &error {
            Error::UnknownField { known, .. } => {
                failure = failure.fact(format!("fields     {}", known.join("  ")));
            }
            Error::UnknownFunction { known, .. } => {
                failure = failure.fact(format!("functions  {}", known.join("  ")));
            }
            Error::Syntax { said } => failure.facts.extend(said.lines().map(str::to_owned)),
            _ => {}
        }
        failure.hint("ledger ls -h")
    }
}

fn of_results(error: &results::Error) -> Class {
    use results::Error;
    match error {
        Error::NoResults { .. } => (
            "no-results",
            Exit::Unknown,
            Some("an evaluation that failed found nothing: run it again, and record that"),
        ),
        Error::Conflict { .. } => {
            ("bad-data", Exit::Usage, Some("record them one at a time, or name the file that is meant"))
        }
        Error::TooLarge { .. } | Error::TooMany { .. } => (
            "bad-data",
            Exit::Usage,
            Some("leave out what is no result, as samples; for Inspect: inspect log dump --header-only FILE"),
        ),
        Error::NoneInFolder { .. } => (
            "bad-data",
            Exit::Usage,
            Some("name the files themselves: ledger record eval FILE --subject DIR"),
        ),
        Error::NoSuchPath { .. } | Error::NotANumber { .. } | Error::TwoRows { .. } => (
            "bad-data",
            Exit::Usage,
            Some(
                "name the place of a number: --metric accuracy=results.acc; in a table --metric accuracy=ROW.COLUMN",
            ),
        ),
        _ => ("bad-data", Exit::Usage, Some("look at what the harness wrote, or name another file")),
    }
}

fn of_safetensors(error: &safetensors::Error) -> Class {
    match error {
        safetensors::Error::Open(error) => of_walk(error),
        safetensors::Error::Read(_) => BUSY_READING,
        safetensors::Error::Damage(_) => BAD_DATA,
    }
}

macro_rules! classed {
    ($($error:ty => $class:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let class: fn(&$error) -> Class = $class;
                let (slug, exit, hint) = class(&error);
                let mut failure = Self::new(slug, exit, error.to_string()).because(error);
                failure.hint = hint.map(str::to_owned);
                failure
            }
        }
    )*};
}

classed! {
    durable::Error => of_disk;
    store::Error => of_store;
    files::Error => of_files;
    statement::Error => of_statement;
    note::Error => |_| DAMAGED;
    model::Error => |_| DAMAGED;
    model::FactsError => |_| DAMAGED;
    model::content::Error => |_| DAMAGED;
    codec::Error => |_| DAMAGED;
    id::Error => |_| ("usage", Exit::Usage, None);
    key::Error => |_| ("no-key", Exit::Unknown, None);
    sealed::Error => of_sealed;
    walk::Error => of_walk;
    weights::Error => of_weights;
    safetensors::Error => of_safetensors;
    config::Error => |_| BAD_CONFIG;
    environment::LockError => |_| BAD_CONFIG;
    results::Error => of_results;
    code::Error => |_| BAD_DATA;
}

impl From<ledger::Error> for Failure {
    fn from(error: ledger::Error) -> Self {
        let (slug, exit, hint) = of_ledger(&error);
        let mut failure = Self::new(slug, exit, error.to_string());
        failure.hint = hint.map(str::to_owned);
        if let ledger::Error::Refused { reason: Reason::RoleNotAllowed } = &error {
            failure.facts.push("the key of this user has no role that may state this".to_owned());
            failure.hint = Some("ledger key show".to_owned());
        }
        if let ledger::Error::Refused { reason: Reason::WouldLockOut } = &error {
            failure.facts.push("nobody could order statements or appoint owners any more".to_owned());
            failure.hint = Some("put new keys in place of the old in one go: ledger key rotate".to_owned());
        }
        failure.because(error)
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let (slug, exit, hint) = of_resolve(&error);
        let mut failure = Self::new(slug, exit, error.to_string());
        failure.hint = hint.map(str::to_owned);
        if let ResolveError::Ambiguous { found, .. } = &error {
            const SHOWN: usize = 8;
            failure.facts = found.iter().take(SHOWN).map(ToString::to_string).collect();
            if found.len() > SHOWN {
                failure.facts.push(format!("and {} more", found.len() - SHOWN));
            }
        }
        failure.because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once_each() {
        let source = io::Error::other("the disk is on fire");
        let error = durable::Error::Io { op: "read", path: "x".into(), source };
        let failure = Failure::from(ledger::Error::from(store::Error::from(error)));
        assert_eq!(failure.message, "the store failed");
        assert_eq!(failure.causes(), ["cannot read `x`", "the disk is on fire"]);
        assert_eq!((failure.slug, failure.exit), ("io", Exit::Busy));
    }

    #[test]
    fn a_closed_pipe_is_known_wherever_it_is_met() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::stdout(closed()).exit, Exit::ClosedPipe);
        assert_eq!(Failure::from(store::Error::Write(closed())).exit, Exit::ClosedPipe);
        assert_eq!(Failure::from(store::Error::Read(closed())).exit, Exit::Busy);
    }
}
