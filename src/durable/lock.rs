//! Advisory locks: they save two processes from doing the same work.
//!
//! Nothing is safe because a lock is held. On network disks a lock can be lost without notice, or be local to
//! one host, so whoever writes relies on create-exclusive and [`commit_link`](super::Durable::commit_link).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, OFlags};
use rustix::io::Errno;

use super::disk::{Disk, Mode};
use super::{Durable, Error, Kind};

/// A lock, released on drop.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    /// Closing the descriptor releases the lock.
    _file: File,
    is_held: bool,
}

impl Lock {
    /// Returns whether the file system has locks at all; without them nobody is kept out.
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

impl Durable {
    /// Takes the lock file `rel`, waiting for at most `timeout`.
    pub fn lock(&self, rel: &Path, timeout: Duration) -> Result<Lock, Error> {
        self.make_parent(rel)?;
        take(self.disk().as_ref(), &self.path(rel)?, self.file_mode(Kind::Mutable), timeout)
    }
}

/// Takes a lock on the file at `path`, which is created if it is missing.
pub(super) fn take(disk: &dyn Disk, path: &Path, mode: Mode, timeout: Duration) -> Result<Lock, Error> {
    /// The longest pause between two tries, in milliseconds.
    const MAX_PAUSE: u64 = 20;
    let mut file = open(disk, path, mode)?;
    let start = Instant::now();
    // Processes that started together should not try together for ever.
    let jitter = Duration::from_micros(u64::from(std::process::id()) % 997);
    let mut pause = 1;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => {
                return Ok(Lock { _file: file, is_held: false });
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(Error::from_write("lock", path, errno.into())),
        }
        let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
            return Err(Error::Busy { path: path.to_owned(), holder: holder(file) });
        };
        std::thread::sleep(left.min(Duration::from_millis(pause) + jitter));
        pause = (pause * 2).min(MAX_PAUSE);
    }
    // The text is for the message of those who wait, so a full disk does not matter. It names no host.
    let text = format!("pid {} uid {}\n", std::process::id(), rustix::process::getuid().as_raw());
    if file.set_len(0).is_ok() {
        let _ = file.write_all(text.as_bytes());
    }
    Ok(Lock { _file: file, is_held: true })
}

fn open(disk: &dyn Disk, path: &Path, mode: Mode) -> Result<File, Error> {
    // Network disks want a writable descriptor for an exclusive lock.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let try_open = || rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    let opened = match try_open() {
        Err(Errno::NOENT) => match disk.open_new(path, mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::from_write("create", path, error));
            }
            _ => try_open(),
        },
        other => other,
    };
    let file: File = match opened {
        Ok(file) => file.into(),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
            return Err(Error::NotRegular { path: path.to_owned() });
        }
        Err(errno) => return Err(Error::from_write("open", path, errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| Error::from_read("look at", path, errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Error::NotRegular { path: path.to_owned() }),
    }
}

/// Returns what the holder wrote about itself, as far as it is plain text.
fn holder(file: File) -> String {
    let mut text = Vec::new();
    let _ = file.take(64).read_to_end(&mut text);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == ' ';
    let text: String = text.iter().map(|byte| char::from(*byte)).take_while(is_plain).collect();
    if text.is_empty() { "another process".to_owned() } else { text }
}
