//! The store: every object is its id, every object that the log needs is there, every record says what its claim
//! says.
//!
//! What the log needs follows from accepted claims: the records that they are about, the records and trees that
//! these link, and small captured files. Large data stay where they were and are not looked for. Display names
//! and private records may have been left out on purpose.
//!
//! Claims are held against their records while the log is folded, and each object is read once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;

use crate::durable::{self, Durable};
use crate::id::StatementId;
use crate::ledger::{Ledger, Segment, Stated, claims_of};
use crate::log::files;
use crate::log::statement::Statement;
use crate::model::content::{Node, Sums, Tensors, What};
use crate::model::{self, Kind, TypedId};
use crate::state::{Folded, Standing, State};
use crate::store::{self, Store};
use crate::verify::{Finding, Severity, chain_text, held};

use super::shelf::Shelf;
use super::{Done, Error, Rebuilt, Report};

/// Lists what is in the store, and checks every pack and every object in it.
///
/// What is found out about packs, and what has no business in the store, is returned, to be told after the log.
pub(super) fn list<'a>(
    durable: &Durable,
    progress: &'a super::Progress<'a>,
    report: &mut Report,
) -> Result<(Shelf<'a>, Report), Error> {
    let store = Store::new(durable.clone());
    let mut found = Report::default();
    let (ids, strays) = store.listed().map_err(disk)?;
    for path in strays {
        found.warn("stray", path.display().to_string(), "no object has a file of this name");
    }
    report.objects = ids.len() as u64;
    let mut shelf = Shelf::new(store.clone(), ids, Some(progress));
    let (packs, strays) = store.packs().map_err(disk)?;
    for path in strays {
        found.warn("stray", path.display().to_string(), "no pack has this name");
    }
    for name in packs {
        let path = store::pack_place(name).display().to_string();
        let checked = match store.check_pack(name, &|bytes| progress(Done::Bytes(bytes))) {
            Ok(checked) => checked,
            // It has been written anew under another name since it was listed.
            Err(store::Error::Missing { .. }) => continue,
            Err(error) => {
                found.damaged("pack", path, chain_text(&error));
                continue;
            }
        };
        if let Some(wrong) = checked.wrong {
            found.damaged("pack", path.clone(), wrong);
        }
        for (id, size) in checked.sound {
            shelf.add_packed(id, true);
            report.objects += 1;
            report.bytes += size;
        }
        for (id, error) in checked.damaged {
            shelf.add_packed(id, false);
            report.objects += 1;
            found.damaged("object", path.clone(), chain_text(&error));
        }
    }
    Ok((shelf, found))
}

/// Hashes the objects that nothing needs, and tells what was found out about all of them.
pub(super) fn finish(need: Need<'_>, log: Option<&Rebuilt>, report: &mut Report) {
    let shelf = need.shelf;
    shelf.read_rest();
    report.bytes += shelf.bytes();
    for (id, error) in shelf.wrong() {
        report.damaged("object", store::place(id).display().to_string(), chain_text(&error));
    }
    if let Some(rebuilt) = log {
        need.tell(&rebuilt.state, report);
    }
}

/// Looks for what an opened ledger needs in a store, whose objects count as sound.
pub(super) fn lacking(ledger: &Ledger, store: &Store, report: &mut Report) -> Result<(), Error> {
    let shelf = Shelf::new(store.clone(), store.ids().map_err(disk)?, None);
    let mut need = Need::new(&shelf);
    let state = ledger.state();
    for Segment { log, first: base, size, .. } in ledger.segments() {
        let read = log.statements_together::<files::Error>(size, 0, &mut |first, entries| {
            let first = (base + first) as u32;
            let indexed = entries.par_iter().enumerate();
            let statements: Vec<_> = indexed
                .filter_map(|(at, entry)| Some((first + at as u32, Statement::parse(entry).ok()?)))
                .collect();
            let is_accepted = |id| matches!(state.statement(id), Some((_, Standing::Accepted)));
            let accepted = statements.iter().filter(|(_, statement)| is_accepted(statement.id));
            need.claims(&accepted.map(|(index, statement)| (*index, statement)).collect::<Vec<_>>());
            Ok(())
        });
        if let Err(files::Error::Disk(error)) = read {
            return Err(error.into());
        }
        // What else is wrong with the files has been said.
    }
    need.tell(state, report);
    Ok(())
}

