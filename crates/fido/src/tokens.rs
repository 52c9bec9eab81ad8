//! The operations of security keys: the trait [`Tokens`], which a provider library and the code of
//! `ctap` implement.

use keys::KeyType;

use crate::FidoError;
use crate::message::{TokenKey, TokenSignature};

/// The PIN and the device of a request, which each function of sk-api.h takes.
pub(crate) struct TokenAccess<'a> {
    pub(crate) pin: Option<&'a [u8]>,
    pub(crate) device: Option<&'a str>,
}

/// A key to make.
pub(crate) struct NewTokenKey<'a> {
    pub(crate) key_type: KeyType,
    pub(crate) application: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) challenge: &'a [u8],
    pub(crate) flags: u8,
}

/// A signature to make.
pub(crate) struct TokenSigning<'a> {
    pub(crate) key_type: KeyType,
    pub(crate) application: &'a str,
    pub(crate) handle: &'a [u8],
    pub(crate) flags: u8,
    pub(crate) data: &'a [u8],
}

/// Access to security keys, by a provider library or by the code of `ctap`.
pub(crate) trait Tokens {
    fn sign(
        &mut self,
        access: &TokenAccess<'_>,
        signing: &TokenSigning<'_>,
    ) -> Result<TokenSignature, FidoError>;

    fn enroll(
        &mut self,
        access: &TokenAccess<'_>,
        key: &NewTokenKey<'_>,
    ) -> Result<TokenKey, FidoError>;

    fn resident_keys(&mut self, access: &TokenAccess<'_>) -> Result<Vec<TokenKey>, FidoError>;
}
