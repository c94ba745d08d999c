//! `ledger init`: a new ledger, a key if there is none, a pin, and a first `ledger.toml`.
//!
//! What makes the ledger itself is the library's; what is guessed here only fills a file for people to edit.

use std::path::{Path, PathBuf};

use crate::capture::environment::find_lock;
use crate::durable::{Created, fresh, outside};
use crate::ledger::{self, Founder, Ledger, Rescue};
use crate::log::key_file::KeyFile;

use super::error::Failure;
use super::fork;
use super::settings::{Context, PROJECT_FILE, disk, quoted, toml_text};
use super::ui::{Answer, Exit};

/// Make a ledger, and a key for yourself if you have none
///
/// Writes DIR/.ledger, pins the new ledger in your trust file, and leaves a commented ledger.toml that
/// names what was found in DIR. Prints the ledger's id.
///
/// With --fork, the ledger that is there becomes another one that goes on from its last head: with a new
/// id, all that was stated, and the keys and roles as they were. The old log is kept and not written to.
/// It is for a copy whose original lives on, or whose newer statements are lost. Only an owner, or the
/// recovery key, makes one; nobody who trusts the old ledger trusts the new one for that.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger init                     in the project's directory\n  \
                         ledger init --shared /srv/exp   for all users of a group\n  \
                         ledger init --fork              go on from a copy, as a ledger of its own")]
pub(super) struct Args {
    /// Where the project lies
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Let the directory's group write
    #[arg(long)]
    shared: bool,
    /// Make a recovery key in FILE, to be kept offline
    #[arg(long, value_name = "FILE")]
    recovery: Option<PathBuf>,
    /// The name that people see beside your new key
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Go on from the ledger that is there, under a new id
    #[arg(long, conflicts_with_all = ["shared", "recovery", "name"])]
    fork: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ui = &context.ui;
    let dir = context.path(&args.dir);
    if args.fork {
        return fork::run(&dir, context);
    }
    let root = dir.join(ledger::DIR);
    if !dir.is_dir() {
        return Err(Failure::new(
            "bad-data",
            Exit::Usage,
            format!("`{}` is no directory", args.dir.display()),
        )
        .hint(format!("mkdir -p {}", quoted(&args.dir))));
    }
    if root.symlink_metadata().is_ok() {
        return Err(exists(&root, context));
    }
    for left in fresh::left_behind(&dir, ledger::DIR)? {
        ui.talk(format!("note: `{}` is left over from an `init` that was cut short", left.display()));
    }
    if let Some(outer) = dir.parent().and_then(Ledger::find) {
        ui.talk(format!("note: `{}` is a ledger too; from here on the inner one is meant", outer.display()));
    }
    let (key, made) = own_key(args, context)?;
    let log = key.log().ok_or_else(|| {
        Failure::new("no-key", Exit::Unknown, "the key file has no log key, which a founder needs")
    })?;
    let recovery = args.recovery.as_deref().map(|file| recovery_key(file, &key, context)).transpose()?;
    let founder = Founder {
        name: key.name(),
        author: key.author(),
        log,
        recovery: recovery.as_ref().map(|key| Rescue { key: key.author(), log: key.log() }),
        time: context.now,
        nonce: context.random()?,
        instance: context.random()?,
        shared: args.shared,
    };
    let id = ledger::init(&disk(), &dir, &founder).map_err(|error| match error {
        ledger::Error::Disk(crate::durable::Error::Exists { .. }) => exists(&root, context),
        error => error.into(),
    })?;

    // The ledger stands from here on: what cannot be kept outside of it is told and changes nothing.
    let study = study_name(&dir);
    let pinned = match context.pin(id, study.as_deref()) {
        Ok(path) => Some(path),
        Err(failure) => {
            ui.warn(format!("the ledger is not pinned: {}", failure.message));
            None
        }
    };
    match Ledger::open(&root, context.home()) {
        Ok(ledger) => ledger.notices().iter().for_each(|notice| ui.verbose(1, format!("note: {notice}"))),
        Err(error) => return Err(error.into()),
    }
    let project = dir.join(PROJECT_FILE);
    let template = template(&dir, study.as_deref());
    match outside::create(&disk(), &project, template.as_bytes(), 0o644) {
        Ok(Created::New) => ui.talk(format!("wrote    {} for you to edit", project.display())),
        Ok(Created::Exists) => ui.talk(format!("kept     {}", project.display())),
        Err(error) => ui.warn(format!("no `{PROJECT_FILE}` was written: {error}")),
    }
    ui.talk(format!("made     {}", root.display()));
    match &made {
        Some(path) => ui.talk(format!("key      {} (new: keep it secret, keep a copy)", path.display())),
        None => ui.talk(format!("key      of {}", key.name())),
    }
    if let Some(file) = &args.recovery {
        ui.talk(format!("recovery {} (move it off this machine)", file.display()));
    }
    if let Some(path) = &pinned {
        ui.talk(format!("pinned   in {}", path.display()));
    }

    let mut answer = Answer::new("ledger.init/1");
    answer.line(id);
    answer.set("ledger", id.to_hex());
    answer.set("directory", root.display().to_string());
    answer.set("holder", key.name());
    answer.set("key_file", made.map(|path| path.display().to_string()));
    answer.set("pinned_in", pinned.map(|path| path.display().to_string()));
    Ok(answer)
}

fn exists(root: &Path, context: &Context) -> Failure {
    let failure = Failure::new("exists", Exit::Refused, format!("`{}` is there already", root.display()));
    match Ledger::open(root, context.home()) {
        Ok(ledger) => failure.fact(format!("ledger  {}", ledger.id())).hint("ledger"),
        Err(error) => failure.because(error),
    }
}

