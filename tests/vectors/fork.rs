//! Logs that go on from another one: first statements that may do so and that may not, and what holds after one.

use ledger::id::{LedgerId, TreeHash, hex, statement_id};
use ledger::log::key::SigningKey;
use ledger::log::statement::{Claim, Payload, Seen};
use ledger::model::{Facts, Kind, Role};
use ledger::state::{Parent, Signatures, Standing, State, advance};
use serde_json::{Value, json};

use super::fold::{
    Case, EVERYTHING, checkpoint, claim, end, key_claim, note, plan, rows, signed, start, summary,
};
use super::scene::{Keys, holder};

/// Folds statements on a state that holds no statement of their log yet; what they saw is asked of the fold alone.
fn fold(state: &mut State, cases: &[Case]) {
    let leaves: Vec<&[u8]> = cases.iter().map(|case| case.bytes.as_slice()).collect();
    let mut root_at = |_| -> Result<TreeHash, std::convert::Infallible> { panic!("there is no past") };
    let said = advance(state, &leaves, Signatures::Check, &mut root_at).unwrap();
    for (case, said) in cases.iter().zip(said) {
        assert_eq!(said.to_string(), case.standing, "{}", case.what);
    }
}

/// One log, folded as it is written.
struct Script {
    state: State,
    cases: Vec<Case>,
    /// The state before the first statement of this log.
    before: State,
}

impl Script {
    fn on(before: State) -> Self {
        Self { state: before.clone(), cases: Vec::new(), before }
    }

    fn push(&mut self, what: &'static str, standing: &'static str, bytes: Vec<u8>) {
        self.cases.push(Case { what, bytes, standing });
        self.state = self.before.clone();
        fold(&mut self.state, &self.cases);
    }

    fn payload(&self, claims: Vec<Claim<'static>>) -> Payload<'static> {
        let seen = Seen { size: self.state.size(), root: self.state.root() };
        Payload { ledger: self.state.ledger(), seen: Some(seen), claims, req: None }
    }

    fn kim(&mut self, what: &'static str, standing: &'static str, claims: Vec<Claim<'static>>) {
        let keys = Keys::new();
        let bytes = signed(&self.payload(claims), holder(&keys.author), &keys.author);
        self.push(what, standing, bytes);
    }
}

fn genesis(nonce: u8, parent: Option<Parent>, rules: u32) -> Claim<'static> {
    let parent = parent.map(|parent| (parent.ledger, parent.size, parent.root));
    let seed = format!("genesis {nonce} {parent:?}");
    claim(Kind::Genesis, &seed, &[], &Facts::Genesis { nonce: [nonce; 16], rules, parent })
}

fn first(claims: Vec<Claim<'static>>, by: &SigningKey) -> Vec<u8> {
    let of = if by.public() == Keys::new().lee.public() || by.public() == Keys::new().stranger.public() {
        holder(by)
    } else {
        holder(&Keys::new().author)
    };
    signed(&Payload { ledger: None, seen: None, claims, req: None }, of, by)
}

/// The ledger that is gone on from: kim with all keys, lee as an author, a run that has not ended.
fn parent() -> Script {
    let keys = Keys::new();
    let (kim, lee) = (holder(&keys.author), holder(&keys.lee));
    let nonce = [0x43; 16];
    let mut log = Script::on(State::new());
    let opening = vec![
        genesis(0x43, None, 1),
        key_claim(&keys.author, kim, &EVERYTHING, Some(&nonce)),
        key_claim(&keys.log, kim, &[Role::Log], Some(&nonce)),
        key_claim(&keys.recovery, kim, &[Role::Recovery], Some(&nonce)),
    ];
    log.push("genesis and three keys", "accepted", first(opening, &keys.author));
    let ctx = *log.state.ledger().unwrap().as_bytes();
    log.kim("lee's key", "accepted", vec![key_claim(&keys.lee, lee, &[Role::Author], Some(&ctx))]);
    log.kim("a plan and its start", "accepted", vec![plan("p"), start("s", "p")]);
    log
}

fn as_parent(state: &State) -> Parent {
    state.forked().parents().last().copied().unwrap()
}

/// First statements of logs that go on from that ledger, each of a log of its own.
fn first_statements(of: &State) -> Vec<Case> {
    let keys = Keys::new();
    let right = as_parent(of);
    let other = |change: fn(&mut Parent)| {
        let mut parent = right;
        change(&mut parent);
        Some(parent)
    };
    let alone = |parent| vec![genesis(1, parent, 1)];
    let nonce = [1; 16];
    let stranger = key_claim(&keys.stranger, holder(&keys.stranger), &EVERYTHING, Some(&nonce));
    let rows = [
        ("by an owner of the parent", "accepted", first(alone(Some(right)), &keys.author)),
        ("by the recovery key of the parent", "accepted", first(alone(Some(right)), &keys.recovery)),
        ("by an author", "rejected (role-not-allowed)", first(alone(Some(right)), &keys.lee)),
        ("by a log key", "rejected (role-not-allowed)", first(alone(Some(right)), &keys.log)),
        ("by a key that the parent does not have", "rejected (unknown-key)", {
            first(alone(Some(right)), &keys.stranger)
        }),
        (
            "by such a key, which it introduces",
            "rejected (unknown-key)",
            first(vec![genesis(1, Some(right), 1), stranger.clone()], &keys.stranger),
        ),
        (
            "by an owner, with a key beside it",
            "rejected (bad-form)",
            first(vec![genesis(1, Some(right), 1), stranger], &keys.author),
        ),
        (
            "two claims of genesis",
            "rejected (bad-form)",
            first(vec![genesis(1, Some(right), 1), genesis(2, Some(right), 1)], &keys.author),
        ),
        ("no parent", "rejected (other-history)", first(alone(None), &keys.author)),
        (
            "another ledger as parent",
            "rejected (foreign-ledger)",
            first(alone(other(|parent| parent.ledger = LedgerId::from_bytes([9; 32]))), &keys.author),
        ),
        (
            "the parent at another size",
            "rejected (other-history)",
            first(alone(other(|parent| parent.size -= 1)), &keys.author),
        ),
        (
            "the parent with another root",
            "rejected (other-history)",
            first(alone(other(|parent| parent.root = TreeHash::from_bytes([9; 32]))), &keys.author),
        ),
        ("rules of a later year", "unknown", first(vec![genesis(1, Some(right), 2)], &keys.author)),
        ("no genesis", "rejected (bad-form)", first(vec![note("none")], &keys.author)),
    ];
    rows.map(|(what, standing, bytes)| Case { what, bytes, standing }).into()
}

