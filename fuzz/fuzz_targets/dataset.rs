#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ledger_fuzz::dataset(bytes));
