//! The protocol between a helper and the process that started it: each frame is a length of four
//! bytes and a request or reply. The helper has parsed bytes of a peer, so its replies are read like a
//! peer's.

use std::fmt;
use std::io;

use wire::{DecodeError, Put, Reader};
use zeroize::Zeroizing;

use crate::{AcceptorTerms, InitiatorTerms};

/// Longest frame, bytes. A ticket with the groups of a large directory has some tens of thousands.
pub const MAX_FRAME_BYTES: usize = 512 * 1024;
/// Most groups of a user; the kernel permits 65536.
const MAX_GROUPS: usize = 65_536;

/// The ids of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIds {
    /// The user's uid.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl From<sys::process::Credentials> for UserIds {
    fn from(user: sys::process::Credentials) -> Self {
        Self {
            uid: user.uid,
            gid: user.gid,
            groups: user.groups,
        }
    }
}

/// A step of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextStep {
    /// The token for the peer; may be empty.
    pub token: Vec<u8>,
    /// True if the context is established.
    pub is_complete: bool,
}

/// Whom an acceptor's context proves, after a MIC of the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    /// The Kerberos principal as text, as the library has it.
    pub principal: String,
    /// The exported name (RFC 2743 §3.2), for [`crate::authorize`].
    pub name: Vec<u8>,
    /// The delegated credential, for [`crate::store`]; `None` if there is none.
    pub credential: Option<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.principal)
    }
}

/// A credential in MIT's form, for [`crate::store`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ExportedCredential(pub(crate) Zeroizing<Vec<u8>>);

impl fmt::Debug for ExportedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExportedCredential(..)")
    }
}

/// What a user's credential cache has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedCredential {
    /// The exported name of the principal (RFC 2743 §3.2).
    pub name: Vec<u8>,
    /// The end of the ticket-granting ticket, seconds since 1970.
    pub end_s: u64,
    /// The name of the default cache (`FILE:/tmp/krb5cc_0`).
    pub cache: String,
}

/// Why the library does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssFailure {
    /// The reason, for people; it may contain any character, escape it before printing.
    pub reason: String,
    /// A token that tells the peer; may be empty.
    pub token: Vec<u8>,
}

impl GssFailure {
    /// A failure for this reason, without a token for the peer.
    pub fn plain(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            token: Vec::new(),
        }
    }
}

impl fmt::Display for GssFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for GssFailure {}

impl From<io::Error> for GssFailure {
    fn from(error: io::Error) -> Self {
        Self::plain(format!("the GSS-API process: {error}"))
    }
}

/// A request. The first one decides what the helper is. `Password` may follow `CheckPassword` alone; `Token`, `Sign`,
/// `Verify`, `Whom` and `Inquire` follow what begins a context.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum HelperRequest {
    Initiate(InitiatorTerms),
    Accept(AcceptorTerms),
    Authorize {
        ids: Option<UserIds>,
        name: Vec<u8>,
        user: String,
    },
    Store {
        ids: Option<UserIds>,
        credential: Zeroizing<Vec<u8>>,
        path: String,
    },
    Token {
        token: Vec<u8>,
    },
    Sign {
        data: Vec<u8>,
    },
    Verify {
        data: Vec<u8>,
        mic: Vec<u8>,
    },
    /// Names an acceptor's client.
    Whom,
    /// Prepares for a password.
    CheckPassword {
        ids: Option<UserIds>,
    },
    /// Gets the credentials for a password. An empty token then begins a context with this machine's own service.
    Password {
        user: String,
        password: Zeroizing<Vec<u8>>,
    },
    /// Looks at the user's credentials.
    Inquire {
        identity: Option<String>,
    },
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HelperReply {
    Done,
    Step(ContextStep),
    Mic(Vec<u8>),
    Client(Client),
    Authorized(bool),
    Failed(GssFailure),
    Credential(ExportedCredential),
    Cached(CachedCredential),
}

/// A frame with the body that `write` writes.
fn frame(write: impl FnOnce(&mut Zeroizing<Vec<u8>>)) -> Zeroizing<Vec<u8>> {
    let mut body = Zeroizing::new(Vec::new());
    write(&mut body);
    let mut frame = Zeroizing::new(Vec::with_capacity(body.len() + 4));
    frame.put_string(&body);
    frame
}

fn put_ids(out: &mut Vec<u8>, ids: Option<&UserIds>) {
    out.put_bool(ids.is_some());
    if let Some(ids) = ids {
        out.put_u32(ids.uid);
        out.put_u32(ids.gid);
        out.put_u32(u32::try_from(ids.groups.len()).unwrap_or(u32::MAX));
        for gid in &ids.groups {
            out.put_u32(*gid);
        }
    }
}

