//! Lock files: which one a project has, what kind it is, and how much it pins.
//!
//! The bytes are returned as they are; versions in them are not resolved and not compared with what is
//! installed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Files above this many bytes are no lock files.
const MAX_SIZE: u64 = 64 << 20;

/// Names under which a project keeps its lock, the most precise first.
const NAMES: [&str; 9] = [
    "uv.lock",
    "pylock.toml",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pixi.lock",
    "conda-lock.yml",
    "requirements.lock",
    "requirements.txt",
];

/// Why a lock file cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A directory, a socket or the like.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file's place is held by a pointer to it.
    #[error("{} is a git-lfs pointer, not the file it stands for", path.display())]
    LfsPointer {
        /// The file.
        path: PathBuf,
    },
    /// Larger than any lock file.
    #[error("{} has {size} bytes, more than the {MAX_SIZE} that a lock file may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
}

/// Which tool's file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// `uv.lock`.
    Uv,
    /// `pylock.toml`, `pylock.NAME.toml`.
    Pylock,
    /// `poetry.lock`.
    Poetry,
    /// `Pipfile.lock`.
    Pipfile,
    /// `pdm.lock`.
    Pdm,
    /// `pixi.lock`.
    Pixi,
    /// `conda-lock.yml`.
    CondaLock,
    /// A list of package addresses that begins with `@EXPLICIT`.
    CondaExplicit,
    /// A requirements file, `pip freeze` among them.
    Requirements,
    /// Anything else that somebody declares to be the lock.
    Other,
}

impl Kind {
    /// Returns the word that records hold.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uv => "uv",
            Self::Pylock => "pylock",
            Self::Poetry => "poetry",
            Self::Pipfile => "pipfile",
            Self::Pdm => "pdm",
            Self::Pixi => "pixi",
            Self::CondaLock => "conda-lock",
            Self::CondaExplicit => "conda-explicit",
            Self::Requirements => "requirements",
            Self::Other => "other",
        }
    }
}

/// How much a lock file fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quality {
    /// Every package by the digest of its file.
    Hashed,
    /// Every package by its version.
    Pinned,
    /// Something is left to the day of the installation.
    Loose,
    /// The file says nothing that we can read.
    Unknown,
}

impl Quality {
    /// Returns the word that records hold.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hashed => "hashed",
            Self::Pinned => "pinned",
            Self::Loose => "loose",
            Self::Unknown => "unknown",
        }
    }
}

/// A lock file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Which tool's file it is.
    pub kind: Kind,
    /// Where it lies.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How much it fixes.
    pub quality: Quality,
    /// The requirements that no digest covers, the project itself (`-e .`) among them.
    pub unhashed: Vec<String>,
}

/// Finds a project's lock file; a broken link counts as found, so that it is not passed over in silence.
pub fn find_lock(root: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| root.join(name)).find(|path| fs::symlink_metadata(path).is_ok())
}

/// Reads a lock file.
pub fn read_lock(path: &Path) -> Result<Lock, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.to_owned() });
    }
    if metadata.len() > MAX_SIZE {
        return Err(Error::TooLarge { path: path.to_owned(), size: metadata.len() });
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_SIZE + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(Error::TooLarge { path: path.to_owned(), size: bytes.len() as u64 });
    }
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(Error::LfsPointer { path: path.to_owned() });
    }
    let text = String::from_utf8_lossy(&bytes);
    let kind = kind_of(path, &text);
    let (quality, unhashed) = match kind {
        Kind::Requirements => requirements(&text),
        Kind::CondaExplicit => explicit(&text),
        Kind::Other => (Quality::Unknown, Vec::new()),
        // These tools write a digest beside each package that has a file; a lock without any pins versions.
        _ if ["sha256", "sha512", "md5"].iter().any(|name| text.contains(name)) => {
            (Quality::Hashed, Vec::new())
        }
        _ => (Quality::Pinned, Vec::new()),
    };
    Ok(Lock { kind, path: path.to_owned(), quality, unhashed, bytes })
}

