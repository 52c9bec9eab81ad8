//! What a user does: commands, shells, terminals, files, connections through the server.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use crate::Test;
use crate::fake_monitor::Server;
use crate::peer::{Place, complains, ended, run, served, text};

pub const TESTS: &[Test] = &[
    (
        "a_command_brings_its_output_and_status",
        a_command_brings_its_output_and_status,
    ),
    (
        "all_that_was_written_arrives_even_when_it_ends_at_once",
        all_that_was_written_arrives,
    ),
    (
        "bytes_go_both_ways_unchanged_through_rekeys",
        bytes_go_both_ways_unchanged_through_rekeys,
    ),
    ("a_signal_is_told_as_one", a_signal_is_told_as_one),
    (
        "a_terminal_has_its_size_type_and_name",
        a_terminal_has_its_size_type_and_name,
    ),
    (
        "a_login_shell_greets_and_knows_that_it_is_one",
        a_login_shell_greets,
    ),
    (
        "the_environment_is_the_servers_choice",
        the_environment_is_the_servers_choice,
    ),
    (
        "a_home_that_is_not_there_is_said",
        a_home_that_is_not_there_is_said,
    ),
    (
        "a_subsystem_is_an_external_command",
        a_subsystem_is_an_external_command,
    ),
    (
        "input_ends_when_the_client_says_so",
        input_ends_when_the_client_says_so,
    ),
    (
        "a_terminal_closes_with_its_command_and_pipes_wait_for_their_holders",
        holders_of_output,
    ),
    (
        "a_client_that_leaves_hangs_up",
        a_client_that_leaves_hangs_up,
    ),
    (
        "sessions_share_a_connection_up_to_max_sessions",
        sessions_share_a_connection,
    ),
    (
        "connections_go_through_and_only_where_permitted",
        connections_go_through,
    ),
    (
        "rc_and_environment_files_are_read",
        rc_and_environment_files_are_read,
    ),
    ("host_keys_are_announced", host_keys_are_announced),
    (
        "password_and_prompts_reach_the_monitor",
        password_and_prompts_reach_the_monitor,
    ),
    (
        "prompts_of_keyboard_interactive_are_shown",
        prompts_are_shown,
    ),
    (
        "a_client_that_stops_answering_is_let_go",
        a_client_that_stops_answering_is_let_go,
    ),
    (
        "a_shell_that_does_not_exist_says_so",
        a_shell_that_does_not_exist_says_so,
    ),
];

fn a_command_brings_its_output_and_status() {
    let Some((place, server)) = served("command", |_| {}) else {
        return;
    };
    let out = place.run(&server, &[], &["echo out; echo err >&2; exit 42"], b"");
    assert_eq!(out.status.code(), Some(42), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout), "out\n");
    assert_eq!(text(&out.stderr), "err\n");
    let record = server.wait_for(0, |record| record.session_exit.is_some());
    assert_eq!(record.auth_exit.as_deref(), Some("exit 0"));
    assert_eq!(record.session_exit.as_deref(), Some("exit 0"), "{record:?}");
}

fn all_that_was_written_arrives() {
    let Some((place, server)) = served("atonce", |_| {}) else {
        return;
    };
    for status in 0..20 {
        let command = format!("head -c 200000 /dev/zero; printf end; exit {status}");
        let out = place.run(&server, &[], &[&command], b"");
        assert_eq!(out.status.code(), Some(status), "{}", text(&out.stderr));
        assert_eq!(out.stdout.len(), 200_003);
        assert!(out.stdout.ends_with(b"end"));
    }
}

