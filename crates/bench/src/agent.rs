//! `agent`: signatures, start and memory of agents.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::agent::{AddRequest, AgentClient, Constraints, SignFlags};
use keys::private_file::HeldKey;
use keys::{KeySpec, PrivateKey, PublicKey};
use sys::signals::Signal;

use super::figures::{BenchEntry, BenchGroup, Emit, Per, Unit};
use super::idle::proportional_kib;
use super::options::BenchRow;
use super::rounds::{Bench, Miss, Sample};
use super::stats;
use crate::harness::{Suite, Tree};

/// Default number of rounds.
const ROUNDS: usize = 5;
/// Signatures of a round, one after the other.
const SERIAL: usize = 4000;
/// Pipelined Ed25519 signatures of a round.
const PIPELINED: usize = 20_000;
/// Pipelined RSA signatures of a round.
const PIPELINED_RSA: usize = 1000;
/// Requests of the pipeline without an answer.
const DEPTH: usize = 64;
/// Keys in the agent whose memory is measured.
const KEYS: u8 = 20;
/// Touches of a round, and the time that each takes to come.
const TOUCHES: usize = 50;
const TOUCH_MS: u64 = 40;
/// Signatures of others while a touch is awaited.
const BESIDE_TOUCH: usize = 40;
/// A provider library (sk-api.h, version 10) whose only token is touched after [`TOUCH_MS`].
const TOKEN: &str = include_str!("token.c");
/// Length of the signed data in bytes: that of a login.
const DATA_BYTES: usize = 250;
/// Limit on the time of a start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time until an agent is idle.
const REST: Duration = Duration::from_millis(1500);

/// A group of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentPart {
    Serial,
    Latency,
    Slowest,
    BesideTouch,
    Pipelined,
    PipelinedRsa,
    Start,
    Memory,
}

impl AgentPart {
    const ALL: [Self; 8] = [
        Self::Serial,
        Self::Latency,
        Self::Slowest,
        Self::BesideTouch,
        Self::Pipelined,
        Self::PipelinedRsa,
        Self::Start,
        Self::Memory,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Serial => "Ed25519 signatures, one after the other",
            Self::Latency => "an Ed25519 signature, median",
            Self::Slowest => "an Ed25519 signature, 99th of 100",
            Self::BesideTouch => "the same while another key waits for a touch",
            Self::Pipelined => "Ed25519 signatures, 64 at once on one connection",
            Self::PipelinedRsa => "RSA-3072 signatures, 64 at once on one connection",
            Self::Start => "from the start to the first accepted client",
            Self::Memory => "memory with 20 keys, idle",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Serial | Self::Pipelined | Self::PipelinedRsa => Unit::PerSecond,
            Self::Latency | Self::Slowest | Self::BesideTouch => Unit::Microseconds,
            Self::Start => Unit::Milliseconds,
            Self::Memory => Unit::Kib,
        }
    }
}

/// Measures the agent of each suite that has one.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 3072 }).map_err(|why| why.to_string())?;
    for part in AgentPart::ALL {
        let (suites, entries): (Vec<usize>, Vec<BenchEntry>) = bench.served().into_iter().unzip();
        let notes = match part {
            AgentPart::Start => vec!["the program stays in the foreground".to_owned()],
            AgentPart::Memory => vec!["PSS of the agent's processes".to_owned()],
            AgentPart::BesideTouch => vec![format!(
                "{TOUCHES} touches after {TOUCH_MS} ms each, {BESIDE_TOUCH} signatures of others meanwhile"
            )],
            _ => vec![format!("{DATA_BYTES} bytes of data each")],
        };
        let group = BenchGroup {
            row: BenchRow::Agent.name(),
            title: part.title().into(),
            unit: part.unit(),
            per: Per::RoundTrip,
            entries,
            notes,
        };
        emit(
            bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
                let suite = suites.get(index).and_then(|index| bench.suites.get(*index));
                let value = figure(part, suite.ok_or("no such suite")?, &rsa)?;
                Ok(Sample { value, cpu: None })
            }),
        );
    }
    Ok(())
}

