//! A small ledger of two people, written by the library itself with fixed keys, random bytes and clock.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::durable::{Disk, RealDisk};
use ledger::id::{HolderId, hex};
use ledger::ledger::{Founder, Home, Ledger, Outcome, Rescue, Signer, StagedClaim, init};
use ledger::log::key::{SigningKey, possession_message};
use ledger::log::key_file::{KeyFile, Stored};
use ledger::log::note;
use ledger::log::sealed::Passphrase;
use ledger::model::content::{Entry, What, build_node};
use ledger::model::{
    Benchmark, Binding, Checkpoint, Config, End, Environment, Eval, Fixed, Holder, Interpreter, Key, Kind,
    Metric, Name, Note, Plan, Private, Record, Start, TypedId,
};
use serde_json::json;

use super::Files;

/// The time that every statement bears.
pub(crate) const TIME: u64 = 1_764_500_000;

/// Whoever signs in the golden bytes; each seed is one byte, 32 times.
pub(crate) struct Keys {
    pub(crate) author: SigningKey,
    pub(crate) log: SigningKey,
    pub(crate) recovery: SigningKey,
    pub(crate) lee: SigningKey,
    pub(crate) stranger: SigningKey,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let key = |seed| SigningKey::from_seed(&[seed; 32]);
        Self { author: key(1), log: key(2), recovery: key(3), lee: key(4), stranger: key(5) }
    }
}

pub(crate) fn holder(key: &SigningKey) -> HolderId {
    HolderId::of_first_key(key.public().thumbprint())
}

pub(crate) fn keys_as_json() -> serde_json::Value {
    let keys = Keys::new();
    let row = |name: &str, seed: u8, key: &SigningKey| {
        json!({
            "name": name,
            "seed": hex(&[seed; 32]),
            "public": hex(key.public().as_bytes()),
            "thumbprint": key.public().thumbprint().to_hex(),
        })
    };
    json!([
        row("kim, author", 1, &keys.author),
        row("kim, log", 2, &keys.log),
        row("kim, recovery", 3, &keys.recovery),
        row("lee, author", 4, &keys.lee),
        row("a stranger", 5, &keys.stranger),
    ])
}

pub(crate) fn key_file() -> KeyFile {
    let keys = Keys::new();
    KeyFile::new("kim", keys.author, Some(keys.log)).unwrap()
}

/// The passphrase under which the second key file is sealed.
const PASSPHRASE: &[u8] = b"correct horse battery staple";

/// The same keys under a passphrase, with salts and IVs that count up from 1.
pub(crate) fn sealed_key_file() -> String {
    let mut next = 0;
    let mut random = |out: &mut [u8]| {
        next += 1;
        out.fill(next);
    };
    let passphrase = Passphrase::new(PASSPHRASE.to_vec());
    let text = key_file().to_sealed_text(&passphrase, &mut random).unwrap();
    let opened = Stored::parse(&text).unwrap().open(Some(&passphrase)).unwrap();
    assert_eq!(opened.to_text(), key_file().to_text());
    text.to_string()
}

