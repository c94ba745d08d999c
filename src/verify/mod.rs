//! Verifying: what lies here, where it came from, and whether anything is wrong with it. Every check, all findings.
//!
//! `bytes` compares a directory with what is recorded, `extra` looks at what lies there besides, `statement` re-checks signatures and places in the log,
//! `claim` compares a claim with its record, `chain` follows a claim to everything that it rests on, `marks` says
//! what was revoked, and `outside` asks the repository and the data. Nothing here is written, and the folded state is a place to look
//! things up, never a reason to believe them: what an answer rests on is read from the log and checked again.

mod bytes;
mod chain;
mod claim;
mod extra;
mod marks;
mod outside;
mod statement;

use std::fmt;
use std::path::PathBuf;

use crate::capture::code::AllowedSigners;
use crate::capture::{walk, weights};
use crate::id::{Digests, LedgerId, ObjectId};
use crate::ledger::{self, Ledger};
use crate::model::TypedId;

pub use bytes::identify;
pub(crate) use claim::held;
pub use marks::{Notice, compromised_keys, notices};
pub(crate) use statement::chain_text;

/// Of the checkpoints in a ledger, so many are compared one by one to find the one that a directory resembles.
pub const MAX_COMPARED: usize = 10_000;

/// Why nothing could be verified. What is wrong with the subject is a finding, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files under verification cannot be read.
    #[error(transparent)]
    Walk(#[from] walk::Error),
    /// The weights under verification cannot be read.
    #[error(transparent)]
    Weights(#[from] weights::Error),
    /// The ledger cannot be read; what can be read and is wrong is a finding.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// What one finding means for the answer, from nothing to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Checked, and it holds.
    Ok,
    /// Not asked for, so not checked.
    Skip,
    /// Worth knowing; the answer stays.
    Warn,
    /// It cannot be decided.
    Unknown,
    /// The answer is no.
    Fail,
    /// The ledger itself does not hold together.
    Damaged,
}

/// One thing that was found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// A stable word for what it is about.
    pub slug: &'static str,
    /// What it means for the answer.
    pub severity: Severity,
    /// The object that it is about.
    pub subject: Option<TypedId>,
    /// The file or place that it is about.
    pub at: Option<String>,
    /// One sentence.
    pub message: String,
}

impl Finding {
    /// Makes a finding about nothing in particular.
    pub fn new(severity: Severity, slug: &'static str, message: impl Into<String>) -> Self {
        Self { slug, severity, subject: None, at: None, message: message.into() }
    }

    /// Says which object it is about.
    #[must_use]
    pub const fn on(mut self, subject: TypedId) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Says which file or place it is about.
    #[must_use]
    pub fn at(mut self, at: impl Into<String>) -> Self {
        self.at = Some(at.into());
        self
    }
}

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// Everything that was asked for was checked and holds.
    Yes,
    /// It is not what is recorded, or should not be relied on.
    No,
    /// Nothing that is recorded has anything in common with it.
    NotRecorded,
    /// Evidence is missing or the signer is not known.
    Unknown,
    /// The ledger itself is damaged.
    Damaged,
}

impl Answer {
    /// Returns the exit code that the answer has on a command line.
    pub const fn exit(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::NotRecorded | Self::Unknown => 3,
            Self::Damaged => 5,
        }
    }
}

/// Everything that was found out about one subject.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What the subject is, or was taken for; `None` when nothing recorded resembles it.
    pub subject: Option<TypedId>,
    /// Where the subject was when it was recorded, relative to the project.
    pub place: Option<String>,
    /// The run that made it.
    pub run: Option<TypedId>,
    /// All findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the answer: the worst finding decides.
    pub fn answer(&self) -> Answer {
        match self.findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Damaged) => Answer::Damaged,
            Some(Severity::Fail) => Answer::No,
            _ if self.subject.is_none() => Answer::NotRecorded,
            Some(Severity::Unknown) => Answer::Unknown,
            _ => Answer::Yes,
        }
    }

    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// What is to be verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A directory or file: its bytes, and what they are recorded as.
    Path(PathBuf),
    /// Something recorded; no file outside the ledger is read.
    Id(TypedId),
}

/// What to make of files that a loader reads and that are not part of the recorded weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Extra {
    /// They make the answer no.
    #[default]
    Deny,
    /// They are warned about, as other new files are.
    Warn,
    /// They are not mentioned.
    Allow,
}

