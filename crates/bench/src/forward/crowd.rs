//! `idle-ping`: one byte there and back through a forwarded connection, alone and beside many idle
//! ones; their memory, and how often the processes wake up and what CPU time they use for them.

use std::fs;
use std::thread;

use super::load::{self, LoadTarget};
use super::tunnel::Tunnel;
use super::{
    Column, ForwardPart, ForwardStand, IDLE, Route, RouteManner, allow_connections, by_turns,
    empty_group, stats,
};
use crate::figures::{BenchEntry, BenchGroup};
use crate::harness::{ServerHost, Tree};
use crate::idle::{REST, private_kib};
use crate::rounds::{Ends, Miss, Sample};

/// Round trips of a measurement, after as many of a tenth that do not count.
const TRIPS: usize = 1000;
/// Idle connections of one login: a connection has 4,096 channels at most.
const LOGIN_CONNECTIONS: usize = 4000;

/// The sentence below the table.
pub(super) fn note() -> String {
    format!(
        "median of {TRIPS} round trips; idle ones have carried a byte each way, at most {LOGIN_CONNECTIONS} for each login; client and server: private memory of one, KiB; wake-ups and CPU time: of all processes together while nothing happens, a second"
    )
}

impl ForwardStand<'_> {
    /// Measures each chain.
    pub(super) fn beside_idle(&mut self) -> BenchGroup {
        let bench = self.bench;
        let (chains, entries): (Vec<Ends>, Vec<BenchEntry>) = bench.chains().into_iter().unzip();
        let group = empty_group(bench, ForwardPart::IdlePing, entries);
        by_turns(bench, ForwardPart::IdlePing, group, |index| {
            let ends = *chains.get(index).ok_or("no such chain")?;
            let count = bench.settings.connections.unwrap_or(IDLE);
            allow_connections(count)?;
            let target =
                LoadTarget::start(&self.far, ForwardPart::IdlePing.service(&bench.settings))?;
            let mut tunnels = Vec::new();
            for _ in 0..count.div_ceil(LOGIN_CONNECTIONS) {
                let route = Route::Ssh(ends, RouteManner::Alone);
                tunnels.push(self.tunnel(ForwardPart::IdlePing, route, target.address)?);
            }
            let server = self.harness(ends.server)?.server_pid();
            let measured = Crowd {
                tunnels: &tunnels,
                near: &self.near,
                server,
            }
            .measure(count);
            let mut words = None;
            for tunnel in tunnels {
                words = tunnel.end()?.1.or(words);
            }
            self.harness(ends.server)?.stop()?;
            measured.map_err(|miss| match words {
                Some(words) => Miss::Failed(format!("{}: {words}", miss.why())),
                None => miss,
            })
        })
    }
}

/// The logins among which the idle connections are divided.
struct Crowd<'a> {
    tunnels: &'a [Tunnel],
    near: &'a ServerHost,
    server: Option<u32>,
}

impl Crowd<'_> {
    fn measure(&self, count: usize) -> Result<(Sample, Vec<Column>), Miss> {
        let first = self.tunnels.first().ok_or("no tunnel")?;
        let ping = || load::ping((&first.entry, self.near), TRIPS);
        let alone = stats::median(&ping()?);
        thread::sleep(REST);
        let before = self.private_kib()?;
        let mut idle = Vec::with_capacity(count);
        let each = count.div_ceil(self.tunnels.len());
        for tunnel in self.tunnels {
            let more = each.min(count - idle.len());
            idle.extend(load::open((&tunnel.entry, self.near), more)?);
        }
        thread::sleep(REST);
        let with = self.private_kib()?;
        let (wakes, cpu) = (self.total(waits), self.total(cpu_ns));
        thread::sleep(REST);
        let (wakes, cpu) = (self.total(waits) - wakes, self.total(cpu_ns) - cpu);
        #[allow(clippy::cast_precision_loss)]
        let a_second = |all: u64| all as f64 / REST.as_secs_f64();
        let beside = stats::median(&ping()?);
        drop(idle);
        #[allow(clippy::cast_precision_loss)]
        let of = |end: usize| {
            let kib = |all: &[u64; 2]| all.get(end).copied().unwrap_or(0) as f64;
            (kib(&with) - kib(&before)) / count as f64
        };
        let sample = Sample {
            value: beside,
            cpu: None,
        };
        let columns: Vec<Column> = vec![
            ("alone", alone, stats::median),
            ("times alone", beside / alone, stats::median),
            ("client", of(0), stats::median),
            ("server", of(1), stats::median),
            ("wake-ups", a_second(wakes), stats::median),
            ("CPU µs", a_second(cpu) / 1e3, stats::median),
        ];
        Ok((sample, columns))
    }

    /// The clients' processes, and the server's.
    fn processes(&self) -> [Vec<u32>; 2] {
        let clients = self.tunnels.iter().filter_map(Tunnel::pid).collect();
        let servers = self.server.map(|server| Tree::of(server).below().to_vec());
        [clients, servers.unwrap_or_default()]
    }

    /// The private memory of each end's processes.
    fn private_kib(&self) -> Result<[u64; 2], Miss> {
        let mut ends = [0; 2];
        for (pids, kib) in self.processes().iter().zip(&mut ends) {
            for pid in pids {
                *kib += private_kib(*pid)?;
            }
        }
        Ok(ends)
    }

    /// The sum of a figure of all processes.
    fn total(&self, figure: fn(u32) -> u64) -> u64 {
        let processes = self.processes().concat();
        processes.iter().map(|pid| figure(*pid)).sum()
    }
}

/// CPU time of a process, ns (the first figure of schedstat); 0 for one that has ended.
fn cpu_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let first = text.split_ascii_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// How often a process has waited for something; 0 for one that has ended.
fn waits(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}
