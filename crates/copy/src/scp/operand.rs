//! What an argument means: a local file, or a path at a server.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::RemoteHost;

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Here.
    Local(OsString),
    /// At a server; the path is as it was written, `.` for none.
    Remote {
        /// Which.
        server: RemoteHost,
        /// The path there.
        path: Vec<u8>,
    },
}

/// The position of the colon between host and path; `None` for a local name. A name with a slash
/// before its colon is local, and so is one that begins with a colon.
fn colon(word: &[u8]) -> Option<usize> {
    if word.first() == Some(&b':') {
        return None;
    }
    let mut in_brackets = word.first() == Some(&b'[');
    for (at, byte) in word.iter().enumerate() {
        match byte {
            b'@' if word.get(at + 1) == Some(&b'[') => in_brackets = true,
            b']' if in_brackets && word.get(at + 1) == Some(&b':') => return Some(at + 1),
            b':' if !in_brackets => return Some(at),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// A host without the brackets of an address.
fn bare_host(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| format!("host is not UTF-8: {}", transfer::text::name(bytes)))
}

/// Users and hosts that a configuration could hand to a shell are refused.
fn checked(user: Option<String>, host: String, port: Option<u16>) -> Result<RemoteHost, String> {
    let bad_user = |user: &str| {
        user.is_empty()
            || user.starts_with('-')
            || user.chars().any(|letter| {
                letter.is_control() || "'`\";&<>|(){}\\".contains(letter) || letter.is_whitespace()
            })
    };
    if let Some(user) = &user
        && bad_user(user)
    {
        return Err(format!(
            "{}: invalid user name",
            transfer::text::one_line(user)
        ));
    }
    if host.is_empty() || host.starts_with('-') || host.chars().any(char::is_control) {
        return Err(format!(
            "hostname contains invalid characters: \"{}\"",
            transfer::text::one_line(&host)
        ));
    }
    Ok(RemoteHost { user, host, port })
}

/// `%41` and the like.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    (!out.contains(&0)).then_some(out)
}

/// `scheme://[user@]host[:port][/path]`; the server interprets the path after the slash.
fn from_uri(rest: &[u8]) -> Option<Result<(RemoteHost, Vec<u8>), String>> {
    let (authority, path) = match rest.iter().position(|byte| *byte == b'/') {
        Some(at) => (rest.get(..at)?, rest.get(at + 1..)?),
        None => (rest, b"".as_slice()),
    };
    let authority = text(authority).ok()?;
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority.as_str()),
    };
    // Parameters follow `;`; none is known.
    let user = match user {
        Some(user) => {
            let user = user.split(';').next().unwrap_or_default();
            Some(String::from_utf8(decoded(user.as_bytes())?).ok()?)
        }
        None => None,
    };
    let (host, port) = match place.strip_prefix('[') {
        Some(inside) => {
            let (host, behind) = inside.split_once(']')?;
            (host, behind.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port > 0)?),
        None => None,
    };
    let path = decoded(path)?;
    let path = if path.is_empty() { b".".to_vec() } else { path };
    Some(checked(user, host.to_owned(), port).map(|server| (server, path)))
}

/// Reads `scp://…` or `sftp://…`.
pub(crate) fn uri(word: &OsStr, schemes: &[&str]) -> Option<Result<(RemoteHost, Vec<u8>), String>> {
    let bytes = word.as_bytes();
    let rest = schemes.iter().find_map(|scheme| {
        let head = bytes.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme.as_bytes())
            .then(|| bytes.get(scheme.len()..).unwrap_or_default())
    })?;
    let bad = || format!("invalid uri: {}", transfer::text::name(bytes));
    Some(from_uri(rest).unwrap_or_else(|| Err(bad())))
}

impl Operand {
    /// Reads an argument.
    ///
    /// # Errors
    /// A description of the mistake.
    pub(crate) fn parse(word: &OsStr) -> Result<Self, String> {
        if let Some(parsed) = uri(word, &["scp://", "sftp://"]) {
            let (server, path) = parsed?;
            return Ok(Self::Remote { server, path });
        }
        let bytes = word.as_bytes();
        let Some(at) = colon(bytes) else {
            return Ok(Self::Local(word.to_owned()));
        };
        let (head, path) = bytes.split_at(at);
        let path = path.get(1..).unwrap_or_default();
        let head = text(head)?;
        let (user, host) = match head.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, head.as_str()),
        };
        let path = if path.is_empty() { b"." } else { path };
        Ok(Self::Remote {
            server: checked(user, bare_host(host).to_owned(), None)?,
            path: path.to_vec(),
        })
    }
}

/// A path as an argument of a local program.
pub(crate) fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(word: &str) -> Option<(Option<String>, String, Option<u16>, String)> {
        match Operand::parse(OsStr::new(word)).unwrap() {
            Operand::Local(_) => None,
            Operand::Remote { server, path } => Some((
                server.user,
                server.host,
                server.port,
                String::from_utf8(path).unwrap(),
            )),
        }
    }

    fn at(
        user: Option<&str>,
        host: &str,
        port: Option<u16>,
        path: &str,
    ) -> Option<(Option<String>, String, Option<u16>, String)> {
        Some((
            user.map(str::to_owned),
            host.to_owned(),
            port,
            path.to_owned(),
        ))
    }

    #[test]
    fn what_has_a_colon_before_a_slash_is_at_a_server() {
        for local in ["a", "./a:b", "/a:b", ":a", "a/b:c", "[::1]"] {
            assert_eq!(remote(local), None, "{local}");
        }
        assert_eq!(remote("h:x"), at(None, "h", None, "x"));
        assert_eq!(remote("h:"), at(None, "h", None, "."));
        assert_eq!(remote("u@h:/x:y"), at(Some("u"), "h", None, "/x:y"));
        assert_eq!(remote("u@v@h:x"), at(Some("u@v"), "h", None, "x"));
        assert_eq!(remote("[::1]:x"), at(None, "::1", None, "x"));
        assert_eq!(
            remote("u@[fe80::1%eth0]:x"),
            at(Some("u"), "fe80::1%eth0", None, "x")
        );
    }

    #[test]
    fn uris_name_port_and_path() {
        assert_eq!(
            remote("scp://u@h:22/a%20b"),
            at(Some("u"), "h", Some(22), "a b")
        );
        assert_eq!(remote("sftp://h//etc"), at(None, "h", None, "/etc"));
        assert_eq!(remote("scp://[::1]:2222"), at(None, "::1", Some(2222), "."));
        for bad in [
            "scp://h:0/x",
            "scp://h:x/",
            "scp://h/%zz",
            "scp://h/%00",
            "scp://",
        ] {
            assert!(Operand::parse(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_shell_would_take_is_no_user_and_no_option_is_a_host() {
        for bad in ["a`b`@h:x", "-oX@h:x", "a;b@h:x", "-h:x", "@h:x", "a b@h:x"] {
            assert!(Operand::parse(OsStr::new(bad)).is_err(), "{bad}");
        }
    }
}
