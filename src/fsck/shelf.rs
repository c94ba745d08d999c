//! The objects of one store while it is checked: each file is read and hashed once, by whoever comes first.
//!
//! Packs are checked before. Of several copies of an object a sound one is good enough for whoever needs it.
//! What an object means is not known here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::id::ObjectId;
use crate::store::{self, Store};

use super::{Done, MAX_RECORD, Progress};

/// What is known of an object's file.
const UNREAD: u8 = 0;
const SOUND: u8 = 1;
const WRONG: u8 = 2;
/// Its file is missing or wrong, and a pack has it.
const PACKED: u8 = 3;

/// The objects of a store by their names.
pub(super) struct Shelf<'a> {
    store: Store,
    ids: Vec<ObjectId>,
    known: HashMap<ObjectId, AtomicU8>,
    /// What packs have, and is sound there.
    packed: HashSet<ObjectId>,
    wrong: Mutex<Vec<(ObjectId, store::Error)>>,
    bytes: AtomicU64,
    progress: Option<&'a Progress<'a>>,
}

impl<'a> Shelf<'a> {
    /// Takes a store and the names in it; without `progress`, nothing is kept of what was wrong.
    pub(super) fn new(store: Store, ids: Vec<ObjectId>, progress: Option<&'a Progress<'a>>) -> Self {
        let known = ids.iter().map(|id| (*id, AtomicU8::new(UNREAD))).collect();
        let (packed, wrong, bytes) = (HashSet::new(), Mutex::default(), AtomicU64::new(0));
        Self { store, ids, known, packed, wrong, bytes, progress }
    }

    /// Adds what lies in a pack.
    pub(super) fn add_packed(&mut self, id: ObjectId, is_sound: bool) {
        if is_sound {
            self.packed.insert(id);
        }
        let fresh = if is_sound { PACKED } else { WRONG };
        let known = self.known.entry(id).or_insert_with(|| AtomicU8::new(fresh));
        if is_sound && *known.get_mut() == WRONG {
            *known.get_mut() = PACKED;
        }
    }

    /// Whether there is a file of that name.
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.known.contains_key(&id)
    }

    fn state(&self, id: ObjectId) -> Option<u8> {
        self.known.get(&id).map(|known| known.load(Ordering::Relaxed))
    }

    /// Whether an object was read, and was it.
    pub(super) fn is_sound(&self, id: ObjectId) -> bool {
        matches!(self.state(id), Some(SOUND | PACKED))
    }

    /// Whether an object was read, and was not it.
    pub(super) fn is_wrong(&self, id: ObjectId) -> bool {
        self.progress.is_some() && self.state(id) == Some(WRONG)
    }

    /// Returns an object that is there and sound, and no larger than a record.
    pub(super) fn read(&self, id: ObjectId) -> Option<Vec<u8>> {
        let known = self.known.get(&id)?;
        match known.load(Ordering::Relaxed) {
            WRONG => return None,
            PACKED => return self.store.get(id, MAX_RECORD).ok(),
            _ => {}
        }
        if self.progress.is_none() {
            // Where it lies is of no interest, and what is wrong with it is not asked.
            return self.store.get(id, MAX_RECORD).ok();
        }
        match self.store.examine_loose(id, MAX_RECORD) {
            Ok((size, bytes)) => {
                if known.swap(SOUND, Ordering::Relaxed) == UNREAD {
                    self.bytes.fetch_add(size, Ordering::Relaxed);
                    if let Some(progress) = self.progress {
                        progress(Done::Bytes(size));
                    }
                }
                bytes
            }
            Err(error) => {
                let is_packed = self.packed.contains(&id);
                if known.swap(if is_packed { PACKED } else { WRONG }, Ordering::Relaxed) == UNREAD {
                    self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push((id, error));
                }
                if is_packed { self.store.get(id, MAX_RECORD).ok() } else { None }
            }
        }
    }

    /// Reads what was not read yet.
    pub(super) fn read_rest(&self) {
        let is_unread = |id: &&ObjectId| self.state(**id) == Some(UNREAD);
        self.ids.par_iter().filter(is_unread).for_each(|id| {
            self.read(*id);
        });
    }

    /// Returns the bytes of all sound objects that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the names whose files are not what they say, in order, with the reasons; once.
    pub(super) fn wrong(&self) -> Vec<(ObjectId, store::Error)> {
        let mut wrong = std::mem::take(&mut *self.wrong.lock().unwrap_or_else(PoisonError::into_inner));
        wrong.sort_unstable_by_key(|(id, _)| *id);
        wrong
    }
}
