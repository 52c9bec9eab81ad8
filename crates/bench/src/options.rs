//! What the command line of `fulmar bench` asks for.

use std::ffi::OsString;
use std::path::PathBuf;

use crypto::cipher::CIPHERS;
use crypto::mac::MACS;
use flags::{CommandLine, Word};

use crate::harness::{Suite, Wishes};

pub(super) const USAGE: &str = "\
usage: fulmar bench [options] [row ...]
rows:
  throughput  bytes through a command, up and down        login     ssh host true
  echo        one byte there and back, also beside bulk   rekey     throughput by RekeyLimit
  compress    throughput with -C                          copy      scp and others, files of every kind
  idle        memory of sessions that wait                taskset   one core for each end
  wan         a long path, between two network namespaces (root)
  forward     connections through -L, -D, -R and Unix sockets; datagrams; -w (root)
  keyscan     host keys of a thousand servers, some of them silent
  agent       signatures, start and memory of agents
  sign        signing and verifying a commit (keygen -Y)
  share       sessions on the connection of a master (ControlMaster)
  each        a command on a thousand hosts, beside pdsh, clush and parallel-ssh
  all         all of them; without a row: throughput login echo
  up, down    throughput in one direction
options:
  --pairs N          measured rounds, after a discarded one (each row has its default)
  --size MIB         bytes of a transfer (512; wan 1536)
  --cipher LIST      default, or CIPHER or CIPHER+MAC, by commas; all: those of the project's table
  --way LIST         pipes (head and cat), own (Fulmar's source and sink, which check the bytes),
                     file (file to file, checked), null (file to /dev/null)
  --pairing LIST     ours-ours, peer-peer, ours-peer, peer-ours
  --peer NAME=DIR    programs of a peer (the OpenSSH and dropbear of this machine)
  --rtt LIST         round-trip times of the wan, copy, echo, forward and share rows, ms (50)
  --rate LIST        rates of the wan and echo rows, Mbit/s; 0: none (0,10000)
  --files N          small files of the copy row (10000)
  --sessions N       sessions of the idle row (20)
  --part LIST        parts of the forward row (all): local, down, dynamic, remote, unix, streams,
                     ping, connections, idle, keystroke, stalls, idle-ping, tunnel, udp,
                     first-byte, far
  --connections N    connections of the forward row: in a round (5000), and idle ones (2000;
                     idle-ping divides more than 4000 among several logins);
                     sessions of a master in the share row (512)
  --logins N         logins per round of the login row with 8 at once (200); limit on the
                     connections per round without a login (100)
  --json             print the results as JSON on standard output
  --html FILE        write the results as one page with charts
";

/// A measurement of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BenchRow {
    Throughput,
    Login,
    Echo,
    Rekey,
    Compress,
    Copy,
    Idle,
    Taskset,
    Wan,
    Forward,
    Keyscan,
    Agent,
    Sign,
    Share,
    Each,
}

impl BenchRow {
    /// In the order in which they run.
    pub(super) const ALL: [Self; 15] = [
        Self::Throughput,
        Self::Login,
        Self::Echo,
        Self::Rekey,
        Self::Compress,
        Self::Copy,
        Self::Idle,
        Self::Taskset,
        Self::Wan,
        Self::Forward,
        Self::Keyscan,
        Self::Agent,
        Self::Sign,
        Self::Share,
        Self::Each,
    ];
    const DEFAULT: [Self; 3] = [Self::Throughput, Self::Login, Self::Echo];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Login => "login",
            Self::Echo => "echo",
            Self::Rekey => "rekey",
            Self::Compress => "compress",
            Self::Copy => "copy",
            Self::Idle => "idle",
            Self::Taskset => "taskset",
            Self::Wan => "wan",
            Self::Forward => "forward",
            Self::Keyscan => "keyscan",
            Self::Agent => "agent",
            Self::Sign => "sign",
            Self::Share => "share",
            Self::Each => "each",
        }
    }
}

/// From where to where bytes go, as seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BenchDirection {
    Up,
    Down,
}

