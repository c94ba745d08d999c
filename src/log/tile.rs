//! Tiles of a C2SP tlog-tiles log: their names, their widths and their bytes.
//!
//! Nothing here reads a disk or hashes anything; what the hashes of a tile add up to is known next door, in
//! [`tree`](super::tree).

use std::fmt;

use super::merkle::MAX_SIZE;
use crate::id::TreeHash;

/// Hashes of a full tile, and entries of a full bundle.
pub const FULL: u16 = 256;
/// The longest entry: a bundle writes its length as two bytes.
pub const MAX_ENTRY: usize = 65_535;

/// The levels of tiles that a tree of 64-bit size can have.
pub const LEVELS: u8 = 8;

const HASH_LEN: usize = 32;

/// Why tiles cannot be named, read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not the one path of any tile.
    #[error("`{path}` is not the path of a tile")]
    Path {
        /// The path given.
        path: String,
    },
    /// The tile could not be had.
    #[error("tile `{tile}` is not available")]
    Unavailable {
        /// The tile.
        tile: Tile,
        /// What its keeper says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Fewer or more hashes than asked for.
    #[error("tile `{tile}` has {found} bytes")]
    Length {
        /// The tile.
        tile: Tile,
        /// Its bytes.
        found: usize,
    },
    /// A tree that is longer than its source.
    #[error("{wanted} leaves are wanted of the {size} that there are")]
    Beyond {
        /// Leaves, or the index of a leaf, wanted.
        wanted: u64,
        /// Leaves there are.
        size: u64,
    },
    /// An entry that no bundle can hold.
    #[error("entry {position} has {size} bytes, more than {MAX_ENTRY}")]
    EntryTooLarge {
        /// Position in the slice of entries.
        position: usize,
        /// Its bytes.
        size: usize,
    },
    /// A bundle holds 1 to 256 entries.
    #[error("{count} entries do not make a bundle")]
    BundleWidth {
        /// Entries given.
        count: usize,
    },
    /// A bundle ends inside an entry.
    #[error("the bundle ends inside entry {position} of {count}")]
    BundleTruncated {
        /// Position of the entry in the bundle.
        position: u16,
        /// Entries wanted.
        count: u16,
    },
    /// Bytes follow the last entry.
    #[error("{extra} bytes follow the {count} entries of the bundle")]
    BundleTrailing {
        /// Bytes that follow.
        extra: usize,
        /// Entries wanted.
        count: u16,
    },
}

/// What a tile holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Entries: a tile of them is called a bundle.
    Entries,
    /// Hashes of 256^level leaves each; level 0 are the leaf hashes.
    Hashes(u8),
}

/// The name of a tile: a row of up to 256 neighbours at one level of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    level: Level,
    n: u64,
    width: u16,
}

impl Tile {
    /// Names a tile, or `None` where no log of [`MAX_SIZE`] entries has it.
    pub const fn new(level: Level, n: u64, width: u16) -> Option<Self> {
        let above = match level {
            Level::Entries => 1,
            Level::Hashes(level) if level < LEVELS => level as u32 + 1,
            Level::Hashes(_) => return None,
        };
        // Tile n is in a log of MAX_SIZE if the hashes before it, n * 256, are fewer than MAX_SIZE / 256^level.
        let most = match MAX_SIZE.checked_shr(8 * above) {
            Some(most) => most,
            None => 0,
        };
        if n > most || width == 0 || width > FULL { None } else { Some(Self { level, n, width }) }
    }

    /// Names tile `n` of a level as it is in a log of `size` entries, or `None` if that log does not have it.
    pub const fn at_size(level: Level, n: u64, size: u64) -> Option<Self> {
        let shift = match level {
            Level::Entries => 0,
            Level::Hashes(level) => 8 * level as u32,
        };
        let Some(count) = size.checked_shr(shift) else { return None };
        let Some(before) = n.checked_mul(FULL as u64) else { return None };
        let Some(rest) = count.checked_sub(before) else { return None };
        Self::new(level, n, if rest < FULL as u64 { rest as u16 } else { FULL })
    }

    /// Returns every bundle and tile of a log of `size` entries, level by level.
    pub fn all(size: u64) -> impl Iterator<Item = Self> {
        let levels = std::iter::once(Level::Entries).chain((0..LEVELS).map(Level::Hashes));
        levels.flat_map(move |level| (0..).map_while(move |n| Self::at_size(level, n, size)))
    }

