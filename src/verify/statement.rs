//! One statement of the log, checked again: form, place under the head, signature, and the author's right to it.
//!
//! The folded state says where to look and is not believed. The signing key is taken from the key claim that was
//! in force at that place, whose own statement is checked the same way, back to statement 0, whose leaf hash is
//! the ledger's id. Where the ledger goes on from another one, its first statement names that one's id, size and
//! root, and so on to the oldest. Records and marks are checked elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::durable;
use crate::id::{ClaimRef, HolderId, KeyId, LedgerId, statement_id};
use crate::ledger::{self, Ledger, Segment, Stated, parents};
use crate::log::files;
use crate::log::key::{self, PublicKey};
use crate::log::statement::Statement;
use crate::log::tree::{self, MemoryTiles};
use crate::model::{Facts, Kind, Role, StatedBy, TypedId};
use crate::state::{self, Place, Signatures, Standing, State};

use super::{Error, Finding, Report, Severity};

/// A key whose right leads back to statement 0 through more key claims than this is not followed.
const MAX_KEYS: usize = 256;

/// The right of a key at a place: the claim in force there.
#[derive(Clone)]
struct Right {
    key: PublicKey,
    holder: HolderId,
    roles: BTreeSet<Role>,
}

/// The statements that an answer rests on, each checked once.
pub(super) struct Statements<'a> {
    ledger: &'a Ledger,
    /// Where to look things up: the state that was folded before, or one folded for this answer.
    state: &'a State,
    /// What was wrong with each, or nothing; with its signing key.
    checked: BTreeMap<u32, (Option<KeyId>, Vec<Finding>)>,
}

/// What keeps a statement from being relied on, in the making.
type Checked<T> = Result<T, Stop>;

/// Why a check ended early.
enum Stop {
    /// With a finding.
    Wrong(Finding),
    /// With a disk that does not answer.
    Failed(Error),
}

impl From<ledger::Error> for Stop {
    fn from(error: ledger::Error) -> Self {
        use ledger::Error::{Disk, Files};
        match &error {
            Files(files::Error::Disk(disk)) | Disk(disk) if !is_about_content(disk) => {
                Self::Failed(error.into())
            }
            _ => wrong("log", chain_text(&error)),
        }
    }
}

/// Whether the disk worked and what lies there is the trouble.
fn is_about_content(error: &durable::Error) -> bool {
    matches!(error, durable::Error::NotRegular { .. } | durable::Error::TooLarge { .. })
}

fn wrong(slug: &'static str, message: impl Into<String>) -> Stop {
    Stop::Wrong(Finding::new(Severity::Damaged, slug, message))
}

