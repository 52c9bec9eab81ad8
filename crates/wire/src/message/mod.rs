//! One struct per message, and the table of messages: number, RFC name, sender, and the phases in
//! which a message may arrive.
//!
//! Structs borrow from the payload that they were decoded from. `encode` writes the message number
//! and the fields; `decode` checks the number, reads the fields and rejects trailing bytes.
//! Messages whose tail depends on an earlier field end in [`Rest`].

use alloc::vec::Vec;

use crate::{DecodeError, Field, Mpint, NameList, Reader, Rest};

mod table;
pub use table::{KEX_NUMBERS, MESSAGES, MessageInfo, Phase, Sender, USERAUTH_NUMBERS, info};

/// Encoding of a message.
pub trait Encode {
    /// The message number.
    const NUMBER: u8;
    /// Appends the message number and the fields to `out`.
    fn encode_into(&self, out: &mut Vec<u8>);
    /// Encodes the message into a new buffer.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.encode_into(&mut out);
        out
    }
}

macro_rules! impl_message {
    ($name:ident [$($life:lifetime)?] $number:literal { $($field:ident),* }) => {
        impl $(<$life>)? Encode for $name $(<$life>)? {
            const NUMBER: u8 = $number;
            fn encode_into(&self, out: &mut Vec<u8>) {
                out.push($number);
                $( Field::write(&self.$field, out); )*
            }
        }
    };
}

