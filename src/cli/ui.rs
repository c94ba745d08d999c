//! Everything that is printed: answers to standard output, talk to standard error, one JSON document on request.
//!
//! No other file writes to either stream. What an answer says is the commands' business, and which words an
//! error gets stands in `error.rs`.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

pub(super) use crate::acts::{count, rfc3339 as time, size};

use super::error::Failure;

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Exit {
    /// Everything asked for was done and checked.
    #[default]
    Ok = 0,
    /// The answer is no.
    No = 1,
    /// A flag, contract, policy or configuration is wrong.
    Usage = 2,
    /// It cannot be decided.
    Unknown = 3,
    /// It would drift from or overwrite something.
    Refused = 4,
    /// The ledger itself is damaged.
    Damaged = 5,
    /// Try again.
    Busy = 6,
    /// A mistake in this program.
    Bug = 70,
    /// Whoever read standard output has gone; this is said to nobody.
    ClosedPipe = 141,
}

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Severity {
    /// It was checked and holds.
    Ok,
    /// It holds, and somebody should look.
    Warn,
    /// It does not hold.
    Fail,
    /// It was not checked, and nobody had asked for it.
    Skip,
    /// It could not be checked.
    Unknown,
}

impl Severity {
    /// Returns the word in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing that was found, as `findings[]` holds it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// A slug.
    pub(crate) kind: String,
    /// What it is about.
    pub(crate) id: Option<String>,
    /// How grave it is.
    pub(crate) severity: Severity,
    /// Where it was found: a path, a place in the log, a field.
    pub(crate) at: Option<String>,
    /// One sentence without a period.
    pub(crate) message: String,
    /// A command that helps when pasted.
    pub(crate) hint: Option<String>,
}

impl Finding {
    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind,
            "id": self.id,
            "severity": self.severity.word(),
            "at": self.at,
            "message": self.message,
            "hint": self.hint,
        })
    }
}

/// What a command answers.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The exit code.
    pub(crate) exit: Exit,
    /// Standard output for people: empty, or lines that each end in a newline.
    pub(crate) text: String,
    /// Further fields of the JSON document.
    pub(crate) data: Map<String, Value>,
    /// What was found.
    pub(crate) findings: Vec<Finding>,
    /// Name and version of the document's shape, such as `ledger.verify/1`.
    pub(crate) schema: &'static str,
    /// Exits with a child's code instead.
    pub(crate) child: Option<i32>,
}

impl Answer {
    /// Begins an answer that says nothing yet and exits with 0.
    pub(crate) fn new(schema: &'static str) -> Self {
        Self {
            exit: Exit::Ok,
            text: String::new(),
            data: Map::new(),
            findings: Vec::new(),
            schema,
            child: None,
        }
    }

    /// Adds a line for people.
    pub(crate) fn line(&mut self, text: impl Display) {
        use std::fmt::Write as _;
        let _ = writeln!(self.text, "{text}");
    }

    /// Sets a field of the JSON document.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.data.insert(key.to_owned(), value.into());
    }

    fn code(&self) -> i32 {
        self.child.unwrap_or(self.exit as i32)
    }

    fn to_json(&self) -> Value {
        let mut document = self.data.clone();
        let findings: Vec<Value> = self.findings.iter().map(Finding::to_json).collect();
        document.insert("schema".to_owned(), self.schema.into());
        document.insert("ok".to_owned(), (self.code() == 0).into());
        document.insert("exit".to_owned(), self.code().into());
        document.insert("findings".to_owned(), findings.into());
        Value::Object(document)
    }
}

/// The form of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// Lines for people and pipes.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Of a list one JSON document for each row; of anything else one line.
    JsonLines,
}

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to tell of progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum ProgressForm {
    /// A line that is rewritten on a terminal, else as `plain`.
    #[default]
    Auto,
    /// One line every ten seconds.
    Plain,
    /// One JSON document every second.
    Json,
    /// Nothing.
    None,
}

/// What the command line and the environment say about output.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag or a variable")]
pub(crate) struct Style {
    pub(crate) format: Format,
    pub(crate) is_quiet: bool,
    pub(crate) verbosity: u8,
    pub(crate) color: When,
    pub(crate) progress: ProgressForm,
    /// `NO_COLOR` is set and not empty.
    pub(crate) no_color: bool,
    /// `CLICOLOR_FORCE` is set to something other than `0`.
    pub(crate) force_color: bool,
    /// The terminal knows no colours.
    pub(crate) is_dumb: bool,
}

impl Style {
    const fn colors(self, is_terminal: bool) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto if self.no_color => false,
            When::Auto => self.force_color || (is_terminal && !self.is_dumb),
        }
    }
}

const RED: &str = "31;1";
const GREEN: &str = "32";
const YELLOW: &str = "33;1";
const CYAN: &str = "36";
const DIM: &str = "2";

/// The two streams of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    style: Style,
    colors_out: bool,
    colors_err: bool,
}

