//! Tokens without a library: CTAP 2 over HID devices (Client to Authenticator Protocol 2.1, FIDO
//! Alliance 2021), and U2F for tokens that speak nothing else. Of several tokens that could serve, the
//! one that the user touches does.

mod cbor;
mod hid;
mod pin;
mod token;
mod touch;
mod u2f;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use hid::TokenChannel;
use keys::KeyType;
use pin::PinToken;
use token::{
    AssertionRequest, CredentialRequest, CtapToken, PinPermission, StoredKey, client_data_hash,
};
use u2f::U2fToken;

use crate::message::{Attestation, TokenKey, TokenSignature};
use crate::tokens::{NewTokenKey, TokenAccess, TokenSigning, Tokens};
use crate::{FORCE, FidoError, RESIDENT, USER_PRESENCE, USER_VERIFICATION};

/// Bytes of a user's identifier, as OpenSSH makes it.
const USER_BYTES: usize = 32;
/// The user's name in keys whose maker gave none, as in OpenSSH.
const USER_NAME: &str = "openssh";
/// Levels of `credProtect`, as OpenSSH chooses them for resident keys.
const PROTECT_WITH_HANDLE: i64 = 2;
const PROTECT_BY_USER: i64 = 3;

/// Gives `bytes` to each parser of what tokens and the kernel send. For fuzz targets.
pub fn read_anything(bytes: &[u8]) {
    let _ = hid::is_token(bytes);
    let _ = token::read_credential(bytes);
    let _ = u2f::read_new_key(bytes);
    let _ = numbers(bytes);
}

/// Reads CBOR and writes it again. For fuzz targets.
#[must_use]
pub fn round_trip(bytes: &[u8]) -> Option<Vec<u8>> {
    cbor::Cbor::read(bytes).map(|(value, _)| value.encode())
}

type OpenToken = Box<dyn Fn(&Path) -> Result<TokenChannel, FidoError>>;

/// The attached tokens.
pub(crate) struct AttachedTokens {
    open: OpenToken,
    paths: Vec<PathBuf>,
}

impl AttachedTokens {
    /// Finds the tokens.
    pub(crate) fn find() -> Self {
        Self {
            open: Box::new(TokenChannel::open),
            paths: hid::find(),
        }
    }

    /// The tokens to use: the one that is named, or all.
    fn candidates(&self, device: Option<&str>) -> Result<Vec<PathBuf>, FidoError> {
        match device {
            Some(device) => {
                let named = self.paths.iter().find(|path| path == &Path::new(device));
                Ok(vec![named.ok_or(FidoError::DeviceNotFound)?.clone()])
            }
            None if self.paths.is_empty() => Err(FidoError::DeviceNotFound),
            None => Ok(self.paths.clone()),
        }
    }

    fn token(&self, path: &Path) -> Result<OpenedToken, FidoError> {
        let channel = (self.open)(path)?;
        Ok(match channel.speaks_ctap2() {
            true => OpenedToken::Ctap2(CtapToken::new(channel)?),
            false => OpenedToken::U2f(U2fToken::new(channel)),
        })
    }

    /// The only token, the one that is named, or the one that the user touches.
    fn one(&self, device: Option<&str>) -> Result<OpenedToken, FidoError> {
        let paths = self.candidates(device)?;
        if let [path] = paths.as_slice() {
            return self.token(path);
        }
        touch::select(paths.iter().flat_map(|path| self.token(path)).collect())
    }

    /// The token that knows a key: the only one, or the one that answers without its user.
    fn that_knows(&self, signing: &TokenSigning<'_>) -> Result<OpenedToken, FidoError> {
        let paths = self.candidates(None)?;
        if let [path] = paths.as_slice() {
            return self.token(path);
        }
        // A token that is lost is not the one.
        let tokens = paths.iter().flat_map(|path| self.token(path));
        let (mut known, mut others) = (Vec::new(), Vec::new());
        for mut token in tokens {
            match token.knows(signing) {
                true => known.push(token),
                false => others.push(token),
            }
        }
        if known.is_empty() && signing.flags & USER_VERIFICATION != 0 {
            // A token may hide such a key until it has verified its user.
            others.retain(|token| matches!(token, OpenedToken::Ctap2(_)));
            known = others;
        }
        touch::select(known)
    }
}

