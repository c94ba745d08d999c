//! How fast the log takes statements and the fold reads them, as ratios that are measured side by side.
//!
//! Each line gives a figure, its bar and how it stands to it; runs that are compared take turns, and the
//! median counts. Words after `--` choose sections: fold, signatures, state, append, writers. Where other work shares the machine, seconds of the processor say more than those of the
//! clock, so both are given.
#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::disallowed_methods, reason = "it lays files of its own")]
#![expect(clippy::unwrap_used, reason = "it ends when something is wrong")]

#[path = "../tests/people/mod.rs"]
#[expect(dead_code, reason = "tests use what a bench does not")]
mod people;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::durable::{Disk, RealDisk};
use ledger::id::{HolderId, ObjectId, hex, object_id};
use ledger::ledger::{Draft, Ledger, StagedClaim};
use ledger::log::key::SigningKey;
use ledger::log::statement::{self, Claim, Link, Payload, Seen, Statement};
use ledger::model::{Facts, Kind, Status, TypedId, encode};
use ledger::state::{Signatures, Standing, State, advance};
use people::{Person, found, open, plan, stage};

const RUNS: usize = 5;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{cores} cores; medians of {RUNS} runs");
    let (founded, leaf) = founded();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |section: &str| wanted.is_empty() || wanted.iter().any(|word| word == section);
    if is_wanted("fold") {
        fold_a_million(&founded, &leaf);
    }
    if is_wanted("signatures") {
        fold_with_signatures(&founded, &leaf, cores);
    }
    if is_wanted("state") {
        keep_a_state(&founded, &leaf);
    }
    if is_wanted("append") {
        append_many(cores);
    }
    if is_wanted("writers") {
        write_together();
    }
}

/// Prints one figure with its bar.
fn say(what: &str, figure: f64, unit: &str, bar: Option<(f64, bool)>) {
    let verdict = bar.map_or(String::new(), |(bar, is_least)| {
        let (word, holds) = if is_least { ("at least", figure >= bar) } else { ("at most", figure <= bar) };
        format!("   {word} {bar:.0} {unit}: {}", if holds { "yes" } else { "NO" })
    });
    println!("{what:<64} {figure:>10.2} {unit}{verdict}");
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// Seconds of the clock and of the processor, all threads together.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, f64, T) {
    let (start, before) = (Instant::now(), processor_seconds());
    let made = work();
    (start.elapsed().as_secs_f64(), processor_seconds() - before, made)
}

fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    // User and system time are fields 14 and 15, in hundredths; the part after the name begins at field 3.
    let ticks: f64 = rest.split(' ').skip(12).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The most memory that this process has held, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// A founded ledger's state, and its first leaf.
fn founded() -> (State, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    found(&disk, dir.path(), &Person::new(1)).unwrap();
    let ledger = open(&disk, dir.path()).unwrap();
    (ledger.state().clone(), ledger.log().statement(1, 0).unwrap())
}

/// Placeholders of ids in a template, which stand for one run's objects.
const PLAN: u8 = 0xa1;
const START: u8 = 0xa2;
const CHECKPOINT: u8 = 0xa3;
const END: u8 = 0xa4;
const EVAL: u8 = 0xa5;
const WEIGHTS: u8 = 0xa6;
const FULL: u8 = 0xa7;

