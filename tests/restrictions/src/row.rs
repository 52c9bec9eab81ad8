//! One row of the table: the restriction of a login, and the outcome of each probe.
//!
//! Texts of a row may contain placeholders for values that are known at run time: `{user}`,
//! `{home}`, `{here}` (the directory of the row's files), `{jail}` (a directory that only root can
//! change), `{forced}` (a command to force, which reports its environment), `{a}` and `{b}` (ports
//! with listeners), `{la}` and `{lb}` (ports for remote forwarding), `{key}` and `{ca}` (public
//! keys of the user and of the authority).

use std::collections::BTreeMap;

use keys::Permission;

/// Actual or expected outcomes: probe → outcome. [`crate::probe`] names both.
pub type Outcomes = BTreeMap<&'static str, String>;

/// The probes that open a session with a program.
pub const SESSIONS: [&str; 5] = ["shell", "pty", "exec", "sftp-server", "internal-sftp"];

/// The line that turns X11 forwarding on, which is off by default.
pub const X11: &str = "X11Forwarding yes";

/// The password of accounts that have one.
pub const PASSWORD: &str = "open sesame";

/// `openssl passwd -6 -salt rowsrows` of it.
const PASSWORD_HASH: &str = "$6$rowsrows$Q82ltcXvPjrw75pMaoQL.khE6UNkf7oS0wGy/qqoDyYyT0POBl4EtVei3vBZdua9cuCo9Ex4WiDTDvwm1Akae1";

/// A certificate for the user's key, made by ssh-keygen.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Names in it, with commas; `None` leaves the list empty.
    pub principals: Option<&'static str>,
    /// The values of `-O`, in order.
    pub options: Vec<&'static str>,
    /// The value of `-V`.
    pub validity: Option<&'static str>,
    /// Make a host certificate.
    pub is_host: bool,
}

/// A login without a key.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    /// The only method that the client tries.
    pub method: &'static str,
    /// Its answer to every question.
    pub password: &'static str,
}

/// The restriction of a login, and the outcomes of OpenSSH's server.
#[derive(Clone, Debug)]
pub struct Row {
    /// Unique name: the restriction, as the administrator writes it.
    pub name: String,
    /// Log in as root, else as an ordinary user.
    pub as_root: bool,
    /// Configuration before the usual lines: the first value of a keyword is used.
    pub first: String,
    /// Match blocks after the usual lines.
    pub blocks: String,
    /// Further files below `{here}`: name and contents.
    pub files: Vec<(&'static str, String)>,
    /// Owners and modes below `{here}`, in this order: name, owner, mode.
    pub modes: Vec<(&'static str, u32, u32)>,
    /// The account's password, in the format of shadow(5).
    pub hash: &'static str,
    /// Log in with typed answers and without a key.
    pub typed: Option<Typed>,
    /// Log in by the key of the client's host, which vouches for its user root.
    pub by_host: bool,
    /// An agent has the server's key (HostKeyAgent).
    pub has_host_key_agent: bool,
    /// Text that the client appends to the user's name.
    pub style: &'static str,
    /// The whole of authorized_keys.
    pub authorized: String,
    /// Name of the key in the fixture of interop.
    pub identity: &'static str,
    /// The certificate to log in with, instead of the plain key.
    pub certificate: Option<Certificate>,
    /// Host of direct-tcpip requests.
    pub host: &'static str,
    /// Also request a tunnel device (root at both ends).
    pub with_tunnel: bool,
    /// Also request a second session while one is open.
    pub with_second: bool,
    /// Only Fulmar has the keyword: OpenSSH's server is not tested.
    pub is_ours_alone: bool,
    /// The outcomes of the probes.
    pub expected: Outcomes,
}

impl Row {
    /// An unrestricted login with the plain key.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let found = [
            ("login", "yes"),
            ("shell", "own rc"),
            ("pty", "own rc tty"),
            ("exec", "own rc"),
            ("subsystem", "home rw sshrc"),
            ("sftp-server", "sftp rc"),
            // The word has a meaning in the administrator's configuration; in a client's request it
            // is the name of a program that does not exist.
            ("internal-sftp", "fails rc"),
            ("env", "none"),
            ("agent", "yes"),
            ("x11", "no"),
            ("tcp", "A B"),
            ("streamlocal", "yes"),
            ("remote-tcp", "A B"),
            ("remote-streamlocal", "yes"),
            ("early", "same"),
        ];
        Self {
            name: name.into(),
            as_root: false,
            first: String::new(),
            blocks: String::new(),
            files: Vec::new(),
            modes: Vec::new(),
            // No password matches, but the account is not locked, so keys are accepted.
            hash: "*",
            typed: None,
            by_host: false,
            has_host_key_agent: false,
            style: "",
            authorized: "{key}\n".into(),
            identity: "user_ed25519",
            certificate: None,
            host: "127.0.0.1",
            with_tunnel: false,
            with_second: false,
            is_ours_alone: false,
            expected: found
                .map(|(probe, outcome)| (probe, outcome.to_owned()))
                .into(),
        }
    }

