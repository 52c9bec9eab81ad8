//! The messages between the helper and its owner: frames of `u32` length ‖ `u32` number of the
//! request ‖ `u8` kind ‖ fields. A request has one reply with its number; replies come in any order.

use keys::{PublicKey, SignatureAlgorithm};
use wire::{DecodeError, Put, Reader};
use zeroize::Zeroizing;

/// Longest frame in either direction, bytes without the length.
pub const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// Most tokens and keys of a library.
const MAX_ITEMS: u32 = 4096;

/// A personal identification number, wiped when dropped.
pub type Pin = Zeroizing<Vec<u8>>;

/// The use of the PIN in a request to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinUse {
    /// The login of the user, which holds until the helper ends or the token is removed.
    Login,
    /// This one signature (CKA_ALWAYS_AUTHENTICATE).
    OneSignature,
}

/// A request to the helper.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenRequest {
    /// Lists tokens and keys. A PIN is tried once at each token that needs one, but not at a token
    /// whose last attempt it is, if there are several.
    Open {
        /// The PIN of the user.
        pin: Option<Pin>,
    },
    /// Logs in to a token, by its place in the list; without a PIN at the token itself.
    Login {
        /// Place of the token.
        token: u32,
        /// The PIN of the user.
        pin: Option<Pin>,
    },
    /// Signs with a key, by its place in the list.
    Sign {
        /// Place of the key.
        key: u32,
        /// A plain algorithm of the key's type.
        algorithm: SignatureAlgorithm,
        /// The message, without a hash.
        data: Vec<u8>,
        /// The answer to [`TokenReply::NeedsPin`].
        pin: Option<(PinUse, Pin)>,
    },
}

/// How close a token is to locking its PIN, as far as the token reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinState {
    /// The token reports no wrong PIN.
    #[default]
    Fine,
    /// A wrong PIN was entered since the last right one.
    Low,
    /// The next wrong PIN locks the token.
    FinalTry,
    /// The token takes no PIN any more.
    Locked,
}

/// A token of the library.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenEntry {
    /// Its label; foreign text.
    pub label: String,
    /// True if a login is needed and has not been made.
    pub needs_pin: bool,
    /// True if the PIN is entered at the token.
    pub has_keypad: bool,
    /// The attempts that are left, as far as the token reports them.
    pub pin_state: PinState,
}

/// A key of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKey {
    /// The public key.
    pub public: PublicKey,
    /// Label of the key or of its X.509 certificate; foreign text, may be empty.
    pub label: String,
    /// Place of its token in the list.
    pub token: u32,
}

/// The helper's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenList {
    /// The tokens that are there.
    pub tokens: Vec<TokenEntry>,
    /// Their keys, each once.
    pub keys: Vec<TokenKey>,
}

/// A reply of the helper.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenReply {
    /// The list of tokens and keys.
    Opened(TokenList),
    /// The login was made.
    LoggedIn,
    /// A signature blob.
    Signature(Vec<u8>),
    /// Nothing was done: this token needs a PIN for this use.
    NeedsPin {
        /// Place of the token.
        token: u32,
        /// What the PIN is for.
        pin_use: PinUse,
    },
    /// It failed.
    Failed {
        /// Why, in words; contains foreign text.
        reason: String,
        /// True if the token did not accept the PIN.
        is_pin_wrong: bool,
    },
}

const OPEN: u8 = 1;
const LOGIN: u8 = 2;
const SIGN: u8 = 3;

const OPENED: u8 = 1;
const LOGGED_IN: u8 = 2;
const SIGNATURE: u8 = 3;
const NEEDS_PIN: u8 = 4;
const FAILED: u8 = 5;

const NO_PIN: u8 = 0;
const PIN_FOR_LOGIN: u8 = 1;
const PIN_FOR_ONE: u8 = 2;

const BAD: DecodeError = DecodeError::Malformed("a value of the token helper is unknown");

fn frame(number: u32, kind: u8, fields: &[u8]) -> Zeroizing<Vec<u8>> {
    let length = u32::try_from(fields.len() + 5).unwrap_or(u32::MAX);
    let mut out = Zeroizing::new(Vec::with_capacity(fields.len() + 9));
    out.put_u32(length);
    out.put_u32(number);
    out.put_u8(kind);
    out.extend_from_slice(fields);
    out
}

