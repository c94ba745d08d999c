//! What is frozen is what starts: files, names, drift, dirty trees, attempts, and jobs that are requeued.

use crate::scene::{PATH, claimed, git, lay_weights, project, refused, run_dir, size};
use crate::support::{Output, Person};

#[test]
fn the_frozen_config_is_the_config_in_value_and_type() {
    let (_world, kim) = project();
    let text = r#"{"z": 1.0, "a": 1, "big": 123456789012345678901234567890, "tiny": 1e-7, "exp": 1E2,
        "neg": -0.0, "t": true, "n": null, "s": "a\u00e9\n\"", "list": [1, 1.5, "x", []], "map": {"b": {}, "a": 2}}"#;
    kim.lay("config.json", text.as_bytes());
    let run = kim.ok(&["freeze", "-c", "config.json"]);
    let frozen = std::fs::read_to_string(run_dir(&kim, &run).join("frozen-config.json")).unwrap();
    assert_eq!(
        frozen,
        "{\"a\":1,\"big\":123456789012345678901234567890,\"exp\":100.0,\"list\":[1,1.5,\"x\",[]],\
         \"map\":{\"a\":2,\"b\":{}},\"n\":null,\"neg\":-0.0,\"s\":\"a\u{e9}\\n\\\"\",\"t\":true,\"tiny\":1e-07,\"z\":1.0}"
    );
}

#[test]
fn the_manifest_says_planned_and_names_everything_frozen() {
    let (_world, kim) = project();
    kim.lay("base/model.bin", b"base");
    let run = kim.ok(&["freeze", "--base", "policy=base", "--", "python", "train.py"]);
    let dir = run_dir(&kim, &run);
    let manifest = std::fs::read(dir.join("run-manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["status"], "planned");
    assert_eq!(manifest["trained"], false);
    assert_eq!(manifest["run"], run);
    assert_eq!(manifest["argv"], serde_json::json!(["python", "train.py"]));
    for (part, prefix) in [
        ("config", "cfg:"),
        ("code", "code:"),
        ("environment", "env:"),
        ("data train", "data:"),
        ("base policy", "model:"),
    ] {
        let id = manifest["frozen"][part]["id"].as_str().unwrap_or_else(|| panic!("{part}: {manifest}"));
        assert!(id.starts_with(prefix) && id.len() == prefix.len() + 64, "{part}: {id}");
    }
    kim.ok(&["run", &run, "--", "true"]);
    let after: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("run-manifest.json")).unwrap()).unwrap();
    assert_eq!(after, manifest, "a run that happened does not rewrite what was planned");
}

#[test]
fn a_name_is_frozen_once_and_compared_for_ever() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze", "--name", "study/one"]);
    let before = size(&kim);
    assert_eq!(kim.ok(&["freeze", "--name", "study/one"]), run);
    assert_eq!(size(&kim), before, "repeating it writes nothing");
    let other =
        kim.run(&["freeze", "--name", "study/one", "--set", "lr=0.2", "--set", "new=1", "--seed", "4"]);
    let said = refused(&other, 4, "frozen-drift");
    for line in ["config  lr   0.1 -> 0.2", "config  new  (absent) -> 1", "seed         3 -> 4"] {
        assert!(said.contains(line), "{line:?} is not said: {said}");
    }
    assert!(said.contains("same    code"), "{said}");
    assert_eq!(size(&kim), before);
    assert_ne!(kim.ok(&["freeze"]), kim.ok(&["freeze"]), "without a name every freeze is a new run");
    let again = kim.ok(&["freeze", "--out", "out/run"]);
    assert_eq!(kim.ok(&["freeze", "--out", "out/run"]), again);
    refused(&kim.run(&["freeze", "--out", "out/run", "--set", "lr=3"]), 4, "frozen-drift");
}

/// Refuses to start for this difference, and starts once the change is taken back.
fn drifts(kim: &Person, run: &str, file: &str, to: &[u8], words: &[&str]) {
    let path = kim.project.join(file);
    let whole = std::fs::read(&path).unwrap();
    let before = size(kim);
    std::fs::write(&path, to).unwrap();
    for args in [&["start", run][..], &["run", run, "--", "sh", "-c", "echo ran"]] {
        let output = kim.run(args);
        let said = refused(&output, 4, "frozen-drift");
        for word in words {
            assert!(said.contains(word), "{word:?} is not said: {said}");
        }
    }
    assert_eq!(size(kim), before);
    std::fs::write(&path, whole).unwrap();
    let start = kim.ok(&["start", run]);
    assert!(start.starts_with("start:"));
    kim.ok(&["end", run, "--status", "failed"]);
}

#[test]
fn a_start_from_other_inputs_is_refused_until_they_are_restored() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    drifts(&kim, &run, "config.yaml", b"lr: 0.3\nseed: 3\n", &["config", "lr", "0.1 -> 0.3"]);
    drifts(&kim, &run, "train.py", b"print('other')\n", &["code", "train.py", "as committed -> changed"]);
    drifts(&kim, &run, "requirements.lock", b"numpy==2.0 --hash=sha256:00\n", &["lock", "requirements.lock"]);
    drifts(&kim, &run, "data/train.csv", b"1,2\n3,5,6\n", &["data train"]);
    git(&kim, &["commit", "-q", "--allow-empty", "-m", "next"]);
    assert!(refused(&kim.run(&["start", &run]), 4, "frozen-drift").contains("commit"));
}

