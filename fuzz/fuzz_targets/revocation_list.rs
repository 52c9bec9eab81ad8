//! See `fuzz_bodies::files::revocation_list`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::revocation_list(data));
