//! Reads regular files and digests them, once for all digests that are wanted, on all cores.
//!
//! Files are read, never mapped unless that was asked for: a mapped file that becomes shorter ends the process.
//! Most files are one core's work each. A large one is the work of all cores: BLAKE3 is a tree, so pieces of it
//! are read and hashed apart. SHA-256 is one stream, so of a large file a second thread makes it from the same
//! buffers. Whatever the files' number and size, a core holds a few buffers and nothing more.

use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rayon::prelude::*;
use rustix::fs::OFlags;

use super::walk::{Error, Options};
use crate::id::{
    Digests, Fingerprint, Hasher, ObjectId, Piece, PieceHasher, Sha256, Sha256Hasher, join_pieces,
    object_id_of_mapped,
};

/// Large enough that a read costs nothing beside the hash, small enough for the core's own cache.
pub(super) const BUFFER: usize = 256 << 10;
const PAGE: usize = 4096;
/// What a core reads of a large file at a time: a subtree of BLAKE3, so a power of two.
const PIECE: u64 = 1 << 20;
/// Pieces of one file whose digests are held until the last is read; of larger files pieces are larger.
const MAX_PIECES: u64 = 1 << 16;
/// A file of fewer pieces for each core is left to one core, since the others would soon wait for it.
const PIECES_A_CORE: u64 = 4;
/// From this size on a second thread makes SHA-256; to start one takes longer than it saves on smaller files.
const TWO_THREADS: u64 = 4 << 20;
/// Buffers on their way between the two threads.
const IN_FLIGHT: usize = 3;

/// What is read into, at the beginning of a page of memory.
///
/// Processors that copy with one instruction do it several times slower to other addresses, see
/// `docs/performance.md`.
struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    fn new() -> Self {
        let bytes = vec![0; BUFFER + PAGE];
        // Where no address can be told, the first byte will do.
        let begin = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Self { bytes, begin }
    }

    /// The part that the next bytes of a file are read into, of which so many are left.
    fn part(&mut self, left: u64) -> &mut [u8] {
        let len = left.min(BUFFER as u64) as usize;
        &mut self.bytes[self.begin..self.begin + len]
    }

    fn filled(&self, len: usize) -> &[u8] {
        &self.bytes[self.begin..self.begin + len]
    }
}

thread_local! {
    /// One buffer a thread, however many files it reads.
    static READ: RefCell<Buffer> = RefCell::new(Buffer::new());
}

/// What was read of a file, and what the system knew of it before and after.
pub(super) struct Read<'a> {
    pub(super) print: Fingerprint,
    pub(super) stat: &'a Metadata,
    /// Whether it is short and begins as a pointer of git-lfs or git-annex does.
    pub(super) may_point: bool,
}

/// The longest pointer of git-lfs, and of git-annex in a file's place.
const MAX_POINTER: u64 = 1024;

/// Tells whether a file begins as one that stands in the place of another.
fn begins_as_pointer(bytes: &[u8]) -> bool {
    [&b"version https://git-lfs"[..], b"/annex/objects/"].iter().any(|begin| bytes.starts_with(begin))
}

/// Told of bytes as they are read, from several threads.
pub(super) type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// A file under its real path, for the system, and under the path that the user gave, for messages.
pub(super) struct Located {
    pub(super) real: PathBuf,
    pub(super) shown: PathBuf,
}

impl Located {
    pub(super) fn io(&self, step: &'static str, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::NotFound {
            return self.changed("it was removed");
        }
        Error::Io { step, path: self.shown.clone(), source }
    }

    fn changed(&self, what: &'static str) -> Error {
        Error::Changed { path: self.shown.clone(), what }
    }

    /// Says what a failed read means: it was asked for no more bytes than the file had when it was opened.
    fn unread(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => self.changed("it became shorter"),
            _ => self.io("read", source),
        }
    }
}

