//! From a claim to everything that it rests on: its statement and record, its start and plan, every input.
//!
//! Each thing is checked once and all findings are kept. What the plan declares as absent is shown, what is
//! linked and missing cannot be decided, and what is there and wrong is damage. Marks of revocations are held
//! against everything on the way, and at the end it is said whose word all of this is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{KeyId, ObjectId};
use crate::ledger::{self, Ledger, Stated};
use crate::log::files;
use crate::log::key::PublicKey;
use crate::model::content::{self, ListError, What};
use crate::model::{
    Checkpoint, Code, Config, Dirt, Environment, Eval, Facts, Kind, Plan, Record, Role, StatedBy, Status,
    TypedId,
};
use crate::state::{self, Mark, MarkTarget, State};
use crate::{codec, durable, model, store};

use super::marks::{self, Marks};
use super::outside;
use super::statement::{Statements, chain_text, check_parents, claim_before, fold_again};
use super::{Error, Finding, Report, Request, Severity, claim};

/// What a plan either links or says to be none.
const DECLARED: [&str; 5] = ["config", "code", "data", "environment", "base"];

/// Checks the report's subject and everything that it rests on, and whose word it is.
pub(super) fn check(
    ledger: &Ledger,
    request: &Request,
    size: u64,
    progress: &(dyn Fn(u64) + Sync),
    report: &mut Report,
) -> Result<(), Error> {
    let fresh = if request.full { Some(fold_again(ledger, report)?) } else { None };
    let state = fresh.as_ref().unwrap_or_else(|| ledger.state());
    let mut chain = Chain {
        ledger,
        state,
        request,
        size,
        marks: Marks::read(ledger, state, size)?,
        statements: Statements::new(ledger, state),
        revoking: Statements::new(ledger, state),
        seen: BTreeSet::new(),
        open: VecDeque::new(),
        found: Vec::new(),
        report,
    };
    if let Some(subject) = chain.report.subject {
        chain.open.push_back((subject, String::new()));
    }
    while let Some((id, role)) = chain.open.pop_front() {
        if chain.seen.insert(id) {
            chain.follow(id, &role, progress)?;
            // What something rests on is told right after it.
            while let Some(next) = chain.found.pop() {
                chain.open.push_front(next);
            }
        }
    }
    chain.unasked();
    chain.parents()?;
    chain.head()?;
    chain.trust();
    Ok(())
}

struct Chain<'a> {
    ledger: &'a Ledger,
    state: &'a State,
    request: &'a Request,
    size: u64,
    marks: Marks,
    /// What the answer rests on.
    statements: Statements<'a>,
    /// The statements that left marks: checked as strictly, but nothing rests on them.
    revoking: Statements<'a>,
    seen: BTreeSet<TypedId>,
    /// What is still to be checked, and the word for it in messages.
    open: VecDeque<(TypedId, String)>,
    /// What the thing at hand links, in order.
    found: Vec<(TypedId, String)>,
    report: &'a mut Report,
}

