//! See `fuzz_bodies::forward::datagrams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::forward::datagrams(data));
