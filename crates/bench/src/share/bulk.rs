//! Bulk through masters and beside them: two downloads on one shared connection, on two, and by logins of
//! their own, which shows what a pool (`ControlConnections`) would gain if it spread bulk; and copies through a
//! master, by a login of their own, and by two connections of their own: down from our server, and up to a peer's,
//! whose window is small.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

use super::{OURS, SharedLine, ended_well, passenger, sample, serving, share};
use crate::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use crate::harness::{Harness, ServerHost};
use crate::options::BenchRow;
use crate::rounds::{Bench, Ends, Miss, Sample};
use crate::transfer::TransferFiles;

/// Downloads at once.
const AT_ONCE: usize = 2;
/// Size of a short copy, bytes.
const SHORT_BYTES: u64 = 1 << 10;
/// Part of a long copy that goes to a peer.
const PEERS_SHARE: u64 = 8;

/// Where the clients run.
pub(super) struct BulkPlace<'a> {
    pub(super) near: &'a ServerHost,
    /// The end of each title: the length of the path.
    pub(super) words: String,
    pub(super) files: &'a TransferFiles,
}

/// How the connections of several clients are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    OneMaster,
    TwoMasters,
    OwnLogins,
}

impl Spread {
    const ALL: [Self; 3] = [Self::OneMaster, Self::TwoMasters, Self::OwnLogins];

    fn label(self) -> &'static str {
        match self {
            Self::OneMaster => "one shared connection",
            Self::TwoMasters => "two shared connections",
            Self::OwnLogins => "two logins",
        }
    }

    fn masters(self) -> usize {
        match self {
            Self::OneMaster => 1,
            Self::TwoMasters => 2,
            Self::OwnLogins => 0,
        }
    }
}

/// How a file is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyBy {
    Master,
    OwnLogin,
    TwoConnections,
}

impl CopyBy {
    const ALL: [Self; 3] = [Self::Master, Self::OwnLogin, Self::TwoConnections];

    fn label(self) -> &'static str {
        match self {
            Self::Master => "scp through a master",
            Self::OwnLogin => "scp",
            Self::TwoConnections => "scp -n 2",
        }
    }
}

fn group(title: String, unit: Unit, labels: &[&str], note: String) -> BenchGroup {
    BenchGroup {
        row: BenchRow::Share.name(),
        title,
        unit,
        per: Per::Copy,
        entries: labels
            .iter()
            .map(|label| BenchEntry::new(*label, EntryKind::Ours))
            .collect(),
        notes: vec![note],
    }
}

/// Measures both, with our client at all servers of `ends`.
pub(super) fn measure(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    place: &BulkPlace<'_>,
    (ends, rounds): (&[Ends], usize),
    emit: &mut Emit<'_>,
) {
    if ends.contains(&OURS) {
        downloads(bench, harnesses, place, rounds, emit);
    }
    for ends in ends.iter().filter(|ends| ends.client == OURS.client) {
        copies(bench, harnesses, place, (*ends, rounds), emit);
    }
}

fn downloads(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    place: &BulkPlace<'_>,
    rounds: usize,
    emit: &mut Emit<'_>,
) {
    let mib = bench.settings.mib();
    let words = &place.words;
    let downloads = group(
        format!("two downloads at once{words}"),
        Unit::MibPerSecond,
        &Spread::ALL.map(Spread::label),
        format!("two of ssh host 'head -c {mib}M /dev/zero' >/dev/null, together"),
    );
    emit(bench.alternate(downloads, rounds, |index| {
        let spread = *Spread::ALL.get(index).ok_or("no such way")?;
        downloads_once(bench, harnesses, place.near, spread, mib)
    }));
}

