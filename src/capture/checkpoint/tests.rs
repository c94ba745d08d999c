//! Whole directories, as libraries leave them and as accidents do.

#![expect(clippy::disallowed_methods, reason = "tests lay files")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::capture::walk::Options;
use crate::id::Digests;
use crate::model::content;

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

    let (_root, dir) = lay("m", &[("m-00001-of-00003.bin", b"x"), ("m-00003-of-00003.bin", b"x")]);
    let weights = seen(&dir);
    assert_eq!(texts(&weights), ["`m-00001-of-00003.bin` needs one file more: `m-00002-of-00003.bin`"]);
    assert_eq!(weights.incomplete().count(), 1);
    fs::write(dir.join("m-00002-of-00003.bin"), "x").unwrap();
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
        (r#"{"weight_map": {"a": "../m.safetensors"}}"#, "leads out of the directory"),
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
    let text = "`model.safetensors` is a git-lfs pointer of 130 bytes, not the file itself \
        (sha256 2f08f521e37c.., 30960 bytes); `git lfs pull` fetches it";
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
    let pickles: Vec<&[u8]> = weights.pickles.iter().map(|pickle| &pickle.path[..]).collect();
    assert_eq!(pickles, [&b"model.pt"[..], b"optimizer.pt"]);
    assert_eq!(texts(&weights), ["`optimizer.pt` is cut short: its archive has no directory at the end"]);
    assert_eq!((weights.unusable().count(), weights.incomplete().count()), (0, 1), "the weights are whole");
    fs::write(dir.join("model.pt"), zip(b"...")).unwrap();
    assert_eq!(seen(&dir).unusable().count(), 1);

    let (_root, dir) = lay("m", &[("__0_0.distcp", b"1"), ("__1_0.distcp", b"2")]);
    assert_eq!(texts(&seen(&dir)), ["`.metadata` is missing, so the save did not finish"]);
    fs::write(dir.join(".metadata"), "x").unwrap();
    assert_eq!(texts(&seen(&dir)), ["`.metadata` is not a whole pickle file: it is no pickle"]);
    fs::write(dir.join(".metadata"), b"\x80\x04}.").unwrap();
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
        "README.md",
        "train_config.json",
        "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
    ]
    .into_iter()
    .map(|name| (name, &b"a"[..]))
    .chain([("optimizer.safetensors", &b"not one"[..]), ("optimizer_0/.metadata", b"\x80\x04}.")])
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

