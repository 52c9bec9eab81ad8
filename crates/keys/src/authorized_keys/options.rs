//! The options before a key (sshd(8), AUTHORIZED_KEYS FILE FORMAT), and the combined permissions of
//! a key line and a certificate.

use core::fmt;

use crate::address::{AddressPatterns, CidrList};
use crate::authorized_keys::LineError;
use crate::certificate::CertificateGrants;
use crate::error::printable;
use crate::time::{LocalClock, parse_absolute};

/// Permissions of a key after login, and conditions for the login. The default is a line without
/// options, which permits everything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches, as sshd(8) lists them"
)]
pub struct KeyOptions {
    /// `cert-authority`: the key signs certificates.
    pub certificate_authority: bool,
    /// `restrict` was given, or the certificate lacks `permit-port-forwarding`: features without an
    /// option of their own, such as tunnels, are denied too.
    pub restricted: bool,
    /// `command=`, or a certificate's `force-command`.
    pub force_command: Option<String>,
    /// `environment=`, in order; of several values for one name the first counts.
    pub environment: Vec<(String, String)>,
    /// `from=`
    pub from: Option<AddressPatterns>,
    /// A certificate's `source-address`.
    pub source_address: Option<CidrList>,
    /// `expiry-time=`: seconds since 1970 from which the key is no longer accepted.
    pub valid_before: Option<u64>,
    /// `principals=`: names of which the certificate must contain one. An authorized_keys line that
    /// has it without `cert-authority` is refused.
    pub principals: Option<Vec<String>>,
    /// `no-pty`
    pub permit_pty: bool,
    /// `no-port-forwarding`
    pub permit_port_forwarding: bool,
    /// `no-agent-forwarding`
    pub permit_agent_forwarding: bool,
    /// `no-X11-forwarding`
    pub permit_x11_forwarding: bool,
    /// `no-user-rc`
    pub permit_user_rc: bool,
    /// `permitopen=`; empty permits all targets.
    pub permit_open: Vec<PermitTarget>,
    /// `permitlisten=`; empty permits all addresses.
    pub permit_listen: Vec<PermitTarget>,
    /// `tunnel=`: the tunnel device that must be used.
    pub tunnel: Option<TunnelUnit>,
    /// `no-touch-required`: a security key need not be touched.
    pub no_touch_required: bool,
    /// `verify-required`: a security key must verify its user.
    pub verify_required: bool,
}

impl Default for KeyOptions {
    fn default() -> Self {
        Self {
            certificate_authority: false,
            restricted: false,
            force_command: None,
            environment: Vec::new(),
            from: None,
            source_address: None,
            valid_before: None,
            principals: None,
            permit_pty: true,
            permit_port_forwarding: true,
            permit_agent_forwarding: true,
            permit_x11_forwarding: true,
            permit_user_rc: true,
            permit_open: Vec::new(),
            permit_listen: Vec::new(),
            tunnel: None,
            no_touch_required: false,
            verify_required: false,
        }
    }
}

/// A permitted target or listening address of a forwarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitTarget {
    /// The target is of datagrams, not of connections.
    pub is_udp: bool,
    /// Host as written, without brackets; `*` for any host.
    pub host: String,
    /// Port; `None` for any port.
    pub port: Option<u16>,
}

/// A tunnel device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelUnit {
    /// The next free device.
    Any,
    /// The device with this number.
    Unit(u32),
}

/// Two sources force different commands, so that neither may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeError;

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("certificate and key options force different commands")
    }
}

impl std::error::Error for MergeError {}

/// What precedes a target of datagrams in `permitopen` and `permitlisten`.
const UDP_PREFIX: &str = "udp/";

/// Limit on environment settings, and on permitted targets, per line.
const MAX_ITEMS: usize = 1024;

