//! `forward`: connections through `-L`, `-D`, `-R` and Unix sockets, from a load to a target that
//! are both in this program.

mod crowd;
mod datagrams;
mod device;
mod keystroke;
mod load;
mod socks;
mod stalls;
mod tunnel;

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use sys::process::{Limit, Resource};

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::idle::{REST, proportional_kib};
use super::options::{BenchRow, BenchSettings, ForwardPart};
use super::report::digits;
use super::rounds::{Bench, Ends, Miss, Sample};
use super::stats;
use super::wan::World;
use crate::harness::{Harness, ServerHost, SuiteKind, Tree};
use load::{LoadTarget, Service};
use tunnel::{ForwardForm, Tunnel, TunnelEntry};

/// Default number of rounds.
const ROUNDS: usize = 5;
/// The same of parts whose rounds take long.
const FEW_ROUNDS: usize = 2;
/// Streams at once.
const STREAMS: usize = 16;
/// Round trips of a round, after as many of a tenth that do not count.
const TRIPS: usize = 10_000;
/// Connections at once.
const AT_ONCE: usize = 64;
/// Connections of a round.
const CONNECTIONS: usize = 5000;
/// Idle connections.
const IDLE: usize = 2000;
/// Forwarded connections that a login holds, of ours.
const LOGIN_MOST: usize = 4096;
/// Open files of this program beside those of connections.
const OTHER_FILES: u64 = 200;
/// Connections of a round over a long path.
const FIRST_BYTES: usize = 5;
/// MiB of a stream over a long path when the command line says nothing.
const FAR_MIB: u64 = 1024;
/// What a receiver with a window of 2 MiB gets of it.
const PEERS_SHARE: u64 = 16;

impl ForwardPart {
    fn form(self) -> ForwardForm {
        match self {
            Self::Dynamic => ForwardForm::Dynamic,
            Self::Remote => ForwardForm::Remote,
            Self::Unix => ForwardForm::Unix,
            _ => ForwardForm::Local,
        }
    }

    fn service(self, settings: &BenchSettings) -> Service {
        match self {
            Self::Local
            | Self::Remote
            | Self::Unix
            | Self::Streams
            | Self::Keystroke
            | Self::Tunnel
            | Self::Far => Service::Sink,
            Self::Down | Self::Dynamic | Self::Stalls => Service::Source(settings.bytes()),
            Self::Ping
            | Self::Connections
            | Self::Idle
            | Self::IdlePing
            | Self::Udp
            | Self::FirstByte => Service::Echo,
        }
    }

    /// Default number of rounds.
    fn rounds(self) -> usize {
        match self {
            Self::Keystroke | Self::Tunnel => FEW_ROUNDS,
            // Each holds several measurements.
            Self::Stalls | Self::IdlePing => 1,
            _ => ROUNDS,
        }
    }

    fn unit(self) -> (Unit, Per) {
        match self {
            Self::Ping | Self::IdlePing | Self::Udp => (Unit::Microseconds, Per::RoundTrip),
            Self::Keystroke => (Unit::Milliseconds, Per::RoundTrip),
            Self::Connections => (Unit::PerSecond, Per::Connection),
            Self::Idle => (Unit::Kib, Per::Connection),
            Self::FirstByte => (Unit::Milliseconds, Per::Connection),
            _ => (Unit::MibPerSecond, Per::Gib),
        }
    }

    fn title(self, settings: &BenchSettings) -> String {
        let mib = settings.mib();
        match self {
            Self::Local => format!("-L, {mib} MiB up"),
            Self::Down => format!("-L, {mib} MiB down"),
            Self::Dynamic => format!("-D, {mib} MiB down"),
            Self::Remote => format!("-R, {mib} MiB to the client"),
            Self::Unix => format!("-L from a Unix socket, {mib} MiB up"),
            Self::Streams => format!("-L, {mib} MiB up in {STREAMS} streams at once"),
            Self::Ping => "-L, one byte there and back".into(),
            Self::Connections => format!("-L, connections, {AT_ONCE} at once"),
            Self::Idle => "-L, memory of an idle connection".into(),
            Self::Keystroke => {
                format!(
                    "ssh host cat, one byte there and back beside {} streams up through -L",
                    keystroke::STREAMS
                )
            }
            Self::Stalls => format!("-L, {mib} MiB down, beside others that stand still"),
            Self::IdlePing => format!(
                "-L, one byte there and back beside {} idle connections",
                settings.connections.unwrap_or(IDLE)
            ),
            Self::Tunnel => format!("-w between two networks, {mib} MiB up"),
            Self::Udp => "-L udp/, one datagram there and back".into(),
            Self::FirstByte => "-L, connection to first byte of the answer".into(),
            Self::Far => "-L, one stream up".into(),
        }
    }

