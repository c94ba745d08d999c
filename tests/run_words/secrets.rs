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
