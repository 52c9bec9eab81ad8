//! Key exchanges whose proof is a MIC of GSS-API instead of a host key's signature: RFC 4462 §2 with the groups of
//! RFC 8732.
//!
//! The tokens are made and read by the owner, as is the MIC. Both sides' public values and K are those of the
//! method's family. Invariants: the client accepts COMPLETE only with a MIC, and with a token exactly if its own
//! context still needs one; the server completes only with the owner's MIC; the number of tokens is limited. K_S
//! is what HOSTKEY contained, or empty, and no identity of the server afterwards.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crypto::kex::KexFamily;
use wire::message::{
    Encode, KexGssComplete, KexGssContinue, KexGssError, KexGssHostKey, KexGssInit,
};
use wire::{Mpint, Put, Reader, Rest};

use super::Exchanging;
use super::derive::{PublicValues, encode_secret, exchange_hash};
use super::state::{
    ClientStep, ClientTurn, GssClient, GssServer, Half, Kex, KexOutcome, KexStep, KexTerms,
    ServerStep,
};
use crate::limits::{MAX_GSSAPI_TOKEN_BYTES, MAX_GSSAPI_TOKENS};
use crate::{Error, Event};

/// Longest MIC that is passed to the owner, bytes; those of Kerberos have about 30.
const MAX_MIC_BYTES: usize = 4096;
/// GSS_S_FAILURE, RFC 2744 §3.9.1.
const GSS_FAILURE: u32 = 13 << 16;

impl GssClient {
    fn note_token(&mut self, token: &[u8]) -> Result<(), Error> {
        self.tokens += 1;
        check_token(self.tokens, token)
    }
}

fn check_token(count: u32, token: &[u8]) -> Result<(), Error> {
    match count > MAX_GSSAPI_TOKENS || token.len() > MAX_GSSAPI_TOKEN_BYTES {
        true => Err(Error::PeerMisbehaved("too many or too long GSS-API tokens")),
        false => Ok(()),
    }
}

/// The content of a public value's string: of a group's the encoding of an mpint.
fn content(family: KexFamily, public: &[u8]) -> Vec<u8> {
    match family {
        KexFamily::Dh | KexFamily::DhGroupExchange => {
            let mut mpint = Vec::with_capacity(public.len() + 8);
            mpint.put_mpint(public);
            mpint.split_off(4)
        }
        _ => public.to_vec(),
    }
}

/// The public value of such a string, as the messages of the method's family have it.
fn value(family: KexFamily, content: &[u8]) -> Result<&[u8], Error> {
    match family {
        KexFamily::Dh | KexFamily::DhGroupExchange => Ok(Mpint::from_content(content)?.magnitude()),
        _ => Ok(content),
    }
}

