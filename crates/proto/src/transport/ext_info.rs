//! Extension negotiation, RFC 8308, and OpenSSH's `ext-info-in-auth@openssh.com`.

use alloc::string::String;
use alloc::vec::Vec;

use wire::message::{Encode, ExtInfo};
use wire::{DecodeError, Put, Reader, Rest, names};

use super::Transport;
use crate::{Error, Role};

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
    /// `ext-info-in-auth@openssh.com` version 0.
    pub(crate) in_auth: bool,
    /// Fulmar's extension, version 0: a short first KEXINIT is understood.
    pub(crate) short_kexinit: bool,
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
            names::EXT_INFO_IN_AUTH => self.in_auth = value == b"0",
            names::EXT_SHORT_KEXINIT => self.short_kexinit = value == b"0",
            _ => {}
        }
    }
}

impl Transport {
    /// Sends our EXT_INFO directly after our first NEWKEYS, if the peer asked for it.
    pub(super) fn send_ext_info(&mut self) -> Result<(), Error> {
        if !self
            .session
            .as_ref()
            .is_some_and(|session| session.peer_wants_ext_info)
        {
            return Ok(());
        }
        match self.role {
            Role::Client => self.send_extensions(&[(names::EXT_INFO_IN_AUTH, b"0")]),
            Role::Server => {
                let algorithms = self.config.peer_signature_algorithms.join(",");
                self.send_extensions(&[
                    (names::EXT_SERVER_SIG_ALGS, algorithms.as_bytes()),
                    (names::EXT_PUBLICKEY_HOSTBOUND, b"0"),
                    (names::EXT_PING, b"0"),
                    (names::EXT_SHORT_KEXINIT, b"0"),
                ])
            }
        }
    }

    /// Sends a second EXT_INFO during authentication, if the client supports that: the algorithms
    /// that this user's configuration accepts.
    pub(crate) fn send_ext_info_in_auth(&mut self, algorithms: &[&str]) -> Result<(), Error> {
        if self.role != Role::Server || !self.extensions.in_auth || self.authenticated {
            return Ok(());
        }
        let algorithms = algorithms.join(",");
        self.send_extensions(&[(names::EXT_SERVER_SIG_ALGS, algorithms.as_bytes())])
    }

    fn send_extensions(&mut self, pairs: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut extensions = Vec::new();
        for (name, value) in pairs {
            extensions.put_string(name.as_bytes());
            extensions.put_string(value);
        }
        let count = u32::try_from(pairs.len()).unwrap_or_default();
        let message = ExtInfo {
            count,
            extensions: Rest(&extensions),
        };
        let mut buf = self.take_buffer(256);
        buf.extend(&message.encode());
        self.send(buf)
    }
}

#[cfg(test)]
mod tests {
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
