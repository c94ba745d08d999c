//! Reads a repository with libgit2, in this process.
//!
//! It also says where libgit2 must not be believed ([`Library::doubt`]): there it answers without an error and
//! differs from git. It never falls back to anything itself, and no other file names git2.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::{
    AttrCheckFlags, AttrValue, Delta, DiffFindOptions, DiffFormat, DiffOptions, ErrorCode, FileMode,
    IndexEntryExtendedFlag, IndexEntryFlag, ObjectType, Oid, Repository, RepositoryOpenFlags, StatusOptions,
    StatusShow,
};

use super::{
    DIFF_SIZE, DirtyFile, Head, Link, Search, Stored, Work, change, in_ledger, lossy, remote, too_large,
};

/// From this many index entries on, git's threads are two to three times as fast as libgit2.
const MANY_FILES: usize = 20_000;

/// What libgit2 made of a directory.
pub(super) enum Opened {
    /// A repository with a work tree.
    Repository(Library),
    /// A repository without one.
    Bare(Library),
    /// No repository at all.
    Missing,
    /// One that libgit2 does not read, and why.
    Refused(String),
}

/// An open repository.
pub(super) struct Library {
    repo: Repository,
    /// Real path of the work tree, or of the git directory when there is none.
    top: PathBuf,
}

/// A reason not to believe libgit2.
pub(super) struct Doubt {
    /// What is special about this repository.
    pub(super) reason: String,
    /// It would be right, only slow.
    pub(super) only_slow: bool,
}

/// Opens the repository in a directory or above it.
pub(super) fn open(dir: &Path, search: Search) -> Opened {
    let opened = match search {
        Search::Upward => Repository::open_ext(dir, RepositoryOpenFlags::empty(), &[] as &[&OsStr]),
        Search::Here => Repository::open(dir),
    };
    let repo = match opened {
        Ok(repo) => repo,
        Err(error) if error.code() == ErrorCode::NotFound => return Opened::Missing,
        Err(error) if error.code() == ErrorCode::Owner => {
            return Opened::Refused(
                "the repository belongs to another user, and git's setting `safe.directory` does not name it"
                    .to_owned(),
            );
        }
        Err(error) => return Opened::Refused(said(&error)),
    };
    let bare = repo.is_bare();
    let top = if bare { repo.path() } else { repo.workdir().unwrap_or(repo.path()) };
    match fs::canonicalize(top) {
        Ok(top) if bare => Opened::Bare(Library { repo, top }),
        Ok(top) => Opened::Repository(Library { repo, top }),
        Err(error) => Opened::Refused(format!("`{}`: {error}", top.display())),
    }
}

/// Returns the id that the bytes of a commit have, in hex, for ids of `digits` digits.
pub(super) fn commit_id(bytes: &[u8], digits: usize) -> Option<String> {
    if digits == 64 {
        let whole = [format!("commit {}\0", bytes.len()).as_bytes(), bytes].concat();
        return Some(crate::id::sha256(&whole).to_hex());
    }
    Oid::hash_object(ObjectType::Commit, bytes).ok().map(|id| id.to_string())
}

impl Library {
    /// Returns the real path of the work tree.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    /// Reads what is checked out; `None` when there is no commit yet.
    pub(super) fn head(&self) -> Result<Option<Head>, String> {
        let head = match self.repo.head() {
            Ok(head) => head,
            Err(error) if error.code() == ErrorCode::UnbornBranch => return Ok(None),
            Err(error) => return Err(said(&error)),
        };
        let commit = head.peel_to_commit().map_err(|error| said(&error))?;
        let branch = head
            .name_bytes()
            .strip_prefix(b"refs/heads/")
            .map(|name| String::from_utf8_lossy(name).into_owned());
        let remote = remote::choose(&self.remotes(), branch.as_deref());
        Ok(Some(Head {
            commit: commit.id().to_string(),
            tree: commit.tree_id().to_string(),
            object_format: self.repo.object_format().str().to_owned(),
            branch,
            remote,
        }))
    }

