//! Random work on a ledger against a plain model: store, log and fold agree with it after every reopening.
//!
//! Three people write: two with a log key, one whose statements wait for the others. Between their acts the
//! ledger is reopened, caches are dropped, saved and spoilt, and the disk stops or loses power on the way.
#![expect(clippy::disallowed_methods, reason = "tests lay and remove files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

mod people;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::durable::Disk;
use ledger::durable::fault::{Fault, FaultDisk, Loss};
use ledger::id::{ObjectId, TreeHash, object_id, statement_id};
use ledger::ledger::{Error, Home, Ledger, Outcome, Signer, StagedClaim};
use ledger::log::merkle::{empty_root, leaf_node, node};
use ledger::model::{Dataset, End, Fixed, Kind, Name, Note, Start, Status, TypedId};
use ledger::state::{RunStatus, Standing};
use people::{Person, admit, found, open, scratch, stage};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Kim,
    Ben,
    /// Has no log key.
    Ann,
}

#[derive(Clone, Debug)]
enum Act {
    Plan,
    Start { run: Index },
    End { start: Index, status: Status },
    Dataset { name: u8 },
    Note,
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<Vec<u8>>),
    Write(Who, Act),
    Crash { who: Who, act: Act, at: usize, fault: Fault, loss: Loss },
    Reopen,
    SaveState,
    SpoilState(Index),
    DropDerived,
}

/// An act with everything that is random about it decided.
#[derive(Clone, Debug)]
struct Deed {
    who: Who,
    object: TypedId,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Plan,
    Start { run: ObjectId },
    End { start: ObjectId, status: Status },
    Dataset { name: String },
    Note,
}

/// What a ledger must say, as plain lists and maps.
#[derive(Default, Debug)]
struct Model {
    /// Deeds that count, in log order.
    done: Vec<Deed>,
    /// Deeds that are acknowledged as waiting.
    waiting: Vec<Deed>,
    objects: BTreeMap<ObjectId, Vec<u8>>,
    runs: BTreeMap<ObjectId, (Who, Vec<ObjectId>)>,
    ended: BTreeMap<ObjectId, Option<Status>>,
    starts: BTreeMap<ObjectId, (Who, ObjectId)>,
    /// Holder, versions.
    names: BTreeMap<String, (Who, Vec<ObjectId>)>,
}

impl Model {
    /// Does a deed, if it is allowed now.
    fn apply(&mut self, deed: &Deed) -> bool {
        let object = deed.object.id;
        match &deed.what {
            What::Plan => {
                self.runs.insert(object, (deed.who, Vec::new()));
            }
            What::Start { run } => {
                let Some((_, attempts)) = self.runs.get_mut(run) else { return false };
                attempts.push(object);
                self.starts.insert(object, (deed.who, *run));
                self.ended.insert(object, None);
            }
            What::End { start, status } => {
                let Some((by, run)) = self.starts.get(start) else { return false };
                let is_theirs = deed.who == *by || deed.who == self.runs[run].0 || deed.who == Who::Kim;
                let end = self.ended.entry(*start).or_default();
                if !is_theirs || end.is_some() {
                    return false;
                }
                *end = Some(*status);
            }
            What::Dataset { name } => {
                let (holder, versions) = self.names.entry(name.clone()).or_insert((deed.who, Vec::new()));
                if *holder == deed.who || deed.who == Who::Kim {
                    versions.push(object);
                }
            }
            What::Note => {}
        }
        self.done.push(deed.clone());
        true
    }

    /// Orders what waits.
    fn flush(&mut self) {
        for deed in std::mem::take(&mut self.waiting) {
            self.apply(&deed);
        }
    }
}

/// A deed, the objects that it made, and what came of it.
type Written = (Deed, Vec<Vec<u8>>, Result<Outcome, Error>);

struct World {
    dir: tempfile::TempDir,
    people: [Person; 3],
    clock: u64,
    model: Model,
    ledger: Ledger,
}

fn real(dir: &Path) -> Arc<dyn Disk> {
    // Real files, whose syncs nobody waits for.
    Arc::new(FaultDisk::counting(dir))
}

