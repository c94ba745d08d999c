//! Users of one group with closed umasks on a shared ledger: each orders what the others have queued.
//!
//! It takes root, who lends three numbers to processes; no account is made. Elsewhere it is skipped by name.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::figures;
use crate::support::LEDGER;

/// The group of all three.
const GROUP: u32 = 64_200;
const WRITES: usize = 6;

/// A user: a number, a home, and nothing else in common with the others but the group.
struct User<'a> {
    name: &'static str,
    number: u32,
    world: &'a Path,
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl User<'_> {
    fn run(&self, args: &[&str]) -> Said {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &self.number.to_string(), "--regid", &GROUP.to_string(), "--clear-groups"])
            .args(["sh", "-c", "umask 077 && exec \"$@\"", "sh"])
            .arg(self.world.join("ledger"))
            .args(args)
            .current_dir(self.world.join("project"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.world.join(self.name))
            .env("USER", self.name)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "{} {args:?}: {}", self.name, said.stderr);
        said.stdout
    }

    /// Freezes a run whose statement must wait.
    fn queues(&self, n: usize) -> String {
        let set = format!("n={n}");
        let said =
            self.run(&["--lock-timeout", "0", "freeze", "-c", "config.yaml", "--set", &set, "--", "true"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains("queued: "), "{}: {}", self.name, said.stderr);
        said.stdout
    }

    fn freeze(&self, n: usize) -> String {
        let set = format!("{}={n}", self.name);
        self.ok(&["-q", "freeze", "-c", "config.yaml", "--set", &set, "--", "true"])
    }
}

fn own(path: &Path, user: u32, mode: u32) {
    chown(path, Some(user), Some(GROUP)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn users_of_a_group_with_closed_umasks_order_for_each_other() {
    if !rustix::process::geteuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        let test = "users_of_a_group_with_closed_umasks_order_for_each_other";
        println!("skipped: {test} needs root and setpriv");
        figures::skip(test, "needs root and setpriv");
        return;
    }
    // Other directories for temporary files may be closed to other users.
    let world = tempfile::tempdir_in("/tmp").unwrap();
    let world = world.path();
    std::fs::set_permissions(world, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(LEDGER, world.join("ledger")).unwrap();
    let user = |name, number| {
        let user = User { name, number, world };
        std::fs::create_dir(world.join(name)).unwrap();
        own(&world.join(name), number, 0o700);
        user
    };
    let (kim, ben, cleo) = (user("kim", 64_201), user("ben", 64_202), user("cleo", 64_203));
    let project = world.join("project");
    std::fs::create_dir(&project).unwrap();
    own(&project, kim.number, 0o2770);
    std::fs::write(project.join("config.yaml"), b"lr: 0.1\nn: -1\nkim: -1\nben: -1\ncleo: -1\n").unwrap();
    own(&project.join("config.yaml"), kim.number, 0o440);

    kim.ok(&["init", "--shared"]);
    for (user, roles) in [(&ben, "author,log"), (&cleo, "author")] {
        user.ok(&["key", "new"]);
        kim.ok(&["key", "add", &user.ok(&["key", "show", "--request"]), "--roles", roles]);
    }

    // All at once; Cleo's wait for the others.
    let mut runs: Vec<String> = std::thread::scope(|scope| {
        let writers = [&kim, &ben, &cleo];
        let writers = writers.map(|user| scope.spawn(|| (0..WRITES).map(|n| user.freeze(n)).collect()));
        writers.into_iter().flat_map(|writer| -> Vec<String> { writer.join().unwrap() }).collect()
    });
    // One by one: Cleo never has a log key, Ben and Kim come when the lock is taken.
    runs.push(cleo.queues(1));
    assert_eq!(ben.ok(&["-q", "sequence"]), "1");
    let lock = std::fs::File::open(project.join(".ledger/log/lock")).unwrap();
    for (late, other, n) in [(&ben, &kim, 2), (&kim, &ben, 3)] {
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        runs.push(late.queues(n));
        flock(&lock, FlockOperation::Unlock).unwrap();
        assert_eq!(other.ok(&["-q", "sequence"]), "1", "{} orders what {} has queued", other.name, late.name);
    }

    let entries: serde_json::Value = serde_json::from_str(&cleo.ok(&["--json", "entries"])).unwrap();
    let mut stated: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries["entries"].as_array().unwrap() {
        assert_eq!(entry["standing"], "accepted", "{entry}");
        for claim in entry["claims"].as_array().unwrap() {
            *stated.entry(claim["id"].as_str().unwrap()).or_default() += 1;
        }
    }
    let lost = runs.iter().filter(|run| stated.get(run.as_str()) != Some(&1)).count();
    figures::add("acknowledged operations of three users lost", lost);
    assert_eq!(lost, 0, "of {}", runs.len());
    for user in [&kim, &ben, &cleo] {
        user.ok(&["fsck"]);
        // The next write of each takes away what is left of the earlier ones.
        user.freeze(100);
    }
    modes_are_exact(&project.join(".ledger"));
}

/// Holds every file of a shared ledger to the modes that the format states.
fn modes_are_exact(root: &Path) {
    let mut open = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(rel) = open.pop() {
        let meta = root.join(&rel).symlink_metadata().unwrap();
        let name = rel.to_str().unwrap();
        let is_own = name.strip_prefix("log/pending/").is_some_and(|rest| !rest.contains('/'));
        let is_mutable = ["format", "place", ".gitignore", "log/checkpoint", "log/lock"].contains(&name);
        let wanted = match (meta.is_dir(), is_own, is_mutable) {
            (true, true, _) => 0o2750,
            (true, false, _) => 0o2770,
            (false, _, true) => 0o660,
            (false, _, false) => 0o440,
        };
        assert_eq!(format!("{:o}", meta.mode() & 0o7777), format!("{wanted:o}"), "{name}");
        assert_eq!(meta.gid(), GROUP, "{name}");
        if is_own {
            assert_eq!(meta.uid().to_string(), name["log/pending/".len()..], "{name}");
        }
        if meta.is_dir() {
            let entries = std::fs::read_dir(root.join(&rel)).unwrap();
            open.extend(entries.map(|entry| rel.join(entry.unwrap().file_name())));
        }
        seen += 1;
    }
    assert!(seen > 50, "only {seen} files were looked at");
}
