//! The row count of a Parquet file, out of its footer.
//!
//! Format: parquet.apache.org, "File format": the file begins and ends with `PAR1`; before the last four bytes
//! stands the length of the footer, a `FileMetaData` in Thrift's compact protocol, whose field 3 is `num_rows`.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::capture::walk;

/// Footers of files with thousands of columns and row groups stay below this.
const MAX_FOOTER: u64 = 64 << 20;
/// Levels of structures in a footer; real ones have six.
const MAX_DEPTH: usize = 16;

/// Reads how many rows a file has; the error says why that is not known.
pub(super) fn rows(path: &Path) -> Result<u64, String> {
    let (mut file, stat) = walk::open_regular(path).map_err(|error| error.to_string())?;
    let size = stat.len();
    let torn = || "its end is not that of a Parquet file".to_owned();
    let mut read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes)).map_err(|_| torn())?;
        Ok::<_, String>(bytes)
    };
    if size < 12 || read(0, 4)? != b"PAR1" {
        return Err("it does not begin as a Parquet file".to_owned());
    }
    let end = read(size - 8, 8)?;
    if &end[4..] != b"PAR1" {
        return Err(torn());
    }
    let length = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if length > MAX_FOOTER || length > size - 12 {
        return Err(torn());
    }
    let footer = read(size - 8 - length, length as usize)?;
    num_rows(&footer).ok_or_else(|| "its footer says no number of rows".to_owned())
}

fn num_rows(footer: &[u8]) -> Option<u64> {
    let mut reader = Compact { bytes: footer, at: 0 };
    let mut id = 0;
    loop {
        let (next, kind) = reader.field(id)?;
        id = next;
        if kind == 0 {
            return None;
        }
        if id == 3 && matches!(kind, 5 | 6) {
            return u64::try_from(reader.integer()?).ok();
        }
        reader.skip(kind, 0)?;
    }
}

/// Thrift's compact protocol, as far as it has to be skipped.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Reads a field's header: its id and type; type 0 ends the structure.
    fn field(&mut self, before: i64) -> Option<(i64, u8)> {
        let header = self.byte()?;
        let (step, kind) = (header >> 4, header & 0x0f);
        if kind == 0 {
            return Some((before, 0));
        }
        let id = if step == 0 { self.integer()? } else { before.checked_add(i64::from(step))? };
        Some((id, kind))
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.at = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count))?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            // A boolean of a structure is its type.
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            9 | 10 => {
                let header = self.byte()?;
                let (short, of) = (header >> 4, header & 0x0f);
                let count = if short == 15 { self.unsigned()? } else { u64::from(short) };
                for _ in 0..count {
                    // In a list a boolean has a byte of its own.
                    if matches!(of, 1 | 2) {
                        self.pass(1)?;
                    } else {
                        self.skip(of, depth + 1)?;
                    }
                    // Empty structures take a byte each, so a count cannot outrun the bytes for long.
                    if self.at >= self.bytes.len() {
                        return None;
                    }
                }
                Some(())
            }
            11 => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                for _ in 0..count {
                    self.skip(kinds >> 4, depth + 1)?;
                    self.skip(kinds & 0x0f, depth + 1)?;
                    if self.at >= self.bytes.len() {
                        return None;
                    }
                }
                Some(())
            }
            12 => {
                let mut id = 0;
                loop {
                    let (next, kind) = self.field(id)?;
                    if kind == 0 {
                        return Some(());
                    }
                    id = next;
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `version` 2, `schema` of one element with a name, `num_rows` 300, end.
    const FOOTER: &[u8] = &[0x15, 0x04, 0x19, 0x1c, 0x48, 0x01, b'x', 0x00, 0x16, 0xd8, 0x04, 0x00];

    #[test]
    fn the_number_of_rows_stands_behind_the_schema() {
        assert_eq!(num_rows(FOOTER), Some(300));
    }

    #[test]
    fn a_torn_or_hostile_footer_has_no_number() {
        for end in 0..10 {
            assert_eq!(num_rows(&FOOTER[..end]), None, "{end}");
        }
        assert_eq!(num_rows(&[0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), None);
        // Structures within structures without end, and a list of more elements than there are bytes.
        assert_eq!(num_rows(&[0x1c; 4096]), None);
        assert_eq!(num_rows(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00]), None);
        assert_eq!(num_rows(&[0x26, 0x01, 0x16, 0x01]), None, "a negative number of rows");
    }
}
