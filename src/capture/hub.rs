//! The cache of the Hugging Face hub: which repository and commit a path in it stands for.
//!
//! The layout is that of `huggingface_hub` ("Understand caching" in its documentation):
//! `models--ORG--NAME/snapshots/COMMIT/FILE` are links to `../../blobs/ETAG`, with `datasets--` and `spaces--`
//! for the other kinds; `DIR/.cache/huggingface/download/FILE.metadata` beside a download into a directory of
//! one's own holds the commit in its first line, and no repository.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// A place in the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Repository, as `acme/tiny-llama`; not known for a download into a directory of one's own.
    pub repo: Option<String>,
    /// `model`, `dataset` or `space`; not known either.
    pub kind: Option<&'static str>,
    /// Hex of the commit.
    pub commit: String,
    /// Path inside the repository, where a file or directory of it is meant; empty for all of it.
    pub inside: String,
}

impl Located {
    /// Names the place in one word, as `acme/tiny-llama@5f3c1e0`.
    pub fn short(&self) -> String {
        let commit = self.commit.get(..7).unwrap_or(&self.commit);
        match &self.repo {
            Some(repo) => format!("{repo}@{commit}"),
            None => format!("hub commit {commit}"),
        }
    }
}

/// Says which repository and commit a path stands for, if it lies in a cache of the hub or was downloaded from
/// it as a whole.
pub fn locate(path: &Path) -> Option<Located> {
    let absolute = std::path::absolute(path).ok()?;
    // A link to a snapshot stands for it; a link inside one is its file.
    in_cache(&absolute)
        .or_else(|| in_cache(&fs::canonicalize(&absolute).ok()?))
        .or_else(|| in_local_dir(&absolute))
}

fn in_cache(path: &Path) -> Option<Located> {
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_str().unwrap_or_default()),
            _ => None,
        })
        .collect();
    let at = parts.iter().rposition(|part| *part == "snapshots")?;
    let (kind, repo) = repository(parts.get(at.checked_sub(1)?)?)?;
    let commit = parts.get(at + 1).filter(|name| is_commit(name))?;
    Some(Located {
        repo: Some(repo),
        kind: Some(kind),
        commit: (*commit).to_owned(),
        inside: parts[at + 2..].join("/"),
    })
}

/// Reads `models--acme--tiny-llama`.
fn repository(folder: &str) -> Option<(&'static str, String)> {
    let (kind, rest) = folder.split_once("--")?;
    let kind = match kind {
        "models" => "model",
        "datasets" => "dataset",
        "spaces" => "space",
        _ => return None,
    };
    (!rest.is_empty()).then(|| (kind, rest.replace("--", "/")))
}

fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A directory is of one commit only if all of its bookkeeping says so.
fn in_local_dir(path: &Path) -> Option<Located> {
    let mut commits: Vec<String> = Vec::new();
    let mut dirs = vec![path.join(".cache/huggingface/download")];
    let mut seen = 0;
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).ok()?.flatten() {
            let at = entry.path();
            seen += 1;
            if seen > 10_000 {
                return None;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(at);
            } else if at.extension().is_some_and(|end| end == "metadata") {
                let mut first = [0; 40];
                File::open(&at).ok()?.read_exact(&mut first).ok()?;
                commits.push(String::from_utf8_lossy(&first).into_owned());
            }
        }
    }
    commits.sort();
    commits.dedup();
    match &commits[..] {
        [commit] if is_commit(commit) => {
            Some(Located { repo: None, kind: None, commit: commit.clone(), inside: String::new() })
        }
        _ => None,
    }
}

