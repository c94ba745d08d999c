//! What one user keeps about ledgers outside of them: the last head seen, the State file, and where the index lies.
//!
//! The head guards against a log that was rolled back or forked, so it lies with the user's state and not in
//! the cache. The State file only saves time. Neither is needed: without a writable home every command works
//! and says with `-v` what it could not keep.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::durable::{Disk, Durable, outside};
use crate::id::LedgerId;
use crate::log::note::{MAX_NOTE, SignedHead};
use crate::state::{Source, State};

use super::note_ledger;

/// A State file is rewritten when the log has grown by more than this since.
///
/// Checking 200 signatures costs about as much as writing the file (measured: 50 us each), so no command
/// pays for more than twice its share.
const STATE_LAG: u64 = 200;
/// A log of fewer statements is read faster than an index is opened.
const INDEX_FROM: u64 = 10_000;
/// An index is brought up to date when it lacks more statements than this, which are read in a few milliseconds.
const INDEX_LAG: u64 = 1_000;
const MODE: u32 = 0o600;

impl Source for outside::Opened {
    fn size(&self) -> io::Result<u64> {
        self.size()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_at(at, into)
    }
}

/// How much of the State file is read before anything is looked up in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// All of it, checked.
    Whole,
    /// Its stamp; the rest as look-ups need it, see [`State::is_sound`].
    Pages,
}

/// Directories of one user, as the command line found them. `None` where there is none to write to.
#[derive(Clone, Debug)]
pub struct Home {
    /// Holds `<ledger>/head`.
    pub state: Option<PathBuf>,
    /// Holds `<ledger>/state` and `<ledger>/index/`.
    pub cache: Option<PathBuf>,
    pub(super) index_from: u64,
    pub(super) index_lag: u64,
    /// Number of statements, those of parents included, at which the State file on disk was folded.
    saved: u64,
}

impl Default for Home {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Home {
    /// Takes the user's directories.
    pub const fn new(state: Option<PathBuf>, cache: Option<PathBuf>) -> Self {
        Self { state, cache, index_from: INDEX_FROM, index_lag: INDEX_LAG, saved: 0 }
    }

    /// Keeps an index of logs of `from` statements and more, and lets it lack up to `lag` of them.
    #[must_use]
    pub const fn indexing(mut self, from: u64, lag: u64) -> Self {
        self.index_from = from;
        self.index_lag = lag;
        self
    }

    fn head_path(&self, ledger: LedgerId) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join(ledger.to_hex()).join("head"))
    }

    /// Returns where the State file of a ledger lies.
    pub fn state_path(&self, ledger: LedgerId) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join(ledger.to_hex()).join("state"))
    }

    pub(super) fn index_path(&self, ledger: LedgerId) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join(ledger.to_hex()).join("index"))
    }

    /// Returns the head remembered for a ledger, by the id that its own published head claims.
    pub(super) fn remembered(&self, durable: &Durable) -> Option<SignedHead> {
        let published = durable.read(Path::new("log/checkpoint"), MAX_NOTE).ok()??;
        let published = SignedHead::parse(std::str::from_utf8(&published).ok()?).ok()?;
        self.remembered_for(note_ledger(&published).ok()?)
    }

    /// Returns the head remembered for a ledger.
    pub fn remembered_for(&self, ledger: LedgerId) -> Option<SignedHead> {
        let bytes = outside::read(&self.head_path(ledger)?, MAX_NOTE).ok()??;
        SignedHead::parse(std::str::from_utf8(&bytes).ok()?).ok()
    }

    /// Remembers a head, if it is newer than the one remembered.
    pub(super) fn remember(
        &self,
        ledger: LedgerId,
        head: &SignedHead,
        disk: &Arc<dyn Disk>,
    ) -> Result<(), String> {
        let Some(path) = self.head_path(ledger) else {
            return Err("the tree head is not remembered: no directory for the user's state".to_owned());
        };
        let is_newer = |known: Option<SignedHead>| known.is_none_or(|k| k.head().size < head.head().size);
        if !is_newer(self.remembered_for(ledger)) {
            return Ok(());
        }
        let say = |error| format!("the tree head is not remembered: {error}");
        let lock = outside::lock(disk, &path.with_extension("lock"), Duration::from_secs(1)).map_err(say)?;
        // Another process may have been here while we waited; memory only ever moves forward.
        if is_newer(self.remembered_for(ledger)) {
            outside::replace(disk, &path, head.as_str().as_bytes(), MODE).map_err(say)?;
        }
        drop(lock);
        Ok(())
    }

    /// Reads the State file of a ledger, all of it or as much as look-ups will need; whatever is wrong with it,
    /// there is none.
    pub(super) fn load_state(&mut self, ledger: LedgerId, reading: Reading) -> Option<State> {
        let file = outside::open(&self.state_path(ledger)?).ok()??;
        let state = State::from_file(file, ledger)?;
        if reading == Reading::Whole && !state.read_all() {
            return None;
        }
        self.saved = state.places();
        Some(state)
    }

    /// Writes the State file if the log has outgrown it.
    pub(super) fn save_state_when_due(&mut self, state: &State, disk: &Arc<dyn Disk>) -> Result<(), String> {
        if state.places() < self.saved + STATE_LAG {
            return Ok(());
        }
        let Some(path) = state.ledger().and_then(|ledger| self.state_path(ledger)) else {
            return Err("the folded state is not kept: no cache directory".to_owned());
        };
        let Some(bytes) = state.to_file() else {
            return Err("the folded state is not kept: the one that it grew from is damaged".to_owned());
        };
        outside::replace(disk, &path, &bytes, MODE)
            .map_err(|error| format!("the folded state is not kept: {error}"))?;
        self.saved = state.places();
        Ok(())
    }
}
