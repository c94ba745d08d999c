//! A ledger's own files, cut short, edited, taken away or swapped: known as damage, and never built upon.

use std::path::{Path, PathBuf};

use crate::scene::{FREEZE, Harm, files, freeze, is_sound, object, project, refuses, root, runs};
use crate::support::{Person, World};

const HARMS: [Harm; 4] = [Harm::Truncated, Harm::Edited, Harm::Missing, Harm::Swapped];

#[test]
fn not_a_ledger() {
    let (world, kim) = project();
    let lou = world.person("lou");
    let empty = lou.at(&lou.home);
    for args in [&["head"][..], &["freeze"], &["entries"], &["cat", "run:000000"], &["fsck"], &["log"]] {
        let said = refuses(&empty, args, 3, "not-a-ledger");
        assert!(said.stderr.contains("\nhint: ledger init\n"), "{said:?}");
    }
    let pointed = lou.with("LEDGER_DIR", kim.project.join("data").to_str().unwrap());
    refuses(&pointed, &["head"], 3, "not-a-ledger");
    assert_eq!(files(&lou.home), files(Path::new("/nonexistent")), "looking for a ledger makes nothing");
}

#[test]
fn a_ledger_of_a_newer_format() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let path = root(&kim).join("format");
    let format = std::fs::read_to_string(&path).unwrap();
    for newer in ["ledger-format/2\nshared no\n", "ledger-format/10\n"] {
        std::fs::write(&path, newer).unwrap();
        for args in [&["head"][..], &FREEZE, &["fsck"], &["verify", "data"]] {
            refuses(&kim, args, 3, "newer-format");
        }
    }
    // What names no format at all is damage, and no newer program will help.
    for broken in ["", "\u{0}\u{0}", "ledger-form"] {
        std::fs::write(&path, broken).unwrap();
        for args in [&["head"][..], &FREEZE] {
            refuses(&kim, args, 5, "damaged");
        }
        fsck_sees(&kim, "format", Harm::Truncated);
    }
    std::fs::write(&path, format).unwrap();
    is_sound(&kim, &[run]);
}

/// Harms one file, lets `look` say what must be seen, repairs it, and checks that nothing was lost.
fn harmed(kim: &Person, path: &Path, other: &[u8], acknowledged: &[String], look: &dyn Fn(Harm)) {
    let whole = std::fs::read(path).unwrap();
    for harm in HARMS {
        harm.hit(path, other);
        look(harm);
        std::fs::write(path, &whole).unwrap();
    }
    is_sound(kim, acknowledged);
}

/// `fsck` must call the ledger damaged, and change nothing.
fn fsck_sees(kim: &Person, what: &str, harm: Harm) {
    let before = files(&root(kim));
    let said = kim.run(&["fsck"]);
    assert_eq!(said.code, 5, "{what} {harm:?}: {said:?}");
    assert_eq!(files(&root(kim)), before, "fsck repairs only when it is asked to");
}

#[test]
fn an_object_harmed() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let path = object(&kim, &run);
    let other = std::fs::read(object(&kim, &freeze(&kim))).unwrap();
    harmed(&kim, &path, &other, std::slice::from_ref(&run), &|harm| {
        let (code, slug) = if harm == Harm::Missing { (3, "no-such-id") } else { (5, "damaged") };
        refuses(&kim, &["cat", &run], code, slug);
        refuses(&kim, &["start", &run], code, slug);
        fsck_sees(&kim, "object", harm);
    });
}

#[test]
fn a_checkpoint_record_harmed() {
    let (_world, kim) = project();
    kim.lay("ck/model.safetensors", &weights(7));
    kim.lay("other/model.safetensors", &weights(8));
    let run = freeze(&kim);
    let id = kim.ok(&["-q", "record", "checkpoint", "ck", "--run", "none"]);
    let other = kim.ok(&["-q", "record", "checkpoint", "other", "--run", "none"]);
    assert_eq!(kim.run(&["verify", "ck"]).code, 0);
    let other = std::fs::read(object(&kim, &other)).unwrap();
    harmed(&kim, &object(&kim, &id), &other, &[run], &|harm| {
        let said = kim.run(&["verify", "ck"]);
        let expected: &[i32] = if harm == Harm::Missing { &[3, 5] } else { &[5] };
        assert!(expected.contains(&said.code), "{harm:?}: {said:?}");
        fsck_sees(&kim, "checkpoint record", harm);
    });
    assert_eq!(kim.run(&["verify", "ck"]).code, 0);
}

/// The smallest file of weights.
fn weights(value: u8) -> Vec<u8> {
    let header = b"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    [&(header.len() as u64).to_le_bytes()[..], header, &[value]].concat()
}

