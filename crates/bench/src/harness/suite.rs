//! A suite of measured programs, Fulmar's or a peer's: the programs of its client and server.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The implementation of a suite, which determines its flags and configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuiteKind {
    /// The running binary.
    Ours,
    /// `ssh`, `sshd` and their configuration files.
    OpenSsh,
    /// `dbclient` and `dropbear`.
    Dropbear,
}

/// Settings of a client that differ from its defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// The one cipher.
    pub(crate) cipher: Option<String>,
    /// The one MAC.
    pub(crate) mac: Option<String>,
    /// Whether to compress.
    pub(crate) compress: bool,
    /// Other options, `Keyword=value` as ssh_config knows them.
    pub(crate) options: Vec<String>,
}

/// A suite of programs that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    /// Name in tables.
    pub(crate) name: String,
    /// Version as the program reports it; empty if it reports none.
    pub(crate) version: String,
    pub(crate) kind: SuiteKind,
    ssh: Vec<OsString>,
    sshd: Vec<OsString>,
    scp: Option<PathBuf>,
    /// dropbear's program that converts keys.
    convert: Option<PathBuf>,
    /// Environment variables of client and server.
    environment: Vec<(&'static str, String)>,
}

/// Where programs are looked for beside `PATH`, which for ordinary users lacks servers.
const SYSTEM_DIRECTORIES: [&str; 4] =
    ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"];

impl Suite {
    /// The running binary.
    pub(crate) fn ours() -> io::Result<Self> {
        let own = std::env::current_exe()?.into_os_string();
        let program = |name: &str| vec![own.clone(), OsString::from(name)];
        Ok(Self {
            name: "Fulmar".into(),
            version: concat!("Fulmar_", env!("CARGO_PKG_VERSION")).into(),
            kind: SuiteKind::Ours,
            ssh: program("ssh"),
            sshd: program("sshd"),
            scp: None,
            convert: None,
            environment: Vec::new(),
        })
    }

    /// The OpenSSH of this machine, if client and server are installed; else why not.
    pub(crate) fn openssh() -> Result<Self, String> {
        Ok(Self::openssh_in("OpenSSH", &search_path())?.named_by_version())
    }

    /// The dropbear of this machine, if client and server are installed; else why not.
    pub(crate) fn dropbear() -> Result<Self, String> {
        Ok(Self::dropbear_in("dropbear", &search_path())?.named_by_version())
    }

