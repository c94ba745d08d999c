//! Objects by id: immutable bytes under their BLAKE3.
//!
//! The store knows bytes, not records: what an object means and whether something still needs it is decided
//! elsewhere. Nothing is believed because it lies at the right place: whatever is read is hashed again.
//!
//! An object is `objects/ab/cdef..`, its id's hex with a slash after two digits, or one of many small ones in a
//! pack, see `packs.rs`; `damaged/` keeps what stood at an object's or pack's place and was not it.

mod pack;
mod packs;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::durable::{self, Created, Durable, Found, Kind};
use crate::id::{self, Digests, Fingerprint, Hasher, ObjectId, Prefix};

use packs::Packs;
pub use packs::{Batch, Checked, Mended, pack_place};

/// The folder of objects.
pub const OBJECTS: &str = "objects";
/// The folder of packs.
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
    /// A pack that may hold the object is not what its name says.
    #[error("`{}` is damaged: {what}", path.display())]
    Pack {
        /// The pack, relative to the ledger.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
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
    packs: Packs,
}

impl Store {
    /// Takes the ledger's directory; nothing is read or written yet.
    pub fn new(durable: Durable) -> Self {
        Self { packs: Packs::new(durable.clone()), durable }
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
        let mut objects: BTreeMap<ObjectId, &[u8]> = objects.iter().copied().collect();
        self.drop_packed(&mut objects)?;
        let packed = self.to_be_packed(&objects)?;
        objects.retain(|id, _| packed.binary_search_by_key(id, |(id, _)| *id).is_err());
        self.put_packed(&packed)?;
        self.put_loose(&objects)
    }

    /// Stores each object as a file of its own.
    fn put_loose(&self, objects: &BTreeMap<ObjectId, &[u8]>) -> Result<(), Error> {
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
        // What lies in packs is copied pack by pack, and what lies loose stays loose.
        self.put_loose(&held.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect())?;
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
    fn keep_damaged(&self, id: ObjectId) -> Result<(), Error> {
        self.set_aside(&place(id), &id.to_hex())
    }

    /// Keeps what lies at a place, before that is replaced.
    ///
    /// A file is copied rather than moved, so that a sound one that somebody else has just put there is never
    /// missing. The copy's name holds both ids, so that repeating this adds nothing.
    fn set_aside(&self, place: &Path, name: &str) -> Result<(), Error> {
        match self.durable.open(place) {
            Ok(None) => Ok(()),
            Ok(Some(mut file)) => {
                let mut staged = self.durable.stage(Kind::Immutable)?;
                let print = copy(&mut file, Digests::Blake3, |chunk| Ok(staged.append(chunk)?))?;
                let _ = staged.publish(&Path::new(DAMAGED).join(format!("{name}.{}", print.blake3)))?;
                Ok(())
            }
            // A symlink, a FIFO, a directory, or a file that we may not read.
            Err(durable::Error::NotRegular { .. } | durable::Error::NotReadable { .. }) => {
                Ok(self.durable.rename(place, &Path::new(DAMAGED).join(format!("{name}.other")))?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an object of at most `cap` bytes, hashed again.
    pub fn get(&self, id: ObjectId, cap: usize) -> Result<Vec<u8>, Error> {
        let loose = self.get_loose(id, cap);
        self.or_packed(id, loose, &mut |slot| slot.read(cap))
    }

    fn get_loose(&self, id: ObjectId, cap: usize) -> Result<Vec<u8>, Error> {
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

    /// Copies an object of any size and returns its size.
    ///
    /// Whether the bytes are the object's is known at the end only: after an error, what was written is to be
    /// thrown away.
    pub fn copy_to(&self, id: ObjectId, writer: &mut dyn Write) -> Result<u64, Error> {
        match self.copy_loose(id, writer) {
            // What is in a pack is small, and hashed before it is written.
            loose @ Err(Error::Missing { .. }) => self.or_packed(id, loose, &mut |slot| {
                let bytes = slot.read(CHUNK)?;
                writer.write_all(&bytes).map_err(Error::Write)?;
                Ok(bytes.len() as u64)
            }),
            loose => loose,
        }
    }

    /// Copies an object that has a file of its own, as [`copy_to`](Self::copy_to) does.
    pub fn copy_loose(&self, id: ObjectId, writer: &mut dyn Write) -> Result<u64, Error> {
        let mut file = self.durable.open(&place(id))?.ok_or(Error::Missing { id })?;
        let print = copy(&mut file, Digests::Blake3, |chunk| writer.write_all(chunk).map_err(Error::Write))?;
        match print.blake3 {
            found if found == id => Ok(print.size),
            found => Err(Error::Damaged { id, found }),
        }
    }

    /// Returns whether there is an object of that id, without looking into it.
    pub fn contains(&self, id: ObjectId) -> Result<bool, Error> {
        match self.size(id) {
            Ok(_) => Ok(true),
            Err(Error::Missing { .. } | Error::Pack { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the size that an object must have, without looking into it.
    pub fn size(&self, id: ObjectId) -> Result<u64, Error> {
        let loose = match self.durable.stat(&place(id))? {
            Some(meta) if meta.found == Found::File => Ok(meta.size),
            _ => Err(Error::Missing { id }),
        };
        self.or_packed(id, loose, &mut |slot| Ok(slot.size()))
    }

    /// Drops an object's bytes durably, wherever they lie; a missing one is fine.
    pub fn remove(&self, id: ObjectId) -> Result<(), Error> {
        let place = place(id);
        if self.durable.stat(&place)?.is_some() {
            self.durable.remove(&place)?;
            self.durable.sync_dir(place.parent().unwrap_or(Path::new(OBJECTS)))?;
        }
        self.remove_packed(id)
    }

    /// Lists the ids of all objects in order, without looking into them. Strays are left out.
    pub fn ids(&self) -> Result<Vec<ObjectId>, Error> {
        let mut ids: Vec<ObjectId> = self.packed()?.into_iter().map(|(id, _)| id).collect();
        for folder in self.durable.list(Path::new(OBJECTS))? {
            if folder.is_dir && fan_out(&folder.name).is_some() {
                ids.extend(self.ids_in(&folder.name)?);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Lists everything under `objects/`, in order of its path.
    pub fn walk(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for folder in self.durable.list(Path::new(OBJECTS))? {
            let path = Path::new(OBJECTS).join(&folder.name);
            if !folder.is_dir || fan_out(&folder.name).is_none() {
                entries.push(Entry::Stray(path));
                continue;
            }
            for file in self.durable.list(&path)? {
                let path = path.join(&file.name);
                let Some(id) = parse(&folder.name, &file.name).filter(|_| file.is_file) else {
                    entries.push(Entry::Stray(path));
                    continue;
                };
                // An object may be dropped while we look.
                if let Some(meta) = self.durable.stat(&path)? {
                    entries.push(Entry::Object(id, meta.size));
                }
            }
        }
        Ok(entries)
    }

    /// Lists the objects whose id begins with `prefix`, from the folder and the packs where they can be.
    pub fn matching(&self, prefix: &Prefix) -> Result<Vec<ObjectId>, Error> {
        let mut ids = self.ids_in(OsStr::new(&prefix.as_str()[..2]))?;
        ids.retain(|id| prefix.matches(id.as_bytes()));
        ids.extend(self.packed_matching(prefix)?);
        ids.sort_unstable();
        ids.dedup();
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
mod tests;
