//! CheckHostIP: known_hosts also lists the host's key under its address, so that a name that suddenly
//! leads to another machine is noticed.

use std::net::SocketAddr;

use config::client::{ClientOptions, StrictHostKeyChecking};
use keys::known_hosts::{self, HostKeyStatus, KnownKey, Location};
use keys::{PresentedKey, PublicKey};

use super::{HostKeyChecker, Verdict, dialog};
use crate::interaction::{Interaction, Question};
use crate::log::{error, info};
use crate::text::one_line;

/// Whether and under which name the address is looked up.
#[derive(Debug)]
pub(super) struct AddressCheck {
    is_on: bool,
    /// `HostName`, which may be the address itself.
    hostname: String,
    port: u16,
}

impl AddressCheck {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            is_on: options.host_keys.check_host_ip,
            hostname: options.hostname.clone(),
            port: options.port,
        }
    }

    /// The name of the address in known_hosts; `None` if it is not checked: on loopback, through a
    /// proxy, and where the host was named by its address.
    fn name(&self, address: Option<SocketAddr>) -> Option<String> {
        let ip = address.filter(|_| self.is_on)?.ip();
        let text = ip.to_string();
        let differs = text != self.hostname && !ip.is_loopback();
        differs.then(|| known_hosts::host_name(&text, self.port))
    }
}

impl HostKeyChecker {
    /// The address's name in known_hosts, and what is known of it.
    fn address_status(&self, key: &PublicKey) -> Option<(String, HostKeyStatus)> {
        let name = self.address_check.name(self.address)?;
        let files = self.files.user.iter().chain(&self.files.global);
        let status = known_hosts::lookup(files, &name, &PresentedKey::Plain(key.clone()));
        Some((name, status))
    }

    /// The name under which a new host's address is remembered, if it is not known yet.
    pub(super) fn remembers_address(&self, key: &PublicKey) -> Option<String> {
        let (name, status) = self.address_status(key)?;
        is_new(&status).then_some(name)
    }

    /// Checks the address of a host whose key is accepted, `known` by this line.
    pub(super) fn check_address(
        &mut self,
        key: &PublicKey,
        known: Option<&Location>,
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        let Some((name, status)) = self.address_status(key) else {
            return Verdict::Accept;
        };
        match status {
            HostKeyStatus::Changed { known: other }
            | HostKeyStatus::OtherTypes { known: other } => {
                self.address_differs(key, known, (&name, &other), interaction)
            }
            HostKeyStatus::Revoked { at } => {
                let label = key.key_type().label();
                interaction.tell(&dialog::revoked(self, label, &at));
                Verdict::Refuse
            }
            status if is_new(&status) => {
                self.remember_address(key, &name);
                Verdict::Accept
            }
            _ => Verdict::Accept,
        }
    }

    fn address_differs(
        &self,
        key: &PublicKey,
        known: Option<&Location>,
        (name, other): (&str, &[KnownKey]),
        interaction: &mut dyn Interaction,
    ) -> Verdict {
        let place = |at: &Location| format!("{}:{}", at.path.display(), at.line);
        let mut text = format!(
            "Warning: the {} host key for '{}' differs from the key for the IP address '{}'\n",
            key.key_type().label(),
            one_line(&self.name),
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
        match self.strict {
            StrictHostKeyChecking::No => {
                interaction.tell(&text);
                Verdict::Accept
            }
            StrictHostKeyChecking::Ask if !self.batch_mode && interaction.can_ask() => {
                interaction.tell(&text);
                let prompt = "Are you sure you want to continue connecting (yes/no)? ";
                let answer = interaction.ask(prompt, Question::Confirm);
                let is_yes = answer.is_some_and(|answer| {
                    String::from_utf8_lossy(&answer)
                        .trim()
                        .eq_ignore_ascii_case("yes")
                });
                if is_yes {
                    Verdict::Accept
                } else {
                    Verdict::Refuse
                }
            }
            _ => {
                interaction.tell(&text);
                error!("Exiting, you have requested strict checking.");
                Verdict::Refuse
            }
        }
    }

    fn remember_address(&mut self, key: &PublicKey, name: &str) {
        let label = key.key_type().label();
        let shown = one_line(name);
        let Some(path) = self.files.user_paths.first() else {
            info!("{label} host key for IP address '{shown}' not in list of known hosts.");
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
        let Some((name, status)) = self.address_status(key) else {
            return;
        };
        let (what, offending) = match &status {
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
            one_line(&name)
        );
        error!("{what}. Either the name leads to another machine (DNS spoofing), or the");
        error!("host has a new address and a new key at once.");
        if let Some(first) = offending {
            let at = &first.location;
            error!("Offending key for IP in {}:{}", at.path.display(), at.line);
        }
    }
}

fn is_new(status: &HostKeyStatus) -> bool {
    matches!(status, HostKeyStatus::Unknown)
}
