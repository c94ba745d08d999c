//! `ledger diff`: tensors, files and fields by name; exit code 0 for equal, 1 for different, 3 where it is open.

use serde_json::{Value, json};

use crate::support::{World, safetensors};
use crate::tensors::{copy, single};

fn changes(document: &Value) -> Vec<String> {
    let list = document["differences"].as_array().unwrap().iter();
    list.map(|one| ["part", "how", "path"].map(|key| one[key].as_str().unwrap()).join(" ")).collect()
}

#[test]
fn checkpoints_are_compared_by_tensors_and_files() {
    let (_world, kim) = single();
    copy(&kim, "hf-sharded/model", "sharded");
    let id = kim.ok(&["ls", "checkpoints", "--ids"]);
    let same = kim.json(&["diff", &id, "out"]);
    assert_eq!((&same["exit"], &same["answer"]), (&0.into(), &"equal".into()), "{same}");
    assert_eq!(
        (&same["same"], &same["schema"]),
        (&json!({"tensors": 21, "files": 5}), &"ledger.diff/1".into())
    );
    kim.run(&["diff", "out", "out"]).matches("diff/equal");
    let found = kim.json(&["diff", &id, "sharded"]);
    assert_eq!((&found["exit"], &found["same"]["tensors"]), (&1.into(), &21.into()), "{found}");
    assert!(changes(&found).contains(&"files removed model.safetensors".to_owned()), "{found}");
    assert!(changes(&found).contains(&"files added model-00001-of-00004.safetensors".to_owned()), "{found}");
    let tensors = kim.json(&["diff", &id, "sharded", "--only", "tensors"]);
    assert_eq!((&tensors["exit"], &tensors["differences"]), (&0.into(), &json!([])), "{tensors}");

    copy(&kim, "hf-bf16/model", "bf16");
    let found = kim.json(&["diff", "out", "bf16", "--only", "tensors"]);
    assert_eq!((&found["exit"], changes(&found).len()), (&1.into(), 21), "{found}");
    let first = &found["differences"][0];
    assert_eq!([&first["how"], &first["a"], &first["b"]], ["dtype", "F32", "BF16"]);
    // What is recorded is enough: the files may be gone.
    std::fs::remove_dir_all(kim.project.join("out")).unwrap();
    assert_eq!(kim.json(&["diff", &id, "sharded", "--only", "tensors"])["exit"], 0);
}

#[test]
fn one_tensor_that_differs_is_named_and_what_cannot_be_compared_is_no_equality() {
    let (_world, kim) = World::trained();
    kim.lay("out/step-20/model.safetensors", &safetensors(2.0));
    let output = kim.run(&["diff", "out/step-10", "out/step-20"]);
    assert_eq!(output.code, 1);
    output.matches("diff/one-tensor");
    kim.lay("pickled/model.bin", b"\x80\x02}q\x00.");
    let found = kim.json(&["diff", "out/step-10", "pickled", "--only", "tensors"]);
    assert_eq!((&found["exit"], &found["answer"]), (&3.into(), &"unknown".into()), "{found}");
    assert_eq!(found["not_compared"][0]["part"], "tensors");
    kim.run(&["diff", "out/step-10", "pickled"]).matches("diff/pickled");
    kim.lay("copy/model.bin", b"\x80\x02}q\x00.");
    assert_eq!(kim.json(&["diff", "pickled", "copy"])["exit"], 0, "as files they are equal");
}

#[test]
fn runs_are_compared_field_by_field() {
    let (_world, kim) = World::project();
    kim.ok(&["-q", "freeze", "--name", "base", "--seed", "1", "--", "sh", "train.sh"]);
    kim.lay("config.yaml", b"optim:\n  lr: 0.2\nseed: 7\n");
    kim.lay("digits.csv", b"1,3\n");
    kim.ok(&["-q", "freeze", "--name", "other", "--seed", "2", "--", "sh", "train.sh", "--fast"]);
    let output = kim.run(&["diff", "base", "other"]);
    assert_eq!(output.code, 1);
    output.matches("diff/runs");
    let found = kim.json(&["diff", "base", "other"]);
    let expected =
        ["config changed optim.lr", "data changed train", "command changed argv", "command changed seed"];
    assert_eq!(changes(&found), expected, "{found}");
    let found = kim.json(&["diff", "base", "other", "--only", "config,code"]);
    assert_eq!(changes(&found), ["config changed optim.lr"]);
    assert_eq!(kim.json(&["diff", "base", "other", "--only", "env"])["exit"], 0);
    assert_eq!(kim.json(&["diff", "base", "base"])["answer"], "equal");

    kim.run(&["diff", "base", "digits.csv"]).fails(2, "usage");
    kim.run(&["diff", "base", "other", "--only", "tensors"]).matches("diff/wrong-part");
    kim.run(&["diff", "base", "nowhere"]).fails(3, "no-such-id");
    assert_eq!(kim.run(&["diff", "base"]).code, 2);
}

#[test]
fn data_is_compared_by_its_files() {
    let (_world, kim) = World::founded();
    kim.lay("data/a.csv", b"1\n");
    kim.lay("data/b.csv", b"2\n");
    let first = kim.id(&["-q", "record", "dataset", "data", "--name", "train"]);
    kim.ok(&["-q", "freeze", "--name", "one", "--no-code", "--data", "train=data", "--", "sh"]);
    kim.lay("data/b.csv", b"3\n");
    kim.lay("data/c.csv", b"4\n");
    kim.ok(&["-q", "freeze", "--name", "two", "--no-code", "--data", "train=data", "--", "sh"]);
    let found = kim.json(&["diff", &first, "data"]);
    assert_eq!(changes(&found), ["files changed b.csv", "files added c.csv"], "{found}");
    let found = kim.json(&["diff", "one", "two"]);
    assert_eq!(changes(&found), ["data changed train/b.csv", "data added train/c.csv"], "{found}");
}
