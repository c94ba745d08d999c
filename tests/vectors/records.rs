//! Golden records of each kind that has one, with every optional field present, records with one fault each, and
//! one of each shape of facts.

use std::collections::BTreeMap;

use ledger::codec::{self, Value as Cbor};
use ledger::id::{
    ClaimRef, HolderId, KeyId, LedgerId, ObjectId, StatementId, TreeHash, hex, object_id, sha256,
};
use ledger::log::key::possession_message;
use ledger::model::content::{Entry, Node, Sums, Tensor, Tensors, What, build_node, build_sums};
use ledger::model::{
    About, Adapter, Benchmark, Binding, Bytes, Checkpoint, Claimed, Code, Config, Container, Contract,
    Dataset, Decision, DeploymentAction, Dirt, End, Environment, Eval, Facts, Fixed, Format, Genesis,
    Hardware, Harness, Holder, Import, Installed, Interpreter, Key, Kind, LockFile, Metric, Model, Name,
    NameAction, Note, Outcome, Plan, Policy, Private, PromotionAction, Record, Revocation, Role, Start,
    Status, Submodule, Target, Task, TypedId, encode, project,
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

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Gives a golden record another word than `whole`.
fn called(name: &'static str, (kind, _, bytes): Golden) -> Golden {
    (kind, name, bytes)
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

/// A task with all that can be said of one.
fn task() -> Task {
    Task {
        name: "verbs".into(),
        version: Some("1.0".into()),
        hash: Some("5c9dee2a".into()),
        dataset: Some("acme/verbs".into()),
        subset: Some("en".into()),
        split: Some("test".into()),
        revision: Some("5f3c1e0d9b7a48266c1d2e3f4051627384950a1b".into()),
        few_shot: Some(1),
        samples: Some(12),
    }
}

/// An evaluation of which a harness said no more than its numbers.
fn plain_eval() -> Eval {
    let (weights, benchmark) = (some(Kind::Tree, "weights"), some(Kind::Benchmark, "benchmark"));
    Eval {
        of: Some(some(Kind::Checkpoint, "checkpoint")),
        results: vec![some(Kind::Blob, "result")],
        start: Some(some(Kind::Start, "start")),
        metrics: vec![
            Metric {
                name: "accuracy".into(),
                value: "0.97".into(),
                stderr: Some("0.01".into()),
                n: Some(360),
                ..Metric::default()
            },
            Metric { name: "loss".into(), value: "NaN".into(), ..Metric::default() },
        ],
        partial: Some("limit 360".into()),
        ..Eval::new(weights, benchmark, Binding::Observed, "json")
    }
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
            reason: None,
            files: vec![(Bytes(b"train.py".to_vec()), "M".into())],
            diff: Some(some(Kind::Blob, "diff")),
            submodules: vec![Submodule {
                path: Bytes(b"lib".to_vec()),
                commit: "3d".repeat(20),
                dirty: false,
            }],
        }),
        called(
            "unknown",
            of(&Code {
                format: "sha1".into(),
                commit: "1f".repeat(20),
                tree: "2e".repeat(20),
                project: Bytes(Vec::new()),
                dirt: Dirt::Unknown,
                reason: Some("sparse checkout".into()),
                files: vec![],
                diff: None,
                submodules: vec![],
            }),
        ),
        of(&Contract { text: some(Kind::Blob, "contract") }),
        of(&Policy { text: some(Kind::Blob, "policy") }),
        of(&Environment {
            lock: Some(LockFile {
                name: "uv.lock".into(),
                quality: "hashed".into(),
                file: some(Kind::Blob, "lock"),
                packages: Some(5),
                editable: Some(1),
            }),
            interpreter: Some(Interpreter { name: "CPython".into(), version: "3.11.7".into() }),
            os: "linux".into(),
            arch: "x86_64".into(),
            installed: Some(Installed {
                file: some(Kind::Blob, "installed"),
                packages: 6,
                missing: Some(0),
                changed: Some(1),
                extra: Some(1),
            }),
            hardware: Some(Hardware {
                kernel: Some("6.1.0".into()),
                cpu: Some("Some CPU @ 2.10GHz".into()),
                cores: Some(8),
                memory: Some(1 << 35),
                driver: Some("nvidia 550.54.15".into()),
                gpus: words(&["Some GPU 80GB", "Some GPU 80GB"]),
            }),
            container: Some(Container {
                runtime: "apptainer".into(),
                image: Some(format!("sha256:{}", "4c".repeat(32))),
            }),
            launch: texts(&[("launcher", "torchrun"), ("world_size", "8")]),
        }),
        called(
            "declared",
            of(&Environment {
                interpreter: Some(Interpreter { name: "CPython".into(), version: "3.11.7".into() }),
                os: "linux".into(),
                arch: "x86_64".into(),
                ..Environment::default()
            }),
        ),
        of(&Private {
            salt: Fixed([0x24; 32]),
            argv: words(&["/usr/bin/python", "train.py"]),
            texts: texts(&[("host", "node-7")]),
            paths: texts(&[("data train", "/data/train"), ("lock", "uv.lock")]),
            variables: texts(&[("OMP_NUM_THREADS", "8")]),
            stats: [("data train".to_owned(), object_id(b"stats"))].into(),
        }),
        of(&About { texts: texts(&[("licence", "CC-BY-4.0"), ("source", "https://example.org/data")]) }),
        of(&Plan {
            nonce: None,
            name: Some("first".into()),
            config: Some(some(Kind::Config, "config")),
            code: Some(some(Kind::Code, "code")),
            environment: Some(some(Kind::Environment, "environment")),
            data: vec![
                ("test".into(), some(Kind::Dataset, "test")),
                ("train".into(), some(Kind::Dataset, "train")),
            ],
            base: vec![("init".into(), some(Kind::Model, "model"))],
            contracts: vec![some(Kind::Contract, "contract")],
            policies: vec![some(Kind::Policy, "policy")],
            spec: Some(some(Kind::Blob, "spec")),
            none: texts(&[]),
            argv: words(&["python", "train.py", "--out", "<path>"]),
            seed: Some(7),
            study: Some("width".into()),
            arm: Some("wide".into()),
        }),
        called(
            "unnamed",
            of(&Plan {
                nonce: Some(nonce),
                name: None,
                config: None,
                code: None,
                environment: None,
                data: vec![],
                base: vec![],
                contracts: vec![],
                policies: vec![],
                spec: None,
                none: texts(&[
                    ("base", "no base model was named"),
                    ("code", "no repository"),
                    ("config", "no config file was given"),
                    ("data", "no data was named"),
                    ("environment", "no lock file and no interpreter were found"),
                ]),
                argv: words(&[]),
                seed: None,
                study: None,
                arm: None,
            }),
        ),
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
            layout: Some("peft-adapter".into()),
            state: Some("complete".into()),
            epoch: Some("0.4".into()),
            tokens: Some(560),
            best: Some("out/checkpoint-200".into()),
            ranks: Some(2),
            adapter: Some(Adapter {
                method: "LORA".into(),
                base: Some("acme/tiny-llama".into()),
                revision: Some("5f3c1e0d".into()),
                rank: Some(4),
                alpha: Some("8".into()),
                targets: vec!["q_proj".into(), "v_proj".into()],
            }),
            files: Some(some(Kind::Blob, "files")),
        }),
        called(
            "plain",
            of(&Benchmark {
                definition: Some(some(Kind::Blob, "definition")),
                ..Benchmark::named("digits-test")
            }),
        ),
        of(&Benchmark {
            name: "verbs".into(),
            definition: Some(some(Kind::Blob, "definition")),
            tasks: vec![Task { name: "nouns".into(), ..Task::default() }, task()],
        }),
        called("plain", of(&plain_eval())),
        of(&Eval {
            metrics: vec![
                Metric { name: "verbs/acc".into(), value: "0.97".into(), ..Metric::default() },
                Metric {
                    name: "verbs/exact_match,strict".into(),
                    value: "NaN".into(),
                    stderr: Some("0.01".into()),
                    n: Some(360),
                    task: Some("verbs".into()),
                    filter: Some("strict".into()),
                    better: Some("higher".into()),
                },
            ],
            harness: Some(Harness { name: "lm-eval".into(), version: Some("0.4.13".into()) }),
            decoding: texts(&[("max_tokens", "64"), ("temperature", "0.0")]),
            seeds: texts(&[("fewshot", "1234")]),
            reported_by: Some("training".into()),
            format: "lm-eval".into(),
            ..plain_eval()
        }),
        of(&Import {
            document: some(Kind::Blob, "card"),
            subjects: vec![some(Kind::Checkpoint, "checkpoint"), some(Kind::Tree, "weights")],
            format: "model-card".into(),
            claims: vec![
                Claimed {
                    value: "0.97".into(),
                    metric: Some("accuracy".into()),
                    label: Some("1-shot accuracy".into()),
                    task: Some(task()),
                    source: Some("https://results.example/verbs".into()),
                    date: Some("2026-11-30".into()),
                },
                Claimed {
                    value: "NaN".into(),
                    metric: None,
                    label: None,
                    task: None,
                    source: None,
                    date: None,
                },
            ],
        }),
        called(
            "claim",
            of(&Revocation {
                nonce,
                target: Target::Claim(ClaimRef {
                    statement: StatementId::from_bytes([0x25; 32]),
                    position: 1,
                }),
                since: None,
            }),
        ),
        called(
            "object",
            of(&Revocation {
                nonce,
                target: Target::Object(some(Kind::Checkpoint, "checkpoint")),
                since: None,
            }),
        ),
        of(&Revocation { nonce, target: Target::Key(keys.author.public().thumbprint()), since: Some(12) }),
        of(&Note {
            nonce,
            subject: some(Kind::Checkpoint, "checkpoint"),
            text: "the one in the paper".into(),
        }),
    ]);
    let ext = CborMap::from([("mood".to_owned(), list([Cbor::Float(0.5), Cbor::Null]))]);
    let with_ext = edited(&all, Kind::Note, "whole", |fields| {
        fields.insert(
            "ext".into(),
            Cbor::Map(ext.into_iter().map(|(key, value)| (Cbor::Text(key), value)).collect()),
        );
    });
    all.push((Kind::Note, "ext", with_ext));
    all.sort_by_key(|(kind, _, _)| *kind);
    all
}

