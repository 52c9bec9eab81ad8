//! Method `hostbased` (RFC 4252 §9): the keys of this host vouch for the user. ssh-keysign, which may
//! read the private keys, signs ([`crate::keysign`]).

use config::Environment;
use keys::{PresentedKey, SignatureAlgorithm};
use wire::userauth::HostbasedClaim;

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::keysign;
use crate::local::Here;
use crate::log::{debug1, error};

/// The public keys and certificates of this host that were not tried yet.
#[derive(Debug, Default)]
pub(super) struct HostKeys {
    /// Certificates first.
    keys: Vec<PresentedKey>,
    /// The algorithms that are left, the preferred one last.
    algorithms: Vec<SignatureAlgorithm>,
}

impl HostKeys {
    /// Reads the public keys beside the private ones that ssh-keysign uses.
    pub(super) fn load(algorithms: &[String]) -> Self {
        let algorithms = algorithms.iter().rev();
        Self {
            keys: ["-cert.pub", ".pub"]
                .into_iter()
                .flat_map(|suffix| keysign::HOST_KEYS.map(|path| format!("{path}{suffix}")))
                .filter_map(|path| read(&path))
                .collect(),
            algorithms: algorithms
                .filter_map(|name| SignatureAlgorithm::from_name(name))
                .collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self
            .algorithms
            .iter()
            .any(|algorithm| self.keys.iter().any(|key| fits(key, *algorithm)))
    }

    /// Takes the next key, with the first algorithm that it can sign with.
    fn next(&mut self) -> Option<(SignatureAlgorithm, PresentedKey)> {
        loop {
            let algorithm = *self.algorithms.last()?;
            if let Some(at) = self.keys.iter().position(|key| fits(key, algorithm)) {
                return Some((algorithm, self.keys.remove(at)));
            }
            self.algorithms.pop();
        }
    }
}

fn read(path: &str) -> Option<PresentedKey> {
    let file = keys::public_file::load(path.as_ref()).ok()?;
    match keys::public_file::parse_line(&file) {
        Ok(file) => Some(file.key),
        Err(reason) => {
            debug1!("{path}: {reason}");
            None
        }
    }
}

fn fits(key: &PresentedKey, algorithm: SignatureAlgorithm) -> bool {
    key.key().key_type() == algorithm.key_type()
        && key.certificate().is_some() == algorithm.is_certificate()
}

impl Authenticator<'_> {
    pub(super) fn hostbased(&mut self) -> Result<Option<Answer>, ClientError> {
        let Some((algorithm, key)) = self.host_keys.next() else {
            return Ok(None);
        };
        let shown = format!(
            "{} {}",
            key.blob_name(),
            keys::fingerprint::sha256(&key.blob())
        );
        debug1!("trying hostkey {shown} using sigalg {}", algorithm.name());
        let blob = key.blob();
        let host = format!("{}.", keysign::local_name(self.driver.socket()));
        debug1!("chost {host}");
        let local_user = Here::default().local_user().name;
        let claim = HostbasedClaim {
            algorithm: algorithm.name().as_bytes(),
            key: &blob,
            host: host.as_bytes(),
            user: local_user.as_bytes(),
        };
        let user = self.options.user.as_bytes();
        let data = self.driver.connection().hostbased_signed_data(user, &claim);
        let data = data.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        let signature = match keysign::request(self.driver.socket(), &data) {
            Ok(signature) => signature,
            Err(reason) => {
                error!("ssh_keysign: {reason}");
                error!("sign using hostkey {shown} failed");
                return Ok(None);
            }
        };
        let sent = self
            .driver
            .connection()
            .auth_hostbased(user, &claim, &signature);
        self.sent(sent)?;
        let answer = self.answer()?;
        if answer.is_accepted() {
            self.old_algorithms.extend(key.old_algorithms(algorithm));
        }
        Ok(Some(answer))
    }
}
