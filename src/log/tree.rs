//! Trees over tiles: roots and proofs read from them, and the tiles that an append changes.
//!
//! Where the hashes lie is behind [`HashSource`], and nothing here trusts it: whoever reads a root or a proof
//! compares the root with a signed one.

use std::collections::BTreeMap;

use super::merkle::{CompactRange, MAX_SIZE, leaf_node, node};
use super::tile::{Error, FULL, LEVELS, Level, Tile};
use crate::id::{StatementId, TreeHash};

/// Where the hashes of one log are kept.
pub trait HashSource {
    /// Returns exactly the first `width` hashes of tile `n` at a level.
    ///
    /// The tile may have grown since: a keeper that has only a wider one returns its beginning.
    fn hashes(&self, level: u8, n: u64, width: u16) -> Result<Vec<TreeHash>, Error>;
}

/// Returns the right edge of the tree of the first `size` leaves, from at most one tile a level.
pub fn range_at(source: &dyn HashSource, size: u64) -> Result<CompactRange, Error> {
    let mut peaks = Vec::new();
    for level in (0..LEVELS).rev() {
        // The level's hashes below the last full tile are peaks of the levels above.
        let n = size.checked_shr(8 * (u32::from(level) + 1)).unwrap_or(0);
        if let Some(tile) = Tile::at_size(Level::Hashes(level), n, size) {
            peaks.extend_from_slice(range_over(&read(source, tile)?).peaks());
        }
    }
    CompactRange::from_parts(size, peaks).ok_or(Error::Beyond { wanted: size, size: MAX_SIZE })
}

/// Returns the root of the tree of the first `size` leaves.
pub fn root_at(source: &dyn HashSource, size: u64) -> Result<TreeHash, Error> {
    range_at(source, size).map(|range| range.root())
}

/// Returns the hashes that prove leaf `index` to be in the tree of the first `size` leaves, lowest first.
pub fn inclusion_proof(source: &dyn HashSource, index: u64, size: u64) -> Result<Vec<TreeHash>, Error> {
    if index >= size || size > MAX_SIZE {
        return Err(Error::Beyond { wanted: index, size });
    }
    let mut tree = Tree { source, size, held: BTreeMap::new() };
    let mut proof = Vec::new();
    let (mut start, mut end) = (0, size);
    // PATH(m, D[0:n]) of RFC 6962 2.1.1, walked from the root down: at each split the other half is a sibling.
    while end - start > 1 {
        let split = start + left_size(end - start);
        if index < split {
            proof.push(tree.hash(split, end)?);
            end = split;
        } else {
            proof.push(tree.hash(start, split)?);
            start = split;
        }
    }
    proof.reverse();
    Ok(proof)
}

/// Returns the hashes that prove the first `new_size` leaves to begin with the first `old_size`.
pub fn consistency_proof(
    source: &dyn HashSource,
    old_size: u64,
    new_size: u64,
) -> Result<Vec<TreeHash>, Error> {
    if old_size > new_size || new_size > MAX_SIZE {
        return Err(Error::Beyond { wanted: old_size, size: new_size });
    }
    if old_size == 0 || old_size == new_size {
        return Ok(Vec::new());
    }
    let mut tree = Tree { source, size: new_size, held: BTreeMap::new() };
    let mut proof = Vec::new();
    let (mut start, mut end) = (0, new_size);
    // SUBPROOF(m, D[n], b) of RFC 6962 2.1.2, walked from the root down to the last subtree of the old tree.
    while old_size < end {
        let split = start + left_size(end - start);
        if old_size <= split {
            proof.push(tree.hash(split, end)?);
            end = split;
        } else {
            proof.push(tree.hash(start, split)?);
            start = split;
        }
    }
    // Where that subtree is the whole old tree, the verifier has its root already.
    if start > 0 {
        proof.push(tree.hash(start, end)?);
    }
    proof.reverse();
    Ok(proof)
}

