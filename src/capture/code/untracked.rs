//! Files beside the code that git neither tracks nor ignores: what a run may read and no commit holds.
//!
//! They are listed and warned about; they are no dirt and refuse nothing. How much of them is read is capped, so
//! that an output folder nobody ignored does not turn a freeze into an hour of hashing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::library::{self, Opened};
use super::{Error, NESTING, Search, command, in_ledger, needs_git};
use crate::id::{Digests, Hasher, ObjectId, object_id};

/// A larger file is listed by its size only: 16 MiB.
pub const DIGESTED_SIZE: u64 = 16 << 20;

/// Further files, in path order, are listed by their size only.
pub const DIGESTED_FILES: usize = 1_000;

/// Further files, in path order, are counted only.
pub const LISTED_FILES: usize = 10_000;

/// A file that git neither tracks nor ignores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Untracked {
    /// Path inside the outermost work tree. It ends in `/` for a repository of its own that is no submodule.
    pub path: Vec<u8>,
    /// Bytes of the file, or of a link's target; 0 for a repository of its own.
    pub size: u64,
    /// BLAKE3 of these bytes. `None`: only the size is known.
    pub digest: Option<ObjectId>,
    /// Whether its owner may execute it.
    pub exec: bool,
}

/// Lists the untracked, un-ignored files of the whole work tree that holds `root`, submodules included.
///
/// Files at or below a path of `ignore` (absolute, or relative to `root`) and below any `.ledger` are left out.
/// The number returned is that of the files past [`LISTED_FILES`], of which nothing else is known.
pub fn untracked(root: &Path, ignore: &[PathBuf]) -> Result<(Vec<Untracked>, u64), Error> {
    let unreadable = |reason: String| Error::Unreadable { path: root.to_owned(), reason };
    let real = fs::canonicalize(root).map_err(|error| unreadable(error.to_string()))?;
    let (top, mut paths) = list(&real, Search::Upward, &[], 0)?;
    let ignore: Vec<PathBuf> = ignore
        .iter()
        .map(|path| real.join(path))
        // A path that is not there yet holds nothing to leave out, however it is spelled.
        .map(|path| fs::canonicalize(&path).unwrap_or(path))
        .collect();
    paths.retain(|path| {
        let whole = top.join(OsStr::from_bytes(path));
        !in_ledger(path) && !ignore.iter().any(|left_out| whole.starts_with(left_out))
    });
    paths.sort();
    let omitted = paths.len().saturating_sub(LISTED_FILES);
    paths.truncate(LISTED_FILES);
    let files = paths.into_iter().enumerate();
    let files = files.filter_map(|(place, path)| describe(&top, path, place < DIGESTED_FILES));
    Ok((files.collect(), omitted as u64))
}

/// Lists paths inside the outermost work tree, and that work tree's top.
fn list(dir: &Path, search: Search, prefix: &[u8], depth: usize) -> Result<(PathBuf, Vec<Vec<u8>>), Error> {
    let unreadable = |reason| Error::Unreadable { path: dir.to_owned(), reason };
    let by_command = |top: PathBuf, why: &str| {
        let files = command::untracked(&top).map_err(|failure| unreadable(needs_git(why, &failure)))?;
        let links = command::link_paths(&top).map_err(|failure| unreadable(needs_git(why, &failure)))?;
        Ok((top, files, links))
    };
    let (top, files, links) = match library::open(dir, search) {
        Opened::Missing | Opened::Bare(_) => return Err(Error::NoRepository { path: dir.to_owned() }),
        Opened::Repository(library) => match (library.untracked(), library.links()) {
            (Ok(files), Ok(links)) => (library.top().to_owned(), files, links),
            (Err(why), _) | (_, Err(why)) => by_command(library.top().to_owned(), &why)?,
        },
        Opened::Refused(why) => match command::top(dir) {
            Ok(command::Place::WorkTree(top)) => by_command(top, &why)?,
            Ok(command::Place::Bare) => return Err(Error::NoRepository { path: dir.to_owned() }),
            Err(failure) => return Err(unreadable(needs_git(&why, &failure))),
        },
    };
    let mut paths: Vec<Vec<u8>> = files.into_iter().map(|path| [prefix, &path].concat()).collect();
    for link in links {
        let inner = top.join(OsStr::from_bytes(&link));
        if depth < NESTING && fs::symlink_metadata(inner.join(".git")).is_ok() {
            let prefix = [prefix, &link, b"/"].concat();
            paths.extend(list(&inner, Search::Here, &prefix, depth + 1)?.1);
        }
    }
    Ok((top, paths))
}

/// Reads one file; nothing if it is gone or is no file.
fn describe(top: &Path, path: Vec<u8>, digested: bool) -> Option<Untracked> {
    let whole = top.join(OsStr::from_bytes(&path));
    let found = fs::symlink_metadata(&whole).ok()?;
    if found.is_dir() {
        return Some(Untracked { path, size: 0, digest: None, exec: false });
    }
    if found.is_symlink() {
        let target = fs::read_link(&whole).ok()?;
        let target = target.as_os_str().as_bytes();
        return Some(Untracked {
            path,
            size: target.len() as u64,
            digest: Some(object_id(target)),
            exec: false,
        });
    }
    if !found.is_file() {
        return None;
    }
    let exec = found.permissions().mode() & 0o100 != 0;
    let read = if digested && found.len() <= DIGESTED_SIZE { digest(&whole) } else { None };
    let (size, digest) = match read {
        Some((size, digest)) => (size, Some(digest)),
        None => (found.len(), None),
    };
    Some(Untracked { path, size, digest, exec })
}

/// Hashes a file that is still small when it is read; nothing if it has grown or cannot be read.
fn digest(path: &Path) -> Option<(u64, ObjectId)> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(DIGESTED_SIZE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > DIGESTED_SIZE {
        return None;
    }
    let mut hasher = Hasher::new(Digests::Blake3);
    hasher.update(&bytes);
    let print = hasher.finish();
    Some((print.size, print.blake3))
}
