//! `ledger eval`: run a harness and bind its results to the weights that lay there before and after.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::acts::{self, EvalRequest};
use crate::ledger::{Ledger, Wanted};
use crate::model::{Binding, Checkpoint, Kind, TypedId};

use super::attempt::parse;
use super::child;
use super::error::Failure;
use super::gaps;
use super::record::{matching, tell};
use super::record_eval::{metrics, observe_subject, sums};
use super::settings::{Context, Mode};
use super::ui::{Answer, Exit};

/// Run an evaluation and record what it measured, on which weights
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger eval --subject out/step-300 --results 'results*.json' -- python evaluate.py out/step-300\n  ledger eval --subject ck:7f3a19 --results r.json --benchmark digits -- ./evaluate.sh",
    override_usage = "ledger eval --subject DIR [FLAGS] -- CMD..."
)]
pub(super) struct Args {
    /// What is evaluated: a directory of weights, or a checkpoint's id
    #[arg(long, value_name = "DIR|CK")]
    subject: String,
    /// Name of the benchmark, or a file that defines it; default is what the results say
    #[arg(long, value_name = "NAME|FILE")]
    benchmark: Option<String>,
    /// Result files that the command writes, or a directory of them
    #[arg(long, value_name = "GLOB", required = true)]
    results: Vec<String>,
    /// Take a metric from a place in the results, as `accuracy=results.acc`
    #[arg(long, value_name = "NAME=PATH")]
    metric: Vec<String>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mode = context.mode()?;
    if mode == Mode::Off || context.rank().is_some_and(|rank| rank > 0) {
        return Err(child::become_command(&args.command));
    }
    let metrics = metrics(&args.metric)?;
    let prepared = prepare(args, context);
    let (path, before) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) if mode == Mode::Warn => {
            gaps::record(context, "eval", &failure);
            return Err(child::become_command(&args.command));
        }
        Err(failure) => return Err(failure),
    };
    let earlier = stamps(&written(args, context)?);
    let done = child::supervise(&args.command, &[])?;
    if let Some(reason) = &done.ended.reason {
        context.ui.warn(reason);
    }
    let mut answer = Answer::new("ledger.eval/1");
    answer.child = Some(done.code);
    if done.code != 0 {
        context.ui.warn(format!("the command ended with {}, so no evaluation is recorded", done.code));
        return Ok(answer);
    }
    match finish(args, &path, &before, &earlier, &metrics, context) {
        Ok(id) => {
            answer.line(id);
            answer.set("id", id.to_string());
            Ok(answer)
        }
        Err(failure) if mode == Mode::Warn => {
            gaps::record(context, "eval", &failure);
            Ok(answer)
        }
        Err(failure) => Err(failure),
    }
}

fn prepare(args: &Args, context: &Context) -> Result<(PathBuf, acts::Subject), Failure> {
    let ledger = context.open()?;
    context.key_file()?;
    let path = subject_path(&args.subject, &ledger, context)?;
    let before = observe_subject(&path, context)?;
    Ok((path, before))
}

/// Returns where the subject lies: the path given, or where the checkpoint was when it was recorded.
fn subject_path(text: &str, ledger: &Ledger, context: &Context) -> Result<PathBuf, Failure> {
    let path = context.path(Path::new(text));
    if path.exists() {
        return Ok(path);
    }
    let id = ledger.resolve(text, Wanted::Kind(Kind::Checkpoint), None)?;
    let record: Checkpoint = ledger.record(id.id)?;
    let recorded = record.path.map(|path| ledger.project().join(path)).filter(|path| path.exists());
    recorded.ok_or_else(|| {
        Failure::new("not-recorded", Exit::Unknown, format!("{} is not where it was recorded", id.short()))
            .hint("ledger eval --subject DIR ...")
    })
}

/// Returns the files that the patterns name; a directory stands for the results in it.
fn written(args: &Args, context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in matching(&args.results, context)? {
        // Before the command has run, a directory may have none.
        let is_dir = path.is_dir();
        match acts::result_files(&[path]) {
            Ok(found) => files.extend(found),
            Err(_) if is_dir => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(files)
}

/// Says of each file when it last changed, so that only what the command wrote is taken for its results.
fn stamps(paths: &[PathBuf]) -> BTreeMap<PathBuf, (i64, i64, u64)> {
    let stamp = |path: &PathBuf| {
        let meta = path.metadata().ok()?;
        Some((path.clone(), (meta.mtime(), meta.mtime_nsec(), meta.size())))
    };
    paths.iter().filter_map(stamp).collect()
}

fn finish(
    args: &Args,
    path: &Path,
    before: &acts::Subject,
    earlier: &BTreeMap<PathBuf, (i64, i64, u64)>,
    metrics: &[(String, String)],
    context: &Context,
) -> Result<TypedId, Failure> {
    let context = &context.later();
    let after = observe_subject(path, context)?;
    if before.subset.id != after.subset.id {
        let (before, after) = (before.subset.id, after.subset.id);
        return Err(acts::Error::SubjectChanged { before, after }.into());
    }
    let now = stamps(&written(args, context)?);
    let written: Vec<PathBuf> = now
        .into_iter()
        .filter(|(path, stamp)| earlier.get(path) != Some(stamp))
        .map(|(path, _)| path)
        .collect();
    if written.is_empty() {
        let patterns = args.results.join(" ");
        return Err(Failure::new(
            "no-results",
            Exit::Unknown,
            format!("the command wrote no file that matches {patterns}"),
        )
        .hint("name the files that it writes with --results GLOB"));
    }
    let mut ledger = context.open()?;
    let request = EvalRequest {
        subject: TypedId::new(Kind::Tree, after.subset.id),
        nodes: after.subset.nodes.clone(),
        of: acts::checkpoint_of(&ledger, after.subset.id)?,
        benchmark: args.benchmark.clone(),
        results: &written,
        metrics,
        start: context.filled("LEDGER_ATTEMPT").and_then(parse),
        binding: Binding::Observed,
        sums: sums(&after),
        path: Some(path),
        by_training: false,
        takes_claims: false,
    };
    if request.of.is_none() {
        context
            .ui
            .warn("no checkpoint with these weights is recorded yet; the evaluation names them by content");
    }
    let key = context.key_file()?;
    let recorded = acts::record_eval(&mut ledger, request, &context.signer(&key))?;
    Ok(tell(&recorded, context))
}
