//! A server that an ordinary user starts: it serves only that user.

use interop::account::{Guest, uid_of, uid_of_process};
use interop::fixture;
use interop::matrix::test_data;
use interop::peers::Running;
use interop::peers::ours::Kind;
use interop::process::{Daemon, Input, descendants};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port};
use interop::site::{HOST, Site, each};

/// A server started by `guest`, its files in the guest's home.
fn site(client: Kind, server: Kind, guest: &Guest) -> Site {
    let key = guest.write("host_key", fixture::text("host_ed25519"), 0o600);
    let authorized = guest.write("authorized_keys", fixture::text("user_ed25519.pub"), 0o600);
    let config = format!(
        "ListenAddress 127.0.0.1\nPidFile none\nHostKey {}\nAuthorizedKeysFile {}\n\
         StrictModes no\nUsePAM no\nLogLevel VERBOSE\n",
        key.display(),
        authorized.display()
    );
    let config = guest.write("sshd_config", config, 0o600);
    let port = free_port();
    let scratch = Scratch::new();
    let known = fixture::known_hosts(&format!("[127.0.0.1]:{port}"));
    let known_hosts = scratch.write("known_hosts", known);
    let sshd = server.sshd().expect("a server");
    let mut command = guest.command(sshd.get_program().as_ref());
    command.args(sshd.get_args()).arg("-f").arg(config);
    command.args(["-D", "-e", "-p", &port.to_string()]);
    let daemon = Daemon::start(&mut command, port, scratch).unwrap_or_else(|why| panic!("{why}"));
    Site {
        client,
        running: Running {
            daemon,
            user: guest.name.clone(),
            known_hosts,
            guest: None,
        },
    }
}

/// The test for a guest, if there can be one.
fn with_guest(test: impl Fn(Kind, Kind, &Guest)) {
    each(|client, server| match Guest::new() {
        Ok(guest) => test(client, server, &guest),
        Err(why) => skipped("a server of an ordinary user", &why),
    });
}

#[test]
fn its_user_logs_in() {
    with_guest(|client, server, guest| {
        let site = site(client, server, guest);
        let outcome = site.run("id -un; pwd; exit 7");
        let wanted = format!("{}\n{}\n", guest.name, guest.home().display());
        assert_eq!(
            outcome.stdout.text(),
            wanted,
            "{} {}",
            outcome.summary(),
            site.running.daemon.log()
        );
        assert_eq!(outcome.status, 7);
        let log = site.running.daemon.log();
        assert!(log.contains("Accepted key"), "{log}");
        assert!(!log.contains("oom_score_adj"), "{log}");
        let (data, digest) = test_data();
        let outcome = site.run_with("", &[HOST, "cat"], Input::File(data));
        assert_eq!(outcome.stdout.sha256, digest);
        if server != Kind::Fulmar {
            // OpenSSH's sshd ends a session if it may not give the terminal to the user.
            return;
        }
        let outcome = site.run_with("", &["-tt", HOST, "tty"], Input::Nothing);
        outcome.assert_shows("/dev/pts/");
    });
}

#[test]
fn nobody_else_does() {
    with_guest(|client, server, guest| {
        let mut site = site(client, server, guest);
        site.running.user = "root".into();
        let outcome = site.run("id -un");
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert_eq!(outcome.stdout.length, 0);
    });
}

#[test]
fn all_its_processes_are_its_users() {
    with_guest(|client, server, guest| {
        let site = site(client, server, guest);
        let script = "echo ready; cat >/dev/null";
        let mut command = site.ssh("");
        command
            .args([HOST, script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut session = interop::process::Background::start(&mut command).expect("a client");
        let mut output = session.0.stdout.take().expect("its output");
        std::io::Read::read_exact(&mut output, &mut [0; 6]).expect("the session runs");
        let uid = uid_of(&guest.name);
        let all = descendants(site.running.daemon.pid());
        assert!(all.len() >= 2, "{all:?}");
        // A process that has ended meanwhile belongs to nobody.
        for pid in all {
            let owner = uid_of_process(pid);
            assert!(owner.is_none() || owner == uid, "process {pid}: {owner:?}");
        }
    });
}