/// A ledger with some runs, the same of somebody else, and the newest file in a folder of both.
fn two_logs(folder: &str) -> (World, Person, Vec<String>, PathBuf, Vec<u8>) {
    let (world, kim) = project();
    let (_other_world, other) = project();
    let acknowledged: Vec<String> = (0..3).map(|_| freeze(&kim)).collect();
    for _ in 0..3 {
        freeze(&other);
    }
    let newest = |person: &Person| root(person).join("log").join(folder);
    let foreign = std::fs::read(newest(&other)).unwrap();
    let path = newest(&kim);
    (world, kim, acknowledged, path, foreign)
}

#[test]
fn a_bundle_harmed() {
    let (_world, kim, acknowledged, path, foreign) = two_logs("tile/entries/000.p/4");
    harmed(&kim, &path, &foreign, &acknowledged, &|harm| {
        for args in [&["head"][..], &["entries"], &FREEZE] {
            refuses(&kim, args, 5, "damaged");
        }
        fsck_sees(&kim, "bundle", harm);
    });
}

#[test]
fn a_tile_harmed() {
    let (_world, kim, acknowledged, path, foreign) = two_logs("tile/0/000.p/4");
    let mut acknowledged = acknowledged;
    let whole = std::fs::read(&path).unwrap();
    for harm in HARMS {
        harm.hit(&path, &foreign);
        // Nothing may be put on top of a log that cannot prove its past; what was to be put there waits.
        let said = kim.run(&FREEZE);
        said.fails(5, "damaged");
        assert!(said.stderr.contains("\nhint: ledger fsck\n"), "{said:?}");
        assert!(!root(&kim).join("log/heads/004").exists(), "a head was built upon a damaged tile");
        fsck_sees(&kim, "tile", harm);
        std::fs::write(&path, &whole).unwrap();
    }
    acknowledged.push(freeze(&kim));
    assert_eq!(runs(&kim).len(), 8, "what waited is in the log now");
    is_sound(&kim, &acknowledged);
}

#[test]
fn a_head_harmed() {
    let (_world, kim, acknowledged, path, foreign) = two_logs("checkpoint");
    harmed(&kim, &path, &foreign, &acknowledged, &|harm| {
        for args in [&["head"][..], &["entries"], &FREEZE] {
            refuses(&kim, args, 5, "damaged");
        }
        fsck_sees(&kim, "head", harm);
    });
}

#[test]
fn a_head_swapped_for_an_older_one() {
    let (_world, kim) = project();
    let path = root(&kim).join("log/checkpoint");
    let old = std::fs::read(&path).unwrap();
    let run = freeze(&kim);
    let new = std::fs::read(&path).unwrap();
    std::fs::write(&path, old).unwrap();
    // What was seen is still committed, and is read from there.
    assert_eq!(kim.json(&["head"])["size"], 2);
    let commit = root(&kim).join("log/heads/001");
    let bytes = std::fs::read(&commit).unwrap();
    std::fs::remove_file(&commit).unwrap();
    for args in [&["head"][..], &FREEZE] {
        refuses(&kim, args, 3, "behind");
    }
    std::fs::write(&commit, bytes).unwrap();
    std::fs::write(&path, new).unwrap();
    is_sound(&kim, &[run]);
}

#[test]
fn a_head_file_that_was_not_finished_and_is_harmed() {
    let (_world, kim) = project();
    let before = freeze(&kim);
    let saved = files(&root(&kim).join("log"));
    let run = freeze(&kim);
    // As a crash after the commit point leaves it: committed, not yet published, and not yet remembered.
    let head = root(&kim).join("log/heads/002");
    let committed = std::fs::read(&head).unwrap();
    for path in files(&root(&kim).join("log")).into_keys().filter(|path| *path != head) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in saved {
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::remove_dir_all(kim.home.join(".local")).unwrap();
    let earlier = std::fs::read(root(&kim).join("log/heads/001")).unwrap();
    for harm in HARMS {
        if harm == Harm::Missing {
            continue;
        }
        harm.hit(&head, &earlier);
        let said = kim.run(&FREEZE);
        said.fails(5, "damaged");
        assert!(said.stderr.contains("\nhint: ledger fsck\n"), "{said:?}");
        let left = std::fs::read(&head).unwrap();
        assert_ne!(left, committed, "a damaged commit is kept for whoever looks into it");
        std::fs::remove_file(&head).unwrap();
        std::fs::write(&head, &committed).unwrap();
    }
    is_sound(&kim, &[before, run]);
}
