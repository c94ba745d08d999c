//! The objects of one store while it is checked: each is read and hashed once, by whoever comes first.
//!
//! What an object means is not known here.

use std::collections::HashMap;
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

/// The objects of a store by their names.
pub(super) struct Shelf<'a> {
    store: Store,
    ids: Vec<ObjectId>,
    known: HashMap<ObjectId, AtomicU8>,
    wrong: Mutex<Vec<(ObjectId, store::Error)>>,
    bytes: AtomicU64,
    progress: Option<&'a Progress<'a>>,
}

impl<'a> Shelf<'a> {
    /// Takes a store and the names in it; without `progress`, nothing is kept of what was wrong.
    pub(super) fn new(store: Store, ids: Vec<ObjectId>, progress: Option<&'a Progress<'a>>) -> Self {
        let known = ids.iter().map(|id| (*id, AtomicU8::new(UNREAD))).collect();
        Self { store, ids, known, wrong: Mutex::default(), bytes: AtomicU64::new(0), progress }
    }

    /// Whether there is a file of that name.
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.known.contains_key(&id)
    }

    /// Whether an object was read, and was it.
    pub(super) fn is_sound(&self, id: ObjectId) -> bool {
        self.known.get(&id).is_some_and(|known| known.load(Ordering::Relaxed) == SOUND)
    }

    /// Whether an object was read, and was not it.
    pub(super) fn is_wrong(&self, id: ObjectId) -> bool {
        self.progress.is_some()
            && self.known.get(&id).is_some_and(|known| known.load(Ordering::Relaxed) == WRONG)
    }

    /// Returns an object that is there and sound, and no larger than a record.
    pub(super) fn read(&self, id: ObjectId) -> Option<Vec<u8>> {
        let known = self.known.get(&id)?;
        if known.load(Ordering::Relaxed) == WRONG {
            return None;
        }
        match self.store.examine(id, MAX_RECORD) {
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
                if known.swap(WRONG, Ordering::Relaxed) != WRONG {
                    self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push((id, error));
                }
                None
            }
        }
    }

    /// Reads what was not read yet.
    pub(super) fn read_rest(&self) {
        let is_unread = |id: &&ObjectId| !(self.is_sound(**id) || self.is_wrong(**id));
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