    /// Returns what the tile holds.
    pub const fn level(self) -> Level {
        self.level
    }

    /// Returns the tile's number in its level.
    pub const fn n(self) -> u64 {
        self.n
    }

    /// Returns the number of entries or hashes, 1 to 256.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Returns whether nothing can be added to the tile.
    pub const fn is_full(self) -> bool {
        self.width == FULL
    }

    /// Returns the same tile with all its 256 entries or hashes.
    #[must_use]
    pub const fn full(self) -> Self {
        Self { width: FULL, ..self }
    }

    /// Returns the path below the log: `tile/<level>/<n>`, and `.p/<width>` when the tile is partial.
    pub fn path(self) -> String {
        self.to_string()
    }

    /// Parses exactly the text that [`Tile::path`] writes.
    pub fn parse(path: &str) -> Result<Self, Error> {
        // Every lax reading of a part is caught by writing the path again.
        parse_lax(path)
            .filter(|tile| tile.path() == path)
            .ok_or_else(|| Error::Path { path: path.to_owned() })
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Entries => write!(f, "tile/entries/{}", grouped(self.n))?,
            Level::Hashes(level) => write!(f, "tile/{level}/{}", grouped(self.n))?,
        }
        if self.is_full() { Ok(()) } else { write!(f, ".p/{}", self.width) }
    }
}

fn parse_lax(path: &str) -> Option<Tile> {
    let (level, rest) = path.strip_prefix("tile/")?.split_once('/')?;
    let level = match level {
        "entries" => Level::Entries,
        number => Level::Hashes(number.parse().ok()?),
    };
    let (number, width) = match rest.split_once(".p/") {
        Some((number, width)) => (number, width.parse().ok()?),
        None => (rest, FULL),
    };
    Tile::new(level, parse_grouped(number)?, width)
}

/// Returns a number in groups of three digits, all but the last marked with `x`: 1234067 is `x001/x234/067`.
///
/// So no directory has more than 2,000 names in it.
pub fn grouped(n: u64) -> String {
    let mut text = format!("{:03}", n % 1000);
    let mut rest = n / 1000;
    while rest > 0 {
        text = format!("x{:03}/{text}", rest % 1000);
        rest /= 1000;
    }
    text
}

/// Parses exactly the text that [`grouped`] writes.
pub fn parse_grouped(text: &str) -> Option<u64> {
    let mut n = 0u64;
    for group in text.split('/') {
        let digits: u64 = group.strip_prefix('x').unwrap_or(group).parse().ok()?;
        n = n.checked_mul(1000)?.checked_add(digits)?;
    }
    (grouped(n) == text).then_some(n)
}

/// Writes 1 to 256 entries as a bundle: for each its length as two bytes, big-endian, and its bytes.
pub fn encode_bundle(entries: &[&[u8]]) -> Result<Vec<u8>, Error> {
    if entries.is_empty() || entries.len() > usize::from(FULL) {
        return Err(Error::BundleWidth { count: entries.len() });
    }
    let mut bytes = Vec::with_capacity(entries.iter().map(|entry| 2 + entry.len()).sum());
    append_entries(&mut bytes, entries, 0)?;
    Ok(bytes)
}

fn append_entries(bundle: &mut Vec<u8>, entries: &[&[u8]], first: usize) -> Result<(), Error> {
    for (at, entry) in entries.iter().enumerate() {
        let Ok(len) = u16::try_from(entry.len()) else {
            return Err(Error::EntryTooLarge { position: first + at, size: entry.len() });
        };
        bundle.extend(len.to_be_bytes());
        bundle.extend_from_slice(entry);
    }
    Ok(())
}

/// Reads the entries of a bundle that holds exactly `count`.
pub fn decode_bundle(bytes: &[u8], count: u16) -> Result<Vec<&[u8]>, Error> {
    match split_bundle(bytes, count)? {
        (entries, []) => Ok(entries),
        (_, rest) => Err(Error::BundleTrailing { extra: rest.len(), count }),
    }
}

/// Reads the first `count` entries of a bundle that may have grown since.
pub fn decode_bundle_start(bytes: &[u8], count: u16) -> Result<Vec<&[u8]>, Error> {
    split_bundle(bytes, count).map(|(entries, _)| entries)
}

