//! A log that meets every rule of the fold, with the standing of each statement written down here and kept there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ledger::id::{
    ClaimRef, HolderId, LedgerId, ObjectId, StatementId, TreeHash, hex, object_id, sha256, statement_id,
};
use ledger::log::key::{SigningKey, possession_message};
use ledger::log::statement::{Claim, Link, Payload, Seen, sign};
use ledger::model::{
    Decision, DeploymentAction, Facts, Kind, Name, NameAction, Outcome, PromotionAction, Role, Status,
    Target, TypedId,
};
use ledger::state::{MarkTarget, Signatures, Standing, State, advance};
use serde_json::{Value, json};

use super::scene::{Keys, TIME, holder};

/// A statement with the reason why it stands in this log, and what the fold says of it.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) standing: &'static str,
}

/// The log so far.
struct Script {
    keys: Keys,
    cases: Vec<Case>,
    state: State,
    roots: Vec<TreeHash>,
}

pub(crate) fn claim(
    kind: Kind,
    seed: &str,
    links: &[(&'static str, TypedId)],
    facts: &Facts,
) -> Claim<'static> {
    // The fold reads no object, so any bytes will do.
    let bytes = format!("{kind} {seed}").into_bytes();
    let link = |(role, target): &(&'static str, TypedId)| Link {
        role: Cow::Borrowed(*role),
        kind: Cow::Borrowed(target.kind.word()),
        id: target.id,
    };
    let mut links: Vec<Link<'static>> = links.iter().map(link).collect();
    links.sort();
    Claim {
        kind: kind.word().into(),
        object: object_id(&bytes),
        sha256: sha256(&bytes),
        size: bytes.len() as u64,
        links,
        facts: facts.encode().into(),
        prev: None,
    }
}

fn id(kind: Kind, seed: &str) -> TypedId {
    TypedId::new(kind, object_id(format!("{kind} {seed}").as_bytes()))
}

pub(crate) fn key_claim(
    key: &SigningKey,
    of: HolderId,
    roles: &[Role],
    ctx: Option<&[u8]>,
) -> Claim<'static> {
    let public = key.public();
    let facts = Facts::Key {
        key: *public.as_bytes(),
        holder: of,
        roles: roles.iter().copied().collect(),
        proof: ctx.map(|ctx| key.sign(&possession_message(ctx, &public, of))),
    };
    let seed = format!("{} {}", hex(public.as_bytes()), roles.len());
    claim(Kind::Key, &seed, &[("holder", id(Kind::Holder, "somebody"))], &facts)
}

/// Names the claim that a decision replaces.
fn after(mut claim: Claim<'static>, statement: StatementId, position: u16) -> Claim<'static> {
    claim.prev = Some(ClaimRef { statement, position });
    claim
}

/// Gives a claim facts that the model has no form for.
fn saying(mut claim: Claim<'static>, facts: &[(&str, &str)]) -> Claim<'static> {
    let facts: BTreeMap<&str, &str> = facts.iter().copied().collect();
    claim.facts = ledger::codec::encode(&facts).unwrap().into();
    claim
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn named(text: &str) -> Facts {
    Facts::Named { name: Some(name(text)) }
}

pub(crate) fn checkpoint(seed: &str, facts: &Facts) -> Claim<'static> {
    let links = [("full", id(Kind::Tree, seed)), ("weights", id(Kind::Tree, "weights"))];
    claim(Kind::Checkpoint, seed, &links, facts)
}

pub(crate) fn plan(seed: &str) -> Claim<'static> {
    claim(Kind::Plan, seed, &[("manifest", id(Kind::Blob, "m"))], &Facts::Named { name: None })
}

pub(crate) fn start(seed: &str, plan: &str) -> Claim<'static> {
    claim(Kind::Start, seed, &[("plan", id(Kind::Plan, plan))], &Facts::None)
}

pub(crate) fn end(seed: &str, start: &str) -> Claim<'static> {
    let facts = Facts::End { status: Status::Completed };
    claim(Kind::End, seed, &[("start", id(Kind::Start, start))], &facts)
}

pub(crate) fn note(seed: &str) -> Claim<'static> {
    claim(Kind::Note, seed, &[("subject", id(Kind::Blob, "anything"))], &Facts::None)
}

