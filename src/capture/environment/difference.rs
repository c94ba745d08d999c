//! What is installed against what the lock file says: missing, of another version, or in addition.

use std::collections::{BTreeMap, BTreeSet};

use super::installed::{Distribution, Installed};
use super::lock::{Kind, Lock};
use super::packages::{Locked, Manager, normalised};

/// Tools that environments are made with; no lock file names them.
const TOOLS: [&str; 6] = ["pip", "setuptools", "wheel", "distribute", "uv", "pkg-resources"];

/// A package that is not as the lock file has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    /// Its normalised name.
    pub name: String,
    /// The version that is locked; absent where the lock names the package without one or not at all.
    pub locked: Option<String>,
    /// The version that is installed; absent where none is.
    pub installed: Option<String>,
}

/// How an environment departs from its lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Departures {
    /// Needed here and not installed.
    pub missing: Vec<Departure>,
    /// Installed in a version that is not locked.
    pub changed: Vec<Departure>,
    /// Installed and not locked.
    pub extra: Vec<Departure>,
}

impl Departures {
    /// Tells whether everything is as it was locked.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.changed.is_empty() && self.extra.is_empty()
    }

    /// Says what departs in one line, three names of each kind at most.
    pub fn describe(&self) -> String {
        let named = |one: &Departure| match (&one.locked, &one.installed) {
            (Some(locked), Some(installed)) => format!("{} {installed}, locked {locked}", one.name),
            (Some(version), None) | (None, Some(version)) => format!("{} {version}", one.name),
            (None, None) => one.name.clone(),
        };
        let mut parts = Vec::new();
        for (list, single, several) in [
            (&self.changed, "has another version", "have other versions"),
            (&self.missing, "is missing", "are missing"),
            (&self.extra, "is not locked", "are not locked"),
        ] {
            if list.is_empty() {
                continue;
            }
            let some: Vec<String> = list.iter().take(3).map(named).collect();
            let more = if list.len() > 3 { "; .." } else { "" };
            let what = if list.len() == 1 { single } else { several };
            parts.push(format!("{} {what} ({}{more})", list.len(), some.join("; ")));
        }
        parts.join(", ")
    }
}

/// Compares; `None` where the lock file's packages or those of its manager are not known.
pub fn departures(lock: &Lock, installed: &Installed) -> Option<Departures> {
    let locked = lock.packages.as_ref()?;
    let mut managers: BTreeSet<Manager> = locked.iter().map(|package| package.manager).collect();
    if !installed.has_conda {
        managers.remove(&Manager::Conda);
    }
    if managers.is_empty() {
        return None;
    }
    let mut wanted: BTreeMap<(Manager, &str), Vec<&Locked>> = BTreeMap::new();
    for package in locked {
        wanted.entry((package.manager, &package.name)).or_default().push(package);
    }
    let present: BTreeMap<(Manager, String), &Distribution> =
        installed.distributions.iter().map(|one| ((one.manager, normalised(&one.name)), one)).collect();
    // What conda installed for Python stands in both lists, and a lock file names it in one.
    let known: BTreeSet<&str> = wanted.keys().map(|(_, name)| *name).collect();
    let is_own = |name: &str| locked.iter().any(|package| package.is_own && package.name == name);
    // `==1.0` of a requirement takes `1.0+cu121`, too; a lock that was resolved says which of them it means.
    let takes_local = matches!(
        lock.kind,
        Kind::Requirements | Kind::Pipfile | Kind::CondaEnvironment | Kind::CondaExplicit
    );
    let mut found = Departures::default();
    for ((manager, name), packages) in &wanted {
        if !managers.contains(manager) || is_own(name) {
            continue;
        }
        let versions: Vec<&str> = packages.iter().filter_map(|package| package.version.as_deref()).collect();
        let locked = || if versions.is_empty() { None } else { Some(versions.join(" or ")) };
        match present.get(&(*manager, (*name).to_owned())) {
            None => {
                if packages.iter().any(|package| package.required == Some(true)) {
                    let one = Departure { name: (*name).to_owned(), locked: locked(), installed: None };
                    found.missing.push(one);
                }
            }
            Some(here) => {
                let fits = |version: &&str| same_version(version, &here.version, takes_local);
                if !versions.is_empty() && !versions.iter().any(fits) {
                    let installed = Some(here.version.clone());
                    found.changed.push(Departure { name: (*name).to_owned(), locked: locked(), installed });
                }
            }
        }
    }
    for ((manager, name), here) in &present {
        let is_editable = here.origin.as_ref().is_some_and(|origin| origin.kind == "editable");
        // The project installs itself; where it lies is told by its address.
        let is_project = is_editable && here.origin.as_ref().is_some_and(|origin| origin.address != "<path>");
        if managers.contains(manager)
            && !known.contains(name.as_str())
            && !TOOLS.contains(&name.as_str())
            && !is_project
        {
            let (name, installed) = (name.clone(), Some(here.version.clone()));
            found.extra.push(Departure { name, locked: None, installed });
        }
    }
    Some(found)
}

