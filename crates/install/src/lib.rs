//! `fulmar install`: binary, links, manual pages, completions, service and PAM stack in place,
//! and away again.
//!
//! A manifest lists every written file with its hash, so that removal deletes the installed files
//! and keeps, with a message, those that somebody has changed. No file of OpenSSH is changed: its
//! configuration and host keys are read on request, and the service listens on its own port unless
//! `--replace-sshd` is given. `--replace-openssh` takes the names of OpenSSH's programs
//! ([`replace`]).
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

mod files;
mod manifest;
mod replace;

use files::{InstallPlan, PamStack, Planned};
use flags::{CommandLine, Word};
use manifest::Manifest;

const USAGE: &str = "usage: fulmar install [--prefix DIR] [--root DIR] [--port N] [--openssh-config]\n\
     \x20                     [--replace-sshd] [--keysign] [--pam NAME] [--dry-run]\n\
     \x20      fulmar install --replace-openssh [--fulmar-defaults] [--prefix DIR] [--root DIR]\n\
     \x20                     [--dry-run]\n\
     \x20      fulmar install --revert|--remove [--prefix DIR] [--root DIR] [--dry-run]\n\
     --prefix          directory of the binary and the links (/usr/local)\n\
     --root            install below DIR, for packages and trials (/)\n\
     --port            port of the service beside OpenSSH's (2222)\n\
     --openssh-config  read /etc/ssh/sshd_config and its host keys\n\
     --replace-sshd    listen on the configuration's port, instead of OpenSSH's service\n\
     --keysign         install ssh-keysign, set-user-ID root, for host-based logins\n\
     --pam             PAM stack of debian, redhat or arch; by default that of DIR/etc/pam.d,\n\
     \x20                 else that of this machine\n\
     --package         files of a package: no host key, no manifest, relative links\n\
     --replace-openssh take the places of OpenSSH's programs, and tell what differs here\n\
     --fulmar-defaults keep Fulmar's defaults there, instead of OpenSSH's behaviour\n\
     --revert          give OpenSSH its places back, as they were\n\
     --remove          remove the installed files that have not been changed since\n\
     --dry-run         show the steps only\n";

/// False in a build with musl, which has the client's programs alone.
const HAS_SERVER: bool = cfg!(target_env = "gnu");

/// Flags that are about the server.
const OF_SERVER: [&str; 5] = [
    "port",
    "openssh-config",
    "replace-sshd",
    "replace-openssh",
    "pam",
];

/// Mode of ssh-keysign: set-user-ID.
const KEYSIGN_MODE: u32 = 0o4755;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallSettings {
    pub(crate) prefix: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) port: u16,
    pub(crate) openssh_config: bool,
    pub(crate) replace_sshd: bool,
    /// The mode of ssh-keysign, if it is to be installed.
    pub(crate) keysign: Option<u32>,
    /// The PAM stack, if `--pam` names one.
    pub(crate) pam: Option<PamStack>,
    /// Take OpenSSH's place.
    pub(crate) replace_openssh: bool,
    /// In OpenSSH's place, keep the defaults that differ.
    pub(crate) fulmar_defaults: bool,
    /// Give OpenSSH its place back.
    pub(crate) revert: bool,
    /// The files become those of a package: no host key, no manifest, relative links.
    pub(crate) package: bool,
    pub(crate) remove: bool,
    pub(crate) dry_run: bool,
}

impl Default for InstallSettings {
    fn default() -> Self {
        Self {
            prefix: default_prefix(),
            root: PathBuf::from("/"),
            port: 2222,
            openssh_config: false,
            replace_sshd: false,
            keysign: None,
            pam: None,
            replace_openssh: false,
            fulmar_defaults: false,
            revert: false,
            package: false,
            remove: false,
            dry_run: false,
        }
    }
}

/// `/usr` if the running program is that of a package, else `/usr/local`.
fn default_prefix() -> PathBuf {
    let packaged = Path::new("/usr/bin/fulmar");
    let is_packaged = std::env::current_exe().is_ok_and(|path| path == packaged);
    PathBuf::from(if is_packaged { "/usr" } else { "/usr/local" })
}

impl InstallSettings {
    /// True if files go where only packages may write, by the rules of distributions.
    pub(crate) fn is_below_usr(&self) -> bool {
        self.prefix == Path::new("/usr")
    }

    /// The place of a path of the installed system during the installation: below `--root`.
    pub(crate) fn below_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Where ssh-keysign is in the installed system.
    pub(crate) fn keysign_path(&self) -> PathBuf {
        self.prefix.join("lib/fulmar/ssh-keysign")
    }

