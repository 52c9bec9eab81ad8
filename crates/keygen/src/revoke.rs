//! Revocation lists: making and changing them (`-k`), and asking them (`-Q`).

use std::io::Read;
use std::path::{Path, PathBuf};

use keys::krl::{MAX_FILE_BYTES, RevocationList};
use keys::{PresentedKey, PublicKey, fingerprint, public_file};

use super::options::Flags;
use super::{KeygenFailure, files, reason, show};
use transfer::plan::shown;

/// Longest specification that is read, in bytes.
const MAX_SPECIFICATION_BYTES: u64 = 256 * 1024 * 1024;

/// A list that is made or changed.
pub(super) struct ListChange<'a> {
    file: &'a Path,
    /// Adds to the list that the file holds.
    update: bool,
    /// Whose certificates are revoked by serial and name.
    authority: Option<&'a Path>,
    /// 0 leaves the version as it is.
    version: u64,
    comment: Option<&'a str>,
    specifications: &'a [PathBuf],
    quiet: bool,
}

impl<'a> ListChange<'a> {
    /// # Errors
    /// If no file is named.
    pub(super) fn new(flags: &'a Flags) -> Result<Self, KeygenFailure> {
        let file = flags.file();
        Ok(Self {
            file: file.ok_or(KeygenFailure::new("KRL generation requires an output file"))?,
            update: flags.has("u"),
            authority: flags.authority(),
            version: flags.serial.number,
            comment: flags.text("C"),
            specifications: &flags.operands,
            quiet: flags.has("q"),
        })
    }
}

/// Makes a list out of public keys and specifications, or adds to one (`-u`).
pub(super) fn make(change: &ListChange<'_>) -> Result<(), KeygenFailure> {
    let path = change.file;
    let authority = authority(change.authority)?;
    let mut list = if change.update {
        if !path.exists() {
            return Err(KeygenFailure::new(format!(
                "KRL \"{}\" does not exist",
                shown(path)
            )));
        }
        load(path)?
    } else {
        RevocationList::default()
    };
    if change.version != 0 {
        list.version = change.version;
    }
    if let Some(comment) = change.comment {
        comment.clone_into(&mut list.comment);
    }
    list.generated = sys::time::realtime_seconds();
    for specified in change.specifications {
        let (name, text) = specification(specified)?;
        if !change.quiet {
            println!("Revoking from {name}");
        }
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1_usize..) {
            let place = format!("{name}:{number}");
            revoke(&mut list, &authority, line, &place)?;
        }
    }
    sys::file::rewrite(path, &list.to_bytes(), files::PUBLIC)
        .map_err(|error| KeygenFailure::new(format!("write {}: {}", shown(path), reason(&error))))
}

/// Whose certificates are revoked by serial and name.
enum Authority {
    NotGiven,
    /// `-s none`
    All,
    One(PublicKey),
}

fn authority(path: Option<&Path>) -> Result<Authority, KeygenFailure> {
    match path {
        None => Ok(Authority::NotGiven),
        Some(path) if path.as_os_str().eq_ignore_ascii_case("none") => Ok(Authority::All),
        Some(path) => match files::load_public(path) {
            Ok(public) => Ok(Authority::One(public.key.key().clone())),
            Err(error) => Err(KeygenFailure::new(format!(
                "Cannot load CA public key {}: {}",
                shown(path),
                error.0
            ))),
        },
    }
}

impl Authority {
    /// The key, or none for all authorities.
    fn required(&self, what: &str) -> Result<Option<&PublicKey>, KeygenFailure> {
        match self {
            Self::NotGiven => Err(KeygenFailure::new(format!(
                "revoking certificates by {what} requires specification of a CA key"
            ))),
            Self::All => Ok(None),
            Self::One(key) => Ok(Some(key)),
        }
    }
}