/// What is seen of a fixture: layout, format, state, tensors, step, ranks.
type Row = (&'static str, Layout, &'static str, &'static str, Option<usize>, Option<u64>, usize);

#[test]
fn every_fixture_is_what_its_writer_made_of_it() {
    use Layout::*;
    const LIGHTNING: &str = "lightning-ckpt/lightning_logs/version_0/checkpoints";
    let rows: [Row; 42] = [
        ("hf-single/model", HfModel, "safetensors", "complete", Some(21), None, 0),
        ("hf-sharded/model", HfModel, "sharded-safetensors", "complete", Some(21), None, 0),
        ("hf-resaved/older-transformers", HfModel, "safetensors", "complete", Some(21), None, 0),
        ("hf-resaved/metadata-added", HfModel, "safetensors", "complete", Some(21), None, 0),
        ("hf-resaved/metadata-order-a", Safetensors, "safetensors", "complete", Some(21), None, 0),
        ("hf-bf16/model", HfModel, "safetensors", "complete", Some(21), None, 0),
        ("hf-trainer/output", HfTrainerOutput, "safetensors", "complete", Some(63), Some(10), 0),
        ("hf-trainer/output/checkpoint-5", HfTrainer, "safetensors", "complete", Some(21), Some(5), 0),
        ("hf-trainer/output/checkpoint-10", HfTrainer, "safetensors", "complete", Some(21), Some(10), 0),
        ("hf-trainer-interrupted/output", HfTrainerOutput, "safetensors", "incomplete", Some(42), None, 0),
        (
            "hf-trainer-interrupted/output/checkpoint-5",
            HfTrainer,
            "safetensors",
            "complete",
            Some(21),
            Some(5),
            0,
        ),
        (
            "hf-trainer-interrupted/output/checkpoint-10",
            HfTrainer,
            "safetensors",
            "incomplete",
            Some(21),
            Some(10),
            0,
        ),
        ("peft-adapter/adapter", PeftAdapter, "safetensors", "complete", Some(8), None, 0),
        ("peft-adapter/merged", HfModel, "safetensors", "complete", Some(21), None, 0),
        ("accelerate-state/checkpoints", Accelerate, "safetensors", "complete", Some(8), None, 1),
        (
            "accelerate-state/checkpoints/checkpoint_0",
            Accelerate,
            "safetensors",
            "complete",
            Some(4),
            Some(0),
            1,
        ),
        (
            "accelerate-state/checkpoints/checkpoint_1",
            Accelerate,
            "safetensors",
            "complete",
            Some(4),
            Some(1),
            1,
        ),
        ("torch-bin/plain", Torch, "torch-pickle", "complete", None, None, 0),
        ("torch-bin/plain/state_dict.pt", Torch, "torch-pickle", "complete", None, None, 0),
        ("torch-bin/plain/legacy.pth", Torch, "torch-pickle", "complete", None, None, 0),
        ("torch-bin/plain/scripted.pt", TorchScript, "torch-pickle", "complete", None, None, 0),
        ("torch-bin/hf-bin", HfModel, "torch-pickle", "complete", None, None, 0),
        ("torch-bin/hf-bin-sharded", HfModel, "torch-pickle", "complete", None, None, 0),
        ("lightning-ckpt", Lightning, "torch-pickle", "complete", None, None, 0),
        (LIGHTNING, Lightning, "torch-pickle", "complete", None, None, 0),
        ("dcp/step-2", TorchDcp, "torch-dcp", "complete", None, Some(2), 1),
        ("dcp/two-ranks", TorchDcp, "torch-dcp", "complete", None, None, 2),
        ("dcp-interrupted/step-4", TorchDcp, "torch-dcp", "incomplete", None, Some(4), 2),
        ("deepspeed", DeepSpeed, "torch-pickle", "complete", None, Some(2), 2),
        ("deepspeed/global_step2", DeepSpeed, "torch-pickle", "complete", None, Some(2), 2),
        ("orbax/manager", Orbax, "ocdbt", "complete", None, None, 0),
        ("orbax/manager/1", Orbax, "ocdbt", "complete", None, Some(1), 0),
        ("orbax/manager/2", Orbax, "ocdbt", "complete", None, Some(2), 0),
        ("orbax/single", Orbax, "ocdbt", "complete", None, None, 0),
        ("converted/tiny-llama-f32.gguf", Gguf, "gguf", "complete", None, None, 0),
        ("converted/gate.onnx", Onnx, "onnx", "complete", None, None, 0),
        ("converted/gate-external.onnx", Onnx, "onnx", "incomplete", None, None, 0),
        ("converted", Gguf, "gguf", "complete", None, None, 0),
        ("hf-with-extra-shard/model", HfModel, "sharded-safetensors", "complete", Some(21), None, 0),
        ("hf-missing-shard/model", HfModel, "sharded-safetensors", "incomplete", None, None, 0),
        ("lfs-pointer/model", HfModel, "safetensors", "incomplete", None, None, 0),
        ("hf-cache-layout/local-dir/tiny-llama", HfModel, "safetensors", "complete", Some(21), None, 0),
    ];
    for (name, layout, format, state, tensors, step, ranks) in rows {
        let found = seen(&fixture(name));
        let set = found.tensors.as_ref().map(|set| set.count);
        assert_eq!(
            (found.layout, found.format, found.state(), set, found.step, found.ranks.len()),
            (layout, format, state, tensors, step, ranks),
            "{name}: {:?}",
            texts(&found)
        );
        let word = found.layout.word();
        assert_eq!(Layout::from_word(word), Some(found.layout));
        assert_eq!(found.roles.len(), walk_files(&fixture(name)), "every file has a role: {name}");
    }
}

fn walk_files(path: &Path) -> usize {
    walk::observe(path, &Options::new(Digests::Blake3), &|_| {}).unwrap().files.len()
}

fn of_role(weights: &Weights, role: Role) -> Vec<String> {
    weights.roles.iter().filter(|(_, is)| **is == role).map(|(path, _)| escape(path)).collect()
}

#[test]
fn a_trainers_directory_says_how_far_it_came_and_what_is_inside() {
    let output = seen(&fixture("hf-trainer/output"));
    let training = Training {
        step: Some(10),
        epoch: Some("0.4".into()),
        tokens: Some(560),
        best: Some("output/checkpoint-10".into()),
    };
    assert_eq!((&output.training, output.problems.len()), (&training, 0));
    let inside: Vec<_> =
        output.inside.iter().map(|one| (escape(&one.path), one.layout, one.step, one.is_complete)).collect();
    let expected = [("checkpoint-10", Some(10)), ("checkpoint-5", Some(5))]
        .map(|(path, step)| (path.to_owned(), Layout::HfTrainer, step, true));
    assert_eq!(inside, expected);
    assert_eq!(of_role(&output, Role::Weights).len(), 3);
    assert_eq!(of_role(&output, Role::Readme), ["README.md"]);
    assert_eq!(of_role(&output, Role::Rng), ["checkpoint-10/rng_state.pth", "checkpoint-5/rng_state.pth"]);
    assert!(of_role(&output, Role::Log).contains(&"all_results.json".to_owned()));

    let cut = seen(&fixture("hf-trainer-interrupted/output/checkpoint-10"));
    let expected = [
        "`optimizer.pt` is cut short: its archive has no directory at the end",
        "`checkpoint-10` was not finished: `scheduler.pt`, `rng_state.pth`, `trainer_state.json` are missing; \
         the weights can be used, the training cannot go on from it",
    ];
    assert_eq!(texts(&cut), expected);
    assert_eq!((cut.incomplete().count(), cut.unusable().count()), (2, 0));
    let output = seen(&fixture("hf-trainer-interrupted/output"));
    let states: Vec<bool> = output.inside.iter().map(|one| one.is_complete).collect();
    assert_eq!(states, [false, true], "checkpoint-10 and checkpoint-5");
}

#[test]
fn an_adapter_names_its_base_and_holds_none_of_it() {
    let adapter = seen(&fixture("peft-adapter/adapter"));
    let expected = Adapter {
        method: "LORA".into(),
        base: Some("checkpoints/hf-single/model".into()),
        revision: None,
        rank: Some(4),
        alpha: Some("8".into()),
        targets: vec!["q_proj".into(), "v_proj".into()],
    };
    assert_eq!(adapter.adapter, Some(expected));
    assert!(seen(&fixture("peft-adapter/merged")).adapter.is_none());
}

#[test]
fn pickles_are_looked_through_and_what_they_import_is_told() {
    let plain = seen(&fixture("torch-bin/plain"));
    let known: Vec<bool> = plain.pickles.iter().map(|pickle| pickle.imports.is_empty()).collect();
    assert_eq!(known, [true; 4], "{:?}", plain.pickles);
    let scripts = plain.pickles.iter().filter(|pickle| pickle.is_script);
    assert_eq!(scripts.map(|pickle| escape(&pickle.path)).collect::<Vec<_>>(), ["scripted.pt"]);
    assert!(plain.pickles.iter().all(|pickle| pickle.unknown.is_none()));

    let trainer = seen(&fixture("hf-trainer/output/checkpoint-5"));
    let arguments = trainer.pickles.iter().find(|pickle| pickle.path == b"training_args.bin").unwrap();
    assert!(arguments.imports.contains(&"transformers.training_args.TrainingArguments".to_owned()));
    assert_eq!((arguments.role, arguments.is_script), (Role::Trainer, false));
    assert!(trainer.warnings().is_empty(), "no loader of the model reads it: {:?}", trainer.warnings());

    let harm: &[u8] = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.";
    let packed = archive::tests::pack(&[("archive/data.pkl", harm)]);
    let (_root, dir) =
        lay("m", &[("a.bin", harm), ("b.pt", &packed), ("c.pth", b"cos\nsystem\n(S'id'\ntR.")]);
    let found = seen(&dir);
    let imports: Vec<&str> = found.pickles.iter().flat_map(|p| &p.imports).map(String::as_str).collect();
    assert_eq!(imports, ["posix.system", "posix.system", "os.system"]);
    let warnings = found.warnings().join("\n");
    assert!(warnings.contains("`a.bin` and 2 more are pickles"), "{warnings}");
    assert!(warnings.contains("`a.bin` and 1 more import `posix.system`"), "{warnings}");
    // Every archive of a file of DCP is looked through, not only the last one that zip readers see.
    let clean = archive::tests::pack(&[("archive/data.pkl", b"\x80\x02}.")]);
    let (_root, dir) =
        lay("m", &[("__0_0.distcp", &[&packed[..], &clean].concat()), (".metadata", b"\x80\x04}.")]);
    let found = seen(&dir);
    assert_eq!(found.pickles.iter().map(|pickle| pickle.imports.len()).sum::<usize>(), 1);
}

#[test]
fn code_of_the_model_is_told() {
    let auto = br#"{"model_type": "x", "auto_map": {"AutoModel": "modeling_x.X"}}"#;
    let (_root, dir) =
        lay("m", &[("config.json", auto), ("modeling_x.py", b"pass"), ("model.safetensors", b"a")]);
    let found = seen(&dir);
    assert!(found.has_custom_code && found.weights.contains(&b"modeling_x.py"[..]));
    assert!(found.warnings().iter().any(|line| line.contains("trust_remote_code")));
    fs::write(dir.join("config.json"), r#"{"model_type": "x"}"#).unwrap();
    let found = seen(&dir);
    assert!(!found.has_custom_code);
    assert_eq!(found.warnings(), ["`modeling_x.py` is code that a loader may run"]);
    let deepspeed = seen(&fixture("deepspeed"));
    assert_eq!(of_role(&deepspeed, Role::Other), ["zero_to_fp32.py", "zero_to_torch.py"]);
    assert_eq!(of_role(&deepspeed, Role::Weights), ["global_step2/mp_rank_00_model_states.pt"]);
    assert_eq!(of_role(&deepspeed, Role::Index), ["latest"]);
    assert_eq!(of_role(&deepspeed, Role::Optimizer).len(), 2);
}

/// Copies a fixture, so that something can be done to it.
fn copied(name: &str) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let from = fixture(name);
    let dir = root.path().join(from.file_name().unwrap());
    let tree = walk::observe(&from, &Options::new(Digests::Blake3), &|_| {}).unwrap();
    for file in &tree.files {
        let path = OsStr::from_bytes(&file.path);
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), fs::read(from.join(path)).unwrap()).unwrap();
    }
    (root, dir)
}

