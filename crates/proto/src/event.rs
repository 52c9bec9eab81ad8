//! What a connection tells its owner. Events come from `Connection::poll_event`, in the order
//! in which their causes arrived; some must be answered by a command, which their text names.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use crypto::hash::Digest;
use zeroize::Zeroizing;

use crate::channel::Request;

/// Our number for a channel: small, reused after the channel is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// Which of a channel's byte streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// CHANNEL_DATA.
    Data,
    /// CHANNEL_EXTENDED_DATA of type stderr.
    Stderr,
}

/// What both sides agreed on in one key exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// Key exchange method.
    pub kex: &'static str,
    /// Host key algorithm.
    pub host_key: &'static str,
    /// Client to server.
    pub client_to_server: Direction,
    /// Server to client.
    pub server_to_client: Direction,
    /// Both sides follow strict KEX.
    pub strict_kex: bool,
}

/// One direction's algorithms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direction {
    /// Cipher.
    pub cipher: &'static str,
    /// MAC; [`Direction::IMPLICIT_MAC`] where the cipher authenticates.
    pub mac: &'static str,
    /// Compression.
    pub compression: &'static str,
}

impl Direction {
    /// In place of a MAC's name.
    pub const IMPLICIT_MAC: &str = "<implicit>";
}

/// One prompt of keyboard-interactive (RFC 4256 §3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What to show; any characters, escape before printing.
    pub text: String,
    /// Whether the answer may be shown while it is typed.
    pub echo: bool,
}

/// A request of the client that the server's owner has to judge.
/// Exactly one is open at a time: nothing is read until it is answered.
#[derive(Debug)]
pub struct AuthRequest {
    /// User name as sent.
    pub user: Vec<u8>,
    /// Service name as sent.
    pub service: Vec<u8>,
    /// Method and its fields.
    pub method: AuthMethod,
}

/// The methods that a server can be asked.
#[derive(Debug)]
pub enum AuthMethod {
    /// RFC 4252 §5.2.
    None,
    /// RFC 4252 §8; `new_password` when the client answers a change request.
    Password {
        /// As sent.
        password: Zeroizing<Vec<u8>>,
        /// As sent.
        new_password: Option<Zeroizing<Vec<u8>>>,
    },
    /// RFC 4252 §7 without a signature: would this key do? Answer `auth_pk_ok` or `auth_failure`.
    PublickeyQuery {
        /// Algorithm name as sent.
        algorithm: Vec<u8>,
        /// Key or certificate blob.
        key: Vec<u8>,
    },
    /// RFC 4252 §7 with a signature.
    Publickey {
        /// Algorithm name as sent.
        algorithm: Vec<u8>,
        /// Key or certificate blob.
        key: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
        /// The method was `publickey-hostbound-v00@openssh.com`, and the host key inside was
        /// found equal to the one of the first key exchange.
        hostbound: bool,
    },
    /// RFC 4256 §3.1; answer `auth_info_request` or an outcome.
    KeyboardInteractive {
        /// Submethods as sent.
        submethods: Vec<u8>,
    },
    /// RFC 4256 §3.4: answers to the last `auth_info_request`.
    InfoResponse {
        /// One for each prompt.
        responses: Vec<Zeroizing<Vec<u8>>>,
    },
    /// A method that we do not know; answer `auth_failure`.
    Unknown {
        /// Name as sent.
        name: Vec<u8>,
    },
}

