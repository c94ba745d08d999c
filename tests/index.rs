//! The index changes no answer: with it, without it, and with whatever may have become of it.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay files, and stop where their ground gives way"
)]

#[expect(dead_code, reason = "other tests use more of it")]
mod people;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ledger::durable::{Disk, RealDisk};
use ledger::id::{LedgerId, ObjectId, TreeHash, object_id};
use ledger::index::{Extent, Index, Posting};
use ledger::ledger::{Draft, Forker, Home, Ledger, StagedClaim};
use ledger::lineage::{self, Lineage};
use ledger::model::{
    Benchmark, Binding, Checkpoint, Dataset, Encoded, Eval, Fixed, Kind, Note, Record, Start, TypedId, encode,
};
use ledger::state::Place;
use people::{Person, found, plan};
use proptest::prelude::*;

/// A ledger in a directory of its own, whose index is made from two statements on.
struct Scene {
    dir: tempfile::TempDir,
    ids: Vec<TypedId>,
}

impl Scene {
    fn disk() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn founded() -> Self {
        let dir = people::scratch();
        found(&Self::disk(), dir.path(), &Person::new(1)).unwrap();
        Self { dir, ids: Vec::new() }
    }

    /// Some runs with checkpoints, evaluations that come before what they measured, and notes.
    fn grown() -> Self {
        let mut scene = Self::founded();
        for step in 0..60 {
            scene.say(step, step.wrapping_mul(7919), step % 7 == 0);
        }
        scene
    }

    fn open(&self, lag: u64) -> Ledger {
        self.open_in(&self.dir.path().join("home/cache"), 2, lag)
    }

    fn open_in(&self, cache: &Path, from: u64, lag: u64) -> Ledger {
        let home = Home::new(Some(self.dir.path().join("home/state")), Some(cache.to_owned()));
        Ledger::open(&self.dir.path().join(".ledger"), home.indexing(from, lag)).unwrap()
    }

    fn index_dir(&self) -> PathBuf {
        let id = self.open(0).id();
        self.dir.path().join("home/cache").join(id.to_hex()).join("index")
    }

    fn earlier(&self, kind: Kind, choice: u32) -> Option<TypedId> {
        let of_kind: Vec<&TypedId> = self.ids.iter().filter(|id| id.kind == kind).collect();
        of_kind.get(choice as usize % of_kind.len().max(1)).copied().copied()
    }

    /// Adds one statement, whose kind and links are chosen by numbers.
    fn say(&mut self, n: u32, choice: u32, is_early: bool) {
        let tree = |what: &str, n: u32| TypedId::new(Kind::Tree, object_id(format!("{what} {n}").as_bytes()));
        let nonce = |what: u8| {
            let mut bytes = [what; 16];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            Fixed(bytes)
        };
        let data = Dataset { root: tree("data", choice % 3) };
        let mut draft = Draft { objects: Vec::new(), claims: Vec::new() };
        match choice % 5 {
            0 => self.claim(&mut draft, &data, &[]),
            1 => {
                // A plan may read a data set that is claimed later, or never.
                let mut run = plan(n);
                run.data = vec![("train".into(), encode(&data).unwrap().id)];
                run.none.remove("data");
                if let Some(base) = self.earlier(Kind::Checkpoint, choice / 5) {
                    run.base = vec![("init".into(), base)];
                    run.none.remove("base");
                }
                let made = encode(&run).unwrap();
                let manifest = TypedId::new(Kind::Blob, object_id(b"{}"));
                self.claim(&mut draft, &run, &[("manifest", manifest)]);
                let start = Start {
                    nonce: nonce(1),
                    plan: made.id,
                    environment: None,
                    lost: vec![],
                    check: "frozen".into(),
                };
                self.claim(&mut draft, &start, &[]);
            }
            2 => {
                let record = Checkpoint {
                    start: self.earlier(Kind::Start, choice / 5),
                    parent: self.earlier(Kind::Checkpoint, choice / 7),
                    step: Some(u64::from(n)),
                    ..Checkpoint::bare(tree("full", n), tree("weights", n), "none")
                };
                self.claim(&mut draft, &record, &[]);
            }
            3 => {
                let of = self.earlier(Kind::Checkpoint, choice / 5).filter(|_| !is_early);
                // Weights that are recorded later, if at all: the subject is content.
                let subject = tree("weights", n + choice % 4);
                let benchmark = encode(&Benchmark::named("b")).unwrap().id;
                let record = Eval { of, ..Eval::new(subject, benchmark, Binding::Asserted, "json") };
                self.claim(&mut draft, &record, &[]);
            }
            _ => {
                let subject = self.ids.get(choice as usize % self.ids.len().max(1)).copied();
                let subject = subject.unwrap_or(TypedId::new(Kind::Blob, object_id(b"x")));
                self.claim(&mut draft, &Note { nonce: nonce(2), subject, text: "so".into() }, &[]);
            }
        }
        let mut ledger = self.open(1000);
        ledger.append(&[draft], &Person::new(1).at(u64::from(n) + 2)).unwrap();
    }

