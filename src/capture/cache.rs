//! Digests that were made before, kept in the user's cache for files that have not been touched since.
//!
//! A file is known by device, inode, size and the times of its last write and of its last change of any kind, all
//! to the nanosecond. A program can set the first time and not the second, so a file that another one replaced is
//! read again even if both look alike. A file that was touched about when it was read is not kept: it could change
//! once more within the same tick of the file system's clock. Git calls such entries racy. Nor is a file kept that
//! begins as a pointer to other data does, so that whoever finds one here need not look at it again.
//!
//! The cache is derived: whatever is wrong with it, files are read. It is one file for each observed path, sorted
//! rows between a magic and a checksum, replaced as a whole. Those who must not be fooled never ask it.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durable::{Disk, RealDisk, outside};
use crate::id::{Digests, Fingerprint, ObjectId, Sha256, object_id};

use super::walk::Seen;

/// Where digests are kept, and when the command began that uses them.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The directory.
    pub dir: PathBuf,
    /// Seconds since 1970, not later than the first file is looked at.
    pub now: u64,
}

/// What the system says of a file, by which it is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Stamp {
    pub(super) fn of(stat: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            dev: stat.dev(),
            ino: stat.ino(),
            size: stat.size(),
            mtime_ns: ns(stat.mtime(), stat.mtime_nsec()),
            ctime_ns: ns(stat.ctime(), stat.ctime_nsec()),
        }
    }

    fn to_bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        let words = [
            self.dev.to_be_bytes(),
            self.ino.to_be_bytes(),
            self.size.to_be_bytes(),
            self.mtime_ns.to_be_bytes(),
            self.ctime_ns.to_be_bytes(),
        ];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word);
        }
        bytes
    }

    /// Whether the file had rested when it was read, so that a later change gives it another stamp.
    fn has_rested(&self, now: u64) -> bool {
        let now = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        self.mtime_ns.max(self.ctime_ns).saturating_add(GRANULE) <= now
    }
}

/// The coarsest clock of a file system, in nanoseconds: FAT counts in steps of two seconds.
const GRANULE: i64 = 2_000_000_000;
/// Changes whenever a row does.
const MAGIC: &[u8; 16] = b"ledger-digests/2";
const STAMP: usize = 40;
const DIGEST: usize = 32;
/// Fewer files and bytes are read again as fast as a cache is.
const FEW_FILES: usize = 16;
const FEW_BYTES: u64 = 16 << 20;
/// Above this many bytes a cache file is not one of ours: 40 million files.
const MAX_FILE: usize = 4 << 30;
const MODE: u32 = 0o600;

/// What was kept of one path.
#[derive(Debug)]
pub(super) struct Cache {
    path: PathBuf,
    now: u64,
    digests: Digests,
    /// The file's bytes, checked; none where there was no file to be used.
    bytes: Vec<u8>,
}

impl Cache {
    /// Loads what was kept of a path, given without links in it.
    pub(super) fn load(kept: &Kept, root: &Path, digests: Digests) -> Self {
        let name = object_id(root.as_os_str().as_bytes()).to_hex();
        let ending = if digests == Digests::All { "all" } else { "blake3" };
        let path = kept.dir.join(format!("{}.{ending}", &name[..32]));
        let read = outside::read(&path, MAX_FILE).ok().flatten();
        let mut cache = Self { path, now: kept.now, digests, bytes: read.unwrap_or_default() };
        if !cache.is_whole() {
            cache.bytes = Vec::new();
        }
        cache
    }

    const fn width(&self) -> usize {
        match self.digests {
            Digests::Blake3 => STAMP + DIGEST,
            Digests::All => STAMP + 2 * DIGEST,
        }
    }

    fn is_whole(&self) -> bool {
        let Some((rest, digest)) = self.bytes.split_last_chunk::<DIGEST>() else { return false };
        let Some(rows) = rest.strip_prefix(MAGIC.as_slice()) else { return false };
        rows.len().is_multiple_of(self.width()) && object_id(rest).as_bytes() == digest
    }

    fn rows(&self) -> &[u8] {
        self.bytes.get(MAGIC.len()..self.bytes.len().saturating_sub(DIGEST)).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.rows().len() / self.width()
    }

