//! Logins and their restrictions: two factors, Match by address and group, principals, files with
//! unsafe owners or modes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use interop::account::Guest;
use interop::fixture::run_keygen;
use interop::process::{Outcome, installed};
use interop::scratch::Scratch;
use privsep_tests::sshd::{Config, Sshd, UserKey, authorize, binary, finish, guest_with, possible};

/// A guest with a password, and a client that types it.
struct WithPassword {
    guest: Guest,
    askpass: Scratch,
}

impl WithPassword {
    fn new(options: &str, key: &UserKey) -> Self {
        let mut guest = guest_with(options, key);
        guest.set_password("correct-horse-9").expect("a password");
        let askpass = Scratch::new();
        let script = askpass.write("askpass", "#!/bin/sh\necho correct-horse-9\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
        Self { guest, askpass }
    }

    fn login(&self, server: &Sshd, keys: &[&UserKey], options: &[&str], remote: &str) -> Outcome {
        let mut command = Command::new("ssh");
        // The first value wins.
        command.args(["-o", "BatchMode=no", "-o", "NumberOfPasswordPrompts=1"]);
        let usual = server.ssh(&self.guest.name, keys);
        command.args(usual.get_args()).args(options);
        command.args(["127.0.0.1", remote]);
        command
            .env("SSH_ASKPASS", self.askpass.join("askpass"))
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env_remove("SSH_AUTH_SOCK");
        finish(&mut command)
    }
}

#[test]
fn what_a_key_takes_away_stays_away_behind_a_second_factor() {
    if !possible("restrictions over two factors") {
        return;
    }
    let key = UserKey::new(21);
    let options = "restrict,command=\"echo forced: $SSH_ORIGINAL_COMMAND\"";
    let user = WithPassword::new(options, &key);
    for methods in ["publickey,password", "password,publickey"] {
        let server = Sshd::start(Config::new(&format!("AuthenticationMethods {methods}")));
        let outcome = user.login(&server, &[&key], &[], "id");
        assert_eq!(
            outcome.stdout.text(),
            "forced: id\n",
            "{methods}: {}\n{}",
            outcome.summary(),
            server.daemon.log()
        );
        let outcome = user.login(&server, &[&key], &["-tt"], "id");
        assert!(
            outcome
                .stderr
                .text()
                .contains("PTY allocation request failed")
        );
        let outcome = user.login(&server, &[&key], &["-W", "127.0.0.1:1"], "");
        assert!(
            outcome.stderr.text().contains("prohibited"),
            "{}",
            outcome.summary()
        );
        // One factor is not two.
        let outcome = user.login(&server, &[&key], &["-o", "PasswordAuthentication=no"], "id");
        assert_eq!(
            (outcome.status, outcome.stdout.length),
            (255, 0),
            "{methods}"
        );
        let outcome = user.login(&server, &[], &["-o", "PubkeyAuthentication=no"], "id");
        assert_eq!(
            (outcome.status, outcome.stdout.length),
            (255, 0),
            "{methods}"
        );
    }
}

#[test]
fn who_only_asks_for_the_methods_is_in_the_log_as_who_leaves() {
    if !possible("probes in the log") {
        return;
    }
    let key = UserKey::new(24);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("LogLevel VERBOSE"));
    let probe = |user: &str| {
        let options = ["-o", "PreferredAuthentications=none"];
        let outcome = server.run_with(user, &[], &options, "echo in");
        assert_eq!((outcome.status, outcome.stdout.length), (255, 0));
    };
    probe(&guest.name);
    server.logs(&format!(
        "Connection closed by authenticating user {} 127.0.0.1 port",
        guest.name
    ));
    probe("no-such-user");
    server.logs("Invalid user no-such-user from 127.0.0.1");
    server.logs("Connection closed by invalid user no-such-user 127.0.0.1 port");
}

#[test]
fn two_keys_take_away_what_either_does() {
    if !possible("restrictions of two keys") {
        return;
    }
    let (one, other) = (UserKey::new(22), UserKey::new(23));
    let guest = guest_with("", &one);
    let server = Sshd::start(Config::new("AuthenticationMethods publickey,publickey"));
    authorize(
        &guest,
        &[("no-pty", &one), ("command=\"echo second\"", &other)],
    );
    let outcome = server.run_with(&guest.name, &[&one, &other], &[], "id");
    assert_eq!(outcome.stdout.text(), "second\n", "{}", outcome.summary());
    let outcome = server.run_with(&guest.name, &[&one, &other], &["-tt"], "id");
    assert!(
        outcome
            .stderr
            .text()
            .contains("PTY allocation request failed")
    );
    // The same key twice is one, also under two lines.
    authorize(&guest, &[("", &one), ("", &one)]);
    server.keeps_out(&guest.name, &one);
    // Two commands cannot both be forced.
    authorize(
        &guest,
        &[
            ("command=\"echo first\"", &one),
            ("command=\"echo second\"", &other),
        ],
    );
    let outcome = server.run_with(&guest.name, &[&one, &other], &[], "id");
    assert_eq!(
        (outcome.status, outcome.stdout.length),
        (255, 0),
        "{}",
        outcome.summary()
    );
}

