//! Asks the `git` program on PATH, with a small fixed set of commands that only read.
//!
//! It is asked only where libgit2 is wrong, refuses or is slow. What git prints is either understood whole or is a
//! failure: an empty or odd answer never counts as "clean". No command fetches, takes a lock or runs a user's diff
//! program; clean filters do run, because nothing else can say what a filtered file holds.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{DIFF_SIZE, DirtyFile, Head, Link, Stored, Work, change, lossy, remote, too_large};

/// Files hidden from git by a mark that are compared one by one; more of them make the state unknown.
const HIDDEN_FILES: usize = 1_000;

/// The most that any answer but a diff is read of.
const ANSWER_SIZE: usize = 1 << 30;

/// Why there is no answer.
pub(super) enum Failure {
    /// There is no `git` on PATH.
    Absent,
    /// It ran and refused; its own words, without addresses.
    Failed(String),
}

/// Where a directory is, as git sees it.
pub(super) enum Place {
    /// In the work tree with this real path at its top.
    WorkTree(PathBuf),
    /// In a repository without a work tree, or in its own folder.
    Bare,
}

/// The state of a repository without what is inside its submodules.
pub(super) enum Reading {
    /// No commit yet.
    Unborn,
    /// A commit, and what differs from it or why that is not known.
    Born { head: Head, work: Result<Work, String> },
}

