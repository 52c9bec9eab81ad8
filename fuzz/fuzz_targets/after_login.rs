//! See `fuzz_bodies::connection::after_login`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::connection::after_login(data));
