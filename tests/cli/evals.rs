//! Results of every harness, recorded and shown: what stands in the record is what its file says, digit for digit.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Person, World};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A ledger, the checkpoints that were evaluated where the harnesses found them, and the results in `evals`.
fn world() -> (World, Person) {
    let (world, kim) = World::founded();
    copy(&fixtures().join("evals"), &kim.project.join("evals"));
    let checkpoints = fixtures().join("checkpoints");
    copy(&checkpoints.join("hf-trainer/output"), &kim.project.join("output"));
    copy(&checkpoints.join("hf-resaved/older-transformers"), &kim.project.join("model"));
    (world, kim)
}

/// Records files, compares what is said with a snapshot, and returns the document of `show`.
fn recorded(kim: &Person, name: &str, files: &[&str], subject: &str) -> Value {
    let flags = [&["record", "eval"], files, &["--subject", subject]].concat();
    let output = kim.run(&flags);
    output.matches(&format!("evals/{name}"));
    assert_eq!(output.code, 0, "{output:?}");
    let id = output.stdout.trim_end();
    kim.run(&["show", id]).matches(&format!("evals/{name}-shown"));
    kim.json(&["show", id])
}

/// Each metric as name, value, standard error and number of samples.
fn metrics(shown: &Value) -> Value {
    let metrics = shown["record"]["metrics"].as_array().unwrap();
    metrics.iter().map(|m| json!([m["name"], m["value"], m["stderr"], m["n"]])).collect::<Vec<_>>().into()
}

const FULL: &str = "evals/lm-eval/full/output__checkpoint-10/results_2026-11-30T18-29-20.852703.json";
const LIMITED: &str = "evals/lm-eval/limit-5/output__checkpoint-10/results_2026-11-30T18-29-20.797607.json";
const OLDER: &str =
    "evals/lm-eval/older/checkpoints__hf-resaved__older-transformers/results_2026-11-30T18-34-16.320885.json";
const SUBJECT: &str = "output/checkpoint-10";

#[test]
fn lm_eval_is_recorded_with_its_task_and_settings() {
    let (_world, kim) = world();
    let shown = recorded(&kim, "lm-eval-full", &[FULL], SUBJECT);
    let acc = json!(["verbs/acc", "0.4166666666666667", "0.1486470975026408", 12]);
    let norm = json!(["verbs/acc_norm", "0.08333333333333333", "0.08333333333333331", 12]);
    assert_eq!(metrics(&shown), json!([acc, norm]));
    let record = &shown["record"];
    assert_eq!(record["metrics"][0]["better"], "higher");
    assert_eq!(record["harness"], json!({"name": "lm-eval", "version": "0.4.13"}));
    assert_eq!(record["seeds"], json!({"random": "0", "numpy": "1234", "torch": "1234", "fewshot": "1234"}));
    assert_eq!((&record["partial"], &record["reported_by"]), (&Value::Null, &Value::Null));
    let task = json!({
        "name": "verbs", "version": "1.0", "dataset": "json", "split": "test", "few_shot": 1, "samples": 12,
        "hash": "5c9dee2a057de6cffa6dc51cf31a4e17f8023152611f556027535c3820ce2ff3",
    });
    assert_eq!(shown["benchmark"]["tasks"], json!([task]));
}

#[test]
fn a_limit_makes_lm_eval_partial_and_its_older_form_says_the_same() {
    let (_world, kim) = world();
    let limited = recorded(&kim, "lm-eval-limit-5", &[LIMITED], SUBJECT);
    assert_eq!(metrics(&limited)[0], json!(["verbs/acc", "0.4", "0.24494897427831783", 5]));
    assert_eq!(limited["record"]["partial"], "limit 5.0; 5 of 12 samples of `verbs`");
    assert_eq!(limited["benchmark"]["tasks"][0]["samples"], 12);

    let older = recorded(&kim, "lm-eval-older", &[OLDER], "model");
    assert_eq!(metrics(&older)[0], json!(["verbs/acc", "0.16666666666666666", "0.11236664374387367", 12]));
    assert_eq!(older["record"]["harness"], json!({"name": "lm-eval"}), "it does not say its version");
    // Both versions of the harness name one benchmark, and a part of it is another.
    let full = kim.json(&["record", "eval", FULL, "--subject", SUBJECT]);
    let full = kim.json(&["show", full["id"].as_str().unwrap()]);
    assert_eq!(full["record"]["benchmark"], older["record"]["benchmark"]);
    assert_ne!(full["record"]["benchmark"], limited["record"]["benchmark"]);
}

