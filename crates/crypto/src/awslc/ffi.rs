//! The functions of aws-lc. aws-lc-sys has bindings for some processors, and one set for all others
//! that lacks the algorithms of old devices and the primes of RFC 3526: these are declared here, from
//! openssl/des.h, md5.h and bn.h. The library itself has them on every processor; the tests of this
//! crate run them (`.ci/machine`).

pub(super) use aws_lc_sys::*;

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
pub(super) use declared::*;

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod declared {
    use core::ffi::{c_int, c_void};

    use aws_lc_sys::{BIGNUM, MD5_CTX};

    pub(crate) const DES_ENCRYPT: c_int = 1;
    pub(crate) const DES_DECRYPT: c_int = 0;

    /// `DES_cblock`.
    #[repr(C)]
    pub(crate) struct DES_cblock {
        pub(crate) bytes: [u8; 8],
    }

    /// `DES_key_schedule`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(crate) struct DES_key_schedule {
        subkeys: [[u32; 2]; 16],
    }

    // The prefix of the names is that of the version that Cargo.toml fixes.
    unsafe extern "C" {
        #[link_name = "aws_lc_0_47_0_DES_set_key_unchecked"]
        pub(crate) fn DES_set_key_unchecked(
            key: *const DES_cblock,
            schedule: *mut DES_key_schedule,
        );
        #[link_name = "aws_lc_0_47_0_DES_ede3_cbc_encrypt"]
        pub(crate) fn DES_ede3_cbc_encrypt(
            input: *const u8,
            out: *mut u8,
            len: usize,
            first: *const DES_key_schedule,
            second: *const DES_key_schedule,
            third: *const DES_key_schedule,
            iv: *mut DES_cblock,
            encrypt: c_int,
        );
        #[link_name = "aws_lc_0_47_0_MD5_Init"]
        pub(crate) fn MD5_Init(context: *mut MD5_CTX) -> c_int;
        #[link_name = "aws_lc_0_47_0_MD5_Update"]
        pub(crate) fn MD5_Update(context: *mut MD5_CTX, data: *const c_void, len: usize) -> c_int;
        #[link_name = "aws_lc_0_47_0_MD5_Final"]
        pub(crate) fn MD5_Final(out: *mut u8, context: *mut MD5_CTX) -> c_int;
        #[link_name = "aws_lc_0_47_0_BN_get_rfc3526_prime_2048"]
        pub(crate) fn BN_get_rfc3526_prime_2048(prime: *mut BIGNUM) -> *mut BIGNUM;
        #[link_name = "aws_lc_0_47_0_BN_get_rfc3526_prime_4096"]
        pub(crate) fn BN_get_rfc3526_prime_4096(prime: *mut BIGNUM) -> *mut BIGNUM;
        #[link_name = "aws_lc_0_47_0_BN_get_rfc3526_prime_8192"]
        pub(crate) fn BN_get_rfc3526_prime_8192(prime: *mut BIGNUM) -> *mut BIGNUM;
    }
}
