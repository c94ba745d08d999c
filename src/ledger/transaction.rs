//! A transaction: objects that are staged, claims about them, and one signed statement that holds them all.
//!
//! `begin -> put -> claim -> commit(self)`. Objects are durable before the statement is, and the statement is
//! durable in `log/pending` before anybody tries to order it: from there on it cannot be lost. A statement
//! that the fold would refuse is not written at all.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rayon::prelude::*;

use crate::id::{ClaimRef, HolderId, ObjectId, Sha256, StatementId, sha256};
use crate::log::key::SigningKey;
use crate::log::statement::{self, Claim, Link as RawLink, Payload, Seen, Statement};
use crate::model::{self, Encoded, Facts, Kind, Link, Name, Record, TypedId};
use crate::state::{Checks, RULES, Reason, Standing};

use super::init::sign_head;
use super::sequencer::{Sequenced, has_room};
use super::{Error, Ledger};

/// The keys and the clock of whoever writes.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// Signs statements.
    pub author: &'a SigningKey,
    /// Signs heads; without it statements wait for somebody who can.
    pub log: Option<&'a SigningKey>,
    /// Seconds since 1970.
    pub time: u64,
    /// How long to wait for the log's lock.
    pub wait: Duration,
    /// Number of the user, which names the directory of pending statements.
    pub user: u32,
}

/// A claim that will be part of a statement.
#[derive(Clone, Debug)]
pub struct StagedClaim {
    /// What is claimed.
    pub object: TypedId,
    sha256: Sha256,
    size: u64,
    links: Vec<Link>,
    facts: Facts,
    prev: Option<ClaimRef>,
}

impl StagedClaim {
    /// Claims a record, with the links and facts that its bytes hold.
    pub fn new<R: Record>(record: &R, encoded: &Encoded) -> Self {
        Self {
            object: encoded.id,
            sha256: sha256(&encoded.bytes),
            size: encoded.bytes.len() as u64,
            links: record.links(),
            facts: record.facts(),
            prev: None,
        }
    }

    /// Adds a link that stands beside the record.
    #[must_use]
    pub fn beside(mut self, role: &'static str, target: TypedId) -> Self {
        self.links.push(Link::new(role, target));
        self
    }

    /// Asks for a name.
    #[must_use]
    pub fn named(mut self, name: Option<Name>) -> Self {
        if name.is_some() {
            self.facts = Facts::Named { name };
        }
        self
    }

    /// Names the claim that a decision replaces.
    #[must_use]
    pub fn replacing(mut self, prev: Option<ClaimRef>) -> Self {
        self.prev = prev;
        self
    }

    /// Returns the links, as they will stand in the claim.
    pub fn links(&self) -> Vec<Link> {
        let mut links = self.links.clone();
        links.sort_unstable_by(|a, b| raw_order(a).cmp(&raw_order(b)));
        links.dedup();
        links
    }

    /// Returns the facts.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }
}

fn raw_order(link: &Link) -> (&'static str, &'static str, ObjectId) {
    (link.role, link.target.kind.word(), link.target.id)
}

/// Returns links in the one order of a claim.
pub(super) fn claim_links(links: &[Link]) -> Vec<RawLink<'static>> {
    let mut raw: Vec<RawLink<'static>> = links
        .iter()
        .map(|link| RawLink {
            role: Cow::Borrowed(link.role),
            kind: Cow::Borrowed(link.target.kind.word()),
            id: link.target.id,
        })
        .collect();
    raw.sort_unstable();
    raw.dedup();
    raw
}

/// How a transaction ended.
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// Under a published head and accepted by the fold.
    Accepted {
        /// Index of the statement.
        index: u32,
        /// The statement.
        statement: StatementId,
    },
    /// Durable, but not yet ordered; a later writing command of somebody with a log key does that.
    Queued {
        /// The statement.
        statement: StatementId,
        /// Why it could not be ordered now.
        why: String,
    },
}

/// Objects and claims of one statement that is appended together with others.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Bytes to store.
    pub objects: Vec<Vec<u8>>,
    /// One claim at least.
    pub claims: Vec<StagedClaim>,
}

/// Objects and claims that become one statement.
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'l> {
    ledger: &'l mut Ledger,
    objects: Vec<Vec<u8>>,
    claims: Vec<StagedClaim>,
    req: Option<[u8; 16]>,
}

