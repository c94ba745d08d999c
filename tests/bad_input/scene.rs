//! What the cases share: a project with data, a look at every file of a ledger, and the form of a refusal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Output, Person, World};

/// A founded ledger in a project with a config and data, and no repository.
pub(crate) fn project() -> (World, Person) {
    let (world, kim) = World::founded();
    let kim = kim.with("PATH", "/usr/local/bin:/usr/bin:/bin");
    kim.lay("config.yaml", b"lr: 0.1\nseed: 3\n");
    kim.lay("data/train.csv", b"1,2\n3,4\n");
    (world, kim)
}

/// The words of a freeze that succeeds in such a project.
pub(crate) const FREEZE: [&str; 6] = ["-q", "freeze", "-c", "config.yaml", "--data", "train=data"];

/// Freezes a run and returns its id.
pub(crate) fn freeze(person: &Person) -> String {
    let run = person.ok(&FREEZE);
    assert!(run.starts_with("run:") && run.len() == 68, "{run}");
    run
}

/// The ledger's directory.
pub(crate) fn root(person: &Person) -> PathBuf {
    person.project.join(".ledger")
}

/// Every file below a directory with its bytes.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return found };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Runs a command that must be refused: with this code and slug, a hint, and nothing but objects left behind.
///
/// It is run twice, for people and with `--json`, and both must say the same.
pub(crate) fn refuses(person: &Person, args: &[&str], code: i32, slug: &str) -> Output {
    let before = files(&root(person));
    let output = person.run(args);
    output.fails(code, slug);
    assert!(output.stderr.contains("\nhint: "), "{output:?}");
    let document = person.json(args);
    let finding = &document["findings"][0];
    assert_eq!(document["schema"], "ledger.error/1", "{document}");
    assert_eq!((document["exit"].as_i64(), finding["kind"].as_str()), (Some(code.into()), Some(slug)));
    assert!(finding["hint"].is_string(), "{document}");
    let after = files(&root(person));
    let objects = root(person).join("objects");
    for (path, bytes) in &after {
        match before.get(path) {
            Some(known) => assert!(known == bytes, "{} was changed", path.display()),
            None => assert!(path.starts_with(&objects), "{} was left behind", path.display()),
        }
    }
    for path in before.keys() {
        assert!(after.contains_key(path), "{} was removed", path.display());
    }
    output
}

/// The ids of all runs that the log holds, with an accepted claim.
pub(crate) fn runs(person: &Person) -> Vec<String> {
    let document = person.json(&["-q", "entries"]);
    let entries = document["entries"].as_array().expect("a list of entries");
    let accepted = entries.iter().filter(|entry| entry["standing"] == "accepted");
    let claims = accepted.flat_map(|entry| entry["claims"].as_array().unwrap().clone());
    let ids = claims.map(|claim| claim["id"].as_str().unwrap().to_owned());
    ids.filter(|id| id.starts_with("run:")).collect()
}

/// Checks that the ledger holds all these runs, works, and finds nothing wrong with itself.
pub(crate) fn is_sound(person: &Person, acknowledged: &[String]) {
    // What was queued is acknowledged too, and the next writer puts it into the log.
    let next = freeze(person);
    let held = runs(person);
    for run in acknowledged.iter().chain([&next]) {
        assert!(held.contains(run), "{run} is lost");
        assert_eq!(person.run(&["cat", run, "--json"]).code, 0, "the plan of {run} is lost");
    }
    let fsck = person.run(&["fsck"]);
    assert_eq!(fsck.code, 0, "{fsck:?}");
}

/// The file of an object, by its id with or without a prefix.
pub(crate) fn object(person: &Person, id: &str) -> PathBuf {
    let hex = id.rsplit(':').next().unwrap();
    root(person).join("objects").join(&hex[..2]).join(&hex[2..])
}

/// What can happen to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Harm {
    Truncated,
    Edited,
    Missing,
    Swapped,
}

impl Harm {
    /// Does it to a file, where `other` is what it is swapped for.
    pub(crate) fn hit(self, path: &Path, other: &[u8]) {
        let mut bytes = std::fs::read(path).unwrap();
        // Immutable files are read-only, and what harms them asks nobody.
        std::fs::remove_file(path).unwrap();
        match self {
            Self::Missing => return,
            Self::Truncated => bytes.truncate(bytes.len() / 2),
            Self::Edited => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Self::Swapped => {
                assert_ne!(bytes, other, "swapping equal files harms nothing");
                bytes = other.to_vec();
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
}
