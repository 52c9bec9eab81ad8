//! A `proto::Connection` whose owner permits everything that an owner can permit, and records the
//! events.

use std::collections::VecDeque;

use crypto::kex::{DhGroup, KexAlgorithm};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::{
    AuthMethod, Connection, Error, Event, Millis, ServerHostKey, TransportConfig, TransportOutput,
};

use super::Subject;

/// The password that a server in memory accepts, for any user.
pub const PASSWORD: &[u8] = b"correct horse";

/// Bytes passed to the connection at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A connection in memory.
pub struct Memory {
    /// The connection.
    pub connection: Connection,
    /// The error that ended it.
    pub error: Option<Error>,
    /// Events in order, including those that the owner answered (login requests are only listed in
    /// `asked`).
    pub events: VecDeque<Event>,
    /// Authentication methods of login requests, with their users.
    pub asked: Vec<(Vec<u8>, &'static str)>,
    /// Virtual milliseconds.
    pub now: Millis,
    /// True if the owner does not answer the peer's channel requests.
    pub ignores_channels: bool,
    /// True if the owner refuses every channel of the peer.
    pub refuses_channels: bool,
    /// True if the owner does not store events, so that memory can be measured.
    pub forgets: bool,
    /// Bytes sent so far.
    pub sent_bytes: usize,
    out: Vec<u8>,
    host_key: PrivateKey,
}

impl Memory {
    /// A server with an Ed25519 host key.
    ///
    /// # Panics
    /// If `proto` refuses the configuration.
    #[must_use]
    pub fn server(config: TransportConfig) -> Self {
        let host_key = PrivateKey::from_ed25519_seed(&[5; 32]);
        let keys = vec![ServerHostKey {
            algorithms: vec!["ssh-ed25519".into()],
            blob: host_key.public().blob(),
        }];
        let connection = Connection::server(config, keys, 0).expect("a server");
        Self::over(connection, host_key)
    }

    /// A client that trusts every host key.
    ///
    /// # Panics
    /// If `proto` refuses the configuration.
    #[must_use]
    pub fn client(config: TransportConfig) -> Self {
        let connection = Connection::client(config, 0).expect("a client");
        Self::over(connection, PrivateKey::from_ed25519_seed(&[5; 32]))
    }

    /// The authentication methods of the login requests so far, in order.
    #[must_use]
    pub fn methods_asked(&self) -> Vec<&'static str> {
        self.asked.iter().map(|(_, method)| *method).collect()
    }

    fn over(connection: Connection, host_key: PrivateKey) -> Self {
        let mut memory = Self {
            connection,
            error: None,
            events: VecDeque::new(),
            asked: Vec::new(),
            now: 0,
            ignores_channels: false,
            refuses_channels: false,
            forgets: false,
            sent_bytes: 0,
            out: Vec::new(),
            host_key,
        };
        memory.transmit();
        memory
    }

    /// Runs a command of the connection and handles its events.
    ///
    /// # Panics
    /// If the connection refuses the command.
    pub fn command(&mut self, command: impl FnOnce(&mut Connection) -> Result<(), Error>) {
        command(&mut self.connection).expect("a command that fits");
        self.settle();
    }

    /// Advances the clock.
    pub fn wait_until(&mut self, now: Millis) {
        self.now = now;
        let result = self.connection.handle_timeout(now).map(|_| ());
        self.judge(result);
        self.settle();
    }

    /// True if an event of this kind occurred.
    #[must_use]
    pub fn saw(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }

    /// The text of what ended the connection.
    #[must_use]
    pub fn verdict(&self) -> String {
        self.error
            .as_ref()
            .map_or_else(|| "goes on".into(), ToString::to_string)
    }

    fn judge(&mut self, result: Result<(), Error>) {
        if let Err(error) = result
            && self.error.is_none()
        {
            self.connection.fail(&error);
            self.error = Some(error);
        }
    }

    fn settle(&mut self) {
        loop {
            let mut answered = false;
            while let Some(event) = self.connection.poll_event() {
                answered |= self.answer(event);
            }
            if self.error.is_some() || !answered {
                break;
            }
            let result = self.connection.process(self.now);
            self.judge(result);
        }
        self.transmit();
    }

