//! Help: the groups of `ledger --help`, topics, and the reference page, all made from the one definition.
//!
//! Help of one command is its doc comments; nothing here repeats them.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::error::Failure;
use super::settings::Context;
use super::ui::Answer;

/// Commands by the question that they answer. One that does not exist is not shown.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["init", "doctor", "key"]),
    ("Before", &["freeze", "check", "contract"]),
    ("During", &["run", "start", "end", "eval"]),
    ("After", &["record", "approve", "revoke"]),
    ("Decide", &["verify", "gate", "promote", "deploy", "serving"]),
    ("Ask", &["show", "log", "ls", "trace", "diff", "compare", "audit"]),
    ("Share", &["bundle", "report", "export"]),
    ("Keep", &["fsck", "gc", "backup", "adopt"]),
];
/// Commands for scripts and other tools.
const PLUMBING: (&str, &[&str]) = (
    "Plumbing",
    &["hash", "canon", "cat", "head", "prove", "entries", "facts", "sequence", "completions", "man"],
);

/// The front page: what the program is for, then the commands.
const FRONT: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}";
/// Help of one command: its examples first.
const TEMPLATE: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}";
/// Stands below the help of each command.
const EVERYWHERE: &str = "`ledger --help` lists the flags of every command";

pub(super) const EXIT_CODES: &str = "\
0    everything asked for was done and checked
1    the answer is no
2    a flag, contract, policy or configuration is wrong
3    it cannot be decided: not in the ledger, evidence or key missing, signer unknown
4    refused: it would drift from or overwrite something
5    the ledger itself is damaged
6    busy, or the disk is full: try again
70   a mistake in this program
130  interrupted
141  nobody reads the answer
143  terminated
     `ledger run` and `ledger eval` return the code of their command
";

/// Explain a command or a topic
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger help init\n  ledger help --all\n  ledger help exit-codes")]
pub(super) struct Args {
    /// The command, or `exit-codes`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// List plumbing too
    #[arg(long, conflicts_with = "words")]
    all: bool,
}

/// Returns the definition with its help filled in.
pub(super) fn command() -> clap::Command {
    let command = super::Cli::command();
    let (names, mut lines) = (names(&command), lines(&command, false));
    lines.push_str(&flags(&command));
    command.help_template(FRONT).after_help(names).after_long_help(lines).mut_subcommands(with_template)
}

fn with_template(command: clap::Command) -> clap::Command {
    let command = command.help_template(TEMPLATE).disable_help_subcommand(true).after_help(EVERYWHERE);
    command.mut_subcommands(with_template)
}

/// Lists the flags that every command takes.
fn flags(command: &clap::Command) -> String {
    let mut text = "Everywhere:\n".to_owned();
    for flag in command.get_arguments().filter(|flag| flag.is_global_set()) {
        let short = flag.get_short().map(|short| format!("-{short}"));
        let long = flag.get_long().map(|long| format!("--{long}"));
        let mut names: Vec<String> = [short, long].into_iter().flatten().collect();
        if flag.get_action().takes_values()
            && let (Some(last), Some(value)) =
                (names.last_mut(), flag.get_value_names().and_then(<[_]>::first))
        {
            let _ = write!(last, " <{value}>");
        }
        let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {:<24}  {about}", names.join(", "));
    }
    text.push_str("  -V, --version             Print the version\n");
    text.push_str("\nledger COMMAND --help  explains one command\n");
    text.push_str("ledger help --all      lists what scripts use, too\n");
    text.push_str("ledger help exit-codes explains what a shell gets back");
    text
}

fn groups(all: bool) -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    GROUPS.iter().chain(all.then_some(&PLUMBING))
}

/// Lists the names of commands, one line for each group.
fn names(command: &clap::Command) -> String {
    let mut text = String::new();
    for (group, names) in groups(false) {
        let known: Vec<&str> =
            names.iter().copied().filter(|name| command.find_subcommand(name).is_some()).collect();
        if !known.is_empty() {
            let _ = writeln!(text, "{group:<8}  {}", known.join("  "));
        }
    }
    text.push_str("\nledger COMMAND -h   explains one command\nledger --help       what each does, and the flags of all\n\
                   ledger help --all   what scripts use, too");
    text
}