impl Ledger {
    /// Begins a transaction.
    pub const fn transaction(&mut self) -> Transaction<'_> {
        Transaction { ledger: self, objects: Vec::new(), claims: Vec::new(), req: None }
    }

    /// Returns whether a claim like this one has been made by this key already: same object, links and facts.
    pub fn repeats(&self, claim: &StagedClaim, author: &SigningKey) -> Result<bool, Error> {
        let key = author.public().thumbprint();
        let Some(place) = self.state().claim_by(claim.object, key) else { return Ok(false) };
        let stated = self.stated(place)?;
        let mut links: Vec<(String, TypedId)> =
            claim.links().iter().map(|link| (link.role.to_owned(), link.target)).collect();
        // A new salt makes a new private object, which is no difference of content.
        links.retain(|(role, _)| role != "private");
        let said = stated.links.iter().filter(|(role, _)| role != "private").cloned().collect::<Vec<_>>();
        Ok(links == said && stated.facts == claim.facts)
    }

    /// Appends many statements of one author with as few commits as their number allows, for imports.
    ///
    /// Nothing is written unless the fold would accept each after those before it. Statements do not wait in
    /// `log/pending` here, so it takes a log key; none is acknowledged before all are under a head, and after
    /// an error those that are under one already can be found in the log. Returns index and standing of each:
    /// a decision may still have lost to another writer on a disk without locks.
    pub fn append(&mut self, drafts: &[Draft], signer: &Signer<'_>) -> Result<Vec<(u32, Standing)>, Error> {
        self.may_write()?;
        let holder = self.holder_of(signer.author)?;
        let not_allowed = Error::Refused { reason: Reason::RoleNotAllowed };
        let log_key = self.log_key(signer).ok_or(not_allowed)?;
        let lock = self.durable.lock(Path::new("log/lock"), signer.wait)?;
        self.refresh()?;
        let sign = |draft: &Draft| self.sign(&draft.claims, None, holder, signer);
        let leaves: Vec<Vec<u8>> = drafts.par_iter().map(sign).collect::<Result<_, Error>>()?;
        let statements: Vec<Statement<'_>> =
            leaves.par_iter().map(|leaf| Statement::parse(leaf)).collect::<Result<_, _>>()?;
        let mut trial = self.state.clone();
        for statement in &statements {
            accepted(trial.apply(statement.id, Some(statement), Checks::GOOD))?;
        }
        let objects: Vec<&[u8]> = drafts.iter().flat_map(|draft| &draft.objects).map(Vec::as_slice).collect();
        self.store.put_many(&objects)?;
        let mut rest = statements.as_slice();
        while !rest.is_empty() {
            let (mut batch, mut bytes, mut state) = (Vec::new(), 0, self.state.clone());
            for statement in rest {
                if !has_room(batch.len(), bytes, statement) {
                    break;
                }
                // Two equal drafts are one statement.
                if state.statement(statement.id).is_none() {
                    state.apply(statement.id, Some(statement), Checks::GOOD);
                    bytes += statement.bytes.len();
                    batch.push(statement.bytes.to_vec());
                }
            }
            let file = sign_head(self.id(), self.state.size(), batch, state.root(), log_key)?;
            if !self.commit_head(file, state)? {
                self.refresh()?;
            }
            while rest.first().is_some_and(|next| self.state.statement(next.id).is_some()) {
                rest = &rest[1..];
            }
        }
        drop(lock);
        self.after_commit();
        Ok(statements.iter().filter_map(|statement| self.state.statement(statement.id)).collect())
    }

    /// Refuses to write to a copy, and under rules that this program does not know.
    pub(super) fn may_write(&self) -> Result<(), Error> {
        if self.is_copy {
            return Err(Error::Copied { path: self.root.clone() });
        }
        let found = self.state.rules();
        if found > RULES { Err(Error::Rules { found }) } else { Ok(()) }
    }

    /// Signs claims as a statement by somebody who has seen the head of this view.
    fn sign(
        &self,
        claims: &[StagedClaim],
        req: Option<[u8; 16]>,
        holder: HolderId,
        signer: &Signer<'_>,
    ) -> Result<Vec<u8>, Error> {
        let head = self.head.head();
        let payload = Payload {
            ledger: Some(self.id()),
            seen: Some(Seen { size: head.size, root: head.root }),
            claims: claims.iter().map(raw_claim).collect(),
            req,
        };
        let prefix = claims.first().map_or("", |claim| claim.object.kind.prefix());
        Ok(statement::sign(&payload, prefix, holder, signer.time, signer.author)?)
    }

    /// Returns the holder of a key, or why it may not write here.
    pub fn holder_of(&self, author: &SigningKey) -> Result<HolderId, Error> {
        let key = author.public().thumbprint();
        match self.state().key(key) {
            Some(row) if !row.roles.is_empty() => Ok(row.holder),
            Some(_) => Err(Error::Refused { reason: Reason::RoleNotAllowed }),
            None => Err(Error::UnknownKey { key }),
        }
    }
}

