//! A port of `tcpip-forward` that an older connection holds although its client no longer answers
//! passes to a new connection of the same user and key.
//!
//! A session process that listens on a port also listens on an abstract Unix socket, the *rendezvous*
//! of the port; its name is a hash of user, key, port and requested address. A new session process that finds the port
//! in use connects to it. The older one then asks its client for a sign of life. If one comes within
//! [`SILENCE_MS`] it answers with a byte and keeps the port; otherwise it closes the port, and then
//! the connection of the rendezvous.
//!
//! Invariants: who may listen on the port was decided before ([`super::permits`]); both processes
//! require that the other one has their own uid, which the kernel tells; another key has another
//! rendezvous, and a login without a key has none. A program of the user may connect to it as well:
//! it can take a port away from a silent connection, whose process it can also kill.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use crypto::hash::HashAlgorithm;
use driver::Driver;
use driver::forward::Listening;
use keys::PresentedKey;
use privsep::SessionGrant;
use proto::Millis;
use wire::Put;

use super::token::Token;

/// Time in which a client that lives answers, milliseconds: a round trip of 1 s, with a packet that
/// was lost once.
pub(super) const SILENCE_MS: Millis = 3_000;
/// Time between two looks for a sign of life, milliseconds, and their number. They are counted, so
/// that a process that got no time to read does not take its client for silent.
const LOOK_MS: Millis = 100;
const LOOKS: u64 = SILENCE_MS / LOOK_MS;
/// Time limit for the older connection's decision, milliseconds.
const DECISION_MS: Millis = SILENCE_MS + 2_000;
/// Maximum connections that wait for one decision.
const MAX_CLAIMANTS: usize = 16;
/// Length of the queue of a rendezvous.
const BACKLOG: i32 = 16;
/// The answer of an older connection that keeps its port.
const KEPT: &[u8] = b"k";

/// A port, and the name of the addresses that were requested for it ([`driver::forward::Gateway::place`]):
/// a connection may listen on one number at several addresses apart.
pub(super) type PortPlace = (String, u16);

/// The name of a port's rendezvous; `None` for a login without a key. `auth_info` has a line for each
/// method by which the user has logged in.
fn rendezvous(user: &str, uid: u32, auth_info: &str, (place, port): &PortPlace) -> Option<Vec<u8>> {
    let lines = auth_info.lines();
    let keys = lines.filter_map(|line| line.strip_prefix("publickey "));
    let keys: Option<Vec<String>> = keys.map(plain_key).collect();
    let keys = keys.filter(|keys| !keys.is_empty())?;
    let mut whose = Vec::new();
    whose.put_string(user.as_bytes());
    whose.put_u32(uid);
    whose.put_u32(u32::from(*port));
    whose.put_string(place.as_bytes());
    for key in keys {
        whose.put_string(key.as_bytes());
    }
    let digest = HashAlgorithm::Sha256.digest(&whose);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let name = std::iter::once("fulmar-forward-".to_owned()).chain(digits);
    Some(name.collect::<String>().into_bytes())
}

fn rendezvous_of(grant: &SessionGrant, port: &PortPlace) -> Option<Vec<u8>> {
    rendezvous(&grant.user, grant.uid, &grant.auth_info, port)
}

/// A key as `type base64`. Certificates are renewed while connections last: the key in them counts.
fn plain_key(line: &str) -> Option<String> {
    match keys::public_file::parse_line(line.as_bytes()).ok()?.key {
        PresentedKey::Plain(key) => Some(key.to_line()),
        PresentedKey::Certificate(certificate) => Some(certificate.key().to_line()),
    }
}

fn is_same_user(stream: &OwnedFd, grant: &SessionGrant) -> bool {
    sys::socket::peer_credentials(stream).is_ok_and(|peer| peer.uid == grant.uid)
}

/// The rendezvous of a port on which this process listens.
#[derive(Debug)]
pub(super) struct Rendezvous(OwnedFd);

impl Rendezvous {
    /// Waits for new connections that want the port of this listener; `None` if there can be no
    /// rendezvous: the port then stays with this connection, as with OpenSSH.
    pub(super) fn open(
        grant: &SessionGrant,
        port: &PortPlace,
        listener: u64,
        driver: &mut Driver,
    ) -> Option<Self> {
        let socket = sys::socket::listen_abstract(&rendezvous_of(grant, port)?, BACKLOG).ok()?;
        let token = Token::Rendezvous(listener).number();
        driver.watch(socket.as_fd(), token, true, false).ok()?;
        Some(Self(socket))
    }

    pub(super) fn close(self, driver: &mut Driver) {
        driver.unwatch(self.0.as_fd());
    }

