//! A crash at every operation of a ledger's first minutes: what was acknowledged is there, and writing goes on.
//!
//! The first pass counts the disk's operations, the second stops at each of them in each way, with and without
//! a power cut, and looks at what is left.
#![expect(clippy::print_stdout, reason = "the number of points is worth knowing")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod people;

use std::path::Path;
use std::sync::Arc;

use ledger::durable::Disk;
use ledger::durable::fault::{Fault, FaultDisk, Loss};
use ledger::ledger::{Error, Home, Ledger, Outcome, Signer};
use ledger::model::{Kind, Plan, TypedId};
use people::{Person, admit, found, open, plan, scratch, stage};
use rayon::prelude::*;

/// What somebody was told has happened.
#[derive(Default, Debug)]
struct Told {
    founded: bool,
    joined: bool,
    plans: Vec<u32>,
    queued: Vec<u32>,
}

impl Told {
    fn hear(&mut self, n: u32, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted { .. } => self.plans.push(n),
            Outcome::Queued { .. } => self.queued.push(n),
        }
    }
}

fn write(ledger: &mut Ledger, n: u32, signer: &Signer<'_>) -> Result<Outcome, Error> {
    let mut tx = ledger.transaction();
    stage(&mut tx, n)?;
    tx.commit(signer)
}

/// Kim founds a ledger and writes, admits Ben, and both write.
fn first_minutes(disk: &Arc<dyn Disk>, dir: &Path, told: &mut Told) -> Result<(), Error> {
    let (kim, ben) = (Person::new(1), Person::new(2));
    found(disk, dir, &kim)?;
    told.founded = true;
    let mut hers = open(disk, dir)?;
    told.hear(1, &write(&mut hers, 1, &kim.at(10))?);
    let keys = [(&ben.author, "author"), (&ben.log, "log")];
    told.joined = matches!(admit(&mut hers, &kim.at(11), "ben", &keys)?, Outcome::Accepted { .. });
    let mut his = open(disk, dir)?;
    told.hear(2, &write(&mut his, 2, &ben.at(12))?);
    told.hear(3, &write(&mut hers, 3, &kim.at(13))?);
    Ok(())
}

/// Opens what is left and goes on.
fn look(dir: &Path, told: &Told) -> Result<(), String> {
    // Real files, whose syncs nobody waits for: no power is cut any more.
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::counting(dir));
    let (kim, ben) = (Person::new(1), Person::new(2));
    let say = |error: Error| format!("{error:?}");
    if !dir.join(".ledger").exists() {
        if told.founded {
            return Err("the ledger is gone".to_owned());
        }
        found(&disk, dir, &kim).map_err(say)?;
    }
    let mut ledger = open(&disk, dir).map_err(say)?;
    for n in &told.plans {
        is_there(&ledger, *n)?;
    }
    if told.joined && ledger.state().key(ben.log.public().thumbprint()).is_none() {
        return Err("ben's keys are gone".to_owned());
    }
    match write(&mut ledger, 99, &kim.at(20)).map_err(say)? {
        Outcome::Accepted { .. } => {}
        Outcome::Queued { why, .. } => return Err(format!("the next write waits: {why}")),
    }
    for n in told.plans.iter().chain(&told.queued).chain(&[99]) {
        is_there(&ledger, *n)?;
    }
    if told.joined {
        match write(&mut ledger, 98, &ben.at(21)).map_err(say)? {
            Outcome::Accepted { .. } => is_there(&ledger, 98)?,
            Outcome::Queued { why, .. } => return Err(format!("ben's next write waits: {why}")),
        }
    }
    // Nothing of it hangs on what this user remembers.
    let plain = Ledger::open_on(disk, &dir.join(".ledger"), Home::default()).map_err(say)?;
    if plain.state().to_file() != ledger.state().to_file() {
        return Err("folded from the start, the state is another".to_owned());
    }
    let mut seen = 0;
    ledger
        .list::<Error>(0, &mut |listed| {
            seen += 1;
            assert_eq!(listed.standing, ledger::state::Standing::Accepted, "{listed:?}");
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .map_err(say)?;
    if seen != ledger.state().size() {
        return Err(format!("{seen} statements of {}", ledger.state().size()));
    }
    let wanted = usize::from(told.joined) + ledger.state().claimed(Kind::Plan).len() + 1;
    let joined_unheard = usize::from(!told.joined && ledger.state().keys().len() == 4);
    if seen as usize == wanted + joined_unheard {
        Ok(())
    } else {
        Err(format!("{seen} statements, {wanted} things said: one is there twice"))
    }
}

fn is_there(ledger: &Ledger, n: u32) -> Result<(), String> {
    let id = ledger::model::encode(&plan(n)).map_err(|error| error.to_string())?.id;
    let claim = ledger.claim_of(id).map_err(|error| format!("{error:?}"))?;
    let claim = claim.ok_or_else(|| format!("plan {n} is gone"))?;
    let manifest = claim.link("manifest").map(|manifest: TypedId| ledger.bytes(manifest.id));
    if !matches!(manifest, Some(Ok(bytes)) if bytes == format!("{{\"run\": {n}}}").into_bytes()) {
        return Err(format!("the manifest of plan {n} is gone"));
    }
    match ledger.record::<Plan>(id.id) {
        Ok(record) if record == plan(n) => {
            ledger.prove_inclusion(claim.place.index).map_err(|e| e.to_string())
        }
        other => Err(format!("plan {n}: {other:?}")),
    }
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_ends_the_ledger() {
    let dir = scratch();
    let counting = Arc::new(FaultDisk::counting(dir.path()));
    let mut told = Told::default();
    first_minutes(&(counting.clone() as Arc<dyn Disk>), dir.path(), &mut told).unwrap();
    assert_eq!((told.joined, told.plans.as_slice()), (true, &[1, 2, 3][..]));
    look(dir.path(), &told).unwrap();
    let operations = counting.operations();
    // Names hold the process's number and differ from run to run, the order of operations does not.
    let mut points = Vec::new();
    for at in 0..operations.len() {
        // A stop before an operation is one after it with less done, so names are lost after each only.
        points.extend([Loss::Nothing, Loss::Content, Loss::Names].map(|loss| (at, Fault::Stop, loss)));
        points.extend([Loss::Content, Loss::Names].map(|loss| (at, Fault::StopAfter, loss)));
        points.push((at, Fault::Misreport, Loss::Nothing));
    }
    let failures: Vec<String> = points
        .par_iter()
        .filter_map(|(at, fault, loss)| {
            let dir = scratch();
            let disk = Arc::new(FaultDisk::failing(dir.path(), *at, *fault));
            let mut told = Told::default();
            // Whether it failed is what `told` says; a notice at the end may be all that a fault left.
            let _ = first_minutes(&(disk.clone() as Arc<dyn Disk>), dir.path(), &mut told);
            disk.cut_power(*loss).unwrap();
            let looked = look(dir.path(), &told);
            let point = format!("{at} `{}`, {fault:?}, {loss:?}, {told:?}", operations[*at]);
            looked.err().map(|error| format!("{point}: {error}"))
        })
        .collect();
    println!("{} operations, {} crash points", operations.len(), points.len());
    assert!(operations.len() > 100, "the walk has come to an end too early");
    assert!(
        failures.is_empty(),
        "{} of {} points fail, first:\n{}",
        failures.len(),
        points.len(),
        failures[..failures.len().min(8)].join("\n")
    );
}