/// Returns what the program says of itself, such as `git version 2.47.3`.
pub(super) fn version() -> Result<String, Failure> {
    let said = ask(Path::new("."), &["version"], ANSWER_SIZE)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Finds the top of the work tree that holds a directory.
pub(super) fn top(dir: &Path) -> Result<Place, Failure> {
    let asked = ["rev-parse", "--is-bare-repository", "--is-inside-work-tree"];
    let facts = ask(dir, &asked, ANSWER_SIZE)?;
    match facts.as_slice() {
        b"false\ntrue\n" => {}
        b"true\nfalse\n" | b"false\nfalse\n" => return Ok(Place::Bare),
        _ => return Err(odd("rev-parse")),
    }
    let mut path = ask(dir, &["rev-parse", "--show-toplevel"], ANSWER_SIZE)?;
    path.pop();
    let path = PathBuf::from(OsString::from_vec(path));
    match fs::canonicalize(&path) {
        Ok(top) => Ok(Place::WorkTree(top)),
        Err(error) => Err(Failure::Failed(format!("`{}`: {error}", path.display()))),
    }
}

/// Reads commit and work tree of the repository with this top.
pub(super) fn read(top: &Path) -> Result<Reading, Failure> {
    let asked = [
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--no-ahead-behind",
        "--untracked-files=no",
        "--ignore-submodules=dirty",
        "--find-renames=100%",
    ];
    let status =
        ask(top, &asked, ANSWER_SIZE).and_then(|text| parse_status(&text).ok_or_else(|| odd("status")));
    let (commit, branch, work) = match status {
        Ok(Status { commit: None, .. }) => return Ok(Reading::Unborn),
        Ok(Status { commit: Some(commit), branch, files }) => {
            let work = links(top).map(|links| Work { files, links });
            (commit, branch, work)
        }
        Err(Failure::Absent) => return Err(Failure::Absent),
        // The commit may be known where the work tree is not.
        Err(Failure::Failed(why)) => {
            let commit = line(ask(top, &["rev-parse", "--verify", "HEAD^{commit}"], ANSWER_SIZE)?)?;
            (commit, None, Err(why))
        }
    };
    let tree = line(ask(top, &["rev-parse", "--verify", &format!("{commit}^{{tree}}")], ANSWER_SIZE)?)?;
    let object_format = line(ask(top, &["rev-parse", "--show-object-format"], ANSWER_SIZE)?)?;
    if !super::is_id(&commit) || !super::is_id(&tree) {
        return Err(odd("rev-parse"));
    }
    let remote = remote::choose(&remotes(top), branch.as_deref());
    Ok(Reading::Born { head: Head { commit, tree, object_format, branch, remote }, work })
}

/// Makes the patch from a commit to the work tree; its paths begin with `prefix`.
pub(super) fn patch(top: &Path, commit: &str, prefix: &[u8]) -> Result<Vec<u8>, String> {
    let side = |option: &str| OsString::from_vec([option.as_bytes(), prefix].concat());
    // Left to itself, `git diff` rewrites the index when it finds files that were only touched.
    let mut asked: Vec<OsString> = [
        "-c",
        "diff.autoRefreshIndex=false",
        "diff",
        "--patch",
        "--binary",
        "--full-index",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "--no-renames",
        "--submodule=short",
        "--ignore-submodules=dirty",
        "--output-indicator-new=+",
        "--output-indicator-old=-",
        "--output-indicator-context= ",
    ]
    .map(OsString::from)
    .to_vec();
    asked.extend([side("--src-prefix=a/"), side("--dst-prefix=b/")]);
    asked.extend([commit, "--", ":(top,exclude,glob)**/.ledger/**"].map(OsString::from));
    match ask(top, &asked, DIFF_SIZE) {
        Ok(text) => Ok(without_empty_files(&text)),
        Err(Failure::Absent) => Err("the `git` program went away while it was asked".to_owned()),
        Err(Failure::Failed(why)) if why == TOO_MUCH => Err(too_large()),
        Err(Failure::Failed(why)) => Err(why),
    }
}

/// Lists untracked, un-ignored files; one that is a repository of its own ends in `/`.
pub(super) fn untracked(top: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(paths(&ask(top, &["ls-files", "--others", "--exclude-standard", "-z"], ANSWER_SIZE)?))
}

/// Lists the paths of submodules.
pub(super) fn link_paths(top: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let entries = entries(top)?;
    Ok(entries.into_iter().filter(|entry| entry.mode == LINK).map(|entry| entry.path).collect())
}

/// Reads a commit's bytes.
pub(super) fn commit_bytes(repo: &Path, commit: &str) -> Result<Stored, Failure> {
    match ask(repo, &["cat-file", "commit", commit], ANSWER_SIZE) {
        Ok(bytes) => Ok(Stored::Bytes(bytes)),
        Err(Failure::Absent) => Err(Failure::Absent),
        Err(Failure::Failed(why)) => {
            // Whether the repository is readable at all tells a missing commit from a broken repository.
            let shallow = ask(repo, &["rev-parse", "--is-shallow-repository"], ANSWER_SIZE)?;
            if why.contains("corrupt") || why.contains("mismatch") {
                return Ok(Stored::Damaged);
            }
            Ok(Stored::Missing { shallow: shallow.starts_with(b"true") })
        }
    }
}

const LINK: &[u8] = b"160000";
const TOO_MUCH: &str = "its answer is too large";

/// Lists submodules, once every file that git was told not to look at has been looked at.
fn links(top: &Path) -> Result<Vec<Link>, String> {
    let told = |failure| match failure {
        Failure::Absent => "the `git` program went away while it was asked".to_owned(),
        Failure::Failed(why) => why,
    };
    let mut links = Vec::new();
    let mut hidden = Vec::new();
    for entry in entries(top).map_err(told)? {
        if entry.mode == LINK {
            links.push(Link { path: entry.path, commit: entry.id });
        } else if entry.tag == b'S' || entry.tag.is_ascii_lowercase() {
            let there = fs::symlink_metadata(top.join(OsStr::from_bytes(&entry.path))).is_ok();
            // In a sparse checkout a file outside of it is meant to be absent.
            match (entry.tag, there) {
                (b'S', false) => {}
                (_, true) => hidden.push(entry),
                (_, false) => return Err(marked(&entry)),
            }
        }
    }
    if hidden.len() > HIDDEN_FILES {
        return Err(format!("{} files are marked `assume-unchanged` or `skip-worktree`", hidden.len()));
    }
    for some in hidden.chunks(100) {
        let names = some.iter().map(|entry| OsString::from_vec(entry.path.clone()));
        let asked: Vec<OsString> =
            ["hash-object", "--"].map(OsString::from).into_iter().chain(names).collect();
        let ids = ask(top, &asked, ANSWER_SIZE).map_err(told)?;
        let mut ids = ids.split(|byte| *byte == b'\n');
        for entry in some {
            if entry.mode == b"120000" || ids.next() != Some(entry.id.as_bytes()) {
                return Err(marked(entry));
            }
        }
    }
    Ok(links)
}

fn marked(entry: &Entry) -> String {
    let (mark, option) = match entry.tag {
        b'S' | b's' => ("skip-worktree", "--no-skip-worktree"),
        _ => ("assume-unchanged", "--no-assume-unchanged"),
    };
    let path = lossy(&entry.path);
    format!("`{path}` is marked `{mark}` and differs; `git update-index {option} {path}` shows it again")
}

/// One entry of the index.
struct Entry {
    /// `H`, or `S` for skip-worktree; in lower case for assume-unchanged.
    tag: u8,
    mode: Vec<u8>,
    id: String,
    path: Vec<u8>,
}

fn entries(top: &Path) -> Result<Vec<Entry>, Failure> {
    let text = ask(top, &["ls-files", "-v", "--stage", "-z"], ANSWER_SIZE)?;
    let entries: Option<Vec<Entry>> = records(&text).map(parse_entry).collect();
    entries.ok_or_else(|| odd("ls-files"))
}

/// Parses `TAG MODE ID STAGE<tab>PATH`.
fn parse_entry(record: &[u8]) -> Option<Entry> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut fields = record[..tab].split(|byte| *byte == b' ');
    let (tag, mode, id) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Entry {
        tag: *tag.first()?,
        mode: mode.to_vec(),
        id: String::from_utf8(id.to_vec()).ok()?,
        path: record[tab + 1..].to_vec(),
    })
}

