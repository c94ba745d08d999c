//! `ledger log`: what happened, newest first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::id::KeyId;
use crate::ledger::{Ledger, Listed};
use crate::lineage;
use crate::model::TypedId;
use crate::state::Standing;

use super::error::Failure;
use super::settings::Context;
use super::show::{claim, meant};
use super::trace::said_without_index;
use super::ui::{self, Answer, plain};

/// List what happened, newest first
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger log -n 10\n  ledger log run:7f3a19   a run and what came of it")]
pub(super) struct Args {
    /// Only this and what came of it: an id, a name or a path
    #[arg(value_name = "ID")]
    subject: Option<String>,
    /// At most this many
    #[arg(short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Also statements that count for nothing, with the reason
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    context.ask(|ledger| list(args, context, ledger))
}

fn list(args: &Args, context: &Context, ledger: &Ledger) -> Result<Answer, Failure> {
    let about: Option<BTreeSet<TypedId>> = match &args.subject {
        Some(text) => {
            let id = meant(text, ledger, context)?;
            let found = lineage::descendants(ledger, id)?;
            said_without_index(&found, context);
            Some(found.nodes.into_keys().collect())
        }
        None => None,
    };
    let mut answer = Answer::new("ledger.log/1");
    let mut names: BTreeMap<KeyId, String> = BTreeMap::new();
    let mut left = args.limit.unwrap_or(usize::MAX);
    let size = ledger.places();
    // A bundle at a time from the end, so that the newest few are had without reading the rest.
    'log: for block in (0..size.div_ceil(BLOCK)).rev() {
        for listed in read(ledger, block)?.into_iter().rev() {
            let is_about =
                |ids: &BTreeSet<TypedId>| listed.claims.iter().any(|one| ids.contains(&one.object));
            let is_shown = args.all || listed.standing == Standing::Accepted;
            if !is_shown || !about.as_ref().is_none_or(is_about) {
                continue;
            }
            if left == 0 {
                break 'log;
            }
            left -= 1;
            let line = line(ledger, &listed, &mut names)?;
            context.ui.row(&mut answer, "statements", line, || entry(ledger, &listed))?;
        }
    }
    answer.end_list(&context.ui, "statements");
    Ok(answer)
}

/// Statements that are read at a time.
const BLOCK: u64 = 256;

/// Reads one block of statements.
fn read(ledger: &Ledger, block: u64) -> Result<Vec<Listed>, Failure> {
    let mut found = Vec::new();
    ledger.list::<Failure>(block * BLOCK, &mut |listed| {
        if u64::from(listed.index) >= (block + 1) * BLOCK {
            return Ok(ControlFlow::Break(()));
        }
        found.push(listed);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn line(ledger: &Ledger, listed: &Listed, names: &mut BTreeMap<KeyId, String>) -> Result<String, Failure> {
    let Some(first) = listed.claims.first() else {
        return Ok(format!("{:>6}  {}", listed.index, listed.standing));
    };
    let who = names.entry(first.key).or_insert_with(|| plain(&ledger.who(first.key)));
    let mut what = Vec::new();
    for claim in &listed.claims {
        let label = lineage::describe(ledger, claim.object)?.label;
        let label = if label.is_empty() { label } else { format!(" {label}") };
        what.push(format!("{}{}", claim.object.short(), plain(&label)));
    }
    let standing = match listed.standing {
        Standing::Accepted => String::new(),
        other => format!("  {other}"),
    };
    Ok(format!("{:>6}  {}  {who}  {}{standing}", listed.index, ui::time(first.time), what.join("; ")))
}

fn entry(ledger: &Ledger, listed: &Listed) -> Value {
    let claims = listed.claims.iter().map(|one| {
        let mut value = claim(ledger, one);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("id".to_owned(), one.object.to_string().into());
        }
        value
    });
    json!({
        "index": listed.index,
        "statement": listed.id.to_hex(),
        "standing": listed.standing.to_string(),
        "claims": claims.collect::<Vec<_>>(),
    })
}
