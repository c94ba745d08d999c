//! Records of text: JSON lines, and the rows of CSV.

use std::io::Read as _;
use std::path::Path;

use crate::capture::walk;

const BUFFER: usize = 256 << 10;
/// A first row longer than this is no row of names.
const MAX_ROW: usize = 64 << 10;

/// Reads a file through a function, piece by piece.
fn read(path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let (mut file, _) = walk::open_regular(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Counts the lines that are not blank.
pub(super) fn json(path: &Path) -> Result<u64, String> {
    let (mut count, mut is_filled) = (0, false);
    read(path, &mut |bytes| {
        for byte in bytes {
            if *byte == b'\n' {
                count += u64::from(is_filled);
                is_filled = false;
            } else if !byte.is_ascii_whitespace() {
                is_filled = true;
            }
        }
    })?;
    Ok(count + u64::from(is_filled))
}

/// Counts rows as RFC 4180 has them: a line break within quotes is no end. A first row of names is not counted.
pub(super) fn csv(path: &Path, is_tabbed: bool) -> Result<u64, String> {
    let mut rows = Rows::default();
    read(path, &mut |bytes| rows.take(bytes))?;
    let count = rows.end()?;
    let has_names = names(&rows.first, if is_tabbed { b'\t' } else { b',' });
    Ok(count - u64::from(count > 0 && has_names))
}

#[derive(Default)]
struct Rows {
    count: u64,
    is_quoted: bool,
    is_filled: bool,
    first: Vec<u8>,
}

impl Rows {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            // A doubled quote within quotes closes and opens again.
            self.is_quoted ^= *byte == b'"';
            if *byte == b'\n' && !self.is_quoted {
                self.count += u64::from(self.is_filled);
                self.is_filled = false;
                continue;
            }
            self.is_filled |= !matches!(*byte, b'\r' | b' ' | b'\n');
            if self.count == 0 && self.first.len() < MAX_ROW {
                self.first.push(*byte);
            }
        }
    }

    fn end(&self) -> Result<u64, String> {
        if self.is_quoted {
            return Err("a quote is not closed".to_owned());
        }
        Ok(self.count + u64::from(self.is_filled))
    }
}

/// Tells whether a row names columns: every field is there and none is a number.
fn names(row: &[u8], separator: u8) -> bool {
    let text = String::from_utf8_lossy(row);
    let text = text.trim_start_matches('\u{feff}').trim();
    let mut fields = text.split(char::from(separator)).map(|field| field.trim().trim_matches('"').trim());
    fields.all(|field| !field.is_empty() && field.parse::<f64>().is_err())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    fn counted(count: fn(&Path) -> Result<u64, String>, text: &str) -> Result<u64, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, text).unwrap();
        count(&path)
    }

    #[test]
    fn lines_of_json_are_those_that_are_not_blank() {
        for (text, expected) in [("", 0), ("{}\n{}\n", 2), ("{}\n\n  \r\n{}", 2), ("{}\r\n{}\r\n", 2)] {
            assert_eq!(counted(json, text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn rows_of_csv_may_hold_line_breaks_and_a_row_of_names_is_none() {
        for (text, expected) in [
            ("", 0),
            ("a,b\n1,2\n3,4\n", 2),
            ("1,2\n3,4", 2),
            ("a,b\r\n1,\"x\r\ny\"\r\n", 1),
            ("a,b\n1,\"say \"\"x\"\"\n\"\n\n", 1),
            ("\u{feff}id,text\n1,x\n", 1),
            ("x,1\ny,2\n", 2),
            ("text\nhello\n", 1),
        ] {
            assert_eq!(counted(|path| csv(path, false), text), Ok(expected), "{text:?}");
        }
        assert_eq!(counted(|path| csv(path, true), "a\tb\n1\t2\n"), Ok(1));
        assert!(counted(|path| csv(path, false), "a,\"b\n1,2\n").is_err(), "a quote without an end");
    }
}
