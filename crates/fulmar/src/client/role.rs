//! The client's part on the connection's thread, after the login: it refuses the server's requests.

use proto::Event;
use wire::message::open_failure;

use crate::Error;
use crate::link::{Core, Role};

/// Most bytes of the server's banner that are kept; the rest is dropped.
const MAX_BANNER_BYTES: usize = 64 * 1024;
/// Refuses what a server asks of a client.
pub(super) struct ClientRole;

impl Role for ClientRole {
    fn begin(&mut self, _core: &mut Core) {}

    fn event(&mut self, core: &mut Core, event: Event) -> Result<(), Error> {
        let connection = core.driver.connection();
        match event {
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
pub(super) fn keep(banner: &mut String, text: &str) {
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
