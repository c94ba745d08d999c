//! `ledger completions`: what a shell completes, made from the same definition as the help.
//!
//! Nothing is looked up while somebody types: commands, flags and fixed values are completed, ids are not.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::error::Failure;
use super::settings::Context;
use super::ui::Answer;

/// Print what a shell needs to complete commands and flags
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger completions bash > ~/.local/share/bash-completion/completions/ledger\n  \
                         source <(ledger completions zsh)")]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Word,
}

/// The shells that are known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Word {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

#[expect(clippy::unnecessary_wraps, reason = "every command answers so")]
pub(super) fn run(args: &Args, _context: &Context) -> Result<Answer, Failure> {
    let shell = match args.shell {
        Word::Bash => Shell::Bash,
        Word::Zsh => Shell::Zsh,
        Word::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Cli::command(), "ledger", &mut script);
    let mut answer = Answer::new("ledger.completions/1");
    answer.text = String::from_utf8_lossy(&script).into_owned();
    answer.set("shell", shell.to_string());
    answer.set("script", answer.text.clone());
    Ok(answer)
}
