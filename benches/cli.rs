//! How long the command line takes: its start, a freeze, and a freeze on a log of a hundred thousand statements.
//!
//! Each figure is the median of some runs, printed beside its bar and beside a floor measured in the same run: a
//! process that does nothing, and twelve small files written durably one after the other.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark lays files and prints")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::durable::{Commit, Disk, RealDisk};
use ledger::id::{HolderId, object_id, sha256, statement_id};
use ledger::ledger::{Founder, Home, Ledger, init};
use ledger::log::HeadFile;
use ledger::log::key::SigningKey;
use ledger::log::key_file::KeyFile;
use ledger::log::merkle::CompactRange;
use ledger::log::note::{SignedHead, TreeHead, sign_receipt};
use ledger::log::statement::{Claim, Link, Payload, Seen, sign};
use ledger::model::{Facts, Kind};

const STATEMENTS: u64 = 100_000;
const BATCH: u64 = 4096;
const SOME: usize = 30;
/// By this clock the made statements were signed.
const TIME: u64 = 1_764_500_000;

fn main() -> ExitCode {
    let place = tempfile::tempdir().expect("a temporary directory");
    let place = place.path();
    let nothing = median(SOME, || run(&mut Command::new("true")));
    let files = median(SOME, || twelve_files(&place.join("floor")));
    let mut table = Table { nothing, files, missed: 0 };
    println!("{:<44} {:>9} {:>9}  ratio to the floor", "median", "ms", "bar");
    table.line("floor: a process that does nothing", nothing, None, nothing);
    table.line("floor: twelve small files, durably", files, None, files);

    let start = median(SOME, || run(Command::new(LEDGER).arg("--version").env_clear()));
    table.line("ledger --version", start, Some(5.0), nothing);

    let small = Scene::new(&place.join("small"), 0);
    let freeze = median(SOME, || run(&mut small.freeze()));
    table.line("freeze of the example", freeze, Some(100.0), files);
    let head = median(SOME, || run(&mut small.ledger(&["head"])));
    table.line("head", head, None, nothing);

    let large = Scene::new(&place.join("large"), STATEMENTS);
    // The first reader folds the log and keeps the State.
    let cold = median(1, || run(&mut large.ledger(&["head"])));
    table.line("head, 100,000 statements, without a State", cold, None, files);
    let head = median(SOME, || run(&mut large.ledger(&["head"])));
    table.line("head, 100,000 statements", head, None, nothing);
    let freeze = median(SOME, || run(&mut large.freeze()));
    table.line("freeze, 100,000 statements", freeze, Some(150.0), files);
    println!(
        "a freeze holds all of it: config, git state, data of 300 KB, lock file, objects, statement, head"
    );
    println!("the interpreter is described by the pyvenv.cfg beside it, so none is started");
    if table.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const LEDGER: &str = env!("CARGO_BIN_EXE_ledger");

struct Table {
    nothing: Duration,
    files: Duration,
    missed: usize,
}

impl Table {
    fn line(&mut self, what: &str, found: Duration, bar: Option<f64>, floor: Duration) {
        let ms = found.as_secs_f64() * 1e3;
        let name = if floor == self.nothing { "process" } else { "files" };
        debug_assert!(floor == self.nothing || floor == self.files);
        let ratio = found.as_secs_f64() / floor.as_secs_f64();
        let shown = bar.map_or_else(|| "-".to_owned(), |bar| format!("{bar:.0}"));
        let is_missed = bar.is_some_and(|bar| ms >= bar);
        let verdict = if is_missed { "  MISSED" } else { "" };
        self.missed += usize::from(is_missed);
        println!("{what:<44} {ms:>9.2} {shown:>9}  {ratio:.1} x {name}{verdict}");
    }
}

/// The median time of some calls, after one that warms the caches.
fn median(times: usize, mut act: impl FnMut()) -> Duration {
    if times > 1 {
        act();
    }
    let mut found: Vec<Duration> = (0..times)
        .map(|_| {
            let started = Instant::now();
            act();
            started.elapsed()
        })
        .collect();
    found.sort_unstable();
    found[times / 2]
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn twelve_files(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir(dir).expect("a directory");
    for n in 0..12 {
        let mut file = std::fs::File::create(dir.join(n.to_string())).expect("a file");
        file.write_all(&[7; 300]).expect("some bytes");
        file.sync_all().expect("the disk confirms");
    }
    std::fs::File::open(dir).and_then(|dir| dir.sync_all()).expect("the disk confirms");
}

/// The example project with a ledger of some statements and its founder's home.
struct Scene {
    project: PathBuf,
    home: PathBuf,
}

impl Scene {
    fn new(place: &Path, statements: u64) -> Self {
        let scene = Self { project: place.join("project"), home: place.join("home") };
        std::fs::create_dir_all(scene.project.join("venv/bin")).expect("a directory");
        std::fs::create_dir_all(scene.home.join(".config/ledger/keys")).expect("a directory");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits");
        for entry in std::fs::read_dir(example).expect("the example").map(|entry| entry.expect("an entry")) {
            if entry.file_type().expect("a type").is_file() {
                std::fs::copy(entry.path(), scene.project.join(entry.file_name())).expect("a copy");
            }
        }
        std::fs::write(scene.project.join(".gitignore"), "venv\n").expect("a file");
        std::fs::write(
            scene.project.join("venv/pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.11.2\nimplementation = CPython\n",
        )
        .expect("a file");
        let python = scene.project.join("venv/bin/python");
        std::fs::write(&python, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"];
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "begin"]] {
            run(Command::new("git").args(who).args(args).current_dir(&scene.project));
        }
        scene.found(statements);
        scene
    }

    fn ledger(&self, args: &[&str]) -> Command {
        let mut command = Command::new(LEDGER);
        command.args(args).current_dir(&self.project).env_clear();
        command.env("HOME", &self.home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    fn freeze(&self) -> Command {
        self.ledger(&["-q", "freeze", "--", "venv/bin/python", "train.py"])
    }

    /// Makes a key and a ledger, and lets the log grow as fast as a disk takes batches.
    fn found(&self, statements: u64) {
        let (author, log) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
        let key = KeyFile::new("kim", SigningKey::from_seed(&[1; 32]), Some(SigningKey::from_seed(&[2; 32])));
        let path = self.home.join(".config/ledger/keys/default.key");
        std::fs::write(&path, key.expect("a key").to_text()).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let founder = Founder {
            name: "kim",
            author: &author,
            log: &log,
            recovery: None,
            time: TIME,
            nonce: [1; 16],
            instance: [2; 16],
            shared: false,
        };
        init(&disk, &self.project, &founder).expect("a ledger");
        let ledger = Ledger::open(&self.project.join(".ledger"), Home::default()).expect("a ledger");
        let first = ledger.statement_id(0).expect("a first statement");
        let mut range = CompactRange::new();
        range.push(first);
        let holder = HolderId::of_first_key(author.public().thumbprint());
        let mut made = 0;
        while made < statements {
            let seen = Seen { size: range.size(), root: range.root() };
            let count = BATCH.min(statements - made);
            let batch: Vec<Vec<u8>> = (made..made + count)
                .map(|n| {
                    sign(&plan(&ledger, seen, n), Kind::Plan.prefix(), holder, TIME, &author).expect("signed")
                })
                .collect();
            for statement in &batch {
                range.push(statement_id(statement));
            }
            let head = TreeHead {
                origin: ledger.head().head().origin.clone(),
                size: range.size(),
                root: range.root(),
            };
            let file = HeadFile {
                extends: seen.size,
                statements: batch,
                head: SignedHead::sign(head, &log).expect("a head"),
                receipt: sign_receipt(range.root(), &log),
            };
            assert_eq!(ledger.log().commit(&file).expect("a commit"), Commit::Won);
            ledger.log().apply(&file).expect("tiles");
            made += count;
        }
        let ledger = Ledger::open(&self.project.join(".ledger"), Home::default()).expect("a ledger");
        assert_eq!(ledger.state().claimed(Kind::Plan).len() as u64, statements, "each is an accepted plan");
    }
}

/// What a freeze states, about objects that are not there: the log does not know objects.
fn plan(ledger: &Ledger, seen: Seen, n: u64) -> Payload<'static> {
    let object = n.to_be_bytes();
    let link = |role: &'static str, kind: Kind| Link {
        role: role.into(),
        kind: kind.word().into(),
        id: object_id(&[&object[..], role.as_bytes()].concat()),
    };
    let claim = Claim {
        kind: Kind::Plan.word().into(),
        object: object_id(&object),
        sha256: sha256(&object),
        size: object.len() as u64,
        links: vec![link("manifest", Kind::Blob), link("private", Kind::Private)],
        facts: Facts::Named { name: None }.encode().into(),
        prev: None,
    };
    Payload { ledger: Some(ledger.id()), seen: Some(seen), claims: vec![claim], req: None }
}
