//! Checkpoints, evaluations and names: said again they are the same, and what changed meanwhile is refused.

use crate::scene::{PATH, claimed, lay_weights, project, refused, size};
use crate::support::{Output, Person, World};

#[test]
fn recording_a_checkpoint_again_gives_the_same_id() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    kim.ok(&["start", &run]);
    lay_weights(&kim, "out/step-10", 1);
    let id = kim.ok(&["record", "checkpoint", "out/step-10", "--run", &run]);
    assert!(id.starts_with("ck:"), "{id}");
    let before = size(&kim);
    for _ in 0..2 {
        assert_eq!(kim.ok(&["record", "checkpoint", "out/step-10", "--run", &run]), id);
    }
    assert_eq!(size(&kim), before);
    lay_weights(&kim, "out/step-10", 2);
    assert_ne!(kim.ok(&["record", "checkpoint", "out/step-10", "--run", &run]), id);
}

#[test]
fn a_checkpoint_belongs_to_a_run_that_was_under_way_or_to_one_that_is_named() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    let file =
        std::fs::File::options().write(true).open(kim.project.join("out/ck/model.safetensors")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    refused(&kim.run(&["record", "checkpoint", "out/ck"]), 2, "which-run");
    kim.ok(&["record", "checkpoint", "out/ck", "--run", "none"]);
}

/// The flags of an evaluation of `out/ck` by a shell's command line.
fn evaluate(kim: &Person, script: &str) -> Output {
    kim.run(&["eval", "--subject", "out/ck", "--results", "results/*.json", "--", "sh", "-c", script])
}

#[test]
fn an_evaluation_is_bound_to_what_lay_there_before_and_after() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    kim.lay("results/old.json", b"{\"accuracy\": 0.1}");
    let script = "echo '{\"benchmark\": \"digits\", \"accuracy\": 0.9750}' > results/new.json";
    let output = evaluate(&kim, script);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("digits: accuracy 0.9750 (observed)"), "{output:?}");
    let id = output.stdout.trim().to_owned();
    assert!(id.starts_with("eval:"), "{id}");
    let record = String::from_utf8_lossy(&kim.command(&["cat", &id]).output().unwrap().stdout).into_owned();
    assert!(record.contains("observed") && record.contains("0.9750"), "{record}");

    let asserted = kim.run(&["record", "eval", "results/new.json", "--subject", "out/ck"]);
    assert_eq!(asserted.code, 0, "{asserted:?}");
    assert!(asserted.stderr.contains("(asserted)"), "only what was watched is observed: {asserted:?}");
    assert_ne!(asserted.stdout.trim(), id);
    refused(&kim.run(&["record", "eval", "results/new.json"]), 3, "unbound-eval");
}

#[test]
fn an_evaluation_whose_subject_changed_is_refused() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    lay_weights(&kim, "out/other", 2);
    let script = "cp out/other/* out/ck/; mkdir -p results; echo '{\"accuracy\": 1}' > results/r.json";
    let output = evaluate(&kim, script);
    assert!(refused(&output, 4, "subject-changed").contains("before  weights"), "{output:?}");
    assert_eq!(claimed(&kim, "eval").len(), 0);
}

#[test]
fn an_evaluation_that_failed_or_wrote_nothing_is_not_recorded() {
    let (_world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    kim.lay("results/old.json", b"{\"accuracy\": 0.1}");
    let failed = evaluate(&kim, "echo '{\"accuracy\": 1}' > results/r.json; exit 5");
    assert_eq!((failed.code, failed.stdout.as_str()), (5, ""), "{failed:?}");
    refused(&evaluate(&kim, "true"), 3, "no-results");
    assert_eq!(claimed(&kim, "eval").len(), 0);
}

/// Adds a second person to a ledger, by the three steps of joining.
fn join(world: &World, kim: &Person, name: &str) -> Person {
    let lou = world.person(name).with("PATH", PATH);
    lou.ok(&["key", "new"]);
    let request = lou.ok(&["key", "show", "--request"]);
    kim.ok(&["key", "add", &request]);
    let ledger = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    lou.ok(&["key", "trust", &ledger]);
    lou
}

#[test]
fn a_name_belongs_to_whoever_was_first() {
    let (world, kim) = project();
    lay_weights(&kim, "out/ck", 1);
    let lou = join(&world, &kim, "lou");
    lay_weights(&kim, "out/other", 2);
    let run = kim.ok(&["freeze", "--name", "one"]);
    kim.ok(&["record", "dataset", "data", "--name", "digits"]);
    kim.ok(&["record", "checkpoint", "out/ck", "--run", "none", "--name", "best"]);
    for args in [
        &["freeze", "--name", "one"][..],
        &["record", "dataset", "out/other", "--name", "digits"],
        &["record", "checkpoint", "out/other", "--run", "none", "--name", "best"],
    ] {
        let output = lou.run(args);
        assert!(refused(&output, 4, "name-held").contains("kim"), "{args:?} {output:?}");
    }
    assert_eq!(kim.ok(&["freeze", "--name", "one"]), run, "the name still stands for what its holder said");
    assert_ne!(lou.ok(&["freeze", "--name", "two"]), run);
    kim.lay("data/more.csv", b"5,6\n");
    let second = kim.ok(&["record", "dataset", "data", "--name", "digits"]);
    assert!(second.starts_with("data:"), "its holder makes the next version: {second}");
}
