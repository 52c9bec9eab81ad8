//! Copies with programs other than OpenSSH: other servers with our scp and sftp, and other clients
//! with our server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::account::is_root;
use interop::fixture;
use interop::matrix::noise;
use interop::peers::dropbear::Dropbear;
use interop::peers::ours::Kind;
use interop::peers::python::{AsyncsshServer, ParamikoServer, script_command};
use interop::peers::{Running, Server, putty};
use interop::process::{Background, Input, Outcome, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish, program};

/// Time limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn ours() -> Site {
    Site::new(
        Kind::OpenSsh,
        Kind::Fulmar,
        "Subsystem sftp internal-sftp\n",
    )
}

/// Files of several sizes in one directory.
fn flat(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for number in 0..20 {
        fs::write(folder.join(format!("small-{number}")), noise(number * 37)).unwrap();
    }
    fs::write(folder.join("large"), noise(3_000_001)).unwrap();
    fs::write(folder.join("a b"), "x").unwrap();
}

/// The same with subdirectories.
fn tree(folder: &Path) {
    flat(folder);
    fs::create_dir_all(folder.join("d/empty")).unwrap();
    fs::write(folder.join("d/x"), noise(70_000)).unwrap();
}

fn alike(one: &Path, other: &Path, outcome: &Outcome) {
    let mut diff = Command::new("diff");
    let found = finish(diff.arg("-r").arg(one).arg(other), Input::Nothing);
    let said = (found.summary(), outcome.summary());
    assert_eq!(found.status, 0, "{} {}", said.0, said.1);
}

fn ended_well(outcome: &Outcome) {
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
}

/// Our scp and sftp with a server: a tree up and down, several connections, continued copies, a
/// batch.
fn with_our_programs(running: Running) {
    let scratch = Scratch::new();
    let below = match &running.guest {
        Some(guest) => guest.home().to_path_buf(),
        None => scratch.path().to_path_buf(),
    };
    let site = Site {
        client: Kind::Fulmar,
        running,
    };
    let program = |name: &str| {
        let mut command = program(&site, name);
        command.arg("-q");
        command
    };
    let scp = |arguments: &[&str]| finish(program("scp").args(arguments), Input::Nothing);
    let there = |name: &str| format!("{HOST}:{}", below.join(name).display());
    let (from, back) = (scratch.join("from"), scratch.join("back"));
    let text = |path: &Path| path.display().to_string();
    tree(&from);
    let outcome = scp(&["-r", "-p", &text(&from), &there("up")]);
    ended_well(&outcome);
    let outcome = scp(&["-r", "-p", &there("up"), &text(&back)]);
    ended_well(&outcome);
    alike(&from, &back, &outcome);
    let second = scratch.join("second");
    let outcome = scp(&["-r", "-n", "2", &there("up"), &text(&second)]);
    ended_well(&outcome);
    alike(&from, &second, &outcome);

    let large = from.join("large");
    let content = fs::read(&large).unwrap();
    let part = scratch.write("part", &content[..1_200_000]);
    let outcome = scp(&["-Z", "--verify", &there("up/large"), &text(&part)]);
    ended_well(&outcome);
    assert!(fs::read(&part).unwrap() == content);
    let outcome = scp(&["--atomic", &text(&from.join("d/x")), &there("up/large")]);
    ended_well(&outcome);
    let outcome = scp(&["-Z", &text(&large), &there("up/large")]);
    ended_well(&outcome);

    let batch = format!(
        "cd {0}/up\nget large {1}\nrename large renamed\nmkdir new\nput {2} new/x\nls -l new\n\
         -rm none\nrm new/x\nrmdir new\n",
        below.display(),
        scratch.join("got").display(),
        from.join("d/x").display()
    );
    let mut command = program("sftp");
    command.args(["-b", "-", HOST]);
    let outcome = finish(&mut command, Input::Bytes(batch.as_bytes()));
    ended_well(&outcome);
    assert!(fs::read(scratch.join("got")).unwrap() == content);
    let listed = outcome.stdout.text();
    assert!(
        listed.contains("70000") && listed.contains("new/x"),
        "{listed}"
    );
}

fn with_server(server: &dyn Server) {
    match server.offers().and_then(|all| server.start(&all, None)) {
        Ok(running) => with_our_programs(running),
        Err(why) => skipped(&server.name(), &why),
    }
}

#[test]
fn dropbear_serves_files_by_openssh_s_server() {
    if !Path::new("/usr/lib/sftp-server").exists() {
        return skipped("dropbear's SFTP server", &"no /usr/lib/sftp-server");
    }
    with_server(&Dropbear);
}

#[test]
fn asyncssh_serves_files() {
    with_server(&AsyncsshServer);
}

#[test]
fn paramiko_serves_files() {
    with_server(&ParamikoServer);
}