fn specification(path: &Path) -> Result<(String, Vec<u8>), KeygenFailure> {
    let mut text = Vec::new();
    let (name, read) = if path.as_os_str() == "-" {
        let stdin = std::io::stdin().lock().take(MAX_SPECIFICATION_BYTES);
        (
            "(standard input)".to_owned(),
            { stdin }.read_to_end(&mut text),
        )
    } else {
        let file = std::fs::File::open(path).map_err(|error| {
            KeygenFailure::new(format!("fopen {}: {}", shown(path), reason(&error)))
        })?;
        let read = file.take(MAX_SPECIFICATION_BYTES).read_to_end(&mut text);
        (shown(path), read)
    };
    let read = read.map_err(|error| KeygenFailure::new(format!("{name}: {}", reason(&error))))?;
    if u64::try_from(read).is_ok_and(|read| read == MAX_SPECIFICATION_BYTES) {
        return Err(KeygenFailure::new(format!("{name}: is too long")));
    }
    Ok((name, text))
}

/// Takes one line of a specification in.
fn revoke(
    list: &mut RevocationList,
    authority: &Authority,
    line: &[u8],
    place: &str,
) -> Result<(), KeygenFailure> {
    let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(());
    }
    let (word, value) = match line.iter().position(|byte| *byte == b':') {
        Some(at) => {
            let (word, value) = line.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            (word.to_ascii_lowercase(), value.trim_ascii_start())
        }
        None => (Vec::new(), line),
    };
    match word.as_slice() {
        b"serial" => {
            let authority = authority.required("serial number")?;
            let (first, last) = serials(&String::from_utf8_lossy(value), place)?;
            list.revoke_serials(authority, first, last);
        }
        b"id" => list.revoke_key_id(authority.required("key ID")?, value),
        b"hash" => list.revoke_fingerprint(sha256(value, place)?),
        b"key" => list.revoke_key(key(value, place)?.key()),
        b"sha1" => list.revoke_key_by_sha1(key(value, place)?.key()),
        b"sha256" => list.revoke_key_by_sha256(key(value, place)?.key()),
        _ => match key(line, place)? {
            PresentedKey::Plain(key) => list.revoke_key(&key),
            PresentedKey::Certificate(certificate) => {
                let authority = Some(certificate.authority());
                match certificate.serial() {
                    0 => list.revoke_key_id(authority, certificate.key_id()),
                    serial => list.revoke_serials(authority, serial, serial),
                }
            }
        },
    }
    Ok(())
}

fn key(line: &[u8], place: &str) -> Result<PresentedKey, KeygenFailure> {
    match public_file::parse_line(line) {
        Ok(file) => Ok(file.key),
        Err(error) => Err(KeygenFailure::new(format!("{place}: {error}"))),
    }
}

/// A serial, or two with a hyphen between them; decimal, octal after a 0, hexadecimal after 0x.
fn serials(text: &str, place: &str) -> Result<(u64, u64), KeygenFailure> {
    let bad = || KeygenFailure::new(format!("{place}: invalid serial \"{text}\""));
    let number = |text: &str| {
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(bad());
        }
        let (digits, radix) = match text.strip_prefix(['0']) {
            Some(rest) => match rest.strip_prefix(['x', 'X']) {
                Some(hex) => (hex, 16),
                None => (text, 8),
            },
            None => (text, 10),
        };
        match u64::from_str_radix(digits, radix) {
            Ok(number) if !digits.starts_with('+') => Ok(number),
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
                Err(KeygenFailure::new(format!("{place}: serial out of range")))
            }
            _ => Err(bad()),
        }
    };
    let (first, last) = match text.split_once('-') {
        None => {
            let serial = number(text)?;
            (serial, serial)
        }
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            if last <= first {
                return Err(KeygenFailure::new(format!(
                    "{place}: invalid serial range {first}:{last}"
                )));
            }
            (first, last)
        }
    };
    if first == 0 {
        return Err(KeygenFailure::new(format!(
            "{place}: serial 0 stands for certificates without one, which are revoked by id"
        )));
    }
    Ok((first, last))
}

