//! `ledger run --checkpoints`: each checkpoint is recorded while the command runs, and nothing of it reaches the command.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scene::{PATH, claimed, lay_weights, project, size};
use crate::settle::sharded;
use crate::support::{LEDGER, Person, World};

/// Words of the shell that wait for something, but not for ever, and say so by a code of their own.
const WORDS: &str = r#"
    wait_for() { n=0; until eval "$1"; do n=$((n + 1)); test $n -lt 1500 || exit 99; sleep 0.2; done; }
    recorded() { wait_for "test \$($LEDGER_BIN -q ls checkpoints --ids | wc -l) -ge $1"; }
    says() { wait_for "grep -q '$1' said"; }
"#;

/// Runs a script under `ledger -v run --checkpoints`, with standard error in the file `said`.
fn watched(kim: &Person, flags: &[&str], script: &str) -> (i32, Value, String) {
    let script = format!("LEDGER_BIN={LEDGER}\n{WORDS}\n{script}");
    let flags = [&["--json", "-v", "run"], flags, &["--", "sh", "-c", &script]].concat();
    let said = kim.project.join("said");
    let mut command = kim.command(&flags);
    command.stdout(Stdio::piped()).stderr(File::create(&said).unwrap());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    let document = serde_json::from_slice(&output.stdout);
    let document = document.unwrap_or_else(|error| panic!("{error}: {output:?}: {said}"));
    (output.status.code().unwrap(), document, said)
}

/// What the notes of the ledger say, which is where gaps are told.
fn notes(kim: &Person) -> Vec<String> {
    let text = |id: &String| kim.json(&["show", id])["record"]["text"].as_str().unwrap().to_owned();
    claimed(kim, "note").iter().map(text).collect()
}

