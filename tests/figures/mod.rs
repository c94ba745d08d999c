//! Figures that a test finds out and that whoever runs all tests wants to see, although a runner hides what
//! passing tests print.
//!
//! They are appended, as `name: value`, to the file that `LEDGER_TEST_FIGURES` names; without one they are only
//! printed. `tests/run.sh` prints the file at its end. A script does the same with `echo`.

use std::fmt::Display;
use std::io::Write as _;

/// Tells a figure.
pub(crate) fn add(name: &str, value: impl Display) {
    println!("{name}: {value}");
    let Some(path) = std::env::var_os("LEDGER_TEST_FIGURES") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    // One write of one line, so that tests that end together do not mix theirs.
    file.write_all(format!("{name}: {value}\n").as_bytes()).unwrap();
}

/// Tells of a test that could not be made here, by its name.
pub(crate) fn skip(test: &str, why: &str) {
    let Some(path) = std::env::var_os("LEDGER_TEST_FIGURES") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("skipped: {test} {why}\n").as_bytes()).unwrap();
}
