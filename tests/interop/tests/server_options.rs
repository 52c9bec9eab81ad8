//! Keywords of sshd_config for sessions, and the listener's signals.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use interop::account::{Guest, is_root};
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, is_listening, until};
use interop::site::{HOST, Site, each, finish};
use rustix::process::Signal;

#[test]
fn a_forced_command_takes_the_place_of_any_other() {
    each(|client, server| {
        let lines = "ForceCommand echo forced: $SSH_ORIGINAL_COMMAND\n";
        let site = Site::new(client, server, lines);
        assert_eq!(site.run("echo mine").stdout.text(), "forced: echo mine\n");
        let outcome = site.run_with("", &["-T", HOST], Input::Nothing);
        assert_eq!(outcome.stdout.text(), "forced:\n", "{}", outcome.summary());
        let outcome = site.run_with("", &["-s", HOST, "sftp"], Input::Nothing);
        assert!(
            !outcome.stdout.text().contains("mine"),
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn match_blocks_apply_to_whom_they_name() {
    each(|client, server| {
        let user = interop::account::current_user();
        let blocks = format!(
            "Match User nobody-we-know\nForceCommand echo others\n\
             Match User {user} Address 127.0.0.0/8\nSetEnv FLM_BLOCK=first\n\
             Match All\nSetEnv FLM_BLOCK=second\nForceCommand echo \"block $FLM_BLOCK\"\n"
        );
        let site = Site::with_match(client, server, "", &blocks);
        assert_eq!(site.run("echo mine").stdout.text(), "block first\n");
    });
}

#[test]
fn environments_hold_what_both_sides_allow() {
    each(|client, server| {
        let lines = "AcceptEnv FLM_GOOD FLM_W*\nSetEnv FLM_SERVER=theirs FLM_WILD_2=server\n";
        let site = Site::new(client, server, lines);
        let extra = "SendEnv FLM_GOOD FLM_BAD\nSetEnv FLM_WILD_1=one FLM_WILD_2=two\n";
        let mut command = site.ssh(extra);
        command
            .args([HOST, "env | grep ^FLM_ | sort; echo \"$HOME $USER $LOGNAME $SHELL\"; echo $SSH_CONNECTION"])
            .env("FLM_GOOD", "good value")
            .env("FLM_BAD", "bad");
        let text = finish(&mut command, Input::Nothing).stdout.text();
        let wanted = "FLM_GOOD=good value\nFLM_SERVER=theirs\nFLM_WILD_1=one\nFLM_WILD_2=server\n";
        assert!(text.starts_with(wanted), "{text}");
        let rest: Vec<&str> = text[wanted.len()..].lines().collect();
        let user = interop::account::current_user();
        assert!(rest[0].contains(&format!("{user} {user} /")), "{text}");
        assert!(rest[1].starts_with("127.0.0.1 "), "{text}");
        assert!(
            rest[1].ends_with(&format!(" 127.0.0.1 {}", site.running.daemon.port)),
            "{text}"
        );
    });
}

#[test]
fn the_banner_is_shown_before_the_login() {
    each(|client, server| {
        let scratch = Scratch::new();
        let banner = scratch.write("banner", "Keep out.\nUnless you belong here.\n");
        let site = Site::new(client, server, &format!("Banner {}\n", banner.display()));
        let outcome = site.run_with("LogLevel INFO\n", &[HOST, "echo in"], Input::Nothing);
        assert_eq!(outcome.stdout.text(), "in\n");
        let said = outcome.stderr.text().replace('\r', "");
        assert!(
            said.contains("Keep out.\nUnless you belong here.\n"),
            "{said:?}"
        );
        let quiet = site.run_with("", &["-q", HOST, "echo in"], Input::Nothing);
        assert!(
            !quiet.stderr.text().contains("Keep out"),
            "{}",
            quiet.summary()
        );
    });
}

#[test]
fn a_changed_root_is_the_whole_world() {
    each(|client, server| {
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => return skipped("ChrootDirectory", &why),
        };
        let jail = Scratch::new();
        furnish(jail.path());
        guest.write(
            ".ssh/authorized_keys",
            fixture::text("user_ed25519.pub"),
            0o600,
        );
        let lines = format!(
            "ChrootDirectory {}\nAuthorizedKeysFile {}/.ssh/authorized_keys\n",
            jail.path().display(),
            guest.home().display()
        );
        // Everybody can write to the directory for temporary files: no component of the path may be
        // such a directory.
        let root = Path::new("/var/lib").join(jail.path().file_name().expect("a name"));
        fs::rename(jail.path(), &root).expect("a jail on the same file system");
        let lines = lines.replace(
            &jail.path().display().to_string(),
            &root.display().to_string(),
        );
        let _remove = RemoveAll(&root);
        let mut site = Site::new(client, server, &lines);
        site.running.user = guest.name.clone();
        let outcome = site.run("pwd; echo /*; cat /proof; test -e /etc/passwd || echo no passwd");
        assert_eq!(
            outcome.stdout.text(),
            "/\n/bin /lib /lib64 /proof\ninside\nno passwd\n",
            "{} {}",
            outcome.summary(),
            site.running.daemon.log()
        );
        // One that another user could write to is refused.
        fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("mode");
        let outcome = site.run("echo in");
        assert_ne!(outcome.status, 0, "{}", outcome.summary());
        assert_eq!(outcome.stdout.length, 0);
    });
}

struct RemoveAll<'a>(&'a Path);

impl Drop for RemoveAll<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

/// A shell and `cat` with their libraries.
fn furnish(jail: &Path) {
    for folder in ["bin", "lib", "lib64"] {
        fs::create_dir(jail.join(folder)).expect("a folder");
    }
    fs::write(jail.join("proof"), "inside\n").expect("a file");
    for program in ["sh", "cat"] {
        let path = installed(program).expect("a shell and cat");
        fs::copy(&path, jail.join("bin").join(program)).expect("a copy");
        let needed = finish(Command::new("ldd").arg(&path), Input::Nothing)
            .stdout
            .text();
        for word in needed
            .split_ascii_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            let to = jail.join(word.trim_start_matches('/'));
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(word, to).expect("a library");
        }
    }
    for path in [
        jail.to_path_buf(),
        jail.join("bin"),
        jail.join("lib"),
        jail.join("lib64"),
    ] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("mode");
    }
}

