//! State: what the log means, as the fold of its statements in order, in tables that are searched in place.
//!
//! [`State`] is a pure function of the statements: it reads no object, no clock and no disk. `fold.rs` holds
//! the rules, `rows.rs` what is kept, `table.rs` how, `pages.rs` and `file.rs` the State file, `advance.rs` the
//! checks that are made of each statement before the fold sees it. All of it can be deleted and folded again.

mod advance;
mod file;
mod fold;
mod pages;
mod rows;
mod table;

use std::sync::Arc;

use crate::id::{self, ClaimRef, HolderId, KeyId, LedgerId, ObjectId, StatementId, TreeHash};
use crate::log::merkle::CompactRange;
use crate::model::{Kind, Name, Role, TypedId};

use pages::Pages;
use rows::{join, number, typed, typed_key};
use table::Table;

pub use advance::{Error, Signatures, advance};
pub use fold::{Checks, RULES, Reason, Standing};
pub use pages::Source;
pub use rows::{AttemptRow, DigestRole, KeyRow, Mark, MarkTarget, NameRow, Place, RunRow};

/// The ledger that another one goes on from: its log as far as it is taken over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parent {
    /// Its id.
    pub ledger: LedgerId,
    /// Statements of its own log.
    pub size: u64,
    /// The root over them.
    pub root: TreeHash,
}

/// What holds after the statements so far.
///
/// Statements have *places* on one line: those of the parents first, the oldest parent's from 0 on, and then
/// those of the ledger's own log. Heads, `seen` and proofs count in one log only, so they use its indexes.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Where the tables' bases lie, when they were read from a file.
    pages: Arc<Pages>,
    /// The ledgers that this one goes on from, the oldest first.
    parents: Vec<Parent>,
    ledger: Option<LedgerId>,
    range: CompactRange,
    rules: u32,
    statements: Table<32, 9>,
    claims: Table<33, 26>,
    repeats: Table<37, 6>,
    otherwise: Table<49, 6>,
    digests: Table<32, 7>,
    more_digests: Table<7, 7>,
    keys: Table<32, 79>,
    names: Table<33, 75>,
    versions: Table<37, 38>,
    runs: Table<32, 42>,
    attempts: Table<32, 79>,
    registers: Table<33, 6>,
    votes: Table<65, 7>,
    marks: Table<38, 8>,
    requests: Table<48, 4>,
    erased: Table<32, 6>,
}

/// What a decision moves: the claim that is current in a register is the one that the next must name as `prev`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Register {
    /// The binding of a key.
    Key(KeyId),
    /// The number of the fold's rules.
    Format,
    /// The policy of a channel.
    Channel(Name),
    /// The last promotion in a channel.
    Promotion(Name),
    /// What a deployment target serves.
    Target(Name),
    /// What a name stands for, when an owner moved it.
    Name(Kind, Name),
}

impl Register {
    fn key(&self) -> [u8; 33] {
        let (tag, digest) = match self {
            Self::Key(key) => (0, *key.as_bytes()),
            Self::Format => (1, [0; 32]),
            Self::Channel(name) => (2, name_digest(name)),
            Self::Promotion(name) => (3, name_digest(name)),
            Self::Target(name) => (4, name_digest(name)),
            Self::Name(kind, name) => {
                let text = format!("{kind}\n{name}");
                (5, *id::object_id(text.as_bytes()).as_bytes())
            }
        };
        join(&[&[tag], &digest])
    }
}

fn name_digest(name: &Name) -> [u8; 32] {
    *id::object_id(name.as_str().as_bytes()).as_bytes()
}

fn name_key(kind: Kind, name: &Name) -> [u8; 33] {
    join(&[&[kind as u8], &name_digest(name)])
}

/// How a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunStatus {
    /// Frozen, never started.
    Planned,
    /// An attempt is open.
    Started,
    /// The latest attempt never ended and a later one presumed it lost.
    Lost,
    /// The latest attempt ended so.
    Ended(crate::model::Status),
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Planned => f.write_str("planned"),
            Self::Started => f.write_str("started"),
            Self::Lost => f.write_str("lost"),
            Self::Ended(status) => status.fmt(f),
        }
    }
}

impl State {
    /// The state before the first statement.
    pub fn new() -> Self {
        Self { rules: RULES, ..Self::default() }
    }

