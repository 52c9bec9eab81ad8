//! The table of messages. `proto::permits` decides from it which messages may arrive, and logs take
//! message names from it.

use core::ops::RangeInclusive;

/// Message numbers of algorithm negotiation and of key exchange methods (RFC 4250 §4.1.2).
pub const KEX_NUMBERS: RangeInclusive<u8> = 20..=49;
/// Message numbers of user authentication, generic and of its methods (RFC 4250 §4.1.2).
pub const USERAUTH_NUMBERS: RangeInclusive<u8> = 50..=79;

/// Who may send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Only the client.
    Client,
    /// Only the server.
    Server,
    /// Either side.
    Both,
}

/// The phase of a connection in which a message is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Transport messages: any time, except during the first key exchange under strict KEX (RFC
    /// 4253 §11).
    Always,
    /// Initial or repeated key exchange (RFC 4253 §7).
    Kex,
    /// After NEWKEYS: service requests and extension information.
    Service,
    /// User authentication (RFC 4252).
    Userauth,
    /// After USERAUTH_SUCCESS (RFC 4254).
    Connection,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// Message number.
    pub number: u8,
    /// Name in the RFC; logs print it.
    pub name: &'static str,
    /// Who may send it.
    pub sender: Sender,
    /// Phase in which it may arrive.
    pub phase: Phase,
}

macro_rules! table {
    ($($number:literal $name:ident $sender:ident $phase:ident;)*) => {
        /// All known messages, sorted by number. The meaning of numbers 30–34 and 60–61 depends on
        /// the key exchange and authentication method; their rows have the most common name.
        pub const MESSAGES: &[MessageInfo] = &[$(MessageInfo {
            number: $number,
            name: stringify!($name),
            sender: Sender::$sender,
            phase: Phase::$phase,
        },)*];
    };
}

table! {
    1   SSH_MSG_DISCONNECT                Both   Always;
    2   SSH_MSG_IGNORE                    Both   Always;
    3   SSH_MSG_UNIMPLEMENTED             Both   Always;
    4   SSH_MSG_DEBUG                     Both   Always;
    5   SSH_MSG_SERVICE_REQUEST           Client Service;
    6   SSH_MSG_SERVICE_ACCEPT            Server Service;
    7   SSH_MSG_EXT_INFO                  Both   Service;
    20  SSH_MSG_KEXINIT                   Both   Kex;
    21  SSH_MSG_NEWKEYS                   Both   Kex;
    30  SSH_MSG_KEX_ECDH_INIT             Client Kex;
    31  SSH_MSG_KEX_ECDH_REPLY            Server Kex;
    32  SSH_MSG_KEX_DH_GEX_INIT           Client Kex;
    33  SSH_MSG_KEX_DH_GEX_REPLY          Server Kex;
    34  SSH_MSG_KEX_DH_GEX_REQUEST        Client Kex;
    50  SSH_MSG_USERAUTH_REQUEST          Client Userauth;
    51  SSH_MSG_USERAUTH_FAILURE          Server Userauth;
    52  SSH_MSG_USERAUTH_SUCCESS          Server Userauth;
    53  SSH_MSG_USERAUTH_BANNER           Server Userauth;
    60  SSH_MSG_USERAUTH_INFO_REQUEST     Server Userauth;
    61  SSH_MSG_USERAUTH_INFO_RESPONSE    Both   Userauth;
    63  SSH_MSG_USERAUTH_GSSAPI_EXCHANGE_COMPLETE Client Userauth;
    64  SSH_MSG_USERAUTH_GSSAPI_ERROR     Server Userauth;
    65  SSH_MSG_USERAUTH_GSSAPI_ERRTOK    Both   Userauth;
    66  SSH_MSG_USERAUTH_GSSAPI_MIC       Client Userauth;
    80  SSH_MSG_GLOBAL_REQUEST            Both   Connection;
    81  SSH_MSG_REQUEST_SUCCESS           Both   Connection;
    82  SSH_MSG_REQUEST_FAILURE           Both   Connection;
    90  SSH_MSG_CHANNEL_OPEN              Both   Connection;
    91  SSH_MSG_CHANNEL_OPEN_CONFIRMATION Both   Connection;
    92  SSH_MSG_CHANNEL_OPEN_FAILURE      Both   Connection;
    93  SSH_MSG_CHANNEL_WINDOW_ADJUST     Both   Connection;
    94  SSH_MSG_CHANNEL_DATA              Both   Connection;
    95  SSH_MSG_CHANNEL_EXTENDED_DATA     Both   Connection;
    96  SSH_MSG_CHANNEL_EOF               Both   Connection;
    97  SSH_MSG_CHANNEL_CLOSE             Both   Connection;
    98  SSH_MSG_CHANNEL_REQUEST           Both   Connection;
    99  SSH_MSG_CHANNEL_SUCCESS           Both   Connection;
    100 SSH_MSG_CHANNEL_FAILURE           Both   Connection;
    192 SSH2_MSG_PING                     Both   Connection;
    193 SSH2_MSG_PONG                     Both   Connection;
}

/// The row of message `number`; `None` if the number is unknown.
#[must_use]
pub fn info(number: u8) -> Option<&'static MessageInfo> {
    MESSAGES
        .binary_search_by_key(&number, |row| row.number)
        .ok()
        .and_then(|index| MESSAGES.get(index))
}
