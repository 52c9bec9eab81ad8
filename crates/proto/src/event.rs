//! Events that a connection reports to its owner through `Connection::poll_event`, in the order in
//! which their causes arrived. Some need a command as an answer, which their description names.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use crypto::hash::Digest;
use zeroize::Zeroizing;

use crate::Millis;
use crate::request::Request;

/// Our number of a channel: small, and reused after the channel is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// One of a channel's byte streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// CHANNEL_DATA.
    Data,
    /// CHANNEL_EXTENDED_DATA of type `SSH_EXTENDED_DATA_STDERR`.
    Stderr,
}

/// Algorithms negotiated in one key exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// Key exchange method.
    pub kex: &'static str,
    /// Host key algorithm; `null` for a server without a host key, whose key exchange is by GSS-API.
    pub host_key: &'static str,
    /// Algorithms from client to server.
    pub client_to_server: DirectionAlgorithms,
    /// Algorithms from server to client.
    pub server_to_client: DirectionAlgorithms,
    /// Both sides follow strict KEX.
    pub strict_kex: bool,
    /// Client: the group exchange, if the method is one.
    pub group_exchange: Option<GroupExchange>,
}

/// A client's part in a group exchange (RFC 4419 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupExchange {
    /// Smallest, preferred and largest size of the request, bits.
    pub requested: (u32, u32, u32),
    /// Size of the server's group, bits.
    pub bits: usize,
    /// Number of bits set in the client's public value.
    pub bits_set: u32,
}

impl Negotiated {
    /// The agreed algorithms that only old devices need ([`wire::algorithms::is_old`]), each once.
    #[must_use]
    pub fn old_algorithms(&self) -> Vec<&'static str> {
        let mut old = Vec::new();
        let (sent, received) = (&self.client_to_server, &self.server_to_client);
        for name in [
            self.kex,
            self.host_key,
            sent.cipher,
            received.cipher,
            sent.mac,
            received.mac,
        ] {
            if wire::algorithms::is_old(name) && !old.contains(&name) {
                old.push(name);
            }
        }
        old
    }
}

/// Algorithms of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectionAlgorithms {
    /// Name of the cipher.
    pub cipher: &'static str,
    /// Name of the MAC; [`DirectionAlgorithms::IMPLICIT_MAC`] if the cipher authenticates.
    pub mac: &'static str,
    /// Name of the compression method.
    pub compression: &'static str,
}

impl DirectionAlgorithms {
    /// Value of `mac` for a cipher that authenticates.
    pub const IMPLICIT_MAC: &str = "<implicit>";
}

/// One prompt of keyboard-interactive (RFC 4256 §3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Text of the prompt; it may contain any character, escape it before printing.
    pub text: String,
    /// True if the response may be shown while the user types it.
    pub echo: bool,
}

/// An authentication request of a client, which the server's owner has to answer. Exactly one is
/// open at a time: no input is processed until it is answered.
#[derive(Debug)]
pub struct AuthRequest {
    /// User name as sent.
    pub user: Vec<u8>,
    /// Service name as sent.
    pub service: Vec<u8>,
    /// Method and its fields.
    pub method: AuthMethod,
}

