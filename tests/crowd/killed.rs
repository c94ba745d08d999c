//! Sixty-four lines of twenty different commands at once; in every second line each command may be killed.
//!
//! A command has acknowledged what its id says once the id is printed, and an end once it has exited with 0.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::people;
use crate::support::{Person, World, safetensors};
use crate::{Draw, figures, seed};

const LINES: usize = 64;
const COMMANDS: usize = 20;

/// What one line of commands was told.
#[derive(Default, Debug)]
struct Told {
    /// Ids of all that was stated.
    ids: Vec<String>,
    /// Attempts that have ended.
    ended: Vec<String>,
    kills: usize,
}

/// One line of commands, each after the one before.
struct Line<'a> {
    kim: &'a Person,
    number: usize,
    draw: Draw,
    /// How long a command takes in this crowd, as far as is known.
    usual: &'a Mutex<Duration>,
    told: Told,
}

impl Line<'_> {
    fn is_killed(&self) -> bool {
        self.number % 2 == 1
    }

    /// Runs a command to its end or to a moment that was drawn; returns what it printed if it acknowledged.
    fn command(&mut self, args: &[&str]) -> Option<String> {
        let begun = Instant::now();
        let mut command = self.kim.command(&[&["-q"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if self.is_killed() {
            let usual = *self.usual.lock().unwrap();
            let moment = self.draw.part(usual.mul_f64(1.5));
            wait_until(&mut child, begun + moment);
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if output.status.signal() == Some(9) {
            self.told.kills += 1;
            // Whoever has read the whole line has been told, even if the end came before exit.
            return said.ends_with('\n').then(|| said.trim().to_owned());
        }
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        if !self.is_killed() {
            let mut usual = self.usual.lock().unwrap();
            *usual = usual.mul_f64(0.9) + begun.elapsed().mul_f64(0.1);
        }
        Some(said.trim().to_owned())
    }

    fn state(&mut self, args: &[&str]) -> Option<String> {
        let id = self.command(args)?;
        assert!(id.len() > 64 && id.contains(':'), "{args:?}: {id}");
        self.told.ids.push(id.clone());
        Some(id)
    }

    fn lay(&self, turn: usize, name: &str, bytes: &[u8]) -> String {
        let path = format!("line-{}/{turn}/{name}", self.number);
        self.kim.lay(&path, bytes);
        path
    }

    fn dataset(&mut self, turn: usize) {
        let path = self.lay(turn, "data.csv", format!("{},{turn}\n", self.number).as_bytes());
        let name = format!("data-{}-{turn}", self.number);
        self.state(&["record", "dataset", &path, "--name", &name]);
    }

    /// Gives all commands. What has no run or attempt to be about is a dataset instead.
    fn give(mut self) -> Told {
        let (mut run, mut attempt) = (None, None);
        for turn in 0..COMMANDS {
            let value = (self.number * COMMANDS + turn) as f32;
            match (turn % 10, run.clone(), attempt.clone()) {
                (0 | 5, ..) => {
                    let set = format!("line={}", self.number * COMMANDS + turn);
                    attempt = None;
                    run = self.state(&["freeze", "-c", "config.yaml", "--set", &set, "--", "true"]);
                }
                (1 | 7, Some(run), _) => attempt = self.state(&["start", &run]),
                (2, Some(run), Some(_)) => {
                    let path = self.lay(turn, "ck/model.safetensors", &safetensors(value));
                    let dir = path.trim_end_matches("/model.safetensors");
                    self.state(&["record", "checkpoint", dir, "--run", &run]);
                }
                (3, Some(_), Some(_)) => {
                    let weights = self.lay(turn, "w/model.safetensors", &safetensors(value));
                    let results = self.lay(turn, "results.json", format!("{{\"acc\": {turn}}}").as_bytes());
                    let subject = weights.trim_end_matches("/model.safetensors");
                    let flags = ["--benchmark", "digits", "--metric", "acc=acc"];
                    self.state(&[&["record", "eval", &results, "--subject", subject], &flags[..]].concat());
                }
                (8, Some(run), _) => {
                    let text = format!("line {} turn {turn}", self.number);
                    self.state(&["record", "note", &run, "-m", &text]);
                }
                (4 | 9, Some(run), Some(start)) => {
                    if self.command(&["end", &run]).is_some() {
                        self.told.ended.push(start);
                    }
                    attempt = None;
                }
                _ => self.dataset(turn),
            }
        }
        self.told
    }
}

/// Waits for a child's end, until a moment.
fn wait_until(child: &mut Child, moment: Instant) {
    while child.try_wait().unwrap().is_none() && Instant::now() < moment {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn half_of_a_crowd_is_killed_and_nothing_acknowledged_is_lost() {
    let seed = seed("half_of_a_crowd_is_killed");
    let world = World::within(people::scratch());
    let kim = world.person("kim");
    kim.ok(&["init"]);
    kim.lay("config.yaml", b"lr: 0.1\nline: -1\n");
    // Nowhere is an interpreter that would be asked for its version many times.
    let kim = kim.with("PATH", "/nonexistent");
    let usual = Mutex::new(Duration::from_millis(100));

    let told: Vec<Told> = std::thread::scope(|scope| {
        let line = |number: usize| {
            let draw = Draw(seed.wrapping_mul(1000).wrapping_add(number as u64));
            let line = Line { kim: &kim, number, draw, usual: &usual, told: Told::default() };
            scope.spawn(move || line.give())
        };
        let lines: Vec<std::thread::ScopedJoinHandle<'_, Told>> = (0..LINES).map(line).collect();
        lines.into_iter().map(|line| line.join().unwrap()).collect()
    });

    // Whoever comes next orders what waits, and can write.
    kim.ok(&["sequence"]);
    let next = kim.id(&["-q", "freeze", "-c", "config.yaml", "--", "true"]);
    let (stated, ended) = accepted(&kim);
    assert_eq!(stated.get(&next), Some(&1));
    let kills: usize = told.iter().map(|told| told.kills).sum();
    let ids: BTreeSet<&String> = told.iter().flat_map(|told| &told.ids).collect();
    let ends: Vec<&String> = told.iter().flat_map(|told| &told.ended).collect();
    let lost = ids.iter().filter(|id| !stated.contains_key(**id)).count()
        + ends.iter().filter(|start| !ended.contains_key(**start)).count();
    figures::add("kills survived", kills);
    figures::add("acknowledged operations", ids.len() + ends.len());
    figures::add("acknowledged operations lost", lost);
    assert_eq!(lost, 0);
    let twice: Vec<_> = stated.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "stated twice: {twice:?}");
    assert!(ended.values().all(|times| *times == 1), "an attempt has ended twice: {ended:?}");
    // Lines that nobody killed have given all their commands: one in five is an end.
    let whole = told.iter().step_by(2).map(|told| told.ids.len() + told.ended.len()).sum::<usize>();
    assert_eq!(whole, LINES / 2 * COMMANDS);
    assert!(kills > LINES, "only {kills} were killed");
    let fsck = kim.run(&["fsck"]);
    assert_eq!(fsck.code, 0, "{fsck:?}");
}

/// Returns how often each id is stated and each attempt ended, in statements that are accepted.
fn accepted(kim: &Person) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
    let document = kim.json(&["entries"]);
    let (mut stated, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for entry in document["entries"].as_array().unwrap() {
        assert_eq!(entry["standing"], "accepted", "{entry}");
        for claim in entry["claims"].as_array().unwrap() {
            *stated.entry(claim["id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            if claim["kind"] == "end" {
                let links = claim["links"].as_array().unwrap();
                let start = links.iter().find(|link| link["role"] == "start").unwrap();
                *ended.entry(start["id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            }
        }
    }
    (stated, ended)
}
