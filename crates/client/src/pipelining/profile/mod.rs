//! The login cache (`LoginCache`): profiles of servers from earlier logins, which let the client
//! send the right messages before the server has sent anything.
//!
//! The file is in the directory of the user's first known_hosts file. It grants nothing: a cached
//! name counts only among the configured algorithms, and a cached key only among those that would
//! be tried anyway. An entry is written after the host key was accepted and the login succeeded, or
//! after a pipelined login broke. [`file`] has the format; [`super::LoginStrategy`] uses
//! the entries.

mod file;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use config::client::ClientOptions;
use keys::known_hosts;

use crate::log::{debug1, debug3};

/// The cached profile of one user's logins at one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerProfile {
    /// The server's version line.
    pub version: String,
    /// Fingerprint of the client's configured algorithm lists, for which the names below are valid.
    pub offer: String,
    /// The key exchange method that the server names first, if it is also the one that both sides
    /// agree on.
    pub kex: Option<String>,
    /// The host key algorithm that the server names first.
    pub host_key: Option<String>,
    /// `server-sig-algs`.
    pub signature_algorithms: Option<Vec<String>>,
    /// Fingerprint of the key, if the login needed this key and nothing else.
    pub key: Option<String>,
    /// The cipher agreed on for both directions without compression; `+` and the MAC follow if the
    /// cipher needs one.
    pub suite: Option<String>,
    /// True if the server understands a short first KEXINIT, which is Fulmar's extension.
    pub short_kexinit: bool,
    /// True if the client must wait for each of this server's answers, because a pipelined login
    /// failed.
    pub careful: bool,
}

/// The cache entry of one user at one server.
#[derive(Debug)]
pub struct ProfileCache {
    path: PathBuf,
    known_hosts: PathBuf,
    name: String,
    hash_names: bool,
    profile: Option<ServerProfile>,
}

impl ProfileCache {
    /// Reads the profile for the login that `options` describe. `None` if nothing may be cached. An
    /// unreadable file counts as empty.
    #[must_use]
    pub fn open(options: &ClientOptions) -> Option<Self> {
        if !options.authentication.login_cache {
            return None;
        }
        let files = crate::host_key::known_hosts_files(&options.host_keys.user_known_hosts_files);
        let known_hosts = files.into_iter().next()?;
        let host = match &options.host_keys.host_key_alias {
            Some(alias) => alias.to_ascii_lowercase(),
            None => known_hosts::host_name(&options.hostname, options.port),
        };
        let name = format!("{}@{host}", options.user);
        if !file::is_field(&name) {
            return None;
        }
        let path = known_hosts.with_file_name(file::NAME);
        let profile = match file::read(&path) {
            Ok(text) => file::find(&text, &name),
            Err(reason) => {
                debug3!("login cache {}: {reason}", path.display());
                None
            }
        };
        Some(Self {
            path,
            known_hosts,
            name,
            hash_names: options.host_keys.hash_known_hosts,
            profile,
        })
    }

    /// The cached profile, if there is one.
    #[must_use]
    pub fn profile(&self) -> Option<&ServerProfile> {
        self.profile.as_ref()
    }

    /// Writes the profile if it has changed. If the file cannot be written, the next login is
    /// slower and nothing else.
    pub fn store(&mut self, profile: ServerProfile) {
        if self.profile.as_ref() == Some(&profile) {
            return;
        }
        // A known_hosts file of `/dev/null` means that nothing is recorded, so no cache is written
        // either.
        if !self.known_hosts.is_file() {
            return;
        }
        match file::store(&self.path, &self.name, &profile, self.hash_names) {
            Ok(()) => debug3!("login cache {} updated", self.path.display()),
            Err(reason) => debug1!("login cache {}: {reason}", self.path.display()),
        }
        self.profile = Some(profile);
    }
}
