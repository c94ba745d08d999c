//! A crash at every operation of a fork: what is left is the old ledger or the new one, and each goes on.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "people/mod.rs"]
mod people;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::durable::fault::{Fault, FaultDisk, Loss};
use ledger::durable::{Disk, RealDisk};
use ledger::fsck;
use ledger::id::{LedgerId, object_id};
use ledger::ledger::{Draft, Error, Forked, Forker, Home, Ledger, Outcome, StagedClaim, finish_fork};
use ledger::log::key::SigningKey;
use ledger::model::{Fixed, Kind, Note, TypedId, encode};
use ledger::state::{Place, Reason, Standing};
use ledger::verify::Severity;
use people::{Person, admit, found, open, scratch, stage};
use rayon::prelude::*;

const WAIT: Duration = Duration::from_secs(5);

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn write(ledger: &mut Ledger, n: u32, by: &Person) -> Result<Outcome, Error> {
    let mut tx = ledger.transaction();
    stage(&mut tx, n)?;
    tx.commit(&by.at(u64::from(n)))
}

/// Lays a ledger of four statements, one of which is queued, as somebody has copied it.
fn lay(dir: &Path) -> LedgerId {
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::counting(dir));
    let (kim, ben) = (Person::new(1), Person::new(2));
    let id = found(&disk, dir, &kim).unwrap();
    let mut ledger = open(&disk, dir).unwrap();
    let _ = admit(&mut ledger, &kim.at(2), "ben", &[(&ben.author, "author")]).unwrap();
    assert!(matches!(write(&mut ledger, 3, &kim), Ok(Outcome::Accepted { index: 2, .. })));
    let mut queued = ledger.transaction();
    stage(&mut queued, 4).unwrap();
    let queued = queued.commit(&ledger::ledger::Signer { log: None, ..ben.at(4) }).unwrap();
    assert!(matches!(queued, Outcome::Queued { .. }));
    std::fs::remove_file(dir.join(".ledger/place")).unwrap();
    std::fs::remove_dir_all(dir.join("home")).unwrap();
    id
}

fn fork_by(disk: &Arc<dyn Disk>, dir: &Path, author: &SigningKey, log: &SigningKey) -> Result<Forked, Error> {
    let ledger = Ledger::open_on(Arc::clone(disk), &dir.join(".ledger"), Home::default())?;
    ledger.fork(&Forker { author, log, time: 9, nonce: [9; 16], instance: [8; 16] }, WAIT)
}

fn fork(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Forked, Error> {
    let kim = Person::new(1);
    fork_by(disk, dir, &kim.author, &kim.log)
}

/// Goes on from whatever is left; returns whether the fork stood before anybody put a hand to it.
fn look(dir: &Path, old: LedgerId) -> Result<bool, String> {
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::counting(dir));
    let root = dir.join(".ledger");
    let say = |what: &str| {
        let what = what.to_owned();
        move |error: Error| format!("{what}: {error:?}")
    };
    let found = match open(&disk, dir) {
        Ok(ledger) => Some(ledger.id()),
        Err(Error::HalfForked { .. }) => None,
        Err(error) => return Err(format!("it does not open: {error:?}")),
    };
    let finished = finish_fork(&disk, &root, [7; 16]).map_err(say("it cannot be finished"))?;
    match (found, finished) {
        (None, None) => return Err("a half-done fork is not finished".to_owned()),
        (Some(id), None) if id == old => {
            let ledger = open(&disk, dir).map_err(say("the old one does not open"))?;
            if ledger.head().head().size != 3 || !ledger.is_copy() || ledger.pending().unwrap().len() != 1 {
                return Err("the old one is not as it was".to_owned());
            }
            drop(ledger);
            let _ = fork(&disk, dir).map_err(say("the fork cannot be made again"))?;
        }
        (Some(id), Some(_)) if id == old => return Err("the old one was taken for the new one".to_owned()),
        _ => {}
    }
    let mut ledger = open(&disk, dir).map_err(say("the new one does not open"))?;
    let parents = ledger.state().parents().to_vec();
    if ledger.id() == old || parents.len() != 1 || (parents[0].ledger, parents[0].size) != (old, 3) {
        return Err(format!("it does not go on from the old one: {parents:?}"));
    }
    if ledger.is_copy() {
        return Err("nobody may write to it".to_owned());
    }
    match write(&mut ledger, 5, &Person::new(1)) {
        Ok(Outcome::Accepted { index: 4, .. }) => {}
        other => return Err(format!("the next write fails: {other:?}")),
    }
    let queued = root.join("parents").join(old.to_hex()).join("log/pending");
    let queued =
        std::fs::read_dir(queued).unwrap().flat_map(|user| std::fs::read_dir(user.unwrap().path()).unwrap());
    if queued.count() != 1 {
        return Err("what was queued is gone".to_owned());
    }
    let report = fsck::check(disk, &root, None, &|_| ()).map_err(|error| error.to_string())?;
    match report.findings.into_iter().find(|finding| finding.severity != Severity::Ok) {
        None => Ok(found.is_some_and(|id| id != old)),
        Some(finding) => Err(format!("fsck: {finding:?}")),
    }
}