/// The client's side.
impl Exchanging<'_> {
    /// Asks the owner for the first token.
    pub(super) fn begin_gss(&mut self, half: Box<Half>) -> ClientStep {
        self.events.push_back(Event::GssToken { token: Vec::new() });
        ClientStep::Gss(GssClient::new(half))
    }

    pub(super) fn handle_gss_as_client(
        &mut self,
        terms: Box<KexTerms>,
        mut gss: Box<GssClient>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        let ClientTurn::Server(is_established) = gss.turn else {
            return Err(Error::NotPermitted { message: number });
        };
        match number {
            KexGssHostKey::NUMBER => {
                let key = KexGssHostKey::decode(payload)?.host_key;
                if gss.host_key.is_some() || key.len() > keys::MAX_BLOB_BYTES {
                    return Err(Error::PeerMisbehaved("a second or too long KEXGSS_HOSTKEY"));
                }
                gss.host_key = Some(key.to_vec());
            }
            KexGssContinue::NUMBER => {
                let token = KexGssContinue::decode(payload)?.token;
                if is_established || token.is_empty() {
                    return Err(Error::PeerMisbehaved("KEXGSS_CONTINUE without need"));
                }
                gss.note_token(token)?;
                let token = token.to_vec();
                self.events.push_back(Event::GssToken { token });
                gss.turn = ClientTurn::Answer;
            }
            KexGssComplete::NUMBER => return self.complete(terms, *gss, is_established, payload),
            KexGssError::NUMBER => {
                let error = KexGssError::decode(payload)?;
                let text = String::from_utf8_lossy(error.text).into_owned();
                return Err(Error::GssFailed(text));
            }
            _ => return Err(Error::NotPermitted { message: number }),
        }
        self.await_server(terms, gss);
        Ok(())
    }

    fn await_server(&mut self, terms: Box<KexTerms>, gss: Box<GssClient>) {
        self.exchange.state = Kex::Running {
            terms,
            step: KexStep::Client(ClientStep::Gss(gss)),
        };
    }

    /// Computes the exchange hash, and asks the owner to verify its MIC.
    fn complete(
        &mut self,
        terms: Box<KexTerms>,
        mut gss: GssClient,
        is_established: bool,
        payload: &[u8],
    ) -> Result<(), Error> {
        let complete = KexGssComplete::decode(payload)?;
        let token = match complete.has_token {
            true => {
                let mut reader = Reader::new(complete.token.0);
                let token = reader.string()?;
                reader.finish()?;
                gss.note_token(token)?;
                Some(token.to_vec())
            }
            false => {
                Reader::new(complete.token.0).finish()?;
                None
            }
        };
        if is_established == token.is_some() {
            return Err(Error::PeerMisbehaved(
                "KEXGSS_COMPLETE with a token too many or without the last one",
            ));
        }
        if complete.mic.is_empty() || complete.mic.len() > MAX_MIC_BYTES {
            return Err(Error::PeerMisbehaved("KEXGSS_COMPLETE without a MIC"));
        }
        let kex = terms.agreement.kex;
        let server = value(kex.family(), complete.public)?;
        let GssClient { half, host_key, .. } = gss;
        let Half {
            initiator, public, ..
        } = *half;
        let secret = encode_secret(&initiator.finish(server)?);
        let values = PublicValues {
            family: kex.family(),
            group: None,
            client: &public,
            server,
        };
        let host_key = host_key.unwrap_or_default();
        let transcript = self.transcript(&terms, &host_key);
        let hash = exchange_hash(kex.hash(), &transcript, &values, &secret);
        self.events.push_back(Event::GssComplete {
            token,
            hash,
            mic: complete.mic.to_vec(),
        });
        let outcome = KexOutcome {
            hash,
            secret,
            host_key: Vec::new(),
            host_signature: Vec::new(),
        };
        let step = ClientStep::GssProof(Box::new(outcome));
        self.exchange.state = Kex::Running {
            terms,
            step: KexStep::Client(step),
        };
        Ok(())
    }

    /// Sends the owner's token, which is empty if there is none.
    pub(in crate::transport) fn provide_gss_token(
        &mut self,
        token: &[u8],
        is_established: bool,
    ) -> Result<(), Error> {
        let (terms, mut gss) = match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Client(ClientStep::Gss(gss)),
            } if gss.waits_for_owner() => (terms, gss),
            other => {
                self.exchange.state = other;
                return Err(Error::Misuse("no token was asked for"));
            }
        };
        if token.is_empty() {
            return Err(Error::PeerMisbehaved("a GSS-API exchange without an end"));
        }
        match gss.turn {
            ClientTurn::First => {
                let family = gss.half.kex.family();
                let public = content(family, &gss.half.public);
                let public = &public[..];
                self.outbound.send_kex(&KexGssInit { token, public })?;
            }
            _ => self.outbound.send_kex(&KexGssContinue { token })?,
        }
        gss.turn = ClientTurn::Server(is_established);
        self.await_server(terms, gss);
        Ok(())
    }

    /// Continues after the owner has verified the MIC.
    pub(in crate::transport) fn accept_gss(&mut self) -> Result<(), Error> {
        match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Client(ClientStep::GssProof(outcome)),
            } => self.finish_gss(terms, &outcome),
            other => {
                self.exchange.state = other;
                Err(Error::Misuse("no MIC awaits a decision"))
            }
        }
    }

    /// Completes the exchange. A rekey is by GSS-API only if the first exchange was.
    fn finish_gss(&mut self, terms: Box<KexTerms>, outcome: &KexOutcome) -> Result<(), Error> {
        match &self.exchange.session {
            Some(session) if !session.is_by_gss() => {
                Err(Error::Bug("a GSS-API rekey after another exchange"))
            }
            _ => self.finish(terms, outcome),
        }
    }
}

