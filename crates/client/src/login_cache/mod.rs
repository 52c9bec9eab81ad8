//! What earlier logins taught about a server (`LoginCache`): enough to say the right thing
//! before it has said anything.
//!
//! The file stands beside the first known_hosts file of the user. It decides nothing: names are
//! looked for among the configured algorithms, and a key among those that would be tried anyway.
//! An entry is made after the host key was accepted and the login succeeded. The file's form is
//! in [`file`]; what an entry is good for is decided in [`crate::login`] and [`crate::auth`].

mod file;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use config::client::ClientOptions;
use keys::known_hosts;

use crate::log::{debug1, debug3};

/// What is known of one user's logins at one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learnt {
    /// The server's version line.
    pub version: String,
    /// What we offered, as a fingerprint: the names below follow from it.
    pub offer: String,
    /// The key exchange method that the server names first, where it is also what both agree on.
    pub kex: Option<String>,
    /// The host key algorithm that the server names first.
    pub host_key: Option<String>,
    /// `server-sig-algs`.
    pub signature_algorithms: Option<Vec<String>>,
    /// Fingerprint of the key that the login rested on, alone.
    pub key: Option<String>,
    /// What was agreed on for both directions without compression: the cipher, and behind a `+` the
    /// MAC where it needs one.
    pub suite: Option<String>,
    /// The server understands a short first KEXINIT in our own spelling.
    pub short_kexinit: bool,
    /// Nothing is to be sent ahead of this server's answers: it did not take that well.
    pub careful: bool,
}

/// The cache, as far as one login is concerned.
#[derive(Debug)]
pub struct LoginCache {
    path: PathBuf,
    known_hosts: PathBuf,
    name: String,
    hash_names: bool,
    learnt: Option<Learnt>,
}

impl LoginCache {
    /// Reads what is known of the login that `options` describe; `None` where nothing may be
    /// kept. A file that cannot be read holds nothing.
    #[must_use]
    pub fn open(options: &ClientOptions) -> Option<Self> {
        if !options.login_cache {
            return None;
        }
        let files = crate::host_key::known_hosts_files(&options.user_known_hosts_files);
        let known_hosts = files.into_iter().next()?;
        let host = match &options.host_key_alias {
            Some(alias) => alias.to_ascii_lowercase(),
            None => known_hosts::host_name(&options.hostname, options.port),
        };
        let name = format!("{}@{host}", options.user);
        if !file::is_field(&name) {
            return None;
        }
        let path = known_hosts.with_file_name(file::NAME);
        let learnt = match file::read(&path) {
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
            hash_names: options.hash_known_hosts,
            learnt,
        })
    }

    /// What is known.
    #[must_use]
    pub fn learnt(&self) -> Option<&Learnt> {
        self.learnt.as_ref()
    }

    /// Keeps what this login taught, if it is news. A file that cannot be written costs the next
    /// login its short cut and nothing else.
    pub fn learn(&mut self, learnt: Learnt) {
        if self.learnt.as_ref() == Some(&learnt) {
            return;
        }
        // `/dev/null` as known_hosts wants nothing kept, least of all beside it.
        if !self.known_hosts.is_file() {
            return;
        }
        match file::store(&self.path, &self.name, &learnt, self.hash_names) {
            Ok(()) => debug3!("login cache {} updated", self.path.display()),
            Err(reason) => debug1!("login cache {}: {reason}", self.path.display()),
        }
        self.learnt = Some(learnt);
    }
}
