//! Global requests, RFC 4254 §4, and those of OpenSSH: keepalive, hostkeys-00 with its proof, and
//! no-more-sessions. Those of forwardings are the owner's.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use wire::message::{Encode, GlobalRequest, RequestFailure, RequestSuccess};
use wire::{Put, Reader, Rest, names};

use crate::permits::NO_ARM;
use crate::transport::{PipelinedPacket, Transport};
use crate::{Error, Event, Role};

/// Maximum host keys in one announcement or proof request.
const MAX_HOST_KEYS: usize = 64;
const TOO_MANY_HOST_KEYS: Error = Error::PeerMisbehaved("too many host keys");
/// Maximum unanswered keepalive and proof requests of ours.
const MAX_OPEN_REQUESTS: usize = 64;
/// Maximum unanswered requests of the owner.
const MAX_OWNERS_REQUESTS: usize = 4096;
/// Longest fields of a request that the owner gets, bytes: a path of 4,096 bytes, or an address and
/// port.
const MAX_FIELDS_BYTES: usize = 4608;
/// Requests of a client that the server's owner answers.
const FORWARD_REQUESTS: [&str; 6] = [
    names::GLOBAL_TCPIP_FORWARD,
    names::GLOBAL_CANCEL_TCPIP_FORWARD,
    names::GLOBAL_STREAMLOCAL_FORWARD,
    names::GLOBAL_CANCEL_STREAMLOCAL_FORWARD,
    names::GLOBAL_UDP_FORWARD,
    names::GLOBAL_CANCEL_UDP_FORWARD,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnansweredRequest {
    Keepalive,
    Prove,
    Owners,
}

/// State of both sides' global requests.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    open: VecDeque<UnansweredRequest>,
    owes_proof: bool,
    owes_reply: bool,
    announced: bool,
}

impl Globals {
    fn request(
        &mut self,
        transport: &mut Transport,
        name: &str,
        fields: &[u8],
        open: Option<UnansweredRequest>,
    ) -> Result<(), Error> {
        if let Some(open) = open {
            let is_owners = open == UnansweredRequest::Owners;
            let alike =
                |other: &&UnansweredRequest| (**other == UnansweredRequest::Owners) == is_owners;
            match self.open.iter().filter(alike).count() {
                MAX_OWNERS_REQUESTS.. if is_owners => {
                    return Err(Error::Misuse("too many requests without an answer"));
                }
                MAX_OPEN_REQUESTS.. if !is_owners => {
                    return Err(Error::TimedOut("answers to requests"));
                }
                _ => self.open.push_back(open),
            }
        }
        let message = GlobalRequest {
            name: name.as_bytes(),
            want_reply: open.is_some(),
            fields: Rest(fields),
        };
        transport.send_message(&message)
    }

    /// Sends a keepalive request; any answer proves that the peer is alive.
    pub(crate) fn send_keepalive(&mut self, transport: &mut Transport) -> Result<(), Error> {
        self.request(
            transport,
            names::GLOBAL_KEEPALIVE,
            b"",
            Some(UnansweredRequest::Keepalive),
        )
    }

    pub(crate) fn send_no_more_sessions(&mut self, transport: &mut Transport) -> Result<(), Error> {
        let message = GlobalRequest {
            name: names::GLOBAL_NO_MORE_SESSIONS.as_bytes(),
            want_reply: false,
            fields: Rest(b""),
        };
        transport.send_message_ahead(&message, Some(PipelinedPacket::Other))
    }

    pub(crate) fn announce_host_keys(
        &mut self,
        transport: &mut Transport,
        keys: &[Vec<u8>],
    ) -> Result<(), Error> {
        self.request(transport, names::GLOBAL_HOSTKEYS, &strings(keys), None)
    }

    pub(crate) fn prove_host_keys(
        &mut self,
        transport: &mut Transport,
        keys: &[Vec<u8>],
    ) -> Result<(), Error> {
        self.request(
            transport,
            names::GLOBAL_HOSTKEYS_PROVE,
            &strings(keys),
            Some(UnansweredRequest::Prove),
        )
    }

    /// Sends a request of the owner, who gets the answer.
    pub(crate) fn send_owners(
        &mut self,
        transport: &mut Transport,
        name: &str,
        fields: &[u8],
    ) -> Result<(), Error> {
        self.request(transport, name, fields, Some(UnansweredRequest::Owners))
    }

    /// Sends the owner's answer to a request of [`FORWARD_REQUESTS`].
    pub(crate) fn reply(
        &mut self,
        transport: &mut Transport,
        fields: Option<&[u8]>,
    ) -> Result<(), Error> {
        if !core::mem::take(&mut self.owes_reply) {
            return Err(Error::Misuse("no reply is owed"));
        }
        match fields {
            None => transport.send_message(&RequestFailure {}),
            Some(fields) => transport.send_message(&RequestSuccess {
                fields: Rest(fields),
            }),
        }
    }

    /// Sends the owner's signatures, one for each requested key; `None` refuses.
    pub(crate) fn provide_proofs(
        &mut self,
        transport: &mut Transport,
        signatures: Option<&[Vec<u8>]>,
    ) -> Result<(), Error> {
        if !core::mem::take(&mut self.owes_proof) {
            return Err(Error::Misuse("no proof of host keys was requested"));
        }
        match signatures {
            None => transport.send_message(&RequestFailure {}),
            Some(signatures) => transport.send_message(&RequestSuccess {
                fields: Rest(&strings(signatures)),
            }),
        }
    }

