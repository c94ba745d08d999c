//! What is really installed for an interpreter: the metadata that installers leave, read without Python.
//!
//! Formats: `*.dist-info/METADATA` and `direct_url.json` (packaging.python.org, "Recording installed projects"
//! and "Direct URL data structure"), `conda-meta/NAME-VERSION-BUILD.json`. Directories are looked at in the order
//! in which Python would, and the first distribution of a name counts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::Value;

use super::argv::relative_argv;
use super::packages::{Manager, normalised};
use super::redact::redact_argv;

/// Name and version stand at the top of a METADATA, and a description of any length below.
const MAX_METADATA: u64 = 64 << 10;
/// More than any `direct_url.json` or `pyvenv.cfg`.
const MAX_SMALL: u64 = 64 << 10;
/// No environment has more distributions; a directory with more is something else.
const MAX_DISTRIBUTIONS: usize = 20_000;

/// Something that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Its name, as it calls itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Who installed it.
    pub manager: Manager,
    /// Where it came from, if not from an index.
    pub origin: Option<Origin>,
}

/// A distribution that did not come from an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `editable`, `directory`, `archive`, or the name of a version control system.
    pub kind: String,
    /// Its address, without logins; a path below the project is relative, another one is `<path>`.
    pub address: String,
    /// The commit, or the archive's digest as `sha256=..`.
    pub exact: Option<String>,
}

/// What an interpreter can import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Distributions by normalised name, Python's before conda's.
    pub distributions: Vec<Distribution>,
    /// Names of metadata directories that say no name or version.
    pub broken: Vec<String>,
    /// Whether conda manages this environment.
    pub has_conda: bool,
}

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The interpreter, as it would be started.
    pub program: &'a Path,
    /// Its version, as `3.11.7`.
    pub version: &'a str,
    /// `PYTHONPATH`.
    pub python_path: Option<&'a OsStr>,
    /// The user's home, where packages of the user lie; none where Python ignores them.
    pub home: Option<&'a Path>,
    /// The project, against which addresses are relative.
    pub root: &'a Path,
}

/// Reads what is installed; `None` where the interpreter has no directory of packages.
pub fn read_installed(place: &Place<'_>) -> Option<Installed> {
    let (dirs, prefix) = directories(place)?;
    let mut metadata: Vec<PathBuf> = Vec::new();
    for dir in &dirs {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut here: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "dist-info" || end == "egg-info"))
            .take(MAX_DISTRIBUTIONS)
            .collect();
        here.sort();
        metadata.append(&mut here);
    }
    let read: Vec<Result<Distribution, String>> =
        metadata.par_iter().map(|path| distribution(path, place.root)).collect();
    let mut found: BTreeMap<(Manager, String), Distribution> = BTreeMap::new();
    let mut installed = Installed::default();
    for one in read {
        match one {
            Ok(one) => {
                found.entry((one.manager, normalised(&one.name))).or_insert(one);
            }
            Err(name) => installed.broken.push(name),
        }
    }
    let conda = prefix.join("conda-meta");
    installed.has_conda = conda.is_dir();
    for one in fs::read_dir(conda).into_iter().flatten().flatten().take(MAX_DISTRIBUTIONS) {
        if let Some(one) = conda_package(&one.file_name().to_string_lossy()) {
            found.entry((one.manager, normalised(&one.name))).or_insert(one);
        }
    }
    installed.distributions = found.into_values().collect();
    Some(installed)
}

/// Returns the directories that hold packages, in Python's order, and the environment's own directory.
fn directories(place: &Place<'_>) -> Option<(Vec<PathBuf>, PathBuf)> {
    let mut numbers = place.version.split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let mut dirs: Vec<PathBuf> = place.python_path.into_iter().flat_map(std::env::split_paths).collect();
    // A directory that is found from where the command stands is code of the project, not of the environment.
    dirs.retain(|dir| dir.is_absolute());
    let outer = place.program.parent()?.parent()?;
    let settings = small(&outer.join("pyvenv.cfg"));
    let own = |prefix: &Path, dirs: &mut Vec<PathBuf>| {
        for lib in ["lib", "lib64"] {
            for python in ["python", "pypy"] {
                dirs.push(prefix.join(format!("{lib}/{python}{major}.{minor}/site-packages")));
            }
        }
        // Debian's places.
        dirs.push(prefix.join(format!("local/lib/python{major}.{minor}/dist-packages")));
        dirs.push(prefix.join(format!("lib/python{major}/dist-packages")));
        dirs.push(prefix.join(format!("lib/python{major}.{minor}/dist-packages")));
    };
    let prefix = if let Some(settings) = &settings {
        own(outer, &mut dirs);
        let value = |wanted: &str| {
            let pairs = settings.lines().filter_map(|line| line.split_once('='));
            pairs
                .map(|(key, value)| (key.trim(), value.trim()))
                .find(|(key, _)| *key == wanted)
                .map(|(_, v)| v)
        };
        let is_open = value("include-system-site-packages").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        if let Some(base) = value("home").map(Path::new).and_then(Path::parent).filter(|_| is_open) {
            own(base, &mut dirs);
        }
        outer.to_owned()
    } else {
        if let Some(home) = place.home {
            dirs.push(home.join(format!(".local/lib/python{major}.{minor}/site-packages")));
        }
        let real = fs::canonicalize(place.program).ok()?;
        let prefix = real.parent()?.parent()?.to_owned();
        own(&prefix, &mut dirs);
        prefix
    };
    let mut seen: Vec<PathBuf> = Vec::new();
    dirs.retain(|dir| {
        // `lib64` is often a link to `lib`.
        let real = fs::canonicalize(dir).ok().filter(|real| real.is_dir() && !seen.contains(real));
        real.map(|real| seen.push(real)).is_some()
    });
    if dirs.is_empty() { None } else { Some((dirs, prefix)) }
}

