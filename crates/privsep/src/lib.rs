//! The RPC between the privileged monitor and the two unprivileged processes of the server (auth
//! and session): one struct per message ([`message`]), the frame around it ([`frame`]), and the
//! table of which messages each phase permits ([`permits`]).
//!
//! Invariants: a frame's length is checked before its buffer is allocated; no count reserves
//! memory; every field is length-checked and no byte may follow the last field. The receiver checks
//! the permits *before* it decodes a body.
//!
//! This crate does no I/O: the callers own the sockets. `monitor` implements the requests; `server`
//! fills them.
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
    AnswerRequest, AttemptsReport, AuthConnection, AuthNone, AuthOther, AuthOutcome, AuthPassword,
    AuthStart, ChooseGroup, Group, GssExchange, GssOutcome, GssapiErrorToken, GssapiKeyex,
    GssapiMic, GssapiReady, GssapiStart, GssapiToken, HeaderRead, HostKey, HostbasedVerify,
    HostkeysProof, HostkeysProve, KbdintPrompts, KbdintRespond, KbdintStart, KeyAnswer, KeyQuery,
    KeyVerify, LastLogin, Log, LogLevel, MESSAGES, Message, MessageInfo, MonitorConnection,
    MonitorSecrets, MonitorStart, Prompt, PtyAllocate, PtyGranted, PtyRefused, PtyRelease,
    ReadHeader, Restrictions, Sender, SessionGrant, SessionReport, SignExchangeHash, Signature,
    Snapshot, ToMonitor, TrafficReport, TunnelGranted, TunnelOpen, TunnelRefused, User, UserPolicy,
};
pub use permits::{LoginPhase, permitted};
