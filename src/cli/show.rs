//! `ledger show`: one thing in full: what its record says, who stated it, and what hangs on it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::codec::{self, MAX_RECORD};
use crate::id::{ObjectId, hex};
use crate::ledger::{Ledger, Stated, Wanted};
use crate::lineage;
use crate::model::content::{What, escape, read_dir};
use crate::model::{self, About, Eval, Kind, TypedId};
use crate::verify::{self, identify};

use super::checkpoint;
use super::error::Failure;
use super::settings::{Context, quoted, shell};
use super::show_eval;
use super::trace::said_without_index;
use super::ui::{self, Answer, Exit, plain};

/// Show one thing in full
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger show run:7f3a19\n  ledger show out/step-300 --raw | jq .weights")]
pub(super) struct Args {
    /// An id, a short id, a name, or a path that stands for what has its digest
    #[arg(value_name = "ID|PATH")]
    subject: String,
    /// Print only the record, as JSON
    #[arg(long)]
    raw: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    context.ask(|ledger| show(args, context, ledger))
}

fn show(args: &Args, context: &Context, ledger: &Ledger) -> Result<Answer, Failure> {
    let id = meant(&args.subject, ledger, context)?;
    let node = lineage::describe(ledger, id)?;
    let record = fields(ledger, id);
    let mut answer = Answer::new("ledger.show/1");
    answer.set("id", id.to_string());
    answer.set("label", node.label.clone());
    answer.set("record", record.clone());
    answer.set("claim", node.claim.as_ref().map(|stated| claim(ledger, stated)));
    if args.raw {
        let Some(record) = record else {
            return Err(Failure::new("no-such-id", Exit::Unknown, format!("the record of {id} is not here")));
        };
        answer.line(format!("{record:#}"));
        return Ok(answer);
    }
    answer.line(id);
    let mut marks = Vec::new();
    let mut facts = vec![("what", plain(&node.label))];
    if let Some(stated) = &node.claim {
        let who = plain(&ledger.who(stated.key));
        facts.push(("by", format!("{who} at {}", ui::time(stated.time))));
        facts.push(("statement", stated.place.index.to_string()));
        facts.push(("sha256", stated.sha256.to_hex()));
        for notice in verify::notices(ledger, stated)? {
            let label = if notice.is_tainted { "revoked" } else { "note" };
            facts.push((label, plain(&notice.message)));
            marks.push(json!({"tainted": notice.is_tainted, "message": notice.message}));
        }
    }
    answer.set("marks", marks);
    if !node.is_available {
        facts.push(("record", "not in the store".to_owned()));
    }
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        answer.line(format!("  {name:<13}  {text}"));
    }
    if id.kind == Kind::Checkpoint {
        for (name, text) in checkpoint::words(ledger, id.id) {
            answer.line(format!("  {name:<13}  {text}"));
        }
        answer.set("checkpoint", checkpoint::document(ledger, id));
    }
    let said: &[&str] = if id.kind == Kind::Checkpoint { &checkpoint::SAID } else { &[] };
    let told = show_eval::lines(ledger, id);
    for (name, text) in told.iter().flatten() {
        answer.line(format!("  {name:<13}  {}", plain(text)));
    }
    // An evaluation without what it was measured on is half of it.
    if id.kind == Kind::Eval {
        let benchmark = ledger.record::<Eval>(id.id).ok().and_then(|eval| fields(ledger, eval.benchmark));
        answer.set("benchmark", benchmark);
    }
    let untold = record.iter().filter(|_| told.is_none()).filter_map(Value::as_object);
    for (name, value) in untold.flatten() {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if !is_empty && !matches!(name.as_str(), "kind" | "v") && !said.contains(&name.as_str()) {
            let text = if name == "argv" { command(value) } else { short(value) };
            answer.line(format!("  {:<13}  {}", plain(name), plain(&text)));
        }
    }
    let about = node.claim.as_ref().and_then(|stated| stated.link("about"));
    let about = about.and_then(|id| ledger.record::<About>(id.id).ok());
    let texts = about.map(|about| about.texts).unwrap_or_default();
    for (name, text) in &texts {
        answer.line(format!("  {:<13}  {}", plain(name), plain(text)));
    }
    answer.set("about", texts.into_iter().map(|(key, text)| (key, Value::from(text))).collect::<Map<_, _>>());
    let below = below(ledger, id, context)?;
    for (role, to, label) in &below {
        let line = format!("  {:<13}  {}  {}", format!("-> {role}"), to.short(), plain(label));
        answer.line(line.trim_end());
    }
    let below =
        below.iter().map(|(role, to, label)| json!({"role": role, "id": to.to_string(), "label": label}));
    answer.set("below", below.collect::<Vec<_>>());
    Ok(answer)
}

