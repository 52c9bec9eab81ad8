//! `udp`: datagrams through `-L udp/…` to a target that returns each.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::tunnel::{Tunnel, TunnelEntry, free_address};
use super::{Column, ForwardPart, ForwardStand, by_turns, empty_group, stats, sum};
use crate::figures::{BenchEntry, BenchGroup, EntryKind};
use crate::harness::{ServerHost, SuiteKind};
use crate::rounds::{Ends, Miss, Sample};

/// Bytes of a datagram.
const DATAGRAM_BYTES: usize = 64;
/// Round trips of a round, after as many of a tenth that do not count.
const TRIPS: usize = 4000;
/// Datagrams without an answer, at most, and datagrams of a round, where the rate is measured.
const OUTSTANDING: usize = 64;
const DATAGRAMS: usize = 20_000;
/// Time after which a datagram counts as lost.
const LOST: Duration = Duration::from_millis(500);
/// The same while the entry may not listen yet.
const PROBE: Duration = Duration::from_millis(20);
/// Time between two looks of the target whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The sentence below the table.
pub(super) fn note() -> String {
    format!(
        "{DATAGRAM_BYTES} bytes; {TRIPS} round trips a round, of which the median; a second: each way, of {DATAGRAMS} with {OUTSTANDING} outstanding; lost: of all rounds"
    )
}

impl ForwardStand<'_> {
    /// Measures the chains of ours, and datagrams without a forward.
    pub(super) fn datagrams(&mut self) -> BenchGroup {
        let bench = self.bench;
        let chains = bench.chains().into_iter();
        let (mut chains, mut entries): (Vec<Option<Ends>>, Vec<BenchEntry>) =
            chains.map(|(ends, entry)| (Some(ends), entry)).unzip();
        chains.push(None);
        entries.push(BenchEntry::new("no forward", EntryKind::Limit));
        let group = empty_group(bench, ForwardPart::Udp, entries);
        by_turns(bench, ForwardPart::Udp, group, |index| {
            let target = EchoTarget::start(&self.far)?;
            let Some(ends) = *chains.get(index).ok_or("no such chain")? else {
                return Ok(load(target.address)?);
            };
            let (tunnel, entry) = self.datagram_tunnel(ends, target.address)?;
            let loaded = load(entry);
            let (_, words) = tunnel.end()?;
            self.harness(ends.server)?.stop()?;
            loaded.map_err(|error| {
                let words = words.map(|words| format!(": {words}")).unwrap_or_default();
                Miss::Failed(format!("{error}{words}"))
            })
        })
    }

    fn datagram_tunnel(
        &mut self,
        ends: Ends,
        target: SocketAddr,
    ) -> Result<(Tunnel, SocketAddr), Miss> {
        for suite in [ends.client, ends.server] {
            let suite = self.bench.suites.get(suite).ok_or("no such suite")?;
            if suite.kind != SuiteKind::Ours {
                return Err(Miss::Absent(format!(
                    "{} forwards no datagrams",
                    suite.name
                )));
            }
        }
        let near = self.near.clone();
        let address = free_address(&near)?;
        let options = [
            "-L".to_owned(),
            format!("udp/{}:{}:{target}", address.ip(), address.port()),
        ];
        let suite = self.bench.suites.get(ends.client).ok_or("no such suite")?;
        let harness = self.harness(ends.server)?;
        let tunnel = Tunnel::client(
            (suite, harness),
            &near,
            (&options, false),
            (TunnelEntry::Tcp(address), move |_| answers(address)),
        )?;
        Ok((tunnel, address))
    }
}

/// A socket that returns each datagram; dropping it ends it.
struct EchoTarget {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EchoTarget {
    fn start(host: &ServerHost) -> io::Result<Self> {
        let any = SocketAddr::new(host.address(), 0);
        let socket = host.run(move || UdpSocket::bind(any))??;
        socket.set_read_timeout(Some(LOOK))?;
        let address = socket.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let serve = move || {
            let mut bytes = [0; 2048];
            while !ended.load(Relaxed) {
                if let Ok((count, peer)) = socket.recv_from(&mut bytes) {
                    // What the socket does not take is lost, which the load counts.
                    let _ = socket.send_to(bytes.get(..count).unwrap_or_default(), peer);
                }
            }
        };
        Ok(Self {
            address,
            ends,
            thread: Some(thread::Builder::new().name("echo".into()).spawn(serve)?),
        })
    }
}

impl Drop for EchoTarget {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connected(to: SocketAddr, limit: Duration) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((to.ip(), 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(limit))?;
    Ok(socket)
}

/// Whether a datagram comes back.
fn answers(entry: SocketAddr) -> bool {
    let exchange = || {
        let socket = connected(entry, PROBE)?;
        socket.send(&[0; DATAGRAM_BYTES])?;
        socket.recv(&mut [0; DATAGRAM_BYTES])
    };
    exchange().is_ok_and(|count| count == DATAGRAM_BYTES)
}

/// False if the datagram was lost.
fn came(socket: &UdpSocket) -> io::Result<bool> {
    match socket.recv(&mut [0; DATAGRAM_BYTES]) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn load(entry: SocketAddr) -> io::Result<(Sample, Vec<Column>)> {
    let socket = connected(entry, LOST)?;
    let (mut times, mut lost) = (Vec::with_capacity(TRIPS), 0);
    for trip in 0..TRIPS + TRIPS / 10 {
        let begun = Instant::now();
        socket.send(&[0; DATAGRAM_BYTES])?;
        match came(&socket)? {
            true if trip >= TRIPS / 10 => times.push(begun.elapsed().as_secs_f64() * 1e6),
            true => {}
            false => lost += 1,
        }
    }
    let (mut sent, mut outstanding, mut returned) = (0, 0, 0);
    let begun = Instant::now();
    while sent < DATAGRAMS || outstanding > 0 {
        while sent < DATAGRAMS && outstanding < OUTSTANDING {
            socket.send(&[0; DATAGRAM_BYTES])?;
            (sent, outstanding) = (sent + 1, outstanding + 1);
        }
        if came(&socket)? {
            (outstanding, returned) = (outstanding - 1, returned + 1);
        } else {
            lost += outstanding;
            outstanding = 0;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let (rate, lost) = (f64::from(returned) / seconds, lost as f64);
    let sample = Sample {
        value: stats::median(&times),
        cpu: None,
    };
    let columns: Vec<Column> = vec![
        ("99th of 100", stats::quantile(&times, 0.99), stats::median),
        ("a second", rate, stats::median),
        ("lost", lost, sum),
    ];
    Ok((sample, columns))
}
