//! What may arrive now: one function over THE message table of `wire`.
//!
//! A message that is not permitted ends the connection, except after the first key exchange a
//! number that nobody knows, and what a client sent behind a request to log in that then failed:
//! both are answered with UNIMPLEMENTED (RFC 4253 §11.4), unread and of a bounded number.

use wire::message::{
    Disconnect, Encode, ExtInfo, Phase as Belongs, Sender, ServiceRequest, UserauthRequest, info,
};

use crate::Role;

/// Where the connection stands, as far as permissions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// First key exchange, before the peer's KEXINIT is known to promise strict KEX or not.
    FirstKex,
    /// First key exchange under strict KEX: its messages and no others.
    StrictFirstKex,
    /// Waiting for SERVICE_REQUEST or SERVICE_ACCEPT.
    Service,
    /// User authentication.
    Userauth,
    /// Logged in.
    Connected,
    /// The peer's KEXINIT of a rekey has come and its NEWKEYS has not: the peer must send
    /// nothing but key exchange and housekeeping (RFC 4253 §7.1).
    Rekey,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Hand it on.
    Permitted,
    /// Nobody knows this number, or nobody yet: UNIMPLEMENTED.
    Unknown,
    /// End the connection.
    Forbidden,
}

/// Whether `number` may arrive at `role` in `standing`.
pub(crate) fn verdict(number: u8, role: Role, standing: Standing) -> Verdict {
    let Some(row) = info(number) else {
        return match standing {
            Standing::FirstKex | Standing::StrictFirstKex | Standing::Rekey => Verdict::Forbidden,
            // Numbers of key exchange methods that do not run are never harmless.
            _ if (20..=49).contains(&number) => Verdict::Forbidden,
            _ => Verdict::Unknown,
        };
    };
    let sender = match (row.sender, role) {
        (Sender::Both, _) | (Sender::Client, Role::Server) | (Sender::Server, Role::Client) => true,
        // Numbers 30–34 belong to either side, by method; the exchange itself checks them.
        _ => row.phase == Belongs::Kex,
    };
    // A client may put its channel behind the request that it expects to succeed. When that one
    // fails, the connection goes on as with OpenSSH's server; the client knows its messages by
    // their sequence numbers.
    if (role, standing, row.phase) == (Role::Server, Standing::Userauth, Belongs::Connection)
        && sender
    {
        return Verdict::Unknown;
    }
    let phase = match (row.phase, standing) {
        (Belongs::Kex, _) => true,
        (Belongs::Always, Standing::StrictFirstKex) => number == Disconnect::NUMBER,
        (Belongs::Always, _) => true,
        // EXT_INFO comes after NEWKEYS, or from the server just before USERAUTH_SUCCESS, or in
        // answer to `ext-info-in-auth` during authentication.
        (Belongs::Service, Standing::Service) => true,
        // Some clients (paramiko 2 to 4) ask for the service again before each attempt.
        (Belongs::Service, Standing::Userauth) => {
            matches!(number, ExtInfo::NUMBER | ServiceRequest::NUMBER)
        }
        (Belongs::Userauth, Standing::Userauth) => true,
        // A server's banner can cross the client's service request; RFC 4252 §5.4 allows it any
        // time after authentication began, which the server counts from its accept.
        // A client that pipelined several requests may see them answered late (RFC 4252 §5.1).
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

    /// The whole matrix, so that a change of the rules shows in review as a change of this text.
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