    /// With ssh-keysign also if it is here from an earlier installation, with the mode that it has:
    /// a set-user-ID program must not stay older than the others.
    fn with_installed_keysign(&self, old: &Manifest) -> Self {
        let path = self.keysign_path();
        let known = old.paths().any(|known| known == path);
        let found = fs::symlink_metadata(self.below_root(&path)).ok();
        let mode = found
            .filter(|found| known && found.is_file())
            .map(|found| found.permissions().mode() & 0o7777);
        Self {
            keysign: self.keysign.or(mode),
            ..self.clone()
        }
    }

    /// The flags that name the places of this installation, each after a blank.
    pub(crate) fn places(&self) -> String {
        let defaults = Self::default();
        let mut flags = String::new();
        for (flag, place, default) in [
            ("--prefix", &self.prefix, &defaults.prefix),
            ("--root", &self.root, &defaults.root),
        ] {
            if place != default {
                flags.push_str(&format!(" {flag} {}", place.display()));
            }
        }
        flags
    }

    /// True if the program that runs is the installed one.
    fn is_installed(&self) -> bool {
        let installed = self.below_root(&self.prefix.join("bin/fulmar"));
        let running = std::env::current_exe().and_then(fs::canonicalize);
        matches!((running, fs::canonicalize(installed)), (Ok(one), Ok(other)) if one == other)
    }

    fn manifest_path(&self) -> PathBuf {
        self.below_root(&self.prefix.join("lib/fulmar/manifest"))
    }
}

/// Runs the program; gives its exit status: 0, 1 when something could not be done, 2 for
/// arguments that it does not know.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let settings = match parse(args) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{USAGE}");
            return 0;
        }
        Err(why) => {
            eprint!("fulmar install: {why}\n{USAGE}");
            return 2;
        }
    };
    match carry_out(&settings) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fulmar install: {error}");
            1
        }
    }
}

fn carry_out(settings: &InstallSettings) -> io::Result<()> {
    let _lock = replace::lock(settings)?;
    if settings.revert {
        return replace::revert(settings);
    }
    if settings.remove {
        if replace::is_replaced(settings)? {
            replace::revert(settings)?;
        }
        return remove(settings);
    }
    if !settings.replace_openssh {
        return install(settings);
    }
    let plan = replace::plan(settings)?;
    // A package has installed the program that runs.
    if !settings.is_installed() {
        install(settings)?;
    }
    replace::replace(plan, settings)
}

fn parse(args: Vec<OsString>) -> Result<Option<InstallSettings>, String> {
    let mut settings = InstallSettings::default();
    let mut line = CommandLine::new(flags::INSTALL, args);
    while let Some(word) = line.next()? {
        let (flag, value) = match word {
            Word::Flag(flag, value) => (flag, value),
            Word::Operand(operand) => return Err(format!("unknown argument {operand:?}")),
        };
        if !HAS_SERVER && OF_SERVER.contains(&flag) {
            return Err(format!(
                "--{flag} is about the server, which this build does not have"
            ));
        }
        match flag {
            "prefix" => settings.prefix = absolute(value)?,
            "root" => settings.root = absolute(value)?,
            "port" => {
                settings.port = value
                    .to_str()
                    .and_then(|text| text.parse().ok())
                    .filter(|port| *port > 0)
                    .ok_or_else(|| {
                        format!("--port needs a number from 1 to 65535, not {value:?}")
                    })?;
            }
            "openssh-config" => settings.openssh_config = true,
            "keysign" => settings.keysign = Some(KEYSIGN_MODE),
            "replace-sshd" => settings.replace_sshd = true,
            "pam" => {
                let stack = value.to_str().and_then(PamStack::from_name);
                settings.pam =
                    Some(stack.ok_or_else(|| {
                        format!("--pam needs debian, redhat or arch, not {value:?}")
                    })?);
            }
            "replace-openssh" => {
                settings.replace_openssh = true;
                settings.openssh_config = true;
            }
            "fulmar-defaults" => settings.fulmar_defaults = true,
            "package" => settings.package = true,
            "revert" => settings.revert = true,
            "remove" => settings.remove = true,
            "dry-run" => settings.dry_run = true,
            "h" | "help" => return Ok(None),
            other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
        }
    }
    if settings.fulmar_defaults && !settings.replace_openssh {
        return Err("--fulmar-defaults is for --replace-openssh".to_owned());
    }
    if [settings.replace_openssh, settings.revert, settings.remove]
        .iter()
        .filter(|is| **is)
        .count()
        > 1
    {
        return Err("--replace-openssh, --revert and --remove exclude each other".to_owned());
    }
    Ok(Some(settings))
}

