//! `ledger init`: what it makes, and what it must not touch.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::support::World;

#[test]
fn init_makes_a_ledger_a_key_a_pin_and_a_template() {
    let world = World::new();
    let kim = world.person("kim");
    kim.lay("config.yaml", b"lr: 1\n");
    kim.lay("digits.csv", b"1,2\n");
    kim.lay("requirements.lock", b"");
    let output = kim.run(&["init"]);
    output.matches("init");
    let id = output.stdout.trim_end();
    assert_eq!(output.stdout.len(), 65);
    assert_eq!(id.len(), 64);

    let key = kim.home.join(".config/ledger/keys/default.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&key).unwrap();
    assert!(text.contains("\nname kim\n"));
    for line in text.lines().filter(|line| line.starts_with("author ") || line.starts_with("log ")) {
        let seed = line.split(' ').nth(1).unwrap();
        assert!(!output.stdout.contains(seed) && !output.stderr.contains(seed), "a secret was printed");
    }
    let trust = std::fs::read_to_string(kim.home.join(".config/ledger/trust.toml")).unwrap();
    assert!(trust.contains(id), "{trust}");
    assert!(kim.home.join(".local/state/ledger").join(id).join("head").exists());
    let template = std::fs::read_to_string(kim.project.join("ledger.toml")).unwrap();
    crate::support::snapshot("init-template", &template);
    assert_eq!(std::fs::read_to_string(kim.project.join(".ledger/.gitignore")).unwrap(), "*\n");
}

#[test]
fn a_second_init_touches_nothing() {
    let (_world, kim) = World::founded();
    kim.lay("ledger.toml", b"study = \"mine\"\n");
    let id = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    let output = kim.run(&["init"]);
    output.fails(4, "exists");
    assert!(output.stderr.contains(&id), "{}", output.stderr);
    output.matches("init-exists");
    assert_eq!(kim.json(&["head"])["size"], 1);
    std::fs::rename(kim.project.join(".ledger"), kim.project.join("away")).unwrap();
    let second = kim.ok(&["init"]);
    assert_ne!(second, id);
    assert_eq!(std::fs::read(kim.project.join("ledger.toml")).unwrap(), b"study = \"mine\"\n");
    let trust = std::fs::read_to_string(kim.home.join(".config/ledger/trust.toml")).unwrap();
    assert!(trust.contains(&id) && trust.contains(&second), "{trust}");
}

#[test]
fn without_a_home_a_key_must_be_given() {
    let world = World::new();
    let kim = world.person("kim");
    let homeless = kim.without("HOME");
    let output = homeless.run(&["init"]);
    output.fails(3, "no-key");
    output.matches("init-no-key");
    assert!(!kim.project.join(".ledger").exists());
    // A home that cannot be one is as none.
    kim.with("HOME", "/dev/null").run(&["init"]).fails(3, "no-key");
    assert!(!kim.project.join(".ledger").exists());

    let file = kim.home.join("ci.key");
    let by_file = homeless.with("LEDGER_KEY_FILE", file.to_str().unwrap());
    by_file.run(&["init"]).fails(3, "no-key");
    by_file.ok(&["key", "new", "--name", "CI"]);
    let text = std::fs::read_to_string(&file).unwrap();
    let by_text = homeless.with("LEDGER_KEY", &text);
    let output = by_text.run(&["init"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("warning: the ledger is not pinned"), "{output:?}");
    assert!(by_text.ok(&[]).contains("you      CI ("));
    let told = by_text.run(&["-v", "head"]);
    assert!(told.stderr.contains("not remembered"), "{told:?}");
    homeless.ok(&["head"]);
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let (_world, kim) = World::founded();
    let key = kim.home.join(".config/ledger/keys/default.key");
    for mode in [0o640, 0o604, 0o666] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        kim.run(&["key", "show"]).fails(3, "loose-key");
    }
    kim.run(&["sequence"]).matches("loose-key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    kim.ok(&["key", "show"]);
    std::fs::write(&key, "not a key\n").unwrap();
    let output = kim.run(&["key", "show"]);
    output.fails(3, "no-key");
    assert!(!output.stderr.contains("not a key\n"), "{output:?}");
}

#[test]
fn a_recovery_key_is_made_once_and_has_its_role() {
    let world = World::new();
    let kim = world.person("kim");
    let file = kim.home.join("recovery.key");
    kim.ok(&["init", "--recovery", file.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let keys = kim.json(&["key", "ls"]);
    let roles: Vec<_> = keys["keys"].as_array().unwrap().iter().map(|key| key["roles"].clone()).collect();
    assert!(roles.contains(&serde_json::json!(["recovery"])), "{keys}");
    let other = world.person("lee").at(&kim.home);
    other.run(&["init", "--recovery", file.to_str().unwrap()]).fails(4, "exists");
    assert!(!kim.home.join(".ledger").exists(), "a ledger without its recovery key was made");
}

#[test]
fn a_shared_ledger_is_open_to_its_group_only() {
    let world = World::new();
    let kim = world.person("kim");
    kim.ok(&["init", "--shared"]);
    let mode = std::fs::metadata(kim.project.join(".ledger")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2770, "{mode:o}");
}

#[test]
fn leftovers_and_outer_ledgers_are_named() {
    let (_world, kim) = World::founded();
    let inner = kim.project.join("inner");
    std::fs::create_dir_all(inner.join(".ledger.new-1-2")).unwrap();
    let output = kim.run(&["init", "inner"]);
    assert_eq!(output.code, 0, "{output:?}");
    output.matches("init-notes");
    assert!(inner.join(".ledger.new-1-2").exists(), "what is not ours was removed");
    assert_ne!(kim.ok(&["-C", "inner", "head"]), kim.ok(&["head"]));
}

#[test]
fn a_directory_that_is_not_there_is_not_made() {
    let world = World::new();
    let kim = world.person("kim");
    kim.run(&["init", "nowhere"]).fails(2, "bad-data");
    assert!(!kim.project.join("nowhere").exists());
    // A name that is taken by a broken link is taken.
    symlink("nowhere", kim.project.join(".ledger")).unwrap();
    kim.run(&["init"]).fails(4, "exists");
}

#[test]
fn init_answers_as_json() {
    let world = World::new();
    let kim = world.person("kim");
    let document = kim.json(&["init"]);
    assert_eq!(document["schema"], "ledger.init/1");
    assert_eq!(document["ledger"].as_str().unwrap(), kim.json(&["head"])["ledger"]);
    assert_eq!(kim.json(&["init"])["findings"][0]["kind"], "exists");
}
