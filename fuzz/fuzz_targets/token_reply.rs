//! See `fuzz_bodies::tokens::token_reply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::tokens::token_reply(data));
