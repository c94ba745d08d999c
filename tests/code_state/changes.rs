//! Every change a work tree can have, on every kind of repository.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use ledger::capture::code::{Dirt, untracked};

use crate::scene::*;

/// Tries one change on every kind of repository.
fn each(dir: &Path, change: impl Fn(&Path), expected: &[(char, &str)]) {
    for (kind, init, then) in KINDS {
        let repo = repository(&dir.join(kind), init);
        if !then.is_empty() {
            git(&repo, then);
        }
        change(&repo);
        let state = agrees(&repo);
        let expected: Vec<_> = expected.iter().map(|(change, path)| (*change, (*path).to_owned())).collect();
        assert_eq!(changes(&state), expected, "{kind}");
        if !expected.is_empty() {
            diff_makes_the_same_tree(&repo, &state);
        }
    }
}

#[test]
fn clean_with_untracked_and_ignored_files() {
    hermetic("changes::clean_with_untracked_and_ignored_files", |dir| {
        let change = |repo: &Path| {
            fs::write(repo.join("notes.txt"), "x").unwrap();
            fs::write(repo.join("a.log"), "x").unwrap();
        };
        each(dir, change, &[]);
    });
}

#[test]
fn modified() {
    hermetic("changes::modified", |dir| {
        let change = |repo: &Path| {
            fs::write(repo.join("src/train.py"), "one\n2\nthree\nfour\nfive").unwrap();
            fs::write(repo.join("data.bin"), b"\x00\x01other\xff\x00").unwrap();
            fs::write(repo.join("conf/a b.yaml"), "lr: 2e-6").unwrap();
            fs::remove_file(repo.join("link")).unwrap();
            symlink("src/eval.py", repo.join("link")).unwrap();
        };
        let expected = [('M', "conf/a b.yaml"), ('M', "data.bin"), ('M', "link"), ('M', "src/train.py")];
        each(dir, change, &expected);
    });
}

#[test]
fn touched_but_equal_is_clean() {
    hermetic("changes::touched_but_equal_is_clean", |dir| {
        each(dir, |repo| fs::write(repo.join("src/train.py"), FILES[0].1).unwrap(), &[]);
    });
}

#[test]
fn staged() {
    hermetic("changes::staged", |dir| {
        let change = |repo: &Path| {
            fs::write(repo.join("src/new.py"), "new\n").unwrap();
            fs::write(repo.join("empty"), "").unwrap();
            fs::write(repo.join("new.bin"), b"\x00\xff\x00").unwrap();
            fs::write(repo.join("src/eval.py"), "staged\n").unwrap();
            fs::write(repo.join("run.sh"), "staged\n").unwrap();
            git(repo, &["add", "-A"]);
            // Staged and then put back as the commit has it; staged and then changed again.
            fs::write(repo.join("run.sh"), FILES[3].1).unwrap();
            fs::write(repo.join("src/eval.py"), "staged\nand changed\n").unwrap();
        };
        let expected =
            [('A', "empty"), ('A', "new.bin"), ('M', "run.sh"), ('M', "src/eval.py"), ('A', "src/new.py")];
        each(dir, change, &expected);
    });
}

#[test]
fn deleted() {
    hermetic("changes::deleted", |dir| {
        let change = |repo: &Path| {
            fs::remove_file(repo.join("src/eval.py")).unwrap();
            fs::remove_file(repo.join("data.bin")).unwrap();
            git(repo, &["rm", "-q", "run.sh"]);
            git(repo, &["rm", "-q", "--cached", "link"]);
        };
        each(dir, change, &[('D', "data.bin"), ('D', "link"), ('D', "run.sh"), ('D', "src/eval.py")]);
    });
}

#[test]
fn renamed() {
    hermetic("changes::renamed", |dir| {
        let change = |repo: &Path| {
            git(repo, &["mv", "data.bin", "moved.bin"]);
            git(repo, &["mv", "src/train.py", "src/trainer.py"]);
        };
        each(dir, change, &[('R', "moved.bin"), ('R', "src/trainer.py")]);
    });
}

#[test]
fn renamed_and_then_changed() {
    hermetic("changes::renamed_and_then_changed", |dir| {
        let change = |repo: &Path| {
            git(repo, &["mv", "src/train.py", "src/trainer.py"]);
            fs::write(repo.join("src/trainer.py"), "one\ntwo\n3\nfour\nfive\n").unwrap();
        };
        each(dir, change, &[('R', "src/trainer.py")]);
    });
}

