//! The messages between a master and its passengers (OpenSSH's PROTOCOL.mux, version 4).
//!
//! A packet is its length, 4 bytes, and a message. The descriptors of a session follow its request
//! one by one, each with one byte. Flags are 4 bytes, as OpenSSH sends them.

use config::forward::{ForwardKind, ForwardListen, ForwardSpec, ForwardTo};
use wire::{DecodeError, Put, Reader};

/// The version of the protocol.
pub const VERSION: u32 = 4;
/// Maximum length of a message, bytes; as in OpenSSH.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;
/// Maximum number of environment variables of a session; as in OpenSSH.
const MAX_VARIABLES: usize = 4096;
/// The value of a port that says that the host beside it is the path of a socket.
const PORT_OF_PATH: u32 = u32::MAX - 1;
/// The value of the escape character if there is none.
const NO_ESCAPE: u32 = u32::MAX;

const HELLO: u32 = 1;
const NEW_SESSION: u32 = 0x1000_0002;
const ALIVE_CHECK: u32 = 0x1000_0004;
const TERMINATE: u32 = 0x1000_0005;
const OPEN_FORWARD: u32 = 0x1000_0006;
const CLOSE_FORWARD: u32 = 0x1000_0007;
const NEW_STDIO_FORWARD: u32 = 0x1000_0008;
const STOP_LISTENING: u32 = 0x1000_0009;
const PROXY: u32 = 0x1000_000f;
const INFO: u32 = 0x2000_0001;

const OK: u32 = 0x8000_0001;
const PERMISSION_DENIED: u32 = 0x8000_0002;
const FAILURE: u32 = 0x8000_0003;
const EXIT_MESSAGE: u32 = 0x8000_0004;
const ALIVE: u32 = 0x8000_0005;
const SESSION_OPENED: u32 = 0x8000_0006;
const REMOTE_PORT: u32 = 0x8000_0007;
const TTY_ALLOC_FAIL: u32 = 0x8000_0008;
const PROXY_BEGINS: u32 = 0x8000_000f;
const INFO_TEXT: u32 = 0x9000_0001;

/// The extension of a master that answers [`Wish::Info`], and its value (OpenSSH 10.3).
const INFO_EXTENSION: (&[u8], &[u8]) = (b"info", b"0");
/// The extension of a master that tells the server's identification line (docs/PROTOCOL.md).
const SERVER_EXTENSION: &[u8] = b"server-version@fulmar.invalid";

/// Name of the text of OpenSSH's `-O conninfo`.
pub const INFO_CONNECTION: &str = "connection";
/// Name of the text of OpenSSH's `-O channels`.
pub const INFO_CHANNELS: &str = "channels";
/// Name of the text of `-O status`; ours.
pub const INFO_STATUS: &str = "status@fulmar.invalid";
/// Name of the text of `-O status --json`; ours.
pub const INFO_STATUS_JSON: &str = "status-json@fulmar.invalid";

const FORWARD_LOCAL: u32 = 1;
const FORWARD_REMOTE: u32 = 2;
const FORWARD_DYNAMIC: u32 = 3;
/// The target of a forwarding whose connections name their own.
const SOCKS: &str = "socks";

/// A session that a passenger asks for; its standard streams follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWish {
    /// A terminal.
    pub tty: bool,
    /// The master's X server, if it forwards one.
    pub x11: bool,
    /// The master's agent, if it forwards one.
    pub agent: bool,
    /// The command is the name of a subsystem.
    pub subsystem: bool,
    /// The escape character of a terminal.
    pub escape: Option<u8>,
    /// `TERM`.
    pub term: Vec<u8>,
    /// The command; empty for a shell.
    pub command: Vec<u8>,
    /// Variables, each `name=value`.
    pub environment: Vec<Vec<u8>>,
}

/// A forwarding in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardWish {
    /// Its kind, as a number that may be unknown.
    kind: u32,
    listen_host: Vec<u8>,
    listen_port: u32,
    connect_host: Vec<u8>,
    connect_port: u32,
}

