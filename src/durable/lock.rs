//! Advisory locks: they save two processes from doing the same work.
//!
//! Nothing is safe because a lock is held. On network disks a lock can be lost without notice, or be local to
//! one host, so whoever writes relies on create-exclusive and [`commit_link`](super::Durable::commit_link).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::disk::{Disk, Locking, Mode};
use super::{Durable, Error, Kind};

/// What is read at most of a lock file.
const MAX_TEXT: u64 = 256;

/// A lock, released on drop.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    /// Closing the descriptor releases the lock.
    file: File,
    is_held: bool,
}

impl Lock {
    /// Returns whether the file system has locks at all; without them nobody is kept out.
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_held {
            // Or the next one who waits would be told of somebody who has gone.
            let _ = self.file.set_len(0);
        }
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
        match disk.try_lock(&file).map_err(|error| Error::from_write("lock", path, error))? {
            Locking::Ours => break,
            Locking::Unknown => return Ok(Lock { file, is_held: false }),
            Locking::Taken => {}
        }
        let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
            return Err(Error::Busy { path: path.to_owned(), holder: holder(file) });
        };
        std::thread::sleep(left.min(Duration::from_millis(pause) + jitter));
        pause = (pause * 2).min(MAX_PAUSE);
    }
    // The text is for the message of those who wait, so a full disk does not matter.
    let user = rustix::process::getuid().as_raw();
    let text = format!("pid {} host {} uid {user}\n", std::process::id(), host());
    if file.set_len(0).is_ok() {
        let _ = file.write_all(text.as_bytes());
    }
    Ok(Lock { file, is_held: true })
}

/// Returns this machine's name, without which a process number says little on a network disk.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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

/// Returns what the holder wrote about itself, as far as it is plain text and can still be true.
fn holder(file: File) -> String {
    let mut text = Vec::new();
    let _ = file.take(MAX_TEXT).read_to_end(&mut text);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '.' | '_');
    let text: String = text.iter().map(|byte| char::from(*byte)).take_while(is_plain).collect();
    if text.is_empty() || has_ended(&text) { "another process".to_owned() } else { text }
}

/// Whether a holder of this host has ended since: killed, it could not take its text away, and whoever holds
/// the lock now wrote none.
fn has_ended(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let ["pid", pid, "host", name, ..] = words.as_slice() else { return false };
    let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
    let is_gone = |pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH);
    *name == host() && pid.is_some_and(is_gone)
}
