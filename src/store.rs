//! Objects by id: one immutable file for each, under the BLAKE3 of its bytes.
//!
//! The store knows bytes, not records: what an object means and whether something still needs it is decided
//! elsewhere. Nothing is believed because it lies at the right place: whatever is read is hashed again.
//!
//! An object is `objects/ab/cdef..`, its id's hex with a slash after two digits. `packs/` is reserved for
//! files that hold many small objects; `damaged/` keeps what stood at an object's place and was not it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::durable::{self, Created, Durable, Found, Kind};
use crate::id::{self, Digests, Fingerprint, Hasher, ObjectId, Prefix};

/// The folder of objects.
pub const OBJECTS: &str = "objects";
/// The folder of packs, which nothing writes yet.
pub const PACKS: &str = "packs";
/// The folder of files that were not what their name says.
pub const DAMAGED: &str = "damaged";

/// Existing objects up to this size are hashed before a new one is taken to be there already.
const MAX_RECHECK: u64 = 16 << 20;
/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;
/// Objects that are held at a time while many are copied.
const MAX_HELD: usize = 128;

/// Why an object cannot be put or had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing lies at the object's place.
    #[error("object {id} is not in the store")]
    Missing {
        /// The object asked for.
        id: ObjectId,
    },
    /// Other bytes lie at the object's place.
    #[error("object {id} is damaged, its bytes have the id {found}")]
    Damaged {
        /// The object asked for.
        id: ObjectId,
        /// The id of what was found.
        found: ObjectId,
    },
    /// The object is larger than the reader allows.
    #[error("object {id} has {size} bytes, {cap} are allowed")]
    TooLarge {
        /// The object asked for.
        id: ObjectId,
        /// Its bytes.
        size: u64,
        /// What is allowed.
        cap: usize,
    },
    /// The bytes to be stored, or those of an object, could not be read.
    #[error("cannot read the bytes to copy")]
    Read(#[source] io::Error),
    /// The copy could not be written to where it was wanted.
    #[error("cannot write the copy")]
    Write(#[source] io::Error),
    /// The disk under the store failed.
    #[error("the store failed")]
    Disk(#[from] durable::Error),
}

/// One name in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A file at an object's place, with its size. Its bytes have not been looked at.
    Object(ObjectId, u64),
    /// Something that no store puts there, relative to the ledger.
    Stray(PathBuf),
}

/// The objects of one ledger.
#[derive(Clone, Debug)]
pub struct Store {
    durable: Durable,
}

impl Store {
    /// Takes the ledger's directory; nothing is read or written yet.
    pub fn new(durable: Durable) -> Self {
        Self { durable }
    }

    /// Stores an object durably and returns its id. Storing it again is harmless.
    pub fn put(&self, bytes: &[u8]) -> Result<ObjectId, Error> {
        let id = id::object_id(bytes);
        self.put_hashed(&[(id, bytes)])?;
        Ok(id)
    }

    /// Stores objects durably, with fewer waits for the disk than one by one, and returns their ids in order.
    pub fn put_many<T: AsRef<[u8]>>(&self, objects: &[T]) -> Result<Vec<ObjectId>, Error> {
        let hashed: Vec<_> = objects.iter().map(|o| (id::object_id(o.as_ref()), o.as_ref())).collect();
        self.put_hashed(&hashed)?;
        Ok(hashed.into_iter().map(|(id, _)| id).collect())
    }

    fn put_hashed(&self, objects: &[(ObjectId, &[u8])]) -> Result<(), Error> {
        // Given twice, an object is written once.
        let objects: BTreeMap<ObjectId, &[u8]> = objects.iter().copied().collect();
        let items: Vec<_> = objects.iter().map(|(id, bytes)| (place(*id), *bytes)).collect();
        let created = self.durable.create_many(&items, Kind::Immutable)?;
        for ((id, bytes), created) in objects.iter().zip(created) {
            if created == Created::Exists && !self.is_sound(*id, bytes.len() as u64)? {
                let mut staged = self.durable.stage(Kind::Immutable)?;
                staged.append(bytes)?;
                self.keep_damaged(*id)?;
                staged.replace(&place(*id))?;
            }
        }
        Ok(())
    }

    /// Stores a stream durably: what is stored is what was hashed, even if its source changes meanwhile.
    pub fn put_file(&self, reader: &mut dyn Read) -> Result<Fingerprint, Error> {
        let mut staged = self.durable.stage(Kind::Immutable)?;
        // Several large objects may be on their way at once, so nothing is held in memory but a chunk.
        let print = copy(reader, Digests::All, |chunk| Ok(staged.append(chunk)?))?;
        let place = place(print.blake3);
        if self.durable.stat(&place)?.is_some() && !self.is_sound(print.blake3, print.size)? {
            self.keep_damaged(print.blake3)?;
            staged.replace(&place)?;
        } else {
            // What has been put there since the check came whole from another process's temporary file.
            let _ = staged.publish(&place)?;
        }
        Ok(print)
    }

    /// Copies objects of another store durably, and tells of each what it has written or why it could not.
    ///
    /// Each is hashed on the way: what is not the object that its name says, or is not there, is told and not
    /// written. An error is about this store, and ends the copying.
    pub fn copy_from(
        &self,
        other: &Self,
        ids: &[ObjectId],
        told: &mut dyn FnMut(ObjectId, Result<u64, Error>),
    ) -> Result<(), Error> {
        let (mut held, mut bytes) = (Vec::new(), 0);
        for id in ids {
            match other.get(*id, CHUNK) {
                Ok(object) => {
                    bytes += object.len();
                    held.push((*id, object));
                    if held.len() >= MAX_HELD || bytes >= MAX_RECHECK as usize {
                        self.put_held(&mut held, told)?;
                        bytes = 0;
                    }
                }
                Err(Error::TooLarge { .. }) => {
                    let copied = self.stream_from(other, *id)?;
                    told(*id, copied);
                }
                Err(error) => told(*id, Err(error)),
            }
        }
        self.put_held(&mut held, told)
    }

    fn put_held(
        &self,
        held: &mut Vec<(ObjectId, Vec<u8>)>,
        told: &mut dyn FnMut(ObjectId, Result<u64, Error>),
    ) -> Result<(), Error> {
        let objects: Vec<_> = held.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect();
        self.put_hashed(&objects)?;
        held.drain(..).for_each(|(id, bytes)| told(id, Ok(bytes.len() as u64)));
        Ok(())
    }

    /// Copies one large object; the inner error is about the other store.
    fn stream_from(&self, other: &Self, id: ObjectId) -> Result<Result<u64, Error>, Error> {
        let place = place(id);
        let mut file = match other.durable.open(&place) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Err(Error::Missing { id })),
            Err(error) => return Ok(Err(error.into())),
        };
        let mut staged = self.durable.stage(Kind::Immutable)?;
        let print = match copy(&mut file, Digests::Blake3, |chunk| Ok(staged.append(chunk)?)) {
            Ok(print) => print,
            Err(error @ Error::Read(_)) => return Ok(Err(error)),
            Err(error) => return Err(error),
        };
        if print.blake3 != id {
            return Ok(Err(Error::Damaged { id, found: print.blake3 }));
        }
        if self.durable.stat(&place)?.is_some() && !self.is_sound(id, print.size)? {
            self.keep_damaged(id)?;
            staged.replace(&place)?;
        } else {
            let _ = staged.publish(&place)?;
        }
        Ok(Ok(print.size))
    }

    /// Returns whether what lies at an object's place may be taken for it.
    ///
    /// A torn or planted file would otherwise be taken for the object for ever. Larger ones are compared by
    /// size only, since a full check would cost more than storing them again.
    fn is_sound(&self, id: ObjectId, size: u64) -> Result<bool, Error> {
        let place = place(id);
        match self.durable.stat(&place)? {
            Some(meta) if meta.found == Found::File && meta.size == size => {}
            _ => return Ok(false),
        }
        if size > MAX_RECHECK {
            return Ok(true);
        }
        match self.durable.read(&place, size as usize) {
            Ok(bytes) => Ok(bytes.is_some_and(|bytes| id::object_id(&bytes) == id)),
            Err(durable::Error::TooLarge { .. } | durable::Error::NotRegular { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps what lies at an object's place, before that is replaced.
    ///
    /// A file is copied rather than moved, so that a sound object that somebody else has just put there is
    /// never missing. The copy's name holds both ids, so that repeating this adds nothing.
    fn keep_damaged(&self, id: ObjectId) -> Result<(), Error> {
        let place = place(id);
        match self.durable.open(&place) {
            Ok(None) => Ok(()),
            Ok(Some(mut file)) => {
                let mut staged = self.durable.stage(Kind::Immutable)?;
                let print = copy(&mut file, Digests::Blake3, |chunk| Ok(staged.append(chunk)?))?;
                let _ = staged.publish(&Path::new(DAMAGED).join(format!("{id}.{}", print.blake3)))?;
                Ok(())
            }
            // A symlink, a FIFO, a directory, or a file that we may not read.
            Err(durable::Error::NotRegular { .. } | durable::Error::NotReadable { .. }) => {
                Ok(self.durable.rename(&place, &Path::new(DAMAGED).join(format!("{id}.other")))?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an object of at most `cap` bytes, hashed again.
    pub fn get(&self, id: ObjectId, cap: usize) -> Result<Vec<u8>, Error> {
        match self.durable.read(&place(id), cap) {
            Ok(None) => Err(Error::Missing { id }),
            Ok(Some(bytes)) => match id::object_id(&bytes) {
                found if found == id => Ok(bytes),
                found => Err(Error::Damaged { id, found }),
            },
            Err(durable::Error::TooLarge { size, cap, .. }) => Err(Error::TooLarge { id, size, cap }),
            Err(error) => Err(error.into()),
        }
    }

    /// Hashes an object of any size, and returns its size, and its bytes if they are at most `cap`.
    pub fn examine(&self, id: ObjectId, cap: usize) -> Result<(u64, Option<Vec<u8>>), Error> {
        match self.get(id, cap) {
            Ok(bytes) => Ok((bytes.len() as u64, Some(bytes))),
            Err(Error::TooLarge { .. }) => Ok((self.copy_to(id, &mut io::sink())?, None)),
            Err(error) => Err(error),
        }
    }

    /// Copies an object of any size and returns its size.
    ///
    /// Whether the bytes are the object's is known at the end only: after an error, what was written is to be
    /// thrown away.
    pub fn copy_to(&self, id: ObjectId, writer: &mut dyn Write) -> Result<u64, Error> {
        let mut file = self.durable.open(&place(id))?.ok_or(Error::Missing { id })?;
        let print = copy(&mut file, Digests::Blake3, |chunk| writer.write_all(chunk).map_err(Error::Write))?;
        match print.blake3 {
            found if found == id => Ok(print.size),
            found => Err(Error::Damaged { id, found }),
        }
    }

    /// Returns whether a file lies at the object's place, without looking into it.
    pub fn contains(&self, id: ObjectId) -> Result<bool, Error> {
        Ok(self.durable.stat(&place(id))?.is_some_and(|meta| meta.found == Found::File))
    }

    /// Returns the size of the file at the object's place, without looking into it.
    pub fn size(&self, id: ObjectId) -> Result<u64, Error> {
        match self.durable.stat(&place(id))? {
            Some(meta) if meta.found == Found::File => Ok(meta.size),
            _ => Err(Error::Missing { id }),
        }
    }

    /// Drops an object's bytes durably; a missing one is fine.
    pub fn remove(&self, id: ObjectId) -> Result<(), Error> {
        let place = place(id);
        if self.durable.stat(&place)?.is_some() {
            self.durable.remove(&place)?;
            self.durable.sync_dir(place.parent().unwrap_or(Path::new(OBJECTS)))?;
        }
        Ok(())
    }

    /// Lists the ids of all objects in order, without looking into them. Strays are left out.
    pub fn ids(&self) -> Result<Vec<ObjectId>, Error> {
        let mut ids = Vec::new();
        for folder in self.durable.list(Path::new(OBJECTS))? {
            if folder.is_dir && fan_out(&folder.name).is_some() {
                ids.extend(self.ids_in(&folder.name)?);
            }
        }
        Ok(ids)
    }

    /// Lists everything under `objects/`: the names of objects in order, and what no store puts there.
    ///
    /// Nothing is looked into, not even for its size.
    pub fn listed(&self) -> Result<(Vec<ObjectId>, Vec<PathBuf>), Error> {
        let folders = self.durable.list(Path::new(OBJECTS))?;
        let listed: Vec<(Vec<ObjectId>, Vec<PathBuf>)> = folders
            .par_iter()
            .map(|folder| {
                let path = Path::new(OBJECTS).join(&folder.name);
                if !folder.is_dir || fan_out(&folder.name).is_none() {
                    return Ok((Vec::new(), vec![path]));
                }
                let (mut ids, mut strays) = (Vec::new(), Vec::new());
                for file in self.durable.list(&path)? {
                    match parse(&folder.name, &file.name).filter(|_| file.is_file) {
                        Some(id) => ids.push(id),
                        None => strays.push(path.join(&file.name)),
                    }
                }
                Ok((ids, strays))
            })
            .collect::<Result<_, Error>>()?;
        let (ids, strays): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
        Ok((ids.concat(), strays.concat()))
    }

    /// Lists everything under `objects/`, objects with their sizes, and then what no store puts there.
    pub fn walk(&self) -> Result<Vec<Entry>, Error> {
        let (ids, strays) = self.listed()?;
        let sized = |id: &ObjectId| match self.size(*id) {
            Ok(size) => Some(Ok(Entry::Object(*id, size))),
            // An object may be dropped while we look.
            Err(Error::Missing { .. }) => None,
            Err(error) => Some(Err(error)),
        };
        let mut entries: Vec<Entry> = ids.par_iter().filter_map(sized).collect::<Result<_, Error>>()?;
        entries.extend(strays.into_iter().map(Entry::Stray));
        Ok(entries)
    }

    /// Lists the objects whose id begins with `prefix`, from the one folder where they can be.
    pub fn matching(&self, prefix: &Prefix) -> Result<Vec<ObjectId>, Error> {
        let mut ids = self.ids_in(OsStr::new(&prefix.as_str()[..2]))?;
        ids.retain(|id| prefix.matches(id.as_bytes()));
        Ok(ids)
    }

    fn ids_in(&self, folder: &OsStr) -> Result<Vec<ObjectId>, Error> {
        let files = self.durable.list(&Path::new(OBJECTS).join(folder))?;
        Ok(files.iter().filter(|file| file.is_file).filter_map(|file| parse(folder, &file.name)).collect())
    }
}

/// Returns an object's place, relative to the ledger.
pub fn place(id: ObjectId) -> PathBuf {
    let hex = id.to_hex();
    let mut path = String::with_capacity(OBJECTS.len() + hex.len() + 2);
    let _ = write!(path, "{OBJECTS}/{}/{}", &hex[..2], &hex[2..]);
    path.into()
}

fn fan_out(folder: &OsStr) -> Option<&str> {
    folder
        .to_str()
        .filter(|name| name.len() == 2 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

fn parse(folder: &OsStr, file: &OsStr) -> Option<ObjectId> {
    ObjectId::from_hex(&format!("{}{}", fan_out(folder)?, file.to_str()?)).ok()
}

/// Hands a stream on in chunks, hashing what is handed on.
fn copy(
    reader: &mut dyn Read,
    digests: Digests,
    mut write: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Fingerprint, Error> {
    let mut hasher = Hasher::new(digests);
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut filled = 0;
        while filled < CHUNK {
            match reader.read(&mut chunk[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
        if filled > 0 {
            hasher.update(&chunk[..filled]);
            write(&chunk[..filled])?;
        }
        if filled < CHUNK {
            return Ok(hasher.finish());
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::fs;
    use std::sync::Arc;

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
            let is_named =
                |error| matches!(error, Error::Damaged { found, .. } if found == id::object_id(&bad));
            assert!(is_named(store.get(id, 99).unwrap_err()));
            assert!(is_named(store.copy_to(id, &mut Vec::new()).unwrap_err()));
        }
    }

    #[test]
    fn a_damaged_object_is_set_aside_when_the_right_one_is_put() {
        type Put = fn(&Store) -> ObjectId;
        let puts: [Put; 2] = [
            |store| store.put(b"right").unwrap(),
            |store| store.put_file(&mut &b"right"[..]).unwrap().blake3,
        ];
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
        let ids = source.put_many(&objects).unwrap();
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
        assert_eq!(put_everything(&store_on(disk.clone(), dir.path())).len(), 7);
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
                    assert_eq!(put_everything(&store).len(), 7, "{at} {operation}");
                }
            }
        }
    }
}
