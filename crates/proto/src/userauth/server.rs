//! Server side of user authentication: requests become events, one at a time, and the owner's
//! answers become messages. The owner decides who may log in.

use alloc::vec::Vec;

use wire::message::{
    Encode, ServiceAccept, ServiceRequest, UserauthBanner, UserauthFailure, UserauthGssapiErrtok,
    UserauthGssapiExchangeComplete, UserauthGssapiMic, UserauthGssapiResponse, UserauthGssapiToken,
    UserauthInfoRequest, UserauthInfoResponse, UserauthPkOk, UserauthRequest, UserauthSuccess,
};
use wire::userauth::{KERBEROS_MECHANISM, names_kerberos};
use wire::{NameList, Put, Reader, Rest, names};
use zeroize::Zeroizing;

use super::{MAX_MIC_BYTES, MAX_PROMPTS, MAX_SECRET_BYTES, MAX_USER_BYTES};
use crate::limits::{MAX_GSSAPI_TOKEN_BYTES, MAX_GSSAPI_TOKENS};
use crate::permits::NO_ARM;
use crate::transport::Transport;
use crate::{AuthMethod, AuthRequest, Error, Event, Prompt};

/// Algorithm and key of a query, which PK_OK repeats.
type Query = (Vec<u8>, Vec<u8>);

/// The request that is open.
#[derive(Debug, Default)]
enum OwedAnswer {
    #[default]
    Nothing,
    /// The owner owes an answer; `query` is repeated in PK_OK.
    Request { query: Option<Query> },
    /// The client owes responses.
    Prompted { prompts: u32 },
    /// The client owes a token or the end of its GSS-API exchange.
    Gssapi,
}

/// State of the server's authentication.
#[derive(Debug, Default)]
pub(crate) struct ServerAuth {
    open: OwedAnswer,
    /// User and service of the last request, for the responses that follow prompts.
    last: (Vec<u8>, Vec<u8>),
    /// Tokens of the GSS-API exchange that is open or was the last one; `None` if there was none.
    gssapi_tokens: Option<u32>,
}

impl ServerAuth {
    /// Returns true while the owner owes an answer; no input is processed then.
    pub(crate) fn waits_for_owner(&self) -> bool {
        matches!(self.open, OwedAnswer::Request { .. })
    }

    /// Handles SERVICE_REQUEST: only user authentication is available.
    pub(crate) fn handle_service_request(
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let request = ServiceRequest::decode(payload)?;
        if request.service != names::SERVICE_USERAUTH.as_bytes() {
            return Err(Error::ServiceNotAvailable);
        }
        transport.send_message(&ServiceAccept {
            service: request.service,
        })
    }

    pub(crate) fn handle(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        match payload.first().copied().unwrap_or_default() {
            UserauthRequest::NUMBER => self.handle_request(transport, payload),
            // Two messages have this number; the open request determines which.
            UserauthInfoResponse::NUMBER if matches!(self.open, OwedAnswer::Prompted { .. }) => {
                self.handle_response(transport, payload)
            }
            UserauthGssapiToken::NUMBER
            | UserauthGssapiExchangeComplete::NUMBER
            | UserauthGssapiErrtok::NUMBER
            | UserauthGssapiMic::NUMBER => self.handle_gssapi(transport, payload),
            _ => Err(Error::Bug(NO_ARM)),
        }
    }

    fn handle_request(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let request = UserauthRequest::decode(payload)?;
        if request.user.len() > MAX_USER_BYTES
            || request.service.len() > 64
            || request.method.len() > 256
        {
            return Err(Error::PeerMisbehaved("authentication request too long"));
        }
        let mut query = None;
        let session = transport.exchange.session();
        let session = session.ok_or(Error::Bug("login before keys"))?;
        let method = match core::str::from_utf8(request.method).unwrap_or_default() {
            names::METHOD_NONE => {
                Reader::new(request.method_fields.0).finish()?;
                AuthMethod::None
            }
            names::METHOD_PASSWORD => password(request.method_fields.0)?,
            names::METHOD_PUBLICKEY => publickey(request.method_fields.0, None, &mut query)?,
            // Each needs the kind of key exchange that was: with a host key, or by GSS-API.
            names::METHOD_PUBLICKEY_HOSTBOUND if !session.is_by_gss() => {
                publickey(request.method_fields.0, Some(&session.host_key), &mut query)?
            }
            names::METHOD_GSSAPI_KEYEX if session.is_by_gss() => {
                let mut reader = Reader::new(request.method_fields.0);
                let mic = reader.string_max(MAX_MIC_BYTES)?.to_vec();
                reader.finish()?;
                AuthMethod::GssapiKeyex { mic }
            }
            names::METHOD_HOSTBASED => hostbased(request.method_fields.0)?,
            names::METHOD_GSSAPI_WITH_MIC => {
                self.gssapi_tokens = Some(0);
                AuthMethod::GssapiWithMic {
                    offers_kerberos: names_kerberos(request.method_fields.0),
                }
            }
            names::METHOD_KEYBOARD_INTERACTIVE => {
                let mut reader = Reader::new(request.method_fields.0);
                reader.string()?;
                let submethods = reader.string_max(1024)?.to_vec();
                reader.finish()?;
                AuthMethod::KeyboardInteractive { submethods }
            }
            _ => AuthMethod::Unknown {
                name: request.method.to_vec(),
            },
        };
        self.last = (request.user.to_vec(), request.service.to_vec());
        self.open = OwedAnswer::Request { query };
        transport.events.push_back(Event::AuthRequest(AuthRequest {
            user: request.user.to_vec(),
            service: request.service.to_vec(),
            method,
        }));
        Ok(())
    }

