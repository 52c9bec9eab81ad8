//! The display that a session forwards (`-X`, `-Y`, `ForwardX11`; RFC 4254 §6.3), and the check of the
//! connections to it. [`crate::forward`] joins them to its X server.
//!
//! The server gets a random cookie instead of the X server's. The first packet of each channel must
//! have it, and the X server's cookie takes its place; so a cookie that is stolen at the server is
//! worthless after the session.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use config::client::ClientOptions;
use driver::forward::{FirstPacketStep, ForwardTarget};
use proto::channel::Request;

use crate::log::{debug1, error, info};
use crate::text::one_line;

/// The port of display 0.
const FIRST_PORT: u32 = 6000;
/// The directory of the sockets of local displays.
const SOCKETS: &str = "/tmp/.X11-unix";
/// Characters of a display's name other than letters and digits, as in OpenSSH.
const DISPLAY_CHARACTERS: &str = ":/.-_";
/// Largest screen number, as in OpenSSH.
const MAX_SCREEN: u32 = 400;
/// The protocol of cookies that this module makes.
const PROTOCOL: &str = "MIT-MAGIC-COOKIE-1";
/// Length of a cookie that this module makes, bytes.
const COOKIE_BYTES: usize = 16;
/// Time for which an untrusted cookie lasts longer than channels are accepted, seconds; as in OpenSSH.
const SLACK_S: u32 = 60;
/// Families of entries in Xauthority (Xauth(3)): this host's local displays, and any address.
const FAMILY_LOCAL: u16 = 256;
const FAMILY_WILD: u16 = 65535;
/// Maximum size of Xauthority, bytes.
const MAX_AUTHORITY_BYTES: u64 = 1 << 20;

/// The X server that a session forwards.
#[derive(Clone)]
pub struct X11Plan {
    pub(crate) target: ForwardTarget,
    screen: u32,
    protocol: String,
    /// The X server's cookie, and the one that the server gets.
    real: Vec<u8>,
    fake: Vec<u8>,
    /// No channel is accepted from then on.
    pub(crate) ends: Option<Instant>,
}

/// Without the cookies.
impl std::fmt::Debug for X11Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("X11Plan")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// A display's place.
#[derive(Debug, PartialEq, Eq)]
struct Display {
    target: ForwardTarget,
    number: u32,
    screen: u32,
    /// The name by which xauth knows it.
    entry: String,
    is_local: bool,
}

impl Display {
    /// Reads `DISPLAY`: `:N`, `unix:N` or `host:N`, each possibly with `.SCREEN`.
    fn parse(name: &str) -> Option<Self> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || DISPLAY_CHARACTERS.contains(c);
        if !name.chars().all(is_valid) {
            return None;
        }
        let (host, place) = name.split_once(':')?;
        let (number, screen) = place.split_once('.').unwrap_or((place, "0"));
        let number: u32 = number.parse().ok()?;
        let screen = screen.parse().unwrap_or(0);
        let target = match host {
            "" | "unix" => ForwardTarget::Unix(Path::new(SOCKETS).join(format!("X{number}"))),
            host => ForwardTarget::Tcp {
                host: host.to_owned(),
                port: u16::try_from(FIRST_PORT.checked_add(number)?).ok()?,
            },
        };
        Some(Self {
            target,
            number,
            screen: if screen > MAX_SCREEN { 0 } else { screen },
            entry: match host {
                "localhost" => format!("unix:{place}"),
                _ => name.to_owned(),
            },
            is_local: matches!(host, "" | "unix" | "localhost"),
        })
    }
}

