//! `ledger verify`: what lies here, where it came from, and whether anything is wrong with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::capture::code::AllowedSigners;
use crate::id::Digests;
use crate::ledger::{Ledger, ResolveError, Wanted};
use crate::model::{Kind, TypedId};
use crate::verify::{self, Answer as Verdict, Report, Request, Subject};

use super::error::Failure;
use super::report;
use super::settings::{Context, quoted};
use super::ui::{Answer, Exit, Finding, Severity, Ui, plain};

/// Verify bytes, signatures and lineage of a checkpoint
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger verify out/step-300\n  ledger verify out/step-300 --is ck:7f3a19 --repo .")]
pub(super) struct Args {
    /// A directory or file, or an id, whose files are then not read
    #[arg(value_name = "DIR|ID", default_value = ".")]
    subject: String,
    /// What it must be; default is what it resembles most
    #[arg(long, value_name = "ID|NAME")]
    is: Option<String>,
    /// A trusted ledger's id, or a trust file
    #[arg(long, value_name = "ID|FILE")]
    trust: Option<String>,
    /// The repository that must hold the commit
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Git's file of allowed signers, of whom one must have signed it
    #[arg(long, value_name = "FILE", requires = "repo")]
    signers: Option<PathBuf>,
    /// What must be equal: bytes, or tensors in whatever files
    #[arg(long, value_name = "WHAT", default_value = "bytes", hide_possible_values = true)]
    by: By,
    /// Digests to compare: blake3, or all
    #[arg(long, value_name = "WHICH", default_value = "blake3", hide_possible_values = true)]
    digests: Which,
    /// For new files that a loader reads: deny, warn or allow
    #[arg(long, value_name = "HOW", default_value = "deny", hide_possible_values = true)]
    extra: Extra,
    /// Answer as of a log of this many statements
    #[arg(long, value_name = "N")]
    as_of: Option<u64>,
    /// Read data and base models again where they were
    #[arg(long)]
    data: bool,
    /// Fold the whole log again and follow every tree
    #[arg(long)]
    full: bool,
    /// Map large files instead of reading them, where BLAKE3 alone is made; one that is cut off meanwhile ends this
    /// command
    #[arg(long, hide_short_help = true)]
    mmap: bool,
    /// Write the findings to a file, too: junit=FILE or md=FILE
    #[arg(long, value_name = "FORM=FILE", value_parser = report::parse, hide_short_help = true)]
    report: Vec<report::Wanted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum By {
    Bytes,
    Tensors,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Which {
    Blake3,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Extra {
    Deny,
    Warn,
    Allow,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let result = verify(args, context);
    report::write(&args.report, &args.subject, &result, context)?;
    result
}

fn verify(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let trust = context.trust(args.trust.as_deref())?;
    context.ui.verbose(1, format!("note: trust comes from {}", trust.source));
    let request = Request {
        is: args.is.as_deref().map(|text| wanted(text, &ledger)).transpose()?,
        by_tensors: args.by == By::Tensors,
        digests: if args.digests == Which::All { Digests::All } else { Digests::Blake3 },
        extra: match args.extra {
            Extra::Deny => verify::Extra::Deny,
            Extra::Warn => verify::Extra::Warn,
            Extra::Allow => verify::Extra::Allow,
        },
        repo: args.repo.clone(),
        signers: args.signers.as_deref().map(allowed_signers).transpose()?,
        data: args.data,
        trust: trust.ledgers,
        as_of: args.as_of,
        full: args.full,
        is_mapped: args.mmap,
        ..Request::new(subject(&args.subject, &ledger, context)?)
    };
    let progress = context.ui.progress("hashed", None);
    let report = verify::verify(&ledger, &request, &|bytes| progress.add(bytes))?;
    drop(progress);
    Ok(answer(&report, &args.subject, &ledger, context))
}

fn allowed_signers(path: &Path) -> Result<AllowedSigners, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new("no-signers", Exit::Unknown, format!("cannot read `{}`: {error}", path.display()))
            .hint("git config gpg.ssh.allowedSignersFile")
    })?;
    AllowedSigners::parse(&text).map_err(|error| {
        Failure::usage(format!("`{}`: {error}", path.display())).hint("man ssh-keygen, ALLOWED SIGNERS")
    })
}