fn split_bundle(mut bytes: &[u8], count: u16) -> Result<(Vec<&[u8]>, &[u8]), Error> {
    if count == 0 || count > FULL {
        return Err(Error::BundleWidth { count: usize::from(count) });
    }
    let mut entries = Vec::with_capacity(usize::from(count));
    for position in 0..count {
        let parts = bytes
            .split_first_chunk()
            .and_then(|(len, rest)| rest.split_at_checked(usize::from(u16::from_be_bytes(*len))));
        let Some((entry, rest)) = parts else { return Err(Error::BundleTruncated { position, count }) };
        entries.push(entry);
        bytes = rest;
    }
    Ok((entries, bytes))
}

/// Returns every bundle that changes when entries are appended to a log of `old_size`.
///
/// `held` is the partial bundle at that size, or nothing where the size is a multiple of 256.
pub fn new_bundles(old_size: u64, held: &[u8], entries: &[&[u8]]) -> Result<Vec<(Tile, Vec<u8>)>, Error> {
    let held_width = (old_size % u64::from(FULL)) as u16;
    if held_width > 0 {
        decode_bundle(held, held_width)?;
    } else if !held.is_empty() {
        return Err(Error::BundleTrailing { extra: held.len(), count: 0 });
    }
    let mut bundles = Vec::new();
    let (mut n, mut width, mut bytes, mut done) = (old_size / u64::from(FULL), held_width, held.to_vec(), 0);
    while done < entries.len() {
        let part = &entries[done..entries.len().min(done + usize::from(FULL - width))];
        append_entries(&mut bytes, part, done)?;
        done += part.len();
        let beyond = Error::Beyond { wanted: old_size, size: MAX_SIZE };
        let tile = Tile::new(Level::Entries, n, width + part.len() as u16).ok_or(beyond)?;
        bundles.push((tile, std::mem::take(&mut bytes)));
        (n, width) = (n + 1, 0);
    }
    Ok(bundles)
}

