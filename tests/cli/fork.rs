//! `ledger init --fork`: a ledger of its own from a copy, and all that was stated before.

use std::path::{Path, PathBuf};

use crate::support::{Person, World, safetensors};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Makes a backup in a new directory beside the project.
fn backup(kim: &Person, name: &str) -> PathBuf {
    let dir = kim.home.join(name);
    std::fs::create_dir(&dir).unwrap();
    kim.ok(&["backup", dir.to_str().unwrap()]);
    dir
}

/// Puts a backup in the place of the ledger.
fn restore(kim: &Person, backup: &Path) {
    let root = kim.project.join(".ledger");
    std::fs::remove_dir_all(&root).unwrap();
    copy(&backup.join(".ledger"), &root);
}

/// A trained project that was restored from a backup behind a head that kim has seen; returns the old id.
fn restored() -> (World, Person, String) {
    let (world, kim) = World::trained();
    let old = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    let dir = backup(&kim, "backup");
    kim.ok(&["-q", "freeze", "--name", "lost", "--", "true"]);
    restore(&kim, &dir);
    kim.run(&[]).fails(3, "behind");
    (world, kim, old)
}

fn fork(kim: &Person) -> String {
    let output = kim.run(&["init", "--fork"]);
    assert_eq!(output.code, 0, "{output:?}");
    output.stdout.trim_end().to_owned()
}

fn parents_log(kim: &Person, ledger: &str) -> PathBuf {
    kim.project.join(".ledger/parents").join(ledger).join("log")
}

