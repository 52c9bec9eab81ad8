//! The table of restrictions against our server and OpenSSH's.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use interop::account::is_root;
use interop::peers::ours::Kind;
use interop::process::installed;
use interop::report::skipped;
use restrictions::differences::{DIFFERENCES, Verdict, judge, of};
use restrictions::probe::outcomes;
use restrictions::row::{Outcomes, Row};
use restrictions::rows;
use restrictions::services::Services;

/// Parallel rows per core: a row mostly waits for other processes.
const ROWS_PER_CORE: usize = 2;

/// The outcomes of one row, and the logs of both servers.
#[derive(Default)]
struct Found {
    ours: (Outcomes, String),
    theirs: Option<(Outcomes, String)>,
}

/// Environment variables: with `RESTRICTIONS` only rows whose name contains its value run;
/// `RESTRICTIONS_LOGS` prints the logs of both servers for failed rows.
#[test]
fn what_the_holder_of_a_restricted_key_can_still_do() {
    let missing = [
        (!is_root(), "not root"),
        (installed("ssh").is_none(), "no OpenSSH client"),
        (installed("ssh-keygen").is_none(), "no ssh-keygen"),
        (installed("unshare").is_none(), "no unshare"),
    ];
    if let Some((_, why)) = missing.iter().find(|(is_missing, _)| *is_missing) {
        return skipped("the table of restrictions", why);
    }
    let with_theirs = installed("sshd").is_some();
    if !with_theirs {
        skipped(
            "the table of restrictions on OpenSSH's sshd",
            &"not installed",
        );
    }
    let only = std::env::var("RESTRICTIONS").unwrap_or_default();
    let mut rows = rows::all();
    rows.retain(|row| row.name.contains(&only) && is_possible(row));
    let found = run(&rows, with_theirs);
    let failures = compare(&rows, &found, only.is_empty());
    assert!(
        failures.is_empty(),
        "{} outcomes are not those of the table:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn is_possible(row: &Row) -> bool {
    let needs = [
        (row.with_tunnel, "/dev/net/tun"),
        (row.first.contains("X11Forwarding yes"), "/usr/bin/xauth"),
        (true, "/usr/lib/openssh/sftp-server"),
        (row.by_host, "/usr/lib/openssh/ssh-keysign"),
    ];
    let missing = needs
        .iter()
        .find(|(is_needed, path)| *is_needed && !std::path::Path::new(path).exists());
    if let Some((_, path)) = missing {
        skipped("rows of the table of restrictions", &format!("no {path}"));
    }
    missing.is_none()
}

fn run(rows: &[Row], with_theirs: bool) -> Vec<Found> {
    let services = Services::start();
    let workers = thread::available_parallelism().map_or(2, usize::from) * ROWS_PER_CORE;
    let next = AtomicUsize::new(0);
    let found: Vec<Mutex<Found>> = rows.iter().map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = rows.get(index) else { break };
                    let theirs = (with_theirs && !row.is_ours_alone)
                        .then(|| outcomes(row, Kind::OpenSsh, &services));
                    let ours = outcomes(row, Kind::Fulmar, &services);
                    *found[index].lock().expect("a lock") = Found { ours, theirs };
                }
            });
        }
    });
    found
        .into_iter()
        .map(|found| found.into_inner().expect("a lock"))
        .collect()
}

/// One line for each outcome that is neither in the table nor listed; for a `whole` run also one
/// for each listed difference that did not occur.
fn compare(rows: &[Row], found: &[Found], is_whole: bool) -> Vec<String> {
    let mut failures = Vec::new();
    let mut seen = BTreeSet::new();
    for (row, found) in rows.iter().zip(found) {
        let (ours, log) = &found.ours;
        let before = failures.len();
        for probe in probes(row, found) {
            let wanted = of(&row.expected, probe);
            let mut fail = |whose: &str, is: &str| {
                failures.push(format!(
                    "[{}] {probe}: {whose} {is:?}, the table {wanted:?}",
                    row.name
                ));
            };
            match judge(row, ours, probe) {
                Verdict::Same => {}
                Verdict::Listed(index) => {
                    seen.insert(index);
                }
                Verdict::Unlisted => fail("ours", of(ours, probe)),
            }
            match &found.theirs {
                // OpenSSH forwards no datagrams, leaves ports with the lost client, and takes no early
                // requests.
                Some(_) if probe.contains("udp") || ["takeover", "early"].contains(&probe) => {}
                Some((theirs, _)) if of(theirs, probe) != wanted => {
                    fail("OpenSSH", of(theirs, probe));
                }
                _ => {}
            }
        }
        if failures.len() > before && std::env::var_os("RESTRICTIONS_LOGS").is_some() {
            let theirs = found.theirs.as_ref().map_or("", |(_, log)| log);
            failures.push(format!("ours:\n{log}OpenSSH's:\n{theirs}"));
        }
    }
    for (index, difference) in DIFFERENCES.iter().enumerate() {
        if is_whole && !seen.contains(&index) {
            failures.push(format!("listed and gone: {difference:?}"));
        }
    }
    failures
}

/// Every probe in the table or in the results.
fn probes<'a>(row: &'a Row, found: &'a Found) -> BTreeSet<&'a str> {
    let theirs = found.theirs.as_ref().map(|(outcomes, _)| outcomes);
    [Some(&row.expected), Some(&found.ours.0), theirs]
        .into_iter()
        .flatten()
        .flat_map(|outcomes| outcomes.keys().copied())
        .collect()
}
