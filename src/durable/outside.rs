//! The user's own files, outside any ledger: keys, trust, remembered heads, State.
//!
//! They are written as durably as a ledger's. A temporary file lies beside its target, because nothing
//! says that another directory is on the same disk. Symlinks of the user's are followed when reading, and
//! replaced when writing, so that a planted one cannot direct a write elsewhere.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use super::disk::{Disk, Mode};
use super::lock::{self, Lock};
use super::read;
use super::staged::Temp;
use super::{Created, Error, open_dir};

/// Directories that are made on the way are the user's alone.
const DIR_MODE: Mode = Mode::Umask(0o700);

/// Creates a file with exactly these mode bits, durably, if its name is free.
pub fn create(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8], mode: u32) -> Result<Created, Error> {
    write(disk, path, bytes, mode, |temp| match disk.link(temp.path(), path) {
        Ok(()) => Ok(Created::New),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Exists),
        Err(error) => Err(Error::from_write("link", path, error)),
    })
}

/// Writes a file with exactly these mode bits, durably, in place of what is there.
pub fn replace(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    write(disk, path, bytes, mode, |temp| temp.rename(path))
}

/// Writes a file that can be made again in place of what is there, and does not wait for the disk.
///
/// After a power cut it may be torn, so whoever reads it has to notice.
pub fn replace_derived(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    make_dirs(disk.as_ref(), folder(path))?;
    let (temp, mut file) = temp(disk, path, mode)?;
    temp.write(&mut file, bytes)?;
    temp.rename(path)
}

/// Gives a file another name in its directory, durably, in place of what has that name.
pub fn rename(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<(), Error> {
    let folder = folder(to);
    let dir = open_dir(folder)?;
    disk.rename(from, to).map_err(|error| Error::from_write("rename", to, error))?;
    disk.sync_dir(&dir, folder).map_err(|error| Error::from_sync(folder, error))
}

/// Reads a whole file of at most `cap` bytes; `None` if there is none.
pub fn read(path: &Path, cap: usize) -> Result<Option<Vec<u8>>, Error> {
    read::open(path, OFlags::empty())?.map(|file| read::read_capped(file, path, cap)).transpose()
}

/// Opens a file to be read in parts; `None` if there is none.
///
/// It stays the file that it was when another one is moved to its place.
pub fn open(path: &Path) -> Result<Option<Opened>, Error> {
    Ok(read::open(path, OFlags::empty())?.map(Opened))
}

/// A file that is read in parts.
#[derive(Debug)]
pub struct Opened(File);

impl Opened {
    /// Returns the number of bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Fills `into` with the bytes at `at`.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }
}

/// Takes the lock file at `path`, waiting for at most `timeout`.
pub fn lock(disk: &Arc<dyn Disk>, path: &Path, timeout: Duration) -> Result<Lock, Error> {
    make_dirs(disk.as_ref(), folder(path))?;
    lock::take(disk.as_ref(), path, Mode::Exact(0o600), timeout)
}

/// Creates a directory that is the user's alone, with those above it; one that is there is left as it is.
pub fn make_dir(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), Error> {
    make_dirs(disk.as_ref(), path)
}

/// Removes a directory of derived files with all that is in it, if it is there.
pub fn remove_dir(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), Error> {
    match disk.remove_tree(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::from_write("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn write<T>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    publish: impl FnOnce(Temp) -> Result<T, Error>,
) -> Result<T, Error> {
    let folder = folder(path);
    make_dirs(disk.as_ref(), folder)?;
    let dir = open_dir(folder)?;
    let (temp, mut file) = temp(disk, path, mode)?;
    temp.write(&mut file, bytes)?;
    temp.sync(&file)?;
    let published = publish(temp)?;
    disk.sync_dir(&dir, folder).map_err(|error| Error::from_sync(folder, error))?;
    Ok(published)
}

/// Creates the temporary file beside `path` that is to take its place.
fn temp(disk: &Arc<dyn Disk>, path: &Path, mode: u32) -> Result<(Temp, File), Error> {
    let name = path.file_name().ok_or_else(|| Error::NotPlain { path: path.to_owned() })?;
    let prefix = format!(".{}.tmp-", name.to_string_lossy());
    Temp::create(disk, folder(path), &prefix, Mode::Exact(mode))
        .map_err(|(temp, error)| Error::from_write("create", &temp, error))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        None => path,
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    }
}

/// Creates the missing directories down to `dir` and makes each one's name durable.
fn make_dirs(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let missing: Vec<PathBuf> = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .map(Path::to_owned)
        .collect();
    for made in missing.iter().rev() {
        let above = folder(made);
        let handle = open_dir(above)?;
        match disk.mkdir(made, DIR_MODE) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::from_write("create", made, error));
            }
            _ => disk.sync_dir(&handle, above).map_err(|error| Error::from_sync(above, error))?,
        }
    }
    Ok(())
}
