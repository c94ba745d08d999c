//! Backups: a copy of a ledger that is a whole ledger at every moment, whoever writes to the original meanwhile.
//!
//! ```text
//! pending statements are listed     from here on one is either in the list or under the head that is read next
//! the head is read, of size s       everything that statements below s name is in the store already
//! objects, those not there yet      hashed on the way
//! queued statements                 under the number of whoever makes the backup
//! logs of parents                   as the ledger has them; they do not grow
//! bundles and tiles, up to s        held against the root of the head before the first is written
//! log/checkpoint                    last
//! ```
//!
//! A new backup is filled under a sibling name and renamed; an older one ends at its old head until the new one
//! is published. Nothing in it is ever replaced, so that what is damaged in the ledger cannot reach it. A backup
//! has no `place`: it is a copy, which is read and not written to. `runs/` is no part of a ledger and stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::durable::{Created, Disk, Durable, Fresh, Kind as FileKind};
use crate::fsck;
use crate::id::{LedgerId, ObjectId, StatementId, TreeHash, statement_id};
use crate::ledger::{self, DIR, FORMAT, Home, Ledger, parents};
use crate::log::{Log, files, tree};
use crate::store::{self, Entry, Store};
use crate::verify::{Finding, Severity, chain_text};

/// Why no backup was made. What it lacks is a finding.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ledger that is to be copied, or the backup, cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The backup cannot be opened as the ledger that it was.
    #[error("the backup at `{}` cannot be added to", path.display())]
    Unusable {
        /// The backup.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<ledger::Error>,
    },
    /// The backup would be written into the ledger itself.
    #[error("`{}` is the ledger that is to be copied", path.display())]
    Itself {
        /// The directory.
        path: PathBuf,
    },
    /// What lies there may be written to: somebody adopted it, or it never was a backup.
    #[error("`{}` is a ledger of its own, not a backup", path.display())]
    NotABackup {
        /// The directory.
        path: PathBuf,
    },
    /// What lies there is a backup of something else.
    #[error("`{}` is a backup of another ledger", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The ledger that it is of.
        found: LedgerId,
    },
    /// The backup holds statements that the ledger does not have.
    #[error("the backup ends at statement {backup}, and this ledger at {here}")]
    Newer {
        /// Statements in the backup.
        backup: u64,
        /// Statements here.
        here: u64,
    },
    /// The ledger and its backup went different ways.
    #[error("the backup and this ledger differ below statement {size}")]
    Fork {
        /// Size at which they differ.
        size: u64,
        /// Root here.
        here: TreeHash,
        /// Root in the backup.
        backup: TreeHash,
    },
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl From<crate::durable::Error> for Error {
    fn from(error: crate::durable::Error) -> Self {
        Self::Ledger(error.into())
    }
}

/// What a backup holds, and what it lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The directory of the copied ledger.
    pub root: PathBuf,
    /// Statements under its head.
    pub size: u64,
    /// Statements that it had before.
    pub before: u64,
    /// Objects that were copied now.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were there already.
    pub kept: u64,
    /// Statements that wait in it to be ordered.
    pub queued: u64,
    /// Statements from the first one on that it has with all that they need.
    pub whole: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether the backup lacks something that the ledger should have had.
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Damaged)
    }
}

/// Copies a ledger to `dir/.ledger`, or adds to the copy there; `progress` is told of bytes as they are copied.
///
/// `user` is the number of whoever makes the backup, and `wait` how long to wait for somebody who makes another.
pub fn backup(
    ledger: &mut Ledger,
    dir: &Path,
    user: u32,
    wait: Duration,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, Error> {
    let disk = Arc::clone(ledger.durable().disk());
    let root = dir.join(DIR);
    if is_same(ledger, &disk, &root) {
        return Err(Error::Itself { path: root });
    }
    let mut report = Report { root: root.clone(), ..Report::default() };
    let pending = ledger.pending()?;
    ledger.follow()?;
    let source = Source { ledger, pending, user, progress };
    if root.symlink_metadata().is_ok() {
        let target = source.target(&disk, &root)?;
        let lock = target.lock(Path::new("log/lock"), wait)?;
        // Whoever held the lock may have added what this view of the ledger does not have.
        let target = source.target(&disk, &root)?;
        source.copy(&target, &mut report)?;
        drop(lock);
    } else {
        let fresh = Fresh::begin(&disk, dir, DIR, ledger_is_shared(source.ledger)?)?;
        source.copy(fresh.durable(), &mut report)?;
        let _ = fresh.finish()?;
    }
    Ok(report)
}

fn is_same(ledger: &Ledger, disk: &Arc<dyn Disk>, root: &Path) -> bool {
    let other = Durable::new(Arc::clone(disk), root, false);
    matches!((ledger.durable().inode(), other.inode()), (Ok(here), Ok(there)) if here == there)
}

fn ledger_is_shared(ledger: &Ledger) -> Result<bool, Error> {
    let format = ledger.durable().read(Path::new("format"), 4096)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&format).lines().any(|line| line == "shared yes"))
}

