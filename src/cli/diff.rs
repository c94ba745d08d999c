//! `ledger diff`: what differs between two checkpoints, datasets, models or directories, or between two runs.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::diff::{self, Change, Diff, Part, Side};
use crate::ledger::Ledger;
use crate::verify::Subject;

use super::error::Failure;
use super::settings::Context;
use super::ui::{Answer, Exit, count, plain};
use super::verify::subject;

/// Show what differs between two checkpoints or runs
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  ledger diff out/step-200 out/step-300\n  ledger diff run:7f3a19 run:b71c02 --only config"
)]
pub(super) struct Args {
    /// A directory or file, or a checkpoint, dataset, model or run by id or name
    #[arg(value_name = "A")]
    a: String,
    /// What it is compared with
    #[arg(value_name = "B")]
    b: String,
    /// Only these: tensors, files, config, code, env, data, base, command
    #[arg(long, value_name = "PART,...", value_delimiter = ',', hide_possible_values = true)]
    only: Vec<Word>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Word {
    Tensors,
    Files,
    Config,
    Code,
    Env,
    Data,
    Base,
    Command,
}

impl Word {
    const fn part(self) -> Part {
        match self {
            Self::Tensors => Part::Tensors,
            Self::Files => Part::Files,
            Self::Config => Part::Config,
            Self::Code => Part::Code,
            Self::Env => Part::Env,
            Self::Data => Part::Data,
            Self::Base => Part::Base,
            Self::Command => Part::Command,
        }
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    context.ask(|ledger| compare(args, context, ledger))
}

fn compare(args: &Args, context: &Context, ledger: &Ledger) -> Result<Answer, Failure> {
    let (a, a_name) = side(&args.a, context, ledger)?;
    let (b, b_name) = side(&args.b, context, ledger)?;
    let parts: Vec<Part> = args.only.iter().map(|word| word.part()).collect();
    let is_files = matches!(a, Side::Files(_));
    if let Some(part) = parts.iter().find(|part| part.is_of_files() != is_files) {
        let what = if is_files { "files have no" } else { "a run has no" };
        let known = if is_files { "tensors,files" } else { "config,code,env,data,base,command" };
        return Err(Failure::usage(format!("{what} {} to compare", part.word()))
            .hint(format!("ledger diff A B --only {known}")));
    }
    let mut found = diff::diff(ledger, &a, &b)?;
    found.only(&parts);
    // Two sets of files of which neither has tensors are compared as files, which is no gap.
    if parts.is_empty() && found.same.iter().all(|(part, _)| *part != Part::Tensors) && both_without(&a, &b) {
        found.open.retain(|(part, _)| *part != Part::Tensors);
    }
    Ok(answer(&found, &a_name, &b_name))
}

fn both_without(a: &Side, b: &Side) -> bool {
    matches!((a, b), (Side::Files(a), Side::Files(b)) if !a.has_tensors() && !b.has_tensors())
}

/// Reads one side, and returns what it is called.
fn side(text: &str, context: &Context, ledger: &Ledger) -> Result<(Side, String), Failure> {
    match subject(text, ledger, context)? {
        Subject::Path(path) => {
            let progress = context.ui.progress("hashed", None);
            let side = Side::at(&path, &|bytes| progress.add(bytes))?;
            Ok((side, shown(&path)))
        }
        Subject::Id(id) => Ok((Side::of(ledger, id)?, id.short())),
    }
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

fn answer(found: &Diff, a: &str, b: &str) -> Answer {
    let mut answer = Answer::new("ledger.diff/1");
    let word = match (found.changes.is_empty(), found.open.is_empty()) {
        (false, _) => "different",
        (true, true) => "equal",
        (true, false) => "unknown",
    };
    answer.exit = match word {
        "different" => Exit::No,
        "equal" => Exit::Ok,
        _ => Exit::Unknown,
    };
    answer.line(format!("{word}  {a}  {b}"));
    let wide = |of: fn(&Change) -> usize| found.changes.iter().map(of).max().unwrap_or(0);
    let (part, how, path) = (
        wide(|change| change.part.word().len()),
        wide(|change| change.how.len()),
        wide(|change| change.path.chars().count()).min(60),
    );
    for change in &found.changes {
        let values = match (&change.before, &change.after) {
            (Some(before), Some(after)) => format!("{before} -> {after}"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => String::new(),
        };
        let line = format!(
            "  {:<part$}  {:<how$}  {:<path$}  {values}",
            change.part.word(),
            change.how,
            change.path
        );
        answer.line(plain(line.trim_end()));
    }
    // A part that differs in one field is not told as the same for its others.
    let is_counted = |part: Part| matches!(part, Part::Tensors | Part::Files | Part::Data | Part::Base);
    let differs = |part: Part| found.changes.iter().any(|change| change.part == part);
    let is_alike = |(part, number): &&(Part, usize)| *number > 0 && (is_counted(*part) || !differs(*part));
    let same: Vec<String> = found.same.iter().filter(is_alike).map(alike).collect();
    if !same.is_empty() {
        answer.line(format!("  same  {}", same.join(", ")));
    }
    for (part, why) in &found.open {
        answer.line(plain(&format!("  not compared  {}: {why}", part.word())));
    }
    answer.set("answer", word);
    answer.set("a", a);
    answer.set("b", b);
    answer.set("differences", found.changes.iter().map(to_json).collect::<Vec<_>>());
    let same = found.same.iter().map(|(part, number)| (part.word().to_owned(), (*number).into()));
    answer.set("same", same.collect::<Map<String, Value>>());
    let open = found.open.iter().map(|(part, why)| json!({"part": part.word(), "why": why}));
    answer.set("not_compared", open.collect::<Vec<_>>());
    answer
}

/// Says how much is equal. Parts of a run are counted where there are several.
fn alike((part, number): &(Part, usize)) -> String {
    match part {
        Part::Tensors => count(*number as u64, "tensor"),
        Part::Files => count(*number as u64, "file"),
        Part::Data => count(*number as u64, "dataset"),
        Part::Base => count(*number as u64, "base model"),
        _ => part.word().to_owned(),
    }
}

fn to_json(change: &Change) -> Value {
    json!({
        "part": change.part.word(),
        "how": change.how,
        "path": change.path,
        "a": change.before,
        "b": change.after,
    })
}