    /// Returns true while the owner signs or decides. No input is processed then, because replies must leave
    /// in the order of the requests.
    pub(crate) fn waits_for_owner(&self) -> bool {
        self.owes_proof || self.owes_reply
    }

    pub(crate) fn handle(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        match payload.first().copied() {
            Some(GlobalRequest::NUMBER) => self.handle_request(transport, payload),
            Some(RequestSuccess::NUMBER) => {
                let answer = RequestSuccess::decode(payload)?;
                self.handle_answer(transport, Some(answer.fields.0))
            }
            Some(RequestFailure::NUMBER) => {
                RequestFailure::decode(payload)?;
                self.handle_answer(transport, None)
            }
            _ => Err(Error::Bug(NO_ARM)),
        }
    }

    fn handle_request(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let request = GlobalRequest::decode(payload)?;
        if request.name.len() > 256 {
            return Err(Error::PeerMisbehaved("request name too long"));
        }
        let name = core::str::from_utf8(request.name).unwrap_or_default();
        match (name, transport.role) {
            (names::GLOBAL_HOSTKEYS, Role::Client) if !self.announced => {
                self.announced = true;
                // Nothing depends on an announcement, so a long one does not end the session.
                let event = match host_keys(request.fields.0) {
                    Ok(keys) => Event::HostKeysAnnounced(keys),
                    Err(TOO_MANY_HOST_KEYS) => Event::TooManyHostKeysAnnounced,
                    Err(error) => return Err(error),
                };
                transport.events.push_back(event);
            }
            (names::GLOBAL_HOSTKEYS_PROVE, Role::Server) if request.want_reply => {
                let keys = host_keys(request.fields.0)?;
                self.owes_proof = true;
                transport.events.push_back(Event::HostKeysProve { keys });
                return Ok(());
            }
            (names::GLOBAL_NO_MORE_SESSIONS, Role::Server) => {
                transport.events.push_back(Event::NoMoreSessions);
                if request.want_reply {
                    return transport.send_message(&RequestSuccess { fields: Rest(&[]) });
                }
            }
            (names::GLOBAL_KEEPALIVE, _) => {}
            (_, Role::Server)
                if transport.config.answers_forward_requests
                    && FORWARD_REQUESTS.contains(&name) =>
            {
                return self.forward_request(transport, &request);
            }
            _ => transport.events.push_back(Event::GlobalRequestRefused(
                String::from_utf8_lossy(request.name).into_owned(),
            )),
        }
        // A failure proves life as well as a success; no other request here needs a success.
        if request.want_reply {
            transport.send_message(&RequestFailure {})
        } else {
            Ok(())
        }
    }

    fn forward_request(
        &mut self,
        transport: &mut Transport,
        request: &GlobalRequest<'_>,
    ) -> Result<(), Error> {
        if request.fields.0.len() > MAX_FIELDS_BYTES {
            return Err(Error::PeerMisbehaved("global request too long"));
        }
        let of_name = |name: &&&str| name.as_bytes() == request.name;
        if let Some(name) = FORWARD_REQUESTS.iter().find(of_name) {
            self.owes_reply = request.want_reply;
            transport.events.push_back(Event::GlobalRequest {
                name,
                fields: request.fields.0.to_vec(),
                want_reply: request.want_reply,
            });
        }
        Ok(())
    }

    /// Returns true if a request of ours is unanswered.
    pub(crate) fn awaits_answer(&self) -> bool {
        !self.open.is_empty()
    }

    /// Handles UNIMPLEMENTED: it counts as the answer to a keepalive, because some servers support
    /// no global requests at all.
    pub(crate) fn handle_unimplemented(&mut self) {
        if self.open.front() == Some(&UnansweredRequest::Keepalive) {
            self.open.pop_front();
        }
    }

    fn handle_answer(
        &mut self,
        transport: &mut Transport,
        fields: Option<&[u8]>,
    ) -> Result<(), Error> {
        match self.open.pop_front() {
            Some(UnansweredRequest::Keepalive) => Ok(()),
            Some(UnansweredRequest::Prove) => {
                let proofs = match fields {
                    Some(fields) => Some(host_keys(fields)?),
                    None => None,
                };
                transport.events.push_back(Event::HostKeysProof(proofs));
                Ok(())
            }
            Some(UnansweredRequest::Owners) => {
                let fields = fields.map(<[u8]>::to_vec);
                transport.events.push_back(Event::GlobalReply(fields));
                Ok(())
            }
            None => transport.spend_ignored(),
        }
    }
}

/// The strings one after another, as [`host_keys`] reads them.
fn strings(list: &[Vec<u8>]) -> Vec<u8> {
    let mut fields = Vec::new();
    for each in list {
        fields.put_string(each);
    }
    fields
}

/// Reads strings up to the end: host keys, or the signatures that prove them.
fn host_keys(fields: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = Reader::new(fields);
    let mut keys = Vec::new();
    while !reader.is_empty() {
        let key = reader.string_max(keys::MAX_BLOB_BYTES)?;
        if keys.len() >= MAX_HOST_KEYS {
            return Err(TOO_MANY_HOST_KEYS);
        }
        keys.push(key.to_vec());
    }
    Ok(keys)
}

/// Data that a server signs with each of its keys to prove that it holds them (OpenSSH PROTOCOL
/// §2.5).
pub(crate) fn hostkeys_prove_data(session_id: &[u8], key: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(key.len() + 128);
    text.put_string(names::GLOBAL_HOSTKEYS_PROVE.as_bytes());
    text.put_string(session_id);
    text.put_string(key);
    text
}
