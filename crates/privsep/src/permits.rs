//! What the unprivileged side may ask in which phase. One table; anything that it does not
//! permit ends the session, before the body is looked at.

use crate::message::{
    AuthNone, AuthOther, AuthPassword, ChooseGroup, HostkeysProve, KbdintRespond, KbdintStart,
    KeyQuery, KeyVerify, Log, Message, PtyAllocate, PtyRelease, SignExchangeHash, Snapshot, User,
};

/// How far a connection has come, in the monitor's eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No exchange hash was signed yet.
    KeyExchange,
    /// The session identifier is fixed; no user was named.
    BeforeUser,
    /// A user was named and has not logged in.
    Authenticating,
    /// As [`Authenticating`](Self::Authenticating), with prompts that wait for answers.
    Prompting,
    /// The chain is complete; the snapshot is to come.
    Authenticated,
    /// The auth process has handed over; nothing more is heard from it.
    HandedOver,
    /// The session process serves the user.
    Session,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Self; 7] = [
        Self::KeyExchange,
        Self::BeforeUser,
        Self::Authenticating,
        Self::Prompting,
        Self::Authenticated,
        Self::HandedOver,
        Self::Session,
    ];
}

const AUTHENTICATING: &[Phase] = &[Phase::Authenticating, Phase::Prompting];

/// The table: message number and the phases in which it is permitted. A number that is not
/// here is never permitted.
const PERMITS: &[(u8, &[Phase])] = &[
    (
        Log::NUMBER,
        &[
            Phase::KeyExchange,
            Phase::BeforeUser,
            Phase::Authenticating,
            Phase::Prompting,
            Phase::Authenticated,
            Phase::Session,
        ],
    ),
    // One exchange before the login (a cheap client must not cause dear work), any number at a
    // bounded rate after it.
    (ChooseGroup::NUMBER, &[Phase::KeyExchange, Phase::Session]),
    (
        SignExchangeHash::NUMBER,
        &[Phase::KeyExchange, Phase::Session],
    ),
    (User::NUMBER, &[Phase::BeforeUser]),
    (AuthNone::NUMBER, AUTHENTICATING),
    (AuthOther::NUMBER, AUTHENTICATING),
    (AuthPassword::NUMBER, AUTHENTICATING),
    (KbdintStart::NUMBER, AUTHENTICATING),
    (KbdintRespond::NUMBER, &[Phase::Prompting]),
    (KeyQuery::NUMBER, AUTHENTICATING),
    (KeyVerify::NUMBER, AUTHENTICATING),
    (Snapshot::NUMBER, &[Phase::Authenticated]),
    (HostkeysProve::NUMBER, &[Phase::Session]),
    (PtyAllocate::NUMBER, &[Phase::Session]),
    (PtyRelease::NUMBER, &[Phase::Session]),
];

/// Whether the message with this number may be sent to the monitor in `phase`.
#[must_use]
pub fn permitted(phase: Phase, number: u8) -> bool {
    PERMITS
        .iter()
        .any(|(each, phases)| *each == number && phases.contains(&phase))
}
