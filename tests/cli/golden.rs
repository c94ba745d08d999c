//! Golden ledgers: what a program of another day wrote is opened, checked and answered from as on that day.
//!
//! `tests/golden/make.sh` made each of them once. None is ever made anew: a ledger that a later program reads
//! otherwise than the one that wrote it is a broken promise, and not a test to be mended.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Person, World};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Lays a golden ledger down, as somebody would who got it by post, and returns what was true of it.
fn unpacked(golden: &Path) -> (World, Person, Value) {
    let world = World::new();
    let kim = world.person("reader");
    copy(&golden.join("ledger"), &kim.project.join(".ledger"));
    copy(&golden.join("out"), &kim.project.join("out"));
    let answers = std::fs::read(golden.join("answers.json")).unwrap();
    (world, kim, serde_json::from_slice(&answers).unwrap())
}

fn golden() -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")).unwrap();
    let found: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(!found.is_empty());
    found
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn every_golden_ledger_says_what_it_said() {
    for golden in golden() {
        let (_world, kim, answers) = unpacked(&golden);
        let fsck = kim.json(&["fsck"]);
        assert_eq!((&fsck["exit"], &fsck["damaged"]), (&0.into(), &0.into()), "{fsck}");
        let head = kim.json(&["head"]);
        assert_eq!(head["ledger"], answers["ledger"]);
        assert_eq!((&head["size"], &head["root"]), (&answers["head"]["size"], &answers["head"]["root"]));
        let document = kim.json(&["entries"]);
        let found = document["entries"].as_array().unwrap().iter();
        let found: Vec<Value> =
            found.map(|entry| [entry["statement"].clone(), entry["standing"].clone()].into()).collect();
        assert_eq!(Value::from(found), answers["statements"]);
        for (name, id) in answers["names"].as_object().unwrap() {
            assert_eq!(&kim.json(&["show", name])["id"], id, "{name}");
        }
        let document = kim.json(&["show", text(&answers["eval"])]);
        assert_eq!(document["record"]["kind"], "eval", "{document}");
    }
}

#[test]
fn every_golden_checkpoint_is_verified_as_it_was() {
    for golden in golden() {
        let (_world, kim, answers) = unpacked(&golden);
        let trust = text(&answers["ledger"]);
        for (path, id) in answers["checkpoints"].as_object().unwrap() {
            let document = kim.json(&["verify", path, "--trust", trust]);
            let exit = i32::from(*path == answers["revoked"]);
            assert_eq!(document["exit"], exit, "{path}: {document}");
            assert_eq!(&kim.json(&["show", path])["id"], id, "{path}");
        }
        let last = text(&answers["checkpoints"]["out/step-20"]);
        let trace = kim.json(&["trace", last]);
        let mut lineage: Vec<&str> =
            trace["nodes"].as_array().unwrap().iter().map(|node| text(&node["id"])).collect();
        lineage.sort_unstable();
        assert_eq!(Value::from(lineage), answers["lineage"]);

        let file = kim.project.join("out/step-20/model.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(kim.json(&["verify", "out/step-20", "--trust", trust])["exit"], 1);
    }
}

#[test]
fn a_golden_ledger_is_a_copy_until_it_is_adopted() {
    for golden in golden() {
        let (_world, kim, answers) = unpacked(&golden);
        kim.ok(&["-q", "key", "new"]);
        kim.run(&["record", "note", text(&answers["run"]), "-m", "x"]).fails(4, "copy");
        kim.ok(&["adopt"]);
        assert_eq!(kim.json(&["head"])["root"], answers["head"]["root"]);
        assert_eq!(kim.json(&["fsck"])["exit"], 0);
    }
}
