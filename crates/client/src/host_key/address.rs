//! CheckHostIP: known_hosts also lists the host's key under its address, so that a name that suddenly
//! leads to another machine is noticed.

use std::net::SocketAddr;

use config::client::{ClientOptions, StrictHostKeyChecking};
use keys::known_hosts::{self, HostKeyStatus, KnownKey, Location};
use keys::{PresentedKey, PublicKey};

use super::{HostKeyChecker, RecordSource, Verdict, dialog};
use crate::interaction::Interaction;
use crate::log::{error, info, says};
use crate::text::one_line;

/// Whether and under which name the address is looked up.
#[derive(Debug)]
pub(super) struct AddressCheck {
    is_on: bool,
    /// `HostName`, which may be the address itself.
    hostname: String,
    port: u16,
    /// The address's name in known_hosts and what is known of it, once the key was looked up.
    found: Option<(String, HostKeyStatus)>,
}

impl AddressCheck {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            is_on: options.host_keys.check_host_ip,
            hostname: options.hostname.clone(),
            port: options.port,
            found: None,
        }
    }

    /// The address in known_hosts, without a port; `None` if it is not checked: on loopback, through a
    /// proxy, and where the host was named by its address.
    fn bare_name(&self, address: Option<SocketAddr>) -> Option<String> {
        let ip = address.filter(|_| self.is_on)?.ip();
        let text = ip.to_string();
        (text != self.hostname && !ip.is_loopback()).then_some(text)
    }
}

impl HostKeyChecker {
    /// Looks the plain key up under the address. `KnownHostsCommand` is asked about it as well, but not of a
    /// certificate, whose authority vouches for names.
    pub(super) fn look_up_address(&mut self, presented: &PresentedKey) {
        let Some(bare) = self.address_check.bare_name(self.address) else {
            return;
        };
        let name = known_hosts::host_name(&bare, self.address_check.port);
        let printed = match presented.certificate() {
            None => self.command_output("ADDRESS", &name, Some(presented)),
            Some(_) => Vec::new(),
        };
        let key = PresentedKey::Plain(presented.key().clone());
        let status = self.lookup_name(&name, &key, &printed);
        self.address_check.found = Some((name, status));
    }

    /// True if the system's files list the key under the address.
    pub(super) fn system_has_address(&self) -> bool {
        match &self.address_check.found {
            Some((_, HostKeyStatus::Found { at, .. })) => {
                self.files.source(at) == RecordSource::System
            }
            _ => false,
        }
    }

    /// The name under which a new host's address is remembered, if it is not known yet.
    pub(super) fn remembers_address(&self) -> Option<String> {
        let (name, status) = self.address_check.found.as_ref()?;
        is_new(status).then(|| name.clone())
    }

    /// Checks the address of a host whose key is accepted, `known` by this line.
    pub(super) fn check_address(
        &mut self,
        key: &PublicKey,
        known: Option<&Location>,
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        let Some((name, status)) = self.address_check.found.take() else {
            return Verdict::Accept;
        };
        if self.is_known_without_port.get() {
            // What vouched for the host is no record of this port: the address is compared both without
            // the port and with it, and not written.
            let bare = self.address_check.bare_name(self.address);
            let host = self.host.without_port.clone();
            if let (Some(bare), Some(host)) = (bare, host) {
                let key_found = PresentedKey::Plain(key.clone());
                let status = self.lookup_name(&bare, &key_found, &[]);
                if is_new(&status) {
                    say_unlisted(key, &bare);
                }
                let verdict =
                    self.compare_address(key, (&host, known), (&bare, &status), interaction);
                if verdict != Verdict::Accept {
                    return verdict;
                }
            }
            let host = self.name.clone();
            return self.compare_address(key, (&host, None), (&name, &status), interaction);
        }
        if is_new(&status) {
            match known.map(|at| self.files.source(at)) {
                // OpenSSH writes nothing about a host that the command knows.
                Some(RecordSource::Command) => say_unlisted(key, &name),
                _ => self.remember_address(key, &name),
            }
        }
        let host = self.name.clone();
        self.compare_address(key, (&host, known), (&name, &status), interaction)
    }

