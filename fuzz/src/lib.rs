//! Every reader of bytes that the project did not write, or that somebody may have changed since.
//!
//! Each target must end soon, stay small and never panic, whatever it is given; where the format has one encoding,
//! what was read is written again and must be equal. The fuzzer's programs and the test that replays the corpora
//! share this file.

use std::fs;
use std::path::Path;

use ledger::capture::code::AllowedSigners;
use ledger::capture::config::{self, Format, canonical, parse_canonical};
use ledger::capture::dataset;
use ledger::capture::environment::{self, Target as Machine};
use ledger::capture::results;
use ledger::capture::safetensors;
use ledger::capture::walk::{self, Options};
use ledger::capture::weights;
use ledger::codec;
use ledger::contract::{Field, Filter};
use ledger::id::{Digests, LedgerId};
use ledger::log::key_file::{KeyFile, Stored};
use ledger::log::note::{SignedHead, TreeHead, parse_vkey};
use ledger::log::proof::Proof;
use ledger::log::statement::Statement;
use ledger::log::tile::{self, Tile};
use ledger::log::{openssh, sealed};
use ledger::model::content::{Node, Sums, Tensors};
use ledger::model::{self, Facts, Kind};
use ledger::state::State;

/// A target: takes any bytes, and returns.
pub type Target = fn(&[u8]);

/// All targets by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("allowed_signers", allowed_signers),
    ("checkpoint", checkpoint),
    ("codec", codec),
    ("config_json", config_json),
    ("config_toml", config_toml),
    ("config_yaml", config_yaml),
    ("dataset", dataset),
    ("expression", expression),
    ("key_file", key_file),
    ("lock_file", lock_file),
    ("note", note),
    ("proof", proof),
    ("record", record),
    ("results", results),
    ("safetensors", safetensors),
    ("secrets", secrets),
    ("shard_index", shard_index),
    ("state_file", state_file),
    ("statement", statement),
    ("tile", tile),
    ("tree", tree),
];

/// Lays files into a scratch directory and hands it on.
fn in_directory(files: &[(&str, &[u8])], then: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("a scratch file");
    }
    then(dir.path());
}

/// Splits at the first byte, by which a target with several readers chooses.
fn chosen(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest))
}

/// Git's file of allowed signers, then a commit after an empty line.
pub fn allowed_signers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (file, commit) = text.split_once("\n\n").unwrap_or((&text, ""));
    if let Ok(allowed) = AllowedSigners::parse(file) {
        let _ = allowed.judge(commit.as_bytes());
    }
}

/// One file under the names that the recognisers look at; the first byte chooses.
pub fn checkpoint(bytes: &[u8]) {
    const NAMES: [&str; 12] = [
        "model.safetensors",
        "pytorch_model.bin",
        "checkpoint.pt",
        "epoch=2-step=12.ckpt",
        "__0_0.distcp",
        ".metadata",
        "adapter_config.json",
        "trainer_state.json",
        "config.json",
        "model.gguf",
        "model.onnx",
        "arrays.npz",
    ];
    let (choice, rest) = chosen(bytes);
    in_directory(&[(NAMES[choice % NAMES.len()], rest)], |dir| {
        let tree =
            walk::observe(dir, &Options::new(Digests::Blake3), &|_| {}).expect("the directory is there");
        let _ = weights::observe(&tree, dir);
    });
}

/// Records are CBOR in one form.
pub fn codec(bytes: &[u8]) {
    let _ = codec::check(bytes);
}

/// Configs in JSON.
pub fn config_json(bytes: &[u8]) {
    config(bytes, Format::Json);
}

/// Configs in TOML.
pub fn config_toml(bytes: &[u8]) {
    config(bytes, Format::Toml);
}

/// Configs in YAML.
pub fn config_yaml(bytes: &[u8]) {
    config(bytes, Format::Yaml);
}

fn config(bytes: &[u8], format: Format) {
    if let Ok(read) = config::read(bytes, format, "config") {
        let frozen = canonical(&read.value);
        let again = parse_canonical(&frozen, "frozen").expect("what was frozen can be read");
        assert_eq!(canonical(&again), frozen, "a frozen config has one form");
    }
}

/// One file under the names that data sets have; the first byte chooses.
pub fn dataset(bytes: &[u8]) {
    const NAMES: [&str; 8] = [
        "train.parquet",
        "data.arrow",
        "rows.jsonl",
        "rows.csv",
        "shard-000000.tar",
        "dataset_info.json",
        "data.dvc",
        "rows.tsv",
    ];
    let (choice, rest) = chosen(bytes);
    in_directory(&[(NAMES[choice % NAMES.len()], rest)], |dir| {
        let tree =
            walk::observe(dir, &Options::new(Digests::Blake3), &|_| {}).expect("the directory is there");
        let _ = dataset::describe(&tree, dir).line();
        let _ = dataset::pointers(&tree, dir);
    });
}

/// Filters of lists.
pub fn expression(bytes: &[u8]) {
    let fields = [Field { name: "step", is_map: false }, Field { name: "name", is_map: true }];
    let _ = Filter::parse(&String::from_utf8_lossy(bytes), &fields);
}