impl Ui {
    /// Looks at the streams once.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            colors_out: style.format == Format::Text && style.colors(io::stdout().is_terminal()),
            colors_err: style.colors(io::stderr().is_terminal()),
            style,
        }
    }

    /// Returns whether standard output is JSON, in one document or in lines.
    pub(crate) fn is_json(&self) -> bool {
        self.style.format != Format::Text
    }

    /// Returns whether `-v` was given this many times.
    pub(crate) const fn is_verbose(&self, level: u8) -> bool {
        self.style.verbosity >= level
    }

    /// Tells people something on standard error, unless `-q`.
    pub(crate) fn talk(&self, line: impl Display) {
        if !self.style.is_quiet {
            err(&line.to_string());
        }
    }

    /// Writes a question as it stands; whoever asks was called by somebody who wants to be asked.
    #[expect(clippy::unused_self, reason = "all that is printed goes through here")]
    pub(super) fn ask(&self, question: &str) {
        let _ = io::stderr().lock().write_all(question.as_bytes());
    }

    /// Warns on standard error, also with `-q`.
    pub(crate) fn warn(&self, line: impl Display) {
        err(&format!("{} {line}", self.paint_err(YELLOW, "warning:")));
    }

    /// Tells something on standard error with `-v` (level 1) or `-vv` (level 2).
    pub(crate) fn verbose(&self, level: u8, line: impl Display) {
        if self.is_verbose(level) {
            err(&line.to_string());
        }
    }

    /// Gives one row of a list: a line for people, a line of JSON, or an element of the document's array `key`.
    pub(crate) fn row(
        &self,
        answer: &mut Answer,
        key: &str,
        line: impl Display,
        value: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        match self.style.format {
            Format::Text => out(&format!("{line}\n")),
            Format::JsonLines => out(&format!("{}\n", value())),
            Format::Json => {
                let rows = answer.data.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(rows) = rows {
                    rows.push(value());
                }
                Ok(())
            }
        }
    }

    /// Returns whether rows are printed as they come and the document at the end is left out.
    pub(crate) fn is_lines(&self) -> bool {
        self.style.format == Format::JsonLines
    }

    /// Returns a finding's word for standard output: `ok`, `warn`, `FAIL`, `skip` or `unknown`.
    pub(crate) fn word(&self, severity: Severity) -> String {
        let (color, word) = match severity {
            Severity::Ok => (GREEN, "ok"),
            Severity::Warn => (YELLOW, "warn"),
            Severity::Fail => (RED, "FAIL"),
            Severity::Skip => (DIM, "skip"),
            Severity::Unknown => (YELLOW, "unknown"),
        };
        paint(self.colors_out, color, word)
    }

    fn paint_err(&self, color: &str, text: &str) -> String {
        paint(self.colors_err, color, text)
    }

    /// Returns whether somebody looks at standard output, who could not read raw bytes.
    #[expect(clippy::unused_self, reason = "the streams are asked here only")]
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Returns standard output for raw bytes.
    #[expect(clippy::unused_self, reason = "all output goes through here")]
    pub(crate) fn bytes(&self) -> impl io::Write + use<> {
        io::stdout().lock()
    }

    /// Begins to tell of bytes that are read; `total` is known or not.
    pub(crate) fn progress(&self, what: &'static str, total: Option<u64>) -> Progress {
        let form = match self.style.progress {
            _ if self.style.is_quiet => ProgressForm::None,
            ProgressForm::Auto if !io::stderr().is_terminal() || self.style.is_dumb => ProgressForm::Plain,
            form => form,
        };
        let (done, shown) = (AtomicU64::new(0), Mutex::new(Shown::new()));
        Progress { what, noun: None, total, form, done, shown }
    }

    /// Starts to tell of things done, whose number is not known beforehand.
    pub(crate) fn tally(&self, what: &'static str, noun: &'static str) -> Progress {
        let mut tally = self.progress(what, None);
        tally.noun = Some(noun);
        tally
    }

    /// Prints how a command ended and returns its exit code.
    pub(crate) fn finish(&self, result: Result<Answer, Failure>) -> ExitCode {
        let code = match result {
            Ok(answer) => {
                let code = answer.code();
                match self.print(&answer) {
                    Ok(()) => code,
                    Err(failure) => self.fail(&failure),
                }
            }
            Err(failure) => self.fail(&failure),
        };
        // A child that a signal ended has no code of its own; the caller maps it before it comes here.
        ExitCode::from(u8::try_from(code).unwrap_or(1))
    }

    fn print(&self, answer: &Answer) -> Result<(), Failure> {
        match self.style.format {
            Format::Text if answer.text.is_empty() => Ok(()),
            Format::Text => out(&answer.text),
            Format::Json => out(&format!("{:#}\n", answer.to_json())),
            Format::JsonLines if answer.data.contains_key(STREAMED) => Ok(()),
            Format::JsonLines => out(&format!("{}\n", answer.to_json())),
        }
    }

    fn fail(&self, failure: &Failure) -> i32 {
        let exit = failure.exit as i32;
        if failure.exit == Exit::ClosedPipe {
            return exit;
        }
        let printed = match self.style.format {
            Format::Text => {
                self.explain(failure);
                return exit;
            }
            Format::Json => out(&format!("{:#}\n", failure.to_json())),
            Format::JsonLines => out(&format!("{}\n", failure.to_json())),
        };
        match printed {
            Ok(()) => exit,
            Err(closed) if closed.exit == Exit::ClosedPipe => closed.exit as i32,
            // The document cannot be had; the words still can.
            Err(_) => {
                self.explain(failure);
                exit
            }
        }
    }

    fn explain(&self, failure: &Failure) {
        let label = format!("error[{}]:", failure.slug);
        let mut text = format!("{} {}", self.paint_err(RED, &label), plain(&failure.message));
        for fact in &failure.facts {
            text.push_str("\n  ");
            text.push_str(&plain(fact));
        }
        for cause in failure.causes() {
            text.push_str("\ncaused by: ");
            text.push_str(&plain(&cause));
        }
        if let Some(hint) = &failure.hint {
            let hint = plain(hint).replace('\n', "\n      ");
            text = format!("{text}\n{} {hint}", self.paint_err(CYAN, "hint:"));
        }
        err(&text);
    }
}

