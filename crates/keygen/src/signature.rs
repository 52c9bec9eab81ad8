//! Signatures over files (`-Y`): making them, verifying them, and saying who may have made them.
//!
//! The formats and the judgement are in [`keys::sshsig`] and [`keys::allowed_signers`]; messages
//! and exit codes are those of ssh-keygen, which git and others read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crypto::hash::{Digest, HashAlgorithm, Hasher};
use keys::allowed_signers::{self, AllowedSigner, NotPermitted};
use keys::krl::RevocationList;
use keys::sshsig::{self, FileSignature};
use keys::{PresentedKey, public_file};
use sys::file::RewriteMode;
use transfer::plan::shown;

use super::files::KeyFile;
use super::options::{FingerprintForm, Flags, KeyAccess, Operation};
use super::signer::{NotHeld, Signer};
use super::{KeygenFailure, console, files, reason, show};

/// Bytes of a file that are hashed at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// Status of `match-principals` where no line matches (ssh-keygen gives its error's number).
const STATUS_NO_MATCH: i32 = 210;
/// The same where a line cannot be understood.
const STATUS_BAD_LINE: i32 = 252;
/// The same where the file cannot be read.
const STATUS_NO_FILE: i32 = 232;

/// Does what `-Y` names.
pub(super) fn run(flags: &Flags, operation: Operation) -> Result<(), KeygenFailure> {
    let place = OperationFlags { flags, operation };
    match operation {
        Operation::Sign => sign(&SigningRequest {
            namespace: place.namespace()?,
            key: place.file("missing key")?,
            access: flags.key_access(),
            settings: &flags.settings,
            files: &flags.operands,
            quiet: flags.has("q"),
        }),
        Operation::Verify => {
            let (namespace, signature) = (place.namespace()?, place.signature()?);
            let claimed = Claimed {
                allowed: place.file(ALLOWED)?,
                principal: place.principal("missing principal identity")?,
                revoked: flags.text("r").map(Path::new),
            };
            verify(&Asked::new(flags, namespace, signature, Some(claimed)))
        }
        Operation::CheckNoValidate => {
            let (namespace, signature) = (place.namespace()?, place.signature()?);
            verify(&Asked::new(flags, namespace, signature, None))
        }
        Operation::FindPrincipals => {
            let signature = place.signature()?;
            let found = find_principals(&flags.settings, signature, place.file(ALLOWED)?);
            print_names(found)
        }
        Operation::MatchPrincipals => {
            let allowed = place.file(ALLOWED)?;
            print_names(match_principals(
                allowed,
                place.principal("missing principal ID")?,
            ))
        }
    }
}

const ALLOWED: &str = "missing allowed keys file";

/// The flags that an operation needs.
struct OperationFlags<'a> {
    flags: &'a Flags,
    operation: Operation,
}

impl<'a> OperationFlags<'a> {
    fn needs<T>(&self, value: Option<T>, lack: &str) -> Result<T, KeygenFailure> {
        let name = self.operation.name();
        value.ok_or_else(|| KeygenFailure::refused(format!("Too few arguments for {name}: {lack}")))
    }

    fn namespace(&self) -> Result<&'a str, KeygenFailure> {
        let namespace = self.flags.text("n");
        self.needs(
            namespace.filter(|name| !name.is_empty()),
            "missing namespace",
        )
    }

    fn file(&self, lack: &str) -> Result<&'a Path, KeygenFailure> {
        self.needs(self.flags.file(), lack)
    }

    fn signature(&self) -> Result<&'a Path, KeygenFailure> {
        self.needs(self.flags.authority(), "missing signature file")
    }

    fn principal(&self, lack: &str) -> Result<&'a str, KeygenFailure> {
        self.needs(self.flags.text("I"), lack)
    }
}

/// The data to sign, and the key that signs it.
struct SigningRequest<'a> {
    namespace: &'a str,
    /// The key's file, private or public.
    key: &'a Path,
    access: KeyAccess<'a>,
    settings: &'a [String],
    /// Standard input if it is empty.
    files: &'a [PathBuf],
    quiet: bool,
}

