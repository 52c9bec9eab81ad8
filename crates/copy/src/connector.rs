//! The way to a server: which `ssh`, with which arguments.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use transfer::connect::Children;
use transfer::engine::Transport;
use transfer::remote::Remote;

use super::link::{Connections, CopyLinks, let_terminals_block};

/// How a server is reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// `-S`: the program that connects; ours without it.
    pub(crate) program: Option<PathBuf>,
    /// Its options.
    pub(crate) options: Vec<OsString>,
    /// `-D`: a local SFTP server instead, with its arguments.
    pub(crate) direct: Option<OsString>,
    /// `-s`: the subsystem or the path of the server there.
    pub(crate) subsystem: Option<OsString>,
    /// Messages of the way.
    pub(crate) verbose: bool,
    /// `-q`: no messages of the way, but why it ends.
    pub(crate) quiet: bool,
    /// A person types commands: an interrupt is for one of these, not for the connection.
    pub(crate) interactive: bool,
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
    /// The program that connects, with what it always gets.
    pub(crate) fn ssh(&self) -> Result<Command, String> {
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
        command.args([
            "-x",
            "-oPermitLocalCommand=no",
            "-oClearAllForwardings=yes",
            "-oForwardAgent=no",
            "-oRemoteCommand=none",
            "-oRequestTTY=no",
        ]);
        if self.quiet {
            // Ours says why a connection ends, which is no chatter. Another's gets the flag.
            command.arg(match self.program {
                None => "-oLogLevel=FATAL",
                Some(_) => "-q",
            });
        }
        command.args(&self.options);
        Ok(command)
    }

    /// `ssh` with a server and a command for it.
    pub(crate) fn command(
        &self,
        server: &RemoteHost,
        subsystem: bool,
        words: &OsStr,
    ) -> Result<Command, String> {
        let mut command = self.ssh()?;
        if let Some(port) = server.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &server.user {
            command.arg("-l").arg(user);
        }
        if subsystem {
            command.arg("-s");
        }
        command.arg("--").arg(&server.host).arg(words);
        Ok(command)
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
        match &self.subsystem {
            // A path is a program to run there, a word a subsystem.
            Some(path) if path.to_string_lossy().contains('/') => self.command(server, false, path),
            Some(name) => self.command(server, true, name),
            None => self.command(server, true, OsStr::new("sftp")),
        }
    }

    /// No connections yet. Only a program that was named, or a server here, is a child.
    pub(crate) fn links(&self) -> CopyLinks {
        if self.program.is_none() && self.direct.is_none() {
            CopyLinks::Own(Connections::default())
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
        let mut command = self.sftp_command(server)?;
        if self.verbose {
            eprintln!("Executing: {command:?}");
        }
        let added = match links {
            CopyLinks::Children(children) => {
                (0..count).try_for_each(|_| children.add(&mut command))
            }
            CopyLinks::Own(connections) => {
                // The first is the name of the program.
                let arguments = command.get_args().skip(1);
                let arguments: Vec<OsString> = arguments.map(OsStr::to_owned).collect();
                connections.begin(&arguments, count)
            }
        };
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
