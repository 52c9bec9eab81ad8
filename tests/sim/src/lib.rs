//! Two connections in memory, with virtual time: tests of `proto` without sockets.
//!
//! [`Pair`] joins a client and a server by two byte queues and delivers them in pieces of any size.
//! [`Pair::step`] plays the server's owner, which signs with a new Ed25519 host key and accepts the
//! password [`PASSWORD`]. Key exchanges by GSS-API have contexts of a toy mechanism, whose MIC of a hash is
//! the hash itself.
#![forbid(unsafe_code)]

pub mod schedule;

use std::collections::VecDeque;

use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::{
    AuthMethod, ChannelId, Connection, Error, Event, Millis, ServerHostKey, TransportConfig,
    TransportOutput,
};

/// The password that the simulated server accepts.
pub const PASSWORD: &[u8] = b"correct horse";

/// One side: a connection and its undelivered output.
pub struct Side {
    /// The connection.
    pub connection: Connection,
    /// Bytes on the wire from this side.
    pub wire: VecDeque<u8>,
    /// Events that the test has not read.
    pub events: VecDeque<Event>,
}

impl Side {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            wire: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Seals all output onto the wire.
    pub fn transmit(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.wire.extend(bytes),
                TransportOutput::Seal(job) => {
                    let sealed = job.run();
                    self.wire.extend(sealed.wire());
                    self.connection.recycle(sealed.into_buf());
                }
            }
        }
    }

    /// Passes `bytes` to the connection.
    ///
    /// # Errors
    /// The connection's errors.
    pub fn receive(&mut self, bytes: &[u8], now: Millis) -> Result<(), Error> {
        self.connection.receive_buffer().extend_from_slice(bytes);
        self.connection.process(now)?;
        while let Some(event) = self.connection.poll_event() {
            self.events.push_back(event);
        }
        Ok(())
    }
}

/// A client and a server.
pub struct Pair {
    /// The side that connected.
    pub client: Side,
    /// The side that was connected to.
    pub server: Side,
    /// Virtual milliseconds.
    pub now: Millis,
    host_key: PrivateKey,
    /// Methods of login requests, in order, as text.
    pub asked: Vec<String>,
    /// Tokens of the toy mechanism that the server answers with one of its own before the last one.
    pub gss_rounds: u8,
    /// True if the server's last token follows the MIC; false if its context needs none.
    pub gss_ends_with_token: bool,
}

impl Pair {
    /// A pair that has exchanged nothing yet.
    ///
    /// # Panics
    /// If `proto` refuses the configuration.
    #[must_use]
    pub fn new(client: TransportConfig, server: TransportConfig) -> Self {
        let host_key = PrivateKey::generate(KeySpec::Ed25519).expect("key generation");
        let keys = vec![ServerHostKey {
            algorithms: vec!["ssh-ed25519".into()],
            blob: host_key.public().blob(),
        }];
        Self::with_keys(client, server, keys, host_key)
    }

    /// The same with a server that has no host key.
    ///
    /// # Panics
    /// If `proto` refuses the configuration.
    #[must_use]
    pub fn without_host_key(client: TransportConfig, server: TransportConfig) -> Self {
        let host_key = PrivateKey::generate(KeySpec::Ed25519).expect("key generation");
        Self::with_keys(client, server, Vec::new(), host_key)
    }

    fn with_keys(
        client: TransportConfig,
        server: TransportConfig,
        keys: Vec<ServerHostKey>,
        host_key: PrivateKey,
    ) -> Self {
        Self {
            client: Side::new(Connection::client(client, 0).expect("client")),
            server: Side::new(Connection::server(server, keys, 0).expect("server")),
            now: 0,
            host_key,
            asked: Vec::new(),
            gss_rounds: 0,
            gss_ends_with_token: true,
        }
    }

    /// The server's host key blob.
    #[must_use]
    pub fn host_key_blob(&self) -> Vec<u8> {
        self.host_key.public().blob()
    }

    /// The two connections and the host key, for use by another driver.
    #[must_use]
    pub fn into_parts(self) -> (Connection, Connection, PrivateKey) {
        (
            self.client.connection,
            self.server.connection,
            self.host_key,
        )
    }

    /// Opens a session channel; both sides know it by the returned number.
    ///
    /// # Errors
    /// The first error of either side.
    pub fn open_session(&mut self) -> Result<ChannelId, Error> {
        let id = self.client.connection.open_channel("session", b"")?;
        self.settle(usize::MAX)?;
        self.server.connection.accept_channel(id)?;
        self.settle(usize::MAX)?;
        self.server.events.clear();
        self.client.events.clear();
        Ok(id)
    }

