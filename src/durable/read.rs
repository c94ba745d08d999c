//! Reading under a ledger without trusting what lies there.
//!
//! A name may have been planted: a symlink that leads elsewhere, a FIFO that never answers, a file without
//! end. None of them is followed, waited for or read. Directories on the way to a name may be symlinks, since
//! people move `objects/` to larger disks. What the bytes mean is not known here.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Durable, Error};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symlink, FIFO, socket or device, which nothing here ever creates.
    Other,
}

/// What is known about a name without opening it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// What it is.
    pub found: Found,
    /// Bytes of a file.
    pub size: u64,
    /// Number of the user who owns it.
    pub owner: u32,
    /// Last change of its content by the file server's clock, in seconds since 1970.
    pub modified: i64,
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
}

impl Durable {
    /// Reads a whole file of at most `cap` bytes; `None` if there is none.
    pub fn read(&self, rel: &Path, cap: usize) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(rel)?;
        let opened = open_sized(&path, OFlags::NOFOLLOW)?;
        opened.map(|(file, size)| read_sized(file, size, &path, cap)).transpose()
    }

    /// Opens a file for reading; `None` if there is none.
    pub fn open(&self, rel: &Path) -> Result<Option<File>, Error> {
        open(&self.path(rel)?, OFlags::NOFOLLOW)
    }

    /// Returns what stands at a name, without following it; `None` if nothing does.
    pub fn stat(&self, rel: &Path) -> Result<Option<Meta>, Error> {
        let path = self.path(rel)?;
        match path.symlink_metadata() {
            Ok(meta) => Ok(Some(Meta {
                found: match meta.file_type() {
                    kind if kind.is_file() => Found::File,
                    kind if kind.is_dir() => Found::Dir,
                    _ => Found::Other,
                },
                size: meta.size(),
                owner: meta.uid(),
                modified: meta.mtime(),
            })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from_read("look at", &path, error)),
        }
    }

    /// Lists a directory by name; a missing one is empty. The root is the empty path.
    pub fn list(&self, rel: &Path) -> Result<Vec<Entry>, Error> {
        let path = self.path(rel)?;
        let fail = |error| Error::from_read("list", &path, error);
        let dir = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(fail)?,
        };
        let mut entries = Vec::new();
        for entry in dir {
            let entry = entry.map_err(fail)?;
            let kind = entry.file_type().map_err(fail)?;
            entries.push(Entry { name: entry.file_name(), is_dir: kind.is_dir(), is_file: kind.is_file() });
        }
        entries.sort_unstable();
        Ok(entries)
    }

    /// Returns the files below a directory, in order.
    pub fn files_under(&self, rel: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        let mut open = vec![rel.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in self.list(&dir)? {
                let path = dir.join(&entry.name);
                if entry.is_dir { open.push(path) } else { files.push(path) }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Returns device and inode of the root, which a copy does not share.
    pub fn inode(&self) -> Result<(u64, u64), Error> {
        let meta = self.root().metadata().map_err(|error| Error::from_read("look at", self.root(), error))?;
        Ok((meta.dev(), meta.ino()))
    }
}

/// Opens a regular file for reading and refuses anything else without waiting for it.
pub(super) fn open(path: &Path, extra: OFlags) -> Result<Option<File>, Error> {
    Ok(open_sized(path, extra)?.map(|(file, _)| file))
}

/// Does what [`open`] does, and returns the file's bytes in number.
fn open_sized(path: &Path, extra: OFlags) -> Result<Option<(File, u64)>, Error> {
    // A FIFO without a writer would block the open, and a terminal would become ours.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | extra;
    let file: File = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(Errno::NOENT) => return Ok(None),
        // A symlink; a socket or a device without a driver.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => {
            return Err(Error::NotRegular { path: path.to_owned() });
        }
        Err(errno) => return Err(Error::from_read("open", path, errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| Error::from_read("look at", path, errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some((file, stat.st_size.unsigned_abs()))),
        _ => Err(Error::NotRegular { path: path.to_owned() }),
    }
}

/// Reads an open file to its end, and refuses more than `cap` bytes before and after.
pub(super) fn read_capped(file: File, path: &Path, cap: usize) -> Result<Vec<u8>, Error> {
    let size = file.metadata().map_err(|error| Error::from_read("read", path, error))?.len();
    read_sized(file, size, path, cap)
}

/// Does what [`read_capped`] does with a file whose size was just asked for.
fn read_sized(mut file: File, size: u64, path: &Path, cap: usize) -> Result<Vec<u8>, Error> {
    let too_large = |size| Error::TooLarge { path: path.to_owned(), size, cap };
    if size > cap as u64 {
        return Err(too_large(size));
    }
    // One byte more than there should be: reading fewer than were asked for, and as many as there are, is the end
    // of the file, without a second call. A million small files are read in one `fsck`.
    let mut bytes = vec![0; size as usize + 1];
    let mut filled = 0;
    loop {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::from_read("read", path, error)),
        }
        if filled as u64 == size {
            break;
        }
        if filled > cap {
            return Err(too_large(filled as u64));
        }
        if filled == bytes.len() {
            // It grows.
            bytes.resize(cap.min(2 * filled) + 1, 0);
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
