//! `fulmar add` (ssh-add): adds keys to the agent of `SSH_AUTH_SOCK`, removes, lists and tests them,
//! and locks the agent.
//!
//! Flags, messages and exit codes are ssh-add's: 1 for what failed, 2 without an agent. The protocol
//! is in `agent`; here are the files, the questions and the words.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod destination;
mod files;
mod options;
mod tokens;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::net::UnixStream;

use agent::{AgentClient, Constraints};
use keys::{KeyType, PresentedKey, VerifyPolicy};

use options::{Action, AddOptions};

/// Exit status if something failed.
const STATUS_FAILED: i32 = 1;
/// Exit status without an agent.
const STATUS_NO_AGENT: i32 = 2;
/// Exit status of OpenSSH's fatal errors.
const STATUS_FATAL: i32 = 255;

/// Bytes that `-T` lets a key sign.
const TEST_BYTES: usize = 1024;

/// The usage text.
pub const USAGE: &str = "\
usage: ssh-add [-CcDdKkLlNqvXx] [-E fingerprint_hash] [-H hostkey_file]
               [-h destination_constraint] [-S provider] [-t life] [file ...]
       ssh-add -s pkcs11 [-Cv] [certificate ...]
       ssh-add -e pkcs11
       ssh-add -T pubkey ...
       ssh-add -Q
";

type AgentConnection = AgentClient<UnixStream>;

/// Something failed, and the reason has been printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed;

/// A failure that ends the program.
#[derive(Debug)]
struct AddFailure {
    message: String,
    status: i32,
    shows_usage: bool,
}

impl AddFailure {
    fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: STATUS_FAILED,
            shows_usage: false,
        }
    }

    fn fatal(message: impl Into<String>) -> Self {
        Self {
            status: STATUS_FATAL,
            ..Self::failed(message)
        }
    }

    fn usage(error: &flags::Error) -> Self {
        Self {
            shows_usage: true,
            ..Self::failed(error.to_string())
        }
    }
}

/// The system's words for an error, without the number that Rust adds.
fn reason(text: &str) -> String {
    escape::system_words(text).into_owned()
}

/// Writes a message for debugging (`-v`).
fn debug(options: &AddOptions, message: fmt::Arguments<'_>) {
    if options.verbosity > 0 {
        eprintln!("debug1: {}", escape::one_line(message.to_string()));
    }
}

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let done = options::parse(args).and_then(|options| {
        let mut connection = connect()?;
        perform(&mut connection, &options)
    });
    match done {
        Ok(Ok(())) => 0,
        Ok(Err(Failed)) => STATUS_FAILED,
        Err(failure) => {
            eprintln!("{}", escape::escape(&failure.message, escape::Style::Lines));
            if failure.shows_usage {
                eprint!("{USAGE}");
            }
            failure.status
        }
    }
}

fn connect() -> Result<AgentConnection, AddFailure> {
    let failed = |message: String| AddFailure {
        status: STATUS_NO_AGENT,
        ..AddFailure::failed(message)
    };
    let path = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| {
        failed("Could not open a connection to your authentication agent.".to_owned())
    })?;
    UnixStream::connect(path)
        .map(AgentClient::new)
        .map_err(|error| {
            let why = reason(&error.to_string());
            failed(format!("Error connecting to agent: {why}"))
        })
}

fn perform(
    connection: &mut AgentConnection,
    options: &AddOptions,
) -> Result<Result<(), Failed>, AddFailure> {
    Ok(match options.action {
        Action::Lock => lock(connection, true),
        Action::Unlock => lock(connection, false),
        Action::ListFingerprints | Action::ListKeys => list(connection, options),
        Action::RemoveAll => remove_all(connection, options),
        Action::Query => query(connection),
        Action::Test if options.files.is_empty() => {
            return Err(AddFailure::fatal("no keys to test"));
        }
        Action::Test => test(connection, options),
        Action::AddOrRemove => {
            let constraints = Constraints {
                lifetime: options.lifetime,
                confirm: options.confirm,
                destinations: destination::constraints(options)?,
                ..Constraints::default()
            };
            match &options.token_library {
                Some(library) => tokens::add_or_remove(connection, options, constraints, library)?,
                None if options.loads_resident => {
                    files::add_resident(connection, options, &constraints)
                }
                None => files::add_or_remove(connection, options, constraints),
            }
        }
    })
}

