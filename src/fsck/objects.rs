//! The store: every object is its id, every object that the log needs is there, every record says what its claim
//! says.
//!
//! What the log needs follows from accepted claims: the records that they are about, the records and trees that
//! these link, and small captured files. Large data stay where they were and are not looked for. Display names
//! and private records may have been left out on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rayon::prelude::*;

use crate::durable::{self, Durable};
use crate::id::{ObjectId, StatementId};
use crate::ledger::{Ledger, Segment, Stated, claims_of};
use crate::log::files;
use crate::log::statement::Statement;
use crate::model::content::{Node, Sums, Tensors, What};
use crate::model::{self, Kind, TypedId};
use crate::state::{Standing, State};
use crate::store::{self, Batch, Entry, Store};
use crate::verify::{Finding, Severity, chain_text, contradiction};

use super::{Error, MAX_RECORD, Rebuilt, Report};

/// Hashes all objects, and follows the accepted claims to what must be there.
pub(super) fn check(
    durable: &Durable,
    log: Option<&Rebuilt>,
    progress: &(dyn Fn(u64) + Sync),
    report: &mut Report,
) -> Result<(), Error> {
    let store = Store::new(durable.clone());
    let mut there = BTreeSet::new();
    for entry in store.walk().map_err(disk)? {
        match entry {
            Entry::Object(id, size) => {
                there.insert(id);
                report.objects += 1;
                report.bytes += size;
            }
            Entry::Stray(path) => {
                report.warn("stray", path.display().to_string(), "no object has a file of this name");
            }
        }
    }
    let ids: Vec<ObjectId> = there.iter().copied().collect();
    let wrong: Vec<(ObjectId, store::Error)> = ids
        .par_iter()
        .filter_map(|id| {
            let result = store.copy_loose(*id, &mut std::io::sink());
            result.map(progress).err().map(|error| (*id, error))
        })
        .collect();
    let mut damaged = BTreeSet::new();
    for (id, error) in wrong {
        damaged.insert(id);
        let path = store::place(id).display().to_string();
        report.damaged("object", path, chain_text(&error));
    }
    check_packs(&store, progress, &mut there, &mut damaged, report)?;
    // Of several copies a sound one is good enough for whoever needs the object.
    damaged.retain(|id| store.get(*id, Batch::MAX_OBJECT).is_err());
    let Some(rebuilt) = log else { return Ok(()) };
    let mut need = Need::new(rebuilt.segments(), &rebuilt.state, &store);
    need.claims(&damaged, report)?;
    need.follow(&there, &damaged, report);
    Ok(())
}

/// Checks every pack and every object in it.
fn check_packs(
    store: &Store,
    progress: &(dyn Fn(u64) + Sync),
    there: &mut BTreeSet<ObjectId>,
    damaged: &mut BTreeSet<ObjectId>,
    report: &mut Report,
) -> Result<(), Error> {
    let (packs, strays) = store.packs().map_err(disk)?;
    for path in strays {
        report.warn("stray", path.display().to_string(), "no pack has this name");
    }
    for name in packs {
        let path = store::pack_place(name).display().to_string();
        let checked = match store.check_pack(name, progress) {
            Ok(checked) => checked,
            // It has been written anew under another name since it was listed.
            Err(store::Error::Missing { .. }) => continue,
            Err(error) => {
                report.damaged("pack", path, chain_text(&error));
                continue;
            }
        };
        if let Some(wrong) = checked.wrong {
            report.damaged("pack", path.clone(), wrong);
        }
        for (id, size) in checked.sound {
            there.insert(id);
            report.objects += 1;
            report.bytes += size;
        }
        for (id, error) in checked.damaged {
            there.insert(id);
            damaged.insert(id);
            report.objects += 1;
            report.damaged("object", path.clone(), chain_text(&error));
        }
    }
    Ok(())
}

/// Looks for what an opened ledger needs in a store, whose objects count as sound.
pub(super) fn lacking(ledger: &Ledger, store: &Store, report: &mut Report) -> Result<(), Error> {
    let there: BTreeSet<ObjectId> = store.ids().map_err(disk)?.into_iter().collect();
    let mut need = Need::new(ledger.segments(), ledger.state(), store);
    need.claims(&BTreeSet::new(), report)?;
    need.follow(&there, &BTreeSet::new(), report);
    Ok(())
}

