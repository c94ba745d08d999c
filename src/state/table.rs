//! Fixed-width rows: a sorted base that is searched where it lies, and the rows that were added since.
//!
//! A State file is a row of such tables. Reading it costs one read and no decoding; folding the tail of the
//! log touches only the small part in memory. What the bytes of a row mean is said in `rows.rs`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Rows of `K` key bytes and `V` value bytes, one value a key.
#[derive(Clone, Debug)]
pub(super) struct Table<const K: usize, const V: usize> {
    file: Arc<Vec<u8>>,
    base: Range<usize>,
    recent: HashMap<[u8; K], [u8; V], BuildHasherDefault<Mix>>,
    /// Keys in `recent` that are not in the base.
    added: usize,
}

impl<const K: usize, const V: usize> Default for Table<K, V> {
    fn default() -> Self {
        Self { file: Arc::default(), base: 0..0, recent: HashMap::default(), added: 0 }
    }
}

impl<const K: usize, const V: usize> Table<K, V> {
    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.base.len() / (K + V) + self.added
    }

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
        let rows = self.rows();
        let (mut low, mut high) = (0, rows.len() / (K + V));
        while low < high {
            let middle = low + (high - low) / 2;
            let at = middle * (K + V);
            match rows[at..at + K].cmp(key) {
                std::cmp::Ordering::Equal => return rows[at + K..at + K + V].try_into().ok(),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn rows(&self) -> &[u8] {
        &self.file[self.base.clone()]
    }

    /// Visits every row once, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ([u8; K], [u8; V])> + '_ {
        let base = self.rows().chunks_exact(K + V).filter_map(|row| {
            let key: [u8; K] = row[..K].try_into().ok()?;
            if self.recent.contains_key(&key) { None } else { Some((key, row[K..].try_into().ok()?)) }
        });
        base.chain(self.recent.iter().map(|(key, value)| (*key, *value)))
    }

    /// Returns keys in the base or added that begin with the first `N` bytes of `from`.
    pub(super) fn prefixed<'a>(
        &'a self,
        fixed: usize,
        from: &'a [u8; K],
    ) -> impl Iterator<Item = ([u8; K], [u8; V])> + 'a {
        let rows = self.rows();
        let width = K + V;
        let first =
            partition(rows.len() / width, |row| rows[row * width..row * width + fixed] < from[..fixed]);
        let base = rows[first * width..]
            .chunks_exact(width)
            .take_while(move |row| row[..fixed] == from[..fixed])
            .filter_map(|row| {
                let key: [u8; K] = row[..K].try_into().ok()?;
                if self.recent.contains_key(&key) { None } else { Some((key, row[K..].try_into().ok()?)) }
            });
        let recent = self.recent.iter().filter(move |(key, _)| key[..fixed] == from[..fixed]);
        base.chain(recent.map(|(key, value)| (*key, *value)))
    }

    /// Appends the number of rows and then the rows, sorted by key.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut recent: Vec<(&[u8; K], &[u8; V])> = self.recent.iter().collect();
        recent.sort_unstable_by_key(|(key, _)| **key);
        out.extend((self.len() as u64).to_be_bytes());
        let mut recent = recent.into_iter().peekable();
        for row in self.rows().chunks_exact(K + V) {
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

    /// Takes a table out of a file at `at`, and moves `at` behind it. `None` if it does not fit.
    pub(super) fn read(file: &Arc<Vec<u8>>, at: &mut usize) -> Option<Self> {
        let count = u64::from_be_bytes(file.get(*at..*at + 8)?.try_into().ok()?);
        let start = *at + 8;
        let bytes = usize::try_from(count).ok()?.checked_mul(K + V)?;
        let end = start.checked_add(bytes)?;
        file.get(start..end)?;
        *at = end;
        Some(Self { file: Arc::clone(file), base: start..end, recent: HashMap::default(), added: 0 })
    }
}

/// Returns how many of `0..len` come before the first for which `before` is false.
fn partition(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
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
                let mut at = 1;
                let read = Table::<2, 3>::read(&file.clone().into(), &mut at).unwrap();
                prop_assert_eq!(at, file.len());
                for table in [&table, &read] {
                    prop_assert_eq!(table.len(), model.len());
                    let all: BTreeMap<_, _> = table.iter().collect();
                    prop_assert_eq!(&all, &model);
                    for high in 0..=255 {
                        let found: BTreeMap<_, _> = table.prefixed(1, &[high, 0]).collect();
                        let wanted: BTreeMap<_, _> =
                            model.iter().filter(|(key, _)| key[0] == high).map(|(k, v)| (*k, *v)).collect();
                        prop_assert_eq!(found, wanted);
                    }
                }
                table = read;
            }
        }
    }

    #[test]
    fn a_table_that_does_not_fit_its_file_is_refused() {
        let file = Arc::new(vec![0xff; 20]);
        assert!(Table::<2, 3>::read(&file, &mut 0).is_none());
        assert!(Table::<2, 3>::read(&file, &mut 16).is_none());
    }
}