fn statements(kim: &Person) -> Vec<String> {
    let entries = kim.json(&["entries"])["entries"].as_array().unwrap().clone();
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!((&entry["index"], &entry["standing"]), (&at.into(), &"accepted".into()));
    }
    entries.iter().map(|entry| entry["statement"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_restored_ledger_that_must_not_be_adopted_goes_on_as_one_of_its_own() {
    let (_world, kim, old) = restored();
    let before = kim.at(&kim.home.join("backup")).without("XDG_STATE_HOME");
    let was = {
        // Somebody who has seen no newer head reads the backup.
        let reader = before.with("HOME", kim.home.join("elsewhere").to_str().unwrap());
        statements(&reader)
    };
    let refused = kim.run(&["adopt"]);
    refused.fails(4, "refused");
    assert!(refused.stderr.contains("ledger init --fork"), "{refused:?}");

    let output = kim.run(&["init", "--fork"]);
    output.matches("fork/first");
    let id = output.stdout.trim_end();
    assert!(id.len() == 64 && id != old, "{output:?}");
    kim.run(&[]).matches("fork/status");
    assert_eq!(kim.json(&["head"])["ledger"], id);
    assert_eq!(kim.json(&["head"])["size"], 1);

    // What was recorded before the fork is verified across it, and every statement has the place that it had.
    kim.run(&["verify", "out/step-10"]).matches("fork/verify");
    kim.ok(&["verify", "out/step-10", "--full"]);
    kim.ok(&["verify", "out/step-10", "--as-of", &was.len().to_string()]);
    let now = statements(&kim);
    assert_eq!(now[..was.len()], was);
    assert_eq!(now.len(), was.len() + 1);

    // The old run goes on: a checkpoint, an evaluation of the old one, a new run that starts from it.
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    let old_ck = kim.json(&["show", "out/step-10"])["id"].as_str().unwrap().to_owned();
    let ck = kim.id(&["-q", "record", "checkpoint", "out/step-20", "--run", "base", "--parent", &old_ck]);
    kim.ok(&["-q", "freeze", "--name", "after", "--", "true"]);
    kim.ok(&["verify", "out/step-20"]);
    kim.ok(&["verify", &ck, "--full"]);
    let up = kim.json(&["trace", &ck, "--up"]).to_string();
    assert!(up.contains(&old_ck), "{up}");
    let down = kim.json(&["trace", "base", "--down"]).to_string();
    assert!(down.contains(&ck) && down.contains(&old_ck), "{down}");
    let log = kim.ok(&["log"]);
    assert_eq!(log.lines().count(), now.len() + 2);
    assert!(log.contains(&format!("goes on from ledger {} at {} statements", &old[..8], was.len())), "{log}");
    let fsck = kim.run(&["fsck"]);
    assert!(fsck.code == 0 && !fsck.stdout.contains("warn"), "{fsck:?}");

    // A name that was taken is taken, and the lost run may be stated again.
    let again = kim.run(&["freeze", "--name", "base", "--", "something else"]);
    again.fails(4, "frozen-drift");
    kim.ok(&["-q", "freeze", "--name", "lost", "--", "true"]);

    // Without caches and memory the answers are the same.
    let bare = kim.with("HOME", kim.home.join("nowhere").to_str().unwrap());
    assert_eq!(statements(&bare), statements(&kim));
    let key = kim.home.join(".config/ledger/keys/default.key");
    let bare = bare.with("LEDGER_KEY_FILE", key.to_str().unwrap());
    bare.run(&["verify", "out/step-10"]).fails_quietly(3);
    bare.ok(&["verify", "out/step-10", "--trust", id]);
    // Trust in the old ledger is none in the new one.
    bare.run(&["verify", "out/step-10", "--trust", &old]).fails_quietly(3);
}

#[test]
fn proofs_are_made_in_the_log_that_a_statement_stands_in() {
    let (_world, kim, old) = restored();
    let id = fork(&kim);
    let old_ck = kim.json(&["show", "out/step-10"])["id"].as_str().unwrap().to_owned();
    let proof = kim.json(&["prove", &old_ck]);
    assert_eq!(proof["origin"], format!("lineage-ledger/{old}"));
    let place = proof["place"].as_u64().unwrap();
    assert_eq!(proof["index"], place, "of the oldest log");
    let genesis = kim.json(&["prove", &proof["size"].to_string()]);
    assert_eq!(genesis["origin"], format!("lineage-ledger/{id}"));
    assert_eq!((&genesis["index"], &genesis["place"]), (&0.into(), &proof["size"]));
    assert_eq!(genesis["statement"], id, "the first statement's hash is the ledger's id");
    kim.ok(&["prove", "--since", "1"]);
    kim.run(&["prove", "--since", "3"]).fails(3, "no-head");
}

#[test]
fn a_fork_of_a_fork_counts_on_and_can_be_backed_up() {
    let (world, kim, old) = restored();
    let child = fork(&kim);
    kim.ok(&["-q", "freeze", "--name", "second", "--", "true"]);
    let dir = backup(&kim, "second");
    let said = statements(&kim);
    let key = kim.home.join(".config/ledger/keys/default.key");
    let reader = world.person("max").at(&dir).with("LEDGER_KEY_FILE", key.to_str().unwrap());
    assert_eq!(statements(&reader), said);
    assert_eq!(reader.json(&["fsck"])["damaged"], 0);
    // A backup is added to, parents and all.
    kim.ok(&["-q", "freeze", "--name", "third", "--", "true"]);
    kim.ok(&["backup", dir.to_str().unwrap()]);
    let said = statements(&kim);
    assert_eq!(statements(&reader), said);

    let grandchild = reader.ok(&["init", "--fork"]);
    assert!(grandchild != child && grandchild != old);
    assert_eq!(statements(&reader)[..said.len()], said);
    let out = kim.project.join("out/step-10");
    reader.ok(&["verify", out.to_str().unwrap(), "--full"]);
    let weights = reader.lay("out/step-30/model.safetensors", &safetensors(3.0));
    let weights = weights.parent().unwrap().to_str().unwrap().to_owned();
    reader.ok(&["-q", "record", "checkpoint", &weights, "--run", "base"]);
    reader.ok(&["verify", &weights, "--full"]);
    let report = reader.json(&["fsck"]);
    assert_eq!((&report["damaged"], &report["statements"]), (&0.into(), &(said.len() + 2).into()));
    assert_eq!(reader.json(&[])["before"], said.len());
    // Both go on, and neither knows of the other.
    kim.ok(&["-q", "freeze", "--name", "fourth", "--", "true"]);
    kim.ok(&["verify", "out/step-10"]);
}

#[test]
fn an_edited_log_of_a_parent_is_damage() {
    let (_world, kim, old) = restored();
    let id = fork(&kim);
    let log = parents_log(&kim, &old);
    let bare = kim.with("HOME", kim.home.join("nowhere").to_str().unwrap());
    let bundles = log.join("tile/entries/000.p");
    let bundle = std::fs::read_dir(&bundles)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap());
    let head = log.join("checkpoint");
    for path in [bundle.unwrap(), head.clone()] {
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &bad).unwrap();
        let said = bare.run(&[]);
        said.fails(5, "damaged");
        assert!(said.stderr.contains(&old), "{said:?}");
        let report = kim.json(&["fsck"]);
        assert_eq!(report["exit"], 5, "{report}");
        assert!(report.to_string().contains(&format!("parents/{old}/")), "{report}");
        // Whoever has a folded state of it must not say yes either.
        let code = kim.run(&["verify", "out/step-10", "--full"]).code;
        assert_eq!(code, 5, "{}", path.display());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &good).unwrap();
        bare.ok(&["verify", "out/step-10", "--trust", &id]);
    }
    // An older head of the same log, signed as well, is not what the new ledger goes on from.
    let good = std::fs::read(&head).unwrap();
    let older = kim.at(&kim.home.join("backup"));
    assert_ne!(older.project, kim.project);
    let heads = log.join("heads");
    assert!(!heads.join("000").exists(), "a backup has no head files");
    // The whole log gone.
    std::fs::rename(&log, log.with_file_name("away")).unwrap();
    let said = kim.run(&[]);
    said.fails(5, "damaged");
    said.matches("fork/no-parent");
    kim.run(&["verify", "out/step-10"]).fails(5, "damaged");
    assert_eq!(kim.run(&["fsck"]).code, 5);
    std::fs::rename(log.with_file_name("away"), &log).unwrap();
    assert_eq!(std::fs::read(&head).unwrap(), good);
    assert_eq!(kim.json(&["fsck"])["damaged"], 0);
}

