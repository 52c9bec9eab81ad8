//! The user of one connection during authentication: name and account, the options that apply after
//! Match, failed attempts, and the grants of the user's keys.
//!
//! Invariants: the name is set once and never changes, and everything granted belongs to it; the
//! grants of several keys only restrict one another.

use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;

use config::server::{ConnectionSpec, ServerOptions};
use keys::authorized_keys::KeyOptions;
use keys::{Permission, PermitTarget};
use privsep::{User, UserPolicy};

use super::accounts::{self, Account, Peer};
use super::chains::{Chains, Enabled};
use super::configuration::Configuration;
use super::delay::FailureDelay;
use super::kerberos::Delegated;
use super::pam::PamLogin;
use crate::log::Log;

/// Most requests of one connection, whatever their outcome: accepted key queries count as no
/// failure and must not continue without end.
pub(crate) const MAX_REQUESTS: u32 = 1024;
/// Limit on the banner, in bytes.
const MAX_BANNER_BYTES: u64 = 256 * 1024;

/// Text for a name or an address in logs and SSH_CONNECTION if the connection is not a network
/// socket, as in OpenSSH.
pub(crate) const UNKNOWN: &str = "UNKNOWN";

/// Addresses and ports of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) remote: IpAddr,
    pub(crate) remote_port: u16,
    pub(crate) local: IpAddr,
    pub(crate) local_port: u16,
    /// The routing domain: the device that the socket is bound to, or empty.
    pub(crate) rdomain: String,
    /// The peer's host name with UseDNS, else its address as text.
    pub(crate) host: String,
}

impl Addresses {
    /// The facts for Match blocks before a user is known.
    pub(crate) fn spec(&self) -> ConnectionSpec {
        ConnectionSpec {
            host: self.host.clone(),
            address: Some(self.remote),
            local_address: Some(self.local),
            local_port: Some(self.local_port),
            rdomain: Some(self.rdomain.clone()),
            ..ConnectionSpec::default()
        }
    }

    /// The peer for lists of users and for log lines.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            host: self.host.clone(),
            address: self.remote_text(),
            port: self.remote_port,
            rdomain: self.rdomain.clone(),
            connection: format!(
                "{} {} {} {}",
                self.remote, self.remote_port, self.local, self.local_port
            ),
        }
    }

    /// The client's address for people, or `UNKNOWN`.
    pub(crate) fn remote_text(&self) -> String {
        text(self.remote)
    }

    /// The server's address for people, or `UNKNOWN`.
    pub(crate) fn local_text(&self) -> String {
        text(self.local)
    }
}

/// The unspecified address marks a connection without addresses: no connected socket has it.
fn text(address: IpAddr) -> String {
    if address.is_unspecified() {
        UNKNOWN.to_owned()
    } else {
        address.to_string()
    }
}

/// Counts of requests and failures of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tries {
    pub(crate) requests: u32,
    pub(crate) failures: u32,
    /// Failed passwords, answers and signatures; from half of MaxAuthTries on, each failure is
    /// logged at level INFO.
    pub(crate) guesses: u32,
    /// Key queries for keys that were looked for and not listed.
    pub(crate) refused_queries: u32,
    /// True if the client has tried a method other than `none`.
    pub(crate) attempted: bool,
}

/// State of the account lookup.
pub(crate) enum AccountLookup {
    /// Not looked up yet. No login is possible in this state.
    Unasked,
    /// Looked up and checked.
    Judged {
        /// True if the user exists.
        exists: bool,
        /// `None` for a user who does not exist or may not log in.
        account: Option<Box<Account>>,
    },
}

/// The user of one connection during authentication.
pub(crate) struct LoginUser {
    /// The name without the login style after a colon.
    pub(crate) name: String,
    /// The name as the client sent it, over which the client signs.
    pub(crate) said: String,
    pub(crate) service: String,
    pub(crate) client_version: String,
    standing: AccountLookup,
    pub(crate) options: Rc<ServerOptions>,
    pub(crate) peer: Peer,
    pub(crate) chains: Chains,
    pub(crate) tries: Tries,
    pub(crate) delay: FailureDelay,
    /// Grants that all successful keys permit; `None` before the first.
    pub(crate) grants: Option<KeyOptions>,
    /// Lines for ExposeAuthInfo.
    pub(crate) auth_info: Vec<String>,
    /// The algorithms of all proofs that only old devices need.
    pub(crate) old_algorithms: Vec<&'static str>,
    pub(crate) pam: Option<PamLogin>,
    /// Credentials that the client has delegated or a password has got, for the session.
    pub(crate) delegated: Option<Delegated>,
    /// True if PAM or the grants have refused the login: no method succeeds any more.
    pub(crate) denied: bool,
    /// True if a password of PAM or the shadow file, possibly empty, was part of the login.
    pub(crate) by_password: bool,
    /// True if the password must be changed before anything else.
    pub(crate) password_expired: bool,
    /// Monotonic microseconds at which the current request arrived.
    pub(crate) started_us: u64,
}

