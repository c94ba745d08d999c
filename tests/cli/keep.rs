//! What keeps a ledger and its user well: manual pages and completions, backups, copies, and the doctor.

use std::process::{Command, Stdio};

use crate::support::World;

#[test]
fn every_command_has_a_manual_page_that_a_formatter_accepts() {
    let world = World::new();
    let kim = world.person("kim");
    kim.run(&["man", "man1"]).fails(2, "bad-data");
    std::fs::create_dir(kim.project.join("man1")).unwrap();
    let paths = kim.ok(&["man", "man1"]);
    let pages: Vec<&str> = paths.lines().collect();
    assert!(pages.len() > 25 && pages[0] == "man1/ledger.1", "{paths}");
    assert_eq!(std::fs::read_dir(kim.project.join("man1")).unwrap().count(), pages.len());
    for page in &pages {
        let text = std::fs::read_to_string(kim.project.join(page)).unwrap();
        assert!(text.contains("\n.SH SYNOPSIS\n") && !text.contains(kim.project.to_str().unwrap()), "{page}");
        // A warning of the formatter is a mistake in the page. Where there is none, its form is all we know.
        let format = ["-man", "-ww", "-z", "-Tascii", page];
        if let Ok(told) = Command::new("groff").args(format).current_dir(&kim.project).output() {
            let told = String::from_utf8_lossy(&told.stderr).into_owned();
            assert_eq!(told, "", "{page}");
        }
    }
    // Writing them again changes nothing.
    let before = std::fs::read(kim.project.join(pages[0])).unwrap();
    assert_eq!(kim.ok(&["man", "man1"]), paths);
    assert_eq!(std::fs::read(kim.project.join(pages[0])).unwrap(), before);
}

#[test]
fn shells_accept_their_completions() {
    let world = World::new();
    let kim = world.person("kim");
    for shell in ["bash", "zsh", "fish"] {
        let script = kim.ok(&["completions", shell]);
        assert!(script.contains("freeze") && script.contains("lock-timeout"), "{shell}");
        let mut check = Command::new(shell);
        check.arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped());
        // A shell that is not here cannot be asked.
        let Ok(mut child) = check.spawn() else { continue };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
        let told = child.wait_with_output().unwrap();
        assert!(told.status.success() && told.stderr.is_empty(), "{shell}: {told:?}");
    }
    kim.run(&["completions", "tcsh"]).fails(2, "usage");
}

/// Returns the severities and messages of one kind of finding.
fn said(document: &serde_json::Value, kind: &str) -> Vec<(String, String)> {
    let findings = document["findings"].as_array().unwrap().iter().filter(|finding| finding["kind"] == kind);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    findings.map(|finding| (text(&finding["severity"]), text(&finding["message"]))).collect()
}

#[test]
fn the_doctor_finds_a_healthy_ledger_healthy_and_leaves_no_trace() {
    let (_world, kim) = World::project();
    let kim = kim.with("PATH", "/usr/local/bin:/usr/bin:/bin").with("LEDGER_MODE", "enforce");
    let document = kim.json(&["doctor"]);
    assert_eq!((&document["exit"], &document["failed"]), (&0.into(), &0.into()), "{document}");
    for kind in ["ledger", "key", "roles", "log key", "trust", "memory", "write", "locks", "clock", "queued"]
    {
        let found = said(&document, kind);
        assert!(!found.is_empty() && found.iter().all(|(word, _)| word == "ok"), "{kind}: {document}");
    }
    assert_eq!(said(&document, "variable"), [("ok".to_owned(), "LEDGER_MODE: enforce".to_owned())]);
    // Every finding that is not fine says what to do.
    for finding in document["findings"].as_array().unwrap() {
        let is_fine = matches!(finding["severity"].as_str().unwrap(), "ok" | "skip");
        assert!(is_fine || finding["hint"].is_string(), "{finding}");
    }
    assert_eq!(std::fs::read_dir(kim.project.join(".ledger/tmp")).unwrap().count(), 0);
    let text = kim.ok(&["doctor"]);
    assert!(text.lines().any(|line| line.starts_with("ok ") && line.contains("of kim, in ")), "{text}");
}

