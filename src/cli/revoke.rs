//! `ledger revoke`: something that is recorded, and should not be relied on any more.
//!
//! Keys are revoked in `key/revoke.rs`, which states the same record about them.

use std::str::FromStr;

use crate::ledger::{Ledger, StagedClaim, Transaction};
use crate::model::{About, Fixed, Nonce, Revocation, Target, TypedId};

use super::error::Failure;
use super::settings::Context;
use super::show;
use super::ui::{Answer, plain};

/// Say that something recorded is not to be relied on
///
/// What it says stays in the log, and `ledger verify` answers no to whatever rests on it. Your own records you
/// can always revoke; those of others take the role `owner` or `evaluator`.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger revoke ck:7f3a19 --reason 'trained on the test set'\n  \
                         ledger revoke data/train.csv --reason 'licence withdrawn' --since now")]
pub(super) struct Args {
    /// An id, a name, or a path that stands for what has its digest
    #[arg(value_name = "ID|FILE")]
    subject: String,
    /// Why, for everybody who will ask
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The first statement from which on it is not to be relied on, or `now`; without it, all of it
    #[arg(long, value_name = "N")]
    since: Option<Since>,
}

/// A place in the log, as people name it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Since {
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

impl Since {
    /// Returns the index, which may be that of the next statement and no later one.
    pub(super) fn index(self, ledger: &Ledger) -> Result<u64, Failure> {
        let size = ledger.places();
        match self {
            Self::Now => Ok(size),
            Self::Index(index) if index <= size => Ok(index),
            Self::Index(index) => {
                let message = format!("there is no statement {index} yet: the log has {size}");
                Err(Failure::usage(message).hint("ledger log"))
            }
        }
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mut ledger = context.open()?;
    let id = show::meant(&args.subject, &ledger, context)?;
    let since = args.since.map(|since| since.index(&ledger)).transpose()?;
    let key = context.key_file()?;
    let nonce = Fixed(context.random()?);
    let mut tx = ledger.transaction();
    let stated = stage(&mut tx, nonce, Target::Object(id), since, Some(&args.reason))?;
    let index = context.ordered(tx.commit(&context.signer(&key))?)?;
    let from = since.map_or(String::new(), |since| format!(" from statement {since} on"));
    context.ui.talk(format!("revoked {}{from}{}", id.short(), described(&ledger, id)));
    let mut answer = Answer::new("ledger.revoke/1");
    answer.line(stated);
    answer.set("id", stated.to_string());
    answer.set("revoked", id.to_string());
    answer.set("since", since);
    answer.set("index", index);
    Ok(answer)
}

fn described(ledger: &Ledger, id: TypedId) -> String {
    let author = ledger.state().author(id);
    author.map_or(String::new(), |row| format!(", which {} had stated", plain(&ledger.who(row.id))))
}

/// Stages the claim that marks something as not to be relied on, and returns the record's id.
pub(super) fn stage(
    tx: &mut Transaction<'_>,
    nonce: Nonce,
    target: Target,
    since: Option<u64>,
    reason: Option<&str>,
) -> Result<TypedId, Failure> {
    let record = Revocation { nonce, target, since };
    let encoded = tx.put(&record)?;
    let mut claim = StagedClaim::new(&record, &encoded);
    if let Some(reason) = reason {
        let texts = [("reason".to_owned(), reason.to_owned())].into();
        claim = claim.beside("about", tx.put(&About { texts })?.id);
    }
    tx.claim(claim);
    Ok(encoded.id)
}
