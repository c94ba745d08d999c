//! A crash at every operation of a ledger's first minutes: what was acknowledged is there, and writing goes on.
//!
//! The first pass counts the disk's operations, the second stops at each of them in each way, with and without
//! a power cut, and looks at what is left. Then each sync is left out, one at a time, and the walk must notice:
//! a sync that nobody misses is one too many, or the look is too short.
#![expect(clippy::print_stdout, reason = "the number of points is worth knowing")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![expect(clippy::disallowed_methods, reason = "tests lay and read files")]

#[path = "../figures/mod.rs"]
#[expect(dead_code, reason = "nothing is skipped here")]
mod figures;
mod look;
#[path = "../people/mod.rs"]
mod people;
mod points;
mod story;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use ledger::durable::fault::{Fault, FaultDisk, Loss};
use look::{Wrong, look};
use people::scratch;
use points::{SyncPoint, sync_points};
use rayon::prelude::*;
use story::{Told, lay, tell};

/// The whole story, told on a disk that works.
struct Story {
    operations: Vec<String>,
    points: Vec<SyncPoint>,
    processes: Vec<(usize, &'static str)>,
}

impl Story {
    fn whole() -> Self {
        let dir = scratch();
        lay(dir.path());
        let counting = Arc::new(FaultDisk::counting(dir.path()));
        let mut told = Told::default();
        tell(&counting, dir.path(), &mut told).unwrap();
        assert_eq!((told.accepted.len(), told.queued.len(), told.revoked), (7, 1, true), "{told:?}");
        // Genesis comes before the first that was told, and what was queued has been ordered since.
        assert_eq!(told.remembered, 9);
        look(dir.path(), &told).unwrap();
        let operations = counting.operations();
        Self { points: sync_points(&operations), operations, processes: told.processes }
    }

    /// Returns which process does an operation.
    fn process(&self, at: usize) -> &'static str {
        self.processes.iter().rev().find(|(from, _)| *from <= at).map_or("founding", |(_, name)| *name)
    }

    /// Leaves a sync out and looks for a power cut that shows it, the latest first, as far as the sync matters.
    ///
    /// Other processes have not come to sync the same thing: they were killed before, or are just about to.
    fn missed(&self, point: &SyncPoint) -> Option<&'static str> {
        let same = || self.points.iter().filter(|other| other.path == point.path);
        // The next sync of the same thing makes good for this one.
        let until = same().find(|next| next.at > point.at);
        let last = until.map_or(self.operations.len(), |next| next.at - 1);
        let by_others =
            |other: &&SyncPoint| other.at < point.at && self.process(other.at) != self.process(point.at);
        let others: Vec<usize> = same().filter(by_others).map(|other| other.at).collect();
        let loss = if point.what.ends_with('/') { Loss::Names } else { Loss::Content };
        let without = [&others[..], &[point.at]].concat();
        std::iter::once(last).chain(point.at..last).find_map(|at| {
            let wrong = crash(at, Fault::StopAfter, loss, &without).err()?.0;
            // It is this sync that is missed, if with it all is well.
            crash(at, Fault::StopAfter, loss, &others).is_ok().then_some(wrong.phrase)
        })
    }
}

/// Tells the story until the disk fails, cuts the power, and looks.
fn crash(at: usize, fault: Fault, loss: Loss, forgotten: &[usize]) -> Result<(), Box<(Wrong, Told)>> {
    let dir = scratch();
    lay(dir.path());
    let disk = FaultDisk::failing(dir.path(), at, fault).forgetting(forgotten.iter().copied());
    let disk = Arc::new(disk);
    let mut told = Told::default();
    // Whether it failed is what `told` says; a notice at the end may be all that a fault left.
    let _ = tell(&disk, dir.path(), &mut told);
    disk.cut_power(loss).unwrap();
    look(dir.path(), &told).map_err(|wrong| Box::new((wrong, told)))
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_ends_the_ledger() {
    let Story { operations, points: syncs, .. } = Story::whole();
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
            let (wrong, told) = *crash(*at, *fault, *loss, &[]).err()?;
            Some(format!("{at} `{}`, {fault:?}, {loss:?}, {told:?}: {wrong:?}", operations[*at]))
        })
        .collect();
    let syncs = syncs.len();
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

/// Syncs that are not always missed, with how many of them are, and why the others stay.
const NOT_ALWAYS: &[(&str, usize, &str)] = &[
    (".ledger/log/heads/", 1, "the founding commit is published before anybody knows of it"),
    (".ledger/log/pending/", 1, "the commit that follows at once repeats the statement"),
    (".ledger/log/pending/UID/", 5, "as above; a statement that has to wait has nothing else"),
];

/// What was found out about the syncs of one kind.
#[derive(Default)]
struct Row {
    times: usize,
    phrases: BTreeMap<&'static str, usize>,
    unnoticed: Vec<usize>,
}

#[test]
fn every_sync_is_missed_when_it_is_left_out() {
    let story = Story::whole();
    let found: Vec<Option<&'static str>> = story.points.par_iter().map(|point| story.missed(point)).collect();
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (point, phrase) in story.points.iter().zip(found) {
        let row = rows.entry(&point.what).or_default();
        row.times += 1;
        match phrase {
            Some(phrase) => *row.phrases.entry(phrase).or_default() += 1,
            None => row.unnoticed.push(point.at),
        }
    }
    let mut table =
        String::from("| sync of | times | missed | what is found without it |\n|---|---|---|---|\n");
    let mut superfluous = Vec::new();
    for (what, row) in &rows {
        let missed = row.times - row.unnoticed.len();
        let phrases: Vec<&str> = row.phrases.keys().copied().collect();
        let kept = NOT_ALWAYS.iter().find(|(known, times, _)| known == what && *times == row.unnoticed.len());
        let why = kept.map(|(.., why)| format!("; otherwise {why}")).unwrap_or_default();
        let _ = writeln!(table, "| `{what}` | {} | {missed} | {}{why} |", row.times, phrases.join(", "));
        if missed == 0 || (!row.unnoticed.is_empty() && kept.is_none()) {
            superfluous.extend(row.unnoticed.iter().map(|at| format!("{at} {}", story.operations[*at])));
        }
    }
    println!("{table}");
    assert!(superfluous.is_empty(), "nobody misses\n{}", superfluous.join("\n"));
    page_holds(&table);
}

/// Compares the table in the page on tests with this one, or rewrites it on request.
fn page_holds(table: &str) {
    const BEGIN: &str = "<!-- table of sync points, written by tests/crash -->\n";
    const END: &str = "<!-- end of the table -->";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/testing.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (held, after) = rest.split_once(END).unwrap();
    if std::env::var_os("LEDGER_OVERWRITE").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert!(
        held.trim() == table.trim(),
        "docs/testing.md holds another table; LEDGER_OVERWRITE=1 rewrites it"
    );
}
