//! What a connection costs a server before anybody has logged in: one that reads its version line
//! and leaves, and one that exchanges keys up to both sides' NEWKEYS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use proto::{Connection, Event, TransportConfig, TransportOutput};

use super::super::figures::{BenchGroup, Cpu, Emit, Per, Unit};
use super::super::options::BenchRow;
use super::super::rounds::{Bench, Miss, Sample};
use crate::harness::{Suite, SuiteKind};

/// Default number of rounds.
const ROUNDS: usize = 5;
/// Limit on the connections of a round; fewer if fewer logins are configured.
const MAX_CONNECTIONS: u32 = 100;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far a connection goes.
#[derive(Debug, Clone, Copy)]
enum UpTo {
    Version,
    NewKeys,
}

/// Measures each suite's server.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) {
    for (up_to, title) in [
        (UpTo::NewKeys, "a key exchange, and gone"),
        (UpTo::Version, "a connection that reads the version line"),
    ] {
        emit(of_all(bench, up_to, title));
    }
}

fn of_all(bench: &Bench, up_to: UpTo, title: &str) -> BenchGroup {
    let asked = u32::try_from(bench.settings.logins);
    let connections = asked.map_or(MAX_CONNECTIONS, |asked| asked.min(MAX_CONNECTIONS));
    let (suites, entries): (Vec<usize>, Vec<_>) = bench.served().into_iter().unzip();
    let group = BenchGroup {
        row: BenchRow::Login.name(),
        title: title.into(),
        unit: Unit::Milliseconds,
        per: Per::Connection,
        entries,
        notes: vec![format!(
            "{connections} a round, one after the other, by a client within this program"
        )],
    };
    let mut methods = vec![String::new(); group.entries.len()];
    let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let server = *suites.get(index).ok_or("no such entry")?;
        let suite = bench.suites.get(server).ok_or("no such suite")?;
        let lines = format!("MaxStartups 1000\n{}", bears_strangers(suite));
        let mut harness = bench.harness(server, &bench.servers, &lines)?;
        harness.serve()?;
        let address = harness.address();
        let begun = Instant::now();
        for _ in 0..connections {
            match up_to {
                UpTo::Version => read_version(address)?,
                UpTo::NewKeys => {
                    let method = exchange_keys(address)?;
                    if let Some(known) = methods.get_mut(index) {
                        *known = method;
                    }
                }
            }
        }
        let count = f64::from(connections);
        let value = begun.elapsed().as_secs_f64() * 1e3 / count;
        let server = harness.stop()?.as_secs_f64() / count;
        let client = f64::NAN;
        Ok(Sample {
            value,
            cpu: Some(Cpu { client, server }),
        })
    });
    if matches!(up_to, UpTo::NewKeys) {
        for (entry, method) in group.entries.iter_mut().zip(methods) {
            entry.more.push(("method".into(), method));
        }
    }
    group
}

/// The line without which a server turns away an address that never logs in.
fn bears_strangers(suite: &Suite) -> &'static str {
    const LINE: &str = "PerSourcePenalties no";
    match suite.kind {
        SuiteKind::Ours => LINE,
        SuiteKind::OpenSsh if release(&suite.version) >= (9, 8) => LINE,
        SuiteKind::OpenSsh | SuiteKind::Dropbear => "",
    }
}

/// Of `OpenSSH_9.2p1`: 9 and 2; zeros of what is no such version.
fn release(version: &str) -> (u32, u32) {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        let (number, rest) = text.split_at(end.unwrap_or(text.len()));
        (number.parse().unwrap_or(0), rest.to_owned())
    };
    let text = version.split_once('_').map_or("", |(_, text)| text);
    let (major, rest) = digits(text);
    let (minor, _) = digits(rest.trim_start_matches('.'));
    (major, minor)
}

fn connect(address: SocketAddr) -> Result<TcpStream, Miss> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn read_version(address: SocketAddr) -> Result<(), Miss> {
    let mut stream = connect(address)?;
    let mut piece = [0; 512];
    loop {
        let count = stream.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Err("the server closed before its version line".into());
        }
        if bytes.contains(&b'\n') {
            return Ok(());
        }
    }
}

/// Goes up to NEWKEYS on both sides and leaves; gives the method's name. Any host key will do.
fn exchange_keys(address: SocketAddr) -> Result<String, Miss> {
    let failed = |error: proto::Error| Miss::Failed(error.to_string());
    let mut stream = connect(address)?;
    let mut connection = Connection::client(TransportConfig::default(), 0).map_err(failed)?;
    let mut piece = [0; 8192];
    loop {
        flush(&mut connection, &mut stream)?;
        let count = stream.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Err("the server closed during the key exchange".into());
        }
        connection.receive_buffer().extend_from_slice(bytes);
        connection.process(0).map_err(failed)?;
        while let Some(event) = connection.poll_event() {
            match event {
                Event::HostKey { .. } => {
                    connection.accept_host_key().map_err(failed)?;
                    // Our NEWKEYS, before the server's is looked at.
                    flush(&mut connection, &mut stream)?;
                    connection.process(0).map_err(failed)?;
                }
                Event::KeysChanged { negotiated, .. } => return Ok(negotiated.kex.to_string()),
                _ => {}
            }
        }
    }
}

fn flush(connection: &mut Connection, stream: &mut TcpStream) -> Result<(), Miss> {
    let mut bytes = Vec::new();
    while let Some(output) = connection.poll_output() {
        match output {
            TransportOutput::Raw(raw) => bytes.extend(raw),
            TransportOutput::Seal(job) => {
                let sealed = job.run();
                bytes.extend(sealed.wire());
                connection.recycle(sealed.into_buf());
            }
        }
    }
    Ok(stream.write_all(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn releases_are_read_from_version_lines() {
        for (version, expected) in [
            ("OpenSSH_9.2p1", (9, 2)),
            ("OpenSSH_10.5p1", (10, 5)),
            ("OpenSSH_9", (9, 0)),
            ("", (0, 0)),
            ("OpenSSH_x", (0, 0)),
        ] {
            assert_eq!(release(version), expected, "{version}");
        }
    }

    #[test]
    fn a_peers_server_is_greeted_and_left() {
        let Ok(suite) = Suite::openssh() else {
            println!("skipped: no OpenSSH");
            return;
        };
        let harness = Harness::start(&suite, "").unwrap();
        read_version(harness.address()).unwrap();
        let method = exchange_keys(harness.address()).unwrap();
        assert!(method.contains("25519"), "{method}");
    }
}
