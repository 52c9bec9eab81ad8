//! Logins by the key of the client's host, which have no options of their own: what sshd_config restricts.
//! And servers whose own key an agent has.

use crate::row::Row;

pub(super) fn rows() -> Vec<Row> {
    [of_users(), of_root(), with_agents()].concat()
}

/// A host-based login with these lines in a Match block.
fn restricted(lines: &str) -> Row {
    Row::config(lines).in_match().by_host()
}

fn of_users() -> Vec<Row> {
    vec![
        Row::config("PubkeyAuthentication no").by_host(),
        // The first line counts.
        Row::config("HostbasedAuthentication no")
            .by_host()
            .refused(),
        restricted("HostbasedAuthentication no").refused(),
        restricted("DisableForwarding yes").no_ports().no_agent(),
        restricted("AllowAgentForwarding no").no_agent(),
        restricted("AllowTcpForwarding no").no_ports(),
        restricted("PermitOpen 127.0.0.1:{a}")
            .no_local()
            .but("tcp", "A"),
        restricted("PermitTTY no").no_pty(),
        restricted("PermitUserRC no").no_user_rc(),
        restricted("ForceCommand {forced}").forced().no_user_rc(),
        restricted("ForceCommand internal-sftp")
            .sftp_only()
            .no_user_rc(),
        restricted("DenyUsers {user}").refused(),
        restricted("AllowUsers {user}@192.0.2.1").refused(),
        restricted("AllowUsers {user}@127.0.0.1"),
        restricted("AuthenticationMethods publickey").refused(),
        restricted("AuthenticationMethods hostbased,publickey").refused(),
        restricted("AuthenticationMethods hostbased"),
        // Whose host it is, not what its list says.
        restricted("HostbasedUsesNameFromPacketOnly yes").refused(),
        // The options of the user's keys apply to these keys only.
        restricted("PermitTTY yes").authorized("restrict {key}\n"),
    ]
}

fn of_root() -> Vec<Row> {
    let root = |lines: &str| Row::config(lines).with("IgnoreRhosts no").by_host().root();
    let mut rows = vec![
        root("PermitRootLogin yes"),
        root("PermitRootLogin prohibit-password"),
        root("PermitRootLogin no").refused(),
        root("PermitRootLogin forced-commands-only").refused(),
        root("PermitRootLogin forced-commands-only")
            .with("ForceCommand {forced}")
            .refused(),
        // Root is not let in by the lists of the system.
        Row::config("PermitRootLogin yes")
            .by_host()
            .root()
            .refused(),
    ];
    let in_match = rows.iter().take(3).map(Row::in_match).collect::<Vec<_>>();
    rows.extend(in_match);
    rows
}

/// What the session may do has nothing to do with the place of the server's key, and the agent that has
/// it is not the user's.
fn with_agents() -> Vec<Row> {
    vec![
        Row::config("AllowAgentForwarding yes").host_key_agent(),
        Row::config("AllowAgentForwarding no")
            .host_key_agent()
            .no_agent(),
        Row::key("restrict").host_key_agent().restricted(),
        Row::key("command=\"{forced}\"").host_key_agent().forced(),
        Row::config("PermitTTY no")
            .by_host()
            .host_key_agent()
            .no_pty(),
    ]
}