/// Drops what `git apply` would call garbage: headers of files that were only touched, and notes on merges.
///
/// Every other line of a patch begins with a mark of its own or is base 85, so that no content is taken for these.
fn without_empty_files(patch: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(patch.len());
    let lines =
        patch.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"* Unmerged path "));
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        let header = |line: &[u8]| line.starts_with(b"diff --git ");
        if header(line) && lines.peek().is_none_or(|next| header(next)) {
            continue;
        }
        kept.extend_from_slice(line);
    }
    kept
}

struct Status {
    /// `None` before the first commit.
    commit: Option<String>,
    branch: Option<String>,
    files: Vec<DirtyFile>,
}

/// Parses `git status --porcelain=v2 --branch -z`; nothing if any record is not understood or no commit is named.
fn parse_status(text: &[u8]) -> Option<Status> {
    let mut commit = None;
    let mut branch = None;
    let mut files = Vec::new();
    let mut records = records(text);
    while let Some(record) = records.next() {
        // The path is the last field and may hold spaces; the number of fields before it depends on the kind.
        let before = match record.first()? {
            b'#' => {
                let header = String::from_utf8_lossy(record);
                if let Some(id) = header.strip_prefix("# branch.oid ") {
                    commit = Some((id != "(initial)").then(|| id.to_owned()));
                } else if let Some(name) = header.strip_prefix("# branch.head ") {
                    branch = (name != "(detached)").then(|| name.to_owned());
                }
                continue;
            }
            b'1' => 8,
            b'2' => 9,
            b'u' => 10,
            _ => return None,
        };
        let mut fields = record.splitn(before + 1, |byte| *byte == b' ');
        let letters = fields.nth(1)?;
        let path = fields.nth(before - 2)?.to_vec();
        let change = match (record[0], letters) {
            (b'u', _) => 'U',
            (_, [x, y]) => change(*x, *y),
            _ => return None,
        };
        if record[0] == b'2' {
            // The old name is a record of its own.
            records.next()?;
        }
        files.push(DirtyFile { path, change });
    }
    Some(Status { commit: commit?, branch, files })
}

