//! Attempts: a start opens one, an end closes it once, and one that never ended is presumed lost.
//!
//! Acts that happened are not refused because another was faster: two starts stand side by side. What is
//! refused is starting from other inputs than were frozen, and ending one attempt in two ways.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::capture::environment::understand_lock;
use crate::id::object_id;
use crate::ledger::{Ledger, Outcome, Signer, StagedClaim};
use crate::model::{About, End, Environment, Kind, Plan, Private, Start, StartCheck, Status, TypedId};
use crate::state::{Place, RunStatus};

use super::drift::{drift, project_of};
use super::environment::{Place as Seen, declared as environment};
use super::inputs::Request;
use super::{Entropy, Error, draw};

/// What a start is to do.
#[derive(Debug)]
pub struct StartRequest<'a> {
    /// The run.
    pub run: TypedId,
    /// Start although it has completed.
    pub again: bool,
    /// Read data and base models again, whatever their sizes and times say.
    pub full: bool,
    /// Names the scheduler's job and how often it was requeued: the same one does not start twice.
    pub job: Option<&'a str>,
    /// The command and the machine.
    pub place: &'a Request,
}

/// An attempt that was opened.
#[derive(Clone, Debug)]
pub struct Started {
    /// The attempt.
    pub start: TypedId,
    /// How it was stated; `None` when this request had opened it before.
    pub outcome: Option<Outcome>,
    /// Earlier attempts that are now presumed lost.
    pub lost: Vec<TypedId>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

pub(super) fn start_record(
    plan: TypedId,
    environment: Option<TypedId>,
    lost: Vec<TypedId>,
    check: &str,
    entropy: &mut Entropy<'_>,
) -> Start {
    Start { nonce: draw(entropy), plan, environment, lost, check: check.to_owned() }
}

/// Opens an attempt, after comparing inputs with what was frozen.
pub fn start(
    ledger: &mut Ledger,
    request: &StartRequest<'_>,
    signer: &Signer<'_>,
    progress: &(dyn Fn(u64) + Sync),
    entropy: &mut Entropy<'_>,
) -> Result<Started, Error> {
    let run = request.run;
    let req = match requested(ledger, request, signer) {
        Requested::Open(start) => {
            return Ok(Started { start, outcome: None, lost: Vec::new(), warnings: Vec::new() });
        }
        Requested::New(req) => req,
    };
    if ledger.state().run_status(run.id) == Some(RunStatus::Ended(Status::Completed)) && !request.again {
        return Err(Error::Completed { run });
    }
    let plan: Plan = ledger.record(run.id)?;
    let drift = drift(ledger, run, &plan, request.place, request.full, progress)?;
    if !drift.differences.is_empty() {
        return Err(Error::Drift { run, differences: drift.differences, same: drift.same });
    }
    let attempts = ledger.state().attempts(run.id);
    let open = attempts.iter().filter(|(_, attempt)| attempt.ended.is_none() && !attempt.lost);
    let lost: Vec<TypedId> = open.map(|(start, _)| TypedId::new(Kind::Start, *start)).collect();
    let declared = plan.environment.map(|id| ledger.record::<Environment>(id.id)).transpose()?;
    // A launcher that cannot be wrapped starts without saying its command; the plan has it.
    let planned: Vec<OsString> = plan.argv.iter().map(OsString::from).collect();
    let argv = if request.place.argv.is_empty() { &planned } else { &request.place.argv };
    let root = project_of(ledger, run)?;
    let seen = Seen { argv, machine: &request.place.machine, root: &root };
    let interpreter = seen.interpreter();
    let lock = declared.and_then(|environment| environment.lock);
    let understood = match &lock {
        Some(lock) => {
            let bytes = ledger.bytes(lock.file.id)?;
            Some(understand_lock(Path::new(&lock.name), bytes, &Seen::target(interpreter.as_ref())))
        }
        None => None,
    };
    let installed = seen.installed(interpreter.as_ref(), understood.as_ref());
    let mut warnings = drift.warnings;
    warnings.extend(installed.as_ref().and_then(|found| found.warning.clone()));
    let check = if request.full { StartCheck::Full } else { StartCheck::Quick };
    let mut tx = ledger.transaction();
    let installed = installed.map(|found| {
        let file = tx.put_blob(found.json.clone());
        found.record(file)
    });
    let met = tx.put(&seen.met(environment(lock, interpreter.as_ref(), installed)))?;
    let record = start_record(run, Some(met.id), lost.clone(), check.word(), entropy);
    let private = tx.put(&Private {
        salt: draw(entropy),
        argv: Vec::new(),
        texts: texts_of(request.place),
        paths: BTreeMap::new(),
        variables: crate::capture::environment::allowed_variables(&request.place.machine.variables)
            .into_iter()
            .collect(),
        stats: BTreeMap::new(),
    })?;
    let encoded = tx.put(&record)?;
    tx.claim(StagedClaim::new(&record, &encoded).beside("private", private.id));
    if let Some(req) = req {
        tx.request(req);
    }
    let outcome = tx.commit(signer)?;
    Ok(Started { start: encoded.id, outcome: Some(outcome), lost, warnings })
}

fn texts_of(place: &Request) -> BTreeMap<String, String> {
    let host = place.machine.host.clone().map(|host| ("host".to_owned(), host));
    let user = place.machine.user.clone().map(|user| ("user".to_owned(), user));
    host.into_iter().chain(user).collect()
}

/// What became of a job's request to start.
enum Requested {
    /// It opened this attempt before, which is under way.
    Open(TypedId),
    /// It is new, and is to be stated under this id.
    New(Option<[u8; 16]>),
}

/// Names the `n`-th attempt that a job makes of a run.
pub(super) fn request_id(run: TypedId, job: &str, n: u32) -> [u8; 16] {
    let mut req = [0; 16];
    req.copy_from_slice(&object_id(format!("{run}\n{job}\n{n}").as_bytes()).as_bytes()[..16]);
    req
}

/// Finds the attempt that this job has opened and that is under way.
///
/// A job whose attempt has ended may try again, as a loop in a batch script does: that is another attempt.
fn requested(ledger: &Ledger, request: &StartRequest<'_>, signer: &Signer<'_>) -> Requested {
    let Some(job) = request.job else { return Requested::New(None) };
    let key = signer.author.public().thumbprint();
    for n in 0.. {
        let req = request_id(request.run, job, n);
        let Some(index) = ledger.state().request(key, &req) else { return Requested::New(Some(req)) };
        // A start stands alone in its statement, or behind the plan that was made with it.
        let stated = (0..2).filter_map(|position| ledger.stated(Place { index, position }).ok());
        let start = stated.map(|claim| claim.object).find(|object| object.kind == Kind::Start);
        let attempt = start.and_then(|start| Some((start, ledger.state().attempt(start.id)?)));
        if let Some((start, row)) = attempt
            && row.plan == request.run.id
            && row.ended.is_none()
            && !row.lost
        {
            return Requested::Open(start);
        }
    }
    Requested::New(None)
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub status: Status,
    /// Exit code of the command.
    pub code: Option<i64>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// Why, in the user's words.
    pub reason: Option<String>,
}

/// Finds the attempt that an end or evidence is about: the one given, else the run's latest.
pub fn attempt_at(ledger: &Ledger, run: TypedId, attempt: Option<TypedId>) -> Result<TypedId, Error> {
    if let Some(attempt) = attempt
        && ledger.state().attempt(attempt.id).is_some_and(|row| row.plan == run.id)
    {
        return Ok(attempt);
    }
    let last = ledger.state().run(run.id).and_then(|row| row.last);
    last.map(|start| TypedId::new(Kind::Start, start)).ok_or(Error::NoAttempt { run })
}

/// Ends an attempt; `None` when it has ended in the same way before.
pub fn end(
    ledger: &mut Ledger,
    run: TypedId,
    attempt: Option<TypedId>,
    ended: &Ended,
    signer: &Signer<'_>,
    entropy: &mut Entropy<'_>,
) -> Result<Option<Outcome>, Error> {
    let start = attempt_at(ledger, run, attempt)?;
    if let Some((status, _)) = ledger.state().attempt(start.id).and_then(|row| row.ended) {
        return if status == ended.status {
            Ok(None)
        } else {
            Err(Error::EndedOtherwise { run, status: status.to_string() })
        };
    }
    let record = End {
        nonce: draw(entropy),
        start,
        status: ended.status.word().to_owned(),
        code: ended.code,
        signal: ended.signal.clone(),
    };
    let mut tx = ledger.transaction();
    let encoded = tx.put(&record)?;
    let mut claim = StagedClaim::new(&record, &encoded);
    if let Some(reason) = &ended.reason {
        let about = About { texts: [("reason".to_owned(), reason.clone())].into() };
        claim = claim.beside("about", tx.put(&about)?.id);
    }
    tx.claim(claim);
    Ok(Some(tx.commit(signer)?))
}
