//! Pipelined logins of our client, against every available server: each login runs its command
//! once, whatever was pipelined, without a message.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use interop::peers::ours::{Kind, development_binary};
use interop::peers::python::ParamikoServer;
use interop::peers::{Running, Server, foreign_servers, openssh};
use interop::process::{Input, Outcome};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::finish;

/// The installed servers, including ours, with the messages about the pipelined part of a first
/// login, and of a login with a known key.
fn servers() -> Vec<(Arc<dyn Server>, Running, [&'static str; 2])> {
    let mut all = foreign_servers();
    all.push(Arc::new(ParamikoServer));
    all.push(Arc::new(openssh::Sshd(Kind::Fulmar)));
    let mut running = Vec::new();
    for server in all {
        let name = server.name();
        // OpenSSH's default order of algorithms, not that of a list of all supported ones.
        let started = if name.starts_with("openssh") {
            openssh::start(Kind::OpenSsh, "")
        } else {
            server
                .offers()
                .and_then(|offers| server.start(&offers, None))
        };
        let ahead = if name.contains("dropbear") {
            ["1 signed requests\n", "a session and its command"]
        } else if name.contains("asyncssh") || name.contains("paramiko") {
            ["1 signed requests\n", "1 signed requests, a session\n"]
        } else {
            ["a session and its command"; 2]
        };
        match started {
            Ok(started) => running.push((server, started, ahead)),
            Err(why) => skipped(&name, &why),
        }
    }
    assert!(running.len() > 1, "no server but ours");
    running
}

/// Logs in with these options before the usual ones; the command writes a line to `marks`.
fn login(running: &Running, options: &str) -> Outcome {
    let scratch = running.daemon.scratch();
    // Without its certificate, which some of them do not accept.
    let identity = scratch.write("identity", interop::fixture::text("user_ed25519"));
    private(&identity);
    let config = format!(
        "{options}Host target\nHostName 127.0.0.1\nPort {}\nUser {}\nHost *\n{}",
        running.daemon.port,
        running.user,
        openssh::client_config(&running.known_hosts, &identity.display().to_string())
    );
    let path = scratch.write("ssh_config", config);
    let mut command = Kind::Fulmar.ssh().expect("our client");
    command
        .arg("-F")
        .arg(path)
        .args(["target", "echo in; exit 3"]);
    finish(&mut command, Input::Nothing)
}

fn private(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path, mode).expect("its mode");
}

fn served(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, 3, "{what}: {}", outcome.summary());
    assert_eq!(
        outcome.stdout.text(),
        "in\n",
        "{what}: {}",
        outcome.summary()
    );
}

#[test]
fn every_server_takes_what_goes_ahead_to_it() {
    for (server, running, ahead) in servers() {
        let name = server.name();
        for (turn, words) in ahead.iter().enumerate() {
            let outcome = login(&running, "LogLevel DEBUG1\n");
            let what = format!("{name}, login {turn}");
            served(&outcome, &what);
            let said = outcome.stderr.text();
            assert!(said.contains(words), "{what}: {said}");
            assert!(!said.contains("trying again"), "{what}: {said}");
            // No guess for a server whose first host key has an unknown type.
            let guesses = said.contains("kex: guessing");
            assert!(!guesses || turn > 0, "{what}: {said}");
            if !name.contains("paramiko") {
                let cache = fs::read_to_string(running.known_hosts.with_file_name("login_cache"));
                assert_eq!(guesses, turn > 0, "{what}: {said}{cache:?}");
            }
        }
        // And without a message.
        let outcome = login(&running, "");
        served(&outcome, &name);
        assert_eq!(outcome.stderr.text(), "", "{name}");
    }
}

#[test]
fn every_server_is_served_in_steps_and_with_everything_ahead() {
    for (server, running, _) in servers() {
        let name = server.name();
        for wish in ["no", "yes"] {
            let outcome = login(&running, &format!("PipelineLogin {wish}\nLoginCache no\n"));
            served(&outcome, &format!("{name}, PipelineLogin {wish}"));
        }
    }
}