    fn note(self, settings: &BenchSettings) -> String {
        let connections = settings.connections.unwrap_or(CONNECTIONS);
        match self {
            Self::Ping => format!("{TRIPS} round trips a round, of which the median"),
            Self::Connections => format!(
                "connect, one byte there and back, close; {connections} connections a round; failed: of all rounds"
            ),
            Self::Idle => format!(
                "PSS of the client's and the server's processes, additional for {} connections that have carried one byte each way",
                settings.connections.unwrap_or(IDLE)
            ),
            Self::Keystroke => keystroke::note(),
            Self::Stalls => stalls::note(),
            Self::IdlePing => crowd::note(),
            Self::Tunnel => "TCP without segments larger than a packet of 1500 bytes; the CPU time includes the login".into(),
            Self::Udp => datagrams::note(),
            Self::FirstByte => format!("median of {FIRST_BYTES} connections a round"),
            Self::Far => format!(
                "{} MiB, where OpenSSH or dropbear receives {} MiB",
                settings.mib.unwrap_or(FAR_MIB),
                settings.mib.unwrap_or(FAR_MIB).div_ceil(PEERS_SHARE)
            ),
            _ => "load and target are in the bench; the CPU time includes the login".into(),
        }
    }
}

/// A column beside the median, and how the figures of the rounds become one.
type Column = (&'static str, f64, fn(&[f64]) -> f64);

/// The result of one load.
struct Loaded {
    /// In the group's unit.
    value: f64,
    /// Units of work by which the CPU time is divided; 0 if CPU time is not counted.
    works: f64,
    more: Vec<Column>,
}

/// How a client runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteManner {
    /// `-N`
    Alone,
    /// With `cat` as the command of its session.
    BesideCommand,
    /// `-N`, with `-L` in place of the part's forwarding.
    ByLocal,
}

/// What lies between load and target.
#[derive(Debug, Clone, Copy)]
enum Route {
    Ssh(Ends, RouteManner),
    Relays,
    Nothing,
}

/// The processes and the connection of one run.
struct Run<'a> {
    part: ForwardPart,
    entry: &'a TunnelEntry,
    near: &'a ServerHost,
    /// The root of each end's processes, whose memory is counted.
    ends: [Option<u32>; 2],
    bytes: u64,
}

/// Measures each part that was asked for.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    allow_connections(AT_ONCE)?;
    let mut stand = ForwardStand {
        bench,
        harnesses: bench.harnesses(&bench.servers, ""),
        near: ServerHost::here(),
        far: bench.servers.clone(),
    };
    let is_far = |part: &ForwardPart| matches!(part, ForwardPart::FirstByte | ForwardPart::Far);
    let (far, here): (Vec<_>, Vec<_>) = bench.settings.parts.iter().partition(|part| is_far(part));
    for part in here {
        emit(match part {
            ForwardPart::Stalls => stalls::measure(bench),
            ForwardPart::IdlePing => stand.beside_idle(),
            ForwardPart::Tunnel => device::measure(bench),
            ForwardPart::Udp => stand.datagrams(),
            _ => stand.measure(part, ""),
        });
    }
    if far.is_empty() {
        return Ok(());
    }
    let world = World::begin()?;
    let mut stand = ForwardStand {
        bench,
        harnesses: bench.harnesses(&world.far, ""),
        near: world.near.clone(),
        far: world.far.clone(),
    };
    for part in far {
        for rtt_ms in &bench.settings.rtts_ms {
            let seen = world.set(*rtt_ms, 0)?;
            let title = format!(", {rtt_ms} ms");
            let mut group = stand.measure(part, &title);
            let seen = seen.as_secs_f64() * 1e3;
            let note = format!("round-trip time seen: {seen:.1} ms");
            group.notes.push(note);
            emit(group);
        }
    }
    Ok(())
}

/// Raises the limit of open files to the hard one, for `count` connections with both ends in this
/// program; above it if they need more and this user may. The measured programs inherit the limit.
///
/// # Errors
/// The limit that is missing, in words.
fn allow_connections(count: usize) -> Result<(), String> {
    let ends = u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(2);
    let needed = ends.saturating_add(OTHER_FILES);
    let limit = |error: std::io::Error| format!("the limit of open files: {error}");
    let Limit { hard, .. } = sys::process::limit(Resource::OpenFiles).map_err(limit)?;
    let set = |files| sys::process::set_limit(Resource::OpenFiles, Limit::both(files));
    if needed > hard && set(needed).is_ok() {
        return Ok(());
    }
    set(hard).map_err(limit)?;
    if needed <= hard {
        return Ok(());
    }
    Err(format!(
        "{count} connections need {needed} open files in the bench, and the hard limit is {hard}: raise it (ulimit -Hn) or ask for fewer connections (--connections)"
    ))
}

