//! Freezing: inputs become a plan in the ledger, and two files that a training program can read.
//!
//! A run is never "trained" because a plan exists: the manifest says `planned` and `trained: false`, and what
//! happens later is stated by other records. A freeze that gives the name or directory of an existing run
//! compares with it instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::capture::config::{self, Value};
use crate::durable::{Kind as FileKind, outside};
use crate::id::ObjectId;
use crate::ledger::{Ledger, Outcome, Signer, StagedClaim};
use crate::model::{self, About, Encoded, Environment, Kind, Name, Plan, Private, Start, TypedId};

use super::attempt::{request_id, start_record};
use super::drift::compare_plans;
use super::inputs::{Inputs, Part, digests};
use super::{Entropy, Error, draw, open_private_path, private_path, rfc3339};

/// Key of the run's directory among private paths.
const OUT: &str = "out";

/// Names of the files of a run: the configuration and the manifest.
pub const RUN_FILES: [&str; 2] = ["frozen-config.json", "run-manifest.json"];

/// Where a run's files lie.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// The directory.
    pub dir: PathBuf,
}

/// What a freeze led to.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The run.
    pub run: TypedId,
    /// How it was stated; `None` when an equal run was there already.
    pub outcome: Option<Outcome>,
    /// The attempt that was started in the same statement.
    pub start: Option<TypedId>,
    /// Where its files lie.
    pub files: RunFiles,
}

/// Where a freeze is to go.
#[derive(Debug)]
pub struct Target<'a> {
    /// Directory for the run's files instead of the ledger's own.
    pub out: Option<&'a Path>,
    /// The run that this one was derived from.
    pub from: Option<TypedId>,
    /// Start an attempt in the same statement.
    pub start: bool,
    /// The scheduler's job that starts it, as [`StartRequest`](super::StartRequest) has it.
    pub job: Option<&'a str>,
}

/// Plans a run, or finds that an equal one is planned under its name or in its directory.
pub fn freeze(
    ledger: &mut Ledger,
    inputs: &Inputs,
    target: &Target<'_>,
    signer: &Signer<'_>,
    entropy: &mut Entropy<'_>,
) -> Result<Frozen, Error> {
    if let Some(run) = existing(ledger, inputs, target.out, signer)? {
        let files = run_files(ledger, run.id, target.out);
        restore_run_files(ledger, run, &files)?;
        return Ok(Frozen { run, outcome: None, start: None, files });
    }
    let mut plan = inputs.plan.clone();
    if plan.name.is_none() {
        plan.nonce = Some(draw(entropy));
    }
    let encoded = model::encode(&plan)?;
    let manifest = manifest(ledger, &plan, encoded.id, inputs, signer.time);
    let files = run_files(ledger, encoded.id.id, target.out);
    let mut tx = ledger.transaction();
    tx.put_objects(inputs.objects.iter().cloned());
    tx.put_objects([encoded.bytes.clone()]);
    let manifest_id = tx.put_blob(manifest.clone());
    let mut private_record = private(inputs, entropy);
    if let Some(out) = target.out {
        private_record.paths.insert(OUT.to_owned(), private_path(out, tx.ledger().project()));
    }
    let private = tx.put(&private_record)?;
    let mut claim =
        StagedClaim::new(&plan, &encoded).beside("manifest", manifest_id).beside("private", private.id);
    if let Some(untracked) = inputs.untracked {
        claim = claim.beside("untracked", untracked);
    }
    if let Some(from) = target.from {
        claim = claim.beside("from", from);
    }
    let mut about = About { texts: inputs.about.clone() };
    if !inputs.by_size.is_empty() {
        let lines: Vec<String> = inputs.by_size.iter().map(|(path, size)| format!("{size} {path}")).collect();
        about.texts.insert("untracked by size only".to_owned(), lines.join("\n"));
    }
    if !about.texts.is_empty() {
        claim = claim.beside("about", tx.put(&about)?.id);
    }
    tx.claim(claim);
    let mut started = None;
    if target.start {
        let met = tx.put(&inputs.met())?;
        let start: Start = start_record(encoded.id, Some(met.id), Vec::new(), "frozen", entropy);
        let start_encoded: Encoded = tx.put(&start)?;
        started = Some(start_encoded.id);
        tx.claim(StagedClaim::new(&start, &start_encoded).beside("private", private.id));
        if let Some(job) = target.job {
            tx.request(request_id(encoded.id, job, 0));
        }
    }
    let outcome = tx.commit(signer)?;
    write_run_files(ledger, &files, inputs.frozen_config.as_deref(), &manifest)?;
    report_name(ledger, &plan, encoded.id)?;
    Ok(Frozen { run: encoded.id, outcome: Some(outcome), start: started, files })
}

