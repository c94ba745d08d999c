//! People who found, join and write a ledger, for tests of whole ledgers; what they write is of no interest.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::durable::Disk;
use ledger::id::{HolderId, LedgerId};
use ledger::ledger::{Error, Founder, Home, Ledger, Outcome, Signer, StagedClaim, Transaction, init};
use ledger::log::key::{SigningKey, possession_message};
use ledger::model::{Fixed, Holder, Key, Plan, TypedId};

/// A person with an author key and a log key.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) author: SigningKey,
    pub(crate) log: SigningKey,
}

impl Person {
    pub(crate) fn new(seed: u8) -> Self {
        Self { author: SigningKey::from_seed(&[seed; 32]), log: SigningKey::from_seed(&[seed + 100; 32]) }
    }

    /// Writes at a time of its own, which decides who comes first among those that wait.
    pub(crate) fn at(&self, time: u64) -> Signer<'_> {
        let user = rustix::process::getuid().as_raw();
        Signer { author: &self.author, log: Some(&self.log), time, wait: Duration::from_secs(30), user }
    }
}

/// A directory in memory, where there is such a thing: for tests whose disk answers for its own losses.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn found(disk: &Arc<dyn Disk>, dir: &Path, kim: &Person) -> Result<LedgerId, Error> {
    let founder = Founder {
        name: "kim",
        author: &kim.author,
        log: &kim.log,
        recovery: None,
        time: 1,
        nonce: [1; 16],
        instance: [2; 16],
        shared: false,
    };
    init(disk, dir, &founder)
}

pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Ledger, Error> {
    let home = Home::new(Some(dir.join("home/state")), Some(dir.join("home/cache")));
    Ledger::open_on(Arc::clone(disk), &dir.join(".ledger"), home)
}

/// Kim binds the keys of somebody else; without a log key what that one writes waits for others.
pub(crate) fn admit(
    ledger: &mut Ledger,
    kim: &Signer<'_>,
    name: &str,
    keys: &[(&SigningKey, &str)],
) -> Result<Outcome, Error> {
    let context = *ledger.id().as_bytes();
    let first = HolderId::of_first_key(keys[0].0.public().thumbprint());
    let mut tx = ledger.transaction();
    let holder = tx.put(&Holder { name: name.to_owned() })?.id;
    for (key, role) in keys {
        let public = key.public();
        let record = Key {
            key: Fixed(*public.as_bytes()),
            holder,
            first: first.first_key(),
            roles: vec![(*role).to_owned()],
            proof: Some(Fixed(key.sign(&possession_message(&context, &public, first)))),
        };
        let encoded = tx.put(&record)?;
        tx.claim(StagedClaim::new(&record, &encoded));
    }
    tx.commit(kim)
}

/// A plan that differs from all others by its number.
pub(crate) fn plan(n: u32) -> Plan {
    let mut nonce = [0; 16];
    nonce[..4].copy_from_slice(&n.to_be_bytes());
    Plan {
        nonce: Some(Fixed(nonce)),
        name: None,
        config: None,
        code: None,
        environment: None,
        data: vec![],
        base: vec![],
        contracts: vec![],
        policies: vec![],
        spec: None,
        none: ["base", "code", "config", "data", "environment"]
            .map(|what| (what.to_owned(), "none given".to_owned()))
            .into(),
        argv: vec!["python".into(), "train.py".into()],
        seed: Some(u64::from(n)),
        study: None,
        arm: None,
    }
}

/// Stages a plan with its manifest, and returns its id.
pub(crate) fn stage(tx: &mut Transaction<'_>, n: u32) -> Result<TypedId, Error> {
    let manifest = tx.put_blob(format!("{{\"run\": {n}}}").into_bytes());
    let record = plan(n);
    let encoded = tx.put(&record)?;
    tx.claim(StagedClaim::new(&record, &encoded).beside("manifest", manifest));
    Ok(encoded.id)
}