fn put_pin(out: &mut Vec<u8>, pin: Option<(PinUse, &Pin)>) {
    let (kind, pin) = match pin {
        None => (NO_PIN, &[][..]),
        Some((PinUse::Login, pin)) => (PIN_FOR_LOGIN, &***pin),
        Some((PinUse::OneSignature, pin)) => (PIN_FOR_ONE, &***pin),
    };
    out.put_u8(kind);
    out.put_string(pin);
}

fn read_pin(reader: &mut Reader<'_>) -> Result<Option<(PinUse, Pin)>, DecodeError> {
    let kind = reader.u8()?;
    let pin = Zeroizing::new(reader.string()?.to_vec());
    match kind {
        NO_PIN => Ok(None),
        PIN_FOR_LOGIN => Ok(Some((PinUse::Login, pin))),
        PIN_FOR_ONE => Ok(Some((PinUse::OneSignature, pin))),
        _ => Err(BAD),
    }
}

impl TokenRequest {
    /// Encodes the request as a frame.
    #[must_use]
    pub fn encode(&self, number: u32) -> Zeroizing<Vec<u8>> {
        // The capacity suffices, so that no reallocation leaves a PIN in freed memory.
        let room = match self {
            Self::Sign { data, .. } => data.len(),
            _ => 0,
        };
        let mut fields = Zeroizing::new(Vec::with_capacity(room + 4096));
        let kind = match self {
            Self::Open { pin } => {
                put_pin(&mut fields, pin.as_ref().map(|pin| (PinUse::Login, pin)));
                OPEN
            }
            Self::Login { token, pin } => {
                fields.put_u32(*token);
                put_pin(&mut fields, pin.as_ref().map(|pin| (PinUse::Login, pin)));
                LOGIN
            }
            Self::Sign {
                key,
                algorithm,
                data,
                pin,
            } => {
                fields.put_u32(*key);
                fields.put_string(algorithm.name().as_bytes());
                fields.put_string(data);
                put_pin(&mut fields, pin.as_ref().map(|(kind, pin)| (*kind, pin)));
                SIGN
            }
        };
        frame(number, kind, &fields)
    }

    /// Decodes a frame's body: the number and the request.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(body: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(body);
        let number = reader.u32()?;
        let request = match reader.u8()? {
            OPEN => Self::Open {
                pin: read_pin(&mut reader)?.map(|(_, pin)| pin),
            },
            LOGIN => Self::Login {
                token: reader.u32()?,
                pin: read_pin(&mut reader)?.map(|(_, pin)| pin),
            },
            SIGN => Self::Sign {
                key: reader.u32()?,
                algorithm: SignatureAlgorithm::from_name(reader.utf8()?).ok_or(BAD)?,
                data: reader.string()?.to_vec(),
                pin: read_pin(&mut reader)?,
            },
            _ => return Err(BAD),
        };
        reader.finish()?;
        Ok((number, request))
    }
}

impl TokenEntry {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.label.as_bytes());
        out.put_bool(self.needs_pin);
        out.put_bool(self.has_keypad);
        out.put_u8(match self.pin_state {
            PinState::Fine => 0,
            PinState::Low => 1,
            PinState::FinalTry => 2,
            PinState::Locked => 3,
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            label: reader.utf8()?.to_owned(),
            needs_pin: reader.bool()?,
            has_keypad: reader.bool()?,
            pin_state: match reader.u8()? {
                0 => PinState::Fine,
                1 => PinState::Low,
                2 => PinState::FinalTry,
                3 => PinState::Locked,
                _ => return Err(BAD),
            },
        })
    }
}

impl TokenKey {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            public: PublicKey::from_blob(reader.string()?).map_err(|_| BAD)?,
            label: reader.utf8()?.to_owned(),
            token: reader.u32()?,
        })
    }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.u32()?;
    if count > MAX_ITEMS {
        return Err(BAD);
    }
    // The count reserves no memory: a false one fails when the bytes run out.
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

