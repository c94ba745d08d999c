//! The index: which claims are about an object or link to it, for questions that would otherwise read the log.
//!
//! It is derived, lies in the user's cache, and can be deleted at any time. What it answers is a hint: whoever
//! asks reads each place in the log. `pages.rs` holds the bytes; here is the database, the only place that knows
//! which one it is. It admits one process at a time and may lose what it was given, so nothing but questions
//! ever opens it, and whatever is wrong with it, it counts as absent.

mod pages;

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::id::ObjectId;
use crate::state::Place;

use pages::{Checks, STAMP, add_rows, bucket_key, page_key};
pub use pages::{Extent, Posting};

/// Memory for the database's pages. A question reads few of them.
const CACHE: u64 = 8 << 20;

/// Why the index cannot be used. Each of them means that there is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// None was made, or its making was interrupted.
    #[error("there is no index")]
    Absent,
    /// Another process uses it.
    #[error("another process uses the index")]
    Busy,
    /// It does not hold what its stamp vouches for, or is of another version.
    #[error("the index is damaged")]
    Damaged,
    /// The database failed.
    #[error("the index's database failed")]
    Database(#[from] sled::Error),
    /// The database stopped in the middle of its work.
    #[error("the index's database gave up")]
    Panicked,
    /// Its file could not be confirmed by the disk.
    #[error("`{}` cannot be confirmed by the disk", path.display())]
    Sync {
        /// The database's file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

/// An index that is open, and locked for other processes.
#[derive(Debug)]
pub struct Index {
    database: sled::Db,
    file: PathBuf,
    extent: Extent,
    pages: Checks,
}

impl Index {
    /// Opens the index in a directory.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let file = dir.join("db");
        // The database would make what is not there.
        if !file.exists() {
            return Err(Error::Absent);
        }
        guarded(|| {
            let database = database(dir)?;
            let stamp = database.get(STAMP)?.ok_or(Error::Absent)?;
            let (extent, pages) = pages::read_stamp(&stamp).ok_or(Error::Damaged)?;
            Ok(Self { database, file, extent, pages })
        })
    }

    /// Makes an index in an empty directory from all postings up to `extent`.
    pub fn make(dir: &Path, extent: Extent, postings: Vec<Posting>) -> Result<Self, Error> {
        let file = dir.join("db");
        guarded(|| {
            let mut made = Self { database: database(dir)?, file, extent, pages: Checks::none() };
            made.add(postings)?;
            Ok(made)
        })
    }

    /// Adds the postings between its extent and a later one.
    ///
    /// If it fails, or the process is killed, the index has no stamp any more, so it is absent.
    pub fn advance(&mut self, extent: Extent, postings: Vec<Posting>) -> Result<(), Error> {
        guarded(|| {
            self.database.remove(STAMP)?;
            self.flush()?;
            self.extent = extent;
            self.add(postings)
        })
    }

    /// Returns what the index was made of.
    pub const fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Returns where claims stand that are about an object or link to it, in log order.
    ///
    /// Only the beginning of the id is known here: a place may be about another object whose id begins alike.
    pub fn places(&self, id: &ObjectId) -> Result<Vec<Place>, Error> {
        guarded(|| {
            let (first, second) = (id.as_bytes()[0], id.as_bytes()[1]);
            let rows = self.bucket(&self.page(first)?, [first, second])?;
            Ok(pages::places(&rows, id))
        })
    }

    /// Whether a posting for `id` may stand for `other`.
    pub fn is_same(id: &ObjectId, other: &ObjectId) -> bool {
        pages::kept(id) == pages::kept(other)
    }

    fn page(&self, first: u8) -> Result<Checks, Error> {
        let key = page_key(first);
        let page = self.database.get(key)?;
        if !self.pages.holds(first, &key, page.as_deref()) {
            return Err(Error::Damaged);
        }
        page.map_or_else(|| Ok(Checks::none()), |page| Checks::read(&page).ok_or(Error::Damaged))
    }

    fn bucket(&self, page: &Checks, bucket: [u8; 2]) -> Result<Vec<u8>, Error> {
        let key = bucket_key(bucket);
        let rows = self.database.get(key)?;
        if !page.holds(bucket[1], &key, rows.as_deref()) {
            return Err(Error::Damaged);
        }
        Ok(rows.map(|rows| rows.to_vec()).unwrap_or_default())
    }

    /// Adds postings in the order of their keys, which the database stores fastest, and the stamp last.
    fn add(&mut self, mut postings: Vec<Posting>) -> Result<(), Error> {
        postings.sort_unstable();
        for of_page in postings.chunk_by(|a, b| a.bucket()[0] == b.bucket()[0]) {
            let first = of_page[0].bucket()[0];
            let mut page = self.page(first)?;
            for of_bucket in of_page.chunk_by(|a, b| a.bucket() == b.bucket()) {
                let bucket = of_bucket[0].bucket();
                let rows = add_rows(&self.bucket(&page, bucket)?, of_bucket);
                let key = bucket_key(bucket);
                page.set(bucket[1], &key, &rows);
                self.database.insert(key, rows)?;
            }
            let key = page_key(first);
            self.pages.set(first, &key, page.bytes());
            self.database.insert(key, page.bytes())?;
        }
        self.flush()?;
        self.database.insert(STAMP, pages::stamp(&self.extent, &self.pages))?;
        self.flush()
    }

    /// Makes the disk keep what was written: the database's own flush does not outlast a power cut.
    fn flush(&self) -> Result<(), Error> {
        self.database.flush()?;
        let sync = || File::open(&self.file)?.sync_all();
        sync().map_err(|source| Error::Sync { path: self.file.clone(), source })
    }
}

fn database(dir: &Path) -> Result<sled::Db, Error> {
    // No thread of its own flushes: what is written here is flushed where its order matters.
    let config = sled::Config::new().path(dir).cache_capacity(CACHE).flush_every_ms(None);
    config.open().map_err(|error| match error {
        // The database says it in words only.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => Error::Busy,
        error => error.into(),
    })
}

/// Runs a step of the database, which panics on some damage.
fn guarded<T>(step: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or(Err(Error::Panicked))
}
