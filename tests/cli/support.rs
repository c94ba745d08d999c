//! A world for one test: a project, people with homes, an empty environment, and snapshots of what was said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The binary under test.
pub(crate) const LEDGER: &str = env!("CARGO_BIN_EXE_ledger");

/// A directory with a project and homes in it.
pub(crate) struct World {
    dir: TempDir,
}

/// Settings of a project that lies in no repository.
const PROJECT: &[u8] = b"study = \"digits\"\nconfig = [\"config.yaml\"]\ndata = { train = \"digits.csv\" }\n";

/// One person in a world.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    root: PathBuf,
    vars: Vec<(String, String)>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
    root: PathBuf,
}

impl World {
    /// Makes an empty project.
    pub(crate) fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// Makes an empty project in this directory.
    pub(crate) fn within(dir: TempDir) -> Self {
        let world = Self { dir };
        std::fs::create_dir(world.dir.path().join("project")).unwrap();
        world
    }

    /// Makes a person with an empty home.
    pub(crate) fn person(&self, name: &str) -> Person {
        // A test's directory may be reached through a link, and the program prints where it really is.
        let root = self.dir.path().canonicalize().unwrap();
        let home = root.join(name);
        std::fs::create_dir_all(&home).unwrap();
        let vars = vec![
            ("HOME".to_owned(), home.to_str().unwrap().to_owned()),
            ("USER".to_owned(), name.to_owned()),
        ];
        Person { home, project: root.join("project"), root, vars }
    }

    /// Makes a ledger in a project with everything that a run is frozen from, and its founder.
    pub(crate) fn project() -> (Self, Person) {
        let (world, kim) = Self::founded();
        kim.lay("config.yaml", b"optim:\n  lr: 0.1\nseed: 7\n");
        kim.lay("digits.csv", b"1,2\n");
        kim.lay("ledger.toml", PROJECT);
        (world, kim)
    }

    /// Makes a ledger with one finished run, `base`, and its checkpoint in `out/step-10`.
    pub(crate) fn trained() -> (Self, Person) {
        let (world, kim) = Self::project();
        kim.ok(&["-q", "freeze", "--name", "base", "--", "sh", "train.sh"]);
        kim.ok(&["-q", "start", "base"]);
        kim.lay("out/step-10/model.safetensors", &safetensors(1.0));
        kim.ok(&["-q", "record", "checkpoint", "out/step-10", "--run", "base"]);
        kim.ok(&["-q", "end", "base"]);
        (world, kim)
    }

    /// Makes a ledger in the project, and its founder.
    pub(crate) fn founded() -> (Self, Person) {
        let world = Self::new();
        let kim = world.person("kim");
        kim.ok(&["init"]);
        (world, kim)
    }
}

impl Person {
    /// Returns the same person with one more variable.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.vars.retain(|(known, _)| known != name);
        other.vars.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Returns the same person without a variable.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.vars.retain(|(known, _)| known != name);
        other
    }

    /// Returns the same person in another directory.
    pub(crate) fn at(&self, dir: &Path) -> Self {
        Self { project: dir.to_owned(), ..self.clone() }
    }

    /// Returns a command that is ready to run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(LEDGER);
        command.args(args).current_dir(&self.project).env_clear().stdin(Stdio::null());
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.said(self.command(args).output().unwrap())
    }

    /// Returns what a command said that was run in another way.
    pub(crate) fn said(&self, output: std::process::Output) -> Output {
        Output {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
            root: self.root.clone(),
        }
    }

    /// Runs a command that must succeed, and returns its standard output without the last newline.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
        output.stdout.trim_end_matches('\n').to_owned()
    }

    /// Runs a command with `--json` and returns its one document.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.run(&[&["--json"], args].concat());
        let document: serde_json::Value = serde_json::from_str(&output.stdout).expect(&output.stdout);
        assert_eq!(document["exit"], output.code, "{document}");
        assert_eq!(document["ok"], output.code == 0, "{document}");
        assert!(document["schema"].as_str().unwrap().starts_with("ledger."), "{document}");
        assert!(document["findings"].is_array(), "{document}");
        document
    }

    /// Runs a command that answers with one id on standard output and nothing else, and returns it.
    pub(crate) fn id(&self, args: &[&str]) -> String {
        let id = self.ok(args);
        let (prefix, digest) = id.split_once(':').unwrap();
        assert!(!prefix.is_empty() && digest.len() == 64, "{args:?}: {id}");
        id
    }

    /// Lays a file in the project.
    pub(crate) fn lay(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.project.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Person {
    /// Copies a fixture into the project, links as links.
    pub(crate) fn copy(&self, fixture: &str, name: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        let to = self.project.join(name);
        copy(&from, &to);
        to
    }
}

fn copy(from: &Path, to: &Path) {
    let kind = std::fs::symlink_metadata(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    if kind.is_symlink() {
        std::os::unix::fs::symlink(std::fs::read_link(from).unwrap(), to).unwrap();
    } else if kind.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
    }
}

impl Output {
    /// Compares exit code and both streams with a snapshot.
    pub(crate) fn matches(&self, name: &str) {
        let text = format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr);
        snapshot(name, &filtered(&text, &self.root));
    }

    /// Asserts that neither stream says something.
    pub(crate) fn never_says(&self, text: &str) -> &Self {
        assert!(!self.stdout.contains(text) && !self.stderr.contains(text), "`{text}`: {self:?}");
        self
    }

    /// Checks the exit code of an answer that is no.
    pub(crate) fn fails_quietly(&self, code: i32) {
        assert_eq!(self.code, code, "{self:?}");
    }

    /// Checks the exit code and the slug of a failure.
    pub(crate) fn fails(&self, code: i32, slug: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains(&format!("error[{slug}]: ")), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
    }
}

