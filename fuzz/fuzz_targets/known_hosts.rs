//! See `fuzz_bodies::files::known_hosts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::files::known_hosts(data));
