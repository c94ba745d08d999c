//! What `torch.save` and its kin write: zip archives around a pickle, several in a row, or a bare pickle.
//!
//! Suffixes say little: `.bin`, `.pt`, `.pth`, `.ckpt` and `.pkl` are all of these. Whether an archive is whole is
//! told by its directory at the end; what its pickles would import is told without running them.

use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};

use super::pickle::{self, Found, Stop};
use super::role::Role;
use super::{Error, Problem, Scene, archive};
use crate::capture::walk::{self, Seen};

/// A file that runs code when it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pickle {
    /// The file.
    pub path: Vec<u8>,
    /// What it is for.
    pub role: Role,
    /// What it imports beyond what tensors and plain containers need, as `os.system`.
    pub imports: Vec<String>,
    /// Whether it is an archive of `torch.jit.save`, which holds code of its own.
    pub is_script: bool,
    /// Why its imports are not all known.
    pub unknown: Option<String>,
}

/// What one file is by its bytes.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Set if it is a pickle or an archive with one.
    pub(super) pickle: Option<Pickle>,
    /// Entries under known keys, from all pickles in it.
    pub(super) found: Found,
    /// What is wrong with it.
    pub(super) problem: Option<Problem>,
}

/// Keys whose values are read: the time of a save, the size of a world, and places in files of DCP.
const WANTED: [&str; 7] =
    ["epoch", "global_step", "global_steps", "dp_world_size", "relative_path", "offset", "length"];
/// Magic number of the files that torch wrote before version 1.6, as the first of five pickles.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
/// A `.distcp` holds one archive for each tensor of a rank.
const MAX_ARCHIVES: usize = 1 << 17;

/// Returns whether a file of this name may be an archive or a pickle.
pub(super) fn may_be(path: &[u8]) -> bool {
    let ends = [".bin", ".pt", ".pth", ".ckpt", ".npz", ".distcp", ".pkl"];
    ends.iter().any(|end| path.ends_with(end.as_bytes()))
        || path == b".metadata"
        || path.ends_with(b"/.metadata")
}

/// Looks at one file.
pub(super) fn look(scene: &Scene<'_>, file: &Seen, role: Role) -> Result<Look, Error> {
    let at = scene.locate(&file.path);
    let (mut open, _) = walk::open_regular(&at)?;
    let failed = |source| Error::Read { path: at.clone(), source };
    let mut start = Vec::new();
    (&open).take(LEGACY.len() as u64).read_to_end(&mut start).map_err(failed)?;
    if start.starts_with(b"PK\x03\x04") {
        return look_in_archives(&mut open, file, role).map_err(failed);
    }
    // An old reader runs the first pickle before it asks what it is, so no magic number is needed to do harm.
    open.seek(SeekFrom::Start(0)).map_err(failed)?;
    let count = if start == LEGACY { 5 } else { 1 };
    let mut reader = BufReader::new(open);
    let mut found = Found::default();
    let mut stop = None;
    for _ in 0..count {
        match pickle::look(&mut reader, &WANTED, &mut found) {
            Ok(()) => {}
            Err(Stop::Read(source)) => return Err(failed(source)),
            Err(other) => {
                stop = Some(other);
                break;
            }
        }
    }
    let is_pickle = start.first() == Some(&0x80) || stop.is_none() || !found.imports.is_empty();
    if !is_pickle {
        return Ok(Look::default());
    }
    let problem = matches!(stop, Some(Stop::Short)).then(|| Problem::Malformed {
        path: file.path.clone(),
        format: "pickle",
        why: "it is cut short".into(),
        is_weights: role.is_read(),
    });
    let unknown = stop.map(|stop| stop.to_string());
    Ok(Look { pickle: Some(described(file, role, &found, false, unknown)), found, problem })
}

fn look_in_archives(open: &mut std::fs::File, file: &Seen, role: Role) -> io::Result<Look> {
    let is_numpy = file.path.ends_with(b".npz");
    let keep = |name: &[u8]| name.ends_with(b".pkl") || name.windows(6).any(|part| part == b"/code/");
    let mut look = Look::default();
    let (mut is_script, mut unknown) = (false, None);
    let (mut end, mut count) = (file.size, 0);
    while end > 0 {
        let Some(archive) = archive::read_before(open, end, count == 0, &keep)? else {
            if count == 0 {
                let is_weights = role.is_read();
                look.problem = Some(Problem::TornArchive { path: file.path.clone(), is_weights });
            }
            break;
        };
        for entry in &archive.entries {
            if !entry.name.ends_with(b".pkl") {
                is_script = true;
                continue;
            }
            // `torch.save` stores pickles as they are, since storages are mapped from the same file.
            let size = if entry.method == 0 { archive::seek_to(open, entry)? } else { None };
            let Some(size) = size else {
                unknown = Some("a pickle in it is packed".to_owned());
                continue;
            };
            match pickle::look(&mut BufReader::new((&*open).take(size)), &WANTED, &mut look.found) {
                Ok(()) => {}
                Err(Stop::Read(source)) => return Err(source),
                Err(stop) => unknown = Some(stop.to_string()),
            }
        }
        // Only DCP writes several archives into one file; whatever lies before another one is not read.
        count += 1;
        if !file.path.ends_with(b".distcp") || count == MAX_ARCHIVES || archive.start >= end {
            break;
        }
        end = archive.start;
    }
    if !is_numpy {
        look.pickle = Some(described(file, role, &look.found, is_script, unknown));
    }
    Ok(look)
}

impl Pickle {
    /// Returns whether a loader of the model would run into what it imports, or whether anybody would regret it.
    pub(super) fn is_worth_a_warning(&self) -> bool {
        self.imports.iter().any(|import| self.role.is_read() || pickle::is_harmful(import))
            || self.unknown.is_some() && self.role.is_read()
    }
}

fn described(file: &Seen, role: Role, found: &Found, is_script: bool, unknown: Option<String>) -> Pickle {
    // The classes of a script are its own, and live in the archive.
    let is_own = |import: &str| is_script && import.starts_with("__torch__.");
    let imports = found.imports.iter().filter(|import| !pickle::is_known(import) && !is_own(import));
    Pickle { path: file.path.clone(), role, imports: imports.cloned().collect(), is_script, unknown }
}
