//! `ledger run`: freeze, start, run the command, end, in one word in front of it.
//!
//! The command's exit code is returned, whatever the ledger says; on ranks above 0 the command takes our place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::acts;
use crate::ledger::Ledger;
use crate::model::TypedId;

use super::attempt::{self, Begun};
use super::child::{self, Done};
use super::error::Failure;
use super::freeze::{self, Flags};
use super::settings::{Context, Mode};
use super::ui::Answer;
use super::{gaps, record};

/// Run a command as an attempt of a run
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger run -- python train.py\n  ledger run base -- python train.py",
    override_usage = "ledger run [RUN] [FLAGS] -- CMD..."
)]
pub(super) struct Args {
    /// A frozen run: an id, a name or `@`; without one the run is frozen now
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    flags: Flags,
    /// Start again although the run has completed
    #[arg(long, hide_short_help = true)]
    again: bool,
    /// Record the checkpoints that match when the command has ended
    #[arg(long, value_name = "GLOB")]
    checkpoints: Vec<String>,
    /// Record the results that match, of the last of these checkpoints
    #[arg(long, value_name = "GLOB", requires = "checkpoints")]
    results: Vec<String>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mode = context.mode()?;
    if mode == Mode::Off || context.rank().is_some_and(|rank| rank > 0) || is_inside(context)? {
        return Err(child::become_command(&args.command));
    }
    let begun = match begin(args, context) {
        Ok(begun) => begun,
        Err(failure) if mode == Mode::Warn => {
            gaps::record(context, "run", &failure);
            return Err(child::become_command(&args.command));
        }
        Err(failure) => return Err(failure),
    };
    let vars = [
        ("LEDGER_RUN", OsString::from(begun.run.to_string())),
        ("LEDGER_RUN_DIR", begun.dir.clone().into_os_string()),
        ("LEDGER_ATTEMPT", OsString::from(begun.start.to_string())),
    ];
    let done = child::supervise(&args.command, &vars)?;
    if let Some(reason) = &done.ended.reason {
        context.ui.warn(reason);
    }
    // The work is done: from here on nothing of ours may change the command's exit code.
    if let Err(failure) = finish(args, context, &begun, &done) {
        gaps::record(context, "end", &failure);
    }
    let mut answer = Answer::new("ledger.run/1");
    answer.set("run", begun.run.to_string());
    answer.set("attempt", begun.start.to_string());
    answer.set("status", done.ended.status.word());
    answer.child = Some(done.code);
    Ok(answer)
}

/// Whether this process runs inside an attempt that is open: then it has been recorded already.
fn is_inside(context: &Context) -> Result<bool, Failure> {
    let Some(attempt) = context.filled("LEDGER_ATTEMPT") else { return Ok(false) };
    let ledger = context.open()?;
    let Some(start) = attempt::parse(attempt) else { return Ok(false) };
    let is_open = ledger.state().attempt(start.id).is_some_and(|row| row.ended.is_none() && !row.lost);
    if is_open {
        context.ui.talk(format!("inside {}: nothing more is recorded for this command", start.short()));
    }
    Ok(is_open)
}

fn begin(args: &Args, context: &Context) -> Result<Begun, Failure> {
    let mut ledger = context.open()?;
    if args.run.is_some() || context.filled("LEDGER_RUN").is_some() {
        let run = freeze::run_of(args.run.as_deref(), context, &ledger)?;
        return attempt::begin(&mut ledger, run, args.again, false, &args.command, context)
            .map_err(|failure| again(failure, run));
    }
    let request = freeze::request(&args.flags, &args.command, context, &ledger)?;
    let inputs = freeze::observe(&request, context)?;
    let frozen = freeze::freeze(&mut ledger, &inputs, &request, &args.flags, context, true)?;
    if let Some(outcome) = frozen.outcome {
        context.settle(outcome);
    }
    match frozen.start {
        Some(start) => {
            context.ui.talk(format!("{} starts as {}", frozen.run.short(), start.short()));
            Ok(Begun { run: frozen.run, start, dir: frozen.files.dir })
        }
        // An equal run was there under this name: this is its next attempt.
        None => attempt::begin(&mut ledger, frozen.run, args.again, false, &args.command, context)
            .map_err(|failure| again(failure, frozen.run)),
    }
}

/// Turns the hint of `start` into one for this command.
fn again(failure: Failure, run: TypedId) -> Failure {
    match failure.slug {
        "completed" => failure.hint(format!("ledger run {} --again -- CMD...", run.short())),
        _ => failure,
    }
}

fn finish(args: &Args, context: &Context, begun: &Begun, done: &Done) -> Result<(), Failure> {
    // The clock has moved on, and so has the log, while the command ran.
    let context = &context.later();
    let mut ledger = context.open()?;
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    let signer = context.signer(&key);
    let ended = acts::end(&mut ledger, begun.run, Some(begun.start), &done.ended, &signer, &mut entropy)?;
    if let Some(outcome) = ended {
        context.settle(outcome);
    }
    let checkpoints = checkpoints(args, context, begun, &mut ledger)?;
    let results = record::matching(&args.results, context)?;
    if let (Some((path, id)), false) = (checkpoints.last(), results.is_empty()) {
        record::results_of(&mut ledger, path, *id, &results, begun.start, context)?;
    }
    context.ui.talk(format!("{} {}", begun.run.short(), done.ended.status));
    gaps::state(context, &mut ledger, begun.run)
}

fn checkpoints(
    args: &Args,
    context: &Context,
    begun: &Begun,
    ledger: &mut Ledger,
) -> Result<Vec<(PathBuf, TypedId)>, Failure> {
    let mut recorded = Vec::new();
    for path in record::matching(&args.checkpoints, context)? {
        match record::checkpoint_of_attempt(ledger, Path::new(&path), begun.start, context) {
            Ok(id) => recorded.push((path, id)),
            // One torn checkpoint is no reason to lose the others.
            Err(failure) => gaps::record(context, &format!("checkpoint {}", path.display()), &failure),
        }
    }
    Ok(recorded)
}
