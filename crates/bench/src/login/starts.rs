//! What a login cannot take less than: its programs started and ended, without SSH. A client, the
//! three that a server executes afresh for each connection, and the user's shell, one after the
//! other; how long that takes is the machine's, and differs more between machines than anything
//! else in a login.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::super::figures::{BenchEntry, Cpu, EntryKind, Miss};
use super::super::rounds::Sample;

/// A dynamic program that needs the C library alone, and does nothing.
const EMPTY: &str = "true";
/// How many of them a server of ours executes for a login.
const ROLES: usize = 3;
/// Logins a round: one alone is over before the machine has awoken.
const TIMES: u32 = 10;

pub(super) const NOTE: &str = "no SSH: as many programs without work, true for the client and three times for \
     the server, sh -c true";

pub(super) fn entry() -> BenchEntry {
    BenchEntry::new("no SSH", EntryKind::Limit)
}

/// One round: milliseconds of all programs, and CPU seconds of those that represent the client and
/// the server.
pub(super) fn once() -> Result<Sample, Miss> {
    let (mut client, mut server) = (0.0, 0.0);
    let begun = Instant::now();
    for _ in 0..TIMES {
        client += run(EMPTY, &[])?;
        for _ in 0..ROLES {
            server += run(EMPTY, &[])?;
        }
        server += run("sh", &["-c", "true"])?;
    }
    let times = f64::from(TIMES);
    Ok(Sample {
        value: begun.elapsed().as_secs_f64() * 1e3 / times,
        cpu: Some(Cpu {
            client: client / times,
            server: server / times,
        }),
    })
}

/// Runs a program to its end: the CPU seconds that it took.
fn run(program: &str, arguments: &[&str]) -> Result<f64, Miss> {
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Miss::Absent(format!("{program}: {error}")))?;
    let (status, usage) = sys::process::wait_usage(child)?;
    if !status.is_success() {
        return Err(format!("{program}: {status:?}").into());
    }
    Ok(usage.total().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_take_time_and_a_program_that_is_not_there_is_told() {
        let sample = once().unwrap();
        let cpu = sample.cpu.unwrap();
        assert!(sample.value > 0.0 && cpu.client > 0.0);
        assert!(cpu.server > cpu.client, "{cpu:?}");
        let missing = run("no-such-program-of-ours", &[]).unwrap_err();
        assert!(matches!(missing, Miss::Absent(_)), "{missing:?}");
        let failed = run("false", &[]).unwrap_err();
        assert!(matches!(failed, Miss::Failed(_)), "{failed:?}");
    }
}
