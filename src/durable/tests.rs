//! What durable promises, tried out with real files and disks that fail.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::tempdir;

use super::fault::{Fault, FaultDisk, Loss};
use super::*;

fn real() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// A disk that works but is not waited for.
fn quick(root: &Path) -> Arc<dyn Disk> {
    Arc::new(FaultDisk::counting(root))
}

fn tree(root: &Path) -> Durable {
    Durable::new(real(), root, false)
}

fn counted(root: &Path, act: impl FnOnce(&Durable)) -> Vec<String> {
    let disk = Arc::new(FaultDisk::counting(root));
    act(&Durable::new(disk.clone(), root, false));
    disk.operations()
}

fn count(operations: &[String], label: &str) -> usize {
    operations.iter().filter(|operation| operation.split(' ').next() == Some(label)).count()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn rel(text: &str) -> &Path {
    Path::new(text)
}

const FAULTS: [Fault; 3] = [Fault::Stop, Fault::StopAfter, Fault::Misreport];
const LOSSES: [Loss; 3] = [Loss::Nothing, Loss::Content, Loss::Names];

#[test]
fn a_name_is_given_once() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    assert_eq!(tree.create(rel("a/b/c"), b"first", Kind::Immutable).unwrap(), Created::New);
    assert_eq!(tree.create(rel("a/b/c"), b"other", Kind::Immutable).unwrap(), Created::Exists);
    assert_eq!(tree.read(rel("a/b/c"), 9).unwrap().unwrap(), b"first");
    let same = [(PathBuf::from("a/b/c"), &b"first"[..]), (PathBuf::from("a/d"), b"new")];
    assert_eq!(tree.create_identical(&same).unwrap(), [Created::Exists, Created::New]);
    for other in [&b"First"[..], b"firs", b"first!"] {
        let error = tree.create_identical(&[("a/b/c".into(), other)]).unwrap_err();
        assert!(matches!(error, Error::Differs { path } if path == dir.path().join("a/b/c")));
    }
    assert_eq!(fs::read_dir(dir.path().join(TMP)).unwrap().count(), 0);
}

#[test]
fn a_replaced_file_has_the_new_content_and_no_temporary_stays() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    tree.replace(rel("log/checkpoint"), b"1").unwrap();
    tree.replace(rel("log/checkpoint"), b"22").unwrap();
    assert_eq!(tree.read(rel("log/checkpoint"), 2).unwrap().unwrap(), b"22");
    assert!(matches!(tree.read(rel("log/checkpoint"), 1), Err(Error::TooLarge { size: 2, cap: 1, .. })));
    assert_eq!(fs::read_dir(dir.path().join(TMP)).unwrap().count(), 0);
    tree.remove(rel("log/checkpoint")).unwrap();
    tree.remove(rel("log/checkpoint")).unwrap();
    assert_eq!(tree.read(rel("log/checkpoint"), 9).unwrap(), None);
}

#[test]
fn a_batch_syncs_each_file_and_each_directory_once() {
    let dir = tempdir().unwrap();
    let items: Vec<(PathBuf, &[u8])> =
        (0..12).map(|i| (format!("objects/{}/{i}", i % 3).into(), &b"x"[..])).collect();
    let operations = counted(dir.path(), |tree| {
        let _ = tree.create_many(&items, Kind::Immutable).unwrap();
    });
    assert_eq!(count(&operations, "sync"), 12);
    // Three folders, the one above them, and the root.
    assert_eq!(count(&operations, "sync-dir"), 5);
    let again = counted(dir.path(), |tree| {
        assert!(tree.create_many(&items, Kind::Immutable).unwrap().iter().all(|c| *c == Created::Exists));
        let _ = tree.create(rel("objects/0/new"), b"x", Kind::Immutable).unwrap();
    });
    // What exists is not written again but its names are synced; what was synced above is not asked again.
    assert_eq!((count(&again, "sync"), count(&again, "sync-dir"), count(&again, "mkdir")), (1, 6, 0));
}

