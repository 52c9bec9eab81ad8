//! Logins with every algorithm that two programs share.
//!
//! [`Check::Command`] runs one command per suite and compares its output and exit status;
//! [`Check::RoundTrip`] sends some MiB through `cat` with a change of keys each MiB.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use crypto::hash::HashAlgorithm;

use crate::covering;
use crate::peers::ours::Kind;
use crate::peers::{Client, Order, Running, Server, foreign_clients, foreign_servers, openssh};
use crate::process::{Input, hex};
use crate::report::{Failures, is_whole_run, skipped};
use crate::suite::{Algorithms, Space, Suite, is_aead};

/// Bytes of [`test_data`], and in each direction of a round trip in a whole run.
pub const TEST_DATA_BYTES: usize = 10 << 20;
/// Bytes in each direction of other round trips: more than the common window of 2 MiB. Most of the time is
/// that of the peers' key exchanges, and of programs in Python for the data.
const SHORT_BYTES: usize = 3 << 20;
/// Bytes between key exchanges in a round trip.
pub const REKEY_BYTES: u64 = 1 << 20;

/// The tested rows of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Every pair of algorithms at least once.
    Pairs,
    /// All.
    Product,
}

/// The test of each suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// One command with known output and status.
    Command,
    /// Much data in both directions, compared by SHA-256.
    RoundTrip,
}

/// A client and a server, at least one of them Fulmar's.
#[derive(Clone)]
pub struct Couple {
    /// The client.
    pub client: Arc<dyn Client>,
    /// The server.
    pub server: Arc<dyn Server>,
}

impl Couple {
    /// Both names.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} -> {}", self.client.name(), self.server.name())
    }

    /// The common algorithms, with hints of which peer is missing.
    ///
    /// # Errors
    /// Name and reason of the first unavailable program.
    pub fn common(&self) -> Result<Algorithms, (String, String)> {
        let client = self
            .client
            .offers()
            .map_err(|why| (self.client.name(), why))?;
        let server = self
            .server
            .offers()
            .map_err(|why| (self.server.name(), why))?;
        let mut common = client.common(&server);
        if common.macs.is_empty() {
            common.ciphers.retain(|cipher| is_aead(cipher));
        }
        Ok(common)
    }
}

/// Our client with each foreign server, each foreign client with our server, and ours with ours.
#[must_use]
pub fn couples() -> Vec<Couple> {
    let ours = Kind::tested();
    let client: Arc<dyn Client> = Arc::new(openssh::Ssh(ours));
    let server: Arc<dyn Server> = Arc::new(openssh::Sshd(ours));
    let mut couples = vec![Couple {
        client: client.clone(),
        server: server.clone(),
    }];
    couples.extend(foreign_servers().into_iter().map(|server| Couple {
        client: client.clone(),
        server,
    }));
    couples.extend(foreign_clients().into_iter().map(|client| Couple {
        client,
        server: server.clone(),
    }));
    couples
}

/// The suites for a check.
#[must_use]
pub fn suites(common: &Algorithms, rows: Rows, check: Check) -> Vec<Suite> {
    let space = Space::new(common.clone());
    let allowed = |one, other| space.allows(one, other);
    match (check, rows) {
        (Check::RoundTrip, _) => {
            if space.sizes().contains(&0) {
                return Vec::new();
            }
            space.ciphers_by_macs()
        }
        (Check::Command, Rows::Pairs) => covering::pairs(&space.sizes(), allowed)
            .iter()
            .map(|row| space.suite(row))
            .collect(),
        (Check::Command, Rows::Product) => covering::product(&space.sizes(), allowed)
            .iter()
            .map(|row| space.suite(row))
            .collect(),
    }
}

/// The result of a couple.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of suites that ran.
    pub run: usize,
    /// The failures, one line each.
    pub failures: Vec<String>,
}