/// Joins an error and its causes to one sentence.
pub(crate) fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl<'a> Statements<'a> {
    pub(super) const fn new(ledger: &'a Ledger, state: &'a State) -> Self {
        Self { ledger, state, checked: BTreeMap::new() }
    }

    /// Checks a statement and returns what is wrong with it, unless that has been returned before.
    pub(super) fn check(&mut self, index: u32) -> Result<Vec<Finding>, Error> {
        if self.checked.contains_key(&index) {
            return Ok(Vec::new());
        }
        self.check_deep(index, 0)?;
        Ok(self.checked.get(&index).map(|(_, findings)| findings.clone()).unwrap_or_default())
    }

    /// Returns the statements checked so far with the keys that signed them: what marks on keys are held against.
    pub(super) fn signers(&self) -> impl Iterator<Item = (u32, KeyId)> + '_ {
        self.checked.iter().filter_map(|(index, (key, _))| Some((*index, (*key)?)))
    }

    /// Whether a statement was checked and nothing was wrong.
    fn holds(&self, index: u32) -> bool {
        self.checked.get(&index).is_some_and(|(_, findings)| findings.is_empty())
    }

    fn check_deep(&mut self, index: u32, depth: usize) -> Result<(), Error> {
        if self.checked.contains_key(&index) {
            return Ok(());
        }
        let mut signer = None;
        let findings = match self.examine(index, depth, &mut signer) {
            Ok(()) => Vec::new(),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Wrong(mut finding)) => {
                finding.at.get_or_insert(format!("statement {index}"));
                vec![finding]
            }
        };
        self.checked.insert(index, (signer, findings));
        Ok(())
    }

    fn examine(&mut self, index: u32, depth: usize, signer: &mut Option<KeyId>) -> Checked<()> {
        let bytes = self.ledger.statement_bytes(u64::from(index))?;
        let leaf = statement_id(&bytes);
        let (segment, within) = self.ledger.segment(u64::from(index));
        let statement = Statement::parse(&bytes).map_err(|error| wrong("statement", chain_text(&error)))?;
        *signer = Some(statement.kid);
        self.ledger.prove_inclusion(index)?;
        let ours = match statement.payload.ledger {
            None => within == 0 && LedgerId::of_genesis(leaf) == segment.ledger,
            Some(ledger) => within > 0 && ledger == segment.ledger,
        };
        if !ours {
            return Err(wrong("statement", "it was written for another ledger"));
        }
        match self.state.statement(leaf) {
            Some((at, Standing::Accepted)) if at == index => {}
            Some((_, Standing::Rejected(reason))) => {
                return Err(wrong("statement", format!("it is rejected: {reason}")));
            }
            _ => return Err(wrong("statement", "the fold did not accept it")),
        }
        let right = self.right(statement.kid, index, &statement, depth)?;
        statement.verify(&right.key).map_err(|error| wrong("signature", chain_text(&error)))?;
        if statement.iss != right.holder {
            return Err(wrong("signature", "it speaks for another holder than its key's"));
        }
        for position in 0..statement.payload.claims.len() {
            let place = Place { index, position: position as u16 };
            let stated = self.ledger.stated(place)?;
            if stated.claim.statement != leaf {
                return Err(wrong("log", "the log changed while it was read"));
            }
            self.examine_claim(&stated, &right)?;
        }
        Ok(())
    }

    fn examine_claim(&self, stated: &Stated, right: &Right) -> Checked<()> {
        let kind = stated.object.kind;
        if !self.may_state(stated, right)? {
            let roles: Vec<&str> = right.roles.iter().map(|role| role.word()).collect();
            let text = format!("a key with the roles `{}` may not state a {kind}", roles.join(" "));
            return Err(Stop::Wrong(Finding::new(Severity::Damaged, "role", text).on(stated.object)));
        }
        for (role, target) in &stated.links {
            let must = kind.link_rule(role).is_some_and(|rule| rule.claimed.contains(&target.kind));
            let stands = || self.state.claim(*target).is_some_and(|place| place.index <= stated.place.index);
            if must && !stands() {
                let text = format!("its `{role}` {} was not accepted before it", target.short());
                return Err(Stop::Wrong(Finding::new(Severity::Damaged, "link", text).on(stated.object)));
            }
        }
        Ok(())
    }

    /// Whether the roles at that place admit the claim. Rules about revocations and keys are the fold's alone.
    fn may_state(&self, stated: &Stated, right: &Right) -> Checked<bool> {
        let has = |role: Role| right.roles.contains(&role);
        Ok(match stated.object.kind.stated_by() {
            StatedBy::Nobody => false,
            StatedBy::FirstStatement => {
                let (segment, within) = self.ledger.segment(u64::from(stated.place.index));
                within == 0 && (has(Role::Owner) || (segment.first > 0 && has(Role::Recovery)))
            }
            StatedBy::Roles(roles) => roles.iter().any(|role| has(*role)),
            StatedBy::KeyRules | StatedBy::RevocationRules => !has(Role::Log),
            StatedBy::RunOrOwner => has(Role::Owner) || self.stated_run(stated, right)?,
            StatedBy::AuthorOfRun => match stated.link("start") {
                Some(_) => has(Role::Owner) || self.stated_run(stated, right)?,
                None => has(Role::Author),
            },
        })
    }

    /// Whether the holder stated the claim's start or that start's plan.
    fn stated_run(&self, stated: &Stated, right: &Right) -> Checked<bool> {
        let Some(start) = stated.link("start") else { return Ok(false) };
        if self.state.stated_by(start, right.holder) {
            return Ok(true);
        }
        let Some(place) = self.state.claim(start) else { return Ok(false) };
        let plan = self.ledger.stated(place)?.link("plan");
        Ok(plan.is_some_and(|plan| self.state.stated_by(plan, right.holder)))
    }

    /// Finds the key claim that was in force before a statement, and checks the statement that it stands in.
    fn right(&mut self, kid: KeyId, index: u32, statement: &Statement<'_>, depth: usize) -> Checked<Right> {
        if depth > MAX_KEYS {
            let text = format!("the right of key {kid} leads through more than {MAX_KEYS} key claims");
            return Err(Stop::Wrong(Finding::new(Severity::Unknown, "signature", text)));
        }
        if index == 0 {
            // The first statement of all introduces its own author; it is trusted by its hash, which is the ledger's id.
            let mut own = statement.payload.claims.iter().filter(|claim| claim.kind == Kind::Key.word());
            let right = own.find_map(|claim| right_of(&Facts::decode(Kind::Key, &claim.facts).ok()?, kid));
            return right.ok_or_else(|| wrong("signature", format!("it does not introduce key {kid}")));
        }
        let none = || wrong("signature", format!("no key {kid} was introduced before it"));
        let mut place = self.state.key(kid).ok_or_else(none)?.claim;
        while place.index >= index {
            let before = self.prev_of(place)?.ok_or_else(none)?;
            if before >= place {
                return Err(wrong("signature", format!("the claims of key {kid} are out of order")));
            }
            place = before;
        }
        let stated = self.ledger.stated(place)?;
        let right = right_of(&stated.facts, kid).ok_or_else(none)?;
        self.check_deep(place.index, depth + 1).map_err(Stop::Failed)?;
        if !self.holds(place.index) {
            let text = format!("statement {}, which introduces key {kid}, does not hold", place.index);
            return Err(wrong("signature", text));
        }
        Ok(right)
    }

    /// Returns the claim that a decision replaced; `None` too where the log cannot say, which is found elsewhere.
    pub(super) fn replaced(&self, place: Place) -> Result<Option<Place>, Error> {
        match self.prev_of(place) {
            Ok(prev) => Ok(prev),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Wrong(_)) => Ok(None),
        }
    }

    /// Returns the claim that a decision replaced.
    fn prev_of(&self, place: Place) -> Checked<Option<Place>> {
        let bytes = self.ledger.statement_bytes(u64::from(place.index))?;
        let statement = Statement::parse(&bytes).map_err(|error| wrong("statement", chain_text(&error)))?;
        let claim = statement.payload.claims.get(usize::from(place.position));
        let prev: Option<ClaimRef> = claim.and_then(|claim| claim.prev);
        Ok(prev.and_then(|prev| self.state.place(&prev)))
    }
}

