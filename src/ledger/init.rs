//! Making a ledger: genesis, the founder's keys, the first head, and the files that say what the directory is.
//!
//! Everything is written under a sibling name and renamed into place, so a crash leaves a key at most, or a
//! sibling that the next `init` names, but never half a ledger.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::durable::{Disk, Fresh, Kind as FileKind};
use crate::id::{HolderId, LedgerId, StatementId, TreeHash, sha256, statement_id};
use crate::log::key::{self, SigningKey};
use crate::log::merkle::CompactRange;
use crate::log::note::{self, SignedHead, TreeHead};
use crate::log::statement::{self, Claim, Link, Payload};
use crate::log::{HeadFile, Log};
use crate::model::{self, Encoded, Fixed, Genesis, Holder, Key, Record, Role};
use crate::state::RULES;
use crate::store::Store;

use super::transaction::claim_links;
use super::{DIR, Error, FORMAT, place};

/// Who founds a ledger.
#[derive(Debug)]
pub struct Founder<'a> {
    /// Display name.
    pub name: &'a str,
    /// The owner's key.
    pub author: &'a SigningKey,
    /// The key that orders statements, another one.
    pub log: &'a SigningKey,
    /// Keys kept offline, for the day when those of all owners are gone.
    pub recovery: Option<Rescue<'a>>,
    /// Seconds since 1970.
    pub time: u64,
    /// 16 random bytes for genesis.
    pub nonce: [u8; 16],
    /// Random bytes that name this directory, so that a copy of it is known as one.
    pub instance: [u8; 16],
    /// Whether a group of users writes here.
    pub shared: bool,
}

/// Keys that lie offline.
#[derive(Clone, Copy, Debug)]
pub struct Rescue<'a> {
    /// May only add and revoke owners.
    pub key: &'a SigningKey,
    /// Orders what that key says when nobody else can.
    pub log: Option<&'a SigningKey>,
}

struct Introduced {
    record: Encoded,
    claim: Claim<'static>,
}

fn introduce(
    holder: &Encoded,
    first: HolderId,
    key: &SigningKey,
    roles: &[Role],
    nonce: [u8; 16],
) -> Result<Introduced, Error> {
    let public = key.public();
    let proof = key.sign(&key::possession_message(&nonce, &public, first));
    let roles: BTreeSet<Role> = roles.iter().copied().collect();
    let record = Key {
        key: Fixed(*public.as_bytes()),
        holder: holder.id,
        first: first.first_key(),
        roles: roles.iter().map(|role| role.word().to_owned()).collect(),
        proof: Some(Fixed(proof)),
    };
    let encoded = model::encode(&record)?;
    let claim = claim_for(&record, &encoded);
    Ok(Introduced { record: encoded, claim })
}

pub(super) fn claim_for<R: Record>(record: &R, encoded: &Encoded) -> Claim<'static> {
    Claim {
        kind: R::KIND.word().into(),
        object: encoded.id.id,
        sha256: sha256(&encoded.bytes),
        size: encoded.bytes.len() as u64,
        links: claim_links(&record.links()).into_iter().map(own_link).collect(),
        facts: record.facts().encode().into(),
        prev: None,
    }
}

fn own_link(link: Link<'_>) -> Link<'static> {
    Link { role: link.role.into_owned().into(), kind: link.kind.into_owned().into(), id: link.id }
}

/// Makes a ledger in `parent/.ledger` and returns its id.
pub fn init(disk: &Arc<dyn Disk>, parent: &Path, founder: &Founder<'_>) -> Result<LedgerId, Error> {
    let fresh = Fresh::begin(disk, parent, DIR, founder.shared)?;
    let durable = fresh.durable().clone();
    durable.probe()?;
    let holder = model::encode(&Holder { name: founder.name.to_owned() })?;
    let first = HolderId::of_first_key(founder.author.public().thumbprint());
    let genesis = Genesis { nonce: Fixed(founder.nonce), rules: RULES, parent: None };
    let encoded = model::encode(&genesis)?;
    let owner = [Role::Owner, Role::Author, Role::Evaluator, Role::Reviewer, Role::Approver];
    let mut introduced = vec![
        introduce(&holder, first, founder.author, &owner, founder.nonce)?,
        introduce(&holder, first, founder.log, &[Role::Log], founder.nonce)?,
    ];
    if let Some(recovery) = founder.recovery {
        introduced.push(introduce(&holder, first, recovery.key, &[Role::Recovery], founder.nonce)?);
        if let Some(log) = recovery.log {
            introduced.push(introduce(&holder, first, log, &[Role::Log], founder.nonce)?);
        }
    }
    let mut claims = vec![claim_for(&genesis, &encoded)];
    let mut objects = vec![encoded.bytes, holder.bytes];
    for key in introduced {
        claims.push(key.claim);
        objects.push(key.record.bytes);
    }
    Store::new(durable.clone()).put_many(&objects)?;
    let payload = Payload { ledger: None, seen: None, claims, req: None };
    let bytes = statement::sign(&payload, Genesis::KIND.prefix(), first, founder.time, founder.author)?;
    let leaf = statement_id(&bytes);
    let ledger = LedgerId::of_genesis(leaf);
    let file = first_head(ledger, leaf, bytes, founder.log)?;
    for dir in ["log/heads", "log/pending", "runs", "tmp"] {
        durable.make_dir(Path::new(dir))?;
    }
    let log = Log::new(durable.clone());
    let _won = log.commit(&file)?;
    log.apply(&file)?;
    let shared = if founder.shared { "yes" } else { "no" };
    let format = format!("{FORMAT}\nshared {shared}\n");
    let _new = durable.create(Path::new("format"), format.as_bytes(), FileKind::Mutable)?;
    let _new = durable.create(Path::new(".gitignore"), b"*\n", FileKind::Mutable)?;
    place::write(&durable, founder.instance)?;
    fresh.finish()?;
    Ok(ledger)
}

fn first_head(
    ledger: LedgerId,
    leaf: StatementId,
    statement: Vec<u8>,
    log: &SigningKey,
) -> Result<HeadFile, Error> {
    let mut range = CompactRange::new();
    range.push(leaf);
    sign_head(ledger, 0, vec![statement], range.root(), log)
}

/// Signs a root twice, as note and as receipt, so that anybody can make proofs of either form later.
pub(super) fn sign_head(
    ledger: LedgerId,
    extends: u64,
    statements: Vec<Vec<u8>>,
    root: TreeHash,
    log: &SigningKey,
) -> Result<HeadFile, Error> {
    let size = extends + statements.len() as u64;
    let head = TreeHead { origin: note::origin(ledger), size, root };
    let head = SignedHead::sign(head, log).map_err(|source| Error::HeadSignature { size, source })?;
    Ok(HeadFile { extends, statements, head, receipt: note::sign_receipt(root, log) })
}