#[test]
fn files_that_ranks_wrote_are_held_to_what_is_known_of_them() {
    let (_root, dir) = copied("dcp/two-ranks");
    let data = fs::read(dir.join("__1_0.distcp")).unwrap();
    fs::write(dir.join("__1_0.distcp"), &data[..1641]).unwrap();
    let cut = "`__1_0.distcp` is not a whole torch DCP file: it is cut short: 3218 bytes are promised, 1641 are there";
    assert_eq!(texts(&seen(&dir)), [cut]);
    fs::rename(dir.join("__1_0.distcp"), dir.join("__2_0.distcp")).unwrap();
    let found = seen(&dir);
    let expected =
        ["`.metadata` needs one file more: `__1_0.distcp`", "`__2_0.distcp` is not named by `.metadata`"];
    assert_eq!((texts(&found), found.unusable().count()), (expected.map(str::to_owned).to_vec(), 1));
    let whole = fs::read(dir.join(".metadata")).unwrap();
    fs::write(dir.join(".metadata"), &whole[..600]).unwrap();
    assert!(seen(&dir).unusable().next().is_some(), "a description that is cut short");

    let (_root, dir) = copied("deepspeed");
    fs::remove_file(dir.join("global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt")).unwrap();
    let found = seen(&dir);
    let text = "`global_step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt` is there, and one rank is not: \
                `bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt`";
    assert_eq!((texts(&found), found.unusable().count()), (vec![text.to_owned()], 0));
    fs::remove_file(dir.join("global_step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")).unwrap();
    assert_eq!(seen(&dir).incomplete().count(), 1, "none of the ranks");

    let (_root, dir) = copied("accelerate-state/checkpoints/checkpoint_1");
    fs::write(dir.join("random_states_2.pkl"), b"x").unwrap();
    let text = "`random_states_0.pkl` is there, and one rank is not: `random_states_1.pkl`";
    assert_eq!(texts(&seen(&dir)), [text]);
    for rank in [0, 2] {
        fs::remove_file(dir.join(format!("random_states_{rank}.pkl"))).unwrap();
    }
    assert!(texts(&seen(&dir))[0].contains("`random_states_0.pkl` is missing"), "{:?}", texts(&seen(&dir)));
}

