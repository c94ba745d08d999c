//! What the store promises, held to it; faults of the disk included.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]

use std::fs;
use std::sync::Arc;

use super::pack;
use super::packs::{MAX_PACKED, PACK_FROM};
use super::*;
use crate::durable::fault::{Fault, FaultDisk, Loss};
use crate::durable::{Disk, RealDisk};

fn store_on(disk: Arc<dyn Disk>, root: &Path) -> Store {
    Store::new(Durable::new(disk, root, false))
}

fn store(root: &Path) -> Store {
    store_on(Arc::new(RealDisk), root)
}

fn lay(root: &Path, rel: &Path, bytes: &[u8]) {
    let path = root.join(rel);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_put_can_be_had_and_its_place_is_its_b3sum() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.put(b"").unwrap();
    let place = "objects/af/1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(fs::read(dir.path().join(place)).unwrap(), b"");
    assert_eq!(store.get(id, 0).unwrap(), b"");
    let ids = store.put_many(&["a", "b", "a"]).unwrap();
    assert_eq!(ids[0], ids[2]);
    assert_eq!(store.get(ids[1], 1).unwrap(), b"b");
    assert_eq!(store.ids().unwrap().len(), 3);
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_missing_or_large_object_is_not_had() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let absent = id::object_id(b"absent");
    assert!(matches!(store.get(absent, 9), Err(Error::Missing { id }) if id == absent));
    assert!(matches!(store.copy_to(absent, &mut Vec::new()), Err(Error::Missing { .. })));
    assert!(matches!(store.size(absent), Err(Error::Missing { .. })));
    assert!(!store.contains(absent).unwrap());
    let id = store.put(b"four").unwrap();
    assert!(matches!(store.get(id, 3), Err(Error::TooLarge { size: 4, cap: 3, .. })));
    assert_eq!((store.contains(id).unwrap(), store.size(id).unwrap()), (true, 4));
}

#[test]
fn every_flipped_byte_is_found_on_reading() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let good = b"weights".to_vec();
    let id = id::object_id(&good);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        lay(dir.path(), &place(id), &bad);
        let is_named = |error| matches!(error, Error::Damaged { found, .. } if found == id::object_id(&bad));
        assert!(is_named(store.get(id, 99).unwrap_err()));
        assert!(is_named(store.copy_to(id, &mut Vec::new()).unwrap_err()));
    }
}

#[test]
fn a_damaged_object_is_set_aside_when_the_right_one_is_put() {
    type Put = fn(&Store) -> ObjectId;
    let puts: [Put; 2] =
        [|store| store.put(b"right").unwrap(), |store| store.put_file(&mut &b"right"[..]).unwrap().blake3];
    let id = id::object_id(b"right");
    for put in puts {
        for bad in [&b"wrong"[..], b"short", b"longer than it", b""] {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path());
            lay(dir.path(), &place(id), bad);
            assert_eq!(put(&store), id);
            assert_eq!(store.get(id, 9).unwrap(), b"right");
            let kept = dir.path().join(DAMAGED).join(format!("{id}.{}", id::object_id(bad)));
            assert_eq!(fs::read(kept).unwrap(), bad);
            // A sound object is left alone.
            assert_eq!(put(&store), id);
            assert_eq!(fs::read_dir(dir.path().join(DAMAGED)).unwrap().count(), 1);
        }
    }
}

#[test]
fn what_is_not_a_file_is_neither_followed_nor_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = id::object_id(b"right");
    let path = dir.path().join(place(id));
    lay(dir.path(), Path::new("elsewhere"), b"right");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let plants: [fn(&Path); 3] = [
        |path| std::os::unix::fs::symlink("../../elsewhere", path).unwrap(),
        |path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        },
        |path| fs::create_dir(path).unwrap(),
    ];
    for plant in plants {
        plant(&path);
        assert!(!store.contains(id).unwrap());
        assert!(matches!(store.get(id, 9), Err(Error::Disk(durable::Error::NotRegular { .. }))));
        assert_eq!(store.put(b"right").unwrap(), id);
        assert_eq!(store.get(id, 9).unwrap(), b"right");
        fs::remove_file(&path).unwrap();
        let aside = dir.path().join(DAMAGED).join(format!("{id}.other"));
        if fs::remove_file(&aside).is_err() {
            fs::remove_dir(&aside).unwrap();
        }
    }
}