impl Transaction<'_> {
    /// Returns the ledger as it was when the transaction began.
    pub const fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// Stages bytes as a blob.
    pub fn put_blob(&mut self, bytes: Vec<u8>) -> TypedId {
        let id = TypedId::new(Kind::Blob, crate::id::object_id(&bytes));
        self.objects.push(bytes);
        id
    }

    /// Stages a record.
    pub fn put<R: Record>(&mut self, record: &R) -> Result<Encoded, Error> {
        let encoded = model::encode(record)?;
        self.objects.push(encoded.bytes.clone());
        Ok(encoded)
    }

    /// Stages bytes that are a known object already, such as the nodes of a tree.
    pub fn put_objects(&mut self, objects: impl IntoIterator<Item = Vec<u8>>) {
        self.objects.extend(objects);
    }

    /// Adds a claim.
    pub fn claim(&mut self, claim: StagedClaim) {
        self.claims.push(claim);
    }

    /// Names the request, so that the same request is not made twice.
    pub const fn request(&mut self, req: [u8; 16]) {
        self.req = Some(req);
    }

    /// Makes objects durable, signs the statement, and brings it under a head if that can be done now.
    pub fn commit(self, signer: &Signer<'_>) -> Result<Outcome, Error> {
        let Self { ledger, objects, claims, req } = self;
        ledger.may_write()?;
        let holder = ledger.holder_of(signer.author)?;
        let bytes = ledger.sign(&claims, req, holder, signer)?;
        let parsed = Statement::parse(&bytes)?;
        accepted(ledger.state.judge(&parsed, Checks::GOOD))?;
        let statement = parsed.id;
        ledger.store.put_many(&objects)?;
        ledger.queue(statement, &bytes, signer.user)?;
        // From here on the statement is durable: what goes wrong now makes it late, not lost.
        match ledger.sequence(signer, Some(statement)) {
            Ok(Sequenced::Done { index, standing }) => {
                accepted(standing).map(|()| Outcome::Accepted { index, statement })
            }
            Ok(Sequenced::Waiting { why }) => Ok(Outcome::Queued { statement, why }),
            Err(error) if is_only_late(&error) => Ok(Outcome::Queued { statement, why: error.to_string() }),
            Err(source) => Err(Error::Stuck { statement, source: Box::new(source) }),
        }
    }
}

/// Turns what the fold says into an error, unless it accepts.
fn accepted(standing: Standing) -> Result<(), Error> {
    match standing {
        Standing::Accepted => Ok(()),
        Standing::Rejected(reason) => Err(Error::Refused { reason }),
        Standing::Unknown => Err(Error::Refused { reason: Reason::BadForm }),
    }
}

/// Whether an error of sequencing is no more than a delay: a full or busy disk, not a damaged log.
fn is_only_late(error: &Error) -> bool {
    use crate::durable::Error as Disk;
    let (Error::Disk(disk) | Error::Files(crate::log::files::Error::Disk(disk))) = error else {
        return false;
    };
    matches!(
        disk,
        Disk::Full { .. } | Disk::Busy { .. } | Disk::NotWritable { .. } | Disk::NotReadable { .. }
    )
}

fn raw_claim(claim: &StagedClaim) -> Claim<'static> {
    Claim {
        kind: Cow::Borrowed(claim.object.kind.word()),
        object: claim.object.id,
        sha256: claim.sha256,
        size: claim.size,
        links: claim_links(&claim.links),
        facts: claim.facts.encode().into(),
        prev: claim.prev,
    }
}