#[test]
fn made_executable() {
    hermetic("changes::made_executable", |dir| {
        let change = |repo: &Path| {
            fs::set_permissions(repo.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        };
        each(dir, change, &[('M', "run.sh")]);
    });
}

#[test]
fn a_file_that_became_a_link() {
    hermetic("changes::a_file_that_became_a_link", |dir| {
        let change = |repo: &Path| {
            fs::remove_file(repo.join("run.sh")).unwrap();
            symlink("src/eval.py", repo.join("run.sh")).unwrap();
        };
        each(dir, change, &[('T', "run.sh")]);
    });
}

#[test]
fn names_that_are_not_text() {
    hermetic("changes::names_that_are_not_text", |dir| {
        for (kind, init, _) in KINDS {
            let repo = repository(&dir.join(kind), init);
            let odd = repo.join(OsStr::from_bytes(b"caf\xe9"));
            fs::write(&odd, "1\n").unwrap();
            fs::write(repo.join("new\nline"), "1\n").unwrap();
            fs::write(repo.join("quote\"tab\t"), b"\x001").unwrap();
            commit(&repo);
            fs::write(&odd, "2\n").unwrap();
            fs::write(repo.join("new\nline"), "2\n").unwrap();
            fs::write(repo.join("quote\"tab\t"), b"\x002").unwrap();
            let state = agrees(&repo);
            let Dirt::Dirty { files, .. } = &state.dirt else { panic!("{state:?}") };
            let paths: Vec<&[u8]> = files.iter().map(|file| &file.path[..]).collect();
            assert_eq!(paths, [&b"caf\xe9"[..], b"new\nline", b"quote\"tab\t"]);
            diff_makes_the_same_tree(&repo, &state);
        }
    });
}

#[test]
fn the_ledgers_folder_is_never_dirt() {
    hermetic("changes::the_ledgers_folder_is_never_dirt", |dir| {
        for (kind, init, then) in KINDS {
            let repo = repository(&dir.join(kind), init);
            fs::create_dir(repo.join(".ledger")).unwrap();
            fs::write(repo.join(".ledger/head"), "1\n").unwrap();
            commit(&repo);
            if !then.is_empty() {
                git(&repo, then);
            }
            fs::write(repo.join(".ledger/head"), "2\n").unwrap();
            fs::write(repo.join(".ledger/new"), "2\n").unwrap();
            assert_eq!(state(&repo).dirt, Dirt::Clean, "{kind}");
            assert_eq!(untracked(&repo, &[]).unwrap(), (Vec::new(), 0), "{kind}");

            fs::write(repo.join("run.sh"), "2\n").unwrap();
            let state = state(&repo);
            assert_eq!(changes(&state), [('M', "run.sh".to_owned())], "{kind}");
            let Dirt::Dirty { diff, .. } = state.dirt else { panic!("not dirty") };
            assert!(!String::from_utf8(diff).unwrap().contains(".ledger"), "{kind}");
        }
    });
}

/// The user's settings shape what `git diff` prints; a stored diff must apply all the same.
#[test]
fn settings_do_not_shape_the_diff() {
    hermetic("changes::settings_do_not_shape_the_diff", |dir| {
        let change = |repo: &Path| {
            for (key, value) in [
                ("diff.noprefix", "true"),
                ("diff.mnemonicPrefix", "true"),
                ("diff.external", "false"),
                ("diff.relative", "true"),
                ("diff.submodule", "log"),
                ("color.ui", "always"),
                ("core.quotePath", "false"),
                ("status.relativePaths", "false"),
                ("status.showUntrackedFiles", "all"),
            ] {
                git(repo, &["config", key, value]);
            }
            fs::write(repo.join("src/train.py"), "1\n").unwrap();
            fs::write(repo.join("data.bin"), b"\x00").unwrap();
        };
        each(dir, change, &[('M', "data.bin"), ('M', "src/train.py")]);
    });
}

#[test]
fn a_folder_inside_the_work_tree() {
    hermetic("changes::a_folder_inside_the_work_tree", |dir| {
        let repo = repository(&dir.join("r"), &[]);
        fs::write(repo.join("run.sh"), "2\n").unwrap();
        let inner = state(&repo.join("src"));
        assert_eq!(inner.project, b"src");
        assert_eq!(changes(&inner), [('M', "run.sh".to_owned())]);
        symlink(repo.join("src"), dir.join("alias")).unwrap();
        assert_eq!(state(&dir.join("alias")), inner);
        assert_eq!(state(&repo).project, b"");
    });
}

#[test]
fn intent_to_add_and_unfinished_merges() {
    hermetic("changes::intent_to_add_and_unfinished_merges", |dir| {
        let repo = repository(&dir.join("r"), &[]);
        fs::write(repo.join("later.py"), "1\n").unwrap();
        git(&repo, &["add", "-N", "later.py"]);
        let state = agrees(&repo);
        assert_eq!(changes(&state), [('A', "later.py".to_owned())]);
        diff_makes_the_same_tree(&repo, &state);

        let repo = repository(&dir.join("merge"), &[]);
        git(&repo, &["checkout", "-q", "-b", "other"]);
        fs::write(repo.join("run.sh"), "other\n").unwrap();
        commit(&repo);
        git(&repo, &["checkout", "-q", "main"]);
        fs::write(repo.join("run.sh"), "main\n").unwrap();
        commit(&repo);
        let merge = Command::new("git").arg("-C").arg(&repo).args(["merge", "-q", "other"]).output().unwrap();
        assert!(!merge.status.success());
        assert_eq!(changes(&agrees(&repo)), [('U', "run.sh".to_owned())]);
    });
}
