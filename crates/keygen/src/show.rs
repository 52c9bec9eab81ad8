//! Showing keys: fingerprints (`-l`), the public half (`-y`), other formats (`-e`, `-i`) and
//! certificates (`-L`).

use std::path::Path;

use crypto::hash::HashAlgorithm;
use keys::certificate::{CRITICAL_OPTIONS, NO_TOUCH_REQUIRED};
use keys::public_file::{self, PublicKeyFile};
use keys::time::CivilTime;
use keys::{Certificate, Permission, PresentedKey, fingerprint, private_file};
use zeroize::Zeroizing;

use super::options::{FingerprintForm, Format, IdentityChoice};
use super::{KeygenFailure, files};
use transfer::plan::shown;

/// Prints the fingerprint of every key in a file: a private or public key, authorized_keys or
/// known_hosts.
pub(super) fn fingerprints(
    identity: IdentityChoice<'_>,
    form: FingerprintForm,
) -> Result<(), KeygenFailure> {
    let path = files::identity(identity)?;
    let GivenFile {
        name,
        bytes: file,
        too_open,
    } = read_or_stdin(&path)?;
    if private_file::is_private_key(&file) && path.as_os_str() != "-" {
        let public = files::KeyFile::of(&path, file, too_open)
            .described()
            .map_err(|_| KeygenFailure::new(format!("{name} is not a key file.")))?;
        print_fingerprint(form, &public.key, &public.comment);
        return Ok(());
    }
    let mut found = false;
    for line in file.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_matches([' ', '\t', '\r']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(key) = key_of_line(text) {
            print_fingerprint(form, &key.key, &key.comment);
            found = true;
        }
    }
    if found {
        Ok(())
    } else {
        Err(KeygenFailure::new(format!(
            "{name} is not a public key file."
        )))
    }
}

/// The key of a line, with the one word in front of it that ssh-keygen passes over: the hosts of
/// known_hosts or the options of authorized_keys. That word is the comment if none
/// follows the key. More words in front (a marker, options parted by blanks) make a line that sshd
/// would take no key from, so none is shown.
fn key_of_line(text: &str) -> Option<PublicKeyFile> {
    let without_remark = |mut key: PublicKeyFile| {
        if key.comment.starts_with('#') {
            key.comment.clear();
        }
        key
    };
    if let Ok(key) = public_file::parse_line(text.as_bytes()) {
        return Some(without_remark(key));
    }
    let (front, behind) = text.split_at_checked(end_of_word(text)?)?;
    // A key of the protocol's first version starts with a number.
    if front.parse::<u64>().is_ok_and(|number| number != 0) {
        return None;
    }
    let behind = behind.trim_start_matches([' ', '\t']);
    let mut key = without_remark(public_file::parse_line(behind.as_bytes()).ok()?);
    if key.comment.is_empty() {
        front.clone_into(&mut key.comment);
    }
    Some(key)
}

/// Where the first word ends; blanks inside double quotes do not end it.
fn end_of_word(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            b' ' | b'\t' if !quoted => return Some(at),
            _ => {}
        }
        escaped = byte == b'\\';
    }
    None
}

pub(super) fn print_fingerprint(form: FingerprintForm, key: &PresentedKey, comment: &str) {
    let blob = key.key().blob();
    let comment = match escape::one_line(comment) {
        empty if empty.is_empty() => "no comment".to_owned(),
        comment => comment,
    };
    let bits = key.key().bits();
    println!(
        "{bits} {} {comment} ({})",
        form.fingerprint_of(&blob),
        key.label()
    );
    if form.verbose {
        println!(
            "{}",
            fingerprint::randomart(&blob, form.hash, &key.label(), bits)
        );
    }
}

/// Prints the public half of a private key.
pub(super) fn public_key(
    identity: IdentityChoice<'_>,
    passphrase: Option<&[u8]>,
) -> Result<(), KeygenFailure> {
    let path = files::identity(identity)?;
    if let Err(error) = path.metadata() {
        return Err(KeygenFailure::new(format!(
            "{}: {}",
            shown(&path),
            super::reason(&error)
        )));
    }
    let file =
        files::load_private(&path, passphrase).map_err(|error| cannot_load(&path, &error))?;
    let key = PresentedKey::from(file.key.public().clone());
    println!("{}", public_file::to_line(&key, &file.comment));
    Ok(())
}

pub(super) fn cannot_load(path: &Path, error: &files::LoadError) -> KeygenFailure {
    KeygenFailure::new(format!("Load key \"{}\": {}", shown(path), error.0))
}

