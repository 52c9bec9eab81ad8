//! The login cache (`LoginCache`): profiles of servers from earlier logins, which let the client
//! send the right messages before the server has sent anything.
//!
//! The file is in the directory of the user's first known_hosts file; a program that embeds the
//! client chooses the [`ProfileStore`]. It grants nothing: a cached
//! name counts only among the configured algorithms, and a cached key only among those that would
//! be tried anyway. An entry is written after the host key was accepted and the login succeeded, or
//! after a pipelined login broke. [`file`] has the format; [`super::LoginStrategy`] uses
//! the entries.

mod file;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Where profiles are kept. Clones of a store in memory share it.
#[derive(Debug, Clone)]
pub enum ProfileStore {
    /// A file in the format of [`file`], mode 0600.
    File(PathBuf),
    /// The text of such a file, in memory.
    Memory(Arc<Mutex<String>>),
}

impl ProfileStore {
    /// The text of all entries; empty if it cannot be read.
    fn read(&self) -> String {
        match self {
            Self::File(path) => file::read(path).unwrap_or_else(|reason| {
                debug3!("login cache {}: {reason}", path.display());
                String::new()
            }),
            Self::Memory(text) => text.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Writes an entry. If that fails, the next login is slower and nothing else.
    fn store(&self, name: &str, profile: &ServerProfile, hash: bool) {
        let path = match self {
            Self::File(path) => path,
            Self::Memory(text) => {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(line) = file::line_that_fits(name, profile, hash) {
                    *text = file::with(&text, name, &line);
                }
                return;
            }
        };
        match file::store(path, name, profile, hash) {
            Ok(()) => debug3!("login cache {} updated", path.display()),
            Err(reason) => debug1!("login cache {}: {reason}", path.display()),
        }
    }
}

/// The cache entry of one user at one server.
#[derive(Debug)]
pub struct ProfileCache {
    store: ProfileStore,
    /// If this file does not exist, nothing is written.
    known_hosts: Option<PathBuf>,
    name: String,
    hash_names: bool,
    profile: Option<ServerProfile>,
    /// Only that a server needs care is stored.
    learns_care_only: bool,
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
        let store = ProfileStore::File(known_hosts.with_file_name(file::NAME));
        let mut cache = Self::of_user(store, &options.user, &host)?;
        cache.known_hosts = Some(known_hosts);
        cache.hash_names = options.host_keys.hash_known_hosts;
        Some(cache)
    }

    /// Reads the profile of a user's logins at a host, named as in known_hosts. `None` if the names
    /// cannot be stored.
    #[must_use]
    pub fn of_user(store: ProfileStore, user: &str, host: &str) -> Option<Self> {
        let name = format!("{user}@{host}");
        file::is_field(&name).then(|| Self {
            profile: file::find(&store.read(), |field| file::is_about(field, &name)),
            store,
            known_hosts: None,
            name,
            hash_names: false,
            learns_care_only: false,
        })
    }

    /// The newest profile of any user's logins at a host, without the user's key.
    #[must_use]
    pub fn of_host(store: &ProfileStore, host: &str) -> Option<ServerProfile> {
        let suffix = format!("@{host}");
        let profile = file::find(&store.read(), |field| field.ends_with(&suffix))?;
        Some(ServerProfile {
            key: None,
            ..profile
        })
    }

    /// Stores nothing but that a server needs care: for a program with more servers than the file keeps,
    /// each of which would replace another.
    #[must_use]
    pub fn learning_care_only(mut self) -> Self {
        self.learns_care_only = true;
        self
    }

    /// The cached profile, if there is one.
    #[must_use]
    pub fn profile(&self) -> Option<&ServerProfile> {
        self.profile.as_ref()
    }

    /// Stores the profile if it has changed.
    pub fn store(&mut self, profile: ServerProfile) {
        // A known_hosts file of `/dev/null` means that nothing is recorded, so no cache is written
        // either.
        let is_recorded = self.known_hosts.as_ref().is_none_or(|path| path.is_file());
        let is_wanted = profile.careful || !self.learns_care_only;
        if self.profile.as_ref() != Some(&profile) && is_recorded && is_wanted {
            self.store.store(&self.name, &profile, self.hash_names);
            self.profile = Some(profile);
        }
    }
}