impl X11Plan {
    /// The plan for the display of this process; `None` if the options forward none, or if there is
    /// no display or no cookie for untrusted programs.
    pub(crate) fn prepare(options: &ClientOptions) -> Option<Self> {
        if !options.forwarding.x11 {
            return None;
        }
        let is_trusted = options.forwarding.x11_trusted;
        let timeout_s = options.forwarding.x11_timeout_s;
        let name = std::env::var_os("DISPLAY").unwrap_or_default();
        let name = name.to_string_lossy();
        if name.is_empty() {
            debug1!("X11 forwarding requested but DISPLAY not set");
            return None;
        }
        let Some(display) = Display::parse(&name) else {
            let name = one_line(&name);
            info!("DISPLAY \"{name}\" invalid; disabling X11 forwarding");
            return None;
        };
        let program = Path::new(&options.forwarding.xauth_location);
        let program = Some(program).filter(|program| program.exists());
        if program.is_none() {
            debug1!("No xauth program.");
        }
        let found = match is_trusted {
            true => trusted_cookie(&display, program),
            false => program.and_then(|program| untrusted_cookie(&display, program, timeout_s)),
        };
        let (protocol, real) = match found {
            Some(found) => found,
            None if is_trusted => {
                info!("Warning: No xauth data; using fake authentication data for X11 forwarding.");
                (PROTOCOL.to_owned(), random(COOKIE_BYTES))
            }
            None => {
                error!(
                    "Warning: untrusted X11 forwarding setup failed: xauth key data not generated"
                );
                return None;
            }
        };
        let limit =
            (!is_trusted && timeout_s > 0).then(|| Duration::from_secs(u64::from(timeout_s)));
        Some(Self {
            target: display.target,
            screen: display.screen,
            fake: random(real.len()),
            protocol,
            real,
            ends: limit.and_then(|limit| Instant::now().checked_add(limit)),
        })
    }

    /// The request of the session's channel.
    pub(crate) fn request(&self) -> Request {
        let digits: String = self.fake.iter().map(|byte| format!("{byte:02x}")).collect();
        Request::X11 {
            single_connection: false,
            protocol: self.protocol.clone().into_bytes(),
            cookie: digits.into_bytes(),
            screen: self.screen,
        }
    }

    /// Checks the first packet of a connection ("Connection Setup" of the X protocol): byte order,
    /// two bytes of version, lengths of the protocol's name and the cookie, and these, each padded to
    /// four bytes. Puts the X server's cookie in the place of the server's.
    pub(crate) fn check(&self, packet: &mut [u8]) -> FirstPacketStep {
        let read = match packet.first() {
            None => return FirstPacketStep::More,
            Some(b'B') => u16::from_be_bytes,
            Some(b'l') => u16::from_le_bytes,
            Some(_) => return FirstPacketStep::Refuse("Initial X11 packet has no byte order."),
        };
        let Some(&[_, _, _, _, _, _, p0, p1, d0, d1, _, _]) = packet.first_chunk::<12>() else {
            return FirstPacketStep::More;
        };
        let (protocol_len, data_len) = (usize::from(read([p0, p1])), usize::from(read([d0, d1])));
        // Before more is waited for: a peer that names other lengths sends what is never right.
        if protocol_len != self.protocol.len() {
            return FirstPacketStep::Refuse(
                "X11 connection uses different authentication protocol.",
            );
        }
        if data_len != self.fake.len() {
            return FirstPacketStep::Refuse("X11 auth data does not match fake data.");
        }
        let data_at = 12 + protocol_len.next_multiple_of(4);
        let end = data_at + data_len.next_multiple_of(4);
        if packet.len() < end {
            return FirstPacketStep::More;
        }
        if packet.get(12..12 + protocol_len) != Some(self.protocol.as_bytes()) {
            return FirstPacketStep::Refuse(
                "X11 connection uses different authentication protocol.",
            );
        }
        match packet.get_mut(data_at..data_at + data_len) {
            Some(data) if crypto::constant_time::eq(data, &self.fake) => {
                data.copy_from_slice(&self.real);
                FirstPacketStep::Pass
            }
            _ => FirstPacketStep::Refuse("X11 auth data does not match fake data."),
        }
    }
}

