//! A new ledger's directory: filled under a sibling name, then renamed in one step.
//!
//! So there is never half a ledger. A crash leaves a sibling behind, which [`left_behind`] names; nothing
//! deletes it unasked, because it may belong to an `init` that is still running.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::staged::unique;
use super::{Durable, Error, open_dir};

/// A ledger that does not yet have its name. Dropped, it is removed again.
#[derive(Debug)]
#[must_use = "a new ledger that is not finished is removed"]
pub struct Fresh {
    durable: Durable,
    target: PathBuf,
    is_finished: bool,
}

impl Fresh {
    /// Creates an empty sibling of `parent/name`, where no ledger may be yet.
    pub fn begin(disk: &Arc<dyn Disk>, parent: &Path, name: &str, is_shared: bool) -> Result<Self, Error> {
        let target = parent.join(name);
        if target.symlink_metadata().is_ok() {
            return Err(Error::Exists { path: target });
        }
        loop {
            let root = parent.join(format!("{name}.new-{}", unique()));
            let durable = Durable::deferring(Arc::clone(disk), root, is_shared);
            match disk.mkdir(durable.root(), durable.dir_mode()) {
                Ok(()) => return Ok(Self { durable, target, is_finished: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::from_write("create", durable.root(), error)),
            }
        }
    }

    /// Returns the directory as it is now, to be filled.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Makes the names in it durable and gives the directory its own, durably.
    ///
    /// Fails if that name has been taken meanwhile.
    pub fn finish(mut self) -> Result<Durable, Error> {
        let parent = self.target.parent().unwrap_or(Path::new("."));
        let dir = open_dir(parent)?;
        let disk = Arc::clone(self.durable.disk());
        self.durable.sync_deferred()?;
        disk.rename_new(self.durable.root(), &self.target).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: self.target.clone() },
            _ => Error::from_write("rename", &self.target, error),
        })?;
        self.is_finished = true;
        disk.sync_dir(&dir, parent).map_err(|error| Error::from_sync(parent, error))?;
        Ok(self.durable.at(self.target.clone()))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_finished {
            // If this fails, `left_behind` will name it.
            let _ = self.durable.disk().remove_tree(self.durable.root());
        }
    }
}

/// Lists the siblings of `parent/name` that earlier attempts left behind or that others are filling.
pub fn left_behind(parent: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
    let fail = |error| Error::from_read("list", parent, error);
    let begin = format!("{name}.new-");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(parent).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_name().as_encoded_bytes().starts_with(begin.as_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}
