//! The logs that a ledger goes on from, and the one line of places that they make with its own.
//!
//! ```text
//! place      0 ............ a | a ............ b | b ............
//! in the log 0 .. of the oldest | 0 .. of its child | 0 .. the ledger's own
//! ```
//!
//! Claims, links and what people see use places, so that chains do not end where a ledger begins. Heads, tiles,
//! `seen` and proofs count in one log, and [`Ledger::segment`] is where a place becomes an index in it.

use std::path::{Path, PathBuf};

use crate::durable::Durable;
use crate::id::{LedgerId, TreeHash};
use crate::log::files::{self, Visit};
use crate::log::note::SignedHead;
use crate::log::statement::Statement;
use crate::log::{Log, note};
use crate::model::{Facts, Kind};
use crate::state::{self, Parent, Signatures, State};

use super::{Error, Ledger, log_keys};

/// Directory of the logs that a ledger goes on from.
pub const PARENTS: &str = "parents";
/// A ledger that goes on from more ledgers than this, one after the other, is not read.
pub const MAX_PARENTS: usize = 64;

/// One log of the line that a ledger's statements stand on.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its files.
    pub log: Log,
    /// The ledger whose log it is.
    pub ledger: LedgerId,
    /// Place of its first statement.
    pub first: u64,
    /// Its statements.
    pub size: u64,
    /// The root over them.
    pub root: TreeHash,
}

impl Segment {
    /// Returns what a ledger would name that goes on from here.
    pub const fn as_parent(&self) -> Parent {
        Parent { ledger: self.ledger, size: self.size, root: self.root }
    }
}

/// Returns where the log of a parent lies under a ledger's root.
pub fn dir(ledger: LedgerId) -> PathBuf {
    Path::new(PARENTS).join(ledger.to_hex()).join("log")
}

/// Returns the log of a parent.
pub fn log(durable: &Durable, ledger: LedgerId) -> Log {
    Log::at(durable.clone(), &dir(ledger))
}

/// Returns the parent that a ledger's first statement names, if it is one that names any.
///
/// Whether the statement is worth anything is for the fold to say.
pub fn named(first: &[u8]) -> Option<Parent> {
    let statement = Statement::parse(first).ok()?;
    let claim = statement.payload.claims.first().filter(|claim| claim.kind == Kind::Genesis.word())?;
    match Facts::decode(Kind::Genesis, &claim.facts).ok()? {
        Facts::Genesis { parent: Some((ledger, size, root)), .. } => Some(Parent { ledger, size, root }),
        _ => None,
    }
}

/// Returns the parents that a log leads to, the oldest first, as its first statement and theirs name them.
pub fn lineage(durable: &Durable, own: &Log, size: u64) -> Result<Vec<Parent>, Error> {
    let mut found: Vec<Parent> = Vec::new();
    let mut first = own.statement(size, 0)?;
    while let Some(parent) = named(&first) {
        if found.len() == MAX_PARENTS {
            return Err(Error::TooManyParents);
        }
        found.push(parent);
        let read = log(durable, parent.ledger).statement(parent.size, 0);
        first = read.map_err(|error| of_parent(parent.ledger, error.into()))?;
    }
    found.reverse();
    Ok(found)
}

fn of_parent(ledger: LedgerId, source: Error) -> Error {
    Error::Parent { ledger, source: Box::new(source) }
}

/// Returns the published head of a parent's log, which must be the one that is gone on from.
pub fn head_of(log: &Log, parent: &Parent) -> Result<SignedHead, Error> {
    let signed = log.head().map_err(|error| of_parent(parent.ledger, error.into()))?;
    let head = signed.head();
    if head.origin != note::origin(parent.ledger) {
        return Err(of_parent(parent.ledger, Error::Genesis));
    }
    if (head.size, head.root) == (parent.size, parent.root) {
        Ok(signed)
    } else {
        let source = state::Error::Diverges { size: parent.size, expected: parent.root, found: head.root };
        Err(of_parent(parent.ledger, Error::Log(source)))
    }
}

