//! Bare `ledger`, `hash`, `head`, `entries`, `cat`, and what every command does with its streams.

use std::io::{Write as _, pipe};
use std::process::Stdio;

use crate::support::{Person, World};

#[test]
fn bare_ledger_tells_where_you_are() {
    let (_world, kim) = World::founded();
    kim.run(&[]).matches("status");
    let document = kim.json(&[]);
    assert_eq!(document["schema"], "ledger.status/1");
    assert_eq!(document["size"], 1);
    assert_eq!(document["last_run"], serde_json::Value::Null);
    let lost = kim.with("LEDGER_RUN", "run:0123456789");
    assert!(lost.ok(&[]).contains("run      run:0123456789  not in this ledger"));
    let nobody = kim.without("HOME");
    assert!(nobody.ok(&[]).contains("you      nobody"));
}

#[test]
fn outside_of_a_ledger_the_way_in_is_named() {
    let world = World::new();
    let kim = world.person("kim");
    kim.run(&[]).matches("not-a-ledger");
    for args in [&["head"][..], &["entries"], &["cat", "run:123456"], &["sequence"], &["key", "ls"]] {
        kim.run(args).fails(3, "not-a-ledger");
    }
    let document = kim.json(&["head"]);
    assert_eq!(document["schema"], "ledger.error/1");
    assert_eq!(document["findings"][0]["hint"], "ledger init");
}

#[test]
fn a_ledger_is_found_upwards_and_by_name() {
    let (world, kim) = World::founded();
    let deep = kim.project.join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let head = kim.ok(&["head"]);
    assert_eq!(kim.at(&deep).ok(&["head"]), head);
    assert_eq!(kim.at(&kim.home).ok(&["-C", "../project/a", "head"]), head);
    let away = world.person("lee").at(&kim.home);
    away.run(&["head"]).fails(3, "not-a-ledger");
    for dir in [kim.project.join(".ledger"), kim.project.clone()] {
        assert_eq!(away.with("LEDGER_DIR", dir.to_str().unwrap()).ok(&["head"]), head);
    }
    away.with("LEDGER_DIR", "../nowhere").run(&["head"]).fails(3, "not-a-ledger");
}

#[test]
fn a_newer_format_is_not_guessed_at() {
    let (_world, kim) = World::founded();
    let format = kim.project.join(".ledger/format");
    std::fs::remove_file(&format).unwrap();
    std::fs::write(&format, "ledger-format/2\n").unwrap();
    kim.run(&["head"]).fails(3, "newer-format");
}

#[test]
fn digests_are_those_of_other_tools() {
    let world = World::new();
    let kim = world.person("kim");
    kim.lay("abc", b"abc");
    // The published vectors of both hash functions.
    let blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(kim.ok(&["hash", "abc"]), format!("{blake3}  abc"));
    let all = kim.ok(&["hash", "--digests", "all", "abc"]);
    assert_eq!(all, format!("blake3:{blake3}  abc\nsha256:{sha256}  abc"));
    let document = kim.json(&["hash", "--digests", "all", "abc"]);
    assert_eq!((&document["blake3"], &document["sha256"]), (&blake3.into(), &sha256.into()));
    assert_eq!(document["size"], 3);
    kim.run(&["hash", "nothing"]).fails(2, "bad-data");
    assert!(!kim.project.join(".ledger").exists());
}

#[test]
fn a_directory_has_the_digest_of_its_names_and_bytes() {
    let world = World::new();
    let kim = world.person("kim");
    for dir in ["one", "two", "three"] {
        kim.lay(&format!("{dir}/a/b"), b"abc");
    }
    kim.lay("three/a/c", b"");
    let digest = |dir: &str| kim.ok(&["hash", dir]).split(' ').next().unwrap().to_owned();
    assert!(digest("one").starts_with("tree:"));
    assert_eq!(digest("one"), digest("two"));
    assert_ne!(digest("one"), digest("three"));
    assert_eq!(kim.json(&["hash", "three"])["files"].as_array().unwrap().len(), 2);
}

