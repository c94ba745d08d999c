//! `ledger backup` and `ledger adopt`, and what a copied directory is good for.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Person, World, safetensors};

/// Returns every file below a directory with its bytes, its inode and its time.
fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64, i64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, (std::fs::read(&path).unwrap(), meta.ino(), meta.mtime_nsec()));
            }
        }
    }
    found
}

/// Makes the directory of a backup beside the project.
fn room(kim: &Person, name: &str) -> PathBuf {
    let dir = kim.home.join(name);
    std::fs::create_dir(&dir).unwrap();
    dir
}

fn backup(kim: &Person, dir: &Path) -> serde_json::Value {
    kim.json(&["backup", dir.to_str().unwrap()])
}

/// Returns somebody with the same key who has seen no head yet, at a directory.
fn newcomer(world: &World, kim: &Person, name: &str, dir: &Path) -> Person {
    let key = kim.home.join(".config/ledger/keys/default.key");
    world.person(name).at(dir).with("LEDGER_KEY_FILE", key.to_str().unwrap())
}

fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).stderr(Stdio::null()).status().unwrap();
    // A file that vanishes under `cp` is told by it and is no reason not to look at the rest.
    assert!(status.code().is_some());
}

fn object_of(kim: &Person, id: &str) -> PathBuf {
    let digest = id.split_once(':').unwrap().1;
    kim.project.join(".ledger/objects").join(&digest[..2]).join(&digest[2..])
}

#[test]
fn a_backup_is_a_copy_that_can_be_read_and_grows() {
    let (_world, kim) = World::trained();
    let dir = room(&kim, "backup");
    let output = kim.run(&["backup", dir.to_str().unwrap()]);
    output.matches("backup/first");
    let root = dir.join(".ledger");
    assert_eq!(output.stdout.trim_end(), root.to_str().unwrap());
    assert!(!root.join("place").exists() && !root.join("runs").exists() && !dir.join("tmp").exists());

    let there = kim.at(&dir);
    assert_eq!(there.ok(&["head"]), kim.ok(&["head"]));
    assert_eq!(there.json(&["fsck"])["damaged"], 0);
    there.ok(&["verify", kim.project.join("out/step-10").to_str().unwrap()]);
    // Nothing writes to it, and trying leaves no trace.
    let before = files(&root);
    there.lay("config.yaml", b"lr: 1\n");
    let weights = there.lay("out/model.safetensors", &safetensors(3.0));
    for args in [
        &["-q", "freeze", "-c", "config.yaml", "--", "true"][..],
        &["record", "dataset", "config.yaml", "--name", "numbers"],
        &["record", "checkpoint", weights.parent().unwrap().to_str().unwrap(), "--run", "none"],
        &["sequence"],
        &["fsck", "--repair"],
    ] {
        there.run(args).fails(4, "copy");
    }
    assert_eq!(files(&root), before);

    // Twice the same is nothing new; what is new is added, and what is there is not touched.
    let again = backup(&kim, &dir);
    assert_eq!((&again["copied"], &again["before"]), (&0.into(), &again["size"]));
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    kim.ok(&["-q", "record", "checkpoint", "out/step-20", "--run", "base"]);
    let grown = backup(&kim, &dir);
    assert_eq!(grown["size"].as_u64().unwrap(), again["size"].as_u64().unwrap() + 1);
    assert!(grown["copied"].as_u64().unwrap() > 0 && grown["kept"] == again["kept"], "{grown}");
    let after = files(&root);
    for (name, held) in before.iter().filter(|(name, _)| name.starts_with("objects")) {
        assert_eq!(after.get(name), Some(held), "{}", name.display());
    }
    assert_eq!(there.ok(&["head"]), kim.ok(&["head"]));
    assert_eq!(there.json(&["fsck"])["damaged"], 0);
}

