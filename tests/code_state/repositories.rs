//! Repositories that are unusual, broken or none, and those that cannot be read without git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::capture::code::{
    AllowedSigners, CodeState, CommitCheck, Dirt, Error, Observed, Signature, observe, untracked, verify,
    verify_signature,
};
use ledger::id::object_id;

use crate::scene::*;

#[test]
fn detached_head_linked_worktree_and_shallow_clone() {
    hermetic("repositories::detached_head_linked_worktree_and_shallow_clone", |dir| {
        let repo = repository(&dir.join("r"), &[]);
        let first = git_line(&repo, &["rev-parse", "HEAD"]);
        fs::write(repo.join("run.sh"), "2\n").unwrap();
        commit(&repo);
        git(&repo, &["worktree", "add", "-q", "../linked"]);
        git(&repo, &["clone", "-q", "--depth=1", &format!("file://{}", repo.display()), "../shallow"]);
        git(&repo, &["checkout", "-q", "--detach", &first]);

        let detached = agrees(&repo);
        assert_eq!((detached.commit.as_str(), detached.branch), (first.as_str(), None));

        let linked = dir.join("linked");
        assert_eq!(agrees(&linked).branch.as_deref(), Some("linked"));
        fs::write(linked.join("run.sh"), "3\n").unwrap();
        let dirty = agrees(&linked);
        assert_eq!(changes(&dirty), [('M', "run.sh".to_owned())]);

        let shallow = dir.join("shallow");
        let state = agrees(&shallow);
        assert_eq!(state.dirt, Dirt::Clean);
        assert_eq!(verify(&shallow, &state.commit, &state.tree).unwrap(), CommitCheck::Match);
        let missing = verify(&shallow, &first, &state.tree).unwrap();
        assert_eq!(missing, CommitCheck::Missing { shallow: true });
    });
}

#[test]
fn sparse_checkouts_and_sparse_index() {
    hermetic("repositories::sparse_checkouts_and_sparse_index", |dir| {
        for option in ["--no-sparse-index", "--sparse-index"] {
            let repo = repository(&dir.join(option), &[]);
            git(&repo, &["sparse-checkout", "set", "--cone", option, "src"]);
            assert!(!repo.join("conf").exists());
            assert_eq!(agrees(&repo).dirt, Dirt::Clean);
            fs::write(repo.join("src/eval.py"), "2\n").unwrap();
            let state = agrees(&repo);
            assert_eq!(changes(&state), [('M', "src/eval.py".to_owned())]);
            diff_makes_the_same_tree(&repo, &state);
        }
    });
}

