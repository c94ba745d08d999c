//! A recorded checkpoint in words and in JSON: whose it is, what each file is for, and what to beware of.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::capture::checkpoint::{Description, Layout, Role};
use crate::codec::MAX_RECORD;
use crate::id::ObjectId;
use crate::ledger::Ledger;
use crate::model::{Adapter, Checkpoint, TypedId};

use super::ui::plain;

/// Names of one list that are shown; `--json` has all.
const NAMED: usize = 4;

/// Returns what its record and the document beside it say, or null where they are not here.
pub(super) fn document(ledger: &Ledger, id: TypedId) -> Value {
    let Ok(record) = ledger.record::<Checkpoint>(id.id) else { return Value::Null };
    json!({
        "layout": record.layout,
        "format": record.format,
        "state": record.state,
        "step": record.step,
        "epoch": record.epoch,
        "tokens": record.tokens,
        "best": record.best,
        "ranks": record.ranks,
        "adapter": record.adapter,
        "description": description(ledger, &record),
    })
}

fn description(ledger: &Ledger, record: &Checkpoint) -> Option<Description> {
    let bytes = ledger.store().get(record.files?.id, MAX_RECORD).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the fields of a record that [`words`] says in its own way.
pub(super) const SAID: [&str; 4] = ["layout", "state", "adapter", "files"];

/// Returns lines about a checkpoint, each with its heading.
pub(super) fn words(ledger: &Ledger, id: ObjectId) -> Vec<(&'static str, String)> {
    let Ok(record) = ledger.record::<Checkpoint>(id) else { return Vec::new() };
    let mut lines = Vec::new();
    if let Some(word) = &record.layout {
        let title = title(word);
        let state = record.state.as_ref().map_or(String::new(), |state| format!(", {state}"));
        lines.push(("is", plain(&format!("{title}{state}"))));
    }
    lines.extend(record.adapter.as_ref().map(|adapter| ("adapter", plain(&adapted(adapter)))));
    let Some(description) = description(ledger, &record) else { return lines };
    for role in Role::ALL {
        if let Some(paths) = description.roles.get(role.word()) {
            let count = if paths.len() == 1 { String::new() } else { format!(" ({})", paths.len()) };
            lines.push(("files", plain(&format!("{}{count}: {}", role.word(), some(paths)))));
        }
    }
    if let Some(tensors) = &description.tensors {
        let count =
            if tensors.count == 1 { "1 tensor".to_owned() } else { format!("{} tensors", tensors.count) };
        let types = tensors.dtypes.join(", ");
        lines.push(("holds", plain(&format!("{count} of {types}, {} parameters", tensors.parameters))));
    }
    lines.extend(description.headers.iter().map(|(path, text)| ("holds", plain(&format!("{path}: {text}")))));
    for inside in &description.inside {
        let title = title(&inside.layout);
        let step = inside.step.map_or(String::new(), |step| format!(", step {step}"));
        lines.push(("inside", plain(&format!("{}  {title}{step}, {}", inside.path, inside.state))));
    }
    if description.custom_code {
        lines.push(("beware", "its configuration asks for `trust_remote_code`".to_owned()));
    }
    if !description.pickles.is_empty() {
        let paths: Vec<String> = description.pickles.iter().map(|pickle| pickle.path.clone()).collect();
        let count = if paths.len() == 1 { String::new() } else { format!("{}: ", paths.len()) };
        lines.push(("pickle", plain(&format!("{count}{}", some(&paths)))));
    }
    for pickle in &description.pickles {
        let mut text = String::new();
        if pickle.script {
            text.push_str("holds code");
        }
        if !pickle.imports.is_empty() {
            let and = if text.is_empty() { "" } else { ", " };
            let all = pickle.imports.len() + pickle.more;
            let more = if all > NAMED { format!(" and {} more", all - NAMED) } else { String::new() };
            let named: Vec<&str> = pickle.imports.iter().take(NAMED).map(String::as_str).collect();
            let _ = write!(text, "{and}imports {}{more}", named.join(", "));
        }
        if let Some(why) = &pickle.unknown {
            let and = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{and}not all imports are known: {why}");
        }
        if !text.is_empty() {
            lines.push(("beware", plain(&format!("`{}` {text}", pickle.path))));
        }
    }
    lines.extend(description.problems.iter().map(|problem| ("problem", plain(problem))));
    lines
}

/// Returns the name of a layout for people; a word of a later version stands for itself.
fn title(word: &str) -> &str {
    Layout::from_word(word).map_or(word, |layout| layout.title())
}

fn adapted(adapter: &Adapter) -> String {
    let base = adapter.base.as_deref().unwrap_or("a model that is not named");
    let mut text = format!("{} of {base}", adapter.method);
    match &adapter.revision {
        Some(revision) => {
            let _ = write!(text, " at {revision}");
        }
        None => text.push_str(" (named, not pinned)"),
    }
    if let Some(rank) = adapter.rank {
        let _ = write!(text, ", r {rank}");
    }
    if let Some(alpha) = &adapter.alpha {
        let _ = write!(text, ", alpha {alpha}");
    }
    if !adapter.targets.is_empty() {
        let _ = write!(text, ", on {}", some(&adapter.targets));
    }
    text
}

fn some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
