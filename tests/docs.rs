//! The pages that show commands, executed from their own text, and the example that shows the library.
//!
//! A block fenced as `console` is a transcript: lines that begin with a prompt are run by one shell, in order,
//! and what follows each is what must be printed. `$` is Kim's prompt; `robin$` runs with Robin's home. A line
//! `...` stands for any lines. A command must succeed unless `echo $?` comes next. Ids, times and decimal
//! numbers are compared as placeholders, since they differ from run to run and from machine to machine.
//! With `LEDGER_DOCS=write` a page takes over what was printed where it says something else.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test lays files, and what surprises it ends it"
)]

#[path = "../examples/record_run.rs"]
#[expect(dead_code, reason = "its `main` is not called here")]
mod record_run;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The executed pages, and whether the reader is expected to stand in the project already.
const PAGES: [(&str, bool); 3] = [("README.md", true), ("docs/tutorial.md", false), ("docs/backup.md", true)];

#[test]
fn the_readme_says_what_happens() {
    check(PAGES[0].0, PAGES[0].1);
}

#[test]
fn the_tutorial_says_what_happens() {
    check(PAGES[1].0, PAGES[1].1);
}

#[test]
fn the_page_on_backups_says_what_happens() {
    check(PAGES[2].0, PAGES[2].1);
}

#[test]
fn the_readme_opens_with_twenty_lines() {
    let blocks = blocks(&read("README.md"));
    let lines: Vec<&str> = blocks[0].1.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines.len(), 20, "{lines:#?}");
    for word in ["init", "run", "eval", "verify", "trace"] {
        let command = format!("$ ledger {word} ");
        let bare = format!("$ ledger {word}");
        assert!(lines.iter().any(|line| line.starts_with(&command) || *line == bare), "`{word}` is missing");
    }
}

#[test]
fn no_transcript_goes_unexecuted() {
    let mut pages = vec![PathBuf::from("CHANGELOG.md")];
    let docs = std::fs::read_dir(repository().join("docs")).unwrap();
    pages.extend(docs.map(|entry| Path::new("docs").join(entry.unwrap().file_name())));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let is_executed = PAGES.iter().any(|(name, _)| Path::new(name) == page);
        let found = blocks(&read(page)).len();
        assert!(is_executed || found == 0, "{} has a transcript that nobody executes", page.display());
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in ["README.md", "CHANGELOG.md", "docs/tutorial.md", "docs/concepts.md", "docs/architecture.md"]
        .into_iter()
        .chain(["docs/threat-model.md", "docs/trust.md", "docs/gaps.md", "docs/backup.md", "docs/inputs.md"])
    {
        let text = read(page);
        let folder = repository().join(page).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let path = link.split('#').next().unwrap_or_default();
            let is_elsewhere = link.contains("://") || path.is_empty();
            assert!(
                is_elsewhere || folder.join(path).exists(),
                "{page} links to `{link}`, which is not there"
            );
        }
    }
}

#[test]
fn the_example_tells_a_run_from_plan_to_proof() {
    let dir = tempfile::tempdir().unwrap();
    let lines = record_run::tell(dir.path()).unwrap();
    let told = lines.join("\n");
    assert!(told.contains("planned") && told.contains("completed"), "{told}");
    assert!(lines.last().unwrap().contains("is under the head"), "{told}");
}

#[test]
fn placeholders_hide_only_what_differs() {
    for (a, b) in [
        ("ck:087216c4  2 files, 10.1 KiB", "ck:aaaaaaaa  2 files, 9.9 KiB"),
        ("kim (owner+author 4f2a)", "kim (owner+author 99e0)"),
        ("by log key 4f2a", "by log key 1234"),
        ("2026-11-30T10:20:30Z", "2027-01-02T03:04:05Z"),
        ("took 12 ms", "took 7 ms"),
    ] {
        assert_eq!(plain(a), plain(b));
    }
    for (a, b) in [
        ("2 files", "3 files"),
        ("ck:087216c4", "run:087216c4"),
        ("frozen-drift", "frozen-draft"),
        ("exit 3", "exit 4"),
        ("verified", "not verified"),
    ] {
        assert_ne!(plain(a), plain(b));
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(agrees(&lines("a\n...\nd"), &lines("a\nb\nc\nd")));
    assert!(agrees(&lines("a\n..."), &lines("a")));
    assert!(!agrees(&lines("a\n...\nd"), &lines("a\nb\nc")));
    assert!(!agrees(&lines("a"), &lines("a\nb")));
    assert!(!agrees(&[], &lines("b")));
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: impl AsRef<Path>) -> String {
    let path = repository().join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A block of a page: where it begins, and its lines with their indices in the page.
type Block = (usize, Vec<(usize, String)>);

/// Returns the blocks fenced as `console`.
fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        match line.trim_end() {
            "```console" => {
                is_inside = true;
                found.push((index, Vec::new()));
            }
            "```" => is_inside = false,
            line if is_inside => {
                if let Some((_, lines)) = found.last_mut() {
                    lines.push((index, line.to_owned()));
                }
            }
            _ => {}
        }
    }
    found
}

