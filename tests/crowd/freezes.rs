//! Sixteen processes that freeze at once, again and again, into one ledger.
//!
//! Nothing fails, nothing is lost or mixed up, and far fewer heads than statements are signed, because whoever
//! holds the lock orders what the others have queued. It prints how long that took.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::support::{Person, World};

const PROCESSES: usize = 16;
const FREEZES: usize = 50;
/// Group commit must share heads. How many statements meet in one hangs on how busy the machine is, so the bar of
/// four is for an idle one, and this is what no machine may miss.
const MAX_HEADS: usize = PROCESSES * FREEZES / 2;

fn git(kim: &Person, args: &[&str]) {
    let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.args(who).args(args).current_dir(&kim.project).env_clear().env("HOME", &kim.home);
    let output = command.env("PATH", PATH).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[test]
fn sixteen_processes_freeze_fifty_times_each() {
    let (_world, kim) = World::founded();
    // Nowhere is an interpreter that would be asked for its version eight hundred times.
    let kim = kim.with("PATH", "/nonexistent");
    kim.lay("config.yaml", b"lr: 0.1\nseed: 3\nwriter: -1\nturn: -1\n");
    kim.lay("data/train.csv", b"1,2\n3,4\n".repeat(4096).as_slice());
    git(&kim, &["init", "-q"]);
    git(&kim, &["add", "-A"]);
    git(&kim, &["commit", "-qm", "begin"]);

    let started = std::time::Instant::now();
    let frozen: BTreeMap<String, (usize, usize)> = std::thread::scope(|scope| {
        let writer = |writer: usize| {
            let kim = &kim;
            let turns = move || (0..FREEZES).map(|turn| (one(kim, writer, turn), (writer, turn))).collect();
            scope.spawn(turns)
        };
        let writers: Vec<std::thread::ScopedJoinHandle<'_, Vec<_>>> = (0..PROCESSES).map(writer).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let seconds = started.elapsed().as_secs_f64();

    assert_eq!(frozen.len(), PROCESSES * FREEZES, "every freeze has an id of its own");
    kim.ok(&["sequence"]);
    let document = kim.json(&["entries"]);
    let entries = document["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["standing"] == "accepted"));
    let claims = entries.iter().flat_map(|entry| entry["claims"].as_array().unwrap());
    let ids: Vec<&str> = claims.map(|claim| claim["id"].as_str().unwrap()).collect();
    let logged: Vec<&str> = ids.into_iter().filter(|id| id.starts_with("run:")).collect();
    assert_eq!(logged.len(), frozen.len(), "no statement is in the log twice");
    let logged: BTreeSet<&str> = logged.into_iter().collect();
    for (run, (writer, turn)) in &frozen {
        assert!(logged.contains(run.as_str()), "{run} is lost");
        let dir = kim.project.join(".ledger/runs").join(run.strip_prefix("run:").unwrap());
        let config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.join("frozen-config.json")).unwrap()).unwrap();
        assert_eq!((&config["writer"], &config["turn"]), (&(*writer).into(), &(*turn).into()), "{run}");
    }
    let heads = std::fs::read_dir(kim.project.join(".ledger/log/heads")).unwrap().count();
    println!("{} freezes by {PROCESSES} processes: {seconds:.1} s, {heads} heads", frozen.len());
    assert!(heads <= MAX_HEADS, "{heads} heads were signed for {} statements", frozen.len());
    assert!(
        kim.project.join(".ledger/tmp").read_dir().unwrap().next().is_none(),
        "something is left in tmp/"
    );
}

/// Freezes one run, which must succeed.
fn one(kim: &Person, writer: usize, turn: usize) -> String {
    let (writer, turn) = (format!("writer={writer}"), format!("turn={turn}"));
    let args =
        ["-q", "freeze", "-c", "config.yaml", "--data", "train=data", "--set", &writer, "--set", &turn];
    let output = kim.run(&[&args[..], &["--", "true"]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    output.stdout.trim().to_owned()
}
