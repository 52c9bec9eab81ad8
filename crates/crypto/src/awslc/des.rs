//! Triple DES in CBC mode, for private keys in old PEM files.

use aws_lc_sys as ffi;

use super::AwsLcFailed;

/// Decrypts in place: EDE with three keys, whole blocks of 8 bytes.
pub(crate) fn ede3_cbc_decrypt(
    key: &[u8; 24],
    iv: &[u8; 8],
    data: &mut [u8],
) -> Result<(), AwsLcFailed> {
    if !data.len().is_multiple_of(8) {
        return Err(AwsLcFailed);
    }
    let mut iv = ffi::DES_cblock { bytes: *iv };
    // SAFETY: DES_key_schedule is a C struct of integers; all-zero is valid.
    let mut schedules: [ffi::DES_key_schedule; 3] = unsafe { core::mem::zeroed() };
    for (schedule, part) in schedules.iter_mut().zip(key.chunks_exact(8)) {
        let mut block = ffi::DES_cblock { bytes: [0; 8] };
        block.bytes.copy_from_slice(part);
        // SAFETY: both pointers are to objects of ours of the right type.
        unsafe {
            ffi::DES_set_key_unchecked(&raw const block, schedule);
            ffi::OPENSSL_cleanse(block.bytes.as_mut_ptr().cast(), 8);
        }
    }
    let [first, second, third] = &mut schedules;
    let pointer = data.as_mut_ptr();
    // SAFETY: in and out may be the same buffer of whole blocks; schedules and
    // IV are ours and initialised; they are wiped by their own size.
    unsafe {
        ffi::DES_ede3_cbc_encrypt(
            pointer,
            pointer,
            data.len(),
            first,
            second,
            third,
            &raw mut iv,
            ffi::DES_DECRYPT,
        );
        ffi::OPENSSL_cleanse(schedules.as_mut_ptr().cast(), size_of_val(&schedules));
    }
    Ok(())
}
