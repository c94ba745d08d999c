//! The logs that a ledger goes on from: each checked as its own is, and folded before what comes after it.
//!
//! Each must end at the very head that the first statement after it names. Their head files repeat what is
//! checked here, and queued statements that stayed with a log are nobody's concern any more.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::durable::Durable;
use crate::ledger::{self, Segment, parents};
use crate::log::files;
use crate::state::{Parent, State};
use crate::verify::chain_text;

use super::log::{Before, Files, check_files, fold};
use super::{Error, Report, is_about_content};

/// Checks the parents of a log whose own files are right; `None` when nothing can be rebuilt on them.
pub(super) fn check(
    durable: &Durable,
    (own, head, _): &Files,
    cached: Option<&State>,
    report: &mut Report,
) -> Result<Option<Before>, Error> {
    let mut before = Before { state: State::new(), ..Before::default() };
    let lineage = match parents::lineage(durable, own, head.head().size) {
        Ok(lineage) => lineage,
        Err(error) => {
            missing(error, report)?;
            return Ok(None);
        }
    };
    for parent in &lineage {
        let dir = Path::new(parents::PARENTS).join(parent.ledger.to_hex());
        let at = format!("{}/log/checkpoint", dir.display());
        let under = Durable::new(Arc::clone(durable.disk()), durable.root().join(&dir), false);
        let mut found = Report::default();
        let first = before.state.places();
        let files = check_files(&under, &mut found)?;
        let is_whole = files.is_some();
        let rebuilt = match files {
            Some(files) => fold(files, before, cached, &mut found)?,
            None => None,
        };
        let is_told = found.is_damaged();
        report.findings.extend(found.findings.into_iter().map(|mut finding| {
            // Where files disagree, statements are named by their index in the log, and else by their place.
            let is_inside = |at: &str| at.starts_with("log/") || !is_whole;
            finding.at =
                finding.at.map(|at| if is_inside(&at) { format!("{}/{at}", dir.display()) } else { at });
            finding
        }));
        let Some(rebuilt) = rebuilt else {
            report.size = report.size.saturating_add(first).saturating_add(found.size);
            report.whole = first.saturating_add(found.whole);
            if !is_told {
                report.damaged("parent", at, "the log that this ledger goes on from cannot be folded");
            }
            return Ok(None);
        };
        report.statements += found.size;
        let (size, root) = (rebuilt.head.head().size, rebuilt.head.head().root);
        if (size, root) != (parent.size, parent.root) || rebuilt.ledger() != Some(parent.ledger) {
            let text =
                format!("it is not the head of {} statements that this ledger goes on from", parent.size);
            report.damaged("parent", at, text);
            return Ok(None);
        }
        let mut segments = rebuilt.before;
        segments.push(Segment { log: rebuilt.log, ledger: parent.ledger, first, size, root });
        before = Before { state: rebuilt.state.forked(), log_keys: rebuilt.log_keys, segments };
    }
    check_names(durable, &lineage, report)?;
    Ok(Some(before))
}

/// Says which log is not there, unless it is the disk that does not answer.
fn missing(error: ledger::Error, report: &mut Report) -> Result<(), Error> {
    use ledger::Error as Of;
    let source = if let Of::Parent { source, .. } = &error { source } else { &error };
    if let Of::Files(files::Error::Disk(disk)) | Of::Disk(disk) = source
        && !is_about_content(disk)
    {
        return Err(error.into());
    }
    let at = match &error {
        Of::Parent { ledger, .. } => parents::dir(*ledger),
        _ => Path::new(parents::PARENTS).to_owned(),
    };
    report.damaged("parent", at.display().to_string(), chain_text(&error));
    Ok(())
}

/// Tells of logs that nothing goes on from.
fn check_names(durable: &Durable, lineage: &[Parent], report: &mut Report) -> Result<(), Error> {
    let known: BTreeSet<String> = lineage.iter().map(|parent| parent.ledger.to_hex()).collect();
    for entry in durable.list(Path::new(parents::PARENTS))? {
        let name = entry.name.to_string_lossy().into_owned();
        if !known.contains(&name) {
            report.warn(
                "stray",
                format!("{}/{name}", parents::PARENTS),
                "this ledger goes on from no such log",
            );
        }
    }
    Ok(())
}
