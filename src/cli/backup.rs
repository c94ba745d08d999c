//! `ledger backup`: a copy of the ledger that is whole at every moment, and grows with each call.

use std::path::PathBuf;

use crate::backup;
use crate::durable::fresh;
use crate::ledger;

use super::error::Failure;
use super::settings::{Context, quoted};
use super::ui::{Answer, Exit, count, size};
use super::verify::{list, told};

/// Copy the ledger to DIR, or add to the copy there
///
/// Safe while others write: the copy ends at a signed head and has all that is below it. What it has it
/// keeps; only new objects are read, and each is hashed. Prints the copy's path; it is not written to by
/// other commands before `ledger adopt`. What it lacks is named, with exit code 5.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger backup /mnt/backup/digits\n  \
                         ledger -q backup /mnt/backup/digits   in a timer")]
pub(super) struct Args {
    /// An existing directory for this ledger's backup alone, better on another disk
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ui = &context.ui;
    let dir = context.path(&args.dir);
    if !dir.is_dir() {
        // A disk that is not mounted must not be taken for an empty directory.
        let message = format!("`{}` is no directory", args.dir.display());
        return Err(Failure::new("bad-data", Exit::Usage, message)
            .hint(format!("mount its disk, or the first time: mkdir -p {}", quoted(&args.dir))));
    }
    let mut ledger = context.open()?;
    for left in fresh::left_behind(&dir, ledger::DIR)? {
        ui.warn(format!(
            "`{}` is left over from a backup that was cut short, or one is under way",
            left.display()
        ));
    }
    let progress = ui.progress("copied", None);
    let add = |bytes| progress.add(bytes);
    let report = backup::backup(&mut ledger, &dir, context.user(), context.lock_wait, &add)?;
    drop(progress);

    let mut answer = Answer::new("ledger.backup/1");
    answer.line(report.root.display());
    answer.findings = report.findings.iter().map(told).collect();
    list(&mut answer, ui);
    ui.talk(format!("head     {}, {} before", count(report.size, "statement"), report.before));
    let (copied, bytes) = (count(report.copied, "object"), size(report.bytes));
    ui.talk(format!("copied   {copied} ({bytes}), {} were there", report.kept));
    if report.queued > 0 {
        ui.talk(format!("queued   {} go with it", count(report.queued, "statement")));
    }
    if report.is_damaged() {
        answer.exit = Exit::Damaged;
        answer
            .line(format!("the ledger is damaged from statement {} on, and so is this backup", report.whole));
        answer.line("hint: see what an older backup has: ledger fsck");
    }
    answer.set("path", report.root.display().to_string());
    answer.set("ledger", ledger.id().to_hex());
    answer.set("size", report.size);
    answer.set("root", ledger.head().head().root.to_hex());
    answer.set("before", report.before);
    answer.set("whole", report.whole);
    answer.set("copied", report.copied);
    answer.set("bytes", report.bytes);
    answer.set("kept", report.kept);
    answer.set("queued", report.queued);
    Ok(answer)
}