    fn handle_response(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let OwedAnswer::Prompted { prompts } = core::mem::take(&mut self.open) else {
            return Err(Error::PeerMisbehaved(
                "responses to prompts that were not sent",
            ));
        };
        let message = UserauthInfoResponse::decode(payload)?;
        if message.count != prompts {
            return Err(Error::PeerMisbehaved(
                "number of responses differs from number of prompts",
            ));
        }
        let mut reader = Reader::new(message.responses.0);
        let mut responses = Vec::new();
        for _ in 0..message.count {
            responses.push(Zeroizing::new(
                reader.string_max(MAX_SECRET_BYTES)?.to_vec(),
            ));
        }
        reader.finish()?;
        self.pass_on(transport, AuthMethod::InfoResponse { responses });
        Ok(())
    }

    /// Passes the continuation of the last request to the owner, who owes an answer.
    fn pass_on(&mut self, transport: &mut Transport, method: AuthMethod) {
        self.open = OwedAnswer::Request { query: None };
        let (user, service) = self.last.clone();
        transport.events.push_back(Event::AuthRequest(AuthRequest {
            user,
            service,
            method,
        }));
    }

    /// Handles the client's messages of a GSS-API exchange (RFC 4462 §3.4, §3.5, §3.9).
    fn handle_gssapi(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let Some(tokens) = &mut self.gssapi_tokens else {
            return Err(Error::PeerMisbehaved(
                "a response or token that was not asked for",
            ));
        };
        let method = match payload.first().copied().unwrap_or_default() {
            UserauthGssapiToken::NUMBER => {
                let token = UserauthGssapiToken::decode(payload)?.token;
                *tokens += 1;
                if *tokens > MAX_GSSAPI_TOKENS || token.len() > MAX_GSSAPI_TOKEN_BYTES {
                    return Err(Error::PeerMisbehaved("too many or too long GSS-API tokens"));
                }
                let token = token.to_vec();
                AuthMethod::GssapiToken { token }
            }
            UserauthGssapiMic::NUMBER => {
                let mic = UserauthGssapiMic::decode(payload)?.mic.to_vec();
                AuthMethod::GssapiMic { mic }
            }
            UserauthGssapiExchangeComplete::NUMBER => {
                UserauthGssapiExchangeComplete::decode(payload)?;
                AuthMethod::GssapiMic { mic: Vec::new() }
            }
            _ => {
                // The client gives up: its next request follows, and nothing answers this message.
                UserauthGssapiErrtok::decode(payload)?;
                if matches!(self.open, OwedAnswer::Gssapi) {
                    self.open = OwedAnswer::Nothing;
                }
                return Ok(());
            }
        };
        // A client may send its last messages before it knows that the exchange has failed.
        if matches!(self.open, OwedAnswer::Gssapi) {
            self.pass_on(transport, method);
        }
        Ok(())
    }

    // ---- the owner's answers --------------------------------------------------------------

    fn answer(&mut self) -> Result<Option<Query>, Error> {
        match core::mem::take(&mut self.open) {
            OwedAnswer::Request { query } => Ok(query),
            other => {
                self.open = other;
                Err(Error::Misuse("no authentication request is open"))
            }
        }
    }

    pub(crate) fn success(&mut self, transport: &mut Transport) -> Result<(), Error> {
        if self.answer()?.is_some() {
            return Err(Error::Misuse("success for a query without signature"));
        }
        transport.send_message(&UserauthSuccess {})?;
        transport.set_authenticated();
        Ok(())
    }

    pub(crate) fn failure(
        &mut self,
        transport: &mut Transport,
        methods: &[&str],
        partial_success: bool,
    ) -> Result<(), Error> {
        self.answer()?;
        let list = methods.join(",");
        let methods =
            NameList::new(&list).map_err(|_| Error::Misuse("method name not printable"))?;
        transport.send_message(&UserauthFailure {
            methods,
            partial_success,
        })
    }

