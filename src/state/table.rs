//! Fixed-width rows: a sorted base that is searched page by page, and the rows that were added since.
//!
//! A State file is a row of such tables. Looking something up in one reads the pages that the search meets;
//! folding the tail of the log touches only the small part in memory. What the bytes of a row mean is said in
//! `rows.rs`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::pages::{PAGE, Pages};

/// Rows of `K` key bytes and `V` value bytes, one value a key.
#[derive(Clone, Debug)]
pub(super) struct Table<const K: usize, const V: usize> {
    pages: Arc<Pages>,
    /// Number of the base's first page.
    first: usize,
    /// Rows in the base.
    rows: usize,
    recent: HashMap<[u8; K], [u8; V], BuildHasherDefault<Mix>>,
    /// Keys in `recent` that are not in the base.
    added: usize,
}

impl<const K: usize, const V: usize> Default for Table<K, V> {
    fn default() -> Self {
        Self { pages: Arc::default(), first: 0, rows: 0, recent: HashMap::default(), added: 0 }
    }
}

impl<const K: usize, const V: usize> Table<K, V> {
    /// Bytes of a row.
    const WIDTH: usize = K + V;
    /// Rows in a full page; no row lies across two.
    const PER_PAGE: usize = PAGE / Self::WIDTH;

    /// Finds the value of a key.
    pub(super) fn get(&self, key: &[u8; K]) -> Option<[u8; V]> {
        if let Some(value) = self.recent.get(key) {
            return Some(*value);
        }
        self.search(key)
    }

    /// Sets the value of a key.
    pub(super) fn set(&mut self, key: [u8; K], value: [u8; V]) {
        let is_new = self.recent.insert(key, value).is_none();
        if is_new && self.search(&key).is_none() {
            self.added += 1;
        }
    }

    fn search(&self, key: &[u8; K]) -> Option<[u8; V]> {
        if self.rows == 0 {
            return None;
        }
        let at = self.partition(|row| row[..K] < key[..]);
        let row = self.row(at)?;
        if row[..K] == key[..] { row[K..].try_into().ok() } else { None }
    }

    /// Returns a row of the base; nothing beyond its end, and nothing where the page is damaged.
    fn row(&self, number: usize) -> Option<&[u8]> {
        if number >= self.rows {
            return None;
        }
        let page = self.pages.page(self.first + number / Self::PER_PAGE)?;
        page.chunks_exact(Self::WIDTH).nth(number % Self::PER_PAGE)
    }

    /// Returns the base's rows from a number on.
    fn rows_from(&self, number: usize) -> impl Iterator<Item = &[u8]> {
        (number..self.rows).map_while(|number| self.row(number))
    }

    /// Returns how many rows of the base come before the first for which `before` is false.
    fn partition(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(middle).is_some_and(&before) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Visits every row once, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ([u8; K], [u8; V])> + '_ {
        self.prefixed(&[])
    }

    /// Visits the rows whose keys begin so, in no order.
    pub(super) fn prefixed<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = ([u8; K], [u8; V])> + 'a {
        let first = self.partition(|row| row[..prefix.len()] < *prefix);
        let base = self.rows_from(first).take_while(move |row| row.starts_with(prefix)).filter_map(|row| {
            let key: [u8; K] = row[..K].try_into().ok()?;
            if self.recent.contains_key(&key) { None } else { Some((key, row[K..].try_into().ok()?)) }
        });
        let recent = self.recent.iter().filter(move |(key, _)| key.starts_with(prefix));
        base.chain(recent.map(|(key, value)| (*key, *value)))
    }
}

/// What the file does with a table, whatever its shape.
pub(super) trait Rows {
    /// Returns the number of keys.
    fn len(&self) -> usize;

    /// Returns the bytes of a row.
    fn width(&self) -> usize;

    /// Returns the bytes of a full page.
    fn page_len(&self) -> usize;

    /// Appends the rows, sorted by key.
    fn write(&self, out: &mut Vec<u8>);

    /// Makes the base so many rows, which begin with page `first`.
    fn place(&mut self, first: usize, rows: usize);

    /// Gives the base its pages.
    fn attach(&mut self, pages: &Arc<Pages>);
}

impl<const K: usize, const V: usize> Rows for Table<K, V> {
    fn len(&self) -> usize {
        self.rows + self.added
    }

    fn width(&self) -> usize {
        Self::WIDTH
    }

