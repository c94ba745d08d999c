//! Statements that nobody may make: planted among the pending ones, and inside a log that a key holder built.

use std::path::PathBuf;
use std::time::Duration;

use ledger::id::{StatementId, object_id, sha256, statement_id};
use ledger::ledger::{Home, Ledger};
use ledger::log::HeadFile;
use ledger::log::key::SigningKey;
use ledger::log::key_file::KeyFile;
use ledger::log::merkle::CompactRange;
use ledger::log::note::{SignedHead, TreeHead, sign_receipt};
use ledger::log::statement::{self, Claim, Payload, Seen};
use ledger::model::{Facts, Kind};

use crate::scene::{freeze, is_sound, project, root};
use crate::support::Person;

fn keys(person: &Person) -> KeyFile {
    KeyFile::parse(&std::fs::read_to_string(person.home.join(".config/ledger/keys/default.key")).unwrap())
        .unwrap()
}

fn open(person: &Person) -> Ledger {
    Ledger::open(&root(person), Home::default()).unwrap()
}

/// A remark by any key, which is in good form whatever it is worth.
fn remark(ledger: &Ledger, author: &SigningKey) -> Vec<u8> {
    let head = ledger.head().head();
    let seen = Some(Seen { size: head.size, root: head.root });
    let object = b"a remark";
    let claim = Claim {
        kind: Kind::Note.word().into(),
        object: object_id(object),
        sha256: sha256(object),
        size: object.len() as u64,
        links: Vec::new(),
        facts: Facts::None.encode().into(),
        prev: None,
    };
    let payload = Payload { ledger: Some(ledger.id()), seen, claims: vec![claim], req: None };
    let holder = ledger::id::HolderId::of_first_key(author.public().thumbprint());
    statement::sign(&payload, "note", holder, 1_764_500_000, author).unwrap()
}

/// Puts bytes where statements of this user wait.
fn plant(person: &Person, id: StatementId, bytes: &[u8]) -> PathBuf {
    let user = rustix::process::geteuid().as_raw().to_string();
    let dir = root(person).join("log/pending").join(user);
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(id.to_hex());
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Changes the last byte, which is one of the signature.
fn spoiled(mut bytes: Vec<u8>) -> Vec<u8> {
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes
}

fn indexed(person: &Person, id: StatementId) -> Option<String> {
    let document = person.json(&["-q", "entries"]);
    let entries = document["entries"].as_array().unwrap().clone();
    let found = entries.into_iter().find(|entry| entry["statement"] == id.to_hex());
    found.map(|entry| entry["standing"].as_str().unwrap().to_owned())
}

#[test]
fn a_pending_statement_with_a_bad_signature() {
    let (_world, kim) = project();
    let bytes = spoiled(remark(&open(&kim), keys(&kim).author()));
    let id = statement_id(&bytes);
    let path = plant(&kim, id, &bytes);
    let run = freeze(&kim);
    assert_eq!(indexed(&kim, id), None);
    assert!(!path.exists(), "it would be tried for ever");
    let user = rustix::process::geteuid().as_raw().to_string();
    let kept = root(&kim).join("log/refused").join(user).join(id.to_hex());
    assert_eq!(std::fs::read(kept).unwrap(), bytes, "what is refused is kept for whoever looks into it");
    is_sound(&kim, &[run]);
}

#[test]
fn a_pending_statement_by_an_unknown_key() {
    let (_world, kim) = project();
    let stranger = SigningKey::from_seed(&[9; 32]);
    let bytes = remark(&open(&kim), &stranger);
    let id = statement_id(&bytes);
    let path = plant(&kim, id, &bytes);
    let run = freeze(&kim);
    assert_eq!(indexed(&kim, id), None);
    assert!(path.exists(), "its key may be added yet");
    is_sound(&kim, &[run]);
}

#[test]
fn a_pending_statement_that_is_too_large() {
    let (_world, kim) = project();
    let mut bytes = remark(&open(&kim), keys(&kim).author());
    bytes.resize(statement::MAX_STATEMENT + 1, 0);
    let id = statement_id(&bytes);
    let _path = plant(&kim, id, &bytes);
    let run = freeze(&kim);
    assert_eq!(indexed(&kim, id), None);
    is_sound(&kim, &[run]);
}

#[test]
fn a_pending_statement_under_a_wrong_name() {
    let (_world, kim) = project();
    let bytes = remark(&open(&kim), keys(&kim).author());
    plant(&kim, statement_id(b"something else"), &bytes);
    let run = freeze(&kim);
    assert_eq!(indexed(&kim, statement_id(&bytes)), None);
    is_sound(&kim, &[run]);
}

#[test]
fn a_command_with_a_key_that_the_ledger_does_not_know() {
    let (world, kim) = project();
    let run = freeze(&kim);
    let eve = world.person("eve").with("PATH", "/usr/bin:/bin");
    eve.ok(&["key", "new"]);
    crate::scene::refuses(&eve, &crate::scene::FREEZE, 3, "unknown-key");
    assert!(!root(&kim).join("log/pending/0").read_dir().is_ok_and(|mut dir| dir.next().is_some()));
    is_sound(&kim, &[run]);
}

/// Puts statements into the log as somebody with the log key and without scruples could.
fn force(person: &Person, statements: Vec<Vec<u8>>, by: &SigningKey) -> HeadFile {
    let ledger = open(person);
    let head = ledger.head().head();
    let mut range = CompactRange::new();
    for index in 0..head.size as u32 {
        range.push(ledger.statement_id(index).unwrap());
    }
    for bytes in &statements {
        range.push(statement_id(bytes));
    }
    let size = head.size + statements.len() as u64;
    let note = TreeHead { origin: head.origin.clone(), size, root: range.root() };
    let file = HeadFile {
        extends: head.size,
        statements,
        head: SignedHead::sign(note, by).unwrap(),
        receipt: sign_receipt(range.root(), by),
    };
    assert!(matches!(ledger.log().commit(&file), Ok(ledger::durable::Commit::Won)));
    file
}

#[test]
fn a_logged_statement_with_a_bad_signature_is_rejected_by_every_reader() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let bytes = spoiled(remark(&open(&kim), keys(&kim).author()));
    let file = force(&kim, vec![bytes.clone()], keys(&kim).log().unwrap());
    open(&kim).log().apply(&file).unwrap();
    let standing = indexed(&kim, statement_id(&bytes)).unwrap();
    assert!(standing.starts_with("rejected:"), "{standing}");
    assert_eq!(kim.run(&["head"]).code, 0, "one bad statement does not close the ledger");
    is_sound(&kim, &[run]);
}

