//! One struct per message of the RPC and the table of all of them. Requests come from the
//! unprivileged side; each has the reply that its comment names, or none.

use wire::{DecodeError, Reader};

use crate::field::Field;
use crate::frame;

mod reply;
mod request;
mod start;

pub use reply::*;
pub use request::*;
pub use start::*;

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The auth process, to the monitor.
    Auth,
    /// The session process, to the monitor.
    Session,
    /// Either of the two, to the monitor.
    AuthOrSession,
    /// The monitor.
    Monitor,
    /// The listener, to a monitor that it starts.
    Listener,
    /// The auth process to the monitor, which hands it to the session unread.
    Relayed,
}

/// A row of the table of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// Number on the wire.
    pub number: u8,
    /// Name for logs.
    pub name: &'static str,
    /// Who sends it.
    pub sender: Sender,
}

/// A message of the RPC.
pub trait Message: Sized {
    /// Number on the wire.
    const NUMBER: u8;
    /// Name for logs.
    const NAME: &'static str;

    /// The fields without the frame.
    fn encode_body(&self) -> Vec<u8>;

    /// Reads the fields; nothing may follow them.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn decode_body(body: &[u8]) -> Result<Self, DecodeError>;

    /// The whole frame, ready to be written.
    fn encode_frame(&self) -> Vec<u8> {
        frame::frame(Self::NUMBER, &self.encode_body())
    }
}

macro_rules! messages {
    ($($number:literal $name:ident $sender:ident;)*) => {
        /// The table of messages, ascending by number.
        pub const MESSAGES: &[MessageInfo] = &[
            $(MessageInfo { number: $number, name: stringify!($name), sender: Sender::$sender },)*
        ];

        $(impl Message for $name {
            const NUMBER: u8 = $number;
            const NAME: &'static str = stringify!($name);
            fn encode_body(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.write(&mut out);
                out
            }
            fn decode_body(body: &[u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(body);
                let message = Self::read(&mut reader)?;
                reader.finish()?;
                Ok(message)
            }
        })*
    };
}

messages! {
    1 Log AuthOrSession;
    2 ChooseGroup Auth;
    3 SignExchangeHash AuthOrSession;
    4 User Auth;
    5 AuthNone Auth;
    6 AuthPassword Auth;
    7 KbdintStart Auth;
    8 KbdintRespond Auth;
    9 KeyQuery Auth;
    10 KeyVerify Auth;
    11 Snapshot Relayed;
    12 AuthOther Auth;
    20 HostkeysProve Session;
    21 PtyAllocate Session;
    22 PtyRelease Session;
    64 AuthStart Monitor;
    65 Group Monitor;
    66 Signature Monitor;
    67 UserPolicy Monitor;
    68 AuthOutcome Monitor;
    69 KbdintPrompts Monitor;
    70 KeyAnswer Monitor;
    71 AuthConnection Monitor;
    80 SessionGrant Monitor;
    81 HostkeysProof Monitor;
    82 PtyGranted Monitor;
    83 PtyRefused Monitor;
    96 MonitorStart Listener;
    97 MonitorSecrets Listener;
    98 MonitorConnection Listener;
}

/// The row of the message with this number.
#[must_use]
pub fn info(number: u8) -> Option<&'static MessageInfo> {
    MESSAGES.iter().find(|info| info.number == number)
}

macro_rules! to_monitor {
    ($($name:ident),*) => {
        /// Any message that the monitor can be sent.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ToMonitor {
            $(#[allow(missing_docs)] $name($name),)*
        }

        impl ToMonitor {
            /// Reads the body of the message with this number.
            ///
            /// # Errors
            /// [`frame::FrameError`].
            pub fn decode(frame: &frame::Frame) -> Result<Self, frame::FrameError> {
                match frame.number {
                    $($name::NUMBER => Ok(Self::$name(frame.decode()?)),)*
                    other => Err(frame::FrameError::UnknownMessage(other)),
                }
            }
        }
    };
}

to_monitor!(
    Log,
    ChooseGroup,
    SignExchangeHash,
    User,
    AuthNone,
    AuthOther,
    AuthPassword,
    KbdintStart,
    KbdintRespond,
    KeyQuery,
    KeyVerify,
    Snapshot,
    HostkeysProve,
    PtyAllocate,
    PtyRelease
);
