//! Reading the whole log for claims that link to things: what answers a question when there is no index.
//!
//! A statement is parsed only if it holds an id that is looked for: ids stand in it as byte strings of 32, which
//! are found without knowing the rest. Links point back as a rule, so one pass from the front finds nearly all
//! that leads on from what it has found; what is named before it is claimed takes another one.

use std::collections::{BTreeSet, HashMap, HashSet};

use rayon::prelude::*;

use crate::id::ObjectId;
use crate::index::Posting;
use crate::log::statement::Statement;
use crate::log::tile::FULL;
use crate::state::{Place, Standing};

use super::search::next_of;
use super::{Error, Ledger, Stated, claims_of};

/// Statements that are read at a time: some bundles on every core, and no more memory than a few of them.
const BLOCK: u64 = 64 * FULL as u64;

/// What links to what, as far as it was looked for.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    sought: HashSet<ObjectId>,
    found: HashMap<ObjectId, BTreeSet<Place>>,
}

impl Mentions {
    /// Returns the places of accepted claims that link to any of these in a role that leads on.
    pub(super) fn of(
        &mut self,
        ledger: &Ledger,
        ids: &[ObjectId],
        leads: fn(&str) -> bool,
    ) -> Result<BTreeSet<Place>, Error> {
        let unknown: HashSet<ObjectId> = ids.iter().filter(|id| !self.sought.contains(id)).copied().collect();
        if !unknown.is_empty() {
            self.seek(ledger, unknown, leads)?;
        }
        Ok(ids.iter().filter_map(|id| self.found.get(id)).flatten().copied().collect())
    }

    /// Looks for links to these, to what links to them, and so on.
    fn seek(
        &mut self,
        ledger: &Ledger,
        mut ids: HashSet<ObjectId>,
        leads: fn(&str) -> bool,
    ) -> Result<(), Error> {
        let size = ledger.places();
        // Past `until` everything was compared with all of `ids` already.
        let mut until = size;
        while !ids.is_empty() {
            self.sought.extend(ids.iter().copied());
            let mut wanted = Wanted::new(ids);
            let (mut added, mut last) = (HashSet::new(), 0);
            let mut at = 0;
            let mut ready = read(ledger, at, size)?;
            while at < until {
                let next = at + BLOCK;
                let (new, read) = rayon::join(
                    || self.fold(ledger, &ready, &mut wanted, leads),
                    || if next < until { read(ledger, next, size) } else { Ok(Vec::new()) },
                );
                if !new.is_empty() {
                    // These are looked for from here on, so the pass goes to the end, and the next one to here.
                    (until, last) = (size, next.min(size));
                    added.extend(new);
                }
                ready = match read? {
                    bundles if bundles.is_empty() && next < until => self::read(ledger, next, size)?,
                    bundles => bundles,
                };
                at = next;
            }
            (ids, until) = (added, last);
        }
        Ok(())
    }

    /// Takes what is wanted from bundles, in order, and returns what is to be looked for from now on.
    fn fold(
        &mut self,
        ledger: &Ledger,
        bundles: &[Bundle],
        wanted: &mut Wanted,
        leads: fn(&str) -> bool,
    ) -> Vec<ObjectId> {
        let mut new = Vec::new();
        for bundle in bundles {
            let mut start = 0;
            for (end, index) in bundle.ends.iter().zip(bundle.first..) {
                let entry = &bundle.bytes[start..*end];
                let ids = &bundle.ids[bundle.ids.partition_point(|at| *at < start)..];
                let ids = ids.iter().take_while(|at| **at < *end);
                start = *end;
                if !ids.into_iter().any(|at| wanted.has(&bundle.bytes[*at..*at + 32])) {
                    continue;
                }
                let Ok(statement) = Statement::parse(entry) else { continue };
                let standing = ledger.state().statement(statement.id);
                if standing.is_none_or(|(_, standing)| standing != Standing::Accepted) {
                    continue;
                }
                for stated in claims_of(index, &statement) {
                    new.extend(self.take(&stated, wanted, leads));
                }
            }
        }
        new
    }

