//! The packs of one store: which there are, what is looked up in them, when one is written, and what becomes of a
//! damaged one.
//!
//! Loose files are the rule: most commands store a dozen objects. A transaction of many small new objects writes
//! packs instead, each of which takes four syncs whatever it holds. A pack is never changed. Whoever wants an
//! object looks for its file first and then into the packs; of several copies a sound one is good enough.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::pack::{self, Broken, Row, Shape};
use super::{DAMAGED, Error, PACKS, Store};
use crate::durable::{Created, Durable, Kind};
use crate::id::{self, ObjectId, Prefix};

/// From this many new small objects on they are stored together.
pub(super) const PACK_FROM: usize = 64;
/// Larger objects have a file of their own.
pub(super) const MAX_PACKED: usize = 1 << 20;
/// Bytes of objects in one pack, so that one can be held in memory when it has to be written anew.
const MAX_PACK: usize = 256 << 20;
/// Bytes that a [`Batch`] holds before it stores them.
const MAX_BATCH: usize = 64 << 20;

/// Returns a pack's place, relative to the ledger.
pub fn pack_place(name: ObjectId) -> PathBuf {
    Path::new(PACKS).join(name.to_hex())
}

/// Packs by name, and what their ends say; nothing for one that says nothing.
type Known = BTreeMap<ObjectId, Option<Shape>>;

/// The packs that this process has seen. Cheap to clone, and shared by clones.
#[derive(Clone, Debug)]
pub(super) struct Packs {
    durable: Durable,
    known: Arc<Mutex<Arc<Known>>>,
}

/// An object in a pack, which has not been looked at.
#[derive(Debug)]
pub(super) struct Slot {
    file: File,
    row: Row,
    name: ObjectId,
}

impl Slot {
    pub(super) const fn size(&self) -> u64 {
        self.row.size
    }

    /// Reads the object and hashes it.
    pub(super) fn read(&self, cap: usize) -> Result<Vec<u8>, Error> {
        let Row { id, size, .. } = self.row;
        if size > cap as u64 {
            return Err(Error::TooLarge { id, size, cap });
        }
        let bytes = pack::read_row(&self.file, &self.row).map_err(|broken| said(self.name, broken))?;
        match id::object_id(&bytes) {
            found if found == id => Ok(bytes),
            found => Err(Error::Damaged { id, found }),
        }
    }
}

fn said(name: ObjectId, broken: Broken) -> Error {
    match broken {
        Broken::Form(what) => Error::Pack { path: pack_place(name), what },
        Broken::Read(error) => Error::Read(error),
    }
}

impl Packs {
    pub(super) fn new(durable: Durable) -> Self {
        Self { durable, known: Arc::default() }
    }

    fn known(&self) -> Arc<BTreeMap<ObjectId, Option<Shape>>> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lists the folder again, and returns the packs in it.
    fn list(&self) -> Result<Arc<BTreeMap<ObjectId, Option<Shape>>>, Error> {
        let mut packs = BTreeMap::new();
        let known = self.known();
        for entry in self.durable.list(Path::new(PACKS))? {
            let name = entry.name.to_str().filter(|_| entry.is_file).map(ObjectId::from_hex);
            let Some(Ok(name)) = name else { continue };
            let shape = match known.get(&name) {
                Some(Some(shape)) => Some(*shape),
                _ => self.open(name)?.and_then(|file| Shape::read(&file).ok()),
            };
            packs.insert(name, shape);
        }
        let packs = Arc::new(packs);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&packs);
        Ok(packs)
    }

    fn open(&self, name: ObjectId) -> Result<Option<File>, Error> {
        Ok(self.durable.open(&pack_place(name))?)
    }

    /// Finds an object in one pack.
    fn slot(&self, name: ObjectId, shape: Option<Shape>, id: ObjectId) -> Result<Option<Slot>, Error> {
        let Some(shape) = shape else {
            return Err(said(name, Broken::Form("its end is not that of a pack")));
        };
        // One that is gone by now was written anew elsewhere.
        let Some(file) = self.open(name)? else { return Ok(None) };
        let row = shape.find(&file, id).map_err(|broken| said(name, broken))?;
        Ok(row.map(|row| Slot { file, row, name }))
    }
}

/// What was found in one pack.
#[derive(Debug, Default)]
pub struct Checked {
    /// The objects in it that are what their ids say, with their sizes.
    pub sound: Vec<(ObjectId, u64)>,
    /// Those that are not, and why.
    pub damaged: Vec<(ObjectId, Error)>,
    /// What is wrong with the pack itself, beyond them.
    pub wrong: Option<&'static str>,
}

impl Checked {
    /// Whether everything is as it must be.
    pub const fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.wrong.is_none()
    }
}