fn absolute(path: OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!("{path:?} is not an absolute path"))
    }
}

fn explain(what: &str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let text = format!("{what} {}", path.display());
    move |error| io::Error::new(error.kind(), format!("{text}: {error}"))
}

fn install(settings: &InstallSettings) -> io::Result<()> {
    if settings.package && settings.root == Path::new("/") {
        return Err(io::Error::other(
            "--package needs --root: the directory of the package's files",
        ));
    }
    let old = Manifest::load(&settings.manifest_path())?;
    let settings = &settings.with_installed_keysign(&old);
    let plan = InstallPlan::new(settings)?;
    let mut manifest = Manifest::default();
    for planned in &plan.files {
        let path = settings.below_root(planned.path());
        if planned.keeps_existing()
            && path.exists()
            && !old.is_unchanged(planned.path(), settings)?
        {
            println!("keep    {} (it is yours)", path.display());
            manifest.carry_over(&old, planned.path());
            continue;
        }
        let is_there = planned.is_at(&path);
        let verb = if is_there { "same" } else { planned.verb() };
        if !settings.dry_run {
            manifest.make_directories(planned.path(), settings)?;
            if !is_there {
                write(planned, &path).map_err(explain("write", &path))?;
            }
            manifest.add(planned.path(), settings)?;
        }
        println!("{verb:<7} {}", path.display());
    }
    if settings.dry_run || settings.package {
        return Ok(());
    }
    let is_planned = |path: &Path| plan.files.iter().any(|planned| planned.path() == path);
    manifest.inherit(old, is_planned);
    manifest.store(&settings.manifest_path())?;
    println!("\n{}", plan.advice(settings));
    Ok(())
}

fn write(planned: &Planned, path: &Path) -> io::Result<()> {
    match planned {
        Planned::Text { text, mode, .. } => sys::file::replace(path, text.as_bytes(), *mode),
        Planned::Secret { text, .. } => sys::file::replace(path, text.as_bytes(), 0o600),
        Planned::Binary { from, mode, .. } => {
            // A running binary cannot be written to, but its name can be given to another.
            let fresh = path.with_extension("new");
            fs::copy(from, &fresh)?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(*mode))?;
            fs::rename(&fresh, path)
        }
        Planned::Link { target, .. } => {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            std::os::unix::fs::symlink(target, path)
        }
    }
}

fn remove(settings: &InstallSettings) -> io::Result<()> {
    let path = settings.manifest_path();
    let manifest = Manifest::load(&path)?;
    if manifest.is_empty() {
        return Err(io::Error::other(format!(
            "nothing was installed here: there is no {}; name the --prefix and --root of the installation",
            path.display()
        )));
    }
    let was_in_place = excludes_openssh(&manifest, settings);
    for file in manifest.paths() {
        let place = settings.below_root(file);
        if fs::symlink_metadata(&place).is_err() {
            println!("gone    {}", place.display());
        } else if manifest.is_unchanged(file, settings)? {
            println!("remove  {}", place.display());
            if !settings.dry_run {
                fs::remove_file(&place).map_err(explain("remove", &place))?;
            }
        } else {
            println!(
                "keep    {} (changed since it was installed)",
                place.display()
            );
        }
    }
    if settings.dry_run {
        return Ok(());
    }
    fs::remove_file(&path).map_err(explain("remove", &path))?;
    for directory in manifest.directories() {
        // A directory that holds anything else is kept.
        let _ = fs::remove_dir(settings.below_root(directory));
    }
    println!("\nTo stop a service that still runs: systemctl disable --now fulmar-sshd");
    if was_in_place && files::enabled_openssh_units(settings).is_empty() {
        println!("To start OpenSSH's service again: systemctl enable --now ssh (or sshd)");
    }
    Ok(())
}

/// True if the installed service is in the place of OpenSSH's (`--replace-sshd`).
fn excludes_openssh(manifest: &Manifest, settings: &InstallSettings) -> bool {
    let mut units = manifest.paths();
    let unit = units.find(|path| path.ends_with("fulmar-sshd.service"));
    unit.and_then(|path| fs::read_to_string(settings.below_root(path)).ok())
        .is_some_and(|text| text.contains("\nConflicts=ssh.service "))
}

#[cfg(test)]
mod tests;
