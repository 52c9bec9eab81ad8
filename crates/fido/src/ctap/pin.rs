//! The PIN protocols of CTAP 2, versions one and two (CTAP 2.1 §6.5): a shared secret with a token, and
//! the token's permission for a PIN.

use crypto::hash::{HashAlgorithm, Hasher};
use crypto::kex::{Initiator, KexAlgorithm};
use crypto::legacy;
use zeroize::Zeroizing;

use super::cbor::Cbor;
use crate::FidoError;

/// Block of SHA-256, which HMAC pads keys to.
const BLOCK_BYTES: usize = 64;
/// Bytes of an AES block, and of a hash of a PIN.
const AES_BYTES: usize = 16;
/// Bytes of a coordinate of P-256.
const COORDINATE_BYTES: usize = 32;

/// The version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinProtocol {
    One,
    Two,
}

impl PinProtocol {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// HMAC-SHA-256 (RFC 2104); keys are at most a block long.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = Zeroizing::new([0_u8; BLOCK_BYTES]);
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let keyed = |pad: u8| {
        let padded = Zeroizing::new(block.map(|byte| byte ^ pad));
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        hasher.update(&*padded);
        hasher
    };
    let mut inner = keyed(0x36);
    for part in parts {
        inner.update(part);
    }
    let mut outer = keyed(0x5c);
    outer.update(&inner.finish());
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(outer.finish().iter()) {
        *to = *from;
    }
    out
}

/// HKDF-SHA-256 (RFC 5869) with a salt of 32 zero bytes and one block of output.
fn hkdf(secret: &[u8], info: &[u8]) -> [u8; 32] {
    let key = Zeroizing::new(hmac(&[0; 32], &[secret]));
    hmac(&*key, &[info, &[1]])
}

/// The key with which a token's permission proves requests.
pub(crate) struct PinToken {
    protocol: PinProtocol,
    key: Zeroizing<Vec<u8>>,
}

impl PinToken {
    pub(crate) fn protocol(&self) -> PinProtocol {
        self.protocol
    }

    /// The proof of a message.
    pub(crate) fn authenticate(&self, parts: &[&[u8]]) -> Vec<u8> {
        let proof = hmac(&self.key, parts);
        let length = match self.protocol {
            PinProtocol::One => 16,
            PinProtocol::Two => 32,
        };
        proof.get(..length).unwrap_or(&proof).to_vec()
    }
}

/// A secret that this program and a token share.
pub(crate) struct PinSecret {
    protocol: PinProtocol,
    key: Zeroizing<[u8; 32]>,
    /// This side's public key as the token reads it.
    pub(crate) public: Cbor,
}

impl PinSecret {
    /// Agrees with the token's public key (a COSE key).
    pub(crate) fn agree(protocol: PinProtocol, theirs: &Cbor) -> Result<Self, FidoError> {
        let failed = || FidoError::failed("the token's key for the PIN is not usable");
        let mut point = vec![4];
        for name in [-2, -3] {
            let coordinate = theirs.get(name).and_then(Cbor::as_bytes);
            let coordinate = coordinate.filter(|bytes| bytes.len() == COORDINATE_BYTES);
            point.extend_from_slice(coordinate.ok_or_else(failed)?);
        }
        let (initiator, ours) = Initiator::new(KexAlgorithm::EcdhNistP256).map_err(|_| failed())?;
        let secret = initiator.finish(&point).map_err(|_| failed())?;
        // The x coordinate with its leading zeros.
        let mut x = Zeroizing::new([0_u8; COORDINATE_BYTES]);
        for (to, from) in x.iter_mut().rev().zip(secret.bytes().iter().rev()) {
            *to = *from;
        }
        let key = match protocol {
            PinProtocol::One => {
                let mut key = Zeroizing::new([0; 32]);
                let digest = HashAlgorithm::Sha256.digest(&*x);
                for (to, from) in key.iter_mut().zip(digest.iter()) {
                    *to = *from;
                }
                key
            }
            PinProtocol::Two => Zeroizing::new(hkdf(&*x, b"CTAP2 AES key")),
        };
        let (our_x, our_y) = ours
            .get(1..)
            .and_then(|point| point.split_at_checked(COORDINATE_BYTES))
            .ok_or_else(failed)?;
        let public = Cbor::map([
            (1, Cbor::int(2)),
            (3, Cbor::int(-25)),
            (-1, Cbor::int(1)),
            (-2, Cbor::bytes(our_x)),
            (-3, Cbor::bytes(our_y)),
        ]);
        Ok(Self {
            protocol,
            key,
            public,
        })
    }

    /// The encrypted hash of a PIN.
    pub(crate) fn hidden_pin(&self, pin: &[u8]) -> Result<Vec<u8>, FidoError> {
        let digest = HashAlgorithm::Sha256.digest(pin);
        let mut hash = Zeroizing::new([0; AES_BYTES]);
        for (to, from) in hash.iter_mut().zip(digest.iter()) {
            *to = *from;
        }
        let iv = match self.protocol {
            PinProtocol::One => [0; AES_BYTES],
            PinProtocol::Two => crypto::random::bytes(),
        };
        let mut out = match self.protocol {
            PinProtocol::One => Vec::new(),
            PinProtocol::Two => iv.to_vec(),
        };
        legacy::aes_cbc_encrypt(&*self.key, &iv, &mut *hash)
            .map_err(|_| FidoError::failed("the PIN cannot be encrypted"))?;
        out.extend_from_slice(&*hash);
        Ok(out)
    }

    /// Decrypts the token's permission.
    pub(crate) fn open_token(&self, hidden: &[u8]) -> Result<PinToken, FidoError> {
        let failed = || FidoError::failed("the token's permission is not usable");
        let (iv, data) = match self.protocol {
            PinProtocol::One => (&[0; AES_BYTES][..], hidden),
            PinProtocol::Two => hidden.split_at_checked(AES_BYTES).ok_or_else(failed)?,
        };
        let mut key = Zeroizing::new(data.to_vec());
        legacy::aes_cbc_decrypt(&*self.key, iv, &mut key).map_err(|_| failed())?;
        if key.len() < 16 || key.len() > BLOCK_BYTES {
            return Err(failed());
        }
        Ok(PinToken {
            protocol: self.protocol,
            key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_is_that_of_the_standard() {
        let proof = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
