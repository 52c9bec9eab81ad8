//! Decides whether a host key belongs to the host: known_hosts, certificates, revocation, and the
//! questions and warnings about it.
//!
//! `proto` verifies the signature that proves possession of the key before any check here. A lookup
//! that fails for any reason ends in a refusal or a question, never in acceptance. `dialog`
//! writes the texts for the user; [`update`] rotates keys.

mod address;
mod assess;
mod dialog;
pub mod dns;
mod files;
pub mod update;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::client::{ClientOptions, StrictHostKeyChecking, YesNoAsk};
use crypto::hash::HashAlgorithm;
use keys::known_hosts::{self, HostKeyStatus, KnownHosts, Location};
use keys::{Certificate, PresentedKey, SignatureAlgorithm};

use crate::children;
use crate::connect;
use crate::interaction::Interaction;
use crate::log::{self, debug1, debug2, debug3, error, info, says};
use crate::text::one_line;
use address::AddressCheck;
use dns::{DnsFinding, DnsLookup};
use files::CommandError;

pub use assess::{Finding, HostKeyOffer, HostKeyRules, assess, prefer_known};
pub(crate) use files::named as known_hosts_files;

/// What the user reads if `KnownHostsCommand` fails.
pub(crate) const COMMAND_FAILED: &str = "KnownHostsCommand failed";

/// The decision about a host key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The key is the host's.
    Accept,
    /// The configuration lets a changed key pass: no secret may be sent.
    AcceptWithoutSecrets,
    /// The key is not the host's, or nobody vouched for it.
    Refuse,
}

/// Decides about a host key whose possession the server has proved.
pub trait HostKeyJudge {
    /// Decides about the key or certificate in `blob`, which `algorithm` names.
    fn judge(&mut self, algorithm: &str, blob: &[u8], interaction: &mut dyn Interaction)
    -> Verdict;
}

impl HostKeyJudge for HostKeyChecker {
    fn judge(
        &mut self,
        algorithm: &str,
        blob: &[u8],
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        Self::judge(self, algorithm, blob, interaction)
    }
}

/// Who vouched for the host key; UpdateHostKeys depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Nobody vouched for it.
    None,
    /// A line of the user's own files, the user or the DNS vouched for the plain key.
    Plain,
    /// A certificate authority vouched.
    Authority,
}

/// The known_hosts files.
#[derive(Debug)]
struct KnownFiles {
    /// Paths of the user's files, of which new keys go to the first.
    user_paths: Vec<PathBuf>,
    /// Contents of the user's files that exist.
    user: Vec<KnownHosts>,
    /// The same of `GlobalKnownHostsFile`.
    global: Vec<KnownHosts>,
    /// What the user reads if a file is too large to be read: it may list the host, or revoke keys.
    too_large: Option<String>,
}

impl KnownFiles {
    fn load(user_paths: Vec<PathBuf>, global_paths: &[PathBuf]) -> Self {
        let mut too_large = None;
        let mut load = |paths: &[PathBuf]| {
            files::load(paths.iter()).unwrap_or_else(|reason| {
                too_large.get_or_insert(reason.to_string());
                Vec::new()
            })
        };
        let (user, global) = (load(&user_paths), load(global_paths));
        Self {
            user_paths,
            user,
            global,
            too_large,
        }
    }

    /// The kind of record that a line belongs to.
    fn source(&self, at: &Location) -> RecordSource {
        let has = |files: &[KnownHosts]| files.iter().any(|file| file.path() == at.path);
        // A file of both lists is the system's, as in OpenSSH.
        if has(&self.global) {
            RecordSource::System
        } else if has(&self.user) {
            RecordSource::User
        } else {
            RecordSource::Command
        }
    }
}

/// The kind of record of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordSource {
    /// `UserKnownHostsFile`.
    User,
    /// `GlobalKnownHostsFile`.
    System,
    /// `KnownHostsCommand`.
    Command,
}