/// Folds a parent's log on a state, and returns the state in which the ledger after it begins.
fn fold(durable: &Durable, mut state: State, parent: &Parent) -> Result<State, Error> {
    let log = log(durable, parent.ledger);
    let head = head_of(&log, parent)?;
    fold_log(&mut state, &log, parent.size, parent.root).map_err(|error| of_parent(parent.ledger, error))?;
    let wrong = |source| Err(of_parent(parent.ledger, source));
    if (state.size(), state.root()) != (parent.size, parent.root) {
        let found = state.root();
        return wrong(Error::Log(state::Error::Diverges { size: parent.size, expected: parent.root, found }));
    }
    if state.ledger() != Some(parent.ledger) || !state.is_founded() {
        return wrong(Error::Genesis);
    }
    match head.verify(&log_keys(&state)) {
        Ok(_) => Ok(state.forked()),
        Err(source) => wrong(Error::HeadSignature { size: parent.size, source }),
    }
}

/// Folds all logs that lead to one, with all signatures and heads checked.
pub(super) fn before(durable: &Durable, own: &Log, size: u64) -> Result<State, Error> {
    let parents = lineage(durable, own, size)?;
    parents.iter().try_fold(State::new(), |state, parent| fold(durable, state, parent))
}

/// Folds the statements of one log between a state and a head, with all signatures checked.
pub(super) fn fold_log(state: &mut State, log: &Log, size: u64, root: TreeHash) -> Result<(), Error> {
    /// Statements that are folded at a time.
    const CHUNK: usize = 4096;
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    let tiles = log.tiles();
    let fold = |leaves: &mut Vec<Vec<u8>>, state: &mut State| {
        let batch: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        let mut root_at = |past| log.root_at(&tiles, past, size, root);
        state::advance(state, &batch, Signatures::Check, &mut root_at).map_err(Error::Log)?;
        leaves.clear();
        Ok::<(), Error>(())
    };
    log.statements::<Error>(size, state.size(), &mut |_, entries| {
        leaves.extend(entries.iter().map(|entry| entry.to_vec()));
        if leaves.len() >= CHUNK { fold(&mut leaves, state) } else { Ok(()) }
    })?;
    fold(&mut leaves, state)
}

impl Ledger {
    /// Returns the logs of the parents, the oldest first, and then the ledger's own.
    pub fn segments(&self) -> Vec<Segment> {
        let mut first = 0;
        let mut segments = Vec::with_capacity(self.state.parents().len() + 1);
        for Parent { ledger, size, root } in self.state.parents().iter().copied() {
            segments.push(Segment { log: log(&self.durable, ledger), ledger, first, size, root });
            first += size;
        }
        let head = self.head.head();
        let (size, root) = (head.size, head.root);
        segments.push(Segment { log: self.log.clone(), ledger: self.id(), first, size, root });
        segments
    }

    /// Returns the log in which the statement at a place stands, and its index there.
    ///
    /// A place behind the last statement is one of the own log, which will say that it has none.
    pub fn segment(&self, place: u64) -> (Segment, u64) {
        let (mut log, mut first) = (None, 0);
        for parent in self.state.parents() {
            if place < first + parent.size {
                log = Some(*parent);
                break;
            }
            first += parent.size;
        }
        let segment = if let Some(Parent { ledger, size, root }) = log {
            Segment { log: self::log(&self.durable, ledger), ledger, first, size, root }
        } else {
            let head = self.head.head();
            let (size, root) = (head.size, head.root);
            Segment { log: self.log.clone(), ledger: self.id(), first, size, root }
        };
        let index = place - segment.first;
        (segment, index)
    }

    /// Returns the number of statements under the head, those in the logs of parents included.
    pub fn places(&self) -> u64 {
        self.state.base() + self.head.head().size
    }

    /// Reads the statements at places `from..to`, and hands them over with the place of the first of each few.
    pub fn statements<E: From<files::Error>>(
        &self,
        from: u64,
        to: u64,
        visit: &mut Visit<'_, E>,
    ) -> Result<(), E> {
        for Segment { log, first, size, .. } in self.segments() {
            let (begin, end) = (from.max(first), to.min(first + size));
            if begin < end {
                log.statements::<E>(end - first, begin - first, &mut |at, entries| {
                    visit(first + at, entries)
                })?;
            }
        }
        Ok(())
    }

    /// Makes sure that the logs of parents are there, as far as their heads tell.
    pub(super) fn check_parents(&self) -> Result<(), Error> {
        for parent in self.state.parents() {
            let _head = head_of(&log(&self.durable, parent.ledger), parent)?;
        }
        Ok(())
    }
}
