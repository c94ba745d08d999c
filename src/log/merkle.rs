//! Merkle tree arithmetic of RFC 6962: nodes, roots of growing trees, and the verification of proofs.
//!
//! Nothing here reads a tile, checks a signature or makes a proof; a proof is made where the hashes are kept.

use crate::id::{StatementId, TreeHash, sha256, sha256_prefixed};

/// The largest tree: other implementations count leaves with a signed 64-bit integer.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// Why a proof proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The leaf is not in a tree of that size.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    NoSuchLeaf {
        /// Index of the leaf.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// The earlier tree is larger than the later one.
    #[error("a tree of {old_size} leaves cannot have come before one of {new_size}")]
    Shrunk {
        /// Leaves of the earlier tree.
        old_size: u64,
        /// Leaves of the later tree.
        new_size: u64,
    },
    /// More leaves than [`MAX_SIZE`].
    #[error("{size} leaves are more than a tree may have")]
    TooLarge {
        /// Leaves claimed.
        size: u64,
    },
    /// Hashes are missing or too many.
    #[error("the proof has {found} hashes where the sizes need {expected}")]
    ProofLength {
        /// Hashes that the sizes need.
        expected: usize,
        /// Hashes given.
        found: usize,
    },
    /// The proof leads to another root.
    #[error("the proof of {size} leaves leads to root {found}, not {expected}")]
    Root {
        /// Leaves of the tree whose root is not met.
        size: u64,
        /// The root to be met.
        expected: TreeHash,
        /// The root that the proof leads to.
        found: TreeHash,
    },
}

/// Returns the hash of an inner node.
pub fn node(left: TreeHash, right: TreeHash) -> TreeHash {
    // SHA256(0x01 || left || right)
    TreeHash::from_bytes(sha256_prefixed(1, &[left.as_bytes(), right.as_bytes()]))
}

/// Returns a leaf hash as the lowest node of the tree.
pub const fn leaf_node(leaf: StatementId) -> TreeHash {
    TreeHash::from_bytes(*leaf.as_bytes())
}

/// Returns the root of the tree without leaves.
pub fn empty_root() -> TreeHash {
    // SHA256("")
    TreeHash::from_bytes(*sha256(b"").as_bytes())
}

/// The right edge of a tree: all that is needed to append leaves and to know the root.
///
/// A tree of `size` leaves is a row of perfect subtrees, one for each bit of `size`, largest first. Their
/// roots are the *peaks*.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactRange {
    size: u64,
    peaks: Vec<TreeHash>,
}

impl CompactRange {
    /// Starts with the tree without leaves.
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Takes the peaks of a tree of `size` leaves, or `None` if they cannot be its peaks.
    pub fn from_parts(size: u64, peaks: Vec<TreeHash>) -> Option<Self> {
        (size <= MAX_SIZE && peaks.len() == size.count_ones() as usize).then_some(Self { size, peaks })
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: StatementId) {
        self.push_node(leaf_node(leaf));
    }

    /// Appends a hash of the tree's lowest level, whatever lies below it.
    pub(super) fn push_node(&mut self, mut hash: TreeHash) {
        // Each trailing one bit of the size is a perfect subtree that the new one completes to a larger one.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                hash = node(left, hash);
            }
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the perfect subtrees, largest first.
    pub fn peaks(&self) -> &[TreeHash] {
        &self.peaks
    }

    /// Returns the root.
    pub fn root(&self) -> TreeHash {
        self.peaks.iter().copied().rev().reduce(|right, left| node(left, right)).unwrap_or_else(empty_root)
    }
}

/// Returns how a path from leaf `index` to the root of `size` leaves divides.
///
/// On the first steps, the *inner* ones, the sibling may be on either side and the bits of `index` say on
/// which. Above them the path follows the right edge of the tree, where only siblings to the left count:
///
/// ```text
/// inner  = number of bits of (index XOR (size - 1))
/// border = number of ones in (index >> inner)
/// ```
const fn path_shape(index: u64, size: u64) -> (u32, u32) {
    let inner = u64::BITS - (index ^ (size - 1)).leading_zeros();
    let border = match index.checked_shr(inner) {
        Some(above) => above.count_ones(),
        None => 0,
    };
    (inner, border)
}

const fn size_is_valid(size: u64) -> Result<(), Error> {
    if size <= MAX_SIZE { Ok(()) } else { Err(Error::TooLarge { size }) }
}

fn met(size: u64, expected: TreeHash, found: TreeHash) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Root { size, expected, found }) }
}