impl TokenReply {
    /// Encodes the reply as a frame.
    #[must_use]
    pub fn encode(&self, number: u32) -> Zeroizing<Vec<u8>> {
        let mut fields = Vec::new();
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let kind = match self {
            Self::Opened(list) => {
                fields.put_u32(count(list.tokens.len()));
                for token in &list.tokens {
                    token.write(&mut fields);
                }
                fields.put_u32(count(list.keys.len()));
                for key in &list.keys {
                    fields.put_string(&key.public.blob());
                    fields.put_string(key.label.as_bytes());
                    fields.put_u32(key.token);
                }
                OPENED
            }
            Self::LoggedIn => LOGGED_IN,
            Self::Signature(blob) => {
                fields.put_string(blob);
                SIGNATURE
            }
            Self::NeedsPin { token, pin_use } => {
                fields.put_u32(*token);
                fields.put_bool(*pin_use == PinUse::OneSignature);
                NEEDS_PIN
            }
            Self::Failed {
                reason,
                is_pin_wrong,
            } => {
                fields.put_string(reason.as_bytes());
                fields.put_bool(*is_pin_wrong);
                FAILED
            }
        };
        frame(number, kind, &fields)
    }

    /// Decodes a frame's body: the number and the reply.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(body: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(body);
        let number = reader.u32()?;
        let reply = match reader.u8()? {
            OPENED => Self::Opened(TokenList {
                tokens: read_list(&mut reader, TokenEntry::read)?,
                keys: read_list(&mut reader, TokenKey::read)?,
            }),
            LOGGED_IN => Self::LoggedIn,
            SIGNATURE => Self::Signature(reader.string()?.to_vec()),
            NEEDS_PIN => Self::NeedsPin {
                token: reader.u32()?,
                pin_use: match reader.bool()? {
                    true => PinUse::OneSignature,
                    false => PinUse::Login,
                },
            },
            FAILED => Self::Failed {
                reason: reader.utf8()?.to_owned(),
                is_pin_wrong: reader.bool()?,
            },
            _ => return Err(BAD),
        };
        reader.finish()?;
        Ok((number, reply))
    }
}

/// The length of the frame at the start of `bytes` without its length field, if all of it is there.
///
/// # Errors
/// If the length is not permitted.
pub fn whole_frame(bytes: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES {
        return Err(DecodeError::TooLong {
            limit_bytes: MAX_FRAME_BYTES,
        });
    }
    Ok(rest.get(..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(frame: &[u8]) -> &[u8] {
        let body = whole_frame(frame).unwrap().unwrap();
        assert_eq!(body.len() + 4, frame.len());
        body
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let pin = || Zeroizing::new(b"1234".to_vec());
        for request in [
            TokenRequest::Open { pin: None },
            TokenRequest::Open { pin: Some(pin()) },
            TokenRequest::Login {
                token: 1,
                pin: Some(pin()),
            },
            TokenRequest::Sign {
                key: 7,
                algorithm: SignatureAlgorithm::RsaSha512,
                data: vec![1; 300],
                pin: Some((PinUse::OneSignature, pin())),
            },
        ] {
            let frame = request.encode(9);
            assert_eq!(TokenRequest::decode(body(&frame)), Ok((9, request)));
        }
        let list = TokenList {
            tokens: vec![TokenEntry {
                label: "card".into(),
                needs_pin: true,
                has_keypad: false,
                pin_state: PinState::FinalTry,
            }],
            keys: vec![TokenKey {
                public: PublicKey::Ed25519 { point: [3; 32] },
                label: "key".into(),
                token: 0,
            }],
        };
        for reply in [
            TokenReply::Opened(list),
            TokenReply::LoggedIn,
            TokenReply::Signature(vec![1, 2]),
            TokenReply::NeedsPin {
                token: 1,
                pin_use: PinUse::Login,
            },
            TokenReply::Failed {
                reason: "no".into(),
                is_pin_wrong: true,
            },
        ] {
            let frame = reply.encode(3);
            for cut in 5..frame.len() - 4 {
                assert!(TokenReply::decode(&body(&frame)[..cut - 1]).is_err());
            }
            assert_eq!(TokenReply::decode(body(&frame)), Ok((3, reply)));
        }
        assert!(whole_frame(&u32::MAX.to_be_bytes()).is_err());
        assert_eq!(whole_frame(&[0, 0, 0, 2, 1]), Ok(None));
    }
}