impl LoginUser {
    /// Determines the options for a user name. The account is looked up here only if the
    /// configuration depends on it, else by [`ask`](Self::ask). `by_gss`: the first key exchange was by GSS-API.
    pub(crate) fn new(
        request: &User,
        config: &Configuration,
        addresses: &Addresses,
        delay_secret: &[u8],
        log: &Log,
        by_gss: bool,
        started_us: u64,
    ) -> Self {
        // A style selects a method of BSD authentication, which does not exist here.
        let (name, _style) = request.user.split_once(':').unwrap_or((&request.user, ""));
        let found = config
            .asks_for_accounts()
            .then(|| accounts::look_up(name, true, log));
        let account = found.as_ref().and_then(Option::as_ref);
        let spec = ConnectionSpec {
            user: Some(name.to_owned()),
            user_exists: account.is_some(),
            groups: account
                .map(|account| account.group_names.clone())
                .unwrap_or_default(),
            ..addresses.spec()
        };
        let options = config.for_connection(&spec);
        log.name_user(name);
        log.follow(&options.logging);
        let peer = addresses.peer();
        let enabled = Enabled {
            publickey: options.authentication.pubkey_authentication,
            password: options.authentication.password_authentication,
            kbdint: options.authentication.kbd_interactive_authentication
                && options.authentication.use_pam,
            hostbased: options.authentication.hostbased_authentication,
            gssapi: options.authentication.gssapi_authentication,
            gssapi_keyex: options.authentication.gssapi_authentication && by_gss,
            none: options.authentication.permit_empty_passwords
                && options.authentication.password_authentication,
        };
        let chains = Chains::new(
            name,
            &options.authentication.authentication_methods,
            enabled,
        );
        if chains.hopeless() {
            log.error(&format!(
                "no AuthenticationMethods left for {name} after eliminating disabled methods"
            ));
        }
        let mut user = Self {
            delay: FailureDelay::new(delay_secret),
            name: name.to_owned(),
            said: request.user.clone(),
            service: request.service.clone(),
            client_version: request.client_version.clone(),
            standing: AccountLookup::Unasked,
            options,
            peer,
            chains,
            tries: Tries::default(),
            grants: None,
            auth_info: Vec::new(),
            old_algorithms: Vec::new(),
            pam: None,
            delegated: None,
            denied: false,
            by_password: false,
            password_expired: false,
            started_us,
        };
        if let Some(found) = found {
            user.judge(found, log);
        }
        user
    }

    /// True if the account was not looked up yet.
    pub(crate) fn is_unasked(&self) -> bool {
        matches!(self.standing, AccountLookup::Unasked)
    }

    /// Looks the account up, once, and decides whether it may log in at all. The work does not
    /// depend on the result.
    pub(crate) fn ask(&mut self, log: &Log) {
        if self.is_unasked() {
            let options = &self.options;
            let by_group = !(options.authentication.allow_groups.is_empty()
                && options.authentication.deny_groups.is_empty());
            self.judge(accounts::look_up(&self.name, by_group, log), log);
        }
    }

    fn judge(&mut self, found: Option<Account>, log: &Log) {
        self.standing = AccountLookup::Judged {
            exists: found.is_some(),
            account: judge(found, &self.name, &self.options, &self.peer, log).map(Box::new),
        };
    }

    /// The account, if it may log in.
    pub(crate) fn account(&self) -> Option<&Account> {
        match &self.standing {
            AccountLookup::Unasked => None,
            AccountLookup::Judged { account, .. } => account.as_deref(),
        }
    }

