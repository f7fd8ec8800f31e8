#![no_main]
#![allow(missing_docs, reason = "libFuzzer's entry")]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::records(bytes));
