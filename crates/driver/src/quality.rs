//! Which of the two values of `IPQoS` a connection's open channels ask for, as OpenSSH 10.1 and later
//! decide.

use proto::{ChannelId, Connection};
use wire::names;

/// True for the interactive value: no open channel is bulk. Forwarded connections and sessions
/// without a terminal are bulk, those to the agent are not. `None` if no channel decides, as before
/// a session has started.
pub fn is_interactive(
    connection: &Connection,
    has_terminal: impl Fn(ChannelId) -> bool,
) -> Option<bool> {
    let mut interactive = None;
    for status in connection.channel_statuses() {
        // A session gets its label when it starts.
        let is_silent = matches!(
            status.kind,
            names::CHANNEL_SESSION | names::CHANNEL_AGENT | names::CHANNEL_AGENT_OPENSSH
        );
        let decides = status.is_open && !is_silent;
        if decides {
            let is_session = status.kind.starts_with("session:");
            interactive = Some(is_session && has_terminal(status.channel));
            if interactive == Some(false) {
                break;
            }
        }
    }
    interactive
}
