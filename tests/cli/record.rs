//! `ledger record`: exactly the new id on standard output; nothing is guessed that could be wrong.

use crate::support::{World, safetensors};

#[test]
fn a_checkpoint_is_recorded_of_a_run_that_is_named_or_was_under_way() {
    let (_world, kim) = World::trained();
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    let output = kim.run(&["record", "checkpoint", "out/step-20", "--run", "base", "--name", "final"]);
    output.matches("record/checkpoint");
    kim.run(&["record", "checkpoint", "out/step-20", "--run", "base", "--name", "final"])
        .matches("record/checkpoint-again");
    let document = kim.json(&["record", "checkpoint", "out/step-20", "--run", "base", "--step", "21"]);
    assert_eq!(document["schema"], "ledger.record/1");
    assert_ne!(document["id"], output.stdout.trim_end());
    assert_eq!(document["run"], kim.ok(&["ls", "runs", "--ids"]));
}

#[test]
fn a_checkpoint_of_no_known_run_is_refused_unless_it_is_said_so() {
    let (_world, kim) = World::founded();
    kim.lay("out/model.safetensors", &safetensors(1.0));
    let output = kim.run(&["record", "checkpoint", "out"]);
    output.fails(2, "which-run");
    output.matches("record/which-run");
    kim.run(&["record", "checkpoint", "out", "--run", "none"]).matches("record/of-nobody");
}

#[test]
fn a_torn_checkpoint_is_not_recorded() {
    let (_world, kim) = World::trained();
    let whole = safetensors(2.0);
    kim.lay("out/step-20/model.safetensors", &whole[..whole.len() - 1]);
    let output = kim.run(&["record", "checkpoint", "out/step-20", "--run", "base"]);
    output.fails(3, "incomplete-checkpoint");
    output.matches("record/incomplete");
    kim.run(&["record", "checkpoint", "nowhere", "--run", "base"]).matches("record/nowhere");
    assert_eq!(kim.ok(&["ls", "checkpoints", "--ids"]).lines().count(), 1);
}

#[test]
fn an_evaluation_says_which_weights_it_measured() {
    let (_world, kim) = World::trained();
    kim.lay("result.json", b"{\"accuracy\": 0.9, \"nested\": {\"f1\": 0.5}}");
    let output = kim.run(&["record", "eval", "result.json"]);
    output.fails(3, "unbound-eval");
    output.matches("record/unbound-eval");
    let flags = ["record", "eval", "result.json", "--subject", "out/step-10", "--benchmark", "digits"];
    kim.run(&flags).matches("record/eval");
    kim.run(&flags).matches("record/eval-again");
    kim.run(&[&flags[..], &["--metric", "f1=nested.f1"]].concat()).matches("record/eval-metric");
    kim.run(&[&flags[..], &["--metric", "f1=nowhere"]].concat()).matches("record/eval-no-metric");
    kim.lay("empty.json", b"[");
    kim.run(&["record", "eval", "empty.json", "--subject", "out/step-10"]).matches("record/eval-bad");
    assert_eq!(kim.json(&flags)["schema"], "ledger.record/1");
}

#[test]
fn data_and_models_are_recorded_by_name_and_version() {
    let (_world, kim) = World::project();
    let flags = ["record", "dataset", "digits.csv", "--name", "train", "--licence", "CC0"];
    kim.run(&flags).matches("record/dataset");
    kim.run(&flags).matches("record/dataset-again");
    kim.lay("digits.csv", b"1,2\n3,4\n");
    kim.ok(&["-q", "record", "dataset", "digits.csv", "--name", "train"]);
    kim.lay("llama/model.safetensors", &safetensors(1.0));
    kim.run(&["record", "model", "llama", "--name", "llama"]).matches("record/model");
    kim.run(&["ls", "datasets"]).matches("record/ls-datasets");
    kim.run(&["ls", "models"]).matches("record/ls-models");
    assert!(kim.json(&["record", "model", "llama", "--name", "llama"])["id"].is_string());
    kim.run(&["freeze", "--data", "train=data:train@1", "--base", "policy=model:llama", "--", "sh"])
        .matches("record/frozen-by-name");
}

#[test]
fn a_note_may_be_about_anything_that_is_there() {
    let (_world, kim) = World::trained();
    kim.run(&["record", "note", "base", "-m", "node lost its disk"]).matches("record/note");
    kim.run(&["record", "note", "nowhere", "-m", "x"]).matches("record/note-nowhere");
    assert!(kim.json(&["record", "note", "base", "-m", "again"])["id"].is_string());
    kim.with("RANK", "2").run(&["record", "note", "base", "-m", "x"]).matches("record/rank");
    kim.with("LEDGER_MODE", "off").run(&["record", "note", "base", "-m", "x"]).matches("record/off");
    let warned = kim.with("LEDGER_MODE", "warn").run(&["record", "note", "nowhere", "-m", "x"]);
    warned.matches("record/warn");
}
