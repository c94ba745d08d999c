//! Acts: what was observed becomes records and claims about them, and a transaction that states them.
//!
//! | file | act |
//! |---|---|
//! | `inputs` | reads config, data, base models, code and environment into records that are not yet stored |
//! | `environment` | what was declared of an environment, and what is met where an attempt runs |
//! | `freeze` | plans a run from inputs, or finds that it is planned already |
//! | `refuse` | refuses secrets and pointers before anything is stored |
//! | `drift` | compares what lies on disk with what a plan froze |
//! | `attempt` | starts and ends attempts |
//! | `evidence` | records checkpoints, datasets and models |
//! | `results` | records evaluations, and what documents claim |
//! | `text` | writes times, sizes and counts for people |
//!
//! Capture observes and the ledger writes; only here do they meet. Nothing here prints or reads a clock.

mod attempt;
mod drift;
mod environment;
mod evidence;
mod freeze;
mod inputs;
mod refuse;
mod results;
mod text;

use std::path::{Path, PathBuf};

use crate::capture::dataset::Pointer;
use crate::capture::{self, code, config, walk, weights};
use crate::id::ObjectId;
use crate::ledger;
use crate::model::{self, Name, TypedId};

pub use attempt::{Ended, StartRequest, Started, attempt_at, end, start};
pub use drift::{Difference, Drift, compare_plans, compare_recorded, drift};
pub use evidence::{
    CheckpointRequest, NamedContent, Recorded, Subject, Whose, checkpoint_of, note, observe_as_it_is,
    observe_checkpoint, observe_subject, record_checkpoint, record_content, record_observed,
};
pub use freeze::{
    Frozen, RUN_FILES, RunFiles, Target, freeze, plan_only, restore_run_files, run_files, run_files_of,
};
pub use inputs::{Input, Inputs, Machine, Part, Request, observe};
pub use results::{EvalRequest, record_eval, result_files, said_subjects};
pub use text::{count, rfc3339, size};

/// Random bytes for nonces and salts, as the caller draws them.
pub type Entropy<'a> = dyn FnMut(&mut [u8]) + 'a;

