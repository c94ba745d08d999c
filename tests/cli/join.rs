//! How a second user joins, what a stranger cannot do, and how keys end.

use crate::support::{Person, World};

fn request(person: &Person) -> String {
    person.ok(&["key", "show", "--request"])
}

fn thumbprint(person: &Person) -> String {
    person.json(&["key", "show"])["author"]["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_second_user_joins_by_request_add_and_trust() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.run(&["key", "show", "--request"]).fails(3, "no-key");
    lee.run(&["key", "new"]).matches("join/new");
    lee.run(&[]).matches("join/stranger");
    let line = request(&lee);
    assert_eq!(line.lines().count(), 1);
    assert!(line.starts_with("ledger-key-request/1 "), "{line}");

    kim.run(&["key", "add", &line]).matches("join/add");
    kim.run(&["key", "ls"]).matches("join/ls");
    kim.run(&["entries"]).matches("join/entries");
    lee.run(&["key", "show"]).matches("join/show");
    lee.run(&[]).matches("join/member");

    let id = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    lee.run(&["key", "trust", &id]).matches("join/trust");
    let trust = std::fs::read_to_string(lee.home.join(".config/ledger/trust.toml")).unwrap();
    lee.ok(&["key", "trust", &id]);
    assert_eq!(std::fs::read_to_string(lee.home.join(".config/ledger/trust.toml")).unwrap(), trust);
    lee.run(&["key", "trust", &id[..12]]).fails(2, "usage");
}

#[test]
fn adding_again_says_nothing_new_and_other_roles_are_a_change() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    let line = request(&lee);
    // A shell splits what was not quoted.
    let words: Vec<&str> = line.split(' ').collect();
    kim.ok(&["key", "add", words[0], words[1]]);
    let size = kim.json(&["head"])["size"].clone();
    let again = kim.run(&["key", "add", &line]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("nothing was written"), "{again:?}");
    assert_eq!(kim.json(&["head"])["size"], size);
    kim.ok(&["key", "add", &line, "--roles", "author,reviewer,log"]);
    assert_eq!(lee.json(&["key", "show"])["author"]["roles"], serde_json::json!(["author", "reviewer"]));
    assert_eq!(lee.json(&["key", "show"])["log"]["roles"], serde_json::json!(["log"]));
}

#[test]
fn only_an_owner_adds_keys() {
    let (world, kim) = World::founded();
    let (lee, eve) = (world.person("lee"), world.person("eve"));
    lee.ok(&["key", "new"]);
    eve.ok(&["key", "new"]);
    let (of_lee, of_eve) = (request(&lee), request(&eve));
    kim.ok(&["key", "add", &of_lee]);
    let size = kim.json(&["head"])["size"].clone();
    let stranger = eve.run(&["key", "add", &of_eve]);
    stranger.fails(3, "unknown-key");
    stranger.matches("join/unknown-key");
    let author = lee.run(&["key", "add", &of_eve, "--roles", "owner,author"]);
    author.fails(4, "refused");
    author.matches("join/role-not-allowed");
    assert_eq!(kim.json(&["head"])["size"], size);
    assert_eq!(kim.json(&[])["queued"], serde_json::json!([]));
}

#[test]
fn a_request_that_was_changed_or_is_of_elsewhere_is_refused() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    let line = request(&lee);
    let at = "ledger-key-request/1 ".len();
    // Every byte of it counts: keys, proofs, ledger and name, and where a change still decodes, the proof fails.
    let mut refused = 0;
    for offset in (at..line.len() - 2).step_by(7) {
        let mut bytes = line.clone().into_bytes();
        bytes[offset] = if bytes[offset] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        let output = kim.run(&["key", "add", &changed]);
        if output.code == 0 {
            // The display name alone is not part of a proof; the owner reads it before adding.
            assert!(!output.stderr.contains("added lee;"), "{output:?}");
        } else {
            output.fails(2, "bad-data");
            refused += 1;
        }
    }
    assert!(refused > 30, "{refused}");

    let elsewhere = kim.project.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = kim.at(&elsewhere);
    there.ok(&["init"]);
    let foreign = lee.at(&elsewhere).ok(&["key", "show", "--request"]);
    kim.run(&["key", "add", &foreign]).fails(2, "bad-data");
    for line in
        ["", "hello", "ledger-key-request/2 AAAA", "ledger-key-request/1", "ledger-key-request/1 AAAA"]
    {
        kim.run(&["key", "add", line]).fails(2, "bad-data");
    }
    for roles in ["log", "", "boss", "recovery,author"] {
        kim.run(&["key", "add", &line, "--roles", roles]).fails(2, "usage");
    }
}

#[test]
fn without_a_log_key_a_statement_waits_for_somebody_who_has_one() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    kim.ok(&["key", "add", &request(&lee), "--roles", "author"]);
    let waiting = lee.run(&["key", "revoke", &thumbprint(&lee)[..10]]);
    waiting.fails(6, "busy");
    waiting.matches("join/queued");
    kim.run(&[]).matches("join/queued-status");
    assert_eq!(kim.json(&[])["queued"].as_array().unwrap().len(), 1);
    lee.run(&["sequence"]).matches("join/sequence-without-log-key");
    assert_eq!(kim.ok(&["sequence"]), "1");
    // Both are one Unix user here, and whoever comes first is told.
    let told = kim.run(&["sequence"]);
    assert_eq!((told.code, told.stdout.as_str()), (0, "0\n"), "{told:?}");
    assert!(told.stderr.contains("is in the log"), "{told:?}");
    assert_eq!(kim.json(&[])["queued"], serde_json::json!([]));
    assert_eq!(lee.json(&["key", "show"])["author"]["roles"], serde_json::json!([]));
}

#[test]
fn a_revoked_key_says_nothing_more() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    kim.ok(&["key", "add", &request(&lee), "--roles", "owner,author,log"]);
    let key = thumbprint(&lee);
    kim.run(&["key", "revoke", &key[..10]]).matches("join/revoke");
    let again = kim.run(&["key", "revoke", &key]);
    assert_eq!(again.code, 0, "{again:?}");
    let eve = world.person("eve");
    eve.ok(&["key", "new"]);
    lee.run(&["key", "add", &request(&eve)]).fails(4, "refused");
    kim.run(&["key", "revoke", "000000"]).fails(3, "no-such-id");
    kim.run(&["key", "revoke", "0"]).fails(2, "usage");
    // The last owner cannot lock everybody out.
    kim.run(&["key", "revoke", &thumbprint(&kim)]).fails(4, "refused");
}

#[test]
fn exports_are_what_others_need() {
    let (_world, kim) = World::founded();
    let vkey = kim.ok(&["key", "export", "--vkey"]);
    assert!(vkey.starts_with("lineage-ledger/") && vkey.matches('+').count() >= 2, "{vkey}");
    let trust = kim.ok(&["key", "export", "--trust"]);
    assert!(trust.starts_with("format = \"ledger-trust/1\"\n"), "{trust}");
    kim.run(&["key", "export"]).fails(2, "usage");
    kim.run(&["key", "export", "--vkey", "--trust"]).fails(2, "usage");
}
