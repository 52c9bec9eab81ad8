//! `copy-id`: installs public keys on a server, as ssh-copy-id does.
//!
//! Each key is tried first: one that logs in is there already. The others are appended to
//! authorized_keys by a command in the server's shell or, with `-s` and where there is none, over
//! SFTP. A key that the file holds is not added again. Messages and exit codes are ssh-copy-id's.

mod options;
mod sftp_install;
mod shell;
mod source;

use std::ffi::OsString;
use std::path::PathBuf;

use escape::{Style, escape};
use sys::signals::Signal;

use options::CopyIdOptions;
pub use options::USAGE;
use source::{KeySource, NewKey};

/// Exit status of any failure.
const STATUS_FAILED: i32 = 1;

/// Why the program ends.
#[derive(Debug)]
struct CopyIdError {
    /// Without the program's name.
    message: String,
    /// An empty line goes before it.
    is_apart: bool,
}

impl CopyIdError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_apart: false,
        }
    }

    fn apart(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_apart: true,
        }
    }
}

/// Numbers of keys that the server got.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Installed {
    added: usize,
    /// Keys that the file held.
    present: usize,
}

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let _ = sys::signals::ignore(Signal::PIPE);
    let options = match CopyIdOptions::parse(args) {
        Ok(options) => options,
        Err(message) => {
            eprint!("{}{USAGE}", escape(&message, Style::Lines));
            return STATUS_FAILED;
        }
    };
    match perform(&options) {
        Ok(()) => 0,
        Err(error) => {
            if error.is_apart {
                eprintln!();
            }
            say(&error.message);
            STATUS_FAILED
        }
    }
}

fn say(message: &str) {
    eprintln!("ssh-copy-id: {}", escape(message, Style::Lines));
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
}

fn perform(options: &CopyIdOptions) -> Result<(), CopyIdError> {
    let source = source::find(options)?;
    say(&format!(
        "INFO: Source of key(s) to be installed: {}",
        source.name
    ));
    if source.keys.is_empty() {
        return Err(CopyIdError::new("ERROR: No identities found"));
    }
    let new = match options.force {
        true => source.keys.clone(),
        false => match missing(options, &source)? {
            new if new.is_empty() => {
                all_skipped();
                return Ok(());
            }
            new => new,
        },
    };
    if options.dry_run {
        print_dry_run(&new);
        return Ok(());
    }
    let installed = match options.sftp {
        true => sftp_install::install(options, &new)?,
        false => match shell::install(options, &new)? {
            Some(installed) => installed,
            None => {
                say("INFO: the server runs no command that installs keys; SFTP is tried");
                sftp_install::install(options, &new)?
            }
        },
    };
    if installed.added == 0 {
        all_skipped();
        return Ok(());
    }
    print_result(options, &source, installed);
    Ok(())
}

/// The keys that do not log in.
fn missing(options: &CopyIdOptions, source: &KeySource) -> Result<Vec<NewKey>, CopyIdError> {
    say(
        "INFO: attempting to log in with the new key(s), to filter out any that are already installed",
    );
    let mut missing = Vec::new();
    for key in &source.keys {
        if !shell::logs_in(options, source, key)? {
            missing.push(key.clone());
        }
    }
    if !missing.is_empty() {
        say(&format!(
            "INFO: {} key(s) remain to be installed -- if you are prompted now it is to install the new keys",
            missing.len()
        ));
    }
    Ok(missing)
}

fn all_skipped() {
    eprintln!();
    say("WARNING: All keys were skipped because they already exist on the remote system.");
    eprintln!("\t\t(if you think this is a mistake, you may want to use -f option)\n");
}

fn print_dry_run(keys: &[NewKey]) {
    println!("=-=-=-=-=-=-=-=\nWould have added the following key(s):\n");
    for key in keys {
        println!("{}", escape(&key.line, Style::Lines));
    }
    println!("=-=-=-=-=-=-=-=");
}

fn print_result(options: &CopyIdOptions, source: &KeySource, installed: Installed) {
    let mut command = String::from(if options.sftp { "sftp" } else { "ssh" });
    if options.identity.is_some() {
        command.push_str(" -i");
        if let Some(private) = &source.private {
            command.push_str(&format!(" {}", private.display()));
        }
    }
    if let Some(port) = &options.port {
        let flag = if options.sftp { "P" } else { "p" };
        command.push_str(&format!(" -{flag} {}", port.to_string_lossy()));
    }
    for (flag, value) in &options.settings {
        command.push_str(&format!(
            " -{flag} {}",
            shell::quoted(&value.to_string_lossy())
        ));
    }
    command.push_str(&format!(
        " {}",
        shell::quoted(&options.host.to_string_lossy())
    ));
    println!("\nNumber of key(s) added: {}\n", installed.added);
    println!(
        "Now try logging into the machine, with: \"{}\"\n\
         and check to make sure that only the key(s) you wanted were added.\n",
        escape(&command, Style::Lines)
    );
}
