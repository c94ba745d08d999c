//! One golden record of each kind that has one, with every optional field present, and one of each shape of facts.

use ledger::id::{
    ClaimRef, HolderId, KeyId, LedgerId, ObjectId, StatementId, TreeHash, hex, object_id, sha256,
};
use ledger::log::key::possession_message;
use ledger::model::content::{Entry, Sums, Tensor, Tensors, What, build_node, build_sums};
use ledger::model::{
    About, Benchmark, Bytes, Checkpoint, Code, Config, Dataset, Decision, DeploymentAction, Dirt, End,
    Environment, Eval, Facts, Fixed, Format, Genesis, Holder, Interpreter, Key, Kind, LockFile, Metric,
    Model, Name, NameAction, Note, Outcome, Plan, Private, PromotionAction, Record, Role, Start, Status,
    Submodule, Target, TypedId, encode,
};
use serde_json::{Value, json};

use super::scene::{Keys, holder};

/// A golden record: its kind, a word for it, and its bytes.
pub(crate) type Golden = (Kind, &'static str, Vec<u8>);

fn some(kind: Kind, seed: &str) -> TypedId {
    TypedId::new(kind, object_id(seed.as_bytes()))
}

fn of<R: Record>(record: &R) -> Golden {
    let encoded = encode(record).unwrap();
    assert_eq!(
        ledger::model::decode::<R>(&encoded.bytes).map(|again| encode(&again).unwrap()).unwrap(),
        encoded
    );
    (R::KIND, "whole", encoded.bytes)
}

fn texts(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The entries of the golden directory: all types, and names that are not text.
pub(crate) fn entries() -> Vec<Entry> {
    let file = |name: &[u8], exec, bytes: &[u8]| Entry {
        name: name.to_vec(),
        what: What::File { exec, size: bytes.len() as u64, id: object_id(bytes) },
    };
    vec![
        Entry { name: b"link".to_vec(), what: What::Link(b"../a".to_vec()) },
        file(b"run.sh", true, b"#!/bin/sh\n"),
        file(b"a", false, b""),
        file(&[0xff, b'x'], false, b"x"),
        Entry { name: b"empty".to_vec(), what: What::Dir(empty_tree()) },
    ]
}

fn empty_tree() -> ObjectId {
    build_node(Vec::new()).unwrap()[0].0
}

/// A directory of 4,097 empty files, which is one too many for a single node.
pub(crate) fn many_entries() -> Vec<Entry> {
    let what = What::File { exec: false, size: 0, id: object_id(b"") };
    (0..4097).map(|n| Entry { name: format!("{n}").into_bytes(), what: what.clone() }).collect()
}

fn content() -> Vec<Golden> {
    let empty = build_node(Vec::new()).unwrap().remove(0);
    let leaf = build_node(entries()).unwrap().remove(0);
    let split = build_node(many_entries()).unwrap().pop().unwrap();
    let digests = |id: ObjectId| {
        let known: [&[u8]; 3] = [b"", b"#!/bin/sh\n", b"x"];
        known.into_iter().find(|bytes| object_id(bytes) == id).map(sha256)
    };
    let sums = build_sums(&[empty.clone(), leaf.clone()], &digests).unwrap().pop().unwrap();
    assert_eq!(Sums::decode(&sums.1).unwrap().files.len(), 3);
    let tensor = |name: &str, dtype: &str, shape: &[u64]| Tensor {
        name: name.to_owned(),
        dtype: dtype.to_owned(),
        shape: shape.to_vec(),
        id: object_id(name.as_bytes()),
    };
    let tensors = Tensors {
        tensors: vec![tensor("w", "F32", &[2, 3]), tensor("b", "BF16", &[3]), tensor("scale", "F64", &[])],
    };
    vec![
        (Kind::Tree, "empty", empty.1),
        (Kind::Tree, "whole", leaf.1),
        (Kind::Tree, "split", split.1),
        (Kind::Sums, "whole", sums.1),
        (Kind::Tensors, "whole", tensors.encode().unwrap().1),
    ]
}

/// All golden records, in the order of the table of kinds.
pub(crate) fn golden() -> Vec<Golden> {
    let keys = Keys::new();
    let kim = holder(&keys.author);
    let proof = keys.author.sign(&possession_message(&[0x11; 16], &keys.author.public(), kim));
    let nonce = Fixed([0x21; 16]);
    let mut all = content();
    all.extend([
        of(&Genesis {
            nonce,
            rules: 1,
            parent: Some((LedgerId::from_bytes([0x22; 32]), 9, TreeHash::from_bytes([0x23; 32]))),
        }),
        of(&Holder { name: "kim".into() }),
        of(&Key {
            key: Fixed(*keys.author.public().as_bytes()),
            holder: encode(&Holder { name: "kim".into() }).unwrap().id,
            first: kim.first_key(),
            roles: words(&["approver", "author", "evaluator", "owner", "reviewer"]),
            proof: Some(Fixed(proof)),
        }),
        of(&Format { rules: 2 }),
        of(&Config { frozen: some(Kind::Blob, "frozen"), sources: vec![some(Kind::Blob, "source")] }),
        of(&Dataset { root: some(Kind::Tree, "data") }),
        of(&Model { root: some(Kind::Blob, "model") }),
        of(&Code {
            format: "sha1".into(),
            commit: "1f".repeat(20),
            tree: "2e".repeat(20),
            project: Bytes(b"sub/project".to_vec()),
            dirt: Dirt::Dirty,
            reason: Some("sparse checkout".into()),
            files: vec![(Bytes(b"train.py".to_vec()), "M".into())],
            diff: Some(some(Kind::Blob, "diff")),
            submodules: vec![Submodule {
                path: Bytes(b"lib".to_vec()),
                commit: "3d".repeat(20),
                dirty: false,
            }],
        }),
        of(&Environment {
            lock: Some(LockFile {
                name: "uv.lock".into(),
                quality: "hashed".into(),
                file: some(Kind::Blob, "lock"),
            }),
            interpreter: Some(Interpreter { name: "CPython".into(), version: "3.11.7".into() }),
            os: "linux".into(),
            arch: "x86_64".into(),
        }),
        of(&Private {
            salt: Fixed([0x24; 32]),
            argv: words(&["/usr/bin/python", "train.py"]),
            texts: texts(&[("host", "node-7")]),
            paths: texts(&[("train", "/data/train")]),
            variables: texts(&[("OMP_NUM_THREADS", "8")]),
            stats: [("train".to_owned(), object_id(b"stats"))].into(),
        }),
        of(&About { texts: texts(&[("licence", "CC-BY-4.0"), ("source", "https://example.org/data")]) }),
        of(&Plan {
            nonce: Some(nonce),
            name: Some("first".into()),
            config: Some(some(Kind::Config, "config")),
            code: Some(some(Kind::Code, "code")),
            environment: Some(some(Kind::Environment, "environment")),
            data: vec![("train".into(), some(Kind::Dataset, "train"))],
            base: vec![("init".into(), some(Kind::Model, "model"))],
            contracts: vec![some(Kind::Contract, "contract")],
            policies: vec![some(Kind::Policy, "policy")],
            spec: Some(some(Kind::Blob, "spec")),
            none: texts(&[("base", "trained from nothing")]),
            argv: words(&["python", "train.py", "--out", "<path>"]),
            seed: Some(7),
            study: Some("width".into()),
            arm: Some("wide".into()),
        }),
        of(&Start {
            nonce,
            plan: some(Kind::Plan, "plan"),
            environment: Some(some(Kind::Environment, "environment")),
            lost: vec![some(Kind::Start, "earlier")],
            check: "quick".into(),
        }),
        of(&End {
            nonce,
            start: some(Kind::Start, "start"),
            status: "failed".into(),
            code: Some(137),
            signal: Some("KILL".into()),
        }),
        of(&Checkpoint {
            start: Some(some(Kind::Start, "start")),
            full: some(Kind::Tree, "full"),
            weights: some(Kind::Tree, "weights"),
            tensors: Some(some(Kind::Tensors, "tensors")),
            parent: Some(some(Kind::Checkpoint, "parent")),
            format: "safetensors".into(),
            step: Some(300),
            path: Some("out/step-300".into()),
        }),
        of(&Benchmark { name: "digits-test".into(), definition: Some(some(Kind::Blob, "definition")) }),
        of(&Eval {
            subject: some(Kind::Tree, "weights"),
            of: Some(some(Kind::Checkpoint, "checkpoint")),
            benchmark: some(Kind::Benchmark, "benchmark"),
            results: vec![some(Kind::Blob, "result")],
            start: Some(some(Kind::Start, "start")),
            binding: "observed".into(),
            metrics: vec![Metric {
                name: "accuracy".into(),
                value: "0.97".into(),
                stderr: Some("0.01".into()),
                n: Some(360),
            }],
            partial: Some("half of the tasks".into()),
            format: "generic-json".into(),
        }),
        of(&Note {
            nonce,
            subject: some(Kind::Checkpoint, "checkpoint"),
            text: "the one in the paper".into(),
        }),
    ]);
    all.sort_by_key(|(kind, _, _)| *kind);
    all
}

pub(crate) fn as_json() -> Value {
    let row = |(kind, word, bytes): &Golden| {
        json!({
            "kind": kind.word(),
            "name": word,
            "id": TypedId::new(*kind, object_id(bytes)).to_string(),
            "sha256": sha256(bytes).to_hex(),
            "hex": hex(bytes),
        })
    };
    Value::Array(golden().iter().map(row).collect())
}

/// One value of each shape that facts have.
pub(crate) fn facts() -> Vec<(Kind, Facts)> {
    let name = |text: &str| Name::parse(text).unwrap();
    let holder = HolderId::of_first_key(KeyId::from_bytes([0x31; 32]));
    let claim = ClaimRef { statement: StatementId::from_bytes([0x32; 32]), position: 2 };
    let parent = (LedgerId::from_bytes([0x33; 32]), 9, TreeHash::from_bytes([0x34; 32]));
    let key = |roles: &[Role], proof| Facts::Key {
        key: [0x35; 32],
        holder,
        roles: roles.iter().copied().collect(),
        proof,
    };
    let revoke = |target, since| (Kind::Revocation, Facts::Revocation { target, since });
    let (channel, stage) = (name("prod"), name("canary"));
    vec![
        (Kind::Genesis, Facts::Genesis { nonce: [0x36; 16], rules: 1, parent: None }),
        (Kind::Genesis, Facts::Genesis { nonce: [0x36; 16], rules: 1, parent: Some(parent) }),
        (Kind::Key, key(&[Role::Author, Role::Owner], Some([0x37; 64]))),
        (Kind::Key, key(&[], None)),
        (Kind::Format, Facts::Format { rules: 2 }),
        (Kind::Dataset, Facts::Named { name: None }),
        (Kind::Plan, Facts::Named { name: Some(name("first")) }),
        (Kind::Start, Facts::None),
        (Kind::End, Facts::End { status: Status::Preempted }),
        (Kind::Verdict, Facts::Verdict { outcome: Outcome::Open, position: 300 }),
        (Kind::Approval, Facts::Approval { decision: Decision::Reject }),
        (
            Kind::Promotion,
            Facts::Promotion { channel: channel.clone(), stage, action: PromotionAction::Enter },
        ),
        (Kind::Deployment, Facts::Deployment { target: name("eu-1"), action: DeploymentAction::Off }),
        (Kind::Channel, Facts::Channel { channel }),
        revoke(Target::Claim(claim), None),
        revoke(Target::Object(TypedId::new(Kind::Eval, ObjectId::from_bytes([0x38; 32]))), None),
        revoke(Target::Key(KeyId::from_bytes([0x39; 32])), Some(4)),
        (Kind::Erasure, Facts::Erasure { objects: vec![ObjectId::from_bytes([0x3a; 32])] }),
        (Kind::Name, Facts::NameMove { kind: Kind::Model, name: name("m/1"), action: NameAction::Retire }),
    ]
}

pub(crate) fn facts_as_json() -> Value {
    let row = |(kind, facts): (Kind, Facts)| {
        let bytes = facts.encode();
        assert_eq!(Facts::decode(kind, &bytes).unwrap(), facts);
        json!({ "kind": kind.word(), "hex": hex(&bytes) })
    };
    Value::Array(facts().into_iter().map(row).collect())
}
