//! The story that is interrupted: a key, a ledger, a colleague, a run with its evidence, and a key revoked.
//!
//! `Told` is what somebody has been told by then. Everything is drawn and timed by hand, so that the story has
//! the same operations each time it is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::acts::{self, CheckpointRequest, RunFiles, Whose};
use ledger::capture::walk::Reading;
use ledger::durable::fault::FaultDisk;
use ledger::durable::{Created, Disk, outside};
use ledger::id::{ObjectId, StatementId};
use ledger::ledger::{Error, Ledger, Outcome, Signer, StagedClaim};
use ledger::log::key::SigningKey;
use ledger::log::key_file::KeyFile;
use ledger::model::{End, Fixed, Holder, Key, Record, Start, TypedId, encode};

use crate::people::{Person, admit, found, open, plan, stage};

/// Where the key file lies, relative to the world.
pub(crate) const KEY: &str = "home/config/kim.key";
/// Where the pin lies.
pub(crate) const TRUST: &str = "home/config/trust.toml";
/// Text of the pin.
pub(crate) const PIN: &[u8] = b"format = \"ledger-trust/1\"\n";
/// Where the weights lie.
const WEIGHTS: &str = "out/step-1/model.bin";
const WEIGHT_BYTES: &[u8] = b"weights";

/// What somebody was told has happened.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was told or was not")]
#[derive(Default, Debug)]
pub(crate) struct Told {
    pub(crate) key: bool,
    pub(crate) founded: bool,
    pub(crate) pinned: bool,
    /// In the log and accepted.
    pub(crate) accepted: Vec<StatementId>,
    /// Durable, and to be ordered by somebody.
    pub(crate) queued: Vec<StatementId>,
    pub(crate) joined: bool,
    pub(crate) run_files: bool,
    /// Objects that came together, so that they share a file.
    pub(crate) packed: bool,
    /// Weights that were stored.
    pub(crate) stored: Option<ObjectId>,
    pub(crate) revoked: bool,
    /// Size of the greatest head that was remembered without a notice.
    pub(crate) remembered: u64,
    /// From which operation on which process is at work; the founding one comes first.
    pub(crate) processes: Vec<(usize, &'static str)>,
}

impl Told {
    fn hear(&mut self, ledger: &Ledger, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted { statement, .. } => self.accepted.push(*statement),
            Outcome::Queued { statement, .. } => self.queued.push(*statement),
        }
        if matches!(outcome, Outcome::Accepted { .. }) {
            self.see(ledger);
        }
    }

    /// A head that was shown is remembered, unless a notice said otherwise.
    fn see(&mut self, ledger: &Ledger) {
        if ledger.notices().is_empty() {
            self.remembered = ledger.head().head().size;
        }
    }
}

/// Lays what is there before the story: weights that somebody trained elsewhere.
pub(crate) fn lay(dir: &Path) {
    let path = dir.join(WEIGHTS);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, WEIGHT_BYTES).unwrap();
}

pub(crate) fn key_text(kim: &Person) -> String {
    let seed = |seed| SigningKey::from_seed(&[seed; 32]);
    let file = KeyFile::new("kim", seed(1), Some(seed(101))).unwrap();
    assert_eq!(file.author().public().thumbprint(), kim.author.public().thumbprint());
    file.to_text().to_string()
}

/// Stages a plan and commits it.
pub(crate) fn write(ledger: &mut Ledger, n: u32, signer: &Signer<'_>) -> Result<Outcome, Error> {
    let mut tx = ledger.transaction();
    stage(&mut tx, n)?;
    tx.commit(signer)
}

fn state<R: Record>(ledger: &mut Ledger, record: &R, signer: &Signer<'_>) -> Result<Outcome, Error> {
    let mut tx = ledger.transaction();
    let encoded = tx.put(record)?;
    tx.claim(StagedClaim::new(record, &encoded));
    tx.commit(signer)
}

/// Takes all roles from a key.
fn revoke(ledger: &mut Ledger, key: &SigningKey, signer: &Signer<'_>) -> Result<Outcome, Error> {
    let row = ledger.state().key(key.public().thumbprint()).ok_or(Error::Genesis)?;
    let prev = ledger.claim_ref(row.claim)?;
    let record = Key {
        key: Fixed(row.public),
        holder: encode(&Holder { name: "ben".to_owned() })?.id,
        first: row.holder.first_key(),
        roles: vec![],
        proof: None,
    };
    let mut tx = ledger.transaction();
    let encoded = tx.put(&record)?;
    tx.claim(StagedClaim::new(&record, &encoded).replacing(Some(prev)));
    tx.commit(signer)
}

