//! Signing certificates (`-s`).

use std::path::{Path, PathBuf};

use keys::certificate::{
    CertificateFields, CertificateOption, FORCE_COMMAND, NO_TOUCH_REQUIRED, SOURCE_ADDRESS,
    VERIFY_REQUIRED,
};
use keys::time::{parse_absolute, parse_interval};
use keys::{CertificateKind, Permission, PresentedKey, PublicKey, SignatureAlgorithm, address};

use super::options::{Flags, KeyAccess, Serial};
use super::signer::{NotHeld, Signer};
use super::{KeygenFailure, files, show, tokens};
use transfer::plan::shown;

/// The public keys that are certified, and the terms of their certificates.
pub(super) struct Certifying<'a> {
    authority: &'a Path,
    access: KeyAccess<'a>,
    /// The signature's algorithm.
    algorithm: Option<&'a str>,
    kind: CertificateKind,
    key_id: &'a str,
    principals: Vec<String>,
    validity: Option<&'a str>,
    serial: Serial,
    grants: &'a [String],
    files: &'a [PathBuf],
    quiet: bool,
}

impl<'a> Certifying<'a> {
    /// # Errors
    /// If there is no key id, or a principal without a name.
    pub(super) fn new(authority: &'a Path, flags: &'a Flags) -> Result<Self, KeygenFailure> {
        let key_id = flags.text("I").ok_or(KeygenFailure::new(
            "Must specify key id (-I) when certifying",
        ))?;
        Ok(Self {
            authority,
            access: flags.key_access(),
            algorithm: flags.text("t"),
            kind: if flags.has("h") {
                CertificateKind::Host
            } else {
                CertificateKind::User
            },
            key_id,
            principals: flags.text("n").map_or(Ok(Vec::new()), principals)?,
            validity: flags.text("V"),
            serial: flags.serial,
            grants: &flags.settings,
            files: &flags.operands,
            quiet: flags.has("q"),
        })
    }
}

/// The principals of `-n`, separated by commas. An empty name is an error, because what was meant to
/// stand there (a variable of a script) is missing.
fn principals(list: &str) -> Result<Vec<String>, KeygenFailure> {
    let named = |name: &str| match name {
        "" => Err(KeygenFailure::new("Empty principal name")),
        name => Ok(name.to_owned()),
    };
    list.split(',').map(named).collect()
}

/// Signs every public key that is named.
pub(super) fn sign(work: &Certifying<'_>) -> Result<(), KeygenFailure> {
    let now = sys::time::realtime_seconds();
    let (valid_after, valid_before) = match work.validity {
        Some(text) => parse_validity(text, now)?,
        None => (0, u64::MAX),
    };
    let grants = Grants::parse(work.grants, work.kind)?;
    if work.principals.is_empty() {
        eprintln!("Warning: certificate will contain no principals (-n)");
    }
    let (authority, mut signer) = load_authority(work.authority, work.access)?;
    let algorithm = algorithm(&authority, work.algorithm)?;
    let mut serial = work.serial.number;
    for path in work.files {
        let public = files::load_public(path).map_err(|error| {
            KeygenFailure::new(format!("load pubkey \"{}\": {}", shown(path), error.0))
        })?;
        let PresentedKey::Plain(key) = &public.key else {
            return Err(KeygenFailure::new(format!(
                "{}: is a certificate already",
                shown(path)
            )));
        };
        let fields = CertificateFields {
            key: key.clone(),
            serial,
            kind: work.kind,
            key_id: work.key_id.to_owned(),
            principals: work.principals.clone(),
            valid_after,
            valid_before,
            critical_options: grants.critical.clone(),
            extensions: grants.extensions(),
        };
        let certificate = fields
            .sign_with(&authority, |message| signer.sign(algorithm, message))
            .map_err(|error| KeygenFailure::new(format!("Couldn't certify key: {error}")))?;
        let to = certificate_path(path);
        files::save_public(&to, &certificate.into(), &public.comment)?;
        if !work.quiet {
            announce(&fields, &to);
        }
        if work.serial.counts {
            serial = serial.wrapping_add(1);
        }
    }
    Ok(())
}

fn announce(fields: &CertificateFields, path: &Path) {
    let names = fields.principals.join(",");
    let space = if names.is_empty() { "" } else { " for " };
    eprintln!(
        "Signed {} key {}: id \"{}\" serial {}{space}{names} valid {}",
        fields.kind.name(),
        shown(path),
        fields.key_id,
        fields.serial,
        show::validity(fields.valid_after, fields.valid_before)
    );
}

