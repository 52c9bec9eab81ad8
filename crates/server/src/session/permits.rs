//! Decides to which targets a client may forward connections: AllowTcpForwarding, DisableForwarding
//! and PermitOpen of the configuration, and `restrict`, `no-port-forwarding` and `permitopen` of
//! the key. All must permit the target.

use config::server::ForwardingOptions;
use privsep::Restrictions;

/// True if `direct-tcpip` (RFC 4254 §7.2) may connect to `host`, as the client wrote it, and
/// `port`.
pub(super) fn may_open(
    forwarding: &ForwardingOptions,
    restrictions: &Restrictions,
    host: &str,
    port: u16,
) -> bool {
    !forwarding.disable_forwarding
        && forwarding.allow_tcp_forwarding.is_local()
        && !restrictions.no_port_forwarding
        && listed(&forwarding.permit_open, host, port)
        && listed(&restrictions.permit_open, host, port)
}

/// True if the list permits the target. An empty list and `any` permit every target, `none` permits
/// no target.
fn listed(list: &[String], host: &str, port: u16) -> bool {
    list.is_empty() || list.iter().any(|entry| entry_matches(entry, host, port))
}

fn entry_matches(entry: &str, host: &str, port: u16) -> bool {
    match entry {
        "any" => return true,
        "none" => return false,
        _ => {}
    }
    let Some((entry_host, entry_port)) = entry.rsplit_once(':') else {
        return false;
    };
    let bracketed = entry_host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let entry_host = bracketed.unwrap_or(entry_host);
    let port_fits = entry_port == "*" || entry_port.parse() == Ok(port);
    // Hosts are compared as text, case-sensitively as in OpenSSH: a name and its address need two
    // entries (sshd_config(5)).
    let host_fits = entry_host == "*" || entry_host == host;
    port_fits && host_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_list_permits_what_it_names_and_no_list_everything() {
        assert!(listed(&[], "db", 5432));
        assert!(listed(&list(&["any"]), "db", 5432));
        assert!(!listed(&list(&["none"]), "db", 5432));
        let some = list(&["db:5432", "[::1]:80", "*:22", "web:*"]);
        assert!(listed(&some, "db", 5432));
        assert!(!listed(&some, "DB", 5432));
        assert!(listed(&some, "::1", 80));
        assert!(listed(&some, "anything", 22));
        assert!(listed(&some, "web", 1));
        assert!(!listed(&some, "db", 5433));
        assert!(!listed(&some, "db.evil", 5432));
        assert!(!listed(&list(&["db"]), "db", 5432));
        assert!(!listed(&list(&["db:99999"]), "db", 34463));
    }
}
