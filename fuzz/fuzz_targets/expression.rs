//! Looks for bytes that `ledger_fuzz::expression` does not survive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ledger_fuzz::expression(bytes));