/// Runs every suite, `workers` at once; calls `progress` with the number of completed ones.
#[must_use]
pub fn run(
    couple: &Couple,
    common: &Algorithms,
    suites: &[Suite],
    check: Check,
    workers: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Tally {
    let rekey = (check == Check::RoundTrip).then_some(REKEY_BYTES);
    let start = || couple.server.start(common, rekey);
    let shares = couple.client.chooses();
    let at_once = couple.server.logins_at_once();
    let single = at_once == 1;
    let workers = if single {
        workers
    } else {
        workers.min(at_once)
    };
    let mut shared = None;
    if shares && !single {
        match start() {
            Ok(server) => shared = Some(server),
            Err(why) => {
                let failures = vec![format!("{}: {why}", couple.name())];
                return Tally { run: 0, failures };
            }
        }
    }
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let fail = |suite: &Suite, why: String| {
        let line = format!("{}: {suite}: {why}", couple.name());
        failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    };
    let work = || {
        // A worker's own server, if the peer cannot serve several logins at once.
        let mut own = None;
        while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
            if shares && single && own.is_none() {
                match start() {
                    Ok(server) => own = Some(server),
                    Err(why) => fail(suite, why),
                }
            }
            if let Err(why) = once(couple, shared.as_ref().or(own.as_ref()), suite, check) {
                fail(suite, why);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(work);
        }
    });
    let mut failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if let (false, Some(server)) = (failures.is_empty(), &shared) {
        let log = server.daemon.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n    ");
        failures.push(format!(
            "{}: the end of the server's log:\n    {last}",
            couple.name()
        ));
    }
    Tally {
        run: suites.len(),
        failures,
    }
}

fn once(
    couple: &Couple,
    shared: Option<&Running>,
    suite: &Suite,
    check: Check,
) -> Result<(), String> {
    let offer = Algorithms::only(suite);
    let rekey = (check == Check::RoundTrip).then_some(REKEY_BYTES);
    let own;
    let server = match shared {
        Some(server) => server,
        None => {
            own = couple.server.start(&offer, rekey)?;
            &own
        }
    };
    let result = match check {
        Check::Command => command(couple, server, &offer),
        Check::RoundTrip => round_trip(couple, server, &offer),
    };
    match (result, shared) {
        (Err(why), None) => Err(format!("{why}; the server says {:?}", server.daemon.log())),
        (result, _) => result,
    }
}

fn command(couple: &Couple, server: &Running, offer: &Algorithms) -> Result<(), String> {
    // Another text and status for each cipher, so that no answer matches by chance.
    let cipher = offer.ciphers.first().map_or("", String::as_str);
    let status = 1 + i32::try_from(cipher.len()).unwrap_or(0) % 100;
    let command = format!("printf 'said by %s' {cipher}; printf apart >&2; exit {status}");
    let outcome = couple.client.run(&server.order(offer, &command))?;
    let wanted = format!("said by {cipher}");
    if outcome.status == status
        && outcome.stdout.text() == wanted
        && outcome.stderr.text().contains("apart")
    {
        Ok(())
    } else {
        Err(format!(
            "wanted status {status} and {wanted:?}: {}",
            outcome.summary()
        ))
    }
}

fn round_trip(couple: &Couple, server: &Running, offer: &Algorithms) -> Result<(), String> {
    let (data, digest) = match is_whole_run() {
        true => test_data(),
        false => short_data(),
    };
    // paramiko answers CLOSE on the only thread that can finish a key exchange, and waits there for
    // the end of an exchange that it has requested itself: CLOSE must not follow data that make it
    // request one.
    let command = if couple.client.name() == "paramiko" {
        "cat; sleep 1"
    } else {
        "cat"
    };
    let order = Order {
        input: Input::File(data),
        rekey_bytes: Some(REKEY_BYTES),
        ..server.order(offer, command)
    };
    let outcome = couple.client.run(&order)?;
    if outcome.status == 0 && outcome.stdout.sha256 == *digest {
        Ok(())
    } else {
        Err(format!(
            "the bytes differ: {}",
            outcome.summary().chars().take(600).collect::<String>()
        ))
    }
}

