//! The fold, rule by rule: what each reason refuses, with the nearest statement that it does not.
//!
//! Statements are signed here and folded without a disk; how they get into a log is tested elsewhere. Every
//! scene ends with [`Scene::end`], which folds its whole log again, in one piece and from a State file.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without ends it")]

mod scene;

use std::convert::Infallible;

use ledger::id::{ClaimRef, LedgerId, StatementId};
use ledger::log::statement::{self, Claim, Link, Payload, Seen, Statement};
use ledger::log::tree;
use ledger::model::{
    Decision, DeploymentAction, Facts, Kind, NameAction, PromotionAction, Role, Status, Target,
};
use ledger::state::{
    Checks, DigestRole, MarkTarget, Place, Reason, Register, RunStatus, Signatures, Standing, State, advance,
};

use Standing::{Accepted, Rejected, Unknown};

use scene::{
    NONCE, OWNER, Party, Scene, after, channel, checkpoint, claim, dataset, deployment, end, eval, fold,
    genesis, id, key, kim, kim_log, last, name, name_move, named_plan, note, plan, promotion, revocation,
    start, verdict,
};

#[test]
fn bad_form() {
    let mut scene = Scene::new();
    assert_eq!(scene.append(b"noise".to_vec()), Rejected(Reason::BadForm));
    let mut trailing = scene.signed(&kim(), vec![note("n")]);
    trailing.push(0);
    assert_eq!(scene.append(trailing), Rejected(Reason::BadForm));
    scene.kim(vec![note("n")]);

    // Objects are not claimed; a link is of its kinds and stands as often as the table says.
    scene.kim_not(Reason::BadForm, vec![claim(Kind::Tree, "t", &[], &Facts::None)]);
    let twice = [("root", id(Kind::Tree, "a")), ("root", id(Kind::Tree, "b"))];
    scene.kim_not(Reason::BadForm, vec![claim(Kind::Dataset, "d", &twice, &Facts::None)]);
    scene.kim_not(Reason::BadForm, vec![claim(Kind::Dataset, "d", &[], &Facts::None)]);
    let other = [("root", id(Kind::Sums, "a"))];
    scene.kim_not(Reason::BadForm, vec![claim(Kind::Dataset, "d", &other, &Facts::None)]);
    let salts = ["a", "b"].map(|salt| ("private", id(Kind::Private, salt)));
    let anything = ("subject", id(Kind::Blob, "x"));
    let two = claim(Kind::Note, "l", &[anything, salts[0], salts[1]], &Facts::None);
    scene.kim_not(Reason::BadForm, vec![two]);
    scene.kim(vec![claim(Kind::Note, "l", &[anything, salts[0]], &Facts::None)]);
    scene.kim(vec![dataset("d", None)]);
    scene.kim_not(Reason::BadForm, vec![claim(Kind::Plan, "r", &[], &Facts::None)]);
    scene.kim(vec![plan("r"), start("s", "r", &[])]);
    let no_status = claim(Kind::End, "e", &[("start", id(Kind::Start, "s"))], &Facts::None);
    scene.kim_not(Reason::BadForm, vec![no_status]);

    // `prev` belongs to decisions.
    let prev = Some(last(&scene, 0));
    scene.kim_not(Reason::BadForm, vec![after(note("m"), prev)]);
    scene.kim(vec![note("m")]);

    // `sub` names the first claim by its kind.
    let payload = scene.payload(vec![note("o")]);
    let wrong = statement::sign(&payload, "run", kim().holder, 9, &kim().key).unwrap();
    assert_eq!(scene.append(wrong), Rejected(Reason::BadForm));
    // `iss` is the key's holder.
    let ben = Party::new(2).holder;
    let wrong = statement::sign(&payload, "note", ben, 9, &kim().key).unwrap();
    assert_eq!(scene.append(wrong), Rejected(Reason::BadForm));
    let right = statement::sign(&payload, "note", kim().holder, 9, &kim().key).unwrap();
    assert_eq!(scene.append(right), Accepted);

    // Only the first statement has no ledger.
    let payload = Payload { ledger: None, seen: None, ..scene.payload(vec![note("p")]) };
    let wrong = statement::sign(&payload, "note", kim().holder, 9, &kim().key).unwrap();
    assert_eq!(scene.append(wrong), Rejected(Reason::BadForm));

    // One rejected claim rejects the statement.
    scene.kim_not(Reason::BadForm, vec![note("q"), claim(Kind::Tree, "t", &[], &Facts::None)]);
    assert_eq!(scene.state.claim(id(Kind::Note, "q")), None);
    scene.end();
}

#[test]
fn bad_signature() {
    let mut scene = Scene::new();
    let mut leaf = scene.signed(&kim(), vec![note("n")]);
    *leaf.last_mut().unwrap() ^= 1;
    assert_eq!(scene.append(leaf), Rejected(Reason::BadSignature));
    assert_eq!(scene.state.claim(id(Kind::Note, "n")), None);
    scene.kim(vec![note("n")]);

    // A key that joins proves that somebody holds it, for this ledger and this holder.
    let ben = Party::new(2);
    let foreign = key(&ben, &[Role::Author], Some(&[9; 32]));
    scene.kim_not(Reason::BadSignature, vec![foreign]);
    scene.kim_not(Reason::BadSignature, vec![key(&ben, &[Role::Author], None)]);
    let genesis_proof = key(&ben, &[Role::Author], Some(&NONCE));
    scene.kim_not(Reason::BadSignature, vec![genesis_proof]);
    scene.kim(vec![scene.joins(&ben, &[Role::Author])]);
    scene.end();
}

