//! The command line as people use it: each test runs the binary in a world of its own.
//!
//! What the commands do is tested in the library; here it is words, exit codes and the shape of documents.
//! `LEDGER_OVERWRITE=1` rewrites the snapshots.
#![expect(clippy::disallowed_methods, reason = "tests lay files and read one variable")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do without ends it")]

mod backup;
mod checkpoints;
mod configs;
mod datasets;
mod diff;
mod environments;
mod evals;
mod fork;
mod freeze;
mod golden;
mod help;
mod init;
mod join;
mod keep;
mod keys;
mod packs;
mod plumbing;
mod prove;
mod questions;
mod record;
mod run;
mod support;
mod tensors;
mod verify;
