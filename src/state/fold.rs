//! The rules of the fold: whether a statement is accepted, rejected or unknown, and what an accepted one moves.
//!
//! Acts that have happened (plan, start, end, checkpoint, eval, dataset, observation, note) are never rejected
//! because somebody else was faster; only decisions compare and swap. The fold reads statements, never an
//! object, and nothing that comes later changes an earlier answer. Looking things up is in `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::id::{ClaimRef, HolderId, KeyId, LedgerId, ObjectId, object_id};
use crate::log::key::{self, PublicKey};
use crate::log::statement::{Claim, Statement};
use crate::model::{
    COMMON_LINKS, Count, DeploymentAction, Facts, FactsError, Kind, Name, NameAction, PromotionAction, Role,
    StatedBy, Status, Target, TypedId,
};

use super::rows::{AttemptRow, DigestRole, KeyRow, Mark, MarkTarget, NameRow, Place, RunRow, join};
use super::table::Rows as _;
use super::{Register, State};

/// Number of the fold's rules that this program knows.
pub const RULES: u32 = 1;

/// Why a statement counts for nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// Not in the one byte form, or not as its kind must be.
    BadForm,
    /// The signature is not the key's.
    BadSignature,
    /// Written for another ledger.
    ForeignLedger,
    /// The head that its author saw is not one of this log.
    OtherHistory,
    /// The key is not introduced.
    UnknownKey,
    /// The holder may not state this kind.
    RoleNotAllowed,
    /// A link needs an accepted claim and there is none.
    LinkNotAccepted,
    /// A decision replaced another claim than the current one.
    LostRace,
    /// The attempt has an end already.
    AlreadyEnded,
    /// Nobody could order statements or appoint owners any more.
    WouldLockOut,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::BadForm,
        Self::BadSignature,
        Self::ForeignLedger,
        Self::OtherHistory,
        Self::UnknownKey,
        Self::RoleNotAllowed,
        Self::LinkNotAccepted,
        Self::LostRace,
        Self::AlreadyEnded,
        Self::WouldLockOut,
    ];

    /// Returns the reason's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BadForm => "bad-form",
            Self::BadSignature => "bad-signature",
            Self::ForeignLedger => "foreign-ledger",
            Self::OtherHistory => "other-history",
            Self::UnknownKey => "unknown-key",
            Self::RoleNotAllowed => "role-not-allowed",
            Self::LinkNotAccepted => "link-not-accepted",
            Self::LostRace => "lost-race",
            Self::AlreadyEnded => "already-ended",
            Self::WouldLockOut => "would-lock-out",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What the fold says of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It counts.
    Accepted,
    /// It stays in the log and counts for nothing.
    Rejected(Reason),
    /// It uses a kind, fact or role of newer rules; it satisfies nothing.
    Unknown,
}

impl Standing {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Unknown => 1,
            Self::Rejected(reason) => 2 + reason as u8,
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Accepted,
            1 => Self::Unknown,
            n => Reason::ALL.get(usize::from(n - 2)).map_or(Self::Unknown, |reason| Self::Rejected(*reason)),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Unknown => f.write_str("unknown"),
            Self::Rejected(reason) => write!(f, "rejected ({reason})"),
        }
    }
}

/// What was found out about a statement before the fold sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// The head in `seen` is one of this log, at the statement's index or before.
    pub seen: bool,
    /// The signature is that of the key named by `kid`.
    pub signature: bool,
}

impl Checks {
    /// Both hold.
    pub const GOOD: Self = Self { seen: true, signature: true };
}

pub(super) type Judged<T> = Result<T, Standing>;

const fn reject<T>(reason: Reason) -> Judged<T> {
    Err(Standing::Rejected(reason))
}

/// A link with its role and kind understood.
#[derive(Debug)]
struct Linked {
    role: &'static str,
    target: TypedId,
    /// Whether an accepted claim of the target must stand earlier or in the same statement.
    needs_claim: bool,
}

