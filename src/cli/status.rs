//! Bare `ledger`: where you are, what is queued, and what probably comes next.

use serde_json::{Value, json};

use crate::ledger::{Ledger, Pending, Wanted};
use crate::log::key::PublicKey;
use crate::log::key_file::Stored;
use crate::log::statement::Statement;
use crate::model::{Kind, TypedId};
use crate::state::RunStatus;

use super::error::Failure;
use super::settings::Context;
use super::ui::{Answer, count, plain};

pub(super) fn run(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let key = context.stored_key();
    let mut answer = Answer::new("ledger.status/1");
    answer.line(format!("ledger   {}", ledger.id()));
    answer.line(format!("at       {}", ledger.root().display()));
    let size = ledger.head().head().size;
    answer.line(format!("head     {}", count(size, "statement")));
    if let Some(parent) = ledger.state().parents().last() {
        let before = count(ledger.state().base(), "statement");
        answer.line(format!("after    {before} of ledger {}", &parent.ledger.to_hex()[..8]));
    }
    answer.set("before", ledger.state().base());
    answer.set("ledger", ledger.id().to_hex());
    answer.set("directory", ledger.root().display().to_string());
    answer.set("size", size);
    answer.set("copy", ledger.is_copy());
    if ledger.is_copy() {
        answer.line("copy     this directory is a copy and is not written to");
    }

    let you = match &key {
        Ok(key) => who(&ledger, key),
        Err(failure) => format!("nobody: {}", failure.message),
    };
    answer.line(format!("you      {you}"));
    answer.set("you", you);

    let current = context.filled("LEDGER_RUN");
    let current_id = current.and_then(|run| ledger.resolve(run, Wanted::Kind(Kind::Plan), None).ok());
    if let Some(run) = current {
        answer.line(format!("run      {}", described(&ledger, current_id, run)));
        answer.set("run", run_json(&ledger, current_id));
    }
    let last = last_run(&ledger);
    if let Some(run) = last {
        answer.line(format!("last     {}", described(&ledger, Some(run), "")));
    }
    answer.set("last_run", run_json(&ledger, last));

    let mut pending = ledger.pending()?;
    pending.retain(|pending| ledger.state().statement(pending.id).is_none());
    pending.sort_unstable_by_key(|pending| (pending.user, pending.id));
    for (at, pending) in pending.iter().enumerate() {
        let label = if at == 0 { "queued" } else { "" };
        answer.line(format!("{label:<7}  {}", queued(&ledger, pending)));
    }
    answer.set("queued", pending.iter().map(|pending| queued_json(&ledger, pending)).collect::<Vec<_>>());

    let next = next(&ledger, key.as_ref().ok(), current_id.or(last), !pending.is_empty());
    answer.line(format!("next     {next}"));
    answer.set("next", next);
    Ok(answer)
}

fn who(ledger: &Ledger, key: &Stored) -> String {
    let id = key.author().thumbprint();
    match ledger.state().key(id) {
        Some(_) => plain(&ledger.who(id)),
        None => format!("{}, whose key is not in this ledger", plain(key.name())),
    }
}

/// Returns the run whose latest attempt, or else whose plan, stands last in the log.
fn last_run(ledger: &Ledger) -> Option<TypedId> {
    let state = ledger.state();
    let runs = state.runs().into_iter().map(|(plan, row)| {
        let start = row.last.and_then(|start| state.attempt(start));
        (start.map_or(row.claim, |start| start.claim), plan)
    });
    runs.max().map(|(_, plan)| TypedId::new(Kind::Plan, plan))
}

fn described(ledger: &Ledger, run: Option<TypedId>, text: &str) -> String {
    match run.and_then(|run| Some((run, ledger.state().run_status(run.id)?))) {
        Some((run, status)) => format!("{}  {status}", run.short()),
        None => format!("{}  not in this ledger", plain(text)),
    }
}

fn run_json(ledger: &Ledger, run: Option<TypedId>) -> Value {
    let status = run.and_then(|run| ledger.state().run_status(run.id)).map(|status| status.to_string());
    run.map_or(Value::Null, |run| json!({"id": run.to_string(), "status": status}))
}

/// Returns the kinds that a waiting statement claims and the one who signed it, as far as it can be read.
fn read(ledger: &Ledger, pending: &Pending) -> Option<(String, String)> {
    let statement = Statement::parse(pending.bytes.as_deref()?).ok()?;
    let kinds: Vec<&str> = statement.payload.claims.iter().map(|claim| &*claim.kind).collect();
    Some((plain(&kinds.join(",")), plain(&ledger.who(statement.kid))))
}

fn queued(ledger: &Ledger, pending: &Pending) -> String {
    let short = &pending.id.to_hex()[..8];
    match read(ledger, pending) {
        Some((kinds, who)) => format!("{short}  {kinds}  by {who}"),
        None => format!("{short}  of user {}, which cannot be read", pending.user),
    }
}

fn queued_json(ledger: &Ledger, pending: &Pending) -> Value {
    let (kinds, who) = read(ledger, pending).unzip();
    json!({"statement": pending.id.to_hex(), "user": pending.user, "kinds": kinds, "by": who})
}

/// Guesses the next command from how far the work has come.
fn next(ledger: &Ledger, key: Option<&Stored>, run: Option<TypedId>, is_queued: bool) -> String {
    let state = ledger.state();
    let Some(key) = key else { return "ledger key new".to_owned() };
    let row = |key: PublicKey| state.key(key.thumbprint());
    if row(key.author()).is_none_or(|row| row.roles.is_empty()) {
        return "ledger key show --request".to_owned();
    }
    if is_queued && key.log().and_then(row).is_some_and(|row| !row.roles.is_empty()) {
        return "ledger sequence".to_owned();
    }
    let Some(run) = run else { return "ledger run -- COMMAND".to_owned() };
    match state.run_status(run.id) {
        Some(RunStatus::Planned) => format!("ledger run {} -- COMMAND", run.short()),
        Some(RunStatus::Ended(_)) if !state.claimed(Kind::Checkpoint).is_empty() => {
            "ledger verify DIR".to_owned()
        }
        _ => "ledger record checkpoint DIR".to_owned(),
    }
}
