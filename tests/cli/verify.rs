//! `ledger verify` and `ledger fsck`: the answer first, then every finding, and never `ok` for what is not.

use crate::support::{Output, Person, World, safetensors};

/// Asserts that no line of the answer but that of a check that held says `ok`; the first line is the answer.
fn answers(output: &Output, code: i32, word: &str) {
    assert_eq!(output.code, code, "{output:?}");
    let first = output.stdout.lines().next().unwrap();
    assert!(first.starts_with(&format!("{word}  ")), "{output:?}");
    if code != 0 {
        assert!(!output.stdout.starts_with("ok  "), "{output:?}");
        output.never_says(" is what run:");
    }
}

/// Removes the object under a record's link, as `show --json` names it.
fn remove(kim: &Person, subject: &str, field: &str) {
    let record = kim.json(&["show", subject])["record"][field].as_str().unwrap().to_owned();
    let digest = record.split_once(':').unwrap().1.to_owned();
    let path = kim.project.join(".ledger/objects").join(&digest[..2]).join(&digest[2..]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_is_recorded_is_verified() {
    let (_world, kim) = World::trained();
    let output = kim.run(&["verify", "out/step-10"]);
    answers(&output, 0, "ok     ");
    output.matches("verify/ok");
    for option in ["--full", "--data"] {
        answers(&kim.run(&["verify", "out/step-10", option]), 0, "ok     ");
    }
    let id = kim.ok(&["ls", "checkpoints", "--ids"]);
    kim.run(&["verify", &id]).matches("verify/id");
    let document = kim.json(&["verify", "out/step-10", "--is", &id]);
    assert_eq!((&document["schema"], &document["answer"]), (&"ledger.verify/1".into(), &"yes".into()));
    assert!(document["findings"].as_array().unwrap().iter().all(|one| one["severity"] != "fail"));
}

#[test]
fn a_flipped_byte_is_named() {
    let (_world, kim) = World::trained();
    let mut bytes = safetensors(1.0);
    *bytes.last_mut().unwrap() ^= 1;
    kim.lay("out/step-10/model.safetensors", &bytes);
    let output = kim.run(&["verify", "out/step-10"]);
    answers(&output, 1, "FAIL   ");
    assert!(output.stdout.contains("model.safetensors"), "{output:?}");
    assert!(!output.stdout.contains("ok       bytes"), "{output:?}");
    output.matches("verify/flipped");
    let document = kim.json(&["verify", "out/step-10"]);
    assert_eq!(document["answer"], "no");
    let wrong = document["findings"].as_array().unwrap().iter().find(|one| one["kind"] == "wrong-bytes");
    assert!(wrong.unwrap()["hint"].as_str().unwrap().starts_with("ledger verify "), "{document}");
}

#[test]
fn another_checkpoint_is_not_that_one() {
    let (_world, kim) = World::trained();
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    kim.ok(&["-q", "record", "checkpoint", "out/step-20", "--run", "base", "--name", "final"]);
    let output = kim.run(&["verify", "out/step-10", "--is", "final"]);
    answers(&output, 1, "FAIL   ");
    output.matches("verify/is-other");
    kim.run(&["verify", "out/step-10", "--is", "base"]).matches("verify/is-run");
    kim.run(&["verify", "out/step-10", "--is", "nowhere"]).matches("verify/is-nowhere");
}

#[test]
fn what_is_not_recorded_cannot_be_decided() {
    let (_world, kim) = World::trained();
    kim.lay("other/model.safetensors", &safetensors(9.0));
    let output = kim.run(&["verify", "other"]);
    answers(&output, 3, "unknown");
    output.matches("verify/not-recorded");
    assert_eq!(kim.json(&["verify", "other"])["answer"], "not-recorded");
    let nowhere = kim.run(&["verify", "nowhere"]);
    nowhere.fails(3, "no-such-id");
    nowhere.matches("verify/nowhere");
}

#[test]
fn a_signer_who_is_not_trusted_is_no_yes() {
    let (world, kim) = World::trained();
    let lee = world.person("lee");
    let output = lee.run(&["verify", "out/step-10"]);
    answers(&output, 3, "unknown");
    output.matches("verify/not-trusted");
    let id = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    answers(&lee.run(&["verify", "out/step-10", "--trust", &id]), 0, "ok     ");
    kim.run(&["verify", "out/step-10", "--trust", "nowhere"]).matches("verify/no-trust-file");
}

#[test]
fn a_missing_object_leaves_the_answer_open_and_is_damage() {
    let (_world, kim) = World::trained();
    remove(&kim, "base", "config");
    let output = kim.run(&["verify", "out/step-10"]);
    answers(&output, 3, "unknown");
    output.matches("verify/missing");
    let output = kim.run(&["fsck"]);
    answers(&output, 5, "FAIL   ");
    output.matches("fsck/missing");
    let document = kim.json(&["fsck"]);
    assert_eq!((&document["schema"], &document["damaged"]), (&"ledger.fsck/1".into(), &1.into()));
    assert_eq!(document["findings"][0]["kind"], "missing");
    kim.run(&["trace", "out/step-10"]).matches("trace/missing");
}

#[test]
fn a_sound_ledger_is_checked() {
    let (_world, kim) = World::trained();
    let output = kim.run(&["fsck"]);
    answers(&output, 0, "ok     ");
    output.matches("fsck/ok");
    assert_eq!(kim.json(&["fsck"])["findings"], serde_json::json!([]));
    for option in ["--reindex", "--repair"] {
        answers(&kim.run(&["fsck", option]), 0, "ok     ");
    }
    kim.lay(".ledger/stranger", b"x");
    kim.run(&["fsck"]).matches("fsck/stray");
    kim.at(&kim.home).run(&["fsck"]).fails(3, "not-a-ledger");
}

#[test]
fn a_data_set_with_other_links_modes_or_folders_is_another_one() {
    let (_world, kim) = World::founded();
    let file = kim.lay("data/run.sh", b"1\n");
    let (link, folder) = (kim.project.join("data/link"), kim.project.join("data/empty"));
    std::os::unix::fs::symlink("run.sh", &link).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let id = kim.id(&["-q", "record", "dataset", "data", "--name", "train"]);
    let verify = || kim.json(&["verify", "data", "--is", &id]);
    assert_eq!(verify()["exit"], 0);
    // The digest of a data set is over all of these, and a run that was frozen from it does not start.
    let mode =
        |mode| std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o755);
    let executable = verify();
    mode(0o644);
    std::fs::remove_dir(&folder).unwrap();
    let without_folder = verify();
    std::fs::create_dir(&folder).unwrap();
    std::fs::remove_file(&link).unwrap();
    let without_link = verify();
    for found in [executable, without_folder, without_link] {
        assert_eq!((&found["exit"], &found["answer"]), (&1.into(), &"no".into()), "{found}");
    }
}
