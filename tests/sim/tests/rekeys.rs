//! A rekey at every place of a conversation, by either side and by both at once.

use proto::{ChannelId, Event, Stream, TransportConfig};
use sim::schedule::{Random, Schedule, Worked};
use sim::{Pair, Side};

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{PASSWORD, Subject};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::{AuthMethod, Connection, Role, ServerHostKey};
use wire::message::{ChannelData, ChannelWindowAdjust};

/// Messages that each side sends.
const MESSAGES: u8 = 5;

fn config(compression: &str) -> TransportConfig {
    TransportConfig {
        kex: vec!["curve25519-sha256".into()],
        compression: vec![compression.into()],
        ..TransportConfig::default()
    }
}

fn say(side: &mut Side, id: ChannelId, queue: &mut Vec<u8>) {
    let sent = side
        .connection
        .channel_send_slice(id, Stream::Data, queue)
        .unwrap();
    queue.drain(..sent);
}

fn hear(side: &mut Side, id: ChannelId, heard: &mut Vec<u8>) -> u32 {
    let mut changed = 0;
    side.events.retain(|event| match event {
        Event::ChannelData { channel, data, .. } => {
            assert_eq!(*channel, id);
            heard.extend_from_slice(data);
            false
        }
        Event::KeysChanged { .. } => {
            changed += 1;
            false
        }
        _ => true,
    });
    changed
}

/// A conversation of `MESSAGES` in each direction in pieces of `piece` bytes, with a rekey when
/// `cut` pieces were delivered. Returns the number of pieces.
fn converse(compression: &str, piece: usize, cut: usize, who: [bool; 2]) -> usize {
    let mut pair = Pair::new(config(compression), config(compression));
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let text = |salt: u8| -> Vec<Vec<u8>> {
        (0..MESSAGES)
            .map(|index| {
                (0..=90)
                    .map(|at: u8| at.wrapping_mul(salt) ^ index)
                    .collect()
            })
            .collect()
    };
    let (up, down) = (text(7), text(11));
    let (mut up_queue, mut down_queue) = (Vec::new(), Vec::new());
    let (mut heard_up, mut heard_down) = (Vec::new(), Vec::new());
    let mut changed = [0, 0];
    let mut pieces = 0;
    let mut round = 0;
    loop {
        up_queue.extend(up.get(round).into_iter().flatten());
        down_queue.extend(down.get(round).into_iter().flatten());
        round += 1;
        let quiet = up_queue.is_empty() && down_queue.is_empty() && round > up.len();
        say(&mut pair.client, id, &mut up_queue);
        say(&mut pair.server, id, &mut down_queue);
        // Some pieces, then the next message: messages and exchange overlap.
        let mut moved = false;
        for _ in 0..if piece == 1 { 150 } else { 1 } {
            pair.client.transmit();
            pair.server.transmit();
            for up in [true, false] {
                let (from, to) = if up {
                    (&mut pair.client, &mut pair.server)
                } else {
                    (&mut pair.server, &mut pair.client)
                };
                let len = from.wire.len().min(piece);
                let bytes: Vec<u8> = from.wire.drain(..len).collect();
                if bytes.is_empty() {
                    continue;
                }
                moved = true;
                to.receive(&bytes, 0).unwrap();
                pair.answer_server().unwrap();
                if pieces == cut {
                    for (rekeys, side) in who.into_iter().zip([&mut pair.client, &mut pair.server])
                    {
                        if rekeys {
                            side.connection.rekey(0).unwrap();
                        }
                    }
                }
                pieces += 1;
            }
        }
        changed[0] += hear(&mut pair.client, id, &mut heard_down);
        changed[1] += hear(&mut pair.server, id, &mut heard_up);
        if quiet && !moved {
            break;
        }
        assert!(round < 10_000, "no end");
    }
    assert!(heard_up == up.concat() && heard_down == down.concat());
    assert_eq!(changed[0], changed[1]);
    if cut < pieces {
        assert_eq!(changed, [1, 1], "cut at {cut}");
    }
    pieces
}

const WHO: [[bool; 2]; 3] = [[true, false], [false, true], [true, true]];

#[test]
fn at_every_packet() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        for who in WHO {
            // A piece holds at most one of these packets, so each index is a packet's.
            let pieces = converse(compression, 120, usize::MAX, who);
            assert!(pieces > 10);
            for cut in 0..pieces {
                converse(compression, 120, cut, who);
            }
        }
    }
}

#[test]
fn at_any_byte_with_bytes_delivered_one_by_one() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        for (index, who) in WHO.into_iter().enumerate() {
            let pieces = converse(compression, 1, usize::MAX, who);
            let mut cut = index;
            while cut < pieces {
                converse(compression, 1, cut, who);
                cut += 29;
            }
        }
    }
}