/// Authentication methods with their fields.
#[derive(Debug)]
pub enum AuthMethod {
    /// `none`, RFC 4252 §5.2.
    None,
    /// `password`, RFC 4252 §8.
    Password {
        /// The password.
        password: Zeroizing<Vec<u8>>,
        /// The new password, if the client answers a change request.
        new_password: Option<Zeroizing<Vec<u8>>>,
    },
    /// `publickey` without a signature, RFC 4252 §7: the client asks whether this key is
    /// acceptable. Answer `auth_pk_ok` or `auth_failure`.
    PublickeyQuery {
        /// Algorithm name as sent.
        algorithm: Vec<u8>,
        /// Key or certificate blob.
        key: Vec<u8>,
    },
    /// `publickey` with a signature, RFC 4252 §7.
    Publickey {
        /// Algorithm name as sent.
        algorithm: Vec<u8>,
        /// Key or certificate blob.
        key: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
        /// The method was `publickey-hostbound-v00@openssh.com`, and its host key equals the one of
        /// the first key exchange.
        hostbound: bool,
    },
    /// `hostbased`, RFC 4252 §9: the key of the client's host signed.
    Hostbased {
        /// Algorithm name as sent.
        algorithm: Vec<u8>,
        /// Key or certificate blob.
        key: Vec<u8>,
        /// Name of the client's host as sent, at most 1024 bytes.
        host: Vec<u8>,
        /// The user's name on the client's host as sent, at most 1024 bytes.
        user: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
    },
    /// `keyboard-interactive`, RFC 4256 §3.1; answer `auth_info_request` or a final result.
    KeyboardInteractive {
        /// Submethods as sent.
        submethods: Vec<u8>,
    },
    /// Responses to the last `auth_info_request`, RFC 4256 §3.4.
    InfoResponse {
        /// One response for each prompt.
        responses: Vec<Zeroizing<Vec<u8>>>,
    },
    /// `gssapi-with-mic`, RFC 4462 §3.2; answer `auth_gssapi_response` or `auth_failure`.
    GssapiWithMic {
        /// True if the client offers Kerberos.
        offers_kerberos: bool,
    },
    /// The client's token of an open GSS-API exchange; answer `auth_gssapi_next` or `auth_failure`.
    GssapiToken {
        /// The token.
        token: Vec<u8>,
    },
    /// The client's end of an open GSS-API exchange, RFC 4462 §3.5.
    GssapiMic {
        /// The MIC; empty if the client sent none (EXCHANGE_COMPLETE).
        mic: Vec<u8>,
    },
    /// `gssapi-keyex`, RFC 4462 §4; only after a first key exchange by GSS-API.
    GssapiKeyex {
        /// The MIC in that exchange's context.
        mic: Vec<u8>,
    },
    /// An unknown method; answer `auth_failure`.
    Unknown {
        /// Name as sent.
        name: Vec<u8>,
    },
}

