//! The primitive operations that change a disk, as a trait, and their plain implementation.
//!
//! Reading is not here, because a reader cannot lose anything. No operation is made safe here either: which
//! ones follow each other, and when a result may be acknowledged, is decided by [`Durable`](super::Durable).

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{self, AtFlags, CWD, OFlags, RenameFlags};
use rustix::io::Errno;

/// Permission bits of a new file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// These bits, less those that the process's umask takes away.
    Umask(u32),
    /// Exactly these bits, whatever the umask.
    Exact(u32),
}

impl Mode {
    /// Returns the bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Umask(bits) | Self::Exact(bits) => bits,
        }
    }
}

/// What changes a disk. One call is one step after which a crash can happen.
///
/// An implementation does the operation at once, does not retry, and promises durability only on return of
/// [`sync_file`](Disk::sync_file) and [`sync_dir`](Disk::sync_dir).
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a file that did not exist and opens it for writing.
    fn open_new(&self, path: &Path, mode: Mode) -> io::Result<File>;
    /// Appends all bytes to a file opened by [`open_new`](Disk::open_new); `path` is its name, for messages.
    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Makes a file's content durable, though not its name.
    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()>;
    /// Makes the content of several files durable, or says which one failed.
    fn sync_files(&self, files: &[(File, PathBuf)]) -> Result<(), (PathBuf, io::Error)> {
        let sync = |(file, path): &(File, PathBuf)| self.sync_file(file, path).map_err(|e| (path.clone(), e));
        files.iter().try_for_each(sync)
    }
    /// Makes the names in an open directory durable.
    fn sync_dir(&self, dir: &File, path: &Path) -> io::Result<()>;
    /// Moves a name, replacing what stands at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves a directory to a name that must be free.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must be free.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory, whose name must be free.
    fn mkdir(&self, path: &Path, mode: Mode) -> io::Result<()>;
    /// Removes a directory and everything in it.
    fn remove_tree(&self, path: &Path) -> io::Result<()>;
    /// Asks for the exclusive lock on an open file, without waiting for it.
    ///
    /// It changes nothing that a crash could leave behind, so every disk may leave it to the system.
    fn try_lock(&self, file: &File) -> io::Result<Locking> {
        use rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match fs::flock(file, NonBlockingLockExclusive) {
            Ok(()) => Ok(Locking::Ours),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(Locking::Taken),
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(Locking::Unknown),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What a disk answers when it is asked for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Locking {
    /// It is held by the file that asked.
    Ours,
    /// Somebody else holds it.
    Taken,
    /// The disk has no locks.
    Unknown,
}

/// The operating system's file system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open_new(&self, path: &Path, mode: Mode) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::open(path, flags, fs::Mode::from_raw_mode(mode.bits()))?;
        if let Mode::Exact(bits) = mode {
            fs::fchmod(&file, fs::Mode::from_raw_mode(bits))?;
        }
        Ok(file.into())
    }

    fn write(&self, file: &mut File, _path: &Path, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_files(&self, files: &[(File, PathBuf)]) -> Result<(), (PathBuf, io::Error)> {
        let sync = |(file, path): &(File, PathBuf)| file.sync_all().map_err(|error| (path.clone(), error));
        match files {
            [one] => sync(one),
            // Asked at once, a journal writes them together.
            many => many.par_iter().try_for_each(sync),
        }
    }

    fn sync_dir(&self, dir: &File, _path: &Path) -> io::Result<()> {
        dir.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(fs::rename(from, to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // NFS and older kernels know no flag. A plain rename of a directory replaces an empty directory at
            // most, so that the look beforehand guards a file only, which nothing of ours puts there.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match fs::statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => match fs::rename(from, to) {
                        Err(Errno::NOTEMPTY) => Err(Errno::EXIST.into()),
                        other => Ok(other?),
                    },
                    Err(errno) => Err(errno.into()),
                    Ok(_) => Err(Errno::EXIST.into()),
                }
            }
            other => Ok(other?),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(fs::link(from, to)?)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        Ok(fs::unlink(path)?)
    }

    fn mkdir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        fs::mkdir(path, fs::Mode::from_raw_mode(mode.bits()))?;
        if let Mode::Exact(bits) = mode {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let dir = fs::open(path, flags, fs::Mode::empty())?;
            fs::fchmod(&dir, fs::Mode::from_raw_mode(bits))?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "this is where such calls belong")]
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }
}
