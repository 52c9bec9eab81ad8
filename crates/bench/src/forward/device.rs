//! `tunnel`: one stream through the devices of `-w`, between two networks of this machine that a
//! pair of virtual Ethernet devices joins. Needs root and ip(8).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;

use sys::tun::Interface;

use super::load::{self, LoadTarget};
use super::tunnel::{Tunnel, TunnelEntry};
use super::{Column, ForwardPart, by_turns_in, empty_group, started};
use crate::figures::{BenchEntry, BenchGroup, Cpu, EntryKind};
use crate::harness::{Harness, ServerHost, SuiteKind, program};
use crate::rounds::{Bench, Ends, Miss, Sample};

/// The ends of the Ethernet, and of the tunnel.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 87, 1, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 87, 1, 2);
const NEAR_TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 87, 2, 1);
const FAR_TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 87, 2, 2);
/// The Ethernet device's name in each network.
const ETHERNET: &str = "wire";
/// The tunnel's unit and name in each network.
const UNITS: &str = "7:7";
const DEVICE: &str = "tun7";

/// Measures each chain, and the Ethernet without a tunnel.
pub(super) fn measure(bench: &Bench) -> BenchGroup {
    let chains = bench.chains().into_iter();
    let (mut chains, mut entries): (Vec<Option<Ends>>, Vec<BenchEntry>) =
        chains.map(|(ends, entry)| (Some(ends), entry)).unzip();
    chains.push(None);
    entries.push(BenchEntry::new("no tunnel", EntryKind::Limit));
    let group = empty_group(bench, ForwardPart::Tunnel, entries);
    by_turns_in(
        bench,
        ForwardPart::Tunnel,
        group,
        Networks::new(bench),
        |networks, index| match chains.get(index).ok_or("no such chain")? {
            Some(ends) => networks.through_tunnel(*ends),
            None => Ok((networks.stream(FAR)?, Vec::new())),
        },
    )
}

/// The two networks, and the servers in the far one.
struct Networks<'a> {
    bench: &'a Bench,
    near: ServerHost,
    far: ServerHost,
    harnesses: Vec<Result<Harness, String>>,
}

impl<'a> Networks<'a> {
    fn new(bench: &'a Bench) -> Result<Self, String> {
        let ip = program("ip").map_err(|why| format!("ip(8) is {why}"))?;
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => "skipped: two networks need root".to_owned(),
            _ => error.to_string(),
        };
        let (near, _) = ServerHost::prepared(IpAddr::V4(NEAR), network).map_err(explain)?;
        let (far, thread) = ServerHost::with_account(IpAddr::V4(FAR), network).map_err(explain)?;
        let mut join = Command::new(ip);
        join.args([
            "link", "add", ETHERNET, "type", "veth", "peer", "name", ETHERNET,
        ])
        .args(["netns", &thread])
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
        let joined = near
            .spawn(join)
            .and_then(std::process::Child::wait_with_output);
        let joined = joined.map_err(explain)?;
        if !joined.status.success() {
            let said = String::from_utf8_lossy(&joined.stderr);
            return Err(format!("skipped: ip link: {}", said.trim()));
        }
        configure(&near, ETHERNET, NEAR).map_err(explain)?;
        configure(&far, ETHERNET, FAR).map_err(explain)?;
        Ok(Self {
            bench,
            harnesses: bench.harnesses(&far, "PermitTunnel yes"),
            near,
            far,
        })
    }

    fn through_tunnel(&mut self, ends: Ends) -> Result<(Sample, Vec<Column>), Miss> {
        let suite = self.bench.suites.get(ends.client).ok_or("no such suite")?;
        let harness = started(&mut self.harnesses, ends)?;
        let is_dropbear = |kind| kind == SuiteKind::Dropbear;
        let server = self.bench.suites.get(ends.server).map(|suite| suite.kind);
        if is_dropbear(suite.kind) || server.is_some_and(is_dropbear) {
            return Err(Miss::Absent("dropbear has no tunnels".into()));
        }
        let (near, far) = (self.near.clone(), self.far.clone());
        let is_ready = move |_| has_device(&near) && has_device(&far);
        let entry = TunnelEntry::Tcp(SocketAddr::new(FAR_TUNNEL.into(), 0));
        let options = ["-w".to_owned(), UNITS.to_owned()];
        let tunnel = Tunnel::client(
            (suite, harness),
            &self.near,
            (&options, false),
            (entry, is_ready),
        )?;
        let configured = configure(&self.near, DEVICE, NEAR_TUNNEL)
            .and_then(|()| configure(&self.far, DEVICE, FAR_TUNNEL));
        let loaded = match configured {
            Ok(()) => self.stream(FAR_TUNNEL),
            Err(error) => Err(error.into()),
        };
        let (mut cpu, words) = tunnel.end()?;
        cpu.server = started(&mut self.harnesses, ends)?.stop()?.as_secs_f64();
        let mut sample = loaded.map_err(|miss| match words {
            Some(words) => Miss::Failed(format!("{}: {words}", miss.why())),
            None => miss,
        })?;
        #[allow(clippy::cast_precision_loss)]
        let gib = self.bench.settings.mib() as f64 / 1024.0;
        sample.cpu = Some(Cpu {
            client: cpu.client / gib,
            server: cpu.server / gib,
        });
        Ok((sample, Vec::new()))
    }

    /// One stream to this address of the far network.
    fn stream(&self, to: Ipv4Addr) -> Result<Sample, Miss> {
        let settings = &self.bench.settings;
        let service = ForwardPart::Tunnel.service(settings);
        let target = LoadTarget::start_at(&self.far, to.into(), service)?;
        let entry = TunnelEntry::Tcp(target.address);
        let seconds = load::up((&entry, &self.near), settings.bytes(), &AtomicU64::new(0))?;
        #[allow(clippy::cast_precision_loss)]
        let mib = settings.mib() as f64;
        Ok(Sample {
            value: mib / seconds,
            cpu: None,
        })
    }
}

/// Puts this thread into a network of its own; returns the number by which ip(8) knows it.
fn network() -> io::Result<String> {
    sys::namespace::unshare_network()?;
    sys::tun::bring_up("lo")?;
    let thread = fs::read_link("/proc/thread-self")?;
    let number = thread.file_name().ok_or(io::ErrorKind::NotFound)?;
    Ok(number.to_string_lossy().into_owned())
}

fn configure(host: &ServerHost, name: &'static str, address: Ipv4Addr) -> io::Result<()> {
    let interface = Interface {
        address,
        prefix_len: 24,
        mtu_bytes: 1500,
        queue_packets: 1000,
    };
    host.run(move || sys::tun::configure(name, &interface))?
}

/// Whether the tunnel's device is in the host's network.
fn has_device(host: &ServerHost) -> bool {
    let listed = host.run(|| fs::read_to_string("/proc/thread-self/net/dev"));
    let listed = listed.and_then(|listed| listed).unwrap_or_default();
    let name = format!("{DEVICE}:");
    listed
        .lines()
        .any(|line| line.trim_start().starts_with(&name))
}
