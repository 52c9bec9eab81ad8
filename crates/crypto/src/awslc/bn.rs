//! Big unsigned integers, wiped when freed.

use core::cmp::Ordering;
use core::ptr::NonNull;

use zeroize::Zeroizing;

use super::{AwsLcFailed, check, ffi, non_null};
use crate::random;

/// An owned integer.
pub(crate) struct Bn(NonNull<ffi::BIGNUM>);

// SAFETY: a BIGNUM is plain heap memory without thread affinity.
unsafe impl Send for Bn {}
// SAFETY: every operation here that takes `&Bn` only reads it.
unsafe impl Sync for Bn {}

/// A function of the library that makes a number from two, with a context for temporary values.
type BnOperation = unsafe extern "C" fn(
    *mut ffi::BIGNUM,
    *const ffi::BIGNUM,
    *const ffi::BIGNUM,
    *mut ffi::BN_CTX,
) -> core::ffi::c_int;

impl Bn {
    pub(crate) fn new() -> Result<Self, AwsLcFailed> {
        // SAFETY: no arguments; null is handled.
        non_null(unsafe { ffi::BN_new() }).map(Self)
    }

    /// Creates an integer from unsigned big-endian bytes. The caller bounds their number.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, AwsLcFailed> {
        // SAFETY: `bytes` is valid for its length; a null result is handled.
        non_null(unsafe { ffi::BN_bin2bn(bytes.as_ptr(), bytes.len(), core::ptr::null_mut()) })
            .map(Self)
    }

    /// Creates an integer from words of 64 bits, the lowest first. The caller bounds their number.
    pub(crate) fn from_words(words: &[u64]) -> Result<Self, AwsLcFailed> {
        let bytes: Vec<u8> = words
            .iter()
            .rev()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        Self::from_bytes(&bytes)
    }

    /// 2 to the power of `exponent`, which the caller bounds.
    pub(crate) fn power_of_two(exponent: usize) -> Result<Self, AwsLcFailed> {
        let mut bytes = vec![0; exponent / 8 + 1];
        if let Some(first) = bytes.first_mut() {
            *first = 1 << (exponent % 8);
        }
        Self::from_bytes(&bytes)
    }

    /// Words of 64 bits, the lowest first.
    pub(crate) fn to_words(&self) -> Vec<u64> {
        let bytes = self.to_bytes();
        bytes
            .rchunks(8)
            .map(|chunk| {
                chunk
                    .iter()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte))
            })
            .collect()
    }

    pub(crate) fn from_u64(value: u64) -> Result<Self, AwsLcFailed> {
        let this = Self::new()?;
        // SAFETY: the integer is ours.
        check(unsafe { ffi::BN_set_u64(this.0.as_ptr(), value) })?;
        Ok(this)
    }

    /// Generates a random prime of `bits` bits, of which the highest two are set, so that the
    /// product of two such primes has exactly twice as many bits. Uses the library's primality test
    /// for secret numbers.
    pub(crate) fn random_prime(bits: usize) -> Result<Self, AwsLcFailed> {
        let bits = i32::try_from(bits).map_err(|_| AwsLcFailed)?;
        let mut out = Self::new()?;
        // SAFETY: the integer is ours; it may be any prime, and no callback is given.
        check(unsafe {
            ffi::BN_generate_prime_ex(
                out.as_mut_ptr(),
                bits,
                0,
                core::ptr::null(),
                core::ptr::null(),
                core::ptr::null_mut(),
            )
        })?;
        Ok(out)
    }

    /// Takes ownership of an integer that the library allocated.
    ///
    /// # Safety
    /// `pointer` must be null or an integer that nothing else owns.
    pub(crate) unsafe fn from_owned(pointer: *mut ffi::BIGNUM) -> Result<Self, AwsLcFailed> {
        non_null(pointer).map(Self)
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::BIGNUM {
        self.0.as_ptr()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut ffi::BIGNUM {
        self.0.as_ptr()
    }

    /// Releases ownership, for functions that take it.
    pub(crate) fn into_raw(self) -> *mut ffi::BIGNUM {
        let pointer = self.0.as_ptr();
        core::mem::forget(self);
        pointer
    }

    pub(crate) fn bits(&self) -> usize {
        // SAFETY: reads our integer.
        unsafe { ffi::BN_num_bits(self.as_ptr()) as usize }
    }

    pub(crate) fn is_odd(&self) -> bool {
        // SAFETY: reads our integer.
        unsafe { ffi::BN_is_odd(self.as_ptr()) == 1 }
    }

    pub(crate) fn is_zero(&self) -> bool {
        // SAFETY: reads our integer.
        unsafe { ffi::BN_is_zero(self.as_ptr()) == 1 }
    }

    /// Big-endian bytes without leading zeros.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // SAFETY: reads an integer that `self` owns.
        unsafe { bytes_of(self.as_ptr()) }
    }

    #[cfg(test)]
    /// Big-endian bytes, padded with leading zeros to `len`.
    pub(crate) fn to_padded_bytes(&self, len: usize) -> Result<Zeroizing<Vec<u8>>, AwsLcFailed> {
        let mut out = Zeroizing::new(vec![0; len]);
        // SAFETY: `out` is valid for `len` bytes; the function fails when the
        // integer needs more.
        check(unsafe { ffi::BN_bn2bin_padded(out.as_mut_ptr(), len, self.as_ptr()) })?;
        Ok(out)
    }

    /// `self - word`; fails below zero.
    pub(crate) fn minus_word(&self, word: u64) -> Result<Self, AwsLcFailed> {
        // Not BN_sub_word: its bindings have words of 64 bits, the library on a 32-bit machine has not.
        let word = Self::from_u64(word)?;
        let mut out = Self::new()?;
        // SAFETY: all integers are ours.
        check(unsafe { ffi::BN_sub(out.as_mut_ptr(), self.as_ptr(), word.as_ptr()) })?;
        // SAFETY: as above.
        if unsafe { ffi::BN_is_negative(out.as_ptr()) } == 1 {
            return Err(AwsLcFailed);
        }
        Ok(out)
    }

    pub(crate) fn halved(&self) -> Result<Self, AwsLcFailed> {
        let mut out = Self::new()?;
        // SAFETY: both integers are ours.
        check(unsafe { ffi::BN_rshift1(out.as_mut_ptr(), self.as_ptr()) })?;
        Ok(out)
    }

    /// `self mod modulus`, not in constant time.
    pub(crate) fn modulo(
        &self,
        modulus: &Self,
        context: &mut BnContext,
    ) -> Result<Self, AwsLcFailed> {
        Ok(self.divide(modulus, context)?.1)
    }

    /// `self / divisor` without the remainder, not in constant time.
    pub(crate) fn quotient(
        &self,
        divisor: &Self,
        context: &mut BnContext,
    ) -> Result<Self, AwsLcFailed> {
        Ok(self.divide(divisor, context)?.0)
    }

    /// The quotient and the remainder.
    fn divide(&self, divisor: &Self, context: &mut BnContext) -> Result<(Self, Self), AwsLcFailed> {
        let (mut quotient, mut remainder) = (Self::new()?, Self::new()?);
        // SAFETY: all integers and the context are ours.
        check(unsafe {
            ffi::BN_div(
                quotient.as_mut_ptr(),
                remainder.as_mut_ptr(),
                self.as_ptr(),
                divisor.as_ptr(),
                context.as_mut_ptr(),
            )
        })?;
        Ok((quotient, remainder))
    }

    pub(crate) fn times(&self, other: &Self, context: &mut BnContext) -> Result<Self, AwsLcFailed> {
        self.combine(ffi::BN_mul, other, context)
    }

    /// The greatest common divisor of two numbers above zero.
    pub(crate) fn gcd(&self, other: &Self, context: &mut BnContext) -> Result<Self, AwsLcFailed> {
        self.combine(ffi::BN_gcd, other, context)
    }

    fn combine(
        &self,
        operation: BnOperation,
        other: &Self,
        context: &mut BnContext,
    ) -> Result<Self, AwsLcFailed> {
        let mut out = Self::new()?;
        let (result, context) = (out.as_mut_ptr(), context.as_mut_ptr());
        // SAFETY: all integers and the context are ours.
        check(unsafe { operation(result, self.as_ptr(), other.as_ptr(), context) })?;
        Ok(out)
    }

    /// `self - other`; fails below zero.
    pub(crate) fn minus(&self, other: &Self) -> Result<Self, AwsLcFailed> {
        if self < other {
            return Err(AwsLcFailed);
        }
        let mut out = Self::new()?;
        // SAFETY: all integers are ours.
        check(unsafe { ffi::BN_sub(out.as_mut_ptr(), self.as_ptr(), other.as_ptr()) })?;
        Ok(out)
    }

    pub(crate) fn plus(&self, other: &Self) -> Result<Self, AwsLcFailed> {
        let mut out = Self::new()?;
        // SAFETY: all integers are ours.
        check(unsafe { ffi::BN_add(out.as_mut_ptr(), self.as_ptr(), other.as_ptr()) })?;
        Ok(out)
    }

    /// `self ^ exponent mod modulus` in constant time with regard to the
    /// exponent's value (not its length in words). The modulus must be odd and
    /// `self` below it.
    pub(crate) fn power(
        &self,
        exponent: &Self,
        modulus: &Self,
        context: &mut BnContext,
    ) -> Result<Self, AwsLcFailed> {
        if !modulus.is_odd() {
            return Err(AwsLcFailed);
        }
        let mut out = Self::new()?;
        // SAFETY: all integers and the context are ours; a null Montgomery
        // context makes the function build one.
        check(unsafe {
            ffi::BN_mod_exp_mont_consttime(
                out.as_mut_ptr(),
                self.as_ptr(),
                exponent.as_ptr(),
                modulus.as_ptr(),
                context.as_mut_ptr(),
                core::ptr::null(),
            )
        })?;
        Ok(out)
    }

    /// Returns true if this number is probably prime, by `rounds` rounds of Miller-Rabin with
    /// random bases. For public numbers only.
    ///
    /// The library's own test runs at least 16 rounds, which takes seconds for
    /// the largest groups.
    pub(crate) fn is_prime(
        &self,
        rounds: u32,
        context: &mut BnContext,
    ) -> Result<bool, AwsLcFailed> {
        if !self.is_odd() || self.bits() < 3 {
            return Ok(false);
        }
        let one = Self::from_u64(1)?;
        let minus_one = self.minus_word(1)?;
        let (mut odd, mut twos) = (minus_one.halved()?, 1);
        while !odd.is_odd() {
            odd = odd.halved()?;
            twos += 1;
        }
        for _ in 0..rounds {
            let mut power = self.random_base()?.power(&odd, self, context)?;
            if power == one || power == minus_one {
                continue;
            }
            let mut witness = true;
            for _ in 1..twos {
                power = power.times(&power, context)?.modulo(self, context)?;
                if power == minus_one {
                    witness = false;
                    break;
                }
            }
            if witness {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A random number in 2..self-1.
    pub(crate) fn random_base(&self) -> Result<Self, AwsLcFailed> {
        let mut bytes = vec![0; self.bits().div_ceil(8)];
        // A draw is out of range with a probability of at most 1/2, except for numbers of a few
        // bits.
        for _ in 0..1000 {
            random::fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first &= 0xff >> (bytes_excess(self.bits()));
            }
            let base = Self::from_bytes(&bytes)?;
            if base.bits() > 1 && base < self.minus_word(1)? {
                return Ok(base);
            }
        }
        Err(AwsLcFailed)
    }
}

/// Unused bits in the first byte of a number of `bits` bits.
fn bytes_excess(bits: usize) -> usize {
    8 * bits.div_ceil(8) - bits
}

impl PartialEq for Bn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bn {}

impl PartialOrd for Bn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bn {
    fn cmp(&self, other: &Self) -> Ordering {
        // SAFETY: reads two integers of ours.
        unsafe { ffi::BN_cmp(self.as_ptr(), other.as_ptr()) }.cmp(&0)
    }
}

impl Drop for Bn {
    fn drop(&mut self) {
        // SAFETY: the integer is ours and not used again.
        unsafe { ffi::BN_clear_free(self.0.as_ptr()) }
    }
}

/// Big-endian bytes without leading zeros of an integer with any owner; empty for null.
///
/// # Safety
/// `pointer` must be null or valid for the call.
pub(crate) unsafe fn bytes_of(pointer: *const ffi::BIGNUM) -> Zeroizing<Vec<u8>> {
    if pointer.is_null() {
        return Zeroizing::new(Vec::new());
    }
    // SAFETY: the caller guarantees that the pointer is valid; `BN_bn2bin` writes exactly
    // `BN_num_bytes` bytes.
    unsafe {
        let mut out = Zeroizing::new(vec![0; ffi::BN_num_bytes(pointer) as usize]);
        ffi::BN_bn2bin(pointer, out.as_mut_ptr());
        out
    }
}

/// Scratch space for the functions above.
pub(crate) struct BnContext(NonNull<ffi::BN_CTX>);

impl BnContext {
    pub(crate) fn new() -> Result<Self, AwsLcFailed> {
        // SAFETY: no arguments; null is handled.
        non_null(unsafe { ffi::BN_CTX_new() }).map(Self)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut ffi::BN_CTX {
        self.0.as_ptr()
    }
}

impl Drop for BnContext {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used again.
        unsafe { ffi::BN_CTX_free(self.0.as_ptr()) }
    }
}

/// The prime of an RFC 3526 group.
pub(crate) fn rfc3526_prime(bits: usize) -> Result<Bn, AwsLcFailed> {
    // SAFETY: with a null argument the functions allocate the result, which is
    // then ours.
    unsafe {
        let pointer = match bits {
            2048 => ffi::BN_get_rfc3526_prime_2048(core::ptr::null_mut()),
            4096 => ffi::BN_get_rfc3526_prime_4096(core::ptr::null_mut()),
            8192 => ffi::BN_get_rfc3526_prime_8192(core::ptr::null_mut()),
            _ => return Err(AwsLcFailed),
        };
        Bn::from_owned(pointer)
    }
}
