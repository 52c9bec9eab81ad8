//! Channel requests, RFC 4254 §6 and those of OpenSSH.

use alloc::string::String;
use alloc::vec::Vec;

use wire::{DecodeError, Put, Reader, names};

/// Longest `TERM` of a terminal that is asked for: no terminal's name is nearly as long.
const MAX_TERM_BYTES: usize = 4096;
/// Longest encoded terminal modes, 819 of them. RFC 4254 §8 has fewer than 256.
const MAX_MODES_BYTES: usize = 4096;
/// Longest name of a signal (RFC 4254 §6.9).
const MAX_SIGNAL_NAME_BYTES: usize = 64;

/// A request on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `pty-req`, RFC 4254 §6.2.
    Pty {
        /// Value of `TERM`.
        term: Vec<u8>,
        /// Width in characters.
        columns: u32,
        /// Height in rows.
        rows: u32,
        /// Width in pixels.
        width_px: u32,
        /// Height in pixels.
        height_px: u32,
        /// Encoded terminal modes, RFC 4254 §8.
        modes: Vec<u8>,
    },
    /// `env`, RFC 4254 §6.4.
    Env {
        /// Variable name.
        name: Vec<u8>,
        /// Variable value.
        value: Vec<u8>,
    },
    /// `agent-req` (RFC 9987) or `auth-agent-req@openssh.com`: the client serves
    /// connections to its agent.
    AgentForwarding {
        /// True for the draft's names of the request and its channels.
        standard: bool,
    },
    /// `x11-req`, RFC 4254 §6.3.1: the client serves connections to its X server.
    X11 {
        /// The listener ends with its first connection.
        single_connection: bool,
        /// The name of the authentication protocol.
        protocol: Vec<u8>,
        /// The cookie, in hexadecimal digits.
        cookie: Vec<u8>,
        /// The screen's number.
        screen: u32,
    },
    /// `shell`, RFC 4254 §6.5.
    Shell,
    /// `exec`, RFC 4254 §6.5.
    Exec {
        /// The command line.
        command: Vec<u8>,
    },
    /// `subsystem`, RFC 4254 §6.5.
    Subsystem {
        /// Subsystem name.
        name: Vec<u8>,
    },
    /// `window-change`, RFC 4254 §6.7.
    WindowChange {
        /// Width in characters.
        columns: u32,
        /// Height in rows.
        rows: u32,
        /// Width in pixels.
        width_px: u32,
        /// Height in pixels.
        height_px: u32,
    },
    /// `signal`, RFC 4254 §6.9.
    Signal {
        /// Signal name without `SIG`.
        name: String,
    },
    /// `break`, RFC 4335.
    Break {
        /// Length of the break, milliseconds.
        ms: u32,
    },
    /// `exit-status`, RFC 4254 §6.10.
    ExitStatus {
        /// The command's exit status.
        status: u32,
    },
    /// `exit-signal`, RFC 4254 §6.10.
    ExitSignal {
        /// Signal name without `SIG`.
        name: String,
        /// True if a core was dumped.
        core_dumped: bool,
        /// Error message for the user.
        message: String,
        /// RFC 3066 language tag.
        language: String,
    },
    /// `eow@openssh.com`: the sender reads no more data.
    Eow,
    /// Fulmar's `reset@fulmar.invalid`: the connection that the channel carries was reset.
    Reset,
    /// An unknown request, or one with a field that is too long.
    Unknown {
        /// Request name.
        name: String,
        /// The request's undecoded fields.
        fields: Vec<u8>,
    },
}