    /// Returns why this repository must not be read with libgit2, if there is a reason.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let doubt = |reason: &str| Some(Doubt { reason: reason.to_owned(), only_slow: false });
        let Ok(config) = self.repo.config() else { return doubt("git's settings cannot be read") };
        // A sparse checkout's absent files would be reported as deleted.
        match config.get_bool("core.sparseCheckout") {
            Ok(true) => return doubt("this is a sparse checkout"),
            Ok(false) => {}
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return doubt(&said(&error)),
        }
        if self.has_setting(r"^(extensions\.partialclone|remote\..*\.promisor)$") {
            return doubt("this is a partial clone");
        }
        let index = match self.repo.index() {
            Ok(index) => index,
            Err(error) => return doubt(&said(&error)),
        };
        if index.has_conflicts() {
            return doubt("a merge is not finished");
        }
        for entry in index.iter() {
            if entry.flags & IndexEntryFlag::VALID.bits() != 0 {
                return doubt("some files are marked `assume-unchanged`");
            }
            if entry.flags_extended & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0 {
                return doubt("some files are marked `skip-worktree`");
            }
            if entry.flags_extended & IndexEntryExtendedFlag::INTENT_TO_ADD.bits() != 0 {
                return doubt("some files are marked with `git add --intent-to-add`");
            }
            if entry.mode == u32::from(FileMode::Commit) && self.link_head(&entry.path).is_err() {
                return doubt(&format!("libgit2 does not read the submodule `{}`", lossy(&entry.path)));
            }
        }
        (index.len() > MANY_FILES)
            .then(|| Doubt { reason: format!("{} files are tracked", index.len()), only_slow: true })
    }

    /// Compares commit, index and work tree.
    pub(super) fn work(&self) -> Result<Work, Doubt> {
        let doubt = |reason| Doubt { reason, only_slow: false };
        let work = self.compare().map_err(|error| doubt(said(&error)))?;
        // libgit2 runs no filter programs and re-codes nothing, so a touched file looks modified and a modified one
        // yields a wrong patch. A file that looks equal has the recorded time and size, or the commit's own bytes.
        for file in &work.files {
            for name in ["filter", "working-tree-encoding"] {
                let path = Path::new(OsStr::from_bytes(&file.path));
                match self.repo.get_attr_bytes(path, name, AttrCheckFlags::FILE_THEN_INDEX) {
                    Ok(value) if !is_text(value) => {}
                    Ok(_) => {
                        return Err(doubt(format!("`{}` has the git attribute `{name}`", lossy(&file.path))));
                    }
                    Err(error) => return Err(doubt(said(&error))),
                }
            }
        }
        Ok(work)
    }

    fn compare(&self) -> Result<Work, git2::Error> {
        let tree = self.repo.head()?.peel_to_tree()?;
        let index = self.repo.index()?;
        let mut options = DiffOptions::new();
        options.include_typechange(true);
        let mut staged = self.repo.diff_tree_to_index(Some(&tree), Some(&index), Some(&mut options))?;
        staged.find_similar(Some(DiffFindOptions::new().renames(true).exact_match_only(true)))?;
        options.ignore_submodules(true);
        let unstaged = self.repo.diff_index_to_workdir(Some(&index), Some(&mut options))?;

        // Both letters of each path: what the index did, then what the work tree did.
        let mut letters = std::collections::BTreeMap::<Vec<u8>, (u8, u8)>::new();
        for delta in staged.deltas() {
            let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes()).unwrap_or_default();
            letters.entry(path.to_vec()).or_insert((b'.', b'.')).0 = letter(delta.status());
        }
        for delta in unstaged.deltas().filter(|delta| delta.old_file().mode() != FileMode::Commit) {
            let path = delta.old_file().path_bytes().or(delta.new_file().path_bytes()).unwrap_or_default();
            letters.entry(path.to_vec()).or_insert((b'.', b'.')).1 = letter(delta.status());
        }
        let mut links = Vec::new();
        for entry in index.iter().filter(|entry| entry.mode == u32::from(FileMode::Commit)) {
            match self.link_head(&entry.path)? {
                LinkHead::Absent => {
                    letters.entry(entry.path.clone()).or_insert((b'.', b'.')).1 = b'D';
                }
                LinkHead::At(id) if id != entry.id => {
                    letters.entry(entry.path.clone()).or_insert((b'.', b'.')).1 = b'M';
                }
                LinkHead::At(_) | LinkHead::NotCheckedOut => {}
            }
            links.push(Link { path: entry.path, commit: entry.id.to_string() });
        }
        let files =
            letters.into_iter().map(|(path, (x, y))| DirtyFile { path, change: change(x, y) }).collect();
        Ok(Work { files, links })
    }

    /// Makes the patch from the commit to the work tree; its paths begin with `prefix`.
    pub(super) fn patch(&self, prefix: &[u8]) -> Result<Vec<u8>, String> {
        let mut patch = Patch::default();
        let made = self.print(prefix, &mut patch);
        if patch.full {
            return Err(too_large());
        }
        made.map_err(|error| said(&error))?;
        Ok(patch.text)
    }

    fn print(&self, prefix: &[u8], patch: &mut Patch) -> Result<(), git2::Error> {
        let tree = self.repo.head()?.peel_to_tree()?;
        let mut options = DiffOptions::new();
        // Without type changes, a file that became a link is a deletion and an addition, as in git's own patches.
        options
            .show_binary(true)
            .ignore_submodules(true)
            .id_abbrev(40)
            .old_prefix([b"a/", prefix].concat())
            .new_prefix([b"b/", prefix].concat());
        let diff = self.repo.diff_tree_to_workdir_with_index(Some(&tree), Some(&mut options))?;
        diff.print(DiffFormat::Patch, |delta, _, line| patch.line(&delta, &line))?;
        patch.end_file();
        self.print_links(&tree, prefix, patch)
    }

    /// Adds the submodules that are at another commit than the pinned one.
    fn print_links(
        &self,
        tree: &git2::Tree<'_>,
        prefix: &[u8],
        patch: &mut Patch,
    ) -> Result<(), git2::Error> {
        let index = self.repo.index()?;
        let mut pairs = std::collections::BTreeMap::<Vec<u8>, (Option<Oid>, Option<Oid>)>::new();
        for delta in self.repo.diff_tree_to_index(Some(tree), Some(&index), None)?.deltas() {
            if delta.old_file().mode() == FileMode::Commit
                && let Some(path) = delta.old_file().path_bytes()
            {
                pairs.entry(path.to_vec()).or_default().0 = Some(delta.old_file().id());
            }
        }
        for entry in index.iter().filter(|entry| entry.mode == u32::from(FileMode::Commit)) {
            let pinned = match tree.get_path(Path::new(OsStr::from_bytes(&entry.path))) {
                Ok(found) => (found.filemode() == i32::from(FileMode::Commit)).then(|| found.id()),
                Err(error) if error.code() == ErrorCode::NotFound => None,
                Err(error) => return Err(error),
            };
            let now = match self.link_head(&entry.path)? {
                LinkHead::At(id) => Some(id),
                LinkHead::NotCheckedOut => Some(entry.id),
                LinkHead::Absent => None,
            };
            pairs.insert(entry.path, (pinned, now));
        }
        for (path, (old, new)) in pairs {
            if old != new {
                let name = |side: &[u8]| quoted(&[side, prefix, &path].concat());
                link_patch(&mut patch.text, &name(b"a/"), &name(b"b/"), old, new);
            }
        }
        Ok(())
    }

    /// Lists untracked, un-ignored files; one that is a repository of its own ends in `/`.
    pub(super) fn untracked(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut options = StatusOptions::new();
        options
            .show(StatusShow::Workdir)
            .include_untracked(true)
            .recurse_untracked_dirs(true)
            .exclude_submodules(true)
            .include_ignored(false);
        let statuses = self.repo.statuses(Some(&mut options)).map_err(|error| said(&error))?;
        let new = statuses.iter().filter(|entry| entry.status().is_wt_new());
        Ok(new.map(|entry| entry.path_bytes().to_vec()).collect())
    }

    /// Lists the paths of submodules.
    pub(super) fn links(&self) -> Result<Vec<Vec<u8>>, String> {
        let index = self.repo.index().map_err(|error| said(&error))?;
        let links = index.iter().filter(|entry| entry.mode == u32::from(FileMode::Commit));
        Ok(links.map(|entry| entry.path).collect())
    }

    /// Reads a commit's bytes.
    pub(super) fn commit_bytes(&self, commit: &str) -> Result<Stored, String> {
        // A longer id is one of another object format, which this repository does not have.
        let shallow = self.repo.is_shallow();
        let Ok(id) = Oid::from_str(commit) else { return Ok(Stored::Missing { shallow }) };
        let odb = self.repo.odb().map_err(|error| said(&error))?;
        match odb.read(id) {
            Ok(object) if object.kind() == ObjectType::Commit => Ok(Stored::Bytes(object.data().to_vec())),
            Ok(_) => Ok(Stored::Missing { shallow }),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(Stored::Missing { shallow }),
            Err(error) if error.code() == ErrorCode::HashsumMismatch => Ok(Stored::Damaged),
            Err(error) => Err(said(&error)),
        }
    }

    fn link_head(&self, path: &[u8]) -> Result<LinkHead, git2::Error> {
        let dir = self.top.join(OsStr::from_bytes(path));
        if fs::symlink_metadata(&dir).is_err() {
            return Ok(LinkHead::Absent);
        }
        if fs::symlink_metadata(dir.join(".git")).is_err() {
            return Ok(LinkHead::NotCheckedOut);
        }
        let commit = Repository::open(&dir)?.head()?.peel_to_commit()?.id();
        Ok(LinkHead::At(commit))
    }

    fn has_setting(&self, pattern: &str) -> bool {
        let Ok(config) = self.repo.config() else { return true };
        let Ok(mut entries) = config.entries(Some(pattern)) else { return true };
        entries.next().is_some()
    }

    /// Returns the settings by which the remote is chosen.
    fn remotes(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let Ok(config) = self.repo.config() else { return found };
        let Ok(entries) = config.entries(Some(r"^(remote\..*\.url|branch\..*\.remote)$")) else {
            return found;
        };
        // A setting that cannot be read is left out: the remote is a convenience, never evidence.
        let _ = entries.for_each(|entry| {
            if entry.has_value()
                && let (Ok(name), Ok(value)) = (entry.name(), entry.value())
            {
                found.push((name.to_owned(), value.to_owned()));
            }
        });
        found
    }
}