#[test]
fn other_formats_are_held_to_their_headers() {
    let (_root, dir) = copied("converted");
    let found = seen(&dir);
    let weights = ["gate-external.onnx", "gate-external.onnx.data", "gate.onnx", "tiny-llama-f32.gguf"]
        .map(str::to_owned);
    assert_eq!((of_role(&found, Role::Weights), found.problems.len()), (weights.to_vec(), 0));
    fs::write(dir.join("gate-external.onnx.data"), [0; 2047]).unwrap();
    let whole = fs::read(dir.join("tiny-llama-f32.gguf")).unwrap();
    fs::write(dir.join("tiny-llama-f32.gguf"), &whole[..30_000]).unwrap();
    let found = texts(&seen(&dir));
    let expected = [
        "`gate-external.onnx.data` is not a whole ONNX data file: it is cut short: 2048 bytes are promised, \
         2047 are there",
        "`tiny-llama-f32.gguf` is not a whole GGUF file: it is cut short: 30592 bytes are promised, 30000 are there",
    ];
    assert_eq!(found, expected);
    fs::remove_file(dir.join("gate-external.onnx.data")).unwrap();
    assert_eq!(texts(&seen(&dir))[0], "`gate-external.onnx` needs one file more: `gate-external.onnx.data`");

    let headers = seen(&fixture("converted")).headers;
    let text = "GGUF version 3, 21 tensors, architecture llama".to_owned();
    assert_eq!(headers, [(b"tiny-llama-f32.gguf".to_vec(), text)]);
    let orbax = seen(&fixture("orbax/single"));
    let read = of_role(&orbax, Role::Weights);
    assert!(
        read.contains(&"manifest.ocdbt".to_owned()) && read.iter().all(|path| !path.ends_with("success.txt"))
    );
    assert_eq!(read.len(), 8, "{read:?}");
    let (_root, dir) = copied("orbax/single");
    fs::remove_file(dir.join("manifest.ocdbt")).unwrap();
    assert_eq!(texts(&seen(&dir)), ["`manifest.ocdbt` is missing, so the save did not finish"]);
    let (root, dir) = copied("orbax/manager/2");
    let temporary = root.path().join("2.orbax-checkpoint-tmp-17");
    fs::rename(dir, &temporary).unwrap();
    assert_eq!(texts(&seen(&temporary)), ["`2` is missing, so the save did not finish"]);
}