/// A request of a passenger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Asks whether the master is alive.
    Alive,
    /// A session.
    Session(SessionWish),
    /// Standard input and output joined to a port or socket that the server connects to.
    StdioForward {
        /// Host or path.
        host: Vec<u8>,
        /// The port; `None` for a path.
        port: Option<u32>,
    },
    /// Add a forwarding.
    OpenForward(ForwardWish),
    /// End a forwarding.
    CloseForward(ForwardWish),
    /// End the connection.
    Terminate,
    /// Accept no more passengers.
    StopListening,
    /// Pass on messages of the connection protocol from now on.
    Proxy,
    /// A text about the connection, by its name.
    Info(Vec<u8>),
    /// A type of message that is not known.
    Unknown(u32),
}

/// A message of a passenger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassengerRequest {
    /// The first message, with the version of the protocol.
    Hello(u32),
    /// A request, with the number that its answer repeats.
    Wish(u32, Wish),
}

/// The extensions of a master's first message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MasterFacts {
    /// The master answers [`Wish::Info`].
    pub has_info: bool,
    /// The server's identification line (RFC 4253 §4.2) without CR LF; `None` if the master does not tell it.
    pub server_version: Option<String>,
}

/// A message of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterReply {
    /// The first message, with the version of the protocol.
    Hello {
        /// The version.
        version: u32,
        /// What else it tells of itself.
        master: MasterFacts,
    },
    /// The request with this number is carried out.
    Ok(u32),
    /// The request is not permitted, for this reason.
    Denied(u32, String),
    /// The request failed, for this reason.
    Failed(u32, String),
    /// The master is alive and has this process id.
    Alive(u32, u32),
    /// The session has this number.
    Opened(u32, u32),
    /// The server listens at this port.
    RemotePort(u32, u32),
    /// The command of the session has ended with this status.
    Exit(u32, u32),
    /// The session has no terminal.
    NoTerminal(u32),
    /// Messages of the connection protocol follow.
    Proxy(u32),
    /// The text that was asked for; false if there is none of that name, with the reason.
    Info(u32, bool, String),
}

/// A message with its length in front.
fn packet(message: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(4 + message.len());
    packet.put_string(message);
    packet
}

fn text(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let bytes = reader.string()?;
    match bytes.contains(&0) {
        true => Err(DecodeError::Malformed("a string with a zero byte")),
        false => Ok(bytes.to_vec()),
    }
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    Ok(reader.u32()? != 0)
}

impl SessionWish {
    fn encode(&self, into: &mut Vec<u8>) {
        into.put_string(b"");
        for flag in [self.tty, self.x11, self.agent, self.subsystem] {
            into.put_u32(u32::from(flag));
        }
        into.put_u32(self.escape.map_or(NO_ESCAPE, u32::from));
        into.put_string(&self.term);
        into.put_string(&self.command);
        for variable in &self.environment {
            into.put_string(variable);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.string()?;
        let mut wish = Self {
            tty: flag(reader)?,
            x11: flag(reader)?,
            agent: flag(reader)?,
            subsystem: flag(reader)?,
            escape: u8::try_from(reader.u32()?).ok(),
            term: text(reader)?,
            command: text(reader)?,
            environment: Vec::new(),
        };
        while !reader.is_empty() {
            let variable = text(reader)?;
            if wish.environment.len() < MAX_VARIABLES {
                wish.environment.push(variable);
            }
        }
        Ok(wish)
    }
}

impl ForwardWish {
    /// The request for a forwarding of the command line or of a file; `None` for datagrams, which the
    /// protocol cannot express.
    #[must_use]
    pub fn new(kind: ForwardKind, spec: &ForwardSpec) -> Option<Self> {
        let (listen_host, listen_port) = match &spec.listen {
            ForwardListen::Unix(path) => (path.as_str(), PORT_OF_PATH),
            ForwardListen::Tcp { address, port } => {
                let address = match address.as_deref() {
                    Some("") => "*",
                    other => other.unwrap_or_default(),
                };
                (address, u32::from(*port))
            }
            ForwardListen::Udp { .. } => return None,
        };
        let (connect_host, connect_port) = match &spec.to {
            ForwardTo::Tcp { host, port } => (host.as_str(), u32::from(*port)),
            ForwardTo::Unix(path) => (path.as_str(), PORT_OF_PATH),
            ForwardTo::Socks => (SOCKS, 0),
            ForwardTo::Udp { .. } => return None,
        };
        Some(Self {
            kind: match kind {
                ForwardKind::Local => FORWARD_LOCAL,
                ForwardKind::Remote => FORWARD_REMOTE,
                ForwardKind::Dynamic => FORWARD_DYNAMIC,
            },
            listen_host: listen_host.into(),
            listen_port,
            connect_host: connect_host.into(),
            connect_port,
        })
    }

