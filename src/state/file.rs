//! The State file: a stamp, the tables as they are searched, and one checksum over all of it.
//!
//! It is derived and lies in the user's cache. Whatever is wrong with it, the answer is to fold again; so
//! reading it says only whether it can be used, and never repairs. Writing it to disk is the caller's.

use std::sync::Arc;

use crate::id::{self, LedgerId, TreeHash};
use crate::log::merkle::CompactRange;

use super::State;
use super::table::Table;

/// Changes whenever a row or the order of tables does, so that another version's file is folded anew.
const MAGIC: &[u8; 16] = b"ledger-state/1\n\n";

impl State {
    /// Encodes the state as a file.
    pub fn to_file(&self) -> Option<Vec<u8>> {
        let ledger = self.ledger?;
        let mut out = Vec::with_capacity(1 << 16);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 32]);
        out.extend_from_slice(ledger.as_bytes());
        out.extend(self.rules.to_be_bytes());
        out.extend(self.size().to_be_bytes());
        for peak in self.range.peaks() {
            out.extend_from_slice(peak.as_bytes());
        }
        self.statements.write(&mut out);
        self.claims.write(&mut out);
        self.repeats.write(&mut out);
        self.otherwise.write(&mut out);
        self.digests.write(&mut out);
        self.more_digests.write(&mut out);
        self.keys.write(&mut out);
        self.names.write(&mut out);
        self.versions.write(&mut out);
        self.runs.write(&mut out);
        self.attempts.write(&mut out);
        self.registers.write(&mut out);
        self.votes.write(&mut out);
        self.marks.write(&mut out);
        self.requests.write(&mut out);
        self.erased.write(&mut out);
        let checksum = id::object_id_of_many(&out[48..]);
        out[16..48].copy_from_slice(checksum.as_bytes());
        Some(out)
    }

    /// Reads a State file; `None` if it is damaged, of another version, or of another ledger.
    pub fn from_file(bytes: Vec<u8>, ledger: LedgerId) -> Option<Self> {
        if bytes.get(..16)? != MAGIC
            || bytes.get(16..48)? != id::object_id_of_many(bytes.get(48..)?).as_bytes()
        {
            return None;
        }
        let file = Arc::new(bytes);
        let mut at = 48;
        let mut take = |len: usize| {
            let part = file.get(at..at + len);
            at += len;
            part
        };
        if take(32)? != ledger.as_bytes() {
            return None;
        }
        let rules = u32::from_be_bytes(take(4)?.try_into().ok()?);
        let size = u64::from_be_bytes(take(8)?.try_into().ok()?);
        let mut peaks = Vec::new();
        for _ in 0..size.count_ones() {
            peaks.push(TreeHash::from_bytes(take(32)?.try_into().ok()?));
        }
        let at = &mut at;
        let state = Self {
            ledger: Some(ledger),
            range: CompactRange::from_parts(size, peaks)?,
            rules,
            statements: Table::read(&file, at)?,
            claims: Table::read(&file, at)?,
            repeats: Table::read(&file, at)?,
            otherwise: Table::read(&file, at)?,
            digests: Table::read(&file, at)?,
            more_digests: Table::read(&file, at)?,
            keys: Table::read(&file, at)?,
            names: Table::read(&file, at)?,
            versions: Table::read(&file, at)?,
            runs: Table::read(&file, at)?,
            attempts: Table::read(&file, at)?,
            registers: Table::read(&file, at)?,
            votes: Table::read(&file, at)?,
            marks: Table::read(&file, at)?,
            requests: Table::read(&file, at)?,
            erased: Table::read(&file, at)?,
        };
        (*at == file.len()).then_some(state)
    }
}