#[test]
fn a_backup_goes_nowhere_where_it_could_harm() {
    let (world, kim) = World::founded();
    kim.run(&["backup", "nowhere"]).fails(2, "bad-data");
    kim.run(&["backup", "."]).fails(2, "usage");
    assert!(!kim.project.join("nowhere").exists());
    // Another ledger's backup, a ledger of its own, and one that has seen more.
    let lee = world.person("lee");
    let lees = lee.at(&lee.home);
    lees.ok(&["init"]);
    let dir = room(&kim, "backup");
    lees.ok(&["backup", dir.to_str().unwrap()]);
    let before = files(&dir);
    let foreign = kim.run(&["backup", dir.to_str().unwrap()]);
    foreign.fails(4, "exists");
    foreign.matches("backup/foreign");
    assert_eq!(files(&dir), before);
    std::fs::remove_dir_all(dir.join(".ledger")).unwrap();
    kim.ok(&["backup", dir.to_str().unwrap()]);
    copy_tree(&dir.join(".ledger"), &lee.home.join("old"));
    std::fs::create_dir(lee.home.join("older")).unwrap();
    std::fs::rename(lee.home.join("old"), lee.home.join("older/.ledger")).unwrap();
    lees.ok(&["key", "show"]);
    kim.ok(&["key", "add", &lees.ok(&["-C", "../project", "key", "show", "--request"])]);
    kim.ok(&["backup", dir.to_str().unwrap()]);
    let old = newcomer(&world, &kim, "max", &lee.home.join("older"));
    let newer = old.run(&["backup", dir.to_str().unwrap()]);
    newer.fails(3, "behind");
    newer.matches("backup/newer");
    // Both go on from the old head: a fork, which neither takes for the other.
    old.ok(&["adopt"]);
    for name in ["ann", "bob"] {
        let person = world.person(name);
        person.ok(&["key", "new"]);
        let line = person.ok(&["-C", "../project", "key", "show", "--request"]);
        old.ok(&["key", "add", &line]);
    }
    old.run(&["backup", dir.to_str().unwrap()]).fails(5, "fork");
    // What was adopted is a ledger and no backup.
    let adopted = newcomer(&world, &kim, "eve", &dir);
    adopted.ok(&["adopt"]);
    kim.run(&["backup", dir.to_str().unwrap()]).fails(4, "exists");
}

#[test]
fn damage_is_named_and_does_not_reach_an_older_backup() {
    let (_world, kim) = World::trained();
    let (old, new) = (room(&kim, "old"), room(&kim, "new"));
    backup(&kim, &old);
    let run = kim.ok(&["ls", "runs", "--ids"]);
    let object = object_of(&kim, &run);
    let sound = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    std::fs::write(&object, b"something else").unwrap();

    let output = kim.run(&["backup", new.to_str().unwrap()]);
    assert_eq!(output.code, 5, "{output:?}");
    output.matches("backup/damaged");
    assert!(!new.join(".ledger").join(object.strip_prefix(kim.project.join(".ledger")).unwrap()).exists());
    // The older one still has the object, and goes on to have it.
    kim.run(&["backup", old.to_str().unwrap()]);
    let kept = old.join(".ledger").join(object.strip_prefix(kim.project.join(".ledger")).unwrap());
    assert_eq!(std::fs::read(kept).unwrap(), sound);
    assert_eq!(kim.at(&old).json(&["fsck"])["damaged"], 0);
    let report = kim.at(&new).json(&["fsck"]);
    assert!(report["whole"].as_u64() < report["size"].as_u64(), "{report}");
}

#[test]
fn what_is_queued_goes_along_and_is_ordered_after_a_restore() {
    let (world, kim) = World::project();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    kim.ok(&["key", "add", &lee.ok(&["key", "show", "--request"]), "--roles", "author"]);
    let queued = lee.run(&["freeze", "--", "true"]);
    assert!(queued.code == 0 && queued.stderr.contains("queued"), "{queued:?}");
    let run = queued.stdout.trim_end().to_owned();
    let dir = room(&kim, "backup");
    assert_eq!(backup(&kim, &dir)["queued"], 1);

    // A restore under another user's number: the folder is not the owner's any more.
    let pending = dir.join(".ledger/log/pending");
    let own = std::fs::read_dir(&pending).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(&own, pending.join("424242")).unwrap();
    let there = newcomer(&world, &kim, "max", &dir);
    let adopted = there.json(&["adopt"]);
    assert_eq!(adopted["taken_over"].as_array().unwrap().len(), 1, "{adopted}");
    assert_eq!(there.ok(&["sequence"]), "1");
    assert!(there.ok(&["ls", "runs", "--ids"]).contains(&run));
    assert_eq!(there.json(&["fsck"])["damaged"], 0);

    // Once it is ordered, it is no longer queued in the next backup.
    let next = room(&kim, "next");
    backup(&kim, &next);
    kim.ok(&["sequence"]);
    let after = backup(&kim, &next);
    assert_eq!(after["queued"], 0);
    assert!(files(&next.join(".ledger/log/pending")).is_empty());
}