#[test]
fn data_that_was_only_touched_is_read_again_and_is_no_drift() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    let path = kim.project.join("data/train.csv");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    kim.ok(&["start", &run]);
    kim.ok(&["end", &run, "--status", "failed"]);
    kim.ok(&["start", &run, "--check", "full"]);
}

#[test]
fn a_dirty_tree_is_refused_and_stored_when_it_is_allowed() {
    let (_world, kim) = project();
    kim.lay("train.py", b"print('a change that nobody committed')\n");
    let before = size(&kim);
    let output = kim.run(&["freeze"]);
    let said = refused(&output, 4, "dirty-tree");
    assert!(said.contains("M train.py") && said.contains("--allow-dirty"), "{said}");
    assert_eq!(size(&kim), before);
    refused(&kim.run(&["run", "--", "sh", "-c", "touch out/ran"]), 4, "dirty-tree");
    assert!(!kim.project.join("out/ran").exists(), "a run that was refused does not run");
    kim.ok(&["freeze", "--allow-dirty"]);
    let diff = b"+print('a change that nobody committed')\n";
    let objects = crate::secrets::bytes_below(&kim.project.join(".ledger/objects"));
    assert!(objects.iter().any(|(_, bytes)| bytes.windows(diff.len()).any(|part| part == diff)));
    kim.lay("untracked.py", b"1\n");
    kim.lay("train.py", b"print('train')\n");
    let output = kim.run(&["freeze"]);
    assert_eq!(output.code, 0, "untracked files are warned about and never refused");
    assert!(output.stderr.contains("untracked.py"), "{output:?}");
}

#[test]
fn a_start_presumes_what_never_ended_lost_and_a_completed_run_needs_again() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    let first = kim.ok(&["start", &run]);
    let second = kim.run(&["start", &run]);
    assert_eq!(second.code, 0);
    assert!(
        second.stderr.contains(&format!("{} never ended and is presumed lost", &first[..14])),
        "{second:?}"
    );
    assert_ne!(second.stdout.trim(), first);
    kim.ok(&["end", &run]);
    kim.ok(&["end", &run]);
    refused(&kim.run(&["end", &run, "--status", "failed"]), 4, "already-ended");
    refused(&kim.run(&["start", &run]), 4, "completed");
    refused(&kim.run(&["run", &run, "--", "true"]), 4, "completed");
    kim.ok(&["start", &run, "--again"]);
    let planned = kim.ok(&["freeze"]);
    refused(&kim.run(&["end", &planned]), 4, "not-started");
}

#[test]
fn a_job_that_asks_twice_starts_once_and_a_requeued_one_again() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    let job = kim.with("SLURM_JOB_ID", "71");
    let first = job.ok(&["start", &run]);
    let before = size(&kim);
    assert_eq!(job.ok(&["start", &run]), first);
    assert_eq!(size(&kim), before);
    let requeued: Output = job.with("SLURM_RESTART_COUNT", "1").run(&["start", &run]);
    assert_eq!(requeued.code, 0, "{requeued:?}");
    assert!(requeued.stderr.contains("presumed lost"), "{requeued:?}");
    assert_ne!(requeued.stdout.trim(), first);
    assert_eq!(claimed(&kim, "start").len(), 2);
}

#[test]
fn a_run_that_a_job_starts_by_name_is_one_attempt_until_it_ends() {
    let (_world, kim) = project();
    let job = kim.with("SLURM_JOB_ID", "71");
    let dir = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    let path = format!("{}:{PATH}", dir.display());
    let again = "test \"$(ledger start base)\" = \"$LEDGER_ATTEMPT\"";
    let asked = job.with("PATH", &path).run(&["run", "--name", "base", "--", "sh", "-c", again]);
    assert_eq!(asked.code, 0, "{asked:?}");
    assert!(asked.stderr.contains("has started this attempt before"), "{asked:?}");
    assert_eq!(claimed(&kim, "start").len(), 1);

    // A loop in a batch script tries once more: its first attempt has ended, so this is another one.
    let fails = ["run", "--name", "loop", "--", "false"];
    assert_eq!(job.run(&fails).code, 1);
    let second = job.run(&fails);
    assert_eq!(second.code, 1);
    assert!(!second.stderr.contains("before") && !second.stderr.contains("gap"), "{second:?}");
    assert_eq!(claimed(&kim, "start").len(), 3);
    assert_eq!(claimed(&kim, "end").len(), 3);
}

