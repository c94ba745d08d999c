//! A bare environment, repositories in it, and what git says about them; no test of its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::capture::code::{CodeState, Dirt, Observed, observe};

/// Names the scene's folder, and by that tells the inner process from the outer one.
const SCENE: &str = "CODE_STATE_SCENE";

/// Runs `scene` in a process of its own whose environment holds nothing of the user's.
pub(crate) fn hermetic(test: &str, scene: impl FnOnce(&Path)) {
    hermetic_on_path(test, &std::env::var_os("PATH").unwrap(), |_| {}, scene);
}

/// The same with a search path of its own; `lay` runs before, with git at hand.
pub(crate) fn hermetic_on_path(test: &str, path: &OsStr, lay: impl FnOnce(&Path), scene: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(SCENE) {
        return scene(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir(real.join("home")).unwrap();
    lay(&real);
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .envs(bare_environment(&real))
        .env("PATH", path)
        .env(SCENE, &real)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("1 passed"), "`{test}` is not the name of this test: {said}");
}

pub(crate) fn bare_environment(dir: &Path) -> Vec<(&'static str, OsString)> {
    [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_AUTHOR_DATE", "1000000000 +0000"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_DATE", "1000000000 +0000"),
    ]
    .map(|(name, value)| (name, OsString::from(value)))
    .into_iter()
    .chain([("HOME", dir.join("home").into_os_string())])
    .collect()
}

/// Runs git and returns what it wrote.
pub(crate) fn git<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Vec<u8> {
    git_with(dir, args, &[])
}

pub(crate) fn git_with<S: AsRef<OsStr>>(dir: &Path, args: &[S], env: &[(&str, &Path)]) -> Vec<u8> {
    let run = Command::new("git")
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-C"])
        .arg(dir)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs(bare_environment(dir))
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
    assert!(run.status.success(), "git {shown:?}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

pub(crate) fn git_line<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> String {
    String::from_utf8(git(dir, args)).unwrap().trim_end().to_owned()
}

pub(crate) const FILES: [(&str, &[u8]); 6] = [
    ("src/train.py", b"one\ntwo\nthree\nfour\nfive\n"),
    ("src/eval.py", b"print('eval')\n"),
    ("conf/a b.yaml", b"lr: 1e-6"),
    ("run.sh", b"#!/bin/sh\nexit 0\n"),
    ("data.bin", b"\x00\x01\x02\xff\x00binary\x00"),
    (".gitignore", b"*.log\nout/\n"),
];

/// The kinds of repository that every change is tried on: libgit2 reads the first, git itself the others.
pub(crate) const KINDS: [(&str, &[&str], &[&str]); 4] = [
    ("plain", &[], &[]),
    ("split", &[], &["update-index", "--split-index"]),
    ("sha256", &["--object-format=sha256"], &[]),
    ("reftable", &["--ref-format=reftable"], &[]),
];

pub(crate) fn repository(dir: &Path, init: &[&str]) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    git(dir, &[&["init", "-q"], init].concat());
    for (path, bytes) in FILES {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    symlink("src/train.py", dir.join("link")).unwrap();
    commit(dir);
    dir.to_owned()
}

pub(crate) fn commit(dir: &Path) {
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "c"]);
}

#[track_caller]
pub(crate) fn state(root: &Path) -> CodeState {
    match observe(root) {
        Observed::Git(state) => *state,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn unknown(dirt: &Dirt) -> &str {
    match dirt {
        Dirt::Unknown { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Returns the letter and path of each file that differs.
#[track_caller]
pub(crate) fn changes(state: &CodeState) -> Vec<(char, String)> {
    match &state.dirt {
        Dirt::Clean => Vec::new(),
        Dirt::Dirty { files, .. } => {
            files.iter().map(|file| (file.change, String::from_utf8_lossy(&file.path).into_owned())).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Observes, and compares commit, tree, branch and changed paths with git's own answers.
#[track_caller]
pub(crate) fn agrees(repo: &Path) -> CodeState {
    let index = fs::read(repo.join(".git/index")).ok();
    let state = state(repo);
    assert!(index == fs::read(repo.join(".git/index")).ok(), "the index was written");
    assert_eq!(state.commit, git_line(repo, &["rev-parse", "HEAD"]));
    assert_eq!(state.tree, git_line(repo, &["rev-parse", "HEAD^{tree}"]));
    assert_eq!(state.object_format, git_line(repo, &["rev-parse", "--show-object-format"]));
    assert_eq!(state.branch.clone().unwrap_or_default(), git_line(repo, &["branch", "--show-current"]));
    let status = git(repo, &["status", "--porcelain", "-z", "-uno", "--find-renames=100%"]);
    let mut expected = Vec::new();
    let mut records = status.split(|byte| *byte == 0);
    while let Some(record) = records.next().filter(|record| !record.is_empty()) {
        expected.push(record[3..].to_vec());
        if record[0] == b'R' {
            records.next();
        }
    }
    expected.sort();
    let found = match &state.dirt {
        Dirt::Clean => Vec::new(),
        Dirt::Dirty { files, .. } => files.iter().map(|file| file.path.clone()).collect(),
        other => panic!("{other:?}"),
    };
    assert_eq!(found, expected);
    state
}

/// Applies the stored diff to a clean clone and compares the whole tree with the dirty one.
#[track_caller]
pub(crate) fn diff_makes_the_same_tree(repo: &Path, state: &CodeState) {
    let Dirt::Dirty { diff, .. } = &state.dirt else { panic!("{state:?}") };
    let scratch = tempfile::tempdir().unwrap();
    let (clone, patch, index) =
        (scratch.path().join("clone"), scratch.path().join("patch"), scratch.path().join("index"));
    fs::write(&patch, diff).unwrap();
    git(repo, &[OsStr::new("clone"), OsStr::new("-q"), OsStr::new("."), clone.as_os_str()]);
    git(&clone, &["checkout", "-q", "--detach", &state.commit]);
    if !diff.is_empty() {
        git(&clone, &[OsStr::new("apply"), patch.as_os_str()]);
    }
    git(&clone, &["add", "-A", "-f"]);
    let applied = git_line(&clone, &["write-tree"]);

    // A copy of the index, brought up to the work tree, names the dirty tree without touching the repository's own.
    // A split index cannot be copied alone.
    git(repo, &["update-index", "--no-split-index"]);
    fs::copy(repo.join(".git/index"), &index).unwrap();
    git_with(repo, &["add", "-u"], &[("GIT_INDEX_FILE", &index)]);
    let dirty = git_with(repo, &["write-tree"], &[("GIT_INDEX_FILE", &index)]);
    assert_eq!(applied, String::from_utf8(dirty).unwrap().trim_end(), "{}", String::from_utf8_lossy(diff));
}