    /// Returns the ledger's id, once there is a first statement.
    pub const fn ledger(&self) -> Option<LedgerId> {
        self.ledger
    }

    /// Returns the number of statements folded of the ledger's own log.
    pub fn size(&self) -> u64 {
        self.range.size()
    }

    /// Returns the ledgers that this one goes on from, the oldest first.
    pub fn parents(&self) -> &[Parent] {
        &self.parents
    }

    /// Returns the place of the own log's first statement: the number of statements in the parents' logs.
    pub fn base(&self) -> u64 {
        self.parents.iter().map(|parent| parent.size).sum()
    }

    /// Returns the number of statements folded, those of parents included: the place that the next one gets.
    pub fn places(&self) -> u64 {
        self.base() + self.size()
    }

    /// Returns the state in which a ledger begins that goes on from this one: all holds, and its log is empty.
    ///
    /// A state before its first statement is no ledger, and is returned as it is.
    #[must_use]
    pub fn forked(&self) -> Self {
        let Some(ledger) = self.ledger else { return self.clone() };
        let mut forked = self.clone();
        forked.parents.push(Parent { ledger, size: self.size(), root: self.root() });
        forked.ledger = None;
        forked.range = CompactRange::new();
        forked
    }

    /// Whether the ledger's first statement is one that opens a ledger.
    pub fn is_founded(&self) -> bool {
        let first = self.ledger.map(|ledger| StatementId::from_bytes(*ledger.as_bytes()));
        first.and_then(|first| self.statement(first)).is_some_and(|(_, said)| said == Standing::Accepted)
    }

    /// Returns the own log's root over them.
    pub fn root(&self) -> TreeHash {
        self.range.root()
    }

    /// Returns the number of the fold's rules in force.
    pub const fn rules(&self) -> u32 {
        self.rules
    }

    /// Finds a statement's place and standing.
    pub fn statement(&self, id: StatementId) -> Option<(u32, Standing)> {
        let row = self.statements.get(id.as_bytes())?;
        Some((number(&row[..4]), Standing::from_number(row[4])))
    }

    /// Returns the place of a claim whose statement is accepted.
    pub fn place(&self, claim: &ClaimRef) -> Option<Place> {
        match self.statement(claim.statement)? {
            (index, Standing::Accepted) => Some(Place { index, position: claim.position }),
            _ => None,
        }
    }

    /// Returns the key that signed a statement, if it is a known one.
    pub fn author_of_statement(&self, id: StatementId) -> Option<KeyRow> {
        self.key_numbered(number(&self.statements.get(id.as_bytes())?[5..]))
    }

    /// Returns the first accepted claim of an object.
    pub fn claim(&self, id: TypedId) -> Option<Place> {
        self.claims.get(&typed_key(id)).map(|row| Place::unpack(&row[..6]))
    }

    /// Returns the key that first claimed an object.
    pub fn author(&self, id: TypedId) -> Option<KeyRow> {
        let row = self.claims.get(&typed_key(id))?;
        self.key_numbered(number(&row[6..10]))
    }

    /// Returns where a key claimed an object, first or as a repeat.
    pub fn claim_by(&self, id: TypedId, key: KeyId) -> Option<Place> {
        let key = self.key_number(key)?;
        if let Some(row) = self.claims.get(&typed_key(id))
            && number(&row[6..10]) == key
        {
            return Some(Place::unpack(&row[..6]));
        }
        let row = self.repeats.get(&join(&[&typed_key(id), &key.to_be_bytes()]))?;
        Some(Place::unpack(&row))
    }

    /// Whether a holder claimed an object, with any of its keys.
    pub fn stated_by(&self, id: TypedId, holder: HolderId) -> bool {
        self.keys().iter().any(|key| key.holder == holder && self.claim_by(id, key.id).is_some())
    }

    /// Returns accepted objects of a kind whose id begins with some hex digits, for short ids.
    pub fn claimed_with_prefix(&self, kind: Kind, prefix: &id::Prefix) -> Vec<TypedId> {
        let from = [&[kind as u8], prefix.whole_bytes().as_slice()].concat();
        let all = self.claims.prefixed(&from).filter_map(|(key, _)| typed(&key));
        let mut found: Vec<TypedId> = all.filter(|id| prefix.matches(id.id.as_bytes())).collect();
        found.sort_unstable();
        found
    }

