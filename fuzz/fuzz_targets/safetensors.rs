//! Looks for bytes that `ledger_fuzz::safetensors` does not survive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ledger_fuzz::safetensors(bytes));
