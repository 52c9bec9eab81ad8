//! See `fuzz_bodies::files::private_key_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::private_key_file(data));