    /// A new connection that wants the port; `None` if there is none, or it is another user's.
    ///
    /// # Errors
    /// As accept(2), for example without a free descriptor.
    pub(super) fn accept(&self, grant: &SessionGrant) -> io::Result<Option<OwnedFd>> {
        match sys::socket::accept_stream(&self.0) {
            Ok((stream, _)) => Ok(Some(stream).filter(|stream| is_same_user(stream, grant))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether this connection's client lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    Lives,
    Silent,
}

/// The question to this connection's client for a sign of life.
#[derive(Debug, Default)]
pub(super) struct LivenessProbe {
    /// Who waits for the verdict, with the listener whose port it wants.
    claimants: Vec<(OwnedFd, u64)>,
    /// Number of looks before the client counts as silent; none while nobody asks.
    looks: Option<u64>,
    /// Bytes received from the client when the question was sent.
    received: u64,
    /// Bytes and segments that wait in the socket, at the last look.
    queued: Option<(u32, u32)>,
}

impl LivenessProbe {
    /// Asks the client, for a connection that wants the port of this listener.
    pub(super) fn ask(&mut self, stream: OwnedFd, listener: u64, driver: &mut Driver) {
        if self.claimants.len() >= MAX_CLAIMANTS {
            return;
        }
        self.claimants.push((stream, listener));
        if self.looks.is_some() {
            return;
        }
        let received = driver.wire_bytes().0;
        // A client that has just been found silent, and has sent nothing since, is not asked again.
        let is_known = self.queued.is_some() && received == self.received;
        self.looks = Some(if is_known { 1 } else { LOOKS });
        (self.received, self.queued) = (received, None);
        // Fails if too many are unanswered, which is an answer too.
        let _ = driver.connection().send_keepalive();
        Self::set_timer(driver);
    }

    fn set_timer(driver: &mut Driver) {
        let next = driver.now().saturating_add(LOOK_MS);
        driver.set_timer(Token::Probe.number(), Some(next));
    }

    /// Looks for a sign of life. With the verdict it returns those who wait for it. A client whose
    /// bytes wait in the socket because this process does not read, such as a full SFTP server or one
    /// that waits for a port of its own, has not been found silent.
    pub(super) fn look(&mut self, driver: &mut Driver) -> Option<(Liveness, Vec<(OwnedFd, u64)>)> {
        let left = self.looks?.saturating_sub(1);
        let queued = sys::socket::tcp_info(driver.socket())
            .map_or((0, 0), |info| (info.notsent_bytes, info.unacked_segments));
        // Bytes before the question may take a slow line long; they advance while somebody reads.
        let advances = |before: (u32, u32)| before.0 > 0 && before != queued;
        let unread = sys::io::bytes_available(driver.socket()).is_ok_and(|bytes| bytes > 0);
        let received = driver.wire_bytes().0 > self.received || unread;
        let lives = received || self.queued.is_some_and(advances);
        self.queued = Some(queued);
        if !lives && left > 0 {
            self.looks = Some(left);
            Self::set_timer(driver);
            return None;
        }
        self.looks = None;
        let claimants = std::mem::take(&mut self.claimants);
        if lives {
            self.queued = None;
            return Some((Liveness::Lives, claimants));
        }
        Some((Liveness::Silent, claimants))
    }
}

/// Tells a new connection that this one keeps its port.
pub(super) fn keep(claimant: &OwnedFd) {
    let _ = sys::io::write(claimant, KEPT);
}

/// A request to listen that waits for the decision of an older connection.
#[derive(Debug)]
pub(super) struct PortClaim {
    pub(super) listening: Listening,
    pub(super) want_reply: bool,
    stream: OwnedFd,
    until: Millis,
}

/// What the older connection has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortDecision {
    Pending,
    /// It keeps its port, or says nothing.
    Kept,
    /// The port is free.
    Free,
}

impl PortClaim {
    /// Asks the older connection of the same user and key for the port; `None` if there is none.
    pub(super) fn make(
        listening: Listening,
        port: &PortPlace,
        want_reply: bool,
        grant: &SessionGrant,
        driver: &mut Driver,
    ) -> Option<Self> {
        let stream = sys::socket::connect_abstract(&rendezvous_of(grant, port)?).ok()?;
        if !is_same_user(&stream, grant) {
            return None;
        }
        let token = Token::Claim.number();
        driver.watch(stream.as_fd(), token, true, false).ok()?;
        let until = driver.now().saturating_add(DECISION_MS);
        driver.set_timer(token, Some(until));
        Some(Self {
            listening,
            want_reply,
            stream,
            until,
        })
    }

    pub(super) fn decision(&self, now: Millis) -> PortDecision {
        match sys::io::read(&self.stream, &mut [0]) {
            Ok(0) => PortDecision::Free,
            Err(error) if error.kind() == ErrorKind::WouldBlock && now < self.until => {
                PortDecision::Pending
            }
            Ok(_) | Err(_) => PortDecision::Kept,
        }
    }

    /// Ceases to wait.
    pub(super) fn close(self, driver: &mut Driver) -> Listening {
        driver.unwatch(self.stream.as_fd());
        driver.set_timer(Token::Claim.number(), None);
        self.listening
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHp6enp6enp6enp6enp6enp6enp6enp6enp6enp6enp6";

    fn name(user: (&str, u32), auth_info: &str, port: u16) -> Option<Vec<u8>> {
        rendezvous(user.0, user.1, auth_info, &("localhost".into(), port))
    }

    #[test]
    fn another_user_key_port_or_address_has_another_rendezvous() {
        let ann = ("ann", 1000);
        let info = format!("publickey {KEY}\n");
        let own = name(ann, &info, 8080).unwrap();
        assert!(own.len() < 108);
        assert_eq!(
            name(ann, &format!("password\n{info}"), 8080),
            Some(own.clone())
        );
        for other in [
            name(("bob", 1000), &info, 8080),
            name(("ann", 1001), &info, 8080),
            name(ann, &format!("publickey {OTHER}\n"), 8080),
            name(ann, &format!("{info}publickey {OTHER}\n"), 8080),
            name(ann, &info, 8081),
        ] {
            assert_ne!(other.unwrap(), own);
        }
        for (place, is_own) in [("localhost", true), ("127.0.0.1", false), ("::1", false)] {
            let name = rendezvous("ann", 1000, &info, &(place.into(), 8080)).unwrap();
            assert_eq!(name == own, is_own, "{place}");
        }
    }

    #[test]
    fn without_a_key_there_is_none() {
        for info in [
            "",
            "password\n",
            "hostbased ssh-ed25519 AAAA\n",
            "publickey x\n",
        ] {
            assert_eq!(name(("ann", 1000), info, 8080), None, "{info:?}");
        }
    }
}
