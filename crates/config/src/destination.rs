//! Destinations of ssh: `[user@]host`, `ssh://[user@]host[:port]`, and hops of `ProxyJump`.

use crate::client::types::{JumpHost, JumpTemplates};
use crate::tokens::{is_valid_host, is_valid_user};
use crate::units;

/// A host to connect to, with its optional user and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// User, if given.
    pub user: Option<String>,
    /// Host or address, without brackets.
    pub host: String,
    /// Port, if given (only in a URI or a hop).
    pub port: Option<u16>,
}

/// Parses the destination argument of ssh. `None` if it is malformed or contains characters that
/// must not reach a shell or a log.
pub fn parse(text: &str) -> Option<Destination> {
    if let Some(rest) = strip_scheme(text) {
        return parse_checked_uri(rest);
    }
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host),
        None => (None, text),
    };
    checked(user, host, None)
}

/// True if `text` may be the value of `-J`, and of `ProxyJump` on a command line: no name may have
/// characters that must not reach a shell.
pub fn is_jump_list(text: &str) -> bool {
    parse_jumps(text).is_some_and(|jumps| jumps.has_safe_names())
}

/// Parses the value of `ProxyJump`: hops separated by commas, or `none` for no hops; `None` if a hop
/// is malformed. As in OpenSSH (`parse_jump`), quotes have no meaning, `#` ends the hops anywhere, and
/// a file may name what a command line may not. A connection by such a name is refused
/// ([`is_safe_hop`]).
pub(crate) fn parse_jumps(text: &str) -> Option<JumpTemplates> {
    let text = text.split('#').next().unwrap_or_default().trim_end();
    if text.eq_ignore_ascii_case("none") {
        return Some(JumpTemplates::default());
    }
    let hops: Option<Vec<JumpHost>> = text.split(',').map(parse_hop).collect();
    Some(JumpTemplates {
        hops: hops?,
        before_last: text.rsplit_once(',').map(|(before, _)| before.to_owned()),
    })
}

/// True if the user and host of a hop, now expanded, contain no characters that must not reach a
/// shell or a log. `is_last`: this process connects to it. The process of the last hop gets a list of
/// those before, in which no name may end a hop.
pub(crate) fn is_safe_hop(hop: &JumpHost, is_last: bool) -> bool {
    let ends_hop = |text: &str| text.contains([',', '#']);
    let splits = ends_hop(&hop.host) || hop.user.as_deref().is_some_and(ends_hop);
    checked(hop.user.clone(), &hop.host, hop.port).is_some() && (is_last || !splits)
}

impl JumpTemplates {
    /// True if no name has characters that must not reach a shell.
    pub(crate) fn has_safe_names(&self) -> bool {
        let is_safe = |hop: &JumpHost| checked(hop.user.clone(), &hop.host, hop.port).is_some();
        self.hops.iter().all(is_safe)
    }
}

/// Parses one hop of `ProxyJump`: `[user@]host[:port]` or a URI. Its names are those of a file.
fn parse_hop(text: &str) -> Option<JumpHost> {
    let destination = match strip_scheme(text) {
        Some(rest) => parse_uri(rest)?,
        None => parse_with_port(text, false)?,
    };
    let readable = |name: &str| {
        !name.starts_with('-') && !name.chars().any(|c| c.is_control() || "'\"".contains(c))
    };
    let is_host = readable(&destination.host) && !destination.host.contains(char::is_whitespace);
    if !is_host || !destination.user.as_deref().is_none_or(readable) {
        return None;
    }
    Some(JumpHost {
        user: destination.user,
        host: destination.host,
        port: destination.port,
    })
}

fn strip_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked(6)?;
    scheme.eq_ignore_ascii_case("ssh://").then_some(rest)
}

fn parse_uri(rest: &str) -> Option<Destination> {
    let authority = match rest.split_once('/') {
        Some((authority, "")) => authority,
        Some(_) => return None,
        None => rest,
    };
    parse_with_port(authority, true)
}

fn parse_checked_uri(rest: &str) -> Option<Destination> {
    let Destination { user, host, port } = parse_uri(rest)?;
    checked(user, &host, port)
}

