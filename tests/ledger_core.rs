//! The library from an empty directory to statements under a head: init, write, reopen, join, refuse.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot do without ends it")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ledger::acts::{self, NamedContent, record_content};
use ledger::capture::walk::{self, Reading};
use ledger::durable::{Disk, RealDisk};
use ledger::id::object_id;
use ledger::ledger::{Error, Founder, Home, Ledger, Outcome, Signer, StagedClaim, init};
use ledger::log::key::SigningKey;
use ledger::model::{End, Fixed, Kind, Plan, Start};
use ledger::state::{Reason, RunStatus};

struct Person {
    author: SigningKey,
    log: SigningKey,
}

impl Person {
    fn new(seed: u8) -> Self {
        Self { author: SigningKey::from_seed(&[seed; 32]), log: SigningKey::from_seed(&[seed + 100; 32]) }
    }

    fn signer(&self) -> Signer<'_> {
        Signer {
            author: &self.author,
            log: Some(&self.log),
            time: 1_764_500_000,
            wait: Duration::from_secs(5),
            user: rustix::process::getuid().as_raw(),
        }
    }
}

fn found(dir: &Path, kim: &Person) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let founder = Founder {
        name: "kim",
        author: &kim.author,
        log: &kim.log,
        recovery: None,
        time: 1_764_500_000,
        nonce: [1; 16],
        instance: [2; 16],
        shared: false,
    };
    init(&disk, dir, &founder).unwrap();
}

fn open(dir: &Path) -> Ledger {
    let home = Home::new(Some(dir.join("home/state")), Some(dir.join("home/cache")));
    Ledger::open(&dir.join(".ledger"), home).unwrap()
}

fn plan(n: u8) -> Plan {
    Plan {
        nonce: Some(Fixed([n; 16])),
        name: None,
        config: None,
        code: None,
        environment: None,
        data: vec![],
        base: vec![],
        contracts: vec![],
        policies: vec![],
        spec: None,
        none: ["base", "code", "config", "data", "environment"]
            .map(|what| (what.to_owned(), "none given".to_owned()))
            .into(),
        argv: vec!["python".into(), "train.py".into()],
        seed: Some(7),
        study: None,
        arm: None,
    }
}

#[test]
fn a_run_is_planned_started_and_ended_once() {
    let dir = tempfile::tempdir().unwrap();
    let kim = Person::new(1);
    found(dir.path(), &kim);
    let mut ledger = open(dir.path());
    assert_eq!(ledger.state().size(), 1);

    let mut tx = ledger.transaction();
    let manifest = tx.put_blob(b"{}".to_vec());
    let record = plan(1);
    let encoded = tx.put(&record).unwrap();
    let run = encoded.id;
    tx.claim(StagedClaim::new(&record, &encoded).beside("manifest", manifest));
    let start =
        Start { nonce: Fixed([3; 16]), plan: run, environment: None, lost: vec![], check: "frozen".into() };
    let started = tx.put(&start).unwrap();
    tx.claim(StagedClaim::new(&start, &started));
    let outcome = tx.commit(&kim.signer()).unwrap();
    assert!(matches!(outcome, Outcome::Accepted { index: 1, .. }), "{outcome:?}");
    assert_eq!(ledger.state().run_status(run.id), Some(RunStatus::Started));

    let end = End {
        nonce: Fixed([4; 16]),
        start: started.id,
        status: "completed".into(),
        code: Some(0),
        signal: None,
    };
    let mut again = open(dir.path());
    for (who, nonce, expected) in [(&mut ledger, 4, true), (&mut again, 5, false)] {
        let end = End { nonce: Fixed([nonce; 16]), ..end.clone() };
        let mut tx = who.transaction();
        let encoded = tx.put(&end).unwrap();
        tx.claim(StagedClaim::new(&end, &encoded));
        let outcome = tx.commit(&kim.signer());
        match outcome {
            Ok(Outcome::Accepted { .. }) => assert!(expected),
            Err(Error::Refused { reason: Reason::AlreadyEnded }) => assert!(!expected),
            other => panic!("{other:?}"),
        }
    }
    let reopened = open(dir.path());
    assert_eq!(reopened.state().run_status(run.id).unwrap().to_string(), "completed");
    assert_eq!(reopened.state().size(), 4, "the second end is in the log and rejected");
    reopened.prove_inclusion(2).unwrap();
    assert_eq!(reopened.who(kim.author.public().thumbprint())[..4], *"kim ");
    assert_eq!(reopened.record::<Plan>(run.id).unwrap(), plan(1));
    assert!(reopened.pending().unwrap().is_empty());
    let found = reopened.resolve(&run.to_string()[..12], ledger::ledger::Wanted::Any, None).unwrap();
    assert_eq!(found, run);
    assert_eq!(reopened.state().claimed(Kind::Plan).len(), 1);
}

#[test]
fn a_stranger_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    found(dir.path(), &Person::new(1));
    let eve = Person::new(9);
    let mut ledger = open(dir.path());
    let before = ledger.store().ids().unwrap();
    let mut tx = ledger.transaction();
    let manifest = tx.put_blob(b"{}".to_vec());
    let record = plan(1);
    let encoded = tx.put(&record).unwrap();
    tx.claim(StagedClaim::new(&record, &encoded).beside("manifest", manifest));
    assert!(matches!(tx.commit(&eve.signer()), Err(Error::UnknownKey { .. })));
    assert_eq!(ledger.store().ids().unwrap(), before);
    assert!(ledger.pending().unwrap().is_empty());
}