/// As [`allow_connections`], for idle connections of one login beside its first one.
fn allow_idle(count: usize) -> Result<(), String> {
    if count >= LOGIN_MOST {
        return Err(format!(
            "a login holds {LOGIN_MOST} forwarded connections, {} of them idle (--connections); the part idle-ping divides more among several logins",
            LOGIN_MOST - 1
        ));
    }
    allow_connections(count)
}

struct ForwardStand<'a> {
    bench: &'a Bench,
    harnesses: Vec<Result<Harness, String>>,
    near: ServerHost,
    far: ServerHost,
}

impl ForwardStand<'_> {
    fn measure(&mut self, part: ForwardPart, title: &str) -> BenchGroup {
        let bench = self.bench;
        let (routes, entries) = routes(bench, part);
        let mut group = empty_group(bench, part, entries);
        group.title += title;
        by_turns(bench, part, group, |index| {
            let route = routes.get(index).ok_or("no such route")?;
            self.once(part, *route)
        })
    }

    fn once(&mut self, part: ForwardPart, route: Route) -> Result<(Sample, Vec<Column>), Miss> {
        let settings = &self.bench.settings;
        if part == ForwardPart::Idle {
            allow_idle(settings.connections.unwrap_or(IDLE))?;
        }
        let (load_end, target_end) = match part.form() {
            ForwardForm::Remote => (self.far.clone(), self.near.clone()),
            _ => (self.near.clone(), self.far.clone()),
        };
        let target = LoadTarget::start(&target_end, part.service(settings))?;
        let mut tunnel = self.tunnel(part, route, target.address)?;
        let session = tunnel.session();
        let server = match route {
            Route::Ssh(ends, _) => self.harness(ends.server)?.server_pid(),
            Route::Relays | Route::Nothing => None,
        };
        let run = Run {
            part,
            entry: &tunnel.entry,
            near: &load_end,
            ends: [tunnel.pid(), server],
            bytes: self.bytes(part, route),
        };
        let loaded = match (part, session) {
            (ForwardPart::Keystroke, Some(session)) => run.type_bytes(session),
            _ => run.load(settings),
        };
        let (mut cpu, words) = tunnel.end()?;
        if let Route::Ssh(ends, _) = route {
            cpu.server = self.harness(ends.server)?.stop()?.as_secs_f64();
        }
        let loaded = loaded.map_err(|miss| match words {
            Some(words) => Miss::Failed(format!("{}{words}", miss.why())),
            None => miss,
        })?;
        let each = |seconds: f64| seconds / loaded.works;
        let sample = Sample {
            value: loaded.value,
            cpu: (loaded.works > 0.0 && !matches!(route, Route::Nothing)).then(|| Cpu {
                client: each(cpu.client),
                server: each(cpu.server),
            }),
        };
        Ok((sample, loaded.more))
    }

    fn tunnel(
        &mut self,
        part: ForwardPart,
        route: Route,
        target: SocketAddr,
    ) -> Result<Tunnel, Miss> {
        let (near, far) = (self.near.clone(), self.far.clone());
        match route {
            Route::Nothing => Ok(Tunnel::none(target)),
            Route::Relays => Tunnel::relays(&near, &far, target),
            Route::Ssh(ends, manner) => {
                let suite = self.bench.suites.get(ends.client).ok_or("no such suite")?;
                let harness = self.harness(ends.server)?;
                let form = match manner {
                    RouteManner::ByLocal => ForwardForm::Local,
                    RouteManner::Alone | RouteManner::BesideCommand => part.form(),
                };
                let with_command = manner == RouteManner::BesideCommand;
                let form = (form, with_command);
                Tunnel::ssh((suite, harness), (&near, &far), form, target)
            }
        }
    }

    fn harness(&mut self, server: usize) -> Result<&mut Harness, Miss> {
        let harness = self.harnesses.get_mut(server).ok_or("no such server")?;
        Ok(harness.as_mut().map_err(|why| why.clone())?)
    }

    /// Bytes of a stream: fewer over a long path to a receiver with a small window.
    fn bytes(&self, part: ForwardPart, route: Route) -> u64 {
        let settings = &self.bench.settings;
        if part != ForwardPart::Far {
            return settings.bytes();
        }
        let mib = settings.mib.unwrap_or(FAR_MIB);
        let receiver = match route {
            Route::Ssh(ends, _) => self.bench.suites.get(ends.server).map(|suite| suite.kind),
            Route::Relays | Route::Nothing => None,
        };
        match receiver {
            None | Some(SuiteKind::Ours) => mib << 20,
            Some(SuiteKind::OpenSsh | SuiteKind::Dropbear) => mib.div_ceil(PEERS_SHARE) << 20,
        }
    }
}

