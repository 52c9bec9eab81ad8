use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::super::run;
use super::*;

/// Keywords that OpenSSH's server knows, as its program has them.
const KEYWORDS: &str = "kexalgorithms macs PAMServiceName";

/// A root directory with an OpenSSH, that goes with the test.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        let random: [u8; 8] = crypto::random::bytes();
        let path = std::env::temp_dir().join(format!(
            "fulmar-replace-{:016x}",
            u64::from_le_bytes(random)
        ));
        let root = Self(path);
        root.write("usr/bin/ssh", "\u{7f}ELF ssh", 0o755);
        root.write("usr/bin/ssh-agent", "\u{7f}ELF agent", 0o2755);
        root.write("usr/bin/ssh-copy-id", "#!/bin/sh\n", 0o755);
        root.write(
            "usr/sbin/sshd",
            &format!("\u{7f}ELF {KEYWORDS} OpenSSH_9.9p1"),
            0o755,
        );
        root.write("usr/lib/openssh/sftp-server", "\u{7f}ELF sftp", 0o755);
        root.write(
            "etc/ssh/sshd_config",
            "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n",
            0o640,
        );
        root.write(
            "etc/ssh/ssh_config",
            "Include /etc/ssh/ssh_config.d/*.conf\n",
            0o644,
        );
        root.write("etc/pam.d/sshd", "", 0o644);
        for folder in ["etc/ssh/sshd_config.d", "etc/ssh/ssh_config.d"] {
            fs::create_dir_all(root.0.join(folder)).unwrap();
        }
        symlink("ssh", root.0.join("usr/bin/slogin")).unwrap();
        root
    }

    fn write(&self, path: &str, text: &str, mode: u32) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn install(&self, flags: &[&str]) -> i32 {
        let mut words = vec!["--root".into(), self.0.clone().into_os_string()];
        words.extend(flags.iter().map(std::ffi::OsString::from));
        run(words)
    }

    /// Each file and link with what `--revert` restores: content, mode, owner, time, number.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut open = vec![self.0.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let data = fs::symlink_metadata(&path).unwrap();
                let content = match data.file_type() {
                    kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                    kind if kind.is_dir() => {
                        open.push(path.clone());
                        all.insert(path, format!("{:o}", data.mode()));
                        continue;
                    }
                    _ => digest(&fs::read(&path).unwrap()),
                };
                let line = format!(
                    "{:o} {} {} {} {content}",
                    data.mode(),
                    data.uid(),
                    data.mtime_nsec(),
                    data.ino()
                );
                all.insert(path, line);
            }
        }
        all
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn digest(content: &[u8]) -> String {
    format!(
        "{:x?}",
        crypto::hash::HashAlgorithm::Sha256.digest(content).as_ref()
    )
}