    /// Lets the server's owner answer all requests.
    ///
    /// # Errors
    /// The errors of the server's connection.
    pub fn answer_server(&mut self) -> Result<(), Error> {
        let mut rest = VecDeque::new();
        while let Some(event) = self.server.events.pop_front() {
            match event {
                Event::SignExchangeHash { hash, .. } => {
                    let signature = self
                        .host_key
                        .sign(SignatureAlgorithm::Ed25519, hash.as_ref())
                        .map_err(|_| Error::Bug("signing"))?;
                    self.server.connection.provide_host_signature(&signature)?;
                }
                Event::GssAccept { hash, token, .. } => {
                    let round = token.first().copied().unwrap_or_default();
                    let connection = &mut self.server.connection;
                    match (round < self.gss_rounds, self.gss_ends_with_token) {
                        (true, _) => connection.continue_gss(&[round])?,
                        (false, true) => connection.complete_gss(b"last", hash.as_ref())?,
                        (false, false) => connection.complete_gss(b"", hash.as_ref())?,
                    }
                }
                Event::AuthRequest(request) => {
                    self.asked
                        .push(format!("{:?}", core::mem::discriminant(&request.method)));
                    match request.method {
                        AuthMethod::Password { password, .. } if &password[..] == PASSWORD => {
                            self.server.connection.auth_success()?;
                        }
                        AuthMethod::PublickeyQuery { .. } => self.server.connection.auth_pk_ok()?,
                        _ => self
                            .server
                            .connection
                            .auth_failure(&["password", "publickey"], false)?,
                    }
                }
                other => rest.push_back(other),
            }
        }
        self.server.events = rest;
        self.server.connection.process(self.now)?;
        while let Some(event) = self.server.connection.poll_event() {
            self.server.events.push_back(event);
        }
        Ok(())
    }

    /// Moves bytes in both directions in pieces of `piece` until none are left; the client trusts
    /// any host key.
    ///
    /// # Errors
    /// The first error of either side.
    pub fn settle(&mut self, piece: usize) -> Result<(), Error> {
        loop {
            self.client.transmit();
            self.server.transmit();
            let up: Vec<u8> = take(&mut self.client.wire, piece);
            let down: Vec<u8> = take(&mut self.server.wire, piece);
            if up.is_empty() && down.is_empty() && !self.owner_has_work() {
                return Ok(());
            }
            self.server.receive(&up, self.now)?;
            while self.owner_has_work() {
                self.answer_server()?;
            }
            self.client.receive(&down, self.now)?;
            if let Some(index) = self
                .client
                .events
                .iter()
                .position(|event| matches!(event, Event::HostKey { .. }))
            {
                self.client.events.remove(index);
                self.client.connection.accept_host_key()?;
                self.client.receive(b"", self.now)?;
            }
            while self.answer_as_initiator()? {
                self.client.receive(b"", self.now)?;
            }
        }
    }

    /// Carries out an event of the client's GSS-API context; false if there is none.
    fn answer_as_initiator(&mut self) -> Result<bool, Error> {
        let Some(index) =
            self.client.events.iter().position(|event| {
                matches!(event, Event::GssToken { .. } | Event::GssComplete { .. })
            })
        else {
            return Ok(false);
        };
        let connection = &mut self.client.connection;
        match self.client.events.remove(index) {
            Some(Event::GssToken { token }) => {
                let round = token.first().map_or(0, |round| round + 1);
                let is_last = round >= self.gss_rounds && !self.gss_ends_with_token;
                connection.provide_gss_token(&[round], is_last)?;
            }
            Some(Event::GssComplete { token, hash, mic }) => {
                let expected = self.gss_ends_with_token.then(|| b"last".to_vec());
                if token != expected || mic != hash.as_ref() {
                    return Err(Error::GssFailed("wrong MIC or token".into()));
                }
                connection.accept_gss()?;
            }
            _ => {}
        }
        Ok(true)
    }

    fn owner_has_work(&self) -> bool {
        self.server.events.iter().any(|event| {
            matches!(
                event,
                Event::SignExchangeHash { .. } | Event::GssAccept { .. } | Event::AuthRequest(_)
            )
        })
    }

    /// Key exchange and login by password.
    ///
    /// # Errors
    /// The first error of either side.
    pub fn login(&mut self, piece: usize) -> Result<(), Error> {
        self.settle(piece)?;
        self.client.connection.auth_password(b"user", PASSWORD)?;
        self.settle(piece)
    }
}

fn take(queue: &mut VecDeque<u8>, piece: usize) -> Vec<u8> {
    let len = queue.len().min(piece);
    queue.drain(..len).collect()
}

/// Bytes with a long period.
#[must_use]
pub fn noise(len: usize, mut state: u64) -> Vec<u8> {
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
