//! Searching the log backwards: which accepted claims link to a thing, or are about it.
//!
//! With an index the places of such claims are looked up, and each is read in the log: the index is only ever
//! believed about where to look. That nothing is missing follows from its stamp, which names a prefix of this
//! log; what came after is read. Without an index the log is read whole, which `scan.rs` does. Whoever asks gets
//! the same claims either way, and can ask why there was no index.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::durable::outside;
use crate::id::ObjectId;
use crate::index::{self, Extent, Index};
use crate::log::statement::Statement;
use crate::model::Kind;
use crate::state::{Place, Standing};

use super::reader::Reader;
use super::scan::{Mentions, postings};
use super::{Error, Ledger, Stated};

/// How often a search looks whether another process has left the index,
const TRIES: u32 = 8;
/// and how long it waits in between. Eight of these are well under the time of a scan.
const PAUSE: Duration = Duration::from_millis(20);

/// A search over one view of a ledger.
#[derive(Debug)]
pub struct Search<'a> {
    ledger: &'a Ledger,
    leads: fn(&str) -> bool,
    source: Source,
    reader: Reader<'a>,
}

#[derive(Debug)]
enum Source {
    /// The index, and the places in the statements after it.
    Index(Box<Index>, HashMap<ObjectId, Vec<Place>>),
    /// What was found so far by reading the log, and why there is no index.
    Scan(Mentions, String),
}

/// Why the index is not asked any more.
enum Failed {
    Index(String),
    Ledger(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ledger(error)
    }
}

impl From<index::Error> for Failed {
    fn from(error: index::Error) -> Self {
        Self::Index(error.to_string())
    }
}

impl Ledger {
    /// Begins a search that follows links in roles of which `leads` says yes.
    ///
    /// The index is made or brought up to date first, if it is worth it and nothing is in the way.
    pub fn search(&self, leads: fn(&str) -> bool) -> Result<Search<'_>, Error> {
        let source = match self.source() {
            Ok(source) => source,
            Err(Failed::Index(why)) => Source::Scan(Mentions::default(), why),
            Err(Failed::Ledger(error)) => return Err(error),
        };
        Ok(Search { ledger: self, leads, source, reader: self.reader() })
    }

    fn source(&self) -> Result<Source, Failed> {
        let head = self.head.head();
        let places = self.places();
        if places < self.home.index_from {
            return Err(Failed::Index(format!("a log of {places} statements is read faster")));
        }
        let dir = self.home.index_path(self.id());
        let dir = dir.ok_or_else(|| Failed::Index("there is no cache directory".to_owned()))?;
        let mut index = match self.open_index(&dir)? {
            Some(index) => index,
            None => self.make_index(&dir)?,
        };
        let size = index.extent().size;
        if head.size - size > self.home.index_lag {
            let added = postings(self, self.state.base() + size)?;
            index.advance(self.extent(), added)?;
        }
        let mut after: HashMap<ObjectId, Vec<Place>> = HashMap::new();
        let from = self.state.base() + index.extent().size;
        self.statements::<Error>(from, places, &mut |first, entries| {
            for (entry, at) in entries.iter().zip(first as u32..) {
                let Ok(statement) = Statement::parse(entry) else { continue };
                for (claim, position) in statement.payload.claims.iter().zip(0u16..) {
                    let place = Place { index: at, position };
                    let ids = claim.links.iter().map(|link| link.id).chain([claim.object]);
                    ids.for_each(|id| after.entry(id).or_default().push(place));
                }
            }
            Ok(())
        })?;
        Ok(Source::Index(Box::new(index), after))
    }

    fn extent(&self) -> Extent {
        let head = self.head.head();
        Extent { ledger: self.id(), size: head.size, root: head.root }
    }

    /// Opens the index if it is one of a prefix of this log; `None` if one has to be made.
    fn open_index(&self, dir: &Path) -> Result<Option<Index>, Failed> {
        let mut tries = 0;
        let index = loop {
            match Index::open(dir) {
                Err(index::Error::Busy) if tries < TRIES => thread::sleep(PAUSE),
                Err(error @ index::Error::Busy) => return Err(error.into()),
                Err(_) => return Ok(None),
                Ok(index) => break index,
            }
            tries += 1;
        };
        let (extent, head) = (*index.extent(), self.head.head());
        if extent.ledger != self.id() || extent.size == 0 || extent.size > head.size {
            return Ok(None);
        }
        let tiles = self.log.tiles();
        let root = self.log.root_at(&tiles, extent.size, head.size, head.root);
        Ok((root.is_ok_and(|root| root == extent.root)).then_some(index))
    }

    fn make_index(&self, dir: &Path) -> Result<Index, Failed> {
        let disk = self.durable.disk();
        let emptied = outside::remove_dir(disk, dir).and_then(|()| outside::make_dir(disk, dir));
        emptied.map_err(|error| Failed::Index(format!("no index can be made: {error}")))?;
        Ok(Index::make(dir, self.extent(), postings(self, 0)?)?)
    }

    /// Throws the index away; the next question that wants one makes it.
    pub fn drop_index(&self) -> Result<(), Error> {
        let Some(dir) = self.home.index_path(self.id()) else { return Ok(()) };
        Ok(outside::remove_dir(self.durable.disk(), &dir)?)
    }
}

