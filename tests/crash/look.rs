//! What is looked at after a crash: all that was told is there, writing goes on, and nothing is wrong.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ledger::durable::fault::FaultDisk;
use ledger::durable::{Disk, outside};
use ledger::fsck;
use ledger::id::{StatementId, object_id};
use ledger::ledger::{Error, Home, Ledger, Outcome};
use ledger::log::note::SignedHead;
use ledger::model::{Kind, TypedId};
use ledger::state::Standing;
use ledger::verify::Severity;

use crate::people::{Person, found, open};
use crate::story::{KEY, PIN, TRUST, Told, key_text, manifest, packed, run_dir, write};

/// What was found wrong: one phrase for the table, and what exactly.
pub(crate) struct Wrong {
    pub(crate) phrase: &'static str,
    pub(crate) detail: String,
}

impl std::fmt::Debug for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.phrase, self.detail)
    }
}

fn wrong(phrase: &'static str, detail: impl std::fmt::Debug) -> Wrong {
    Wrong { phrase, detail: format!("{detail:?}") }
}

/// Opens what is left and goes on.
pub(crate) fn look(dir: &Path, told: &Told) -> Result<(), Wrong> {
    // Real files, whose syncs nobody waits for: no power is cut any more.
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::counting(dir));
    let (kim, ben) = (Person::new(1), Person::new(2));
    let root = dir.join(".ledger");
    files_outside(dir, told, &kim)?;
    if !root.exists() {
        if told.founded {
            return Err(wrong("the ledger is gone", ()));
        }
        let _key = outside::create(&disk, &dir.join(KEY), key_text(&kim).as_bytes(), 0o600)
            .map_err(|error| wrong("the next `init` fails", error))?;
        found(&disk, dir, &kim).map_err(|error| wrong("the next `init` fails", error))?;
    }
    remembers(dir, told)?;
    let mut ledger = open(&disk, dir).map_err(|error| wrong("the ledger does not open", error))?;
    for id in &told.accepted {
        is_there(&ledger, *id)?;
    }
    if let Some(id) = told.stored {
        ledger.bytes(id).map_err(|error| wrong("stored weights are gone", error))?;
    }
    for object in packed().filter(|_| told.packed) {
        ledger.bytes(object_id(&object)).map_err(|error| wrong("an acknowledged object is gone", error))?;
    }
    let bens = |ledger: &Ledger| ledger.state().key(ben.author.public().thumbprint());
    if told.joined && bens(&ledger).is_none() {
        return Err(wrong("a key is gone", ()));
    }
    if told.revoked && bens(&ledger).is_some_and(|row| !row.roles.is_empty()) {
        return Err(wrong("a revoked key is back", ()));
    }
    run_files(dir, told)?;
    without_damage(&disk, &root)?;

    // Earlier than all that may wait, so that it goes first in a batch with it.
    let next = write(&mut ledger, 99, &kim.at(5)).map_err(|error| wrong("the next write fails", error))?;
    let Outcome::Accepted { statement: next, .. } = next else {
        return Err(wrong("the next write waits", next));
    };
    for id in told.accepted.iter().chain(&told.queued).chain([&next]) {
        is_there(&ledger, *id)?;
    }
    match (bens(&ledger), write(&mut ledger, 98, &ben.at(6))) {
        (Some(row), Ok(Outcome::Accepted { .. })) if !row.roles.is_empty() => {}
        (Some(row), Err(Error::Refused { .. })) if row.roles.is_empty() => {}
        (None, Err(Error::UnknownKey { .. })) => {}
        (_, other) => return Err(wrong("the next write of the other fails", other)),
    }
    // Nothing of it hangs on what this user remembers or keeps in a cache.
    let plain = Ledger::open_on(Arc::clone(&disk), &root, Home::default())
        .map_err(|error| wrong("without its caches the ledger does not open", error))?;
    if plain.state().to_file() != ledger.state().to_file() {
        return Err(wrong("folded from the start, the state is another", ()));
    }
    each_once(&plain)?;
    without_damage(&disk, &root)?;
    clean_after_clearing(&disk, dir)
}

/// Keys and pins are written as durably as ledgers: without its key a ledger is nobody's.
fn files_outside(dir: &Path, told: &Told, kim: &Person) -> Result<(), Wrong> {
    let (key, pin) = (std::fs::read(dir.join(KEY)).ok(), std::fs::read(dir.join(TRUST)).ok());
    let is_whole = key.as_deref() == Some(key_text(kim).as_bytes());
    if !is_whole && (told.key || key.is_some() || dir.join(".ledger").exists()) {
        return Err(wrong("the key is gone", ()));
    }
    if pin.as_deref() != Some(PIN) && (told.pinned || pin.is_some()) {
        return Err(wrong("the pin is gone", ()));
    }
    Ok(())
}

