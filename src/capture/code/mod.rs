//! Which code is in front of us: commit, tree, everything that differs from it, and what git does not track.
//!
//! Nothing here is stored, printed or judged, and no answer is a guess. libgit2 answers where it is known to be
//! right, the `git` program where libgit2 is silently wrong or refuses, and where neither can, the answer is
//! *unknown* with its reason. A failure never turns into "clean" or "not a repository".

mod command;
mod library;
mod remote;
mod signature;
mod untracked;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub use signature::{AllowedSigners, Malformed, Signature};
pub use untracked::{DIGESTED_FILES, DIGESTED_SIZE, LISTED_FILES, Untracked, untracked};

/// A diff larger than this is not kept, and the work tree's state is then unknown: 256 MiB.
pub const DIFF_SIZE: usize = 256 << 20;

/// Submodules nested deeper than this are not followed.
const NESTING: usize = 16;

/// What was found at and above a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// A repository with a commit.
    Git(Box<CodeState>),
    /// There is no commit to speak of: no repository, one without a work tree, or one without a commit.
    None {
        /// Which of these it is, in the user's words.
        reason: String,
    },
    /// There is a repository, and it cannot be read rightly.
    Unknown {
        /// Why not, in the user's words.
        reason: String,
    },
}

/// The state of a work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeState {
    /// The commit that is checked out, in hex.
    pub commit: String,
    /// The tree of that commit, in hex.
    pub tree: String,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// The branch that is checked out, if one is. Private: names can tell more than is meant.
    pub branch: Option<String>,
    /// Where the branch's upstream or `origin` lives, without credentials. Private, as above.
    pub remote: Option<String>,
    /// What differs from the commit.
    pub dirt: Dirt,
    /// Submodules at every depth, in path order.
    pub submodules: Vec<Submodule>,
    /// The path of the asked directory inside the work tree, empty at its top.
    pub project: Vec<u8>,
}

/// What differs between a commit and its work tree. Untracked files are no dirt; see [`untracked`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dirt {
    /// Every tracked file and submodule is as the commit has it.
    Clean,
    /// Something differs.
    Dirty {
        /// The tracked files that differ, those inside submodules included, in path order.
        files: Vec<DirtyFile>,
        /// One binary patch from the commit to the work tree. `git apply` at the top of a clean checkout, with
        /// submodules at the commits listed, makes the same files again.
        diff: Vec<u8>,
    },
    /// Nobody can say.
    Unknown {
        /// Why not, in the user's words.
        reason: String,
    },
}

/// A tracked file, link or submodule that differs from the commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirtyFile {
    /// Path inside the work tree, as git has it.
    pub path: Vec<u8>,
    /// `M`odified, `A`dded, `D`eleted, `R`enamed to `path` with equal bytes, `T`ype changed, or `U`nmerged.
    pub change: char,
}

/// A repository inside the work tree that the commit pins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodule {
    /// Path inside the outermost work tree.
    pub path: Vec<u8>,
    /// The commit that is checked out there; the pinned one when the submodule is not checked out.
    pub commit: String,
    /// Whether it is at another commit than the pinned one or holds modified tracked files.
    pub dirty: bool,
}

/// Whether a repository holds a commit with the tree that was recorded for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitCheck {
    /// The commit is there, its bytes have its id, and it names the tree.
    Match,
    /// The commit is there and names another tree.
    OtherTree {
        /// The tree it names.
        found: String,
    },
    /// The bytes stored for the commit do not have its id.
    Damaged,
    /// The commit is not there.
    Missing {
        /// The repository holds only part of its history, so that a full clone may have it.
        shallow: bool,
    },
}

/// Why a repository could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No repository at or above the path.
    #[error("`{}` is in no git repository with a work tree", path.display())]
    NoRepository {
        /// The path asked about.
        path: PathBuf,
    },
    /// A repository that neither libgit2 nor git can read.
    #[error("the git repository at `{}` cannot be read: {reason}", path.display())]
    Unreadable {
        /// The path asked about.
        path: PathBuf,
        /// Why not, in the user's words.
        reason: String,
    },
    /// A text that cannot be the id of a commit or tree.
    #[error("`{text}` is no git object id: 40 or 64 lower-case hex digits")]
    NotAnId {
        /// The text given.
        text: String,
    },
}

/// Returns the version of the `git` program on PATH, or nothing where there is none that answers.
pub fn git_version() -> Option<String> {
    command::version().ok()
}

