//! See `fuzz_bodies::messages::splitter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::messages::splitter(data));
