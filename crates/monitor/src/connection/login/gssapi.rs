//! Methods `gssapi-with-mic` (RFC 4462 §3) and `gssapi-keyex` (§4) with Kerberos, and the first key exchange by
//! GSS-API: the client's tokens go to an acceptor process, and its MIC over the session identifier is the proof.
//!
//! Invariants: the exchange takes the same steps for users who do not exist or may not log in, and
//! only then is the result dropped; an exchange that the client leaves counts as a failure.

use gssapi::{Client, KerberosAcceptor};
use privsep::{
    GssExchange, GssapiErrorToken, GssapiMic, GssapiReady, GssapiToken, LoginPhase, Message,
    ToMonitor,
};
use wire::userauth::{gssapi_keyex_signed_data, gssapi_signed_data};

use super::{AuthService, Label, NotLoggedIn, POSTPONED, attempt_line, no_user};
use crate::connection::admit::Proof;
use crate::connection::chains::ChainMethod;
use crate::connection::channel::{RpcEnd, decode};
use crate::connection::gss_exchange::{self, OpenExchange};
use crate::connection::kerberos::{Delegated, TicketTerms};

/// How an exchange ended.
enum GssapiEnd {
    Proven(Client),
    Failed,
    /// The client has started another method.
    Left,
}

impl AuthService<'_, '_, '_> {
    /// Runs `gssapi-with-mic`; returns `None` if the client changed to another method.
    pub(super) fn try_gssapi(&mut self) -> Result<Option<(Label, Option<Proof>)>, NotLoggedIn> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let method = ChainMethod::GssapiWithMic;
        let mut label = Label::of(method, user.chains.allows(method));
        if !label.is_tried {
            return Ok(Some((label, None)));
        }
        let terms = TicketTerms::of(&user.options, false);
        let acceptor = match self.kerberos.acceptor(terms, None) {
            Ok(acceptor) => acceptor,
            Err(failure) => {
                self.log.error(&format!("GSSAPI: {failure}"));
                return Ok(Some((label, None)));
            }
        };
        let (level, line, _) = attempt_line(user, POSTPONED, &label, false);
        self.channel.send(&GssapiReady { token: Vec::new() })?;
        self.channel.log_for(level, &line);
        self.channel.set_phase(LoginPhase::Exchanging);
        let ended = self.exchange(&acceptor);
        self.channel.set_phase(LoginPhase::Authenticating);
        drop(acceptor);
        match ended? {
            GssapiEnd::Proven(client) => {
                label.detail.clone_from(&client.principal);
                let proof = self.authorize(client, method)?;
                Ok(Some((label, proof)))
            }
            GssapiEnd::Failed => Ok(Some((label, None))),
            GssapiEnd::Left => {
                self.note_attempt();
                // The next request is refused if this was the last try.
                self.count_failure(&label)?;
                Ok(None)
            }
        }
    }

    /// Serves a token of the first key exchange.
    pub(super) fn exchange_keys(&mut self, request: GssExchange) -> Result<(), NotLoggedIn> {
        if self.gss.is_none() {
            let now_ms = sys::time::monotonic_ms();
            self.signer
                .allow_gss(&request.kex_algorithm, &request.hash, false, now_ms)
                .map_err(|refusal| self.refused(&refusal))?;
            let options = self.config.for_connection(&self.addresses.spec());
            let terms = TicketTerms::of(&options, true);
            match OpenExchange::begin(&self.kerberos, terms, &request) {
                Ok(exchange) => self.gss = Some(exchange),
                Err(failure) => {
                    self.log.error(&format!("GSSAPI key exchange: {failure}"));
                    self.channel
                        .send(&gss_exchange::refused(Vec::new()).outcome)?;
                    return Ok(());
                }
            }
        }
        let Some(exchange) = &mut self.gss else {
            return Ok(());
        };
        let reply = exchange
            .take(request, &mut self.signer, self.log)
            .map_err(|what| RpcEnd::Violation(what.to_owned()))?;
        if let Some(client) = reply.client {
            let principal = client.principal;
            self.log
                .debug(&format!("GSSAPI key exchange with {principal}"));
            self.channel.set_phase(LoginPhase::BeforeUser);
        }
        self.channel.send(&reply.outcome)?;
        Ok(())
    }

    /// Verifies the MIC of `gssapi-keyex`.
    pub(super) fn try_gssapi_keyex(
        &mut self,
        mic: Vec<u8>,
    ) -> Result<(Label, Option<Proof>), NotLoggedIn> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let method = ChainMethod::GssapiKeyex;
        let mut label = Label::of(method, user.chains.allows(method));
        let (true, Some(exchange)) = (label.is_tried, &self.gss) else {
            return Ok((label, None));
        };
        let session_id = self.signer.session_id().unwrap_or_default();
        let (said, service) = (user.said.as_bytes(), user.service.as_bytes());
        let data = gssapi_keyex_signed_data(session_id, said, service);
        match exchange.verify(data, mic) {
            Ok(client) => {
                label.detail.clone_from(&client.principal);
                let proof = self.authorize(client, method)?;
                Ok((label, proof))
            }
            Err(failure) => {
                self.log.debug(&format!("GSSAPI: {failure}"));
                Ok((label, None))
            }
        }
    }

    /// Passes tokens between the client and the acceptor until the client proves who it is.
    fn exchange(&mut self, acceptor: &KerberosAcceptor) -> Result<GssapiEnd, NotLoggedIn> {
        loop {
            let frame = self.channel.frame()?;
            let user = self.user.as_mut().ok_or_else(no_user)?;
            user.started_us = sys::time::monotonic_us();
            if ![GssapiToken::NUMBER, GssapiMic::NUMBER].contains(&frame.number) {
                self.channel.set_aside(frame);
                return Ok(GssapiEnd::Left);
            }
            let failure = match decode(&frame)? {
                ToMonitor::GssapiToken(request) => match acceptor.step(request.token) {
                    Ok(step) => {
                        let token = step.token;
                        self.channel.send(&GssapiReady { token })?;
                        continue;
                    }
                    Err(failure) => failure,
                },
                ToMonitor::GssapiMic(request) => {
                    // A client that proves who it is expects to be let in.
                    self.ahead.start(self.log);
                    let session_id = self.signer.session_id().unwrap_or_default();
                    let (said, service) = (user.said.as_bytes(), user.service.as_bytes());
                    let data = gssapi_signed_data(session_id, said, service);
                    match acceptor.verify(data, request.mic) {
                        Ok(client) => return Ok(GssapiEnd::Proven(client)),
                        Err(failure) => failure,
                    }
                }
                _ => return Ok(GssapiEnd::Failed),
            };
            self.log.debug(&format!("GSSAPI: {failure}"));
            if !failure.token.is_empty() {
                let token = failure.token;
                self.channel.send_with_next(&GssapiErrorToken { token });
            }
            return Ok(GssapiEnd::Failed);
        }
    }

    /// Decides whether the client's principal may log in as the user. For a user who may not log in at
    /// all the same question is asked about nobody.
    fn authorize(
        &mut self,
        client: Client,
        method: ChainMethod,
    ) -> Result<Option<Proof>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        let account = user.account_or_decoy();
        let permitted = self.kerberos.permits(&account, &client, None, self.log);
        if !permitted || user.account().is_none() {
            self.log.debug(&format!(
                "krb5 principal {} may not log in as {}",
                client.principal,
                user.shown_name()
            ));
            return Ok(None);
        }
        self.log.info(&format!(
            "Authorized to {}, krb5 principal {} (krb5_kuserok)",
            user.name, client.principal
        ));
        // The acceptor may say anything; a line is one method's.
        let principal = client.principal.replace('\n', "\\n");
        // A client that delegates nothing leaves the session the tickets of a password.
        if let Some(delegated) = Delegated::of(client) {
            user.delegated = Some(delegated);
        }
        Ok(Some(Proof {
            info: Some(format!("{} {principal}", method.name())),
            ..Proof::default()
        }))
    }
}