/// Observes the repository at or above `root`.
pub fn observe(root: &Path) -> Observed {
    let real = match fs::canonicalize(root) {
        Ok(real) => real,
        Err(error) => return Observed::Unknown { reason: format!("`{}`: {error}", root.display()) },
    };
    match observe_at(&real, Search::Upward, &[], 0) {
        Sight::Git { top, mut state } => match real.strip_prefix(&top) {
            Ok(project) => {
                state.project = project.as_os_str().as_bytes().to_vec();
                Observed::Git(state)
            }
            Err(_) => Observed::Unknown {
                reason: format!("the work tree `{}` does not hold `{}`", top.display(), real.display()),
            },
        },
        Sight::None(reason) => Observed::None { reason },
        Sight::Unknown(reason) => Observed::Unknown { reason },
    }
}

/// Asks whether the repository at or above `repo` holds `commit`, and whether its tree is `tree`.
///
/// The commit's bytes are hashed here, so that replaced or damaged objects do not pass.
pub fn verify(repo: &Path, commit: &str, tree: &str) -> Result<CommitCheck, Error> {
    if !is_id(tree) {
        return Err(Error::NotAnId { text: tree.to_owned() });
    }
    let bytes = match commit_bytes(repo, commit)? {
        Ok(bytes) => bytes,
        Err(check) => return Ok(check),
    };
    // A commit begins with `tree ` and the tree's hex; its id was just checked, so anything else is another object.
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match line.strip_prefix(b"tree ").and_then(|hex| std::str::from_utf8(hex).ok()) {
        Some(found) if found == tree => Ok(CommitCheck::Match),
        Some(found) => Ok(CommitCheck::OtherTree { found: found.to_owned() }),
        None => Ok(CommitCheck::Damaged),
    }
}

/// Judges the signature of `commit` in the repository at or above `repo`; `None` if the commit cannot be had whole.
pub fn verify_signature(
    repo: &Path,
    commit: &str,
    allowed: &AllowedSigners,
) -> Result<Option<Signature>, Error> {
    Ok(commit_bytes(repo, commit)?.ok().map(|bytes| allowed.judge(&bytes)))
}

/// Returns the bytes of a commit, which have its id, or why there are none.
fn commit_bytes(repo: &Path, commit: &str) -> Result<Result<Vec<u8>, CommitCheck>, Error> {
    if !is_id(commit) {
        return Err(Error::NotAnId { text: commit.to_owned() });
    }
    let unreadable = |reason| Error::Unreadable { path: repo.to_owned(), reason };
    let found = match library::open(repo, Search::Upward) {
        library::Opened::Repository(library) | library::Opened::Bare(library) => library.commit_bytes(commit),
        library::Opened::Missing => return Err(Error::NoRepository { path: repo.to_owned() }),
        library::Opened::Refused(why) => {
            command::commit_bytes(repo, commit).map_err(|failure| needs_git(&why, &failure))
        }
    };
    Ok(match found.map_err(unreadable)? {
        Stored::Missing { shallow } => Err(CommitCheck::Missing { shallow }),
        Stored::Bytes(bytes) if library::commit_id(&bytes, commit.len()).as_deref() == Some(commit) => {
            Ok(bytes)
        }
        Stored::Bytes(_) | Stored::Damaged => Err(CommitCheck::Damaged),
    })
}

/// Whether a repository is looked for in the directories above, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    Upward,
    Here,
}

/// The part of a state that hangs on the commit alone.
struct Head {
    commit: String,
    tree: String,
    object_format: String,
    branch: Option<String>,
    remote: Option<String>,
}

/// The tracked files that differ, and the submodules, of one repository without those inside it.
struct Work {
    files: Vec<DirtyFile>,
    links: Vec<Link>,
}

/// A submodule as the index has it.
struct Link {
    path: Vec<u8>,
    commit: String,
}

/// The raw bytes of a commit.
enum Stored {
    Bytes(Vec<u8>),
    Missing { shallow: bool },
    Damaged,
}

/// What one repository, its submodules included, looks like.
enum Sight {
    Git { top: PathBuf, state: Box<CodeState> },
    None(String),
    Unknown(String),
}

/// Who has read the work tree, and so makes the patch.
enum Reader<'a> {
    Library(&'a library::Library),
    Command,
}

