//! The inputs of a run: read once, turned into records and objects, nothing stored yet.
//!
//! What a person gives by flag or in `ledger.toml` comes in as a [`Request`]; what comes out holds the plan
//! without its nonce, every object to store, and what belongs into the private record. The same function
//! reads inputs for a freeze and for the comparison at a start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::capture::code::{self, Observed};
use crate::capture::config::{self, Value, hydra};
use crate::capture::dataset;
use crate::capture::environment;
use crate::capture::hub;
use crate::capture::walk::{self, Options, Reading, Root};
use crate::id::{Digests, ObjectId, object_id, sha256};
use crate::model::content::{What, escape};
use crate::model::{
    self, Bytes, Code, Config, Contract, Dataset, Dirt, Environment, Kind, LockFile, Model, Plan, Policy,
    Record, Submodule, TypedId,
};

use super::environment::{Place, declared};
use super::refuse::{refuse_pointers, refuse_secret_values, refuse_secrets, without_paths};
use super::{Error, count, private_path, read_file, size};

/// Key of the project's directory among private texts; absent where it is the one that holds the ledger.
pub(super) const ROOT: &str = "root";

/// Data or a base model: lying somewhere, or known already.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file or directory.
    Path(PathBuf),
    /// A record of the ledger.
    Known(TypedId),
}

/// What the machine says of itself, as the caller read it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// All environment variables; only allowed ones are kept.
    pub variables: Vec<(OsString, OsString)>,
    /// Host name.
    pub host: Option<String>,
    /// User name.
    pub user: Option<String>,
}

impl Machine {
    pub(super) fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// What a run is to be frozen from.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The project: where its repository and lock file are looked for, and what arguments are relative to.
    pub root: PathBuf,
    /// The directory that holds the ledger, against which private paths are meant.
    pub anchor: PathBuf,
    /// Where the command was given.
    pub cwd: PathBuf,
    /// Config files, merged in order.
    pub configs: Vec<PathBuf>,
    /// `a.b=value`, applied after the files.
    pub sets: Vec<String>,
    /// Data by role.
    pub data: BTreeMap<String, Input>,
    /// Base models by role.
    pub base: BTreeMap<String, Input>,
    /// The lock file; found in the project when absent.
    pub lock: Option<PathBuf>,
    /// The seed.
    pub seed: Option<u64>,
    /// The study.
    pub study: Option<String>,
    /// The arm.
    pub arm: Option<String>,
    /// The run's name.
    pub name: Option<model::Name>,
    /// Contract files.
    pub contracts: Vec<PathBuf>,
    /// Policy file.
    pub policy: Option<PathBuf>,
    /// The command.
    pub argv: Vec<OsString>,
    /// Do not look at the repository.
    pub no_code: bool,
    /// Freeze although tracked files differ from the commit.
    pub allow_dirty: bool,
    /// Directories that the run writes to: not listed as untracked.
    pub outputs: Vec<PathBuf>,
    /// The machine.
    pub machine: Machine,
    /// Read only what a start compares: config, code and lock file.
    pub compare_only: bool,
    /// How data and base models are read.
    pub reading: Reading,
}

/// One line of what was frozen, for people and for the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// `config`, `data train`, ...
    pub what: String,
    /// The reference, or why there is none.
    pub id: Result<TypedId, String>,
    /// File name, commit, size.
    pub detail: String,
}

/// Inputs as they were read.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The plan, without a nonce.
    pub plan: Plan,
    /// Objects to store.
    pub objects: Vec<Vec<u8>>,
    /// The frozen configuration, canonical JSON.
    pub frozen_config: Option<Vec<u8>>,
    /// What was found, part by part.
    pub parts: Vec<Part>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// Tree over the untracked files that were digested.
    pub untracked: Option<TypedId>,
    /// Untracked files that were too large or too many to read: path and size.
    pub by_size: Vec<(String, u64)>,
    /// Private texts.
    pub texts: BTreeMap<String, String>,
    /// Private paths by input.
    pub paths: BTreeMap<String, String>,
    /// Private digests over names, sizes and times by input.
    pub stats: BTreeMap<String, ObjectId>,
    /// The command, secrets removed.
    pub argv: Vec<String>,
    /// Allowed environment variables.
    pub variables: BTreeMap<String, String>,
    /// What data and base models are, by input, for people.
    pub about: BTreeMap<String, String>,
    /// The environment, as the plan links it.
    pub environment: Option<Environment>,
    /// The same with the machine, for an attempt that starts at once.
    met: Option<Environment>,
}

