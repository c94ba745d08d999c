//! Making a ledger of its own of a copy: a new genesis that names the old log, which is kept and not gone on with.
//!
//! ```text
//! fork/log/...                       the new log, of one statement, published in a directory that nobody reads
//! log      -> parents/<id>/log       from here on there is no old ledger any more
//! fork/log -> log                    and from here on there is the new one
//! place                              written anew, so that it may be written to
//! fork/                              removed
//! ```
//!
//! A crash before the first rename leaves the old ledger. After it everything is there that the new one consists
//! of; who opens it between the renames is told so, and the next call finishes it without a key.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::durable::{Disk, Durable, outside};
use crate::id::{LedgerId, StatementId, statement_id};
use crate::log::key::SigningKey;
use crate::log::statement::{self, Payload, Statement};
use crate::log::{Log, files};
use crate::model::{self, Fixed, Genesis, Record as _, Role};
use crate::state::{Checks, Parent, Reason, Standing};

use super::init::{claim_for, sign_head};
use super::{Error, Ledger, note_ledger, parents, place};

/// Directory in which the new log is made.
pub const FORK: &str = "fork";
const LOG: &str = "log";

/// Who makes a fork.
#[derive(Debug)]
pub struct Forker<'a> {
    /// A key that is an owner's or a recovery key.
    pub author: &'a SigningKey,
    /// A key that orders statements.
    pub log: &'a SigningKey,
    /// Seconds since 1970.
    pub time: u64,
    /// 16 random bytes for genesis.
    pub nonce: [u8; 16],
    /// Random bytes that name this directory, so that a copy of it is known as one.
    pub instance: [u8; 16],
}

/// What making a fork did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forked {
    /// The new ledger.
    pub ledger: LedgerId,
    /// What it goes on from.
    pub parent: Parent,
    /// Queued statements, which are signed for the old ledger and stay with its log.
    pub left: Vec<StatementId>,
    /// Files that were copied too late or too early to count, by their old paths.
    pub aside: Vec<PathBuf>,
}

fn fork_log() -> PathBuf {
    Path::new(FORK).join(LOG)
}

/// Whether the old log is put away already and the new one does not have its name yet.
pub fn is_half_done(durable: &Durable) -> Result<bool, Error> {
    let is_there = |log: &Path| Ok::<_, Error>(durable.stat(&log.join("checkpoint"))?.is_some());
    if is_there(Path::new(LOG))? || !is_there(&fork_log())? {
        return Ok(false);
    }
    parent_of(&Log::at(durable.clone(), &fork_log())).map_or(Ok(false), |old| is_there(&parents::dir(old)))
}

/// Returns the ledger that a log goes on from, if it can be read and does.
fn parent_of(log: &Log) -> Option<LedgerId> {
    let size = log.head().ok()?.head().size;
    Some(parents::named(&log.statement(size, 0).ok()?)?.ledger)
}

/// Finishes a fork that was cut short, if there is one, and returns the new ledger.
///
/// It needs no key: the new log is whole before the old one is put away. What was cut short before that is
/// cleared away.
pub fn finish_fork(disk: &Arc<dyn Disk>, root: &Path, instance: [u8; 16]) -> Result<Option<LedgerId>, Error> {
    let plain = Durable::new(Arc::clone(disk), root, false);
    if plain.stat(Path::new(FORK))?.is_none() {
        return Ok(None);
    }
    let format = plain.read(Path::new("format"), 4096)?.unwrap_or_default();
    let is_shared = String::from_utf8_lossy(&format).lines().any(|line| line == "shared yes");
    let durable = Durable::new(Arc::clone(disk), root, is_shared);
    if is_half_done(&durable)? {
        if durable.stat(Path::new(LOG))?.is_some() {
            // Somebody who knew the old ledger only has queued a statement for it meanwhile.
            let late = parent_of(&Log::at(durable.clone(), &fork_log())).map(|old| old.to_hex());
            let late = Path::new(parents::PARENTS).join(late.unwrap_or_default()).join("late");
            durable.move_dir(Path::new(LOG), &late)?;
        }
        durable.move_dir(&fork_log(), Path::new(LOG))?;
    } else if durable.stat(&fork_log())?.is_some() || !is_new(&durable)? {
        clear(&durable)?;
        return Ok(None);
    }
    let ledger = note_ledger(&Log::new(durable.clone()).head()?)?;
    settle(&durable, instance)?;
    Ok(Some(ledger))
}