/// The routes of a part's entries.
fn routes(bench: &Bench, part: ForwardPart) -> (Vec<Route>, Vec<BenchEntry>) {
    let mut routes = Vec::new();
    let mut entries = Vec::new();
    for (ends, entry) in bench.chains() {
        for manner in match part {
            ForwardPart::Ping => &[RouteManner::Alone, RouteManner::BesideCommand][..],
            ForwardPart::Dynamic => &[RouteManner::Alone, RouteManner::ByLocal],
            ForwardPart::Keystroke => &[RouteManner::BesideCommand],
            _ => &[RouteManner::Alone],
        } {
            routes.push(Route::Ssh(ends, *manner));
            let mut entry = entry.clone();
            entry.label += match manner {
                RouteManner::ByLocal => ", by -L",
                RouteManner::BesideCommand if part == ForwardPart::Ping => ", beside a command",
                RouteManner::BesideCommand | RouteManner::Alone => "",
            };
            entries.push(entry);
        }
    }
    if !matches!(part, ForwardPart::Idle | ForwardPart::Keystroke) {
        routes.extend([Route::Relays, Route::Nothing]);
        entries.push(BenchEntry::new("two plain relays", EntryKind::Limit));
        entries.push(BenchEntry::new("no forward", EntryKind::Limit));
    }
    (routes, entries)
}

/// A part's table without figures.
fn empty_group(bench: &Bench, part: ForwardPart, entries: Vec<BenchEntry>) -> BenchGroup {
    let (unit, per) = part.unit();
    BenchGroup {
        row: BenchRow::Forward.name(),
        title: part.title(&bench.settings),
        unit,
        per,
        entries,
        notes: vec![part.note(&bench.settings)],
    }
}

/// Runs the group's entries by turns; each run gives a figure and further columns.
fn by_turns(
    bench: &Bench,
    part: ForwardPart,
    group: BenchGroup,
    mut once: impl FnMut(usize) -> Result<(Sample, Vec<Column>), Miss>,
) -> BenchGroup {
    let mut columns: Vec<Vec<Vec<Column>>> = vec![Vec::new(); group.entries.len()];
    let mut group = bench.alternate(group, bench.settings.rounds(part.rounds()), |index| {
        let (sample, more) = once(index)?;
        if let Some(columns) = columns.get_mut(index) {
            columns.push(more);
        }
        Ok(sample)
    });
    for (entry, rounds) in group.entries.iter_mut().zip(&columns) {
        add_columns(entry, rounds.get(1..).unwrap_or_default());
    }
    group
}

/// The harness of the server of `ends`, if it started.
fn started(harnesses: &mut [Result<Harness, String>], ends: Ends) -> Result<&mut Harness, Miss> {
    let harness = harnesses.get_mut(ends.server).ok_or("no such server")?;
    Ok(harness.as_mut().map_err(|why| why.clone())?)
}

/// As [`by_turns`], in a lab that all runs share; without it, each entry says why.
fn by_turns_in<L>(
    bench: &Bench,
    part: ForwardPart,
    mut group: BenchGroup,
    lab: Result<L, impl std::fmt::Display>,
    mut once: impl FnMut(&mut L, usize) -> Result<(Sample, Vec<Column>), Miss>,
) -> BenchGroup {
    match lab {
        Ok(mut lab) => by_turns(bench, part, group, |index| once(&mut lab, index)),
        Err(why) => {
            for entry in &mut group.entries {
                entry.missing = Some(Miss::Absent(why.to_string()));
            }
            group
        }
    }
}