#[test]
fn a_restored_backup_is_adopted_unless_somebody_has_seen_more() {
    let (world, kim) = World::trained();
    let dir = room(&kim, "backup");
    backup(&kim, &dir);
    let moved = kim.at(&dir);
    // The newest head is in the backup, so it can take over.
    std::fs::rename(kim.project.join(".ledger"), kim.project.join("lost")).unwrap();
    let output = moved.run(&["adopt"]);
    output.matches("backup/adopt");
    assert_eq!(output.code, 0);
    let place = std::fs::read_to_string(dir.join(".ledger/place")).unwrap();
    let lost = std::fs::read_to_string(kim.project.join("lost/place")).unwrap();
    assert_ne!(place.lines().nth(1), lost.lines().nth(1), "it has an instance id of its own");
    moved.run(&["adopt"]).matches("backup/adopt-again");
    assert_eq!(std::fs::read_to_string(dir.join(".ledger/place")).unwrap(), place);
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    let weights = kim.project.join("out/step-20");
    moved.ok(&["-q", "record", "checkpoint", weights.to_str().unwrap(), "--run", "base"]);
    assert_eq!(moved.json(&["fsck"])["damaged"], 0);

    // An older copy would be a fork to everybody who has seen what came after.
    let old = kim.project.join("old");
    std::fs::create_dir(&old).unwrap();
    std::fs::rename(kim.project.join("lost"), old.join(".ledger")).unwrap();
    let older = kim.at(&old);
    older.run(&[]).fails(3, "behind");
    let before = files(&old);
    let refused = older.run(&["adopt"]);
    refused.fails(4, "refused");
    refused.matches("backup/adopt-behind");
    assert_eq!(files(&old), before);
    // One who has seen nothing may be told by a trust file.
    let copy = kim.project.join("copy");
    std::fs::create_dir(&copy).unwrap();
    copy_tree(&old.join(".ledger"), &copy.join(".ledger"));
    let eve = newcomer(&world, &kim, "eve", &copy);
    let id = eve.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    let text = format!("format = \"ledger-trust/1\"\n[[ledger]]\nid = \"{id}\"\nmin_head = 99\n");
    let trust = eve.lay("trust.toml", text.as_bytes());
    eve.with("LEDGER_TRUST", trust.to_str().unwrap()).run(&["adopt"]).fails(4, "refused");
    eve.ok(&["adopt"]);
}

#[test]
fn a_copy_that_lacks_an_object_says_from_where_on() {
    let (world, kim) = World::trained();
    let checkpoint = kim.ok(&["ls", "checkpoints", "--ids"]);
    let copy = room(&kim, "copy");
    copy_tree(&kim.project.join(".ledger"), &copy.join(".ledger"));
    let max = newcomer(&world, &kim, "max", &copy);
    std::fs::remove_file(object_of(&max, &checkpoint)).unwrap();
    let report = max.run(&["fsck"]);
    assert_eq!(report.code, 5);
    let named = format!("{checkpoint} is missing; statement 3 needs it\nwhole up to statement 3 of 5\n");
    assert!(report.stdout.contains(&named), "{report:?}");
    let refused = max.run(&["adopt"]);
    refused.fails(4, "refused");
    assert!(refused.stderr.contains("this copy is whole up to statement 3 of 5 only"), "{refused:?}");
    assert!(refused.stderr.contains(&checkpoint), "{refused:?}");
    assert!(refused.stderr.contains("ledger adopt --incomplete"), "{refused:?}");
    assert!(max.json(&["fsck"])["whole"].as_u64().unwrap() > 0);
    max.run(&["sequence"]).fails(4, "copy");
    let adopted = max.json(&["adopt", "--incomplete"]);
    assert_eq!(adopted["missing"], 1, "{adopted}");
    max.ok(&["sequence"]);
    assert_eq!(max.run(&["fsck"]).code, 5, "what is lost stays named");
}