#[test]
fn the_doctor_works_where_there_is_no_ledger() {
    let world = World::new();
    let kim = world.person("kim");
    let document = kim.json(&["doctor"]);
    assert_eq!(document["exit"], 0, "{document}");
    assert_eq!(said(&document, "ledger")[0].0, "skip");
    assert_eq!(said(&document, "key")[0].0, "warn");
    assert_eq!(said(&document, "write")[0].0, "ok");
    assert_eq!(std::fs::read_dir(&kim.project).unwrap().count(), 0, "something was left behind");
}

#[test]
fn the_doctor_names_what_is_wrong_with_a_next_step() {
    use std::os::unix::fs::PermissionsExt as _;
    let (world, kim) = World::project();
    let key = kim.home.join(".config/ledger/keys/default.key");
    let secret = std::fs::read_to_string(&key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let document = kim.json(&["doctor"]);
    assert_eq!((&document["exit"], &document["failed"]), (&1.into(), &1.into()), "{document}");
    assert_eq!(said(&document, "key")[0].0, "fail");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();

    let trust = kim.home.join(".config/ledger/trust.toml");
    std::fs::set_permissions(&trust, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(said(&kim.json(&["doctor"]), "trust")[0].0, "fail");
    std::fs::set_permissions(&trust, std::fs::Permissions::from_mode(0o600)).unwrap();

    // A stranger without a key in this ledger, who has not pinned it.
    let lee = world.person("lee");
    lee.ok(&["key", "new"]);
    let document = lee.json(&["doctor"]);
    assert_eq!(
        (said(&document, "roles")[0].0.as_str(), said(&document, "trust")[0].0.as_str()),
        ("warn", "warn")
    );
    assert_eq!(document["exit"], 0);

    // What waits, what was refused, what is left over, and a variable that nobody reads.
    kim.ok(&["key", "add", &lee.ok(&["key", "show", "--request"]), "--roles", "author"]);
    lee.ok(&["-q", "freeze", "--", "true"]);
    kim.lay(".ledger/log/refused/0/x", b"x");
    std::fs::create_dir(kim.project.join(".ledger.new-1-1")).unwrap();
    kim.lay(".ledger/tmp/1-1", b"x");
    let day = std::time::Duration::from_hours(72);
    let old = std::fs::File::open(kim.project.join(".ledger/tmp/1-1")).unwrap();
    old.set_modified(std::time::SystemTime::now() - day).unwrap();
    let kim = kim.with("LEDGER_TRUTS", "x").with("LEDGER_KEY", &secret).with("LEDGER_PASSPHRASE", "sesame");
    let output = kim.run(&["doctor"]);
    output.never_says("sesame");
    for line in secret.lines().filter(|line| line.starts_with("author ") || line.starts_with("log ")) {
        output.never_says(line.split(' ').nth(1).unwrap());
    }
    let document = kim.json(&["doctor"]);
    for kind in ["queued", "refused", "left over"] {
        assert!(said(&document, kind).iter().any(|(word, _)| word == "warn"), "{kind}: {document}");
    }
    assert_eq!(said(&document, "left over").len(), 2, "{document}");
    let variables = said(&document, "variable");
    assert!(
        variables.contains(&("warn".to_owned(), "LEDGER_TRUTS means nothing here".to_owned())),
        "{variables:?}"
    );
    assert!(variables.contains(&("ok".to_owned(), "LEDGER_KEY: set".to_owned())), "{variables:?}");

    // A ledger that cannot be opened is one finding among the others.
    std::fs::remove_file(kim.project.join(".ledger/log/checkpoint")).unwrap();
    let document = kim.json(&["doctor"]);
    assert_eq!(
        (said(&document, "ledger")[0].0.as_str(), &document["exit"]),
        ("fail", &1.into()),
        "{document}"
    );
    assert!(!said(&document, "key").is_empty() && !said(&document, "disk").is_empty());
}
