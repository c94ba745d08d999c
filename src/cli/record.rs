//! `ledger record`: state what came out of a run, or what goes into the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use crate::acts::{self, CheckpointRequest, NamedContent, Recorded, Subject, Whose};
use crate::ledger::{Ledger, Wanted};
use crate::model::{Kind, TypedId};

use super::attempt::{is_higher_rank, parse};
use super::error::Failure;
use super::freeze::{parse_name, run_of};
use super::gaps;
use super::reading;
use super::record_eval;
use super::settings::{Context, quoted};
use super::settle;
use super::ui::Answer;

pub(super) use super::record_eval::results_of;

/// Record what came out of a run, or what goes into the next
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger record checkpoint out/step-300\n  ledger record dataset data/ --name train"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Checkpoint(CheckpointArgs),
    Eval(record_eval::Args),
    /// Record a dataset: a file or directory under a name
    #[command(
        before_help = "  ledger record dataset data/ --name train\n  ledger record dataset clean.csv --name train --from data:raw"
    )]
    Dataset(ContentArgs),
    /// Record a model that runs start from: a file or directory under a name
    #[command(
        before_help = "  ledger record model llama/ --name llama\n  ledger record model llama/ --name llama --licence 'Llama 3'"
    )]
    Model(ContentArgs),
    Note(NoteArgs),
}

/// Record a checkpoint: weights on disk, by their digests
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger record checkpoint out/step-300\n  ledger record checkpoint out/final --run base --settle 600"
)]
struct CheckpointArgs {
    /// Directory of the checkpoint, or a single file
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// The run that wrote it, or `none`; default is `LEDGER_ATTEMPT`, `LEDGER_RUN`, or your run that was under way then
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Training step; default is read from names and state files
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// The checkpoint that training went on from
    #[arg(long, value_name = "CK")]
    parent: Option<String>,
    /// A ledger-wide name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Copy the bytes into the ledger
    #[arg(long)]
    store: bool,
    /// Wait for at most this long until it is whole and nothing in it changes any more
    #[arg(long, value_name = "SECS")]
    settle: Option<u64>,
    /// Record it although something is missing, and say so in the record
    #[arg(long, conflicts_with = "settle")]
    incomplete: bool,
    #[command(flatten)]
    reading: reading::Reads,
}

/// Record a file or directory under a name
#[derive(Debug, ClapArgs)]
struct ContentArgs {
    /// File or directory
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// A ledger-wide name; the same name again is its next version
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Where it came from
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Its licence
    #[arg(long, value_name = "TEXT")]
    licence: Option<String>,
    /// What it is
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A dataset that it was made from
    #[arg(long, value_name = "DATA")]
    from: Vec<String>,
    /// Copy the bytes into the ledger
    #[arg(long)]
    store: bool,
    #[command(flatten)]
    reading: reading::Reads,
}

/// Record a remark about anything in the ledger
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger record note run:7f3a19 -m 'node lost its disk'\n  ledger record note ck:7f3a19 -m 'used in table 2'"
)]
struct NoteArgs {
    /// What it is about
    #[arg(value_name = "ID")]
    subject: String,
    /// The remark
    #[arg(short = 'm', long = "message", value_name = "TEXT")]
    message: String,
}