impl KeyOptions {
    /// Parses comma-separated options. Superfluous commas are skipped, as in OpenSSH.
    ///
    /// # Errors
    /// [`LineError`]; an unknown option invalidates the whole line.
    pub fn parse(text: &str, local: LocalClock<'_>) -> Result<Self, LineError> {
        let mut options = Self::default();
        let mut rest = text.trim_start_matches(',');
        while !rest.is_empty() {
            let (item, after) = split_item(rest)?;
            options.apply(&item, local)?;
            rest = after.trim_start_matches(',');
        }
        Ok(options)
    }

    /// Permissions of a certificate alone (TrustedUserCAKeys).
    #[must_use]
    pub fn from_certificate(grants: &CertificateGrants) -> Self {
        Self {
            restricted: !grants.permit_port_forwarding,
            force_command: grants.force_command.clone(),
            source_address: grants.source_address.clone(),
            permit_pty: grants.permit_pty,
            permit_port_forwarding: grants.permit_port_forwarding,
            permit_agent_forwarding: grants.permit_agent_forwarding,
            permit_x11_forwarding: grants.permit_x11_forwarding,
            permit_user_rc: grants.permit_user_rc,
            no_touch_required: grants.no_touch_required,
            verify_required: grants.verify_required,
            ..Self::default()
        }
    }

    /// Combines the permissions of both: a restriction of either applies. Where both set a value
    /// (environment, targets, tunnel), that of `self` is used.
    ///
    /// # Errors
    /// [`MergeError`] if both force a command and the commands differ.
    pub fn merge(&self, other: &Self) -> Result<Self, MergeError> {
        let force_command = match (&self.force_command, &other.force_command) {
            (Some(first), Some(second)) if first != second => return Err(MergeError),
            (first, second) => first.as_ref().or(second.as_ref()).cloned(),
        };
        let prefer = |first: &Vec<PermitTarget>, second: &Vec<PermitTarget>| {
            if first.is_empty() {
                second.clone()
            } else {
                first.clone()
            }
        };
        Ok(Self {
            certificate_authority: self.certificate_authority || other.certificate_authority,
            restricted: self.restricted || other.restricted,
            force_command,
            environment: if self.environment.is_empty() {
                other.environment.clone()
            } else {
                self.environment.clone()
            },
            from: self.from.clone().or_else(|| other.from.clone()),
            source_address: self
                .source_address
                .clone()
                .or_else(|| other.source_address.clone()),
            valid_before: match (self.valid_before, other.valid_before) {
                (Some(first), Some(second)) => Some(first.min(second)),
                (first, second) => first.or(second),
            },
            principals: self.principals.clone().or_else(|| other.principals.clone()),
            permit_pty: self.permit_pty && other.permit_pty,
            permit_port_forwarding: self.permit_port_forwarding && other.permit_port_forwarding,
            permit_agent_forwarding: self.permit_agent_forwarding && other.permit_agent_forwarding,
            permit_x11_forwarding: self.permit_x11_forwarding && other.permit_x11_forwarding,
            permit_user_rc: self.permit_user_rc && other.permit_user_rc,
            permit_open: prefer(&self.permit_open, &other.permit_open),
            permit_listen: prefer(&self.permit_listen, &other.permit_listen),
            tunnel: self.tunnel.or(other.tunnel),
            no_touch_required: self.no_touch_required && other.no_touch_required,
            verify_required: self.verify_required || other.verify_required,
        })
    }