impl BenchDirection {
    pub(super) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Through what bytes come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BenchTransport {
    /// `head -c N /dev/zero` and `cat >/dev/null`.
    Pipes,
    /// Pipes of a source and a sink of ours, which check the bytes.
    Own,
    /// File to file, both in memory, compared.
    File,
    /// File to `/dev/null`.
    Null,
}

impl BenchTransport {
    pub(super) const ALL: [Self; 4] = [Self::Pipes, Self::Own, Self::File, Self::Null];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pipes => "pipes",
            Self::Own => "own",
            Self::File => "file",
            Self::Null => "null",
        }
    }
}

/// Whose client talks to whose server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairing {
    OursOurs,
    PeerPeer,
    OursPeer,
    PeerOurs,
}

impl Pairing {
    /// In the order in which they take their turns.
    pub(super) const ALL: [Self; 4] = [
        Self::OursOurs,
        Self::PeerPeer,
        Self::OursPeer,
        Self::PeerOurs,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OursOurs => "ours-ours",
            Self::PeerPeer => "peer-peer",
            Self::OursPeer => "ours-peer",
            Self::PeerOurs => "peer-ours",
        }
    }
}

/// A cipher and a MAC, or the client's own choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Algorithms {
    /// `default`, or `cipher` or `cipher+mac` by their full names.
    pub(super) name: String,
    pub(super) wishes: Wishes,
}

impl Algorithms {
    /// The suites of the table of figures to reach.
    pub(super) const TABLE: [&'static str; 5] = [
        "default",
        "aes128-gcm",
        "aes128-ctr+umac-64-etm",
        "chacha20-poly1305",
        "aes256-ctr+hmac-sha2-256-etm",
    ];

    /// By a name in which the part from `@` on may be missing.
    pub(super) fn named(text: &str) -> Self {
        if text == "default" {
            return Self {
                name: text.into(),
                wishes: Wishes::default(),
            };
        }
        let (cipher, mac) = match text.split_once('+') {
            Some((cipher, mac)) => (cipher, Some(mac)),
            None => (text, None),
        };
        let cipher = full_name(cipher, CIPHERS.iter().map(|row| row.name));
        let mac = mac.map(|mac| full_name(mac, MACS.iter().map(|row| row.name)));
        Self {
            name: [Some(cipher.clone()), mac.clone()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("+"),
            wishes: Wishes {
                cipher: Some(cipher),
                mac,
                ..Wishes::default()
            },
        }
    }
}

/// The name in the table that `short` abbreviates; `short` itself if there is none, because a peer
/// may know it.
fn full_name(short: &str, mut names: impl Iterator<Item = &'static str>) -> String {
    names
        .find(|name| *name == short || name.split('@').next() == Some(short))
        .unwrap_or(short)
        .to_string()
}

/// A part of the row `forward`; a group of the report each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardPart {
    Local,
    Down,
    Dynamic,
    Remote,
    Unix,
    Streams,
    Ping,
    Connections,
    Idle,
    Keystroke,
    Stalls,
    IdlePing,
    Tunnel,
    Udp,
    FirstByte,
    Far,
}

impl ForwardPart {
    /// In the order in which they run.
    pub(super) const ALL: [Self; 16] = [
        Self::Local,
        Self::Down,
        Self::Dynamic,
        Self::Remote,
        Self::Unix,
        Self::Streams,
        Self::Ping,
        Self::Connections,
        Self::Idle,
        Self::Keystroke,
        Self::Stalls,
        Self::IdlePing,
        Self::Tunnel,
        Self::Udp,
        Self::FirstByte,
        Self::Far,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Down => "down",
            Self::Dynamic => "dynamic",
            Self::Remote => "remote",
            Self::Unix => "unix",
            Self::Streams => "streams",
            Self::Ping => "ping",
            Self::Connections => "connections",
            Self::Idle => "idle",
            Self::Keystroke => "keystroke",
            Self::Stalls => "stalls",
            Self::IdlePing => "idle-ping",
            Self::Tunnel => "tunnel",
            Self::Udp => "udp",
            Self::FirstByte => "first-byte",
            Self::Far => "far",
        }
    }
}

