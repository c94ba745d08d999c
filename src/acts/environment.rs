//! The environment of a plan and of an attempt: what was declared, and what is met where it runs.
//!
//! A plan holds the lock file, the interpreter and what is installed for it; it is made on a login node as often
//! as not. The machine below, its container and the launcher's numbers belong to the attempt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::capture::config::{self, Value};
use crate::capture::environment::{
    self, Departure, Departures, Distribution, Lock, Manager, Platform, Target, allowed_variables,
};
use crate::model::{self, Environment, Hardware, LockFile, TypedId};

use super::inputs::Machine;

/// Where an environment is looked at.
pub(super) struct Place<'a> {
    /// The command.
    pub(super) argv: &'a [OsString],
    /// The machine's variables.
    pub(super) machine: &'a Machine,
    /// The project.
    pub(super) root: &'a Path,
}

/// What was found installed, before it is stored.
pub(super) struct Found {
    /// The list.
    pub(super) json: Vec<u8>,
    packages: u64,
    departures: Option<Departures>,
    /// What departs from the lock file, for people.
    pub(super) warning: Option<String>,
}

impl Found {
    /// Makes the record of it; `file` is the stored list.
    pub(super) fn record(&self, file: TypedId) -> model::Installed {
        let counted = |list: fn(&Departures) -> &Vec<Departure>| {
            self.departures.as_ref().map(|departures| list(departures).len() as u64)
        };
        model::Installed {
            file,
            packages: self.packages,
            missing: counted(|departures| &departures.missing),
            changed: counted(|departures| &departures.changed),
            extra: counted(|departures| &departures.extra),
        }
    }
}

impl Place<'_> {
    /// Observes the interpreter of the command; not finding one is no error.
    pub(super) fn interpreter(&self) -> Option<environment::Interpreter> {
        let path = self.machine.variable("PATH").map(OsString::as_os_str);
        let virtual_env = self.machine.variable("VIRTUAL_ENV").map(Path::new);
        environment::observe_interpreter(self.argv, path, virtual_env, self.root).ok()
    }

    /// Returns what conditions in a lock file are judged for.
    pub(super) fn target(interpreter: Option<&environment::Interpreter>) -> Target {
        let platform = Platform::current();
        Target {
            python: interpreter.map(|found| found.version.clone()),
            implementation: interpreter.and_then(|found| found.implementation.clone()),
            os: platform.os.to_owned(),
            arch: platform.arch.to_owned(),
        }
    }

    /// Reads what is installed and holds it against the lock file.
    pub(super) fn installed(
        &self,
        interpreter: Option<&environment::Interpreter>,
        lock: Option<&Lock>,
    ) -> Option<Found> {
        let interpreter = interpreter?;
        let ignores_user = self.machine.variable("PYTHONNOUSERSITE").is_some_and(|value| !value.is_empty());
        let home = self.machine.variable("HOME").filter(|_| !ignores_user).map(Path::new);
        let found = environment::read_installed(&environment::Place {
            program: &interpreter.program,
            version: &interpreter.version,
            python_path: self.machine.variable("PYTHONPATH").map(OsString::as_os_str),
            home,
            root: self.root,
        })?;
        let departures = lock.and_then(|lock| environment::departures(lock, &found));
        let warning = departures.as_ref().zip(lock).and_then(|(departures, lock)| {
            let name = lock.path.file_name().unwrap_or_default().to_string_lossy();
            (!departures.is_empty())
                .then(|| format!("what is installed is not {name}: {}", departures.describe()))
        });
        let mut fields = vec![
            ("schema", text("ledger.installed/1")),
            ("packages", Value::List(found.distributions.iter().map(distribution).collect())),
        ];
        if !found.broken.is_empty() {
            fields.push(("broken", Value::List(found.broken.iter().map(text).collect())));
        }
        for (name, list) in departures.iter().flat_map(|departures| {
            [("missing", &departures.missing), ("changed", &departures.changed), ("extra", &departures.extra)]
        }) {
            fields.push((name, Value::List(list.iter().map(departure).collect())));
        }
        let json = config::canonical(&map(fields));
        Some(Found { json, packages: found.distributions.len() as u64, departures, warning })
    }

    /// Adds the machine, its container and how the run was launched to what was declared.
    pub(super) fn met(&self, declared: Environment) -> Environment {
        let machine = environment::observe_machine(Path::new("/"));
        let container = environment::observe_container(Path::new("/"), &|name| {
            environment::text_of(&self.machine.variables, name)
        });
        let hardware = Hardware {
            kernel: machine.kernel,
            cpu: machine.cpu,
            cores: machine.cores,
            memory: machine.memory,
            driver: machine.driver,
            gpus: machine.gpus,
        };
        let container =
            container.map(|found| model::Container { runtime: found.kind.to_owned(), image: found.image });
        let launch = environment::launch_facts(&allowed_variables(&self.machine.variables));
        Environment { hardware: Some(hardware), container, launch: launch.into_iter().collect(), ..declared }
    }
}

/// Makes the record of what was declared.
pub(super) fn declared(
    lock: Option<LockFile>,
    interpreter: Option<&environment::Interpreter>,
    installed: Option<model::Installed>,
) -> Environment {
    let platform = Platform::current();
    let interpreter = interpreter
        .map(|found| model::Interpreter { name: found.label().to_owned(), version: found.version.clone() });
    Environment {
        lock,
        interpreter,
        os: platform.os.to_owned(),
        arch: platform.arch.to_owned(),
        installed,
        hardware: None,
        container: None,
        launch: BTreeMap::new(),
    }
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn map(fields: Vec<(&str, Value)>) -> Value {
    Value::Map(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn distribution(one: &Distribution) -> Value {
    let mut fields = vec![("name", text(&one.name)), ("version", text(&one.version))];
    if one.manager == Manager::Conda {
        fields.push(("manager", text("conda")));
    }
    if let Some(origin) = &one.origin {
        let mut of = vec![("kind", text(&origin.kind)), ("address", text(&origin.address))];
        of.extend(origin.exact.as_ref().map(|exact| ("exact", text(exact))));
        fields.push(("origin", map(of)));
    }
    map(fields)
}

fn departure(one: &Departure) -> Value {
    let mut fields = vec![("name", text(&one.name))];
    fields.extend(one.locked.as_ref().map(|version| ("locked", text(version))));
    fields.extend(one.installed.as_ref().map(|version| ("installed", text(version))));
    map(fields)
}
