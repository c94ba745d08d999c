//! Checkpoints as libraries leave them on disk: each is recorded and shown, or refused with the reason.
//!
//! `tests/fixtures/checkpoints/NOTE.md` says who wrote them. Digests and tensors are tested in the library.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Person, World};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkpoints").join(name)
}

/// Copies a fixture into the project, with its links.
fn copy(from: &Path, to: &Path) {
    let kind = from.symlink_metadata().unwrap().file_type();
    if kind.is_symlink() {
        symlink(std::fs::read_link(from).unwrap(), to).unwrap();
    } else if kind.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
    }
}

/// A world with one fixture in the project, under its own path.
fn with(names: &[&str]) -> (World, Person) {
    let (world, kim) = World::founded();
    for name in names {
        copy(&fixture(name), &kim.project.join(name));
    }
    (world, kim)
}

fn slug(name: &str) -> String {
    name.replace(['/', '.', '='], "-")
}

const LIGHTNING: &str = "lightning-ckpt/lightning_logs/version_0/checkpoints";

/// Checkpoints that are recorded: the words that are said of each when it is recorded and shown.
const WHOLE: [&str; 29] = [
    "hf-single/model",
    "hf-sharded/model",
    "hf-resaved/older-transformers",
    "hf-resaved/metadata-added",
    "hf-resaved/metadata-order-a",
    "hf-resaved/metadata-order-b",
    "hf-bf16/model",
    "hf-trainer/output",
    "hf-trainer/output/checkpoint-5",
    "hf-trainer/output/checkpoint-10",
    "hf-trainer-interrupted/output/checkpoint-5",
    "peft-adapter/adapter",
    "peft-adapter/merged",
    "accelerate-state/checkpoints",
    "accelerate-state/checkpoints/checkpoint_1",
    "torch-bin/hf-bin",
    "torch-bin/hf-bin-sharded",
    "torch-bin/plain",
    "torch-bin/plain/legacy.pth",
    "torch-bin/plain/scripted.pt",
    LIGHTNING,
    "dcp/step-2",
    "dcp/two-ranks",
    "deepspeed",
    "orbax/manager",
    "orbax/single",
    "converted",
    "hf-with-extra-shard/model",
    "hf-cache-layout/local-dir/tiny-llama",
];

#[test]
fn each_checkpoint_is_recorded_and_shown_in_words() {
    let (_world, kim) = with(&WHOLE);
    for name in WHOLE {
        let recorded = kim.run(&["record", "checkpoint", name, "--run", "none"]);
        assert_eq!(recorded.code, 0, "{name}: {recorded:?}");
        recorded.matches(&format!("checkpoints/record-{}", slug(name)));
        let shown = kim.run(&["show", recorded.stdout.trim_end()]);
        shown.matches(&format!("checkpoints/show-{}", slug(name)));
    }
}

#[test]
fn each_incomplete_checkpoint_is_refused_with_the_reason() {
    let names = ["hf-trainer-interrupted/output", "dcp-interrupted/step-4", "hf-missing-shard/model"];
    let (_world, kim) = with(&names);
    for name in [&names[..], &["hf-trainer-interrupted/output/checkpoint-10"]].concat() {
        let refused = kim.run(&["record", "checkpoint", name, "--run", "none"]);
        refused.fails(3, "incomplete-checkpoint");
        refused.matches(&format!("checkpoints/refused-{}", slug(name)));
    }
    assert_eq!(kim.ok(&["ls", "checkpoints", "--ids"]), "", "nothing was recorded");
    let flags = ["record", "checkpoint", "hf-trainer-interrupted/output/checkpoint-10", "--run", "none"];
    let recorded = kim.run(&[&flags[..], &["--incomplete"]].concat());
    recorded.matches("checkpoints/record-incomplete");
    let id = recorded.stdout.trim_end();
    assert_eq!(kim.json(&["show", id])["record"]["state"], "incomplete");
    kim.run(&["show", id]).matches("checkpoints/show-incomplete");
}