const SCHEMA: &str = "ledger.record/1";

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    if is_higher_rank(context, "record") {
        return Ok(Answer::new(SCHEMA));
    }
    gaps::guarded(context, "record", SCHEMA, || {
        let mut ledger = context.open()?;
        let recorded = match &args.what {
            What::Checkpoint(args) => checkpoint(args, &mut ledger, context)?,
            What::Eval(args) => record_eval::run(args, &mut ledger, context)?,
            What::Dataset(args) => named(Kind::Dataset, args, &mut ledger, context)?,
            What::Model(args) => named(Kind::Model, args, &mut ledger, context)?,
            What::Note(args) => note(args, &mut ledger, context)?,
        };
        let id = tell(&recorded, context);
        let plan =
            recorded.start.and_then(|start| ledger.state().attempt(start.id)).map(|attempt| attempt.plan);
        if let Some(plan) = plan {
            let run = TypedId::new(Kind::Plan, plan);
            context.ui.talk(format!("of {}", run.short()));
            gaps::state(context, &mut ledger, run)?;
        }
        let mut answer = Answer::new(SCHEMA);
        answer.line(id);
        answer.set("id", id.to_string());
        if id.kind == Kind::Checkpoint {
            answer.set("checkpoint", super::checkpoint::document(&ledger, id));
        }
        answer.set("run", plan.map(|plan| TypedId::new(Kind::Plan, plan).to_string()));
        Ok(answer)
    })
}

/// Tells of something recorded, and returns its id.
pub(super) fn tell(recorded: &Recorded, context: &Context) -> TypedId {
    context.ui.talk(format!("{}  {}", recorded.id.short(), recorded.summary));
    for warning in &recorded.warnings {
        context.ui.warn(warning);
    }
    match recorded.outcome.clone() {
        Some(outcome) => {
            context.settle(outcome);
        }
        None => context.ui.talk("this is recorded already"),
    }
    recorded.id
}

fn checkpoint(args: &CheckpointArgs, ledger: &mut Ledger, context: &Context) -> Result<Recorded, Failure> {
    let whose = match args.run.as_deref() {
        Some("none") => Whose::Nobody,
        Some(run) => Whose::Run(run_of(Some(run), context, ledger)?),
        None => match context.filled("LEDGER_ATTEMPT").and_then(parse) {
            Some(start) => Whose::Attempt(start),
            None if context.filled("LEDGER_RUN").is_some() => Whose::Run(run_of(None, context, ledger)?),
            None => Whose::UnderWay,
        },
    };
    let parent = match &args.parent {
        Some(text) => Some(ledger.resolve(text, Wanted::Kind(Kind::Checkpoint), None)?),
        None => None,
    };
    let path = context.path(&args.path);
    let name = args.name.as_deref().map(parse_name).transpose()?;
    let request = CheckpointRequest {
        path: &path,
        whose,
        step: args.step,
        parent,
        store: args.store,
        name: name.clone(),
        reading: context.reading(args.reading),
    };
    let limit = Duration::from_secs(args.settle.unwrap_or_default());
    let progress = context.ui.progress("hashed", None);
    let add = |bytes| progress.add(bytes);
    let subject = match args.settle {
        Some(_) => settle::wait(&path, limit, &context.ui, &|| {
            acts::observe_checkpoint(&path, &request.reading, &add)
        })?,
        None if args.incomplete => acts::observe_as_it_is(&path, &request.reading, &add)?,
        None => acts::observe_checkpoint(&path, &request.reading, &add)
            .map_err(|error| wait_for_it(error, &args.path))?,
    };
    drop(progress);
    // While we waited the clock moved on, and so may the log have.
    let later = &context.later();
    if args.settle.is_some() {
        *ledger = later.open()?;
    }
    let recorded = record_observed(ledger, &request, &subject, later)?;
    if let Some(name) = &name {
        is_granted(ledger, Kind::Checkpoint, name, recorded.id)?;
    }
    Ok(recorded)
}

/// Refuses to call a name given that somebody else holds.
fn is_granted(ledger: &Ledger, kind: Kind, name: &crate::model::Name, id: TypedId) -> Result<(), Failure> {
    match ledger.state().name(kind, name) {
        Some(row) if row.object != id.id => {
            let holder = ledger.who(row.holder.first_key());
            Err(acts::Error::NameHeld { name: name.clone(), holder }.into())
        }
        _ => Ok(()),
    }
}

