//! Destination constraints of `-h`, with the host keys of the known hosts files.

use std::path::{Path, PathBuf};

use agent::constraint::{DestinationConstraint, Hop, HopKey};
use keys::known_hosts::{KnownHosts, Marker};

use crate::options::AddOptions;
use crate::{AddFailure, debug};

/// The constraints that the options name.
pub(crate) fn constraints(options: &AddOptions) -> Result<Vec<DestinationConstraint>, AddFailure> {
    if options.destinations.is_empty() {
        return Ok(Vec::new());
    }
    let files = load(options);
    options
        .destinations
        .iter()
        .map(|text| constraint(text, &files, options))
        .collect()
}

fn load(options: &AddOptions) -> Vec<KnownHosts> {
    let home = keygen::home();
    let system = |name: &str| PathBuf::from("/etc/ssh").join(name);
    let paths = match options.known_hosts.as_slice() {
        [] => vec![
            home.join(".ssh/known_hosts"),
            home.join(".ssh/known_hosts2"),
            system("ssh_known_hosts"),
            system("ssh_known_hosts2"),
        ],
        named => named.iter().map(|path| with_home(path, &home)).collect(),
    };
    paths
        .iter()
        .filter_map(|path| match KnownHosts::load(path) {
            Ok(file) => Some(file),
            Err(error) => {
                debug(options, format_args!("{}: {error}", path.display()));
                None
            }
        })
        .collect()
}

fn with_home(path: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_owned(),
    }
}

fn constraint(
    text: &str,
    files: &[KnownHosts],
    options: &AddOptions,
) -> Result<DestinationConstraint, AddFailure> {
    let Some((from, to)) = text.split_once('>') else {
        return Ok(DestinationConstraint {
            from: Hop::default(),
            to: hop(text, files, options)?,
        });
    };
    let constraint = DestinationConstraint {
        from: hop(from, files, options)?,
        to: hop(to, files, options)?,
    };
    if !constraint.from.user.is_empty() {
        return Err(AddFailure::fatal(format!(
            "Invalid key constraint {text}: cannot specify user on 'from' host"
        )));
    }
    Ok(constraint)
}

fn hop(text: &str, files: &[KnownHosts], options: &AddOptions) -> Result<Hop, AddFailure> {
    let (user, host) = text.split_once('@').unwrap_or(("", text));
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    if host.is_empty() {
        return Err(AddFailure::fatal(match user {
            "" => format!(
                "Invalid key destination constraint \"{text}\": does not specify user or host"
            ),
            _ => format!("Invalid key destination constraint \"{text}\": does not specify host"),
        }));
    }
    let name = host.to_ascii_lowercase();
    let mut keys = Vec::new();
    for file in files {
        for entry in file.entries().filter(|entry| entry.matches(&name)) {
            let is_authority = match entry.marker {
                Marker::None => false,
                Marker::CertAuthority => true,
                Marker::Revoked => continue,
            };
            let usable = |blob: &Vec<u8>| keys::PublicKey::from_blob(blob).is_ok();
            if let Some(blob) = entry.key_blob().filter(usable) {
                keys.push(HopKey { blob, is_authority });
            }
        }
    }
    debug(
        options,
        format_args!("destination {host}: {} host keys", keys.len()),
    );
    if keys.is_empty() {
        return Err(AddFailure::fatal(format!(
            "No host keys found for destination \"{host}\""
        )));
    }
    Ok(Hop {
        user: user.to_owned(),
        host: host.to_owned(),
        keys,
    })
}
