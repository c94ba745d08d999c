//! How long questions take on a log of a million statements: with an index, with a State file alone, and cold.
//!
//! Each question is a process of its own, as a shell would run it, and stands beside its bar. The ledger takes a
//! minute to make, so it is kept where `LEDGER_BENCH_DIR` says and used again; `LEDGER_BENCH_STATEMENTS` asks for
//! another size. Words after `--` choose sections: make, ask, fsck, grow.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark lays files and prints")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use ledger::durable::{Commit, Disk, RealDisk};
use ledger::id::{HolderId, LedgerId, ObjectId, object_id, sha256, statement_id};
use ledger::ledger::{Draft, Founder, Home, Ledger, Signer, StagedClaim, init};
use ledger::log::HeadFile;
use ledger::log::key::SigningKey;
use ledger::log::key_file::KeyFile;
use ledger::log::merkle::CompactRange;
use ledger::log::note::{SignedHead, TreeHead, sign_receipt};
use ledger::log::statement::{Claim, Link, Payload, Seen, Statement, sign};
use ledger::model::content::{Entry, Object, Tensor, Tensors, What, build_node};
use ledger::model::{
    Benchmark, Binding, Checkpoint, Config, Dataset, Encoded, End, Environment, Eval, Facts, Fixed, Kind,
    Metric, Model, Name, Plan, Private, Record, Start, TypedId, encode,
};
use ledger::store;

const BATCH: u64 = 4096;
/// By this clock the made statements were signed.
const TIME: u64 = 1_764_500_000;
/// Data sets and models that come first, each in a statement of its own.
const CONTENTS: u64 = 1000;
/// Statements of a run: freeze and start, four checkpoints, four evaluations, end.
const A_RUN: u64 = 10;
/// Every so many runs have their records in the store, as far as questions are asked about them.
const REAL: u64 = 1000;

const LEDGER: &str = env!("CARGO_BIN_EXE_ledger");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |section: &str| words.is_empty() || words.iter().any(|word| word == section);
    let count = std::env::var("LEDGER_BENCH_STATEMENTS");
    let count = count.map_or(1_000_000, |text| text.parse().expect("a number"));
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let kept = std::env::var_os("LEDGER_BENCH_DIR").map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let place = kept.join("questions");
    let mut table = Table::default();
    if is_wanted("make") || is_wanted("ask") {
        let scene = Scene::at(&place, count, Stored::Few);
        if is_wanted("ask") {
            ask(&scene, &scratch.path().join("caches"), count, &mut table);
        }
    }
    if is_wanted("fsck") || is_wanted("grow") {
        let place = |name: &str| kept.join(name);
        let scene = Scene::at(&place("hundred"), HUNDRED, Stored::Few);
        if is_wanted("fsck") {
            let whole = Scene::at(&place("whole"), HUNDRED, Stored::All);
            check(&whole, "fsck of a sound ledger of 100,000 statements", Some(MOST), &mut table);
            check(&scene, "fsck of one that lacks most of its objects", None, &mut table);
        }
        if is_wanted("grow") {
            follow(&scene, &mut table);
        }
    }
    if table.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Statements of the ledger that is checked and that grows.
const HUNDRED: u64 = 100_000;
/// Statements that are added to it.
const ADDED: u64 = 1000;
/// Runs of a question, of which the median counts.
const RUNS: usize = 11;
/// And of a check.
const TURNS: usize = 5;
/// Milliseconds that a question may take with a warm index.
const WARM: f64 = 60.0;
/// And with a State file alone.
const SCANNED: f64 = 2500.0;
/// How many times what its signatures and digests take by themselves a check of a whole ledger may take.
const MOST: f64 = 1.3;

#[derive(Default)]
struct Table {
    missed: usize,
}

impl Table {
    fn line(&mut self, what: &str, found: f64, bar: Option<f64>, unit: &str) {
        let verdict = bar.map_or(String::new(), |bar| {
            let word = if found <= bar { "yes" } else { "NO" };
            format!("   at most {bar} {unit}: {word}")
        });
        self.missed += usize::from(bar.is_some_and(|bar| found > bar));
        println!("{what:<64} {found:>10.2} {unit}{verdict}");
    }
}