/// Returns the file that a link in a snapshot stands for: one in the same repository's `blobs`, and no other.
///
/// `root` is the real path of what is observed, `link` a link below it. Anywhere else a link is a link.
pub(super) fn blob_behind(root: &Path, link: &Path, target: &Path) -> Option<PathBuf> {
    in_cache(root)?;
    let mut repo = root;
    while repo.file_name()? != "snapshots" {
        repo = repo.parent()?;
    }
    let blobs = repo.parent()?.join("blobs");
    let real = fs::canonicalize(link.parent()?.join(target)).ok()?;
    let is_blob = real.parent()? == blobs && fs::symlink_metadata(&real).ok()?.is_file();
    is_blob.then_some(real)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    const COMMIT: &str = "5f3c1e0d9b7a48266c1d2e3f4051627384950a1b";

    #[test]
    fn a_path_in_the_cache_names_repository_and_commit() {
        for (path, kind, repo, inside) in [
            (format!("/c/hub/models--acme--tiny-llama/snapshots/{COMMIT}"), "model", "acme/tiny-llama", ""),
            (
                format!("/c/hub/datasets--acme--verbs/snapshots/{COMMIT}/data"),
                "dataset",
                "acme/verbs",
                "data",
            ),
            (format!("/c/hub/models--gpt2/snapshots/{COMMIT}/a/b.json"), "model", "gpt2", "a/b.json"),
        ] {
            let found = locate(Path::new(&path)).unwrap();
            assert_eq!((found.kind, found.repo.as_deref()), (Some(kind), Some(repo)), "{path}");
            assert_eq!((found.commit.as_str(), found.inside.as_str()), (COMMIT, inside), "{path}");
        }
        let found = locate(Path::new(&format!("/c/models--a--b/snapshots/{COMMIT}"))).unwrap();
        assert_eq!(found.short(), "a/b@5f3c1e0");
    }

    #[test]
    fn other_paths_are_in_no_cache() {
        for path in [
            "/c/models--acme--x/snapshots/main",
            "/c/models--acme--x/blobs/00",
            &format!("/c/acme/snapshots/{COMMIT}"),
            &format!("/c/other--acme--x/snapshots/{COMMIT}"),
            &format!("/snapshots/{COMMIT}"),
            "/nowhere",
        ] {
            assert_eq!(locate(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_directory_of_two_commits_is_of_none() {
        let dir = tempfile::tempdir().unwrap();
        let books = dir.path().join(".cache/huggingface/download");
        fs::create_dir_all(books.join("data")).unwrap();
        fs::write(books.join("a.metadata"), format!("{COMMIT}\netag\n1.0\n")).unwrap();
        fs::write(books.join("data/b.metadata"), format!("{COMMIT}\netag\n1.0\n")).unwrap();
        fs::write(books.join("a.lock"), "").unwrap();
        let found = locate(dir.path()).unwrap();
        assert_eq!((found.commit.as_str(), found.repo), (COMMIT, None));
        fs::write(books.join("data/b.metadata"), format!("{}\netag\n", COMMIT.replace('5', "6"))).unwrap();
        assert_eq!(locate(dir.path()), None);
    }

    #[test]
    fn only_links_into_the_repository_s_own_blobs_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let repo = top.join("models--acme--x");
        let snapshot = repo.join("snapshots").join(COMMIT);
        fs::create_dir_all(snapshot.join("data")).unwrap();
        fs::create_dir_all(repo.join("blobs")).unwrap();
        fs::write(repo.join("blobs/00ff"), "x").unwrap();
        fs::write(top.join("secret"), "x").unwrap();
        let behind =
            |name: &str, target: &str| blob_behind(&snapshot, &snapshot.join(name), Path::new(target));
        assert_eq!(behind("a", "../../blobs/00ff"), Some(repo.join("blobs/00ff")));
        assert_eq!(behind("data/a", "../../../blobs/00ff"), Some(repo.join("blobs/00ff")));
        for target in ["../../../secret", "../../blobs/nowhere", "../../blobs", "a"] {
            assert_eq!(behind("a", target), None, "{target}");
        }
        assert_eq!(blob_behind(&top, &top.join("a"), &repo.join("blobs/00ff")), None);
    }
}
