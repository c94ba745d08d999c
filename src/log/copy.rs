//! A log that goes elsewhere: how much of one is here, and copying it so that the copy is always a log.
//!
//! Tiles are never replaced. So what is to be copied is read once and held against the signed root before the
//! first file is written, and the head is published when all that it covers is there.

use crate::durable::Created;
use crate::id::{StatementId, statement_id};

use super::files::{Error, Log};
use super::note::SignedHead;
use super::tile::{self, FULL, Level, MAX_ENTRY, Tile};
use super::tree::{self, HashSource as _};

/// Statements that are laid down at a time: those under one tile of the second level.
const CHUNK: u64 = (FULL as u64) * (FULL as u64);
/// The most bytes of a bundle, which is larger than a tile of hashes.
const MAX_TILE: usize = FULL as usize * (MAX_ENTRY + 2);

impl Log {
    /// Copies what `head` covers to another log, which may hold the beginning of it already.
    ///
    /// The other log ends at a head that this one has proven to be its past; that is the caller's to check.
    pub fn copy_to(&self, head: &SignedHead, other: &Self) -> Result<(), Error> {
        let size = head.head().size;
        let from = match other.head() {
            Ok(other) => other.head().size,
            Err(Error::NoHead) => 0,
            Err(error) => return Err(error),
        };
        let mut range = tree::range_at(&other.tiles(), from)?;
        self.statements::<Error>(size, from, &mut |_, entries| {
            for entry in entries {
                range.push(statement_id(entry));
            }
            Ok(())
        })?;
        if range.root() != head.head().root {
            return Err(Error::Statements { size });
        }
        let (mut at, mut waiting, mut full) = (from, Vec::new(), Vec::new());
        self.statements::<Error>(size, from, &mut |_, entries| {
            waiting.extend(entries.iter().map(|entry| entry.to_vec()));
            // Bundles end where chunks do, so no chunk is ever passed over.
            if (at + waiting.len() as u64).is_multiple_of(CHUNK) {
                full.extend(other.lay(at, &slices(&waiting), None)?);
                at += waiting.len() as u64;
                waiting.clear();
            }
            Ok(())
        })?;
        if !waiting.is_empty() {
            full.extend(other.lay(at, &slices(&waiting), None)?);
        }
        other.publish(head)?;
        // Shorter forms may be asked for as long as the old head is the published one.
        for tile in full {
            other.drop_partials(tile);
        }
        Ok(())
    }

    /// Writes the tiles and bundles at the end of a log of `size`, where only longer forms of them lie.
    ///
    /// A longer one belongs to a later head. Where that head is not here, the next commit will want its name.
    pub fn cut_ends(&self, size: u64) -> Result<(), Error> {
        let tiles = self.tiles();
        for tile in Tile::all(size).filter(|tile| !tile.is_full()) {
            let bytes = match tile.level() {
                Level::Entries => self.bundle(tile)?,
                Level::Hashes(level) => {
                    let hashes = tiles.hashes(level, tile.n(), tile.width())?;
                    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
                }
            };
            let path = self.path(&tile.path());
            let _: Vec<Created> = self.durable.create_identical(&[(path, bytes.as_slice())])?;
        }
        Ok(())
    }

    /// Returns how many statements from the first one on are here, of a log of `size`.
    ///
    /// A statement is here when its bundle can be read, an older and shorter one too, and its hash is the one in
    /// the tile.
    pub fn whole(&self, size: u64) -> u64 {
        let mut whole = 0;
        for n in 0.. {
            let Some(bundle) = Tile::at_size(Level::Entries, n, size) else { break };
            let here = self.whole_in(bundle).unwrap_or(0);
            whole += here;
            if here < u64::from(bundle.width()) {
                break;
            }
        }
        whole
    }

    fn whole_in(&self, bundle: Tile) -> Option<u64> {
        let entries = self.widest(bundle)?;
        let hashes = self.widest(Tile::new(Level::Hashes(0), bundle.n(), bundle.width())?)?;
        let bytes = self.bundle(entries).ok()?;
        let entries = tile::decode_bundle_start(&bytes, entries.width()).ok()?;
        let hashes = self.tiles().hashes(0, hashes.n(), hashes.width()).ok()?;
        let same = entries
            .iter()
            .zip(&hashes)
            .take_while(|(entry, hash)| statement_id(entry) == StatementId::from_bytes(*hash.as_bytes()));
        Some(same.count() as u64)
    }

