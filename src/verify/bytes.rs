//! The bytes at a path against what is recorded: which record is meant, and every file that differs from it.
//! What lies there beyond the record is `extra`'s work.
//!
//! Which files are weights is data in the record and is never worked out again for a recorded checkpoint; the
//! rules of the recogniser are asked about files only that the record does not know. Signatures and lineage are
//! checked elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::capture::walk::{self, Options, Reading, Root, Tree};
use crate::capture::weights::{self, Weights};
use crate::codec::MAX_RECORD;
use crate::diff;
use crate::id::{Digests, ObjectId};
use crate::ledger::{self, Ledger, Stated};
use crate::model::content::{self, ListError, Sums, Tensors, What, escape};
use crate::model::{self, Checkpoint, Dataset, Kind, Model, TypedId};
use crate::state::DigestRole;
use crate::store;

use super::statement::{chain_text, claim_before};
use super::{Bytes, Error, Finding, MAX_COMPARED, Report, Request, Severity, Short};

/// Of many names this many are shown.
const NAMED: usize = 4;

/// What a claim says about the bytes of its subject.
pub(super) struct Recorded {
    pub(super) id: TypedId,
    /// What must be equal: the weights of a checkpoint, all of a dataset or base model.
    weights: TypedId,
    /// Everything that lay there.
    pub(super) full: TypedId,
    tensors: Option<ObjectId>,
    sums: Option<ObjectId>,
}

/// A file as it is recorded; of a dataset that is one file, the size is not.
pub(super) struct File {
    size: Option<u64>,
    id: ObjectId,
}

pub(super) type Listing = BTreeMap<Vec<u8>, File>;

impl Recorded {
    fn new(stated: &Stated) -> Option<Self> {
        let id = |role: &str| stated.link(role).map(|target| target.id);
        let (weights, full) = match stated.object.kind {
            Kind::Checkpoint => (stated.link("weights")?, stated.link("full")?),
            Kind::Dataset | Kind::Model => (stated.link("root")?, stated.link("root")?),
            _ => return None,
        };
        Some(Self { id: stated.object, weights, full, tensors: id("tensors"), sums: id("sums") })
    }
}