/// Compares versions as far as writing differs: case, a leading `v`, separators, trailing `.0`.
fn same_version(locked: &str, installed: &str, takes_local: bool) -> bool {
    let split = |version: &str| {
        let version = version.trim().to_lowercase().replace(['-', '_'], ".");
        let version = version.strip_prefix('v').unwrap_or(&version).to_owned();
        let (mut release, local) = match version.split_once('+') {
            Some((release, local)) => (release.to_owned(), local.to_owned()),
            None => (version, String::new()),
        };
        while let Some(shorter) = release.strip_suffix(".0") {
            release.truncate(shorter.len());
        }
        (release, local)
    };
    let (a, b) = (split(locked), split(installed));
    a.0 == b.0 && (a.1 == b.1 || takes_local && a.1.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::installed::Origin;
    use super::super::lock::Quality;
    use super::*;

    fn lock(kind: Kind, packages: &[(&str, Option<&str>, Option<bool>)]) -> Lock {
        let package = |(name, version, required): &(&str, Option<&str>, Option<bool>)| Locked {
            name: (*name).to_owned(),
            version: version.map(str::to_owned),
            manager: Manager::Python,
            quality: Quality::Pinned,
            required: *required,
            is_own: *name == "app",
        };
        Lock {
            kind,
            path: "x.lock".into(),
            bytes: Vec::new(),
            quality: Quality::Pinned,
            unhashed: Vec::new(),
            editable: Vec::new(),
            packages: Some(packages.iter().map(package).collect()),
            notes: Vec::new(),
        }
    }

    fn installed(packages: &[(&str, &str)]) -> Installed {
        let one = |(name, version): &(&str, &str)| Distribution {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            manager: Manager::Python,
            origin: None,
        };
        Installed { distributions: packages.iter().map(one).collect(), ..Installed::default() }
    }

    fn names(list: &[Departure]) -> Vec<&str> {
        list.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn what_departs_is_named_and_the_rest_is_not() {
        let yes = Some(true);
        let lock = lock(
            Kind::Uv,
            &[
                ("same", Some("1.0"), yes),
                ("written-otherwise", Some("2.0.0"), yes),
                ("changed", Some("1"), yes),
                ("forked", Some("1"), None),
                ("forked", Some("2"), None),
                ("missing", Some("3"), yes),
                ("foreign", Some("3"), Some(false)),
                ("perhaps", Some("3"), None),
                ("app", Some("0.1"), None),
            ],
        );
        let found = departures(
            &lock,
            &installed(&[
                ("Same", "1.0"),
                ("written_otherwise", "2.0"),
                ("changed", "2"),
                ("forked", "2"),
                ("extra", "9"),
                ("pip", "24"),
                ("App", "0.2"),
            ]),
        )
        .unwrap();
        assert_eq!(names(&found.missing), ["missing"]);
        assert_eq!(names(&found.changed), ["changed"]);
        assert_eq!(names(&found.extra), ["extra"]);
        assert_eq!(
            found.describe(),
            "1 has another version (changed 2, locked 1), 1 is missing (missing 3), 1 is not locked (extra 9)"
        );
    }

    #[test]
    fn a_local_version_is_told_by_a_lock_and_taken_by_a_requirement() {
        let packages = [("torch", Some("2.1.0"), Some(true))];
        let here = installed(&[("torch", "2.1.0+cu121")]);
        assert_eq!(names(&departures(&lock(Kind::Uv, &packages), &here).unwrap().changed), ["torch"]);
        assert!(departures(&lock(Kind::Requirements, &packages), &here).unwrap().is_empty());
    }

    #[test]
    fn an_editable_of_the_project_is_no_addition_and_a_foreign_one_is() {
        let mut here = installed(&[("app", "1"), ("other", "1")]);
        for (one, address) in here.distributions.iter_mut().zip([".", "<path>"]) {
            one.origin =
                Some(Origin { kind: "editable".to_owned(), address: address.to_owned(), exact: None });
        }
        let found = departures(&lock(Kind::Uv, &[("a", None, None)]), &here).unwrap();
        assert_eq!(names(&found.extra), ["other"]);
    }

    #[test]
    fn conda_s_packages_are_not_judged_where_conda_is_not() {
        let mut lock = lock(Kind::CondaExplicit, &[("python", Some("3.11.9"), Some(true))]);
        for package in lock.packages.iter_mut().flatten() {
            package.manager = Manager::Conda;
        }
        assert_eq!(departures(&lock, &installed(&[])), None);
        let conda = Installed { has_conda: true, ..Installed::default() };
        assert_eq!(names(&departures(&lock, &conda).unwrap().missing), ["python"]);
    }
}