    /// The account, or a stand-in for a user who may not log in, so that the same work is done for both.
    pub(crate) fn account_or_decoy(&self) -> Cow<'_, Account> {
        match self.account() {
            Some(account) => Cow::Borrowed(account),
            None => Cow::Owned(Account::decoy()),
        }
    }

    /// True if the lookup found no such user.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.standing, AccountLookup::Judged { exists: false, .. })
    }

    /// The reply to the request that named the user.
    pub(crate) fn policy(&self) -> UserPolicy {
        let banner = self
            .options
            .authentication
            .banner
            .as_ref()
            .and_then(|path| {
                sys::file::read_bounded(path, MAX_BANNER_BYTES, sys::file::FollowLinks::Follow)
                    .ok()
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            });
        UserPolicy {
            methods: self.chains.methods(),
            banner,
            pubkey_algorithms: self.options.algorithms.pubkey_accepted_algorithms.clone(),
            max_auth_tries: self.options.authentication.max_auth_tries,
        }
    }

    /// `invalid user ` or an empty text, for log lines.
    pub(crate) fn invalid(&self) -> &'static str {
        if self.account().is_some() || self.is_unasked() {
            ""
        } else {
            "invalid user "
        }
    }

    /// Description of the user with address and port, for log lines that begin with it.
    pub(crate) fn who(&self) -> String {
        let known = match self.invalid() {
            "" => "authenticating user",
            _ => "invalid user",
        };
        let Peer { address, port, .. } = &self.peer;
        format!("{known} {} {address} port {port}", self.shown_name())
    }

    /// The name for log lines, truncated to 100 bytes as in OpenSSH, so that a long name can
    /// neither push the address off a truncated line nor forge another one.
    pub(crate) fn shown_name(&self) -> &str {
        const MOST_BYTES: usize = 100;
        let end = self.name.floor_char_boundary(MOST_BYTES);
        self.name.get(..end).unwrap_or_default()
    }

    /// `NAME from ADDRESS port PORT`, for log lines.
    pub(crate) fn from(&self) -> String {
        format!(
            "{}{} from {} port {}",
            self.invalid(),
            self.shown_name(),
            self.peer.address,
            self.peer.port
        )
    }

    /// Restricts the grants by those of a further key.
    ///
    /// # Errors
    /// If the keys force different commands.
    pub(crate) fn add_grants(&mut self, more: &KeyOptions) -> Result<(), String> {
        let merged = match &self.grants {
            None => more.clone(),
            Some(have) => {
                let mut merged = have.merge(more).map_err(|error| error.to_string())?;
                take_away_destinations(&mut merged, have, more);
                merged
            }
        };
        self.grants = Some(merged);
        Ok(())
    }
}

/// Two keys that each list destinations permit only those in both lists. If there are none, port
/// forwarding is off, because an empty list would permit any destination.
fn take_away_destinations(merged: &mut KeyOptions, one: &KeyOptions, other: &KeyOptions) {
    let both = |one: &[PermitTarget], other: &[PermitTarget]| -> Option<Vec<PermitTarget>> {
        (!one.is_empty() && !other.is_empty()).then(|| {
            let common = one.iter().filter(|target| other.contains(target));
            common.cloned().collect()
        })
    };
    for (slot, common) in [
        (
            &mut merged.permit_open,
            both(&one.permit_open, &other.permit_open),
        ),
        (
            &mut merged.permit_listen,
            both(&one.permit_listen, &other.permit_listen),
        ),
    ] {
        if let Some(common) = common {
            if common.is_empty() {
                merged.permissions.set(Permission::PortForwarding, false);
            }
            *slot = common;
        }
    }
}

/// Returns the account if it may log in; logs the reason otherwise.
fn judge(
    found: Option<Account>,
    name: &str,
    options: &ServerOptions,
    peer: &Peer,
    log: &Log,
) -> Option<Account> {
    let shell = found.as_ref().map_or("/bin/sh", |account| &account.shell);
    let shell = accounts::shell_file(shell);
    let Some(account) = found else {
        log.info(&format!(
            "Invalid user {name} from {} port {}",
            peer.address, peer.port
        ));
        return None;
    };
    let own_uid = sys::process::effective_uid();
    if own_uid != 0 && account.uid != own_uid {
        log.info(&format!(
            "User {name} from {} not allowed because only uid {own_uid} is served here",
            peer.address
        ));
        return None;
    }
    match account.verdict(options, peer, shell, sys::users::shadow::today()) {
        Ok(()) => Some(account),
        Err(denial) => {
            log.info(&denial.0);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> KeyOptions {
        KeyOptions::parse(text, &|_| None).unwrap()
    }

    fn both(one: &str, other: &str) -> KeyOptions {
        let (one, other) = (options(one), options(other));
        let mut merged = one.merge(&other).unwrap();
        take_away_destinations(&mut merged, &one, &other);
        merged
    }

    #[test]
    fn destinations_of_two_keys_are_those_that_both_name() {
        let some = both(
            "permitopen=\"a:1\",permitopen=\"b:2\"",
            "permitopen=\"b:2\",permitopen=\"c:3\"",
        );
        assert_eq!(some.permit_open, options("permitopen=\"b:2\"").permit_open);
        assert!(some.permissions.permits(Permission::PortForwarding));
        for (one, other) in [
            ("permitopen=\"a:1\"", "permitopen=\"b:2\""),
            ("permitlisten=\"1\"", "permitlisten=\"2\""),
        ] {
            let permissions = both(one, other).permissions;
            assert!(
                !permissions.permits(Permission::PortForwarding),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("permitopen=\"a:1\"", "no-pty"),
            ("no-user-rc", "permitopen=\"a:1\""),
        ] {
            let merged = both(one, other);
            assert_eq!(merged.permit_open.len(), 1, "{one} {other}");
            assert!(merged.permissions.permits(Permission::PortForwarding));
        }
    }
}