/// Returns those of some statements that name something that is not in the store of a ledger.
pub(super) fn without_objects(
    ledger: &Ledger,
    statements: &[Statement<'_>],
) -> Result<Vec<StatementId>, Error> {
    let shelf = Shelf::new(ledger.store().clone(), ledger.store().ids().map_err(disk)?, None);
    let lacks = |statement: &&Statement<'_>| {
        let mut report = Report::default();
        let mut need = Need::new(&shelf);
        need.claims(&[(0, *statement)]);
        need.contradicted.clear();
        need.tell(ledger.state(), &mut report);
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

/// What the log needs of a store, gathered while the log is read.
pub(super) struct Need<'a> {
    shelf: &'a Shelf<'a>,
    /// What some statement so far needs: each thing is known by the first that does.
    seen: HashSet<TypedId>,
    /// Claims that their records contradict, in log order.
    contradicted: Vec<Finding>,
    /// What is wrong with what is needed, in the order of the statements that need it.
    wanting: Vec<(u32, Wanting)>,
}

enum Wanting {
    /// It is not there. It may have been erased by a later statement.
    Absent(TypedId),
    /// It is there, and what is wrong with its file is told with the file.
    Unread(TypedId),
    /// It is not what it is linked as.
    Other(Finding),
}

/// What one claim was found to be about.
struct Claimed {
    index: u32,
    object: TypedId,
    links: Vec<(String, TypedId)>,
    contradiction: Option<Finding>,
    /// What its record names, if the record could be read.
    named: Option<Named>,
}

/// What the bytes of an object name that must be in the store, too, with the roles; or why they are not one.
type Named = Result<Vec<(&'static str, TypedId)>, String>;

impl<'a> Need<'a> {
    pub(super) fn new(shelf: &'a Shelf<'a>) -> Self {
        Self { shelf, seen: HashSet::new(), contradicted: Vec::new(), wanting: Vec::new() }
    }

    /// Takes statements as they are folded, the first of which has an index.
    pub(super) fn folded(&mut self, first: u64, folded: &[Folded<'_>]) {
        let accepted =
            folded.iter().zip(first as u32..).filter(|(one, _)| one.standing == Standing::Accepted);
        let statements: Vec<(u32, &Statement<'_>)> =
            accepted.filter_map(|(one, index)| Some((index, one.statement.as_ref()?))).collect();
        self.claims(&statements);
    }

    /// Collects what the claims of accepted statements are about and link, and holds claims against their records.
    fn claims(&mut self, statements: &[(u32, &Statement<'_>)]) {
        let of = |(index, statement): &(u32, &Statement<'_>)| -> Vec<Claimed> {
            claims_of(*index, statement).into_iter().map(|claim| self.hold(claim)).collect()
        };
        let claimed: Vec<Claimed> = statements.par_iter().flat_map_iter(of).collect();
        let mut named = self.named(&claimed);
        for claimed in claimed {
            let Claimed { index, object, links, contradiction, .. } = claimed;
            self.contradicted.extend(contradiction);
            let linked =
                links.iter().filter(|(role, target)| is_kept(role, *target)).map(|(_, target)| *target);
            self.follow(index, linked.chain([object]), &mut named);
        }
    }

    /// Holds a claim against its record, if that can be had.
    fn hold(&self, claim: Stated) -> Claimed {
        let (index, object) = (claim.place.index, claim.object);
        let (text, named) = match self.shelf.read(object.id) {
            None => (None, None),
            Some(bytes) => {
                let (text, said) = held(&claim, &bytes);
                let links =
                    |said: model::Projection| said.links.into_iter().map(|link| (link.role, link.target));
                let named = match said {
                    Some(said) => said.map(|said| links(said).collect()).map_err(|error| chain_text(&error)),
                    None => parts(object.kind, &bytes),
                };
                (text, Some(named))
            }
        };
        let finding = |text| Rebuilt::claim_finding(index, format!("{object}: {text}")).on(object);
        Claimed { index, object, links: claim.links, contradiction: text.map(finding), named }
    }

    /// Reads what claims lead to and nobody needed so far, on all cores.
    fn named(&self, claimed: &[Claimed]) -> HashMap<TypedId, Named> {
        let is_new = |id: &TypedId| id.kind != Kind::Blob && !self.seen.contains(id);
        let mut named: HashMap<TypedId, Named> = HashMap::new();
        for claim in claimed {
            if let Some(of_record) = &claim.named {
                named.entry(claim.object).or_insert_with(|| of_record.clone());
            }
        }
        let own: HashSet<TypedId> = claimed.iter().map(|claim| claim.object).collect();
        let linked = claimed.iter().flat_map(|claim| &claim.links).map(|(_, id)| *id);
        let below = named.values().flatten().flatten().map(|(_, id)| *id);
        let mut wave: HashSet<TypedId> =
            linked.chain(below).filter(|id| is_new(id) && !own.contains(id)).collect();
        while !wave.is_empty() {
            let read = |id: &TypedId| Some((*id, parts(id.kind, &self.shelf.read(id.id)?)));
            let found: Vec<(TypedId, Named)> = wave.par_iter().filter_map(read).collect();
            let below: Vec<TypedId> = found
                .iter()
                .filter_map(|(_, parts)| parts.as_ref().ok())
                .flatten()
                .map(|(_, id)| *id)
                .collect();
            named.extend(found);
            wave = below
                .into_iter()
                .filter(|id| is_new(id) && !own.contains(id) && !named.contains_key(id))
                .collect();
        }
        named
    }

    /// Looks for what a statement needs, and for what the found records and tree nodes name.
    fn follow(
        &mut self,
        index: u32,
        needed: impl Iterator<Item = TypedId>,
        named: &mut HashMap<TypedId, Named>,
    ) {
        let mut open: BTreeSet<TypedId> = needed.filter(|id| !self.seen.contains(id)).collect();
        while let Some(id) = open.pop_first() {
            self.seen.insert(id);
            if !self.shelf.has(id.id) {
                self.wanting.push((index, Wanting::Absent(id)));
                continue;
            }
            match named.remove(&id) {
                // What was read and found to be sound names nothing else.
                None if self.shelf.is_sound(id.id) => {}
                None => self.wanting.push((index, Wanting::Unread(id))),
                Some(Ok(parts)) => {
                    let parts = parts.into_iter().filter(|(role, part)| is_kept(role, *part));
                    open.extend(parts.map(|(_, part)| part).filter(|part| !self.seen.contains(part)));
                }
                Some(Err(text)) => {
                    let text = format!("{id} is linked and is not one: {text}");
                    let finding = Finding::new(Severity::Damaged, "record", text).on(id);
                    let finding = finding.at(store::place(id.id).display().to_string());
                    self.wanting.push((index, Wanting::Other(finding)));
                }
            }
        }
    }

    /// Tells what is wrong and what is not there, by a state that knows all erasures.
    fn tell(self, state: &State, report: &mut Report) {
        report.findings.extend(self.contradicted);
        for (index, wanting) in self.wanting {
            match wanting {
                Wanting::Absent(id) => missing(id, index, state, report),
                Wanting::Unread(id) if self.shelf.is_wrong(id.id) => {
                    report.whole = report.whole.min(u64::from(index));
                }
                Wanting::Unread(_) => {}
                Wanting::Other(finding) => report.findings.push(finding),
            }
        }
    }
}

/// Whether a link leads to something that is kept: a root that is one file is the user's data, which stays
/// where it is.
fn is_kept(role: &str, id: TypedId) -> bool {
    !(role == "root" && id.kind == Kind::Blob)
}

fn missing(id: TypedId, index: u32, state: &State, report: &mut Report) {
    if state.erased(id.id).is_some() {
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