#[test]
fn a_stream_is_stored_as_it_was_hashed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK] {
        let bytes = vec![7; size];
        let print = store.put_file(&mut bytes.as_slice()).unwrap();
        assert_eq!((print.blake3, print.size), (id::object_id(&bytes), size as u64));
        assert_eq!(print.sha256, Some(id::sha256(&bytes)));
        let mut copy = Vec::new();
        assert_eq!(store.copy_to(print.blake3, &mut copy).unwrap(), size as u64);
        assert_eq!(copy, bytes);
    }
}

#[test]
fn only_sound_objects_are_copied_and_a_torn_copy_is_mended() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (store(from.path()), store(to.path()));
    let mut objects: Vec<Vec<u8>> = (0..300u32).map(|n| n.to_le_bytes().to_vec()).collect();
    objects.push(vec![1; CHUNK + 1]);
    objects.push(vec![2; CHUNK + 1]);
    // Fewer at a time than are packed.
    let ids: Vec<ObjectId> = objects.chunks(60).flat_map(|some| source.put_many(some).unwrap()).collect();
    let (small, large, absent) = (ids[0], ids[301], id::object_id(b"absent"));
    for (id, bad) in [(small, vec![9; 4]), (large, vec![3; CHUNK + 1])] {
        fs::remove_file(from.path().join(place(id))).unwrap();
        lay(from.path(), &place(id), &bad);
    }
    lay(to.path(), &place(ids[1]), b"torn");
    lay(to.path(), &place(ids[300]), b"torn");
    let wanted: Vec<ObjectId> = ids.iter().copied().chain([absent]).collect();
    let mut told = Vec::new();
    target.copy_from(&source, &wanted, &mut |id, copied| told.push((id, copied))).unwrap();
    assert_eq!(told.len(), wanted.len());
    for (id, copied) in told {
        if id == small || id == large {
            assert!(matches!(copied, Err(Error::Damaged { .. })));
            assert!(!target.contains(id).unwrap());
        } else if id == absent {
            assert!(matches!(copied, Err(Error::Missing { .. })));
        } else {
            assert_eq!(target.get(id, 2 * CHUNK).unwrap().len() as u64, copied.unwrap());
        }
    }
    assert_eq!(target.ids().unwrap().len(), 300);
    assert_eq!(fs::read_dir(to.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn strays_are_told_apart_and_do_not_become_ids() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.put(b"x").unwrap();
    let hex = id.to_hex();
    let strays = ["objects/README", "objects/ab/short", "objects/zz/x"];
    for stray in strays {
        lay(dir.path(), Path::new(stray), b"");
    }
    let upper = format!("objects/{}/{}", &hex[..2], hex[2..].to_uppercase());
    lay(dir.path(), Path::new(&upper), b"");
    assert_eq!(store.ids().unwrap(), [id]);
    let walked = store.walk().unwrap();
    assert!(walked.contains(&Entry::Object(id, 1)));
    for stray in ["objects/README", "objects/ab/short", "objects/zz", &upper] {
        assert!(walked.contains(&Entry::Stray(stray.into())), "{stray}");
    }
    assert_eq!(walked.len(), 5);
}

#[test]
fn a_prefix_names_what_begins_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.put(b"x").unwrap();
    let near = format!("objects/{}/{}{}", &id.to_hex()[..2], &id.to_hex()[2..6], "0".repeat(58));
    lay(dir.path(), Path::new(&near), b"");
    let find = |len: usize| store.matching(&Prefix::parse(&id.to_hex()[..len]).unwrap()).unwrap();
    assert_eq!(find(6).len(), 2);
    assert_eq!(find(64), [id]);
    assert_eq!(store.matching(&Prefix::parse("000000").unwrap()).unwrap(), []);
}