fn lock(connection: &mut AgentConnection, locks: bool) -> Result<(), Failed> {
    let ask = |prompt: &str| {
        keygen::ask_passphrase(prompt).map_err(|error| {
            eprintln!("{error}");
            Failed
        })
    };
    let passphrase = ask("Enter lock password: ")?;
    if locks && ask("Again: ")? != passphrase {
        eprintln!("Passwords do not match.");
        return Err(Failed);
    }
    let un = if locks { "" } else { "un" };
    let done = match locks {
        true => connection.lock(&passphrase),
        false => connection.unlock(&passphrase),
    };
    match done {
        Ok(()) => {
            eprintln!("Agent {un}locked.");
            Ok(())
        }
        Err(error) => {
            eprintln!("Failed to {un}lock agent: {error}");
            Err(Failed)
        }
    }
}

fn list(connection: &mut AgentConnection, options: &AddOptions) -> Result<(), Failed> {
    let identities = connection.list().map_err(|error| {
        eprintln!("error fetching identities: {error}");
        Failed
    })?;
    if identities.is_empty() {
        println!("The agent has no identities.");
        return Err(Failed);
    }
    for identity in &identities {
        let comment = escape::one_line(&identity.comment);
        match PresentedKey::from_blob(&identity.blob) {
            Ok(key) if options.action == Action::ListFingerprints => {
                let blob = key.key().blob();
                let fingerprint = keys::fingerprint::of_blob(&blob, options.fingerprint_hash);
                let (bits, label) = (key.key().bits(), key.label());
                println!("{bits} {fingerprint} {comment} ({label})");
            }
            Ok(key) => println!("{}", keys::public_file::to_line(&key, &identity.comment)),
            Err(error) => eprintln!("a key of the agent ({comment}): {error}"),
        }
    }
    Ok(())
}

fn remove_all(connection: &mut AgentConnection, options: &AddOptions) -> Result<(), Failed> {
    match connection.remove_all() {
        Ok(()) => {
            if !options.quiet {
                eprintln!("All identities removed.");
            }
            Ok(())
        }
        Err(error) => {
            debug(options, format_args!("{error}"));
            eprintln!("Failed to remove all identities.");
            Err(Failed)
        }
    }
}

fn query(connection: &mut AgentConnection) -> Result<(), Failed> {
    let names = connection.extensions().map_err(|error| {
        eprintln!("unable to query supported extensions: {error}");
        Failed
    })?;
    for name in names {
        println!("{}", escape::one_line(name));
    }
    Ok(())
}

/// Lets each key of the files sign random bytes, and verifies the signature.
fn test(connection: &mut AgentConnection, options: &AddOptions) -> Result<(), Failed> {
    let mut done = Ok(());
    for path in &options.files {
        let shown = path.display();
        let key = match keygen::load_public_key(path) {
            Ok(file) => file.key,
            Err(error) => {
                eprintln!("Couldn't read public key {shown}: {error}");
                done = Err(Failed);
                continue;
            }
        };
        let algorithm = match key.key().key_type() {
            KeyType::Rsa => keys::SignatureAlgorithm::RsaSha256,
            other => match other.algorithms().first() {
                Some(algorithm) => *algorithm,
                None => continue,
            },
        };
        let data: [u8; TEST_BYTES] = crypto::random::bytes();
        let signature = match connection.sign_with(&key.blob(), &data, algorithm) {
            Ok(signature) => signature,
            Err(error) => {
                eprintln!("Agent signature failed for {shown}: {error}");
                done = Err(Failed);
                continue;
            }
        };
        let policy = VerifyPolicy {
            min_rsa_bits: 1024,
            // The signature shows that the key is there, with a touch or without.
            require_user_presence: false,
            ..VerifyPolicy::default()
        };
        if let Err(error) = key.key().verify(algorithm, &data, &signature, &policy) {
            eprintln!("Signature verification failed for {shown}: {error}");
            done = Err(Failed);
        }
    }
    done
}
