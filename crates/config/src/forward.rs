//! Specifications of forwardings: `LocalForward`, `RemoteForward` and `DynamicForward`, and the
//! flags `-L`, `-R` and `-D`, whose form is `[bind_address:]port:host:hostport` with sockets' paths
//! in place of either half. After [`UDP_PREFIX`] the same form, without paths, forwards datagrams.

use std::fmt;

use crate::units;

/// Where a forwarding listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardListen {
    /// A TCP port.
    Tcp {
        /// The address, if one is named; empty and `*` are all addresses.
        address: Option<String>,
        /// The port; 0 leaves the choice to the server (`RemoteForward` only).
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
    /// A UDP port; address and port as for TCP.
    Udp {
        /// The address, if one is named.
        address: Option<String>,
        /// The port.
        port: u16,
    },
}

/// Where a forwarding leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardTo {
    /// A host and port.
    Tcp {
        /// Name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
    /// Each connection names its target by SOCKS.
    Socks,
    /// A host and port for datagrams.
    Udp {
        /// Name or address.
        host: String,
        /// The port.
        port: u16,
    },
}

/// One forwarding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardSpec {
    /// Where it listens.
    pub listen: ForwardListen,
    /// Where it leads.
    pub to: ForwardTo,
}

/// The flag that a specification belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// `-L`.
    Local,
    /// `-R`.
    Remote,
    /// `-D`.
    Dynamic,
}

/// What precedes the form of a forwarding of datagrams. A relative path that begins so is written
/// with `./` before it.
pub const UDP_PREFIX: &str = "udp/";

/// Longest path of a Unix socket, bytes.
pub(crate) const MAX_PATH_BYTES: usize = 107;
/// Longest host name, bytes (`NI_MAXHOST` less the NUL).
const MAX_HOST_BYTES: usize = 1024;

/// One field of a specification; true for a path.
type SpecField = (String, bool);

/// Splits the next field off, as OpenSSH does: brackets protect colons, and so does a backslash.
/// Returns the field and what follows its colon.
fn field(text: &str) -> Option<(SpecField, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let field = (inside.to_owned(), inside.contains('/'));
        return match after.strip_prefix(':') {
            Some(more) => Some((field, Some(more))),
            None => after.is_empty().then_some((field, None)),
        };
    }
    let mut out = String::new();
    let mut is_path = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?.1),
            ':' => return Some(((out, is_path), text.get(at + 1..))),
            _ => {
                is_path |= c == '/' || (c == '$' && at == 0);
                out.push(c);
            }
        }
    }
    Some(((out, is_path), None))
}

fn fields(text: &str) -> Option<Vec<SpecField>> {
    let mut out = Vec::new();
    let mut rest = Some(text.trim_start()).filter(|text| !text.is_empty());
    while let Some(text) = rest {
        if out.len() == 4 {
            return None;
        }
        let (field, more) = field(text)?;
        out.push(field);
        // A colon at the end has no meaning, as in OpenSSH.
        rest = more.filter(|more| !more.is_empty());
    }
    Some(out)
}

fn port(text: &str, may_be_any: bool) -> Option<u16> {
    match text {
        "0" if may_be_any => Some(0),
        _ => units::parse_port(text),
    }
}

impl ForwardSpec {
    /// Reads the argument of a flag; `None` if it is not of the form.
    pub fn parse(text: &str, kind: ForwardKind) -> Option<ForwardSpec> {
        match text.trim_start().strip_prefix(UDP_PREFIX) {
            Some(rest) => Self::parse_plain(rest, kind)?.of_datagrams(),
            None => Self::parse_plain(text, kind),
        }
    }

    /// The same for datagrams; `None` unless both halves are ports.
    pub(crate) fn of_datagrams(self) -> Option<ForwardSpec> {
        let to = match self.to {
            ForwardTo::Tcp { host, port } => ForwardTo::Udp { host, port },
            _ => return None,
        };
        let listen = self.listen.of_datagrams()?;
        Some(ForwardSpec { listen, to })
    }

