//! A disk that stops, lies or loses power at a chosen operation, for tests of everything that writes.
//!
//! A test runs its work once to count the operations, then once for each of them and each [`Fault`], and
//! looks afterwards with a [`RealDisk`] at what is left. It works on real files, so only the operations that
//! [`Disk`] has are seen; reading never fails. What is synced is kept account of here, so the real disk is
//! not asked, and such tests do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, Mode, RealDisk};

/// What happens at the chosen operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails without effect, and so do all later ones; of a write, the first half is done.
    Stop,
    /// It is done but reported as failed, and all later ones fail.
    StopAfter,
    /// It is done but reported as failed; later ones work, as on a network disk that repeats requests.
    Misreport,
}

/// What a power cut takes of that which was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing: the process was killed, the machine was not.
    Nothing,
    /// The content of files; names stay.
    Content,
    /// Names, and with them what they stood for.
    Names,
    /// Some contents and some names, and not others: which, the number decides.
    Part(u64),
}

impl Loss {
    fn takes_content(self, nth: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Content | Self::Names => true,
            Self::Part(seed) => coin(seed, nth as u64),
        }
    }

    fn takes_name(self, nth: usize) -> bool {
        match self {
            Self::Nothing | Self::Content => false,
            Self::Names => true,
            Self::Part(seed) => coin(!seed, nth as u64),
        }
    }
}

/// Tosses a coin that falls the same way each time.
const fn coin(seed: u64, nth: u64) -> bool {
    let mut mixed = seed ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) & 1 == 1
}

/// A [`RealDisk`] that counts its operations, fails at one of them and can lose what was not synced.
#[derive(Debug)]
pub struct FaultDisk {
    base: PathBuf,
    fault: Option<(usize, Fault)>,
    /// Syncs that are not done although they are reported as done.
    forgotten: BTreeSet<usize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    labels: Vec<String>,
    /// Files with content that is not synced, by inode.
    unsynced: Vec<(u64, File)>,
    /// How to take back what is not synced, with the directory whose sync makes it stay.
    undo: Vec<(PathBuf, Undo)>,
    /// Directories that have got another name, in order: what is remembered of their content moves along.
    moves: Vec<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
enum Undo {
    /// The name was free before.
    Free(PathBuf),
    /// The name stood for this content, with these mode bits.
    Content(PathBuf, Vec<u8>, u32),
    /// The directory had another name.
    Moved { from: PathBuf, to: PathBuf },
}

impl FaultDisk {
    /// Counts operations and lets all of them succeed. Labels leave out `base`.
    pub fn counting(base: &Path) -> Self {
        Self { base: base.to_owned(), fault: None, forgotten: BTreeSet::new(), state: Mutex::default() }
    }

    /// Lets operation `at`, counted from zero, fail.
    pub fn failing(base: &Path, at: usize, fault: Fault) -> Self {
        Self { fault: Some((at, fault)), ..Self::counting(base) }
    }

    /// Lets these operations, which are syncs, be reported as done without being done.
    ///
    /// A test that still passes then shows that nobody needs them, or that it does not look closely.
    #[must_use]
    pub fn forgetting(mut self, syncs: impl IntoIterator<Item = usize>) -> Self {
        self.forgotten.extend(syncs);
        self
    }

    /// Returns a label for each operation so far, such as `link tmp/7-0 log/heads/000`.
    pub fn operations(&self) -> Vec<String> {
        self.state().labels.clone()
    }

    /// Does to the files what a power cut could: takes away what was not synced.
    #[expect(clippy::disallowed_methods, reason = "this undoes what the operations did")]
    pub fn cut_power(&self, loss: Loss) -> io::Result<()> {
        let mut state = self.state();
        if loss == Loss::Nothing {
            return Ok(());
        }
        let State { unsynced, undo, moves, .. } = &mut *state;
        for (nth, (_, file)) in unsynced.drain(..).enumerate() {
            if loss.takes_content(nth) {
                file.set_len(0)?;
            }
        }
        // A name that is lost goes back to what it stood for when it was last synced, so all of its steps go.
        let mut paths: BTreeMap<PathBuf, bool> = BTreeMap::new();
        for (_, undo) in undo.iter() {
            let nth = paths.len();
            paths.entry(undo.path().to_owned()).or_insert_with(|| loss.takes_name(nth));
        }
        for (_, undo) in undo.drain(..).rev() {
            if !paths[undo.path()] {
                continue;
            }
            let undo = match undo {
                Undo::Free(path) => Undo::Free(name_now(moves, &path)),
                Undo::Content(path, bytes, mode) => Undo::Content(name_now(moves, &path), bytes, mode),
                Undo::Moved { from, to } => {
                    moves.retain(|(_, moved)| *moved != to);
                    Undo::Moved { from, to }
                }
            };
            // What stands under a directory that is gone is gone with it, hence the missing ones.
            let undone = match undo {
                Undo::Free(path) if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) => {
                    std::fs::remove_dir_all(path)
                }
                Undo::Free(path) => std::fs::remove_file(path),
                Undo::Content(path, bytes, mode) => match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => RealDisk
                        .open_new(&path, Mode::Exact(mode))
                        .and_then(|mut file| RealDisk.write(&mut file, &path, &bytes)),
                },
                Undo::Moved { from, to } => std::fs::rename(to, from),
            };
            match undone {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and does it, unless it is to fail.
    fn step<T>(
        &self,
        label: &str,
        paths: &[&Path],
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        let now = state.labels.len();
        let mut text = label.to_owned();
        for path in paths {
            text.push(' ');
            text.push_str(&path.strip_prefix(&self.base).unwrap_or(path).to_string_lossy());
        }
        state.labels.push(text);
        match self.fault {
            Some((at, Fault::Stop)) if now >= at => Err(io::Error::other("the disk has stopped")),
            Some((at, Fault::StopAfter)) if now > at => Err(io::Error::other("the disk has stopped")),
            Some((at, Fault::StopAfter | Fault::Misreport)) if now == at => {
                act(&mut state)?;
                Err(io::Error::other("done, but reported as failed"))
            }
            _ => act(&mut state),
        }
    }
}

impl Undo {
    /// Returns the name that it is about.
    fn path(&self) -> &Path {
        match self {
            Self::Free(path) | Self::Content(path, ..) | Self::Moved { to: path, .. } => path,
        }
    }
}

impl State {
    /// Whether the operation that is under way is one of those that are not done.
    fn is_forgotten(&self, forgotten: &BTreeSet<usize>) -> bool {
        forgotten.contains(&(self.labels.len() - 1))
    }