/// As many small objects as are packed.
pub(crate) fn packed() -> impl Iterator<Item = Vec<u8>> {
    (0..64u8).map(|n| vec![n; 9])
}

/// The run of the story.
pub(crate) fn run() -> TypedId {
    encode(&plan(1)).unwrap().id
}

/// The directory of the run's files.
pub(crate) fn run_dir(dir: &Path) -> PathBuf {
    dir.join(".ledger/runs").join(run().id.to_hex())
}

/// The manifest of a plan, as `people` stages it.
pub(crate) fn manifest(n: u32) -> Vec<u8> {
    format!("{{\"run\": {n}}}").into_bytes()
}

/// Kim makes a key, founds a ledger and pins it, admits Ben, freezes, records, and revokes Ben's key.
pub(crate) fn tell(counted: &Arc<FaultDisk>, dir: &Path, told: &mut Told) -> Result<(), acts::Error> {
    let disk = &(Arc::clone(counted) as Arc<dyn Disk>);
    let (kim, ben) = (Person::new(1), Person::new(2));
    let made = outside::create(disk, &dir.join(KEY), key_text(&kim).as_bytes(), 0o600)?;
    assert_eq!(made, Created::New);
    told.key = true;
    found(disk, dir, &kim)?;
    told.founded = true;
    outside::replace(disk, &dir.join(TRUST), PIN, 0o600)?;
    told.pinned = true;

    told.processes.push((counted.operations().len(), "hers"));
    let mut hers = open(disk, dir)?;
    told.see(&hers);
    let keys = [(&ben.author, "author"), (&ben.log, "log")];
    let joined = admit(&mut hers, &kim.at(11), "ben", &keys)?;
    told.hear(&hers, &joined);
    told.joined = true;

    let frozen = write(&mut hers, 1, &kim.at(12))?;
    told.hear(&hers, &frozen);
    let run = run();
    let mut tx = hers.transaction();
    stage(&mut tx, 3)?;
    tx.put_objects(packed());
    let many = tx.commit(&kim.at(12))?;
    told.hear(&hers, &many);
    told.packed = true;

    acts::restore_run_files(&hers, run, &RunFiles { dir: run_dir(dir) })?;
    told.run_files = true;

    // Ben has a log key and orders for himself, then he comes without it and somebody else has to.
    told.processes.push((counted.operations().len(), "his"));
    let mut his = open(disk, dir)?;
    told.see(&his);
    let start =
        Start { nonce: Fixed([3; 16]), plan: run, environment: None, lost: vec![], check: "frozen".into() };
    let started = state(&mut his, &start, &ben.at(13))?;
    told.hear(&his, &started);
    let queued = write(&mut his, 2, &Signer { log: None, ..ben.at(14) })?;
    told.hear(&his, &queued);

    told.processes.push((counted.operations().len(), "hers"));
    let mut count = 0u8;
    let mut entropy = |bytes: &mut [u8]| {
        count += 1;
        bytes.fill(count);
    };
    hers.refresh()?;
    let request = CheckpointRequest {
        path: &dir.join(WEIGHTS),
        whose: Whose::Run(run),
        step: Some(1),
        parent: None,
        store: true,
        name: None,
        reading: Reading::default(),
    };
    let recorded = acts::record_checkpoint(&mut hers, &request, &kim.at(15), &|_| (), &mut entropy)?;
    told.hear(&hers, recorded.outcome.as_ref().ok_or(Error::Genesis)?);
    told.stored = Some(ledger::id::object_id(WEIGHT_BYTES));
    let end = End {
        nonce: Fixed([4; 16]),
        start: encode(&start)?.id,
        status: "completed".into(),
        code: Some(0),
        signal: None,
    };
    let ended = state(&mut hers, &end, &kim.at(16))?;
    told.hear(&hers, &ended);

    let revoked = revoke(&mut hers, &ben.author, &kim.at(17))?;
    told.hear(&hers, &revoked);
    told.revoked = true;
    Ok(())
}
