//! Two connections that have logged in, each in a driver of its own.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use driver::{Driver, Notice};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::{ChannelId, Connection, Event, TransportConfig};
use sim::Pair;

/// Token of the timer that ends a step.
const STEP: u64 = u64::MAX;
/// Token of the timer that fails a test without progress.
const WATCHDOG: u64 = u64::MAX - 1;
/// Time limit without a byte, far longer than in any test, milliseconds.
const WATCHDOG_MS: u64 = 60_000;
/// How often the timer is restarted while bytes move.
const MOST_REWINDS: u32 = 10;

/// One end.
pub struct End {
    pub driver: Driver,
    host_key: Option<PrivateKey>,
}

impl End {
    /// The next event for the test; host key signatures are made internally.
    ///
    /// # Panics
    /// If no event arrives, or the connection fails.
    pub fn next(&mut self) -> Notice {
        let mut moved = self.watch();
        let mut patience = MOST_REWINDS;
        loop {
            let notice = self.driver.next().expect("a connection at work");
            match notice {
                // Bulk data are not an event.
                Notice::Timer { token: WATCHDOG } => {
                    let before = std::mem::replace(&mut moved, self.watch());
                    assert_ne!(moved, before, "nothing happens any more");
                    patience -= 1;
                    assert!(patience > 0, "bytes move, and nothing comes of it");
                }
                Notice::Event(Event::KeysChanged { .. }) => {}
                notice => {
                    if let Some(notice) = self.answer(notice) {
                        return notice;
                    }
                }
            }
        }
    }

    /// Restarts the watchdog; returns the number of bytes on the wire so far.
    fn watch(&mut self) -> (u64, u64) {
        let at = self.driver.now() + WATCHDOG_MS;
        self.driver.set_timer(WATCHDOG, Some(at));
        self.driver.wire_bytes()
    }

    fn answer(&mut self, notice: Notice) -> Option<Notice> {
        if let (Notice::Event(Event::SignExchangeHash { hash, .. }), Some(key)) =
            (&notice, &self.host_key)
        {
            let signature = key
                .sign(SignatureAlgorithm::Ed25519, hash.as_ref())
                .expect("a signature");
            self.driver
                .connection()
                .provide_host_signature(&signature)
                .expect("was asked for");
            return None;
        }
        Some(notice)
    }

    /// Does what can be done without waiting.
    pub fn step(&mut self) -> Vec<Notice> {
        let mut seen = Vec::new();
        // Events that epoll reports with the first timer are handled before the second.
        for _ in 0..2 {
            let now = self.driver.now();
            self.driver.set_timer(STEP, Some(now));
            loop {
                match self.driver.next().expect("a connection at work") {
                    Notice::Timer { token: STEP } => break,
                    notice => seen.extend(self.answer(notice)),
                }
            }
        }
        seen
    }
}

/// The parts of an end, which can be sent to another thread.
pub struct Half {
    socket: UnixStream,
    connection: Connection,
    host_key: Option<PrivateKey>,
}

impl Half {
    /// Starts the connection.
    pub fn end(self) -> End {
        let socket = OwnedFd::from(self.socket);
        End {
            driver: Driver::new(socket, None, self.connection).expect("a driver"),
            host_key: self.host_key,
        }
    }
}

impl Half {
    /// Starts the connection over a socket whose other end the test has.
    pub fn apart(mut self) -> (End, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a socket pair");
        self.socket = near;
        (self.end(), far)
    }
}

/// Client and server after a login, and the open channels.
pub fn joined(config: &TransportConfig, channels: usize) -> (End, End, Vec<ChannelId>) {
    let (client, server, ids) = halves(config, channels);
    (client.end(), server.end(), ids)
}

/// The same, not yet started.
pub fn halves(config: &TransportConfig, channels: usize) -> (Half, Half, Vec<ChannelId>) {
    let mut pair = Pair::new(config.clone(), config.clone());
    pair.login(usize::MAX).expect("a login");
    let ids = (0..channels)
        .map(|_| pair.open_session().expect("a channel"))
        .collect();
    let (client, server, host_key) = pair.into_parts();
    let (near, far) = UnixStream::pair().expect("a socket pair");
    let half = |socket, connection, host_key| Half {
        socket,
        connection,
        host_key,
    };
    (
        half(near, client, None),
        half(far, server, Some(host_key)),
        ids,
    )
}

/// Steps both until neither has moved a byte for some rounds.
pub fn settle(client: &mut End, server: &mut End) -> (Vec<Notice>, Vec<Notice>) {
    let mut seen = (Vec::new(), Vec::new());
    let mut quiet = 0;
    while quiet < 3 {
        let before = (client.driver.wire_bytes(), server.driver.wire_bytes());
        let up = client.step();
        let down = server.step();
        let moved = before != (client.driver.wire_bytes(), server.driver.wire_bytes());
        quiet = if moved || !up.is_empty() || !down.is_empty() {
            0
        } else {
            quiet + 1
        };
        seen.0.extend(up);
        seen.1.extend(down);
    }
    seen
}
