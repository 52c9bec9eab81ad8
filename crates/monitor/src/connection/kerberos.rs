//! What the monitor lets the processes of the crate `gssapi` do for a connection: accept a client's
//! context, check a password at the KDC, ask whether a principal may log in as the user, and keep credentials for the
//! session. The monitor never loads the library.

use gssapi::{AcceptorTerms, Client, GssFailure, KerberosAcceptor, PasswordCheck, UserIds};
use sys::process::{AsUser, SelfExe};
use zeroize::Zeroizing;

use config::server::ServerOptions;

use super::accounts::Account;
use crate::log::Log;

/// The variable that names a credential cache.
const CACHE_VARIABLE: &str = "KRB5CCNAME";
/// Characters of the random part of a cache's name.
const RANDOM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// How tickets are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TicketTerms {
    /// Only for the service `host` of this machine's name.
    pub(crate) is_strict: bool,
    pub(crate) takes_delegated: bool,
    /// Only with a proof of this side: a key exchange.
    pub(crate) is_mutual: bool,
}

impl TicketTerms {
    /// The ticket that a password's process gets for this machine.
    const OF_PASSWORDS: Self = Self {
        is_strict: true,
        takes_delegated: false,
        is_mutual: true,
    };

    pub(crate) fn of(options: &ServerOptions, is_mutual: bool) -> Self {
        Self {
            is_strict: options.authentication.gssapi_strict_acceptor_check,
            takes_delegated: options.authentication.gssapi_delegate_credentials,
            is_mutual,
        }
    }
}

/// Starts the processes of a connection.
pub(crate) struct Kerberos<'n> {
    executable: &'n SelfExe,
    /// The unprivileged ids that an acceptor changes to.
    auth_ids: Option<(u32, u32)>,
}

impl<'n> Kerberos<'n> {
    pub(crate) fn new(executable: &'n SelfExe, auth_ids: Option<(u32, u32)>) -> Self {
        Self {
            executable,
            auth_ids,
        }
    }

    fn unprivileged(&self) -> Option<UserIds> {
        self.auth_ids.map(|(uid, gid)| UserIds {
            uid,
            gid,
            groups: vec![gid],
        })
    }

    /// Checks a password of the principal with this name at the KDC, until `until_ms` (monotonic milliseconds), and the
    /// KDC by the machine's key. Returns the principal with its tickets.
    ///
    /// # Errors
    /// [`GssFailure`]; then nobody has proved anything.
    pub(crate) fn check_password(
        &self,
        user: &str,
        password: &[u8],
        until_ms: u64,
        log: &Log,
    ) -> Result<Client, GssFailure> {
        let logged = |failure: GssFailure| {
            log.error(&format!("KerberosAuthentication: {failure}"));
            failure
        };
        let check =
            PasswordCheck::start(self.executable, self.unprivileged(), until_ms).map_err(logged)?;
        check.run(user, password, || {
            self.acceptor(TicketTerms::OF_PASSWORDS, Some(until_ms))
                .map_err(logged)
        })
    }

    /// Starts an acceptor, whose answers are awaited until `until_ms` (monotonic milliseconds), or each for 10 s.
    pub(crate) fn acceptor(
        &self,
        terms: TicketTerms,
        until_ms: Option<u64>,
    ) -> Result<KerberosAcceptor, GssFailure> {
        KerberosAcceptor::start(
            self.executable,
            AcceptorTerms {
                ids: self.unprivileged(),
                is_strict: terms.is_strict,
                takes_delegated: terms.takes_delegated,
                is_mutual: terms.is_mutual,
            },
            until_ms,
        )
    }

    /// True if the principal may log in as the account's user. The answer is awaited until `until_ms` (monotonic
    /// milliseconds), or for 10 s.
    pub(crate) fn permits(
        &self,
        account: &Account,
        client: &Client,
        until_ms: Option<u64>,
        log: &Log,
    ) -> bool {
        let (name, user) = (client.name.clone(), &account.name);
        match gssapi::authorize(self.executable, ids_of(account), name, user, until_ms) {
            Ok(verdict) => verdict,
            Err(failure) => {
                log.error(&format!("GSSAPI: {failure}"));
                false
            }
        }
    }
}

/// The ids that a process for the account takes on; none if this process is not root.
fn ids_of(account: &Account) -> Option<UserIds> {
    sys::process::is_root().then(|| account.credentials().into())
}

