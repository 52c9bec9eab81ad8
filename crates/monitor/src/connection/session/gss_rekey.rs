//! Rekeys by GSS-API, with an acceptor of their own each.

use privsep::{GssExchange, GssOutcome};

use super::MonitorSession;
use crate::connection::channel::{RpcChannel, RpcEnd};
use crate::connection::gss_exchange::{self, OpenExchange};
use crate::connection::kerberos::Delegated;

impl MonitorSession<'_> {
    /// Serves a token of a rekey by GSS-API.
    pub(super) fn exchange_keys(
        &mut self,
        channel: &mut RpcChannel<'_>,
        request: GssExchange,
    ) -> Result<(), RpcEnd> {
        let mut exchange = match self.gss.take() {
            Some(exchange) => exchange,
            None => {
                let (kex, hash) = (&request.kex_algorithm, &request.hash);
                self.in_turn(|signer, now_ms| signer.allow_gss(kex, hash, true, now_ms))?;
                let kerberos = self.kerberos.as_ref().ok_or(RpcEnd::Closed)?;
                match OpenExchange::begin(kerberos, self.terms.tickets, &request) {
                    Ok(exchange) => exchange,
                    Err(failure) => {
                        self.log.error(&format!("GSSAPI key exchange: {failure}"));
                        return channel.send(&gss_exchange::refused(Vec::new()).outcome);
                    }
                }
            }
        };
        let reply = exchange
            .take(request, &mut self.signer, self.log)
            .map_err(|what| RpcEnd::Violation(what.to_owned()))?;
        match reply.client {
            Some(client) => {
                self.traffic.rekeyed();
                if let Some(delegated) = Delegated::of(client) {
                    self.renew_delegated(delegated);
                }
            }
            None if matches!(reply.outcome, GssOutcome::Continue { .. }) => {
                self.gss = Some(exchange);
            }
            None => {}
        }
        channel.send(&reply.outcome)
    }

    /// Replaces the session's delegated credentials by those of a rekey.
    fn renew_delegated(&self, delegated: Delegated) {
        let Some(cache) = &self.cache else { return };
        match cache.replace(self.executable, &self.account, delegated) {
            Ok(()) => self
                .log
                .debug("GSSAPI: the rekey has renewed the credentials"),
            Err(error) => self.log.error(&format!("delegated credentials: {error}")),
        }
    }
}
