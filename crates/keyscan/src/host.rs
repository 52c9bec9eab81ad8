//! One host: the addresses that are left to try, the keys that were found, and what to ask next.

use std::collections::VecDeque;
use std::net::SocketAddr;

use keys::PresentedKey;

use crate::connection::{ScanConnection, ScanFailure};
use crate::key_types::{self, COUNT, KeyTypes};
use crate::options::KeyscanOptions;
use crate::source::ScanTarget;
use crate::{output, say};

/// Algorithm of RSA keys with SHA-1, the only one of some old servers.
const RSA_WITH_SHA1: &str = "ssh-rsa";

/// A host that is being scanned.
#[derive(Debug)]
pub(crate) struct ScannedHost {
    /// Names and addresses that were not tried.
    names: VecDeque<String>,
    /// Those of the output.
    output: String,
    /// The one that is being tried.
    name: String,
    /// Its addresses that were not tried.
    addresses: VecDeque<SocketAddr>,
    banner: Option<String>,
    found: [Option<PresentedKey>; COUNT],
    /// Connections that exist or wait for a descriptor.
    connections: usize,
    /// The server's KEXINIT has told which types it has.
    knows_types: bool,
}

/// What a host needs next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostStep {
    /// A connection to this address.
    Connect(SocketAddr),
    /// The addresses of this name.
    LookUp(String),
    /// Nothing: it is complete.
    Complete,
}

impl ScannedHost {
    pub(crate) fn new(target: ScanTarget) -> Self {
        let names = target.addresses.split(',').filter(|name| !name.is_empty());
        Self {
            names: names.map(str::to_owned).collect(),
            output: target.output,
            name: String::new(),
            addresses: VecDeque::new(),
            banner: None,
            found: [const { None }; COUNT],
            connections: 0,
            knows_types: false,
        }
    }

    /// The next address or name to try.
    pub(crate) fn next(&mut self) -> HostStep {
        if let Some(address) = self.addresses.pop_front() {
            self.connections += 1;
            return HostStep::Connect(address);
        }
        match self.names.pop_front() {
            Some(name) => {
                self.name.clone_from(&name);
                HostStep::LookUp(name)
            }
            None => HostStep::Complete,
        }
    }

    /// Takes the addresses of the name that was looked up, or says why there are none.
    pub(crate) fn looked_up(&mut self, found: Result<Vec<SocketAddr>, String>) {
        match found {
            Ok(addresses) => self.addresses = addresses.into(),
            Err(why) => say(&format!("getaddrinfo {}: {why}", self.name)),
        }
    }

    /// An address cannot even be tried.
    pub(crate) fn unreachable(&mut self, error: &std::io::Error) {
        self.connections -= 1;
        say(&format!("connect (`{}'): {error}", self.name));
    }

    /// True if nothing is under way.
    pub(crate) fn rests(&self) -> bool {
        self.connections == 0
    }

    /// True if the server has said who it is: no other address is tried.
    pub(crate) fn is_greeted(&self) -> bool {
        self.banner.is_some()
    }

    /// Records the end of a connection; returns the types that are to be asked for one by one, on
    /// connections of their own.
    pub(crate) fn ended(
        &mut self,
        connection: &ScanConnection,
        result: Result<PresentedKey, ScanFailure>,
        options: &KeyscanOptions,
    ) -> Vec<usize> {
        self.connections -= 1;
        if let Some(banner) = connection.banner() {
            self.banner.get_or_insert_with(|| banner.to_owned());
        }
        match result {
            Ok(key) => {
                let position = key_types::position_of(key.key().key_type());
                if let Some(slot) = position.and_then(|at| self.found.get_mut(at)) {
                    *slot = Some(key);
                }
            }
            Err(failure) => self.report(&failure, options),
        }
        let Some(offered) = connection.offered().filter(|_| !self.knows_types) else {
            return Vec::new();
        };
        self.knows_types = true;
        self.explain_sha1(offered, options);
        let asked_alone = connection.types.positions().count() == 1;
        let theirs = options.types.offered_in(offered, options.certificates);
        let missing: Vec<usize> = theirs
            .positions()
            .filter(|at| !asked_alone && matches!(self.found.get(*at), Some(None)))
            .collect();
        self.connections += missing.len();
        missing
    }

    /// Says why a connection has brought nothing, in ssh-keyscan's words where it has some.
    fn report(&self, failure: &ScanFailure, options: &KeyscanOptions) {
        let name = &self.name;
        match failure {
            ScanFailure::Closed if !self.is_greeted() => {
                say(&format!("{name}: Connection closed by remote host"));
            }
            ScanFailure::Read(error) if !self.is_greeted() => {
                say(&format!("read ({name}): {error}"));
            }
            _ if options.verbosity == 0 => {}
            ScanFailure::Closed => say(&format!("debug1: {name}: connection closed")),
            ScanFailure::Connect(error) | ScanFailure::Read(error) => {
                say(&format!("debug1: {name}: {error}"));
            }
            ScanFailure::Protocol(error) => say(&format!("debug1: {name}: {error}")),
            ScanFailure::TimedOut => say(&format!("debug1: {name}: timed out")),
        }
    }

    /// Reports that a server has an RSA key which cannot be asked for. That happens in a build with the
    /// feature `strict` alone: other builds know `ssh-rsa`, and ask for such keys.
    fn explain_sha1(&self, offered: &[String], options: &KeyscanOptions) {
        let Some(rsa) = key_types::position_by_name("rsa").filter(|_| !options.certificates) else {
            return;
        };
        let wanted = options.types.positions().any(|at| at == rsa);
        let theirs = KeyTypes::only(rsa).offered_in(offered, false);
        if wanted && theirs == KeyTypes::NONE && offered.iter().any(|each| each == RSA_WITH_SHA1) {
            say(&format!(
                "{}: its RSA key signs with SHA-1 only ({RSA_WITH_SHA1}), which this build leaves out",
                self.name
            ));
        }
    }

    /// Prints the keys; true if there are any.
    pub(crate) fn print(&self, options: &KeyscanOptions) -> bool {
        let mut any = false;
        for position in options.types.positions() {
            // One comment for each type, as by ssh-keyscan's connections.
            if let Some(banner) = &self.banner {
                output::comment(options, &self.name, banner);
            }
            if let Some(Some(key)) = self.found.get(position) {
                output::key(options, &self.output, key);
                any = true;
            }
        }
        any
    }
}
