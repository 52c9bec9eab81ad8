//! Match blocks of sshd_config: their criteria, and the check whether a connection meets them.

use crate::VERSION;
use crate::address;
use crate::error::ConfigError;
use crate::pattern::{self, Case};
use crate::server::options::ConnectionSpec;
use crate::units;

/// One criterion of a Match line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Criterion {
    All,
    InvalidUser,
    User(String),
    Group(String),
    Host(String),
    Address(String),
    LocalAddress(String),
    LocalPort(u16),
    Version(String),
    RDomain(String),
}

/// Parses the words after `Match`.
///
/// # Errors
/// The error text for the user, without file and line.
pub(crate) fn read_criteria(words: &[String]) -> Result<Vec<Criterion>, String> {
    let mut out = Vec::new();
    let mut left = words.iter().map(String::as_str);
    while let Some(word) = left.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let name = name.to_ascii_lowercase();
        if name == "all" {
            if joined.is_some() || words.len() > 1 {
                return Err("'all' cannot be combined with other Match attributes".to_owned());
            }
            return Ok(vec![Criterion::All]);
        }
        if name == "invalid-user" {
            out.push(Criterion::InvalidUser);
            continue;
        }
        let known = matches!(
            name.as_str(),
            "user"
                | "group"
                | "host"
                | "address"
                | "localaddress"
                | "localport"
                | "version"
                | "rdomain"
        );
        if !known {
            return Err(format!("Unsupported Match attribute {word}"));
        }
        let value = joined
            .or_else(|| left.next())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("Missing Match criteria for {word}"))?;
        out.push(criterion(&name, value)?);
    }
    if out.is_empty() {
        return Err("One or more attributes required for Match".to_owned());
    }
    Ok(out)
}

fn criterion(name: &str, value: &str) -> Result<Criterion, String> {
    let list = value.to_owned();
    let checked = |what: &str| match address::check_address_list(value) {
        Ok(_) => Ok(value.to_owned()),
        Err(error) => Err(format!("Invalid Match {what} argument '{value}': {error}")),
    };
    Ok(match name {
        "user" => Criterion::User(list),
        "group" => Criterion::Group(list),
        "host" => Criterion::Host(list),
        "address" => Criterion::Address(checked("address")?),
        "localaddress" => Criterion::LocalAddress(checked("localaddress")?),
        "localport" => match units::parse_port(value) {
            Some(port) => Criterion::LocalPort(port),
            None => return Err(format!("Invalid LocalPort '{value}' on Match line")),
        },
        "rdomain" => Criterion::RDomain(list),
        _ => Criterion::Version(list),
    })
}

impl Criterion {
    /// The entries of a list of addresses that are names of hosts, which no address matches.
    pub(crate) fn names_for_addresses(&self) -> Vec<&str> {
        match self {
            Criterion::Address(list) | Criterion::LocalAddress(list) => {
                address::check_address_list(list).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// True if the connection meets this criterion. An unknown fact meets none.
    pub(crate) fn is_met(&self, spec: &ConnectionSpec) -> bool {
        let in_list = |subject: Option<&str>, list: &str| {
            subject.is_some_and(|s| pattern::match_list(s, list, Case::Sensitive).is_yes())
        };
        let has_address = |ip: Option<std::net::IpAddr>, list: &str| {
            ip.is_some_and(|ip| {
                let text = ip.to_canonical().to_string();
                address::match_list(Some(&text), list).is_ok_and(|m| m.is_yes())
            })
        };
        match self {
            Criterion::All => true,
            Criterion::InvalidUser => spec.user.is_some() && !spec.user_exists,
            Criterion::User(list) => in_list(spec.user.as_deref(), list),
            Criterion::Group(list) => {
                spec.user_exists && pattern::match_any(&spec.groups, list, Case::Sensitive).is_yes()
            }
            Criterion::Host(list) => {
                !spec.host.is_empty() && pattern::match_hostname(&spec.host, list).is_yes()
            }
            Criterion::Address(list) => has_address(spec.address, list),
            Criterion::LocalAddress(list) => has_address(spec.local_address, list),
            Criterion::LocalPort(port) => spec.local_port == Some(*port),
            Criterion::Version(list) => in_list(Some(VERSION), list),
            Criterion::RDomain(list) => in_list(spec.rdomain.as_deref(), list),
        }
    }

    /// The number and argument of the encoded form.
    pub(crate) fn parts(&self) -> (u8, String) {
        match self {
            Criterion::All => (0, String::new()),
            Criterion::InvalidUser => (1, String::new()),
            Criterion::User(list) => (2, list.clone()),
            Criterion::Group(list) => (3, list.clone()),
            Criterion::Host(list) => (4, list.clone()),
            Criterion::Address(list) => (5, list.clone()),
            Criterion::LocalAddress(list) => (6, list.clone()),
            Criterion::LocalPort(port) => (7, port.to_string()),
            Criterion::Version(list) => (8, list.clone()),
            Criterion::RDomain(list) => (9, list.clone()),
        }
    }

    /// The criterion of a number and argument; `None` for an unknown number.
    pub(crate) fn from_parts(number: u8, argument: String) -> Option<Criterion> {
        Some(match number {
            0 => Criterion::All,
            1 => Criterion::InvalidUser,
            2 => Criterion::User(argument),
            3 => Criterion::Group(argument),
            4 => Criterion::Host(argument),
            5 => Criterion::Address(argument),
            6 => Criterion::LocalAddress(argument),
            7 => Criterion::LocalPort(units::parse_port(&argument)?),
            8 => Criterion::Version(argument),
            9 => Criterion::RDomain(argument),
            _ => return None,
        })
    }
}

impl ConnectionSpec {
    /// Reads the argument of `sshd -C`:
    /// `user=…,host=…,addr=…,laddr=…,lport=…,rdomain=…,invalid-user`. The caller fills in the
    /// groups. A trailing comma is permitted, as in OpenSSH. Without `invalid-user` the user is
    /// assumed to exist.
    ///
    /// # Errors
    /// [`ConfigError`] if a part is unknown or malformed.
    pub fn parse(text: &str) -> Result<ConnectionSpec, ConfigError> {
        let mut spec = ConnectionSpec {
            user_exists: true,
            ..ConnectionSpec::default()
        };
        spec.add(text)?;
        Ok(spec)
    }

    /// Adds another `-C` argument.
    ///
    /// # Errors
    /// As [`ConnectionSpec::parse`].
    pub fn add(&mut self, text: &str) -> Result<(), ConfigError> {
        for part in text.strip_suffix(',').unwrap_or(text).split(',') {
            let bad = || ConfigError::Refused(format!("Invalid test mode specification {part}"));
            if part.eq_ignore_ascii_case("invalid-user") {
                self.user_exists = false;
                continue;
            }
            let (key, value) = part.split_once('=').ok_or_else(bad)?;
            match key {
                "user" => self.user = Some(value.to_owned()),
                "host" => self.host = value.to_owned(),
                "addr" => self.address = Some(value.parse().map_err(|_| bad())?),
                "laddr" => self.local_address = Some(value.parse().map_err(|_| bad())?),
                "lport" => self.local_port = Some(units::parse_port(value).ok_or_else(bad)?),
                "rdomain" => self.rdomain = Some(value.to_owned()),
                _ => return Err(bad()),
            }
        }
        Ok(())
    }
}
