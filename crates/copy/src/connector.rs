//! The way to a server: which `ssh`, with which arguments.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use client::flags::SessionRequest;
use transfer::connect::Children;
use transfer::engine::Transport;
use transfer::remote::Remote;

use super::link::{Connections, CopyLinks, Host, let_terminals_block};

/// A flag for `ssh`.
#[derive(Debug, Clone)]
pub(crate) struct SshFlag {
    name: &'static str,
    value: Option<OsString>,
    /// The value follows the flag in the same argument.
    is_joined: bool,
}

/// Settings of every connection: a copy forwards nothing, and runs nothing but its server.
const ALWAYS: [&str; 4] = [
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
];

impl SshFlag {
    fn plain(name: &'static str) -> Self {
        Self {
            name,
            value: None,
            is_joined: false,
        }
    }

    fn valued(name: &'static str, value: impl Into<OsString>) -> Self {
        Self {
            name,
            value: Some(value.into()),
            is_joined: false,
        }
    }

    fn setting(line: impl Into<OsString>) -> Self {
        Self {
            is_joined: true,
            ..Self::valued("o", line)
        }
    }

    fn add_to(&self, command: &mut Command) {
        let mut flag = OsString::from(format!("-{}", self.name));
        match &self.value {
            Some(value) if self.is_joined => {
                flag.push(value);
                command.arg(flag);
            }
            value => {
                command.arg(flag).args(value);
            }
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// `-S`: the program that connects; ours without it.
    pub(crate) program: Option<PathBuf>,
    /// Flags for `ssh` of the command line.
    pub(crate) flags: Vec<SshFlag>,
    /// `-D`: a local SFTP server instead, with its arguments.
    pub(crate) direct: Option<OsString>,
    /// `-s`: the subsystem or the path of the server there.
    pub(crate) subsystem: Option<OsString>,
    /// `-v`: number of times.
    pub(crate) verbose: u8,
    /// `-q`: no messages of the way.
    pub(crate) quiet: bool,
    /// A person types commands: an interrupt is for one of these, not for the connection.
    pub(crate) interactive: bool,
    /// The host among many of the program.
    pub(crate) host: Option<Host>,
}

/// Who is at the end of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RemoteHost {
    /// The user, when named.
    pub(crate) user: Option<String>,
    /// The host.
    pub(crate) host: String,
    /// The port, when named.
    pub(crate) port: Option<u16>,
}

/// A server that can be asked, whatever the way.
pub(crate) type AnyRemote = Remote<CopyLinks>;

impl Connector {
    /// Passes a setting to `ssh`, in the form of `-o`.
    pub(crate) fn set(&mut self, line: impl Into<OsString>) {
        self.flags.push(SshFlag::setting(line));
    }

    /// Passes a flag of the command line with its value to `ssh`.
    pub(crate) fn pass(&mut self, name: &'static str, value: OsString) {
        self.flags.push(SshFlag::valued(name, value));
    }

