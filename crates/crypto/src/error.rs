//! The errors of this crate. They contain no secret and no detail that an attacker could use.
#![forbid(unsafe_code)]

use core::fmt;

macro_rules! plain_error {
    ($(#[$doc:meta])* $name:ident, $text:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }

        impl std::error::Error for $name {}
    };
}

plain_error!(
    /// A key or IV has the wrong length for its algorithm.
    KeyLengthError,
    "key or IV has the wrong length for the algorithm"
);
plain_error!(
    /// A tag or MAC does not match. The error deliberately carries no detail.
    IntegrityFailed,
    "integrity check failed"
);
plain_error!(
    /// A signature is invalid or malformed.
    BadSignature,
    "signature does not verify"
);

/// Error of a key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KexError {
    /// The peer's value has the wrong length for the method.
    WrongLength,
    /// The peer's value is not a valid public value, or determines the secret alone (low-order
    /// point, 0, 1, p-1).
    InvalidPublicValue,
    /// The caller used the wrong constructor: with a group for a method without group exchange, or
    /// the reverse.
    Misuse,
    /// aws-lc failed, for example for lack of memory.
    Internal,
}

impl fmt::Display for KexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongLength => "key exchange value has the wrong length",
            Self::InvalidPublicValue => "key exchange value is not valid",
            Self::Misuse => "key exchange method used without or with a group in error",
            Self::Internal => "key exchange failed inside the cryptographic library",
        })
    }
}

impl std::error::Error for KexError {}

/// Reason for rejecting a Diffie-Hellman group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadGroup {
    /// The prime has fewer bits than the policy requires.
    TooSmall,
    /// The prime has more bits than the policy allows.
    TooLarge,
    /// The modulus is even, composite, or (if [`Primality::Safe`](crate::kex::Primality) is
    /// required) not a safe prime.
    NotPrime,
    /// The generator is not in 2..=p-2.
    BadGenerator,
    /// aws-lc failed, for example for lack of memory.
    Internal,
}

impl fmt::Display for BadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "Diffie-Hellman group is too small",
            Self::TooLarge => "Diffie-Hellman group is too large",
            Self::NotPrime => "Diffie-Hellman modulus is not a suitable prime",
            Self::BadGenerator => "Diffie-Hellman generator is out of range",
            Self::Internal => "Diffie-Hellman group could not be set up",
        })
    }
}

impl std::error::Error for BadGroup {}

/// Reason for rejecting a public or private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// A component has the wrong length for the kind of key.
    WrongLength,
    /// The value is not a valid key, for example a point that is not on its curve, or an even
    /// modulus.
    Invalid,
    /// The RSA modulus is outside 1024..=16384 bits, or the exponent has more than 64 bits.
    OutOfBounds,
    /// The components do not belong to the same key.
    Inconsistent,
    /// aws-lc failed, for example for lack of memory.
    Internal,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongLength => "key has the wrong length",
            Self::Invalid => "key is not valid",
            Self::OutOfBounds => "RSA key is too small or too large",
            Self::Inconsistent => "the parts of the key do not belong together",
            Self::Internal => "key could not be set up",
        })
    }
}

impl std::error::Error for BadKey {}

/// Error of signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignError {
    /// The scheme does not match the kind of key.
    WrongScheme,
    /// aws-lc failed, for example for lack of memory.
    Internal,
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongScheme => "signature scheme does not fit the key",
            Self::Internal => "signing failed",
        })
    }
}

impl std::error::Error for SignError {}

/// Error of encryption or key derivation for old private key formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyError {
    /// A key, IV or output has the wrong length, or the data is not whole blocks.
    WrongLength,
    /// The iteration count is zero or above
    /// [`MAX_PBKDF2_ITERATIONS`](crate::legacy::MAX_PBKDF2_ITERATIONS).
    BadCount,
    /// aws-lc failed, for example for lack of memory.
    Internal,
}

impl fmt::Display for LegacyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongLength => "wrong length for this cipher",
            Self::BadCount => "iteration count out of bounds",
            Self::Internal => "decryption failed inside the cryptographic library",
        })
    }
}

impl std::error::Error for LegacyError {}