#[test]
fn a_removed_object_is_gone_and_may_be_removed_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.put(b"x").unwrap();
    store.remove(id).unwrap();
    assert!(!store.contains(id).unwrap());
    store.remove(id).unwrap();
}

/// Puts single objects, many, a stream and one over a damaged place; returns what was acknowledged.
fn put_everything(store: &Store) -> Vec<ObjectId> {
    let mut acknowledged = Vec::new();
    acknowledged.extend(store.put(b"one"));
    acknowledged.extend(store.put_many(&["one", "two", "three", "two"]).unwrap_or_default());
    acknowledged.extend(store.put_file(&mut &b"stream"[..]).map(|print| print.blake3));
    acknowledged.extend(store.put(b"damaged"));
    acknowledged.extend(store.put_many(&many(PACK_FROM as u32)).unwrap_or_default());
    acknowledged
}

#[test]
fn no_crash_loses_an_acknowledged_object_or_shows_half_of_one() {
    let damaged = id::object_id(b"damaged");
    let prepare = || {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path(), &place(damaged), b"torn");
        dir
    };
    let dir = prepare();
    let disk = Arc::new(FaultDisk::counting(dir.path()));
    assert_eq!(put_everything(&store_on(disk.clone(), dir.path())).len(), 7 + PACK_FROM);
    let operations = disk.operations();
    for (at, operation) in operations.iter().enumerate() {
        for fault in [Fault::Stop, Fault::StopAfter, Fault::Misreport] {
            for loss in [Loss::Nothing, Loss::Content, Loss::Names] {
                let dir = prepare();
                let disk = Arc::new(FaultDisk::failing(dir.path(), at, fault));
                let acknowledged = put_everything(&store_on(disk.clone(), dir.path()));
                disk.cut_power(loss).unwrap();
                let store = store_on(Arc::new(FaultDisk::counting(dir.path())), dir.path());
                for id in acknowledged {
                    let got = store.get(id, 99).map(|_| ());
                    assert!(got.is_ok(), "{at} {operation}, {fault:?}, {loss:?}: {got:?}");
                }
                for entry in store.walk().unwrap() {
                    match entry {
                        // Until it is replaced, the torn one stays as it was found.
                        Entry::Object(id, 4) if id == damaged => {}
                        // A name without content may stay where nothing was acknowledged.
                        Entry::Object(..) if loss == Loss::Content => {}
                        Entry::Object(id, _) => assert!(store.get(id, 99).is_ok(), "{at} {operation}"),
                        Entry::Stray(path) => panic!("{at} {operation}: {}", path.display()),
                    }
                }
                // The same work again succeeds whatever was left.
                assert_eq!(put_everything(&store).len(), 7 + PACK_FROM, "{at} {operation}");
            }
        }
    }
}

/// Small objects, each another one.
fn many(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("object {n}").into_bytes()).collect()
}

/// Files in a folder of the store.
fn names(root: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn many_new_objects_are_one_file_whose_name_is_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let here = store(dir.path());
    let mut objects = many(5000);
    objects.push(vec![7; MAX_PACKED]);
    objects.push(vec![8; MAX_PACKED + 1]);
    objects.push(Vec::new());
    objects.push(objects[3].clone());
    let ids = here.put_many(&objects).unwrap();
    let [name] = &names(dir.path(), PACKS)[..] else { panic!("one pack") };
    let bytes = fs::read(dir.path().join(PACKS).join(name)).unwrap();
    let (rest, digest) = bytes.split_at(bytes.len() - 32);
    assert_eq!((name, digest), (&id::object_id(rest).to_hex(), id::object_id(rest).as_bytes().as_slice()));
    // Another process has seen nothing of it yet.
    for store in [&here, &store(dir.path())] {
        for (id, object) in ids.iter().zip(&objects) {
            assert_eq!(store.get(*id, 2 << 20).unwrap(), *object);
            assert_eq!(store.size(*id).unwrap(), object.len() as u64);
            let mut copy = Vec::new();
            assert_eq!(store.copy_to(*id, &mut copy).unwrap(), object.len() as u64);
            assert_eq!(copy, *object);
        }
        assert_eq!(store.ids().unwrap().len(), 5003);
        assert!(matches!(store.get(ids[0], 3), Err(Error::TooLarge { cap: 3, .. })));
        let absent = id::object_id(b"absent");
        assert!(matches!(store.get(absent, 9), Err(Error::Missing { .. })));
        assert!(!store.contains(absent).unwrap());
        for len in [6, 7, 20, 64] {
            let prefix = Prefix::parse(&ids[17].to_hex()[..len]).unwrap();
            assert_eq!(store.matching(&prefix).unwrap(), [ids[17]], "{len} digits");
        }
        let shortest = Prefix::parse("000000").unwrap();
        assert_eq!(store.matching(&shortest).unwrap(), []);
    }
    assert_eq!(here.walk().unwrap(), [Entry::Object(ids[5001], MAX_PACKED as u64 + 1)]);
    assert_eq!(here.put_many(&objects).unwrap(), ids);
    assert_eq!(here.put_many(&objects[..10]).unwrap(), ids[..10]);
    assert_eq!(
        (names(dir.path(), PACKS).len(), here.walk().unwrap().len()),
        (1, 1),
        "nothing is stored twice"
    );
    assert!(here.check_pack(ObjectId::from_hex(name).unwrap(), &|_| ()).unwrap().is_sound());
}

