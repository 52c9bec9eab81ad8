//! Keys in security keys (FIDO): making them (`-t ed25519-sk`), downloading those that a token stores
//! (`-K`), and signing with them. The tokens are reached by `fido`.

use std::path::{Path, PathBuf};

use fido::{Attestation, Credential, Enrollment, FidoError, Provider};
use keys::{KeyType, PrivateKey, fingerprint};
use sys::file::RewriteMode;
use wire::Put;
use zeroize::Zeroizing;

use super::options::{Flags, KeyFileForm};
use super::{KeygenFailure, console, files, reason};
use transfer::plan::shown;

/// The variable that names a provider.
const PROVIDER_VARIABLE: &str = "SSH_SK_PROVIDER";
/// Attempts to make a key, of which all but the first ask for the PIN: a token takes eight wrong PINs
/// before it must be reset.
const ENROLL_ATTEMPTS: usize = 3;
/// Bytes of a challenge that is made here.
const CHALLENGE_BYTES: usize = 32;
/// What the file of `-O write-attestation` begins with (OpenSSH PROTOCOL.u2f).
const ATTESTATION_MAGIC: &[u8] = b"ssh-sk-attest-v01";
const PIN_PROMPT: &str = "Enter PIN for authenticator: ";

/// The type of a key in a security key by its name for `-t`.
pub(super) fn type_named(name: &str) -> Option<KeyType> {
    match name {
        "ed25519-sk" => Some(KeyType::SkEd25519),
        "ecdsa-sk" => Some(KeyType::SkEcdsaP256),
        _ => [KeyType::SkEd25519, KeyType::SkEcdsaP256]
            .into_iter()
            .find(|key_type| key_type.name() == name),
    }
}

/// The provider of `-w` or of the environment, else the one without a library.
pub(super) fn provider(named: Option<&str>) -> Result<Provider, KeygenFailure> {
    let from_environment = std::env::var(PROVIDER_VARIABLE).ok();
    let name = named
        .or(from_environment.as_deref().filter(|name| !name.is_empty()))
        .unwrap_or(fido::INTERNAL);
    Provider::new(name).map_err(|why| KeygenFailure::new(format!("provider {name}: {why}")))
}

/// What `-O` and `-w` say about a key to make.
pub(super) struct EnrollOptions<'a> {
    key_type: KeyType,
    provider: Provider,
    application: &'a str,
    user: Option<&'a str>,
    device: Option<&'a str>,
    challenge: Vec<u8>,
    flags: u8,
    /// The file of `write-attestation`.
    pub(super) attestation: Option<&'a Path>,
    quiet: bool,
}

impl<'a> EnrollOptions<'a> {
    pub(super) fn parse(
        settings: &'a [String],
        key_type: KeyType,
        provider_name: Option<&str>,
        quiet: bool,
    ) -> Result<Self, KeygenFailure> {
        let random: [u8; CHALLENGE_BYTES] = crypto::random::bytes();
        let mut options = Self {
            key_type,
            provider: provider(provider_name)?,
            application: fido::APPLICATION_PREFIX,
            user: None,
            device: None,
            challenge: random.to_vec(),
            flags: fido::USER_PRESENCE,
            attestation: None,
            quiet,
        };
        for setting in settings {
            options.apply(setting)?;
        }
        Ok(options)
    }

    fn apply(&mut self, setting: &'a str) -> Result<(), KeygenFailure> {
        let unsupported = || {
            KeygenFailure::new(format!(
                "Option \"{setting}\" is unsupported for FIDO authenticator enrollment"
            ))
        };
        match setting.to_ascii_lowercase().as_str() {
            "no-touch-required" => self.flags &= !fido::USER_PRESENCE,
            "verify-required" => self.flags |= fido::USER_VERIFICATION,
            "resident" => self.flags |= fido::RESIDENT,
            _ => {
                let (name, value) = setting.split_once('=').ok_or_else(unsupported)?;
                if value.contains('\0') {
                    return Err(unsupported());
                }
                match name.to_ascii_lowercase().as_str() {
                    "device" => self.device = Some(value),
                    "user" => self.user = Some(value),
                    "write-attestation" => self.attestation = Some(Path::new(value)),
                    "application" if value.starts_with(fido::APPLICATION_PREFIX) => {
                        self.application = value;
                    }
                    "application" => {
                        return Err(KeygenFailure::new(
                            "FIDO application string must begin with \"ssh:\"",
                        ));
                    }
                    "challenge" => self.challenge = read_challenge(Path::new(value))?,
                    _ => return Err(unsupported()),
                }
            }
        }
        Ok(())
    }
}

/// Longest challenge that is read, in bytes.
const MAX_CHALLENGE_BYTES: u64 = 64 * 1024;

fn read_challenge(path: &Path) -> Result<Vec<u8>, KeygenFailure> {
    let read = std::fs::File::open(path)
        .and_then(|file| sys::file::read_file_bounded(&file, MAX_CHALLENGE_BYTES));
    let challenge = read.map_err(|error| {
        KeygenFailure::new(format!(
            "Unable to load challenge file {}: {}",
            shown(path),
            reason(&error)
        ))
    })?;
    match challenge.is_empty() {
        true => Err(KeygenFailure::new("Missing enrollment challenge")),
        false => Ok(challenge),
    }
}

