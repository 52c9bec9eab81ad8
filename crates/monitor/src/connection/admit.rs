//! Passes a method's proof to the chains: PermitRootLogin, the grants of keys, the account check,
//! the connection's PAM transaction, the record of a wrong password.

use config::server::PermitRootLogin;
use keys::authorized_keys::KeyOptions;
use sys::pam::Conversation;
use sys::users::PasswordState;

use super::accounts::known_name;
use super::chains::{ChainMethod, ChainProgress};
use super::pam::{AccountState, PamLogin};
use super::user::{Addresses, LoginUser};
use crate::log::Log;

/// What a method has proved; no other check was made yet.
#[derive(Default)]
pub(crate) struct Proof {
    pub(crate) submethod: Option<&'static str>,
    /// The plain key, for `publickey` and `hostbased`.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) grants: Option<KeyOptions>,
    /// The line for ExposeAuthInfo.
    pub(crate) info: Option<String>,
    /// The algorithms that only old devices need.
    pub(crate) old_algorithms: Vec<&'static str>,
    /// True if a KDC has confirmed a password, whose age in the shadow file says nothing then.
    pub(crate) is_by_kdc: bool,
}

/// Terminal field of btmp for a login without a terminal.
const NO_TERMINAL: &str = "ssh:notty";

/// Records a wrong password in btmp, which lastb(1) shows.
pub(crate) fn record_failure(
    user: &LoginUser,
    method: ChainMethod,
    addresses: &Addresses,
    log: &Log,
) {
    let typed = matches!(
        method,
        ChainMethod::Password | ChainMethod::KeyboardInteractive
    );
    if !typed || !sys::process::is_root() {
        return;
    }
    let written = sys::loginrec::RecordFiles::default().failure(&sys::loginrec::LoginRecord {
        user: &user.name,
        uid: 0,
        line: NO_TERMINAL,
        host: &addresses.host,
        address: Some(addresses.remote),
        pid: sys::process::pid(),
        time: sys::time::realtime(),
    });
    if let Err(error) = written {
        log.debug(&format!("failed login record: {error}"));
    }
}

/// Passes a proof to the chains if PermitRootLogin and the key's grants permit this user to log in
/// by this method.
pub(crate) fn admit(
    user: &mut LoginUser,
    method: ChainMethod,
    proof: Proof,
    log: &Log,
) -> ChainProgress {
    let Some(account) = user.account().filter(|_| !user.denied) else {
        return ChainProgress::NotAsked;
    };
    let forced = proof
        .grants
        .as_ref()
        .is_some_and(|grants| grants.force_command.is_some());
    if !account.root_may(&user.options.authentication, method, forced) {
        log.info(&format!(
            "ROOT LOGIN REFUSED FROM {} port {}",
            user.peer.address, user.peer.port
        ));
        return ChainProgress::NotAsked;
    }
    let by_key_alone =
        user.options.authentication.permit_root_login == PermitRootLogin::ForcedCommandsOnly;
    if account.uid == 0 && by_key_alone {
        log.info("Root login accepted for forced command.");
    }
    if let Some(grants) = &proof.grants
        && let Err(reason) = user.add_grants(grants)
    {
        log.error(&reason);
        user.denied = true;
        return ChainProgress::NotAsked;
    }
    let progress = user
        .chains
        .succeed(method, proof.submethod, proof.key.as_deref());
    if !matches!(progress, ChainProgress::NotAsked) {
        user.auth_info.extend(proof.info);
        user.old_algorithms.extend(proof.old_algorithms);
        user.by_password |=
            matches!(method, ChainMethod::Password | ChainMethod::None) && !proof.is_by_kdc;
    }
    progress
}

/// The account check: PAM's if UsePAM is on. Otherwise the age of the password, for a user who has
/// logged in by password; as in OpenSSH, an expired password does not prevent a login by key.
pub(crate) fn check_account(user: &mut LoginUser, log: &Log) -> bool {
    if !user.options.authentication.use_pam {
        let today = sys::users::shadow::today();
        let state = user
            .account()
            .and_then(|account| account.shadow.as_ref())
            .map(|shadow| shadow.state(today));
        user.password_expired = user.by_password
            && matches!(
                state,
                Some(PasswordState::MustChange | PasswordState::PasswordInactive)
            );
        if user.password_expired {
            log.info(&format!("User {} password has expired", user.name));
        }
        return true;
    }
    let state = match pam_of(user) {
        Ok(pam) => pam.account(),
        Err(error) => AccountState::Denied(error),
    };
    conclude(user, state, log)
}

/// PAM's account check in a dialogue with the user, in which an expired password is changed.
/// Returns true if the account may log in.
pub(crate) fn settle_account(
    user: &mut LoginUser,
    log: &Log,
    dialogue: &mut dyn Conversation,
) -> bool {
    let settled = pam_of(user).and_then(|pam| pam.settle_account(dialogue));
    match settled {
        Ok(state) => conclude(user, state, log),
        Err(reason) => {
            log.info(&format!(
                "PAM: expired password not changed for {}: {reason}",
                user.from()
            ));
            false
        }
    }
}

fn conclude(user: &mut LoginUser, state: AccountState, log: &Log) -> bool {
    match state {
        AccountState::Fine => true,
        AccountState::MustChangePassword => {
            user.password_expired = true;
            true
        }
        AccountState::Denied(reason) => {
            log.error(&format!(
                "Access denied for user {} by PAM account configuration: {reason}",
                user.name
            ));
            user.denied = true;
            false
        }
        AccountState::Unasked => false,
    }
}

/// Returns the connection's only PAM transaction, started at first use. Its modules see what the
/// user has proved so far.
fn pam_of(user: &mut LoginUser) -> Result<&mut PamLogin, String> {
    let auth_info = auth_info_text(&user.auth_info);
    let pam = match user.pam.take() {
        Some(pam) => pam,
        None => PamLogin::start(
            &user.options.authentication.pam_service_name,
            known_name(&user.name),
            &user.peer,
        )?,
    };
    let pam = user.pam.insert(pam);
    pam.expose(&auth_info)?;
    Ok(pam)
}

/// Runs `authenticate` on the connection's PAM transaction.
///
/// # Errors
/// The reason of the failure, for the log.
pub(crate) fn with_pam(
    user: &mut LoginUser,
    authenticate: impl FnOnce(&mut PamLogin, bool) -> Result<(), String>,
) -> Result<(), String> {
    let permit_empty = user.options.authentication.permit_empty_passwords;
    pam_of(user).and_then(|pam| authenticate(pam, permit_empty))
}

/// What the user has proved, for PAM and for the file of ExposeAuthInfo. Each line ends with a
/// newline, because a shell's `read` needs it.
pub(crate) fn auth_info_text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_auth_info_has_its_end() {
        let lines = [
            "publickey ssh-ed25519 AAAA".to_owned(),
            "password".to_owned(),
        ];
        assert_eq!(
            auth_info_text(&lines),
            "publickey ssh-ed25519 AAAA\npassword\n"
        );
        assert_eq!(auth_info_text(&[]), "");
    }
}