/// What is in a submodule's directory.
enum LinkHead {
    /// A repository at this commit.
    At(Oid),
    /// A directory without a repository.
    NotCheckedOut,
    /// No directory.
    Absent,
}

/// A patch while libgit2 prints it.
#[derive(Default)]
struct Patch {
    text: Vec<u8>,
    /// The header of the file at hand, held back until the file proves to differ.
    header: Vec<u8>,
    /// The header alone says something: a mode, or an empty file.
    header_counts: bool,
    full: bool,
}

impl Patch {
    fn line(&mut self, delta: &git2::DiffDelta<'_>, line: &git2::DiffLine<'_>) -> bool {
        let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes()).unwrap_or_default();
        // Submodules have their own lines: libgit2 prints only some of their changes.
        let is_link = [delta.old_file().mode(), delta.new_file().mode()].contains(&FileMode::Commit);
        if in_ledger(path) || is_link {
            return true;
        }
        match line.origin() {
            'F' => {
                self.end_file();
                self.header.extend_from_slice(line.content());
                // A file that was staged and then put back is listed with nothing to say.
                self.header_counts =
                    delta.status() != Delta::Modified || delta.old_file().mode() != delta.new_file().mode();
                return true;
            }
            origin => {
                self.text.append(&mut self.header);
                if let ' ' | '+' | '-' = origin {
                    self.text.push(origin as u8);
                }
                self.text.extend_from_slice(line.content());
            }
        }
        self.full = self.text.len() > DIFF_SIZE;
        !self.full
    }

    fn end_file(&mut self) {
        if self.header_counts {
            self.text.append(&mut self.header);
        }
        self.header.clear();
        self.header_counts = false;
    }
}

