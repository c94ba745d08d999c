//! The checkpoints of a command that is running: each is recorded as soon as it has settled.
//!
//! A thread of its own looks at names, sizes and times, reads what has settled, and states it. Whatever goes
//! wrong here is tried again and becomes a gap in the end; the command never hears of it. Reading is left to few
//! threads of low priority, so that it takes only what the command leaves idle.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::acts::{self, CheckpointRequest, Subject, Whose};
use crate::capture::walk::Reading;
use crate::id::ObjectId;
use crate::ledger::Ledger;
use crate::model::TypedId;

use super::error::Failure;
use super::reading::Reads;
use super::settings::Context;
use super::settle::{self, QUIET, Stillness};
use super::ui::Exit;
use super::{gaps, record};

/// The shortest and the longest pause between two looks at everything that matches.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// A look takes at most this part of the time, however many files there are.
const SHARE: u32 = 20;
/// The shortest and the longest pause before a statement is tried again.
const RETRIES: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(1)];
/// Threads that read at most, of a quarter of those that the machine has.
const READERS: usize = 4;
/// Added to the niceness of those threads; 19 is the most that there is.
const NICENESS: i32 = 15;

/// What has become of what lay at a path.
#[derive(Debug)]
enum Handled {
    /// It was read, and is recorded or waits for it.
    Read,
    /// It was no whole checkpoint.
    Refused(Box<acts::Error>),
}

/// One path that matched.
#[derive(Debug)]
struct Place {
    still: Stillness,
    seen: Option<ObjectId>,
    handled: Option<(ObjectId, Handled)>,
    /// What lay there before the command began, which is no loss of this attempt.
    before: Option<ObjectId>,
    /// Device and number of the file, which it keeps under another name.
    file: Option<(u64, u64)>,
}

impl Place {
    fn new(path: &Path, now: Instant) -> Self {
        let seen = settle::look(path).ok().flatten();
        let file = file_at(path);
        Self { still: Stillness::new(seen, now), seen, handled: None, before: None, file }
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|stat| (stat.dev(), stat.ino()))
}

/// A checkpoint that was read and is not stated yet.
#[derive(Debug)]
struct Waiting {
    path: PathBuf,
    digest: ObjectId,
    subject: Subject,
}

/// Everything that a watch has found out.
#[derive(Debug, Default)]
pub(super) struct Found {
    places: BTreeMap<PathBuf, Place>,
    waiting: Vec<Waiting>,
    /// By path what was recorded last, and how it looked.
    recorded: BTreeMap<PathBuf, (ObjectId, TypedId)>,
    /// All that was recorded, in that order.
    all: Vec<TypedId>,
}

/// What a watch has recorded in the end.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What matches now, in the order of the names.
    pub(super) last: Vec<(PathBuf, TypedId)>,
    /// Everything, in the order of recording.
    pub(super) all: Vec<TypedId>,
}

/// A watch over what some patterns match.
pub(super) struct Watch<'a> {
    patterns: &'a [String],
    /// Knows the run's directory, where gaps are noted.
    context: &'a Context,
    start: TypedId,
    is_over: Mutex<bool>,
    wake: Condvar,
}

impl<'a> Watch<'a> {
    /// Makes a watch for an attempt that has begun.
    pub(super) const fn new(patterns: &'a [String], context: &'a Context, start: TypedId) -> Self {
        Self { patterns, context, start, is_over: Mutex::new(false), wake: Condvar::new() }
    }

    /// Looks at what is there before the command begins; nothing is read.
    pub(super) fn first(&self) -> Found {
        let mut found = Found::default();
        let now = Instant::now();
        for path in self.matching() {
            let place = Place::new(&path, now);
            found.places.insert(path, Place { before: place.seen, ..place });
        }
        found
    }

    /// Watches until [`Watch::stop`] is called.
    pub(super) fn run(&self, mut found: Found) -> Found {
        if self.patterns.is_empty() {
            return found;
        }
        let readers = readers();
        let [least, most] = PAUSES;
        let mut retry = Retry::default();
        loop {
            let begun = Instant::now();
            self.look(&mut found);
            let took = begun.elapsed();
            self.read(&mut found, readers.as_ref());
            if retry.is_due() && !found.waiting.is_empty() {
                let is_done = self.state(&mut found);
                retry.tried(is_done);
            }
            if self.pause((took * SHARE).clamp(least, most)) {
                return found;
            }
        }
    }

