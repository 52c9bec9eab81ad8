//! `each`: a command on a thousand hosts, which are names of one server; Fulmar's `each` beside pdsh,
//! clush and parallel-ssh with OpenSSH's client, and the memory of a connection that waits.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::options::BenchRow;
use super::rounds::{Bench, Miss, Sample};
use crate::harness::{Harness, ServerHost, program};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// Hosts of a round.
const HOSTS: u32 = 1000;
/// Hosts at work at once.
const AT_ONCE: u32 = 512;
/// Hosts whose memory is compared.
const IDLE_HOSTS: [u32; 2] = [64, 512];
/// Logins of the part with many in sequence.
const IN_SEQUENCE: u32 = 10_000;
/// The server's lines: its limits are not what is measured.
const LINES: &str = "MaxStartups 10000";

/// A program that runs a command on many hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Each,
    Pdsh,
    Clush,
    ParallelSsh,
}

impl Tool {
    const ALL: [Self; 4] = [Self::Each, Self::Pdsh, Self::Clush, Self::ParallelSsh];

    fn label(self) -> &'static str {
        match self {
            Self::Each => "Fulmar",
            Self::Pdsh => "pdsh",
            Self::Clush => "clush",
            Self::ParallelSsh => "parallel-ssh",
        }
    }

    fn entry(self) -> BenchEntry {
        let kind = match self {
            Self::Each => EntryKind::Ours,
            _ => EntryKind::Peer,
        };
        BenchEntry::new(self.label(), kind)
    }

    /// The program with `true` for `hosts` hosts, all of which the configuration has.
    fn command(self, harness: &Harness, hosts: u32, command: &str) -> Result<Command, Miss> {
        let config = harness.client_config().display().to_string();
        let at_once = AT_ONCE.to_string();
        let range = format!("n[1-{hosts}]");
        let mut words = match self {
            Self::Each => Command::new(std::env::current_exe()?),
            other => Command::new(program(other.label()).map_err(Miss::Absent)?),
        };
        match self {
            Self::Each => {
                words.args(["each", "-F", &config, "-n", &at_once, &range, "--", command])
            }
            Self::Pdsh => words
                .env("PDSH_SSH_ARGS_APPEND", format!("-F {config}"))
                .args(["-R", "ssh", "-f", &at_once, "-w", &range, command]),
            Self::Clush => words.args([
                "-f",
                &at_once,
                "-w",
                &range,
                "-o",
                &format!("-F {config}"),
                command,
            ]),
            Self::ParallelSsh => {
                let list = harness.path("hosts");
                let names: String = (1..=hosts).map(|host| format!("n{host}\n")).collect();
                fs::write(&list, names)?;
                words.arg("-h").arg(list);
                words.args([
                    "-p",
                    &at_once,
                    "-x",
                    &format!("-F {config}"),
                    "-t",
                    "0",
                    command,
                ])
            }
        };
        Ok(words)
    }
}

/// Measures each program.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let mut harness = bench.harness(0, &ServerHost::here(), LINES)?;
    name_hosts(&harness).map_err(|error| error.to_string())?;
    harness.serve().map_err(|error| error.to_string())?;
    let group = BenchGroup {
        row: BenchRow::Each.name(),
        title: format!("true on {HOSTS} hosts"),
        unit: Unit::Seconds,
        per: Per::Copy,
        entries: Tool::ALL.map(Tool::entry).to_vec(),
        notes: vec![format!(
            "{AT_ONCE} at once; all hosts are names of one server of Fulmar; the other programs start \
             OpenSSH's ssh for each host"
        )],
    };
    emit(
        bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
            let tool = Tool::ALL.get(index).copied().ok_or("no such program")?;
            let (value, usage) = timed(tool.command(&harness, HOSTS, "true")?)?;
            let cpu = Some(Cpu::of_client(usage.total().as_secs_f64()));
            Ok(Sample { value, cpu })
        }),
    );
    emit(memory(bench, &harness));
    Ok(())
}

/// The memory of Fulmar's process with connections that wait, and after many.
fn memory(bench: &Bench, harness: &Harness) -> BenchGroup {
    let [few, many] = IDLE_HOSTS;
    let group = BenchGroup {
        row: BenchRow::Each.name(),
        title: "memory".to_owned(),
        unit: Unit::Kib,
        per: Per::Connection,
        entries: vec![
            BenchEntry::new("one connection that waits", EntryKind::Ours),
            BenchEntry::new(
                format!("the process, {IN_SEQUENCE} in sequence"),
                EntryKind::Ours,
            ),
            BenchEntry::new(format!("the process, {HOSTS}"), EntryKind::Ours),
        ],
        notes: vec![format!(
            "most memory of the process; one connection: that of {many} hosts with sleep 3, less that of \
             {few}, divided by {}",
            many - few
        )],
    };
    let peak = |hosts: u32, command: &str| -> Result<f64, Miss> {
        let (_, usage) = timed(Tool::Each.command(harness, hosts, command)?)?;
        let kib = u32::try_from(usage.peak_bytes / 1024).unwrap_or(u32::MAX);
        Ok(f64::from(kib))
    };
    bench.alternate(group, 1, |index| {
        let value = match index {
            0 => (peak(many, "sleep 3")? - peak(few, "sleep 3")?) / f64::from(many - few),
            1 => peak(IN_SEQUENCE, "true")?,
            _ => peak(HOSTS, "true")?,
        };
        Ok(Sample { value, cpu: None })
    })
}

/// Adds the names of the hosts to the client's configuration.
fn name_hosts(harness: &Harness) -> std::io::Result<()> {
    let address = harness.address();
    let mut config = fs::File::options()
        .append(true)
        .open(harness.client_config())?;
    write!(
        config,
        "Host n*\n HostName {}\n Port {}\n User {}\n",
        address.ip(),
        address.port(),
        harness.user()
    )
}

/// Runs a program, which must succeed: its seconds and what it used.
fn timed(mut command: Command) -> Result<(f64, sys::process::Usage), Miss> {
    let begun = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Miss::Absent(error.to_string()))?;
    let (status, usage) = sys::process::wait_usage(child)?;
    let value = begun.elapsed().as_secs_f64();
    match status.is_success() {
        true => Ok((value, usage)),
        false => Err("a host failed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_no_sample() {
        assert!(matches!(timed(Command::new("false")), Err(Miss::Failed(_))));
        let absent = timed(Command::new("no-such-program"));
        assert!(matches!(absent, Err(Miss::Absent(_))), "{absent:?}");
    }
}
