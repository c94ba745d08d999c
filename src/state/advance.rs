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
    let mut chunks = leaves.chunks(CHUNK);
    let mut ready = chunks.next().map(read_all);
    while let Some(read) = ready.take() {
        let following = chunks.next();
        // Reading needs no state, so the next chunk is read while this one is folded.
        rayon::in_place_scope(|scope| {
            if let Some(chunk) = following {
                scope.spawn(|_| ready = Some(read_all(chunk)));
            }
            fold_chunk(state, read, signatures, root_at, &mut standings)
        })?;
    }
    Ok(standings)
}

fn fold_chunk<E: std::error::Error + 'static>(
    state: &mut State,
    chunk: Vec<Read<'_>>,
    signatures: Signatures,
    root_at: &mut dyn FnMut(u64) -> Result<TreeHash, E>,
    standings: &mut Vec<Standing>,
) -> Result<(), Error<E>> {
    let mut roots: HashMap<u64, TreeHash> = HashMap::new();
    let first = state.size();
    let seen = chunk.iter().filter_map(|read| read.words.as_ref()?.0.payload.seen);
    let recent: HashSet<u64> = seen.map(|seen| seen.size).filter(|size| *size >= first).collect();
    let keys = keys_for(state, &chunk);
    let good: Vec<bool> = chunk.par_iter().map(|read| signature(read, signatures, &keys)).collect();
    for (Read { id, words }, signature) in chunk.into_iter().zip(good) {
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
        standings.push(state.apply_known(id, statement.as_ref().zip(known), Checks { seen, signature }));
    }
    Ok(())
}

/// A leaf as far as it can be understood without a state.
struct Read<'a> {
    id: StatementId,
    /// Absent when the leaf is not a statement in its one byte form.
    words: Option<(Statement<'a>, Vec<Judged<Known>>)>,
}

/// Parses leaves on all cores.
fn read_all<'a>(leaves: &[&'a [u8]]) -> Vec<Read<'a>> {
    let read = |leaf: &&'a [u8]| match Statement::parse(leaf) {
        Ok(statement) => {
            let known = statement.payload.claims.iter().map(know).collect();
            Read { id: statement.id, words: Some((statement, known)) }
        }
        Err(_) => Read { id: statement_id(leaf), words: None },
    };
    leaves.par_iter().map(read).collect()
}

/// Collects the keys that may have signed these statements: those known, and those that they introduce.
///
/// Whether a key had a role at its place is judged by the fold; here a key only has to be found.
fn keys_for(state: &State, chunk: &[Read<'_>]) -> HashMap<KeyId, PublicKey> {
    let mut raw: Vec<[u8; 32]> = state.keys().into_iter().map(|row| row.public).collect();
    let claims = chunk.iter().filter_map(|read| read.words.as_ref()).flat_map(|(_, known)| known);
    raw.extend(claims.flatten().filter_map(Known::public_key));
    let parse = |raw: [u8; 32]| PublicKey::parse(&raw).ok().map(|key| (key.thumbprint(), key));
    raw.into_iter().filter_map(parse).collect()
}

fn signature(read: &Read<'_>, signatures: Signatures, keys: &HashMap<KeyId, PublicKey>) -> bool {
    match (&read.words, signatures) {
        (Some((statement, _)), Signatures::Check) => {
            keys.get(&statement.kid).is_some_and(|key| statement.verify(key).is_ok())
        }
        (Some(_), Signatures::Trust) => true,
        (None, _) => false,
    }
}