#[test]
fn foreign_ledger() {
    let mut scene = Scene::new();
    let payload = scene.payload(vec![note("n")]);
    let elsewhere = Payload { ledger: Some(LedgerId::from_bytes([3; 32])), ..payload.clone() };
    let leaf = statement::sign(&elsewhere, "note", kim().holder, 9, &kim().key).unwrap();
    assert_eq!(scene.append(leaf), Rejected(Reason::ForeignLedger));
    let leaf = statement::sign(&payload, "note", kim().holder, 9, &kim().key).unwrap();
    assert_eq!(scene.append(leaf), Accepted);
    scene.end();
}

#[test]
fn other_history() {
    let mut scene = Scene::new();
    scene.kim(vec![note("a")]);
    let kim = kim();
    let payload = scene.payload(vec![note("n")]);
    let sign = |seen| {
        let payload = Payload { seen: Some(seen), ..payload.clone() };
        statement::sign(&payload, "note", kim.holder, 9, &kim.key).unwrap()
    };
    let right = payload.seen.unwrap();
    let forked = Seen { root: tree::root_at(&scene.tiles, 1).unwrap(), ..right };
    let future = Seen { size: 3, ..right };
    let old = Seen { size: 1, root: tree::root_at(&scene.tiles, 1).unwrap() };
    let [forked, future, old, right] = [forked, future, old, right].map(sign);
    assert_eq!(scene.append(forked), Rejected(Reason::OtherHistory));
    assert_eq!(scene.append(future.clone()), Rejected(Reason::OtherHistory));
    assert_eq!(scene.append(old), Accepted);
    assert_eq!(scene.append(right), Accepted);
    // A size that is in the log by now was not when the statement got its place.
    assert_eq!(scene.append(future), Rejected(Reason::OtherHistory));
    scene.end();
}

#[test]
fn a_head_inside_a_batch_is_the_same_head_however_the_batch_is_folded() {
    let mut scene = Scene::new();
    scene.kim(vec![note("a")]);
    scene.kim(vec![note("b")]);
    scene.kim(vec![note("c")]);
    let leaves: Vec<&[u8]> = scene.leaves[1..].iter().map(Vec::as_slice).collect();
    let mut state = State::new();
    fold(&mut state, &[&scene.leaves[0]], &scene.tiles, Signatures::Check);
    // Whoever finishes a commit has no tiles for the sizes within it.
    let mut root_at = |size| -> Result<_, Infallible> { panic!("asked for the root at {size}") };
    let standings = advance(&mut state, &leaves, Signatures::Check, &mut root_at).unwrap();
    assert_eq!(standings, [Accepted; 3]);
    scene.end();
}

#[test]
fn unknown_key() {
    let mut scene = Scene::new();
    let ben = Party::new(2);
    scene.refuses(Reason::UnknownKey, &ben, vec![note("n")]);
    let joins = scene.joins(&ben, &[Role::Author]);
    // Not even when the statement would introduce the key that signs it.
    scene.refuses(Reason::UnknownKey, &ben, vec![joins]);
    let ben = scene.with(ben, &[Role::Author]);
    scene.accepts(&ben, vec![note("n")]);
    scene.end();
}

/// Makes a claim about a text.
type MakeClaim = Box<dyn Fn(&str) -> Claim<'static>>;

#[test]
fn role_not_allowed() {
    use Role::{Approver, Author, Evaluator, Owner, Reviewer};
    let mut scene = Scene::new();
    let roles = [Owner, Author, Evaluator, Reviewer, Approver];
    let parties: Vec<Party> =
        roles.iter().zip(2..).map(|(role, seed)| scene.with(Party::new(seed), &[*role])).collect();
    let log = scene.with(Party::new(20), &[Role::Log]);
    scene.kim(vec![plan("r"), start("s", "r", &[]), checkpoint("c", Some("s"))]);
    scene.kim(vec![verdict("v"), eval("x", Some("c")), channel("h")]);
    let c = id(Kind::Checkpoint, "c");
    let import = |text: &str| claim(Kind::Import, text, &[("document", id(Kind::Blob, "d"))], &Facts::None);
    let on = |kind, role, target, facts: Facts| -> MakeClaim {
        Box::new(move |text| claim(kind, text, &[(role, target)], &facts))
    };
    let vote = Facts::Approval { decision: Decision::Approve };
    let table: Vec<(MakeClaim, &[Role])> = vec![
        (Box::new(|text| dataset(text, None)), &[Author, Evaluator]),
        (on(Kind::Model, "root", id(Kind::Blob, "m"), Facts::None), &[Author, Evaluator]),
        (Box::new(plan), &[Author]),
        (Box::new(|text| start(text, "r", &[])), &[Author]),
        (Box::new(|text| checkpoint(text, None)), &[Author]),
        (Box::new(|text| checkpoint(text, Some("s"))), &[Owner]),
        (
            Box::new(move |text| {
                let links = [("from", c), ("to", c)];
                claim(Kind::Transform, text, &links, &Facts::None)
            }),
            &[Author],
        ),
        (Box::new(|text| eval(text, Some("c"))), &[Author, Evaluator]),
        (on(Kind::PaperClaim, "from", id(Kind::Eval, "x"), Facts::None), &[Author]),
        (on(Kind::Observation, "subject", c, Facts::None), &[Author, Evaluator, Reviewer]),
        (Box::new(import), &[Author, Evaluator, Owner]),
        (Box::new(verdict), &[Evaluator]),
        (on(Kind::Approval, "subject", c, vote), &[Reviewer, Approver]),
        (Box::new(note), &roles),
        (
            Box::new(|text| revocation(text, Target::Object(id(Kind::Blob, "data")), None)),
            &[Evaluator, Owner],
        ),
        (Box::new(|text| claim(Kind::Erasure, text, &[], &Facts::Erasure { objects: vec![] })), &[Owner]),
    ];
    for (row, (make, allowed)) in table.iter().enumerate() {
        let text = |who: &str| format!("{row} {who}");
        for (role, party) in roles.iter().zip(&parties) {
            let claims = vec![make(&text(role.word()))];
            if allowed.contains(role) {
                scene.accepts(party, claims);
            } else {
                scene.refuses(Reason::RoleNotAllowed, party, claims);
            }
        }
        // A log key gives order, never facts.
        scene.refuses(Reason::RoleNotAllowed, &log, vec![make(&text("log"))]);
    }
    // Decisions, which take turns on one register.
    for (role, party) in roles.iter().zip(&parties) {
        let promoted = promotion(&format!("p {role}"), Some("v"), PromotionAction::Enter);
        let current = scene.current(&Register::Promotion(name("stable")));
        let opened = scene.current(&Register::Channel(name("stable")));
        let promoted = after(promoted, current.or(opened));
        let served = after(
            deployment(&format!("d {role}"), Some("c"), DeploymentAction::On),
            scene.current(&Register::Target(name("eu"))),
        );
        let opens = after(channel(&format!("h {role}")), opened);
        let moves = after(
            name_move(&format!("n {role}"), "data", None, NameAction::Reserve),
            scene.current(&Register::Name(Kind::Dataset, name("data"))),
        );
        for (claim, allowed) in [(promoted, Approver), (served, Approver), (opens, Owner), (moves, Owner)] {
            if *role == allowed {
                scene.accepts(party, vec![claim]);
            } else {
                scene.refuses(Reason::RoleNotAllowed, party, vec![claim]);
            }
        }
    }
    scene.end();
}

