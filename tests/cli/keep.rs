//! What keeps a ledger and its user well: manual pages and completions, backups, copies, and the doctor.

use std::process::{Command, Stdio};

use crate::support::World;

#[test]
fn every_command_has_a_manual_page_that_a_formatter_accepts() {
    let world = World::new();
    let kim = world.person("kim");
    kim.run(&["man", "man1"]).fails(2, "bad-data");
    std::fs::create_dir(kim.project.join("man1")).unwrap();
    let paths = kim.ok(&["man", "man1"]);
    let pages: Vec<&str> = paths.lines().collect();
    assert!(pages.len() > 25 && pages[0] == "man1/ledger.1", "{paths}");
    assert_eq!(std::fs::read_dir(kim.project.join("man1")).unwrap().count(), pages.len());
    for page in &pages {
        let text = std::fs::read_to_string(kim.project.join(page)).unwrap();
        assert!(text.contains("\n.SH SYNOPSIS\n") && !text.contains(kim.project.to_str().unwrap()), "{page}");
        // A warning of the formatter is a mistake in the page. Where there is none, its form is all we know.
        let format = ["-man", "-ww", "-z", "-Tascii", page];
        if let Ok(told) = Command::new("groff").args(format).current_dir(&kim.project).output() {
            let told = String::from_utf8_lossy(&told.stderr).into_owned();
            assert_eq!(told, "", "{page}");
        }
    }
    // Writing them again changes nothing.
    let before = std::fs::read(kim.project.join(pages[0])).unwrap();
    assert_eq!(kim.ok(&["man", "man1"]), paths);
    assert_eq!(std::fs::read(kim.project.join(pages[0])).unwrap(), before);
}

#[test]
fn shells_accept_their_completions() {
    let world = World::new();
    let kim = world.person("kim");
    for shell in ["bash", "zsh", "fish"] {
        let script = kim.ok(&["completions", shell]);
        assert!(script.contains("freeze") && script.contains("lock-timeout"), "{shell}");
        let mut check = Command::new(shell);
        check.arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped());
        // A shell that is not here cannot be asked.
        let Ok(mut child) = check.spawn() else { continue };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
        let told = child.wait_with_output().unwrap();
        assert!(told.status.success() && told.stderr.is_empty(), "{shell}: {told:?}");
    }
    kim.run(&["completions", "tcsh"]).fails(2, "usage");
}