fn copies(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    place: &BulkPlace<'_>,
    (ends, rounds): (Ends, usize),
    emit: &mut Emit<'_>,
) {
    let (mib, to, way) = match bench.suites.get(ends.server) {
        Some(peer) if ends != OURS => {
            let mib = (bench.settings.mib() / PEERS_SHARE).max(1);
            (mib, format!(" to {}", peer.name), "up")
        }
        _ => (bench.settings.mib(), String::new(), "down"),
    };
    for (title, unit, bytes) in [
        ("a copy of 1 KiB", Unit::Milliseconds, SHORT_BYTES),
        ("a copy", Unit::MibPerSecond, mib << 20),
    ] {
        let note = format!("scp of one file of {bytes} bytes, {way}");
        let labels = CopyBy::ALL.map(CopyBy::label);
        let copies = group(format!("{title}{to}{}", place.words), unit, &labels, note);
        let filled = place.files.fill(bytes);
        emit(bench.alternate(copies, rounds, |index| {
            filled.as_ref().map_err(ToString::to_string)?;
            let by = *CopyBy::ALL.get(index).ok_or("no such way")?;
            let seconds = copy_once(bench, harnesses, place, (ends, by))?;
            Ok(sample(match unit {
                Unit::Milliseconds => seconds * 1e3,
                _ => whole(mib) / seconds,
            }))
        }));
    }
}

fn whole(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn downloads_once(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    near: &ServerHost,
    spread: Spread,
    mib: u64,
) -> Result<Sample, Miss> {
    let harness = serving(harnesses, OURS)?;
    let lines: Vec<SharedLine> = (0..spread.masters())
        .map(|number| share(bench, harness, OURS, near, number))
        .collect::<Result<_, _>>()?;
    let command = format!("head -c {mib}M /dev/zero");
    let begin = Instant::now();
    let mut clients: Vec<Child> = Vec::new();
    for index in 0..AT_ONCE {
        let line = lines.get(index).or(lines.first());
        let mut client = passenger(bench, harness, OURS, line, &command)?;
        client.stdout(Stdio::piped());
        clients.push(near.spawn(client)?);
    }
    let mut readers = Vec::new();
    for client in &mut clients {
        let mut from = client.stdout.take().ok_or("no pipe")?;
        readers.push(thread::spawn(move || io::copy(&mut from, &mut io::sink())));
    }
    for reader in readers {
        let bytes = reader.join().map_err(|_| "a reader failed")??;
        if bytes != mib << 20 {
            return Err("bytes are missing".into());
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    clients.into_iter().try_for_each(ended_well)?;
    Ok(sample(whole(mib) * 2.0 / seconds))
}

/// The seconds of one copy.
fn copy_once(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    place: &BulkPlace<'_>,
    (ends, by): (Ends, CopyBy),
) -> Result<f64, Miss> {
    let harness = serving(harnesses, ends)?;
    let line = match by {
        CopyBy::Master => Some(share(bench, harness, ends, place.near, 0)?),
        CopyBy::OwnLogin | CopyBy::TwoConnections => None,
    };
    let suite = bench.suites.get(ends.client).ok_or("no such suite")?;
    let mut copier = suite.copier().map_err(Miss::Absent)?;
    let port = harness.address().port().to_string();
    copier
        .args(["-q", "-P", &port, "-F"])
        .arg(harness.client_config());
    let path = line
        .as_ref()
        .map_or_else(|| "none".to_owned(), |line| line.path.display().to_string());
    copier.arg("-o").arg(format!("ControlPath={path}"));
    if by == CopyBy::TwoConnections {
        copier.args(["-n", "2"]);
    }
    let (sent, arrived) = (place.files.sent(), place.files.arrived());
    let _ = fs::remove_file(&arrived);
    let remote = |path: &Path| format!("{}:{}", harness.destination(), path.display());
    match ends == OURS {
        true => copier.arg(remote(&sent)).arg(&arrived),
        false => copier.arg(&sent).arg(remote(&arrived)),
    };
    copier.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    ended_well(place.near.spawn(copier)?)?;
    let seconds = begin.elapsed().as_secs_f64();
    let [sent, copied] = [sent, arrived].map(|path| fs::metadata(path).map(|file| file.len()));
    match sent? == copied? {
        true => Ok(seconds),
        false => Err("bytes are missing".into()),
    }
}
