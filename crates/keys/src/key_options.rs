//! The options before a key (sshd(8), AUTHORIZED_KEYS FILE FORMAT), and the combined permissions of
//! a key line and a certificate.

use core::fmt;

use crate::address::{AddressPatterns, CidrList};
use crate::error::{KeyError, printable};
use crate::time::{LocalClock, parse_absolute};
use wire::permissions::{Permission, Permissions, PermitTarget};

/// Why a line is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineError {
    /// Over the limit, which leaves room for any key with options.
    TooLong,
    /// Not valid UTF-8.
    NotUtf8,
    /// The line has no key.
    NoKey,
    /// The key is invalid.
    Key(KeyError),
    /// Unknown option; the name is escaped.
    UnknownOption(String),
    /// An option without a required value, with an unexpected or invalid value, or repeated.
    BadOption {
        /// Name of the option.
        name: &'static str,
        /// Description of the problem.
        why: &'static str,
    },
    /// Unbalanced quotes or misplaced commas.
    Syntax,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("line is too long"),
            Self::NotUtf8 => f.write_str("line is not UTF-8"),
            Self::NoKey => f.write_str("no key on the line"),
            Self::Key(error) => write!(f, "{error}"),
            Self::UnknownOption(name) => write!(f, "unknown key option \"{name}\""),
            Self::BadOption { name, why } => write!(f, "key option {name}: {why}"),
            Self::Syntax => f.write_str("key options are malformed (quotes or commas)"),
        }
    }
}

impl std::error::Error for LineError {}

/// Makes [`KeyOptions`], its default and its combination: a row names a field, the value of a line
/// without the option, and the rule that combines two values.
macro_rules! key_options {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr, $merge:ident;)*) => {
        /// Permissions of a key after login, and conditions for the login. The default is a line without
        /// options, which permits everything.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct KeyOptions {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for KeyOptions {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl KeyOptions {
            fn combine(&self, other: &Self) -> Self {
                Self { $($name: $merge(&self.$name, &other.$name),)* }
            }
        }
    };
}

key_options! {
    /// `cert-authority`: the key signs certificates.
    certificate_authority: bool = false, either;
    /// `restrict` was given, or the certificate lacks `permit-port-forwarding`: features without an
    /// option of their own, such as tunnels, are denied too.
    restricted: bool = false, either;
    /// `command=`, or a certificate's `force-command`.
    force_command: Option<String> = None, first;
    /// `environment=`, in order; of several values for one name the first counts.
    environment: Vec<(String, String)> = Vec::new(), first_list;
    /// `from=`
    from: Option<AddressPatterns> = None, first;
    /// A certificate's `source-address`.
    source_address: Option<CidrList> = None, first;
    /// `expiry-time=`: seconds since 1970 from which the key is no longer accepted.
    valid_before: Option<u64> = None, earliest;
    /// `principals=`: names of which the certificate must contain one. An authorized_keys line that
    /// has it without `cert-authority` is refused.
    principals: Option<Vec<String>> = None, first;
    /// `pty`, `no-pty` and the others of [`Permission`]; `restrict` denies all.
    permissions: Permissions = Permissions::ALL, common;
    /// `permitopen=`; empty permits all targets.
    permit_open: Vec<PermitTarget> = Vec::new(), first_list;
    /// `permitlisten=`; empty permits all addresses.
    permit_listen: Vec<PermitTarget> = Vec::new(), first_list;
    /// `tunnel=`: the tunnel device that must be used.
    tunnel: Option<TunnelUnit> = None, first;
    /// `no-touch-required`: a security key need not be touched.
    no_touch_required: bool = false, both;
    /// `verify-required`: a security key must verify its user.
    verify_required: bool = false, either;
}

fn either(one: &bool, other: &bool) -> bool {
    *one || *other
}

fn both(one: &bool, other: &bool) -> bool {
    *one && *other
}

fn common(one: &Permissions, other: &Permissions) -> Permissions {
    one.and(*other)
}

fn first<T: Clone>(one: &Option<T>, other: &Option<T>) -> Option<T> {
    one.as_ref().or(other.as_ref()).cloned()
}

fn first_list<T: Clone>(one: &[T], other: &[T]) -> Vec<T> {
    if one.is_empty() { other } else { one }.to_vec()
}

fn earliest(one: &Option<u64>, other: &Option<u64>) -> Option<u64> {
    one.iter().chain(other).min().copied()
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

    /// Permits nothing but the login: a certificate without extensions.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            restricted: true,
            permissions: Permissions::NONE,
            ..Self::default()
        }
    }

    /// Combines the permissions of both: a restriction of either applies. Where both set a value
    /// (environment, targets, tunnel), that of `self` is used.
    ///
    /// # Errors
    /// [`MergeError`] if both force a command and the commands differ.
    pub fn merge(&self, other: &Self) -> Result<Self, MergeError> {
        match (&self.force_command, &other.force_command) {
            (Some(one), Some(two)) if one != two => Err(MergeError),
            _ => Ok(self.combine(other)),
        }
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
        if let Some(permission) = Permission::of_option(stem) {
            self.permissions.set(permission, on);
            return item.no_value(permission.option());
        }
        let named = match stem {
            "touch-required" => {
                self.no_touch_required = !on;
                "touch-required"
            }
            "verify-required" => {
                self.verify_required = on;
                "verify-required"
            }
            "cert-authority" if on => {
                self.certificate_authority = true;
                "cert-authority"
            }
            "restrict" if on => {
                self.restricted = true;
                self.permissions = Permissions::NONE;
                "restrict"
            }
            _ => return Ok(false),
        };
        item.no_value(named)
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
