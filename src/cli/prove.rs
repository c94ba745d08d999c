//! `ledger prove`: a file that convinces somebody who does not have the log.
//!
//! The proofs are made and checked by the library; this file finds out what is meant and where it goes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::durable::outside;
use crate::id::StatementId;
use crate::ledger::{Ledger, Proven, Under, Wanted};
use crate::log::key::base64;
use crate::state::Standing;

use super::error::Failure;
use super::settings::{Context, disk};
use super::ui::{Answer, Exit};

/// Write a proof that something is in the log, or that the log continues an older head
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  ledger prove run:7f3a19 --statement start.cose > start.tlog-proof\n  ledger prove --since 120 > consistency\n  ledger prove run:7f3a19 --receipt -o start.receipt",
    override_usage = "ledger prove <ID|--since <N>> [FLAGS]"
)]
pub(super) struct Args {
    /// An id, a short id or a name: what first stated it is proven; or a statement's id or index
    #[arg(value_name = "ID", required_unless_present = "since", conflicts_with = "since")]
    id: Option<String>,
    /// Prove that the log continues the head that it had at this size
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Prove it under the head of this size, not the newest
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Write a COSE receipt (RFC 9942), not the text of C2SP
    #[arg(long)]
    receipt: bool,
    /// Write the statement too, which is what the proof is for
    #[arg(long, value_name = "FILE", conflicts_with = "since")]
    statement: Option<PathBuf>,
    /// Write the proof to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.prove/1");
    let (proven, under) = match (&args.id, args.since) {
        (Some(text), _) => {
            let place = find(text, &ledger, context)?;
            let under = ledger.head_over(place, args.at)?;
            (statement(place, &under, args, &ledger, context, &mut answer)?, under)
        }
        (None, since) => {
            let under = ledger.head_of(args.at)?;
            (continuation(since.unwrap_or(0), &under, args, &ledger, context, &mut answer)?, under)
        }
    };
    let head = under.head.head();
    answer.set("origin", head.origin.clone());
    answer.set("size", head.size);
    answer.set("root", head.root.to_hex());
    let (bytes, is_text) = match &proven {
        Proven::Text(text) => (text.as_bytes(), true),
        Proven::Receipt(bytes) => (bytes.as_slice(), false),
    };
    match &args.output {
        Some(path) => {
            save(&context.path(path), bytes)?;
            answer.set("output", path.display().to_string());
        }
        None if context.ui.is_json() => {}
        None if is_text => answer.text = String::from_utf8_lossy(bytes).into_owned(),
        None if context.ui.is_terminal() => {
            return Err(
                Failure::usage("a receipt is binary and not for a terminal").hint("give it a file: -o FILE")
            );
        }
        None => {
            let mut stdout = context.ui.bytes();
            stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::stdout)?;
        }
    }
    match &proven {
        Proven::Text(text) => answer.set("proof", text.as_str()),
        Proven::Receipt(bytes) => answer.set("receipt_base64", base64(bytes)),
    }
    Ok(answer)
}

fn statement(
    place: u64,
    under: &Under,
    args: &Args,
    ledger: &Ledger,
    context: &Context,
    answer: &mut Answer,
) -> Result<Proven, Failure> {
    let (segment, index) = ledger.segment(place);
    let size = under.head.head().size;
    if index >= size {
        let message = format!("statement {index} came after the head of {size} statements");
        return Err(Failure::new("no-head", Exit::Unknown, message)
            .hint("prove it under the newest head: leave out --at"));
    }
    let bytes = ledger.statement_bytes(place)?;
    let id = crate::id::statement_id(&bytes);
    let proven = ledger.prove_statement(place, under, args.receipt)?;
    if segment.ledger == ledger.id() {
        context.ui.talk(format!("statement {index} of {size}  {id}"));
    } else {
        let of = &segment.ledger.to_hex()[..8];
        context.ui.talk(format!("statement {index} of {size}  {id}  in the log of ledger {of}"));
    }
    // A place in the log is all that is proven; whoever gets the file should not take it for more.
    match ledger.state().statement(id).map(|(_, standing)| standing) {
        Some(Standing::Accepted) => {}
        Some(Standing::Rejected(reason)) => {
            context.ui.warn(format!("the statement is in the log and was rejected: {reason}"));
        }
        Some(Standing::Unknown) | None => {
            context.ui.warn("the statement is in the log, and is of newer rules than this program's");
        }
    }
    if let Some(path) = &args.statement {
        save(&context.path(path), &bytes)?;
    }
    answer.set("place", place);
    answer.set("index", index);
    answer.set("statement", id.to_hex());
    answer.set("statement_base64", base64(&bytes));
    Ok(proven)
}

fn continuation(
    old: u64,
    under: &Under,
    args: &Args,
    ledger: &Ledger,
    context: &Context,
    answer: &mut Answer,
) -> Result<Proven, Failure> {
    let size = under.head.head().size;
    if old > size {
        let message = format!("a head of {size} statements cannot continue one of {old}");
        return Err(Failure::new("no-head", Exit::Unknown, message).hint("ledger head"));
    }
    if old == 0 && args.receipt {
        return Err(Failure::usage("there are no receipts from the empty log, which every log continues")
            .hint("begin at a head that somebody has: --since N"));
    }
    let proven = ledger.prove_continuation(old, under, args.receipt)?;
    context.ui.talk(format!("from {old} statements to {size}"));
    answer.set("since", old);
    answer.set("since_root", ledger.past_root(old)?.to_hex());
    Ok(proven)
}

/// Finds the place of the statement that is meant: by itself, by the statement's id, or as the first that stated an object.
fn find(text: &str, ledger: &Ledger, context: &Context) -> Result<u64, Failure> {
    // Digits are a place as far as the log goes, and beyond it the beginning of an id.
    let size = ledger.places();
    if let Some(index) = text.parse().ok().filter(|index| *index < size && !text.starts_with('+')) {
        return Ok(index);
    }
    if let Some((index, _)) = StatementId::from_hex(text).ok().and_then(|id| ledger.state().statement(id)) {
        return Ok(u64::from(index));
    }
    let id = ledger.resolve(text, Wanted::Any, context.filled("LEDGER_RUN"))?;
    let place = ledger.state().claim(id).ok_or_else(|| {
        let message = format!("{} is kept here, and no statement is about it", id.short());
        Failure::new("not-stated", Exit::Unknown, message).hint("see what is stated: ledger entries")
    })?;
    Ok(u64::from(place.index))
}

/// Writes a file, in place of a plain one only: a device or a pipe must not be replaced by a file.
fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::usage(format!("`{}` is not a plain file", path.display()))
            .hint("leave out -o and redirect standard output"));
    }
    Ok(outside::replace(&disk(), path, bytes, 0o644)?)
}