fn claim(kind: Kind, object: u8, links: &[(&'static str, Kind, u8)], facts: &Facts) -> Claim<'static> {
    let mut links: Vec<Link<'static>> = links
        .iter()
        .map(|(role, kind, id)| Link {
            role: (*role).into(),
            kind: kind.word().into(),
            id: ObjectId::from_bytes([*id; 32]),
        })
        .collect();
    links.sort_unstable();
    Claim {
        kind: kind.word().into(),
        object: ObjectId::from_bytes([object; 32]),
        sha256: ledger::id::sha256(b"x"),
        size: 500,
        links,
        facts: facts.encode().into(),
        prev: None,
    }
}

/// The four statements of a run: freeze and start, checkpoint, end, evaluation.
fn run_claims() -> [Vec<Claim<'static>>; 4] {
    let named = Facts::Named { name: None };
    let manifest = ("manifest", Kind::Blob, 0x11);
    let inputs = [("config", Kind::Config, 0x12), ("data", Kind::Dataset, 0x13), manifest];
    let plan = claim(Kind::Plan, PLAN, &inputs, &named);
    let start = claim(Kind::Start, START, &[("plan", Kind::Plan, PLAN)], &Facts::None);
    let weights =
        [("full", Kind::Tree, FULL), ("start", Kind::Start, START), ("weights", Kind::Tree, WEIGHTS)];
    let checkpoint = claim(Kind::Checkpoint, CHECKPOINT, &weights, &named);
    let ended = Facts::End { status: Status::Completed };
    let end = claim(Kind::End, END, &[("start", Kind::Start, START)], &ended);
    let measured = [
        ("benchmark", Kind::Benchmark, 0x14),
        ("of", Kind::Checkpoint, CHECKPOINT),
        ("result", Kind::Blob, 0x15),
        ("subject", Kind::Tree, WEIGHTS),
    ];
    let eval = claim(Kind::Eval, EVAL, &measured, &Facts::None);
    [vec![plan, start], vec![checkpoint], vec![end], vec![eval]]
}

/// A statement whose ids are replaced where they stand, which costs no signature.
struct Template {
    bytes: Vec<u8>,
    /// Where an id stands, which one, and whether as hex.
    places: Vec<(usize, u8, bool)>,
}

impl Template {
    fn new(bytes: Vec<u8>) -> Self {
        let mut places = Vec::new();
        for id in PLAN..=FULL {
            for (needle, is_hex) in [(vec![id; 32], false), (hex(&[id; 32]).into_bytes(), true)] {
                let found = bytes.windows(needle.len()).enumerate().filter(|(_, part)| *part == needle);
                places.extend(found.map(|(at, _)| (at, id, is_hex)));
            }
        }
        Self { bytes, places }
    }

    fn of_run(&self, run: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (at, id, is_hex) in &self.places {
            let digest = object_id(&[&run.to_be_bytes()[..], &[*id]].concat());
            if *is_hex {
                bytes[*at..at + 64].copy_from_slice(digest.to_hex().as_bytes());
            } else {
                bytes[*at..at + 32].copy_from_slice(digest.as_bytes());
            }
        }
        bytes
    }
}

fn templates(founded: &State) -> Vec<Template> {
    let kim = Person::new(1).author;
    let holder = HolderId::of_first_key(kim.public().thumbprint());
    let seen = Seen { size: 1, root: founded.root() };
    let sign = |claims: Vec<Claim<'static>>| {
        let prefix = Kind::from_word(&claims[0].kind).map_or("", Kind::prefix);
        let payload = Payload { ledger: founded.ledger(), seen: Some(seen), claims, req: None };
        Template::new(statement::sign(&payload, prefix, holder, 1, &kim).unwrap())
    };
    run_claims().into_iter().map(sign).collect()
}

/// Folds `count` statements of made-up runs and returns the seconds that the fold took.
fn fold_unsigned(state: &mut State, founded: &State, count: u64) -> (f64, f64) {
    const CHUNK: u64 = 1 << 16;
    let templates = templates(founded);
    let (mut clock, mut processor) = (0.0, 0.0);
    let mut made = 0;
    while made < count {
        let upto = (made + CHUNK).min(count);
        let leaves: Vec<Vec<u8>> =
            (made..upto).map(|at| templates[(at % 4) as usize].of_run(at / 4)).collect();
        let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        let mut root_at = |_| Ok::<_, Infallible>(founded.root());
        let (seconds, busy, standings) =
            timed(|| advance(state, &leaves, Signatures::Trust, &mut root_at).unwrap());
        assert!(standings.iter().all(|standing| *standing == Standing::Accepted));
        clock += seconds;
        processor += busy;
        made = upto;
    }
    (clock, processor)
}

fn fold_a_million(founded: &State, first: &[u8]) {
    const COUNT: u64 = 1_000_000;
    let mut state = first_state(first);
    let before = peak_memory();
    let (clock, processor) = fold_unsigned(&mut state, founded, COUNT);
    say("fold of 1,000,000 statements without signatures", clock, "s", Some((2.0, false)));
    say("  the same, of the processor", processor, "s", None);
    say("  most memory held, statements at hand included", peak_memory(), "MiB", Some((1024.0, false)));
    say("  of which before the fold", before, "MiB", None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let bytes = state.to_file().unwrap();
    say("  its State file", bytes.len() as f64 / f64::from(1 << 20), "MiB", None);
    std::fs::write(&path, bytes).unwrap();
    let ledger = state.ledger().unwrap();
    let loads = (0..RUNS).map(|_| {
        let read = || State::from_file(std::fs::read(&path).unwrap(), ledger).unwrap();
        let (clock, _, loaded) = timed(read);
        assert_eq!(loaded.size(), state.size());
        clock * 1e3
    });
    say("  from that file, read and checked", median(loads.collect()), "ms", Some((100.0, false)));
    say("most memory held, writing and reading the file included", peak_memory(), "MiB", None);
}

fn first_state(first: &[u8]) -> State {
    let mut state = State::new();
    let mut none = |_| Ok::<_, Infallible>(ledger::log::merkle::empty_root());
    let standings = advance(&mut state, &[first], Signatures::Check, &mut none).unwrap();
    assert_eq!(standings, [Standing::Accepted]);
    state
}

/// Statements that were really signed, each by somebody who has seen the one before.
fn signed(founded: &State, count: u64, kim: &SigningKey) -> Vec<Vec<u8>> {
    let holder = HolderId::of_first_key(kim.public().thumbprint());
    let mut state = founded.clone();
    let blob = ObjectId::from_bytes([0x11; 32]);
    (0..count)
        .map(|n| {
            let mut made = claim(Kind::Note, PLAN, &[("subject", Kind::Blob, 0x11)], &Facts::None);
            made.object = object_id(&n.to_be_bytes());
            assert_eq!(made.links[0].id, blob);
            let seen = Seen { size: state.size(), root: state.root() };
            let payload =
                Payload { ledger: founded.ledger(), seen: Some(seen), claims: vec![made], req: None };
            let bytes = statement::sign(&payload, "note", holder, 1, kim).unwrap();
            let parsed = Statement::parse(&bytes).unwrap();
            state.apply(parsed.id, Some(&parsed), ledger::state::Checks::GOOD);
            bytes
        })
        .collect()
}

fn fold_with_signatures(founded: &State, first: &[u8], cores: usize) {
    const COUNT: u64 = 20_000;
    let kim = Person::new(1).author;
    let leaves = signed(founded, COUNT, &kim);
    let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
    let parsed: Vec<Statement<'_>> = leaves.iter().map(|leaf| Statement::parse(leaf).unwrap()).collect();
    let public = kim.public();
    let (mut folds, mut checks) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut state = first_state(first);
        let mut root_at = |_| Ok::<_, Infallible>(founded.root());
        let (_, processor, standings) =
            timed(|| advance(&mut state, &leaves, Signatures::Check, &mut root_at).unwrap());
        assert!(standings.iter().all(|standing| *standing == Standing::Accepted));
        folds.push(processor / COUNT as f64 * 1e6);
        let (_, processor, good) = timed(|| parsed.iter().all(|statement| statement.verify(&public).is_ok()));
        assert!(good);
        checks.push(processor / COUNT as f64 * 1e6);
    }
    let (fold, check) = (median(folds), median(checks));
    say("fold with signatures, a statement, of the processor", fold, "us", None);
    say("  its signature alone", check, "us", None);
    let ratio = fold / check;
    let verdict = if ratio <= 1.3 { "yes" } else { "NO" };
    println!("  ratio {ratio:.2}, at most 1.3: {verdict} ({cores} cores share it)");
}

fn keep_a_state(founded: &State, first: &[u8]) {
    let mut state = first_state(first);
    let _ = fold_unsigned(&mut state, founded, 100_000);
    let ledger = state.ledger().unwrap();
    let bytes = state.to_file().unwrap();
    let loaded = State::from_file(bytes.clone(), ledger).unwrap();
    let (mut saves, mut loads, mut grown, mut cheap) = (vec![], vec![], vec![], vec![]);
    for _ in 0..RUNS {
        saves.push(timed(|| state.to_file()).0 * 1e3);
        let copy = bytes.clone();
        loads.push(timed(|| State::from_file(copy, ledger)).0 * 1e3);
        grown.push(timed(|| state.clone()).0 * 1e3);
        cheap.push(timed(|| loaded.clone()).0 * 1e3);
    }
    say("State of 100,000 statements: write", median(saves), "ms", None);
    say("  read", median(loads), "ms", None);
    say("  clone, as folded from the start", median(grown), "ms", None);
    say("  clone, as read from a file", median(cheap), "ms", None);
}

fn on_disk(dir: &Path) -> Ledger {
    open(&(Arc::new(RealDisk) as Arc<dyn Disk>), dir).unwrap()
}

fn new_ledger() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    found(&(Arc::new(RealDisk) as Arc<dyn Disk>), dir.path(), &Person::new(1)).unwrap();
    dir
}

fn append_many(cores: usize) {
    const COUNT: u32 = 10_000;
    let kim = Person::new(1);
    let blob = TypedId::new(Kind::Blob, object_id(b"{}"));
    let drafts: Vec<Draft> = (0..COUNT)
        .map(|n| {
            let record = plan(n);
            let encoded = encode(&record).unwrap();
            let claims = vec![StagedClaim::new(&record, &encoded).beside("manifest", blob)];
            Draft { objects: Vec::new(), claims }
        })
        .collect();
    let (mut clocks, mut processors) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let dir = new_ledger();
        let mut ledger = on_disk(dir.path());
        let (clock, processor, placed) = timed(|| ledger.append(&drafts, &kim.at(1)).unwrap());
        assert_eq!(placed.len(), COUNT as usize);
        clocks.push(f64::from(COUNT) / clock);
        processors.push(f64::from(COUNT) / processor);
    }
    let per_core = median(processors);
    say("append of 10,000 statements in one batch, of a core", per_core, "/s", Some((10_000.0, true)));
    say(&format!("  by the clock, on {cores} cores"), median(clocks), "/s", None);
}