fn kind_of(path: &Path, text: &str) -> Kind {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = |extension: &str| path.extension().is_some_and(|found| found == extension);
    match name {
        "uv.lock" => Kind::Uv,
        "poetry.lock" => Kind::Poetry,
        "Pipfile.lock" => Kind::Pipfile,
        "pdm.lock" => Kind::Pdm,
        "pixi.lock" => Kind::Pixi,
        "requirements.lock" => Kind::Requirements,
        "conda-lock.yml" | "conda-lock.yaml" => Kind::CondaLock,
        _ if name.starts_with("pylock.") && ends("toml") => Kind::Pylock,
        _ if !ends("txt") => Kind::Other,
        _ if text.lines().any(|line| line.trim() == "@EXPLICIT") => Kind::CondaExplicit,
        _ => Kind::Requirements,
    }
}

/// Judges a requirements file by its weakest line.
fn requirements(text: &str) -> (Quality, Vec<String>) {
    let mut quality = Quality::Hashed;
    let mut unhashed = Vec::new();
    let mut any = false;
    for line in logical_lines(text) {
        let Some(found) = requirement(&line) else { continue };
        any = true;
        if found != Quality::Hashed {
            unhashed.push(line.clone());
        }
        // The project itself cannot have a digest here; the code's state covers it.
        if is_own_project(&line) {
            continue;
        }
        quality = match (quality, found) {
            (_, Quality::Loose) | (Quality::Loose, _) => Quality::Loose,
            (_, Quality::Pinned) => Quality::Pinned,
            (quality, _) => quality,
        };
    }
    if any { (quality, unhashed) } else { (Quality::Unknown, unhashed) }
}

/// Joins lines that end in a backslash and drops comments and blank lines.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut joined = String::new();
    for line in text.lines() {
        let line = line.trim_end();
        let comment = line.trim_start().starts_with('#');
        let (line, goes_on) = match line.strip_suffix('\\') {
            Some(line) if !comment => (line, true),
            _ => (line, false),
        };
        // A `#` begins a comment only after a space: a URL may have a fragment.
        let line = if comment { "" } else { line.split(" #").next().unwrap_or_default() };
        if !joined.is_empty() && !line.trim().is_empty() {
            joined.push(' ');
        }
        joined.push_str(line.trim());
        if !goes_on && !joined.is_empty() {
            lines.push(std::mem::take(&mut joined));
        }
    }
    if !joined.is_empty() {
        lines.push(joined);
    }
    lines
}

/// Judges one line; none if it requires nothing.
fn requirement(line: &str) -> Option<Quality> {
    let is_option = |names: &[&str]| {
        names.iter().any(|name| {
            line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=', '\t']))
        })
    };
    if is_option(&["-e", "--editable", "-r", "--requirement"]) {
        return Some(Quality::Loose);
    }
    if line.starts_with('-') {
        return None;
    }
    if line.contains(" --hash=") {
        return Some(Quality::Hashed);
    }
    // What follows `;` says when the line counts.
    let line = line.split(" ;").next().unwrap_or_default();
    if let Some((_, address)) = line.split_once("://") {
        let fragment = address.split_once('#').map_or("", |(_, fragment)| fragment);
        if fragment.split('&').any(|part| part.starts_with("sha256=") || part.starts_with("sha512=")) {
            return Some(Quality::Hashed);
        }
        let commit = address.split('#').next().and_then(|address| address.rsplit_once('@'));
        let pinned =
            commit.is_some_and(|(_, at)| at.len() >= 40 && at.bytes().all(|b| b.is_ascii_hexdigit()));
        return Some(if pinned { Quality::Pinned } else { Quality::Loose });
    }
    let line = line.split(';').next().unwrap_or_default();
    let pinned = line.split_once("==").is_some_and(|(_, version)| {
        !version.contains('*') && !version.contains(',') && !version.trim().is_empty()
    });
    Some(if pinned { Quality::Pinned } else { Quality::Loose })
}

fn is_own_project(line: &str) -> bool {
    let target = line.strip_prefix("-e ").or_else(|| line.strip_prefix("--editable ")).unwrap_or(line);
    matches!(target.trim(), "." | "./")
}

