//! Packs: one immutable file for many small objects, written once with a handful of syncs.
//!
//! ```text
//! "ledger-pack/1\n\n\n"                  16 bytes
//! objects, by ascending id               one after the other
//! index: pages of up to 84 rows          row = id 32 | begin 8 | size 8;  page = rows | BLAKE3 of them 32
//! number of objects 8 | begin of the index 8
//! BLAKE3 of everything before it 32      which is the file's name
//! ```
//!
//! Numbers are big-endian. A pack follows from the set of its objects, so two who store the same set make the same
//! file. A look-up reads the end once and then a page or two of the index: ids are spread evenly, so where a row
//! lies is guessed well. What is read of the index is checked by its page, and what it leads to by the object's id.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::id::{self, Digests, Hasher, ObjectId};

pub(super) const MAGIC: &[u8; 16] = b"ledger-pack/1\n\n\n";
const ROW: usize = 48;
const PAGE_ROWS: u64 = 84;
const DIGEST: usize = 32;
const PAGE: u64 = PAGE_ROWS * ROW as u64 + DIGEST as u64;
/// Number of objects and begin of the index.
const COUNTS: usize = 16;
const TRAILER: u64 = COUNTS as u64 + DIGEST as u64;

/// Why a pack cannot be used.
#[derive(Debug)]
pub(super) enum Broken {
    /// Its bytes are not a pack's.
    Form(&'static str),
    /// They cannot be read.
    Read(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Form("it is cut short"),
            _ => Self::Read(error),
        }
    }
}

/// Where an object lies in its pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) id: ObjectId,
    pub(super) at: u64,
    pub(super) size: u64,
}

