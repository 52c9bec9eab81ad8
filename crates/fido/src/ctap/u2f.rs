//! Tokens that speak only U2F, which is CTAP 1 (FIDO U2F Raw Message Formats 1.2; CTAP 2.1 §7): keys of
//! P-256 that the token does not store, without a PIN. Such a token answers at once that it waits for
//! a touch, and is asked again.

use std::time::{Duration, Instant};

use keys::KeyType;

use super::cbor::Cbor;
use super::hid::{MSG, TokenChannel};
use super::token::{client_data_hash, unusable};
use super::{USER_BYTES, numbers};
use crate::message::{Attestation, TokenKey, TokenSignature};
use crate::tokens::{NewTokenKey, TokenSigning};
use crate::{FidoError, RESIDENT, USER_PRESENCE, USER_VERIFICATION};

const REGISTER: u8 = 0x01;
const AUTHENTICATE: u8 = 0x02;
/// How a token signs: not at all, after a touch, or without one.
const CHECK_ONLY: u8 = 0x07;
const AFTER_TOUCH: u8 = 0x03;
const WITHOUT_TOUCH: u8 = 0x08;

/// Status words of ISO 7816-4.
const SUCCESS: u16 = 0x9000;
const NOT_TOUCHED: u16 = 0x6985;
const UNKNOWN_HANDLE: u16 = 0x6a80;
const UNKNOWN_INSTRUCTION: u16 = 0x6d00;
const UNKNOWN_CLASS: u16 = 0x6e00;

/// Time that the user has to touch the token, that of tokens with CTAP 2.
const TOUCH_LIMIT: Duration = Duration::from_secs(30);
/// Time between two questions to a token that waits for a touch.
const TOUCH_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of an uncompressed point of P-256.
const POINT_BYTES: usize = 65;
/// First byte of an answer with a new key.
const NEW_KEY: u8 = 0x05;
/// Flags of authenticator data with a new key: touched, and with the key.
const NEW_KEY_FLAGS: u8 = 0x41;
const MODEL_BYTES: usize = 16;

/// A token with an open channel.
pub(super) struct U2fToken {
    channel: TokenChannel,
}

impl U2fToken {
    pub(super) fn new(channel: TokenChannel) -> Self {
        Self { channel }
    }

    /// Sends a request; gives the status word and the data before it.
    fn call(
        &mut self,
        instruction: u8,
        parameter: u8,
        data: &[u8],
    ) -> Result<(u16, Vec<u8>), FidoError> {
        let length = u16::try_from(data.len()).map_err(|_| unusable())?;
        // The lengths of data and answer in their extended forms.
        let mut request = vec![0, instruction, parameter, 0, 0];
        request.extend_from_slice(&length.to_be_bytes());
        request.extend_from_slice(data);
        request.extend_from_slice(&[0, 0]);
        let answer = self.channel.request(MSG, &request)?;
        let (data, status) = answer.split_last_chunk().ok_or_else(unusable)?;
        Ok((u16::from_be_bytes(*status), data.to_vec()))
    }

    /// As [`Self::call`], until the user has touched the token.
    fn call_touched(
        &mut self,
        instruction: u8,
        parameter: u8,
        data: &[u8],
    ) -> Result<Vec<u8>, FidoError> {
        let deadline = Instant::now() + TOUCH_LIMIT;
        loop {
            match self.call(instruction, parameter, data)? {
                (SUCCESS, data) => return Ok(data),
                (NOT_TOUCHED, _) if Instant::now() < deadline => std::thread::sleep(TOUCH_PAUSE),
                (status, _) => return Err(error_of(status)),
            }
        }
    }

    /// True if the token has made the key with this handle for this application.
    pub(super) fn knows(&mut self, application: &str, handle: &[u8]) -> bool {
        let Some(data) = question(&[0; 32], application, handle) else {
            return false;
        };
        let answer = self.call(AUTHENTICATE, CHECK_ONLY, &data);
        // It would sign after a touch.
        answer.is_ok_and(|(status, _)| status == NOT_TOUCHED)
    }

    /// True if the user touches the token now. The request makes a key, which is thrown away.
    pub(super) fn is_touched(&mut self) -> Result<bool, FidoError> {
        match self.call(REGISTER, 0, &[0; 64])? {
            (SUCCESS, _) => Ok(true),
            (NOT_TOUCHED, _) => Ok(false),
            (status, _) => Err(error_of(status)),
        }
    }

    pub(super) fn sign(&mut self, signing: &TokenSigning<'_>) -> Result<TokenSignature, FidoError> {
        if signing.key_type != KeyType::SkEcdsaP256 || signing.flags & USER_VERIFICATION != 0 {
            return Err(FidoError::Unsupported);
        }
        let parameter = match signing.flags & USER_PRESENCE {
            0 => WITHOUT_TOUCH,
            _ => AFTER_TOUCH,
        };
        let hash = client_data_hash(signing.data);
        let data = question(&hash, signing.application, signing.handle);
        let data = data.ok_or(FidoError::DeviceNotFound)?;
        let answer = self.call_touched(AUTHENTICATE, parameter, &data)?;
        let (flags, rest) = answer.split_first().ok_or_else(unusable)?;
        let (counter, signature) = rest.split_first_chunk().ok_or_else(unusable)?;
        let (r, s) = numbers(signature).ok_or_else(unusable)?;
        Ok(TokenSignature {
            flags: *flags,
            counter: u32::from_be_bytes(*counter),
            r,
            s,
        })
    }

