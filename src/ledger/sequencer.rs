//! Sequencing: pending statements become a batch, a batch becomes a head, a head becomes the log.
//!
//! ```text
//! log/pending/<uid>/<id>   durable, from here a statement cannot be lost
//!         |  take the lock: it saves work, safety never rests on it
//!         |  fold to the published head and whatever `heads/` holds beyond it
//!         |  batch what is admissible, in an order in which links, prev and seen point back
//! log/heads/<size>         link(2): the commit point, one successor for each head
//!         |  bundles and tiles, create-if-absent
//! log/checkpoint           published; own pending files are dropped
//! ```
//!
//! Anybody can finish what follows the commit point, without a key. Files of others are never deleted.

use std::path::{Path, PathBuf};

use crate::durable::{self, Commit, Kind as FileKind};
use crate::id::{StatementId, TreeHash, statement_id};
use crate::log::HeadFile;
use crate::log::files;
use crate::log::head_file::{MAX_BATCH, MAX_BATCH_BYTES};
use crate::log::statement::{MAX_STATEMENT, Statement};
use crate::model::Role;
use crate::state::{Checks, Reason, Signatures, Standing, State, advance};

use super::init::{parse_public, sign_head};
use super::transaction::Signer;
use super::{Error, Ledger, log_keys};

/// What became of the statement that a sequencing was about.
#[derive(Clone, Debug)]
#[must_use]
pub enum Sequenced {
    /// It is in the log.
    Done {
        /// Its index.
        index: u32,
        /// What the fold says of it.
        standing: Standing,
    },
    /// It is durable and waits.
    Waiting {
        /// For what.
        why: String,
    },
}

/// A statement that waits to be ordered.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its leaf hash.
    pub id: StatementId,
    /// Number of the user who wrote it.
    pub user: u32,
    /// Its bytes; absent when they cannot be read.
    pub bytes: Option<Vec<u8>>,
    path: PathBuf,
}

fn pending_path(user: u32, id: StatementId) -> PathBuf {
    Path::new("log/pending").join(user.to_string()).join(id.to_hex())
}

impl Ledger {
    /// Makes a statement durable among the pending ones.
    pub(super) fn queue(&self, id: StatementId, bytes: &[u8], user: u32) -> Result<(), Error> {
        self.durable.make_own_dir(&Path::new("log/pending").join(user.to_string()))?;
        let _created = self.durable.create(&pending_path(user, id), bytes, FileKind::Immutable)?;
        Ok(())
    }

    /// Lists what is pending, of all users.
    pub fn pending(&self) -> Result<Vec<Pending>, Error> {
        let mut found = Vec::new();
        let root = Path::new("log/pending");
        for dir in self.durable.list(root)? {
            let user = dir.name.to_str().and_then(|name| name.parse::<u32>().ok());
            let (true, Some(user)) = (dir.is_dir, user) else { continue };
            let folder = root.join(&dir.name);
            let Ok(entries) = self.durable.list(&folder) else { continue };
            for entry in entries.iter().filter(|entry| entry.is_file) {
                let Some(id) = entry.name.to_str().and_then(|name| StatementId::from_hex(name).ok()) else {
                    continue;
                };
                let path = folder.join(&entry.name);
                // A file that somebody else planted in a user's folder is nobody's statement.
                let owner = self.durable.stat(&path).ok().flatten().map(|meta| meta.owner);
                if owner != Some(user) {
                    continue;
                }
                let bytes = self.durable.read(&path, MAX_STATEMENT).ok().flatten();
                found.push(Pending { id, user, bytes, path });
            }
        }
        Ok(found)
    }

    /// Brings this view up to the published head, finishing commits that were left half done.
    pub fn refresh(&mut self) -> Result<(), Error> {
        loop {
            let head = self.log.head()?;
            if head.head().size > self.head.head().size {
                self.head = head;
                self.fold_to_head()?;
            }
            let size = self.head.head().size;
            if self.log.head()?.head().size > size {
                continue;
            }
            match self.log.head_file(size)? {
                Some(file) => self.finish(&file)?,
                None => return Ok(()),
            }
        }
    }

    /// Finishes a commit after checking that a log key signed it in the state that it closes.
    fn finish(&mut self, file: &HeadFile) -> Result<(), Error> {
        let mut state = self.state.clone();
        self.advance_over(&mut state, &file.statements, file.head.head().root)?;
        file.head
            .verify(&log_keys(&state))
            .map_err(|source| Error::HeadSignature { size: file.head.head().size, source })?;
        self.log.apply(file)?;
        self.state = state;
        self.head = file.head.clone();
        Ok(())
    }