impl Row {
    fn to_bytes(self) -> [u8; ROW] {
        let mut bytes = [0; ROW];
        bytes[..32].copy_from_slice(self.id.as_bytes());
        bytes[32..40].copy_from_slice(&self.at.to_be_bytes());
        bytes[40..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let size = rest.first_chunk()?;
        Some(Self {
            id: ObjectId::from_bytes(*id),
            at: u64::from_be_bytes(*at),
            size: u64::from_be_bytes(*size),
        })
    }
}

/// Writes a pack over objects by ascending id, of which none is there twice, and returns its digest.
pub(super) fn write<E>(
    objects: &[(ObjectId, &[u8])],
    mut out: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<ObjectId, E> {
    /// What is handed over at a time.
    const CHUNK: usize = 1 << 20;
    let mut hasher = Hasher::new(Digests::Blake3);
    let mut held = MAGIC.to_vec();
    let mut add = |held: &mut Vec<u8>, bytes: &[u8], is_last: bool| {
        held.extend_from_slice(bytes);
        if held.len() >= CHUNK || is_last {
            hasher.update(held);
            out(held)?;
            held.clear();
        }
        Ok(())
    };
    let mut at = MAGIC.len() as u64;
    for (_, bytes) in objects {
        add(&mut held, bytes, false)?;
    }
    for page in objects.chunks(PAGE_ROWS as usize) {
        let mut rows = Vec::with_capacity(PAGE as usize);
        for (id, bytes) in page {
            let size = bytes.len() as u64;
            rows.extend_from_slice(&Row { id: *id, at, size }.to_bytes());
            at += size;
        }
        let digest = id::object_id(&rows);
        rows.extend_from_slice(digest.as_bytes());
        add(&mut held, &rows, false)?;
    }
    let counts = [(objects.len() as u64).to_be_bytes(), at.to_be_bytes()].concat();
    add(&mut held, &counts, true)?;
    let digest = hasher.finish().blake3;
    out(digest.as_bytes())?;
    Ok(digest)
}

/// What the end of a pack says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    count: u64,
    index: u64,
    /// The digest in it, which is its name unless one of them is wrong.
    pub(super) digest: ObjectId,
}

impl Shape {
    /// Reads the end of a pack, and holds it against the file's size.
    pub(super) fn read(file: &File) -> Result<Self, Broken> {
        let end = file.metadata()?.len().checked_sub(TRAILER).ok_or(Broken::Form("it is cut short"))?;
        let mut bytes = [0; TRAILER as usize];
        file.read_exact_at(&mut bytes, end)?;
        let (counts, digest) = bytes.split_at(COUNTS);
        let word = |at: usize| counts[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let (count, index) = (word(0), word(8));
        let size = count.div_ceil(PAGE_ROWS).checked_mul(DIGEST as u64);
        let rows = count.checked_mul(ROW as u64);
        let fits = size.zip(rows).and_then(|(size, rows)| index.checked_add(size)?.checked_add(rows));
        if fits != Some(end) || index < MAGIC.len() as u64 {
            return Err(Broken::Form("its end does not fit its size"));
        }
        let digest = digest.first_chunk().map_or([0; DIGEST], |digest| *digest);
        Ok(Self { count, index, digest: ObjectId::from_bytes(digest) })
    }

    const fn pages(&self) -> u64 {
        self.count.div_ceil(PAGE_ROWS)
    }

    /// Reads one page of the index: one row at least.
    fn page(&self, file: &File, nth: u64) -> Result<Vec<Row>, Broken> {
        const WRONG: Broken = Broken::Form("a page of its index is damaged");
        let count = PAGE_ROWS.min(self.count - nth * PAGE_ROWS) as usize;
        let mut bytes = vec![0; count * ROW + DIGEST];
        file.read_exact_at(&mut bytes, self.index + nth * PAGE)?;
        let (rows, digest) = bytes.split_at(count * ROW);
        if id::object_id(rows).as_bytes() != digest {
            return Err(WRONG);
        }
        let rows: Vec<Row> = rows.chunks_exact(ROW).filter_map(Row::parse).collect();
        let fits = |row: &Row| {
            row.at >= MAGIC.len() as u64 && row.at.checked_add(row.size).is_some_and(|end| end <= self.index)
        };
        if rows.is_empty() || !rows.iter().all(fits) {
            return Err(WRONG);
        }
        Ok(rows)
    }

    /// Finds the first page that holds a row from `key` on, and that row's place in it.
    fn lower_bound(&self, file: &File, key: &[u8; 32]) -> Result<Option<(u64, Vec<Row>, usize)>, Broken> {
        let head = key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        let (mut low, mut high) = (0, self.pages());
        let mut guess = ((u128::from(head) * u128::from(high)) >> 64) as u64;
        let (mut steps, mut found) = (0, None);
        while low < high {
            let rows = self.page(file, guess)?;
            let is = |row: Option<&Row>| row.map_or(Ordering::Less, |row| row.id.as_bytes().cmp(key));
            if is(rows.last()) == Ordering::Less {
                low = guess + 1;
            } else {
                high = guess;
                let begins_before = is(rows.first()) != Ordering::Greater;
                found = Some((guess, rows));
                if begins_before {
                    break;
                }
            }
            steps += 1;
            // Close by, if ids are spread as they should be; else as fast as halving is.
            let next = if low > guess { low } else { high.saturating_sub(1) };
            guess = if steps < 4 { next } else { low.midpoint(high) };
        }
        Ok(found.map(|(page, rows)| {
            let row = rows.partition_point(|row| row.id.as_bytes() < key);
            (page, rows, row)
        }))
    }

    /// Finds an object.
    pub(super) fn find(&self, file: &File, id: ObjectId) -> Result<Option<Row>, Broken> {
        let found = self.lower_bound(file, id.as_bytes())?;
        Ok(found.and_then(|(_, rows, at)| rows.get(at).copied()).filter(|row| row.id == id))
    }

    /// Lists the objects from `key` on, as long as `wanted` says yes.
    pub(super) fn from(
        &self,
        file: &File,
        key: &[u8; 32],
        wanted: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<Vec<Row>, Broken> {
        let mut all = Vec::new();
        let Some((mut page, mut rows, at)) = self.lower_bound(file, key)? else { return Ok(all) };
        rows.drain(..at);
        loop {
            for row in rows {
                if !wanted(&row.id) {
                    return Ok(all);
                }
                all.push(row);
            }
            page += 1;
            if page >= self.pages() {
                return Ok(all);
            }
            rows = self.page(file, page)?;
        }
    }

    /// Lists what sound pages of the index name, and says whether all of them are sound and in order.
    pub(super) fn rows(&self, file: &File) -> Result<(Vec<Row>, bool), Broken> {
        let (mut all, mut is_sound): (Vec<Row>, bool) = (Vec::new(), true);
        for page in 0..self.pages() {
            match self.page(file, page) {
                Ok(rows) => all.extend(rows),
                Err(Broken::Form(_)) => is_sound = false,
                Err(error) => return Err(error),
            }
        }
        let mut at = MAGIC.len() as u64;
        for row in &all {
            is_sound &= row.at == at;
            at = row.at.saturating_add(row.size);
        }
        is_sound &= at == self.index && all.windows(2).all(|pair| pair[0].id < pair[1].id);
        Ok((all, is_sound))
    }

    /// Hashes the whole file as its digest does.
    pub(super) fn hash(file: &File, mut told: impl FnMut(u64)) -> Result<ObjectId, Broken> {
        let size = file.metadata()?.len();
        let mut hasher = Hasher::new(Digests::Blake3);
        let mut chunk = vec![0; 1 << 20];
        let (mut at, end) = (0, size.saturating_sub(DIGEST as u64));
        while at < end {
            let part = &mut chunk[..(end - at).min(1 << 20) as usize];
            file.read_exact_at(part, at)?;
            if at == 0 && !part.starts_with(MAGIC) {
                return Err(Broken::Form("it does not begin as a pack does"));
            }
            hasher.update(part);
            at += part.len() as u64;
            told(part.len() as u64);
        }
        Ok(hasher.finish().blake3)
    }
}

/// Reads what a row leads to; whether that is the object is for the caller to find out.
pub(super) fn read_row(file: &File, row: &Row) -> Result<Vec<u8>, Broken> {
    let mut bytes = vec![0; row.size as usize];
    file.read_exact_at(&mut bytes, row.at)?;
    Ok(bytes)
}
