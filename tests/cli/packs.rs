//! Many small objects in one file, as people meet them: recorded, checked, damaged, mended, backed up; and the cache
//! of digests that makes a second look quick.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{Person, World};

/// A dataset of so many folders that its tree is packed, and its id.
fn dataset(kim: &Person) -> String {
    for n in 0..80 {
        kim.lay(&format!("data/{n:02}/file"), format!("row {n}").as_bytes());
    }
    kim.id(&["record", "dataset", "data", "--name", "train"])
}

fn packs(ledger: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(ledger.join("packs")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_dataset_of_many_folders_is_one_file_that_is_checked_and_mended() {
    let (_world, kim) = World::founded();
    let before = kim.json(&["fsck"])["objects"].as_u64().unwrap();
    let id = dataset(&kim);
    let ledger = kim.project.join(".ledger");
    let [pack] = &packs(&ledger)[..] else { panic!("one pack") };
    assert_eq!(pack.metadata().unwrap().permissions().mode() & 0o777, 0o444);
    assert!(kim.json(&["fsck"])["objects"].as_u64().unwrap() > before + 80);
    let trust = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    kim.ok(&["verify", "data", "--is", &id, "--trust", &trust]);
    assert_eq!(kim.id(&["record", "dataset", "data", "--name", "train"]), id);
    assert_eq!(packs(&ledger).len(), 1, "what is there is not stored again");

    // One byte of the first object: it is named, and so is what needs it.
    let good = std::fs::read(pack).unwrap();
    let mut bad = good.clone();
    bad[16] ^= 1;
    std::fs::set_permissions(pack, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(pack, &bad).unwrap();
    let found = kim.run(&["fsck"]);
    assert_eq!(found.code, 5, "{}", found.stdout);
    let name = pack.file_name().unwrap().to_str().unwrap();
    assert!(found.stdout.contains(&format!("packs/{name}: object ")), "{}", found.stdout);

    // What is sound in it is kept; what is not is missing, and comes back when it is recorded again.
    let mended = kim.run(&["fsck", "--repair"]);
    assert!(mended.stderr.contains("1 object lost"), "{}", mended.stderr);
    assert_eq!(std::fs::read(ledger.join(format!("damaged/{name}.pack"))).unwrap(), bad);
    assert_eq!(mended.code, 5, "{}", mended.stdout);
    assert!(mended.stdout.contains("missing"), "{}", mended.stdout);
    kim.ok(&["record", "dataset", "data", "--name", "other"]);
    kim.ok(&["fsck"]);
}

#[test]
fn a_backup_has_the_same_packs() {
    let (_world, kim) = World::founded();
    dataset(&kim);
    let dir = kim.home.join("backup");
    std::fs::create_dir(&dir).unwrap();
    let first = kim.json(&["backup", dir.to_str().unwrap()]);
    let (here, there) = (packs(&kim.project.join(".ledger")), packs(&dir.join(".ledger")));
    assert_eq!(std::fs::read(&here[0]).unwrap(), std::fs::read(&there[0]).unwrap());
    let at = kim.at(&dir);
    assert_eq!(at.json(&["fsck"])["objects"], kim.json(&["fsck"])["objects"]);
    let again = kim.json(&["backup", dir.to_str().unwrap()]);
    assert_eq!((&again["copied"], &again["kept"]), (&0.into(), &first["copied"]), "{again}");

    // Of a damaged pack the backup gets what is sound; what it has already stays as it is.
    let other = kim.home.join("other");
    std::fs::create_dir(&other).unwrap();
    let mut bad = std::fs::read(&here[0]).unwrap();
    bad[16] ^= 1;
    std::fs::set_permissions(&here[0], PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&here[0], &bad).unwrap();
    let lacking = kim.run(&["backup", other.to_str().unwrap()]);
    assert_ne!(lacking.code, 0, "{}", lacking.stdout);
    assert_eq!(packs(&other.join(".ledger")), Vec::<PathBuf>::new());
    kim.run(&["backup", dir.to_str().unwrap()]);
    at.ok(&["fsck"]);
}

#[test]
fn stored_bytes_are_hashed_bytes_however_many_files_there_are() {
    let (_world, kim) = World::founded();
    for n in 0..100 {
        kim.lay(&format!("data/{n}"), format!("row {n}").as_bytes());
    }
    kim.lay("data/large", &vec![7; (1 << 20) + 1]);
    kim.ok(&["record", "dataset", "data", "--name", "train", "--store"]);
    assert_eq!(packs(&kim.project.join(".ledger")).len(), 1);
    for name in ["17", "99", "large"] {
        let path = kim.project.join("data").join(name);
        let hash = kim.ok(&["hash", path.to_str().unwrap()]);
        let cat = kim.command(&["cat", &hash[..64]]).output().unwrap();
        assert_eq!(cat.stdout, std::fs::read(path).unwrap());
    }
}

#[test]
fn the_cache_of_digests_is_used_by_those_who_may_and_never_by_verify() {
    let (_world, kim) = World::founded();
    for n in 0..40 {
        kim.lay(&format!("data/{n}"), format!("row {n:02}").as_bytes());
    }
    let id = kim.id(&["record", "dataset", "data", "--name", "train", "--no-cache"]);
    let kept = kim.home.join(".cache/ledger/digests");
    assert!(!kept.exists());
    // What was touched less than two seconds ago is not kept.
    std::thread::sleep(std::time::Duration::from_millis(3100));
    let hash = kim.ok(&["hash", "data"]);
    let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    assert_eq!(kim.ok(&["hash", "data"]), hash);

    // A cache that lies: whoever uses it says what it says, whoever must not does not.
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len() - 32;
    bytes[16 + 40] ^= 1;
    let digest = ledger::id::object_id(&bytes[..end]);
    bytes[end..].copy_from_slice(digest.as_bytes());
    std::fs::write(&file, bytes).unwrap();
    assert_ne!(kim.ok(&["hash", "data"]), hash);
    assert_eq!(kim.ok(&["hash", "data", "--no-cache"]), hash);
    assert_eq!(kim.ok(&["hash", "data", "--no-cache", "--mmap"]), hash);
    let trust = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    for more in [&[][..], &["--mmap"], &["--data"], &["--full"]] {
        kim.ok(&[&["verify", "data", "--is", &id, "--trust", &trust], more].concat());
    }
    assert_ne!(kim.id(&["record", "dataset", "data", "--name", "lied"]), id);
    assert_eq!(kim.id(&["record", "dataset", "data", "--name", "true", "--no-cache"]), id);
}

#[test]
#[expect(clippy::print_stdout, reason = "how long it took is worth knowing")]
fn twenty_thousand_small_files_are_few_files_of_ours_and_take_no_minutes() {
    const FILES: u32 = 20_000;
    let (_world, kim) = World::founded();
    for folder in 0..200 {
        std::fs::create_dir_all(kim.project.join(format!("data/{folder}"))).unwrap();
    }
    for n in 0..FILES {
        // Some are equal, as they are in real data.
        std::fs::write(kim.project.join(format!("data/{}/{n}", n % 200)), format!("{}\n", n / 4)).unwrap();
    }
    let ledger = kim.project.join(".ledger");
    let count = |dir: &str| walkdir(&ledger.join(dir));
    let before = count("");
    let begun = std::time::Instant::now();
    let id = kim.id(&["-q", "record", "dataset", "data", "--name", "many", "--store"]);
    let first = begun.elapsed();
    println!("{FILES} files recorded and stored: {:.2} s", first.as_secs_f64());
    assert!(count("") < before + 40, "{} files for {FILES}", count("") - before);
    assert_eq!(kim.id(&["-q", "record", "dataset", "data", "--name", "many"]), id);
    let trust = kim.json(&["head"])["ledger"].as_str().unwrap().to_owned();
    kim.ok(&["verify", "data", "--is", &id, "--trust", &trust]);
    let fsck = kim.json(&["fsck"]);
    assert_eq!(fsck["exit"], 0, "{fsck}");
    assert!(fsck["objects"].as_u64().unwrap() > u64::from(FILES / 4) + 200, "{fsck}");
    // An idle machine takes three seconds for all files; where each took a commit of its own it would be minutes.
    assert!(first.as_secs() < 60, "{first:?}");
}

/// Counts the files below a directory.
fn walkdir(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().map(Result::unwrap);
    entries.map(|entry| if entry.file_type().unwrap().is_dir() { walkdir(&entry.path()) } else { 1 }).sum()
}