/// The command line, read.
#[derive(Debug)]
pub(super) struct BenchSettings {
    pub(super) rows: Vec<BenchRow>,
    pub(super) directions: Vec<BenchDirection>,
    /// Rounds that count; none where each row has its own number.
    pub(super) pairs: Option<usize>,
    /// MiB of a transfer; none where each row has its own number.
    pub(super) mib: Option<u64>,
    pub(super) algorithms: Vec<Algorithms>,
    pub(super) ways: Vec<BenchTransport>,
    pub(super) pairings: Vec<Pairing>,
    pub(super) peers: Vec<Suite>,
    pub(super) rtts_ms: Vec<u64>,
    pub(super) rates_mbit: Vec<u64>,
    pub(super) sessions: usize,
    /// Small files that are copied.
    pub(super) files: usize,
    /// Logins of a round with many at once.
    pub(super) logins: usize,
    /// Parts of the forward row.
    pub(super) parts: Vec<ForwardPart>,
    /// Connections of the forward row, and most sessions of a master in the share row; none where each part
    /// has its own number.
    pub(super) connections: Option<usize>,
    pub(super) json: bool,
    pub(super) html: Option<PathBuf>,
}

impl Default for BenchSettings {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            directions: Vec::new(),
            pairs: None,
            mib: None,
            algorithms: ["default", "aes128-gcm"].map(Algorithms::named).to_vec(),
            ways: vec![BenchTransport::Pipes],
            pairings: Pairing::ALL.to_vec(),
            peers: Vec::new(),
            rtts_ms: vec![50],
            rates_mbit: vec![0, 10_000],
            sessions: 20,
            files: 10_000,
            logins: 200,
            parts: ForwardPart::ALL.to_vec(),
            connections: None,
            json: false,
            html: None,
        }
    }
}

impl BenchSettings {
    /// MiB of a transfer on this machine.
    pub(super) fn mib(&self) -> u64 {
        self.mib.unwrap_or(512)
    }

    /// Bytes of a transfer on this machine.
    pub(super) fn bytes(&self) -> u64 {
        self.mib() << 20
    }

    /// Rounds that count, for a row whose own number is `usual`.
    pub(super) fn rounds(&self, usual: usize) -> usize {
        self.pairs.unwrap_or(usual)
    }
}

/// Reads the arguments; none when help was asked for.
pub(super) fn parse(args: &[OsString]) -> Result<Option<BenchSettings>, String> {
    let mut settings = BenchSettings::default();
    let mut line = CommandLine::mixed(flags::BENCH, args.to_vec());
    while let Some(word) = line.next()? {
        let text = |value: OsString| {
            let text = value.into_string();
            text.map_err(|_| "an argument is not UTF-8".to_owned())
        };
        match word {
            Word::Flag("h" | "help", _) => return Ok(None),
            Word::Flag(flag, value) => option(&mut settings, flag, &text(value)?)?,
            Word::Operand(word) => operand(&mut settings, &text(word)?)?,
        }
    }
    if settings.directions.is_empty() {
        settings.directions = BenchDirection::BOTH.to_vec();
    } else if settings.rows.is_empty() {
        settings.rows.push(BenchRow::Throughput);
    }
    if settings.rows.is_empty() {
        settings.rows = BenchRow::DEFAULT.to_vec();
    }
    Ok(Some(settings))
}

fn operand(settings: &mut BenchSettings, word: &str) -> Result<(), String> {
    if word == "all" {
        settings.rows = BenchRow::ALL.to_vec();
    } else if let Some(row) = BenchRow::ALL.into_iter().find(|row| row.name() == word) {
        settings.rows.push(row);
    } else if let Some(way) = BenchDirection::BOTH
        .into_iter()
        .find(|way| way.name() == word)
    {
        settings.directions.push(way);
    } else {
        return Err(format!("there is no row {word}"));
    }
    Ok(())
}