/// A file of [`TEST_DATA_BYTES`] incompressible bytes, and its SHA-256 in hex.
///
/// # Panics
/// If it cannot be written.
pub fn test_data() -> (&'static Path, &'static str) {
    static DATA: OnceLock<(PathBuf, String)> = OnceLock::new();
    let (path, digest) = DATA.get_or_init(|| stored("round_trip", TEST_DATA_BYTES));
    (path, digest)
}

/// The same of [`SHORT_BYTES`].
fn short_data() -> (&'static Path, &'static str) {
    static DATA: OnceLock<(PathBuf, String)> = OnceLock::new();
    let (path, digest) = DATA.get_or_init(|| stored("short_round_trip", SHORT_BYTES));
    (path, digest)
}

/// A file of this name with [`noise`], which exists or is written, and its SHA-256 in hex.
fn stored(name: &str, length: usize) -> (PathBuf, String) {
    let bytes = noise(length);
    let digest = hex(HashAlgorithm::Sha256.digest(&bytes).as_ref());
    let path = crate::fixture::file(&format!("{name}.data"));
    if fs::read(&path).is_ok_and(|old| old == bytes) {
        return (path, digest);
    }
    let fresh = crate::fixture::file(&format!("{name}.{}", std::process::id()));
    fs::write(&fresh, &bytes).expect("the data for round trips");
    fs::rename(&fresh, &path).expect("the data for round trips");
    (path, digest)
}

/// Incompressible bytes, the same in each run.
#[must_use]
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// One couple's test: skips what is not installed, fails with all failures.
///
/// # Panics
/// If a suite fails.
pub fn test(couple: &Couple, check: Check) {
    let common = match couple.common() {
        Ok(common) => common,
        Err((peer, why)) => return skipped(&peer, &why),
    };
    let suites = suites(&common, Rows::Pairs, check);
    assert!(
        !suites.is_empty(),
        "{} have nothing in common: {common:?}",
        couple.name()
    );
    let again = || run(couple, &common, &suites, check, 2, &|_| ());
    let mut tally = again();
    // dbclient 2022.83 checks whether its channel is closed before it writes its buffered standard
    // output, not after it, and then waits for a message that nobody has to send: 1 of 137
    // connections to Fulmar, 1 of 78 to OpenSSH 9.2 with these rekeys, three at once.
    let stands_still = |line: &String| line.contains("still running after");
    if couple.name().starts_with("dbclient") && tally.failures.iter().any(stands_still) {
        eprintln!("{}: stood still, and is tried once more", couple.name());
        tally = again();
    }
    let mut failures = Failures::new();
    for line in tally.failures {
        failures.add(line);
    }
    failures.settle();
}

/// A test for each couple, by its name, that does `$check` with all pairs of its algorithms.
#[macro_export]
macro_rules! test_each_couple {
    ($check:expr) => {
        $crate::test_each_couple! {
            $check,
            ours_ssh_ours_sshd: 0,
            ours_ssh_openssh_sshd: 1,
            ours_ssh_dropbear: 2,
            ours_ssh_asyncssh_server: 3,
            openssh_ssh_ours_sshd: 4,
            dbclient_ours_sshd: 5,
            plink_ours_sshd: 6,
            asyncssh_ours_sshd: 7,
            paramiko_ours_sshd: 8,
        }
    };
    ($check:expr, $($name:ident: $index:expr,)*) => {
        $(
            #[test]
            fn $name() {
                let couple = &$crate::matrix::couples()[$index];
                let ours = $crate::peers::ours::Kind::tested().name();
                assert_eq!(
                    couple.name().replace([' ', '-', '>'], ""),
                    stringify!($name).replace("ours", ours).replace('_', "")
                );
                $crate::matrix::test(couple, $check);
            }
        )*
    };
}