fn certify(
    scratch: &Scratch,
    authority: &Path,
    key: &UserKey,
    arguments: &[&str],
) -> std::path::PathBuf {
    let file = key.write(scratch, "id");
    let public = scratch.join("id.pub").display().to_string();
    let authority = authority.display().to_string();
    let mut all = vec!["-q", "-s", &authority, "-I", "test"];
    all.extend(arguments);
    all.push(&public);
    run_keygen(&all).expect("a certificate");
    file
}

#[test]
fn principals_are_whole_names_and_a_certificate_without_any_is_nobodys() {
    if !possible("principals") || installed("ssh-keygen").is_none() {
        return;
    }
    let scratch = Scratch::new();
    let authority = UserKey::new(24);
    let authority_file = authority.write(&scratch, "ca");
    let key = UserKey::new(25);
    let guest = Guest::new().expect("a guest");
    let server = Sshd::start(Config::default());
    let with = |options: &str, arguments: &[&str]| {
        authorize(&guest, &[(options, &authority)]);
        let folder = Scratch::new();
        let file = certify(&folder, &authority_file, &key, arguments);
        let mut command = server.ssh(&guest.name, &[]);
        command
            .arg("-i")
            .arg(&file)
            .args(["127.0.0.1", "id -un; echo $SSH_ORIGINAL_COMMAND"]);
        finish(&mut command)
    };
    let name = guest.name.as_str();
    let lets = |what: &str, outcome: &Outcome| {
        let first = outcome.stdout.text();
        assert!(
            first.starts_with(name),
            "{what}: {}\n{}",
            outcome.summary(),
            server.daemon.log()
        );
    };
    let keeps = |what: &str, outcome: &Outcome| {
        assert_eq!(
            (outcome.status, outcome.stdout.length),
            (255, 0),
            "{what}: {}",
            outcome.summary()
        );
    };
    lets("own name", &with("cert-authority", &["-n", name]));
    keeps("another name", &with("cert-authority", &["-n", "somebody"]));
    keeps("no name at all", &with("cert-authority", &[]));
    let listed = "cert-authority,principals=\"one,two\"";
    lets("a listed name", &with(listed, &["-n", "two"]));
    keeps(
        "own name where others are listed",
        &with(listed, &["-n", name]),
    );
    keeps("a name between two", &with(listed, &["-n", "on"]));
    keeps("no name where some are listed", &with(listed, &[]));
    keeps("a key that is no authority", &with("", &["-n", name]));
    keeps(
        "expired",
        &with("cert-authority", &["-n", name, "-V", "20200101:20200102"]),
    );
    keeps(
        "another address",
        &with(
            "cert-authority",
            &["-n", name, "-O", "source-address=192.0.2.0/24"],
        ),
    );
    keeps(
        "an unknown critical option",
        &with("cert-authority", &["-n", name, "-O", "critical:x@y=1"]),
    );
    keeps(
        "a host's certificate",
        &with("cert-authority", &["-h", "-n", name]),
    );
    let forced = with(
        "cert-authority",
        &["-n", name, "-O", "force-command=echo by certificate"],
    );
    assert_eq!(forced.stdout.text(), "by certificate\n");
    // What the line and the certificate force must agree.
    let both = "cert-authority,command=\"echo by line\"";
    keeps(
        "two commands",
        &with(
            both,
            &["-n", name, "-O", "force-command=echo by certificate"],
        ),
    );
    let cleared = with("cert-authority", &["-n", name, "-O", "clear"]);
    lets("nothing permitted but a command", &cleared);
    let from_line = with("cert-authority,from=\"192.0.2.1\"", &["-n", name]);
    keeps("from elsewhere", &from_line);
}

