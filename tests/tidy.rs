//! What the code looks like, held by a test: layers, homes of outside crates, and the habits that no lint knows.
//!
//! Only text is read here. Code inside `#[cfg(test)]` may do what the rest may not: it imports upward, lays
//! files and unwraps.

#![expect(clippy::panic, reason = "a test stops where its ground gives way")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the ground up. A module imports from its own layer's folder and from smaller numbers only.
const LAYERS: &[(&str, u8)] = &[
    ("id", 1),
    ("codec", 2),
    ("durable", 3),
    ("model", 4),
    ("store", 5),
    ("log", 6),
    ("state", 7),
    ("index", 8),
    ("ledger", 9),
    ("capture", 10),
    ("acts", 11),
    ("contract", 11),
    ("lineage", 12),
    ("list", 12),
    ("verify", 13),
    ("fsck", 14),
    ("gate", 14),
    ("audit", 14),
    ("backup", 15),
    ("bundle", 15),
    ("export", 15),
    ("remote", 16),
    ("cli", 17),
];

/// Imports that the numbers would allow and the design does not, with the reason.
const APART: &[(&str, &[&str], &str)] = &[
    ("store", &["model"], "the store knows bytes, not records"),
    ("log", &["model", "store"], "the log knows statements, not what they claim or where objects lie"),
    ("state", &["store", "durable"], "the fold reads statements, never an object or a disk"),
    ("index", &["store", "log", "model"], "the index knows where to look, not what is there"),
    ("acts", &["index"], "what is stated rests on the state"),
    ("verify", &["index"], "verify believes no derived file"),
    ("fsck", &["index"], "fsck believes no derived file"),
    ("capture", &["ledger", "store", "log", "state"], "capture observes and returns values"),
];

/// The one home of each outside crate: a file, or a folder that ends in `/`.
const HOMES: &[(&str, &[&str])] = &[
    ("blake3", &["id.rs"]),
    ("sha2", &["id.rs"]),
    ("serde_cbor", &["codec.rs"]),
    ("ed25519_dalek", &["log/key.rs"]),
    ("base64", &["log/key.rs"]),
    ("pkcs8", &["log/sealed.rs"]),
    ("ssh_key", &["capture/code/signature.rs", "log/openssh.rs"]),
    ("git2", &["capture/code/library.rs"]),
    ("walkdir", &["capture/walk.rs"]),
    ("saphyr_parser", &["capture/config/"]),
    ("toml", &["capture/config/", "cli/settings.rs"]),
    ("zip", &["capture/results/archive.rs"]),
    ("ruzstd", &["capture/results/archive.rs"]),
    ("crc32fast", &["capture/results/archive.rs"]),
    ("csv", &["capture/results/table.rs"]),
    ("cel", &["contract/expr.rs"]),
    ("sled", &["index/mod.rs"]),
    ("clap", &["cli/"]),
    ("clap_complete", &["cli/completions.rs"]),
    ("clap_mangen", &["cli/man.rs"]),
    ("glob", &["cli/record.rs"]),
    ("signal_hook", &["cli/"]),
];

/// Outside crates that any file may use: encodings' traits, threads, error enums, JSON at edges, system facts.
const EVERYWHERE: &[&str] = &["rayon", "rustix", "serde", "serde_json", "thiserror"];

/// Calls that change a disk. Everything that is written goes through `durable`.
const WRITES: &[&str] = &[
    "fs::write(",
    "fs::rename(",
    "fs::remove_",
    "fs::create_dir",
    "fs::hard_link(",
    "fs::link(",
    "fs::copy(",
    "fs::set_permissions(",
    "fs::chmod",
    "fs::symlink(",
    "fs::unlink",
    "fs::mkdir",
    "File::create",
    "DirBuilder",
    ".create(true)",
    ".create_new(true)",
    ".write(true)",
    ".append(true)",
    ".truncate(true)",
    "OFlags::CREATE",
];

/// What no finished code says, in two halves so that this list does not find itself.
const UNFINISHED: &[(&str, &str)] = &[
    ("to", "do!("),
    ("unimpl", "emented!("),
    ("db", "g!("),
    ("#[ig", "nore"),
    ("#[should_", "panic"),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("TO", "DO"),
];

/// Paths of somebody's machine, in two halves as above.
const MACHINE_PATHS: &[(&str, &str)] = &[("/ro", "ot/"), ("/wo", "rk/"), ("../sha", "red")];

