//! Reading claims one after the other, with the bundle that was read last at hand.
//!
//! Questions read many claims in log order, and 256 statements lie in one file.

use crate::log::statement::Statement;
use crate::log::tile::FULL;
use crate::state::Place;

use super::{Error, Ledger, Stated, claims_of};

/// Reads claims of one view of a ledger.
#[derive(Debug)]
pub struct Reader<'a> {
    ledger: &'a Ledger,
    first: u64,
    held: Vec<Vec<u8>>,
}

impl Ledger {
    /// Begins to read claims; they come fastest in log order.
    pub const fn reader(&self) -> Reader<'_> {
        Reader { ledger: self, first: 0, held: Vec::new() }
    }
}

impl Reader<'_> {
    /// Reads the claim at a place.
    pub fn stated(&mut self, place: Place) -> Result<Stated, Error> {
        let full = u64::from(FULL);
        let at = u64::from(place.index);
        if !(self.first..self.first + self.held.len() as u64).contains(&at) {
            self.held.clear();
            let (segment, index) = self.ledger.segment(at);
            let begin = index - index % full;
            self.first = segment.first + begin;
            let size = segment.size.min(begin + full);
            let held = &mut self.held;
            segment.log.statements::<Error>(size, begin, &mut |_, entries| {
                held.extend(entries.iter().map(|entry| entry.to_vec()));
                Ok(())
            })?;
        }
        let unreadable = || Error::Unreadable { index: place.index };
        let entry = self.held.get((at - self.first) as usize).ok_or_else(unreadable)?;
        let statement = Statement::parse(entry).map_err(|_| unreadable())?;
        let claims = claims_of(place.index, &statement);
        claims.into_iter().find(|claim| claim.place == place).ok_or_else(unreadable)
    }
}
