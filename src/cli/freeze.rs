//! `ledger freeze`: fix what a run is made of, and plan it.
//!
//! The flags are shared with `run`, which freezes too when it is not given a run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use crate::acts::{self, Frozen, Input, Inputs, Machine, Request, Target};
use crate::ledger::{Ledger, Wanted};
use crate::model::{Kind, Name};

use super::error::Failure;
use super::settings::{Context, Project};
use super::ui::{Answer, Exit};
use super::{attempt, gaps};

/// What a run is frozen from; every flag defaults from `ledger.toml`.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct Flags {
    /// Config file (JSON, YAML or TOML); several are merged in order
    #[arg(short, long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Set one value of the config, as `optim.lr=1e-3`
    #[arg(long, value_name = "K=V")]
    set: Vec<String>,
    /// Data under a role of this run: a path or `data:NAME`
    #[arg(long, value_name = "ROLE=PATH")]
    data: Vec<String>,
    /// Base model under a role: a path, `ck:ID` or `model:NAME`
    #[arg(long, value_name = "ROLE=PATH")]
    base: Vec<String>,
    /// Lock file of the environment
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    lock: Option<PathBuf>,
    /// Seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Study that the run belongs to
    #[arg(long, value_name = "S", hide_short_help = true)]
    study: Option<String>,
    /// Arm of the study
    #[arg(long, value_name = "A", hide_short_help = true)]
    arm: Option<String>,
    /// Contract that the run is made for
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    contract: Vec<PathBuf>,
    /// Policy to be named before the result exists
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    policy: Option<PathBuf>,
    /// Name of the run, once for ever
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Directory for the run's files
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    out: Option<PathBuf>,
    /// Freeze although tracked files differ from the commit
    #[arg(long)]
    allow_dirty: bool,
    /// Do not look at the repository
    #[arg(long, hide_short_help = true)]
    no_code: bool,
    /// Run that this one is derived from
    #[arg(long, value_name = "RUN", hide_short_help = true)]
    from: Option<String>,
    #[command(flatten)]
    reading: super::reading::Reads,
}

/// Fix what a run is made of, and plan it
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "  ledger freeze -- python train.py\n  ledger freeze -c config.yaml --data train=data/ --name base -- python train.py",
    override_usage = "ledger freeze [FLAGS] [-- CMD...]"
)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Show what would be frozen, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// The command of the run
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    if context.rank().is_some_and(|rank| rank > 0) {
        let mut answer = Answer::new("ledger.freeze/1");
        match context.filled("LEDGER_RUN") {
            Some(run) => answer.line(run),
            None => context.ui.talk("on a rank above 0, `freeze` does nothing"),
        }
        return Ok(answer);
    }
    gaps::guarded(context, "freeze", "ledger.freeze/1", || {
        let mut ledger = context.open()?;
        let request = request(&args.flags, &args.command, context, &ledger)?;
        let inputs = observe(&request, context)?;
        let mut answer = Answer::new("ledger.freeze/1");
        if args.dry_run {
            tell(&inputs, context);
            let run = acts::plan_only(&inputs)?;
            if let Some(run) = run {
                answer.line(run);
            }
            answer.set("run", run.map(|run| run.to_string()));
            answer.set("parts", parts(&inputs));
            context.ui.talk("nothing was written (--dry-run)");
            return Ok(answer);
        }
        let is_named = request.name.is_some();
        answer.set("parts", parts(&inputs));
        let frozen = freeze(&mut ledger, &inputs, &request, &args.flags, context, false)?;
        if let Some(outcome) = frozen.outcome.clone() {
            // Whether a name is ours depends on the order; an unnamed run only has to be durable.
            if is_named {
                context.ordered(outcome)?;
            } else {
                context.settle(outcome);
            }
        } else {
            context.ui.talk("that run is frozen already, from equal inputs");
        }
        context.ui.talk(format!("files        {}", frozen.files.dir.display()));
        answer.line(frozen.run);
        answer.set("run", frozen.run.to_string());
        answer.set("dir", frozen.files.dir.display().to_string());
        Ok(answer)
    })
}

/// Freezes what was observed, and starts an attempt in the same statement if asked to.
pub(super) fn freeze(
    ledger: &mut Ledger,
    inputs: &Inputs,
    request: &Request,
    flags: &Flags,
    context: &Context,
    start: bool,
) -> Result<Frozen, Failure> {
    tell(inputs, context);
    let key = context.key_file()?;
    let from = match &flags.from {
        Some(text) => Some(ledger.resolve(text, Wanted::Kind(Kind::Plan), context.filled("LEDGER_RUN"))?),
        None => None,
    };
    let out = out(flags, request, context, ledger)?;
    let job = attempt::job(context);
    let target = Target { out: out.as_deref(), from, start, job: job.as_deref() };
    let mut entropy = context.entropy()?;
    Ok(acts::freeze(ledger, inputs, &target, &context.signer(&key), &mut entropy)?)
}

fn out(
    flags: &Flags,
    request: &Request,
    context: &Context,
    ledger: &Ledger,
) -> Result<Option<PathBuf>, Failure> {
    Ok(match &flags.out {
        Some(out) => Some(context.path(out)),
        None => context.project(ledger)?.out.map(|out| request.root.join(out)),
    })
}

fn parts(inputs: &Inputs) -> Vec<Value> {
    let part = |part: &acts::Part| {
        let (id, none) = (part.id.as_ref().ok(), part.id.as_ref().err());
        json!({"what": part.what, "id": id.map(ToString::to_string), "none": none, "detail": part.detail})
    };
    inputs.parts.iter().map(part).collect()
}