/// A claim with its kind and facts understood.
#[derive(Debug)]
pub(super) struct Known {
    kind: Kind,
    id: TypedId,
    facts: Facts,
    links: Vec<Linked>,
    prev: Option<ClaimRef>,
    /// Digest over what the claim says of its object: the links in the record's bytes, and the facts that hang
    /// on them. Whoever claims the same object in other words says something else.
    pub(super) essence: [u8; 16],
}

impl Known {
    /// Returns the public key that the claim is about, if it is about one.
    pub(super) fn public_key(&self) -> Option<[u8; 32]> {
        match self.facts {
            Facts::Key { key, .. } => Some(key),
            _ => None,
        }
    }

    fn link(&self, role: &str) -> Option<TypedId> {
        self.links.iter().find(|link| link.role == role).map(|link| link.target)
    }

    fn all<'s>(&'s self, role: &'s str) -> impl Iterator<Item = TypedId> + 's {
        self.links.iter().filter(move |link| link.role == role).map(|link| link.target)
    }
}

/// The author of the statement at hand, and what the statement's own claims have introduced so far.
struct Author<'a> {
    key: KeyId,
    holder: HolderId,
    roles: Vec<Role>,
    /// Whether the statement is the first of the ledger's own log.
    is_first: bool,
    ledger: Option<LedgerId>,
    nonce: Option<[u8; 16]>,
    claims: BTreeSet<TypedId>,
    ended: BTreeSet<ObjectId>,
    keys: BTreeMap<KeyId, (HolderId, BTreeSet<Role>)>,
    registers: BTreeSet<[u8; 33]>,
    known: &'a [Known],
}

impl Author<'_> {
    fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether the key gives facts at all: a log key gives order only, a recovery key owners only.
    fn speaks(&self) -> bool {
        !self.has(Role::Log) && !self.has(Role::Recovery)
    }
}

impl State {
    /// Judges a statement as the next of the log, without recording it.
    pub fn judge(&self, statement: &Statement<'_>, checks: Checks) -> Standing {
        if let Some((_, standing)) = self.statement(statement.id) {
            return standing;
        }
        let known = statement.payload.claims.iter().map(know).collect();
        match self.understand(statement, known, self.size() == 0, checks) {
            Ok(_) => Standing::Accepted,
            Err(standing) => standing,
        }
    }

    /// Judges a statement as the next of the log and records it with whatever it moves.
    ///
    /// `parsed` is `None` when the leaf is not a statement in its one byte form; it takes its place all the same.
    pub fn apply(
        &mut self,
        id: crate::id::StatementId,
        parsed: Option<&Statement<'_>>,
        checks: Checks,
    ) -> Standing {
        let known = parsed.map(|statement| statement.payload.claims.iter().map(know).collect());
        self.apply_known(id, parsed.zip(known), checks)
    }