/// A clean filter as Git LFS has it: the commit holds a pointer, the work tree the content.
#[test]
fn clean_filters() {
    hermetic("repositories::clean_filters", |dir| {
        let repo = repository(&dir.join("r"), &[]);
        git(&repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
        git(&repo, &["config", "filter.upper.smudge", "tr A-Z a-z"]);
        fs::write(repo.join(".gitattributes"), "*.w filter=upper\n").unwrap();
        fs::write(repo.join("model.w"), "weights\n").unwrap();
        commit(&repo);
        assert_eq!(git(&repo, &["show", "HEAD:model.w"]), b"WEIGHTS\n");
        assert_eq!(agrees(&repo).dirt, Dirt::Clean);
        fs::remove_file(repo.join("model.w")).unwrap();
        fs::write(repo.join("model.w"), "weights\n").unwrap();
        fs::File::options()
            .append(true)
            .open(repo.join("model.w"))
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        assert_eq!(agrees(&repo).dirt, Dirt::Clean);
        fs::write(repo.join("model.w"), "other\n").unwrap();
        assert_eq!(changes(&agrees(&repo)), [('M', "model.w".to_owned())]);

        // What is stored is what git would commit, not what lies in the work tree.
        let Dirt::Dirty { diff, .. } = agrees(&repo).dirt else { panic!("not dirty") };
        assert!(String::from_utf8_lossy(&diff).ends_with("-WEIGHTS\n+OTHER\n"));

        // Text that git re-codes.
        fs::write(repo.join(".gitattributes"), "*.w filter=upper\n*.u working-tree-encoding=UTF-16LE\n")
            .unwrap();
        fs::write(repo.join("text.u"), b"a\0\n\0").unwrap();
        commit(&repo);
        assert_eq!(git(&repo, &["show", "HEAD:text.u"]), b"a\n");
        fs::remove_file(repo.join("text.u")).unwrap();
        fs::write(repo.join("text.u"), b"a\0\n\0").unwrap();
        assert_eq!(agrees(&repo).dirt, Dirt::Clean);
        fs::write(repo.join("model.w"), "other\n").unwrap();

        // A filter that does not run says nothing about the file.
        git(&repo, &["config", "filter.upper.clean", "no-such-filter"]);
        fs::write(repo.join("model.w"), "weights\n").unwrap();
        let state = state(&repo);
        assert!(unknown(&state.dirt).contains("filter"), "{:?}", state.dirt);
    });
}

/// Marked files are hidden from `git status`, not from us.
#[test]
fn files_hidden_by_a_mark() {
    hermetic("repositories::files_hidden_by_a_mark", |dir| {
        for (kind, init, then) in KINDS {
            for option in ["--assume-unchanged", "--skip-worktree"] {
                let repo = repository(&dir.join(format!("{kind}{option}")), init);
                if !then.is_empty() {
                    git(&repo, then);
                }
                git(&repo, &["update-index", option, "src/train.py"]);
                assert_eq!(state(&repo).dirt, Dirt::Clean, "{kind} {option}");
                fs::write(repo.join("src/train.py"), "hidden\n").unwrap();
                assert_eq!(git(&repo, &["status", "--porcelain"]), b"", "git was told not to look");
                let state = state(&repo);
                assert!(unknown(&state.dirt).contains("`src/train.py` is marked"), "{:?}", state.dirt);
            }
        }
    });
}

fn with_submodule(dir: &Path, init: &[&str]) -> PathBuf {
    let inner = repository(&dir.join("inner"), init);
    let repo = repository(&dir.join("outer"), init);
    git(&repo, &["submodule", "--quiet", "add", inner.to_str().unwrap(), "lib/sub"]);
    commit(&repo);
    repo
}

#[test]
fn submodules() {
    hermetic("repositories::submodules", |dir| {
        for (kind, init, then) in KINDS {
            let repo = with_submodule(&dir.join(kind), init);
            if !then.is_empty() {
                git(&repo, then);
            }
            // A setting that hides submodules from git does not hide them from us.
            git(&repo, &["config", "submodule.lib/sub.ignore", "all"]);
            let sub = repo.join("lib/sub");
            let pinned = git_line(&sub, &["rev-parse", "HEAD"]);
            let at = |state: &CodeState| {
                let [sub] = &state.submodules[..] else { panic!("{kind}: {state:?}") };
                assert_eq!(sub.path, b"lib/sub");
                (sub.commit.clone(), sub.dirty)
            };
            let clean = agrees(&repo);
            assert_eq!(clean.dirt, Dirt::Clean, "{kind}");
            assert_eq!(at(&clean), (pinned.clone(), false));

            // Untracked content is listed and is no dirt.
            fs::write(sub.join("notes.txt"), "x").unwrap();
            assert_eq!(state(&repo).dirt, Dirt::Clean, "{kind}");
            let (files, omitted) = untracked(&repo, &[]).unwrap();
            assert_eq!(files.iter().map(|file| &file.path[..]).collect::<Vec<_>>(), [b"lib/sub/notes.txt"]);
            assert_eq!((files[0].digest, omitted), (Some(object_id(b"x")), 0));

            // Modified content, and a change of the outer repository with it.
            fs::write(sub.join("run.sh"), "2\n").unwrap();
            fs::write(sub.join("data.bin"), b"\x002").unwrap();
            fs::write(repo.join("run.sh"), "3\n").unwrap();
            let dirty = state(&repo);
            let expected =
                ["lib/sub/data.bin", "lib/sub/run.sh", "run.sh"].map(|path| ('M', path.to_owned()));
            assert_eq!(changes(&dirty), expected, "{kind}");
            assert_eq!(at(&dirty), (pinned.clone(), true));

            // Another commit: the patch names it, and goes on from there inside the submodule.
            git(&sub, &["checkout", "-q", "-f", "HEAD"]);
            fs::write(sub.join("run.sh"), "4\n").unwrap();
            git(&sub, &["commit", "-q", "-a", "-m", "next"]);
            let next = git_line(&sub, &["rev-parse", "HEAD"]);
            fs::write(sub.join("run.sh"), "5\n").unwrap();
            let moved = state(&repo);
            let expected = ["lib/sub", "lib/sub/run.sh", "run.sh"].map(|path| ('M', path.to_owned()));
            assert_eq!(changes(&moved), expected, "{kind}");
            assert_eq!(at(&moved), (next.clone(), true));
            let Dirt::Dirty { diff, .. } = &moved.dirt else { panic!("{kind}") };
            let text = String::from_utf8_lossy(diff).into_owned();
            assert!(
                text.contains(&format!("-Subproject commit {pinned}\n+Subproject commit {next}\n")),
                "{text}"
            );

            // The whole patch applies to a clean checkout with the submodule at the commit listed.
            let clone = dir.join(kind).join("clone");
            git(dir, &[OsStr::new("clone"), OsStr::new("-q"), repo.as_os_str(), clone.as_os_str()]);
            git(&clone, &["submodule", "--quiet", "update", "--init"]);
            git(
                &clone.join("lib/sub"),
                &[OsStr::new("fetch"), OsStr::new("-q"), sub.as_os_str(), OsStr::new("HEAD")],
            );
            git(&clone.join("lib/sub"), &["checkout", "-q", &next]);
            let patch = dir.join(kind).join("patch");
            fs::write(&patch, diff).unwrap();
            git(&clone, &[OsStr::new("apply"), patch.as_os_str()]);
            assert_eq!(fs::read(clone.join("run.sh")).unwrap(), b"3\n");
            assert_eq!(fs::read(clone.join("lib/sub/run.sh")).unwrap(), b"5\n");

            // Not checked out is as git sees it: no change.
            git(&sub, &["checkout", "-q", "-f", &pinned]);
            git(&repo, &["checkout", "-q", "run.sh"]);
            git(&repo, &["submodule", "--quiet", "deinit", "-f", "lib/sub"]);
            let absent = agrees(&repo);
            assert_eq!(at(&absent), (pinned, false));

            git(&repo, &["rm", "-q", "lib/sub"]);
            let gone = state(&repo);
            assert!(changes(&gone).contains(&('D', "lib/sub".to_owned())), "{kind}: {gone:?}");
            assert_eq!(gone.submodules, []);
            diff_makes_the_same_tree(&repo, &gone);
        }
    });
}

/// Every file and link below a directory with its bytes and the time of its last change.
fn all_below(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, (i64, i64))> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, meta) = (entry.path(), entry.metadata().unwrap());
        if meta.is_dir() {
            found.extend(all_below(&path));
        } else {
            let bytes = if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            // Git sets the time of a shared index whenever it reads one, so that it is not taken for litter.
            let is_shared_index = entry.file_name().to_string_lossy().starts_with("sharedindex.");
            let time = if is_shared_index { (0, 0) } else { (meta.mtime(), meta.mtime_nsec()) };
            found.insert(path, (bytes, time));
        }
    }
    found
}

