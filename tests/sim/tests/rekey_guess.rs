//! A rekey whose first packet is guessed: one round trip, data right after it, and peers with wrong
//! answers.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{PASSWORD, Subject};
use proto::{ChannelId, Connection, Error, Event, Role, Stream, TransportConfig, TransportOutput};
use sim::{Pair, Side};
use wire::message::{ChannelData, Encode, NewKeys, Ping};

fn logged_in(rekey_bytes: Option<u64>) -> (Pair, ChannelId) {
    let config = |rekey_bytes| TransportConfig {
        rekey_bytes,
        ..TransportConfig::default()
    };
    let mut pair = Pair::new(config(rekey_bytes), config(None));
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    (pair, id)
}

fn rekeyed(side: &mut Side) -> usize {
    let count = side.events.len();
    side.events
        .retain(|event| !matches!(event, Event::KeysChanged { .. }));
    count - side.events.len()
}

/// Delivers all output of `from` in one piece.
fn flight(from: &mut Side, to: &mut Side) -> usize {
    from.transmit();
    let bytes: Vec<u8> = from.wire.drain(..).collect();
    to.receive(&bytes, 0).unwrap();
    bytes.len()
}

fn fill(side: &mut Side, id: ChannelId, piece: &[u8]) -> usize {
    let mut queued = 0;
    loop {
        let sent = side
            .connection
            .channel_send_slice(id, Stream::Data, piece)
            .unwrap();
        if sent == 0 {
            return queued;
        }
        queued += sent;
        assert!(queued < 8 << 20, "no bound");
    }
}

fn heard(side: &mut Side) -> usize {
    let mut bytes = 0;
    side.events.retain(|event| match event {
        Event::ChannelData { data, .. } => {
            bytes += data.len();
            false
        }
        _ => true,
    });
    bytes
}

#[test]
fn a_rekey_takes_one_round_trip_and_data_follows_in_its_last_flight() {
    for round in 0..3 {
        let (mut pair, id) = logged_in(None);
        // The other side has reached its limit, too, in two of three rounds.
        pair.client.connection.rekey(0).unwrap();
        if round > 0 {
            pair.server.connection.rekey(0).unwrap();
        }
        if round > 1 {
            // And its KEXINIT arrives first.
            flight(&mut pair.server, &mut pair.client);
        }
        let up = fill(&mut pair.client, id, &[1; 32 * 1024]);
        let down = if round > 0 {
            fill(&mut pair.server, id, &[2; 32 * 1024])
        } else {
            0
        };
        assert!((1..=1 << 20).contains(&up), "{up}");
        let first = flight(&mut pair.client, &mut pair.server);
        assert!(first < 8 * 1024, "data left before NEWKEYS");
        pair.answer_server().unwrap();
        flight(&mut pair.server, &mut pair.client);
        assert_eq!(rekeyed(&mut pair.client), 1);
        assert_eq!(heard(&mut pair.client), down);
        flight(&mut pair.client, &mut pair.server);
        assert_eq!(rekeyed(&mut pair.server), 1);
        assert_eq!(heard(&mut pair.server), up);
    }
}

#[test]
fn what_waits_for_new_keys_stays_below_their_limit() {
    const LIMIT: usize = 128 * 1024;
    let (mut pair, id) = logged_in(Some(LIMIT as u64));
    let mut changed = 0;
    let mut sent = 0;
    while sent < 40 * LIMIT {
        sent += fill(&mut pair.client, id, &[3; 32 * 1024]);
        let flown = flight(&mut pair.client, &mut pair.server);
        // The delayed packets, those queued up to the limit, and the packet that reached it.
        assert!(flown <= LIMIT + LIMIT / 2 + 48 * 1024, "{flown}");
        pair.answer_server().unwrap();
        for event in core::mem::take(&mut pair.server.events) {
            match event {
                Event::ChannelData { channel, data, .. } => pair
                    .server
                    .connection
                    .channel_consumed(channel, data.len())
                    .unwrap(),
                Event::KeysChanged { .. } => changed += 1,
                _ => {}
            }
        }
        flight(&mut pair.server, &mut pair.client);
        pair.client.connection.prepare_rekey().unwrap();
    }
    assert!(changed >= 35, "{changed} rekeys");
}