fn small(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_SMALL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn distribution(dir: &Path, root: &Path) -> Result<Distribution, String> {
    let shown = || dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = ["METADATA", "PKG-INFO"].map(|name| dir.join(name));
    // An old `egg-info` may be the file itself.
    let file =
        names.iter().map(PathBuf::as_path).chain([dir]).find(|path| path.is_file()).ok_or_else(shown)?;
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_METADATA).read_to_end(&mut bytes));
    read.map_err(|_| shown())?;
    let text = String::from_utf8_lossy(&bytes);
    // The header ends at the first empty line; what follows may quote headers of its own.
    let header = || text.lines().take_while(|line| !line.trim().is_empty());
    let value = |wanted: &str| {
        let mut lines = header().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
    };
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty()).ok_or_else(shown);
    let (name, version) = (filled(value("Name"))?, filled(value("Version"))?);
    let origin = small(&dir.join("direct_url.json")).and_then(|text| origin(&text, root));
    Ok(Distribution { name, version, manager: Manager::Python, origin })
}

fn origin(text: &str, root: &Path) -> Option<Origin> {
    let value: Value = serde_json::from_str(text).ok()?;
    let url = value.get("url")?.as_str()?;
    let at = |path: &[&str]| path.iter().try_fold(&value, |value, key| value.get(key));
    let text = |path: &[&str]| at(path).and_then(Value::as_str).map(str::to_owned);
    let (kind, exact) = if let Some(vcs) = text(&["vcs_info", "vcs"]) {
        (vcs, text(&["vcs_info", "commit_id"]))
    } else if at(&["archive_info"]).is_some() {
        let sha = text(&["archive_info", "hashes", "sha256"]).map(|digest| format!("sha256={digest}"));
        ("archive".to_owned(), sha.or_else(|| text(&["archive_info", "hash"])))
    } else if at(&["dir_info", "editable"]).and_then(Value::as_bool) == Some(true) {
        ("editable".to_owned(), None)
    } else {
        ("directory".to_owned(), None)
    };
    // Neither logins nor places of this machine belong into what everybody reads.
    let plain = match url.strip_prefix("file://") {
        // Without a project everything is elsewhere.
        Some(_) if !root.is_absolute() => vec!["<path>".to_owned()],
        Some(path) => relative_argv(&[path.to_owned()], root, root),
        None => redact_argv(&[url.to_owned()]),
    };
    Some(Origin { kind, address: plain.concat(), exact })
}

