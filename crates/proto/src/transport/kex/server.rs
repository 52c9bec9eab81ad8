//! The server's side of the key exchange methods.

use alloc::boxed::Box;

use crypto::kex::{DhGroup, KexFamily, SharedSecret};
use wire::Mpint;
use wire::message::{
    Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexGexGroup, KexGexInit, KexGexReply,
    KexGexRequest,
};

use super::Exchanging;
use super::derive::{GroupSizes, PublicValues, RequestedGroup, encode_secret, exchange_hash};
use super::state::{Kex, KexOutcome, KexStep, KexTerms, ServerStep};
use crate::{Error, Event};

impl Exchanging<'_> {
    fn await_next(&mut self, terms: Box<KexTerms>, step: ServerStep) {
        let step = KexStep::Server(step);
        self.exchange.state = Kex::Running { terms, step };
    }

    /// Processes a message of the method.
    pub(super) fn handle_as_server(
        &mut self,
        terms: Box<KexTerms>,
        step: ServerStep,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        match (step, number) {
            (ServerStep::GexRequest, KexGexRequest::NUMBER) => {
                let request = KexGexRequest::decode(payload)?;
                let request = (request.min, request.preferred, request.max);
                self.request_group(terms, request)
            }
            (ServerStep::Init(group), _) => {
                let kex = terms.agreement.kex;
                let client = client_public(kex.family(), number, payload)?;
                let (public, secret) = match &group {
                    Some(chosen) => crypto::kex::respond_with_group(&chosen.group, client)?,
                    None => crypto::kex::respond(kex, client)?,
                };
                let values = PublicValues {
                    family: kex.family(),
                    group: group.as_ref(),
                    client,
                    server: &public,
                };
                self.request_signature(terms, &values, &secret)
            }
            (ServerStep::GssInit, _) => self.handle_gss_init(terms, payload),
            (ServerStep::Gss(gss), _) => self.handle_gss_continue(terms, gss, payload),
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    fn request_group(&mut self, terms: Box<KexTerms>, request: GroupSizes) -> Result<(), Error> {
        let (min, preferred, max) = request;
        if min > preferred || preferred > max || max < 2048 {
            return Err(Error::PeerMisbehaved(
                "group exchange sizes out of order or too small",
            ));
        }
        self.events.push_back(Event::ChooseGroup {
            min,
            preferred,
            max,
        });
        self.await_next(terms, ServerStep::GroupChoice(request));
        Ok(())
    }

    /// Sends the owner's choice of a group; `None` ends the connection.
    pub(in crate::transport) fn provide_group(
        &mut self,
        group: Option<DhGroup>,
    ) -> Result<(), Error> {
        match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Server(ServerStep::GroupChoice(request)),
            } => {
                let group = group.ok_or(Error::PeerMisbehaved("no group of the requested size"))?;
                self.outbound.send_kex(&KexGexGroup {
                    p: Mpint::from_magnitude(&group.p()),
                    g: Mpint::from_magnitude(&group.g()),
                })?;
                let chosen = RequestedGroup { request, group };
                self.await_next(terms, ServerStep::Init(Some(chosen)));
                Ok(())
            }
            other => {
                self.exchange.state = other;
                Err(Error::Misuse("no group was requested"))
            }
        }
    }

    /// Computes the exchange hash from our public value and requests its signature.
    fn request_signature(
        &mut self,
        terms: Box<KexTerms>,
        values: &PublicValues<'_>,
        secret: &SharedSecret,
    ) -> Result<(), Error> {
        let agreement = terms.agreement;
        let name = agreement.signed_host_key()?.name();
        let key = self
            .exchange
            .host_keys
            .iter()
            .find(|key| key.algorithms.iter().any(|each| each == name))
            .map(|key| key.blob.clone())
            .ok_or(Error::Bug("negotiated a host key that does not exist"))?;
        let secret = encode_secret(secret);
        let hash = exchange_hash(
            agreement.kex.hash(),
            &self.transcript(&terms, &key),
            values,
            &secret,
        );
        self.events.push_back(Event::SignExchangeHash {
            algorithm: name,
            kex: agreement.kex.name(),
            key: key.clone(),
            hash,
        });
        let outcome = KexOutcome {
            hash,
            secret,
            host_key: key,
            host_signature: alloc::vec::Vec::new(),
        };
        let public = values.server.to_vec();
        self.await_next(terms, ServerStep::Signature { outcome, public });
        Ok(())
    }

    /// Sends the reply with the host key's signature over the exchange hash.
    pub(in crate::transport) fn provide_host_signature(
        &mut self,
        signature: &[u8],
    ) -> Result<(), Error> {
        let (terms, outcome, public) = match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Server(ServerStep::Signature { outcome, public }),
            } => (terms, outcome, public),
            other => {
                self.exchange.state = other;
                return Err(Error::Misuse("no signature was requested"));
            }
        };
        let host_key = &outcome.host_key[..];
        let mpint = Mpint::from_magnitude(&public);
        match terms.agreement.kex.family() {
            KexFamily::Dh => self.outbound.send_kex(&KexDhReply {
                host_key,
                public: mpint,
                signature,
            })?,
            KexFamily::DhGroupExchange => self.outbound.send_kex(&KexGexReply {
                host_key,
                public: mpint,
                signature,
            })?,
            KexFamily::Ecdh | KexFamily::Curve25519 | KexFamily::Hybrid => {
                self.outbound.send_kex(&KexEcdhReply {
                    host_key,
                    public: &public,
                    signature,
                })?;
            }
        }
        self.finish(terms, &outcome)
    }
}

/// The client's public value in KEX_*_INIT of a method of this family.
fn client_public(family: KexFamily, number: u8, payload: &[u8]) -> Result<&[u8], Error> {
    Ok(match (family, number) {
        (KexFamily::Dh, KexDhInit::NUMBER) => KexDhInit::decode(payload)?.public.magnitude(),
        (KexFamily::DhGroupExchange, KexGexInit::NUMBER) => {
            KexGexInit::decode(payload)?.public.magnitude()
        }
        (KexFamily::Ecdh | KexFamily::Curve25519 | KexFamily::Hybrid, KexEcdhInit::NUMBER) => {
            KexEcdhInit::decode(payload)?.public
        }
        _ => return Err(Error::NotPermitted { message: number }),
    })
}