#[test]
fn new_keys_keep_their_limit_while_the_peers_are_on_their_way() {
    const LIMIT: usize = 128 * 1024;
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let config = |rekey_bytes| TransportConfig {
            rekey_bytes,
            compression: vec![compression.into()],
            ..TransportConfig::default()
        };
        let mut pair = Pair::new(config(None), config(Some(LIMIT as u64)));
        pair.login(usize::MAX).unwrap();
        let id = pair.open_session().unwrap();
        pair.server.connection.rekey(0).unwrap();
        flight(&mut pair.server, &mut pair.client);
        flight(&mut pair.client, &mut pair.server);
        pair.answer_server().unwrap();
        // The server's NEWKEYS leaves, and the client's is on its way: data that cannot be compressed
        // leaves as far as the new keys' limit, once.
        let mut flown = 0;
        for turn in 0..20 {
            fill(&mut pair.server, id, &sim::noise(32 * 1024, turn + 1));
            flown += flight(&mut pair.server, &mut pair.client);
        }
        assert!(flown >= LIMIT, "{compression}: {flown}");
        // What waits to be compressed is not counted yet: at most a full queue.
        let queue = if compression == "none" { 0 } else { 512 * 1024 };
        let most = LIMIT + LIMIT / 2 + 48 * 1024 + queue;
        assert!(flown <= most, "{compression}: {flown}");
        // With the client's NEWKEYS the next exchange begins, and data follows.
        flight(&mut pair.client, &mut pair.server);
        pair.settle(usize::MAX).unwrap();
        assert!(rekeyed(&mut pair.server) >= 2, "{compression}");
        assert!(fill(&mut pair.server, id, &[4; 1024]) > 0, "{compression}");
    }
}

/// A client that opens all permitted packets before it dispatches any.
struct Ahead {
    connection: Connection,
    error: Option<Error>,
    changed: usize,
    heard: usize,
    out: Vec<u8>,
}

impl Ahead {
    fn new() -> Self {
        let connection = Connection::client(TransportConfig::default(), 0).unwrap();
        Self {
            connection,
            error: None,
            changed: 0,
            heard: 0,
            out: Vec::new(),
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        self.connection.handle_received(0)?;
        loop {
            let mut jobs = Vec::new();
            while let Some(job) = self.connection.poll_open()? {
                jobs.push(job);
            }
            if jobs.is_empty() {
                return Ok(());
            }
            for job in jobs {
                let opened = job.run();
                self.connection.handle_opened(opened, 0)?;
                while let Some(event) = self.connection.poll_event() {
                    match event {
                        Event::HostKey { .. } => self.connection.accept_host_key()?,
                        Event::KeysChanged { .. } => self.changed += 1,
                        Event::ChannelData { data, .. } => self.heard += data.len(),
                        _ => {}
                    }
                }
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.out.extend(bytes),
                TransportOutput::Seal(job) => self.out.extend_from_slice(job.run().wire()),
            }
        }
    }
}

impl Subject for Ahead {
    fn deliver(&mut self, bytes: &[u8]) -> bool {
        if self.error.is_none() {
            self.connection.receive_buffer().extend_from_slice(bytes);
            if let Err(error) = self.work() {
                self.connection.fail(&error);
                self.error = Some(error);
            }
        }
        self.error.is_none()
    }

    fn collect(&mut self) -> Option<Vec<u8>> {
        self.transmit();
        let out = core::mem::take(&mut self.out);
        (!out.is_empty()).then_some(out)
    }

