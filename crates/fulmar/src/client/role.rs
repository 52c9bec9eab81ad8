//! The client's part on the connection's thread: during the login it passes events to the caller;
//! after it, it refuses the server's requests.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use proto::Event;
use wire::message::open_failure;

use crate::Error;
use crate::link::{Core, Role};

/// Most bytes of the server's banner that are kept; the rest is dropped.
const MAX_BANNER_BYTES: usize = 64 * 1024;
/// Most login events that wait for the caller. Each answers a request of the caller, so a correct
/// server never sends more than a few.
pub(super) const MAX_LOGIN_EVENTS: usize = 16;

pub(super) struct ClientRole {
    pub(super) login: SyncSender<Event>,
    pub(super) banner: Arc<Mutex<String>>,
}

impl ClientRole {
    fn tell(&self, event: Event) -> Result<(), Error> {
        use std::sync::mpsc::TrySendError;
        match self.login.try_send(event) {
            // The session is being dropped, so no caller waits.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => {
                Err(proto::Error::PeerMisbehaved("answers that nobody asked for").into())
            }
        }
    }
}

impl Role for ClientRole {
    fn begin(&mut self, _core: &mut Core) {}

    fn event(&mut self, core: &mut Core, event: Event) -> Result<(), Error> {
        let connection = core.driver.connection();
        match event {
            Event::HostKey { .. }
            | Event::UserauthReady
            | Event::AuthSuccess(_)
            | Event::AuthFailure { .. }
            | Event::AuthPkOk { .. }
            | Event::AuthInfoRequest { .. }
            | Event::AuthChangePassword { .. } => self.tell(event)?,
            Event::AuthBanner(text) => {
                let mut banner = self.banner.lock().unwrap_or_else(PoisonError::into_inner);
                keep(&mut banner, &text);
            }
            Event::ChannelOpenRequest { channel, .. } => connection.reject_channel(
                channel,
                open_failure::ADMINISTRATIVELY_PROHIBITED,
                "this client takes no channels",
            )?,
            Event::ChannelRequest {
                channel,
                want_reply: true,
                ..
            } => connection.channel_reply(channel, false)?,
            _ => {}
        }
        Ok(())
    }

    fn timer(&mut self, _core: &mut Core, _token: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// Appends the characters of `text` that still fit.
fn keep(banner: &mut String, text: &str) {
    let room = MAX_BANNER_BYTES.saturating_sub(banner.len());
    let fitting = text
        .char_indices()
        .map(|(at, each)| at + each.len_utf8())
        .take_while(|end| *end <= room)
        .last()
        .unwrap_or(0);
    banner.push_str(text.get(..fitting).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_cut_at_a_character() {
        let mut banner = "x".repeat(MAX_BANNER_BYTES - 4);
        keep(&mut banner, "aéß");
        assert_eq!(banner.len(), MAX_BANNER_BYTES - 1);
        assert!(banner.ends_with("aé"));
        keep(&mut banner, &"é".repeat(100));
        assert_eq!(banner.len(), MAX_BANNER_BYTES - 1);
    }
}
