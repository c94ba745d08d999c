//! Environments as tools leave them: what a freeze says of each lock file, and what is really installed.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::{Person, World, safetensors};

/// Lock files of tools, by the path of the fixture and the name that each must have.
const LOCKS: [(&str, &str); 14] = [
    ("uv/uv.lock", "uv.lock"),
    ("uv/pylock.toml", "pylock.toml"),
    ("poetry/poetry.lock", "poetry.lock"),
    ("pipenv/Pipfile.lock", "Pipfile.lock"),
    ("requirements-hashed/requirements.txt", "requirements.txt"),
    ("requirements-hashed/requirements-uv.txt", "requirements-uv.txt"),
    ("requirements-plain/requirements.txt", "requirements.txt"),
    ("requirements-plain/requirements-annotated.txt", "requirements-annotated.txt"),
    ("pip-freeze/editable.txt", "editable.txt"),
    ("pip-freeze/local-wheel.txt", "local-wheel.txt"),
    ("pip-freeze/training-env.txt", "training-env.txt"),
    ("conda/explicit.txt", "explicit.txt"),
    ("conda/environment.yml", "environment.yml"),
    ("site-packages-editable/NOTE.md", "NOTE.md"),
];

/// Lays an environment with the packages of the fixture, whose Python does nothing.
fn venv(kim: &Person) {
    kim.copy("envs/site-packages-editable/site-packages", "venv/lib/python3.11/site-packages");
    kim.lay("venv/pyvenv.cfg", b"home = /nowhere/bin\nimplementation = CPython\nversion = 3.11.7\n");
    let python = kim.lay("venv/bin/python", b"#!/bin/sh\nexit 0\n");
    std::fs::set_permissions(python, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Every object of the store with its file.
fn objects(kim: &Person) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let dirs = std::fs::read_dir(kim.project.join(".ledger/objects")).unwrap().map(Result::unwrap);
    let files = dirs.flat_map(|dir| std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap));
    files.map(|file| (file.path(), std::fs::read(file.path()).unwrap())).collect()
}

/// The record of an environment and the list of what was installed.
fn environment(kim: &Person, id: &str) -> (Value, Value) {
    let record = kim.json(&["show", id])["record"].clone();
    let list = record["installed"]["file"].as_str().map(|file| kim.ok(&["cat", file]));
    (record, list.map_or(Value::Null, |list| serde_json::from_str(&list).unwrap()))
}

#[test]
fn each_tool_s_lock_file_is_known_for_what_it_is() {
    let (_world, kim) = World::project();
    let mut told = String::new();
    for (fixture, name) in LOCKS {
        kim.copy(&format!("envs/{fixture}"), name);
        let output = kim.run(&["freeze", "--dry-run", "--lock", name, "--", "sh", "train.sh"]);
        assert_eq!(output.code, 0, "{fixture}: {output:?}");
        let about = |line: &&str| line.starts_with("environment") || line.contains(name);
        told.push_str("# ");
        told.push_str(fixture);
        told.push('\n');
        for line in output.stderr.lines().filter(about) {
            told.push_str(&crate::support::filtered(line, &kim.home));
        }
    }
    crate::support::snapshot("environments/locks", &told);
}

