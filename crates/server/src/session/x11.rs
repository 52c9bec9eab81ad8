//! Displays for the user's programs, whose connections the client's X server gets (RFC 4254 §6.3). The
//! listeners are those of [`super::forward`]; this module chooses the display and stores its cookie
//! where X programs look for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::server::ForwardingOptions;
use driver::forward::{Gateway, ListeningSockets};
use sys::socket::Family;

/// The port of display 0.
const FIRST_PORT: u32 = 6000;
/// Maximum displays of one host, as in OpenSSH.
const MAX_DISPLAYS: u32 = 1000;
/// Characters other than letters and digits in a protocol's name and a cookie, as in OpenSSH: both are
/// written into the input of xauth and of the rc file, where a line's end would be a command.
const COOKIE_CHARACTERS: &[u8] = b".:/-_";
/// Maximum length of the protocol's name and the cookie's digits, bytes.
const MAX_WORD_BYTES: usize = 512;
/// Families of entries in Xauthority (Xauth(3)): this host's local displays, and any address.
const FAMILY_LOCAL: u16 = 256;
const FAMILY_WILD: u16 = 65535;
/// Maximum size of Xauthority, bytes.
const MAX_AUTHORITY_BYTES: u64 = 1 << 20;
/// Attempts to lock Xauthority, and the time between them.
const LOCK_ATTEMPTS: (u32, Duration) = (5, Duration::from_millis(20));

/// What the client asks for.
pub(super) struct X11Request {
    pub(super) single_connection: bool,
    pub(super) protocol: Vec<u8>,
    pub(super) cookie: Vec<u8>,
    pub(super) screen: u32,
}

impl X11Request {
    /// True if protocol and cookie are not too long and have no character that xauth or the rc file could
    /// misunderstand.
    pub(super) fn is_plain(&self) -> bool {
        [&self.protocol, &self.cookie].into_iter().all(|word| {
            let is_plain =
                |byte: &u8| byte.is_ascii_alphanumeric() || COOKIE_CHARACTERS.contains(byte);
            (1..=MAX_WORD_BYTES).contains(&word.len()) && word.iter().all(is_plain)
        })
    }
}

/// A display of a session.
pub(super) struct X11Display {
    /// `DISPLAY`.
    pub(super) display: String,
    /// The display's name for xauth.
    entry: String,
    number: u32,
    is_local: bool,
    protocol: String,
    cookie: String,
    /// The listener's number.
    pub(super) listener: u64,
}

impl X11Display {
    pub(super) fn new(request: &X11Request, number: u32, is_local: bool, listener: u64) -> Self {
        let suffix = format!("{number}.{}", request.screen);
        let (display, entry) = match is_local {
            true => (format!("localhost:{suffix}"), format!("unix:{suffix}")),
            false => {
                let display = format!("{}:{suffix}", sys::socket::host_name());
                (display.clone(), display)
            }
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            display,
            entry,
            number,
            is_local,
            protocol: text(&request.protocol),
            cookie: text(&request.cookie),
            listener,
        }
    }

    /// Standard input of the rc file, which stores the cookie itself (sshd(8), SSHRC).
    pub(super) fn rc_input(&self) -> Vec<u8> {
        format!("{} {}\n", self.protocol, self.cookie).into_bytes()
    }

    /// Standard input of `xauth -q -`.
    pub(super) fn xauth_input(&self) -> Vec<u8> {
        let (entry, protocol, cookie) = (&self.entry, &self.protocol, &self.cookie);
        format!("remove {entry}\nadd {entry} {protocol} {cookie}\n").into_bytes()
    }

