//! Messages to the kernel's audit subsystem, which adds this process's ids and gives them to auditd
//! (Linux, include/uapi/linux/audit.h). The text is the caller's: `name=value` words.

use std::io;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, netlink};

/// The kind of a record, by its number in linux/audit.h and libaudit.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum AuditRecord {
    /// A user has proved an identity, or failed to (`USER_AUTH`).
    Authentication = 1100,
    /// A login, or a failed one (`USER_LOGIN`).
    Login = 1112,
    /// The end of a login (`USER_LOGOUT`).
    Logout = 1113,
    /// A key was used (`CRYPTO_KEY_USER`).
    KeyUse = 2404,
}

/// Limit on a message in bytes (`MAX_AUDIT_MESSAGE_LENGTH` of libaudit, less its header).
const MAX_TEXT_BYTES: usize = 8_000;
/// `struct nlmsghdr`, bytes.
const HEADER_BYTES: usize = 16;
/// `NLM_F_REQUEST`: a message to the kernel. An answer is not asked for.
const REQUEST: u16 = 1;

/// Sends messages. Nobody confirms them: the kernel drops messages while auditing is off, and those
/// of a process without `CAP_AUDIT_WRITE`.
///
/// # Errors
/// The kernel's error, if it has no audit subsystem.
pub fn send(records: &[(AuditRecord, String)]) -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::AUDIT),
    )?;
    for (record, text) in records {
        // Without an address, the kernel itself is the peer.
        let message = message(*record, text)?;
        rustix::net::send(&socket, &message, SendFlags::DONTWAIT)?;
    }
    Ok(())
}

/// A netlink message: header, text, NUL.
fn message(record: AuditRecord, text: &str) -> io::Result<Vec<u8>> {
    let bytes = text.as_bytes();
    if bytes.len() > MAX_TEXT_BYTES || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let length = HEADER_BYTES + bytes.len() + 1;
    let length = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len() + 1);
    message.extend(length.to_ne_bytes());
    message.extend((record as u16).to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Sequence number and port of the sender, which only answers need.
    message.extend([0; 8]);
    message.extend_from_slice(bytes);
    message.push(0);
    Ok(message)
}

/// A value of a record that foreign text determines: in quotes, or in hexadecimal if it has a blank,
/// a quote or a byte that is not printable ASCII, as ausearch(8) reads them. Cut to 128 bytes.
#[must_use]
pub fn value(text: &str) -> String {
    const MAX_VALUE_BYTES: usize = 128;
    let bytes = text.as_bytes();
    let bytes = bytes.get(..MAX_VALUE_BYTES).unwrap_or(bytes);
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'"';
    match bytes.iter().all(is_plain) {
        true => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        false => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_add_words() {
        assert_eq!(value("ada"), "\"ada\"");
        assert_eq!(value(""), "\"\"");
        assert_eq!(value("a b"), "612062");
        assert_eq!(value("\" res=success"), "22207265733D73756363657373");
        assert_eq!(value("\u{e9}\n"), "C3A90A");
        assert_eq!(value(&"x".repeat(200)).len(), 130);
    }

    #[test]
    fn a_message_has_its_length_and_kind() {
        let bytes = message(AuditRecord::Login, "op=login").unwrap();
        assert_eq!(bytes.len(), 25);
        assert_eq!(bytes[..4], 25_u32.to_ne_bytes());
        assert_eq!(bytes[4..6], 1112_u16.to_ne_bytes());
        assert_eq!(bytes[16..], *b"op=login\0");
        assert!(message(AuditRecord::Login, "a\0b").is_err());
        assert!(message(AuditRecord::Login, &"x".repeat(9_000)).is_err());
    }
}