#[test]
fn few_new_objects_have_a_file_each_whatever_else_is_put() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let objects = many(PACK_FROM as u32 + 3);
    store.put_many(&objects[..4]).unwrap();
    store.put_many(&objects).unwrap();
    assert_eq!((names(dir.path(), PACKS).len(), store.walk().unwrap().len()), (0, objects.len()));
    let mut batch = store.batch();
    for object in many(200) {
        batch.add(object).unwrap();
    }
    batch.finish().unwrap();
    assert_eq!((names(dir.path(), PACKS).len(), store.walk().unwrap().len()), (1, objects.len()));
    assert_eq!(store.ids().unwrap().len(), 200);
}

/// Bytes of a pack of 100 objects that each stand for a kind of place in it, with a name.
fn places(len: usize) -> Vec<(&'static str, usize)> {
    let end = len - 48;
    let pages = 100 * 48 + 2 * 32;
    vec![
        ("magic", 3),
        ("first object", pack::MAGIC.len()),
        ("last object", end - pages - 1),
        ("id in the index", end - pages),
        ("begin in the index", end - pages + 32 + 7),
        ("size in the index", end - pages + 40 + 7),
        ("digest of a page", end - pages + 84 * 48 + 1),
        ("row of the last page", end - 32 - 1),
        ("digest of the last page", end - 1),
        ("count", end + 7),
        ("begin of the index", end + 15),
        ("digest", len - 1),
    ]
}