/// Returns those of some statements that name something that is not in the store of a ledger.
pub(super) fn without_objects(
    ledger: &Ledger,
    statements: &[Statement<'_>],
) -> Result<Vec<StatementId>, Error> {
    let there: BTreeSet<ObjectId> = ledger.store().ids().map_err(disk)?.into_iter().collect();
    let lacks = |statement: &&Statement<'_>| {
        let mut report = Report::default();
        let mut need = Need::new(Vec::new(), ledger.state(), ledger.store());
        for claim in claims_of(0, statement) {
            need.add("", claim.object, 0);
            claim.links.iter().for_each(|(role, target)| need.add(role, *target, 0));
        }
        need.follow(&there, &BTreeSet::new(), &mut report);
        report.is_damaged()
    };
    Ok(statements.iter().filter(lacks).map(|statement| statement.id).collect())
}

fn disk(error: store::Error) -> Error {
    match error {
        store::Error::Disk(error) => error.into(),
        other => durable::Error::Io {
            op: "read",
            path: Path::new(store::OBJECTS).to_owned(),
            source: std::io::Error::other(other),
        }
        .into(),
    }
}

/// What is still to be looked for, with the statement that needs it.
struct Need<'a> {
    logs: Vec<Segment>,
    state: &'a State,
    store: &'a Store,
    /// Those of earlier statements come first, so that each thing is known by the first that needs it.
    open: BTreeSet<(u32, TypedId)>,
    seen: BTreeSet<TypedId>,
}

impl<'a> Need<'a> {
    fn new(logs: Vec<Segment>, state: &'a State, store: &'a Store) -> Self {
        Self { logs, state, store, open: BTreeSet::new(), seen: BTreeSet::new() }
    }

    fn add(&mut self, role: &str, id: TypedId, index: u32) {
        // A root that is one file is the user's data, which stays where it is.
        let is_kept = !(role == "root" && id.kind == Kind::Blob);
        if is_kept && !self.seen.contains(&id) {
            self.open.insert((index, id));
        }
    }

    /// Collects what accepted claims are about and link, and holds claims against their records.
    fn claims(&mut self, damaged: &BTreeSet<ObjectId>, report: &mut Report) -> Result<(), Error> {
        let logs = std::mem::take(&mut self.logs);
        logs.iter().try_for_each(|log| self.claims_in(log, damaged, report))
    }

    fn claims_in(
        &mut self,
        segment: &Segment,
        damaged: &BTreeSet<ObjectId>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut claims: Vec<Stated> = Vec::new();
        let Segment { log, first: base, size, .. } = segment;
        let read = log.statements::<files::Error>(*size, 0, &mut |first, entries| {
            for (entry, index) in entries.iter().zip((base + first) as u32..) {
                let Ok(statement) = Statement::parse(entry) else { continue };
                if !matches!(self.state.statement(statement.id), Some((_, Standing::Accepted))) {
                    continue;
                }
                claims.extend(claims_of(index, &statement));
            }
            let texts: Vec<Option<String>> =
                claims.par_iter().map(|claim| self.contradicted(claim, damaged)).collect();
            for (claim, text) in claims.drain(..).zip(texts) {
                let index = claim.place.index;
                self.add("", claim.object, index);
                for (role, target) in &claim.links {
                    self.add(role, *target, index);
                }
                if let Some(text) = text {
                    let text = format!("{}: {text}", claim.object);
                    report.findings.push(Rebuilt::claim_finding(index, text).on(claim.object));
                }
            }
            Ok(())
        });
        match read {
            Err(files::Error::Disk(error)) => Err(error.into()),
            // What else is wrong with the files has been said.
            _ => Ok(()),
        }
    }

    /// Returns how a claim and its record differ; nothing where the record cannot be had.
    fn contradicted(&self, claim: &Stated, damaged: &BTreeSet<ObjectId>) -> Option<String> {
        if damaged.contains(&claim.object.id) {
            return None;
        }
        contradiction(claim, &self.store.get(claim.object.id, MAX_RECORD).ok()?)
    }