/// Returns the settings by which the remote is chosen; none if git has none or fails, for a remote is never
/// evidence.
fn remotes(top: &Path) -> Vec<(String, String)> {
    let asked = ["config", "--null", "--get-regexp", r"^(remote\..*\.url|branch\..*\.remote)$"];
    let text = ask(top, &asked, ANSWER_SIZE).unwrap_or_default();
    let text = records(&text).map(|record| String::from_utf8_lossy(record).into_owned());
    text.filter_map(|record| record.split_once('\n').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect()
}

fn records(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

fn paths(text: &[u8]) -> Vec<Vec<u8>> {
    records(text).map(<[u8]>::to_vec).collect()
}

fn line(bytes: Vec<u8>) -> Result<String, Failure> {
    let text = String::from_utf8(bytes).map_err(|_| odd("rev-parse"))?;
    Ok(text.trim_end().to_owned())
}

fn odd(command: &str) -> Failure {
    Failure::Failed(format!("the answer of `git {command}` is not understood"))
}

/// Runs git in a directory and returns what it wrote, if it succeeded and complained of nothing.
fn ask(dir: &Path, args: &[impl AsRef<OsStr>], limit: usize) -> Result<Vec<u8>, Failure> {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["--no-optional-locks", "--no-pager"]);
    // A file system monitor is asked what changed and believed; here git looks for itself.
    git.args(["-c", "core.fsmonitor=false"]).args(args);
    // Variables that point git elsewhere or change what it writes. Those that name settings stay.
    for name in [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_ATTR_SOURCE",
        "GIT_CEILING_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DEFAULT_HASH",
        "GIT_DIFF_OPTS",
        "GIT_DIR",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_EXTERNAL_DIFF",
        "GIT_GLOB_PATHSPECS",
        "GIT_GRAFT_FILE",
        "GIT_ICASE_PATHSPECS",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_LITERAL_PATHSPECS",
        "GIT_NAMESPACE",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_TRACE",
        "GIT_WORK_TREE",
    ] {
        git.env_remove(name);
    }
    git.env("LC_ALL", "C")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Absent,
        _ => Failure::Failed(error.to_string()),
    };
    let mut child = git.spawn().map_err(failed)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Both streams are drained at once, so that neither fills up and stops git.
    let (answer, complaint) = std::thread::scope(|scope| {
        let complaint = scope.spawn(|| err.map(|err| drain(err, 1 << 16)).transpose());
        let answer = out.map(|out| drain(out, limit)).transpose();
        (answer, complaint.join())
    });
    let status = child.wait().map_err(failed)?;
    let (answer, whole) = answer.map_err(failed)?.unwrap_or((Vec::new(), true));
    let complaint = match complaint {
        Ok(Ok(Some((text, _)))) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    };
    if !whole {
        return Err(Failure::Failed(TOO_MUCH.to_owned()));
    }
    // With a filter that does not run, git goes on with the unfiltered file and succeeds.
    let loud = complaint.lines().find(|line| line.starts_with("error:") || line.starts_with("fatal:"));
    match loud.or(complaint.lines().next()) {
        Some(line) if loud.is_some() || !status.success() => Err(Failure::Failed(remote::redact(line))),
        None if !status.success() => Err(Failure::Failed(format!("git ended with {status}"))),
        _ => Ok(answer),
    }
}

/// Reads a stream to its end, keeps at most `limit` bytes, and says whether that was all.
fn drain(mut stream: impl Read, limit: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut kept = Vec::new();
    stream.by_ref().take(limit as u64).read_to_end(&mut kept)?;
    let rest = io::copy(&mut stream, &mut io::sink())?;
    Ok((kept, rest == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whole_or_not_at_all() {
        let text = b"# branch.oid abc\0# branch.head main\0\
            1 .M N... 100644 100644 100644 aa bb a file\0\
            2 R. N... 100644 100644 100644 aa aa R100 new\nname\0old\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0";
        let status = parse_status(text).unwrap();
        assert_eq!(status.commit.as_deref(), Some("abc"));
        assert_eq!(status.branch.as_deref(), Some("main"));
        let files: Vec<_> = status.files.iter().map(|file| (file.change, &file.path[..])).collect();
        assert_eq!(files, [('M', &b"a file"[..]), ('R', b"new\nname"), ('U', b"both")]);

        for bad in [
            &b""[..],
            b"1 .M N... 100644 100644 100644 aa bb file\0",
            b"# branch.oid abc\0x what\0",
            b"# branch.oid abc\x001 .M N... 100644\0",
            b"# branch.oid abc\x002 R. N... 100644 100644 100644 aa aa R100 new\0",
        ] {
            assert!(parse_status(bad).is_none(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn no_commit_yet_is_not_no_answer() {
        let status = parse_status(b"# branch.oid (initial)\0# branch.head (detached)\0").unwrap();
        assert_eq!((status.commit, status.branch), (None, None));
    }

    #[test]
    fn an_index_entry_keeps_its_odd_name() {
        let entry = parse_entry(b"h 100644 aa 0\ta b\tc\n").unwrap();
        assert_eq!((entry.tag, entry.id.as_str(), &entry.path[..]), (b'h', "aa", &b"a b\tc\n"[..]));
        assert!(parse_entry(b"H 100644 aa 0 a").is_none());
    }

    #[test]
    fn headers_with_nothing_below_are_dropped() {
        let empty = b"diff --git a/x b/x\n";
        let file = b"diff --git a/y b/y\n@@ -1 +1 @@\n-diff --git a/x b/x\n+* Unmerged path\n";
        assert_eq!(without_empty_files(&[&empty[..], file, b"* Unmerged path z\n", empty].concat()), file);
        assert_eq!(without_empty_files(empty), b"");
    }

    #[test]
    fn an_answer_that_is_cut_says_so() {
        assert_eq!(drain(&b"abc"[..], 3).unwrap(), (b"abc".to_vec(), true));
        assert_eq!(drain(&b"abcd"[..], 3).unwrap(), (b"abc".to_vec(), false));
    }
}
