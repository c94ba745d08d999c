//! Drift: what lies on disk now against what a plan froze, field by field.
//!
//! It is judged on config, code and lock file, which are always read again; data and base models are read
//! again when names, sizes or times changed, or when everything is asked for. The environment of a compute
//! node may differ from that of a login node, so beyond the lock file it is recorded and not judged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::capture::config;
use crate::capture::walk::{self, Options};
use crate::id::Digests;
use crate::ledger::Ledger;
use crate::model::{self, Code, Config, Dataset, Environment, Kind, Model, Plan, Private, TypedId};

use super::inputs::{Inputs, ROOT, Request, observe};
use super::{Error, open_private_path};

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// `config`, `code`, `lock`, `data train`, ...
    pub part: String,
    /// Which field of it, as `optim.lr`.
    pub path: String,
    /// What was frozen.
    pub frozen: String,
    /// What was found.
    pub found: String,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// What differs.
    pub differences: Vec<Difference>,
    /// What is the same.
    pub same: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

const ABSENT: &str = "(absent)";

/// Compares a run's inputs on disk with its plan. `place` says on what machine; `full` reads everything.
pub fn drift(
    ledger: &Ledger,
    run: TypedId,
    plan: &Plan,
    place: &Request,
    full: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Drift, Error> {
    let private = private_of(ledger, run)?;
    let anchor = ledger.project();
    let open = |path: &String| open_private_path(path, anchor);
    let mut request = Request {
        root: project_of(ledger, run)?,
        anchor: anchor.to_owned(),
        no_code: plan.code.is_none(),
        allow_dirty: true,
        compare_only: true,
        lock: private.paths.get("lock").map(open),
        ..place.clone()
    };
    request.configs = numbered(&private.paths, "config ").map(open).collect();
    request.sets = numbered(&private.texts, "set ").cloned().collect();
    (request.data, request.base, request.contracts, request.policy) =
        (BTreeMap::new(), BTreeMap::new(), Vec::new(), None);
    let inputs = observe(&request, progress)?;
    let mut drift = Drift { warnings: inputs.warnings.clone(), ..Drift::default() };
    compare(ledger, plan, &inputs.plan, &inputs, &mut drift)?;
    for (what, list) in [("data", &plan.data), ("base", &plan.base)] {
        for (role, frozen) in list {
            let key = format!("{what} {role}");
            compare_content(ledger, &key, *frozen, &private, full, progress, &mut drift)?;
        }
    }
    Ok(drift)
}

/// Returns the directory that a run was frozen from.
pub(super) fn project_of(ledger: &Ledger, run: TypedId) -> Result<PathBuf, Error> {
    let anchor = ledger.project();
    let private = private_of(ledger, run)?;
    Ok(private.texts.get(ROOT).map_or_else(|| anchor.to_owned(), |path| open_private_path(path, anchor)))
}

fn private_of(ledger: &Ledger, run: TypedId) -> Result<Private, Error> {
    let not_available = |what: &str| Error::NotAvailable { run, what: what.to_owned() };
    let claim = ledger.claim_of(run)?.ok_or_else(|| not_available("its claim"))?;
    let private = claim.link("private").ok_or_else(|| not_available("its private record"))?;
    ledger.record(private.id).map_err(|_| not_available("its private record"))
}

/// Returns the values of `prefix 0`, `prefix 1`, ... in their order.
fn numbered<'a>(map: &'a BTreeMap<String, String>, prefix: &'a str) -> impl Iterator<Item = &'a String> + 'a {
    (0..).map_while(move |n| map.get(&format!("{prefix}{n}")))
}