/// Makes a key. The person is asked for a PIN only if the token wants one, and each PIN is used once.
pub(super) fn enroll(options: &EnrollOptions<'_>) -> Result<Credential, KeygenFailure> {
    let mut pin: Option<Zeroizing<Vec<u8>>> = None;
    let mut flags = options.flags;
    if !options.quiet {
        println!("You may need to touch your authenticator to authorize key generation.");
    }
    let mut attempts = 0;
    while attempts < ENROLL_ATTEMPTS {
        let made = options.provider.enroll(&Enrollment {
            key_type: options.key_type,
            application: options.application,
            user: options.user,
            device: options.device,
            challenge: &options.challenge,
            flags,
            pin: pin.as_deref().map(Vec::as_slice),
        });
        match made {
            Ok(credential) => return Ok(credential),
            Err(FidoError::CredentialExists)
                if flags & fido::RESIDENT != 0
                    && flags & fido::FORCE == 0
                    && may_overwrite(options)? =>
            {
                flags |= fido::FORCE;
                continue;
            }
            Err(FidoError::PinRequired) => {
                if pin.is_some() {
                    eprintln!("PIN incorrect");
                }
            }
            Err(error) => {
                return Err(KeygenFailure::new(format!(
                    "Key enrollment failed: {error}"
                )));
            }
        }
        attempts += 1;
        if attempts == ENROLL_ATTEMPTS {
            break;
        }
        pin = Some(console::passphrase(PIN_PROMPT)?);
        if !options.quiet {
            println!("You may need to touch your authenticator again to authorize key generation.");
        }
    }
    Err(KeygenFailure::new("Too many incorrect PINs"))
}

fn may_overwrite(options: &EnrollOptions<'_>) -> Result<bool, KeygenFailure> {
    let user = options.user.unwrap_or_default();
    println!(
        "A resident key scoped to '{}' with user id '{user}' already exists.",
        options.application
    );
    console::confirm("Overwrite key in token (y/n)? ")
}

/// Writes the attestation of a new key, which a verifier checks against the challenge. Only its owner reads
/// the file: the certificate in it may name the one authenticator.
pub(super) fn save_attestation(
    path: &Path,
    attestation: &Attestation,
    quiet: bool,
) -> Result<(), KeygenFailure> {
    let mut out = Vec::new();
    out.put_string(ATTESTATION_MAGIC);
    out.put_string(&attestation.certificate);
    out.put_string(&attestation.signature);
    out.put_string(&attestation.authenticator_data);
    // Reserved flags, and a reserved string.
    out.put_u32(0);
    out.put_string(b"");
    sys::file::rewrite(path, &out, RewriteMode::Kept(0o600)).map_err(|error| {
        KeygenFailure::new(format!(
            "Unable to write attestation data to {}: {}",
            shown(path),
            reason(&error)
        ))
    })?;
    if !quiet {
        println!(
            "Your FIDO attestation certificate has been saved in {}",
            shown(path)
        );
    }
    Ok(())
}

/// The keys to download, and how they are saved.
pub(super) struct Download<'a> {
    settings: &'a [String],
    provider: Option<&'a str>,
    form: KeyFileForm,
    passphrase: Option<&'a [u8]>,
    quiet: bool,
}

impl<'a> From<&'a Flags> for Download<'a> {
    fn from(flags: &'a Flags) -> Self {
        Self {
            settings: &flags.settings,
            provider: flags.text("w"),
            form: flags.key_file_form,
            passphrase: flags.new_passphrase(),
            quiet: flags.has("q"),
        }
    }
}

/// Saves the keys that a token stores in files of the current directory (`-K`).
pub(super) fn download(plan: &Download<'_>) -> Result<(), KeygenFailure> {
    let mut device = None;
    for setting in plan.settings {
        match setting.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("device") => device = Some(value),
            _ => {
                return Err(KeygenFailure::new(format!(
                    "Option \"{setting}\" is unsupported for FIDO authenticator download"
                )));
            }
        }
    }
    let provider = provider(plan.provider)?;
    let pin = console::passphrase(PIN_PROMPT)?;
    if !plan.quiet {
        println!("You may need to touch your authenticator to authorize key download.");
    }
    let keys = provider
        .resident_keys(device, Some(&pin))
        .map_err(|error| KeygenFailure::new(format!("Unable to load resident keys: {error}")))?;
    drop(pin);
    if keys.is_empty() {
        eprintln!("No keys to download");
    }
    let mut passphrase = plan.passphrase.map(|text| Zeroizing::new(text.to_vec()));
    for resident in keys {
        let Some(parts) = resident.key.security_key() else {
            continue;
        };
        let application = String::from_utf8_lossy(parts.application).into_owned();
        let suffix = suffix(&application, &resident.user);
        let path = resident_path(resident.key.key_type(), &suffix);
        if path.symlink_metadata().is_ok() {
            println!("{} already exists.", shown(&path));
            if !console::confirm("Overwrite (y/n)? ")? {
                return Err(KeygenFailure::refused(""));
            }
        }
        let passphrase = match &passphrase {
            Some(known) => known.clone(),
            None => passphrase.insert(console::new_passphrase(&path)?).clone(),
        };
        files::save(
            plan.form,
            files::PUBLIC,
            &path,
            &resident.key,
            &application,
            &passphrase,
        )?;
        if !plan.quiet {
            let label = resident.key.key_type().label();
            let of = match suffix.is_empty() {
                true => String::new(),
                false => format!(" {application}"),
            };
            println!("Saved {label} key{of} to {}", shown(&path));
        }
    }
    Ok(())
}

