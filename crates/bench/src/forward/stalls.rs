//! `stalls`: the rate of one stream through `-L` beside others of the same connection that stand
//! still, against its rate alone just before.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use super::load::{self, LoadTarget, Service};
use super::socks::{socks_name_request, socks_request};
use super::tunnel::{Tunnel, TunnelEntry, free_address, listens};
use super::{Column, ForwardPart, by_turns_in, empty_group, started, stats};
use crate::figures::{BenchEntry, BenchGroup};
use crate::harness::{Harness, ServerHost, SuiteKind};
use crate::rounds::{Bench, Ends, Miss, Sample};

/// Idle connections.
const IDLE: usize = 1000;
/// Time for which the others stand still before the stream begins.
const BEFORE: Duration = Duration::from_millis(300);
/// The name server that never answers, and a name.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 87, 0, 53);
const DEAD_NAME: &str = "never-answered.test";
/// Connections with which the queue of the silent target is filled, at most.
const MAX_QUEUED: usize = 16;
/// Time after which a connection to it counts as not answered.
const SILENCE: Duration = Duration::from_millis(300);

/// The sentence below the table.
pub(super) fn note() -> String {
    format!(
        "alone; columns: share of the rate just before, beside a reader that stands still, a target that never answers, {IDLE} idle connections, and a name whose server never answers (root)"
    )
}

/// The reader or target beside the stream that takes nothing.
#[derive(Debug, Clone, Copy)]
enum Hindrance {
    Reader,
    Target,
    Idle,
    Name,
}

impl Hindrance {
    /// The dead name last: it may keep a server longer than the stream lasts.
    const ALL: [Self; 4] = [Self::Reader, Self::Target, Self::Idle, Self::Name];

    fn column(self) -> &'static str {
        match self {
            Self::Reader => "beside a reader",
            Self::Target => "a silent target",
            Self::Idle => "idle ones",
            Self::Name => "a dead name",
        }
    }
}

/// Measures each chain.
pub(super) fn measure(bench: &Bench) -> BenchGroup {
    let (chains, entries): (Vec<Ends>, Vec<BenchEntry>) = bench.chains().into_iter().unzip();
    let group = empty_group(bench, ForwardPart::Stalls, entries);
    by_turns_in(
        bench,
        ForwardPart::Stalls,
        group,
        StallLab::new(bench),
        |lab, index| {
            let ends = *chains.get(index).ok_or("no such chain")?;
            lab.once(ends)
        },
    )
}

/// Where servers run whose name server never answers, and the targets.
struct StallLab<'a> {
    bench: &'a Bench,
    near: ServerHost,
    harnesses: Vec<Result<Harness, String>>,
    source: LoadTarget,
    echo: LoadTarget,
    silent: SilentTarget,
    /// None where names cannot be made to hang.
    _name_server: Option<UdpSocket>,
    hangs_names: bool,
}

/// The entries of one client.
struct StallEntries {
    stream: TunnelEntry,
    socks: SocketAddr,
}

impl<'a> StallLab<'a> {
    fn new(bench: &'a Bench) -> io::Result<Self> {
        let far = ServerHost::with_name_server(NAME_SERVER)?;
        let name_server = UdpSocket::bind((NAME_SERVER, 53)).ok();
        let settings = &bench.settings;
        Ok(Self {
            bench,
            near: ServerHost::here(),
            harnesses: bench.harnesses(&far, ""),
            source: LoadTarget::start(&far, ForwardPart::Stalls.service(settings))?,
            echo: LoadTarget::start(&far, Service::Echo)?,
            silent: SilentTarget::new(&far)?,
            // Only an account of its own has a list of name servers of its own.
            hangs_names: far.account().is_some() && name_server.is_some(),
            _name_server: name_server,
        })
    }

    fn once(&mut self, ends: Ends) -> Result<(Sample, Vec<Column>), Miss> {
        let (tunnel, entries) = self.tunnel(ends)?;
        let measured = self.rates(&entries);
        let (_, words) = tunnel.end()?;
        started(&mut self.harnesses, ends)?.stop()?;
        measured.map_err(|miss| match words {
            Some(words) => Miss::Failed(format!("{}: {words}", miss.why())),
            None => miss,
        })
    }