/// The authority and what signs for it: its file, or with `-U` the agent.
fn load_authority(
    path: &Path,
    access: KeyAccess<'_>,
) -> Result<(PublicKey, Signer), KeygenFailure> {
    if access.use_agent {
        return authority_in_agent(path);
    }
    if let Some(library) = access.token_library {
        return tokens::authority(library, path);
    }
    let authority = files::load_private(path, access.passphrase)
        .map_err(|error| show::cannot_load(path, &error))?
        .key;
    let public = authority.public().clone();
    let signer = Signer::from_file(authority, access.provider, "Enter PIN for CA key: ")?;
    Ok((public, signer))
}

fn authority_in_agent(path: &Path) -> Result<(PublicKey, Signer), KeygenFailure> {
    let public = files::load_public(path).map_err(|error| {
        KeygenFailure::new(format!(
            "Cannot load CA public key {}: {}",
            shown(path),
            error.0
        ))
    })?;
    let authority = public.key.key().clone();
    let signer = Signer::from_agent(&authority.clone().into()).map_err(|why| {
        KeygenFailure::new(match why {
            NotHeld::NoAgent => {
                "Cannot use public key for CA signature: agent not present".to_owned()
            }
            NotHeld::Empty => "Retrieve agent key list: agent contains no identities".to_owned(),
            NotHeld::OtherKeys => format!("CA key {} not found in agent", shown(path)),
        })
    })?;
    Ok((authority, signer))
}

/// The algorithm of the signature: the authority's own, or the one that `-t` names for RSA.
fn algorithm(
    authority: &PublicKey,
    named: Option<&str>,
) -> Result<SignatureAlgorithm, KeygenFailure> {
    let possible = authority.key_type().algorithms();
    let own = possible.first().copied();
    match named {
        None => own.ok_or(KeygenFailure::new("this key cannot sign certificates")),
        Some(name) => SignatureAlgorithm::from_name(name)
            .filter(|algorithm| possible.contains(algorithm))
            .ok_or(KeygenFailure::new(format!(
                "CA key type {} doesn't match specified {name}",
                authority.key_type().name()
            ))),
    }
}

/// `key.pub` becomes `key-cert.pub`.
fn certificate_path(path: &Path) -> PathBuf {
    let name = path.as_os_str().to_owned();
    let stem = match name.to_str().and_then(|name| name.strip_suffix(".pub")) {
        Some(stem) => stem.into(),
        None => name,
    };
    let mut to = stem;
    to.push("-cert.pub");
    to.into()
}

/// `-V`: an end, or `start:end`; absolute, or relative to now with a sign.
pub(super) fn parse_validity(text: &str, now: u64) -> Result<(u64, u64), KeygenFailure> {
    let bad = |what: &str| KeygenFailure::new(format!("Invalid {what} {text}"));
    let bad_time =
        |which: &str, text: &str| KeygenFailure::new(format!("Invalid {which} time \"{text}\""));
    let interval = text.split_once(':');
    let (after, before) = match interval.filter(|(from, to)| !from.is_empty() && !to.is_empty()) {
        Some((from, to)) => {
            let after = match from {
                "always" => 0,
                _ => point(from, now).ok_or_else(|| bad_time("from", from))?,
            };
            let before = match to {
                "forever" => u64::MAX,
                _ => point(to, now).ok_or_else(|| bad_time("to", to))?,
            };
            (after, before)
        }
        None => {
            let length = text.strip_prefix('+').filter(|_| interval.is_none());
            let length = length.ok_or_else(|| bad("certificate life specification"))?;
            let before = relative(length).and_then(|length| now.checked_add(length));
            let before = before.ok_or_else(|| bad("relative certificate life"))?;
            // The start of the current minute or the one before, for clocks that are slow.
            (now.saturating_sub(59) / 60 * 60, before)
        }
    };
    if before <= after {
        return Err(KeygenFailure::new("Empty certificate validity interval"));
    }
    Ok((after, before))
}

/// Seconds, at most 68 years: a number that is longer by mistake would be for ever.
fn relative(text: &str) -> Option<u64> {
    parse_interval(text).filter(|&seconds| i32::try_from(seconds).is_ok())
}