/// Reads `NAME-VERSION-BUILD.json`.
fn conda_package(file: &str) -> Option<Distribution> {
    let mut parts = file.strip_suffix(".json")?.rsplitn(3, '-');
    let (_build, version, name) = (parts.next()?, parts.next()?, parts.next()?);
    let (name, version) = (name.to_owned(), version.to_owned());
    Some(Distribution { name, version, manager: Manager::Conda, origin: None })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    /// Lays a virtual environment and returns its interpreter's path.
    fn venv(dir: &Path, settings: &str) -> PathBuf {
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::create_dir_all(dir.join("lib/python3.11/site-packages")).unwrap();
        fs::write(dir.join("pyvenv.cfg"), settings).unwrap();
        dir.join("bin/python")
    }

    fn lay(site: &Path, name: &str, metadata: &str, url: Option<&str>) {
        let dir = site.join(format!("{name}.dist-info"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("METADATA"), metadata).unwrap();
        if let Some(url) = url {
            fs::write(dir.join("direct_url.json"), url).unwrap();
        }
    }

    fn place<'a>(program: &'a Path, root: &'a Path) -> Place<'a> {
        Place { program, version: "3.11.7", python_path: None, home: None, root }
    }

    #[test]
    fn what_installers_left_is_read_without_python() {
        let dir = tempfile::tempdir().unwrap();
        let program = venv(&dir.path().join("venv"), "home = /usr/bin\n");
        let site = dir.path().join("venv/lib/python3.11/site-packages");
        lay(&site, "a-1", "Metadata-Version: 2.1\nName: A\nVersion: 1.0\n\nName: other\n", None);
        let root = dir.path().join("project");
        let editable =
            format!(r#"{{"dir_info": {{"editable": true}}, "url": "file://{}/app"}}"#, root.display());
        lay(&site, "b-1", "Name: b\nVersion: 2\n", Some(&editable));
        let elsewhere = r#"{"dir_info": {"editable": true}, "url": "file:///data/somebody/app"}"#;
        lay(&site, "c-1", "Name: c\nVersion: 3\n", Some(elsewhere));
        let git =
            r#"{"vcs_info": {"vcs": "git", "commit_id": "00ff"}, "url": "https://kim:planted@host/x.git"}"#;
        lay(&site, "d-1", "Name: d\nVersion: 4\n", Some(git));
        lay(&site, "e-1", "no header\n", None);
        fs::create_dir_all(site.join("f-1.dist-info")).unwrap();
        let found = read_installed(&place(&program, &root)).unwrap();
        let names: Vec<(&str, &str)> =
            found.distributions.iter().map(|one| (one.name.as_str(), one.version.as_str())).collect();
        assert_eq!(names, [("A", "1.0"), ("b", "2"), ("c", "3"), ("d", "4")]);
        assert_eq!(found.broken, ["e-1.dist-info", "f-1.dist-info"]);
        let origin = |at: usize| found.distributions[at].origin.clone().unwrap();
        assert_eq!((origin(1).kind.as_str(), origin(1).address.as_str()), ("editable", "app"));
        assert_eq!(origin(2).address, "<path>");
        assert_eq!((origin(3).kind.as_str(), origin(3).exact.as_deref()), ("git", Some("00ff")));
        let told = format!("{found:?}");
        assert!(!told.contains("planted") && !told.contains("somebody"), "{told}");
    }

    #[test]
    fn the_first_directory_of_the_search_path_counts() {
        let dir = tempfile::tempdir().unwrap();
        let program = venv(&dir.path().join("venv"), "home = /nowhere/bin\n");
        let (site, first) = (dir.path().join("venv/lib/python3.11/site-packages"), dir.path().join("first"));
        lay(&site, "a-1", "Name: a\nVersion: 1\n", None);
        lay(&first, "a-2", "Name: A\nVersion: 2\n", None);
        let looked = Place { python_path: Some(first.as_os_str()), ..place(&program, dir.path()) };
        let found = read_installed(&looked).unwrap();
        assert_eq!(found.distributions.len(), 1);
        assert_eq!(found.distributions[0].version, "2");
    }

    #[test]
    fn the_system_s_packages_count_where_the_environment_is_open_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("system");
        lay(&system.join("lib/python3/dist-packages"), "s-1", "Name: s\nVersion: 1\n", None);
        for (setting, expected) in [("true", 1), ("false", 0)] {
            let home = system.join("bin");
            let text = format!("home = {}\ninclude-system-site-packages = {setting}\n", home.display());
            let program = venv(&dir.path().join(setting), &text);
            let found = read_installed(&place(&program, dir.path())).unwrap();
            assert_eq!(found.distributions.len(), expected, "{setting}");
        }
    }

    #[test]
    fn packages_of_conda_are_known_by_their_file_names() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("conda");
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::create_dir_all(prefix.join("conda-meta")).unwrap();
        fs::create_dir_all(prefix.join("lib/python3.11/site-packages")).unwrap();
        fs::write(prefix.join("bin/python"), "").unwrap();
        fs::write(prefix.join("conda-meta/libgcc-ng-14.2.0-h767d61c_2.json"), "{}").unwrap();
        fs::write(prefix.join("conda-meta/history"), "").unwrap();
        let found = read_installed(&place(&prefix.join("bin/python"), dir.path())).unwrap();
        assert!(found.has_conda);
        assert_eq!(found.distributions.len(), 1);
        assert_eq!(
            (found.distributions[0].name.as_str(), found.distributions[0].version.as_str()),
            ("libgcc-ng", "14.2.0")
        );
        assert_eq!(read_installed(&place(Path::new("/nowhere/bin/python"), dir.path())), None);
    }
}