    /// A client with `-L` to the source and `-D` for everything else.
    fn tunnel(&mut self, ends: Ends) -> Result<(Tunnel, StallEntries), Miss> {
        let suite = self.bench.suites.get(ends.client).ok_or("no such suite")?;
        let harness = started(&mut self.harnesses, ends)?;
        if suite.kind == SuiteKind::Dropbear {
            return Err(Miss::Absent("dbclient has no -D".into()));
        }
        let (stream, socks) = (free_address(&self.near)?, free_address(&self.near)?);
        let options = [
            "-L".to_owned(),
            format!("{stream}:{}", self.source.address),
            "-D".to_owned(),
            socks.to_string(),
        ];
        let entry = TunnelEntry::Tcp(stream);
        let is_ready = move |pid| listens(pid, stream) && listens(pid, socks);
        let tunnel = Tunnel::client(
            (suite, harness),
            &self.near,
            (&options, false),
            (entry.clone(), is_ready),
        )?;
        let stream = entry;
        Ok((tunnel, StallEntries { stream, socks }))
    }

    fn rates(&self, entries: &StallEntries) -> Result<(Sample, Vec<Column>), Miss> {
        let (mut alone, mut columns) = (Vec::new(), Vec::<Column>::new());
        for hindrance in Hindrance::ALL {
            let is_possible = self.hangs_names || !matches!(hindrance, Hindrance::Name);
            let mut share = f64::NAN;
            if is_possible {
                let before = self.rate(entries)?;
                let hindered = self.hinder(hindrance, entries)?;
                thread::sleep(BEFORE);
                share = self.rate(entries)? / before;
                drop(hindered);
                alone.push(before);
            }
            columns.push((hindrance.column(), share, stats::median));
        }
        let value = stats::median(&alone);
        Ok((Sample { value, cpu: None }, columns))
    }

    /// Of one stream, MiB/s.
    fn rate(&self, entries: &StallEntries) -> io::Result<f64> {
        let settings = &self.bench.settings;
        let seconds = load::down((&entries.stream, &self.near), settings.bytes())?;
        #[allow(clippy::cast_precision_loss)]
        let mib = settings.mib() as f64;
        Ok(mib / seconds)
    }

    /// Begins it; it ends when the sockets are dropped.
    fn hinder(&self, hindrance: Hindrance, entries: &StallEntries) -> io::Result<Vec<File>> {
        let asked = |request: &[u8]| {
            let mut socket = TunnelEntry::Tcp(entries.socks).connect(&self.near)?;
            socket.write_all(&[5, 1, 0])?;
            socket.read_exact(&mut [0; 2])?;
            socket.write_all(request)?;
            Ok(vec![socket])
        };
        match hindrance {
            Hindrance::Reader => {
                let mut socket = entries.stream.connect(&self.near)?;
                // It is connected, and reads nothing more.
                socket.read_exact(&mut [0])?;
                Ok(vec![socket])
            }
            Hindrance::Target => asked(&socks_request(self.silent.address)),
            Hindrance::Name => asked(&socks_name_request(DEAD_NAME, 80)),
            Hindrance::Idle => {
                super::allow_connections(IDLE).map_err(io::Error::other)?;
                let entry = TunnelEntry::Socks(entries.socks, self.echo.address);
                load::open((&entry, &self.near), IDLE)
            }
        }
    }
}

/// A listener whose queue is full: the system drops the packets of further connections.
struct SilentTarget {
    address: SocketAddr,
    _listener: OwnedFd,
    _queued: Vec<TcpStream>,
}

impl SilentTarget {
    fn new(host: &ServerHost) -> io::Result<Self> {
        let any = SocketAddr::new(host.address(), 0);
        let listener = sys::socket::listen(any, 0, true, false)?;
        let address = sys::socket::local_address(&listener)?;
        let mut queued = Vec::new();
        while queued.len() < MAX_QUEUED {
            match TcpStream::connect_timeout(&address, SILENCE) {
                Ok(stream) => queued.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self {
                        address,
                        _listener: listener,
                        _queued: queued,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the system answers for a full queue"))
    }
}
