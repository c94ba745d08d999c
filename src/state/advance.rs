//! Advancing a state over the tail of a log: parse and check signatures on all cores, then fold in order.
//!
//! `seen` and signatures are checked here and not by the fold, which takes them as given. Where roots of
//! past sizes come from is the caller's business.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use crate::id::{KeyId, StatementId, TreeHash, statement_id};
use crate::log::head_file::MAX_BATCH;
use crate::log::key::PublicKey;
use crate::log::statement::Statement;

use super::fold::{Judged, Known, know};
use super::{Checks, Standing, State};

/// Statements that are parsed and checked at a time. A commit has no more, so it is one chunk.
const CHUNK: usize = MAX_BATCH;

/// Whether signatures are checked while folding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signatures {
    /// Check every signature.
    Check,
    /// Take them as good: only for statements whose signatures were checked before.
    Trust,
}

/// Why a log cannot be folded. What is wrong with a single statement is its standing, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E: std::error::Error + 'static> {
    /// The root of a past size could not be had.
    #[error("the log's root at size {size} cannot be read")]
    Root {
        /// The past size.
        size: u64,
        /// Why.
        #[source]
        source: E,
    },
    /// The statements do not lead to the root that the head signs.
    #[error("the statements give the root {found} at size {size}, the tree head says {expected}")]
    Diverges {
        /// Size of the head.
        size: u64,
        /// Root in the head.
        expected: TreeHash,
        /// Root of the statements.
        found: TreeHash,
    },
}

/// One leaf and what the fold said of it.
#[derive(Debug)]
pub struct Folded<'a> {
    /// Its leaf hash.
    pub id: StatementId,
    /// Absent when the leaf is not a statement in its one byte form.
    pub statement: Option<Statement<'a>>,
    /// What the fold said.
    pub standing: Standing,
}

/// Receives leaves in their order as soon as they are folded, up to [`MAX_BATCH`] at a time.
pub type Told<'t, E> = dyn FnMut(&[Folded<'_>]) -> Result<(), E> + 't;

/// Folds leaves, in order, onto a state, and returns what the fold said of each.
///
/// `root_at` gives the log's root at a past size. It is not asked for sizes that lie within a commit or a
/// chunk: those the state passes itself, so that the answer does not hang on who folds, and since most authors
/// saw a recent head, few roots have to be proven from tiles.
pub fn advance<E: std::error::Error + 'static>(
    state: &mut State,
    leaves: &[&[u8]],
    signatures: Signatures,
    root_at: &mut dyn FnMut(u64) -> Result<TreeHash, E>,
) -> Result<Vec<Standing>, Error<E>> {
    let mut standings = Vec::with_capacity(leaves.len());
    advance_telling(state, leaves, signatures, root_at, &mut |folded| {
        standings.extend(folded.iter().map(|one| one.standing));
        Ok(())
    })?;
    Ok(standings)
}

/// Does what [`advance`] does, and hands over the leaves as they were read, so that nobody parses them again.
///
/// An error of `told` ends the folding, and is returned as one about the root at that size.
pub fn advance_telling<E: std::error::Error + 'static>(
    state: &mut State,
    leaves: &[&[u8]],
    signatures: Signatures,
    root_at: &mut dyn FnMut(u64) -> Result<TreeHash, E>,
    told: &mut Told<'_, E>,
) -> Result<(), Error<E>> {
    let mut keys = Keys::of(state, signatures);
    let mut chunks = leaves.chunks(CHUNK);
    let mut ready = chunks.next().map(|chunk| read_all(chunk, &mut keys));
    while let Some(read) = ready.take() {
        let following = chunks.next();
        // Neither reading nor signatures need the state, so the next chunk is made ready while this one is folded.
        rayon::in_place_scope(|scope| {
            if let Some(chunk) = following {
                scope.spawn(|_| ready = Some(read_all(chunk, &mut keys)));
            }
            fold_chunk(state, read, root_at, told)
        })?;
    }
    Ok(())
}