    fn page_len(&self) -> usize {
        Self::PER_PAGE * Self::WIDTH
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut recent: Vec<(&[u8; K], &[u8; V])> = self.recent.iter().collect();
        recent.sort_unstable_by_key(|(key, _)| **key);
        let mut recent = recent.into_iter().peekable();
        for row in self.rows_from(0) {
            while let Some((key, value)) = recent.next_if(|(key, _)| key[..] < row[..K]) {
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            if let Some((key, value)) = recent.next_if(|(key, _)| key[..] == row[..K]) {
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            } else {
                out.extend_from_slice(row);
            }
        }
        for (key, value) in recent {
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
    }

    fn place(&mut self, first: usize, rows: usize) {
        (self.first, self.rows) = (first, rows);
    }

    fn attach(&mut self, pages: &Arc<Pages>) {
        self.pages = Arc::clone(pages);
    }
}

/// Mixes eight bytes at a time. Keys are digests, so this only has to be fast and to use every byte.
#[derive(Default, Clone, Copy)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn write_usize(&mut self, _: usize) {
        // The length of a fixed-width key says nothing.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_table_answers_like_a_map_before_and_after_it_is_written(
            first in prop::collection::vec((any::<[u8; 2]>(), any::<[u8; 3]>()), 0..60),
            second in prop::collection::vec((any::<[u8; 2]>(), any::<[u8; 3]>()), 0..60),
        ) {
            let mut model = BTreeMap::new();
            let mut table = Table::<2, 3>::default();
            for rows in [first, second] {
                for (key, value) in rows {
                    model.insert(key, value);
                    table.set(key, value);
                }
                let mut file = vec![7];
                table.write(&mut file);
                prop_assert_eq!(file.len(), 1 + 5 * table.len());
                let read = reread(&table, file);
                for table in [&table, &read] {
                    prop_assert_eq!(table.len(), model.len());
                    let all: BTreeMap<_, _> = table.iter().collect();
                    prop_assert_eq!(&all, &model);
                    for high in 0..=255 {
                        let found: BTreeMap<_, _> = table.prefixed(&[high]).collect();
                        let wanted: BTreeMap<_, _> =
                            model.iter().filter(|(key, _)| key[0] == high).map(|(k, v)| (*k, *v)).collect();
                        prop_assert_eq!(found, wanted);
                    }
                }
                table = read;
            }
        }
    }

    /// Takes a table out of a file of rows that begin behind one byte.
    fn reread<const K: usize, const V: usize>(table: &Table<K, V>, file: Vec<u8>) -> Table<K, V> {
        let digests: Vec<(usize, [u8; 32])> = file[1..]
            .chunks(table.page_len())
            .map(|page| (page.len(), *crate::id::object_id(page).as_bytes()))
            .collect();
        let mut pages = Pages::new(Box::new(file));
        let mut at = 1;
        for (len, digest) in digests {
            pages.add(at, len, digest);
            at += len as u64;
        }
        let mut read = Table::default();
        read.place(0, table.len());
        read.attach(&Arc::new(pages));
        read
    }

    #[test]
    fn a_look_up_reads_few_pages_and_a_damaged_one_says_so() {
        let mut table = Table::<4, 4>::default();
        for n in 0u32..100_000 {
            table.set(n.to_be_bytes(), (!n).to_be_bytes());
        }
        let mut file = vec![0];
        table.write(&mut file);
        let mut read = reread(&table, file.clone());
        // The source is changed behind the digests.
        let last = file.len() - 1;
        file[last] ^= 1;
        let mut pages = Pages::new(Box::new(file.clone()));
        let (mut at, full) = (1, read.page_len());
        for page in file[1..].chunks(full) {
            let mut page = page.to_vec();
            if at + page.len() == file.len() {
                *page.last_mut().unwrap() ^= 1;
            }
            pages.add(at as u64, page.len(), *crate::id::object_id(&page).as_bytes());
            at += page.len();
        }
        let pages = Arc::new(pages);
        read.attach(&pages);
        assert_eq!(read.get(&7u32.to_be_bytes()), Some((!7u32).to_be_bytes()));
        assert!(!pages.is_damaged(), "the last page was not looked at");
        assert_eq!(read.get(&99_999u32.to_be_bytes()), None);
        assert!(pages.is_damaged());
        assert!(!pages.read_all());
    }
}
