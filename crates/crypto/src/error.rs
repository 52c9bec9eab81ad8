//! The errors of this crate: small, without detail that an attacker could use,
//! and without a secret in them.
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
    /// A key or IV of another length than the algorithm's.
    KeyLengthError,
    "key or IV has the wrong length for the algorithm"
);
plain_error!(
    /// A tag or MAC that does not match. There is no detail on purpose.
    IntegrityFailed,
    "integrity check failed"
);
plain_error!(
    /// A signature that does not verify, for whatever reason.
    BadSignature,
    "signature does not verify"
);

/// Why a key exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KexError {
    /// The peer's value has another length than the method's.
    WrongLength,
    /// The peer's value is not a valid public value, or leads to a secret that
    /// it alone determines (low-order point, 0, 1, p-1).
    InvalidPublicValue,
    /// The method takes a group of its own (group exchange) or takes none: the
    /// caller used the wrong constructor.
    Misuse,
    /// The library underneath failed (out of memory).
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

/// Why a Diffie-Hellman group is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadGroup {
    /// The prime has fewer bits than the policy asks for.
    TooSmall,
    /// The prime has more bits than the policy allows.
    TooLarge,
    /// The modulus is even, composite, or (where asked) not a safe prime.
    NotPrime,
    /// The generator is not in 2..=p-2.
    BadGenerator,
    /// The library underneath failed (out of memory).
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

/// Why a public or private key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// A part has the wrong length for the kind of key.
    WrongLength,
    /// The value is not a key: a point off its curve, an even modulus, …
    Invalid,
    /// RSA modulus outside 1024..=16384 bits, or an exponent above 64 bits.
    OutOfBounds,
    /// The parts do not belong together.
    Inconsistent,
    /// The library underneath failed (out of memory).
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

/// Why no signature was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignError {
    /// The scheme is of another kind than the key, or one never signed with.
    WrongScheme,
    /// The library underneath failed, or the signature did not verify.
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

/// Why an old-format decryption was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyError {
    /// A key, IV or salt of the wrong length, or data that is not whole blocks.
    WrongLength,
    /// Zero iterations, or more than the bound.
    BadCount,
    /// The library underneath failed.
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
