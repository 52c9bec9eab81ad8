//! A client of our own, for what OpenSSH's does not do: odd requests in odd order.

use std::net::TcpStream;

use driver::{Driver, DriverError, Notice};
use proto::channel::Request;
use proto::{ChannelId, Connection, Event, Stream, TransportConfig};

use crate::fake_monitor::Server;

/// A login in progress.
pub struct Client {
    driver: Driver,
}

/// What a channel came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    pub status: Option<u32>,
    pub signal: Option<String>,
    pub got_eof: bool,
    /// `exit-status` or `exit-signal` came before EOF, and EOF before CLOSE.
    pub in_order: bool,
}

impl Client {
    /// Logs in with the fake monitor's password.
    pub fn login(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let connection = Connection::client(TransportConfig::default(), sys::time::monotonic_ms());
        let mut this = Self {
            driver: Driver::new(stream.into(), None, connection.expect("a connection"))
                .expect("a driver"),
        };
        loop {
            match this.next().expect("a login") {
                Event::HostKey { .. } => this.connection().accept_host_key().expect("it waits"),
                Event::UserauthReady => {
                    this.connection()
                        .auth_password(b"tester", b"correct horse")
                        .expect("it is asked for");
                }
                Event::AuthSuccess(_) => return this,
                Event::AuthFailure { .. } => panic!("the password is right"),
                _ => {}
            }
        }
    }

    pub fn connection(&mut self) -> &mut Connection {
        self.driver.connection()
    }

    /// The next event; an error when the connection is over.
    pub fn next(&mut self) -> Result<Event, DriverError> {
        loop {
            match self.driver.next()? {
                Notice::Event(Event::ChannelData {
                    channel,
                    stream,
                    data,
                }) => {
                    let _ = self.connection().channel_consumed(channel, data.len());
                    return Ok(Event::ChannelData {
                        channel,
                        stream,
                        data,
                    });
                }
                Notice::Event(event) => return Ok(event),
                Notice::PeerClosed => return Err(std::io::Error::other("closed").into()),
                _ => {}
            }
        }
    }

    /// Opens a channel; the reason when it is refused.
    pub fn open(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, u32> {
        self.connection()
            .open_channel(kind, fields)
            .expect("we are logged in");
        loop {
            match self.next().expect("an answer") {
                Event::ChannelOpened(channel) => return Ok(channel),
                Event::ChannelRefused { reason, .. } => return Err(reason),
                _ => {}
            }
        }
    }

    pub fn session(&mut self) -> ChannelId {
        self.open("session", &[]).expect("a session")
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, channel: ChannelId, request: &Request) -> bool {
        self.connection()
            .channel_request(channel, request, true)
            .expect("an open channel");
        loop {
            if let Event::ChannelReply { success, .. } = self.next().expect("an answer") {
                return success;
            }
        }
    }

    pub fn send(&mut self, channel: ChannelId, data: &[u8]) {
        let sent = self
            .connection()
            .channel_send_slice(channel, Stream::Data, data);
        assert_eq!(sent.expect("an open channel"), data.len());
    }

    /// Waits until this much output has come.
    pub fn wait_output(&mut self, text: &str) {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            if let Event::ChannelData { data, .. } = self.next().expect("output") {
                seen.extend_from_slice(&data);
            }
        }
    }

    /// Sends CLOSE on a channel that is open.
    pub fn close(&mut self, channel: ChannelId) {
        let sent = self.connection().channel_close(channel);
        sent.expect("an open channel");
    }

    /// Waits for the other side's CLOSE, after ours.
    pub fn finish_close(&mut self, channel: ChannelId) {
        while !matches!(self.next(), Ok(Event::ChannelClosed(from)) if from == channel) {}
    }

    /// The next event that is not data; data stays charged to its window.
    fn next_hoarding(&mut self, output: &mut Vec<u8>, of: Option<ChannelId>) -> Event {
        loop {
            match self.driver.next().expect("an event") {
                Notice::Event(Event::ChannelData { channel, data, .. }) => {
                    let wanted = Some(channel) == of;
                    output.extend_from_slice(if wanted { &data } else { &[] });
                }
                Notice::Event(event) => return event,
                _ => {}
            }
        }
    }

    /// Opens a session while other channels' data is not consumed.
    pub fn session_without_consuming(&mut self) -> ChannelId {
        self.connection()
            .open_channel("session", &[])
            .expect("we are logged in");
        loop {
            if let Event::ChannelOpened(channel) = self.next_hoarding(&mut Vec::new(), None) {
                return channel;
            }
        }
    }

    /// Runs a command while other channels' data is not consumed; its output.
    pub fn ask_without_consuming(&mut self, channel: ChannelId, request: &Request) -> String {
        self.connection()
            .channel_request(channel, request, false)
            .expect("an open channel");
        let mut output = Vec::new();
        loop {
            if let Event::ChannelEof(from) = self.next_hoarding(&mut output, Some(channel))
                && from == channel
            {
                return String::from_utf8_lossy(&output).into_owned();
            }
        }
    }

    /// Waits until the channel is closed.
    pub fn finish(&mut self, channel: ChannelId) -> Outcome {
        let mut outcome = Outcome {
            in_order: true,
            ..Outcome::default()
        };
        loop {
            match self.next().expect("the channel's end") {
                Event::ChannelData {
                    channel: from,
                    stream,
                    data,
                } if from == channel => match stream {
                    Stream::Data => outcome.output.extend_from_slice(&data),
                    Stream::Stderr => outcome.errors.extend_from_slice(&data),
                },
                Event::ChannelEof(from) if from == channel => {
                    outcome.in_order &= outcome.status.is_some() || outcome.signal.is_some();
                    outcome.got_eof = true;
                    let _ = self.connection().channel_eof(channel);
                    let _ = self.connection().channel_close(channel);
                }
                Event::ChannelRequest {
                    channel: from,
                    request,
                    ..
                } if from == channel => match request {
                    Request::ExitStatus { status } => outcome.status = Some(status),
                    Request::ExitSignal { name, .. } => outcome.signal = Some(name),
                    _ => {}
                },
                Event::ChannelClosed(from) if from == channel => {
                    outcome.in_order &= outcome.got_eof;
                    return outcome;
                }
                _ => {}
            }
        }
    }
}