fn link_patch(text: &mut Vec<u8>, old_name: &[u8], new_name: &[u8], old: Option<Oid>, new: Option<Oid>) {
    let id = |side: Option<Oid>| side.map_or_else(|| "0".repeat(40), |id| id.to_string());
    let mut line = |parts: &[&[u8]]| {
        for part in parts {
            text.extend_from_slice(part);
        }
        text.push(b'\n');
    };
    line(&[b"diff --git ", old_name, b" ", new_name]);
    let mode = match (old, new) {
        (None, _) => {
            line(&[b"new file mode 160000"]);
            ""
        }
        (_, None) => {
            line(&[b"deleted file mode 160000"]);
            ""
        }
        _ => " 160000",
    };
    line(&[b"index ", id(old).as_bytes(), b"..", id(new).as_bytes(), mode.as_bytes()]);
    line(&[b"--- ", if old.is_some() { old_name } else { b"/dev/null" }]);
    line(&[b"+++ ", if new.is_some() { new_name } else { b"/dev/null" }]);
    line(&[
        b"@@ -",
        if old.is_some() { b"1" } else { b"0,0" },
        b" +",
        if new.is_some() { b"1" } else { b"0,0" },
        b" @@",
    ]);
    if old.is_some() {
        line(&[b"-Subproject commit ", id(old).as_bytes()]);
    }
    if new.is_some() {
        line(&[b"+Subproject commit ", id(new).as_bytes()]);
    }
}