    fn apply(&mut self, item: &OptionItem<'_>, local: LocalClock<'_>) -> Result<(), LineError> {
        let name = item.name.to_ascii_lowercase();
        if self.apply_flag(&name, item)? {
            return Ok(());
        }
        match name.as_str() {
            "command" => set_once("command", &mut self.force_command, item.value("command")?),
            "principals" => {
                let names = item.value("principals")?;
                let names = names.split(',').filter(|name| !name.is_empty());
                let names = names.map(str::to_owned).collect();
                set_once("principals", &mut self.principals, names)
            }
            "from" => {
                let list = AddressPatterns::parse(&item.value("from")?)
                    .map_err(|_| bad("from", "not a list of addresses and host names"))?;
                set_once("from", &mut self.from, list)
            }
            "expiry-time" => {
                let expiry = parse_absolute(&item.value("expiry-time")?, local)
                    .ok_or(bad("expiry-time", "not a time (YYYYMMDD[HHMM[SS]][Z])"))?;
                let earlier = self
                    .valid_before
                    .map_or(expiry, |before| before.min(expiry));
                self.valid_before = Some(earlier);
                Ok(())
            }
            "environment" => self.add_environment(&item.value("environment")?),
            "permitopen" => {
                let target = parse_target("permitopen", &item.value("permitopen")?)?;
                push_bounded("permitopen", &mut self.permit_open, target)
            }
            "permitlisten" => {
                let value = item.value("permitlisten")?;
                let (prefix, place) = match value.strip_prefix(UDP_PREFIX) {
                    Some(place) => (UDP_PREFIX, place),
                    None => ("", value.as_str()),
                };
                let any = match place.contains(':') {
                    true => "",
                    false => "*:",
                };
                let target = parse_target("permitlisten", &format!("{prefix}{any}{place}"))?;
                push_bounded("permitlisten", &mut self.permit_listen, target)
            }
            "tunnel" => {
                let unit = match item.value("tunnel")?.as_str() {
                    "any" => TunnelUnit::Any,
                    number => number
                        .parse()
                        .map(TunnelUnit::Unit)
                        .map_err(|_| bad("tunnel", "neither a number nor any"))?,
                };
                self.tunnel = Some(unit);
                Ok(())
            }
            _ => Err(LineError::UnknownOption(printable(item.name.as_bytes()))),
        }
    }

    /// Applies an option without a value; returns `false` if `name` is not such an option.
    fn apply_flag(&mut self, name: &str, item: &OptionItem<'_>) -> Result<bool, LineError> {
        let (stem, on) = match name.strip_prefix("no-") {
            Some(stem) => (stem, false),
            None => (name, true),
        };
        let switch = match stem {
            "pty" => &mut self.permit_pty,
            "port-forwarding" => &mut self.permit_port_forwarding,
            "agent-forwarding" => &mut self.permit_agent_forwarding,
            "x11-forwarding" => &mut self.permit_x11_forwarding,
            "user-rc" => &mut self.permit_user_rc,
            "touch-required" => {
                self.no_touch_required = !on;
                return item.no_value("touch-required");
            }
            "verify-required" => {
                self.verify_required = on;
                return item.no_value("verify-required");
            }
            "cert-authority" if on => {
                self.certificate_authority = true;
                return item.no_value("cert-authority");
            }
            "restrict" if on => {
                self.restricted = true;
                self.permit_pty = false;
                self.permit_port_forwarding = false;
                self.permit_agent_forwarding = false;
                self.permit_x11_forwarding = false;
                self.permit_user_rc = false;
                return item.no_value("restrict");
            }
            _ => return Ok(false),
        };
        *switch = on;
        item.no_value("flag")
    }

    fn add_environment(&mut self, setting: &str) -> Result<(), LineError> {
        let (name, value) = setting
            .split_once('=')
            .ok_or(bad("environment", "needs NAME=value"))?;
        let proper = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(proper) || value.contains('\0') {
            return Err(bad("environment", "not a name of letters, digits and _"));
        }
        if self.environment.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let setting = (name.to_owned(), value.to_owned());
        push_bounded("environment", &mut self.environment, setting)
    }
}

/// A parsed option: its name and its unquoted value.
pub(crate) struct OptionItem<'a> {
    pub(crate) name: &'a str,
    value: Option<String>,
}

