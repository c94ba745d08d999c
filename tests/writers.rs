//! Many writers on one ledger, honest and not: group commit, waiting for a log key, and planted files.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod people;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ledger::durable::{self, Disk, RealDisk};
use ledger::id::{StatementId, statement_id};
use ledger::ledger::{Draft, Error, Ledger, Outcome, Sequenced, Signer, StagedClaim};
use ledger::log::HeadFile;
use ledger::log::note::{SignedHead, TreeHead, origin, sign_receipt};
use ledger::model::{End, Fixed, Kind, Start, encode};
use ledger::state::{Reason, Standing};
use people::{Person, admit, found, open, plan, scratch, stage};

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn founded() -> (tempfile::TempDir, Person) {
    let dir = scratch();
    let kim = Person::new(1);
    found(&disk(), dir.path(), &kim).unwrap();
    (dir, kim)
}

fn write(ledger: &mut Ledger, n: u32, signer: &Signer<'_>) -> Result<Outcome, Error> {
    let mut tx = ledger.transaction();
    stage(&mut tx, n)?;
    tx.commit(signer)
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

fn index(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::Accepted { index, .. } => *index,
        Outcome::Queued { why, .. } => panic!("queued: {why}"),
    }
}

fn own_pending(dir: &Path, user: u32) -> PathBuf {
    dir.join(".ledger/log/pending").join(user.to_string())
}

#[test]
fn a_crowd_of_sixteen_shares_heads_and_loses_nothing() {
    const WRITERS: u32 = 16;
    const EACH: u32 = 20;
    let (dir, kim) = founded();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (kim, dir) = (&kim, dir.path());
            scope.spawn(move || {
                let mut ledger = open(&disk(), dir).unwrap();
                for n in 0..EACH {
                    let n = writer * EACH + n;
                    index(&write(&mut ledger, n, &kim.at(u64::from(n))).unwrap());
                }
            });
        }
    });
    let ledger = open(&disk(), dir.path()).unwrap();
    let all = WRITERS * EACH;
    assert_eq!(ledger.state().size(), u64::from(all) + 1);
    let claimed: BTreeSet<_> = ledger.state().claimed(Kind::Plan).into_iter().map(|(id, _)| id).collect();
    let wanted: BTreeSet<_> = (0..all).map(|n| encode(&plan(n)).unwrap().id).collect();
    assert_eq!(claimed, wanted);
    for n in 0..all {
        let claim = ledger.claim_of(encode(&plan(n)).unwrap().id).unwrap().unwrap();
        let manifest = ledger.bytes(claim.link("manifest").unwrap().id).unwrap();
        assert_eq!(manifest, format!("{{\"run\": {n}}}").into_bytes(), "everybody's content is their own");
    }
    assert!(ledger.pending().unwrap().is_empty());
    let heads = files_below(&dir.path().join(".ledger/log/heads")).len();
    assert!(heads <= (all / 4) as usize, "{heads} heads for {all} statements");
}