/// What a client's successful login was based on (RFC 4252).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthProof {
    /// The client proved its identity with a key, a password, or an answer to a prompt.
    Proven,
    /// The server required nothing (`none`, or no prompt at all). The client should tell the user,
    /// since a hostile server may imitate prompts later.
    Nothing,
}

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// The peer's identification line arrived; see `Connection::peer_version`.
    Version,
    /// Client: a line that the server sent before its identification line (RFC 4253 §4.2).
    PreVersionLine(String),
    /// Client, first exchange only: the server proved that it holds this key. No further messages
    /// are processed until `accept_host_key` or `refuse_host_key`.
    HostKey {
        /// Negotiated host key algorithm.
        algorithm: &'static str,
        /// Key or certificate blob.
        key: Vec<u8>,
    },
    /// Server: sign this exchange hash with the host key and answer `provide_host_signature`.
    SignExchangeHash {
        /// Negotiated host key algorithm.
        algorithm: &'static str,
        /// Key exchange method; it determines the length of `hash`.
        kex: &'static str,
        /// Blob of the host key to sign with.
        key: Vec<u8>,
        /// The exchange hash H.
        hash: Digest,
    },
    /// Server: choose a group (RFC 4419 §3) and answer `provide_group`.
    ChooseGroup {
        /// Smallest acceptable size, bits.
        min: u32,
        /// Preferred size, bits.
        preferred: u32,
        /// Largest acceptable size, bits.
        max: u32,
    },
    /// Client, key exchange by GSS-API: give the context the server's token, or begin one if it is empty, and
    /// answer `provide_gss_token`. To leave the exchange, end the connection.
    GssToken {
        /// The token.
        token: Vec<u8>,
    },
    /// Client, key exchange by GSS-API: give the context the server's last token, if there is one; if the context
    /// is then established with mutual authentication, and the MIC is that of the exchange hash in it, answer
    /// `accept_gss`. Otherwise end the connection.
    GssComplete {
        /// The last token; `None` if the context is established without.
        token: Option<Vec<u8>>,
        /// The exchange hash H.
        hash: Digest,
        /// The server's MIC.
        mic: Vec<u8>,
    },
    /// Server, key exchange by GSS-API: give the context the client's token, and answer `continue_gss`,
    /// `complete_gss` or `refuse_gss`.
    GssAccept {
        /// Key exchange method; it determines the length of `hash`.
        kex: &'static str,
        /// The exchange hash H, for the MIC when the context is established.
        hash: Digest,
        /// The token.
        token: Vec<u8>,
    },
    /// A key exchange is complete in both directions.
    KeysChanged {
        /// Algorithms in use from now on.
        negotiated: Negotiated,
        /// True for the connection's first exchange, false for a rekey.
        first: bool,
    },
    /// Client: the server accepted the service `ssh-userauth`; authentication commands may follow.
    UserauthReady,
    /// Client: the oldest open request failed; try another of `methods`.
    AuthFailure {
        /// Methods that can continue.
        methods: Vec<String>,
        /// The request succeeded, but another method is required.
        partial_success: bool,
    },
    /// Client: the server accepts this key; sign with it.
    AuthPkOk {
        /// Algorithm of the key query.
        algorithm: String,
        /// Key blob of the key query.
        key: Vec<u8>,
    },
    /// Client: show the prompts and answer `auth_respond`.
    AuthInfoRequest {
        /// Title for the prompts.
        name: String,
        /// Text to show before the prompts.
        instruction: String,
        /// The prompts, at most 64.
        prompts: Vec<Prompt>,
    },
    /// Client: the server has chosen Kerberos for `auth_gssapi`; answer `auth_gssapi_token`.
    AuthGssapiResponse,
    /// Client: the server's token, or with `is_error` its error token, after which a failure follows.
    AuthGssapiToken {
        /// The token.
        token: Vec<u8>,
        /// True for an error token.
        is_error: bool,
    },
    /// Client: the server's words about a failed GSS-API exchange; the failure follows.
    AuthGssapiError(String),
    /// Client: the password has expired; answer `auth_change_password` or try another method.
    AuthChangePassword {
        /// Text from the server.
        prompt: String,
    },
    /// Client: text to show before authentication; it may contain any character, escape it before
    /// printing.
    AuthBanner(String),
    /// Client: the user is logged in.
    AuthSuccess(AuthProof),
    /// Server: decide on this request and answer `auth_success`, `auth_failure`, `auth_pk_ok`
    /// or `auth_info_request`, or as [`AuthMethod`] says.
    AuthRequest(AuthRequest),

    /// The peer requests a channel; answer `accept_channel` or `reject_channel`.
    ChannelOpenRequest {
        /// Our number for the channel.
        channel: ChannelId,
        /// Channel type.
        kind: String,
        /// Fields specific to the channel type.
        fields: Vec<u8>,
    },
    /// The peer confirmed a channel of ours.
    ChannelOpened(ChannelId),
    /// The peer refused a channel of ours; its number is free again.
    ChannelRefused {
        /// Our number for the channel.
        channel: ChannelId,
        /// One of `wire::message::open_failure`.
        reason: u32,
        /// The peer's text, not escaped.
        description: String,
    },
    /// The login succeeded, but the server ignored the channel of `open_channel_early`. That
    /// channel is removed: open it again.
    ChannelUnheard(ChannelId),
    /// Received data. It counts against the window until `channel_consumed`.
    ChannelData {
        /// Our number for the channel.
        channel: ChannelId,
        /// The data's stream.
        stream: Stream,
        /// The bytes; they share the packet's memory.
        data: Bytes,
    },
    /// The peer will send no more data on this channel (CHANNEL_EOF).
    ChannelEof(ChannelId),
    /// A channel request; if `want_reply`, answer `channel_reply`, in order.
    ChannelRequest {
        /// Our number for the channel.
        channel: ChannelId,
        /// The decoded request.
        request: Request,
        /// True if the peer expects a reply.
        want_reply: bool,
    },
    /// The reply to our oldest unanswered request with `want_reply` on this channel.
    ChannelReply {
        /// Our number for the channel.
        channel: ChannelId,
        /// True for CHANNEL_SUCCESS, false for CHANNEL_FAILURE.
        success: bool,
    },
    /// The peer reopened a window that was closed.
    ChannelWritable(ChannelId),
    /// The peer sent CLOSE on a channel with `channel_hold_close`. It accepts no more data; the
    /// channel is closed once the owner has sent its last messages and called `channel_close`.
    ChannelPeerClosed(ChannelId),
    /// Both sides sent CLOSE; the channel's number is free again.
    ChannelClosed(ChannelId),
    /// The channel carried no data for its limit (`set_channel_timeouts`). The owner closes it.
    ChannelIdle {
        /// Our number for the channel.
        channel: ChannelId,
        /// The limit that has passed, milliseconds.
        limit_ms: Millis,
    },
    /// A message of the peer on a channel that another process speaks for (`open_proxied`), whole.
    ChannelProxied {
        /// Our number for the channel.
        channel: ChannelId,
        /// The packet's payload; it shares the packet's memory.
        payload: Bytes,
    },
    /// Client: the server's host keys (`hostkeys-00@openssh.com`), at most 64.
    HostKeysAnnounced(Vec<Vec<u8>>),
    /// Client: the server announced more than 64 host keys; none of them is kept.
    TooManyHostKeysAnnounced,
    /// Client: the server's signatures for the keys of `prove_host_keys`. The caller verifies them
    /// over `hostkeys_prove_data`. `None` if the server refused.
    HostKeysProof(Option<Vec<Vec<u8>>>),
    /// Server: sign the proof data of each of these keys and answer `provide_host_key_proofs`.
    HostKeysProve {
        /// Blobs of the requested keys, at most 64.
        keys: Vec<Vec<u8>>,
    },
    /// Server: the client will open no more sessions.
    NoMoreSessions,
    /// Server: the client asks to listen for it, or to stop: `tcpip-forward`,
    /// `streamlocal-forward@openssh.com` and their `cancel-` forms. If `want_reply`, answer
    /// `global_reply`.
    GlobalRequest {
        /// Name of the request.
        name: &'static str,
        /// Fields of the request.
        fields: Vec<u8>,
        /// True if the client expects a reply.
        want_reply: bool,
    },
    /// Client: the reply to the oldest unanswered `global_request`, with its fields; `None` if the
    /// server refused.
    GlobalReply(Option<Vec<u8>>),
    /// The peer sent an unknown global request; if it wanted a reply, the reply was a failure.
    GlobalRequestRefused(String),
    /// Text for the log (SSH_MSG_DEBUG); it may contain any character, escape it before printing.
    DebugMessage {
        /// The peer asks to show the text to the user.
        always_display: bool,
        /// Text of the message.
        text: String,
    },
}

impl Event {
    /// The channel that the event is about. `None` for a channel that the peer requests, one that the
    /// server ignored, and events about no channel.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        match self {
            Self::ChannelOpened(channel)
            | Self::ChannelRefused { channel, .. }
            | Self::ChannelData { channel, .. }
            | Self::ChannelEof(channel)
            | Self::ChannelPeerClosed(channel)
            | Self::ChannelClosed(channel)
            | Self::ChannelWritable(channel)
            | Self::ChannelIdle { channel, .. }
            | Self::ChannelReply { channel, .. }
            | Self::ChannelRequest { channel, .. } => Some(*channel),
            _ => None,
        }
    }
}
