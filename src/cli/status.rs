//! Bare `ledger`: where you are, and what comes next.

use super::error::Failure;
use super::settings::Context;
use super::ui::Answer;

pub(super) fn run(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.status/1");
    answer.line(ledger.id());
    Ok(answer)
}