fn tell(inputs: &Inputs, context: &Context) {
    for part in &inputs.parts {
        let what = format!("{:<12}", part.what);
        match &part.id {
            Ok(id) => context.ui.talk(format!("{what} {}  {}", id.short(), part.detail).trim_end()),
            Err(reason) => context.ui.talk(format!("{what} none: {reason}")),
        }
    }
    for warning in &inputs.warnings {
        context.ui.warn(warning);
    }
}

/// Reads everything that a request names, with progress.
pub(super) fn observe(request: &Request, context: &Context) -> Result<Inputs, Failure> {
    let progress = context.ui.progress("hashed", None);
    Ok(acts::observe(request, &|bytes| progress.add(bytes))?)
}

/// Returns what the machine says of itself.
pub(super) fn machine(context: &Context) -> Machine {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Machine {
        variables: context.vars.clone(),
        host: Some(host),
        user: context.filled("USER").map(str::to_owned),
    }
}

/// Joins flags with what `ledger.toml` says.
pub(super) fn request(
    flags: &Flags,
    command: &[OsString],
    context: &Context,
    ledger: &Ledger,
) -> Result<Request, Failure> {
    let project: Project = context.project(ledger)?;
    let (root, anchor) = (project.root.clone(), ledger.project().to_owned());
    let configs = if flags.config.is_empty() {
        project.config.iter().map(|path| root.join(path)).collect()
    } else {
        flags.config.iter().map(|path| context.path(path)).collect()
    };
    let contracts = if flags.contract.is_empty() {
        project.contract.iter().map(|path| root.join(path)).collect()
    } else {
        flags.contract.iter().map(|path| context.path(path)).collect()
    };
    let name = match &flags.name {
        Some(text) => Some(parse_name(text)?),
        None => None,
    };
    let here = |path: &PathBuf| context.path(path);
    let there = |path: PathBuf| root.join(path);
    let data = contents(&flags.data, &project.data, &[Kind::Dataset], context, ledger, &root)?;
    let base =
        contents(&flags.base, &project.base, &[Kind::Model, Kind::Checkpoint], context, ledger, &root)?;
    let outputs =
        flags.out.iter().map(|out| context.path(out)).chain(project.out.iter().map(|out| root.join(out)));
    Ok(Request {
        outputs: outputs.collect(),
        cwd: context.cwd.clone(),
        configs,
        sets: flags.set.clone(),
        data,
        base,
        lock: flags.lock.as_ref().map(here).or(project.lock.map(there)),
        seed: flags.seed.or(project.seed),
        study: flags.study.clone().or(project.study),
        arm: flags.arm.clone().or(project.arm),
        name,
        contracts,
        policy: flags.policy.as_ref().map(here).or(project.policy.map(there)),
        argv: command.to_vec(),
        no_code: flags.no_code,
        allow_dirty: flags.allow_dirty,
        machine: machine(context),
        compare_only: false,
        reading: context.reading(flags.reading),
        root,
        anchor,
    })
}

/// Parses a ledger-wide name.
pub(super) fn parse_name(text: &str) -> Result<Name, Failure> {
    Name::parse(text).ok_or_else(|| {
        Failure::usage(format!("`{text}` is not a name"))
            .fact("a name is 1 to 128 of a-z, 0-9, `.`, `_`, `/` and `-`, and begins with a letter or digit")
    })
}

fn contents(
    flags: &[String],
    project: &BTreeMap<String, String>,
    kinds: &[Kind],
    context: &Context,
    ledger: &Ledger,
    root: &Path,
) -> Result<BTreeMap<String, Input>, Failure> {
    let mut found = BTreeMap::new();
    if flags.is_empty() {
        for (role, text) in project {
            found.insert(role.clone(), content(text, kinds, ledger, &|path| root.join(path))?);
        }
    }
    for flag in flags {
        let Some((role, text)) = flag.split_once('=') else {
            return Err(
                Failure::usage(format!("`{flag}` is not ROLE=PATH")).hint(format!("--data train={flag}"))
            );
        };
        let input = content(text, kinds, ledger, &|path| context.path(path))?;
        if role.is_empty() || found.insert(role.to_owned(), input).is_some() {
            return Err(Failure::usage(format!("role `{role}` is empty or given twice")));
        }
    }
    Ok(found)
}

/// Takes `kind:...` as something recorded, and anything else as a path.
fn content(
    text: &str,
    kinds: &[Kind],
    ledger: &Ledger,
    place: &dyn Fn(&Path) -> PathBuf,
) -> Result<Input, Failure> {
    for kind in kinds {
        let is_id = text.strip_prefix(kind.prefix()).is_some_and(|rest| rest.starts_with(':'));
        if is_id {
            return Ok(Input::Known(ledger.resolve(text, Wanted::Kind(*kind), None)?));
        }
    }
    Ok(Input::Path(place(Path::new(text))))
}

/// Returns the run that a command is about: the one given, else that of `LEDGER_RUN`.
pub(super) fn run_of(
    text: Option<&str>,
    context: &Context,
    ledger: &Ledger,
) -> Result<crate::model::TypedId, Failure> {
    let current = context.filled("LEDGER_RUN");
    let Some(text) = text.or(current) else {
        return Err(Failure::new(
            "usage",
            Exit::Usage,
            "which run? None is given and `LEDGER_RUN` is not set",
        )
        .hint("ledger ls runs"));
    };
    Ok(ledger.resolve(text, Wanted::Kind(Kind::Plan), current)?)
}