/// `id_ed25519_sk_rk`, and the suffix after an underscore.
fn resident_path(key_type: KeyType, suffix: &str) -> PathBuf {
    let kind = match key_type {
        KeyType::SkEcdsaP256 => "ecdsa_sk",
        _ => "ed25519_sk",
    };
    let mut name = format!("id_{kind}_rk");
    if !suffix.is_empty() {
        name.push('_');
        name.push_str(suffix);
    }
    PathBuf::from(name)
}

/// What distinguishes the keys of a token: the application without `ssh:`, and the user. A part that
/// could name another directory, or is not plain text, is written in hexadecimal digits.
fn suffix(application: &str, user: &[u8]) -> String {
    let application = ["ssh://", fido::APPLICATION_PREFIX]
        .iter()
        .find_map(|prefix| application.strip_prefix(prefix))
        .unwrap_or(application);
    let mut suffix = plain_or_hex(application.as_bytes());
    let end = user
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let user = user.get(..end).unwrap_or_default();
    if !user.is_empty() {
        if !suffix.is_empty() {
            suffix.push('_');
        }
        suffix.push_str(&plain_or_hex(user));
    }
    suffix
}

fn plain_or_hex(bytes: &[u8]) -> String {
    let text = core::str::from_utf8(bytes).ok().filter(|text| {
        !text.contains(['/', '\\']) && !text.contains("..") && !text.chars().any(char::is_control)
    });
    text.map_or_else(
        || bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        str::to_owned,
    )
}

/// Signs with a security key whose handle was in a file. A PIN is asked for once.
pub(super) struct SecurityKeySigner {
    key: PrivateKey,
    provider: Provider,
    pin_prompt: String,
    pin: Option<Zeroizing<Vec<u8>>>,
}

impl SecurityKeySigner {
    pub(super) fn new(
        key: PrivateKey,
        provider_name: Option<&str>,
        pin_prompt: &str,
    ) -> Result<Self, KeygenFailure> {
        let flags = key.security_key().map_or(0, |parts| parts.flags);
        let pin = match flags & fido::USER_VERIFICATION {
            0 => None,
            _ => Some(console::passphrase(pin_prompt)?),
        };
        Ok(Self {
            key,
            provider: provider(provider_name)?,
            pin_prompt: pin_prompt.to_owned(),
            pin,
        })
    }

    /// The signature blob.
    ///
    /// # Errors
    /// The reason in words.
    pub(super) fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        let flags = self.key.security_key().map_or(0, |parts| parts.flags);
        loop {
            if flags & fido::USER_PRESENCE != 0 {
                let label = self.key.key_type().label();
                let fingerprint = fingerprint::sha256(&self.key.public().blob());
                eprintln!("Confirm user presence for key {label} {fingerprint}");
            }
            let pin = self.pin.as_deref().map(Vec::as_slice);
            match self.provider.sign(&self.key, message, pin) {
                Err(FidoError::PinRequired) if self.pin.is_none() => {
                    let asked = console::passphrase(&self.pin_prompt);
                    self.pin = Some(asked.map_err(|failure| failure.message)?);
                }
                other => return other.map_err(|error| error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_reads_an_attestation() {
        let path = std::env::temp_dir().join(format!("fulmar-attestation-{}", std::process::id()));
        let attestation = Attestation {
            certificate: b"certificate".to_vec(),
            signature: b"signature".to_vec(),
            authenticator_data: b"data".to_vec(),
        };
        save_attestation(&path, &attestation, true).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_file_of_a_resident_key_stays_in_its_directory() {
        let mut user = b"bob".to_vec();
        user.resize(32, 0);
        for (application, user, name) in [
            ("ssh:", &[0; 32][..], "id_ed25519_sk_rk"),
            ("ssh:work", &[][..], "id_ed25519_sk_rk_work"),
            ("ssh://work", &user, "id_ed25519_sk_rk_work_bob"),
            ("ssh:", &user, "id_ed25519_sk_rk_bob"),
            ("ssh:../x", &[][..], "id_ed25519_sk_rk_2e2e2f78"),
            ("ssh:", b"a/b", "id_ed25519_sk_rk_612f62"),
        ] {
            let suffix = suffix(application, user);
            let path = resident_path(KeyType::SkEd25519, &suffix);
            assert_eq!(path, Path::new(name), "{application}");
        }
    }
}