    fn claim<R: Record>(&mut self, draft: &mut Draft, record: &R, beside: &[(&'static str, TypedId)]) {
        let encoded: Encoded = encode(record).unwrap();
        let mut claim = StagedClaim::new(record, &encoded);
        for (role, to) in beside {
            claim = claim.beside(role, *to);
        }
        draft.claims.push(claim);
        draft.objects.push(encoded.bytes);
        self.ids.push(encoded.id);
    }

    /// Makes another ledger of it, which goes on from all that was said.
    fn fork(&self, nonce: u8) {
        let kim = Person::new(1);
        let (author, log) = (&kim.author, &kim.log);
        let by = Forker { author, log, time: 1, nonce: [nonce; 16], instance: [nonce; 16] };
        let forked = self.open(1000).fork(&by, Duration::from_secs(5)).unwrap();
        assert_eq!(self.open(1000).id(), forked.ledger);
    }

    /// What comes of everything, read from the log.
    fn scanned(&self) -> Vec<String> {
        let ledger = self.open_in(&self.dir.path().join("home/cache"), u64::MAX, 0);
        self.ids.iter().map(|id| told(&lineage::descendants(&ledger, *id).unwrap())).collect()
    }

    /// The same, each time with what lies in the cache.
    fn asked(&self, lag: u64) -> Vec<String> {
        let ledger = self.open(lag);
        self.ids.iter().map(|id| told(&lineage::descendants(&ledger, *id).unwrap())).collect()
    }

    fn why(&self, lag: u64) -> Option<String> {
        let ledger = self.open(lag);
        lineage::descendants(&ledger, self.ids[0]).unwrap().without_index
    }
}

fn told(found: &Lineage) -> String {
    let node = |step: lineage::Step<'_>| format!("{} {} {}\n", step.depth, step.role, step.node.id);
    found.walk().into_iter().map(node).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn with_an_index_the_answer_is_that_of_the_log(
        said in prop::collection::vec((any::<u32>(), any::<bool>()), 1..25),
        lag in 0_u64..6,
    ) {
        let mut scene = Scene::founded();
        for (n, (choice, is_early)) in (0..).zip(said) {
            scene.say(n, choice, is_early);
            if n % 8 == 0 {
                // The index is made early and follows, or lacks up to `lag` statements.
                scene.asked(lag);
            }
        }
        let scanned = scene.scanned();
        prop_assert_eq!(scene.asked(lag), scanned);
        prop_assert_eq!(scene.why(lag), None, "an index answered");
    }
}

#[test]
fn an_index_leads_across_a_fork() {
    let mut scene = Scene::founded();
    for step in 0_u32..90 {
        scene.say(step, step.wrapping_mul(7919), step % 7 == 0);
        if step % 30 == 29 {
            let before = scene.scanned();
            scene.fork(step as u8);
            assert_eq!(scene.scanned(), before, "a fork takes nothing away");
            assert_eq!(scene.asked(0), before);
        }
        if step % 10 == 5 {
            // An index that lacks the last statements, and one that is brought up to date.
            let scanned = scene.scanned();
            assert_eq!(scene.asked(4), scanned, "{step}");
            assert_eq!(scene.asked(0), scanned, "{step}");
            assert_eq!(scene.why(0), None, "an index answered");
        }
    }
    assert_eq!(scene.open(0).state().parents().len(), 3);
}

#[test]
fn a_search_finds_more_than_what_it_was_asked_about() {
    // Or the comparisons here would compare nothing with nothing.
    let scene = Scene::grown();
    let longest = scene.scanned().iter().map(|text| text.lines().count()).max();
    assert!(longest > Some(8), "{longest:?}");
}

#[test]
fn whatever_became_of_the_index_the_answer_is_the_same() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    assert_eq!(scene.asked(0), scanned);
    let dir = scene.index_dir();
    let whole = fs::read(dir.join("db")).unwrap();
    let step = whole.len() / 40;
    for at in (step / 2..whole.len()).step_by(step) {
        let mut flipped = fs::read(dir.join("db")).unwrap();
        let at = at % flipped.len();
        flipped[at] ^= 0x10;
        fs::write(dir.join("db"), flipped).unwrap();
        assert_eq!(scene.asked(0), scanned, "a bit of byte {at}");
    }
    for len in [0, 1, 4096, whole.len() / 2] {
        fs::OpenOptions::new().write(true).open(dir.join("db")).unwrap().set_len(len as u64).unwrap();
        assert_eq!(scene.asked(0), scanned, "{len} bytes are left");
    }
    fs::remove_file(dir.join("conf")).unwrap();
    assert_eq!(scene.asked(0), scanned, "without its configuration");
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "a file in its place").unwrap();
    assert_eq!(scene.asked(0), scanned);
    assert!(scene.why(0).unwrap().contains("no index can be made"));
}