#[test]
fn an_index_is_held_to_the_bytes_and_the_tensors_of_its_shards() {
    let (_root, dir) = copied("hf-sharded/model");
    let path = dir.join("model.safetensors.index.json");
    let index = fs::read_to_string(&path).unwrap();
    fs::write(&path, index.replace("28864", "28860")).unwrap();
    let text = "`model.safetensors.index.json` says 28860 bytes of tensors, its shards hold 28864";
    let found = seen(&dir);
    assert_eq!((texts(&found), found.state()), (vec![text.to_owned()], "complete"));
    let without: Vec<&str> = index.lines().filter(|line| !line.contains("\"model.norm.weight\"")).collect();
    fs::write(&path, without.join("\n").replace(",\n  }", "\n  }")).unwrap();
    let found = seen(&dir);
    assert!(texts(&found)[0].contains("holds tensor `model.norm.weight`, which"), "{:?}", texts(&found));
    assert_eq!(found.state(), "complete", "transformers loads it without that tensor");
    let moved = index.replacen("model-00001-of-00004", "model-00002-of-00004", 1);
    fs::write(&path, moved).unwrap();
    assert!(matches!(seen(&dir).problems[..], [Problem::NotInShard { .. }]), "a misplaced tensor");
    assert_eq!(seen(&dir).state(), "incomplete");
}