/// A field that says that the rows of a list have been printed one by one.
const STREAMED: &str = "streamed";

impl Answer {
    /// Ends a list whose rows were given with [`Ui::row`].
    pub(crate) fn end_list(&mut self, ui: &Ui, key: &str) {
        if ui.is_lines() {
            self.set(STREAMED, true);
        } else {
            self.data.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        }
    }
}

/// Prints help or a version, which clap words.
pub(super) fn print_help(text: &str) -> ExitCode {
    let code = match out(text) {
        Ok(()) => 0,
        Err(failure) => failure.exit as u8,
    };
    ExitCode::from(code)
}

/// Prints to standard output and hands the bytes to the system, so that nothing is lost or late.
fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::stdout)
}

/// Prints a line to standard error. Where nobody reads it there is nobody to tell.
fn err(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

fn paint(colors: bool, color: &str, text: &str) -> String {
    if colors { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Escapes control characters other than newline and tab: text of others must not steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_control) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_control(c) { format!("\\u{{{:x}}}", u32::from(c)) } else { c.to_string() })
        .collect()
}

/// Tells of progress from several threads at once.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    /// What is counted; bytes if nothing is said.
    noun: Option<&'static str>,
    total: Option<u64>,
    form: ProgressForm,
    done: AtomicU64,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    start: Instant,
    last: Option<Instant>,
}

impl Shown {
    fn new() -> Self {
        Self { start: Instant::now(), last: None }
    }
}

impl Progress {
    /// Counts bytes, or whatever it was started for.
    pub(crate) fn add(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let every = match self.form {
            ProgressForm::None => return,
            ProgressForm::Auto => Duration::from_millis(200),
            ProgressForm::Plain => Duration::from_secs(10),
            ProgressForm::Json => Duration::from_secs(1),
        };
        // Whoever finds it taken leaves the telling to the other thread.
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.last.unwrap_or(shown.start).elapsed() < every {
            return;
        }
        shown.last = Some(Instant::now());
        let rate = done as f64 / shown.start.elapsed().as_secs_f64();
        self.show(done, rate as u64);
    }

    fn show(&self, done: u64, rate: u64) {
        let of = self.total.map(|total| format!(" of {}", size(total))).unwrap_or_default();
        let line = match self.noun {
            None => format!("{} {}{of}, {}/s", self.what, size(done), size(rate)),
            Some(noun) => format!("{} {}, {rate}/s", self.what, count(done, noun)),
        };
        match self.form {
            ProgressForm::Auto => {
                let _ = io::stderr().lock().write_all(format!("\r\x1b[2K{line}").as_bytes());
            }
            ProgressForm::Json => {
                let unit = self.noun.unwrap_or("byte");
                err(&json!({"progress": self.what, "unit": unit, "done": done, "total": self.total})
                    .to_string());
            }
            _ => err(&line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let was_shown = self.shown.get_mut().is_ok_and(|shown| shown.last.is_some());
        if self.form == ProgressForm::Auto && was_shown {
            let _ = io::stderr().lock().write_all(b"\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_flag_then_environment_then_terminal() {
        let auto = Style::default();
        assert!(auto.colors(true));
        assert!(!auto.colors(false));
        assert!(!Style { is_dumb: true, ..auto }.colors(true));
        assert!(!Style { no_color: true, force_color: true, ..auto }.colors(true));
        assert!(Style { force_color: true, ..auto }.colors(false));
        assert!(Style { color: When::Always, no_color: true, ..auto }.colors(false));
        assert!(!Style { color: When::Never, force_color: true, ..auto }.colors(true));
    }

    #[test]
    fn text_of_others_cannot_steer_a_terminal() {
        assert_eq!(plain("a\tb\nc"), "a\tb\nc");
        assert_eq!(plain("\x1b[2Jkim\u{9b}"), "\\u{1b}[2Jkim\\u{9b}");
    }
}
