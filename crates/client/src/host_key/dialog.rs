//! The texts about host keys: the question about a new key, the warnings about a changed and a
//! revoked one. Scripts that answer the question look for its first words and its prompt.

use keys::PublicKey;
use keys::known_hosts::{KnownHosts, KnownKey, Location};

use super::HostKeyChecker;
use crate::interaction::{Interaction, Question};
use crate::text::{Style, escape, one_line};

/// Most other names listed; the rest is counted.
const MAX_NAMES: usize = 8;
/// Most answers that are neither yes, no nor the fingerprint; then the key is refused.
const MAX_ANSWERS: usize = 32;

/// Other known_hosts lines with the same key, as `file:line: names`.
pub(super) fn other_names(checker: &HostKeyChecker, key: &PublicKey) -> Vec<String> {
    let blob = key.blob();
    let mut found = Vec::new();
    let files: [&[KnownHosts]; 2] = [&checker.files.user, &checker.files.global];
    for file in files.into_iter().flatten() {
        for entry in file.entries() {
            if entry.marker != keys::known_hosts::Marker::None
                || entry.key_type != key.key_type().name().as_bytes()
                || entry.key_blob().as_deref() != Some(&blob[..])
            {
                continue;
            }
            let names = if entry.is_hashed() {
                "[hashed name]".to_owned()
            } else {
                escape(entry.hosts, Style::Line)
            };
            found.push(format!("{}:{}: {names}", file.path().display(), entry.line));
        }
    }
    found
}

/// Asks the user whether a new key is the host's; true for yes.
pub(super) fn confirm(
    checker: &HostKeyChecker,
    key: &PublicKey,
    other_types: &[KnownKey],
    other_names: &[String],
    interaction: &mut dyn Interaction,
) -> bool {
    let fingerprint = checker.fingerprint_of(key);
    let mut text = format!(
        "The authenticity of host '{}' cannot be established yet: its key is new here.\n\
         {} key fingerprint is {fingerprint}.\n",
        checker.place(),
        key.key_type().label()
    );
    if checker.visual {
        text.push_str(&checker.picture(key));
        text.push('\n');
    }
    if checker.dns.is_some() {
        text.push_str(match checker.dns_matches {
            true => "Matching host key fingerprint found in DNS.\n",
            false => "No matching host key fingerprint found in DNS.\n",
        });
    }
    if !other_types.is_empty() {
        text.push_str("Keys of other types are known for this host:\n");
        for known in other_types.iter().take(MAX_NAMES) {
            text.push_str(&format!("    {}\n", describe(known)));
        }
    }
    if other_names.is_empty() {
        text.push_str("This key is not known by any other name.\n");
    } else {
        text.push_str("This key is known under other names:\n");
        for name in other_names.iter().take(MAX_NAMES) {
            text.push_str(&format!("    {name}\n"));
        }
        if other_names.len() > MAX_NAMES {
            text.push_str(&format!("    and {} more\n", other_names.len() - MAX_NAMES));
        }
    }
    interaction.tell(&text);
    let mut prompt = "Are you sure you want to continue connecting (yes/no/[fingerprint])? ";
    for _ in 0..MAX_ANSWERS {
        let Some(answer) = interaction.ask(prompt, Question::Confirm) else {
            return false;
        };
        let answer = String::from_utf8_lossy(&answer).trim().to_owned();
        if answer.eq_ignore_ascii_case("no") {
            return false;
        }
        if answer.eq_ignore_ascii_case("yes") || answer == fingerprint {
            return true;
        }
        prompt = "Type 'yes', 'no' or the fingerprint: ";
    }
    false
}

const RULE: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n";

/// The warning about a host key that differs from the recorded one.
pub(super) fn changed(checker: &HostKeyChecker, key: &PublicKey, known: &[KnownKey]) -> String {
    let label = key.key_type().label();
    let mut text = String::from(RULE);
    text.push_str("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n");
    text.push_str(RULE);
    text.push_str(&format!(
        "The {label} key that {} shows now is not the one on record.\n\
         Either someone is between you and the server and could read all that you type\n\
         (a man-in-the-middle attack), or the server was set up anew with another key.\n\
         Ask its administrator before you go on.\n\
         It shows now:\n    {}\n",
        checker.place(),
        checker.fingerprint_of(key)
    ));
    text.push_str("On record:\n");
    for entry in known.iter().take(MAX_NAMES) {
        text.push_str(&format!("    {}\n", describe(entry)));
    }
    if let Some(first) = known.first() {
        text.push_str(&format!(
            "If the change is right, forget the old key:\n  ssh-keygen -f '{}' -R '{}'\n",
            first.location.path.display(),
            one_line(&checker.name)
        ));
    }
    text
}

/// The warning about a host key whose fingerprint the DNS does not have, though it has others.
pub(super) fn differs_from_dns(checker: &HostKeyChecker, key: &PublicKey) -> String {
    format!(
        "{RULE}@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{RULE}\
         The {} key that {} shows ({}) is none of those in the DNS.\n\
         Either someone is between you and the server, or its records are out of date.\n",
        key.key_type().label(),
        checker.place(),
        checker.fingerprint_of(key)
    )
}

/// The text after that warning if the configuration lets the key pass.
pub(super) fn changed_but_let_through() -> String {
    "StrictHostKeyChecking is off, so the connection goes on, but passwords and \
     keyboard-interactive\nanswers are not sent to a host that may be another.\n"
        .to_owned()
}

/// The warning about a revoked key.
pub(super) fn revoked(checker: &HostKeyChecker, key: &PublicKey, at: &Location) -> String {
    format!(
        "{RULE}@       WARNING: REVOKED HOST KEY DETECTED!               @\n{RULE}\
         The {} key of {} ({}), or the authority that vouches for it,\n\
         is marked as revoked in {}:{}.\n\
         It may be in the hands of someone who can pass for the server.\n",
        key.key_type().label(),
        checker.place(),
        checker.fingerprint_of(key),
        at.path.display(),
        at.line
    )
}

fn describe(known: &KnownKey) -> String {
    format!(
        "{}:{}: {} {}",
        known.location.path.display(),
        known.location.line,
        one_line(&known.key_type),
        known.fingerprint()
    )
}
