//! See `fuzz_bodies::configuration::sshd_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::configuration::sshd_config(data));
