//! Making keys: one pair, or a machine's host keys (`-A`).

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crypto::hash::HashAlgorithm;
use keys::{EcCurve, KeySpec, KeyType, PrivateKey, fingerprint};
use sys::file::RewriteMode;
use zeroize::Zeroizing;

use super::options::{FingerprintForm, Flags, IdentityChoice, KeyFileForm};
use super::security_key::{self, EnrollOptions};
use super::{KeygenFailure, console, files, reason};
use transfer::plan::shown;

/// Bits of an RSA key when `-b` does not say.
const DEFAULT_RSA_BITS: usize = 3072;
const MIN_RSA_BITS: usize = 1024;
const MAX_RSA_BITS: usize = 16_384;

/// The properties of a new key pair; a property that is `None` is asked for or has a default.
pub(super) struct KeyPairPlan<'a> {
    identity: IdentityChoice<'a>,
    bits: Option<usize>,
    form: KeyFileForm,
    passphrase: Option<&'a [u8]>,
    comment: Option<&'a str>,
    fingerprint: FingerprintForm,
    /// -O
    settings: &'a [String],
    /// -w
    provider: Option<&'a str>,
    quiet: bool,
}

impl<'a> From<&'a Flags> for KeyPairPlan<'a> {
    fn from(flags: &'a Flags) -> Self {
        Self {
            identity: flags.identity(),
            bits: flags.bits,
            form: flags.key_file_form,
            passphrase: flags.new_passphrase(),
            comment: flags.text("C"),
            fingerprint: flags.fingerprint_form(),
            settings: &flags.settings,
            provider: flags.text("w"),
            quiet: flags.has("q"),
        }
    }
}

/// The properties of new host keys.
pub(super) struct HostKeyPlan<'a> {
    /// Stands before `/etc/ssh`.
    prefix: Option<&'a Path>,
    form: KeyFileForm,
    comment: Option<&'a str>,
    quiet: bool,
}

impl<'a> From<&'a Flags> for HostKeyPlan<'a> {
    fn from(flags: &'a Flags) -> Self {
        Self {
            prefix: flags.file(),
            form: flags.key_file_form,
            comment: flags.text("C"),
            quiet: flags.has("q"),
        }
    }
}

/// Makes a key pair, asking for what the command line leaves open.
pub(super) fn key_pair(plan: &KeyPairPlan<'_>) -> Result<(), KeygenFailure> {
    let kind = plan.identity.key_type.unwrap_or("ed25519");
    let security_key = security_key::type_named(kind);
    let (short, spec) = match security_key {
        Some(KeyType::SkEcdsaP256) => ("ecdsa-sk", None),
        Some(_) => ("ed25519-sk", None),
        None => {
            let spec = spec(kind, plan.bits)?;
            (short_name(spec), Some(spec))
        }
    };
    if !plan.quiet {
        println!("Generating public/private {short} key pair.");
    }
    let mut attestation = None;
    let key = match (security_key, spec) {
        (Some(key_type), _) => {
            let options = EnrollOptions::parse(plan.settings, key_type, plan.provider, plan.quiet)?;
            let credential = security_key::enroll(&options)?;
            attestation = options
                .attestation
                .map(|path| (path, credential.attestation));
            credential.key
        }
        (None, Some(spec)) => generate(spec)?,
        (None, None) => return Err(KeygenFailure::new(format!("unknown key type {kind}"))),
    };
    let path = console::file(
        plan.identity.file,
        "Enter file in which to save the key",
        &files::default_identity(Some(short)),
    )?;
    create_folder(&path, plan.quiet)?;
    // A link that leads nowhere is followed unasked: nothing is lost.
    if path.exists() {
        println!("{} already exists.", shown(&path));
        if !console::confirm("Overwrite (y/n)? ")? {
            return Err(KeygenFailure::refused(""));
        }
    }
    let passphrase = match plan.passphrase {
        Some(passphrase) => Zeroizing::new(passphrase.to_vec()),
        None => console::new_passphrase(&path)?,
    };
    let comment = comment(plan.comment);
    files::save(plan.form, files::PUBLIC, &path, &key, &comment, &passphrase)?;
    if !plan.quiet {
        announce(plan.fingerprint.hash, &path, &key, &comment);
    }
    if let Some((path, attestation)) = attestation {
        security_key::save_attestation(path, &attestation, plan.quiet)?;
    }
    Ok(())
}

fn announce(hash: HashAlgorithm, path: &Path, key: &PrivateKey, comment: &str) {
    let blob = key.public().blob();
    println!("Your identification has been saved in {}", shown(path));
    println!(
        "Your public key has been saved in {}",
        shown(&files::public_path(path))
    );
    println!("The key fingerprint is:");
    println!("{} {comment}", fingerprint::of_blob(&blob, hash));
    println!("The key's randomart image is:");
    println!(
        "{}",
        fingerprint::randomart(&blob, hash, key.key_type().label(), key.public().bits())
    );
}

