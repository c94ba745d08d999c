//! The `ledger` command.

fn main() {}
