//! A crowd on a disk that gives its lock to everybody: only `link(2)` decides who is first.
//!
//! The processes are this test's own binary, started again, because no switch of the program turns locks off.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::durable::{Disk, Locking, Mode, RealDisk};
use ledger::fsck;
use ledger::id::StatementId;
use ledger::ledger::{Error, Home, Ledger, Outcome, StagedClaim};
use ledger::model::{End, Fixed, Start};
use ledger::state::Standing;
use ledger::verify::Severity;

use crate::people::{Person, found, open, scratch, stage};
use crate::{Draw, figures, seed};

const PROCESSES: u32 = 64;
const EACH: u32 = 20;
/// Names the world and the number of a child, with a colon between.
const CHILD: &str = "LEDGER_TEST_UNLOCKED";
const NAME: &str = "unlocked::a_child_writes_and_prints_what_it_was_told";

/// The system's disk, whose lock is given to whoever asks.
#[derive(Debug)]
struct Generous;

impl Disk for Generous {
    fn open_new(&self, path: &Path, mode: Mode) -> io::Result<File> {
        RealDisk.open_new(path, mode)
    }
    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write(file, path, bytes)
    }
    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        RealDisk.sync_file(file, path)
    }
    fn sync_files(&self, files: &[(File, PathBuf)]) -> Result<(), (PathBuf, io::Error)> {
        RealDisk.sync_files(files)
    }
    fn sync_dir(&self, dir: &File, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir, path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealDisk.unlink(path)
    }
    fn mkdir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        RealDisk.mkdir(path, mode)
    }
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_tree(path)
    }
    fn try_lock(&self, _file: &File) -> io::Result<Locking> {
        Ok(Locking::Ours)
    }
}

/// States the turn's part of a run: its plan, its start, its end.
fn state(ledger: &mut Ledger, number: u32, turn: u32, kim: &Person) -> Result<Outcome, Error> {
    let n = number * EACH + turn - turn % 3;
    let nonce = |kind: u8| {
        let mut nonce = [kind; 16];
        nonce[..4].copy_from_slice(&n.to_be_bytes());
        Fixed(nonce)
    };
    let mut tx = ledger.transaction();
    let plan = ledger::model::encode(&crate::people::plan(n))?.id;
    let start = Start { nonce: nonce(1), plan, environment: None, lost: vec![], check: "frozen".to_owned() };
    match turn % 3 {
        0 => {
            stage(&mut tx, n)?;
        }
        1 => {
            let encoded = tx.put(&start)?;
            tx.claim(StagedClaim::new(&start, &encoded));
        }
        _ => {
            let start = ledger::model::encode(&start)?.id;
            let status = "completed".to_owned();
            let end = End { nonce: nonce(2), start, status, code: None, signal: None };
            let encoded = tx.put(&end)?;
            tx.claim(StagedClaim::new(&end, &encoded));
        }
    }
    tx.commit(&kim.at(u64::from(n)))
}

#[test]
fn a_child_writes_and_prints_what_it_was_told() {
    // Without a parent that asks for it there is nothing to do.
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (number, dir) = asked.split_once(':').unwrap();
    let number: u32 = number.parse().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(Generous);
    let kim = Person::new(1);
    let mut ledger = open(&disk, Path::new(dir)).unwrap();
    for turn in 0..EACH {
        let outcome = state(&mut ledger, number, turn, &kim).unwrap();
        let (Outcome::Accepted { statement, .. } | Outcome::Queued { statement, .. }) = outcome;
        println!("\nTOLD {statement}");
    }
}

#[test]
fn without_locks_a_crowd_loses_nothing_and_does_not_fork() {
    let seed = seed("without_locks_a_crowd_loses_nothing");
    let dir = scratch();
    let disk: Arc<dyn Disk> = Arc::new(Generous);
    let kim = Person::new(1);
    found(&disk, dir.path(), &kim).unwrap();
    let exe = std::env::current_exe().unwrap();
    let begun = Instant::now();
    let child = |number: u32| {
        let mut command = Command::new(&exe);
        command.args(["--exact", NAME, "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(CHILD, format!("{number}:{}", dir.path().display())).env("RAYON_NUM_THREADS", "1");
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(child).collect();
    let root = dir.path().join(".ledger/log/heads");
    let mut draw = Draw(seed);
    let (mut told, mut kills) = (BTreeSet::new(), 0);
    std::thread::scope(|scope| {
        let end = |(number, mut child): (u32, std::process::Child)| {
            // A moment between the first commits and the last: by how far the log has grown, not by a clock.
            let heads = draw.next() % 40;
            let is_to_die = number % 2 == 1;
            let root = &root;
            scope.spawn(move || {
                if is_to_die {
                    while child.try_wait().unwrap().is_none() && count(root) < heads {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    child.kill().unwrap();
                }
                (is_to_die, child.wait_with_output().unwrap())
            })
        };
        let ends: Vec<_> = (0..).zip(children).map(end).collect();
        for end in ends {
            let (is_to_die, output) = end.join().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success() || is_to_die,
                "{said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            kills += usize::from(!output.status.success());
            let whole = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            told.extend(whole.filter_map(|line| StatementId::from_hex(line.strip_prefix("TOLD ")?).ok()));
        }
    });
    println!("{} told, {kills} killed, {:.1} s", told.len(), begun.elapsed().as_secs_f64());

    let real: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut ledger = open(&real, dir.path()).unwrap();
    let next = state(&mut ledger, PROCESSES, 0, &kim).unwrap();
    assert!(matches!(next, Outcome::Accepted { .. }), "{next:?}");
    let lost =
        told.iter().filter(|id| !matches!(ledger.state().statement(**id), Some((_, Standing::Accepted))));
    let lost = lost.count();
    figures::add("kills survived without locks", kills);
    figures::add("acknowledged operations without locks", told.len());
    figures::add("acknowledged operations lost without locks", lost);
    assert_eq!(lost, 0);
    assert!(told.len() >= (PROCESSES / 2 * EACH) as usize && kills > 0, "{} told, {kills} kills", told.len());
    let plain = Ledger::open_on(Arc::clone(&real), &dir.path().join(".ledger"), Home::default()).unwrap();
    assert_eq!(plain.state().to_file(), ledger.state().to_file());
    let report = fsck::check(real, &dir.path().join(".ledger"), None, &|_| ()).unwrap();
    let bad: Vec<_> = report.findings.iter().filter(|finding| finding.severity != Severity::Ok).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

fn count(dir: &Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}