/// An open token, by what it speaks.
enum OpenedToken {
    Ctap2(CtapToken),
    U2f(U2fToken),
}

impl OpenedToken {
    /// True if the token says without its user that it knows a key.
    fn knows(&mut self, signing: &TokenSigning<'_>) -> bool {
        match self {
            Self::Ctap2(token) => {
                let request = AssertionRequest {
                    application: signing.application,
                    client_data_hash: &client_data_hash(b""),
                    handle: Some(signing.handle),
                    needs_touch: false,
                    verifies_alone: false,
                };
                token.assertion(&request, None).is_ok()
            }
            Self::U2f(token) => token.knows(signing.application, signing.handle),
        }
    }

    /// Asks the token to wait for a touch.
    fn ask_for_touch(&self) -> Result<(), FidoError> {
        match self {
            Self::Ctap2(token) => token.ask_for_touch(),
            // It is asked whether it is touched, again and again.
            Self::U2f(_) => Ok(()),
        }
    }

    fn is_touched(&mut self) -> Result<bool, FidoError> {
        match self {
            Self::Ctap2(token) => token.is_touched(),
            Self::U2f(token) => token.is_touched(),
        }
    }

    /// Ends the wait for a touch.
    fn cancel(&self) {
        if let Self::Ctap2(token) = self {
            token.cancel();
        }
    }
}

/// How a token verifies its user for a request: by the PIN, if one is given, otherwise with its own
/// sensor.
fn verification(
    token: &mut CtapToken,
    pin: Option<&[u8]>,
    needs_user: bool,
    permission: PinPermission,
    application: Option<&str>,
) -> Result<(Option<PinToken>, bool), FidoError> {
    match pin {
        // It would only cost an attempt.
        Some([]) => Err(FidoError::PinRequired),
        Some(pin) => Ok((Some(token.permission(pin, permission, application)?), false)),
        None if !needs_user => Ok((None, false)),
        None if token.info.has("uv") => Ok((None, true)),
        None => Err(FidoError::PinRequired),
    }
}

impl Tokens for AttachedTokens {
    fn sign(
        &mut self,
        access: &TokenAccess<'_>,
        signing: &TokenSigning<'_>,
    ) -> Result<TokenSignature, FidoError> {
        let mut token = match self.that_knows(signing)? {
            OpenedToken::Ctap2(token) => token,
            OpenedToken::U2f(mut token) => return token.sign(signing),
        };
        let needs_user = signing.flags & USER_VERIFICATION != 0;
        let (permission, verifies_alone) = verification(
            &mut token,
            access.pin,
            needs_user,
            PinPermission::GetAssertion,
            Some(signing.application),
        )?;
        let request = AssertionRequest {
            application: signing.application,
            client_data_hash: &client_data_hash(signing.data),
            handle: Some(signing.handle),
            needs_touch: signing.flags & USER_PRESENCE != 0,
            verifies_alone,
        };
        let made = token.assertion(&request, permission.as_ref())?;
        let (r, s) = match signing.key_type {
            KeyType::SkEd25519 => (made.signature, Vec::new()),
            _ => numbers(&made.signature)
                .ok_or_else(|| FidoError::failed("the token gave no usable signature"))?,
        };
        Ok(TokenSignature {
            flags: made.flags,
            counter: made.counter,
            r,
            s,
        })
    }

