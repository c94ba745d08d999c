//! Data that is no plain file, or not the same for long, or has a name that only bytes can spell.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::configs::make_fifo;
use crate::scene::{freeze, is_sound, project, refuses};
use crate::support::Person;

#[test]
fn a_fifo_in_a_dataset() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    make_fifo(&kim.project.join("data/pipe"));
    let said = refuses(&kim, &["-q", "freeze", "--data", "train=data"], 2, "bad-data");
    assert!(said.stderr.contains("data/pipe` is a FIFO"), "{said:?}");
    refuses(&kim, &["-q", "record", "dataset", "data", "--name", "d"], 2, "bad-data");
    refuses(&kim, &["-q", "hash", "data"], 2, "bad-data");
    std::fs::remove_file(kim.project.join("data/pipe")).unwrap();
    is_sound(&kim, &[run]);
}

#[test]
fn a_dataset_that_is_not_there() {
    let (_world, kim) = project();
    refuses(&kim, &["-q", "freeze", "--data", "train=gone"], 2, "bad-data");
}

#[test]
fn a_file_that_changes_while_it_is_hashed() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let path = kim.lay("data/growing", b"");
    let mut growing = std::fs::File::options().append(true).open(&path).unwrap();
    // Holes cost no disk, and hashing them takes long enough for many appends.
    growing.set_len(512 << 20).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                growing.write_all(b"x").unwrap();
            }
        });
        let said = std::panic::catch_unwind(|| {
            refuses(&kim, &["-q", "freeze", "--data", "train=data"], 6, "changed-while-read")
        });
        is_done.store(true, Ordering::Relaxed);
        let said = said.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(said.stderr.contains("data/growing"), "{said:?}");
    });
    std::fs::remove_file(&path).unwrap();
    is_sound(&kim, &[run]);
}

/// Names that shells, terminals and UTF-8 do not like.
const NAMES: [&[u8]; 7] = [
    b"new\nline",
    b"not-\xff-utf8",
    b"\xc3",
    b" -rf",
    b"tab\tand\x1b[31mred",
    b"back\\slash \"quoted\"",
    // As long as a name can be, and four times as long where it is written for people.
    &[0xfe; 255],
];

#[test]
fn names_with_newlines_and_bytes_that_are_no_text() {
    let (_world, kim) = project();
    let hash = || kim.ok(&["-q", "hash", "data"]);
    for name in NAMES {
        let before = hash();
        std::fs::write(kim.project.join("data").join(OsStr::from_bytes(name)), name).unwrap();
        assert_ne!(before, hash());
    }
    let all = hash();
    let first = freeze(&kim);
    // The same names in another order and place are the same dataset; one other byte in a name is another one.
    std::fs::create_dir(kim.project.join("again")).unwrap();
    std::fs::copy(kim.project.join("data/train.csv"), kim.project.join("again/train.csv")).unwrap();
    for name in NAMES.iter().rev() {
        std::fs::write(kim.project.join("again").join(OsStr::from_bytes(name)), name).unwrap();
    }
    assert_eq!(kim.ok(&["-q", "hash", "again"]), all.replace("data", "again"));
    let id = kim.ok(&["-q", "record", "dataset", "data", "--name", "odd"]);
    assert!(id.starts_with("data:"), "{id}");
    assert_eq!(kim.ok(&["-q", "record", "dataset", "data", "--name", "odd"]), id);
    for args in [&["ls", "datasets"][..], &["show", &id], &["show", "--raw", &id]] {
        is_printable(&kim, args);
    }
    std::fs::rename(
        kim.project.join("data").join(OsStr::from_bytes(NAMES[1])),
        kim.project.join("data").join(OsStr::from_bytes(b"not-\xfe-utf8")),
    )
    .unwrap();
    assert_ne!(hash(), all);
    is_sound(&kim, &[first]);
}

#[test]
fn a_weights_directory_with_such_names() {
    let (_world, kim) = project();
    for name in NAMES {
        let dir = kim.project.join(OsStr::from_bytes(name));
        std::fs::create_dir(&dir).unwrap();
        let header = b"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header);
        file.push(7);
        std::fs::write(dir.join("model.safetensors"), file).unwrap();
        std::fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
        let mut command = kim.command(&["record", "checkpoint", "--run", "none", "--"]);
        let output = command.arg(OsStr::from_bytes(name)).output().unwrap();
        let said = String::from_utf8(output.stderr).expect("what is said is text");
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
    }
}

/// Runs a command that must succeed without a control character that came out of a name.
fn is_printable(kim: &Person, args: &[&str]) {
    let output = kim.run(args);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!output.stdout.contains('\x1b') && !output.stderr.contains('\x1b'), "{output:?}");
}

#[test]
fn symlinks_that_lead_nowhere_or_in_circles_are_recorded_and_not_followed() {
    let (world, kim) = project();
    let hash = || kim.ok(&["-q", "hash", "data"]);
    let at = |name: &str| kim.project.join("data").join(name);
    let link = |target: &str, name: &str| {
        let before = hash();
        symlink(target, at(name)).unwrap();
        assert_ne!(before, hash(), "{name} is not recorded");
    };
    link("nowhere", "broken");
    link("cycle", "cycle");
    link("second", "first");
    link("first", "second");
    link("..", "up");
    link("/dev/zero", "endless");
    let outside = world.person("lou").home.join("secret");
    std::fs::write(&outside, "one").unwrap();
    link(outside.to_str().unwrap(), "outside");
    let run = freeze(&kim);
    // What a link leads to is not part of the dataset; where it points is.
    let before = hash();
    std::fs::write(&outside, "two").unwrap();
    assert_eq!(hash(), before);
    std::fs::remove_file(at("broken")).unwrap();
    symlink("elsewhere", at("broken")).unwrap();
    assert_ne!(hash(), before);
    is_sound(&kim, &[run]);
}

#[test]
fn a_dataset_given_as_a_broken_link() {
    let (_world, kim) = project();
    symlink("nowhere", kim.project.join("link")).unwrap();
    symlink("loop", kim.project.join("loop")).unwrap();
    for name in ["link", "loop"] {
        assert!(Path::new(&kim.project.join(name)).symlink_metadata().is_ok());
        refuses(&kim, &["-q", "freeze", "--data", &format!("train={name}")], 2, "bad-data");
    }
}
