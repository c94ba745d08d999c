//! The words around a run, as a shell, a launcher and a training program meet them.
//!
//! Exit codes, signals, variables, files and refusals of `freeze`, `run`, `start`, `end`, `eval` and `record`.
//! How damaged input is met stands in `bad_input`, and the exact wording in `cli`.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do without ends it")]

mod child;
mod evidence;
mod frozen;
mod mode;
mod scene;
mod secrets;
mod settle;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "snapshots are for the tests of words")]
mod support;
mod watch;