#[test]
fn what_departs_from_the_lock_is_told_and_recorded_and_refuses_nothing() {
    let (_world, kim) = World::project();
    venv(&kim);
    kim.copy("envs/uv/uv.lock", "uv.lock");
    let frozen = kim.run(&["freeze", "--name", "base", "--", "venv/bin/python", "train.py"]);
    frozen.matches("environments/departs");
    let document = kim.json(&["show", "base"]);
    let (record, list) = environment(&kim, document["record"]["environment"].as_str().unwrap());
    assert_eq!(record["lock"]["packages"], 5);
    let counts = ["packages", "missing", "changed", "extra"].map(|key| record["installed"][key].clone());
    assert_eq!(counts, [json!(6), json!(0), json!(1), json!(0)]);
    assert_eq!(list["changed"], json!([{"name": "packaging", "locked": "26.4", "installed": "25.0"}]));
    let app = list["packages"].as_array().unwrap().iter().find(|one| one["name"] == "tiny-app").unwrap();
    assert_eq!(app["origin"], json!({"kind": "editable", "address": "<path>"}));
    assert!(!list.to_string().contains("/data/"), "no place of a machine: {list}");
    assert_eq!(record["hardware"], Value::Null, "the machine that plans is not the one that runs");

    let started = kim.run(&["start", "base"]);
    assert_eq!(started.code, 0, "{started:?}");
    assert!(
        started.stderr.contains("packaging 25.0, locked 26.4"),
        "the plan says which Python: {started:?}"
    );
    kim.ok(&["end", "base"]);
    let run = kim.run(&["run", "--", "venv/bin/python", "train.py"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("packaging 25.0, locked 26.4"), "{run:?}");
    for (path, bytes) in objects(&kim) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_list = text.contains("ledger.installed/1");
        assert!(!is_list || !text.contains("/data/project"), "a place of a machine in {path:?}: {text}");
    }
    let starts = kim.json(&["entries"]);
    let mut claims =
        starts["entries"].as_array().unwrap().iter().flat_map(|entry| entry["claims"].as_array().unwrap());
    let start = claims.rfind(|claim| claim["kind"] == "start").unwrap()["id"].as_str().unwrap().to_owned();
    let met = kim.json(&["show", &start])["record"]["environment"].as_str().unwrap().to_owned();
    let (record, list) = environment(&kim, &met);
    assert_eq!(list["changed"][0]["name"], "packaging");
    assert!(record["hardware"]["cores"].as_u64().unwrap() > 0, "{record}");
}

#[test]
fn a_package_that_came_later_makes_no_other_run_of_a_name() {
    let (_world, kim) = World::project();
    venv(&kim);
    kim.copy("envs/uv/uv.lock", "uv.lock");
    let freeze = ["freeze", "--name", "base", "--", "venv/bin/python", "train.py"];
    let run = kim.id(&freeze);
    kim.lay("venv/lib/python3.11/site-packages/ipdb-1.0.dist-info/METADATA", b"Name: ipdb\nVersion: 1.0\n");
    let again = kim.run(&freeze);
    assert_eq!(again.stdout, format!("{run}\n"));
    assert!(again.stderr.contains("1 is not locked (ipdb 1.0)"), "{again:?}");
    kim.lay("venv/pyvenv.cfg", b"home = /nowhere/bin\nimplementation = CPython\nversion = 3.12.1\n");
    let other = kim.run(&freeze);
    other.fails(4, "frozen-drift");
    assert!(other.stderr.contains("interpreter") && other.stderr.contains("cpython 3.12.1"), "{other:?}");
}

#[test]
fn an_attempt_says_how_it_was_launched_and_keeps_job_numbers_private() {
    let (_world, kim) = World::project();
    let job = kim
        .with("SLURM_JOB_ID", "4711")
        .with("SLURM_NNODES", "2")
        .with("WORLD_SIZE", "16")
        .with("RANK", "0")
        .with("TORCHELASTIC_RUN_ID", "rendezvous-name")
        .with("NCCL_SOCKET_IFNAME", "ib0")
        .with("APPTAINER_CONTAINER", "/home/somebody/images/train.sif");
    job.lay("out/ck/model.safetensors", &safetensors(1.0));
    let run = job.run(&["run", "--name", "base", "--", "/bin/true"]);
    assert_eq!(run.code, 0, "{run:?}");
    let start = job.json(&["log", "base"]);
    let text = start.to_string();
    let at = text.find("start:").unwrap();
    let id = &text[at..at + "start:".len() + 64];
    let met = job.json(&["show", id])["record"]["environment"].as_str().unwrap().to_owned();
    let (record, _) = environment(&job, &met);
    assert_eq!(
        record["launch"],
        json!({"launcher": "torchrun", "rank": "0", "slurm_nodes": "2", "world_size": "16"})
    );
    assert_eq!(record["container"], json!({"runtime": "apptainer"}));
    for private in ["4711", "rendezvous", "ib0", "somebody"] {
        assert!(!record.to_string().contains(private), "{private}: {record}");
    }
}