    /// Returns the digests of a file that has been untouched since they were made.
    pub(super) fn find(&self, stamp: &Stamp) -> Option<Fingerprint> {
        let (wanted, width) = (stamp.to_bytes(), self.width());
        let rows = self.rows();
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let row = rows.get(middle * width..(middle + 1) * width)?;
            match row[..STAMP].cmp(wanted.as_slice()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let (blake3, rest) = row[STAMP..].split_first_chunk()?;
                    let sha256 = rest.first_chunk().map(|bytes| Sha256::from_bytes(*bytes));
                    return Some(Fingerprint {
                        blake3: ObjectId::from_bytes(*blake3),
                        sha256,
                        size: stamp.size,
                    });
                }
            }
        }
        None
    }

    /// Keeps what is known now, unless that is what was loaded. `found` files came from here.
    ///
    /// A cache that cannot be written is none; nobody has to be told.
    pub(super) fn keep(self, seen: &[Seen], stamps: &[Option<Stamp>], found: usize) {
        let rested = |stamp: &&Stamp| stamp.has_rested(self.now);
        let count = stamps.iter().flatten().filter(rested).count();
        let bytes: u64 = seen.iter().map(|file| file.size).sum();
        let is_small = seen.len() < FEW_FILES && bytes < FEW_BYTES;
        let is_current = count <= found && self.len() <= 2 * found;
        if is_small || is_current {
            return;
        }
        let (width, path) = (self.width(), self.path);
        drop(self.bytes);
        let mut rows: Vec<(Stamp, &Seen)> = stamps
            .iter()
            .zip(seen)
            .filter_map(|(stamp, seen)| Some((stamp.filter(|stamp| stamp.has_rested(self.now))?, seen)))
            .collect();
        rows.sort_unstable_by_key(|(stamp, _)| stamp.to_bytes());
        // Two names of one file.
        rows.dedup_by_key(|(stamp, _)| *stamp);
        let mut bytes = Vec::with_capacity(MAGIC.len() + rows.len() * width + DIGEST);
        bytes.extend_from_slice(MAGIC);
        for (stamp, seen) in rows {
            bytes.extend_from_slice(&stamp.to_bytes());
            bytes.extend_from_slice(seen.blake3.as_bytes());
            if let Some(sha256) = &seen.sha256 {
                bytes.extend_from_slice(sha256.as_bytes());
            }
        }
        let digest = object_id(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let _ = outside::replace_derived(&disk, &path, &bytes, MODE);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay files and read the clock")]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::capture::walk::{Options, Reading, Tree, observe};

    /// Twenty files and a cache for them.
    struct Scene {
        data: tempfile::TempDir,
        cache: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { data: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
            for n in 0..20 {
                fs::write(scene.file(n), format!("content {n:02}")).unwrap();
            }
            scene
        }

        fn file(&self, n: u32) -> PathBuf {
            self.data.path().join(format!("{n:02}"))
        }

        /// Observes the files as a command does that begins so many seconds from now.
        fn seen(&self, digests: Digests, later: u64) -> (Tree, u64) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + later;
            let kept = Kept { dir: self.cache.path().to_owned(), now };
            let options = Options::new(digests).reading(&Reading { is_mapped: false, cache: Some(kept) });
            let told = AtomicU64::new(0);
            let add = |bytes| {
                told.fetch_add(bytes, Ordering::Relaxed);
            };
            let tree = observe(self.data.path(), &options, &add).unwrap();
            let whole = observe(self.data.path(), &Options::new(digests), &|_| {}).unwrap();
            assert_eq!((tree.id, &tree.files), (whole.id, &whole.files), "a cache changes no answer");
            (tree, told.into_inner())
        }

        fn kept(&self) -> Vec<PathBuf> {
            fs::read_dir(self.cache.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
        }
    }

    const ALL: u64 = 20 * 10;

    #[test]
    fn what_has_rested_is_read_once() {
        let scene = Scene::new();
        let (first, read) = scene.seen(Digests::Blake3, 10);
        assert_eq!(read, ALL);
        let (again, read) = scene.seen(Digests::Blake3, 10);
        assert_eq!((again.id, read), (first.id, 0));
        assert_eq!(again.stat_digest(), first.stat_digest());
        // Other digests of the same files are other facts.
        assert_eq!(scene.seen(Digests::All, 10).1, ALL);
        let (sums, read) = scene.seen(Digests::All, 10);
        assert!(sums.sums.is_some() && read == 0);
        fs::write(scene.file(3), "more content").unwrap();
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 12);
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 0);
    }

    #[test]
    fn what_begins_as_a_pointer_is_read_each_time() {
        let scene = Scene::new();
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n", "ab".repeat(32));
        fs::write(scene.file(7), &pointer).unwrap();
        fs::write(scene.file(8), pointer.repeat(10)).unwrap();
        let pointing = |tree: &Tree| tree.files.iter().filter(|file| file.may_point).count();
        assert_eq!(pointing(&scene.seen(Digests::Blake3, 10).0), 1, "the other one is too long");
        let (again, read) = scene.seen(Digests::Blake3, 10);
        assert_eq!((pointing(&again), read), (1, pointer.len() as u64));
    }

    #[test]
    fn what_was_touched_just_now_is_not_kept() {
        let scene = Scene::new();
        assert_eq!(scene.seen(Digests::Blake3, 0).1, ALL);
        assert_eq!(scene.kept(), Vec::<PathBuf>::new());
        assert_eq!(scene.seen(Digests::Blake3, 1).1, ALL, "within the granule of the coarsest clock");
        assert_eq!(scene.seen(Digests::Blake3, 10).1, ALL);
        fs::write(scene.file(0), "CONTENT 00").unwrap();
        // The one that is touched is read each time until it has rested, the others not.
        assert_eq!(scene.seen(Digests::Blake3, 0).1, 10);
        assert_eq!(scene.seen(Digests::Blake3, 0).1, 10);
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 10);
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 0);
    }

    #[test]
    fn a_file_of_equal_size_and_time_is_read_when_it_is_another() {
        let scene = Scene::new();
        scene.seen(Digests::Blake3, 10);
        let time = fs::metadata(scene.file(5)).unwrap().modified().unwrap();
        let set_back = |path: &Path| {
            fs::OpenOptions::new().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        let other = scene.data.path().with_extension("other");
        fs::write(&other, "CONTENT 05").unwrap();
        set_back(&other);
        fs::rename(&other, scene.file(5)).unwrap();
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 10, "renamed over it");

        std::thread::sleep(Duration::from_millis(20));
        fs::write(scene.file(5), "cOnTeNt 05").unwrap();
        set_back(&scene.file(5));
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 10, "written in place");
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 0);
    }

    #[test]
    fn a_damaged_cache_is_none() {
        let scene = Scene::new();
        scene.seen(Digests::Blake3, 10);
        let [path] = &scene.kept()[..] else { panic!("one file is kept") };
        let good = fs::read(path).unwrap();
        let row = MAGIC.len() + STAMP;
        for at in [0, MAGIC.len(), row, row + 20, good.len() - DIGEST - 1, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(path, &bad).unwrap();
            assert_eq!(scene.seen(Digests::Blake3, 10).1, ALL, "byte {at}");
            assert_eq!(fs::read(path).unwrap(), good, "it is written anew");
        }
        for len in [0, 1, MAGIC.len(), good.len() - STAMP - DIGEST, good.len() - 1] {
            fs::write(path, &good[..len]).unwrap();
            assert_eq!(scene.seen(Digests::Blake3, 10).1, ALL, "cut after {len} bytes");
        }
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        assert_eq!(scene.seen(Digests::Blake3, 10).1, ALL, "one that cannot be read or written");
    }

    #[test]
    fn two_names_of_one_file_do_not_make_the_cache_grow_stale() {
        let scene = Scene::new();
        fs::hard_link(scene.file(0), scene.data.path().join("link")).unwrap();
        scene.seen(Digests::Blake3, 10);
        let [path] = &scene.kept()[..] else { panic!("one file is kept") };
        let inode = fs::metadata(path).unwrap().ino();
        assert_eq!(scene.seen(Digests::Blake3, 10).1, 0);
        assert_eq!(fs::metadata(path).unwrap().ino(), inode, "nothing new is no reason to write");
    }
}
