//! The packets of one channel reveal nothing about another channel's data, whatever the method, the
//! direction and the compressing thread. The lengths are those on the wire.

use proto::{ChannelId, Event, Stream, TransportConfig};
use sim::{Pair, Side};

const METHODS: [&str; 2] = ["zlib@openssh.com", "zstd2@fulmar.invalid"];
const SECRET: &[u8] = b"session=8d1f0a77c3e94b62a5507e16f2bb930c; path=/";
const OTHER: &[u8] = b"session=b3096c5ea24d71f80e9c43a7d6158f2b; path=/";

/// How payloads are compressed.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    InPlace,
    /// By jobs, as on other threads.
    Jobs,
}

struct Bed {
    pair: Pair,
    /// The server sends, not the client.
    down: bool,
    work: Work,
}

impl Bed {
    fn new(method: &str, down: bool, work: Work) -> Self {
        Self::with_cipher(method, "chacha20-poly1305@openssh.com", down, work)
    }

    fn with_cipher(method: &str, cipher: &str, down: bool, work: Work) -> Self {
        let config = TransportConfig {
            compression: vec![method.into()],
            ciphers: vec![cipher.into()],
            ..TransportConfig::default()
        };
        let mut pair = Pair::new(config.clone(), config);
        pair.login(usize::MAX).unwrap();
        Self { pair, down, work }
    }

    fn sender(&mut self) -> &mut Side {
        if self.down {
            &mut self.pair.server
        } else {
            &mut self.pair.client
        }
    }

    /// Sends `data` on the channels, all queued at once; returns the bytes on the wire.
    fn say(&mut self, all: &[(ChannelId, &[u8])]) -> usize {
        let work = self.work;
        let side = self.sender();
        for (id, data) in all {
            let sent = side.connection.channel_send_slice(*id, Stream::Data, data);
            assert_eq!(sent.unwrap(), data.len());
        }
        if work == Work::Jobs {
            while let Some(job) = side.connection.poll_compress(4, 1) {
                side.connection.handle_compressed(job.run()).unwrap();
            }
        }
        side.transmit();
        let bytes = side.wire.len();
        self.pair.settle(usize::MAX).unwrap();
        let side = if self.down {
            &mut self.pair.client
        } else {
            &mut self.pair.server
        };
        let mut got = Vec::new();
        for event in std::mem::take(&mut side.events) {
            if let Event::ChannelData { channel, data, .. } = event {
                side.connection
                    .channel_consumed(channel, data.len())
                    .unwrap();
                got.push((channel, data.to_vec()));
            }
        }
        let expected: Vec<_> = all.iter().map(|(id, data)| (*id, data.to_vec())).collect();
        assert!(got == expected, "the data have changed");
        self.pair.settle(usize::MAX).unwrap();
        bytes
    }

    fn close(&mut self, id: ChannelId) {
        self.pair.client.connection.channel_close(id).unwrap();
        self.pair.settle(usize::MAX).unwrap();
        self.pair.client.events.clear();
        self.pair.server.events.clear();
        assert!(!self.pair.client.connection.has_channel(id));
    }
}

fn beds() -> impl Iterator<Item = (String, Box<dyn Fn() -> Bed>)> {
    METHODS.iter().flat_map(|method| {
        [false, true].into_iter().flat_map(move |down| {
            [Work::InPlace, Work::Jobs].into_iter().map(move |work| {
                let jobs = work == Work::Jobs;
                let name = format!("{method}, down {down}, jobs {jobs}");
                let make: Box<dyn Fn() -> Bed> = Box::new(move || Bed::new(method, down, work));
                (name, make)
            })
        })
    })
}

#[test]
fn within_one_channel_a_right_guess_is_shorter() {
    for (name, make) in beds() {
        let of = |guess: &[u8]| {
            let mut bed = make();
            let id = bed.pair.open_session().unwrap();
            bed.say(&[(id, SECRET)]);
            bed.say(&[(id, guess)])
        };
        assert!(
            of(SECRET) + 16 <= of(OTHER),
            "{name}: the harness sees no leak"
        );
    }
}