/// Writes weights: the format's eight bytes of length, its header, and two numbers.
pub(crate) fn safetensors(value: f32) -> Vec<u8> {
    let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([value, 2.0].iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Compares a text with the snapshot of that name, or rewrites it on request.
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("LEDGER_OVERWRITE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|_| panic!("no snapshot `{name}`; LEDGER_OVERWRITE=1 writes it:\n{text}"));
    assert!(expected == text, "`{name}` was\n{expected}\nand is\n{text}\nLEDGER_OVERWRITE=1 rewrites it");
}

/// Replaces what differs from run to run: the test's directory, the platform, ids, keys, times and all objects' size.
pub(crate) fn filtered(text: &str, root: &Path) -> String {
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let text = text.replace(root.to_str().unwrap(), "<DIR>").replace(&platform, "<PLATFORM>");
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let mut filtered = String::new();
    for line in text.lines() {
        let line = &without_size(line);
        let mut rest = line.as_str();
        while let Some(first) = rest.chars().next() {
            let length = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(length);
            // `2026-11-30T20:36:21Z`; what is left of it when it has been split holds no other digits.
            if let Some(after) = after_time(rest) {
                filtered.push_str("<TIME>");
                rest = after;
                continue;
            }
            // A slash is a digit of base64, and elsewhere it stands between words of its own.
            let is_base64 = run.len() >= 40 && run.bytes().any(|byte| byte.is_ascii_uppercase());
            if is_base64 {
                filtered.push_str("<BASE64>");
            } else {
                let is_key = filtered.ends_with(" log key ");
                let words: Vec<&str> = run.split('/').map(|word| without_id(word, after, is_key)).collect();
                filtered.push_str(&words.join("/"));
            }
            rest = after;
        }
        let _ = writeln!(filtered);
    }
    filtered
}

/// An attempt's record names the machine, so how many bytes all objects have differs, too.
fn without_size(line: &str) -> String {
    match line.split_once(" objects (").map(|(head, rest)| (head, rest.split_once(')'))) {
        Some((head, Some((_, rest)))) => format!("{head} objects (<SIZE>){rest}"),
        _ => line.to_owned(),
    }
}

fn without_id<'a>(word: &'a str, after: &str, is_key: bool) -> &'a str {
    let is_hex = word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_short_key = word.len() == 4 && (is_key || after.starts_with(')'));
    if is_hex && (word.len() >= 8 || is_short_key) { "<ID>" } else { word }
}

fn after_time(text: &str) -> Option<&str> {
    const FORM: &[u8] = b"0000-00-00T00:00:00Z";
    let head = text.as_bytes().get(..FORM.len())?;
    let fits = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    head.iter().zip(FORM).all(fits).then(|| &text[FORM.len()..])
}

#[test]
fn only_what_differs_is_replaced() {
    let id = "0123456789abcdef".repeat(4);
    let key = "Ab+/".repeat(12);
    let text = format!("run:{id}  {}  kim (owner 4f2a)\n/w/x at 2026-11-30T20:36:21Z {key}=\n", &id[..8]);
    assert_eq!(
        filtered(&text, Path::new("/w")),
        "run:<ID>  <ID>  kim (owner <ID>)\n<DIR>/x at <TIME> <BASE64>\n"
    );
    assert_eq!(filtered(&format!("a/{id}/b"), Path::new("/w")), "a/<ID>/b\n");
    let plain = "head     12 statements, 1234567 bytes, exit 4, face value 2026\n";
    assert_eq!(filtered(plain, Path::new("/w")), plain);
}