#[test]
fn a_pointer_in_place_of_weights_is_refused_whatever_is_asked_for() {
    let (_world, kim) = with(&["lfs-pointer/model"]);
    let flags = ["record", "checkpoint", "lfs-pointer/model", "--run", "none"];
    let refused = kim.run(&flags);
    refused.fails(4, "pointer");
    refused.matches("checkpoints/refused-lfs-pointer");
    kim.run(&[&flags[..], &["--incomplete"]].concat()).fails(4, "pointer");
    kim.lay("dvc/model.safetensors.dvc", b"outs:\n- md5: 1\n");
    kim.lay("dvc/config.json", b"{}");
    let refused = kim.run(&["record", "checkpoint", "dvc", "--run", "none"]);
    refused.fails(4, "pointer");
    assert!(refused.stderr.contains("\nhint: dvc pull\n"), "{refused:?}");
    assert_eq!(kim.ok(&["ls", "checkpoints", "--ids"]), "");
}

#[test]
fn a_snapshot_of_a_hub_cache_is_whole_through_its_own_links() {
    let (_world, kim) = with(&["hf-cache-layout/hub"]);
    let snapshots = "hf-cache-layout/hub/models--acme--tiny-llama/snapshots";
    let name = format!("{snapshots}/5f3c1e0d9b7a48266c1d2e3f4051627384950a1b");
    let recorded = kim.json(&["record", "checkpoint", &name, "--run", "none"]);
    assert_eq!(recorded["checkpoint"]["state"], "complete");
    for entry in std::fs::read_dir(kim.project.join(&name)).unwrap() {
        let path = entry.unwrap().path();
        let to = kim.project.join("whole").join(path.file_name().unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(path, to).unwrap();
    }
    copy(&fixture("hf-single/model"), &kim.project.join("single"));
    assert_eq!(
        kim.ok(&["hash", "--tensors", "whole"]).split_once(' ').unwrap().0,
        kim.ok(&["hash", "--tensors", "single"]).split_once(' ').unwrap().0
    );
    // A link out of the repository's own blobs is followed by nobody.
    let weights = kim.project.join(&name).join("model.safetensors");
    std::fs::remove_file(&weights).unwrap();
    std::os::unix::fs::symlink(kim.project.join("single/model.safetensors"), &weights).unwrap();
    let refused = kim.run(&["record", "checkpoint", &name, "--run", "none"]);
    refused.fails(3, "incomplete-checkpoint");
    assert!(refused.stderr.contains("`cp -rL` makes a whole copy"), "{refused:?}");
}

#[test]
fn json_says_what_the_words_say() {
    let (_world, kim) = with(&["hf-trainer/output", "peft-adapter/adapter", "torch-bin/plain"]);
    let record =
        |name: &str| kim.json(&["record", "checkpoint", name, "--run", "none"])["checkpoint"].clone();
    let trainer = record("hf-trainer/output");
    assert_eq!((&trainer["layout"], &trainer["state"]), (&"hf-trainer-output".into(), &"complete".into()));
    assert_eq!((&trainer["step"], &trainer["tokens"]), (&10.into(), &560.into()));
    assert_eq!((&trainer["epoch"], &trainer["best"]), (&"0.4".into(), &"output/checkpoint-10".into()));
    let description = &trainer["description"];
    assert_eq!(description["inside"][0]["path"], "checkpoint-10");
    assert_eq!(description["roles"]["weights"].as_array().unwrap().len(), 3);
    assert!(description["pickles"][0]["path"].is_string());
    let adapter = record("peft-adapter/adapter")["adapter"].clone();
    assert_eq!((&adapter["base"], &adapter["rank"]), (&"checkpoints/hf-single/model".into(), &4.into()));
    assert!(adapter["revision"].is_null());
    let shown = kim.json(&["show", "torch-bin/plain"]);
    assert!(shown["checkpoint"].is_null(), "what is not recorded is not shown");
    let id = record("torch-bin/plain");
    assert_eq!(id["layout"], "torch");
}

#[test]
fn digests_of_tensors_survive_what_digests_of_files_do_not() {
    let again = [
        "hf-single/model",
        "hf-sharded/model",
        "hf-resaved/older-transformers",
        "hf-resaved/metadata-added",
        "hf-resaved/metadata-order-a",
        "hf-resaved/metadata-order-b",
    ];
    let others = ["hf-bf16/model", "hf-trainer/output/checkpoint-5", "hf-trainer/output/checkpoint-10"];
    let (_world, kim) = with(&[&again[..], &others].concat());
    let first = |args: &[&str]| kim.ok(args).split_once(' ').unwrap().0.to_owned();
    let single = first(&["hash", "--tensors", again[0]]);
    for name in again {
        assert_eq!(first(&["hash", "--tensors", name]), single, "{name}");
    }
    let tensors: std::collections::BTreeSet<String> =
        others.iter().map(|name| first(&["hash", "--tensors", name])).chain([single]).collect();
    assert_eq!(tensors.len(), 4, "each of the others is its own");
    let files: std::collections::BTreeSet<String> =
        again.iter().chain(&others).map(|name| first(&["hash", name])).collect();
    assert_eq!(files.len(), 9, "files differ wherever a byte does");
    let path = kim.project.join("hf-single/model/model.safetensors");
    let (before, whole) = (first(&["hash", "--tensors", "hf-single/model"]), std::fs::read(&path).unwrap());
    let mut flipped = whole;
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    assert_ne!(first(&["hash", "--tensors", "hf-single/model"]), before);
}

#[test]
fn the_fixtures_are_the_bytes_that_were_written() {
    let (_world, kim) = World::founded();
    let manifest = std::fs::read_to_string(fixture("MANIFEST.sha256")).unwrap();
    let all = kim.json(&["hash", "--digests", "all", fixture("").to_str().unwrap()]);
    let seen = |path: &str| {
        let mut files = all["files"].as_array().unwrap().iter();
        files.find(|file| file["path"] == path).map(|file| file["sha256"].as_str().unwrap().to_owned())
    };
    assert!(manifest.lines().count() > 200);
    for line in manifest.lines() {
        let (digest, path) = line.split_once("  ").unwrap();
        assert_eq!(seen(path).as_deref(), Some(digest), "{path}: line ends or links were changed");
    }
    for link in [
        "lightning-ckpt/lightning_logs/version_0/checkpoints/last.ckpt",
        "hf-cache-layout/hub/models--acme--tiny-llama/snapshots/5f3c1e0d9b7a48266c1d2e3f4051627384950a1b/config.json",
    ] {
        assert!(fixture(link).is_symlink(), "{link}");
    }
}

#[test]
fn a_pointer_where_weights_are_recorded_is_named_for_what_it_is() {
    let (_world, kim) = with(&["hf-single/model", "lfs-pointer/model"]);
    let id = kim.id(&["-q", "record", "checkpoint", "hf-single/model", "--run", "none"]);
    for flags in [&["verify", "lfs-pointer/model"][..], &["verify", "lfs-pointer/model", "--is", &id]] {
        let found = kim.json(flags);
        assert_eq!(found["exit"], 1, "{found}");
        let findings = found["findings"].as_array().unwrap();
        let of = |kind: &str| findings.iter().find(|one| one["kind"] == kind).unwrap_or(&found);
        assert_eq!(of("wrong-bytes")["at"], "model.safetensors", "{found}");
        let said = of("incomplete-checkpoint")["message"].as_str().unwrap_or_default();
        for word in ["`model.safetensors` is a git-lfs pointer", "sha256 2f08f521e37c..", "30960 bytes"] {
            assert!(said.contains(word), "{word}: {found}");
        }
    }
}

#[test]
fn a_checkpoint_that_is_named_by_a_link_is_that_file() {
    let (_world, kim) = with(&[LIGHTNING, "hf-single/model"]);
    let recorded = kim.json(&["record", "checkpoint", &format!("{LIGHTNING}/last.ckpt"), "--run", "none"]);
    assert_eq!(
        (&recorded["exit"], &recorded["checkpoint"]["layout"]),
        (&0.into(), &"lightning".into()),
        "{recorded}"
    );
    symlink("hf-single/model/model.safetensors", kim.project.join("current.safetensors")).unwrap();
    let tensors = |path: &str| kim.ok(&["hash", "--tensors", path]).split_once(' ').unwrap().0.to_owned();
    assert_eq!(tensors("current.safetensors"), tensors("hf-single/model/model.safetensors"));
    let stored = kim.run(&["record", "checkpoint", "current.safetensors", "--run", "none", "--store"]);
    assert_eq!(stored.code, 0, "{stored:?}");
}