#[test]
fn a_login_style_is_no_part_of_the_name() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let name = site.running.user.clone();
        let styled = format!("{name}:style");
        let outcome = site.run_with("", &["-l", &styled, HOST, "id -un"], Input::Nothing);
        assert_eq!(
            outcome.stdout.text(),
            format!("{name}\n"),
            "{}",
            outcome.summary()
        );
        let nobody = site.run_with("", &["-l", ":style", HOST, "id -un"], Input::Nothing);
        assert_eq!(nobody.status, 255, "{}", nobody.summary());
    });
}

#[test]
fn a_hangup_reads_the_configuration_again() {
    each(|client, server| {
        let site = Site::new(client, server, "SetEnv FLM=before\n");
        assert_eq!(site.run("echo $FLM").stdout.text(), "before\n");
        let file = site.running.daemon.scratch().join("sshd_config");
        let text = fs::read_to_string(&file).expect("the configuration");
        fs::write(&file, text.replace("FLM=before", "FLM=after")).expect("the configuration");
        site.running.daemon.signal(Signal::HUP);
        let changed = || site.run("echo $FLM").stdout.text() == "after\n";
        assert!(
            until(COMMAND_LIMIT, changed),
            "{}",
            site.running.daemon.log()
        );
    });
}

#[test]
fn a_bad_configuration_is_said_and_ours_goes_on_with_the_old_one() {
    each(|client, server| {
        if server != interop::peers::ours::Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "SetEnv FLM=before\n");
        let file = site.running.daemon.scratch().join("sshd_config");
        let text = fs::read_to_string(&file).expect("the configuration");
        fs::write(
            &file,
            text.replace("SetEnv FLM=before", "NoSuchKeyword yes\nNorThisOne yes"),
        )
        .expect("it");
        site.running.daemon.signal(Signal::HUP);
        let said = || {
            site.running
                .daemon
                .log()
                .contains("2 bad configuration options")
        };
        assert!(until(COMMAND_LIMIT, said), "{}", site.running.daemon.log());
        // Each bad line is a line of the log.
        let log = site.running.daemon.log();
        for keyword in ["NoSuchKeyword", "NorThisOne"] {
            let lines = log.lines().filter(|line| line.contains(keyword));
            assert_eq!(lines.count(), 1, "{log}");
        }
        assert!(!log.contains("\\012"), "{log}");
        assert_eq!(site.run("echo $FLM").stdout.text(), "before\n");
    });
}