/// Writes a path as a patch does: in quotes, with escapes, if it holds a byte that would break the line.
fn quoted(path: &[u8]) -> Vec<u8> {
    if path.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        return path.to_vec();
    }
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b' '..=b'~' => text.push(*byte),
            _ => text.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    text.push(b'"');
    text
}

fn letter(status: Delta) -> u8 {
    match status {
        Delta::Added | Delta::Untracked => b'A',
        Delta::Deleted => b'D',
        Delta::Renamed => b'R',
        Delta::Copied => b'C',
        Delta::Typechange => b'T',
        Delta::Conflicted => b'U',
        _ => b'M',
    }
}

/// Returns whether an attribute has a value of its own rather than being set, unset or unspecified.
fn is_text(value: Option<&[u8]>) -> bool {
    matches!(AttrValue::from_bytes(value), AttrValue::String(_) | AttrValue::Bytes(_))
}

fn said(error: &git2::Error) -> String {
    remote::redact(error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_the_id_git_gives_it() {
        // `git commit-tree` of the empty tree at second 0 of the epoch.
        let bytes = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n";
        let sha1 = commit_id(bytes, 40).unwrap();
        assert_eq!(sha1, "c94d70cd9fc9f7c01334b6c86aa0532500074c90");
        let sha256 = "2bc9e6a3f7e513a61453da6aac71811887637096295e20ba54dee15ab764077d";
        assert_eq!(commit_id(bytes, 64).unwrap(), sha256);
        assert_ne!(commit_id(&bytes[1..], 40).unwrap(), sha1);
    }

    #[test]
    fn only_a_name_that_breaks_the_line_is_quoted() {
        assert_eq!(quoted(b"a/plain name.py"), b"a/plain name.py");
        assert_eq!(quoted(b"a/new\nline"), br#""a/new\012line""#);
        assert_eq!(quoted(b"a/\xff\"\\"), br#""a/\377\"\\""#);
    }

    #[test]
    fn a_submodules_patch_has_the_lines_of_git() {
        let [old, new] = [Oid::from_str(&"1".repeat(40)).unwrap(), Oid::from_str(&"2".repeat(40)).unwrap()];
        let text = |old, new| {
            let mut text = Vec::new();
            link_patch(&mut text, b"a/s", b"b/s", old, new);
            String::from_utf8(text).unwrap()
        };
        let (one, two, none) = ("1".repeat(40), "2".repeat(40), "0".repeat(40));
        assert_eq!(
            text(Some(old), Some(new)),
            format!(
                "diff --git a/s b/s\nindex {one}..{two} 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n\
                 -Subproject commit {one}\n+Subproject commit {two}\n"
            )
        );
        assert_eq!(
            text(None, Some(new)),
            format!(
                "diff --git a/s b/s\nnew file mode 160000\nindex {none}..{two}\n--- /dev/null\n+++ b/s\n\
                 @@ -0,0 +1 @@\n+Subproject commit {two}\n"
            )
        );
    }
}