/// Further names of a host.
#[derive(Debug)]
struct HostNames {
    /// As typed, for messages.
    typed: String,
    /// The name that a certificate must have among its principals.
    principal: String,
    /// The name without its port, which is looked up where the one with the port has no record.
    without_port: Option<String>,
    port: u16,
}

/// `KnownHostsCommand`, which runs for each lookup.
#[derive(Debug)]
struct HostsCommand {
    template: String,
    tokens: config::tokens::Tokens,
    /// True if it ran and failed: it may have keys, or revoke some, that nobody knows now.
    has_failed: Cell<bool>,
}

/// Checks the host keys of one host.
#[derive(Debug)]
pub struct HostKeyChecker {
    /// The name in known_hosts: the alias, or `[host]:port`.
    name: String,
    host: HostNames,
    /// True if the host is recorded without its port only.
    is_known_without_port: Cell<bool>,
    address: Option<SocketAddr>,
    strict: StrictHostKeyChecking,
    batch_mode: bool,
    hash_names: bool,
    visual: bool,
    fingerprint: HashAlgorithm,
    revoked_files: Vec<PathBuf>,
    skip_for_loopback: bool,
    /// `VerifyHostKeyDNS`, with the lookup, which runs since the connection began.
    dns: Option<(YesNoAsk, DnsLookup)>,
    /// True if the DNS has the presented key's fingerprint, which only a question mentions.
    dns_matches: bool,
    /// `CheckHostIP`.
    address_check: AddressCheck,
    files: KnownFiles,
    command: Option<HostsCommand>,
    rules: HostKeyRules,
    order_is_the_users: bool,
    trust: Trust,
    presented: Vec<u8>,
}

impl HostKeyChecker {
    /// Reads the known_hosts files for the host that `options` name.
    #[must_use]
    pub fn new(options: &ClientOptions) -> Self {
        let alias = options.host_keys.host_key_alias.as_ref();
        let name = match alias {
            Some(alias) => alias.to_ascii_lowercase(),
            None => known_hosts::host_name(&options.hostname, options.port),
        };
        let user_paths = files::named(&options.host_keys.user_known_hosts_files);
        let global_paths = files::named(&options.host_keys.global_known_hosts_files);
        Self {
            host: HostNames {
                typed: options.host_argument.clone(),
                principal: alias.unwrap_or(&options.hostname).to_ascii_lowercase(),
                without_port: (alias.is_none() && options.port != known_hosts::DEFAULT_PORT)
                    .then(|| options.hostname.to_ascii_lowercase()),
                port: options.port,
            },
            is_known_without_port: Cell::new(false),
            name,
            address: None,
            strict: options.host_keys.strict_host_key_checking,
            batch_mode: options.authentication.batch_mode,
            hash_names: options.host_keys.hash_known_hosts,
            visual: options.host_keys.visual_host_key,
            fingerprint: options.logging.fingerprint_hash.algorithm(),
            revoked_files: options
                .host_keys
                .revoked_host_keys
                .iter()
                .map(PathBuf::from)
                .collect(),
            skip_for_loopback: options.host_keys.no_host_authentication_for_localhost
                && alias.is_none(),
            dns: match options.host_keys.verify_host_key_dns {
                YesNoAsk::No => None,
                wanted => {
                    let limit = connect::timeout(&options.connection);
                    Some((wanted, DnsLookup::start(&options.hostname, limit)))
                }
            },
            dns_matches: false,
            address_check: AddressCheck::new(options),
            files: KnownFiles::load(user_paths, &global_paths),
            command: options
                .host_keys
                .known_hosts_command
                .clone()
                .map(|template| HostsCommand {
                    template,
                    tokens: options.tokens.clone(),
                    has_failed: Cell::new(false),
                }),
            order_is_the_users: options.algorithms.host_key_algorithms_set,
            rules: HostKeyRules {
                host_key_algorithms: options.algorithms.host_key_algorithms.clone(),
                authority_algorithms: options
                    .algorithms
                    .ca_signature_algorithms
                    .iter()
                    .filter_map(|name| SignatureAlgorithm::from_name(name))
                    .collect(),
                min_rsa_bits: usize::try_from(options.algorithms.required_rsa_size)
                    .unwrap_or(usize::MAX)
                    .max(1024),
            },
            trust: Trust::None,
            presented: Vec::new(),
        }
    }

