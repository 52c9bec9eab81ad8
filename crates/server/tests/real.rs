//! The whole server (listener, monitor, both processes) as the built binary, with OpenSSH's
//! client. The user is the one who runs the tests; as root, what needs root is looked at too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A running server and the files around it; both go away in the end.
struct Real {
    place: PathBuf,
    port: String,
    listener: Child,
    user: String,
}

/// The binary beside the tests; none where it has not been built.
fn binary() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let path = tests.parent()?.parent()?.join("fulmar");
    path.exists().then_some(path)
}

fn is_root() -> bool {
    sys::process::is_root()
}

fn keygen(path: &Path, kind: &str) {
    let mut command = Command::new("/usr/bin/ssh-keygen");
    command.args(["-q", "-t", kind, "-N", "", "-f"]).arg(path);
    assert!(command.status().expect("ssh-keygen").success());
}

impl Real {
    /// Starts a server with this configuration, or says why not.
    fn start(name: &str, config: &str) -> Option<Self> {
        let Some(binary) = binary() else {
            eprintln!("skipped {name}: target/…/fulmar is not built (cargo build -p cli)");
            return None;
        };
        if !Path::new("/usr/bin/ssh").exists() {
            eprintln!("skipped {name}: /usr/bin/ssh is not installed");
            return None;
        }
        let user = sys::users::by_uid(sys::process::effective_uid())
            .ok()
            .flatten()?
            .name;
        let place = std::env::temp_dir().join(format!("fulmar-real-{}-{name}", std::process::id()));
        // That of a process of this number that was killed.
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a directory");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("its mode");
        keygen(&place.join("id"), "ed25519");
        keygen(&place.join("hostkey"), "ed25519");
        keygen(&place.join("hostkey2"), "rsa");
        let file = place.join("sshd_config");
        let here = place.display();
        let text = format!(
            "ListenAddress 127.0.0.1\nHostKey {here}/hostkey\nHostKey {here}/hostkey2\nPidFile none\n\
             AuthorizedKeysFile {here}/id.pub\nStrictModes no\nPermitRootLogin yes\nPrintMotd no\n\
             LogLevel VERBOSE\n{}\n",
            config.replace("{here}", &here.to_string())
        );
        fs::write(&file, text).expect("a file");
        let port = sys::socket::free_port().expect("a port");
        let port = port.to_string();
        let mut listener = Command::new(binary)
            .args(["sshd", "-D", "-e", "-p", &port, "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server");
        let mut said = BufReader::new(listener.stderr.take().expect("its messages"));
        let mut lines = String::new();
        while !lines.contains("Server listening on 127.0.0.1 port ") {
            if said.read_line(&mut lines).expect("text") == 0 {
                panic!("the server did not start: {lines}");
            }
        }
        // The log goes on; nobody may wait for a full pipe.
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut said, &mut std::io::sink());
        });
        Some(Self {
            place,
            port,
            listener,
            user,
        })
    }

    fn ssh(&self, flags: &[&str], command: &[&str]) -> Output {
        let known = self.place.join("known_hosts");
        Command::new("/usr/bin/ssh")
            .args([
                "-F",
                "none",
                "-oStrictHostKeyChecking=no",
                "-oBatchMode=yes",
            ])
            .arg(format!("-oUserKnownHostsFile={}", known.display()))
            .args(["-oGlobalKnownHostsFile=none", "-oIdentitiesOnly=yes"])
            .arg("-oLogLevel=ERROR")
            .args(["-p", &self.port, "-i"])
            .arg(self.place.join("id"))
            .args(flags)
            .arg(format!("{}@127.0.0.1", self.user))
            .args(command)
            .stdin(Stdio::null())
            .output()
            .expect("a client")
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.listener.kill();
        let _ = self.listener.wait();
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_runs_as_the_user_who_logged_in() {
    let Some(real) = Real::start("command", "ExposeAuthInfo yes") else {
        return;
    };
    let out = real.ssh(
        &[],
        &["id -u; cut -d' ' -f1,2 $SSH_USER_AUTH; grep Threads /proc/$PPID/status; exit 3"],
    );
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(3), "{said} {}", text(&out.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], sys::process::effective_uid().to_string());
    assert!(lines[1].starts_with("publickey ssh-ed25519"), "{said}");
    assert_eq!(lines[2], "Threads:\t1");
}

