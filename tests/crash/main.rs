//! A crash at every operation of a ledger's first minutes: what was acknowledged is there, and writing goes on.
//!
//! The first pass counts the disk's operations, the second stops at each of them in each way, with and without
//! a power cut, and looks at what is left. Then each sync is left out, one at a time, and the walk must notice:
//! a sync that nobody misses is one too many, or the look is too short.
#![expect(clippy::print_stdout, reason = "the number of points is worth knowing")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![expect(clippy::disallowed_methods, reason = "tests lay and read files")]

#[path = "../figures/mod.rs"]
mod figures;
mod look;
#[path = "../people/mod.rs"]
mod people;
mod points;
mod story;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use ledger::durable::Disk;
use ledger::durable::fault::{Fault, FaultDisk, Loss};
use look::{Wrong, look};
use points::{SyncPoint, sync_points};
use people::scratch;
use rayon::prelude::*;
use story::{Told, lay, tell};

/// Tells the whole story on a disk that works, and returns its operations.
fn operations() -> Vec<String> {
    let dir = scratch();
    lay(dir.path());
    let counting = Arc::new(FaultDisk::counting(dir.path()));
    let mut told = Told::default();
    tell(&(counting.clone() as Arc<dyn Disk>), dir.path(), &mut told).unwrap();
    assert_eq!((told.accepted.len(), told.queued.len(), told.revoked), (6, 1, true), "{told:?}");
    // Genesis comes before the first that was told, and what was queued has been ordered since.
    assert_eq!(told.remembered, 8);
    look(dir.path(), &told).unwrap();
    counting.operations()
}

/// Tells the story until the disk fails, cuts the power, and looks.
fn crash(at: usize, fault: Fault, loss: Loss, forgotten: &[usize]) -> Result<(), (Wrong, Told)> {
    let dir = scratch();
    lay(dir.path());
    let disk = FaultDisk::failing(dir.path(), at, fault).forgetting(forgotten.iter().copied());
    let disk = Arc::new(disk);
    let mut told = Told::default();
    // Whether it failed is what `told` says; a notice at the end may be all that a fault left.
    let _ = tell(&(disk.clone() as Arc<dyn Disk>), dir.path(), &mut told);
    disk.cut_power(loss).unwrap();
    look(dir.path(), &told).map_err(|wrong| (wrong, told))
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_ends_the_ledger() {
    let operations = operations();
    // Names hold the process's number and differ from run to run, the order of operations does not.
    let mut points = Vec::new();
    for at in 0..operations.len() {
        // A stop before an operation is one after it with less done, so names are lost after each only.
        points.extend([Loss::Nothing, Loss::Content, Loss::Names].map(|loss| (at, Fault::Stop, loss)));
        let losses = [Loss::Content, Loss::Names, Loss::Part(at as u64)];
        points.extend(losses.map(|loss| (at, Fault::StopAfter, loss)));
        points.push((at, Fault::Misreport, Loss::Nothing));
    }
    let failures: Vec<String> = points
        .par_iter()
        .filter_map(|(at, fault, loss)| {
            let (wrong, told) = crash(*at, *fault, *loss, &[]).err()?;
            Some(format!("{at} `{}`, {fault:?}, {loss:?}, {told:?}: {wrong:?}", operations[*at]))
        })
        .collect();
    let syncs = sync_points(&operations).len();
    println!("{syncs} sync points among {} operations, {} crash points", operations.len(), points.len());
    figures::add("sync points walked", syncs);
    figures::add("crash points walked", points.len());
    assert!(operations.len() > 300 && syncs > 100, "the walk has come to an end too early");
    assert!(
        failures.is_empty(),
        "{} of {} points fail, first:\n{}",
        failures.len(),
        points.len(),
        failures[..failures.len().min(8)].join("\n")
    );
}

/// Leaves a sync out and looks for a power cut that shows it, the latest first, as far as the sync matters.
fn missed(point: &SyncPoint, operations: &[String], points: &[SyncPoint]) -> Option<&'static str> {
    // The next sync of the same directory makes good for this one.
    let until = points.iter().find(|next| next.at > point.at && next.path == point.path);
    let until = until.map_or(operations.len(), |next| next.at);
    let loss = if point.what.ends_with('/') { Loss::Names } else { Loss::Content };
    let mut stops = std::iter::once(until - 1).chain(point.at..until - 1);
    stops.find_map(|at| Some(crash(at, Fault::StopAfter, loss, &[point.at]).err()?.0.phrase))
}

/// What was found out about the syncs of one kind.
#[derive(Default)]
struct Row {
    times: usize,
    noticed: usize,
    phrase: &'static str,
    unnoticed: Vec<usize>,
}

#[test]
fn every_sync_is_missed_when_it_is_left_out() {
    let operations = operations();
    let points = sync_points(&operations);
    let found: Vec<Option<&'static str>> =
        points.par_iter().map(|point| missed(point, &operations, &points)).collect();
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (point, phrase) in points.iter().zip(found) {
        let row = rows.entry(&point.what).or_default();
        row.times += 1;
        match phrase {
            Some(phrase) => {
                row.noticed += 1;
                // The last time is the plainest: early in a story little has been told.
                row.phrase = phrase;
            }
            None => row.unnoticed.push(point.at),
        }
    }
    let mut table = "| sync of | times | missed, left out alone | what is found then |\n|---|---|---|---|\n".to_owned();
    for (what, row) in &rows {
        let _ = writeln!(table, "| `{what}` | {} | {} | {} |", row.times, row.noticed, row.phrase);
    }
    println!("{table}");
    let unnoticed: Vec<String> = rows
        .iter()
        .flat_map(|(what, row)| row.unnoticed.iter().map(move |at| (what, at)))
        .map(|(what, at)| format!("{at} `{what}`: {}", operations[*at]))
        .collect();
    assert!(unnoticed.is_empty(), "nobody misses\n{}", unnoticed.join("\n"));
}