impl Inputs {
    /// Returns the environment that an attempt meets which starts right now.
    pub(super) fn met(&self) -> Environment {
        self.met.clone().or_else(|| self.environment.clone()).unwrap_or_else(|| declared(None, None, None))
    }

    fn stage<R: Record>(&mut self, record: &R) -> Result<TypedId, Error> {
        let encoded = model::encode(record)?;
        self.objects.push(encoded.bytes);
        Ok(encoded.id)
    }

    fn blob(&mut self, bytes: Vec<u8>) -> TypedId {
        let id = TypedId::new(Kind::Blob, object_id(&bytes));
        self.objects.push(bytes);
        id
    }

    fn none(&mut self, what: &str, reason: &str) {
        self.plan.none.insert(what.to_owned(), reason.to_owned());
        self.parts.push(Part { what: what.to_owned(), id: Err(reason.to_owned()), detail: String::new() });
    }

    fn part(&mut self, what: impl Into<String>, id: TypedId, detail: impl Into<String>) {
        self.parts.push(Part { what: what.into(), id: Ok(id), detail: detail.into() });
    }
}

/// Reads everything that a request names. `progress` is told bytes as data is hashed.
pub fn observe(request: &Request, progress: &(dyn Fn(u64) + Sync)) -> Result<Inputs, Error> {
    let argv: Vec<String> = request.argv.iter().map(|word| escape(word.as_encoded_bytes())).collect();
    let argv = environment::redact_argv(&argv);
    let mut inputs = Inputs {
        plan: Plan {
            nonce: None,
            name: request.name.as_ref().map(ToString::to_string),
            config: None,
            code: None,
            environment: None,
            data: Vec::new(),
            base: Vec::new(),
            contracts: Vec::new(),
            policies: Vec::new(),
            spec: None,
            none: BTreeMap::new(),
            argv: environment::relative_argv(&argv, &request.root, &request.cwd),
            seed: request.seed,
            study: request.study.clone(),
            arm: request.arm.clone(),
        },
        objects: Vec::new(),
        frozen_config: None,
        parts: Vec::new(),
        warnings: Vec::new(),
        untracked: None,
        by_size: Vec::new(),
        texts: BTreeMap::new(),
        paths: BTreeMap::new(),
        stats: BTreeMap::new(),
        argv,
        variables: environment::allowed_variables(&request.machine.variables).into_iter().collect(),
        about: BTreeMap::new(),
        environment: None,
        met: None,
    };
    inputs.texts.extend(request.machine.host.clone().map(|host| ("host".to_owned(), host)));
    inputs.texts.extend(request.machine.user.clone().map(|user| ("user".to_owned(), user)));
    // A start compares in the directory that was frozen from, wherever it is called.
    if request.root != request.anchor {
        inputs.texts.insert(ROOT.to_owned(), private_path(&request.root, &request.anchor));
    }
    read_config(request, &mut inputs)?;
    read_code(request, &mut inputs)?;
    read_environment(request, &mut inputs)?;
    if !request.compare_only {
        let place = Place { argv: &request.argv, machine: &request.machine, root: &request.root };
        let known = inputs.environment.clone().unwrap_or_else(|| declared(None, None, None));
        inputs.met = Some(place.met(known));
    }
    read_contents(request, &mut inputs, progress)?;
    for path in &request.contracts {
        let text = inputs.blob(read_file(path)?);
        let id = inputs.stage(&Contract { text })?;
        inputs.plan.contracts.push(id);
        inputs.part(format!("contract {}", file_name(path)), id, "");
    }
    if let Some(path) = &request.policy {
        let text = inputs.blob(read_file(path)?);
        let id = inputs.stage(&Policy { text })?;
        inputs.plan.policies.push(id);
        inputs.part("policy", id, file_name(path));
    }
    Ok(inputs)
}

fn file_name(path: &Path) -> String {
    escape(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes())
}