#[test]
fn a_crash_leaves_the_old_ledger_or_the_new_one() {
    let laid = scratch();
    let old = lay(laid.path());
    let run = |at: usize, fault: Option<Fault>, loss: Loss| -> Result<(Vec<String>, bool, bool), String> {
        let dir = scratch();
        copy(laid.path(), dir.path());
        let disk = match fault {
            Some(fault) => FaultDisk::failing(dir.path(), at, fault),
            None => FaultDisk::counting(dir.path()),
        };
        let disk = Arc::new(disk);
        let shared: Arc<dyn Disk> = Arc::<FaultDisk>::clone(&disk);
        let is_told = fork(&shared, dir.path()).is_ok();
        disk.cut_power(loss).unwrap();
        let stood = look(dir.path(), old)?;
        if is_told && !stood {
            Err("what was told is not there".to_owned())
        } else {
            Ok((disk.operations(), is_told, stood))
        }
    };
    let (operations, is_told, stood) = run(0, None, Loss::Names).unwrap();
    assert!(is_told && stood && operations.len() > 30, "{operations:?}");
    let mut points = Vec::new();
    for at in 0..operations.len() {
        points.extend([Loss::Nothing, Loss::Content, Loss::Names].map(|loss| (at, Fault::Stop, loss)));
        let losses = [Loss::Nothing, Loss::Names, Loss::Part(at as u64)];
        points.extend(losses.map(|loss| (at, Fault::StopAfter, loss)));
        points.push((at, Fault::Misreport, Loss::Nothing));
    }
    let all: Vec<(String, Result<_, String>)> = points
        .par_iter()
        .map(|(at, fault, loss)| {
            let said = run(*at, Some(*fault), *loss);
            (format!("{at} `{}`, {fault:?}, {loss:?}", operations[*at]), said)
        })
        .collect();
    let failures: Vec<String> =
        all.iter().filter_map(|(at, said)| Some(format!("{at}: {}", said.as_ref().err()?))).collect();
    assert!(failures.is_empty(), "{} of {} points fail:\n{}", failures.len(), all.len(), failures.join("\n"));
    // Both sides of the step are met, or nothing was walked.
    let stood = all.iter().filter(|(_, said)| said.as_ref().is_ok_and(|(_, _, stood)| *stood)).count();
    assert!(stood > 10 && stood < all.len() - 10, "{stood} of {}", all.len());
}

/// Appends notes, each with its number.
fn append(ledger: &mut Ledger, numbers: std::ops::Range<u32>) {
    let drafts: Vec<Draft> = numbers
        .map(|n| {
            let (mut nonce, subject) = ([0; 16], TypedId::new(Kind::Blob, object_id(b"x")));
            nonce[..4].copy_from_slice(&n.to_be_bytes());
            let note = Note { nonce: Fixed(nonce), subject, text: n.to_string() };
            let encoded = encode(&note).unwrap();
            let claims = vec![StagedClaim::new(&note, &encoded)];
            Draft { objects: vec![encoded.bytes, b"x".to_vec()], claims }
        })
        .collect();
    let said = ledger.append(&drafts, &Person::new(1).at(9)).unwrap();
    assert!(said.iter().all(|(_, standing)| *standing == Standing::Accepted));
}