    /// Returns all claimed objects of a kind with their first claims, in log order.
    pub fn claimed(&self, kind: Kind) -> Vec<(TypedId, Place)> {
        let from = [kind as u8];
        let rows = self.claims.prefixed(&from);
        let mut found: Vec<(TypedId, Place)> =
            rows.filter_map(|(key, row)| Some((typed(&key)?, Place::unpack(&row[..6])))).collect();
        found.sort_unstable_by_key(|(_, place)| *place);
        found
    }

    /// Returns the accepted claims that hold a digest, latest first.
    pub fn with_digest(&self, digest: ObjectId) -> Vec<(DigestRole, Place)> {
        let mut found = Vec::new();
        let mut next = self.digests.get(digest.as_bytes());
        while let Some(row) = next {
            if let Some(role) = DigestRole::from_number(row[6]) {
                found.push((role, Place::unpack(&row[..6])));
            }
            next = self.more_digests.get(&row);
        }
        found
    }

    /// Finds a key.
    pub fn key(&self, key: KeyId) -> Option<KeyRow> {
        self.keys.get(key.as_bytes()).map(|row| KeyRow::unpack(key.as_bytes(), &row))
    }

    /// Returns all keys in the order of their introduction.
    pub fn keys(&self) -> Vec<KeyRow> {
        let mut keys: Vec<KeyRow> = self.keys.iter().map(|(key, row)| KeyRow::unpack(&key, &row)).collect();
        keys.sort_unstable_by_key(|key| key.number);
        keys
    }

    fn key_number(&self, key: KeyId) -> Option<u32> {
        self.keys.get(key.as_bytes()).map(|row| KeyRow::number_of(&row))
    }

    fn key_numbered(&self, number: u32) -> Option<KeyRow> {
        self.keys().into_iter().find(|key| key.number == number)
    }

    fn is_holder(&self, holder: HolderId) -> bool {
        self.keys.iter().any(|(key, row)| KeyRow::unpack(&key, &row).holder == holder)
    }

    /// Whether a holder has a role with any of its keys.
    pub fn holder_has(&self, holder: HolderId, role: Role) -> bool {
        self.keys().iter().any(|key| key.holder == holder && key.has(role))
    }

    /// Finds a name.
    pub fn name(&self, kind: Kind, name: &Name) -> Option<NameRow> {
        self.names.get(&name_key(kind, name)).map(|row| NameRow::unpack(&row))
    }

    /// Returns the object and claim of one version of a name, from 1.
    pub fn version(&self, kind: Kind, name: &Name, version: u32) -> Option<(ObjectId, Place)> {
        let key = join(&[&name_key(kind, name), &version.to_be_bytes()]);
        let row = self.versions.get(&key)?;
        let mut object = [0; 32];
        object.copy_from_slice(&row[..32]);
        Some((ObjectId::from_bytes(object), Place::unpack(&row[32..])))
    }

    /// Finds a run by its plan.
    pub fn run(&self, plan: ObjectId) -> Option<RunRow> {
        self.runs.get(plan.as_bytes()).map(|row| RunRow::unpack(&row))
    }

    /// Returns all runs, in log order.
    pub fn runs(&self) -> Vec<(ObjectId, RunRow)> {
        let rows = self.runs.iter();
        let mut runs: Vec<_> =
            rows.map(|(plan, row)| (ObjectId::from_bytes(plan), RunRow::unpack(&row))).collect();
        runs.sort_unstable_by_key(|(_, row)| row.claim);
        runs
    }

    /// Finds an attempt by its start.
    pub fn attempt(&self, start: ObjectId) -> Option<AttemptRow> {
        self.attempts.get(start.as_bytes()).map(|row| AttemptRow::unpack(&row))
    }

    /// Returns a run's attempts, latest first.
    pub fn attempts(&self, plan: ObjectId) -> Vec<(ObjectId, AttemptRow)> {
        let mut found = Vec::new();
        let mut next = self.run(plan).and_then(|run| run.last);
        while let Some(start) = next {
            let Some(attempt) = self.attempt(start) else { break };
            next = attempt.before;
            found.push((start, attempt));
        }
        found
    }