#[test]
fn beside_another_channel_it_is_not() {
    for (name, make) in beds() {
        let of = |secret: &[u8]| {
            let mut bed = make();
            let mine = bed.pair.open_session().unwrap();
            let theirs = bed.pair.open_session().unwrap();
            let bulk = SECRET.repeat(300);
            vec![
                bed.say(&[(theirs, secret)]),
                bed.say(&[(mine, SECRET)]),
                bed.say(&[(theirs, secret), (mine, SECRET), (theirs, secret)]),
                bed.say(&[(mine, &bulk), (theirs, &secret.repeat(300)), (mine, SECRET)]),
                bed.say(&[(mine, OTHER)]),
            ]
        };
        assert_eq!(of(SECRET), of(OTHER), "{name}");
    }
}

/// A channel with the number of an ended channel is another channel.
#[test]
fn after_another_channel_under_the_same_number_it_is_not_either() {
    for (name, make) in beds() {
        let of = |secret: &[u8]| {
            let mut bed = make();
            let theirs = bed.pair.open_session().unwrap();
            bed.say(&[(theirs, secret)]);
            bed.close(theirs);
            let mine = bed.pair.open_session().unwrap();
            assert_eq!(mine, theirs, "the number is given out again");
            [bed.say(&[(mine, SECRET)]), bed.say(&[(mine, OTHER)])]
        };
        assert_eq!(of(SECRET), of(OTHER), "{name}");
    }
}

/// Small packets of one channel between bulk data of another do not prevent runs.
#[test]
fn bulk_beside_small_packets_is_compressed_by_jobs() {
    let mut bed = Bed::new("zlib@openssh.com", false, Work::Jobs);
    let bulk = bed.pair.open_session().unwrap();
    let shell = bed.pair.open_session().unwrap();
    let line = SECRET.repeat(600);
    let connection = &mut bed.pair.client.connection;
    for (id, data) in [
        (shell, SECRET),
        (bulk, &line),
        (bulk, &line),
        (shell, SECRET),
        (bulk, &line),
        (shell, SECRET),
        (shell, SECRET),
        (bulk, &line),
        (bulk, &line),
        (bulk, &line),
    ] {
        connection
            .channel_send_slice(id, Stream::Data, data)
            .unwrap();
    }
    let mut runs = Vec::new();
    while let Some(job) = connection.poll_compress(4, 64 * 1024) {
        runs.push(job.bytes() / line.len());
        connection.handle_compressed(job.run()).unwrap();
    }
    assert_eq!(runs, [2, 1, 3]);
    bed.pair.settle(usize::MAX).unwrap();
    let mut got = 0;
    for event in &bed.pair.server.events {
        if let Event::ChannelData { data, .. } = event {
            got += data.len();
        }
    }
    assert_eq!(got, 6 * line.len() + 4 * SECRET.len());
}

/// Pings imitate keystrokes, and pongs echoes: with `-C` too they have the same length on the wire,
/// with one channel and with two.
#[test]
fn pings_are_as_long_as_keystrokes() {
    for method in METHODS {
        for cipher in ["chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com"] {
            for channels in [1, 2] {
                let mut bed = Bed::with_cipher(method, cipher, false, Work::InPlace);
                let shell = bed.pair.open_session().unwrap();
                if channels > 1 {
                    let other = bed.pair.open_session().unwrap();
                    bed.say(&[(other, SECRET)]);
                }
                let (mut keys, mut pings) = (Vec::new(), Vec::new());
                for key in b"ls -l | grep what was typed" {
                    keys.push(bed.say(&[(shell, &[*key])]));
                    let client = &mut bed.pair.client;
                    assert!(client.connection.send_ping(b"ping!").unwrap());
                    client.transmit();
                    pings.push(client.wire.len());
                    bed.pair.settle(usize::MAX).unwrap();
                }
                // The first packet has no history.
                assert_eq!(
                    keys[3..],
                    pings[3..],
                    "{method}, {cipher}, {channels} channels"
                );
            }
        }
    }
}