#[test]
fn match_asks_for_address_user_group_and_port() {
    if !possible("Match") {
        return;
    }
    let key = UserKey::new(26);
    let guest = guest_with("", &key);
    let say = |word: &str| format!("ForceCommand echo {word}\n");
    let name = guest.name.clone();
    let blocks = format!(
        "Match User {name} Address 127.0.0.2\n{}Match Address 127.0.0.3,!127.0.0.4 Group {name}\n{}\
         Match LocalPort 1\n{}Match User *,!{name}\n{}Match LocalAddress 127.0.0.1 Address 127.0.0.0/8\n{}",
        say("second"),
        say("third"),
        say("port"),
        say("others"),
        say("rest"),
    );
    let server = Sshd::start(Config::blocks(&blocks));
    for (from, wanted) in [
        ("127.0.0.1", "rest\n"),
        ("127.0.0.2", "second\n"),
        ("127.0.0.3", "third\n"),
        ("127.0.0.4", "rest\n"),
    ] {
        let outcome = server.run_with(&name, &[&key], &["-b", from], "id");
        assert_eq!(
            outcome.stdout.text(),
            wanted,
            "{from}: {}",
            outcome.summary()
        );
    }
    // A block may deny a login that was permitted; the login of another address is not affected.
    let blocks = "Match Address 127.0.0.2\nPubkeyAuthentication no\n";
    let server = Sshd::start(Config::blocks(blocks));
    let outcome = server.run_with(&name, &[&key], &["-b", "127.0.0.2"], "id");
    assert_eq!(outcome.status, 255);
    server.lets_in(&name, &key);
}

#[test]
fn variables_come_in_by_the_names_that_are_permitted() {
    if !possible("PermitUserEnvironment by pattern") {
        return;
    }
    let key = UserKey::new(27);
    let options =
        "environment=\"FLM_KEY=1\",environment=\"LD_PRELOAD=/tmp/x.so\",environment=\"OTHER=1\"";
    let guest = guest_with(options, &key);
    guest.write(
        ".ssh/environment",
        "FLM_FILE=1\nLD_LIBRARY_PATH=/tmp\n#FLM_NOT=1\nBASH_ENV=/tmp/x\n",
        0o600,
    );
    let server = Sshd::start(Config::new(
        "PermitUserEnvironment FLM_*\nAcceptEnv LANG FLM_*",
    ));
    let mut command = server.ssh(&guest.name, &[&key]);
    command
        .args(["-o", "SendEnv=*", "127.0.0.1", "env"])
        .env("FLM_SENT", "1")
        .env("LD_AUDIT", "/tmp/x");
    let outcome = finish(&mut command);
    let text = outcome.stdout.text();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    for name in ["FLM_KEY", "FLM_FILE", "FLM_SENT"] {
        assert!(names.contains(&name), "{name}: {}", outcome.summary());
    }
    for name in names {
        let bad = name.starts_with("LD_") || ["OTHER", "BASH_ENV", "FLM_NOT"].contains(&name);
        assert!(!bad, "{name}: {text}");
    }
}

#[test]
fn a_file_of_keys_is_read_with_the_users_rights_and_never_waited_for() {
    if !possible("authorized_keys of other kinds") || installed("mkfifo").is_none() {
        return;
    }
    let key = UserKey::new(28);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    let file = guest.home().join(".ssh/authorized_keys");
    server.lets_in(&guest.name, &key);
    // A link to a file that only root may read: the file is opened with the user's permissions.
    let roots = Scratch::new();
    let hidden = roots.write("keys", format!("{}\n", key.line));
    fs::remove_file(&file).expect("the file");
    symlink(&hidden, &file).expect("a link");
    server.keeps_out(&guest.name, &key);
    // The same file made readable, to show that the permissions were the reason; its owner is root.
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o644)).expect("its mode");
    let outcome = server.run_command(&guest.name, &key, "echo in");
    if outcome.status != 0 {
        // Below a directory that everybody may write to, which StrictModes refuses.
        server.logs("bad modes");
    }
    fs::remove_file(&file).expect("the link");
    let outcome = finish(Command::new("mkfifo").arg(&file));
    assert_eq!(outcome.status, 0);
    std::os::unix::fs::chown(&file, interop::account::uid_of(&guest.name), None)
        .expect("its owner");
    server.keeps_out(&guest.name, &key);
    fs::remove_file(&file).expect("the pipe");
    fs::create_dir(&file).expect("a folder");
    server.keeps_out(&guest.name, &key);
    fs::remove_dir(&file).expect("the folder");
    symlink("/dev/zero", &file).expect("a link");
    server.keeps_out(&guest.name, &key);
    fs::remove_file(&file).expect("the link");
    authorize(&guest, &[("", &key)]);
    server.lets_in(&guest.name, &key);
}

