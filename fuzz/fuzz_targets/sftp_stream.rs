//! See `fuzz_bodies::sftp::sftp_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::sftp::sftp_stream(data));