    /// The forwarding; `None` if the fields describe none.
    #[must_use]
    pub fn spec(&self) -> Option<(ForwardKind, ForwardSpec)> {
        let kind = match self.kind {
            FORWARD_LOCAL => ForwardKind::Local,
            FORWARD_REMOTE => ForwardKind::Remote,
            FORWARD_DYNAMIC => ForwardKind::Dynamic,
            _ => return None,
        };
        let word = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let listen_host = word(&self.listen_host)?;
        let listen = match self.listen_port {
            PORT_OF_PATH if kind == ForwardKind::Dynamic || listen_host.is_empty() => return None,
            PORT_OF_PATH => ForwardListen::Unix(listen_host),
            port => ForwardListen::Tcp {
                address: Some(listen_host).filter(|host| !host.is_empty()),
                port: port.try_into().ok()?,
            },
        };
        let connect_host = word(&self.connect_host)?;
        let to = match (self.connect_port, kind) {
            (_, ForwardKind::Dynamic) => ForwardTo::Socks,
            (_, _) if connect_host.is_empty() => return None,
            (PORT_OF_PATH, _) => ForwardTo::Unix(connect_host),
            (0, ForwardKind::Remote) => ForwardTo::Socks,
            (0, _) => return None,
            (port, _) => ForwardTo::Tcp {
                host: connect_host,
                port: port.try_into().ok()?,
            },
        };
        Some((kind, ForwardSpec { listen, to }))
    }

    fn encode(&self, into: &mut Vec<u8>) {
        into.put_u32(self.kind);
        into.put_string(&self.listen_host);
        into.put_u32(self.listen_port);
        into.put_string(&self.connect_host);
        into.put_u32(self.connect_port);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: reader.u32()?,
            listen_host: text(reader)?,
            listen_port: reader.u32()?,
            connect_host: text(reader)?,
            connect_port: reader.u32()?,
        })
    }
}

impl Wish {
    /// True if it asks for a forwarding, or for all that the connection protocol has.
    #[must_use]
    pub fn forwards(&self) -> bool {
        matches!(
            self,
            Self::StdioForward { .. } | Self::OpenForward(_) | Self::Proxy
        )
    }

    /// Number of descriptors that follow the request.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Session(_) => 3,
            Self::StdioForward { .. } => 2,
            _ => 0,
        }
    }

    fn number(&self) -> u32 {
        match self {
            Self::Alive => ALIVE_CHECK,
            Self::Session(_) => NEW_SESSION,
            Self::StdioForward { .. } => NEW_STDIO_FORWARD,
            Self::OpenForward(_) => OPEN_FORWARD,
            Self::CloseForward(_) => CLOSE_FORWARD,
            Self::Terminate => TERMINATE,
            Self::StopListening => STOP_LISTENING,
            Self::Proxy => PROXY,
            Self::Info(_) => INFO,
            Self::Unknown(number) => *number,
        }
    }
}

impl PassengerRequest {
    /// The packet.
    #[must_use]
    pub fn packet(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let (id, wish) = match self {
            Self::Hello(version) => {
                message.put_u32(HELLO);
                message.put_u32(*version);
                return packet(&message);
            }
            Self::Wish(id, wish) => (id, wish),
        };
        message.put_u32(wish.number());
        message.put_u32(*id);
        match wish {
            Wish::Session(session) => session.encode(&mut message),
            Wish::StdioForward { host, port } => {
                message.put_string(b"");
                message.put_string(host);
                message.put_u32(port.unwrap_or(PORT_OF_PATH));
            }
            Wish::OpenForward(forward) | Wish::CloseForward(forward) => {
                forward.encode(&mut message);
            }
            Wish::Info(name) => message.put_string(name),
            _ => {}
        }
        packet(&message)
    }

