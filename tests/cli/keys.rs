//! Keys for people: passphrases, keys of other programs, rotation, and what becomes of what a thief signed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{LEDGER, Output, Person, World};

fn key_path(person: &Person) -> PathBuf {
    person.home.join(".config/ledger/keys/default.key")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn request(person: &Person) -> String {
    person.ok(&["key", "show", "--request"])
}

fn thumbprint(person: &Person, which: &str) -> String {
    person.json(&["key", "show"])[which]["key"].as_str().unwrap().to_owned()
}

/// Makes somebody a member with an author and a log key.
fn member(world: &World, owner: &Person, name: &str) -> Person {
    let person = world.person(name);
    person.ok(&["key", "new"]);
    owner.ok(&["key", "add", &request(&person)]);
    let id = owner.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    person.ok(&["key", "trust", &id]);
    person
}

/// Records weights of their own and returns the size of the log after it.
fn record(person: &Person, name: &str) -> u64 {
    person.lay(&format!("out/{name}/model.safetensors"), &crate::support::safetensors(name.len() as f32));
    person.ok(&["record", "checkpoint", &format!("out/{name}"), "--run", "none"]);
    person.json(&["head"])["size"].as_u64().unwrap()
}

/// Returns the id of what lies at a path.
fn id_at(person: &Person, path: &str) -> String {
    person.json(&["show", path])["id"].as_str().unwrap().to_owned()
}

/// Runs a tool of somebody else's; `None` where it is not installed.
fn tool(program: &str, args: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

#[test]
fn a_sealed_key_signs_with_its_passphrase_and_is_shown_without() {
    let world = World::new();
    let kim = world.person("kim");
    let open = kim.with("LEDGER_PASSPHRASE", "correct horse");
    open.ok(&["key", "new", "--passphrase"]);
    open.ok(&["init"]);
    let file = text(&key_path(&kim));
    assert!(file.contains("\nauthor-sealed ") && file.contains("\nlog-sealed "), "{file}");
    assert!(!file.contains("\nauthor "), "{file}");

    let shown = kim.json(&["key", "show"]);
    assert_eq!(shown["sealed"], true);
    assert_eq!(kim.json(&["key", "ls"])["keys"][0]["sealed"], true);
    assert!(kim.ok(&[]).contains("you      kim (owner"), "the bare command asks nothing");

    let locked = kim.run(&["record", "dataset", "ledger.toml", "--name", "d"]);
    locked.fails(3, "locked-key");
    locked.never_says("correct");
    let wrong = kim.with("LEDGER_PASSPHRASE", "correct horsf").run(&["key", "show", "--request"]);
    wrong.fails(3, "wrong-passphrase");
    wrong.never_says("horsf").never_says("author").never_says("log key");
    // Set and empty is an empty passphrase, which is not this one.
    kim.with("LEDGER_PASSPHRASE", "").run(&["key", "show", "--request"]).fails(3, "wrong-passphrase");

    assert_eq!(request(&open), {
        let file = kim.lay("pass", b"correct horse\r\nsecond line\n");
        kim.ok(&["--passphrase-file", file.to_str().unwrap(), "key", "show", "--request"])
    });
    kim.run(&["--passphrase-file", "nowhere", "key", "show", "--request"]).fails(3, "locked-key");
    // The whole file in a variable is sealed, too.
    let in_variable = open.with("LEDGER_KEY", &file);
    assert_eq!(request(&in_variable), request(&open));
}

#[test]
fn a_passphrase_is_changed_and_taken_away() {
    let world = World::new();
    let kim = world.person("kim");
    kim.ok(&["key", "new"]);
    let before = text(&key_path(&kim));
    assert_eq!(
        kim.json(&["key", "show"])["sealed"],
        false,
        "without a terminal and a passphrase there is none"
    );
    kim.run(&["key", "passphrase"]).fails(3, "locked-key");
    assert_eq!(text(&key_path(&kim)), before);
    let one = kim.lay("one", b"first\n");
    kim.ok(&["key", "passphrase", "--new-file", one.to_str().unwrap()]);
    assert_eq!(kim.json(&["key", "show"])["sealed"], true);
    let two = kim.lay("two", b"second\n");
    kim.run(&["key", "passphrase", "--new-file", two.to_str().unwrap()]).fails(3, "locked-key");
    let with_one = kim.with("LEDGER_PASSPHRASE", "first");
    with_one.ok(&["key", "passphrase", "--new-file", two.to_str().unwrap()]);
    with_one.run(&["key", "passphrase", "--remove"]).fails(3, "wrong-passphrase");
    kim.with("LEDGER_PASSPHRASE", "second").ok(&["key", "passphrase", "--remove"]);
    assert_eq!(text(&key_path(&kim)), before, "the keys are what they were");
    kim.run(&["key", "new", "--passphrase", "--no-passphrase"]).fails(2, "usage");
    let other = world.person("other");
    other.run(&["key", "new", "--passphrase"]).fails(3, "locked-key");
    assert!(!key_path(&other).exists());
    // An empty passphrase that was set is one; a flag says that none is meant.
    other.with("LEDGER_PASSPHRASE", "x").ok(&["key", "new", "--no-passphrase"]);
    assert_eq!(other.json(&["key", "show"])["sealed"], false);
}

#[test]
fn openssl_opens_a_sealed_seed() {
    let world = World::new();
    let kim = world.person("kim").with("LEDGER_PASSPHRASE", "correct horse");
    kim.ok(&["key", "new"]);
    let file = text(&key_path(&kim));
    let sealed = file.lines().find_map(|line| line.strip_prefix("author-sealed ")).unwrap();
    let public = file.lines().find_map(|line| line.strip_prefix("author-public ")).unwrap();
    let pem =
        format!("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{sealed}\n-----END ENCRYPTED PRIVATE KEY-----\n");
    // PEM has lines of 64 characters.
    let mut folded = String::new();
    for line in pem.lines() {
        for part in line.as_bytes().chunks(64) {
            folded.push_str(std::str::from_utf8(part).unwrap());
            folded.push('\n');
        }
    }
    let path = kim.lay("sealed.pem", folded.as_bytes());
    let args = [
        "pkey",
        "-in",
        path.to_str().unwrap(),
        "-passin",
        "pass:correct horse",
        "-pubout",
        "-outform",
        "DER",
    ];
    let Some(der) = tool("openssl", &args) else { return };
    let key = ledger::log::key::unbase64(public).unwrap();
    assert!(der.ends_with(&key), "OpenSSL sees another key");
    // What OpenSSL reads we read again, under the same passphrase.
    let again = kim.with("LEDGER_KEY_FILE", "again.key");
    again.ok(&["key", "import", path.to_str().unwrap()]);
    assert_eq!(thumbprint(&again, "author"), thumbprint(&kim, "author"));
    assert_ne!(thumbprint(&again, "log"), thumbprint(&kim, "log"));
}

#[test]
fn keys_of_other_programs_become_author_keys() {
    let world = World::new();
    let kim = world.person("kim");
    let at = |name: &str| kim.project.join(name).to_str().unwrap().to_owned();
    let ssh = |name: &str, kind: &str, phrase: &str| {
        tool("ssh-keygen", &["-q", "-t", kind, "-N", phrase, "-C", "kim@lab", "-f", &at(name)]).is_some()
    };
    if ssh("plain", "ed25519", "") && ssh("sealed", "ed25519", "pp") && ssh("ecdsa", "ecdsa", "") {
        let mine = kim.with("LEDGER_KEY_FILE", "plain.key");
        mine.ok(&["key", "import", "plain"]);
        let line = mine.ok(&["key", "export", "--ssh"]);
        assert_eq!(line, text(&kim.project.join("plain.pub")).trim_end(), "the public line is the same");
        assert_eq!(mine.json(&["key", "show"])["sealed"], false);
        mine.run(&["key", "import", "plain"]).fails(4, "exists");

        let sealed = kim.with("LEDGER_KEY_FILE", "sealed.key");
        sealed.run(&["key", "import", "sealed"]).fails(3, "locked-key");
        sealed.with("LEDGER_PASSPHRASE", "qq").run(&["key", "import", "sealed"]).fails(3, "wrong-passphrase");
        assert!(!kim.project.join("sealed.key").exists());
        sealed.with("LEDGER_PASSPHRASE", "pp").ok(&["key", "import", "sealed", "--name", "Kim"]);
        let shown = sealed.json(&["key", "show"]);
        assert_eq!((&shown["sealed"], &shown["name"]), (&true.into(), &"Kim".into()));

        let other = kim.with("LEDGER_KEY_FILE", "ecdsa.key").run(&["key", "import", "ecdsa"]);
        other.fails(2, "not-ed25519");
        assert!(other.stderr.contains("a key of ECDSA"), "{other:?}");
        // Every file that is cut short is refused, and makes none.
        let whole = text(&kim.project.join("plain"));
        for end in (0..whole.len() - 40).step_by(37) {
            kim.lay("cut", &whole.as_bytes()[..end]);
            let cut = kim.with("LEDGER_KEY_FILE", "cut.key").run(&["key", "import", "cut"]);
            cut.fails(2, "bad-data");
        }
        assert!(!kim.project.join("cut.key").exists());
    }
    let pem = |name: &str, more: &[&str]| {
        let out = at(name);
        tool("openssl", &[&["genpkey", "-out", &out][..], more].concat()).is_some()
    };
    let sealed = ["-algorithm", "ed25519", "-aes256", "-pass", "pass:pp"];
    if pem("plain.pem", &["-algorithm", "ed25519"])
        && pem("sealed.pem", &sealed)
        && pem("x.pem", &["-algorithm", "x25519"])
    {
        let mine = kim.with("LEDGER_KEY_FILE", "pem.key");
        mine.ok(&["key", "import", "plain.pem"]);
        assert_eq!(mine.json(&["key", "show"])["name"], "kim");
        let other = kim.with("LEDGER_KEY_FILE", "pem2.key").with("LEDGER_PASSPHRASE", "pp");
        other.ok(&["key", "import", "sealed.pem", "--no-passphrase"]);
        assert_eq!(other.json(&["key", "show"])["sealed"], false);
        let wrong = kim.with("LEDGER_KEY_FILE", "x.key").run(&["key", "import", "x.pem"]);
        wrong.fails(2, "not-ed25519");
        assert!(wrong.stderr.contains("X25519"), "{wrong:?}");
    }
    kim.run(&["key", "import", "nowhere"]).fails(2, "bad-data");
    kim.lay("text", b"not a key\n");
    kim.run(&["key", "import", "text"]).fails(2, "bad-data");
    kim.run(&["key", "import", "."]).fails(5, "damaged");
}

/// Runs a command on a terminal of its own, typing lines into it.
fn on_a_terminal(person: &Person, args: &[&str], typed: &str) -> Option<Output> {
    use std::io::Write as _;
    let quoted: Vec<String> = [LEDGER].iter().chain(args).map(|word| format!("'{word}'")).collect();
    let whole = person.command(&[]);
    let mut script = Command::new("script");
    script.args(["-qec", &quoted.join(" "), "/dev/null"]).current_dir(&person.project).env_clear();
    script.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.env("PATH", std::env::var_os("PATH")?).env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    // What is typed before the question is dropped by the terminal, so it comes a little later, line by line.
    for line in typed.lines() {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        stdin.write_all(format!("{line}\n").as_bytes()).ok()?;
        stdin.flush().ok()?;
    }
    drop(stdin);
    Some(person.said(child.wait_with_output().ok()?))
}

#[test]
fn a_terminal_is_asked_and_shows_nothing_of_the_answer() {
    let world = World::new();
    let kim = world.person("kim");
    let Some(made) = on_a_terminal(&kim, &["key", "new"], "Sesame1\nSesame1\n") else { return };
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.stdout.contains("new passphrase (empty for none): "), "{made:?}");
    made.never_says("Sesame1");
    assert_eq!(kim.json(&["key", "show"])["sealed"], true);
    kim.with("LEDGER_PASSPHRASE", "Sesame1").ok(&["init"]);
    let asked = on_a_terminal(&kim, &["key", "show", "--request"], "Sesame1\n").unwrap();
    assert_eq!(asked.code, 0, "{asked:?}");
    assert!(asked.stdout.contains("ledger-key-request/1 "), "{asked:?}");
    asked.never_says("Sesame1");
    let wrong = on_a_terminal(&kim, &["key", "show", "--request"], "Sesame2\n").unwrap();
    assert_eq!(wrong.code, 3, "{wrong:?}");
    let other = world.person("other");
    let differ = on_a_terminal(&other, &["key", "new"], "one\ntwo\n").unwrap();
    assert_eq!(differ.code, 2, "{differ:?}");
    assert!(!key_path(&other).exists(), "no key is kept under a passphrase that nobody typed twice");
}

#[test]
fn an_owner_rotates_in_one_statement() {
    let (world, kim) = World::founded();
    let lee = member(&world, &kim, "lee");
    let (author, log) = (thumbprint(&kim, "author"), thumbprint(&kim, "log"));
    let old = text(&key_path(&kim));
    let before = kim.json(&["head"])["size"].as_u64().unwrap();
    let rotated = kim.json(&["key", "rotate"]);
    assert_eq!(rotated["index"], before);
    assert_eq!(kim.json(&["head"])["size"], before + 1);
    assert_eq!(text(Path::new(rotated["kept"].as_str().unwrap())), old, "the old file is kept");
    assert_ne!(thumbprint(&kim, "author"), author);
    let shown = kim.json(&["key", "show"]);
    assert_eq!(shown["author"]["roles"].as_array().unwrap().len(), 5);
    assert_eq!(shown["log"]["roles"], serde_json::json!(["log"]));
    assert_eq!(shown["holder"], format!("h:{author}"), "the holder is who it was");
    let keys = kim.json(&["key", "ls"]);
    let roles = |id: &str| {
        let all = keys["keys"].as_array().unwrap();
        all.iter().find(|row| row["key"] == id).unwrap()["roles"].as_array().unwrap().len()
    };
    assert_eq!((roles(&author), roles(&log)), (0, 0));
    // The old key says nothing more, the new one does, and so does everybody else.
    let kept = rotated["kept"].as_str().unwrap();
    kim.run(&["--key-file", kept, "key", "add", &request(&lee), "--roles", "author,reviewer"])
        .fails(4, "refused");
    kim.ok(&["key", "add", &request(&lee), "--roles", "author,reviewer,log"]);
    record(&lee, "a");
    assert_eq!(kim.run(&["fsck"]).code, 0);
}

#[test]
fn an_author_rotates_with_an_owners_help() {
    let (world, kim) = World::founded();
    let lee = member(&world, &kim, "lee");
    let author = thumbprint(&lee, "author");
    let line = lee.ok(&["key", "rotate"]);
    assert_eq!(lee.ok(&["key", "rotate"]), line, "a rotation that was begun is gone on with");
    assert_eq!(thumbprint(&lee, "author"), author, "nothing has changed yet");
    // Nobody becomes somebody else's second key by asking for it.
    let eve = world.person("eve");
    eve.ok(&["key", "new"]);
    for at in (30..line.len() - 2).step_by(41) {
        let mut bytes = line.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let output = kim.run(&["key", "add", &String::from_utf8(bytes).unwrap()]);
        assert!(output.code == 2 || !output.stderr.contains("added lee;"), "{at}: {output:?}");
    }
    kim.ok(&["key", "add", &line]);
    lee.ok(&["key", "rotate"]);
    let shown = lee.json(&["key", "show"]);
    assert_ne!(shown["author"]["key"], author);
    assert_eq!(shown["author"]["roles"], serde_json::json!(["author"]));
    assert_eq!(shown["holder"], format!("h:{author}"));
    let keys = kim.json(&["key", "ls"]);
    let old =
        keys["keys"].as_array().unwrap().iter().find(|row| row["key"] == author.as_str()).unwrap().clone();
    assert_eq!(old["roles"], serde_json::json!([]));
    record(&lee, "a");
}

#[test]
fn a_mark_taints_what_came_since_and_nothing_before() {
    let (world, kim) = World::founded();
    let lee = member(&world, &kim, "lee");
    let since = record(&lee, "a");
    record(&lee, "bb");
    let key = thumbprint(&lee, "author");
    let at = since.to_string();
    kim.run(&["key", "revoke", &key, "--compromised-since", &at]).fails(2, "usage");
    kim.run(&["key", "revoke", &key, "--reason", "x"]).fails(2, "usage");
    kim.run(&["key", "revoke", &key, "--compromised-since", "999", "--reason", "x"]).fails(2, "usage");
    kim.run(&["key", "revoke", &key, "--compromised-since", "soon", "--reason", "x"]).fails(2, "usage");
    assert_eq!(kim.run(&["verify", "out/bb"]).code, 0);
    let words = ["key", "revoke", &key, "--compromised-since", &at, "--reason", "laptop stolen"];
    let revoked = kim.json(&words);
    assert_eq!(revoked["tainted"], serde_json::json!([since]));
    assert!(kim.run(&words).stderr.contains("nothing was written"));

    let before = kim.run(&["verify", "out/a"]);
    assert_eq!(before.code, 0, "{before:?}");
    before.matches("keys/before-the-mark");
    let since = kim.run(&["verify", "out/bb"]);
    assert_eq!(since.code, 1, "{since:?}");
    since.matches("keys/since-the-mark");
    kim.run(&["show", "out/bb"]).matches("keys/show");
    kim.run(&["key", "ls"]).matches("keys/ls");
    // As of before the mark nobody knew.
    assert_eq!(kim.run(&["verify", "out/bb", "--as-of", "4"]).code, 0);
    // Somebody whose key is whole may say the same again.
    kim.ok(&["record", "checkpoint", "out/bb", "--run", "none"]);
    let again = kim.run(&["verify", "out/bb"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains("says it again"), "{again:?}");
}

#[test]
fn a_thiefs_mark_falls_and_the_recovery_key_speaks_last() {
    let world = World::new();
    let kim = world.person("kim");
    kim.ok(&["init", "--recovery", "rec.key"]);
    let size = record(&kim, "a");
    let (author, log) = (thumbprint(&kim, "author"), thumbprint(&kim, "log"));
    let id = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    // The thief has the whole file, and marks the recovery key and a colleague before anybody notices.
    let thief = world.person("thief");
    std::fs::create_dir_all(key_path(&thief).parent().unwrap()).unwrap();
    std::fs::copy(key_path(&kim), key_path(&thief)).unwrap();
    let keys = kim.json(&["key", "ls"]);
    let rows = keys["keys"].as_array().unwrap();
    let recovery = rows.iter().find(|row| row["roles"] == serde_json::json!(["recovery"])).unwrap();
    let recovery = recovery["key"].as_str().unwrap();
    thief.ok(&["key", "revoke", recovery, "--compromised-since", "0", "--reason", "mine now"]);
    thief.run(&["key", "revoke", recovery]).fails(4, "refused");

    let new = world.person("new");
    new.ok(&["key", "new"]);
    let roles = "owner,author,evaluator,reviewer,approver";
    let rescue = ["--key-file", "rec.key"];
    new.run(&[&rescue[..], &["key", "add", &request(&new)]].concat()).fails(4, "refused");
    new.ok(&[&rescue[..], &["key", "add", &request(&new), "--roles", roles]].concat());
    let since = size.to_string();
    let mark = |key: &str| {
        [
            "key".to_owned(),
            "revoke".into(),
            key.into(),
            "--compromised-since".into(),
            since.clone(),
            "--reason".into(),
            "laptop stolen".into(),
        ]
    };
    let of_author = mark(&author);
    let of_author: Vec<&str> = rescue.into_iter().chain(of_author.iter().map(String::as_str)).collect();
    new.ok(&of_author);
    new.ok(&["key", "add", &request(&new), "--roles", &format!("{roles},log")]);
    let of_log = mark(&log);
    new.ok(&of_log.iter().map(String::as_str).collect::<Vec<_>>());
    new.ok(&["key", "trust", &id]);
    let stands = new.run(&["verify", "out/a"]);
    assert_eq!(stands.code, 0, "{stands:?}");
    thief.run(&["record", "note", &id_at(&new, "out/a"), "-m", "all is well"]).fails(4, "refused");
    let listed = new.json(&["key", "ls"]);
    let row =
        |key: &str| listed["keys"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(row(recovery)["compromised_since"], serde_json::Value::Null, "the thief's mark fell");
    assert_eq!(row(&author)["compromised_since"], size);
    assert_eq!(new.run(&["fsck"]).code, 0);
}

#[test]
fn something_recorded_is_revoked_by_its_author_only_or_by_an_owner() {
    let (world, kim) = World::founded();
    let (lee, max) = (member(&world, &kim, "lee"), member(&world, &kim, "max"));
    record(&lee, "a");
    max.run(&["revoke", "out/a", "--reason", "I do not like it"]).fails(4, "refused");
    lee.run(&["revoke", "out/a"]).fails(2, "usage");
    assert_eq!(lee.run(&["verify", "out/a"]).code, 0);
    let id = lee.id(&["revoke", "out/a", "--reason", "trained on the test set"]);
    assert!(id.starts_with("revoke:"), "{id}");
    let found = max.run(&["verify", "out/a"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains("trained on the test set"), "{found:?}");
    assert!(lee.ok(&["show", "out/a"]).contains("trained on the test set"));
    record(&lee, "bb");
    kim.ok(&["revoke", "out/bb", "--reason", "licence withdrawn"]);
    assert_eq!(lee.run(&["verify", "out/bb"]).code, 1);
    lee.run(&["revoke", "out/nothing", "--reason", "x"]).fails(3, "no-such-id");
}

#[test]
fn a_revocation_says_from_which_statement_on_it_counts() {
    let (world, kim) = World::founded();
    let lee = member(&world, &kim, "lee");
    record(&lee, "a");
    let words = ["revoke", "out/a", "--reason", "the labels were replaced", "--since"];
    for wrong in ["999", "-1", "soon"] {
        lee.run(&[&words[..], &[wrong]].concat()).fails(2, "usage");
    }
    assert_eq!(lee.run(&["verify", "out/a"]).code, 0, "what was refused left no mark");
    let marked = lee.json(&[&words[..], &["now"]].concat());
    let (since, id) = (marked["since"].as_u64().unwrap(), marked["id"].as_str().unwrap());
    assert_eq!(marked["index"].as_u64(), Some(since), "it counts from its own statement on");
    let record: serde_json::Value = serde_json::from_str(&lee.ok(&["--json", "show", id])).unwrap();
    assert!(record.to_string().contains(&format!("\"since\":{since}")), "{record}");
    let text = format!("was revoked from statement {since} on by");
    let found = lee.run(&["verify", "out/a"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&text), "{found:?}");
    assert!(lee.ok(&["show", "out/a"]).contains(&text));
    // The first statement is a place in the log like any other, and not the same as no place at all.
    let first = lee.json(&[&words[..], &["1"]].concat());
    assert_eq!(first["since"], 1);
    let all = lee.json(&words[..4]);
    assert_eq!(all["since"], serde_json::Value::Null);
}