/// Names the flag that waits, where what was read is not whole or was being written.
fn wait_for_it(error: acts::Error, path: &Path) -> Failure {
    let may_pass = settle::may_pass(&error) && path.exists();
    let is_incomplete = matches!(error, acts::Error::Incomplete { .. });
    let mut failure = Failure::from(error);
    if is_incomplete {
        failure = failure.fact("`--incomplete` records it as it is");
    }
    if may_pass {
        failure.hint(format!("ledger record checkpoint {} --settle 60", quoted(path)))
    } else {
        failure
    }
}

/// Records a checkpoint that was read before.
pub(super) fn record_observed(
    ledger: &mut Ledger,
    request: &CheckpointRequest<'_>,
    subject: &Subject,
    context: &Context,
) -> Result<Recorded, Failure> {
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    Ok(acts::record_observed(ledger, request, subject, &context.signer(&key), &mut entropy)?)
}

fn named(
    kind: Kind,
    args: &ContentArgs,
    ledger: &mut Ledger,
    context: &Context,
) -> Result<Recorded, Failure> {
    let texts = [("source", &args.source), ("licence", &args.licence), ("description", &args.description)];
    let about: BTreeMap<String, String> =
        texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?))).collect();
    let mut from = Vec::new();
    for text in &args.from {
        from.push(ledger.resolve(text, Wanted::Kind(Kind::Dataset), None)?);
    }
    let path = context.path(&args.path);
    let request = NamedContent {
        kind,
        path: &path,
        name: Some(parse_name(&args.name)?),
        about,
        from,
        store: args.store,
        reading: context.reading(args.reading),
    };
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    let progress = context.ui.progress("hashed", None);
    let add = |bytes| progress.add(bytes);
    Ok(acts::record_content(ledger, &request, &context.signer(&key), &add, &mut entropy)?)
}

fn note(args: &NoteArgs, ledger: &mut Ledger, context: &Context) -> Result<Recorded, Failure> {
    let subject = ledger.resolve(&args.subject, Wanted::Any, context.filled("LEDGER_RUN"))?;
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    Ok(acts::note(ledger, subject, &args.message, &context.signer(&key), &mut entropy)?)
}

/// Refuses what is not a pattern, before anything is done that would be lost by it.
pub(super) fn check_patterns<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    for pattern in patterns {
        glob::Pattern::new(pattern).map_err(|error| not_a_pattern(pattern, error))?;
    }
    Ok(())
}

fn not_a_pattern(pattern: &str, error: glob::PatternError) -> Failure {
    Failure::usage(format!("`{pattern}` is not a pattern"))
        .because(error)
        .hint("quote it, so that the shell leaves it as it is: 'out/step-*'")
}

/// Returns the paths that match any of some patterns, sorted so that `step-2` comes before `step-10`.
pub(super) fn matching(patterns: &[String], context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let whole = context.path(Path::new(pattern)).to_string_lossy().into_owned();
        let paths = glob::glob(&whole).map_err(|error| not_a_pattern(pattern, error))?;
        for path in paths {
            let path = path.map_err(|error| {
                let at = error.path().to_owned();
                Failure::io("list", &at, error.into())
            })?;
            found.insert((natural(&path.to_string_lossy()), path));
        }
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Splits a text into numbers and the rest, so that numbers sort by value.
fn natural(text: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut in_number = false;
    for c in text.chars() {
        if in_number && !c.is_ascii_digit() {
            parts.push((String::new(), 0));
        }
        in_number = c.is_ascii_digit();
        if let Some((word, number)) = parts.last_mut() {
            match c.to_digit(10) {
                Some(digit) if in_number => *number = number.saturating_mul(10).saturating_add(digit.into()),
                _ => word.push(c),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn steps_sort_by_number() {
        let mut steps = ["out/step-100", "out/step-20", "out/step-3"];
        steps.sort_by_key(|step| natural(step));
        assert_eq!(steps, ["out/step-3", "out/step-20", "out/step-100"]);
    }
}
