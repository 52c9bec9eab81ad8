//! `-C` with every peer: compressible and incompressible bulk data with small packets in between,
//! and key exchanges during transfers. Bytes are compared, and counted on the wire: missing
//! compression is a failure.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crypto::hash::HashAlgorithm;
use interop::fixture;
use interop::matrix::{self, Couple, REKEY_BYTES, noise};
use interop::peers::Order;
use interop::peers::ours::Kind;
use interop::process::{Background, Input, hex, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish};
use interop::suite::Algorithms;

const ZLIB: &str = "zlib@openssh.com";
const ZSTD: &str = "zstd2@fulmar.invalid";
/// Lines that are sent one by one, mostly one per packet.
const LINES: u32 = 300;

/// Four MiB: lines, zeros, incompressible bytes, and lines again.
fn data() -> Vec<u8> {
    let mut data = Vec::new();
    for number in 0..60_000_u32 {
        data.extend_from_slice(format!("line {number} of many\n").as_bytes());
    }
    data.resize(data.len() + 700_000, 0);
    data.extend_from_slice(&noise(700_000));
    for number in 0..60_000_u32 {
        data.extend_from_slice(format!("{} {number}\n", number.wrapping_mul(77_777)).as_bytes());
    }
    data
}

/// A port that forwards to another and counts the bytes.
struct Tap {
    port: u16,
    /// Bytes to the server and from it.
    bytes: Arc<[AtomicU64; 2]>,
}

