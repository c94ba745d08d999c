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
use crate::model::{Facts, Kind};

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
    for chunk in leaves.chunks(CHUNK) {
        let mut roots: HashMap<u64, TreeHash> = HashMap::new();
        let parsed = parse_all(chunk);
        let first = state.size();
        let seen = parsed.iter().filter_map(|(_, parsed)| parsed.as_ref()?.payload.seen);
        let recent: HashSet<u64> = seen.map(|seen| seen.size).filter(|size| *size >= first).collect();
        let keys = keys_for(state, &parsed);
        let good: Vec<bool> =
            parsed.par_iter().map(|(_, parsed)| signature(parsed.as_ref(), signatures, &keys)).collect();
        for ((id, parsed), signature) in parsed.iter().zip(good) {
            if recent.contains(&state.size()) {
                roots.insert(state.size(), state.root());
            }
            let seen = match parsed.as_ref().and_then(|statement| statement.payload.seen) {
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
            standings.push(state.apply(*id, parsed.as_ref(), Checks { seen, signature }));
        }
    }
    Ok(standings)
}

/// Parses leaves on all cores; `None` stands for one that is not a statement in its one byte form.
pub fn parse_all<'a>(leaves: &[&'a [u8]]) -> Vec<(StatementId, Option<Statement<'a>>)> {
    let one = |leaf: &&'a [u8]| match Statement::parse(leaf) {
        Ok(statement) => (statement.id, Some(statement)),
        Err(_) => (statement_id(leaf), None),
    };
    leaves.par_iter().map(one).collect()
}

/// Collects the keys that may have signed these statements: those known, and those that they introduce.
///
/// Whether a key had a role at its place is judged by the fold; here a key only has to be found.
fn keys_for(state: &State, parsed: &[(StatementId, Option<Statement<'_>>)]) -> HashMap<KeyId, PublicKey> {
    let mut raw: Vec<[u8; 32]> = state.keys().into_iter().map(|row| row.public).collect();
    for claim in parsed.iter().flat_map(|(_, parsed)| parsed).flat_map(|statement| &statement.payload.claims)
    {
        if claim.kind == Kind::Key.word()
            && let Ok(Facts::Key { key, .. }) = Facts::decode(Kind::Key, &claim.facts)
        {
            raw.push(key);
        }
    }
    let parse = |raw: [u8; 32]| PublicKey::parse(&raw).ok().map(|key| (key.thumbprint(), key));
    raw.into_iter().filter_map(parse).collect()
}

fn signature(
    parsed: Option<&Statement<'_>>,
    signatures: Signatures,
    keys: &HashMap<KeyId, PublicKey>,
) -> bool {
    match (parsed, signatures) {
        (Some(statement), Signatures::Check) => {
            keys.get(&statement.kid).is_some_and(|key| statement.verify(key).is_ok())
        }
        (Some(_), Signatures::Trust) => true,
        (None, _) => false,
    }
}
