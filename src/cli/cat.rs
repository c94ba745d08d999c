//! `ledger cat`: an object's bytes, which are hashed before the first is printed.

use std::io::{self, Write as _};

use crate::id::ObjectId;
use crate::ledger::Wanted;
use crate::log::key::base64;

use super::error::Failure;
use super::settings::Context;
use super::ui::{Answer, Exit};

/// Print the bytes of an object
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger cat run:7f3a19 > plan.cbor\n  ledger cat blob:ID | jq .")]
pub(super) struct Args {
    /// An id, a short id or a name
    #[arg(value_name = "ID")]
    id: String,
}

/// JSON holds no larger object.
const MAX_IN_JSON: usize = crate::codec::MAX_RECORD;

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let object = match ObjectId::from_hex(&args.id) {
        Ok(object) => object,
        Err(_) => ledger.resolve(&args.id, Wanted::Any, context.var("LEDGER_RUN"))?.id,
    };
    if let Some(place) = ledger.state().erased(object)
        && !ledger.store().contains(object)?
    {
        let message = format!("the bytes of `{}` were erased", args.id);
        return Err(
            Failure::new("no-such-id", Exit::Unknown, message).fact(format!("by statement {}", place.index))
        );
    }
    let mut answer = Answer::new("ledger.cat/1");
    answer.set("id", object.to_hex());
    if context.ui.is_json() {
        let bytes = ledger.store().get(object, MAX_IN_JSON)?;
        answer.set("size", bytes.len());
        answer.set("base64", base64(&bytes));
        return Ok(answer);
    }
    // A pipe cannot take back what it was given, so the bytes are checked before they are printed.
    ledger.store().copy_to(object, &mut io::sink())?;
    let mut stdout = context.ui.bytes();
    ledger.store().copy_to(object, &mut stdout)?;
    stdout.flush().map_err(Failure::stdout)?;
    Ok(answer)
}
