//! Known differences of combined restrictions, with reasons.

use crate::list::Listed;
use crate::list::Why::{self, Said, Since};

/// All of them.
pub(crate) const LISTED: &[Listed] = &[
    one(
        "login: \"no\" not \"yes\"",
        "*certificate: *",
        Said("A certificate that repeats an option or extension is refused"),
    ),
    one(
        "start: \"-\" not \"no\"",
        "*authenticationmethods *; *authenticationmethods any*",
        Said("`AuthenticationMethods any` as a second line: no error"),
    ),
    one(
        "early: \"same\" not \"-\"",
        "*",
        Said("A session, its requests and its input are sent in one flight to a Fulmar server"),
    ),
    // Only the machine's OpenSSH is compared.
    one(
        "start: \"-\" not \"no\"",
        "*match *: subsystem *",
        Since("9.5"),
    ),
    one(
        "start: \"-\" not \"no\"",
        "subsystem *; subsystem *",
        Since("9.5"),
    ),
];

const fn one(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    Listed {
        form: "restrictions",
        how,
        pattern,
        why,
    }
}