#[test]
fn data_of_the_old_size_and_time_are_noticed_where_everything_is_read() {
    let (_world, kim) = project();
    let run = kim.ok(&["freeze"]);
    kim.ok(&["start", &run]);
    lay_weights(&kim, "out/ck", 1);
    kim.ok(&["record", "checkpoint", "out/ck", "--run", &run]);
    kim.ok(&["end", &run]);
    let path = kim.project.join("data/train.csv");
    let time = path.metadata().unwrap().modified().unwrap();
    std::fs::write(&path, b"1,2\n3,5\n").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let full = kim.run(&["start", &run, "--again", "--check", "full"]);
    assert!(refused(&full, 4, "frozen-drift").contains("data train"), "{full:?}");
    assert_eq!(kim.run(&["verify", "out/ck", "--data"]).code, 1);
    let data = |run: &str| kim.json(&["show", run])["record"]["data"].clone();
    assert_ne!(data(&kim.ok(&["freeze"])), data(&run), "a freeze reads it again");
}

#[test]
fn what_was_frozen_from_no_commit_says_so_to_whoever_verifies() {
    let (_world, kim) = project();
    kim.lay("train.py", b"print('a change that nobody committed')\n");
    kim.lay("notes/tool.py", b"print('a file that nobody added')\n");
    let run = kim.ok(&["freeze", "--allow-dirty"]);
    let shown = kim.json(&["show", &run]);
    // What is untracked is listed with its digest, where it lay.
    let links = shown["claim"]["links"].as_array().unwrap();
    let untracked =
        links.iter().find(|link| link["role"] == "untracked").unwrap_or_else(|| panic!("{shown}"));
    let tree = kim.json(&["show", untracked["id"].as_str().unwrap()])["record"].clone();
    let notes = format!("tree:{}", tree["notes"]["tree"].as_str().unwrap());
    let tool = kim.json(&["show", &notes])["record"]["tool.py"].clone();
    let digest = kim.ok(&["hash", "notes/tool.py"]);
    assert!(tool.to_string().contains(digest.split_once(' ').unwrap().0), "{tool}");
    let code = kim.json(&["show", shown["record"]["code"].as_str().unwrap()])["record"].clone();
    assert_eq!(code["dirt"], "dirty", "{code}");
    assert!(code["diff"].is_string(), "{code}");

    kim.ok(&["start", &run]);
    lay_weights(&kim, "out/ck", 1);
    let checkpoint = kim.ok(&["record", "checkpoint", "out/ck", "--run", &run]);
    kim.ok(&["end", &run]);
    let found = kim.json(&["verify", "out/ck", "--is", &checkpoint]);
    let dirty = found["findings"].as_array().unwrap().iter().find(|one| one["kind"] == "dirty");
    let dirty = dirty.unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&dirty["severity"], found["exit"].as_i64()), (&"warn".into(), Some(0)), "{found}");
}

#[test]
fn a_large_diff_is_stored_whole() {
    let (_world, kim) = project();
    // The digits of a small generator, which pack badly: nine million bytes before, and others after.
    let lines = |seed: u64| {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        let line = |_| format!("{:019}\n", next() % 10_u64.pow(19)).into_bytes();
        (0..450_000).flat_map(line).collect::<Vec<u8>>()
    };
    let (before, after) = (lines(1), lines(2));
    kim.lay("table.txt", &before);
    git(&kim, &["add", "-A"]);
    git(&kim, &["commit", "-qm", "table"]);
    kim.lay("table.txt", &after);
    let run = kim.ok(&["-q", "freeze", "--allow-dirty"]);
    let code = kim.json(&["show", &run])["record"]["code"].as_str().unwrap().to_owned();
    let diff = kim.json(&["show", &code])["record"]["diff"].as_str().unwrap().to_owned();
    let patch = kim.command(&["cat", &diff]).output().unwrap().stdout;
    assert!(patch.len() > 18_000_000, "{} bytes", patch.len());
    git(&kim, &["checkout", "-q", "table.txt"]);
    std::fs::write(kim.home.join("patch"), &patch).unwrap();
    git(&kim, &["apply", kim.home.join("patch").to_str().unwrap()]);
    assert!(std::fs::read(kim.project.join("table.txt")).unwrap() == after);
    assert_eq!(kim.run(&["fsck"]).code, 0);
}

#[test]
fn without_a_branch_or_a_repository_the_plan_says_what_there_was() {
    let (_world, kim) = project();
    git(&kim, &["commit", "-q", "--allow-empty", "-m", "next"]);
    git(&kim, &["checkout", "-q", "--detach", "HEAD~1"]);
    let run = kim.ok(&["freeze"]);
    let code = kim.json(&["show", &run])["record"]["code"].as_str().unwrap().to_owned();
    let commit = kim.json(&["show", &code])["record"]["commit"].as_str().unwrap().to_owned();
    let head = std::fs::read_to_string(kim.project.join(".git/HEAD")).unwrap();
    assert_eq!(head.trim(), commit, "a detached head is the commit itself");
    kim.ok(&["run", &run, "--", "true"]);

    let why = |run: &str| {
        let record = kim.json(&["show", run])["record"].clone();
        assert!(record["code"].is_null(), "{record}");
        record["none"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(why(&kim.ok(&["freeze", "--no-code"])), "--no-code was given");
    std::fs::rename(kim.project.join(".git"), kim.home.join("away")).unwrap();
    let run = kim.ok(&["freeze"]);
    assert_eq!(why(&run), "not a git repository");
    kim.ok(&["run", &run, "--", "true"]);
}
