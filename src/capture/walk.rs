//! Observes a file or a directory: every name and every digest, as they were while they were read.
//!
//! Symbolic links inside are recorded and never followed, and nothing but regular files is ever opened; only in a
//! snapshot of the hub's cache a link into the repository's own blobs is that file. What the files mean is not
//! known here, and nothing is written: the caller stores the objects that it gets.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use walkdir::WalkDir;

use crate::codec::Writer;
use crate::id::{Digests, ObjectId, Sha256, object_id};
use crate::model::content::{self, Entry, Object, What, split};

use super::cache::{Cache, Kept, Stamp};
pub(crate) use super::hashing::open_regular;
use super::hashing::{self, Located, Progress, Read, special};

/// Why a file or directory could not be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is there.
    #[error("`{}` does not exist", path.display())]
    Missing {
        /// The path asked for.
        path: PathBuf,
    },
    /// The system refused a step.
    #[error("could not {step} `{}`", path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Neither a file, nor a directory, nor a symbolic link: it has no content to fingerprint.
    #[error("`{}` is a {what}, which has no content to fingerprint", path.display())]
    Special {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It was not the same before and after it was read.
    #[error("`{}` changed while it was read: {what}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A directory could not be encoded.
    #[error("`{}` could not be recorded as a tree", path.display())]
    Content {
        /// The directory.
        path: PathBuf,
        /// The rule that it breaks.
        #[source]
        source: content::Error,
    },
    /// A file is wanted that was not observed.
    #[error("there is no file `{}`", content::escape(path))]
    NotSeen {
        /// The path asked for, relative to the root.
        path: Vec<u8>,
    },
}

/// What to observe.
#[derive(Debug, Clone)]
pub struct Options {
    /// The digests to make; with SHA-256 a directory also gets its sums.
    pub digests: Digests,
    /// Files and directories to leave out, by their paths relative to the root.
    pub ignore: BTreeSet<Vec<u8>>,
    /// How files are read.
    pub reading: Reading,
}

impl Options {
    /// Observes everything, and reads every file.
    pub const fn new(digests: Digests) -> Self {
        Self { digests, ignore: BTreeSet::new(), reading: Reading { is_mapped: false, cache: None } }
    }

    /// Reads files in this way.
    #[must_use]
    pub fn reading(mut self, reading: &Reading) -> Self {
        self.reading = reading.clone();
        self
    }
}

/// How files are read. By default each one is, through buffers.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Map large files into memory, where BLAKE3 alone is made: faster, and the end of the process should one of
    /// them become shorter meanwhile.
    pub is_mapped: bool,
    /// Take the digests of untouched files from here. Only for those who may be fooled by whoever sets the clock.
    pub cache: Option<Kept>,
}

/// What the observed path itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// One regular file.
    File {
        /// Bytes in it.
        size: u64,
        /// Whether its owner may execute it.
        exec: bool,
    },
    /// A directory.
    Dir,
}

/// A regular file as it was while it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its path relative to the root, or its name if it is the root.
    pub path: Vec<u8>,
    /// Bytes in it.
    pub size: u64,
    /// Whether its owner may execute it.
    pub exec: bool,
    /// BLAKE3 of its bytes.
    pub blake3: ObjectId,
    /// SHA-256 of its bytes, if it was asked for.
    pub sha256: Option<Sha256>,
    /// Time of its last change in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Whether it is short and begins as a pointer of git-lfs or git-annex does.
    pub may_point: bool,
}

/// What was seen under a path.
#[derive(Debug, Clone)]
pub struct Tree {
    /// What the path itself is.
    pub root: Root,
    /// The id of the root's tree node, or of its bytes if it is one file.
    pub id: ObjectId,
    /// All files by ascending path.
    pub files: Vec<Seen>,
    /// All symbolic links and their targets by ascending path.
    pub links: Vec<(Vec<u8>, Vec<u8>)>,
    /// All directories below the root by ascending path, also the empty ones.
    pub dirs: Vec<Vec<u8>>,
    /// The tree nodes, children first; none for one file.
    pub nodes: Vec<Object>,
    /// The id of the root's sums and all sums, if SHA-256 was asked for and the root is a directory.
    pub sums: Option<(ObjectId, Vec<Object>)>,
    /// Bytes in all files.
    pub bytes: u64,
}

