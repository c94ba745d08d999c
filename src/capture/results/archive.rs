//! One member of a zip archive, as Inspect writes its logs: stored, deflated or with Zstandard (method 93).
//!
//! Archives come from elsewhere. The number of members is bounded before the directory is read, and the bytes of
//! the one that is wanted while they are inflated, whatever the archive says about their number. Members of a
//! member are never opened.

use std::io::{Cursor, Read as _};

use ruzstd::decoding::StreamingDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::{Error, MAX_TEXT};

/// Members of an archive: one for each sample and a few more.
const MAX_MEMBERS: usize = 200_000;

/// Bytes that a Zstandard frame may look back; its writers use 8 MiB unless they are told otherwise.
const MAX_WINDOW: u64 = 64 << 20;

/// Whether bytes begin as an archive does, be it an empty one.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Returns the bytes of a member; `None` if the archive has none of that name.
pub(super) fn member(bytes: &[u8], wanted: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let fail = |what: String| Error::Archive { name: name.to_owned(), what };
    // Each entry of the directory begins with this signature. Counting it holds whatever the archive says.
    let entries = bytes.windows(4).filter(|four| *four == b"PK\x01\x02").count();
    if entries > MAX_MEMBERS {
        return Err(Error::TooMany { name: name.to_owned(), what: "members", limit: MAX_MEMBERS });
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| fail(error.to_string()))?;
    let Some(index) = archive.index_for_name(wanted) else { return Ok(None) };
    let (method, size, crc, is_encrypted) = {
        let raw = archive.by_index_raw(index).map_err(|error| fail(error.to_string()))?;
        (raw.compression(), raw.size(), raw.crc32(), raw.encrypted())
    };
    if is_encrypted {
        return Err(fail(format!("`{wanted}` is encrypted")));
    }
    let cap = MAX_TEXT as u64 + 1;
    let mut content = Vec::new();
    let read = if method == CompressionMethod::ZSTD {
        let raw = archive.by_index_raw(index).map_err(|error| fail(error.to_string()))?;
        let decoder = StreamingDecoder::new_with_max_window_size(raw, MAX_WINDOW);
        let decoder = decoder.map_err(|error| fail(format!("`{wanted}`: {error}")))?;
        decoder.take(cap).read_to_end(&mut content)
    } else {
        let member = archive.by_index(index).map_err(|error| fail(format!("`{wanted}`: {error}")))?;
        member.take(cap).read_to_end(&mut content)
    };
    if content.len() > MAX_TEXT {
        return Err(Error::TooLarge { name: format!("{name}/{wanted}"), limit: MAX_TEXT });
    }
    read.map_err(|error| fail(format!("`{wanted}`: {error}")))?;
    if content.len() as u64 != size || crc32fast::hash(&content) != crc {
        return Err(fail(format!("`{wanted}` is damaged: its checksum is another one")));
    }
    Ok(Some(content))
}