    /// A row named after these options of the key in authorized_keys.
    #[must_use]
    pub fn key(options: &str) -> Self {
        let mut row = Self::new(format!("key: {options}"));
        row.authorized = format!("{options} {{key}}\n");
        row
    }

    /// A certificate with these `-O` options for the user's name, signed by an authority in
    /// authorized_keys.
    #[must_use]
    pub fn certificate(options: &[&'static str]) -> Self {
        let mut row = Self::new("certificate");
        if !options.is_empty() {
            row.name = format!("certificate: {}", options.join(" "));
        }
        row.authorized = "cert-authority {ca}\n".into();
        row.certificate = Some(Certificate {
            principals: Some("{user}"),
            options: options.to_vec(),
            validity: None,
            is_host: false,
        });
        row
    }

    /// A row named after these lines of sshd_config outside of Match blocks.
    #[must_use]
    pub fn config(lines: &str) -> Self {
        let mut row = Self::new(format!("sshd_config: {}", lines.replace('\n', "; ")));
        row.first = format!("{lines}\n");
        row
    }

    /// The same lines in a Match block that matches the user; the row is otherwise `self`.
    #[must_use]
    pub fn in_match(&self) -> Self {
        let mut row = self.clone();
        row.name = format!("{} (in Match)", self.name);
        row.blocks = format!("Match User {{user}}\n{}", self.first);
        row.first = String::new();
        row
    }

    /// Adds a distinguishing text to the row's name.
    #[must_use]
    pub fn named(mut self, more: &str) -> Self {
        self.name = format!("{}, {more}", self.name);
        self
    }

    /// As root, from `PermitRootLogin` on.
    #[must_use]
    pub fn root(mut self) -> Self {
        self.as_root = true;
        self.named("root")
    }

    /// Adds lines of configuration that take precedence.
    #[must_use]
    pub fn with(mut self, lines: &str) -> Self {
        self.first.push_str(lines);
        self.first.push('\n');
        self.named(&format!("with {}", lines.replace('\n', "; ")))
    }

    /// Replaces authorized_keys.
    #[must_use]
    pub fn authorized(mut self, text: &str) -> Self {
        self.authorized = text.to_owned();
        self.named(&format!("by {}", text.trim_end().replace('\n', "; ")))
    }

    /// Writes a file below `{here}`.
    #[must_use]
    pub fn file(mut self, name: &'static str, contents: &str) -> Self {
        self.files.push((name, contents.to_owned()));
        self.named(&format!("{name} holds {contents:?}"))
    }

    /// Sets owner and mode of something below `{here}`.
    #[must_use]
    pub fn mode(mut self, name: &'static str, owner: u32, mode: u32) -> Self {
        self.modes.push((name, owner, mode));
        self.named(&format!("{name} of {owner} {mode:o}"))
    }

    /// Logs in with [`PASSWORD`] and without a key.
    #[must_use]
    pub fn typed(mut self, method: &'static str) -> Self {
        self.hash = PASSWORD_HASH;
        self.typed = Some(Typed {
            method,
            password: PASSWORD,
        });
        self.named(&format!("by {method}"))
    }

    /// Logs in by the key of the client's host (HostbasedAuthentication) and without a key of the user.
    #[must_use]
    pub fn by_host(mut self) -> Self {
        self.by_host = true;
        self.with("HostbasedAuthentication yes")
    }

    /// The server's key is in an agent.
    #[must_use]
    pub fn host_key_agent(mut self) -> Self {
        self.has_host_key_agent = true;
        self.named("with HostKeyAgent")
    }

    /// Sets which datagrams are forwarded.
    #[must_use]
    pub fn datagrams(self, local: &str, remote: &str) -> Self {
        self.but("udp", local).but("remote-udp", remote)
    }

    /// Sets the outcome of one probe.
    #[must_use]
    pub fn but(mut self, probe: &'static str, outcome: &str) -> Self {
        self.expected.insert(probe, outcome.to_owned());
        self
    }

    /// The login is refused.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.expected = [("login", "no".to_owned())].into();
        self
    }