#[test]
fn a_rekey_on_the_heels_of_another() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let mut pair = Pair::new(config(compression), config(compression));
        pair.login(usize::MAX).unwrap();
        let id = pair.open_session().unwrap();
        let mut changed = 0;
        let mut heard = Vec::new();
        for round in 0..60_u8 {
            let (first, second) = if round % 2 == 0 {
                (&mut pair.client, &mut pair.server)
            } else {
                (&mut pair.server, &mut pair.client)
            };
            first.connection.rekey(0).unwrap();
            if round % 3 == 0 {
                second.connection.rekey(0).unwrap();
            }
            // No second exchange starts during an exchange.
            first.connection.rekey(0).unwrap();
            let mut queue = vec![round; 3];
            pair.settle(usize::from(round) * 31 + 1).unwrap();
            say(&mut pair.client, id, &mut queue);
            assert!(queue.is_empty());
            pair.settle(usize::MAX).unwrap();
            changed += hear(&mut pair.server, id, &mut heard);
        }
        assert_eq!(changed, 60);
        assert_eq!(heard.len(), 180);
    }
}

/// A server whose jobs are scheduled, for a peer without strict key exchange.
struct Server {
    worked: Worked,
    key: PrivateKey,
    random: Random,
    heard: Vec<u8>,
    changed: u32,
}

impl Server {
    fn new(seed: u64) -> Self {
        let key = PrivateKey::from_ed25519_seed(&[5; 32]);
        let keys = vec![ServerHostKey {
            algorithms: vec!["ssh-ed25519".into()],
            blob: key.public().blob(),
        }];
        let connection = Connection::server(TransportConfig::default(), keys, 0).unwrap();
        Self {
            worked: Worked::new(connection, Schedule::Random(Random::new(seed))),
            key,
            random: Random::new(seed + 1),
            heard: Vec::new(),
            changed: 0,
        }
    }

    fn answer(&mut self) -> bool {
        let mut answered = false;
        while let Some(event) = self.worked.event() {
            let connection = &mut self.worked.connection;
            answered = true;
            match event {
                Event::SignExchangeHash { hash, .. } => {
                    let signature = self
                        .key
                        .sign(SignatureAlgorithm::Ed25519, hash.as_ref())
                        .unwrap();
                    connection.provide_host_signature(&signature).unwrap();
                }
                Event::AuthRequest(request) => {
                    assert!(matches!(request.method, AuthMethod::Password { .. }));
                    connection.auth_success().unwrap();
                }
                Event::ChannelOpenRequest { channel, .. } => {
                    connection.accept_channel(channel).unwrap();
                }
                Event::ChannelData { channel, data, .. } => {
                    self.heard.extend_from_slice(&data);
                    connection.channel_consumed(channel, data.len()).unwrap();
                }
                Event::KeysChanged { .. } => self.changed += 1,
                _ => {}
            }
        }
        answered
    }
}

impl Subject for Server {
    fn deliver(&mut self, bytes: &[u8]) -> bool {
        let all = self.random.once_in(3);
        self.worked.receive(bytes, all, 0).unwrap();
        while self.answer() {
            self.worked.receive(b"", all, 0).unwrap();
        }
        true
    }

    fn collect(&mut self) -> Option<Vec<u8>> {
        // The peer waits: delayed jobs are done now.
        self.worked.receive(b"", true, 0).unwrap();
        while self.answer() {
            self.worked.receive(b"", true, 0).unwrap();
        }
        self.worked.transmit();
        let bytes: Vec<u8> = self.worked.wire.drain(..).collect();
        (!bytes.is_empty()).then_some(bytes)
    }

    fn has_ended(&mut self) -> bool {
        self.worked.connection.is_closed()
    }
}

#[test]
fn jobs_out_of_turn_through_rekeys_with_and_without_strict_key_exchange() {
    for (seed, offer) in [
        (1, Offer::lax()),
        (2, Offer::default()),
        (3, Offer::lax()),
        (4, Offer::default()),
    ] {
        let strict = offer.strict;
        let mut adversary = Adversary::new(Server::new(seed), Role::Client);
        adversary.exchange(&offer);
        assert_eq!(adversary.strict, strict);
        adversary.service();
        adversary.login_password(b"user", PASSWORD);
        let channel = adversary.open_session(0);
        let mut sent = Vec::new();
        for round in 0..12_u8 {
            // A run of packets in one piece, followed by KEXINIT and INIT.
            let mut piece = Vec::new();
            for index in 0..40_u8 {
                let data = vec![round ^ index; 1 + usize::from(index) * 20];
                sent.extend_from_slice(&data);
                let message = ChannelData {
                    recipient_channel: channel,
                    data: &data,
                };
                piece.extend(adversary.seal(&wire::message::Encode::encode(&message)));
            }
            adversary.send_bytes(&piece);
            if round % 2 == 0 {
                adversary.exchange(&offer);
            } else {
                adversary.say(&ChannelWindowAdjust {
                    recipient_channel: channel,
                    bytes: 1,
                });
            }
        }
        adversary.rest();
        assert!(adversary.subject.heard == sent, "strict: {strict}");
        assert_eq!(
            adversary.subject.changed, 7,
            "the first exchange and six more"
        );
        assert!(
            adversary.subject.worked.most_out > 3,
            "{} jobs at once",
            adversary.subject.worked.most_out
        );
    }
}
