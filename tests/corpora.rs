//! Gives every reader again what once was found to be worth keeping: `fuzz/corpus`, a folder for each target.
//!
//! The programs that look for more need a fuzzer (`tests/soak.sh`); to replay what they found takes none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "the programs of the fuzzer reach it from another crate")]
#[expect(clippy::disallowed_methods, reason = "scratch files of a test need not last")]
mod targets;

#[test]
#[expect(clippy::print_stderr, reason = "of a panic it is known by this in which file it lies")]
fn every_reader_survives_its_corpus() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let folders: BTreeSet<String> = fs::read_dir(&corpora)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: BTreeSet<String> = targets::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, names, "each target has a corpus, and each corpus a target");
    for (name, target) in targets::TARGETS {
        let mut files: Vec<_> =
            fs::read_dir(corpora.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "the corpus of `{name}` is empty");
        target(b"");
        for path in files {
            eprintln!("{}", path.display());
            target(&fs::read(&path).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_program() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in targets::TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "`{name}` is not built");
        let program = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("ledger_fuzz::{name}(bytes)")), "`{name}.rs` runs another target");
    }
}
