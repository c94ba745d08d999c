//! Durable writes: the only place that creates, renames, links, locks or deletes under a ledger.
//!
//! It does not know what the bytes mean. A file gets its final name only when its content is on the disk, and
//! a result is returned only when the name is too, so whoever gets `Ok` may tell somebody else. What was
//! interrupted leaves a file in `tmp/` at most, and readers never look there.
//!
//! Not promised: anything against a disk that says it has written what it has not; and order between two
//! calls that have not returned. Directories, once made, are expected to stay: nothing here removes one.

pub mod disk;
pub mod examine;
pub mod fault;
pub mod fresh;
pub mod lock;
pub mod outside;
mod read;
mod staged;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;

pub use disk::{Disk, Locking, Mode, RealDisk};
pub use fresh::Fresh;
pub use lock::Lock;
pub use read::{Entry, Found, Meta};
pub use staged::Staged;
use staged::{Temp, unique};

/// The folder of temporary files. It is not part of a ledger and never needs to be durable.
pub const TMP: &str = "tmp";
/// Files that are open at once while many are written.
const MAX_OPEN: usize = 128;
/// What [`Durable::commit_link`] reads at most of the file that was there first.
pub const MAX_COMMIT: usize = 64 << 20;

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk or the user's share of it is full.
    #[error("no space is left to write `{}`", path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Permissions or a read-only disk forbid it.
    #[error("`{}` cannot be written", path.display())]
    NotWritable {
        /// What was being written.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Permissions forbid reading; nothing is known about the content.
    #[error("`{}` may not be read", path.display())]
    NotReadable {
        /// What was being read.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The disk did not confirm a write. Asking again proves nothing, so this is final.
    #[error("the disk did not confirm `{}`", path.display())]
    Sync {
        /// File or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Any other failure of a system call.
    #[error("cannot {op} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file that must be the same as ours is not.
    #[error("`{}` exists with other content", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
    },
    /// A name that had to be free is taken.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// Somebody else held a lock for all of the time that we would wait.
    #[error("`{}` is held by {holder}", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// A symlink, FIFO, directory or device where a file should be.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular {
        /// The name.
        path: PathBuf,
    },
    /// More bytes than the reader allows.
    #[error("`{}` has {size} bytes, {cap} are allowed", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes, as far as they were counted.
        size: u64,
        /// What is allowed.
        cap: usize,
    },
    /// A path that would lead out of the ledger.
    #[error("`{}` is not a plain relative path", path.display())]
    NotPlain {
        /// The path as given.
        path: PathBuf,
    },
    /// The file system does not do what a ledger stands on.
    #[error("the disk of `{}` has no working {ability}", path.display())]
    Lacks {
        /// Where it was tried.
        path: PathBuf,
        /// What is missing.
        ability: Ability,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    fn from_write(op: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full { path, source },
            Some(Errno::ACCESS | Errno::ROFS) => Self::NotWritable { path, source },
            _ => Self::Io { op, path, source },
        }
    }

    fn from_read(op: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS) => Self::NotReadable { path, source },
            _ => Self::Io { op, path, source },
        }
    }

    fn from_sync(path: &Path, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            // Network disks and delayed allocation find out this late.
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full { path: path.to_owned(), source },
            _ => Self::Sync { path: path.to_owned(), source },
        }
    }
}

/// What a ledger needs from a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// `link(2)` that fails when the name is taken.
    Link,
    /// `rename(2)` that replaces.
    Rename,
    /// `fsync(2)` of files and directories.
    Sync,
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "hard links",
            Self::Rename => "rename",
            Self::Sync => "fsync",
        })
    }
}

/// Whether a file changes after it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Never: it is read-only for everybody.
    Immutable,
    /// It is replaced as a whole, or locked.
    Mutable,
}

/// Whether a create-exclusive call was the one that created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Created {
    /// The file is ours.
    New,
    /// The name was taken. What is there is durable, but its content was not looked at.
    Exists,
}