#[test]
fn tensors_are_those_that_the_library_reads() {
    type Row = (String, String, Vec<u64>, String);
    let text = fs::read_to_string(fixture("tensors.json")).unwrap();
    let files: BTreeMap<String, Vec<Row>> = serde_json::from_str(&text).unwrap();
    assert!(files.len() > 20);
    for (file, expected) in files {
        let bytes = fs::read(fixture(&file)).unwrap();
        let contents = crate::capture::safetensors::read(&fixture(&file), bytes.len() as u64).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut at = 8 + header;
        let mut found = Vec::new();
        for tensor in contents.tensors {
            let size = crate::capture::safetensors::bytes_of(&tensor.dtype, &tensor.shape).unwrap() as usize;
            let mut hasher = crate::id::Hasher::new(Digests::All);
            hasher.update(&bytes[at..at + size]);
            let print = hasher.finish();
            assert_eq!(print.blake3, tensor.id, "{file}: {}", tensor.name);
            found.push((tensor.name, tensor.dtype, tensor.shape, print.sha256.unwrap().to_hex()));
            at += size;
        }
        assert_eq!(at, bytes.len());
        found.sort();
        assert_eq!(found, expected, "{file}");
    }
}

#[test]
fn a_step_of_training_and_one_flipped_byte_are_other_tensors() {
    let id = |dir: &Path| seen(dir).tensors.unwrap().id;
    let single = id(&fixture("hf-single/model"));
    for other in ["hf-trainer/output/checkpoint-5", "hf-trainer/output/checkpoint-10", "peft-adapter/merged"]
    {
        assert_ne!(id(&fixture(other)), single, "{other}");
    }
    assert_ne!(
        id(&fixture("hf-trainer/output/checkpoint-5")),
        id(&fixture("hf-trainer/output/checkpoint-10"))
    );
    let (_root, dir) = copied("hf-single/model");
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_ne!(id(&dir), single);
    let extra = seen(&fixture("hf-with-extra-shard/model"));
    assert_eq!(extra.tensors.as_ref().map(|set| set.id), Some(single), "the extra shard does not count");
    assert_eq!(extra.weights, seen(&fixture("hf-sharded/model")).weights, "and no loader reads it");
    let text = "`model-00005-of-00006.safetensors` is not named by `model.safetensors.index.json`";
    assert_eq!(texts(&extra), [text]);
    let set = seen(&fixture("hf-single/model")).tensors.unwrap();
    assert_eq!((set.parameters, set.dtypes), (7216, ["F32".to_owned()].into()));
}