/// What is copied, as it was when the copying began.
struct Source<'a> {
    ledger: &'a Ledger,
    pending: Vec<ledger::Pending>,
    user: u32,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Source<'_> {
    /// Makes sure that what lies at `root` is an older backup of this ledger.
    fn target(&self, disk: &Arc<dyn Disk>, root: &Path) -> Result<Durable, Error> {
        let unusable = |source| Error::Unusable { path: root.to_owned(), source: Box::new(source) };
        // Whoever makes backups has seen newer heads than a backup holds, so no memory is asked.
        let old = Ledger::open_on(Arc::clone(disk), root, Home::default()).map_err(unusable)?;
        if old.id() != self.ledger.id() {
            return Err(Error::Foreign { path: root.to_owned(), found: old.id() });
        }
        if !old.is_copy() {
            return Err(Error::NotABackup { path: root.to_owned() });
        }
        let (kept, head) = (old.head().head(), self.ledger.head().head());
        if kept.size > head.size {
            return Err(Error::Newer { backup: kept.size, here: head.size });
        }
        let log = self.ledger.log();
        let here = log.root_at(&log.tiles(), kept.size, head.size, head.root)?;
        if here != kept.root {
            return Err(Error::Fork { size: kept.size, here, backup: kept.root });
        }
        // What is added continues from these tiles, so they must be the ones of the head.
        let found = tree::root_at(&old.log().tiles(), kept.size).map_err(files::Error::from)?;
        if found != kept.root {
            return Err(unusable(files::Error::Statements { size: kept.size }.into()));
        }
        Ok(old.durable().clone())
    }

    fn copy(&self, target: &Durable, report: &mut Report) -> Result<(), Error> {
        let log = Log::new(target.clone());
        report.before = match log.head() {
            Ok(head) => head.head().size,
            Err(files::Error::NoHead) => 0,
            Err(error) => return Err(error.into()),
        };
        report.size = self.ledger.head().head().size;
        let store = Store::new(target.clone());
        self.copy_objects(&store, report)?;
        self.copy_pending(target, report)?;
        for dir in ["log/heads", "log/pending"] {
            target.make_dir(Path::new(dir))?;
        }
        let shared = if ledger_is_shared(self.ledger)? { "yes" } else { "no" };
        let format = format!("{FORMAT}\nshared {shared}\n");
        for (name, text) in [("format", format.as_str()), (".gitignore", "*\n")] {
            let _: Created = target.create(Path::new(name), text.as_bytes(), FileKind::Mutable)?;
        }
        for parent in self.ledger.state().parents() {
            let from = parents::log(self.ledger.durable(), parent.ledger);
            let head = parents::head_of(&from, parent)?;
            from.copy_to(&head, &parents::log(target, parent.ledger))?;
        }
        self.ledger.log().copy_to(self.ledger.head(), &log)?;
        self.drop_ordered(target)?;
        let lacking = fsck::lacking(self.ledger, &store).map_err(|error| match error {
            fsck::Error::Ledger(error) => Error::from(error),
            fsck::Error::Disk(error) => error.into(),
        })?;
        report.whole = lacking.whole;
        // What is missing because it was damaged has been named with more words.
        let told: Vec<Option<String>> = report.findings.iter().map(|finding| finding.at.clone()).collect();
        report.findings.extend(lacking.findings.into_iter().filter(|finding| !told.contains(&finding.at)));
        Ok(())
    }

    fn copy_objects(&self, store: &Store, report: &mut Report) -> Result<(), Error> {
        let sizes = |store: &Store| -> Result<BTreeMap<ObjectId, u64>, store::Error> {
            let loose = store.walk()?.into_iter().filter_map(|entry| match entry {
                Entry::Object(id, size) => Some((id, size)),
                Entry::Stray(_) => None,
            });
            Ok(loose.chain(store.packed()?).collect())
        };
        let before = sizes(store)?;
        store.copy_packs_from(self.ledger.store(), &mut |id, size| {
            if !before.contains_key(&id) {
                report.copied += 1;
                report.bytes += size;
            }
            (self.progress)(size);
        })?;
        let (here, there) = (sizes(self.ledger.store())?, sizes(store)?);
        let wanted = here.iter().filter(|(id, size)| there.get(id) != Some(size));
        let wanted: Vec<ObjectId> = wanted.map(|(id, _)| *id).collect();
        report.kept = (here.len() - wanted.len()) as u64 - report.copied;
        let mut told = |id: ObjectId, copied: Result<u64, store::Error>| match copied {
            Ok(size) => {
                report.copied += 1;
                report.bytes += size;
                (self.progress)(size);
            }
            // It may have been thrown away since it was listed; if it was needed, that is found below.
            Err(store::Error::Missing { .. }) => {}
            Err(error) => {
                let finding = Finding::new(Severity::Damaged, "object", chain_text(&error));
                report.findings.push(finding.at(store::place(id).display().to_string()));
            }
        };
        Ok(store.copy_from(self.ledger.store(), &wanted, &mut told)?)
    }

    /// Copies what is queued. Each statement is signed by its author, and nobody else could be its file's owner.
    fn copy_pending(&self, target: &Durable, report: &mut Report) -> Result<(), Error> {
        let waiting = self.pending.iter().filter(|one| self.ledger.state().statement(one.id).is_none());
        for pending in waiting {
            let Some(bytes) = &pending.bytes else {
                let text = format!("a queued statement of user {} cannot be read", pending.user);
                report.findings.push(Finding::new(Severity::Warn, "pending", text).at(pending.id.to_hex()));
                continue;
            };
            if statement_id(bytes) != pending.id {
                continue;
            }
            let dir = Path::new("log/pending").join(self.user.to_string());
            target.make_own_dir(&dir)?;
            let _: Created = target.create(&dir.join(pending.id.to_hex()), bytes, FileKind::Immutable)?;
            report.queued += 1;
        }
        Ok(())
    }

    /// Removes statements from the queue of an older backup that have been ordered since.
    fn drop_ordered(&self, target: &Durable) -> Result<(), Error> {
        for path in target.files_under(Path::new("log/pending"))? {
            let id = path.file_name().and_then(|name| name.to_str()).map(StatementId::from_hex);
            if let Some(Ok(id)) = id
                && self.ledger.state().statement(id).is_some()
            {
                target.remove(&path)?;
            }
        }
        Ok(())
    }
}