/// Finds what a text means: an id or name, or what has the digest of a path.
pub(super) fn meant(text: &str, ledger: &Ledger, context: &Context) -> Result<TypedId, Failure> {
    let path = Path::new(text);
    let is_id = text.split_once(':').is_some_and(|(prefix, _)| Kind::from_prefix(prefix).is_some());
    let resolved = ledger.resolve(text, Wanted::Any, context.filled("LEDGER_RUN"));
    if is_id || text == "@" || !path.exists() {
        return Ok(resolved?);
    }
    let progress = context.ui.progress("hashed", None);
    let found = identify(ledger, path, &|bytes| progress.add(bytes));
    drop(progress);
    let found = found?;
    // Weights may have been recorded as a model, too; it is the checkpoint that came from somewhere.
    let checkpoint = found.iter().find(|id| id.kind == Kind::Checkpoint);
    match (checkpoint.or(found.first()), resolved) {
        (Some(id), _) => Ok(*id),
        // A file may be called as something in the ledger is.
        (None, Ok(id)) => Ok(id),
        (None, Err(_)) => {
            let message = format!("nothing in this ledger has exactly the content of `{text}`");
            Err(Failure::new("not-recorded", Exit::Unknown, message)
                .hint(format!("ledger verify {}", quoted(path))))
        }
    }
}

/// Returns what directly came of something: attempts and results of a run, evaluations of a checkpoint.
fn below(ledger: &Ledger, id: TypedId, context: &Context) -> Result<Vec<(String, TypedId, String)>, Failure> {
    if !matches!(id.kind, Kind::Plan | Kind::Checkpoint | Kind::Dataset | Kind::Model) {
        return Ok(Vec::new());
    }
    let found = lineage::descendants(ledger, id)?;
    said_without_index(&found, context);
    let steps = found.walk().into_iter().filter(|step| step.depth > 0 && !step.is_repeat);
    Ok(steps
        .map(|step| (step.node.id.kind.word().to_owned(), step.node.id, step.node.label.clone()))
        .collect())
}

/// Returns a record's fields as JSON, or a directory's entries; `None` where there is no record to be read.
fn fields(ledger: &Ledger, id: TypedId) -> Option<Value> {
    let store = ledger.store();
    if id.kind == Kind::Tree {
        let entries = read_dir(id.id, &mut |node| store.get(node, MAX_RECORD)).ok()?;
        let entry = |what: &What| match what {
            What::File { size, id, .. } => json!({"size": size, "blake3": id.to_hex()}),
            What::Dir(id) => json!({"tree": id.to_hex()}),
            What::Link(target) => json!({"link": escape(target)}),
        };
        return Some(
            entries.iter().map(|one| (escape(&one.name), entry(&one.what))).collect::<Map<_, _>>().into(),
        );
    }
    let size = store.size(id.id).ok()?;
    if id.kind == Kind::Blob {
        return Some(json!({"size": size, "blake3": id.id.to_hex()}));
    }
    let bytes = store.get(id.id, MAX_RECORD).ok()?;
    model::fields(&bytes).ok().map(|value| to_json(&value))
}

/// Writes a record's value as JSON: bytes in hex, references as ids.
fn to_json(value: &codec::Value) -> Value {
    use codec::Value as V;
    match value {
        V::Bool(value) => (*value).into(),
        V::Integer(number) => i64::try_from(*number).map_or_else(|_| number.to_string().into(), Value::from),
        V::Float(number) => {
            serde_json::Number::from_f64(*number).map_or_else(|| number.to_string().into(), Value::Number)
        }
        V::Bytes(bytes) => hex(bytes).into(),
        V::Text(text) => text.clone().into(),
        V::Array(items) => match reference(items) {
            Some(id) => id.to_string().into(),
            None => items.iter().map(to_json).collect::<Vec<_>>().into(),
        },
        V::Map(fields) => {
            fields.iter().map(|(key, value)| (key_text(key), to_json(value))).collect::<Map<_, _>>().into()
        }
        _ => Value::Null,
    }
}

fn key_text(key: &codec::Value) -> String {
    match key {
        codec::Value::Text(text) => text.clone(),
        other => to_json(other).to_string(),
    }
}

/// Reads a pair of a kind's word and an id.
fn reference(items: &[codec::Value]) -> Option<TypedId> {
    let [codec::Value::Text(word), codec::Value::Bytes(id)] = items else { return None };
    Some(TypedId::new(Kind::from_word(word)?, ObjectId::from_bytes(id.as_slice().try_into().ok()?)))
}

/// Writes a value on one line, ids shortened.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => match text.split_once(':') {
            Some((prefix, id)) if Kind::from_prefix(prefix).is_some() && id.len() == 64 => {
                format!("{prefix}:{}", &id[..8])
            }
            _ => text.clone(),
        },
        Value::Array(items) => items.iter().map(short).collect::<Vec<_>>().join("  "),
        Value::Object(fields) => {
            let mut text = String::new();
            for (key, value) in fields {
                let _ = write!(text, "{}{key}: {}", if text.is_empty() { "" } else { ", " }, short(value));
            }
            text
        }
        other => other.to_string(),
    }
}

/// Writes a command as a shell reads it.
fn command(argv: &Value) -> String {
    let words = argv.as_array().into_iter().flatten().filter_map(Value::as_str);
    shell(words)
}

/// Returns a claim as JSON.
pub(super) fn claim(ledger: &Ledger, stated: &Stated) -> Value {
    let links = stated.links.iter().map(|(role, to)| json!({"role": role, "id": to.to_string()}));
    json!({
        "statement": stated.claim.statement.to_hex(),
        "index": stated.place.index,
        "position": stated.place.position,
        "key": stated.key.to_hex(),
        "by": ledger.who(stated.key),
        "time": ui::time(stated.time),
        "sha256": stated.sha256.to_hex(),
        "size": stated.size,
        "links": links.collect::<Vec<_>>(),
    })
}