    /// Looks for everything on the list, and adds what the found records and tree nodes name.
    fn follow(&mut self, there: &BTreeSet<ObjectId>, damaged: &BTreeSet<ObjectId>, report: &mut Report) {
        let is_read =
            |id: &TypedId| id.kind != Kind::Blob && there.contains(&id.id) && !damaged.contains(&id.id);
        let mut named = self.named(&is_read);
        while let Some((index, id)) = self.open.pop_first() {
            if !self.seen.insert(id) {
                continue;
            }
            if damaged.contains(&id.id) {
                report.whole = report.whole.min(u64::from(index));
                continue;
            }
            if !there.contains(&id.id) {
                self.missing(id, index, report);
                continue;
            }
            match named.remove(&id) {
                None => {}
                Some(Ok(parts)) => parts.into_iter().for_each(|(role, part)| self.add(role, part, index)),
                Some(Err(text)) => {
                    let text = format!("{id} is linked and is not one: {text}");
                    let finding = Finding::new(Severity::Damaged, "record", text).on(id);
                    report.findings.push(finding.at(store::place(id.id).display().to_string()));
                }
            }
        }
    }

    /// Reads what the list leads to on all cores, in no order of statements; that is for the caller to keep.
    fn named(&self, is_read: &(dyn Fn(&TypedId) -> bool + Sync)) -> BTreeMap<TypedId, Named> {
        let mut named = BTreeMap::new();
        let mut wave: BTreeSet<TypedId> = self.open.iter().map(|(_, id)| *id).collect();
        while !wave.is_empty() {
            let read = |id: &TypedId| {
                let bytes = if is_read(id) { self.store.get(id.id, MAX_RECORD).ok()? } else { return None };
                Some((*id, parts(id.kind, &bytes)))
            };
            let found: Vec<(TypedId, Named)> = wave.par_iter().filter_map(read).collect();
            named.extend(found.iter().cloned());
            let below = found.into_iter().filter_map(|(_, parts)| parts.ok()).flatten().map(|(_, id)| id);
            wave = below.filter(|id| !named.contains_key(id)).collect();
        }
        named
    }

    fn missing(&self, id: TypedId, index: u32, report: &mut Report) {
        if self.state.erased(id.id).is_some() {
            return;
        }
        // These may be left out when a ledger is handed on; everything else holds without them.
        let severity = match id.kind {
            Kind::Private | Kind::Holder | Kind::About => Severity::Warn,
            _ => Severity::Damaged,
        };
        if severity == Severity::Damaged {
            report.whole = report.whole.min(u64::from(index));
        }
        let text = format!("{id} is missing; statement {index} needs it");
        let finding = Finding::new(severity, "missing", text).on(id);
        report.findings.push(finding.at(store::place(id.id).display().to_string()));
    }
}

/// What the bytes of an object name that must be in the store, too, with the roles; or why they are not one.
type Named = Result<Vec<(&'static str, TypedId)>, String>;

fn parts(kind: Kind, bytes: &[u8]) -> Named {
    let say = |error: &dyn std::error::Error| chain_text(error);
    match kind {
        Kind::Tree => {
            let tree = |id| ("", TypedId::new(Kind::Tree, id));
            Ok(match Node::decode(bytes).map_err(|error| say(&error))? {
                Node::Split(children) => children.into_iter().map(|(_, id)| tree(id)).collect(),
                Node::Leaf(entries) => {
                    let dirs = entries.into_iter().filter_map(|entry| match entry.what {
                        What::Dir(id) => Some(tree(id)),
                        What::File { .. } | What::Link(_) => None,
                    });
                    dirs.collect()
                }
            })
        }
        Kind::Sums => {
            let sums = Sums::decode(bytes).map_err(|error| say(&error))?;
            let below = sums.below.into_iter().map(|id| ("", TypedId::new(Kind::Sums, id)));
            Ok(below.collect())
        }
        Kind::Tensors => Tensors::decode(bytes).map(|_| Vec::new()).map_err(|error| say(&error)),
        _ => {
            let said = model::project(kind, bytes).map_err(|error| say(&error))?;
            Ok(said.links.into_iter().map(|link| (link.role, link.target)).collect())
        }
    }
}