/// What the ledger's directory holds, and its statements by name in log order.
pub(crate) struct Scene {
    pub(crate) origin: String,
    pub(crate) files: Files,
    pub(crate) statements: Vec<(&'static str, Vec<u8>)>,
}

fn signer<'k>(author: &'k SigningKey, log: Option<&'k SigningKey>) -> Signer<'k> {
    let user = rustix::process::getuid().as_raw();
    Signer { author, log, time: TIME, wait: Duration::from_mins(1), user }
}

fn nonce(byte: u8) -> Fixed<16> {
    Fixed([byte; 16])
}

fn open(dir: &Path) -> Ledger {
    Ledger::open(&dir.join(".ledger"), Home::default()).unwrap()
}

/// Commits one statement of records that have no links beside their bytes.
fn commit(
    ledger: &mut Ledger,
    signer: &Signer<'_>,
    claims: Vec<(StagedClaim, Vec<Vec<u8>>)>,
    is_queued: bool,
) {
    let mut tx = ledger.transaction();
    for (claim, objects) in claims {
        tx.put_objects(objects);
        tx.claim(claim);
    }
    let outcome = tx.commit(signer).unwrap();
    assert_eq!(matches!(outcome, Outcome::Queued { .. }), is_queued, "{outcome:?}");
}

fn staged<R: Record>(record: &R) -> (TypedId, StagedClaim, Vec<u8>) {
    let encoded = ledger::model::encode(record).unwrap();
    (encoded.id, StagedClaim::new(record, &encoded), encoded.bytes)
}

fn blob(bytes: &[u8]) -> (TypedId, Vec<u8>) {
    (TypedId::new(Kind::Blob, ledger::id::object_id(bytes)), bytes.to_vec())
}

/// Writes the ledger anew and returns all of it that is portable.
pub(crate) fn write() -> Scene {
    let keys = Keys::new();
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let founder = Founder {
        name: "kim",
        author: &keys.author,
        log: &keys.log,
        recovery: Some(Rescue { key: &keys.recovery, log: None }),
        time: TIME,
        nonce: [0x11; 16],
        instance: [0x12; 16],
        shared: false,
    };
    let id = init(&disk, dir.path(), &founder).unwrap();
    let kim = signer(&keys.author, Some(&keys.log));
    let unordered = signer(&keys.author, None);

    // Statement 1: a plan and its start.
    let mut ledger = open(dir.path());
    let (frozen, frozen_bytes) = blob(br#"{"lr":0.1,"steps":300}"#);
    let (source, source_bytes) = blob(b"lr: 0.1\nsteps: 300\n");
    let (config, _, config_bytes) = staged(&Config { frozen, sources: vec![source] });
    let (environment, _, environment_bytes) = staged(&Environment {
        lock: None,
        interpreter: Some(Interpreter { name: "CPython".into(), version: "3.11.7".into() }),
        os: "linux".into(),
        arch: "x86_64".into(),
        ..Environment::default()
    });
    let reasons = [("base", "trained from nothing"), ("code", "no repository"), ("data", "none given")];
    let (run, plan, plan_bytes) = staged(&Plan {
        nonce: None,
        name: Some("first".into()),
        config: Some(config),
        code: None,
        environment: Some(environment),
        data: vec![],
        base: vec![],
        contracts: vec![],
        policies: vec![],
        spec: None,
        none: reasons.map(|(what, why)| (what.to_owned(), why.to_owned())).into(),
        argv: ["python", "train.py"].map(str::to_owned).into(),
        seed: Some(7),
        study: None,
        arm: None,
    });
    let (manifest, manifest_bytes) = blob(b"{}");
    let (private, _, private_bytes) = staged(&Private {
        salt: Fixed([0x13; 32]),
        argv: ["/usr/bin/python", "train.py"].map(str::to_owned).into(),
        texts: [("host".to_owned(), "node-7".to_owned())].into(),
        paths: [].into(),
        variables: [].into(),
        stats: [].into(),
    });
    let (start_id, start, start_bytes) = staged(&Start {
        nonce: nonce(0x14),
        plan: run,
        environment: Some(environment),
        lost: vec![],
        check: "frozen".into(),
    });
    let objects = vec![
        frozen_bytes,
        source_bytes,
        config_bytes,
        environment_bytes,
        plan_bytes,
        manifest_bytes,
        private_bytes,
        start_bytes,
    ];
    let plan = plan.beside("manifest", manifest).beside("private", private);
    commit(&mut ledger, &kim, vec![(plan, objects), (start, vec![])], false);

    // Statements 2, 3 and 4 under one head: lee's key, a checkpoint, the end. The first two wait for the third.
    let lee = holder(&keys.lee);
    let message = possession_message(id.as_bytes(), &keys.lee.public(), lee);
    let (name, _, name_bytes) = staged(&Holder { name: "lee".into() });
    let (_, key, key_bytes) = staged(&Key {
        key: Fixed(*keys.lee.public().as_bytes()),
        holder: name,
        first: lee.first_key(),
        roles: ["author", "evaluator"].map(str::to_owned).into(),
        proof: Some(Fixed(keys.lee.sign(&message))),
    });
    commit(&mut ledger, &unordered, vec![(key, vec![name_bytes, key_bytes])], true);
    let (weights_file, weights_bytes) = blob(b"weights");
    let entry = |exec| Entry {
        name: b"model.bin".to_vec(),
        what: What::File { exec, size: weights_bytes.len() as u64, id: weights_file.id },
    };
    let log_entry =
        Entry { name: b"train.log".to_vec(), what: What::File { exec: false, size: 0, id: blob(b"").0.id } };
    let full = build_node(vec![entry(true), log_entry]).unwrap().remove(0);
    let weights = build_node(vec![entry(false)]).unwrap().remove(0);
    let (checkpoint_id, checkpoint, checkpoint_bytes) = staged(&Checkpoint {
        start: Some(start_id),
        step: Some(300),
        path: Some("out/step-300".into()),
        ..Checkpoint::bare(
            TypedId::new(Kind::Tree, full.0),
            TypedId::new(Kind::Tree, weights.0),
            "torch-pickle",
        )
    });
    let objects = vec![full.1, weights.1, checkpoint_bytes];
    let checkpoint = checkpoint.named(Name::parse("digits"));
    commit(&mut ledger, &unordered, vec![(checkpoint, objects)], true);
    let (_, end, end_bytes) = staged(&End {
        nonce: nonce(0x15),
        start: start_id,
        status: "completed".into(),
        code: Some(0),
        signal: None,
    });
    commit(&mut ledger, &kim, vec![(end, vec![end_bytes])], false);

    // Statements 5 and 6 under one head: lee evaluates, kim remarks.
    let (benchmark, _, benchmark_bytes) = staged(&Benchmark::named("digits-test"));
    let (result, result_bytes) = blob(br#"{"accuracy": 0.97}"#);
    let (_, eval, eval_bytes) = staged(&Eval {
        of: Some(checkpoint_id),
        results: vec![result],
        metrics: vec![Metric {
            name: "accuracy".into(),
            value: "0.97".into(),
            n: Some(360),
            ..Metric::default()
        }],
        ..Eval::new(TypedId::new(Kind::Tree, weights.0), benchmark, Binding::Observed, "json")
    });
    let objects = vec![benchmark_bytes, result_bytes, eval_bytes];
    commit(&mut ledger, &signer(&keys.lee, None), vec![(eval, objects)], true);
    let (_, remark, note_bytes) =
        staged(&Note { nonce: nonce(0x16), subject: checkpoint_id, text: "the one in the paper".into() });
    commit(&mut ledger, &kim, vec![(remark, vec![note_bytes])], false);

    let mut statements = Vec::new();
    for index in 0..7 {
        let bytes = ledger.log().statement(7, index).unwrap();
        statements.push((name_of(&bytes), bytes));
    }
    let mut files = Files::new();
    for part in ["format", "objects", "log/checkpoint", "log/tile", "log/heads"] {
        gather(&dir.path().join(".ledger").join(part), part, &mut files);
    }
    Scene { origin: note::origin(id), files, statements }
}

/// Names a statement by what it claims; pending ones are ordered by their ids, which no name here fixes.
fn name_of(bytes: &[u8]) -> &'static str {
    let statement = ledger::log::statement::Statement::parse(bytes).unwrap();
    match statement.payload.claims[0].kind.as_ref() {
        "genesis" => "genesis",
        "plan" => "plan-start",
        "key" => "key",
        "checkpoint" => "checkpoint",
        "end" => "end",
        "eval" => "eval",
        _ => "note",
    }
}

fn gather(path: &Path, name: &str, files: &mut Files) {
    if path.is_file() {
        files.insert(name.to_owned(), fs::read(path).unwrap());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        gather(&entry.path(), &format!("{name}/{}", entry.file_name().to_str().unwrap()), files);
    }
}