/// A ledger whose signers the user trusts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trusted {
    /// The ledger.
    pub id: LedgerId,
    /// The user's word for it.
    pub name: Option<String>,
    /// The size that its log had at least when it was trusted.
    pub min_head: Option<u64>,
}

/// What to verify and how far.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own, asked by a flag")]
pub struct Request {
    /// What.
    pub subject: Subject,
    /// What it must be.
    pub is: Option<TypedId>,
    /// Whether equal tensors count as equal weights, however files divide them.
    pub by_tensors: bool,
    /// Digests that are made of files.
    pub digests: Digests,
    /// What to make of additional files.
    pub extra: Extra,
    /// Repository in which the commit must be.
    pub repo: Option<PathBuf>,
    /// Keys of which one must have signed that commit.
    pub signers: Option<AllowedSigners>,
    /// Whether data and base models are read again where they were.
    pub data: bool,
    /// Ledgers that are trusted.
    pub trust: Vec<Trusted>,
    /// The size of the log as of which to answer.
    pub as_of: Option<u64>,
    /// Whether trees are followed to their last node, and the log is folded again from its first statement.
    pub full: bool,
    /// Whether large files are mapped into memory rather than read.
    pub is_mapped: bool,
}

impl Request {
    /// Asks about a subject with nothing special.
    pub const fn new(subject: Subject) -> Self {
        Self {
            subject,
            is: None,
            by_tensors: false,
            digests: Digests::Blake3,
            extra: Extra::Deny,
            repo: None,
            signers: None,
            data: false,
            trust: Vec::new(),
            as_of: None,
            full: false,
            is_mapped: false,
        }
    }
}

/// Verifies a subject; `progress` is told of bytes as they are read, from several threads.
pub fn verify(ledger: &Ledger, request: &Request, progress: &(dyn Fn(u64) + Sync)) -> Result<Report, Error> {
    let mut report = Report::default();
    let known = ledger.places();
    let size = request.as_of.map_or(known, |size| size.min(known));
    match &request.subject {
        Subject::Path(path) => bytes::check(ledger, request, path, size, progress, &mut report)?,
        Subject::Id(id) => {
            report.subject = Some(*id);
            if let Some(wanted) = request.is.filter(|wanted| wanted != id) {
                let text = format!("{} is asked about, not {}", id.short(), wanted.short());
                report.add(Finding::new(Severity::Fail, "not-that-one", text).on(*id));
            }
            let text = "no files were compared: name a directory to compare its bytes";
            report.add(Finding::new(Severity::Skip, "bytes", text));
        }
    }
    chain::check(ledger, request, size, progress, &mut report)?;
    Ok(report)
}

/// A number of bytes for people, as `4,991,229,312 bytes`.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.char_indices() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        f.write_str(if self.0 == 1 { " byte" } else { " bytes" })
    }
}

/// A digest for people, as `b3:9c1d04aa10e0`; whoever compares with `b3sum` needs no more to tell two files apart.
struct Short(ObjectId);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b3:{}", &self.0.to_hex()[..12])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        use Severity::{Damaged, Fail, Ok, Skip, Unknown, Warn};
        let with = |severities: &[Severity], subject: Option<TypedId>| {
            let findings = severities.iter().map(|severity| Finding::new(*severity, "x", "x")).collect();
            Report { subject, findings, ..Report::default() }.answer()
        };
        let id = Some(TypedId::new(crate::model::Kind::Checkpoint, ObjectId::from_bytes([1; 32])));
        assert_eq!(with(&[Ok, Warn, Skip], id), Answer::Yes);
        assert_eq!(with(&[Ok, Unknown, Warn], id), Answer::Unknown);
        assert_eq!(with(&[Unknown, Fail], id), Answer::No);
        assert_eq!(with(&[Fail, Damaged, Unknown], id), Answer::Damaged);
        assert_eq!(with(&[Ok], None), Answer::NotRecorded);
        assert_eq!(with(&[Fail], None), Answer::No);
        let exits = [Answer::Yes, Answer::No, Answer::NotRecorded, Answer::Unknown, Answer::Damaged];
        assert_eq!(exits.map(Answer::exit), [0, 1, 3, 3, 5]);
    }

    #[test]
    fn numbers_of_bytes_are_grouped() {
        let texts = [0, 1, 999, 1000, 4_991_229_312].map(|size| Bytes(size).to_string());
        assert_eq!(texts, ["0 bytes", "1 byte", "999 bytes", "1,000 bytes", "4,991,229,312 bytes"]);
    }
}