/// Returns every hash tile that changes when leaves are appended to a tree of `old_size`, lowest level first.
///
/// The bytes of each tile are whole: they begin with the hashes that it had before.
pub fn new_tiles(
    old_size: u64,
    leaves: &[StatementId],
    source: &dyn HashSource,
) -> Result<Vec<(Tile, Vec<u8>)>, Error> {
    let mut tiles = Vec::new();
    let mut added: Vec<TreeHash> = leaves.iter().copied().map(leaf_node).collect();
    let mut count = old_size;
    for level in 0..LEVELS {
        if added.is_empty() {
            break;
        }
        let first = count / u64::from(FULL);
        let mut row = match Tile::new(Level::Hashes(level), first, (count % u64::from(FULL)) as u16) {
            Some(tile) => read(source, tile)?,
            None => Vec::new(),
        };
        row.append(&mut added);
        for (n, hashes) in (first..).zip(row.chunks(usize::from(FULL))) {
            let tile = Tile::new(Level::Hashes(level), n, hashes.len() as u16)
                .ok_or(Error::Beyond { wanted: old_size, size: MAX_SIZE })?;
            tiles.push((tile, hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()));
            if tile.is_full() {
                added.push(range_over(hashes).root());
            }
        }
        count /= u64::from(FULL);
    }
    Ok(tiles)
}

/// A source that keeps the hashes of every level in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryTiles {
    levels: Vec<Vec<TreeHash>>,
}

impl MemoryTiles {
    /// Starts with a tree without leaves.
    pub const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: StatementId) {
        let mut hash = leaf_node(leaf);
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let row = &mut self.levels[level];
            row.push(hash);
            if !row.len().is_multiple_of(usize::from(FULL)) {
                break;
            }
            hash = range_over(&row[row.len() - usize::from(FULL)..]).root();
        }
    }

    /// Returns one leaf.
    pub fn leaf(&self, index: u64) -> Option<StatementId> {
        let leaf = self.levels.first()?.get(usize::try_from(index).ok()?)?;
        Some(StatementId::from_bytes(*leaf.as_bytes()))
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }
}

impl Extend<StatementId> for MemoryTiles {
    fn extend<I: IntoIterator<Item = StatementId>>(&mut self, leaves: I) {
        for leaf in leaves {
            self.push(leaf);
        }
    }
}

impl HashSource for MemoryTiles {
    fn hashes(&self, level: u8, n: u64, width: u16) -> Result<Vec<TreeHash>, Error> {
        let start = n.saturating_mul(u64::from(FULL));
        let end = start.saturating_add(u64::from(width));
        let row = self.levels.get(usize::from(level)).map_or(&[][..], Vec::as_slice);
        row.get(start as usize..end as usize)
            .map(<[TreeHash]>::to_vec)
            .ok_or(Error::Beyond { wanted: end, size: row.len() as u64 })
    }
}

/// Returns the leaves of the left child of a node over `n > 1` leaves: the largest power of two below `n`.
const fn left_size(n: u64) -> u64 {
    1 << (u64::BITS - 1 - (n - 1).leading_zeros())
}

/// The tree of the first `size` leaves, which reads each tile once.
struct Tree<'a> {
    source: &'a dyn HashSource,
    size: u64,
    held: BTreeMap<(u8, u64), Vec<TreeHash>>,
}

impl Tree<'_> {
    /// Returns MTH(D[start:end]), where the range is a node of the tree.
    fn hash(&mut self, mut start: u64, end: u64) -> Result<TreeHash, Error> {
        let mut lefts = Vec::new();
        while !(end - start).is_power_of_two() {
            let split = start + left_size(end - start);
            lefts.push(self.perfect(start, split)?);
            start = split;
        }
        let right = self.perfect(start, end)?;
        Ok(lefts.into_iter().rev().fold(right, |right, left| node(left, right)))
    }

    /// Returns the root of a perfect subtree, from the highest tiles that hold it whole.
    fn perfect(&mut self, start: u64, end: u64) -> Result<TreeHash, Error> {
        let height = (end - start).trailing_zeros();
        let level = (height / 8) as u8;
        let shift = 8 * u32::from(level);
        let (first, count) = (start >> shift, (end - start) >> shift);
        let (n, at) = (first / u64::from(FULL), (first % u64::from(FULL)) as usize);
        let tile = Tile::at_size(Level::Hashes(level), n, self.size)
            .ok_or(Error::Beyond { wanted: end, size: self.size })?;
        let hashes = match self.held.entry((level, n)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(read(self.source, tile)?),
        };
        let subtree =
            hashes.get(at..at + count as usize).ok_or(Error::Beyond { wanted: end, size: self.size })?;
        Ok(range_over(subtree).root())
    }
}