/// Prints a key in another format (`-e`).
pub(super) fn export(
    identity: IdentityChoice<'_>,
    passphrase: Option<&[u8]>,
    format: Option<Format>,
) -> Result<(), KeygenFailure> {
    let path = files::identity(identity)?;
    if let Err(error) = path.metadata() {
        return Err(KeygenFailure::file(&path, &error));
    }
    if format == Some(Format::HexDump) {
        return hex_dump(&path, passphrase);
    }
    let key = load_for_export(&path, passphrase).map_err(|error| cannot_load(&path, &error))?;
    let text = match format.unwrap_or(Format::Rfc4716) {
        Format::Rfc4716 => {
            let comment = format!(
                "{}-bit {}, converted by {} from OpenSSH",
                key.key().bits(),
                key.label(),
                files::default_comment()
            );
            Some(public_file::to_rfc4716(&key, &comment))
        }
        Format::Pkcs8 => public_file::to_pkcs8(key.key()),
        Format::Pem => public_file::to_pem(key.key()),
        Format::HexDump => None,
    };
    match text {
        Some(text) => {
            print!("{text}");
            Ok(())
        }
        None => Err(KeygenFailure::new(format!(
            "unsupported key type {}",
            key.label()
        ))),
    }
}

/// The public key of a file of either kind, for which a passphrase may have to be asked.
fn load_for_export(
    path: &Path,
    passphrase: Option<&[u8]>,
) -> Result<PresentedKey, files::LoadError> {
    let file = files::KeyFile::read(path)?;
    match file.public() {
        Ok(public) => Ok(public.key),
        Err(_) => Ok(file.private(passphrase)?.key.public().clone().into()),
    }
}

/// Prints the bytes of a key's public half and, if the file has it, of its private half
/// (`-e -m hexdump`).
fn hex_dump(path: &Path, passphrase: Option<&[u8]>) -> Result<(), KeygenFailure> {
    let file = files::KeyFile::read(path).map_err(|error| KeygenFailure::file(path, &error))?;
    if !file.is_private_key() {
        let public = file
            .public()
            .map_err(|error| cannot_load(path, &error))?
            .key;
        print_dump("Public", &public.label(), &public.blob());
        return Ok(());
    }
    let key = file
        .private(passphrase)
        .map_err(|error| cannot_load(path, &error))?
        .key;
    let name = key.key_type().label();
    print_dump("Public", name, &key.public().blob());
    println!();
    let mut fields = Zeroizing::new(Vec::new());
    let held = private_file::HeldKey {
        key,
        certificate: None,
    };
    held.write(&mut fields)
        .map_err(|error| KeygenFailure::new(format!("{}: {error}", shown(path))))?;
    print_dump("Private", name, &fields);
    Ok(())
}

/// Prints bytes in lines of 16, each with its offset, in hexadecimal and as text.
fn print_dump(half: &str, name: &str, bytes: &[u8]) {
    println!("{half} {name} key:\nbuffer len = {}", bytes.len());
    for (line, offset) in bytes.chunks(16).zip((0_usize..).step_by(16)) {
        let mut out = Zeroizing::new(format!("{offset:04}: "));
        for at in 0..16 {
            match line.get(at) {
                Some(byte) => out.push_str(&format!("{byte:02x} ")),
                None => out.push_str("   "),
            }
        }
        out.push(' ');
        let text = line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        out.extend(text);
        println!("{}", *out);
    }
}

/// Prints a key of another format as one line (`-i`).
pub(super) fn import(
    identity: IdentityChoice<'_>,
    format: Option<Format>,
) -> Result<(), KeygenFailure> {
    let path = files::identity(identity)?;
    let file = files::read(&path).map_err(|error| KeygenFailure::file(&path, &error))?;
    let format = format.unwrap_or(Format::Rfc4716);
    if format == Format::Rfc4716 && private_file::is_ssh_com(&file) {
        let key = private_file::parse_ssh_com(&file)
            .and_then(|key| private_file::write_pem(&key, None))
            .map_err(|error| KeygenFailure::new(format!("{}: {error}", shown(&path))))?;
        print!("{}", *key);
        return Ok(());
    }
    let key = match format {
        Format::Rfc4716 => public_file::parse_rfc4716(&file).map(|file| file.key),
        Format::HexDump => {
            return Err(KeygenFailure::new("do_convert_from: unknown key format 3"));
        }
        Format::Pkcs8 | Format::Pem => public_file::parse_pem(&file).map(PresentedKey::from),
    };
    let key = key.map_err(|_| {
        let name = shown(&path);
        KeygenFailure::new(match format {
            Format::Pem => "do_convert_from_pem: unrecognised raw private key format".to_owned(),
            Format::Pkcs8 => {
                format!("do_convert_from_pkcs8: {name} is not a recognised public key format")
            }
            Format::Rfc4716 | Format::HexDump => {
                "do_convert_from_ssh2: parse key: invalid format".to_owned()
            }
        })
    })?;
    println!("{}", public_file::to_line(&key, ""));
    Ok(())
}

