//! One claim against its record: the two digests, the size, and the projection of what the record's bytes say.
//!
//! A claim repeats what its record says so that the log can be read without objects; here the two are held
//! together. Whether the claim is signed and stands in the log is checked next door.

use crate::id;
use crate::ledger::Stated;
use crate::model::{self, Facts, Kind, Projection, TypedId};

/// Returns how a claim and the bytes of its object contradict each other, if they do.
///
/// The bytes are those of the object's id, which reading them from the store has shown.
pub(crate) fn contradiction(stated: &Stated, bytes: &[u8]) -> Option<String> {
    held(stated, bytes).0
}

/// Holds a claim against the bytes of its object: how they contradict each other, and what the bytes say, where
/// this version knows what records of the kind say.
pub(crate) fn held(
    stated: &Stated,
    bytes: &[u8],
) -> (Option<String>, Option<Result<Projection, model::Error>>) {
    let kind = stated.object.kind;
    let said = is_projected(kind).then(|| model::project(kind, bytes));
    (differs(stated, bytes, said.as_ref()), said)
}

fn differs(stated: &Stated, bytes: &[u8], said: Option<&Result<Projection, model::Error>>) -> Option<String> {
    let (kind, size) = (stated.object.kind, bytes.len() as u64);
    if stated.size != size {
        return Some(format!("the claim gives it {} bytes, it has {size}", stated.size));
    }
    if stated.sha256 != id::sha256(bytes) {
        return Some("the claim gives it another SHA-256".to_owned());
    }
    let said = match said {
        None => {
            return (model::stated_kind(bytes) != Some(kind)).then(|| format!("its bytes are not a {kind}"));
        }
        Some(Err(error)) => return Some(format!("{error}")),
        Some(Ok(projection)) => projection,
    };
    let in_record = |role: &str| kind.link_rule(role).is_none_or(|rule| !rule.claim_only);
    let mut claimed: Vec<(&str, TypedId)> = stated.links.iter().map(|(r, id)| (r.as_str(), *id)).collect();
    claimed.retain(|(role, _)| in_record(role));
    claimed.sort_unstable();
    let mut links: Vec<(&str, TypedId)> = said.links.iter().map(|link| (link.role, link.target)).collect();
    // Records may link what their claims do not repeat, such as the definition of a benchmark.
    links.retain(|(role, _)| kind.link_rule(role).is_some());
    links.sort_unstable();
    if claimed != links {
        let differs =
            |(role, id): &&(&str, TypedId)| claimed.contains(&(*role, *id)) != links.contains(&(*role, *id));
        let role = claimed.iter().chain(&links).find(differs).map_or("link", |(role, _)| role);
        return Some(format!("the claim and the record name another `{role}`"));
    }
    // A dataset's, model's or checkpoint's name stands in the claim alone, so that it does not move the id.
    let may_name = matches!(kind, Kind::Dataset | Kind::Model | Kind::Checkpoint);
    let is_named = matches!((&said.facts, &stated.facts), (Facts::Named { name: None }, Facts::Named { .. }));
    if said.facts != stated.facts && !(may_name && is_named) {
        return Some("the claim and the record state other facts".to_owned());
    }
    None
}

/// Whether this version knows what records of a kind say.
const fn is_projected(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Genesis
            | Kind::Key
            | Kind::Format
            | Kind::Dataset
            | Kind::Model
            | Kind::Plan
            | Kind::Start
            | Kind::End
            | Kind::Checkpoint
            | Kind::Eval
            | Kind::Revocation
            | Kind::Note
    )
}