/// A log that goes on, in which what was said before it still counts.
fn child(of: &State) -> Script {
    let keys = Keys::new();
    let mut log = Script::on(of.forked());
    let opening = vec![genesis(1, Some(as_parent(of)), 1)];
    log.push("by an owner of the parent", "accepted", first(opening, &keys.author));
    log.kim("the end of an attempt that began before", "accepted", vec![end("e", "s")]);
    log.kim("another end of it", "rejected (already-ended)", vec![end("e2", "s")]);
    let named = Facts::Named { name: None };
    log.kim("a checkpoint", "accepted", vec![checkpoint("c", &named)]);
    let stale = Payload { ledger: of.ledger(), ..log.payload(vec![note("stale")]) };
    let stale = signed(&stale, holder(&keys.author), &keys.author);
    log.push("for the parent", "rejected (foreign-ledger)", stale);
    let ctx = of.ledger().unwrap();
    let unproven =
        key_claim(&keys.stranger, holder(&keys.stranger), &[Role::Author], Some(ctx.as_bytes().as_slice()));
    log.kim("a key whose proof is for the parent", "rejected (bad-signature)", vec![unproven]);
    log
}

fn log_json(log: &Script) -> Value {
    json!({
        "ledger": log.state.ledger().unwrap().to_hex(),
        "root": log.state.root().to_hex(),
        "size": log.state.size(),
        "statements": rows(&log.cases),
        "state": summary(&log.state),
    })
}

pub(crate) fn as_json() -> Value {
    let parent = parent();
    let child = child(&parent.state);
    let grandchild = grandchild(&child.state);
    json!({
        "parent": log_json(&parent),
        "first": rows(&first_statements(&parent.state)),
        "child": log_json(&child),
        "grandchild": log_json(&grandchild),
    })
}

fn grandchild(of: &State) -> Script {
    let mut log = Script::on(of.forked());
    let opening = vec![genesis(3, Some(as_parent(of)), 1)];
    log.push("by an owner of the oldest", "accepted", first(opening, &Keys::new().author));
    log.kim("a start of a plan of the oldest", "accepted", vec![start("t", "p")]);
    log
}

#[test]
fn a_ledger_goes_on_only_from_what_its_first_statement_names() {
    let parent = parent();
    let before = parent.state.forked();
    assert_eq!((before.size(), before.base(), before.places()), (0, 3, 3));
    for case in first_statements(&parent.state) {
        let mut state = before.clone();
        fold(&mut state, std::slice::from_ref(&case));
        let is_accepted = case.standing == "accepted";
        assert_eq!(state.is_founded(), is_accepted, "{}", case.what);
        assert_eq!(state.ledger(), Some(LedgerId::of_genesis(statement_id(&case.bytes))), "{}", case.what);
        let keys = if is_accepted { parent.state.keys() } else { Vec::new() };
        assert_eq!(state.keys(), keys, "what may not go on takes nothing over: {}", case.what);
        // Without the parent before it, none of them opens anything.
        let mut alone = State::new();
        let bytes = case.bytes.as_slice();
        let mut root_at = |_| -> Result<TreeHash, std::convert::Infallible> { panic!("there is no past") };
        let said = advance(&mut alone, &[bytes], Signatures::Check, &mut root_at).unwrap();
        assert_ne!(said[0], Standing::Accepted, "{} {}", case.what, hex(bytes));
        assert!(!alone.is_founded() && alone.keys().is_empty(), "{}", case.what);
    }
}

#[test]
fn places_count_on_and_a_state_file_keeps_them() {
    let parent = parent();
    let child = child(&parent.state);
    let grandchild = grandchild(&child.state);
    for (log, parents, base) in [(&parent, 0, 0), (&child, 1, 3), (&grandchild, 2, 9)] {
        let state = &log.state;
        assert_eq!((state.parents().len(), state.base()), (parents, base));
        for (at, case) in log.cases.iter().enumerate() {
            let (place, said) = state.statement(statement_id(&case.bytes)).unwrap();
            assert_eq!(u64::from(place), base + at as u64, "{}", case.what);
            assert_eq!(said.to_string(), case.standing);
        }
        let file = state.to_file().unwrap();
        let read = State::from_file(file.clone(), state.ledger().unwrap()).unwrap();
        assert_eq!((read.parents(), read.places()), (state.parents(), state.places()));
        assert_eq!(read.to_file().unwrap(), file);
    }
    // What the oldest said is where it was.
    let first = statement_id(&parent.cases[2].bytes);
    assert_eq!(grandchild.state.statement(first), Some((2, Standing::Accepted)));
    assert_eq!(grandchild.state.run_status(grandchild.state.runs()[0].0).unwrap().to_string(), "started");
}
