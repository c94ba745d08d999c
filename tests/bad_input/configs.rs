//! Configurations that mean two things, nothing, or too much: refused before anything is frozen.

use std::fmt::Write as _;

use crate::scene::{project, refuses, runs};

/// Lays a config, expects `freeze` to refuse it in one of these words, and the log to be as before.
fn is_refused(name: &str, text: &[u8], words: &str) {
    let (_world, kim) = project();
    kim.lay(name, text);
    let said = refuses(&kim, &["-q", "freeze", "-c", name], 2, "bad-config");
    assert!(said.stderr.contains(words), "{said:?}");
    assert_eq!(runs(&kim), [""; 0]);
}

#[test]
fn a_duplicate_key_in_json() {
    is_refused("config.json", b"{\"optim\": {\"lr\": 1, \"lr\": 2}}", "`optim.lr` appears twice");
}

#[test]
fn a_duplicate_key_in_yaml() {
    is_refused("config.yaml", b"optim:\n  lr: 1\n  lr: 2\n", "`optim.lr` appears twice");
}

#[test]
fn a_duplicate_key_in_toml() {
    is_refused("config.toml", b"[optim]\nlr = 1\nlr = 2\n", "config.toml:3");
}

#[test]
fn not_a_number_in_json() {
    is_refused("config.json", b"{\"lr\": NaN}", "NaN");
}

#[test]
fn not_a_number_in_yaml() {
    is_refused("config.yaml", b"lr: .nan\n", "not a finite number");
}

#[test]
fn not_a_number_in_toml() {
    is_refused("config.toml", b"lr = nan\n", "not a finite number");
}

#[test]
fn an_alias_bomb() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(text, "a{n}: &a{n} [{aliases}]").unwrap();
    }
    is_refused("config.yaml", text.as_bytes(), "aliases stand for more than");
}

#[test]
fn ten_thousand_levels_in_json() {
    let text = "[".repeat(10_000) + &"]".repeat(10_000);
    is_refused("config.json", text.as_bytes(), "config.json");
}

#[test]
fn ten_thousand_levels_in_yaml() {
    let text = format!("a: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    is_refused("config.yaml", text.as_bytes(), "config.yaml");
}

#[test]
fn ten_thousand_levels_in_toml() {
    let text = format!("a = {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    is_refused("config.toml", text.as_bytes(), "config.toml");
}

#[test]
fn ten_thousand_levels_by_set() {
    let (_world, kim) = project();
    let path = vec!["a"; 10_000].join(".");
    refuses(&kim, &["-q", "freeze", "-c", "config.yaml", "--set", &format!("{path}=1")], 2, "bad-config");
}

#[test]
fn a_value_that_is_not_final() {
    is_refused("config.yaml", b"out: ${hydra:run.dir}/ck\n", "${hydra:run.dir}");
}

#[test]
fn a_config_that_is_a_fifo() {
    let (_world, kim) = project();
    make_fifo(&kim.project.join("pipe.yaml"));
    refuses(&kim, &["-q", "freeze", "-c", "pipe.yaml"], 2, "bad-data");
}

#[test]
fn a_config_that_is_not_there() {
    let (_world, kim) = project();
    refuses(&kim, &["-q", "freeze", "-c", "gone.yaml"], 2, "bad-data");
}

#[test]
fn a_config_of_an_unknown_format() {
    let (_world, kim) = project();
    kim.lay("config.ini", b"lr = 1\n");
    refuses(&kim, &["-q", "freeze", "-c", "config.ini"], 2, "bad-config");
}

#[test]
fn a_ledger_toml_with_a_duplicate_key() {
    let (_world, kim) = project();
    kim.lay("ledger.toml", b"study = \"a\"\nstudy = \"b\"\n");
    let said = refuses(&kim, &["-q", "freeze"], 2, "bad-config");
    assert!(said.stderr.contains("line 2"), "{said:?}");
}

/// Makes a FIFO that nobody writes to.
pub(crate) fn make_fifo(path: &std::path::Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}
