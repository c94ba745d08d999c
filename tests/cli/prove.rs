//! `prove`: what stands on standard output, which heads it can be had under, and when it is refused.
//!
//! Tools that are not ours judge the same files in `tests/foreign.sh`.

use ledger::id::{StatementId, TreeHash, statement_id};
use ledger::log::key::PublicKey;
use ledger::log::note::{SignedHead, parse_vkey};
use ledger::log::proof::{Held, verify_receipt, verify_text};

use crate::support::{Person, World};

fn keys(person: &Person) -> Vec<PublicKey> {
    let vkeys = person.ok(&["key", "export", "--vkey"]);
    vkeys.lines().map(|vkey| parse_vkey(vkey).unwrap().1).collect()
}

/// Runs a command that prints bytes.
fn bytes(person: &Person, args: &[&str]) -> Vec<u8> {
    let output = person.command(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn root(note: &str) -> TreeHash {
    SignedHead::parse(note).unwrap().head().root
}

#[test]
fn whatever_names_a_statement_gives_one_proof_that_holds() {
    let (_world, kim) = World::trained();
    let run = kim.ok(&["ls", "runs", "--ids"]);
    let text = kim.run(&["prove", &run, "--statement", "start.cose"]).stdout;
    let statement = std::fs::read(kim.project.join("start.cose")).unwrap();
    let id = statement_id(&statement);
    for name in [&run[..12], "base", "1", &id.to_hex()] {
        assert_eq!(kim.run(&["prove", name]).stdout, text, "{name}");
    }
    let document = kim.json(&["prove", "base"]);
    assert_eq!((&document["proof"], &document["index"]), (&text.clone().into(), &1.into()));
    assert_eq!(document["statement"], id.to_hex());

    let keys = keys(&kim);
    let head = verify_text(&text, Held::Statement(id), &keys).unwrap();
    assert_eq!(head.as_str(), kim.run(&["head", "--note"]).stdout);
    let other: StatementId = statement_id(b"another");
    assert!(verify_text(&text, Held::Statement(other), &keys).is_err());

    let receipt = bytes(&kim, &["prove", "base", "--receipt"]);
    assert_eq!(verify_receipt(&receipt, Held::Statement(id), &keys).unwrap(), head.head().root);
    assert!(verify_receipt(&receipt, Held::Statement(other), &keys).is_err());
    kim.ok(&["prove", "base", "--receipt", "-o", "out/start.receipt"]);
    assert_eq!(std::fs::read(kim.project.join("out/start.receipt")).unwrap(), receipt);
}

#[test]
fn a_newer_head_is_proven_to_continue_an_older_one() {
    let (_world, kim) = World::founded();
    let old = kim.run(&["head", "--note"]).stdout;
    kim.ok(&["freeze", "--no-code", "--", "true"]);
    let between = kim.run(&["head", "--note"]).stdout;
    kim.ok(&["freeze", "--no-code", "--", "false"]);
    let (keys, held) = (keys(&kim), Held::Root(root(&old)));
    let text = kim.run(&["prove", "--since", "1"]).stdout;
    assert!(text.starts_with("old 1\n"), "{text}");
    assert_eq!(verify_text(&text, held, &keys).unwrap().head().size, 3);
    assert!(verify_text(&text, Held::Root(root(&between)), &keys).is_err());
    let receipt = bytes(&kim, &["prove", "--since", "1", "--receipt"]);
    let newest = kim.run(&["head", "--note"]).stdout;
    assert_eq!(verify_receipt(&receipt, held, &keys).unwrap(), root(&newest));
    let earlier = kim.run(&["prove", "--since", "1", "--at", "2"]).stdout;
    assert!(earlier.ends_with(&between), "{earlier}");
}

#[test]
fn what_cannot_be_proven_is_told_apart() {
    let (_world, kim) = World::founded();
    kim.ok(&["freeze", "--no-code", "--", "true"]);
    kim.run(&["prove", "--since", "3"]).fails(3, "no-head");
    kim.run(&["prove", "0", "--at", "3"]).fails(3, "no-head");
    kim.run(&["prove", "1", "--at", "1"]).fails(3, "no-head");
    kim.run(&["prove", "2"]).fails(3, "no-such-id");
    kim.run(&["prove", "nothing"]).fails(3, "no-such-id");
    kim.run(&["prove", "--since", "0", "--receipt"]).fails(2, "usage");
    kim.run(&["prove"]).fails(2, "usage");
    kim.run(&["prove", "0", "--since", "1"]).fails(2, "usage");
    kim.run(&["prove", "0", "-o", "/dev/null"]).fails(2, "usage");
    assert!(!std::path::Path::new("/dev/null").is_file());

    // A commit that was cleared away takes its receipt signature along; the text form needs none.
    std::fs::remove_file(kim.project.join(".ledger/log/heads/001")).unwrap();
    kim.run(&["prove", "0", "--receipt"]).fails(3, "no-receipt");
    kim.ok(&["prove", "0"]);
    // One that is not what the log says is not believed.
    let heads = kim.project.join(".ledger/log/heads");
    std::fs::rename(heads.join("000"), heads.join("001")).unwrap();
    kim.run(&["prove", "0", "--receipt"]).fails(5, "damaged");
}
