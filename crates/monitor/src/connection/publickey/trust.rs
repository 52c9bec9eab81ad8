//! Certificates of the authorities in TrustedUserCAKeys, and their principals.

use keys::authorized_keys::{AuthorizedPrincipal, KeyOptions};
use keys::candidate::CandidateKey;
use keys::certificate::CertificateRules;
use keys::{Certificate, CertificateKind};

use super::refusal::Refusal;
use super::{Lookup, authority_algorithms, files, local_clock, required_rsa_bits};

/// The reason if no listed principal fits.
pub(super) const NO_PRINCIPAL: &str = "Certificate does not contain an authorized principal";

impl Lookup<'_> {
    /// Returns the permissions of a certificate that an authority of TrustedUserCAKeys has signed.
    pub(super) fn trusted_certificate(&self, candidate: &CandidateKey) -> Option<KeyOptions> {
        let certificate = candidate.key().certificate()?;
        let path = self.options.user_keys.trusted_user_ca_keys.as_ref()?;
        let text = match files::read_trusted(path) {
            Ok(text) => text,
            Err(error) => {
                self.log
                    .error(&format!("TrustedUserCAKeys {path}: {error}"));
                return None;
            }
        };
        if !self.lists_authority(&text, path, certificate.authority()) {
            self.log.debug(&format!(
                "CA {} is not listed in {path}",
                keys::fingerprint::sha256(&certificate.authority().blob())
            ));
            return None;
        }
        match self.granted_by_principals(candidate, certificate) {
            Ok(grants) => {
                self.log_accepted(candidate, &format!("via {path}"), true);
                Some(grants)
            }
            Err((refusal, place)) => {
                self.log_refusal_of_trusted(&refusal, &place, candidate);
                None
            }
        }
    }

    /// True if the lines of TrustedUserCAKeys contain the authority. As in OpenSSH the file ends at
    /// the first line that is not a plain key: lines after it are not trusted. A line with options
    /// is not a plain key, because no option has a meaning there.
    fn lists_authority(&self, text: &[u8], path: &str, authority: &keys::PublicKey) -> bool {
        for line in keys::authorized_keys::parse(text, &local_clock) {
            let (number, reason) = match line {
                Ok(line) if line.options == KeyOptions::default() => {
                    if line.key == *authority {
                        return true;
                    }
                    continue;
                }
                Ok(line) => (line.line, "key options are not permitted here".to_owned()),
                Err(refused) => (refused.line, refused.reason.to_string()),
            };
            self.log.error(&format!(
                "TrustedUserCAKeys {path}:{number}: {reason}; this line and those after it are not trusted"
            ));
            return false;
        }
        false
    }

    /// Checks the principals: the certificate must name one that AuthorizedPrincipalsFile or
    /// AuthorizedPrincipalsCommand lists; without both, the user's name. An error names the place
    /// that has the limit, as OpenSSH does: `cert`, `principals`.
    fn granted_by_principals(
        &self,
        candidate: &CandidateKey,
        certificate: &Certificate,
    ) -> Result<KeyOptions, (Refusal, String)> {
        let file = self.options.user_keys.authorized_principals_file.as_deref();
        if file.is_none()
            && self
                .options
                .user_keys
                .authorized_principals_command
                .is_none()
        {
            let granted = self.check_certificate(certificate, &[&self.account.name]);
            return granted.map_err(of_certificate);
        }
        let files = file.map(|template| self.places(template));
        files
            .unwrap_or_default()
            .iter()
            .find_map(|path| {
                let (text, place) = self.read_user_file(path)?;
                self.search_principals(&text, &place, certificate)
            })
            .or_else(|| {
                let text = self.principals_of_command(candidate)?;
                self.search_principals(&text, "AuthorizedPrincipalsCommand", certificate)
            })
            .unwrap_or_else(|| Err(of_certificate(Refusal::of_certificate(NO_PRINCIPAL))))
    }

    /// Searches lines of principals for one in the certificate. As in OpenSSH the first such line
    /// decides, even if its options refuse; `None` if there is no such line.
    fn search_principals(
        &self,
        text: &[u8],
        place: &str,
        certificate: &Certificate,
    ) -> Option<Result<KeyOptions, (Refusal, String)>> {
        let lines = keys::authorized_keys::parse_principals(text, &local_clock);
        for line in lines.filter_map(|line| self.readable(line, place)) {
            if certificate.principals().contains(&line.principal) {
                return Some(self.granted_by_principal(&line, certificate, place));
            }
        }
        None
    }

    fn granted_by_principal(
        &self,
        line: &AuthorizedPrincipal,
        certificate: &Certificate,
        place: &str,
    ) -> Result<KeyOptions, (Refusal, String)> {
        line.check_options()
            .map_err(|error| format!("{place}:{}: {error}", line.line))
            .map_err(|reason| of_certificate(Refusal::of_certificate(reason)))?;
        self.check_limits(&line.options).map_err(|limit| {
            let reason = "Refused by certificate principals options";
            let refusal = Refusal::limits_certificate(limit, reason);
            (refusal, "principals".to_owned())
        })?;
        let grants = self
            .check_certificate(certificate, &[&line.principal])
            .map_err(of_certificate)?;
        let merged = line.options.merge(&grants);
        merged.map_err(|error| of_certificate(Refusal::of_certificate(error.to_string())))
    }

    /// Checks a certificate for one of `principals`, and its source addresses.
    pub(super) fn check_certificate(
        &self,
        certificate: &Certificate,
        principals: &[&str],
    ) -> Result<KeyOptions, Refusal> {
        let algorithms = authority_algorithms(&self.options.algorithms);
        let grants = certificate
            .check(&CertificateRules {
                kind: CertificateKind::User,
                names: principals,
                now: self.now,
                authority_algorithms: &algorithms,
                min_rsa_bits: required_rsa_bits(&self.options.algorithms),
            })
            .map_err(Refusal::from)?;
        self.check_limits(&grants).map_err(|limit| {
            Refusal::limits_certificate(limit, "Refused by certificate options")
        })?;
        Ok(grants)
    }
}

/// The refusal of a certificate, not of a line.
fn of_certificate(refusal: Refusal) -> (Refusal, String) {
    (refusal, "cert".to_owned())
}
