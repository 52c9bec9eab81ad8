//! `fulmar keygen`: ssh-keygen's work on keys, certificates, known_hosts files, revocation lists,
//! signatures over files and moduli (those in [`moduli`]).
//!
//! Flags, messages and exit codes are ssh-keygen's: 255 for what went wrong, 1 for a wrong use,
//! a refused question or a name not found. Formats and their rules are in `keys`; here are the
//! questions, the files and the words. A file with a secret has mode 0600 from its first byte.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod certify;
mod change;
mod console;
mod files;
mod generate;
mod hosts;
mod options;
mod resource_record;
mod revoke;
mod security_key;
mod show;
mod signature;
mod signer;
mod tokens;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use transfer::plan::shown;

use ::escape::{Style, escape};
use options::{Flags, Task};

/// What messages that need a name are signed with.
const NAME: &str = "ssh-keygen";

/// Exit status when something went wrong.
const STATUS_FAILED: i32 = 255;
/// Exit status for wrong use, a refusal, or a name that was not found.
const STATUS_REFUSED: i32 = 1;

/// The usage text.
pub const USAGE: &str = "\
usage: ssh-keygen [-q] [-a rounds] [-b bits] [-C comment] [-f output_keyfile]
                  [-m format] [-N new_passphrase] [-O option]
                  [-t ecdsa|ecdsa-sk|ed25519|ed25519-sk|mldsa44-ed25519|rsa]
                  [-w provider] [-Z cipher]
       ssh-keygen -p [-a rounds] [-f keyfile] [-m format] [-N new_passphrase]
                  [-P old_passphrase] [-Z cipher]
       ssh-keygen -i [-f input_keyfile] [-m key_format]
       ssh-keygen -e [-f input_keyfile] [-m key_format]
       ssh-keygen -y [-f input_keyfile]
       ssh-keygen -c [-a rounds] [-C comment] [-f keyfile] [-P passphrase]
       ssh-keygen -l [-v] [-E fingerprint_hash] [-f input_keyfile]
       ssh-keygen -B [-f input_keyfile]
       ssh-keygen -F hostname [-lv] [-f known_hosts_file]
       ssh-keygen -H [-f known_hosts_file]
       ssh-keygen -K [-a rounds] [-O device=path] [-w provider]
       ssh-keygen -R hostname [-f known_hosts_file]
       ssh-keygen -r hostname [-g] [-f input_keyfile]
       ssh-keygen -I certificate_identity -s ca_key [-hU] [-D pkcs11]
                  [-n principals] [-O option] [-V validity_interval] [-z serial_number] file ...
       ssh-keygen -D pkcs11 [-lv] [-E fingerprint_hash]
       ssh-keygen -L [-f input_keyfile]
       ssh-keygen -A [-a rounds] [-f prefix_path]
       ssh-keygen -k -f krl_file [-u] [-C comment] [-s ca_public] [-z version_number]
                  file ...
       ssh-keygen -Q [-l] -f krl_file [file ...]
       ssh-keygen -Y find-principals -s signature_file -f allowed_signers_file
       ssh-keygen -Y match-principals -I signer_identity -f allowed_signers_file
       ssh-keygen -Y check-novalidate -n namespace -s signature_file
       ssh-keygen -Y sign -f key_file -n namespace [-U] [-O option] file ...
       ssh-keygen -Y verify -f allowed_signers_file -I signer_identity
                  -n namespace -s signature_file [-r krl_file] [-O option]
       ssh-keygen -M generate [-O option] output_file
       ssh-keygen -M screen [-f input_file] [-O option] output_file
       ssh-keygen -M auto [-b bits] [-n number] [-O option] output_file
";

/// A failure: what to say and the exit status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeygenFailure {
    message: String,
    status: i32,
}

impl KeygenFailure {
    /// Something went wrong.
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: STATUS_FAILED,
        }
    }

    /// Refused, or not found; an empty message says nothing.
    fn refused(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: STATUS_REFUSED,
        }
    }

    /// A file that cannot be used, as ssh-keygen puts it.
    fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("{NAME}: {}: {}", shown(path), reason(error)))
    }
}

