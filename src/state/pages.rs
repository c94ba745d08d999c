//! Pages of a State file: each is read when it is first looked at and checked against the digest kept for it.
//!
//! A question about one checkpoint looks at a few dozen pages of a file that may hold hundreds of megabytes.
//! What rows mean, and where a table begins, is not known here.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::id;

/// The most bytes of a page. A look-up by bisection reads about a dozen of them; smaller ones make a longer
/// list of digests, which every command reads.
pub(super) const PAGE: usize = 1 << 14;

/// Where the bytes of a State file are.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Returns the number of bytes.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes at `at`.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// One page: where it lies, what it must hash to, and its bytes once they were read and did.
#[derive(Debug)]
struct Page {
    at: u64,
    len: usize,
    digest: [u8; 32],
    bytes: OnceLock<Option<Box<[u8]>>>,
}

/// All pages of a file.
#[derive(Debug)]
pub(super) struct Pages {
    source: Box<dyn Source>,
    all: Vec<Page>,
    damaged: AtomicBool,
}

impl Default for Pages {
    fn default() -> Self {
        Self::new(Box::new(Vec::new()))
    }
}

impl Pages {
    /// Starts without pages.
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        Self { source, all: Vec::new(), damaged: AtomicBool::new(false) }
    }

    /// Adds the next page and returns its number.
    pub(super) fn add(&mut self, at: u64, len: usize, digest: [u8; 32]) {
        self.all.push(Page { at, len, digest, bytes: OnceLock::new() });
    }

    /// Returns the number of pages.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns a page, or nothing where it cannot be read or is not what it was: the file is damaged from
    /// then on, and no answer out of it may be used.
    pub(super) fn page(&self, number: usize) -> Option<&[u8]> {
        let page = self.all.get(number)?;
        let read = || {
            let mut bytes = vec![0; page.len].into_boxed_slice();
            let read = self.source.read_at(page.at, &mut bytes);
            if read.is_err() || *id::object_id(&bytes).as_bytes() != page.digest {
                self.damaged.store(true, Ordering::Release);
                return None;
            }
            Some(bytes)
        };
        page.bytes.get_or_init(read).as_deref()
    }

    /// Reads every page, on all cores. `false` if one is damaged.
    pub(super) fn read_all(&self) -> bool {
        (0..self.all.len()).into_par_iter().for_each(|number| {
            self.page(number);
        });
        !self.is_damaged()
    }

    /// Whether a page was found damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }
}
