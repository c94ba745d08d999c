//! Whole directories, as libraries leave them and as accidents do.

#![expect(clippy::disallowed_methods, reason = "tests lay files")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::capture::walk::Options;
use crate::id::Digests;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkpoints").join(name)
}

fn seen(dir: &Path) -> Weights {
    let tree = walk::observe(dir, &Options::new(Digests::Blake3), &|_| {}).unwrap();
    observe(&tree, dir).unwrap()
}

/// A directory called `name` with these files; a safetensors file holds one tensor of the given name.
fn lay(name: &str, files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(name);
    fs::create_dir(&dir).unwrap();
    for (file, bytes) in files {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let is_tensor = file.ends_with(".safetensors") && bytes.len() == 1;
        fs::write(path, if is_tensor { one_tensor(bytes[0]) } else { bytes.to_vec() }).unwrap();
    }
    (root, dir)
}

fn one_tensor(name: u8) -> Vec<u8> {
    let name = char::from(name);
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), b"x"].concat()
}

fn texts(weights: &Weights) -> Vec<String> {
    weights.problems.iter().map(ToString::to_string).collect()
}

fn paths(weights: &Weights) -> Vec<&str> {
    weights.weights.iter().map(|path| std::str::from_utf8(path).unwrap()).collect()
}

#[test]
fn tensors_survive_sharding_and_saving_again_but_not_a_cast() {
    let single = seen(&fixture("hf-single/model"));
    let tensors = single.tensors.as_ref().unwrap();
    assert_eq!((single.format, tensors.count, single.problems.len()), ("safetensors", 21, 0));
    assert_eq!(content::Tensors::decode(&tensors.bytes).unwrap().tensors.len(), 21);
    assert_eq!(tensors.id.to_hex(), "83b35233863ebd7db34b74f0751e948cb1e32b97016b01e07fcc99570b39121f");
    let sharded = seen(&fixture("hf-sharded/model"));
    assert_eq!((sharded.format, sharded.problems.len()), ("sharded-safetensors", 0));
    assert_eq!(sharded.weights.len(), 9);
    for again in [
        sharded,
        seen(&fixture("hf-resaved/metadata-order-a")),
        seen(&fixture("hf-resaved/metadata-order-b")),
    ] {
        assert_eq!(again.tensors.as_ref(), Some(tensors));
    }
    let cast = seen(&fixture("hf-bf16/model"));
    assert_eq!(cast.tensors.as_ref().map(|tensors| tensors.count), Some(21));
    assert_ne!(cast.tensors.unwrap().id, tensors.id);
}

#[test]
fn a_missing_shard_is_named() {
    let weights = seen(&fixture("hf-missing-shard/model"));
    let text = "`model.safetensors.index.json` needs one file more: `model-00003-of-00004.safetensors`";
    assert_eq!(texts(&weights), [text]);
    assert_eq!((weights.incomplete().count(), weights.tensors), (1, None));

    let (_root, dir) = lay("m", &[("m-00001-of-00003.gguf", b"1"), ("m-00003-of-00003.gguf", b"3")]);
    let weights = seen(&dir);
    assert_eq!(texts(&weights), ["`m-00001-of-00003.gguf` needs one file more: `m-00002-of-00003.gguf`"]);
    assert_eq!(weights.incomplete().count(), 1);
    fs::write(dir.join("m-00002-of-00003.gguf"), "2").unwrap();
    assert!(seen(&dir).problems.is_empty());
}

#[test]
fn a_shard_that_no_index_names_is_left_out_of_the_tensors() {
    let index = br#"{"weight_map": {"a": "model-00001-of-00001.safetensors"}}"#;
    let files: [(&str, &[u8]); 3] = [
        ("model.safetensors.index.json", index),
        ("model-00001-of-00001.safetensors", b"a"),
        ("model-00002-of-00006.safetensors", b"a"),
    ];
    let (_root, dir) = lay("m", &files);
    let weights = seen(&dir);
    let text = "`model-00002-of-00006.safetensors` is not named by `model.safetensors.index.json`";
    assert_eq!((texts(&weights), weights.incomplete().count()), (vec![text.to_owned()], 0));
    let (_alone, dir) = lay("m", &[("x.safetensors", b"a")]);
    assert_eq!(weights.tensors, seen(&dir).tensors);
}