/// Parses user, host and port; which characters names may have is the caller's to check.
fn parse_with_port(text: &str, uri: bool) -> Option<Destination> {
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, text),
    };
    let user = match user {
        // A URI may have connection parameters after the user (draft-ietf-secsh-scp-sftp-ssh-uri);
        // they are ignored.
        Some(user) if uri => Some(percent_decode(user.split(';').next()?)?),
        Some(user) => Some(user.to_owned()),
        None => None,
    };
    // Without brackets, several colons are ambiguous (an address, or a host with a port): refused,
    // as in OpenSSH.
    if !place.starts_with('[') && place.matches(':').count() > 1 {
        return None;
    }
    let (host, port) = units::split_host_port(place)?;
    let port = match port {
        None => None,
        Some(port) => Some(units::parse_port(port)?),
    };
    if host.is_empty() || user.as_deref().is_some_and(str::is_empty) {
        return None;
    }
    let host = host.to_owned();
    Some(Destination { user, host, port })
}

fn checked(user: Option<String>, host: &str, port: Option<u16>) -> Option<Destination> {
    if host.is_empty() || !is_valid_host(host) {
        return None;
    }
    if user
        .as_ref()
        .is_some_and(|user| user.is_empty() || !is_valid_user(user))
    {
        return None;
    }
    Some(Destination {
        user,
        host: host.to_owned(),
        port,
    })
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok().filter(|b| *b != 0)?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(destination: Option<Destination>) -> String {
        match destination {
            None => "-".to_owned(),
            Some(d) => format!("{:?} {} {:?}", d.user.as_deref(), d.host, d.port),
        }
    }

    #[test]
    fn destinations() {
        for (text, expected) in [
            ("host", "None host None"),
            ("ann@host", "Some(\"ann\") host None"),
            ("a@b@host", "Some(\"a@b\") host None"),
            ("ssh://ann@host:2222", "Some(\"ann\") host Some(2222)"),
            ("SSH://host/", "None host None"),
            ("ssh://[::1]:22", "None ::1 Some(22)"),
            ("ssh://a%20b@host", "Some(\"a b\") host None"),
            ("ssh://host/path", "-"),
            ("ssh://host:99999", "-"),
            ("ssh://a%00b@host", "-"),
            ("ssh://a%0ab@host", "-"),
            ("ssh://`x`@host", "-"),
            ("ssh://a%2", "None a%2 None"),
            ("ssh://a%2@h", "-"),
            ("@host", "-"),
            ("user@", "-"),
            ("-oProxyCommand=x", "-"),
            ("-oProxyCommand=x@host", "-"),
            ("a;b@host", "-"),
            ("ho`st", "-"),
            ("ho\u{1b}st", "-"),
        ] {
            assert_eq!(shown(parse(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn hops() {
        let hop = |text| parse_hop(text).map(|h| (h.user, h.host, h.port));
        assert_eq!(hop("h"), Some((None, "h".into(), None)));
        assert_eq!(
            hop("u@[::1]:2"),
            Some((Some("u".into()), "::1".into(), Some(2)))
        );
        assert_eq!(hop("h:"), None);
        assert_eq!(hop("::1"), None);
        assert_eq!(hop("u@fe80::1:22"), None);
        assert_eq!(hop("a b@h c"), None);
        assert_eq!(hop("'a'@h"), None);
        assert_eq!(hop("h\u{1b}"), None);
        assert_eq!(hop("-h"), None);
        assert_eq!(hop(""), None);
    }

    /// What a file may name and no command line, as in OpenSSH 10.6. Nothing connects by it.
    #[test]
    fn hops_that_a_shell_would_read() {
        for text in ["a$b@h", "a\\b@h", "$(x)", "u;v@h;i", "`x`", "ssh://u%3Bv@h"] {
            let hop = parse_hop(text).expect(text);
            assert!(!is_safe_hop(&hop, true), "{text}");
            assert!(!is_jump_list(text), "{text}");
        }
        for text in ["u@h:22,i", "none", "ssh://u@h", "%r@%h"] {
            assert!(is_jump_list(text), "{text}");
        }
        assert!(!is_jump_list("h,$(x),i"));
    }
}
