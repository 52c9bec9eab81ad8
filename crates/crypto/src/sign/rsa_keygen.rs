//! Generation of RSA keys (FIPS 186-5 A.1.3, RFC 8017 §3.1).
//!
//! aws-lc's own function also tests the new key through its generic key interface. That links 50 KB
//! of tables into the binary, which the loader would relocate in every process (three for each
//! login), although hardly any of them generates a key.
#![forbid(unsafe_code)]

use crate::awslc::AwsLcFailed;
use crate::awslc::bn::{Bn, BnContext};

/// The public exponent. The code below relies on it being prime.
const EXPONENT: u64 = 65_537;
/// Maximum number of pairs of primes to try; one is nearly always enough.
const MAX_PAIRS: usize = 64;
/// The primes must differ in their highest [`CLOSE_BITS`] bits (FIPS 186-5 A.1.3, step 5.4).
const CLOSE_BITS: usize = 100;

/// The integers of a key, named as in RFC 8017 §3.2; `p` is the larger prime.
pub(super) struct NewRsaKey {
    pub(super) n: Bn,
    pub(super) e: Bn,
    pub(super) d: Bn,
    pub(super) p: Bn,
    pub(super) q: Bn,
    pub(super) iqmp: Bn,
}

impl NewRsaKey {
    /// Generates a key whose modulus has exactly `bits` bits. The caller checks the bounds of
    /// `bits`.
    pub(super) fn with_bits(bits: usize) -> Result<Self, AwsLcFailed> {
        let mut context = BnContext::new()?;
        for _ in 0..MAX_PAIRS {
            let p = Bn::random_prime(bits.div_ceil(2))?;
            let q = Bn::random_prime(bits / 2)?;
            let (p, q) = if p < q { (q, p) } else { (p, q) };
            if p.minus(&q)?.bits() <= (bits / 2).saturating_sub(CLOSE_BITS) {
                continue;
            }
            if let Some(key) = Self::from_primes(bits, p, q, &mut context)? {
                return Ok(key);
            }
        }
        Err(AwsLcFailed)
    }

    /// Returns `None` if the exponent has no inverse for these primes, or modulus or private
    /// exponent are too short.
    fn from_primes(
        bits: usize,
        p: Bn,
        q: Bn,
        context: &mut BnContext,
    ) -> Result<Option<Self>, AwsLcFailed> {
        let (p_less_one, q_less_one) = (p.minus_word(1)?, q.minus_word(1)?);
        // The least common multiple of p-1 and q-1.
        let common = p_less_one.gcd(&q_less_one, context)?;
        let order = p_less_one.quotient(&common, context)?;
        let order = order.times(&q_less_one, context)?;
        let e = Bn::from_u64(EXPONENT)?;
        let Some(d) = inverse_of_exponent(&e, &order, context)? else {
            return Ok(None);
        };
        let n = p.times(&q, context)?;
        if n.bits() != bits || d.bits() <= bits / 2 {
            return Ok(None);
        }
        // By Fermat, x^(m-2) mod m, because that runs in constant time.
        let iqmp = q.power(&p.minus_word(2)?, &p, context)?;
        Ok(Some(Self {
            n,
            e,
            d,
            p,
            q,
            iqmp,
        }))
    }
}

/// Returns `e`^-1 modulo `order`: (1 + k · order) / e for the k that makes it an integer. Only a
/// number below `e` is inverted, so no branch depends on the order. `None` if there is no inverse.
fn inverse_of_exponent(
    e: &Bn,
    order: &Bn,
    context: &mut BnContext,
) -> Result<Option<Bn>, AwsLcFailed> {
    let rest = order.modulo(e, context)?;
    if rest.is_zero() {
        return Ok(None);
    }
    // -1/rest modulo e.
    let inverse = rest.power(&e.minus_word(2)?, e, context)?;
    let factor = e.minus(&inverse)?;
    let one = Bn::from_u64(1)?;
    let product = factor.times(order, context)?.plus(&one)?;
    if !product.modulo(e, context)?.is_zero() {
        return Err(AwsLcFailed);
    }
    product.quotient(e, context).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_bits_asked_for_and_its_exponents_undo_each_other() {
        let mut context = BnContext::new().unwrap();
        for bits in [1024, 1027, 1536] {
            let key = NewRsaKey::with_bits(bits).unwrap();
            assert_eq!(key.n.bits(), bits);
            assert!(key.p > key.q);
            assert!(key.p.times(&key.q, &mut context).unwrap() == key.n);
            let message = Bn::from_u64(0x1234_5678_9abc_def1).unwrap();
            let sealed = message.power(&key.d, &key.n, &mut context).unwrap();
            let opened = sealed.power(&key.e, &key.n, &mut context).unwrap();
            assert!(opened == message, "{bits}");
            let one = key.q.times(&key.iqmp, &mut context).unwrap();
            let one = one.modulo(&key.p, &mut context).unwrap();
            assert!(one == Bn::from_u64(1).unwrap());
        }
    }

    #[test]
    fn an_order_that_the_exponent_divides_has_no_inverse() {
        let mut context = BnContext::new().unwrap();
        let e = Bn::from_u64(EXPONENT).unwrap();
        let order = Bn::from_u64(EXPONENT * 4).unwrap();
        assert!(
            inverse_of_exponent(&e, &order, &mut context)
                .unwrap()
                .is_none()
        );
        let order = Bn::from_u64(1_000_000).unwrap();
        let d = inverse_of_exponent(&e, &order, &mut context)
            .unwrap()
            .unwrap();
        let one = d
            .times(&e, &mut context)
            .unwrap()
            .modulo(&order, &mut context)
            .unwrap();
        assert!(one == Bn::from_u64(1).unwrap());
    }
}