    /// Sets the host's address, for messages and for NoHostAuthenticationForLocalhost.
    pub fn set_address(&mut self, address: Option<SocketAddr>) {
        self.address = address;
    }

    /// Frees the known_hosts files, which may be long, once the key has been judged: an update of the host
    /// keys reads them again.
    pub(crate) fn forget_files(&mut self) {
        self.files.user = Vec::new();
        self.files.global = Vec::new();
    }

    /// The host key algorithms to offer: first those for which the files hold a key of this host,
    /// so that a known host is recognised, unless the user chose the order.
    #[must_use]
    pub fn offer(&self) -> HostKeyOffer {
        let all = &self.rules.host_key_algorithms;
        if self.order_is_the_users {
            return HostKeyOffer {
                names: all.clone(),
                expected: 1,
            };
        }
        let mut known = known_hosts::known_types(&self.files.user, &self.name);
        let others = [
            known_hosts::known_types(&self.files.global, &self.name),
            known_hosts::known_types(&self.command_output("ORDER", &self.name, None), &self.name),
        ];
        for other in others {
            known.authority |= other.authority;
            known.plain.extend(other.plain);
        }
        let offer = prefer_known(all, &known);
        if let Some(first @ [_, ..]) = offer.names.get(..offer.expected) {
            debug3!("host key algorithms preferred: {}", first.join(","));
        }
        offer
    }

    /// Decides about the key whose possession the server has proved. Asks the user and shows
    /// warnings through `interaction`.
    pub fn judge(
        &mut self,
        algorithm: &str,
        blob: &[u8],
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        blob.clone_into(&mut self.presented);
        let presented = match self.rules.parse(algorithm, blob) {
            Ok(presented) => presented,
            Err(reason) => {
                error!(
                    "The server's host key cannot be used: {}",
                    one_line(&reason.to_string())
                );
                return Verdict::Refuse;
            }
        };
        debug1!(
            "Server host key: {} {}",
            presented.blob_name(),
            self.fingerprint_of(presented.key())
        );
        if let Some(verdict) = self.revoked_by_files(&presented) {
            return verdict;
        }
        let is_in_dns = self.ask_dns(presented.key(), interaction);
        if !is_in_dns
            && self.skip_for_loopback
            && self.address.is_some_and(|at| at.ip().is_loopback())
        {
            debug1!("NoHostAuthenticationForLocalhost: the host key is not looked up");
            return Verdict::Accept;
        }
        if let Some(reason) = &self.files.too_large {
            error!("{reason}");
            return Verdict::Refuse;
        }
        if is_in_dns {
            return self.accept_from_dns(&presented, interaction);
        }
        let lookup = |key: &PresentedKey| self.lookup(key);
        let finding = assess(&presented, &self.host.principal, &self.rules, lookup);
        self.look_up_address(&presented);
        self.conclude(&presented, finding, interaction)
    }

    /// `WarnWeakCrypto`: warns of a certificate that was accepted although its authority has signed it as
    /// only old devices need it.
    pub(crate) fn warn_of_old_authority(&self) {
        if self.trust != Trust::Authority {
            return;
        }
        let old = Certificate::from_blob(&self.presented)
            .ok()
            .and_then(|certificate| certificate.old_signature());
        log::warn_of_old_algorithms(
            "connection",
            old.as_slice(),
            "The host's certificate should be signed again with SHA-2: others may be forged.",
        );
    }