/// Observes one repository and, through itself, its submodules. `prefix` is the path, ending in `/` unless empty,
/// from the outermost work tree to this one.
fn observe_at(dir: &Path, search: Search, prefix: &[u8], depth: usize) -> Sight {
    if depth > NESTING {
        return Sight::Unknown(format!("submodules are nested more than {NESTING} deep"));
    }
    let library = match library::open(dir, search) {
        library::Opened::Repository(library) => library,
        library::Opened::Bare(_) => return Sight::None(BARE.to_owned()),
        library::Opened::Missing => return missing(dir, search),
        library::Opened::Refused(why) => return observe_by_command(dir, search, &why, prefix, depth),
    };
    let head = match library.head() {
        Ok(Some(head)) => head,
        Ok(None) => return Sight::None(UNBORN.to_owned()),
        Err(why) => return observe_by_command(dir, search, &why, prefix, depth),
    };
    let top = library.top().to_owned();
    let read = match library.doubt() {
        None => library.work(),
        Some(doubt) => Err(doubt),
    };
    let (work, reader) = match read {
        Ok(work) => (Ok(work), Reader::Library(&library)),
        Err(doubt) => match command::read(&top) {
            Ok(command::Reading::Born { head: seen, work }) if seen.commit == head.commit => {
                (work, Reader::Command)
            }
            Ok(_) => (Err(MOVED.to_owned()), Reader::Command),
            // Size is no doubt about the answer: libgit2 is slower there, and as right as anywhere.
            Err(_) if doubt.only_slow => {
                (library.work().map_err(|doubt| doubt.reason), Reader::Library(&library))
            }
            Err(failure) => (Err(needs_git(&doubt.reason, &failure)), Reader::Command),
        },
    };
    whole(top, head, work, &reader, prefix, depth)
}

/// Observes with the `git` program a repository that libgit2 does not open.
fn observe_by_command(dir: &Path, search: Search, why: &str, prefix: &[u8], depth: usize) -> Sight {
    let top = match command::top(dir) {
        Ok(command::Place::WorkTree(top)) => top,
        Ok(command::Place::Bare) => return Sight::None(BARE.to_owned()),
        Err(failure) => return Sight::Unknown(needs_git(why, &failure)),
    };
    if search == Search::Here && top != dir {
        return Sight::Unknown(format!("`{}` is not the top of a git work tree", dir.display()));
    }
    match command::read(&top) {
        Ok(command::Reading::Born { head, work }) => whole(top, head, work, &Reader::Command, prefix, depth),
        Ok(command::Reading::Unborn) => Sight::None(UNBORN.to_owned()),
        Err(failure) => Sight::Unknown(needs_git(why, &failure)),
    }
}

/// Adds submodules and the patch to what was read of one repository.
fn whole(
    top: PathBuf,
    head: Head,
    work: Result<Work, String>,
    reader: &Reader<'_>,
    prefix: &[u8],
    depth: usize,
) -> Sight {
    let (dirt, mut submodules) = match work {
        Err(reason) => (Dirt::Unknown { reason }, Vec::new()),
        Ok(work) => dirt_of(&top, &head, work, reader, prefix, depth),
    };
    submodules.sort_by(|a, b| a.path.cmp(&b.path));
    let state = Box::new(CodeState {
        commit: head.commit,
        tree: head.tree,
        object_format: head.object_format,
        branch: head.branch,
        remote: head.remote,
        dirt,
        submodules,
        project: Vec::new(),
    });
    Sight::Git { top, state }
}