/// Whether the log that stands here is one that a fork has just made.
fn is_new(durable: &Durable) -> Result<bool, Error> {
    let log = Log::new(durable.clone());
    match log.head() {
        Ok(head) => Ok(head.head().size == 1 && parent_of(&log).is_some()),
        Err(files::Error::Disk(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// Writes which directory the new ledger is, and removes what it was made in.
fn settle(durable: &Durable, instance: [u8; 16]) -> Result<(), Error> {
    durable.replace(Path::new(place::PLACE), place::text(durable, instance)?.as_bytes())?;
    clear(durable)
}

fn clear(durable: &Durable) -> Result<(), Error> {
    Ok(outside::remove_dir(durable.disk(), &durable.path(Path::new(FORK))?)?)
}

impl Ledger {
    /// Makes a new ledger that goes on from the head of this one, in the place of this one.
    ///
    /// The key must be an owner's or a recovery key here, and the other one a log key: no key enters by it that
    /// was unknown. Whether the log is whole is for the caller to have checked. The view ends with it: open the
    /// ledger again.
    pub fn fork(mut self, by: &Forker<'_>, wait: Duration) -> Result<Forked, Error> {
        let lock = self.durable.lock(Path::new("log/lock"), wait)?;
        self.roll_forward()?;
        let parent = self.as_parent()?;
        let (record, statement) = self.genesis(by, &parent)?;
        let leaf = statement_id(&statement);
        let mut state = self.state.forked();
        let parsed = Statement::parse(&statement)?;
        match state.apply(leaf, Some(&parsed), Checks::GOOD) {
            Standing::Accepted => {}
            Standing::Rejected(reason) => return Err(Error::Refused { reason }),
            Standing::Unknown => return Err(Error::Rules { found: self.state.rules() }),
        }
        if self.log_key_of(by.log).is_none() {
            return Err(Error::Refused { reason: Reason::RoleNotAllowed });
        }
        let ledger = LedgerId::of_genesis(leaf);
        let pending = self.pending()?.into_iter().filter(|one| self.state.statement(one.id).is_none());
        let left: Vec<StatementId> = pending.map(|one| one.id).collect();
        let file = sign_head(ledger, 0, vec![statement.clone()], state.root(), by.log)?;

        self.store.put_many(&[record])?;
        let aside = self.set_beyond_aside()?;
        clear(&self.durable)?;
        for dir in ["heads", "pending"] {
            self.durable.make_dir(&fork_log().join(dir))?;
        }
        let log = Log::at(self.durable.clone(), &fork_log());
        let _won = log.commit(&file)?;
        log.apply(&file)?;
        self.durable.move_dir(Path::new(LOG), &parents::dir(parent.ledger))?;
        self.durable.move_dir(&fork_log(), Path::new(LOG))?;
        settle(&self.durable, by.instance)?;
        drop(lock);
        Ok(Forked { ledger, parent, left, aside })
    }

    /// Returns this ledger as the parent of one that goes on from its head.
    pub fn as_parent(&self) -> Result<Parent, Error> {
        if self.state.parents().len() == parents::MAX_PARENTS {
            return Err(Error::TooManyParents);
        }
        let head = self.head.head();
        Ok(Parent { ledger: self.id(), size: head.size, root: head.root })
    }

    /// Returns the genesis record and the signed statement that claims it.
    fn genesis(&self, by: &Forker<'_>, parent: &Parent) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let holder = self.holder_of(by.author)?;
        let genesis = Genesis {
            nonce: Fixed(by.nonce),
            rules: self.state.rules(),
            parent: Some((parent.ledger, parent.size, parent.root)),
        };
        let encoded = model::encode(&genesis)?;
        let claims = vec![claim_for(&genesis, &encoded)];
        let payload = Payload { ledger: None, seen: None, claims, req: None };
        let prefix = Genesis::KIND.prefix();
        let bytes = statement::sign(&payload, prefix, holder, by.time, by.author)?;
        Ok((encoded.bytes, bytes))
    }

    fn log_key_of(&self, key: &SigningKey) -> Option<()> {
        self.state.key(key.public().thumbprint()).filter(|row| row.has(Role::Log)).map(|_| ())
    }
}
