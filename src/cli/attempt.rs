//! `ledger start` and `ledger end`: an attempt of a run, for launchers that cannot be wrapped.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::acts::{self, Ended, Request, StartRequest};
use crate::id::ObjectId;
use crate::ledger::Ledger;
use crate::model::{Kind, Status, TypedId};

use super::error::Failure;
use super::settings::Context;
use super::ui::Answer;
use super::{freeze, gaps};

/// How inputs are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Check {
    /// Data and base models by name, size and time
    Quick,
    /// Everything
    Full,
}

/// Start an attempt of a run, if its inputs are still what was frozen
#[derive(Debug, ClapArgs)]
#[command(before_help = "  ledger start run:7f3a19\n  ledger start base --check full")]
pub(super) struct StartArgs {
    /// The run: an id, a name or `@`; default is `LEDGER_RUN`
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Start again although the run has completed
    #[arg(long)]
    again: bool,
    /// How much to read again: config, code and lock file always are
    #[arg(long, value_name = "HOW", default_value = "quick")]
    check: Check,
}

/// End the attempt of a run
#[derive(Debug, ClapArgs)]
#[command(before_help = "  ledger end\n  ledger end run:7f3a19 --status failed --reason 'loss diverged'")]
pub(super) struct EndArgs {
    /// The run: an id, a name or `@`; default is `LEDGER_RUN`
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// How it ended
    #[arg(long, value_name = "STATUS", default_value = "completed")]
    status: EndStatus,
    /// Why, in your words
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum EndStatus {
    Completed,
    Failed,
    Cancelled,
    Preempted,
}

/// An attempt that was opened.
#[derive(Debug)]
pub(super) struct Begun {
    /// The run.
    pub(super) run: TypedId,
    /// The attempt.
    pub(super) start: TypedId,
    /// Where the run's files lie.
    pub(super) dir: PathBuf,
}

pub(super) fn start(args: &StartArgs, context: &Context) -> Result<Answer, Failure> {
    if is_higher_rank(context, "start") {
        return Ok(Answer::new("ledger.start/1"));
    }
    gaps::guarded(context, "start", "ledger.start/1", || {
        let mut ledger = context.open()?;
        let run = freeze::run_of(args.run.as_deref(), context, &ledger)?;
        let begun = begin(&mut ledger, run, args.again, args.check == Check::Full, &[], context)?;
        gaps::state(context, &mut ledger, run)?;
        let mut answer = Answer::new("ledger.start/1");
        answer.line(begun.start);
        answer.set("run", run.to_string());
        answer.set("attempt", begun.start.to_string());
        answer.set("dir", begun.dir.display().to_string());
        Ok(answer)
    })
}

pub(super) fn end(args: &EndArgs, context: &Context) -> Result<Answer, Failure> {
    if is_higher_rank(context, "end") {
        return Ok(Answer::new("ledger.end/1"));
    }
    gaps::guarded(context, "end", "ledger.end/1", || {
        let mut ledger = context.open()?;
        let run = freeze::run_of(args.run.as_deref(), context, &ledger)?;
        let status = match args.status {
            EndStatus::Completed => Status::Completed,
            EndStatus::Failed => Status::Failed,
            EndStatus::Cancelled => Status::Cancelled,
            EndStatus::Preempted => Status::Preempted,
        };
        let ended = Ended { status, code: None, signal: None, reason: args.reason.clone() };
        let attempt = context.filled("LEDGER_ATTEMPT").and_then(parse);
        let key = context.key_file()?;
        let mut entropy = context.entropy()?;
        match acts::end(&mut ledger, run, attempt, &ended, &context.signer(&key), &mut entropy)? {
            Some(outcome) => {
                context.settle(outcome);
                context.ui.talk(format!("{} {status}", run.short()));
            }
            None => context.ui.talk(format!("{} had already ended: {status}", run.short())),
        }
        gaps::state(context, &mut ledger, run)?;
        let mut answer = Answer::new("ledger.end/1");
        answer.set("run", run.to_string());
        answer.set("status", status.word());
        Ok(answer)
    })
}

/// Whether this is a rank that records nothing; then it says so.
pub(super) fn is_higher_rank(context: &Context, what: &str) -> bool {
    let is_higher = context.rank().is_some_and(|rank| rank > 0);
    if is_higher {
        context.ui.talk(format!("on a rank above 0, `{what}` does nothing"));
    }
    is_higher
}

/// Parses `start:` and 64 hex digits, as `LEDGER_ATTEMPT` holds it.
pub(super) fn parse(text: &str) -> Option<TypedId> {
    let hex = text.strip_prefix(Kind::Start.prefix())?.strip_prefix(':')?;
    ObjectId::from_hex(hex).ok().map(|id| TypedId::new(Kind::Start, id))
}

/// Opens an attempt after comparing inputs with what was frozen.
pub(super) fn begin(
    ledger: &mut Ledger,
    run: TypedId,
    again: bool,
    full: bool,
    command: &[OsString],
    context: &Context,
) -> Result<Begun, Failure> {
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    let place = Request {
        cwd: context.cwd.clone(),
        argv: command.to_vec(),
        machine: freeze::machine(context),
        ..Request::default()
    };
    let job = job(context);
    let request = StartRequest { run, again, full, job: job.as_deref(), place: &place };
    let progress = context.ui.progress("hashed", None);
    let started =
        acts::start(ledger, &request, &context.signer(&key), &|bytes| progress.add(bytes), &mut entropy)?;
    drop(progress);
    for warning in &started.warnings {
        context.ui.warn(warning);
    }
    for lost in &started.lost {
        context.ui.talk(format!("{} never ended and is presumed lost", lost.short()));
    }
    match started.outcome {
        Some(outcome) => {
            context.settle(outcome);
        }
        None => context.ui.talk("this job has started this attempt before"),
    }
    context.ui.talk(format!("{} starts as {}", run.short(), started.start.short()));
    let files = acts::run_files_of(ledger, run)?;
    acts::restore_run_files(ledger, run, &files)?;
    Ok(Begun { run, start: started.start, dir: files.dir })
}

/// Names the scheduler's job that this is, so that asking twice does not start twice; a requeue is another one.
pub(super) fn job(context: &Context) -> Option<String> {
    let job = context.filled("SLURM_JOB_ID")?;
    let part = |name| context.filled(name).unwrap_or("0");
    Some(format!("{job}\n{}\n{}", part("SLURM_RESTART_COUNT"), part("SLURM_STEP_ID")))
}
