//! Random schedules of jobs, splits and merges, with rekeys at any moment by either side: the
//! result equals that of a serial run.

use std::collections::VecDeque;

use keys::{PrivateKey, SignatureAlgorithm};
use proto::channel::Request;
use proto::{AuthMethod, ChannelId, Event, Stream, TransportConfig};
use sim::schedule::{Random, Schedule, Worked};
use sim::{PASSWORD, Pair};

const CHANNELS: u32 = 3;

/// The messages of a channel in order; received messages are recorded in the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Data(Vec<u8>),
    Stderr(Vec<u8>),
    Request(Vec<u8>),
    Eof,
    Closed,
}

fn script(random: &mut Random, items: usize, closes: bool) -> VecDeque<Item> {
    let mut list = VecDeque::new();
    for index in 0..items {
        let len = match random.below(10) {
            0 => 1,
            1..=6 => 1 + random.below(3000),
            _ => 1 + random.below(120_000),
        };
        let byte = index.to_le_bytes()[0];
        let data: Vec<u8> = (0..len).map(|at| byte ^ at.to_le_bytes()[0]).collect();
        list.push_back(match random.below(8) {
            0 => Item::Request(data.into_iter().take(100).collect()),
            1 | 2 => Item::Stderr(data),
            _ => Item::Data(data),
        });
    }
    list.push_back(Item::Eof);
    if closes {
        list.push_back(Item::Closed);
    }
    list
}

/// Joins neighbours of the same kind: the transcript does not depend on the sizes of messages.
fn note(log: &mut Vec<Item>, item: Item) {
    match (log.last_mut(), item) {
        (Some(Item::Data(last)), Item::Data(more))
        | (Some(Item::Stderr(last)), Item::Stderr(more)) => last.extend(more),
        (_, item) => log.push(item),
    }
}

struct Player {
    worked: Worked,
    host_key: Option<PrivateKey>,
    scripts: Vec<VecDeque<Item>>,
    logs: Vec<Vec<Item>>,
    asked: Vec<usize>,
    replies: Vec<Vec<bool>>,
    open: u32,
    rekeys: u32,
    rekey_one_in: usize,
}

impl Player {
    fn new(worked: Worked, host_key: Option<PrivateKey>, scripts: Vec<VecDeque<Item>>) -> Self {
        Self {
            worked,
            host_key,
            scripts,
            logs: vec![Vec::new(); CHANNELS as usize],
            asked: vec![0; CHANNELS as usize],
            replies: vec![Vec::new(); CHANNELS as usize],
            open: 0,
            rekeys: 0,
            rekey_one_in: 6,
        }
    }

    fn log(&mut self, id: ChannelId) -> &mut Vec<Item> {
        &mut self.logs[id.0 as usize]
    }

