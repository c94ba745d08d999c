//! The command under `ledger run`: its exit code, its signals, its variables, and ranks that record nothing.

use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{claimed, project, run_json, size};
use crate::support::{Person, World};

#[test]
fn the_exit_code_is_the_commands() {
    let (_world, kim) = project();
    for (script, code, status) in [
        ("exit 0", 0, "completed"),
        ("exit 7", 7, "failed"),
        ("kill -9 $$", 137, "failed"),
        ("exit 255", 255, "failed"),
    ] {
        let (found, document) = run_json(&kim, &[], script);
        assert_eq!(found, code, "{script}");
        assert_eq!(document["status"], status, "{script}");
        assert_eq!(document["exit"], code, "{script}");
    }
    assert_eq!(claimed(&kim, "end").len(), 4);
}

#[test]
fn a_command_that_cannot_be_started_is_a_failed_run_as_shells_have_it() {
    let (_world, kim) = project();
    assert_eq!(kim.run(&["run", "--", "no-such-program"]).code, 127);
    kim.lay("out/plain", b"");
    assert_eq!(kim.run(&["run", "--", "out/plain"]).code, 126);
    assert_eq!(claimed(&kim, "end").len(), 2);
}

/// Starts a command that notes what signal it got, and waits until it can.
fn supervised(kim: &Person) -> Child {
    let script = "trap 'echo TERM > out/got; kill $!; exit 9' TERM
        trap 'echo USR1 > out/got; kill $!; exit 9' USR1
        trap 'echo INT > out/got; kill $!; exit 9' INT
        mkdir -p out; rm -f out/got
        sleep 600 & echo $PPID > out/ready.new; mv out/ready.new out/ready; wait";
    let ready = kim.project.join("out/ready");
    let _ = std::fs::remove_file(&ready);
    let mut command = kim.command(&["--json", "run", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !ready.exists() {
        assert!(child.try_wait().unwrap().is_none(), "{:?}", child.wait_with_output());
        std::thread::yield_now();
    }
    let parent = std::fs::read_to_string(ready).unwrap();
    assert_eq!(parent.trim(), child.id().to_string(), "the command is a child of `ledger run`");
    child
}

#[test]
fn signals_reach_the_command_and_say_how_the_attempt_ended() {
    let (_world, kim) = project();
    for (signal, name, status) in [
        (Signal::TERM, "TERM", "preempted"),
        (Signal::USR1, "USR1", "preempted"),
        (Signal::INT, "INT", "cancelled"),
    ] {
        let child = supervised(&kim);
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let got = std::fs::read_to_string(kim.project.join("out/got")).unwrap();
        assert_eq!(got.trim(), name, "{output:?}");
        assert_eq!(output.status.code(), Some(9), "the code is that of the command's own handler");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["status"], status, "{document}");
    }
    assert_eq!(claimed(&kim, "end").len(), 3);
}

#[test]
fn a_command_that_dies_of_the_signal_gives_the_code_of_a_shell() {
    let (_world, kim) = project();
    let (code, document) = run_json(&kim, &[], "kill -TERM $PPID; exec sleep 600");
    assert_eq!((code, document["status"].as_str()), (143, Some("preempted")), "{document}");
}

#[test]
fn the_command_learns_its_run_and_needs_no_other_word() {
    let (_world, kim) = project();
    let script = "printf '%s\\n%s\\n%s\\n' \"$LEDGER_RUN\" \"$LEDGER_RUN_DIR\" \"$LEDGER_ATTEMPT\" > out/vars
        test -f \"$LEDGER_RUN_DIR/frozen-config.json\"";
    kim.lay("out/x", b"");
    let (code, document) = run_json(&kim, &[], script);
    assert_eq!(code, 0);
    let vars = std::fs::read_to_string(kim.project.join("out/vars")).unwrap();
    let vars: Vec<&str> = vars.lines().collect();
    assert_eq!(vars[0], document["run"]);
    assert_eq!(
        Path::new(vars[1]).canonicalize().unwrap(),
        crate::scene::run_dir(&kim, vars[0]).canonicalize().unwrap()
    );
    assert!(Path::new(vars[1]).is_absolute());
    assert_eq!(vars[2], document["attempt"]);
}

#[test]
fn a_run_inside_a_run_records_nothing_more() {
    let (_world, kim) = project();
    let inner = format!("{} run -- sh -c 'exit 5'", crate::support::LEDGER);
    let (code, _) = run_json(&kim, &[], &inner);
    assert_eq!(code, 5);
    assert_eq!(claimed(&kim, "start").len(), 1);
}

const RANKS: [&str; 5] = ["LEDGER_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

#[test]
fn ranks_above_zero_record_nothing_and_become_the_command() {
    let (_world, kim) = project();
    crate::scene::lay_weights(&kim, "out/ck", 1);
    let run = kim.ok(&["freeze"]);
    let before = size(&kim);
    for name in RANKS {
        let rank = kim.with(name, "1");
        // The same process: what a launcher started is what it can signal and wait for.
        let mut command = rank.command(&["run", "--", "sh", "-c", "echo $$; exit 6"]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), pid, "{name}");
        assert_eq!(output.status.code(), Some(6), "{name}");
        let eval =
            rank.run(&["eval", "--subject", "out/ck", "--results", "r*.json", "--", "sh", "-c", "exit 8"]);
        assert_eq!(eval.code, 8, "{name}");
        assert_eq!(rank.ok(&["freeze"]), "", "{name}");
        assert_eq!(rank.with("LEDGER_RUN", &run).ok(&["freeze"]), run, "{name}");
        for args in [&["start", &run][..], &["end", &run], &["record", "checkpoint", "out/ck", "--run", &run]]
        {
            let output = rank.run(args);
            assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{name} {args:?}");
            assert!(output.stderr.contains("on a rank above 0"), "{name} {output:?}");
        }
    }
    assert_eq!(size(&kim), before);
    for name in RANKS {
        assert_eq!(kim.with(name, "0").run(&["run", "--", "true"]).code, 0);
    }
    assert_eq!(size(&kim), before + 2 * RANKS.len() as u64, "rank 0 records a start and an end each time");
}

#[test]
fn a_rank_above_zero_needs_no_ledger() {
    let world = World::new();
    let kim = world.person("kim").with("PATH", crate::scene::PATH).with("RANK", "3");
    assert_eq!(kim.run(&["run", "--", "sh", "-c", "exit 4"]).code, 4);
    assert!(!kim.home.join(".config").exists());
}
