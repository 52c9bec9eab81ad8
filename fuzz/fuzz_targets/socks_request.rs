//! See `fuzz_bodies::forward::socks_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::forward::socks_request(data));
