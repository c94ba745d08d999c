//! `ledger key revoke`: how a key ends, from now on or with a mark on its past.
//!
//! Roles are taken by a claim of the key without any; what the key signed before stays accepted for ever. A
//! mark says from which statement on it was in other hands, and both are stated at once. What a mark means is
//! decided by `verify`.

use std::ops::ControlFlow;
use std::str::FromStr;

use crate::id::KeyId;
use crate::ledger;
use crate::log::key;
use crate::model::{Facts, Fixed, Kind, Role, Target, TypedId};
use crate::state::{KeyRow, Standing};
use crate::{ledger::Ledger, verify};

use super::super::error::Failure;
use super::super::revoke;
use super::super::settings::Context;
use super::super::ui::{Answer, Exit, plain};
use super::{find_key, stage};

/// Take all roles from a key, and say from when on it was in other hands
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key revoke 4f2a91                 a colleague has left\n  \
                         ledger key revoke 4f2a91 --compromised-since 120 --reason 'laptop stolen'\n  \
                         ledger key ls                            shows the keys, `ledger log` the statements")]
pub(super) struct Args {
    /// A key of this ledger: its id or the first digits of it
    #[arg(value_name = "KEY")]
    key: String,
    /// The first statement that somebody else may have signed, or `now`
    #[arg(long, value_name = "N", requires = "reason")]
    compromised_since: Option<Since>,
    /// Why, for everybody who will ask
    #[arg(long, value_name = "TEXT", requires = "compromised_since")]
    reason: Option<String>,
}

/// A place in the log, as people name it.
#[derive(Clone, Copy, Debug)]
enum Since {
    Index(u64),
    Now,
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "now" => Ok(Self::Now),
            _ => text.parse().map(Self::Index).map_err(|_| "it is the index of a statement, or `now`"),
        }
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mut ledger = context.open()?;
    let row = find_key(&ledger, &args.key)?;
    let who = plain(&ledger.who(row.id));
    let size = ledger.places();
    let since = match args.compromised_since {
        None => None,
        Some(Since::Now) => Some(size),
        Some(Since::Index(index)) if index <= size => Some(index),
        Some(Since::Index(index)) => {
            let message = format!("there is no statement {index} yet: the log has {size}");
            return Err(Failure::usage(message).hint("ledger log"));
        }
    };
    let mut answer = Answer::new("ledger.key-revoke/1");
    answer.line(row.id);
    answer.set("key", row.id.to_hex());
    answer.set("since", since);
    let known = verify::compromised_keys(&ledger)?.get(&row.id).copied();
    let is_marked = since.is_none_or(|since| known.is_some_and(|known| known <= since));
    let may_empty = !row.has(Role::Recovery);
    if !may_empty && since.is_none() {
        let message = "the role of a recovery key is given by the first statement and cannot be taken";
        return Err(Failure::new("refused", Exit::Refused, message));
    }
    if row.roles.is_empty() && is_marked {
        context.ui.talk(format!("note: {who} is revoked already; nothing was written"));
        return Ok(answer);
    }
    let key = context.key_file()?;
    let nonce = Fixed(context.random()?);
    let claim = ledger.stated(row.claim)?;
    let display = claim.link("holder").unwrap_or(TypedId::new(Kind::Holder, claim.object.id));
    let mut tx = ledger.transaction();
    if may_empty && !row.roles.is_empty() {
        stage(&mut tx, row.public, &[], (row.holder, display), None, Some(&row))?;
    }
    if !is_marked {
        revoke::stage(&mut tx, nonce, Target::Key(row.id), since, args.reason.as_deref())?;
    }
    let index = context.ordered(tx.commit(&context.signer(&key))?)?;
    answer.set("index", index);
    match since {
        None => context.ui.talk(format!("revoked {who}; what it said before stays accepted")),
        Some(since) => {
            context.ui.talk(format!("revoked {who}; it counts as compromised since statement {since}"));
            let signed = signed_since(&ledger, &row, since)?;
            tell(&ledger, &row, since, &signed, context);
            answer.set("tainted", signed.statements);
            let keys: Vec<String> = signed.keys.iter().map(|(key, _)| key.to_hex()).collect();
            answer.set("introduced", keys);
        }
    }
    Ok(answer)
}

/// What a key did since some statement.
#[derive(Default)]
struct Signed {
    statements: Vec<u32>,
    /// Keys that it gave roles to, and where.
    keys: Vec<(KeyId, u32)>,
}

fn signed_since(ledger: &Ledger, row: &KeyRow, since: u64) -> Result<Signed, Failure> {
    let mut signed = Signed::default();
    ledger.list::<ledger::Error>(since, &mut |listed| {
        let is_its = listed.claims.first().is_some_and(|claim| claim.key == row.id);
        if is_its && listed.standing == Standing::Accepted {
            signed.statements.push(listed.index);
            for claim in &listed.claims {
                if let Facts::Key { key, roles, .. } = &claim.facts
                    && !roles.is_empty()
                {
                    signed.keys.push((key::thumbprint(key), listed.index));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(signed)
}

/// Says what else is to be looked at: what the key signed meanwhile, and which other keys are in doubt.
fn tell(ledger: &Ledger, row: &KeyRow, since: u64, signed: &Signed, context: &Context) {
    const SHOWN: usize = 12;
    let mut list: Vec<String> = signed.statements.iter().take(SHOWN).map(u32::to_string).collect();
    if signed.statements.len() > SHOWN {
        list.push(format!("and {} more", signed.statements.len() - SHOWN));
    }
    if !list.is_empty() {
        let list = list.join(", ");
        context.ui.talk(format!(
            "note: it signed {list} since then; `ledger verify` says no to what rests on that"
        ));
    }
    let live = |id: KeyId| ledger.state().key(id).is_some_and(|row| !row.roles.is_empty());
    for (key, index) in signed.keys.iter().filter(|(key, _)| live(*key)) {
        let (who, short) = (plain(&ledger.who(*key)), &key.to_hex()[..8]);
        context.ui.warn(format!(
            "it gave roles to {who} in statement {index}; if that was not you: \
             ledger key revoke {short} --compromised-since {index} --reason TEXT"
        ));
    }
    let others = ledger.state().keys().into_iter();
    for other in others.filter(|other| other.holder == row.holder && other.id != row.id && live(other.id)) {
        let (who, short) = (plain(&ledger.who(other.id)), &other.id.to_hex()[..8]);
        context.ui.talk(format!(
            "note: {who} is of the same holder; if it lay in the same file: \
             ledger key revoke {short} --compromised-since {since} --reason TEXT"
        ));
    }
}