pub(crate) const EVERYTHING: [Role; 5] =
    [Role::Owner, Role::Author, Role::Evaluator, Role::Reviewer, Role::Approver];

/// The names whose holders and versions stand in the summary of the state.
const NAMES: [(Kind, &str); 4] = [
    (Kind::Checkpoint, "digits"),
    (Kind::Checkpoint, "reserved"),
    (Kind::Plan, "second"),
    (Kind::Dataset, "digits"),
];

impl Script {
    fn ledger(&self) -> LedgerId {
        self.state.ledger().unwrap()
    }

    fn seen(&self) -> Seen {
        Seen { size: self.state.size(), root: self.state.root() }
    }

    fn payload(&self, claims: Vec<Claim<'static>>) -> Payload<'static> {
        Payload { ledger: Some(self.ledger()), seen: Some(self.seen()), claims, req: None }
    }

    fn push(&mut self, what: &'static str, standing: &'static str, bytes: Vec<u8>) -> StatementId {
        let roots = self.roots.clone();
        let mut root_at = |size: u64| Ok::<_, std::convert::Infallible>(roots[size as usize]);
        let said = advance(&mut self.state, &[&bytes], Signatures::Check, &mut root_at).unwrap();
        assert_eq!(said[0].to_string(), standing, "{what}");
        self.roots.push(self.state.root());
        let id = statement_id(&bytes);
        self.cases.push(Case { what, bytes, standing });
        id
    }

    fn by(
        &mut self,
        who: &SigningKey,
        what: &'static str,
        standing: &'static str,
        claims: Vec<Claim<'static>>,
    ) -> StatementId {
        let payload = self.payload(claims);
        let of = if who.public() == self.keys.lee.public() { holder(who) } else { holder(&self.keys.author) };
        let bytes = signed(&payload, of, who);
        self.push(what, standing, bytes)
    }
}

pub(crate) fn signed(payload: &Payload<'_>, of: HolderId, who: &SigningKey) -> Vec<u8> {
    let prefix = Kind::from_word(&payload.claims[0].kind).map_or("mood", Kind::prefix);
    sign(payload, prefix, of, TIME, who).unwrap()
}

fn run() -> Script {
    let empty = State::new();
    let roots = vec![empty.root()];
    let mut log = Script { keys: Keys::new(), cases: Vec::new(), state: empty, roots };
    let keys = Keys::new();
    let (kim, lee) = (holder(&keys.author), holder(&keys.lee));
    let nonce = [0x41; 16];
    let genesis = Payload {
        ledger: None,
        seen: None,
        claims: vec![
            claim(Kind::Genesis, "", &[], &Facts::Genesis { nonce, rules: 1, parent: None }),
            key_claim(&keys.author, kim, &EVERYTHING, Some(&nonce)),
            key_claim(&keys.log, kim, &[Role::Log], Some(&nonce)),
            key_claim(&keys.recovery, kim, &[Role::Recovery], Some(&nonce)),
        ],
        req: None,
    };
    let first = log.push("genesis and three keys", "accepted", signed(&genesis, kim, &keys.author));
    let ctx = *log.ledger().as_bytes();

    let plan_p = plan("p");
    let opening = vec![plan_p.clone(), start("s", "p")];
    let planned = log.by(&keys.author, "a plan and its start", "accepted", opening);

    log.push("not a statement", "rejected (bad-form)", vec![0]);
    let payload = log.payload(vec![note("forged")]);
    let mut forged = signed(&payload, kim, &keys.author);
    *forged.last_mut().unwrap() ^= 1;
    log.push("a flipped bit in the signature", "rejected (bad-signature)", forged);
    let other = Payload { ledger: Some(LedgerId::from_bytes([9; 32])), ..log.payload(vec![note("other")]) };
    log.push("for another ledger", "rejected (foreign-ledger)", signed(&other, kim, &keys.author));
    let fork = Seen { size: 2, root: TreeHash::from_bytes([9; 32]) };
    let other = Payload { seen: Some(fork), ..log.payload(vec![note("fork")]) };
    log.push("a head that this log never had", "rejected (other-history)", signed(&other, kim, &keys.author));
    let ahead = Seen { size: 100, root: TreeHash::from_bytes([9; 32]) };
    let other = Payload { seen: Some(ahead), ..log.payload(vec![note("ahead")]) };
    log.push("a head beyond its own place", "rejected (other-history)", signed(&other, kim, &keys.author));
    log.by(&keys.stranger, "a key that nobody introduced", "rejected (unknown-key)", vec![note("stranger")]);
    log.by(&keys.log, "a log key states a fact", "rejected (role-not-allowed)", vec![note("log")]);
    let payload = log.payload(vec![note("issuer")]);
    log.push("`iss` is not the key's holder", "rejected (bad-form)", signed(&payload, lee, &keys.author));
    let payload = log.payload(vec![note("subject")]);
    let bytes = sign(&payload, "run", kim, TIME, &keys.author).unwrap();
    log.push("`sub` has the prefix of another kind", "rejected (bad-form)", bytes);
    let holder_claim = claim(Kind::Holder, "h", &[], &Facts::None);
    log.by(&keys.author, "a kind that is never claimed", "rejected (bad-form)", vec![holder_claim]);
    let unlinked = claim(Kind::Plan, "q", &[], &Facts::Named { name: None });
    log.by(&keys.author, "a plan without its manifest", "rejected (bad-form)", vec![unlinked]);
    let mut swapping = note("prev");
    swapping.prev = Some(ClaimRef { statement: planned, position: 0 });
    log.by(&keys.author, "an act with `prev`", "rejected (bad-form)", vec![swapping]);

    log.by(&keys.author, "an end of no known start", "rejected (link-not-accepted)", vec![end("e0", "none")]);
    log.by(&keys.author, "the end", "accepted", vec![end("e1", "s")]);
    log.by(&keys.author, "another end", "rejected (already-ended)", vec![end("e2", "s")]);
    log.by(&keys.author, "the same end again", "accepted", vec![end("e1", "s")]);
    let both = vec![start("t", "p"), end("e3", "t"), end("e4", "t")];
    log.by(&keys.author, "two ends in one statement", "rejected (already-ended)", both);
    log.by(&keys.author, "the first plan again", "accepted", vec![plan_p]);
    acts(&mut log);

    let lees = key_claim(&keys.lee, lee, &[Role::Author], Some(&ctx));
    let unproven = key_claim(&keys.lee, lee, &[Role::Author], Some(&nonce));
    log.by(
        &keys.author,
        "a key whose proof is for another context",
        "rejected (bad-signature)",
        vec![unproven],
    );
    let of_nobody = key_claim(&keys.stranger, holder(&keys.log), &[Role::Author], Some(&ctx));
    log.by(&keys.author, "a key of a holder who is none", "rejected (bad-form)", vec![of_nobody]);
    let paired = key_claim(&keys.stranger, holder(&keys.stranger), &[Role::Author, Role::Log], Some(&ctx));
    log.by(&keys.author, "a key that orders and states", "rejected (bad-form)", vec![paired]);
    let added = log.by(&keys.author, "lee's key", "accepted", vec![lees]);
    let dead = key_claim(&keys.lee, lee, &[], None);
    log.by(
        &keys.author,
        "a key claim without the one it replaces",
        "rejected (lost-race)",
        vec![dead.clone()],
    );
    log.by(&keys.lee, "lee ends kim's attempt", "rejected (role-not-allowed)", vec![end("e5", "s")]);
    let no_log = after(key_claim(&keys.log, kim, &[], None), first, 2);
    log.by(&keys.author, "the only log key emptied", "rejected (would-lock-out)", vec![no_log.clone()]);
    log.by(&keys.log, "a log key empties itself", "rejected (role-not-allowed)", vec![no_log]);
    let no_rescue = after(key_claim(&keys.recovery, kim, &[], None), first, 3);
    log.by(
        &keys.author,
        "an owner empties the recovery key",
        "rejected (role-not-allowed)",
        vec![no_rescue.clone()],
    );
    log.by(&keys.recovery, "the recovery key empties itself", "rejected (role-not-allowed)", vec![no_rescue]);
    names(&mut log);
    decisions(&mut log);
    let mut mood = note("mood");
    mood.kind = "mood".into();
    log.by(&keys.author, "a kind of newer rules", "unknown", vec![mood.clone()]);
    let glad = saying(note("glad"), &[("mood", "good")]);
    log.by(&keys.author, "a fact of newer rules", "unknown", vec![glad]);
    let move_of = |kind| {
        let facts = [("kind", kind), ("name", "x"), ("action", "retire")];
        saying(claim(Kind::Name, kind, &[], &Facts::None), &facts)
    };
    log.by(&keys.author, "a fact that names a kind of newer rules", "unknown", vec![move_of("mood")]);
    let newer = saying(plan("n"), &[("mood", "good")]);
    let both = vec![newer, start("n", "n")];
    log.by(&keys.author, "a start of a plan that newer rules state beside it", "unknown", both);
    let mixed = vec![mood, end("e6", "none")];
    log.by(&keys.author, "one claim unknown, one rejected", "rejected (link-not-accepted)", mixed);
    let emptied = after(dead, added, 0);
    let emptied = log.by(&keys.lee, "lee ends the use of an own key", "accepted", vec![emptied]);
    log.by(&keys.lee, "a key that is dead", "rejected (role-not-allowed)", vec![note("dead")]);
    let owner = after(key_claim(&keys.lee, lee, &[Role::Author, Role::Owner], None), emptied, 0);
    log.by(&keys.recovery, "the recovery key appoints an owner", "accepted", vec![owner]);
    log.by(
        &keys.recovery,
        "the recovery key states a fact",
        "rejected (role-not-allowed)",
        vec![note("recovery")],
    );
    let target = Target::Claim(ClaimRef { statement: planned, position: 0 });
    let revoke = claim(Kind::Revocation, "r", &[], &Facts::Revocation { target, since: None });
    log.by(&keys.author, "a revocation", "accepted", vec![revoke]);
    let refused = statement_id(&log.cases[2].bytes);
    let target = Target::Claim(ClaimRef { statement: refused, position: 0 });
    let revoke = claim(Kind::Revocation, "r2", &[], &Facts::Revocation { target, since: None });
    log.by(
        &keys.author,
        "a revocation of what was never accepted",
        "rejected (link-not-accepted)",
        vec![revoke],
    );
    let erased = Facts::Erasure { objects: vec![ObjectId::from_bytes([0x42; 32])] };
    log.by(&keys.lee, "an erasure by an owner", "accepted", vec![claim(Kind::Erasure, "x", &[], &erased)]);
    newer_rules(&mut log);
    log
}

/// Acts that stand twice, in another order than they happened, or by a key that gives no facts.
fn acts(log: &mut Script) {
    let keys = Keys::new();
    let kim = holder(&keys.author);
    let accepted = log.cases[1].bytes.clone();
    log.push("an accepted statement again, byte for byte", "accepted", accepted);
    let early = signed(&log.payload(vec![start("early", "u")]), kim, &keys.author);
    log.push("a start before its plan", "rejected (link-not-accepted)", early.clone());
    log.by(&keys.author, "that plan", "accepted", vec![plan("u")]);
    log.push("the refused start again, byte for byte", "rejected (link-not-accepted)", early);
    log.by(&keys.author, "a start of that plan", "accepted", vec![start("u", "u")]);
    log.by(
        &keys.log,
        "a log key ends an attempt of its holder",
        "rejected (role-not-allowed)",
        vec![end("e7", "u")],
    );
    let of_run = claim(
        Kind::Checkpoint,
        "of u",
        &[("full", id(Kind::Tree, "f")), ("weights", id(Kind::Tree, "w")), ("start", id(Kind::Start, "u"))],
        &Facts::Named { name: None },
    );
    log.by(
        &keys.recovery,
        "a recovery key records a checkpoint of its holder's run",
        "rejected (role-not-allowed)",
        vec![of_run],
    );
    let backward = vec![end("e8", "w"), start("w", "w"), plan("w")];
    log.by(&keys.author, "an end, its start and its plan, in this order", "accepted", backward);
    log.by(&keys.author, "an end of what ended there", "rejected (already-ended)", vec![end("e9", "w")]);
    let twice = vec![start("v", "u"), end("e10", "v"), end("e10", "v")];
    log.by(&keys.author, "one end twice in a statement", "rejected (already-ended)", twice);
    let mut lost = start("u2", "u");
    lost.links.push(Link { role: "lost".into(), kind: "start".into(), id: id(Kind::Start, "u").id });
    lost.links.sort();
    log.by(&keys.author, "a start that presumes another lost", "accepted", vec![lost]);
    let own = id(Kind::Approval, "itself");
    let approve = Facts::Approval { decision: Decision::Approve };
    let itself = claim(Kind::Approval, "itself", &[("subject", own)], &approve);
    log.by(&keys.author, "an approval of itself", "rejected (link-not-accepted)", vec![itself]);
    let mut salted = note("private twice");
    for seed in ["a", "b"] {
        let private = id(Kind::Private, seed).id;
        salted.links.push(Link { role: "private".into(), kind: "private".into(), id: private });
    }
    salted.links.sort();
    log.by(&keys.author, "two private records beside one claim", "rejected (bad-form)", vec![salted]);
    let was = Seen { size: log.state.size() - 1, root: log.roots[log.roots.len() - 2] };
    let other = Payload { seen: Some(was), ..log.payload(vec![note("between")]) };
    log.push(
        "a size that no head was signed at, with its root",
        "accepted",
        signed(&other, kim, &keys.author),
    );
    let size = log.state.size();
    let wrong = Seen { size, root: log.roots[log.roots.len() - 2] };
    let other = Payload { seen: Some(wrong), ..log.payload(vec![note("late root")]) };
    log.push(
        "the latest size, with the root before it",
        "rejected (other-history)",
        signed(&other, kim, &keys.author),
    );
}

/// Names: asked for later than the object, by two holders, moved by an owner.
fn names(log: &mut Script) {
    let keys = Keys::new();
    let unnamed = Facts::Named { name: None };
    log.by(&keys.author, "a checkpoint without a name", "accepted", vec![checkpoint("c1", &unnamed)]);
    let again = checkpoint("c1", &named("digits"));
    log.by(&keys.author, "the same checkpoint, asking for a name", "accepted", vec![again]);
    let hers = checkpoint("c2", &named("digits"));
    log.by(&keys.lee, "lee asks for a name of kim, which is not granted", "accepted", vec![hers.clone()]);
    log.by(&keys.author, "kim asks for it for lee's checkpoint: a version", "accepted", vec![hers.clone()]);
    log.by(&keys.author, "the same again: no version", "accepted", vec![hers]);
    let mut second = plan("second");
    second.facts = named("second").encode().into();
    log.by(&keys.author, "a plan that asks for a name", "accepted", vec![second]);
    let mut third = plan("third");
    third.facts = named("second").encode().into();
    log.by(&keys.author, "another plan asks for it: run names have no versions", "accepted", vec![third]);

    let moved = |seed: &str, kind, text: &str, action, to: Option<TypedId>| {
        let links: Vec<(&'static str, TypedId)> = to.into_iter().map(|to| ("to", to)).collect();
        claim(Kind::Name, seed, &links, &Facts::NameMove { kind, name: name(text), action })
    };
    let c1 = id(Kind::Checkpoint, "c1");
    let digits = |seed: &str, action, to| moved(seed, Kind::Checkpoint, "digits", action, to);
    log.by(
        &keys.author,
        "a name moved to what is of another kind",
        "rejected (bad-form)",
        vec![digits("1", NameAction::Assign, Some(id(Kind::Plan, "p")))],
    );
    log.by(
        &keys.author,
        "a name moved to nothing",
        "rejected (bad-form)",
        vec![digits("2", NameAction::Assign, None)],
    );
    log.by(
        &keys.author,
        "a name retired to something",
        "rejected (bad-form)",
        vec![digits("3", NameAction::Retire, Some(c1))],
    );
    log.by(
        &keys.author,
        "a name moved twice in one statement",
        "rejected (lost-race)",
        vec![digits("4", NameAction::Assign, Some(c1)), digits("5", NameAction::Retire, None)],
    );
    let lees = vec![digits("6", NameAction::Assign, Some(c1))];
    log.by(&keys.lee, "a name moved by no owner", "rejected (role-not-allowed)", lees);
    let assigned = vec![digits("7", NameAction::Assign, Some(c1))];
    log.by(&keys.author, "a name moved: a third version", "accepted", assigned.clone());
    log.by(
        &keys.author,
        "a name moved without the claim that moved it before",
        "rejected (lost-race)",
        vec![digits("8", NameAction::Retire, None)],
    );
    let reserved = vec![moved("9", Kind::Checkpoint, "reserved", NameAction::Reserve, None)];
    log.by(&keys.author, "a name reserved", "accepted", reserved);
    let asked = vec![checkpoint("c1", &named("reserved"))];
    log.by(&keys.author, "a reserved name asked for: not granted", "accepted", asked);
}

/// Decisions, which compare and swap.
fn decisions(log: &mut Script) {
    let keys = Keys::new();
    let subject = ("subject", id(Kind::Checkpoint, "c1"));
    let enters =
        Facts::Promotion { channel: name("prod"), stage: name("canary"), action: PromotionAction::Enter };
    let verdict = ("verdict", id(Kind::Verdict, "v"));
    let promoted = |seed: &str| claim(Kind::Promotion, seed, &[subject, verdict], &enters);
    let links = [subject, ("policy", id(Kind::Policy, "y")), ("facts", id(Kind::Blob, "f"))];
    let facts = Facts::Verdict { outcome: Outcome::Open, position: 9 };
    log.by(&keys.author, "a verdict", "accepted", vec![claim(Kind::Verdict, "v", &links, &facts)]);
    log.by(
        &keys.author,
        "a promotion in a channel that nobody opened",
        "rejected (link-not-accepted)",
        vec![promoted("1")],
    );
    let channel = claim(
        Kind::Channel,
        "prod",
        &[("policy", id(Kind::Policy, "y"))],
        &Facts::Channel { channel: name("prod") },
    );
    let opened = log.by(&keys.author, "a channel", "accepted", vec![channel]);
    let unjudged = after(claim(Kind::Promotion, "2", &[subject], &enters), opened, 0);
    log.by(&keys.author, "a promotion without a verdict", "rejected (bad-form)", vec![unjudged]);
    let first = after(promoted("3"), opened, 0);
    let first = log.by(&keys.author, "the first promotion replaces the channel", "accepted", vec![first]);
    let late = after(promoted("4"), opened, 0);
    log.by(&keys.author, "another that replaces the channel", "rejected (lost-race)", vec![late]);
    let next = after(promoted("5"), first, 0);
    log.by(&keys.author, "one that replaces the first", "accepted", vec![next]);
    let deployed = |seed: &str, action, links: &[(&'static str, TypedId)]| {
        claim(Kind::Deployment, seed, links, &Facts::Deployment { target: name("eu-1"), action })
    };
    let nothing = vec![deployed("1", DeploymentAction::On, &[])];
    log.by(&keys.author, "a target that serves nothing", "rejected (bad-form)", nothing);
    let off = vec![deployed("2", DeploymentAction::Off, &[subject])];
    log.by(&keys.author, "a target off, with a subject", "rejected (bad-form)", off);
    let on = vec![deployed("3", DeploymentAction::On, &[subject])];
    log.by(&keys.author, "a target that serves", "accepted", on);
}

/// What is said after an owner raised the rules beyond those that are known.
fn newer_rules(log: &mut Script) {
    let keys = Keys::new();
    let kim = holder(&keys.author);
    let raised = |rules: u32| claim(Kind::Format, &format!("{rules}"), &[], &Facts::Format { rules });
    log.by(&keys.author, "the rules raised to what they are", "rejected (bad-form)", vec![raised(1)]);
    log.by(&keys.author, "the rules raised", "accepted", vec![raised(2)]);
    log.by(&keys.author, "whatever is said from there on", "unknown", vec![note("later")]);
    log.by(&keys.stranger, "by whomever", "unknown", vec![note("later stranger")]);
    log.push("not a statement under any rules", "rejected (bad-form)", vec![1]);
    let other = Payload { ledger: Some(LedgerId::from_bytes([9; 32])), ..log.payload(vec![note("other 2")]) };
    log.push(
        "for another ledger under any rules",
        "rejected (foreign-ledger)",
        signed(&other, kim, &keys.author),
    );
    let fork = Seen { size: 2, root: TreeHash::from_bytes([9; 32]) };
    let other = Payload { seen: Some(fork), ..log.payload(vec![note("fork 2")]) };
    log.push(
        "a head that this log never had, under any rules",
        "rejected (other-history)",
        signed(&other, kim, &keys.author),
    );
    let known = log.cases[1].bytes.clone();
    log.push("a statement from before, byte for byte", "accepted", known);
}

/// First statements, each of a log of its own.
fn first_statements() -> Vec<Case> {
    let keys = Keys::new();
    let kim = holder(&keys.author);
    let nonce = [0x41; 16];
    let genesis = |rules| claim(Kind::Genesis, "", &[], &Facts::Genesis { nonce, rules, parent: None });
    let owner = |roles: &[Role]| key_claim(&keys.author, kim, roles, Some(&nonce));
    let log_key = || key_claim(&keys.log, kim, &[Role::Log], Some(&nonce));
    let payload = |claims| Payload { ledger: None, seen: None, claims, req: None };
    let by = |who: &SigningKey, claims| signed(&payload(claims), holder(who), who);
    let kims = |claims| by(&keys.author, claims);
    let all = &EVERYTHING[..];
    let mut other = genesis(1);
    other.object = object_id(b"another");
    let named = Payload {
        ledger: Some(LedgerId::from_bytes([9; 32])),
        seen: Some(Seen { size: 1, root: TreeHash::from_bytes([9; 32]) }),
        ..payload(vec![genesis(1), owner(all), log_key()])
    };
    let of_other = key_claim(&keys.author, kim, all, Some(&[0x42; 16]));
    let mut forged = kims(vec![genesis(1), owner(all), log_key()]);
    *forged.last_mut().unwrap() ^= 1;
    let rows = [
        ("genesis, an owner and a log key", "accepted", kims(vec![genesis(1), owner(all), log_key()])),
        ("not a statement", "rejected (bad-form)", vec![0]),
        ("it names a ledger", "rejected (bad-form)", signed(&named, kim, &keys.author)),
        ("a flipped bit in the signature", "rejected (bad-signature)", forged),
        ("a key before genesis", "rejected (bad-form)", kims(vec![owner(all), genesis(1), log_key()])),
        ("keys without genesis", "rejected (bad-form)", kims(vec![owner(all), log_key()])),
        ("genesis twice", "rejected (bad-form)", kims(vec![genesis(1), other, owner(all), log_key()])),
        (
            "an act beside genesis",
            "rejected (bad-form)",
            kims(vec![genesis(1), owner(all), log_key(), note("first")]),
        ),
        (
            "signed by a key that it does not introduce",
            "rejected (unknown-key)",
            by(&keys.stranger, vec![genesis(1), owner(all), log_key()]),
        ),
        (
            "a founder who is no owner",
            "rejected (role-not-allowed)",
            kims(vec![genesis(1), owner(&[Role::Author]), log_key()]),
        ),
        (
            "a proof for another nonce",
            "rejected (bad-signature)",
            kims(vec![genesis(1), of_other, log_key()]),
        ),
        ("no log key", "rejected (would-lock-out)", kims(vec![genesis(1), owner(all)])),
        ("rules of a later year", "unknown", kims(vec![genesis(2), owner(all), log_key()])),
        ("rules of a later year, and no log key", "unknown", kims(vec![genesis(2), owner(all)])),
    ];
    rows.map(|(what, standing, bytes)| Case { what, bytes, standing }).into()
}

/// What the fold says at the end, as far as it has words here.
pub(crate) fn summary(state: &State) -> Value {
    let keys: Vec<Value> = state
        .keys()
        .iter()
        .map(|key| {
            let roles: Vec<&str> = key.roles.iter().map(|role| role.word()).collect();
            json!({ "key": key.id.to_hex(), "holder": key.holder.to_string(), "roles": roles })
        })
        .collect();
    let runs: Vec<Value> = state
        .runs()
        .iter()
        .map(|(plan, run)| {
            let status = state.run_status(*plan).unwrap().to_string();
            let attempts: Vec<String> = state
                .attempts(*plan)
                .iter()
                .map(|(start, _)| TypedId::new(Kind::Start, *start).to_string())
                .collect();
            assert_eq!(attempts.len(), run.attempts as usize);
            let plan = TypedId::new(Kind::Plan, *plan).to_string();
            json!({ "plan": plan, "status": status, "attempts, latest first": attempts })
        })
        .collect();
    let names: Vec<Value> = NAMES
        .iter()
        .filter_map(|(kind, text)| {
            let row = state.name(*kind, &name(text))?;
            let versions: Vec<String> = (1..=row.versions)
                .map(|version| state.version(*kind, &name(text), version).unwrap().0)
                .map(|object| TypedId::new(*kind, object).to_string())
                .collect();
            let holder = row.holder.to_string();
            Some(json!({
                "kind": kind.word(), "name": text, "holder": holder, "closed": row.closed, "versions": versions,
            }))
        })
        .collect();
    let marks: Vec<Value> = state
        .marks(u64::MAX)
        .iter()
        .map(|mark| {
            let target = match mark.target {
                MarkTarget::Claim(place) => format!("claim {} of statement {}", place.position, place.index),
                MarkTarget::Object(id) => id.to_string(),
                MarkTarget::Key(key) => key.to_hex(),
            };
            json!({ "target": target, "since": mark.since, "by statement": mark.index })
        })
        .collect();
    json!({ "rules": state.rules(), "keys": keys, "runs": runs, "names": names, "marks": marks })
}

pub(crate) fn rows(cases: &[Case]) -> Vec<Value> {
    let row = |case: &Case| {
        json!({
            "what": case.what,
            "id": statement_id(&case.bytes).to_hex(),
            "standing": case.standing,
            "hex": hex(&case.bytes),
        })
    };
    cases.iter().map(row).collect()
}

pub(crate) fn as_json() -> Value {
    let log = run();
    json!({
        "ledger": log.ledger().to_hex(),
        "root": log.state.root().to_hex(),
        "statements": rows(&log.cases),
        "state": summary(&log.state),
        "first": rows(&first_statements()),
    })
}

#[test]
fn every_reason_is_met() {
    let log = run();
    for reason in ledger::state::Reason::ALL {
        let standing = Standing::Rejected(reason).to_string();
        assert!(log.cases.iter().any(|case| case.standing == standing), "{standing}");
    }
    assert_eq!(log.state.marks(u64::MAX).len(), 1);
    assert!(log.state.erased(ObjectId::from_bytes([0x42; 32])).is_some());
    let versions = |text| log.state.name(Kind::Checkpoint, &name(text)).unwrap().versions;
    assert_eq!((versions("digits"), versions("reserved")), (3, 0));
    assert!(log.state.name(Kind::Dataset, &name("digits")).is_none(), "a name is of one kind");
    let w = id(Kind::Plan, "w").id;
    assert_eq!(log.state.run_status(w).unwrap().to_string(), "completed");
}

#[test]
fn the_log_means_the_same_however_it_is_cut() {
    let log = run();
    let leaves: Vec<&[u8]> = log.cases.iter().map(|case| case.bytes.as_slice()).collect();
    let expected: Vec<&str> = log.cases.iter().map(|case| case.standing).collect();
    for cut in (0..leaves.len()).step_by(9) {
        let mut state = State::new();
        let mut standings = Vec::new();
        for part in [&leaves[..cut], &leaves[cut..]] {
            let known = state.size();
            let mut root_at = |size: u64| {
                assert!(size < known, "a root within the part is the fold's own");
                Ok::<_, std::convert::Infallible>(log.roots[size as usize])
            };
            standings.extend(advance(&mut state, part, Signatures::Check, &mut root_at).unwrap());
        }
        let standings: Vec<String> = standings.iter().map(ToString::to_string).collect();
        assert_eq!(standings, expected, "cut at {cut}");
        assert_eq!(summary(&state), summary(&log.state), "cut at {cut}");
        assert_eq!(state.root(), log.state.root());
    }
}

#[test]
fn a_first_statement_opens_a_ledger_or_nothing() {
    for case in first_statements() {
        let mut state = State::new();
        let mut root_at = |_| -> Result<TreeHash, std::convert::Infallible> { panic!("there is no past") };
        let said = advance(&mut state, &[&case.bytes], Signatures::Check, &mut root_at).unwrap();
        assert_eq!(said[0].to_string(), case.standing, "{}", case.what);
        assert_eq!(state.keys().is_empty(), case.standing != "accepted", "{}", case.what);
    }
}
