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

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;

use crate::durable::{self, Commit, Kind as FileKind};
use crate::id::{KeyId, StatementId, TreeHash};
use crate::log::HeadFile;
use crate::log::files;
use crate::log::head_file::{MAX_BATCH, MAX_BATCH_BYTES};
use crate::log::key::{PublicKey, SigningKey, thumbprint};
use crate::log::note;
use crate::log::statement::{MAX_STATEMENT, Seen, Statement};
use crate::model::{Facts, Kind, Role};
use crate::state::{Checks, Reason, Signatures, Standing, State, advance};

use super::init::sign_head;
use super::transaction::Signer;
use super::{Error, Ledger, log_keys};

/// How long a writer waits for the lock before it looks whether somebody has ordered its statement.
const TURN: Duration = Duration::from_millis(10);
/// Whoever holds the lock waits for more statements as long as one came within this time,
const QUIET: Duration = Duration::from_millis(10);
/// and so many times at most.
const TURNS: u32 = 4;

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

pub(super) fn pending_path(user: u32, id: StatementId) -> PathBuf {
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

    /// Brings this view up to the published head.
    pub fn follow(&mut self) -> Result<(), Error> {
        let head = self.log.head()?;
        if head.head().origin != self.head.head().origin {
            return Err(Error::Replaced { path: self.root.clone() });
        }
        if head.head().size > self.head.head().size {
            self.head = head;
            self.fold_to_head()?;
        }
        Ok(())
    }

    /// Brings this view up to the published head, finishing commits that were left half done; a copy stays as it is.
    pub fn refresh(&mut self) -> Result<(), Error> {
        if self.is_copy { self.follow() } else { self.roll_forward() }
    }

    /// Brings this view up to the published head and what has been committed beyond it.
    pub(super) fn roll_forward(&mut self) -> Result<(), Error> {
        loop {
            self.follow()?;
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

    /// Finishes commits that were left half done, and sets a file aside that is in their way and is none.
    ///
    /// Such a file extends the published head and is damaged, or no log key of the ledger signed it. Nothing is
    /// lost with it: what it would have committed is still pending. Returns the size that it extends.
    pub fn repair(&mut self) -> Result<Option<u64>, Error> {
        self.may_write()?;
        let is_none = |error: &Error| {
            use files::Error as Files;
            matches!(
                error,
                Error::Files(Files::HeadFile { .. } | Files::BatchRoot { .. })
                    | Error::HeadSignature { .. }
                    | Error::Genesis
                    | Error::Log(_)
            )
        };
        match self.refresh() {
            Ok(()) => Ok(None),
            Err(error) if is_none(&error) => {
                let size = self.head.head().size;
                self.log.set_aside(size)?;
                self.refresh()?;
                Ok(Some(size))
            }
            Err(error) => Err(error),
        }
    }

    /// Finishes a commit after checking that a log key signed it in the state that it closes.
    fn finish(&mut self, file: &HeadFile) -> Result<(), Error> {
        let state = self.closes(file)?;
        self.log.apply(file)?;
        self.state = state;
        self.head = file.head.clone();
        Ok(())
    }

    /// Goes on to a head that is known to have been published, by the commits that lead to it.
    ///
    /// Two who publish at once without a lock may put the older head in place of the newer one, until the next
    /// writer puts that right. The commits are still there, signed, and what they say can be read meanwhile.
    pub(super) fn catch_up(&mut self, known: u64) -> Result<(), Error> {
        while self.head.head().size < known {
            let Some(file) = self.log.head_file(self.head.head().size)? else { break };
            let state = self.closes(&file)?;
            // A commit that was never published has no tiles yet, and is nobody's past.
            let head = file.head.head();
            self.log.root_at(&self.log.tiles(), file.extends, head.size, head.root)?;
            self.log.statement(head.size, head.size - 1)?;
            self.state = state;
            self.head = file.head;
        }
        Ok(())
    }

    /// Returns the state after a commit on top of this view, if a log key signed it in that state.
    fn closes(&self, file: &HeadFile) -> Result<State, Error> {
        let mut state = self.state.clone();
        self.advance_over(&mut state, &file.statements, file.head.head().root)?;
        let head = file.head.head();
        if head.origin != self.head.head().origin {
            return Err(Error::Genesis);
        }
        let keys = log_keys(&state);
        let unsigned = |source| Error::HeadSignature { size: head.size, source };
        file.head.verify(&keys).map_err(unsigned)?;
        note::verify_receipt(&file.receipt, head.root, &keys).map_err(unsigned)?;
        Ok(state)
    }

    fn advance_over(&self, state: &mut State, statements: &[Vec<u8>], root: TreeHash) -> Result<(), Error> {
        let leaves: Vec<&[u8]> = statements.iter().map(Vec::as_slice).collect();
        let head = self.head.head();
        let tiles = self.log.tiles();
        let mut root_at = |size: u64| self.log.root_at(&tiles, size, head.size, head.root);
        advance(state, &leaves, Signatures::Check, &mut root_at).map_err(Error::Log)?;
        if state.root() == root { Ok(()) } else { Err(files::Error::BatchRoot { extends: head.size }.into()) }
    }

    /// Orders pending statements until `wanted` is in the log, or once if there is none wanted.
    pub fn sequence(&mut self, signer: &Signer<'_>, wanted: Option<StatementId>) -> Result<Sequenced, Error> {
        self.may_write()?;
        let known = self.log_key(signer);
        let Some(log_key) = known.or_else(|| self.coming_log_key(signer, wanted)) else {
            self.refresh()?;
            let why = "it waits for a writer who has a log key".to_owned();
            return Ok(self.answer(wanted, signer.user).unwrap_or(Sequenced::Waiting { why }));
        };
        let mut left_to_wait = signer.wait;
        loop {
            // Whoever holds the lock takes along all that waits, so the answer may come without our turn. Those
            // who then still queued for the lock would keep out others whose statements could go together.
            if let Some(done) = self.answer(wanted, signer.user) {
                self.after_commit();
                return Ok(done);
            }
            let slice = left_to_wait.min(TURN);
            let lock = match self.durable.lock(Path::new("log/lock"), slice) {
                Ok(lock) => lock,
                Err(durable::Error::Busy { .. }) if slice < left_to_wait => {
                    left_to_wait -= slice;
                    self.follow()?;
                    continue;
                }
                Err(error @ durable::Error::Busy { .. }) => {
                    self.follow()?;
                    let why = error.to_string();
                    return Ok(self.answer(wanted, signer.user).unwrap_or(Sequenced::Waiting { why }));
                }
                Err(error) => return Err(error.into()),
            };
            self.refresh()?;
            if wanted.is_some_and(|id| self.state.statement(id).is_some()) {
                continue;
            }
            self.gather()?;
            let (batch, state, left) = self.batch(log_key)?;
            if batch.is_empty() {
                let why = left.unwrap_or_else(|| "nothing that waits can be ordered now".to_owned());
                return Ok(Sequenced::Waiting { why });
            }
            if !state.key(log_key.public().thumbprint()).is_some_and(|row| row.has(Role::Log)) {
                let why = left.unwrap_or_else(|| "no log key at hand may sign the head after it".to_owned());
                return Ok(Sequenced::Waiting { why });
            }
            let size = self.head.head().size;
            let file = sign_head(self.id(), size, batch, state.root(), log_key)?;
            let _is_ours = self.commit_head(file, state)?;
            drop(lock);
            if wanted.is_none() {
                self.after_commit();
                return Ok(Sequenced::Waiting { why: String::new() });
            }
        }
    }

    /// Waits while more statements come, if several write at once: one head is then made of what would be many.
    ///
    /// Whoever writes alone does not wait.
    fn gather(&self) -> Result<(), Error> {
        let count = || -> Result<usize, Error> {
            let is_new = |pending: &Pending| self.state.statement(pending.id).is_none();
            Ok(self.pending()?.iter().filter(|pending| is_new(pending)).count())
        };
        let mut waiting = count()?;
        for _ in 0..TURNS {
            if waiting < 2 {
                break;
            }
            std::thread::sleep(QUIET);
            let now = count()?;
            if now <= waiting {
                break;
            }
            waiting = now;
        }
        Ok(())
    }

    /// Returns the signer's log key, if it is one of this ledger's.
    pub(super) fn log_key<'k>(&self, signer: &Signer<'k>) -> Option<&'k SigningKey> {
        let is_live = |key: &&SigningKey| {
            self.state.key(key.public().thumbprint()).is_some_and(|row| row.has(Role::Log))
        };
        signer.log.filter(is_live)
    }

    /// Returns the signer's log key if the statement that is wanted introduces it.
    ///
    /// The head that closes that statement may be signed by it, which lets an owner put new keys in the place
    /// of the old in one statement.
    fn coming_log_key<'k>(&self, signer: &Signer<'k>, wanted: Option<StatementId>) -> Option<&'k SigningKey> {
        let bytes = self.durable.read(&pending_path(signer.user, wanted?), MAX_STATEMENT).ok()??;
        let statement = Statement::parse(&bytes).ok()?;
        let is_log_key = |facts: Facts, kid: KeyId| match facts {
            Facts::Key { key, roles, .. } => thumbprint(&key) == kid && roles.contains(&Role::Log),
            _ => false,
        };
        signer.log.filter(|key| {
            let kid = key.public().thumbprint();
            key_facts(&statement).any(|facts| is_log_key(facts, kid))
        })
    }

    /// Commits and publishes a head with the state that it leads to; `false` if another one was first.
    pub(super) fn commit_head(&mut self, file: HeadFile, state: State) -> Result<bool, Error> {
        match self.log.commit(&file)? {
            Commit::Lost(_) => Ok(false),
            Commit::Won if self.log.head()?.head().size > file.extends => {
                self.settle_late_commit(&file)?;
                Ok(false)
            }
            Commit::Won => {
                self.log.apply(&file)?;
                self.state = state;
                self.head = file.head;
                // Without a lock somebody may have gone on meanwhile, and our head stands in place of theirs.
                if self.log.has_successor(self.head.head().size)? {
                    self.refresh()?;
                }
                Ok(true)
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

    pub(super) fn after_commit(&mut self) {
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
    fn batch(&self, log_key: &SigningKey) -> Result<(Vec<Vec<u8>>, State, Option<String>), Error> {
        let pending = self.pending()?;
        let mut left = None;
        let mut waiting = Vec::new();
        for (pending, admitted) in pending.iter().zip(self.admit(&pending)?) {
            match admitted {
                Ok(statement) => waiting.extend(statement),
                Err(Refusal::Malformed) => self.set_aside(pending),
                Err(Refusal::NotNow(why)) => left = Some(why),
            }
        }
        waiting.sort_unstable_by_key(|statement| (statement.iat, statement.id));
        // Somebody else's statement, copied, is the same statement.
        waiting.dedup_by_key(|statement| statement.id);
        let own_log = log_key.public().thumbprint();
        let mut state = self.state.clone();
        let (mut batch, mut bytes): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        // What links to another waiting statement is tried again after it; each round places one at least.
        loop {
            let mut rest = Vec::new();
            let before = batch.len();
            for statement in waiting {
                let standing = state.judge(&statement, Checks::GOOD);
                let may_come =
                    matches!(standing, Standing::Rejected(Reason::LinkNotAccepted | Reason::LostRace));
                if may_come || !has_room(batch.len(), bytes, &statement) {
                    rest.push((statement, standing));
                } else if standing == Standing::Accepted && ends_log_key(&statement, own_log) {
                    // It would end our own right to sign this head; another log key has to order it.
                    left = Some("it ends the only log key at hand".to_owned());
                } else {
                    state.apply(statement.id, Some(&statement), Checks::GOOD);
                    bytes += statement.bytes.len();
                    batch.push(statement.bytes.to_vec());
                }
            }
            if batch.len() == before || rest.is_empty() {
                // A lost race is an answer, which the log gives; a missing link may still come.
                for (statement, standing) in rest {
                    if standing == Standing::Rejected(Reason::LinkNotAccepted) {
                        left = Some("what it links to is not in the log".to_owned());
                    } else if has_room(batch.len(), bytes, &statement) {
                        state.apply(statement.id, Some(&statement), Checks::GOOD);
                        bytes += statement.bytes.len();
                        batch.push(statement.bytes.to_vec());
                    }
                }
                return Ok((batch, state, left));
            }
            waiting = rest.into_iter().map(|(statement, _)| statement).collect();
        }
    }

    /// Admits exact byte form, this ledger, a head of this log, and a good signature by a live key.
    ///
    /// A statement that is in the log already is admitted as nothing.
    fn admit<'p>(
        &self,
        pending: &'p [Pending],
    ) -> Result<Vec<Result<Option<Statement<'p>>, Refusal>>, Error> {
        let tiles = self.log.tiles();
        let mut roots: HashMap<u64, TreeHash> = HashMap::new();
        let head = self.head.head();
        let mut formed = Vec::with_capacity(pending.len());
        for pending in pending {
            let known = self.state.statement(pending.id).is_some();
            let parsed = if known { Ok(None) } else { self.well_formed(pending).map(Some) };
            if let Ok(Some((_, seen))) = &parsed
                && let Entry::Vacant(vacant) = roots.entry(seen.size)
            {
                // A log that does not prove its own past is damaged, and nothing may be put on top of it.
                vacant.insert(self.log.root_at(&tiles, seen.size, head.size, head.root)?);
            }
            formed.push(parsed);
        }
        let check = |(statement, seen): (Statement<'p>, Seen)| {
            let is_seen = roots.get(&seen.size) == Some(&seen.root);
            let row = self.state.key(statement.kid).filter(|row| !row.roles.is_empty());
            match row.and_then(|row| PublicKey::parse(&row.public).ok()) {
                Some(key) if is_seen && statement.verify(&key).is_ok() => Ok(Some(statement)),
                Some(_) => Err(Refusal::Malformed),
                None => Err(Refusal::NotNow("its key is not one of this ledger's".to_owned())),
            }
        };
        Ok(formed.into_par_iter().map(|parsed| parsed?.map_or(Ok(None), check)).collect())
    }

    fn well_formed<'p>(&self, pending: &'p Pending) -> Result<(Statement<'p>, Seen), Refusal> {
        let unreadable = || format!("a pending statement of user {} cannot be read", pending.user);
        let raw = pending.bytes.as_ref().ok_or_else(|| Refusal::NotNow(unreadable()))?;
        let statement = Statement::parse(raw).map_err(|_| Refusal::Malformed)?;
        if statement.id != pending.id || statement.payload.ledger != Some(self.id()) {
            return Err(Refusal::Malformed);
        }
        let seen = statement.payload.seen.ok_or(Refusal::Malformed)?;
        if seen.size == 0 {
            return Err(Refusal::Malformed);
        }
        if seen.size > self.head.head().size {
            return Err(Refusal::NotNow("its author has seen a newer log".to_owned()));
        }
        Ok((statement, seen))
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

/// Whether a batch may still take a statement: a head file above the limits could not be read again.
pub(super) fn has_room(statements: usize, bytes: usize, next: &Statement<'_>) -> bool {
    statements < MAX_BATCH && bytes + next.bytes.len() <= MAX_BATCH_BYTES
}

/// Returns the facts of a statement's claims about keys.
fn key_facts(statement: &Statement<'_>) -> impl Iterator<Item = Facts> {
    let keys = statement.payload.claims.iter().filter(|claim| claim.kind == Kind::Key.word());
    keys.filter_map(|claim| Facts::decode(Kind::Key, &claim.facts).ok())
}

/// Whether a statement takes the role `log` from a key.
fn ends_log_key(statement: &Statement<'_>, log: KeyId) -> bool {
    key_facts(statement).any(|facts| match facts {
        Facts::Key { key, roles, .. } => thumbprint(&key) == log && !roles.contains(&Role::Log),
        _ => false,
    })
}