macro_rules! messages {
    ($( $(#[$doc:meta])* $name:ident $(<$life:lifetime>)? = $number:literal {
        $( $(#[$fdoc:meta])* $field:ident : $type:ty ),* $(,)?
    } )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $( $(#[$fdoc])* pub $field: $type, )* }

        impl_message!($name [$($life)?] $number { $($field),* });
        impl_decode!($name [$($life)?] $number { $($field),* });
    )*};
}

macro_rules! impl_decode {
    ($name:ident [$life:lifetime] $number:literal { $($field:ident),* }) => {
        impl<$life> $name<$life> {
            /// Decodes the message from a whole payload, including its number.
            ///
            /// # Errors
            /// [`DecodeError`] if the number differs, a field is invalid or missing, or bytes
            /// follow the last field.
            pub fn decode(payload: &$life [u8]) -> Result<Self, DecodeError> {
                let mut reader = start(payload, $number)?;
                $( let $field = Field::read(&mut reader)?; )*
                reader.finish()?;
                Ok(Self { $($field),* })
            }
        }
    };
    ($name:ident [] $number:literal { $($field:ident),* }) => {
        impl $name {
            /// Decodes the message from a whole payload, including its number.
            ///
            /// # Errors
            /// [`DecodeError`] if the number differs, a field is invalid or missing, or bytes
            /// follow the last field.
            pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
                #[allow(unused_mut)]
                let mut reader = start(payload, $number)?;
                $( let $field = Field::read(&mut reader)?; )*
                reader.finish()?;
                Ok(Self { $($field),* })
            }
        }
    };
}

fn start(payload: &[u8], expected: u8) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(payload);
    let got = reader.u8()?;
    if got == expected {
        Ok(reader)
    } else {
        Err(DecodeError::WrongMessage { expected, got })
    }
}

messages! {
    /// SSH_MSG_DISCONNECT (RFC 4253 §11.1).
    Disconnect<'a> = 1 {
        /// One of [`reason`].
        reason: u32,
        /// Human-readable text; may contain arbitrary bytes.
        description: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_IGNORE (RFC 4253 §11.2).
    Ignore<'a> = 2 { /** Ignored by the receiver. */ data: &'a [u8] }
    /// SSH_MSG_UNIMPLEMENTED (RFC 4253 §11.4).
    Unimplemented = 3 { /** Sequence number of the packet that was not understood. */ sequence: u32 }
    /// SSH_MSG_DEBUG (RFC 4253 §11.3).
    Debug<'a> = 4 {
        /// Whether to show the message to the user.
        always_display: bool,
        /// Human-readable text; may contain arbitrary bytes.
        text: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_SERVICE_REQUEST (RFC 4253 §10).
    ServiceRequest<'a> = 5 { /** `ssh-userauth` or `ssh-connection`. */ service: &'a [u8] }
    /// SSH_MSG_SERVICE_ACCEPT (RFC 4253 §10).
    ServiceAccept<'a> = 6 { /** The requested service. */ service: &'a [u8] }
    /// SSH_MSG_EXT_INFO (RFC 8308 §2.3). `extensions` holds `count` pairs of strings.
    ExtInfo<'a> = 7 {
        /// Number of pairs that follow.
        count: u32,
        /// The pairs.
        extensions: Rest<'a>,
    }
    /// SSH_MSG_KEXINIT (RFC 4253 §7.1).
    KexInit<'a> = 20 {
        /// Random bytes.
        cookie: [u8; 16],
        /// Key exchange methods.
        kex: NameList<'a>,
        /// Host key algorithms.
        host_key: NameList<'a>,
        /// Ciphers, client to server.
        cipher_c2s: NameList<'a>,
        /// Ciphers, server to client.
        cipher_s2c: NameList<'a>,
        /// MACs, client to server.
        mac_c2s: NameList<'a>,
        /// MACs, server to client.
        mac_s2c: NameList<'a>,
        /// Compression, client to server.
        compression_c2s: NameList<'a>,
        /// Compression, server to client.
        compression_s2c: NameList<'a>,
        /// Languages, client to server; never used.
        language_c2s: NameList<'a>,
        /// Languages, server to client; never used.
        language_s2c: NameList<'a>,
        /// Whether a key exchange packet for the guessed method follows.
        first_kex_packet_follows: bool,
        /// Reserved, zero.
        reserved: u32,
    }
    /// SSH_MSG_NEWKEYS (RFC 4253 §7.3).
    NewKeys = 21 {}
    /// SSH_MSG_KEX_ECDH_INIT (RFC 5656 §4, RFC 8731, and the hybrids): the client's public value as
    /// a string.
    KexEcdhInit<'a> = 30 { /** Q_C or C_INIT. */ public: &'a [u8] }
    /// SSH_MSG_KEX_ECDH_REPLY (RFC 5656 §4): the server's public value and signature.
    KexEcdhReply<'a> = 31 {
        /// K_S, the host key blob.
        host_key: &'a [u8],
        /// Q_S or S_REPLY.
        public: &'a [u8],
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// SSH_MSG_KEXDH_INIT (RFC 4253 §8).
    KexDhInit<'a> = 30 { /** e. */ public: Mpint<'a> }
    /// SSH_MSG_KEXDH_REPLY (RFC 4253 §8).
    KexDhReply<'a> = 31 {
        /// K_S, the host key blob.
        host_key: &'a [u8],
        /// f.
        public: Mpint<'a>,
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// SSH_MSG_KEX_DH_GEX_REQUEST (RFC 4419 §3).
    KexGexRequest = 34 {
        /// Smallest acceptable size, bits.
        min: u32,
        /// Preferred size, bits.
        preferred: u32,
        /// Largest acceptable size, bits.
        max: u32,
    }
    /// SSH_MSG_KEX_DH_GEX_GROUP (RFC 4419 §3).
    KexGexGroup<'a> = 31 {
        /// Safe prime.
        p: Mpint<'a>,
        /// Generator.
        g: Mpint<'a>,
    }
    /// SSH_MSG_KEX_DH_GEX_INIT (RFC 4419 §3).
    KexGexInit<'a> = 32 { /** e. */ public: Mpint<'a> }
    /// SSH_MSG_KEX_DH_GEX_REPLY (RFC 4419 §3).
    KexGexReply<'a> = 33 {
        /// K_S, the host key blob.
        host_key: &'a [u8],
        /// f.
        public: Mpint<'a>,
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// SSH_MSG_KEXGSS_INIT (RFC 4462 §2.1, RFC 8732 §5).
    KexGssInit<'a> = 30 {
        /// The first token of GSS_Init_sec_context.
        token: &'a [u8],
        /// e or Q_C: the content of an mpint or string.
        public: &'a [u8],
    }
    /// SSH_MSG_KEXGSS_CONTINUE (RFC 4462 §2.1): a further token of either side.
    KexGssContinue<'a> = 31 { /** The token. */ token: &'a [u8] }
    /// SSH_MSG_KEXGSS_COMPLETE (RFC 4462 §2.1). A string with the last token follows if `has_token`.
    KexGssComplete<'a> = 32 {
        /// f or Q_S: the content of an mpint or string.
        public: &'a [u8],
        /// The MIC of the exchange hash.
        mic: &'a [u8],
        /// Whether a token follows.
        has_token: bool,
        /// The token as a string; empty without one.
        token: Rest<'a>,
    }
    /// SSH_MSG_KEXGSS_HOSTKEY (RFC 4462 §2.1): the server's host key, which enters the exchange hash.
    KexGssHostKey<'a> = 33 { /** K_S, the host key blob. */ host_key: &'a [u8] }
    /// SSH_MSG_KEXGSS_ERROR (RFC 4462 §2.1).
    KexGssError<'a> = 34 {
        /// GSS-API's major status.
        major: u32,
        /// The mechanism's status.
        minor: u32,
        /// Human-readable text; may contain arbitrary bytes.
        text: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_REQUEST (RFC 4252 §5). `method_fields` depends on `method`.
    UserauthRequest<'a> = 50 {
        /// User name; UTF-8 by RFC 4252, but not checked.
        user: &'a [u8],
        /// Service to start on success.
        service: &'a [u8],
        /// Method name.
        method: &'a [u8],
        /// Fields of the method.
        method_fields: Rest<'a>,
    }
    /// SSH_MSG_USERAUTH_FAILURE (RFC 4252 §5.1).
    UserauthFailure<'a> = 51 {
        /// Methods that can continue.
        methods: NameList<'a>,
        /// Whether the request succeeded and another method is required.
        partial_success: bool,
    }
    /// SSH_MSG_USERAUTH_SUCCESS (RFC 4252 §5.1).
    UserauthSuccess = 52 {}
    /// SSH_MSG_USERAUTH_BANNER (RFC 4252 §5.4).
    UserauthBanner<'a> = 53 {
        /// Human-readable text; may contain arbitrary bytes.
        text: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_PK_OK (RFC 4252 §7).
    UserauthPkOk<'a> = 60 {
        /// Public key algorithm name from the request.
        algorithm: &'a [u8],
        /// Public key blob from the request.
        key: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_PASSWD_CHANGEREQ (RFC 4252 §8).
    UserauthPasswdChangereq<'a> = 60 {
        /// Human-readable text; may contain arbitrary bytes.
        prompt: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_INFO_REQUEST (RFC 4256 §3.2). `prompts` holds `count` pairs of string and boolean.
    UserauthInfoRequest<'a> = 60 {
        /// Title of the dialogue.
        name: &'a [u8],
        /// Human-readable text; may contain arbitrary bytes.
        instruction: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
        /// Number of prompts that follow.
        count: u32,
        /// The prompts.
        prompts: Rest<'a>,
    }
    /// SSH_MSG_USERAUTH_INFO_RESPONSE (RFC 4256 §3.4). `responses` holds `count` strings.
    UserauthInfoResponse<'a> = 61 {
        /// Number of responses that follow.
        count: u32,
        /// The responses.
        responses: Rest<'a>,
    }
    /// SSH_MSG_USERAUTH_GSSAPI_RESPONSE (RFC 4462 §3.3).
    UserauthGssapiResponse<'a> = 60 {
        /// DER encoding of the OID of the mechanism that the server has chosen.
        mechanism: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_GSSAPI_TOKEN (RFC 4462 §3.4).
    UserauthGssapiToken<'a> = 61 { /** Token of the mechanism. */ token: &'a [u8] }
    /// SSH_MSG_USERAUTH_GSSAPI_EXCHANGE_COMPLETE (RFC 4462 §3.5).
    UserauthGssapiExchangeComplete = 63 {}
    /// SSH_MSG_USERAUTH_GSSAPI_ERROR (RFC 4462 §3.8).
    UserauthGssapiError<'a> = 64 {
        /// Major status.
        major: u32,
        /// Minor status.
        minor: u32,
        /// Human-readable text; may contain arbitrary bytes.
        text: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_USERAUTH_GSSAPI_ERRTOK (RFC 4462 §3.9).
    UserauthGssapiErrtok<'a> = 65 { /** Error token of the mechanism. */ token: &'a [u8] }
    /// SSH_MSG_USERAUTH_GSSAPI_MIC (RFC 4462 §3.5).
    UserauthGssapiMic<'a> = 66 {
        /// MIC over [`crate::userauth::gssapi_signed_data`].
        mic: &'a [u8],
    }
    /// SSH_MSG_GLOBAL_REQUEST (RFC 4254 §4). `fields` depends on `name`.
    GlobalRequest<'a> = 80 {
        /// Request name.
        name: &'a [u8],
        /// Whether the sender expects a reply.
        want_reply: bool,
        /// Fields of the request.
        fields: Rest<'a>,
    }
    /// SSH_MSG_REQUEST_SUCCESS (RFC 4254 §4).
    RequestSuccess<'a> = 81 { /** Fields of the reply. */ fields: Rest<'a> }
    /// SSH_MSG_REQUEST_FAILURE (RFC 4254 §4).
    RequestFailure = 82 {}
    /// SSH_MSG_CHANNEL_OPEN (RFC 4254 §5.1). `fields` depends on `kind`.
    ChannelOpen<'a> = 90 {
        /// Channel type.
        kind: &'a [u8],
        /// The sender's number for the channel.
        sender_channel: u32,
        /// Number of bytes that may be sent to the sender of this message.
        window: u32,
        /// Maximum data in one message, in bytes.
        max_packet: u32,
        /// Fields of the channel type.
        fields: Rest<'a>,
    }
    /// SSH_MSG_CHANNEL_OPEN_CONFIRMATION (RFC 4254 §5.1).
    ChannelOpenConfirmation<'a> = 91 {
        /// The opener's number for the channel.
        recipient_channel: u32,
        /// The confirmer's number for the channel.
        sender_channel: u32,
        /// Number of bytes that may be sent to the confirmer.
        window: u32,
        /// Maximum data in one message, in bytes.
        max_packet: u32,
        /// Fields of the channel type.
        fields: Rest<'a>,
    }
    /// SSH_MSG_CHANNEL_OPEN_FAILURE (RFC 4254 §5.1).
    ChannelOpenFailure<'a> = 92 {
        /// The opener's number for the channel.
        recipient_channel: u32,
        /// One of [`open_failure`].
        reason: u32,
        /// Human-readable text; may contain arbitrary bytes.
        description: &'a [u8],
        /// RFC 3066 language tag.
        language: &'a [u8],
    }
    /// SSH_MSG_CHANNEL_WINDOW_ADJUST (RFC 4254 §5.2).
    ChannelWindowAdjust = 93 {
        /// The receiver's number for the channel.
        recipient_channel: u32,
        /// Number of bytes added to the window.
        bytes: u32,
    }
    /// SSH_MSG_CHANNEL_DATA (RFC 4254 §5.2).
    ChannelData<'a> = 94 {
        /// The receiver's number for the channel.
        recipient_channel: u32,
        /// The data.
        data: &'a [u8],
    }
    /// SSH_MSG_CHANNEL_EXTENDED_DATA (RFC 4254 §5.2).
    ChannelExtendedData<'a> = 95 {
        /// The receiver's number for the channel.
        recipient_channel: u32,
        /// [`EXTENDED_DATA_STDERR`].
        code: u32,
        /// The data.
        data: &'a [u8],
    }
    /// SSH_MSG_CHANNEL_EOF (RFC 4254 §5.3).
    ChannelEof = 96 { /** The receiver's number for the channel. */ recipient_channel: u32 }
    /// SSH_MSG_CHANNEL_CLOSE (RFC 4254 §5.3).
    ChannelClose = 97 { /** The receiver's number for the channel. */ recipient_channel: u32 }
    /// SSH_MSG_CHANNEL_REQUEST (RFC 4254 §5.4). `fields` depends on `name`.
    ChannelRequest<'a> = 98 {
        /// The receiver's number for the channel.
        recipient_channel: u32,
        /// Request name.
        name: &'a [u8],
        /// Whether the sender expects a reply.
        want_reply: bool,
        /// Fields of the request.
        fields: Rest<'a>,
    }
    /// SSH_MSG_CHANNEL_SUCCESS (RFC 4254 §5.4).
    ChannelSuccess = 99 { /** The receiver's number for the channel. */ recipient_channel: u32 }
    /// SSH_MSG_CHANNEL_FAILURE (RFC 4254 §5.4).
    ChannelFailure = 100 { /** The receiver's number for the channel. */ recipient_channel: u32 }
    /// SSH2_MSG_PING of OpenSSH's `ping@openssh.com` (its PROTOCOL §1.8).
    Ping<'a> = 192 { /** Data for the reply. */ data: &'a [u8] }
    /// SSH2_MSG_PONG, the reply to [`Ping`].
    Pong<'a> = 193 { /** The data of the ping. */ data: &'a [u8] }
}

