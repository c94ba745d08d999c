//! Looks for bytes that `ledger_fuzz::config_yaml` does not survive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ledger_fuzz::config_yaml(bytes));
