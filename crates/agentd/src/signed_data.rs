//! Recognises the data to sign: the login of a user by public key (RFC 4252 §7, OpenSSH PROTOCOL
//! §3.1) or a file signature (OpenSSH PROTOCOL.sshsig).

use keys::SignatureAlgorithm;
use wire::{DecodeError, Reader};

/// SSH_MSG_USERAUTH_REQUEST
const USERAUTH_REQUEST: u8 = 50;
/// First bytes of the data that a file signature signs (OpenSSH PROTOCOL.sshsig).
const FILE_SIGNATURE: &[u8] = b"SSHSIG";

/// A login for which a signature is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignedLogin<'a> {
    pub(crate) session_identifier: &'a [u8],
    pub(crate) user: &'a [u8],
    /// The server's host key, in `publickey-hostbound-v00@openssh.com`.
    pub(crate) host_key: Option<&'a [u8]>,
}

/// Parses the data of a login with the key of this blob; `None` for anything else.
pub(crate) fn login<'a>(data: &'a [u8], blob: &[u8]) -> Option<SignedLogin<'a>> {
    read_login(data, blob).ok().flatten()
}

fn read_login<'a>(data: &'a [u8], blob: &[u8]) -> Result<Option<SignedLogin<'a>>, DecodeError> {
    let mut reader = Reader::new(data);
    let session_identifier = reader.string()?;
    let number = reader.u8()?;
    let user = reader.string()?;
    let service = reader.string()?;
    let method = reader.string()?;
    let is_signed = reader.u8()? == 1;
    let algorithm = SignatureAlgorithm::from_wire_name(reader.string()?);
    let presented = reader.string()?;
    let host_key = match method {
        b"publickey-hostbound-v00@openssh.com" => Some(reader.string()?),
        b"publickey" => None,
        _ => return Ok(None),
    };
    reader.finish()?;
    let type_fits = algorithm.is_some_and(|algorithm| {
        Reader::new(blob).string() == Ok(algorithm.blob_name().as_bytes())
    });
    let is_login = !session_identifier.is_empty()
        && number == USERAUTH_REQUEST
        && service == b"ssh-connection"
        && is_signed
        && presented == blob
        && type_fits;
    Ok(is_login.then_some(SignedLogin {
        session_identifier,
        user,
        host_key,
    }))
}

/// The namespace of a file signature; `None` for other data.
pub(crate) fn file_signature(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(data.strip_prefix(FILE_SIGNATURE)?);
    let namespace = reader.string().ok()?;
    let _reserved = reader.string().ok()?;
    let _hash = reader.string().ok()?;
    let _digest = reader.string().ok()?;
    reader.is_empty().then_some(namespace)
}