impl Chain<'_> {
    /// Checks one claim or record, and puts what it links on the list.
    fn follow(&mut self, id: TypedId, role: &str, progress: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        self.object_marks(id, role)?;
        let stated = match self.place(id, role) {
            Some(place) => {
                let findings = self.statements.check(place.index)?;
                self.report.findings.extend(findings);
                let Some(stated) = self.stated(place, id)? else { return Ok(()) };
                self.claim_marks(&stated)?;
                Some(stated)
            }
            None => None,
        };
        // Data and base models are content: a plan may use what nobody has claimed.
        let is_content = matches!(id.kind, Kind::Dataset | Kind::Model);
        if stated.is_none() && id.kind.stated_by() != StatedBy::Nobody && !is_content {
            let text = format!("{} is not stated in this ledger{}", id.short(), as_role(role));
            self.report.add(Finding::new(Severity::Unknown, "not-recorded", text).on(id));
            return Ok(());
        }
        let Some(bytes) = self.object(id, role)? else { return Ok(()) };
        if let Some(stated) = &stated
            && let Some(text) = claim::contradiction(stated, &bytes)
        {
            self.report.add(Finding::new(Severity::Damaged, "claim-differs", text).on(id));
            return Ok(());
        }
        match (id.kind, &stated) {
            (Kind::Checkpoint, Some(stated)) => self.checkpoint(id, stated),
            (Kind::Start, Some(stated)) => {
                self.start(id, stated);
                Ok(())
            }
            (Kind::Plan, Some(stated)) => self.plan(id, stated, progress),

            (Kind::Eval, Some(stated)) => self.eval(id, stated),
            (Kind::Dataset | Kind::Model, _) => self.data(id, role, stated.as_ref()),
            (Kind::Config, _) => self.config(id),
            (Kind::Code, _) => self.code(id),
            (Kind::Environment, _) => self.environment(id),
            (_, Some(stated)) => {
                let what = match &stated.facts {
                    Facts::End { status } => status.word(),
                    _ => "",
                };
                self.said(id, stated, what);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// Finds the claim to rely on: the first, or where its key was in other hands, the next that says the same.
    fn place(&mut self, id: TypedId, role: &str) -> Option<state::Place> {
        let first = claim_before(self.state, id, self.size)?;
        let key = self.state.author(id)?.id;
        if self.marks.taints(key, first.index).is_none() {
            return Some(first);
        }
        let said = self.state.keys().into_iter().filter_map(|row| {
            let place = self.state.claim_by(id, row.id)?;
            let is_whole = self.marks.taints(row.id, place.index).is_none();
            (u64::from(place.index) < self.size && is_whole).then_some(place)
        });
        let Some(again) = said.min() else { return Some(first) };
        let text = format!(
            "{}{} was first stated with a compromised key; statement {} says it again with another",
            id.short(),
            as_role(role),
            again.index
        );
        self.ok("said-again", id, text);
        Some(again)
    }

    /// Reads a claim, which must be about the object that it was looked up for.
    fn stated(&mut self, place: state::Place, id: TypedId) -> Result<Option<Stated>, Error> {
        match self.ledger.stated(place) {
            Ok(stated) if stated.object == id => Ok(Some(stated)),
            Ok(_) => {
                let text =
                    format!("the claim of {} does not stand where the folded state has it", id.short());
                let finding = Finding::new(Severity::Damaged, "state", text).on(id);
                self.report.add(finding.at(format!("statement {}", place.index)));
                Ok(None)
            }
            // The statement's own check has already said so.
            Err(error) if is_about_content(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an object again; a finding says why there is none.
    fn object(&mut self, id: TypedId, role: &str) -> Result<Option<Vec<u8>>, Error> {
        let error = match self.ledger.store().get(id.id, codec::MAX_RECORD) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) => error,
        };
        let name = format!("{}{}", id.short(), as_role(role));
        let finding = match (&error, self.state.erased(id.id)) {
            (store::Error::Missing { .. }, Some(place)) => {
                let text = format!("{name} was erased by statement {}", place.index);
                Finding::new(Severity::Unknown, "erased", text)
            }
            (store::Error::Missing { .. }, None) => {
                Finding::new(Severity::Unknown, "not-available", format!("{name} is not in the store"))
            }
            (
                store::Error::Damaged { .. }
                | store::Error::Pack { .. }
                | store::Error::TooLarge { .. }
                | store::Error::Disk(durable::Error::NotRegular { .. }),
                _,
            ) => Finding::new(Severity::Damaged, "damaged", format!("{name}: {}", chain_text(&error))),
            _ => return Err(ledger::Error::from(error).into()),
        };
        self.report.add(finding.on(id));
        Ok(None)
    }

    /// Whether an object of any size is there and right, with a finding if not.
    fn blob(&mut self, id: TypedId, role: &str) -> Result<(), Error> {
        self.object_marks(id, role)?;
        match self.ledger.store().copy_to(id.id, &mut std::io::sink()) {
            Ok(_) => Ok(()),
            // The reader of small objects words the same troubles.
            Err(_) => self.object(id, role).map(|_| ()),
        }
    }

    fn record<R: Record>(&mut self, id: TypedId) -> Result<Option<R>, Error> {
        match self.ledger.record::<R>(id.id) {
            Ok(record) => Ok(Some(record)),
            Err(error @ ledger::Error::Record { .. }) => {
                self.report.add(Finding::new(Severity::Damaged, "damaged", chain_text(&error)).on(id));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn next(&mut self, id: Option<TypedId>, role: impl Into<String>) {
        if let Some(id) = id {
            self.found.push((id, role.into()));
        }
    }

    fn ok(&mut self, slug: &'static str, id: TypedId, text: impl Into<String>) {
        self.report.add(Finding::new(Severity::Ok, slug, text).on(id));
    }

    /// Says who stated what, where.
    fn said(&mut self, id: TypedId, stated: &Stated, what: &str) {
        let comma = if what.is_empty() { "" } else { ", " };
        let who = self.ledger.who(stated.key);
        let text =
            format!("{}{comma}{what}, stated by {who} in statement {}", id.short(), stated.place.index);
        self.ok(id.kind.word(), id, text);
    }

    fn checkpoint(&mut self, id: TypedId, stated: &Stated) -> Result<(), Error> {
        let Some(record) = self.record::<Checkpoint>(id)? else { return Ok(()) };
        let step = record.step.map_or(String::new(), |step| format!("step {step}"));
        self.said(id, stated, &step);
        let is_subject = self.report.subject == Some(id);
        if is_subject {
            self.report.place = record.path;
        }
        if record.start.is_none() {
            let text = format!("{} names no run that made it", id.short());
            self.report.add(Finding::new(Severity::Warn, "no-run", text).on(id));
        }
        if let Some(start) = record.start
            && is_subject
        {
            self.report.run = self.state.attempt(start.id).map(|row| TypedId::new(Kind::Plan, row.plan));
        }
        self.tree(record.weights, "weights")?;
        self.tree(record.full, "files")?;
        for (object, role) in [(record.tensors, "tensors"), (stated.link("sums"), "sums")] {
            if let Some(object) = object {
                self.blob(object, role)?;
            }
        }
        self.next(record.start, "start");
        self.next(record.parent, "parent");
        Ok(())
    }

    fn start(&mut self, id: TypedId, stated: &Stated) {
        self.said(id, stated, "");
        self.next(stated.link("plan"), "plan");
        self.next(stated.link("environment"), "environment met at the start");
        let Some(attempt) = self.state.attempt(id.id) else { return };
        let ended = attempt.ended.filter(|(_, place)| u64::from(place.index) < self.size);
        let (severity, text) = match ended {
            Some((status, place)) => {
                if let Ok(end) = self.ledger.stated(place) {
                    self.next(Some(end.object), "end");
                }
                let is_whole = status == Status::Completed;
                let severity = if is_whole { Severity::Ok } else { Severity::Warn };
                (severity, format!("the attempt {status}"))
            }
            None if attempt.lost => {
                (Severity::Warn, "the attempt never ended and is presumed lost".to_owned())
            }
            None => (Severity::Warn, "the attempt has not ended".to_owned()),
        };
        self.report.add(Finding::new(severity, "run-status", text).on(id));
    }

    fn plan(&mut self, id: TypedId, stated: &Stated, progress: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        let Some(plan) = self.record::<Plan>(id)? else { return Ok(()) };
        self.said(id, stated, plan.name.as_deref().unwrap_or_default());
        for word in DECLARED {
            let is_linked = match word {
                "config" => plan.config.is_some(),
                "code" => plan.code.is_some(),
                "environment" => plan.environment.is_some(),
                "data" => !plan.data.is_empty(),
                _ => !plan.base.is_empty(),
            };
            match plan.none.get(word) {
                _ if is_linked => {}
                Some(reason) => self.ok("none", id, format!("{word}: none ({reason})")),
                None => {
                    let text = format!("the plan neither links its {word} nor says why there is none");
                    self.report.add(Finding::new(Severity::Unknown, "not-declared", text).on(id));
                }
            }
        }
        self.next(plan.config, "config");
        self.next(plan.code, "code");
        self.next(plan.environment, "environment");
        for (role, data) in &plan.data {
            self.next(Some(*data), format!("data `{role}`"));
        }
        for (role, base) in &plan.base {
            self.next(Some(*base), format!("base `{role}`"));
        }
        let texts = plan.contracts.iter().chain(&plan.policies).chain(&plan.spec);
        for object in texts.copied().chain(stated.link("manifest")).chain(stated.link("untracked")) {
            self.blob(object, object.kind.word())?;
        }
        if self.request.data {
            outside::check_data(self.ledger, &plan, stated, progress, self.report)?;
        }
        Ok(())
    }

    fn config(&mut self, id: TypedId) -> Result<(), Error> {
        let Some(config) = self.record::<Config>(id)? else { return Ok(()) };
        self.blob(config.frozen, "frozen config")?;
        for source in &config.sources {
            self.blob(*source, "config source")?;
        }
        let (count, s) = (config.sources.len(), if config.sources.len() == 1 { "" } else { "s" });
        self.ok("config", id, format!("{}, from {count} file{s}", id.short()));
        Ok(())
    }

    fn code(&mut self, id: TypedId) -> Result<(), Error> {
        let Some(code) = self.record::<Code>(id)? else { return Ok(()) };
        let commit = code.commit.get(..8).unwrap_or(&code.commit);
        self.ok("code", id, format!("{}, commit {commit}", id.short()));
        if let Some(diff) = code.diff {
            self.blob(diff, "diff")?;
        }
        let finding = match code.dirt {
            Dirt::Clean => None,
            Dirt::Dirty => {
                Some(("dirty", format!("{} tracked files differ from the commit", code.files.len())))
            }
            Dirt::Unknown => {
                let reason = code.reason.as_deref().unwrap_or("no reason given");
                Some(("dirty-unknown", format!("whether files differ from the commit is unknown: {reason}")))
            }
        };
        if let Some((slug, text)) = finding {
            self.report.add(Finding::new(Severity::Warn, slug, text).on(id));
        }
        if let Some(repo) = &self.request.repo {
            self.report.add(outside::check_commit(repo, &code).on(id));
            if let Some(allowed) = &self.request.signers {
                self.report.add(outside::check_signature(repo, &code, allowed).on(id));
            }
        }
        Ok(())
    }

    fn environment(&mut self, id: TypedId) -> Result<(), Error> {
        let Some(environment) = self.record::<Environment>(id)? else { return Ok(()) };
        let mut parts: Vec<String> = Vec::new();
        if let Some(interpreter) = &environment.interpreter {
            parts.push(format!("{} {}", interpreter.name, interpreter.version));
        }
        if let Some(lock) = &environment.lock {
            self.blob(lock.file, "lock file")?;
            parts.push(lock.name.clone());
        }
        if let Some(installed) = &environment.installed {
            self.blob(installed.file, "list of packages")?;
        }
        parts.push(format!("{} {}", environment.os, environment.arch));
        self.ok("environment", id, format!("{}, {}", id.short(), parts.join(", ")));
        Ok(())
    }

    fn data(&mut self, id: TypedId, role: &str, stated: Option<&Stated>) -> Result<(), Error> {
        let bytes = self.ledger.store().get(id.id, codec::MAX_RECORD).map_err(ledger::Error::from)?;
        let root = match model::project(id.kind, &bytes) {
            Ok(said) => said.links.first().map(|link| link.target),
            Err(error) => {
                self.report.add(Finding::new(Severity::Damaged, "damaged", chain_text(&error)).on(id));
                return Ok(());
            }
        };
        if let Some(root) = root {
            // A single file lies where it was; only trees are kept.
            if root.kind == Kind::Tree {
                self.tree(root, role)?;
            } else {
                self.object_marks(root, role)?;
            }
        }
        if let Some(stated) = stated {
            self.said(id, stated, role);
        } else {
            self.ok(id.kind.word(), id, format!("{}{}", id.short(), as_role(role)));
        }
        Ok(())
    }

    fn eval(&mut self, id: TypedId, stated: &Stated) -> Result<(), Error> {
        let Some(eval) = self.record::<Eval>(id)? else { return Ok(()) };
        self.said(id, stated, &eval.binding);
        for result in &eval.results {
            self.blob(*result, "result")?;
        }
        self.next(eval.of, "subject");
        self.next(eval.start, "start");
        self.next(Some(eval.benchmark), "benchmark");
        Ok(())
    }

    /// Whether a tree is there: its root, and all of it where that was asked for or something in it is marked.
    fn tree(&mut self, root: TypedId, role: &str) -> Result<(), Error> {
        self.object_marks(root, role)?;
        let marked: BTreeSet<ObjectId> =
            self.marks.all().iter().filter_map(|mark| content_of(mark.target)).collect();
        if !self.request.full && marked.is_empty() {
            return self.object(root, role).map(|_| ());
        }
        let store = self.ledger.store();
        let mut nodes = BTreeSet::new();
        let listed = content::list(root.id, &mut |id| {
            nodes.insert(id);
            store.get(id, codec::MAX_RECORD)
        });
        match listed {
            Ok(entries) => {
                let files = entries.into_values().filter_map(|what| match what {
                    What::File { id, .. } => Some(id),
                    What::Dir(_) | What::Link(_) => None,
                });
                nodes.remove(&root.id);
                let inside: BTreeSet<ObjectId> =
                    files.chain(nodes).filter(|id| marked.contains(id)).collect();
                for id in inside {
                    self.object_marks(TypedId::new(Kind::Blob, id), role)?;
                }
                Ok(())
            }
            Err(ListError::Load {
                id,
                source: store::Error::Missing { .. } | store::Error::Damaged { .. },
            }) => self.object(TypedId::new(Kind::Tree, id), role).map(|_| ()),
            Err(ListError::Load { source, .. }) => Err(ledger::Error::from(source).into()),
            Err(error) => {
                self.report.add(Finding::new(Severity::Damaged, "damaged", chain_text(&error)).on(root));
                Ok(())
            }
        }
    }

    /// Reports revocations of an object.
    fn object_marks(&mut self, id: TypedId, role: &str) -> Result<(), Error> {
        let is_on = |mark: &&Mark| matches!(mark.target, MarkTarget::Object(object) if object.id == id.id);
        let marks: Vec<Mark> = self.marks.all().iter().filter(is_on).cloned().collect();
        for mark in marks {
            self.revoked(&mark, &format!("{}{}", id.short(), as_role(role)), Some(id))?;
        }
        Ok(())
    }

    /// Reports revocations of a claim.
    fn claim_marks(&mut self, stated: &Stated) -> Result<(), Error> {
        let is_on = |mark: &&Mark| mark.target == MarkTarget::Claim(stated.place);
        let marks: Vec<Mark> = self.marks.all().iter().filter(is_on).cloned().collect();
        for mark in marks {
            let what = format!("the claim of {}", stated.object.short());
            self.revoked(&mark, &what, Some(stated.object))?;
        }
        Ok(())
    }

    /// Reports marks on the keys that signed what the answer rests on.
    fn key_marks(&mut self) -> Result<(), Error> {
        let mut signed: BTreeMap<KeyId, Vec<u32>> = BTreeMap::new();
        for (index, key) in self.statements.signers() {
            signed.entry(key).or_default().push(index);
        }
        for (key, indexes) in signed {
            let Some(mark) = self.marks.on_key(key).cloned() else { continue };
            self.report.findings.extend(self.revoking.check(mark.index)?);
            let (tainted, before): (Vec<u32>, Vec<u32>) =
                indexes.into_iter().partition(|index| u64::from(*index) >= mark.since);
            let (who, extent) = (self.ledger.who(key), marks::extent(&mark));
            let said = marks::told(self.ledger, &mark);
            if !tainted.is_empty() {
                let text =
                    format!("{} signed by {who}, whose key is {extent}, said{said}", numbered(&tainted));
                self.report.add(Finding::new(Severity::Fail, "compromised", text));
            }
            if !before.is_empty() {
                let text =
                    format!("the key of {who} is {extent}; {} signed before and stands", numbered(&before));
                self.report.add(Finding::new(Severity::Ok, "compromised", text));
            }
        }
        Ok(())
    }

    /// Says what was put in order while a log key was in other hands.
    ///
    /// Such a key gives order and no facts: each statement is still signed by its author. The head that is
    /// signed by another log key vouches for the order now, as far as its signer could know it.
    fn order_marks(&mut self, signer: KeyId, size: u64) -> Result<(), Error> {
        let indexes: Vec<u32> = self.statements.signers().map(|(index, _)| index).collect();
        let log_keys = self.marks.all().iter().filter_map(|mark| match mark.target {
            MarkTarget::Key(key) => Some(key),
            _ => None,
        });
        let log_keys: BTreeSet<KeyId> = log_keys.collect();
        for key in log_keys {
            let Some(mark) = self.marks.on_key(key).cloned() else { continue };
            if !self.orders(key)? {
                continue;
            }
            self.report.findings.extend(self.revoking.check(mark.index)?);
            let (who, since) = (self.ledger.who(key), mark.since);
            let said = marks::told(self.ledger, &mark);
            if key == signer {
                let text = format!(
                    "the head of {size} statements is signed by {who} only, whose log key is {}, said{said}: \
                     nobody else vouches for its order",
                    marks::extent(&mark)
                );
                self.report.add(Finding::new(Severity::Unknown, "order", text));
                continue;
            }
            let is_meant = |index: &&u32| u64::from(**index) >= since && **index < mark.index;
            let meant: Vec<u32> = indexes.iter().filter(is_meant).copied().collect();
            let finding = if meant.is_empty() {
                let text = format!(
                    "the log key of {who} is {}, said{said}; nothing that this rests on was put in order then",
                    marks::extent(&mark)
                );
                Finding::new(Severity::Ok, "order", text)
            } else {
                let text = format!(
                    "{} put in order while the log key of {who} was in other hands, said{said}: what was said \
                     stands, and the head of {size} statements by another log key vouches for its place",
                    numbered(&meant)
                );
                Finding::new(Severity::Warn, "order", text)
            };
            self.report.add(finding);
        }
        Ok(())
    }

    /// Whether a key orders statements, or did until its last claim took the role.
    fn orders(&self, key: KeyId) -> Result<bool, Error> {
        let mut next = self.state.key(key).map(|row| row.claim);
        while let Some(place) = next {
            let stated = self.ledger.stated(place)?;
            if matches!(&stated.facts, Facts::Key { roles, .. } if roles.contains(&Role::Log)) {
                return Ok(true);
            }
            next = self.statements.replaced(place)?.filter(|before| *before < place);
        }
        Ok(false)
    }

    fn revoked(&mut self, mark: &Mark, what: &str, id: Option<TypedId>) -> Result<(), Error> {
        // Who revokes is checked like everything else that the answer rests on.
        self.report.findings.extend(self.revoking.check(mark.index)?);
        let text = format!("{what} was revoked{}", marks::told(self.ledger, mark));
        let finding = Finding::new(Severity::Fail, "revoked", text);
        self.report.add(match id {
            Some(id) => finding.on(id),
            None => finding,
        });
        Ok(())
    }

    /// Lists what could be checked and was not asked for.
    fn unasked(&mut self) {
        let is_met = |kind| self.seen.iter().any(|id: &TypedId| id.kind == kind);
        let (code, data) = (is_met(Kind::Code), is_met(Kind::Dataset) || is_met(Kind::Model));
        if code && self.request.repo.is_none() {
            let text = "whether a repository holds the commit: `--repo DIR` checks it";
            self.report.add(Finding::new(Severity::Skip, "repo", text));
        }
        if data && !self.request.data {
            let text = "whether data and base models are still as frozen: `--data` reads them";
            self.report.add(Finding::new(Severity::Skip, "data", text));
        }
    }

    /// Says which logs the ledger goes on from, and checks the statements that say so.
    fn parents(&mut self) -> Result<(), Error> {
        let segments = self.ledger.segments();
        if segments.len() > 1 {
            self.report.findings.extend(check_parents(self.ledger)?);
        }
        for segment in segments.iter().skip(1) {
            self.report.findings.extend(self.statements.check(segment.first as u32)?);
        }
        Ok(())
    }

    /// Says how far the log is known, by whose signature.
    fn head(&mut self) -> Result<(), Error> {
        let head = self.ledger.head();
        let size = self.ledger.places();
        let live = self.state.keys().into_iter().filter(|row| row.has(Role::Log));
        let keys: Vec<PublicKey> = live.filter_map(|row| PublicKey::parse(&row.public).ok()).collect();
        match head.verify(&keys) {
            Ok(key) => {
                let signer = key.thumbprint();
                if let Some(row) = self.state.key(signer) {
                    self.report.findings.extend(self.statements.check(row.claim.index)?);
                }
                let short = &signer.to_hex()[..4];
                let text = format!("known up to statement {}, by log key {short}", size.saturating_sub(1));
                self.report.add(Finding::new(Severity::Ok, "head", text));
                self.key_marks()?;
                self.order_marks(signer, size)?;
            }
            Err(error) => self.report.add(Finding::new(Severity::Damaged, "head", chain_text(&error))),
        }
        if let Some(asked) = self.request.as_of.filter(|asked| *asked > size) {
            let text = format!("asked as of {asked} statements, this copy has {size}");
            self.report.add(Finding::new(Severity::Unknown, "behind", text));
        } else if self.size < size {
            let text = format!("answered as of {} statements; what came later is left out", self.size);
            self.report.add(Finding::new(Severity::Ok, "as-of", text));
        }
        Ok(())
    }

    /// Says whether the user trusts this ledger: everything before only shows that it agrees with itself.
    fn trust(&mut self) {
        let (id, size) = (self.ledger.id(), self.ledger.head().head().size);
        let trusted = self.request.trust.iter().find(|trusted| trusted.id == id);
        let finding = match trusted {
            None => {
                let text = "self-consistent, signer not trusted";
                Finding::new(Severity::Unknown, "signer-not-trusted", text)
            }
            Some(trusted) if trusted.min_head.is_some_and(|least| least > size) => {
                let least = trusted.min_head.unwrap_or_default();
                let text = format!("this copy ends at {size} statements, trust begins at {least}");
                Finding::new(Severity::Unknown, "behind", text)
            }
            Some(trusted) => {
                let name = trusted.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
                Finding::new(Severity::Ok, "trust", format!("ledger {}{name} is trusted", &id.to_hex()[..8]))
            }
        };
        self.report.add(finding);
    }
}

/// Whether an error is about what lies in the ledger, not about a disk that does not answer.
fn is_about_content(error: &ledger::Error) -> bool {
    match error {
        ledger::Error::Unreadable { .. } => true,
        ledger::Error::Files(error) => !matches!(error, files::Error::Disk(_)),
        _ => false,
    }
}

/// Content that a mark is on: a file or tree that may lie inside a larger one.
const fn content_of(target: MarkTarget) -> Option<ObjectId> {
    match target {
        MarkTarget::Object(object) if matches!(object.kind, Kind::Blob | Kind::Tree) => Some(object.id),
        _ => None,
    }
}

/// Writes `statements 4, 7 were`, or `statement 4 was`.
fn numbered(indexes: &[u32]) -> String {
    let list: Vec<String> = indexes.iter().map(u32::to_string).collect();
    match indexes {
        [_] => format!("statement {} was", list.join("")),
        _ => format!("statements {} were", list.join(", ")),
    }
}

fn as_role(role: &str) -> String {
    if role.is_empty() { String::new() } else { format!(" ({role})") }
}