#[test]
fn not_a_number_survives_and_an_error_that_cannot_be_had_is_none() {
    let (_world, kim) = world();
    let nan = "evals/lm-eval/nan/output__checkpoint-10/results_2026-11-30T18-29-56.906803.json";
    let shown = recorded(&kim, "lm-eval-nan", &[nan], SUBJECT);
    assert_eq!(metrics(&shown)[1], json!(["verbs_nan/calibration", "NaN", null, 12]));
    let id = shown["id"].as_str().unwrap();
    let listed = kim.json(&["ls", "evals"]);
    assert_eq!(listed["rows"][0]["id"], id, "{listed}");
    let none = kim.ok(&["-q", "ls", "evals", "--ids", "--where", "metrics['verbs_nan/calibration'] >= 0.0"]);
    assert_eq!(none, "", "no bar is passed by a value that is none");

    let two = "evals/lm-eval/no-samples/output__checkpoint-10/results_2026-11-30T18-29-56.846943.json";
    let shown = recorded(&kim, "lm-eval-no-samples", &[two], SUBJECT);
    let hashes: Vec<&Value> =
        shown["benchmark"]["tasks"].as_array().unwrap().iter().map(|task| &task["hash"]).collect();
    assert_eq!(hashes, [&Value::Null, &Value::Null], "without samples there is no hash");
}

#[test]
fn a_directory_stands_for_results_and_the_samples_beside_them() {
    let (_world, kim) = world();
    let shown = recorded(&kim, "lm-eval-directory", &["evals/lm-eval/full"], SUBJECT);
    assert_eq!(shown["record"]["results"].as_array().unwrap().len(), 2);
    // Two runs of one task are not one evaluation, and which is meant is not guessed.
    for folder in ["evals/lm-eval", "evals/inspect"] {
        let refused = kim.run(&["record", "eval", folder, "--subject", SUBJECT]);
        refused.fails(2, "bad-data");
        refused.matches(&format!("evals/conflict-{}", folder.rsplit('/').next().unwrap()));
    }
    kim.run(&["record", "eval", "model", "--subject", "model"]).matches("evals/no-results-in-directory");
    // In which order files are named says nothing.
    let order = |a, b| kim.ok(&["-q", "record", "eval", a, b, "--subject", SUBJECT]);
    let samples = FULL.replace("results_", "samples_verbs_") + "l";
    assert_eq!(order(FULL, &samples), order(&samples, FULL));
    assert_eq!(order(FULL, FULL), kim.ok(&["-q", "record", "eval", FULL, "--subject", SUBJECT]));
}

#[test]
fn inspect_is_whole_by_its_completed_samples_and_not_by_its_data_set() {
    let (_world, kim) = world();
    let log = |name: &str| format!("evals/inspect/2026-11-30T18-34-{name}");
    let whole = log("22-00-00_addition_ftGv945UCWooHKiXmAw3iJ.eval");
    let shown = recorded(&kim, "inspect", &[&whole], SUBJECT);
    let accuracy = json!(["addition/match/accuracy", "0.6666666666666666", "0.210818510677892", 6]);
    assert_eq!((metrics(&shown), &shown["record"]["partial"]), (json!([accuracy]), &Value::Null));
    assert_eq!(shown["record"]["harness"], json!({"name": "inspect", "version": "0.3.285"}));
    for (name, file) in [
        ("inspect-limit", "23-00-00_addition_CP8nYH98gDN2B4JmkHhxX7.eval"),
        ("inspect-json", "23-00-00_addition_T2jSae3mMrLkKUVWTLvQBg.json"),
    ] {
        let shown = recorded(&kim, name, &[&log(file)], SUBJECT);
        assert_eq!(metrics(&shown), json!([["addition/match/accuracy", "1.0", "0.0", 3]]));
        assert_eq!(shown["record"]["partial"], "limit 3; 3 of 6 samples");
        assert_eq!(shown["benchmark"]["tasks"][0]["samples"], 6, "the data set is the whole one");
    }
    let nan = log("23-00-00_addition-nan_4Jdr3nWnwFGV4y5uidRWEo.eval");
    let shown = recorded(&kim, "inspect-nan", &[&nan], SUBJECT);
    assert_eq!(metrics(&shown), json!([["addition_nan/undefined/mean", "NaN", "NaN", 0]]));
    assert_eq!(shown["record"]["partial"], "0 of 6 samples scored by `undefined`");

    let before = kim.ok(&["-q", "ls", "evals", "--ids"]);
    let failed = log("24-00-00_addition-error_D3zV6EGdoce3K6inrjhAeP.eval");
    let refused = kim.run(&["record", "eval", &failed, "--subject", SUBJECT]);
    refused.fails(3, "no-results");
    refused.matches("evals/inspect-error");
    assert_eq!(before, kim.ok(&["-q", "ls", "evals", "--ids"]), "a failure is no evaluation");
}