fn fold_chunk<E: std::error::Error + 'static>(
    state: &mut State,
    chunk: Vec<Read<'_>>,
    root_at: &mut dyn FnMut(u64) -> Result<TreeHash, E>,
    told: &mut Told<'_, E>,
) -> Result<(), Error<E>> {
    let mut roots: HashMap<u64, TreeHash> = HashMap::new();
    let mut folded = Vec::with_capacity(chunk.len());
    let first = state.size();
    let seen = chunk.iter().filter_map(|read| read.words.as_ref()?.0.payload.seen);
    let recent: HashSet<u64> = seen.map(|seen| seen.size).filter(|size| *size >= first).collect();
    for Read { id, words, signature } in chunk {
        if recent.contains(&state.size()) {
            roots.insert(state.size(), state.root());
        }
        let seen = match words.as_ref().and_then(|(statement, _)| statement.payload.seen) {
            None => true,
            Some(seen) if !(1..=state.size()).contains(&seen.size) => false,
            Some(seen) => {
                let size = seen.size;
                if let Entry::Vacant(vacant) = roots.entry(size) {
                    vacant.insert(root_at(size).map_err(|source| Error::Root { size, source })?);
                }
                roots.get(&size) == Some(&seen.root)
            }
        };
        let (statement, known) = words.unzip();
        let standing = state.apply_known(id, statement.as_ref().zip(known), Checks { seen, signature });
        folded.push(Folded { id, statement, standing });
    }
    told(&folded).map_err(|source| Error::Root { size: state.size(), source })
}

/// A leaf as far as it can be understood without a state.
struct Read<'a> {
    id: StatementId,
    /// Absent when the leaf is not a statement in its one byte form.
    words: Option<(Statement<'a>, Vec<Judged<Known>>)>,
    /// Whether it is signed by the key that it names.
    signature: bool,
}

/// The keys that may have signed what is folded: those of the state, and those that leaves so far introduce.
///
/// Whether a key had a role at its place is judged by the fold; here a key only has to be found.
struct Keys {
    signatures: Signatures,
    known: HashMap<KeyId, PublicKey>,
}

impl Keys {
    fn of(state: &State, signatures: Signatures) -> Self {
        let mut keys = Self { signatures, known: HashMap::new() };
        if signatures == Signatures::Check {
            state.keys().iter().for_each(|row| keys.add(&row.public));
        }
        keys
    }

    fn add(&mut self, raw: &[u8; 32]) {
        if let Ok(key) = PublicKey::parse(raw) {
            self.known.insert(key.thumbprint(), key);
        }
    }

    fn is_signed(&self, statement: &Statement<'_>) -> bool {
        match self.signatures {
            Signatures::Check => {
                self.known.get(&statement.kid).is_some_and(|key| statement.verify(key).is_ok())
            }
            Signatures::Trust => true,
        }
    }
}

/// Parses leaves and checks their signatures, on all cores.
fn read_all<'a>(leaves: &[&'a [u8]], keys: &mut Keys) -> Vec<Read<'a>> {
    let read = |leaf: &&'a [u8]| match Statement::parse(leaf) {
        Ok(statement) => {
            let known = statement.payload.claims.iter().map(know).collect();
            Read { id: statement.id, words: Some((statement, known)), signature: false }
        }
        Err(_) => Read { id: statement_id(leaf), words: None, signature: false },
    };
    let mut all: Vec<Read<'a>> = leaves.par_iter().map(read).collect();
    if keys.signatures == Signatures::Check {
        let claims = all.iter().filter_map(|read| read.words.as_ref()).flat_map(|(_, known)| known);
        claims.flatten().filter_map(Known::public_key).for_each(|raw| keys.add(&raw));
    }
    all.par_iter_mut().for_each(|read| {
        read.signature = read.words.as_ref().is_some_and(|(statement, _)| keys.is_signed(statement));
    });
    all
}
