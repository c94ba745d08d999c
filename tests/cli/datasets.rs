//! Data sets as libraries leave them: what is said of each, what moves no id, and what is refused.

use std::os::unix::fs::symlink;

use crate::support::{Person, World};

const COMMIT: &str = "5f3c1e0d9b7a48266c1d2e3f4051627384950a1b";

#[test]
fn what_a_data_set_is_stands_beside_it() {
    let (_world, kim) = World::project();
    for (fixture, name, snapshot) in [
        ("data/save-to-disk/verbs", "verbs", "datasets/save-to-disk"),
        ("data/files/verbs_test.parquet", "verbs.parquet", "datasets/parquet"),
        ("data/files/verbs_test.jsonl", "verbs.jsonl", "datasets/jsonl"),
    ] {
        kim.copy(fixture, name);
        let word = snapshot.rsplit('/').next().unwrap();
        kim.run(&["record", "dataset", name, "--name", word, "--licence", "CC0"])
            .matches(&format!("{snapshot}-record"));
        kim.run(&["show", &format!("data:{word}")]).matches(&format!("{snapshot}-show"));
    }
    assert_eq!(kim.json(&["show", "data:parquet"])["about"]["records"], "12");
}

#[test]
fn words_move_no_id() {
    let (_world, kim) = World::project();
    kim.copy("data/save-to-disk/verbs", "verbs");
    let recorded = kim.id(&["-q", "record", "dataset", "verbs", "--name", "verbs", "--description", "verbs"]);
    let parts = kim.json(&["freeze", "--data", "train=verbs", "--name", "base", "--", "sh"])["parts"].clone();
    let data = parts.as_array().unwrap().iter().find(|part| part["what"] == "data train").unwrap();
    assert_eq!(data["id"], recorded.as_str());
    let detail = data["detail"].as_str().unwrap();
    assert!(detail.ends_with("datasets on disk, 24 records, splits test train"), "{detail}");
    let about = kim.json(&["show", "base"])["about"].clone();
    assert_eq!(about["data train"], "datasets on disk, 24 records, splits test train");
}

#[test]
fn a_pointer_is_no_data() {
    let (_world, kim) = World::project();
    let oid = "ab".repeat(32);
    let lfs = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 123456\n");
    kim.lay("lfs/train.bin", lfs.as_bytes());
    kim.lay("lfs/README.md", b"# card\n");
    kim.lay(
        "train.csv.dvc",
        b"outs:\n- md5: 0123456789abcdef0123456789abcdef\n  size: 9\n  path: train.csv\n",
    );
    for (args, name) in [
        (&["record", "dataset", "lfs", "--name", "x"][..], "datasets/lfs"),
        (&["record", "model", "lfs", "--name", "x"], "datasets/lfs-model"),
        (&["-q", "freeze", "--data", "train=lfs", "--", "sh"], "datasets/lfs-freeze"),
        (&["record", "dataset", "train.csv.dvc", "--name", "x"], "datasets/dvc"),
    ] {
        let output = kim.run(args);
        output.fails(4, "pointer");
        output.matches(name);
    }
    kim.lay("train.csv", b"1,2\n");
    let named = kim.run(&["record", "dataset", "train.csv.dvc", "--name", "x"]);
    named.fails(4, "pointer");
    assert!(named.stderr.contains("hint: name the data itself"), "{named:?}");
    assert_eq!(kim.json(&["head"])["size"], 1, "nothing was written");
}

/// Lays a repository as the hub's cache keeps it, with the weights of a fixture.
fn cache(kim: &Person, folder: &str, names: &[&str]) -> String {
    let repo = format!("hub/{folder}");
    let snapshot = format!("{repo}/snapshots/{COMMIT}");
    std::fs::create_dir_all(kim.project.join(&snapshot)).unwrap();
    for (name, n) in names.iter().zip(0..) {
        kim.copy(&format!("checkpoints/hf-single/model/{name}"), &format!("{repo}/blobs/{n:040}"));
        symlink(format!("../../blobs/{n:040}"), kim.project.join(&snapshot).join(name)).unwrap();
    }
    snapshot
}

#[test]
fn a_snapshot_of_the_hub_is_its_files_with_repository_and_commit() {
    let (_world, kim) = World::project();
    let names = ["config.json", "model.safetensors"];
    let snapshot = cache(&kim, "models--acme--tiny-llama", &names);
    for name in names {
        kim.copy(&format!("checkpoints/hf-single/model/{name}"), &format!("plain/{name}"));
    }
    let output = kim.run(&["record", "model", &snapshot, "--name", "llama"]);
    output.matches("datasets/hub-model");
    let plain = kim.id(&["-q", "record", "model", "plain", "--name", "plain"]);
    assert_eq!(output.stdout.trim_end(), plain, "links in the cache are the files that they stand for");
    let about = kim.json(&["show", output.stdout.trim_end()])["about"].clone();
    assert_eq!(
        (about["repository"].as_str(), about["commit"].as_str()),
        (Some("acme/tiny-llama"), Some(COMMIT))
    );
    let base = format!("llama={snapshot}");
    let frozen = kim.run(&["freeze", "--base", &base, "--name", "base", "--", "sh"]);
    assert!(frozen.stderr.contains("acme/tiny-llama@5f3c1e0"), "{frozen:?}");
    assert_eq!(kim.run(&["start", "base"]).code, 0);
    kim.ok(&["-q", "end", "base"]);
    // Another blob behind the same link is other weights.
    let blob = kim.project.join(format!("hub/models--acme--tiny-llama/blobs/{:040}", 1));
    std::fs::write(blob, b"other").unwrap();
    kim.run(&["start", "base", "--again"]).fails(4, "frozen-drift");
}

#[test]
fn data_out_of_the_hub_names_their_commit() {
    let (_world, kim) = World::project();
    let snapshot = format!("hub/datasets--acme--verbs/snapshots/{COMMIT}");
    kim.copy("data/files/verbs_test.jsonl", &format!("{snapshot}/data/test-00000-of-00001.jsonl"));
    kim.run(&["record", "dataset", &snapshot, "--name", "verbs"]).matches("datasets/hub-dataset");
    kim.run(&["show", "data:verbs"]).matches("datasets/hub-dataset-show");
}

#[test]
fn one_byte_makes_another_data_set() {
    let (_world, kim) = World::project();
    let mut seen = Vec::new();
    for (n, bytes) in [&b"a,1\nb,2\n"[..], b"a,1\nb,3\n", b"a,1\r\nb,2\r\n", b"a,1\nb,2"].iter().enumerate() {
        kim.lay("data.csv", bytes);
        seen.push(kim.id(&["-q", "record", "dataset", "data.csv", "--name", &format!("d{n}")]));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "the last byte, line ends and a missing line end all count");
}
