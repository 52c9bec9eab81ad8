//! ssh-keysign(8): signs a host-based login with the keys of this host, which only root can read.
//!
//! [`keysign_main`] is the program, installed set-user-ID root; [`request`] starts it for a client.
//! The messages are those of OpenSSH's program (ssh-keysign.c, msg.c), so that each side works with
//! the other's. Invariants of the program: after the key files are open it has the rights of the
//! user who called it, and only then reads the configuration and the request; it signs nothing but
//! a host-based request (RFC 4252 §9) of this user and of the host whose address the connection has.
//!
//! A message is its length (uint32), version 2 (byte) and fields: a request the number of the
//! connection's descriptor (uint32) and the data to sign (string), an answer the signature (string).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use config::client::{ClientConfig, SYSTEM_FILE};
use keys::{PresentedKey, PrivateKey, SignatureAlgorithm, private_file};
use sys::process::{ChildCommand, Credentials};
use wire::message::{Encode, UserauthRequest};
use wire::{DecodeError, Put, Reader, names};
use zeroize::Zeroizing;

use crate::children;
use crate::local::Here;

/// The private keys of this host that sign host-based logins.
pub(crate) const HOST_KEYS: [&str; 4] = [
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_mldsa44_ed25519_key",
];
/// Where the program is, ours first; the others are OpenSSH's of Debian, Red Hat, Arch and BSD.
const PLACES: [&str; 6] = [
    "/usr/local/lib/fulmar/ssh-keysign",
    "/usr/lib/fulmar/ssh-keysign",
    "/usr/lib/openssh/ssh-keysign",
    "/usr/libexec/openssh/ssh-keysign",
    "/usr/lib/ssh/ssh-keysign",
    "/usr/libexec/ssh-keysign",
];
/// Name of the program, for messages.
const NAME: &str = "ssh-keysign";
/// Version of the messages.
const VERSION: u8 = 2;
/// Longest message, in bytes, as in OpenSSH.
const MAX_MESSAGE_BYTES: u32 = 256 * 1024;
/// The descriptor under which a client passes its connection.
const SOCKET: i32 = 3;
/// Lengths of session identifiers: SHA-1, SHA-256, SHA-384, SHA-512.
const SESSION_ID_BYTES: [usize; 4] = [20, 32, 48, 64];
/// Exit status after an error, as in OpenSSH.
const FAILURE: i32 = 255;

/// The name of this host for a connection: that of the connection's local address (looked up in the DNS,
/// which may take seconds), else the system's host name.
pub(crate) fn local_name(socket: BorrowedFd<'_>) -> String {
    sys::socket::local_address(socket)
        .ok()
        .and_then(|address| sys::socket::reverse_name(sys::socket::unmapped(address).ip()))
        .unwrap_or_else(sys::socket::host_name)
}