/// Makes an index that says what it should not, in place of the right one.
fn forge(scene: &Scene, extent: Extent, postings: Vec<Posting>) {
    let dir = scene.index_dir();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir_all(&dir).unwrap();
    drop(Index::make(&dir, extent, postings).unwrap());
}

#[test]
fn an_index_of_another_log_is_not_asked() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    assert_eq!(scene.asked(0), scanned);
    let ledger = scene.open(0);
    let head = ledger.head().head().clone();
    let extent = Extent { ledger: ledger.id(), size: head.size, root: head.root };
    for wrong in [
        Extent { ledger: LedgerId::from_bytes([7; 32]), ..extent },
        Extent { size: head.size + 1, ..extent },
        Extent { root: TreeHash::from_bytes([7; 32]), ..extent },
        Extent { size: 0, ..extent },
    ] {
        // It is empty: believed, it would leave everything out.
        forge(&scene, wrong, Vec::new());
        assert_eq!(scene.asked(1000), scanned, "{wrong:?}");
        assert_eq!(scene.why(0), None, "a right one was made in its place");
    }
}

#[test]
fn an_index_that_says_what_the_log_does_not_is_dropped() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    let ledger = scene.open(0);
    let head = ledger.head().head().clone();
    let extent = Extent { ledger: ledger.id(), size: head.size, root: head.root };
    let ids: Vec<ObjectId> = scene.ids.iter().map(|id| id.id).collect();
    for place in [
        Place { index: 3, position: 0 },
        Place { index: 9, position: 40 },
        Place { index: 9_999, position: 0 },
    ] {
        assert_eq!(scene.asked(0), scanned);
        forge(&scene, extent, ids.iter().map(|id| Posting::new(id, place)).collect());
        assert_eq!(scene.asked(1000), scanned, "{place:?}");
        // Whoever found it out read the log and threw it away; the next one makes it anew.
        assert_eq!(scene.asked(1000), scanned);
        assert_eq!(scene.why(1000), None);
    }
}

#[test]
fn an_index_in_use_is_not_waited_for_long() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    assert_eq!(scene.asked(0), scanned);
    let other = Index::open(&scene.index_dir()).unwrap();
    let ledger = scene.open(0);
    let found = lineage::descendants(&ledger, scene.ids[0]).unwrap();
    assert_eq!(told(&found), scanned[0]);
    assert_eq!(found.without_index.as_deref(), Some("another process uses the index"));
    drop(other);
    assert_eq!(scene.why(0), None);
}