#[test]
fn what_was_replaced_is_put_back_to_the_last_bit() {
    let root = Root::new();
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let ours = Path::new("/usr/local/bin/fulmar");
    for name in [
        "bin/ssh",
        "bin/ssh-agent",
        "bin/ssh-add",
        "sbin/sshd",
        "lib/openssh/sftp-server",
    ] {
        assert_eq!(
            fs::read_link(root.0.join("usr").join(name)).unwrap(),
            ours,
            "{name}"
        );
    }
    assert_eq!(
        fs::read(root.0.join("usr/bin/ssh.openssh")).unwrap(),
        b"\x7fELF ssh"
    );
    assert!(!root.0.join("usr/libexec").exists());
    let lines = fs::read_to_string(root.0.join("etc/ssh/sshd_config.d/zz-fulmar.conf")).unwrap();
    for line in [
        "PAMServiceName sshd\n",
        "KexAlgorithms +ecdh-sha2-nistp256",
        "MACs +hmac-sha1-etm",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    // A second time changes nothing: the record still has OpenSSH's files.
    let replaced = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let again = root.state();
    let changed: Vec<_> = replaced
        .iter()
        .filter(|(path, line)| again.get(*path) != Some(line))
        .collect();
    assert!(
        changed
            .iter()
            .all(|(path, _)| path.ends_with("lib/fulmar/manifest")),
        "{changed:?}"
    );
    assert_eq!(root.install(&["--revert"]), 0);
    assert_eq!(root.install(&["--remove"]), 0);
    assert_eq!(root.state(), before);
    assert_eq!(root.install(&["--revert"]), 1);
}

#[test]
fn a_removal_gives_the_place_back_first() {
    let root = Root::new();
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    assert_eq!(root.install(&["--remove"]), 0);
    assert_eq!(root.state(), before);
}

#[test]
fn our_own_defaults_write_no_lines() {
    let root = Root::new();
    assert_eq!(root.install(&["--replace-openssh", "--fulmar-defaults"]), 0);
    assert!(!root.0.join("etc/ssh/sshd_config.d/zz-fulmar.conf").exists());
    assert!(!root.0.join("etc/ssh/ssh_config.d/zz-fulmar.conf").exists());
    // Without a host key that they use, nobody could log in.
    let root = Root::new();
    root.write("etc/ssh/ssh_host_ecdsa_key", "", 0o600);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh", "--fulmar-defaults"]), 1);
    assert_eq!(root.state(), before);
    root.write("etc/ssh/ssh_host_ed25519_key", "", 0o600);
    assert_eq!(root.install(&["--replace-openssh", "--fulmar-defaults"]), 0);
}

#[test]
fn a_dry_run_and_a_refusal_change_nothing() {
    let root = Root::new();
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh", "--dry-run"]), 0);
    assert_eq!(root.state(), before);
    // Files of lines that nothing would read.
    root.write("etc/ssh/sshd_config", "Port 22\n", 0o644);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
    // A configuration with which the server would not start.
    root.write("etc/ssh/sshd_config", "Prot 22\n", 0o644);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
    // Somebody else's file where OpenSSH's would go.
    root.write(
        "etc/ssh/sshd_config",
        "Include sshd_config.d/*.conf\n",
        0o644,
    );
    root.write("usr/bin/scp", "", 0o755);
    root.write("usr/bin/scp.openssh", "", 0o755);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
    // A directory where a program would go.
    fs::remove_file(root.0.join("usr/bin/scp.openssh")).unwrap();
    fs::remove_file(root.0.join("usr/bin/scp")).unwrap();
    fs::create_dir(root.0.join("usr/bin/scp")).unwrap();
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
}

/// The programs of dpkg below a root directory, with the libraries that they need to run there.
fn install_dpkg(root: &Root) {
    let programs = ["dpkg-divert", "dpkg-statoverride"].map(|name| format!("/usr/bin/{name}"));
    let needed = std::process::Command::new("ldd").args(&programs).output();
    let needed = String::from_utf8(needed.unwrap().stdout).unwrap();
    let libraries = needed
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'));
    for path in programs.iter().map(String::as_str).chain(libraries) {
        let place = root.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(path, place).unwrap();
    }
    root.write("var/lib/dpkg/status", "", 0o644);
}

#[test]
fn in_another_root_dpkg_keeps_the_mode_by_the_names_that_are_there() {
    if !sys::process::is_root() || !Path::new("/usr/bin/dpkg-statoverride").exists() {
        eprintln!("skipped: not root, or no dpkg");
        return;
    }
    let root = Root::new();
    install_dpkg(&root);
    root.write("etc/passwd", "root:x:0:0::/root:/bin/sh\n", 0o644);
    // A group of the image alone, with a number that this machine may have for another one.
    let gid = 101;
    root.write("etc/group", &format!("root:x:0:\nimage:x:{gid}:\n"), 0o644);
    let agent = root.0.join("usr/bin/ssh-agent");
    std::os::unix::fs::chown(&agent, None, Some(gid)).unwrap();
    root.write("usr/bin/ssh-agent", "\u{7f}ELF agent", 0o2755);
    let kept = || fs::read_to_string(root.0.join("var/lib/dpkg/statoverride")).unwrap_or_default();
    // An entry that this machine could not read.
    let other = "root image 2755 /usr/bin/other\n";
    root.write("var/lib/dpkg/statoverride", other, 0o644);
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let ours = "root image 2755 /usr/bin/ssh-agent\n";
    let all = kept();
    assert!(all.contains(ours) && all.contains(other), "{all}");
    assert_eq!(root.install(&["--revert"]), 0);
    assert_eq!(kept(), other);
    assert_eq!(fs::symlink_metadata(&agent).unwrap().gid(), gid);
}

#[test]
fn an_interruption_at_any_step_is_undone() {
    let root = Root::new();
    let before = root.state();
    let settings = InstallSettings {
        root: root.0.clone(),
        ..InstallSettings::default()
    };
    // The hard link was made, and the name not yet taken.
    let mut taken = Vec::new();
    note(
        &mut taken,
        TakenStep::Program("/usr/bin/ssh".into()),
        &settings,
    )
    .unwrap();
    fs::hard_link(
        root.0.join("usr/bin/ssh"),
        root.0.join("usr/bin/ssh.openssh"),
    )
    .unwrap();
    // Noted only.
    note(
        &mut taken,
        TakenStep::Program("/usr/bin/scp".into()),
        &settings,
    )
    .unwrap();
    note(&mut taken, TakenStep::Lines(SERVER_LINES.into()), &settings).unwrap();
    assert_eq!(root.install(&["--revert"]), 0);
    fs::remove_dir_all(root.0.join("usr/local")).unwrap();
    assert_eq!(root.state(), before);
}

#[test]
fn an_openssh_that_came_or_went_meanwhile_stays_as_it_is() {
    let root = Root::new();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    // Its package was upgraded (dpkg writes to the other name), removed, and installed.
    root.write("usr/bin/ssh.openssh", "\u{7f}ELF newer", 0o755);
    fs::remove_file(root.0.join("usr/sbin/sshd.openssh")).unwrap();
    root.write("usr/bin/ssh-add.openssh", "\u{7f}ELF add", 0o755);
    assert_eq!(root.install(&["--revert"]), 0);
    assert_eq!(
        fs::read(root.0.join("usr/bin/ssh")).unwrap(),
        "\u{7f}ELF newer".as_bytes()
    );
    assert_eq!(
        fs::read(root.0.join("usr/bin/ssh-add")).unwrap(),
        "\u{7f}ELF add".as_bytes()
    );
    assert!(fs::symlink_metadata(root.0.join("usr/sbin/sshd")).is_err());
}

/// rpm has no diversions: an upgrade writes OpenSSH's programs to their names.
#[test]
fn an_upgrade_without_diversions_is_neither_lost_nor_in_the_way() {
    let root = Root::new();
    let newer = |root: &Root, version: &str| {
        fs::remove_file(root.0.join("usr/sbin/sshd")).unwrap();
        let text = format!("\u{7f}ELF {KEYWORDS} {version}");
        root.write("usr/sbin/sshd", &text, 0o755);
    };
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    newer(&root, "OpenSSH_9.3p1");
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let kept = fs::read_to_string(root.0.join("usr/sbin/sshd.openssh")).unwrap();
    assert!(kept.ends_with("9.3p1"), "{kept:?}");
    newer(&root, "OpenSSH_9.4p1");
    assert_eq!(root.install(&["--revert"]), 0);
    assert!(!root.0.join("usr/sbin/sshd.openssh").exists());
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    assert_eq!(root.install(&["--revert"]), 0);
    let sshd = fs::read_to_string(root.0.join("usr/sbin/sshd")).unwrap();
    assert!(sshd.ends_with("9.4p1"), "{sshd:?}");
}

#[test]
fn an_interruption_before_a_name_is_taken_is_undone_or_gone_on_with() {
    let root = Root::new();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    assert_eq!(root.install(&["--revert"]), 0);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let left = root.0.join("usr/bin/ssh.fulmar-new");
    let name = root.0.join("usr/bin/ssh");
    fs::rename(&name, &left).unwrap();
    fs::hard_link(root.0.join("usr/bin/ssh.openssh"), &name).unwrap();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    fs::rename(&name, &left).unwrap();
    fs::hard_link(root.0.join("usr/bin/ssh.openssh"), &name).unwrap();
    assert_eq!(root.install(&["--revert"]), 0);
    assert!(fs::symlink_metadata(&left).is_err());
    let after = root.state();
    assert!(before.iter().all(|(path, line)| {
        path.ends_with("lib/fulmar/manifest") || after.get(path) == Some(line)
    }));
}

/// rpm's upgrade of OpenSSH restarts its server with our lines.
#[test]
fn lines_that_openssh_does_not_know_are_not_written_without_diversions() {
    let root = Root::new();
    root.write(
        "usr/sbin/sshd",
        "\u{7f}ELF kexalgorithms macs OpenSSH_8.7p1",
        0o755,
    );
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
    assert_eq!(root.install(&["--replace-openssh", "--fulmar-defaults"]), 0);
}

#[test]
fn two_at_once_lose_no_program() {
    let root = Root::new();
    fs::create_dir(root.0.join("run")).unwrap();
    root.write("run/fulmar-install.lock", "", 0o600);
    let before = root.state();
    for _ in 0..5 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(root.install(&["--replace-openssh"]), 0));
            }
        });
        let kept = fs::read(root.0.join("usr/bin/ssh.openssh")).unwrap();
        assert_eq!(kept, b"\x7fELF ssh");
        assert_eq!(root.install(&["--remove"]), 0);
        assert_eq!(root.state(), before);
    }
}