/// Digests files, each for the place that it belongs to, and stops at the first that cannot be digested.
pub(super) fn read_all<T: Send + Sync>(
    places: &mut [T],
    locate: &(dyn Fn(&T) -> Located + Sync),
    keep: &(dyn Fn(&mut T, Read<'_>) + Sync),
    options: &Options,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let cores = rayon::current_num_threads() as u64;
    let one_core = match options.digests {
        Digests::All => TWO_THREADS,
        // Should it have to be read after all, it has two pieces at least.
        Digests::Blake3 if options.reading.is_mapped => PIECE + 1,
        Digests::Blake3 => PIECE * PIECES_A_CORE * cores,
    };
    // Those that take more than one thread come last, when all threads are free for them.
    let large = Mutex::new(Vec::new());
    places.par_iter_mut().try_for_each(|place| {
        let at = locate(place);
        let (mut file, stat) = open_at(&at)?;
        if stat.size() >= one_core {
            large.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            return Ok(());
        }
        let (print, may_point) = on_one_core(&at, &mut file, stat.size(), options.digests, progress)?;
        unchanged(&at, &stat)?;
        keep(place, Read { print, stat: &stat, may_point });
        Ok(())
    })?;
    let mut large = large.into_inner().unwrap_or_else(PoisonError::into_inner);
    let read = |place: &mut T| {
        let at = locate(place);
        let (mut file, stat) = open_at(&at)?;
        let size = stat.size();
        let print = match options.digests {
            Digests::All => in_two_threads(&at, &mut file, size, progress)?,
            Digests::Blake3 => {
                let blake3 = on_all_cores(&at, &file, size, options.reading.is_mapped, progress)?;
                Fingerprint { blake3, sha256: None, size }
            }
        };
        unchanged(&at, &stat)?;
        keep(place, Read { print, stat: &stat, may_point: false });
        Ok(())
    };
    match options.digests {
        // One after the other, each read from its beginning on, is what disks like best.
        Digests::Blake3 => large.iter_mut().try_for_each(|place| read(place)),
        Digests::All => large.par_iter_mut().with_max_len(1).try_for_each(|place| read(place)),
    }
}

/// Opens a regular file for reading and returns what the system knows of it; anything else is refused unread.
///
/// A symbolic link is not followed, and a FIFO that has taken the file's place does not block.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), Error> {
    // In a snapshot of the hub's cache the link is the file, as it was when the directory was looked at.
    let blob = fs::read_link(path).ok().and_then(|target| {
        let dir = fs::canonicalize(path.parent()?).ok()?;
        super::hub::blob_behind(&dir, &dir.join(path.file_name()?), &target)
    });
    open_at(&Located { real: blob.unwrap_or_else(|| path.to_owned()), shown: path.to_owned() })
}

fn open_at(at: &Located) -> Result<(File, Metadata), Error> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&at.real).map_err(|source| {
        if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return at.changed("it became a symbolic link");
        }
        at.io("open", source)
    })?;
    let stat = file.metadata().map_err(|source| at.io("read", source))?;
    if !stat.is_file() {
        return Err(Error::Special { path: at.shown.clone(), what: special(stat.file_type()) });
    }
    Ok((file, stat))
}

/// Says what a file without content is.
pub(super) fn special(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() => "block device",
        () if kind.is_char_device() => "character device",
        () => "special file",
    }
}

/// Makes sure that a path still holds the file that was opened, untouched since.
///
/// The time of the last change of anything is among what is compared, since a program can set the other one back.
fn unchanged(at: &Located, before: &Metadata) -> Result<(), Error> {
    // One look at the name is enough: under it lies the file that was read, or another.
    let after = fs::symlink_metadata(&at.real).map_err(|source| at.io("read", source))?;
    if (after.dev(), after.ino()) != (before.dev(), before.ino()) {
        return Err(at.changed("another file took its place"));
    }
    let stamp =
        |stat: &Metadata| (stat.size(), stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec());
    if stamp(&after) != stamp(before) {
        return Err(at.changed("its size or time differs"));
    }
    Ok(())
}

/// Reads a file from its beginning to its end on this thread, and tells whether it may be a pointer.
fn on_one_core(
    at: &Located,
    file: &mut File,
    size: u64,
    digests: Digests,
    progress: Progress<'_>,
) -> Result<(Fingerprint, bool), Error> {
    let mut hasher = Hasher::new(digests);
    let mut may_point = false;
    READ.with_borrow_mut(|buffer| {
        let mut left = size;
        while left > 0 {
            let part = buffer.part(left);
            io::Read::read_exact(file, part).map_err(|source| at.unread(source))?;
            hasher.update(part);
            may_point = size <= MAX_POINTER && begins_as_pointer(part);
            left -= part.len() as u64;
            progress(part.len() as u64);
        }
        // Files of `/proc` and of some networks say that they are empty and are not.
        if size == 0 && io::Read::read(file, buffer.part(1)).map_err(|source| at.io("read", source))? > 0 {
            return Err(at.changed("it grew"));
        }
        Ok((hasher.finish(), may_point))
    })
}

