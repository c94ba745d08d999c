//! The command line: flags, dispatch, and what a shell gets back.
//!
//! A command file parses its flags, calls the library, and fills an `ui::Answer`. Only this module reads the
//! environment and the clock, prints, and chooses exit codes; the library takes what it needs as arguments.
//!
//! To add a command: one `mod` line, one variant of `Command`, one arm of `dispatch`. Its place among the
//! groups of `--help` stands in `help.rs`.

mod adopt;
mod attempt;
mod backup;
mod cat;
mod checkpoint;
mod child;
mod completions;
mod diff;
mod doctor;
mod entries;
mod error;
mod eval;
mod fork;
mod freeze;
mod fsck;
mod gaps;
mod hash;
mod head;
mod help;
mod init;
mod key;
mod keyring;
mod log;
mod ls;
mod man;
mod prompt;
mod prove;
mod reading;
mod record;
mod record_eval;
mod report;
mod revoke;
mod run;
mod sequence;
mod settings;
mod settle;
mod show;
mod show_eval;
mod status;
mod trace;
mod trust;
mod ui;
mod verify;
mod watch;
// One line for each command that is added.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use error::Failure;
use settings::Context;
use ui::{Answer, Exit, Format, ProgressForm, Style, Ui, When};

/// Record what was planned, run, measured and released, so that it can be checked
#[derive(Debug, Parser)]
#[command(name = "ledger", version, disable_help_subcommand = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Flags of every command. They are hidden there and explained once, by `ledger --help`.
#[derive(Debug, Default, Args)]
struct Global {
    /// Run as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, hide = true)]
    directory: Option<PathBuf>,
    /// Print one JSON document; errors too
    #[arg(long, global = true, hide = true, conflicts_with = "jsonl")]
    json: bool,
    /// Print one line of JSON for each row of a list
    #[arg(long, global = true, hide = true)]
    jsonl: bool,
    /// Tell only warnings and errors
    #[arg(short, long, global = true, hide = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Tell more; twice for even more
    #[arg(short, long, global = true, hide = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// When to colour: auto, always or never
    #[arg(long, value_name = "WHEN", global = true, hide = true, default_value = "auto")]
    color: When,
    /// How to tell of progress: auto, plain, json or none
    #[arg(long, value_name = "HOW", global = true, hide = true, default_value = "auto")]
    progress: ProgressForm,
    /// Sign with the keys in FILE
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    key_file: Option<PathBuf>,
    /// Open them with the first line of FILE
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    passphrase_file: Option<PathBuf>,
    /// How long to wait for a lock, in seconds
    #[arg(long, value_name = "SECS", global = true, hide = true)]
    lock_timeout: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Doctor(doctor::Args),
    Key(key::Args),
    Freeze(freeze::Args),
    Run(run::Args),
    Start(attempt::StartArgs),
    End(attempt::EndArgs),
    Eval(eval::Args),
    Record(record::Args),
    Revoke(revoke::Args),
    Verify(verify::Args),
    Show(show::Args),
    Log(log::Args),
    Ls(ls::Args),
    Trace(trace::Args),
    Diff(diff::Args),
    Fsck(fsck::Args),
    Backup(backup::Args),
    Adopt(adopt::Args),
    Hash(hash::Args),
    Cat(cat::Args),
    Head(head::Args),
    Prove(prove::Args),
    Entries(entries::Args),
    Sequence(sequence::Args),
    Completions(completions::Args),
    Man(man::Args),
    Help(help::Args),
    // One line for each command that is added.
}