#[test]
fn lighteval_is_partial_by_its_own_limit() {
    let (_world, kim) = world();
    let shown = recorded(&kim, "lighteval", &["evals/lighteval"], "model");
    assert_eq!(metrics(&shown), json!([["verbs|0/acc", "0.0", "0.0", null]]), "`all` is no task");
    let record = &shown["record"];
    assert_eq!(
        (&record["partial"], &record["decoding"]["temperature"]),
        (&json!("max_samples 6"), &json!("0"))
    );
    assert_eq!(record["results"].as_array().unwrap().len(), 2, "details lie beside");
    let task = json!({"name": "verbs|0", "version": "1", "hash": "ce6fcec82257d5e1", "dataset": "data",
        "subset": "default", "split": "test", "few_shot": 0});
    assert_eq!(shown["benchmark"]["tasks"], json!([task]));
}

#[test]
fn what_the_training_says_of_itself_says_so() {
    let (_world, kim) = world();
    let shown = recorded(&kim, "hf-trainer", &["evals/hf-trainer-results/eval_results.json"], SUBJECT);
    assert_eq!(
        metrics(&shown),
        json!([["eval_loss", "3.6035640239715576", null, null]]),
        "timings are no results"
    );
    assert_eq!(shown["record"]["reported_by"], "training");
    assert!(shown["label"].as_str().unwrap().contains("self-reported"), "{shown}");
    let shown = recorded(&kim, "hf-trainer-directory", &["evals/hf-trainer-results"], SUBJECT);
    let train = json!(["train_loss", "4.000160336494446", null, null]);
    assert_eq!(metrics(&shown)[1], train);
    let apart = kim.ok(&["-q", "ls", "evals", "--ids", "--where", "reported_by == null"]);
    assert_eq!(apart, "", "a filter keeps them apart");
}

#[test]
fn claims_are_imported_and_are_no_evaluation() {
    let (_world, kim) = world();
    let card = "evals/model-card/README.md";
    for (name, file, format, claims) in [
        (
            "model-card",
            card,
            "model-card",
            json!([["accuracy", "0.4166666666666667"], ["perplexity", "NaN"]]),
        ),
        (
            "hub",
            "evals/hub-eval-results/.eval_results/verbs.yaml",
            "hub-eval-results",
            json!([[null, "0.4166666666666667"]]),
        ),
    ] {
        let shown = recorded(&kim, name, &[file], SUBJECT);
        assert!(shown["id"].as_str().unwrap().starts_with("import:"), "{shown}");
        let record = &shown["record"];
        let found: Vec<Value> =
            record["claims"].as_array().unwrap().iter().map(|c| json!([c["metric"], c["value"]])).collect();
        assert_eq!((&record["format"], json!(found)), (&json!(format), claims));
        let task = &record["claims"][0]["task"];
        assert_eq!(task["dataset"], "acme/verbs");
        assert_eq!(task["revision"], "5f3c1e0d9b7a48266c1d2e3f4051627384950a1b");
        assert_eq!(record["claims"][0]["source"], "https://results.example/verbs");
    }
    assert_eq!(kim.ok(&["-q", "ls", "evals", "--ids"]), "", "nobody who asks for evaluations meets them");
    kim.run(&["record", "eval", card, "--subject", SUBJECT]).matches("evals/model-card-again");

    // Where a harness ran, a card is none of its results.
    let observed = ["eval", "--subject", SUBJECT, "--results", "claim/*", "--", "sh", "-c"];
    let script = format!("mkdir claim && cp {card} claim");
    let kim = kim.with("PATH", "/usr/local/bin:/usr/bin:/bin");
    let refused = kim.run(&[&observed[..], &[&script]].concat());
    refused.fails(4, "claims-only");
    refused.matches("evals/claims-only");
    let mixed = kim.run(&["record", "eval", card, FULL, "--subject", SUBJECT]);
    mixed.fails(4, "claims-only");
    let fsck = kim.run(&["fsck"]);
    assert_eq!(fsck.code, 0, "{fsck:?}");
}

#[test]
fn an_import_hangs_on_the_checkpoint_that_it_is_about() {
    let (_world, kim) = world();
    let checkpoint = kim.id(&["-q", "record", "checkpoint", SUBJECT, "--run", "none"]);
    let card = kim.id(&["-q", "record", "eval", "evals/model-card/README.md", "--subject", &checkpoint]);
    let shown = kim.json(&["show", &checkpoint]);
    let below: Vec<&Value> = shown["below"].as_array().unwrap().iter().map(|below| &below["id"]).collect();
    assert_eq!(below, [card.as_str()]);
    kim.run(&["show", &checkpoint]).matches("evals/checkpoint-with-claims");
}