#[test]
fn psftp_and_pscp_copy() {
    let site = ours();
    let scratch = Scratch::new();
    let settings = Scratch::new();
    let (psftp, pscp) = (
        putty::copier("psftp", &settings, &site.running),
        putty::copier("pscp", &settings, &site.running),
    );
    let (Ok(mut psftp), Ok(mut pscp)) = (psftp, pscp) else {
        return skipped("psftp and pscp", &"not installed");
    };
    let (from, there, back) = (
        scratch.join("from"),
        scratch.join("there"),
        scratch.join("back"),
    );
    tree(&from);
    pscp.args(["-q", "-r", "-p", "-sftp"]).arg(&from);
    pscp.arg(format!("127.0.0.1:{}", there.display()));
    // Its target is an existing directory.
    fs::create_dir(&there).unwrap();
    let outcome = finish(&mut pscp, Input::Nothing);
    ended_well(&outcome);
    alike(&from, &there.join("from"), &outcome);
    let batch = scratch.write(
        "batch",
        format!(
            "cd {0}/from\nget -r . {1}\nmv large moved\nreput {2} moved\nmkdir new\nls\nrm small-1\n",
            there.display(),
            back.display(),
            from.join("large").display()
        ),
    );
    psftp.arg("-b").arg(batch).arg("127.0.0.1");
    let outcome = finish(&mut psftp, Input::Nothing);
    ended_well(&outcome);
    alike(&from, &back, &outcome);
    assert!(there.join("from/new").is_dir() && !there.join("from/small-1").exists());
    assert!(fs::read(there.join("from/moved")).unwrap() == noise(3_000_001));
}

#[test]
fn rclone_copies_and_compares() {
    let Some(rclone) = installed("rclone") else {
        return skipped("rclone", &"not installed");
    };
    let site = ours();
    let scratch = Scratch::new();
    let [from, there, back] = ["from", "there", "back"].map(|name| scratch.join(name));
    flat(&from);
    let remote = format!(
        ":sftp,host=127.0.0.1,port={},user={},key_file='{}',known_hosts_file='{}',\
         shell_type=none:{}",
        site.running.daemon.port,
        site.running.user,
        fixture::file("user_ed25519").display(),
        site.running.known_hosts.display(),
        there.display()
    );
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&rclone);
        command.args(["--config", "/dev/null"]).args(arguments);
        let outcome = finish(command.env("HOME", scratch.path()), Input::Nothing);
        ended_well(&outcome);
        outcome
    };
    let (from_text, back_text) = (from.display().to_string(), back.display().to_string());
    run(&["copy", &from_text, &remote]);
    run(&["check", "--download", &from_text, &remote]);
    let outcome = run(&["copy", &remote, &back_text]);
    alike(&from, &back, &outcome);
}

/// A file system that is unmounted in the end.
struct Mount {
    at: PathBuf,
    program: Background,
}

impl Mount {
    fn is_there(at: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|there| there.dev());
        match (device(at), at.parent().map(device)) {
            (Ok(own), Some(Ok(around))) => own != around,
            _ => false,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("fusermount3");
        let _ = unmount.args(["-u", "-z"]).arg(&self.at).status();
        let _ = self.program.0.kill();
    }
}