#[test]
fn what_a_writer_without_a_log_key_says_is_ordered_by_the_next_who_has_one() {
    let (dir, kim) = founded();
    let ben = Person::new(2);
    let mut hers = open(&disk(), dir.path()).unwrap();
    index(&admit(&mut hers, &kim.at(1), "ben", &[(&ben.author, "author")]).unwrap());
    let mut his = open(&disk(), dir.path()).unwrap();
    let signer = ben.at(2);

    // A plan, a start and an end follow each other while they all wait.
    let mut tx = his.transaction();
    let run = stage(&mut tx, 7).unwrap();
    let start =
        Start { nonce: Fixed([3; 16]), plan: run, environment: None, lost: vec![], check: "frozen".into() };
    let started = tx.put(&start).unwrap();
    tx.claim(StagedClaim::new(&start, &started));
    let outcome = tx.commit(&signer).unwrap();
    let Outcome::Queued { statement: first, why } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("log key"), "{why}");
    assert_eq!(his.state().size(), 2);
    assert_eq!(his.pending().unwrap().len(), 1);
    assert!(his.settle_own(signer.user).unwrap().is_empty(), "nothing has become of it yet");

    // Kim's next write takes it along, and leaves the file to its owner.
    assert_eq!(index(&write(&mut hers, 8, &kim.at(3)).unwrap()), 3);
    assert_eq!(hers.state().size(), 4);
    let found = hers.state().statement(first).unwrap();
    assert_eq!(found, (2, Standing::Accepted));
    his.refresh().unwrap();
    assert_eq!(his.settle_own(signer.user).unwrap(), [(first, Standing::Accepted)]);
    assert!(his.pending().unwrap().is_empty());
    assert!(his.settle_own(signer.user).unwrap().is_empty(), "it is reported once");

    // Two ends of the one attempt wait: the earlier counts, the other is told so.
    let mut waiting = Vec::new();
    for nonce in [1, 2] {
        let status = if nonce == 1 { "completed" } else { "failed" };
        let end = End {
            nonce: Fixed([nonce; 16]),
            start: started.id,
            status: status.into(),
            code: None,
            signal: None,
        };
        let mut tx = his.transaction();
        let encoded = tx.put(&end).unwrap();
        tx.claim(StagedClaim::new(&end, &encoded));
        match tx.commit(&ben.at(10 + u64::from(nonce))).unwrap() {
            Outcome::Queued { statement, .. } => waiting.push(statement),
            other @ Outcome::Accepted { .. } => panic!("{other:?}"),
        }
    }
    assert!(matches!(hers.sequence(&kim.at(20), None).unwrap(), Sequenced::Waiting { .. }));
    his.refresh().unwrap();
    let mut settled = his.settle_own(signer.user).unwrap();
    settled.sort_by_key(|(_, standing)| *standing != Standing::Accepted);
    let lost = Standing::Rejected(Reason::AlreadyEnded);
    assert_eq!(settled, [(waiting[0], Standing::Accepted), (waiting[1], lost)]);
    assert_eq!(his.state().run_status(run.id).unwrap().to_string(), "completed");
}

#[test]
fn malformed_files_are_set_aside_and_block_nobody() {
    let (dir, kim) = founded();
    let mut ledger = open(&disk(), dir.path()).unwrap();
    let user = kim.at(0).user;
    index(&write(&mut ledger, 1, &kim.at(1)).unwrap());
    let good = ledger.log().statement(ledger.head().head().size, 1).unwrap();
    let mut edited = good.clone();
    *edited.last_mut().unwrap() ^= 1;
    let folder = own_pending(dir.path(), user);
    let plants = [
        (statement_id(b"noise"), b"noise".to_vec()),
        // Under a name that is not its own.
        (statement_id(b"other"), good.clone()),
        // With a signature that is not its author's.
        (statement_id(&edited), edited),
        (statement_id(b""), Vec::new()),
    ];
    for (id, bytes) in &plants {
        std::fs::write(folder.join(id.to_hex()), bytes).unwrap();
    }
    // Neither is a statement: too large to be one, a directory, and names that are no ids.
    let large = statement_id(b"large");
    std::fs::write(folder.join(large.to_hex()), vec![0; 70_000]).unwrap();
    let directory = statement_id(b"directory");
    std::fs::create_dir(folder.join(directory.to_hex())).unwrap();
    std::fs::write(folder.join("README"), b"hello").unwrap();
    std::fs::write(dir.path().join(".ledger/log/pending/README"), b"hello").unwrap();
    let link = statement_id(b"link");
    std::os::unix::fs::symlink("/etc/hostname", folder.join(link.to_hex())).unwrap();

    assert_eq!(index(&write(&mut ledger, 2, &kim.at(2)).unwrap()), 2);
    let refused = dir.path().join(".ledger/log/refused").join(user.to_string());
    for (id, bytes) in &plants {
        assert_eq!(&std::fs::read(refused.join(id.to_hex())).unwrap(), bytes, "kept as it was");
        assert_eq!(ledger.state().statement(*id), None, "and not in the log");
    }
    let waiting: Vec<StatementId> = ledger.pending().unwrap().iter().map(|pending| pending.id).collect();
    assert_eq!(waiting, [large], "what cannot be read stays and is shown");
    assert!(folder.join(directory.to_hex()).is_dir());
    assert_eq!(ledger.state().size(), 3);
}

