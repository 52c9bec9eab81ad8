//! `CryptoThreads`: up to the configured number of threads during bulk transfers, and at most the
//! cores of a client's control group; only its own thread if an end has one core.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input};
use interop::report::skipped;
use interop::scratch::until;
use interop::site::{HOST, Site};

/// One core's worth of a period, microseconds.
const PERIOD_US: u32 = 100_000;
const MIB: u64 = 1 << 20;
/// Far more bytes than are sent before workers are considered.
const BULK: u64 = 128 * MIB;

/// The report of an end without workers.
const ALONE: &str = "crypto threads: at most 1 at once; workers sealed 0 of ";

fn threads(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Threads:"));
    line?.trim().parse().ok()
}

/// True if a client with this configuration and these arguments starts a second thread during a
/// bulk transfer.
fn gets_help(site: &Site, extra: &str, arguments: &[&str]) -> bool {
    let mut command = site.ssh(extra);
    command.args(arguments);
    command_gets_help(command)
}

fn command_gets_help(mut command: Command) -> bool {
    command
        .args([HOST, "cat"])
        .stdin(File::open("/dev/zero").expect("a source without end"))
        .stdout(Stdio::piped());
    let mut child = Background::start(&mut command).expect("a client");
    let pid = child.0.id();
    let mut output = child.0.stdout.take().expect("its output");
    let mut room = vec![0; 1 << 16];
    let (mut come, mut helped) = (0, false);
    while come < BULK && !helped {
        let count = output.read(&mut room).expect("output");
        assert!(count > 0, "the client ended");
        come += count as u64;
        helped = threads(pid).expect("it runs") > 1;
    }
    if helped {
        // Nobody reads any more: idle workers end.
        let alone = until(COMMAND_LIMIT, || threads(pid) == Some(1));
        assert!(alone, "idle workers");
    }
    helped
}

#[test]
fn a_client_has_as_many_threads_as_its_file_or_its_command_line_says() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skipped("threads", &"a machine with one core");
        return;
    }
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "CryptoThreads 1\n");
    let one = ["-o", "CryptoThreads=1"];
    let two = ["-o", "CryptoThreads=2"];
    assert!(!gets_help(&site, "CryptoThreads 1\n", &[]));
    assert!(gets_help(&site, "CryptoThreads 2\n", &[]));
    // The command line takes precedence over the file.
    assert!(gets_help(&site, "CryptoThreads 1\n", &two));
    assert!(!gets_help(&site, "CryptoThreads 2\n", &one));
}

/// Number of bytes in each direction with one core for both ends.
const FLOW: u64 = 64 * MIB;

#[test]
fn on_one_core_no_end_has_more_than_its_own_thread() {
    // Child processes inherit a thread's CPU affinity.
    let pinned = std::thread::spawn(|| {
        let first = sys::process::affinity().expect("some cores")[0];
        sys::process::set_affinity(&[first]).expect("one core");
        let auto = "CryptoThreads auto\nLogLevel DEBUG1\n";
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, auto);
        for (command, input) in [
            (format!("head -c {FLOW} /dev/zero"), "/dev/null"),
            (format!("head -c {FLOW} | wc -c"), "/dev/zero"),
        ] {
            let source = Input::File(Path::new(input));
            let outcome = site.run_with(auto, &[HOST, &command], source);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            let counted = outcome.stdout.text().trim().parse();
            assert_eq!(counted.unwrap_or(outcome.stdout.length), FLOW);
            let said = outcome.stderr.text();
            assert_eq!(said.matches(ALONE).count(), 1, "{said}");
        }
        site.running.daemon.comes_to_rest();
        let log = site.running.daemon.log();
        assert_eq!(log.matches(ALONE).count(), 2, "{log}");
        assert_eq!(log.matches("crypto threads: ").count(), 2, "{log}");
    });
    pinned.join().expect("nobody but the connection's own");
}

/// A private control group, version 1 or 2, that limits its processes' share of each period.
/// Removed with the test.
struct Group(PathBuf);

impl Group {
    fn with_quota(quota_us: u32) -> io::Result<Self> {
        let name = format!("fulmar-threads-{}-{quota_us}", std::process::id());
        let [first, second] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(Path::new);
        let is_first = first.join("cpu.cfs_quota_us").exists();
        let group = Self(if is_first { first } else { second }.join(name));
        fs::create_dir(&group.0)?;
        if is_first {
            fs::write(group.0.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(group.0.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        } else {
            let both = format!("{quota_us} {PERIOD_US}");
            // Missing if the parent does not delegate the controller.
            File::options()
                .write(true)
                .open(group.0.join("cpu.max"))
                .and_then(|mut file| io::Write::write_all(&mut file, both.as_bytes()))?;
        }
        group.admits()?;
        Ok(group)
    }

    /// # Errors
    /// If a process may not be moved into the group.
    fn admits(&self) -> io::Result<()> {
        let moved = Command::new("/bin/sh")
            .args(["-c", "echo $$ >\"$0\""])
            .arg(self.0.join("cgroup.procs"))
            .output()?;
        if moved.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&moved.stderr);
        Err(io::Error::other(why.trim().to_owned()))
    }

    /// A client with these arguments, in this group from its start.
    fn client(&self, site: &Site, arguments: &[&str]) -> Command {
        let client = site.ssh("");
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"))
            .arg(client.get_program())
            .args(client.get_args())
            .args(arguments);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Busy until the last process has been reaped.
        let _ = until(COMMAND_LIMIT, || {
            let gone = fs::remove_dir(&self.0);
            gone.is_ok() || !self.0.exists()
        });
    }
}

#[test]
fn a_client_has_no_more_threads_than_its_control_group_has_cores() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skipped("threads", &"a machine with one core");
        return;
    }
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "CryptoThreads 1\n");
    for (cores, helped) in [(1, false), (2, true)] {
        let group = match Group::with_quota(cores * PERIOD_US) {
            Ok(group) => group,
            Err(error) => {
                skipped("threads by control group", &error);
                return;
            }
        };
        let client = group.client(&site, &["-o", "CryptoThreads=8"]);
        assert_eq!(command_gets_help(client), helped, "{cores} cores");
    }
}
