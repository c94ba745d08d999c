//! When a checkpoint has been written: it has not changed for a while, and it is whole.
//!
//! Only names, sizes and times are looked at again and again. They are compared with what they were at the look
//! before, and the pauses are measured with the clock of this process: a file server's clock may be another one,
//! and its times may be no finer than a second.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::acts;
use crate::capture::walk::{self, Options};
use crate::id::{Digests, ObjectId};

use super::error::Failure;
use super::settings::quoted;
use super::ui::{Exit, Ui};

/// For so long nothing may change before files are read.
///
/// That is longer than the steps of times on common disks, and as long as a network disk's client believes what
/// it has seen of a file by default. A writer that rests longer, between two files of one checkpoint, is told
/// by what is missing.
pub(super) const QUIET: Duration = Duration::from_secs(3);
/// Pauses between two looks grow from the first to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// What lies at a path, by names, sizes and times; `None` where there is nothing, or it went while it was looked at.
pub(super) fn look(path: &Path) -> Result<Option<ObjectId>, walk::Error> {
    match walk::stat_digest(path, &Options::new(Digests::Blake3)) {
        Ok(digest) => Ok(Some(digest)),
        Err(walk::Error::Missing { .. } | walk::Error::Changed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long something has looked the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stillness {
    seen: Option<ObjectId>,
    since: Instant,
}

impl Stillness {
    /// Begins with a first look.
    pub(super) const fn new(seen: Option<ObjectId>, now: Instant) -> Self {
        Self { seen, since: now }
    }

    /// Takes another look, and returns for how long nothing has changed; never long where there is nothing.
    pub(super) fn take(&mut self, seen: Option<ObjectId>, now: Instant) -> Duration {
        if seen != self.seen || seen.is_none() {
            *self = Self::new(seen, now);
        }
        now.saturating_duration_since(self.since)
    }
}

/// Whether a failure to read a checkpoint may pass by itself while somebody writes.
pub(super) fn may_pass(error: &acts::Error) -> bool {
    use crate::capture::weights;
    let is_walk = |error: &walk::Error| {
        matches!(
            error,
            walk::Error::Changed { .. } | walk::Error::Missing { .. } | walk::Error::NotSeen { .. }
        )
    };
    match error {
        acts::Error::Incomplete { .. } | acts::Error::Weights(weights::Error::Changed { .. }) => true,
        acts::Error::Walk(error) | acts::Error::Weights(weights::Error::Open(error)) => is_walk(error),
        _ => false,
    }
}

/// Reads a checkpoint once it has settled, or says after `limit` why it has not.
///
/// What `read` finds incomplete is not read again before something changes.
pub(super) fn wait<T>(
    path: &Path,
    limit: Duration,
    ui: &Ui,
    read: &dyn Fn() -> Result<T, acts::Error>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let quiet = QUIET.min(limit / 2);
    let mut seen = look(path)?;
    let mut still = Stillness::new(seen, begun);
    let mut refused: Option<(ObjectId, acts::Error)> = None;
    let [least, most] = PAUSES;
    let mut pause = least;
    loop {
        let now = Instant::now();
        let unchanged = still.take(seen, now);
        if unchanged.is_zero() {
            pause = least;
        }
        if let Some(digest) = seen.filter(|_| unchanged >= quiet)
            && refused.as_ref().is_none_or(|(known, _)| *known != digest)
        {
            match read() {
                Err(error) if may_pass(&error) => {
                    ui.verbose(1, format!("note: not yet: {error}"));
                    refused = Some((digest, error));
                }
                other => return Ok(other?),
            }
        }
        let Some(left) = limit.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
            return Err(unsettled(path, limit, seen, refused));
        };
        // Not a moment too late: what is due within the pause is looked at when it is due.
        let due = quiet.saturating_sub(still.since.elapsed()).max(Duration::from_millis(1));
        let due = if unchanged < quiet { due } else { most };
        std::thread::sleep(pause.min(left).min(due));
        pause = (pause * 2).min(most);
        seen = look(path)?;
    }
}

fn unsettled(
    path: &Path,
    limit: Duration,
    seen: Option<ObjectId>,
    refused: Option<(ObjectId, acts::Error)>,
) -> Failure {
    let seconds = limit.as_secs();
    let again = format!("ledger record checkpoint {} --settle {}", quoted(path), seconds.max(5) * 2);
    let waited = format!("waited for {seconds} s");
    match (seen, refused) {
        (None, _) => Failure::from(walk::Error::Missing { path: path.to_owned() }).fact(waited),
        (Some(now), Some((then, error))) if now == then => Failure::from(error).fact(waited).hint(again),
        _ => {
            let message = format!("`{}` is still being written", path.display());
            Failure::new("changed-while-read", Exit::Busy, message).fact(waited).hint(again)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ui::Style;
    use super::*;
    use crate::id::object_id;

    #[test]
    fn stillness_begins_anew_with_each_change_and_never_where_nothing_is() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (a, b) = (Some(object_id(b"a")), Some(object_id(b"b")));
        let mut still = Stillness::new(a, begun);
        let mut take = |seen, seconds| still.take(seen, at(seconds)).as_secs();
        assert_eq!([take(a, 2), take(b, 3), take(b, 5), take(a, 6), take(a, 9)], [2, 0, 2, 0, 3]);
        assert_eq!([take(None, 10), take(None, 20), take(a, 21), take(a, 22)], [0, 0, 0, 1]);
        assert_eq!(take(a, 1), 0, "a clock that goes backward is no reason to be hasty");
    }

    #[test]
    fn a_limit_without_a_wait_is_one_try() {
        let (dir, ui) = (tempfile::tempdir().unwrap(), Ui::new(Style::default()));
        assert_eq!(wait(dir.path(), Duration::ZERO, &ui, &|| Ok(7)).unwrap(), 7);
        let gone = wait(&dir.path().join("gone"), Duration::ZERO, &ui, &|| Ok(7)).unwrap_err();
        assert_eq!((gone.slug, gone.exit), ("bad-data", Exit::Usage));
    }
}