/// Who got a name that only one can get.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Commit {
    /// Our bytes stand there.
    Won,
    /// These bytes of somebody else stand there, durably.
    Lost(Vec<u8>),
}

/// A directory tree written durably. Cheap to clone.
///
/// Paths are relative to the root and consist of plain names. Directories that are missing on the way to a
/// file are made.
#[derive(Clone, Debug)]
pub struct Durable {
    disk: Arc<dyn Disk>,
    root: Arc<Path>,
    is_shared: bool,
    /// Directories that exist and whose names this process has seen on the disk.
    settled: Arc<Mutex<HashSet<PathBuf>>>,
    /// In a tree that nobody knows of yet, directories to sync before it is told of.
    deferred: Option<Arc<Mutex<BTreeMap<PathBuf, File>>>>,
}

impl Durable {
    /// Takes a root directory; nothing is read or written yet.
    ///
    /// In a shared tree, directories are setgid and everything is open to the group and to nobody else,
    /// whatever the umask of the process.
    pub fn new(disk: Arc<dyn Disk>, root: impl Into<PathBuf>, is_shared: bool) -> Self {
        Self { disk, root: root.into().into(), is_shared, settled: Arc::default(), deferred: None }
    }

    /// Takes a root whose directories are synced by [`sync_deferred`](Self::sync_deferred), each once.
    fn deferring(disk: Arc<dyn Disk>, root: PathBuf, is_shared: bool) -> Self {
        Self { deferred: Some(Arc::default()), ..Self::new(disk, root, is_shared) }
    }

    fn sync_deferred(&self) -> Result<(), Error> {
        let Some(deferred) = &self.deferred else { return Ok(()) };
        for (path, dir) in std::mem::take(&mut *deferred.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.disk.sync_dir(&dir, &path).map_err(|error| Error::from_sync(&path, error))?;
        }
        Ok(())
    }

