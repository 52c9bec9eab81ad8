//! Method `publickey` (RFC 4252 §7): one key per call.
//!
//! A single key that no agent holds and that signs without the user is sent signed, as is that of the last login at the
//! server. For others the server is asked first: it counts refused signatures, and the user need not type a passphrase,
//! touch a security key or confirm a signature of an agent for a key that the server refuses.

use driver::DriverError;
use keys::SignatureAlgorithm;

use super::identity::{Agent, Identity};
use super::pipelined::SentKey;
use super::{Answer, Authenticator, Early};
use crate::children;
use crate::error::ClientError;
use crate::log::{debug1, debug2, error};

impl Authenticator<'_> {
    pub(super) fn publickey(
        &mut self,
        early: Option<&Early<'_>>,
    ) -> Result<Option<Answer>, ClientError> {
        loop {
            while !self.flight.keys.is_empty() {
                match self.pipelined_answer()? {
                    Answer::PkOk => {}
                    answer => return Ok(Some(answer)),
                }
            }
            if self.flight.accepted.is_empty() {
                break;
            }
            self.sign_accepted(early)?;
        }
        let Some(mut identity) = self.identities.pop_front() else {
            return Ok(None);
        };
        identity.prepare();
        let Some(algorithm) = self.choose_algorithm(&identity) else {
            self.defer(identity);
            return Ok(None);
        };
        if !self.signs_unasked(&identity) {
            self.send_query(&identity, algorithm)?;
            match self.answer()? {
                Answer::PkOk => debug1!("Server accepts key: {identity:?}"),
                other => {
                    self.used.push(identity);
                    return Ok(Some(other));
                }
            }
        }
        let Some(algorithm) = self.send_signed(&mut identity)? else {
            return Ok(None);
        };
        let answer = self.answer()?;
        self.judged(identity, algorithm, &answer);
        Ok(Some(answer))
    }

    /// Handles the answer to the oldest pipelined request.
    fn pipelined_answer(&mut self) -> Result<Answer, ClientError> {
        let answer = self.answer()?;
        let Some(sent) = self.flight.keys.pop_front() else {
            return Ok(answer);
        };
        let SentKey {
            identity,
            algorithm,
            is_query,
        } = sent;
        if is_query {
            match answer {
                Answer::PkOk => {
                    debug1!("Server accepts key: {identity:?}");
                    self.flight.accepted.push_back(identity);
                }
                _ => self.used.push(identity),
            }
            return Ok(answer);
        }
        self.judged(identity, algorithm, &answer);
        if matches!(answer, Answer::Success(_)) {
            self.flight.keys.clear();
        } else if self.flight.keys.is_empty() && self.flight.channel.take().is_some() {
            debug1!("The login failed, so its pipelined session is discarded");
            self.flight.is_refused = true;
        }
        Ok(answer)
    }

    /// Asks the server whether it accepts this key.
    pub(super) fn send_query(
        &mut self,
        identity: &Identity,
        algorithm: SignatureAlgorithm,
    ) -> Result<(), ClientError> {
        let name = algorithm.name();
        debug1!("Offering public key: {identity:?}");
        debug2!("USERAUTH_REQUEST publickey query, {name}");
        let user = self.options.user.as_bytes();
        let sent = self
            .driver
            .connection()
            .auth_publickey_query(user, name, identity.blob());
        self.sent(sent)
    }

    fn judged(&mut self, identity: Identity, algorithm: SignatureAlgorithm, answer: &Answer) {
        self.offered = Some(identity.fingerprint());
        if answer.is_accepted() {
            self.old_algorithms
                .extend(identity.old_algorithms(algorithm));
            identity.add_to_agent(&self.options.user_keys);
        }
        if matches!(
            answer,
            Answer::Failure {
                partial_success: false,
                ..
            }
        ) {
            self.used.push(identity);
        }
    }

    pub(super) fn choose_algorithm(&mut self, identity: &Identity) -> Option<SignatureAlgorithm> {
        let told = self.driver.connection().server_sig_algs();
        let min_rsa_bits =
            usize::try_from(self.options.algorithms.required_rsa_size).unwrap_or(usize::MAX);
        let algorithm = identity.algorithm(
            &self.options.algorithms.pubkey_accepted_algorithms,
            told.or(self.flight.expected_algorithms.as_deref()),
            min_rsa_bits,
        );
        if algorithm.is_none() {
            debug1!("Skipping {identity:?}: no signature algorithm that both sides accept");
        }
        algorithm
    }

    /// Keeps a key without a usable algorithm until the server's first answer: the server may then
    /// name more algorithms, for this user (`ext-info-in-auth@openssh.com`).
    pub(super) fn defer(&mut self, identity: Identity) {
        if self.allowed.is_none() {
            self.deferred.push_back(identity);
        }
    }

    /// Sends the signed request and returns the signature's algorithm; `None` if there is no signature,
    /// and the reason has been logged.
    pub(super) fn send_signed(
        &mut self,
        identity: &mut Identity,
    ) -> Result<Option<SignatureAlgorithm>, ClientError> {
        let Some(algorithm) = self.choose_algorithm(identity) else {
            return Ok(None);
        };
        let name = algorithm.name();
        if self.signs_unasked(identity) {
            debug1!("Offering public key: {identity:?}");
        }
        let user = self.options.user.as_bytes();
        let data = self
            .driver
            .connection()
            .publickey_signed_data(user, name, identity.blob());
        let data = data.map_err(|error| self.lost(DriverError::Proto(error)))?;
        if let Some(agent) = self.agent.as_mut().filter(|_| identity.is_in_agent()) {
            agent.bind(self.driver.connection());
        }
        let mut sign = |identity: &mut Identity, agent: Option<&mut Agent>| {
            identity.sign(algorithm, &data, agent, self.options, self.interaction)
        };
        let mut signature = sign(identity, self.agent.as_mut());
        if signature.is_err()
            && let Some(agent) = &mut self.agent
            && identity.leaves_agent(agent)
        {
            debug1!("the agent keeps {identity:?} to other destinations");
            signature = sign(identity, None);
        }
        let signature = match signature {
            Ok(signature) => signature,
            Err(reason) => {
                self.unsigned = reason.inspect(|reason| error!("{reason}"));
                return Ok(None);
            }
        };
        // An agent may have waited for a person.
        children::go_on()?;
        debug2!("USERAUTH_REQUEST publickey signed, {name}");
        let sent = self
            .driver
            .connection()
            .auth_publickey(user, name, identity.blob(), &signature);
        self.sent(sent)?;
        Ok(Some(algorithm))
    }
}
