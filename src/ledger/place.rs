//! Which directory a ledger is: the `place` file, by which a copy is known, and how a copy becomes the ledger.
//!
//! Two directories that grow from one past are two histories, and whoever meets both sees a fork. So a copy is
//! read and never written, until somebody says that it is the ledger from now on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::durable::{Durable, Kind as FileKind};
use crate::id::{StatementId, hex, statement_id};
use crate::log::statement::{MAX_STATEMENT, Statement};
use crate::log::tile::{Tile, parse_grouped};

use super::sequencer::pending_path;
use super::{Error, Ledger};

pub(super) const PLACE: &str = "place";

/// What adopting a copy did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Adopted {
    /// Files that were copied too late or too early to count, by their old paths; now under `log/refused`.
    pub aside: Vec<PathBuf>,
    /// Queued statements that lay under the number of a user who does not own them here.
    pub taken_over: Vec<StatementId>,
}

/// Returns the text that says which directory this is.
pub(super) fn text(durable: &Durable, instance: [u8; 16]) -> Result<String, Error> {
    let (_, inode) = durable.inode()?;
    Ok(format!("ledger-place/1\ninstance {}\ninode {inode}\n", hex(&instance)))
}

/// Writes the place of a new ledger.
pub(super) fn write(durable: &Durable, instance: [u8; 16]) -> Result<(), Error> {
    let text = text(durable, instance)?;
    let _new = durable.create(Path::new(PLACE), text.as_bytes(), FileKind::Mutable)?;
    Ok(())
}

/// Returns whether a ledger's directory is another one than its `place` file was written for.
///
/// The device is left out: it changes when a disk is mounted again, the inode does not.
pub fn is_copy(durable: &Durable) -> Result<bool, Error> {
    let Some(place) = durable.read(Path::new(PLACE), 4096)? else { return Ok(true) };
    let (_, inode) = durable.inode()?;
    let text = String::from_utf8_lossy(&place);
    let named = text.lines().find_map(|line| line.strip_prefix("inode "));
    Ok(named != Some(inode.to_string().as_str()))
}

impl Ledger {
    /// Finishes what was committed before a copy was made, so that it can be looked at as a whole.
    ///
    /// Only what a log key of the ledger has signed is written, and it is what the original wrote.
    pub fn finish_copied_commits(&mut self, wait: Duration) -> Result<(), Error> {
        let lock = self.durable.lock(Path::new("log/lock"), wait)?;
        let finished = self.roll_forward();
        drop(lock);
        finished
    }

    /// Makes a copy the ledger from now on: it may be written to, under an instance id of its own.
    ///
    /// Nothing here knows whether another directory is written to as well; that makes a fork, which only the one
    /// who adopts can rule out. Whether the copy is whole is for the caller to have checked.
    ///
    /// `torn` names queued statements whose objects were not copied; they are put aside, unordered.
    pub fn adopt(
        &mut self,
        instance: [u8; 16],
        torn: &[StatementId],
        user: u32,
        wait: Duration,
    ) -> Result<Adopted, Error> {
        let lock = self.durable.lock(Path::new("log/lock"), wait)?;
        self.roll_forward()?;
        let mut aside = self.set_beyond_aside()?;
        aside.extend(self.set_torn_aside(torn)?);
        let adopted = Adopted { aside, taken_over: self.take_over_pending(user)? };
        let text = text(&self.durable, instance)?;
        self.durable.replace(Path::new(PLACE), text.as_bytes())?;
        drop(lock);
        self.is_copy = false;
        self.after_commit();
        Ok(adopted)
    }

    /// Moves tiles and head files beyond the head away: the next commits will want their names.
    pub(super) fn set_beyond_aside(&self) -> Result<Vec<PathBuf>, Error> {
        let size = self.head.head().size;
        self.log.cut_ends(size)?;
        let is_beyond = |path: &Path| {
            let text = path.to_str().and_then(|path| path.strip_prefix("log/"));
            let Some(text) = text else { return false };
            if let Some(extends) = text.strip_prefix("heads/").and_then(parse_grouped) {
                return extends >= size;
            }
            let Ok(tile) = Tile::parse(text) else { return false };
            let current = Tile::at_size(tile.level(), tile.n(), size);
            current.is_none_or(|current| current.width() < tile.width())
        };
        let mut aside = Vec::new();
        for dir in ["log/heads", "log/tile"] {
            for path in self.durable.files_under(Path::new(dir))? {
                if is_beyond(&path) {
                    let rest = path.strip_prefix("log").unwrap_or(&path);
                    self.durable.rename(&path, &Path::new("log/refused").join(rest))?;
                    aside.push(path);
                }
            }
        }
        Ok(aside)
    }

    fn set_torn_aside(&self, torn: &[StatementId]) -> Result<Vec<PathBuf>, Error> {
        let mut aside = Vec::new();
        for path in self.durable.files_under(Path::new("log/pending"))? {
            let id = path.file_name().and_then(|name| name.to_str()).map(StatementId::from_hex);
            if matches!(id, Some(Ok(id)) if torn.contains(&id) && self.state.statement(id).is_none()) {
                let rest = path.strip_prefix("log/pending").unwrap_or(&path);
                self.durable.rename(&path, &Path::new("log/refused").join(rest))?;
                aside.push(path);
            }
        }
        Ok(aside)
    }

    /// Queues statements anew that a copy has made to look planted: another user owns them here.
    ///
    /// Each is signed by its author, so who carries it does not matter.
    fn take_over_pending(&self, user: u32) -> Result<Vec<StatementId>, Error> {
        let mut taken = Vec::new();
        for path in self.durable.files_under(Path::new("log/pending"))? {
            let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let named: Option<u32> = folder.and_then(|name| name.parse().ok());
            let owner = self.durable.stat(&path)?.map(|meta| meta.owner);
            if named.is_none() || owner == named {
                continue;
            }
            let Ok(Some(bytes)) = self.durable.read(&path, MAX_STATEMENT) else { continue };
            let id = statement_id(&bytes);
            let is_named = path.file_name().and_then(|name| name.to_str()) == Some(id.to_hex().as_str());
            if is_named && Statement::parse(&bytes).is_ok() {
                if self.state.statement(id).is_none() {
                    self.queue(id, &bytes, user)?;
                    taken.push(id);
                }
                if path != pending_path(user, id) {
                    self.durable.remove(&path)?;
                }
            }
        }
        Ok(taken)
    }
}
