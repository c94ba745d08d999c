//! What is wrong with the machine: no home, loose keys, a full disk, nobody who reads.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::figures;
use crate::scene::{FREEZE, files, freeze, is_sound, project, refuses, root};
use crate::support::Person;

fn key_path(person: &Person) -> std::path::PathBuf {
    person.home.join(".config/ledger/keys/default.key")
}

#[test]
fn a_key_file_with_loose_permissions() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let key = key_path(&kim);
    for mode in [0o640, 0o604, 0o620, 0o666] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = refuses(&kim, &FREEZE, 3, "loose-key");
        assert!(said.stderr.contains(&format!("\nhint: chmod 600 {}\n", key.display())), "{said:?}");
        assert_eq!(kim.run(&["head"]).code, 0, "reading needs no key");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    is_sound(&kim, &[run]);
}

#[test]
fn a_key_file_that_is_none() {
    let (_world, kim) = project();
    for text in ["", "ledger-key/9\n", "\u{0}\u{1}"] {
        std::fs::write(key_path(&kim), text).unwrap();
        refuses(&kim, &FREEZE, 3, "no-key");
    }
    refuses(&kim.with("LEDGER_KEY", "nonsense"), &FREEZE, 3, "no-key");
    refuses(&kim.with("LEDGER_KEY_FILE", "/nonexistent/key"), &FREEZE, 3, "no-key");
}

/// Reads without a key, writes with one from elsewhere, and writes nothing without one.
fn works_homeless(kim: &Person, homeless: &Person) {
    let run = freeze(kim);
    for args in [&["head"][..], &["entries"], &["cat", &run, "--json"], &["show", &run], &["fsck"]] {
        let output = homeless.run(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
    }
    let said = homeless.run(&["-v", "head"]);
    assert!(said.stderr.contains("note: ") && said.stderr.contains("not remembered"), "{said:?}");
    let quiet = homeless.run(&["head"]);
    assert_eq!(quiet.stderr, "", "what cannot be remembered is told with -v only");
    refuses(homeless, &FREEZE, 3, "no-key");
    refuses(homeless, &["key", "new"], 3, "no-key");
    let with_file = homeless.with("LEDGER_KEY_FILE", key_path(kim).to_str().unwrap());
    let second = freeze(&with_file);
    let text = std::fs::read_to_string(key_path(kim)).unwrap();
    let third = freeze(&homeless.with("LEDGER_KEY", &text));
    is_sound(kim, &[run, second, third]);
}

#[test]
fn a_home_that_does_not_exist() {
    let (_world, kim) = project();
    works_homeless(&kim, &kim.with("HOME", "/nonexistent"));
    assert!(!Path::new("/nonexistent").exists(), "a home is not ours to make");
}

#[test]
fn no_home_at_all() {
    let (_world, kim) = project();
    works_homeless(&kim, &kim.without("HOME"));
}

#[test]
fn a_home_that_cannot_be_written() {
    let (_world, kim) = project();
    // Below a file nobody can make anything, not even root.
    let file = kim.lay("file", b"");
    let below = |name: &str| file.join(name).to_str().unwrap().to_owned();
    let homeless = kim
        .without("HOME")
        .with("XDG_CONFIG_HOME", &below("config"))
        .with("XDG_STATE_HOME", &below("state"))
        .with("XDG_CACHE_HOME", &below("cache"));
    works_homeless(&kim, &homeless);
}

#[test]
fn an_init_without_a_home_leaves_nothing() {
    let (world, kim) = project();
    let lou = world.person("lou");
    let dir = lou.home.join("project");
    std::fs::create_dir(&dir).unwrap();
    let homeless = lou.at(&dir).with("HOME", "/nonexistent");
    refuses(&homeless, &["init"], 3, "no-key");
    assert!(files(&dir).is_empty(), "half a ledger is left");
    let with_file = homeless.with("LEDGER_KEY_FILE", key_path(&kim).to_str().unwrap());
    assert_eq!(with_file.run(&["init"]).code, 0);
    assert!(!Path::new("/nonexistent").exists());
}

/// Set in the process that sees its own mounts.
const INSIDE: &str = "LEDGER_TEST_INSIDE_NAMESPACE";

#[test]
fn a_full_disk() {
    if std::env::var_os(INSIDE).is_some() {
        return fill_and_free();
    }
    // A namespace of mounts ends with its process, so nothing stays mounted, whatever happens.
    let me = std::env::current_exe().unwrap();
    let mut said = String::new();
    for flags in ["-m", "-rm"] {
        let test = ["machine::a_full_disk", "--exact", "--nocapture"];
        let output = Command::new("unshare").arg(flags).arg(&me).args(test).env(INSIDE, "1").output();
        let output = output.expect("this test needs `unshare` of util-linux");
        said = format!("{said}unshare {flags}: {}", String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return;
        }
        assert!(!said.contains("panicked at"), "{said}{}", String::from_utf8_lossy(&output.stdout));
    }
    panic!("this test needs to mount a tmpfs, as root or in a user namespace:\n{said}");
}

/// Mounts a small disk over a project, fills it, and frees it again.
fn fill_and_free() {
    let (_world, kim) = project();
    let small = kim.project.join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small).status();
    assert!(mounted.unwrap().success(), "a tmpfs cannot be mounted");
    let kim = kim.at(&small);
    kim.ok(&["init"]);
    kim.lay("config.yaml", b"lr: 0.1\n");
    kim.lay("data/train.csv", b"1,2\n");
    let mut acknowledged = vec![freeze(&kim)];
    // One block more is free each time, so that the disk is full at every step that there is.
    let filler = small.join("filler");
    let mut blocks = fill(&filler);
    let (mut refused, mut queued) = (0, 0);
    for free in 0.. {
        while rustix::fs::statvfs(&small).unwrap().f_bavail < free {
            blocks = blocks.checked_sub(1).expect("an empty disk is not full");
            std::fs::File::options().write(true).open(&filler).unwrap().set_len(blocks * BLOCK).unwrap();
        }
        let before = files(&root(&kim));
        let said = kim.run(&FREEZE[1..]);
        match said.code {
            0 => {
                acknowledged.push(said.stdout.trim().to_owned());
                if !said.stderr.contains("queued: ") {
                    break;
                }
                queued += 1;
            }
            6 => {
                said.fails(6, "disk-full");
                assert!(said.stderr.contains("\nhint: "), "{said:?}");
                refused += 1;
                let objects = root(&kim).join("objects");
                for path in files(&root(&kim)).keys().filter(|path| !before.contains_key(*path)) {
                    let is_whole = path.starts_with(&objects)
                        || path.starts_with(root(&kim).join("log/pending"))
                        || path.starts_with(root(&kim).join("log/heads"))
                        || path.starts_with(root(&kim).join("log/tile"))
                        || path.starts_with(root(&kim).join("runs"));
                    assert!(is_whole, "{} is left behind: {said:?}", path.display());
                }
            }
            _ => panic!("{said:?}"),
        }
        assert_eq!(kim.run(&["head"]).code, 0, "a full disk is no reason not to read");
    }
    assert!(refused > 3, "the disk was full {refused} times, and {queued} statements were queued");
    std::fs::remove_file(&filler).unwrap();
    is_sound(&kim, &acknowledged);
}

