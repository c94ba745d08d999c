//! The golden bytes of the format: made here from fixed seeds, kept in `store-format/vectors`, compared ever after.
//!
//! `LEDGER_OVERWRITE=1 cargo test --test vectors` writes them anew, which is right only while the format is not
//! released. The pages of `store-format` are held to the same bytes and to the code's table of kinds.

#![expect(clippy::disallowed_methods, reason = "tests lay files and read their own switch")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where its ground gives way")]

mod fold;
mod fork;
mod pages;
mod records;
mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use ledger::codec::{self, Value};
use ledger::id::{StatementId, hex, statement_id};
use ledger::ledger::{Home, Ledger};
use ledger::log::HeadFile;
use ledger::log::key::SigningKey;
use ledger::log::note::{SignedHead, sign_receipt, verify_receipt, vkey};
use ledger::log::proof::{self, Held, Proof, Subject};
use ledger::log::statement::Statement;
use ledger::log::tree::{MemoryTiles, consistency_proof, inclusion_proof, root_at};
use ledger::state::Standing;

use scene::{Keys, TIME};

fn format_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("store-format")
}

/// Returns where the golden files are, after writing them anew if that is asked for.
fn vectors() -> &'static Path {
    static WRITTEN: LazyLock<PathBuf> = LazyLock::new(|| {
        let vectors = format_dir().join("vectors");
        if overwrite() {
            let _ = fs::remove_dir_all(&vectors);
            for (name, bytes) in files() {
                let path = vectors.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
        vectors
    });
    &WRITTEN
}

fn overwrite() -> bool {
    std::env::var_os("LEDGER_OVERWRITE").is_some_and(|value| value == "1")
}

/// Every golden file by its path below `vectors`.
type Files = BTreeMap<String, Vec<u8>>;

fn hex_file(bytes: &[u8]) -> Vec<u8> {
    format!("{}\n", hex(bytes)).into_bytes()
}

fn json_file(value: &serde_json::Value) -> Vec<u8> {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap()).into_bytes()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Encodings of one item each that are in the one form, by name.
fn valid_encodings() -> Vec<(&'static str, &'static str)> {
    vec![
        ("zero", "00"),
        ("integer-23", "17"),
        ("integer-24", "1818"),
        ("integer-largest", "1bffffffffffffffff"),
        ("integer-smallest", "3bffffffffffffffff"),
        ("bytes-empty", "40"),
        ("text-of-two-byte-letter", "62c3a4"),
        ("array-empty", "80"),
        ("map-empty", "a0"),
        ("map-shorter-keys-first", "a46004616203617a0162616102"),
        ("false", "f4"),
        ("true", "f5"),
        ("null", "f6"),
        ("float-one-as-half", "f93c00"),
        ("float-negative-zero", "f98000"),
        ("float-smallest-half", "f90001"),
        ("float-single", "fa47c35000"),
        ("float-double", "fb3ff199999999999a"),
        ("float-infinity", "f97c00"),
        ("float-not-a-number", "f97e00"),
        ("nested-32-deep", "818181818181818181818181818181818181818181818181818181818181818100"),
    ]
}

/// Bytes that a reader must refuse, by the name of the fault.
fn invalid_encodings() -> Vec<(&'static str, &'static str)> {
    vec![
        ("nothing", ""),
        ("truncated-head", "19ff"),
        ("truncated-bytes", "4200"),
        ("truncated-array", "8200"),
        ("trailing-byte", "0000"),
        ("integer-not-shortest-1", "1817"),
        ("integer-not-shortest-2", "1900ff"),
        ("integer-not-shortest-4", "1a0000ffff"),
        ("integer-not-shortest-8", "1b00000000ffffffff"),
        ("length-not-shortest", "580100"),
        ("reserved-length", "1c"),
        ("indefinite-bytes", "5f4100ff"),
        ("indefinite-text", "7f6161ff"),
        ("indefinite-array", "9fff"),
        ("indefinite-map", "bfff"),
        ("break-alone", "ff"),
        ("tag", "c000"),
        ("undefined", "f7"),
        ("simple-value", "f0"),
        ("simple-value-in-two-bytes", "f820"),
        ("float-one-as-single", "fa3f800000"),
        ("float-one-as-double", "fb3ff0000000000000"),
        ("float-single-as-double", "fb40f86a0000000000"),
        ("float-not-a-number-as-single", "fa7fc00000"),
        ("float-not-a-number-with-payload", "f97e01"),
        ("float-not-a-number-signalling", "f97c01"),
        ("map-keys-out-of-order", "a2616200616100"),
        ("map-keys-longer-first", "a262616100616200"),
        ("map-key-twice", "a2616100616101"),
        ("map-key-integer", "a10102"),
        ("map-key-bytes", "a1416100"),
        ("text-not-utf-8", "62c328"),
        ("text-surrogate", "63eda080"),
        ("length-beyond-the-bytes", "9bffffffffffffffff"),
        ("nested-33-deep", "81818181818181818181818181818181818181818181818181818181818181818100"),
    ]
}

/// Damaged forms of a statement, each with one fault, all to be refused before any signature is checked.
fn invalid_statements(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let protected_end = 4 + usize::from(good[3]);
    assert_eq!((good[2], good[protected_end]), (0x58, 0xa0), "the envelope is as the page draws it");
    let edit = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        edit(&mut bytes);
        bytes
    };
    let find = |part: &[u8]| good.windows(part.len()).position(|window| window == part).unwrap();
    let (alg, version, seen) =
        (find(&[0xa4, 0x01, 0x27]) + 2, find(b"\x61v\x01") + 2, find(b"\x64seen\x82") + 6);
    vec![
        ("no-tag", good[1..].to_vec()),
        ("other-tag", edit(&|bytes| bytes[0] = 0xd1)),
        ("trailing-byte", edit(&|bytes| bytes.push(0))),
        ("cut-short", good[..good.len() - 1].to_vec()),
        (
            "unprotected-header",
            edit(&|bytes| {
                bytes.splice(protected_end..=protected_end, [0xa1, 0x04, 0x41, 0x00]);
            }),
        ),
        ("other-algorithm", edit(&|bytes| bytes[alg] = 0x26)),
        ("other-content-type", edit(&|bytes| bytes[find(b"statement+cbor")] = b'S')),
        ("issuer-not-a-holder", edit(&|bytes| bytes[find(b"h:")] = b'g')),
        (
            "subject-of-another-object",
            edit(&|bytes| {
                let at = find(b"run:") + 4;
                bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            }),
        ),
        ("payload-version-2", edit(&|bytes| bytes[version] = 2)),
        ("payload-field-unknown", edit(&|bytes| bytes[seen - 3] = b'i')),
        ("seen-size-zero", edit(&|bytes| bytes[seen] = 0)),
        ("claim-field-unknown", edit(&|bytes| bytes[find(b"\x65facts") + 1] = b'g')),
    ]
}