    /// Stores the cookie in the user's Xauthority, for a host without xauth.
    ///
    /// # Errors
    /// Those of the file system; `InvalidData` if the cookie is not hexadecimal, or the file too long or
    /// no regular file; `WouldBlock` if another program holds the file's lock.
    pub(super) fn store(&self, file: &Path) -> io::Result<()> {
        let cookie = wire::hex::decode(&self.cookie).ok_or(io::ErrorKind::InvalidData)?;
        let number = self.number.to_string();
        let host = sys::socket::host_name();
        let (family, address) = match self.is_local {
            true => (FAMILY_LOCAL, host.as_bytes()),
            false => (FAMILY_WILD, &b""[..]),
        };
        let mut entry = Vec::new();
        entry.extend_from_slice(&family.to_be_bytes());
        for part in [
            address,
            number.as_bytes(),
            self.protocol.as_bytes(),
            &cookie,
        ] {
            let len = u16::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidData)?;
            entry.extend_from_slice(&len.to_be_bytes());
            entry.extend_from_slice(part);
        }
        let _lock = AuthorityLock::take(file)?;
        let before = match fs::metadata(file) {
            Ok(found) if !found.is_file() || found.len() > MAX_AUTHORITY_BYTES => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Ok(_) => fs::read(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // The entry comes first: programs use the first one that fits, and an old one may be there.
        let new = sibling(file, "-n");
        let _ = fs::remove_file(&new);
        let mut out = create(&new)?;
        out.write_all(&entry)?;
        out.write_all(&others(&before, family, address, number.as_bytes()))?;
        fs::rename(&new, file)
    }
}

/// The entries of Xauthority that are not about this display.
fn others(file: &[u8], family: u16, address: &[u8], number: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = file;
    while let Some((entry, after)) = split_entry(rest) {
        let mut same = Vec::new();
        same.extend_from_slice(&family.to_be_bytes());
        for part in [address, number] {
            // Both have been written with their lengths before.
            same.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
            same.extend_from_slice(part);
        }
        if !entry.starts_with(&same) {
            kept.extend_from_slice(entry);
        }
        rest = after;
    }
    kept
}

/// The first entry of Xauthority, and what follows it; `None` if there is no whole one.
fn split_entry(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = 2;
    for _ in 0..4 {
        let len = file.get(end..end + 2)?;
        end += 2 + usize::from(u16::from_be_bytes([*len.first()?, *len.get(1)?]));
    }
    file.split_at_checked(end)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// The lock by which programs agree on Xauthority, as libXau has it: the file with `-c`, linked to the
/// one with `-l`.
struct AuthorityLock {
    file: PathBuf,
}

impl AuthorityLock {
    fn take(file: &Path) -> io::Result<Self> {
        let (claim, link) = (sibling(file, "-c"), sibling(file, "-l"));
        let (attempts, pause) = LOCK_ATTEMPTS;
        for attempt in 0..attempts {
            if attempt > 0 {
                std::thread::sleep(pause);
            }
            match create(&claim) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            if fs::hard_link(&claim, link).is_ok() {
                let file = file.to_owned();
                return Ok(Self { file });
            }
            let _ = fs::remove_file(&claim);
            break;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Drop for AuthorityLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(sibling(&self.file, "-c"));
        let _ = fs::remove_file(sibling(&self.file, "-l"));
    }
}

fn sibling(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Listens on the first display that is free at all addresses; returns its number.
///
/// # Errors
/// `AddrInUse` if all are taken; others of the system.
pub(super) fn listen(
    forwarding: &ForwardingOptions,
    family: Family,
) -> io::Result<(ListeningSockets, u32)> {
    let gateway = match forwarding.x11_use_localhost {
        true => Gateway::Loopback,
        false => Gateway::Everywhere,
    };
    let first = forwarding.x11_display_offset;
    for number in first..first.saturating_add(MAX_DISPLAYS) {
        let Some(port) = FIRST_PORT.checked_add(number) else {
            break;
        };
        let Ok(port) = u16::try_from(port) else {
            break;
        };
        let mut is_taken = false;
        let listening =
            ListeningSockets::on_port(None, (port, false), gateway, family, |_, error| {
                is_taken |= error.kind() == io::ErrorKind::AddrInUse;
            });
        match listening {
            Ok(sockets) if is_taken => sockets.discard(),
            Ok(sockets) => return Ok((sockets, number)),
            Err(_) if is_taken => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocol: &str, cookie: &str) -> X11Request {
        X11Request {
            single_connection: false,
            protocol: protocol.into(),
            cookie: cookie.into(),
            screen: 2,
        }
    }

    #[test]
    fn a_cookie_cannot_become_a_command_of_xauth() {
        let plain = "MIT-MAGIC-COOKIE-1";
        assert!(request(plain, "00ff").is_plain());
        let long = "0".repeat(MAX_WORD_BYTES + 1);
        for cookie in ["", "00\nquit", "00 11", "00\0", "$(id)", "'", &long] {
            assert!(!request(plain, cookie).is_plain(), "{cookie:?}");
            assert!(!request(cookie, "00").is_plain(), "{cookie:?}");
        }
    }

    #[test]
    fn displays_have_the_names_of_openssh() {
        let local = X11Display::new(&request("P", "00ff"), 10, true, 1);
        assert_eq!(local.display, "localhost:10.2");
        assert_eq!(local.rc_input(), b"P 00ff\n");
        assert_eq!(
            local.xauth_input(),
            b"remove unix:10.2\nadd unix:10.2 P 00ff\n"
        );
        let open = X11Display::new(&request("P", "00"), 11, false, 1);
        assert!(open.display.ends_with(":11.2") && !open.display.starts_with("localhost"));
    }

    #[test]
    fn an_old_entry_of_the_display_is_replaced_and_others_stay() {
        let folder = std::env::temp_dir().join(format!("fulmar-x11-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("Xauthority");
        let entry = |number, cookie| X11Display::new(&request("P", cookie), number, true, 1);
        entry(10, "aa").store(&file).unwrap();
        entry(11, "bb").store(&file).unwrap();
        entry(10, "cc").store(&file).unwrap();
        let mut cookies = Vec::new();
        let content = fs::read(&file).unwrap();
        let mut rest = &content[..];
        while let Some((entry, after)) = split_entry(rest) {
            cookies.push(*entry.last().unwrap());
            rest = after;
        }
        assert_eq!((cookies, rest.len()), (vec![0xcc, 0xbb], 0));
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&file).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        // A lock that another program holds, and a cookie that is none.
        fs::write(folder.join("Xauthority-c"), "").unwrap();
        let locked = entry(12, "dd").store(&file).unwrap_err();
        assert_eq!(locked.kind(), io::ErrorKind::WouldBlock);
        assert!(folder.join("Xauthority-c").exists());
        assert!(entry(12, "d").store(&file).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
