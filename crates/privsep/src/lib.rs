//! The RPC between the privileged monitor and the two unprivileged halves of the server:
//! one struct per message ([`message`]), the frame around it ([`frame`]), and the one table of
//! what each half may ask when ([`permits`]). Architecture §2.9 and §2.10.
//!
//! Invariants: a frame is bounded before anything is allocated for it; a count never allocates;
//! every field is length-checked and nothing may follow the last one. The permits are asked
//! *before* a body is decoded.
//!
//! No I/O lives here: the callers own the sockets. What a request means is `monitor`'s; how the
//! halves come by the content is `server`'s.
#![forbid(unsafe_code)]

mod field;
pub mod frame;
mod log_text;
pub mod message;
pub mod permits;
pub mod roles;

#[cfg(test)]
mod tests;

pub use field::Secret;
pub use frame::{
    Frame, FrameError, FrameHeader, FrameSplitter, MAX_FRAME_BYTES, MAX_SNAPSHOT_BYTES,
};
pub use log_text::{MAX_LOG_TEXT_BYTES, log_text};
pub use message::{
    AuthConnection, AuthNone, AuthOther, AuthOutcome, AuthPassword, AuthStart, ChooseGroup, Group,
    HostKey, HostkeysProof, HostkeysProve, KbdintPrompts, KbdintRespond, KbdintStart, KeyAnswer,
    KeyQuery, KeyVerify, LastLogin, Log, LogLevel, MESSAGES, Message, MessageInfo,
    MonitorConnection, MonitorSecrets, MonitorStart, Prompt, PtyAllocate, PtyGranted, PtyRefused,
    PtyRelease, Restrictions, Sender, SessionGrant, SignExchangeHash, Signature, Snapshot,
    ToMonitor, User, UserPolicy,
};
pub use permits::{Phase, permitted};