const MAX_LINES: usize = 1000;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A text file of the repository with its path from the top.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }

    fn in_src(&self) -> Option<&str> {
        self.path.strip_prefix("src/").filter(|_| self.has_extension(&["rs"]))
    }

    /// Returns the lines outside of tests and comments, with their numbers.
    fn code(&self) -> Vec<(usize, &str)> {
        if self.path.ends_with("/tests.rs") {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let mut all = self.text.lines().enumerate().peekable();
        while let Some((index, line)) = all.next() {
            if line.trim() == "#[cfg(test)]" {
                // A test module ends where a line closes it at the same depth.
                let indent = line.len() - line.trim_start().len();
                while all.peek().is_some_and(|(_, line)| line.trim_start().starts_with("#[")) {
                    all.next();
                }
                if all.next().is_some_and(|(_, line)| line.ends_with('{')) {
                    for (_, line) in all.by_ref() {
                        if line.starts_with(&format!("{}}}", " ".repeat(indent))) {
                            break;
                        }
                    }
                }
            } else if !line.trim_start().starts_with("//") {
                lines.push((index + 1, line));
            }
        }
        lines
    }
}

fn gather(dir: &Path, found: &mut Vec<Source>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with('.') || name == "target" || name == "fixtures" {
            continue;
        }
        if path.is_dir() {
            gather(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(repository()).unwrap_or(&path).to_string_lossy().into_owned();
            found.push(Source { path, text });
        }
    }
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    gather(repository(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 50, "the repository is read");
    found
}

/// Fails with all findings, not the first.
fn nothing(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, number)| *number)
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(text)
}

/// Returns the modules at the top of the crate that a line names after `crate::`, also in a group.
fn imported(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &line[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(first_word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    found.push(first_word(group[start..at].trim_start()));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.push(first_word(group[start..at].trim_start()));
                    start = at + 1;
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns the code with each `use crate::{` group on one line.
fn joined(code: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in code {
        match lines.last_mut().filter(|_| is_open) {
            Some((_, before)) => before.push_str(line.trim()),
            None => lines.push((*number, (*line).to_owned())),
        }
        is_open = lines.last().is_some_and(|(_, line)| {
            line.contains("use crate::{") && line.matches('{').count() > line.matches('}').count()
        });
    }
    lines
}

#[test]
fn imports_go_downward_only() {
    let mut findings = Vec::new();
    for source in sources() {
        let Some(path) = source.in_src() else { continue };
        if matches!(path, "lib.rs" | "main.rs") {
            continue;
        }
        let module = first_word(path);
        let Some(own) = layer(module) else {
            findings.push(format!("src/{path}: `{module}` has no layer; give it one in this test"));
            continue;
        };
        // `super` above a module's own folder would be the crate, unseen by the search for `crate::`.
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        for (number, line) in joined(&source.code()) {
            let at = format!("src/{path}:{number}");
            if line.contains(&"super::".repeat(depth)) {
                findings.push(format!("{at}: `super` reaches the top of the crate; say `crate::`"));
            }
            for other in imported(&line) {
                let allowed = other == module || layer(other).is_some_and(|other| other < own);
                if !allowed {
                    findings.push(format!("{at}: `{module}` imports `{other}`, which is not below it"));
                }
                for (_, apart, why) in APART.iter().filter(|(name, _, _)| *name == module) {
                    if apart.contains(&other) {
                        findings.push(format!("{at}: `{module}` imports `{other}`, but {why}"));
                    }
                }
            }
        }
    }
    nothing(&findings);
}

/// Whether a line names something of a crate, as `name::..` with nothing of a path before it.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = &line[..at];
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && (!before.ends_with("::") || before.trim() == "use ::")
    })
}

#[test]
fn each_outside_crate_has_one_home() {
    let mut findings = Vec::new();
    for source in sources() {
        let Some(path) = source.in_src() else { continue };
        for (number, line) in source.code() {
            for (name, homes) in HOMES {
                let at_home =
                    homes.iter().any(|home| path == *home || home.ends_with('/') && path.starts_with(home));
                if !at_home && names(line, name) {
                    findings.push(format!("src/{path}:{number}: `{name}` belongs to {homes:?} only"));
                }
            }
        }
    }
    nothing(&findings);
}

#[test]
fn each_dependency_is_placed() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap_or_default();
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let names = section.into_iter().flat_map(str::lines).filter_map(|line| line.split_once(" = "));
    let mut findings = Vec::new();
    let mut count = 0;
    for (name, _) in names {
        count += 1;
        let name = name.trim().replace('-', "_");
        if !EVERYWHERE.contains(&name.as_str()) && !HOMES.iter().any(|(home, _)| *home == name) {
            findings.push(format!("`{name}` has no home; give it one in this test"));
        }
    }
    assert!(count > 5, "the manifest's dependencies are read");
    nothing(&findings);
}