    /// `VerifyHostKeyDNS`: true if the fingerprint was found by a validated lookup and `yes` is
    /// set; otherwise known_hosts and the user decide.
    fn ask_dns(&mut self, key: &keys::PublicKey, interaction: &mut dyn Interaction) -> bool {
        let Some((wanted, lookup)) = self.dns.as_mut() else {
            return false;
        };
        let wanted = *wanted;
        match lookup.compare(key) {
            DnsFinding::Matches { is_secure: true } if wanted == YesNoAsk::Yes => return true,
            DnsFinding::Matches { .. } => self.dns_matches = true,
            DnsFinding::Differs => {
                interaction.tell(&dialog::changed(self, key, &[]));
                error!(
                    "Update the SSHFP RR in DNS with the new host key to get rid of this message."
                );
            }
            DnsFinding::Nothing => {}
        }
        false
    }

    /// Accepts a key that the DNS vouches for, unless a line revokes it or the authority of its certificate.
    fn accept_from_dns(
        &mut self,
        presented: &PresentedKey,
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        let found = self.lookup(presented);
        if let HostKeyStatus::Revoked { at } = found {
            return self.conclude(presented, Finding::Revoked { at }, interaction);
        }
        if children::is_given_up() {
            return Verdict::Refuse;
        }
        if self.has_command_failed() {
            error!("{COMMAND_FAILED}");
            return Verdict::Refuse;
        }
        // With VerifyHostKeyDNS, UpdateHostKeys is off unless it is set.
        self.trust = Trust::Plain;
        Verdict::Accept
    }

    /// True if `KnownHostsCommand` has failed, after which no key is accepted.
    #[must_use]
    pub fn has_command_failed(&self) -> bool {
        let command = self.command.as_ref();
        command.is_some_and(|command| command.has_failed.get())
    }

    /// Looks the key up under the host's name. A name with a port that has no record at all falls back to the
    /// name without one, whose lines in files can only vouch for the key or revoke it: another key there is that
    /// of another server on the same machine.
    fn lookup(&self, key: &PresentedKey) -> HostKeyStatus {
        let printed = self.command_output("HOSTNAME", &self.name, Some(key));
        let status = self.lookup_name(&self.name, key, &printed);
        let Some(name) = &self.host.without_port else {
            return status;
        };
        if status != HostKeyStatus::Unknown {
            return status;
        }
        debug1!("checking without port identifier");
        match self.lookup_name(name, key, &[]) {
            found @ (HostKeyStatus::Found { .. } | HostKeyStatus::Revoked { .. }) => {
                self.is_known_without_port.set(true);
                found
            }
            _ => status,
        }
    }

    /// Looks the key up in all files, the user's first, and in what the command has printed.
    fn lookup_name(&self, name: &str, key: &PresentedKey, printed: &[KnownHosts]) -> HostKeyStatus {
        let files = self.files.user.iter().chain(&self.files.global);
        known_hosts::lookup(files.chain(printed), name, key)
    }