/// Adds the further columns, each from the figures of all rounds.
fn add_columns(entry: &mut BenchEntry, rounds: &[Vec<Column>]) {
    for (index, (name, _, combine)) in rounds.first().into_iter().flatten().enumerate() {
        let values = rounds.iter().filter_map(|round| round.get(index));
        let values: Vec<f64> = values.map(|(_, value, _)| *value).collect();
        entry.more.push(((*name).into(), digits(combine(&values))));
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

impl Run<'_> {
    fn load(&self, settings: &BenchSettings) -> Result<Loaded, Miss> {
        let at = (self.entry, self.near);
        #[allow(clippy::cast_precision_loss)]
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let stream = |seconds: f64, more| Loaded {
            value: mib / seconds,
            works: mib / 1024.0,
            more,
        };
        match self.part {
            ForwardPart::Local | ForwardPart::Remote | ForwardPart::Unix | ForwardPart::Far => {
                let seconds = load::up(at, self.bytes, &AtomicU64::new(0))?;
                Ok(stream(seconds, Vec::new()))
            }
            ForwardPart::Down | ForwardPart::Dynamic => {
                Ok(stream(load::down(at, self.bytes)?, Vec::new()))
            }
            ForwardPart::Streams => {
                let (seconds, jain) = load::streams(at, STREAMS, self.bytes)?;
                Ok(stream(seconds, vec![("Jain's index", jain, stats::median)]))
            }
            ForwardPart::Ping => {
                let times = load::ping(at, TRIPS)?;
                let slow = stats::quantile(&times, 0.999);
                #[allow(clippy::cast_precision_loss)]
                let works = TRIPS as f64;
                Ok(Loaded {
                    value: stats::median(&times),
                    works,
                    more: vec![("999th of 1000", slow, stats::median)],
                })
            }
            ForwardPart::Connections => {
                let count = settings.connections.unwrap_or(CONNECTIONS);
                let (seconds, failed) = load::connections(at, AT_ONCE, count)?;
                #[allow(clippy::cast_precision_loss)]
                let (count, failed) = (count as f64, failed as f64);
                Ok(Loaded {
                    value: (count - failed) / seconds,
                    works: count,
                    more: vec![("failed", failed, sum)],
                })
            }
            ForwardPart::FirstByte => Ok(Loaded {
                value: load::first_byte(at, FIRST_BYTES)?,
                works: 0.0,
                more: Vec::new(),
            }),
            ForwardPart::Idle => self.idle(settings.connections.unwrap_or(IDLE)),
            ForwardPart::Keystroke
            | ForwardPart::Stalls
            | ForwardPart::IdlePing
            | ForwardPart::Tunnel
            | ForwardPart::Udp => Err("this part has another load".into()),
        }
    }

    /// Memory that `count` idle connections add.
    fn idle(&self, count: usize) -> Result<Loaded, Miss> {
        let at = (self.entry, self.near);
        // What a first connection makes once is not counted.
        let first = load::open(at, 1)?;
        std::thread::sleep(REST);
        let before = self.memory_kib()?;
        let others = load::open(at, count)?;
        std::thread::sleep(REST);
        let with = self.memory_kib()?;
        drop((first, others));
        #[allow(clippy::cast_precision_loss)]
        let each = |end: usize| {
            let kib = |all: &[u64; 2]| all.get(end).copied().unwrap_or(0) as f64;
            (kib(&with) - kib(&before)) / count as f64
        };
        let [client, server] = [each(0), each(1)];
        Ok(Loaded {
            value: client + server,
            works: 0.0,
            more: vec![
                ("client", client, stats::median),
                ("server", server, stats::median),
            ],
        })
    }

    /// The memory (PSS) of each end's processes.
    fn memory_kib(&self) -> Result<[u64; 2], Miss> {
        let mut ends = [0; 2];
        for (pid, kib) in self.ends.iter().zip(&mut ends) {
            let Some(pid) = pid else { continue };
            *kib = proportional_kib(*pid)?;
            for pid in Tree::of(*pid).below() {
                *kib += proportional_kib(*pid)?;
            }
        }
        Ok(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_or_named() {
        allow_connections(AT_ONCE).unwrap();
        let raised = sys::process::limit(Resource::OpenFiles).unwrap();
        assert_eq!(raised.soft, raised.hard);
        // More than any kernel permits.
        let missing = allow_connections(1 << 40).unwrap_err();
        let said = format!(
            "1099511627776 connections need 2199023255752 open files in the bench, and the hard limit is {}: ",
            raised.hard
        );
        assert!(missing.starts_with(&said), "{missing}");
        assert_eq!(sys::process::limit(Resource::OpenFiles).unwrap(), raised);
    }

    #[test]
    fn one_login_holds_no_more_than_the_server_lets_it() {
        assert!(allow_idle(20).is_ok());
        let missing = allow_idle(4096).unwrap_err();
        let said = "a login holds 4096 forwarded connections, 4095 of them idle (--connections); ";
        assert!(missing.starts_with(said), "{missing}");
    }
}
