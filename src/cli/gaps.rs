//! `LEDGER_MODE`: whether a failure to record stops the work, becomes a stated gap, or nothing is recorded.
//!
//! In mode `warn` a failure is one line in `gaps.jsonl` in the run's directory; the next success for that run
//! states the lines as notes, so the ledger itself tells where it knows nothing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::acts;
use crate::durable::outside;
use crate::ledger::Ledger;
use crate::model::TypedId;

use super::error::Failure;
use super::settings::{Context, Mode, disk};
use super::ui::{Answer, Exit};

const FILE: &str = "gaps.jsonl";
const MAX_GAPS: usize = 1 << 20;

/// Runs a recording command as `LEDGER_MODE` says.
pub(super) fn guarded(
    context: &Context,
    what: &str,
    schema: &'static str,
    act: impl FnOnce() -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    match context.mode()? {
        Mode::Off => {
            context.ui.talk(format!("LEDGER_MODE=off: `{what}` does nothing"));
            Ok(Answer::new(schema))
        }
        Mode::Enforce => act(),
        Mode::Warn => match act() {
            Err(failure) if failure.exit != Exit::Bug => {
                record(context, what, &failure);
                Ok(Answer::new(schema))
            }
            other => other,
        },
    }
}

fn path(context: &Context) -> Option<PathBuf> {
    context.filled("LEDGER_RUN_DIR").map(|dir| context.path(&PathBuf::from(dir)).join(FILE))
}

/// Writes one gap; where even that fails it is told on stderr.
pub(super) fn record(context: &Context, what: &str, failure: &Failure) {
    context.ui.warn(format!("`{what}` left a gap: error[{}]: {}", failure.slug, failure.message));
    let line = json!({
        "time": acts::rfc3339(context.now),
        "what": what,
        "slug": failure.slug,
        "message": failure.message,
    });
    let Some(path) = path(context) else {
        context.ui.warn("the gap itself is not kept: `LEDGER_RUN_DIR` is not set");
        return;
    };
    // A run's directory that is gone, perhaps with the whole ledger, is not made again in its place.
    if !path.parent().is_some_and(Path::is_dir) {
        context.ui.warn("the gap itself is not kept: the run's directory is gone");
        return;
    }
    let mut text = outside::read(&path, MAX_GAPS).ok().flatten().unwrap_or_default();
    text.extend(line.to_string().into_bytes());
    text.push(b'\n');
    if let Err(error) = outside::replace(&disk(), &path, &text, 0o644) {
        context.ui.warn(format!("the gap itself is not kept: {error}"));
    }
}

/// States the gaps of a run as notes, after something about it could be recorded.
pub(super) fn state(context: &Context, ledger: &mut Ledger, run: TypedId) -> Result<(), Failure> {
    let Some(path) = path(context) else { return Ok(()) };
    let Ok(Some(text)) = outside::read(&path, MAX_GAPS) else { return Ok(()) };
    let key = context.key_file()?;
    let mut entropy = context.entropy()?;
    for line in String::from_utf8_lossy(&text).lines().filter(|line| !line.is_empty()) {
        let gap: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        let field = |name: &str| gap[name].as_str().unwrap_or("?").to_owned();
        let remark =
            format!("gap: {} at {} was not recorded: {}", field("what"), field("time"), field("message"));
        let noted = acts::note(ledger, run, &remark, &context.signer(&key), &mut entropy)?;
        if let Some(outcome) = noted.outcome {
            context.settle(outcome);
        }
    }
    Ok(outside::replace(&disk(), &path, b"", 0o644)?)
}