/// Compares two plans, of which the second was just read, for a freeze that repeats a name.
pub fn compare_plans(
    ledger: &Ledger,
    frozen: &Plan,
    found: &Plan,
    inputs: &Inputs,
) -> Result<(Vec<Difference>, Vec<String>), Error> {
    let mut drift = Drift::default();
    compare(ledger, frozen, found, inputs, &mut drift)?;
    for (what, frozen, found) in [("data", &frozen.data, &found.data), ("base", &frozen.base, &found.base)] {
        let frozen: BTreeMap<_, _> = frozen.iter().cloned().collect();
        let found: BTreeMap<_, _> = found.iter().cloned().collect();
        for role in frozen.keys().chain(found.keys().filter(|role| !frozen.contains_key(*role))) {
            let short = |id: Option<&TypedId>| id.map_or(ABSENT.to_owned(), TypedId::short);
            note(&mut drift, &format!("{what} {role}"), "", short(frozen.get(role)), short(found.get(role)));
        }
    }
    let list = |list: &[TypedId]| list.iter().map(TypedId::short).collect::<Vec<_>>().join(" ");
    note(&mut drift, "contract", "", list(&frozen.contracts), list(&found.contracts));
    note(&mut drift, "policy", "", list(&frozen.policies), list(&found.policies));
    note(&mut drift, "argv", "", frozen.argv.join(" "), found.argv.join(" "));
    let text = |text: Option<String>| text.unwrap_or_else(|| ABSENT.to_owned());
    note(
        &mut drift,
        "seed",
        "",
        text(frozen.seed.map(|s| s.to_string())),
        text(found.seed.map(|s| s.to_string())),
    );
    note(&mut drift, "study", "", text(frozen.study.clone()), text(found.study.clone()));
    note(&mut drift, "arm", "", text(frozen.arm.clone()), text(found.arm.clone()));
    if let (Some(a), Some(b)) = (frozen.environment, found.environment)
        && a != b
        && drift.differences.iter().all(|difference| difference.part != "lock")
    {
        let (a, b): (Environment, Environment) = (ledger.record(a.id)?, staged(inputs, b)?);
        let python = |environment: &Environment| match &environment.interpreter {
            Some(found) => format!("{} {}", found.name, found.version),
            None => ABSENT.to_owned(),
        };
        note(&mut drift, "environment", "interpreter", python(&a), python(&b));
        let platform = |environment: &Environment| format!("{} {}", environment.os, environment.arch);
        note(&mut drift, "environment", "platform", platform(&a), platform(&b));
        let quality = |environment: &Environment| {
            environment.lock.as_ref().map_or(ABSENT.to_owned(), |lock| lock.quality.clone())
        };
        note(&mut drift, "environment", "lock", quality(&a), quality(&b));
        drift.same.retain(|part| part != "environment");
    }
    Ok((drift.differences, drift.same))
}

/// Notes a part as the same, or what differs. Empty parts are not mentioned.
fn note(drift: &mut Drift, part: &str, path: &str, frozen: String, found: String) {
    if frozen == found {
        if !frozen.is_empty() && frozen != ABSENT {
            drift.same.push(part.to_owned());
        }
        return;
    }
    drift.differences.push(Difference { part: part.to_owned(), path: path.to_owned(), frozen, found });
}

fn compare(
    ledger: &Ledger,
    frozen: &Plan,
    found: &Plan,
    inputs: &Inputs,
    drift: &mut Drift,
) -> Result<(), Error> {
    compare_config(ledger, frozen, inputs, drift)?;
    match (frozen.code, found.code) {
        (Some(a), Some(b)) if a == b => drift.same.push("code".to_owned()),
        (Some(a), Some(b)) => compare_code(&ledger.record(a.id)?, &staged(inputs, b)?, drift),
        (None, None) => {}
        (a, b) => {
            let text = |id: Option<TypedId>, plan: &Plan| match id {
                Some(id) => id.short(),
                None => plan.none.get("code").cloned().unwrap_or_default(),
            };
            note(drift, "code", "", text(a, frozen), text(b, found));
        }
    }
    let lock = |environment: Option<Environment>| environment.and_then(|environment| environment.lock);
    let frozen_lock = lock(frozen.environment.map(|id| ledger.record(id.id)).transpose()?);
    let found_lock = lock(found.environment.map(|id| staged(inputs, id)).transpose()?);
    let text = |lock: Option<model::LockFile>| match lock {
        Some(lock) => format!("{} {}", lock.name, lock.file.short()),
        None => ABSENT.to_owned(),
    };
    note(drift, "lock", "", text(frozen_lock), text(found_lock));
    Ok(())
}

/// Reads a record that was observed but is not in the store.
fn staged<R: model::Record>(inputs: &Inputs, id: TypedId) -> Result<R, Error> {
    let of_id = |bytes: &&Vec<u8>| crate::id::object_id(bytes) == id.id;
    let bytes = inputs.objects.iter().rev().find(of_id).map(Vec::as_slice).unwrap_or_default();
    model::decode(bytes).map_err(|source| crate::ledger::Error::Record { id, source }.into())
}

