//! The commands of CTAP 2 for one token (CTAP 2.1 §6): what it can do, making keys, signatures, its PIN,
//! and the keys that it stores.

use crypto::hash::HashAlgorithm;
use keys::KeyType;

use super::cbor::Cbor;
use super::hid::{CBOR, TokenChannel, TokenSays};
use super::pin::{PinProtocol, PinSecret, PinToken};
use crate::FidoError;

const MAKE_CREDENTIAL: u8 = 0x01;
const GET_ASSERTION: u8 = 0x02;
const GET_NEXT_ASSERTION: u8 = 0x08;
const GET_INFO: u8 = 0x04;
const CLIENT_PIN: u8 = 0x06;
const CREDENTIAL_MANAGEMENT: u8 = 0x0a;
/// Waits for a touch (CTAP 2.1 §6.9).
const SELECTION: u8 = 0x0b;
/// The command of tokens that have the management of CTAP 2.1's drafts.
const CREDENTIAL_MANAGEMENT_PREVIEW: u8 = 0x41;

/// The purpose of a permission (CTAP 2.1 §6.5.5.7).
#[derive(Debug, Clone, Copy)]
pub(crate) enum PinPermission {
    /// Making keys, and assertions, which find the key that would be replaced.
    MakeCredential = 1 | 2,
    GetAssertion = 2,
    ManageCredentials = 4,
}

/// Most keys that are listed.
const MAX_KEYS: usize = 256;

/// COSE's numbers of algorithms.
fn cose_algorithm(key_type: KeyType) -> i64 {
    match key_type {
        KeyType::SkEd25519 => -8,
        _ => -7,
    }
}

/// The answer to authenticatorGetInfo.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenInfo {
    versions: Vec<String>,
    options: Vec<(String, bool)>,
    extensions: Vec<String>,
    protocols: Vec<i64>,
}

impl TokenInfo {
    fn read(answer: &Cbor) -> Self {
        let mut info = Self::default();
        if let Some(Cbor::Map(options)) = answer.get(4) {
            let known = options
                .iter()
                .filter_map(|(name, value)| Some((name.as_text()?.to_owned(), value.is_true())));
            info.options = known.collect();
        }
        let texts = |key| {
            let texts = answer.get(key).map_or(&[][..], Cbor::as_array);
            let texts = texts.iter().filter_map(Cbor::as_text);
            texts.map(str::to_owned).collect()
        };
        info.versions = texts(1);
        info.extensions = texts(2);
        let protocols = answer.get(6).map_or(&[][..], Cbor::as_array);
        info.protocols = protocols.iter().filter_map(Cbor::as_int).collect();
        info
    }

    /// True if the token has the option and it is on.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options
            .iter()
            .any(|(name, is_on)| name == option && *is_on)
    }

    fn extends(&self, name: &str) -> bool {
        self.extensions.iter().any(|known| known == name)
    }
}

/// An assertion: a signature, and the authenticator data that it covers besides the data's hash.
#[derive(Debug, Clone)]
pub(crate) struct Assertion {
    pub(crate) flags: u8,
    pub(crate) counter: u32,
    pub(crate) signature: Vec<u8>,
    /// The user's identifier, in answers of keys that the token stores.
    user: Vec<u8>,
    /// Number of keys that the token stores for the request; 0 if the token does not report it.
    stored: usize,
}

/// A request to sign.
pub(crate) struct AssertionRequest<'a> {
    pub(crate) application: &'a str,
    pub(crate) client_data_hash: &'a [u8],
    /// The key's handle; `None` for any key that the token stores.
    pub(crate) handle: Option<&'a [u8]>,
    pub(crate) needs_touch: bool,
    /// The token verifies its user by itself, without a PIN.
    pub(crate) verifies_alone: bool,
}

/// A request to make a key.
pub(crate) struct CredentialRequest<'a> {
    pub(crate) key_type: KeyType,
    pub(crate) application: &'a str,
    pub(crate) client_data_hash: &'a [u8],
    pub(crate) user_id: &'a [u8],
    pub(crate) user_name: &'a str,
    pub(crate) is_resident: bool,
    /// The level of `credProtect`, 1 to 3; 0 for none.
    pub(crate) protection: i64,
}