#[test]
fn a_second_spelling_of_the_prefix_and_a_second_installation_take_no_link_for_openssh() {
    let root = Root::new();
    let under = |prefix: &str| ["--replace-openssh", "--prefix", prefix].map(str::to_owned);
    let replace = |prefix: &str| {
        let words = under(prefix);
        root.install(&words.each_ref().map(String::as_str))
    };
    fs::create_dir_all(root.0.join("opt/one")).unwrap();
    symlink("one", root.0.join("opt/link")).unwrap();
    assert_eq!(replace("/opt/one"), 0);
    assert_eq!(replace("/opt/link"), 0);
    let kept = || fs::read(root.0.join("usr/bin/ssh.openssh")).unwrap();
    assert_eq!(kept(), b"\x7fELF ssh");
    assert_eq!(replace("/opt/other"), 1);
    assert_eq!(kept(), b"\x7fELF ssh");
    assert_eq!(root.install(&["--revert", "--prefix", "/opt/one"]), 0);
    let ssh = root.0.join("usr/bin/ssh");
    assert_eq!(fs::read(ssh).unwrap(), b"\x7fELF ssh");
}

#[test]
fn lines_without_a_place_are_told_before_a_program_is_taken() {
    let root = Root::new();
    let lines = "etc/ssh/sshd_config.d/zz-fulmar.conf";
    // An administrator's own.
    root.write(lines, "MaxAuthTries 2\n", 0o600);
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
    // No directory.
    fs::remove_dir_all(root.0.join("etc/ssh/sshd_config.d")).unwrap();
    let before = root.state();
    assert_eq!(root.install(&["--replace-openssh"]), 1);
    assert_eq!(root.state(), before);
}