/// Returns the id that a freeze would give, for `--dry-run`; an unnamed run has none before it is drawn.
pub fn plan_only(inputs: &Inputs) -> Result<Option<TypedId>, Error> {
    match inputs.plan.name {
        Some(_) => Ok(Some(model::encode(&inputs.plan)?.id)),
        None => Ok(None),
    }
}

/// Finds the run of this name or directory. Equal inputs: that run; others: what differs.
fn existing(
    ledger: &Ledger,
    inputs: &Inputs,
    out: Option<&Path>,
    signer: &Signer<'_>,
) -> Result<Option<TypedId>, Error> {
    let named = match inputs.plan.name.as_deref().and_then(Name::parse) {
        Some(name) => match ledger.state().name(Kind::Plan, &name) {
            Some(row) if row.holder != ledger.holder_of(signer.author)? => {
                let holder = ledger.who(row.holder.first_key());
                return Err(Error::NameHeld { name, holder });
            }
            row => row.map(|row| TypedId::new(Kind::Plan, row.object)),
        },
        None => None,
    };
    let Some(run) = named.or_else(|| out.and_then(|dir| run_in(ledger, dir))) else { return Ok(None) };
    let frozen: Plan = ledger.record(run.id)?;
    let mut again = inputs.plan.clone();
    again.nonce = frozen.nonce;
    again.name.clone_from(&frozen.name);
    // What is installed is what was met, not what was asked for: it does not make another run of a name.
    if let (Some(id), Some(found)) = (frozen.environment, &inputs.environment)
        && ledger.record::<Environment>(id.id)?.declared() == found.declared()
    {
        again.environment = frozen.environment;
    }
    if model::encode(&again)?.id == run {
        return Ok(Some(run));
    }
    let (differences, same) = compare_plans(ledger, &frozen, &again, inputs)?;
    Err(Error::Drift { run, differences, same })
}

/// Reads which run a directory belongs to, from the manifest in it.
fn run_in(ledger: &Ledger, dir: &Path) -> Option<TypedId> {
    let bytes = outside::read(&dir.join(RUN_FILES[1]), config::MAX_SIZE).ok()??;
    let Value::Map(fields) = config::parse_canonical(&bytes, RUN_FILES[1]).ok()? else { return None };
    let Some(Value::Text(run)) = fields.get("run") else { return None };
    let id = ObjectId::from_hex(run.strip_prefix("run:")?).ok()?;
    ledger.state().run(id).map(|_| TypedId::new(Kind::Plan, id))
}

fn report_name(ledger: &Ledger, plan: &Plan, run: TypedId) -> Result<(), Error> {
    let Some(name) = plan.name.as_deref().and_then(Name::parse) else { return Ok(()) };
    match ledger.state().name(Kind::Plan, &name) {
        Some(row) if row.object != run.id => {
            let holder = ledger.who(row.holder.first_key());
            Err(Error::NameHeld { name, holder })
        }
        _ => Ok(()),
    }
}

fn private(inputs: &Inputs, entropy: &mut Entropy<'_>) -> Private {
    Private {
        salt: draw(entropy),
        argv: inputs.argv.clone(),
        texts: inputs.texts.clone(),
        paths: inputs.paths.clone(),
        variables: inputs.variables.clone(),
        stats: inputs.stats.clone(),
    }
}

