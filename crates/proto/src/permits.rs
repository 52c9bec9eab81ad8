//! Which messages may arrive now: one function over the message table of `wire`.
//!
//! A message that is not permitted ends the connection. There are two exceptions, answered with
//! UNIMPLEMENTED (RFC 4253 §11.4), unread and limited in number: unknown message numbers after the
//! first key exchange, and messages that a client sent after a login request that then failed.

use wire::message::{
    Disconnect, Encode, ExtInfo, KEX_NUMBERS, Phase as SentIn, Sender, ServiceRequest,
    UserauthRequest, info,
};

use crate::Role;

/// Phase of the connection that determines which messages are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// First key exchange, before it is known whether the peer's KEXINIT promises strict KEX.
    FirstKex,
    /// First key exchange under strict KEX: only its own messages are permitted.
    StrictFirstKex,
    /// Waiting for SERVICE_REQUEST or SERVICE_ACCEPT.
    Service,
    /// User authentication.
    Userauth,
    /// Logged in.
    Connected,
    /// Rekey, between the peer's KEXINIT and its NEWKEYS: the peer may send only key exchange and
    /// transport messages (RFC 4253 §7.1).
    Rekey,
}

/// Decision about one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Dispatch it.
    Permitted,
    /// The number is unknown, or not implemented in this phase: answer UNIMPLEMENTED.
    Unknown,
    /// End the connection.
    Forbidden,
}

/// The internal error of a message that is permitted and has no arm in the code that handles it.
pub(crate) const NO_ARM: &str = "a permitted message has no arm";

/// Decides whether `role` may receive message `number` in `phase`.
pub(crate) fn permission(number: u8, role: Role, phase: ConnectionPhase) -> Permission {
    let Some(row) = info(number) else {
        return match phase {
            ConnectionPhase::FirstKex
            | ConnectionPhase::StrictFirstKex
            | ConnectionPhase::Rekey => Permission::Forbidden,
            // Numbers of key exchange methods that are not running are always an error.
            _ if KEX_NUMBERS.contains(&number) => Permission::Forbidden,
            _ => Permission::Unknown,
        };
    };
    let sender = match (row.sender, role) {
        (Sender::Both, _) | (Sender::Client, Role::Server) | (Sender::Server, Role::Client) => true,
        // Either side may send numbers 30–34, depending on the method; the exchange checks them.
        _ => row.phase == SentIn::Kex,
    };
    // A client may pipeline a channel after the login request that it expects to succeed. If that
    // request fails, the connection continues, as with OpenSSH's server; the client recognizes its
    // messages by their sequence numbers.
    if (role, phase, row.phase) == (Role::Server, ConnectionPhase::Userauth, SentIn::Connection)
        && sender
    {
        return Permission::Unknown;
    }
    let in_phase = match (row.phase, phase) {
        (SentIn::Kex, _) => true,
        (SentIn::Always, ConnectionPhase::StrictFirstKex) => number == Disconnect::NUMBER,
        (SentIn::Always, _) => true,
        // EXT_INFO follows NEWKEYS; the server may also send it just before USERAUTH_SUCCESS, or
        // during authentication in answer to `ext-info-in-auth`.
        (SentIn::Service, ConnectionPhase::Service) => true,
        // Some clients (paramiko 2 to 4) request the service again before each attempt.
        (SentIn::Service, ConnectionPhase::Userauth) => {
            matches!(number, ExtInfo::NUMBER | ServiceRequest::NUMBER)
        }
        (SentIn::Userauth, ConnectionPhase::Userauth) => true,
        // A banner is permitted only after SERVICE_ACCEPT, with which the server begins
        // authentication (RFC 4252 §5.4). A client that pipelined several requests may get answers
        // late (RFC 4252 §5.1).
        (SentIn::Userauth, ConnectionPhase::Connected) => {
            role == Role::Server && number == UserauthRequest::NUMBER
        }
        (SentIn::Connection, ConnectionPhase::Connected) => true,
        _ => false,
    };
    if sender && in_phase {
        Permission::Permitted
    } else {
        Permission::Forbidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use core::fmt::Write;
    use wire::message::MESSAGES;

    /// The whole matrix, so that a review shows each change of the rules as a change of this text.
    #[test]
    fn matrix_of_messages_and_standings() {
        let mut text = String::new();
        for row in MESSAGES {
            let mut line = String::new();
            for role in [Role::Client, Role::Server] {
                for phase in [
                    ConnectionPhase::FirstKex,
                    ConnectionPhase::StrictFirstKex,
                    ConnectionPhase::Service,
                    ConnectionPhase::Userauth,
                    ConnectionPhase::Connected,
                    ConnectionPhase::Rekey,
                ] {
                    line.push(match permission(row.number, role, phase) {
                        Permission::Permitted => '+',
                        Permission::Unknown => '?',
                        Permission::Forbidden => '.',
                    });
                }
                line.push(' ');
            }
            writeln!(text, "{:<3} {}{}", row.number, line, row.name).unwrap();
        }
        assert_eq!(text, include_str!("permits.snapshot"));
    }

    #[test]
    fn nothing_but_key_exchange_before_the_first_newkeys_under_strict_kex() {
        for number in 0..=255 {
            let expected =
                number == 1 || (20..=21).contains(&number) || (30..=34).contains(&number);
            let got = permission(number, Role::Server, ConnectionPhase::StrictFirstKex);
            assert_eq!(got == Permission::Permitted, expected, "message {number}");
        }
    }

    #[test]
    fn channel_messages_before_login_are_forbidden() {
        for number in 80..=100 {
            for phase in [ConnectionPhase::Service, ConnectionPhase::Userauth] {
                assert_ne!(
                    permission(number, Role::Server, phase),
                    Permission::Permitted
                );
            }
        }
    }

    #[test]
    fn channel_messages_behind_a_login_that_failed_are_unimplemented_and_earlier_forbidden() {
        for number in (80..=82).chain(90..=100) {
            assert_eq!(
                permission(number, Role::Server, ConnectionPhase::Userauth),
                Permission::Unknown
            );
            assert_eq!(
                permission(number, Role::Client, ConnectionPhase::Userauth),
                Permission::Forbidden
            );
            for phase in [
                ConnectionPhase::FirstKex,
                ConnectionPhase::StrictFirstKex,
                ConnectionPhase::Service,
                ConnectionPhase::Rekey,
            ] {
                let got = permission(number, Role::Server, phase);
                assert_eq!(got, Permission::Forbidden, "{number} {phase:?}");
            }
        }
    }

    #[test]
    fn a_client_cannot_send_what_only_servers_say() {
        for number in [51, 52, 53, 60] {
            assert_eq!(
                permission(number, Role::Server, ConnectionPhase::Userauth),
                Permission::Forbidden
            );
        }
    }
}