    /// A command that starts the suite's agent, without flags.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn agent(&self) -> Result<Command, String> {
        self.tool("agent")
    }

    /// The key tool.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn keygen(&self) -> Result<Command, String> {
        self.tool("keygen")
    }

    /// A program that OpenSSH has beside ssh, by its name without `ssh-`.
    fn tool(&self, name: &str) -> Result<Command, String> {
        let program = self.ssh.first().ok_or("no client")?;
        match self.kind {
            SuiteKind::Ours => {
                let mut command = Command::new(program);
                command.arg(name);
                Ok(command)
            }
            SuiteKind::OpenSsh => {
                let path = Path::new(program).with_file_name(format!("ssh-{name}"));
                match path.is_file() {
                    true => Ok(Command::new(path)),
                    false => Err(format!("it has no ssh-{name} beside ssh")),
                }
            }
            SuiteKind::Dropbear => Err(format!("dropbear has no {name} of this kind")),
        }
    }

    fn named_by_version(mut self) -> Self {
        if !self.version.is_empty() {
            self.name.clone_from(&self.version);
        }
        self
    }

    /// A suite by its programs' names in one directory or its `bin` and `sbin`: OpenSSH's,
    /// HPN-SSH's (with `hpn` in front of each) or dropbear's; of both the one that it is named
    /// after.
    pub(crate) fn in_directory(name: &str, directory: &str) -> Result<Self, String> {
        // A server that executes itself again wants to have been called by its whole path.
        let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
        let directories = ["", "bin", "sbin"].map(|part| directory.join(part));
        let ssh = Self::openssh_in(name, &directories);
        match (ssh, Self::dropbear_in(name, &directories)) {
            (Ok(_), Ok(suite)) if name.to_ascii_lowercase().contains("dropbear") => Ok(suite),
            (Ok(suite), _) | (Err(_), Ok(suite)) => Ok(suite),
            (Err(why), Err(_)) => Err(why),
        }
    }

    fn openssh_in(name: &str, directories: &[PathBuf]) -> Result<Self, String> {
        let find = |program| found(name, program, directories);
        let mut suite = Self {
            name: name.into(),
            version: String::new(),
            kind: SuiteKind::OpenSsh,
            ssh: vec![
                find("ssh")
                    .or_else(|why| find("hpnssh").map_err(|_| why))?
                    .into(),
            ],
            sshd: vec![
                find("sshd")
                    .or_else(|why| find("hpnsshd").map_err(|_| why))?
                    .into(),
            ],
            scp: find("scp").or_else(|_| find("hpnscp")).ok(),
            convert: None,
            environment: Vec::new(),
        };
        // OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026
        suite.version = suite.asked_version(&[',', ' ']).unwrap_or_default();
        Ok(suite)
    }

    fn dropbear_in(name: &str, directories: &[PathBuf]) -> Result<Self, String> {
        let find = |program| found(name, program, directories);
        let mut suite = Self {
            name: name.into(),
            version: String::new(),
            kind: SuiteKind::Dropbear,
            ssh: vec![find("dbclient")?.into()],
            sshd: vec![find("dropbear")?.into()],
            scp: None,
            convert: Some(find("dropbearconvert")?),
            environment: Vec::new(),
        };
        // Dropbear v2022.83
        suite.version = suite.asked_version(&['\n']).unwrap_or_default();
        Ok(suite)
    }

    /// What the client says of its version, up to one of `ends`.
    fn asked_version(&self, ends: &[char]) -> Option<String> {
        let output = self.client().arg("-V").stdin(Stdio::null()).output().ok()?;
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        let version = text.split(ends).next()?.trim().replace(" v", "_");
        (!version.is_empty()).then_some(version)
    }

    /// Its client, without arguments.
    pub(crate) fn client(&self) -> Command {
        self.with_environment(command(&self.ssh))
    }

    /// Its server, without arguments.
    pub(crate) fn server(&self) -> Command {
        self.with_environment(command(&self.sshd))
    }

    /// Sets a variable for its client and its server.
    pub(crate) fn set_environment(&mut self, name: &'static str, value: &str) {
        self.environment.push((name, value.into()));
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Its `scp`, without arguments, or why there is none.
    pub(crate) fn copier(&self) -> Result<Command, String> {
        let none = || format!("{} has no scp", self.name);
        match (self.kind, &self.scp) {
            (SuiteKind::Ours, _) => {
                let words = [self.ssh.first().cloned().unwrap_or_default(), "scp".into()];
                let asked = command(&words)
                    .stdin(Stdio::null())
                    .output()
                    .map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&asked.stderr).into_owned();
                match said.contains("there is no program") {
                    true => Err(none()),
                    false => Ok(command(&words)),
                }
            }
            // Which ssh it runs was fixed when it was built.
            (_, Some(scp)) => {
                let mut copier = Command::new(scp);
                if let Some(ssh) = self.ssh.first() {
                    copier.arg("-S").arg(ssh);
                }
                Ok(copier)
            }
            (_, None) => Err(none()),
        }
    }

    /// Its `sftp`, without arguments, or why there is none.
    pub(crate) fn sftp(&self) -> Result<Command, String> {
        let mut sftp = match (self.kind, &self.scp) {
            (SuiteKind::Ours, _) => {
                let words = [self.ssh.first().cloned().unwrap_or_default(), "sftp".into()];
                return Ok(command(&words));
            }
            (_, Some(scp)) => {
                let name = scp.file_name().unwrap_or_default().to_string_lossy();
                scp.with_file_name(name.replace("scp", "sftp"))
            }
            (_, None) => PathBuf::new(),
        };
        if !sftp.is_file() {
            return Err(format!("{} has no sftp", self.name));
        }
        let mut command = Command::new(std::mem::take(&mut sftp));
        if let Some(ssh) = self.ssh.first() {
            command.arg("-S").arg(ssh);
        }
        Ok(command)
    }

    /// Writes the private key in OpenSSH's format at `from` to `to` in dropbear's, once.
    pub(crate) fn convert_key(&self, from: &Path, to: &Path) -> io::Result<()> {
        if to.exists() {
            return Ok(());
        }
        let program = self.convert.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let output = Command::new(program)
            .args(["openssh", "dropbear"])
            .args([from, to])
            .stdin(Stdio::null())
            .output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).trim().to_string(),
            )),
        }
    }

    /// The flags that tell the client about `wishes`, or what of them it does not know.
    pub(crate) fn flags(&self, wishes: &Wishes) -> Result<Vec<String>, String> {
        let mut flags = Vec::new();
        if let Some(cipher) = &wishes.cipher {
            flags.extend(["-c".into(), cipher.clone()]);
        }
        if let Some(mac) = &wishes.mac {
            flags.extend(["-m".into(), mac.clone()]);
        }
        if self.kind == SuiteKind::Dropbear {
            let first = wishes.options.first();
            let unknown = first.or(wishes.compress.then_some(&self.name));
            return match (first, unknown) {
                (None, None) => Ok(flags),
                (Some(option), _) => Err(format!("{} has no option {option}", self.name)),
                (None, _) => Err(format!("{} cannot be told to compress", self.name)),
            };
        }
        if wishes.compress {
            flags.push("-C".into());
        }
        for option in &wishes.options {
            flags.extend(["-o".into(), option.clone()]);
        }
        Ok(flags)
    }
}

