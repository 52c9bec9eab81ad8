//! Extension negotiation, RFC 8308, and OpenSSH's `ext-info-in-auth@openssh.com`.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use wire::message::ExtInfo;
use wire::{DecodeError, Put, Reader, Rest, names};

use super::outbound::Outbound;
use crate::limits::EARLY_DATA_BYTES;
use crate::{Error, Role, TransportConfig};

/// Maximum number of extensions evaluated in one message; further ones are ignored.
const MAX_EXTENSIONS: u32 = 64;

/// Extensions that the peer announced in EXT_INFO.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PeerExtensions {
    /// `server-sig-algs`.
    pub(crate) server_sig_algs: Option<Vec<String>>,
    /// `publickey-hostbound@openssh.com` version 0.
    pub(crate) hostbound: bool,
    /// `ping@openssh.com` version 0.
    pub(crate) ping: bool,
    /// `agent-forward` version 0: the draft's names for agent forwarding are understood.
    pub(crate) agent_forward: bool,
    /// `ext-info-in-auth@openssh.com` version 0.
    pub(crate) in_auth: bool,
    /// Fulmar's extension, version 0: a short first KEXINIT is understood.
    pub(crate) short_kexinit: bool,
    /// Fulmar's extension, version 0: tunnels of large segments.
    pub(crate) tun_segments: bool,
    /// Fulmar's extension: bytes that may follow CHANNEL_OPEN before its answer; 0 if none.
    pub(crate) early_data: u32,
    /// Fulmar's extension, version 0: requests may follow CHANNEL_OPEN before its answer.
    pub(crate) early_requests: bool,
    /// Fulmar's extension, version 0: `Request::Reset` is understood.
    pub(crate) reset: bool,
    /// Fulmar's extension, version 0: datagrams are forwarded.
    pub(crate) udp_forward: bool,
}

impl PeerExtensions {
    /// Adds the extensions of one EXT_INFO. Unknown names are ignored, RFC 8308 §2.5.
    pub(crate) fn merge(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let info = ExtInfo::decode(payload)?;
        let mut reader = Reader::new(info.extensions.0);
        for index in 0..info.count {
            // The peer chooses the count; the actual bytes and a limit bound the work.
            if reader.is_empty() {
                return Err(DecodeError::Truncated);
            }
            let name = reader.string()?;
            let value = reader.string()?;
            if index < MAX_EXTENSIONS {
                self.take(name, value);
            }
        }
        reader.finish()
    }

    fn take(&mut self, name: &[u8], value: &[u8]) {
        match core::str::from_utf8(name).unwrap_or_default() {
            names::EXT_SERVER_SIG_ALGS => {
                let list = core::str::from_utf8(value).unwrap_or_default();
                self.server_sig_algs = Some(list.split(',').map(String::from).collect());
            }
            names::EXT_PUBLICKEY_HOSTBOUND => self.hostbound = value == b"0",
            names::EXT_PING => self.ping = value == b"0",
            names::EXT_AGENT_FORWARD => self.agent_forward = value == b"0",
            names::EXT_INFO_IN_AUTH => self.in_auth = value == b"0",
            names::EXT_SHORT_KEXINIT => self.short_kexinit = value == b"0",
            names::EXT_TUN_SEGMENTS => self.tun_segments = value == b"0",
            names::EXT_EARLY_DATA => {
                let bytes = core::str::from_utf8(value).ok();
                self.early_data = bytes.and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            names::EXT_EARLY_REQUESTS => self.early_requests = value == b"0",
            names::EXT_RESET => self.reset = value == b"0",
            names::EXT_UDP_FORWARD => self.udp_forward = value == b"0",
            _ => {}
        }
    }
}

/// Sends our EXT_INFO, which directly follows our first NEWKEYS.
pub(super) fn send_ours(
    role: Role,
    config: &TransportConfig,
    outbound: &mut Outbound,
) -> Result<(), Error> {
    let early_data = EARLY_DATA_BYTES.to_string();
    let early_data = (names::EXT_EARLY_DATA, early_data.as_bytes());
    match role {
        Role::Client => send(
            outbound,
            &[
                (names::EXT_INFO_IN_AUTH, b"0"),
                early_data,
                (names::EXT_RESET, b"0"),
            ],
        ),
        Role::Server => {
            let algorithms = config.peer_signature_algorithms.join(",");
            send(
                outbound,
                &[
                    (names::EXT_SERVER_SIG_ALGS, algorithms.as_bytes()),
                    (names::EXT_PUBLICKEY_HOSTBOUND, b"0"),
                    (names::EXT_PING, b"0"),
                    (names::EXT_AGENT_FORWARD, b"0"),
                    (names::EXT_SHORT_KEXINIT, b"0"),
                    (names::EXT_TUN_SEGMENTS, b"0"),
                    early_data,
                    (names::EXT_EARLY_REQUESTS, b"0"),
                    (names::EXT_RESET, b"0"),
                    (names::EXT_UDP_FORWARD, b"0"),
                ],
            )
        }
    }
}

/// Server: sends a second EXT_INFO during authentication: the algorithms that this user's
/// configuration accepts.
pub(super) fn send_in_auth(outbound: &mut Outbound, algorithms: &[&str]) -> Result<(), Error> {
    let algorithms = algorithms.join(",");
    send(
        outbound,
        &[(names::EXT_SERVER_SIG_ALGS, algorithms.as_bytes())],
    )
}

fn send(outbound: &mut Outbound, pairs: &[(&str, &[u8])]) -> Result<(), Error> {
    let mut extensions = Vec::new();
    for (name, value) in pairs {
        extensions.put_string(name.as_bytes());
        extensions.put_string(value);
    }
    let count = u32::try_from(pairs.len()).unwrap_or_default();
    outbound.send_kex(&ExtInfo {
        count,
        extensions: Rest(&extensions),
    })
}

#[cfg(test)]
mod tests {
    use wire::message::Encode;

    use super::*;

    fn message(count: u32, pairs: &[(&str, &[u8])]) -> Vec<u8> {
        let mut extensions = Vec::new();
        for (name, value) in pairs {
            extensions.put_string(name.as_bytes());
            extensions.put_string(value);
        }
        ExtInfo {
            count,
            extensions: Rest(&extensions),
        }
        .encode()
    }

    #[test]
    fn known_extensions_are_taken_and_unknown_ones_ignored() {
        let mut peer = PeerExtensions::default();
        let payload = message(
            3,
            &[
                ("server-sig-algs", b"a,b"),
                ("roaming@x", b"1"),
                ("ping@openssh.com", b"0"),
            ],
        );
        peer.merge(&payload).unwrap();
        assert_eq!(peer.server_sig_algs.unwrap(), ["a", "b"]);
        assert!(peer.ping && !peer.hostbound);
    }

    #[test]
    fn a_count_beyond_the_message_ends_at_once() {
        let payload = message(u32::MAX, &[("a", b"b")]);
        assert_eq!(
            PeerExtensions::default().merge(&payload),
            Err(DecodeError::Truncated)
        );
    }
}
