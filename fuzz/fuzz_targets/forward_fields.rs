//! See `fuzz_bodies::forward::forward_fields`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::forward::forward_fields(data));
