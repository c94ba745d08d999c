//! `ledger adopt`: a restored, moved or copied ledger becomes the one that is written to.
//!
//! It is refused where that would surely make a fork, and where the copy is not whole. That no other directory
//! is written to cannot be seen from here; it is said, since whoever adopts must know it.

use std::path::Path;

use crate::fsck;
use crate::id::StatementId;
use crate::ledger::{self, Ledger};

use super::error::Failure;
use super::settings::{Context, disk};
use super::ui::{Answer, Exit, count};

/// Make a copy of a ledger the ledger, so that it can be written to
///
/// For a backup that was restored and a directory that was moved to another disk. Do it only when the
/// directory that this was copied from is gone for good or will never be written to again: two that are
/// written to are a fork, which everybody who sees both reports for ever. All files are checked first.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger adopt\n  ledger adopt --incomplete   where objects are lost for good")]
pub(super) struct Args {
    /// Adopt although objects are missing or damaged; `fsck` goes on to name them
    #[arg(long)]
    incomplete: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let root = context.locate()?;
    let mut ledger = Ledger::open(&root, context.home()).map_err(|error| not_the_newest(error, &root))?;
    let mut answer = Answer::new("ledger.adopt/1");
    answer.set("ledger", ledger.id().to_hex());
    answer.set("directory", root.display().to_string());
    if !ledger.is_copy() {
        answer.line(format!("this is the ledger already: {}", root.display()));
        answer.set("adopted", false);
        answer.set("size", ledger.head().head().size);
        return Ok(answer);
    }
    respects_trust(&ledger, context)?;
    ledger.finish_copied_commits(context.lock_wait)?;
    let missing = check(&root, &ledger, args, context)?;
    let torn = fsck::queued_without_objects(&ledger)?;
    let adopted = ledger.adopt(context.random()?, &torn, context.user(), context.lock_wait)?;

    let size = ledger.head().head().size;
    answer.line(format!("adopted  {}", root.display()));
    answer.line(format!("head     {}", count(size, "statement")));
    for path in &adopted.aside {
        answer.line(format!("aside    {}, copied too late to count; now under log/refused", path.display()));
    }
    if !adopted.taken_over.is_empty() {
        let queued = count(adopted.taken_over.len() as u64, "statement");
        answer.line(format!("queued   {queued} of other users, now carried by you: ledger sequence"));
    }
    if missing > 0 {
        answer.line(format!("missing  {}: ledger fsck", count(missing, "thing")));
    }
    answer.line("Write nowhere else from now on: a second directory that is written to makes a fork.");
    answer.set("adopted", true);
    answer.set("size", size);
    answer.set("missing", missing);
    answer.set("aside", adopted.aside.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    answer.set("taken_over", adopted.taken_over.iter().map(StatementId::to_hex).collect::<Vec<_>>());
    Ok(answer)
}

/// Words for a copy that is surely not the newest one, whose adoption would make a fork.
fn not_the_newest(error: ledger::Error, root: &Path) -> Failure {
    let refused = |message: String| {
        Failure::new("refused", Exit::Refused, message).fact(format!("copy  {}", root.display()))
    };
    match error {
        ledger::Error::Behind { here, known } => refused(format!(
            "this copy ends at statement {here}, and you have seen {known}: written to, it would be a fork"
        ))
        .fact("the statements between were signed, and others may have seen them too")
        .hint("restore a newer backup, or go on as a ledger of its own: ledger init --fork"),
        ledger::Error::Fork { size, .. } => refused(format!(
            "this copy and the log that you have seen differ below statement {size}: one of them is a fork"
        ))
        .hint("ask an owner which log is the right one, or go on as a ledger of its own: ledger init --fork"),
        ledger::Error::CutOff { size, whole, source } => refused(format!(
            "this copy is cut off: its head covers {size} statements, and only the first {whole} are here"
        ))
        .hint("copy the directory again with: ledger backup DIR, or restore a backup")
        .because(*source),
        error => error.into(),
    }
}

/// A trust file may know of a newer head than this user has seen.
fn respects_trust(ledger: &Ledger, context: &Context) -> Result<(), Failure> {
    let here = ledger.head().head().size;
    let trust = context.trust(None)?;
    let known = trust.ledgers.iter().filter(|trusted| trusted.id == ledger.id());
    match known.filter_map(|trusted| trusted.min_head).max() {
        Some(known) if known > here => Err(Failure::new(
            "refused",
            Exit::Refused,
            format!("this copy ends at statement {here}, and {} asks for {known} at least", trust.source),
        )
        .hint("restore a newer backup, or write where the newer log is")),
        _ => Ok(()),
    }
}

/// Refuses a copy that lacks something, and returns how much is lacking where that is wanted all the same.
fn check(root: &Path, ledger: &Ledger, args: &Args, context: &Context) -> Result<u64, Failure> {
    const SHOWN: usize = 8;
    let progress = context.ui.progress("hashed", None);
    let report = fsck::check(disk(), root, Some(ledger.state()), &|bytes| progress.add(bytes))?;
    drop(progress);
    let damage: Vec<_> = report.damage().collect();
    let is_about_objects = |slug: &str| matches!(slug, "object" | "missing" | "record");
    let is_log_whole = damage.iter().all(|finding| is_about_objects(finding.slug));
    if damage.is_empty() || (args.incomplete && is_log_whole) {
        return Ok(damage.len() as u64);
    }
    let message = format!("this copy is whole up to statement {} of {} only", report.whole, report.size);
    let mut failure = Failure::new("refused", Exit::Refused, message);
    for finding in damage.iter().take(SHOWN) {
        let at = finding.at.as_ref().map_or(String::new(), |at| format!("{at}: "));
        failure = failure.fact(format!("{at}{}", finding.message));
    }
    if damage.len() > SHOWN {
        failure = failure.fact(format!("and {} more", damage.len() - SHOWN));
    }
    Err(if is_log_whole {
        failure.hint("copy the directory again with `ledger backup DIR`; if that is lost for good: ledger adopt --incomplete")
    } else {
        failure.hint("copy the directory again with: ledger backup DIR, or restore a backup")
    })
}
