//! The directory at the end of a zip archive, for the archives that `torch.save` writes.
//!
//! Only names, places and sizes are read; nothing is unpacked, and no claimed size is allocated. A `.distcp` of
//! torch DCP is several archives in a row, which readers of one archive take for damage: here each is found
//! from the end of the file backwards. Source of the format: APPNOTE.TXT of PKWARE, 4.3.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// One file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name in the archive.
    pub(super) name: Vec<u8>,
    /// How it is packed; 0 is not at all.
    pub(super) method: u16,
    /// Bytes that it takes in the archive.
    pub(super) size: u64,
    /// Where its local header begins, from the start of the file.
    pub(super) header: u64,
}

/// One archive: where it begins, and the entries that were asked for.
#[derive(Debug)]
pub(super) struct Archive {
    /// Where its first byte lies.
    pub(super) start: u64,
    /// The entries that `keep` chose.
    pub(super) entries: Vec<Entry>,
}

const END: usize = 22;
const END_64: usize = 56;
const LOCATOR_64: usize = 20;
/// More entries than this are not kept; a model has a handful of pickles.
const MAX_KEPT: usize = 4096;
/// Nor are entries with longer names than this.
const MAX_NAME: usize = 1024;

/// Reads the archive that ends at `end`, or `None` if none does: it is torn, or no zip.
///
/// Writers of models leave no comment; with `may_comment` one of up to 65,535 bytes is stepped over.
pub(super) fn read_before(
    file: &mut (impl Read + Seek),
    end: u64,
    may_comment: bool,
    keep: &dyn Fn(&[u8]) -> bool,
) -> io::Result<Option<Archive>> {
    let Some((at, record)) = find_end(file, end, may_comment)? else { return Ok(None) };
    let mut count = u64::from(le(&record, 10, 2) as u16);
    let mut size = le(&record, 12, 4);
    let mut offset = le(&record, 16, 4);
    let mut directory_end = at;
    // Torch writes the long form beside the short one, whether or not its numbers are needed.
    if let Some((at_64, large)) = find_end_64(file, at)? {
        (count, size, offset) = (le(&large, 32, 8), le(&large, 40, 8), le(&large, 48, 8));
        directory_end = at_64;
    }
    // Other bytes may stand before the archive, so places count from where it begins.
    let Some(begin) = directory_end.checked_sub(size) else { return Ok(None) };
    let Some(start) = begin.checked_sub(offset) else { return Ok(None) };
    file.seek(SeekFrom::Start(begin))?;
    let mut directory = BufReader::new(file.take(size));
    let mut entries = Vec::new();
    for _ in 0..count {
        let Some(entry) = read_entry(&mut directory, start)? else { return Ok(None) };
        if keep(&entry.name) && entry.name.len() <= MAX_NAME && entries.len() < MAX_KEPT {
            entries.push(entry);
        }
    }
    Ok(Some(Archive { start, entries }))
}

/// Moves to the first byte of an entry and returns how many follow, or `None` if no entry begins there.
pub(super) fn seek_to(file: &mut (impl Read + Seek), entry: &Entry) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(entry.header))?;
    let Some(header) = exactly::<30>(file)? else { return Ok(None) };
    if !header.starts_with(b"PK\x03\x04") {
        return Ok(None);
    }
    let skip = le(&header, 26, 2) + le(&header, 28, 2);
    file.seek(SeekFrom::Current(skip.cast_signed()))?;
    Ok(Some(entry.size))
}

fn find_end(
    file: &mut (impl Read + Seek),
    end: u64,
    may_comment: bool,
) -> io::Result<Option<(u64, [u8; END])>> {
    let most = if may_comment { END as u64 + 65_535 } else { END as u64 };
    let Some(from) = end.checked_sub(most.min(end)) else { return Ok(None) };
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(end - from).read_to_end(&mut tail)?;
    let ends_here = |at: &usize| {
        tail[*at..].starts_with(b"PK\x05\x06") && le(&tail[*at..], 20, 2) as usize == tail.len() - at - END
    };
    let Some(last) = tail.len().checked_sub(END) else { return Ok(None) };
    let Some(at) = (0..=last).rev().find(ends_here) else { return Ok(None) };
    let record = tail[at..at + END].try_into().ok();
    Ok(record.map(|record| (from + at as u64, record)))
}

fn find_end_64(file: &mut (impl Read + Seek), end: u64) -> io::Result<Option<(u64, [u8; END_64])>> {
    let Some(at) = end.checked_sub((LOCATOR_64 + END_64) as u64) else { return Ok(None) };
    file.seek(SeekFrom::Start(at))?;
    let Some(record) = exactly::<END_64>(file)? else { return Ok(None) };
    let Some(locator) = exactly::<LOCATOR_64>(file)? else { return Ok(None) };
    let is_both = record.starts_with(b"PK\x06\x06") && locator.starts_with(b"PK\x06\x07");
    Ok(is_both.then_some((at, record)))
}

