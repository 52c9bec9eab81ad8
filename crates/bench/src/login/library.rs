//! The login of the library, in this process, to a server of ours: from the connection to the
//! command's exit. What the program needs beyond that is measured by starting it for nothing.

use std::process::Stdio;
use std::time::Instant;

use fulmar::client::{Auth, Config, KnownHosts, LoginCache, Session};
use fulmar::keys::private_file;

use super::super::figures::{BenchEntry, Cpu, EntryKind, Miss};
use super::super::rounds::Sample;
use crate::harness::{Harness, Suite};

pub(super) const NOTE: &str = "library: fulmar::client in a process that runs on, with its cache in memory; compare with the \
     program less its start (ssh -V)";

/// One of the entries.
#[derive(Debug)]
pub(super) enum LibraryVisit {
    /// A login with this cache.
    Login(Option<LoginCache>),
    /// The program, started and ended.
    Start,
}

pub(super) fn visits() -> Vec<(LibraryVisit, BenchEntry)> {
    let cache = LibraryVisit::Login(Some(LoginCache::in_memory()));
    vec![
        (cache, BenchEntry::new("library", EntryKind::Ours)),
        (
            LibraryVisit::Login(None),
            BenchEntry::new("library, cold", EntryKind::Ours),
        ),
        (
            LibraryVisit::Start,
            BenchEntry::new("start of the program", EntryKind::Ours),
        ),
    ]
}

/// One round: ms.
pub(super) fn once(visit: &LibraryVisit, suite: &Suite, harness: &Harness) -> Result<Sample, Miss> {
    let begun = Instant::now();
    let cpu = match visit {
        LibraryVisit::Login(cache) => {
            login(cache.clone(), harness).map_err(|error| harness.complaint(error.to_string()))?;
            None
        }
        LibraryVisit::Start => Some(start(suite)?),
    };
    Ok(Sample {
        value: begun.elapsed().as_secs_f64() * 1e3,
        cpu,
    })
}

fn login(cache: Option<LoginCache>, harness: &Harness) -> Result<(), Box<dyn std::error::Error>> {
    let file = private_file::load(&harness.path("user_key"))?;
    let key = private_file::parse(&file, None)?.key;
    let mut config = Config::new(KnownHosts::new([harness.path("known_hosts")]));
    config.login_cache = cache;
    let address = harness.address();
    let mut session = Session::connect(&address.ip().to_string(), address.port(), config)?;
    let start = session.authenticate_and_start(harness.user(), Auth::Key(&key));
    match start.run("true")?.exit.is_success() {
        true => Ok(()),
        false => Err("the command failed".into()),
    }
}

fn start(suite: &Suite) -> Result<Cpu, Miss> {
    let mut client = suite.client();
    client
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = client.spawn().map_err(|error| error.to_string())?;
    let (_, usage) = sys::process::wait_usage(child)?;
    Ok(Cpu {
        client: usage.total().as_secs_f64(),
        server: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_logs_in_to_a_server_of_the_machine() {
        let Ok(suite) = Suite::openssh() else {
            println!("skipped: no OpenSSH");
            return;
        };
        let harness = Harness::start(&suite, "").unwrap();
        for (visit, entry) in visits() {
            let sample = once(&visit, &suite, &harness).unwrap();
            assert!(sample.value > 0.0, "{}", entry.label);
        }
    }
}
