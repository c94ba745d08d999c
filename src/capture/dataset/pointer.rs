//! Files that stand in the place of data: pointers of git-lfs, DVC and git-annex.
//!
//! A digest of a pointer would be taken for one of the data, so whoever fingerprints data asks here first.
//! Formats: git-lfs "Specification", at most 1024 bytes; DVC `.dvc` files, YAML with `outs`; git-annex "unlocked
//! files", whose content is `/annex/objects/KEY`.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::capture::walk::{self, Root, Tree};
use crate::id::object_id;

/// A pointer that was met where data was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointer {
    /// A pointer of git-lfs.
    Lfs {
        /// The file.
        path: PathBuf,
        /// SHA-256 of what it stands for, in hex.
        oid: String,
        /// Bytes of what it stands for.
        size: String,
    },
    /// A `.dvc` file whose data is not beside it, or that was named itself.
    Dvc {
        /// The file.
        path: PathBuf,
        /// What it stands for.
        out: PathBuf,
        /// Whether that is there.
        is_there: bool,
    },
    /// An unlocked file of git-annex without its content.
    Annex {
        /// The file.
        path: PathBuf,
    },
}

/// A `.dvc` file has a few lines; one over a directory has no more.
const MAX_DVC: u64 = 64 << 10;

/// Finds pointers among what was seen under a path.
///
/// What may be one and cannot be read, or is no longer what was seen, is an error: nobody may take it for data.
pub fn pointers(tree: &Tree, path: &Path) -> Result<Vec<Pointer>, walk::Error> {
    let is_file = matches!(tree.root, Root::File { .. });
    let judged = tree.files.par_iter().map(|file| {
        let at = tree.place_of(path, &file.path);
        // A link that was named has a name of its own.
        let is_dvc = at.as_os_str().as_bytes().ends_with(b".dvc");
        let may_be = file.may_point || is_dvc && file.size <= MAX_DVC;
        if !may_be {
            return Ok(None);
        }
        let (open, _) = walk::open_regular(&at)?;
        let mut bytes = Vec::new();
        open.take(MAX_DVC).read_to_end(&mut bytes).map_err(|source| walk::Error::Io {
            step: "read",
            path: at.clone(),
            source,
        })?;
        if object_id(&bytes) != file.blake3 {
            return Err(walk::Error::Changed { path: at, what: "its content is not what was fingerprinted" });
        }
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
        if !is_dvc {
            return Ok(judge(text, at));
        }
        let Some(out) = dvc_out(text) else { return Ok(None) };
        let out = at.parent().unwrap_or(Path::new("")).join(out);
        let is_there = out.exists();
        // Beside its data in a directory it is one more file.
        Ok((is_file || !is_there).then_some(Pointer::Dvc { path: at, out, is_there }))
    });
    judged.filter_map(Result::transpose).collect()
}

fn judge(text: &str, path: PathBuf) -> Option<Pointer> {
    if text.starts_with("/annex/objects/") {
        return Some(Pointer::Annex { path });
    }
    let mut lines = text.lines();
    lines.next().filter(|line| line.starts_with("version https://git-lfs.github.com/spec/"))?;
    let (mut oid, mut size) = (None, None);
    for line in lines {
        oid = oid.or_else(|| line.strip_prefix("oid sha256:").map(str::to_owned));
        size = size.or_else(|| line.strip_prefix("size ").map(str::to_owned));
    }
    Some(Pointer::Lfs { path, oid: oid?, size: size? })
}

/// Reads the path that a `.dvc` file stands for.
fn dvc_out(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != "outs:");
    lines.next()?;
    let path = lines.find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("path:"))?;
    let path = path.trim().trim_matches(['\'', '"']);
    (!path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::fs;

    use super::*;
    use crate::capture::walk::{Options, observe};
    use crate::id::Digests;

    const DVC: &str =
        "outs:\n- md5: 0123456789abcdef0123456789abcdef\n  size: 9\n  hash: md5\n  path: train.csv\n";

    fn found(path: &Path) -> Vec<Pointer> {
        pointers(&observe(path, &Options::new(Digests::Blake3), &|_| {}).unwrap(), path).unwrap()
    }

    #[test]
    fn pointers_are_told_from_data() {
        let dir = tempfile::tempdir().unwrap();
        let lay = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let oid = "ab".repeat(32);
        lay("a.bin", &format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n"));
        lay("b.bin", &format!("/annex/objects/MD5E-s123--{}.bin\n", "0".repeat(32)));
        lay("train.csv.dvc", DVC);
        lay(
            "text.md",
            &format!("version https://git-lfs.github.com/spec/v1 is how pointers begin {}", "x".repeat(99)),
        );
        lay("long.txt", &"x".repeat(500));
        let all = found(dir.path());
        let [Pointer::Lfs { oid: told, size, .. }, Pointer::Annex { .. }, Pointer::Dvc { is_there, .. }] =
            &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((told, size.as_str(), *is_there), (&oid, "12345", false));
        lay("train.csv", "1,2\n");
        assert_eq!(found(dir.path()).len(), 2, "beside its data a .dvc file is a file");
        let named = found(&dir.path().join("train.csv.dvc"));
        assert!(matches!(&named[..], [Pointer::Dvc { is_there: true, .. }]), "{named:?}");
        assert_eq!(found(&dir.path().join("train.csv")), []);
    }

    #[test]
    fn a_dvc_file_without_outs_is_a_file() {
        assert_eq!(dvc_out("deps:\n- path: x\n"), None);
        assert_eq!(dvc_out("outs:\n- md5: 00\n"), None);
        assert_eq!(dvc_out(DVC).as_deref(), Some("train.csv"));
    }
}