/// Bundles hold 256 statements, and logs begin anywhere on the line of places.
#[test]
fn places_lead_to_the_statements_of_long_logs() {
    let dir = scratch();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    found(&disk, dir.path(), &Person::new(1)).unwrap();
    let mut said: Vec<String> = vec![String::new()];
    for (nonce, range) in [(1, 0..300), (2, 300..520), (3, 520..530), (4, 530..1100)] {
        let mut ledger = open(&disk, dir.path()).unwrap();
        append(&mut ledger, range.clone());
        said.extend(range.map(|n| n.to_string()));
        let kim = Person::new(1);
        let forker =
            Forker { author: &kim.author, log: &kim.log, time: 9, nonce: [nonce; 16], instance: [nonce; 16] };
        drop(ledger.fork(&forker, WAIT).unwrap());
        said.push(String::new());
    }
    // Twice, so that the State file that the first makes is read by the second; then without any.
    let _ = open(&disk, dir.path()).unwrap();
    let kept = open(&disk, dir.path()).unwrap();
    let plain = Ledger::open_on(Arc::clone(&disk), &dir.path().join(".ledger"), Home::default()).unwrap();
    let state = dir.path().join("home/cache").join(kept.id().to_hex()).join("state");
    assert!(state.is_file(), "no State file was kept");
    assert_eq!(plain.state().to_file(), kept.state().to_file());
    assert_eq!((kept.places(), kept.state().base()), (said.len() as u64, said.len() as u64 - 1));
    for ledger in [&kept, &plain] {
        let text = |stated: &ledger::ledger::Stated| match stated.object.kind {
            Kind::Note => ledger.record::<Note>(stated.object.id).unwrap().text,
            _ => String::new(),
        };
        let mut listed = Vec::new();
        ledger
            .list::<Error>(0, &mut |one| {
                assert_eq!((one.index as usize, one.standing), (listed.len(), Standing::Accepted));
                listed.push(text(&one.claims[0]));
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert!(listed == said, "{} are listed of {}", listed.len(), said.len());
        let mut reader = ledger.reader();
        // Forwards, and back and forth between logs.
        let ways = (0..said.len()).chain((0..said.len()).map(|n| n * 401 % said.len()));
        for index in ways {
            let place = Place { index: index as u32, position: 0 };
            let stated = reader.stated(place).unwrap();
            assert_eq!((stated.place, text(&stated)), (place, said[index].clone()));
        }
        for index in (0..said.len() as u32).step_by(37) {
            ledger.prove_inclusion(index).unwrap();
            let stated = ledger.stated(Place { index, position: 0 }).unwrap();
            assert_eq!(ledger.statement_id(index).unwrap(), stated.claim.statement);
            let (segment, within) = ledger.segment(u64::from(index));
            assert_eq!(segment.first + within, u64::from(index));
        }
    }
    let report = fsck::check(disk, &dir.path().join(".ledger"), Some(kept.state()), &|_| ()).unwrap();
    let findings: Vec<_> = report.findings.iter().filter(|one| one.severity != Severity::Ok).collect();
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!((report.statements, report.whole), (said.len() as u64, said.len() as u64));
}

#[test]
fn nobody_but_who_appoints_owners_makes_a_fork() {
    let dir = scratch();
    let old = lay(dir.path());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (kim, ben, eve) = (Person::new(1), Person::new(2), Person::new(3));
    let refused =
        |author: &SigningKey, log: &SigningKey| fork_by(&disk, dir.path(), author, log).unwrap_err();
    let not_allowed = |error: Error| matches!(error, Error::Refused { reason: Reason::RoleNotAllowed });
    assert!(not_allowed(refused(&ben.author, &kim.log)), "an author");
    assert!(not_allowed(refused(&kim.log, &kim.log)), "a log key");
    assert!(not_allowed(refused(&kim.author, &eve.log)), "a log key that nobody knows");
    assert!(not_allowed(refused(&kim.author, &kim.author)), "an author's key as log key");
    assert!(matches!(refused(&eve.author, &eve.log), Error::UnknownKey { .. }));
    assert!(!dir.path().join(".ledger/parents").exists() && !dir.path().join(".ledger/fork").exists());
    assert_eq!(open(&disk, dir.path()).unwrap().id(), old);
}

#[test]
fn a_writer_who_knew_the_old_ledger_does_not_write_into_the_new_one() {
    let dir = scratch();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let kim = Person::new(1);
    found(&disk, dir.path(), &kim).unwrap();
    let mut late = open(&disk, dir.path()).unwrap();
    let forked = fork(&disk, dir.path()).unwrap();
    let said = write(&mut late, 3, &kim);
    let Err(Error::Stuck { source, .. }) = said else { panic!("{said:?}") };
    assert!(matches!(*source, Error::Replaced { .. }), "{source:?}");
    let mut ledger = open(&disk, dir.path()).unwrap();
    assert_eq!((ledger.id(), ledger.places()), (forked.ledger, 2));
    assert!(matches!(write(&mut ledger, 4, &kim), Ok(Outcome::Accepted { index: 2, .. })));
    assert_eq!(ledger.places(), 3);
}
