//! Certificates of authorities that the configuration trusts, their principals, and what was
//! revoked.

use keys::authorized_keys::KeyOptions;
use keys::certificate::CertificateRules;
use keys::{Certificate, CertificateKind, PresentedKey, SignatureAlgorithm};

use super::{Candidate, Lookup, files, local_clock, required_rsa_bits};

impl Lookup<'_> {
    /// True when RevokedKeys names the key, its certificate or its authority; true also when
    /// the list cannot be read.
    pub(super) fn is_revoked(&self, key: &PresentedKey) -> bool {
        let Some(path) = &self.options.revoked_keys else {
            return false;
        };
        let list = files::read_trusted(path).map_err(|error| error.to_string());
        let list = list.and_then(|bytes| {
            keys::krl::RevocationList::parse(&bytes).map_err(|error| error.to_string())
        });
        match list {
            Ok(list) => {
                let revoked = list.is_revoked(key);
                if revoked {
                    self.log.error(&format!(
                        "Authentication key {} revoked by file {path}",
                        keys::fingerprint::sha256(&key.key().blob())
                    ));
                }
                revoked
            }
            Err(error) => {
                self.log.error(&format!(
                    "RevokedKeys {path}: {error}; all keys are refused"
                ));
                true
            }
        }
    }

    /// A certificate of an authority of TrustedUserCAKeys.
    pub(super) fn trusted_certificate(&self, candidate: &Candidate) -> Option<KeyOptions> {
        let certificate = candidate.key.certificate()?;
        let path = self.options.trusted_user_ca_keys.as_ref()?;
        let text = match files::read_trusted(path) {
            Ok(text) => text,
            Err(error) => {
                self.log
                    .error(&format!("TrustedUserCAKeys {path}: {error}"));
                return None;
            }
        };
        // A line with options is no authority: options there have never meant anything.
        let trusted = keys::authorized_keys::parse(&text, &local_clock)
            .flatten()
            .any(|line| {
                line.options == KeyOptions::default() && line.key == *certificate.authority()
            });
        if !trusted {
            self.log.debug(&format!(
                "CA {} is not listed in {path}",
                keys::fingerprint::sha256(&certificate.authority().blob())
            ));
            return None;
        }
        match self.granted_by_principals(candidate, certificate) {
            Ok(grants) => Some(grants),
            Err(reason) => {
                self.log.info(&format!(
                    "Certificate {} refused: {reason}",
                    String::from_utf8_lossy(certificate.key_id())
                ));
                None
            }
        }
    }

    /// By the user's name, unless a file or a command says which principals count: then one of
    /// these must be in the certificate.
    fn granted_by_principals(
        &self,
        candidate: &Candidate,
        certificate: &Certificate,
    ) -> Result<KeyOptions, String> {
        let file = self.options.authorized_principals_file.as_deref();
        if file.is_none() && self.options.authorized_principals_command.is_none() {
            return self.check_certificate(certificate, &[&self.account.name]);
        }
        file.and_then(|template| self.read_user_file(template))
            .and_then(|(text, place)| self.search_principals(&text, &place, certificate))
            .or_else(|| {
                let text = self.principals_of_command(candidate)?;
                self.search_principals(&text, "AuthorizedPrincipalsCommand", certificate)
            })
            .ok_or_else(|| "Certificate does not contain an authorized principal".to_owned())
    }

    /// The lines of principals in search of one that the certificate has.
    fn search_principals(
        &self,
        text: &[u8],
        place: &str,
        certificate: &Certificate,
    ) -> Option<KeyOptions> {
        for line in keys::authorized_keys::parse_principals(text, &local_clock) {
            let Ok(line) = line else { continue };
            if !certificate.principals().contains(&line.principal) {
                continue;
            }
            let granted = self.check_limits(&line.options).and_then(|()| {
                let grants = self.check_certificate(certificate, &[&line.principal])?;
                line.options
                    .merge(&grants)
                    .map_err(|error| error.to_string())
            });
            match granted {
                Ok(grants) => return Some(grants),
                Err(reason) => self
                    .log
                    .verbose(&format!("{place}:{}: {reason}", line.line)),
            }
        }
        None
    }

    /// Checks a certificate for one of `principals`, and its source addresses.
    pub(super) fn check_certificate(
        &self,
        certificate: &Certificate,
        principals: &[&str],
    ) -> Result<KeyOptions, String> {
        let algorithms: Vec<SignatureAlgorithm> = self
            .options
            .ca_signature_algorithms
            .iter()
            .filter_map(|name| SignatureAlgorithm::from_name(name))
            .collect();
        let granted = certificate
            .check(&CertificateRules {
                kind: CertificateKind::User,
                names: principals,
                now: self.now,
                authority_algorithms: &algorithms,
                min_rsa_bits: required_rsa_bits(self.options),
            })
            .map_err(|error| error.to_string())?;
        let grants = KeyOptions::from_certificate(&granted);
        self.check_limits(&grants)?;
        Ok(grants)
    }
}