fn told(document: &Value) -> Vec<String> {
    let ids = document["checkpoints"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_checkpoint_is_recorded_while_the_command_runs_and_once() {
    let (_world, kim) = project();
    for file in sharded() {
        kim.lay(
            &format!("saved/{}", file.file_name().unwrap().to_str().unwrap()),
            &std::fs::read(file).unwrap(),
        );
    }
    // Step 1 comes shard by shard, and step 2 after step 1 has been recorded.
    let script = "
        mkdir -p out/step-1 && cp saved/*.json out/step-1/
        says 'watching checkpoint .*step-1'
        for n in 1 2 3 4; do cp saved/model-0000$n-of-00004.safetensors out/step-1/; sleep 0.3; done
        recorded 1
        cp -r out/step-1 out/step-2 && cp saved/config.json out/step-2/more.json
        exit 7";
    let (code, document, said) = watched(&kim, &["--checkpoints", "out/step-*"], script);
    assert_eq!(code, 7, "{said}");
    let checkpoints = claimed(&kim, "checkpoint");
    assert_eq!((checkpoints.len(), told(&document)), (2, checkpoints.clone()), "{said}");
    assert_eq!(notes(&kim), Vec::<String>::new(), "{said}");
    for (step, id) in ["out/step-1", "out/step-2"].into_iter().zip(&checkpoints) {
        let shown = kim.json(&["show", id]);
        assert_eq!(
            (&shown["record"]["path"], &shown["record"]["start"]),
            (&step.into(), &document["attempt"])
        );
    }
    // The first stands before the end of the attempt, the second after it.
    let log = kim.json(&["entries"]);
    let kinds: Vec<&str> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|entry| entry["claims"].as_array().unwrap().last().unwrap()["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["start", "checkpoint", "end", "checkpoint"]);
    // What is there from an attempt before is not recorded again. Times of files are held to attempts by the second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let before = size(&kim);
    let run = document["run"].as_str().unwrap();
    let (_, again, said) = watched(&kim, &[run, "--again", "--checkpoints", "out/step-*"], "exit 0");
    assert_eq!((claimed(&kim, "checkpoint").len(), size(&kim)), (2, before + 2), "{said}");
    assert_eq!(told(&again), checkpoints);
}

#[test]
fn what_is_overwritten_in_place_is_recorded_again_and_what_is_touched_is_not() {
    let (_world, kim) = project();
    lay_weights(&kim, "saved/one", 1);
    lay_weights(&kim, "saved/two", 2);
    kim.lay("out/x", b"");
    let script = "
        mkdir out/last && cp saved/one/model.safetensors out/last/ && recorded 1
        cp saved/two/model.safetensors out/last/ && recorded 2
        touch out/last/model.safetensors";
    let (code, document, said) = watched(&kim, &["--checkpoints", "out/last"], script);
    assert_eq!((code, claimed(&kim, "checkpoint").len()), (0, 2), "{said}");
    assert_eq!(told(&document), claimed(&kim, "checkpoint"));
    assert_eq!(notes(&kim), Vec::<String>::new());
}

#[test]
fn what_is_deleted_before_it_settled_is_a_gap_and_what_gets_another_name_is_none() {
    let (_world, kim) = project();
    lay_weights(&kim, "saved", 1);
    let script = "
        mkdir -p out/step-1 && echo half > out/step-1/model.safetensors
        mkdir -p out/tmp-2 && cp saved/model.safetensors out/tmp-2/
        says 'watching checkpoint .*tmp-2'; says 'watching checkpoint .*step-1'
        rm -r out/step-1; mv out/tmp-2 out/step-2; recorded 1
        rm -r out/step-2";
    let (code, document, said) = watched(&kim, &["--checkpoints", "out/*"], script);
    assert_eq!((code, document["status"].as_str()), (0, Some("completed")), "{said}");
    assert_eq!(told(&document).len(), 1, "{said}");
    assert!(said.contains("left a gap: error[deleted]: "), "{said}");
    let notes = notes(&kim);
    assert_eq!(notes.len(), 1, "{notes:?} {said}");
    assert!(notes[0].contains("step-1") && notes[0].contains("deleted before it had settled"), "{notes:?}");
}

#[test]
fn a_ledger_that_fails_for_a_while_is_tried_again_and_one_that_is_gone_ends_nothing() {
    let (_world, kim) = project();
    lay_weights(&kim, "saved", 1);
    let script = "
        mkdir -p out && mv .ledger away && cp -r saved out/step-1
        says 'checkpoints wait: '
        mv away .ledger; exit 5";
    let flags = ["--out", "files", "--checkpoints", "out/step-*"];
    let (code, document, said) = watched(&kim, &flags, script);
    assert_eq!((code, document["status"].as_str()), (5, Some("failed")), "{said}");
    assert_eq!((told(&document).len(), claimed(&kim, "checkpoint").len()), (1, 1), "{said}");

    let script = "cp -r saved out/step-2; mv .ledger away; exit 6";
    let flags = ["--out", "other", "--checkpoints", "out/step-*"];
    let (code, _, said) = watched(&kim, &flags, script);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("`end` left a gap: error[not-a-ledger]"), "{said}");
    assert!(said.contains("`checkpoints` left a gap: error[not-a-ledger]"), "{said}");
    let gaps = std::fs::read_to_string(kim.project.join("other/gaps.jsonl")).unwrap();
    assert_eq!(gaps.lines().count(), 2, "{gaps}");
    std::fs::rename(kim.project.join("away"), kim.project.join(".ledger")).unwrap();
    assert_eq!(kim.run(&["fsck"]).code, 0);
}

#[test]
fn a_signal_reaches_the_command_while_checkpoints_are_watched() {
    let (_world, kim) = project();
    lay_weights(&kim, "saved", 1);
    let script = format!(
        "LEDGER_BIN={LEDGER}\n{WORDS}
        trap 'cp -r saved out/step-2; kill $!; exit 9' TERM
        mkdir -p out && cp -r saved out/step-1 && recorded 1
        sleep 600 & echo ready > out/ready.new; mv out/ready.new out/ready; wait"
    );
    let mut command =
        kim.command(&["--json", "run", "--checkpoints", "out/step-*", "--", "sh", "-c", &script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !kim.project.join("out/ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "{:?}", child.wait_with_output());
        std::thread::yield_now();
    }
    let acknowledged = claimed(&kim, "checkpoint");
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["status"], "preempted");
    let found = claimed(&kim, "checkpoint");
    assert_eq!((acknowledged.len(), found.len()), (1, 2), "{output:?}");
    assert!(found.starts_with(&acknowledged) && told(&document) == found, "{output:?}");
}

#[test]
fn a_wrong_pattern_is_said_before_anything_runs_and_ranks_above_zero_record_nothing() {
    let (_world, kim) = project();
    let before = size(&kim);
    let output = kim.run(&["run", "--checkpoints", "out/***", "--", "touch", "ran"]);
    output.fails(2, "usage");
    assert!(!kim.project.join("ran").exists());
    lay_weights(&kim, "out/step-1", 1);
    let rank = kim.with("RANK", "1");
    assert_eq!(rank.run(&["run", "--checkpoints", "out/*", "--", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(size(&kim), before);
    let world = World::new();
    let lou = world.person("lou").with("PATH", PATH).with("RANK", "1");
    assert_eq!(lou.run(&["run", "--checkpoints", "x/***", "--", "sh", "-c", "exit 4"]).code, 4);
}