fn random(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    crypto::random::fill(&mut bytes);
    bytes
}

/// Protocol and cookie of the display, with all rights.
fn trusted_cookie(display: &Display, program: Option<&Path>) -> Option<(String, Vec<u8>)> {
    let file = std::env::var_os("XAUTHORITY")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME")?;
            Some(Path::new(&home).join(".Xauthority"))
        });
    // Addresses of other hosts are xauth's: it knows their families.
    let known = file
        .filter(|_| display.is_local)
        .filter(|file| {
            let fits = |found: fs::Metadata| found.is_file() && found.len() <= MAX_AUTHORITY_BYTES;
            fs::metadata(file).is_ok_and(fits)
        })
        .and_then(|file| fs::read(file).ok())
        .and_then(|file| find(&file, display, sys::socket::host_name().as_bytes()));
    known.or_else(|| listed_cookie(program?, None, &display.entry))
}

/// A cookie that the X server makes for untrusted programs (X Security extension).
fn untrusted_cookie(
    display: &Display,
    program: &Path,
    timeout_s: u32,
) -> Option<(String, Vec<u8>)> {
    let digits: String = random(8).iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = std::env::temp_dir().join(format!("ssh-{digits}"));
    DirBuilder::new().mode(0o700).create(&folder).ok()?;
    let file = folder.join("xauthfile");
    let mut command = Command::new(program);
    command.arg("-f").arg(&file);
    command.args(["generate", &display.entry, PROTOCOL, "untrusted"]);
    if timeout_s > 0 {
        let lasts = timeout_s.saturating_add(SLACK_S);
        command.args(["timeout", &lasts.to_string()]);
    }
    let made = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = made
        .is_ok_and(|status| status.success())
        .then(|| listed_cookie(program, Some(&file), &display.entry));
    let _ = fs::remove_dir_all(&folder);
    found.flatten()
}

/// What `xauth list` says: the display's name, the protocol and the cookie.
fn listed_cookie(program: &Path, file: Option<&Path>, entry: &str) -> Option<(String, Vec<u8>)> {
    let mut command = Command::new(program);
    if let Some(file) = file {
        command.arg("-f").arg(file);
    }
    let output = command
        .args(["list", entry])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.lines().next()?.split_whitespace().skip(1);
    let (protocol, digits) = (words.next()?, words.next()?);
    let cookie = wire::hex::decode(digits).filter(|cookie| !cookie.is_empty())?;
    Some((protocol.to_owned(), cookie))
}