impl Search<'_> {
    /// Returns why no index answered, if none did.
    pub fn without_index(&self) -> Option<&str> {
        match &self.source {
            Source::Index(..) => None,
            Source::Scan(_, why) => Some(why),
        }
    }

    /// Returns the accepted claims that link to any of these objects in a role that leads on, in log order.
    ///
    /// If the index turns out to be damaged, it is dropped, and the log is read. What was answered before may
    /// then have lacked something, so a caller who sees [`Self::without_index`] change asks again.
    pub fn linking_to(&mut self, ids: &[ObjectId]) -> Result<Vec<Stated>, Error> {
        loop {
            match self.found(ids) {
                Ok(found) => return Ok(found),
                Err(Failed::Ledger(error)) => return Err(error),
                // Only an index fails so, and the scan has none.
                Err(Failed::Index(why)) => self.source = Source::Scan(Mentions::default(), why),
            }
            // An index that cannot be removed is found damaged again by whoever asks next.
            let _ = self.ledger.drop_index();
        }
    }

    fn found(&mut self, ids: &[ObjectId]) -> Result<Vec<Stated>, Failed> {
        let wanted: HashSet<&ObjectId> = ids.iter().collect();
        let mut places = BTreeSet::new();
        match &mut self.source {
            Source::Index(index, after) => {
                for id in &wanted {
                    places.extend(index.places(id)?.into_iter().map(|place| (place, Some(**id))));
                    places.extend(after.get(id).into_iter().flatten().map(|place| (*place, None)));
                }
            }
            Source::Scan(mentions, _) => {
                let found = mentions.of(self.ledger, ids, self.leads)?;
                places.extend(found.into_iter().map(|place| (place, None)));
            }
        }
        let mut found: Vec<Stated> = Vec::new();
        for (place, said) in places {
            let stated = match found.last() {
                Some(last) if last.place == place => last.clone(),
                _ => match (self.reader.stated(place), said) {
                    (Ok(stated), _) => stated,
                    (Err(_), Some(_)) => return Err(wrong()),
                    (Err(error), None) => return Err(error.into()),
                },
            };
            // The index knows the beginnings of ids, which another object may share.
            if let Some(id) = said {
                let ids = stated.links.iter().map(|(_, to)| &to.id).chain([&stated.object.id]);
                if !ids.into_iter().any(|other| Index::is_same(&id, other)) {
                    return Err(wrong());
                }
            }
            let leads = stated.links.iter().any(|(role, to)| (self.leads)(role) && wanted.contains(&to.id));
            let is_new = found.last().is_none_or(|last| last.place != place);
            if leads && is_new && self.is_accepted(&stated) {
                found.push(stated);
            }
        }
        Ok(found)
    }

    fn is_accepted(&self, stated: &Stated) -> bool {
        let known = self.ledger.state.statement(stated.claim.statement);
        known.is_some_and(|(_, standing)| standing == Standing::Accepted)
    }
}

fn wrong() -> Failed {
    Failed::Index("the index says what the log does not".to_owned())
}

/// Returns what a search looks for next when it has found a claim: its object, and a checkpoint's weights, by
/// which evaluations name it.
pub(super) fn next_of(stated: &Stated) -> impl Iterator<Item = ObjectId> {
    let weights = stated.link("weights").filter(|_| stated.object.kind == Kind::Checkpoint);
    [stated.object.id].into_iter().chain(weights.map(|id| id.id))
}
