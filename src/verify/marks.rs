//! Marks of revocations: which of them count, what they are on, and how people are told.
//!
//! The fold keeps every mark and judges none of them again. Here a mark falls when a later one taints the
//! statement that left it: whoever can still speak last decides, which are the owners whose keys were not
//! emptied and, above them, the recovery key. What a mark means for an answer is decided in `chain`.

use std::collections::BTreeMap;

use crate::id::KeyId;
use crate::ledger::{self, Ledger, Stated};
use crate::model::{About, Facts, Target};
use crate::state::{Mark, MarkTarget, Place, State};

/// The key of the `about` text that says why.
const REASON: &str = "reason";

/// The marks that count in an answer.
pub(super) struct Marks {
    standing: Vec<Mark>,
}

impl Marks {
    /// Reads the marks of the statements below `size` and drops those that later ones taint.
    pub(super) fn read(ledger: &Ledger, state: &State, size: u64) -> Result<Self, ledger::Error> {
        let mut standing: Vec<Mark> = Vec::new();
        for mark in state.marks(size).into_iter().rev() {
            let signer = state.author_of_statement(ledger.statement_id(mark.index)?).map(|row| row.id);
            let falls = |later: &Mark| {
                later.index > mark.index
                    && later.since <= u64::from(mark.index)
                    && signer.is_some_and(|signer| later.target == MarkTarget::Key(signer))
            };
            if !standing.iter().any(falls) {
                standing.push(mark);
            }
        }
        standing.reverse();
        Ok(Self { standing })
    }

    /// Returns all that count, in log order.
    pub(super) fn all(&self) -> &[Mark] {
        &self.standing
    }

    /// Returns the mark that keeps a statement of a key from being relied on: the one that reaches back furthest.
    pub(super) fn taints(&self, key: KeyId, index: u32) -> Option<&Mark> {
        self.on_key(key).filter(|mark| mark.since <= u64::from(index))
    }

    /// Returns the mark on a key that reaches back furthest.
    pub(super) fn on_key(&self, key: KeyId) -> Option<&Mark> {
        let on = self.standing.iter().filter(|mark| mark.target == MarkTarget::Key(key));
        on.min_by_key(|mark| (mark.since, mark.index))
    }
}

/// Returns the claim that left a mark.
pub(super) fn claim_of(ledger: &Ledger, mark: &Mark) -> Option<Stated> {
    let is_it = |stated: &Stated| {
        let Facts::Revocation { target, .. } = stated.facts else { return false };
        match (target, mark.target) {
            (Target::Key(key), MarkTarget::Key(marked)) => key == marked,
            (Target::Object(id), MarkTarget::Object(marked)) => id == marked,
            (Target::Claim(claim), MarkTarget::Claim(place)) => ledger.state().place(&claim) == Some(place),
            _ => false,
        }
    };
    let claims =
        (0..=u16::MAX).map_while(|position| ledger.stated(Place { index: mark.index, position }).ok());
    claims.into_iter().find(is_it)
}

/// Says who left a mark, where and why: ` by kim (owner 4f2a) in statement 12: laptop stolen`.
pub(super) fn told(ledger: &Ledger, mark: &Mark) -> String {
    let stated = claim_of(ledger, mark);
    let who = stated.as_ref().map_or(String::new(), |stated| format!(" by {}", ledger.who(stated.key)));
    let about = stated.and_then(|stated| stated.link("about"));
    let reason = about.and_then(|about| ledger.record::<About>(about.id).ok());
    let reason = reason.and_then(|about| about.texts.get(REASON).cloned());
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    format!("{who} in statement {}{reason}", mark.index)
}

/// Says what a mark on a key means: `compromised since statement 9` or `revoked`.
pub(super) fn extent(mark: &Mark) -> String {
    match mark.since {
        0 => "revoked with all that it signed".to_owned(),
        since => format!("compromised since statement {since}"),
    }
}

/// A mark on something that is shown, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Whether the thing is not to be relied on.
    pub is_tainted: bool,
    /// One sentence.
    pub message: String,
}

/// Returns the marks that count on a claim, on its object and on the key that signed it.
pub fn notices(ledger: &Ledger, stated: &Stated) -> Result<Vec<Notice>, ledger::Error> {
    let marks = Marks::read(ledger, ledger.state(), ledger.places())?;
    let mut found = Vec::new();
    for mark in marks.all() {
        let what = match mark.target {
            MarkTarget::Object(id) if id == stated.object => id.short(),
            MarkTarget::Claim(place) if place == stated.place => "this claim".to_owned(),
            _ => continue,
        };
        found.push(Notice { is_tainted: true, message: format!("{what} was revoked{}", told(ledger, mark)) });
    }
    if let Some(mark) = marks.on_key(stated.key) {
        let is_tainted = mark.since <= u64::from(stated.place.index);
        let tail = if is_tainted { "" } else { "; this was stated before" };
        let message = format!(
            "the key of {} is {}, said{}{tail}",
            ledger.who(stated.key),
            extent(mark),
            told(ledger, mark)
        );
        found.push(Notice { is_tainted, message });
    }
    Ok(found)
}

/// Returns the keys that marks which count are on, with the statement from which on each is not to be relied on.
pub fn compromised_keys(ledger: &Ledger) -> Result<BTreeMap<KeyId, u64>, ledger::Error> {
    let marks = Marks::read(ledger, ledger.state(), ledger.places())?;
    let mut keys = BTreeMap::new();
    for mark in marks.all() {
        if let MarkTarget::Key(key) = mark.target {
            let since = keys.entry(key).or_insert(mark.since);
            *since = mark.since.min(*since);
        }
    }
    Ok(keys)
}
