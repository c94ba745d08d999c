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
fn lists_are_filtered_sorted_and_shown_as_asked() {
    let (_world, kim) = told();
    kim.lay("worse.json", b"{\"accuracy\": 0.25, \"loss\": NaN}");
    kim.lay("whole.json", b"{\"accuracy\": 1, \"steps\": 7}");
    for file in ["worse.json", "whole.json"] {
        kim.ok(&["-q", "record", "eval", file, "--subject", "out/step-10", "--benchmark", "digits"]);
    }
    let filtered = |what: &str, filter: &str| {
        let document = kim.json(&["ls", what, "--where", filter]);
        (document["rows"].as_array().unwrap().len(), document["unanswered"].as_u64().unwrap())
    };
    assert_eq!(filtered("evals", "metrics.accuracy > 0.5"), (2, 0));
    assert_eq!(filtered("evals", "metrics.accuracy >= 1"), (1, 0), "a whole number is a number");
    assert_eq!(filtered("evals", "has(metrics.steps) && metrics.steps > 6.5"), (1, 0));
    assert_eq!(
        filtered("evals", "metrics.loss < 1e9 || metrics.loss != 3.0"),
        (0, 3),
        "no number, no answer"
    );
    assert_eq!(filtered("evals", "binding == 'asserted' && benchmark == 'digits'"), (3, 0));
    assert_eq!(filtered("runs", "status == 'completed' && name == 'base'"), (1, 0));
    assert_eq!(filtered("runs", "status == 'failed'"), (0, 0));
    assert_eq!(filtered("checkpoints", "step == 10 && run.startsWith('run:')"), (1, 0));
    assert_eq!(filtered("keys", "'author' in roles"), (1, 0));
    assert_eq!(filtered("datasets", "name == 'train@1' && time > '2000-01-01'"), (1, 0));

    let accuracies = |sort: &str| -> Vec<f64> {
        let rows = kim.json(&["ls", "evals", "--sort", sort, "--columns", "metrics.accuracy,by"]);
        let rows = rows["rows"].as_array().unwrap().clone();
        assert!(rows.iter().all(|row| row.get("binding").is_none() && row["by"].is_string()), "{rows:?}");
        rows.iter().map(|row| row["metrics.accuracy"].as_f64().unwrap()).collect()
    };
    assert_eq!(accuracies("metrics.accuracy"), [0.25, 0.9, 1.0]);
    assert_eq!(accuracies("-metrics.accuracy"), [1.0, 0.9, 0.25]);

    kim.run(&["ls", "evals", "--where", "metrics.steps > 1"]).matches("ls/unanswered");
    kim.run(&["ls", "runs", "--where", "statsu == 'failed'"]).matches("ls/unknown-field");
    kim.run(&["ls", "runs", "--where", "true || lower(name) == 'x'"]).matches("ls/unknown-function");
    kim.run(&["ls", "runs", "--where", "status =="]).matches("ls/no-expression");
    for args in [&["--sort", "nothing"][..], &["--columns", "id,nothing"], &["--columns", "id.x"]] {
        kim.run(&[&["ls", "runs"], args].concat()).fails(2, "bad-expression");
    }
    let output = kim.run(&["ls", "evals", "--where", "metrics.accuracy"]);
    assert!(output.stderr.contains("not yes or no") && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_lineage_is_narrowed_to_a_way_or_a_kind() {
    let (_world, kim) = told();
    let run = kim.run(&["trace", "out/step-10", "--to", "base"]);
    run.matches("trace/to");
    run.never_says("data:");
    let document = kim.json(&["trace", "base", "--down", "--kind", "ck"]);
    let kinds: Vec<_> = document["nodes"].as_array().unwrap().iter().map(|node| &node["kind"]).collect();
    assert_eq!(kinds, ["plan", "checkpoint"]);
    assert_eq!(
        document["edges"].as_array().unwrap().len(),
        1,
        "what lay between is left out, the way is not"
    );
    kim.run(&["trace", "base", "--down", "--kind", "eval"]).matches("trace/kind");
    kim.run(&["trace", "base", "--to", "out/step-10"]).fails(1, "no-way");
    assert_eq!(kim.run(&["trace", "base", "--down", "--to", "out/step-10"]).code, 0);
    kim.run(&["trace", "base", "--kind", "nothing"]).fails(2, "usage");
}

#[test]
fn what_was_read_instead_of_an_index_is_said_when_asked() {
    let (_world, kim) = told();
    let output = kim.run(&["-v", "trace", "base", "--down"]);
    assert!(output.stderr.contains("without an index"), "{output:?}");
    let output = kim.run(&["trace", "base", "--down"]);
    assert!(!output.stderr.contains("index"), "{output:?}");
    assert_eq!(kim.run(&["fsck", "--reindex"]).code, 0);
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