/// Prints what the certificates of a file say.
pub(super) fn certificates(
    identity: IdentityChoice<'_>,
    hash: HashAlgorithm,
) -> Result<(), KeygenFailure> {
    let path = files::identity(identity)?;
    let GivenFile {
        name, bytes: file, ..
    } = read_or_stdin(&path)?;
    let mut valid = false;
    let mut failed = false;
    for (line, number) in file.split(|byte| *byte == b'\n').zip(1_usize..) {
        let text = line.trim_ascii_start();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        match public_file::parse_line(text) {
            Ok(PublicKeyFile {
                key: PresentedKey::Certificate(certificate),
                ..
            }) => {
                if number > 1 {
                    println!("{name}:{number}:");
                } else {
                    println!("{name}:");
                }
                print_certificate(&certificate, hash);
                valid = true;
            }
            Ok(_) => {
                eprintln!("{name}:{number} is not a certificate");
                failed = true;
            }
            Err(error) => {
                eprintln!("{name}:{number}: {error}");
                failed = true;
            }
        }
    }
    if valid && !failed {
        Ok(())
    } else {
        Err(KeygenFailure::refused(""))
    }
}

fn print_certificate(certificate: &Certificate, hash: HashAlgorithm) {
    let print = |key: &keys::PublicKey| fingerprint::of_blob(&key.blob(), hash);
    let key = certificate.key();
    println!(
        "        Type: {} {} certificate",
        key.key_type().certificate_name(),
        certificate.kind().name()
    );
    println!(
        "        Public key: {}-CERT {}",
        key.key_type().label(),
        print(key)
    );
    println!(
        "        Signing CA: {} {} (using {})",
        certificate.authority().key_type().label(),
        print(certificate.authority()),
        certificate.signature_algorithm()
    );
    println!(
        "        Key ID: \"{}\"",
        escape::one_line(certificate.key_id())
    );
    println!("        Serial: {}", certificate.serial());
    println!(
        "        Valid: {}",
        validity(certificate.valid_after(), certificate.valid_before())
    );
    if certificate.principals().is_empty() {
        println!("        Principals: (none)");
    } else {
        println!("        Principals: ");
        for principal in certificate.principals() {
            println!("                {}", escape::one_line(principal));
        }
    }
    print_options("Critical Options", certificate.critical_options(), |name| {
        CRITICAL_OPTIONS.contains(&name)
    });
    print_options("Extensions", certificate.extensions(), |name| {
        name == NO_TOUCH_REQUIRED || Permission::of_extension(name).is_some()
    });
}

fn print_options(
    title: &str,
    options: &[keys::certificate::CertificateOption],
    known: impl Fn(&str) -> bool,
) {
    if options.is_empty() {
        println!("        {title}: (none)");
        return;
    }
    println!("        {title}: ");
    for option in options {
        let name = escape::one_line(&option.name);
        match option.text() {
            _ if option.data.is_empty() && known(&option.name) => {
                println!("                {name}");
            }
            _ if option.data.is_empty() => {
                println!("                {name} UNKNOWN FLAG OPTION");
            }
            Some(text) if known(&option.name) => {
                println!("                {name} {}", escape::one_line(text));
            }
            _ => {
                let hex: String = option
                    .data
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                println!(
                    "                {name} UNKNOWN OPTION: {hex} (len {})",
                    option.data.len()
                );
            }
        }
    }
}

/// A span of time in words.
pub(super) fn validity(after: u64, before: u64) -> String {
    match (after, before) {
        (0, u64::MAX) => "forever".to_owned(),
        (0, before) => format!("before {}", local_time(before)),
        (after, u64::MAX) => format!("after {}", local_time(after)),
        (after, before) => format!("from {} to {}", local_time(after), local_time(before)),
    }
}

pub(super) fn local_time(seconds: u64) -> String {
    let local = sys::time::LocalTime::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX));
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        local.year, local.month, local.day, local.hour, local.minute, local.second
    )
}

/// The clock that turns local dates of the command line into seconds.
pub(super) fn local_clock(time: CivilTime) -> Option<i64> {
    let clock = (time.hour, time.minute, time.second);
    sys::time::local_to_seconds(time.year, time.month, time.day, clock)
}

/// A file that the command line names, or standard input for `-`, in memory.
struct GivenFile {
    name: String,
    bytes: Zeroizing<Vec<u8>>,
    /// The mode of a file of this user that others can read.
    too_open: Option<u32>,
}

fn read_or_stdin(path: &Path) -> Result<GivenFile, KeygenFailure> {
    let is_stdin = path.as_os_str() == "-";
    let read = || {
        let file = match is_stdin {
            true => sys::io::dup(sys::io::stdin()).map(std::fs::File::from)?,
            false => sys::file::open_named(path)?,
        };
        let limit = keys::known_hosts::MAX_FILE_BYTES;
        Ok(GivenFile {
            name: match is_stdin {
                true => "(stdin)".to_owned(),
                false => shown(path),
            },
            too_open: sys::file::too_open_for_a_key(&file)?,
            bytes: sys::file::read_file_bounded(&file, limit).map(Zeroizing::new)?,
        })
    };
    read().map_err(|error| KeygenFailure::file(path, &error))
}
