//! The data that a public key, or the key of the client's host, signs in a login: one builder for the client that signs, the library's
//! server and the monitor of sshd, which verify (`keys::candidate`).

use alloc::vec::Vec;

use crate::message::{Encode, UserauthRequest};
use crate::{Put, names};

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