/// What a client's successful login rested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthProof {
    /// The client proved something: a key, a password, or an answer to a prompt.
    Proven,
    /// The server asked for nothing (`none`, or no prompt at all): tell the user, since a
    /// hostile server may want to imitate prompts later.
    Nothing,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The peer's version line arrived; see `Connection::peer_version`.
    Version,
    /// Client: a line that the server sent before its version line (RFC 4253 §4.2).
    PreVersionLine(String),
    /// Client, first exchange only: the server proved that it holds this key. Nothing else is
    /// read or sent until `accept_host_key` or `refuse_host_key`.
    HostKey {
        /// Algorithm that was negotiated.
        algorithm: &'static str,
        /// Key or certificate blob.
        key: Vec<u8>,
    },
    /// Server: sign this exchange hash and answer `provide_host_signature`.
    SignExchangeHash {
        /// Algorithm that was negotiated.
        algorithm: &'static str,
        /// Key exchange method; it fixes the length of `hash`.
        kex: &'static str,
        /// Blob of the host key that goes with it.
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
    /// A key exchange is complete in both directions; `first` marks the connection's first.
    KeysChanged {
        /// Algorithms in use from now on.
        negotiated: Negotiated,
        /// False for a rekey.
        first: bool,
    },
    /// Client: the server accepted `ssh-userauth`; authentication commands may follow.
    UserauthReady,
    /// Client: the open request failed; try another of `methods`.
    AuthFailure {
        /// Methods that can continue.
        methods: Vec<String>,
        /// The request succeeded, but more is needed.
        partial_success: bool,
    },
    /// Client: the server would take this key; sign with it.
    AuthPkOk {
        /// Algorithm of the query.
        algorithm: String,
        /// Blob of the query.
        key: Vec<u8>,
    },
    /// Client: show prompts and answer `auth_respond`.
    AuthInfoRequest {
        /// Title.
        name: String,
        /// Text above the prompts.
        instruction: String,
        /// The prompts, at most 64.
        prompts: Vec<Prompt>,
    },
    /// Client: the password has expired; answer `auth_change_password` or try another method.
    AuthChangePassword {
        /// What the server says.
        prompt: String,
    },
    /// Client: text to show before authentication; any characters, escape before printing.
    AuthBanner(String),
    /// Client: logged in.
    AuthSuccess(AuthProof),
    /// Server: judge this and answer `auth_success`, `auth_failure`, `auth_pk_ok`,
    /// `auth_info_request` or `auth_change_request`.
    AuthRequest(AuthRequest),

    /// The peer wants a channel; answer `accept_channel` or `reject_channel`.
    ChannelOpenRequest {
        /// Our number for it.
        channel: ChannelId,
        /// Channel type.
        kind: String,
        /// What the type adds.
        fields: Vec<u8>,
    },
    /// The peer confirmed a channel that we opened.
    ChannelOpened(ChannelId),
    /// The peer refused a channel that we wanted; its number is free again.
    ChannelRefused {
        /// Our number.
        channel: ChannelId,
        /// One of `wire::message::open_failure`.
        reason: u32,
        /// The peer's words.
        description: String,
    },
    /// The server logged us in and took no notice of the channel of `open_channel_early`, which is
    /// gone: open it again.
    ChannelUnheard(ChannelId),
    /// Data for the sink. It counts against the window until `channel_consumed`.
    ChannelData {
        /// Our number.
        channel: ChannelId,
        /// Which stream.
        stream: Stream,
        /// The bytes, not copied from the packet.
        data: Bytes,
    },
    /// The peer will send no more data.
    ChannelEof(ChannelId),
    /// A request on a channel; with `want_reply` answer `channel_reply`, in order.
    ChannelRequest {
        /// Our number.
        channel: ChannelId,
        /// The request.
        request: Request,
        /// An answer is owed.
        want_reply: bool,
    },
    /// The answer to our oldest open request with `want_reply` on this channel.
    ChannelReply {
        /// Our number.
        channel: ChannelId,
        /// CHANNEL_SUCCESS or CHANNEL_FAILURE.
        success: bool,
    },
    /// The peer opened a window that was closed.
    ChannelWritable(ChannelId),
    /// The peer sent CLOSE on a channel under `channel_hold_close`: it takes no more data, and
    /// the channel is gone once the owner has sent what it owes and called `channel_close`.
    ChannelPeerClosed(ChannelId),
    /// Both sides closed; the number is free again.
    ChannelClosed(ChannelId),
    /// Client: the server's host keys (`hostkeys-00@openssh.com`), at most 64.
    HostKeysAnnounced(Vec<Vec<u8>>),
    /// Client: the server announced more host keys than are taken; none of them is kept.
    TooManyHostKeysAnnounced,
    /// Client: the server's proof for keys asked with `prove_host_keys`; signatures verified
    /// by the caller with `hostkeys_prove_data`. `None` when the server refused.
    HostKeysProof(Option<Vec<Vec<u8>>>),
    /// Server: sign each of these keys' proof blobs and answer `provide_host_key_proofs`.
    HostKeysProve {
        /// Blobs of the keys asked for, at most 64.
        keys: Vec<Vec<u8>>,
    },
    /// Server: the client will open no more sessions.
    NoMoreSessions,
    /// A global request that we do not know; with `want_reply` it has been refused already.
    GlobalRequestRefused(String),
    /// Text for the log (SSH_MSG_DEBUG); any characters, escape before printing.
    DebugMessage {
        /// The peer wants the user to see it.
        always_display: bool,
        /// The text.
        text: String,
    },
}
