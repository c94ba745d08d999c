//! `ledger man`: a manual page for each command, made from the same definition as the help.
//!
//! Pages hold no date and no path, so that the same program always writes the same bytes.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::durable::outside;

use super::error::Failure;
use super::help;
use super::settings::{Context, disk, quoted};
use super::ui::{Answer, Exit};

/// Write a manual page for each command
///
/// Writes DIR/ledger.1, DIR/ledger-init.1 and so on, in place of older ones, and prints their paths.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger man ~/.local/share/man/man1   then: man ledger-freeze\n  \
                         ledger man . && man -l ledger.1")]
pub(super) struct Args {
    /// An existing directory, usually one named man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let dir = context.path(&args.dir);
    if !dir.is_dir() {
        // Where a manual lies is for its readers, so the modes of the directory are not ours to choose.
        let message = format!("`{}` is no directory", args.dir.display());
        return Err(
            Failure::new("bad-data", Exit::Usage, message).hint(format!("mkdir -p {}", quoted(&args.dir)))
        );
    }
    let mut answer = Answer::new("ledger.man/1");
    let mut paths = Vec::new();
    for page in pages() {
        let path = dir.join(&page.name);
        outside::replace(&disk(), &path, page.text.as_bytes(), 0o644)?;
        let shown = shown(&args.dir, &page.name);
        answer.line(&shown);
        paths.push(shown);
    }
    answer.set("pages", paths);
    Ok(answer)
}

fn shown(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// One page: the name of its file and its text.
struct Page {
    name: String,
    text: String,
}

/// Renders the pages of all commands, the program's own first.
fn pages() -> Vec<Page> {
    // The flags of every command are explained once, on the first page.
    let mut front = super::Cli::command().mut_args(|flag| flag.hide(false)).disable_help_subcommand(true);
    front.build();
    let mut all = super::Cli::command().disable_help_subcommand(true);
    all.build();
    let mut pages = vec![page(&front)];
    let mut open: Vec<&clap::Command> = all.get_subcommands().collect();
    open.reverse();
    while let Some(command) = open.pop() {
        pages.push(page(command));
        let mut below: Vec<&clap::Command> = command.get_subcommands().collect();
        below.reverse();
        open.append(&mut below);
    }
    pages
}

fn page(command: &clap::Command) -> Page {
    let is_front = command.get_name() == "ledger";
    let man = Man::new(command.clone())
        .source(format!("ledger {}", env!("CARGO_PKG_VERSION")))
        .manual("Manual of ledger");
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render_title(&mut bytes);
    let _ = man.render_name_section(&mut bytes);
    let _ = man.render_synopsis_section(&mut bytes);
    if let Some(examples) = command.get_before_help() {
        verbatim(&mut bytes, "EXAMPLES", &examples.to_string());
    }
    let _ = man.render_description_section(&mut bytes);
    let _ = man.render_options_section(&mut bytes);
    if command.has_subcommands() {
        let _ = man.render_subcommands_section(&mut bytes);
    }
    if is_front {
        verbatim(&mut bytes, "EXIT STATUS", help::EXIT_CODES);
    } else {
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman("ledger(1) explains the flags that every command takes, and exit codes.")]);
        let _ = roff.to_writer(&mut bytes);
    }
    Page { name: man.get_filename(), text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Adds a section of lines that stay as they are.
fn verbatim(bytes: &mut Vec<u8>, title: &str, text: &str) {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    roff.control("nf", []);
    for line in text.trim_end().lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    let _ = roff.to_writer(bytes);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_has_one_page_that_opens_as_the_help_does() {
        fn count(command: &clap::Command) -> usize {
            1 + command.get_subcommands().map(count).sum::<usize>()
        }
        let pages = pages();
        let names: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        assert_eq!(pages.len(), count(&super::super::Cli::command()));
        for name in ["ledger.1", "ledger-freeze.1", "ledger-key-add.1"] {
            assert!(names.contains(name), "{name}");
        }
        for page in &pages {
            assert!(page.text.contains("\n.SH NAME\n"), "{}", page.name);
            assert!(!page.text.contains("SUBCOMMANDS\n.SH"), "{}", page.name);
        }
        assert!(pages[0].text.contains("lock\\-timeout"), "the first page explains common flags");
        assert!(!pages[1].text.contains("lock\\-timeout"), "the others do not repeat them");
    }
}
