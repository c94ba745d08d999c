//! Whoever holds the lock and stops: others neither wait beyond their time nor lose what they said.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::people;
use crate::support::{Output, Person, World};
use crate::{Draw, figures, seed};

const FREEZE: [&str; 6] = ["freeze", "-c", "config.yaml", "--", "true", "x"];
/// Holders that are stopped.
const HOLDERS: usize = 5;

fn project() -> (World, Person) {
    let world = World::within(people::scratch());
    let kim = world.person("kim");
    kim.ok(&["init"]);
    kim.lay("config.yaml", b"lr: 0.1\n");
    (world, kim.with("PATH", "/nonexistent"))
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A command that does not wait long for a lock that it will not get.
fn impatient(kim: &Person) -> Output {
    kim.run(&[&["--lock-timeout", "1"], &FREEZE[..]].concat())
}

fn is_queued(output: &Output, holder: &str) -> String {
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("queued: statement "), "{output:?}");
    assert!(output.stderr.contains(&format!("log/lock` is held by {holder}")), "{output:?}");
    output.stdout.trim().to_owned()
}

/// Checks that each run is in the log once, and that nothing is wrong with it.
fn holds_each_once(kim: &Person, runs: &[String]) {
    kim.ok(&["sequence"]);
    let document = kim.json(&["entries"]);
    let entries = document["entries"].as_array().unwrap();
    let claims: Vec<&str> = entries
        .iter()
        .filter(|entry| entry["standing"] == "accepted")
        .flat_map(|entry| entry["claims"].as_array().unwrap())
        .map(|claim| claim["id"].as_str().unwrap())
        .collect();
    for run in runs {
        assert_eq!(claims.iter().filter(|id| *id == run).count(), 1, "{run}");
    }
    let fsck = kim.run(&["fsck"]);
    assert_eq!(fsck.code, 0, "{fsck:?}");
}

#[test]
fn a_stranger_that_holds_the_lock_and_stops_makes_others_late() {
    let (_world, kim) = project();
    let lock = kim.project.join(".ledger/log/lock");
    // What an earlier holder wrote, who was killed, says nothing about this one.
    let mut dead = Command::new("true").spawn().unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    std::fs::write(&lock, format!("pid {} host {host} uid 0\n", dead.id())).unwrap();
    dead.wait().unwrap();
    let mut flock = Command::new("flock");
    flock.args(["-o", lock.to_str().unwrap(), "sleep", "600"]).stdin(Stdio::null()).stdout(Stdio::null());
    // With its child it is one group, which ends together.
    let mut holder = flock.stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let file = std::fs::File::open(&lock).unwrap();
    let is_free = || {
        use rustix::fs::{FlockOperation, flock};
        let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        flock(&file, FlockOperation::Unlock).unwrap();
        free
    };
    while is_free() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&holder, Signal::STOP);
    let run = is_queued(&impatient(&kim), "another process");
    // What needs a place in the order says that it has none, and exits so that a script can try again.
    let lee = kim.run(&["--lock-timeout", "0", "sequence"]);
    assert_eq!(lee.code, 0, "{lee:?}");
    assert!(lee.stderr.contains("1 statement waits") && lee.stderr.contains("is held by"), "{lee:?}");
    // Readers do not ask for the lock.
    assert_eq!(kim.json(&["head"])["size"], 1);
    kill_process_group(Pid::from_child(&holder), Signal::KILL).unwrap();
    assert_eq!(holder.wait().unwrap().signal(), Some(9));
    holds_each_once(&kim, &[run]);
}

/// Starts a freeze and stops it while it holds the lock; `None` if it was too fast.
fn stop_in_the_lock(kim: &Person, moment: Duration) -> Result<Child, String> {
    let mut command = kim.command(&[&["-q"], &FREEZE[..]].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lock = kim.project.join(".ledger/log/lock");
    let begin = format!("pid {} ", child.id());
    // The text is there as long as the lock is held.
    let holds = || std::fs::read_to_string(&lock).is_ok_and(|text| text.starts_with(&begin));
    while child.try_wait().unwrap().is_none() && !holds() {
        std::hint::spin_loop();
    }
    std::thread::sleep(moment);
    if child.try_wait().unwrap().is_none() {
        signal(&child, Signal::STOP);
        if holds() {
            return Ok(child);
        }
        signal(&child, Signal::CONT);
    }
    Err(finished(child))
}

fn finished(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_writer_that_stops_in_the_lock_is_named_and_makes_others_late() {
    let (_world, kim) = project();
    let mut draw = Draw(seed("a_writer_that_stops_in_the_lock"));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let user = rustix::process::getuid().as_raw();
    let (mut runs, mut stopped) = (Vec::new(), 0);
    for _ in 0..500 {
        if stopped == HOLDERS {
            break;
        }
        match stop_in_the_lock(&kim, draw.part(Duration::from_millis(3))) {
            Ok(holder) => {
                stopped += 1;
                let name = format!("pid {} host {host} uid {user}", holder.id());
                runs.push(is_queued(&impatient(&kim), &name));
                signal(&holder, Signal::CONT);
                runs.push(finished(holder));
            }
            Err(run) => runs.push(run),
        }
    }
    assert_eq!(stopped, HOLDERS, "of {} writers too few could be stopped in time", runs.len());
    figures::add("stopped lock holders survived", stopped);
    holds_each_once(&kim, &runs);
}