fn read(source: &dyn HashSource, tile: Tile) -> Result<Vec<TreeHash>, Error> {
    let Level::Hashes(level) = tile.level() else { return Err(Error::Path { path: tile.path() }) };
    let hashes = source.hashes(level, tile.n(), tile.width())?;
    if hashes.len() == usize::from(tile.width()) {
        Ok(hashes)
    } else {
        Err(Error::Length { tile, found: hashes.len() * 32 })
    }
}

fn range_over(hashes: &[TreeHash]) -> CompactRange {
    let mut range = CompactRange::new();
    for &hash in hashes {
        range.push_node(hash);
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::statement_id;
    use crate::log::merkle::{empty_root, verify_consistency, verify_inclusion};
    use crate::log::tile::decode_hashes;
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use proptest::prelude::*;
    use sha2::Sha256;

    type Oracle = MemoryBackedTree<Sha256, Vec<u8>>;

    fn entry(index: u64) -> Vec<u8> {
        format!("entry {index}").into_bytes()
    }

    fn leaves(from: u64, to: u64) -> Vec<StatementId> {
        (from..to).map(|index| statement_id(&entry(index))).collect()
    }

    fn memory(size: u64) -> MemoryTiles {
        let mut tiles = MemoryTiles::new();
        tiles.extend(leaves(0, size));
        tiles
    }

    fn concatenated(hashes: &[TreeHash]) -> Vec<u8> {
        hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
    }

    #[test]
    fn appended_tiles_are_those_of_the_whole_tree() {
        let whole = memory(66_000);
        let mut grown = MemoryTiles::new();
        let mut written: BTreeMap<Tile, Vec<u8>> = BTreeMap::new();
        for size in [1, 2, 255, 256, 257, 1000, 1024, 65_535, 65_536, 65_537, 66_000] {
            let old = grown.size();
            let added = leaves(old, size);
            for (tile, bytes) in new_tiles(old, &added, &grown).unwrap() {
                assert_eq!(Some(tile), Tile::at_size(tile.level(), tile.n(), size), "only tiles of {size}");
                assert_ne!(Some(tile), Tile::at_size(tile.level(), tile.n(), old), "only tiles that change");
                written.insert(tile, bytes);
            }
            grown.extend(added);
            for tile in Tile::all(size).filter(|tile| tile.level() != Level::Entries) {
                let bytes = written.get(&tile).unwrap_or_else(|| panic!("`{tile}` was not written"));
                assert_eq!(decode_hashes(tile, bytes).unwrap(), read(&whole, tile).unwrap());
                assert!(decode_hashes(tile, &bytes[1..]).is_err());
                assert!(decode_hashes(tile, &[bytes.as_slice(), &[0; 32]].concat()).is_err());
            }
        }
        assert!(new_tiles(66_000, &[], &grown).unwrap().is_empty());
        assert!(new_tiles(66_001, &leaves(0, 1), &grown).is_err(), "the source is too short");
    }

    /// Compares one pair of sizes with the oracle, whose tree has `new` leaves.
    fn agree(source: &MemoryTiles, oracle: &Oracle, old: u64, new: u64) {
        let root = root_at(source, new).unwrap();
        assert_eq!(root.as_bytes()[..], oracle.root().as_bytes()[..], "root of {new}");
        if old < new {
            let proof = inclusion_proof(source, old, new).unwrap();
            assert_eq!(concatenated(&proof), oracle.prove_inclusion(old as usize).as_bytes());
            verify_inclusion(statement_id(&entry(old)), old, new, &proof, root).unwrap();
        }
        let old_root = root_at(source, old).unwrap();
        let proof = consistency_proof(source, old, new).unwrap();
        verify_consistency(old, old_root, new, root, &proof).unwrap();
        if old > 0 {
            assert_eq!(concatenated(&proof), oracle.prove_consistency((new - old) as usize).as_bytes());
        }
    }

    #[test]
    fn every_pair_of_small_sizes_agrees_with_the_oracle() {
        let source = memory(66);
        let mut oracle = Oracle::new();
        assert_eq!(root_at(&source, 0).unwrap(), empty_root());
        for new in 1..=66 {
            oracle.push(entry(new - 1));
            for old in 0..=new {
                agree(&source, &oracle, old, new);
            }
        }
    }

    #[test]
    fn trees_at_the_edges_of_tiles_agree_with_the_oracle() {
        const EDGES: [u64; 9] = [254, 255, 256, 257, 511, 513, 65_535, 65_536, 65_537];
        let source = memory(65_537);
        let mut oracle = Oracle::new();
        for index in 0..65_537 {
            oracle.push(entry(index));
            if EDGES.contains(&(index + 1)) {
                for old in [0, 1, 128, 254, 255, 256, 257, 32_768, 65_279, 65_280, 65_535, 65_536] {
                    if old <= index {
                        agree(&source, &oracle, old, index + 1);
                    }
                }
                agree(&source, &oracle, index, index + 1);
            }
        }
    }

    #[test]
    fn a_proof_reads_each_tile_once() {
        struct Counting<'a>(&'a MemoryTiles, std::cell::RefCell<Vec<(u8, u64, u16)>>);
        impl HashSource for Counting<'_> {
            fn hashes(&self, level: u8, n: u64, width: u16) -> Result<Vec<TreeHash>, Error> {
                self.1.borrow_mut().push((level, n, width));
                self.0.hashes(level, n, width)
            }
        }
        let tiles = memory(65_999);
        let source = Counting(&tiles, std::cell::RefCell::default());
        inclusion_proof(&source, 1234, 65_999).unwrap();
        let mut reads = source.1.take();
        reads.sort_unstable();
        // Its own tile of leaf hashes, the row above, and the right edge of the tree.
        assert_eq!(reads, [(0, 4, 256), (0, 257, 207), (1, 0, 256), (1, 1, 1)]);
        root_at(&source, 65_999).unwrap();
        assert_eq!(source.1.take().len(), 3);
    }

    #[test]
    fn a_source_that_gives_too_few_hashes_is_refused() {
        struct Short;
        impl HashSource for Short {
            fn hashes(&self, _: u8, _: u64, width: u16) -> Result<Vec<TreeHash>, Error> {
                Ok(vec![empty_root(); usize::from(width) - 1])
            }
        }
        assert!(matches!(root_at(&Short, 3), Err(Error::Length { found: 64, .. })));
        assert!(matches!(inclusion_proof(&Short, 0, 3), Err(Error::Length { .. })));
        assert!(matches!(new_tiles(3, &leaves(0, 1), &Short), Err(Error::Length { .. })));
        assert!(root_at(&MemoryTiles::new(), u64::MAX).is_err());
        assert!(inclusion_proof(&Short, 3, 3).is_err());
        assert!(inclusion_proof(&Short, 0, u64::MAX).is_err());
        assert!(consistency_proof(&Short, 4, 3).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_sizes_agree_with_the_oracle_and_no_bit_of_a_proof_is_free(
            new in 1u64..1500, at in any::<prop::sample::Index>(), bit in any::<prop::sample::Index>(),
        ) {
            let source = memory(new);
            let mut oracle = Oracle::new();
            (0..new).for_each(|index| oracle.push(entry(index)));
            let old = at.index(new as usize) as u64;
            agree(&source, &oracle, old, new);

            let (old_root, root) = (root_at(&source, old).unwrap(), root_at(&source, new).unwrap());
            let leaf = statement_id(&entry(old));
            let flip = |proof: &[TreeHash]| {
                let mut bytes = concatenated(proof);
                let bit = bit.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes.as_chunks().0.iter().map(|hash| TreeHash::from_bytes(*hash)).collect::<Vec<_>>()
            };
            let inclusion = inclusion_proof(&source, old, new).unwrap();
            if !inclusion.is_empty() {
                prop_assert!(verify_inclusion(leaf, old, new, &flip(&inclusion), root).is_err());
                prop_assert!(verify_inclusion(leaf, old, new, &inclusion[1..], root).is_err());
            }
            let consistency = consistency_proof(&source, old, new).unwrap();
            if !consistency.is_empty() {
                prop_assert!(verify_consistency(old, old_root, new, root, &flip(&consistency)).is_err());
                prop_assert!(verify_consistency(old, old_root, new, root, &consistency[1..]).is_err());
            }
        }
    }
}