#[test]
fn a_run_belongs_to_whoever_stated_it_and_to_owners() {
    let mut scene = Scene::new();
    let ben = scene.with(Party::new(2), &[Role::Author]);
    let ben_log = scene.with(ben.also(102), &[Role::Log]);
    let ann = scene.with(Party::new(3), &[Role::Author]);
    scene.accepts(&ben, vec![plan("r"), start("s", "r", &[])]);
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![end("e", "s", Status::Failed)]);
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![checkpoint("c", Some("s"))]);
    // A log key gives no facts, not even about its own holder's run.
    scene.refuses(Reason::RoleNotAllowed, &ben_log, vec![end("e", "s", Status::Failed)]);
    scene.refuses(Reason::RoleNotAllowed, &ben_log, vec![checkpoint("c", Some("s"))]);
    scene.accepts(&ben, vec![checkpoint("c", Some("s"))]);
    // Another may start the plan that he did not state, and what he starts is his.
    scene.accepts(&ann, vec![start("s2", "r", &[])]);
    scene.accepts(&ann, vec![end("e2", "s2", Status::Failed)]);
    // Whoever stated the plan may end any attempt of it, and so may an owner.
    scene.accepts(&ann, vec![start("s3", "r", &[]), start("s4", "r", &[])]);
    scene.accepts(&ben, vec![end("e3", "s3", Status::Cancelled)]);
    scene.kim(vec![end("e4", "s4", Status::Cancelled)]);
    // Stating the same plan again is to state it.
    scene.accepts(&ben, vec![plan("q"), start("s5", "q", &[])]);
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![checkpoint("c5", Some("s5"))]);
    scene.accepts(&ann, vec![plan("q")]);
    scene.accepts(&ann, vec![checkpoint("c5", Some("s5"))]);
    assert_eq!(
        scene.state.author(id(Kind::Plan, "q")).unwrap().holder,
        ben.holder,
        "the first is the author"
    );
    scene.end();
}

#[test]
fn link_not_accepted() {
    let mut scene = Scene::new();
    let missing: Vec<Claim<'static>> = vec![
        start("s", "nowhere", &[]),
        end("e", "nowhere", Status::Failed),
        checkpoint("c", Some("nowhere")),
        eval("v", Some("nowhere")),
        claim(Kind::Observation, "o", &[("subject", id(Kind::Plan, "nowhere"))], &Facts::None),
        promotion("p", None, PromotionAction::Reject),
        name_move("n", "data", Some(id(Kind::Dataset, "nowhere")), NameAction::Assign),
    ];
    for claim in missing {
        scene.kim_not(Reason::LinkNotAccepted, vec![claim]);
    }
    // A rejected or foreign claim is none; content needs none.
    let ann = scene.with(Party::new(3), &[Role::Reviewer]);
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![plan("r")]);
    scene.kim_not(Reason::LinkNotAccepted, vec![start("s", "r", &[])]);
    scene.kim(vec![eval("v", None)]);
    // Within one statement order does not matter.
    scene.kim(vec![end("e", "s", Status::Completed), start("s", "r", &[]), plan("r")]);
    assert_eq!(scene.state.run_status(id(Kind::Plan, "r").id), Some(RunStatus::Ended(Status::Completed)));
    assert_eq!(scene.state.attempts(id(Kind::Plan, "r").id).len(), 1);
    // The same leaf again is not let in by what has come since.
    let early = scene.signed(&kim(), vec![start("s9", "q", &[])]);
    assert_eq!(scene.append(early.clone()), Rejected(Reason::LinkNotAccepted));
    scene.kim(vec![plan("q")]);
    assert_eq!(scene.append(early), Rejected(Reason::LinkNotAccepted));
    assert_eq!(scene.state.run_status(id(Kind::Plan, "q").id), Some(RunStatus::Planned));
    scene.kim(vec![start("s9", "q", &[])]);
    assert_eq!(scene.state.run_status(id(Kind::Plan, "q").id), Some(RunStatus::Started));
    // A revocation of a claim needs that claim.
    let nowhere = ClaimRef { statement: StatementId::from_bytes([1; 32]), position: 0 };
    scene.kim_not(Reason::LinkNotAccepted, vec![revocation("x", Target::Claim(nowhere), None)]);
    let here = last(&scene, 0);
    scene.kim_not(Reason::LinkNotAccepted, vec![revocation("x", Target::Claim(here), None)]);
    scene.end();
}

