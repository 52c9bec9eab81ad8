//! Lists of permitted targets and listeners: PermitOpen, PermitListen, PermitRemoteOpen, and
//! `permitopen` and `permitlisten` of authorized_keys.

use crate::pattern;

/// True if the list permits everything: it is empty or has `any`.
pub fn is_any(list: &[String]) -> bool {
    list.is_empty() || list.iter().any(|entry| entry == "any")
}

/// True if the list permits a connection to `host`, as it was requested, and `port`. Hosts are
/// compared as text, case-sensitively as in OpenSSH: a name and its address need two entries.
pub fn opens(list: &[String], host: &str, port: u16) -> bool {
    is_any(list) || permits(list, port, |entry| entry == "*" || entry == host)
}

/// True if the list permits listening on `address`, as it was requested, and `port`. Entries may be
/// patterns, compared without case.
pub fn listens(list: &[String], address: &str, port: u16) -> bool {
    let address = address.to_ascii_lowercase();
    is_any(list) || permits(list, port, |entry| pattern::matches(&address, entry))
}

fn permits(list: &[String], port: u16, is_host: impl Fn(&str) -> bool) -> bool {
    list.iter().any(|entry| {
        let Some((host, entry_port)) = entry.rsplit_once(':') else {
            return false;
        };
        let bracketed = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let is_port = entry_port == "*" || entry_port.parse() == Ok(port);
        is_port && is_host(bracketed.unwrap_or(host))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_list_permits_what_it_names_and_no_list_everything() {
        assert!(opens(&[], "db", 5432));
        assert!(opens(&list(&["any"]), "db", 5432));
        assert!(!opens(&list(&["none"]), "db", 5432));
        let some = list(&["db:5432", "[::1]:80", "*:22", "web:*"]);
        assert!(opens(&some, "db", 5432));
        assert!(!opens(&some, "DB", 5432));
        assert!(opens(&some, "::1", 80));
        assert!(opens(&some, "anything", 22));
        assert!(opens(&some, "web", 1));
        assert!(!opens(&some, "db", 5433));
        assert!(!opens(&some, "db.evil", 5432));
        assert!(!opens(&list(&["db"]), "db", 5432));
        assert!(!opens(&list(&["db:99999"]), "db", 34463));
        assert!(!is_any(&some));
    }

    #[test]
    fn listeners_match_patterns_without_case() {
        let some = list(&["localhost:8080", "10.*:*", "*:9000"]);
        assert!(listens(&some, "localhost", 8080));
        assert!(listens(&some, "LocalHost", 8080));
        assert!(!listens(&some, "", 8080));
        assert!(!listens(&some, "localhost", 8081));
        assert!(listens(&some, "10.1.2.3", 1));
        assert!(listens(&some, "", 9000));
        assert!(!listens(&list(&["none"]), "", 9000));
        assert!(listens(&list(&["any"]), "", 9000));
        assert!(!listens(&list(&["*:8080"]), "localhost", 0));
    }
}