    /// Refuses, or asks, if another key is listed for the address `name` than for `host`, which the line `known`
    /// lists.
    fn compare_address(
        &self,
        key: &PublicKey,
        (host, known): (&str, Option<&Location>),
        (name, status): (&str, &HostKeyStatus),
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        let label = key.key_type().label();
        let other = match status {
            HostKeyStatus::Changed { known } | HostKeyStatus::OtherTypes { known } => known,
            HostKeyStatus::Revoked { at } => {
                interaction.tell(&dialog::revoked(self, label, at));
                return Verdict::Refuse;
            }
            HostKeyStatus::Found { .. } | HostKeyStatus::Unknown => return Verdict::Accept,
        };
        let place = |at: &Location| format!("{}:{}", at.path.display(), at.line);
        let mut text = format!(
            "Warning: the {label} host key for '{}' differs from the key for the IP address '{}'\n",
            one_line(host),
            one_line(name)
        );
        if let Some(first) = other.first() {
            text.push_str(&format!(
                "Offending key for IP in {}\n",
                place(&first.location)
            ));
        }
        if let Some(at) = known {
            text.push_str(&format!("Matching host key in {}\n", place(at)));
        }
        if self.strict == StrictHostKeyChecking::Ask && !self.batch_mode && interaction.can_ask() {
            let prompt = "Are you sure you want to continue connecting (yes/no)? ";
            return match dialog::is_confirmed(&text, prompt, None, interaction) {
                true => Verdict::Accept,
                false => Verdict::Refuse,
            };
        }
        if says(escape::LogLevel::Info) {
            interaction.tell(&text);
        }
        if self.strict == StrictHostKeyChecking::No {
            return Verdict::Accept;
        }
        error!("Exiting, you have requested strict checking.");
        Verdict::Refuse
    }

    fn remember_address(&mut self, key: &PublicKey, name: &str) {
        let label = key.key_type().label();
        let shown = one_line(name);
        let Some(path) = self.files.user_paths.first() else {
            say_unlisted(key, name);
            return;
        };
        let line = known_hosts::edit::entry_line(&[name], key, self.hash_names);
        match known_hosts::edit::append(path, &line) {
            Ok(()) => info!(
                "Warning: Permanently added the {label} host key for IP address '{shown}' to the \
                 list of known hosts."
            ),
            Err(reason) => info!(
                "Failed to add the {label} host key for IP address '{shown}' to the list of known \
                 hosts ({}): {reason}",
                path.display()
            ),
        }
    }

    /// Says whether the address has kept its key where the name's has changed.
    pub(super) fn warn_of_spoofing(&self, key: &PublicKey, known: &[KnownKey]) {
        let Some((name, status)) = &self.address_check.found else {
            return;
        };
        let (what, offending) = match status {
            HostKeyStatus::Changed { known: other }
            | HostKeyStatus::OtherTypes { known: other } => {
                let same = |one: &KnownKey| known.iter().any(|known| known.blob == one.blob);
                if other.iter().any(same) {
                    return;
                }
                ("has a different value", other.first())
            }
            HostKeyStatus::Found { .. } => ("is unchanged", None),
            _ => ("is unknown", None),
        };
        let rule = "@".repeat(59);
        error!("{rule}");
        error!("@       WARNING: POSSIBLE DNS SPOOFING DETECTED!          @");
        error!("{rule}");
        error!(
            "The {} host key for {} has changed,",
            key.key_type().label(),
            one_line(&self.name)
        );
        error!(
            "and the key for the corresponding IP address {}",
            one_line(name)
        );
        error!("{what}. Either the name leads to another machine (DNS spoofing), or the");
        error!("host has a new address and a new key at once.");
        if let Some(first) = offending {
            let at = &first.location;
            error!("Offending key for IP in {}:{}", at.path.display(), at.line);
        }
    }
}

fn say_unlisted(key: &PublicKey, name: &str) {
    info!(
        "{} host key for IP address '{}' not in list of known hosts.",
        key.key_type().label(),
        one_line(name)
    );
}

fn is_new(status: &HostKeyStatus) -> bool {
    matches!(status, HostKeyStatus::Unknown)
}