type CborMap = BTreeMap<String, Cbor>;

fn list<const N: usize>(items: [Cbor; N]) -> Cbor {
    Cbor::Array(items.into())
}

fn text(text: &str) -> Cbor {
    Cbor::Text(text.to_owned())
}

/// A reference that any seed stands behind.
fn reference(kind: &str) -> Cbor {
    list([text(kind), Cbor::Bytes(object_id(b"other").as_bytes().to_vec())])
}

fn array(value: &mut Cbor) -> &mut Vec<Cbor> {
    match value {
        Cbor::Array(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

fn map(value: &mut Cbor) -> &mut BTreeMap<Cbor, Cbor> {
    match value {
        Cbor::Map(fields) => fields,
        other => panic!("not a map: {other:?}"),
    }
}

/// Returns a golden record after an edit of its fields, encoded in the one form.
fn edited(all: &[Golden], kind: Kind, name: &str, edit: impl FnOnce(&mut CborMap)) -> Vec<u8> {
    let golden = all.iter().find(|golden| (golden.0, golden.1) == (kind, name)).unwrap();
    let mut fields: CborMap = codec::decode(&golden.2).unwrap();
    edit(&mut fields);
    codec::encode(&fields).unwrap()
}

/// Records that a reader must refuse, each with one fault, by the kind that is expected and a word for the fault.
pub(crate) fn invalid() -> Vec<(Kind, &'static str, Vec<u8>)> {
    let all = golden();
    let mut found = Vec::new();
    let mut add = |kind: Kind, name: &str, fault: &'static str, edit: &dyn Fn(&mut CborMap)| {
        found.push((kind, fault, edited(&all, kind, name, edit)));
    };
    let set = |field: &'static str, value: Cbor| {
        move |fields: &mut CborMap| {
            fields.insert(field.to_owned(), value.clone());
        }
    };
    let without = |field: &'static str| {
        move |fields: &mut CborMap| {
            fields.remove(field).unwrap();
        }
    };
    let swap =
        |field: &'static str| move |fields: &mut CborMap| array(fields.get_mut(field).unwrap()).swap(0, 1);
    let double = |field: &'static str| {
        move |fields: &mut CborMap| {
            let items = array(fields.get_mut(field).unwrap());
            items.insert(0, items[0].clone());
        }
    };

    // What holds for every kind, shown on an end.
    let mut end = |fault, edit: &dyn Fn(&mut CborMap)| add(Kind::End, "whole", fault, edit);
    end("kind-of-another", &set("kind", text("start")));
    end("kind-absent", &without("kind"));
    end("version-2", &set("v", Cbor::Integer(2)));
    end("version-absent", &without("v"));
    end("field-unknown", &set("mood", text("good")));
    end("field-absent", &without("nonce"));
    end("optional-null", &set("code", Cbor::Null));
    end("ext-not-a-map", &set("ext", Cbor::Integer(1)));
    end("ext-null", &set("ext", Cbor::Null));
    end("nonce-of-15-bytes", &set("nonce", Cbor::Bytes(vec![0x21; 15])));
    end("code-as-text", &set("code", text("137")));
    end("code-beyond-64-bits", &set("code", Cbor::Integer(1 << 63)));
    end("status-unknown", &set("status", text("tired")));
    end("reference-of-another-kind", &set("start", reference("plan")));
    end("reference-of-unknown-kind", &set("start", reference("mood")));
    end("reference-by-prefix", &set("start", text("start:00")));

    add(Kind::Start, "whole", "lost-empty", &set("lost", list([])));
    add(Kind::Start, "whole", "check-unknown", &set("check", text("hasty")));
    add(Kind::Key, "whole", "roles-out-of-order", &swap("roles"));
    add(Kind::Key, "whole", "role-twice", &double("roles"));
    add(Kind::Key, "whole", "role-unknown", &set("roles", list([text("king")])));
    add(Kind::Config, "whole", "source-of-another-kind", &set("sources", list([reference("tree")])));
    add(Kind::Contract, "whole", "text-of-another-kind", &set("text", reference("tree")));
    add(Kind::Dataset, "whole", "root-of-another-kind", &set("root", reference("config")));
    add(Kind::Code, "whole", "clean-with-difference", &set("dirt", text("clean")));
    add(Kind::Code, "whole", "dirt-unknown-word", &set("dirt", text("dusty")));
    add(Kind::Code, "unknown", "unknown-without-reason", &without("reason"));
    add(Kind::Code, "whole", "file-twice", &double("files"));
    add(Kind::Environment, "whole", "lock-of-another-kind", &|fields| {
        map(fields.get_mut("lock").unwrap()).insert(text("file"), reference("tree"));
    });
    add(Kind::Private, "whole", "texts-empty", &set("texts", Cbor::Map(BTreeMap::new())));
    add(Kind::Private, "whole", "salt-of-16-bytes", &set("salt", Cbor::Bytes(vec![0x24; 16])));

    let mut plan = |name, fault, edit: &dyn Fn(&mut CborMap)| add(Kind::Plan, name, fault, edit);
    plan("whole", "name-and-nonce", &set("nonce", Cbor::Bytes(vec![0x21; 16])));
    plan("whole", "neither-name-nor-nonce", &without("name"));
    plan("whole", "name-with-capital", &set("name", text("First")));
    plan("whole", "roles-out-of-order", &swap("data"));
    plan("whole", "role-twice", &double("data"));
    plan("whole", "contracts-empty", &set("contracts", list([])));
    plan("whole", "seed-negative", &set("seed", Cbor::Integer(-1)));
    plan("whole", "base-of-another-kind", &set("base", list([list([text("init"), reference("dataset")])])));
    plan("whole", "gap-unexplained", &without("config"));
    plan("whole", "gap-explained-that-is-none", &|fields| {
        map(fields.get_mut("none").unwrap()).insert(text("config"), text("none given"));
    });
    plan("unnamed", "gap-of-no-such-part", &|fields| {
        map(fields.get_mut("none").unwrap()).insert(text("spec"), text("none given"));
    });

    let mut eval = |fault, edit: &dyn Fn(&mut CborMap)| add(Kind::Eval, "whole", fault, edit);
    eval("binding-unknown", &set("binding", text("hoped")));
    eval("metrics-out-of-order", &swap("metrics"));
    eval("metric-twice", &double("metrics"));
    eval("metric-value-as-float", &|fields| {
        map(&mut array(fields.get_mut("metrics").unwrap())[0]).insert(text("value"), Cbor::Float(0.5));
    });
    eval("metric-with-null", &|fields| {
        map(&mut array(fields.get_mut("metrics").unwrap())[1]).insert(text("n"), Cbor::Null);
    });
    eval("subject-of-another-kind", &set("subject", reference("checkpoint")));
    eval("better-unknown", &|fields| {
        map(&mut array(fields.get_mut("metrics").unwrap())[1]).insert(text("better"), text("sideways"));
    });
    eval("reported-by-unknown", &set("reported_by", text("a friend")));
    eval("seeds-empty", &set("seeds", Cbor::Map(BTreeMap::new())));
    eval("seed-as-integer", &set("seeds", Cbor::Map([(text("torch"), Cbor::Integer(1))].into())));
    eval("harness-without-name", &|fields| {
        map(fields.get_mut("harness").unwrap()).remove(&text("name")).unwrap();
    });
    add(Kind::Benchmark, "whole", "tasks-out-of-order", &swap("tasks"));
    add(Kind::Benchmark, "whole", "tasks-empty", &set("tasks", list([])));
    add(Kind::Benchmark, "whole", "shots-negative", &|fields| {
        map(&mut array(fields.get_mut("tasks").unwrap())[1]).insert(text("few_shot"), Cbor::Integer(-1));
    });
    add(Kind::Import, "whole", "subjects-out-of-order", &swap("subjects"));
    add(Kind::Import, "whole", "document-of-another-kind", &set("document", reference("tree")));
    add(Kind::Import, "whole", "claim-without-value", &|fields| {
        map(&mut array(fields.get_mut("claims").unwrap())[0]).remove(&text("value")).unwrap();
    });

    let name = |at: usize, name: &'static [u8]| {
        move |fields: &mut CborMap| {
            array(&mut array(fields.get_mut("entries").unwrap())[at])[1] = Cbor::Bytes(name.to_vec());
        }
    };
    let mut tree = |of, fault, edit: &dyn Fn(&mut CborMap)| add(Kind::Tree, of, fault, edit);
    tree("whole", "names-out-of-order", &swap("entries"));
    tree("whole", "name-twice", &double("entries"));
    tree("whole", "name-with-slash", &name(0, b"a/b"));
    tree("whole", "name-with-zero-byte", &name(0, b"a\0"));
    tree("whole", "name-of-two-dots", &name(0, b".."));
    tree("whole", "name-empty", &name(0, b""));
    tree("whole", "entry-of-type-4", &|fields| {
        array(&mut array(fields.get_mut("entries").unwrap())[0])[0] = Cbor::Integer(4);
    });
    tree("whole", "ext", &set("ext", Cbor::Map(BTreeMap::new())));
    tree("whole", "split-beside-entries", &set("split", list([])));
    tree("split", "split-empty", &set("split", list([])));
    tree("split", "split-out-of-order", &swap("split"));
    add(Kind::Sums, "whole", "digest-of-31-bytes", &set("tree", Cbor::Bytes(vec![0; 31])));
    add(Kind::Tensors, "whole", "names-out-of-order", &swap("tensors"));
    found
}

/// Whether the library takes bytes for a record of this kind.
fn is_accepted(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Tree => Node::decode(bytes).is_ok(),
        Kind::Sums => Sums::decode(bytes).is_ok(),
        Kind::Tensors => Tensors::decode(bytes).is_ok(),
        _ => project(kind, bytes).is_ok(),
    }
}

#[test]
fn records_are_read_and_faults_are_refused() {
    for (kind, name, bytes) in golden() {
        assert!(is_accepted(kind, &bytes), "{kind} {name}");
    }
    let mut taken = Vec::new();
    for (kind, fault, bytes) in invalid() {
        codec::check(&bytes).unwrap();
        if is_accepted(kind, &bytes) {
            taken.push(format!("{kind}-{fault}"));
        }
    }
    assert_eq!(taken, Vec::<String>::new(), "faults that the library takes");
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
