//! `ledger entries`: the log's statements in order, one line each.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::ledger::{Listed, Stated};
use crate::state::Standing;

use super::error::Failure;
use super::settings::Context;
use super::ui::{self, Answer};

/// List the log's statements in order
///
/// In a ledger that goes on from another one, those of the other one's log come first and count from 0.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger entries | tail\n  ledger entries --from 120 --jsonl   every claim in full")]
pub(super) struct Args {
    /// Begin at this one
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.entries/1");
    ledger.list::<Failure>(args.from, &mut |listed| {
        context.ui.row(&mut answer, "entries", line(&listed), || entry(&listed))?;
        Ok(ControlFlow::Continue(()))
    })?;
    answer.end_list(&context.ui, "entries");
    answer.set("size", ledger.head().head().size);
    answer.set("before", ledger.state().base());
    Ok(answer)
}

fn line(listed: &Listed) -> String {
    let kinds: Vec<&str> = listed.claims.iter().map(|claim| claim.object.kind.word()).collect();
    let kinds = if kinds.is_empty() { "-".to_owned() } else { kinds.join(",") };
    format!("{:>6}  {}  {}  {kinds}", listed.index, listed.id, standing(listed.standing))
}

fn standing(standing: Standing) -> String {
    match standing {
        Standing::Accepted => "accepted".to_owned(),
        Standing::Rejected(reason) => format!("rejected:{reason}"),
        Standing::Unknown => "unknown".to_owned(),
    }
}

fn entry(listed: &Listed) -> Value {
    let first = listed.claims.first();
    json!({
        "index": listed.index,
        "statement": listed.id.to_hex(),
        "standing": standing(listed.standing),
        "key": first.map(|claim| claim.key.to_hex()),
        "holder": first.map(|claim| claim.holder.to_string()),
        "time": first.map(|claim| ui::time(claim.time)),
        "claims": listed.claims.iter().map(claim).collect::<Vec<_>>(),
    })
}

fn claim(claim: &Stated) -> Value {
    let links = claim.links.iter().map(|(role, target)| json!({"role": role, "id": target.to_string()}));
    json!({
        "kind": claim.object.kind.word(),
        "id": claim.object.to_string(),
        "sha256": claim.sha256.to_hex(),
        "size": claim.size,
        "links": links.collect::<Vec<_>>(),
    })
}