    fn take(&mut self, stated: &Stated, wanted: &mut Wanted, leads: fn(&str) -> bool) -> Vec<ObjectId> {
        let targets = stated.links.iter().filter(|(role, _)| leads(role)).map(|(_, to)| to.id);
        let targets: Vec<ObjectId> = targets.filter(|id| wanted.ids.contains(id)).collect();
        if targets.is_empty() {
            return Vec::new();
        }
        for target in targets {
            self.found.entry(target).or_default().insert(stated.place);
        }
        let mut new: Vec<ObjectId> = next_of(stated).collect();
        new.retain(|id| self.sought.insert(*id));
        for id in &new {
            wanted.add(*id);
        }
        new
    }
}

/// Ids that are looked for. Nearly all that are asked about are not among them, which two of their bytes tell.
struct Wanted {
    ids: HashSet<ObjectId>,
    begins: Vec<u64>,
}

impl Wanted {
    fn new(ids: HashSet<ObjectId>) -> Self {
        let mut wanted = Self { ids: HashSet::new(), begins: vec![0; 1 << 10] };
        for id in ids {
            wanted.add(id);
        }
        wanted
    }

    fn add(&mut self, id: ObjectId) {
        let (word, bit) = Self::place(id.as_bytes());
        self.begins[word] |= bit;
        self.ids.insert(id);
    }

    fn has(&self, id: &[u8]) -> bool {
        let (word, bit) = Self::place(id);
        self.begins[word] & bit != 0
            && id.try_into().is_ok_and(|id| self.ids.contains(&ObjectId::from_bytes(id)))
    }

    fn place(id: &[u8]) -> (usize, u64) {
        (usize::from(id[0]) << 2 | usize::from(id[1] >> 6), 1 << (id[1] & 63))
    }
}

/// One bundle's statements, one behind the other, and where ids may stand in them.
struct Bundle {
    first: u32,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: Vec<usize>,
}

/// Reads the bundles of one block on all cores.
fn read(ledger: &Ledger, from: u64, size: u64) -> Result<Vec<Bundle>, Error> {
    let upto = size.min(from + BLOCK);
    let starts: Vec<u64> = (from..upto).step_by(usize::from(FULL)).collect();
    starts.into_par_iter().map(|first| bundle(ledger, first, upto.min(first + u64::from(FULL)))).collect()
}

fn bundle(ledger: &Ledger, first: u64, upto: u64) -> Result<Bundle, Error> {
    let mut bundle = Bundle { first: first as u32, bytes: Vec::new(), ends: Vec::new(), ids: Vec::new() };
    ledger.statements::<Error>(first, upto, &mut |_, entries| {
        bundle.bytes.reserve(entries.iter().map(|entry| entry.len()).sum());
        for entry in entries {
            let start = bundle.bytes.len();
            bundle.bytes.extend_from_slice(entry);
            bundle.ends.push(bundle.bytes.len());
            bundle.ids.extend(byte_strings(entry).map(|at| start + at));
        }
        Ok(())
    })?;
    Ok(bundle)
}

/// Returns where byte strings of 32 may begin: behind each head of one, wherever it stands.
fn byte_strings(entry: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let heads = entry.windows(2).enumerate().filter(|(_, head)| *head == [0x58, 32]);
    heads.map(|(at, _)| at + 2).filter(|at| at + 32 <= entry.len())
}

/// Returns what the statements from a place on are about or link to, whatever the fold says of them.
pub(super) fn postings(ledger: &Ledger, from: u64) -> Result<Vec<Posting>, Error> {
    let size = ledger.places();
    let full = u64::from(FULL);
    let bundles: Vec<u64> = (from / full..size.div_ceil(full)).collect();
    let of = |n: u64| -> Result<Vec<Posting>, Error> {
        let mut found = Vec::new();
        ledger.statements::<Error>(from.max(n * full), size.min((n + 1) * full), &mut |first, entries| {
            for (entry, index) in entries.iter().zip(first as u32..) {
                let Ok(statement) = Statement::parse(entry) else { continue };
                for (claim, position) in statement.payload.claims.iter().zip(0u16..) {
                    let place = Place { index, position };
                    let ids = claim.links.iter().map(|link| &link.id).chain([&claim.object]);
                    found.extend(ids.map(|id| Posting::new(id, place)));
                }
            }
            Ok(())
        })?;
        Ok(found)
    };
    let found: Vec<Vec<Posting>> = bundles.into_par_iter().map(of).collect::<Result<_, Error>>()?;
    Ok(found.concat())
}