fn bytes_go_both_ways_unchanged_through_rekeys() {
    let Some((place, server)) = served("bytes", |_| {}) else {
        return;
    };
    let bytes: Vec<u8> = (0..4_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for flags in [
        &[][..],
        &["-o", "RekeyLimit=1M"],
        &["-c", "chacha20-poly1305@openssh.com"],
        &["-C"],
    ] {
        let out = place.run(&server, flags, &["cat"], &bytes);
        assert!(out.status.success(), "{flags:?}: {}", text(&out.stderr));
        assert!(
            out.stdout == bytes,
            "{flags:?}: {} bytes came back",
            out.stdout.len()
        );
    }
    let server = place.server(|policy| policy.config = "RekeyLimit 1M\n".into());
    let out = place.run(&server, &[], &["cat"], &bytes);
    let came = out.stdout.len();
    assert!(
        out.stdout == bytes,
        "{came} bytes came back: {}",
        text(&out.stderr)
    );
}

fn a_signal_is_told_as_one() {
    let Some((place, server)) = served("signal", |_| {}) else {
        return;
    };
    let out = place.run(
        &server,
        &["-o", "LogLevel=VERBOSE"],
        &["kill -TERM $$"],
        b"",
    );
    assert_eq!(out.status.code(), Some(255));
    assert!(
        !text(&out.stderr).contains("exit status"),
        "{}",
        text(&out.stderr)
    );
    let out = place.run(&server, &["-vv"], &["kill -USR1 $$"], b"");
    complains(&out, "exit-signal");
}

fn a_terminal_has_its_size_type_and_name() {
    let Some((place, server)) = served("terminal", |_| {}) else {
        return;
    };
    let out = place.run(
        &server,
        &["-tt"],
        &["tty; echo $TERM $SSH_TTY; ps -o tty= -p $$; exit 7"],
        b"",
    );
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(7), "{said} {}", text(&out.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{said}");
    assert_eq!(lines[1].trim(), format!("vt220 {}", lines[0].trim()));
    assert!(
        lines[2].trim().starts_with("pts/"),
        "the terminal is the controlling one: {said}"
    );
    // 1 MiB through a terminal, to the last byte, with its status.
    let out = place.run(
        &server,
        &["-tt"],
        &["head -c 1000000 /dev/zero | tr '\\0' x; exit 3"],
        b"",
    );
    assert_eq!(out.status.code(), Some(3));
    assert_eq!(out.stdout.len(), 1_000_000);
}

fn a_login_shell_greets() {
    let Some((place, server)) = served("greeting", |policy| {
        policy.login_messages = "Welcome, tester.".into();
        policy.config = "PrintMotd no\n".into();
    }) else {
        return;
    };
    let out = place.run(&server, &["-tt"], &[], b"echo name is $0\nexit 5\n");
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(5), "{said}");
    assert!(said.starts_with("Welcome, tester.\r\n"), "{said:?}");
    assert!(said.contains("name is -sh"), "{said:?}");
    fs::write(place.home().join(".hushlogin"), "").expect("a file");
    let out = place.run(&server, &["-tt"], &[], b"exit\n");
    assert!(!text(&out.stdout).contains("Welcome"));
    // Not for a command, and a shell without a terminal is a login shell all the same.
    let out = place.run(&server, &["-T"], &[], b"echo name is $0; exit 6\n");
    assert_eq!(ended(&out), (Some(6), "name is -sh\n".into()));
}

fn the_environment_is_the_servers_choice() {
    let Some((place, server)) = served("environment", |policy| {
        policy.config =
            "AcceptEnv LC_*\nSetEnv FROM_SERVER=yes\nUsePAM yes\nExposeAuthInfo yes\n".into()
    }) else {
        return;
    };
    let flags = ["-o", "SendEnv=LC_TEST", "-o", "SetEnv=LD_PRELOAD=/x.so"];
    let out = place.run(&server, &flags, &["env; cat $SSH_USER_AUTH; pwd"], b"");
    let said = text(&out.stdout);
    let home = place.home();
    let port = server.address.port();
    for line in [
        "USER=tester",
        "LOGNAME=tester",
        "SHELL=/bin/sh",
        &format!("HOME={}", home.display()),
        "LC_TEST=from the client",
        "FROM_SERVER=yes",
        "FROM_KEY=1",
        "FROM_PAM=1",
        "publickey ssh-ed25519 AAAA",
        &home.display().to_string(),
    ] {
        assert!(said.lines().any(|each| each == line), "{line}: {said}");
    }
    assert!(
        said.contains(&format!(" 127.0.0.1 {port}\n")),
        "SSH_CONNECTION: {said}"
    );
    for name in [
        "LD_PRELOAD",
        "SSH_AUTH_INFO_0",
        "SSH_TTY",
        "SSH_ORIGINAL_COMMAND",
        "MAIL",
    ] {
        assert!(
            !said
                .lines()
                .any(|line| line.starts_with(&format!("{name}="))),
            "{name}: {said}"
        );
    }
    let path = said
        .lines()
        .find_map(|line| line.strip_prefix("SSH_USER_AUTH="))
        .expect("a file");
    server.wait_for(0, |record| record.session_exit.is_some());
    assert!(
        !fs::exists(path).expect("an answer"),
        "{path} goes away with the session"
    );
}

fn a_home_that_is_not_there_is_said() {
    let Some((place, server)) = served("nohome", |policy| policy.home = "/no/such/home".into())
    else {
        return;
    };
    let out = place.run(&server, &[], &["pwd"], b"");
    assert_eq!(text(&out.stdout), "/\n");
    assert_eq!(
        text(&out.stderr),
        "Could not chdir to home directory /no/such/home: No such file or directory\n"
    );
}

fn a_subsystem_is_an_external_command() {
    let Some((place, server)) = served("subsystem", |policy| {
        policy.config = "Subsystem sftp /usr/lib/openssh/sftp-server\nSubsystem hello echo hello\n\
        Subsystem own internal-sftp\n"
            .into()
    }) else {
        return;
    };
    let out = place.run(&server, &["-s"], &["hello"], b"");
    assert_eq!(ended(&out), (Some(0), "hello\n".into()));
    let out = place.run(&server, &["-s"], &["nope"], b"");
    assert!(!out.status.success());
    complains(&out, "subsystem request failed");
    // SSH_FXP_INIT, version 3; the answer is SSH_FXP_VERSION.
    let out = place.run(&server, &["-s"], &["own"], &[0, 0, 0, 5, 1, 0, 0, 0, 3]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(out.stdout.get(4..9), Some(&[2, 0, 0, 0, 3][..]));
    if fs::exists("/usr/lib/openssh/sftp-server").unwrap_or(false)
        && fs::exists("/usr/bin/sftp").unwrap_or(false)
    {
        fs::write(place.home().join("file"), vec![7_u8; 300_000]).expect("a file");
        let mut sftp = Command::new("/usr/bin/sftp");
        sftp.args(["-q", "-F", "none", "-oStrictHostKeyChecking=no"])
            .args([&place.known_hosts(), "-oBatchMode=yes", "-b", "-"])
            .args(["-P", &server.address.port().to_string(), "-i"])
            .arg(place.path.join("id"))
            .arg("tester@127.0.0.1");
        let copy = place.path.join("copy");
        let out = run(
            &mut sftp,
            format!("get file {}\n", copy.display()).as_bytes(),
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(fs::read(copy).expect("the copy"), vec![7_u8; 300_000]);
    }
}

fn input_ends_when_the_client_says_so() {
    let Some((place, server)) = served("input", |_| {}) else {
        return;
    };
    let out = place.run(&server, &[], &["wc -c; echo after"], &[b'x'; 12_345]);
    assert_eq!(text(&out.stdout), "12345\nafter\n");
    // A command that reads nothing ends, whatever the client still sends.
    let out = place.run(
        &server,
        &[],
        &["exec 0<&-; echo done"],
        &vec![b'x'; 5_000_000],
    );
    assert_eq!(ended(&out), (Some(0), "done\n".into()));
    // Output that ends early does not end the command, and its status is not lost.
    for _ in 0..5 {
        let out = place.run(
            &server,
            &["-n"],
            &["exec 1>&- 2>&-; read x < /dev/null; exit 9"],
            b"",
        );
        assert_eq!(out.status.code(), Some(9));
    }
}

fn holders_of_output() {
    let Some((place, server)) = served("holders", |_| {}) else {
        return;
    };
    let fifo = place.path.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    // On a terminal nobody waits for the background job, which would wait for ever.
    let command = format!("cat {} & echo started; exit 4", fifo.display());
    let out = place.run(&server, &["-tt"], &[&command], b"");
    assert_eq!(out.status.code(), Some(4), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("started"));
    // On pipes what the holder writes after the command ended still arrives.
    let command = format!(
        "(read line < {0}; echo late $line) & exit 4",
        fifo.display()
    );
    let writer = thread::spawn(move || fs::write(&fifo, "word\n"));
    let out = place.run(&server, &[], &[&command], b"");
    assert_eq!(ended(&out), (Some(4), "late word\n".into()));
    writer.join().expect("no panic").expect("a reader");
}

/// By the end of its terminal; tests/interop/tests/sessions.rs shows a command without one, which goes on.
fn a_client_that_leaves_hangs_up() {
    let Some((place, server)) = served("leaves", |_| {}) else {
        return;
    };
    let flags = &["-tt"][..];
    let index = server.records.lock().expect("no panic").len();
    let marker = place.path.join(format!("hup{index}"));
    let command = format!(
        "exec 2>/dev/null; trap 'echo hup > {}; exit' HUP; echo ready; while :; do sleep 0.05; done",
        marker.display()
    );
    let mut client = place.begin(&server, flags, &command);
    client.kill().expect("a kill");
    client.wait().expect("an end");
    let record = server.wait_for(index, |record| record.session_exit.is_some());
    assert_eq!(record.session_exit.as_deref(), Some("exit 0"), "{record:?}");
    for _ in 0..6000 {
        if marker.exists() {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(marker.exists(), "{flags:?}: the command was hung up on");
}

fn sessions_share_a_connection() {
    let Some((place, server)) = served("share", |policy| policy.config = "MaxSessions 2\n".into())
    else {
        return;
    };
    let socket = place.path.join("m");
    let path = format!("ControlPath={}", socket.display());
    let mut master = place.begin(&server, &["-M", "-o", &path], "echo ready; cat");
    let out = place.run(&server, &["-o", &path], &["echo second"], b"");
    assert_eq!(text(&out.stdout), "second\n", "{}", text(&out.stderr));
    let mut second = place.begin(&server, &["-o", &path], "echo ready; cat");
    let out = place.run(
        &server,
        &["-o", &path, "-o", "LogLevel=ERROR"],
        &["echo third"],
        b"",
    );
    // Refused on this connection, the client makes one of its own.
    assert_eq!(text(&out.stdout), "third\n");
    assert_eq!(server.records.lock().expect("no panic").len(), 2);
    let says_why = |line: &String| line.contains("MaxSessions");
    server.wait_for(0, |record| record.log.iter().any(says_why));
    drop(second.stdin.take());
    assert!(second.wait().expect("an end").success());
    drop(master.stdin.take());
    assert!(master.wait().expect("an end").success());
}

fn connections_go_through() {
    let Some(place) = Place::new("through") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut all = Vec::new();
                socket.read_to_end(&mut all).expect("its input");
                all.reverse();
                socket.write_all(&all).expect("its output");
            });
        }
    });
    let mut policy = place.policy();
    policy.config = format!("PermitOpen 127.0.0.1:{port} localhost:{port} 127.0.0.1:1\n");
    let server = Server::start(policy.clone());
    for host in ["127.0.0.1", "localhost"] {
        let out = place.run(
            &server,
            &["-v", "-W", &format!("{host}:{port}")],
            &[],
            b"palindrome",
        );
        assert_eq!(
            text(&out.stdout),
            "emordnilap",
            "{host}: {}",
            text(&out.stderr)
        );
    }
    let out = place.run(&server, &["-v", "-W", "127.0.0.1:1"], &[], b"");
    complains(&out, "onnect failed");
    let out = place.run(
        &server,
        &["-v", "-W", &format!("127.0.0.2:{port}")],
        &[],
        b"",
    );
    complains(&out, "administratively prohibited");
    for config in [
        "DisableForwarding yes\n",
        "AllowTcpForwarding no\n",
        "AllowTcpForwarding remote\n",
    ] {
        policy.config = config.into();
        let server = Server::start(policy.clone());
        let out = place.run(
            &server,
            &["-v", "-W", &format!("127.0.0.1:{port}")],
            &[],
            b"",
        );
        complains(&out, "administratively prohibited");
    }
}

