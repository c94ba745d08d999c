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

#[test]
fn no_byte_is_left_out_however_large_the_data_are() {
    let (_world, kim) = World::project();
    // Text, a column of times and a type of numbers: what a sample of rows or a digest of values would not see.
    let numbers = |dtype: &str| {
        format!("\u{93}NUMPY{{'descr': '{dtype}', 'shape': (2,)}}\n\0\0\0\0\u{1}\u{1}\u{1}\u{1}")
    };
    let mut all: Vec<Vec<u8>> = vec![
        b"id,at\n1,2026-11-30T18:00:00Z\n2,2026-11-30T18:00:01Z\n".to_vec(),
        b"id,at\n1,2026-11-30T18:00:00Z\n2,2026-12-01T18:00:01Z\n".to_vec(),
        numbers("<f4").into_bytes(),
        numbers("<i4").into_bytes(),
    ];
    let large: Vec<u8> = (0..1_000_000).flat_map(|n| format!("{n:07}\n").into_bytes()).collect();
    all.extend([0, 4_095, 4_096, (1 << 20) - 1, 1 << 20, large.len() / 2, large.len() - 1].map(|at| {
        let mut other = large.clone();
        other[at] ^= 1;
        other
    }));
    all.push(large);
    let mut seen: Vec<String> = Vec::new();
    for bytes in &all {
        kim.lay("data", bytes);
        seen.push(kim.ok(&["hash", "--no-cache", "data"]));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all.len());
}

#[test]
fn data_behind_a_link_are_what_the_link_led_to() {
    let (_world, kim) = World::project();
    kim.lay("v1/train.csv", b"1,2\n");
    // Of another size, since two files that are written at once may have one time.
    kim.lay("v2/train.csv", b"1,33\n");
    let link = kim.project.join("current");
    let lead = |to: &str| {
        std::fs::remove_file(&link).unwrap_or_default();
        symlink(to, &link).unwrap();
    };
    lead("v1");
    kim.ok(&["-q", "freeze", "--data", "train=current", "--name", "base", "--", "sh"]);
    kim.ok(&["-q", "start", "base"]);
    kim.copy("checkpoints/hf-single/model", "out");
    kim.ok(&["-q", "record", "checkpoint", "out", "--run", "base"]);
    kim.ok(&["-q", "end", "base"]);
    let data = || kim.json(&["show", "base"])["record"]["data"].clone();
    let frozen = data();
    let changes: [(&str, &[u8]); 2] = [("v2", b"1,2\n"), ("v1", b"9,9\n")];
    for (to, first) in changes {
        lead(to);
        kim.lay("v1/train.csv", first);
        kim.run(&["start", "base", "--again"]).fails(4, "frozen-drift");
        let found = kim.json(&["verify", "out", "--data"]);
        assert_eq!(found["exit"], 1, "{found}");
        let findings = found["findings"].as_array().unwrap().iter();
        let wrong: Vec<&str> = findings
            .filter(|one| one["kind"] == "wrong-bytes")
            .map(|one| one["message"].as_str().unwrap())
            .collect();
        assert!(matches!(&wrong[..], [text] if text.starts_with("data `train`: recorded ")), "{found}");
        assert_eq!(data(), frozen, "what was frozen stays");
    }
    kim.lay("v1/train.csv", b"1,2\n");
    assert_eq!(kim.json(&["verify", "out", "--data"])["exit"], 0);
}

#[test]
fn a_pointer_is_no_base_model_either() {
    let (_world, kim) = World::project();
    kim.copy("checkpoints/lfs-pointer/model", "model");
    let output = kim.run(&["-q", "freeze", "--base", "policy=model", "--", "sh"]);
    output.fails(4, "pointer");
    for said in ["2f08f521e37ca5371b40fdc4163ffdfa66ef3346171cbbc1ffe7c7602f2833d4", "30960 bytes"] {
        assert!(output.stderr.contains(said), "{output:?}");
    }
    assert_eq!(kim.json(&["head"])["size"], 1);
}

#[test]
fn a_pointer_behind_a_link_is_no_data_either() {
    let (_world, kim) = World::project();
    kim.copy("checkpoints/lfs-pointer/model/model.safetensors", "pointer.bin");
    symlink("pointer.bin", kim.project.join("current.bin")).unwrap();
    kim.lay("train.csv.dvc", b"outs:\n- md5: 0123456789abcdef0123456789abcdef\n  path: train.csv\n");
    symlink("train.csv.dvc", kim.project.join("current.dvc")).unwrap();
    for args in [
        &["record", "dataset", "current.bin", "--name", "x"][..],
        &["record", "model", "current.bin", "--name", "x"],
        &["-q", "freeze", "--data", "train=current.bin", "--", "sh"],
        &["-q", "freeze", "--base", "policy=current.bin", "--", "sh"],
        &["record", "dataset", "current.dvc", "--name", "x"],
    ] {
        kim.run(args).fails(4, "pointer");
    }
    assert_eq!(kim.json(&["head"])["size"], 1, "nothing was written");
}

#[test]
fn data_that_are_named_by_a_link_are_counted_and_stored() {
    let (_world, kim) = World::project();
    kim.copy("data/files/verbs_test.parquet", "verbs.parquet");
    symlink("verbs.parquet", kim.project.join("current.parquet")).unwrap();
    let output = kim.run(&["record", "dataset", "current.parquet", "--name", "verbs", "--store"]);
    assert_eq!(output.code, 0, "{output:?}");
    output.never_says("changed while it was read");
    assert_eq!(kim.json(&["show", "data:verbs"])["about"]["records"], "12");
    let digest = kim.ok(&["hash", "verbs.parquet"]);
    let bytes = kim.command(&["cat", &digest[..64]]).output().unwrap().stdout;
    assert!(bytes == std::fs::read(kim.project.join("verbs.parquet")).unwrap());
}