/// `data_type_code` of standard error, RFC 4254 §5.2.
pub const EXTENDED_DATA_STDERR: u32 = 1;

/// Reason codes of SSH_MSG_DISCONNECT, RFC 4253 §11.1.
pub mod reason {
    #![allow(missing_docs)]
    pub const HOST_NOT_ALLOWED_TO_CONNECT: u32 = 1;
    pub const PROTOCOL_ERROR: u32 = 2;
    pub const KEY_EXCHANGE_FAILED: u32 = 3;
    pub const MAC_ERROR: u32 = 5;
    pub const COMPRESSION_ERROR: u32 = 6;
    pub const SERVICE_NOT_AVAILABLE: u32 = 7;
    pub const PROTOCOL_VERSION_NOT_SUPPORTED: u32 = 8;
    pub const HOST_KEY_NOT_VERIFIABLE: u32 = 9;
    pub const CONNECTION_LOST: u32 = 10;
    pub const BY_APPLICATION: u32 = 11;
    pub const TOO_MANY_CONNECTIONS: u32 = 12;
    pub const AUTH_CANCELLED_BY_USER: u32 = 13;
    pub const NO_MORE_AUTH_METHODS_AVAILABLE: u32 = 14;
    pub const ILLEGAL_USER_NAME: u32 = 15;
}

/// Reason codes of SSH_MSG_CHANNEL_OPEN_FAILURE, RFC 4254 §5.1.
pub mod open_failure {
    #![allow(missing_docs)]
    pub const ADMINISTRATIVELY_PROHIBITED: u32 = 1;
    pub const CONNECT_FAILED: u32 = 2;
    pub const UNKNOWN_CHANNEL_TYPE: u32 = 3;
    pub const RESOURCE_SHORTAGE: u32 = 4;
}
