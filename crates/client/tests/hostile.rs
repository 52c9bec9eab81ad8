//! Against hostile servers; the name of each test states the rule that it checks.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use proto::channel::Request;
use proto::{AuthMethod, Prompt, Stream};

use support::{
    Scratch, Scripted, asking, free_port, key, next_request, run, run_with_input, serve_session,
    ssh, stderr, stdout,
};

/// CVE-2021-36369, CVE-2021-36367: a server that lets the user in without a proof may ask for
/// secrets later.
#[test]
fn a_login_without_any_proof_is_told_to_the_user() {
    let scratch = Scratch::new();
    let server = Scripted::start(|driver| {
        let request = next_request(driver).unwrap();
        assert!(matches!(request.method, AuthMethod::None));
        driver.connection().auth_success().unwrap();
        serve_session(driver, |driver, channel, request| {
            if matches!(request, Request::Exec { .. }) {
                driver
                    .connection()
                    .channel_send_slice(channel, Stream::Data, b"in\n")
                    .unwrap();
                let status = Request::ExitStatus { status: 0 };
                driver
                    .connection()
                    .channel_request(channel, &status, false)
                    .unwrap();
                driver.connection().channel_close(channel).unwrap();
            }
        });
    });
    let output = run(ssh(&scratch, server.port).args(["-o", "BatchMode=yes", "127.0.0.1", "x"]));
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
    assert!(
        stderr(&output).contains("without any proof"),
        "{}",
        stderr(&output)
    );
    server.finish();
}

/// As above with an empty list of prompts: nothing was asked, so nothing was proved.
#[test]
fn empty_prompts_prove_nothing() {
    let scratch = Scratch::new();
    let askpass = scratch.askpass("never\n");
    let server = Scripted::start(|driver| {
        while let Some(request) = next_request(driver) {
            match request.method {
                AuthMethod::KeyboardInteractive { .. } => {
                    driver.connection().auth_info_request("", "", &[]).unwrap();
                }
                AuthMethod::InfoResponse { responses } => {
                    assert!(responses.is_empty());
                    driver.connection().auth_success().unwrap();
                    return serve_session(driver, |driver, channel, _| {
                        driver.connection().channel_close(channel).unwrap();
                    });
                }
                _ => driver
                    .connection()
                    .auth_failure(&["keyboard-interactive"], false)
                    .unwrap(),
            }
        }
    });
    let mut command = ssh(&scratch, server.port);
    let output = run(asking(command.args(["127.0.0.1", "x"]), &askpass));
    assert!(
        stderr(&output).contains("without any proof"),
        "{}",
        stderr(&output)
    );
    assert_eq!(scratch.prompts(), "");
    server.finish();
}

#[test]
fn prompts_and_banners_of_a_server_are_marked_and_escaped() {
    let scratch = Scratch::new();
    let askpass = scratch.askpass("answer\n");
    let server = Scripted::start(|driver| {
        let mut answered = false;
        while let Some(request) = next_request(driver) {
            let connection = driver.connection();
            match request.method {
                AuthMethod::KeyboardInteractive { .. } if !answered => {
                    connection.auth_banner("be\x1b[2Jware\nline two").unwrap();
                    let prompt = Prompt {
                        text: "root@bank's password:\x1b[8m ".into(),
                        echo: false,
                    };
                    connection
                        .auth_info_request("na\x07me", "", &[prompt])
                        .unwrap();
                }
                AuthMethod::InfoResponse { responses } => {
                    assert_eq!(&responses[0][..], b"answer");
                    answered = true;
                    let methods = &["keyboard-interactive"];
                    connection.auth_failure(methods, false).unwrap();
                }
                _ => connection
                    .auth_failure(&["keyboard-interactive"], false)
                    .unwrap(),
            }
        }
    });
    let mut command = ssh(&scratch, server.port);
    command.args(["-o", "HostName=127.0.0.1", "ann@nickname", "x"]);
    let output = run(asking(&mut command, &askpass));
    let said = stderr(&output);
    assert!(said.contains("be\\033[2Jware\nline two\n"), "{said}");
    assert!(
        said.contains("na\\007me") && !said.contains('\x1b'),
        "{said}"
    );
    // Only a password is asked for "again".
    assert!(!said.contains("please try again"), "{said}");
    assert_eq!(
        scratch.prompts(),
        "(ann@127.0.0.1) root@bank's password:\\033[8m \n"
    );
    assert_eq!(output.status.code(), Some(255));
    server.finish();
}