/// Key files of every form.
pub fn key_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = KeyFile::parse(&text);
    let _ = Stored::parse(&text);
    let _ = openssh::from_openssh(&text, None);
    let _ = sealed::from_pem(&text, None);
}

/// Lock files; the first byte chooses the name.
pub fn lock_file(bytes: &[u8]) {
    const NAMES: [&str; 8] = [
        "uv.lock",
        "pylock.toml",
        "poetry.lock",
        "Pipfile.lock",
        "requirements.txt",
        "explicit.txt",
        "pixi.lock",
        "environment.yml",
    ];
    let (choice, rest) = chosen(bytes);
    let name = NAMES[choice % NAMES.len()];
    let machine = Machine {
        python: Some("3.11.7".to_owned()),
        implementation: Some("cpython".to_owned()),
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
    };
    in_directory(&[(name, rest)], |dir| {
        let _ = environment::read_lock(&dir.join(name), &machine);
    });
}

/// Tree heads, signed and bare, and verifier keys.
pub fn note(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(head) = TreeHead::parse(&text) {
        assert_eq!(head.text(), text, "a tree head has one form");
    }
    if let Ok(head) = SignedHead::parse(&text) {
        assert_eq!(head.as_str(), text);
    }
    let _ = parse_vkey(&text);
}

/// Proofs in both forms.
pub fn proof(bytes: &[u8]) {
    let _ = Proof::from_text(&String::from_utf8_lossy(bytes));
    let _ = Proof::from_receipt(bytes);
}

/// Records and facts of every kind; the first byte chooses.
pub fn record(bytes: &[u8]) {
    let (choice, rest) = chosen(bytes);
    let kind = Kind::ALL[choice % Kind::ALL.len()];
    let _ = model::project(kind, rest);
    let _ = model::fields(rest);
    if let Ok(facts) = Facts::decode(kind, rest) {
        assert_eq!(facts.encode(), rest, "facts have one form");
    }
}

/// Results of evaluations and claims about them; the first byte chooses the name.
pub fn results(bytes: &[u8]) {
    const NAMES: [&str; 6] =
        ["results.json", "log.eval", "log.json", "README.md", "results.csv", "all_results.json"];
    let (choice, rest) = chosen(bytes);
    let name = NAMES[choice % NAMES.len()];
    let _ = results::read(rest, name);
    let _ = results::select(rest, name, &[("accuracy".to_owned(), "results.0.acc".to_owned())]);
}

/// A safetensors file.
pub fn safetensors(bytes: &[u8]) {
    in_directory(&[("model.safetensors", bytes)], |dir| {
        let _ = safetensors::read(&dir.join("model.safetensors"), bytes.len() as u64);
    });
}

/// Secrets in any text that is about to be stored.
pub fn secrets(bytes: &[u8]) {
    let _ = environment::find_secrets(&String::from_utf8_lossy(bytes));
}

/// An index of shards beside one empty shard.
pub fn shard_index(bytes: &[u8]) {
    let files: [(&str, &[u8]); 2] = [
        ("model.safetensors.index.json", bytes),
        ("model-00001-of-00002.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
    ];
    in_directory(&files, |dir| {
        let tree =
            walk::observe(dir, &Options::new(Digests::Blake3), &|_| {}).expect("the directory is there");
        let _ = weights::observe(&tree, dir);
    });
}

/// A State file, which is only a cache and must never be more than a doubt.
pub fn state_file(bytes: &[u8]) {
    if let Some(state) = State::from_file(bytes.to_vec(), LedgerId::from_bytes([7; 32])) {
        let _ = state.read_all();
    }
}

/// A signed statement.
pub fn statement(bytes: &[u8]) {
    if let Ok(statement) = Statement::parse(bytes) {
        assert_eq!(statement.payload.encode(), statement.payload_bytes, "a payload has one form");
    }
}

/// Bundles, hash tiles and paths of tiles.
pub fn tile(bytes: &[u8]) {
    let (choice, rest) = chosen(bytes);
    let count = choice as u16 + 1;
    if let Ok(entries) = tile::decode_bundle(rest, count) {
        assert_eq!(tile::encode_bundle(&entries).expect("it was one"), rest, "a bundle has one form");
    }
    let _ = tile::decode_bundle_start(rest, count);
    if let Ok(tile) = Tile::parse(&String::from_utf8_lossy(rest)) {
        assert_eq!(tile.path().as_bytes(), rest, "a tile has one path");
        let _ = tile::decode_hashes(tile, rest);
    }
}

/// Tree nodes and the records beside them.
pub fn tree(bytes: &[u8]) {
    let _ = Node::decode(bytes);
    if let Ok(sums) = Sums::decode(bytes) {
        assert_eq!(sums.encode().expect("it was one").1, bytes, "sums have one form");
    }
    if let Ok(tensors) = Tensors::decode(bytes) {
        assert_eq!(tensors.encode().expect("it was one").1, bytes, "tensors have one form");
    }
}