/// The server's side.
impl Exchanging<'_> {
    fn await_gss(&mut self, terms: Box<KexTerms>, gss: Box<GssServer>) {
        let step = KexStep::Server(ServerStep::Gss(gss));
        self.exchange.state = Kex::Running { terms, step };
    }

    /// Passes the client's token on with the exchange hash.
    fn ask_acceptor(&mut self, terms: &KexTerms, gss: &mut GssServer, token: &[u8]) {
        gss.waits_for_owner = true;
        self.events.push_back(Event::GssAccept {
            kex: terms.agreement.kex.name(),
            hash: gss.outcome.hash,
            token: token.to_vec(),
        });
    }

    /// Handles INIT.
    pub(super) fn handle_gss_init(
        &mut self,
        terms: Box<KexTerms>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        if number != KexGssInit::NUMBER {
            return Err(Error::NotPermitted { message: number });
        }
        let init = KexGssInit::decode(payload)?;
        check_token(1, init.token)?;
        let kex = terms.agreement.kex;
        let client = value(kex.family(), init.public)?;
        let (public, secret) = crypto::kex::respond(kex, client)?;
        let values = PublicValues {
            family: kex.family(),
            group: None,
            client,
            server: &public,
        };
        let secret = encode_secret(&secret);
        // HOSTKEY is not sent, so K_S is empty.
        let hash = exchange_hash(kex.hash(), &self.transcript(&terms, &[]), &values, &secret);
        let mut gss = Box::new(GssServer {
            public,
            outcome: KexOutcome {
                hash,
                secret,
                host_key: Vec::new(),
                host_signature: Vec::new(),
            },
            tokens: 1,
            waits_for_owner: false,
        });
        self.ask_acceptor(&terms, &mut gss, init.token);
        self.await_gss(terms, gss);
        Ok(())
    }

    /// Handles CONTINUE.
    pub(super) fn handle_gss_continue(
        &mut self,
        terms: Box<KexTerms>,
        mut gss: Box<GssServer>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        if number != KexGssContinue::NUMBER {
            return Err(Error::NotPermitted { message: number });
        }
        let token = KexGssContinue::decode(payload)?.token;
        gss.tokens += 1;
        check_token(gss.tokens, token)?;
        self.ask_acceptor(&terms, &mut gss, token);
        self.await_gss(terms, gss);
        Ok(())
    }

    /// The exchange that waits for the owner.
    fn gss_in_turn(&mut self) -> Result<(Box<KexTerms>, Box<GssServer>), Error> {
        match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Server(ServerStep::Gss(gss)),
            } if gss.waits_for_owner => Ok((terms, gss)),
            other => {
                self.exchange.state = other;
                Err(Error::Misuse("no token awaits an answer"))
            }
        }
    }

    /// Sends the acceptor's token and awaits the client's.
    pub(in crate::transport) fn continue_gss(&mut self, token: &[u8]) -> Result<(), Error> {
        let (terms, mut gss) = self.gss_in_turn()?;
        self.outbound.send_kex(&KexGssContinue { token })?;
        gss.waits_for_owner = false;
        self.await_gss(terms, gss);
        Ok(())
    }

    /// Completes the exchange with the acceptor's last token, which may be empty, and the MIC of the hash.
    pub(in crate::transport) fn complete_gss(
        &mut self,
        token: &[u8],
        mic: &[u8],
    ) -> Result<(), Error> {
        let (terms, gss) = self.gss_in_turn()?;
        let mut last = Vec::new();
        if !token.is_empty() {
            last.put_string(token);
        }
        let public = content(terms.agreement.kex.family(), &gss.public);
        self.outbound.send_kex(&KexGssComplete {
            public: &public,
            mic,
            has_token: !token.is_empty(),
            token: Rest(&last),
        })?;
        self.finish_gss(terms, &gss.outcome)
    }

    /// Sends the acceptor's error token, which may be empty, and KEXGSS_ERROR; the connection is then over.
    pub(in crate::transport) fn refuse_gss(&mut self, token: &[u8]) -> Error {
        if let Err(error) = self.gss_in_turn() {
            return error;
        }
        let text = "the server does not accept the ticket";
        let mut sent = Ok(());
        if !token.is_empty() {
            sent = self.outbound.send_kex(&KexGssContinue { token });
        }
        let sent = sent.and_then(|()| {
            self.outbound.send_kex(&KexGssError {
                major: GSS_FAILURE,
                minor: 0,
                text: text.as_bytes(),
                language: b"",
            })
        });
        match sent {
            Ok(()) => Error::GssFailed(String::from(text)),
            Err(error) => error,
        }
    }
}