#[test]
fn a_copy_whose_log_is_cut_off_says_where_and_stays_a_copy() {
    let (world, kim) = World::trained();
    let size = kim.json(&["head"])["size"].as_u64().unwrap();
    let copy = room(&kim, "copy");
    copy_tree(&kim.project.join(".ledger"), &copy.join(".ledger"));
    // The tiles were copied before the last commits, the head after them.
    for kind in ["0", "entries"] {
        let partial = copy.join(format!(".ledger/log/tile/{kind}/000.p"));
        for file in std::fs::read_dir(&partial).unwrap() {
            let path = file.unwrap().path();
            let width: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            if width > size - 2 {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
    let max = newcomer(&world, &kim, "max", &copy);
    let before = files(&copy);
    let cut = max.run(&[]);
    cut.fails(5, "damaged");
    cut.matches("backup/cut-off");
    let refused = max.run(&["adopt"]);
    refused.fails(4, "refused");
    refused.matches("backup/adopt-cut-off");
    let report = max.json(&["fsck"]);
    assert_eq!(report["exit"], 5);
    assert_eq!((&report["size"], &report["whole"]), (&size.into(), &(size - 2).into()));
    max.run(&["sequence"]).fails(5, "damaged");
    assert_eq!(files(&copy), before);
}

#[test]
fn a_copy_whose_head_is_older_than_its_tiles_is_a_ledger_of_that_head() {
    let (world, kim) = World::project();
    for run in ["one", "two"] {
        kim.ok(&["-q", "freeze", "--name", run, "--", "true"]);
    }
    let copy = room(&kim, "copy");
    std::fs::create_dir_all(copy.join(".ledger/log")).unwrap();
    let head = std::fs::read(kim.project.join(".ledger/log/checkpoint")).unwrap();
    let size = kim.json(&["head"])["size"].as_u64().unwrap();
    for run in ["three", "four"] {
        kim.ok(&["-q", "freeze", "--name", run, "--", "true"]);
    }
    std::fs::remove_dir_all(copy.join(".ledger")).unwrap();
    copy_tree(&kim.project.join(".ledger"), &copy.join(".ledger"));
    std::fs::write(copy.join(".ledger/log/checkpoint"), &head).unwrap();
    let max = newcomer(&world, &kim, "max", &copy);
    assert_eq!(max.json(&["head"])["size"], size);
    assert_eq!(max.json(&["fsck"])["damaged"], 0);
    max.run(&["freeze", "--", "true"]).fails(4, "copy");
    // The commits that were signed after that head are finished.
    max.ok(&["adopt"]);
    assert_eq!(max.ok(&["head"]), kim.ok(&["head"]));
    assert_eq!(max.json(&["fsck"])["damaged"], 0);

    // Without their files, what only they explain is out of the way of the next commit.
    let bare = room(&kim, "bare");
    copy_tree(&kim.project.join(".ledger"), &bare.join(".ledger"));
    std::fs::write(bare.join(".ledger/log/checkpoint"), &head).unwrap();
    std::fs::remove_dir_all(bare.join(".ledger/log/heads")).unwrap();
    let eve = newcomer(&world, &kim, "eve", &bare);
    let adopted = eve.json(&["adopt"]);
    assert!(!adopted["aside"].as_array().unwrap().is_empty(), "{adopted}");
    assert_eq!(eve.json(&["head"])["size"], size);
    eve.ok(&[
        "-q",
        "freeze",
        "-c",
        "../../project/config.yaml",
        "--no-code",
        "--name",
        "other",
        "--",
        "true",
    ]);
    let report = eve.json(&["fsck"]);
    assert_eq!(report["damaged"], 0, "{report}");
}

/// A ledger is copied again and again while a crowd writes to it, by `cp -r` and by `ledger backup`.
#[test]
#[expect(clippy::print_stdout, reason = "how many copies were whole is worth knowing")]
fn copies_made_in_a_crowd_are_prefixes_or_say_where_they_end() {
    const WRITERS: usize = 4;
    const COPIES: usize = 6;
    let (world, kim) = World::project();
    let dir = room(&kim, "backup");
    let is_over = AtomicBool::new(false);
    let mut heads = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (kim, is_over) = (&kim, &is_over);
            scope.spawn(move || {
                for turn in 0.. {
                    let name = format!("run-{writer}-{turn}");
                    kim.ok(&["-q", "freeze", "--no-code", "--name", &name, "--", "true"]);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for copy in 0..COPIES {
            let report = backup(&kim, &dir);
            assert_eq!(report["exit"], 0, "{report}");
            heads.push((report["size"].as_u64().unwrap(), report["root"].clone()));
            let to = kim.home.join(format!("cp-{copy}"));
            std::fs::create_dir(&to).unwrap();
            copy_tree(&kim.project.join(".ledger"), &to.join(".ledger"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    kim.ok(&["sequence"]);
    // Each backup was a prefix, and the last one has all that it says.
    assert!(heads.is_sorted_by_key(|(size, _)| *size), "{heads:?}");
    let there = newcomer(&world, &kim, "backups", &dir);
    assert_eq!(there.json(&["fsck"])["damaged"], 0);
    let whole = kim.json(&["entries"]);
    let of = |document: &serde_json::Value| -> Vec<String> {
        let entries = document["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["statement"].as_str().unwrap().to_owned()).collect()
    };
    let whole = of(&whole);
    let backed = of(&there.json(&["entries"]));
    assert_eq!(backed, whole[..backed.len()]);
    assert_eq!(backed.len() as u64, heads.last().unwrap().0);

    let mut adopted = 0;
    for copy in 0..COPIES {
        let to = kim.home.join(format!("cp-{copy}"));
        let max = newcomer(&world, &kim, &format!("max-{copy}"), &to);
        let report = max.json(&["fsck"]);
        let opened = max.run(&[]);
        if opened.code == 0 {
            let entries = of(&max.json(&["entries"]));
            assert_eq!(entries, whole[..entries.len()], "a copy holds what was never there");
        } else {
            opened.fails(5, "damaged");
            assert!(opened.stderr.contains("only the first"), "{opened:?}");
            assert_eq!(report["exit"], 5, "{report}");
        }
        if report["damaged"] != 0 {
            assert!(report["whole"].as_u64() < report["size"].as_u64(), "{report}");
        }
        let written = max.run(&["sequence"]);
        assert!([4, 5].contains(&written.code), "{written:?}");
        let taken = max.run(&["adopt"]);
        match taken.code {
            0 => {
                adopted += 1;
                let added =
                    max.ok(&["-q", "freeze", "--no-code", "-c", "../../project/config.yaml", "--", "true"]);
                assert!(max.ok(&["ls", "runs", "--ids"]).contains(&added));
                let report = max.json(&["fsck"]);
                assert_eq!(report["damaged"], 0, "{report}");
            }
            _ => taken.fails(4, "refused"),
        }
    }
    println!("{} statements, {COPIES} copies by cp, {adopted} of them whole", whole.len());
}

#[test]
fn two_backups_to_one_place_at_once_leave_one_that_is_whole() {
    let (_world, kim) = World::trained();
    let dir = room(&kim, "backup");
    let root = dir.join(".ledger");
    for round in 0..6 {
        let said = kim.lay("said.txt", format!("round {round}").as_bytes());
        kim.ok(&["-q", "record", "dataset", said.to_str().unwrap(), "--name", "said"]);
        let words = ["--json", "backup", dir.to_str().unwrap()];
        let both = [(); 2].map(|()| {
            let mut command = kim.command(&words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let size = kim.json(&["head"])["size"].clone();
        let mut made = 0;
        for child in both {
            let output = child.wait_with_output().unwrap();
            let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            match output.status.code() {
                Some(0) => {
                    assert_eq!(said["size"], size, "{said}");
                    made += 1;
                }
                // The place was free when it began, and the other one has it now.
                Some(4) if round == 0 => assert_eq!(said["findings"][0]["kind"], "exists", "{said}"),
                other => panic!("{other:?} in round {round}: {said}"),
            }
        }
        assert!(made > 0, "round {round}");
        let there = kim.at(&dir);
        assert_eq!(there.json(&["fsck"])["damaged"], 0, "round {round}");
        assert_eq!(there.ok(&["head"]), kim.ok(&["head"]), "round {round}");
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&root), "what the slower one had copied is gone again");
    }
}
