//! Forwarding of datagrams, which only Fulmar's server offers (docs/PROTOCOL.md).

use config::forward::{ForwardListen, ForwardSpec};
use proto::Connection;

use crate::log::error;
use crate::text::one_line;

/// The text of a remote forwarding that the server does not offer.
pub(super) const NOT_REQUESTED: &str = "Could not request remote forwarding.";
/// Why it is refused.
pub(super) const UNSUPPORTED: &str =
    "this server does not offer UDP forwarding (Fulmar's sshd does)";

/// False for a forwarding of datagrams that the server does not offer, which is reported.
pub(super) fn is_possible(spec: &ForwardSpec, connection: &Connection) -> bool {
    let is_udp = matches!(spec.listen, ForwardListen::Udp { .. });
    let is_possible = !is_udp || connection.udp_forward_supported();
    if !is_possible {
        let words = one_line(&spec.words().join(" to "));
        error!("Cannot forward {words}: {UNSUPPORTED}.");
    }
    is_possible
}
