//! Turns the events of a connection that is not logged in into requests to the monitor.
//!
//! The monitor answers each authentication request exactly once, and delays a failure by its
//! minimum time. This process never decides itself, so that all failures look the same (RFC 4252
//! §5.1).

use config::types::WarnWeakCrypto;
use privsep::{
    AuthNone, AuthOther, AuthOutcome, AuthPassword, AuthStart, ChooseGroup, Frame, Group,
    GssapiErrorToken, GssapiKeyex, GssapiMic, GssapiReady, GssapiStart, GssapiToken,
    HostbasedVerify, KbdintPrompts, KbdintRespond, KbdintStart, KeyAnswer, KeyQuery, KeyVerify,
    Message, Secret, SignExchangeHash, Signature, User, UserPolicy,
};
use proto::{AuthMethod, AuthRequest, Connection, Event, Prompt};
use wire::names;

use super::end::AuthEnd;
use crate::log::Logger;
use crate::rpc::{Rpc, RpcError};
use crate::transport;

/// Result of handling an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginStep {
    /// The login goes on.
    Continue,
    /// USERAUTH_SUCCESS is queued; nothing more may be read.
    Succeeded,
}

/// State of a login.
pub(super) struct LoginState<'a> {
    rpc: &'a Rpc,
    log: Logger<'a>,
    start: &'a AuthStart,
    /// The peer's address and what is logged of it, until the first exchange was checked.
    weak_from: Option<(String, WarnWeakCrypto)>,
    /// Blob of the host key that signed the first exchange.
    host_key: Option<Vec<u8>>,
    /// The user name of this connection, which must not change.
    user: Option<Vec<u8>>,
    /// True if the name was sent to the monitor.
    is_named: bool,
}

impl<'a> LoginState<'a> {
    pub(super) fn new(
        rpc: &'a Rpc,
        log: Logger<'a>,
        start: &'a AuthStart,
        weak_from: (String, WarnWeakCrypto),
    ) -> Self {
        Self {
            rpc,
            log,
            start,
            weak_from: Some(weak_from),
            host_key: None,
            user: None,
            is_named: false,
        }
    }

    /// Handles one event.
    ///
    /// # Errors
    /// [`AuthEnd`] when the connection is over.
    pub(super) fn handle(
        &mut self,
        connection: &mut Connection,
        event: Event,
    ) -> Result<LoginStep, AuthEnd> {
        match event {
            Event::SignExchangeHash {
                kex,
                algorithm,
                key,
                hash,
            } => {
                self.sign(connection, kex, algorithm, key, hash.as_ref())?;
            }
            Event::ChooseGroup {
                min,
                preferred,
                max,
            } => self.choose_group(connection, min, preferred, max)?,
            Event::GssAccept { kex, hash, token } => {
                transport::accept_token::<AuthEnd>(
                    self.rpc,
                    connection,
                    kex,
                    hash.as_ref(),
                    token,
                )?;
            }
            Event::AuthRequest(request) => return self.authenticate(connection, request),
            Event::Version => {
                let version = connection.peer_version().unwrap_or_default();
                self.log
                    .debug(&format!("Remote protocol version: {version}"));
            }
            Event::KeysChanged { negotiated, .. } => {
                self.log.debug(&format!(
                    "kex: {} host key: {} cipher: {} / {}",
                    negotiated.kex,
                    negotiated.host_key,
                    negotiated.client_to_server.cipher,
                    negotiated.server_to_client.cipher
                ));
                self.warn_of_weak(negotiated.kex, &negotiated.old_algorithms());
            }
            Event::DebugMessage { text, .. } => self.log.debug2(&format!("client says: {text}")),
            // No other event occurs before a login; `proto` refuses the messages that would cause
            // it.
            _ => {}
        }
        Ok(LoginStep::Continue)
    }

    /// Logs, once and in OpenSSH's wording, a key exchange that is not post-quantum, and algorithms
    /// of old devices.
    fn warn_of_weak(&mut self, kex: &str, old: &[&str]) {
        let Some((peer, told)) = self.weak_from.take() else {
            return;
        };
        if told.warns_of_kex() && !wire::algorithms::is_post_quantum(kex) {
            self.log.info(&format!(
                "WARNING: connection from {peer} is not using a post-quantum key exchange \
                 algorithm: \"{kex}\""
            ));
        }
        if told.warns_of_old_algorithms() && !old.is_empty() {
            self.log.info(&format!(
                "WARNING: connection from {peer} is using weak algorithms of old devices: {}",
                old.join(", ")
            ));
        }
    }

