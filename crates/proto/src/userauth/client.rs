//! Client side of user authentication. Requests may be pipelined; their answers arrive in order. A
//! success that no request is waiting for ends the connection.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use wire::message::{
    self, Encode, ServiceRequest, UserauthBanner, UserauthFailure, UserauthGssapiError,
    UserauthGssapiErrtok, UserauthGssapiMic, UserauthGssapiResponse, UserauthGssapiToken,
    UserauthInfoRequest, UserauthInfoResponse, UserauthPasswdChangereq, UserauthPkOk,
    UserauthRequest, UserauthSuccess,
};
use wire::{Put, Reader, Rest, names};
use zeroize::{Zeroize, Zeroizing};

use super::MAX_PROMPTS;
use crate::limits::MAX_GSSAPI_TOKENS;
use crate::permits::NO_ARM;
use crate::transport::{PipelinedPacket, Transport};
use crate::{AuthProof, Error, Event, Prompt};
use wire::userauth::{
    HostbasedClaim, KERBEROS_MECHANISM, gssapi_keyex_signed_data, gssapi_signed_data,
    hostbased_signed_data, publickey_signed_data, put_gssapi_fields, put_hostbased_fields,
    put_publickey_fields,
};

/// Maximum number of unanswered requests.
const MAX_OPEN_REQUESTS: usize = 16;
/// Maximum rounds of prompts in one keyboard-interactive request.
const MAX_INFO_ROUNDS: u32 = 64;
/// Packets that contain a password or a response are padded to multiples of this many bytes, so
/// that its length is hidden (RFC 4253 §6 permits such padding; OpenSSH uses the same size).
const SECRET_STEP_BYTES: u8 = 64;
/// Maximum banners in one login.
const MAX_BANNERS: u32 = 64;

/// An unanswered request.
#[derive(Debug)]
enum PendingAuth {
    None,
    Password,
    Query {
        algorithm: Vec<u8>,
        key: Vec<u8>,
    },
    /// `publickey` with a signature, or `hostbased`.
    Signed,
    Interactive {
        rounds: u32,
        asked: bool,
        waits_for_us: bool,
    },
    Gssapi {
        /// Messages of the server so far.
        messages: u32,
        waits_for_us: bool,
        /// The MIC was sent.
        is_proven: bool,
    },
}

