//! See `fuzz_bodies::files::key_blob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::key_blob(data));