#[test]
fn submodules_of_submodules_are_seen_and_nothing_is_touched() {
    hermetic("repositories::submodules_of_submodules_are_seen_and_nothing_is_touched", |dir| {
        for (kind, init, then) in KINDS {
            let middle = with_submodule(&dir.join(kind), init);
            let repo = repository(&dir.join(kind).join("top"), init);
            git(&repo, &["submodule", "--quiet", "add", middle.to_str().unwrap(), "third party"]);
            git(&repo, &["submodule", "--quiet", "update", "--init", "--recursive"]);
            commit(&repo);
            if !then.is_empty() {
                git(&repo, then);
            }
            let (outer, inner) = (repo.join("third party"), repo.join("third party/lib/sub"));
            let commits = [&outer, &inner].map(|dir| git_line(dir, &["rev-parse", "HEAD"]));
            let at = |state: &CodeState| {
                let found = state.submodules.iter();
                found.map(|sub| (lossy(&sub.path), sub.commit.clone(), sub.dirty)).collect::<Vec<_>>()
            };
            let expected = |commits: &[String; 2], dirty: [bool; 2]| {
                let paths = ["third party", "third party/lib/sub"].into_iter();
                let rows = paths.zip(commits).zip(dirty);
                rows.map(|((path, commit), dirty)| (path.to_owned(), commit.clone(), dirty))
                    .collect::<Vec<_>>()
            };
            // Which state is looked at, and whether anything is written by looking.
            let looked = || {
                let before = all_below(&repo);
                let state = state(&repo);
                let (files, omitted) = untracked(&repo, &[]).unwrap();
                assert_eq!(omitted, 0);
                assert!(all_below(&repo) == before, "{kind}: something was written by looking");
                (state, files.iter().map(|file| lossy(&file.path)).collect::<Vec<_>>())
            };
            let (clean, files) = looked();
            assert_eq!((clean.dirt.clone(), files), (Dirt::Clean, vec![]), "{kind}");
            assert_eq!(at(&clean), expected(&commits, [false; 2]), "{kind}");

            fs::write(inner.join("run.sh"), "2\n").unwrap();
            fs::write(inner.join("notes.txt"), "x").unwrap();
            let (dirty, files) = looked();
            assert_eq!(changes(&dirty), [('M', "third party/lib/sub/run.sh".to_owned())], "{kind}");
            assert_eq!(at(&dirty), expected(&commits, [true; 2]), "{kind}: what holds dirt is dirty");
            assert_eq!(files, ["third party/lib/sub/notes.txt"], "{kind}");

            // The innermost one at another commit, and clean there.
            git(&inner, &["commit", "-q", "-a", "-m", "next"]);
            let next = [commits[0].clone(), git_line(&inner, &["rev-parse", "HEAD"])];
            let (moved, _) = looked();
            assert_eq!(changes(&moved), [('M', "third party/lib/sub".to_owned())], "{kind}");
            assert_eq!(at(&moved), expected(&next, [true; 2]), "{kind}");
        }
    });
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[test]
fn there_is_no_commit() {
    hermetic("repositories::there_is_no_commit", |dir| {
        #[track_caller]
        fn none(root: &Path) -> String {
            match observe(root) {
                Observed::None { reason } => reason,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(none(dir), "not a git repository");
        assert!(matches!(untracked(dir, &[]), Err(Error::NoRepository { .. })));
        for (kind, init, _) in KINDS {
            let (unborn, bare) = (dir.join(kind).join("unborn"), dir.join(kind).join("bare"));
            fs::create_dir_all(&unborn).unwrap();
            fs::create_dir_all(&bare).unwrap();
            git(&unborn, &[&["init", "-q"], init].concat());
            git(&bare, &[&["init", "-q", "--bare"], init].concat());
            fs::write(unborn.join("a.py"), "x").unwrap();
            git(&unborn, &["add", "a.py"]);
            assert_eq!(none(&unborn), "the git repository has no commit yet", "{kind}");
            assert_eq!(none(&bare), "the git repository has no work tree", "{kind}");
        }
        // Something called `.git` that is none is not "no repository".
        for (name, text) in [("broken", ""), ("dangling", "gitdir: /nonexistent\n")] {
            fs::create_dir(dir.join(name)).unwrap();
            fs::write(dir.join(name).join(".git"), text).unwrap();
            assert!(matches!(observe(&dir.join(name)), Observed::Unknown { .. }), "{name}");
        }
        fs::create_dir_all(dir.join("empty/.git")).unwrap();
        assert!(matches!(observe(&dir.join("empty")), Observed::Unknown { .. }));
        assert!(matches!(observe(&dir.join("nowhere")), Observed::Unknown { .. }));
    });
}

#[test]
fn broken_repositories_are_unknown() {
    hermetic("repositories::broken_repositories_are_unknown", |dir| {
        let index = repository(&dir.join("index"), &[]);
        fs::write(index.join(".git/index"), "DIRC").unwrap();
        assert!(!unknown(&state(&index).dirt).is_empty());

        let tree = repository(&dir.join("tree"), &[]);
        let id = git_line(&tree, &["rev-parse", "HEAD^{tree}"]);
        fs::remove_file(tree.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))).unwrap();
        assert!(!unknown(&state(&tree).dirt).is_empty());

        let commit = repository(&dir.join("commit"), &[]);
        let id = git_line(&commit, &["rev-parse", "HEAD"]);
        fs::remove_file(commit.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))).unwrap();
        assert!(matches!(observe(&commit), Observed::Unknown { .. }), "{:?}", observe(&commit));

        let newer = repository(&dir.join("newer"), &[]);
        git(&newer, &["config", "core.repositoryFormatVersion", "1"]);
        git(&newer, &["config", "extensions.fromTheFuture", "true"]);
        assert!(matches!(observe(&newer), Observed::Unknown { .. }));
    });
}

