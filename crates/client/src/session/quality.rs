//! The type of service of the session's socket, which follows its open channels (`IPQoS`).

use config::types::IpQos;

use super::ClientSession;
use crate::connect;

/// The state of the socket.
#[derive(Debug, Default)]
pub(super) struct SocketQuality {
    ip_qos: IpQos,
    interactive: bool,
    /// The connection's count of changes of channels that it reflects.
    seen: u64,
}

impl SocketQuality {
    pub(super) fn new(ip_qos: IpQos, interactive: bool) -> Self {
        Self {
            ip_qos,
            interactive,
            seen: 0,
        }
    }
}

impl ClientSession<'_> {
    /// Sets the type of service if the open channels ask for another one.
    pub(super) fn update_quality(&mut self) {
        let connection = self.driver.connection();
        let changes = connection.channel_changes();
        if changes == self.quality.seen {
            return;
        }
        self.quality.seen = changes;
        let has_pty = self.plan.pty.is_some();
        let wanted = driver::is_interactive(connection, |channel| {
            let master = self.master.as_ref();
            (has_pty && Some(channel) == self.channel)
                || master.is_some_and(|master| master.has_terminal(channel))
        });
        if let Some(interactive) = wanted.filter(|wanted| *wanted != self.quality.interactive) {
            self.quality.interactive = interactive;
            connect::set_quality(self.driver.socket(), self.quality.ip_qos, interactive);
        }
    }
}
