//! The methods: keyboard-interactive (RFC 4256), public keys and hosts.

use keys::VerifyPolicy;
use keys::authorized_keys::KeyOptions;
use keys::candidate::{CandidateKey, HostbasedFor, SignedFor};
use privsep::{HostbasedVerify, KbdintStart, KeyAnswer, KeyQuery, KeyVerify, LogLevel};
use wire::names;

use super::{
    AuthService, Label, NO_PASSWORD, NotLoggedIn, POSTPONED, SUBMETHOD_PAM, attempt_line, no_user,
};
use crate::connection::admit::{Proof, settle_account, with_pam};
use crate::connection::chains::ChainMethod;
use crate::connection::hostbased::{self, Claim, HostLookup};
use crate::connection::kbdint::{Dialogue, Interrupted};
use crate::connection::publickey::{self, Lookup};
use crate::log::PREAUTH;

/// Whether a key that the client offers can log its user in.
enum KeyLookup {
    /// Its method or algorithm is not permitted, it cannot be read, or it has been used already.
    Unusable,
    /// It was looked for, and does not log this user in.
    Unlisted,
    /// A signature by it logs the user in, with these options.
    Listed(Box<CandidateKey>, Box<KeyOptions>),
}

impl AuthService<'_, '_, '_> {
    /// Runs `keyboard-interactive`; returns `None` if the client changed to another method.
    pub(super) fn try_kbdint(
        &mut self,
        request: &KbdintStart,
    ) -> Result<Option<(Label, Option<Proof>)>, NotLoggedIn> {
        let mut label = Label::of(ChainMethod::KeyboardInteractive, false);
        let user = self.user.as_mut().ok_or_else(no_user)?;
        let asked = user
            .chains
            .kbdint_submethods()
            .is_none_or(|names| names.contains(&SUBMETHOD_PAM))
            && wants_pam(&request.devices);
        if !user.chains.allows(ChainMethod::KeyboardInteractive)
            || !user.options.authentication.use_pam
            || !asked
        {
            return Ok(Some((label, None)));
        }
        label.is_tried = true;
        let may = user.account().is_some_and(|account| {
            account.root_may(
                &user.options.authentication,
                ChainMethod::KeyboardInteractive,
                false,
            )
        });
        let instead = (!may).then_some(NO_PASSWORD);
        let (level, line, _) = attempt_line(user, POSTPONED, &label, false);
        let mut dialogue = Dialogue::new(&mut self.channel, instead, (level, line));
        // An expired password is changed here, because modules can prompt here. A user who may not
        // log in gets no further prompt.
        let authenticated = with_pam(user, |pam, permit_empty| {
            pam.authenticate(permit_empty, &mut dialogue)
        });
        let matched = authenticated.is_ok() && may && settle_account(user, self.log, &mut dialogue);
        let (interrupted, answered_us) = dialogue.finish();
        if let Some(answered_us) = answered_us {
            user.started_us = answered_us;
        }
        match interrupted {
            Some(Interrupted::End(end)) => return Err(end.into()),
            Some(Interrupted::OtherRequest) => {
                user.tries.attempted = true;
                return Ok(None);
            }
            None => {}
        }
        if let Err(why) = authenticated {
            let known = if user.invalid().is_empty() {
                ""
            } else {
                "illegal user "
            };
            let (name, host) = (user.shown_name(), &user.peer.host);
            self.log
                .error(&format!("PAM: {why} for {known}{name} from {host}"));
        }
        let proof = matched.then(|| Proof {
            submethod: Some(SUBMETHOD_PAM),
            info: Some(format!(
                "{}/{SUBMETHOD_PAM}",
                names::METHOD_KEYBOARD_INTERACTIVE
            )),
            ..Proof::default()
        });
        Ok(Some((label, proof)))
    }

    /// `publickey` without a signature: answers whether the key is acceptable. As in OpenSSH 10.6
    /// the first refusals do not count for MaxAuthTries, so that a client whose agent has many keys
    /// comes to the right one.
    pub(super) fn answer_query(&mut self, request: &KeyQuery) -> Result<(), NotLoggedIn> {
        let (mut label, found) = self.look_for_key(&request.algorithm, &request.key)?;
        label.is_question = true;
        if matches!(found, KeyLookup::Listed(..)) {
            self.log_attempt(POSTPONED, &label, false);
            let methods = self.methods();
            self.channel.send(&KeyAnswer {
                acceptable: true,
                methods,
                too_many_failures: false,
            })?;
            return Ok(());
        }
        let user = self.user.as_mut().ok_or_else(no_user)?;
        if matches!(found, KeyLookup::Unlisted) {
            let free = user.options.user_keys.pubkey_auth_options.free_queries();
            label.is_free = user.tries.refused_queries < free;
            user.tries.refused_queries += 1;
        }
        self.note_attempt();
        let exceeded = self.count_failure(&label)?;
        self.refuse_query(exceeded)
    }

    /// Answers that a key is not acceptable.
    ///
    /// # Errors
    /// [`NotLoggedIn::TooMany`] if MaxAuthTries is reached.
    pub(super) fn refuse_query(&mut self, exceeded: bool) -> Result<(), NotLoggedIn> {
        if exceeded {
            self.log_too_many()?;
        }
        let methods = self.methods();
        self.channel.send(&KeyAnswer {
            acceptable: false,
            methods,
            too_many_failures: exceeded,
        })?;
        if exceeded {
            return Err(NotLoggedIn::TooMany);
        }
        Ok(())
    }

    /// `publickey` with a signature: verifies it.
    pub(super) fn try_key(
        &mut self,
        request: &KeyVerify,
    ) -> Result<(Label, Option<Proof>), NotLoggedIn> {
        let (label, found) = self.look_for_key(&request.algorithm, &request.key)?;
        let host_key_fits = request
            .hostbound
            .as_deref()
            .is_none_or(|named| self.signer.first_host_key() == Some(named));
        if !host_key_fits {
            self.log
                .error("host-bound signature names another host key than the connection's");
        }
        let (KeyLookup::Listed(candidate, grants), true) = (found, host_key_fits) else {
            return Ok((label, None));
        };
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let signed_for = SignedFor {
            session_id: self.signer.session_id().unwrap_or_default(),
            user: &user.said,
            service: &user.service,
            hostbound: request.hostbound.as_deref(),
        };
        let policy = publickey::verify_policy(&grants, &user.options);
        let verified = candidate.verify(&signed_for, &request.signature, &policy);
        let tried = match verified {
            Ok(()) => Some(Proof {
                key: Some(candidate.key().key().blob()),
                info: Some(candidate.auth_info()),
                old_algorithms: candidate.old_algorithms(),
                grants: Some(*grants),
                ..Proof::default()
            }),
            Err(error) => {
                self.log
                    .verbose(&format!("signature not accepted: {error}"));
                None
            }
        };
        Ok((label, tried))
    }

    /// `hostbased`: looks the client's host up and verifies its signature. As in OpenSSH nothing is
    /// looked up for users who may not log in, and no line is logged; their failure takes as long
    /// as any other.
    pub(super) fn try_host(
        &mut self,
        request: &HostbasedVerify,
    ) -> Result<(Label, Option<Proof>), NotLoggedIn> {
        let mut label = Label::of(ChainMethod::Hostbased, false);
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let Some(account) = user.account() else {
            return Ok((label, None));
        };
        if !user.chains.allows(ChainMethod::Hostbased) {
            return Ok((label, None));
        }
        let accepted = hostbased::accepted(&user.options);
        let (algorithm, key) = (&request.algorithm, &request.key);
        let candidate = match publickey::candidate(algorithm, key, accepted, &user.options) {
            Ok(candidate) => candidate,
            Err(reason) => {
                let line = format!("userauth_hostbased: {reason}");
                self.log.marked(LogLevel::Info, &line, PREAUTH);
                return Ok((label, None));
            }
        };
        let claim = Claim::new(&request.client_host, &request.client_user);
        label.is_tried = true;
        label.detail = publickey::describe(&candidate, &user.options);
        let permitted = HostLookup {
            account,
            options: &user.options,
            revoked: &self.revoked,
            peer: &user.peer,
            now: sys::time::realtime_seconds(),
            log: self.log,
        }
        .permits(&candidate, &claim);
        if !permitted {
            // As in OpenSSH, whose line of a login leaves this out.
            label.detail = format!("{}, {}", label.detail, claim.described());
            return Ok((label, None));
        }
        let signed_for = HostbasedFor {
            session_id: self.signer.session_id().unwrap_or_default(),
            user: &user.said,
            service: &user.service,
            client_host: &request.client_host,
            client_user: &request.client_user,
        };
        let policy = VerifyPolicy::of_host(publickey::required_rsa_bits(&user.options.algorithms));
        let proof = match candidate.verify_hostbased(&signed_for, &request.signature, &policy) {
            Ok(()) => Some(Proof {
                key: Some(candidate.key().key().blob()),
                info: Some(candidate.auth_info_of(names::METHOD_HOSTBASED)),
                old_algorithms: candidate.old_algorithms(),
                ..Proof::default()
            }),
            Err(error) => {
                self.log
                    .verbose(&format!("signature not accepted: {error}"));
                None
            }
        };
        Ok((label, proof))
    }

    /// Looks a key up, for both forms of `publickey`. The lookup also runs, with the rights of
    /// nobody, for users who may not log in; its result counts only for users who may.
    fn look_for_key(
        &mut self,
        algorithm: &str,
        blob: &[u8],
    ) -> Result<(Label, KeyLookup), NotLoggedIn> {
        let mut label = Label::of(ChainMethod::Publickey, false);
        let user = self.user.as_ref().ok_or_else(no_user)?;
        if !user.chains.allows(ChainMethod::Publickey) {
            return Ok((label, KeyLookup::Unusable));
        }
        let accepted = publickey::accepted(&user.options);
        let candidate = match publickey::candidate(algorithm, blob, accepted, &user.options) {
            Ok(candidate) => candidate,
            Err(reason) => {
                if user.account().is_some() {
                    let line = format!("userauth_pubkey: {reason}");
                    self.log.marked(LogLevel::Info, &line, PREAUTH);
                }
                return Ok((label, KeyLookup::Unusable));
            }
        };
        label.is_tried = user.account().is_some();
        label.detail = publickey::describe(&candidate, &user.options);
        let account = user.account_or_decoy();
        let grants = Lookup {
            account: &account,
            valid: user.account().is_some(),
            options: &user.options,
            revoked: &self.revoked,
            peer: &user.peer,
            address: self.addresses.remote,
            now: sys::time::realtime_seconds(),
            log: self.log,
        }
        .authorize(&candidate);
        let used = user.chains.is_used(&candidate.key().key().blob());
        if used {
            self.log
                .info(&format!("refusing previously-used {} key", label.detail));
        }
        let found = match grants {
            _ if used => KeyLookup::Unusable,
            Some(grants) if user.account().is_some() => {
                KeyLookup::Listed(Box::new(candidate), Box::new(grants))
            }
            _ => KeyLookup::Unlisted,
        };
        Ok((label, found))
    }
}

/// True if the client leaves the submethod of keyboard-interactive to the server or names PAM's among
/// others (RFC 4256 §3.1).
fn wants_pam(devices: &str) -> bool {
    devices.is_empty() || devices.split(',').any(|name| name == SUBMETHOD_PAM)
}
