//! See `fuzz_bodies::connection::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::connection::snapshot(data));
