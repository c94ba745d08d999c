//! Parties, claims and a log in memory, so that each test of the fold says only what it is about.
//!
//! Nothing is asserted here but what every scene must end with.

use std::collections::BTreeSet;
use std::convert::Infallible;

use ledger::id::{ClaimRef, HolderId, object_id, sha256, statement_id};
use ledger::log::key::{SigningKey, possession_message};
use ledger::log::statement::{self, Claim, Link, Payload, Seen, Statement};
use ledger::log::tree::{self, MemoryTiles};
use ledger::model::{
    DeploymentAction, Facts, Kind, Name, NameAction, Outcome, PromotionAction, Role, Status, Target, TypedId,
};
use ledger::state::{Checks, Reason, Register, Signatures, Standing, State, advance};

use Standing::{Accepted, Rejected};

/// One key and the holder that it is bound to.
pub(crate) struct Party {
    pub(crate) key: SigningKey,
    pub(crate) holder: HolderId,
}

impl Party {
    pub(crate) fn new(seed: u8) -> Self {
        let key = SigningKey::from_seed(&[seed; 32]);
        let holder = HolderId::of_first_key(key.public().thumbprint());
        Self { key, holder }
    }

    /// Another key of the same holder.
    pub(crate) fn also(&self, seed: u8) -> Self {
        Self { key: SigningKey::from_seed(&[seed; 32]), holder: self.holder }
    }
}

/// Who founds every ledger here.
pub(crate) fn kim() -> Party {
    Party::new(1)
}

pub(crate) fn kim_log() -> Party {
    kim().also(101)
}

pub(crate) const OWNER: [Role; 5] =
    [Role::Owner, Role::Author, Role::Evaluator, Role::Reviewer, Role::Approver];
pub(crate) const NONCE: [u8; 16] = [7; 16];

/// A log in memory with its fold.
pub(crate) struct Scene {
    pub(crate) state: State,
    pub(crate) leaves: Vec<Vec<u8>>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) tiles: MemoryTiles,
}

/// Where the last statement of a scene stands, and the claim at a position in it.
pub(crate) fn last(scene: &Scene, position: u16) -> ClaimRef {
    ClaimRef { statement: statement_id(scene.leaves.last().unwrap()), position }
}

pub(crate) fn id(kind: Kind, text: &str) -> TypedId {
    TypedId::new(kind, object_id(text.as_bytes()))
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn claim(
    kind: Kind,
    text: &str,
    links: &[(&'static str, TypedId)],
    facts: &Facts,
) -> Claim<'static> {
    let mut links: Vec<Link<'static>> = links
        .iter()
        .map(|(role, target)| Link { role: (*role).into(), kind: target.kind.word().into(), id: target.id })
        .collect();
    links.sort_unstable();
    Claim {
        kind: kind.word().into(),
        object: id(kind, text).id,
        sha256: sha256(text.as_bytes()),
        size: text.len() as u64,
        links,
        facts: facts.encode().into(),
        prev: None,
    }
}

pub(crate) fn after(claim: Claim<'static>, prev: Option<ClaimRef>) -> Claim<'static> {
    Claim { prev, ..claim }
}

pub(crate) fn plan(text: &str) -> Claim<'static> {
    named_plan(text, None)
}

pub(crate) fn named_plan(text: &str, asked: Option<&str>) -> Claim<'static> {
    let facts = Facts::Named { name: asked.map(name) };
    claim(Kind::Plan, text, &[("manifest", id(Kind::Blob, "{}"))], &facts)
}

pub(crate) fn start(text: &str, plan: &str, lost: &[&str]) -> Claim<'static> {
    let mut links = vec![("plan", id(Kind::Plan, plan))];
    links.extend(lost.iter().map(|lost| ("lost", id(Kind::Start, lost))));
    claim(Kind::Start, text, &links, &Facts::None)
}

pub(crate) fn end(text: &str, start: &str, status: Status) -> Claim<'static> {
    claim(Kind::End, text, &[("start", id(Kind::Start, start))], &Facts::End { status })
}

pub(crate) fn checkpoint(text: &str, start: Option<&str>) -> Claim<'static> {
    let mut links =
        vec![("full", id(Kind::Tree, "full")), ("weights", id(Kind::Tree, &format!("weights of {text}")))];
    links.extend(start.map(|start| ("start", id(Kind::Start, start))));
    claim(Kind::Checkpoint, text, &links, &Facts::Named { name: None })
}

pub(crate) fn eval(text: &str, of: Option<&str>) -> Claim<'static> {
    let mut links = vec![("subject", id(Kind::Tree, "weights")), ("benchmark", id(Kind::Benchmark, "b"))];
    links.extend(of.map(|of| ("of", id(Kind::Checkpoint, of))));
    claim(Kind::Eval, text, &links, &Facts::None)
}

pub(crate) fn dataset(text: &str, asked: Option<&str>) -> Claim<'static> {
    let facts = Facts::Named { name: asked.map(name) };
    claim(Kind::Dataset, text, &[("root", id(Kind::Tree, text))], &facts)
}