/// Starts ssh-keysign, and has it sign `data` for the connection on `socket`. Returns the signature blob
/// (RFC 4253 §6.6). Waits for the program without limit, as OpenSSH does.
///
/// # Errors
/// The reason in words: the program is not installed, refuses the request or gives no proper answer; the program itself writes its own to standard error.
pub(crate) fn request(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Vec<u8>, String> {
    let text = |error: io::Error| error.to_string();
    let mut places = PLACES.iter().filter(|place| Path::new(place).exists());
    let program = places
        .next()
        .ok_or_else(|| format!("not installed: there is no {}", PLACES.join(", no ")))?;
    let (input, ours) = sys::io::pipe().map_err(text)?;
    let (answer, theirs) = sys::io::pipe().map_err(text)?;
    let mut command = ChildCommand::new(program);
    command
        .inherit_env()
        .fd(input, 0)
        .fd(theirs, 1)
        .fd_shared(sys::io::stderr(), 2)
        .fd_shared(socket, SOCKET);
    let mut child = children::spawn(&mut command).map_err(|error| error.to_string())?;
    drop(command);
    let mut fields = Vec::new();
    fields.put_u32(SOCKET.unsigned_abs());
    fields.put_string(data);
    // The program may end early; its answer, or the lack of one, says so.
    let _ = send(&mut File::from(ours), &fields);
    let received = receive(&mut File::from(answer));
    let status = child.wait().map_err(text)?;
    let fields = received.map_err(|error| format!("no reply: {error}"))?;
    if !status.is_success() {
        return Err(format!("{program} ended with {status}"));
    }
    let mut reader = Reader::new(&fields);
    let signature = reader.string().map_err(|error| error.to_string())?;
    Ok(signature.to_vec())
}

fn send(out: &mut impl Write, fields: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(fields.len() + 5);
    let len = u32::try_from(fields.len() + 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    message.put_u32(len);
    message.put_u8(VERSION);
    message.extend_from_slice(fields);
    out.write_all(&message)
}

/// Reads a message of at most [`MAX_MESSAGE_BYTES`] and returns its fields.
fn receive(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    input.read_exact(&mut head)?;
    let len = u32::from_be_bytes(head);
    if !(1..=MAX_MESSAGE_BYTES).contains(&len) {
        return Err(io::Error::other("message too long"));
    }
    let mut version = [0];
    input.read_exact(&mut version)?;
    if version != [VERSION] {
        let [version] = version;
        return Err(io::Error::other(format!(
            "bad version: received {version}, expected {VERSION}"
        )));
    }
    let mut fields = Vec::new();
    let rest = u64::from(len - 1);
    input.take(rest).read_to_end(&mut fields)?;
    if u64::try_from(fields.len()) != Ok(rest) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(fields)
}

/// The program; returns its exit status. Errors go to standard error.
#[must_use]
pub fn keysign_main() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("{reason}");
            FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    let files: Vec<File> = HOST_KEYS.iter().flat_map(File::open).collect();
    let user = drop_privileges()?;
    if !is_enabled()? {
        return Err(format!("{NAME} not enabled in {SYSTEM_FILE}"));
    }
    if files.is_empty() {
        return Err("could not open any host key".to_owned());
    }
    let keys: Vec<PrivateKey> = files.into_iter().filter_map(read_key).collect();
    if keys.is_empty() {
        return Err("no hostkey found".to_owned());
    }
    let signature = answer(&mut io::stdin(), &user, &keys)?;
    let mut fields = Vec::new();
    fields.put_string(&signature);
    send(&mut io::stdout(), &fields).map_err(|error| format!("{NAME}: {error}"))
}

/// Takes on the rights of the user who called, for good; returns the user's name.
fn drop_privileges() -> Result<String, String> {
    let own = sys::process::real_credentials().map_err(|error| error.to_string())?;
    let user = sys::users::by_uid(own.uid)
        .ok()
        .flatten()
        .ok_or("getpwuid failed")?;
    let _ = sys::process::disable_core_dumps();
    let Credentials { uid, gid, groups } = own;
    sys::process::become_user(&Credentials { uid, gid, groups })
        .and_then(|()| sys::process::set_dumpable(false))
        .and_then(|()| sys::process::set_no_new_privs())
        .map_err(|error| format!("{NAME}: {error}"))?;
    Ok(user.name)
}

/// `EnableSSHKeysign` of the system's configuration, which no user can change. Commands of `Match
/// exec` run with the user's rights, as in OpenSSH.
fn is_enabled() -> Result<bool, String> {
    ClientConfig::system()
        .enables_keysign(&Here::default())
        .map_err(|error| error.to_string())
}

fn read_key(file: File) -> Option<PrivateKey> {
    let size = usize::try_from(file.metadata().ok()?.len()).unwrap_or(0);
    let most = private_file::MAX_FILE_BYTES;
    // Full capacity at once: reallocation would leave copies in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(size.min(1 << 20) + 1));
    file.take(most).read_to_end(&mut text).ok()?;
    private_file::parse(&text, None).ok().map(|file| file.key)
}

/// Reads a request and signs it, if it is one that may be signed.
fn answer(input: &mut impl Read, user: &str, keys: &[PrivateKey]) -> Result<Vec<u8>, String> {
    let fields = receive(input).map_err(|error| format!("{NAME}: {error}"))?;
    let malformed = |error: DecodeError| format!("{NAME}: buffer error: {error}");
    let mut reader = Reader::new(&fields);
    let number = reader.u32().map_err(malformed)?;
    let data = reader.string().map_err(malformed)?;
    let socket = connection(number)?;
    let host = local_name(socket.as_fd());
    let (algorithm, key) =
        valid_request(data, user, &host).ok_or_else(|| format!("{NAME}: invalid request"))?;
    let public = key.key();
    let private = keys
        .iter()
        .find(|own| own.public() == public)
        .ok_or_else(|| {
            format!(
                "{NAME}: no matching hostkey found for key {} {}",
                public.key_type().label(),
                keys::fingerprint::sha256(&public.blob())
            )
        })?;
    private
        .sign(algorithm, data)
        .map_err(|error| format!("{NAME}: sign: {error}"))
}

fn connection(number: u32) -> Result<OwnedFd, String> {
    let bad = || format!("{NAME}: bad fd = {number}");
    // 0, 1 and 2 are this program's own.
    let number = i32::try_from(number).ok().filter(|number| *number > 2);
    sys::io::inherited(number.ok_or_else(bad)?).map_err(|_| bad())
}

/// The algorithm and the key of a host-based request by `user` of the host `host`; `None` for any
/// other data.
fn valid_request(
    data: &[u8],
    user: &str,
    host: &str,
) -> Option<(SignatureAlgorithm, PresentedKey)> {
    let mut reader = Reader::new(data);
    let session_id = reader.string().ok()?;
    let number = reader.u8().ok()?;
    reader.string().ok()?;
    let service = reader.string().ok()?;
    let method = reader.string().ok()?;
    let algorithm = std::str::from_utf8(reader.string().ok()?).ok()?;
    let blob = reader.string().ok()?;
    let client_host = std::str::from_utf8(reader.string().ok()?).ok()?;
    let client_user = reader.string().ok()?;
    reader.finish().ok()?;
    let algorithm = SignatureAlgorithm::from_name(algorithm)?;
    let key = PresentedKey::from_blob(blob).ok()?;
    let is_valid = SESSION_ID_BYTES.contains(&session_id.len())
        && number == <UserauthRequest<'_> as Encode>::NUMBER
        && service == names::SERVICE_CONNECTION.as_bytes()
        && method == names::METHOD_HOSTBASED.as_bytes()
        && key.key().key_type() == algorithm.key_type()
        && key.certificate().is_some() == algorithm.is_certificate()
        && client_host
            .strip_suffix('.')
            .is_some_and(|name| name.eq_ignore_ascii_case(host))
        && client_user == user.as_bytes();
    is_valid.then_some((algorithm, key))
}

#[cfg(test)]
#[path = "keysign_tests.rs"]
mod tests;
