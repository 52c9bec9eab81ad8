//! The server's side of the key exchange methods.

use alloc::boxed::Box;

use crypto::kex::{DhGroup, KexFamily, SharedSecret};
use wire::Mpint;
use wire::message::{
    Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexGexGroup, KexGexInit, KexGexReply,
    KexGexRequest,
};

use super::Exchanging;
use super::derive::{PublicValues, encode_secret, exchange_hash};
use super::state::{GroupSizes, Kex, KexOutcome, KexReply, KexStep, KexTerms, ServerStep};
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
        let kex = terms.agreement.kex;
        match (step, number) {
            (ServerStep::Init, KexDhInit::NUMBER) if kex.family() == KexFamily::Dh => {
                let init = KexDhInit::decode(payload)?;
                let (public, secret) = crypto::kex::respond(kex, init.public.magnitude())?;
                let values = PublicValues::Mpints {
                    e: init.public.magnitude(),
                    f: &public,
                };
                self.request_signature(terms, &values, &secret, KexReply::Dh(public.clone()))
            }
            (ServerStep::Init, KexEcdhInit::NUMBER) => {
                let init = KexEcdhInit::decode(payload)?;
                let (public, secret) = crypto::kex::respond(kex, init.public)?;
                let values = PublicValues::Strings {
                    client: init.public,
                    server: &public,
                };
                self.request_signature(terms, &values, &secret, KexReply::Ecdh(public.clone()))
            }
            (ServerStep::GexRequest, KexGexRequest::NUMBER) => {
                let request = KexGexRequest::decode(payload)?;
                let request = (request.min, request.preferred, request.max);
                self.request_group(terms, request)
            }
            (ServerStep::GexInit { request, group }, KexGexInit::NUMBER) => {
                let init = KexGexInit::decode(payload)?;
                let (public, secret) =
                    crypto::kex::respond_with_group(&group, init.public.magnitude())?;
                let values = PublicValues::Group {
                    request,
                    p: &group.p(),
                    g: &group.g(),
                    e: init.public.magnitude(),
                    f: &public,
                };
                self.request_signature(terms, &values, &secret, KexReply::Gex(public.clone()))
            }
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
                self.await_next(terms, ServerStep::GexInit { request, group });
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
        reply: KexReply,
    ) -> Result<(), Error> {
        let agreement = terms.agreement;
        let name = agreement.host_key.name();
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
        };
        self.await_next(terms, ServerStep::Signature { outcome, reply });
        Ok(())
    }

    /// Sends the reply with the host key's signature over the exchange hash.
    pub(in crate::transport) fn provide_host_signature(
        &mut self,
        signature: &[u8],
    ) -> Result<(), Error> {
        let (terms, outcome, reply) = match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Server(ServerStep::Signature { outcome, reply }),
            } => (terms, outcome, reply),
            other => {
                self.exchange.state = other;
                return Err(Error::Misuse("no signature was requested"));
            }
        };
        let host_key = &outcome.host_key[..];
        match &reply {
            KexReply::Ecdh(public) => self.outbound.send_kex(&KexEcdhReply {
                host_key,
                public,
                signature,
            })?,
            KexReply::Dh(public) => self.outbound.send_kex(&KexDhReply {
                host_key,
                public: Mpint::from_magnitude(public),
                signature,
            })?,
            KexReply::Gex(public) => self.outbound.send_kex(&KexGexReply {
                host_key,
                public: Mpint::from_magnitude(public),
                signature,
            })?,
        }
        self.finish(terms, &outcome)
    }
}