/// A key that a token has made or stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredKey {
    pub(crate) application: String,
    pub(crate) user: Vec<u8>,
    pub(crate) handle: Vec<u8>,
    /// `None` for a type that SSH does not have.
    pub(crate) key: Option<(KeyType, Vec<u8>)>,
    /// The level of `credProtect`.
    pub(crate) protection: i64,
}

/// A token with an open channel.
pub(crate) struct CtapToken {
    channel: TokenChannel,
    pub(crate) info: TokenInfo,
}

pub(super) fn unusable() -> FidoError {
    FidoError::failed("the token gave no usable answer")
}

/// The error of a status (CTAP 2.1 §8.2).
fn error_of(status: u8) -> FidoError {
    match status {
        0x19 => FidoError::CredentialExists,
        0x26 | 0x2b => FidoError::Unsupported,
        0x2e => FidoError::DeviceNotFound,
        // Wrong, not usable before the token is inserted again, and needed.
        0x31 | 0x33 | 0x36 => FidoError::PinRequired,
        0x27 => FidoError::failed("the user has denied the operation at the token"),
        0x2f => FidoError::failed("nobody has touched the token in time"),
        0x32 => FidoError::failed("the token's PIN is blocked after too many wrong ones: reset it"),
        0x34 => {
            FidoError::failed("the token takes no more PINs now: remove it and insert it again")
        }
        0x35 => FidoError::failed("the token has no PIN: set one with its maker's program"),
        0x28 => FidoError::failed("the token has no room for another resident key"),
        0x3c | 0x3f => FidoError::failed("the token did not recognise its user"),
        status => FidoError::Failed(format!("the token reports error {status:#04x}")),
    }
}

impl CtapToken {
    /// Asks the token what it can do.
    pub(crate) fn new(channel: TokenChannel) -> Result<Self, FidoError> {
        let mut token = Self {
            channel,
            info: TokenInfo::default(),
        };
        let answer = token.call(GET_INFO, None)?;
        token.info = TokenInfo::read(&answer);
        Ok(token)
    }

    fn call(&mut self, command: u8, parameters: Option<&Cbor>) -> Result<Cbor, FidoError> {
        let mut request = zeroize::Zeroizing::new(vec![command]);
        if let Some(parameters) = parameters {
            parameters.write(&mut request);
        }
        let answer = self.channel.request(CBOR, &request)?;
        match answer.split_first() {
            Some((0, [])) => Ok(Cbor::Null),
            Some((0, rest)) => match Cbor::read(rest) {
                Some((value, [])) => Ok(value),
                _ => Err(unusable()),
            },
            Some((status, _)) => Err(error_of(*status)),
            None => Err(unusable()),
        }
    }

    /// Asks the token to wait for a touch, for a choice among several.
    pub(crate) fn ask_for_touch(&self) -> Result<(), FidoError> {
        let mut request = vec![SELECTION];
        if !self.info.versions.iter().any(|name| name == "FIDO_2_1") {
            // What CTAP 2.0 §5.1 has for it: a request with an empty proof, which a touch refuses.
            request = vec![MAKE_CREDENTIAL];
            touch_request(!self.info.protocols.is_empty()).write(&mut request);
        }
        self.channel.ask(CBOR, &request)
    }

    /// True if the token has been touched since [`Self::ask_for_touch`].
    pub(crate) fn is_touched(&self) -> Result<bool, FidoError> {
        match self.channel.look(CBOR)? {
            TokenSays::Nothing => Ok(false),
            TokenSays::Answer(answer) => match answer.first() {
                // Done, and the refusals of an empty proof: it is wrong, there is no PIN.
                Some(0 | 0x31 | 0x33 | 0x35 | 0x36) => Ok(true),
                // It does not wait any longer.
                Some(0x2d | 0x2f | 0x3a) => self.ask_for_touch().map(|()| false),
                Some(status) => Err(error_of(*status)),
                None => Err(unusable()),
            },
            TokenSays::Busy => self.ask_for_touch().map(|()| false),
        }
    }