fn dirt_of(
    top: &Path,
    head: &Head,
    mut work: Work,
    reader: &Reader<'_>,
    prefix: &[u8],
    depth: usize,
) -> (Dirt, Vec<Submodule>) {
    // A ledger kept inside the work tree changes with every record; it is never the code's dirt.
    work.files.retain(|file| !in_ledger(&file.path));
    let mut unknown = None;
    let mut diff = Vec::new();
    if !work.files.is_empty() {
        let made = match reader {
            Reader::Library(library) => library.patch(prefix),
            Reader::Command => command::patch(top, &head.commit, prefix),
        };
        match made {
            Ok(made) => diff = made,
            Err(reason) => unknown = Some(reason),
        }
    }
    let mut submodules = Vec::new();
    let mut files: Vec<DirtyFile> = Vec::new();
    for link in work.links {
        let moved = work.files.iter().any(|file| file.path == link.path);
        let path = [prefix, &link.path].concat();
        let dir = top.join(Path::new(std::ffi::OsStr::from_bytes(&link.path)));
        // Without a `.git` the submodule is not checked out, which git does not call a change.
        if fs::symlink_metadata(dir.join(".git")).is_err() {
            submodules.push(Submodule { path, commit: link.commit, dirty: moved });
            continue;
        }
        let inner = [&path[..], b"/"].concat();
        match observe_at(&dir, Search::Here, &inner, depth + 1) {
            Sight::Git { state, .. } => {
                let mut dirty = moved;
                match state.dirt {
                    Dirt::Clean => {}
                    Dirt::Dirty { files: more, diff: inside } => {
                        dirty = true;
                        files.extend(more);
                        diff.extend(inside);
                    }
                    Dirt::Unknown { reason } => {
                        dirty = true;
                        unknown.get_or_insert(format!("submodule `{}`: {reason}", lossy(&path)));
                    }
                }
                submodules.push(Submodule { path, commit: state.commit, dirty });
                submodules.extend(state.submodules);
            }
            Sight::None(reason) | Sight::Unknown(reason) => {
                unknown.get_or_insert(format!("submodule `{}`: {reason}", lossy(&path)));
                submodules.push(Submodule { path, commit: link.commit, dirty: true });
            }
        }
    }
    files.extend(
        work.files
            .into_iter()
            .map(|file| DirtyFile { path: [prefix, &file.path].concat(), change: file.change }),
    );
    files.sort();
    if unknown.is_none() && diff.len() > DIFF_SIZE {
        unknown = Some(too_large());
    }
    let dirt = match unknown {
        Some(reason) => Dirt::Unknown { reason },
        None if files.is_empty() => Dirt::Clean,
        None => Dirt::Dirty { files, diff },
    };
    (dirt, submodules)
}

const BARE: &str = "the git repository has no work tree";
const UNBORN: &str = "the git repository has no commit yet";
const MOVED: &str = "another commit was checked out while the work tree was read";

/// Tells "no repository" from "something called `.git` that is none".
fn missing(dir: &Path, search: Search) -> Sight {
    let above = if search == Search::Upward { usize::MAX } else { 1 };
    match dir.ancestors().take(above).find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok()) {
        Some(dir) => Sight::Unknown(format!(
            "`{}` is not a git repository, or a broken one",
            dir.join(".git").display()
        )),
        None => Sight::None("not a git repository".to_owned()),
    }
}

fn needs_git(why: &str, failure: &command::Failure) -> String {
    match failure {
        command::Failure::Absent => {
            format!("{why}; only the `git` program reads this rightly, and it is not on PATH")
        }
        command::Failure::Failed(said) => format!("{why}; the `git` program was asked and failed: {said}"),
    }
}

fn too_large() -> String {
    format!("the diff is larger than {} MiB", DIFF_SIZE >> 20)
}

fn in_ledger(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".ledger")
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// One letter for what the index (`x`) and then the work tree (`y`) did to a path, as `git status` names them.
fn change(x: u8, y: u8) -> char {
    match (x, y) {
        (b'U', _) | (_, b'U') => 'U',
        (_, b'D') => 'D',
        (b'R', _) => 'R',
        (b'A' | b'C', _) | (_, b'A') => 'A',
        (b'D', _) => 'D',
        (b'T', _) | (_, b'T') => 'T',
        _ => 'M',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_says_how_the_work_tree_differs_from_the_commit() {
        for (x, y, expected) in [
            (b'.', b'M', 'M'),
            (b'M', b'.', 'M'),
            (b'A', b'M', 'A'),
            (b'.', b'A', 'A'),
            (b'R', b'M', 'R'),
            (b'D', b'.', 'D'),
            (b'M', b'D', 'D'),
            (b'.', b'T', 'T'),
            (b'U', b'D', 'U'),
            (b'A', b'U', 'U'),
        ] {
            assert_eq!(change(x, y), expected, "{}{}", char::from(x), char::from(y));
        }
    }

    #[test]
    fn only_the_ledgers_own_folder_is_left_out() {
        assert!(in_ledger(b".ledger/log/tile"));
        assert!(in_ledger(b"sub/.ledger/x"));
        assert!(!in_ledger(b".ledgers/x"));
        assert!(!in_ledger(b"src/ledger.py"));
    }

    #[test]
    fn a_text_that_is_no_id_is_refused_before_git_sees_it() {
        let tree = "0".repeat(40);
        for text in ["", "HEAD", "--help", &"A".repeat(40), &"0".repeat(41)] {
            assert!(matches!(verify(Path::new("/"), text, &tree), Err(Error::NotAnId { .. })), "{text}");
            assert!(matches!(verify(Path::new("/"), &tree, text), Err(Error::NotAnId { .. })), "{text}");
        }
    }
}