#[test]
fn an_unreadable_file_blocks_nobody_and_is_reported_with_its_owner() {
    const BOUND: &str = "LEDGER_TEST_BOUND";
    if rustix::process::getuid().is_root() && std::env::var_os(BOUND).is_none() {
        // Modes do not bind this user, unless the right to pass over them is given up first.
        let name = "an_unreadable_file_blocks_nobody_and_is_reported_with_its_owner";
        let mut command = std::process::Command::new("setpriv");
        let without = "-dac_override,-dac_read_search";
        command.args(["--bounding-set", without, "--inh-caps", without]);
        command.arg(std::env::current_exe().unwrap()).args(["--exact", name]).env(BOUND, "1");
        let Ok(output) = command.output() else {
            println!("skipped: {name} needs setpriv when root runs it");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let (dir, kim) = founded();
    let mut ledger = open(&disk(), dir.path()).unwrap();
    let user = kim.at(0).user;
    let id = statement_id(b"secret");
    std::fs::create_dir_all(own_pending(dir.path(), user)).unwrap();
    let path = own_pending(dir.path(), user).join(id.to_hex());
    std::fs::write(&path, b"secret").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    assert!(std::fs::read(&path).is_err(), "the file can be read, so nothing would be tested");
    index(&write(&mut ledger, 1, &kim.at(1)).unwrap());
    let pending = ledger.pending().unwrap();
    assert_eq!((pending[0].id, pending[0].user, pending[0].bytes.is_none()), (id, user, true));
}

#[test]
fn a_file_in_the_folder_of_another_user_is_nobodys_statement() {
    let (dir, kim) = founded();
    let ben = Person::new(2);
    let mut ledger = open(&disk(), dir.path()).unwrap();
    index(&admit(&mut ledger, &kim.at(1), "ben", &[(&ben.author, "author")]).unwrap());
    let user = kim.at(0).user;
    let outcome = write(&mut ledger, 1, &ben.at(2)).unwrap();
    let Outcome::Queued { statement, .. } = outcome else { panic!("{outcome:?}") };
    // Good in itself, but the folder's name says that somebody else has written it.
    let elsewhere = own_pending(dir.path(), user + 4242);
    std::fs::create_dir(&elsewhere).unwrap();
    let moved = elsewhere.join(statement.to_hex());
    std::fs::rename(own_pending(dir.path(), user).join(statement.to_hex()), &moved).unwrap();
    assert!(ledger.pending().unwrap().is_empty());
    assert_eq!(index(&write(&mut ledger, 2, &kim.at(3)).unwrap()), 2);
    assert_eq!(ledger.state().statement(statement), None);
    assert!(moved.exists(), "files of others are not deleted");
}

/// A head file that extends the log by one good statement, signed by whoever.
fn planted(ledger: &Ledger, statement: Vec<u8>, signer: &Person) -> HeadFile {
    let size = ledger.head().head().size;
    let mut state = ledger.state().clone();
    let parsed = ledger::log::statement::Statement::parse(&statement).unwrap();
    let _standing = state.apply(parsed.id, Some(&parsed), ledger::state::Checks::GOOD);
    let head = TreeHead { origin: origin(ledger.id()), size: size + 1, root: state.root() };
    HeadFile {
        extends: size,
        statements: vec![statement],
        head: SignedHead::sign(head, &signer.log).unwrap(),
        receipt: sign_receipt(state.root(), &signer.log),
    }
}

#[test]
fn a_planted_head_is_refused_and_nothing_of_it_is_published() {
    let (dir, kim) = founded();
    let (ben, eve) = (Person::new(2), Person::new(9));
    let mut ledger = open(&disk(), dir.path()).unwrap();
    index(&admit(&mut ledger, &kim.at(1), "ben", &[(&ben.author, "author")]).unwrap());
    let outcome = write(&mut ledger, 1, &ben.at(2)).unwrap();
    let Outcome::Queued { statement, .. } = outcome else { panic!("{outcome:?}") };
    let bytes = ledger.pending().unwrap().remove(0).bytes.unwrap();
    let path = dir.path().join(".ledger/log/heads/002");
    let before = files_below(&dir.path().join(".ledger/log/tile"));
    let published = std::fs::read(dir.path().join(".ledger/log/checkpoint")).unwrap();
    let refused = |ledger: &mut Ledger| {
        let outcome = write(ledger, 5, &kim.at(5));
        assert_eq!(files_below(&dir.path().join(".ledger/log/tile")), before);
        assert_eq!(std::fs::read(dir.path().join(".ledger/log/checkpoint")).unwrap(), published);
        // What was to be written is durable and kept; only the log does not take it.
        match outcome.unwrap_err() {
            Error::Stuck { source, .. } => *source,
            other => panic!("{other:?}"),
        }
    };

    let good = planted(&ledger, bytes.clone(), &kim);
    let by_a_stranger = planted(&ledger, bytes, &eve);
    let mut other_root = by_a_stranger.clone();
    other_root.head = good.head.clone();
    other_root.statements = vec![ledger.log().statement(2, 1).unwrap()];
    std::fs::write(&path, by_a_stranger.encode()).unwrap();
    let error = refused(&mut ledger);
    assert!(matches!(error, Error::HeadSignature { size: 3, .. }), "{error:?}");
    // A good signature over another batch.
    std::fs::write(&path, other_root.encode()).unwrap();
    let error = refused(&mut ledger);
    assert!(error.to_string().contains("log/heads/002") || matches!(error, Error::Files(_)), "{error:?}");
    // Cut short.
    std::fs::write(&path, &good.encode()[..50]).unwrap();
    let error = refused(&mut ledger);
    let text = format!("{error} {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(text.contains("log/heads/002"), "{text}");
    // It can be moved out of the way, and what it held up goes on.
    let (scratch_dir, sue) = founded();
    let mut blocked = open(&disk(), scratch_dir.path()).unwrap();
    let in_the_way = scratch_dir.path().join(".ledger/log/heads/001");
    std::fs::write(&in_the_way, b"not a commit").unwrap();
    assert!(matches!(write(&mut blocked, 1, &sue.at(1)), Err(Error::Stuck { .. })));
    assert_eq!(blocked.repair().unwrap(), Some(1));
    assert!(!in_the_way.exists());
    assert!(scratch_dir.path().join(".ledger/log/refused/heads/001").exists(), "it is kept for whoever asks");
    assert_eq!(index(&write(&mut blocked, 2, &sue.at(2)).unwrap()), 2, "what was stuck came first");
    assert_eq!(blocked.repair().unwrap(), None);
    // Readers are not held up by what no head covers yet.
    assert_eq!(open(&disk(), dir.path()).unwrap().state().size(), 2);

    // The same by a log key is a commit that somebody did not come to publish: the next writer does.
    std::fs::write(&path, good.encode()).unwrap();
    assert_eq!(ledger.state().statement(statement), None);
    assert_eq!(
        index(&write(&mut ledger, 6, &kim.at(6)).unwrap()),
        4,
        "what was queued meanwhile comes along"
    );
    assert_eq!(ledger.state().statement(statement), Some((2, Standing::Accepted)));
}

#[test]
fn a_head_that_was_put_back_by_a_race_is_no_loss() {
    let (dir, kim) = founded();
    let mut ledger = open(&disk(), dir.path()).unwrap();
    index(&write(&mut ledger, 1, &kim.at(1)).unwrap());
    let published = dir.path().join(".ledger/log/checkpoint");
    let older = std::fs::read(&published).unwrap();
    index(&write(&mut ledger, 2, &kim.at(2)).unwrap());
    let newer = std::fs::read(&published).unwrap();
    // Somebody without the lock has published the commit before, late.
    std::fs::write(&published, &older).unwrap();

    // Whoever has seen more reads on in the commits, and changes nothing by that.
    let read = open(&disk(), dir.path()).unwrap();
    assert_eq!(read.head().head().size, 3);
    assert!(read.claim_of(encode(&plan(2)).unwrap().id).unwrap().is_some());
    read.prove_inclusion(2).unwrap();
    assert_eq!(std::fs::read(&published).unwrap(), older);
    // Without memory it is a shorter log, which is as true.
    let plain = ledger::ledger::Home::default();
    assert_eq!(Ledger::open(&dir.path().join(".ledger"), plain).unwrap().state().size(), 2);
    // Without the commit it is a log that lost something.
    let commit = dir.path().join(".ledger/log/heads/002");
    let bytes = std::fs::read(&commit).unwrap();
    std::fs::remove_file(&commit).unwrap();
    let behind = open(&disk(), dir.path()).unwrap_err();
    assert!(matches!(behind, Error::Behind { here: 2, known: 3 }), "{behind:?}");
    std::fs::write(&commit, &bytes).unwrap();
    // The next writer puts it right.
    let mut next = open(&disk(), dir.path()).unwrap();
    assert_eq!(index(&write(&mut next, 3, &kim.at(3)).unwrap()), 3);
    assert_ne!(std::fs::read(&published).unwrap(), newer);
    let mut other = Ledger::open(&dir.path().join(".ledger"), ledger::ledger::Home::default()).unwrap();
    assert_eq!(other.state().size(), 4);
    // A writer without memory finishes what it finds, and so does one who only looks after the log.
    std::fs::write(&published, &older).unwrap();
    other.refresh().unwrap();
    let mut fresh = Ledger::open(&dir.path().join(".ledger"), ledger::ledger::Home::default()).unwrap();
    assert_eq!(fresh.state().size(), 2);
    fresh.refresh().unwrap();
    assert_eq!(fresh.state().size(), 4);
    assert_eq!(open(&disk(), dir.path()).unwrap().log().head().unwrap().head().size, 4);
}

#[test]
fn a_busy_log_makes_a_writer_late_and_loses_nothing() {
    let (dir, kim) = founded();
    let mut ledger = open(&disk(), dir.path()).unwrap();
    let held = ledger.durable().lock(Path::new("log/lock"), Duration::ZERO).unwrap();
    let impatient = Signer { wait: Duration::ZERO, ..kim.at(1) };
    let outcome = write(&mut ledger, 1, &impatient).unwrap();
    let Outcome::Queued { statement, .. } = outcome else { panic!("{outcome:?}") };
    let error = ledger.append(&drafts(5..6), &impatient).unwrap_err();
    assert!(matches!(error, Error::Disk(durable::Error::Busy { .. })), "{error:?}");
    drop(held);
    assert_eq!(index(&write(&mut ledger, 2, &kim.at(2)).unwrap()), 2);
    assert_eq!(ledger.state().statement(statement), Some((1, Standing::Accepted)));
}

fn drafts(numbers: std::ops::Range<u32>) -> Vec<Draft> {
    let manifest = b"{}".to_vec();
    let blob = ledger::model::TypedId::new(Kind::Blob, ledger::id::object_id(&manifest));
    numbers
        .map(|n| {
            let record = plan(n);
            let encoded = encode(&record).unwrap();
            let claims = vec![StagedClaim::new(&record, &encoded).beside("manifest", blob)];
            Draft { objects: vec![encoded.bytes, manifest.clone()], claims }
        })
        .collect()
}

#[test]
fn many_statements_are_appended_with_few_heads_or_not_at_all() {
    let (dir, kim) = founded();
    let ben = Person::new(2);
    let mut ledger = open(&disk(), dir.path()).unwrap();
    let placed = ledger.append(&drafts(0..5000), &kim.at(1)).unwrap();
    let indexes: Vec<u32> = placed.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, (1..=5000).collect::<Vec<u32>>());
    assert!(placed.iter().all(|(_, standing)| *standing == Standing::Accepted));
    assert_eq!(files_below(&dir.path().join(".ledger/log/heads")).len(), 3);
    let reopened = open(&disk(), dir.path()).unwrap();
    assert_eq!(reopened.state().claimed(Kind::Plan).len(), 5000);
    reopened.prove_inclusion(4999).unwrap();

    // Equal drafts are one statement.
    let twice = [drafts(6000..6001), drafts(6000..6001)].concat();
    let placed = ledger.append(&twice, &kim.at(2)).unwrap();
    assert_eq!(placed, [(5001, Standing::Accepted); 2]);
    assert_eq!(ledger.state().size(), 5002);
    assert_eq!(ledger.append(&[], &kim.at(3)).unwrap(), []);

    // One that would be refused refuses all, and nothing is written.
    let orphan = Start {
        nonce: Fixed([1; 16]),
        plan: encode(&plan(9999)).unwrap().id,
        environment: None,
        lost: vec![],
        check: "frozen".into(),
    };
    let encoded = encode(&orphan).unwrap();
    let mut mixed = drafts(7000..7003);
    mixed.push(Draft { claims: vec![StagedClaim::new(&orphan, &encoded)], objects: vec![encoded.bytes] });
    let error = ledger.append(&mixed, &kim.at(4)).unwrap_err();
    assert!(matches!(error, Error::Refused { reason: Reason::LinkNotAccepted }), "{error:?}");
    assert_eq!(open(&disk(), dir.path()).unwrap().state().size(), 5002);
    assert!(!ledger.store().contains(encode(&plan(7000)).unwrap().id.id).unwrap());
    // It takes a key of the ledger, and one that may order.
    let stranger = ledger.append(&drafts(8000..8001), &ben.at(5)).unwrap_err();
    assert!(matches!(stranger, Error::UnknownKey { .. }), "{stranger:?}");
    let without = Signer { log: None, ..kim.at(5) };
    let error = ledger.append(&drafts(8000..8001), &without).unwrap_err();
    assert!(matches!(error, Error::Refused { reason: Reason::RoleNotAllowed }), "{error:?}");
}