fn rc_and_environment_files_are_read() {
    let Some(place) = Place::new("rc") else {
        return;
    };
    fs::write(place.home().join(".ssh/rc"), "echo rc in $PWD >&2; cat\n").expect("a file");
    fs::write(place.home().join(".ssh/environment"), "GOOD=1\nBAD=2\n").expect("a file");
    let mut policy = place.policy();
    policy.config = "PermitUserEnvironment GOOD\n".into();
    let server = Server::start(policy.clone());
    for flags in [&["-T"][..], &["-tt"]] {
        let out = place.run(&server, flags, &["echo $GOOD,$BAD; exit 8"], b"");
        let said = text(&out.stdout) + &text(&out.stderr);
        assert_eq!(out.status.code(), Some(8), "{said}");
        assert!(said.contains("rc in ") && said.contains("1,"), "{said}");
        assert!(!said.contains("1,2"), "{said}");
    }
    policy.config = "PermitUserRC no\n".into();
    let server = Server::start(policy);
    let out = place.run(&server, &[], &["echo $GOOD,$BAD"], b"");
    assert_eq!(
        (text(&out.stdout).as_str(), text(&out.stderr).as_str()),
        (",\n", "")
    );
}

fn host_keys_are_announced() {
    let Some((place, server)) = served("hostkeys", |_| {}) else {
        return;
    };
    let out = place.run(
        &server,
        &["-o", "UpdateHostKeys=yes", "-vv"],
        &["true"],
        b"",
    );
    complains(&out, "hostkeys-00@openssh.com");
    assert!(out.status.success());
}