/// The guard against rollback knows the last head that was answered with.
fn remembers(dir: &Path, told: &Told) -> Result<(), Wrong> {
    let folders = std::fs::read_dir(dir.join("home/state")).into_iter().flatten();
    let heads = folders.filter_map(|folder| std::fs::read_to_string(folder.ok()?.path().join("head")).ok());
    let sizes = heads.filter_map(|head| Some(SignedHead::parse(&head).ok()?.head().size));
    let known = sizes.max().unwrap_or(0);
    if known < told.remembered {
        return Err(wrong("the remembered head is forgotten", (known, told.remembered)));
    }
    Ok(())
}

/// Reads a statement under the head, and every object that it names.
fn is_there(ledger: &Ledger, id: StatementId) -> Result<(), Wrong> {
    const GONE: &str = "an acknowledged statement is gone";
    let Some((index, Standing::Accepted)) = ledger.state().statement(id) else {
        return Err(wrong(GONE, id));
    };
    ledger.prove_inclusion(index).map_err(|error| wrong(GONE, error))?;
    let mut claims = Vec::new();
    ledger
        .list::<Error>(u64::from(index), &mut |listed| {
            claims = listed.claims;
            Ok(ControlFlow::Break(()))
        })
        .map_err(|error| wrong(GONE, error))?;
    for claim in claims {
        let named = claim.links.iter().map(|(_, id)| *id).chain([claim.object]);
        for object in named.collect::<BTreeSet<TypedId>>() {
            // A tensor set's bytes are recorded; weights as such stay where they are.
            let read = ledger.bytes(object.id);
            read.map_err(|error| wrong("an acknowledged object is gone", (object, error)))?;
        }
    }
    Ok(())
}

/// A training program finds the files of its run whole, or not at all when nobody was told of them.
fn run_files(dir: &Path, told: &Told) -> Result<(), Wrong> {
    let found = std::fs::read(run_dir(dir).join("run-manifest.json")).ok();
    match found {
        Some(bytes) if bytes == manifest(1) => Ok(()),
        None if !told.run_files => Ok(()),
        found => Err(wrong("the files of a run are gone or cut short", found)),
    }
}

/// No finding but of what interrupted work leaves.
fn without_damage(disk: &Arc<dyn Disk>, root: &Path) -> Result<(), Wrong> {
    let findings = check(disk, root)?;
    match findings.into_iter().find(|finding| finding.severity != Severity::Ok) {
        None => Ok(()),
        Some(finding) => Err(wrong("`fsck` finds damage", finding)),
    }
}

fn check(disk: &Arc<dyn Disk>, root: &Path) -> Result<Vec<ledger::verify::Finding>, Wrong> {
    let report = fsck::check(Arc::clone(disk), root, None, &|_| ());
    Ok(report.map_err(|error| wrong("`fsck` finds damage", error))?.findings)
}

/// What is left over goes by clearing it, and then nothing is said of the ledger at all.
fn clean_after_clearing(disk: &Arc<dyn Disk>, dir: &Path) -> Result<(), Wrong> {
    let tmp = dir.join(".ledger/tmp");
    let temporary = std::fs::read_dir(tmp).into_iter().flatten().map(|entry| entry.unwrap().path());
    let siblings = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_left = |path: &std::path::PathBuf| path.to_string_lossy().contains("/.ledger.new-");
    for path in temporary.chain(siblings.filter(is_left)) {
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
    match check(disk, &dir.join(".ledger"))?.pop() {
        None => Ok(()),
        Some(finding) => Err(wrong("something is left that nobody can clear", finding)),
    }
}

/// All statements are accepted, and what was said is said once.
fn each_once(ledger: &Ledger) -> Result<(), Wrong> {
    let (mut seen, mut said, mut bad) = (0, BTreeSet::new(), None);
    ledger
        .list::<Error>(0, &mut |listed| {
            seen += 1;
            let is_new = listed.claims.iter().all(|claim| {
                // A key is said again when its roles change.
                claim.object.kind == Kind::Key || said.insert(claim.object)
            });
            if !is_new || listed.standing != Standing::Accepted {
                bad = Some(listed);
            }
            Ok(ControlFlow::Continue(()))
        })
        .map_err(|error| wrong("the log cannot be listed", error))?;
    match bad {
        None if seen == ledger.state().size() => Ok(()),
        None => Err(wrong("the log cannot be listed", seen)),
        Some(listed) => Err(wrong("a statement is there twice or is not accepted", listed)),
    }
}