#[test]
fn a_pack_that_is_damaged_or_torn_anywhere_is_found_and_mended() {
    let objects = many(100);
    let whole = tempfile::tempdir().unwrap();
    let ids = store(whole.path()).put_many(&objects).unwrap();
    let name = names(whole.path(), PACKS).remove(0);
    let good = fs::read(whole.path().join(PACKS).join(&name)).unwrap();
    let flips = places(good.len()).into_iter().map(|(what, at)| {
        let mut bad = good.clone();
        bad[at] ^= 1;
        (format!("flipped: {what}"), bad)
    });
    let cuts = places(good.len()).into_iter().map(|(what, at)| (format!("cut: {what}"), good[..at].to_vec()));
    let longer = ("longer".to_owned(), [&good[..], b"x"].concat());
    for (what, bad) in flips.chain(cuts).chain([longer, ("empty".to_owned(), Vec::new())]) {
        let dir = tempfile::tempdir().unwrap();
        let pack = Path::new(PACKS).join(&name);
        lay(dir.path(), &pack, &bad);
        let damaged = store(dir.path());
        let checked = damaged.check_pack(ObjectId::from_hex(&name).unwrap(), &|_| ()).unwrap();
        assert!(!checked.is_sound(), "{what}");
        if what.contains(" object") && what.starts_with("flipped") {
            assert_eq!((checked.sound.len(), checked.damaged.len(), checked.wrong), (99, 1, None), "{what}");
        }
        let mut lost = 0;
        for (id, object) in ids.iter().zip(&objects) {
            match damaged.get(*id, 99) {
                Ok(bytes) => assert_eq!(bytes, *object, "{what}"),
                Err(Error::Damaged { .. } | Error::Pack { .. }) => lost += 1,
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
        assert!(
            lost < 100 || !what.starts_with("flipped") || what.contains("count") || what.contains("begin of")
        );

        // Its sound objects are kept, the pack is set aside, and what was lost can be stored again.
        let mended = damaged.mend_packs().unwrap();
        assert_eq!((mended.len(), mended[0].kept), (1, checked.sound.len()), "{what}");
        let aside = names(dir.path(), DAMAGED).remove(0);
        assert!(aside.starts_with(&format!("{name}.pack")), "{what}: {aside}");
        assert!(fs::read(dir.path().join(DAMAGED).join(aside)).unwrap() == bad, "{what}");
        assert_eq!(damaged.ids().unwrap().len(), checked.sound.len(), "{what}");
        assert!(damaged.mend_packs().unwrap().is_empty());
        for (id, _) in &checked.sound {
            damaged.get(*id, 99).unwrap();
        }
        damaged.put_many(&objects).unwrap();
        for (id, object) in ids.iter().zip(&objects) {
            assert_eq!(damaged.get(*id, 99).unwrap(), *object, "{what}");
        }
    }
}

#[test]
fn storing_again_what_a_damaged_pack_holds_makes_it_whole() {
    let objects = many(100);
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let ids = store.put_many(&objects).unwrap();
    let name = names(dir.path(), PACKS).remove(0);
    let path = dir.path().join(PACKS).join(&name);
    let good = fs::read(&path).unwrap();
    // Nothing in it can be read any more, so that the same objects make a pack of the same name.
    fs::remove_file(&path).unwrap();
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    store.put_many(&objects).unwrap();
    assert_eq!(fs::read(&path).unwrap(), good);
    assert_eq!(names(dir.path(), DAMAGED).len(), 1, "what stood there is kept");
    for id in ids {
        store.get(id, 99).unwrap();
    }
}

#[test]
fn packs_are_copied_as_they_are_unless_they_are_damaged() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (store(from.path()), store(to.path()));
    let (good, bad) = (many(70), many(200)[100..].to_vec());
    let good_ids = source.put_many(&good).unwrap();
    let kept = names(from.path(), PACKS);
    let bad_ids = source.put_many(&bad).unwrap();
    let hurt = names(from.path(), PACKS).into_iter().find(|name| !kept.contains(name)).unwrap();
    let path = from.path().join(PACKS).join(hurt);
    let mut bytes = fs::read(&path).unwrap();
    bytes[pack::MAGIC.len()] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    let mut told = Vec::new();
    target.copy_packs_from(&source, &mut |id, _| told.push(id)).unwrap();
    told.sort_unstable();
    let mut wanted = good_ids.clone();
    wanted.sort_unstable();
    assert_eq!((told, names(to.path(), PACKS)), (wanted, kept));
    let mut copied = 0;
    target.copy_from(&source, &bad_ids, &mut |_, one| copied += usize::from(one.is_ok())).unwrap();
    assert_eq!((copied, target.ids().unwrap().len()), (99, 70 + 99));
    let again = &mut |id, _| panic!("{id} is there already");
    target.copy_packs_from(&source, again).unwrap();
}

#[test]
fn an_object_can_be_removed_from_its_pack() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let ids = store.put_many(&many(100)).unwrap();
    let before = names(dir.path(), PACKS);
    store.remove(ids[40]).unwrap();
    store.remove(ids[40]).unwrap();
    assert!(matches!(store.get(ids[40], 99), Err(Error::Missing { .. })));
    assert_eq!(store.ids().unwrap().len(), 99);
    assert_ne!(names(dir.path(), PACKS), before);
    for id in ids.iter().filter(|id| **id != ids[40]) {
        store.get(*id, 99).unwrap();
    }
}