    /// Remembers that `path` was free.
    fn was_free(&mut self, path: &Path) {
        self.undo.push((folder(path), Undo::Free(path.to_owned())));
    }

    /// Remembers what stands at `path`.
    fn remember(&mut self, path: &Path) {
        let undo = match (std::fs::read(path), path.symlink_metadata()) {
            (Ok(bytes), Ok(meta)) => Undo::Content(path.to_owned(), bytes, meta.mode() & 0o7777),
            _ => Undo::Free(path.to_owned()),
        };
        self.undo.push((folder(path), undo));
    }

    fn track(&mut self, file: &File) -> io::Result<()> {
        let inode = file.metadata()?.ino();
        if self.unsynced.iter().all(|(known, _)| *known != inode) {
            self.unsynced.push((inode, file.try_clone()?));
        }
        Ok(())
    }
}

/// Returns where a folder is after these directories have moved.
fn folder_now(moves: &[(PathBuf, PathBuf)], folder: &Path) -> PathBuf {
    let mut folder = folder.to_owned();
    for (from, to) in moves {
        if let Ok(rest) = folder.strip_prefix(from) {
            folder = to.join(rest);
        }
    }
    folder
}

/// Returns what a name is called after these directories have moved; the name that one had before stays free.
fn name_now(moves: &[(PathBuf, PathBuf)], path: &Path) -> PathBuf {
    let folder = folder_now(moves, &folder(path));
    path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name))
}

fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

impl Disk for FaultDisk {
    fn open_new(&self, path: &Path, mode: Mode) -> io::Result<File> {
        self.step("create", &[path], |state| {
            let file = RealDisk.open_new(path, mode)?;
            state.was_free(path);
            Ok(file)
        })
    }

    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let now = self.state().labels.len();
        if let Some((at, Fault::Stop)) = self.fault
            && at == now
        {
            RealDisk.write(file, path, &bytes[..bytes.len() / 2])?;
        }
        self.step("write", &[path], |state| {
            state.track(file)?;
            RealDisk.write(file, path, bytes)
        })
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        self.step("sync", &[path], |state| {
            let inode = file.metadata()?.ino();
            if !state.is_forgotten(&self.forgotten) {
                state.unsynced.retain(|(known, _)| *known != inode);
            }
            Ok(())
        })
    }

    fn sync_dir(&self, _dir: &File, path: &Path) -> io::Result<()> {
        self.step("sync-dir", &[path], |state| {
            if !state.is_forgotten(&self.forgotten) {
                let State { undo, moves, .. } = state;
                // Comparing components, so that a trailing slash does not matter.
                undo.retain(|(folder, _)| folder_now(moves, folder) != path);
            }
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", &[from, to], |state| {
            state.remember(to);
            RealDisk.rename(from, to)
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename-new", &[from, to], |state| {
            RealDisk.rename_new(from, to)?;
            state.undo.push((folder(to), Undo::Moved { from: from.to_owned(), to: to.to_owned() }));
            state.moves.push((from.to_owned(), to.to_owned()));
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("link", &[from, to], |state| {
            RealDisk.link(from, to)?;
            state.was_free(to);
            Ok(())
        })
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.step("unlink", &[path], |state| {
            state.remember(path);
            RealDisk.unlink(path)
        })
    }

    fn mkdir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.step("mkdir", &[path], |state| {
            RealDisk.mkdir(path, mode)?;
            state.was_free(path);
            Ok(())
        })
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.step("remove-tree", &[path], |_| RealDisk.remove_tree(path))
    }
}
