//! An experiment-lineage ledger for machine-learning training.
//!
//! Before a run, a ledger freezes what goes in; during and after it, it records what came out; before deployment
//! it verifies a checkpoint's bytes and where they came from. The `ledger` command is a thin layer over this
//! library, which can be used by itself:
//!
//! ```
//! use std::os::unix::fs::MetadataExt as _;
//! use std::{sync::Arc, time::Duration};
//!
//! use ledger::acts;
//! use ledger::durable::{Disk, RealDisk};
//! use ledger::ledger::{DIR, Founder, Home, Ledger, Outcome, Signer, StagedClaim, init};
//! use ledger::log::key::SigningKey;
//! use ledger::model::{Fixed, Start};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! // Time, keys and randomness are the caller's. A real program draws the seeds from the system.
//! let (author, log) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
//! let disk: Arc<dyn Disk> = Arc::new(RealDisk);
//! let founder = Founder {
//!     name: "kim",
//!     author: &author,
//!     log: &log,
//!     recovery: None,
//!     time: 1_764_547_200,
//!     nonce: [3; 16],
//!     instance: [4; 16],
//!     shared: false,
//! };
//! let id = init(&disk, project, &founder)?;
//!
//! // Opening folds the log up to its signed head and checks every signature on the way.
//! let mut ledger = Ledger::open(&project.join(DIR), Home::default())?;
//! assert_eq!(ledger.id(), id);
//!
//! // Freeze a run: inputs are read once, and a plan over them is stated.
//! std::fs::write(project.join("config.yaml"), "lr: 0.1\n")?;
//! let request = acts::Request {
//!     root: project.to_owned(),
//!     cwd: project.to_owned(),
//!     configs: vec![project.join("config.yaml")],
//!     no_code: true,
//!     ..acts::Request::default()
//! };
//! let inputs = acts::observe(&request, &|_| {})?;
//! let signer = Signer {
//!     author: &author,
//!     log: Some(&log),
//!     time: 1_764_547_260,
//!     wait: Duration::from_secs(5),
//!     user: std::fs::metadata(project)?.uid(),
//! };
//! let target = acts::Target { out: None, from: None, start: false, job: None };
//! let frozen = acts::freeze(&mut ledger, &inputs, &target, &signer, &mut |bytes| bytes.fill(5))?;
//!
//! // Or state a claim by hand: stage records, claim them, commit. One commit is one signed statement.
//! let start =
//!     Start { nonce: Fixed([6; 16]), plan: frozen.run, environment: None, lost: vec![], check: "frozen".into() };
//! let mut transaction = ledger.transaction();
//! let encoded = transaction.put(&start)?;
//! transaction.claim(StagedClaim::new(&start, &encoded));
//! let Outcome::Accepted { index, .. } = transaction.commit(&signer)? else { panic!("it waits") };
//!
//! // Accepted means: under a signed head, which anybody can check without trusting the writer.
//! ledger.prove_inclusion(index)?;
//! assert_eq!(ledger.state().run_status(frozen.run.id).unwrap().to_string(), "started");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A tour
//!
//! Modules stand in layers, and each imports only from those before it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`id`] | digests and ids, one type for each |
//! | [`codec`] | the one encoding of records, and the strict reader of it |
//! | [`durable`] | the only writes to a ledger's disk; [`durable::Disk`] is the seam for tests that make it fail |
//! | [`model`] | records as plain data, and the table of kinds |
//! | [`store`] | objects by id; it knows bytes, not records |
//! | [`log`] | the Merkle log of signed statements; it knows statements, not records |
//! | [`state`] | the fold: what the statements of a log add up to |
//! | [`index`] | which claims link to what: look-ups for questions, derived and deletable |
//! | [`ledger`] | store, log and state together: open, look up, write a transaction |
//! | [`capture`] | looks at configs, data, code, environments and weights; returns values, never opens a ledger |
//! | [`acts`] | capture meets ledger: freeze, start, end, record |
//! | [`contract`] | expressions over facts: the filters of lists |
//! | [`list`] | everything of one kind, as rows with fields |
//! | [`diff`] | what differs between two checkpoints, or between the inputs of two runs |
//! | [`lineage`] | what something came from, and what came from it |
//! | [`verify`] | every check of a checkpoint and of the chain behind it, all findings |
//! | [`fsck`] | every file of a ledger against what it must be |
//! | [`backup`] | a copy of a ledger that is a whole ledger at every moment |
//! | [`cli`] | the command line: the only part that prints, exits, or reads the clock and the environment |
//!
//! Begin with [`ledger::Ledger`] to read, [`ledger::Transaction`] to write, [`acts`] for whole steps of a run,
//! and [`verify::verify`] for the question whether weights are what they are said to be.
//! `examples/record_run.rs` goes from an empty directory to a proof. The words used here are explained in
//! `docs/concepts.md`, the reasons in `docs/architecture.md`, and every byte on disk is specified under
//! `store-format/`.

pub mod acts;
pub mod backup;
pub mod capture;
pub mod cli;
pub mod codec;
pub mod contract;
pub mod diff;
pub mod durable;
pub mod fsck;
pub mod id;
pub mod index;
pub mod ledger;
pub mod lineage;
pub mod list;
pub mod log;
pub mod model;
pub mod state;
pub mod store;
pub mod verify;
