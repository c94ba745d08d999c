//! Help: one definition, two lengths, and commands grouped by the question that they answer.

use crate::support::{World, filtered, snapshot};

/// Returns every command and subcommand, as the program lists them.
fn commands() -> Vec<Vec<String>> {
    let world = World::new();
    let kim = world.person("kim");
    let all = kim.ok(&["help", "--all"]);
    let names = all.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut commands = Vec::new();
    for outer in names.filter(|name| !name.is_empty()) {
        commands.push(vec![outer.to_owned()]);
        let help = kim.ok(&[outer, "-h"]);
        let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in below.take_while(|line| !line.is_empty()) {
            let name = line.trim_start().split(' ').next().unwrap();
            commands.push(vec![outer.to_owned(), name.to_owned()]);
        }
    }
    assert!(commands.len() > 12, "{commands:?}");
    commands
}

#[test]
fn short_help_fits_a_screen_and_opens_with_calls() {
    let world = World::new();
    let kim = world.person("kim");
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["-h"]).collect();
        let output = kim.run(&words);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{words:?}");
        assert!(output.stdout.lines().count() <= 24, "{words:?}:\n{}", output.stdout);
        assert!(output.stdout.lines().all(|line| line.len() <= 100), "{words:?}:\n{}", output.stdout);
        let first = output.stdout.lines().next().unwrap();
        assert!(first.contains(&format!("ledger {}", command.join(" "))), "{words:?}: {first}");
        snapshot(&format!("help/{}", command.join("-")), &filtered(&output.stdout, &kim.project));
    }
}

#[test]
fn the_front_pages_group_commands() {
    let world = World::new();
    let kim = world.person("kim");
    kim.run(&["-h"]).matches("help/ledger");
    kim.run(&["--help"]).matches("help/ledger-long");
    kim.run(&["help", "--all"]).matches("help/all");
    kim.run(&["help", "exit-codes"]).matches("help/exit-codes");
    assert!(kim.ok(&["-h"]).lines().count() <= 24);
    assert_eq!(kim.ok(&["help", "key", "add"]), kim.ok(&["key", "add", "--help"]));
    kim.run(&["help", "nothing"]).fails(2, "usage");
}

#[test]
fn a_wrong_command_line_is_exit_2_and_names_the_help() {
    let world = World::new();
    let kim = world.person("kim");
    let output = kim.run(&["hash", "--nope", "x"]);
    output.fails(2, "usage");
    assert!(output.stderr.contains("hint: ledger hash --help"), "{}", output.stderr);
    for args in [&["nope"][..], &["key"], &["hash"], &["-q", "-v", "head"], &["-C", "nowhere", "hash", "x"]] {
        kim.run(args).fails(2, "usage");
    }
    let document = kim.json(&["nope"]);
    assert_eq!(document["schema"], "ledger.error/1");
    assert_eq!(document["findings"][0]["kind"], "usage");
}

#[test]
fn a_version_is_printed() {
    let world = World::new();
    assert_eq!(world.person("kim").ok(&["--version"]), format!("ledger {}", env!("CARGO_PKG_VERSION")));
}
