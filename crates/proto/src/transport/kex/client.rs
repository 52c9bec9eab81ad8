//! The client's side of the key exchange methods.

use alloc::boxed::Box;

use crypto::kex::{DhGroup, DhPolicy, Initiator, KexAlgorithm, KexFamily, Primality, SharedSecret};
use wire::Mpint;
use wire::message::{
    Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexGexGroup, KexGexInit, KexGexReply,
    KexGexRequest,
};

use super::derive::{PublicValues, encode_secret, exchange_hash};
use super::state::{ClientStep, Half, Kex, KexOutcome, KexStep, KexTerms};
use super::{Exchanging, host_key};
use crate::{Error, Event};

/// Policy for a group from a server. It is used with our secret, so it must be a safe prime of the
/// requested size.
fn received_group_policy(min_bits: u32, max_bits: u32) -> DhPolicy {
    let size = |bits| usize::try_from(bits).unwrap_or(usize::MAX);
    DhPolicy {
        min_bits: size(min_bits),
        max_bits: size(max_bits),
        primality: Primality::Safe,
    }
}

impl Exchanging<'_> {
    /// Sends the method's first packet, unless it was guessed rightly.
    pub(super) fn begin_as_client(
        &mut self,
        kex: KexAlgorithm,
        guess: Option<Box<Half>>,
    ) -> Result<ClientStep, Error> {
        if let Some(guess) = guess {
            return Ok(ClientStep::Reply(guess));
        }
        if kex.family() == KexFamily::DhGroupExchange {
            let (min, preferred, max) = self.config.group_exchange_bits;
            self.outbound.send_kex(&KexGexRequest {
                min,
                preferred,
                max,
            })?;
            return Ok(ClientStep::Group);
        }
        let half = self.take_half(kex)?;
        self.send_init(&half)?;
        Ok(ClientStep::Reply(half))
    }

    /// Processes a message of the method.
    pub(super) fn handle_as_client(
        &mut self,
        terms: Box<KexTerms>,
        step: ClientStep,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        let family = terms.agreement.kex.family();
        match (step, number) {
            (ClientStep::Reply(half), KexDhReply::NUMBER) if family == KexFamily::Dh => {
                let reply = KexDhReply::decode(payload)?;
                let secret = half.initiator.finish(reply.public.magnitude())?;
                let values = PublicValues::Mpints {
                    e: &half.public,
                    f: reply.public.magnitude(),
                };
                self.prove(terms, reply.host_key, reply.signature, &values, &secret)
            }
            (ClientStep::Reply(half), KexEcdhReply::NUMBER) => {
                let reply = KexEcdhReply::decode(payload)?;
                let secret = half.initiator.finish(reply.public)?;
                let values = PublicValues::Strings {
                    client: &half.public,
                    server: reply.public,
                };
                self.prove(terms, reply.host_key, reply.signature, &values, &secret)
            }
            (ClientStep::Group, KexGexGroup::NUMBER) => {
                let step = self.answer_group(payload)?;
                self.exchange.state = Kex::Running {
                    terms,
                    step: KexStep::Client(step),
                };
                Ok(())
            }
            (
                ClientStep::GexReply {
                    initiator,
                    public,
                    group,
                },
                KexGexReply::NUMBER,
            ) => {
                let reply = KexGexReply::decode(payload)?;
                let secret = initiator.finish(reply.public.magnitude())?;
                let values = PublicValues::Group {
                    request: self.config.group_exchange_bits,
                    p: &group.p(),
                    g: &group.g(),
                    e: &public,
                    f: reply.public.magnitude(),
                };
                self.prove(terms, reply.host_key, reply.signature, &values, &secret)
            }
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    /// Verifies the server's signature in its reply. Then the owner decides about the host key; in
    /// a rekey it must equal the accepted one.
    fn prove(
        &mut self,
        terms: Box<KexTerms>,
        key: &[u8],
        signature: &[u8],
        values: &PublicValues<'_>,
        secret: &SharedSecret,
    ) -> Result<(), Error> {
        let secret = encode_secret(secret);
        let agreement = terms.agreement;
        let hash = exchange_hash(
            agreement.kex.hash(),
            &self.transcript(&terms, key),
            values,
            &secret,
        );
        host_key::verify(
            agreement.host_key,
            key,
            hash.as_ref(),
            signature,
            &self.config.authorities(),
            self.config.min_rsa_bits,
        )?;
        let outcome = KexOutcome {
            hash,
            secret,
            host_key: key.to_vec(),
        };
        match &self.exchange.session {
            Some(session) if session.host_key == outcome.host_key => self.finish(terms, &outcome),
            Some(_) => Err(Error::PeerMisbehaved("the host key changed at a rekey")),
            None => {
                self.events.push_back(Event::HostKey {
                    algorithm: agreement.host_key.name(),
                    key: outcome.host_key.clone(),
                });
                self.exchange.state = Kex::Running {
                    terms,
                    step: KexStep::Client(ClientStep::Decision(outcome)),
                };
                Ok(())
            }
        }
    }

    /// Continues after the owner has accepted the host key.
    pub(in crate::transport) fn accept_host_key(&mut self) -> Result<(), Error> {
        match self.exchange.state.take() {
            Kex::Running {
                terms,
                step: KexStep::Client(ClientStep::Decision(outcome)),
            } => self.finish(terms, &outcome),
            other => {
                self.exchange.state = other;
                Err(Error::Misuse("no host key awaits a decision"))
            }
        }
    }

    /// Sends KEX_*_INIT.
    pub(super) fn send_init(&mut self, half: &Half) -> Result<(), Error> {
        match half.kex.family() {
            KexFamily::Dh => self.outbound.send_kex(&KexDhInit {
                public: Mpint::from_magnitude(&half.public),
            }),
            _ => self.outbound.send_kex(&KexEcdhInit {
                public: &half.public,
            }),
        }
    }

    /// Answers the server's choice of a group.
    fn answer_group(&mut self, payload: &[u8]) -> Result<ClientStep, Error> {
        let message = KexGexGroup::decode(payload)?;
        let (min, _, max) = self.config.group_exchange_bits;
        let group = DhGroup::new(
            message.p.magnitude(),
            message.g.magnitude(),
            &received_group_policy(min, max),
        )
        .map_err(|_| {
            Error::PeerMisbehaved("the server's group is not safe or not of the requested size")
        })?;
        let (initiator, public) = Initiator::with_group(&group)?;
        self.outbound.send_kex(&KexGexInit {
            public: Mpint::from_magnitude(&public),
        })?;
        Ok(ClientStep::GexReply {
            initiator,
            public,
            group,
        })
    }
}
