//! Method `password` (RFC 4252 §8), and `none` as an empty password: checked at a KDC (KerberosAuthentication), by PAM
//! or with the shadow file.
//!
//! Invariants: whoever may not log in gets the same steps with a password that fits nobody. Of the KDC's principals
//! only those of users who may log in are asked for: a client can neither lock others nor choose a realm. How many
//! steps that takes is hidden by the coarse delay of a refusal.

use std::time::Duration;

use super::{AuthService, Label, NO_PASSWORD, NotLoggedIn, no_user};
use crate::connection::accounts::NO_ONE;
use crate::connection::admit::{Proof, with_pam};
use crate::connection::chains::ChainMethod;
use crate::connection::kerberos::Delegated;
use crate::connection::pam::SayPassword;
use crate::connection::password;

/// Longest wait for a KDC, in all. A library that has several asks the next one after a second.
const KDC_WAIT: Duration = Duration::from_secs(10);

impl AuthService<'_, '_, '_> {
    /// Checks `password`, and `none` as an empty password if PermitEmptyPasswords is set.
    pub(super) fn try_password(
        &mut self,
        method: ChainMethod,
        given: &[u8],
    ) -> Result<(Label, Option<Proof>), NotLoggedIn> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let mut label = Label::of(method, user.chains.allows(method));
        if !label.is_tried {
            return Ok((label, None));
        }
        let options = user.options.clone();
        let may = user
            .account()
            .is_some_and(|account| account.root_may(&options.authentication, method, false));
        if options.authentication.kerberos_authentication {
            let is_by_kdc = self.ask_kdc(given, may)?;
            // The KDC may have taken all the time that there was for the login.
            self.channel.time_left()?;
            label.is_by_kdc = is_by_kdc || !options.authentication.kerberos_or_local_passwd;
            if label.is_by_kdc {
                return Ok((label, is_by_kdc.then(|| proof(method, true))));
            }
        }
        let matched = self.ask_locally(given, may)?;
        Ok((label, matched.then(|| proof(method, false))))
    }

    /// True if PAM or the shadow file confirms the password.
    fn ask_locally(&mut self, given: &[u8], may: bool) -> Result<bool, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        if user.options.authentication.use_pam {
            let fits = may
                && given.len() <= password::MAX_PASSWORD_BYTES
                && (!given.is_empty() || user.options.authentication.permit_empty_passwords);
            let password = if fits { given } else { NO_PASSWORD };
            let result = with_pam(user, |pam, permit_empty| {
                pam.authenticate(permit_empty, &mut SayPassword::new(password))
            });
            if let Err(why) = &result {
                let name = &user.name;
                self.log.debug(&format!(
                    "PAM: password authentication failed for {name}: {why}"
                ));
            }
            return Ok(result.is_ok() && fits);
        }
        let typical = password::typical_entry();
        let account = user.account();
        let stored = password::Stored {
            shadow: account.and_then(|account| account.shadow.as_ref()),
            like: typical.as_ref(),
            permit_empty: user.options.authentication.permit_empty_passwords,
        };
        Ok(password::check(&stored, given, self.log))
    }

    /// True if a KDC, which this machine's key proves, confirms the password, and the principal may log in as the user.
    /// Keeps the tickets for the session.
    fn ask_kdc(&mut self, given: &[u8], may: bool) -> Result<bool, NotLoggedIn> {
        // For an empty password the library would ask somebody, and it reads one up to a NUL.
        if given.is_empty() || given.contains(&0) || given.len() > password::MAX_PASSWORD_BYTES {
            return Ok(false);
        }
        let left = self.channel.time_left()?;
        let wait = left.map_or(KDC_WAIT, |left| left.min(KDC_WAIT));
        let until_ms = sys::time::monotonic_ms_after(wait);
        let user = self.user.as_mut().ok_or_else(no_user)?;
        user.delay = user.delay.of_kdc();
        let account = user.account_or_decoy();
        // The account's own name, not what was typed: `x@REALM` would be asked for in a realm of the client's choice.
        let (name, password) = match may {
            true => (account.name.as_str(), given),
            false => (NO_ONE, NO_PASSWORD),
        };
        let checked = self
            .kerberos
            .check_password(name, password, until_ms, self.log);
        let client = match checked {
            Ok(client) => client,
            Err(failure) => {
                let why = failure.reason.replace('\n', "; ");
                self.log
                    .debug(&format!("Kerberos password authentication failed: {why}"));
                return Ok(false);
            }
        };
        let permitted = self
            .kerberos
            .permits(&account, &client, Some(until_ms), self.log);
        if !permitted || !may {
            self.log.debug(&format!(
                "krb5 principal {} may not log in as {}",
                client.principal,
                user.shown_name()
            ));
            return Ok(false);
        }
        user.delegated = Delegated::of_password(client);
        Ok(true)
    }
}

fn proof(method: ChainMethod, is_by_kdc: bool) -> Proof {
    Proof {
        info: Some(method.name().to_owned()),
        is_by_kdc,
        ..Proof::default()
    }
}
