//! The row count of an Arrow stream or file, out of the heads of its record batches.
//!
//! Format: arrow.apache.org, "Serialization and interprocess communication": messages of a continuation mark,
//! the length of a flatbuffer, the flatbuffer, and a body of the length that it states. A file begins with
//! `ARROW1` and two bytes, and holds the same messages. Bodies are passed over, not read.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::capture::walk;

/// Heads are small; that of a schema with thousands of columns stays below this.
const MAX_HEAD: u64 = 16 << 20;
/// Batches that are looked at in one file.
const MAX_MESSAGES: usize = 1_000_000;

/// Counts the rows of all batches; the error says why they are not known.
pub(super) fn rows(path: &Path) -> Result<u64, String> {
    let (mut file, stat) = walk::open_regular(path).map_err(|error| error.to_string())?;
    count(&mut file, stat.len()).ok_or_else(|| "it is no whole Arrow stream".to_owned())
}

fn count(file: &mut File, size: u64) -> Option<u64> {
    let mut exactly = |at: u64, buffer: &mut [u8]| {
        file.seek(SeekFrom::Start(at)).ok()?;
        file.read_exact(buffer).ok()
    };
    let mut word = [0; 4];
    let mut at = 0;
    exactly(0, &mut word)?;
    if word == *b"ARRO" {
        at = 8;
    }
    let (mut rows, mut has_schema) = (0_u64, false);
    for _ in 0..MAX_MESSAGES {
        if at == size {
            // A stream may end without a mark.
            return has_schema.then_some(rows);
        }
        exactly(at, &mut word)?;
        at += 4;
        if word == [0xff; 4] {
            exactly(at, &mut word)?;
            at += 4;
        }
        let length = u64::from(u32::from_le_bytes(word));
        if length == 0 {
            return has_schema.then_some(rows);
        }
        if length > MAX_HEAD || at.checked_add(length)? > size {
            return None;
        }
        let mut head = vec![0; length as usize];
        exactly(at, &mut head)?;
        let message = Message::read(&head)?;
        has_schema |= message.kind == 1;
        if message.kind == 3 {
            rows = rows.checked_add(message.rows)?;
        }
        at = at.checked_add(length)?.checked_add(message.body)?;
        if at > size {
            return None;
        }
    }
    None
}

/// The head of one message.
struct Message {
    /// 1 is a schema, 2 a dictionary, 3 a batch of records.
    kind: u8,
    rows: u64,
    body: u64,
}

impl Message {
    /// Reads a flatbuffer's table `Message {version, header_type, header, bodyLength}`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let buffer = Flat(bytes);
        let message = buffer.table(buffer.offset(0)?)?;
        let kind = buffer.field(message, 1)?.and_then(|at| bytes.get(at).copied()).unwrap_or(0);
        let body = match buffer.field(message, 3)? {
            Some(at) => buffer.number(at)?,
            None => 0,
        };
        let mut rows = 0;
        if kind == 3
            && let Some(at) = buffer.field(message, 2)?
        {
            let batch = buffer.table(at.checked_add(buffer.offset(at)?)?)?;
            rows = match buffer.field(batch, 0)? {
                Some(at) => buffer.number(at)?,
                None => 0,
            };
        }
        Some(Self { kind, rows, body })
    }
}

/// A flatbuffer whose offsets are all checked.
struct Flat<'a>(&'a [u8]);

impl Flat<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn offset(&self, at: usize) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.bytes(at)?)).ok()
    }

    /// Reads a length, which is stored with a sign and never negative.
    fn number(&self, at: usize) -> Option<u64> {
        u64::try_from(i64::from_le_bytes(self.bytes(at)?)).ok()
    }

    /// Returns a table's place and that of its list of fields.
    fn table(&self, at: usize) -> Option<(usize, usize)> {
        let back = i64::from(i32::from_le_bytes(self.bytes(at)?));
        let fields = i64::try_from(at).ok()?.checked_sub(back)?;
        Some((at, usize::try_from(fields).ok()?))
    }

    /// Returns where a field is; the inner `None` is one that has its default.
    #[expect(clippy::option_option, reason = "no such field and a damaged table are two answers")]
    fn field(&self, (table, fields): (usize, usize), number: usize) -> Option<Option<usize>> {
        let size = usize::from(u16::from_le_bytes(self.bytes(fields)?));
        let entry = 4 + 2 * number;
        if entry + 2 > size {
            return Some(None);
        }
        let offset = usize::from(u16::from_le_bytes(self.bytes(fields.checked_add(entry)?)?));
        Some((offset != 0).then_some(table.checked_add(offset)?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    const REAL: &str = "tests/fixtures/data/save-to-disk/verbs/train/data-00000-of-00002.arrow";

    fn counted(bytes: &[u8]) -> Result<u64, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.arrow");
        std::fs::write(&path, bytes).unwrap();
        rows(&path)
    }

    #[test]
    fn a_stream_of_the_datasets_library_is_counted() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
        assert_eq!(rows(&path), Ok(6));
    }

    #[test]
    fn a_cut_or_flipped_stream_gives_no_panic_and_a_cut_one_no_number() {
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL)).unwrap();
        for end in [0, 3, 8, 100, bytes.len() / 2] {
            assert!(counted(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len().min(600) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0xff;
            let _ = counted(&flipped);
        }
        assert!(counted(b"no arrow").is_err());
    }
}