fn read_config(request: &Request, inputs: &mut Inputs) -> Result<(), Error> {
    if request.configs.is_empty() && request.sets.is_empty() {
        inputs.none("config", "no config file was given");
        return Ok(());
    }
    let mut value = Value::Map(BTreeMap::new());
    let mut sources = Vec::new();
    let (mut job, mut names) = (None, Vec::new());
    for (given, n) in request.configs.iter().zip(0..) {
        let path = &match hydra::meant(given) {
            hydra::Meant::File(path) => path,
            hydra::Meant::Multirun(jobs) => return Err(Error::Multirun { path: given.clone(), jobs }),
        };
        let bytes = read_file(path)?;
        let format = config::Format::of(path).ok_or_else(|| Error::UnknownFormat { path: path.clone() })?;
        let name = private_path(path, &request.anchor);
        refuse_secrets(&name, &String::from_utf8_lossy(&bytes))?;
        let read = config::read(&bytes, format, &name)?;
        inputs.warnings.extend(read.warnings.iter().map(ToString::to_string));
        job = job.or_else(|| hydra::job_of(path, &read.value));
        if hydra::has_defaults(&read.value) {
            inputs
                .warnings
                .push(format!("{name} has a list of defaults: what Hydra composes of it is another config"));
        }
        value = if n == 0 { read.value } else { config::merge(value, read.value) };
        sources.push(inputs.blob(bytes));
        names.push(name.clone());
        inputs.paths.insert(format!("config {n}"), name);
    }
    for (assignment, n) in request.sets.iter().zip(0..) {
        let warnings = config::set(&mut value, assignment)?;
        inputs.warnings.extend(warnings.iter().map(ToString::to_string));
        inputs.texts.insert(format!("set {n}"), assignment.clone());
    }
    let name = if names.is_empty() { "--set".to_owned() } else { names.join(", ") };
    config::refuse_unresolved(&value, &name)
        .map_err(|what| Error::Unresolved { what, job: job.map(Box::new) })?;
    refuse_secret_values(&name, &value)?;
    if let (Some(seed), Some(config::Value::Int(text))) = (request.seed, config::top_level_seed(&value))
        && *text != seed.to_string()
    {
        inputs
            .warnings
            .push(format!("the config says seed {text}, --seed says {seed}; the run is frozen with {seed}"));
    }
    if inputs.plan.seed.is_none()
        && let Some(config::Value::Int(text)) = config::top_level_seed(&value)
    {
        inputs.plan.seed = text.parse().ok();
    }
    let json = config::canonical(&value);
    let frozen = inputs.blob(json.clone());
    inputs.frozen_config = Some(json);
    let id = inputs.stage(&Config { frozen, sources })?;
    inputs.plan.config = Some(id);
    inputs.part("config", id, names.join(", "));
    Ok(())
}

fn read_code(request: &Request, inputs: &mut Inputs) -> Result<(), Error> {
    if request.no_code {
        inputs.none("code", "--no-code was given");
        return Ok(());
    }
    let state = match code::observe(&request.root) {
        Observed::Git(state) => state,
        Observed::None { reason } => {
            inputs.none("code", &reason);
            return Ok(());
        }
        Observed::Unknown { reason } => {
            inputs.warnings.push(format!("the state of the code is unknown: {reason}"));
            inputs.none("code", &format!("unknown: {}", without_paths(&reason)));
            return Ok(());
        }
    };
    let mut record = Code {
        format: state.object_format.clone(),
        commit: state.commit.clone(),
        tree: state.tree.clone(),
        project: Bytes(state.project.clone()),
        dirt: Dirt::Clean,
        reason: None,
        files: Vec::new(),
        diff: None,
        submodules: Vec::new(),
    };
    for module in &state.submodules {
        record.submodules.push(Submodule {
            path: Bytes(module.path.clone()),
            commit: module.commit.clone(),
            dirty: module.dirty,
        });
    }
    let short = &state.commit[..state.commit.len().min(7)];
    let mut detail = format!("commit {short}");
    match &state.dirt {
        code::Dirt::Clean => {}
        code::Dirt::Dirty { files, diff } => {
            if !request.allow_dirty {
                let files = files.iter().map(|file| (escape(&file.path), file.change)).collect();
                return Err(Error::DirtyTree { commit: state.commit.clone(), files, diff: diff.len() });
            }
            refuse_secrets("the diff of the code", &String::from_utf8_lossy(diff))?;
            record.dirt = Dirt::Dirty;
            record.files =
                files.iter().map(|file| (Bytes(file.path.clone()), file.change.to_string())).collect();
            record.files.sort();
            record.files.dedup_by(|a, b| a.0 == b.0);
            record.diff = Some(inputs.blob(diff.clone()));
            detail = format!("{detail} and {}", count(files.len() as u64, "changed file"));
            inputs
                .warnings
                .push(format!("{} from the commit; the diff is stored", super::differing(files.len())));
        }
        code::Dirt::Unknown { reason } => {
            record.dirt = Dirt::Unknown;
            record.reason = Some(without_paths(reason));
            detail = format!("{detail}, changes unknown");
            inputs.warnings.push(format!("whether tracked files differ is unknown: {reason}"));
        }
    }
    inputs.texts.extend(state.branch.clone().map(|branch| ("branch".to_owned(), branch)));
    inputs.texts.extend(state.remote.clone().map(|remote| ("remote".to_owned(), remote)));
    let id = inputs.stage(&record)?;
    inputs.plan.code = Some(id);
    inputs.part("code", id, detail);
    if request.compare_only { Ok(()) } else { read_untracked(request, inputs) }
}