    /// Returns the longest form of a tile that is here and not longer than asked.
    fn widest(&self, tile: Tile) -> Option<Tile> {
        if self.read_tile(tile, MAX_TILE).is_ok() {
            return Some(tile);
        }
        let dir = self.path(&format!("{}.p", tile.full().path()));
        let listed = self.durable.list(&dir).ok()?;
        let widths = listed.iter().filter_map(|entry| entry.name.to_str()?.parse::<u16>().ok());
        Tile::new(tile.level(), tile.n(), widths.filter(|width| *width < tile.width()).max()?)
    }
}

fn slices(held: &[Vec<u8>]) -> Vec<&[u8]> {
    held.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::durable::{Durable, RealDisk};
    use crate::log::key::SigningKey;
    use crate::log::merkle::CompactRange;
    use crate::log::note::TreeHead;

    fn log(root: &Path) -> Log {
        Log::new(Durable::new(Arc::new(RealDisk), root, false))
    }

    /// Lays statements of two bytes each and publishes their head.
    fn grow(log: &Log, range: &mut CompactRange, to: u64) -> SignedHead {
        let from = range.size();
        let entries: Vec<[u8; 4]> = (from..to).map(|n| (n as u32).to_be_bytes()).collect();
        for entry in &entries {
            range.push(statement_id(entry));
        }
        let slices: Vec<&[u8]> = entries.iter().map(<[u8; 4]>::as_slice).collect();
        log.lay(from, &slices, Some(range.root())).unwrap();
        let head = TreeHead { origin: "lineage-ledger/test".to_owned(), size: to, root: range.root() };
        let head = SignedHead::sign(head, &SigningKey::from_seed(&[1; 32])).unwrap();
        log.publish(&head).unwrap();
        head
    }

    #[test]
    fn a_copy_grows_to_the_tiles_of_its_head_and_no_others() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, target) = (log(here.path()), log(there.path()));
        let mut range = CompactRange::new();
        for size in [1, 2, 255, 256, 300, CHUNK - 1, CHUNK, CHUNK + 300, 2 * CHUNK + 1] {
            let head = grow(&source, &mut range, size);
            source.copy_to(&head, &target).unwrap();
            assert_eq!(target.head().unwrap().as_str(), head.as_str());
            for tile in Tile::all(size) {
                let path = Path::new("log").join(tile.path());
                let read = |dir: &Path| std::fs::read(dir.join(&path)).unwrap();
                assert_eq!(read(there.path()), read(here.path()), "{}", path.display());
            }
            assert_eq!(target.whole(size), size);
        }
        let size = 2 * CHUNK + 1;
        assert_eq!(source.statement(size, size - 1).unwrap(), target.statement(size, size - 1).unwrap());
    }

    #[test]
    fn a_log_that_does_not_lead_to_its_head_is_not_copied() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, target) = (log(here.path()), log(there.path()));
        let head = grow(&source, &mut CompactRange::new(), 5);
        let bundle = here.path().join("log/tile/entries/000.p/5");
        let mut bytes = std::fs::read(&bundle).unwrap();
        // The last byte of the fourth statement: each has two bytes of length before its four.
        bytes[4 * 6 - 1] ^= 1;
        std::fs::remove_file(&bundle).unwrap();
        std::fs::write(&bundle, &bytes).unwrap();
        assert!(matches!(source.copy_to(&head, &target), Err(Error::Statements { size: 5 })));
        assert!(!there.path().join("log").exists(), "something was written");
        assert_eq!(source.whole(5), 3);
        std::fs::remove_file(&bundle).unwrap();
        assert_eq!(source.whole(5), 0);
        // An older bundle begins the one that is gone.
        std::fs::write(bundle.with_file_name("2"), &bytes[..2 * 6]).unwrap();
        assert_eq!(source.whole(5), 2);
        assert!(matches!(source.copy_to(&head, &target), Err(Error::Tile(_))));
    }

    #[test]
    fn ends_are_cut_to_the_size_of_the_head() {
        let dir = tempfile::tempdir().unwrap();
        let source = log(dir.path());
        let mut range = CompactRange::new();
        grow(&source, &mut range, 100);
        let first = std::fs::read(dir.path().join("log/tile/0/000.p/100")).unwrap();
        grow(&source, &mut range, 256);
        std::fs::remove_dir_all(dir.path().join("log/tile/0/000.p")).unwrap();
        std::fs::remove_dir_all(dir.path().join("log/tile/entries/000.p")).unwrap();
        source.cut_ends(100).unwrap();
        assert_eq!(std::fs::read(dir.path().join("log/tile/0/000.p/100")).unwrap(), first);
        assert_eq!(source.whole(100), 100);
    }
}