/// Makes BLAKE3 of a file of more than one piece on all cores.
fn on_all_cores(
    at: &Located,
    file: &File,
    size: u64,
    is_mapped: bool,
    progress: Progress<'_>,
) -> Result<ObjectId, Error> {
    // By its number the open file is mapped, whatever has its name by now. Without `/proc` it is read.
    let number = format!("/proc/self/fd/{}", file.as_raw_fd());
    if is_mapped && let Ok(id) = object_id_of_mapped(Path::new(&number)) {
        progress(size);
        return Ok(id);
    }
    let piece = PIECE.max(size.div_ceil(MAX_PIECES).next_power_of_two());
    let count = size.div_ceil(piece);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let pieces = Mutex::new(Vec::with_capacity(count as usize));
    let work = || loop {
        // In the order of the file, so that a disk reads ahead.
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= count {
            return;
        }
        let begin = nth * piece;
        match read_piece(at, file, begin, piece.min(size - begin), progress) {
            Ok(piece) => pieces.lock().unwrap_or_else(PoisonError::into_inner).push((nth, piece)),
            Err(error) => {
                next.store(count, Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    rayon::broadcast(|_| work());
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut pieces: Vec<(u64, Piece)> = pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
    pieces.sort_unstable_by_key(|(nth, _)| *nth);
    let pieces: Vec<Piece> = pieces.into_iter().map(|(_, piece)| piece).collect();
    join_pieces(&pieces).ok_or_else(|| at.changed("it became shorter"))
}

fn read_piece(
    at: &Located,
    file: &File,
    begin: u64,
    len: u64,
    progress: Progress<'_>,
) -> Result<Piece, Error> {
    let mut hasher = PieceHasher::at(begin);
    READ.with_borrow_mut(|buffer| {
        let mut done = 0;
        while done < len {
            let part = buffer.part(len - done);
            file.read_exact_at(part, begin + done).map_err(|source| at.unread(source))?;
            hasher.update(part);
            done += part.len() as u64;
            progress(part.len() as u64);
        }
        Ok(hasher.finish())
    })
}

/// A buffer and how much of it is filled.
type Filled = (Buffer, usize);

/// Reads a file once for both digests, of which each has a thread.
fn in_two_threads(
    at: &Located,
    file: &mut File,
    size: u64,
    progress: Progress<'_>,
) -> Result<Fingerprint, Error> {
    let (filled, to_hash): (SyncSender<Filled>, Receiver<Filled>) = sync_channel(IN_FLIGHT);
    let (spent, free): (Sender<Buffer>, Receiver<Buffer>) = channel();
    thread::scope(|scope| {
        let hash = move || {
            let mut hasher = Sha256Hasher::default();
            for (buffer, len) in to_hash {
                hasher.update(buffer.filled(len));
                // Nobody wants it back after the last one.
                let _ = spent.send(buffer);
            }
            hasher.finish()
        };
        let Ok(other) = thread::Builder::new().spawn_scoped(scope, hash) else {
            return Ok(on_one_core(at, file, size, Digests::All, progress)?.0);
        };
        let mut hasher = Hasher::new(Digests::Blake3);
        let (mut left, mut made) = (size, 0);
        while left > 0 {
            let mut buffer = match free.try_recv() {
                Ok(buffer) => buffer,
                Err(_) if made < IN_FLIGHT => Buffer::new(),
                Err(_) => free.recv().unwrap_or_else(|_| Buffer::new()),
            };
            made = IN_FLIGHT.min(made + 1);
            let part = buffer.part(left);
            let len = part.len();
            io::Read::read_exact(file, part).map_err(|source| at.unread(source))?;
            hasher.update(buffer.filled(len));
            left -= len as u64;
            progress(len as u64);
            if filled.send((buffer, len)).is_err() {
                break;
            }
        }
        drop(filled);
        let sha256: Sha256 = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Fingerprint { sha256: Some(sha256), ..hasher.finish() })
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay files")]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::capture::walk::{Reading, observe};
    use crate::id::{object_id, sha256};

    fn options(digests: Digests, is_mapped: bool) -> Options {
        Options::new(digests).reading(&Reading { is_mapped, cache: None })
    }

    /// Every way in which a file is read.
    fn ways() -> [Options; 3] {
        [options(Digests::Blake3, false), options(Digests::All, false), options(Digests::Blake3, true)]
    }

    /// More bytes than one core is given, which repeat nowhere near a piece's length.
    fn large() -> Vec<u8> {
        let size = PIECE * PIECES_A_CORE * rayon::current_num_threads() as u64 + PIECE / 2 + 7;
        let mut block: u64 = 0;
        let mut bytes = Vec::with_capacity(size as usize);
        while (bytes.len() as u64) < size {
            block += 1;
            bytes.extend_from_slice(object_id(&block.to_le_bytes()).as_bytes());
        }
        bytes.truncate(size as usize);
        bytes
    }

    #[test]
    fn files_of_every_size_have_the_digests_of_their_bytes() {
        let bytes = large();
        let edges = [0, 1, 1024, BUFFER as u64, PIECE, TWO_THREADS, bytes.len() as u64 - PIECE / 2 - 7];
        let sizes = edges.into_iter().flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]);
        let sizes: std::collections::BTreeSet<usize> =
            sizes.map(|size| size as usize).chain([bytes.len()]).collect();
        let dir = tempfile::tempdir().unwrap();
        for size in &sizes {
            fs::write(dir.path().join(size.to_string()), &bytes[..*size]).unwrap();
        }
        for options in ways() {
            let told = AtomicU64::new(0);
            let add = |bytes| {
                told.fetch_add(bytes, Ordering::Relaxed);
            };
            let tree = observe(dir.path(), &options, &add).unwrap();
            assert_eq!(tree.files.len(), sizes.len());
            for file in &tree.files {
                let size: usize = std::str::from_utf8(&file.path).unwrap().parse().unwrap();
                let part = &bytes[..size];
                assert_eq!((file.size, file.blake3), (size as u64, object_id(part)), "{options:?}: {size}");
                let wanted = (options.digests == Digests::All).then(|| sha256(part));
                assert_eq!(file.sha256, wanted, "{options:?}: {size}");
            }
            assert_eq!(told.into_inner(), tree.bytes, "{options:?}");
        }
    }

    #[test]
    fn holes_count_as_the_zeros_that_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let mut bytes = vec![0; large().len()];
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4].copy_from_slice(b"here");
        let mut file = File::create(&path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.seek(SeekFrom::Start(middle as u64)).unwrap();
        file.write_all(b"here").unwrap();
        drop(file);
        for options in ways() {
            let tree = observe(&path, &options, &|_| {}).unwrap();
            assert_eq!((tree.id, tree.bytes), (object_id(&bytes), bytes.len() as u64));
        }
    }

    #[test]
    fn of_thousands_of_files_each_has_its_own_digest() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..3000u32 {
            let folder = dir.path().join((n % 7).to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(n.to_string()), n.to_string().repeat(n as usize % 5)).unwrap();
        }
        let tree = observe(dir.path(), &options(Digests::All, false), &|_| {}).unwrap();
        assert_eq!(tree.files.len(), 3000);
        for file in &tree.files {
            let n: u32 = std::str::from_utf8(&file.path[2..]).unwrap().parse().unwrap();
            let bytes = n.to_string().repeat(n as usize % 5);
            assert_eq!(file.blake3, object_id(bytes.as_bytes()));
            assert_eq!(file.sha256, Some(sha256(bytes.as_bytes())));
        }
    }

    /// What somebody does to a file while it is read; `keeps_length` where a mapping survives it.
    struct Edit {
        name: &'static str,
        keeps_length: bool,
        act: fn(&Path),
    }

    const EDITS: &[Edit] = &[
        Edit {
            name: "it grows",
            keeps_length: true,
            act: |path| {
                fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
            },
        },
        Edit {
            name: "it shrinks",
            keeps_length: false,
            act: |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(10).unwrap(),
        },
        Edit {
            name: "another takes its place",
            keeps_length: true,
            act: |path| {
                let other = path.with_extension("new");
                fs::copy(path, &other).unwrap();
                fs::rename(other, path).unwrap();
            },
        },
        Edit {
            name: "it is written to and its time is set back",
            keeps_length: true,
            act: |path| {
                let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
                let time = file.metadata().unwrap().modified().unwrap();
                file.write_all(b"x").unwrap();
                // The clocks of file systems are coarse; within one tick nobody could tell.
                thread::sleep(std::time::Duration::from_millis(20));
                file.set_modified(time).unwrap();
            },
        },
        Edit { name: "it is removed", keeps_length: true, act: |path| fs::remove_file(path).unwrap() },
    ];

    #[test]
    fn a_large_file_that_changes_while_it_is_read_is_named() {
        let bytes = large();
        for options in ways() {
            for edit in EDITS.iter().filter(|edit| edit.keeps_length || !options.reading.is_mapped) {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("data/large");
                fs::create_dir(dir.path().join("data")).unwrap();
                fs::write(&path, &bytes).unwrap();
                let done = AtomicBool::new(false);
                let result = observe(&dir.path().join("data"), &options, &|_| {
                    if !done.swap(true, Ordering::Relaxed) {
                        (edit.act)(&path);
                    }
                });
                let name = edit.name;
                assert!(
                    matches!(&result, Err(Error::Changed { path: named, .. }) if *named == path),
                    "{name}, {options:?}: {:?}",
                    result.map(|tree| tree.id)
                );
            }
        }
    }

    #[test]
    fn a_file_that_says_it_is_empty_and_is_not_is_no_empty_file() {
        // A file of the kernel's has no size until it is read.
        let path = Path::new("/proc/self/status");
        if path.exists() {
            let seen = observe(path, &options(Digests::Blake3, false), &|_| {});
            assert!(matches!(seen, Err(Error::Changed { .. })));
        }
    }
}
