//! See `fuzz_bodies::dns::dns_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::dns::dns_answer(data));