#[test]
fn remotes_without_their_secrets() {
    hermetic("repositories::remotes_without_their_secrets", |dir| {
        for (kind, init, then) in KINDS {
            let repo = repository(&dir.join(kind), init);
            if !then.is_empty() {
                git(&repo, then);
            }
            assert_eq!(state(&repo).remote, None);
            git(&repo, &["remote", "add", "origin", "https://kim:s3cret@example.org/team/r.git?key=s3cret"]);
            git(&repo, &["config", "url.https://s3cret@example.net/.insteadOf", "https://example.org/"]);
            let origin = state(&repo);
            assert_eq!(origin.remote.as_deref(), Some("https://example.org/team/r.git"), "{kind}");
            git(&repo, &["remote", "add", "fork", "git@example.org:fork/r.git"]);
            git(&repo, &["config", "branch.main.remote", "fork"]);
            let fork = state(&repo);
            assert_eq!(fork.remote.as_deref(), Some("example.org:fork/r.git"), "{kind}");
            for state in [origin, fork] {
                assert!(!format!("{state:?}").contains("s3cret"), "{kind}");
            }
        }
    });
}

#[test]
fn untracked_files_are_capped() {
    hermetic("repositories::untracked_files_are_capped", |dir| {
        for (kind, init, then) in KINDS {
            let repo = repository(&dir.join(kind), init);
            if !then.is_empty() {
                git(&repo, then);
            }
            fs::create_dir_all(repo.join("deep/er")).unwrap();
            fs::create_dir_all(repo.join("out")).unwrap();
            fs::create_dir_all(repo.join("left/out")).unwrap();
            fs::write(repo.join("deep/er/tool.sh"), "x").unwrap();
            fs::set_permissions(repo.join("deep/er/tool.sh"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(repo.join("out/ignored"), "x").unwrap();
            fs::write(repo.join("left/out/a"), "x").unwrap();
            fs::File::create(repo.join("large")).unwrap().set_len((16 << 20) + 1).unwrap();
            fs::File::create(repo.join("largest-read")).unwrap().set_len(16 << 20).unwrap();
            symlink("nowhere", repo.join("pointer")).unwrap();
            repository(&repo.join("other"), &[]);
            let (files, omitted) = untracked(&repo.join("src"), &[PathBuf::from("../left/out")]).unwrap();
            let found: Vec<_> = files
                .iter()
                .map(|file| {
                    (std::str::from_utf8(&file.path).unwrap(), file.size, file.digest.is_some(), file.exec)
                })
                .collect();
            let expected = [
                ("deep/er/tool.sh", 1, true, true),
                ("large", (16 << 20) + 1, false, false),
                ("largest-read", 16 << 20, true, false),
                ("other/", 0, false, false),
                ("pointer", 7, true, false),
            ];
            assert_eq!((found.as_slice(), omitted), (&expected[..], 0), "{kind}");
            assert_eq!(files[0].digest, Some(object_id(b"x")));
            assert_eq!(files[4].digest, Some(object_id(b"nowhere")));
        }
        let many = repository(&dir.join("many"), &[]);
        for number in 0..10_003 {
            fs::write(many.join(format!("n{number:05}")), "x").unwrap();
        }
        let (files, omitted) = untracked(&many, &[]).unwrap();
        assert_eq!((files.len(), omitted), (10_000, 3));
        assert_eq!(files.iter().filter(|file| file.digest.is_some()).count(), 1_000);
        assert!(files[999].digest.is_some() && files[1_000].digest.is_none());
        assert_eq!(files[9_999].size, 1);
    });
}

#[test]
fn a_commit_is_verified_by_its_bytes() {
    hermetic("repositories::a_commit_is_verified_by_its_bytes", |dir| {
        for (kind, init, _) in KINDS {
            let repo = repository(&dir.join(kind), init);
            let CodeState { commit, tree, .. } = state(&repo);
            let missing = "1".repeat(commit.len());
            assert_eq!(verify(&repo, &commit, &tree).unwrap(), CommitCheck::Match, "{kind}");
            assert_eq!(verify(&repo.join("src"), &commit, &tree).unwrap(), CommitCheck::Match, "{kind}");
            let other = verify(&repo, &commit, &missing).unwrap();
            assert_eq!(other, CommitCheck::OtherTree { found: tree.clone() }, "{kind}");
            for absent in [&missing, &tree] {
                let found = verify(&repo, absent, &tree).unwrap();
                assert_eq!(found, CommitCheck::Missing { shallow: false }, "{kind}");
            }
            // A replacement changes what git shows, not what the id stands for.
            fs::write(repo.join("run.sh"), "2\n").unwrap();
            commit_tracked(&repo);
            git(&repo, &["replace", &commit, "HEAD"]);
            assert_ne!(git_line(&repo, &["rev-parse", &format!("{commit}^{{tree}}")]), tree);
            assert_eq!(verify(&repo, &commit, &tree).unwrap(), CommitCheck::Match, "{kind}");

            let bare = dir.join(kind).join("bare.git");
            git(
                &repo,
                &[
                    OsStr::new("clone"),
                    OsStr::new("-q"),
                    OsStr::new("--bare"),
                    OsStr::new("."),
                    bare.as_os_str(),
                ],
            );
            assert_eq!(verify(&bare, &commit, &tree).unwrap(), CommitCheck::Match, "{kind}");

            // Another commit's bytes under this commit's name.
            let next = git_line(&repo, &["rev-parse", "HEAD"]);
            let object = |id: &str| repo.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
            fs::remove_file(object(&commit)).unwrap();
            fs::copy(object(&next), object(&commit)).unwrap();
            assert_eq!(verify(&repo, &commit, &tree).unwrap(), CommitCheck::Damaged, "{kind}");
        }
        assert!(matches!(verify(dir, &"1".repeat(40), &"1".repeat(40)), Err(Error::NoRepository { .. })));
    });
}

/// Commits without adding what lies about.
fn commit_tracked(repo: &Path) {
    git(repo, &["commit", "-q", "-a", "-m", "next"]);
}

/// Lays a repository of each kind, and those that libgit2 misreads.
fn lay_all(dir: &Path) {
    for (kind, init, then) in KINDS {
        let repo = repository(&dir.join(kind), init);
        if !then.is_empty() {
            git(&repo, then);
        }
    }
    let sparse = repository(&dir.join("sparse"), &[]);
    git(&sparse, &["sparse-checkout", "set", "--cone", "src"]);
    let filtered = repository(&dir.join("filtered"), &[]);
    git(&filtered, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    fs::write(filtered.join(".gitattributes"), "*.py filter=upper\n").unwrap();
    git(&filtered, &["add", "--renormalize", "."]);
    commit(&filtered);
    fs::remove_file(filtered.join("src/eval.py")).unwrap();
    fs::write(filtered.join("src/eval.py"), FILES[1].1).unwrap();
    let partial = repository(&dir.join("partial"), &[]);
    git(&partial, &["config", "remote.origin.promisor", "true"]);
    let marked = repository(&dir.join("marked"), &[]);
    git(&marked, &["update-index", "--assume-unchanged", "run.sh"]);
    let inner = with_submodule(&dir.join("with"), &[]);
    git(&inner.join("lib/sub"), &["update-index", "--split-index"]);
    fs::create_dir(dir.join("bin")).unwrap();
}

/// With libgit2 alone: an answer for the plain repository, and not one guess for the others.
#[track_caller]
fn nothing_is_guessed(dir: &Path) {
    let plain = state(&dir.join("plain"));
    assert_eq!(plain.dirt, Dirt::Clean);
    for name in ["split", "sparse", "filtered", "partial", "marked", "with/outer"] {
        let state = state(&dir.join(name));
        assert!(unknown(&state.dirt).contains("`git` program"), "{name}: {:?}", state.dirt);
        assert_eq!(state.commit.len(), 40);
    }
    assert_eq!(state(&dir.join("split")).commit, plain.commit);
    for name in ["sha256", "reftable"] {
        match observe(&dir.join(name)) {
            Observed::Unknown { reason } => assert!(reason.contains("`git` program"), "{reason}"),
            other => panic!("{name}: {other:?}"),
        }
        let found = untracked(&dir.join(name), &[]);
        assert!(matches!(found, Err(Error::Unreadable { .. })), "{name}: {found:?}");
        let found = verify(&dir.join(name), &plain.commit, &plain.tree);
        assert!(matches!(found, Err(Error::Unreadable { .. })), "{name}: {found:?}");
    }
}

#[test]
fn without_git_nothing_is_guessed() {
    let test = "repositories::without_git_nothing_is_guessed";
    hermetic_on_path(test, OsStr::new("/nonexistent"), lay_all, nothing_is_guessed);
}

#[test]
fn a_git_that_fails_is_not_believed() {
    a_false_git(
        "repositories::a_git_that_fails_is_not_believed",
        "#!/bin/sh\necho 'fatal: no' >&2\nexit 128\n",
    );
}

#[test]
fn a_git_that_says_nothing_is_not_believed() {
    a_false_git("repositories::a_git_that_says_nothing_is_not_believed", "#!/bin/sh\nexit 0\n");
}

fn a_false_git(test: &str, script: &str) {
    let bin = tempfile::tempdir().unwrap();
    let git = bin.path().join("git");
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    hermetic_on_path(test, bin.path().as_os_str(), lay_all, |dir| {
        let plain = state(&dir.join("plain"));
        assert_eq!(plain.dirt, Dirt::Clean);
        for name in ["split", "sparse", "filtered", "partial", "marked", "with/outer"] {
            unknown(&state(&dir.join(name)).dirt);
        }
        for name in ["sha256", "reftable"] {
            assert!(matches!(observe(&dir.join(name)), Observed::Unknown { .. }), "{name}");
        }
    });
}

/// Judges `HEAD` with the allowed signers given, and asks git the same.
fn judged(repo: &Path, allowed: &str) -> Signature {
    let file = repo.join(".git/allowed");
    fs::write(&file, allowed).unwrap();
    let commit = git_line(repo, &["rev-parse", "HEAD"]);
    let signature =
        verify_signature(repo, &commit, &AllowedSigners::parse(allowed).unwrap()).unwrap().expect("is whole");
    let setting = format!("gpg.ssh.allowedSignersFile={}", file.display());
    let git = Command::new("git")
        .arg("-C")
        .arg(repo)
        .args(["-c", &setting, "verify-commit", &commit])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs(bare_environment(repo))
        .output()
        .unwrap();
    let is_good = matches!(signature, Signature::Good { .. });
    assert_eq!(is_good, git.status.success(), "{signature:?}, git: {}", String::from_utf8_lossy(&git.stderr));
    signature
}

#[test]
fn a_commits_signature_is_judged_as_git_judges_it() {
    hermetic("repositories::a_commits_signature_is_judged_as_git_judges_it", |dir| {
        let key = |name: &str, kind: &[&str]| {
            let path = dir.join(name);
            let made = Command::new("ssh-keygen")
                .args(kind)
                .args(["-q", "-N", "", "-C", "", "-f"])
                .arg(&path)
                .output();
            assert!(made.unwrap().status.success());
            let public = fs::read_to_string(path.with_extension("pub")).unwrap();
            (path.with_extension("pub").to_str().unwrap().to_owned(), public.trim().to_owned())
        };
        let (signing, kim) = key("kim", &["-t", "ed25519"]);
        let (rsa_signing, rsa) = key("rsa", &["-t", "rsa"]);
        let (_, other) = key("other", &["-t", "ed25519"]);
        let sign = |repo: &Path, with: &str| {
            let key = format!("user.signingkey={with}");
            git(
                repo,
                &["-c", "gpg.format=ssh", "-c", &key, "commit", "-q", "-S", "--amend", "-m", "a\n\ngpgsig b"],
            );
        };
        for (kind, init, _) in KINDS {
            let repo = repository(&dir.join(kind), init);
            let allowed = format!("# the lab\n\nkim@example.org namespaces=\"git\" {kim}\n");
            assert_eq!(judged(&repo, &allowed), Signature::Absent, "{kind}");
            sign(&repo, &signing);
            match judged(&repo, &allowed) {
                Signature::Good { principals, fingerprint } => {
                    assert_eq!(principals, "kim@example.org", "{kind}");
                    assert!(fingerprint.starts_with("SHA256:"), "{kind}");
                }
                wrong => panic!("{kind}: {wrong:?}"),
            }
            // The commits of this scene are of 2001-09-09; each line would admit the key but for one word.
            for line in [
                format!("kim@example.org {other}"),
                format!("kim@example.org namespaces=\"file\" {kim}"),
                format!("kim@example.org cert-authority {kim}"),
                format!("kim@example.org valid-after=\"20020101Z\" {kim}"),
                format!("kim@example.org valid-before=\"20000101Z\" {kim}"),
            ] {
                assert!(matches!(judged(&repo, &line), Signature::Unknown { .. }), "{kind}: {line}");
            }
            let between =
                format!("kim@example.org valid-after=\"20010101Z\",valid-before=\"20020101Z\" {kim}");
            assert!(matches!(judged(&repo, &between), Signature::Good { .. }), "{kind}");

            // The same signature under another message.
            let signed = git(&repo, &["cat-file", "commit", "HEAD"]);
            let forged = String::from_utf8(signed).unwrap().replace("gpgsig b", "gpgsig c");
            fs::write(repo.join(".git/forged"), forged).unwrap();
            let id = git_line(&repo, &["hash-object", "-t", "commit", "-w", ".git/forged"]);
            git(&repo, &["update-ref", "HEAD", &id]);
            assert!(matches!(judged(&repo, &allowed), Signature::Wrong { .. }), "{kind}");
        }
        // What is not checked here is not called good, even where git would.
        let repo = repository(&dir.join("rsa-signed"), &[]);
        sign(&repo, &rsa_signing);
        let commit = git_line(&repo, &["rev-parse", "HEAD"]);
        let allowed = AllowedSigners::parse(&format!("kim@example.org {rsa}")).unwrap();
        let signature = verify_signature(&repo, &commit, &allowed).unwrap();
        assert!(matches!(signature, Some(Signature::Unknown { .. })), "{signature:?}");
    });
}
