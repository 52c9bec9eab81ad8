//! See `fuzz_bodies::messages::wire_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::messages::wire_message(data));
