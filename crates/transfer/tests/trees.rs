//! Trees between Fulmar's client and server, without a connection between them: as one stream by
//! default, and with the same result directory by directory.

mod adversary;
mod served;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use sftp::server::Permits;
use sftp::server::Serve;
use transfer::engine::{EngineError, Exchange, Transport};
use transfer::get::{Get, Item};
use transfer::options::{Options, Resume};
use transfer::put::{self, Put};
use transfer::remote::Remote;

use adversary::{Heard, Place, bytes};
use served::{Plain, Silent};

/// Fulmar's server, driven by the test.
struct Direct {
    serve: Serve,
    /// Maximum number of bytes that the server had queued.
    waited: usize,
    /// Number of bytes received from the server.
    came: usize,
    /// Number of bytes that the client sent.
    sent: usize,
}

impl Direct {
    fn new(permits: Permits) -> Self {
        let place = sys::fs::PathRoot::everywhere(b"/").unwrap();
        Self {
            serve: Serve::new(place, permits, 500, Box::new(Silent)),
            waited: 0,
            came: 0,
            sent: 0,
        }
    }
}

impl Transport for Direct {
    fn links(&self) -> usize {
        1
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        let mut room = vec![0; 32_768];
        let count = exchange.fill(0, &mut room);
        room.truncate(count);
        self.sent += count;
        self.serve.receive(Bytes::from(room));
        self.serve.work(&mut Plain).unwrap();
        self.waited = self.waited.max(self.serve.outbox().len());
        let mut moved = count > 0;
        // Less than the server has queued: the channel is the bottleneck.
        for _ in 0..4 {
            let Some(buf) = self.serve.outbox().next(usize::MAX, &mut Plain) else {
                break;
            };
            moved = true;
            self.came += buf.payload().len();
            exchange.feed(0, Bytes::copy_from_slice(buf.payload()))?;
        }
        // This server answers at once; a transport that waited here would only wait for the clock.
        assert!(
            moved || exchange.is_over(),
            "nothing moves, and it is not over"
        );
        Ok(moved)
    }
}

fn get(permits: Permits, from: &Path, to: &Path, options: &Options) -> (Heard, usize, Direct) {
    let mut remote = Remote::new(Direct::new(permits)).unwrap();
    remote.ask_exact_times().unwrap();
    let items = vec![Item {
        from: from.as_os_str().as_bytes().to_vec(),
        to: to.to_path_buf(),
        attributes: None,
    }];
    let mut heard = Heard::default();
    let mut work = Get::new(options.clone(), items, 1, &mut heard);
    remote.engine().run(&mut work).unwrap();
    let failures = work.failures();
    let direct = std::mem::replace(
        remote.engine().transport(),
        Direct::new(Permits::everything()),
    );
    (heard, failures, direct)
}

fn recursive() -> Options {
    Options {
        recursive: true,
        ..Options::default()
    }
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("d/e/f")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for number in 0..300_usize {
        fs::write(root.join(format!("d/{number}")), bytes(number * 17)).unwrap();
    }
    fs::write(root.join("d/e/large"), bytes(3_000_001)).unwrap();
    fs::write(root.join("d/e/f/edge"), bytes(64 << 10)).unwrap();
    fs::write(root.join("d/e/f/past"), bytes((64 << 10) + 1)).unwrap();
    fs::write(root.join("z"), "last").unwrap();
    fs::set_permissions(root.join("z"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(root.join("d/e"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("../z", root.join("d/link")).unwrap();
    symlink("e/f", root.join("d/to-f")).unwrap();
    symlink("nowhere", root.join("d/dangling")).unwrap();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for path in ["d/5", "d/e/large", "d/e", "d"] {
        let file = fs::File::open(root.join(path)).unwrap();
        file.set_modified(old).unwrap();
    }
}

/// Lists a tree as lines: path, kind, and for files length and sum; with `kept` also mode and time.
fn told(root: &Path, kept: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let there = fs::symlink_metadata(&path).unwrap();
            let mut line = path.strip_prefix(root).unwrap().display().to_string();
            if there.is_dir() {
                open.push(path);
                line.push('/');
            } else if there.is_file() {
                let content = fs::read(&path).unwrap();
                let sum: u64 = content
                    .iter()
                    .zip(1..)
                    .map(|(byte, at)| u64::from(*byte) * at)
                    .sum();
                line.push_str(&format!(" {} {sum}", content.len()));
            } else {
                line.push_str(" other");
            }
            if kept {
                let time = (there.mtime(), there.mtime_nsec());
                line.push_str(&format!(" {:o} {time:?}", there.mode()));
            }
            lines.push(line);
        }
    }
    lines.sort();
    lines
}

/// Makes all files of the tree removable again.
struct Open<'p>(&'p Path);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut open = vec![self.0.to_path_buf()];
        while let Some(directory) = open.pop() {
            let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o755));
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
    }
}