/// One command of a page with what should be printed.
struct Step {
    /// Index of its first line in the page.
    line: usize,
    /// Whose home it runs with.
    who: String,
    command: String,
    /// Indices of the expected lines in the page.
    expected_at: std::ops::Range<usize>,
    expected: Vec<String>,
}

/// Returns who types, and what, if a line begins with a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (who, command) = line.split_once("$ ")?;
    let is_name = who.chars().all(|c| c.is_ascii_lowercase());
    is_name.then_some((if who.is_empty() { "kim" } else { who }, command))
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (_, lines) in blocks(text) {
        let mut continues = false;
        let mut is_first = true;
        for (index, line) in lines {
            if continues {
                let step = steps.last_mut().expect("a line was continued");
                step.command.push('\n');
                step.command.push_str(&line);
                step.expected_at = index + 1..index + 1;
            } else if let Some((who, command)) = prompt(&line) {
                steps.push(Step {
                    line: index,
                    who: who.to_owned(),
                    command: command.to_owned(),
                    expected_at: index + 1..index + 1,
                    expected: Vec::new(),
                });
            } else {
                assert!(!is_first, "line {}: a transcript begins with a prompt", index + 1);
                let step = steps.last_mut().expect("a prompt came first");
                step.expected_at.end = index + 1;
                step.expected.push(line.clone());
            }
            continues = line.ends_with('\\') && (continues || prompt(&line).is_some());
            is_first = false;
        }
    }
    steps
}