    /// Ends the wait for a touch.
    pub(crate) fn cancel(&self) {
        self.channel.cancel();
    }

    /// The token's permission for a PIN. The PIN is sent once.
    pub(crate) fn permission(
        &mut self,
        pin: &[u8],
        permission: PinPermission,
        application: Option<&str>,
    ) -> Result<PinToken, FidoError> {
        let protocol = match self.info.protocols.as_slice() {
            // The token's order is its preference.
            protocols if protocols.iter().find(|number| [1, 2].contains(*number)) == Some(&2) => {
                PinProtocol::Two
            }
            _ => PinProtocol::One,
        };
        let number = Cbor::int(protocol.number());
        let ask = Cbor::map([(1, number.clone()), (2, Cbor::int(2))]);
        let answer = self.call(CLIENT_PIN, Some(&ask))?;
        let theirs = answer.get(1).ok_or_else(unusable)?;
        let secret = PinSecret::agree(protocol, theirs)?;
        let has_permissions = self.info.has("pinUvAuthToken");
        let mut entries = vec![
            (1, number),
            (2, Cbor::int(if has_permissions { 9 } else { 5 })),
            (3, secret.public.clone()),
            (6, Cbor::Bytes(secret.hidden_pin(pin)?)),
        ];
        if has_permissions {
            entries.push((9, Cbor::int(permission as i64)));
            if let Some(application) = application {
                entries.push((10, Cbor::text(application)));
            }
        }
        let answer = self.call(CLIENT_PIN, Some(&Cbor::map(entries)))?;
        let hidden = answer
            .get(2)
            .and_then(Cbor::as_bytes)
            .ok_or_else(unusable)?;
        secret.open_token(hidden)
    }

    /// Makes a key; gives the answer's authenticator data, certificate and signature.
    pub(crate) fn make_credential(
        &mut self,
        request: &CredentialRequest<'_>,
        permission: Option<&PinToken>,
        verifies_alone: bool,
    ) -> Result<(StoredKey, Cbor), FidoError> {
        let named = |entries: Vec<(&str, Cbor)>| {
            let entries = entries.into_iter();
            Cbor::Map(
                entries
                    .map(|(name, value)| (Cbor::text(name), value))
                    .collect(),
            )
        };
        let user = named(vec![
            ("id", Cbor::bytes(request.user_id)),
            ("name", Cbor::text(request.user_name)),
            ("displayName", Cbor::text(request.user_name)),
        ]);
        let algorithm = named(vec![
            ("alg", Cbor::int(cose_algorithm(request.key_type))),
            ("type", Cbor::text("public-key")),
        ]);
        let mut entries = vec![
            (1, Cbor::bytes(request.client_data_hash)),
            (2, named(vec![("id", Cbor::text(request.application))])),
            (3, user),
            (4, Cbor::Array(vec![algorithm])),
        ];
        if request.protection > 0 {
            if !self.info.extends("credProtect") {
                return Err(FidoError::Unsupported);
            }
            let extension = named(vec![("credProtect", Cbor::int(request.protection))]);
            entries.push((6, extension));
        }
        let mut options = Vec::new();
        if request.is_resident {
            options.push(("rk", Cbor::Bool(true)));
        }
        if verifies_alone {
            options.push(("uv", Cbor::Bool(true)));
        }
        if !options.is_empty() {
            entries.push((7, named(options)));
        }
        prove(&mut entries, permission, &[request.client_data_hash], 8);
        let answer = self.call(MAKE_CREDENTIAL, Some(&Cbor::map(entries)))?;
        let data = answer
            .get(2)
            .and_then(Cbor::as_bytes)
            .ok_or_else(unusable)?;
        let key = read_credential(data).ok_or_else(unusable)?;
        Ok((key, answer))
    }

