//! `LEDGER_MODE`: off records nothing, warn turns failures into gaps that the ledger tells of later.

use crate::scene::{claimed, lay_weights, project, refused, run_dir, run_json, size};
use crate::support::World;

#[test]
fn off_records_nothing_and_runs_the_command() {
    let (_world, kim) = project();
    let before = size(&kim);
    let off = kim.with("LEDGER_MODE", "off");
    assert_eq!(off.run(&["run", "--", "sh", "-c", "exit 3"]).code, 3);
    for args in [&["freeze"][..], &["start", "x"], &["end", "x"], &["record", "checkpoint", "gone"]] {
        let output = off.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
        assert!(output.stderr.contains("LEDGER_MODE=off"), "{output:?}");
    }
    assert_eq!(size(&kim), before);
    let world = World::new();
    let lou = world.person("lou").with("PATH", crate::scene::PATH).with("LEDGER_MODE", "off");
    assert_eq!(lou.run(&["run", "--", "sh", "-c", "exit 3"]).code, 3, "it needs no ledger");
}

#[test]
fn another_word_is_wrong_usage() {
    let (_world, kim) = project();
    let output = kim.with("LEDGER_MODE", "warm").run(&["freeze"]);
    output.fails(2, "usage");
    assert_eq!(kim.with("LEDGER_MODE", "enforce").run(&["freeze"]).code, 0);
    assert_eq!(kim.with("LEDGER_MODE", "").run(&["freeze"]).code, 0, "empty says nothing");
}

#[test]
fn warn_writes_gaps_and_the_next_success_states_them() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    let dir = run_dir(&kim, &run);
    let inside = kim.with("LEDGER_RUN", &run).with("LEDGER_RUN_DIR", dir.to_str().unwrap());
    let warned = inside.with("LEDGER_MODE", "warn");
    refused(&inside.run(&["record", "checkpoint", "out/gone"]), 2, "bad-data");
    let gaps = dir.join("gaps.jsonl");
    assert!(!gaps.exists(), "only `warn` makes gaps");

    for _ in 0..2 {
        let output = warned.run(&["record", "checkpoint", "out/gone"]);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
        assert!(output.stderr.contains("warning: `record` left a gap: error[bad-data]: "), "{output:?}");
    }
    let text = std::fs::read_to_string(&gaps).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!((&line["what"], &line["slug"]), (&"record".into(), &"bad-data".into()), "{line}");
        assert!(line["message"].as_str().unwrap().contains("out/gone"), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    assert_eq!(claimed(&kim, "note").len(), 0);

    let start = warned.ok(&["start"]);
    assert!(start.starts_with("start:"), "{start}");
    assert_eq!(std::fs::read_to_string(&gaps).unwrap(), "");
    let notes = claimed(&kim, "note");
    assert_eq!(notes.len(), 2);
    let note =
        String::from_utf8_lossy(&kim.command(&["cat", &notes[0]]).output().unwrap().stdout).into_owned();
    assert!(note.contains("gap: record at ") && note.contains("out/gone"), "{note}");
    warned.ok(&["end"]);
    assert_eq!(claimed(&kim, "note").len(), 2, "a gap is stated once");
}

#[test]
fn warn_lets_the_command_run_whatever_fails() {
    let (_world, kim) = project();
    let before = size(&kim);
    let warned = kim.with("LEDGER_MODE", "warn");
    let output = warned.run(&["run", "-c", "gone.yaml", "--", "sh", "-c", "exit 6"]);
    assert_eq!(output.code, 6, "{output:?}");
    assert!(output.stderr.contains("warning: `run` left a gap: error[bad-data]"), "{output:?}");
    assert_eq!(size(&kim), before);
    assert_eq!(warned.run(&["freeze", "-c", "gone.yaml"]).code, 0);
    let world = World::new();
    let lou = world.person("lou").with("PATH", crate::scene::PATH).with("LEDGER_MODE", "warn");
    assert_eq!(lou.run(&["run", "--", "sh", "-c", "exit 3"]).code, 3, "even without a ledger");
}

#[test]
fn warn_does_not_soften_deciding_commands() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    let warned = kim.with("LEDGER_MODE", "warn");
    assert_eq!(warned.run(&["verify", "out/ck"]).code, 3);
    assert_eq!(kim.with("LEDGER_MODE", "off").run(&["verify", "out/ck"]).code, 3);
}

#[test]
fn a_checkpoint_that_is_torn_becomes_a_gap_of_a_run_that_ended_well() {
    let (_world, kim) = project();
    kim.lay("out/bad/model.safetensors", b"\xff\xff\xff\xff");
    lay_weights(&kim, "out/good", 1);
    let (code, document) = run_json(&kim, &["--checkpoints", "out/*"], "exit 0");
    assert_eq!((code, document["status"].as_str()), (0, Some("completed")), "{document}");
    assert_eq!(claimed(&kim, "checkpoint").len(), 1, "one torn checkpoint does not lose the other");
}
