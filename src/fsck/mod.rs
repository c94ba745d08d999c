//! Checking a whole ledger: every file under it, named when it is not what it must be.
//!
//! Nothing is believed that can be worked out again: objects are hashed, the tree is rebuilt from the statements,
//! the statements are folded from the first one with every signature. It works on a ledger that cannot be opened,
//! and it writes nothing. `objects` looks into the store, `log` into the log's files; what is left over from
//! interrupted work is told and is no damage.

mod heads;
mod log;
mod objects;
mod parents;

use std::path::Path;
use std::sync::Arc;

use crate::codec;
use crate::durable::{self, Disk, Durable};
use crate::id::{StatementId, statement_id};
use crate::ledger::{self, DIR, FORMAT, Ledger, Segment};
use crate::log::Log;
use crate::log::note::SignedHead;
use crate::log::statement::{MAX_STATEMENT, Statement};
use crate::state::State;
use crate::store::{self, Store};
use crate::verify::{Finding, Severity};

/// Why a ledger cannot be checked at all. What is wrong with it is a finding.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no ledger here, or its format is newer than this program, so that nothing can be said of its files.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The disk does not answer.
    #[error(transparent)]
    Disk(#[from] durable::Error),
}

/// What was found, and how much was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What is wrong, and what is left over; nothing in a ledger without blemish.
    pub findings: Vec<Finding>,
    /// Objects that were hashed.
    pub objects: u64,
    /// Statements that were folded.
    pub statements: u64,
    /// Statements that the head covers, with those of parents; nothing where there is no head.
    pub size: u64,
    /// Statements from the first one on that are here with all that they need.
    pub whole: u64,
    /// Bytes that were read from the store.
    pub bytes: u64,
}

impl Report {
    /// Returns what is damaged.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Damaged)
    }

    /// Whether something is damaged.
    pub fn is_damaged(&self) -> bool {
        self.damage().next().is_some()
    }

    /// Returns the exit code that the answer has on a command line.
    pub fn exit(&self) -> u8 {
        if self.is_damaged() { 5 } else { 0 }
    }

    fn damaged(&mut self, slug: &'static str, at: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding::new(Severity::Damaged, slug, text).at(at));
    }

    fn warn(&mut self, slug: &'static str, at: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding::new(Severity::Warn, slug, text).at(at));
    }

    /// Something that interrupted work leaves behind and that nobody needs.
    fn left_over(&mut self, at: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding::new(Severity::Ok, "left-over", text).at(at));
    }
}

/// Looks for everything that the statements of an opened ledger need, in a store that may be another one.
///
/// Objects are not hashed, except records, which are read for what they name.
pub fn lacking(ledger: &Ledger, store: &Store) -> Result<Report, Error> {
    let size = ledger.places();
    let mut report = Report { size, whole: size, ..Report::default() };
    objects::lacking(ledger, store, &mut report)?;
    Ok(report)
}

/// Returns the queued statements of a ledger that name objects which are not there.
///
/// Whoever queues a statement stores its objects first, so only a copy that was made meanwhile has such ones.
pub fn queued_without_objects(ledger: &Ledger) -> Result<Vec<StatementId>, Error> {
    let mut queued = Vec::new();
    for path in ledger.durable().files_under(Path::new("log/pending"))? {
        queued.extend(ledger.durable().read(&path, MAX_STATEMENT).ok().flatten());
    }
    let statements: Vec<Statement<'_>> = queued.iter().filter_map(|raw| Statement::parse(raw).ok()).collect();
    objects::without_objects(ledger, &statements)
}