#[test]
fn a_password_is_not_shown_to_a_host_whose_key_changed() {
    let scratch = Scratch::new();
    let askpass = scratch.askpass("secret\nsecret\n");
    let server = Scripted::start(|driver| {
        while let Some(request) = next_request(driver) {
            assert!(
                matches!(request.method, AuthMethod::None),
                "{:?}",
                request.method
            );
            let methods = ["password", "keyboard-interactive"];
            driver.connection().auth_failure(&methods, false).unwrap();
        }
    });
    let name = format!("[127.0.0.1]:{}", server.port);
    scratch.write(
        "known_hosts",
        format!("{name} {}\n", key(1).public().to_line()),
    );
    let mut command = ssh(&scratch, server.port);
    // The first value of a keyword counts, so this one must come first.
    let mut first = std::process::Command::new(support::client_program());
    first
        .args(["-o", "StrictHostKeyChecking=no"])
        .args(command.get_args())
        .args(["127.0.0.1", "x"]);
    command = first;
    let output = run(asking(&mut command, &askpass));
    assert_eq!(output.status.code(), Some(255));
    assert!(
        stderr(&output).contains("Permission denied"),
        "{}",
        stderr(&output)
    );
    assert_eq!(scratch.prompts(), "");
    server.finish();
}

#[test]
fn a_server_cannot_open_channels_to_the_client() {
    let scratch = Scratch::new();
    let server = Scripted::start(|driver| {
        next_request(driver).unwrap();
        driver.connection().auth_success().unwrap();
        let mut refused = 0;
        loop {
            match driver.next() {
                Ok(driver::Notice::Event(proto::Event::ChannelOpenRequest { channel, .. })) => {
                    driver.connection().accept_channel(channel).unwrap();
                    for kind in [
                        "session",
                        "forwarded-tcpip",
                        "auth-agent@openssh.com",
                        "x11",
                    ] {
                        driver.connection().open_channel(kind, &[]).unwrap();
                    }
                }
                Ok(driver::Notice::Event(proto::Event::ChannelRefused { .. })) => {
                    refused += 1;
                    if refused == 4 {
                        return;
                    }
                }
                Ok(driver::Notice::Event(proto::Event::ChannelOpened(_))) => panic!("accepted"),
                Ok(driver::Notice::PeerClosed) | Err(_) => panic!("gone after {refused} refusals"),
                Ok(_) => {}
            }
        }
    });
    let output = run(ssh(&scratch, server.port).args(["-o", "BatchMode=yes", "127.0.0.1", "x"]));
    assert_eq!(output.status.code(), Some(255));
    server.finish();
}

/// A description of a refusal, a reason of a DISCONNECT, a message of a signal: one line each.
#[test]
fn a_servers_words_cannot_forge_lines() {
    let scratch = Scratch::new();
    let server = Scripted::start(|driver| {
        next_request(driver).unwrap();
        let text = "bye\nAccepted everything\x1b[0m";
        driver.connection().disconnect(2, text);
    });
    let output = run(ssh(&scratch, server.port).args(["-o", "BatchMode=yes", "127.0.0.1", "x"]));
    let said = stderr(&output);
    assert!(
        said.contains("bye\\012Accepted everything\\033[0m"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(255));
    server.finish();
}

#[test]
fn output_that_nobody_reads_is_bounded_and_late_bytes_arrive_before_the_end() {
    let scratch = Scratch::new();
    let server = Scripted::start(|driver| {
        next_request(driver).unwrap();
        driver.connection().auth_success().unwrap();
        // Data, status and end in one write with the confirmation.
        serve_session(driver, |driver, channel, request| {
            if matches!(request, Request::Exec { .. }) {
                let connection = driver.connection();
                connection
                    .channel_send_slice(channel, Stream::Data, &[b'x'; 30_000])
                    .unwrap();
                connection
                    .channel_send_slice(channel, Stream::Stderr, b"e")
                    .unwrap();
                connection
                    .channel_request(channel, &Request::ExitStatus { status: 9 }, false)
                    .unwrap();
                connection.channel_eof(channel).unwrap();
                connection.channel_close(channel).unwrap();
            }
        });
    });
    let output = run_with_input(
        ssh(&scratch, server.port).args(["-o", "BatchMode=yes", "127.0.0.1", "x"]),
        &[0; 100_000],
    );
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert_eq!(output.stdout.len(), 30_000);
    server.finish();
}

/// Serves raw bytes to one client and returns the client's messages to the user.
fn raw_server(bytes: Vec<u8>) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let output = run(ssh(&scratch, port).args(["-o", "BatchMode=yes", "127.0.0.1", "x"]));
    server.join().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn odd_greetings_end_in_one_harmless_sentence() {
    let greetings: [&[u8]; 6] = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-\x1b]0;owned\x07\r\n",
        b"\xff\xfe\x00\x01\x02",
        b"SSH-2.0-x\r\n\xff\xff\xff\xff\xff\xff",
    ];
    for greeting in greetings {
        let (code, said) = raw_server(greeting.to_vec());
        assert_eq!(code, Some(255));
        assert!(
            !said.trim().is_empty() && !said.contains('\x1b'),
            "{greeting:?}: {said}"
        );
    }
    let (code, said) = raw_server(b"x".repeat(20 << 20));
    assert_eq!(code, Some(255), "{said}");
}