impl Tap {
    fn new(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let bytes: Arc<[AtomicU64; 2]> = Arc::default();
        let counts = Arc::clone(&bytes);
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                    return;
                };
                for (index, from, to) in [(0, &client, &server), (1, &server, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        return;
                    };
                    let counts = Arc::clone(&counts);
                    thread::spawn(move || carry(from, to, &counts[index]));
                }
            }
        });
        Self { port, bytes }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut buffer = [0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        count.fetch_add(len as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn first(names: &[String]) -> Vec<String> {
    names.iter().take(1).cloned().collect()
}

fn round_trip(couple: &Couple, method: &str) {
    let common = match couple.common() {
        Ok(common) => common,
        Err((peer, why)) => return skipped(&peer, &why),
    };
    if !common.compression.iter().any(|name| name == method) {
        return skipped(&couple.name(), &"without compression");
    }
    let offer = Algorithms {
        kex: first(&common.kex),
        host_keys: first(&common.host_keys),
        ciphers: first(&common.ciphers),
        macs: first(&common.macs),
        compression: vec![method.to_owned()],
    };
    let server = couple
        .server
        .start(&offer, Some(REKEY_BYTES))
        .unwrap_or_else(|why| panic!("{why}"));
    let tap = Tap::new(server.daemon.port);
    let scratch = Scratch::new();
    let data = data();
    let file = scratch.write("data", &data);
    let known = fixture::known_hosts(&format!("[127.0.0.1]:{}", tap.port));
    let known_hosts = scratch.write("known_hosts", known);
    let command = format!("i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); done; cat");
    let order = Order {
        port: tap.port,
        known_hosts: &known_hosts,
        input: Input::File(&file),
        rekey_bytes: Some(REKEY_BYTES),
        ..server.order(&offer, &command)
    };
    let outcome = couple
        .client
        .run(&order)
        .unwrap_or_else(|why| panic!("{}: {why}; {}", couple.name(), server.daemon.log()));
    let lines: String = (0..LINES).map(|number| format!("{number}\n")).collect();
    let whole = [lines.as_bytes(), &data].concat();
    let digest = hex(HashAlgorithm::Sha256.digest(&whole).as_ref());
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert_eq!(outcome.stdout.sha256, digest, "{}", outcome.status);
    for (way, bytes) in ["to", "from"].iter().zip(tap.bytes.iter()) {
        let bytes = bytes.load(Ordering::Relaxed);
        // Uncompressed data would be more, and the incompressible part has 700,000 bytes.
        let most = data.len() as u64 * 3 / 5;
        assert!(
            (700_000..most).contains(&bytes),
            "{}: {bytes} bytes {way} the server for {}",
            couple.name(),
            data.len()
        );
    }
}

macro_rules! each_couple {
    ($($name:ident: $index:expr,)*) => {
        $(
            #[test]
            fn $name() {
                round_trip(&matrix::couples()[$index], ZLIB);
            }
        )*
    };
}

each_couple! {
    ours_to_ours: 0,
    ours_to_openssh: 1,
    ours_to_dropbear: 2,
    ours_to_asyncssh: 3,
    openssh_to_ours: 4,
    dbclient_to_ours: 5,
    plink_to_ours: 6,
    asyncssh_to_ours: 7,
    paramiko_to_ours: 8,
}

#[test]
fn ours_to_ours_by_zstd() {
    round_trip(&matrix::couples()[0], ZSTD);
}

/// The output of `ssh -v` with `Compression zstd` and a server whose configuration starts with
/// `there`, and the returned data.
fn told(server: Kind, there: &str, here: &str) -> (String, bool) {
    let site = Site::new(Kind::Fulmar, server, there);
    let data = data();
    let arguments = ["-vv", HOST, "cat"];
    let outcome = site.run_with(here, &arguments, Input::Bytes(&data));
    let digest = hex(HashAlgorithm::Sha256.digest(&data).as_ref());
    (outcome.stderr.text(), outcome.stdout.sha256 == digest)
}

#[test]
fn zstd_is_used_where_both_ask_for_it_and_is_told() {
    for (here, says) in [
        ("Compression zstd\n", "engine zstd 1."),
        (
            "Compression zstd\nCompressionLevel 9\nCompressionAdaptive no\n",
            "asked for 9",
        ),
        ("Compression zstd\nRekeyLimit 300K\n", "engine zstd 1."),
    ] {
        let (said, whole) = told(Kind::Fulmar, "Compression zstd\nRekeyLimit 500K\n", here);
        assert!(whole, "{said}");
        for expected in [
            &format!("compression: {ZSTD}"),
            "compression: engine zstd 1.",
            " zstd, ",
            "compress outgoing: raw data ",
            "compress incoming: raw data ",
            says,
        ] {
            assert!(said.contains(expected), "{here}: no {expected:?}: {said}");
        }
    }
}

#[test]
fn who_does_not_know_zstd_or_did_not_ask_for_it_has_zlib() {
    let zstd = "Compression zstd\n";
    for (server, there, here, why) in [
        (Kind::Fulmar, "", zstd, "the server does not offer it"),
        (Kind::Fulmar, zstd, "Compression yes\n", ""),
        (Kind::OpenSsh, "", zstd, "the server does not offer it"),
    ] {
        if let Err(why) = server.sshd() {
            skipped("zstd to openssh", &why);
            continue;
        }
        let (said, whole) = told(server, there, here);
        assert!(whole, "{said}");
        assert!(said.contains(&format!("compression: {ZLIB}")), "{said}");
        assert!(said.contains("engine internal"), "{said}");
        assert!(said.contains(why), "{said}");
    }
    // It is not offered by default, nor with -C.
    let quiet = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let port = quiet.running.daemon.port;
    let offered = interop::offers::of_server(port).expect("a KEXINIT");
    assert!(offered.compression.contains(&ZLIB.to_owned()));
    assert!(!offered.compression.contains(&ZSTD.to_owned()));
    for (flags, expected) in [
        (&[][..], false),
        (&["-C"], false),
        (&["-o", "Compression=zstd"], true),
    ] {
        let offered = interop::offers::of_client(|port| {
            let mut command = quiet.ssh("");
            command.args(flags);
            command.args(["-p", &port.to_string(), "127.0.0.1", "true"]);
            command
        });
        let offered = offered.expect("a KEXINIT").compression;
        assert_eq!(offered.contains(&ZSTD.to_owned()), expected, "{offered:?}");
    }
}

/// A large file, many small files, and an incompressible one.
fn tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.join("tree");
    std::fs::create_dir_all(root.join("many")).expect("a folder");
    std::fs::write(root.join("bulk"), data()).expect("a file");
    std::fs::write(root.join("noise"), noise(500_000)).expect("a file");
    for number in 0..100 {
        let path = root.join(format!("many/{number}"));
        std::fs::write(path, format!("{number} ").repeat(number)).expect("a file");
    }
    root
}

fn same(one: &Path, other: &Path) -> bool {
    let all = ["bulk".to_owned(), "noise".to_owned()];
    let all = all
        .into_iter()
        .chain((0..100).map(|number| format!("many/{number}")));
    all.into_iter().all(|name| {
        let read = |root: &Path| std::fs::read(root.join(&name)).ok();
        read(one).is_some() && read(one) == read(other)
    })
}

#[test]
fn rsync_goes_up_and_down_behind_our_client_with_c() {
    let Some(rsync) = installed("rsync") else {
        return skipped("rsync -e 'ssh -C'", &"rsync is not installed");
    };
    for server in [Kind::OpenSsh, Kind::Fulmar] {
        if let Err(why) = server.sshd() {
            skipped("rsync -e 'ssh -C' to openssh", &why);
            continue;
        }
        let site = Site::new(Kind::Fulmar, server, "");
        let scratch = Scratch::new();
        let root = tree(&scratch);
        let (up, down) = (scratch.join("up"), scratch.join("down"));
        let carrier = format!("{} -C -v", site.wrapper().display());
        let here = |path: &Path| format!("{}/", path.display());
        let there = |path: &Path| format!("{HOST}:{}/", path.display());
        for (from, to) in [(here(&root), there(&up)), (there(&up), here(&down))] {
            let mut command = Command::new(&rsync);
            command.args(["-a", "-e", &carrier, &from, &to]);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            let said = outcome.stderr.text();
            assert!(said.contains("compress outgoing: raw data"), "{said}");
        }
        assert!(same(&root, &up) && same(&root, &down));
    }
}

/// The token that one session carries and another one guesses, and another token.
const TOKEN: &str = "X-Token: 8d1f0a77c3e94b62a5507e16f2bb930c4471f09be8d2a6335c\n";
const WRONG: &str = "X-Token: b3096c5ea24d71f80e9c43a7d6158f2b90ac8e5d17f34b6208\n";

/// Time limit for the master's login.
const PATIENCE: Duration = Duration::from_secs(60);

/// A master connection with `-C` of Debian's `ssh`, on which sessions are opened one by one.
struct Master<'s> {
    site: &'s Site,
    tap: Tap,
    _running: Background,
    options: Vec<String>,
}