fn point(text: &str, now: u64) -> Option<u64> {
    if let Some(interval) = text.strip_prefix('+') {
        return now.checked_add(relative(interval)?);
    }
    if let Some(interval) = text.strip_prefix('-') {
        return now.checked_sub(relative(interval)?);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    parse_absolute(text, &show::local_clock)
}

/// What `-O` options make of a certificate.
#[derive(Debug)]
struct Grants {
    permitted: Vec<Permission>,
    no_touch: bool,
    verify: bool,
    critical: Vec<CertificateOption>,
    extra: Vec<CertificateOption>,
    force_command: bool,
    source_address: bool,
}

impl Grants {
    /// Without options a user gets every permission, and a host, for which they mean nothing, none.
    fn parse(options: &[String], kind: CertificateKind) -> Result<Self, KeygenFailure> {
        let mut grants = Self {
            permitted: match kind {
                CertificateKind::User => Permission::ALL.to_vec(),
                CertificateKind::Host => Vec::new(),
            },
            no_touch: false,
            verify: false,
            critical: Vec::new(),
            extra: Vec::new(),
            force_command: false,
            source_address: false,
        };
        for option in options {
            grants.apply(option)?;
        }
        if grants.verify {
            let required = CertificateOption::flag(VERIFY_REQUIRED);
            add_once(&mut grants.critical, required);
        }
        Ok(grants)
    }

    fn apply(&mut self, option: &str) -> Result<(), KeygenFailure> {
        let lower = option.to_ascii_lowercase();
        if lower == "clear" {
            self.permitted.clear();
            self.no_touch = false;
            self.verify = false;
            return Ok(());
        }
        let named =
            [("permit-", true), ("no-", false)]
                .into_iter()
                .find_map(|(prefix, is_permitted)| {
                    let permission = Permission::of_option(lower.strip_prefix(prefix)?)?;
                    Some((permission, is_permitted))
                });
        if let Some((permission, is_permitted)) = named {
            self.permitted.retain(|permitted| *permitted != permission);
            if is_permitted {
                self.permitted.push(permission);
            }
            return Ok(());
        }
        match lower.as_str() {
            NO_TOUCH_REQUIRED => self.no_touch = true,
            "touch-required" => self.no_touch = false,
            VERIFY_REQUIRED => self.verify = true,
            "no-verify-required" => self.verify = false,
            _ => return self.apply_with_value(option),
        }
        Ok(())
    }

    fn apply_with_value(&mut self, option: &str) -> Result<(), KeygenFailure> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let once = |seen: &mut bool| {
            if core::mem::replace(seen, true) {
                return Err(KeygenFailure::new(format!("{name} already specified")));
            }
            Ok(())
        };
        let name = name.to_ascii_lowercase();
        match (name.as_str(), value) {
            (FORCE_COMMAND | SOURCE_ADDRESS, Some("")) => {
                return Err(KeygenFailure::new(format!("Empty {name} option")));
            }
            (FORCE_COMMAND, Some(command)) => {
                once(&mut self.force_command)?;
                self.critical
                    .push(CertificateOption::with_text(FORCE_COMMAND, command));
            }
            (SOURCE_ADDRESS, Some(list)) => {
                once(&mut self.source_address)?;
                address::CidrList::parse(list)
                    .map_err(|_| KeygenFailure::new("Invalid source-address list"))?;
                self.critical
                    .push(CertificateOption::with_text(SOURCE_ADDRESS, list));
            }
            _ => return self.apply_custom(option),
        }
        Ok(())
    }

    /// `critical:NAME=VALUE` and `extension:NAME=VALUE`, or without a value.
    fn apply_custom(&mut self, option: &str) -> Result<(), KeygenFailure> {
        let unsupported =
            || KeygenFailure::new(format!("Unsupported certificate option \"{option}\""));
        let (kind, custom) = option.split_once(':').ok_or_else(unsupported)?;
        let options = match kind.to_ascii_lowercase().as_str() {
            "critical" => &mut self.critical,
            "extension" => &mut self.extra,
            _ => return Err(unsupported()),
        };
        let (name, custom) = match custom.split_once('=') {
            Some((name, value)) => (name, CertificateOption::with_text(name, value)),
            None => (custom, CertificateOption::flag(custom)),
        };
        if name.is_empty() {
            return Err(unsupported());
        }
        add_once(options, custom);
        Ok(())
    }

    fn extensions(&self) -> Vec<CertificateOption> {
        let permitted = self.permitted.iter().map(|each| each.extension());
        let no_touch = self.no_touch.then_some(NO_TOUCH_REQUIRED);
        let mut extensions = self.extra.clone();
        for name in permitted.chain(no_touch) {
            add_once(&mut extensions, CertificateOption::flag(name));
        }
        extensions
    }
}

/// Adds an option that is not there yet: a certificate must not have one twice.
fn add_once(options: &mut Vec<CertificateOption>, option: CertificateOption) {
    if !options.contains(&option) {
        options.push(option);
    }
}