#[test]
fn a_line_of_any_length_is_one_line() {
    if !possible("long lines of authorized_keys") {
        return;
    }
    let (key, other) = (UserKey::new(29), UserKey::new(30));
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    for length in [1000, 8100, 8192, 65_536, 1 << 20] {
        // No part of a long line is an entry of its own.
        let filler = "x".repeat(length);
        let text = format!(
            "command=\"echo {filler}\" {} {filler} {}\n# {filler} {}\n{}\n",
            other.line, key.line, key.line, other.line
        );
        guest.write(".ssh/authorized_keys", text, 0o600);
        server.keeps_out(&guest.name, &key);
        let outcome = server.run_command(&guest.name, &other, "echo mine");
        // The first line forces the command; if that line is too long, no line applies.
        let said = outcome.stdout.text();
        assert!(
            said.starts_with("xxx") || said == "mine\n",
            "{length}: {}",
            outcome.summary()
        );
    }
}

#[test]
fn tries_are_counted_by_the_server() {
    if !possible("MaxAuthTries") {
        return;
    }
    let key = UserKey::new(31);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("MaxAuthTries 3\nPubkeyAuthOptions max-pk-ok:0"));
    let wrong: Vec<UserKey> = (60..63).map(UserKey::new).collect();
    let [one, two, three] = &wrong[..] else {
        unreachable!()
    };
    let outcome = server.run_with(&guest.name, &[one, two, &key], &[], "echo in");
    assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
    let outcome = server.run_with(&guest.name, &[one, two, three, &key], &[], "echo in");
    assert_eq!(outcome.status, 255);
    assert!(
        outcome
            .stderr
            .text()
            .contains("Too many authentication failures"),
        "{}",
        outcome.summary()
    );
}

#[test]
fn a_shared_connection_has_as_many_sessions_as_permitted() {
    if !possible("MaxSessions") {
        return;
    }
    let key = UserKey::new(32);
    let guest = guest_with("", &key);
    for (limit, wanted) in [(0, 255), (1, 255), (2, 0)] {
        let server = Sshd::start(Config::new(&format!("MaxSessions {limit}")));
        let socket = server.daemon.scratch().join("mux");
        let mut master = server.ssh(&guest.name, &[&key]);
        master.arg("-S").arg(&socket).args(["-M", "-f"]);
        if limit == 0 {
            // Logged in, without any effect.
            let outcome = server.run_command(&guest.name, &key, "echo in");
            assert_eq!((outcome.status, outcome.stdout.length), (255, 0));
            server.logs("Accepted publickey");
            continue;
        }
        master.args(["127.0.0.1", "sleep 600"]);
        master
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        assert!(
            master.status().expect("ssh").success(),
            "{}",
            server.daemon.log()
        );
        let mut second = server.ssh(&guest.name, &[&key]);
        // If it were refused, the client would open its own connection, with a command that fails.
        second
            .arg("-S")
            .arg(&socket)
            .args(["-o", "ProxyCommand=false", "127.0.0.1", "echo in"]);
        let outcome = finish(&mut second);
        assert_eq!(outcome.status, wanted, "{limit}: {}", outcome.summary());
        let mut end = Command::new("ssh");
        end.arg("-S").arg(&socket).args(["-O", "exit", "127.0.0.1"]);
        finish(&mut end);
    }
}

#[test]
fn refusals_of_all_kinds_of_users_look_alike() {
    if !possible("refusals that look alike") {
        return;
    }
    let key = UserKey::new(33);
    let (known, denied) = (guest_with("", &key), guest_with("", &key));
    let locked = guest_with("", &key);
    let outcome = finish(Command::new("usermod").args(["-L", &locked.name]));
    assert_eq!(outcome.status, 0);
    let shell_less = Guest::with_shell("/nonexistent/shell").expect("a guest");
    authorize(&shell_less, &[("", &key)]);
    let lines = format!("DenyUsers {}\nPermitRootLogin no", denied.name);
    let server = Sshd::start(Config::new(&lines));
    let stranger = UserKey::new(97);
    let words = |user: &str, key: &UserKey| {
        let outcome = server.run_command(user, key, "echo in");
        assert_eq!((outcome.status, outcome.stdout.length), (255, 0), "{user}");
        let said = outcome.stderr.text().replace(user, "USER");
        let refused = said.lines().find(|line| line.contains("Permission denied"));
        refused
            .unwrap_or_else(|| panic!("{user}: {said}"))
            .to_owned()
    };
    let usual = words(&known.name, &stranger);
    for user in [
        "no-such-user",
        "root",
        "nobody",
        "daemon",
        &denied.name,
        &locked.name,
        &shell_less.name,
    ] {
        assert_eq!(words(user, &stranger), usual, "{user}");
        // The right key of a user who may not log in is refused with the same message.
        assert_eq!(words(user, &key), usual, "{user}");
    }
    server.lets_in(&known.name, &key);
}

