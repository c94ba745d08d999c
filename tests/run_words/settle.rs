//! `ledger record checkpoint --settle`: what is still being written is waited for, and what never is whole is refused.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scene::{claimed, lay_weights, project, refused, size};

/// A model of four shards, as a library saved it.
pub(crate) fn sharded() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkpoints/hf-sharded/model");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_checkpoint_is_recorded_when_its_last_shard_has_come() {
    let (_world, kim) = project();
    let (last, rest) = {
        let files = sharded();
        let is_last = |path: &PathBuf| path.ends_with("model-00003-of-00004.safetensors");
        let (last, rest): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(is_last);
        (std::fs::read(&last[0]).unwrap(), rest)
    };
    let lay = |name: &str, bytes: &[u8]| kim.lay(&format!("out/step-5/{name}"), bytes);
    let flags = ["-v", "record", "checkpoint", "out/step-5", "--run", "none", "--settle", "300"];
    let mut command = kim.command(&flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nothing is there when the wait begins; then all files but one come.
    for file in &rest {
        lay(file.file_name().unwrap().to_str().unwrap(), &std::fs::read(file).unwrap());
    }
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("note: not yet: ")), "the missing shard was seen");
    assert_eq!(claimed(&kim, "checkpoint").len(), 0);
    // The last one comes in two pieces.
    lay("model-00003-of-00004.safetensors", &last[..last.len() / 2]);
    assert!(said.any(|line| line.starts_with("note: not yet: ")), "half a shard is not taken for one");
    lay("model-00003-of-00004.safetensors", &last);
    let rest: Vec<String> = said.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{rest:?}");
    let id = String::from_utf8(output.stdout).unwrap();
    assert_eq!(claimed(&kim, "checkpoint"), [id.trim()]);
    assert_eq!(kim.run(&["verify", "out/step-5", "--is", id.trim()]).code, 0);
}

#[test]
fn what_is_never_whole_is_given_up_and_nothing_is_recorded() {
    let (_world, kim) = project();
    let whole = sharded();
    for file in whole.iter().filter(|file| !file.ends_with("model-00002-of-00004.safetensors")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        kim.lay(&format!("out/torn/{name}"), &std::fs::read(file).unwrap());
    }
    let before = size(&kim);
    let record = |path: &str, flags: &[&str]| {
        kim.run(&[&["record", "checkpoint", path, "--run", "none"], flags].concat())
    };
    let output = record("out/torn", &["--settle", "1"]);
    let said = refused(&output, 3, "incomplete-checkpoint");
    assert!(said.contains("model-00002-of-00004.safetensors") && said.contains("waited for 1 s"), "{said}");
    let at_once = record("out/torn", &[]);
    assert!(refused(&at_once, 3, "incomplete-checkpoint").contains("out/torn --settle 60"), "{at_once:?}");
    refused(&record("out/nowhere", &["--settle", "1"]), 2, "bad-data");
    refused(&record("out/nowhere", &[]), 2, "bad-data");
    assert_eq!(record("out/torn", &["--settle", "soon"]).code, 2);
    let document = kim.json(&["record", "checkpoint", "out/torn", "--run", "none", "--settle", "0"]);
    assert_eq!(
        (&document["exit"], &document["findings"][0]["kind"]),
        (&3.into(), &"incomplete-checkpoint".into())
    );
    let warned = kim.with("LEDGER_MODE", "warn");
    assert_eq!(warned.run(&["record", "checkpoint", "out/torn", "--run", "none", "--settle", "1"]).code, 0);
    assert_eq!(size(&kim), before);
}

#[test]
fn what_does_not_rest_is_given_up() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/busy", 1);
    let before = size(&kim);
    let is_over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A log that grows all the time lies beside weights that are whole.
            for length in 1.. {
                kim.lay("out/busy/train.log", &vec![b'.'; length % 4096]);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let output = kim.run(&["record", "checkpoint", "out/busy", "--run", "none", "--settle", "7"]);
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let said = refused(&output, 6, "changed-while-read");
    assert!(said.contains("is still being written") && said.contains("waited for 7 s"), "{said}");
    assert!(said.contains("--settle 14"), "{said}");
    assert_eq!(size(&kim), before);
    kim.ok(&["record", "checkpoint", "out/busy", "--run", "none", "--settle", "600"]);
    assert_eq!(size(&kim), before + 1);
}