fn files() -> &'static Files {
    static FILES: LazyLock<Files> = LazyLock::new(make_files);
    &FILES
}

fn make_files() -> Files {
    let mut files = Files::new();
    for (name, text) in valid_encodings() {
        files.insert(format!("encoding/valid/{name}.hex"), format!("{text}\n").into_bytes());
    }
    for (name, text) in invalid_encodings() {
        files.insert(format!("encoding/invalid/{name}.hex"), format!("{text}\n").into_bytes());
    }
    for (kind, fault, bytes) in records::invalid() {
        let taken = files.insert(format!("records/invalid/{kind}-{fault}.hex"), hex_file(&bytes));
        assert!(taken.is_none(), "{kind}-{fault} stands twice");
    }
    files.insert(".gitattributes".into(), b"* -text\n".to_vec());
    files.insert("records.json".into(), json_file(&records::as_json()));
    files.insert("facts.json".into(), json_file(&records::facts_as_json()));
    files.insert("fold.json".into(), json_file(&fold::as_json()));
    files.insert("fork.json".into(), json_file(&fork::as_json()));
    files.insert("keys.json".into(), json_file(&scene::keys_as_json()));
    files.insert("kim.key".into(), scene::key_file().to_text().as_bytes().to_vec());

    files.insert("kim-sealed.key".into(), scene::sealed_key_file().into_bytes());

    let scene = scene::write();
    let keys = Keys::new();
    let log_key = keys.log.public();
    let mut tiles = MemoryTiles::new();
    let leaves: Vec<StatementId> = scene.statements.iter().map(|(_, bytes)| statement_id(bytes)).collect();
    tiles.extend(leaves.iter().copied());
    for (index, (name, bytes)) in scene.statements.iter().enumerate() {
        files.insert(format!("statements/{index}-{name}.cose"), bytes.clone());
    }
    for (name, bytes) in invalid_statements(&scene.statements[1].1) {
        files.insert(format!("statements/invalid/{name}.hex"), hex_file(&bytes));
    }
    let size = leaves.len() as u64;
    let head = SignedHead::parse(std::str::from_utf8(&scene.files["log/checkpoint"]).unwrap()).unwrap();
    let receipt = sign_receipt(root_at(&tiles, size).unwrap(), &keys.log);
    for (name, proof) in proofs(&tiles, size) {
        let extension = if name == INCLUDED { "tlog-proof" } else { "consistency-proof" };
        files.insert(format!("{name}.{extension}"), proof.to_text(&head).into_bytes());
        files.insert(format!("{name}.receipt"), proof.to_receipt(size, &receipt).unwrap());
    }
    files.insert("receipt.cbor".into(), receipt);
    files.insert("log/vkey".into(), format!("{}\n", vkey(&scene.origin, &log_key)).into_bytes());
    files.extend(scene.files);
    files
}

