//! The file of the login cache: one line for each user at each server.
//!
//! ```text
//! user@host offer kex host-key server-sig-algs key suite flag version line
//! ```
//!
//! The name is hashed as in known_hosts if `HashKnownHosts` is set; `-` is an unknown value. The
//! next change drops lines of another form, and the oldest lines beyond [`MAX_LINES`].

use std::io;
use std::path::Path;

use keys::known_hosts::{hash_name, hashed_name_matches};
use sys::file::FollowLinks;

use super::ServerProfile;

/// The file's name, in the directory of known_hosts.
pub(super) const NAME: &str = "login_cache";

const HEADER: &str = "# Server profiles that ssh stores to make the next logins faster (LoginCache in ssh_config). \
     It may be deleted.\n";
/// Flag of a server that gets no pipelined messages; it excludes [`SHORT`].
const CAREFUL: &str = "careful";
/// Flag of a server that understands a short KEXINIT.
const SHORT: &str = "short";
/// Most logins in the file.
const MAX_LINES: usize = 256;
/// Longest line, bytes: names of algorithms and a version line of at most 255 bytes.
const MAX_LINE_BYTES: usize = 2048;
/// Longest file that is read, bytes.
const MAX_FILE_BYTES: u64 = (MAX_LINES * MAX_LINE_BYTES) as u64;

/// Reads the file, unless others may write it.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let file = sys::file::open_regular(path, FollowLinks::Refuse)?;
    if sys::file::others_may_write(&file)? {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others may write it, so it is not used",
        ));
    }
    let bytes = sys::file::read_file_bounded(&file, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// True if `text` can be one field of a line.
pub(super) fn is_field(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// True if a line's first field is `name`, hashed or not.
pub(super) fn is_about(field: &str, name: &str) -> bool {
    if field.starts_with('|') {
        hashed_name_matches(field.as_bytes(), name)
    } else {
        field == name
    }
}

/// The profile of the last line whose first field is `wanted`.
pub(super) fn find(text: &str, wanted: impl Fn(&str) -> bool) -> Option<ServerProfile> {
    text.lines()
        .rev()
        .filter(|line| line.len() <= MAX_LINE_BYTES)
        .filter_map(|line| line.split_once(' '))
        .find(|(field, _)| wanted(field))
        .and_then(|(_, rest)| parse(rest))
}

fn parse(rest: &str) -> Option<ServerProfile> {
    let mut fields = rest.splitn(8, ' ');
    let mut field = || fields.next().filter(|field| is_field(field));
    let known = |field: &str| (field != "-").then(|| field.to_owned());
    let offer = field()?.to_owned();
    let kex = known(field()?);
    let host_key = known(field()?);
    let signature_algorithms =
        known(field()?).map(|list| list.split(',').map(str::to_owned).collect());
    let key = known(field()?);
    let suite = known(field()?);
    let (careful, short_kexinit) = match field()? {
        "-" => (false, false),
        CAREFUL => (true, false),
        SHORT => (false, true),
        _ => return None,
    };
    let version = fields.next()?.to_owned();
    Some(ServerProfile {
        version,
        offer,
        kex,
        host_key,
        signature_algorithms,
        key,
        suite,
        short_kexinit,
        careful,
    })
}

/// The line of an entry, with its newline; `None` if a value of the server does not fit.
pub(super) fn line(name: &str, profile: &ServerProfile, hash: bool) -> Option<String> {
    let name = if hash {
        hash_name(name)
    } else {
        name.to_owned()
    };
    let list = profile
        .signature_algorithms
        .as_ref()
        .map(|list| list.join(","));
    let fields = [
        Some(&name),
        Some(&profile.offer),
        profile.kex.as_ref(),
        profile.host_key.as_ref(),
        list.as_ref(),
        profile.key.as_ref(),
        profile.suite.as_ref(),
    ];
    let mut line = String::new();
    for field in fields {
        let field = field.map_or("-", String::as_str);
        if !is_field(field) {
            return None;
        }
        line.push_str(field);
        line.push(' ');
    }
    line.push_str(match (profile.careful, profile.short_kexinit) {
        (true, _) => CAREFUL,
        (false, true) => SHORT,
        (false, false) => "-",
    });
    line.push(' ');
    if profile.version.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    line.push_str(&profile.version);
    line.push('\n');
    (line.len() <= MAX_LINE_BYTES).then_some(line)
}

/// The text with the entry of `name` replaced by `line`.
pub(super) fn with(text: &str, name: &str, line: &str) -> String {
    let others: Vec<&str> = text
        .lines()
        .filter(|line| line.len() <= MAX_LINE_BYTES)
        .filter(|line| {
            line.split_once(' ')
                .is_some_and(|(field, rest)| !is_about(field, name) && parse(rest).is_some())
        })
        .collect();
    let surplus = (others.len() + 1).saturating_sub(MAX_LINES);
    let mut out = String::from(HEADER);
    for other in others.iter().skip(surplus) {
        out.push_str(other);
        out.push('\n');
    }
    out.push_str(line);
    out
}

/// The line of an entry. If the entry does not fit and the server must be treated carefully, a
/// shorter line that keeps this flag.
pub(super) fn line_that_fits(name: &str, profile: &ServerProfile, hash: bool) -> Option<String> {
    line(name, profile, hash).or_else(|| {
        let rest = ServerProfile {
            version: profile.version.clone(),
            offer: profile.offer.clone(),
            careful: true,
            ..ServerProfile::default()
        };
        profile.careful.then(|| line(name, &rest, hash)).flatten()
    })
}

/// Puts an entry into the file, which is created with mode 0600 if it does not exist. If two
/// programs write at once, one entry may be lost.
///
/// # Errors
/// `InvalidData` if the entry does not fit into a line, and the file is unchanged; else the error
/// of the file.
pub(super) fn store(
    path: &Path,
    name: &str,
    profile: &ServerProfile,
    hash: bool,
) -> io::Result<()> {
    let line = line_that_fits(name, profile, hash).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "this server's profile does not fit into a line, so it is not stored",
        )
    })?;
    let before = read(path).unwrap_or_default();
    sys::file::replace_unsynced(path, with(&before, name, &line).as_bytes(), 0o600)
}