impl<'s> Master<'s> {
    fn new(site: &'s Site) -> Self {
        let tap = Tap::new(site.running.daemon.port);
        let scratch = site.running.daemon.scratch();
        let socket = scratch.join(&format!("master.{}", tap.port));
        let known = fixture::known_hosts(&format!("[127.0.0.1]:{}", tap.port));
        let known = scratch.write(&format!("known_hosts.{}", tap.port), known);
        let options = vec![
            "-C".to_owned(),
            format!("-oPort={}", tap.port),
            format!("-oUserKnownHostsFile={}", known.display()),
            format!("-oControlPath={}", socket.display()),
        ];
        let mut master = site.ssh("");
        master.args(&options).args(["-M", "-N", HOST]);
        let running = Background::start(&mut master).expect("ssh starts");
        assert!(until(PATIENCE, || socket.exists()), "no master");
        Self {
            site,
            tap,
            _running: running,
            options,
        }
    }

    /// Bytes from the server for a session that prints `text`.
    fn bytes_for(&self, text: &str) -> u64 {
        let before = self.tap.bytes[1].load(Ordering::Relaxed);
        let mut command = self.site.ssh("");
        command
            .args(&self.options)
            .args(["-oControlMaster=no", HOST, "cat"]);
        let outcome = finish(&mut command, Input::Bytes(text.as_bytes()));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        self.tap.bytes[1].load(Ordering::Relaxed) - before
    }
}

/// Bulk data and lines of two sessions at once, with similar content: OpenSSH's inflate reads our
/// server's output for both, serial and in runs.
#[test]
fn two_sessions_at_once_come_whole_to_openssh() {
    if let Err(why) = Kind::OpenSsh.ssh() {
        return skipped("two sessions on one connection", &why);
    }
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, "Compression yes\n");
    let master = Master::new(&site);
    let data = data();
    let digest = hex(HashAlgorithm::Sha256.digest(&data).as_ref());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut command = site.ssh("");
                command
                    .args(&master.options)
                    .args(["-oControlMaster=no", HOST, "cat"]);
                let outcome = finish(&mut command, Input::Bytes(&data));
                assert_eq!(outcome.status, 0, "{}", outcome.summary());
                assert_eq!(outcome.stdout.sha256, digest);
            });
        }
    });
    let bytes = master.tap.bytes[1].load(Ordering::Relaxed);
    let most = 2 * data.len() as u64 * 3 / 5;
    assert!((1_400_000..most).contains(&bytes), "{bytes} bytes");
}

/// "Crossing the Streams": a user of one session on a connection with `-C` learns from the bytes on
/// the wire what another session prints. This works with Debian's sshd 9.2, but not with ours.
#[test]
fn a_session_does_not_show_what_another_one_prints() {
    for server in [Kind::OpenSsh, Kind::Fulmar] {
        if let Err(why) = Kind::OpenSsh.ssh().and(server.sshd()) {
            skipped("two sessions on one connection", &why);
            continue;
        }
        let site = Site::new(Kind::OpenSsh, server, "Compression yes\n");
        // A session's bytes besides its data are the same each time, or sometimes fewer.
        let of = |guess: &str| {
            let bytes = (0..3).map(|_| {
                let master = Master::new(&site);
                master.bytes_for(TOKEN);
                master.bytes_for(guess)
            });
            bytes.min().unwrap_or_default()
        };
        let (right, wrong) = (of(TOKEN), of(WRONG));
        match server {
            Kind::OpenSsh => assert!(right + 16 <= wrong, "no leak: {right} and {wrong}"),
            Kind::Fulmar => assert_eq!(right, wrong, "a right guess and a wrong one"),
        }
    }
}
