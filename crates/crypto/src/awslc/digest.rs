//! Hash contexts, comparison in constant time and PBKDF2.

use core::ffi::c_void;

use super::{AwsLcFailed, check, ffi};
use crate::hash::HashAlgorithm;

/// The state of a hash on the stack.
#[derive(Clone)]
pub(crate) enum HashContext {
    Md5(ffi::MD5_CTX),
    Sha1(ffi::SHA_CTX),
    Sha256(ffi::SHA256_CTX),
    Sha384(ffi::SHA512_CTX),
    Sha512(ffi::SHA512_CTX),
}

/// Calls the aws-lc function for the kind of context. These functions cannot fail: their result is
/// always 1.
macro_rules! each_context {
    ($self:expr, $context:ident => $md5:expr, $sha1:expr, $sha256:expr, $sha384:expr, $sha512:expr) => {
        match $self {
            Self::Md5($context) => $md5,
            Self::Sha1($context) => $sha1,
            Self::Sha256($context) => $sha256,
            Self::Sha384($context) => $sha384,
            Self::Sha512($context) => $sha512,
        }
    };
}

impl HashContext {
    pub(crate) fn new(algorithm: HashAlgorithm) -> Self {
        let mut this = match algorithm {
            HashAlgorithm::Md5 => Self::Md5(zeroed()),
            HashAlgorithm::Sha1 => Self::Sha1(zeroed()),
            HashAlgorithm::Sha256 => Self::Sha256(zeroed()),
            HashAlgorithm::Sha384 => Self::Sha384(zeroed()),
            HashAlgorithm::Sha512 => Self::Sha512(zeroed()),
        };
        // SAFETY: each pointer is to a context of the type that its function
        // initialises, owned by `this`.
        unsafe {
            each_context!(&mut this, c =>
                ffi::MD5_Init(c), ffi::SHA1_Init(c), ffi::SHA256_Init(c),
                ffi::SHA384_Init(c), ffi::SHA512_Init(c));
        }
        this
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        let (bytes, len) = (data.as_ptr().cast::<c_void>(), data.len());
        // SAFETY: the context was initialised in `new`; `bytes` is valid for
        // `len` bytes and only read.
        unsafe {
            each_context!(self, c =>
                ffi::MD5_Update(c, bytes, len), ffi::SHA1_Update(c, bytes, len),
                ffi::SHA256_Update(c, bytes, len), ffi::SHA384_Update(c, bytes, len),
                ffi::SHA512_Update(c, bytes, len));
        }
    }

    /// Writes the digest to the start of `out`. The context must not be used again.
    pub(crate) fn finish(&mut self, out: &mut [u8; 64]) {
        let out = out.as_mut_ptr();
        // SAFETY: the context was initialised in `new`; no digest is longer than the 64 bytes of
        // `out`.
        unsafe {
            each_context!(self, c =>
                ffi::MD5_Final(out, c), ffi::SHA1_Final(out, c), ffi::SHA256_Final(out, c),
                ffi::SHA384_Final(out, c), ffi::SHA512_Final(out, c));
        }
    }
}

impl Drop for HashContext {
    fn drop(&mut self) {
        // SAFETY: each context is plain old data of the size given, owned by
        // `self`, and all-zero is a valid value of it.
        unsafe {
            each_context!(self, c => wipe(c), wipe(c), wipe(c), wipe(c), wipe(c));
        }
    }
}

/// Compression functions over whole blocks, on the state within a message (H0 to H7 of FIPS 180-4;
/// SHA-1 has only H0 to H4).
macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident, $word:ty, $block:literal, $context:ty, $update:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name(state: &mut [$word; 8], blocks: &[[u8; $block]]) {
                let mut context: $context = zeroed();
                // No bytes are buffered and the length is never used: the function works only on
                // these words.
                let words = context.h.len();
                context.h.copy_from_slice(&state[..words]);
                let bytes = blocks.as_flattened();
                // SAFETY: an all-zero context with a state in it is an
                // initialised one; `bytes` is valid for its length and only
                // read. Whole blocks leave nothing buffered.
                unsafe { ffi::$update(&mut context, bytes.as_ptr().cast(), bytes.len()) };
                state[..words].copy_from_slice(&context.h);
                // SAFETY: the context is plain old data that owns nothing.
                unsafe { wipe(&mut context) };
            }
        )*
    };
}

