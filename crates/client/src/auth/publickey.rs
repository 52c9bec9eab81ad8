//! Method `publickey` (RFC 4252 §7): one key per call.
//!
//! A key that signs without a person goes out signed; for others the server is asked first, so
//! that nobody types a passphrase or touches a key in vain.

use driver::DriverError;

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::log::{debug1, debug2};

impl Authenticator<'_> {
    pub(super) fn publickey(&mut self) -> Result<Option<Answer>, ClientError> {
        let Some(mut identity) = self.identities.pop_front() else {
            return Ok(None);
        };
        identity.prepare();
        let server = self
            .driver
            .connection()
            .server_sig_algs()
            .map(<[String]>::to_vec);
        let min_rsa_bits = usize::try_from(self.options.required_rsa_size).unwrap_or(usize::MAX);
        let algorithm = identity.algorithm(
            &self.options.pubkey_accepted_algorithms,
            server.as_deref(),
            min_rsa_bits,
        );
        let Some(algorithm) = algorithm else {
            debug1!("Skipping {identity:?}: no signature algorithm that both sides accept");
            return Ok(None);
        };
        let name = algorithm.name();
        debug1!("Offering public key: {identity:?}");
        let user = self.options.user.as_bytes();
        if !identity.signs_alone() {
            debug2!("USERAUTH_REQUEST publickey query, {name}");
            let sent = self
                .driver
                .connection()
                .auth_publickey_query(user, name, identity.blob());
            self.sent(sent)?;
            match self.answer()? {
                Answer::PkOk => debug1!("Server accepts key: {identity:?}"),
                other => {
                    self.used.push(identity);
                    return Ok(Some(other));
                }
            }
        }
        let data = self
            .driver
            .connection()
            .publickey_signed_data(user, name, identity.blob());
        let data = data.map_err(|error| self.lost(DriverError::Proto(error)))?;
        let prompts = self.options.number_of_password_prompts;
        let signature = identity.sign(
            algorithm,
            &data,
            self.agent.as_mut(),
            prompts,
            self.interaction,
        );
        let Some(signature) = signature else {
            return Ok(None);
        };
        debug2!("USERAUTH_REQUEST publickey signed, {name}");
        let sent = self
            .driver
            .connection()
            .auth_publickey(user, name, identity.blob(), &signature);
        self.sent(sent)?;
        let answer = self.answer()?;
        if matches!(
            answer,
            Answer::Failure {
                partial_success: false,
                ..
            }
        ) {
            self.used.push(identity);
        }
        Ok(Some(answer))
    }
}