    /// Passes flags that [`SessionRequest`] takes to `ssh`.
    pub(crate) fn pass_all(&mut self, flags: Vec<(&'static str, OsString)>) {
        let flags = flags.into_iter();
        self.flags
            .extend(flags.map(|(name, value)| SshFlag::valued(name, value)));
    }

    /// Takes a flag that `scp` and `sftp` have in common; false if it is none of these.
    ///
    /// # Errors
    /// The message for the user.
    pub(crate) fn flag(&mut self, flag: &'static str, value: &OsStr) -> Result<bool, String> {
        match flag {
            "1" => return Err("SSH protocol v.1 is no longer supported".to_owned()),
            "2" => {}
            "X" => crate::units::check_sftp_option(&value.to_string_lossy())?,
            "4" | "6" | "A" | "C" => self.flags.push(SshFlag::plain(flag)),
            "F" | "J" | "c" | "i" | "o" => self.pass(flag, value.to_owned()),
            "D" => self.direct = Some(value.to_owned()),
            "S" => self.program = Some(value.into()),
            "q" => self.quiet = true,
            "v" => {
                self.verbose = self.verbose.saturating_add(1);
                self.flags.push(SshFlag::plain(flag));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The flags of `ssh` for a server.
    fn ssh_flags(&self, server: &RemoteHost, subsystem: bool) -> Vec<SshFlag> {
        let mut flags = vec![SshFlag::plain("x")];
        flags.extend(ALWAYS.map(SshFlag::setting));
        if self.quiet {
            flags.push(SshFlag::plain("q"));
        }
        flags.extend_from_slice(&self.flags);
        // The last, because -A and -o may want another.
        flags.push(SshFlag::setting("ForwardAgent=no"));
        flags.extend(
            server
                .port
                .map(|port| SshFlag::valued("p", port.to_string())),
        );
        let user = server.user.as_ref();
        flags.extend(user.map(|user| SshFlag::valued("l", user)));
        if subsystem {
            flags.push(SshFlag::plain("s"));
        }
        flags
    }

    /// `ssh` with a server and a command for it.
    pub(crate) fn command(
        &self,
        server: &RemoteHost,
        subsystem: bool,
        words: &OsStr,
    ) -> Result<Command, String> {
        let mut command = match &self.program {
            Some(program) => Command::new(program),
            None => {
                let own = std::env::current_exe()
                    .map_err(|error| format!("the path of this program: {error}"))?;
                let mut command = Command::new(own);
                command.arg("ssh");
                command
            }
        };
        for flag in self.ssh_flags(server, subsystem) {
            flag.add_to(&mut command);
        }
        command.arg("--").arg(&server.host).arg(words);
        Ok(command)
    }

    /// The remote command of the SFTP server, and whether it is a subsystem.
    fn sftp(&self) -> (bool, &OsStr) {
        match &self.subsystem {
            // A path is a program to run there, a word a subsystem.
            Some(path) if path.to_string_lossy().contains('/') => (false, path),
            Some(name) => (true, name),
            None => (true, OsStr::new("sftp")),
        }
    }

    fn sftp_command(&self, server: &RemoteHost) -> Result<Command, String> {
        if let Some(direct) = &self.direct {
            let text = direct.to_string_lossy().into_owned();
            let mut words = text.split_ascii_whitespace();
            let program = words.next().ok_or("-D: name a program")?;
            let mut command = Command::new(program);
            command.args(words);
            return Ok(command);
        }
        let (subsystem, words) = self.sftp();
        self.command(server, subsystem, words)
    }

    /// The same for a connection in this process.
    fn request(&self, server: &RemoteHost) -> SessionRequest {
        let (subsystem, words) = self.sftp();
        let flags = self.ssh_flags(server, subsystem).into_iter();
        SessionRequest {
            flags: flags
                .map(|flag| (flag.name, flag.value.unwrap_or_default()))
                .collect(),
            host: server.host.clone(),
            command: words.to_owned(),
        }
    }

    /// No connections yet. Only a program that was named, or a server here, is a child.
    pub(crate) fn links(&self) -> CopyLinks {
        if self.program.is_none() && self.direct.is_none() {
            CopyLinks::Own(Connections::to_host(self.host.clone()))
        } else if self.interactive {
            CopyLinks::Children(Children::deaf())
        } else {
            CopyLinks::Children(Children::default())
        }
    }

    /// Adds a connection to the server to what there is, and waits for its login.
    pub(crate) fn add(&self, links: &mut CopyLinks, server: &RemoteHost) -> Result<(), String> {
        self.begin(links, server, 1)?;
        links
            .log_in()
            .map_err(|error| transfer::text::reason(&error))
    }

    /// Adds `count` connections to the server to what there is. A server that is expected to be one
    /// of ours may be asked something before the first of them has logged in.
    fn begin(
        &self,
        links: &mut CopyLinks,
        server: &RemoteHost,
        count: usize,
    ) -> Result<(), String> {
        let children = match links {
            CopyLinks::Own(connections) => {
                if self.verbose > 0 {
                    eprintln!("Executing: {:?}", self.sftp_command(server)?);
                }
                let begun = connections.begin(&self.request(server), count);
                return begun.map_err(|error| format!("ssh: {}", transfer::text::reason(&error)));
            }
            CopyLinks::Children(children) => children,
        };
        let mut command = self.sftp_command(server)?;
        if self.verbose > 0 {
            eprintln!("Executing: {command:?}");
        }
        let added = (0..count).try_for_each(|_| children.add(&mut command));
        added.map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            format!("{program}: {}", transfer::text::reason(&error))
        })
    }

    /// Connects `count` times and greets the servers: those that are known to read on, or expected
    /// to, with the first request, so that whether they answer shows then.
    pub(crate) fn connect(&self, server: &RemoteHost, count: usize) -> Result<AnyRemote, String> {
        let mut links = self.links();
        self.begin(&mut links, server, count)?;
        let mut remote = Remote::unmet(links);
        let links = remote.engine().transport();
        // It sees to terminals when it is over.
        if links.logs_in() {
            return Ok(remote);
        }
        if !links.reads_on(0) {
            remote.meet().map_err(|error| error.to_string())?;
        }
        let_terminals_block();
        Ok(remote)
    }
}

/// How many connections `-n auto` comes to: one for each two processors, as each needs one at
/// both ends.
pub(crate) fn auto_connections() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, 8)
}

/// Ends the connections.
pub(crate) fn finish<T: Transport>(remote: &mut Remote<T>, end: impl FnOnce(&mut T)) {
    end(remote.engine().transport());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sftp_are_checked() {
        let taken = Connector::default().flag("X", OsStr::new("nothing"));
        assert_eq!(taken, Err("Invalid -X option".to_owned()));
    }

    #[test]
    fn a_request_says_what_the_command_line_of_another_ssh_says() {
        let mut connector = Connector::default();
        for (flag, value) in [
            ("4", ""),
            ("C", ""),
            ("v", ""),
            ("v", ""),
            ("q", ""),
            ("F", "none"),
            ("J", "a,b"),
            ("c", "aes128-ctr"),
            ("i", "key"),
            ("o", "Port=24"),
            ("X", "nrequests=64"),
        ] {
            assert_eq!(connector.flag(flag, OsStr::new(value)), Ok(true), "{flag}");
        }
        connector.set("BatchMode=yes");
        connector.pass("p", "23".into());
        let servers = [("host", None, None), ("::1", Some("me@home"), Some(22))];
        for subsystem in [None, Some("other"), Some("/usr/lib/sftp-server -e")] {
            connector.subsystem = subsystem.map(OsString::from);
            for (host, user, port) in servers {
                let server = RemoteHost {
                    user: user.map(str::to_owned),
                    host: host.to_owned(),
                    port,
                };
                let command = connector.sftp_command(&server).unwrap();
                let arguments = command.get_args().skip(1).map(OsStr::to_owned);
                assert_eq!(
                    connector.request(&server).into_flags(),
                    client::flags::parse(arguments.collect())
                );
            }
        }
    }
}
