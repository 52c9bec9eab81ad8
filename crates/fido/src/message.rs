//! The messages between a program and the process that reaches security keys: one request and one
//! reply, each with its length before it. The format is private to this crate.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use keys::{KeyType, PrivateKey, PublicKey};
use wire::{Put, Reader};
use zeroize::Zeroizing;

use crate::FidoError;

/// Longest request or reply, in bytes: data to sign are as long as a message to an agent.
pub(crate) const MAX_MESSAGE_BYTES: usize = 512 * 1024;
/// Most resident keys that are read from a token.
const MAX_RESIDENT_KEYS: usize = 1024;

/// The parameters of a new key; strings have no NUL bytes.
#[derive(Debug, Clone, Copy)]
pub struct Enrollment<'a> {
    /// [`KeyType::SkEd25519`] or [`KeyType::SkEcdsaP256`].
    pub key_type: KeyType,
    /// The FIDO application, for SSH one with the prefix `ssh:`.
    pub application: &'a str,
    /// The user's name in a resident key.
    pub user: Option<&'a str>,
    /// The device to use; `None` for any.
    pub device: Option<&'a str>,
    /// The challenge that the attestation signs, at least one byte.
    pub challenge: &'a [u8],
    /// [`crate::USER_PRESENCE`] and others.
    pub flags: u8,
    /// The token's PIN, if it has been asked for.
    pub pin: Option<&'a [u8]>,
}

/// The proof of a token's maker that a key was made in a token of theirs; parts may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attestation {
    /// X.509 certificate, DER.
    pub certificate: Vec<u8>,
    /// Signature over the authenticator data and the hash of the challenge.
    pub signature: Vec<u8>,
    /// Authenticator data as CBOR.
    pub authenticator_data: Vec<u8>,
}

/// A key that was made.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The key with its handle.
    pub key: PrivateKey,
    /// The attestation.
    pub attestation: Attestation,
}

/// A key that a token stores.
#[derive(Debug, Clone)]
pub struct ResidentKey {
    /// The key with its handle.
    pub key: PrivateKey,
    /// The user's identifier, 32 bytes with zeros at its end when OpenSSH made it.
    pub user: Vec<u8>,
}

/// A request as the process reads it.
#[derive(Debug)]
pub(crate) struct HelperRequest<'a> {
    pub(crate) provider: &'a str,
    pub(crate) pin: Option<&'a [u8]>,
    pub(crate) device: Option<&'a str>,
    pub(crate) work: HelperWork<'a>,
}

#[derive(Debug)]
pub(crate) enum HelperWork<'a> {
    Sign {
        key_type: KeyType,
        application: &'a str,
        handle: &'a [u8],
        flags: u8,
        data: &'a [u8],
    },
    Enroll {
        key_type: KeyType,
        application: &'a str,
        user: Option<&'a str>,
        challenge: &'a [u8],
        flags: u8,
    },
    ListResident,
}

/// A signature as a token gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenSignature {
    pub(crate) flags: u8,
    pub(crate) counter: u32,
    /// The number r of ECDSA, or an Ed25519 signature of 64 bytes.
    pub(crate) r: Vec<u8>,
    /// The number s of ECDSA; empty for Ed25519.
    pub(crate) s: Vec<u8>,
}

/// A key as a token gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenKey {
    pub(crate) key_type: KeyType,
    pub(crate) application: String,
    pub(crate) flags: u8,
    /// An uncompressed point of P-256, or an Ed25519 point.
    pub(crate) public_key: Vec<u8>,
    pub(crate) handle: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) attestation: Attestation,
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HelperReply {
    Signed(TokenSignature),
    Keys(Vec<TokenKey>),
    Failed(FidoError),
}

const SIGN: u8 = 1;
const ENROLL: u8 = 2;
const LIST_RESIDENT: u8 = 3;

const SIGNED: u8 = 1;
const KEYS: u8 = 2;
const FAILED: u8 = 3;

/// The algorithm's number in sk-api.h.
pub(crate) fn algorithm_number(key_type: KeyType) -> u32 {
    u32::from(key_type == KeyType::SkEd25519)
}

/// The type of key with this number in sk-api.h.
pub(crate) fn type_of_number(number: u32) -> Option<KeyType> {
    match number {
        0 => Some(KeyType::SkEcdsaP256),
        1 => Some(KeyType::SkEd25519),
        _ => None,
    }
}

