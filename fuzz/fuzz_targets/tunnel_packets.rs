//! See `fuzz_bodies::packets::tunnel_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::packets::tunnel_packets(data));