#[test]
fn no_common_algorithm_is_explained_with_the_servers_offer() {
    let scratch = Scratch::new();
    let config = proto::TransportConfig {
        kex: vec!["curve25519-sha256".into()],
        ..proto::TransportConfig::default()
    };
    let server = Scripted::start_with(config, |_| {});
    let output = run(ssh(&scratch, server.port).args([
        "-o",
        "KexAlgorithms=mlkem768x25519-sha256",
        "127.0.0.1",
        "x",
    ]));
    let said = stderr(&output);
    assert!(
        said.contains("no matching key exchange method found"),
        "{said}"
    );
    assert!(said.contains("Their offer: curve25519-sha256"), "{said}");
    server.finish();
}

#[test]
fn a_silent_server_ends_with_the_connect_timeout() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let output = run(ssh(&scratch, port).args(["-o", "ConnectTimeout=1", "127.0.0.1", "x"]));
    assert_eq!(output.status.code(), Some(255));
    assert!(stderr(&output).contains("timed out"), "{}", stderr(&output));
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let scratch = Scratch::new();
    let (gone, wait) = std::sync::mpsc::channel::<()>();
    let server = Scripted::start(move |driver| {
        next_request(driver).unwrap();
        driver.connection().auth_success().unwrap();
        driver.flush().unwrap();
        let _ = wait.recv();
    });
    let output = run(ssh(&scratch, server.port)
        .args(["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1"])
        .args(["-o", "BatchMode=yes", "127.0.0.1", "x"]));
    assert_eq!(output.status.code(), Some(255));
    let said = stderr(&output);
    assert!(
        said.contains("Timeout, server 127.0.0.1 not responding."),
        "{said}"
    );
    drop(gone);
    server.finish();
}

#[test]
fn an_unreachable_port_and_an_unknown_name_are_told_apart() {
    let scratch = Scratch::new();
    let closed = free_port();
    let output = run(ssh(&scratch, closed).args(["127.0.0.1", "x"]));
    let said = stderr(&output);
    assert!(
        said.contains(&format!(
            "connect to host 127.0.0.1 port {closed}: Connection refused"
        )),
        "{said}"
    );
    let output = run(ssh(&scratch, closed).args(["no-such-host.invalid", "x"]));
    assert!(stderr(&output).contains("Could not resolve hostname no-such-host.invalid"));
    assert_eq!(output.status.code(), Some(255));
}

/// CVE-2025-61984 and similar: a user name from the command line never reaches a shell.
#[test]
fn names_for_a_shell_end_the_program_before_anything_runs() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let proxy = format!("ProxyCommand=touch {} ; echo %r %h", mark.display());
    for name in [
        "a;touch x@h",
        "`x`@h",
        "$(x)@h",
        "u@`x`",
        "-oProxyCommand=x",
        "a\nb@h",
    ] {
        let mut command = ssh(&scratch, 1);
        let output = run(command.args(["-o", &proxy, "--", name, "x"]));
        assert_eq!(output.status.code(), Some(255), "{name:?}");
        assert!(!mark.exists(), "{name:?}");
        let output = run(ssh(&scratch, 1).args(["-o", &proxy, "-l", name, "h", "x"]));
        assert_eq!(output.status.code(), Some(255), "{name:?}");
        assert!(!mark.exists(), "-l {name:?}: {}", stderr(&output));
    }
}
