//! One struct per message of the RPC and the table of all messages. The unprivileged side sends the
//! requests; the doc comment of a request names its reply, if it has one.

use wire::{DecodeError, Reader};

use crate::field::Field;
use crate::frame::{self, Frame, FrameError};

mod reply;
mod request;
mod start;

pub use reply::*;
pub use request::*;
pub use start::*;

/// Which process sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The auth process, to the monitor.
    Auth,
    /// The session process, to the monitor.
    Session,
    /// Either of the two, to the monitor.
    AuthOrSession,
    /// Either of the auth and the session process, to the monitor.
    Monitor,
    /// The listener, to a monitor or reader that it starts or has started.
    Listener,
    /// A reader, to the listener.
    Reader,
    /// The auth process to the monitor, which forwards it to the session process without decoding
    /// it.
    Relayed,
}

/// A row of the table of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// Number in the frame header.
    pub number: u8,
    /// Name for logs.
    pub name: &'static str,
    /// The process that sends the message.
    pub sender: Sender,
}

/// A message of the RPC.
pub trait Message: Sized {
    /// Number in the frame header.
    const NUMBER: u8;
    /// Name for logs.
    const NAME: &'static str;

    /// Encodes the fields, without the frame header.
    fn encode_body(&self) -> Vec<u8>;

    /// Decodes the fields; no byte may follow them.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is malformed or bytes are left over.
    fn decode_body(body: &[u8]) -> Result<Self, DecodeError>;

    /// Encodes the whole frame.
    fn encode_frame(&self) -> Vec<u8> {
        frame::frame(Self::NUMBER, &self.encode_body())
    }
}

impl Frame {
    /// Decodes the body as the message `M`.
    ///
    /// # Errors
    /// [`FrameError::Body`], with `WrongMessage` if the frame has another message's number.
    pub fn decode<M: Message>(&self) -> Result<M, FrameError> {
        if self.number != M::NUMBER {
            return Err(FrameError::Body(DecodeError::WrongMessage {
                expected: M::NUMBER,
                got: self.number,
            }));
        }
        Ok(M::decode_body(&self.body)?)
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
    13 HostbasedVerify Auth;
    14 GssapiStart Auth;
    15 GssapiToken Auth;
    16 GssapiMic Auth;
    17 GssExchange AuthOrSession;
    18 GssapiKeyex Auth;
    20 HostkeysProve Session;
    21 PtyAllocate Session;
    22 PtyRelease Session;
    23 TunnelOpen Session;
    24 TrafficReport Session;
    64 AuthStart Monitor;
    65 Group Monitor;
    66 Signature Monitor;
    67 UserPolicy Monitor;
    68 AuthOutcome Monitor;
    69 KbdintPrompts Monitor;
    70 KeyAnswer Monitor;
    71 AuthConnection Monitor;
    72 GssapiReady Monitor;
    73 GssapiErrorToken Monitor;
    74 GssOutcome Monitor;
    80 SessionGrant Monitor;
    81 HostkeysProof Monitor;
    82 PtyGranted Monitor;
    83 PtyRefused Monitor;
    84 TunnelGranted Monitor;
    85 TunnelRefused Monitor;
    96 MonitorStart Listener;
    97 MonitorSecrets Listener;
    98 MonitorConnection Listener;
    99 ReadHeader Listener;
    100 HeaderRead Reader;
    101 AnswerRequest Listener;
    102 AttemptsReport Monitor;
    103 SessionReport Monitor;
}

const _: () = assert!(Snapshot::NUMBER == frame::SNAPSHOT);

/// Looks up the table row of the message with this number.
#[must_use]
pub fn info(number: u8) -> Option<&'static MessageInfo> {
    MESSAGES.iter().find(|info| info.number == number)
}

macro_rules! to_monitor {
    ($($name:ident),*) => {
        /// A decoded message to the monitor.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ToMonitor {
            $(#[allow(missing_docs)] $name($name),)*
        }

        impl ToMonitor {
            /// Decodes the frame's body as the message that its number names.
            ///
            /// # Errors
            /// [`FrameError::UnknownMessage`] for a number that the monitor does not
            /// receive, [`FrameError::Body`] for a malformed body.
            pub fn decode(frame: &Frame) -> Result<Self, FrameError> {
                match frame.number {
                    $($name::NUMBER => Ok(Self::$name(frame.decode()?)),)*
                    other => Err(FrameError::UnknownMessage(other)),
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
    HostbasedVerify,
    GssapiStart,
    GssapiToken,
    GssapiMic,
    GssExchange,
    GssapiKeyex,
    Snapshot,
    HostkeysProve,
    PtyAllocate,
    PtyRelease,
    TunnelOpen,
    TrafficReport
);