/// A refused key costs at most a connection, without a visible effect.
#[test]
fn a_refused_key_with_a_session_behind_it_is_not_seen() {
    for (server, running, _) in servers() {
        let name = server.name();
        let scratch = running.daemon.scratch();
        let stranger = keys::PrivateKey::from_ed25519_seed(&[91; 32]);
        let text = keys::private_file::write_openssh(&stranger, "x", None).expect("a key file");
        let path = scratch.write("stranger", text.as_bytes());
        private(&path);
        // paramiko closes the connection without a message: a pipelined command is not sent again
        // then.
        let wishes: &[&str] = if name.contains("paramiko") {
            &["auto"]
        } else {
            &["auto", "yes"]
        };
        for wish in wishes {
            let options = format!(
                "PipelineLogin {wish}\nLoginCache no\nIdentityFile {}\n",
                path.display()
            );
            served(&login(&running, &options), &format!("{name}, {wish}"));
        }
    }
}

/// A guess that has become wrong, by each of the two conditions.
#[test]
fn a_wrong_guess_is_not_seen() {
    for (server, running, _) in servers() {
        let name = server.name();
        served(&login(&running, ""), &name);
        let path = running.known_hosts.with_file_name("login_cache");
        let honest = fs::read_to_string(&path).expect("the cache");
        let line = honest.lines().last().expect("an entry");
        let fields: Vec<&str> = line.splitn(8, ' ').collect();
        for (place, false_name) in [(2, "ecdh-sha2-nistp521"), (3, "ecdsa-sha2-nistp521")] {
            let mut forged = fields.clone();
            forged[place] = false_name;
            fs::write(&path, forged.join(" ") + "\n").expect("a forged cache");
            let outcome = login(&running, "LogLevel DEBUG1\n");
            let said = outcome.stderr.text();
            let what = format!("{name}, {false_name}: {said}");
            served(&outcome, &what);
        }
    }
}

/// Runs one of our programs with the configuration of the last [`login`].
fn copies(running: &Running, words: &[&OsStr], input: Input<'_>) -> Outcome {
    let mut command = Command::new(development_binary());
    let (program, words) = words.split_first().expect("a program");
    command
        .arg(program)
        .arg("-F")
        .arg(running.daemon.scratch().join("ssh_config"))
        .args(words);
    finish(&mut command, input)
}

