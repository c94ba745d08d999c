//! `ledger init --fork`: a copied or restored ledger goes on as a ledger of its own.
//!
//! What `adopt` must not do, since two logs would grow from one past, this may: the new log has another id, and
//! its first statement says where it begins. What the user remembers of the old ledger has no say in it.

use std::path::Path;

use crate::id::{LedgerId, StatementId};
use crate::ledger::{self, Forked, Forker, Home, Ledger};

use super::error::Failure;
use super::fsck::watched;
use super::init::study_name;
use super::settings::{Context, disk};
use super::ui::{Answer, Exit, count};

pub(super) fn run(dir: &Path, context: &Context) -> Result<Answer, Failure> {
    let ui = &context.ui;
    let Some(root) = Ledger::find(dir) else {
        let message = format!("there is no ledger in `{}` to go on from", dir.display());
        return Err(Failure::new("not-a-ledger", Exit::Unknown, message).hint("a new one: ledger init"));
    };
    let dir = root.parent().unwrap_or(dir);
    let finished = ledger::finish_fork(&disk(), &root, context.random()?)?;
    let (id, forked) = if let Some(id) = finished {
        ui.talk("finished a fork that was cut short");
        (id, None)
    } else {
        let forked = make(&root, context)?;
        (forked.ledger, Some(forked))
    };
    // The ledger stands from here on: what cannot be kept outside of it is told and changes nothing.
    let pinned = match context.pin(id, study_name(dir).as_deref()) {
        Ok(path) => Some(path),
        Err(failure) => {
            ui.warn(format!("the ledger is not pinned: {}", failure.message));
            None
        }
    };
    let ledger = Ledger::open(&root, context.home())?;
    ledger.notices().iter().for_each(|notice| ui.verbose(1, format!("note: {notice}")));
    let parent = ledger.state().parents().last().copied();

    let mut answer = Answer::new("ledger.init/1");
    answer.line(id);
    answer.set("ledger", id.to_hex());
    answer.set("directory", root.display().to_string());
    answer.set("parent", parent.map(|parent| parent.ledger.to_hex()));
    answer.set("parent_size", parent.map(|parent| parent.size));
    answer.set("parent_root", parent.map(|parent| parent.root.to_hex()));
    answer.set("before", ledger.state().base());
    answer.set("pinned_in", pinned.as_ref().map(|path| path.display().to_string()));
    if let Some(parent) = parent {
        let size = count(parent.size, "statement");
        ui.talk(format!("from     {size} of ledger {}", parent.ledger));
        let kept = Path::new(ledger::DIR).join(ledger::parents::dir(parent.ledger));
        ui.talk(format!("kept     its log in {}", kept.display()));
    }
    let left = forked.map_or(Vec::new(), |forked| tell(&forked, context));
    answer.set("left", left.iter().map(StatementId::to_hex).collect::<Vec<_>>());
    if let Some(path) = &pinned {
        ui.talk(format!("pinned   in {}", path.display()));
    }
    ui.talk(format!("Whoever trusts the old ledger has to be told of this one: ledger key trust {id}"));
    Ok(answer)
}

/// Says what did not go along, and returns the queued statements of it.
fn tell(forked: &Forked, context: &Context) -> Vec<StatementId> {
    let kept = Path::new(ledger::DIR).join(ledger::parents::dir(forked.parent.ledger));
    for path in &forked.aside {
        let rest = path.strip_prefix("log").unwrap_or(path);
        let path = kept.join("refused").join(rest);
        context.ui.talk(format!("aside    {}, copied too late to count", path.display()));
    }
    if !forked.left.is_empty() {
        let left = count(forked.left.len() as u64, "queued statement");
        context.ui.warn(format!(
            "{left} not taken along, signed for the old ledger; kept in {}: say again what still holds",
            kept.join("pending").display()
        ));
    }
    forked.left.clone()
}

fn make(root: &Path, context: &Context) -> Result<Forked, Failure> {
    // A head that is remembered is one of the old ledger, which this one does not go on from.
    let home = Home::new(None, context.home().cache);
    let mut ledger = Ledger::open(root, home).map_err(cut_off)?;
    let key = context.key_file()?;
    let log = key.log().ok_or_else(|| {
        Failure::new("no-key", Exit::Unknown, "the key file has no log key, which a fork needs")
    })?;
    ledger.finish_copied_commits(context.lock_wait)?;
    let missing = check(root, &ledger, context)?;
    let by = Forker {
        author: key.author(),
        log,
        time: context.now,
        nonce: context.random()?,
        instance: context.random()?,
    };
    let old: LedgerId = ledger.id();
    let forked = ledger.fork(&by, context.lock_wait).map_err(|error| match error {
        ledger::Error::Refused { .. } => Failure::new(
            "refused",
            Exit::Refused,
            "only an owner's key or the recovery key, with a log key of the ledger, makes a fork of it",
        )
        .fact(format!("ledger  {old}"))
        .hint("begin an empty one elsewhere: ledger init DIR"),
        error => error.into(),
    })?;
    if missing > 0 {
        context.ui.warn(format!("{} missing in what it goes on from: ledger fsck", count(missing, "thing")));
    }
    Ok(forked)
}

fn cut_off(error: ledger::Error) -> Failure {
    match error {
        ledger::Error::CutOff { size, whole, source } => {
            let message = format!(
                "this copy is cut off: its head covers {size} statements, and only the first {whole} are here"
            );
            Failure::new("refused", Exit::Refused, message)
                .hint("copy the directory again with: ledger backup DIR, or restore a backup")
                .because(*source)
        }
        error => error.into(),
    }
}

/// Refuses a log that is damaged, since nobody could ever mend it, and returns how many objects are missing.
fn check(root: &Path, ledger: &Ledger, context: &Context) -> Result<u64, Failure> {
    const SHOWN: usize = 8;
    let report = watched(root, Some(ledger.state()), context)?;
    let is_about_objects = |slug: &str| matches!(slug, "object" | "missing" | "record");
    let (objects, log): (Vec<_>, Vec<_>) =
        report.damage().partition(|finding| is_about_objects(finding.slug));
    if log.is_empty() {
        return Ok(objects.len() as u64);
    }
    let mut failure = Failure::new("refused", Exit::Refused, "the log to go on from is damaged");
    for finding in log.iter().take(SHOWN) {
        let at = finding.at.as_ref().map_or(String::new(), |at| format!("{at}: "));
        failure = failure.fact(format!("{at}{}", finding.message));
    }
    Err(failure.hint("copy the directory again with: ledger backup DIR, or restore a backup"))
}