    /// The login is granted and the connection then closed, before anything runs.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.expected = [("login", "cut".to_owned())].into();
        self
    }

    /// The server does not start with this configuration.
    #[must_use]
    pub fn no_start(mut self) -> Self {
        self.expected = [("start", "no".to_owned())].into();
        self
    }

    /// No terminal.
    #[must_use]
    pub fn no_pty(mut self) -> Self {
        self.each_session(|outcome| outcome.replace(" tty", ""));
        self
    }

    /// The system's rc file instead of the user's.
    #[must_use]
    pub fn no_user_rc(mut self) -> Self {
        self.each_session(|outcome| outcome.replace(" rc", " sshrc"));
        self
    }

    /// No forwarding of ports and sockets, in either direction.
    #[must_use]
    pub fn no_ports(self) -> Self {
        self.no_local().no_remote()
    }

    /// No connections for the client.
    #[must_use]
    pub fn no_local(self) -> Self {
        self.but("tcp", "none").but("streamlocal", "no")
    }

    /// No listening for the client.
    #[must_use]
    pub fn no_remote(self) -> Self {
        self.but("remote-tcp", "none")
            .but("remote-streamlocal", "no")
    }

    /// No agent.
    #[must_use]
    pub fn no_agent(self) -> Self {
        self.but("agent", "no")
    }

    /// The effects of `restrict`.
    #[must_use]
    pub fn restricted(self) -> Self {
        self.no_pty().no_user_rc().no_ports().no_agent()
    }

    /// The effects of a key that denies `permission` alone.
    #[must_use]
    pub fn without(self, permission: Permission) -> Self {
        match permission {
            Permission::Pty => self.no_pty(),
            Permission::UserRc => self.no_user_rc(),
            Permission::PortForwarding => self.no_ports().but("takeover", "no"),
            Permission::AgentForwarding => self.no_agent(),
            // It is not on by default: a row without it shows only that the permission is denied.
            Permission::X11Forwarding => self.with(X11),
        }
    }

    /// The effects of a key that grants `permission` alone.
    #[must_use]
    pub fn of_one(self, permission: Permission) -> Self {
        let denied = Permission::ALL.iter().filter(|each| {
            // Without X11Forwarding the denial has no effect that a probe sees.
            **each != permission && **each != Permission::X11Forwarding
        });
        let row = denied.fold(self, |row, each| row.without(*each));
        match permission {
            Permission::X11Forwarding => row.with(X11).but("x11", "yes"),
            _ => row,
        }
    }

    /// `{forced}` runs for every request.
    #[must_use]
    pub fn forced(mut self) -> Self {
        for (probe, outcome) in [
            ("shell", "forced rc"),
            ("pty", "forced rc tty"),
            ("exec", "forced rc orig"),
            ("subsystem", "forced sshrc orig=internal-sftp"),
            ("sftp-server", "forced rc orig"),
            ("internal-sftp", "forced rc orig"),
        ] {
            self.expected.insert(probe, outcome.to_owned());
        }
        self
    }

    /// A forced command without effect: every session ends with status 0 and without output.
    #[must_use]
    pub fn empty_command(mut self) -> Self {
        self.each_session(|_| "nothing rc".into());
        self.but("subsystem", "nothing sshrc").no_output()
    }

    /// `internal-sftp` is forced: other sessions than the subsystem get a message and end. The
    /// forced program is treated as a subsystem, for which no user's rc file runs.
    #[must_use]
    pub fn sftp_only(mut self) -> Self {
        self.each_session(|_| "sftp-only sshrc".into());
        self.no_output()
    }

    /// No session runs a program that could report.
    #[must_use]
    pub fn no_output(self) -> Self {
        self.but("env", "-").but("agent", "-").but("x11", "-")
    }

    fn each_session(&mut self, change: impl Fn(&str) -> String) {
        for probe in SESSIONS {
            if let Some(outcome) = self.expected.get_mut(probe) {
                *outcome = change(outcome);
            }
        }
    }
}
