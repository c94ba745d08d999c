//! `ledger run`: freeze, start, run the command, end, in one word in front of it.
//!
//! The command's exit code is returned, whatever the ledger says; on ranks above 0 the command takes our place.

use std::ffi::OsString;

use clap::Args as ClapArgs;

use crate::acts;
use crate::model::TypedId;

use super::attempt::{self, Begun};
use super::child::{self, Done};
use super::error::Failure;
use super::freeze::{self, Flags};
use super::settings::{Context, Mode};
use super::ui::{Answer, Exit};
use super::watch::{Found, Watch};
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
    /// Record each checkpoint that matches, once it has settled
    ///
    /// That is while the command runs, as soon as a checkpoint is whole and has not changed for three seconds; what
    /// is left is recorded when the command has ended.
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
    // Gaps of this run are noted where those of its command are.
    let context = &context.with_var("LEDGER_RUN_DIR", begun.dir.as_os_str());
    let watch = Watch::new(&args.checkpoints, context, begun.start);
    let first = watch.first();
    let (done, ended, found) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch.run(first));
        let done = child::supervise(&args.command, &vars);
        watch.stop();
        // How it ended is stated before anything that may take long: nobody knows how much time is left.
        let ended = done.as_ref().ok().map(|done| end(context, &begun, done));
        (done, ended, watching.join())
    });
    let done = done?;
    if let Some(reason) = &done.ended.reason {
        context.ui.warn(reason);
    }
    // The work is done: from here on nothing of ours may change the command's exit code.
    let found = found.unwrap_or_else(|_| {
        let failure = Failure::new("bug", Exit::Bug, "the watch over the checkpoints broke off");
        gaps::record(context, "checkpoints", &failure);
        Found::default()
    });
    // What was busy a moment ago may not be any more.
    let ended = ended.map_or(Ok(()), |ended| ended.or_else(|_| end(context, &begun, &done)));
    let is_ended = ended.is_ok();
    if let Err(failure) = ended {
        gaps::record(&context.later(), "end", &failure);
    }
    let recorded = finish(args, context, &begun, &done, &watch, found).unwrap_or_else(|failure| {
        if is_ended || !args.checkpoints.is_empty() {
            gaps::record(&context.later(), "checkpoints", &failure);
        }
        Vec::new()
    });
    let mut answer = Answer::new("ledger.run/1");
    answer.set("run", begun.run.to_string());
    answer.set("attempt", begun.start.to_string());
    answer.set("status", done.ended.status.word());
    answer.set("checkpoints", recorded.iter().map(ToString::to_string).collect::<Vec<_>>());
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
    record::check_patterns(args.checkpoints.iter().chain(&args.results))?;
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

/// States how the command ended.
fn end(context: &Context, begun: &Begun, done: &Done) -> Result<(), Failure> {
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
    Ok(())
}

/// Records what is left: checkpoints, results, gaps. Returns the checkpoints that were recorded.
fn finish(
    args: &Args,
    context: &Context,
    begun: &Begun,
    done: &Done,
    watch: &Watch<'_>,
    found: Found,
) -> Result<Vec<TypedId>, Failure> {
    let context = &context.later();
    let mut ledger = context.open()?;
    let recorded = watch.finish(found, &mut ledger)?;
    let results = record::matching(&args.results, context)?;
    if let (Some((path, id)), false) = (recorded.last.last(), results.is_empty())
        && let Err(failure) = record::results_of(&mut ledger, path, *id, &results, begun.start, context)
    {
        gaps::record(context, "results", &failure);
    }
    context.ui.talk(format!("{} {}", begun.run.short(), done.ended.status));
    if let Err(failure) = gaps::state(context, &mut ledger, begun.run) {
        context.ui.verbose(1, format!("note: gaps are not stated yet: {}", failure.message));
    }
    Ok(recorded.all)
}