/// Splits the bytes of a hash tile, which must be exactly as long as its width says.
pub fn decode_hashes(tile: Tile, bytes: &[u8]) -> Result<Vec<TreeHash>, Error> {
    let (hashes, rest) = bytes.as_chunks::<HASH_LEN>();
    if !rest.is_empty() || hashes.len() != usize::from(tile.width) {
        return Err(Error::Length { tile, found: bytes.len() });
    }
    Ok(hashes.iter().map(|hash| TreeHash::from_bytes(*hash)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64) -> Vec<u8> {
        format!("entry {index}").into_bytes()
    }

    #[test]
    fn a_path_has_one_form() {
        for (level, n, width, path) in [
            (Level::Hashes(0), 0, 256, "tile/0/000"),
            (Level::Hashes(0), 1_234_067, 256, "tile/0/x001/x234/067"),
            (Level::Hashes(2), 5, 17, "tile/2/005.p/17"),
            (Level::Entries, 1000, 255, "tile/entries/x001/000.p/255"),
        ] {
            let tile = Tile::new(level, n, width).unwrap();
            assert_eq!(tile.path(), path);
            assert_eq!(Tile::parse(path).unwrap(), tile);
        }
        for path in [
            "",
            "tile",
            "tile/0",
            "tile/0/",
            "tile/0/0",
            "tile/0/0000",
            "tile/00/000",
            "tile/+0/000",
            "tile/8/000",
            "tile/7/001",
            "tile/256/000",
            "tile/-1/000",
            "tile/data/000",
            "tile/Entries/000",
            "/tile/0/000",
            "tile/0/000/",
            "tile/0/x000/000",
            "tile/0/001/000",
            "tile/0/x001/x000",
            "tile/0/x001//000",
            "tile/0/+01",
            "tile/0/000.p/0",
            "tile/0/000.p/00",
            "tile/0/000.p/256",
            "tile/0/000.p/257",
            "tile/0/000.p/01",
            "tile/0/000.p/+1",
            "tile/0/000.p/",
            "tile/0/000.p/1.p/1",
            "tile/0/x018/x446/x744/x073/x709/x551/616",
        ] {
            assert!(Tile::parse(path).is_err(), "`{path}` must be refused");
        }
        assert_eq!(grouped(u64::MAX), "x018/x446/x744/x073/x709/x551/615");
        assert_eq!(parse_grouped(&grouped(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn widths_follow_the_size() {
        let paths = |size| Tile::all(size).filter(|tile| tile.level != Level::Entries).collect::<Vec<_>>();
        assert_eq!(Tile::all(0).count(), 0);
        let full: Vec<_> = paths(256).iter().map(|tile| tile.path()).collect();
        assert_eq!(full, ["tile/0/000", "tile/1/000.p/1"]);
        let tiles = paths(70_000);
        assert_eq!(tiles.len(), 274 + 2 + 1);
        assert_eq!(tiles[273].path(), "tile/0/273.p/112");
        assert_eq!(tiles[275].path(), "tile/1/001.p/17");
        assert_eq!(tiles[276].path(), "tile/2/000.p/1");
        assert_eq!(Tile::at_size(Level::Hashes(7), 0, MAX_SIZE).unwrap().width(), 127);
        assert_eq!(Tile::at_size(Level::Hashes(9), 0, MAX_SIZE), None);
    }

    #[test]
    fn a_bundle_is_read_as_written_or_not_at_all() {
        let long = vec![7; MAX_ENTRY];
        let entries: [&[u8]; 3] = [b"", b"ab", &long];
        let bytes = encode_bundle(&entries).unwrap();
        assert_eq!(bytes[..6], [0, 0, 0, 2, b'a', b'b']);
        assert_eq!(decode_bundle(&bytes, 3).unwrap(), entries);
        assert_eq!(decode_bundle_start(&bytes, 2).unwrap(), entries[..2]);
        assert!(matches!(decode_bundle(&bytes, 2), Err(Error::BundleTrailing { count: 2, .. })));
        assert!(matches!(decode_bundle(&bytes, 4), Err(Error::BundleTruncated { position: 3, .. })));
        for len in 0..bytes.len().min(12) {
            assert!(decode_bundle(&bytes[..len], 3).is_err(), "cut at {len}");
        }
        assert!(decode_bundle(&bytes[..bytes.len() - 1], 3).is_err());
        let longer = vec![7; MAX_ENTRY + 1];
        assert!(matches!(encode_bundle(&[b"", &longer]), Err(Error::EntryTooLarge { position: 1, .. })));
        assert!(encode_bundle(&[]).is_err());
        assert!(encode_bundle(&[b"".as_slice(); 257]).is_err());
        assert!(decode_bundle(&[], 0).is_err());
        assert!(decode_bundle(&[0; 1024], 257).is_err());
    }

    #[test]
    fn bundles_grow_from_the_partial_one() {
        let owned: Vec<_> = (0..600).map(entry).collect();
        let all: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        for (old, new) in [(0, 1), (0, 256), (1, 2), (255, 256), (255, 257), (256, 257), (100, 600), (5, 5)] {
            let start = old - old % 256;
            let held = if old == start { Vec::new() } else { encode_bundle(&all[start..old]).unwrap() };
            let bundles = new_bundles(old as u64, &held, &all[old..new]).unwrap();
            let wanted: Vec<_> = Tile::all(new as u64)
                .filter(|tile| tile.level == Level::Entries && tile.n >= (old / 256) as u64 && new > old)
                .collect();
            assert_eq!(bundles.iter().map(|(tile, _)| *tile).collect::<Vec<_>>(), wanted, "{old} to {new}");
            for (tile, bytes) in bundles {
                let first = tile.n as usize * 256;
                let want = &all[first..first + usize::from(tile.width)];
                assert_eq!(decode_bundle(&bytes, tile.width).unwrap(), want);
            }
        }
        assert!(new_bundles(1, b"", &all[1..2]).is_err(), "the partial bundle is missing");
        assert!(new_bundles(256, b"\0\0", &all[..1]).is_err(), "there is no partial bundle");
    }

    #[test]
    fn a_hash_tile_is_as_long_as_its_width() {
        let tile = Tile::new(Level::Hashes(0), 0, 2).unwrap();
        assert_eq!(decode_hashes(tile, &[7; 64]).unwrap(), [TreeHash::from_bytes([7; 32]); 2]);
        for len in [0, 32, 63, 65, 96] {
            assert!(
                matches!(decode_hashes(tile, &vec![7; len]), Err(Error::Length { found, .. }) if found == len)
            );
        }
    }
}