impl OptionItem<'_> {
    pub(crate) fn value(&self, name: &'static str) -> Result<String, LineError> {
        match &self.value {
            Some(value) if value.contains('\0') => Err(bad(name, "holds a NUL byte")),
            Some(value) => Ok(value.clone()),
            None => Err(bad(name, "needs a value in quotes")),
        }
    }

    pub(crate) fn no_value(&self, name: &'static str) -> Result<bool, LineError> {
        match self.value {
            None => Ok(true),
            Some(_) => Err(bad(name, "takes no value")),
        }
    }
}

/// Splits off the first option; the rest is empty or begins with a comma.
pub(crate) fn split_item(text: &str) -> Result<(OptionItem<'_>, &str), LineError> {
    let end = text.find([',', '=']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err(LineError::Syntax);
    }
    let (value, rest) = match rest.strip_prefix('=') {
        Some(quoted) => {
            let (value, rest) = unquote(quoted)?;
            (Some(value), rest)
        }
        None => (None, rest),
    };
    if rest.is_empty() || rest.starts_with(',') {
        Ok((OptionItem { name, value }, rest))
    } else {
        Err(LineError::Syntax)
    }
}

/// Splits off a value in double quotes, in which `\"` means a quote.
fn unquote(text: &str) -> Result<(String, &str), LineError> {
    let mut rest = text.strip_prefix('"').ok_or(LineError::Syntax)?;
    let mut value = String::new();
    loop {
        let at = rest.find(['"', '\\']).ok_or(LineError::Syntax)?;
        let (plain, from) = rest.split_at(at);
        value.push_str(plain);
        if let Some(after) = from.strip_prefix('"') {
            return Ok((value, after));
        } else if let Some(after) = from.strip_prefix("\\\"") {
            value.push('"');
            rest = after;
        } else {
            value.push('\\');
            rest = from.strip_prefix('\\').unwrap_or_default();
        }
    }
}

/// Parses `host:port` or `host/port` like OpenSSH: the host ends at the first delimiter unless it
/// is in brackets, and may be empty (the empty name that a client can request to listen on). The
/// port is 1 to 65535, or `*` for any; service names are not looked up. `udp/host:port` is a target
/// of datagrams; OpenSSH refuses it, while `udp/53` is the port 53 of a host for it.
fn parse_target(option: &'static str, text: &str) -> Result<PermitTarget, LineError> {
    let delimiters = [':', '/'];
    let datagrams = text.strip_prefix(UDP_PREFIX);
    let (text, is_udp) = match datagrams.filter(|place| place.contains(':')) {
        Some(place) => (place, true),
        None => (text, false),
    };
    let parts = match text.strip_prefix('[') {
        Some(bracketed) => bracketed
            .split_once(']')
            .and_then(|(host, rest)| Some((host, rest.strip_prefix(delimiters)?))),
        None => text.split_once(delimiters),
    };
    let (host, port) = parts.ok_or(bad(option, "not host:port"))?;
    let port = match port {
        "*" => None,
        number => {
            // Accepts the same syntax as `strtonum`.
            let number = number.trim_ascii_start();
            let number = number.strip_prefix('+').unwrap_or(number);
            let proper = number.bytes().all(|byte| byte.is_ascii_digit());
            let number = number.parse::<u16>().ok();
            let number = number.filter(|number| proper && *number != 0);
            Some(number.ok_or(bad(option, "the port is not a number from 1 to 65535 or *"))?)
        }
    };
    Ok(PermitTarget {
        is_udp,
        host: host.to_owned(),
        port,
    })
}

fn set_once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), LineError> {
    if place.is_some() {
        return Err(bad(name, "is given twice"));
    }
    *place = Some(value);
    Ok(())
}

fn push_bounded<T>(name: &'static str, list: &mut Vec<T>, item: T) -> Result<(), LineError> {
    if list.len() >= MAX_ITEMS {
        return Err(bad(name, "is given too many times"));
    }
    list.push(item);
    Ok(())
}

fn bad(name: &'static str, why: &'static str) -> LineError {
    LineError::BadOption { name, why }
}
