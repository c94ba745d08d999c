//! Samples of `WebDataset` archives: files of a tar whose names agree up to their first point.
//!
//! Format: POSIX `pax` and `ustar` headers of 512 bytes, long names of GNU tar; the rule of samples is that of the
//! webdataset library. Only headers are read; contents are passed over.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::capture::walk;

/// Headers that are read over all archives of a data set; beyond, samples are not counted.
const MAX_ENTRIES: u64 = 200_000;
/// A long name, or a pax header, stays below this.
const MAX_NAME: u64 = 64 << 10;
const BLOCK: u64 = 512;

/// Counts samples by archive; all `None` where there are too many entries to be looked at.
pub(super) fn count_all(files: &[PathBuf]) -> Vec<Option<u64>> {
    let mut left = MAX_ENTRIES;
    let mut counts = Vec::with_capacity(files.len());
    for file in files {
        counts.push(samples(file, &mut left));
        if left == 0 {
            return vec![None; files.len()];
        }
    }
    counts
}

fn samples(path: &Path, left: &mut u64) -> Option<u64> {
    let (mut file, stat) = walk::open_regular(path).ok()?;
    let (mut at, mut count) = (0, 0);
    let (mut before, mut long): (Option<String>, Option<String>) = (None, None);
    let mut stated_size = None;
    while at + BLOCK <= stat.len() {
        *left = left.checked_sub(1)?;
        if *left == 0 {
            return None;
        }
        let mut header = [0; BLOCK as usize];
        file.seek(SeekFrom::Start(at)).ok()?;
        file.read_exact(&mut header).ok()?;
        if header.iter().all(|byte| *byte == 0) {
            return Some(count);
        }
        if !is_header(&header) {
            return None;
        }
        let size = number(&header[124..136])?;
        let kind = header[156];
        at += BLOCK;
        let body = |file: &mut std::fs::File| {
            let mut bytes = vec![0; usize::try_from(size).ok().filter(|_| size <= MAX_NAME)?];
            file.read_exact(&mut bytes).ok()?;
            Some(bytes)
        };
        let mut size = size;
        match kind {
            b'L' => long = Some(text(&body(&mut file)?)),
            b'x' => {
                for (key, value) in pax(&body(&mut file)?) {
                    match key.as_str() {
                        "path" => long = Some(value),
                        "size" => stated_size = value.parse::<u64>().ok(),
                        _ => {}
                    }
                }
            }
            b'g' | b'K' => {}
            _ => {
                let name = long.take().unwrap_or_else(|| short_name(&header));
                size = stated_size.take().unwrap_or(size);
                if matches!(kind, b'0' | 0)
                    && let Some(key) = sample_key(&name)
                    && before.as_deref() != Some(key)
                {
                    count += 1;
                    before = Some(key.to_owned());
                }
            }
        }
        at = size.div_ceil(BLOCK).checked_mul(BLOCK).and_then(|size| at.checked_add(size))?;
    }
    // An archive that ends within an entry was cut off.
    (at == stat.len()).then_some(count)
}

/// Returns what names a sample: the path up to the first point of its last part.
fn sample_key(name: &str) -> Option<&str> {
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let point = name[last..].find('.')?;
    (point > 0).then(|| &name[..last + point])
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn short_name(header: &[u8]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    if &header[257..262] == b"ustar" && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

/// Holds a header to its own sum, in which the eight bytes of the sum count as spaces.
fn is_header(header: &[u8]) -> bool {
    let sum: u64 = header
        .iter()
        .zip(0..)
        .map(|(byte, at)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum();
    number(&header[148..156]) == Some(sum)
}

/// Reads an octal number, or a binary one whose first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let (head, tail) = field.split_at(field.len().checked_sub(8)?);
        let is_small = head.iter().all(|byte| matches!(byte, 0 | 0x80));
        return is_small.then(|| u64::from_be_bytes(tail.try_into().unwrap_or_default()));
    }
    let digits: Vec<u8> = field.iter().copied().filter(|byte| !matches!(byte, 0 | b' ')).collect();
    if digits.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

/// Reads the records `LENGTH KEY=VALUE` of a pax header.
fn pax(bytes: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(space) = rest.iter().position(|byte| *byte == b' ') {
        let length = std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(record) = length.and_then(|length| rest.get(space + 1..length)) else { break };
        let record = String::from_utf8_lossy(record);
        if let Some((key, value)) = record.trim_end_matches('\n').split_once('=') {
            found.push((key.to_owned(), value.to_owned()));
        }
        rest = &rest[length.unwrap_or(rest.len())..];
    }
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    fn entry(name: &str, kind: u8, body: &[u8]) -> Vec<u8> {
        let mut header = vec![0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", body.len()).as_bytes());
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header.extend(body);
        header.resize(header.len().div_ceil(512) * 512, 0);
        header
    }

    fn counted(entries: &[Vec<u8>]) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar");
        let mut bytes = entries.concat();
        bytes.extend(vec![0; 1024]);
        std::fs::write(&path, bytes).unwrap();
        samples(&path, &mut 100)
    }

    #[test]
    fn files_of_one_name_are_one_sample() {
        let tar = [
            entry("a/", b'5', b""),
            entry("a/000.jpg", b'0', &[1; 600]),
            entry("a/000.cls", b'0', b"3"),
            entry("a/001.seg.png", b'0', b"x"),
            entry("a/001.jpg", b'0', b""),
            entry("README", b'0', b"no sample"),
            entry(".hidden", b'0', b"none either"),
        ];
        assert_eq!(counted(&tar), Some(2));
        assert_eq!(counted(&[]), Some(0));
    }

    #[test]
    fn long_names_are_read() {
        let name = format!("{}/x.jpg\0", "d".repeat(150));
        let pax = b"14 path=b.jpg\n";
        let tar = [
            entry("././@LongLink", b'L', name.as_bytes()),
            entry("cut", b'0', b"x"),
            entry("pax", b'x', pax),
            entry("cut", b'0', b"x"),
        ];
        assert_eq!(counted(&tar), Some(2));
    }

    #[test]
    fn what_is_no_archive_or_has_too_many_entries_is_not_counted() {
        assert_eq!(counted(&[vec![b'x'; 512]]), None);
        let many: Vec<Vec<u8>> = (0..200).map(|n| entry(&format!("{n}.txt"), b'0', b"")).collect();
        assert_eq!(counted(&many), None);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.tar");
        std::fs::write(&path, &entry("a.txt", b'0', &[0; 2000])[..1024]).unwrap();
        assert_eq!(count_all(&[path]), [None]);
    }
}
