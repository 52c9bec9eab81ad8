//! See `fuzz_bodies::files::allowed_signers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::allowed_signers(data));