    fn enroll(
        &mut self,
        access: &TokenAccess<'_>,
        key: &NewTokenKey<'_>,
    ) -> Result<TokenKey, FidoError> {
        let mut user = key.user.unwrap_or_default().as_bytes().to_vec();
        if user.len() > USER_BYTES {
            return Err(FidoError::failed("the user's name is longer than 32 bytes"));
        }
        user.resize(USER_BYTES, 0);
        let mut token = match self.one(access.device)? {
            OpenedToken::Ctap2(token) => token,
            OpenedToken::U2f(mut token) => return token.enroll(key),
        };
        let is_resident = key.flags & RESIDENT != 0;
        let needs_user = key.flags & USER_VERIFICATION != 0;
        // A token with a PIN asks for it whenever it stores a key.
        let has_pin = token.info.has("clientPin") && is_resident;
        let (permission, verifies_alone) = verification(
            &mut token,
            access.pin,
            needs_user || has_pin,
            PinPermission::MakeCredential,
            Some(key.application),
        )?;
        if is_resident && key.flags & FORCE == 0 {
            // Tokens do not show protected keys without their user.
            let request = AssertionRequest {
                application: key.application,
                client_data_hash: &client_data_hash(b""),
                handle: None,
                needs_touch: false,
                verifies_alone: permission.is_none() && token.info.has("uv"),
            };
            if token.stores(&user, &request, permission.as_ref())? {
                return Err(FidoError::CredentialExists);
            }
        }
        let protection = match (is_resident, needs_user) {
            (_, true) => PROTECT_BY_USER,
            (true, false) => PROTECT_WITH_HANDLE,
            (false, false) => 0,
        };
        let (made, answer) = token.make_credential(
            &CredentialRequest {
                key_type: key.key_type,
                application: key.application,
                client_data_hash: &client_data_hash(key.challenge),
                user_id: &user,
                user_name: key
                    .user
                    .filter(|user| !user.is_empty())
                    .unwrap_or(USER_NAME),
                is_resident,
                protection,
            },
            permission.as_ref(),
            verifies_alone,
        )?;
        let statement = answer.get(3);
        let part = |name: &str| statement.and_then(|map| map.named(name));
        let certificate = part("x5c").and_then(|list| list.as_array().first());
        Ok(TokenKey {
            application: key.application.to_owned(),
            flags: key.flags,
            user,
            attestation: Attestation {
                certificate: bytes_of(certificate),
                signature: bytes_of(part("sig")),
                // With CBOR's head, as libfido2 gives it to OpenSSH.
                authenticator_data: answer.get(2).map(cbor::Cbor::encode).unwrap_or_default(),
            },
            ..token_key(&made).ok_or(FidoError::Unsupported)?
        })
    }

    fn resident_keys(&mut self, access: &TokenAccess<'_>) -> Result<Vec<TokenKey>, FidoError> {
        let OpenedToken::Ctap2(mut token) = self.one(access.device)? else {
            return Err(FidoError::Unsupported);
        };
        let pin = access.pin.filter(|pin| !pin.is_empty());
        let pin = pin.ok_or(FidoError::PinRequired)?;
        let permission = token.permission(pin, PinPermission::ManageCredentials, None)?;
        let stored = token.stored_keys(&permission)?;
        // Types that SSH does not have do not hide the others.
        Ok(stored.iter().filter_map(token_key).collect())
    }
}

fn bytes_of(value: Option<&cbor::Cbor>) -> Vec<u8> {
    value
        .and_then(cbor::Cbor::as_bytes)
        .unwrap_or_default()
        .to_vec()
}

fn token_key(stored: &StoredKey) -> Option<TokenKey> {
    let (key_type, public_key) = stored.key.clone()?;
    let verified = match stored.protection {
        PROTECT_BY_USER => USER_VERIFICATION,
        _ => 0,
    };
    Some(TokenKey {
        key_type,
        application: stored.application.clone(),
        flags: USER_PRESENCE | RESIDENT | verified,
        public_key,
        handle: stored.handle.clone(),
        user: stored.user.clone(),
        attestation: Attestation::default(),
    })
}

/// The numbers r and s of an ECDSA signature in DER: a sequence of two integers.
fn numbers(signature: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let element = |bytes: &[u8], tag: u8| -> Option<(Vec<u8>, Vec<u8>)> {
        let (found, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first()?;
        // Signatures of P-256 have lengths of one byte.
        if *found != tag || *length >= 0x80 {
            return None;
        }
        let (content, rest) = rest.split_at_checked(usize::from(*length))?;
        Some((content.to_vec(), rest.to_vec()))
    };
    let (sequence, rest) = element(signature, 0x30)?;
    let (r, after) = element(&sequence, 0x02)?;
    let (s, end) = element(&after, 0x02)?;
    let number = |bytes: Vec<u8>| {
        let digits = bytes.into_iter().skip_while(|byte| *byte == 0);
        digits.collect::<Vec<u8>>()
    };
    (rest.is_empty() && end.is_empty()).then(|| (number(r), number(s)))
}
