//! Decides which connections a client may forward: AllowTcpForwarding, AllowStreamLocalForwarding,
//! AllowAgentForwarding, DisableForwarding, PermitOpen and PermitListen of the configuration, and `restrict`,
//! `no-port-forwarding`, `permitopen` and `permitlisten` of the key or `permit-port-forwarding` of
//! the certificate. All must permit the target. For agents, `no-agent-forwarding` of the key or
//! `permit-agent-forwarding` of the certificate counts.

use config::permit::{self, PortKind};
use config::server::ForwardingOptions;
use driver::forward::{ForwardTarget, Listening};
use privsep::Restrictions;
use wire::permissions::Permission;

/// True if the client may have this target connected to; a host counts as the client wrote it.
/// `is_rooted` is true with SftpRoot.
pub(super) fn may_open(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    is_rooted: bool,
    target: &ForwardTarget,
) -> bool {
    if !may_open_any(forwarding, restrictions, target) {
        return false;
    }
    let (list, of_key) = (&forwarding.permit_open, &restrictions.permit_open);
    let opens = |kind, host: &str, port| {
        list.opens(kind, host, port) && permit::opens(of_key, kind, host, port)
    };
    match target {
        ForwardTarget::Tcp { host, port } => opens(PortKind::Tcp, host, *port),
        ForwardTarget::Udp { host, port } => opens(PortKind::Udp, host, *port),
        // A list names no paths, so it permits none, as with OpenSSH. A path leads out of SftpRoot.
        ForwardTarget::Unix(_) => !is_rooted && list.is_any() && of_key.is_empty(),
    }
}

/// True if connections of the target's kind are permitted at all, to whatever target.
pub(super) fn may_open_any(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    target: &ForwardTarget,
) -> bool {
    // As with OpenSSH, AllowTcpForwarding governs Unix sockets too; and datagrams.
    !forwarding.disable_forwarding
        && restrictions.permits(Permission::PortForwarding)
        && forwarding.allow_tcp_forwarding.is_local()
        && match target {
            ForwardTarget::Unix(_) => forwarding.allow_stream_local_forwarding.is_local(),
            ForwardTarget::Tcp { .. } | ForwardTarget::Udp { .. } => true,
        }
}

/// True if the client may have connections to this address accepted.
pub(super) fn may_listen(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    is_rooted: bool,
    listening: &Listening,
) -> bool {
    if forwarding.disable_forwarding || !restrictions.permits(Permission::PortForwarding) {
        return false;
    }
    if !forwarding.allow_tcp_forwarding.is_remote() {
        return false;
    }
    let (list, of_key) = (&forwarding.permit_listen, &restrictions.permit_listen);
    let listens = |kind, address: &str, port| {
        list.listens(kind, address, port) && permit::listens(of_key, kind, address, port)
    };
    match listening {
        Listening::Tcp { address, port } => listens(PortKind::Tcp, address, *port),
        Listening::Udp { address, port } => listens(PortKind::Udp, address, *port),
        // As with OpenSSH, the lists are about ports. A path leads out of SftpRoot.
        Listening::Unix(_) => !is_rooted && forwarding.allow_stream_local_forwarding.is_remote(),
    }
}

/// True if programs of the user may use the client's X server. With SftpRoot no program runs.
pub(super) fn may_forward_x11(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    is_rooted: bool,
) -> bool {
    forwarding.x11_forwarding
        && !forwarding.disable_forwarding
        && restrictions.permits(Permission::X11Forwarding)
        && !is_rooted
}

/// True if programs of the user may use the client's agent. With SftpRoot no program runs, and the
/// socket would be outside.
pub(super) fn may_forward_agent(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    is_rooted: bool,
) -> bool {
    forwarding.allow_agent_forwarding
        && !forwarding.disable_forwarding
        && restrictions.permits(Permission::AgentForwarding)
        && !is_rooted
}