fn without_walk() -> Permits {
    Permits::new(false, None::<[&str; 0]>, ["walk"]).unwrap()
}

#[test]
fn a_stream_brings_what_the_plain_way_brings() {
    let place = Place::new("trees");
    let _open = Open(&place);
    let from = place.join("from");
    fs::create_dir(&from).unwrap();
    tree(&from);
    for (index, options) in [
        recursive(),
        Options {
            follow_links: true,
            ..recursive()
        },
        Options {
            preserve: true,
            follow_links: true,
            ..recursive()
        },
        Options {
            atomic: true,
            sparse: true,
            ..recursive()
        },
    ]
    .iter()
    .enumerate()
    {
        let stream = place.join(format!("stream-{index}"));
        let plain = place.join(format!("plain-{index}"));
        let (streamed, failed, direct) = get(Permits::everything(), &from, &stream, options);
        let (heard, failures, asked) = get(without_walk(), &from, &plain, options);
        assert_eq!(
            told(&stream, options.preserve),
            told(&plain, options.preserve)
        );
        assert_eq!(told(&stream, false).len(), told(&plain, false).len());
        let sorted = |mut heard: Vec<String>| {
            heard.sort();
            heard
        };
        let (errors, others) = (sorted(streamed.errors), sorted(heard.errors));
        assert_eq!(errors, others, "{index}");
        assert_eq!((streamed.good, failed), (heard.good, failures), "{index}");
        // A few requests, not one per file.
        assert!(direct.sent < 3000, "{}", direct.sent);
        assert!(asked.sent > 10_000, "{}", asked.sent);
    }
}

fn put(from: &Path, to: &Path, options: &Options) -> usize {
    let mut remote = Remote::new(Direct::new(Permits::everything())).unwrap();
    let items = vec![put::Item {
        from: from.to_path_buf(),
        to: to.as_os_str().as_bytes().to_vec(),
        fresh: false,
    }];
    let mut heard = Heard::default();
    let mut work = Put::new(options.clone(), items, 1, &mut heard);
    remote.engine().run(&mut work).unwrap();
    work.failures()
}