/// Commits a second of `writers` who each write `each` statements, and statements a head.
fn rate(writers: u32, each: u32) -> (f64, f64) {
    let (dir, kim) = (new_ledger(), Person::new(1));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (dir, kim) = (dir.path(), &kim);
            scope.spawn(move || {
                let mut ledger = on_disk(dir);
                for n in 0..each {
                    let mut tx = ledger.transaction();
                    stage(&mut tx, writer * each + n).unwrap();
                    let _outcome = tx.commit(&kim.at(1)).unwrap();
                }
            });
        }
    });
    let seconds: Duration = start.elapsed();
    let ledger = on_disk(dir.path());
    let all = writers * each;
    assert_eq!(ledger.state().size(), u64::from(all) + 1);
    let mut heads = 0;
    let mut at = 0;
    while let Some(file) = ledger.log().head_file(at).unwrap() {
        heads += 1;
        at += file.statements.len() as u64;
    }
    assert_eq!(at, ledger.state().size());
    (f64::from(all) / seconds.as_secs_f64(), f64::from(all) / f64::from(heads - 1))
}

fn write_together() {
    let (mut ones, mut crowds, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ones.push(rate(1, 40).0);
        let (crowd, group) = rate(16, 20);
        crowds.push(crowd);
        shared.push(group);
    }
    let (one, crowd) = (median(ones), median(crowds));
    say("commits of one writer", one, "/s", None);
    say("commits of 16 writers at once", crowd, "/s", None);
    say("  to those of one", crowd / one, "x", Some((5.0, true)));
    say("  statements a head", median(shared), "", Some((4.0, true)));
}