/// Protocol and cookie of a local display in the file Xauthority: entries of a family and four fields
/// with their lengths (address, number, protocol, cookie).
fn find(file: &[u8], display: &Display, host: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut rest = file;
    loop {
        let family = u16::from_be_bytes(*rest.first_chunk()?);
        rest = rest.get(2..)?;
        let mut fields = [&b""[..]; 4];
        for field in &mut fields {
            let len = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
            (*field, rest) = rest.get(2..)?.split_at_checked(len)?;
        }
        let [address, number, protocol, cookie] = fields;
        let is_here = family == FAMILY_WILD || (family == FAMILY_LOCAL && address == host);
        let is_it = number.is_empty() || number == display.number.to_string().as_bytes();
        if is_here && is_it && !cookie.is_empty() {
            let protocol = String::from_utf8(protocol.to_vec()).ok()?;
            return Some((protocol, cookie.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> X11Plan {
        X11Plan {
            target: ForwardTarget::Unix("/x".into()),
            screen: 1,
            protocol: PROTOCOL.into(),
            real: vec![7; 16],
            fake: vec![9; 16],
            ends: None,
        }
    }

    fn packet(order: u8, protocol: &str, cookie: &[u8]) -> Vec<u8> {
        let number = |value: usize| {
            let value = u16::try_from(value).unwrap();
            match order {
                b'B' => value.to_be_bytes(),
                _ => value.to_le_bytes(),
            }
        };
        let mut out = vec![order, 0];
        for value in [11, 0, protocol.len(), cookie.len(), 0] {
            out.extend(number(value));
        }
        for field in [protocol.as_bytes(), cookie] {
            out.extend(field);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn the_cookie_is_exchanged_in_both_byte_orders_however_the_packet_is_split() {
        for order in [b'B', b'l'] {
            let mut whole = packet(order, PROTOCOL, &[9; 16]);
            let end = whole.len();
            for len in 0..end {
                let mut part = whole[..len].to_vec();
                assert_eq!(plan().check(&mut part), FirstPacketStep::More, "{len}");
                assert_eq!(part, whole[..len]);
            }
            whole.extend(b"next");
            assert_eq!(plan().check(&mut whole), FirstPacketStep::Pass);
            let mut expected = packet(order, PROTOCOL, &[7; 16]);
            expected.extend(b"next");
            assert_eq!(whole, expected);
        }
    }

    #[test]
    fn other_packets_are_refused() {
        let mut wrong = [9; 16];
        wrong[15] = 8;
        for mut bytes in [
            packet(b'x', PROTOCOL, &[9; 16]),
            packet(b'l', PROTOCOL, &wrong),
            packet(b'l', PROTOCOL, &[9; 15]),
            packet(b'l', PROTOCOL, &[9; 17]),
            packet(b'B', "XDM-AUTHORIZATION-1", &[9; 16]),
            packet(b'B', "MIT-MAGIC-COOKIE-2", &[9; 16]),
            packet(b'l', "", b""),
        ] {
            let step = plan().check(&mut bytes);
            assert!(matches!(step, FirstPacketStep::Refuse(_)), "{bytes:?}");
        }
    }

    #[test]
    fn displays_are_read_as_openssh_reads_them() {
        let unix = |number| ForwardTarget::Unix(format!("/tmp/.X11-unix/X{number}").into());
        let tcp = |port| ForwardTarget::Tcp {
            host: "localhost".into(),
            port,
        };
        for (name, target, number, screen, entry) in [
            (":0", unix(0), 0, 0, ":0"),
            ("unix:12.3", unix(12), 12, 3, "unix:12.3"),
            ("localhost:10.0", tcp(6010), 10, 0, "unix:10.0"),
            (":1.999", unix(1), 1, 0, ":1.999"),
        ] {
            let display = Display::parse(name).unwrap();
            assert_eq!((display.target, display.number), (target, number), "{name}");
            assert_eq!((display.screen, display.entry.as_str()), (screen, entry));
        }
        for name in ["", "host", ":", ":x", "h:99999", "h:1;id", ":0 x", "h:-1"] {
            assert_eq!(Display::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_in_xauthority_and_broken_files_have_none() {
        let entry = |family: u16, fields: [&[u8]; 4]| {
            let mut out = family.to_be_bytes().to_vec();
            for field in fields {
                out.extend(u16::try_from(field.len()).unwrap().to_be_bytes());
                out.extend(field);
            }
            out
        };
        let mut file = entry(0, [&[10, 0, 0, 1], b"0", b"P", b"no"]);
        file.extend(entry(FAMILY_LOCAL, [b"other", b"0", b"P", b"no"]));
        file.extend(entry(FAMILY_LOCAL, [b"here", b"1", b"P", b"no"]));
        file.extend(entry(FAMILY_LOCAL, [b"here", b"0", b"P", b"yes"]));
        let display = Display::parse(":0").unwrap();
        let found = find(&file, &display, b"here");
        assert_eq!(found, Some(("P".into(), b"yes".to_vec())));
        for len in 0..file.len() {
            assert_eq!(find(&file[..len], &display, b"here"), None);
        }
        let wild = entry(FAMILY_WILD, [b"", b"", b"P", b"any"]);
        assert!(find(&wild, &display, b"here").is_some());
    }
}