#[test]
fn a_file_that_speaks_of_other_weights_is_told_and_binds_nothing() {
    let (_world, kim) = world();
    let other = kim.run(&["record", "eval", FULL, "--subject", "model"]);
    other.matches("evals/other-path");
    assert!(other.stderr.contains("says it measured `output/checkpoint-10`"), "{other:?}");
    let same = kim.run(&["record", "eval", FULL, "--subject", SUBJECT]);
    same.never_says("says it measured");
    let unbound = kim.run(&["record", "eval", FULL]);
    unbound.fails(3, "unbound-eval");
    unbound.matches("evals/unbound");
}

#[test]
fn numbers_are_taken_from_places_in_json_tables_and_logs() {
    let (_world, kim) = world();
    kim.lay("scores.csv", b"split,acc,loss\ndev,0.10,nan\ntest,0.250,1e-3\n");
    let csv = ["record", "eval", "scores.csv", "--subject", SUBJECT, "--benchmark", "verbs"];
    kim.run(&csv).matches("evals/table-without-metric");
    let flags = [&csv[..], &["--metric", "acc=test.acc", "--metric", "dev_loss=dev.loss"]].concat();
    let id = kim.ok(&[&["-q"], &flags[..]].concat());
    let shown = kim.json(&["show", &id]);
    assert_eq!(metrics(&shown), json!([["acc", "0.250", null, null], ["dev_loss", "NaN", null, null]]));
    let none = kim.run(&[&csv[..], &["--metric", "acc=train.acc"]].concat());
    none.fails(2, "bad-data");
    none.matches("evals/table-no-such-row");
    let log = "evals/inspect/2026-11-30T18-34-22-00-00_addition_ftGv945UCWooHKiXmAw3iJ.eval";
    let metric = "acc=results.scores.0.metrics.accuracy.value";
    let id = kim.ok(&["-q", "record", "eval", log, "--metric", metric, "--subject", SUBJECT]);
    let shown = kim.json(&["show", &id]);
    assert_eq!(metrics(&shown), json!([["acc", "0.6666666666666666", null, null]]));
    let twice = ["--metric", metric, "--metric", metric];
    kim.run(&[&["record", "eval", log, "--subject", SUBJECT][..], &twice].concat()).fails(2, "bad-data");
}

#[test]
fn an_observed_evaluation_may_write_a_directory() {
    let (_world, kim) = world();
    let kim = kim.with("PATH", "/usr/local/bin:/usr/bin:/bin");
    let run =
        |script: &str| kim.run(&["eval", "--subject", SUBJECT, "--results", "out", "--", "sh", "-c", script]);
    let output = run("mkdir -p out && cp -r evals/lm-eval/full/* out");
    output.matches("evals/observed");
    let shown = kim.json(&["show", output.stdout.trim_end()]);
    assert_eq!(shown["record"]["binding"], "observed");
    assert_eq!(shown["record"]["results"].as_array().unwrap().len(), 2);
    // What lay there before is not what the command wrote.
    run("true").fails(3, "no-results");
}

#[test]
fn numbers_that_a_float_or_json_would_bend_stay_as_they_were_written() {
    let (_world, kim) = world();
    let written = [
        ("beyond", "1e400"),
        ("digits", "0.1000000000000000055511151231257827"),
        ("down", "-Infinity"),
        ("large", "9007199254740993"),
        ("none", "NaN"),
        ("tiny", "1e-320"),
        ("up", "Infinity"),
        ("zero", "-0.0"),
    ];
    let members: Vec<String> = written.iter().map(|(name, text)| format!("\"{name}\": {text}")).collect();
    kim.lay("r.json", format!("{{\"task\": \"t\", \"metrics\": {{{}}}}}", members.join(", ")).as_bytes());
    let id = kim.ok(&["-q", "record", "eval", "r.json", "--subject", SUBJECT]);
    let expected: Vec<Value> = written.iter().map(|(name, text)| json!([name, text, null, null])).collect();
    assert_eq!(metrics(&kim.json(&["show", &id])), Value::from(expected));
    // Each bar is asked about the number, and none is passed by what is no number.
    for (bar, passes) in [
        ("metrics.up > 1e308", true),
        ("metrics.down < -1e308", true),
        ("metrics.tiny > 0.0", true),
        ("metrics.zero == 0.0", true),
        ("metrics.large > 9007199254740992", true),
        ("metrics.none < 1e308 || metrics.none >= 1e308", false),
        ("metrics.none != 0.0", false),
    ] {
        let found = kim.ok(&["-q", "ls", "evals", "--ids", "--where", bar]);
        assert_eq!(found == id, passes, "{bar}: {found}");
    }
}
