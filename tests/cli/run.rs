//! `ledger run`, `start`, `end` and `eval`: the command's exit code, what is recorded, and what is refused.

use serde_json::json;

use crate::support::{World, safetensors};

#[test]
fn a_run_returns_what_the_command_returns() {
    let (_world, kim) = World::project();
    let script = "echo training; test -n \"$LEDGER_RUN\" && test -d \"$LEDGER_RUN_DIR\"";
    kim.run(&["run", "--", "sh", "-c", script]).matches("run/completed");
    let output = kim.run(&["run", "--", "sh", "-c", "echo diverged >&2; exit 9"]);
    output.matches("run/failed");
    assert_eq!(output.stdout, "", "standard output is the command's own");
    kim.run(&["-q", "run", "--", "./nowhere"]).matches("run/no-command");
    let signalled = kim.run(&["-q", "run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(signalled.code, 137);
    kim.run(&["ls", "runs"]).matches("run/ls");
    let document = kim.json(&["run", "--", "sh", "-c", "exit 3"]);
    assert_eq!((&document["schema"], &document["status"]), (&json!("ledger.run/1"), &json!("failed")));
    assert_eq!(document["exit"], 3);
}

#[test]
fn a_frozen_run_is_started_and_records_what_it_wrote() {
    let (_world, kim) = World::project();
    kim.ok(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    kim.lay("weights", &safetensors(1.0));
    let script = "mkdir -p out/step-9 out/step-10 && cp weights out/step-9/model.safetensors &&
        cp weights out/step-10/model.safetensors && echo '{\"accuracy\": 0.5}' > result.json";
    let flags = ["run", "base", "--checkpoints", "out/step-*", "--results", "result.json", "--", "sh", "-c"];
    let output = kim.run(&[&flags[..], &[script]].concat());
    output.matches("run/records");
    assert!(output.stderr.find("step 9").unwrap() < output.stderr.find("step 10").unwrap());
    kim.run(&["ls", "evals"]).matches("run/ls-evals");
    let output = kim.run(&["run", "base", "--", "sh", "-c", "echo never"]);
    output.never_says("never").fails(4, "completed");
    output.matches("run/again");
}

#[test]
fn start_refuses_what_is_not_what_was_frozen() {
    let (_world, kim) = World::project();
    kim.ok(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    kim.lay("config.yaml", b"optim:\n  lr: 0.2\nseed: 7\n");
    kim.lay("digits.csv", b"1,3,5\n");
    let size = kim.json(&["head"])["size"].clone();
    let output = kim.run(&["start", "base"]);
    output.fails(4, "frozen-drift");
    output.matches("start/drift");
    assert_eq!(kim.json(&["start", "base"])["findings"][0]["kind"], "frozen-drift");
    assert_eq!(kim.json(&["head"])["size"], size, "a refused start states nothing");
    kim.lay("config.yaml", b"optim:\n  lr: 0.1\nseed: 7\n");
    kim.run(&["start", "base"]).matches("start/drift-data");
    kim.lay("digits.csv", b"1,2\n");
    let output = kim.run(&["start", "base"]);
    output.matches("start/ok");
    output.never_says("drift");
    kim.run(&["start", "base"]).matches("start/lost");
    kim.run(&["start"]).matches("start/which");
    kim.run(&["start", "nowhere"]).matches("start/nowhere");
}

#[test]
fn an_attempt_ends_once() {
    let (_world, kim) = World::project();
    kim.ok(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    kim.run(&["end", "base"]).matches("end/not-started");
    kim.ok(&["-q", "start", "base"]);
    kim.run(&["end", "base", "--status", "failed", "--reason", "loss diverged"]).matches("end/failed");
    kim.run(&["end", "base", "--status", "failed"]).matches("end/again");
    let output = kim.run(&["end", "base"]);
    output.fails(4, "already-ended");
    output.matches("end/otherwise");
    kim.ok(&["-q", "start", "base"]);
    let document = kim.with("LEDGER_RUN", "base").json(&["end"]);
    assert_eq!((&document["schema"], &document["status"]), (&json!("ledger.end/1"), &json!("completed")));
    kim.run(&["start", "base"]).matches("start/completed");
    assert_eq!(kim.json(&["start", "base", "--again"])["schema"], "ledger.start/1");
}

#[test]
fn a_project_below_the_ledger_is_the_same_from_everywhere() {
    let (_world, kim) = World::founded();
    kim.lay("exp/config.yaml", b"lr: 0.1\n");
    kim.lay("exp/digits.csv", b"1,2\n");
    kim.lay("exp/ledger.toml", b"config = [\"config.yaml\"]\ndata = { train = \"digits.csv\" }\n");
    let below = kim.at(&kim.project.join("exp"));
    below.ok(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    for person in [&kim, &below] {
        person.ok(&["-q", "start", "base", "--check", "full"]);
    }
    kim.lay("out/model.safetensors", &safetensors(1.0));
    kim.ok(&["-q", "record", "checkpoint", "out", "--run", "base"]);
    kim.ok(&["-q", "end", "base"]);
    for (person, path) in [(&kim, "out"), (&below, "../out")] {
        let found = person.json(&["verify", path, "--data"]);
        let data = found["findings"].as_array().unwrap().iter().find(|one| one["kind"] == "data").unwrap();
        assert_eq!((&data["severity"], found["exit"].as_i64()), (&json!("ok"), Some(0)), "{found}");
    }
    kim.lay("exp/digits.csv", b"1,3\n");
    let found = kim.run(&["verify", "out", "--data"]);
    assert_eq!(found.code, 1, "{found:?}");
    kim.lay("exp/config.yaml", b"lr: 0.2\n");
    for person in [&kim, &below] {
        let output = person.run(&["start", "base", "--again"]);
        output.fails(4, "frozen-drift");
        assert!(output.stderr.contains("lr") && output.stderr.contains("data train"), "{output:?}");
    }
}

#[test]
fn an_evaluation_is_bound_to_the_weights_that_lay_there() {
    let (_world, kim) = World::trained();
    let script = "echo measuring; echo '{\"accuracy\": 0.9}' > results.json";
    let flags = ["eval", "--subject", "out/step-10", "--benchmark", "digits", "--results", "results*.json"];
    let flags = [&flags[..], &["--", "sh", "-c"]].concat();
    kim.run(&[&flags[..], &[script]].concat()).matches("eval/observed");
    let output = kim.run(&[&flags[..], &["true"]].concat());
    output.fails(3, "no-results");
    output.matches("eval/no-results");
    kim.run(&[&flags[..], &["exit 5"]].concat()).matches("eval/failed");
    kim.lay("other", &safetensors(2.0));
    let moves = "echo '{\"accuracy\": 1}' > results.json; cp other out/step-10/model.safetensors";
    let output = kim.run(&[&flags[..], &[moves]].concat());
    output.fails(4, "subject-changed");
    output.matches("eval/changed");
    assert_eq!(kim.ok(&["ls", "evals", "--ids"]).lines().count(), 1, "only one was recorded");
    kim.lay("out/step-10/model.safetensors", &safetensors(1.0));
    let silent = "echo '{\"accuracy\": 0.7}' > results.json";
    let document = kim.json(&[&flags[..], &[silent]].concat());
    assert_eq!(document["schema"], "ledger.eval/1");
    assert!(document["id"].as_str().unwrap().starts_with("eval:"), "{document}");
}
