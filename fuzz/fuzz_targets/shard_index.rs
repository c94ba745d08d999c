//! Looks for bytes that `ledger_fuzz::shard_index` does not survive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ledger_fuzz::shard_index(bytes));