/// As OpenSSH: the sticky bit is part of the kept mode of a directory, the setgid bit is not.
#[test]
fn a_directory_s_sticky_bit_is_kept_and_setgid_is_not() {
    let place = Place::new("sticky");
    let from = place.join("from");
    fs::create_dir_all(from.join("sticky")).unwrap();
    fs::create_dir(from.join("setgid")).unwrap();
    for (name, mode) in [("sticky", 0o1755), ("setgid", 0o2755)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for preserve in [false, true] {
        let options = Options {
            preserve,
            ..recursive()
        };
        let to = |way: &str| place.join(format!("{way}-{preserve}"));
        assert_eq!(
            get(Permits::everything(), &from, &to("stream"), &options).1,
            0
        );
        assert_eq!(get(without_walk(), &from, &to("plain"), &options).1, 0);
        assert_eq!(put(&from, &to("put"), &options), 0);
        for way in ["stream", "plain", "put"] {
            let bits = |name: &str| fs::metadata(to(way).join(name)).unwrap().mode() & 0o7000;
            let found = (bits("sticky"), bits("setgid"));
            assert_eq!(found, (0o1000, 0), "{way}, preserve {preserve}");
        }
    }
}

#[test]
fn what_is_there_is_replaced_and_a_copy_onto_itself_stays() {
    let place = Place::new("trees-there");
    let _open = Open(&place);
    let from = place.join("from");
    fs::create_dir(&from).unwrap();
    tree(&from);
    fs::set_permissions(from.join("z"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(from.join("d/e"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = told(&from, false);
    let (heard, failures, _) = get(Permits::everything(), &from, &from, &recursive());
    assert_eq!(told(&from, false), before);
    // Links are not regular files.
    assert_eq!((failures, heard.errors.len()), (0, 3), "{:?}", heard.errors);
    let to = place.join("to");
    fs::create_dir_all(to.join("d")).unwrap();
    fs::write(to.join("d/7"), bytes(5000)).unwrap();
    fs::write(to.join("d/8"), "").unwrap();
    fs::write(to.join("empty"), "no directory").unwrap();
    fs::create_dir(to.join("z")).unwrap();
    let (heard, failures, _) = get(Permits::everything(), &from, &to, &recursive());
    assert_eq!(fs::read(to.join("d/7")).unwrap(), bytes(7 * 17));
    assert_eq!(fs::read(to.join("d/8")).unwrap(), bytes(8 * 17));
    assert_eq!(failures, 2, "{:?}", heard.errors);
    assert!(
        heard
            .errors
            .iter()
            .any(|line| line.contains("mkdir ") && line.contains("empty"))
    );
    assert!(heard.errors.iter().any(|line| line.contains("open local ")));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_arrives() {
    let place = Place::new("trees-unreadable");
    let _open = Open(&place);
    let from = place.join("from");
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::write(from.join("closed/in"), "in").unwrap();
    fs::write(from.join("secret"), "secret").unwrap();
    fs::write(from.join("open"), "open").unwrap();
    fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(from.join("secret"), fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(from.join("secret")).is_ok() {
        eprintln!("skipped: this user reads everything");
        return;
    }
    let (heard, failures, _) = get(
        Permits::everything(),
        &from,
        &place.join("to"),
        &recursive(),
    );
    assert_eq!(failures, 2, "{:?}", heard.errors);
    for name in ["closed", "secret"] {
        let named = |line: &&String| line.contains(name) && line.contains("Permission denied");
        assert_eq!(
            heard.errors.iter().filter(named).count(),
            1,
            "{:?}",
            heard.errors
        );
    }
    assert_eq!(fs::read(place.join("to/open")).unwrap(), b"open");
}

#[test]
fn a_server_does_not_run_ahead_and_a_client_does_not_remember_a_tree() {
    let place = Place::new("trees-many");
    let from = place.join("from");
    // Links have no content: each has to be remembered, and there are more than one window of them.
    for directory in 0..4 {
        let directory = from.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..10_000 {
            symlink("x", directory.join(number.to_string())).unwrap();
        }
        for number in 0..300_usize {
            fs::write(directory.join(format!("small-{number}")), bytes(20_000)).unwrap();
        }
        fs::write(directory.join("large"), bytes(1_000_000)).unwrap();
    }
    let to = place.join("to");
    let (heard, failures, direct) = get(Permits::everything(), &from, &to, &recursive());
    assert_eq!(
        (heard.good, failures, heard.errors.len()),
        (1204, 0, 40_000)
    );
    let regular = |line: &String| line.ends_with("not a regular file");
    assert!(heard.errors.iter().all(regular));
    assert_eq!(told(&to, false).len(), 4 * 302);
    assert!(fs::read(to.join("3/small-299")).unwrap() == bytes(20_000));
    assert!(fs::read(to.join("0/large")).unwrap() == bytes(1_000_000));
    assert!(direct.waited < (1 << 20) + (512 << 10), "{}", direct.waited);
}

#[test]
fn a_proof_or_a_limit_takes_the_plain_way() {
    let place = Place::new("trees-plain");
    let from = place.join("from");
    fs::create_dir(&from).unwrap();
    for number in 0..5 {
        fs::write(from.join(number.to_string()), bytes(500)).unwrap();
    }
    for (index, options) in [
        Options {
            resume: Resume::Proven,
            ..recursive()
        },
        Options {
            limit_bytes: 1 << 30,
            ..recursive()
        },
    ]
    .iter()
    .enumerate()
    {
        let to = place.join(format!("to-{index}"));
        let (heard, failures, direct) = get(Permits::everything(), &from, &to, options);
        assert_eq!((heard.good, failures), (5, 0), "{:?}", heard.errors);
        assert_eq!(told(&from, false), told(&to, false));
        assert!(direct.sent > 400, "{}", direct.sent);
    }
}
