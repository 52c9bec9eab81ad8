//! The messages of a SOCKS 5 client (RFC 1928).

use std::net::{IpAddr, SocketAddr};

/// The bytes by which a SOCKS 5 client asks for a name and port after its greeting (RFC 1928 §4).
pub(super) fn socks_name_request(name: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 3];
    bytes.extend(u8::try_from(name.len()).ok());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

/// The bytes by which a SOCKS 5 client asks for `target` after its greeting.
pub(super) fn socks_request(target: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0];
    match target.ip() {
        IpAddr::V4(address) => {
            bytes.push(1);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
    }
    bytes.extend_from_slice(&target.port().to_be_bytes());
    bytes
}