/// A damaged pack that was taken out of use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    /// The pack.
    pub pack: ObjectId,
    /// Objects of it that were sound and are stored anew.
    pub kept: usize,
    /// Objects of it that were not.
    pub lost: Vec<ObjectId>,
}

/// Small objects that come one by one and are stored together, so that not each waits for the disk.
#[derive(Debug)]
#[must_use = "objects are stored when the batch is finished"]
pub struct Batch<'a> {
    store: &'a Store,
    held: Vec<(ObjectId, Vec<u8>)>,
    bytes: usize,
}

impl Batch<'_> {
    /// The largest object that belongs into a batch.
    pub const MAX_OBJECT: usize = MAX_PACKED;

    /// Takes an object, which is stored by the end at the latest.
    pub fn add(&mut self, bytes: Vec<u8>) -> Result<ObjectId, Error> {
        let id = id::object_id(&bytes);
        self.bytes += bytes.len();
        self.held.push((id, bytes));
        if self.bytes >= MAX_BATCH {
            self.store_held()?;
        }
        Ok(id)
    }

    /// Makes all of them durable.
    pub fn finish(mut self) -> Result<(), Error> {
        self.store_held()
    }

    fn store_held(&mut self) -> Result<(), Error> {
        let objects: Vec<(ObjectId, &[u8])> =
            self.held.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect();
        self.store.put_hashed(&objects)?;
        self.held.clear();
        self.bytes = 0;
        Ok(())
    }
}

