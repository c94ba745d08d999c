//! The packages that a lock file names: which versions, how firmly, and whether this machine needs them.
//!
//! The files are read through the config readers, as data; no package is looked up and nothing is resolved. A
//! package that only some machines, extras or groups need is not called required here, so that nobody is told
//! that something is missing which was never asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::capture::config::{self, Value};

use super::lock::{Kind, Quality};
use super::marker::{Target, holds};
use super::requirements;

/// Who installs a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Python's own installers.
    Python,
    /// Conda and those that read its packages.
    Conda,
}

/// A package of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// Its name, normalised.
    pub name: String,
    /// Its version, where the file states one.
    pub version: Option<String>,
    /// Who installs it.
    pub manager: Manager,
    /// How firmly the file fixes it.
    pub quality: Quality,
    /// Whether this machine needs it; unknown for extras, groups and foreign conditions.
    pub required: Option<bool>,
    /// The project itself, or a part of it: the code's state covers it.
    pub is_own: bool,
}

/// Writes a name as indexes compare it: lower case, with one `-` for each run of `-`, `_` and `.`.
pub fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.trim().chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// Reads the packages of a lock file; the error is why they are not known.
pub(super) fn read(kind: Kind, bytes: &[u8], target: &Target) -> Result<Vec<Locked>, String> {
    let value = |format| match config::read(bytes, format, "") {
        Ok(read) => Ok(read.value),
        Err(error) => {
            let line = error.position.map_or(String::new(), |position| format!("line {}: ", position.line));
            Err(format!("{line}{}", error.problem))
        }
    };
    Ok(match kind {
        Kind::Uv => uv(&value(config::Format::Toml)?, target),
        Kind::Poetry | Kind::Pdm => poetry(&value(config::Format::Toml)?, target),
        Kind::Pylock => pylock(&value(config::Format::Toml)?, target),
        Kind::Pipfile => pipfile(&value(config::Format::Json)?, target),
        Kind::Pixi => pixi(&value(config::Format::Yaml)?, target),
        Kind::CondaLock => conda_lock(&value(config::Format::Yaml)?, target),
        Kind::CondaEnvironment => conda_environment(&value(config::Format::Yaml)?),
        Kind::CondaExplicit => String::from_utf8_lossy(bytes).lines().filter_map(conda_address).collect(),
        Kind::Requirements | Kind::PipFreeze => {
            requirements::packages(&String::from_utf8_lossy(bytes), target)
        }
        Kind::Other => return Err("its format is not known".to_owned()),
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Map(fields) => fields.get(name),
        _ => None,
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    match field(value, name) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    match field(value, name) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

fn is_true(value: &Value, name: &str) -> bool {
    matches!(field(value, name), Some(Value::Bool(true)))
}

fn words<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    let word = |item: &'a Value| match item {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    list(value, name).iter().filter_map(word).collect()
}

/// A place that the code's state covers: the project or a directory in it.
fn is_inside(path: &str) -> bool {
    !path.starts_with(['/', '~']) && Path::new(path).components().all(|part| part.as_os_str() != "..")
}

fn has_commit(address: &str) -> bool {
    let end = address.rsplit(['#', '@']).next().unwrap_or_default();
    end.len() >= 40 && end.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Judges what a table says of files: each has a digest, or the version alone is fixed.
fn by_files(files: &[&Value], version: Option<&str>) -> Quality {
    let is_hashed = |file: &&Value| {
        text(file, "hash").is_some()
            || matches!(field(file, "hashes"), Some(Value::Map(hashes)) if !hashes.is_empty())
            || ["sha256", "md5"].iter().any(|name| text(file, name).is_some())
    };
    match version {
        _ if !files.is_empty() && files.iter().all(is_hashed) => Quality::Hashed,
        Some(_) => Quality::Pinned,
        None => Quality::Loose,
    }
}

/// A package that is needed, the extras asked of it, and whether the condition for it holds.
type Need = (String, Vec<String>, Option<bool>);

/// Packages by number, and who needs whom under which condition.
#[derive(Default)]
struct Graph {
    /// For each package those that it needs: their names, the extras asked of them, and the condition.
    needs: BTreeMap<(String, Option<String>), Vec<Need>>,
}

impl Graph {
    /// Returns what is needed from some packages on: always, or perhaps. What is in neither is not needed.
    fn reached(&self, roots: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
        let walk = |follow: &dyn Fn(Option<bool>) -> bool| {
            let mut seen: BTreeSet<(String, Option<String>)> = BTreeSet::new();
            let mut next: Vec<(String, Option<String>)> =
                roots.iter().map(|root| (root.clone(), None)).collect();
            while let Some(node) = next.pop() {
                if !seen.insert(node.clone()) {
                    continue;
                }
                for (to, extras, condition) in self.needs.get(&node).into_iter().flatten() {
                    if follow(*condition) {
                        next.push((to.clone(), None));
                        next.extend(extras.iter().map(|extra| (to.clone(), Some(extra.clone()))));
                    }
                }
            }
            seen.into_iter().map(|(name, _)| name).collect::<BTreeSet<String>>()
        };
        (walk(&|condition| condition == Some(true)), walk(&|condition| condition != Some(false)))
    }
}

fn condition(marker: Option<&str>, target: &Target) -> Option<bool> {
    marker.map_or(Some(true), |marker| holds(marker, target))
}

fn uv(value: &Value, target: &Target) -> Vec<Locked> {
    let packages = list(value, "package");
    let mut graph = Graph::default();
    let mut roots = Vec::new();
    for package in packages {
        let Some(name) = text(package, "name").map(normalised) else { continue };
        let own = field(package, "source")
            .is_some_and(|source| ["editable", "virtual"].iter().any(|kind| text(source, kind).is_some()));
        if own {
            roots.push(name.clone());
        }
        let mut add = |extra: Option<String>, needs: &[Value], is_chosen: bool| {
            let edges = graph.needs.entry((name.clone(), extra)).or_default();
            for need in needs {
                let Some(to) = text(need, "name").map(normalised) else { continue };
                let extras = words(need, "extra").into_iter().map(str::to_owned).collect();
                let holds = condition(text(need, "marker"), target);
                edges.push((to, extras, if is_chosen { holds } else { holds.filter(|holds| !holds) }));
            }
        };
        add(None, list(package, "dependencies"), true);
        if let Some(Value::Map(extras)) = field(package, "optional-dependencies") {
            for (extra, needs) in extras {
                if let Value::List(needs) = needs {
                    add(Some(extra.clone()), needs, true);
                    // Whether an extra of the project itself was asked for is not in this file.
                    if own {
                        add(None, needs, false);
                    }
                }
            }
        }
        if let Some(Value::Map(groups)) = field(package, "dev-dependencies") {
            for needs in groups.values() {
                if let Value::List(needs) = needs {
                    add(None, needs, false);
                }
            }
        }
    }
    let (always, perhaps) = graph.reached(&roots);
    let mut found = Vec::new();
    for package in packages {
        let Some(name) = text(package, "name").map(normalised) else { continue };
        let version = text(package, "version").map(str::to_owned);
        let source = field(package, "source").unwrap_or(&Value::Null);
        let place = ["editable", "virtual", "directory"].iter().find_map(|kind| text(source, kind));
        let quality = match (place, text(source, "git")) {
            (Some(place), _) => {
                if is_inside(place) {
                    Quality::Pinned
                } else {
                    Quality::Loose
                }
            }
            (None, Some(git)) => {
                if has_commit(git) {
                    Quality::Pinned
                } else {
                    Quality::Loose
                }
            }
            (None, None) => {
                let files: Vec<&Value> =
                    list(package, "wheels").iter().chain(field(package, "sdist")).collect();
                by_files(&files, version.as_deref())
            }
        };
        // A fork of the resolution: of several versions of one name one is installed.
        let markers = words(package, "resolution-markers");
        let fork = match markers.iter().map(|marker| holds(marker, target)).collect::<Vec<_>>() {
            holds if holds.is_empty() || holds.contains(&Some(true)) => Some(true),
            holds if holds.iter().all(|holds| *holds == Some(false)) => Some(false),
            _ => None,
        };
        let required = match (roots.is_empty(), always.contains(&name), perhaps.contains(&name)) {
            (true, ..) => None,
            (_, true, _) => fork,
            (_, _, true) => {
                if fork == Some(false) {
                    fork
                } else {
                    None
                }
            }
            _ => Some(false),
        };
        let is_own = place.is_some_and(is_inside);
        found.push(Locked { name, version, manager: Manager::Python, quality, required, is_own });
    }
    found
}

/// Poetry's form, which PDM shares for what is asked here.
fn poetry(value: &Value, target: &Target) -> Vec<Locked> {
    let package = |package: &Value| {
        let name = normalised(text(package, "name")?);
        let version = text(package, "version").map(str::to_owned);
        let source = field(package, "source").unwrap_or(&Value::Null);
        let place = match text(source, "type") {
            Some("directory") => text(source, "url"),
            _ => text(package, "path"),
        };
        let commit = text(source, "resolved_reference").or_else(|| text(package, "revision"));
        let is_git = text(source, "type") == Some("git") || text(package, "git").is_some();
        let quality = match place {
            Some(place) if is_inside(place) => Quality::Pinned,
            Some(_) => Quality::Loose,
            None if is_git => {
                if commit.is_some_and(has_commit) {
                    Quality::Pinned
                } else {
                    Quality::Loose
                }
            }
            None => by_files(&list(package, "files").iter().collect::<Vec<_>>(), version.as_deref()),
        };
        let groups = words(package, "groups");
        let in_main = groups.is_empty() || groups.iter().any(|group| matches!(*group, "main" | "default"));
        let in_main = in_main && text(package, "category").is_none_or(|category| category == "main");
        // From version 2.1 on the condition stands at the package; before, the file does not say it there.
        let says_groups = !groups.is_empty();
        let marker = text(package, "markers").or_else(|| text(package, "marker"));
        let holds = condition(marker, target);
        let required = match holds {
            Some(false) => Some(false),
            holds if in_main && says_groups && !is_true(package, "optional") => holds,
            _ => None,
        };
        let is_own = place.is_some_and(is_inside);
        Some(Locked { name, version, manager: Manager::Python, quality, required, is_own })
    };
    list(value, "package").iter().filter_map(package).collect()
}

fn pylock(value: &Value, target: &Target) -> Vec<Locked> {
    let package = |package: &Value| {
        let name = normalised(text(package, "name")?);
        let version = text(package, "version").map(str::to_owned);
        let place = field(package, "directory").and_then(|directory| text(directory, "path"));
        let commit = field(package, "vcs").and_then(|vcs| text(vcs, "commit-id"));
        let quality = match (place, field(package, "vcs")) {
            (Some(place), _) => {
                if is_inside(place) {
                    Quality::Pinned
                } else {
                    Quality::Loose
                }
            }
            (None, Some(_)) => {
                if commit.is_some_and(has_commit) {
                    Quality::Pinned
                } else {
                    Quality::Loose
                }
            }
            (None, None) => {
                let single = ["sdist", "archive"].iter().filter_map(|name| field(package, name));
                by_files(
                    &list(package, "wheels").iter().chain(single).collect::<Vec<_>>(),
                    version.as_deref(),
                )
            }
        };
        let required = condition(text(package, "marker"), target);
        let is_own = place.is_some_and(is_inside);
        Some(Locked { name, version, manager: Manager::Python, quality, required, is_own })
    };
    list(value, "packages").iter().filter_map(package).collect()
}

#[expect(clippy::match_same_arms, reason = "each arm is a way to name a package, and their order counts")]
fn pipfile(value: &Value, target: &Target) -> Vec<Locked> {
    let mut found = Vec::new();
    for (section, is_default) in [("default", true), ("develop", false)] {
        let Some(Value::Map(packages)) = field(value, section) else { continue };
        for (name, package) in packages {
            let version = text(package, "version").map(|version| version.trim_start_matches('=').to_owned());
            let place = text(package, "path").or_else(|| text(package, "file"));
            let quality = match place {
                Some(place) if is_inside(place) => Quality::Pinned,
                Some(_) => Quality::Loose,
                None if text(package, "git").is_some() => {
                    let is_fixed = text(package, "ref").is_some_and(has_commit);
                    if is_fixed { Quality::Pinned } else { Quality::Loose }
                }
                None if !list(package, "hashes").is_empty() => Quality::Hashed,
                None if version.as_deref().is_some_and(|version| version != "*") => Quality::Pinned,
                None => Quality::Loose,
            };
            let holds = condition(text(package, "markers"), target);
            let required = if is_default { holds } else { holds.filter(|holds| !holds) };
            let is_own = place.is_some_and(is_inside);
            let name = normalised(name);
            found.push(Locked { name, version, manager: Manager::Python, quality, required, is_own });
        }
    }
    found
}

/// The platform's name in the world of conda.
fn subdir(target: &Target) -> String {
    match (target.os.as_str(), target.arch.as_str()) {
        ("linux", "x86_64") => "linux-64".to_owned(),
        ("macos", "x86_64") => "osx-64".to_owned(),
        ("macos", _) => "osx-arm64".to_owned(),
        (os, arch) => format!("{os}-{arch}"),
    }
}

/// Reads `.../NAME-VERSION-BUILD.conda#DIGEST`.
fn conda_address(line: &str) -> Option<Locked> {
    let line = line.trim();
    if line.starts_with(['#', '@']) || !line.contains('/') {
        return None;
    }
    let (address, digest) = line.split_once('#').unwrap_or((line, ""));
    let file = address.rsplit('/').next()?;
    let stem = file.strip_suffix(".conda").or_else(|| file.strip_suffix(".tar.bz2"))?;
    let parts: Vec<&str> = stem.rsplitn(3, '-').collect();
    let (name, version) = match parts[..] {
        [_build, version, name] => (name, Some(version.to_owned())),
        _ => (stem, None),
    };
    Some(Locked {
        name: normalised(name),
        version,
        manager: Manager::Conda,
        quality: if digest.is_empty() { Quality::Pinned } else { Quality::Hashed },
        required: Some(true),
        is_own: false,
    })
}

fn conda_lock(value: &Value, target: &Target) -> Vec<Locked> {
    let platform = subdir(target);
    let package = |package: &Value| {
        if text(package, "platform").is_some_and(|of| of != platform && of != "noarch") {
            return None;
        }
        let version = text(package, "version").map(str::to_owned);
        let hash = field(package, "hash").unwrap_or(&Value::Null);
        let in_main = text(package, "category").is_none_or(|category| category == "main");
        Some(Locked {
            name: normalised(text(package, "name")?),
            quality: by_files(&[hash], version.as_deref()),
            manager: if text(package, "manager") == Some("pip") { Manager::Python } else { Manager::Conda },
            required: (in_main && !is_true(package, "optional")).then_some(true),
            is_own: false,
            version,
        })
    };
    list(value, "package").iter().filter_map(package).collect()
}

fn pixi(value: &Value, target: &Target) -> Vec<Locked> {
    let platform = subdir(target);
    let chosen = field(value, "environments")
        .and_then(|all| field(all, "default"))
        .and_then(|default| field(default, "packages"));
    let chosen = chosen.map(|packages| list(packages, &platform)).unwrap_or_default();
    let address = |entry: &Value| {
        let of = |name: &str| text(entry, name).map(str::to_owned);
        of("conda").or_else(|| of("pypi")).or_else(|| of("url"))
    };
    let known: BTreeMap<String, &Value> =
        list(value, "packages").iter().filter_map(|entry| Some((address(entry)?, entry))).collect();
    let package = |entry: &Value| {
        let at = address(entry)?;
        let details = known.get(&at).copied().unwrap_or(entry);
        let is_conda = text(entry, "conda").is_some();
        if is_conda && text(details, "name").is_none() {
            let mut locked = conda_address(&at)?;
            locked.quality = by_files(&[details], locked.version.as_deref());
            return Some(locked);
        }
        let version = text(details, "version").map(str::to_owned);
        let is_place = !at.contains("://");
        Some(Locked {
            name: normalised(text(details, "name")?),
            quality: match (is_place, is_inside(&at)) {
                (true, true) => Quality::Pinned,
                (true, false) => Quality::Loose,
                _ => by_files(&[details], version.as_deref()),
            },
            manager: if is_conda { Manager::Conda } else { Manager::Python },
            required: Some(true),
            is_own: is_place && is_inside(&at),
            version,
        })
    };
    chosen.iter().filter_map(package).collect()
}

/// What an `environment.yml` asks for: `name=version=build` fixes a package, less does not.
fn conda_environment(value: &Value) -> Vec<Locked> {
    let mut found = Vec::new();
    for entry in list(value, "dependencies") {
        match entry {
            Value::Text(spec) => {
                let spec = spec.rsplit("::").next().unwrap_or(spec);
                let end = spec.find(['=', '<', '>', '!', '~', ' ', '[']).unwrap_or(spec.len());
                let (name, rest) = spec.split_at(end);
                let rest = rest.trim();
                let exact = rest.strip_prefix('=').map(|rest| rest.trim_start_matches('='));
                let exact = exact.filter(|rest| !rest.contains(['*', '<', '>', ',', '|']));
                let is_fixed = exact.is_some_and(|rest| rest.contains('=') || spec.contains("=="));
                let version = exact.filter(|_| is_fixed).and_then(|rest| rest.split('=').next());
                found.push(Locked {
                    name: normalised(name),
                    version: version.map(str::to_owned),
                    manager: Manager::Conda,
                    quality: if is_fixed { Quality::Pinned } else { Quality::Loose },
                    required: Some(true),
                    is_own: false,
                });
            }
            map @ Value::Map(_) => {
                let lines = words(map, "pip").join("\n");
                let target = Target {
                    python: None,
                    implementation: None,
                    os: std::env::consts::OS.to_owned(),
                    arch: std::env::consts::ARCH.to_owned(),
                };
                found.extend(requirements::packages(&lines, &target));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(kind: Kind, text: &str) -> Vec<Locked> {
        let target = Target {
            python: Some("3.11.7".to_owned()),
            implementation: Some("cpython".to_owned()),
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
        };
        read(kind, text.as_bytes(), &target).unwrap()
    }

    /// Each package as `name version quality required`.
    fn told(packages: &[Locked]) -> Vec<String> {
        let one = |one: &Locked| {
            let required =
                one.required.map_or("perhaps".to_owned(), |yes| if yes { "yes" } else { "no" }.to_owned());
            format!(
                "{} {} {} {required}",
                one.name,
                one.version.as_deref().unwrap_or("-"),
                one.quality.as_str()
            )
        };
        packages.iter().map(one).collect()
    }

    #[test]
    fn names_are_compared_as_indexes_do() {
        for (name, expected) in [
            ("Pygments", "pygments"),
            ("a_b.-C", "a-b-c"),
            (" x ", "x"),
            ("zope.interface", "zope-interface"),
        ] {
            assert_eq!(normalised(name), expected);
        }
    }

    #[test]
    fn what_uv_needs_is_what_the_project_reaches() {
        let text = r#"
version = 1
[[package]]
name = "app"
version = "0.1"
source = { editable = "." }
dependencies = [
    { name = "a" },
    { name = "winonly", marker = "sys_platform == 'win32'" },
    { name = "b", extra = ["fast"] },
]
[package.optional-dependencies]
gpu = [{ name = "cuda" }]
[package.dev-dependencies]
dev = [{ name = "pytest" }]
[[package]]
name = "a"
version = "1"
source = { registry = "https://registry.example/simple" }
sdist = { url = "https://registry.example/a.tar.gz", hash = "sha256:00" }
[[package]]
name = "b"
version = "2"
source = { git = "https://registry.example/b?rev=main#0123456789abcdef0123456789abcdef01234567" }
[package.optional-dependencies]
fast = [{ name = "speed" }]
[[package]]
name = "speed"
version = "3"
source = { registry = "https://registry.example/simple" }
[[package]]
name = "winonly"
version = "1"
source = { registry = "https://registry.example/simple" }
[[package]]
name = "cuda"
version = "12"
source = { registry = "https://registry.example/simple" }
[[package]]
name = "pytest"
version = "8"
source = { registry = "https://registry.example/simple" }
[[package]]
name = "beside"
version = "1"
source = { directory = "../beside" }
"#;
        let packages = read_as(Kind::Uv, text);
        assert_eq!(
            told(&packages),
            [
                "app 0.1 pinned yes",
                "a 1 hashed yes",
                "b 2 pinned yes",
                "speed 3 pinned yes",
                "winonly 1 pinned no",
                "cuda 12 pinned perhaps",
                "pytest 8 pinned perhaps",
                "beside 1 loose no",
            ]
        );
        assert!(packages[0].is_own && !packages[7].is_own);
    }

    #[test]
    fn of_a_fork_the_version_of_this_machine_counts() {
        let text = r#"
[[package]]
name = "app"
source = { virtual = "." }
dependencies = [{ name = "n" }]
[[package]]
name = "n"
version = "1"
resolution-markers = ["python_full_version < '3.11'"]
[[package]]
name = "n"
version = "2"
resolution-markers = ["python_full_version >= '3.11'"]
"#;
        assert_eq!(told(&read_as(Kind::Uv, text))[1..], ["n 1 pinned no", "n 2 pinned yes"]);
    }

    #[test]
    fn groups_and_markers_of_poetry_and_pdm_are_heeded() {
        let poetry = r#"
[[package]]
name = "Main"
version = "1"
optional = false
groups = ["main"]
files = [{file = "x.whl", hash = "sha256:00"}]
[[package]]
name = "test"
version = "1"
optional = false
groups = ["dev"]
files = []
[[package]]
name = "win"
version = "1"
optional = false
groups = ["main"]
markers = "sys_platform == 'win32'"
files = []
[[package]]
name = "branch"
version = "1"
optional = false
groups = ["main"]
files = []
[package.source]
type = "git"
url = "https://registry.example/x.git"
reference = "main"
"#;
        assert_eq!(
            told(&read_as(Kind::Poetry, poetry)),
            ["main 1 hashed yes", "test 1 pinned perhaps", "win 1 pinned no", "branch 1 loose yes"]
        );
        let pdm = "[[package]]\nname = \"a\"\nversion = \"1\"\ngroups = [\"default\"]\nfiles = [{file = \"x\", hash = \"sha256:0\"}]\n";
        assert_eq!(told(&read_as(Kind::Pdm, pdm)), ["a 1 hashed yes"]);
    }

    #[test]
    fn lock_files_of_conda_are_read_for_this_platform() {
        let lock = "package:\n- {name: a, version: '1', manager: conda, platform: linux-64, hash: {sha256: '00'}}\n- {name: a, version: '2', manager: conda, platform: osx-64, hash: {sha256: '00'}}\n- {name: p, version: '3', manager: pip, platform: linux-64, hash: {sha256: '00'}}\n";
        let packages = read_as(Kind::CondaLock, lock);
        assert_eq!(told(&packages), ["a 1 hashed yes", "p 3 hashed yes"]);
        assert_eq!((packages[0].manager, packages[1].manager), (Manager::Conda, Manager::Python));
        let pixi = "version: 6\nenvironments:\n  default:\n    packages:\n      linux-64:\n      - conda: https://registry.example/linux-64/a-1-h0_0.conda\n      - pypi: https://registry.example/p.whl\n      - pypi: ./\n      osx-64:\n      - conda: https://registry.example/osx-64/z-1-h0_0.conda\npackages:\n- conda: https://registry.example/linux-64/a-1-h0_0.conda\n  sha256: '00'\n- pypi: https://registry.example/p.whl\n  name: p\n  version: '2'\n  sha256: '00'\n- pypi: ./\n  name: app\n  version: '0.1'\n";
        let packages = read_as(Kind::Pixi, pixi);
        assert_eq!(told(&packages), ["a 1 hashed yes", "p 2 hashed yes", "app 0.1 pinned yes"]);
        assert!(packages[2].is_own);
        let asked = "dependencies:\n- python=3.11\n- numpy=1.26.4=py311h64a7726_0\n- conda-forge::scipy\n- pip:\n  - rich>=13\n  - torch==2.1.0\n";
        assert_eq!(
            told(&read_as(Kind::CondaEnvironment, asked)),
            [
                "python - loose yes",
                "numpy 1.26.4 pinned yes",
                "scipy - loose yes",
                "rich - loose yes",
                "torch 2.1.0 pinned yes"
            ]
        );
    }

    #[test]
    fn pipfiles_and_pylocks_are_read() {
        let pipfile = r#"{"default": {"a": {"version": "==1", "hashes": ["sha256:00"], "markers": "python_version >= '3.8'"},
            "b": {"git": "https://registry.example/b", "ref": "main"}}, "develop": {"t": {"version": "==2"}}}"#;
        assert_eq!(
            told(&read_as(Kind::Pipfile, pipfile)),
            ["a 1 hashed yes", "b - loose yes", "t 2 pinned perhaps"]
        );
        let pylock = "lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nmarker = \"sys_platform == 'win32'\"\nwheels = [{ url = \"x\", hashes = { sha256 = \"00\" } }]\n[[packages]]\nname = \"g\"\nvcs = { type = \"git\", url = \"x\", commit-id = \"main\" }\n";
        assert_eq!(told(&read_as(Kind::Pylock, pylock)), ["a 1 hashed no", "g - loose yes"]);
    }

    #[test]
    fn a_lock_file_of_another_shape_names_nothing_and_breaks_nothing() {
        for (kind, text) in [
            (Kind::Uv, "package = 3"),
            (Kind::Uv, "[[package]]\nversion = \"1\""),
            (Kind::Poetry, "x = 1"),
            (Kind::Pipfile, "{\"default\": []}"),
            (Kind::Pixi, "environments: []"),
            (Kind::CondaLock, "package: {}"),
            (Kind::CondaEnvironment, "dependencies: 1"),
        ] {
            assert_eq!(read_as(kind, text), [], "{text}");
        }
    }
}
