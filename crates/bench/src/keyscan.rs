//! `keyscan`: the host keys of a thousand servers on loopback, one in a hundred of which is silent.
//!
//! One server of this process listens at every address. It exchanges keys without a process for
//! each connection, so that the time is the scanner's.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::{Connection, Event, ServerHostKey, TransportConfig, TransportOutput};

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::options::BenchRow;
use super::rounds::{Bench, Miss, Sample};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// Addresses that are scanned.
const HOSTS: u16 = 1000;
/// Every host with a number that this divides is silent.
const SILENT_EVERY: u16 = 100;
/// Stack of a connection's thread, bytes.
const STACK_BYTES: usize = 512 << 10;
/// Time limit for a host, which silent ones use up, seconds.
const TIMEOUT: &str = "1";

/// Measures Fulmar's scanner and OpenSSH's.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let servers = Servers::start().map_err(|error| error.to_string())?;
    let list = std::env::temp_dir().join(format!("fulmar-bench-keyscan-{}", std::process::id()));
    let hosts: String = (0..HOSTS)
        .map(|number| format!("{}\n", address(number)))
        .collect();
    fs::write(&list, hosts).map_err(|error| format!("{}: {error}", list.display()))?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let group = BenchGroup {
        row: BenchRow::Keyscan.name(),
        title: format!("{HOSTS} servers on loopback"),
        unit: Unit::Seconds,
        per: Per::Copy,
        entries: vec![
            BenchEntry::new("Fulmar", EntryKind::Ours),
            BenchEntry::new("OpenSSH", EntryKind::Peer),
        ],
        notes: vec![format!(
            "one in {SILENT_EVERY} is silent; -t ed25519 -T {TIMEOUT}; the server of all addresses is this program"
        )],
    };
    let group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let mut scanner = match index {
            0 => Command::new(&own),
            _ => Command::new("ssh-keyscan"),
        };
        if index == 0 {
            scanner.arg("keyscan");
        }
        let port = servers.port.to_string();
        scanner.args(["-t", "ed25519", "-T", TIMEOUT, "-p", &port, "-f"]);
        scanner.arg(&list);
        once(&mut scanner)
    });
    let _ = fs::remove_file(&list);
    emit(group);
    Ok(())
}

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

fn is_silent(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [.., high, low] = address.octets();
            u16::from_be_bytes([high, low]).is_multiple_of(SILENT_EVERY)
        }
        IpAddr::V6(_) => false,
    }
}

/// One scan: its seconds, if it has found every key.
fn once(scanner: &mut Command) -> Result<Sample, Miss> {
    let begun = Instant::now();
    let mut child = scanner
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Miss::Absent(error.to_string()))?;
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut text)?;
    }
    let (status, usage) = sys::process::wait_usage(child)?;
    let value = begun.elapsed().as_secs_f64();
    let found = text
        .lines()
        .filter(|line| line.contains(" ssh-ed25519 "))
        .count();
    let expected = usize::from(HOSTS - HOSTS / SILENT_EVERY);
    if !status.is_success() || found != expected {
        return Err(format!("{found} keys of {expected}").into());
    }
    let cpu = Some(Cpu::of_client(usage.total().as_secs_f64()));
    Ok(Sample { value, cpu })
}

/// The server of all addresses.
struct Servers {
    port: u16,
    stops: Arc<AtomicBool>,
}

impl Servers {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        let stops = Arc::new(AtomicBool::new(false));
        let key = PrivateKey::generate(KeySpec::Ed25519).map_err(io::Error::other)?;
        let (seen, key) = (Arc::clone(&stops), Arc::new(key));
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                if stream.local_addr().is_ok_and(|local| is_silent(local.ip())) {
                    silent.push(stream);
                    continue;
                }
                let key = Arc::clone(&key);
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                // A scanner that goes away is no failure of the server.
                let _ = builder.spawn(move || serve(stream, &key));
            }
        });
        Ok(Self { port, stops })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Exchanges keys until the scanner goes away.
fn serve(mut stream: TcpStream, key: &PrivateKey) -> io::Result<()> {
    let host_keys = vec![ServerHostKey {
        algorithms: vec![SignatureAlgorithm::Ed25519.name().to_owned()],
        blob: key.public().blob(),
    }];
    let config = TransportConfig::default();
    let mut connection = Connection::server(config, host_keys, 0).map_err(io::Error::other)?;
    let mut bytes = [0; 4096];
    loop {
        let mut out = Vec::new();
        while let Some(output) = connection.poll_output() {
            match output {
                TransportOutput::Raw(raw) => out.extend_from_slice(&raw),
                TransportOutput::Seal(job) => out.extend_from_slice(job.run().wire()),
            }
        }
        stream.write_all(&out)?;
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return stream.shutdown(Shutdown::Both);
        }
        let arrived = bytes.get(..count).unwrap_or_default();
        connection.receive_buffer().extend_from_slice(arrived);
        connection.process(0).map_err(io::Error::other)?;
        while let Some(event) = connection.poll_event() {
            if let Event::SignExchangeHash { hash, .. } = event {
                let signature = key.sign(SignatureAlgorithm::Ed25519, hash.as_ref());
                let signature = signature.map_err(io::Error::other)?;
                connection
                    .provide_host_signature(&signature)
                    .map_err(io::Error::other)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_in_a_hundred_is_silent() {
        let silent = (0..HOSTS).filter(|number| is_silent(address(*number).into()));
        assert_eq!(silent.count(), usize::from(HOSTS / SILENT_EVERY));
    }

    #[test]
    fn a_scan_that_misses_keys_is_none() {
        let failed = once(Command::new("true").arg("-")).unwrap_err();
        assert!(matches!(failed, Miss::Failed(_)), "{failed:?}");
        let absent = once(&mut Command::new("no-such-scanner")).unwrap_err();
        assert!(matches!(absent, Miss::Absent(_)), "{absent:?}");
    }

    #[test]
    fn the_server_proves_its_key() {
        let servers = Servers::start().unwrap();
        let mut stream = TcpStream::connect((address(1), servers.port)).unwrap();
        let mut start = [0; 8];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"SSH-2.0-");
    }
}