    fn has_ended(&mut self) -> bool {
        self.error.is_some()
    }
}

/// A lying server with a version line that is known to accept guesses, with an open session.
fn server(version: &str) -> (Adversary<Ahead>, ChannelId) {
    let mut adversary = Adversary::new(Ahead::new(), Role::Server);
    adversary.version = version.into();
    adversary.exchange(&Offer::default());
    adversary.accept_service();
    let client = &mut adversary.subject.connection;
    client.auth_password(b"user", PASSWORD).unwrap();
    adversary.expect(50);
    adversary.say(&wire::message::UserauthSuccess {});
    let id = adversary
        .subject
        .connection
        .open_channel("session", b"")
        .unwrap();
    adversary.expect(90);
    adversary.say(&wire::message::ChannelOpenConfirmation {
        recipient_channel: 0,
        sender_channel: 0,
        window: 1 << 20,
        max_packet: 32 * 1024,
        fields: wire::Rest(b""),
    });
    assert_eq!(adversary.subject.changed, 1);
    (adversary, id)
}

const OPENSSH: &str = "SSH-2.0-OpenSSH_9.9 adversary";

/// The client begins; returns its guess.
fn begin(adversary: &mut Adversary<Ahead>) -> Vec<u8> {
    adversary.subject.connection.rekey(0).unwrap();
    adversary.expect_kexinit();
    assert!(adversary.subjects_kexinit().first_kex_packet_follows);
    adversary.expect(30)
}

#[test]
fn a_server_of_an_unknown_kind_gets_no_guess() {
    let (mut adversary, _) = server("SSH-2.0-Adversary_1.0");
    adversary.subject.connection.rekey(0).unwrap();
    adversary.expect_kexinit();
    assert!(!adversary.subjects_kexinit().first_kex_packet_follows);
    assert!(adversary.next_payload().is_none());
    adversary.kexinit(&Offer::default());
    adversary.agree();
    adversary.newkeys();
    adversary.expect_newkeys();
    assert_eq!(adversary.subject.changed, 2);
}

#[test]
fn a_wrong_guess_is_followed_by_a_right_one() {
    let (mut adversary, _) = server(OPENSSH);
    for (rekeys, kex) in ["sntrup761x25519-sha512", "mlkem768x25519-sha256"]
        .into_iter()
        .enumerate()
    {
        let guess = begin(&mut adversary);
        adversary.kexinit(&Offer::kex(kex));
        let init = adversary.expect(30);
        assert_ne!(init.len(), guess.len());
        assert!(adversary.reply_to(&init, &hostile::adversary::Reply::default()));
        adversary.newkeys();
        adversary.expect_newkeys();
        assert_eq!(adversary.subject.changed, 2 + rekeys);
    }
    adversary.say(&Ping { data: b"alive" });
    adversary.expect(193);
}

#[test]
fn a_server_that_no_longer_prefers_what_is_in_use_gets_no_guess() {
    let (mut adversary, _) = server(OPENSSH);
    begin(&mut adversary);
    let both = "sntrup761x25519-sha512,curve25519-sha256";
    adversary.kexinit(&Offer::kex(both));
    // The current algorithms are first in the client's list, so they are negotiated again.
    assert_eq!(adversary.method().name(), "curve25519-sha256");
    adversary.agree();
    adversary.newkeys();
    adversary.expect_newkeys();
    adversary.subject.connection.rekey(0).unwrap();
    adversary.expect_kexinit();
    assert!(!adversary.subjects_kexinit().first_kex_packet_follows);
    assert!(adversary.next_payload().is_none());
}

#[test]
fn a_guess_is_answered_with_everything_at_once_behind_data_and_before_data() {
    let (mut adversary, _) = server(OPENSSH);
    for round in 1..=3 {
        let guess = begin(&mut adversary);
        let data = ChannelData {
            recipient_channel: 0,
            data: &[7; 20_000],
        }
        .encode();
        // All of it arrives in one piece, and packets are opened as early as possible.
        let mut piece = Vec::new();
        for _ in 0..5 {
            piece.extend(adversary.seal(&data));
        }
        let hold = core::mem::take(&mut piece);
        adversary.send_bytes(&hold);
        adversary.kexinit(&Offer::default());
        assert!(adversary.reply_to(&guess, &hostile::adversary::Reply::default()));
        let mut last = adversary.sealed_newkeys();
        for _ in 0..5 {
            last.extend(adversary.seal(&data));
        }
        assert!(adversary.send_bytes(&last), "{:?}", adversary.subject.error);
        adversary.expect_newkeys();
        assert_eq!(adversary.subject.changed, 1 + round);
        assert_eq!(adversary.subject.heard, round * 200_000);
    }
}

#[test]
fn newkeys_without_a_reply_ends_the_client() {
    let (mut adversary, _) = server(OPENSSH);
    begin(&mut adversary);
    assert!(!(adversary.kexinit(&Offer::default()) && adversary.say(&NewKeys {})));
    assert!(matches!(
        adversary.subject.error,
        Some(Error::PeerMisbehaved(_))
    ));
}

#[test]
fn newkeys_before_kexinit_ends_the_client() {
    let (mut adversary, _) = server(OPENSSH);
    begin(&mut adversary);
    assert!(!adversary.say(&NewKeys {}));
    assert!(adversary.subject.error.is_some());
}

#[test]
fn a_reply_before_kexinit_ends_the_client() {
    let (mut adversary, _) = server(OPENSSH);
    begin(&mut adversary);
    assert!(!adversary.say(&wire::message::KexEcdhReply {
        host_key: b"key",
        public: &[9; 32],
        signature: b"signature",
    }));
    assert!(adversary.subject.error.is_some());
}

fn much_data() -> Vec<u8> {
    let data = ChannelData {
        recipient_channel: 0,
        data: &[7; 20_000],
    };
    data.encode()
}

#[test]
fn data_between_kexinit_and_newkeys_ends_the_client_though_it_was_opened_ahead() {
    let (mut adversary, _) = server(OPENSSH);
    begin(&mut adversary);
    let mut piece = adversary.seal(&Offer::default().payload(Role::Server));
    for _ in 0..5 {
        piece.extend(adversary.seal(&much_data()));
    }
    assert!(!adversary.send_bytes(&piece));
    assert_eq!(
        adversary.subject.error,
        Some(Error::NotPermitted { message: 94 })
    );
    assert_eq!(adversary.subject.heard, 0);
}

#[test]
fn nothing_behind_newkeys_is_taken_under_the_old_keys() {
    // A packet that is too long for NEWKEYS lets later packets be opened before it is read.
    let (mut adversary, _) = server(OPENSSH);
    let guess = begin(&mut adversary);
    adversary.kexinit(&Offer::default());
    adversary.reply_to(&guess, &hostile::adversary::Reply::default());
    let mut long = NewKeys {}.encode();
    long.resize(2000, 0);
    let mut piece = adversary.seal(&long);
    piece.extend(adversary.seal(&much_data()));
    assert!(!adversary.send_bytes(&piece));
    assert_eq!(
        adversary.subject.error,
        Some(Error::PeerMisbehaved("NEWKEYS is too long"))
    );
    assert_eq!(adversary.subject.heard, 0);
}