/// Makes the host keys that are missing under the prefix of `-f`, in `/etc/ssh`.
pub(super) fn host_keys(plan: &HostKeyPlan<'_>) -> Result<(), KeygenFailure> {
    let mut folder = plan.prefix.unwrap_or(Path::new("")).as_os_str().to_owned();
    folder.push("/etc/ssh");
    let folder = PathBuf::from(folder);
    let kinds = [
        (
            "rsa",
            KeySpec::Rsa {
                bits: DEFAULT_RSA_BITS,
            },
        ),
        ("ecdsa", KeySpec::Ecdsa(EcCurve::P256)),
        ("ed25519", KeySpec::Ed25519),
        ("mldsa44-ed25519", KeySpec::MlDsa44Ed25519),
    ];
    let mut first = true;
    for (name, spec) in kinds {
        let path = folder.join(format!("ssh_host_{}_key", name.replace('-', "_")));
        // A full disk leaves an empty file; it is replaced.
        if path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            continue;
        }
        if !plan.quiet {
            if first {
                print!("{}: generating new host keys: ", super::NAME);
            }
            print!("{} ", name.to_ascii_uppercase());
            first = false;
        }
        let key = generate(spec)?;
        let comment = comment(plan.comment);
        // Clients read these files, whatever the umask of the one who installs the machine.
        let mode = RewriteMode::Exact(0o644);
        files::save(plan.form, mode, &path, &key, &comment, &[])?;
    }
    if !first {
        println!();
    }
    Ok(())
}

/// The comment of `-C`, or the default one.
fn comment(given: Option<&str>) -> String {
    given.map_or_else(files::default_comment, str::to_owned)
}

fn generate(spec: KeySpec) -> Result<PrivateKey, KeygenFailure> {
    PrivateKey::generate(spec).map_err(|error| KeygenFailure::new(error.to_string()))
}

/// The folder `~/.ssh`, when the key goes there and it does not exist.
fn create_folder(path: &Path, quiet: bool) -> Result<(), KeygenFailure> {
    let folder = files::home().join(".ssh");
    if path.parent() != Some(folder.as_path()) || folder.exists() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(|error| {
            KeygenFailure::new(format!(
                "Could not create directory '{}': {}",
                shown(&folder),
                reason(&error)
            ))
        })?;
    if !quiet {
        println!("Created directory '{}'.", shown(&folder));
    }
    Ok(())
}

/// What `-t`, in any case, and `-b` mean together.
pub(super) fn spec(kind: &str, bits: Option<usize>) -> Result<KeySpec, KeygenFailure> {
    let curve = |bits: usize| match bits {
        256 => Ok(KeySpec::Ecdsa(EcCurve::P256)),
        384 => Ok(KeySpec::Ecdsa(EcCurve::P384)),
        521 => Ok(KeySpec::Ecdsa(EcCurve::P521)),
        _ => Err(KeygenFailure::new(
            "Invalid ECDSA key length: valid lengths are 256, 384 or 521 bits",
        )),
    };
    match kind.to_ascii_lowercase().as_str() {
        "ed25519" | "ssh-ed25519" => Ok(KeySpec::Ed25519),
        "mldsa44-ed25519" | "ssh-mldsa44-ed25519" => Ok(KeySpec::MlDsa44Ed25519),
        "ecdsa" => curve(bits.unwrap_or(256)),
        "ecdsa-sha2-nistp256" => curve(256),
        "ecdsa-sha2-nistp384" => curve(384),
        "ecdsa-sha2-nistp521" => curve(521),
        "rsa" | "ssh-rsa" | "rsa-sha2-256" | "rsa-sha2-512" => {
            let bits = bits.unwrap_or(DEFAULT_RSA_BITS);
            if bits < MIN_RSA_BITS {
                return Err(KeygenFailure::new(format!(
                    "Invalid RSA key length: minimum is {MIN_RSA_BITS} bits"
                )));
            }
            if bits > MAX_RSA_BITS {
                return Err(KeygenFailure::new(format!(
                    "key bits exceeds maximum {MAX_RSA_BITS}"
                )));
            }
            Ok(KeySpec::Rsa { bits })
        }
        _ => Err(KeygenFailure::new(format!("unknown key type {kind}"))),
    }
}

fn short_name(spec: KeySpec) -> &'static str {
    match spec {
        KeySpec::Ed25519 => "ed25519",
        KeySpec::Ecdsa(_) => "ecdsa",
        KeySpec::Rsa { .. } => "rsa",
        KeySpec::MlDsa44Ed25519 => "mldsa44-ed25519",
    }
}