#[test]
fn sshfs_mounts() {
    let Some(sshfs) = installed("sshfs") else {
        return skipped("sshfs", &"not installed");
    };
    if !Path::new("/dev/fuse").exists() || installed("fusermount3").is_none() {
        return skipped("sshfs", &"no /dev/fuse or fusermount3");
    }
    let site = ours();
    let scratch = Scratch::new();
    let (from, there) = (scratch.join("from"), scratch.join("there"));
    tree(&from);
    for folder in [&there, &scratch.join("mount")] {
        fs::create_dir(folder).unwrap();
    }
    let mut command = Command::new(sshfs);
    command
        .arg("-f")
        .arg("-F")
        .arg(site.config(""))
        .args(["-o", "dir_cache=no"])
        .arg(format!("{HOST}:{}", there.display()))
        .arg(scratch.join("mount"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let program = Background::start(&mut command).unwrap();
    let mut mount = Mount {
        at: scratch.join("mount"),
        program,
    };
    let is_over = |mount: &mut Mount| !matches!(mount.program.0.try_wait(), Ok(None));
    let at = mount.at.clone();
    let came = until(LIMIT, || Mount::is_there(&at) || is_over(&mut mount));
    if is_over(&mut mount) {
        let mut said = String::new();
        if let Some(mut stderr) = mount.program.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        }
        // Only mounting may be unavailable here.
        assert!(said.contains("fuse"), "{said}");
        return skipped("sshfs", &said.trim());
    }
    assert!(came, "nothing is mounted");
    let script = format!(
        "set -e; cd {0}; cp -r {1}/. .; diff -r . {1}; mv large moved; ln -s moved link; \
         cmp link {1}/large; printf tail >>moved; truncate -s 3000003 moved; chmod 600 moved; \
         mkdir new; rmdir d/empty; rm small-1; touch -d @1000000000 small-2; sync moved; df . >&2; \
         stat -c '%a %s' moved; stat -c %Y small-2; ls",
        mount.at.display(),
        from.display()
    );
    let outcome = finish(Command::new("sh").args(["-c", &script]), Input::Nothing);
    ended_well(&outcome);
    let said = outcome.stdout.text();
    assert!(
        said.starts_with("600 3000003\n1000000000\n") && said.contains("\nnew\n"),
        "{said}"
    );
    // The server's own files, beside it.
    let moved = fs::read(there.join("moved")).unwrap();
    assert!(moved[..3_000_001] == noise(3_000_001) && moved[3_000_001..] == *b"ta");
    assert!(there.join("new").is_dir() && !there.join("small-1").exists());
}

fn with_library(library: &str) {
    let site = ours();
    let scratch = Scratch::new();
    let [from, there, back] = ["from", "there", "back"].map(|name| scratch.join(name));
    flat(&from);
    let mut command = match script_command("sftp_client.py") {
        Ok(command) => command,
        Err(why) => return skipped(library, &why),
    };
    for (name, value) in [
        ("library", library.to_owned()),
        ("port", site.running.daemon.port.to_string()),
        ("user", site.running.user.clone()),
        (
            "identity",
            fixture::file("user_ed25519").display().to_string(),
        ),
        (
            "known_hosts",
            site.running.known_hosts.display().to_string(),
        ),
        ("from", from.display().to_string()),
        ("there", there.display().to_string()),
        ("back", back.display().to_string()),
    ] {
        command.arg(format!("{name}={value}"));
    }
    let outcome = finish(&mut command, Input::Nothing);
    ended_well(&outcome);
    alike(&from, &there, &outcome);
    alike(&from, &back, &outcome);
}

#[test]
fn asyncssh_copies() {
    with_library("asyncssh");
}

#[test]
fn paramiko_copies() {
    with_library("paramiko");
}

/// A directory that, like those above it, only root can write to.
struct Jail(PathBuf);

impl Jail {
    fn new() -> std::io::Result<Self> {
        let path = PathBuf::from(format!("/var/lib/fulmar-jail-{}", std::process::id()));
        fs::create_dir(&path)?;
        fs::create_dir(path.join("files"))?;
        Ok(Self(path))
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_chroot_needs_no_files_of_its_own() {
    if !is_root() {
        return skipped("ChrootDirectory", &"needs root");
    }
    let jail = match Jail::new() {
        Ok(jail) => jail,
        Err(why) => return skipped("ChrootDirectory", &why),
    };
    let lines = format!(
        "Subsystem sftp internal-sftp\nChrootDirectory {}\nForceCommand internal-sftp\n",
        jail.0.display()
    );
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, &lines);
    let scratch = Scratch::new();
    let data = scratch.write("data", noise(500_000));
    let program = |name: &str| {
        let mut command = program(&site, name);
        command.arg("-q");
        command
    };
    let mut command = program("scp");
    command.arg(&data).arg(format!("{HOST}:/files/data"));
    ended_well(&finish(&mut command, Input::Nothing));
    assert!(fs::read(jail.0.join("files/data")).unwrap() == noise(500_000));
    let batch = format!(
        "cd /\npwd\nls -1\n-get /etc/passwd {0}.1\n-get /../../etc/passwd {0}.2\n\
         symlink /etc/passwd files/link\n-get files/link {0}.3\nget files/data {0}\n",
        scratch.join("got").display()
    );
    let mut command = program("sftp");
    command.args(["-b", "-", HOST]);
    let outcome = finish(&mut command, Input::Bytes(batch.as_bytes()));
    ended_well(&outcome);
    assert!(fs::read(scratch.join("got")).unwrap() == noise(500_000));
    for number in 1..4 {
        assert!(!scratch.join(&format!("got.{number}")).exists(), "{number}");
    }
    let listed = outcome.stdout.text();
    assert!(listed.contains("directory: /\n"), "{listed}");
    assert!(
        listed.contains("files\n") && !listed.contains("etc\n"),
        "{listed}"
    );
    // The home directory need not exist there, and that is no error in the log.
    let log = site.running.daemon.log();
    assert!(
        !log.contains("chdir") && !log.contains("No such file"),
        "{log}"
    );
    // No command leaves it, and it contains none.
    let outcome = site.run("cat /etc/passwd");
    assert!(
        !outcome.stdout.text().contains("root:"),
        "{}",
        outcome.summary()
    );
}