#[test]
fn a_listener_that_is_ended_leaves_its_sessions_alone() {
    each(|client, server| {
        let mut site = Site::new(client, server, "");
        let mut command = site.ssh("");
        command.args([HOST, "echo ready; read line; echo got $line"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut session = Background::start(&mut command).expect("a client");
        let mut output = session.0.stdout.take().expect("its output");
        let mut ready = [0; 6];
        std::io::Read::read_exact(&mut output, &mut ready).expect("the session runs");
        site.running.daemon.signal(Signal::TERM);
        assert!(site.running.daemon.ends_within(COMMAND_LIMIT), "it goes on");
        assert!(!is_listening(site.running.daemon.port));
        let mut input = session.0.stdin.take().expect("its input");
        std::io::Write::write_all(&mut input, b"a line\n").expect("the session goes on");
        drop(input);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).expect("its last words");
        assert_eq!(rest, "got a line\n");
    });
}

#[test]
fn a_client_that_says_nothing_is_cut_off() {
    each(|_, server| {
        let site = Site::new(server, server, "LoginGraceTime 1\n");
        let stream =
            std::net::TcpStream::connect(("127.0.0.1", site.running.daemon.port)).expect("it");
        stream
            .set_read_timeout(Some(COMMAND_LIMIT))
            .expect("a limit");
        let mut all = Vec::new();
        // The connection ends or is reset before the time limit of the read.
        let ended = match std::io::Read::read_to_end(&mut &stream, &mut all) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(ended, "still connected");
        assert!(all.starts_with(b"SSH-2.0-"), "{all:?}");
    });
}

#[test]
fn a_client_that_stops_answering_is_cut_off() {
    each(|client, server| {
        let lines = "ClientAliveInterval 1\nClientAliveCountMax 2\n";
        let site = Site::new(client, server, lines);
        let mut command = site.ssh("");
        command
            .args([HOST, "echo ready; exec sleep 60"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut session = Background::start(&mut command).expect("a client");
        let mut output = session.0.stdout.take().expect("its output");
        std::io::Read::read_exact(&mut output, &mut [0; 6]).expect("the session runs");
        let pid = i32::try_from(session.0.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process id"), Signal::STOP).expect("a stop");
        let listener = site.running.daemon.pid();
        let gone = || interop::process::descendants(listener).is_empty();
        assert!(until(COMMAND_LIMIT, gone), "the session is still there");
    });
}

#[test]
fn sessions_of_a_connection_are_counted() {
    each(|client, server| {
        let site = Site::new(client, server, "MaxSessions 0\n");
        let outcome = site.run("echo in");
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert_eq!(outcome.stdout.length, 0);
    });
}

#[test]
fn the_users_own_files_are_read_where_that_is_allowed() {
    each(|client, server| {
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => return skipped("PermitUserEnvironment, PermitUserRC", &why),
        };
        guest.write(
            ".ssh/authorized_keys",
            fixture::text("user_ed25519.pub"),
            0o600,
        );
        guest.write(".ssh/environment", "FLM=from a file\n", 0o600);
        guest.write(".ssh/rc", "echo from rc >&2\n", 0o600);
        for (value, wanted, said) in [("yes", "from a file\n", true), ("no", "\n", false)] {
            let lines = format!(
                "AuthorizedKeysFile .ssh/authorized_keys\nPermitUserEnvironment {value}\nPermitUserRC {value}\n"
            );
            let mut site = Site::new(client, server, &lines);
            site.running.user = guest.name.clone();
            let outcome = site.run("echo $FLM");
            assert_eq!(
                outcome.stdout.text(),
                wanted,
                "{value}: {}",
                outcome.summary()
            );
            assert_eq!(outcome.stderr.text().contains("from rc"), said, "{value}");
        }
    });
}

#[test]
fn a_key_exchange_that_is_not_post_quantum_is_logged() {
    each(|client, server| {
        // OpenSSH's server has the keyword since 10.6.
        if server == Kind::OpenSsh {
            return;
        }
        for (line, kex, wanted) in [
            ("", "curve25519-sha256", true),
            ("WarnWeakCrypto no-pq-kex\n", "curve25519-sha256", false),
            ("", "sntrup761x25519-sha512", false),
        ] {
            let lines = format!("LogLevel INFO\nKexAlgorithms {kex}\n{line}");
            let site = Site::new(client, server, &lines);
            assert_eq!(site.run("echo in").stdout.text(), "in\n");
            let said = "WARNING: connection from 127.0.0.1 port ";
            let what = "is not using a post-quantum key exchange algorithm: \"curve25519-sha256\"";
            let log = site.running.daemon.log();
            assert_eq!(log.contains(said) && log.contains(what), wanted, "{log}");
        }
    });
}

/// How often this text tells of algorithms that only old devices need, and whether it says that a login
/// uses `names`.
fn told(text: &str, names: &str) -> (usize, bool) {
    const SAID: &str = " is using weak algorithms of old devices: ";
    let line = text.lines().find(|line| line.contains(SAID));
    let is_so = line.is_some_and(|line| {
        let names = format!("{SAID}{names}");
        line.contains("WARNING: login") && line.trim_end_matches('.').ends_with(&names)
    });
    (text.matches(SAID).count(), is_so)
}

#[test]
fn old_algorithms_are_told_unless_all_warnings_are_off() {
    each(|client, server| {
        for (line, of_kex, of_old) in [
            ("", 1, 1),
            ("WarnWeakCrypto no-pq-kex\n", 0, 1),
            ("WarnWeakCrypto no\n", 0, 0),
        ] {
            let of_ours = |kind: Kind| if kind == Kind::Fulmar { line } else { "" };
            let both = "LogLevel INFO\nCiphers aes128-cbc\n";
            let kex = "KexAlgorithms curve25519-sha256\n";
            let site = Site::new(client, server, &format!("{both}{kex}{}", of_ours(server)));
            // A client whose exchanges are chosen says nothing of them.
            let extra = format!("{both}{}", of_ours(client));
            let outcome = site.run_with(&extra, &[HOST, "echo in"], Input::Nothing);
            assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
            let texts = [
                (client, outcome.stderr.text()),
                (server, site.running.daemon.log()),
            ];
            for (_, text) in texts.iter().filter(|(kind, _)| *kind == Kind::Fulmar) {
                let kex = text
                    .matches("not using a post-quantum key exchange")
                    .count();
                let old = text
                    .matches("weak algorithms of old devices: aes128-cbc")
                    .count();
                assert_eq!((kex, old), (of_kex, of_old), "{line}: {text}");
            }
        }
    });
}

#[test]
fn signatures_with_sha1_are_told_once_by_both_sides() {
    const AUTHORITY: &str = "ssh-rsa of the certificate's authority";
    let scratch = Scratch::new();
    let authority = fixture::file("user_rsa").display().to_string();
    let certified = scratch.write("key", fixture::text("user_ed25519"));
    let public = scratch.write("key.pub", fixture::text("user_ed25519.pub"));
    let (user, public) = (
        interop::account::current_user(),
        public.display().to_string(),
    );
    let mut sign = vec![
        "-q", "-t", "ssh-rsa", "-s", &authority, "-I", "old", "-n", &user,
    ];
    sign.push(&public);
    fixture::run_keygen(&sign).expect("a certificate");
    let plain = fixture::file("user_rsa");
    let by_authority =
        "CASignatureAlgorithms +ssh-rsa\nPubkeyAcceptedAlgorithms *-cert-v01@openssh.com\n";
    let cases = [
        (
            &plain,
            "PubkeyAcceptedAlgorithms ssh-rsa\n",
            "",
            "ssh-rsa",
            1,
        ),
        (&certified, by_authority, "", AUTHORITY, 1),
        (
            &plain,
            "PubkeyAcceptedAlgorithms ssh-rsa\n",
            "WarnWeakCrypto no-pq-kex\n",
            "ssh-rsa",
            1,
        ),
        (
            &plain,
            "PubkeyAcceptedAlgorithms ssh-rsa\n",
            "WarnWeakCrypto no\n",
            "",
            0,
        ),
        (&plain, "PubkeyAcceptedAlgorithms rsa-sha2-256\n", "", "", 0),
    ];
    each(|client, server| {
        for (key, how, told_of, names, count) in cases {
            let of_ours = |kind: Kind| if kind == Kind::Fulmar { told_of } else { "" };
            let lines = format!(
                "LogLevel INFO\nPubkeyAcceptedAlgorithms +ssh-rsa\nCASignatureAlgorithms +ssh-rsa\n\
                 TrustedUserCAKeys {authority}.pub\n{}",
                of_ours(server)
            );
            let site = Site::new(client, server, &lines);
            let outcome = site.login_with(&format!("LogLevel INFO\n{how}{}", of_ours(client)), key);
            assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
            let texts = [
                (client, outcome.stderr.text()),
                (server, site.running.daemon.log()),
            ];
            for (_, text) in texts.iter().filter(|(kind, _)| *kind == Kind::Fulmar) {
                assert_eq!(
                    told(text, names),
                    (count, count == 1),
                    "{how}{told_of}: {text}"
                );
            }
        }
    });
}

#[test]
fn a_certificate_of_the_host_that_is_signed_with_sha1_is_warned_of() {
    let scratch = Scratch::new();
    let authority = fixture::file("host_rsa").display().to_string();
    let key = scratch.path().join("host").display().to_string();
    let public = format!("{key}.pub");
    let made = fixture::run_keygen(&["-q", "-t", "ed25519", "-N", "", "-f", &key]);
    made.expect("a key");
    let names = "127.0.0.1";
    let sign = [
        "-q", "-h", "-t", "ssh-rsa", "-s", &authority, "-I", "old", "-n", names, &public,
    ];
    fixture::run_keygen(&sign).expect("a certificate");
    let known = scratch.write(
        "known_hosts",
        format!("@cert-authority * {}", fixture::text("host_rsa.pub")),
    );
    let client = format!(
        "LogLevel INFO\nHostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com\n\
         CASignatureAlgorithms +ssh-rsa\nUserKnownHostsFile {}\n",
        known.display()
    );
    each(|kind, server| {
        if kind != Kind::Fulmar {
            return;
        }
        let lines = format!("HostKey {key}\nHostCertificate {key}-cert.pub\n");
        let site = Site::new(kind, server, &lines);
        let said = |more: &str| {
            let extra = format!("{client}{more}");
            let outcome = site.run_with(&extra, &[HOST, "echo in"], Input::Nothing);
            assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
            outcome.stderr.text()
        };
        let warned = "** WARNING: connection is using weak algorithms of old devices: \
                      ssh-rsa of the certificate's authority.\n";
        assert!(said("").contains(warned), "{}", said(""));
        assert!(!said("WarnWeakCrypto no\n").contains("WARNING"));
    });
}

#[test]
fn files_that_others_can_write_let_nobody_in() {
    each(|client, server| {
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => return skipped("StrictModes", &why),
        };
        // Not below the directory for temporary files, to which everybody can write.
        let home = Path::new("/var/lib").join(guest.home().file_name().expect("a name"));
        fs::create_dir(&home).expect("a home");
        let _remove = RemoveAll(&home);
        let keys = home.join("authorized_keys");
        fs::write(&keys, fixture::text("user_ed25519.pub")).expect("a file");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .expect("mode");
        };
        mode(&home, 0o755);
        mode(&keys, 0o644);
        let lines = format!("StrictModes yes\nAuthorizedKeysFile {}\n", keys.display());
        let mut site = Site::new(client, server, &lines);
        site.running.user = guest.name.clone();
        assert_eq!(
            site.run("echo in").stdout.text(),
            "in\n",
            "{}",
            site.running.daemon.log()
        );
        mode(&keys, 0o666);
        assert_eq!(site.run("echo in").status, 255, "the file");
        mode(&keys, 0o644);
        mode(&home, 0o777);
        assert_eq!(site.run("echo in").status, 255, "the folder");
    });
}

#[test]
fn the_session_runs_as_the_user_with_its_groups() {
    each(|client, server| {
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => return skipped("sessions of another user", &why),
        };
        assert!(is_root());
        guest.write(
            ".ssh/authorized_keys",
            fixture::text("user_ed25519.pub"),
            0o600,
        );
        let mut site = Site::new(client, server, "AuthorizedKeysFile .ssh/authorized_keys\n");
        site.running.user = guest.name.clone();
        let here = finish(Command::new("id").arg(&guest.name), Input::Nothing)
            .stdout
            .text();
        assert_eq!(site.run("id").stdout.text(), here);
        let outcome =
            site.run("pwd; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; cat /etc/shadow");
        let text = outcome.stdout.text();
        assert!(
            text.starts_with(&format!("{}\n", guest.home().display())),
            "{text}"
        );
        assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
        assert_eq!(outcome.status, 1, "it read the shadow file");
    });
}
