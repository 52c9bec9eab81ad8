//! plink. Its lists are settings of a saved session, so the server's are configured instead; it
//! gets host keys by fingerprint and authorities from its own directory.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{Client, Order, Running, converted};
use crate::fixture::{self, KEY_TYPES};
use crate::offers;
use crate::process::{COMMAND_LIMIT, Outcome, installed, run, tool};
use crate::scratch::Scratch;
use crate::suite::Algorithms;

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct Plink;

/// `psftp`, `pscp` or `plink`, with its settings in `folder`, up to its operands.
///
/// # Errors
/// When it is not installed.
pub fn copier(name: &str, folder: &Scratch, running: &Running) -> Result<Command, String> {
    let program = installed(name).ok_or(format!("{name} is not installed"))?;
    prepare(folder, false, None);
    let mut command = Command::new(program);
    command
        .env("PUTTYDIR", folder.path())
        .args(["-batch", "-noagent", "-load", SESSION, "-i"])
        .arg(own_key("user_ed25519")?);
    for fingerprint in fingerprints()? {
        command.args(["-hostkey", fingerprint]);
    }
    command.args(["-P", &running.daemon.port.to_string(), "-l", &running.user]);
    Ok(command)
}

/// A user's key in PuTTY's format.
fn own_key(identity: &str) -> Result<PathBuf, String> {
    let puttygen = installed("puttygen").ok_or("puttygen is not installed")?;
    converted(identity, "ppk", |from, to| {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        tool(
            &puttygen,
            &[
                &from,
                "-O",
                "private",
                "--new-passphrase",
                "/dev/null",
                "-o",
                &to,
            ],
        )
    })
}

const SESSION: &str = "interop";

impl Client for Plink {
    fn name(&self) -> String {
        "plink".into()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        static OFFERS: OnceLock<Result<Algorithms, String>> = OnceLock::new();
        let program = installed("plink").ok_or("plink is not installed")?;
        OFFERS
            .get_or_init(|| {
                let folder = Scratch::new();
                // Compression on: disabled methods are not in its list.
                prepare(&folder, true, None);
                offers::of_peer(|port| {
                    let mut command = Command::new(program);
                    command.env("PUTTYDIR", folder.path());
                    command.args([
                        "-batch",
                        "-load",
                        SESSION,
                        "-P",
                        &port.to_string(),
                        "127.0.0.1",
                        "true",
                    ]);
                    command
                })
                .map(|mut offers| {
                    // Below its threshold: it asks the user, whom a batch has not.
                    let asks = |name: &String| name == "diffie-hellman-group1-sha1";
                    offers.kex.retain(|name| !asks(name));
                    offers
                })
            })
            .clone()
    }

    fn chooses(&self) -> bool {
        false
    }

    fn run(&self, order: &Order<'_>) -> Result<Outcome, String> {
        let program = installed("plink").ok_or("plink is not installed")?;
        let folder = Scratch::new();
        let compressed = order.offer.compression.iter().any(|name| name != "none");
        prepare(&folder, compressed, order.rekey_bytes);
        let key = own_key(order.identity)?;
        let mut command = Command::new(program);
        command
            .env("PUTTYDIR", folder.path())
            .args([
                "-batch",
                "-noagent",
                "-no-antispoof",
                "-load",
                SESSION,
                "-T",
                "-i",
            ])
            .arg(key);
        // With a given fingerprint it ignores its authorities.
        if !order
            .offer
            .host_keys
            .iter()
            .any(|name| name.contains("-cert-"))
        {
            for fingerprint in fingerprints()? {
                command.args(["-hostkey", fingerprint]);
            }
        }
        command
            .args(["-P", &order.port.to_string(), "-l", order.user])
            .args(["127.0.0.1", order.command]);
        run(&mut command, order.input, COMMAND_LIMIT).map_err(|error| error.to_string())
    }
}

fn prepare(folder: &Scratch, compressed: bool, rekey_bytes: Option<u64>) {
    for name in ["sessions", "sshhostcas"] {
        std::fs::create_dir_all(folder.join(name)).expect("a folder for plink's settings");
    }
    let rekey = rekey_bytes.map_or(String::new(), |bytes| format!("RekeyBytes={bytes}\n"));
    let compression = u8::from(compressed);
    folder.write(
        &format!("sessions/{SESSION}"),
        format!("Protocol=ssh\nCompression={compression}\nLogFlush=1\n{rekey}"),
    );
    let authority = fixture::text("host_ca.pub");
    let key = authority
        .split_ascii_whitespace()
        .nth(1)
        .unwrap_or_default();
    folder.write(
        "sshhostcas/interop",
        format!(
            "PublicKey={key}\nValidity=127.0.0.1\nPermitRSASHA1=0\nPermitRSASHA256=1\nPermitRSASHA512=1\n"
        ),
    );
}

fn fingerprints() -> Result<&'static [String], String> {
    static ALL: OnceLock<Result<Vec<String>, String>> = OnceLock::new();
    ALL.get_or_init(|| {
        KEY_TYPES
            .iter()
            .map(|(name, _, _)| {
                let path = fixture::file(&format!("host_{name}.pub"));
                let line = fixture::run_keygen(&["-l", "-f", &path.to_string_lossy()])?;
                line.split_ascii_whitespace()
                    .nth(1)
                    .map(str::to_owned)
                    .ok_or_else(|| format!("no fingerprint in {line:?}"))
            })
            .collect()
    })
    .as_deref()
    .map_err(Clone::clone)
}