    fn sign(
        &mut self,
        connection: &mut Connection,
        kex_algorithm: &str,
        algorithm: &str,
        key: Vec<u8>,
        hash: &[u8],
    ) -> Result<(), AuthEnd> {
        let key_index = transport::key_index(&self.start.host_keys, &key).ok_or(
            proto::Error::Bug("exchange with a host key that we do not have"),
        )?;
        let signature: Signature = self.rpc.ask(&SignExchangeHash {
            kex_algorithm: kex_algorithm.to_owned(),
            host_key_algorithm: algorithm.to_owned(),
            key_index,
            hash: hash.to_vec(),
            expects_login: connection.peer_guessed(),
        })?;
        self.host_key.get_or_insert(key);
        connection.provide_host_signature(&signature.blob)?;
        Ok(())
    }

    fn choose_group(
        &self,
        connection: &mut Connection,
        min_bits: u32,
        preferred_bits: u32,
        max_bits: u32,
    ) -> Result<(), AuthEnd> {
        let group: Group = self.rpc.ask(&ChooseGroup {
            min_bits,
            preferred_bits,
            max_bits,
        })?;
        connection.provide_group(transport::group(&group, &self.log))?;
        Ok(())
    }

    fn authenticate(
        &mut self,
        connection: &mut Connection,
        request: AuthRequest,
    ) -> Result<LoginStep, AuthEnd> {
        let AuthRequest {
            user,
            service,
            method,
        } = request;
        if service != names::SERVICE_CONNECTION.as_bytes() {
            return Err(AuthEnd::UnknownService);
        }
        if let Some(known) = self.user.as_ref().filter(|known| **known != user) {
            let who = |name: &[u8]| format!("({},{})", lossy(name), names::SERVICE_CONNECTION);
            let how = format!("{} -> {}", who(known), who(&user));
            return Err(AuthEnd::UserChanged(how));
        }
        self.user = Some(user);
        match method {
            AuthMethod::None => self.judge(connection, &AuthNone {}),
            AuthMethod::Password {
                password,
                new_password: None,
            } => {
                let password = Secret::new(password.to_vec());
                self.judge(connection, &AuthPassword { password })
            }
            AuthMethod::Password {
                new_password: Some(_),
                ..
            } => self.judge(
                connection,
                &AuthOther {
                    method: names::METHOD_PASSWORD.to_owned(),
                },
            ),
            AuthMethod::PublickeyQuery { algorithm, key } => {
                self.query_key(connection, &algorithm, key)
            }
            AuthMethod::Publickey {
                algorithm,
                key,
                signature,
                hostbound,
            } => {
                let hostbound = if hostbound {
                    self.host_key.clone()
                } else {
                    None
                };
                let algorithm = lossy(&algorithm);
                self.judge(
                    connection,
                    &KeyVerify {
                        algorithm,
                        key,
                        signature,
                        hostbound,
                    },
                )
            }
            AuthMethod::Hostbased {
                algorithm,
                key,
                host,
                user,
                signature,
            } => self.judge(
                connection,
                &HostbasedVerify {
                    algorithm: lossy(&algorithm),
                    key,
                    client_host: lossy(&host),
                    client_user: lossy(&user),
                    signature,
                },
            ),
            AuthMethod::GssapiWithMic {
                offers_kerberos: false,
            } => self.judge(
                connection,
                &AuthOther {
                    method: names::METHOD_GSSAPI_WITH_MIC.to_owned(),
                },
            ),
            AuthMethod::GssapiWithMic { .. } => self.exchange(connection, &GssapiStart {}),
            AuthMethod::GssapiToken { token } => self.exchange(connection, &GssapiToken { token }),
            AuthMethod::GssapiMic { mic } => self.exchange(connection, &GssapiMic { mic }),
            AuthMethod::GssapiKeyex { mic } => self.judge(connection, &GssapiKeyex { mic }),
            AuthMethod::KeyboardInteractive { submethods } => self.prompt_or_judge(
                connection,
                &KbdintStart {
                    devices: lossy(&submethods),
                },
            ),
            AuthMethod::InfoResponse { responses } => {
                let responses = responses
                    .iter()
                    .map(|each| Secret::new(each.to_vec()))
                    .collect();
                self.prompt_or_judge(connection, &KbdintRespond { responses })
            }
            AuthMethod::Unknown { name } => self.judge(
                connection,
                &AuthOther {
                    method: lossy(&name),
                },
            ),
        }
    }