/// Returns the root of the tree with `size` leaves that the proof leads to from leaf number `index`.
pub fn inclusion_root(
    leaf: StatementId,
    index: u64,
    size: u64,
    proof: &[TreeHash],
) -> Result<TreeHash, Error> {
    size_is_valid(size)?;
    if index >= size {
        return Err(Error::NoSuchLeaf { index, size });
    }
    let (inner, border) = path_shape(index, size);
    let expected = (inner + border) as usize;
    if proof.len() != expected {
        return Err(Error::ProofLength { expected, found: proof.len() });
    }
    let (inner_hashes, border_hashes) = proof.split_at(inner as usize);
    let mut hash = leaf_node(leaf);
    for (step, &sibling) in inner_hashes.iter().enumerate() {
        hash = if (index >> step) & 1 == 1 { node(sibling, hash) } else { node(hash, sibling) };
    }
    for &sibling in border_hashes {
        hash = node(sibling, hash);
    }
    Ok(hash)
}

/// Checks that `leaf` is leaf number `index` of the tree with `size` leaves and this root.
pub fn verify_inclusion(
    leaf: StatementId,
    index: u64,
    size: u64,
    proof: &[TreeHash],
    root: TreeHash,
) -> Result<(), Error> {
    met(size, root, inclusion_root(leaf, index, size, proof)?)
}

/// Returns the root of the tree with `new_size` leaves that the proof leads to from the tree with `old_size`.
///
/// It is checked that the proof leads to `old_root` too. From the empty tree no proof leads anywhere, because
/// every tree begins with it: there the answer is `None`.
pub fn continued_root(
    old_size: u64,
    old_root: TreeHash,
    new_size: u64,
    proof: &[TreeHash],
) -> Result<Option<TreeHash>, Error> {
    size_is_valid(new_size)?;
    if old_size > new_size {
        return Err(Error::Shrunk { old_size, new_size });
    }
    if old_size == 0 {
        met(0, empty_root(), old_root)?;
    }
    if old_size == 0 || old_size == new_size {
        if !proof.is_empty() {
            return Err(Error::ProofLength { expected: 0, found: proof.len() });
        }
        return Ok((old_size == new_size).then_some(old_root));
    }

    // Both trees share the old tree's last perfect subtree, of 2^shift leaves. The proof climbs from it to
    // both roots. When it is the whole old tree its root is known and therefore not in the proof.
    let shift = old_size.trailing_zeros();
    let (inner, border) = path_shape(old_size - 1, new_size);
    // old_size < new_size, so the paths part above the shared subtree and inner > shift.
    let inner = (inner - shift) as usize;
    let is_whole = old_size.is_power_of_two();
    let expected = inner + border as usize + usize::from(!is_whole);
    if proof.len() != expected {
        return Err(Error::ProofLength { expected, found: proof.len() });
    }
    let (shared, climb) = match proof.split_first() {
        Some((&first, rest)) if !is_whole => (first, rest),
        _ => (old_root, proof),
    };
    let (inner_hashes, border_hashes) = climb.split_at(inner);
    let path = (old_size - 1) >> shift;
    let (mut old_hash, mut new_hash) = (shared, shared);
    for (step, &sibling) in inner_hashes.iter().enumerate() {
        if (path >> step) & 1 == 1 {
            old_hash = node(sibling, old_hash);
            new_hash = node(sibling, new_hash);
        } else {
            // A sibling to the right holds only leaves that the old tree did not have.
            new_hash = node(new_hash, sibling);
        }
    }
    for &sibling in border_hashes {
        old_hash = node(sibling, old_hash);
        new_hash = node(sibling, new_hash);
    }
    met(old_size, old_root, old_hash)?;
    Ok(Some(new_hash))
}

