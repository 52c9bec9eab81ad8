//! See `fuzz_bodies::files::authorized_keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::authorized_keys(data));
