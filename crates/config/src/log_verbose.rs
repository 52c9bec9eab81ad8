//! `LogVerbose` of ssh_config(5) and sshd_config(5): messages that are logged whatever the level, chosen by
//! the place in the source that writes them.
//!
//! OpenSSH's places are `file:function:line`; here a place is the file below its crate and the line, such
//! as `client/login.rs:120`, because messages do not know their function.

use std::panic::Location;

use crate::pattern::{self, Case};

/// What to write before a message of this place, if one of the pattern-lists names the place: the place
/// and the process, as OpenSSH writes them. `none` ends the lists.
#[must_use]
pub fn tag(overrides: &[String], at: &Location<'_>) -> Option<String> {
    if overrides.is_empty() {
        return None;
    }
    let tag = format!(
        "{} (pid={})",
        place(at.file(), at.line()),
        std::process::id()
    );
    let mut lists = overrides
        .iter()
        .take_while(|list| !list.eq_ignore_ascii_case("none"));
    lists
        .any(|list| pattern::match_list(&tag, list, Case::Sensitive).is_yes())
        .then_some(tag)
}

/// `crates/client/src/login.rs` is `client/login.rs`.
fn place(file: &str, line: u32) -> String {
    let below = file.rsplit_once("crates/").map_or(file, |(_, below)| below);
    format!("{}:{line}", below.replacen("/src/", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag_here(overrides: &[&str]) -> Option<String> {
        let overrides: Vec<String> = overrides.iter().map(|&list| list.to_owned()).collect();
        tag(&overrides, Location::caller())
    }

    #[test]
    fn lists_of_patterns_name_places() {
        let place = format!("config/log_verbose.rs:{}", line!() + 1);
        let found = tag_here(&["*"]);
        let (start, process) = found.as_deref().unwrap().split_once(" (pid=").unwrap();
        assert!(
            start.starts_with("config/log_verbose.rs:"),
            "{start} {place}"
        );
        assert_eq!(process, format!("{})", std::process::id()));
        for names in [
            &["config/*"][..],
            &["*log_verbose.rs:*"],
            &["kex.c:*:1000,config/log_verbose.rs:*"],
            &["kex.c:*", "*:*(pid=*)"],
        ] {
            assert!(tag_here(names).is_some(), "{names:?}");
        }
        for other in [
            &[][..],
            &["none"],
            &["none", "*"],
            &["client/*"],
            &["*,!*log_verbose*"],
            &["config/log_verbose.rs"],
            &["CONFIG/*"],
        ] {
            assert_eq!(tag_here(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_place_is_below_its_crate() {
        assert_eq!(
            place("crates/client/src/auth/mod.rs", 7),
            "client/auth/mod.rs:7"
        );
        assert_eq!(
            place("/build/crates/server/src/log.rs", 1),
            "server/log.rs:1"
        );
        assert_eq!(place("other.rs", 3), "other.rs:3");
    }
}
