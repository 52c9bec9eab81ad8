//! See `fuzz_bodies::files::file_signature`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::file_signature(data));