    /// Signs.
    pub(crate) fn assertion(
        &mut self,
        request: &AssertionRequest<'_>,
        permission: Option<&PinToken>,
    ) -> Result<Assertion, FidoError> {
        let mut entries = vec![
            (1, Cbor::text(request.application)),
            (2, Cbor::bytes(request.client_data_hash)),
        ];
        if let Some(handle) = request.handle {
            let credential = Cbor::Map(vec![
                (Cbor::text("id"), Cbor::bytes(handle)),
                (Cbor::text("type"), Cbor::text("public-key")),
            ]);
            entries.push((3, Cbor::Array(vec![credential])));
        }
        let mut options = Vec::new();
        if !request.needs_touch {
            options.push((Cbor::text("up"), Cbor::Bool(false)));
        }
        if request.verifies_alone {
            options.push((Cbor::text("uv"), Cbor::Bool(true)));
        }
        if !options.is_empty() {
            entries.push((5, Cbor::Map(options)));
        }
        prove(&mut entries, permission, &[request.client_data_hash], 6);
        let answer = self.call(GET_ASSERTION, Some(&Cbor::map(entries)))?;
        read_assertion(&answer).ok_or_else(unusable)
    }

    /// True if one of the keys that the token stores for a request is this user's.
    pub(crate) fn stores(
        &mut self,
        user: &[u8],
        request: &AssertionRequest<'_>,
        permission: Option<&PinToken>,
    ) -> Result<bool, FidoError> {
        let first = match self.assertion(request, permission) {
            Ok(first) => first,
            // A token without such keys says so by this error.
            Err(FidoError::DeviceNotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut is_stored = first.user == user;
        for _ in 1..first.stored {
            let answer = self.call(GET_NEXT_ASSERTION, None)?;
            is_stored |= read_assertion(&answer).ok_or_else(unusable)?.user == user;
        }
        Ok(is_stored)
    }

    /// The keys that the token stores.
    pub(crate) fn stored_keys(
        &mut self,
        permission: &PinToken,
    ) -> Result<Vec<StoredKey>, FidoError> {
        let mut applications = Vec::new();
        let first = match self.manage(2, None, Some(permission)) {
            Ok(answer) => answer,
            // A token without keys says so by this error.
            Err(FidoError::DeviceNotFound) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let parties = total(&first, 5);
        let mut answer = first;
        for number in 1..=parties {
            let name = answer.get(3).and_then(|party| party.named("id"));
            let hash = answer.get(4).and_then(Cbor::as_bytes);
            if let (Some(name), Some(hash)) = (name.and_then(Cbor::as_text), hash) {
                applications.push((name.to_owned(), hash.to_vec()));
            }
            if number < parties {
                answer = self.manage(3, None, None)?;
            }
        }
        let mut keys = Vec::new();
        for (application, hash) in applications {
            if !application.starts_with(crate::APPLICATION_PREFIX) {
                continue;
            }
            let parameters = Cbor::map([(1, Cbor::Bytes(hash))]);
            let mut answer = self.manage(4, Some(parameters), Some(permission))?;
            let count = total(&answer, 9);
            for number in 1..=count {
                if keys.len() < MAX_KEYS {
                    keys.push(read_stored(&application, &answer).ok_or_else(unusable)?);
                }
                if number < count {
                    answer = self.manage(5, None, None)?;
                }
            }
        }
        Ok(keys)
    }

    fn manage(
        &mut self,
        work: i64,
        parameters: Option<Cbor>,
        permission: Option<&PinToken>,
    ) -> Result<Cbor, FidoError> {
        let command = match self.info.has("credMgmt") {
            true => CREDENTIAL_MANAGEMENT,
            false if self.info.has("credentialMgmtPreview") => CREDENTIAL_MANAGEMENT_PREVIEW,
            false => return Err(FidoError::Unsupported),
        };
        let mut proved = vec![u8::try_from(work).unwrap_or_default()];
        let mut entries = vec![(1, Cbor::int(work))];
        if let Some(parameters) = parameters {
            parameters.write(&mut proved);
            entries.push((2, parameters));
        }
        if let Some(permission) = permission {
            entries.push((3, Cbor::int(permission.protocol().number())));
            entries.push((4, Cbor::Bytes(permission.authenticate(&[&proved]))));
        }
        self.call(command, Some(&Cbor::map(entries)))
    }
}

/// A request to make a key, only so that the token waits for a touch: with an empty proof if the token
/// knows proofs.
fn touch_request(has_proofs: bool) -> Cbor {
    let named = |name: &str, value: Cbor| (Cbor::text(name), value);
    let algorithm = Cbor::Map(vec![
        named("alg", Cbor::int(cose_algorithm(KeyType::SkEcdsaP256))),
        named("type", Cbor::text("public-key")),
    ]);
    let user = Cbor::Map(vec![
        named("id", Cbor::bytes(&[0])),
        named("name", Cbor::text("touch")),
    ]);
    let mut entries = vec![
        (1, Cbor::bytes(&[0; 32])),
        (2, Cbor::Map(vec![named("id", Cbor::text("ssh:touch"))])),
        (3, user),
        (4, Cbor::Array(vec![algorithm])),
    ];
    if has_proofs {
        entries.push((8, Cbor::bytes(&[])));
        entries.push((9, Cbor::int(1)));
    }
    Cbor::map(entries)
}

fn total(answer: &Cbor, key: i64) -> usize {
    let total = answer.get(key).and_then(Cbor::as_int).unwrap_or(0);
    usize::try_from(total).unwrap_or(0).min(MAX_KEYS)
}

fn read_assertion(answer: &Cbor) -> Option<Assertion> {
    let user = answer.get(4).and_then(|user| user.named("id"));
    // The hash of the application, flags, counter.
    let data = answer.get(2)?.as_bytes()?.get(32..)?;
    let (flags, rest) = data.split_first()?;
    Some(Assertion {
        flags: *flags,
        counter: u32::from_be_bytes(*rest.first_chunk()?),
        signature: answer.get(3)?.as_bytes()?.to_vec(),
        user: user.and_then(Cbor::as_bytes).unwrap_or_default().to_vec(),
        stored: total(answer, 5),
    })
}

/// Adds the proof of a permission, and after it the protocol's number.
fn prove(entries: &mut Vec<(i64, Cbor)>, permission: Option<&PinToken>, parts: &[&[u8]], key: i64) {
    if let Some(permission) = permission {
        entries.push((key, Cbor::Bytes(permission.authenticate(parts))));
        entries.push((key + 1, Cbor::int(permission.protocol().number())));
    }
}

/// Reads the key in authenticator data (WebAuthn §6.1): the application's hash, flags, counter, model,
/// length and handle, COSE key.
pub(crate) fn read_credential(data: &[u8]) -> Option<StoredKey> {
    const MODEL_BYTES: usize = 16;
    let rest = data.get(32 + 1 + 4 + MODEL_BYTES..)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (handle, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (key, _) = Cbor::read(rest)?;
    Some(StoredKey {
        handle: handle.to_vec(),
        key: read_key(&key),
        ..StoredKey::default()
    })
}

fn read_stored(application: &str, answer: &Cbor) -> Option<StoredKey> {
    let bytes = |key: i64| answer.get(key)?.named("id")?.as_bytes();
    Some(StoredKey {
        application: application.to_owned(),
        user: bytes(6).unwrap_or_default().to_vec(),
        handle: bytes(7)?.to_vec(),
        key: read_key(answer.get(8)?),
        protection: answer.get(10).and_then(Cbor::as_int).unwrap_or(0),
    })
}

/// The type and the public key of a COSE key (RFC 9053 §7); `None` for other types.
fn read_key(key: &Cbor) -> Option<(KeyType, Vec<u8>)> {
    let coordinate = |name: i64| key.get(name)?.as_bytes().filter(|bytes| bytes.len() == 32);
    match key.get(3)?.as_int()? {
        -8 => Some((KeyType::SkEd25519, coordinate(-2)?.to_vec())),
        -7 => {
            let point = [&[4], coordinate(-2)?, coordinate(-3)?].concat();
            Some((KeyType::SkEcdsaP256, point))
        }
        _ => None,
    }
}

/// The SHA-256 hash that a token signs in place of data.
pub(crate) fn client_data_hash(data: &[u8]) -> Vec<u8> {
    HashAlgorithm::Sha256.digest(data).to_vec()
}