#[test]
fn lost_race() {
    let mut scene = Scene::new();
    scene.kim(vec![plan("r"), start("s", "r", &[]), checkpoint("c", Some("s")), verdict("v")]);
    scene.kim_not(Reason::LinkNotAccepted, vec![promotion("p0", Some("v"), PromotionAction::Enter)]);
    scene.kim(vec![channel("h")]);
    let opened = Some(last(&scene, 0));
    scene.kim_not(Reason::LostRace, vec![channel("h2")]);
    scene.kim_not(Reason::LostRace, vec![promotion("p0", Some("v"), PromotionAction::Enter)]);
    // Two releasers who both saw the channel as it was opened: one wins.
    scene.kim(vec![after(promotion("p1", Some("v"), PromotionAction::Enter), opened)]);
    let first = Some(last(&scene, 0));
    scene.kim_not(Reason::LostRace, vec![after(promotion("p2", Some("v"), PromotionAction::Enter), opened)]);
    scene.kim(vec![after(promotion("p2", Some("v"), PromotionAction::Enter), first)]);
    // A promotion into a stage has a verdict; turning away needs none.
    let second = Some(last(&scene, 0));
    scene.kim_not(Reason::BadForm, vec![after(promotion("p3", None, PromotionAction::Enter), second)]);
    scene.kim(vec![after(promotion("p3", None, PromotionAction::Reject), second)]);
    // The channel's own register has not moved.
    scene.kim(vec![after(channel("h2"), opened)]);

    scene.kim(vec![deployment("d1", Some("c"), DeploymentAction::On)]);
    let on = Some(last(&scene, 0));
    scene.kim_not(Reason::LostRace, vec![deployment("d2", Some("c"), DeploymentAction::Rollback)]);
    scene.kim_not(Reason::BadForm, vec![after(deployment("d2", Some("c"), DeploymentAction::Off), on)]);
    scene.kim(vec![after(deployment("d2", None, DeploymentAction::Off), on)]);

    // Two decisions on one register in one statement could not both be the current one.
    let off = Some(last(&scene, 0));
    let both = ["d3", "d4"].map(|text| after(deployment(text, Some("c"), DeploymentAction::On), off));
    scene.kim_not(Reason::LostRace, both.to_vec());
    // A key is a register too.
    let ben = scene.with(Party::new(2), &[Role::Author]);
    let stale = scene.changes(&ben, &[Role::Author, Role::Evaluator]);
    scene.kim(vec![scene.changes(&ben, &[Role::Evaluator])]);
    scene.kim_not(Reason::LostRace, vec![stale]);
    scene.kim_not(Reason::LostRace, vec![key(&ben, &[Role::Author], None)]);
    scene.end();
}

#[test]
fn already_ended() {
    let mut scene = Scene::new();
    scene.kim(vec![plan("r"), start("s1", "r", &[]), start("s2", "r", &[])]);
    scene.kim(vec![end("e1", "s1", Status::Failed)]);
    scene.kim_not(Reason::AlreadyEnded, vec![end("e2", "s1", Status::Completed)]);
    // The other attempt can end, but not twice in one statement.
    let twice = vec![end("e3", "s2", Status::Failed), end("e4", "s2", Status::Completed)];
    scene.kim_not(Reason::AlreadyEnded, twice);
    scene.kim(vec![end("e3", "s2", Status::Completed)]);
    // The same end again says nothing new.
    scene.kim(vec![end("e1", "s1", Status::Failed)]);
    let attempts = scene.state.attempts(id(Kind::Plan, "r").id);
    let ended: Vec<_> = attempts.iter().map(|(_, attempt)| attempt.ended.unwrap()).collect();
    assert_eq!(
        ended,
        [
            (Status::Completed, Place { index: 5, position: 0 }),
            (Status::Failed, Place { index: 2, position: 0 })
        ]
    );
    scene.end();
}

#[test]
fn would_lock_out() {
    let mut scene = Scene::new();
    scene.kim_not(Reason::WouldLockOut, vec![scene.changes(&kim_log(), &[])]);
    scene.kim_not(Reason::WouldLockOut, vec![scene.changes(&kim(), &[])]);
    scene.kim_not(Reason::WouldLockOut, vec![scene.changes(&kim(), &[Role::Author])]);
    // With another log key and another owner in the same statement both may go.
    let (ben, ben_log) = (Party::new(2), Party::new(102));
    let claims = vec![
        scene.joins(&ben, &[Role::Owner]),
        scene.joins(&ben_log, &[Role::Log]),
        scene.changes(&kim_log(), &[]),
        scene.changes(&kim(), &[]),
    ];
    scene.kim(claims);
    scene.refuses(Reason::WouldLockOut, &ben, vec![scene.changes(&ben, &[Role::Author])]);
    assert_eq!(scene.state.keys().iter().filter(|key| key.has(Role::Owner)).count(), 1);
    scene.end();
}

