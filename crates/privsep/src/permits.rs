//! Which requests the unprivileged side may send in which phase: one table. The receiver checks it
//! before the body of a message is read; a request that it does not permit ends the session.

use crate::message::{
    AuthNone, AuthOther, AuthPassword, ChooseGroup, GssExchange, GssapiKeyex, GssapiMic,
    GssapiStart, GssapiToken, HostbasedVerify, HostkeysProve, KbdintRespond, KbdintStart, KeyQuery,
    KeyVerify, Log, Message, PtyAllocate, PtyRelease, SignExchangeHash, Snapshot, TrafficReport,
    TunnelOpen, User,
};

/// State of a connection as the monitor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPhase {
    /// The monitor has signed no exchange hash yet, and made no MIC of one.
    KeyExchange,
    /// The session identifier is fixed; the client has named no user.
    BeforeUser,
    /// The client has named a user, who has not logged in.
    Authenticating,
    /// As [`Authenticating`](Self::Authenticating), with `keyboard-interactive` prompts that are
    /// not answered yet.
    Prompting,
    /// As [`Authenticating`](Self::Authenticating), with an open exchange of `gssapi-with-mic`.
    Exchanging,
    /// AuthenticationMethods is satisfied; the auth process has yet to send the snapshot.
    Authenticated,
    /// The auth process has sent the snapshot; no further message is accepted from it.
    HandedOver,
    /// The session process serves the user.
    Session,
}

impl LoginPhase {
    /// All phases in order.
    pub const ALL: [Self; 8] = [
        Self::KeyExchange,
        Self::BeforeUser,
        Self::Authenticating,
        Self::Prompting,
        Self::Exchanging,
        Self::Authenticated,
        Self::HandedOver,
        Self::Session,
    ];
}

const AUTHENTICATING: &[LoginPhase] = &[
    LoginPhase::Authenticating,
    LoginPhase::Prompting,
    LoginPhase::Exchanging,
];

/// Message number and the phases in which the message is permitted. A number without a row is never
/// permitted.
const PERMITS: &[(u8, &[LoginPhase])] = &[
    (
        Log::NUMBER,
        &[
            LoginPhase::KeyExchange,
            LoginPhase::BeforeUser,
            LoginPhase::Authenticating,
            LoginPhase::Prompting,
            LoginPhase::Exchanging,
            LoginPhase::Authenticated,
            LoginPhase::Session,
        ],
    ),
    // Before the login one key exchange is allowed, because it is cheap for the client and
    // expensive for the server; after the login any number at a limited rate.
    (
        ChooseGroup::NUMBER,
        &[LoginPhase::KeyExchange, LoginPhase::Session],
    ),
    (
        SignExchangeHash::NUMBER,
        &[LoginPhase::KeyExchange, LoginPhase::Session],
    ),
    (
        GssExchange::NUMBER,
        &[LoginPhase::KeyExchange, LoginPhase::Session],
    ),
    (User::NUMBER, &[LoginPhase::BeforeUser]),
    (AuthNone::NUMBER, AUTHENTICATING),
    (AuthOther::NUMBER, AUTHENTICATING),
    (AuthPassword::NUMBER, AUTHENTICATING),
    (KbdintStart::NUMBER, AUTHENTICATING),
    (KbdintRespond::NUMBER, &[LoginPhase::Prompting]),
    (KeyQuery::NUMBER, AUTHENTICATING),
    (KeyVerify::NUMBER, AUTHENTICATING),
    (HostbasedVerify::NUMBER, AUTHENTICATING),
    (GssapiStart::NUMBER, AUTHENTICATING),
    (GssapiToken::NUMBER, &[LoginPhase::Exchanging]),
    (GssapiMic::NUMBER, &[LoginPhase::Exchanging]),
    (GssapiKeyex::NUMBER, AUTHENTICATING),
    (Snapshot::NUMBER, &[LoginPhase::Authenticated]),
    (HostkeysProve::NUMBER, &[LoginPhase::Session]),
    (PtyAllocate::NUMBER, &[LoginPhase::Session]),
    (PtyRelease::NUMBER, &[LoginPhase::Session]),
    (TunnelOpen::NUMBER, &[LoginPhase::Session]),
    (TrafficReport::NUMBER, &[LoginPhase::Session]),
];

/// True if the unprivileged side may send the message with this number in `phase`.
#[must_use]
pub fn permitted(phase: LoginPhase, number: u8) -> bool {
    PERMITS
        .iter()
        .any(|(each, phases)| *each == number && phases.contains(&phase))
}