/// A tree over some of the files that were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    /// The id of its root.
    pub id: ObjectId,
    /// Its nodes, children first.
    pub nodes: Vec<Object>,
}

/// Observes a file or a directory; `progress` is told of bytes as they are read, from several threads.
///
/// A root that is a symbolic link stands for what it points to. Directories named `.ledger` are skipped.
pub fn observe(path: &Path, options: &Options, progress: &(dyn Fn(u64) + Sync)) -> Result<Tree, Error> {
    let mut found = look(path, &options.ignore)?;
    let names = std::mem::take(&mut found.files);
    let mut files: Vec<Seen> = names.into_iter().map(Seen::unread).collect();
    if let Some(kept) = &options.reading.cache {
        read_changed(&found, &mut files, kept, options, progress)?;
    } else {
        let locate = |file: &Seen| found.locate(&file.path);
        let keep = |file: &mut Seen, read: Read<'_>| file.read(read);
        hashing::read_all(&mut files, &locate, &keep, options, progress)?;
    }
    let bytes = files.iter().map(|file| file.size).sum();
    let mut tree = Tree {
        root: Root::Dir,
        id: object_id(b""),
        files,
        links: found.links,
        dirs: found.dirs,
        nodes: Vec::new(),
        sums: None,
        bytes,
    };
    if found.is_file {
        let [file] = &tree.files[..] else { return Err(Error::Missing { path: path.to_owned() }) };
        tree.root = Root::File { size: file.size, exec: file.exec };
        tree.id = file.blake3;
        return Ok(tree);
    }
    let in_root = |source| Error::Content { path: path.to_owned(), source };
    let entries = tree
        .files
        .iter()
        .map(|file| (&file.path[..], What::File { exec: file.exec, size: file.size, id: file.blake3 }));
    let links = tree.links.iter().map(|(path, target)| (&path[..], What::Link(target.clone())));
    let whole = assemble(entries.chain(links), &tree.dirs).map_err(in_root)?;
    if options.digests == Digests::All {
        let digests: HashMap<ObjectId, Sha256> =
            tree.files.iter().filter_map(|file| Some((file.blake3, file.sha256?))).collect();
        let sums = content::build_sums(&whole.nodes, &|id| digests.get(&id).copied()).map_err(in_root)?;
        tree.sums = sums.last().map(|(id, _)| *id).map(|id| (id, sums));
    }
    tree.id = whole.id;
    tree.nodes = whole.nodes;
    Ok(tree)
}

/// Reads those files of which the cache does not know the digests, and keeps all digests there.
fn read_changed(
    found: &Found,
    files: &mut [Seen],
    kept: &Kept,
    options: &Options,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let cache = Cache::load(kept, &found.real, options.digests);
    let look_up = |file: &mut Seen| {
        let stat = found.stat(&file.path)?;
        let stamp = Stamp::of(&stat);
        Ok(stat.is_file().then(|| cache.find(&stamp)).flatten().map(|print| {
            // What begins as a pointer is never kept.
            file.read(Read { print, stat: &stat, may_point: false });
            stamp
        }))
    };
    let mut stamps: Vec<Option<Stamp>> = vec![None; files.len()];
    files.par_iter_mut().zip(&mut stamps).try_for_each(|(file, stamp)| {
        *stamp = look_up(file)?;
        Ok(())
    })?;
    let hits = stamps.iter().flatten().count();
    let mut changed: Vec<(&mut Seen, &mut Option<Stamp>)> =
        files.iter_mut().zip(&mut stamps).filter(|(_, stamp)| stamp.is_none()).collect();
    let locate = |place: &(&mut Seen, &mut Option<Stamp>)| found.locate(&place.0.path);
    let keep = |place: &mut (&mut Seen, &mut Option<Stamp>), read: Read<'_>| {
        *place.1 = (!read.may_point).then(|| Stamp::of(read.stat));
        place.0.read(read);
    };
    hashing::read_all(&mut changed, &locate, &keep, options, progress)?;
    cache.keep(files, &stamps, hits);
    Ok(())
}