#[test]
fn a_recovery_key_adds_and_revokes_owners_and_nothing_else() {
    let mut scene = Scene::with_genesis(|kim, kim_log| {
        let offline = kim.also(77);
        vec![
            genesis(),
            key(kim, &OWNER, Some(&NONCE)),
            key(kim_log, &[Role::Log], Some(&NONCE)),
            key(&offline, &[Role::Recovery], Some(&NONCE)),
        ]
    });
    let recovery = kim().also(77);
    let (ben, ann) = (Party::new(2), Party::new(3));
    // Owners neither empty it nor make another.
    scene.kim_not(Reason::RoleNotAllowed, vec![scene.changes(&recovery, &[])]);
    scene.kim_not(Reason::RoleNotAllowed, vec![scene.joins(&ann, &[Role::Recovery])]);
    // It states no facts and binds no keys but owners', not even those of its own holder.
    scene.refuses(Reason::RoleNotAllowed, &recovery, vec![note("n")]);
    scene.refuses(Reason::RoleNotAllowed, &recovery, vec![scene.joins(&ann, &[Role::Author])]);
    scene.refuses(Reason::RoleNotAllowed, &recovery, vec![scene.changes(&kim_log(), &[])]);
    scene.accepts(&recovery, vec![scene.joins(&ben, &[Role::Owner])]);
    scene.accepts(&recovery, vec![scene.changes(&kim(), &[])]);
    scene.refuses(Reason::RoleNotAllowed, &kim(), vec![note("n")]);
    // With a recovery key even the last owner may go: it can appoint another.
    scene.accepts(&ben, vec![scene.changes(&ben, &[])]);
    scene.accepts(&recovery, vec![scene.joins(&ann, &[Role::Owner])]);
    scene.accepts(&ann, vec![note("n")]);
    scene.end();
}

/// Makes the claims of a first statement out of an owner's and a log's key.
type Opening = fn(&Party, &Party) -> Vec<Claim<'static>>;

#[test]
fn a_genesis_that_is_not_its_own_authority_opens_nothing() {
    let cases: [(Reason, Opening); 5] = [
        (Reason::UnknownKey, |_, _| vec![genesis()]),
        (Reason::BadForm, |kim, log| {
            vec![key(kim, &OWNER, Some(&NONCE)), key(log, &[Role::Log], Some(&NONCE))]
        }),
        (Reason::WouldLockOut, |kim, _| vec![genesis(), key(kim, &OWNER, Some(&NONCE))]),
        (Reason::BadSignature, |kim, log| {
            vec![genesis(), key(kim, &OWNER, Some(&NONCE)), key(log, &[Role::Log], None)]
        }),
        (Reason::RoleNotAllowed, |kim, log| {
            let author = key(kim, &[Role::Author], Some(&NONCE));
            vec![genesis(), author, key(log, &[Role::Log], Some(&NONCE))]
        }),
    ];
    for (reason, claims) in cases {
        let scene = Scene::with_genesis(claims);
        assert_eq!(scene.standings, [Rejected(reason)]);
        assert!(scene.state.keys().is_empty());
    }
    // A role is asked for before the signature is, in the first statement as in every other.
    let without = Scene::with_genesis(|kim, log| {
        vec![genesis(), key(kim, &[], Some(&NONCE)), key(log, &[Role::Log], Some(&NONCE))]
    });
    let first = Statement::parse(&without.leaves[0]).unwrap();
    for signature in [true, false] {
        let standing = State::new().judge(&first, Checks { seen: true, signature });
        assert_eq!(standing, Rejected(Reason::RoleNotAllowed));
    }
    let mut scene = Scene::new();
    assert_eq!(scene.standings, [Accepted]);
    // There is one, at the beginning.
    scene.kim_not(Reason::RoleNotAllowed, vec![genesis()]);
    scene.end();
}

#[test]
fn the_walk_from_genesis_to_a_revoked_input() {
    let mut scene = Scene::new();
    let (ben, ben_log) = (Party::new(2), Party::new(2).also(102));
    let claims = vec![scene.joins(&ben, &[Role::Author]), scene.joins(&ben_log, &[Role::Log])];
    scene.kim(claims);
    assert_eq!(scene.state.key(ben_log.key.public().thumbprint()).unwrap().since, 1);
    let r = id(Kind::Plan, "r");
    scene.accepts(&ben, vec![plan("r"), start("s1", "r", &[])]);
    assert_eq!(scene.state.run_status(r.id), Some(RunStatus::Started));
    scene.accepts(&ben, vec![checkpoint("c", Some("s1"))]);
    let place = Place { index: 3, position: 0 };
    assert_eq!(scene.state.with_digest(id(Kind::Tree, "weights of c").id), [(DigestRole::Weights, place)]);
    scene.accepts(&ben, vec![end("e1", "s1", Status::Completed)]);
    assert_eq!(scene.state.run_status(r.id), Some(RunStatus::Ended(Status::Completed)));
    scene.kim(vec![eval("v", Some("c"))]);
    let data = Target::Object(id(Kind::Blob, "data"));
    scene.kim(vec![revocation("x", data, None)]);
    // As of the size before it nobody can see the mark.
    assert!(scene.state.marks(6).is_empty());
    let marks = scene.state.marks(7);
    assert_eq!(marks.len(), 1);
    assert_eq!((marks[0].since, marks[0].index), (0, 6));
    assert_eq!(marks[0].target, MarkTarget::Object(id(Kind::Blob, "data")));
    assert_eq!(scene.standings, [Accepted; 7], "a mark changes no standing");

    // A second checkpoint of the same files is found first, the older one after it.
    scene.accepts(&ben, vec![checkpoint("c2", Some("s1"))]);
    let full = scene.state.with_digest(id(Kind::Tree, "full").id);
    assert_eq!(full, [(DigestRole::Full, Place { index: 7, position: 0 }), (DigestRole::Full, place)]);
    scene.end();
}

