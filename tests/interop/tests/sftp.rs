//! Other SFTP clients with our SFTP servers: internal-sftp, and `fulmar sftp-server` with OpenSSH's
//! sshd.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::account::{current_user, is_root, uid_of};
use interop::fixture;
use interop::matrix::noise;
use interop::peers::ours::{Kind, binary};
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, descendants, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish};
use interop::slow_folder::{Manners, SlowFolder};

/// Servers with our SFTP code, each with these flags.
fn servers(flags: &str) -> Vec<Site> {
    let lines = |command: &str| format!("Subsystem sftp {command} {flags}\n");
    let ours = lines("internal-sftp");
    let behind = lines(&format!("{} sftp-server", binary().display()));
    let mut sites = vec![Site::new(Kind::OpenSsh, Kind::Fulmar, &ours)];
    if Kind::OpenSsh.sshd().is_ok() {
        sites.push(Site::new(Kind::OpenSsh, Kind::OpenSsh, &behind));
    }
    sites
}

fn has(program: &str) -> bool {
    let found = installed(program).is_some();
    if !found {
        skipped(program, &"not installed");
    }
    found
}

/// OpenSSH's sftp with these commands.
fn sftp(site: &Site, scratch: &Scratch, batch: &str) -> Outcome {
    let batch = scratch.write("batch", batch);
    let mut command = Command::new("sftp");
    command.arg("-S").arg(site.wrapper()).arg("-b").arg(batch);
    finish(command.arg(HOST), Input::Nothing)
}

fn same(ours: &Path, theirs: &Path) {
    let read = |path: &Path| fs::read(path).unwrap_or_else(|why| panic!("{path:?}: {why}"));
    assert!(read(ours) == read(theirs), "{ours:?} is not {theirs:?}");
}

#[test]
fn openssh_sftp_does_all_it_can() {
    if !has("sftp") {
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let (data, back) = (
            scratch.write("data", noise(3_000_001)),
            scratch.join("back"),
        );
        fs::create_dir(scratch.join("there")).unwrap();
        let batch = format!(
            "cd {0}/there\nput {1} one\nchmod 640 one\nrename one two\nln two three\n\
             symlink two link\ncp two four\nmkdir sub\nrename four sub/four\nrm three\n\
             get -p two {2}\nls -la\ndf -h\nrmdir sub\n",
            scratch.path().display(),
            data.display(),
            back.display()
        );
        // The last one fails: the directory is not empty.
        let outcome = sftp(&site, &scratch, &batch);
        assert_ne!(outcome.status, 0, "{}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(
            said.contains("Directory not empty") || said.contains("Failure"),
            "{said}"
        );
        same(&data, &back);
        same(&data, &scratch.join("there/sub/four"));
        assert_eq!(
            fs::read_link(scratch.join("there/link")).unwrap(),
            Path::new("two")
        );
        assert!(!scratch.join("there/three").exists());
        let listed = outcome.stdout.text();
        assert!(listed.contains("-rw-r-----"), "{listed}");
    }
}

#[test]
fn what_was_cut_goes_on() {
    if !has("sftp") {
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let bytes = noise(2_000_000);
        let data = scratch.write("data", &bytes);
        let up = scratch.write("up", &bytes[..700_001]);
        let down = scratch.write("down", &bytes[..1_500_000]);
        let batch = format!(
            "reput {0} {1}\nreget {0} {2}\n",
            data.display(),
            up.display(),
            down.display()
        );
        let outcome = sftp(&site, &scratch, &batch);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        same(&data, &up);
        same(&data, &down);
    }
}

