//! Command lines without the machine they were typed on: absolute paths become relative or disappear.
//!
//! Two people who run the same command in their own clones get the same words. The words as typed are kept
//! elsewhere, and secrets are struck elsewhere.

use std::path::{Component, Path, PathBuf};

/// What stands where a path outside the project was.
const OUTSIDE: &str = "<path>";

/// Rewrites the absolute paths of a command line: those under `root` become relative to it, all others
/// `<path>`; so do relative ones that leave the project when taken from `cwd`.
pub fn relative_argv(argv: &[String], root: &Path, cwd: &Path) -> Vec<String> {
    let (root, cwd) = (normal(root), normal(cwd));
    argv.iter().map(|word| rewrite_word(word, &root, &cwd)).collect()
}

fn rewrite_word(word: &str, root: &Path, cwd: &Path) -> String {
    // A word that is a path as a whole, or behind `--flag=`, may hold spaces; it is not taken apart.
    let (lead, rest) = match word.split_once('=') {
        Some((name, value)) if is_path(value) && !is_path(name) => (&word[..=name.len()], value),
        _ => ("", word),
    };
    if !is_path(rest) || rest.contains([',', ':', ';']) {
        return rewrite_parts(word, root, cwd);
    }
    format!("{lead}{}", rewrite_path(rest, root, cwd))
}

/// Rewrites the paths inside a word, such as those of a list or a script.
fn rewrite_parts(word: &str, root: &Path, cwd: &Path) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(is_mark).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        // `//host/x` behind `https:` is an address; `///x` behind `file:` is a path.
        let address = out.ends_with(':') && part.starts_with("//") && !out.ends_with("file:");
        // `-I/usr/include`
        let glued =
            part.len() > 3 && part.starts_with('-') && part.is_char_boundary(2) && is_path(&part[2..]);
        if glued {
            out.push_str(&part[..2]);
            out.push_str(&rewrite_path(&part[2..], root, cwd));
        } else if is_path(part) && !address {
            if out.ends_with("file:") {
                out.push_str("//");
            }
            out.push_str(&rewrite_path(part, root, cwd));
        } else {
            out.push_str(part);
        }
        let end = after.find(|c| !is_mark(c)).unwrap_or(after.len());
        out.push_str(&after[..end]);
        rest = &after[end..];
    }
    out
}

fn is_mark(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\''
                | '`'
                | '='
                | ','
                | ':'
                | ';'
                | '&'
                | '|'
                | '('
                | ')'
                | '{'
                | '}'
                | '['
                | ']'
                | '<'
                | '>'
                | '@'
                | '#'
                | '?'
        )
}

/// Tells whether a word is a path that says something about the machine.
fn is_path(word: &str) -> bool {
    word.starts_with('/') || word == "~" || word.starts_with("~/") || climbs(word)
}

/// Tells whether a relative path goes up anywhere.
fn climbs(word: &str) -> bool {
    word.split('/').any(|part| part == "..")
}

fn rewrite_path(path: &str, root: &Path, cwd: &Path) -> String {
    if path.starts_with('~') {
        return OUTSIDE.to_owned();
    }
    let whole = normal(&cwd.join(path));
    match whole.strip_prefix(root) {
        // Relative to where it was typed is what the words around it are, too.
        Ok(_) if !path.starts_with('/') => path.to_owned(),
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.to_string_lossy().into_owned(),
        Err(_) => OUTSIDE.to_owned(),
    }
}

/// Resolves `.` and `..` in the text of a path; the disk is not asked.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(word: &str) -> String {
        let words =
            relative_argv(&[word.to_owned()], Path::new("/data/project"), Path::new("/data/project/sub"));
        words.into_iter().next().unwrap()
    }

    #[test]
    fn paths_of_the_project_become_relative() {
        for (word, expected) in [
            ("/data/project/train.py", "train.py"),
            ("/data/project", "."),
            ("/data/project/", "."),
            ("/data/project/a/../b", "b"),
            ("--config=/data/project/conf/a.yaml", "--config=conf/a.yaml"),
            ("data.root=/data/project/my data/x", "data.root=my data/x"),
            ("/data/project/a b.py", "a b.py"),
            ("[/data/project/a,/data/project/b]", "[a,b]"),
            ("-I/data/project/include", "-Iinclude"),
            ("cd '/data/project/sub' && python x.py", "cd 'sub' && python x.py"),
        ] {
            assert_eq!(rewritten(word), expected);
        }
    }

    #[test]
    fn no_other_path_of_the_machine_is_left() {
        for (word, expected) in [
            ("/usr/bin/python3", "<path>"),
            ("/data/project2/x", "<path>"),
            ("/data/project/../other/x", "<path>"),
            ("/data", "<path>"),
            ("/home/some body/x y", "<path>"),
            ("--out=/home/somebody/x", "--out=<path>"),
            ("--mount=/data/project/a:/home/somebody", "--mount=a:<path>"),
            ("a=/data/project/x,b=/home/somebody", "a=x,b=<path>"),
            ("-L/home/somebody/lib", "-L<path>"),
            ("~/data", "<path>"),
            ("--cache=~/data", "--cache=<path>"),
            ("../../home/somebody", "<path>"),
            ("--x=../../../home/somebody", "--x=<path>"),
            ("file:///home/somebody/x", "file://<path>"),
            ("sh -c 'cd /home/somebody; ls'", "sh -c 'cd <path>; ls'"),
            ("{root: /home/somebody, n: 1}", "{root: <path>, n: 1}"),
            ("host:/home/somebody/x", "host:<path>"),
            ("//home/somebody", "<path>"),
        ] {
            let found = rewritten(word);
            assert_eq!(found, expected);
            assert!(!found.contains("somebody"));
        }
    }

    #[test]
    fn words_that_are_no_absolute_paths_stay() {
        for word in [
            "train.py",
            "conf/a.yaml",
            "../conf/a.yaml",
            "optim.lr=1e-3",
            "https://host/a/b?c=/d",
            "org/model",
            "a/b=c/d",
            "--ratio=1/2",
            "",
            "-",
            "--",
            "s3://bucket/key",
            "1:30",
            "x=y=z",
            "...",
        ] {
            let expected = if word.contains("c=/d") { "https://host/a/b?c=<path>" } else { word };
            assert_eq!(rewritten(word), expected);
        }
    }
}