#[test]
fn two_starts_that_presume_the_same_attempt_lost_both_happened() {
    let mut scene = Scene::new();
    let r = id(Kind::Plan, "r").id;
    let attempt = |scene: &Scene, text: &str| scene.state.attempt(id(Kind::Start, text).id).unwrap();
    scene.kim(vec![plan("r"), start("s1", "r", &[])]);
    // Queued now, ordered after the starts that presume the attempt lost.
    let late = scene.signed(&kim(), vec![end("e1", "s1", Status::Completed)]);
    scene.kim(vec![start("s2", "r", &["s1"])]);
    assert!(attempt(&scene, "s1").lost);
    scene.kim(vec![start("s3", "r", &["s1"])]);
    assert_eq!(scene.state.attempts(r).len(), 3);
    assert_eq!(scene.state.run_status(r), Some(RunStatus::Started));
    assert_eq!(scene.append(late), Accepted);
    // The real end replaces the presumption.
    assert!(!attempt(&scene, "s1").lost);
    assert_eq!(attempt(&scene, "s1").ended.unwrap().0, Status::Completed);
    assert_eq!(scene.state.run_status(r), Some(RunStatus::Started), "the latest attempt is open");
    // What has ended is not presumed lost any more.
    scene.kim(vec![start("s4", "r", &["s1", "s3"])]);
    assert!(!attempt(&scene, "s1").lost);
    assert!(attempt(&scene, "s3").lost);
    // An attempt of another run is not lost by this one.
    scene.kim(vec![plan("q"), start("t1", "q", &[])]);
    scene.kim(vec![start("s5", "r", &["t1"])]);
    assert!(!attempt(&scene, "t1").lost);
    scene.end();
}

#[test]
fn names_belong_to_their_first_holder() {
    let mut scene = Scene::new();
    let ben = scene.with(Party::new(2), &[Role::Author]);
    let ann = scene.with(Party::new(3), &[Role::Author]);
    let train = name("train");
    let object = |scene: &Scene| scene.state.name(Kind::Dataset, &train).unwrap();
    scene.accepts(&ben, vec![dataset("d1", Some("train"))]);
    assert_eq!((object(&scene).holder, object(&scene).versions), (ben.holder, 1));
    // Another's use is not granted, but the claim stands.
    scene.accepts(&ann, vec![dataset("d2", Some("train"))]);
    assert_eq!(object(&scene).object, id(Kind::Dataset, "d1").id);
    assert!(scene.state.claim(id(Kind::Dataset, "d2")).is_some());
    // The holder's next use is the next version; the same object again is none.
    scene.accepts(&ben, vec![dataset("d3", Some("train"))]);
    scene.accepts(&ben, vec![dataset("d3", Some("train"))]);
    assert_eq!(object(&scene).versions, 2);
    let version = |scene: &Scene, n| scene.state.version(Kind::Dataset, &train, n).map(|(object, _)| object);
    assert_eq!(version(&scene, 1), Some(id(Kind::Dataset, "d1").id));
    assert_eq!(version(&scene, 2), Some(id(Kind::Dataset, "d3").id));
    assert_eq!(version(&scene, 3), None);
    // An owner's use is a version too, and the name stays its holder's.
    scene.kim(vec![dataset("d4", Some("train"))]);
    assert_eq!((object(&scene).holder, object(&scene).versions), (ben.holder, 3));
    // The same name of another kind is another name; run names have no versions.
    scene.accepts(&ann, vec![named_plan("r", Some("train"))]);
    scene.accepts(&ann, vec![named_plan("r2", Some("train"))]);
    let run = scene.state.name(Kind::Plan, &train).unwrap();
    assert_eq!((run.holder, run.versions, run.object), (ann.holder, 1, id(Kind::Plan, "r").id));

    // An owner moves a name to what somebody else stated, and it is theirs from there on.
    let to = id(Kind::Dataset, "d2");
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![name_move("m", "train", Some(to), NameAction::Assign)]);
    scene.kim_not(
        Reason::BadForm,
        vec![name_move("m", "train", Some(id(Kind::Plan, "r")), NameAction::Assign)],
    );
    scene.kim_not(Reason::BadForm, vec![name_move("m", "train", None, NameAction::Assign)]);
    scene.kim(vec![name_move("m", "train", Some(to), NameAction::Assign)]);
    let moved = Some(last(&scene, 0));
    assert_eq!((object(&scene).holder, object(&scene).object), (ann.holder, to.id));
    scene.accepts(&ben, vec![dataset("d5", Some("train"))]);
    assert_eq!(object(&scene).object, to.id, "it is no longer ben's");
    scene.accepts(&ann, vec![dataset("d6", Some("train"))]);
    assert_eq!(object(&scene).versions, 5);
    // A retired name takes no version, and what it stood for stays.
    scene.kim_not(Reason::LostRace, vec![name_move("n", "train", None, NameAction::Retire)]);
    scene.kim(vec![after(name_move("n", "train", None, NameAction::Retire), moved)]);
    scene.accepts(&ann, vec![dataset("d7", Some("train"))]);
    assert_eq!((object(&scene).versions, object(&scene).closed), (5, true));
    // A reserved name is nobody's to use.
    scene.kim(vec![name_move("o", "gold", None, NameAction::Reserve)]);
    scene.accepts(&ann, vec![dataset("d8", Some("gold"))]);
    assert_eq!(scene.state.name(Kind::Dataset, &name("gold")).unwrap().versions, 0);
    scene.end();
}