fn sha256(text: &[u8], place: &str) -> Result<[u8; 32], KeygenFailure> {
    let Some(digits) = text.strip_prefix(b"SHA256:") else {
        return Err(KeygenFailure::new(format!(
            "{place}: unsupported hash algorithm"
        )));
    };
    // Fingerprints come without the padding.
    let mut padded = digits.to_vec();
    padded.resize(digits.len().next_multiple_of(4), b'=');
    keys::base64::decode(&padded)
        .and_then(|digest| digest.as_slice().try_into().ok())
        .ok_or_else(|| KeygenFailure::new(format!("{place}: decode hash failed: invalid format")))
}

fn load(path: &Path) -> Result<RevocationList, KeygenFailure> {
    let name = shown(path);
    let file = sys::file::open_named(path)
        .and_then(|file| sys::file::read_file_bounded(&file, MAX_FILE_BYTES))
        .map_err(|error| {
            KeygenFailure::new(format!("Unable to load KRL {name}: {}", reason(&error)))
        })?;
    let invalid = |why: &str| KeygenFailure::new(format!("Invalid KRL file {name}: {why}"));
    if !RevocationList::is_binary(&file) {
        return Err(invalid("KRL file has invalid magic number"));
    }
    RevocationList::parse(&file).map_err(|error| invalid(&error.to_string()))
}

/// Says of each key whether a list revokes it, and with `-l` what the list holds.
pub(super) fn check(
    file: Option<&Path>,
    shows_list: bool,
    keys: &[PathBuf],
) -> Result<(), KeygenFailure> {
    let path = file.ok_or(KeygenFailure::new("KRL checking requires an input file"))?;
    let list = load(path)?;
    if shows_list {
        print(&list);
    }
    let mut any = false;
    for operand in keys {
        let public = files::load_public(operand).map_err(|error| {
            KeygenFailure::new(format!(
                "Cannot load public key {}: {}",
                shown(operand),
                error.0
            ))
        })?;
        let revoked = list.is_revoked(&public.key);
        any |= revoked;
        let comment = match escape::one_line(&public.comment) {
            empty if empty.is_empty() => empty,
            comment => format!(" ({comment})"),
        };
        let answer = if revoked { "REVOKED" } else { "ok" };
        println!("{}{comment}: {answer}", shown(operand));
    }
    if any {
        Err(KeygenFailure::refused(""))
    } else {
        Ok(())
    }
}

fn print(list: &RevocationList) {
    println!("# KRL version {}", list.version);
    let generated = show::local_time(list.generated).replace(['-', ':'], "");
    println!("# Generated at {generated}");
    if !list.comment.is_empty() {
        println!("# Comment: {}", escape::one_line(&list.comment));
    }
    println!();
    let named = |blob: &[u8]| {
        let name = wire_name(blob);
        (
            fingerprint::of_blob(blob, crypto::hash::HashAlgorithm::Sha256),
            name,
        )
    };
    for blob in list.keys() {
        let (fingerprint, name) = named(blob);
        println!("hash: {fingerprint} # {name}");
    }
    let (sha1, sha256) = list.fingerprints();
    // In hexadecimal, as ssh-keygen prints them; `hash:` of a specification takes base64 only.
    let hex =
        |digest: &[u8]| -> String { digest.iter().map(|byte| format!("{byte:02x}")).collect() };
    for digest in sha256 {
        println!("hash: SHA256:{}", hex(digest));
    }
    // No keyword takes these: a comment.
    for digest in sha1 {
        println!("# hash SHA1:{}", hex(digest));
    }
    for revoked in list.certificates() {
        println!();
        match &revoked.authority {
            None => println!("# Wildcard CA"),
            Some(blob) => {
                let (fingerprint, name) = named(blob);
                println!("# CA key {name} {fingerprint}");
            }
        }
        for (first, last) in revoked.serials {
            if first == last {
                println!("serial: {first}");
            } else {
                println!("serial: {first}-{last}");
            }
        }
        for key_id in revoked.key_ids {
            println!("id: {}", escape::one_line(&key_id));
        }
    }
}

/// The name of a blob's key type.
fn wire_name(blob: &[u8]) -> String {
    PublicKey::from_blob(blob).map_or_else(
        |_| "unknown".to_owned(),
        |key| key.key_type().name().to_owned(),
    )
}