    /// Sends a request to the monitor and waits for the answer. The first request goes together
    /// with the user's name, so that there is only one wait; EXT_INFO and the banner for that user
    /// are queued before the answer.
    fn ask<M: Message>(
        &mut self,
        connection: &mut Connection,
        request: &M,
    ) -> Result<Frame, AuthEnd> {
        if core::mem::replace(&mut self.is_named, true) {
            self.rpc.send(request)?;
        } else {
            let user = User {
                // A name that is not UTF-8 is no user's; it is answered like any unknown name.
                user: lossy(self.user.as_deref().unwrap_or_default()),
                service: names::SERVICE_CONNECTION.to_owned(),
                client_version: connection.peer_version().unwrap_or_default().to_owned(),
            };
            self.rpc.send_both(&user, request)?;
            let policy: UserPolicy = self.rpc.expect()?;
            let algorithms = transport::signature_algorithms(policy.pubkey_algorithms);
            connection.send_ext_info_in_auth(&borrowed(&algorithms))?;
            if let Some(banner) = policy.banner.filter(|banner| !banner.is_empty()) {
                connection.auth_banner(&banner)?;
            }
        }
        Ok(self.rpc.expect_frame()?)
    }

    fn judge<M: Message>(
        &mut self,
        connection: &mut Connection,
        request: &M,
    ) -> Result<LoginStep, AuthEnd> {
        let frame = self.ask(connection, request)?;
        conclude(connection, decode(&frame)?)
    }

    fn query_key(
        &mut self,
        connection: &mut Connection,
        algorithm: &[u8],
        key: Vec<u8>,
    ) -> Result<LoginStep, AuthEnd> {
        let request = KeyQuery {
            algorithm: lossy(algorithm),
            key,
        };
        let frame = self.ask(connection, &request)?;
        let answer: KeyAnswer = decode(&frame)?;
        if answer.too_many_failures {
            return Err(AuthEnd::TooManyFailures);
        }
        if answer.acceptable {
            connection.auth_pk_ok()?;
        } else {
            connection.auth_failure(&borrowed(&answer.methods), false)?;
        }
        Ok(LoginStep::Continue)
    }

    /// A step of `gssapi-with-mic`: the next token, or the outcome.
    fn exchange<M: Message>(
        &mut self,
        connection: &mut Connection,
        request: &M,
    ) -> Result<LoginStep, AuthEnd> {
        let mut frame = self.ask(connection, request)?;
        if frame.number == GssapiErrorToken::NUMBER {
            let error: GssapiErrorToken = decode(&frame)?;
            connection.auth_gssapi_error_token(&error.token)?;
            frame = self.rpc.expect_frame()?;
        }
        if frame.number != GssapiReady::NUMBER {
            return conclude(connection, decode(&frame)?);
        }
        let ready: GssapiReady = decode(&frame)?;
        if M::NUMBER == GssapiStart::NUMBER {
            connection.auth_gssapi_response()?;
        } else {
            connection.auth_gssapi_next(&ready.token)?;
        }
        Ok(LoginStep::Continue)
    }

    fn prompt_or_judge<M: Message>(
        &mut self,
        connection: &mut Connection,
        request: &M,
    ) -> Result<LoginStep, AuthEnd> {
        let frame = self.ask(connection, request)?;
        if frame.number != KbdintPrompts::NUMBER {
            return conclude(connection, decode(&frame)?);
        }
        let asked: KbdintPrompts = decode(&frame)?;
        let prompts: Vec<Prompt> = asked
            .prompts
            .into_iter()
            .map(|prompt| Prompt {
                text: prompt.text,
                echo: prompt.echo,
            })
            .collect();
        connection.auth_info_request(&asked.name, &asked.instruction, &prompts)?;
        Ok(LoginStep::Continue)
    }
}

fn decode<M: Message>(answer: &Frame) -> Result<M, AuthEnd> {
    Ok(answer.decode().map_err(RpcError::from)?)
}

fn conclude(connection: &mut Connection, outcome: AuthOutcome) -> Result<LoginStep, AuthEnd> {
    match outcome {
        AuthOutcome::Failure { methods } => connection.auth_failure(&borrowed(&methods), false)?,
        AuthOutcome::Partial { methods } => connection.auth_failure(&borrowed(&methods), true)?,
        AuthOutcome::Denied { methods, said } => {
            if !said.is_empty() {
                connection.auth_banner(&said)?;
            }
            connection.auth_failure(&borrowed(&methods), false)?;
        }
        AuthOutcome::TooManyFailures => return Err(AuthEnd::TooManyFailures),
        AuthOutcome::Success => {
            connection.auth_success()?;
            return Ok(LoginStep::Succeeded);
        }
    }
    Ok(LoginStep::Continue)
}

fn borrowed(methods: &[String]) -> Vec<&str> {
    methods.iter().map(String::as_str).collect()
}

/// Known algorithm and user names are ASCII; other bytes become a name that matches nothing.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