    fn parse_plain(text: &str, kind: ForwardKind) -> Option<ForwardSpec> {
        let fields = fields(text)?;
        let fields: Vec<_> = fields
            .iter()
            .map(|(text, path)| (text.as_str(), *path))
            .collect();
        let any = kind == ForwardKind::Remote;
        let tcp = |address: Option<&str>, number: &str| {
            let address = address.map(str::to_owned);
            let port = port(number, any)?;
            Some(ForwardListen::Tcp { address, port })
        };
        let unix = |path: &str| Some(ForwardListen::Unix(path.to_owned()));
        let to = |host: &str, number: &str| {
            let host = Some(host).filter(|host| !host.is_empty())?.to_owned();
            let port = port(number, false)?;
            Some(ForwardTo::Tcp { host, port })
        };
        let to_unix = |path: &str| Some(ForwardTo::Unix(path.to_owned()));
        let socks = || (kind != ForwardKind::Local).then_some(ForwardTo::Socks);
        let (listen, to) = match fields.as_slice() {
            [(path, true)] => (unix(path), socks()),
            [(number, false)] => (tcp(None, number), socks()),
            [(path, true), (target, true)] => (unix(path), to_unix(target)),
            [(number, false), (target, true)] => (tcp(None, number), to_unix(target)),
            [(address, false), (number, false)] => (tcp(Some(address), number), socks()),
            [(path, true), (host, false), (number, false)] => (unix(path), to(host, number)),
            [(address, false), (number, false), (target, true)] => {
                (tcp(Some(address), number), to_unix(target))
            }
            [(number, false), (host, false), (target, false)] => {
                (tcp(None, number), to(host, target))
            }
            [
                (address, false),
                (number, false),
                (host, false),
                (target, false),
            ] => (tcp(Some(address), number), to(host, target)),
            _ => return None,
        };
        let spec = ForwardSpec {
            listen: listen?,
            to: to?,
        };
        let is_dynamic = spec.to == ForwardTo::Socks;
        (spec.is_bounded() && (kind != ForwardKind::Dynamic || is_dynamic)).then_some(spec)
    }

    fn is_bounded(&self) -> bool {
        let listen = match &self.listen {
            ForwardListen::Unix(path) => path.len() <= MAX_PATH_BYTES,
            ForwardListen::Tcp { address, .. } | ForwardListen::Udp { address, .. } => {
                address.as_ref().is_none_or(|address| {
                    address.len() <= MAX_HOST_BYTES && !address.contains(char::is_whitespace)
                })
            }
        };
        let to = match &self.to {
            ForwardTo::Unix(path) => path.len() <= MAX_PATH_BYTES,
            ForwardTo::Tcp { host, .. } | ForwardTo::Udp { host, .. } => {
                host.len() <= MAX_HOST_BYTES
            }
            ForwardTo::Socks => true,
        };
        listen && to
    }

    /// The words of the keyword that means the same.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![self.listen.to_string()];
        if self.to != ForwardTo::Socks {
            words.push(self.to.to_string());
        }
        words
    }
}

impl ForwardListen {
    /// Reads where a forwarding listens, as the escape `~C` names the one to cancel.
    pub fn parse(text: &str) -> Option<ForwardListen> {
        let plain = |text| ForwardSpec::parse_plain(text, ForwardKind::Dynamic);
        match text.trim_start().strip_prefix(UDP_PREFIX) {
            Some(rest) => plain(rest)?.listen.of_datagrams(),
            None => plain(text).map(|spec| spec.listen),
        }
    }

    fn of_datagrams(self) -> Option<ForwardListen> {
        match self {
            Self::Tcp { address, port } => Some(Self::Udp { address, port }),
            Self::Unix(_) | Self::Udp { .. } => None,
        }
    }
}

/// As the dump prints it, with `[socks]:0` for a target that SOCKS names.
impl fmt::Display for ForwardSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.listen, self.to)
    }
}

impl fmt::Display for ForwardListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp {
                address: None,
                port,
            } => write!(f, "{port}"),
            Self::Tcp {
                address: Some(address),
                port,
            } => write!(f, "[{address}]:{port}"),
            Self::Unix(path) => f.write_str(path),
            Self::Udp { address, port } => {
                let (address, port) = (address.clone(), *port);
                write!(f, "{UDP_PREFIX}{}", Self::Tcp { address, port })
            }
        }
    }
}