/// Copies what git would hold of the example project.
fn copy_example(to: &Path) {
    let from = repository().join("examples/digits");
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let is_result = name.to_str().is_some_and(|name| name.starts_with("results"));
        if entry.file_type().unwrap().is_file() && !is_result {
            std::fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// Returns the folder of a Python that has what the example's lock file names, and nothing else.
fn python_folder() -> PathBuf {
    let made = Command::new(repository().join("examples/venv.sh"))
        .arg(repository().join("examples/digits/requirements.lock"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(made.status.success(), "examples/venv.sh makes no environment");
    let folder = Path::new(String::from_utf8(made.stdout).unwrap().trim()).join("bin");
    assert!(folder.join("python").exists(), "no `python` in {}", folder.display());
    folder
}

/// A machine with two users, a checkout and, if wanted, a project in git.
fn scene(with_project: bool) -> tempfile::TempDir {
    let scene = tempfile::tempdir().unwrap();
    let root = scene.path();
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ledger"), root.join("bin/ledger")).unwrap();
    for who in ["kim", "robin"] {
        let home = root.join("home").join(who);
        std::fs::create_dir_all(&home).unwrap();
        let settings = format!(
            "[user]\n\tname = {who}\n\temail = {who}@localhost\n[init]\n\tdefaultBranch = main\n[core]\n\thooksPath = /dev/null\n"
        );
        std::fs::write(home.join(".gitconfig"), settings).unwrap();
    }
    let kim = root.join("home/kim");
    copy_example(&kim.join("lineage-ledger/examples/digits"));
    if with_project {
        copy_example(&kim.join("digits"));
        let committed = shell(root, &kim.join("digits"))
            .args(["-c", "git init --quiet && git add . && git commit --quiet -m 'Digits'"])
            .status();
        assert!(committed.unwrap().success());
    }
    scene
}

/// A shell that sees nothing of whoever runs the tests.
fn shell(root: &Path, cwd: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [root.join("bin"), python_folder()].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("bash");
    shell
        .env_clear()
        .env("PATH", std::env::join_paths(folders).unwrap())
        .env("HOME", root.join("home/kim"))
        .env("USER", "kim")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("NO_COLOR", "1"), ("PYTHONDONTWRITEBYTECODE", "1")])
        .current_dir(cwd)
        .stdin(Stdio::null());
    shell
}

/// Runs all steps in one shell and returns for each its exit code and what it printed.
fn run(steps: &[Step], root: &Path, cwd: &Path) -> Vec<(i32, Vec<String>)> {
    let mut script = String::from("exec 2>&1\nstatus=0\n");
    for step in steps {
        let command = &step.command;
        let command = match step.who.as_str() {
            "kim" => command.clone(),
            who => {
                let home = format!("{}/home/{who}", root.display());
                format!("( export USER={who} HOME='{home}'; (exit $status)\n{command}\n)")
            }
        };
        // The parentheses give `$?` back to the next command.
        writeln!(script, "{command}\nstatus=$?; printf '\\n@@ %s\\n' $status; (exit $status)").unwrap();
    }
    let file = root.join("script");
    std::fs::write(&file, script).unwrap();
    let output = shell(root, cwd).arg(&file).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).replace(root.to_str().unwrap(), "");
    let mut results = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for line in printed.lines() {
        if let Some(status) = line.strip_prefix("@@ ") {
            if lines.last().is_some_and(String::is_empty) {
                lines.pop();
            }
            results.push((status.parse().unwrap(), std::mem::take(&mut lines)));
        } else {
            lines.push(line.to_owned());
        }
    }
    assert_eq!(results.len(), steps.len(), "the shell stopped early: {}", lines.join("\n"));
    results
}

fn check(page: &str, with_project: bool) {
    let text = read(page);
    let steps = steps(&text);
    assert!(steps.len() > 4, "{page} shows no commands");
    let scene = scene(with_project);
    let kim = scene.path().join("home/kim");
    let cwd = if with_project { kim.join("digits") } else { kim };
    let results = run(&steps, scene.path(), &cwd);

    let mut complaints = String::new();
    let mut rewritten: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that what is replaced moves nothing that is still to be replaced.
    for (index, (step, (status, printed))) in steps.iter().zip(&results).enumerate().rev() {
        let says_status = steps.get(index + 1).is_some_and(|next| next.command == "echo $?");
        if *status != 0 && !says_status {
            let _ = writeln!(complaints, "{page}:{}: exit code {status}", step.line + 1);
        }
        if !agrees(&step.expected, printed) {
            let _ = writeln!(complaints, "{page}:{}: $ {}", step.line + 1, step.command);
            let _ = writeln!(
                complaints,
                "{}\n-- but printed --\n{}",
                step.expected.join("\n"),
                printed.join("\n")
            );
            rewritten.splice(step.expected_at.clone(), printed.iter().cloned());
        }
    }
    if std::env::var_os("LEDGER_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(repository().join(page), rewritten.join("\n") + "\n").unwrap();
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

/// Whether printed lines are the expected ones, `...` standing for any.
fn agrees(expected: &[String], printed: &[String]) -> bool {
    match expected {
        [] => printed.is_empty(),
        [dots, rest @ ..] if dots.trim() == "..." => {
            (0..=printed.len()).any(|at| agrees(rest, &printed[at..]))
        }
        [line, rest @ ..] => {
            printed.first().is_some_and(|found| plain(line) == plain(found)) && agrees(rest, &printed[1..])
        }
    }
}

/// Replaces what differs from run to run: ids by `#`, times by `TIME`, decimal numbers and durations by `0.0`.
fn plain(line: &str) -> String {
    let chars: Vec<char> = line.trim_end().chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let run = |from: usize, is: fn(&char) -> bool| chars[from..].iter().take_while(|c| is(c)).count();
        let word = run(at, char::is_ascii_alphanumeric);
        if word == 0 {
            // Columns are as wide as what stands in them.
            if !(chars[at] == ' ' && out.ends_with(' ')) {
                out.push(chars[at]);
            }
            at += 1;
            continue;
        }
        let text: String = chars[at..at + word].iter().collect();
        let rest: String = chars[at + word..].iter().collect();
        let is_hex = text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
        let is_number = text.chars().all(|c| c.is_ascii_digit());
        // Keys are shown by four digits: `kim (owner 4f2a)`, `by log key 4f2a`.
        let is_key = rest.starts_with(')') || out.ends_with("key ");
        let time = run(at, |c| c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 'Z'));
        let decimal = run(at, |c| c.is_ascii_digit() || *c == '.');
        let is_decimal = is_number && decimal > word + 1;
        let is_duration = is_number
            && [" ms", " s"].iter().any(|unit| {
                rest.strip_prefix(unit)
                    .is_some_and(|more| !more.starts_with(|c: char| c.is_ascii_alphanumeric()))
            });
        let (shown, length) = if is_number && word == 4 && rest.starts_with('-') && time >= 10 {
            ("TIME", time)
        } else if is_decimal {
            ("0.0", decimal)
        } else if is_duration {
            ("0.0", word)
        } else if is_hex && (word >= 6 || (word == 4 && is_key)) {
            ("#", word)
        } else {
            (text.as_str(), word)
        };
        out.push_str(shown);
        at += length;
    }
    out
}