    fn advance_over(&self, state: &mut State, statements: &[Vec<u8>], root: TreeHash) -> Result<(), Error> {
        let leaves: Vec<&[u8]> = statements.iter().map(Vec::as_slice).collect();
        let head = self.head.head();
        let tiles = self.log.tiles();
        // No honest author saw a head inside this batch: the batch had none before it was committed.
        let mut root_at = |size: u64| {
            if size > head.size {
                return Ok(TreeHash::from_bytes([0; 32]));
            }
            self.log.root_at(&tiles, size, head.size, head.root)
        };
        advance(state, &leaves, Signatures::Check, &mut root_at).map_err(Error::Log)?;
        if state.root() == root { Ok(()) } else { Err(files::Error::BatchRoot { extends: head.size }.into()) }
    }

    /// Orders pending statements until `wanted` is in the log, or once if there is none wanted.
    pub fn sequence(&mut self, signer: &Signer<'_>, wanted: Option<StatementId>) -> Result<Sequenced, Error> {
        let is_log_key = |key: &crate::log::key::SigningKey| {
            self.state.key(key.public().thumbprint()).is_some_and(|row| row.has(Role::Log))
        };
        let Some(log_key) = signer.log.filter(|key| is_log_key(key)) else {
            self.refresh()?;
            let why = "it waits for a writer who has a log key".to_owned();
            return Ok(self.answer(wanted, signer.user).unwrap_or(Sequenced::Waiting { why }));
        };
        loop {
            let lock = match self.durable.lock(Path::new("log/lock"), signer.wait) {
                Ok(lock) => lock,
                Err(error @ durable::Error::Busy { .. }) => {
                    self.refresh()?;
                    let why = error.to_string();
                    return Ok(self.answer(wanted, signer.user).unwrap_or(Sequenced::Waiting { why }));
                }
                Err(error) => return Err(error.into()),
            };
            self.refresh()?;
            if let Some(done) = wanted.and_then(|_| self.answer(wanted, signer.user)) {
                drop(lock);
                self.after_commit();
                return Ok(done);
            }
            let (batch, state, left) = self.batch(log_key)?;
            if batch.is_empty() {
                let why = left.unwrap_or_else(|| "nothing that waits can be ordered now".to_owned());
                return Ok(Sequenced::Waiting { why });
            }
            let size = self.head.head().size;
            let file = sign_head(self.id(), size, batch, state.root(), log_key)?;
            match self.log.commit(&file)? {
                Commit::Lost(_) => {}
                Commit::Won if self.log.head()?.head().size > size => self.settle_late_commit(&file)?,
                Commit::Won => {
                    self.log.apply(&file)?;
                    self.state = state;
                    self.head = file.head;
                }
            }
            drop(lock);
            if wanted.is_none() {
                self.after_commit();
                return Ok(Sequenced::Waiting { why: String::new() });
            }
        }
    }

    /// The head moved on although nobody could know of our successor to it: a slot that had been cleared away.
    ///
    /// Either the log holds our batch there, and the commit stands, or the file is withdrawn.
    fn settle_late_commit(&mut self, file: &HeadFile) -> Result<(), Error> {
        let head = self.log.head()?.head().clone();
        let first = file.statements.first().map(Vec::as_slice);
        let found = self.log.statement(head.size, file.extends)?;
        if first != Some(found.as_slice()) {
            self.log.withdraw(file.extends)?;
        }
        Ok(())
    }

    /// Returns what the log says of a statement, dropping its pending file once it is there.
    fn answer(&self, wanted: Option<StatementId>, user: u32) -> Option<Sequenced> {
        let id = wanted?;
        let (index, standing) = self.state.statement(id)?;
        // Failing to drop it only leaves a file that the next command drops.
        let _ = self.durable.remove(&pending_path(user, id));
        Some(Sequenced::Done { index, standing })
    }

    fn after_commit(&mut self) {
        self.save_state_when_due();
        self.remember();
    }

    /// Drops this user's pending files that are in the log, and returns what became of each.
    pub fn settle_own(&mut self, user: u32) -> Result<Vec<(StatementId, Standing)>, Error> {
        let mut settled = Vec::new();
        for pending in self.pending()?.into_iter().filter(|pending| pending.user == user) {
            if let Some((_, standing)) = self.state.statement(pending.id)
                && !self.is_copy
            {
                self.durable.remove(&pending.path)?;
                settled.push((pending.id, standing));
            }
        }
        Ok(settled)
    }