#[test]
fn an_index_is_held_to_the_headers() {
    for (index, text) in [
        (r#"{"weight_map": {"b": "m-00001-of-00001.safetensors"}}"#, "names tensor `b`"),
        (r#"{"weight_map": {"a": "m-00001-of-00001.safetensors", "a": "x"}}"#, "`a` stands twice"),
        (r#"{"weight_map": {"a": "../m.safetensors"}}"#, "needs one file more"),
        (r#"{"weight_map": 1}"#, "is not an index"),
        ("{", "is not an index"),
    ] {
        let files: [(&str, &[u8]); 2] =
            [("m.safetensors.index.json", index.as_bytes()), ("m-00001-of-00001.safetensors", b"a")];
        let (_root, dir) = lay("m", &files);
        let weights = seen(&dir);
        assert!(texts(&weights).iter().any(|found| found.contains(text)), "{index}: {:?}", texts(&weights));
        assert!(weights.incomplete().count() > 0 && weights.tensors.is_none(), "{index}");
    }
}

#[test]
fn pointers_in_place_of_weights_are_told() {
    let weights = seen(&fixture("lfs-pointer/model"));
    let text = "`model.safetensors` is a git-lfs pointer of 130 bytes, not the file itself; `git lfs pull` fetches it";
    assert_eq!((texts(&weights), weights.incomplete().count()), (vec![text.to_owned()], 1));

    let (_root, dir) = lay("m", &[("config.json", b"{}"), ("model.pt.dvc", b"outs:")]);
    assert!(matches!(seen(&dir).problems[..], [Problem::DvcPointer { .. }]));
    fs::write(dir.join("model.pt"), "fetched").unwrap();
    assert!(seen(&dir).problems.is_empty());

    let (_root, dir) = lay("m", &[("config.json", b"{}"), ("model.pt", b"x")]);
    symlink("../blobs/1234", dir.join("model.safetensors")).unwrap();
    symlink("model.pt", dir.join("last.ckpt")).unwrap();
    symlink("/somewhere", dir.join("notes.txt")).unwrap();
    let weights = seen(&dir);
    assert!(matches!(&weights.problems[..], [Problem::Link { path, .. }] if path == b"model.safetensors"));
    assert_eq!(weights.incomplete().count(), 1);
}

#[test]
fn torn_files_are_told() {
    let whole = fs::read(fixture("hf-single/model/model.safetensors")).unwrap();
    let (_root, dir) = lay("m", &[("model.safetensors", &whole[..20_000])]);
    let weights = seen(&dir);
    assert!(matches!(weights.problems[..], [Problem::Damaged { .. }]) && weights.tensors.is_none());
    assert_eq!(weights.incomplete().count(), 1);

    let zip = |end: &[u8]| [b"PK\x03\x04 some entries".as_slice(), end].concat();
    let end = b"PK\x05\x06".iter().copied().chain([0; 18]).collect::<Vec<u8>>();
    let files: [(&str, &[u8]); 2] = [("model.pt", &zip(&end)), ("optimizer.pt", &zip(b"..."))];
    let (_root, dir) = lay("m", &files);
    let weights = seen(&dir);
    assert_eq!(weights.unsafe_pickles, [b"model.pt".to_vec()]);
    assert_eq!(texts(&weights), ["`optimizer.pt` is cut short: its archive has no directory at the end"]);
    assert_eq!(weights.incomplete().count(), 0, "the weights are whole");
    fs::write(dir.join("model.pt"), zip(b"...")).unwrap();
    assert_eq!(seen(&dir).incomplete().count(), 1);

    let (_root, dir) = lay("m", &[("__0_0.distcp", b"1"), ("__1_0.distcp", b"2")]);
    assert_eq!(texts(&seen(&dir)), ["`.metadata` is missing, so the save did not finish"]);
    fs::write(dir.join(".metadata"), "x").unwrap();
    assert!(seen(&dir).problems.is_empty());
}

#[test]
fn what_only_a_training_reads_is_not_weights() {
    let files: Vec<(&str, &[u8])> = [
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "chat_template.jinja",
        "custom.py",
        "additional_chat_templates/tool.jinja",
        "optimizer.pt",
        "optimizer.bin",
        "scheduler.pt",
        "rng_state_0.pth",
        "random_states_0.pkl",
        "training_args.bin",
        "trainer_state.json",
        "state.json",
        "scaler.pt",
        "optimizer_0/__0_0.distcp",
        "optimizer_0/.metadata",
        "README.md",
        "train_config.json",
        "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
    ]
    .into_iter()
    .map(|name| (name, &b"a"[..]))
    .chain([("optimizer.safetensors", &b"not one"[..])])
    .collect();
    let (_root, dir) = lay("m", &files);
    let weights = seen(&dir);
    let expected = [
        "additional_chat_templates/tool.jinja",
        "chat_template.jinja",
        "config.json",
        "custom.py",
        "model.safetensors",
        "tokenizer.json",
        "vocab.txt",
    ];
    assert_eq!(paths(&weights), expected);
    assert_eq!(weights.tensors.unwrap().count, 1);

    let (_root, dir) = lay("m", &[("config.json", b"{}"), ("weights.dat", b"1"), ("notes", b"2")]);
    let weights = seen(&dir);
    assert_eq!((paths(&weights), weights.format), (vec!["config.json", "notes", "weights.dat"], "files"));
    let (_root, dir) = lay("m", &[]);
    assert!(matches!(seen(&dir).problems[..], [Problem::Empty]));
}

#[test]
fn one_tensor_name_in_two_files_leaves_the_tensors_open() {
    let (_root, dir) =
        lay("m", &[("a.safetensors", b"t"), ("b.safetensors", b"t"), ("sub/a.safetensors", b"t")]);
    let weights = seen(&dir);
    assert_eq!(texts(&weights), ["tensor `t` stands in `a.safetensors` and in `b.safetensors`"]);
    assert_eq!((weights.incomplete().count(), weights.tensors), (0, None));
    let (_root, dir) = lay("m", &[("a.safetensors", b"t"), ("sub/a.safetensors", b"t")]);
    let record = seen(&dir).tensors.unwrap();
    let names: Vec<String> =
        content::Tensors::decode(&record.bytes).unwrap().tensors.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["sub/t", "t"]);
    fs::write(dir.join("more.bin"), "other weights").unwrap();
    assert_eq!(seen(&dir).tensors, None, "a digest over part of the weights would mislead");
}

#[test]
fn a_file_that_changed_since_it_was_hashed_is_named() {
    let (_root, dir) = lay("m", &[("a.safetensors", b"t"), ("state.json", b"{\"step\": 1}")]);
    let tree = walk::observe(&dir, &Options::new(Digests::Blake3), &|_| {}).unwrap();
    assert!(observe(&tree, &dir).is_ok());
    fs::write(dir.join("state.json"), "{\"step\": 2}").unwrap();
    assert!(matches!(observe(&tree, &dir), Err(Error::Changed { path }) if path.ends_with("state.json")));
    fs::write(dir.join("a.safetensors"), one_tensor(b'u')).unwrap();
    assert!(matches!(observe(&tree, &dir), Err(Error::Changed { path }) if path.ends_with("a.safetensors")));
}

#[test]
fn steps_come_from_the_name_or_the_state() {
    for (name, step) in [
        ("step-300", Some(300)),
        ("checkpoint-500", Some(500)),
        ("global_step2", Some(2)),
        ("step_7", Some(7)),
        ("epoch=2-step=12", Some(12)),
        ("iter_0000500", Some(500)),
        ("model", None),
        ("step", None),
        ("step-", None),
        ("llama-7", None),
        ("step-99999999999999999999", None),
        ("step-3-old", None),
    ] {
        assert_eq!(step_in_name(name), step, "{name}");
    }
    let (_root, dir) =
        lay("step-3", &[("a.safetensors", b"t"), ("state.json", b"{\"step\": 3, \"x\": 1e400}")]);
    let weights = seen(&dir);
    assert_eq!((weights.step, weights.problems.len()), (Some(3), 0));
    fs::write(dir.join("state.json"), "{\"step\": 4}").unwrap();
    let weights = seen(&dir);
    assert_eq!(
        (weights.step, texts(&weights)),
        (Some(3), vec!["the name says step 3, `state.json` says 4".into()])
    );
    let (_root, dir) =
        lay("out", &[("a.safetensors", b"t"), ("trainer_state.json", b"{\"global_step\": 10}")]);
    assert_eq!(seen(&dir).step, Some(10));
    fs::write(dir.join("trainer_state.json"), "not json").unwrap();
    assert_eq!(seen(&dir).step, None);
    let (_root, dir) = lay("m", &[("epoch=1-step=8.ckpt", b"x")]);
    let one = seen(&dir.join("epoch=1-step=8.ckpt"));
    assert_eq!((one.step, one.format, paths(&one)), (Some(8), "torch-pickle", vec!["epoch=1-step=8.ckpt"]));
}