    /// Returns how a run stands.
    pub fn run_status(&self, plan: ObjectId) -> Option<RunStatus> {
        let run = self.run(plan)?;
        let Some(attempt) = run.last.and_then(|start| self.attempt(start)) else {
            return Some(RunStatus::Planned);
        };
        Some(match attempt.ended {
            Some((status, _)) => RunStatus::Ended(status),
            None if attempt.lost => RunStatus::Lost,
            None => RunStatus::Started,
        })
    }

    /// Returns the claim that is current in a register.
    pub fn register(&self, register: &Register) -> Option<Place> {
        self.registers.get(&register.key()).map(|row| Place::unpack(&row))
    }

    /// Returns all marks of statements at places below `size`.
    pub fn marks(&self, size: u64) -> Vec<Mark> {
        let rows = self.marks.iter().filter_map(|(key, row)| Mark::unpack(&key, row));
        let mut marks: Vec<Mark> = rows.filter(|mark| u64::from(mark.index) < size).collect();
        marks.sort_unstable_by_key(|mark| mark.index);
        marks
    }

    /// Returns the first statement in which a key made a request.
    pub fn request(&self, key: KeyId, req: &[u8; 16]) -> Option<u32> {
        self.requests.get(&join(&[key.as_bytes(), req])).map(|row| number(&row))
    }

    /// Returns the claim that allows an object to be absent.
    pub fn erased(&self, object: ObjectId) -> Option<Place> {
        self.erased.get(object.as_bytes()).map(|row| Place::unpack(&row))
    }

    fn set_key(&mut self, row: &KeyRow) {
        self.keys.set(*row.id.as_bytes(), row.pack());
    }

    fn set_name(&mut self, kind: Kind, name: &Name, row: &NameRow) {
        let key = name_key(kind, name);
        self.names.set(key, row.pack());
        if row.versions > 0 {
            let version = join(&[&key, &row.versions.to_be_bytes()]);
            self.versions.set(version, join(&[row.object.as_bytes(), &row.claim.pack()]));
        }
    }

    fn set_mark(&mut self, mark: &Mark) {
        let (key, row) = mark.pack();
        self.marks.set(key, row);
    }

    /// Whether an object was claimed before in the same words.
    fn was_said(&self, id: TypedId, essence: &[u8; 16]) -> bool {
        let typed = typed_key(id);
        let first = self.claims.get(&typed);
        first.is_some_and(|row| row[10..] == *essence)
            || (first.is_some() && self.otherwise.get(&join(&[&typed, essence])).is_some())
    }

    /// Records a claim of an object; `false` if the same was said of it before.
    fn record_claim(&mut self, id: TypedId, essence: &[u8; 16], place: Place, key: u32) -> bool {
        let typed = typed_key(id);
        let Some(first) = self.claims.get(&typed) else {
            self.claims.set(typed, join(&[&place.pack(), &key.to_be_bytes(), essence]));
            return true;
        };
        let repeat = join(&[&typed, &key.to_be_bytes()]);
        if self.repeats.get(&repeat).is_none() {
            self.repeats.set(repeat, place.pack());
        }
        let other = join(&[&typed, essence]);
        let is_new = first[10..] != *essence && self.otherwise.get(&other).is_none();
        if is_new {
            self.otherwise.set(other, place.pack());
        }
        is_new
    }

    fn record_digest(&mut self, digest: ObjectId, role: DigestRole, place: Place) {
        let row: [u8; 7] = join(&[&place.pack(), &[role as u8]]);
        if let Some(earlier) = self.digests.get(digest.as_bytes()) {
            if earlier == row {
                return;
            }
            self.more_digests.set(row, earlier);
        }
        self.digests.set(*digest.as_bytes(), row);
    }

    fn record_vote(&mut self, holder: HolderId, subject: TypedId, decision: u8, place: Place) {
        let key = join(&[holder.first_key().as_bytes(), &typed_key(subject)]);
        self.votes.set(key, join(&[&place.pack(), &[decision]]));
    }

    fn record_request(&mut self, key: KeyId, req: &[u8; 16], index: u32) {
        let row = join(&[key.as_bytes(), req]);
        if self.requests.get(&row).is_none() {
            self.requests.set(row, index.to_be_bytes());
        }
    }
}
