//! ChaCha20 and Poly1305 (RFC 8439) as single functions.

use core::mem::MaybeUninit;

use super::ffi;

/// XORs the key stream of `nonce`, from block `counter` on, into `data`.
pub(crate) fn chacha20(key: &[u8; 32], nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
    let pointer = data.as_mut_ptr();
    // SAFETY: in and out may be the same buffer; key and nonce are as long as
    // the function reads.
    unsafe {
        ffi::CRYPTO_chacha_20(
            pointer,
            pointer,
            data.len(),
            key.as_ptr(),
            nonce.as_ptr(),
            counter,
        );
    }
}

/// The Poly1305 tag of `data` under a one-time key.
pub(crate) fn poly1305(key: &[u8; 32], data: &[u8]) -> [u8; 16] {
    /// The library aligns its state to 64 bytes within this memory.
    #[repr(align(64))]
    struct Aligned(MaybeUninit<ffi::poly1305_state>);
    let mut state = Aligned(MaybeUninit::zeroed());
    let mut tag = [0; 16];
    // SAFETY: the state is ours and initialised first; `data` is valid for its
    // length; the tag has 16 bytes.
    unsafe {
        ffi::CRYPTO_poly1305_init(state.0.as_mut_ptr(), key.as_ptr());
        ffi::CRYPTO_poly1305_update(state.0.as_mut_ptr(), data.as_ptr(), data.len());
        ffi::CRYPTO_poly1305_finish(state.0.as_mut_ptr(), tag.as_mut_ptr());
        ffi::OPENSSL_cleanse(
            state.0.as_mut_ptr().cast(),
            size_of::<ffi::poly1305_state>(),
        );
    }
    tag
}
