//! The index's bytes: rows in buckets, checksums of buckets in pages, checksums of pages in the stamp.
//!
//! A database that loses a key, or gives an older value for it, must not pass for one that has nothing there: a
//! question would get an answer that lacks something. So every bucket is vouched for by the stamp, which is
//! written last. Nothing here knows the database.

use crate::id::{self, LedgerId, ObjectId, TreeHash};
use crate::state::Place;

/// Changes whenever anything here does, so that another version's index is made anew.
const MAGIC: &[u8; 16] = b"ledger-index/1\n\n";
/// Bytes of an id that are kept: two name the bucket, six stand in the row.
pub(super) const KEPT: usize = 8;
const ROW: usize = 12;
const CHECK: usize = 8;
/// Buckets of a page, and pages of the stamp.
const FAN: usize = 256;
const HEAD: usize = 16 + 32 + 8 + 32;

/// Key of the stamp.
pub(super) const STAMP: &[u8] = b"s";

/// A log up to a size: what an index was made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The ledger.
    pub ledger: LedgerId,
    /// Number of statements.
    pub size: u64,
    /// The log's root over them.
    pub root: TreeHash,
}

/// "The claim at this place is about, or links to, an object whose id begins so."
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Posting {
    id: [u8; KEPT],
    place: Place,
}

impl Posting {
    /// Makes a posting.
    pub fn new(id: &ObjectId, place: Place) -> Self {
        Self { id: kept(id), place }
    }

    pub(super) fn bucket(&self) -> [u8; 2] {
        [self.id[0], self.id[1]]
    }
}

/// Returns the bytes of an id that the index knows.
pub(super) fn kept(id: &ObjectId) -> [u8; KEPT] {
    let mut kept = [0; KEPT];
    kept.copy_from_slice(&id.as_bytes()[..KEPT]);
    kept
}

/// Key of a bucket.
pub(super) fn bucket_key(bucket: [u8; 2]) -> [u8; 3] {
    [b'b', bucket[0], bucket[1]]
}

/// Key of a page: the first byte of the buckets that it vouches for.
pub(super) fn page_key(first: u8) -> [u8; 2] {
    [b'p', first]
}

/// Checksum of a value under its key.
fn check(key: &[u8], value: &[u8]) -> [u8; CHECK] {
    let digest = id::object_id(&[key, value].concat());
    let mut check = [0; CHECK];
    check.copy_from_slice(&digest.as_bytes()[..CHECK]);
    check
}

/// Checksums of 256 values by one byte of their keys; zeros stand for a value that is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Checks(Vec<u8>);

impl Checks {
    pub(super) fn none() -> Self {
        Self(vec![0; FAN * CHECK])
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == FAN * CHECK).then(|| Self(bytes.to_vec()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn set(&mut self, at: u8, key: &[u8], value: &[u8]) {
        let at = usize::from(at) * CHECK;
        self.0[at..at + CHECK].copy_from_slice(&check(key, value));
    }

    /// Whether this is the value that belongs here, or there belongs none and is none.
    pub(super) fn holds(&self, at: u8, key: &[u8], value: Option<&[u8]>) -> bool {
        let at = usize::from(at) * CHECK;
        self.0[at..at + CHECK] == value.map_or([0; CHECK], |value| check(key, value))
    }
}

/// Encodes the stamp: what was indexed, and the checksums of all pages.
pub(super) fn stamp(extent: &Extent, pages: &Checks) -> Vec<u8> {
    let size = extent.size.to_be_bytes();
    let head: [&[u8]; 5] = [MAGIC, extent.ledger.as_bytes(), &size, extent.root.as_bytes(), pages.bytes()];
    let mut bytes = head.concat();
    let check = check(STAMP, &bytes);
    bytes.extend(check);
    bytes
}

/// Reads a stamp; `None` if it is damaged or of another version.
pub(super) fn read_stamp(bytes: &[u8]) -> Option<(Extent, Checks)> {
    let (body, end) = bytes.split_at_checked(HEAD + FAN * CHECK)?;
    if end != check(STAMP, body) || body[..16] != MAGIC[..] {
        return None;
    }
    let digest = |at: usize| body[at..at + 32].try_into().ok();
    let extent = Extent {
        ledger: LedgerId::from_bytes(digest(16)?),
        size: u64::from_be_bytes(body[48..56].try_into().ok()?),
        root: TreeHash::from_bytes(digest(56)?),
    };
    Some((extent, Checks::read(&body[HEAD..])?))
}

/// Adds postings of one bucket to its rows, which stay in order and each once.
pub(super) fn add_rows(rows: &[u8], postings: &[Posting]) -> Vec<u8> {
    let added = postings.iter().map(|posting| {
        let mut row = [0; ROW];
        row[..6].copy_from_slice(&posting.id[2..]);
        row[6..10].copy_from_slice(&posting.place.index.to_be_bytes());
        row[10..].copy_from_slice(&posting.place.position.to_be_bytes());
        row
    });
    let old = rows.chunks_exact(ROW).filter_map(|row| row.try_into().ok());
    let mut all: Vec<[u8; ROW]> = old.chain(added).collect();
    all.sort_unstable();
    all.dedup();
    all.concat()
}

/// Returns the places that a bucket's rows give for an id, in log order.
pub(super) fn places(rows: &[u8], id: &ObjectId) -> Vec<Place> {
    let wanted = &kept(id)[2..];
    let place = |row: &[u8]| Place {
        index: u32::from_be_bytes([row[6], row[7], row[8], row[9]]),
        position: u16::from_be_bytes([row[10], row[11]]),
    };
    rows.chunks_exact(ROW).filter(|row| &row[..6] == wanted).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32) -> Place {
        Place { index, position: (index % 7) as u16 }
    }

    #[test]
    fn a_bucket_gives_the_places_that_were_put_in_once_and_in_order() {
        let (one, other) = (id::object_id(b"one"), id::object_id(b"other"));
        let postings = |places: &[u32]| -> Vec<Posting> {
            places.iter().map(|n| Posting::new(&one, place(*n))).collect()
        };
        let rows = add_rows(&[], &postings(&[70_000, 3]));
        let rows = add_rows(&rows, &postings(&[9, 3]));
        assert_eq!(places(&rows, &one), [place(3), place(9), place(70_000)]);
        assert!(places(&rows, &other).is_empty());
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_not_with_a_flipped_bit() {
        let extent =
            Extent { ledger: LedgerId::from_bytes([1; 32]), size: 77, root: TreeHash::from_bytes([2; 32]) };
        let mut pages = Checks::none();
        pages.set(9, &page_key(9), b"page");
        let bytes = stamp(&extent, &pages);
        assert_eq!(read_stamp(&bytes), Some((extent, pages)));
        for at in (0..bytes.len()).step_by(7) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert_eq!(read_stamp(&flipped), None, "byte {at}");
        }
        assert_eq!(read_stamp(&bytes[1..]), None);
    }

    #[test]
    fn a_value_is_vouched_for_with_its_key_and_its_absence_too() {
        let mut checks = Checks::none();
        checks.set(3, b"k", b"value");
        assert!(checks.holds(3, b"k", Some(b"value")));
        assert!(!checks.holds(3, b"k", Some(b"older")));
        assert!(!checks.holds(3, b"j", Some(b"value")));
        assert!(!checks.holds(3, b"k", None));
        assert!(checks.holds(4, b"k", None));
        assert!(!checks.holds(4, b"k", Some(b"value")));
    }
}
