//! Key exchanges by GSS-API (RFC 4462 §2, RFC 8732): the client's tokens go to an acceptor process, which makes the MIC
//! of the exchange hash.
//!
//! Invariants: a MIC is made of one hash, of the length of the configured method, in a context that is established
//! with mutual authentication and only if [`Signer`] permits it; method and hash do not change during an exchange;
//! the number of tokens is limited.

use gssapi::{Client, GssFailure, KerberosAcceptor};
use privsep::{GssExchange, GssOutcome};

use super::kerberos::{Kerberos, TicketTerms};
use super::signing::Signer;
use crate::log::Log;

/// Most tokens of an exchange; Kerberos needs one.
const MAX_TOKENS: u32 = 16;

/// An exchange with its acceptor.
pub(crate) struct OpenExchange {
    acceptor: KerberosAcceptor,
    kex: String,
    hash: Vec<u8>,
    tokens: u32,
    is_complete: bool,
}

/// The reply to a token, and the client of an exchange that is complete.
pub(crate) struct GssReply {
    pub(crate) outcome: GssOutcome,
    pub(crate) client: Option<Client>,
}

impl OpenExchange {
    /// Starts the acceptor. The signer must have permitted the exchange.
    ///
    /// # Errors
    /// [`GssFailure`], for example that the keytab has no key.
    pub(crate) fn begin(
        kerberos: &Kerberos<'_>,
        terms: TicketTerms,
        request: &GssExchange,
    ) -> Result<Self, GssFailure> {
        Ok(Self {
            acceptor: kerberos.acceptor(terms, None)?,
            kex: request.kex_algorithm.clone(),
            hash: request.hash.clone(),
            tokens: 0,
            is_complete: false,
        })
    }

    /// Takes a token of the client.
    ///
    /// # Errors
    /// The rule that the request violates.
    pub(crate) fn take(
        &mut self,
        request: GssExchange,
        signer: &mut Signer,
        log: &Log,
    ) -> Result<GssReply, &'static str> {
        if self.is_complete || self.kex != request.kex_algorithm || self.hash != request.hash {
            return Err("another hash within a key exchange by GSS-API");
        }
        self.tokens += 1;
        if self.tokens > MAX_TOKENS {
            return Err("too many tokens of a key exchange by GSS-API");
        }
        Ok(self.step(request.token, signer).unwrap_or_else(|failure| {
            log.debug(&format!("GSSAPI key exchange: {failure}"));
            refused(failure.token)
        }))
    }

    fn step(&mut self, token: Vec<u8>, signer: &mut Signer) -> Result<GssReply, GssFailure> {
        let step = self.acceptor.step(token)?;
        let token = step.token;
        if !step.is_complete {
            return Ok(GssReply {
                outcome: GssOutcome::Continue { token },
                client: None,
            });
        }
        let client = self.acceptor.client()?;
        if !signer.permits_principal(&client.name) {
            return Err(GssFailure::plain(
                "a rekey with the ticket of another principal",
            ));
        }
        let mic = self.acceptor.mic(self.hash.clone())?;
        signer.note_gss(&self.hash, &client.name);
        self.is_complete = true;
        Ok(GssReply {
            outcome: GssOutcome::Complete { token, mic },
            client: Some(client),
        })
    }

    /// Verifies the MIC of `gssapi-keyex` in the context of the complete exchange, and names the client.
    ///
    /// # Errors
    /// [`GssFailure`]; then nobody has proved anything.
    pub(crate) fn verify(&self, data: Vec<u8>, mic: Vec<u8>) -> Result<Client, GssFailure> {
        match self.is_complete {
            true => self.acceptor.verify(data, mic),
            false => Err(GssFailure::plain("the key exchange is not complete")),
        }
    }
}

/// The reply that ends the exchange, with the mechanism's token for the client or an empty one.
pub(crate) fn refused(token: Vec<u8>) -> GssReply {
    GssReply {
        outcome: GssOutcome::Refused { token },
        client: None,
    }
}
