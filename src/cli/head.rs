//! `ledger head`: the signed tree head at which this view of the log ends.

use crate::log::key::base64;

use super::error::Failure;
use super::settings::Context;
use super::ui::Answer;

/// Print the signed tree head
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger head\n  ledger head --note > head.txt   the signed note, as it stands")]
pub(super) struct Args {
    /// Print the signed note verbatim
    #[arg(long)]
    note: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let (head, note) = (ledger.head().head(), ledger.head().as_str());
    let mut answer = Answer::new("ledger.head/1");
    if args.note {
        note.clone_into(&mut answer.text);
    } else {
        answer.line(format!("size    {}", head.size));
        answer.line(format!("root    {}", head.root));
        answer.line(format!("base64  {}", base64(head.root.as_bytes())));
        answer.line(format!("origin  {}", head.origin));
    }
    answer.set("ledger", ledger.id().to_hex());
    answer.set("size", head.size);
    answer.set("root", head.root.to_hex());
    answer.set("root_base64", base64(head.root.as_bytes()));
    answer.set("origin", head.origin.clone());
    answer.set("note", note);
    Ok(answer)
}
