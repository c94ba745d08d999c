//! `ledger trace`: what something came from, or what came from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::ledger::Ledger;
use crate::lineage::{self, Lineage};
use crate::model::{Kind, TypedId};

use super::error::Failure;
use super::settings::Context;
use super::show::meant;
use super::ui::{Answer, Exit, plain};

/// Trace where something came from, or what came from it
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger trace out/step-300\n  ledger trace data:train --down   what depends on it")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct Args {
    /// An id, a short id, a name, or a path that stands for what has its digest
    #[arg(value_name = "ID|PATH")]
    subject: String,
    /// Everything that it came from; the default
    #[arg(long, conflicts_with = "down")]
    up: bool,
    /// Everything that came from it
    #[arg(long)]
    down: bool,
    /// Only the ways to this one; exit code 1 if there are none
    #[arg(long, value_name = "ID")]
    to: Option<String>,
    /// Only things of one kind: run, checkpoint, eval, dataset, ...
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
    /// Draw with Mermaid, for Markdown pages
    #[arg(long, conflicts_with = "dot")]
    mermaid: bool,
    /// Draw with Graphviz
    #[arg(long)]
    dot: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    context.ask(|ledger| trace(args, context, ledger))
}

fn trace(args: &Args, context: &Context, ledger: &Ledger) -> Result<Answer, Failure> {
    let id = meant(&args.subject, ledger, context)?;
    let to = args.to.as_ref().map(|text| meant(text, ledger, context)).transpose()?;
    let mut found =
        if args.down { lineage::descendants(ledger, id)? } else { lineage::ancestors(ledger, id)? };
    said_without_index(&found, context);
    if found.is_cut {
        context.ui.warn(format!("only the first {} things are shown", lineage::MAX_NODES));
    }
    let mut answer = Answer::new("ledger.trace/1");
    if let Some(to) = to {
        let Some(ways) = found.to(to) else {
            return Err(unrelated(id, to, args.down));
        };
        found = ways;
    }
    if let Some(kind) = args.kind {
        found = found.only(kind);
    }
    answer.set("root", id.to_string());
    answer.set("direction", if args.down { "down" } else { "up" });
    answer.set("nodes", nodes(&found));
    answer.set("edges", edges(&found));
    match (args.mermaid, args.dot) {
        (true, _) => draw(&found, &MERMAID, &mut answer),
        (_, true) => draw(&found, &DOT, &mut answer),
        _ => tree(&found, !args.down, &mut answer),
    }
    Ok(answer)
}

/// Reads a kind by its word, or by what its ids begin with.
fn kind(text: &str) -> Result<Kind, String> {
    Kind::from_word(text).or_else(|| Kind::from_prefix(text)).ok_or_else(|| {
        let words = ["run", "checkpoint", "eval", "dataset", "model", "code", "config", "environment"];
        format!("one of {} and other kinds", words.join(", "))
    })
}

/// Says with `-v` that the log was read, and why.
pub(super) fn said_without_index(found: &Lineage, context: &Context) {
    if let Some(why) = &found.without_index {
        context.ui.verbose(1, format!("note: answered by reading the log, without an index: {why}"));
    }
}

fn unrelated(id: TypedId, to: TypedId, is_down: bool) -> Failure {
    let (later, earlier) = if is_down { (to, id) } else { (id, to) };
    let message = format!("{} did not come from {}", later.short(), earlier.short());
    let failure = Failure::new("no-way", Exit::No, message);
    let direction = if is_down { "" } else { " --down" };
    failure.hint(format!("ledger trace {}{direction} --to {}", id.short(), to.short()))
}

/// Returns the nodes in the order in which they are told, each once.
fn told(found: &Lineage) -> Vec<&lineage::Node> {
    found.walk().into_iter().filter(|step| !step.is_repeat).map(|step| step.node).collect()
}

fn nodes(found: &Lineage) -> Vec<Value> {
    let node = |node: &lineage::Node| {
        json!({
            "id": node.id.to_string(),
            "kind": node.id.kind.word(),
            "label": node.label,
            "statement": node.claim.as_ref().map(|claim| claim.place.index),
            "available": node.is_available,
            "none": node.none,
        })
    };
    told(found).into_iter().map(node).collect()
}

fn edges(found: &Lineage) -> Vec<Value> {
    let of = |node: &lineage::Node| {
        let from = node.id.to_string();
        let edge = |edge: &lineage::Edge| json!({"from": from, "role": edge.role, "to": edge.to.to_string()});
        node.edges.iter().map(edge).collect::<Vec<_>>()
    };
    told(found).into_iter().flat_map(of).collect()
}

/// Tells the lineage as an indented list; upwards with what a plan says to have none of.
fn tree(found: &Lineage, is_upwards: bool, answer: &mut Answer) {
    for step in found.walk() {
        let indent = "  ".repeat(step.depth);
        let role = if step.role.is_empty() { String::new() } else { format!("{}  ", plain(step.role)) };
        let mut line = format!("{indent}{role}{}", step.node.id.short());
        if !step.node.label.is_empty() {
            let _ = write!(line, "  {}", plain(&step.node.label));
        }
        if !step.node.is_available {
            line.push_str("  (record not available)");
        }
        if step.is_repeat {
            line.push_str("  (as above)");
        }
        answer.line(line);
        if is_upwards && !step.is_repeat {
            for (what, reason) in &step.node.none {
                answer.line(format!("{indent}  {what}  none ({})", plain(reason)));
            }
        }
    }
}

/// Writes a label that neither language takes for its own signs.
fn quoted(text: &str, line_break: &str) -> String {
    let safe = |c: char| if matches!(c, '"' | '<' | '>' | '\\' | '#') { '\'' } else { c };
    plain(text).chars().map(safe).collect::<String>().replace('\n', line_break)
}

/// A language of drawings: what opens and closes one, a line break in a label, a node and an edge.
struct Language {
    open: &'static str,
    close: &'static str,
    line_break: &'static str,
    node: fn(usize, &str) -> String,
    edge: fn(usize, usize, &str) -> String,
}

const MERMAID: Language = Language {
    open: "flowchart TD",
    close: "",
    line_break: "<br/>",
    node: |n, label| format!("  n{n}[\"{label}\"]"),
    edge: |from, to, role| format!("  n{from} -->|\"{role}\"| n{to}"),
};

const DOT: Language = Language {
    open: "digraph lineage {\n  node [shape=box];",
    close: "}",
    line_break: "\\n",
    node: |n, label| format!("  n{n} [label=\"{label}\"];"),
    edge: |from, to, role| format!("  n{from} -> n{to} [label=\"{role}\"];"),
};

/// Draws the graph with numbered nodes, since ids are too long to be read in a drawing's source.
fn draw(found: &Lineage, language: &Language, answer: &mut Answer) {
    let nodes = told(found);
    let numbers: BTreeMap<TypedId, usize> = nodes.iter().map(|node| node.id).zip(0..).collect();
    answer.line(language.open);
    for (node, n) in nodes.iter().zip(0..) {
        let text = format!("{}\n{}", node.id.short(), node.label);
        answer.line((language.node)(n, &quoted(text.trim_end(), language.line_break)));
    }
    for (node, n) in nodes.iter().zip(0..) {
        for edge in &node.edges {
            if let Some(to) = numbers.get(&edge.to) {
                answer.line((language.edge)(n, *to, &quoted(&edge.role, " ")));
            }
        }
    }
    if !language.close.is_empty() {
        answer.line(language.close);
    }
}
