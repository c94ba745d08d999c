//! A log that meets every rule of the fold, with the standing of each statement written down here and kept there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ledger::id::{
    ClaimRef, HolderId, LedgerId, ObjectId, StatementId, TreeHash, hex, object_id, sha256, statement_id,
};
use ledger::log::key::{SigningKey, possession_message};
use ledger::log::statement::{Claim, Link, Payload, Seen, sign};
use ledger::model::{Facts, Kind, Role, Status, Target, TypedId};
use ledger::state::{Signatures, Standing, State, advance};
use serde_json::{Value, json};

use super::scene::{Keys, TIME, holder};

/// A statement with the reason why it stands in this log, and what the fold says of it.
struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    standing: &'static str,
}

/// The log so far.
struct Script {
    keys: Keys,
    cases: Vec<Case>,
    state: State,
    roots: Vec<TreeHash>,
}

fn claim(kind: Kind, seed: &str, links: &[(&'static str, TypedId)], facts: &Facts) -> Claim<'static> {
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

fn key_claim(key: &SigningKey, of: HolderId, roles: &[Role], ctx: Option<&[u8]>) -> Claim<'static> {
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

fn signed(payload: &Payload<'_>, of: HolderId, who: &SigningKey) -> Vec<u8> {
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
    let everything = [Role::Owner, Role::Author, Role::Evaluator, Role::Reviewer, Role::Approver];
    let genesis = Payload {
        ledger: None,
        seen: None,
        claims: vec![
            claim(Kind::Genesis, "", &[], &Facts::Genesis { nonce, rules: 1, parent: None }),
            key_claim(&keys.author, kim, &everything, Some(&nonce)),
            key_claim(&keys.log, kim, &[Role::Log], Some(&nonce)),
            key_claim(&keys.recovery, kim, &[Role::Recovery], Some(&nonce)),
        ],
        req: None,
    };
    log.push("genesis and three keys", "accepted", signed(&genesis, kim, &keys.author));
    let ctx = *log.ledger().as_bytes();

    let note = |seed: &str| claim(Kind::Note, seed, &[("subject", id(Kind::Blob, "anything"))], &Facts::None);
    let plan = claim(Kind::Plan, "p", &[("manifest", id(Kind::Blob, "m"))], &Facts::Named { name: None });
    let start = |seed| claim(Kind::Start, seed, &[("plan", id(Kind::Plan, "p"))], &Facts::None);
    let end = |seed: &str, start: &str| {
        claim(
            Kind::End,
            seed,
            &[("start", id(Kind::Start, start))],
            &Facts::End { status: Status::Completed },
        )
    };
    let planned = log.by(&keys.author, "a plan and its start", "accepted", vec![plan.clone(), start("s")]);

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
    let both = vec![start("t"), end("e3", "t"), end("e4", "t")];
    log.by(&keys.author, "two ends in one statement", "rejected (already-ended)", both);
    log.by(&keys.author, "the first plan again", "accepted", vec![plan]);

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
    let mut no_log = key_claim(&keys.log, kim, &[], None);
    no_log.prev = Some(ClaimRef { statement: statement_id(&log.cases[0].bytes), position: 2 });
    log.by(&keys.author, "the only log key emptied", "rejected (would-lock-out)", vec![no_log]);
    let mut mood = note("mood");
    mood.kind = "mood".into();
    log.by(&keys.author, "a kind of newer rules", "unknown", vec![mood.clone()]);
    let mut glad = note("glad");
    let fact = ledger::codec::encode(&BTreeMap::from([("mood", "good")])).unwrap();
    glad.facts = fact.into();
    log.by(&keys.author, "a fact of newer rules", "unknown", vec![glad]);
    let mixed = vec![mood, end("e6", "none")];
    log.by(&keys.author, "one claim unknown, one rejected", "rejected (link-not-accepted)", mixed);
    let mut emptied = dead;
    emptied.prev = Some(ClaimRef { statement: added, position: 0 });
    log.by(&keys.lee, "lee ends the use of an own key", "accepted", vec![emptied]);
    log.by(&keys.lee, "a key that is dead", "rejected (role-not-allowed)", vec![note("dead")]);
    let mut owner = key_claim(&keys.lee, lee, &[Role::Author, Role::Owner], None);
    owner.prev = Some(ClaimRef {
        statement: statement_id(
            &log.cases.iter().find(|case| case.what == "lee ends the use of an own key").unwrap().bytes,
        ),
        position: 0,
    });
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
    let erased = Facts::Erasure { objects: vec![ObjectId::from_bytes([0x42; 32])] };
    log.by(&keys.lee, "an erasure by an owner", "accepted", vec![claim(Kind::Erasure, "x", &[], &erased)]);
    log
}

pub(crate) fn as_json() -> Value {
    let log = run();
    let statements: Vec<Value> = log
        .cases
        .iter()
        .map(|case| {
            json!({
                "what": case.what,
                "id": statement_id(&case.bytes).to_hex(),
                "standing": case.standing,
                "hex": hex(&case.bytes),
            })
        })
        .collect();
    json!({ "ledger": log.ledger().to_hex(), "root": log.state.root().to_hex(), "statements": statements })
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
}