    pub(super) fn enroll(&mut self, key: &NewTokenKey<'_>) -> Result<TokenKey, FidoError> {
        let needs = key.flags & (RESIDENT | USER_VERIFICATION);
        if key.key_type != KeyType::SkEcdsaP256 || needs != 0 {
            return Err(FidoError::Unsupported);
        }
        let application = client_data_hash(key.application.as_bytes());
        let data = [client_data_hash(key.challenge), application.clone()].concat();
        let answer = self.call_touched(REGISTER, 0, &data)?;
        let made = read_new_key(&answer).ok_or_else(unusable)?;
        let mut user = key.user.unwrap_or_default().as_bytes().to_vec();
        user.resize(USER_BYTES, 0);
        let authenticator_data = Cbor::Bytes(made.authenticator_data(&application)).encode();
        Ok(TokenKey {
            key_type: key.key_type,
            application: key.application.to_owned(),
            flags: key.flags,
            public_key: made.point,
            handle: made.handle,
            user,
            attestation: Attestation {
                certificate: made.certificate,
                signature: made.signature,
                authenticator_data,
            },
        })
    }
}

fn error_of(status: u16) -> FidoError {
    match status {
        UNKNOWN_HANDLE => FidoError::DeviceNotFound,
        UNKNOWN_INSTRUCTION | UNKNOWN_CLASS => FidoError::Unsupported,
        NOT_TOUCHED => FidoError::failed("nobody has touched the token in time"),
        status => FidoError::Failed(format!("the token reports status {status:#06x}")),
    }
}

/// The data of [`AUTHENTICATE`]; `None` if no such token has made the handle, whose length is a byte.
fn question(hash: &[u8], application: &str, handle: &[u8]) -> Option<Vec<u8>> {
    let mut data = hash.to_vec();
    data.extend_from_slice(&client_data_hash(application.as_bytes()));
    data.push(u8::try_from(handle.len()).ok()?);
    data.extend_from_slice(handle);
    Some(data)
}

/// The parts of an answer with a new key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewU2fKey {
    point: Vec<u8>,
    handle: Vec<u8>,
    certificate: Vec<u8>,
    signature: Vec<u8>,
}

impl NewU2fKey {
    /// Authenticator data as a token with CTAP 2 would give them (CTAP 2.1 §7.1.4).
    fn authenticator_data(&self, application: &[u8]) -> Vec<u8> {
        let coordinate = |from: usize| {
            let bytes = self.point.get(from..from + 32);
            Cbor::bytes(bytes.unwrap_or_default())
        };
        let key = Cbor::map([
            (1, Cbor::int(2)),
            (3, Cbor::int(-7)),
            (-1, Cbor::int(1)),
            (-2, coordinate(1)),
            (-3, coordinate(33)),
        ]);
        let mut data = application.to_vec();
        data.push(NEW_KEY_FLAGS);
        data.extend_from_slice(&[0; 4 + MODEL_BYTES]);
        let length = u16::try_from(self.handle.len()).unwrap_or(u16::MAX);
        data.extend_from_slice(&length.to_be_bytes());
        data.extend_from_slice(&self.handle);
        key.write(&mut data);
        data
    }
}

/// Reads an answer to [`REGISTER`]: point, length and handle, certificate, signature.
pub(super) fn read_new_key(answer: &[u8]) -> Option<NewU2fKey> {
    let rest = answer.strip_prefix(&[NEW_KEY])?;
    let (point, rest) = rest.split_at_checked(POINT_BYTES)?;
    let (length, rest) = rest.split_first()?;
    let (handle, rest) = rest.split_at_checked(usize::from(*length))?;
    let (certificate, signature) = rest.split_at_checked(der_bytes(rest)?)?;
    (point.first() == Some(&4)).then(|| NewU2fKey {
        point: point.to_vec(),
        handle: handle.to_vec(),
        certificate: certificate.to_vec(),
        signature: signature.to_vec(),
    })
}

/// The length of a DER sequence with its head, which says it.
fn der_bytes(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0x30, length @ 0..=0x7f, ..] => Some(2 + usize::from(*length)),
        [0x30, 0x81, length, ..] => Some(3 + usize::from(*length)),
        [0x30, 0x82, high, low, ..] => Some(4 + usize::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_lie_about_their_lengths_are_no_keys() {
        let mut answer = vec![NEW_KEY, 4];
        answer.extend_from_slice(&[7; 64]);
        answer.extend_from_slice(&[3, 1, 2, 3]);
        answer.extend_from_slice(&[0x30, 0x82, 0, 2, 9, 9]);
        answer.extend_from_slice(b"signature");
        let key = read_new_key(&answer).unwrap();
        assert_eq!(key.handle, [1, 2, 3]);
        assert_eq!(key.certificate, [0x30, 0x82, 0, 2, 9, 9]);
        assert_eq!(key.signature, b"signature");
        for end in 0..answer.len() - b"signature".len() {
            assert_eq!(read_new_key(answer.get(..end).unwrap()), None, "{end}");
        }
        for (at, byte) in [(0, 4), (1, 2), (66, 255), (70, 0x31), (71, 0x83)] {
            let mut bad = answer.clone();
            *bad.get_mut(at).unwrap() = byte;
            assert_eq!(read_new_key(&bad), None, "{at}");
        }
    }
}