/// Returns where a run's files were put when it was frozen.
pub fn run_files_of(ledger: &Ledger, run: TypedId) -> Result<RunFiles, Error> {
    let private = ledger.claim_of(run)?.and_then(|claim| claim.link("private"));
    let private = private.and_then(|id| ledger.record::<Private>(id.id).ok());
    let out = private.and_then(|private| private.paths.get(OUT).cloned());
    let out = out.map(|out| open_private_path(&out, ledger.project()));
    Ok(run_files(ledger, run.id, out.as_deref()))
}

/// Returns where a run's files lie: in the directory asked for, else in the ledger's own.
pub fn run_files(ledger: &Ledger, plan: ObjectId, out: Option<&Path>) -> RunFiles {
    let dir = match out {
        Some(out) => out.to_owned(),
        None => ledger.root().join("runs").join(plan.to_hex()),
    };
    RunFiles { dir }
}

/// Writes the files of a run that are missing, from the objects that the plan links.
pub fn restore_run_files(ledger: &Ledger, run: TypedId, files: &RunFiles) -> Result<(), Error> {
    if RUN_FILES.iter().all(|name| files.dir.join(name).exists()) {
        return Ok(());
    }
    let plan: Plan = ledger.record(run.id)?;
    let config = match plan.config {
        Some(config) => Some(ledger.bytes(ledger.record::<model::Config>(config.id)?.frozen.id)?),
        None => None,
    };
    let manifest = ledger.claim_of(run)?.and_then(|claim| claim.link("manifest"));
    let Some(manifest) = manifest else { return Ok(()) };
    write_run_files(ledger, files, config.as_deref(), &ledger.bytes(manifest.id)?)
}

fn write_run_files(
    ledger: &Ledger,
    files: &RunFiles,
    config: Option<&[u8]>,
    manifest: &[u8],
) -> Result<(), Error> {
    let both = [(RUN_FILES[0], config), (RUN_FILES[1], Some(manifest))];
    let there = both.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
    if let Ok(inside) = files.dir.strip_prefix(ledger.root()) {
        // Together they wait for the disk once.
        let named: Vec<(PathBuf, &[u8])> = there.map(|(name, bytes)| (inside.join(name), bytes)).collect();
        let _created = ledger.durable().create_many(&named, FileKind::Immutable)?;
        return Ok(());
    }
    for (name, bytes) in there {
        let _created = outside::create(ledger.durable().disk(), &files.dir.join(name), bytes, 0o444)?;
    }
    Ok(())
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn manifest(ledger: &Ledger, plan: &Plan, run: TypedId, inputs: &Inputs, time: u64) -> Vec<u8> {
    let mut frozen: BTreeMap<String, Value> = BTreeMap::new();
    for Part { what, id, detail } in &inputs.parts {
        let mut part = match id {
            Ok(id) => BTreeMap::from([("id".to_owned(), text(id.to_string()))]),
            Err(reason) => BTreeMap::from([("none".to_owned(), text(reason))]),
        };
        if !detail.is_empty() {
            part.insert("detail".to_owned(), text(detail));
        }
        if let (true, Some(json)) = (what == "config", &inputs.frozen_config) {
            let (blake3, sha256) = digests(json);
            part.insert("blake3".to_owned(), text(blake3));
            part.insert("sha256".to_owned(), text(sha256));
        }
        frozen.insert(what.clone(), Value::Map(part));
    }
    let optional = |value: &Option<String>| value.as_ref().map_or(Value::Null, text);
    let manifest = map([
        ("schema", text("ledger.run-manifest/1")),
        ("ledger", text(ledger.id().to_hex())),
        ("run", text(run.to_string())),
        ("status", text("planned")),
        ("trained", Value::Bool(false)),
        ("created", text(rfc3339(time))),
        ("name", optional(&plan.name)),
        ("study", optional(&plan.study)),
        ("arm", optional(&plan.arm)),
        ("seed", plan.seed.map_or(Value::Null, |seed| Value::Int(seed.to_string()))),
        ("argv", Value::List(plan.argv.iter().map(text).collect())),
        ("frozen", Value::Map(frozen)),
    ]);
    config::canonical(&manifest)
}
