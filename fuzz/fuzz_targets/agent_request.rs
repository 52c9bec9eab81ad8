//! See `fuzz_bodies::agent::agent_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::agent::agent_request(data));
