//! Large copies: a file over 4 GiB, a directory of 100,000 files, and the memory of a tree copy at
//! both ends.
//!
//! `INTEROP_ALL=1` (or `cargo xtask interop --all`) tests at full length, else tests take seconds.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use interop::matrix::noise;
use interop::peers::ours::Kind;
use interop::process::{Input, descendants, run};
use interop::report::{is_whole_run, say, skipped};
use interop::scratch::Scratch;
use interop::site::{Site, program, there};

const MIB: u64 = 1 << 20;
/// Time limit of one copy.
const LIMIT: Duration = Duration::from_secs(600);
/// Limit on the memory of each end, all its processes together.
const MAX_MEMORY: u64 = 100 * MIB;

fn site() -> Site {
    Site::new(Kind::Fulmar, Kind::Fulmar, "Subsystem sftp internal-sftp\n")
}

fn scp(site: &Site) -> Command {
    let mut command = program(site, "scp");
    command.arg("-q");
    command
}

fn copy(command: &mut Command) -> Duration {
    let outcome = run(command, Input::Nothing, LIMIT).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    outcome.took
}

/// Free bytes of the test's file system.
fn free_bytes(scratch: &Scratch) -> u64 {
    let there = rustix::fs::statvfs(scratch.path()).expect("a file system");
    there.f_bavail.saturating_mul(there.f_frsize)
}

/// A file with holes, and pieces of data at offsets beyond 31 and 32 bits.
struct Sparse {
    len: u64,
    pieces: [(u64, Vec<u8>); 4],
}

impl Sparse {
    fn new() -> Self {
        let four = 4 << 30;
        let pieces = [0, (2 << 30) - 5_000, four - 70_000, four + 3 * MIB + 1];
        Self {
            len: four + 5 * MIB,
            pieces: pieces.map(|at| (at, noise(150_000))),
        }
    }

    fn write(&self, path: &Path) {
        let file = File::create(path).expect("a file");
        file.set_len(self.len).expect("its length");
        for (at, bytes) in &self.pieces {
            file.write_all_at(bytes, *at).expect("its data");
        }
    }

    fn is_at(&self, path: &Path) -> bool {
        let file = File::open(path).expect("a copy");
        let len = file.metadata().expect("its length").len();
        len == self.len
            && self.pieces.iter().all(|(at, bytes)| {
                let mut there = vec![0; bytes.len()];
                file.read_exact_at(&mut there, *at).expect("its data");
                there == *bytes
            })
    }
}

#[test]
fn a_file_may_be_larger_than_four_gib() {
    let scratch = Scratch::new();
    let sparse = Sparse::new();
    let (from, up, down) = (
        scratch.join("from"),
        scratch.join("up"),
        scratch.join("down"),
    );
    sparse.write(&from);
    let allocated = |path: &Path| fs::metadata(path).expect("a file").blocks() * 512;
    if allocated(&from) > 64 * MIB {
        return skipped("a file over 4 GiB", &"no holes on this file system");
    }
    let site = site();
    let took = copy(scp(&site).arg("--sparse").arg(&from).arg(there(&up)));
    assert!(sparse.is_at(&up));
    assert!(allocated(&up) < 64 * MIB, "{} bytes", allocated(&up));
    say(&format!(
        "4 GiB with holes, up: {:.1} s",
        took.as_secs_f64()
    ));
    let took = copy(scp(&site).arg("--sparse").arg(there(&up)).arg(&down));
    assert!(sparse.is_at(&down));
    assert!(allocated(&down) < 64 * MIB, "{} bytes", allocated(&down));
    say(&format!(
        "4 GiB with holes, down: {:.1} s",
        took.as_secs_f64()
    ));
    if !is_whole_run() {
        return;
    }
    fs::remove_file(&down).expect("the copy goes");
    if free_bytes(&scratch) < 6 << 30 {
        return skipped("4 GiB without holes", &"the disk is short");
    }
    let took = copy(scp(&site).arg(there(&up)).arg(&down));
    assert!(sparse.is_at(&down));
    say(&format!(
        "4 GiB as zeros, down: {:.1} s",
        took.as_secs_f64()
    ));
}

#[test]
fn a_directory_may_hold_many_files() {
    let count = if is_whole_run() { 100_000 } else { 5_000 };
    let scratch = Scratch::new();
    let many = scratch.join("many");
    fs::create_dir(&many).expect("a directory");
    for number in 0..count {
        fs::write(many.join(format!("{number}")), number.to_string()).expect("a file");
    }
    let site = site();
    let (up, down) = (scratch.join("up"), scratch.join("down"));
    let put = copy(scp(&site).arg("-r").arg(&many).arg(there(&up)));
    let got = copy(scp(&site).arg("-r").arg(there(&up)).arg(&down));
    say(&format!(
        "{count} files in a directory: up {:.1} s, down {:.1} s",
        put.as_secs_f64(),
        got.as_secs_f64()
    ));
    assert_eq!(fs::read_dir(&down).expect("the copy").count(), count);
    for number in 0..count {
        let text = fs::read_to_string(down.join(format!("{number}"))).expect("a file");
        assert_eq!(text, number.to_string());
    }
}

/// The sum of these processes' peak memory, bytes.
fn peak(pids: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
        let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(kib * 1024)
    };
    pids.iter().filter_map(of).sum()
}

#[test]
fn memory_does_not_grow_with_a_tree() {
    let count = if is_whole_run() { 50_000 } else { 4_000 };
    let scratch = Scratch::new();
    let tree = scratch.join("tree");
    for folder in 0..40 {
        fs::create_dir_all(tree.join(format!("{folder}/below"))).expect("a directory");
    }
    for number in 0..count {
        let path = tree.join(format!("{}/below/{number}", number % 40));
        fs::write(path, noise(number % 6_000)).expect("a file");
    }
    let large = File::create(tree.join("large")).expect("a file");
    large.set_len(300 * MIB).expect("its length");
    let site = site();
    let (up, down) = (scratch.join("up"), scratch.join("down"));
    for (from, to) in [
        (tree.display().to_string(), there(&up)),
        (there(&up), down.display().to_string()),
    ] {
        let mut client = scp(&site)
            .args(["-r", &from, &to])
            .stdin(Stdio::null())
            .spawn()
            .expect("scp");
        let own = client.id();
        let (mut here, mut far) = (0, 0);
        let began = Instant::now();
        let status = loop {
            let ours: Vec<u32> = [vec![own], descendants(own)].concat();
            here = peak(&ours).max(here);
            far = peak(&descendants(site.running.daemon.pid())).max(far);
            if let Some(status) = client.try_wait().expect("a child") {
                break status;
            }
            assert!(began.elapsed() < LIMIT, "the copy does not end");
            thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}");
        let mib = |bytes: u64| bytes / MIB;
        say(&format!(
            "a tree of {count} files and 300 MiB to {to}: client {} MiB, server {} MiB",
            mib(here),
            mib(far)
        ));
        assert!(here > 0 && here <= MAX_MEMORY, "client: {} MiB", mib(here));
        assert!(far > 0 && far <= MAX_MEMORY, "server: {} MiB", mib(far));
    }
}