#[test]
fn an_index_that_is_deleted_under_a_search_loses_nothing() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    assert_eq!(scene.asked(0), scanned);
    let ledger = scene.open(0);
    let mut search = ledger.search(|_| true).unwrap();
    assert_eq!(search.without_index(), None);
    fs::remove_dir_all(scene.index_dir()).unwrap();
    for id in &scene.ids {
        search.linking_to(&[id.id]).unwrap();
    }
    drop(search);
    assert_eq!(scene.asked(0), scanned);
}

#[test]
fn a_making_that_was_interrupted_counts_as_none() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    let dir = scene.index_dir();
    // What a kill leaves at any moment before the stamp is a database without one.
    fs::create_dir_all(&dir).unwrap();
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("db"), b"").unwrap();
    assert!(Index::open(&dir).is_err());
    assert_eq!(scene.asked(0), scanned);
    assert_eq!(scene.why(0), None);
}

/// Names the directory in which a child of this test makes indexes until it is killed.
const CHILD: &str = "LEDGER_TEST_INDEX_CHILD";

#[test]
#[expect(clippy::print_stdout, reason = "the parent waits for this line")]
fn a_child_makes_indexes_until_it_is_killed() {
    // Without a parent that asks for it there is nothing to do.
    let Some(dir) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let home = Home::new(Some(dir.join("home/state")), Some(dir.join("home/cache")));
    let ledger = Ledger::open(&dir.join(".ledger"), home.indexing(2, 0)).unwrap();
    loop {
        ledger.drop_index().unwrap();
        println!("\nMAKING");
        drop(ledger.search(|_| true).unwrap());
    }
}

#[test]
fn a_process_that_is_killed_while_it_makes_the_index_changes_no_answer() {
    const ROUNDS: u64 = 12;
    let mut scene = Scene::grown();
    let scanned = scene.scanned();
    let exe = std::env::current_exe().unwrap();
    let mut halves = 0;
    for round in 0..ROUNDS {
        let mut command = Command::new(&exe);
        command.args(["--exact", "a_child_makes_indexes_until_it_is_killed", "--nocapture"]);
        command.env(CHILD, scene.dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // So many makings are over, or under way, and then comes some moment of the next one.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        for _ in 0..=round % 3 {
            assert!(lines.by_ref().any(|line| line == "MAKING"), "the child ended by itself");
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 12_000));
        child.kill().unwrap();
        child.wait().unwrap();
        halves += u64::from(Index::open(&scene.index_dir()).is_err());
        assert_eq!(scene.asked(0), scanned, "round {round}");
        assert_eq!(scene.why(0), None, "an index was made again in round {round}");
    }
    assert!(halves > 0, "no kill came while an index was made");
    // And what is stated afterwards is found, too.
    scene.say(1000, 7, false);
    assert_eq!(scene.asked(0), scene.scanned());
}

#[test]
fn a_cache_that_cannot_be_written_changes_no_answer() {
    let scene = Scene::grown();
    let scanned = scene.scanned();
    // A file where the directory would be is refused to everybody, root too.
    let cache = scene.dir.path().join("not-a-directory");
    fs::write(&cache, "").unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o400)).unwrap();
    let ledger = scene.open_in(&cache, 2, 0);
    for (id, wanted) in scene.ids.iter().zip(&scanned) {
        let found = lineage::descendants(&ledger, *id).unwrap();
        assert_eq!(&told(&found), wanted);
        assert!(found.without_index.unwrap().contains("no index can be made"));
    }
}

#[test]
fn a_short_log_is_read_and_leaves_no_index_behind() {
    let scene = Scene::grown();
    let ledger = scene.open_in(&scene.dir.path().join("home/cache"), 10_000, 0);
    let found = lineage::descendants(&ledger, scene.ids[0]).unwrap();
    assert!(found.without_index.is_some());
    assert!(!scene.index_dir().exists());
}
