//! See `fuzz_bodies::messages::monitor_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::messages::monitor_request(data));