impl fmt::Display for KeygenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The system's words for an error, without the number that Rust adds.
fn reason(error: &io::Error) -> String {
    ::escape::system_words(&error.to_string()).into_owned()
}

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let (task, flags) = match Flags::parse(args) {
        Ok(parsed) => parsed,
        Err(wrong) => {
            eprintln!("{}", escape(&wrong.message, Style::Lines));
            if !wrong.with_usage {
                return STATUS_FAILED;
            }
            eprint!("{USAGE}");
            return STATUS_REFUSED;
        }
    };
    match perform(&task, &flags) {
        Ok(()) => 0,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("{}", escape(&failure.message, Style::Lines));
            }
            failure.status
        }
    }
}

/// The user's home directory, as ssh-keygen and ssh-add take it: the account's, else `HOME`.
#[must_use]
pub fn home() -> std::path::PathBuf {
    files::home()
}

/// The public key of a file of either kind, without a passphrase, or of the file with `.pub`
/// appended.
///
/// # Errors
/// OpenSSH's words for the reason.
pub fn load_public_key(path: &Path) -> Result<keys::public_file::PublicKeyFile, String> {
    files::load_public(path).map_err(|error| error.0)
}

/// Prints OpenSSH's warning about a private key file that others can read.
pub fn warn_too_open(path: &Path, mode: u32) {
    files::warn_too_open(path, mode);
}

/// The provider of security keys: the one that is named, else that of `SSH_SK_PROVIDER`, else the one
/// without a library.
///
/// # Errors
/// Its library does not exist; the reason in words.
pub fn security_key_provider(named: Option<&str>) -> Result<fido::Provider, String> {
    security_key::provider(named).map_err(|failure| failure.message)
}

/// Asks for a passphrase: at the terminal, through the askpass program, or from standard input.
///
/// # Errors
/// The reason in words.
pub fn ask_passphrase(prompt: &str) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
    console::passphrase(prompt).map_err(|failure| failure.message)
}

/// Hands the flags of the task, and no others, to what performs it.
fn perform(task: &Task, flags: &Flags) -> Result<(), KeygenFailure> {
    let identity = flags.identity();
    let quiet = flags.has("q");
    let format = flags.key_file_form.format;
    match task {
        Task::Generate => generate::key_pair(&flags.into()),
        Task::HostKeys => generate::host_keys(&flags.into()),
        Task::DownloadResident => security_key::download(&flags.into()),
        Task::Fingerprint => show::fingerprints(identity, flags.fingerprint_form()),
        Task::Public => show::public_key(identity, flags.old_passphrase()),
        Task::Export => show::export(identity, flags.old_passphrase(), format),
        Task::Import => show::import(identity, format),
        Task::ShowCertificate => show::certificates(identity, flags.fingerprint_form().hash),
        Task::ChangePassphrase => change::passphrase(&flags.into()),
        Task::ChangeComment => change::comment(&flags.into()),
        Task::FindHost(name) => hosts::find(&hosts::HostSearch::new(name, flags)),
        Task::RemoveHost(name) => hosts::remove(flags.file(), name, quiet),
        Task::HashHosts => hosts::hash(flags.file()),
        Task::ResourceRecords => resource_record::print(&flags.into()),
        Task::FileSignature(operation) => signature::run(flags, *operation),
        Task::Certify(authority) => certify::sign(&certify::Certifying::new(authority, flags)?),
        Task::MakeRevocationList => revoke::make(&revoke::ListChange::new(flags)?),
        Task::CheckRevocationList => revoke::check(flags.file(), flags.has("l"), &flags.operands),
        Task::Moduli(mode) => moduli(flags, *mode),
        Task::ListTokens(library) => {
            let form = flags.fingerprint_form();
            tokens::list(library, (flags.has("l") || flags.has("B")).then_some(form))
        }
    }
}

fn moduli(flags: &Flags, mode: moduli::ModuliMode) -> Result<(), KeygenFailure> {
    let request = moduli::ModuliRequest {
        options: &flags.settings,
        bits: flags.bits,
        count: flags.text("n").filter(|count| !count.is_empty()),
        input: flags.file(),
        output: flags.operands.first().map_or(Path::new(""), |path| path),
        quiet: flags.has("q"),
        verbose: flags.has("v"),
    };
    moduli::run(mode, &request).map_err(KeygenFailure::new)
}
