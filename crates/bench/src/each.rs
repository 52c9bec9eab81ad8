//! `each`: a command on a thousand hosts, which are names of one server; Fulmar's `each` beside pdsh,
//! clush and parallel-ssh with OpenSSH's client, and the memory of a connection that waits.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::idle::{REST, proportional_kib};
use super::options::BenchRow;
use super::rounds::{Bench, Miss, Sample};
use super::words::kill;
use crate::harness::{Harness, program};

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
/// Goal for the time of [`HOSTS`] logins with both ends on two cores, seconds.
const SECONDS_GOAL: f64 = 3.5;
/// Goal for the client's CPU time of the same, seconds.
const CPU_GOAL: f64 = 1.5;
/// Goal for the memory of a connection that waits, KiB.
const CONNECTION_GOAL: f64 = 100.0;
/// Hosts that have ended at each look at the process: after the first rounds, and on to the last one.
const LOOKS: [u32; 5] = [2000, 4000, 6000, 8000, IN_SEQUENCE - AT_ONCE];
/// Goal for the growth of the process from the first of [`LOOKS`] to the last, percent:
/// what an allocator's holes take differs from run to run.
const GROWTH_GOAL: f64 = 10.0;
/// The server's lines: its limits are not what is measured. A run that is ended in the middle of its logins
/// would be a reason for penalties.
const LINES: &str = "MaxStartups 10000\nPerSourcePenalties no";

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
    let mut harness = bench.harness(0, &bench.servers, LINES)?;
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
    let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let tool = Tool::ALL.get(index).copied().ok_or("no such program")?;
        let (value, usage) = timed(tool.command(&harness, HOSTS, "true")?)?;
        let cpu = Some(Cpu::of_client(usage.total().as_secs_f64()));
        Ok(Sample { value, cpu })
    });
    let cpu = group.entries.first().and_then(BenchEntry::cpu_median);
    group.judge("seconds", group.ours(), false, SECONDS_GOAL);
    group.judge(
        "client's CPU seconds",
        cpu.map(|cpu| cpu.client),
        false,
        CPU_GOAL,
    );
    emit(group);
    memory(bench, &harness).into_iter().for_each(emit);
    Ok(())
}

/// What a process has at one moment.
#[derive(Debug, Clone, Copy)]
struct ProcessState {
    kib: u64,
    descriptors: usize,
    threads: usize,
}

impl ProcessState {
    fn of(pid: u32) -> Result<Self, Miss> {
        let count = |directory: &str| -> std::io::Result<usize> {
            Ok(fs::read_dir(format!("/proc/{pid}/{directory}"))?.count())
        };
        Ok(Self {
            kib: proportional_kib(pid)?,
            descriptors: count("fd")?,
            threads: count("task")?,
        })
    }
}

/// The end of a run that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    /// The process is ended after the last look.
    Killed,
    /// All hosts have their turn, and none may fail.
    Whole,
}

/// Runs `command` on `hosts`, `at_once` at once, and looks at the process when this number of hosts has
/// written its line, each time after `rest`.
fn watched(
    harness: &Harness,
    (hosts, at_once): (u32, u32),
    command: &str,
    looks: &[u32],
    (rest, end): (Duration, RunEnd),
) -> Result<Vec<ProcessState>, Miss> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["each", "--prefix", "-n", &at_once.to_string(), "-F"])
        .arg(harness.client_config())
        .args([&format!("n[1-{hosts}]"), "--", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("no pipe")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut written = 0;
    let mut states = Vec::new();
    for look in looks {
        while written < *look && lines.next().is_some_and(|line| line.is_ok()) {
            written += 1;
        }
        if written < *look {
            break;
        }
        std::thread::sleep(rest);
        states.push(ProcessState::of(child.id())?);
    }
    if end == RunEnd::Killed || states.len() < looks.len() {
        kill(child.id());
    }
    written += u32::try_from(lines.map_while(Result::ok).count()).unwrap_or(u32::MAX);
    let status = child.wait()?;
    let is_whole = end == RunEnd::Killed || (status.success() && written == hosts);
    match states.len() == looks.len() && is_whole {
        true => Ok(states),
        false => Err(format!("{status}, {written} of {hosts} lines").into()),
    }
}

/// The memory of Fulmar's process for a connection that waits, and how it grows with the number of hosts.
fn memory(bench: &Bench, harness: &Harness) -> Vec<BenchGroup> {
    let [few, many] = IDLE_HOSTS;
    let group = |title: &str, entries: &[String], note: String| BenchGroup {
        row: BenchRow::Each.name(),
        title: title.to_owned(),
        unit: Unit::Kib,
        per: Per::Connection,
        entries: entries
            .iter()
            .map(|label| BenchEntry::new(label, EntryKind::Ours))
            .collect(),
        notes: vec![note],
    };
    let waiting = group(
        "memory of a connection that waits",
        &["Fulmar".to_owned()],
        format!(
            "PSS of a process with {many} connections, less that with {few}, divided by {}",
            many - few
        ),
    );
    let mut waiting = bench.alternate(waiting, 1, |_| {
        let kib = |hosts: u32| -> Result<f64, Miss> {
            let command = "echo begun; exec sleep 60";
            let end = (2 * REST, RunEnd::Killed);
            let states = watched(harness, (hosts, hosts), command, &[hosts], end)?;
            Ok(states.first().map_or(0.0, |state| in_kib(state.kib)))
        };
        let value = (kib(many)? - kib(few)?) / f64::from(many - few);
        Ok(Sample { value, cpu: None })
    });
    waiting.judge("KiB", waiting.ours(), false, CONNECTION_GOAL);
    let labels = LOOKS.map(|look| format!("after {look} hosts"));
    let growth = group(
        "memory of the process",
        &labels,
        format!("PSS in one run of {IN_SEQUENCE} hosts, {AT_ONCE} at once"),
    );
    let mut seen: Vec<ProcessState> = Vec::new();
    let mut growth = bench.alternate(growth, 1, |index| {
        if index == 0 || seen.is_empty() {
            let run = (IN_SEQUENCE, AT_ONCE);
            let end = (Duration::ZERO, RunEnd::Whole);
            seen = watched(harness, run, "echo done", &LOOKS, end)?;
        }
        let state = seen.get(index).ok_or("no such look")?;
        let value = in_kib(state.kib);
        Ok(Sample { value, cpu: None })
    });
    let counts: Vec<String> = seen
        .iter()
        .map(|state| format!("{} and {}", state.descriptors, state.threads))
        .collect();
    growth.notes.push(format!(
        "descriptors and threads at these times: {}",
        counts.join("; ")
    ));
    let ends = [growth.entries.first(), growth.entries.last()];
    if let [Some(early), Some(late)] = ends.map(|entry| entry?.median()) {
        let percent = (late / early - 1.0) * 100.0;
        growth.judge("growth in %", Some(percent), false, GROWTH_GOAL);
        growth
            .notes
            .push("each of the hosts succeeded: exit status 0, no line lost".to_owned());
    }
    vec![waiting, growth]
}

fn in_kib(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX))
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