fn dispatch(command: Option<&Command>, context: &Context) -> Result<Answer, Failure> {
    match command {
        None => status::run(context),
        Some(Command::Init(args)) => init::run(args, context),
        Some(Command::Doctor(args)) => doctor::run(args, context),
        Some(Command::Key(args)) => key::run(args, context),
        Some(Command::Freeze(args)) => freeze::run(args, context),
        Some(Command::Run(args)) => run::run(args, context),
        Some(Command::Start(args)) => attempt::start(args, context),
        Some(Command::End(args)) => attempt::end(args, context),
        Some(Command::Eval(args)) => eval::run(args, context),
        Some(Command::Record(args)) => record::run(args, context),
        Some(Command::Revoke(args)) => revoke::run(args, context),
        Some(Command::Verify(args)) => verify::run(args, context),
        Some(Command::Show(args)) => show::run(args, context),
        Some(Command::Log(args)) => log::run(args, context),
        Some(Command::Ls(args)) => ls::run(args, context),
        Some(Command::Trace(args)) => trace::run(args, context),
        Some(Command::Diff(args)) => diff::run(args, context),
        Some(Command::Fsck(args)) => fsck::run(args, context),
        Some(Command::Backup(args)) => backup::run(args, context),
        Some(Command::Adopt(args)) => adopt::run(args, context),
        Some(Command::Hash(args)) => hash::run(args, context),
        Some(Command::Cat(args)) => cat::run(args, context),
        Some(Command::Head(args)) => head::run(args, context),
        Some(Command::Prove(args)) => prove::run(args, context),
        Some(Command::Entries(args)) => entries::run(args, context),
        Some(Command::Sequence(args)) => sequence::run(args, context),
        Some(Command::Completions(args)) => completions::run(args, context),
        Some(Command::Man(args)) => man::run(args, context),
        Some(Command::Help(args)) => help::run(args, context),
        // One line for each command that is added.
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let vars: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let parsed = help::command().try_get_matches_from(&argv);
    let cli = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &argv, &vars),
    };
    let ui = Ui::new(style(&cli.global, &vars));
    // A panic is our mistake, and a shell should be able to tell it from every answer.
    let place = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&place);
    std::panic::set_hook(Box::new(move |info| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert_with(|| info.to_string());
    }));
    let command = || dispatch(cli.command.as_ref(), &surroundings(&cli.global, ui, vars)?);
    let result = catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let place = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = Failure::new("bug", Exit::Bug, "this program made a mistake and stopped");
        Err(place.iter().flat_map(|text| text.lines()).fold(failure, Failure::fact))
    });
    ui.finish(result)
}

/// Returns the text of `docs/cli.md`.
pub fn reference() -> String {
    help::reference()
}

/// Looks around: directory and clock.
fn surroundings(global: &Global, ui: Ui, vars: Vec<(OsString, OsString)>) -> Result<Context, Failure> {
    if let Some(dir) = &global.directory {
        std::env::set_current_dir(dir).map_err(|error| {
            Failure::usage(format!("`{}` cannot be entered", dir.display())).because(error)
        })?;
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::usage("the current directory is gone").because(error))?;
    let mut context = Context {
        ui,
        cwd,
        vars,
        now: clock(),
        lock_wait: Duration::from_secs(LOCK_WAIT),
        key_flag: global.key_file.clone(),
        passphrase_flag: global.passphrase_file.clone(),
        typed: Arc::default(),
    };
    let seconds = match (global.lock_timeout, context.filled("LEDGER_LOCK_TIMEOUT")) {
        (Some(seconds), _) => seconds,
        (None, None) => LOCK_WAIT,
        (None, Some(text)) => text.parse().map_err(|error| {
            Failure::usage(format!("`LEDGER_LOCK_TIMEOUT` is `{text}`, not a number of seconds"))
                .because(error)
        })?,
    };
    context.lock_wait = Duration::from_secs(seconds);
    Ok(context)
}

/// Returns seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Seconds that a command waits for a lock.
const LOCK_WAIT: u64 = 30;

fn style(global: &Global, vars: &[(OsString, OsString)]) -> Style {
    let value = |name: &str| vars.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let format = match (global.json, global.jsonl) {
        (true, _) => Format::Json,
        (_, true) => Format::JsonLines,
        _ => Format::Text,
    };
    Style {
        format,
        is_quiet: global.quiet,
        verbosity: global.verbose,
        color: global.color,
        progress: global.progress,
        no_color: value("NO_COLOR").is_some_and(|value| !value.is_empty()),
        force_color: value("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0"),
        is_dumb: value("TERM").is_some_and(|value| value == "dumb"),
    }
}

/// Prints help, or says what is wrong with the command line.
fn refuse(error: &clap::Error, argv: &[OsString], vars: &[(OsString, OsString)]) -> ExitCode {
    if !error.use_stderr() {
        return ui::print_help(&error.to_string());
    }
    // The flags could not be parsed, so the one that shapes this answer is looked for by its text.
    let ours = argv.iter().skip(1).take_while(|arg| *arg != "--");
    let has = |flag: &str| ours.clone().any(|arg| arg == flag);
    let global = Global { json: has("--json"), jsonl: has("--jsonl"), ..Global::default() };
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let failure = Failure::usage("a subcommand is missing").hint(help::hint(argv));
        return Ui::new(style(&global, vars)).finish(Err(failure));
    }
    let text = error.to_string();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let mut failure = Failure::usage(first.trim_start_matches("error: ").trim_end_matches('.'));
    for line in rest.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("For more information, try '").and_then(|line| line.strip_suffix("'.")) {
            Some(_) => failure.hint = Some(help::hint(argv)),
            None => failure.facts.push(line.to_owned()),
        }
    }
    Ui::new(style(&global, vars)).finish(Err(failure))
}
