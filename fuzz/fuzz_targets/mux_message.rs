//! See `fuzz_bodies::sharing::mux_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::sharing::mux_message(data));
