//! `wan`: one stream over a long path, between two networks of this machine that a delay line
//! joins; and how many round trips a login takes.

mod line;

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sys::tun::{Interface, Tun};

use super::figures::{BenchGroup, Emit, Per, Unit};
use super::login::{COLD, Manner, visits};
use super::options::{Algorithms, BenchDirection, BenchRow, BenchTransport};
use super::rounds::{Bench, Miss, Sample};
use super::transfer::{self, Chain, Transfer, TransferFiles};
use super::words::StderrReader;
use crate::harness::{Harness, ServerHost, SuiteKind};
use line::{DelayLine, Path};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// MiB of a stream when the command line says nothing: a window has to have time to open.
const MIB: u64 = 1536;
/// What streams that end at a peer get of it: its window is the same from the first second on,
/// and small; dropbear's is 24 KiB.
const PEERS_SHARE: u64 = 4;
const DROPBEARS_SHARE: u64 = 256;
/// The two ends.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 2);
/// The devices' name, each in a network of its own.
const DEVICE: &str = "line";
/// Most bytes that TCP may buffer in these networks.
const TCP_BUFFER_BYTES: u64 = 128 << 20;

/// Two networks and the line between them.
#[derive(Debug)]
pub(super) struct World {
    pub(super) near: ServerHost,
    pub(super) far: ServerHost,
    line: DelayLine,
}

fn explain(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "two network namespaces and a line between them need root".into()
        }
        _ => error.to_string(),
    }
}

impl World {
    /// With a line that is short.
    pub(super) fn begin() -> Result<Self, String> {
        let first = Path {
            rtt: Duration::from_millis(1),
            bits_per_second: 0,
        };
        Self::new(first).map_err(explain)
    }

    /// Makes the line as long as that, with this rate, Mbit/s, or none; gives the round-trip time
    /// that a connection sees.
    pub(super) fn set(&self, rtt_ms: u64, mbit: u64) -> Result<Duration, String> {
        self.line.set(Path {
            rtt: Duration::from_millis(rtt_ms),
            bits_per_second: mbit * 1_000_000,
        });
        self.round_trip().map_err(explain)
    }

    fn new(path: Path) -> io::Result<Self> {
        let (near, one) = ServerHost::prepared(IpAddr::V4(NEAR), || network(NEAR))?;
        let (far, other) = ServerHost::with_account(IpAddr::V4(FAR), || network(FAR))?;
        let line = DelayLine::start(one, other, path)?;
        Ok(Self { near, far, line })
    }

    /// The round-trip time that a connection sees, the least of five.
    fn round_trip(&self) -> io::Result<Duration> {
        let listener = self.far.run(|| TcpListener::bind((FAR, 0)))??;
        let address = listener.local_addr()?;
        let mut least = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            let stream = self.near.run(move || TcpStream::connect(address))??;
            least = least.min(begun.elapsed());
            drop(stream);
        }
        Ok(least)
    }
}

/// Puts this thread into a network of its own with one device at `address`.
fn network(address: Ipv4Addr) -> io::Result<Tun> {
    sys::namespace::unshare_network()?;
    sys::tun::bring_up("lo")?;
    let tun = Tun::new(DEVICE)?;
    sys::tun::configure(
        DEVICE,
        &Interface {
            address,
            prefix_len: 24,
            mtu_bytes: 1500,
            queue_packets: 10_000,
        },
    )?;
    for (name, value) in [
        ("tcp_rmem", format!("4096 131072 {TCP_BUFFER_BYTES}")),
        ("tcp_wmem", format!("4096 16384 {TCP_BUFFER_BYTES}")),
        // Clients and servers; who asks for it gets it.
        ("tcp_fastopen", "3".to_owned()),
    ] {
        // These belong to the network of the thread that opens them.
        std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?;
    }
    Ok(tun)
}

/// Measures every round-trip time and rate that was asked for.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let world = World::begin()?;
    let mut harnesses = bench.harnesses(&world.far, "MaxStartups 1000");
    let files = TransferFiles::new().map_err(explain)?;
    for rtt_ms in &bench.settings.rtts_ms {
        for mbit in &bench.settings.rates_mbit {
            let seen = world.set(*rtt_ms, *mbit)?;
            for algorithms in &bench.settings.algorithms {
                for direction in &bench.settings.directions {
                    let rate = match mbit {
                        0 => "no rate".to_string(),
                        mbit => format!("{mbit} Mbit/s"),
                    };
                    let title = format!(
                        "{rtt_ms} ms, {rate}, {}, {}",
                        algorithms.name,
                        direction.name()
                    );
                    let note = format!(
                        "head | ssh host cat; round-trip time seen: {:.1} ms",
                        seen.as_secs_f64() * 1e3
                    );
                    let stand = (&world, &mut harnesses[..], &files);
                    emit(streams(bench, stand, (algorithms, *direction), title, note));
                }
            }
        }
    }
    emit(logins(bench, &world)?);
    Ok(())
}