impl World {
    fn new() -> Self {
        let dir = scratch();
        let people = [Person::new(1), Person::new(2), Person::new(3)];
        let disk = real(dir.path());
        found(&disk, dir.path(), &people[0]).unwrap();
        let mut ledger = open(&disk, dir.path()).unwrap();
        let [kim, ben, ann] = &people;
        let keys = [(&ben.author, "author"), (&ben.log, "log")];
        let _accepted = admit(&mut ledger, &kim.at(1), "ben", &keys).unwrap();
        let _accepted = admit(&mut ledger, &kim.at(2), "ann", &[(&ann.author, "author")]).unwrap();
        Self { dir, people, clock: 10, model: Model::default(), ledger }
    }

    fn signer(&self, who: Who) -> Signer<'_> {
        self.people[who as usize].at(self.clock)
    }

    /// Writes a deed on any ledger; `None` if the act has nothing to refer to.
    fn write(&self, ledger: &mut Ledger, who: Who, act: &Act) -> Option<Written> {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.clock.to_be_bytes());
        let nonce = Fixed(nonce);
        let mut objects = Vec::new();
        let mut tx = ledger.transaction();
        let pick = |ids: Vec<&ObjectId>, index: &Index| (!ids.is_empty()).then(|| **index.get(&ids));
        let (object, what) = match act {
            Act::Plan => (stage(&mut tx, self.clock as u32).unwrap(), What::Plan),
            Act::Start { run } => {
                let run = pick(self.model.runs.keys().collect(), run)?;
                let plan = TypedId::new(Kind::Plan, run);
                let record = Start { nonce, plan, environment: None, lost: vec![], check: "quick".into() };
                let encoded = tx.put(&record).unwrap();
                tx.claim(StagedClaim::new(&record, &encoded));
                objects.push(encoded.bytes);
                (encoded.id, What::Start { run })
            }
            Act::End { start, status } => {
                let start = pick(self.model.starts.keys().collect(), start)?;
                let record = End {
                    nonce,
                    start: TypedId::new(Kind::Start, start),
                    status: status.word().into(),
                    code: None,
                    signal: None,
                };
                let encoded = tx.put(&record).unwrap();
                tx.claim(StagedClaim::new(&record, &encoded));
                objects.push(encoded.bytes);
                (encoded.id, What::End { start, status: *status })
            }
            Act::Dataset { name } => {
                let root = tx.put_blob(self.clock.to_be_bytes().to_vec());
                let record = Dataset { root };
                let encoded = tx.put(&record).unwrap();
                let name = format!("set-{name}");
                tx.claim(StagedClaim::new(&record, &encoded).named(Name::parse(&name)));
                objects.push(encoded.bytes);
                (encoded.id, What::Dataset { name })
            }
            Act::Note => {
                let subject = tx.put_blob(b"anything".to_vec());
                let record = Note { nonce, subject, text: "a remark".into() };
                let encoded = tx.put(&record).unwrap();
                tx.claim(StagedClaim::new(&record, &encoded));
                objects.push(encoded.bytes);
                (encoded.id, What::Note)
            }
        };
        let outcome = tx.commit(&self.signer(who));
        Some((Deed { who, object, what }, objects, outcome))
    }

    fn own(&mut self, objects: Vec<Vec<u8>>) {
        self.model.objects.extend(objects.into_iter().map(|bytes| (object_id(&bytes), bytes)));
    }

    /// Compares what was said with the model, where nothing has failed.
    fn hear(&mut self, deed: &Deed, objects: Vec<Vec<u8>>, outcome: Result<Outcome, Error>) {
        match outcome {
            Ok(Outcome::Accepted { .. }) => {
                self.model.flush();
                assert!(self.model.apply(deed), "{deed:?} was accepted");
                self.own(objects);
            }
            Ok(Outcome::Queued { .. }) => {
                assert_eq!(deed.who, Who::Ann, "who has a log key does not wait");
                self.model.waiting.push(deed.clone());
                self.own(objects);
            }
            Err(Error::Refused { reason }) => {
                // If it came as far as the log, it has ordered what waited.
                let pending = self.ledger.pending().unwrap();
                if pending.iter().all(|pending| self.ledger.state().statement(pending.id).is_some()) {
                    self.model.flush();
                }
                assert!(!self.model.apply(deed), "{deed:?} was refused: {reason}");
            }
            Err(error) => panic!("{deed:?}: {error:?}"),
        }
    }

    fn step(&mut self, step: &Step) {
        self.clock += 1;
        match step {
            Step::Put(objects) => {
                let ids = self.ledger.store().put_many(objects).unwrap();
                assert_eq!(ids.len(), objects.len());
                self.own(objects.clone());
            }
            Step::Write(who, act) => {
                let mut ledger = open(&real(self.dir.path()), self.dir.path()).unwrap();
                let Some((deed, objects, outcome)) = self.write(&mut ledger, *who, act) else { return };
                self.ledger = ledger;
                self.hear(&deed, objects, outcome);
            }
            Step::Crash { who, act, at, fault, loss } => self.crash(*who, act, *at, *fault, *loss),
            Step::Reopen => self.reopen(),
            Step::SaveState => {
                std::fs::create_dir_all(self.state_file().parent().unwrap()).unwrap();
                std::fs::write(self.state_file(), self.ledger.state().to_file().unwrap()).unwrap();
            }
            Step::SpoilState(at) => {
                if let Ok(mut bytes) = std::fs::read(self.state_file()) {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1;
                    std::fs::write(self.state_file(), bytes).unwrap();
                }
            }
            Step::DropDerived => {
                let _ = std::fs::remove_dir_all(self.dir.path().join("home/cache"));
                let _ = std::fs::remove_dir_all(self.dir.path().join(".ledger/tmp"));
            }
        }
    }

    fn state_file(&self) -> PathBuf {
        self.dir.path().join("home/cache").join(self.ledger.id().to_hex()).join("state")
    }

    fn crash(&mut self, who: Who, act: &Act, at: usize, fault: Fault, loss: Loss) {
        let dir = self.dir.path().to_owned();
        let disk = Arc::new(FaultDisk::failing(&dir, at, fault));
        let mut ledger = open(&(disk.clone() as Arc<dyn Disk>), &dir).unwrap();
        let written = self.write(&mut ledger, who, act);
        drop(ledger);
        disk.cut_power(loss).unwrap();
        let Some((deed, objects, outcome)) = written else { return };
        self.ledger = open(&real(&dir), &dir).unwrap();
        let is_there = self.ledger.state().claim(deed.object).is_some();
        if matches!(outcome, Ok(Outcome::Accepted { .. })) {
            assert!(is_there, "{deed:?} was acknowledged");
        }
        // Whatever waits, the unacknowledged one among it, is ordered now, so that the model can know.
        let _waiting = self.ledger.sequence(&self.people[0].at(self.clock), None).unwrap();
        self.model.flush();
        let is_there = self.ledger.state().claim(deed.object).is_some();
        if matches!(outcome, Ok(Outcome::Queued { .. })) {
            assert_eq!(is_there, self.model.apply(&deed), "{deed:?} was acknowledged as waiting");
        } else if is_there {
            assert!(self.model.apply(&deed), "{deed:?} is in the log");
        }
        if is_there {
            // Objects are durable before the statement is.
            self.own(objects);
        }
        let _settled = self.ledger.settle_own(self.signer(who).user).unwrap();
    }

    /// Opens the ledger anew and compares everything.
    /// A State file that is read page by page gives the same answers, or says that it is damaged.
    fn asked_in_pages(&self, objects: &[TypedId]) {
        let whole = self.ledger.state();
        let root = self.dir.path().join(".ledger");
        let home = Home::new(None, Some(self.dir.path().join("home/cache")));
        let paged = Ledger::open_to_ask(&root, home).unwrap();
        let same = objects.iter().all(|object| paged.state().claim(*object) == whole.claim(*object));
        assert!(same || !paged.state().is_sound(), "a damaged page was believed");
    }

    fn reopen(&mut self) {
        self.ledger = open(&real(self.dir.path()), self.dir.path()).unwrap();
        let (ledger, model) = (&self.ledger, &self.model);
        let state = ledger.state();
        for (id, bytes) in &model.objects {
            assert_eq!(&ledger.bytes(*id).unwrap(), bytes);
        }
        let mut done = Vec::new();
        let mut leaves = Vec::new();
        ledger
            .list::<Error>(0, &mut |listed| {
                leaves.push(listed.id);
                if listed.index > 2 && listed.standing == Standing::Accepted {
                    done.push(listed.claims[0].object);
                }
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        let wanted: Vec<TypedId> = model.done.iter().map(|deed| deed.object).collect();
        assert_eq!(done, wanted, "everything that counts is there once, in order");
        let hashes: Vec<TreeHash> = leaves.iter().map(|leaf| leaf_node(*leaf)).collect();
        assert_eq!(naive_root(&hashes), state.root());
        assert_eq!(state.root(), ledger.head().head().root);
        self.asked_in_pages(&wanted);
        let size = state.size();
        for (index, leaf) in leaves.iter().enumerate() {
            assert_eq!(statement_id(&ledger.log().statement(size, index as u64).unwrap()), *leaf);
        }
        for (run, (_, attempts)) in &model.runs {
            let found: Vec<ObjectId> = state.attempts(*run).into_iter().rev().map(|(id, _)| id).collect();
            assert_eq!(&found, attempts);
            let status = match attempts.last().map(|start| model.ended[start]) {
                None => RunStatus::Planned,
                Some(None) => RunStatus::Started,
                Some(Some(status)) => RunStatus::Ended(status),
            };
            assert_eq!(state.run_status(*run), Some(status));
        }
        assert_eq!(state.runs().len(), model.runs.len());
        for (text, (_, versions)) in &model.names {
            let name = Name::parse(text).unwrap();
            let row = state.name(Kind::Dataset, &name).unwrap();
            assert_eq!((row.versions as usize, row.object), (versions.len(), *versions.last().unwrap()));
            for (object, version) in versions.iter().zip(1..) {
                assert_eq!(state.version(Kind::Dataset, &name, version).unwrap().0, *object);
            }
        }
        let waiting: Vec<_> = ledger.pending().unwrap();
        let not_ordered = waiting.iter().filter(|pending| state.statement(pending.id).is_none()).count();
        assert_eq!(not_ordered, model.waiting.len());
        let scratch =
            Ledger::open_on(real(self.dir.path()), &self.dir.path().join(".ledger"), Home::default())
                .unwrap();
        assert_eq!(scratch.state().to_file(), state.to_file(), "from a file or from scratch");
    }
}

/// MTH of RFC 6962 as it is written there.
fn naive_root(leaves: &[TreeHash]) -> TreeHash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            node(naive_root(&leaves[..split]), naive_root(&leaves[split..]))
        }
    }
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![2 => Just(Who::Kim), 2 => Just(Who::Ben), 2 => Just(Who::Ann)]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Plan),
        3 => any::<Index>().prop_map(|run| Act::Start { run }),
        4 => (any::<Index>(), prop::sample::select(Status::ALL))
            .prop_map(|(start, status)| Act::End { start, status }),
        3 => (0..3u8).prop_map(|name| Act::Dataset { name }),
        1 => Just(Act::Note),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop::sample::select(vec![Fault::Stop, Fault::StopAfter, Fault::Misreport]);
    let loss = prop::sample::select(vec![Loss::Nothing, Loss::Content, Loss::Names]);
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        1 => prop::collection::vec(bytes, 0..4).prop_map(Step::Put),
        10 => (who(), act()).prop_map(|(who, act)| Step::Write(who, act)),
        5 => (who(), act(), 0..90usize, fault, loss)
            .prop_map(|(who, act, at, fault, loss)| Step::Crash { who, act, at, fault, loss }),
        2 => Just(Step::Reopen),
        1 => Just(Step::SaveState),
        1 => any::<Index>().prop_map(Step::SpoilState),
        1 => Just(Step::DropDerived),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ledger_agrees_with_a_plain_model(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.reopen();
    }
}
