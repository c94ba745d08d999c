//! The code's state is what the `git` program says it is, for every kind of repository a user may have.
//!
//! Each test runs again in a process of its own with a bare environment, because libgit2 and git read settings from
//! the user's home. Wherever git has its own answer, that answer is the expected one.

#![expect(clippy::disallowed_methods, reason = "tests lay files and set up their environment")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a failure to lay the scene fails the test")]

mod changes;
mod repositories;
mod scene;
