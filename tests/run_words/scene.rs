//! What the tests share: a committed project, and questions that the log answers.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Output, Person, World};

/// Where programs of the system are.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A founded ledger in a committed project with a config, data, a lock file and code.
pub(crate) fn project() -> (World, Person) {
    let (world, kim) = World::founded();
    let kim = kim.with("PATH", PATH);
    let toml = "study = \"s\"\nconfig = [\"config.yaml\"]\ndata = { train = \"data\" }\nlock = \"requirements.lock\"\n";
    kim.lay("ledger.toml", toml.as_bytes());
    kim.lay("config.yaml", b"lr: 0.1\nseed: 3\n");
    kim.lay("train.py", b"print('train')\n");
    kim.lay("requirements.lock", b"numpy==1.0 --hash=sha256:00\n");
    kim.lay("data/train.csv", b"1,2\n3,4\n");
    kim.lay(".gitignore", b"/data/\n/out/\n/results/\n");
    git(&kim, &["init", "-q"]);
    git(&kim, &["add", "-A"]);
    git(&kim, &["commit", "-qm", "begin"]);
    (world, kim)
}

/// Runs git without anybody's settings.
pub(crate) fn git(kim: &Person, args: &[&str]) {
    let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.args(who).args(args).current_dir(&kim.project).env_clear().env("HOME", &kim.home);
    let output = command.env("PATH", PATH).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The ids of all accepted claims of a kind, in log order.
pub(crate) fn claimed(kim: &Person, kind: &str) -> Vec<String> {
    let document = kim.json(&["entries"]);
    let entries = document["entries"].as_array().unwrap();
    let accepted = entries.iter().filter(|entry| entry["standing"] == "accepted");
    let claims = accepted.flat_map(|entry| entry["claims"].as_array().unwrap());
    let of_kind = claims.filter(|claim| claim["kind"] == kind);
    of_kind.map(|claim| claim["id"].as_str().unwrap().to_owned()).collect()
}

/// How many statements the log holds.
pub(crate) fn size(kim: &Person) -> u64 {
    kim.json(&["head"])["size"].as_u64().unwrap()
}

/// The directory of a run's files.
pub(crate) fn run_dir(kim: &Person, run: &str) -> PathBuf {
    kim.project.join(".ledger/runs").join(run.strip_prefix("run:").unwrap())
}

/// Checks that a command was refused for this reason, and said how to go on.
pub(crate) fn refused<'a>(output: &'a Output, code: i32, slug: &str) -> &'a str {
    output.fails(code, slug);
    assert!(output.stderr.contains("\nhint: "), "{output:?}");
    &output.stderr
}

/// Runs a command line of a shell under `ledger run`, with `--json`, and returns the document.
pub(crate) fn run_json(kim: &Person, flags: &[&str], script: &str) -> (i32, Value) {
    let output = kim.run(&[&["--json", "run"], flags, &["--", "sh", "-c", script]].concat());
    let start = output.stdout.find("{\n").unwrap_or_else(|| panic!("{output:?}"));
    (output.code, serde_json::from_str(&output.stdout[start..]).expect(&output.stdout))
}

/// A directory with the smallest safetensors file that there is.
pub(crate) fn lay_weights(kim: &Person, name: &str, value: u8) {
    let header = b"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &[value]].concat();
    kim.lay(&format!("{name}/model.safetensors"), &file);
}