#[test]
fn names_need_not_be_utf8_and_folders_may_be_large() {
    if !has("scp") {
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let tree = scratch.join("tree");
        fs::create_dir(&tree).unwrap();
        for index in 0..3000 {
            fs::write(tree.join(format!("{index}")), noise(index % 40)).unwrap();
        }
        fs::write(tree.join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
        let back = scratch.join("back");
        let mut command = Command::new("scp");
        command.args(["-q", "-r", "-s", "-S"]).arg(site.wrapper());
        command.arg(format!("{HOST}:{}", tree.display())).arg(&back);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let mut diff = Command::new("diff");
        let found = finish(diff.arg("-r").arg(&tree).arg(&back), Input::Nothing);
        assert_eq!(found.status, 0, "{}", found.summary());
    }
}

#[test]
fn failures_say_their_cause() {
    if !has("sftp") {
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let data = scratch.write("data", noise(100_000));
        let outcome = sftp(
            &site,
            &scratch,
            &format!("put {} /dev/full\n", data.display()),
        );
        assert_ne!(outcome.status, 0);
        let said = outcome.stderr.text();
        assert!(said.contains("full"), "{said}");
        let outcome = sftp(&site, &scratch, "get /no/such/file x\n");
        assert_ne!(outcome.status, 0);
    }
}

#[test]
fn a_read_only_server_and_denied_requests_change_nothing() {
    if !has("sftp") {
        return;
    }
    for (flags, allowed) in [("-R", false), ("-P remove,rename,posix-rename", true)] {
        for site in servers(flags) {
            let scratch = Scratch::new();
            let data = scratch.write("data", noise(1000));
            let there = scratch.join("there");
            let batch = format!(
                "-put {0} {1}\n-rm {0}\n-rename {0} {0}.moved\n",
                data.display(),
                there.display()
            );
            let outcome = sftp(&site, &scratch, &batch);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            assert_eq!(fs::read(&data).unwrap(), noise(1000));
            assert_eq!(there.exists(), allowed, "{flags}");
        }
    }
}

/// A directory to which, with all directories above it, only this user and root can write; removed
/// with its content.
struct OwnFolder(PathBuf);

impl OwnFolder {
    /// `None`, with a message, if there is no place for one.
    fn new() -> Option<Self> {
        let above = if is_root() {
            PathBuf::from("/var/lib")
        } else {
            std::env::home_dir()?
        };
        let above = fs::canonicalize(above).ok()?;
        let path = above.join(format!("fulmar-sftp-root-{}", std::process::id()));
        if sys::file::secure_root(&above, uid_of(&current_user()).unwrap_or(0)).is_err()
            || fs::create_dir(&path).is_err()
        {
            skipped("SftpRoot", &"no folder that others cannot change");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nothing_leads_out_of_a_root() {
    if !has("sftp") {
        return;
    }
    let scratch = Scratch::new();
    let Some(folder) = OwnFolder::new() else {
        return;
    };
    let root = folder.0.join("root");
    fs::create_dir_all(root.join("in")).unwrap();
    let secret = folder.0.join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, root.join("absolute")).unwrap();
    symlink("../secret", root.join("up")).unwrap();
    symlink("in/../data", root.join("good")).unwrap();
    fs::write(root.join("data"), noise(5000)).unwrap();
    for forced in ["", "ForceCommand internal-sftp\n"] {
        let lines = format!(
            "Subsystem sftp internal-sftp\nSftpRoot {}\n{forced}",
            root.display()
        );
        let site = Site::new(Kind::OpenSsh, Kind::Fulmar, &lines);
        let got = scratch.join("got");
        let batch = format!(
            "-get absolute {0}.1\n-get up {0}.2\n-get /../secret {0}.3\n-get {1} {0}.4\n\
             -put {1} /../made\n-ln {1} in/secret\n-rename /data /../../moved\n\
             -rename /moved /data\n-chmod 777 up\nget good {0}\npwd\n",
            got.display(),
            secret.display()
        );
        let outcome = sftp(&site, &scratch, &batch);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        same(&got, &root.join("data"));
        for number in 1..5 {
            assert!(!scratch.join(&format!("got.{number}")).exists(), "{number}");
        }
        assert!(!folder.0.join("made").exists() && !folder.0.join("moved").exists());
        assert!(!root.join("in/secret").exists());
        assert!(outcome.stdout.text().contains("directory: /\n"));
        fs::remove_file(got).unwrap();
        // The log warns about a root without the forced command, and only then.
        let log = site.running.daemon.log();
        let said = log
            .matches("SftpRoot confines the internal-sftp subsystem only")
            .count();
        // Once at the server's start and once at the login.
        assert_eq!(said, if forced.is_empty() { 2 } else { 0 }, "{log}");
        // A user who may write above the root or to it could replace it.
        for writable in [&folder.0, &root] {
            chmod(writable, 0o777);
            let outcome = sftp(&site, &scratch, "pwd\n");
            chmod(writable, 0o755);
            assert_ne!(outcome.status, 0, "{writable:?}: {}", outcome.summary());
            // The client may learn of it first.
            let log = || site.running.daemon.log();
            let is_said = || log().contains("bad ownership or modes for directory");
            assert!(until(COMMAND_LIMIT, is_said), "{}", log());
        }
    }
}

fn chmod(path: &Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(path, mode).unwrap();
}

/// A shared connection, and the options for sharing it, with which no other connection is opened.
fn master(site: &Site, scratch: &Scratch) -> (Background, Vec<String>) {
    let socket = scratch.join("control");
    let path = format!("ControlPath={}", socket.display());
    let mut master = site.ssh("");
    master.args(["-M", "-N", "-o", &path, HOST]);
    let master = Background::start(&mut master).unwrap();
    assert!(until(PATIENCE, || socket.exists()));
    let beside = ["-o", &path, "-o", "ProxyCommand=false"];
    (master, beside.map(str::to_owned).to_vec())
}

#[test]
fn a_slow_disk_leaves_other_channels_their_turn() {
    if !has("sftp") {
        return;
    }
    let subsystem = "Subsystem sftp internal-sftp\n";
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, subsystem);
    let scratch = Scratch::new();
    // Whole, it would take half a minute.
    let content = vec![7; 64 << 20];
    let folder = SlowFolder::mount(&scratch, &[("large", content)], Duration::from_millis(50));
    let folder = match folder {
        Ok(folder) => folder,
        Err(why) => return skipped("a slow folder", &why),
    };
    let (_master, beside) = master(&site, &scratch);
    let back = scratch.join("back");
    let line = format!("get {}/large {}\n", folder.path().display(), back.display());
    let mut get = Command::new("sftp");
    get.arg("-S").arg(site.wrapper()).args(&beside);
    get.arg("-b").arg(scratch.write("batch", line)).arg(HOST);
    get.stdout(Stdio::null());
    let _get = Background::start(&mut get).unwrap();
    let len = || fs::metadata(&back).map_or(0, |there| there.len());
    assert!(until(PATIENCE, || len() > 0));
    let mut shell = site.ssh("");
    shell.args(&beside).args([HOST, "echo beside"]);
    let outcome = finish(&mut shell, Input::Nothing);
    assert_eq!(outcome.stdout.text(), "beside\n", "{}", outcome.summary());
    assert!(len() < 64 << 20, "the file was there before the shell");
}

/// Running processes of the server.
fn at_work(site: &Site) -> Vec<u32> {
    descendants(site.running.daemon.pid())
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

const PATIENCE: Duration = Duration::from_secs(60);
const WITHOUT_SPARES: &str = "Subsystem sftp internal-sftp\nPreauthSpares 0\n";

#[test]
fn a_disk_that_hangs_holds_up_its_own_channel_alone() {
    if !has("sftp") {
        return;
    }
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, WITHOUT_SPARES);
    let scratch = Scratch::new();
    let content = noise(32 << 20);
    let delay = Duration::from_millis(10);
    let folder = match SlowFolder::mount(&scratch, &[("large", content.clone())], delay) {
        Ok(folder) => folder,
        Err(why) => return skipped("a folder that hangs", &why),
    };
    let (master, beside) = master(&site, &scratch);
    let sftp = |line: String| {
        let mut sftp = Command::new("sftp");
        sftp.arg("-S").arg(site.wrapper()).args(&beside).arg("-b");
        sftp.arg(scratch.write("batch", line)).arg(HOST);
        sftp.stdout(Stdio::null());
        sftp
    };
    let back = scratch.join("back");
    let large = folder.path().join("large");
    let get = format!("get {} {}\n", large.display(), back.display());
    let get = Background::start(&mut sftp(get)).unwrap();
    let len = || fs::metadata(&back).map_or(0, |there| there.len());
    assert!(until(PATIENCE, || len() > 0));
    folder.behave(Manners::Deaf);
    // A shell, and files elsewhere.
    let mut shell = site.ssh("");
    shell.args(&beside).args([HOST, "echo beside"]);
    let outcome = finish(&mut shell, Input::Nothing);
    assert_eq!(outcome.stdout.text(), "beside\n", "{}", outcome.summary());
    let (small, copy) = (scratch.write("small", "small"), scratch.join("copy"));
    let line = format!("put {} {}\n", small.display(), copy.display());
    let outcome = finish(&mut sftp(line), Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    same(&small, &copy);
    assert!(len() < content.len() as u64, "it never hung");
    // The blocked requests then continue.
    folder.behave(Manners::Slow);
    let whole = || len() == content.len() as u64;
    assert!(until(PATIENCE, whole), "{} bytes", len());
    assert!(fs::read(&back).unwrap() == content);
    drop(get);
    drop(master);
    assert!(until(PATIENCE, || at_work(&site).is_empty()));
}

#[test]
fn a_connection_ends_while_its_disk_hangs() {
    if !has("sftp") {
        return;
    }
    for manners in [Manners::Deaf, Manners::Dumb] {
        let site = Site::new(Kind::OpenSsh, Kind::Fulmar, WITHOUT_SPARES);
        let scratch = Scratch::new();
        let folder = match SlowFolder::mount(&scratch, &[], Duration::from_millis(10)) {
            Ok(folder) => folder,
            Err(why) => return skipped("a folder that hangs", &why),
        };
        let content = noise(32 << 20);
        let data = scratch.write("data", &content);
        let there = folder.path().join("there");
        let line = format!("put {} {}\n", data.display(), there.display());
        let mut put = Command::new("sftp");
        put.arg("-S").arg(site.wrapper()).arg("-b");
        put.arg(scratch.write("batch", line)).arg(HOST);
        put.stdout(Stdio::null());
        let put = Background::start(&mut put).unwrap();
        let len = || fs::metadata(&there).map_or(0, |there| there.len());
        assert!(until(PATIENCE, || len() > 0));
        folder.behave(manners);
        let processes = at_work(&site);
        assert!(!processes.is_empty());
        drop(put);
        // Monitor and session, with all that the monitor closes: terminals, records, PAM.
        let ended = until(PATIENCE, || at_work(&site).is_empty());
        let log = site.running.daemon.log();
        assert!(ended, "{:?} of {processes:?}: {log}", at_work(&site));
        if manners == Manners::Dumb {
            // The kernel holds the process as long as the system call takes.
            folder.behave(Manners::Slow);
        }
        let gone = || processes.iter().all(|pid| is_gone(*pid));
        assert!(until(PATIENCE, gone), "{processes:?}");
        folder.behave(Manners::Slow);
        let written = fs::read(&there).unwrap();
        assert!(written.len() < content.len(), "it never hung");
        assert!(content.starts_with(&written));
    }
}

#[test]
fn lftp_mirrors() {
    if !has("lftp") {
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let tree = scratch.join("tree");
        fs::create_dir_all(tree.join("below")).unwrap();
        for index in 0..100 {
            fs::write(tree.join(format!("below/{index}")), noise(index * 321)).unwrap();
        }
        let (there, back) = (scratch.join("there"), scratch.join("back"));
        let script = format!(
            "set sftp:connect-program {}; open sftp://{}:x@{HOST}; mirror -R {} {}; \
             mirror {} {}; bye",
            site.wrapper().display(),
            current_user(),
            tree.display(),
            there.display(),
            there.display(),
            back.display()
        );
        let mut command = Command::new("lftp");
        command.env("HOME", scratch.path()).args(["-e", &script]);
        let outcome = finish(&mut command, Input::Nothing);
        let mut diff = Command::new("diff");
        let found = finish(diff.arg("-r").arg(&tree).arg(&back), Input::Nothing);
        assert_eq!(
            found.status,
            0,
            "{}\n{}",
            outcome.summary(),
            found.summary()
        );
    }
}

#[test]
fn curl_puts_gets_and_goes_on() {
    let knows = installed("curl").is_some_and(|curl| {
        let version = Command::new(curl).arg("-V").output();
        version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("sftp"))
    });
    if !knows {
        skipped("curl", &"not installed, or without sftp");
        return;
    }
    for site in servers("") {
        let scratch = Scratch::new();
        let bytes = noise(1_000_003);
        let data = scratch.write("data", &bytes);
        let there = scratch.join("there");
        let part = scratch.write("part", &bytes[..300_000]);
        let url = format!(
            "sftp://{}@127.0.0.1:{}{}",
            site.running.user,
            site.running.daemon.port,
            there.display()
        );
        let curl = || {
            let mut command = Command::new("curl");
            command.args(["-sS", "-k", "--key"]);
            command.arg(fixture::file("user_ed25519")).arg("--pubkey");
            command.arg(fixture::file("user_ed25519.pub"));
            command
        };
        let outcome = finish(curl().arg("-T").arg(&data).arg(&url), Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        same(&data, &there);
        let mut resume = curl();
        let outcome = finish(
            resume.args(["-C", "-", "-o"]).arg(&part).arg(&url),
            Input::Nothing,
        );
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        same(&data, &part);
    }
}
