//! The destination: `[user@]host` or `ssh://[user@]host[:port]`, and the check of names that a
//! configuration could pass to a shell.

use super::FlagError;

/// A destination as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The user, if given.
    pub user: Option<String>,
    /// The host as typed, without the brackets of an address.
    pub host: String,
    /// The port, which only a URI can give.
    pub port: Option<u16>,
}

impl Destination {
    /// Parses a destination and checks its user and host.
    ///
    /// # Errors
    /// [`FlagError`].
    pub fn parse(word: &str) -> Result<Self, FlagError> {
        let destination = match word.strip_prefix("ssh://") {
            Some(uri) => Self::uri(uri)
                .ok_or_else(|| FlagError::Refused(format!("Bad URI '{}'", super::shown(word))))?,
            None => Self::plain(word).ok_or(FlagError::Usage)?,
        };
        check_host(&destination.host)?;
        if let Some(user) = &destination.user {
            check_user(user)?;
        }
        Ok(destination)
    }

    fn plain(word: &str) -> Option<Self> {
        let (user, host) = match word.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, word),
        };
        if user.is_some_and(str::is_empty) || host.is_empty() {
            return None;
        }
        Some(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port: None,
        })
    }

    /// Parses an `ssh://` URI (RFC 3986): ignores `;` parameters, decodes percent encoding in the
    /// user; refuses a path and an encoded host.
    fn uri(text: &str) -> Option<Self> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, text),
        };
        let user = match user {
            Some(user) => {
                let name = user.split(';').next().unwrap_or_default();
                Some(percent_decode(name).filter(|name| !name.is_empty() && !name.contains(':'))?)
            }
            None => None,
        };
        let (host, port) = match host.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                match after.strip_prefix(':') {
                    Some(digits) => (host, Some(port(digits)?)),
                    None if after.is_empty() => (host, None),
                    None => return None,
                }
            }
            None => match host.split_once(':') {
                Some((host, digits)) => (host, Some(port(digits)?)),
                None => (host, None),
            },
        };
        if host.is_empty() || host.contains(['/', '%']) {
            return None;
        }
        Some(Self {
            user,
            host: host.to_owned(),
            port,
        })
    }
}

/// Refuses a host name from the command line that could act as a flag or in a shell.
///
/// # Errors
/// [`FlagError::Refused`].
pub fn check_host(host: &str) -> Result<(), FlagError> {
    if host.is_empty() || !config::tokens::is_valid_host(host) {
        return Err(FlagError::Refused(format!(
            "hostname contains invalid characters: '{}'",
            super::shown(host)
        )));
    }
    Ok(())
}

/// Refuses a user name from the command line that could act as a flag or in a shell.
///
/// # Errors
/// [`FlagError::Refused`].
pub fn check_user(user: &str) -> Result<(), FlagError> {
    if user.is_empty() || !config::tokens::is_valid_user(user) {
        return Err(FlagError::Refused(format!(
            "remote username contains invalid characters: '{}'",
            super::shown(user)
        )));
    }
    Ok(())
}

/// Parses a TCP port from 1 to 65535, digits only.
#[must_use]
pub fn port(text: &str) -> Option<u16> {
    if text.is_empty() || text.len() > 5 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|port| *port != 0)
}

/// Parses `host:port` or `[host]:port`.
#[must_use]
pub fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, digits) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:")?,
        None => text
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains(':'))?,
    };
    if host.is_empty() || host.chars().any(char::is_control) {
        return None;
    }
    Some((host.to_owned(), port(digits)?))
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        let value = u8::try_from(high * 16 + low).ok()?;
        if value == 0 {
            return None;
        }
        out.push(value);
    }
    String::from_utf8(out).ok()
}