pub(crate) fn note(text: &str) -> Claim<'static> {
    claim(Kind::Note, text, &[("subject", id(Kind::Blob, "anything"))], &Facts::None)
}

pub(crate) fn revocation(text: &str, target: Target, since: Option<u64>) -> Claim<'static> {
    claim(Kind::Revocation, text, &[], &Facts::Revocation { target, since })
}

pub(crate) fn channel(text: &str) -> Claim<'static> {
    let facts = Facts::Channel { channel: name("stable") };
    claim(Kind::Channel, text, &[("policy", id(Kind::Policy, "policy"))], &facts)
}

pub(crate) fn promotion(text: &str, verdict: Option<&str>, action: PromotionAction) -> Claim<'static> {
    let mut links = vec![("subject", id(Kind::Checkpoint, "c"))];
    links.extend(verdict.map(|verdict| ("verdict", id(Kind::Verdict, verdict))));
    let facts = Facts::Promotion { channel: name("stable"), stage: name("canary"), action };
    claim(Kind::Promotion, text, &links, &facts)
}

pub(crate) fn verdict(text: &str) -> Claim<'static> {
    let links = [
        ("subject", id(Kind::Checkpoint, "c")),
        ("policy", id(Kind::Policy, "policy")),
        ("facts", id(Kind::Blob, "facts")),
    ];
    claim(Kind::Verdict, text, &links, &Facts::Verdict { outcome: Outcome::Open, position: 3 })
}

pub(crate) fn deployment(text: &str, subject: Option<&str>, action: DeploymentAction) -> Claim<'static> {
    let links: Vec<_> =
        subject.map(|subject| ("subject", id(Kind::Checkpoint, subject))).into_iter().collect();
    claim(Kind::Deployment, text, &links, &Facts::Deployment { target: name("eu"), action })
}

pub(crate) fn name_move(text: &str, asked: &str, to: Option<TypedId>, action: NameAction) -> Claim<'static> {
    let links: Vec<_> = to.map(|to| ("to", to)).into_iter().collect();
    let facts = Facts::NameMove { kind: Kind::Dataset, name: name(asked), action };
    claim(Kind::Name, text, &links, &facts)
}

/// A claim about a key: with a proof where `context` is given, as the first one must be.
pub(crate) fn key(party: &Party, roles: &[Role], context: Option<&[u8]>) -> Claim<'static> {
    let public = party.key.public();
    let proof = context.map(|context| party.key.sign(&possession_message(context, &public, party.holder)));
    let roles: BTreeSet<Role> = roles.iter().copied().collect();
    let text = format!("{public:?} {roles:?}");
    let facts = Facts::Key { key: *public.as_bytes(), holder: party.holder, roles, proof };
    claim(Kind::Key, &text, &[("holder", id(Kind::Holder, "a name"))], &facts)
}

pub(crate) fn genesis() -> Claim<'static> {
    claim(Kind::Genesis, "genesis", &[], &Facts::Genesis { nonce: NONCE, rules: 1, parent: None })
}