    /// Ends the watch. What is being read is read to its end; nothing more is begun.
    pub(super) fn stop(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, and returns whether the watch is over.
    fn pause(&self, most: Duration) -> bool {
        let guard = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(guard, most, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns what matches now. A directory that cannot be listed at this moment is said at the end.
    fn matching(&self) -> Vec<PathBuf> {
        record::matching(self.patterns, self.context).unwrap_or_default()
    }

    /// Takes another look at everything that matches, and tells of what went before it could be read.
    fn look(&self, found: &mut Found) {
        let paths = self.matching();
        let now = Instant::now();
        for path in &paths {
            let Some(place) = found.places.get_mut(path) else {
                self.context.ui.verbose(1, format!("note: watching checkpoint {}", path.display()));
                found.places.insert(path.clone(), Place::new(path, now));
                continue;
            };
            place.seen = settle::look(path).ok().flatten();
            place.still.take(place.seen, now);
            place.file = file_at(path).or(place.file);
        }
        self.tell_gone(found, &paths.into_iter().collect());
    }

    /// Makes a gap of each path that is gone and was not read as it was last.
    fn tell_gone(&self, found: &mut Found, there: &BTreeSet<PathBuf>) {
        let is_gone = |path: &PathBuf| !there.contains(path) && !path.exists();
        let gone: Vec<PathBuf> = found.places.keys().filter(|path| is_gone(path)).cloned().collect();
        for path in gone {
            let Some(place) = found.places.remove(&path) else { continue };
            // Writers name a directory only when it is whole, and what has another name is not lost.
            let has_moved =
                found.places.values().any(|other| other.file.is_some() && other.file == place.file);
            let failure = match place.handled {
                Some((digest, handled)) if place.seen.is_none_or(|seen| seen == digest) => match handled {
                    Handled::Read => continue,
                    Handled::Refused(error) => Failure::from(*error),
                },
                _ if has_moved => continue,
                _ if place.before.is_some() && place.before == place.seen => continue,
                _ => {
                    let message = format!("`{}` was deleted before it had settled", path.display());
                    Failure::new("deleted", Exit::Unknown, message)
                }
            };
            self.gap(&path, &failure);
        }
    }

    fn gap(&self, path: &Path, failure: &Failure) {
        gaps::record(&self.context.later(), &format!("checkpoint {}", path.display()), failure);
    }

    /// Reads what has settled and was not read as it is now.
    fn read(&self, found: &mut Found, readers: Option<&rayon::ThreadPool>) {
        let now = Instant::now();
        for (path, place) in &mut found.places {
            let Some(digest) = place.seen else { continue };
            let is_handled = place.handled.as_ref().is_some_and(|(handled, _)| *handled == digest);
            if is_handled || place.still.take(place.seen, now) < QUIET {
                continue;
            }
            if self.is_over() {
                return;
            }
            let reading = self.context.later().reading(Reads::default());
            let read = || acts::observe_checkpoint(path, &reading, &|_| {});
            match readers.map_or_else(read, |readers| readers.install(read)) {
                Ok(subject) => {
                    // What was read may be newer than the last look at it; then this is how it looked.
                    let digest = subject.tree.stat_digest();
                    place.handled = Some((digest, Handled::Read));
                    found.waiting.push(Waiting { path: path.clone(), digest, subject });
                }
                Err(error @ acts::Error::Incomplete { .. }) => {
                    // Nothing is read again before it changes.
                    place.handled = Some((digest, Handled::Refused(Box::new(error))));
                }
                // It is being written after all, or has just been deleted: the next look tells.
                Err(error) if settle::may_pass(&error) => {}
                Err(error) => place.handled = Some((digest, Handled::Refused(Box::new(error)))),
            }
        }
    }

    /// States what was read; returns whether nothing is left.
    fn state(&self, found: &mut Found) -> bool {
        let context = &self.context.later();
        let mut ledger = match context.open() {
            Ok(ledger) => ledger,
            Err(failure) => {
                context.ui.verbose(1, format!("note: checkpoints wait: {}", failure.message));
                return false;
            }
        };
        for waiting in std::mem::take(&mut found.waiting) {
            if let Err(failure) = self.state_one(found, &mut ledger, context, &waiting) {
                let path = waiting.path.display();
                context.ui.verbose(1, format!("note: checkpoint {path} waits: {}", failure.message));
                found.waiting.push(waiting);
            }
        }
        found.waiting.is_empty()
    }

    fn state_one(
        &self,
        found: &mut Found,
        ledger: &mut Ledger,
        context: &Context,
        waiting: &Waiting,
    ) -> Result<(), Failure> {
        let request = CheckpointRequest {
            path: &waiting.path,
            whose: Whose::AttemptOrEarlier(self.start),
            step: None,
            parent: None,
            store: false,
            name: None,
            reading: Reading::default(),
        };
        let recorded = record::record_observed(ledger, &request, &waiting.subject, context)?;
        // What an earlier attempt has recorded is no news.
        if recorded.outcome.is_some() {
            record::tell(&recorded, context);
        }
        if !found.all.contains(&recorded.id) {
            found.all.push(recorded.id);
        }
        found.recorded.insert(waiting.path.clone(), (waiting.digest, recorded.id));
        Ok(())
    }

    /// Records what is left when the command has ended; what cannot be recorded becomes a gap.
    pub(super) fn finish(&self, mut found: Found, ledger: &mut Ledger) -> Result<Outcome, Failure> {
        let context = &self.context.later();
        for waiting in std::mem::take(&mut found.waiting) {
            if let Err(failure) = self.state_one(&mut found, ledger, context, &waiting) {
                self.gap(&waiting.path, &failure);
            }
        }
        let paths = record::matching(self.patterns, context)?;
        let mut last = Vec::new();
        for path in &paths {
            let seen = settle::look(path).ok().flatten();
            let known = found.recorded.get(path).filter(|(digest, _)| Some(*digest) == seen);
            if let Some((_, id)) = known {
                last.push((path.clone(), *id));
                continue;
            }
            let progress = context.ui.progress("hashed", None);
            let reading = context.reading(Reads::default());
            let read = acts::observe_checkpoint(path, &reading, &|bytes| progress.add(bytes));
            drop(progress);
            let stated = read.map_err(Failure::from).and_then(|subject| {
                let digest = subject.tree.stat_digest();
                let waiting = Waiting { path: path.clone(), digest, subject };
                self.state_one(&mut found, ledger, context, &waiting)
            });
            match (stated, found.recorded.get(path)) {
                (Ok(()), Some((_, id))) => last.push((path.clone(), *id)),
                // One torn checkpoint is no reason to lose the others.
                (Err(failure), _) => self.gap(path, &failure),
                (Ok(()), None) => {}
            }
        }
        self.tell_gone(&mut found, &paths.into_iter().collect());
        Ok(Outcome { last, all: found.all })
    }
}

/// Makes the threads that read; without them the watch's own reads.
fn readers() -> Option<rayon::ThreadPool> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let polite = |_| {
        // Where it is not allowed the thread is as important as others.
        let _ = rustix::process::nice(NICENESS);
    };
    let builder = rayon::ThreadPoolBuilder::new().num_threads((cores / 4).clamp(1, READERS));
    builder.thread_name(|n| format!("reader {n}")).start_handler(polite).build().ok()
}

/// When a statement is tried again that could not be made.
#[derive(Debug, Default)]
struct Retry {
    after: Option<(Instant, Duration)>,
}

impl Retry {
    fn is_due(&self) -> bool {
        self.after.is_none_or(|(since, pause)| since.elapsed() >= pause)
    }

    fn tried(&mut self, is_done: bool) {
        let [least, most] = RETRIES;
        let next = self.after.map_or(least, |(_, pause)| (pause * 2).min(most));
        self.after = (!is_done).then(|| (Instant::now(), next));
    }
}
