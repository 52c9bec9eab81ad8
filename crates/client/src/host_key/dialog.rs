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
    other_names: &[String],
    interaction: &mut dyn Interaction,
) -> bool {
    let fingerprint = checker.fingerprint_of(key);
    let mut text = format!(
        "The authenticity of host '{}' can't be established.\n\
         {} key fingerprint is: {fingerprint}\n",
        checker.place(),
        key.key_type().label()
    );
    if checker.visual {
        text.push_str(&checker.picture(key, key.key_type().label()));
    }
    if checker.dns.is_some() {
        text.push_str(match checker.dns_matches {
            true => "Matching host key fingerprint found in DNS.\n",
            false => "No matching host key fingerprint found in DNS.\n",
        });
    }
    if other_names.is_empty() {
        text.push_str("This key is not known by any other names.\n");
    } else {
        text.push_str("This host key is known by the following other names/addresses:\n");
        for name in other_names.iter().take(MAX_NAMES) {
            text.push_str(&format!("    {name}\n"));
        }
        if other_names.len() > MAX_NAMES {
            text.push_str(&format!(
                "    ({} additional names omitted)\n",
                other_names.len() - MAX_NAMES
            ));
        }
    }
    let prompt = "Are you sure you want to continue connecting (yes/no/[fingerprint])? ";
    is_confirmed(&text, prompt, Some(&fingerprint), interaction)
}

/// Asks until the answer is yes, no or `fingerprint`, of which the first word counts; nothing is no.
pub(super) fn is_confirmed(
    text: &str,
    prompt: &str,
    fingerprint: Option<&str>,
    interaction: &mut dyn Interaction,
) -> bool {
    let again = match fingerprint {
        Some(_) => "Please type 'yes', 'no' or the fingerprint: ",
        None => "Please type 'yes' or 'no': ",
    };
    for asked in 0..MAX_ANSWERS {
        let answer = match asked {
            0 => interaction.ask_about(text, prompt, Question::Confirm),
            _ => interaction.ask(again, Question::Confirm),
        };
        let Some(answer) = answer else {
            return false;
        };
        let answer = String::from_utf8_lossy(&answer);
        let word = answer.split_whitespace().next().unwrap_or("no");
        if word.eq_ignore_ascii_case("no") {
            return false;
        }
        if word.eq_ignore_ascii_case("yes") || Some(word) == fingerprint {
            return true;
        }
    }
    false
}

const RULE: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n";

/// The warning about a host key that differs from the recorded one, `known`; nothing is recorded where the DNS
/// has another fingerprint.
pub(super) fn changed(checker: &HostKeyChecker, key: &PublicKey, known: &[KnownKey]) -> String {
    let label = key.key_type().label();
    let mut text = format!(
        "{RULE}@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{RULE}\
         IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\n\
         Either someone is between you and the server and could read all that you type\n\
         (a man-in-the-middle attack), or the server has got another key: ask its administrator.\n\
         The fingerprint for the {label} key sent by the remote host is\n{}.\n",
        checker.fingerprint_of(key)
    );
    let Some(offending) = known.last() else {
        return text;
    };
    let at = &offending.location;
    let own = checker.files.user_paths.first().unwrap_or(&at.path);
    text.push_str(&format!(
        "Add correct host key in {} to get rid of this message.\n",
        own.display()
    ));
    text.push_str(&format!(
        "Offending {} key in {}:{}\n  remove with:\n  ssh-keygen -f '{}' -R '{}'\n",
        offending.label(),
        at.path.display(),
        at.line,
        at.path.display(),
        one_line(&checker.name)
    ));
    text
}

/// The warning about a revoked key, or one whose authority is revoked. `label` is that of the key's type.
pub(super) fn revoked(checker: &HostKeyChecker, label: &str, at: &Location) -> String {
    format!(
        "{RULE}@       WARNING: REVOKED HOST KEY DETECTED!               @\n{RULE}\
         The {label} host key for {} is marked as revoked.\n\
         It may be in the hands of someone who can pass for the server. The line is {}:{}.\n",
        one_line(&checker.name),
        at.path.display(),
        at.line
    )
}
