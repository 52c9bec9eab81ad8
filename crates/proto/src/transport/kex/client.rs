//! The client's side of the key exchange methods.

use alloc::boxed::Box;

use crypto::kex::{DhGroup, DhPolicy, Initiator, KexFamily, Primality, SharedSecret};
use wire::Mpint;
use wire::message::{
    Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexGexGroup, KexGexInit, KexGexReply,
    KexGexRequest,
};

use super::derive::{GroupSizes, PublicValues, RequestedGroup, encode_secret, exchange_hash};
use super::state::{ClientStep, Half, Kex, KexOutcome, KexStep, KexTerms};
use super::{Agreement, Exchanging, host_key};
use crate::{Error, Event, GroupExchange};

/// Largest group to prefer at a server with
/// [`knows_small_groups_only`](crate::Quirks::knows_small_groups_only), bits.
const MAX_SMALL_GROUP_BITS: u32 = 4096;

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
        agreement: &Agreement,
        guess: Option<Box<Half>>,
    ) -> Result<ClientStep, Error> {
        if let Some(guess) = guess {
            return Ok(ClientStep::Reply {
                half: guess,
                group: None,
            });
        }
        let kex = agreement.kex;
        if kex.family() == KexFamily::DhGroupExchange {
            let (min, preferred, max) = self.group_sizes(agreement);
            self.outbound.send_kex(&KexGexRequest {
                min,
                preferred,
                max,
            })?;
            return Ok(ClientStep::Group);
        }
        let half = self.take_half(kex)?;
        if kex.is_gss() {
            return Ok(self.begin_gss(half));
        }
        self.send_init(&half)?;
        Ok(ClientStep::Reply { half, group: None })
    }

    /// Smallest, preferred and largest size of group to ask for.
    fn group_sizes(&self, agreement: &Agreement) -> GroupSizes {
        let (min, max) = self.config.group_exchange_bits;
        let most = match self.versions.peer_quirks().knows_small_groups_only {
            true => MAX_SMALL_GROUP_BITS,
            false => max,
        };
        (min, agreement.group_bits().min(most).clamp(min, max), max)
    }

    /// Processes a message of the method.
    pub(super) fn handle_as_client(
        &mut self,
        mut terms: Box<KexTerms>,
        step: ClientStep,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        match (step, number) {
            (ClientStep::Group, KexGexGroup::NUMBER) => {
                let step = self.answer_group(&mut terms, payload)?;
                self.exchange.state = Kex::Running {
                    terms,
                    step: KexStep::Client(step),
                };
                Ok(())
            }
            (ClientStep::Reply { half, group }, _) => {
                let reply = ServerReply::decode(half.kex.family(), number, payload)?;
                let secret = half.initiator.finish(reply.public)?;
                let values = PublicValues {
                    family: half.kex.family(),
                    group: group.as_ref(),
                    client: &half.public,
                    server: reply.public,
                };
                self.prove(terms, &reply, &values, &secret)
            }
            (ClientStep::Gss(gss), _) => self.handle_gss_as_client(terms, gss, payload),
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    /// Verifies the server's signature in its reply. Then the owner decides about the host key; in
    /// a rekey it must equal the accepted one.
    fn prove(
        &mut self,
        terms: Box<KexTerms>,
        reply: &ServerReply<'_>,
        values: &PublicValues<'_>,
        secret: &SharedSecret,
    ) -> Result<(), Error> {
        let secret = encode_secret(secret);
        let agreement = terms.agreement;
        let algorithm = agreement.signed_host_key()?;
        let hash = exchange_hash(
            agreement.kex.hash(),
            &self.transcript(&terms, reply.host_key),
            values,
            &secret,
        );
        host_key::verify(
            algorithm,
            reply.host_key,
            hash.as_ref(),
            reply.signature,
            &self.config.authorities(),
            self.config.min_rsa_bits,
        )?;
        let outcome = KexOutcome {
            hash,
            secret,
            host_key: reply.host_key.to_vec(),
            host_signature: reply.signature.to_vec(),
        };
        match &self.exchange.session {
            Some(session) if session.host_key == outcome.host_key => self.finish(terms, &outcome),
            Some(_) => Err(Error::PeerMisbehaved("the host key changed at a rekey")),
            None => {
                self.events.push_back(Event::HostKey {
                    algorithm: algorithm.name(),
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
        let public = Mpint::from_magnitude(&half.public);
        match half.kex.family() {
            KexFamily::Dh => self.outbound.send_kex(&KexDhInit { public }),
            KexFamily::DhGroupExchange => self.outbound.send_kex(&KexGexInit { public }),
            KexFamily::Ecdh | KexFamily::Curve25519 | KexFamily::Hybrid => {
                self.outbound.send_kex(&KexEcdhInit {
                    public: &half.public,
                })
            }
        }
    }

    /// Answers the server's choice of a group.
    fn answer_group(&mut self, terms: &mut KexTerms, payload: &[u8]) -> Result<ClientStep, Error> {
        let request = self.group_sizes(&terms.agreement);
        let message = KexGexGroup::decode(payload)?;
        let (min, _, max) = request;
        let group = DhGroup::new(
            message.p.magnitude(),
            message.g.magnitude(),
            &received_group_policy(min, max),
        )
        .map_err(|_| {
            Error::PeerMisbehaved("the server's group is not safe or not of the requested size")
        })?;
        let (initiator, public) = Initiator::with_group(&group)?;
        terms.group_exchange = Some(GroupExchange {
            requested: request,
            bits: group.bits(),
            bits_set: public.iter().map(|byte| byte.count_ones()).sum(),
        });
        let half = Box::new(Half {
            kex: terms.agreement.kex,
            initiator,
            public,
        });
        self.send_init(&half)?;
        Ok(ClientStep::Reply {
            half,
            group: Some(RequestedGroup { request, group }),
        })
    }
}

/// KEX_*_REPLY, RFC 4253 §8.
struct ServerReply<'a> {
    host_key: &'a [u8],
    public: &'a [u8],
    signature: &'a [u8],
}

impl<'a> ServerReply<'a> {
    /// Decodes the reply of a method of this family.
    fn decode(family: KexFamily, number: u8, payload: &'a [u8]) -> Result<Self, Error> {
        let (host_key, public, signature) = match (family, number) {
            (KexFamily::Dh, KexDhReply::NUMBER) => {
                let reply = KexDhReply::decode(payload)?;
                (reply.host_key, reply.public.magnitude(), reply.signature)
            }
            (KexFamily::DhGroupExchange, KexGexReply::NUMBER) => {
                let reply = KexGexReply::decode(payload)?;
                (reply.host_key, reply.public.magnitude(), reply.signature)
            }
            (KexFamily::Ecdh | KexFamily::Curve25519 | KexFamily::Hybrid, KexEcdhReply::NUMBER) => {
                let reply = KexEcdhReply::decode(payload)?;
                (reply.host_key, reply.public, reply.signature)
            }
            _ => return Err(Error::NotPermitted { message: number }),
        };
        Ok(Self {
            host_key,
            public,
            signature,
        })
    }
}