fn compare_config(ledger: &Ledger, frozen: &Plan, inputs: &Inputs, drift: &mut Drift) -> Result<(), Error> {
    let frozen = match frozen.config {
        Some(id) => Some(ledger.bytes(ledger.record::<Config>(id.id)?.frozen.id)?),
        None => None,
    };
    match (frozen, &inputs.frozen_config) {
        (None, None) => {}
        (Some(a), Some(b)) if a == *b => drift.same.push("config".to_owned()),
        (Some(a), Some(b)) => {
            let frozen = config::parse_canonical(&a, "frozen-config.json")?;
            let found = config::parse_canonical(b, "config")?;
            for difference in config::differences(&frozen, &found) {
                drift.differences.push(Difference {
                    part: "config".to_owned(),
                    path: difference.path,
                    frozen: difference.left.unwrap_or_else(|| ABSENT.to_owned()),
                    found: difference.right.unwrap_or_else(|| ABSENT.to_owned()),
                });
            }
        }
        (a, _) => {
            let text = |there: bool| if there { "a config" } else { "no config" }.to_owned();
            note(drift, "config", "", text(a.is_some()), text(a.is_none()));
        }
    }
    Ok(())
}

fn compare_code(frozen: &Code, found: &Code, drift: &mut Drift) {
    let short = |commit: &str| commit[..commit.len().min(12)].to_owned();
    if frozen.commit != found.commit {
        note(drift, "code", "commit", short(&frozen.commit), short(&found.commit));
    }
    let files = |code: &Code| -> BTreeMap<String, String> {
        let escaped = |path: &model::Bytes| model::content::escape(&path.0);
        code.files.iter().map(|(path, change)| (escaped(path), change.clone())).collect()
    };
    let (before, after) = (files(frozen), files(found));
    let clean = || "as committed".to_owned();
    for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
        let of = |files: &BTreeMap<String, String>| {
            files.get(path).map_or_else(clean, |c| format!("changed ({c})"))
        };
        if before.get(path) != after.get(path) {
            drift.differences.push(Difference {
                part: "code".to_owned(),
                path: path.clone(),
                frozen: of(&before),
                found: of(&after),
            });
        }
    }
    if before == after && frozen.diff != found.diff {
        note(
            drift,
            "code",
            "changes",
            "the stored diff".to_owned(),
            "other changes in the same files".to_owned(),
        );
    }
    if frozen.dirt != found.dirt && before == after {
        let text =
            |code: &Code| code.reason.clone().unwrap_or_else(|| format!("{:?}", code.dirt).to_lowercase());
        note(drift, "code", "state", text(frozen), text(found));
    }
    if frozen.submodules != found.submodules {
        note(drift, "code", "submodules", "as frozen".to_owned(), "checked out otherwise".to_owned());
    }
    if frozen != found && drift.differences.iter().all(|difference| difference.part != "code") {
        note(
            drift,
            "code",
            "project",
            "as frozen".to_owned(),
            "another directory of the repository".to_owned(),
        );
    }
}

fn compare_content(
    ledger: &Ledger,
    key: &str,
    frozen: TypedId,
    private: &Private,
    full: bool,
    progress: &(dyn Fn(u64) + Sync),
    drift: &mut Drift,
) -> Result<(), Error> {
    // What was given as a record of the ledger has no path that could drift.
    let Some(path) = private.paths.get(key) else {
        drift.same.push(key.to_owned());
        return Ok(());
    };
    let path = open_private_path(path, ledger.project());
    let options = Options::new(Digests::Blake3);
    if !full
        && let Some(stat) = private.stats.get(key)
        && walk::stat_digest(&path, &options)? == *stat
    {
        drift.same.push(key.to_owned());
        return Ok(());
    }
    let root = match frozen.kind {
        Kind::Dataset => ledger.record::<Dataset>(frozen.id)?.root,
        Kind::Model => ledger.record::<Model>(frozen.id)?.root,
        _ => return Ok(()),
    };
    let found = walk::observe(&path, &options, progress)?;
    let short = |id: crate::id::ObjectId| id.to_hex()[..12].to_owned();
    note(drift, key, "", short(root.id), short(found.id));
    Ok(())
}