fn figure(part: AgentPart, suite: &Suite, rsa: &PrivateKey) -> Result<f64, Miss> {
    let start = Instant::now();
    let agent = RunningAgent::start(suite)?;
    if part == AgentPart::BesideTouch {
        return beside_touch(&agent);
    }
    let mut client = AgentClient::new(agent.connect()?);
    if part == AgentPart::Start {
        return Ok(start.elapsed().as_secs_f64() * 1e3);
    }
    let count = if part == AgentPart::Memory { KEYS } else { 1 };
    let made = (1..=count).map(|seed| PrivateKey::from_ed25519_seed(&[seed; 32]));
    let mut held: Vec<PrivateKey> = made.collect();
    if part == AgentPart::PipelinedRsa {
        held = vec![rsa.clone()];
    }
    let blob = held
        .first()
        .map(|key| key.public().blob())
        .unwrap_or_default();
    for key in held {
        add(&mut client, key, Constraints::default())?;
    }
    match part {
        AgentPart::Serial | AgentPart::Latency | AgentPart::Slowest => {
            serial(part, &mut client, &blob)
        }
        AgentPart::Pipelined => pipelined(&agent, &blob, PIPELINED, SignFlags::NONE),
        AgentPart::PipelinedRsa => pipelined(&agent, &blob, PIPELINED_RSA, SignFlags::RSA_SHA2_512),
        AgentPart::Start | AgentPart::BesideTouch | AgentPart::Memory => {
            drop(client);
            std::thread::sleep(REST);
            agent.memory()
        }
    }
}

fn add(
    client: &mut AgentClient<UnixStream>,
    key: PrivateKey,
    constraints: Constraints,
) -> Result<(), Miss> {
    let request = AddRequest {
        key: HeldKey {
            key,
            certificate: None,
        },
        comment: "bench".to_owned(),
        constraints,
    };
    Ok(client.add(&request).map_err(|why| why.to_string())?)
}

/// The 99th of 100 signatures of one client, in µs, while the key of another waits for its touch, again
/// and again: a library takes the place of a token.
fn beside_touch(agent: &RunningAgent) -> Result<f64, Miss> {
    let provider = agent.token()?;
    let mut waiting = AgentClient::new(agent.connect()?);
    let mut other = AgentClient::new(agent.connect()?);
    let public = PublicKey::SkEd25519 {
        point: [7; 32],
        application: b"ssh:".to_vec(),
    };
    let touched =
        PrivateKey::of_security_key(public, 0, b"bench").map_err(|why| why.to_string())?;
    let plain = PrivateKey::from_ed25519_seed(&[1; 32]);
    let [touched_blob, plain_blob] = [&touched, &plain].map(|key| key.public().blob());
    let constraints = Constraints {
        provider: Some(provider),
        ..Constraints::default()
    };
    add(&mut waiting, touched, constraints)?;
    add(&mut other, plain, Constraints::default())?;
    let data = [7; DATA_BYTES];
    let mut times = Vec::new();
    for _ in 0..TOUCHES {
        let touching = std::thread::scope(|scope| {
            let touch = scope.spawn(|| waiting.sign(&touched_blob, &data, SignFlags::NONE));
            // The request is under way.
            std::thread::sleep(Duration::from_millis(TOUCH_MS / 4));
            for _ in 0..BESIDE_TOUCH {
                let before = Instant::now();
                let signed = other.sign(&plain_blob, &data, SignFlags::NONE);
                times.push(before.elapsed().as_secs_f64() * 1e6);
                signed.map_err(|why| why.to_string())?;
            }
            let panicked = || Err("the client's thread panicked".to_owned());
            touch.join().map_or_else(
                |_| panicked(),
                |signed| signed.map(|_| ()).map_err(|why| why.to_string()),
            )
        });
        touching?;
    }
    Ok(stats::quantile(&times, 0.99))
}

