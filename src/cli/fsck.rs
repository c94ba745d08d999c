//! `ledger fsck`: every file under the ledger, named when it is not what it must be.

use std::path::Path;

use crate::durable::Durable;
use crate::fsck::{self, Report};
use crate::ledger::Ledger;
use crate::state::State;

use super::error::Failure;
use super::settings::{Context, disk};
use super::ui::{Answer, Exit, Severity, count, size};
use super::verify::{list, padded, told};

/// Check every file of the ledger
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger fsck\n  ledger fsck --json | jq '.findings[]'")]
pub(super) struct Args {
    /// Throw away the folded state and the index in the cache and make them again
    #[arg(long)]
    reindex: bool,
    /// Finish commits that were left half done, set aside a file that is in their way, and write anew what is sound
    /// in a damaged pack
    #[arg(long)]
    repair: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let root = context.locate()?;
    if args.reindex {
        reindex(&root, context)?;
    }
    if args.repair {
        // Only what a signed commit says is written, so no key is needed and nothing can be invented.
        let mut ledger = Ledger::open(&root, context.home())?;
        if let Some(size) = ledger.repair()? {
            context.ui.warn(format!(
                "a file that extended size {size} was no commit of this log; it lies in `log/refused/heads` now"
            ));
        }
        for mended in ledger.store().mend_packs()? {
            let lost = mended.lost.len();
            context.ui.warn(format!(
                "pack {} was damaged and lies in `damaged/` now; {} kept, {} lost",
                mended.pack,
                count(mended.kept as u64, "object"),
                count(lost as u64, "object"),
            ));
        }
        return check(&root, None, context);
    }
    check(&root, Ledger::kept_state(&root, context.home()).as_ref(), context)
}

fn check(root: &Path, kept: Option<&State>, context: &Context) -> Result<Answer, Failure> {
    let progress = context.ui.progress("hashed", None);
    let add = |bytes| progress.add(bytes);
    let report = fsck::check(disk(), root, kept, &add)?;
    drop(progress);
    Ok(answer(&report, context))
}

/// Drops what is derived from the ledger at `root`: opening folds it anew, and the first question indexes it.
fn reindex(root: &Path, context: &Context) -> Result<(), Failure> {
    let ledger = Ledger::open(root, context.home())?;
    let id = ledger.id();
    let Some(cache) = context.home().cache else {
        context.ui.talk("note: there is no cache directory, so nothing is kept there");
        return Ok(());
    };
    Durable::new(disk(), cache.join(id.to_hex()), false).remove(Path::new("state"))?;
    ledger.drop_index()?;
    if let Some(why) = Ledger::open(root, context.home())?.search(|_| true)?.without_index() {
        context.ui.verbose(1, format!("note: no index was made: {why}"));
    }
    Ok(())
}

fn answer(report: &Report, context: &Context) -> Answer {
    let mut answer = Answer::new("ledger.fsck/1");
    let damaged = report.damage().count();
    let (objects, statements) = (report.objects, report.statements);
    let seen = format!(
        "{} and {} ({})",
        count(statements, "statement"),
        count(objects, "object"),
        size(report.bytes)
    );
    if damaged == 0 {
        answer.line(format!("{}  {seen}, nothing is damaged", padded(&context.ui, Severity::Ok)));
    } else {
        answer.exit = Exit::Damaged;
        let things = if damaged == 1 { "1 thing is" } else { &format!("{damaged} things are") };
        answer.line(format!("{}  {things} damaged; {seen}", padded(&context.ui, Severity::Fail)));
    }
    answer.findings = report.findings.iter().map(told).collect();
    list(&mut answer, &context.ui);
    if report.whole < report.size {
        answer.line(format!("whole up to statement {} of {}", report.whole, report.size));
    }
    if damaged > 0 {
        answer.line("hint: take the named files from a backup or from another copy of the ledger");
    }
    answer.set("statements", statements);
    answer.set("objects", objects);
    answer.set("bytes", report.bytes);
    answer.set("damaged", damaged);
    answer.set("size", report.size);
    answer.set("whole", report.whole);
    answer
}
