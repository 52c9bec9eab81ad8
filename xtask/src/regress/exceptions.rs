//! The tests that fail with Fulmar, with reasons.

use std::collections::HashMap;
use std::io::{Error, Result};

/// One line per test: the suites (`both` or a name), the test, the reason.
const LIST: &str = include_str!("exceptions.txt");

/// The reasons for one suite, by the names of tests.
pub(super) fn of(suite: &str) -> Result<HashMap<&'static str, &'static str>> {
    parse(LIST, suite)
}

fn parse<'t>(list: &'t str, suite: &str) -> Result<HashMap<&'t str, &'t str>> {
    let mut reasons = HashMap::new();
    let lines = list.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let short = || Error::other(format!("exceptions.txt: no reason: {line}"));
        let (which, rest) = line.split_once(' ').ok_or_else(short)?;
        let (test, reason) = rest.trim_start().split_once(' ').ok_or_else(short)?;
        if which != "both" && !super::SUITES.iter().any(|suite| suite.name == which) {
            return Err(Error::other(format!("exceptions.txt: which suite? {line}")));
        }
        let ours = which == "both" || which == suite;
        if ours && reasons.insert(test, reason.trim()).is_some() {
            return Err(Error::other(format!("exceptions.txt: twice: {line}")));
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_for_its_suite() -> Result<()> {
        let list = "# of both\nboth agent waits for it\nbookworm dhgex by name\n";
        assert_eq!(parse(list, "bookworm")?.get("agent"), Some(&"waits for it"));
        assert_eq!(parse(list, "bookworm")?.get("dhgex"), Some(&"by name"));
        assert_eq!(parse(list, "unstable")?.get("dhgex"), None);
        Ok(())
    }

    #[test]
    fn a_line_that_says_too_little_or_twice_is_refused() {
        for list in [
            "both agent",
            "sid agent why",
            "both agent x\nunstable agent y",
        ] {
            assert!(parse(list, "unstable").is_err(), "{list}");
        }
    }

    #[test]
    fn the_list_is_read() {
        for suite in super::super::SUITES {
            assert!(of(suite.name).is_ok());
        }
    }
}
