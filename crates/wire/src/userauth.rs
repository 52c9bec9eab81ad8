//! The data that a public key, or the key of the client's host, signs in a login: one builder for the client that signs, the library's
//! server and the monitor of sshd, which verify (`keys::candidate`).

use alloc::vec::Vec;

use crate::message::{Encode, UserauthRequest};
use crate::{Put, Reader, names};

/// DER encoding of the OID of Kerberos 5, 1.2.840.113554.1.2.2 (RFC 4462 §3.2, RFC 4121 §1).
pub const KERBEROS_MECHANISM: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";

/// Most mechanisms of a request that are read; none has more than a few.
const MAX_MECHANISMS: u32 = 64;

/// Data that a public key signs: RFC 4252 §7, followed by the server's host key for
/// `publickey-hostbound-v00@openssh.com` (OpenSSH PROTOCOL §3.1).
#[must_use]
pub fn publickey_signed_data(
    session_id: &[u8],
    user: &[u8],
    service: &[u8],
    algorithm: &[u8],
    key: &[u8],
    host_key: Option<&[u8]>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(key.len() + 256);
    text.put_string(session_id);
    text.put_u8(<UserauthRequest<'_> as Encode>::NUMBER);
    text.put_string(user);
    text.put_string(service);
    put_publickey_fields(&mut text, algorithm, key, true, host_key);
    text
}

/// Encodes method name and fields of a publickey request, up to the signature.
pub fn put_publickey_fields(
    out: &mut Vec<u8>,
    algorithm: &[u8],
    key: &[u8],
    signed: bool,
    host_key: Option<&[u8]>,
) {
    let method = match host_key {
        Some(_) => names::METHOD_PUBLICKEY_HOSTBOUND,
        None => names::METHOD_PUBLICKEY,
    };
    out.put_string(method.as_bytes());
    out.put_bool(signed);
    out.put_string(algorithm);
    out.put_string(key);
    if let Some(host_key) = host_key {
        out.put_string(host_key);
    }
}

/// The parts of a host-based request that the client states about itself (RFC 4252 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostbasedClaim<'a> {
    /// Name of the signature algorithm.
    pub algorithm: &'a [u8],
    /// Public key or certificate of the client's host.
    pub key: &'a [u8],
    /// Name of the client's host; OpenSSH's clients append a dot.
    pub host: &'a [u8],
    /// The user's name on the client's host.
    pub user: &'a [u8],
}

/// Data that the key of the client's host signs, RFC 4252 §9.
#[must_use]
pub fn hostbased_signed_data(
    session_id: &[u8],
    user: &[u8],
    service: &[u8],
    claim: &HostbasedClaim<'_>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(claim.key.len() + 512);
    text.put_string(session_id);
    text.put_u8(<UserauthRequest<'_> as Encode>::NUMBER);
    text.put_string(user);
    text.put_string(service);
    put_hostbased_fields(&mut text, claim);
    text
}

/// Encodes method name and fields of a host-based request, up to the signature.
pub fn put_hostbased_fields(out: &mut Vec<u8>, claim: &HostbasedClaim<'_>) {
    out.put_string(names::METHOD_HOSTBASED.as_bytes());
    out.put_string(claim.algorithm);
    out.put_string(claim.key);
    out.put_string(claim.host);
    out.put_string(claim.user);
}

/// Data that the client's MIC covers in `gssapi-with-mic`, RFC 4462 §3.5.
#[must_use]
pub fn gssapi_signed_data(session_id: &[u8], user: &[u8], service: &[u8]) -> Vec<u8> {
    gssapi_data(session_id, user, service, names::METHOD_GSSAPI_WITH_MIC)
}

/// Data that the client's MIC covers in `gssapi-keyex`, RFC 4462 §4.
#[must_use]
pub fn gssapi_keyex_signed_data(session_id: &[u8], user: &[u8], service: &[u8]) -> Vec<u8> {
    gssapi_data(session_id, user, service, names::METHOD_GSSAPI_KEYEX)
}

fn gssapi_data(session_id: &[u8], user: &[u8], service: &[u8], method: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    text.put_string(session_id);
    text.put_u8(<UserauthRequest<'_> as Encode>::NUMBER);
    text.put_string(user);
    text.put_string(service);
    text.put_string(method.as_bytes());
    text
}

/// Encodes method name and fields of a request of `gssapi-with-mic` for Kerberos alone, RFC 4462 §3.2.
pub fn put_gssapi_fields(out: &mut Vec<u8>) {
    out.put_string(names::METHOD_GSSAPI_WITH_MIC.as_bytes());
    out.put_u32(1);
    out.put_string(KERBEROS_MECHANISM);
}

/// True if the fields of a request of `gssapi-with-mic` (RFC 4462 §3.2) are well formed, and name
/// Kerberos among at most 64 mechanisms. A mechanism that is no OID in DER is passed over.
#[must_use]
pub fn names_kerberos(fields: &[u8]) -> bool {
    let mut reader = Reader::new(fields);
    let Some(count) = reader.u32().ok().filter(|count| *count <= MAX_MECHANISMS) else {
        return false;
    };
    let mut is_named = false;
    for _ in 0..count {
        match reader.string() {
            Ok(mechanism) => is_named |= mechanism == KERBEROS_MECHANISM,
            Err(_) => return false,
        }
    }
    reader.finish().is_ok() && is_named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(count: u32, mechanisms: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(count);
        for mechanism in mechanisms {
            out.put_string(mechanism);
        }
        out
    }

    #[test]
    fn kerberos_is_found_among_mechanisms_and_nothing_else_is() {
        let spnego = b"\x06\x06\x2b\x06\x01\x05\x05\x02";
        assert!(names_kerberos(&fields(1, &[KERBEROS_MECHANISM])));
        assert!(names_kerberos(&fields(
            3,
            &[spnego, b"", KERBEROS_MECHANISM]
        )));
        let without_tag = &KERBEROS_MECHANISM[2..];
        for odd in [
            fields(0, &[]),
            fields(1, &[spnego]),
            fields(1, &[without_tag]),
            fields(1, &[&[KERBEROS_MECHANISM, b"x"].concat()]),
            fields(2, &[KERBEROS_MECHANISM]),
            fields(u32::MAX, &[KERBEROS_MECHANISM]),
            fields(65, &[KERBEROS_MECHANISM; 65]),
            fields(1, &[KERBEROS_MECHANISM, b""]),
            b"".to_vec(),
            b"\xff\xff\xff\xff".to_vec(),
        ] {
            assert!(!names_kerberos(&odd), "{odd:?}");
        }
        let mut request = Vec::new();
        put_gssapi_fields(&mut request);
        let name = 4 + names::METHOD_GSSAPI_WITH_MIC.len();
        assert!(names_kerberos(&request[name..]));
    }

    #[test]
    fn any_bytes_are_read_to_an_answer() {
        // A small generator (xorshift) instead of random bytes: each run tests the same.
        let mut state = 0x9e37_79b9_u32;
        for length in 0..512_usize {
            let bytes: Vec<u8> = (0..length % 48)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    u8::try_from(state & 0x0f).unwrap_or_default()
                })
                .collect();
            let said = names_kerberos(&bytes);
            let has_it = bytes
                .windows(KERBEROS_MECHANISM.len())
                .any(|part| part == KERBEROS_MECHANISM);
            assert!(!said || has_it);
        }
    }
}