fn option(settings: &mut BenchSettings, flag: &str, value: &str) -> Result<(), String> {
    let word = &format!("--{flag}");
    match flag {
        "pairs" => settings.pairs = Some(number(word, value, 1..=10_000)?),
        "size" => settings.mib = Some(number(word, value, 1..=1_048_576)?),
        "logins" => settings.logins = number(word, value, 1..=1_000_000)?,
        "files" => settings.files = number(word, value, 1..=1_000_000)?,
        "sessions" => settings.sessions = number(word, value, 1..=1000)?,
        "connections" => settings.connections = Some(number(word, value, 1..=1_000_000)?),
        "part" => settings.parts = list(word, value, &ForwardPart::ALL, ForwardPart::name)?,
        "cipher" => {
            let names: Vec<&str> = match value {
                "all" => Algorithms::TABLE.to_vec(),
                list => list.split(',').collect(),
            };
            settings.algorithms = names.into_iter().map(Algorithms::named).collect();
        }
        "way" => settings.ways = list(word, value, &BenchTransport::ALL, BenchTransport::name)?,
        "pairing" => {
            settings.pairings = list(word, value, &Pairing::ALL, Pairing::name)?;
        }
        "peer" => {
            let (name, directory) = value
                .split_once('=')
                .ok_or(format!("--peer needs NAME=DIR, not {value}"))?;
            settings.peers.push(Suite::in_directory(name, directory)?);
        }
        "rtt" => settings.rtts_ms = numbers(word, value, 1..=10_000)?,
        "rate" => settings.rates_mbit = numbers(word, value, 0..=1_000_000)?,
        "html" => settings.html = Some(value.into()),
        "json" => settings.json = true,
        other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
    }
    Ok(())
}

fn number<T>(word: &str, text: &str, allowed: std::ops::RangeInclusive<T>) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    text.parse()
        .ok()
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| {
            let (low, high) = (allowed.start(), allowed.end());
            format!("{word} needs a number from {low} to {high}, not {text}")
        })
}

fn numbers(
    word: &str,
    text: &str,
    allowed: std::ops::RangeInclusive<u64>,
) -> Result<Vec<u64>, String> {
    text.split(',')
        .map(|part| number(word, part, allowed.clone()))
        .collect()
}

fn list<T: Copy>(
    word: &str,
    text: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, String> {
    text.split(',')
        .map(|part| {
            all.iter()
                .copied()
                .find(|each| name(*each) == part)
                .ok_or_else(|| {
                    let names: Vec<&str> = all.iter().copied().map(name).collect();
                    format!("{word} needs some of {}, not {part}", names.join(", "))
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Option<BenchSettings>, String> {
        let args: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        parse(&args)
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_by_name() {
        for (words, named) in [
            ("--pairs 0", "--pairs"),
            ("--pairs", "pairs"),
            ("--peer x", "--peer"),
            ("--peer x=/proc/self/fd", "no ssh"),
            ("upwards", "upwards"),
            ("--way pipes,socket", "socket"),
            ("--rtt 50,x", "--rtt"),
            ("--Fast yes", "Fast"),
        ] {
            let why = read(words).unwrap_err();
            assert!(why.contains(named), "{words}: {why}");
        }
        assert!(read("--json --help").unwrap().is_none());
    }

    #[test]
    fn what_is_not_named_is_chosen() {
        let settings = read("").unwrap().unwrap();
        assert_eq!(settings.rows, BenchRow::DEFAULT);
        assert_eq!(settings.directions, BenchDirection::BOTH);
        let settings = read("up --size 7").unwrap().unwrap();
        assert_eq!(
            (settings.mib, &settings.rows[..]),
            (Some(7), &[BenchRow::Throughput][..])
        );
        assert_eq!(settings.directions, [BenchDirection::Up]);
        assert_eq!(read("all").unwrap().unwrap().rows, BenchRow::ALL);
        assert_eq!(settings.rounds(30), 30);
        assert_eq!(read("--pairs 3").unwrap().unwrap().rounds(30), 3);
    }

    #[test]
    fn algorithms_may_be_named_in_short() {
        let settings = read("--cipher default,aes128-ctr+umac-64-etm,3des-cbc")
            .unwrap()
            .unwrap();
        let names: Vec<&str> = settings
            .algorithms
            .iter()
            .map(|each| each.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["default", "aes128-ctr+umac-64-etm@openssh.com", "3des-cbc"]
        );
        let wishes = &settings.algorithms[1].wishes;
        assert_eq!(wishes.mac.as_deref(), Some("umac-64-etm@openssh.com"));
    }
}