fn put_optional(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.put_bool(value.is_some());
    out.put_string(value.unwrap_or_default());
}

fn read_optional<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, FidoError> {
    let is_there = reader.bool()?;
    let value = reader.string()?;
    Ok(is_there.then_some(value))
}

fn text(bytes: &[u8]) -> Result<&str, FidoError> {
    core::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| FidoError::failed("a name is not text"))
}

fn read_type(reader: &mut Reader<'_>) -> Result<KeyType, FidoError> {
    type_of_number(reader.u32()?).ok_or(FidoError::Unsupported)
}

impl<'a> HelperRequest<'a> {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let data_bytes = match &self.work {
            HelperWork::Sign { data, .. } => data.len(),
            _ => 0,
        };
        // Full capacity at once: reallocation would leave copies of the PIN in freed memory.
        let mut out = Zeroizing::new(Vec::with_capacity(data_bytes + 16 * 1024));
        out.put_string(self.provider.as_bytes());
        put_optional(&mut out, self.pin);
        put_optional(&mut out, self.device.map(str::as_bytes));
        match &self.work {
            HelperWork::Sign {
                key_type,
                application,
                handle,
                flags,
                data,
            } => {
                out.put_u8(SIGN);
                out.put_u32(algorithm_number(*key_type));
                out.put_string(application.as_bytes());
                out.put_string(handle);
                out.put_u8(*flags);
                out.put_string(data);
            }
            HelperWork::Enroll {
                key_type,
                application,
                user,
                challenge,
                flags,
            } => {
                out.put_u8(ENROLL);
                out.put_u32(algorithm_number(*key_type));
                out.put_string(application.as_bytes());
                put_optional(&mut out, user.map(str::as_bytes));
                out.put_string(challenge);
                out.put_u8(*flags);
            }
            HelperWork::ListResident => out.put_u8(LIST_RESIDENT),
        }
        out
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, FidoError> {
        let mut reader = Reader::new(bytes);
        let provider = text(reader.string()?)?;
        let pin = read_optional(&mut reader)?;
        let device = read_optional(&mut reader)?.map(text).transpose()?;
        let work = match reader.u8()? {
            SIGN => HelperWork::Sign {
                key_type: read_type(&mut reader)?,
                application: text(reader.string()?)?,
                handle: reader.string()?,
                flags: reader.u8()?,
                data: reader.string()?,
            },
            ENROLL => HelperWork::Enroll {
                key_type: read_type(&mut reader)?,
                application: text(reader.string()?)?,
                user: read_optional(&mut reader)?.map(text).transpose()?,
                challenge: reader.string()?,
                flags: reader.u8()?,
            },
            LIST_RESIDENT => HelperWork::ListResident,
            _ => return Err(FidoError::Unsupported),
        };
        reader.finish()?;
        Ok(Self {
            provider,
            pin,
            device,
            work,
        })
    }
}