fn streams(
    bench: &Bench,
    (world, harnesses, files): (&World, &mut [Result<Harness, String>], &TransferFiles),
    (algorithms, direction): (&Algorithms, BenchDirection),
    title: String,
    note: String,
) -> BenchGroup {
    let (chains, entries) = bench.chains_and_tcp();
    let mib = bench.settings.mib.unwrap_or(MIB);
    let group = BenchGroup {
        row: BenchRow::Wan.name(),
        title,
        unit: Unit::MibPerSecond,
        per: Per::Gib,
        entries,
        notes: vec![format!(
            "{note}; {mib} MiB, where OpenSSH receives {} MiB, dropbear {} MiB",
            mib / PEERS_SHARE,
            mib / DROPBEARS_SHARE
        )],
    };
    bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let ends = chains.get(index).copied().flatten();
        let receiver = ends.map(|ends| match direction {
            BenchDirection::Up => ends.server,
            BenchDirection::Down => ends.client,
        });
        let receiver = receiver.and_then(|index| bench.suites.get(index));
        let mib = match receiver.map(|suite| suite.kind) {
            None | Some(SuiteKind::Ours) => mib,
            Some(SuiteKind::OpenSsh) => (mib / PEERS_SHARE).max(1),
            Some(SuiteKind::Dropbear) => (mib / DROPBEARS_SHARE).max(1),
        };
        let transfer = Transfer {
            way: BenchTransport::Pipes,
            direction,
            bytes: mib << 20,
            files,
        };
        let mut chain = match ends {
            None => Chain::Plain { server: &world.far },
            Some(ends) => Chain::Ssh {
                harness: harnesses
                    .get_mut(ends.server)
                    .ok_or("no such server")?
                    .as_mut()
                    .map_err(|why| why.clone())?,
                suite: bench.suites.get(ends.client).ok_or("no such suite")?,
                wishes: &algorithms.wishes,
            },
        };
        transfer::run(&transfer, &mut chain, &world.near).map(|(sample, _)| sample)
    })
}

/// How many round trips lie between the client's start and its exit: what a login takes longer
/// over a longer path, divided by how much longer that is.
fn logins(bench: &Bench, world: &World) -> Result<BenchGroup, String> {
    /// Round-trip times that are compared.
    const RTTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
    /// With the cookie of a connection before, as the second round has it.
    const FAST_OPEN: Manner = ("fast open", &["-oTCPFastOpen=yes"]);
    let (visits, entries) = visits(bench, &[COLD, FAST_OPEN]);
    let mut harnesses = bench.harnesses(&world.far, "MaxStartups 1000");
    let group = BenchGroup {
        row: BenchRow::Wan.name(),
        title: "round trips of ssh host true".into(),
        unit: Unit::RoundTrips,
        per: Per::Login,
        entries,
        notes: vec![
            format!(
                "slope of the time over round-trip times of {} and {} ms, the handshake of TCP included",
                RTTS[0].as_millis(),
                RTTS[1].as_millis()
            ),
            "cold: without the cached server profile (LoginCache no)".into(),
            "fast open: TCPFastOpen yes; servers without it are connected as usual".into(),
        ],
    };
    Ok(
        bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
            let visit = visits.get(index).ok_or("no such chain")?;
            let ends = visit.chain;
            let harness = harnesses.get_mut(ends.server).ok_or("no such server")?;
            let harness = harness.as_mut().map_err(|why| why.clone())?;
            harness.serve()?;
            let mut seconds = [0.0; 2];
            for (rtt, seconds) in RTTS.iter().zip(&mut seconds) {
                world.line.set(Path {
                    rtt: *rtt,
                    bits_per_second: 0,
                });
                let suite = bench.suites.get(ends.client).ok_or("no such suite")?;
                *seconds = login(&world.near, harness.client(suite, visit.options, "true"))?;
            }
            let value = (seconds[1] - seconds[0]) / (RTTS[1] - RTTS[0]).as_secs_f64();
            Ok(Sample { value, cpu: None })
        }),
    )
}

/// Seconds from a client's start to its exit.
fn login(near: &ServerHost, mut client: std::process::Command) -> Result<f64, Miss> {
    client
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = near.spawn(client)?;
    let words = StderrReader::listen(child.stderr.take().ok_or("no pipe")?);
    let status = child.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    match status.success() {
        true => Ok(seconds),
        false => Err(words.all().complaint(&status.to_string()).into()),
    }
}
