//! Which of the two values of `IPQoS` a connection's open channels ask for, as OpenSSH 10.1 and later
//! decide.

use proto::{ChannelId, Connection};
use wire::names;

/// Type of channels to the forwarded agent.
const AGENT: &str = "auth-agent@openssh.com";

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
        let decides = status.is_open && !matches!(status.kind, names::CHANNEL_SESSION | AGENT);
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