fn ids(reader: &mut Reader<'_>) -> Result<Option<UserIds>, DecodeError> {
    if !reader.bool()? {
        return Ok(None);
    }
    let (uid, gid) = (reader.u32()?, reader.u32()?);
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > MAX_GROUPS {
        return Err(DecodeError::Malformed("too many groups"));
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(reader.u32()?);
    }
    Ok(Some(UserIds { uid, gid, groups }))
}

fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    Ok(reader.utf8()?.to_owned())
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.put_bool(text.is_some());
    if let Some(text) = text {
        out.put_string(text.as_bytes());
    }
}

fn optional(reader: &mut Reader<'_>) -> Result<Option<String>, DecodeError> {
    match reader.bool()? {
        true => text(reader).map(Some),
        false => Ok(None),
    }
}

fn bytes(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    Ok(reader.string()?.to_vec())
}

impl HelperRequest {
    /// The whole frame.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        frame(|out| match self {
            Self::Initiate(terms) => {
                out.put_u8(0);
                out.put_string(terms.service.as_bytes());
                out.put_bool(terms.delegates);
                put_optional(out, terms.identity.as_deref());
            }
            Self::Accept(terms) => {
                out.put_u8(1);
                put_ids(out, terms.ids.as_ref());
                out.put_bool(terms.is_strict);
                out.put_bool(terms.takes_delegated);
                out.put_bool(terms.is_mutual);
            }
            Self::Authorize { ids, name, user } => {
                out.put_u8(2);
                put_ids(out, ids.as_ref());
                out.put_string(name);
                out.put_string(user.as_bytes());
            }
            Self::Store {
                ids,
                credential,
                path,
            } => {
                out.put_u8(3);
                put_ids(out, ids.as_ref());
                out.put_string(credential);
                out.put_string(path.as_bytes());
            }
            Self::Token { token } => {
                out.put_u8(4);
                out.put_string(token);
            }
            Self::Sign { data } => {
                out.put_u8(5);
                out.put_string(data);
            }
            Self::Verify { data, mic } => {
                out.put_u8(6);
                out.put_string(data);
                out.put_string(mic);
            }
            Self::Whom => out.put_u8(7),
            Self::CheckPassword { ids } => {
                out.put_u8(8);
                put_ids(out, ids.as_ref());
            }
            Self::Password { user, password } => {
                out.put_u8(9);
                // A buffer that grows would leave a copy of the password in freed memory.
                out.reserve(user.len() + password.len() + 8);
                out.put_string(user.as_bytes());
                out.put_string(password);
            }
            Self::Inquire { identity } => {
                out.put_u8(10);
                put_optional(out, identity.as_deref());
            }
        })
    }

    /// Decodes a frame's body.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let request = match reader.u8()? {
            0 => Self::Initiate(InitiatorTerms {
                service: text(reader)?,
                delegates: reader.bool()?,
                identity: optional(reader)?,
            }),
            1 => Self::Accept(AcceptorTerms {
                ids: ids(reader)?,
                is_strict: reader.bool()?,
                takes_delegated: reader.bool()?,
                is_mutual: reader.bool()?,
            }),
            2 => Self::Authorize {
                ids: ids(reader)?,
                name: bytes(reader)?,
                user: text(reader)?,
            },
            3 => Self::Store {
                ids: ids(reader)?,
                credential: Zeroizing::new(bytes(reader)?),
                path: text(reader)?,
            },
            4 => Self::Token {
                token: bytes(reader)?,
            },
            5 => Self::Sign {
                data: bytes(reader)?,
            },
            6 => Self::Verify {
                data: bytes(reader)?,
                mic: bytes(reader)?,
            },
            7 => Self::Whom,
            8 => Self::CheckPassword { ids: ids(reader)? },
            9 => Self::Password {
                user: text(reader)?,
                password: Zeroizing::new(bytes(reader)?),
            },
            10 => Self::Inquire {
                identity: optional(reader)?,
            },
            _ => return Err(DecodeError::Malformed("unknown request")),
        };
        std::mem::replace(reader, Reader::new(&[])).finish()?;
        Ok(request)
    }
}