#[test]
fn many_writers_share_few_heads_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kim = Person::new(1);
    found(dir.path(), &kim);
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let (kim, dir) = (&kim, dir.path());
            scope.spawn(move || {
                for n in 0..10u8 {
                    let mut ledger = open(dir);
                    let mut tx = ledger.transaction();
                    let manifest = tx.put_blob(b"{}".to_vec());
                    let record = plan(writer * 10 + n);
                    let encoded = tx.put(&record).unwrap();
                    tx.claim(StagedClaim::new(&record, &encoded).beside("manifest", manifest));
                    let outcome = tx.commit(&kim.signer()).unwrap();
                    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
                }
            });
        }
    });
    let ledger = open(dir.path());
    assert_eq!(ledger.state().claimed(Kind::Plan).len(), 80);
    assert_eq!(ledger.state().size(), 81);
}

#[test]
fn a_copy_is_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let kim = Person::new(1);
    found(dir.path(), &kim);
    let copy = tempfile::tempdir().unwrap();
    let status =
        std::process::Command::new("cp").arg("-r").arg(dir.path().join(".ledger")).arg(copy.path()).status();
    assert!(status.unwrap().success());
    let mut ledger = open(copy.path());
    assert!(ledger.is_copy());
    let tx = ledger.transaction();
    assert!(matches!(tx.commit(&kim.signer()), Err(Error::Copied { .. })));
}

#[test]
fn deleting_derived_files_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let kim = Person::new(1);
    found(dir.path(), &kim);
    for n in 0..3 {
        let mut ledger = open(dir.path());
        let mut tx = ledger.transaction();
        let manifest = tx.put_blob(b"{}".to_vec());
        let record = plan(n);
        let encoded = tx.put(&record).unwrap();
        tx.claim(StagedClaim::new(&record, &encoded).beside("manifest", manifest));
        let _ = tx.commit(&kim.signer()).unwrap();
    }
    let before = open(dir.path()).state().claimed(Kind::Plan);
    std::fs::remove_dir_all(dir.path().join("home/cache")).unwrap_or_default();
    std::fs::remove_dir_all(dir.path().join(".ledger/tmp")).unwrap();
    assert_eq!(open(dir.path()).state().claimed(Kind::Plan), before);
}

/// What somebody does to a file of five bytes that was fingerprinted and is not copied yet.
type Edit = (&'static str, fn(&Path));
const EDITS: [Edit; 5] = [
    ("other bytes, and the old size and time", |path| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        (&file).write_all(b"OTHER").unwrap();
        file.set_modified(time).unwrap();
    }),
    ("longer", |path| {
        std::fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
    }),
    ("shorter", |path| std::fs::File::options().write(true).open(path).unwrap().set_len(2).unwrap()),
    ("a link", |path| {
        std::fs::rename(path, path.with_extension("moved")).unwrap();
        std::os::unix::fs::symlink("z.moved", path).unwrap();
    }),
    ("gone", |path| std::fs::remove_file(path).unwrap()),
];

#[test]
fn a_file_that_changes_between_its_fingerprint_and_its_copy_is_not_recorded() {
    // Files of this size are fingerprinted when all smaller ones are, and copied by ascending name.
    let large = vec![7; 4 << 20];
    for (what, edit) in EDITS {
        let dir = tempfile::tempdir().unwrap();
        let kim = Person::new(1);
        found(dir.path(), &kim);
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("z"), "small").unwrap();
        std::fs::write(data.join("large"), &large).unwrap();
        let mut ledger = open(dir.path());
        let before = ledger.store().ids().unwrap();
        let told = AtomicU64::new(0);
        let is_edited = AtomicBool::new(false);
        let progress = |bytes| {
            if told.fetch_add(bytes, Ordering::Relaxed) + bytes > 5
                && !is_edited.swap(true, Ordering::Relaxed)
            {
                edit(&data.join("z"));
            }
        };
        let request = NamedContent {
            kind: Kind::Model,
            path: &data,
            name: None,
            about: BTreeMap::new(),
            from: Vec::new(),
            store: true,
            reading: Reading::default(),
        };
        let recorded =
            record_content(&mut ledger, &request, &kim.signer(), &progress, &mut |bytes| bytes.fill(7));
        assert!(is_edited.into_inner(), "{what}");
        let named = |path: &Path| path == data.join("z");
        assert!(
            matches!(&recorded, Err(acts::Error::Walk(walk::Error::Changed { path, .. })) if named(path)),
            "{what}: {recorded:?}"
        );
        // What was copied before is what its name says; of the other file there is nothing under any name.
        let mut left = ledger.store().ids().unwrap();
        left.retain(|id| !before.contains(id));
        assert_eq!(left, [object_id(&large)], "{what}");
        assert!(ledger.store().get(left[0], large.len()).unwrap() == large, "{what}");
        assert_eq!(open(dir.path()).state().size(), 1, "{what}: something is stated");
    }
}