fn command(words: &[OsString]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words);
    command
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .collect()
}

fn found(name: &str, program: &str, directories: &[PathBuf]) -> Result<PathBuf, String> {
    directories
        .iter()
        .map(|directory| directory.join(program))
        .find(|path| path.is_file() && !is_ours(path))
        .ok_or_else(|| {
            let places: Vec<String> = directories
                .iter()
                .map(|directory| directory.display().to_string())
                .collect();
            format!("{name}: no {program} in {}", places.join(", "))
        })
}

/// A program of this machine that belongs to no suite.
pub(crate) fn program(name: &str) -> Result<PathBuf, String> {
    found("this machine", name, &search_path()).map_err(|_| "not installed".into())
}

/// Whether `path` is a link to the running binary: a peer of that name would be ourselves.
fn is_ours(path: &Path) -> bool {
    match (path.canonicalize(), std::env::current_exe()) {
        (Ok(real), Ok(own)) => own.canonicalize().is_ok_and(|own| own == real),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(kind: SuiteKind) -> Suite {
        Suite {
            name: "peer".into(),
            version: String::new(),
            kind,
            ssh: vec!["ssh".into()],
            sshd: vec!["sshd".into()],
            scp: None,
            convert: None,
            environment: Vec::new(),
        }
    }

    #[test]
    fn wishes_become_flags_or_are_refused_by_name() {
        let mut wishes = Wishes {
            cipher: Some("aes128-ctr".into()),
            mac: Some("hmac-sha2-256".into()),
            ..Wishes::default()
        };
        let plain = ["-c", "aes128-ctr", "-m", "hmac-sha2-256"];
        assert_eq!(peer(SuiteKind::Dropbear).flags(&wishes).unwrap(), plain);
        assert_eq!(peer(SuiteKind::OpenSsh).flags(&wishes).unwrap(), plain);
        wishes.compress = true;
        assert!(peer(SuiteKind::Dropbear).flags(&wishes).is_err());
        wishes.options.push("RekeyLimit=1M".into());
        let why = peer(SuiteKind::Dropbear).flags(&wishes).unwrap_err();
        assert!(why.contains("RekeyLimit"), "{why}");
        let flags = peer(SuiteKind::OpenSsh).flags(&wishes).unwrap();
        assert_eq!(flags[4..], ["-C", "-o", "RekeyLimit=1M"]);
    }

    #[test]
    fn a_folder_without_programs_is_refused_with_the_program_that_is_missing() {
        let why = Suite::in_directory("new", "/proc/self/fd").unwrap_err();
        assert!(why.contains("new: no ssh in /proc/self/fd"), "{why}");
    }

    #[test]
    fn of_two_suites_in_a_folder_the_name_chooses() {
        let folder = super::super::Directory::new(&std::env::temp_dir()).unwrap();
        for name in ["ssh", "sshd", "dbclient", "dropbear", "dropbearconvert"] {
            std::os::unix::fs::symlink("/bin/true", folder.path().join(name)).unwrap();
        }
        let path = folder.path().to_str().unwrap();
        let kind = |name| Suite::in_directory(name, path).unwrap().kind;
        assert_eq!(kind("Dropbear-2022"), SuiteKind::Dropbear);
        assert_eq!(kind("anything"), SuiteKind::OpenSsh);
    }
}
