//! Secrets that lie about where a run is frozen, none of which may reach a disk of ours.

use std::path::{Path, PathBuf};

use crate::scene::{git, lay_weights, project};

/// Every file below a directory with its bytes.
pub(crate) fn bytes_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(bytes_below(&entry.path()));
        } else {
            found.push((entry.path(), std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

#[test]
fn planted_secrets_reach_no_disk() {
    let (_world, kim) = project();
    let remote = "https://kim:ghp_PLANTEDremotePLANTEDremotePLANTED0123@example.org/kim/project.git";
    git(&kim, &["remote", "add", "origin", remote]);
    let kim = kim
        .with("AWS_SECRET_ACCESS_KEY", "PLANTEDaws/PLANTEDaws/PLANTEDaws/PLANTED")
        .with("HF_TOKEN", "hf_PLANTEDtokenPLANTEDtokenPLANTEDtoken")
        .with("WANDB_API_KEY", "0123456789abcdefPLANTED0123456789abcdef0")
        .with("DATABASE_URL", "postgres://kim:PLANTEDpassword@example.org/db")
        .with("LEDGER_PASSPHRASE", "PLANTEDpassphrase")
        .with("CUDA_VISIBLE_DEVICES", "0,1");
    let command = [
        "sh",
        "-c",
        "exit 0",
        "train.py",
        "--hf-token",
        "hf_PLANTEDargvPLANTEDargvPLANTEDargvPLAN",
        "--api-key=sk-PLANTEDsecretPLANTEDsecretPLANTEDsecret",
        "--password",
        "PLANTEDplain",
        "--url=https://kim:PLANTEDurl@example.org/data",
    ];
    kim.ok(&[&["freeze", "--"][..], &command].concat());
    kim.ok(&[&["run", "--"][..], &command].concat());
    lay_weights(&kim, "out/ck", 1);
    kim.ok(&["record", "checkpoint", "out/ck", "--run", "none"]);
    let evaluate = [
        &["eval", "--subject", "out/ck", "--results", "results/*.json", "--"][..],
        &[
            "sh",
            "-c",
            "mkdir -p results; echo '{\"accuracy\": 0.5}' > results/r.json",
            "--token",
            "PLANTEDeval",
        ],
    ]
    .concat();
    kim.ok(&evaluate);
    let mut seen = 0;
    let mut has_allowed = false;
    for (path, bytes) in bytes_below(&kim.project.join(".ledger")).into_iter().chain(bytes_below(&kim.home)) {
        seen += 1;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("PLANTED"), "{} holds a secret: {text}", path.display());
        has_allowed |= text.contains("CUDA_VISIBLE_DEVICES");
    }
    assert!(seen > 20, "only {seen} files were looked at");
    assert!(has_allowed, "what may be recorded is recorded, so the search can find something");
}

/// Looks for planted bytes in everything that the program may have written.
fn nothing_planted(kim: &crate::support::Person) {
    let mut seen = 0;
    for (path, bytes) in bytes_below(&kim.project.join(".ledger")).into_iter().chain(bytes_below(&kim.home)) {
        seen += 1;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("PLANTED"), "{} holds a secret: {text}", path.display());
    }
    assert!(seen > 10, "only {seen} files were looked at");
}

#[test]
fn files_that_would_be_stored_with_a_secret_in_them_are_refused() {
    let (_world, kim) = project();
    let index = "https://kim:PLANTEDindex1@example.org/simple";
    kim.lay("locks/requirements.txt", format!("--extra-index-url {index}\nnumpy==1.0\n").as_bytes());
    let uv = format!(
        "version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = {{ registry = \"{index}\" }}\n"
    );
    kim.lay("locks/uv.lock", uv.as_bytes());
    kim.lay("conf/token.yaml", b"hub:\n  name: x\n  token: hf_PLANTEDconfigPLANTEDconfigPLANTEDcfg\n");
    kim.lay("conf/comment.yaml", b"# hf_PLANTEDconfigPLANTEDconfigPLANTEDcfg\nlr: 1\n");
    kim.lay("conf/named.yaml", b"wandb:\n  api_key: 0123456789abcdefPLANTED0123456789abcdef0\n");
    for flags in [
        &["--lock", "locks/requirements.txt"][..],
        &["--lock", "locks/uv.lock"],
        &["-c", "conf/token.yaml"],
        &["-c", "conf/comment.yaml"],
        &["-c", "conf/named.yaml"],
        &["--set", "wandb.api_key=0123456789abcdefPLANTED0123456789abcdef0"],
    ] {
        for word in ["freeze", "run"] {
            let output = kim.run(&[&[word], flags, &["--", "sh", "-c", "exit 0"]].concat());
            crate::scene::refused(&output, 4, "secret");
            output.never_says("PLANTED");
        }
    }
    kim.lay("train.py", b"TOKEN = 'hf_PLANTEDdirtyPLANTEDdirtyPLANTEDdirty'\n");
    let dirty = kim.run(&["freeze", "--allow-dirty", "--", "sh"]);
    crate::scene::refused(&dirty, 4, "secret");
    nothing_planted(&kim);
    git(&kim, &["checkout", "-q", "train.py"]);
    let source = "https://kim:PLANTEDsource@example.org/data.csv";
    kim.ok(&["record", "dataset", "data", "--name", "digits", "--source", source]);
    assert_eq!(
        kim.json(&["show", "data:digits"])["about"]["source"],
        "https://<redacted>@example.org/data.csv"
    );
    kim.ok(&["freeze", "--", "sh"]);
    nothing_planted(&kim);
}

#[test]
fn a_login_in_an_installed_package_s_address_reaches_no_disk() {
    let (_world, kim) = project();
    kim.lay("venv/pyvenv.cfg", b"home = /nowhere\nversion = 3.11.7\n");
    let python = kim.lay("venv/bin/python", b"#!/bin/sh\nexit 0\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(python, mode).unwrap();
    let site = "venv/lib/python3.11/site-packages/private-1.dist-info";
    kim.lay(&format!("{site}/METADATA"), b"Name: private\nVersion: 1\n");
    let url = br#"{"url": "https://kim:PLANTEDurl@example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "00ff"}}"#;
    kim.lay(&format!("{site}/direct_url.json"), url);
    kim.ok(&["run", "--", "venv/bin/python", "train.py"]);
    nothing_planted(&kim);
    let found = bytes_below(&kim.project.join(".ledger/objects"));
    let is_list = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("ledger.installed/1");
    let list = found.iter().find(|(_, bytes)| is_list(bytes)).expect("the list is stored");
    assert!(String::from_utf8_lossy(&list.1).contains("https://<redacted>@example.org/x.git"));
}

#[test]
fn why_the_code_is_unknown_names_no_place_on_this_machine() {
    let (_world, kim) = project();
    std::fs::rename(kim.project.join(".git"), kim.home.join("away")).unwrap();
    kim.lay(".git", b"gitdir: /nonexistent\n");
    let run = kim.ok(&["freeze"]);
    let reason = kim.json(&["show", &run])["record"]["none"]["code"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("unknown: "), "{reason}");
    // The plan is for everybody who gets the ledger; paths are kept in the private record.
    assert!(!reason.contains(kim.project.to_str().unwrap()), "{reason}");
}