fn password_and_prompts_reach_the_monitor() {
    let Some(place) = Place::new("password") else {
        return;
    };
    let mut policy = place.policy();
    policy.banner = Some("Only for testers.\n".into());
    let server = Server::start(policy.clone());
    let askpass = place.path.join("askpass");
    for (answer, good) in [("correct horse", true), ("wrong", false)] {
        fs::write(&askpass, format!("#!/bin/sh\necho '{answer}'\n")).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&askpass, mode).expect("its mode");
        let flags = [
            "-o",
            "PreferredAuthentications=password",
            "-o",
            "NumberOfPasswordPrompts=1",
        ];
        let mut command = place.ssh_asking(&server, &flags, &askpass);
        command.arg("echo in");
        let out = run(&mut command, b"");
        assert_eq!(out.status.success(), good, "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), if good { "in\n" } else { "" });
        assert!(text(&out.stderr).contains("Only for testers."));
    }
}

fn prompts_are_shown() {
    let Some((place, server)) = served("prompts", |_| {}) else {
        return;
    };
    let askpass = place.path.join("askpass");
    let asked = place.path.join("asked");
    fs::write(
        &askpass,
        format!("#!/bin/sh\necho \"$1\" > {}\necho word\n", asked.display()),
    )
    .expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&askpass, mode).expect("its mode");
    let flags = [
        "-o",
        "PreferredAuthentications=keyboard-interactive",
        "-o",
        "NumberOfPasswordPrompts=1",
    ];
    let mut command = place.ssh_asking(&server, &flags, &askpass);
    let out = run(&mut command, b"");
    // The fake monitor lets no answer in; what matters is that it was asked for.
    assert!(!out.status.success());
    let asked = fs::read_to_string(asked).expect("the prompt");
    assert!(asked.contains("Word: "), "{asked}");
}

fn a_client_that_stops_answering_is_let_go() {
    let Some(place) = Place::new("alive") else {
        return;
    };
    let server = place
        .server(|policy| policy.config = "ClientAliveInterval 1\nClientAliveCountMax 1\n".into());
    let mut client = place.begin(&server, &[], "echo ready; cat");
    let pid = i32::try_from(client.id()).expect("a pid");
    sys::signals::send(pid, sys::signals::Signal::STOP).expect("it stops");
    let record = server.wait_for(0, |record| record.session_exit.is_some());
    sys::signals::send(pid, sys::signals::Signal::KILL).expect("it ends");
    client.wait().expect("an end");
    assert!(
        record
            .log
            .iter()
            .any(|line| line.contains("client not responding")),
        "{record:?}"
    );
}

fn a_shell_that_does_not_exist_says_so() {
    let Some((place, server)) = served("noshell", |policy| policy.shell = "/no/such/shell".into())
    else {
        return;
    };
    let out = place.run(&server, &[], &["true"], b"");
    assert_eq!(out.status.code(), Some(1));
    complains(&out, "/no/such/shell: No such file");
}