/// Takes a text for a path if there is one, unless it is spelt as an id.
pub(super) fn subject(text: &str, ledger: &Ledger, context: &Context) -> Result<Subject, Failure> {
    let is_id = text.split_once(':').is_some_and(|(prefix, _)| Kind::from_prefix(prefix).is_some());
    if !is_id && Path::new(text).exists() {
        return Ok(Subject::Path(PathBuf::from(text)));
    }
    match ledger.resolve(text, Wanted::Any, context.filled("LEDGER_RUN")) {
        Ok(id) => Ok(Subject::Id(id)),
        Err(ResolveError::Nothing(_)) if !is_id => {
            let message = format!("`{text}` is neither a path nor an id in this ledger");
            Err(Failure::new("no-such-id", Exit::Unknown, message).hint("ledger ls checkpoints"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds what `--is` names: a name is a checkpoint's before it is anything else's.
fn wanted(text: &str, ledger: &Ledger) -> Result<TypedId, Failure> {
    let found = match ledger.resolve(text, Wanted::Kind(Kind::Checkpoint), None) {
        Err(ResolveError::Nothing(_) | ResolveError::WrongKind { .. }) => {
            ledger.resolve(text, Wanted::Any, None)?
        }
        found => found?,
    };
    match found.kind {
        Kind::Checkpoint | Kind::Dataset | Kind::Model => Ok(found),
        _ => Err(Failure::usage(format!("`{text}` is {}, which has no bytes on disk", found.short()))
            .hint("ledger ls checkpoints")),
    }
}

fn answer(report: &Report, asked: &str, ledger: &Ledger, context: &Context) -> Answer {
    let verdict = report.answer();
    let mut answer = Answer::new("ledger.verify/1");
    let (severity, word, exit) = match verdict {
        Verdict::Yes => (Severity::Ok, "yes", Exit::Ok),
        Verdict::No => (Severity::Fail, "no", Exit::No),
        Verdict::NotRecorded => (Severity::Unknown, "not-recorded", Exit::Unknown),
        Verdict::Unknown => (Severity::Unknown, "unknown", Exit::Unknown),
        Verdict::Damaged => (Severity::Fail, "damaged", Exit::Damaged),
    };
    answer.exit = exit;
    answer.line(format!("{}  {}", padded(&context.ui, severity), plain(&sentence(report, asked))));
    answer.findings = report.findings.iter().map(told).collect();
    let is_other = answer.findings.iter().any(|finding| finding.kind == "not-that-one");
    let asks_tensors = answer.findings.iter().any(|finding| finding.kind == "tensors");
    let mut hints = BTreeSet::new();
    for finding in &mut answer.findings {
        // Bytes that differ from those of another checkpoint are no surprise; and tensors were asked about already.
        if (is_other || asks_tensors) && finding.kind == "wrong-bytes" {
            continue;
        }
        // What stands before a mark needs no help.
        if finding.kind == "compromised" && finding.severity == Severity::Ok {
            continue;
        }
        let Some((when, command)) = hint(&finding.kind, asked, ledger) else { continue };
        hints.insert(if when.is_empty() { command.clone() } else { format!("{when}: {command}") });
        finding.hint = Some(command);
    }
    list(&mut answer, &context.ui);
    for hint in hints {
        answer.line(format!("hint: {hint}"));
    }
    answer.set("answer", word);
    let is_bytes = |one: &verify::Finding| one.slug == "bytes" && one.severity == verify::Severity::Ok;
    let equal = match () {
        () if report.findings.iter().any(is_bytes) => Some("bytes"),
        () if is_by_tensors(report) => Some("tensors"),
        () => None,
    };
    answer.set("by", equal);
    answer.set("subject", report.subject.map(|id| id.to_string()));
    answer.set("path", report.place.clone());
    answer.set("run", report.run.map(|id| id.to_string()));
    answer.set("ledger", ledger.id().to_hex());
    answer.set("size", Value::from(ledger.head().head().size));
    answer
}

/// Says the answer in one sentence.
fn sentence(report: &Report, asked: &str) -> String {
    let Some(id) = report.subject else {
        return match report.answer() {
            Verdict::NotRecorded => format!("nothing in this ledger is what lies in {asked}"),
            _ => format!("{asked} could not be verified"),
        };
    };
    let place = report.place.as_ref().map_or(String::new(), |path| format!(" {path}"));
    let what = format!("{}{place}", id.short());
    let worst = report.findings.iter().max_by_key(|finding| finding.severity);
    let why = worst.map_or("", |finding| finding.message.as_str());
    let has = |slug: &str| report.findings.iter().any(|finding| finding.slug == slug);
    match (report.answer(), report.run) {
        (Verdict::Yes, _) if is_by_tensors(report) => {
            format!("{asked} holds the tensors of {what}, in other files")
        }
        (Verdict::Yes, Some(run)) => format!("{what} is what {} made", run.short()),
        (Verdict::Yes, None) => format!("{what} is as recorded"),
        (Verdict::No, _) if has("not-that-one") => format!("{asked} is not {what}"),
        (Verdict::No, _) if has("wrong-bytes") || has("extra-file") || has("other-code") => {
            format!("{asked} is not what was recorded as {}", id.short())
        }
        (Verdict::No, _) => format!("{what} is not to be relied on: {why}"),
        (Verdict::Damaged, _) => format!("the ledger is damaged: {why}"),
        _ => format!("{what} cannot be decided: {why}"),
    }
}

/// Whether the weights are what was recorded by their tensors, and not by their bytes.
fn is_by_tensors(report: &Report) -> bool {
    let is_one = |one: &verify::Finding| one.slug == "tensors" && one.severity == verify::Severity::Ok;
    report.findings.iter().any(is_one)
}

/// Returns the command that helps with a finding, after the words that say when it does.
fn hint(slug: &str, asked: &str, ledger: &Ledger) -> Option<(&'static str, String)> {
    let asked = quoted(Path::new(asked));
    match slug {
        "signer-not-trusted" => Some(("", format!("ledger key trust {}", ledger.id()))),
        "wrong-bytes" => {
            Some(("if it was saved again on purpose", format!("ledger verify {asked} --by tensors")))
        }
        "not-recorded" => Some(("if a run here made it", format!("ledger record checkpoint {asked}"))),
        "compromised" => Some((
            "if it is yours, say it again with your new key",
            format!("ledger record checkpoint {asked}"),
        )),
        "too-many" => Some(("", format!("ledger verify {asked} --is ck:ID"))),
        "damaged" | "claim-differs" | "log" => Some(("", "ledger fsck".to_owned())),
        _ => None,
    }
}

/// Turns a finding of the library into one that is printed.
pub(super) fn told(finding: &verify::Finding) -> Finding {
    Finding {
        kind: finding.slug.to_owned(),
        id: finding.subject.map(|id| id.to_string()),
        severity: match finding.severity {
            verify::Severity::Ok => Severity::Ok,
            verify::Severity::Skip => Severity::Skip,
            verify::Severity::Warn => Severity::Warn,
            verify::Severity::Unknown => Severity::Unknown,
            verify::Severity::Fail | verify::Severity::Damaged => Severity::Fail,
        },
        at: finding.at.clone(),
        message: finding.message.clone(),
        hint: None,
    }
}

/// Adds a line for each finding, aligned.
pub(super) fn list(answer: &mut Answer, ui: &Ui) {
    let width = answer.findings.iter().map(|finding| finding.kind.len()).max().unwrap_or(0);
    let lines: Vec<String> = answer
        .findings
        .iter()
        .map(|finding| {
            let at = finding.at.as_ref().map_or(String::new(), |at| format!("{at}: "));
            let text = plain(&format!("{at}{}", finding.message));
            format!("  {}  {:<width$}  {text}", padded(ui, finding.severity), finding.kind)
        })
        .collect();
    for line in lines {
        answer.line(line);
    }
}

/// Returns a severity's word in a column of its own, whatever colours it has.
pub(super) fn padded(ui: &Ui, severity: Severity) -> String {
    const WIDEST: usize = "unknown".len();
    format!("{}{}", ui.word(severity), " ".repeat(WIDEST - severity.word().len()))
}