#[test]
fn only_durable_writes() {
    let mut findings = Vec::new();
    for source in sources() {
        let Some(path) = source.in_src().filter(|path| !path.starts_with("durable/")) else { continue };
        for (number, line) in source.code() {
            for call in WRITES.iter().filter(|call| line.contains(**call)) {
                findings.push(format!("src/{path}:{number}: `{call}` outside of durable"));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn only_the_command_line_prints_exits_and_looks_around() {
    const CALLS: &[&str] = &[
        "println!(",
        "print!(",
        "process::exit(",
        "env::var",
        "env::home",
        "env::current_dir",
        "env::args",
        "SystemTime::now",
    ];
    let mut findings = Vec::new();
    for source in sources() {
        let Some(path) = source.in_src().filter(|path| !path.starts_with("cli/")) else { continue };
        for (number, line) in source.code() {
            for call in CALLS.iter().filter(|call| line.contains(**call) && path != "main.rs") {
                findings.push(format!("src/{path}:{number}: `{call}` outside of cli"));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn code_is_finished_plain_and_says_what_it_is() {
    let mut findings = Vec::new();
    for source in sources() {
        let path = &source.path;
        if source.has_extension(&["rs"]) && !source.text.starts_with("//! ") {
            findings.push(format!("{path}: it does not open with `//!`"));
        }
        if !source.has_extension(&["rs", "go", "py", "sh", "toml"]) {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            let at = format!("{path}:{}", index + 1);
            if !line.is_ascii() {
                findings.push(format!("{at}: not ASCII"));
            }
            for (a, b) in UNFINISHED.iter().filter(|(a, b)| line.contains(&format!("{a}{b}"))) {
                findings.push(format!("{at}: `{a}{b}`"));
            }
            if line.ends_with([' ', '\t']) || line.contains('\t') && source.has_extension(&["rs", "py"]) {
                findings.push(format!("{at}: a tab, or space at its end"));
            }
        }
        if source.in_src().is_some() {
            for (number, line) in source.code().into_iter().filter(|(_, line)| line.contains(".unwrap()")) {
                findings.push(format!("{path}:{number}: `unwrap` outside of tests: {}", line.trim()));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    let mut findings = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            for (a, b) in MACHINE_PATHS.iter().filter(|(a, b)| line.contains(&format!("{a}{b}"))) {
                findings.push(format!("{}:{}: `{a}{b}`", source.path, index + 1));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn files_are_short_enough_to_be_read() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.has_extension(&["rs", "go", "py", "sh", "md"])) {
        let lines = source.text.lines().count();
        // The reference page is made from the help of every command, and is looked into rather than read.
        if lines >= MAX_LINES && source.path != "docs/cli.md" {
            findings.push(format!("{}: {lines} lines", source.path));
        }
    }
    nothing(&findings);
}

#[test]
fn the_top_of_the_repository_stays_small() {
    const AGREED: &[&str] = &[
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "src",
        "store-format",
        "tests",
        "examples",
        "docs",
        "benches",
        "fuzz",
    ];
    let ignored = fs::read_to_string(repository().join(".gitignore")).unwrap_or_default();
    let ignored: BTreeSet<&str> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    let entries: Vec<PathBuf> =
        fs::read_dir(repository()).into_iter().flatten().flatten().map(|e| e.path()).collect();
    assert!(entries.len() > 3, "the repository is read");
    let mut findings = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with('.') && !ignored.contains(name.as_str()) && !AGREED.contains(&name.as_str()) {
            findings.push(format!("`{name}` is not one of the agreed names"));
        }
    }
    nothing(&findings);
}

#[test]
fn the_search_itself_finds_what_it_looks_for() {
    assert_eq!(imported("use crate::id::hex;"), ["id"]);
    assert_eq!(imported("use crate::{id::{self, hex}, log, model as m};"), ["id", "log", "model"]);
    assert_eq!(imported("fn f(x: crate::store::Store) -> crate::log::Log {"), ["store", "log"]);
    assert!(imported("my_crate::id").is_empty());
    let group = joined(&[(3, "use crate::{"), (4, "    id,"), (5, "    model::Kind,"), (6, "};"), (7, "x")]);
    assert_eq!(group, [(3, "use crate::{id,model::Kind,};".to_owned()), (7, "x".to_owned())]);
    assert_eq!(imported(&group[0].1)[..2], ["id", "model"]);
    assert!(names("    toml::from_str(x)", "toml") && names("use ::toml::Value;", "toml"));
    assert!(!names("crate::toml::x", "toml") && !names("my_toml::x", "toml"));
    let text = "a\n#[cfg(test)]\nmod tests {\n    x.unwrap()\n}\nb // crate::\n// c\n".to_owned();
    let source = Source { path: "src/id.rs".to_owned(), text };
    assert_eq!(source.code(), [(1, "a"), (6, "b // crate::")]);
}
