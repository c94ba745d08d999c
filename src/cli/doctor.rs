//! `ledger doctor`: everything around a ledger that can be wrong, looked at and said with a next step.
//!
//! It looks at what a command takes for granted: keys, trust, clock, disk, git, what waits and what is left over.
//! What the files of the ledger say is `ledger fsck`'s. Temporary files aside nothing is written, and what cannot
//! be looked at is a finding too, so that the rest is still said.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::capture::code;
use crate::durable::examine::{Locks, file_system};
use crate::durable::{Durable, Fresh, TMP, fresh};
use crate::ledger::{self, DIR, Ledger};
use crate::model::Role;

use super::error::Failure;
use super::settings::{Context, disk, quoted};
use super::ui::{Answer, Exit, Finding, Severity, count, plain, size, time};
use super::verify::padded;

/// Look at keys, clock, disk, git and what is left over
///
/// Works without a ledger too, and then tells whether one can be made here. Exits with 0 if nothing fails,
/// and with 1 if something does; warnings change nothing. The ledger's own files are checked by `ledger fsck`.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  ledger doctor\n  ledger doctor --json | jq '.findings[] | select(.severity != \"ok\")'"
)]
pub(super) struct Args {}

/// Variables that have a meaning.
const KNOWN: &[&str] = &[
    "LEDGER_ATTEMPT",
    "LEDGER_DIR",
    "LEDGER_KEY",
    "LEDGER_KEY_FILE",
    "LEDGER_LOCK_TIMEOUT",
    "LEDGER_MODE",
    "LEDGER_PASSPHRASE",
    "LEDGER_RANK",
    "LEDGER_RUN",
    "LEDGER_RUN_DIR",
    "LEDGER_TRUST",
];
/// Those whose values are nobody's business.
const SECRET: &[&str] = &["LEDGER_KEY", "LEDGER_PASSPHRASE"];
/// Bytes below which a disk is called nearly full.
const LITTLE: u64 = 1 << 30;
/// Seconds by which clocks may differ without a word.
const SKEW: i64 = 5;
/// Seconds after which what is left over is not in use any more.
const OLD: i64 = 24 * 3600;
/// Of statements before the last one, so many are asked for their times.
const RECENT: u64 = 16;

#[expect(clippy::unnecessary_wraps, reason = "every command answers so")]
pub(super) fn run(_args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mut visit = Visit { context, findings: Vec::new() };
    let ledger = visit.ledger();
    visit.key(ledger.as_ref());
    visit.trust(ledger.as_ref());
    visit.memory(ledger.as_ref());
    visit.disk(ledger.as_ref());
    visit.git();
    if let Some(ledger) = &ledger {
        visit.waiting(ledger);
        visit.left_over(ledger);
    }
    visit.variables();

    let mut answer = Answer::new("ledger.doctor/1");
    let findings = visit.findings;
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (fails, warnings) = (of(Severity::Fail), of(Severity::Warn));
    let width = findings.iter().map(|finding| finding.kind.len()).max().unwrap_or(0);
    for finding in &findings {
        let word = padded(&context.ui, finding.severity);
        answer.line(format!("{word}  {:<width$}  {}", finding.kind, plain(&finding.message)));
        if let Some(hint) = &finding.hint {
            answer.line(format!("{:9}{:width$}  hint: {}", "", "", plain(hint)));
        }
    }
    answer.set("failed", fails);
    answer.set("warnings", warnings);
    answer.set("ledger", ledger.as_ref().map(|ledger| ledger.id().to_hex()));
    answer.findings = findings;
    if fails > 0 {
        answer.exit = Exit::No;
    }
    Ok(answer)
}

/// What has been found so far.
struct Visit<'a> {
    context: &'a Context,
    findings: Vec<Finding>,
}

