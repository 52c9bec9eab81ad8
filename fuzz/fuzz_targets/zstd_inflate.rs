//! See `fuzz_bodies::messages::zstd_inflate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::messages::zstd_inflate(data));
