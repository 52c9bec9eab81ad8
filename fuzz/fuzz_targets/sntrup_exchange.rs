//! See `fuzz_bodies::key_exchange::sntrup_exchange`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::key_exchange::sntrup_exchange(data));