/// Judges a list of package addresses: each has its digest behind `#`.
fn explicit(text: &str) -> (Quality, Vec<String>) {
    let addresses = text.lines().map(str::trim).filter(|line| line.contains("://") && !line.starts_with('#'));
    let unhashed: Vec<String> = addresses.filter(|line| !line.contains('#')).map(str::to_owned).collect();
    let quality = if unhashed.is_empty() { Quality::Hashed } else { Quality::Pinned };
    (quality, unhashed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    fn lock(name: &str, text: &str) -> Lock {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        read_lock(&path).unwrap()
    }

    fn quality(requirements: &str) -> Quality {
        lock("requirements.txt", requirements).quality
    }

    #[test]
    fn the_most_precise_file_is_found_first() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_lock(dir.path()), None);
        for name in ["requirements.txt", "poetry.lock", "uv.lock"] {
            fs::write(dir.path().join(name), "").unwrap();
            assert_eq!(find_lock(dir.path()), Some(dir.path().join(name)));
        }
    }

    #[test]
    fn what_is_no_file_is_an_error_and_not_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uv.lock");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert_eq!(find_lock(dir.path()), Some(path.clone()));
        assert!(matches!(read_lock(&path), Err(Error::Read { .. })));
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(&path).unwrap();
        assert_eq!(find_lock(dir.path()), Some(path.clone()));
        assert!(matches!(read_lock(&path), Err(Error::NotAFile { .. })));
        let pointer = dir.path().join("poetry.lock");
        fs::write(&pointer, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").unwrap();
        assert!(matches!(read_lock(&pointer), Err(Error::LfsPointer { .. })));
        let giant = dir.path().join("pdm.lock");
        File::options().create(true).append(true).open(&giant).unwrap().set_len(MAX_SIZE + 1).unwrap();
        assert!(matches!(read_lock(&giant), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn the_name_tells_the_kind() {
        for (name, kind) in [
            ("uv.lock", Kind::Uv),
            ("pylock.toml", Kind::Pylock),
            ("pylock.gpu.toml", Kind::Pylock),
            ("Pipfile.lock", Kind::Pipfile),
            ("conda-lock.yml", Kind::CondaLock),
            ("requirements-dev.txt", Kind::Requirements),
            ("freeze.txt", Kind::Requirements),
            ("environment.yml", Kind::Other),
            ("Cargo.lock", Kind::Other),
        ] {
            assert_eq!(lock(name, "a==1\n").kind, kind, "{name}");
        }
        assert_eq!(lock("uv.lock", "hash = \"sha256:00\"").quality, Quality::Hashed);
        assert_eq!(lock("uv.lock", "version = 1").quality, Quality::Pinned);
        assert_eq!(lock("environment.yml", "name: x").quality, Quality::Unknown);
    }

    #[test]
    fn a_requirements_file_is_as_good_as_its_weakest_line() {
        let hashed = "# head\na==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via b\nb==2 --hash=sha256:22\n";
        assert_eq!(quality(hashed), Quality::Hashed);
        assert_eq!(
            quality("--index-url https://host/simple\na==1 ; python_version < '3'\nb[x]==2.0 # why\n"),
            Quality::Pinned
        );
        for weak in [
            "c",
            "c>=1",
            "c==1.*",
            "c==1,<2",
            "-r other.txt",
            "-e /data/app",
            "c @ git+https://host/c@main",
            "c @ file:///c.whl",
        ] {
            assert_eq!(quality(&format!("{hashed}{weak}\n")), Quality::Loose, "{weak}");
        }
        assert_eq!(quality(&format!("{hashed}c==3\n")), Quality::Pinned);
        let commit = "0".repeat(40);
        assert_eq!(quality(&format!("c @ git+https://host/c@{commit}\n")), Quality::Pinned);
        assert_eq!(quality("c @ file:///c.whl#sha256=00\n"), Quality::Hashed);
        assert_eq!(quality("# nothing\n--pre\n"), Quality::Unknown);
    }

    #[test]
    fn the_project_itself_needs_no_digest_but_is_named() {
        let lock = lock("requirements.txt", "-e .\na==1 \\\n  --hash=sha256:00\n");
        assert_eq!(lock.quality, Quality::Hashed);
        assert_eq!(lock.unhashed, ["-e ."]);
    }

    #[test]
    fn an_explicit_list_carries_digests_in_its_addresses() {
        let list = "# platform: linux-64\n@EXPLICIT\nhttps://host/a.conda#00\nhttps://host/b.conda#11\n";
        let whole = lock("explicit.txt", list);
        assert_eq!((whole.kind, whole.quality), (Kind::CondaExplicit, Quality::Hashed));
        let torn = lock("explicit.txt", "@EXPLICIT\nhttps://host/a.conda\n");
        assert_eq!(torn.quality, Quality::Pinned);
        assert_eq!(torn.unhashed, ["https://host/a.conda"]);
    }
}
