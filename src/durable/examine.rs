//! What a file system is like, for people who ask whether a ledger can live there.
//!
//! Nothing here decides anything: what a ledger stands on is tried out by `Durable::probe`. These are facts beside
//! it: the kind of file system, what is free, whether locks keep others out, and what its clock says.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Durable, Error, Kind, lock};

/// What is known of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// Its kind, such as `ext4`; the number where that is not known.
    pub kind: String,
    /// Whether it is served by another machine, so that clocks, locks and caches are shared in odd ways.
    pub is_network: bool,
    /// Whether it lies in memory and is gone with the power.
    pub is_memory: bool,
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes that it holds.
    pub total: u64,
}

/// Whether locks keep others out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locks {
    /// They do.
    Work,
    /// The file system has none.
    None,
    /// Two can hold one at the same time.
    Shared,
}

/// A kind of file system: its number, its name, and whether it is a network's or lies in memory.
const KINDS: &[(u64, &str, bool, bool)] = &[
    (0xef53, "ext4", false, false),
    (0x5846_5342, "xfs", false, false),
    (0x9123_683e, "btrfs", false, false),
    (0x2fc1_2fc1, "zfs", false, false),
    (0xf2f5_2010, "f2fs", false, false),
    (0xca45_1a4e, "bcachefs", false, false),
    (0x794c_7630, "overlay", false, false),
    (0x0102_1994, "tmpfs", false, true),
    (0x8584_58f6, "ramfs", false, true),
    (0x6969, "nfs", true, false),
    (0xff53_4d42, "cifs", true, false),
    (0xfe53_4d42, "smb", true, false),
    (0x0bd0_0bd0, "lustre", true, false),
    (0x4750_4653, "gpfs", true, false),
    (0x1983_0326, "beegfs", true, false),
    (0x00c3_6400, "ceph", true, false),
    (0x0102_1997, "9p", true, false),
    (0x6573_5546, "fuse", true, false),
];

/// Returns what is known of the file system under a path, without writing to it.
pub fn file_system(path: &Path) -> Result<FileSystem, Error> {
    let fail = |errno: rustix::io::Errno| Error::from_read("look at", path, errno.into());
    let kind = rustix::fs::statfs(path).map_err(fail)?.f_type as u64 & 0xffff_ffff;
    let space = rustix::fs::statvfs(path).map_err(fail)?;
    let known = KINDS.iter().find(|(number, ..)| *number == kind);
    Ok(FileSystem {
        kind: known.map_or_else(|| format!("kind {kind:x}"), |(_, name, ..)| (*name).to_owned()),
        is_network: known.is_some_and(|(_, _, is_network, _)| *is_network),
        is_memory: known.is_some_and(|(_, _, _, is_memory)| *is_memory),
        free: space.f_bavail.saturating_mul(space.f_frsize),
        total: space.f_blocks.saturating_mul(space.f_frsize),
    })
}

impl Durable {
    /// Takes a lock on a temporary file twice.
    pub fn try_locks(&self) -> Result<Locks, Error> {
        let (temp, _file) = self.temp(Kind::Mutable)?;
        let mode = self.file_mode(Kind::Mutable);
        let first = lock::take(self.disk.as_ref(), temp.path(), mode, Duration::ZERO)?;
        if !first.is_held() {
            return Ok(Locks::None);
        }
        match lock::take(self.disk.as_ref(), temp.path(), mode, Duration::ZERO) {
            Err(Error::Busy { .. }) => Ok(Locks::Work),
            Ok(_) => Ok(Locks::Shared),
            Err(error) => Err(error),
        }
    }

    /// Returns the time that the file system gives a file that is written now, in seconds since 1970.
    pub fn file_time(&self) -> Result<i64, Error> {
        let (temp, mut file) = self.temp(Kind::Mutable)?;
        temp.write(&mut file, b"time")?;
        let fail =
            |errno: rustix::io::Errno| Error::from_read("look at", temp.path(), io::Error::from(errno));
        Ok(rustix::fs::fstat(&file).map_err(fail)?.st_mtime)
    }
}
