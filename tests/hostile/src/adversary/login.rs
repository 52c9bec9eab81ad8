//! The adversary's user authentication and channels, for lies that need a login first.

use keys::{PrivateKey, SignatureAlgorithm};
use proto::{Role, TransportConfig};
use wire::message::{
    ChannelOpen, ChannelOpenConfirmation, ChannelRequest, Encode, ServiceAccept, ServiceRequest,
    UserauthRequest, UserauthSuccess,
};
use wire::{Put, Rest, names};

use super::{Adversary, HostKey, Offer};
use crate::subject::{Memory, PASSWORD, Subject};

/// A USERAUTH_REQUEST.
#[must_use]
pub fn userauth(user: &[u8], method: &str, fields: &[u8]) -> Vec<u8> {
    UserauthRequest {
        user,
        service: names::SERVICE_CONNECTION.as_bytes(),
        method: method.as_bytes(),
        method_fields: Rest(fields),
    }
    .encode()
}

/// The fields of a publickey request (RFC 4252 §7).
#[must_use]
pub fn publickey_fields(algorithm: &str, key: &[u8], signature: Option<&[u8]>) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.put_bool(signature.is_some());
    fields.put_string(algorithm.as_bytes());
    fields.put_string(key);
    if let Some(signature) = signature {
        fields.put_string(signature);
    }
    fields
}

/// The data that a public key signs (RFC 4252 §7).
#[must_use]
pub fn signed_data(session_id: &[u8], user: &[u8], algorithm: &str, key: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    text.put_string(session_id);
    text.put_u8(50);
    text.put_string(user);
    text.put_string(names::SERVICE_CONNECTION.as_bytes());
    text.put_string(names::METHOD_PUBLICKEY.as_bytes());
    text.put_bool(true);
    text.put_string(algorithm.as_bytes());
    text.put_string(key);
    text
}

impl<V: Subject> Adversary<V> {
    /// Client: requests user authentication and waits for the acceptance.
    pub fn service(&mut self) {
        self.say(&ServiceRequest {
            service: names::SERVICE_USERAUTH.as_bytes(),
        });
        self.expect(6);
    }

    /// Client: one request and its answer (51, 52 or 60); banners are ignored.
    ///
    /// # Panics
    /// If no answer arrives.
    pub fn ask(&mut self, user: &[u8], method: &str, fields: &[u8]) -> Vec<u8> {
        self.send(&userauth(user, method, fields));
        self.answer()
    }

    /// The same if the subject may also end the connection.
    pub fn ask_or_end(&mut self, user: &[u8], method: &str, fields: &[u8]) -> Option<Vec<u8>> {
        self.send(&userauth(user, method, fields));
        self.next_answer()
    }

    /// The next answer (51, 52 or 60).
    ///
    /// # Panics
    /// If no answer arrives.
    pub fn answer(&mut self) -> Vec<u8> {
        self.next_answer()
            .unwrap_or_else(|| panic!("no answer, but {:?}{}", self.goodbye, self.subject.state()))
    }

    fn next_answer(&mut self) -> Option<Vec<u8>> {
        core::iter::from_fn(|| self.next_payload())
            .find(|payload| matches!(payload.first(), Some(51 | 52 | 60)))
    }

    /// Client: logs in by password.
    ///
    /// # Panics
    /// If it is refused.
    pub fn login_password(&mut self, user: &[u8], password: &[u8]) {
        let mut fields = Vec::new();
        fields.put_bool(false);
        fields.put_string(password);
        let answer = self.ask(user, names::METHOD_PASSWORD, &fields);
        assert_eq!(answer, [52], "the password is refused");
    }

    /// Client: a signed publickey request for `user`, made with `key`.
    ///
    /// # Panics
    /// Before the first exchange.
    #[must_use]
    pub fn signed_request(
        &self,
        user: &[u8],
        key: &PrivateKey,
        algorithm: SignatureAlgorithm,
    ) -> Vec<u8> {
        let id = self.session_id.as_deref().expect("a session");
        let blob = key.public().blob();
        let data = signed_data(id, user, algorithm.name(), &blob);
        let signature = key.sign(algorithm, &data).expect("a signature");
        let fields = publickey_fields(algorithm.name(), &blob, Some(&signature));
        userauth(user, names::METHOD_PUBLICKEY, &fields)
    }

    /// Client: logs in by key.
    ///
    /// # Panics
    /// If it is refused.
    pub fn login_publickey(&mut self, user: &[u8], key: &PrivateKey) {
        let request = self.signed_request(user, key, SignatureAlgorithm::Ed25519);
        self.send(&request);
        assert_eq!(self.answer(), [52], "the key is refused");
    }

    /// Server: accepts the service and the first request.
    pub fn let_in(&mut self) {
        self.accept_service();
        self.expect(50);
        self.say(&UserauthSuccess {});
    }