/// Asks questions as a shell would, each in a process of its own.
fn ask(scene: &Scene, caches: &Path, count: u64, table: &mut Table) {
    let (run, content) = (count / 2 / A_RUN / REAL * REAL, CONTENTS / 2);
    let short = |id: TypedId| id.to_string()[..id.kind.prefix().len() + 13].to_owned();
    let (checkpoint, dataset) = (short(id_of(&checkpoint(run, 1))), short(id_of(&dataset(content))));
    let questions: [&[&str]; 4] = [
        &["show", &checkpoint],
        &["trace", &checkpoint],
        &["trace", &checkpoint, "--down"],
        &["ls", "models", "--where", "name == 'set-77@1'"],
    ];
    println!("{count} statements");
    let usual = caches.join("usual");
    let once = timed(|| scene.ask(&usual, &["head"]));
    table.line("head, nothing cached: every statement folded and checked", once, None, "ms");
    // A file in the place of the index lets none be made.
    let state_only = caches.join("state-only");
    copy_state(&usual, &state_only);
    let once = timed(|| scene.ask(&usual, &["trace", &checkpoint, "--down"]));
    table.line("the first question that makes the index", once, None, "ms");
    for question in questions {
        let words = question.join(" ");
        let warm = median(|| scene.ask(&usual, question));
        table.line(&format!("{words}, warm index"), warm, Some(WARM), "ms");
        let scanned = median(|| scene.ask(&state_only, question));
        table.line(&format!("{words}, no index"), scanned, Some(SCANNED), "ms");
    }
    // Each of some hundred things below it is read and described, so this grows with the answer.
    let many = ["trace", &dataset, "--down"];
    let warm = median(|| scene.ask(&usual, &many));
    table.line("trace --down of a data set that fifty runs read, warm index", warm, None, "ms");
    let scanned = median(|| scene.ask(&state_only, &many));
    table.line("  no index", scanned, None, "ms");
    let runs = median(|| scene.ask(&usual, &["ls", "runs", "--where", "status == 'failed'", "--ids"]));
    table.line("ls runs --where status == 'failed', of every tenth statement", runs, None, "ms");
}

fn copy_state(from: &Path, to: &Path) {
    let ledger = std::fs::read_dir(from.join("ledger")).expect("a cache").next().expect("a ledger");
    let name = ledger.expect("a ledger").file_name();
    let (from, to) = (from.join("ledger").join(&name), to.join("ledger").join(&name));
    std::fs::create_dir_all(&to).expect("a directory");
    std::fs::copy(from.join("state"), to.join("state")).expect("a State file");
    std::fs::write(to.join("index"), "").expect("a file");
}

/// Milliseconds of one call.
fn timed(act: impl FnOnce()) -> f64 {
    let started = Instant::now();
    act();
    started.elapsed().as_secs_f64() * 1e3
}

fn median(mut act: impl FnMut()) -> f64 {
    act();
    let mut found: Vec<f64> = (0..RUNS).map(|_| timed(&mut act)).collect();
    found.sort_by(f64::total_cmp);
    found[RUNS / 2]
}

