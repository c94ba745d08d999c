//! The log on disk: tree head, tiles, bundles and head files under `log/`, read and written.
//!
//! Readers take no lock: they start from a head and read tiles of exactly that size, or the beginning of
//! larger ones. Nothing here knows what a statement says or who may sign a head; that is for whoever folds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::durable::{self, Commit, Created, Durable};
use crate::id::{StatementId, TreeHash, statement_id};

use super::head_file::{self, HeadFile, MAX_BATCH, MAX_HEAD_FILE};
use super::merkle;
use super::note::{self, MAX_NOTE, SignedHead};
use super::tile::{self, FULL, Level, Tile};
use super::tree::{self, HashSource};

/// Why the log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused.
    #[error("the log's files cannot be used")]
    Disk(#[from] durable::Error),
    /// There is no tree head.
    #[error("`log/checkpoint` is missing")]
    NoHead,
    /// The tree head is not one.
    #[error("`log/checkpoint` is not a signed tree head")]
    Head(#[source] note::Error),
    /// A head file is damaged.
    #[error("`log/heads/{}` is damaged", tile::grouped(*extends))]
    HeadFile {
        /// The size that it extends.
        extends: u64,
        /// What is wrong.
        #[source]
        source: head_file::Error,
    },
    /// A tile or bundle is missing, cut short or wrong.
    #[error("the log's tiles do not hold what the head covers")]
    Tile(#[from] tile::Error),
    /// A bundle is damaged.
    #[error("bundle `{path}` is damaged")]
    Bundle {
        /// Its path.
        path: String,
        /// What is wrong.
        #[source]
        source: tile::Error,
    },
    /// Tiles disagree with a root that is known to be good.
    #[error("the tiles of size {size} do not lead to the root of the head")]
    Inconsistent {
        /// The past size.
        size: u64,
        /// What is wrong.
        #[source]
        source: merkle::Error,
    },
    /// Statements do not lead to the root of the head that covers them.
    #[error("the statements do not give the root of the head of size {size}")]
    Statements {
        /// Size of the head.
        size: u64,
    },
    /// The batch in a head file does not give the root that its note signs.
    #[error("the batch in `log/heads/{}` does not give the root that its note signs", tile::grouped(*extends))]
    BatchRoot {
        /// The size that it extends.
        extends: u64,
    },
}

/// Names of tiles and head files are cut into groups of three digits.
const GROUP: u64 = 1000;

/// Receives the index of the first of some statements, and the statements.
pub type Visit<'a, E> = dyn FnMut(u64, &[&[u8]]) -> Result<(), E> + 'a;

/// The log of one ledger.
#[derive(Clone, Debug)]
pub struct Log {
    pub(super) durable: Durable,
    dir: Arc<Path>,
}

impl Log {
    /// Takes the log under a ledger's root.
    pub fn new(durable: Durable) -> Self {
        Self::at(durable, Path::new("log"))
    }

    /// Takes the log in a directory under a ledger's root.
    pub fn at(durable: Durable, dir: &Path) -> Self {
        Self { durable, dir: dir.into() }
    }

    pub(super) fn path(&self, rest: &str) -> PathBuf {
        self.dir.join(rest)
    }

    fn head_file_path(&self, extends: u64) -> PathBuf {
        self.path("heads").join(tile::grouped(extends))
    }

    /// Reads the published tree head.
    pub fn head(&self) -> Result<SignedHead, Error> {
        let bytes = self.durable.read(&self.path("checkpoint"), MAX_NOTE)?.ok_or(Error::NoHead)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::NoHead)?;
        SignedHead::parse(text).map_err(Error::Head)
    }

    /// Reads the commit that extends a size, if there is one.
    pub fn head_file(&self, extends: u64) -> Result<Option<HeadFile>, Error> {
        let Some(bytes) = self.durable.read(&self.head_file_path(extends), MAX_HEAD_FILE)? else {
            return Ok(None);
        };
        match HeadFile::decode(&bytes) {
            Ok(file) if file.extends == extends => Ok(Some(file)),
            Ok(_) => {
                Err(Error::HeadFile { extends, source: head_file::Error::Form("it extends another size") })
            }
            Err(source) => Err(Error::HeadFile { extends, source }),
        }
    }

    /// Reads the commit that made the log so large, if its head file is kept.
    ///
    /// Its name is the size before, which a batch bounds from below.
    pub fn head_file_to(&self, size: u64) -> Result<Option<HeadFile>, Error> {
        let lowest = size.saturating_sub(MAX_BATCH as u64);
        let mut names = Vec::new();
        for group in (lowest / GROUP..size.div_ceil(GROUP)).map(|group| group * GROUP) {
            let dir = self.head_file_path(group);
            let Some(dir) = dir.parent() else { continue };
            for entry in self.durable.list(dir)?.into_iter().filter(|entry| entry.is_file) {
                let path = dir.join(entry.name);
                let name = path.strip_prefix(self.path("heads")).ok().and_then(Path::to_str);
                names.extend(name.and_then(tile::parse_grouped).filter(|n| (lowest..size).contains(n)));
            }
        }
        names.sort_unstable();
        for extends in names.into_iter().rev() {
            match self.head_file(extends)? {
                Some(file) if file.head.head().size == size => return Ok(Some(file)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns whether something stands where the commit that extends a size would.
    pub fn has_successor(&self, size: u64) -> Result<bool, Error> {
        Ok(self.durable.stat(&self.head_file_path(size))?.is_some())
    }

    /// The commit point: gives a head its one successor.
    pub fn commit(&self, file: &HeadFile) -> Result<Commit, Error> {
        Ok(self.durable.commit_link(&self.head_file_path(file.extends), &file.encode())?)
    }

    /// Withdraws an own head file that came too late to count.
    pub fn withdraw(&self, extends: u64) -> Result<(), Error> {
        let path = self.head_file_path(extends);
        self.durable.remove(&path)?;
        Ok(self.durable.sync_dir(path.parent().unwrap_or(&self.dir))?)
    }

    /// Moves a file that extends a size and is no commit out of the way.
    pub fn set_aside(&self, extends: u64) -> Result<(), Error> {
        let to = self.path("refused").join("heads").join(tile::grouped(extends));
        Ok(self.durable.rename(&self.head_file_path(extends), &to)?)
    }

    /// Writes a commit's bundles and tiles, and publishes its head.
    ///
    /// It needs no key: the head is signed already, which the caller has checked. What it writes is the same
    /// whoever writes it, so it may run in many processes at once.
    pub fn apply(&self, file: &HeadFile) -> Result<(), Error> {
        let entries: Vec<&[u8]> = file.statements.iter().map(Vec::as_slice).collect();
        let full = self.lay(file.extends, &entries, Some(file.head.head().root))?;
        self.publish(&file.head)?;
        for tile in full {
            self.drop_partials(tile);
        }
        Ok(())
    }

    /// Writes the bundles and tiles that statements add to a log of a size, and returns those that are now full.
    ///
    /// If they must lead to a root, that is seen to before anything is written.
    pub(super) fn lay(
        &self,
        extends: u64,
        entries: &[&[u8]],
        root: Option<TreeHash>,
    ) -> Result<Vec<Tile>, Error> {
        let leaves: Vec<StatementId> = entries.iter().map(|entry| statement_id(entry)).collect();
        let source = self.tiles();
        if let Some(root) = root {
            let mut range = tree::range_at(&source, extends)?;
            for leaf in &leaves {
                range.push(*leaf);
            }
            if range.root() != root {
                return Err(Error::BatchRoot { extends });
            }
        }
        let partial = match Tile::at_size(Level::Entries, extends / u64::from(FULL), extends) {
            Some(tile) if !tile.is_full() => self.bundle(tile)?,
            _ => Vec::new(),
        };
        let mut files = tile::new_bundles(extends, &partial, entries)?;
        files.extend(tree::new_tiles(extends, &leaves, &source)?);
        let named: Vec<(PathBuf, &[u8])> =
            files.iter().map(|(tile, bytes)| (self.path(&tile.path()), bytes.as_slice())).collect();
        // Immutable: what is there already must be the same bytes.
        let _: Vec<Created> = self.durable.create_identical(&named)?;
        Ok(files.into_iter().map(|(tile, _)| tile).filter(|tile| tile.is_full()).collect())
    }

    /// Moves `log/checkpoint` forward, never back.
    pub(super) fn publish(&self, head: &SignedHead) -> Result<(), Error> {
        let current = match self.head() {
            Ok(current) => Some(current.head().size),
            Err(Error::NoHead) => None,
            Err(error) => return Err(error),
        };
        if current.is_none_or(|size| size < head.head().size) {
            self.durable.replace(&self.path("checkpoint"), head.as_str().as_bytes())?;
        }
        Ok(())
    }

    /// Removes the partial forms of a tile that is now full. They repeat its beginning, so failing is no loss.
    pub(super) fn drop_partials(&self, tile: Tile) {
        let dir = self.path(&format!("{}.p", tile.path()));
        for entry in self.durable.list(&dir).unwrap_or_default() {
            let _ = self.durable.remove(&dir.join(entry.name));
        }
    }

    /// Reads a bundle's bytes, as long as its width says.
    pub(super) fn bundle(&self, tile: Tile) -> Result<Vec<u8>, Error> {
        let bytes = self.read_tile(tile, usize::from(FULL) * (tile::MAX_ENTRY + 2))?;
        let damaged = |source| Error::Bundle { path: tile.path(), source };
        let entries = tile::decode_bundle_start(&bytes, tile.width()).map_err(damaged)?;
        tile::encode_bundle(&entries).map_err(damaged)
    }

    /// Reads a tile's file, or the full one's or a longer partial's where the partial has gone.
    pub(super) fn read_tile(&self, tile: Tile, cap: usize) -> Result<Vec<u8>, Error> {
        if let Some(bytes) = self.durable.read(&self.path(&tile.path()), cap)? {
            return Ok(bytes);
        }
        if let Some(bytes) = self.durable.read(&self.path(&tile.full().path()), cap)? {
            return Ok(bytes);
        }
        let dir = self.path(&format!("{}.p", tile.full().path()));
        let width = |entry: &durable::Entry| entry.name.to_str().and_then(|name| name.parse::<u16>().ok());
        let wider = self.durable.list(&dir)?.iter().filter_map(width).filter(|w| *w > tile.width()).min();
        if let Some(wider) = wider.and_then(|wider| Tile::new(tile.level(), tile.n(), wider))
            && let Some(bytes) = self.durable.read(&self.path(&wider.path()), cap)?
        {
            return Ok(bytes);
        }
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(tile::Error::Unavailable { tile, source: Box::new(missing) }.into())
    }

    /// Returns a source of hashes that reads each tile once.
    pub fn tiles(&self) -> Tiles<'_> {
        Tiles { log: self, held: Mutex::default() }
    }

    /// Reads statements `from..to` of a log of `size`, bundle by bundle, and hands them over with their index.
    pub fn statements<E: From<Error>>(
        &self,
        size: u64,
        from: u64,
        visit: &mut Visit<'_, E>,
    ) -> Result<(), E> {
        let full = u64::from(FULL);
        let mut at = from;
        while at < size {
            let n = at / full;
            let Some(tile) = Tile::at_size(Level::Entries, n, size) else { break };
            let bytes = self.read_tile(tile, usize::from(FULL) * (tile::MAX_ENTRY + 2))?;
            let damaged = |source| E::from(Error::Bundle { path: tile.path(), source });
            let entries = tile::decode_bundle_start(&bytes, tile.width()).map_err(damaged)?;
            visit(at, &entries[(at - n * full) as usize..])?;
            at = n * full + u64::from(tile.width());
        }
        Ok(())
    }

    /// Reads one statement of a log of `size`.
    pub fn statement(&self, size: u64, index: u64) -> Result<Vec<u8>, Error> {
        let n = index / u64::from(FULL);
        let tile =
            Tile::at_size(Level::Entries, n, size).ok_or(tile::Error::Beyond { wanted: index, size })?;
        let bytes = self.read_tile(tile, usize::from(FULL) * (tile::MAX_ENTRY + 2))?;
        let damaged = |source| Error::Bundle { path: tile.path(), source };
        let entries = tile::decode_bundle_start(&bytes, tile.width()).map_err(damaged)?;
        let entry = entries.get((index % u64::from(FULL)) as usize);
        entry.map(|entry| entry.to_vec()).ok_or_else(|| tile::Error::Beyond { wanted: index, size }.into())
    }

    /// Returns the root at a past size, proven against a later root that is known to be good.
    pub fn root_at(
        &self,
        tiles: &Tiles<'_>,
        past: u64,
        size: u64,
        root: TreeHash,
    ) -> Result<TreeHash, Error> {
        let found = tree::root_at(tiles, past)?;
        let proof = tree::consistency_proof(tiles, past, size)?;
        merkle::verify_consistency(past, found, size, root, &proof)
            .map_err(|source| Error::Inconsistent { size: past, source })?;
        Ok(found)
    }
}

/// The hash tiles of a log, each kept after it was read.
#[derive(Debug)]
pub struct Tiles<'a> {
    log: &'a Log,
    held: Mutex<HashMap<(u8, u64), Vec<TreeHash>>>,
}

impl HashSource for Tiles<'_> {
    fn hashes(&self, level: u8, n: u64, width: u16) -> Result<Vec<TreeHash>, tile::Error> {
        let mut held = match self.held.lock() {
            Ok(held) => held,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(hashes) = held.get(&(level, n))
            && hashes.len() >= usize::from(width)
        {
            return Ok(hashes[..usize::from(width)].to_vec());
        }
        let beyond = tile::Error::Beyond { wanted: n, size: 0 };
        let tile = Tile::new(Level::Hashes(level), n, width).ok_or(beyond)?;
        let bytes = match self.log.read_tile(tile, usize::from(FULL) * 32) {
            Ok(bytes) => bytes,
            Err(Error::Tile(error)) => return Err(error),
            Err(error) => return Err(tile::Error::Unavailable { tile, source: Box::new(error) }),
        };
        let wanted = usize::from(width) * 32;
        let Some(wanted) = bytes.get(..wanted).filter(|_| bytes.len().is_multiple_of(32)) else {
            return Err(tile::Error::Length { tile, found: bytes.len() });
        };
        let hashes = tile::decode_hashes(tile, wanted)?;
        held.insert((level, n), hashes.clone());
        Ok(hashes)
    }
}