    /// Returns the same kind of tree at another root.
    fn at(&self, root: PathBuf) -> Self {
        Self::new(Arc::clone(&self.disk), root, self.is_shared)
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the operations beneath, for the user's own files.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns the whole path of a plain relative one; the empty path is the root.
    pub fn path(&self, rel: &Path) -> Result<PathBuf, Error> {
        if !rel.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Error::NotPlain { path: rel.to_owned() });
        }
        Ok(if rel.as_os_str().is_empty() { self.root.to_path_buf() } else { self.root.join(rel) })
    }

    /// Creates a file if its name is free.
    pub fn create(&self, rel: &Path, bytes: &[u8], kind: Kind) -> Result<Created, Error> {
        self.create_all(&[(rel, bytes)], kind).map(|created| created[0])
    }

    /// Creates many small files, each if its name is free, and answers in their order.
    ///
    /// All of them are durable at the end and none is acknowledged before, so each directory is synced once.
    pub fn create_many(&self, items: &[(PathBuf, &[u8])], kind: Kind) -> Result<Vec<Created>, Error> {
        let items: Vec<_> = items.iter().map(|(rel, bytes)| (rel.as_path(), *bytes)).collect();
        self.create_all(&items, kind)
    }

    /// Creates files whose content follows from their name: one that exists must be the same.
    pub fn create_identical(&self, items: &[(PathBuf, &[u8])]) -> Result<Vec<Created>, Error> {
        let created = self.create_many(items, Kind::Immutable)?;
        for ((rel, bytes), created) in items.iter().zip(&created) {
            if *created == Created::Exists {
                match self.read(rel, bytes.len()) {
                    Ok(Some(found)) if found == *bytes => {}
                    Ok(_) | Err(Error::TooLarge { .. }) => {
                        return Err(Error::Differs { path: self.path(rel)? });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(created)
    }

    fn create_all(&self, items: &[(&Path, &[u8])], kind: Kind) -> Result<Vec<Created>, Error> {
        let mut free = Vec::new();
        for (rel, _) in items {
            if self.stat(rel)?.is_none() {
                free.push(*rel);
            }
        }
        free.iter().try_for_each(|rel| self.make_parent(rel))?;
        let dirs = self.open_dirs(items.iter().map(|(rel, _)| parent(rel)))?;
        let free: HashSet<&Path> = free.into_iter().collect();
        let mut temps = Vec::with_capacity(items.len());
        for chunk in items.chunks(MAX_OPEN) {
            let mut written = Vec::with_capacity(chunk.len());
            for (rel, bytes) in chunk {
                temps.push(if free.contains(rel) {
                    let (temp, mut file) = self.temp(kind)?;
                    temp.write(&mut file, bytes)?;
                    written.push((file, temp.path().to_owned()));
                    Some(temp)
                } else {
                    None
                });
            }
            self.disk.sync_files(&written).map_err(|(path, error)| Error::from_sync(&path, error))?;
        }
        let mut created = Vec::with_capacity(items.len());
        for ((rel, _), temp) in items.iter().zip(temps) {
            created.push(match temp {
                Some(temp) => self.link(&temp, rel)?,
                None => Created::Exists,
            });
        }
        // A file that another process has linked but not yet synced must be durable for us too.
        dirs.sync(self)?;
        Ok(created)
    }

    /// Writes a file in place of what is there: readers see the old content or the new one.
    pub fn replace(&self, rel: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.make_parent(rel)?;
        let dirs = self.open_dirs([parent(rel)])?;
        self.write_temp(bytes, Kind::Mutable)?.rename(&self.path(rel)?)?;
        dirs.sync(self)
    }

    /// Gives the bytes a name that only one writer can ever get: the commit point of a transaction.
    ///
    /// What `link(2)` reports is not trusted, since a network disk may repeat a request that it has already
    /// carried out. What stands there afterwards decides, and it is durable when this returns.
    pub fn commit_link(&self, rel: &Path, bytes: &[u8]) -> Result<Commit, Error> {
        let path = self.path(rel)?;
        self.make_parent(rel)?;
        let dirs = self.open_dirs([parent(rel)])?;
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        if self.stat(rel)?.is_none() {
            let temp = self.write_temp(bytes, Kind::Immutable)?;
            if let Err(error) = self.disk.link(temp.path(), &path) {
                refusal = error;
            }
        }
        let Some(found) = self.read(rel, MAX_COMMIT)? else {
            return Err(Error::from_write("link", &path, refusal));
        };
        dirs.sync(self)?;
        Ok(if found == bytes { Commit::Won } else { Commit::Lost(found) })
    }

    /// Moves a name elsewhere within the tree, durably, replacing what stands there.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.make_parent(to)?;
        let dirs = self.open_dirs([parent(from), parent(to)])?;
        let to = self.path(to)?;
        self.disk.rename(&self.path(from)?, &to).map_err(|error| Error::from_write("rename", &to, error))?;
        dirs.sync(self)
    }

    /// Moves a directory to a name in the tree that must be free, durably.
    pub fn move_dir(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.make_parent(to)?;
        // A power cut could leave the old name gone, and the directory that it went to without a name.
        self.open_dirs([parent(to)])?.sync(self)?;
        let dirs = self.open_dirs([parent(from), parent(to)])?;
        let to = self.path(to)?;
        self.disk.rename_new(&self.path(from)?, &to).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: to.clone() },
            _ => Error::from_write("rename", &to, error),
        })?;
        dirs.sync(self)
    }

    /// Removes a file; a missing one is fine.
    ///
    /// After a power cut the file may be back, unless its directory has been synced since.
    pub fn remove(&self, rel: &Path) -> Result<(), Error> {
        let path = self.path(rel)?;
        match self.disk.unlink(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::from_write("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Makes a directory and everything above it; an existing one is fine.
    ///
    /// It is durable once a file in it is: whoever acknowledges one syncs what is above it too.
    pub fn make_dir(&self, rel: &Path) -> Result<(), Error> {
        self.make_dirs(rel, self.dir_mode())
    }

    /// Makes a directory as [`make_dir`](Self::make_dir) does, but in a shared tree others may only read it.
    pub fn make_own_dir(&self, rel: &Path) -> Result<(), Error> {
        self.make_dirs(rel, if self.is_shared { Mode::Exact(0o2750) } else { self.dir_mode() })
    }

    /// Makes the names in a directory durable, which [`remove`](Self::remove) leaves to the caller.
    pub fn sync_dir(&self, rel: &Path) -> Result<(), Error> {
        self.open_dirs([rel])?.sync(self)
    }

    /// Tries out what a ledger needs from the file system, and names what is missing.
    pub fn probe(&self) -> Result<(), Error> {
        let lacks = |ability| move |source| Error::Lacks { path: self.root.to_path_buf(), ability, source };
        let (temp, file) = self.temp(Kind::Mutable)?;
        let (other, _) = self.temp(Kind::Mutable)?;
        let folder = self.path(Path::new(TMP))?;
        let dir = open_dir(&folder)?;
        self.disk.sync_file(&file, temp.path()).map_err(lacks(Ability::Sync))?;
        self.disk.sync_dir(&dir, &folder).map_err(lacks(Ability::Sync))?;
        match self.disk.link(temp.path(), other.path()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(lacks(Ability::Link)(error)),
            Ok(()) => return Err(lacks(Ability::Link)(io::Error::other("link replaced a file"))),
        }
        self.disk.unlink(other.path()).map_err(|error| Error::from_write("remove", other.path(), error))?;
        self.disk.link(temp.path(), other.path()).map_err(lacks(Ability::Link))?;
        let (target, _) = self.temp(Kind::Mutable)?;
        // Both names of one file would make rename do nothing, hence the third.
        self.disk.rename(other.path(), target.path()).map_err(lacks(Ability::Rename))
    }

    /// Links a finished temporary file to its final name.
    fn link(&self, temp: &Temp, rel: &Path) -> Result<Created, Error> {
        let path = self.path(rel)?;
        match self.disk.link(temp.path(), &path) {
            Ok(()) => Ok(Created::New),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Exists),
            Err(error) => Err(Error::from_write("link", &path, error)),
        }
    }

    fn write_temp(&self, bytes: &[u8], kind: Kind) -> Result<Temp, Error> {
        let (temp, mut file) = self.temp(kind)?;
        temp.write(&mut file, bytes)?;
        temp.sync(&file)?;
        Ok(temp)
    }

    fn temp(&self, kind: Kind) -> Result<(Temp, File), Error> {
        let dir = self.root.join(TMP);
        let mode = self.file_mode(kind);
        Temp::create(&self.disk, &dir, "", mode)
            .or_else(|(path, error)| match error.kind() {
                io::ErrorKind::NotFound => match self.make_tmp() {
                    Ok(()) => Temp::create(&self.disk, &dir, "", mode),
                    Err(error) => Err((dir.clone(), error)),
                },
                _ => Err((path, error)),
            })
            .map_err(|(path, error)| Error::from_write("create", &path, error))
    }

    fn file_mode(&self, kind: Kind) -> Mode {
        match (self.is_shared, kind) {
            (true, Kind::Immutable) => Mode::Exact(0o440),
            (true, Kind::Mutable) => Mode::Exact(0o660),
            (false, Kind::Immutable) => Mode::Umask(0o444),
            (false, Kind::Mutable) => Mode::Umask(0o644),
        }
    }

    fn dir_mode(&self) -> Mode {
        if self.is_shared { Mode::Exact(0o2770) } else { Mode::Umask(0o755) }
    }

    fn make_parent(&self, rel: &Path) -> Result<(), Error> {
        self.make_dirs(parent(rel), self.dir_mode())
    }

    /// Makes a directory, which gets this mode, and those missing above it, without making them durable.
    fn make_dirs(&self, rel: &Path, mode: Mode) -> Result<(), Error> {
        if rel.as_os_str().is_empty() || self.stat(rel)?.is_some() {
            return Ok(());
        }
        self.make_parent(rel)?;
        // One of that name may have been removed since, and what was known of it with it.
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).retain(|dir| !dir.starts_with(rel));
        let path = self.path(rel)?;
        let fail = |error| Error::from_write("create", &path, error);
        let result = match mode {
            Mode::Umask(_) => self.disk.mkdir(&path, mode),
            // Between making a directory and setting its mode a crash would shut the others out for ever.
            Mode::Exact(_) => {
                self.make_tmp().map_err(fail)?;
                let temp = self.root.join(TMP).join(unique());
                self.disk.mkdir(&temp, mode).map_err(fail)?;
                let moved = self.disk.rename_new(&temp, &path);
                if moved.is_err() {
                    let _ = self.disk.remove_tree(&temp);
                }
                moved
            }
        };
        match result {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(fail(error)),
            _ => Ok(()),
        }
    }

    /// Makes the folder of temporary files, which tools that copy trees leave out when it is empty.
    fn make_tmp(&self) -> io::Result<()> {
        match self.disk.mkdir(&self.root.join(TMP), self.dir_mode()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn is_settled(&self, rel: &Path) -> bool {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains(rel)
    }

    /// Opens what must be durable before files in these directories may be acknowledged.
    ///
    /// That is the directories, and those above them up to the root unless this process has synced them
    /// before: they may be as new as the file, made by us or by somebody who has not come to sync them. They
    /// are opened before the write, because a failure is told to descriptors that are open.
    fn open_dirs<'a>(&self, dirs: impl IntoIterator<Item = &'a Path>) -> Result<OpenDirs, Error> {
        let mut wanted = BTreeSet::new();
        let mut fresh = HashSet::new();
        for mut dir in dirs {
            wanted.insert(dir);
            while !dir.as_os_str().is_empty() && !self.is_settled(dir) && fresh.insert(dir.to_owned()) {
                dir = parent(dir);
                if wanted.insert(dir) {
                    fresh.extend(self.few_dirs(dir)?);
                }
            }
        }
        let opened = wanted.into_iter().map(|dir| {
            let path = self.path(dir)?;
            Ok((open_dir(&path)?, path))
        });
        Ok(OpenDirs { opened: opened.collect::<Result<_, Error>>()?, fresh })
    }

    /// Lists the directories in one that is about to be synced, if they are few: one sync settles them all.
    fn few_dirs(&self, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        /// More are not looked at, since looking would cost more than the sync that it saves.
        const FEW: usize = 32;
        let path = self.path(dir)?;
        let fail = |error| Error::from_read("list", &path, error);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(fail)?.take(FEW) {
            let entry = entry.map_err(fail)?;
            if entry.file_type().map_err(fail)?.is_dir() {
                found.push(dir.join(entry.file_name()));
            }
        }
        Ok(found)
    }
}

/// Directories to sync before a write is acknowledged.
#[must_use]
struct OpenDirs {
    opened: Vec<(File, PathBuf)>,
    fresh: HashSet<PathBuf>,
}

impl OpenDirs {
    fn sync(self, durable: &Durable) -> Result<(), Error> {
        match &durable.deferred {
            Some(deferred) => {
                let mut deferred = deferred.lock().unwrap_or_else(PoisonError::into_inner);
                for (dir, path) in self.opened {
                    deferred.entry(path).or_insert(dir);
                }
            }
            None => {
                for (dir, path) in &self.opened {
                    durable.disk.sync_dir(dir, path).map_err(|error| Error::from_sync(path, error))?;
                }
            }
        }
        durable.settled.lock().unwrap_or_else(PoisonError::into_inner).extend(self.fresh);
        Ok(())
    }
}

/// Returns the directory of a relative path; the root's is the root.
fn parent(rel: &Path) -> &Path {
    rel.parent().unwrap_or(Path::new(""))
}

fn open_dir(path: &Path) -> Result<File, Error> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // Anything else would not be a directory, and a planted FIFO would keep us waiting.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
        Ok(dir) => Ok(dir.into()),
        Err(errno) => Err(Error::from_read("open", path, errno.into())),
    }
}