impl Request {
    /// The request's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Pty { .. } => names::REQUEST_PTY,
            Self::Env { .. } => names::REQUEST_ENV,
            Self::AgentForwarding { standard: true } => names::REQUEST_AGENT,
            Self::AgentForwarding { standard: false } => names::REQUEST_AGENT_OPENSSH,
            Self::X11 { .. } => names::REQUEST_X11,
            Self::Shell => names::REQUEST_SHELL,
            Self::Exec { .. } => names::REQUEST_EXEC,
            Self::Subsystem { .. } => names::REQUEST_SUBSYSTEM,
            Self::WindowChange { .. } => names::REQUEST_WINDOW_CHANGE,
            Self::Signal { .. } => names::REQUEST_SIGNAL,
            Self::Break { .. } => names::REQUEST_BREAK,
            Self::ExitStatus { .. } => names::REQUEST_EXIT_STATUS,
            Self::ExitSignal { .. } => names::REQUEST_EXIT_SIGNAL,
            Self::Eow => names::REQUEST_EOW,
            Self::Reset => names::REQUEST_RESET,
            Self::Unknown { name, .. } => name,
        }
    }

    /// Encodes the fields that follow `want_reply`.
    pub(crate) fn encode_fields(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Pty {
                term,
                columns,
                rows,
                width_px,
                height_px,
                modes,
            } => {
                out.put_string(term);
                for value in [columns, rows, width_px, height_px] {
                    out.put_u32(*value);
                }
                out.put_string(modes);
            }
            Self::Env { name, value } => {
                out.put_string(name);
                out.put_string(value);
            }
            Self::AgentForwarding { .. } | Self::Shell | Self::Eow | Self::Reset => {}
            Self::X11 {
                single_connection,
                protocol,
                cookie,
                screen,
            } => {
                out.put_bool(*single_connection);
                out.put_string(protocol);
                out.put_string(cookie);
                out.put_u32(*screen);
            }
            Self::Exec { command } => out.put_string(command),
            Self::Subsystem { name } => out.put_string(name),
            Self::WindowChange {
                columns,
                rows,
                width_px,
                height_px,
            } => {
                for value in [columns, rows, width_px, height_px] {
                    out.put_u32(*value);
                }
            }
            Self::Signal { name } => out.put_string(name.as_bytes()),
            Self::Break { ms } => out.put_u32(*ms),
            Self::ExitStatus { status } => out.put_u32(*status),
            Self::ExitSignal {
                name,
                core_dumped,
                message,
                language,
            } => {
                out.put_string(name.as_bytes());
                out.put_bool(*core_dumped);
                out.put_string(message.as_bytes());
                out.put_string(language.as_bytes());
            }
            Self::Unknown { fields, .. } => out.extend_from_slice(fields),
        }
        out
    }

    /// Decodes a request. One with a field that is longer than any program takes is [`Request::Unknown`],
    /// so that it is refused and the connection goes on.
    ///
    /// # Errors
    /// [`DecodeError`] if a field of a known request is missing or malformed.
    pub fn decode(name: &[u8], fields: &[u8]) -> Result<Self, DecodeError> {
        match Self::decode_known(name, fields) {
            Err(DecodeError::TooLong { .. }) => Ok(Self::Unknown {
                name: String::from_utf8_lossy(name).into_owned(),
                fields: fields.to_vec(),
            }),
            decoded => decoded,
        }
    }

    fn decode_known(name: &[u8], fields: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let request = match core::str::from_utf8(name).unwrap_or_default() {
            names::REQUEST_PTY => Self::Pty {
                term: reader.string_max(MAX_TERM_BYTES)?.to_vec(),
                columns: reader.u32()?,
                rows: reader.u32()?,
                width_px: reader.u32()?,
                height_px: reader.u32()?,
                modes: reader.string_max(MAX_MODES_BYTES)?.to_vec(),
            },
            names::REQUEST_ENV => Self::Env {
                name: reader.string()?.to_vec(),
                value: reader.string()?.to_vec(),
            },
            names::REQUEST_AGENT => Self::AgentForwarding { standard: true },
            names::REQUEST_AGENT_OPENSSH => Self::AgentForwarding { standard: false },
            names::REQUEST_X11 => Self::X11 {
                single_connection: reader.bool()?,
                protocol: reader.string()?.to_vec(),
                cookie: reader.string()?.to_vec(),
                screen: reader.u32()?,
            },
            names::REQUEST_SHELL => Self::Shell,
            names::REQUEST_EXEC => Self::Exec {
                command: reader.string()?.to_vec(),
            },
            names::REQUEST_SUBSYSTEM => Self::Subsystem {
                name: reader.string()?.to_vec(),
            },
            names::REQUEST_WINDOW_CHANGE => Self::WindowChange {
                columns: reader.u32()?,
                rows: reader.u32()?,
                width_px: reader.u32()?,
                height_px: reader.u32()?,
            },
            names::REQUEST_SIGNAL => Self::Signal {
                name: text(reader.string_max(MAX_SIGNAL_NAME_BYTES)?),
            },
            names::REQUEST_BREAK => Self::Break { ms: reader.u32()? },
            names::REQUEST_EXIT_STATUS => Self::ExitStatus {
                status: reader.u32()?,
            },
            names::REQUEST_EXIT_SIGNAL => Self::ExitSignal {
                name: text(reader.string_max(MAX_SIGNAL_NAME_BYTES)?),
                core_dumped: reader.bool()?,
                message: text(reader.string()?),
                language: text(reader.string()?),
            },
            names::REQUEST_EOW => Self::Eow,
            names::REQUEST_RESET => Self::Reset,
            _ => Self::Unknown {
                name: text(name),
                fields: reader.rest().to_vec(),
            },
        };
        reader.finish()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    fn pty(term: usize, modes: usize) -> Request {
        Request::Pty {
            term: alloc::vec![b'x'; term],
            columns: 80,
            rows: 24,
            width_px: 0,
            height_px: 0,
            modes: alloc::vec![0; modes],
        }
    }

    #[test]
    fn a_request_with_a_field_that_is_too_long_is_unknown_and_no_error() {
        let signal = |bytes: usize| Request::Signal {
            name: "X".repeat(bytes),
        };
        for good in [pty(300, 0), pty(4096, 4096), signal(64)] {
            let decoded = Request::decode(good.name().as_bytes(), &good.encode_fields());
            assert_eq!(decoded, Ok(good));
        }
        for long in [pty(4097, 0), pty(0, 4097), signal(65)] {
            let (name, fields) = (long.name().to_owned(), long.encode_fields());
            let decoded = Request::decode(name.as_bytes(), &fields);
            assert_eq!(decoded, Ok(Request::Unknown { name, fields }));
        }
        let cut = pty(5, 5).encode_fields();
        let cut = Request::decode(b"pty-req", &cut[..cut.len() - 1]);
        assert_eq!(cut, Err(DecodeError::Truncated));
    }
}
