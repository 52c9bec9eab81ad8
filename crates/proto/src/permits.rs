//! Which messages may arrive now: one function over the message table of `wire`.
//!
//! A message that is not permitted ends the connection. There are two exceptions, answered with
//! UNIMPLEMENTED (RFC 4253 §11.4), unread and limited in number: unknown message numbers after the
//! first key exchange, and messages that a client sent after a login request that then failed.

use wire::message::{
    Disconnect, Encode, ExtInfo, Phase as Belongs, Sender, ServiceRequest, UserauthRequest, info,
};

use crate::Role;

/// Phase of the connection that determines which messages are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
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
pub(crate) enum Verdict {
    /// Dispatch it.
    Permitted,
    /// The number is unknown, or not implemented in this phase: answer UNIMPLEMENTED.
    Unknown,
    /// End the connection.
    Forbidden,
}

/// Decides whether `role` may receive message `number` in `standing`.
pub(crate) fn verdict(number: u8, role: Role, standing: Standing) -> Verdict {
    let Some(row) = info(number) else {
        return match standing {
            Standing::FirstKex | Standing::StrictFirstKex | Standing::Rekey => Verdict::Forbidden,
            // Numbers of key exchange methods that are not running are always an error.
            _ if (20..=49).contains(&number) => Verdict::Forbidden,
            _ => Verdict::Unknown,
        };
    };
    let sender = match (row.sender, role) {
        (Sender::Both, _) | (Sender::Client, Role::Server) | (Sender::Server, Role::Client) => true,
        // Either side may send numbers 30–34, depending on the method; the exchange checks them.
        _ => row.phase == Belongs::Kex,
    };
    // A client may pipeline a channel after the login request that it expects to succeed. If that
    // request fails, the connection continues, as with OpenSSH's server; the client recognizes its
    // messages by their sequence numbers.
    if (role, standing, row.phase) == (Role::Server, Standing::Userauth, Belongs::Connection)
        && sender
    {
        return Verdict::Unknown;
    }
    let phase = match (row.phase, standing) {
        (Belongs::Kex, _) => true,
        (Belongs::Always, Standing::StrictFirstKex) => number == Disconnect::NUMBER,
        (Belongs::Always, _) => true,
        // EXT_INFO follows NEWKEYS; the server may also send it just before USERAUTH_SUCCESS, or
        // during authentication in answer to `ext-info-in-auth`.
        (Belongs::Service, Standing::Service) => true,
        // Some clients (paramiko 2 to 4) request the service again before each attempt.
        (Belongs::Service, Standing::Userauth) => {
            matches!(number, ExtInfo::NUMBER | ServiceRequest::NUMBER)
        }
        (Belongs::Userauth, Standing::Userauth) => true,
        // A banner is permitted only after SERVICE_ACCEPT, with which the server begins
        // authentication (RFC 4252 §5.4). A client that pipelined several requests may get answers
        // late (RFC 4252 §5.1).
        (Belongs::Userauth, Standing::Connected) => {
            role == Role::Server && number == UserauthRequest::NUMBER
        }
        (Belongs::Connection, Standing::Connected) => true,
        _ => false,
    };
    if sender && phase {
        Verdict::Permitted
    } else {
        Verdict::Forbidden
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
                for standing in [
                    Standing::FirstKex,
                    Standing::StrictFirstKex,
                    Standing::Service,
                    Standing::Userauth,
                    Standing::Connected,
                    Standing::Rekey,
                ] {
                    line.push(match verdict(row.number, role, standing) {
                        Verdict::Permitted => '+',
                        Verdict::Unknown => '?',
                        Verdict::Forbidden => '.',
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
            let got = verdict(number, Role::Server, Standing::StrictFirstKex);
            assert_eq!(got == Verdict::Permitted, expected, "message {number}");
        }
    }

    #[test]
    fn channel_messages_before_login_are_forbidden() {
        for number in 80..=100 {
            for standing in [Standing::Service, Standing::Userauth] {
                assert_ne!(verdict(number, Role::Server, standing), Verdict::Permitted);
            }
        }
    }

    #[test]
    fn channel_messages_behind_a_login_that_failed_are_unimplemented_and_earlier_forbidden() {
        for number in (80..=82).chain(90..=100) {
            assert_eq!(
                verdict(number, Role::Server, Standing::Userauth),
                Verdict::Unknown
            );
            assert_eq!(
                verdict(number, Role::Client, Standing::Userauth),
                Verdict::Forbidden
            );
            for standing in [
                Standing::FirstKex,
                Standing::StrictFirstKex,
                Standing::Service,
                Standing::Rekey,
            ] {
                let got = verdict(number, Role::Server, standing);
                assert_eq!(got, Verdict::Forbidden, "{number} {standing:?}");
            }
        }
    }

    #[test]
    fn a_client_cannot_send_what_only_servers_say() {
        for number in [51, 52, 53, 60] {
            assert_eq!(
                verdict(number, Role::Server, Standing::Userauth),
                Verdict::Forbidden
            );
        }
    }
}