#[test]
fn what_a_session_is_refused_is_in_the_log_at_info() {
    if !possible("refusals in the log") {
        return;
    }
    let key = UserKey::new(34);
    let guest = guest_with("", &key);
    let user = &guest.name;
    let server = Sshd::start(Config {
        first: "LogLevel INFO\nPermitOpen h:1\nPermitListen 9999",
        blocks: "Match Address 127.0.0.3\nAllowTcpForwarding no",
    });
    let ask = |options: &[&str], remote: &str| {
        let quiet = ["-o", "LogLevel=QUIET", "-o", "ExitOnForwardFailure=yes"];
        let options = [&quiet[..], options].concat();
        let outcome = server.run_with(user, &[&key], &options, remote);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
    };
    ask(&["-W", "127.0.0.1:7"], "");
    ask(&["-R", "1234:127.0.0.1:7"], "true");
    ask(&["-b", "127.0.0.3", "-W", "127.0.0.1:7"], "");
    ask(&["-s"], "no-such\nsubsystem");
    // The addresses and ports of the clients.
    let log = server.daemon.log();
    let clients: Vec<&str> = log
        .split(&format!("Accepted publickey for {user} from "))
        .skip(1)
        .filter_map(|rest| rest.split(" ssh2").next())
        .collect();
    let [open, listen, off, subsystem] = clients[..] else {
        panic!("{log}");
    };
    for line in [
        format!(
            "Received request from {open} to connect to host 127.0.0.1 port 7, but the request was denied."
        ),
        format!(
            "Received request from {listen} to remote forward to host localhost port 1234, but the request was denied."
        ),
        "refused local port forward: originator 127.0.0.1 port 65535, target 127.0.0.1 port 7"
            .to_owned(),
        format!(
            "subsystem request for no-such\\012subsystem by user {user} failed, subsystem not found"
        ),
        // Clients that leave without a word.
        format!("Connection closed by {off}"),
        format!("Connection closed by {subsystem}"),
    ] {
        server.logs(&line);
    }
}

#[test]
fn who_may_not_log_in_because_of_nologin_is_in_the_log_at_info() {
    if !possible("nologin in the log") {
        return;
    }
    let key = UserKey::new(35);
    let guest = guest_with("", &key);
    // A mount namespace with a /run of its own: the file would lock all users out.
    let server = Sshd::start_with(Config::new("LogLevel INFO"), |_, _| {
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs tmpfs /run && echo closed >/run/nologin && exec \"$@\"";
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(binary());
        command
    });
    let outcome = server.run_command(&guest.name, &key, "echo in");
    assert_eq!(outcome.stdout.length, 0, "{}", outcome.summary());
    assert!(
        outcome.stderr.text().contains("closed"),
        "{}",
        outcome.summary()
    );
    server.logs(&format!(
        "User {} not allowed because /var/run/nologin exists",
        guest.name
    ));
}

#[test]
fn what_keeps_a_command_from_its_shell_or_environment_is_told_to_the_user() {
    if !possible("messages of a session") {
        return;
    }
    let key = UserKey::new(36);
    let guest = guest_with("", &key);
    let file = guest.write(".ssh/environment", "A=1 \nnonsense\n\tB=2\n", 0o600);
    let server = Sshd::start(Config {
        first: "PermitUserEnvironment yes",
        blocks: "Match Address 127.0.0.3\nChrootDirectory /sys",
    });
    let outcome = server.run_with(&guest.name, &[&key], &["-q"], "echo \"[$A] [$B]\"");
    assert_eq!(outcome.stdout.text(), "[1 ] [2]\n");
    let bad = format!("Bad line 2 in {}\n", file.display());
    assert_eq!(outcome.stderr.text(), bad);
    // No shell is there.
    let outcome = server.run_with(&guest.name, &[&key], &["-q", "-b", "127.0.0.3"], "echo in");
    let said = outcome.stderr.text();
    assert!(said.ends_with(": No such file or directory\n"), "{said}");
}
