//! The State file: tables as they are searched, and behind them a stamp and the digest of every page.
//!
//! It is derived and lies in the user's cache. Whatever is wrong with it, the answer is to fold again; so
//! reading it says only whether it can be used, and never repairs. Writing it to disk is the caller's.

use std::sync::Arc;

use crate::id::{self, LedgerId, TreeHash};
use crate::log::merkle::CompactRange;

use super::pages::{Pages, Source};
use super::table::Rows;
use super::{Parent, State};

/// Changes whenever a row or the order of tables does, so that another version's file is folded anew.
const MAGIC: &[u8; 16] = b"ledger-state/3\n\n";
/// Behind everything else: the length of the stamp and its digest.
const END: usize = 8 + 32;

impl State {
    /// Encodes the state as a file; `None` for an empty one, and for one that came from a damaged file.
    pub fn to_file(&self) -> Option<Vec<u8>> {
        let ledger = self.ledger?;
        let mut stamp = Vec::with_capacity(1 << 16);
        stamp.extend_from_slice(ledger.as_bytes());
        stamp.extend((self.parents.len() as u64).to_be_bytes());
        for parent in &self.parents {
            stamp.extend_from_slice(parent.ledger.as_bytes());
            stamp.extend(parent.size.to_be_bytes());
            stamp.extend_from_slice(parent.root.as_bytes());
        }
        stamp.extend(self.rules.to_be_bytes());
        stamp.extend(self.size().to_be_bytes());
        for peak in self.range.peaks() {
            stamp.extend_from_slice(peak.as_bytes());
        }
        let mut out = MAGIC.to_vec();
        for table in self.tables() {
            let begin = out.len();
            table.write(&mut out);
            stamp.extend((table.len() as u64).to_be_bytes());
            for page in out[begin..].chunks(table.page_len()) {
                stamp.extend_from_slice(id::object_id(page).as_bytes());
            }
        }
        out.extend_from_slice(&stamp);
        out.extend((stamp.len() as u64).to_be_bytes());
        out.extend_from_slice(id::object_id(&stamp).as_bytes());
        self.is_sound().then_some(out)
    }

    /// Opens a State file without reading its tables; `None` if it is of another version or ledger, or damaged
    /// where everything else is described.
    ///
    /// Pages are read and checked as look-ups meet them. Until [`Self::read_all`] has said yes, an answer may be
    /// used only if [`Self::is_sound`] holds after it.
    pub fn from_file(source: impl Source + 'static, ledger: LedgerId) -> Option<Self> {
        let mut magic = [0; MAGIC.len()];
        source.read_at(0, &mut magic).ok()?;
        let behind = source.size().ok()?.checked_sub(END as u64)?;
        let mut end = [0; END];
        source.read_at(behind, &mut end).ok()?;
        let (len, digest) = end.split_first_chunk()?;
        let begin = behind.checked_sub(u64::from_be_bytes(*len))?;
        if magic != *MAGIC || begin < MAGIC.len() as u64 {
            return None;
        }
        let mut stamp = vec![0; usize::try_from(behind - begin).ok()?];
        source.read_at(begin, &mut stamp).ok()?;
        if id::object_id(&stamp).as_bytes() != digest {
            return None;
        }

        let stamp = &mut stamp.as_slice();
        if take::<32>(stamp)? != *ledger.as_bytes() {
            return None;
        }
        let mut parents = Vec::new();
        for _ in 0..u64::from_be_bytes(take(stamp)?) {
            let ledger = LedgerId::from_bytes(take(stamp)?);
            let size = u64::from_be_bytes(take(stamp)?);
            parents.push(Parent { ledger, size, root: TreeHash::from_bytes(take(stamp)?) });
        }
        let rules = u32::from_be_bytes(take(stamp)?);
        let size = u64::from_be_bytes(take(stamp)?);
        let mut peaks = Vec::new();
        for _ in 0..size.count_ones() {
            peaks.push(TreeHash::from_bytes(take(stamp)?));
        }
        let range = CompactRange::from_parts(size, peaks)?;
        let mut state = Self { parents, ledger: Some(ledger), range, rules, ..Self::default() };
        let mut pages = Pages::new(Box::new(source));
        let mut at = MAGIC.len() as u64;
        for table in state.tables_mut() {
            let rows = usize::try_from(u64::from_be_bytes(take(stamp)?)).ok()?;
            table.place(pages.len(), rows);
            let mut left = rows.checked_mul(table.width())?;
            while left > 0 {
                let len = left.min(table.page_len());
                pages.add(at, len, take(stamp)?);
                at += len as u64;
                left -= len;
            }
        }
        if at != begin || !stamp.is_empty() {
            return None;
        }
        state.pages = Arc::new(pages);
        let pages = Arc::clone(&state.pages);
        for table in state.tables_mut() {
            table.attach(&pages);
        }
        Some(state)
    }

    /// Reads and checks what is left of the file that this state came from. `false` if it is damaged.
    pub fn read_all(&self) -> bool {
        self.pages.read_all()
    }

    /// Whether everything that was looked up so far came from undamaged pages.
    pub fn is_sound(&self) -> bool {
        !self.pages.is_damaged()
    }

    /// Returns the tables in the order of the file.
    fn tables(&self) -> [&dyn Rows; 16] {
        [
            &self.statements,
            &self.claims,
            &self.repeats,
            &self.otherwise,
            &self.digests,
            &self.more_digests,
            &self.keys,
            &self.names,
            &self.versions,
            &self.runs,
            &self.attempts,
            &self.registers,
            &self.votes,
            &self.marks,
            &self.requests,
            &self.erased,
        ]
    }

    fn tables_mut(&mut self) -> [&mut dyn Rows; 16] {
        [
            &mut self.statements,
            &mut self.claims,
            &mut self.repeats,
            &mut self.otherwise,
            &mut self.digests,
            &mut self.more_digests,
            &mut self.keys,
            &mut self.names,
            &mut self.versions,
            &mut self.runs,
            &mut self.attempts,
            &mut self.registers,
            &mut self.votes,
            &mut self.marks,
            &mut self.requests,
            &mut self.erased,
        ]
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}
