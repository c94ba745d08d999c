//! Which Python a command will run, and its version, asked as cheaply as possible.
//!
//! A virtual environment states its version in a file; only without one is the interpreter started, once,
//! isolated from the user's packages. Nothing here fails a run: no answer is an answer with a reason.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long an interpreter may take to tell its version; a wrapper that hangs must not hang us.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any `pyvenv.cfg` or any answer has.
const MAX_ANSWER: u64 = 64 << 10;
/// Printed by the interpreter: implementation and version.
const QUESTION: &str = "import sys; print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3])";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program, as it would be started.
    pub program: PathBuf,
    /// The language: `python`.
    pub name: &'static str,
    /// Its version, such as `3.11.7`.
    pub version: String,
    /// Who made it, such as `cpython`; none where only a `pyvenv.cfg` without this line was read.
    pub implementation: Option<String>,
}

impl Interpreter {
    /// Returns the implementation's name, or the language's where that is not known.
    pub fn label(&self) -> &str {
        self.implementation.as_deref().unwrap_or(self.name)
    }
}

/// Why no interpreter is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoInterpreter {
    /// The command names none, no virtual environment is active, and no `python3` is in the search path.
    #[error("no Python was found")]
    NotFound,
    /// It cannot be started.
    #[error("{} cannot be started", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It started and gave no version.
    #[error("{} does not tell its version", path.display())]
    Silent {
        /// The program.
        path: PathBuf,
    },
}

/// Observes the interpreter of a command: the one that it names, else that of the environment which the command
/// itself lies in, else the active virtual environment's, else `python3` of the search path. `uv run` takes the
/// `.venv` of the project.
pub fn observe_interpreter(
    argv: &[OsString],
    path_var: Option<&OsStr>,
    virtual_env: Option<&Path>,
    project: &Path,
) -> Result<Interpreter, NoInterpreter> {
    let program = locate(argv, path_var, virtual_env, project).ok_or(NoInterpreter::NotFound)?;
    match stated(&program) {
        Some(interpreter) => Ok(interpreter),
        None => ask(&program),
    }
}

fn locate(
    argv: &[OsString],
    path_var: Option<&OsStr>,
    virtual_env: Option<&Path>,
    project: &Path,
) -> Option<PathBuf> {
    if let Some(first) = argv.first().map(Path::new).filter(|first| is_python(first)) {
        // A command that names its Python runs that one or none.
        return if first.components().count() > 1 || first.is_absolute() {
            is_program(first).then(|| first.to_owned())
        } else {
            search(first, path_var)
        };
    }
    let of_project = match argv {
        [tool, word, ..] if is_named(tool, "uv") && word == "run" => Some(project.join(".venv/bin/python")),
        _ => None,
    };
    if let Some(python) = of_project.filter(|path| is_program(path)) {
        return Some(python);
    }
    // `torchrun` of an environment runs the Python beside it, whether the environment is active or not.
    let beside = argv.first().map(Path::new).and_then(|first| {
        let tool = if first.components().count() > 1 { first.to_owned() } else { search(first, path_var)? };
        let python = tool.parent()?.join("python");
        (is_program(&python) && tool.parent()?.parent()?.join("pyvenv.cfg").is_file()).then_some(python)
    });
    if beside.is_some() {
        return beside;
    }
    let of_venv = virtual_env.map(|root| root.join("bin/python")).filter(|path| is_program(path));
    of_venv.or_else(|| search(Path::new("python3"), path_var))
}

fn is_named(program: &OsStr, name: &str) -> bool {
    Path::new(program).file_name().is_some_and(|found| found == name)
}

/// `python`, `python3`, `python3.11`, `pypy3`: a name of letters with at most a version behind it.
fn is_python(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

fn search(name: &Path, path_var: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path_var?).map(|dir| dir.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Reads what a virtual environment states in its `pyvenv.cfg`.
fn stated(program: &Path) -> Option<Interpreter> {
    let file = program.parent()?.parent()?.join("pyvenv.cfg");
    if !fs::metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(file).ok()?.take(MAX_ANSWER).read_to_string(&mut text).ok()?;
    let value = |wanted: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == wanted)
            .map(|(_, value)| value.trim())
    };
    // `version` is written by the standard library's tool, `version_info` (`3.11.7.final.0`) by others.
    let version = value("version").or_else(|| value("version_info")).and_then(three_numbers)?;
    let implementation = value("implementation").map(str::to_ascii_lowercase);
    Some(Interpreter { program: program.to_owned(), name: "python", version, implementation })
}

/// Takes the three numbers that a version begins with.
fn three_numbers(text: &str) -> Option<String> {
    let numbers: Vec<&str> = text.trim().splitn(4, '.').take(3).collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.len() < 5 && part.bytes().all(|b| b.is_ascii_digit());
    (numbers.len() == 3 && numbers.iter().all(is_number)).then(|| numbers.join("."))
}

