//! `ledger sequence`: gives statements that wait their place in the log.

use super::error::Failure;
use super::settings::Context;
use super::ui::{Answer, count};

/// Order the statements that wait
///
/// Needs a log key. Every writing command does this too, so it is for a timer where some users have none.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger sequence\n  ledger -q sequence   in a timer")]
pub(super) struct Args {}

pub(super) fn run(_args: &Args, context: &Context) -> Result<Answer, Failure> {
    let mut ledger = context.open()?;
    let key = context.key_file()?;
    let before = ledger.state().size();
    let mut why = String::new();
    // One batch has a limit; as long as batches move the head there may be more to order.
    loop {
        let size = ledger.state().size();
        if let crate::ledger::Sequenced::Waiting { why: said } =
            ledger.sequence(&context.signer(&key), None)?
        {
            why = said;
        }
        if ledger.state().size() == size {
            break;
        }
    }
    let ordered = ledger.state().size() - before;
    let log = ledger.state();
    let pending = ledger.pending()?;
    let waiting = pending.iter().filter(|pending| log.statement(pending.id).is_none()).count();
    let mut answer = Answer::new("ledger.sequence/1");
    answer.line(ordered);
    answer.set("ordered", ordered);
    answer.set("waiting", waiting);
    if waiting > 0 {
        let wait = if waiting == 1 { "waits" } else { "wait" };
        context.ui.talk(format!("note: {} {wait}: {why}", count(waiting as u64, "statement")));
        answer.set("why", why);
    }
    Ok(answer)
}
