//! `ledger freeze`: exactly one id on standard output, and what differs when a name is frozen twice.

use serde_json::json;

use crate::support::World;

#[test]
fn a_freeze_prints_the_id_and_tells_the_rest() {
    let (_world, kim) = World::project();
    let output = kim.run(&["freeze", "--name", "base", "--", "sh", "train.sh"]);
    output.matches("freeze/named");
    let run = kim.id(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
    assert_eq!(output.stdout, format!("{run}\n"));
    kim.run(&["freeze", "--name", "base", "--", "sh", "train.sh"]).matches("freeze/again");
    let dir = kim.project.join(".ledger/runs").join(run.strip_prefix("run:").unwrap());
    let config = std::fs::read_to_string(dir.join("frozen-config.json")).unwrap();
    assert_eq!(config, r#"{"optim":{"lr":0.1},"seed":7}"#);
    let other = kim.id(&["freeze", "--", "sh", "train.sh"]);
    assert_ne!(other, run, "a freeze without a name is a new run");
}

#[test]
fn a_name_that_is_frozen_differently_is_refused_with_both_values() {
    let (_world, kim) = World::project();
    let run = kim.id(&["freeze", "--name", "base", "--", "sh", "train.sh"]);
    let output = kim.run(&["freeze", "--name", "base", "--set", "optim.lr=0.2", "--", "sh", "train.sh"]);
    output.fails(4, "frozen-drift");
    output.matches("freeze/drift");
    kim.run(&["-q", "freeze", "--name", "base", "--", "sh", "other.sh"]).matches("freeze/drift-argv");
    assert_eq!(kim.ok(&["ls", "runs", "--ids"]), run, "nothing was planned by a refused freeze");
}

#[test]
fn a_dry_run_writes_nothing() {
    let (_world, kim) = World::project();
    kim.run(&["freeze", "--dry-run", "--", "sh", "train.sh"]).matches("freeze/dry-run");
    assert_eq!(kim.json(&["head"])["size"], 1);
    assert!(!kim.project.join(".ledger/runs").read_dir().is_ok_and(|mut runs| runs.next().is_some()));
    let would_be = kim.id(&["-q", "freeze", "--dry-run", "--name", "base", "--", "sh", "train.sh"]);
    assert_eq!(kim.id(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]), would_be);
}

#[test]
fn a_freeze_answers_as_json() {
    let (_world, kim) = World::project();
    let document = kim.json(&["freeze", "--name", "base", "--", "sh", "train.sh"]);
    assert_eq!(document["schema"], "ledger.freeze/1");
    assert_eq!(document["run"], kim.ok(&["ls", "runs", "--ids"]));
    let none: Vec<_> = document["parts"].as_array().unwrap().iter().map(|part| &part["none"]).collect();
    assert_eq!(document["parts"][0]["what"], "config");
    assert!(none.contains(&&json!("no base model was named")), "{document}");
    let document = kim.json(&["freeze", "--name", "base", "--", "sh", "other.sh"]);
    assert_eq!(document["schema"], "ledger.error/1");
    assert_eq!(document["findings"][0]["kind"], "frozen-drift");
    let dry = kim.json(&["freeze", "--dry-run", "--", "sh", "train.sh"]);
    assert_eq!(dry["run"], json!(null));
}

#[test]
fn wrong_flags_are_named() {
    let (_world, kim) = World::project();
    for (args, name) in [
        (&["freeze", "--data", "digits.csv", "--", "sh"][..], "freeze/data-without-role"),
        (&["freeze", "--name", "A b", "--", "sh"], "freeze/bad-name"),
        (&["freeze", "-c", "nowhere.yaml", "--", "sh"], "freeze/no-config"),
        (&["freeze", "-c", "digits.csv", "--", "sh"], "freeze/no-format"),
        (&["freeze", "--data", "train=nowhere", "--", "sh"], "freeze/no-data"),
        (&["freeze", "--data", "train=data:nowhere", "--", "sh"], "freeze/no-dataset"),
    ] {
        kim.run(args).matches(name);
    }
    assert_eq!(kim.json(&["head"])["size"], 1, "nothing was written");
    kim.with("LEDGER_MODE", "perhaps").run(&["freeze", "--", "sh"]).fails(2, "usage");
}

#[test]
fn a_higher_rank_prints_the_run_that_it_was_given() {
    let (_world, kim) = World::project();
    let rank = kim.with("RANK", "1");
    rank.run(&["freeze", "--", "sh", "train.sh"]).matches("freeze/rank");
    assert_eq!(rank.with("LEDGER_RUN", "run:abc").ok(&["freeze", "--", "sh"]), "run:abc");
    assert_eq!(kim.json(&["head"])["size"], 1);
}
