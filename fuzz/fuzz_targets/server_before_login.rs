//! See `fuzz_bodies::connection::server_before_login`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::connection::server_before_login(data));