    /// Plays the owner for all events.
    fn answer(&mut self) {
        while let Some(event) = self.worked.event() {
            let connection = &mut self.worked.connection;
            match event {
                Event::HostKey { .. } => connection.accept_host_key().unwrap(),
                Event::SignExchangeHash { hash, .. } => {
                    let key = self.host_key.as_ref().expect("a server");
                    let signature = key
                        .sign(SignatureAlgorithm::Ed25519, hash.as_ref())
                        .unwrap();
                    connection.provide_host_signature(&signature).unwrap();
                }
                Event::UserauthReady => connection.auth_password(b"user", PASSWORD).unwrap(),
                Event::AuthRequest(request) => {
                    assert!(matches!(request.method, AuthMethod::Password { .. }));
                    connection.auth_success().unwrap();
                }
                Event::AuthSuccess(_) => {
                    for _ in 0..CHANNELS {
                        connection.open_channel("session", b"").unwrap();
                    }
                }
                Event::ChannelOpenRequest { channel, .. } => {
                    connection.accept_channel(channel).unwrap();
                    self.open += 1;
                }
                Event::ChannelOpened(_) => self.open += 1,
                Event::ChannelData {
                    channel,
                    stream,
                    data,
                } => {
                    connection.channel_consumed(channel, data.len()).unwrap();
                    let item = match stream {
                        Stream::Data => Item::Data(data.to_vec()),
                        Stream::Stderr => Item::Stderr(data.to_vec()),
                    };
                    note(self.log(channel), item);
                }
                Event::ChannelRequest {
                    channel,
                    request: Request::Exec { command },
                    want_reply,
                } => {
                    assert!(want_reply);
                    let success = command.len() % 2 == 0;
                    connection.channel_reply(channel, success).unwrap();
                    note(self.log(channel), Item::Request(command));
                }
                Event::ChannelReply { channel, success } => {
                    self.replies[channel.0 as usize].push(success);
                }
                Event::ChannelEof(channel) => note(self.log(channel), Item::Eof),
                Event::ChannelClosed(channel) => note(self.log(channel), Item::Closed),
                Event::KeysChanged { first, .. } => self.rekeys += u32::from(!first),
                Event::Version | Event::ChannelWritable(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends the scripts' messages as far as the windows permit.
    fn play(&mut self, random: &mut Random) {
        if self.open < CHANNELS {
            return;
        }
        let connection = &mut self.worked.connection;
        if self.rekey_one_in > 0 && random.once_in(self.rekey_one_in) {
            connection.rekey(0).unwrap();
        }
        let first = random.below(self.scripts.len());
        for offset in 0..self.scripts.len() {
            let index = (first + offset) % self.scripts.len();
            let id = ChannelId(u32::try_from(index).unwrap());
            let script = &mut self.scripts[index];
            for _ in 0..random.below(4) {
                match script.front_mut() {
                    None => break,
                    Some(Item::Data(data) | Item::Stderr(data)) if data.is_empty() => {
                        script.pop_front();
                    }
                    Some(item @ (Item::Data(_) | Item::Stderr(_))) => {
                        let (data, stream) = match item {
                            Item::Data(data) => (data, Stream::Data),
                            Item::Stderr(data) => (data, Stream::Stderr),
                            _ => unreachable!(),
                        };
                        let sent = connection.channel_send_slice(id, stream, data).unwrap();
                        data.drain(..sent);
                    }
                    Some(Item::Request(command)) => {
                        let command = std::mem::take(command);
                        let request = Request::Exec { command };
                        connection.channel_request(id, &request, true).unwrap();
                        self.asked[index] += 1;
                        script.pop_front();
                    }
                    Some(Item::Eof) => {
                        connection.channel_eof(id).unwrap();
                        script.pop_front();
                    }
                    Some(Item::Closed) => {
                        // After the peer's end and its answers, so that none of them is dropped.
                        if !self.logs[index].contains(&Item::Eof)
                            || self.replies[index].len() < self.asked[index]
                        {
                            break;
                        }
                        connection.channel_close(id).unwrap();
                        script.pop_front();
                    }
                }
            }
        }
    }
}

fn deliver(from: &mut Player, to: &mut Player, random: &mut Random, all: bool) -> bool {
    let sealed = from.worked.transmit();
    let len = match random.below(6) {
        _ if all => from.worked.wire.len(),
        0 => random.below(8),
        1 => random.below(400),
        2..=4 => random.below(40_000),
        _ => usize::MAX,
    };
    // Like a driver: never reads more than the splitter wants.
    let len = if to.worked.connection.wants_input() {
        len.min(from.worked.wire.len()).min(300_000)
    } else {
        0
    };
    let bytes: Vec<u8> = from.worked.wire.drain(..len).collect();
    to.worked.receive(&bytes, all, 0).unwrap();
    to.answer();
    // Messages that the answers permit.
    to.worked.receive(b"", all, 0).unwrap();
    to.answer();
    sealed || len > 0
}

/// The result of a run: logs and replies of both sides, and the number of rekeys.
type Transcript = [(Vec<Vec<Item>>, Vec<Vec<bool>>); 2];

fn run(config: &TransportConfig, seed: u64, schedules: [Schedule; 2]) -> (Transcript, u32, usize) {
    let mut random = Random::new(seed);
    let scripts = |random: &mut Random, closes| -> Vec<VecDeque<Item>> {
        (0..CHANNELS).map(|_| script(random, 12, closes)).collect()
    };
    let up = scripts(&mut random, true);
    let down = scripts(&mut random, false);
    let expected = |scripts: &[VecDeque<Item>]| -> Vec<Vec<Item>> {
        scripts
            .iter()
            .map(|script| {
                let mut log = Vec::new();
                for item in script {
                    note(&mut log, item.clone());
                }
                log
            })
            .collect()
    };
    let (wanted_up, wanted_down) = (expected(&up), expected(&down));
    let (client, server, key) = Pair::new(config.clone(), config.clone()).into_parts();
    let [near, far] = schedules;
    let mut client = Player::new(Worked::new(client, near), None, up);
    let mut server = Player::new(Worked::new(server, far), Some(key), down);
    let mut quiet = 0;
    for round in 0.. {
        assert!(round < 200_000, "no end");
        client.play(&mut random);
        server.play(&mut random);
        // Late in the run nothing is delayed any more.
        let all = quiet > 3;
        let moved = deliver(&mut client, &mut server, &mut random, all)
            | deliver(&mut server, &mut client, &mut random, all);
        let played = client
            .scripts
            .iter()
            .chain(&server.scripts)
            .all(VecDeque::is_empty);
        if played {
            client.rekey_one_in = 0;
            server.rekey_one_in = 0;
        }
        quiet = if moved { 0 } else { quiet + 1 };
        if played && quiet > 20 {
            break;
        }
    }
    // The channel ends on both sides; the server's log has the client's whole script.
    let mut wanted_down = wanted_down;
    for log in &mut wanted_down {
        log.push(Item::Closed);
    }
    assert!(server.logs == wanted_up, "upwards, seed {seed}");
    assert!(client.logs == wanted_down, "downwards, seed {seed}");
    assert_eq!(client.worked.connection.channel_count(), 0);
    assert_eq!(server.worked.connection.channel_count(), 0);
    let rekeys = client.rekeys;
    assert_eq!(rekeys, server.rekeys);
    let most_out = client.worked.most_out.max(server.worked.most_out);
    (
        [(client.logs, client.replies), (server.logs, server.replies)],
        rekeys,
        most_out,
    )
}

fn suites() -> Vec<TransportConfig> {
    let mut list = Vec::new();
    for (cipher, mac) in [
        ("aes128-gcm@openssh.com", "hmac-sha2-256"),
        ("chacha20-poly1305@openssh.com", "hmac-sha2-256"),
        ("aes256-ctr", "hmac-sha2-256"),
        ("aes128-ctr", "umac-64-etm@openssh.com"),
    ] {
        for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
            list.push(TransportConfig {
                kex: vec!["curve25519-sha256".into()],
                ciphers: vec![cipher.into()],
                macs: vec![mac.into()],
                compression: vec![compression.into()],
                ..TransportConfig::default()
            });
        }
    }
    list
}

#[test]
fn random_schedules_deliver_what_a_serial_run_delivers() {
    let mut most_out = 0;
    let mut rekeys = 0;
    for (index, config) in suites().iter().enumerate() {
        for round in 0..4_u64 {
            let seed = 1 + round * 1000 + index as u64;
            let serial = [Schedule::Serial, Schedule::Serial];
            let random = [
                Schedule::Random(Random::new(seed + 77)),
                Schedule::Random(Random::new(seed + 78)),
            ];
            let (serial, _, one) = run(config, seed, serial);
            assert_eq!(one, 1, "a serial run has one job out");
            let (scheduled, changed, out) = run(config, seed, random);
            assert!(serial == scheduled, "seed {seed}");
            most_out = most_out.max(out);
            rekeys += changed;
        }
    }
    assert!(most_out > 5, "only {most_out} packets were open at once");
    assert!(rekeys > 100, "only {rekeys} rekeys");
}

/// The limits, not the test, cause key exchanges at any time.
#[test]
fn rekeys_by_limit_under_random_schedules_lose_nothing() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        for limit in [10_000, 100_000] {
            let config = TransportConfig {
                kex: vec!["curve25519-sha256".into()],
                compression: vec![compression.into()],
                rekey_bytes: Some(limit),
                ..TransportConfig::default()
            };
            let random = [
                Schedule::Random(Random::new(limit)),
                Schedule::Random(Random::new(limit + 1)),
            ];
            let (_, rekeys, _) = run(&config, limit, random);
            assert!(rekeys >= 2, "{rekeys} rekeys at {limit} bytes");
        }
    }
}