fn serial(part: AgentPart, client: &mut AgentClient<UnixStream>, blob: &[u8]) -> Result<f64, Miss> {
    let mut times = Vec::with_capacity(SERIAL);
    let start = Instant::now();
    for _ in 0..SERIAL {
        let before = Instant::now();
        client
            .sign(blob, &[7; DATA_BYTES], SignFlags::NONE)
            .map_err(|why| why.to_string())?;
        times.push(before.elapsed().as_secs_f64() * 1e6);
    }
    #[allow(clippy::cast_precision_loss)]
    let per_second = SERIAL as f64 / start.elapsed().as_secs_f64();
    Ok(match part {
        AgentPart::Latency => stats::median(&times),
        AgentPart::Slowest => stats::quantile(&times, 0.99),
        _ => per_second,
    })
}

/// Signatures per second with [`DEPTH`] requests under way.
fn pipelined(
    agent: &RunningAgent,
    blob: &[u8],
    count: usize,
    flags: SignFlags,
) -> Result<f64, Miss> {
    use std::io::{Read, Write};
    let request = ::agent::message::sign_request(blob, &[7; DATA_BYTES], flags)
        .map_err(|why| why.to_string())?;
    let mut stream = agent.connect()?;
    let mut buffer = vec![0; 64 * 1024];
    let (mut sent, mut got) = (0, 0);
    let mut rest: Vec<u8> = Vec::new();
    let start = Instant::now();
    while got < count {
        let more = DEPTH.min(count - got).saturating_sub(sent - got);
        if more > 0 {
            stream.write_all(&request.repeat(more))?;
            sent += more;
        }
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err("the agent has closed the connection".into());
        }
        rest.extend_from_slice(buffer.get(..length).unwrap_or_default());
        let mut at = 0;
        while let Some((length, body)) = rest.get(at..).and_then(<[u8]>::split_first_chunk::<4>) {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if body.len() < length {
                break;
            }
            if body.first() != Some(&::agent::message::SIGN_RESPONSE) {
                return Err("the agent has refused a signature".into());
            }
            at += 4 + length;
            got += 1;
        }
        rest.drain(..at);
    }
    #[allow(clippy::cast_precision_loss)]
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// An agent in the foreground, ended on drop.
struct RunningAgent {
    process: Child,
    folder: PathBuf,
}

impl RunningAgent {
    fn start(suite: &Suite) -> Result<Self, Miss> {
        let mut command = suite.agent().map_err(Miss::Absent)?;
        let letters: [u8; 8] = crypto::random::bytes();
        let name = format!("fulmar-bench-agent-{:016x}", u64::from_be_bytes(letters));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        command.args(["-D", "-a"]).arg(folder.join("socket"));
        command.arg("-P").arg(folder.join("*"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self {
            process: command.spawn()?,
            folder,
        })
    }

    fn connect(&self) -> Result<UnixStream, Miss> {
        let start = Instant::now();
        loop {
            match UnixStream::connect(self.folder.join("socket")) {
                Ok(stream) => return Ok(stream),
                Err(error) if start.elapsed() > START_LIMIT => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Builds the library with the C compiler of this machine; its path.
    fn token(&self) -> Result<String, Miss> {
        let (source, library) = (self.folder.join("token.c"), self.folder.join("token.so"));
        std::fs::write(&source, TOKEN)?;
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(format!("-DTOUCH_MS={TOUCH_MS}"))
            .arg(&source)
            .stdin(Stdio::null())
            .output();
        match built {
            Ok(output) if output.status.success() => Ok(library.display().to_string()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
            Err(error) => Err(Miss::Absent(format!("no C compiler for a token: {error}"))),
        }
    }

    fn memory(&self) -> Result<f64, Miss> {
        let mut total = proportional_kib(self.process.id())?;
        for pid in Tree::of(self.process.id()).below() {
            total += proportional_kib(*pid)?;
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(total as f64)
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.process.id()) {
            let _ = sys::signals::send(pid, Signal::TERM);
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