fn sign(request: &SigningRequest<'_>) -> Result<(), KeygenFailure> {
    let key_path = request.key;
    let dash = Path::new("-");
    if request.files.len() > 1 && request.files.iter().any(|path| path == dash) {
        return Err(KeygenFailure::new(
            "Cannot sign mix of paths and standard input",
        ));
    }
    let mut hash = HashAlgorithm::Sha512;
    for option in request.settings {
        match option.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("hashalg") => {
                hash = sshsig::hash_from_name(value.as_bytes())
                    .map_err(|error| KeygenFailure::new(error.to_string()))?;
            }
            _ => return Err(KeygenFailure::new(format!("Invalid option \"{option}\""))),
        }
    }
    let file = files::KeyFile::read(key_path).ok();
    let public = match &file {
        Some(file) => file.public(),
        None => files::load_public(key_path),
    }
    .map_err(|error| {
        KeygenFailure::new(format!(
            "Couldn't load public key {}: {}",
            shown(key_path),
            error.0
        ))
    })?;
    let mut work = SigningWork {
        signer: signer(request.access, key_path, file, &public.key)?,
        key: public.key,
        namespace: request.namespace,
        hash,
        quiet: request.quiet,
    };
    if request.files.is_empty() {
        return work.sign_input("(stdin)");
    }
    for path in request.files {
        if path == dash {
            work.sign_input("-")?;
        } else {
            work.sign_file(path)?;
        }
    }
    Ok(())
}

/// The key in the agent or, unless `-U` asks for the agent, in its file: the one that was named, or
/// the private one beside a public one.
fn signer(
    access: KeyAccess<'_>,
    path: &Path,
    file: Option<KeyFile<'_>>,
    public: &PresentedKey,
) -> Result<Signer, KeygenFailure> {
    match Signer::from_agent(public) {
        Ok(signer) => return Ok(signer),
        Err(NotHeld::NoAgent) if access.use_agent => {
            return Err(KeygenFailure::new("Couldn't get agent socket"));
        }
        Err(_) if access.use_agent => {
            return Err(KeygenFailure::new("Couldn't find key in agent"));
        }
        Err(_) => {}
    }
    let private = private_path(path);
    let none_found =
        |of: &str| KeygenFailure::new(format!("No private key found for {of}\"{}\"", shown(path)));
    // The file that has been read may be a pipe.
    let is_public = file.as_ref().is_some_and(|file| !file.is_private_key());
    if is_public && private == path {
        return Err(none_found(""));
    }
    let file = file.filter(|_| !is_public);
    if file.is_none() && !private.exists() {
        return Err(none_found("public key "));
    }
    let loaded = match file {
        Some(file) => file.private(access.passphrase),
        None => files::load_private(&private, access.passphrase),
    };
    let key = loaded
        .map_err(|error| show::cannot_load(&private, &error))?
        .key;
    if key.public() != public.key() {
        return Err(KeygenFailure::new(format!(
            "Public key {} doesn't match private {}",
            shown(path),
            shown(&private)
        )));
    }
    let prompt = format!("Enter PIN for {} key: ", key.key_type().label());
    Signer::from_file(key, access.provider, &prompt)
}

/// `key-cert.pub` and `key.pub` become `key`.
fn private_path(path: &Path) -> PathBuf {
    let name = path.as_os_str().to_str().unwrap_or_default();
    ["-cert.pub", ".pub"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .filter(|stem| !stem.is_empty())
        .map_or_else(|| path.to_owned(), PathBuf::from)
}

/// What every file is signed with.
struct SigningWork<'a> {
    signer: Signer,
    key: PresentedKey,
    namespace: &'a str,
    hash: HashAlgorithm,
    quiet: bool,
}

impl SigningWork<'_> {
    fn sign_input(&mut self, name: &str) -> Result<(), KeygenFailure> {
        self.say("Signing data on standard input");
        print!("{}", self.armored(io::stdin().lock(), name)?);
        Ok(())
    }

    fn sign_file(&mut self, path: &Path) -> Result<(), KeygenFailure> {
        let name = shown(path);
        let file = File::open(path).map_err(|error| {
            KeygenFailure::new(format!(
                "Cannot open {name} for signing: {}",
                reason(&error)
            ))
        })?;
        self.say(&format!("Signing file {name}"));
        let text = self.armored(file, &name)?;
        let mut to = path.as_os_str().to_owned();
        to.push(".sig");
        let to = PathBuf::from(to);
        if to.exists() {
            println!("{} already exists.", shown(&to));
            if !console::confirm("Overwrite (y/n)? ")? {
                return Ok(());
            }
        }
        sys::file::rewrite(&to, text.as_bytes(), RewriteMode::Kept(0o666)).map_err(|error| {
            KeygenFailure::new(format!("Cannot open {}: {}", shown(&to), reason(&error)))
        })?;
        self.say(&format!("Write signature to {}", shown(&to)));
        Ok(())
    }

    fn armored(&mut self, input: impl Read, name: &str) -> Result<String, KeygenFailure> {
        let failed = |why: &str| KeygenFailure::new(format!("Signing {name} failed: {why}"));
        let digest = digest(input, self.hash).map_err(|error| failed(&reason(&error)))?;
        let namespace = self.namespace.as_bytes();
        let algorithm = sshsig::algorithm_with(self.key.key().key_type(), self.hash)
            .ok_or_else(|| failed("the key cannot sign"))?;
        let message = sshsig::message(namespace, self.hash, &digest);
        let signature = self.signer.sign(algorithm, &message);
        let made = FileSignature {
            key: self.key.clone(),
            namespace: namespace.to_vec(),
            hash: self.hash,
            signature: signature.map_err(|why| failed(&why.to_string()))?,
        };
        // What an agent gives is believed no more than what a file holds.
        made.verify(namespace, &digest)
            .map_err(|error| failed(&error.to_string()))?;
        Ok(made.to_armored())
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

fn digest(mut input: impl Read, hash: HashAlgorithm) -> io::Result<Digest> {
    let mut hasher = Hasher::new(hash);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a signature is held against.
struct Asked<'a> {
    namespace: &'a str,
    signature: &'a Path,
    signer: Option<Claimed<'a>>,
    settings: &'a [String],
    form: FingerprintForm,
    quiet: bool,
}

impl<'a> Asked<'a> {
    fn new(
        flags: &'a Flags,
        namespace: &'a str,
        signature: &'a Path,
        signer: Option<Claimed<'a>>,
    ) -> Self {
        Self {
            namespace,
            signature,
            signer,
            settings: &flags.settings,
            form: flags.fingerprint_form(),
            quiet: flags.has("q"),
        }
    }
}

/// Who is said to have signed.
struct Claimed<'a> {
    allowed: &'a Path,
    principal: &'a str,
    revoked: Option<&'a Path>,
}