/// State of the client's authentication.
#[derive(Debug, Default)]
pub(crate) struct ClientAuth {
    /// SERVICE_REQUEST was sent: requests without a secret may follow at once.
    asked: bool,
    /// SERVICE_ACCEPT arrived.
    granted: bool,
    /// Do not bind signatures to the host key, even if the server supports it.
    pub(crate) unbound: bool,
    open: VecDeque<PendingAuth>,
    banners: u32,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl ClientAuth {
    /// Requests the service once the first keys are in use in both directions.
    pub(crate) fn begin(&mut self, transport: &mut Transport) -> Result<(), Error> {
        self.asked = true;
        transport.send_message(&ServiceRequest {
            service: names::SERVICE_USERAUTH.as_bytes(),
        })
    }

    /// Handles SERVICE_ACCEPT.
    pub(crate) fn handle_service_accept(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        // Some old servers omit the name, which RFC 4253 §10 requires.
        if payload.len() > 1 {
            let accept = message::ServiceAccept::decode(payload)?;
            if accept.service != names::SERVICE_USERAUTH.as_bytes() {
                return Err(Error::PeerMisbehaved(
                    "accepted a service that was not requested",
                ));
            }
        }
        self.granted = true;
        transport.events.push_back(Event::UserauthReady);
        Ok(())
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    // ---- commands -------------------------------------------------------------------------

    fn request(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        open: PendingAuth,
        fields: &mut Vec<u8>,
    ) -> Result<(), Error> {
        // A server that answers out of order must not obtain a secret.
        let may_be_sent = match open {
            PendingAuth::None | PendingAuth::Query { .. } | PendingAuth::Signed => self.asked,
            PendingAuth::Password
            | PendingAuth::Interactive { .. }
            | PendingAuth::Gssapi { .. } => self.granted,
        };
        if !may_be_sent || transport.authenticated {
            return Err(Error::Misuse(
                "authentication request outside authentication",
            ));
        }
        if self.open.len() >= MAX_OPEN_REQUESTS {
            return Err(Error::Misuse("too many authentication requests at once"));
        }
        // `fields` begins with the method's name as a string. The packet's buffer is the only other
        // place that contains a password, and sealing overwrites it.
        let mut buf = transport
            .outbound
            .take_buffer(user.len() + fields.len() + 64);
        let mut head = Vec::with_capacity(user.len() + 64);
        head.put_u8(<UserauthRequest<'_> as Encode>::NUMBER);
        head.put_string(user);
        head.put_string(names::SERVICE_CONNECTION.as_bytes());
        buf.extend(&head);
        buf.extend(fields);
        fields.zeroize();
        if matches!(open, PendingAuth::Password) {
            buf.conceal_length(SECRET_STEP_BYTES);
        }
        self.open.push_back(open);
        transport.send_payload(buf, Some(PipelinedPacket::Login))
    }

    pub(crate) fn none(&mut self, transport: &mut Transport, user: &[u8]) -> Result<(), Error> {
        let mut fields = Vec::new();
        fields.put_string(names::METHOD_NONE.as_bytes());
        self.request(transport, user, PendingAuth::None, &mut fields)
    }

    pub(crate) fn password(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        password: &[u8],
        new_password: Option<&[u8]>,
    ) -> Result<(), Error> {
        let room = password.len() + new_password.map_or(0, <[u8]>::len) + 64;
        let mut fields = Vec::with_capacity(room);
        fields.put_string(names::METHOD_PASSWORD.as_bytes());
        fields.put_bool(new_password.is_some());
        fields.put_string(password);
        if let Some(new_password) = new_password {
            fields.put_string(new_password);
        }
        self.request(transport, user, PendingAuth::Password, &mut fields)
    }

    pub(crate) fn publickey_query(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        algorithm: &[u8],
        key: &[u8],
    ) -> Result<(), Error> {
        let mut fields = Vec::new();
        put_publickey_fields(&mut fields, algorithm, key, false, None);
        let open = PendingAuth::Query {
            algorithm: algorithm.to_vec(),
            key: key.to_vec(),
        };
        self.request(transport, user, open, &mut fields)
    }

    /// Host key to which signatures are bound, if the server supports that.
    fn bound_host_key<'t>(&self, transport: &'t Transport) -> Option<&'t [u8]> {
        let session = transport.exchange.session()?;
        let bound = transport.extensions.hostbound && !self.unbound;
        // After a key exchange by GSS-API there is none.
        (bound && !session.is_by_gss()).then_some(&session.host_key[..])
    }

    pub(crate) fn signed_data(
        &self,
        transport: &Transport,
        user: &[u8],
        algorithm: &[u8],
        key: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let session = transport
            .exchange
            .session()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        Ok(publickey_signed_data(
            &session.id,
            user,
            names::SERVICE_CONNECTION.as_bytes(),
            algorithm,
            key,
            self.bound_host_key(transport),
        ))
    }

    pub(crate) fn publickey(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        algorithm: &[u8],
        key: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let mut fields = Vec::new();
        put_publickey_fields(
            &mut fields,
            algorithm,
            key,
            true,
            self.bound_host_key(transport),
        );
        fields.put_string(signature);
        self.request(transport, user, PendingAuth::Signed, &mut fields)
    }

    pub(crate) fn hostbased_signed_data(
        transport: &Transport,
        user: &[u8],
        claim: &HostbasedClaim<'_>,
    ) -> Result<Vec<u8>, Error> {
        let session = transport
            .exchange
            .session()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        let service = names::SERVICE_CONNECTION.as_bytes();
        Ok(hostbased_signed_data(&session.id, user, service, claim))
    }

    pub(crate) fn hostbased(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        claim: &HostbasedClaim<'_>,
        signature: &[u8],
    ) -> Result<(), Error> {
        let mut fields = Vec::new();
        put_hostbased_fields(&mut fields, claim);
        fields.put_string(signature);
        self.request(transport, user, PendingAuth::Signed, &mut fields)
    }

    pub(crate) fn keyboard_interactive(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        devices: &[u8],
    ) -> Result<(), Error> {
        let mut fields = Vec::new();
        fields.put_string(names::METHOD_KEYBOARD_INTERACTIVE.as_bytes());
        fields.put_string(b"");
        fields.put_string(devices);
        let open = PendingAuth::Interactive {
            rounds: 0,
            asked: false,
            waits_for_us: false,
        };
        self.request(transport, user, open, &mut fields)
    }

    pub(crate) fn respond(
        &mut self,
        transport: &mut Transport,
        responses: &[Zeroizing<Vec<u8>>],
    ) -> Result<(), Error> {
        match self.open.front_mut() {
            Some(PendingAuth::Interactive { waits_for_us, .. }) if *waits_for_us => {
                *waits_for_us = false;
            }
            _ => return Err(Error::Misuse("no prompt awaits a response")),
        }
        let room: usize = responses.iter().map(|each| each.len() + 4).sum();
        let mut list = Zeroizing::new(Vec::with_capacity(room));
        for response in responses {
            list.put_string(response);
        }
        let count =
            u32::try_from(responses.len()).map_err(|_| Error::Misuse("too many responses"))?;
        let mut buf = transport.outbound.take_buffer(room + 16);
        let mut payload = UserauthInfoResponse {
            count,
            responses: Rest(&list),
        }
        .encode();
        buf.extend(&payload);
        buf.conceal_length(SECRET_STEP_BYTES);
        payload.zeroize();
        transport.send_payload(buf, None)
    }

    pub(crate) fn gssapi_keyex_signed_data(
        transport: &Transport,
        user: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let session = transport.exchange.session();
        let session = session.filter(|session| session.is_by_gss());
        let session = session.ok_or(Error::Misuse("no key exchange by GSS-API"))?;
        let service = names::SERVICE_CONNECTION.as_bytes();
        Ok(gssapi_keyex_signed_data(&session.id, user, service))
    }

    pub(crate) fn gssapi_keyex(
        &mut self,
        transport: &mut Transport,
        user: &[u8],
        mic: &[u8],
    ) -> Result<(), Error> {
        let mut fields = Vec::new();
        fields.put_string(names::METHOD_GSSAPI_KEYEX.as_bytes());
        fields.put_string(mic);
        self.request(transport, user, PendingAuth::Signed, &mut fields)
    }

    pub(crate) fn gssapi(&mut self, transport: &mut Transport, user: &[u8]) -> Result<(), Error> {
        let mut fields = Vec::new();
        put_gssapi_fields(&mut fields);
        let open = PendingAuth::Gssapi {
            messages: 0,
            waits_for_us: false,
            is_proven: false,
        };
        self.request(transport, user, open, &mut fields)
    }

    pub(crate) fn gssapi_signed_data(transport: &Transport, user: &[u8]) -> Result<Vec<u8>, Error> {
        let session = transport
            .exchange
            .session()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        let service = names::SERVICE_CONNECTION.as_bytes();
        Ok(gssapi_signed_data(&session.id, user, service))
    }

    /// Takes our turn in the open GSS-API exchange.
    fn gssapi_turn(&mut self, proves: bool) -> Result<(), Error> {
        match self.open.front_mut() {
            Some(PendingAuth::Gssapi {
                waits_for_us,
                is_proven,
                ..
            }) if *waits_for_us => {
                *waits_for_us = false;
                *is_proven = proves;
                Ok(())
            }
            _ => Err(Error::Misuse("no GSS-API exchange waits for us")),
        }
    }

    pub(crate) fn gssapi_token(
        &mut self,
        transport: &mut Transport,
        token: &[u8],
    ) -> Result<(), Error> {
        self.gssapi_turn(false)?;
        transport.send_message(&UserauthGssapiToken { token })
    }

    pub(crate) fn gssapi_mic(
        &mut self,
        transport: &mut Transport,
        mic: &[u8],
    ) -> Result<(), Error> {
        self.gssapi_turn(true)?;
        transport.send_message(&UserauthGssapiMic { mic })
    }

    pub(crate) fn gssapi_give_up(
        &mut self,
        transport: &mut Transport,
        token: &[u8],
    ) -> Result<(), Error> {
        self.gssapi_turn(false)?;
        // The server does not answer a request that another one follows (RFC 4252 §5.1).
        self.open.pop_front();
        transport
            .outbound
            .sent_ahead()
            .settle(PipelinedPacket::Login);
        match token {
            [] => Ok(()),
            token => transport.send_message(&UserauthGssapiErrtok { token }),
        }
    }

    /// Returns true if the newest unanswered request is a signed one, so that following packets may
    /// arrive after a successful login.
    pub(crate) fn expects_login(&self) -> bool {
        matches!(self.open.back(), Some(PendingAuth::Signed))
    }

    /// Returns true if no request is unanswered.
    pub(crate) fn is_answered(&self) -> bool {
        self.open.is_empty()
    }

    // ---- answers --------------------------------------------------------------------------

    pub(crate) fn handle(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        match payload.first().copied().unwrap_or_default() {
            UserauthFailure::NUMBER => self.handle_failure(transport, payload),
            UserauthSuccess::NUMBER => self.handle_success(transport, payload),
            UserauthBanner::NUMBER => {
                let banner = UserauthBanner::decode(payload)?;
                self.banners += 1;
                if self.banners > MAX_BANNERS {
                    return Err(Error::PeerMisbehaved("too many banners"));
                }
                transport
                    .events
                    .push_back(Event::AuthBanner(text(banner.text)));
                Ok(())
            }
            // Four messages have this number; the requested method determines which.
            UserauthInfoRequest::NUMBER => self.handle_method_message(transport, payload),
            UserauthGssapiToken::NUMBER
            | UserauthGssapiErrtok::NUMBER
            | UserauthGssapiError::NUMBER => self.handle_gssapi(transport, payload),
            _ => Err(Error::Bug(NO_ARM)),
        }
    }

    fn handle_failure(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let failure = UserauthFailure::decode(payload)?;
        if self.open.pop_front().is_none() {
            return Err(Error::PeerMisbehaved("USERAUTH_FAILURE without a request"));
        }
        transport
            .outbound
            .sent_ahead()
            .settle(PipelinedPacket::Login);
        transport.events.push_back(Event::AuthFailure {
            methods: failure.methods.iter().map(String::from).collect(),
            partial_success: failure.partial_success,
        });
        Ok(())
    }

    fn handle_success(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        message::UserauthSuccess::decode(payload)?;
        let proof = match self.open.pop_front() {
            None => {
                return Err(Error::PeerMisbehaved("USERAUTH_SUCCESS without a request"));
            }
            Some(PendingAuth::Query { .. }) => {
                return Err(Error::PeerMisbehaved(
                    "USERAUTH_SUCCESS to a query without signature",
                ));
            }
            Some(PendingAuth::Interactive {
                waits_for_us: true, ..
            }) => {
                return Err(Error::PeerMisbehaved(
                    "USERAUTH_SUCCESS while a prompt is open",
                ));
            }
            Some(PendingAuth::Gssapi {
                is_proven: false, ..
            }) => {
                return Err(Error::PeerMisbehaved("USERAUTH_SUCCESS before the MIC"));
            }
            Some(PendingAuth::None | PendingAuth::Interactive { asked: false, .. }) => {
                AuthProof::Nothing
            }
            Some(PendingAuth::Gssapi { .. }) => AuthProof::Proven,
            Some(PendingAuth::Interactive { .. } | PendingAuth::Password | PendingAuth::Signed) => {
                AuthProof::Proven
            }
        };
        // A server need not answer the requests that follow the successful one.
        self.open.clear();
        transport
            .outbound
            .sent_ahead()
            .settle(PipelinedPacket::Login);
        transport.set_authenticated();
        transport.events.push_back(Event::AuthSuccess(proof));
        Ok(())
    }

    fn handle_method_message(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        match self.open.front_mut() {
            Some(PendingAuth::Query { algorithm, key }) => {
                let ok = UserauthPkOk::decode(payload)?;
                if ok.algorithm != &algorithm[..] || ok.key != &key[..] {
                    return Err(Error::PeerMisbehaved("USERAUTH_PK_OK for another key"));
                }
                transport.events.push_back(Event::AuthPkOk {
                    algorithm: text(ok.algorithm),
                    key: ok.key.to_vec(),
                });
                self.open.pop_front();
                transport
                    .outbound
                    .sent_ahead()
                    .settle(PipelinedPacket::Login);
                Ok(())
            }
            Some(PendingAuth::Password) => {
                let change = UserauthPasswdChangereq::decode(payload)?;
                transport.events.push_back(Event::AuthChangePassword {
                    prompt: text(change.prompt),
                });
                self.open.pop_front();
                Ok(())
            }
            Some(PendingAuth::Interactive {
                rounds,
                asked,
                waits_for_us,
            }) => {
                if *waits_for_us {
                    return Err(Error::PeerMisbehaved(
                        "prompts before the last ones were answered",
                    ));
                }
                *rounds += 1;
                if *rounds > MAX_INFO_ROUNDS {
                    return Err(Error::PeerMisbehaved("too many rounds of prompts"));
                }
                let (event, any) = info_request(payload)?;
                *asked |= any;
                *waits_for_us = true;
                transport.events.push_back(event);
                Ok(())
            }
            Some(PendingAuth::Gssapi {
                messages: messages @ 0,
                waits_for_us,
                ..
            }) => {
                let response = UserauthGssapiResponse::decode(payload)?;
                if response.mechanism != KERBEROS_MECHANISM {
                    return Err(Error::PeerMisbehaved(
                        "chose a mechanism that was not offered",
                    ));
                }
                *messages = 1;
                *waits_for_us = true;
                transport.events.push_back(Event::AuthGssapiResponse);
                Ok(())
            }
            _ => Err(Error::NotPermitted { message: 60 }),
        }
    }

    /// Handles the server's messages of a GSS-API exchange (RFC 4462 §3.4, §3.8, §3.9).
    fn handle_gssapi(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        let Some(PendingAuth::Gssapi {
            messages,
            waits_for_us,
            ..
        }) = self.open.front_mut()
        else {
            return Err(Error::NotPermitted { message: number });
        };
        *messages += 1;
        if *waits_for_us || *messages > MAX_GSSAPI_TOKENS {
            return Err(Error::PeerMisbehaved("too many GSS-API messages"));
        }
        transport.events.push_back(match number {
            UserauthGssapiToken::NUMBER => {
                *waits_for_us = true;
                Event::AuthGssapiToken {
                    token: UserauthGssapiToken::decode(payload)?.token.to_vec(),
                    is_error: false,
                }
            }
            UserauthGssapiErrtok::NUMBER => Event::AuthGssapiToken {
                token: UserauthGssapiErrtok::decode(payload)?.token.to_vec(),
                is_error: true,
            },
            _ => Event::AuthGssapiError(text(UserauthGssapiError::decode(payload)?.text)),
        });
        Ok(())
    }
}

/// Decodes USERAUTH_INFO_REQUEST (RFC 4256 §3.2); returns the event, and true if it has any prompt.
fn info_request(payload: &[u8]) -> Result<(Event, bool), Error> {
    let request = UserauthInfoRequest::decode(payload)?;
    if request.count > MAX_PROMPTS {
        return Err(Error::PeerMisbehaved("too many prompts"));
    }
    let mut reader = Reader::new(request.prompts.0);
    let mut prompts = Vec::new();
    for _ in 0..request.count {
        let prompt = reader.string()?;
        let echo = reader.bool()?;
        prompts.push(Prompt {
            text: text(prompt),
            echo,
        });
    }
    reader.finish()?;
    let any = !prompts.is_empty();
    let event = Event::AuthInfoRequest {
        name: text(request.name),
        instruction: text(request.instruction),
        prompts,
    };
    Ok((event, any))
}