    /// Does what [`Self::apply`] does, with the statement's claims understood beforehand.
    pub(super) fn apply_known(
        &mut self,
        id: crate::id::StatementId,
        parsed: Option<(&Statement<'_>, Vec<Judged<Known>>)>,
        checks: Checks,
    ) -> Standing {
        let (index, is_first) = (self.places() as u32, self.size() == 0);
        self.range.push(id);
        // The same leaf twice keeps its first place and standing, and has no effect a second time: what was
        // refused there is not let in later.
        if let Some((_, standing)) = self.statement(id) {
            return standing;
        }
        let kid = parsed.as_ref().map(|(statement, _)| statement.kid);
        let standing = match parsed {
            None => Standing::Rejected(Reason::BadForm),
            Some((statement, known)) => match self.understand(statement, known, is_first, checks) {
                Ok((author, known)) => {
                    let (key, holder) = author;
                    self.record(statement, key, holder, &known, index);
                    Standing::Accepted
                }
                Err(standing) => standing,
            },
        };
        if is_first {
            if standing != Standing::Accepted && !self.parents.is_empty() {
                // Nothing is taken over by a statement that may not.
                let (parents, range) = (std::mem::take(&mut self.parents), std::mem::take(&mut self.range));
                *self = Self { parents, range, ..Self::new() };
            }
            self.ledger = Some(LedgerId::of_genesis(id));
        }
        let author = kid.and_then(|kid| self.key_number(kid)).unwrap_or(u32::MAX);
        let row = join(&[&index.to_be_bytes(), &[standing.number()], &author.to_be_bytes()]);
        self.statements.set(*id.as_bytes(), row);
        standing
    }

    fn understand(
        &self,
        statement: &Statement<'_>,
        known: Vec<Judged<Known>>,
        is_first: bool,
        checks: Checks,
    ) -> Judged<((KeyId, HolderId), Vec<Known>)> {
        let payload = &statement.payload;
        match (is_first, payload.ledger) {
            (true, Some(_)) | (false, None) => return reject(Reason::BadForm),
            (false, Some(ledger)) if Some(ledger) != self.ledger => return reject(Reason::ForeignLedger),
            _ => {}
        }
        if !checks.seen {
            return reject(Reason::OtherHistory);
        }
        if self.rules > RULES {
            // An owner raised the rules beyond this program: what they say of this statement it cannot know.
            return Err(Standing::Unknown);
        }
        let (holder, roles) = self.author_of(statement, is_first, &known)?;
        if !checks.signature {
            return reject(Reason::BadSignature);
        }
        if holder != statement.iss {
            return reject(Reason::BadForm);
        }
        if let Some(Ok(first)) = known.first()
            && statement.sub.split_once(':').map(|(prefix, _)| prefix) != Some(first.kind.prefix())
        {
            return reject(Reason::BadForm);
        }
        // One rejected claim rejects all of them; else one unknown claim makes all unknown.
        let mut unknown = None;
        let mut claims = Vec::with_capacity(known.len());
        for claim in known {
            match claim {
                Ok(claim) => claims.push(claim),
                Err(Standing::Unknown) => unknown = Some(Standing::Unknown),
                Err(standing) => return Err(standing),
            }
        }
        let opens =
            |(n, claim): (usize, &Known)| claim.kind == if n == 0 { Kind::Genesis } else { Kind::Key };
        if is_first && !claims.iter().enumerate().all(opens) {
            // The first statement opens the ledger and does nothing else.
            return reject(Reason::BadForm);
        }
        if is_first && !self.parents.is_empty() && payload.claims.len() != 1 {
            // Who may do what is taken over from the parent, and changed by later statements only.
            return reject(Reason::BadForm);
        }
        // One that is unknown is there all the same, so that what links to it is not rejected instead.
        let own = payload
            .claims
            .iter()
            .filter_map(|claim| Kind::from_word(&claim.kind).map(|kind| TypedId::new(kind, claim.object)));
        let nonce = claims.iter().find_map(|claim| match claim.facts {
            Facts::Genesis { nonce, .. } => Some(nonce),
            _ => None,
        });
        let mut author = Author {
            key: statement.kid,
            holder,
            roles,
            is_first,
            ledger: self.ledger,
            nonce: nonce.filter(|_| is_first),
            claims: own.collect(),
            ended: BTreeSet::new(),
            keys: BTreeMap::new(),
            registers: BTreeSet::new(),
            known: &claims,
        };
        for claim in author.known {
            self.judge_claim(&mut author, claim)?;
        }
        self.would_lock_out(&author)?;
        let who = (author.key, author.holder);
        match unknown {
            Some(standing) => Err(standing),
            None => Ok((who, claims)),
        }
    }

    /// Finds the signing key's holder and roles; where no ledger was before, statement 0 itself introduces them.
    fn author_of(
        &self,
        statement: &Statement<'_>,
        is_first: bool,
        known: &[Judged<Known>],
    ) -> Judged<(HolderId, Vec<Role>)> {
        if !is_first || !self.parents.is_empty() {
            let row = self.key(statement.kid).ok_or(Standing::Rejected(Reason::UnknownKey))?;
            return if row.roles.is_empty() {
                reject(Reason::RoleNotAllowed)
            } else {
                Ok((row.holder, row.roles))
            };
        }
        for claim in known.iter().flatten() {
            if let Facts::Key { key, holder, roles, .. } = &claim.facts
                && key::thumbprint(key) == statement.kid
            {
                if roles.is_empty() {
                    return reject(Reason::RoleNotAllowed);
                }
                return Ok((*holder, roles.iter().copied().collect()));
            }
        }
        reject(Reason::UnknownKey)
    }

    fn judge_claim(&self, author: &mut Author<'_>, claim: &Known) -> Judged<()> {
        self.judge_role(author, claim)?;
        for Linked { target, needs_claim, .. } in &claim.links {
            let itself = *target == claim.id;
            if *needs_claim && (itself || !author.claims.contains(target)) && self.claim(*target).is_none() {
                return reject(Reason::LinkNotAccepted);
            }
        }
        self.judge_prev(author, claim)?;
        self.judge_facts(author, claim)
    }

    fn judge_role(&self, author: &Author<'_>, claim: &Known) -> Judged<()> {
        let allowed = match claim.kind.stated_by() {
            StatedBy::Nobody => return reject(Reason::BadForm),
            StatedBy::FirstStatement => author.is_first && self.may_open(author),
            StatedBy::Roles(roles) => roles.iter().any(|role| author.has(*role)),
            StatedBy::RunOrOwner => {
                let start = claim.link("start").ok_or(Standing::Rejected(Reason::BadForm))?;
                author.has(Role::Owner) || (author.speaks() && self.stated_run(author, start))
            }
            StatedBy::AuthorOfRun => match claim.link("start") {
                Some(start) => author.has(Role::Owner) || (author.speaks() && self.stated_run(author, start)),
                None => author.has(Role::Author),
            },
            StatedBy::KeyRules => self.may_state_key(author, claim),
            StatedBy::RevocationRules => self.may_revoke(author, claim),
        };
        if allowed { Ok(()) } else { reject(Reason::RoleNotAllowed) }
    }

    /// Whether the author may open the ledger: one that goes on from another, by whoever appoints owners there.
    fn may_open(&self, author: &Author<'_>) -> bool {
        author.has(Role::Owner) || (!self.parents.is_empty() && author.has(Role::Recovery))
    }

    /// Whether the author's holder stated that start or its plan, first or as a repeat.
    fn stated_run(&self, author: &Author<'_>, start: TypedId) -> bool {
        if author.claims.contains(&start) {
            return true;
        }
        let plan = self.attempt(start.id).map(|attempt| TypedId::new(Kind::Plan, attempt.plan));
        // A start that is not accepted is judged by its link, not by its role.
        let Some(plan) = plan else { return author.has(Role::Author) };
        self.stated_by(start, author.holder) || self.stated_by(plan, author.holder)
    }

    fn may_state_key(&self, author: &Author<'_>, claim: &Known) -> bool {
        let Facts::Key { key, holder, roles, .. } = &claim.facts else { return false };
        if author.is_first {
            return author.has(Role::Owner);
        }
        let existing = self.key(key::thumbprint(key));
        let is_recovery = |row: &KeyRow| row.has(Role::Recovery);
        if roles.contains(&Role::Recovery) || existing.as_ref().is_some_and(is_recovery) {
            // The recovery key is introduced by genesis, and no owner can empty it.
            return false;
        }
        let about_owner =
            roles.contains(&Role::Owner) || existing.as_ref().is_some_and(|row| row.has(Role::Owner));
        let own = existing.is_some_and(|row| row.holder == author.holder) && *holder == author.holder;
        author.has(Role::Owner)
            || (author.has(Role::Recovery) && about_owner)
            || (own && roles.is_empty() && author.speaks())
    }

    fn may_revoke(&self, author: &Author<'_>, claim: &Known) -> bool {
        let Facts::Revocation { target, .. } = &claim.facts else { return false };
        let judge = author.has(Role::Evaluator) || author.has(Role::Owner);
        let speaks = author.speaks();
        match target {
            Target::Claim(claim) => {
                judge
                    || (speaks
                        && self
                            .author_of_statement(claim.statement)
                            .is_some_and(|key| key.holder == author.holder))
            }
            Target::Object(object) => judge || (speaks && self.stated_by(*object, author.holder)),
            Target::Key(key) => {
                let own = self.key(*key).is_some_and(|row| row.holder == author.holder);
                author.has(Role::Owner) || author.has(Role::Recovery) || (speaks && own)
            }
        }
    }

    fn judge_prev(&self, author: &mut Author<'_>, claim: &Known) -> Judged<()> {
        let Some(register) = register_of(claim) else {
            return if claim.prev.is_some() { reject(Reason::BadForm) } else { Ok(()) };
        };
        if !author.registers.insert(register.key()) {
            // Two decisions on one register in one statement could not both be the current one.
            return reject(Reason::LostRace);
        }
        let mut current = self.register(&register);
        if let (None, Facts::Promotion { channel, .. }) = (current, &claim.facts) {
            current = self.register(&Register::Channel(channel.clone()));
            if current.is_none() {
                return reject(Reason::LinkNotAccepted);
            }
        }
        let named = match &claim.prev {
            None => None,
            Some(prev) => Some(self.place(prev).ok_or(Standing::Rejected(Reason::LostRace))?),
        };
        if named == current { Ok(()) } else { reject(Reason::LostRace) }
    }

    fn judge_facts(&self, author: &mut Author<'_>, claim: &Known) -> Judged<()> {
        match &claim.facts {
            Facts::Genesis { rules, .. } if *rules != RULES => Err(Standing::Unknown),
            Facts::Genesis { parent, .. } => match (self.parents.last(), parent) {
                (None, None) => Ok(()),
                (Some(known), Some((ledger, ..))) if *ledger != known.ledger => reject(Reason::ForeignLedger),
                (Some(known), Some((_, size, root))) if (*size, *root) == (known.size, known.root) => Ok(()),
                // What was folded before is not what the new ledger says that it goes on from.
                _ => reject(Reason::OtherHistory),
            },
            Facts::Format { rules } if *rules <= self.rules => reject(Reason::BadForm),
            Facts::Key { key, holder, roles, proof } => {
                self.judge_key(author, key, *holder, roles, proof.as_ref())
            }
            Facts::End { .. } => {
                let start = claim.link("start").ok_or(Standing::Rejected(Reason::BadForm))?;
                let repeated = self.was_said(claim.id, &claim.essence);
                let ended = self.attempt(start.id).is_some_and(|attempt| attempt.ended.is_some());
                if !repeated && (ended || !author.ended.insert(start.id)) {
                    return reject(Reason::AlreadyEnded);
                }
                Ok(())
            }
            Facts::Promotion { action: PromotionAction::Enter, .. } if claim.link("verdict").is_none() => {
                reject(Reason::BadForm)
            }
            Facts::Deployment { action, .. } => {
                let wants = !matches!(action, DeploymentAction::Off);
                if claim.link("subject").is_some() == wants { Ok(()) } else { reject(Reason::BadForm) }
            }
            Facts::Revocation { target: Target::Claim(target), .. } => match self.place(target) {
                Some(_) => Ok(()),
                None => reject(Reason::LinkNotAccepted),
            },
            Facts::NameMove { kind, action, .. } => {
                let wants = matches!(action, NameAction::Assign).then_some(*kind);
                if claim.link("to").map(|to| to.kind) == wants { Ok(()) } else { reject(Reason::BadForm) }
            }
            _ => Ok(()),
        }
    }

    fn judge_key(
        &self,
        author: &mut Author<'_>,
        key: &[u8; 32],
        holder: HolderId,
        roles: &BTreeSet<Role>,
        proof: Option<&[u8; 64]>,
    ) -> Judged<()> {
        let alone = roles.len() > 1 && (roles.contains(&Role::Log) || roles.contains(&Role::Recovery));
        // Parsing refuses points of small order, under which one signature fits two messages.
        let (false, Ok(public)) = (alone, PublicKey::parse(key)) else { return reject(Reason::BadForm) };
        let kid = public.thumbprint();
        if let Some(row) = self.key(kid) {
            // A key has one holder for ever.
            if row.holder != holder || proof.is_some() {
                return reject(Reason::BadForm);
            }
        } else {
            let introduced = author.keys.values().any(|(other, _)| *other == holder);
            if holder.first_key() != kid && !introduced && !self.is_holder(holder) {
                return reject(Reason::BadForm);
            }
            let context = match (author.is_first, author.nonce, author.ledger) {
                (true, Some(nonce), _) => nonce.to_vec(),
                (_, _, Some(ledger)) => ledger.as_bytes().to_vec(),
                _ => return reject(Reason::BadForm),
            };
            let message = key::possession_message(&context, &public, holder);
            if proof.is_none_or(|proof| public.verify(&message, proof).is_err()) {
                return reject(Reason::BadSignature);
            }
        }
        author.keys.insert(kid, (holder, roles.clone()));
        Ok(())
    }

    /// Refuses a statement after which nobody could order statements or appoint owners.
    fn would_lock_out(&self, author: &Author<'_>) -> Judged<()> {
        if author.keys.is_empty() {
            return Ok(());
        }
        let mut live: BTreeMap<KeyId, BTreeSet<Role>> =
            self.keys().into_iter().map(|row| (row.id, row.roles.into_iter().collect())).collect();
        live.extend(author.keys.iter().map(|(key, (_, roles))| (*key, roles.clone())));
        let any = |role| live.values().any(|roles| roles.contains(&role));
        if any(Role::Log) && (any(Role::Owner) || any(Role::Recovery)) {
            Ok(())
        } else {
            reject(Reason::WouldLockOut)
        }
    }

    fn record(
        &mut self,
        statement: &Statement<'_>,
        key: KeyId,
        holder: HolderId,
        claims: &[Known],
        index: u32,
    ) {
        for (claim, position) in claims.iter().zip(0u16..) {
            let place = Place { index, position };
            // Keys first: in statement 0 the author's own key has no number before its claim.
            if let Facts::Key { key, holder, roles, .. } = &claim.facts {
                self.record_key(key, *holder, roles, place);
            }
        }
        let number = self.key_number(key).unwrap_or(0);
        // What a claim moves must not hang on its position: a plan is there before its start, a start before
        // its end, which is the order of the table of kinds.
        let mut ordered: Vec<(u16, &Known)> = (0u16..).zip(claims).collect();
        ordered.sort_by_key(|(_, claim)| claim.kind);
        for (position, claim) in ordered {
            let place = Place { index, position };
            let repeated = !self.record_claim(claim.id, &claim.essence, place, number);
            if let Some(register) = register_of(claim) {
                self.registers.set(register.key(), place.pack());
            }
            if repeated {
                self.record_repeat(claim, place, holder);
            } else {
                self.record_moves(claim, place, holder);
            }
        }
        if let Some(req) = &statement.payload.req {
            self.record_request(key, req, index);
        }
    }

    /// What a claim moves although the same was said before: the words of this holder about it.
    ///
    /// A name may be asked for later than the object was recorded, and a vote is the vote of whoever gives it.
    fn record_repeat(&mut self, claim: &Known, place: Place, holder: HolderId) {
        match &claim.facts {
            Facts::Named { name: Some(name) } => self.record_name(claim, name, place, holder),
            Facts::Approval { .. } | Facts::NameMove { .. } => self.record_moves(claim, place, holder),
            _ => {}
        }
    }

    fn record_moves(&mut self, claim: &Known, place: Place, holder: HolderId) {
        for Linked { role, target, .. } in &claim.links {
            if let Some(role) = DigestRole::from_link(role)
                && matches!(claim.kind, Kind::Checkpoint | Kind::Dataset | Kind::Model)
            {
                self.record_digest(target.id, role, place);
            }
        }
        match &claim.facts {
            Facts::Named { name } => {
                if claim.kind == Kind::Plan && self.run(claim.id.id).is_none() {
                    let run = RunRow { claim: place, last: None, attempts: 0 };
                    self.runs.set(*claim.id.id.as_bytes(), run.pack());
                }
                if let Some(name) = name {
                    self.record_name(claim, name, place, holder);
                }
            }
            Facts::End { status } => self.record_end(claim, *status, place),
            Facts::Format { rules } => self.rules = *rules,
            Facts::Revocation { target, since } => self.record_mark(*target, *since, place.index),
            Facts::Erasure { objects } => {
                for object in objects {
                    self.erased.set(*object.as_bytes(), place.pack());
                }
            }
            Facts::Approval { decision } => {
                if let Some(subject) = claim.link("subject") {
                    self.record_vote(holder, subject, *decision as u8, place);
                }
            }
            Facts::NameMove { kind, name, action } => {
                let to = claim.link("to");
                self.move_name(*kind, name, *action, to, place, holder);
            }
            _ if claim.kind == Kind::Start => self.record_start(claim, place),
            _ => {}
        }
    }

    fn record_start(&mut self, claim: &Known, place: Place) {
        let Some(plan) = claim.link("plan") else { return };
        for lost in claim.all("lost") {
            if let Some(mut attempt) = self.attempt(lost.id)
                && attempt.plan == plan.id
                && attempt.ended.is_none()
            {
                attempt.lost = true;
                self.attempts.set(*lost.id.as_bytes(), attempt.pack());
            }
        }
        if self.attempt(claim.id.id).is_some() {
            // The same start, said to be of another run: whoever said it first opened the attempt.
            return;
        }
        if let Some(mut run) = self.run(plan.id) {
            let attempt =
                AttemptRow { plan: plan.id, before: run.last, claim: place, ended: None, lost: false };
            self.attempts.set(*claim.id.id.as_bytes(), attempt.pack());
            run.last = Some(claim.id.id);
            run.attempts += 1;
            self.runs.set(*plan.id.as_bytes(), run.pack());
        }
    }

    fn record_end(&mut self, claim: &Known, status: Status, place: Place) {
        let Some(start) = claim.link("start") else { return };
        if let Some(mut attempt) = self.attempt(start.id) {
            // An end that was said in other words before does not undo the one that counted.
            attempt.ended.get_or_insert((status, place));
            attempt.lost = false;
            self.attempts.set(*start.id.as_bytes(), attempt.pack());
        }
    }

    fn record_key(&mut self, key: &[u8; 32], holder: HolderId, roles: &BTreeSet<Role>, place: Place) {
        let kid = key::thumbprint(key);
        let existing = self.key(kid);
        let row = KeyRow {
            id: kid,
            public: *key,
            holder,
            roles: roles.iter().copied().collect(),
            number: existing.as_ref().map_or(self.keys.len() as u32, |row| row.number),
            claim: place,
            since: existing.map_or(place.index, |row| row.since),
        };
        self.set_key(&row);
    }

    /// Grants a name, or leaves it: the claim stands either way.
    fn record_name(&mut self, claim: &Known, name: &Name, place: Place, holder: HolderId) {
        let owner = self.holder_has(holder, Role::Owner);
        let row = match self.name(claim.kind, name) {
            None => NameRow { holder, versions: 1, claim: place, object: claim.id.id, closed: false },
            // Run names have no versions, and the same object is not a new version.
            Some(row) if claim.kind == Kind::Plan || row.closed || row.object == claim.id.id => return,
            Some(row) if row.holder == holder || owner => {
                NameRow { versions: row.versions + 1, claim: place, object: claim.id.id, ..row }
            }
            Some(_) => return,
        };
        self.set_name(claim.kind, name, &row);
    }

    fn move_name(
        &mut self,
        kind: Kind,
        name: &Name,
        action: NameAction,
        to: Option<TypedId>,
        place: Place,
        holder: HolderId,
    ) {
        let none = ObjectId::from_bytes([0; 32]);
        let row = self.name(kind, name);
        let row = row.unwrap_or(NameRow { holder, versions: 0, claim: place, object: none, closed: false });
        let row = match (action, to) {
            (NameAction::Assign, Some(to)) => {
                let holder = self.author(to).map_or(row.holder, |key| key.holder);
                NameRow { holder, versions: row.versions + 1, claim: place, object: to.id, closed: false }
            }
            _ => NameRow { closed: true, ..row },
        };
        self.set_name(kind, name, &row);
    }

    fn record_mark(&mut self, target: Target, since: Option<u64>, index: u32) {
        let target = match target {
            Target::Claim(claim) => match self.place(&claim) {
                Some(place) => MarkTarget::Claim(place),
                None => return,
            },
            Target::Object(object) => MarkTarget::Object(object),
            Target::Key(key) => MarkTarget::Key(key),
        };
        self.set_mark(&Mark { target, since: since.unwrap_or(0), index });
    }
}

fn register_of(claim: &Known) -> Option<Register> {
    match &claim.facts {
        Facts::Key { key, .. } => Some(Register::Key(key::thumbprint(key))),
        Facts::Format { .. } => Some(Register::Format),
        Facts::Promotion { channel, .. } => Some(Register::Promotion(channel.clone())),
        Facts::Deployment { target, .. } => Some(Register::Target(target.clone())),
        Facts::Channel { channel } => Some(Register::Channel(channel.clone())),
        Facts::NameMove { kind, name, .. } => Some(Register::Name(*kind, name.clone())),
        _ => None,
    }
}

/// Understands a claim's kind, links and facts by the table of kinds.
pub(super) fn know(claim: &Claim<'_>) -> Judged<Known> {
    let kind = Kind::from_word(&claim.kind).ok_or(Standing::Unknown)?;
    let mut links = Vec::with_capacity(claim.links.len());
    let mut said = Vec::with_capacity(48 * claim.links.len() + claim.facts.len());
    for link in &claim.links {
        let rule = kind.link_rule(&link.role).ok_or(Standing::Unknown)?;
        let target = Kind::from_word(&link.kind).ok_or(Standing::Unknown)?;
        if !rule.kinds.is_empty() && !rule.kinds.contains(&target) {
            return reject(Reason::BadForm);
        }
        let needs_claim = rule.claimed.contains(&target);
        if !rule.claim_only {
            said.extend_from_slice(rule.role.as_bytes());
            said.push(target as u8);
            said.extend_from_slice(link.id.as_bytes());
        }
        links.push(Linked { role: rule.role, target: TypedId::new(target, link.id), needs_claim });
    }
    for rule in kind.links().iter().chain(COMMON_LINKS) {
        let count = links.iter().filter(|link| link.role == rule.role).count();
        let fits = match rule.count {
            Count::One => count == 1,
            Count::Optional => count <= 1,
            Count::Some => count >= 1,
            Count::Many => true,
        };
        if !fits {
            return reject(Reason::BadForm);
        }
    }
    let facts = match Facts::decode(kind, &claim.facts) {
        Ok(facts) => facts,
        Err(FactsError::Unknown(_)) => return Err(Standing::Unknown),
        Err(_) => return reject(Reason::BadForm),
    };
    // A name stands beside the record, except in a plan, where it is part of it.
    if kind == Kind::Plan || !matches!(facts, Facts::Named { .. }) {
        said.extend_from_slice(&claim.facts);
    }
    let mut essence = [0; 16];
    essence.copy_from_slice(&object_id(&said).as_bytes()[..16]);
    Ok(Known { kind, id: TypedId::new(kind, claim.object), facts, links, prev: claim.prev, essence })
}