/// Compares `fsck` with what its signatures and digests take by themselves, shared by the cores.
///
/// The floor holds the signature and the leaf hash of each statement, and reads and hashes each object once, by
/// both functions. It has no log, no fold, no rules and no findings. Both take turns, and the median counts.
fn check(scene: &Scene, what: &str, bar: Option<f64>, table: &mut Table) {
    let ledger = Ledger::open(&scene.root(), Home::default()).expect("a ledger");
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    let gather = |_, entries: &[&[u8]]| -> Result<(), ledger::log::files::Error> {
        leaves.extend(entries.iter().map(|entry| entry.to_vec()));
        Ok(())
    };
    let size = ledger.head().head().size;
    ledger.log().statements(size, 0, &mut { gather }).expect("statements");
    let public = scene.author.public();
    let signatures = || {
        leaves.par_iter().for_each(|leaf| {
            let statement = Statement::parse(leaf).expect("a statement");
            statement.verify(&public).expect("a good signature");
            let _leaf = statement_id(leaf);
        });
    };
    let root = scene.root();
    let paths: Vec<PathBuf> =
        ledger.store().ids().expect("objects").into_iter().map(|id| root.join(store::place(id))).collect();
    let digests = || {
        paths.par_iter().for_each(|path| {
            let bytes = std::fs::read(path).expect("an object");
            let _digests = (object_id(&bytes), sha256(&bytes));
        });
    };
    let mut runs: [Vec<(f64, f64)>; 3] = Default::default();
    for _ in 0..TURNS {
        runs[0].push(spent(signatures));
        runs[1].push(spent(digests));
        // Where records were never stored it says so; what is timed is that it looks.
        runs[2].push(spent(|| drop(scene.run(&scene.home.join("none"), &["-q", "fsck"]))));
    }
    let median = |of: fn(&(f64, f64)) -> f64| {
        runs.each_ref().map(|runs| {
            let mut found: Vec<f64> = runs.iter().map(of).collect();
            found.sort_by(f64::total_cmp);
            found[found.len() / 2]
        })
    };
    let ([signed, read, checked], processor) = (median(|run| run.0), median(|run| run.1));
    let objects = paths.len();
    table.line(&format!("signatures and leaf hashes of {size} statements, all cores"), signed, None, "ms");
    table.line(&format!("reading and hashing of {objects} objects, all cores"), read, None, "ms");
    table.line(what, checked, None, "ms");
    table.line("  to signatures and hashes", checked / (signed + read), bar, "x");
    // Where other work shares the machine, this says more.
    let ratio = processor[2] / (processor[0] + processor[1]);
    table.line("  the same in seconds of the processor, all threads together", ratio, None, "x");
}

/// Milliseconds of the clock and of the processor, all threads and all ended children together.
fn spent(act: impl FnOnce()) -> (f64, f64) {
    let before = processor();
    let clock = timed(act);
    (clock, processor() - before)
}

fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    // User and system time, own and of children, are fields 14 to 17, in hundredths; the rest begins at field 3.
    let ticks: f64 = rest.split(' ').skip(12).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks * 10.0
}

/// Opens after a thousand new statements, of which the State file knows nothing.
fn follow(scene: &Scene, table: &mut Table) {
    let cache = scene.home.join("follow");
    scene.ask(&cache, &["head"]);
    let mut ledger = Ledger::open(&scene.root(), Home::default()).expect("a ledger");
    let drafts: Vec<Draft> = (0..ADDED).map(|n| draft(1_000_000 + n)).collect();
    let signer = Signer {
        author: &scene.author,
        log: Some(&scene.log),
        time: TIME + 2 * HUNDRED,
        wait: Duration::from_secs(30),
        user: rustix::process::getuid().as_raw(),
    };
    ledger.append(&drafts, &signer).expect("statements");
    let opened = timed(|| scene.ask(&cache, &["head"]));
    table.line("head after 1,000 new statements", opened, Some(1000.0), "ms");
}

/// An observation of nothing in particular, to make a log longer.
fn draft(n: u64) -> Draft {
    let record = Dataset { root: tree("more", n) };
    let encoded = made(&record);
    Draft { objects: Vec::new(), claims: vec![StagedClaim::new(&record, &encoded)] }
}

/// Which of the objects that its statements name a ledger has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// Those that questions are asked about: a ledger of a million statements has tens of millions of others.
    Few,
    /// Every record and whatever it names, as a real ledger has them.
    All,
}

/// A ledger of some statements and its founder's home.
struct Scene {
    project: PathBuf,
    home: PathBuf,
    author: SigningKey,
    log: SigningKey,
}

impl Scene {
    /// Takes the ledger that lies here, or makes it.
    fn at(place: &Path, count: u64, stored: Stored) -> Self {
        let (project, home) = (place.join("project"), place.join("home"));
        let (author, log) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
        let scene = Self { project, home, author, log };
        let finished = place.join(format!("made-{count}"));
        if !finished.exists() {
            let started = Instant::now();
            scene.found();
            scene.grow(count, stored);
            std::fs::write(&finished, "").expect("a file");
            println!("made {count} statements in {:.1} s", started.elapsed().as_secs_f64());
        }
        scene
    }

    /// Runs a question with a cache of its own; the answer is of no interest, only that there is one.
    fn ask(&self, cache: &Path, question: &[&str]) {
        let (is_good, said) = self.run(cache, question);
        assert!(is_good, "{question:?}: {said}");
    }