blocks! {
    /// SHA-1's compression function.
    sha1_blocks, u32, 64, ffi::SHA_CTX, SHA1_Update;
    /// SHA-256's compression function.
    sha256_blocks, u32, 64, ffi::SHA256_CTX, SHA256_Update;
    /// SHA-512's compression function.
    sha512_blocks, u64, 128, ffi::SHA512_CTX, SHA512_Update;
}

/// The initial state of the hash (FIPS 180-4 §5.3).
pub(crate) fn sha1_start() -> [u32; 8] {
    let mut context: ffi::SHA_CTX = zeroed();
    // SAFETY: the pointer is to a context of the type that is initialised.
    unsafe { ffi::SHA1_Init(&mut context) };
    let [a, b, c, d, e] = context.h;
    [a, b, c, d, e, 0, 0, 0]
}

/// The initial state of the hash (FIPS 180-4 §5.3).
pub(crate) fn sha256_start() -> [u32; 8] {
    let mut context: ffi::SHA256_CTX = zeroed();
    // SAFETY: the pointer is to a context of the type that is initialised.
    unsafe { ffi::SHA256_Init(&mut context) };
    context.h
}

/// The initial state of the hash (FIPS 180-4 §5.3).
pub(crate) fn sha512_start() -> [u64; 8] {
    let mut context: ffi::SHA512_CTX = zeroed();
    // SAFETY: the pointer is to a context of the type that is initialised.
    unsafe { ffi::SHA512_Init(&mut context) };
    context.h
}

/// An all-zero context.
fn zeroed<T: PlainContext>() -> T {
    // SAFETY: `PlainContext` is implemented only for C structs of integers
    // (and unions of integer arrays), for which all-zero is a valid value.
    unsafe { core::mem::zeroed() }
}

trait PlainContext: Copy {}
impl PlainContext for ffi::MD5_CTX {}
impl PlainContext for ffi::SHA_CTX {}
impl PlainContext for ffi::SHA256_CTX {}
impl PlainContext for ffi::SHA512_CTX {}

/// # Safety
/// All-zero must be a valid `T`, and `T` must own nothing.
unsafe fn wipe<T: PlainContext>(target: &mut T) {
    // SAFETY: the pointer is valid for the size of its type; the caller guarantees that all-zero is
    // a valid value.
    unsafe { ffi::OPENSSL_cleanse((target as *mut T).cast(), size_of::<T>()) }
}

/// Returns true if two slices of equal length have equal bytes, in constant time.
pub(crate) fn equal_same_length(a: &[u8], b: &[u8]) -> bool {
    debug_assert_eq!(a.len(), b.len());
    let len = a.len().min(b.len());
    // SAFETY: both pointers are valid for `len` bytes and only read.
    unsafe { ffi::CRYPTO_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), len) == 0 }
}

/// PBKDF2 (RFC 8018 §5.2) with HMAC of `algorithm`.
pub(crate) fn pbkdf2(
    algorithm: HashAlgorithm,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<(), AwsLcFailed> {
    // SAFETY: the EVP_* functions return static tables; every pointer is valid
    // for the length given with it, and only `out` is written.
    check(unsafe {
        let md = match algorithm {
            HashAlgorithm::Md5 => ffi::EVP_md5(),
            HashAlgorithm::Sha1 => ffi::EVP_sha1(),
            HashAlgorithm::Sha256 => ffi::EVP_sha256(),
            HashAlgorithm::Sha384 => ffi::EVP_sha384(),
            HashAlgorithm::Sha512 => ffi::EVP_sha512(),
        };
        ffi::PKCS5_PBKDF2_HMAC(
            password.as_ptr().cast(),
            password.len(),
            salt.as_ptr(),
            salt.len(),
            iterations,
            md,
            out.len(),
            out.as_mut_ptr(),
        )
    })
}