impl Visit<'_> {
    fn say(&mut self, kind: &str, severity: Severity, message: impl Into<String>, hint: Option<String>) {
        self.findings.push(Finding {
            kind: kind.to_owned(),
            id: None,
            severity,
            at: None,
            message: message.into(),
            hint,
        });
    }

    fn ok(&mut self, kind: &str, message: impl Into<String>) {
        self.say(kind, Severity::Ok, message, None);
    }

    fn warn(&mut self, kind: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.say(kind, Severity::Warn, message, Some(hint.into()));
    }

    fn fail(&mut self, kind: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.say(kind, Severity::Fail, message, Some(hint.into()));
    }

    /// Says what a command would have failed with.
    fn failure(&mut self, kind: &str, severity: Severity, failure: &Failure) {
        let mut message = failure.message.clone();
        for cause in failure.causes() {
            message = format!("{message}: {cause}");
        }
        self.say(kind, severity, message, failure.hint.clone());
    }

    fn ledger(&mut self) -> Option<Ledger> {
        let root = match self.context.locate() {
            Ok(root) => root,
            Err(failure) => {
                self.failure("ledger", Severity::Skip, &failure);
                return None;
            }
        };
        match Ledger::open(&root, self.context.home()) {
            Ok(ledger) => {
                let statements = count(ledger.head().head().size, "statement");
                self.ok("ledger", format!("{} at {}, {statements}", ledger.id(), root.display()));
                if ledger.is_copy() {
                    self.warn(
                        "copy",
                        "this directory is a copy of a ledger and is not written to",
                        "write where it was copied from; if that is gone for good: ledger adopt",
                    );
                }
                Some(ledger)
            }
            Err(error) => {
                self.failure("ledger", Severity::Fail, &error.into());
                None
            }
        }
    }

    fn key(&mut self, ledger: Option<&Ledger>) {
        let key = match self.context.stored_key() {
            Ok(key) => key,
            // Who only reads needs none; one that is there and cannot be used is another matter.
            Err(failure) => {
                let is_absent = failure.message.starts_with("there is no ");
                let severity = if is_absent { Severity::Warn } else { Severity::Fail };
                self.failure("key", severity, &failure);
                return;
            }
        };
        let given = self.context.is_key_in_variable();
        let place = match self.context.key_path() {
            Some(path) if !given => path.display().to_string(),
            _ => "LEDGER_KEY".to_owned(),
        };
        let kept = if key.is_sealed() { "under a passphrase" } else { "without a passphrase" };
        self.ok("key", format!("of {}, in {place}, {kept}", key.name()));
        let folder = self.context.key_path().and_then(|path| path.parent().map(Path::to_owned));
        if let Some(folder) = folder.filter(|folder| !given && is_open(folder)) {
            let hint = format!("chmod go-w {}", quoted(&folder));
            self.fail("key", format!("others may replace files in `{}`", folder.display()), hint);
        }
        let Some(ledger) = ledger else { return };
        let id = key.author().thumbprint();
        match ledger.state().key(id) {
            Some(row) if !row.roles.is_empty() => self.ok("roles", ledger.who(id)),
            Some(_) => self.warn(
                "roles",
                "this ledger has taken all roles from your key, so that you can only read",
                "ledger key ls",
            ),
            None => self.warn(
                "roles",
                "your key is not one of this ledger's, so that you can only read",
                "let an owner add it: ledger key show --request",
            ),
        }
        let log = key.log().and_then(|log| ledger.state().key(log.thumbprint()));
        if log.is_some_and(|row| row.has(Role::Log)) {
            self.ok("log key", "orders what is stated");
        } else {
            self.warn(
                "log key",
                "what you state waits for a writer who has a log key",
                "an owner who has one runs: ledger sequence",
            );
        }
    }

    fn trust(&mut self, ledger: Option<&Ledger>) {
        let trust = match self.context.trust(None) {
            Ok(trust) => trust,
            Err(failure) => return self.failure("trust", Severity::Fail, &failure),
        };
        if let Some(path) = self.context.trust_path().filter(|path| is_open(path)) {
            let hint = format!("chmod go-w {}", quoted(&path));
            self.fail("trust", format!("others may write `{}`", path.display()), hint);
        }
        let known = match trust.ledgers.len() as u64 {
            0 => format!("{}, so no ledger is trusted", trust.source),
            known => format!("{} names {}", trust.source, count(known, "ledger")),
        };
        match ledger {
            Some(ledger) if !trust.ledgers.iter().any(|trusted| trusted.id == ledger.id()) => self.warn(
                "trust",
                format!("{known}, and not this one: `verify` will not decide"),
                format!("ask its owner for the id, compare, and: ledger key trust {}", ledger.id()),
            ),
            _ => self.ok("trust", known),
        }
    }

    fn memory(&mut self, ledger: Option<&Ledger>) {
        let home = self.context.home();
        let (Some(state), Some(cache)) = (&home.state, &home.cache) else {
            return self.warn(
                "memory",
                "there is no home, so no head is remembered and a rolled back log would go unnoticed",
                "XDG_STATE_HOME=DIR XDG_CACHE_HOME=DIR ledger doctor",
            );
        };
        let heads = std::fs::read_dir(state).map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.path().join("head").exists()).count()
        });
        let heads = count(heads as u64, "head");
        let Some(ledger) = ledger else {
            return self.ok("memory", format!("{heads} remembered in {}", state.display()));
        };
        match home.remembered_for(ledger.id()) {
            Some(head) => self
                .ok("memory", format!("{heads} remembered, of this ledger the one of {}", head.head().size)),
            None => self.warn(
                "memory",
                format!("the head of this ledger cannot be kept in `{}`", state.display()),
                format!("ls -ld {}", quoted(state)),
            ),
        }
        for notice in ledger.notices() {
            self.warn("memory", notice.clone(), "XDG_STATE_HOME=DIR XDG_CACHE_HOME=DIR ledger doctor");
        }
        let kept = home.state_path(ledger.id()).and_then(|path| path.metadata().ok());
        let kept = kept.map_or_else(
            || "no state is kept yet; the log is read from its beginning".to_owned(),
            |meta| format!("the state is kept in {} ({})", cache.display(), size(meta.len())),
        );
        self.ok("cache", kept);
    }

    /// Tries the disk under the ledger, or under the directory where one could be made.
    fn disk(&mut self, ledger: Option<&Ledger>) {
        let place = ledger.map_or(self.context.cwd.as_path(), Ledger::root);
        match file_system(place) {
            Ok(found) => {
                let text = format!("{}, {} free of {}", found.kind, size(found.free), size(found.total));
                let shown = quoted(place);
                if found.free == 0 {
                    self.fail("disk", text, format!("free some space: df -h {shown}"));
                } else if found.free < LITTLE {
                    self.warn("disk", text, format!("free some space: df -h {shown}"));
                } else if found.is_network {
                    let hint = "keep a ledger that many write to on a local disk, or make backups often";
                    self.warn("disk", format!("{text}; ledgers on network disks were not tried"), hint);
                } else if found.is_memory {
                    self.warn("disk", format!("{text}; it is gone with the power"), "ledger backup DIR");
                } else {
                    self.ok("disk", text);
                }
            }
            Err(error) => self.failure("disk", Severity::Fail, &error.into()),
        }
        match ledger {
            // A copy is not written to, and whether it could be is nobody's question.
            Some(ledger) if ledger.is_copy() => {}
            Some(ledger) => {
                self.try_out(ledger.durable());
                self.clock(ledger);
            }
            None => match Fresh::begin(&disk(), place, DIR, false) {
                Ok(fresh) => self.try_out(fresh.durable()),
                Err(crate::durable::Error::Exists { .. }) => {}
                Err(error) => self.failure("write", Severity::Fail, &error.into()),
            },
        }
    }

    fn try_out(&mut self, durable: &Durable) {
        match durable.probe() {
            Ok(()) => self.ok("write", "hard links, rename and fsync do what a ledger needs"),
            Err(error @ crate::durable::Error::NotWritable { .. }) => {
                self.failure("write", Severity::Warn, &error.into());
                return;
            }
            Err(error) => {
                self.failure("write", Severity::Fail, &error.into());
                return;
            }
        }
        match durable.try_locks() {
            Ok(Locks::Work) => self.ok("locks", "keep two writers apart"),
            Ok(Locks::None) => self.warn(
                "locks",
                "the file system has none: writers are safe and do work twice",
                "nothing needs to be done where few write",
            ),
            Ok(Locks::Shared) => self.warn(
                "locks",
                "two can hold one at the same time: writers are safe and do work twice",
                "nothing needs to be done where few write",
            ),
            Err(error) => self.failure("locks", Severity::Fail, &error.into()),
        }
        match durable.file_time() {
            Ok(there) => {
                let ahead = seconds(self.context.now) - there;
                let text = format!("{} here, {}", time(self.context.now), apart(ahead, "the disk's"));
                if ahead.abs() <= SKEW {
                    self.ok("clock", text);
                } else {
                    self.warn("clock", text, "set it by a time server: timedatectl status");
                }
            }
            Err(error) => self.failure("clock", Severity::Fail, &error.into()),
        }
    }

    /// Compares the clock with what the last authors wrote: time runs forward.
    fn clock(&mut self, ledger: &Ledger) {
        let from = ledger.places().saturating_sub(RECENT);
        let mut latest = 0;
        let read = ledger.list::<ledger::Error>(from, &mut |listed| {
            latest = listed.claims.iter().map(|claim| claim.time).fold(latest, u64::max);
            Ok(std::ops::ControlFlow::Continue(()))
        });
        let ahead = seconds(latest) - seconds(self.context.now);
        if read.is_ok() && ahead > SKEW {
            self.warn(
                "clock",
                format!("a statement is from {}, {ahead} s after now: a clock is wrong", time(latest)),
                "set it by a time server: timedatectl status",
            );
        }
    }

    fn git(&mut self) {
        match code::git_version() {
            Some(version) => self.ok("git", version),
            None => self.warn(
                "git",
                "there is no git program on PATH: unusual repositories are recorded as unknown",
                "install git, or see what a freeze finds: ledger freeze --dry-run",
            ),
        }
        match code::observe(&self.context.cwd) {
            code::Observed::Git(found) => {
                self.ok("code", format!("commit {}", &found.commit[..found.commit.len().min(12)]));
            }
            code::Observed::None { reason } => {
                self.say("code", Severity::Skip, reason, None);
            }
            code::Observed::Unknown { reason } => {
                let hint = if reason.contains("safe.directory") {
                    format!("git config --global --add safe.directory {}", quoted(&self.context.cwd))
                } else {
                    "git status".to_owned()
                };
                self.warn("code", reason, hint);
            }
        }
    }

    fn waiting(&mut self, ledger: &Ledger) {
        match ledger.pending() {
            Ok(pending) => {
                let waits = pending.iter().filter(|one| ledger.state().statement(one.id).is_none());
                match waits.count() {
                    0 => self.ok("queued", "nothing waits to be ordered"),
                    waiting => self.warn(
                        "queued",
                        format!("{} to be ordered", waits_text(waiting as u64)),
                        "ledger sequence",
                    ),
                }
            }
            Err(error) => self.failure("queued", Severity::Fail, &error.into()),
        }
        match ledger.durable().files_under(Path::new("log/refused")) {
            Ok(refused) if refused.is_empty() => {}
            Ok(refused) => self.warn(
                "refused",
                format!("{} in log/refused can never be ordered", count(refused.len() as u64, "file")),
                "see what they are, and keep or remove them: ledger fsck",
            ),
            Err(error) => self.failure("refused", Severity::Fail, &error.into()),
        }
    }

    fn left_over(&mut self, ledger: &Ledger) {
        for left in fresh::left_behind(ledger.project(), DIR).unwrap_or_default() {
            let text = format!("`{}` is from an `init` or `backup` that was cut short", left.display());
            self.warn("left over", text, format!("if none is running: rm -r {}", quoted(&left)));
        }
        let durable = ledger.durable();
        let age = |name: &OsString| {
            let meta = durable.stat(&Path::new(TMP).join(name)).ok().flatten()?;
            Some(seconds(self.context.now) - meta.modified)
        };
        let entries = durable.list(Path::new(TMP)).unwrap_or_default();
        let ages: Vec<i64> = entries.iter().filter_map(|entry| age(&entry.name)).collect();
        let oldest = ages.iter().copied().max().unwrap_or(0);
        if oldest > OLD {
            let old = ages.iter().filter(|age| **age > OLD).count();
            let text = format!("{} in tmp/, the oldest {} days old", count(old as u64, "file"), oldest / OLD);
            let tmp = quoted(&ledger.root().join(TMP));
            self.warn("left over", text, format!("find {tmp} -mindepth 1 -mtime +0 -delete"));
        } else {
            self.ok("left over", format!("{} in tmp/, none old", count(ages.len() as u64, "file")));
        }
    }

    fn variables(&mut self) {
        let names = self.context.vars.iter().filter_map(|(name, _)| name.to_str());
        let mut set: Vec<String> =
            names.filter(|name| name.starts_with("LEDGER_")).map(str::to_owned).collect();
        set.sort_unstable();
        let (known, strange): (Vec<String>, Vec<String>) =
            set.into_iter().partition(|name| KNOWN.contains(&name.as_str()));
        for name in known {
            // Whoever pastes this answer somewhere must not paste a secret.
            let is_secret = SECRET.contains(&name.as_str());
            let value = if is_secret { "set" } else { self.context.var(&name).unwrap_or("no text") };
            let text = format!("{name}: {value}");
            self.ok("variable", text);
        }
        for name in strange {
            self.warn("variable", format!("{name} means nothing here"), format!("unset {name}"));
        }
    }
}

/// Returns a time in the type that differences are in.
fn seconds(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn waits_text(waiting: u64) -> String {
    format!("{} {}", count(waiting, "statement"), if waiting == 1 { "waits" } else { "wait" })
}

/// Says how far our clock is from another one.
fn apart(ahead: i64, other: &str) -> String {
    if ahead.abs() <= SKEW {
        format!("and {other} agrees")
    } else if ahead > 0 {
        format!("{ahead} s ahead of {other}")
    } else {
        format!("{} s behind {other}", -ahead)
    }
}

/// Whether the group or others may write to a file or directory.
fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o022 != 0)
}