pub(crate) fn prefix(claims: &[Claim<'_>]) -> &'static str {
    Kind::from_word(&claims[0].kind).map_or("later", Kind::prefix)
}

impl Scene {
    /// Kim's ledger: one holder with an author key of all roles and a log key.
    pub(crate) fn new() -> Self {
        Self::with_genesis(|kim, kim_log| {
            vec![genesis(), key(kim, &OWNER, Some(&NONCE)), key(kim_log, &[Role::Log], Some(&NONCE))]
        })
    }

    pub(crate) fn with_genesis(claims: impl Fn(&Party, &Party) -> Vec<Claim<'static>>) -> Self {
        let claims = claims(&kim(), &kim_log());
        let (state, tiles) = (State::new(), MemoryTiles::new());
        let mut scene = Self { state, leaves: vec![], standings: vec![], tiles };
        let payload = Payload { ledger: None, seen: None, claims, req: None };
        let first = statement::sign(&payload, prefix(&payload.claims), kim().holder, 5, &kim().key);
        scene.append(first.unwrap());
        scene
    }

    /// The context of possession proofs after genesis.
    pub(crate) fn context(&self) -> [u8; 32] {
        *self.state.ledger().unwrap().as_bytes()
    }

    /// A first claim of a key.
    pub(crate) fn joins(&self, party: &Party, roles: &[Role]) -> Claim<'static> {
        key(party, roles, Some(&self.context()))
    }

    /// A later claim of a key, which replaces the current one.
    pub(crate) fn changes(&self, party: &Party, roles: &[Role]) -> Claim<'static> {
        after(key(party, roles, None), self.current(&Register::Key(party.key.public().thumbprint())))
    }

    /// The claim that is current in a register, as `prev` names it.
    pub(crate) fn current(&self, register: &Register) -> Option<ClaimRef> {
        let place = self.state.register(register)?;
        let statement = statement_id(&self.leaves[place.index as usize]);
        Some(ClaimRef { statement, position: place.position })
    }

    pub(crate) fn payload(&self, claims: Vec<Claim<'static>>) -> Payload<'static> {
        let seen = Seen { size: self.state.size(), root: self.state.root() };
        Payload { ledger: self.state.ledger(), seen: Some(seen), claims, req: None }
    }

    pub(crate) fn signed(&self, by: &Party, claims: Vec<Claim<'static>>) -> Vec<u8> {
        let payload = self.payload(claims);
        statement::sign(&payload, prefix(&payload.claims), by.holder, 9, &by.key).unwrap()
    }

    /// Appends a leaf, whatever it is, and returns its standing.
    pub(crate) fn append(&mut self, leaf: Vec<u8>) -> Standing {
        let judged = Statement::parse(&leaf).map(|statement| self.state.judge(&statement, Checks::GOOD));
        let standing = fold(&mut self.state, &[&leaf], &self.tiles, Signatures::Check)[0];
        // The checks of signature and history come on top of what can be judged from the words alone.
        if !matches!(standing, Rejected(Reason::BadSignature | Reason::OtherHistory)) {
            assert_eq!(judged.unwrap_or(Rejected(Reason::BadForm)), standing);
        }
        self.tiles.push(statement_id(&leaf));
        self.leaves.push(leaf);
        self.standings.push(standing);
        standing
    }

    pub(crate) fn say(&mut self, by: &Party, claims: Vec<Claim<'static>>) -> Standing {
        let leaf = self.signed(by, claims);
        self.append(leaf)
    }

    #[track_caller]
    pub(crate) fn accepts(&mut self, by: &Party, claims: Vec<Claim<'static>>) {
        assert_eq!(self.say(by, claims), Accepted);
    }

    #[track_caller]
    pub(crate) fn refuses(&mut self, reason: Reason, by: &Party, claims: Vec<Claim<'static>>) {
        let before = self.state.clone();
        assert_eq!(self.say(by, claims), Rejected(reason));
        assert_eq!(tables(&self.state), tables(&before), "what is rejected moves nothing");
    }

    /// Adds a holder with one key.
    pub(crate) fn with(&mut self, party: Party, roles: &[Role]) -> Party {
        let claims = vec![self.joins(&party, roles)];
        let leaf = self.signed(&kim(), claims);
        assert_eq!(self.append(leaf), Accepted);
        party
    }

    /// Kim says something that is accepted.
    #[track_caller]
    pub(crate) fn kim(&mut self, claims: Vec<Claim<'static>>) {
        let leaf = self.signed(&kim(), claims);
        assert_eq!(self.append(leaf), Accepted);
    }

    #[track_caller]
    pub(crate) fn kim_not(&mut self, reason: Reason, claims: Vec<Claim<'static>>) {
        self.refuses(reason, &kim(), claims);
    }

    /// Nothing that came later has changed an earlier answer, however the log is folded.
    #[track_caller]
    pub(crate) fn end(self) {
        let leaves: Vec<&[u8]> = self.leaves.iter().map(Vec::as_slice).collect();
        let mut whole = State::new();
        let standings = fold(&mut whole, &leaves, &self.tiles, Signatures::Check);
        assert_eq!(standings, self.standings);
        assert_eq!(whole.to_file(), self.state.to_file());
        assert_eq!(whole.root(), tree::root_at(&self.tiles, leaves.len() as u64).unwrap());
        for cut in 1..leaves.len() {
            let mut state = State::new();
            fold(&mut state, &leaves[..cut], &self.tiles, Signatures::Check);
            let mut state = State::from_file(state.to_file().unwrap(), state.ledger().unwrap()).unwrap();
            let rest = fold(&mut state, &leaves[cut..], &self.tiles, Signatures::Check);
            assert_eq!(rest, self.standings[cut..], "from a State file of {cut} statements");
            assert_eq!(state.to_file(), self.state.to_file());
        }
        for (index, (leaf, standing)) in leaves.iter().zip(&self.standings).enumerate() {
            let (first, found) = self.state.statement(statement_id(leaf)).unwrap();
            assert!(first as usize <= index);
            assert_eq!(found, *standing);
        }
    }
}

/// Folds leaves with the checks of a real log.
pub(crate) fn fold(
    state: &mut State,
    leaves: &[&[u8]],
    tiles: &MemoryTiles,
    signatures: Signatures,
) -> Vec<Standing> {
    let mut root_at = |size| Ok::<_, Infallible>(tree::root_at(tiles, size).unwrap());
    advance(state, leaves, signatures, &mut root_at).unwrap()
}

/// What a state says beside which statements it holds.
pub(crate) fn tables(state: &State) -> impl PartialEq + std::fmt::Debug {
    let claims: Vec<_> = Kind::ALL.into_iter().map(|kind| state.claimed(kind)).collect();
    (claims, state.keys(), state.runs(), state.marks(u64::MAX), state.rules())
}