impl fmt::Display for ForwardTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } | Self::Udp { host, port } => write!(f, "[{host}]:{port}"),
            Self::Unix(path) => f.write_str(path),
            Self::Socks => f.write_str("[socks]:0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::client;
    use crate::value::Setting;

    /// What `ssh -G` of OpenSSH 9.2 prints for the flag, without the keyword.
    #[test]
    fn flags_mean_what_openssh_dumps() {
        use ForwardKind::{Dynamic, Local, Remote};
        let cases: &[(ForwardKind, &str, Option<&str>)] = &[
            (Local, "8080:h:80", Some("8080 [h]:80")),
            (Local, " 8080:h:80", Some("8080 [h]:80")),
            (
                Local,
                "127.0.0.1:8080:h:80",
                Some("[127.0.0.1]:8080 [h]:80"),
            ),
            (Local, "[::1]:8080:[::2]:80", Some("[::1]:8080 [::2]:80")),
            (Local, "*:8080:h:80", Some("[*]:8080 [h]:80")),
            (Local, ":8080:h:80", Some("[]:8080 [h]:80")),
            (Local, "/a:/b", Some("/a /b")),
            (Local, "/a:h:80", Some("/a [h]:80")),
            (Local, "80:/b", Some("80 /b")),
            (Local, "l:80:/b c", Some("[l]:80 /b c")),
            (Local, "/a\\:b:/c", Some("/a:b /c")),
            (Local, "[/a:b]:/c", Some("/a:b /c")),
            (Local, "./a:h:1", Some("./a [h]:1")),
            (Local, "8080", None),
            (Local, "h:8080", None),
            (Local, "8080:h", None),
            (Local, "0:h:80", None),
            (Local, "8080:h:0", None),
            (Local, "8080:h:80:", Some("8080 [h]:80")),
            (Local, "8080:h:80:9:9", None),
            (Local, "::1:8080:h:80", None),
            (Local, "[::1:8080:h:80", None),
            (Local, "8080::80", None),
            (Local, "", None),
            (Local, "/a b:/c", Some("/a b /c")),
            (Remote, "0:h:80", Some("0 [h]:80")),
            (Remote, "8080", Some("8080 [socks]:0")),
            (Remote, "h:8080", Some("[h]:8080 [socks]:0")),
            (Remote, "/a", Some("/a [socks]:0")),
            (Dynamic, "1080", Some("1080 [socks]:0")),
            (Dynamic, "h:1080", Some("[h]:1080 [socks]:0")),
            (Dynamic, "[::1]:1080", Some("[::1]:1080 [socks]:0")),
            (Dynamic, "0", None),
            (Dynamic, "1080:h:80", None),
            (Dynamic, "1080:/b", None),
            // Ours: OpenSSH has no datagrams.
            (Local, "udp/53:h:5353", Some("udp/53 [h]:5353")),
            (
                Local,
                " udp/[::1]:53:[::2]:5353",
                Some("udp/[::1]:53 [::2]:5353"),
            ),
            (Local, "udp/*:53:h:5353", Some("udp/[*]:53 [h]:5353")),
            (Local, "udp/0:h:53", None),
            (Local, "udp/53", None),
            (Local, "udp/53:/b", None),
            (Local, "udp//a:h:53", None),
            (Local, "udp/udp/53:h:53", None),
            (Local, "udp/", None),
            (Local, "./udp/a:h:1", Some("./udp/a [h]:1")),
            (Remote, "udp/0:h:53", Some("udp/0 [h]:53")),
            (Remote, "udp/53", None),
            (Dynamic, "udp/1080", None),
        ];
        for (kind, text, dump) in cases {
            let spec = ForwardSpec::parse(text, *kind);
            let shown = spec
                .as_ref()
                .map(|spec| format!("{} {}", spec.listen, spec.to));
            assert_eq!(shown.as_deref(), *dump, "{kind:?} {text}");
            // The keyword reads the same from the words of the flag.
            let form = match kind {
                Local => client::local_forward,
                Remote => client::remote_forward,
                Dynamic => client::dynamic_forward,
            };
            let read = spec.as_ref().map(|spec| form(&spec.words()).unwrap());
            assert_eq!(read.and_then(Vec::from_value), spec.map(|spec| vec![spec]));
        }
    }

    #[test]
    fn a_listener_to_cancel_is_named_alone() {
        for (text, shown) in [
            ("8080", Some("8080")),
            ("*:8080", Some("[*]:8080")),
            ("/a", Some("/a")),
            ("udp/53", Some("udp/53")),
            (" udp/[::1]:53", Some("udp/[::1]:53")),
            ("udp/53:h:53", None),
            ("udp//a", None),
            ("", None),
        ] {
            let listen = ForwardListen::parse(text).map(|listen| listen.to_string());
            assert_eq!(listen.as_deref(), shown, "{text}");
        }
    }
}