const BLOCK: u64 = 4096;

/// Writes until the disk is full, and returns how many blocks that took.
fn fill(path: &Path) -> u64 {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    let mut blocks = 0;
    while file.write_all(&[0; BLOCK as usize]).is_ok() {
        blocks += 1;
    }
    blocks
}

#[test]
fn a_reader_who_goes_away() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    for args in
        [&["entries"][..], &["head"], &["--json", "entries"], &["cat", &run], &["show", &run], &["log"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = kim.command(args);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(141), ""), "{args:?}");
    }
    is_sound(&kim, &[run]);
}

#[test]
fn an_answer_that_cannot_be_written_is_not_taken_back() {
    let (_world, kim) = project();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = kim.command(&FREEZE).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(crate::scene::runs(&kim).len(), 1, "the run is frozen although nobody heard its id");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = kim.command(&["entries"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("error[disk-full]: "), "{said}");
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_repository_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a_repository_of_another_user needs root");
        figures::skip("a_repository_of_another_user", "needs root");
        return;
    }
    let (_world, kim) = project();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=kim", "-c", "user.email=kim@example.org"]).args(args);
        command
            .current_dir(&kim.project)
            .env_clear()
            .env("HOME", &kim.home)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "config.yaml"]);
    git(&["commit", "-qm", "begin"]);
    let code = |run: &str| kim.json(&["show", run])["record"].clone();
    assert!(code(&freeze(&kim))["code"].is_string());

    // Neither libgit2 nor git reads it, and that is never taken for "no repository" or "no change".
    let own = |user| {
        for path in [kim.project.clone(), kim.project.join(".git")] {
            std::os::unix::fs::chown(path, Some(user), None).unwrap();
        }
    };
    own(64_301);
    let said = kim.run(&FREEZE[1..]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("warning: the state of the code is unknown: "), "{said:?}");
    assert!(said.stderr.contains("belongs to another user"), "{said:?}");
    let record = code(said.stdout.trim());
    let reason = record["none"]["code"].as_str().unwrap();
    assert!(
        record["code"].is_null() && reason.starts_with("unknown: the repository belongs to another user"),
        "{record}"
    );
    let doctor = kim.run(&["doctor"]);
    assert!(doctor.stdout.contains("git config --global --add safe.directory "), "{doctor:?}");

    // What the hint says, done.
    let setting = format!("[safe]\n\tdirectory = {}\n", kim.project.display());
    std::fs::write(kim.home.join(".gitconfig"), setting).unwrap();
    let run = freeze(&kim);
    assert!(code(&run)["code"].is_string(), "{}", code(&run));
    own(0);
    is_sound(&kim, &[run]);
}