#[test]
fn keys_join_one_holder_for_ever() {
    let mut scene = Scene::new();
    let ben = Party::new(2);
    // A later key names a holder that is there, or one that comes in the same statement before it.
    let laptop = ben.also(22);
    scene.kim_not(Reason::BadForm, vec![scene.joins(&laptop, &[Role::Author])]);
    let claims = vec![scene.joins(&ben, &[Role::Author]), scene.joins(&laptop, &[Role::Evaluator])];
    scene.kim(claims);
    scene.accepts(&laptop, vec![eval("v", None)]);
    scene.refuses(Reason::RoleNotAllowed, &laptop, vec![plan("r")]);
    // What one key of a holder started, another may record from: acts belong to holders.
    scene.accepts(&ben, vec![plan("r"), start("s", "r", &[])]);
    scene.accepts(&laptop, vec![end("e", "s", Status::Completed)]);
    // A key cannot change its holder, prove itself twice, or be log and author at once.
    let moved = Party { holder: kim().holder, ..ben.also(22) };
    scene.kim_not(Reason::BadForm, vec![scene.changes(&moved, &[Role::Author])]);
    let current = scene.current(&Register::Key(laptop.key.public().thumbprint()));
    scene.kim_not(Reason::BadForm, vec![after(scene.joins(&laptop, &[Role::Author]), current)]);
    scene.kim_not(Reason::BadForm, vec![scene.joins(&Party::new(4), &[Role::Author, Role::Log])]);
    // A point of small order is no key.
    let mut weak = scene.joins(&Party::new(5), &[Role::Author]);
    let mut identity = [0; 32];
    identity[0] = 1;
    let holder = Party::new(5).holder;
    let roles = [Role::Author].into();
    weak.facts = Facts::Key { key: identity, holder, roles, proof: Some([0; 64]) }.encode().into();
    scene.kim_not(Reason::BadForm, vec![weak]);
    // Roles are those of the state before: nobody gives himself one on the way.
    scene.refuses(Reason::RoleNotAllowed, &ben, vec![scene.changes(&ben, &[Role::Owner]), channel("h")]);
    scene.end();
}

#[test]
fn a_key_without_roles_is_dead_from_there_on() {
    let mut scene = Scene::new();
    let ben = scene.with(Party::new(2), &[Role::Author]);
    let ann = scene.with(Party::new(3), &[Role::Author]);
    scene.accepts(&ben, vec![note("before")]);
    // Nobody but owners and the holder ends a key, and a holder can only end it.
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![scene.changes(&ben, &[])]);
    scene.refuses(Reason::RoleNotAllowed, &ben, vec![scene.changes(&ben, &[Role::Author, Role::Evaluator])]);
    scene.accepts(&ben, vec![scene.changes(&ben, &[])]);
    scene.refuses(Reason::RoleNotAllowed, &ben, vec![note("after")]);
    assert!(scene.state.claim(id(Kind::Note, "before")).is_some(), "what it said before stands");
    // It is known still, so its past has an author.
    assert_eq!(scene.state.author(id(Kind::Note, "before")).unwrap().holder, ben.holder);
    scene.kim(vec![scene.changes(&ann, &[])]);
    scene.refuses(Reason::RoleNotAllowed, &ann, vec![note("after")]);
    scene.end();
}

#[test]
fn other_words_about_an_object_take_nothing_from_it() {
    let mut scene = Scene::new();
    let lee = scene.with(Party::new(2), &[Role::Author]);
    scene.accepts(&lee, vec![plan("r"), start("lees", "r", &[])]);
    scene.kim(vec![plan("k"), start("kims", "k", &[])]);
    // Lee has seen what kim is about to say, and says it first in words of another kind.
    let own = Target::Object(id(Kind::Plan, "r"));
    let meant = Target::Object(id(Kind::Start, "lees"));
    scene.accepts(&lee, vec![revocation("R", own, None)]);
    scene.kim(vec![revocation("R", meant, None)]);
    let size = scene.state.size();
    let marked: Vec<_> = scene.state.marks(size).into_iter().map(|mark| mark.target).collect();
    assert!(marked.contains(&MarkTarget::Object(id(Kind::Start, "lees"))), "{marked:?}");
    scene.accepts(&lee, vec![end("E", "lees", Status::Failed)]);
    scene.kim(vec![end("E", "kims", Status::Completed)]);
    let ended = |text| scene.state.attempt(id(Kind::Start, text).id).unwrap().ended.map(|(status, _)| status);
    assert_eq!(ended("kims"), Some(Status::Completed));
    assert_eq!(ended("lees"), Some(Status::Failed));
    // The same words again are a repeat: nothing moves a second time.
    let before = scene.state.marks(u64::MAX).len();
    scene.kim(vec![revocation("R", meant, None)]);
    assert_eq!(scene.state.marks(u64::MAX).len(), before);
    // A start that is claimed with another plan opens no second attempt.
    scene.accepts(&lee, vec![start("kims", "r", &[])]);
    assert_eq!(scene.state.attempt(id(Kind::Start, "kims").id).unwrap().plan, id(Kind::Plan, "k").id);
    assert_eq!(scene.state.run(id(Kind::Plan, "r").id).unwrap().attempts, 1);
    scene.end();
}