    /// Collects what can be ordered now, in an order in which links, prev and seen point back.
    ///
    /// Also returns the state after the batch, and why something was left, if it was.
    #[expect(clippy::type_complexity, reason = "batch, state after it, and a remark")]
    fn batch(
        &self,
        log_key: &crate::log::key::SigningKey,
    ) -> Result<(Vec<Vec<u8>>, State, Option<String>), Error> {
        let mut state = self.state.clone();
        let mut left = None;
        let mut waiting: Vec<Pending> = Vec::new();
        for pending in self.pending()? {
            if state.statement(pending.id).is_some() {
                continue;
            }
            match self.admissible(&state, &pending) {
                Ok(()) => waiting.push(pending),
                Err(Refusal::Malformed) => self.set_aside(&pending),
                Err(Refusal::NotNow(why)) => left = Some(why),
            }
        }
        waiting.sort_unstable_by_key(|pending| (time_of(pending), pending.id));
        let own_log = log_key.public().thumbprint();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        // What links to another waiting statement is tried again after it; each round places one at least.
        loop {
            let mut rest = Vec::new();
            let before = batch.len();
            for pending in waiting {
                let Some(raw) = &pending.bytes else { continue };
                let Ok(statement) = Statement::parse(raw) else { continue };
                let full = batch.len() >= MAX_BATCH || bytes + raw.len() > MAX_BATCH_BYTES;
                let standing = state.judge(&statement, Checks::GOOD);
                if full || matches!(standing, Standing::Rejected(Reason::LinkNotAccepted | Reason::LostRace))
                {
                    rest.push(pending);
                    continue;
                }
                let mut next = state.clone();
                next.apply(pending.id, Some(&statement), Checks::GOOD);
                if !next.key(own_log).is_some_and(|row| row.has(Role::Log)) {
                    // It would end our own right to sign this head; another log key has to order it.
                    left = Some("it ends the only log key at hand".to_owned());
                    continue;
                }
                state = next;
                bytes += raw.len();
                batch.push(raw.clone());
            }
            if batch.len() == before || rest.is_empty() {
                waiting = rest;
                break;
            }
            waiting = rest;
        }
        for pending in waiting {
            // A lost race is an answer, which the log gives; a missing link may still come.
            let Some(raw) = &pending.bytes else { continue };
            let Ok(statement) = Statement::parse(raw) else { continue };
            let lost = state.judge(&statement, Checks::GOOD) == Standing::Rejected(Reason::LostRace);
            if lost && batch.len() < MAX_BATCH {
                state.apply(pending.id, Some(&statement), Checks::GOOD);
                batch.push(raw.clone());
            } else {
                left = Some("what it links to is not in the log".to_owned());
            }
        }
        Ok((batch, state, left))
    }

    /// Admits exact byte form, this ledger, a head of this log, and a good signature by a live key.
    fn admissible(&self, state: &State, pending: &Pending) -> Result<(), Refusal> {
        let unreadable = format!("a pending statement of user {} cannot be read", pending.user);
        let raw = pending.bytes.as_ref().ok_or(Refusal::NotNow(unreadable))?;
        if statement_id(raw) != pending.id {
            return Err(Refusal::Malformed);
        }
        let statement = Statement::parse(raw).map_err(|_| Refusal::Malformed)?;
        if statement.payload.ledger != Some(self.id()) {
            return Err(Refusal::Malformed);
        }
        let head = self.head.head();
        let seen = statement.payload.seen.ok_or(Refusal::Malformed)?;
        if seen.size > head.size {
            return Err(Refusal::NotNow("its author has seen a newer log".to_owned()));
        }
        let tiles = self.log.tiles();
        let Ok(root) = self.log.root_at(&tiles, seen.size, head.size, head.root) else {
            return Err(Refusal::NotNow("the log's tiles cannot be read".to_owned()));
        };
        let row = state.key(statement.kid).filter(|row| !row.roles.is_empty());
        let key = row.and_then(|row| parse_public(&row.public));
        match key {
            Some(key) if root == seen.root && statement.verify(&key).is_ok() => Ok(()),
            Some(_) => Err(Refusal::Malformed),
            None => Err(Refusal::NotNow("its key is not one of this ledger's".to_owned())),
        }
    }

    /// Moves a malformed file out of the way; where that is not allowed it stays and blocks nothing.
    fn set_aside(&self, pending: &Pending) {
        let to = Path::new("log/refused").join(pending.user.to_string()).join(pending.id.to_hex());
        let _ = self.durable.rename(&pending.path, &to);
    }
}

enum Refusal {
    Malformed,
    NotNow(String),
}

fn time_of(pending: &Pending) -> u64 {
    let parsed = pending.bytes.as_deref().and_then(|raw| Statement::parse(raw).ok().map(|s| s.iat));
    parsed.unwrap_or(u64::MAX)
}