#[test]
fn one_of_many_wins_the_commit_and_all_the_others_see_it() {
    let dir = tempdir().unwrap();
    let root = dir.path();
    let results: Vec<_> = std::thread::scope(|scope| {
        let commit = |i: u8| (i, tree(root).commit_link(rel("log/heads/000"), &[i; 100]).unwrap());
        let workers: Vec<_> = (0..8).map(|i| scope.spawn(move || commit(i))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let found = fs::read(dir.path().join("log/heads/000")).unwrap();
    let winners: Vec<_> = results.iter().filter(|(_, commit)| *commit == Commit::Won).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(found, [winners[0].0; 100]);
    for (_, commit) in &results {
        assert!(matches!(commit, Commit::Won) || *commit == Commit::Lost(found.clone()));
    }
    // Whoever repeats the winner's bytes has won.
    assert_eq!(tree(dir.path()).commit_link(rel("log/heads/000"), &found).unwrap(), Commit::Won);
}

#[test]
fn a_commit_that_was_done_but_reported_as_failed_is_won() {
    let dir = tempdir().unwrap();
    let operations = counted(dir.path(), |tree| {
        assert_eq!(tree.commit_link(rel("heads/0"), b"x").unwrap(), Commit::Won);
    });
    let at = operations.iter().position(|operation| operation.starts_with("link ")).unwrap();
    let dir = tempdir().unwrap();
    let disk = Arc::new(FaultDisk::failing(dir.path(), at, Fault::Misreport));
    let tree = Durable::new(disk, dir.path(), false);
    assert_eq!(tree.commit_link(rel("heads/0"), b"x").unwrap(), Commit::Won);
    // Really failed, it is neither won nor lost.
    let dir = tempdir().unwrap();
    let disk = Arc::new(FaultDisk::failing(dir.path(), at, Fault::Stop));
    let tree = Durable::new(disk, dir.path(), false);
    assert!(matches!(tree.commit_link(rel("heads/0"), b"x"), Err(Error::Io { op: "link", .. })));
}

/// Writes in every way there is, and returns name and content of all that was acknowledged.
fn write_everything(tree: &Durable) -> Vec<(&'static str, &'static [u8])> {
    let mut known: Vec<(&str, &[u8])> = Vec::new();
    if tree.create(rel("objects/aa/1"), b"created", Kind::Immutable).is_ok() {
        known.push(("objects/aa/1", b"created"));
    }
    let many: [(PathBuf, &[u8]); 3] = [
        ("objects/aa/2".into(), b"two"),
        ("objects/bb/3".into(), b"three"),
        ("objects/bb/4".into(), b"four"),
    ];
    if tree.create_identical(&many).is_ok() {
        known.extend([("objects/aa/2", &b"two"[..]), ("objects/bb/3", b"three"), ("objects/bb/4", b"four")]);
    }
    let staged = tree.stage(Kind::Immutable).and_then(|mut staged| {
        staged.append(b"str")?;
        staged.append(b"eam")?;
        staged.publish(rel("objects/cc/5"))
    });
    if staged.is_ok() {
        known.push(("objects/cc/5", b"stream"));
    }
    if let Ok(Commit::Won) = tree.commit_link(rel("log/heads/000"), b"head") {
        known.push(("log/heads/000", b"head"));
    }
    if tree.replace(rel("log/checkpoint"), b"newer").is_ok() {
        known.push(("log/checkpoint", b"newer"));
    }
    known
}

/// What a name may stand for after a crash, when nothing is known about it.
fn allowed(name: &str) -> &'static [&'static [u8]] {
    match name {
        "objects/aa/1" => &[b"created"],
        "objects/aa/2" => &[b"two"],
        "objects/bb/3" => &[b"three"],
        "objects/bb/4" => &[b"four"],
        "objects/cc/5" => &[b"stream"],
        "log/heads/000" => &[b"head"],
        "log/checkpoint" => &[b"older", b"newer"],
        _ => &[],
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_shows_half_a_file() {
    for is_shared in [false, true] {
        let prepare = || {
            let dir = tempdir().unwrap();
            Durable::new(quick(dir.path()), dir.path(), is_shared)
                .replace(rel("log/checkpoint"), b"older")
                .unwrap();
            dir
        };
        let dir = prepare();
        let disk = Arc::new(FaultDisk::counting(dir.path()));
        assert_eq!(write_everything(&Durable::new(disk.clone(), dir.path(), is_shared)).len(), 7);
        for (at, operation) in disk.operations().iter().enumerate() {
            for (fault, loss) in FAULTS.iter().flat_map(|fault| LOSSES.map(|loss| (*fault, loss))) {
                // A shared tree differs in how directories are made only.
                if is_shared && loss != Loss::Names {
                    continue;
                }
                let case = format!("{at} {operation}, {fault:?}, {loss:?}, shared {is_shared}");
                let dir = prepare();
                let disk = Arc::new(FaultDisk::failing(dir.path(), at, fault));
                let known = write_everything(&Durable::new(disk.clone(), dir.path(), is_shared));
                assert!(
                    known.len() < 7 || fault == Fault::Misreport || operation.starts_with("unlink"),
                    "{case}"
                );
                disk.cut_power(loss).unwrap();
                for (name, content) in &known {
                    assert_eq!(
                        fs::read(dir.path().join(name)).ok().as_deref(),
                        Some(*content),
                        "{case}: {name}"
                    );
                }
                assert!(dir.path().join("log/checkpoint").exists(), "{case}");
                for path in files(dir.path()) {
                    let name = path.strip_prefix(dir.path()).unwrap().to_str().unwrap();
                    if !name.starts_with(TMP) {
                        let content = fs::read(&path).unwrap();
                        assert!(allowed(name).contains(&content.as_slice()), "{case}: {name} {content:?}");
                    }
                }
                // The same work again succeeds whatever was left.
                let again = write_everything(&Durable::new(quick(dir.path()), dir.path(), is_shared));
                assert_eq!(again.len(), 7, "{case}");
            }
        }
    }
}

#[test]
fn the_power_cut_takes_what_was_not_synced() {
    // Otherwise the walk above could not fail.
    let dir = tempdir().unwrap();
    let disk = FaultDisk::counting(dir.path());
    let (name, other) = (dir.path().join("name"), dir.path().join("other"));
    let mut file = disk.open_new(&name, Mode::Umask(0o644)).unwrap();
    disk.write(&mut file, &name, b"content").unwrap();
    disk.link(&name, &other).unwrap();
    disk.sync_dir(&open_dir(dir.path()).unwrap(), dir.path()).unwrap();
    disk.cut_power(Loss::Content).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"");
    disk.unlink(&name).unwrap();
    disk.mkdir(&dir.path().join("dir"), Mode::Umask(0o755)).unwrap();
    disk.cut_power(Loss::Names).unwrap();
    assert!(name.exists() && !dir.path().join("dir").exists());
}

#[test]
fn a_planted_name_is_neither_followed_nor_waited_for() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    symlink("secret", dir.path().join("link")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    for name in ["link", "dangling", "dir", "fifo"] {
        assert!(matches!(tree.read(rel(name), 99), Err(Error::NotRegular { .. })), "{name}");
        assert!(matches!(tree.open(rel(name)), Err(Error::NotRegular { .. })), "{name}");
        assert!(matches!(tree.lock(rel(name), Duration::ZERO), Err(Error::NotRegular { .. })), "{name}");
        assert!(matches!(tree.commit_link(rel(name), b"x"), Err(Error::NotRegular { .. })), "{name}");
        assert_eq!(tree.create(rel(name), b"x", Kind::Immutable).unwrap(), Created::Exists, "{name}");
    }
    assert!(!dir.path().join("nowhere").exists());
    // As a directory, neither.
    assert!(tree.create(rel("fifo/x"), b"x", Kind::Immutable).is_err());
    // Replacing a symlink leaves what it leads to alone.
    tree.replace(rel("link"), b"mine").unwrap();
    assert_eq!(fs::read(dir.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn a_path_does_not_lead_out() {
    let dir = tempdir().unwrap();
    let tree = tree(&dir.path().join("root"));
    for path in ["../x", "/etc/x", "a/../../x", "./x"] {
        let refused = |result| matches!(result, Err(Error::NotPlain { .. }));
        assert!(refused(tree.create(rel(path), b"", Kind::Mutable).map(|_| ())), "{path}");
        assert!(refused(tree.replace(rel(path), b"")), "{path}");
        assert!(refused(tree.read(rel(path), 0).map(|_| ())), "{path}");
        assert!(refused(tree.remove(rel(path))), "{path}");
        assert!(refused(tree.make_dir(rel(path))), "{path}");
        assert!(refused(tree.lock(rel(path), Duration::ZERO).map(|_| ())), "{path}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_shared_tree_has_its_modes_under_any_umask() {
    let dir = tempdir().unwrap();
    let tree = Durable::new(real(), dir.path(), true);
    let _ = tree.create(rel("objects/ab/x"), b"", Kind::Immutable).unwrap();
    tree.replace(rel("log/checkpoint"), b"").unwrap();
    tree.make_own_dir(rel("log/pending/7")).unwrap();
    let _ = tree.create(rel("log/pending/7/x"), b"", Kind::Immutable).unwrap();
    let _lock = tree.lock(rel("log/lock"), Duration::ZERO).unwrap();
    let modes = ["objects", "objects/ab", "objects/ab/x", "log/checkpoint", "log/pending", "log/pending/7"]
        .map(|name| mode(dir.path().join(name)));
    assert_eq!(modes, [0o2770, 0o2770, 0o440, 0o660, 0o2770, 0o2750]);
    assert_eq!(mode(dir.path().join("log/lock")), 0o660);
    assert_eq!(mode(dir.path().join(TMP)), 0o2770);
}

#[test]
fn a_closed_umask_does_not_close_a_shared_tree() {
    // The umask belongs to the process, so the test above runs in one of its own.
    let name = "durable::tests::a_shared_tree_has_its_modes_under_any_umask";
    let script = "umask 077; exec \"$0\" --exact \"$1\"";
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("sh").args(["-c", script]).arg(exe).arg(name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn an_unshared_tree_is_read_only_for_what_never_changes() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    let _ = tree.create(rel("x"), b"", Kind::Immutable).unwrap();
    tree.replace(rel("y"), b"").unwrap();
    assert_eq!(mode(dir.path().join("x")) & 0o222, 0);
    assert_eq!(mode(dir.path().join("y")) & 0o200, 0o200);
}

#[test]
fn a_lock_keeps_the_second_out_and_says_who_holds_it() {
    let dir = tempdir().unwrap();
    let (first, second) = (tree(dir.path()), tree(dir.path()));
    let lock = first.lock(rel("log/lock"), Duration::ZERO).unwrap();
    assert!(lock.is_held());
    let Err(Error::Busy { path, holder }) = second.lock(rel("log/lock"), Duration::ZERO) else {
        panic!("two hold the lock");
    };
    assert_eq!(path, dir.path().join("log/lock"));
    assert!(holder.starts_with(&format!("pid {} host ", std::process::id())), "{holder}");
    assert!(holder.ends_with(&format!(" uid {}", rustix::process::getuid().as_raw())), "{holder}");
    drop(lock);
    assert_eq!(fs::read(dir.path().join("log/lock")).unwrap(), b"", "who has gone is not named");
    assert!(second.lock(rel("log/lock"), Duration::ZERO).unwrap().is_held());
}

#[test]
fn a_holder_that_was_killed_is_not_named_in_place_of_the_next() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    let lock = tree.lock(rel("lock"), Duration::ZERO).unwrap();
    let named = |text: String| {
        fs::write(dir.path().join("lock"), text).unwrap();
        match tree.lock(rel("lock"), Duration::ZERO) {
            Err(Error::Busy { holder, .. }) => holder,
            other => panic!("{other:?}"),
        }
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut child = Command::new("true").spawn().unwrap();
    let gone = child.id();
    child.wait().unwrap();
    assert_eq!(named(format!("pid {gone} host {host} uid 7\n")), "another process");
    // Of another host nothing is known here.
    let elsewhere = format!("pid {gone} host {host}-2 uid 7");
    assert_eq!(named(format!("{elsewhere}\n")), elsewhere);
    assert_eq!(named("\u{1b}[31mpid".to_owned()), "another process");
    drop(lock);
}

#[test]
fn waiting_threads_get_the_lock_one_after_the_other() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    tree.replace(rel("count"), b"0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let _lock = tree.lock(rel("lock"), Duration::from_mins(5)).unwrap();
                    let text = tree.read(rel("count"), 9).unwrap().unwrap();
                    let count: u32 = String::from_utf8(text).unwrap().parse().unwrap();
                    tree.replace(rel("count"), (count + 1).to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(tree.read(rel("count"), 9).unwrap().unwrap(), b"40");
}

#[test]
fn a_stream_that_is_dropped_leaves_nothing() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    let mut staged = tree.stage(Kind::Immutable).unwrap();
    staged.write_all(b"half").unwrap();
    assert_eq!(fs::read_dir(dir.path().join(TMP)).unwrap().count(), 1);
    drop(staged);
    assert_eq!(files(dir.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_working_disk_passes_the_probe_and_a_lacking_one_is_named() {
    let dir = tempdir().unwrap();
    tree(dir.path()).probe().unwrap();
    assert_eq!(files(dir.path()), [] as [PathBuf; 0]);
    let operations = counted(dir.path(), |tree| tree.probe().unwrap());
    let mut named = Vec::new();
    for at in 0..operations.len() {
        let disk = Arc::new(FaultDisk::failing(dir.path(), at, Fault::Stop));
        if let Err(Error::Lacks { ability, .. }) = Durable::new(disk, dir.path(), false).probe() {
            named.push(ability);
        }
    }
    assert_eq!(named, [Ability::Sync, Ability::Sync, Ability::Link, Ability::Link, Ability::Rename]);
}

#[test]
fn a_new_ledger_appears_whole_or_not_at_all() {
    let init = |disk: Arc<dyn Disk>, parent: &Path| -> Result<Durable, Error> {
        let fresh = Fresh::begin(&disk, parent, ".ledger", false)?;
        let _ = fresh.durable().create(rel("log/heads/000"), b"head", Kind::Immutable)?;
        fresh.durable().replace(rel("format"), b"1")?;
        fresh.finish()
    };
    let whole = [PathBuf::from("format"), PathBuf::from("log/heads/000")];
    let content = |parent: &Path| {
        let root = parent.join(".ledger");
        let mut found: Vec<_> =
            files(&root).iter().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect();
        found.sort();
        found
    };
    let dir = tempdir().unwrap();
    let disk = Arc::new(FaultDisk::counting(dir.path()));
    let made = init(disk.clone(), dir.path()).unwrap();
    assert_eq!(made.root(), dir.path().join(".ledger"));
    assert_eq!(content(dir.path()), whole);
    assert!(matches!(init(real(), dir.path()), Err(Error::Exists { .. })));
    assert_eq!(fresh::left_behind(dir.path(), ".ledger").unwrap(), [] as [PathBuf; 0]);
    for (at, operation) in disk.operations().iter().enumerate() {
        for (fault, loss) in FAULTS.iter().flat_map(|fault| LOSSES.map(|loss| (*fault, loss))) {
            let case = format!("{at} {operation}, {fault:?}, {loss:?}");
            let dir = tempdir().unwrap();
            let disk = Arc::new(FaultDisk::failing(dir.path(), at, fault));
            let made = init(disk.clone(), dir.path());
            disk.cut_power(loss).unwrap();
            let exists = dir.path().join(".ledger").exists();
            assert!(exists || made.is_err(), "{case}");
            if exists {
                assert_eq!(content(dir.path()), whole, "{case}");
                assert_eq!(fs::read(dir.path().join(".ledger/log/heads/000")).unwrap(), b"head", "{case}");
            } else {
                // Whatever else is there is named, and does not stand in the way.
                let left = fresh::left_behind(dir.path(), ".ledger").unwrap();
                assert_eq!(left.len(), fs::read_dir(dir.path()).unwrap().count(), "{case}");
                init(quick(dir.path()), dir.path()).unwrap();
            }
        }
    }
}

#[test]
fn a_name_taken_during_init_is_not_replaced() {
    let dir = tempdir().unwrap();
    let fresh = Fresh::begin(&real(), dir.path(), ".ledger", false).unwrap();
    fs::create_dir(dir.path().join(".ledger")).unwrap();
    fs::write(dir.path().join(".ledger/format"), b"theirs").unwrap();
    assert!(matches!(fresh.finish(), Err(Error::Exists { .. })));
    assert_eq!(fs::read(dir.path().join(".ledger/format")).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_users_file_has_its_mode_and_a_key_is_never_replaced() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("config/ledger/keys/default.key");
    assert_eq!(outside::create(&real(), &path, b"seed", 0o600).unwrap(), Created::New);
    assert_eq!(outside::create(&real(), &path, b"other", 0o600).unwrap(), Created::Exists);
    assert_eq!(outside::read(&path, 9).unwrap().unwrap(), b"seed");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(dir.path().join("config")) & 0o077, 0);
    outside::replace(&real(), &path, b"again", 0o640).unwrap();
    assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"again"[..], 0o640));
    assert_eq!(files(dir.path()), [path.as_path()]);
    assert_eq!(outside::read(&dir.path().join("absent"), 9).unwrap(), None);
    let lock = outside::lock(&real(), &dir.path().join("state/lock"), Duration::ZERO).unwrap();
    assert!(outside::lock(&real(), &dir.path().join("state/lock"), Duration::ZERO).is_err());
    drop(lock);
}

#[test]
fn no_crash_loses_a_users_file() {
    let act = |disk: &Arc<dyn Disk>, base: &Path| -> Result<(), Error> {
        let _ = outside::create(disk, &base.join("a/b/key"), b"seed", 0o600)?;
        outside::replace(disk, &base.join("head"), b"newer", 0o600)
    };
    let prepare = || {
        let dir = tempdir().unwrap();
        fs::write(dir.path().join("head"), b"older").unwrap();
        dir
    };
    let dir = prepare();
    let counting = Arc::new(FaultDisk::counting(dir.path()));
    act(&(counting.clone() as Arc<dyn Disk>), dir.path()).unwrap();
    for (at, operation) in counting.operations().iter().enumerate() {
        for (fault, loss) in FAULTS.iter().flat_map(|fault| LOSSES.map(|loss| (*fault, loss))) {
            let case = format!("{at} {operation}, {fault:?}, {loss:?}");
            let dir = prepare();
            let disk = Arc::new(FaultDisk::failing(dir.path(), at, fault));
            let done = act(&(disk.clone() as Arc<dyn Disk>), dir.path());
            disk.cut_power(loss).unwrap();
            let key = fs::read(dir.path().join("a/b/key")).ok();
            let head = fs::read(dir.path().join("head")).unwrap();
            assert!(key.is_none() || key.as_deref() == Some(b"seed"), "{case}");
            assert!(head == b"older" || head == b"newer", "{case}");
            assert!(done.is_err() || (key.is_some() && head == b"newer"), "{case}");
        }
    }
}

#[test]
fn errors_say_what_the_user_can_change() {
    let error = |errno: Errno| Error::from_write("write", rel("x"), errno.into());
    assert!(matches!(error(Errno::NOSPC), Error::Full { .. }));
    assert!(matches!(error(Errno::DQUOT), Error::Full { .. }));
    assert!(matches!(error(Errno::ROFS), Error::NotWritable { .. }));
    assert!(matches!(error(Errno::ACCESS), Error::NotWritable { .. }));
    assert!(matches!(error(Errno::IO), Error::Io { .. }));
    assert!(matches!(Error::from_sync(rel("x"), Errno::IO.into()), Error::Sync { .. }));
    assert!(matches!(Error::from_sync(rel("x"), Errno::NOSPC.into()), Error::Full { .. }));
    assert!(matches!(Error::from_read("read", rel("x"), Errno::ACCESS.into()), Error::NotReadable { .. }));
}

#[test]
fn the_inode_is_the_directorys() {
    let dir = tempdir().unwrap();
    let tree = tree(dir.path());
    assert_eq!(tree.inode().unwrap(), tree.inode().unwrap());
    let other = tempdir().unwrap();
    assert_ne!(tree.inode().unwrap(), super::Durable::new(real(), other.path(), false).inode().unwrap());
}