impl HelperReply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Signed(signature) => {
                out.put_u8(SIGNED);
                out.put_u8(signature.flags);
                out.put_u32(signature.counter);
                out.put_string(&signature.r);
                out.put_string(&signature.s);
            }
            Self::Keys(keys) => {
                out.put_u8(KEYS);
                for key in keys {
                    key.write(&mut out);
                }
            }
            Self::Failed(error) => {
                out.put_u8(FAILED);
                out.put_u32(error.code().unsigned_abs());
                let reason = match error {
                    FidoError::Failed(reason) => reason.as_str(),
                    _ => "",
                };
                out.put_string(reason.as_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FidoError> {
        let mut reader = Reader::new(bytes);
        let reply = match reader.u8()? {
            SIGNED => Self::Signed(TokenSignature {
                flags: reader.u8()?,
                counter: reader.u32()?,
                r: reader.string()?.to_vec(),
                s: reader.string()?.to_vec(),
            }),
            KEYS => {
                let mut keys = Vec::new();
                while !reader.is_empty() && keys.len() < MAX_RESIDENT_KEYS {
                    keys.push(TokenKey::read(&mut reader)?);
                }
                Self::Keys(keys)
            }
            FAILED => {
                let code = i32::try_from(reader.u32()?).map_or(-1, |code| -code);
                let reason = reader.string()?;
                Self::Failed(match FidoError::from_code(code) {
                    FidoError::Failed(_) => {
                        FidoError::Failed(escape::escape_at_most(reason, escape::Style::Line, 500))
                    }
                    other => other,
                })
            }
            _ => return Err(FidoError::failed("bad answer")),
        };
        reader.finish()?;
        Ok(reply)
    }
}

impl TokenKey {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(algorithm_number(self.key_type));
        out.put_string(self.application.as_bytes());
        out.put_u8(self.flags);
        out.put_string(&self.public_key);
        out.put_string(&self.handle);
        out.put_string(&self.user);
        out.put_string(&self.attestation.certificate);
        out.put_string(&self.attestation.signature);
        out.put_string(&self.attestation.authenticator_data);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, FidoError> {
        Ok(Self {
            key_type: read_type(reader)?,
            application: text(reader.string()?)?.to_owned(),
            flags: reader.u8()?,
            public_key: reader.string()?.to_vec(),
            handle: reader.string()?.to_vec(),
            user: reader.string()?.to_vec(),
            attestation: Attestation {
                certificate: reader.string()?.to_vec(),
                signature: reader.string()?.to_vec(),
                authenticator_data: reader.string()?.to_vec(),
            },
        })
    }

    /// The key in the form of a file.
    pub(crate) fn private_key(&self) -> Result<PrivateKey, FidoError> {
        let mut blob = Vec::new();
        blob.put_string(self.key_type.name().as_bytes());
        if self.key_type == KeyType::SkEcdsaP256 {
            blob.put_string(b"nistp256");
        }
        blob.put_string(&self.public_key);
        blob.put_string(self.application.as_bytes());
        let public = PublicKey::from_blob(&blob)?;
        let flags = self.flags & !crate::FORCE;
        Ok(PrivateKey::of_security_key(public, flags, &self.handle)?)
    }
}

/// Writes a message with its length.
pub(crate) fn send(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let length = u32::try_from(message.len()).map_err(too_long)?;
    sys::io::write_all(&socket, &length.to_be_bytes())?;
    sys::io::write_all(&socket, message)
}

/// Reads a message; `UnexpectedEof` if the other side has gone.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Zeroizing<Vec<u8>>> {
    receive_until(socket, None)
}

/// As [`receive`], with an end of the wait for the whole message.
///
/// # Errors
/// The kernel's error; `TimedOut` at `deadline`.
pub(crate) fn receive_until(
    socket: impl AsFd,
    deadline: Option<Instant>,
) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = [0; 4];
    read_exact(&socket, &mut length, deadline)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = Zeroizing::new(vec![0; length]);
    read_exact(&socket, &mut message, deadline)?;
    Ok(message)
}

fn read_exact(socket: impl AsFd, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<()> {
    let mut done = 0;
    while let Some(room) = buffer.get_mut(done..).filter(|room| !room.is_empty()) {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if !sys::io::wait_readable(&socket, Some(left))? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        match sys::io::read(&socket, room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let request = HelperRequest {
            provider: "/lib/x.so",
            pin: Some(b"1234"),
            device: None,
            work: HelperWork::Sign {
                key_type: KeyType::SkEd25519,
                application: "ssh:",
                handle: b"handle",
                flags: 5,
                data: b"data",
            },
        };
        let bytes = request.encode();
        let read = HelperRequest::decode(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{request:?}"));
        assert!(HelperRequest::decode(bytes.get(..bytes.len() - 1).unwrap()).is_err());
        let key = TokenKey {
            key_type: KeyType::SkEcdsaP256,
            application: "ssh:x".to_owned(),
            flags: 1,
            public_key: vec![4; 65],
            handle: vec![1, 2],
            user: vec![0; 32],
            attestation: Attestation::default(),
        };
        for reply in [
            HelperReply::Keys(vec![key.clone(), key]),
            HelperReply::Keys(Vec::new()),
            HelperReply::Failed(FidoError::PinRequired),
            HelperReply::Failed(FidoError::Failed("why".to_owned())),
            HelperReply::Signed(TokenSignature {
                flags: 1,
                counter: 7,
                r: vec![1; 64],
                s: Vec::new(),
            }),
        ] {
            let bytes = reply.encode();
            assert_eq!(HelperReply::decode(&bytes).unwrap(), reply);
        }
    }
}