/// Finds what is recorded with exactly the content of a path: what a path stands for as an argument.
///
/// The latest comes first. Weights without the files beside them are not looked for.
pub fn identify(
    ledger: &Ledger,
    path: &Path,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<TypedId>, Error> {
    let tree = walk::observe(path, &Options::new(Digests::Blake3), progress)?;
    let mut found = Vec::new();
    for digest in [whole(&tree)?, tree.id] {
        for (_, place) in ledger.state().with_digest(digest) {
            found.push(ledger.stated(place)?.object);
        }
    }
    // Content that is used but was never claimed has an id all the same, which follows from its digest.
    let root = match tree.root {
        Root::File { .. } => TypedId::new(Kind::Blob, tree.id),
        Root::Dir => TypedId::new(Kind::Tree, tree.id),
    };
    let dataset = model::encode(&Dataset { root }).map_err(ledger::Error::from)?;
    let base = model::encode(&Model { root }).map_err(ledger::Error::from)?;
    for id in [dataset.id, base.id, root] {
        if ledger.store().contains(id.id).map_err(ledger::Error::from)? {
            found.push(id);
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(*id));
    Ok(found)
}

/// Returns the digest of everything at a path as a checkpoint has it: of a single file, a tree that holds it.
fn whole(tree: &Tree) -> Result<ObjectId, Error> {
    Ok(match tree.root {
        Root::Dir => tree.id,
        Root::File { .. } => tree.subset(&tree.files.iter().map(|file| file.path.clone()).collect())?.id,
    })
}

/// Compares a path with what it must be, or with what it resembles most, and names the subject in the report.
pub(super) fn check(
    ledger: &Ledger,
    request: &Request,
    path: &Path,
    size: u64,
    progress: &(dyn Fn(u64) + Sync),
    report: &mut Report,
) -> Result<(), Error> {
    // Every byte is read: whoever could set the clock back could fool a cache.
    let reading = Reading { is_mapped: request.is_mapped, cache: None };
    let tree = walk::observe(path, &Options::new(request.digests).reading(&reading), progress)?;
    let mut sight = Sight { ledger, request, path, size, tree, weights: None, report };
    let recorded = match request.is {
        Some(id) => sight.recorded(id)?,
        None => sight.find()?,
    };
    let Some(recorded) = recorded else { return sight.not_recorded() };
    sight.report.subject = Some(recorded.id);
    if recorded.id.kind == Kind::Checkpoint
        && let Ok(record) = ledger.record::<Checkpoint>(recorded.id.id)
    {
        sight.report.place = record.path;
    }
    sight.compare(&recorded)
}

/// One path under comparison.
pub(super) struct Sight<'a> {
    ledger: &'a Ledger,
    pub(super) request: &'a Request,
    path: &'a Path,
    size: u64,
    pub(super) tree: Tree,
    /// What the recogniser says, once it was asked; it reads the weights a second time.
    weights: Option<Weights>,
    pub(super) report: &'a mut Report,
}

impl Sight<'_> {
    pub(super) fn weights(&mut self) -> Result<&Weights, Error> {
        let weights = match self.weights.take() {
            Some(weights) => weights,
            None => weights::observe(&self.tree, self.path)?,
        };
        Ok(self.weights.insert(weights))
    }

    /// Returns what is claimed about one id.
    fn recorded(&self, id: TypedId) -> Result<Option<Recorded>, Error> {
        let Some(place) = claim_before(self.ledger.state(), id, self.size) else { return Ok(None) };
        Ok(Recorded::new(&self.ledger.stated(place)?))
    }

    /// Finds what the path holds: exactly, by tensors, or nearly.
    fn find(&mut self) -> Result<Option<Recorded>, Error> {
        let by_tensors = if self.request.by_tensors {
            self.weights()?.tensors.as_ref().map(|tensors| (tensors.id, DigestRole::Tensors))
        } else {
            None
        };
        let exact = [whole(&self.tree)?, self.tree.id].map(|digest| Some((digest, DigestRole::Full)));
        for (digest, wanted) in exact.into_iter().chain([by_tensors]).flatten() {
            if let Some(found) = self.exactly(digest, wanted)? {
                return Ok(Some(found));
            }
        }
        self.nearest()
    }

    /// Finds what is recorded with a digest. Of several, what a run made counts more, and then what came first.
    fn exactly(&mut self, digest: ObjectId, wanted: DigestRole) -> Result<Option<Recorded>, Error> {
        let mut found = Vec::new();
        for (role, place) in self.ledger.state().with_digest(digest) {
            let is_root = role == DigestRole::Root && wanted == DigestRole::Full;
            if (role == wanted || is_root) && u64::from(place.index) < self.size {
                let stated = self.ledger.stated(place)?;
                found.push((stated.link("start").is_none(), place, stated));
            }
        }
        found.sort_by_key(|(no_run, place, _)| (*no_run, *place));
        let others: Vec<String> = found.iter().skip(1).map(|(_, _, stated)| stated.object.short()).collect();
        let first = found.first().and_then(|(_, _, stated)| Recorded::new(stated));
        if !others.is_empty() {
            let what = if wanted == DigestRole::Tensors { "tensors" } else { "bytes" };
            let text = format!("the same {what} are also recorded as {}", some(&others));
            self.report.add(Finding::new(Severity::Ok, "also-recorded", text));
        }
        Ok(first)
    }

    /// Finds the record with these weights, else the one made at this path, else the one that shares most files.
    fn nearest(&mut self) -> Result<Option<Recorded>, Error> {
        let state = self.ledger.state();
        let count =
            [Kind::Checkpoint, Kind::Model].map(|kind| state.claimed(kind).len()).iter().sum::<usize>();
        if count > MAX_COMPARED {
            // Too many to compare: what the recogniser takes for weights now is good enough as a first guess.
            let guess = self.weights()?.weights.clone();
            let digest = self.tree.subset(&guess)?.id;
            let found = self.exactly(digest, DigestRole::Weights)?;
            if found.is_none() {
                let text =
                    format!("{count} checkpoints are too many to compare: name the one meant with `--is`");
                self.report.add(Finding::new(Severity::Unknown, "too-many", text));
            }
            return Ok(found);
        }
        let here = self.relative_path();
        let mut best: Option<((bool, bool, usize), Recorded)> = None;
        let held: BTreeSet<ObjectId> = self.tree.files.iter().map(|file| file.blake3).collect();
        let mut claims = Vec::new();
        self.ledger.scan(&[Kind::Checkpoint, Kind::Model], &mut |stated| {
            claims.push(stated);
            Ok(())
        })?;
        for stated in claims.iter().filter(|stated| u64::from(stated.place.index) < self.size) {
            let Some(recorded) = Recorded::new(stated) else { continue };
            // A record whose tree is gone cannot be compared; when it is the one meant, `--is` says so.
            let Ok(listing) = self.listing(recorded.weights) else { continue };
            let differs = listing.iter().filter(|(path, file)| !self.has(path, file, &listing)).count();
            let is_shared = |file: &&File| file.size != Some(0) && held.contains(&file.id);
            let shared = listing.values().filter(is_shared).count();
            let is_here = here.is_some()
                && stated.object.kind == Kind::Checkpoint
                && self.ledger.record::<Checkpoint>(stated.object.id).is_ok_and(|ck| ck.path == here);
            let rank = (differs == 0, is_here, shared);
            // Of equals the latest: a path is overwritten by later runs.
            if (rank.0 || is_here || shared > 0) && best.as_ref().is_none_or(|(other, _)| rank >= *other) {
                best = Some((rank, recorded));
            }
        }
        Ok(best.map(|(_, recorded)| recorded))
    }

    /// Returns the path as records hold it.
    fn relative_path(&self) -> Option<String> {
        let project = self.ledger.project().canonicalize().ok()?;
        let path = self.path.canonicalize().ok()?;
        Some(path.strip_prefix(project).ok()?.to_str()?.to_owned())
    }

    fn not_recorded(&mut self) -> Result<(), Error> {
        let is_undecided = self.report.findings.iter().any(|finding| finding.slug == "too-many");
        if let Some(id) = self.request.is {
            let text = format!("{} is not recorded in this ledger with any content", id.short());
            self.report.add(Finding::new(Severity::Unknown, "not-recorded", text).on(id));
        } else if !is_undecided {
            let path = self.path.display();
            let text =
                format!("nothing in this ledger shares a file with `{path}` ({})", Short(self.tree.id));
            self.report.add(Finding::new(Severity::Unknown, "not-recorded", text));
        }
        self.structure()
    }

    /// Reports what is wrong with the weights by themselves, which may explain why they are not the recorded ones.
    fn structure(&mut self) -> Result<(), Error> {
        let texts: Vec<String> = self.weights()?.incomplete().map(|problem| chain_text(problem)).collect();
        for text in texts {
            self.report.add(Finding::new(Severity::Warn, "incomplete-checkpoint", text));
        }
        Ok(())
    }

    /// Reads the files of a recorded tree, or says which node is missing or wrong.
    fn listing(&self, root: TypedId) -> Result<Listing, Finding> {
        if root.kind == Kind::Blob {
            // A single file stands for itself, whatever its name.
            let path = self.tree.files.first().map(|file| file.path.clone()).unwrap_or_default();
            return Ok([(path, File { size: None, id: root.id })].into());
        }
        let listed = content::list(root.id, &mut |id| self.ledger.store().get(id, MAX_RECORD));
        let entries = listed.map_err(|error| {
            let severity = match &error {
                ListError::Load { source: store::Error::Missing { .. }, .. } => Severity::Unknown,
                _ => Severity::Damaged,
            };
            let slug = if severity == Severity::Unknown { "not-available" } else { "damaged" };
            Finding::new(severity, slug, chain_text(&error)).on(root)
        })?;
        let files = entries.into_iter().filter_map(|(path, what)| match what {
            What::File { size, id, .. } => Some((path, File { size: Some(size), id })),
            What::Dir(_) | What::Link(_) => None,
        });
        Ok(files.collect())
    }

    /// Reads the symbolic links of a recorded tree.
    pub(super) fn links(&self, root: TypedId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let listed = content::list(root.id, &mut |id| self.ledger.store().get(id, MAX_RECORD));
        let link = |(path, what)| match what {
            What::Link(target) => Some((path, target)),
            What::File { .. } | What::Dir(_) => None,
        };
        listed.unwrap_or_default().into_iter().filter_map(link).collect()
    }

    /// Returns where a file lies that was seen.
    pub(super) fn locate(&self, path: &[u8]) -> PathBuf {
        self.tree.place_of(self.path, path)
    }

    /// Returns what stands here for a recorded file. A checkpoint of one file may have been renamed.
    fn here(&self, path: &[u8], listing: &Listing) -> Option<&walk::Seen> {
        match self.tree.root {
            Root::File { .. } if listing.len() == 1 => self.tree.files.first(),
            _ => self.tree.file(path),
        }
    }

    fn has(&self, path: &[u8], file: &File, listing: &Listing) -> bool {
        self.here(path, listing).is_some_and(|seen| seen.blake3 == file.id)
    }

    /// Compares file by file with one record.
    fn compare(&mut self, recorded: &Recorded) -> Result<(), Error> {
        let weights = match self.listing(recorded.weights) {
            Ok(listing) => listing,
            Err(finding) => {
                self.report.add(finding);
                return Ok(());
            }
        };
        let full = match self.listing(recorded.full) {
            Ok(listing) => Some(listing),
            Err(finding) => {
                self.report.add(finding);
                None
            }
        };
        let differs = |(path, file): &(&Vec<u8>, &File)| !self.has(path, file, &weights);
        let wrong: Vec<Vec<u8>> = weights.iter().filter(differs).map(|(path, _)| path.clone()).collect();
        let is_equal = wrong.is_empty();
        let same_tensors = !is_equal && self.same_tensors(recorded)?;
        if is_equal {
            let bytes: u64 =
                weights.keys().filter_map(|path| self.here(path, &weights)).map(|f| f.size).sum();
            let text = format!("{} as recorded, {} read", files(weights.len()), Bytes(bytes));
            self.report.add(Finding::new(Severity::Ok, "bytes", text).on(recorded.id));
        } else if same_tensors {
            self.tell_tensors(recorded, &weights, &wrong)?;
        } else {
            self.name_what_it_is(recorded)?;
            let findings: Vec<Finding> =
                wrong.iter().map(|path| self.wrong_file(recorded, &weights, path)).collect();
            self.report.findings.extend(findings);
            if self.request.by_tensors {
                self.tell_other_tensors(recorded)?;
            }
            self.structure()?;
        }
        if recorded.id.kind == Kind::Checkpoint
            && let Ok(record) = self.ledger.record::<Checkpoint>(recorded.id.id)
            && record.format == "torch-pickle"
        {
            let text = "the weights are pickles, which run code when they are loaded";
            self.report.add(Finding::new(Severity::Warn, "unsafe-pickle", text).on(recorded.id));
        }
        self.compare_sums(recorded);
        self.compare_extra(recorded, &weights, full.as_ref(), same_tensors)?;
        if let Some(full) = full.filter(|_| is_equal) {
            self.compare_others(recorded, &weights, &full);
        }
        Ok(())
    }

    /// Says what was recorded under a path, and what is found there.
    fn wrong_file(&self, recorded: &Recorded, weights: &Listing, path: &Vec<u8>) -> Finding {
        let was = weights.get(path).map_or(String::new(), |file| {
            let size = file.size.map_or(String::new(), |size| format!("{} ", Bytes(size)));
            format!("{size}{}", Short(file.id))
        });
        let link = self.tree.links.iter().find(|(link, _)| link == path);
        let found = match (self.here(path, weights), link) {
            (Some(seen), _) => format!("found {} {}", Bytes(seen.size), Short(seen.blake3)),
            (None, Some((_, target))) => format!("found a symbolic link to `{}`", escape(target)),
            (None, None) => "found nothing".to_owned(),
        };
        let finding = Finding::new(Severity::Fail, "wrong-bytes", format!("recorded {was}, {found}"));
        finding.at(escape(path)).on(recorded.id)
    }

    /// Names the tensors that differ, or says why they cannot be compared.
    fn tell_other_tensors(&mut self, recorded: &Recorded) -> Result<(), Error> {
        let of_record = recorded.tensors.and_then(|id| {
            let bytes = self.ledger.store().get(id, MAX_RECORD).ok()?;
            Tensors::decode(&bytes).ok()
        });
        let here = self.weights()?.tensors.as_ref().and_then(|set| Tensors::decode(&set.bytes).ok());
        let text = match (of_record, here) {
            (Some(was), Some(is)) => {
                let mut changes = Vec::new();
                let same = diff::tensors(&was.tensors, &is.tensors, &mut changes);
                let word = |change: &diff::Change| match (change.how, &change.before, &change.after) {
                    ("dtype" | "shape", Some(was), Some(is)) => format!("`{}` {was} -> {is}", change.path),
                    (how, ..) => format!("`{}` {how}", change.path),
                };
                let words: Vec<String> = changes.iter().map(word).collect();
                format!("{same} of {} tensors as recorded; {}", was.tensors.len(), some(&words))
            }
            (None, _) => "tensors cannot be compared: none are recorded".to_owned(),
            (_, None) => {
                "tensors cannot be compared: not all weights here are whole safetensors files".to_owned()
            }
        };
        self.report.add(Finding::new(Severity::Warn, "tensors", text).on(recorded.id));
        Ok(())
    }

    fn same_tensors(&mut self, recorded: &Recorded) -> Result<bool, Error> {
        if !self.request.by_tensors {
            return Ok(false);
        }
        let found = self.weights()?.tensors.as_ref().map(|tensors| tensors.id);
        Ok(found.is_some() && found == recorded.tensors)
    }

    /// Where another record has exactly these bytes, says so: somebody took one checkpoint for another.
    fn name_what_it_is(&mut self, recorded: &Recorded) -> Result<(), Error> {
        let Some(actual) = self.exactly(whole(&self.tree)?, DigestRole::Full)? else { return Ok(()) };
        let path = self.ledger.record::<Checkpoint>(actual.id.id).ok().and_then(|record| record.path);
        let path = path.map_or(String::new(), |path| format!(" (`{path}`)"));
        let text = format!("this is {}{path}, not {}", actual.id.short(), recorded.id.short());
        self.report.add(Finding::new(Severity::Fail, "not-that-one", text).on(actual.id));
        Ok(())
    }

    /// Compares SHA-256 of everything, where it was asked for and recorded.
    fn compare_sums(&mut self, recorded: &Recorded) {
        let (Some(sums), Some((found, _))) = (recorded.sums, &self.tree.sums) else { return };
        let Ok(of) = self.ledger.bytes(sums).map(|bytes| Sums::decode(&bytes)) else { return };
        if self.tree.id != recorded.full.id || of.is_ok_and(|of| of.tree != recorded.full.id) {
            return;
        }
        let finding = if *found == sums {
            Finding::new(Severity::Ok, "sums", "SHA-256 of every file is as recorded")
        } else {
            Finding::new(Severity::Fail, "wrong-bytes", "BLAKE3 is as recorded and SHA-256 is not")
        };
        self.report.add(finding.on(recorded.id));
    }

    /// Reports recorded files beside the weights that have changed or gone.
    fn compare_others(&mut self, recorded: &Recorded, weights: &Listing, full: &Listing) {
        if self.tree.root != Root::Dir || self.tree.id == recorded.full.id {
            return;
        }
        if recorded.id.kind == Kind::Dataset {
            return self.compare_places(recorded);
        }
        let others = full.iter().filter(|(path, _)| !weights.contains_key(*path));
        let differ: Vec<String> = others
            .filter(|(path, file)| !self.has(path, file, full))
            .map(|(path, _)| format!("`{}`", escape(path)))
            .collect();
        let has_extra = self.tree.files.iter().any(|file| !full.contains_key(&file.path))
            || !self.extra_links(recorded).is_empty();
        let text = if differ.is_empty() && has_extra {
            return;
        } else if differ.is_empty() {
            "weights as recorded; links, execute bits or empty directories differ".to_owned()
        } else {
            let count = files(differ.len()).replacen("file", "other file", 1);
            format!("weights as recorded; {count} changed or gone: {}", some(&differ))
        };
        self.report.add(Finding::new(Severity::Warn, "other-files", text).on(recorded.id));
    }

    /// Names links, execute bits and directories of a data set that are not as recorded.
    ///
    /// It has no loader that would not mind: the id is over all of these, and what is frozen from it does not start.
    fn compare_places(&mut self, recorded: &Recorded) {
        let listed = content::list(recorded.full.id, &mut |id| self.ledger.store().get(id, MAX_RECORD));
        // That a tree cannot be listed was told with its files.
        let Ok(listed) = listed else { return };
        let Tree { files, links, dirs, .. } = &self.tree;
        let is_other = |(path, what): &(&Vec<u8>, &What)| match what {
            // A file that is gone was told as one.
            What::File { exec, .. } => self.tree.file(path).is_some_and(|seen| seen.exec != *exec),
            What::Link(target) => {
                links.binary_search_by(|(link, to)| (link, to).cmp(&(path, target))).is_err()
            }
            What::Dir(_) => dirs.binary_search(path).is_err(),
        };
        let mut differ: BTreeSet<&Vec<u8>> = listed.iter().filter(is_other).map(|(path, _)| path).collect();
        // A directory that holds something is told by what it holds.
        let is_empty = |dir: &&Vec<u8>| {
            let inside = content::join(dir, b"");
            let file = files.get(files.partition_point(|file| file.path < inside)).map(|file| &file.path);
            let link = links.get(links.partition_point(|(link, _)| *link < inside)).map(|(link, _)| link);
            !file.into_iter().chain(link).any(|path| path.starts_with(&inside))
        };
        differ.extend(dirs.iter().filter(|dir| !listed.contains_key(*dir)).filter(is_empty));
        if differ.is_empty() {
            return;
        }
        let names: Vec<String> = differ.into_iter().map(|path| format!("`{}`", escape(path))).collect();
        let text = format!("links, execute bits or empty directories differ: {}", some(&names));
        self.report.add(Finding::new(Severity::Fail, "other-files", text).on(recorded.id));
    }
}

pub(super) fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

pub(super) fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut text = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    text
}