/// Verifies standard input.
fn verify(asked: &Asked<'_>) -> Result<(), KeygenFailure> {
    let checks = VerifyOptions::parse(asked.settings, true);
    let good = checks.and_then(|checks| Ok((judge(&checks, asked)?, checks)));
    let (key, checks) = match good {
        Ok(good) => good,
        Err(failure) => {
            if !asked.quiet {
                println!("Could not verify signature.");
            }
            return Err(failure);
        }
    };
    if !asked.quiet {
        let by = match &asked.signer {
            Some(claimed) => format!(" for {}", claimed.principal),
            None => String::new(),
        };
        println!(
            "Good \"{}\" signature{by} with {} key {}",
            asked.namespace,
            key.label(),
            asked.form.fingerprint_of(&key.key().blob())
        );
    }
    if checks.print_key {
        println!("{}", public_file::to_line(&key, ""));
    }
    Ok(())
}

fn judge(checks: &VerifyOptions, asked: &Asked<'_>) -> Result<PresentedKey, KeygenFailure> {
    let signature = load_signature(asked.signature)?;
    let digest = digest(io::stdin().lock(), signature.hash)
        .map_err(|error| KeygenFailure::new(format!("standard input: {}", reason(&error))))?;
    signature
        .verify(asked.namespace.as_bytes(), &digest)
        .map_err(|error| KeygenFailure::new(error.to_string()))?;
    let key = signature.key;
    let Some(claimed) = &asked.signer else {
        return Ok(key);
    };
    if let Some(path) = claimed.revoked {
        let list = RevocationList::load(path)
            .map_err(|error| KeygenFailure::new(format!("{}: {error}", shown(path))))?;
        if list.is_revoked(&key) {
            return Err(KeygenFailure::new(format!(
                "{}: the signing key is revoked",
                shown(path)
            )));
        }
    }
    let principal = Some(claimed.principal);
    let namespace = Some(asked.namespace.as_bytes());
    let file = load_allowed(claimed.allowed)?;
    let allowed = allowed(claimed.allowed, &file, principal, |signer| {
        let permitted = signer.permits(&key, principal, namespace, checks.time);
        permitted.map_err(|refusal| words(&refusal, asked.namespace, checks.time))
    });
    // An empty message: ssh-keygen says nothing about a key that is not in the file.
    allowed.map(|_| key).ok_or(KeygenFailure::new(""))
}

/// Reads what a flag names, pipes too: scripts hand over signatures and signers by `<(…)`.
fn read_given(path: &Path, max_len: u64) -> io::Result<Vec<u8>> {
    sys::file::read_file_bounded(&File::open(path)?, max_len)
}

fn load_signature(path: &Path) -> Result<FileSignature, KeygenFailure> {
    let file = read_given(path, sshsig::MAX_FILE_BYTES).map_err(|error| {
        KeygenFailure::new(format!("Couldn't read signature file: {}", reason(&error)))
    })?;
    FileSignature::from_armored(&file).map_err(|error| KeygenFailure::new(error.to_string()))
}

fn load_allowed(path: &Path) -> Result<Vec<u8>, KeygenFailure> {
    read_given(path, allowed_signers::MAX_FILE_BYTES).map_err(|error| {
        let (path, why) = (shown(path), reason(&error));
        let message = format!("Unable to open allowed keys file \"{path}\": {why}");
        KeygenFailure::new(message)
    })
}

