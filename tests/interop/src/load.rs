//! Many logins from one process: a client that uses `proto` over a blocking socket.
//!
//! The client is minimal (one key, one command), so that the server is measured.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keys::{PrivateKey, SignatureAlgorithm, private_file, public_file};
use proto::channel::Request;
use proto::{ChannelId, Connection, Event, TransportConfig, TransportOutput};

use crate::fixture;

/// Time limit for the server's silence.
const PATIENCE: Duration = Duration::from_secs(60);

/// User and server: shared by all connections.
#[derive(Clone)]
pub struct Account {
    port: u16,
    user: String,
    key: Arc<PrivateKey>,
    host_key: Vec<u8>,
}

impl Account {
    /// The login with the fixture's ed25519 key for this user of the server on this port.
    ///
    /// # Panics
    /// If the fixture cannot be read.
    #[must_use]
    pub fn new(port: u16, user: &str) -> Self {
        let file = private_file::load(&fixture::file("user_ed25519")).expect("the user's key");
        let key = private_file::parse(&file, None)
            .expect("the user's key")
            .key;
        let line = fixture::text("host_ed25519.pub");
        let host_key = public_file::parse(line.as_bytes())
            .expect("the host's key")
            .key
            .blob();
        Self {
            port,
            user: user.to_owned(),
            key: Arc::new(key),
            host_key,
        }
    }
}

/// A connection that has logged in.
pub struct Session {
    stream: TcpStream,
    connection: Connection,
    channel: ChannelId,
    started: Instant,
    output: Vec<u8>,
    status: Option<u32>,
}

/// The stage that a session is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Authenticated,
    ChannelOpen,
    FirstOutput,
    Closed,
}

impl Session {
    /// Connects, logs in and starts `command`.
    ///
    /// # Errors
    /// The error, in one line.
    pub fn start(account: &Account, command: &str) -> Result<Self, String> {
        let started = Instant::now();
        let text = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(("127.0.0.1", account.port)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        let config = TransportConfig {
            // One type of host key, because the account knows one.
            host_key_algorithms: vec!["ssh-ed25519".into()],
            ..TransportConfig::default()
        };
        let connection = Connection::client(config, 0).map_err(|error| error.to_string())?;
        let channel = ChannelId(u32::MAX);
        let output = Vec::new();
        let mut session = Self {
            stream,
            connection,
            channel,
            started,
            output,
            status: None,
        };
        session.reach(account, Goal::Authenticated)?;
        let fail = |error: proto::Error| error.to_string();
        session.channel = session
            .connection
            .open_channel("session", b"")
            .map_err(fail)?;
        session.reach(account, Goal::ChannelOpen)?;
        let request = Request::Exec {
            command: command.as_bytes().to_vec(),
        };
        session
            .connection
            .channel_request(session.channel, &request, true)
            .map_err(fail)?;
        Ok(session)
    }

    /// Waits until the command has written something.
    ///
    /// # Errors
    /// The error.
    pub fn wait_for_output(&mut self, account: &Account) -> Result<(), String> {
        self.reach(account, Goal::FirstOutput)
    }

    /// Waits for the end of the command; returns its status, its output and the time since the
    /// start of the connection.
    ///
    /// # Errors
    /// The error; also if it ended without a status.
    pub fn finish(mut self, account: &Account) -> Result<(u32, Vec<u8>, Duration), String> {
        self.reach(account, Goal::Closed)?;
        let took = self.started.elapsed();
        // By application, RFC 4253 §11.1.
        self.connection.disconnect(11, "done");
        self.flush().map_err(|error| error.to_string())?;
        let status = self.status.ok_or("no exit status")?;
        Ok((status, self.output, took))
    }

    fn reach(&mut self, account: &Account, goal: Goal) -> Result<(), String> {
        let mut chunk = [0; 16 << 10];
        loop {
            self.flush().map_err(|error| error.to_string())?;
            while let Some(event) = self.connection.poll_event() {
                if self
                    .handle(account, event)
                    .map_err(|error| error.to_string())?
                    == Some(goal)
                {
                    return self.flush().map_err(|error| error.to_string());
                }
            }
            if self.connection.has_output() {
                continue;
            }
            let count = match self.stream.read(&mut chunk) {
                // A read with a time limit fails like this after the process was stopped, whether
                // it handles signals or not (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|error| format!("{goal:?}: {error}"))?,
            };
            let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else {
                return Err(format!("{goal:?}: the server closed the connection"));
            };
            self.connection.receive_buffer().extend_from_slice(bytes);
            self.connection
                .process(0)
                .map_err(|error| format!("{goal:?}: {error}"))?;
        }
    }

    /// Handles one event; returns the stage that it completes.
    fn handle(&mut self, account: &Account, event: Event) -> Result<Option<Goal>, proto::Error> {
        let connection = &mut self.connection;
        match event {
            Event::HostKey { key, .. } if key == account.host_key => {
                connection.accept_host_key()?
            }
            Event::HostKey { .. } => connection.refuse_host_key(),
            Event::UserauthReady => {
                let (user, name) = (account.user.as_bytes(), "ssh-ed25519");
                let blob = account.key.public().blob();
                let data = connection.publickey_signed_data(user, name, &blob)?;
                let signature = account
                    .key
                    .sign(SignatureAlgorithm::Ed25519, &data)
                    .map_err(|_| proto::Error::Bug("signing"))?;
                connection.auth_publickey(user, name, &blob, &signature)?;
            }
            Event::AuthFailure { .. } => return Err(proto::Error::Misuse("login refused")),
            Event::AuthSuccess(_) => return Ok(Some(Goal::Authenticated)),
            Event::ChannelOpened(_) => return Ok(Some(Goal::ChannelOpen)),
            Event::ChannelRefused { .. } => return Err(proto::Error::Misuse("channel refused")),
            Event::ChannelReply { success: false, .. } => {
                return Err(proto::Error::Misuse("command refused"));
            }
            Event::ChannelData { data, channel, .. } => {
                self.output.extend_from_slice(&data);
                connection.channel_consumed(channel, data.len())?;
                return Ok(Some(Goal::FirstOutput));
            }
            Event::ChannelRequest {
                request: Request::ExitStatus { status },
                ..
            } => {
                self.status = Some(status);
            }
            Event::ChannelEof(channel) => connection.channel_close(channel)?,
            Event::ChannelClosed(_) => return Ok(Some(Goal::Closed)),
            _ => {}
        }
        connection.process(0)?;
        Ok(None)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while let Some(output) = self.connection.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.stream.write_all(&bytes)?,
                TransportOutput::Seal(job) => {
                    let sealed = job.run();
                    self.stream.write_all(sealed.wire())?;
                    self.connection.recycle(sealed.into_buf());
                }
            }
        }
        Ok(())
    }
}

/// Median and 99th percentile.
#[must_use]
pub fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    (at(50), at(99))
}