#[test]
fn a_logged_statement_by_an_unknown_key_is_rejected_by_every_reader() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let bytes = remark(&open(&kim), &SigningKey::from_seed(&[9; 32]));
    let file = force(&kim, vec![bytes.clone()], keys(&kim).log().unwrap());
    open(&kim).log().apply(&file).unwrap();
    let standing = indexed(&kim, statement_id(&bytes)).unwrap();
    assert!(standing.starts_with("rejected:"), "{standing}");
    is_sound(&kim, &[run]);
}

#[test]
fn a_commit_signed_by_a_stranger_is_not_finished() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let ledger = open(&kim);
    let bytes = remark(&ledger, keys(&kim).author());
    let file = force(&kim, vec![bytes.clone()], &SigningKey::from_seed(&[9; 32]));
    let said = kim.run(&crate::scene::FREEZE);
    said.fails(5, "damaged");
    assert!(said.stderr.contains("\nhint: "), "{said:?}");
    assert_eq!(indexed(&kim, statement_id(&bytes)), None);
    ledger.log().withdraw(file.extends).unwrap();
    is_sound(&kim, &[run]);
}

#[test]
fn a_statement_that_would_be_too_large_is_refused_before_it_is_written() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let text = "x".repeat(100_000);
    let long = ["-q", "record", "note", run.as_str(), "-m", text.as_str()];
    // A long remark is an object and no matter of the statement; a thousand links are.
    assert_eq!(kim.run(&long).code, 0);
    let mut args = vec!["-q".to_owned(), "freeze".to_owned()];
    for n in 0..1_001 {
        kim.lay(&format!("many/{n}"), n.to_string().as_bytes());
        args.extend(["--data".to_owned(), format!("role{n}=many/{n}")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    crate::scene::refuses(&kim, &args, 4, "refused");
    is_sound(&kim, &[run]);
}

#[test]
fn a_locked_log_is_busy_and_loses_nothing() {
    let (_world, kim) = project();
    let lock = {
        let ledger = open(&kim);
        ledger.durable().lock(std::path::Path::new("log/lock"), Duration::from_secs(5)).unwrap()
    };
    let said = kim.run(&["--lock-timeout", "0", "freeze", "-c", "config.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("queued: "), "{said:?}");
    let named = kim.run(&["--lock-timeout", "0", "freeze", "-c", "config.yaml", "--name", "n"]);
    named.fails(6, "busy");
    assert!(named.stderr.contains("\nhint: "), "{named:?}");
    drop(lock);
    is_sound(&kim, &[said.stdout.trim().to_owned()]);
}