/// Checks that the tree with `new_size` leaves begins with all leaves of the tree with `old_size`.
///
/// Every tree begins with the empty one and with itself; there the proof must be empty.
pub fn verify_consistency(
    old_size: u64,
    old_root: TreeHash,
    new_size: u64,
    new_root: TreeHash,
    proof: &[TreeHash],
) -> Result<(), Error> {
    match continued_root(old_size, old_root, new_size, proof)? {
        Some(found) => met(new_size, new_root, found),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::statement_id;

    const ENTRIES: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    const ROOTS: [&str; 9] = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    const INCLUSION_5_OF_8: [&str; 3] = [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ];
    const CONSISTENCY_3_TO_7: [&str; 4] = [
        "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
        "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "837dbb152e9b079010717e84e865da4ebc0fa198a806d59d31bf15accef22d0e",
    ];

    fn hashes(texts: &[&str]) -> Vec<TreeHash> {
        texts.iter().map(|text| TreeHash::from_hex(text).unwrap()).collect()
    }

    #[test]
    fn roots_are_those_of_the_published_vectors() {
        let mut range = CompactRange::new();
        assert_eq!(range.root().to_hex(), ROOTS[0]);
        for (entry, root) in ENTRIES.iter().zip(&ROOTS[1..]) {
            range.push(statement_id(entry));
            assert_eq!(range.root().to_hex(), *root);
            let again = CompactRange::from_parts(range.size(), range.peaks().to_vec()).unwrap();
            assert_eq!(again, range);
        }
        assert_eq!(CompactRange::from_parts(8, range.peaks().repeat(2)), None);
        assert_eq!(CompactRange::from_parts(7, range.peaks().to_vec()), None);
        assert_eq!(CompactRange::from_parts(u64::MAX, range.peaks().repeat(64)), None);
    }

    #[test]
    fn the_published_inclusion_proof_holds_for_its_leaf_only() {
        let (proof, roots) = (hashes(&INCLUSION_5_OF_8), hashes(&ROOTS));
        let leaf = statement_id(ENTRIES[5]);
        assert_eq!(verify_inclusion(leaf, 5, 8, &proof, roots[8]), Ok(()));
        for index in (0..8).filter(|index| *index != 5) {
            assert!(verify_inclusion(leaf, index, 8, &proof, roots[8]).is_err(), "index {index}");
        }
        assert!(verify_inclusion(statement_id(ENTRIES[4]), 5, 8, &proof, roots[8]).is_err());
        assert_eq!(
            verify_inclusion(leaf, 8, 8, &proof, roots[8]),
            Err(Error::NoSuchLeaf { index: 8, size: 8 })
        );
        assert_eq!(
            verify_inclusion(leaf, 5, 8, &proof[..2], roots[8]),
            Err(Error::ProofLength { expected: 3, found: 2 })
        );
    }

    #[test]
    fn the_published_consistency_proof_holds_for_its_sizes_only() {
        let (proof, roots) = (hashes(&CONSISTENCY_3_TO_7), hashes(&ROOTS));
        assert_eq!(verify_consistency(3, roots[3], 7, roots[7], &proof), Ok(()));
        for old in 0..=8 {
            for new in 0..=8 {
                let verdict = verify_consistency(old, roots[old as usize], new, roots[new as usize], &proof);
                assert_eq!(verdict.is_ok(), (old, new) == (3, 7), "{old} to {new}");
            }
        }
        assert!(verify_consistency(3, roots[2], 7, roots[7], &proof).is_err());
        assert!(verify_consistency(3, roots[3], 7, roots[6], &proof).is_err());
    }

    #[test]
    fn the_empty_tree_and_equal_trees_need_no_hashes() {
        let roots = hashes(&ROOTS);
        assert_eq!(verify_consistency(0, roots[0], 0, roots[0], &[]), Ok(()));
        assert_eq!(verify_consistency(0, roots[0], 5, roots[5], &[]), Ok(()));
        assert_eq!(verify_consistency(5, roots[5], 5, roots[5], &[]), Ok(()));
        assert!(verify_consistency(0, roots[1], 5, roots[5], &[]).is_err(), "not the empty root");
        assert!(verify_consistency(0, roots[1], 0, roots[1], &[]).is_err(), "not the empty root");
        assert!(verify_consistency(5, roots[5], 5, roots[6], &[]).is_err(), "two roots of one size");
        assert!(verify_consistency(0, roots[0], 5, roots[5], &roots[..1]).is_err(), "a needless hash");
        assert!(verify_consistency(5, roots[5], 5, roots[5], &roots[..1]).is_err(), "a needless hash");
        assert_eq!(
            verify_consistency(5, roots[5], 4, roots[4], &[]),
            Err(Error::Shrunk { old_size: 5, new_size: 4 })
        );
    }

    #[test]
    fn no_size_or_index_is_a_reason_to_panic() {
        let (leaf, hash) = (statement_id(b""), empty_root());
        let proof = vec![hash; 130];
        let edges = [0, 1, 2, 3, (1 << 32) - 1, 1 << 32, (1 << 62) + 1, MAX_SIZE, MAX_SIZE + 1, u64::MAX];
        for a in edges {
            for b in edges {
                for len in 0..proof.len() {
                    assert!(a == 0 && b == 1 || verify_inclusion(leaf, a, b, &proof[..len], hash).is_err());
                    assert!(
                        len == 0 || verify_consistency(a, hash, b, hash, &proof[..len]).is_err(),
                        "{a} to {b} by {len} equal hashes"
                    );
                }
            }
        }
    }
}
