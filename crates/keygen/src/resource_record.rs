//! SSHFP resource records (`-r`; RFC 4255 §3, numbers of RFC 6594 and RFC 7479): a key's
//! fingerprints, to be put into a zone.

use std::fmt::Write;
use std::path::Path;

use crypto::hash::HashAlgorithm;
use keys::{KeyType, PresentedKey};
use transfer::plan::shown;

use super::options::Flags;
use super::{KeygenFailure, files};

/// The host keys that are looked for where `-f` names none.
const HOST_KEYS: [&str; 3] = [
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
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
            let record = record(request.name, &public.key, *hash, request.generic).ok_or(
                KeygenFailure::new("export_dns_rr: unsupported algorithm and/or digest_type"),
            )?;
            println!("{record}");
        }
    }
    Ok(())
}

/// Both hashes, or the one of `-O hashalg=`.
fn hashes(options: &[String]) -> Result<Vec<HashAlgorithm>, KeygenFailure> {
    let mut hashes = vec![HashAlgorithm::Sha1, HashAlgorithm::Sha256];
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

/// One record; `None` for keys and hashes that have no number.
fn record(name: &str, key: &PresentedKey, hash: HashAlgorithm, generic: bool) -> Option<String> {
    let algorithm = match key {
        PresentedKey::Plain(key) => match key.key_type() {
            KeyType::Rsa => 1,
            KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521 => 3,
            KeyType::Ed25519 => 4,
            KeyType::SkEd25519 | KeyType::SkEcdsaP256 => return None,
        },
        PresentedKey::Certificate(_) => return None,
    };
    let kind = match hash {
        HashAlgorithm::Sha1 => 1,
        HashAlgorithm::Sha256 => 2,
        _ => return None,
    };
    let digest = hash.digest(&key.blob());
    let mut out = if generic {
        format!(
            "{name} IN TYPE44 \\# {} {algorithm:02x} {kind:02x} ",
            2 + digest.len()
        )
    } else {
        format!("{name} IN SSHFP {algorithm} {kind} ")
    };
    for byte in digest.iter() {
        let _ = write!(out, "{byte:02x}");
    }
    Some(out)
}
