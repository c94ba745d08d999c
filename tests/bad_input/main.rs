//! Bad input: one test for each case, named for it.
//!
//! Each asserts the slug, a hint and the exit code, that nothing is left half-written, and that nothing
//! acknowledged is lost. What commands do with good input is tested elsewhere.
#![expect(clippy::disallowed_methods, reason = "tests lay and damage files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do without ends it")]

mod configs;
#[path = "../figures/mod.rs"]
#[expect(dead_code, clippy::print_stdout, reason = "other tests tell figures, for people to read")]
mod figures;
mod files;
mod killed;
mod ledger_files;
mod machine;
mod results;
mod scene;
mod statements;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "snapshots are for the tests of words")]
mod support;
mod weights;
