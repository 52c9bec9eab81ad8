//! SSHFP resource records (`-r`) of key files, to be put into a zone.

use std::path::Path;

use crypto::hash::HashAlgorithm;
use keys::sshfp;
use transfer::plan::shown;

use super::options::Flags;
use super::{KeygenFailure, files};

/// The host keys that are looked for where `-f` names none.
const HOST_KEYS: [&str; 4] = [
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_mldsa44_ed25519_key",
];

/// Which records are printed.
pub(super) struct RecordRequest<'a> {
    name: &'a str,
    file: Option<&'a Path>,
    /// In the format for any type of record (RFC 3597 §5).
    generic: bool,
    settings: &'a [String],
}

impl<'a> From<&'a Flags> for RecordRequest<'a> {
    fn from(flags: &'a Flags) -> Self {
        Self {
            name: flags.text("r").unwrap_or_default(),
            file: flags.file(),
            generic: flags.has("g"),
            settings: &flags.settings,
        }
    }
}

/// Prints the records of the key of `-f`, or of the machine's host keys.
pub(super) fn print(request: &RecordRequest<'_>) -> Result<(), KeygenFailure> {
    let hashes = hashes(request.settings)?;
    let paths = match request.file {
        Some(path) => vec![path],
        None => HOST_KEYS
            .into_iter()
            .map(Path::new)
            .filter(|path| path.exists())
            .collect(),
    };
    if paths.is_empty() {
        return Err(KeygenFailure::new("no keys found."));
    }
    for path in paths {
        if let Err(error) = path.metadata() {
            return Err(KeygenFailure::new(format!(
                "{}: {}",
                shown(path),
                super::reason(&error)
            )));
        }
        let public = files::load_public(path).map_err(|error| {
            KeygenFailure::new(format!(
                "Failed to read v2 public key from \"{}\": {}.",
                shown(path),
                error.0
            ))
        })?;
        for hash in &hashes {
            let record = sshfp::record(request.name, &public.key, *hash, request.generic);
            match record {
                Some(record) => println!("{record}"),
                None if request.file.is_some() => {
                    return Err(KeygenFailure::new(sshfp::NO_RECORD));
                }
                // As in OpenSSH: the machine's other keys have records.
                None => {
                    eprintln!("{}", sshfp::NO_RECORD);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Both hashes, or the one of `-O hashalg=`.
fn hashes(options: &[String]) -> Result<Vec<HashAlgorithm>, KeygenFailure> {
    let mut hashes = sshfp::HASHES.to_vec();
    for option in options {
        let name = option
            .split_once('=')
            .filter(|(name, _)| name.eq_ignore_ascii_case("hashalg"))
            .map(|(_, value)| value)
            .ok_or_else(|| KeygenFailure::new(format!("Invalid option \"{option}\"")))?;
        let hash = keys::fingerprint::algorithm_from_name(name);
        hashes = vec![hash.ok_or_else(|| KeygenFailure::new("Unsupported hash algorithm"))?];
    }
    Ok(hashes)
}
