//! The early banner: version line and KEXINIT, which the listener sends itself. They are the same
//! for every client except for the cookie. A connection gets a monitor only when its client sends
//! data, so that a silent client or port scanner costs one descriptor.
//!
//! The bytes are made once per configuration, by the function with which the auth process makes
//! them (`server`). The listener sends no banner to a client for which Match blocks may select
//! other options.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use config::server::{ConnectionSpec, ServerConfig};
use privsep::HostKey;

/// Bytes of a KEXINIT's cookie (RFC 4253 §7.1).
pub(super) const COOKIE_BYTES: usize = 16;

/// Makes the first bytes (version line and KEXINIT) that an auth process would send with the given
/// options (encoded by `ServerOptions::encode_for_auth`), host keys and cookie. Returns `None` if
/// an auth process could not start with them.
pub type Greet = fn(&[u8], &[HostKey], [u8; COOKIE_BYTES]) -> Option<Vec<u8>>;

/// An early banner and the condition under which it may be sent.
pub(super) struct Greeting {
    bytes: Vec<u8>,
    cookie_at: usize,
    /// The encoded options that `bytes` were made from, and the configuration, if Match blocks may
    /// select other options for a client.
    conditions: Option<(Vec<u8>, ServerConfig)>,
}

impl Greeting {
    /// Makes the banner for a configuration and its host keys. Returns `None` if every auth process
    /// must send its own: with RefuseConnection, if `greet` returns `None`, or if Match blocks may
    /// depend on host names (UseDNS).
    pub(super) fn new(config: &ServerConfig, host_keys: &[HostKey], greet: Greet) -> Option<Self> {
        let global = config.global();
        if global.connection.refuse_connection {
            return None;
        }
        let options = global.encode_for_auth();
        let cookie: [u8; COOKIE_BYTES] = crypto::random::bytes();
        let bytes = greet(&options, host_keys, cookie)?;
        let cookie_at = bytes
            .windows(COOKIE_BYTES)
            .position(|part| part == cookie)?;
        let conditions = match config.has_conditions() {
            true if global.connection.use_dns => return None,
            true => Some((options, config.clone())),
            false => None,
        };
        Some(Self {
            bytes,
            cookie_at,
            conditions,
        })
    }

    /// True if the options for this client are those that the banner was made from.
    pub(super) fn is_for(&self, network: &OwnedFd, peer: SocketAddr) -> bool {
        let Some((options, config)) = &self.conditions else {
            return true;
        };
        let Ok(local) = sys::socket::local_address(network) else {
            return false;
        };
        let own = config.for_connection(&ConnectionSpec {
            host: peer.ip().to_string(),
            address: Some(peer.ip()),
            local_address: Some(local.ip()),
            local_port: Some(local.port()),
            rdomain: sys::socket::bound_device(network).ok(),
            ..ConnectionSpec::default()
        });
        !own.connection.refuse_connection && own.encode_for_auth() == *options
    }

    /// Sends the banner with a fresh cookie and returns the cookie. Returns `None` if the socket
    /// does not accept the whole banner: the client has left.
    pub(super) fn say(&self, network: &OwnedFd) -> Option<[u8; COOKIE_BYTES]> {
        let cookie = crypto::random::bytes();
        let mut bytes = self.bytes.clone();
        bytes
            .get_mut(self.cookie_at..)?
            .first_chunk_mut()?
            .clone_from(&cookie);
        let said = sys::io::write(network, &bytes).ok()?;
        (said == bytes.len()).then_some(cookie)
    }
}

impl fmt::Debug for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greeting")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Option<Greeting> {
        let config = crate::test_support::config(text);
        Greeting::new(&config, &[], |_, _, cookie| {
            Some([&b"SSH-2.0-x\r\n"[..], &cookie, b"lists"].concat())
        })
    }

    fn pair() -> (OwnedFd, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0.into(), client)
    }

    #[test]
    fn each_client_hears_it_with_a_cookie_of_its_own() {
        use std::io::Read;
        let greeting = made("").unwrap();
        let heard = |greeting: &Greeting| {
            let (network, mut client) = pair();
            let cookie = greeting.say(&network).unwrap();
            drop(network);
            let mut text = Vec::new();
            client.read_to_end(&mut text).unwrap();
            assert_eq!(text, [&b"SSH-2.0-x\r\n"[..], &cookie, b"lists"].concat());
            cookie
        };
        assert_ne!(heard(&greeting), heard(&greeting));
    }

    #[test]
    fn nothing_is_said_where_match_leads_elsewhere() {
        let (network, client) = pair();
        let peer = client.local_addr().unwrap();
        let is_for =
            |text: &str| made(text).is_some_and(|greeting| greeting.is_for(&network, peer));
        assert!(is_for(""));
        assert!(is_for("Match User ann\nRekeyLimit 1G"));
        assert!(is_for("Match Address 192.0.2.0/24\nRefuseConnection yes"));
        assert!(!is_for("Match Address 127.0.0.0/8\nRefuseConnection yes"));
        assert!(!is_for("Match Address 127.0.0.0/8\nRekeyLimit 1G"));
        assert!(!is_for("RefuseConnection yes"));
        // A condition on a host name needs DNS, for which the listener cannot wait.
        assert!(!is_for(
            "UseDNS yes\nMatch Host *.example.org\nRekeyLimit 1G"
        ));
        assert!(is_for("UseDNS yes"));
    }

    #[test]
    fn a_client_that_has_left_is_not_greeted() {
        let (network, client) = pair();
        sys::socket::reset_on_close(&client).unwrap();
        drop(client);
        while sys::io::wait_readable(&network, None).is_ok_and(|there| !there) {}
        assert!(made("").unwrap().say(&network).is_none());
    }
}