    /// Carries out what follows from a finding.
    fn conclude(
        &mut self,
        presented: &PresentedKey,
        finding: Finding,
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        // Perhaps because KnownHostsCommand has been ended, whose keys are missing then.
        if children::is_given_up() {
            return Verdict::Refuse;
        }
        if self.has_command_failed() {
            error!("{COMMAND_FAILED}");
            return Verdict::Refuse;
        }
        let key = presented.key();
        let label = key.key_type().label();
        let name = one_line(&self.name);
        match finding {
            Finding::Authority { at } => {
                debug1!(
                    "Host '{name}' is known and matches its certificate authority in {}:{}",
                    at.path.display(),
                    at.line
                );
                self.show(presented, interaction);
                if !self.is_known_without_port.get() {
                    self.trust = Trust::Authority;
                }
                Verdict::Accept
            }
            Finding::BadCertificate(reason) => {
                error!(
                    "The host certificate of '{}' is not valid here: {reason}",
                    one_line(&self.host.typed)
                );
                Verdict::Refuse
            }
            Finding::NoAuthority => {
                error!(
                    "No known authority signed the host certificate of '{}', and \
                     HostKeyAlgorithms permits no plain {label} key",
                    one_line(&self.host.typed)
                );
                Verdict::Refuse
            }
            Finding::Known { at } => {
                debug1!("Host '{name}' is known and matches the {label} host key.");
                debug1!("Found key in {}:{}", at.path.display(), at.line);
                self.show(presented, interaction);
                if self.is_known_without_port.get() {
                    debug1!("found matching key w/out port");
                } else if self.files.source(&at) == RecordSource::User && !self.system_has_address()
                {
                    self.trust = Trust::Plain;
                }
                self.check_address(key, Some(&at), interaction)
            }
            Finding::Revoked { at } => {
                let label = self::label(presented);
                interaction.tell(&dialog::revoked(self, &label, &at));
                error!(
                    "{label} host key for {name} was revoked and you have requested strict checking."
                );
                Verdict::Refuse
            }
            // A known host that shows a key of another type is not a new host: the types that are known were
            // offered first.
            Finding::Changed(known) | Finding::OtherTypes(known) => {
                self.warn_of_spoofing(key, &known);
                interaction.tell(&dialog::changed(self, key, &known));
                if self.strict == StrictHostKeyChecking::No {
                    Verdict::AcceptWithoutSecrets
                } else {
                    error!(
                        "Host key for {name} has changed and you have requested strict checking."
                    );
                    Verdict::Refuse
                }
            }
            Finding::Unknown => self.judge_new(presented, interaction),
        }
    }

    fn judge_new(&mut self, key: &PresentedKey, interaction: &mut dyn Interaction) -> Verdict {
        let label = key.key().key_type().label();
        let name = one_line(&self.name);
        match self.strict {
            StrictHostKeyChecking::Yes => {
                error!(
                    "No {label} host key is known for {name} and you have requested strict checking."
                );
                return Verdict::Refuse;
            }
            _ if self.files.user_paths.is_empty() => {
                error!(
                    "No {label} host key is known for {name}, and UserKnownHostsFile=none leaves no file to \
                     write it to."
                );
                return Verdict::Refuse;
            }
            StrictHostKeyChecking::Ask if self.batch_mode || !interaction.can_ask() => {
                let why = match self.batch_mode {
                    true => "BatchMode forbids questions",
                    false => "there is no terminal to ask on",
                };
                error!(
                    "No {label} host key is known for {name}, and {why}: connect once by hand, or \
                     set StrictHostKeyChecking=accept-new."
                );
                return Verdict::Refuse;
            }
            StrictHostKeyChecking::Ask => {
                let names = dialog::other_names(self, key.key());
                if !dialog::confirm(self, key.key(), &names, interaction) {
                    return Verdict::Refuse;
                }
                self.trust = Trust::Plain;
            }
            StrictHostKeyChecking::AcceptNew | StrictHostKeyChecking::No => {}
        }
        let with_address = self.remembers_address();
        self.remember(key.key(), label, with_address.as_deref());
        match with_address {
            Some(_) => Verdict::Accept,
            None => self.check_address(key.key(), None, interaction),
        }
    }

    /// Adds a new key to the user's first known_hosts file, also under the host's address if one is
    /// given. A file that cannot be written does not stop the login.
    fn remember(&mut self, key: &keys::PublicKey, label: &str, address: Option<&str>) {
        let Some(path) = self.files.user_paths.first() else {
            return;
        };
        let names: Vec<&str> = std::iter::once(self.name.as_str()).chain(address).collect();
        // A hashed line has one name.
        let lines: Vec<&[&str]> = match self.hash_names {
            true => names.chunks(1).collect(),
            false => vec![&names[..]],
        };
        let added = lines.into_iter().try_for_each(|names| {
            let line = known_hosts::edit::entry_line(names, key, self.hash_names);
            known_hosts::edit::append(path, &line)
        });
        match added {
            Ok(()) => info!(
                "Warning: Permanently added '{}' ({label}) to the list of known hosts.",
                one_line(&names.join(","))
            ),
            Err(reason) => info!(
                "Failed to add the host to the list of known hosts ({}): {reason}",
                path.display()
            ),
        }
    }