/// Returns the user's key, and the path of its file if it was made now.
fn own_key(args: &Args, context: &Context) -> Result<(KeyFile, Option<PathBuf>), Failure> {
    let is_free = |path: PathBuf| path.symlink_metadata().is_err();
    let is_missing = !context.is_key_named() && context.key_path().is_some_and(is_free);
    if !is_missing {
        return Ok((context.key_file()?, None));
    }
    let name = args.name.clone().unwrap_or_else(|| context.user_name());
    let passphrase = context.new_passphrase(None, false)?;
    context.make_key(&name, None, passphrase.as_ref()).map(|(key, path)| (key, Some(path)))
}

/// Makes the recovery key's file before the ledger names the key: one that is lost can never be replaced.
///
/// It has a log key of its own, so that it can order what it says when all other keys are gone.
fn recovery_key(file: &Path, owner: &KeyFile, context: &Context) -> Result<KeyFile, Failure> {
    let path = context.path(file);
    let name = format!("{} (recovery)", owner.name());
    let key = KeyFile::new(&name, context.new_key()?, Some(context.new_key()?))
        .map_err(|error| Failure::usage("the recovery key cannot be named").because(error))?;
    let passphrase = context.new_passphrase(None, false)?;
    let text = context.key_file_text(&key, passphrase.as_ref())?;
    match outside::create(&disk(), &path, text.as_bytes(), 0o600)? {
        Created::New => Ok(key),
        Created::Exists => {
            Err(Failure::new("exists", Exit::Refused, format!("`{}` is there already", file.display())))
        }
    }
}

pub(super) fn study_name(dir: &Path) -> Option<String> {
    let real = dir.canonicalize().ok()?;
    Some(real.file_name()?.to_str()?.to_owned())
}

/// Writes a `ledger.toml` with what lies in a directory; what is not there stands in a comment.
fn template(dir: &Path, study: Option<&str>) -> String {
    let config = find_config(dir);
    let data = find_data(dir);
    let lock = find_lock(dir).and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let or_example = |found: Option<String>, example: &str| found.unwrap_or_else(|| format!("# {example}"));
    let study = or_example(study.map(|name| format!("study = {}", toml_text(name))), "study = \"NAME\"");
    let config = or_example(
        config.map(|name| format!("config = [{}]", toml_text(name))),
        "config = [\"config.yaml\"]",
    );
    let data = or_example(
        data.map(|(role, path)| format!("data = {{ {role} = {} }}", toml_text(&path))),
        "data = { train = \"data/train.jsonl\" }",
    );
    let lock =
        or_example(lock.map(|name| format!("lock = {}", toml_text(&name))), "lock = \"requirements.lock\"");
    format!(
        "\
# What `ledger freeze` and `ledger run` freeze when no flag says otherwise.

# The study that runs belong to, and the arm of it.
{study}
# arm = \"baseline\"

# Configuration files, merged in this order.
{config}

# Data by the role that it plays: a path, or a recorded dataset as \"data:NAME\".
{data}

# Models that training starts from: a path, or what is recorded as \"model:NAME\" or \"ck:ID\".
# base = {{ policy = \"models/base\" }}

# The lock file of the environment.
{lock}

# The seed, where the configuration has none.
# seed = 0
"
    )
}

fn find_config(dir: &Path) -> Option<&'static str> {
    ["config.yaml", "config.yml", "config.json", "config.toml", "conf/config.yaml"]
        .into_iter()
        .find(|name| dir.join(name).is_file())
}

/// Guesses the data: a directory of that name, or the only file of a data format.
fn find_data(dir: &Path) -> Option<(&'static str, String)> {
    if dir.join("data").is_dir() {
        return Some(("data", "data".to_owned()));
    }
    let is_data = |name: &str| [".csv", ".jsonl", ".parquet"].iter().any(|end| name.ends_with(end));
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let files = entries.filter(|entry| entry.path().is_file());
    let mut names =
        files.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_data(name));
    match (names.next(), names.next()) {
        (Some(only), None) => Some(("train", only)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Project;
    use super::*;

    fn lay(dir: &Path, name: &str) {
        let _new = outside::create(&disk(), &dir.join(name), b"", 0o644).unwrap();
    }

    fn read(dir: &Path, study: Option<&str>) -> Project {
        let text = template(dir, study);
        outside::replace(&disk(), &dir.join(PROJECT_FILE), text.as_bytes(), 0o644).unwrap();
        Project::read(dir).unwrap()
    }

    #[test]
    fn the_template_is_read_as_what_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let empty = read(dir.path(), None);
        assert_eq!(empty, Project { root: dir.path().to_owned(), ..Project::default() });
        for name in ["conf/config.yaml", "uv.lock", "it's \"data\".csv"] {
            lay(dir.path(), name);
        }
        let found = read(dir.path(), Some("a \"study\"\\"));
        assert_eq!(found.study.as_deref(), Some("a \"study\"\\"));
        assert_eq!(found.config, [Path::new("conf/config.yaml")]);
        assert_eq!(found.data, [("train".to_owned(), "it's \"data\".csv".to_owned())].into());
        assert_eq!(found.lock.as_deref(), Some(Path::new("uv.lock")));
    }

    #[test]
    fn two_candidates_for_data_are_no_guess() {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path(), "train.csv");
        lay(dir.path(), "test.csv");
        assert_eq!(find_data(dir.path()), None);
        lay(dir.path(), "data/train.csv");
        assert_eq!(find_data(dir.path()), Some(("data", "data".to_owned())));
    }
}