/// Checks everything under a ledger's directory; `progress` is told of bytes of objects as they are hashed.
///
/// `cached` is the folded state that commands use here, which is then compared with one that is folded anew.
pub fn check(
    disk: Arc<dyn Disk>,
    root: &Path,
    cached: Option<&State>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, Error> {
    let mut report = Report::default();
    let is_shared = check_format(&disk, root, &mut report)?;
    let durable = Durable::new(disk, root, is_shared);
    if ledger::is_half_done(&durable)? {
        return Err(ledger::Error::HalfForked { path: root.to_owned() }.into());
    }
    check_place(&durable, &mut report)?;
    let log = log::check(&durable, cached, &mut report)?;
    heads::check(&durable, log.as_ref(), &mut report)?;
    objects::check(&durable, log.as_ref(), progress, &mut report)?;
    check_pending(&durable, &mut report)?;
    check_left_overs(&durable, root, &mut report)?;
    Ok(report)
}

fn check_format(disk: &Arc<dyn Disk>, root: &Path, report: &mut Report) -> Result<bool, Error> {
    let durable = Durable::new(Arc::clone(disk), root, false);
    let not_here = || ledger::Error::NotALedger { path: root.to_owned() }.into();
    let text = match durable.read(Path::new("format"), 4096) {
        Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(None) if durable.stat(Path::new("log"))?.is_some() => {
            report.damaged("format", "format", "the file is missing");
            return Ok(false);
        }
        Ok(None) | Err(durable::Error::Io { .. }) => return Err(not_here()),
        Err(durable::Error::NotRegular { .. } | durable::Error::TooLarge { .. }) => {
            report.damaged("format", "format", "it is not a ledger's format file");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("ledger-format/").and_then(|n| n.parse().ok()).is_some_and(|n: u32| n > 1) {
        return Err(ledger::Error::Format { path: root.to_owned(), found: first.to_owned() }.into());
    }
    // Later versions may add lines of their own, which say nothing to this one.
    let shared: Vec<&str> = text.lines().filter(|line| line.starts_with("shared ")).collect();
    let is_whole = first == FORMAT && text.ends_with('\n');
    if !is_whole || !matches!(shared[..], ["shared yes" | "shared no"]) {
        report.damaged("format", "format", "it is not what this format's file says");
    }
    Ok(shared == ["shared yes"])
}

fn check_place(durable: &Durable, report: &mut Report) -> Result<(), Error> {
    let text = match durable.read(Path::new("place"), 4096) {
        Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(None) => {
            report.warn(
                "copy",
                "place",
                "the file is missing, so this counts as a copy and is not written to",
            );
            return Ok(());
        }
        Err(durable::Error::NotRegular { .. } | durable::Error::TooLarge { .. }) => String::new(),
        Err(error) => return Err(error.into()),
    };
    let (_, inode) = durable.inode()?;
    let parsed = text.strip_prefix("ledger-place/1\ninstance ").and_then(|rest| {
        let (instance, rest) = rest.split_once("\ninode ")?;
        let is_instance = instance.len() == 32 && instance.bytes().all(|byte| byte.is_ascii_hexdigit());
        rest.strip_suffix('\n')?.parse::<u64>().ok().filter(|_| is_instance)
    });
    match parsed {
        Some(named) if named == inode => {}
        Some(_) => report.warn("copy", "place", "this directory is a copy of a ledger and is not written to"),
        None => report.damaged("place", "place", "it is not what this format's file says"),
    }
    if durable.read(Path::new(".gitignore"), 4096).ok().flatten().as_deref() != Some(b"*\n") {
        report.warn("gitignore", ".gitignore", "it does not keep the ledger out of a repository");
    }
    Ok(())
}

/// Looks at statements that wait to be ordered. One that cannot be is set aside by the next writer.
fn check_pending(durable: &Durable, report: &mut Report) -> Result<(), Error> {
    let root = Path::new("log/pending");
    for user in durable.list(root)? {
        let dir = root.join(&user.name);
        let is_user = user.is_dir && user.name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_user {
            report.warn("stray", dir.display().to_string(), "nothing is waited for here");
            continue;
        }
        for entry in durable.list(&dir)? {
            let path = dir.join(&entry.name);
            let at = path.display().to_string();
            let bytes = match durable.read(&path, MAX_STATEMENT) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    report.warn("pending", at, error.to_string());
                    continue;
                }
            };
            let is_named = entry.name.to_str() == Some(statement_id(&bytes).to_hex().as_str());
            if !is_named || Statement::parse(&bytes).is_err() {
                report.warn("pending", at, "it is not a statement of that name, and is never ordered");
            }
        }
    }
    Ok(())
}

/// Tells of what nobody needs: temporary files, things set aside, and names that no ledger has.
fn check_left_overs(durable: &Durable, root: &Path, report: &mut Report) -> Result<(), Error> {
    for entry in durable.list(Path::new(durable::TMP))? {
        report.left_over(
            format!("tmp/{}", entry.name.to_string_lossy()),
            "left by interrupted work, or in use",
        );
    }
    for (dir, why) in [(store::DAMAGED, "stood at an object's place"), ("log/refused", "set aside")] {
        for entry in durable.list(Path::new(dir))? {
            report.left_over(format!("{dir}/{}", entry.name.to_string_lossy()), why);
        }
    }
    if durable.stat(Path::new(ledger::FORK))?.is_some() {
        report.left_over(ledger::FORK, "left by a fork that was cut short; the next one clears it away");
    }
    let known = [
        ".gitignore",
        "format",
        "place",
        "objects",
        "packs",
        "tmp",
        "damaged",
        "runs",
        "log",
        ledger::FORK,
        ledger::parents::PARENTS,
    ];
    let in_log = ["checkpoint", "tile", "heads", "pending", "refused", "lock"];
    for (dir, known) in [("", known.as_slice()), ("log", in_log.as_slice())] {
        for entry in durable.list(Path::new(dir))? {
            if !entry.name.to_str().is_some_and(|name| known.contains(&name)) {
                let at = Path::new(dir).join(&entry.name).display().to_string();
                report.warn("stray", at, "no ledger has a file of this name");
            }
        }
    }
    let beside = root.parent().map(|parent| Durable::new(Arc::clone(durable.disk()), parent, false));
    for entry in beside.map_or(Ok(Vec::new()), |parent| parent.list(Path::new("")))? {
        if entry.name.to_str().is_some_and(|name| name.starts_with(&format!("{DIR}.new-"))) {
            report.left_over(entry.name.to_string_lossy(), "left by an interrupted `init`");
        }
    }
    Ok(())
}

/// What the log says, once it was rebuilt: the ground on which heads and objects are judged.
struct Rebuilt {
    head: SignedHead,
    /// The tree over all statements.
    tiles: crate::log::tree::MemoryTiles,
    state: State,
    /// Which keys could sign a head, at each place.
    log_keys: log::LogKeys,
    log: Log,
    /// The logs that it goes on from, the oldest first.
    before: Vec<Segment>,
}

/// Whether an error of the disk is about what lies there, not about a disk that does not answer.
fn is_about_content(error: &durable::Error) -> bool {
    matches!(error, durable::Error::NotRegular { .. } | durable::Error::TooLarge { .. })
}

/// What is read at most of a record.
const MAX_RECORD: usize = codec::MAX_RECORD;
