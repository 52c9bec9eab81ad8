//! See `fuzz_bodies::security_keys::ctap_cbor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::security_keys::ctap_cbor(data));