/// Lines that cannot be removed: a directory has their name.
#[test]
fn what_cannot_be_given_back_keeps_nothing_else_but_the_server_of_its_lines() {
    let root = Root::new();
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    let lines = root.0.join("etc/ssh/sshd_config.d/zz-fulmar.conf");
    fs::remove_file(&lines).unwrap();
    fs::create_dir(&lines).unwrap();
    assert_eq!(root.install(&["--revert"]), 1);
    let read = |name: &str| fs::read_link(root.0.join(name));
    assert!(read("usr/bin/ssh").is_err() && read("usr/sbin/sshd").is_ok());
    fs::remove_dir(&lines).unwrap();
    assert_eq!(root.install(&["--revert"]), 0);
    assert!(read("usr/sbin/sshd").is_err());
    assert_eq!(root.install(&["--revert"]), 1);
}

#[test]
fn what_had_a_name_that_is_taken_is_told() {
    let root = Root::new();
    let settings = InstallSettings {
        root: root.0.clone(),
        ..InstallSettings::default()
    };
    let was = |name: &str| was(Path::new(name), &settings);
    let kept = "OpenSSH's is /usr/bin/ssh.openssh";
    let none = "OpenSSH's is not installed";
    assert_eq!(was("/usr/bin/ssh"), kept);
    assert_eq!(was("/usr/bin/ssh-keyscan"), none);
    assert_eq!(root.install(&["--replace-openssh"]), 0);
    assert_eq!(was("/usr/bin/ssh"), kept);
    assert_eq!(was("/usr/bin/ssh-keyscan"), none);
}

#[test]
fn servers_whose_pam_service_had_their_name_are_found() {
    let root = Root::new();
    let settings = InstallSettings {
        root: root.0.clone(),
        ..InstallSettings::default()
    };
    for name in ["sshd-admin", "sshd-without"] {
        symlink("/usr/sbin/sshd", root.0.join("usr/sbin").join(name)).unwrap();
    }
    symlink("ssh", root.0.join("usr/bin/other")).unwrap();
    for service in ["sshd-admin", "other"] {
        root.write(&format!("etc/pam.d/{service}"), "", 0o644);
    }
    let found = ("/usr/sbin/sshd-admin".into(), "sshd-admin".to_owned());
    assert_eq!(named_servers(&settings), [found]);
}