/// Name of the proof that a statement is in the golden log.
const INCLUDED: &str = "1-plan-start";
/// Name of the proof that the golden log continues an older head of itself.
const CONTINUED: &str = "2-to-7";

/// Both golden proofs, by name.
fn proofs(tiles: &MemoryTiles, size: u64) -> [(&'static str, Proof); 2] {
    let (included, continued) = (inclusion_proof(tiles, 1, size), consistency_proof(tiles, 2, size));
    [
        (INCLUDED, Proof { subject: Subject::Leaf { index: 1 }, path: included.unwrap() }),
        (CONTINUED, Proof { subject: Subject::Past { size: 2 }, path: continued.unwrap() }),
    ]
}

/// Lists the files below a directory by their relative paths.
fn listed(dir: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            listed(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

#[test]
fn the_golden_files_are_what_the_code_writes() {
    let files = files();
    for (name, bytes) in files {
        let kept = fs::read(vectors().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(kept == *bytes, "{name} is not what the code writes now");
    }
    let mut found = Vec::new();
    listed(vectors(), "", &mut found);
    found.retain(|name| !files.contains_key(name));
    assert_eq!(found, Vec::<String>::new(), "files that nothing here makes");
}

#[test]
fn every_valid_encoding_is_read_and_written_back() {
    for (name, text) in valid_encodings() {
        let bytes = unhex(text);
        codec::check(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let value: Value = codec::decode(&bytes).unwrap();
        assert_eq!(codec::encode(&value).unwrap(), bytes, "{name}");
        ciborium::from_reader::<ciborium::Value, _>(&bytes[..]).unwrap();
    }
}

#[test]
fn every_invalid_encoding_is_refused() {
    for (name, text) in invalid_encodings() {
        assert!(codec::check(&unhex(text)).is_err(), "{name}");
        assert!(codec::decode::<Value>(&unhex(text)).is_err(), "{name}");
    }
}

#[test]
fn every_damaged_statement_is_refused_by_its_form() {
    let scene = scene::write();
    for (_, bytes) in &scene.statements {
        Statement::parse(bytes).unwrap();
    }
    for (name, bytes) in invalid_statements(&scene.statements[1].1) {
        assert!(Statement::parse(&bytes).is_err(), "{name}");
    }
}

#[test]
fn the_golden_ledger_opens_and_means_what_it_meant() {
    let before = {
        let mut names = Vec::new();
        listed(vectors(), "", &mut names);
        names
    };
    let ledger = Ledger::open(vectors(), Home::default()).unwrap();
    assert!(ledger.is_copy(), "it has no `place`, so nothing writes to it");
    let mut standings = Vec::new();
    ledger
        .list::<ledger::ledger::Error>(0, &mut |listed| {
            standings.push(listed.standing);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(standings, [Standing::Accepted; 7]);
    for index in 0..7 {
        ledger.prove_inclusion(index).unwrap();
    }
    for id in ledger.store().ids().unwrap() {
        ledger.bytes(id).unwrap();
    }
    let plan = ledger.state().runs()[0].0;
    assert_eq!(ledger.state().run_status(plan).unwrap().to_string(), "completed");
    let mut after = Vec::new();
    listed(vectors(), "", &mut after);
    assert_eq!(after, before, "opening writes nothing");
}

#[test]
fn heads_and_receipts_hold_for_the_log_key_only() {
    let (keys, scene) = (Keys::new(), scene::write());
    let (log_key, author) = (keys.log.public(), keys.author.public());
    let heads: Vec<&Vec<u8>> =
        scene.files.iter().filter(|(name, _)| name.starts_with("log/heads/")).map(|(_, b)| b).collect();
    assert_eq!(heads.len(), 4);
    for bytes in heads {
        let file = HeadFile::decode(bytes).unwrap();
        assert_eq!(&file.encode(), bytes);
        file.head.verify(&[log_key]).unwrap();
        verify_receipt(&file.receipt, file.head.head().root, &[log_key]).unwrap();
        assert!(file.head.verify(&[author]).is_err());
        assert!(verify_receipt(&file.receipt, file.head.head().root, &[author]).is_err());
    }
    let note = std::str::from_utf8(&scene.files["log/checkpoint"]).unwrap();
    assert_eq!(SignedHead::parse(note).unwrap().head().size, 7);
}

#[test]
fn the_golden_proofs_hold_for_what_they_name() {
    let (keys, scene) = ([Keys::new().log.public()], scene::write());
    let first_head = HeadFile::decode(&scene.files["log/heads/001"]).unwrap().head;
    assert_eq!(first_head.head().size, 2);
    let statement = Held::Statement(statement_id(&scene.statements[1].1));
    let past = Held::Root(first_head.head().root);
    for (name, extension, held, other) in
        [(INCLUDED, "tlog-proof", statement, past), (CONTINUED, "consistency-proof", past, statement)]
    {
        let text = fs::read_to_string(vectors().join(format!("{name}.{extension}"))).unwrap();
        let receipt = fs::read(vectors().join(format!("{name}.receipt"))).unwrap();
        let head = proof::verify_text(&text, held, &keys).unwrap();
        assert_eq!(head.head().size, 7);
        assert_eq!(proof::verify_receipt(&receipt, held, &keys).unwrap(), head.head().root);
        assert!(proof::verify_text(&text, other, &keys).is_err());
        assert!(proof::verify_receipt(&receipt, other, &keys).is_err());
    }
}

/// The program that shares no code with this crate; how it is built is told in `tests/go_verifier.rs`.
fn verifier() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.join("vectors-verifier");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verifier/main.go"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOFLAGS", "")
        .env("GOCACHE", scratch.join("go-cache"))
        .output();
    let hint = "install Go and its checksum client: apt-get install golang-go golang-golang-x-mod-dev";
    let built = built.unwrap_or_else(|error| panic!("no Go tool ({error}); {hint}"));
    assert!(built.status.success(), "{hint}\n{}", String::from_utf8_lossy(&built.stderr));
    program
}

#[test]
fn a_verifier_that_is_not_ours_accepts_the_golden_log_and_refuses_another_key() {
    let program = verifier();
    let public = hex(Keys::new().log.public().as_bytes());
    let run = |key: &str, old: &str| {
        let mut command = Command::new(&program);
        command.current_dir(vectors()).args(["log", "log/vkey", "-statements", "-old", old, "-key", key]);
        command.args(["-proof", "1-plan-start.tlog-proof", "-entry", "statements/1-plan-start.cose"]);
        for receipt in ["receipt.cbor", "log/heads/000", "log/heads/001", "log/heads/002", "log/heads/005"] {
            command.args(["-receipt", receipt]);
        }
        command.output().unwrap()
    };
    let good = run(&public, "log/checkpoint");
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(good.stdout.starts_with(b"ok size=7 "));
    let other = hex(SigningKey::from_seed(&[9; 32]).public().as_bytes());
    assert_eq!(run(&other, "log/checkpoint").status.code(), Some(1));
    assert_eq!(run(&public, "log/vkey").status.code(), Some(1));
    assert_eq!(TIME, 1_764_500_000);

    // Both proofs must hold without the log too.
    let scratch = tempfile::tempdir().unwrap();
    let alone = |head: &str, entry: &str| {
        let old = scratch.path().join("old");
        let head = HeadFile::decode(&scene::write().files[head]).unwrap().head;
        fs::write(&old, head.as_str()).unwrap();
        let mut command = Command::new(&program);
        command.current_dir(vectors()).args(["-", "log/vkey", "-entry", entry, "-old"]).arg(&old);
        command.args(["-proof", "1-plan-start.tlog-proof", "-consistency", "2-to-7.consistency-proof"]);
        command.output().unwrap()
    };
    let good = alone("log/heads/001", "statements/1-plan-start.cose");
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert_eq!(good.stdout, b"ok\n");
    assert_eq!(alone("log/heads/002", "statements/1-plan-start.cose").status.code(), Some(1));
    assert_eq!(alone("log/heads/001", "statements/0-genesis.cose").status.code(), Some(1));
}
