//! A Kerberos realm of MIT's programs on loopback, in a temporary folder: nothing of the system's own
//! configuration is read or changed.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::account::Guest;
use crate::process::{Daemon, Input, installed, run};
use crate::scratch::{Scratch, free_port};

/// The realm.
pub const REALM: &str = "FULMAR.TEST";
/// The name of the host that has a key in [`Realm::keytab`].
pub const HOST: &str = "gss.test";
/// The password of all users.
pub const PASSWORD: &str = "secret";
const PROGRAMS: [&str; 4] = ["krb5kdc", "kadmin.local", "kdb5_util", "kinit"];
const LIMIT: Duration = Duration::from_secs(120);

/// A running realm, with keys for `host/gss.test`.
#[derive(Debug)]
pub struct Realm {
    files: Scratch,
    _kdc: Daemon,
}

impl Realm {
    /// Starts one; `defaults` is a line for the section libdefaults of krb5.conf, or empty.
    ///
    /// # Errors
    /// One line with the reason why there is none.
    pub fn start(defaults: &str) -> Result<Self, String> {
        if let Some(missing) = PROGRAMS.iter().find(|name| installed(name).is_none()) {
            return Err(format!("needs {missing}"));
        }
        let files = Scratch::new();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(files.path(), mode).map_err(|error| error.to_string())?;
        let (port, folder) = (free_port(), files.path().display().to_string());
        let configuration = files.write(
            "krb5.conf",
            format!(
                "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n \
                 dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n \
                 default_keytab_name = FILE:{folder}/keytab\n {defaults}\n[realms]\n {REALM} = {{\n  \
                 kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n {HOST} = {REALM}\n"
            ),
        );
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(configuration, readable).map_err(|error| error.to_string())?;
        files.write(
            "kdc.conf",
            format!(
                "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
                 [realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  \
                 key_stash_file = {folder}/stash\n  max_life = 1h\n  \
                 supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n\
                 [logging]\n kdc = FILE:{folder}/kdc.log\n"
            ),
        );
        let mut create = Command::new("kdb5_util");
        create.args(["create", "-s", "-P", "master", "-r", REALM]);
        finish(&files, &mut create, b"")?;
        let mut kdc = Command::new("krb5kdc");
        kdc.arg("-n");
        with_files(&files, &mut kdc);
        let realm = Self {
            _kdc: Daemon::start(&mut kdc, port, Scratch::new())?,
            files,
        };
        realm.add_host(HOST, "keytab")?;
        Ok(realm)
    }

    /// Adds a host and writes its key to the keytab with this name.
    ///
    /// # Errors
    /// The words of kadmin.local.
    pub fn add_host(&self, host: &str, keytab: &str) -> Result<(), String> {
        self.administer(&format!("addprinc -randkey host/{host}"))?;
        let path = self.files.join(keytab);
        self.administer(&format!("ktadd -k {} host/{host}", path.display()))
    }

    /// Adds a user, who has [`Self::ticket`]s.
    ///
    /// # Errors
    /// The words of kadmin.local.
    pub fn add_user(&self, name: &str) -> Result<(), String> {
        self.administer(&format!("addprinc -pw {PASSWORD} {name}"))
    }

    fn administer(&self, query: &str) -> Result<(), String> {
        let mut command = Command::new("kadmin.local");
        finish(&self.files, command.args(["-q", query]), b"")
    }

    /// Gets a ticket for a user into a cache of the guest; returns the value of KRB5CCNAME.
    ///
    /// # Errors
    /// The words of kinit.
    pub fn ticket(&self, guest: &Guest, user: &str, flags: &[&str]) -> Result<String, String> {
        let cache = format!("FILE:{}/cc-{user}", guest.home().display());
        let mut command = guest.command(&PathBuf::from("kinit"));
        command.args(["-c", &cache]).args(flags).arg(user);
        let typed = format!("{PASSWORD}\n");
        finish(&self.files, &mut command, typed.as_bytes())?;
        Ok(cache)
    }

    /// The configuration of clients and servers, for KRB5_CONFIG.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.files.join("krb5.conf")
    }

    /// What the KDC has logged: a line for each request.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.files.join("kdc.log")).unwrap_or_default()
    }

    /// The keytab with the key of [`HOST`].
    #[must_use]
    pub fn keytab(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }
}

fn with_files(files: &Scratch, command: &mut Command) {
    command
        .env("KRB5_CONFIG", files.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", files.join("kdc.conf"));
}

fn finish(files: &Scratch, command: &mut Command, typed: &[u8]) -> Result<(), String> {
    with_files(files, command);
    let outcome = run(command, Input::Bytes(typed), LIMIT).map_err(|error| error.to_string())?;
    match outcome.status {
        0 => Ok(()),
        _ => Err(outcome.summary()),
    }
}
