//! Lock files: which one a project has, what kind it is, and how much it pins.
//!
//! The bytes are returned as they are. What they name is read by `packages`, and held against what is
//! installed elsewhere.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::marker::Target;
use super::packages::{self, Locked};
use super::requirements;

/// Files above this many bytes are no lock files.
const MAX_SIZE: u64 = 64 << 20;

/// Names under which a project keeps its lock, the most precise first.
const NAMES: [&str; 11] = [
    "uv.lock",
    "pylock.toml",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pixi.lock",
    "conda-lock.yml",
    "conda-linux-64.lock",
    "explicit.txt",
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
    /// `environment.yml`, which asks for packages and locks none.
    CondaEnvironment,
    /// A requirements file.
    Requirements,
    /// What `pip freeze` wrote: what was installed, not what is to be.
    PipFreeze,
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
            Self::CondaEnvironment => "conda-environment",
            Self::Requirements => "requirements",
            Self::PipFreeze => "pip-freeze",
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

    /// Returns the weaker of two; what is not known is the weakest.
    pub(super) const fn weaker(self, other: Self) -> Self {
        if self as u8 > other as u8 { self } else { other }
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
    /// The lines that install a directory as it stands (`-e PATH`).
    pub editable: Vec<String>,
    /// What it names; none where its content cannot be read.
    pub packages: Option<Vec<Locked>>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

impl Lock {
    /// Counts the packages by name, without the project itself.
    pub fn count(&self) -> Option<u64> {
        let packages = self.packages.as_ref()?.iter().filter(|package| !package.is_own);
        let names: BTreeSet<_> = packages.map(|package| (package.manager, &package.name)).collect();
        // A file of some tool that names nothing at all says less than "none".
        if names.is_empty() && self.quality == Quality::Unknown { None } else { Some(names.len() as u64) }
    }
}

/// Finds a project's lock file; a broken link counts as found, so that it is not passed over in silence.
pub fn find_lock(root: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| root.join(name)).find(|path| fs::symlink_metadata(path).is_ok())
}

/// Reads a lock file; `target` is the machine for which conditions in it are judged.
pub fn read_lock(path: &Path, target: &Target) -> Result<Lock, Error> {
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
    Ok(understand_lock(path, bytes, target))
}

/// Reads a lock file whose bytes are at hand; `path` gives its name.
pub fn understand_lock(path: &Path, bytes: Vec<u8>, target: &Target) -> Lock {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let text = String::from_utf8_lossy(&bytes);
    let kind = kind_of(path, &text);
    let mut notes = Vec::new();
    let packages = match packages::read(kind, &bytes, target) {
        Ok(packages) => Some(packages),
        Err(_) if kind == Kind::Other => None,
        Err(why) => {
            notes.push(format!("which packages {name} names is not known: {why}"));
            None
        }
    };
    let is_lines = matches!(kind, Kind::Requirements | Kind::PipFreeze);
    let (quality, unhashed) = if is_lines {
        requirements::judge(&text)
    } else {
        let fixed: Vec<&Locked> = packages.iter().flatten().filter(|package| !package.is_own).collect();
        let weakest = fixed.iter().map(|package| package.quality).reduce(Quality::weaker);
        let unhashed = fixed.iter().filter(|package| package.quality != Quality::Hashed);
        let shown = |package: &&Locked| match &package.version {
            Some(version) => format!("{} {version}", package.name),
            None => package.name.clone(),
        };
        (weakest.unwrap_or(Quality::Unknown), unhashed.map(shown).collect())
    };
    match kind {
        Kind::PipFreeze => notes.push(format!(
            "{name} is no lock file: pip freeze tells what was installed, without a digest of it"
        )),
        Kind::CondaEnvironment => notes.push(format!(
            "{name} is no lock file: it asks for packages; `conda list --explicit --md5` tells which they became"
        )),
        _ => {}
    }
    let editable = if is_lines { requirements::editable(&text) } else { Vec::new() };
    Lock { kind, path: path.to_owned(), quality, unhashed, editable, packages, notes, bytes }
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
        "environment.yml" | "environment.yaml" => Kind::CondaEnvironment,
        _ if name.starts_with("pylock.") && ends("toml") => Kind::Pylock,
        _ if !ends("txt") && !ends("lock") => Kind::Other,
        _ if text.lines().any(|line| line.trim() == "@EXPLICIT") => Kind::CondaExplicit,
        _ if !ends("txt") => Kind::Other,
        _ if requirements::is_freeze(text) => Kind::PipFreeze,
        _ => Kind::Requirements,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    fn lock(name: &str, text: &str) -> Lock {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        read_lock(&path, &linux()).unwrap()
    }

    /// The machine that the expectations are written for.
    fn linux() -> Target {
        Target {
            python: Some("3.11.7".to_owned()),
            implementation: Some("cpython".to_owned()),
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
        }
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
        assert!(matches!(read_lock(&path, &linux()), Err(Error::Read { .. })));
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(&path).unwrap();
        assert_eq!(find_lock(dir.path()), Some(path.clone()));
        assert!(matches!(read_lock(&path, &linux()), Err(Error::NotAFile { .. })));
        let pointer = dir.path().join("poetry.lock");
        fs::write(&pointer, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").unwrap();
        assert!(matches!(read_lock(&pointer, &linux()), Err(Error::LfsPointer { .. })));
        let giant = dir.path().join("pdm.lock");
        File::options().create(true).append(true).open(&giant).unwrap().set_len(MAX_SIZE + 1).unwrap();
        assert!(matches!(read_lock(&giant, &linux()), Err(Error::TooLarge { .. })));
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
            ("environment.yml", Kind::CondaEnvironment),
            ("Cargo.lock", Kind::Other),
        ] {
            assert_eq!(lock(name, "a==1\n").kind, kind, "{name}");
        }
        for text in ["version = 1", "<<<<<<< HEAD\n", ""] {
            assert_eq!(lock("uv.lock", text).quality, Quality::Unknown, "{text}");
        }
        let torn = lock("uv.lock", "<<<<<<< HEAD\n");
        assert_eq!(
            (torn.packages.is_none(), torn.count(), torn.notes.len()),
            (true, None, 1),
            "{:?}",
            torn.notes
        );
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
        assert_eq!(torn.unhashed, ["a"]);
    }
}
