//! Checking a ledger of twenty statements: whatever is done to one file is named, or does no harm.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod recorded;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::durable::RealDisk;
use ledger::fsck::{self, Report};
use ledger::ledger::StagedClaim;
use ledger::log::HeadFile;
use ledger::log::key::SigningKey;
use ledger::log::note::{SignedHead, sign_receipt};
use ledger::model::{Fixed, Note};
use ledger::store;
use ledger::verify::Severity;
use recorded::Project;

fn twenty() -> Project {
    let project = Project::new();
    assert_eq!(project.checkpoints.len(), 2);
    for n in 6..20 {
        let note = Note { nonce: Fixed([n; 16]), subject: project.plan, text: format!("note {n}") };
        project.commit(|tx| {
            let encoded = tx.put(&note).unwrap();
            tx.claim(StagedClaim::new(&note, &encoded));
        });
    }
    assert_eq!(project.open().state().size(), 20);
    project
}

fn check(project: &Project) -> Report {
    fsck::check(Arc::new(RealDisk), &project.path(".ledger"), None, &|_| {}).unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn put(path: &Path, bytes: &[u8]) {
    if path.exists() {
        fs::remove_file(path).unwrap();
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_ledger_has_no_findings() {
    let project = twenty();
    let report = check(&project);
    assert_eq!(report.findings, []);
    assert_eq!((report.exit(), report.statements), (0, 20));
    assert_eq!(report.objects, project.open().store().ids().unwrap().len() as u64);
    let ledger = project.open();
    let cached = fsck::check(Arc::new(RealDisk), ledger.root(), Some(ledger.state()), &|_| {}).unwrap();
    assert_eq!(cached.findings, []);
}

/// What is done to one file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    FlipFirst,
    FlipLast,
    Truncate,
    Empty,
    Append,
    Delete,
}

const HARMS: [Harm; 6] =
    [Harm::FlipFirst, Harm::FlipLast, Harm::Truncate, Harm::Empty, Harm::Append, Harm::Delete];

fn harm(path: &Path, good: &[u8], harm: Harm) {
    let mut bytes = good.to_vec();
    match harm {
        Harm::FlipFirst => bytes[0] ^= 1,
        Harm::FlipLast => *bytes.last_mut().unwrap() ^= 1,
        Harm::Truncate => bytes.truncate(good.len() - 1),
        Harm::Empty => bytes.clear(),
        Harm::Append => bytes.push(b'x'),
        Harm::Delete => return fs::remove_file(path).unwrap(),
    }
    put(path, &bytes);
}

/// Whether a file may be gone without anything missing.
fn is_dispensable(rel: &str, current: &[String]) -> bool {
    let is_old_tile = rel.starts_with("log/tile/") && !current.contains(&rel.to_owned());
    rel.starts_with("log/heads/") || is_old_tile || rel == "log/lock"
}

#[test]
fn whatever_happens_to_one_file_is_named() {
    let project = twenty();
    let root = project.path(".ledger");
    let current: Vec<String> =
        ledger::log::tile::Tile::all(20).map(|tile| format!("log/{}", tile.path())).collect();
    let mut tried = 0;
    for path in files(&root) {
        let rel = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if rel.starts_with("tmp/") || rel.starts_with("runs/") || rel == "log/lock" {
            continue;
        }
        let good = fs::read(&path).unwrap();
        for what in HARMS {
            if good.is_empty() {
                continue;
            }
            harm(&path, &good, what);
            let report = match fsck::check(Arc::new(RealDisk), &root, None, &|_| {}) {
                Ok(report) => report,
                Err(error) => {
                    assert_eq!(rel, "format", "{what:?} of {rel}: {error}");
                    put(&path, &good);
                    continue;
                }
            };
            tried += 1;
            let findings: Vec<_> =
                report.findings.iter().filter(|finding| finding.severity > Severity::Skip).collect();
            if matches!(what, Harm::Delete) && is_dispensable(&rel, &current) {
                assert!(findings.is_empty(), "{what:?} of {rel} is harmless: {findings:?}");
            } else {
                let is_named = findings.iter().any(|finding| {
                    let at = finding.at.as_deref().unwrap_or_default();
                    at == rel || (rel.contains("tile/entries") && at.starts_with("statement "))
                });
                assert!(is_named, "{what:?} of {rel} is not named: {findings:?}");
                let accused = findings.iter().filter(|finding| finding.severity > Severity::Warn);
                let accused: BTreeSet<_> = accused.map(|finding| finding.at.as_deref()).collect();
                assert!(accused.len() <= 1, "{what:?} of {rel} accuses others: {findings:?}");
                let is_loose = matches!(rel.as_str(), ".gitignore" | "place");
                // A name that was left out is no damage, everything else is.
                let is_left_out = matches!(what, Harm::Delete) && rel.starts_with("objects/");
                if !(is_loose || is_left_out) {
                    assert_eq!(report.exit(), 5, "{what:?} of {rel}: {findings:?}");
                }
            }
            put(&path, &good);
        }
    }
    assert!(tried > 300, "{tried} harms");
    assert_eq!(check(&project).findings, [], "everything was put back");
}

#[test]
fn two_files_that_changed_places_are_named() {
    let project = twenty();
    let root = project.path(".ledger");
    let ids = project.open().store().ids().unwrap();
    let pairs = [
        [store::place(ids[0]), store::place(ids[1])],
        ["log/heads/003".into(), "log/heads/004".into()],
        ["log/tile/0/000.p/19".into(), "log/tile/0/000.p/20".into()],
        ["log/tile/entries/000.p/19".into(), "log/tile/entries/000.p/20".into()],
    ];
    for pair in pairs {
        let paths = pair.clone().map(|rel| root.join(rel));
        let bytes = paths.clone().map(|path| fs::read(path).unwrap());
        put(&paths[0], &bytes[1]);
        put(&paths[1], &bytes[0]);
        let report = check(&project);
        assert_eq!(report.exit(), 5, "{pair:?}");
        for rel in &pair {
            let is_named = report.findings.iter().any(|finding| finding.at.as_deref() == rel.to_str());
            let is_old = rel.ends_with("19");
            assert!(is_named || is_old, "{}: {:?}", rel.display(), report.findings);
        }
        put(&paths[0], &bytes[0]);
        put(&paths[1], &bytes[1]);
    }
    assert_eq!(check(&project).findings, []);
}

#[test]
fn a_head_that_was_rolled_back_is_finished_or_named() {
    let project = twenty();
    let root = project.path(".ledger");
    let head = root.join("log/checkpoint");
    let good = fs::read(&head).unwrap();
    let file = project.open().log().head_file(10).unwrap().unwrap();
    put(&head, file.head.as_str().as_bytes());
    // Its successor is kept, so the next command finishes what is known to have been committed.
    let report = check(&project);
    assert_eq!(report.statements, 11);
    assert!(report.findings.iter().any(|finding| finding.slug == "left-over"));
    for entry in files(&root.join("log/heads")) {
        fs::remove_file(entry).unwrap();
    }
    let report = check(&project);
    assert_eq!(report.exit(), 5, "tiles beyond the head without a commit");
    put(&head, &good);
    assert_eq!(check(&project).findings, [], "head files repeat the log and may be gone");
}

#[test]
fn a_head_does_not_decide_how_much_is_read() {
    let project = twenty();
    let path = project.path(".ledger/log/checkpoint");
    let head = fs::read_to_string(&path).unwrap();
    for size in ["7", "19", "21", "257", "100000", "4000000000", "9223372036854775807"] {
        put(&path, head.replacen("\n20\n", &format!("\n{size}\n"), 1).as_bytes());
        let report = check(&project);
        assert_eq!(report.exit(), 5, "{size}");
        let named: Vec<_> = report.damage().map(|finding| finding.at.as_deref().unwrap()).collect();
        assert_eq!(named, ["log/checkpoint"], "nothing is missing: {:?}", report.findings);
    }
    // Where a tile is gone as well, nothing tells that the size is false.
    fs::remove_file(project.path(".ledger/log/tile/entries/000.p/20")).unwrap();
    let report = check(&project);
    assert!(report.damage().any(|finding| finding.slug == "tile"), "{:?}", report.findings);
}

#[test]
fn a_commit_is_signed_by_one_key_in_both_its_forms() {
    let project = twenty();
    let file = project.open().log().head_file(10).unwrap().unwrap();
    let (ours, other) = (SigningKey::from_seed(&[31; 32]), SigningKey::from_seed(&[32; 32]));
    let keys = [ours.public(), other.public()];
    let head = file.head.head().clone();
    let signed = |by: &SigningKey, receipt: &SigningKey| HeadFile {
        head: SignedHead::sign(head.clone(), by).unwrap(),
        receipt: sign_receipt(head.root, receipt),
        ..file.clone()
    };
    for (by, key) in [(&ours, &keys[0]), (&other, &keys[1])] {
        assert_eq!(signed(by, by).verify(&keys).unwrap(), key);
    }
    assert!(signed(&ours, &other).verify(&keys).is_err(), "the receipt is by another key of the log");
    assert!(signed(&ours, &ours).verify(&keys[1..]).is_err());
}

#[test]
fn what_is_left_over_or_strange_is_told_and_no_damage() {
    let project = twenty();
    project.lay(".ledger/tmp/half", b"x");
    project.lay(".ledger/objects/README", b"x");
    project.lay(".ledger/notes.txt", b"x");
    project.lay(".ledger/log/pending/1/zz", b"x");
    fs::create_dir(project.path(".ledger.new-1234")).unwrap();
    let report = check(&project);
    assert_eq!(report.exit(), 0, "{:?}", report.findings);
    let told: Vec<(&str, &str)> =
        report.findings.iter().map(|f| (f.slug, f.at.as_deref().unwrap_or_default())).collect();
    for expected in [
        ("left-over", "tmp/half"),
        ("stray", "objects/README"),
        ("stray", "notes.txt"),
        ("pending", "log/pending/1/zz"),
        ("left-over", ".ledger.new-1234"),
    ] {
        assert!(told.contains(&expected), "{expected:?} in {told:?}");
    }
    assert_eq!(told.len(), 5);
    put(&project.path(".ledger/format"), b"ledger-format/1\nof a later year\nshared no\n");
    assert_eq!(check(&project).exit(), 0, "a line that this version does not know says nothing to it");
    for wrong in
        ["ledger-format/1\n", "ledger-format/1\nshared no\nshared no\n", "ledger-format/1\nshared no"]
    {
        put(&project.path(".ledger/format"), wrong.as_bytes());
        assert_eq!(check(&project).exit(), 5, "{wrong:?}");
    }
    let elsewhere = fsck::check(Arc::new(RealDisk), &project.path("out"), None, &|_| {});
    assert!(matches!(elsewhere, Err(fsck::Error::Ledger(ledger::ledger::Error::NotALedger { .. }))));
}