/// Lists commands with what they do, by groups.
fn lines(command: &clap::Command, all: bool) -> String {
    let mut text = String::new();
    for (group, names) in groups(all) {
        let known = names.iter().filter_map(|name| command.find_subcommand(name));
        let mut lines = known.map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("  {:<10}  {}\n", command.get_name(), about.lines().next().unwrap_or_default())
        });
        if let Some(first) = lines.next() {
            let _ = write!(text, "{group}:\n{first}");
            text.extend(lines);
            text.push('\n');
        }
    }
    text
}

/// Returns the command that explains what was typed.
pub(super) fn hint(argv: &[OsString]) -> String {
    let mut known = command();
    let mut text = "ledger".to_owned();
    for word in argv.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != "--") {
        if let Some(found) = known.find_subcommand(word) {
            known = found.clone();
            text.push(' ');
            text.push_str(word);
        }
    }
    text.push_str(" --help");
    text
}

pub(super) fn run(args: &Args, _context: &Context) -> Result<Answer, Failure> {
    let mut answer = Answer::new("ledger.help/1");
    if args.words == ["exit-codes"] {
        EXIT_CODES.clone_into(&mut answer.text);
    } else if args.all {
        lines(&command(), true).trim_end().clone_into(&mut answer.text);
        answer.text.push('\n');
    } else {
        let mut known = &command();
        for word in &args.words {
            known = known.find_subcommand(word).ok_or_else(|| {
                Failure::usage(format!("there is no command `{word}`")).hint("ledger help --all")
            })?;
        }
        answer.text = explained(command(), args.words.iter().map(String::as_str));
    }
    answer.set("text", answer.text.clone());
    Ok(answer)
}

/// Returns what a command prints for `--help`.
fn explained<'a>(command: clap::Command, words: impl Iterator<Item = &'a str>) -> String {
    let argv = ["ledger"].into_iter().chain(words).chain(["--help"]);
    match command.try_get_matches_from(argv) {
        Err(help) => help.to_string(),
        Ok(_) => String::new(),
    }
}

/// Returns the reference page of all commands.
pub(super) fn reference() -> String {
    let root = command();
    let mut text = PAGE_TOP.to_owned();
    block(&mut text, &explained(root.clone().term_width(WIDTH), [].into_iter()));
    for name in groups(true).flat_map(|(_, names)| *names) {
        if let Some(command) = root.find_subcommand(name) {
            section(&mut text, command, &[name], "##");
        }
    }
    text.push_str("\n## Exit codes\n");
    block(&mut text, EXIT_CODES);
    text
}

const WIDTH: usize = 100;
const PAGE_TOP: &str = "# The command line

Made from the program's own help by `tests/docs_cli.rs`, which also tells when it is out of date.
";

fn section(text: &mut String, at: &clap::Command, words: &[&str], level: &str) {
    let _ = write!(text, "\n{level} `ledger {}`\n", words.join(" "));
    block(text, &explained(command().term_width(WIDTH), words.iter().copied()));
    for below in at.get_subcommands() {
        section(text, below, &[words, &[below.get_name()]].concat(), &format!("{level}#"));
    }
}

/// Adds what a terminal shows, without the spaces at the ends of lines that clap leaves.
fn block(text: &mut String, shown: &str) {
    text.push_str("\n```text\n");
    for line in shown.trim_end().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("```\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn every_command_stands_in_one_group_and_opens_with_examples() {
        let listed: Vec<&str> = groups(true).flat_map(|(_, names)| names.iter().copied()).collect();
        for command in command().get_subcommands().filter(|command| command.get_name() != "help") {
            let name = command.get_name();
            assert_eq!(listed.iter().filter(|listed| **listed == name).count(), 1, "{name}");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "{name}: {about}");
            let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
            let first = examples.lines().next().unwrap_or_default();
            assert!(first.starts_with(&format!("  ledger {name}")), "{name}: {examples}");
        }
    }

    #[test]
    fn the_hint_names_the_command_that_was_meant() {
        let argv = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(hint(&argv("ledger --nope")), "ledger --help");
        assert_eq!(hint(&argv("ledger --json key add")), "ledger key add --help");
        assert_eq!(hint(&argv("ledger hash -- key")), "ledger hash --help");
    }
}
