//! Files that have no final name yet: the guard that removes them, and a writer for streams.
//!
//! A temporary file is found by nobody, so its content needs no care until it is published.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, Mode};
use super::{Created, Durable, Error, Kind, parent};

/// A temporary file's name, which is removed on drop unless it was moved.
#[derive(Debug)]
pub(super) struct Temp {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    is_moved: bool,
}

impl Temp {
    /// Creates an empty file in `dir` under a name that begins with `prefix` and that nobody else has.
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        prefix: &str,
        mode: Mode,
    ) -> Result<(Self, File), (PathBuf, io::Error)> {
        loop {
            let path = dir.join(format!("{prefix}{}", unique()));
            match disk.open_new(&path, mode) {
                Ok(file) => return Ok((Self { disk: Arc::clone(disk), path, is_moved: false }, file)),
                // Another host's process of the same number, or one that crashed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((path, error)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes to the open file.
    pub(super) fn write(&self, file: &mut File, bytes: &[u8]) -> Result<(), Error> {
        self.disk
            .write(file, &self.path, bytes)
            .map_err(|error| Error::from_write("write", &self.path, error))
    }

    /// Makes the open file's content durable.
    pub(super) fn sync(&self, file: &File) -> Result<(), Error> {
        self.disk.sync_file(file, &self.path).map_err(|error| Error::from_sync(&self.path, error))
    }

    /// Moves the file to its final name, replacing what is there.
    pub(super) fn rename(mut self, to: &Path) -> Result<(), Error> {
        self.disk.rename(&self.path, to).map_err(|error| Error::from_write("rename", to, error))?;
        self.is_moved = true;
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_moved {
            // What stays behind is litter in a folder that nobody reads.
            let _ = self.disk.unlink(&self.path);
        }
    }
}

/// Returns a name that this process has not used before: its number and a count.
pub(super) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A file being written, without a name until it is published; dropped, it is gone.
///
/// Writes are not buffered: hand over large pieces.
#[derive(Debug)]
#[must_use = "a staged file that is not published is removed"]
pub struct Staged {
    durable: Durable,
    temp: Temp,
    file: File,
}

impl Staged {
    pub(super) fn new(durable: Durable, temp: Temp, file: File) -> Self {
        Self { durable, temp, file }
    }

    /// Appends bytes, as [`write_all`](Write::write_all) does, but with this layer's error.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.temp.write(&mut self.file, bytes)
    }

    /// Gives the file its name if that is free, durably. Its kind is the one it was staged with.
    pub fn publish(self, rel: &Path) -> Result<Created, Error> {
        let Self { durable, temp, file } = self;
        let is_new = durable.stat(rel)?.is_none();
        if is_new {
            durable.make_parent(rel)?;
        }
        let dirs = durable.open_dirs([parent(rel)])?;
        let created = if is_new {
            temp.sync(&file)?;
            durable.link(&temp, rel)?
        } else {
            Created::Exists
        };
        dirs.sync(&durable)?;
        Ok(created)
    }

    /// Gives the file its name, durably, in place of what is there.
    pub fn replace(self, rel: &Path) -> Result<(), Error> {
        let Self { durable, temp, file } = self;
        durable.make_parent(rel)?;
        let dirs = durable.open_dirs([parent(rel)])?;
        temp.sync(&file)?;
        temp.rename(&durable.path(rel)?)?;
        dirs.sync(&durable)
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.durable.disk().write(&mut self.file, self.temp.path(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Durable {
    /// Opens a temporary file for a stream.
    pub fn stage(&self, kind: Kind) -> Result<Staged, Error> {
        let (temp, file) = self.temp(kind)?;
        Ok(Staged::new(self.clone(), temp, file))
    }
}