    fn run(&self, cache: &Path, question: &[&str]) -> (bool, String) {
        let mut command = Command::new(LEDGER);
        command.args(question).current_dir(&self.project).env_clear();
        command.env("HOME", &self.home).env("XDG_CACHE_HOME", cache).env("PATH", "/usr/bin:/bin");
        let output = command.stdin(Stdio::null()).output().expect("the command starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn root(&self) -> PathBuf {
        self.project.join(".ledger")
    }

    /// Makes a key and a ledger of one statement.
    fn found(&self) {
        let keys = self.home.join(".config/ledger/keys");
        std::fs::create_dir_all(&keys).expect("a directory");
        std::fs::create_dir_all(&self.project).expect("a directory");
        let seeds = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
        let key = KeyFile::new("kim", seeds.0, Some(seeds.1)).expect("a key");
        let path = keys.join("default.key");
        std::fs::write(&path, key.to_text()).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let founder = Founder {
            name: "kim",
            author: &self.author,
            log: &self.log,
            recovery: None,
            time: TIME,
            nonce: [1; 16],
            instance: [2; 16],
            shared: false,
        };
        init(&disk, &self.project, &founder).expect("a ledger");
    }

    /// Lets a new log grow to a size as fast as a disk takes batches; the fold looks at them later.
    fn grow(&self, count: u64, stored: Stored) {
        let ledger = Ledger::open(&self.root(), Home::default()).expect("a ledger");
        let mut range = CompactRange::new();
        range.push(ledger.statement_id(0).expect("a first statement"));
        let mut made = 0;
        while range.size() < count {
            let wanted = BATCH.min(count - range.size());
            let seen = Seen { size: range.size(), root: range.root() };
            let said: Vec<Said> =
                (made..made + wanted).into_par_iter().map(|n| said(n, stored == Stored::All)).collect();
            let objects = said.par_iter().flat_map(|said| &said.objects);
            objects.for_each(|bytes| self.lay(bytes));
            let batch: Vec<Vec<u8>> =
                said.into_par_iter().map(|said| self.sign(&ledger, seen, said)).collect();
            for statement in &batch {
                range.push(statement_id(statement));
            }
            let origin = ledger.head().head().origin.clone();
            let head = TreeHead { origin, size: range.size(), root: range.root() };
            let file = HeadFile {
                extends: seen.size,
                statements: batch,
                head: SignedHead::sign(head, &self.log).expect("a head"),
                receipt: sign_receipt(range.root(), &self.log),
            };
            assert_eq!(ledger.log().commit(&file).expect("a commit"), Commit::Won);
            ledger.log().apply(&file).expect("tiles");
            made += wanted;
        }
    }

    /// Lays an object without waiting for the disk; nobody's work hangs on it.
    fn lay(&self, bytes: &[u8]) {
        let path = self.root().join(store::place(object_id(bytes)));
        if !path.exists() {
            let _ = std::fs::create_dir(path.parent().expect("a folder"));
            std::fs::write(&path, bytes).expect("an object");
        }
    }

    fn sign(&self, ledger: &Ledger, seen: Seen, said: Said) -> Vec<u8> {
        let id: LedgerId = ledger.id();
        let holder = HolderId::of_first_key(self.author.public().thumbprint());
        let payload = Payload { ledger: Some(id), seen: Some(seen), claims: said.claims, req: None };
        let prefix = said.first.prefix();
        let bytes = sign(&payload, prefix, holder, TIME + said.time, &self.author).expect("signed");
        debug_assert!(Statement::parse(&bytes).is_ok());
        bytes
    }
}

/// One statement to be signed, with the objects that go into the store beside it.
struct Said {
    first: Kind,
    claims: Vec<Claim<'static>>,
    objects: Vec<Vec<u8>>,
    time: u64,
}

/// Says the `n`th statement after the first: contents, then runs.
fn said(n: u64, is_whole: bool) -> Said {
    let mut said = Said { first: Kind::Dataset, claims: Vec::new(), objects: Vec::new(), time: n };
    if n < 2 * CONTENTS {
        let name = Facts::Named { name: Name::parse(&format!("set-{}", n / 2)) };
        if n.is_multiple_of(2) {
            said.claim(&dataset(n / 2), &[], Some(&name), true);
            said.objects.extend(is_whole.then(|| node("data", n / 2).1));
        } else {
            said.first = Kind::Model;
            said.claim(&Model { root: tree("model", n / 2) }, &[], Some(&name), true);
            said.objects.extend(is_whole.then(|| node("model", n / 2).1));
        }
        return said;
    }
    let (run, step) = ((n - 2 * CONTENTS) / A_RUN, (n - 2 * CONTENTS) % A_RUN);
    let is_real = is_whole || run.is_multiple_of(REAL);
    match step {
        0 => {
            said.first = Kind::Plan;
            said.claim(
                &plan(run),
                &[("manifest", blob("manifest", run)), ("private", id_of(&private(run)))],
                None,
                is_real,
            );
            said.claim(&start(run), &[], None, is_real);
            if is_whole {
                let frozen = text("frozen", run / 4);
                let records =
                    [made(&config(run)).bytes, made(&environment(run)).bytes, made(&private(run)).bytes];
                said.objects.extend(records.into_iter().chain([frozen, text("manifest", run)]));
            }
        }
        1..=4 => {
            said.first = Kind::Checkpoint;
            said.claim(&checkpoint(run, step - 1), &[("private", id_of(&private(run)))], None, is_real);
            if is_whole {
                let n = run * 4 + step - 1;
                said.objects.extend([node("full", n).1, node("weights", n).1, tensors(n).1]);
            }
        }
        5..=8 => {
            said.first = Kind::Eval;
            said.claim(&eval(run, step - 5), &[("private", id_of(&private(run)))], None, is_real);
            said.objects.extend(is_real.then(|| made(&benchmark(run % 8)).bytes));
            said.objects.extend(is_whole.then(|| text("result", run * 4 + step - 5)));
        }
        _ => {
            said.first = Kind::End;
            said.claim(&end(run), &[], None, is_real);
        }
    }
    said
}

impl Said {
    fn claim<R: Record>(
        &mut self,
        record: &R,
        beside: &[(&'static str, TypedId)],
        facts: Option<&Facts>,
        is_real: bool,
    ) {
        let encoded = made(record);
        let links = record.links().into_iter().map(|link| (link.role, link.target));
        let link = |(role, to): (&'static str, TypedId)| Link {
            role: role.into(),
            kind: to.kind.word().into(),
            id: to.id,
        };
        let mut links: Vec<Link<'static>> = links.chain(beside.iter().copied()).map(link).collect();
        links.sort_unstable();
        self.claims.push(Claim {
            kind: R::KIND.word().into(),
            object: encoded.id.id,
            sha256: sha256(&encoded.bytes),
            size: encoded.bytes.len() as u64,
            links,
            facts: facts.unwrap_or(&record.facts()).encode().into(),
            prev: None,
        });
        self.objects.extend(is_real.then_some(encoded.bytes));
    }
}

fn made<R: Record>(record: &R) -> Encoded {
    encode(record).expect("a record")
}

fn id_of<R: Record>(record: &R) -> TypedId {
    made(record).id
}

fn text(what: &str, n: u64) -> Vec<u8> {
    format!("{what} {n}").into_bytes()
}

fn number(what: &str, n: u64) -> ObjectId {
    object_id(&text(what, n))
}

/// A directory of three files, which stay where they are.
fn node(what: &str, n: u64) -> Object {
    let file = |name: &str| Entry {
        name: name.as_bytes().to_vec(),
        what: What::File { exec: false, size: 1000 + n, id: number(&format!("{what} {name}"), n) },
    };
    let nodes = build_node(vec![file("a.bin"), file("b.bin"), file("c.json")]);
    nodes.expect("a tree").pop().expect("a node")
}

fn tree(what: &str, n: u64) -> TypedId {
    TypedId::new(Kind::Tree, node(what, n).0)
}

fn tensors(n: u64) -> Object {
    let tensor = |name: &str| Tensor {
        name: name.to_owned(),
        dtype: "F32".to_owned(),
        shape: vec![64, 64],
        id: number(name, n),
    };
    Tensors { tensors: vec![tensor("bias"), tensor("weight")] }.encode().expect("tensors")
}

fn blob(what: &str, n: u64) -> TypedId {
    TypedId::new(Kind::Blob, number(what, n))
}

fn private(run: u64) -> Private {
    Private {
        salt: Fixed(*number("salt", run).as_bytes()),
        argv: vec!["python".into(), "train.py".into()],
        texts: [("host".to_owned(), "node".to_owned())].into(),
        paths: [("data".to_owned(), "data/train".to_owned())].into(),
        variables: [].into(),
        stats: [].into(),
    }
}

/// Four runs share one.
fn config(run: u64) -> Config {
    Config { frozen: blob("frozen", run / 4), sources: vec![] }
}

fn environment(run: u64) -> Environment {
    Environment {
        lock: None,
        interpreter: None,
        os: "linux".into(),
        arch: format!("arch-{}", run / 500),
        installed: None,
        hardware: None,
        container: None,
        launch: BTreeMap::new(),
    }
}

fn nonce(what: &str, n: u64) -> Fixed<16> {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&number(what, n).as_bytes()[..16]);
    Fixed(bytes)
}

fn dataset(n: u64) -> Dataset {
    Dataset { root: tree("data", n) }
}

/// Half of the runs read one of ten data sets, the others one of the rest.
fn data_of(run: u64) -> u64 {
    if run.is_multiple_of(2) { run / 2 % 10 } else { 10 + run / 2 % (CONTENTS - 10) }
}

fn plan(run: u64) -> Plan {
    // One in five begins with what an earlier run had written.
    let earlier = (run % 5 == 4).then(|| ("init".to_owned(), id_of(&checkpoint(run - 3, 3))));
    let none = if earlier.is_some() { vec!["code"] } else { vec!["base", "code"] };
    Plan {
        nonce: Some(nonce("plan", run)),
        name: None,
        config: Some(id_of(&config(run))),
        code: None,
        environment: Some(id_of(&environment(run))),
        data: vec![("train".into(), id_of(&dataset(data_of(run))))],
        base: earlier.into_iter().collect(),
        contracts: vec![],
        policies: vec![],
        spec: None,
        none: none.into_iter().map(|what| (what.to_owned(), "none given".to_owned())).collect(),
        argv: ["python", "train.py", "--seed"]
            .map(str::to_owned)
            .into_iter()
            .chain([run.to_string()])
            .collect(),
        seed: Some(run),
        study: Some(format!("study-{}", run / 200)),
        arm: Some(format!("arm-{}", run % 4)),
    }
}

fn start(run: u64) -> Start {
    let plan = id_of(&plan(run));
    Start { nonce: nonce("start", run), plan, environment: None, lost: vec![], check: "frozen".into() }
}

fn checkpoint(run: u64, k: u64) -> Checkpoint {
    let n = run * 4 + k;
    Checkpoint {
        start: Some(id_of(&start(run))),
        tensors: Some(TypedId::new(Kind::Tensors, tensors(n).0)),
        step: Some(100 * (k + 1)),
        path: Some(format!("out/{run}/step-{}", 100 * (k + 1))),
        ..Checkpoint::bare(tree("full", n), tree("weights", n), "safetensors")
    }
}

fn benchmark(n: u64) -> Benchmark {
    Benchmark::named(format!("bench-{n}"))
}

fn eval(run: u64, k: u64) -> Eval {
    let n = run * 4 + k;
    let metric = |name: &str, of: u64| Metric {
        name: name.into(),
        value: format!("0.{:04}", (n * of) % 10_000),
        n: Some(1000),
        ..Metric::default()
    };
    Eval {
        of: Some(id_of(&checkpoint(run, k))),
        results: vec![blob("result", n)],
        start: Some(id_of(&start(run))),
        metrics: vec![metric("accuracy", 7919), metric("loss", 104_729)],
        ..Eval::new(tree("weights", n), id_of(&benchmark(run % 8)), Binding::Observed, "json")
    }
}

fn end(run: u64) -> End {
    let has_failed = run % 50 == 49;
    End {
        nonce: nonce("end", run),
        start: id_of(&start(run)),
        status: if has_failed { "failed" } else { "completed" }.into(),
        code: Some(i64::from(has_failed)),
        signal: None,
    }
}