/// A credential that a client has delegated, or that a password has got. After a login a MIC has proved the client;
/// after a rekey nothing has.
#[derive(Debug)]
pub(crate) struct Delegated {
    /// The exported name of the principal whose credential it is.
    pub(crate) owner: Vec<u8>,
    pub(crate) credential: Zeroizing<Vec<u8>>,
    /// True if a password has got it.
    pub(crate) is_by_password: bool,
}

impl Delegated {
    /// The credential of a context, if the client has delegated one.
    pub(crate) fn of(client: Client) -> Option<Self> {
        let (owner, credential) = (client.name, client.credential);
        credential.map(|credential| Self {
            owner,
            credential,
            is_by_password: false,
        })
    }

    /// The tickets for a password.
    pub(crate) fn of_password(client: Client) -> Option<Self> {
        Self::of(client).map(|delegated| Self {
            is_by_password: true,
            ..delegated
        })
    }

    /// True if it is removed at the end of the session.
    pub(crate) fn is_cleaned(&self, options: &ServerOptions) -> bool {
        match self.is_by_password {
            true => options.authentication.kerberos_ticket_cleanup,
            false => options.authentication.gssapi_cleanup_credentials,
        }
    }
}

/// A credential cache of a session: a file of the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CredentialCache {
    path: String,
    /// The exported name of the principal whose MIC was verified in the login.
    owner: Vec<u8>,
}

impl CredentialCache {
    /// Writes a delegated credential to a new cache.
    pub(crate) fn store(
        executable: &SelfExe,
        account: &Account,
        delegated: Delegated,
    ) -> Result<Self, String> {
        let path = new_path(account.uid);
        gssapi::store(executable, ids_of(account), delegated.credential, &path)
            .map_err(|failure| failure.to_string())?;
        let owner = delegated.owner;
        Ok(Self { path, owner })
    }

    /// Replaces the credential, unless the user has removed the cache.
    ///
    /// No MIC of the client proves the context of a rekey, whose token may be a replay of somebody else's. Only a
    /// credential of the principal whose credential the cache has is therefore taken.
    pub(crate) fn replace(
        &self,
        executable: &SelfExe,
        account: &Account,
        delegated: Delegated,
    ) -> Result<(), String> {
        if !self.is_of(&delegated) {
            return Err("a rekey has delegated those of another principal".to_owned());
        }
        let newer = Self::store(executable, account, delegated)?;
        let replaced = AsUser::enter(&account.credentials()).and_then(|_as_user| {
            std::fs::symlink_metadata(&self.path)
                .and_then(|_| std::fs::rename(&newer.path, &self.path))
                .inspect_err(|_| drop(std::fs::remove_file(&newer.path)))
        });
        replaced.map_err(|error| format!("{}: {error}", self.path))
    }

    fn is_of(&self, delegated: &Delegated) -> bool {
        self.owner == delegated.owner
    }

    /// Name and value of the variable for the session.
    pub(crate) fn variable(&self) -> (String, String) {
        (CACHE_VARIABLE.to_owned(), format!("FILE:{}", self.path))
    }

    /// Removes the cache, with the user's rights.
    pub(crate) fn remove(&self, account: &Account, log: &Log) {
        let removed = AsUser::enter(&account.credentials())
            .and_then(|_as_user| std::fs::remove_file(&self.path));
        match removed {
            // kdestroy has removed it.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                log.error(&format!("removing {}: {error}", self.path));
            }
            _ => {}
        }
    }
}

/// A path that nobody can foresee.
fn new_path(uid: u32) -> String {
    let name: String = crypto::random::bytes::<10>()
        .iter()
        .filter_map(|byte| RANDOM.get(usize::from(*byte) % RANDOM.len()))
        .map(|byte| char::from(*byte))
        .collect();
    format!("/tmp/krb5cc_{uid}_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cache_has_a_name_of_its_own_below_tmp() {
        let (one, other) = (new_path(7), new_path(7));
        assert!(
            one.starts_with("/tmp/krb5cc_7_") && one.len() == 24,
            "{one}"
        );
        assert_ne!(one, other);
        let cache = CredentialCache {
            path: one.clone(),
            owner: b"alice".to_vec(),
        };
        assert_eq!(cache.variable().1, format!("FILE:{one}"));
    }

    #[test]
    fn a_cache_takes_credentials_of_its_principal_alone() {
        let cache = CredentialCache {
            path: new_path(7),
            owner: b"alice".to_vec(),
        };
        for (owner, is_taken) in [(&b"alice"[..], true), (b"mallory", false), (b"", false)] {
            let delegated = Delegated {
                owner: owner.to_vec(),
                credential: Zeroizing::new(vec![1]),
                is_by_password: false,
            };
            assert_eq!(cache.is_of(&delegated), is_taken);
        }
    }
}