/// Why an act cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// A config file.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A path cannot be fingerprinted.
    #[error(transparent)]
    Walk(#[from] walk::Error),
    /// A lock file.
    #[error(transparent)]
    Lock(#[from] capture::environment::LockError),
    /// Untracked files cannot be listed.
    #[error(transparent)]
    Code(#[from] code::Error),
    /// A checkpoint directory.
    #[error(transparent)]
    Weights(#[from] weights::Error),
    /// A results file.
    #[error("the results in `{}` cannot be read", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: capture::results::Error,
    },
    /// Results that do not go together, or a directory that has none.
    #[error(transparent)]
    Joined(capture::results::Error),
    /// A document of claims where results are wanted.
    #[error("`{}` holds claims and no results of an evaluation", path.display())]
    ClaimsOnly {
        /// The file.
        path: PathBuf,
    },
    /// A file that is needed whole cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A config's format cannot be told from its name.
    #[error("`{}` is neither JSON nor YAML nor TOML by its name", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// Values of the config are to be computed or filled in.
    #[error("{}", unresolved(what))]
    Unresolved {
        /// Which, and in what file.
        what: config::Error,
        /// The job of Hydra's that the file belongs to.
        job: Option<Box<config::hydra::Job>>,
    },
    /// The directory of a sweep was given where one config is needed.
    #[error("`{}` is a multirun of {}, each with a config of its own", path.display(), count(jobs.len() as u64, "job"))]
    Multirun {
        /// The directory.
        path: PathBuf,
        /// The jobs' directories.
        jobs: Vec<PathBuf>,
    },
    /// A pointer stands where data were named.
    #[error("{}", pointed(pointers))]
    Pointer {
        /// All that were met, one at least.
        pointers: Vec<Pointer>,
    },
    /// A file that would be stored as it is holds a secret.
    #[error("`{name}` holds what looks like a secret, and what is frozen is kept for ever")]
    Secret {
        /// The file.
        name: String,
        /// Where, and what it looks like; never the secret.
        found: Vec<String>,
    },
    /// Tracked files differ from the commit.
    #[error("{} from commit {}", differing(files.len()), &commit[..commit.len().min(7)])]
    DirtyTree {
        /// The commit.
        commit: String,
        /// Files with one letter of git's status.
        files: Vec<(String, char)>,
        /// Bytes of the difference.
        diff: usize,
    },
    /// What would start, or be frozen, is not what was frozen.
    #[error("{} was frozen from other inputs", run.short())]
    Drift {
        /// The run.
        run: TypedId,
        /// What differs.
        differences: Vec<Difference>,
        /// What was found to be the same.
        same: Vec<String>,
    },
    /// What was frozen is not at hand to compare with.
    #[error("what {} was frozen from is not available: {what}", run.short())]
    NotAvailable {
        /// The run.
        run: TypedId,
        /// What is missing.
        what: String,
    },
    /// The run's latest attempt completed.
    #[error("{} has completed", run.short())]
    Completed {
        /// The run.
        run: TypedId,
    },
    /// There is no attempt to end.
    #[error("{} has not been started", run.short())]
    NoAttempt {
        /// The run.
        run: TypedId,
    },
    /// The attempt ended otherwise.
    #[error("the attempt of {} has ended otherwise: {status}", run.short())]
    EndedOtherwise {
        /// The run.
        run: TypedId,
        /// How.
        status: String,
    },
    /// A name that somebody else holds, or that is in use for another run.
    #[error("the name `{name}` is held by {holder}")]
    NameHeld {
        /// The name.
        name: Name,
        /// Who holds it.
        holder: String,
    },
    /// A checkpoint that is still being written or was cut off.
    #[error("`{}` is still being written or was cut off", path.display())]
    Incomplete {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        problems: Vec<String>,
    },
    /// What lies there only says where the weights are.
    #[error("`{}` holds pointers in the place of files", path.display())]
    NotFetched {
        /// The directory.
        path: PathBuf,
        /// The pointers.
        problems: Vec<String>,
        /// The command that brings the files.
        fetch: &'static str,
    },
    /// No attempt could have written this.
    #[error("no run here was under way when `{}` was written", path.display())]
    WhichRun {
        /// The checkpoint.
        path: PathBuf,
    },
    /// The subject of an evaluation changed while the harness ran.
    #[error("the subject changed while it was evaluated")]
    SubjectChanged {
        /// Weights tree before.
        before: ObjectId,
        /// Weights tree after.
        after: ObjectId,
    },
}

impl From<model::Error> for Error {
    fn from(error: model::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl From<crate::durable::Error> for Error {
    fn from(error: crate::durable::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl From<crate::store::Error> for Error {
    fn from(error: crate::store::Error) -> Self {
        Self::Ledger(error.into())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Read { path: path.to_owned(), source };
    // A FIFO would keep us waiting for its writer, and a device may have no end.
    if !std::fs::metadata(path).map_err(fail)?.is_file() {
        return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    std::fs::read(path).map_err(fail)
}

/// Says how many values of a config are not final, and of what sort they are.
fn unresolved(error: &config::Error) -> String {
    let config::Problem::Unresolved(found) = &error.problem else { return error.to_string() };
    let missing = found.iter().filter(|value| value.text == "???").count();
    let mut parts = Vec::new();
    let computed = found.len() - missing;
    if computed > 0 {
        parts.push(format!("{} to be computed", count(computed as u64, "value")));
    }
    if missing > 0 {
        parts.push(format!("{} to be filled in", count(missing as u64, "value")));
    }
    format!("`{}` is not final: {}", error.file, parts.join(", "))
}

/// Says what stands in the place of data.
fn pointed(pointers: &[Pointer]) -> String {
    let first = match pointers.first() {
        Some(Pointer::Lfs { path, size, .. }) => {
            format!("`{}` is a git-lfs pointer to {size} bytes, not the data", path.display())
        }
        Some(Pointer::Dvc { path, .. }) => format!("`{}` is a DVC pointer, not the data", path.display()),
        Some(Pointer::Annex { path }) => format!("`{}` is a git-annex pointer, not the data", path.display()),
        None => "a pointer is not the data".to_owned(),
    };
    if pointers.len() > 1 { format!("{first}, and {} more", pointers.len() - 1) } else { first }
}

/// Says how many tracked files differ.
fn differing(files: usize) -> String {
    let differ = if files == 1 { "differs" } else { "differ" };
    format!("{} {differ}", count(files as u64, "tracked file"))
}

/// Draws `N` random bytes.
fn draw<const N: usize>(entropy: &mut Entropy<'_>) -> model::Fixed<N> {
    let mut bytes = [0; N];
    entropy(&mut bytes);
    model::Fixed(bytes)
}

/// Returns a path as records hold it: relative with `/` where it lies under the project, else nothing.
fn project_path(path: &Path, project: &Path) -> Option<String> {
    let absolute = std::path::absolute(path).ok()?;
    let project = std::path::absolute(project).ok()?;
    let relative = absolute.strip_prefix(&project).ok()?;
    let text = crate::model::content::escape(relative.as_os_str().as_encoded_bytes());
    Some(if text.is_empty() { ".".to_owned() } else { text })
}

/// Returns a path for the private record: relative where it lies under the project, so that a moved project is
/// found again, else absolute.
fn private_path(path: &Path, project: &Path) -> String {
    project_path(path, project).unwrap_or_else(|| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        crate::model::content::escape(absolute.as_os_str().as_encoded_bytes())
    })
}

/// Turns a path out of a private record back into one that can be opened.
pub(crate) fn open_private_path(text: &str, project: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = crate::model::content::unescape(text).unwrap_or_else(|| text.as_bytes().to_vec());
    project.join(std::ffi::OsString::from_vec(bytes))
}
