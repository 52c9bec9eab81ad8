//! Fuzz-shaped tests: mutated and random files never panic, and the work they cause stays in proportion.
//!
//! Deterministic (a fixed generator), so a failure repeats. The same bodies serve a coverage-guided fuzzer.

use std::path::Path;

use crate::client::{ClientConfig, CommandLine};
use crate::environment::MemoryFiles;
use crate::server::{ConnectionSpec, ServerArguments, ServerConfig};
use crate::testing::FakeEnvironment;

/// xorshift64*: small, and the same everywhere.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }
}

const SEEDS: &[&str] = &[
    include_str!("../testdata/client/everything.conf"),
    include_str!("../testdata/client/hosts.conf"),
    include_str!("../testdata/client/final.conf"),
    include_str!("../testdata/client/quoting.conf"),
    include_str!("../testdata/client/ignore.conf"),
    include_str!("../testdata/client/jump.conf"),
    include_str!("../testdata/client/modifiers.conf"),
    include_str!("../testdata/server/everything.conf"),
    include_str!("../testdata/server/match.conf"),
];

const PIECES: &[&str] = &[
    "\"",
    "'",
    "\\",
    "#",
    "=",
    "*",
    "?",
    "!",
    ",",
    ":",
    "[",
    "]",
    "/",
    "%",
    "%%",
    "%C",
    "%h",
    "${",
    "${X}",
    "}",
    "~",
    "\0",
    "\r",
    "\n",
    "\t",
    "-",
    "+",
    "^",
    "none",
    "yes",
    "Match ",
    "Host ",
    "Include ",
    "99999999999999999999",
    "é",
    "\u{1b}",
    "@",
    "1h",
    "16G",
];

fn client(bytes: &[u8]) {
    let files = MemoryFiles::default()
        .with("/home/local/.ssh/config", bytes)
        .with("/home/local/.ssh/x", "Port 3\n");
    let config = ClientConfig::standard(Path::new("/home/local")).with_files(files);
    let environment = FakeEnvironment::new().variable("X", "x");
    match config.resolve("web1.example.org", &CommandLine::new(), &environment) {
        Ok(options) => assert!(options.dump().starts_with("host web1.example.org\n")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn server(bytes: &[u8]) {
    let files = MemoryFiles::default().with("/etc/ssh/x", "MaxSessions 3\n");
    match ServerConfig::parse("f", bytes, &files, &ServerArguments::default()) {
        Ok(config) => {
            let spec =
                ConnectionSpec::parse("user=ann,host=h,addr=192.0.2.7,laddr=10.0.0.1,lport=22")
                    .unwrap();
            let options = config.for_connection(&spec);
            let again = ServerConfig::decode(&config.encode()).unwrap();
            assert_eq!(again.for_connection(&spec), options);
            assert!(options.dump().contains("Port "));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn mutate(generator: &mut Generator, seed: &str) -> Vec<u8> {
    let mut bytes = seed.as_bytes().to_vec();
    for _ in 0..=generator.below(6) {
        let at = generator.below(bytes.len());
        match generator.below(5) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = generator.next().to_le_bytes()[0];
                }
            }
            1 => {
                let piece = PIECES[generator.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            2 => {
                let end = (at + generator.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + generator.below(60)).min(bytes.len());
                let copy: Vec<u8> = bytes[at..end].to_vec();
                let to = generator.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

#[test]
fn mutated_files_never_panic() {
    let mut generator = Generator(0x5eed_1234_5678_9abc);
    for round in 0..3000 {
        let bytes = mutate(&mut generator, SEEDS[round % SEEDS.len()]);
        client(&bytes);
        server(&bytes);
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut generator = Generator(0xfeed_0000_0000_0001);
    for _ in 0..2000 {
        let length = generator.below(300);
        let bytes: Vec<u8> = (0..length)
            .map(|_| generator.next().to_le_bytes()[3])
            .collect();
        client(&bytes);
        server(&bytes);
    }
}

#[test]
fn random_values_of_every_keyword_never_panic() {
    let mut generator = Generator(0xabcd_ef01_2345_6789);
    for table in [crate::client::CLIENT_TABLE, crate::server::SERVER_TABLE] {
        for keyword in table.iter() {
            for _ in 0..40 {
                let mut line = format!("{} ", keyword.name);
                for _ in 0..=generator.below(5) {
                    line.push_str(PIECES[generator.below(PIECES.len())]);
                    if generator.below(3) == 0 {
                        line.push(' ');
                    }
                }
                line.push('\n');
                client(line.as_bytes());
                server(line.as_bytes());
            }
        }
    }
}

/// Files of 1 MiB that would take an hour if each word were compared with each other, files were
/// read without limit, or patterns were tried in every way. Asserts that they end with an answer.
#[test]
fn large_files_take_time_in_proportion() {
    let many = |line: &str| line.repeat((1 << 20) / line.len());
    let stars = format!("Host {}b\n", "*a".repeat(2000));
    let patterns = format!("Match host {}\n", "*a,".repeat(2000));
    for text in [
        many("SendEnv A\n"),
        many("IdentityFile ~/x\n"),
        many("LocalForward 1 h:1\n"),
        many("SetEnv A=b C=d\n"),
        many("Match all\n"),
        many("Host *a*a*a*b\n"),
        many(&stars),
        many(&patterns),
        many("Include x\n"),
        many("Include /*/*/*\n"),
        many("AllowUsers a\n"),
        many("Subsystem a b\n"),
        many("Match User a\nMaxSessions 1\n"),
        many("AcceptEnv A B C D\n"),
        many("Frobnicate\n"),
        format!("SetEnv {}\n", "A=b ".repeat(15_000)),
        format!("AuthenticationMethods {}\n", "publickey ".repeat(6000)),
        format!("Ciphers {}\n", "aes128-ctr,".repeat(5900)),
        format!("HostKeyAlgorithms {}\n", "*,".repeat(32_000)),
        "\"".repeat(1 << 20),
        "\n".repeat(1 << 20),
    ] {
        client(text.as_bytes());
        server(text.as_bytes());
    }
}