    /// Decodes a message. Extensions of the first one, and bytes after the known fields, are
    /// ignored.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is missing or malformed.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(message);
        let number = reader.u32()?;
        if number == HELLO {
            let version = reader.u32()?;
            extensions(reader)?;
            return Ok(Self::Hello(version));
        }
        let id = reader.u32()?;
        let wish = match number {
            ALIVE_CHECK => Wish::Alive,
            NEW_SESSION => Wish::Session(SessionWish::decode(reader)?),
            NEW_STDIO_FORWARD => {
                reader.string()?;
                let host = text(reader)?;
                let port = Some(reader.u32()?).filter(|port| *port != PORT_OF_PATH);
                Wish::StdioForward { host, port }
            }
            OPEN_FORWARD => Wish::OpenForward(ForwardWish::decode(reader)?),
            CLOSE_FORWARD => Wish::CloseForward(ForwardWish::decode(reader)?),
            TERMINATE => Wish::Terminate,
            STOP_LISTENING => Wish::StopListening,
            PROXY => Wish::Proxy,
            INFO => Wish::Info(text(reader)?),
            other => Wish::Unknown(other),
        };
        Ok(Self::Wish(id, wish))
    }
}

/// Pairs of a name and a value; true if the extension for texts is among them.
fn extensions(reader: &mut Reader<'_>) -> Result<MasterFacts, DecodeError> {
    let mut facts = MasterFacts::default();
    while !reader.is_empty() {
        let (name, value) = (reader.string()?, reader.string()?);
        facts.has_info |= name == INFO_EXTENSION.0;
        if name == SERVER_EXTENSION {
            facts.server_version = std::str::from_utf8(value).ok().map(str::to_owned);
        }
    }
    Ok(facts)
}

impl MasterReply {
    /// The packet.
    #[must_use]
    pub fn packet(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let mut numbers = |numbers: &[u32]| numbers.iter().for_each(|n| message.put_u32(*n));
        match self {
            Self::Hello { version, .. } => numbers(&[HELLO, *version]),
            Self::Ok(id) => numbers(&[OK, *id]),
            Self::Denied(id, _) => numbers(&[PERMISSION_DENIED, *id]),
            Self::Failed(id, _) => numbers(&[FAILURE, *id]),
            Self::Alive(id, pid) => numbers(&[ALIVE, *id, *pid]),
            Self::Opened(id, session) => numbers(&[SESSION_OPENED, *id, *session]),
            Self::RemotePort(id, port) => numbers(&[REMOTE_PORT, *id, *port]),
            Self::Exit(session, status) => numbers(&[EXIT_MESSAGE, *session, *status]),
            Self::NoTerminal(session) => numbers(&[TTY_ALLOC_FAIL, *session]),
            Self::Proxy(id) => numbers(&[PROXY_BEGINS, *id]),
            Self::Info(id, is_known, _) => numbers(&[INFO_TEXT, *id, u32::from(*is_known)]),
        }
        match self {
            Self::Denied(_, text) | Self::Failed(_, text) | Self::Info(_, _, text) => {
                message.put_string(text.as_bytes());
            }
            Self::Hello { master, .. } => {
                if master.has_info {
                    message.put_string(INFO_EXTENSION.0);
                    message.put_string(INFO_EXTENSION.1);
                }
                if let Some(version) = &master.server_version {
                    message.put_string(SERVER_EXTENSION);
                    message.put_string(version.as_bytes());
                }
            }
            _ => {}
        }
        packet(&message)
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the type is unknown, or if a field is missing or malformed.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(message);
        let number = reader.u32()?;
        let first = reader.u32()?;
        let reason = |reader: &mut Reader<'_>| {
            let bytes = text(reader)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(match number {
            HELLO => Self::Hello {
                version: first,
                master: extensions(reader)?,
            },
            OK => Self::Ok(first),
            PERMISSION_DENIED => Self::Denied(first, reason(reader)?),
            FAILURE => Self::Failed(first, reason(reader)?),
            ALIVE => Self::Alive(first, reader.u32()?),
            SESSION_OPENED => Self::Opened(first, reader.u32()?),
            REMOTE_PORT => Self::RemotePort(first, reader.u32()?),
            EXIT_MESSAGE => Self::Exit(first, reader.u32()?),
            TTY_ALLOC_FAIL => Self::NoTerminal(first),
            PROXY_BEGINS => Self::Proxy(first),
            INFO_TEXT => Self::Info(first, flag(reader)?, reason(reader)?),
            _ => return Err(DecodeError::Malformed("an unknown message of a master")),
        })
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