fn read_untracked(request: &Request, inputs: &mut Inputs) -> Result<(), Error> {
    let mut ignore = request.outputs.clone();
    for input in request.data.values().chain(request.base.values()) {
        // Data and base models are fingerprinted by themselves.
        if let Input::Path(path) = input {
            ignore.push(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        }
    }
    let (files, omitted) = match code::untracked(&request.root, &ignore) {
        Ok(found) => found,
        Err(error) => {
            inputs.warnings.push(format!("untracked files are not listed: {error}"));
            return Ok(());
        }
    };
    if files.is_empty() {
        return Ok(());
    }
    let mut entries = Vec::new();
    for file in &files {
        match file.digest {
            Some(id) if !file.path.ends_with(b"/") => {
                entries.push((file.path.clone(), What::File { exec: file.exec, size: file.size, id }));
            }
            _ => inputs.by_size.push((escape(&file.path), file.size)),
        }
    }
    let names: Vec<String> = files.iter().take(3).map(|file| escape(&file.path)).collect();
    let more = if files.len() > 3 { ", ..." } else { "" };
    let total = files.len() as u64 + omitted;
    let files_are =
        if total == 1 { "1 untracked file is".to_owned() } else { format!("{total} untracked files are") };
    inputs.warnings.push(format!("{files_are} in no commit: {}{more}", names.join(", ")));
    if !inputs.by_size.is_empty() || omitted > 0 {
        let count = inputs.by_size.len() as u64 + omitted;
        inputs
            .warnings
            .push(format!("{count} of them are too large or too many and are listed by size only"));
    }
    if entries.is_empty() {
        return Ok(());
    }
    let files = entries.iter().map(|(path, what)| (path.as_slice(), what.clone()));
    let tree =
        walk::tree_of(files).map_err(|source| walk::Error::Content { path: request.root.clone(), source })?;
    inputs.untracked = Some(TypedId::new(Kind::Tree, tree.id));
    inputs.objects.extend(tree.nodes.into_iter().map(|(_, bytes)| bytes));
    Ok(())
}

fn read_environment(request: &Request, inputs: &mut Inputs) -> Result<(), Error> {
    let path = request.lock.clone().or_else(|| environment::find_lock(&request.root));
    let place = Place { argv: &request.argv, machine: &request.machine, root: &request.root };
    let interpreter = if request.compare_only { None } else { place.interpreter() };
    let lock = match &path {
        Some(path) => {
            let lock = environment::read_lock(path, &Place::target(interpreter.as_ref()))?;
            refuse_secrets(&file_name(path), &String::from_utf8_lossy(&lock.bytes))?;
            if !lock.unhashed.is_empty() {
                let (name, count) = (file_name(path), lock.unhashed.len());
                let have = if count == 1 { "requirement has" } else { "requirements have" };
                inputs.warnings.push(format!("{name}: {count} {have} no hash"));
            }
            inputs.warnings.extend(lock.notes.iter().cloned());
            inputs.paths.insert("lock".to_owned(), private_path(path, &request.anchor));
            Some(lock)
        }
        None => None,
    };
    if lock.is_none() && interpreter.is_none() {
        inputs.none("environment", "neither a lock file nor an interpreter was found");
        return Ok(());
    }
    if lock.is_none() {
        inputs.warnings.push("no lock file was found: the packages of this run are not recorded".to_owned());
    }
    let installed = place.installed(interpreter.as_ref(), lock.as_ref());
    let mut detail = Vec::new();
    let mut lock_file = None;
    if let Some(lock) = lock {
        let (name, quality, packages) = (file_name(&lock.path), lock.quality.as_str(), lock.count());
        let counted = packages.map_or(String::new(), |n| format!(", {}", count(n, "package")));
        detail.push(format!("{name} ({quality}{counted})"));
        let editable = Some(lock.editable.len() as u64).filter(|n| *n > 0);
        let file = inputs.blob(lock.bytes);
        lock_file = Some(LockFile { name, quality: quality.to_owned(), file, packages, editable });
    }
    detail.extend(interpreter.iter().map(|python| format!("{} {}", python.label(), python.version)));
    let installed = installed.map(|found| {
        inputs.warnings.extend(found.warning.clone());
        let file = inputs.blob(found.json.clone());
        found.record(file)
    });
    let record = declared(lock_file, interpreter.as_ref(), installed);
    let id = inputs.stage(&record)?;
    inputs.plan.environment = Some(id);
    inputs.environment = Some(record);
    inputs.part("environment", id, detail.join(", "));
    Ok(())
}

fn read_contents(
    request: &Request,
    inputs: &mut Inputs,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    for (what, given) in [("data", &request.data), ("base", &request.base)] {
        if given.is_empty() {
            inputs.none(what, if what == "data" { "no data was named" } else { "no base model was named" });
        }
        for (role, input) in given {
            let (id, detail) = match input {
                Input::Known(id) => (*id, String::new()),
                Input::Path(path) => read_content(what, role, path, request, inputs, progress)?,
            };
            let list = if what == "data" { &mut inputs.plan.data } else { &mut inputs.plan.base };
            list.push((role.clone(), id));
            inputs.part(format!("{what} {role}"), id, detail);
        }
    }
    Ok(())
}

fn read_content(
    what: &str,
    role: &str,
    path: &Path,
    request: &Request,
    inputs: &mut Inputs,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(TypedId, String), Error> {
    let options = Options::new(Digests::Blake3).reading(&request.reading);
    let tree = walk::observe(path, &options, progress)?;
    refuse_pointers(&tree, path)?;
    let kind = match tree.root {
        Root::File { .. } => Kind::Blob,
        Root::Dir => Kind::Tree,
    };
    let root = TypedId::new(kind, tree.id);
    let key = format!("{what} {role}");
    let shown = private_path(path, &request.anchor);
    let detail = match tree.root {
        Root::File { .. } => format!("{shown}, {}", size(tree.bytes)),
        Root::Dir => format!("{shown}, {}, {}", count(tree.files.len() as u64, "file"), size(tree.bytes)),
    };
    let line = if what == "data" {
        let found = dataset::describe(&tree, path);
        inputs.warnings.extend(found.notes.iter().map(|text| format!("{key}: {text}")));
        found.line()
    } else {
        hub::locate(path).map_or(String::new(), |place| place.short())
    };
    let detail = if line.is_empty() || line == "files" { detail } else { format!("{detail}, {line}") };
    if !line.is_empty() {
        inputs.about.insert(key.clone(), line);
    }
    inputs.paths.insert(key.clone(), shown);
    inputs.stats.insert(key, tree.stat_digest());
    inputs.objects.extend(tree.nodes.into_iter().map(|(_, bytes)| bytes));
    let id = if what == "data" { inputs.stage(&Dataset { root })? } else { inputs.stage(&Model { root })? };
    Ok((id, detail))
}

/// Returns both digests of bytes, as the manifest states them.
pub(super) fn digests(bytes: &[u8]) -> (String, String) {
    (object_id(bytes).to_hex(), sha256(bytes).to_hex())
}