fn right_of(facts: &Facts, kid: KeyId) -> Option<Right> {
    let Facts::Key { key, holder, roles, .. } = facts else { return None };
    let right = Right { key: PublicKey::parse(key).ok()?, holder: *holder, roles: roles.clone() };
    (key::thumbprint(key) == kid).then_some(right)
}

/// Returns the claim of an object in a state, if it is there before a size.
pub(super) fn claim_before(state: &State, id: TypedId, size: u64) -> Option<Place> {
    state.claim(id).filter(|place| u64::from(place.index) < size)
}

/// Folds the whole log from its first statement with all signatures, believing no State file.
pub(super) fn fold_again(ledger: &Ledger, report: &mut Report) -> Result<State, Error> {
    let mut state = State::new();
    for (at, Segment { log, size, root, .. }) in ledger.segments().into_iter().enumerate() {
        if at > 0 {
            state = state.forked();
        }
        let mut tiles = MemoryTiles::new();
        log.statements::<ledger::Error>(size, 0, &mut |_, entries| {
            tiles.extend(entries.iter().map(|entry| crate::id::statement_id(entry)));
            let mut root_at = |size| tree::root_at(&tiles, size).map_err(files::Error::from);
            state::advance(&mut state, entries, Signatures::Check, &mut root_at)
                .map_err(ledger::Error::Log)?;
            Ok(())
        })?;
        if state.root() != root {
            let text = "the log's statements and its tree head disagree";
            report.add(Finding::new(Severity::Damaged, "log", text));
            return Ok(state);
        }
    }
    let text = format!("all {} statements folded again, every signature checked", state.places());
    report.add(Finding::new(Severity::Ok, "fold", text));
    Ok(state)
}

/// Follows the first statements from this ledger's to the oldest, each of which names the log before it.
///
/// Hashes alone bind them, so what stands under the root of a parent is as sure as the ledger's id.
pub(super) fn check_parents(ledger: &Ledger) -> Result<Vec<Finding>, Error> {
    let segments = ledger.segments();
    let mut findings = Vec::new();
    for (at, segment) in segments.iter().enumerate().rev() {
        let wrong = |text: &str| {
            let finding = Finding::new(Severity::Damaged, "parent", text);
            finding.at(format!("statement {}", segment.first))
        };
        let first = match segment.log.statement(segment.size, 0) {
            Ok(first) => first,
            Err(files::Error::Disk(error)) if !is_about_content(&error) => {
                return Err(ledger::Error::from(error).into());
            }
            Err(error) => {
                findings.push(wrong(&chain_text(&error)));
                break;
            }
        };
        if LedgerId::of_genesis(statement_id(&first)) != segment.ledger {
            findings.push(wrong("it is not the first statement of the ledger whose log it opens"));
            break;
        }
        let before = at.checked_sub(1).and_then(|before| segments.get(before)).map(Segment::as_parent);
        if parents::named(&first) != before {
            findings.push(wrong("it names another log to go on from than the one that stands before it"));
            break;
        }
        if let Some(before) = before {
            let (child, parent) = (segment.ledger.to_hex(), before.ledger.to_hex());
            let text =
                format!("ledger {} goes on from {} at {} statements", &child[..8], &parent[..8], before.size);
            findings.push(Finding::new(Severity::Ok, "parent", text));
        }
    }
    Ok(findings)
}