    /// Server: accepts the service.
    pub fn accept_service(&mut self) {
        self.expect(5);
        self.say(&ServiceAccept {
            service: names::SERVICE_USERAUTH.as_bytes(),
        });
    }

    /// Server: confirms the session that the subject opens, with this number and largest packet.
    ///
    /// # Panics
    /// If the subject opens nothing.
    pub fn confirm_session(&mut self, number: u32, max_packet: u32) {
        self.expect(ChannelOpen::NUMBER);
        self.say(&ChannelOpenConfirmation {
            recipient_channel: 0,
            sender_channel: number,
            window: 1 << 20,
            max_packet,
            fields: Rest(b""),
        });
    }

    /// Opens a session channel with our number `number`; returns the subject's number for it.
    ///
    /// # Panics
    /// If it is not confirmed.
    pub fn open_session(&mut self, number: u32) -> u32 {
        self.open("session", number, 1 << 20, 32_768);
        let payload = self.expect(91);
        ChannelOpenConfirmation::decode(&payload)
            .expect("a confirmation")
            .sender_channel
    }

    /// Sends CHANNEL_OPEN.
    pub fn open(&mut self, kind: &str, number: u32, window: u32, max_packet: u32) -> bool {
        self.say(&ChannelOpen {
            kind: kind.as_bytes(),
            sender_channel: number,
            window,
            max_packet,
            fields: Rest(b""),
        })
    }

    /// Sends CHANNEL_REQUEST.
    pub fn request(&mut self, channel: u32, name: &str, want_reply: bool, fields: &[u8]) -> bool {
        self.say(&ChannelRequest {
            recipient_channel: channel,
            name: name.as_bytes(),
            want_reply,
            fields: Rest(fields),
        })
    }

    /// Runs a command on a new channel and returns its output until CLOSE.
    ///
    /// # Panics
    /// If the channel is refused.
    pub fn run(&mut self, number: u32, command: &[u8]) -> Vec<u8> {
        let channel = self.open_session(number);
        let mut fields = Vec::new();
        fields.put_string(command);
        self.request(channel, names::REQUEST_EXEC, true, &fields);
        self.output()
    }

    /// Like [`Adversary::run`] if other channels are open: uses only the messages of channel `number`.
    ///
    /// # Panics
    /// As [`Adversary::run`].
    pub fn run_on(&mut self, number: u32, command: &[u8]) -> Vec<u8> {
        let channel = self.open_session(number);
        let mut fields = Vec::new();
        fields.put_string(command);
        self.request(channel, names::REQUEST_EXEC, true, &fields);
        self.output_of(|recipient| recipient == number)
    }

    /// Data of any channel until a CLOSE arrives.
    ///
    /// # Panics
    /// If the subject ends earlier.
    pub fn output(&mut self) -> Vec<u8> {
        self.output_of(|_| true)
    }

    fn output_of(&mut self, counts: impl Fn(u32) -> bool) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let payload = self.next_payload().unwrap_or_else(|| {
                panic!("no CLOSE, but {:?}{}", self.goodbye, self.subject.state())
            });
            match payload.first() {
                Some(94) => {
                    let data = wire::message::ChannelData::decode(&payload).expect("data");
                    if counts(data.recipient_channel) {
                        out.extend_from_slice(data.data);
                    }
                }
                Some(97) => {
                    let close = wire::message::ChannelClose::decode(&payload).expect("CLOSE");
                    if counts(close.recipient_channel) {
                        return out;
                    }
                }
                _ => {}
            }
        }
    }

    /// Rekeys with another host key, up to the end of the key exchange.
    pub fn rekey_with_another_host_key(&mut self) {
        self.host_key = HostKey {
            private: PrivateKey::from_ed25519_seed(&[8; 32]),
            algorithm: SignatureAlgorithm::Ed25519,
        };
        self.kexinit(&Offer::default());
        self.expect_kexinit();
        self.agree();
    }
}

impl Adversary<Memory> {
    /// A client that has logged in.
    #[must_use]
    pub fn client() -> Self {
        let memory = Memory::server(TransportConfig::default());
        let mut adversary = Self::new(memory, Role::Client);
        adversary.exchange(&Offer::default());
        adversary.service();
        adversary.login_password(b"user", PASSWORD);
        adversary
    }

    /// A lying server whose subject has logged in.
    #[must_use]
    pub fn server() -> Self {
        let mut adversary = Self::new(Memory::client(TransportConfig::default()), Role::Server);
        adversary.exchange(&Offer::default());
        adversary.log_in_subject();
        adversary
    }

    /// Lets the subject log in, after the key exchange.
    pub fn log_in_subject(&mut self) {
        self.accept_service();
        self.subject
            .command(|client| client.auth_password(b"user", PASSWORD));
        self.expect(50);
        self.say(&wire::message::UserauthSuccess {});
    }
}
