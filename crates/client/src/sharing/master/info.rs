//! The texts about the connection that passengers ask for (`-O conninfo`, `-O channels`,
//! `-O status`), which the session makes.

use driver::Driver;
use proto::ChannelId;

use super::Master;
use crate::log::debug2;
use crate::sharing::message::{
    INFO_CHANNELS, INFO_CONNECTION, INFO_STATUS, INFO_STATUS_JSON, MasterReply,
};

/// A text about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InfoText {
    /// That of `~I`.
    Connection,
    /// That of `~#`.
    Channels,
    /// Sessions, forwardings, bytes, round trip, age.
    Status {
        /// As JSON.
        json: bool,
    },
}

impl InfoText {
    /// The text of this name; `None` if there is none.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let texts = [
            (INFO_CONNECTION, Self::Connection),
            (INFO_CHANNELS, Self::Channels),
            (INFO_STATUS, Self::Status { json: false }),
            (INFO_STATUS_JSON, Self::Status { json: true }),
        ];
        let mut texts = texts.into_iter();
        texts.find_map(|(each, text)| (each.as_bytes() == name).then_some(text))
    }
}

/// A passenger, for the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassengerStatus {
    /// Its process; `None` if it is gone.
    pub(crate) pid: Option<i32>,
    /// Its user's number.
    pub(crate) uid: Option<u32>,
    /// The session's channel; `None` if the passenger has none.
    pub(crate) channel: Option<ChannelId>,
    /// What it does.
    pub(crate) what: String,
}

impl Master {
    /// The texts that the session is to make, with their passengers and requests.
    pub(crate) fn take_texts(&mut self) -> Vec<(u64, u32, InfoText)> {
        std::mem::take(&mut self.texts)
    }

    /// Sends a text to the passenger that has asked for it.
    pub(crate) fn give_text(
        &mut self,
        (serial, id): (u64, u32),
        text: String,
        driver: &mut Driver,
    ) {
        debug2!("passenger {serial}: text of {} bytes", text.len());
        self.answer(serial, &MasterReply::Info(id, true, text), driver);
    }

    /// Number, type and state of the channels that passengers in proxy mode speak for.
    pub(crate) fn proxied_channels(&self) -> impl Iterator<Item = (ChannelId, &str, bool)> {
        self.proxied.listed()
    }

    /// Who uses the connection now.
    pub(crate) fn passengers(&self) -> Vec<PassengerStatus> {
        let process = |serial: u64| {
            let control = self.controls.get(&serial)?;
            sys::socket::peer_credentials(control).ok()
        };
        let sessions = self.sessions.iter().map(|(channel, session)| {
            let peer = session.passenger().and_then(process);
            PassengerStatus {
                pid: peer.as_ref().map(|peer| peer.pid),
                uid: peer.as_ref().map(|peer| peer.uid),
                channel: Some(*channel),
                what: session.shown(),
            }
        });
        let proxies = self
            .controls
            .iter()
            .filter(|(_, control)| control.is_proxy());
        let proxies = proxies.map(|(serial, _)| {
            let peer = process(*serial);
            PassengerStatus {
                pid: peer.as_ref().map(|peer| peer.pid),
                uid: peer.as_ref().map(|peer| peer.uid),
                channel: None,
                what: "proxy mode".into(),
            }
        });
        sessions.chain(proxies).collect()
    }
}