#[test]
fn revocations_are_marks_by_those_who_may() {
    let mut scene = Scene::new();
    let ben = scene.with(Party::new(2), &[Role::Author]);
    let ann = scene.with(Party::new(3), &[Role::Author]);
    let eva = scene.with(Party::new(4), &[Role::Evaluator]);
    let ben_log = scene.with(ben.also(102), &[Role::Log]);
    scene.accepts(&ben, vec![dataset("d", None), note("n")]);
    let said = last(&scene, 1);
    let d = id(Kind::Dataset, "d");
    let ben_key = ben.key.public().thumbprint();
    for target in [Target::Claim(said), Target::Object(d), Target::Key(ben_key)] {
        let text = |who: &str| format!("{target:?} by {who}");
        let own = revocation(&text("ben"), target, None);
        scene.refuses(Reason::RoleNotAllowed, &ann, vec![revocation(&text("ann"), target, None)]);
        scene.refuses(Reason::RoleNotAllowed, &ben_log, vec![revocation(&text("log"), target, None)]);
        scene.accepts(&ben, vec![own]);
        scene.kim(vec![revocation(&text("kim"), target, Some(3))]);
        let by_evaluator = vec![revocation(&text("eva"), target, None)];
        if matches!(target, Target::Key(_)) {
            scene.refuses(Reason::RoleNotAllowed, &eva, by_evaluator);
        } else {
            scene.accepts(&eva, by_evaluator);
        }
    }
    let size = scene.state.size();
    let marks = scene.state.marks(size);
    assert_eq!(marks.len(), 8);
    assert_eq!(marks.iter().filter(|mark| mark.since == 3).count(), 3);
    assert!(marks.is_sorted_by_key(|mark| mark.index));
    // A revoked key still signs: ending it is another claim.
    scene.accepts(&ben, vec![note("m")]);
    scene.end();
}

#[test]
fn what_newer_rules_say_is_carried_and_satisfies_nothing() {
    let mut scene = Scene::new();
    let kind = Claim { kind: "hologram".into(), ..note("h") };
    let mut map = ledger::codec::Writer::new();
    map.map(1).text("mood").text("good");
    let fact = Claim { facts: map.finish().into(), ..plan("r") };
    let role = Claim {
        links: vec![Link { role: "inspires".into(), kind: "plan".into(), id: id(Kind::Plan, "x").id }],
        ..note("i")
    };
    let target = Claim {
        links: vec![Link { role: "subject".into(), kind: "hologram".into(), id: id(Kind::Blob, "x").id }],
        ..note("j")
    };
    let rules = scene.signed(&kim(), vec![kind.clone(), note("k")]);
    for leaf in [kind, fact.clone(), role, target].map(|claim| scene.signed(&kim(), vec![claim])) {
        assert_eq!(scene.append(leaf), Unknown);
    }
    // One unknown claim makes the statement unknown, and nothing of it counts.
    assert_eq!(scene.append(rules), Unknown);
    assert_eq!(scene.state.claim(id(Kind::Note, "k")), None);
    scene.kim_not(Reason::LinkNotAccepted, vec![start("s", "r", &[])]);
    // What links to an unknown claim beside it is unknown with it, and not rejected.
    let leaf = scene.signed(&kim(), vec![fact, start("s", "r", &[])]);
    assert_eq!(scene.append(leaf), Unknown);
    assert_eq!(scene.state.run(id(Kind::Plan, "r").id), None);
    // A rejected claim beside an unknown one rejects.
    let mixed = vec![Claim { kind: "hologram".into(), ..note("h") }, start("s", "r", &[])];
    let leaf = scene.signed(&kim(), mixed);
    assert_eq!(scene.append(leaf), Rejected(Reason::LinkNotAccepted));
    // A stranger's unknown words are a stranger's.
    let eve = Party::new(9);
    let leaf = scene.signed(&eve, vec![Claim { kind: "hologram".into(), ..note("h") }]);
    assert_eq!(scene.append(leaf), Rejected(Reason::UnknownKey));
    // An owner raises the rules, never lowers them.
    let format = |rules| claim(Kind::Format, &format!("{rules}"), &[], &Facts::Format { rules });
    scene.kim_not(Reason::BadForm, vec![format(1)]);
    scene.kim(vec![format(2)]);
    assert_eq!(scene.state.rules(), 2);
    // What is said under rules that this program does not know, it does not judge.
    for claims in [vec![format(3)], vec![note("later")]] {
        let leaf = scene.signed(&kim(), claims);
        assert_eq!(scene.append(leaf), Unknown);
    }
    assert_eq!(scene.state.claim(id(Kind::Note, "later")), None);
    scene.end();
}

#[test]
fn every_reason_has_a_test_of_its_name() {
    let source = include_str!("main.rs");
    for reason in Reason::ALL {
        let test = format!("fn {}() {{", reason.word().replace('-', "_"));
        assert!(source.contains(&test), "{reason}");
    }
}