impl HelperReply {
    /// The whole frame.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        frame(|out| match self {
            Self::Done => out.put_u8(0),
            Self::Step(step) => {
                out.put_u8(1);
                out.put_string(&step.token);
                out.put_bool(step.is_complete);
            }
            Self::Mic(mic) => {
                out.put_u8(2);
                out.put_string(mic);
            }
            Self::Client(client) => {
                out.put_u8(3);
                out.put_string(client.principal.as_bytes());
                out.put_string(&client.name);
                out.put_bool(client.credential.is_some());
                if let Some(credential) = &client.credential {
                    out.put_string(credential);
                }
            }
            Self::Authorized(verdict) => {
                out.put_u8(4);
                out.put_bool(*verdict);
            }
            Self::Failed(failure) => {
                out.put_u8(5);
                out.put_string(failure.reason.as_bytes());
                out.put_string(&failure.token);
            }
            Self::Credential(credential) => {
                out.put_u8(6);
                out.put_string(&credential.0);
            }
            Self::Cached(cached) => {
                out.put_u8(7);
                out.put_string(&cached.name);
                out.put_u64(cached.end_s);
                out.put_string(cached.cache.as_bytes());
            }
        })
    }

    /// Decodes a frame's body.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let reply = match reader.u8()? {
            0 => Self::Done,
            1 => Self::Step(ContextStep {
                token: bytes(reader)?,
                is_complete: reader.bool()?,
            }),
            2 => Self::Mic(bytes(reader)?),
            3 => Self::Client(Client {
                principal: text(reader)?,
                name: bytes(reader)?,
                credential: match reader.bool()? {
                    true => Some(Zeroizing::new(bytes(reader)?)),
                    false => None,
                },
            }),
            4 => Self::Authorized(reader.bool()?),
            5 => Self::Failed(GssFailure {
                reason: text(reader)?,
                token: bytes(reader)?,
            }),
            6 => Self::Credential(ExportedCredential(Zeroizing::new(bytes(reader)?))),
            7 => Self::Cached(CachedCredential {
                name: bytes(reader)?,
                end_s: reader.u64()?,
                cache: text(reader)?,
            }),
            _ => return Err(DecodeError::Malformed("unknown reply")),
        };
        std::mem::replace(reader, Reader::new(&[])).finish()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(frame: &[u8]) -> &[u8] {
        let (length, body) = frame.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, body.len());
        body
    }

    fn requests() -> Vec<HelperRequest> {
        let ids = Some(UserIds {
            uid: 7,
            gid: 8,
            groups: vec![8, 9],
        });
        vec![
            HelperRequest::Initiate(InitiatorTerms {
                service: "host@h".into(),
                delegates: true,
                identity: Some("a@B".into()),
            }),
            HelperRequest::Whom,
            HelperRequest::Accept(AcceptorTerms {
                ids: ids.clone(),
                is_strict: true,
                takes_delegated: false,
                is_mutual: true,
            }),
            HelperRequest::Authorize {
                ids: ids.clone(),
                name: vec![4, 1],
                user: "u".into(),
            },
            HelperRequest::CheckPassword { ids: ids.clone() },
            HelperRequest::Password {
                user: "u".into(),
                password: Zeroizing::new(vec![7; 6]),
            },
            HelperRequest::Inquire {
                identity: Some("a@B".into()),
            },
            HelperRequest::Store {
                ids,
                credential: Zeroizing::new(vec![1; 9]),
                path: "/tmp/x".into(),
            },
            HelperRequest::Token { token: vec![3; 5] },
            HelperRequest::Sign { data: vec![1] },
            HelperRequest::Verify {
                data: vec![1],
                mic: vec![2],
            },
        ]
    }

    fn replies() -> Vec<HelperReply> {
        vec![
            HelperReply::Done,
            HelperReply::Step(ContextStep {
                token: vec![1],
                is_complete: true,
            }),
            HelperReply::Mic(vec![9]),
            HelperReply::Client(Client {
                principal: "a@B".into(),
                name: vec![4],
                credential: Some(Zeroizing::new(vec![5])),
            }),
            HelperReply::Authorized(true),
            HelperReply::Failed(GssFailure {
                reason: "no".into(),
                token: vec![6],
            }),
            HelperReply::Credential(ExportedCredential(Zeroizing::new(vec![8; 3]))),
            HelperReply::Cached(CachedCredential {
                name: vec![4],
                end_s: 1 << 33,
                cache: "FILE:/x".into(),
            }),
        ]
    }

    #[test]
    fn each_message_is_read_as_it_was_written_and_no_part_of_it() {
        for request in requests() {
            let frame = request.encode();
            assert!(HelperRequest::decode(body(&frame)).unwrap() == request);
            for end in 0..body(&frame).len() {
                assert!(HelperRequest::decode(&body(&frame)[..end]).is_err());
            }
        }
        for reply in replies() {
            let frame = reply.encode();
            assert_eq!(HelperReply::decode(body(&frame)).unwrap(), reply);
            for end in 0..body(&frame).len() {
                assert!(HelperReply::decode(&body(&frame)[..end]).is_err());
            }
            let longer = [body(&frame), &[0]].concat();
            assert!(HelperReply::decode(&longer).is_err());
        }
    }

    #[test]
    fn a_credential_is_not_printed() {
        let client = Client {
            principal: "a@B".into(),
            name: Vec::new(),
            credential: Some(Zeroizing::new(b"secret".to_vec())),
        };
        assert_eq!(format!("{client:?}"), "Client(a@B)");
        let exported = ExportedCredential(Zeroizing::new(b"secret".to_vec()));
        let reply = format!("{:?}", HelperReply::Credential(exported));
        assert!(!reply.contains("115"), "{reply}");
        assert!(reply.contains("(..)"), "{reply}");
    }
}