    /// The owner's reaction to an event; returns true if there was one.
    fn answer(&mut self, event: Event) -> bool {
        let connection = &mut self.connection;
        let result = match &event {
            Event::HostKey { .. } => connection.accept_host_key(),
            Event::SignExchangeHash { hash, .. } => {
                let signature = self
                    .host_key
                    .sign(SignatureAlgorithm::Ed25519, hash.as_ref());
                connection.provide_host_signature(&signature.expect("a signature"))
            }
            Event::GssToken { .. } | Event::GssComplete { .. } | Event::GssAccept { .. } => {
                answer_gss(connection, &event)
            }
            Event::ChooseGroup { min, .. } => {
                let group = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256).expect("group 14");
                connection.provide_group((*min <= 2048).then_some(group))
            }
            Event::AuthRequest(request) => {
                let (name, result) = match &request.method {
                    AuthMethod::Password { password, .. } if &password[..] == PASSWORD => {
                        ("password", connection.auth_success())
                    }
                    AuthMethod::Password { .. } => {
                        ("password", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::PublickeyQuery { .. } => ("query", connection.auth_pk_ok()),
                    AuthMethod::Publickey { .. } => {
                        ("publickey", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::Hostbased { .. } => {
                        ("hostbased", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::KeyboardInteractive { .. } => (
                        "keyboard-interactive",
                        connection.auth_info_request(
                            "",
                            "",
                            &[proto::Prompt {
                                text: "Password: ".into(),
                                echo: false,
                            }],
                        ),
                    ),
                    AuthMethod::InfoResponse { .. } => {
                        ("response", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::GssapiWithMic {
                        offers_kerberos: true,
                    } => ("gssapi", connection.auth_gssapi_response()),
                    AuthMethod::GssapiWithMic { .. } => {
                        ("gssapi", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::GssapiToken { token } if token.first() == Some(&b'+') => {
                        ("token", connection.auth_gssapi_next(b"more"))
                    }
                    AuthMethod::GssapiToken { .. } => (
                        "token",
                        connection
                            .auth_gssapi_error_token(b"bad")
                            .and_then(|()| connection.auth_failure(&["password"], false)),
                    ),
                    AuthMethod::GssapiMic { .. } => {
                        ("mic", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::GssapiKeyex { .. } => {
                        ("keyex", connection.auth_failure(&["password"], false))
                    }
                    AuthMethod::None => ("none", connection.auth_failure(&["password"], false)),
                    AuthMethod::Unknown { .. } => {
                        ("unknown", connection.auth_failure(&["password"], false))
                    }
                };
                self.asked.push((request.user.clone(), name));
                result
            }
            Event::ChannelOpenRequest { channel, .. } if self.refuses_channels => {
                connection.reject_channel(*channel, 1, "no")
            }
            Event::ChannelOpenRequest { channel, .. } if !self.ignores_channels => {
                connection.accept_channel(*channel)
            }
            Event::ChannelRequest {
                channel,
                want_reply: true,
                ..
            } => connection.channel_reply(*channel, true),
            Event::HostKeysProve { .. } => connection.provide_host_key_proofs(None),
            _ => {
                if !self.forgets {
                    self.events.push_back(event);
                }
                return false;
            }
        };
        self.judge(result);
        if !self.forgets {
            self.events.push_back(event);
        }
        true
    }

    fn transmit(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.out.extend(bytes),
                TransportOutput::Seal(job) => {
                    let sealed = job.run();
                    self.out.extend_from_slice(sealed.wire());
                    self.connection.recycle(sealed.into_buf());
                }
            }
        }
    }
}

/// A toy mechanism: each context needs one more token, and the MIC of a hash is the hash.
fn answer_gss(connection: &mut Connection, event: &Event) -> Result<(), Error> {
    match event {
        Event::GssToken { .. } => connection.provide_gss_token(b"token", false),
        Event::GssComplete { hash, mic, .. } if mic == hash.as_ref() => connection.accept_gss(),
        Event::GssAccept { hash, token, .. } => match &token[..] {
            b"last" => connection.complete_gss(b"last", hash.as_ref()),
            b"bad" => Err(connection.refuse_gss(b"error")),
            _ => connection.continue_gss(b"more"),
        },
        _ => Err(Error::GssFailed("the MIC is wrong".into())),
    }
}

impl Subject for Memory {
    fn deliver(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.chunks(PIECE_BYTES) {
            if self.error.is_some() {
                return false;
            }
            self.connection.receive_buffer().extend_from_slice(piece);
            let result = self.connection.process(self.now);
            self.judge(result);
            self.settle();
        }
        self.error.is_none()
    }

    fn collect(&mut self) -> Option<Vec<u8>> {
        self.transmit();
        let out = core::mem::take(&mut self.out);
        self.sent_bytes += out.len();
        (!out.is_empty()).then_some(out)
    }

    fn has_ended(&mut self) -> bool {
        self.error.is_some()
    }

    fn state(&self) -> String {
        format!("; the subject: {}", self.verdict())
    }
}