    /// `RevokedHostKeys`: a file that cannot be read refuses every key.
    fn revoked_by_files(&self, presented: &PresentedKey) -> Option<Verdict> {
        let judged = |path: &PathBuf| self.revoked_by_file(path, presented);
        self.revoked_files.iter().find_map(judged)
    }

    fn revoked_by_file(&self, path: &Path, presented: &PresentedKey) -> Option<Verdict> {
        match files::is_revoked(path, presented) {
            Ok(false) => None,
            Ok(true) => {
                error!(
                    "Host key {} {} is revoked by {}",
                    presented.key().key_type().label(),
                    self.fingerprint_of(presented.key()),
                    path.display()
                );
                Some(Verdict::Refuse)
            }
            Err(reason) => {
                error!(
                    "RevokedHostKeys {}: {reason}; no host key is accepted",
                    path.display()
                );
                Some(Verdict::Refuse)
            }
        }
    }

    /// The output of `KnownHostsCommand` for this host, as one more known_hosts file.
    fn command_output(
        &self,
        purpose: &str,
        name: &str,
        key: Option<&PresentedKey>,
    ) -> Vec<KnownHosts> {
        let Some(command) = &self.command else {
            return Vec::new();
        };
        let mut tokens = command.tokens.clone();
        tokens.set('I', purpose);
        tokens.set('H', name);
        match key {
            Some(key) => {
                tokens.set('t', key.blob_name());
                tokens.set('f', self.fingerprint_of(key.key()));
                tokens.set('K', keys::base64::encode(&key.blob()));
            }
            None => {
                for letter in ['t', 'f', 'K'] {
                    tokens.set(letter, "NONE");
                }
            }
        }
        let what = format!("KnownHostsCommand-{purpose}");
        match files::run_command(&what, &command.template, &tokens) {
            Ok(text) => {
                debug2!("KnownHostsCommand ({purpose}) gave {} bytes", text.len());
                vec![KnownHosts::new("KnownHostsCommand", text)]
            }
            Err(CommandError::NotRun(reason)) => {
                error!("{}", one_line(&reason));
                Vec::new()
            }
            Err(CommandError::Failed(reason)) => {
                error!("{}", one_line(&reason));
                command.has_failed.set(true);
                Vec::new()
            }
        }
    }

    /// The fingerprint by the configured hash.
    fn fingerprint_of(&self, key: &keys::PublicKey) -> String {
        keys::fingerprint::of_blob(&key.blob(), self.fingerprint)
    }

    /// The picture of `VisualHostKey`, with its last line's end.
    fn picture(&self, key: &keys::PublicKey, label: &str) -> String {
        let art = keys::fingerprint::randomart(&key.blob(), self.fingerprint, label, key.bits());
        format!("{art}\n")
    }

    /// `VisualHostKey`: shows a key that is known.
    fn show(&self, presented: &PresentedKey, interaction: &mut dyn Interaction) {
        if !self.visual || !says(escape::LogLevel::Info) {
            return;
        }
        let key = presented.key();
        let (print, art) = (
            self.fingerprint_of(key),
            self.picture(key, &label(presented)),
        );
        interaction.tell(&format!("Host key fingerprint is: {print}\n{art}"));
    }

    /// The host's name and address, for messages.
    fn place(&self) -> String {
        let address = match self.address {
            Some(address) => known_hosts::host_name(&address.ip().to_string(), self.host.port),
            None => "<no hostip for proxy command>".to_owned(),
        };
        format!("{} ({address})", one_line(&self.name))
    }
}

/// The label of a key's type, or of a certificate's.
fn label(presented: &PresentedKey) -> String {
    let label = presented.key().key_type().label();
    match presented.certificate() {
        Some(_) => format!("{label}-CERT"),
        None => label.to_owned(),
    }
}

fn permits(algorithms: &[String], algorithm: SignatureAlgorithm) -> bool {
    algorithms.iter().any(|name| name == algorithm.name())
}