#[test]
fn tensors_are_listed_one_by_one() {
    let world = World::new();
    let kim = world.person("kim");
    let header = br#"{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}   "#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(b"abc");
    kim.lay("m/model.safetensors", &file);
    let whole = kim.json(&["hash", "--tensors", "m/model.safetensors"]);
    assert_eq!(whole["tensors"].as_array().unwrap().len(), 1);
    let tensor = &whole["tensors"][0];
    assert_eq!((&tensor["name"], &tensor["dtype"]), (&"b".into(), &"U8".into()));
    assert_eq!(tensor["shape"], serde_json::json!([3]));
    assert_eq!(tensor["blake3"], "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    assert_eq!(kim.json(&["hash", "--tensors", "m"])["id"], whole["id"]);
    kim.lay("m/model.safetensors", &file[..file.len() - 1]);
    let cut = kim.run(&["hash", "--tensors", "m"]);
    cut.fails(2, "bad-data");
    assert!(cut.stderr.contains("model.safetensors"), "{cut:?}");
}

#[test]
fn the_head_is_the_note_that_lies_in_the_log() {
    let (_world, kim) = World::founded();
    kim.run(&["head"]).matches("head");
    let note = kim.run(&["head", "--note"]).stdout;
    assert_eq!(note, std::fs::read_to_string(kim.project.join(".ledger/log/checkpoint")).unwrap());
    let document = kim.json(&["head"]);
    assert_eq!(document["note"], note);
    assert_eq!(document["ledger"], document["root"], "the first head's root is the ledger's id");
}

#[test]
fn entries_come_as_lines_rows_and_one_document() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    kim.ok(&["key", "add", &lee.ok(&["key", "show", "--request"])]);
    assert_eq!(kim.ok(&["entries"]).lines().count(), 2);
    assert_eq!(kim.ok(&["entries", "--from", "1"]).lines().count(), 1);
    assert_eq!(kim.ok(&["entries", "--from", "9"]), "");
    let rows = kim.ok(&["entries", "--jsonl"]);
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["claims"][0]["kind"], "key");
    let document = kim.json(&["entries"]);
    assert_eq!(document["entries"], serde_json::Value::Array(rows));
    assert_eq!(kim.json(&["entries", "--from", "9"])["entries"], serde_json::json!([]));
}

#[test]
fn cat_prints_the_bytes_and_nothing_else() {
    let (_world, kim) = World::founded();
    let rows = kim.json(&["entries"]);
    let id = rows["entries"][0]["claims"][0]["id"].as_str().unwrap().to_owned();
    let output = kim.command(&["cat", &id]).output().unwrap();
    assert!(output.status.success());
    kim.lay("copy", &output.stdout);
    let digest = kim.ok(&["hash", "copy"]);
    let hex = id.split(':').nth(1).unwrap();
    assert!(digest.starts_with(hex), "{digest}");
    for name in [hex, &id[.."genesis:".len() + 8]] {
        assert_eq!(kim.command(&["cat", name]).output().unwrap().stdout, output.stdout);
    }
    assert_eq!(kim.json(&["cat", &id])["size"], output.stdout.len());
    kim.run(&["cat", "genesis:000000"]).fails(3, "no-such-id");
    kim.run(&["cat", &"0".repeat(64)]).fails(3, "no-such-id");

    // Bytes that are not the object's are not printed at all.
    let path = kim.project.join(".ledger/objects").join(&hex[..2]).join(&hex[2..]);
    let mut damaged = output.stdout.clone();
    damaged[0] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, damaged).unwrap();
    kim.run(&["cat", hex]).fails(5, "damaged");
}

/// Runs a command whose standard output nobody reads any more.
fn unread(person: &Person, args: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let output = person.command(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_is_exit_141_without_a_word() {
    let (_world, kim) = World::founded();
    kim.lay("abc", b"abc");
    let id = kim.json(&["entries"])["entries"][0]["claims"][0]["id"].as_str().unwrap().to_owned();
    for args in [
        &["head"][..],
        &["head", "--note"],
        &["entries"],
        &["entries", "--jsonl"],
        &["--json", "entries"],
        &["hash", "abc"],
        &["cat", &id],
        &["key", "ls"],
        &["key", "export", "--vkey"],
        &["sequence"],
        &["--help"],
        &["key", "-h"],
        &["help", "--all"],
        &["--version"],
        &["--json", "cat", "run:000000"],
        &["--json", "--nope"],
        &[],
    ] {
        assert_eq!(unread(&kim, args), (Some(141), String::new()), "{args:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_not_a_success() {
    let (_world, kim) = World::founded();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [&["head"][..], &["entries"], &["--json", "head"]] {
        let output = kim.command(args).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no space is left"), "{args:?}");
    }
}

#[test]
fn quiet_and_verbose_change_talk_only() {
    let (_world, kim) = World::founded();
    let inner = kim.project.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let output = kim.at(&inner).run(&["-q", "init"]);
    assert_eq!((output.code, output.stderr.as_str(), output.stdout.len()), (0, "", 65));
    assert_eq!(kim.ok(&["-vv", "head"]), kim.ok(&["head"]));
}

#[test]
fn colour_is_for_terminals_and_for_who_asks() {
    let (_world, kim) = World::founded();
    let colours = |person: &Person, args: &[&str]| person.run(args).stderr.contains('\x1b');
    assert!(!colours(&kim, &["nope"]));
    assert!(!colours(&kim, &["cat", "run:000000"]));
    assert!(colours(&kim, &["--color", "always", "cat", "run:000000"]));
    assert!(colours(&kim.with("CLICOLOR_FORCE", "1"), &["cat", "run:000000"]));
    assert!(!colours(&kim.with("CLICOLOR_FORCE", "1").with("NO_COLOR", "1"), &["cat", "run:000000"]));
}

#[test]
fn a_request_can_come_by_standard_input() {
    let (world, kim) = World::founded();
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    let line = lee.ok(&["key", "show", "--request"]);
    let mut adding = kim.command(&["key", "add", "-"]);
    let mut child = adding.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(line.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(kim.json(&["key", "ls"])["keys"].as_array().unwrap().len(), 4);
}