#[test]
fn a_terminal_belongs_to_the_user_and_goes_back() {
    let Some(real) = Real::start("terminal", "") else {
        return;
    };
    let out = real.ssh(&["-tt"], &["tty; stat -c '%u %a' $(tty); exit 4"]);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(4), "{said} {}", text(&out.stderr));
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{said}");
    let (owner, mode) = lines[1].split_once(' ').expect("two words");
    assert_eq!(owner, sys::process::effective_uid().to_string());
    assert!(["620", "600"].contains(&mode), "{said}");
}

#[test]
fn what_the_configuration_forces_and_forbids_holds() {
    let Some(real) = Real::start(
        "forced",
        "PermitTTY no\nForceCommand echo forced $SSH_ORIGINAL_COMMAND",
    ) else {
        return;
    };
    let out = real.ssh(&[], &["id"]);
    assert_eq!(text(&out.stdout), "forced id\n", "{}", text(&out.stderr));
    let out = real.ssh(&["-tt"], &["id"]);
    assert!(
        text(&out.stderr).contains("PTY allocation request failed"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn a_client_learns_the_other_host_key_by_its_proof() {
    let Some(real) = Real::start("hostkeys", "") else {
        return;
    };
    let flags = [
        "-o",
        "UpdateHostKeys=yes",
        "-o",
        "HostKeyAlgorithms=ssh-ed25519,rsa-sha2-512",
    ];
    // The first time makes the host known; the second learns what was announced and proven.
    for _ in 0..2 {
        assert!(real.ssh(&flags, &["true"]).status.success());
    }
    let known = fs::read_to_string(real.place.join("known_hosts")).expect("a file");
    assert!(
        known.contains("ssh-ed25519 ") && known.contains("ssh-rsa "),
        "{known}"
    );
}

#[test]
fn a_rekey_is_signed_by_the_monitor() {
    let Some(real) = Real::start("rekey", "RekeyLimit 1M") else {
        return;
    };
    let out = real.ssh(&["-o", "RekeyLimit=2M"], &["head -c 8000000 /dev/zero"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(out.stdout.len(), 8_000_000);
}

#[test]
fn a_chroot_is_entered_only_when_it_is_roots_alone() {
    if !is_root() {
        eprintln!("skipped chroot: needs root");
        return;
    }
    // Not below /tmp, which others can write: every directory on the way counts.
    let jail = PathBuf::from(format!("/var/lib/fulmar-test-{}", std::process::id()));
    let config = format!(
        "ChrootDirectory {}\nForceCommand echo in $PWD; exit 5",
        jail.display()
    );
    let Some(real) = Real::start("chroot", &config) else {
        return;
    };
    let shell = sys::users::by_uid(0)
        .expect("an answer")
        .expect("root")
        .shell;
    copy_with_libraries(&jail, &shell);
    let out = real.ssh(&[], &["x"]);
    let refused = {
        fs::set_permissions(&jail, fs::Permissions::from_mode(0o777)).expect("its mode");
        real.ssh(&[], &["x"])
    };
    let owner = fs::metadata(&jail).expect("the jail").uid();
    fs::remove_dir_all(&jail).expect("it goes away");
    assert_eq!(owner, 0);
    assert_eq!(
        (out.status.code(), text(&out.stdout).as_str()),
        (Some(5), "in /\n"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(refused.status.code(), Some(255));
    assert!(refused.stdout.is_empty());
}

/// Puts a program and the libraries that it needs into `root`.
fn copy_with_libraries(root: &Path, program: &Path) {
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let libraries = text(&listed.stdout);
    let libraries = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(Path::new);
    for file in libraries.chain([program]) {
        let target = root.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a directory")).expect("it can be made");
        fs::copy(file, target).expect("a copy");
    }
    for entry in ["", "lib", "lib64", "bin", "usr"] {
        if let Ok(found) = fs::metadata(root.join(entry)) {
            assert!(found.is_dir());
        }
    }
}