/// The result of the first line that permits the key. Lines that cannot be parsed, and lines that
/// name the key and do not permit it, are reported and skipped.
fn allowed<T>(
    path: &Path,
    file: &[u8],
    principal: Option<&str>,
    permits: impl Fn(&AllowedSigner) -> Result<Option<T>, String>,
) -> Option<T> {
    let name = principal.map(str::as_bytes);
    for signer in allowed_signers::signers(file, name, &show::local_clock) {
        let permitted = match &signer {
            Ok(signer) => permits(signer).map_err(|why| (signer.line, why)),
            Err(bad) => Err((bad.line, bad.reason.to_string())),
        };
        match permitted {
            Ok(None) => {}
            Ok(found) => return found,
            Err((line, why)) => {
                let text = format!("{}:{line}: {why}", shown(path));
                eprintln!("{}", escape::one_line(&text));
            }
        }
    }
    None
}

/// Why a line does not permit, as ssh-keygen puts it.
fn words(refusal: &NotPermitted, namespace: &str, time: u64) -> String {
    let now = show::local_time(time);
    match refusal {
        NotPermitted::Certificate(error) => format!("certificate not authorized: {error}"),
        NotPermitted::NoPrincipals => "no valid principals found".to_owned(),
        NotPermitted::Namespace => {
            format!("key is not permitted for use in signature namespace \"{namespace}\"")
        }
        NotPermitted::NotYetValid(from) => format!(
            "key is not yet valid: verify time {now} < valid-after {}",
            show::local_time(*from)
        ),
        NotPermitted::Expired(to) => format!(
            "key has expired: verify time {now} > valid-before {}",
            show::local_time(*to)
        ),
    }
}

/// What `-O` says to an operation that verifies.
struct VerifyOptions {
    /// Seconds since 1970.
    time: u64,
    print_key: bool,
}

impl VerifyOptions {
    fn parse(settings: &[String], may_print: bool) -> Result<Self, KeygenFailure> {
        let mut parsed = Self {
            time: sys::time::realtime_seconds(),
            print_key: false,
        };
        for option in settings {
            match option.split_once('=') {
                Some((name, value)) if name.eq_ignore_ascii_case("verify-time") => {
                    parsed.time = keys::time::parse_absolute(value, &show::local_clock)
                        .filter(|seconds| *seconds != 0)
                        .ok_or(KeygenFailure::new("Invalid \"verify-time\" option"))?;
                }
                None if may_print && option.eq_ignore_ascii_case("print-pubkey") => {
                    parsed.print_key = true;
                }
                _ => return Err(KeygenFailure::new(format!("Invalid option \"{option}\""))),
            }
        }
        Ok(parsed)
    }
}

/// The names for which the key of a signature may sign; the signature itself is not verified.
fn find_principals(
    settings: &[String],
    signature: &Path,
    path: &Path,
) -> Result<Vec<String>, KeygenFailure> {
    let checks = VerifyOptions::parse(settings, false)?;
    let key = load_signature(signature)?.key;
    let file = load_allowed(path)?;
    let found = allowed(path, &file, None, |signer| {
        let permitted = signer.permits(&key, None, None, checks.time);
        permitted.map_err(|refusal| words(&refusal, "", checks.time))
    });
    found.ok_or(KeygenFailure::new(""))
}

/// The lists of names of all lines that name a principal.
fn match_principals(path: &Path, principal: &str) -> Result<Vec<String>, KeygenFailure> {
    let with_status = |status| move |failure| KeygenFailure { status, ..failure };
    let file = load_allowed(path).map_err(with_status(STATUS_NO_FILE))?;
    let mut lists = Vec::new();
    let principal = Some(principal.as_bytes());
    for signer in allowed_signers::signers(&file, principal, &show::local_clock) {
        let signer = signer
            .map_err(|bad| {
                KeygenFailure::new(format!("{}:{}: {}", shown(path), bad.line, bad.reason))
            })
            .map_err(with_status(STATUS_BAD_LINE))?;
        lists.push(String::from_utf8_lossy(&signer.principals).into_owned());
    }
    if lists.is_empty() {
        return Err(with_status(STATUS_NO_MATCH)(KeygenFailure::new("")));
    }
    Ok(lists)
}

fn print_names(found: Result<Vec<String>, KeygenFailure>) -> Result<(), KeygenFailure> {
    match found {
        Ok(names) => {
            for name in names {
                println!("{}", escape::one_line(&name));
            }
            Ok(())
        }
        Err(mut failure) => {
            if !failure.message.is_empty() {
                failure.message.push('\n');
            }
            failure.message.push_str("No principal matched.");
            Err(failure)
        }
    }
}