/// Copies a file to the server and back; returns the messages of `sftp -vv` about its login.
fn there_and_back(running: &Running, what: &str) -> String {
    let scratch = Scratch::new();
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
    let (from, back) = (scratch.write("from", &content), scratch.join("back"));
    // For every user of the server.
    let open = scratch.join("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).expect("its mode");
    let mut there = OsString::from("target:");
    there.push(open.join("there"));
    let [scp, quiet] = ["scp", "-q"].map(OsStr::new);
    for words in [
        [scp, quiet, from.as_ref(), &there],
        [scp, quiet, &there, back.as_ref()],
    ] {
        let outcome = copies(running, &words, Input::Nothing);
        assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
        assert_eq!(outcome.stderr.text(), "", "{what}");
    }
    assert!(fs::read(&back).expect("the copy") == content, "{what}");
    let words = ["sftp", "-vv", "target"].map(OsStr::new);
    let outcome = copies(running, &words, Input::Bytes(b"pwd\n"));
    assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
    let (out, said) = (outcome.stdout.text(), outcome.stderr.text());
    assert!(out.contains("Remote working directory: /"), "{what}: {out}");
    assert!(!said.contains("trying again"), "{what}: {said}");
    said
}

/// A copy's first requests are sent with the login to our server. Another server in its place gets
/// them as it accepts them, and the copy succeeds.
#[test]
fn the_first_requests_of_a_copy_leave_with_the_login_to_ours_alone() {
    const AHEAD: &str = " bytes, not waiting";
    let mut all: Vec<(String, Running)> = servers()
        .into_iter()
        .map(|(server, running, _)| (server.name(), running))
        // The kinds without an SFTP server.
        .filter(|(name, _)| !name.starts_with("openssh") && !name.starts_with("fulmar"))
        .collect();
    for (kind, subsystem) in [
        (Kind::Fulmar, "Subsystem sftp internal-sftp\n"),
        (
            Kind::OpenSsh,
            "Subsystem sftp /usr/lib/openssh/sftp-server\n",
        ),
    ] {
        match openssh::start(kind, subsystem) {
            Ok(running) => all.push((format!("{kind:?}"), running)),
            Err(why) => skipped(&format!("{kind:?}"), &why),
        }
    }
    for (name, running) in all {
        served(&login(&running, ""), &name);
        let words = ["sftp", "-q", "target"].map(OsStr::new);
        let greeted = copies(&running, &words, Input::Nothing);
        if name != "Fulmar" && greeted.status != 0 {
            skipped(&format!("copies with {name}"), &greeted.stderr.text());
            continue;
        }
        if name == "Fulmar" {
            // Threads have to meet before the last flight is sent, otherwise it is sent without the
            // requests.
            let met = until(Duration::from_secs(60), || {
                there_and_back(&running, &name).contains(AHEAD)
            });
            assert!(met, "{name}");
            continue;
        }
        let path = running.known_hosts.with_file_name("login_cache");
        let honest = fs::read_to_string(&path).expect("the cache");
        let line = honest.lines().last().expect("an entry");
        let (known, _) = line.split_once(" SSH-2.0-").expect("a version line");
        let forged = format!("{known} SSH-2.0-Fulmar_0.1.0\n");
        let words = ["sftp", "-q", "target"].map(OsStr::new);
        for _ in 0..5 {
            fs::write(&path, &forged).expect("a forged cache");
            let greeted = copies(&running, &words, Input::Nothing);
            assert_eq!(greeted.status, 0, "{name}: {}", greeted.summary());
        }
        fs::write(&path, &forged).expect("a forged cache");
        let said = there_and_back(&running, &name);
        assert!(!said.contains(AHEAD), "{name}: {said}");
        // Its profile is correct again.
        let mended = fs::read_to_string(&path).expect("the cache");
        assert!(!mended.contains("Fulmar"), "{name}: {mended}");
    }
}

/// Whether the client shortened its lists, in this login and the previous one.
fn cuts_lists_down(running: &Running, what: &str) -> bool {
    let said = [0, 1].map(|turn| {
        let outcome = login(running, "TCPFastOpen yes\nLogLevel DEBUG1\n");
        served(&outcome, &format!("{what}, login {turn}"));
        let said = outcome.stderr.text();
        assert!(!said.contains("trying again"), "{what}: {said}");
        said
    });
    let short = "kex: short lists";
    assert!(!said[0].contains(short), "{what}: {}", said[0]);
    said[1].contains(short)
}

/// Lists of one name each, and our own form of them only to our own server.
#[test]
fn every_server_takes_lists_that_fit_into_a_syn() {
    for (server, running, _) in servers() {
        let name = server.name();
        let cut = cuts_lists_down(&running, &name);
        if name.contains("dropbear") || name.contains("fulmar") {
            assert!(cut, "{name}");
        }
    }
    // Its own first method does not fit.
    for ciphers in ["", "Ciphers aes128-ctr\n"] {
        let config = format!("KexAlgorithms curve25519-sha256\n{ciphers}");
        match openssh::start(Kind::OpenSsh, &config) {
            Ok(running) => assert!(cuts_lists_down(&running, &config)),
            Err(why) => skipped("openssh", &why),
        }
    }
}

/// The complete case: the kernel's second connection has a cookie, and the first flight of the
/// default key exchange arrives with the SYN.
#[test]
fn the_first_flight_arrives_with_the_syn() {
    // The network namespace is that of the thread and of its processes.
    let thread = std::thread::spawn(|| {
        let network = sys::namespace::unshare_network()
            .and_then(|()| sys::tun::bring_up("lo"))
            .and_then(|()| fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3"));
        if let Err(why) = network {
            skipped("TCP Fast Open", &format!("no network of its own: {why}"));
            return;
        }
        let running = openssh::start(Kind::Fulmar, "").expect("our server");
        let options = "TCPFastOpen yes\nLogLevel DEBUG1\n";
        let said = [0, 1, 2].map(|_| {
            let outcome = login(&running, options);
            served(&outcome, "ours");
            outcome.stderr.text()
        });
        let taken = "TCP Fast Open: the server accepted data in the SYN";
        assert!(said[2].contains(taken), "{}", said[2]);
        assert!(said[2].contains("kex: short lists"), "{}", said[2]);
        // Without the option it is not used.
        let outcome = login(&running, "LogLevel DEBUG1\n");
        served(&outcome, "ours");
        assert!(!outcome.stderr.text().contains("Fast Open"));
        // A closed port is reported as usual, although the cookie belongs to the address.
        let outcome = login(&running, &format!("{options}Port 1\n"));
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        let refused = "ssh: connect to host 127.0.0.1 port 1: Connection refused\n";
        assert!(
            outcome.stderr.text().ends_with(refused),
            "{}",
            outcome.summary()
        );
    });
    thread.join().expect("the login");
}
