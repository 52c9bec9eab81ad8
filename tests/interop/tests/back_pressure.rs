//! A reader that stops also stops the sender, and no process of ours stores more than its windows.

use std::fs::{self, File};
use std::io::{self, Read};
use std::process::{Child, Stdio};

use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, descendants, wait};
use interop::report::say;
use interop::scratch::until;
use interop::site::{HOST, Site, each};

const MIB: u64 = 1 << 20;
/// Bytes that the sender would send.
const SOURCE: u64 = 2048 * MIB;
/// Bytes that the reader reads before it stops, so that windows grow.
const TAKEN: u64 = 64 * MIB;
/// Limit on the other side's data that our side may store, bytes.
const WINDOW_MEMORY: u64 = 16 * MIB;
/// Other memory of one of our processes: its code and its receive slabs, bytes.
const OWN: u64 = 32 * MIB;
/// Limit on the data in sockets and pipes of the kernel, bytes.
const KERNEL: u64 = 64 * MIB;

fn limit(kind: Kind) -> String {
    match kind {
        Kind::Fulmar => format!("WindowMemory {WINDOW_MEMORY}\n"),
        Kind::OpenSsh => String::new(),
    }
}

/// A number of a file in /proc/PID.
fn figure(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Bytes that processes have read and written so far.
fn moved(pids: &[u32]) -> u64 {
    let io = |pid: &u32, name| figure(*pid, "io", name).unwrap_or(0);
    pids.iter()
        .map(|pid| io(pid, "rchar:") + io(pid, "wchar:"))
        .sum()
}

/// Waits until the processes of both sides are idle.
fn comes_to_rest(site: &Site, client: &Child) -> bool {
    let (mut last, mut same) = (0, 0);
    until(COMMAND_LIMIT, || {
        let mut all = descendants(site.running.daemon.pid());
        all.push(client.id());
        let now = moved(&all);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 50
    })
}

/// The largest peak memory of our processes of this couple.
fn assert_bounded(site: &Site, client: &Child, server: Kind, what: &str) {
    let mut ours = Vec::new();
    if site.client == Kind::Fulmar {
        ours.push(client.id());
    }
    if server == Kind::Fulmar {
        ours.extend(descendants(site.running.daemon.pid()));
    }
    let peaks = ours
        .iter()
        .filter_map(|pid| figure(*pid, "status", "VmHWM:"));
    let peak = peaks.max().expect("a process of ours") * 1024;
    say(&format!(
        "back pressure: {what}, {} ssh -> {} sshd: {} MiB at most",
        site.client.name(),
        server.name(),
        peak / MIB
    ));
    assert!(peak <= WINDOW_MEMORY + OWN, "{what}: {peak} bytes");
}

#[test]
fn a_stopped_reader_of_a_download_stops_the_server() {
    each(|client, server| {
        let site = Site::new(client, server, &limit(server));
        let mut command = site.ssh(&limit(client));
        command
            .args([HOST, &format!("head -c {SOURCE} /dev/zero")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = Background::start(&mut command).expect("a client");
        let mut output = child.0.stdout.take().expect("its output");
        let taken = io::copy(&mut (&mut output).take(TAKEN), &mut io::sink()).expect("output");
        assert_eq!(taken, TAKEN);
        assert!(comes_to_rest(&site, &child.0), "never at rest");
        assert_bounded(&site, &child.0, server, "download");
        let come = figure(child.0.id(), "io", "rchar:").expect("a client");
        assert!(come < TAKEN + WINDOW_MEMORY + KERNEL, "{come} bytes came");
        // All data arrive when the reader continues.
        let rest = io::copy(&mut output, &mut io::sink()).expect("output");
        assert_eq!(taken + rest, SOURCE);
        assert!(wait(&mut child.0, COMMAND_LIMIT).expect("an end").success());
    });
}

#[test]
fn a_stopped_reader_of_an_upload_stops_the_client() {
    each(|client, server| {
        let site = Site::new(client, server, &limit(server));
        let mut command = site.ssh(&limit(client));
        command
            .args([
                HOST,
                &format!("head -c {TAKEN} >/dev/null; echo stopped; exec sleep 300"),
            ])
            .stdin(File::open("/dev/zero").expect("a source without end"))
            .stdout(Stdio::piped());
        let mut child = Background::start(&mut command).expect("a client");
        let mut word = [0; 7];
        let output = child.0.stdout.as_mut().expect("its output");
        output.read_exact(&mut word).expect("the reader stops");
        assert!(comes_to_rest(&site, &child.0), "never at rest");
        assert_bounded(&site, &child.0, server, "upload");
        let sent = figure(child.0.id(), "io", "rchar:").expect("a client");
        assert!(
            sent < TAKEN + WINDOW_MEMORY + KERNEL,
            "{sent} bytes were read"
        );
    });
}
