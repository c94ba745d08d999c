//! Records one run through the library, from an empty directory to a proof: `cargo run --example record_run`.
//!
//! The training is three lines that write a file. What the command line adds (finding keys, trust files,
//! settings, the clock) is left out: here a program brings its own.
#![expect(clippy::disallowed_methods, reason = "an example stands where a program does: it lays files")]

use std::error::Error;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ledger::acts::{self, CheckpointRequest, Ended, Input, Request, Target, Whose};
use ledger::capture::walk::Reading;
use ledger::durable::{Disk, RealDisk};
use ledger::ledger::{Founder, Home, Ledger, Outcome, Signer};
use ledger::log::key::SigningKey;
use ledger::model::{Status, TypedId};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    for line in tell(dir.path())? {
        #[expect(clippy::print_stdout, reason = "an example prints")]
        {
            println!("{line}");
        }
    }
    Ok(())
}

/// Does everything in a directory, and returns what there is to say about it.
pub(crate) fn tell(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut said = Vec::new();

    // A ledger needs two keys: one says things, the other orders them. They are never one key.
    let (author, log) = (SigningKey::from_seed(&random()?), SigningKey::from_seed(&random()?));
    let founder = Founder {
        name: "kim",
        author: &author,
        log: &log,
        recovery: None,
        time: now()?,
        nonce: random()?,
        instance: random()?,
        shared: false,
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let id = ledger::ledger::init(&disk, dir, &founder)?;
    said.push(format!("made ledger {id}"));

    // `Home` remembers heads between openings; without one, nothing outside the ledger is written.
    let root = dir.join(ledger::ledger::DIR);
    let mut ledger = Ledger::open(&root, Home::default())?;
    let signer = Signer {
        author: &author,
        log: Some(&log),
        time: now()?,
        wait: Duration::from_secs(10),
        // Whoever owns what this program makes.
        user: std::fs::metadata(dir)?.uid(),
    };
    let mut entropy = |bytes: &mut [u8]| {
        getrandom::fill(bytes).expect("the system has randomness");
    };

    // Freeze: read the inputs once, and state the plan and its first attempt together.
    std::fs::write(dir.join("config.yaml"), "lr: 0.1\nsteps: 3\n")?;
    std::fs::write(dir.join("data.csv"), "1,2\n3,4\n")?;
    let request = Request {
        root: dir.to_owned(),
        cwd: dir.to_owned(),
        configs: vec![dir.join("config.yaml")],
        data: [("train".to_owned(), Input::Path(dir.join("data.csv")))].into(),
        argv: ["python", "train.py"].map(OsString::from).to_vec(),
        no_code: true,
        ..Request::default()
    };
    let inputs = acts::observe(&request, &|_| {})?;
    for part in &inputs.parts {
        let shown = part.id.as_ref().map_or_else(|why| format!("none: {why}"), TypedId::short);
        said.push(format!("  {:<12} {shown} {}", part.what, part.detail));
    }
    let target = Target { out: None, from: None, start: true, job: None };
    let frozen = acts::freeze(&mut ledger, &inputs, &target, &signer, &mut entropy)?;
    let start = frozen.start.ok_or("a start was asked for")?;
    said.push(format!("planned {} and started {}", frozen.run.short(), start.short()));

    // "Training", then its checkpoint, which belongs to the attempt, and the attempt's end.
    let weights = dir.join("out");
    std::fs::create_dir(&weights)?;
    std::fs::write(weights.join("model.safetensors"), one_tensor())?;
    let request = CheckpointRequest {
        path: &weights,
        whose: Whose::Attempt(start),
        step: Some(3),
        parent: None,
        store: false,
        name: None,
        reading: Reading::default(),
    };
    let recorded = acts::record_checkpoint(&mut ledger, &request, &signer, &|_| {}, &mut entropy)?;
    said.push(format!("recorded {}: {}", recorded.id.short(), recorded.summary));
    let ended = Ended { status: Status::Completed, code: Some(0), signal: None, reason: None };
    let _ended = acts::end(&mut ledger, frozen.run, Some(start), &ended, &signer, &mut entropy)?;

    // A reader opens the ledger anew: every signature is checked before anything is answered.
    let ledger = Ledger::open(&root, Home::default())?;
    let status = ledger.state().run_status(frozen.run.id).ok_or("the run is known")?;
    said.push(format!("{} {status}", frozen.run.short()));
    let Some(Outcome::Accepted { index, .. }) = recorded.outcome else {
        return Err("the checkpoint was not accepted".into());
    };
    ledger.prove_inclusion(index)?;
    let head = ledger.head().head();
    said.push(format!("statement {index} is under the head of {} statements, root {}", head.size, head.root));
    Ok(said)
}

/// The smallest file of weights: a header with one tensor of two floats, and their bytes.
fn one_tensor() -> Vec<u8> {
    let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let values = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
    [&(header.len() as u64).to_le_bytes(), &header[..], &values].concat()
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn now() -> Result<u64, Box<dyn Error>> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