impl Store {
    /// Begins a batch of small objects.
    pub const fn batch(&self) -> Batch<'_> {
        Batch { store: self, held: Vec::new(), bytes: 0 }
    }

    /// Goes on to the packs where a file of its own does not give an object.
    pub(super) fn or_packed<T>(
        &self,
        id: ObjectId,
        loose: Result<T, Error>,
        read: &mut dyn FnMut(&Slot) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut reason = match loose {
            Err(error @ (Error::Missing { .. } | Error::Damaged { .. })) => error,
            loose => return loose,
        };
        let seen = self.packs.known();
        for is_second in [false, true] {
            // Another process may have written a pack since they were listed.
            let packs = if is_second { self.packs.list()? } else { Arc::clone(&seen) };
            for (name, shape) in &*packs {
                if is_second && seen.get(name) == Some(shape) {
                    continue;
                }
                let found = match self.packs.slot(*name, *shape, id) {
                    Ok(None) => continue,
                    Ok(Some(slot)) => read(&slot),
                    Err(error) => Err(error),
                };
                match found {
                    Err(error @ (Error::Damaged { .. } | Error::Pack { .. })) => reason = error,
                    found => return found,
                }
            }
        }
        Err(reason)
    }

    /// Takes those objects out that are in a pack, sound and durable.
    pub(super) fn drop_packed(&self, objects: &mut BTreeMap<ObjectId, &[u8]>) -> Result<(), Error> {
        let packs = self.packs.list()?;
        if packs.is_empty() {
            return Ok(());
        }
        let is_there = |id: &ObjectId, bytes: &[u8]| {
            packs.iter().any(|(name, shape)| {
                let slot = self.packs.slot(*name, *shape, *id);
                slot.is_ok_and(|slot| slot.is_some_and(|slot| slot.read(bytes.len()).is_ok()))
            })
        };
        let there: Vec<ObjectId> = objects
            .par_iter()
            .filter(|(id, bytes)| bytes.len() <= MAX_PACKED && is_there(id, bytes))
            .map(|(id, _)| *id)
            .collect();
        if !there.is_empty() {
            // Another process may have linked the pack and not yet synced its name.
            self.durable.sync_dir(Path::new(PACKS))?;
        }
        for id in there {
            objects.remove(&id);
        }
        Ok(())
    }

    /// Returns those objects that are new, small, and enough to be stored together.
    pub(super) fn to_be_packed<'a>(
        &self,
        objects: &BTreeMap<ObjectId, &'a [u8]>,
    ) -> Result<Vec<(ObjectId, &'a [u8])>, Error> {
        if objects.len() < PACK_FROM {
            return Ok(Vec::new());
        }
        let mut packed = Vec::new();
        for (id, bytes) in objects {
            if bytes.len() <= MAX_PACKED && self.durable.stat(&super::place(*id))?.is_none() {
                packed.push((*id, *bytes));
            }
        }
        if packed.len() < PACK_FROM {
            packed.clear();
        }
        Ok(packed)
    }

    /// Writes objects, by ascending id and none twice, into packs.
    pub(super) fn put_packed(&self, mut objects: &[(ObjectId, &[u8])]) -> Result<(), Error> {
        while !objects.is_empty() {
            let mut bytes = 0;
            let fits = objects.iter().take_while(|(_, object)| {
                bytes += object.len();
                bytes <= MAX_PACK
            });
            let (now, later) = objects.split_at(fits.count().max(1));
            self.put_pack(now)?;
            objects = later;
        }
        Ok(())
    }

    fn put_pack(&self, objects: &[(ObjectId, &[u8])]) -> Result<(), Error> {
        let mut staged = self.durable.stage(Kind::Immutable)?;
        let name = pack::write(objects, |bytes| staged.append(bytes))?;
        self.publish_pack(staged, name)
    }

    /// Gives a pack its name, also where something else stands there.
    fn publish_pack(&self, staged: crate::durable::Staged, name: ObjectId) -> Result<(), Error> {
        let place = pack_place(name);
        if self.durable.stat(&place)?.is_some()
            && !self.check_pack(name, &|_| ()).is_ok_and(|it| it.is_sound())
        {
            self.set_aside(&place, &format!("{name}.pack"))?;
            staged.replace(&place)?;
        } else {
            // What has been put there since the check came whole from another process's temporary file.
            let _: Created = staged.publish(&place)?;
        }
        Ok(())
    }

    /// Lists the packs, and what else lies in their folder.
    pub fn packs(&self) -> Result<(Vec<ObjectId>, Vec<PathBuf>), Error> {
        let (mut packs, mut strays) = (Vec::new(), Vec::new());
        for entry in self.durable.list(Path::new(PACKS))? {
            match entry.name.to_str().filter(|_| entry.is_file).map(ObjectId::from_hex) {
                Some(Ok(name)) => packs.push(name),
                _ => strays.push(Path::new(PACKS).join(&entry.name)),
            }
        }
        Ok((packs, strays))
    }

    /// Lists the objects that packs name, with their sizes, by ascending id. What is damaged may be left out.
    pub fn packed(&self) -> Result<Vec<(ObjectId, u64)>, Error> {
        let mut all = Vec::new();
        for (name, shape) in &*self.packs.list()? {
            let (Some(shape), Some(file)) = (shape, self.packs.open(*name)?) else { continue };
            match shape.rows(&file) {
                Ok((rows, _)) => all.extend(rows.into_iter().map(|row| (row.id, row.size))),
                Err(Broken::Form(_)) => {}
                Err(broken) => return Err(said(*name, broken)),
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    pub(super) fn packed_matching(&self, prefix: &Prefix) -> Result<Vec<ObjectId>, Error> {
        let mut key = [0; 32];
        let whole = prefix.whole_bytes();
        key[..whole.len()].copy_from_slice(&whole);
        let is_whole = prefix.as_str().len().is_multiple_of(2);
        // An odd last digit is not in the key, so that what comes before it is passed over here.
        let begins = |id: &ObjectId| id.as_bytes().starts_with(&whole);
        let mut all = Vec::new();
        for (name, shape) in &*self.packs.list()? {
            let (Some(shape), Some(file)) = (shape, self.packs.open(*name)?) else { continue };
            let rows = shape.from(&file, &key, &begins).map_err(|broken| said(*name, broken))?;
            all.extend(
                rows.into_iter().map(|row| row.id).filter(|id| is_whole || prefix.matches(id.as_bytes())),
            );
        }
        Ok(all)
    }

    /// Checks a pack: its digest, its index, and every object in it. `told` is told of bytes.
    pub fn check_pack(&self, name: ObjectId, told: &(dyn Fn(u64) + Sync)) -> Result<Checked, Error> {
        let mut checked = Checked::default();
        let file = self.packs.open(name)?.ok_or(Error::Missing { id: name })?;
        let shape = match Shape::read(&file) {
            Ok(shape) => shape,
            Err(Broken::Form(what)) => {
                checked.wrong = Some(what);
                return Ok(checked);
            }
            Err(broken) => return Err(said(name, broken)),
        };
        let (rows, is_ordered) = shape.rows(&file).map_err(|broken| said(name, broken))?;
        let found: Vec<(Row, Result<Vec<u8>, Error>)> = rows
            .par_chunks(256)
            .flat_map_iter(|rows| {
                rows.iter().map(|row| {
                    let read = pack::read_row(&file, row).map_err(|broken| said(name, broken));
                    let hashed = read.and_then(|bytes| match id::object_id(&bytes) {
                        found if found == row.id => Ok(Vec::new()),
                        found => Err(Error::Damaged { id: row.id, found }),
                    });
                    (*row, hashed)
                })
            })
            .collect();
        for (row, hashed) in found {
            match hashed {
                Ok(_) => checked.sound.push((row.id, row.size)),
                Err(error) => checked.damaged.push((row.id, error)),
            }
        }
        let digest = match Shape::hash(&file, told) {
            Ok(digest) => Some(digest),
            Err(Broken::Form(what)) => {
                checked.wrong = Some(what);
                None
            }
            Err(broken) => return Err(said(name, broken)),
        };
        if !is_ordered {
            checked.wrong = Some("its index is damaged");
        } else if shape.digest != name {
            checked.wrong = Some("its digest is not its name");
        } else if digest.is_some_and(|digest| digest != name) && checked.damaged.is_empty() {
            checked.wrong = Some("its bytes do not have the digest that is its name");
        }
        Ok(checked)
    }

    /// Copies packs of another store durably, as they are, and tells of each object that it has copied so.
    ///
    /// One that is not what its name says is left out; what is sound in it can be had object by object.
    pub fn copy_packs_from(&self, other: &Self, told: &mut dyn FnMut(ObjectId, u64)) -> Result<(), Error> {
        let here = self.packs.list()?;
        for name in other.packs()?.0 {
            if here.get(&name).is_some_and(Option::is_some) {
                continue;
            }
            let checked = match other.check_pack(name, &|_| ()) {
                Ok(checked) if checked.is_sound() => checked,
                // It may have been written anew since it was listed; what is damaged in it is told one by one.
                _ => continue,
            };
            let Ok(Some(mut file)) = other.packs.open(name) else { continue };
            let mut staged = self.durable.stage(Kind::Immutable)?;
            let copied = super::copy(&mut file, id::Digests::Blake3, |chunk| Ok(staged.append(chunk)?));
            match copied {
                Ok(_) => self.publish_pack(staged, name)?,
                Err(Error::Read(_)) => continue,
                Err(error) => return Err(error),
            }
            checked.sound.into_iter().for_each(|(id, size)| told(id, size));
        }
        self.packs.list()?;
        Ok(())
    }

    /// Takes damaged packs out of use: what is sound in them is stored anew, and they go to `damaged/`.
    pub fn mend_packs(&self) -> Result<Vec<Mended>, Error> {
        let mut mended = Vec::new();
        for name in self.packs()?.0 {
            let checked = self.check_pack(name, &|_| ())?;
            if checked.is_sound() {
                continue;
            }
            let kept = self.write_anew(name, &checked.sound, None)?;
            // Where no object was damaged, the pack that was written has the same name and stands there already.
            if !self.check_pack(name, &|_| ())?.is_sound() {
                let aside = Path::new(DAMAGED).join(format!("{name}.pack"));
                self.durable.rename(&pack_place(name), &aside)?;
            }
            let lost = checked.damaged.into_iter().map(|(id, _)| id).collect();
            mended.push(Mended { pack: name, kept, lost });
        }
        self.packs.list()?;
        Ok(mended)
    }

    /// Drops an object from every pack that names it, which is then written anew without it.
    pub(super) fn remove_packed(&self, id: ObjectId) -> Result<(), Error> {
        for (name, shape) in &*self.packs.list()? {
            if self.packs.slot(*name, *shape, id).is_ok_and(|slot| slot.is_some()) {
                let checked = self.check_pack(*name, &|_| ())?;
                self.write_anew(*name, &checked.sound, Some(id))?;
                self.durable.remove(&pack_place(*name))?;
                self.durable.sync_dir(Path::new(PACKS))?;
            }
        }
        self.packs.list()?;
        Ok(())
    }

    /// Stores objects of a pack anew, and returns how many they were.
    fn write_anew(
        &self,
        name: ObjectId,
        sound: &[(ObjectId, u64)],
        without: Option<ObjectId>,
    ) -> Result<usize, Error> {
        let Some(file) = self.packs.open(name)? else { return Ok(0) };
        // A look-up could meet a damaged page of the index; what the others name is known already.
        let rows = match Shape::read(&file).and_then(|shape| shape.rows(&file)) {
            Ok((rows, _)) => rows,
            Err(Broken::Form(_)) => return Ok(0),
            Err(broken) => return Err(said(name, broken)),
        };
        let sound: BTreeSet<ObjectId> =
            sound.iter().map(|(id, _)| *id).filter(|id| Some(*id) != without).collect();
        let mut objects: BTreeMap<ObjectId, Vec<u8>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| sound.contains(&row.id)) {
            let slot = Slot { file: file.try_clone().map_err(Error::Read)?, row, name };
            objects.insert(row.id, slot.read(usize::MAX)?);
        }
        let objects: Vec<(ObjectId, &[u8])> =
            objects.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect();
        if objects.len() < PACK_FROM {
            self.put_loose(&objects.iter().copied().collect())?;
        } else {
            self.put_packed(&objects)?;
        }
        Ok(objects.len())
    }
}
