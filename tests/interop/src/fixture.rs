//! Host and user keys of every type, with certificates, made once and stored below `target/`.
//!
//! Files, all without passphrase: `host_TYPE`, `user_TYPE` (`ed25519`, `ecdsa256`, `ecdsa384`,
//! `ecdsa521`, `rsa`) with `.pub` and `-cert.pub`, and the authorities `host_ca` and `user_ca`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::peers::ours;
use crate::process::{installed, tool};
use crate::scratch::Scratch;
use crate::suite::Algorithms;

/// Key types: name in files, type and bits as ssh-keygen takes them.
pub const KEY_TYPES: [(&str, &str, &str); 5] = [
    ("ed25519", "ed25519", "256"),
    ("ecdsa256", "ecdsa", "256"),
    ("ecdsa384", "ecdsa", "384"),
    ("ecdsa521", "ecdsa", "521"),
    ("rsa", "rsa", "2048"),
];

/// The principal of every user certificate in addition to the names of real users.
pub const PRINCIPAL: &str = "fulmar-interop";

/// The directory of the keys.
///
/// # Panics
/// If they cannot be made.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| make().expect("keys for the tests"))
}

/// The path of one of the files above.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    folder().join(name)
}

/// Its contents as text.
///
/// # Panics
/// If there is no such file.
#[must_use]
pub fn text(name: &str) -> String {
    let path = file(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines for known_hosts with the keys of `host` and its authority.
#[must_use]
pub fn known_hosts(host: &str) -> String {
    let mut lines = format!("@cert-authority {host} {}", text("host_ca.pub"));
    for (name, _, _) in KEY_TYPES {
        lines.push_str(&format!("{host} {}", text(&format!("host_{name}.pub"))));
    }
    lines
}

/// One authorized_keys file for every user key, plain or certified.
#[must_use]
pub fn authorized_keys() -> String {
    let mut lines = format!(
        "cert-authority,principals=\"{PRINCIPAL}\" {}",
        text("user_ca.pub")
    );
    for (name, _, _) in KEY_TYPES {
        lines.push_str(&text(&format!("user_{name}.pub")));
    }
    lines
}

/// The workspace's build directory.
#[must_use]
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    )
}

/// The program that makes keys: OpenSSH's if it is installed.
#[must_use]
pub fn keygen() -> (PathBuf, Vec<String>) {
    match installed("ssh-keygen") {
        Some(path) => (path, Vec::new()),
        None => (ours::binary().to_owned(), vec!["keygen".into()]),
    }
}

/// Runs [`keygen`].
///
/// # Errors
/// If it fails.
pub fn run_keygen(arguments: &[&str]) -> Result<String, String> {
    let (program, mut all) = keygen();
    all.extend(arguments.iter().map(|&argument| argument.to_owned()));
    tool(&program, &all)
}

fn make() -> Result<PathBuf, String> {
    let folder = target_folder().join("interop-keys-1");
    if folder.is_dir() {
        return Ok(folder);
    }
    let parent = target_folder();
    fs::create_dir_all(&parent).map_err(|error| error.to_string())?;
    let fresh = parent.join(format!("interop-keys-new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh).map_err(|error| error.to_string())?;
    fill(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    match fs::rename(&fresh, &folder) {
        Ok(()) => Ok(folder),
        // Another test was first: its keys are used.
        Err(error) if folder.is_dir() || error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            let _ = fs::remove_dir_all(&fresh);
            Ok(folder)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn fill(folder: &Path) -> Result<(), String> {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    for authority in ["host_ca", "user_ca"] {
        run_keygen(&[
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            authority,
            "-f",
            &path(authority),
        ])?;
    }
    for (name, kind, bits) in KEY_TYPES {
        for owner in ["host", "user"] {
            let key = format!("{owner}_{name}");
            run_keygen(&[
                "-q",
                "-t",
                kind,
                "-b",
                bits,
                "-N",
                "",
                "-C",
                &key,
                "-f",
                &path(&key),
            ])?;
            let public = path(&format!("{key}.pub"));
            let ca = path(&format!("{owner}_ca"));
            let id = format!("{key} certificate");
            let (flag, principals) = match owner {
                "host" => (Some("-h"), "127.0.0.1,localhost,target".to_owned()),
                _ => (None, format!("{PRINCIPAL},root")),
            };
            let mut arguments = vec!["-q", "-s", &ca, "-I", &id, "-n", &principals];
            arguments.extend(flag);
            arguments.push(&public);
            run_keygen(&arguments)?;
        }
    }
    Ok(())
}

/// Copies the user key called `key` to `scratch` and certifies the copy by the users' authority,
/// with further `options` of ssh-keygen; returns the copy's path.
///
/// # Panics
/// If ssh-keygen fails.
#[must_use]
pub fn certificate(scratch: &Scratch, key: &str, options: &[&str]) -> PathBuf {
    let path = scratch.write(key, text(key));
    let public = scratch.write(&format!("{key}.pub"), text(&format!("{key}.pub")));
    let ca = file("user_ca").display().to_string();
    let public = public.display().to_string();
    let mut arguments = vec!["-q", "-s", &ca, "-I", "test"];
    arguments.extend(options);
    arguments.push(&public);
    run_keygen(&arguments).expect("a certificate");
    path
}

/// Host key algorithms that the fixture has a key or certificate for, as a filter on `algorithms`.
#[must_use]
pub fn with_host_keys(mut algorithms: Algorithms) -> Algorithms {
    algorithms
        .host_keys
        .retain(|name| host_key_file(name).is_some());
    algorithms
}

/// The private host key that an algorithm needs.
#[must_use]
pub fn host_key_file(algorithm: &str) -> Option<&'static str> {
    match algorithm
        .strip_suffix("-cert-v01@openssh.com")
        .unwrap_or(algorithm)
    {
        "ssh-ed25519" => Some("host_ed25519"),
        "ecdsa-sha2-nistp256" => Some("host_ecdsa256"),
        "ecdsa-sha2-nistp384" => Some("host_ecdsa384"),
        "ecdsa-sha2-nistp521" => Some("host_ecdsa521"),
        "rsa-sha2-256" | "rsa-sha2-512" => Some("host_rsa"),
        _ => None,
    }
}