impl Seen {
    /// A file of which only the name is known yet.
    const fn unread(path: Vec<u8>) -> Self {
        Self {
            path,
            size: 0,
            exec: false,
            blake3: ObjectId::from_bytes([0; 32]),
            sha256: None,
            mtime_ns: 0,
            may_point: false,
        }
    }

    fn read(&mut self, Read { print, stat, may_point }: Read<'_>) {
        self.size = print.size;
        self.exec = is_exec(stat);
        self.blake3 = print.blake3;
        self.sha256 = print.sha256;
        self.mtime_ns = mtime_ns(stat);
        self.may_point = may_point;
    }
}

impl Tree {
    /// Returns where a file lies that was seen under `path`.
    ///
    /// A root that is a symbolic link stands for the file behind it, which is opened under its own name, since
    /// links are not followed any more once the root is known.
    pub fn place_of(&self, path: &Path, relative: &[u8]) -> PathBuf {
        match self.root {
            Root::File { .. } if path.is_symlink() => {
                fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
            }
            Root::File { .. } => path.to_owned(),
            Root::Dir => path.join(OsStr::from_bytes(relative)),
        }
    }

    /// Returns the file at a relative path.
    pub fn file(&self, path: &[u8]) -> Option<&Seen> {
        let at = self.files.binary_search_by(|file| file.path.as_slice().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// Returns the tree over only these files, without execute bits and with no directory that holds none.
    ///
    /// Copying a model often loses mode bits and empty directories, and no loader reads either.
    pub fn subset(&self, paths: &BTreeSet<Vec<u8>>) -> Result<Subset, Error> {
        let mut entries = Vec::with_capacity(paths.len());
        for path in paths {
            let file = self.file(path).ok_or_else(|| Error::NotSeen { path: path.clone() })?;
            entries.push((&path[..], What::File { exec: false, size: file.size, id: file.blake3 }));
        }
        assemble(entries.into_iter(), &[]).map_err(|source| Error::Content { path: PathBuf::new(), source })
    }

    /// Returns one digest over the names, sizes and times that were seen, equal to that of [`stat_digest`]
    /// while nothing has been touched.
    pub fn stat_digest(&self) -> ObjectId {
        let stats = self.files.iter().map(|file| (&file.path[..], file.size, file.exec, file.mtime_ns));
        digest_stats(stats, &self.links, &self.dirs)
    }
}

/// Returns one digest over names, sizes and times under a path, without reading any file.
///
/// It only tells whether reading again is worth while: content can change under equal sizes and times.
pub fn stat_digest(path: &Path, options: &Options) -> Result<ObjectId, Error> {
    let found = look(path, &options.ignore)?;
    let stats = found
        .files
        .par_iter()
        .map(|relative| {
            let stat = found.stat(relative)?;
            Ok((&relative[..], stat.size(), is_exec(&stat), mtime_ns(&stat)))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(digest_stats(stats.into_iter(), &found.links, &found.dirs))
}

fn digest_stats<'a>(
    files: impl ExactSizeIterator<Item = (&'a [u8], u64, bool, i64)>,
    links: &[(Vec<u8>, Vec<u8>)],
    dirs: &[Vec<u8>],
) -> ObjectId {
    let mut writer = Writer::new();
    writer.array(3).array(files.len());
    for (path, size, exec, mtime_ns) in files {
        writer.array(4).byte_string(path).uint(size).uint(u64::from(exec)).int(mtime_ns);
    }
    writer.array(links.len());
    for (path, target) in links {
        writer.array(2).byte_string(path).byte_string(target);
    }
    writer.array(dirs.len());
    for path in dirs {
        writer.byte_string(path);
    }
    object_id(&writer.finish())
}

/// As git does, the owner's bit decides.
fn is_exec(stat: &Metadata) -> bool {
    stat.mode() & 0o100 != 0
}

fn mtime_ns(stat: &Metadata) -> i64 {
    stat.mtime().saturating_mul(1_000_000_000).saturating_add(stat.mtime_nsec())
}

/// The names under a path, each list by ascending path.
struct Found {
    real: PathBuf,
    shown: PathBuf,
    is_file: bool,
    files: Vec<Vec<u8>>,
    links: Vec<(Vec<u8>, Vec<u8>)>,
    dirs: Vec<Vec<u8>>,
    /// Where files lie that are links in a snapshot of the hub's cache.
    blobs: BTreeMap<Vec<u8>, PathBuf>,
}

impl Found {
    /// Asks the system about a file, without opening it.
    fn stat(&self, relative: &[u8]) -> Result<Metadata, Error> {
        let stat = match self.blobs.get(relative) {
            _ if self.is_file => fs::symlink_metadata(&self.real),
            Some(blob) => fs::symlink_metadata(blob),
            None => fs::symlink_metadata(self.real.join(OsStr::from_bytes(relative))),
        };
        stat.map_err(|source| self.locate(relative).io("read", source))
    }

    fn locate(&self, relative: &[u8]) -> Located {
        if self.is_file {
            return Located { real: self.real.clone(), shown: self.shown.clone() };
        }
        let blob = self.blobs.get(relative).cloned();
        let relative = OsStr::from_bytes(relative);
        Located { real: blob.unwrap_or_else(|| self.real.join(relative)), shown: self.shown.join(relative) }
    }
}

fn look(path: &Path, ignore: &BTreeSet<Vec<u8>>) -> Result<Found, Error> {
    let io = |step, path: &Path, source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
        _ => Error::Io { step, path: path.to_owned(), source },
    };
    // Resolved once, so that a link that is moved meanwhile cannot mix two directories.
    let real = fs::canonicalize(path).map_err(|source| io("find", path, source))?;
    let kind = fs::symlink_metadata(&real).map_err(|source| io("find", path, source))?.file_type();
    let mut found = Found {
        real,
        shown: path.to_owned(),
        is_file: kind.is_file(),
        files: Vec::new(),
        links: Vec::new(),
        dirs: Vec::new(),
        blobs: BTreeMap::new(),
    };
    if found.is_file {
        let name = path.file_name().or_else(|| found.real.file_name()).unwrap_or_default();
        found.files.push(name.as_bytes().to_vec());
        return Ok(found);
    }
    if !kind.is_dir() {
        return Err(Error::Special { path: path.to_owned(), what: special(kind) });
    }
    let relative =
        |path: &Path| path.strip_prefix(&found.real).unwrap_or(path).as_os_str().as_bytes().to_vec();
    let walk = WalkDir::new(&found.real).min_depth(1).follow_links(false).into_iter().filter_entry(|entry| {
        let is_ledger = entry.file_name() == ".ledger" && entry.file_type().is_dir();
        let is_ignored = !ignore.is_empty() && ignore.contains(&relative(entry.path()));
        entry.depth() == 0 || !(is_ledger || is_ignored)
    });
    let (mut files, mut links, mut dirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut blobs = BTreeMap::new();
    for entry in walk {
        let entry = entry.map_err(|error| {
            let at = error
                .path()
                .map_or_else(|| path.to_owned(), |at| path.join(OsStr::from_bytes(&relative(at))));
            io("list", &at, error.into())
        })?;
        let (kind, relative) = (entry.file_type(), relative(entry.path()));
        if kind.is_dir() {
            dirs.push(relative);
        } else if kind.is_file() {
            files.push(relative);
        } else {
            let shown = path.join(OsStr::from_bytes(&relative));
            if !kind.is_symlink() {
                return Err(Error::Special { path: shown, what: special(kind) });
            }
            let target = fs::read_link(entry.path()).map_err(|source| io("read", &shown, source))?;
            if let Some(blob) = super::hub::blob_behind(&found.real, entry.path(), &target) {
                blobs.insert(relative.clone(), blob);
                files.push(relative);
            } else {
                links.push((relative, target.as_os_str().as_bytes().to_vec()));
            }
        }
    }
    files.sort_unstable();
    links.sort_unstable();
    dirs.sort_unstable();
    Ok(Found { files, links, dirs, blobs, ..found })
}

/// Builds the tree over files that were listed elsewhere, by their paths.
pub fn tree_of<'a>(files: impl Iterator<Item = (&'a [u8], What)>) -> Result<Subset, content::Error> {
    assemble(files, &[])
}

/// Builds the tree over entries with their paths, and over directories that may hold none.
fn assemble<'a>(
    entries: impl Iterator<Item = (&'a [u8], What)>,
    dirs: &[Vec<u8>],
) -> Result<Subset, content::Error> {
    let mut open: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
    open.insert(Vec::new(), Vec::new());
    for dir in dirs {
        open.entry(dir.clone()).or_default();
    }
    for (path, what) in entries {
        let (dir, name) = split(path);
        open.entry(dir.to_vec()).or_default().push(Entry { name: name.to_vec(), what });
    }
    let (mut nodes, mut known) = (Vec::new(), HashSet::new());
    let mut root = object_id(b"");
    // A directory is a prefix of all below it and sorts before them, so the greatest has nothing open below.
    while let Some((dir, entries)) = open.pop_last() {
        for (id, bytes) in content::build_node(entries)? {
            root = id;
            if known.insert(id) {
                nodes.push((id, bytes));
            }
        }
        if !dir.is_empty() {
            let (above, name) = split(&dir);
            let entry = Entry { name: name.to_vec(), what: What::Dir(root) };
            open.entry(above.to_vec()).or_default().push(entry);
        }
    }
    Ok(Subset { id: root, nodes })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay files")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::capture::hashing::BUFFER;
    use crate::id::sha256;
    use crate::model::content::{list, unescape};

    fn all() -> Options {
        Options::new(Digests::All)
    }

    fn lay(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            // Names are written as people read them, so a test can name any bytes.
            let name = unescape(name).unwrap();
            let path = dir.path().join(OsStr::from_bytes(&name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn seen(path: &Path) -> Result<Tree, Error> {
        observe(path, &all(), &|_| {})
    }

    fn listed(tree: &Tree) -> BTreeMap<Vec<u8>, What> {
        let nodes: HashMap<ObjectId, Vec<u8>> = tree.nodes.iter().cloned().collect();
        list(tree.id, &mut |id| nodes.get(&id).cloned().ok_or(io::Error::from(io::ErrorKind::NotFound)))
            .unwrap()
    }

    #[test]
    fn a_directory_is_what_its_tree_lists() {
        let dir = lay(&[("b/two", "22"), ("a", "1"), ("b/c/three", "333"), ("b.x", "")]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        symlink("../nowhere", dir.path().join("b/link")).unwrap();
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        let read = AtomicU64::new(0);
        let tree = observe(dir.path(), &all(), &|n| {
            read.fetch_add(n, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!((tree.bytes, read.into_inner()), (6, 6));

        let listed = listed(&tree);
        let file =
            |exec, text: &str| What::File { exec, size: text.len() as u64, id: object_id(text.as_bytes()) };
        assert_eq!(listed[&b"a"[..]], file(true, "1"));
        assert_eq!(listed[&b"b/c/three"[..]], file(false, "333"));
        assert_eq!(listed[&b"b/link"[..]], What::Link(b"../nowhere".to_vec()));
        assert!(matches!(listed[&b"empty"[..]], What::Dir(_)));
        let paths: Vec<&[u8]> = listed.keys().map(|path| &path[..]).collect();
        assert_eq!(paths, [&b"a"[..], b"b", b"b.x", b"b/c", b"b/c/three", b"b/link", b"b/two", b"empty"]);
        assert_eq!(tree.files[0].sha256, Some(sha256(b"1")));
        assert_eq!(tree.nodes.last().unwrap().0, tree.id);

        let (root, sums) = tree.sums.as_ref().unwrap();
        assert_eq!((sums.len(), sums.last().unwrap().0), (tree.nodes.len(), *root));
        let top = content::Sums::decode(&sums.last().unwrap().1).unwrap();
        assert_eq!((top.tree, top.files), (tree.id, vec![sha256(b"1"), sha256(b"")]));
        let plain = observe(dir.path(), &Options::new(Digests::Blake3), &|_| {}).unwrap();
        assert!(plain.sums.is_none() && plain.files[0].sha256.is_none() && plain.id == tree.id);
    }

    #[test]
    fn the_id_depends_on_content_and_on_nothing_else() {
        let [one, two] = [(); 2].map(|()| lay(&[("x/a", "1"), ("y/a", "1")]));
        let id = seen(one.path()).unwrap().id;
        assert_eq!(id, seen(two.path()).unwrap().id);
        let edits: [fn(&Path); 5] = [
            |root| fs::write(root.join("x/a"), "2").unwrap(),
            |root| fs::create_dir(root.join("z")).unwrap(),
            |root| fs::rename(root.join("x/a"), root.join("x/b")).unwrap(),
            |root| symlink("a", root.join("x/l")).unwrap(),
            |root| fs::set_permissions(root.join("x/a"), fs::Permissions::from_mode(0o700)).unwrap(),
        ];
        for (at, edit) in edits.into_iter().enumerate() {
            let copy = lay(&[("x/a", "1"), ("y/a", "1")]);
            edit(copy.path());
            assert_ne!(seen(copy.path()).unwrap().id, id, "edit {at}");
        }
    }

    #[test]
    fn ledgers_and_ignored_paths_are_left_out() {
        let dir = lay(&[
            ("a", "1"),
            (".ledger/log/x", "2"),
            ("sub/.ledger/y", "3"),
            ("sub/b", "4"),
            ("out/c", "5"),
        ]);
        let options = Options { ignore: [b"out".to_vec()].into(), ..all() };
        let tree = observe(dir.path(), &options, &|_| {}).unwrap();
        let paths: Vec<&[u8]> = tree.files.iter().map(|file| &file.path[..]).collect();
        assert_eq!(paths, [&b"a"[..], b"sub/b"]);
        assert_eq!(tree.dirs, [b"sub".to_vec()]);
        let file_of_that_name = lay(&[(".ledger", "a file")]);
        assert_eq!(seen(file_of_that_name.path()).unwrap().files.len(), 1);
    }

    #[test]
    fn one_file_is_a_blob_under_its_name() {
        let dir = lay(&[("m.bin", "weights")]);
        symlink("m.bin", dir.path().join("latest")).unwrap();
        let tree = seen(&dir.path().join("m.bin")).unwrap();
        assert_eq!((tree.root, tree.id), (Root::File { size: 7, exec: false }, object_id(b"weights")));
        assert_eq!((&tree.files[0].path[..], tree.nodes.len(), tree.sums), (&b"m.bin"[..], 0, None));
        assert_eq!(seen(&dir.path().join("latest")).unwrap().id, object_id(b"weights"));
    }

    #[test]
    fn any_name_works() {
        let dir = lay(&[("new\\x0aline", "1"), ("\\xff\\xfe/caf\\xe9", "2"), ("\u{e9}", "3")]);
        let tree = seen(dir.path()).unwrap();
        assert_eq!(tree.files.len(), 3);
        assert!(listed(&tree).contains_key(&b"\xff\xfe/caf\xe9"[..]));
        assert!(tree.file(b"new\nline").is_some() && tree.file(b"new").is_none());
    }

    #[test]
    fn a_backslash_is_a_byte_of_a_name_and_parts_nothing() {
        let both = lay(&[("a\\x5cb", "1"), ("a/b", "2")]);
        let tree = seen(both.path()).unwrap();
        assert_eq!((tree.files.len(), tree.dirs.as_slice()), (2, &[b"a".to_vec()][..]));
        assert_eq!(tree.file(b"a\\b").unwrap().blake3, object_id(b"1"));
        assert_eq!(tree.file(b"a/b").unwrap().blake3, object_id(b"2"));
        let [name, path] = ["a\\x5cb", "a/b"].map(|name| lay(&[(name, "1")]));
        assert_ne!(seen(name.path()).unwrap().id, seen(path.path()).unwrap().id);
    }

    #[test]
    fn a_name_is_as_long_as_the_system_takes_it() {
        // 255 bytes, each of which is written with four.
        let long = "\\xfe".repeat(255);
        let dir = lay(&[(&format!("{long}/{long}"), "1")]);
        let tree = seen(dir.path()).unwrap();
        let path = [&[0xfe; 255][..], b"/", &[0xfe; 255]].concat();
        assert_eq!(tree.file(&path).unwrap().blake3, object_id(b"1"));
        assert!(listed(&tree).contains_key(&path), "and the tree gives it back");
    }

    #[test]
    fn links_inside_are_recorded_and_never_followed() {
        let dir = lay(&[("data/a", "1")]);
        symlink("loop", dir.path().join("loop")).unwrap();
        symlink("..", dir.path().join("data/up")).unwrap();
        symlink("/nowhere/at/all", dir.path().join("broken")).unwrap();
        symlink("data", dir.path().join("root")).unwrap();
        let tree = seen(dir.path()).unwrap();
        assert_eq!((tree.files.len(), tree.links.len()), (1, 4));
        assert_eq!(seen(&dir.path().join("root")).unwrap().id, seen(&dir.path().join("data")).unwrap().id);
        assert!(matches!(seen(&dir.path().join("broken")), Err(Error::Missing { .. })));
        assert!(matches!(seen(&dir.path().join("loop")), Err(Error::Io { .. })));
        assert!(matches!(seen(&dir.path().join("absent")), Err(Error::Missing { .. })));
    }

    #[test]
    fn special_files_are_named_and_not_opened() {
        let dir = lay(&[("sub/a", "1")]);
        let fifo = dir.path().join("sub/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        // Nobody writes to it, so opening it in the usual way would wait for ever.
        for path in [dir.path(), &fifo] {
            let error = seen(path).unwrap_err();
            assert!(matches!(&error, Error::Special { path, what: "FIFO" } if *path == fifo), "{error}");
            assert!(matches!(stat_digest(path, &all()), Err(Error::Special { .. })));
        }
        let error = open_regular(&fifo).unwrap_err();
        assert!(matches!(error, Error::Special { what: "FIFO", .. }), "{error}");
        fs::remove_file(&fifo).unwrap();
        let socket = dir.path().join("sub/socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(matches!(seen(dir.path()), Err(Error::Special { path, what: "socket" }) if path == socket));
        assert!(matches!(seen(Path::new("/dev/null")), Err(Error::Special { what: "character device", .. })));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        // The system lets nobody read this file at its beginning, not even its owner.
        let path = Path::new("/proc/self/mem");
        let error = seen(path).unwrap_err();
        assert!(matches!(&error, Error::Io { path: named, .. } if named == path), "{error}");
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_named() {
        use std::io::{Seek as _, Write as _};
        let edits: [fn(&Path); 5] = [
            |path| fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap(),
            |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(10).unwrap(),
            |path| {
                let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.seek(io::SeekFrom::Start(1)).unwrap();
                file.write_all(b"x").unwrap();
                // Clocks of file systems are coarse; a real writer also leaves another time.
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            },
            |path| {
                let other = path.with_extension("new");
                fs::write(&other, vec![b'a'; 3 * BUFFER]).unwrap();
                fs::rename(other, path).unwrap();
            },
            |path| fs::remove_file(path).unwrap(),
        ];
        for (at, edit) in edits.into_iter().enumerate() {
            let dir = lay(&[("data/big", &"a".repeat(3 * BUFFER))]);
            let path = dir.path().join("data/big");
            let done = AtomicBool::new(false);
            let result = observe(&dir.path().join("data"), &all(), &|_| {
                if !done.swap(true, Ordering::Relaxed) {
                    edit(&path);
                }
            });
            assert!(matches!(result, Err(Error::Changed { path: named, .. }) if named == path), "edit {at}");
        }
        let dir = lay(&[("big", &"a".repeat(3 * BUFFER))]);
        assert!(seen(dir.path()).is_ok(), "left alone it is fine");
    }

    #[test]
    fn a_subset_ignores_modes_and_empty_directories() {
        let dir = lay(&[("a", "1"), ("sub/b", "2"), ("other/c", "3")]);
        let wanted: BTreeSet<Vec<u8>> = [b"a".to_vec(), b"sub/b".to_vec()].into();
        let before = seen(dir.path()).unwrap();
        let subset = before.subset(&wanted).unwrap();
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("sub/empty")).unwrap();
        fs::write(dir.path().join("other/c"), "changed").unwrap();
        let after = seen(dir.path()).unwrap();
        assert_ne!(after.id, before.id);
        assert_eq!(after.subset(&wanted).unwrap(), subset);
        let alone = lay(&[("a", "1"), ("sub/b", "2")]);
        assert_eq!(seen(alone.path()).unwrap().id, subset.id);
        fs::write(dir.path().join("sub/b"), "4").unwrap();
        assert_ne!(seen(dir.path()).unwrap().subset(&wanted).unwrap().id, subset.id);
        let missing = [b"sub/none".to_vec()].into();
        assert!(matches!(after.subset(&missing), Err(Error::NotSeen { .. })));
    }

    #[test]
    fn the_stat_digest_tells_whether_to_read_again() {
        let dir = lay(&[("a", "1"), ("sub/b", "2")]);
        symlink("a", dir.path().join("l")).unwrap();
        let digest = seen(dir.path()).unwrap().stat_digest();
        assert_eq!(stat_digest(dir.path(), &all()).unwrap(), digest);
        let file = fs::OpenOptions::new().write(true).open(dir.path().join("sub/b")).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.set_modified(time + std::time::Duration::from_micros(1)).unwrap();
        assert_ne!(stat_digest(dir.path(), &all()).unwrap(), digest, "a time");
        file.set_modified(time).unwrap();
        assert_eq!(stat_digest(dir.path(), &all()).unwrap(), digest);
        fs::remove_file(dir.path().join("l")).unwrap();
        symlink("b", dir.path().join("l")).unwrap();
        assert_ne!(stat_digest(dir.path(), &all()).unwrap(), digest, "a link");
        let one = dir.path().join("a");
        assert_eq!(seen(&one).unwrap().stat_digest(), stat_digest(&one, &all()).unwrap());
    }

    #[test]
    fn equal_directories_share_their_node() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(seen(dir.path()).unwrap().nodes.len(), 1, "an empty directory is one node");
        let twins = lay(&[("x/a", "1"), ("y/a", "1")]);
        let tree = seen(twins.path()).unwrap();
        assert_eq!((tree.nodes.len(), tree.nodes[1].0), (2, tree.id));
    }
}
