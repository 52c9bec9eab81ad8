//! The numbers of a new RSA key (FIPS 186-5, A.1.3 and 3.1 of RFC 8017).
//!
//! The library has a function for it, which also tries the new key through its general interface
//! for keys of all kinds. That brings tables of 50 KB into the binary, which the loader writes into
//! every process, three for each login, and hardly any of them ever makes a key.
#![forbid(unsafe_code)]

use crate::awslc::Failed;
use crate::awslc::bn::{Bn, BnContext};

/// The public exponent: a prime, which what follows relies on.
const EXPONENT: u64 = 65_537;
/// Primes are drawn in pairs until one fits; hardly ever more than one.
const MAX_PAIRS: usize = 64;
/// The primes differ within so many of their highest bits (FIPS 186-5, A.1.3, step 5.4).
const CLOSE_BITS: usize = 100;

/// The numbers of a key by their names in RFC 8017 §3.2, `p` the larger prime.
pub(super) struct Fresh {
    pub(super) n: Bn,
    pub(super) e: Bn,
    pub(super) d: Bn,
    pub(super) p: Bn,
    pub(super) q: Bn,
    pub(super) iqmp: Bn,
}

impl Fresh {
    /// With a modulus of exactly `bits` bits, which the caller bounds from both sides.
    pub(super) fn of_bits(bits: usize) -> Result<Self, Failed> {
        let mut context = BnContext::new()?;
        for _ in 0..MAX_PAIRS {
            let p = Bn::random_prime(bits.div_ceil(2))?;
            let q = Bn::random_prime(bits / 2)?;
            let (p, q) = if p < q { (q, p) } else { (p, q) };
            if p.minus(&q)?.bits() <= (bits / 2).saturating_sub(CLOSE_BITS) {
                continue;
            }
            if let Some(fresh) = Self::of_primes(bits, p, q, &mut context)? {
                return Ok(fresh);
            }
        }
        Err(Failed)
    }

    /// None where the exponent does not go with these primes.
    fn of_primes(
        bits: usize,
        p: Bn,
        q: Bn,
        context: &mut BnContext,
    ) -> Result<Option<Self>, Failed> {
        let (p_less_one, q_less_one) = (p.minus_word(1)?, q.minus_word(1)?);
        // The least common multiple.
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
        // By Fermat, because that runs in constant time: x^(m-2) mod m.
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

/// `e`^-1 modulo `order`: (1 + k · order) / e with the k for which that is a whole number. Nothing
/// but a number below `e` is inverted, so no branch depends on the order. None where there is no
/// inverse.
fn inverse_of_exponent(e: &Bn, order: &Bn, context: &mut BnContext) -> Result<Option<Bn>, Failed> {
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
        return Err(Failed);
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
            let fresh = Fresh::of_bits(bits).unwrap();
            assert_eq!(fresh.n.bits(), bits);
            assert!(fresh.p > fresh.q);
            assert!(fresh.p.times(&fresh.q, &mut context).unwrap() == fresh.n);
            let message = Bn::from_u64(0x1234_5678_9abc_def1).unwrap();
            let sealed = message.power(&fresh.d, &fresh.n, &mut context).unwrap();
            let opened = sealed.power(&fresh.e, &fresh.n, &mut context).unwrap();
            assert!(opened == message, "{bits}");
            let one = fresh.q.times(&fresh.iqmp, &mut context).unwrap();
            let one = one.modulo(&fresh.p, &mut context).unwrap();
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