#[test]
fn a_stranger_and_an_author_make_no_fork() {
    let (world, kim) = World::trained();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    let line = lee.ok(&["key", "show", "--request"]);
    let dir = backup(&kim, "backup");
    let there = lee.at(&dir);
    there.run(&["init", "--fork"]).fails(3, "unknown-key");
    kim.ok(&["key", "add", &line, "--roles", "author,log"]);
    kim.ok(&["backup", dir.to_str().unwrap()]);
    let refused = there.run(&["init", "--fork"]);
    refused.fails(4, "refused");
    refused.matches("fork/refused");
    assert!(!dir.join(".ledger/parents").exists() && !dir.join(".ledger/fork").exists());
    // Nothing to go on from, and flags that would say who founds it.
    lee.at(&lee.home).run(&["init", "--fork"]).fails(3, "not-a-ledger");
    kim.run(&["init", "--fork", "--shared"]).fails(2, "usage");
}

#[test]
fn the_recovery_key_makes_a_fork_and_appoints_who_goes_on() {
    let world = World::new();
    let kim = world.person("kim");
    let rescue = kim.home.join("rescue.key");
    kim.ok(&["init", "--recovery", rescue.to_str().unwrap()]);
    let dir = backup(&kim, "backup");
    let max = world.person("max").at(&dir);
    max.ok(&["key", "new"]);
    let offline = max.at(&dir).with("LEDGER_KEY_FILE", rescue.to_str().unwrap());
    let id = offline.ok(&["init", "--fork"]);
    assert_eq!(offline.json(&["head"])["ledger"], id);
    let wrong = offline.run(&["freeze", "--no-code", "--", "true"]);
    wrong.fails(4, "refused");
    let line = max.ok(&["key", "show", "--request"]);
    offline.ok(&["key", "add", &line, "--roles", "owner,author,log"]);
    max.lay("config.yaml", b"lr: 1\n");
    max.ok(&["-q", "freeze", "--no-code", "-c", "config.yaml", "--", "true"]);
    assert_eq!(offline.json(&["fsck"])["damaged"], 0);
}

#[test]
fn a_fork_that_was_cut_short_is_finished_without_a_key() {
    let (_world, kim, old) = restored();
    let id = fork(&kim);
    let root = kim.project.join(".ledger");
    // As between the two renames.
    std::fs::create_dir(root.join("fork")).unwrap();
    std::fs::rename(root.join("log"), root.join("fork/log")).unwrap();
    std::fs::remove_file(root.join("place")).unwrap();
    let half = kim.run(&[]);
    half.fails(4, "half-forked");
    half.matches("fork/half");
    kim.run(&["fsck"]).fails(4, "half-forked");
    let lee = kim.without("LEDGER_KEY_FILE").with("LEDGER_KEY_FILE", "nowhere");
    assert_eq!(lee.ok(&["init", "--fork"]), id);
    assert!(!root.join("fork").exists());
    assert_eq!(kim.json(&[])["copy"], false);
    assert_eq!(kim.json(&["fsck"])["damaged"], 0);
    // What is left of one that came to nothing is told, and the next one clears it away.
    std::fs::create_dir_all(root.join("fork/log/heads")).unwrap();
    let report = kim.json(&["fsck"]);
    assert!(report["damaged"] == 0 && report.to_string().contains("cut short"), "{report}");
    let next = fork(&kim);
    assert!(next != id && next != old);
    assert!(!root.join("fork").exists());
}

#[test]
fn what_is_queued_stays_with_the_old_log() {
    let (world, kim) = World::project();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    kim.ok(&["key", "add", &lee.ok(&["key", "show", "--request"]), "--roles", "author"]);
    lee.ok(&["freeze", "--", "true"]);
    let old = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    // In the very directory that was written to so far.
    let output = kim.run(&["init", "--fork"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("1 queued statement not taken along"), "{output:?}");
    let pending = parents_log(&kim, &old).join("pending");
    let users: Vec<PathBuf> = std::fs::read_dir(pending).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(users.iter().map(|user| std::fs::read_dir(user).unwrap().count()).sum::<usize>(), 1);
    assert_eq!(kim.ok(&["sequence"]), "0");
    lee.ok(&["freeze", "--", "true"]);
    assert_eq!(kim.ok(&["sequence"]), "1");
    // Head files stayed with the log, so receipts of the old statements can still be made.
    let receipt = kim.home.join("receipt");
    kim.ok(&["prove", "1", "--receipt", "-o", receipt.to_str().unwrap()]);
    let fsck = kim.run(&["fsck"]);
    assert!(fsck.code == 0 && !fsck.stdout.contains("warn"), "{fsck:?}");
}

/// A key that is revoked in the new ledger taints what it signed in the old one, by the place where it stands.
#[test]
fn revocations_reach_back_across_a_fork() {
    let (_world, kim, _) = restored();
    fork(&kim);
    let ck = kim.json(&["show", "out/step-10"])["id"].as_str().unwrap().to_owned();
    kim.ok(&["revoke", &ck, "--reason", "wrong data"]);
    let said = kim.run(&["verify", "out/step-10"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("revoked"), "{said:?}");
}
