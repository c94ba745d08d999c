//! `ledger record eval`: what an evaluation found, or what a document claims, about weights that are named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::acts::{self, EvalRequest, Recorded, Subject};
use crate::id::Digests;
use crate::ledger::{Ledger, Wanted};
use crate::model::{Binding, Checkpoint, Kind, TypedId, content};

use super::attempt::parse;
use super::error::Failure;
use super::record::tell;
use super::settings::{Context, quoted};
use super::ui::Exit;

/// Record the results of an evaluation that ran elsewhere
///
/// Reads results of lm-evaluation-harness, lighteval, Inspect and the Hugging Face Trainer, and any other JSON or
/// CSV with --metric. A directory stands for the results in it and the samples beside them. A model card or a file
/// of `.eval_results` holds claims: they are imported as such and are no evaluation.
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger record eval results.json --subject out/step-300\n  ledger record eval lm-eval-out/ --subject ck:7f3a19\n  ledger record eval scores.csv --metric acc=test.acc --subject out/step-300"
)]
pub(super) struct Args {
    /// Result files, or a directory of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What was evaluated: a directory of weights or a checkpoint's id
    #[arg(long, value_name = "DIR|CK")]
    subject: Option<String>,
    /// Name of the benchmark, or a file that defines it
    #[arg(long, value_name = "NAME|FILE")]
    benchmark: Option<String>,
    /// Take a metric from a place in the results, as `accuracy=results.acc`
    #[arg(long, value_name = "NAME=PATH")]
    metric: Vec<String>,
}

pub(super) fn run(args: &Args, ledger: &mut Ledger, context: &Context) -> Result<Recorded, Failure> {
    let files: Vec<PathBuf> = args.files.iter().map(|file| context.path(file)).collect();
    let Some(text) = &args.subject else {
        let first = args.files.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
        let mut failure = Failure::new(
            "unbound-eval",
            Exit::Unknown,
            format!("`{}` does not say which weights it measured", first.display()),
        );
        // A name is no proof: the same path may hold other bytes by now.
        let said = acts::said_subjects(&files);
        if !said.is_empty() {
            failure =
                failure.fact(format!("it names {}, which may hold other weights by now", said.join(", ")));
        }
        return Err(failure.hint(format!("ledger record eval {} --subject DIR", quoted(first))));
    };
    let path = context.path(Path::new(text));
    let (subject, nodes, of, sums, path) = if path.exists() {
        let seen = observe_subject(&path, context)?;
        let of = acts::checkpoint_of(ledger, seen.subset.id)?;
        let sums = sums(&seen);
        (TypedId::new(Kind::Tree, seen.subset.id), seen.subset.nodes, of, sums, Some(path))
    } else {
        let id = ledger.resolve(text, Wanted::Kind(Kind::Checkpoint), None)?;
        let record: Checkpoint = ledger.record(id.id)?;
        let path = record.path.map(|path| ledger.project().join(path));
        (record.weights, Vec::new(), Some(id), BTreeSet::new(), path)
    };
    let request = EvalRequest {
        subject,
        nodes,
        of,
        benchmark: args.benchmark.clone(),
        results: &files,
        metrics: &metrics(&args.metric)?,
        start: context.filled("LEDGER_ATTEMPT").and_then(parse),
        binding: Binding::Asserted,
        sums,
        path: path.as_deref(),
        by_training: false,
        takes_claims: true,
    };
    let key = context.key_file()?;
    Ok(acts::record_eval(ledger, request, &context.signer(&key))?)
}

/// Reads a directory of weights, with progress.
pub(super) fn observe_subject(path: &Path, context: &Context) -> Result<Subject, Failure> {
    let progress = context.ui.progress("hashed", None);
    Ok(acts::observe_subject(path, Digests::All, &|bytes| progress.add(bytes))?)
}

/// Returns the SHA-256 digests of a subject's files, which results may name.
pub(super) fn sums(subject: &Subject) -> BTreeSet<String> {
    subject.tree.files.iter().filter_map(|file| file.sha256).map(|sum| sum.to_hex()).collect()
}

/// Parses `NAME=PATH` pairs.
pub(super) fn metrics(flags: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |flag: &String| match flag.split_once('=') {
        Some((name, path)) if !name.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err(Failure::usage(format!("`{flag}` is not NAME=PATH")).hint("--metric accuracy=results.acc")),
    };
    flags.iter().map(pair).collect()
}

/// Records results about a checkpoint that an attempt has just written.
pub(super) fn results_of(
    ledger: &mut Ledger,
    path: &Path,
    checkpoint: TypedId,
    results: &[PathBuf],
    start: TypedId,
    context: &Context,
) -> Result<(), Failure> {
    let record: Checkpoint = ledger.record(checkpoint.id)?;
    let seen = observe_subject(path, context)?;
    let request = EvalRequest {
        subject: record.weights,
        nodes: Vec::<content::Object>::new(),
        of: Some(checkpoint),
        benchmark: None,
        results,
        metrics: &[],
        start: Some(start),
        binding: Binding::Asserted,
        sums: sums(&seen),
        path: Some(path),
        by_training: true,
        takes_claims: false,
    };
    let key = context.key_file()?;
    tell(&acts::record_eval(ledger, request, &context.signer(&key))?, context);
    Ok(())
}
