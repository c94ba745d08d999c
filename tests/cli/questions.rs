//! `show`, `log`, `ls`, `trace` and the bare `ledger`: what they say of one finished run.

use crate::support::{Person, World};

/// A run with a checkpoint, an evaluation, a dataset, a model and a note.
fn told() -> (World, Person) {
    let (world, kim) = World::trained();
    kim.lay("result.json", b"{\"accuracy\": 0.9}");
    for args in [
        &["record", "eval", "result.json", "--subject", "out/step-10", "--benchmark", "digits"][..],
        &["record", "dataset", "digits.csv", "--name", "train", "--licence", "CC0"],
        &["record", "model", "out/step-10", "--name", "start"],
        &["record", "note", "base", "-m", "node lost\nits disk \u{1b}[2J"],
    ] {
        kim.ok(&[&["-q"], args].concat());
    }
    (world, kim)
}

#[test]
fn one_thing_is_shown_in_full() {
    let (_world, kim) = told();
    for (subject, name) in
        [("base", "run"), ("out/step-10", "checkpoint"), ("digits.csv", "dataset"), ("model:start", "model")]
    {
        let output = kim.run(&["show", subject]);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
        output.matches(&format!("show/{name}"));
        let document = kim.json(&["show", subject]);
        assert_eq!(document["schema"], "ledger.show/1");
        let id = document["id"].as_str().unwrap();
        assert_eq!(output.stdout.lines().next(), Some(id));
    }
    let eval = kim.ok(&["ls", "evals", "--ids"]);
    kim.run(&["show", &eval]).matches("show/eval");
    kim.run(&["show", "base", "--raw"]).matches("show/raw");
    kim.run(&["show", "config.yaml"]).matches("show/config-file");
    kim.run(&["show", "nowhere"]).matches("show/nowhere");
    kim.lay("stranger", b"x");
    kim.run(&["show", "stranger"]).matches("show/stranger");
    kim.run(&["show", "zz"]).fails(3, "no-such-id");
}

#[test]
fn what_happened_is_listed_newest_first() {
    let (_world, kim) = told();
    let output = kim.run(&["log"]);
    output.matches("log/all");
    output.never_says("\u{1b}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(kim.ok(&["log", "-n", "2"]).lines().collect::<Vec<_>>(), lines[..2]);
    kim.run(&["log", "out/step-10"]).matches("log/checkpoint");
    let document = kim.json(&["log"]);
    assert_eq!(document["schema"], "ledger.log/1");
    assert_eq!(document["statements"].as_array().unwrap().len(), lines.len());
    let rows = kim.ok(&["log", "--jsonl", "-n", "3"]);
    assert!(rows.lines().all(|row| serde_json::from_str::<serde_json::Value>(row).is_ok()), "{rows}");
    assert_eq!(rows.lines().count(), 3);
}

#[test]
fn every_kind_is_listed() {
    let (_world, kim) = told();
    for what in ["runs", "checkpoints", "evals", "datasets", "models", "keys"] {
        kim.run(&["ls", what]).matches(&format!("ls/{what}"));
        let document = kim.json(&["ls", what]);
        assert_eq!(document["schema"], "ledger.ls/1");
        let ids = kim.ok(&["ls", what, "--ids"]);
        let rows: Vec<_> = document["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
        assert_eq!(ids.lines().collect::<Vec<_>>(), rows);
    }
    let evals = kim.json(&["ls", "evals"]);
    assert_eq!(evals["rows"][0]["metrics"]["accuracy"].as_f64(), Some(0.9), "numbers are numbers");
    assert_eq!(kim.json(&["ls", "checkpoints"])["rows"][0]["step"], 10);
    kim.run(&["ls", "nothing"]).matches("ls/nothing");
    let (_world, lee) = World::founded();
    assert_eq!(lee.ok(&["ls", "runs"]), "");
    assert_eq!(lee.json(&["ls", "runs"])["rows"], serde_json::json!([]));
}

#[test]
fn lineage_is_told_in_both_directions_and_drawn() {
    let (_world, kim) = told();
    let up = kim.run(&["trace", "out/step-10"]);
    up.matches("trace/up");
    up.never_says("eval:");
    assert_eq!(kim.run(&["trace", "out/step-10", "--up"]).stdout, up.stdout);
    let down = kim.run(&["trace", "data:train", "--down"]);
    down.matches("trace/down");
    down.never_says("cfg:");
    for flag in ["--mermaid", "--dot"] {
        kim.run(&["trace", "out/step-10", flag]).matches(&format!("trace/{}", &flag[2..]));
        let document = kim.json(&["trace", "out/step-10", flag]);
        assert_eq!(document["schema"], "ledger.trace/1");
        assert_eq!(document["nodes"][0]["label"], "out/step-10, step 10");
        assert_eq!(document["edges"][0]["from"], document["nodes"][0]["id"]);
    }
    kim.run(&["trace", "nowhere"]).fails(3, "no-such-id");
    kim.run(&["trace", "out/step-10", "--up", "--down"]).fails(2, "usage");
}

#[test]
fn the_bare_command_says_where_one_is_and_what_comes_next() {
    let (_world, kim) = World::project();
    kim.run(&[]).matches("status/new");
    let run = kim.id(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    kim.run(&[]).matches("status/planned");
    kim.ok(&["-q", "start", "base"]);
    kim.with("LEDGER_RUN", "base").run(&[]).matches("status/running");
    let document = kim.with("LEDGER_RUN", "base").json(&[]);
    assert_eq!(document["schema"], "ledger.status/1");
    assert_eq!(document["run"]["id"], run);
    kim.at(&kim.home).run(&[]).matches("status/nowhere");
    let (_world, kim) = World::trained();
    kim.run(&[]).matches("status/trained");
}
