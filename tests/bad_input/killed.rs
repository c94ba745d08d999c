//! Commands that are killed in the middle: at the n-th change of the ledger's files, for every n that there is.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::scene::{FREEZE, is_sound, project, root, runs};

/// How often a command is killed.
const TIMES: usize = 20;

/// Counts the names below a directory; one that vanishes meanwhile does not count.
fn names(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let count = |entry: std::fs::DirEntry| {
        1 + if entry.file_type().is_ok_and(|kind| kind.is_dir()) { names(&entry.path()) } else { 0 }
    };
    entries.flatten().map(count).sum()
}

/// Waits until the ledger has grown by some names, or the command has ended, and kills it.
fn kill_after(mut child: Child, dir: &Path, before: usize, grown: usize) -> Option<String> {
    while child.try_wait().unwrap().is_none() && names(dir) < before + grown {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // Whoever has read the id has been told that the run is frozen, even if the end came before exit.
    said.trim().starts_with("run:").then(|| said.trim().to_owned())
}

#[test]
fn kill_9_during_freeze() {
    let (_world, kim) = project();
    let mut acknowledged = Vec::new();
    let mut unheard = 0;
    for grown in 1..=TIMES {
        let before = names(&root(&kim));
        let set = format!("n={grown}");
        let mut command = kim.command(&[&FREEZE[..], &["--set", &set]].concat());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        match kill_after(child, &root(&kim), before, grown) {
            Some(run) => acknowledged.push(run),
            None => unheard += 1,
        }
        let held = runs(&kim);
        for run in &acknowledged {
            assert!(held.contains(run), "{run} is lost after {grown}");
        }
    }
    assert!(unheard > 5, "only {unheard} of {TIMES} were killed before they answered");
    is_sound(&kim, &acknowledged);
}

#[test]
fn kill_9_during_run() {
    let (_world, kim) = project();
    let mut started = Vec::new();
    for grown in 1..=TIMES {
        let before = names(&root(&kim));
        let set = format!("n={grown}");
        let mark = kim.project.join(format!("mark{grown}"));
        // The child's own file says that the run was frozen and started when it began.
        let script = format!("printf %s \"$LEDGER_RUN\" > {}", mark.display());
        let mut command =
            kim.command(&["-q", "run", "-c", "config.yaml", "--set", &set, "--", "sh", "-c", &script]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        kill_after(child, &root(&kim), before, grown * 2);
        if let Ok(run) = std::fs::read_to_string(&mark)
            && !run.is_empty()
        {
            started.push(run);
        }
        let held = runs(&kim);
        for run in &started {
            assert!(held.contains(run), "{run} is lost after {grown}");
        }
    }
    is_sound(&kim, &started);
}

#[test]
fn kill_9_while_the_command_runs_leaves_a_run_that_can_start_again() {
    let (_world, kim) = project();
    let output = kim.run(&["-q", "run", "-c", "config.yaml", "--", "sh", "-c", "kill -9 $PPID"]);
    assert_eq!(output.code, -1, "it was killed: {output:?}");
    let held = runs(&kim);
    assert_eq!(held.len(), 1);
    let again = kim.run(&["run", &held[0], "--", "true"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("presumed lost"), "{again:?}");
    is_sound(&kim, &held);
}