    pub(crate) fn pk_ok(&mut self, transport: &mut Transport) -> Result<(), Error> {
        let (algorithm, key) = self
            .answer()?
            .ok_or(Error::Misuse("PK_OK for a request that is not a query"))?;
        transport.send_message(&UserauthPkOk {
            algorithm: &algorithm,
            key: &key,
        })
    }

    pub(crate) fn info_request(
        &mut self,
        transport: &mut Transport,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
    ) -> Result<(), Error> {
        self.answer()?;
        let count = u32::try_from(prompts.len())
            .ok()
            .filter(|count| *count <= MAX_PROMPTS)
            .ok_or(Error::Misuse("too many prompts"))?;
        let mut list = Vec::new();
        for prompt in prompts {
            list.put_string(prompt.text.as_bytes());
            list.put_bool(prompt.echo);
        }
        self.open = OwedAnswer::Prompted { prompts: count };
        transport.send_message(&UserauthInfoRequest {
            name: name.as_bytes(),
            instruction: instruction.as_bytes(),
            language: b"",
            count,
            prompts: Rest(&list),
        })
    }

    pub(crate) fn gssapi_response(&mut self, transport: &mut Transport) -> Result<(), Error> {
        self.answer()?;
        self.open = OwedAnswer::Gssapi;
        transport.send_message(&UserauthGssapiResponse {
            mechanism: KERBEROS_MECHANISM,
        })
    }

    pub(crate) fn gssapi_next(
        &mut self,
        transport: &mut Transport,
        token: &[u8],
    ) -> Result<(), Error> {
        self.answer()?;
        self.open = OwedAnswer::Gssapi;
        match token {
            [] => Ok(()),
            token => transport.send_message(&UserauthGssapiToken { token }),
        }
    }

    pub(crate) fn gssapi_error_token(
        &self,
        transport: &mut Transport,
        token: &[u8],
    ) -> Result<(), Error> {
        if !self.waits_for_owner() {
            return Err(Error::Misuse("no authentication request is open"));
        }
        transport.send_message(&UserauthGssapiErrtok { token })
    }

    pub(crate) fn banner(transport: &mut Transport, text: &str) -> Result<(), Error> {
        if transport.authenticated {
            return Err(Error::Misuse("banner after login"));
        }
        transport.send_message(&UserauthBanner {
            text: text.as_bytes(),
            language: b"",
        })
    }
}

fn password(fields: &[u8]) -> Result<AuthMethod, Error> {
    let mut reader = Reader::new(fields);
    let change = reader.bool()?;
    let password = Zeroizing::new(reader.string_max(MAX_SECRET_BYTES)?.to_vec());
    let new_password = match change {
        true => Some(Zeroizing::new(
            reader.string_max(MAX_SECRET_BYTES)?.to_vec(),
        )),
        false => None,
    };
    reader.finish()?;
    Ok(AuthMethod::Password {
        password,
        new_password,
    })
}

/// Most bytes of the names of the client's host and user in a host-based request.
const MAX_HOST_NAME_BYTES: usize = 1024;

/// Decodes a host-based request, RFC 4252 §9.
fn hostbased(fields: &[u8]) -> Result<AuthMethod, Error> {
    let mut reader = Reader::new(fields);
    let algorithm = reader.string_max(256)?.to_vec();
    let key = reader.string_max(keys::MAX_BLOB_BYTES)?.to_vec();
    let host = reader.string_max(MAX_HOST_NAME_BYTES)?.to_vec();
    let user = reader.string_max(MAX_HOST_NAME_BYTES)?.to_vec();
    let signature = reader.string_max(keys::MAX_BLOB_BYTES)?.to_vec();
    reader.finish()?;
    Ok(AuthMethod::Hostbased {
        algorithm,
        key,
        host,
        user,
        signature,
    })
}

/// Decodes a publickey request, RFC 4252 §7; `host_key` is ours if the method binds the signature
/// to it.
fn publickey(
    fields: &[u8],
    host_key: Option<&[u8]>,
    query: &mut Option<Query>,
) -> Result<AuthMethod, Error> {
    let mut reader = Reader::new(fields);
    let signed = reader.bool()?;
    let algorithm = reader.string_max(256)?.to_vec();
    let key = reader.string_max(keys::MAX_BLOB_BYTES)?.to_vec();
    if let Some(ours) = host_key {
        // A signature bound to another server's host key was made for a man in the middle.
        if reader.string()? != ours {
            return Err(Error::PeerMisbehaved(
                "signature is bound to another host key",
            ));
        }
    }
    if !signed {
        reader.finish()?;
        *query = Some((algorithm.clone(), key.clone()));
        return Ok(AuthMethod::PublickeyQuery { algorithm, key });
    }
    let signature = reader.string_max(keys::MAX_BLOB_BYTES)?.to_vec();
    reader.finish()?;
    Ok(AuthMethod::Publickey {
        algorithm,
        key,
        signature,
        hostbound: host_key.is_some(),
    })
}