/// Starts the interpreter, isolated and without `site`, and has it print its version.
fn ask(program: &Path) -> Result<Interpreter, NoInterpreter> {
    let silent = || NoInterpreter::Silent { path: program.to_owned() };
    let mut child = Command::new(program)
        .args(["-I", "-S", "-c", QUESTION])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| NoInterpreter::Start { path: program.to_owned(), source })?;
    let (send, receive) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut answer = String::new();
            let read = stdout.take(MAX_ANSWER).read_to_string(&mut answer);
            // Nobody listens any more once patience has run out.
            let _ = send.send(read.map(|_| answer));
        });
    }
    let answer = receive.recv_timeout(PATIENCE);
    // Whatever it said, it is not needed further; killing one that has ended does nothing.
    let _ = child.kill();
    let _ = child.wait();
    let answer = answer.ok().and_then(Result::ok).ok_or_else(silent)?;
    let (implementation, version) = answer.trim().split_once(' ').ok_or_else(silent)?;
    let version = three_numbers(version).ok_or_else(silent)?;
    let program = program.to_owned();
    Ok(Interpreter { program, name: "python", version, implementation: Some(implementation.to_owned()) })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Lays a program that is a shell script.
    fn program(dir: &Path, name: &str, script: &str) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn version(found: Result<Interpreter, NoInterpreter>) -> String {
        found.unwrap().version
    }

    #[test]
    fn the_command_s_own_python_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        program(&bin, "python3.12", "echo cpython 3.12.4");
        program(&bin, "python3", "echo cpython 3.9.1");
        let venv = dir.path().join("venv");
        program(&venv.join("bin"), "python", "echo cpython 3.10.2");
        let path = Some(bin.as_os_str());
        let observe = |words: &[&str], venv| {
            version(observe_interpreter(&argv(words), path, venv, Path::new("/nowhere")))
        };
        assert_eq!(observe(&["python3.12", "train.py"], Some(venv.as_path())), "3.12.4");
        assert_eq!(observe(&["torchrun", "train.py"], Some(venv.as_path())), "3.10.2");
        assert_eq!(observe(&["torchrun", "train.py"], None), "3.9.1");
        let named = bin.join("python3.12");
        assert_eq!(observe(&[named.to_str().unwrap()], None), "3.12.4");
        // Named and not there is not the one of the search path.
        assert!(matches!(
            observe_interpreter(&argv(&["python2"]), path, None, Path::new("/nowhere")),
            Err(NoInterpreter::NotFound)
        ));
        assert!(matches!(
            observe_interpreter(&argv(&["/nowhere/python3"]), path, None, Path::new("/nowhere")),
            Err(NoInterpreter::NotFound)
        ));
        assert!(matches!(
            observe_interpreter(&[], None, None, Path::new("/nowhere")),
            Err(NoInterpreter::NotFound)
        ));
    }

    #[test]
    fn a_virtual_environment_answers_without_being_started() {
        let dir = tempfile::tempdir().unwrap();
        let started = dir.path().join("started");
        program(&dir.path().join("bin"), "python", &format!("touch {}", started.display()));
        let config = dir.path().join("pyvenv.cfg");
        for (text, implementation) in [
            ("home = /usr/bin\nversion = 3.11.7\n", None),
            ("implementation = CPython\nversion_info = 3.11.7.final.0\n", Some("cpython")),
        ] {
            fs::write(&config, text).unwrap();
            let found = observe_interpreter(&[], None, Some(dir.path()), Path::new("/nowhere")).unwrap();
            assert_eq!((found.version.as_str(), found.implementation.as_deref()), ("3.11.7", implementation));
        }
        assert!(!started.exists());
        fs::write(&config, "version = soon\n").unwrap();
        assert!(matches!(
            observe_interpreter(&[], None, Some(dir.path()), Path::new("/nowhere")),
            Err(NoInterpreter::Silent { .. })
        ));
        assert!(started.exists());
    }

    #[test]
    fn a_tool_runs_the_python_of_the_environment_it_lies_in() {
        let dir = tempfile::tempdir().unwrap();
        let (project, other) = (dir.path().join("project"), dir.path().join("other"));
        for (venv, version) in [(&project.join(".venv"), "3.12.1"), (&other, "3.10.2")] {
            program(&venv.join("bin"), "python", "exit 1");
            program(&venv.join("bin"), "torchrun", "exit 1");
            fs::write(venv.join("pyvenv.cfg"), format!("version = {version}\n")).unwrap();
        }
        let uv = dir.path().join("bin");
        program(&uv, "uv", "exit 1");
        let both = std::env::join_paths([&uv, &other.join("bin")]).unwrap();
        let observe =
            |words: &[&str]| version(observe_interpreter(&argv(words), Some(&both), None, &project));
        assert_eq!(observe(&["torchrun", "train.py"]), "3.10.2");
        assert_eq!(observe(&["uv", "run", "train.py"]), "3.12.1");
        let named = project.join(".venv/bin/torchrun");
        assert_eq!(observe(&[named.to_str().unwrap(), "train.py"]), "3.12.1");
    }

    #[test]
    fn an_answer_that_is_no_version_is_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        for script in ["exit 1", "echo hello", "echo cpython 3", "echo cpython 3.x.1"] {
            program(dir.path(), "python3", script);
            let found = observe_interpreter(&[], Some(dir.path().as_os_str()), None, Path::new("/nowhere"));
            assert!(matches!(found, Err(NoInterpreter::Silent { .. })), "{script}");
        }
        let broken = program(dir.path(), "python3", "");
        fs::write(&broken, "#!/nowhere/interpreter\n").unwrap();
        let found = observe_interpreter(&[], Some(dir.path().as_os_str()), None, Path::new("/nowhere"));
        assert!(matches!(found, Err(NoInterpreter::Start { .. })));
    }

    #[test]
    fn names_that_look_like_python_are_told_apart() {
        for name in ["python", "python3", "python3.11", "/usr/bin/python3", "pypy3"] {
            assert!(is_python(Path::new(name)), "{name}");
        }
        for name in ["pythonic", "python-config", "ipython", "python3.11-dbg", "train.py", ""] {
            assert!(!is_python(Path::new(name)), "{name}");
        }
    }
}