fn read_entry(directory: &mut impl io::BufRead, start: u64) -> io::Result<Option<Entry>> {
    let Some(fixed) = exactly::<46>(directory)? else { return Ok(None) };
    if !fixed.starts_with(b"PK\x01\x02") {
        return Ok(None);
    }
    let bytes = |at| le(&fixed, at, 2) as usize;
    let (name_len, extra_len, comment_len) = (bytes(28), bytes(30), bytes(32));
    let mut rest = vec![0; name_len + extra_len];
    if !fill(directory, &mut rest)? {
        return Ok(None);
    }
    let (mut size, mut offset) = (le(&fixed, 20, 4), le(&fixed, 42, 4));
    let is_whole_64 = le(&fixed, 24, 4) == 0xffff_ffff;
    let extra = rest.split_off(name_len);
    rest.shrink_to_fit();
    let mut extra = &extra[..];
    while let Some((head, after)) = extra.split_at_checked(4) {
        let Some((field, next)) = after.split_at_checked(le(head, 2, 2) as usize) else { break };
        extra = next;
        if le(head, 0, 2) != 1 {
            continue;
        }
        // Only the fields that did not fit stand here, in this order: unpacked size, packed size, place.
        let mut values = field.chunks_exact(8).map(|value| le(value, 0, 8)).skip(usize::from(is_whole_64));
        if size == 0xffff_ffff {
            size = values.next().unwrap_or(size);
        }
        if offset == 0xffff_ffff {
            offset = values.next().unwrap_or(offset);
        }
    }
    let mut left = comment_len;
    while left > 0 {
        let ready = directory.fill_buf()?.len().min(left);
        if ready == 0 {
            return Ok(None);
        }
        directory.consume(ready);
        left -= ready;
    }
    let Some(header) = start.checked_add(offset) else { return Ok(None) };
    Ok(Some(Entry { name: rest, method: le(&fixed, 10, 2) as u16, size, header }))
}

fn exactly<const N: usize>(file: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    Ok(fill(file, &mut bytes)?.then_some(bytes))
}

/// Fills `part`; false if the file ends before.
fn fill(file: &mut impl Read, part: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(part) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads `size` bytes at `at` as a number, lowest byte first.
fn le(bytes: &[u8], at: usize, size: usize) -> u64 {
    let part = bytes.get(at..at + size).unwrap_or_default();
    part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use super::*;

    /// Packs files as `torch.save` does: not compressed, sizes in the directory.
    pub(in crate::capture) fn pack(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in files {
            let offset = bytes.len() as u32;
            let sizes = [content.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat();
            let lens = [&(name.len() as u16).to_le_bytes()[..], &[0, 0]].concat();
            bytes.extend([b"PK\x03\x04", &[0; 14][..], &sizes, &lens, name.as_bytes(), content].concat());
            let rest = [&[0; 10][..], &offset.to_le_bytes()].concat();
            let entry = [b"PK\x01\x02", &[0; 16][..], &sizes, &lens, &rest, name.as_bytes()];
            directory.extend(entry.concat());
        }
        let (at, size) = (bytes.len() as u32, directory.len() as u32);
        let count = (files.len() as u16).to_le_bytes();
        bytes.extend(directory);
        let end =
            [b"PK\x05\x06", &[0; 4][..], &count, &count, &size.to_le_bytes(), &at.to_le_bytes(), &[0, 0]];
        bytes.extend(end.concat());
        bytes
    }

    fn names(bytes: &[u8], end: usize, may_comment: bool) -> Option<(u64, Vec<String>)> {
        let mut file = Cursor::new(bytes);
        let archive = read_before(&mut file, end as u64, may_comment, &|_| true).unwrap()?;
        let name = |entry: &Entry| String::from_utf8_lossy(&entry.name).into_owned();
        Some((archive.start, archive.entries.iter().map(name).collect()))
    }

    #[test]
    fn archives_in_a_row_are_found_from_the_end() {
        let first = pack(&[("a/data.pkl", b"one"), ("a/data/0", b"1234")]);
        let second = pack(&[("b/data.pkl", b"two")]);
        let both = [&first[..], &second].concat();
        assert_eq!(names(&both, both.len(), false), Some((first.len() as u64, vec!["b/data.pkl".into()])));
        assert_eq!(names(&both, first.len(), false).unwrap().1, ["a/data.pkl", "a/data/0"]);
        let mut file = Cursor::new(&both);
        let archive = read_before(&mut file, both.len() as u64, false, &|_| true).unwrap().unwrap();
        let size = seek_to(&mut file, &archive.entries[0]).unwrap().unwrap();
        let mut content = Vec::new();
        file.take(size).read_to_end(&mut content).unwrap();
        assert_eq!(content, b"two");
    }

    #[test]
    fn a_torn_archive_is_none() {
        let whole = pack(&[("a/data.pkl", b"one"), ("a/data/0", b"1234")]);
        for end in 0..whole.len() {
            assert_eq!(names(&whole[..end], end, true), None, "cut at {end}");
        }
        let mut commented = whole.clone();
        let at = commented.len() - 2;
        commented[at] = 5;
        commented.extend(b"notes");
        assert!(names(&commented, commented.len(), true).is_some());
        assert_eq!(names(&commented, commented.len(), false), None);
        // A directory that claims to be longer than the file, and one with more entries than it has room for.
        for (at, value) in [(10, 0xff), (12, 0xff), (15, 0x7f), (16, 0xff)] {
            let mut bytes = whole.clone();
            let from = bytes.len() - END + at;
            bytes[from] = value;
            assert_eq!(names(&bytes, bytes.len(), false), None, "{at}");
        }
    }
}
