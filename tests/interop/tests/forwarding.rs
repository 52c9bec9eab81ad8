//! Forwarded connections: -L, -R, -D and -W, TCP and Unix sockets, between both suites.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use interop::forwarded::{
    Does, GREETING, LIMIT, Session, TOTAL, connect, exchange, page, socks5, target, through,
    through_unix, unix_target,
};
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, installed, run};
use interop::scratch::{Scratch, free_port, until};
use interop::site::{HOST, Site, each};

#[test]
fn local_and_remote_ports_lead_to_ports_and_keep_half_open_connections() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let count = target(Does::Count);
        let greet = target(Does::Greet);
        let session = Session::start(
            &site,
            &[
                "-L",
                &format!("{local}:127.0.0.1:{count}"),
                "-R",
                &format!("{remote}:localhost:{greet}"),
            ],
        );
        // The answer comes after the end of the input.
        let bytes = vec![7; 3 << 20];
        assert_eq!(through(local, &bytes), b"3145728\n");
        assert_eq!(through(local, b""), b"0\n");
        let mut first = connect(remote);
        let mut line = [0; GREETING.len()];
        first
            .read_exact(&mut line)
            .expect("the server speaks first");
        assert_eq!(line, GREETING);
        let back = through(remote, b"words");
        assert_eq!(back, [GREETING, b"words"].concat());
        drop(first);
        session.ends();
        // The ports are free again.
        assert!(until(LIMIT, || {
            TcpListener::bind((Ipv4Addr::LOCALHOST, local)).is_ok()
                && TcpListener::bind((Ipv4Addr::LOCALHOST, remote)).is_ok()
        }));
    });
}

#[test]
fn unix_sockets_lead_to_sockets_and_ports_in_both_directions() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let there = unix_target(&scratch, Does::Echo);
        let there = there.display().to_string();
        let port = target(Does::Echo);
        let place = |name: &str| scratch.join(name);
        let (ll, lp, rl, rp) = (place("l l"), place("lp"), place("rl"), place("rp"));
        // By the keyword; blanks are quoted or escaped there.
        let (quoted, escaped) = (place("q q"), place("e e"));
        let keywords = format!(
            "LocalForward \"{}\" 127.0.0.1:{port}\nRemoteForward {} \"{there}\"\n",
            quoted.display(),
            escaped.display().to_string().replace(' ', "\\ ")
        );
        let local = free_port();
        let remote = free_port();
        let specs = [
            ("-L", format!("{}:{there}", ll.display())),
            ("-L", format!("{}:127.0.0.1:{port}", lp.display())),
            ("-L", format!("{local}:{there}")),
            ("-R", format!("{}:{there}", rl.display())),
            ("-R", format!("{}:127.0.0.1:{port}", rp.display())),
            ("-R", format!("{remote}:{there}")),
        ];
        let arguments: Vec<&str> = specs
            .iter()
            .flat_map(|(flag, spec)| [*flag, spec.as_str()])
            .collect();
        let session = Session::with(&site, &keywords, &arguments);
        let bytes = vec![b'u'; 200_000];
        for path in [&ll, &lp, &rl, &rp, &quoted, &escaped] {
            assert_eq!(through_unix(path, &bytes), bytes, "{}", path.display());
            let mode = std::fs::metadata(path).expect("a socket").permissions();
            let mode = std::os::unix::fs::PermissionsExt::mode(&mode);
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        for port in [local, remote] {
            assert_eq!(through(port, &bytes), bytes, "{port}");
        }
        // OpenSSH's client leads to ports only.
        if client == Kind::Fulmar {
            let outcome = site.run_with("", &["-W", &there, HOST], Input::Bytes(b"by -W\n"));
            assert_eq!(outcome.stdout.text(), "by -W\n", "{}", outcome.summary());
        }
        session.ends();
        if client == Kind::Fulmar {
            assert!(!ll.exists() && !lp.exists());
        }
    });
}

#[test]
fn a_path_is_replaced_only_if_it_is_a_socket_of_the_user() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let path = scratch.join("left-over");
        drop(UnixListener::bind(&path).expect("a socket"));
        let spec = format!("{}:127.0.0.1:1", path.display());
        let lines =
            |unlink: &str| format!("ExitOnForwardFailure yes\nStreamLocalBindUnlink {unlink}\n");
        let refused = site.run_with(&lines("no"), &["-L", &spec, HOST, "true"], Input::Nothing);
        assert_eq!(refused.status, 255);
        assert!(
            refused.stderr.text().contains("cannot bind to path")
                && refused
                    .stderr
                    .text()
                    .contains("Could not request local forwarding."),
            "{}",
            refused.summary()
        );
        let replaced = site.run_with(&lines("yes"), &["-L", &spec, HOST, "true"], Input::Nothing);
        assert_eq!(replaced.status, 0, "{}", replaced.summary());
        std::fs::write(&path, "a file").expect("a file");
        let kept = site.run_with(&lines("yes"), &["-L", &spec, HOST, "true"], Input::Nothing);
        assert_eq!(kept.status, 255);
        assert_eq!(std::fs::read(&path).expect("the file"), b"a file");
    });
}

#[test]
fn socks_of_each_version_leads_to_names_and_addresses() {
    let Some(curl) = installed("curl") else {
        return interop::report::skipped("socks", &"curl is not installed");
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let session = Session::start(
            &site,
            &["-D", &local.to_string(), "-R", &remote.to_string()],
        );
        let page = page();
        for port in [local, remote] {
            for version in ["socks4", "socks4a", "socks5", "socks5-hostname"] {
                let mut command = Command::new(&curl);
                command
                    .args(["-sS", "--noproxy", "none", &format!("--{version}")])
                    .arg(format!("127.0.0.1:{port}"))
                    .arg(format!("http://localhost:{page}/"))
                    .arg("-4");
                let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("curl");
                assert_eq!(
                    outcome.stdout.text(),
                    "page\n",
                    "{version} {}: {}",
                    port == local,
                    outcome.summary()
                );
            }
        }
        session.ends();
    });
}

#[test]
fn a_socks_request_arrives_byte_by_byte_and_refusals_have_a_reply() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let port = free_port();
        let mut session = Session::start(&site, &["-D", &port.to_string()]);
        let greet = target(Does::Greet);
        let mut stream = connect(port);
        stream.set_nodelay(true).expect("an option");
        for byte in socks5(1, greet) {
            stream.write_all(&[byte]).expect("a byte");
            // The session's answer shows that the client has seen the byte.
            session.echoes("between\n");
        }
        stream.write_all(b"data").expect("data");
        stream.shutdown(Shutdown::Write).expect("half-close");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("an answer");
        let reply = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(back, [&reply, GREETING, b"data"].concat());

        let closed = free_port();
        for (command, port_asked, code) in [(2, greet, 7), (3, greet, 7), (1, closed, 5)] {
            // Fulmar's server forwards datagrams: tests/udp.rs.
            if command == 3 && server == Kind::Fulmar {
                continue;
            }
            let mut stream = connect(port);
            stream
                .write_all(&socks5(command, port_asked))
                .expect("a request");
            let mut back = Vec::new();
            stream.read_to_end(&mut back).expect("a reply");
            assert_eq!(back, [5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        session.ends();
    });
}

#[test]
fn a_reset_and_a_late_reader_end_only_their_own_connection() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (reset, slow, echo) = (free_port(), free_port(), free_port());
        let mut session = Session::start(
            &site,
            &[
                "-L",
                &format!("{reset}:127.0.0.1:{}", target(Does::Reset)),
                "-L",
                &format!("{slow}:127.0.0.1:{}", target(Does::SendFirst)),
                "-L",
                &format!("{echo}:127.0.0.1:{}", target(Does::Echo)),
            ],
        );
        let mut stream = connect(reset);
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("its byte");
        stream.write_all(b"y").expect("a connection");
        match stream.read(&mut byte) {
            Ok(0) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            Ok(_) => panic!("data after a reset"),
        }
        drop(stream);
        session.echoes("after a reset\n");
        // The target's end arrives first; then everything is still written to it.
        TOTAL.store(0, std::sync::atomic::Ordering::SeqCst);
        let mut stream = connect(slow);
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the target's data");
        assert_eq!(back.len(), 1 << 20);
        let bytes = vec![1; 3 << 20];
        stream.write_all(&bytes).expect("a half-open connection");
        drop(stream);
        assert!(until(LIMIT, || {
            TOTAL.load(std::sync::atomic::Ordering::SeqCst) == bytes.len()
        }));
        assert_eq!(through(echo, b"others go on"), b"others go on");
        session.ends();
    });
}

/// The least time in which a reader reads nothing: INTEROP_STALL, in seconds.
fn stands_still() -> Duration {
    let given = std::env::var("INTEROP_STALL").ok();
    let seconds = given.map(|text| text.parse().expect("INTEROP_STALL in seconds"));
    Duration::from_secs(seconds.unwrap_or(0))
}

#[test]
fn a_reader_that_stands_still_stops_nobody_else() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let port = free_port();
        let spec = format!("{port}:127.0.0.1:{}", target(Does::Echo));
        let mut session = Session::start(&site, &["-L", &spec, "-o", "RekeyLimit=1M"]);
        // Writes until nothing more is accepted, and reads nothing.
        let mut stuck = connect(port);
        stuck.set_nonblocking(true).expect("an option");
        let bytes = vec![0; 64 << 10];
        let (mut idle, mut written) = (0, 0);
        while idle < 100 {
            match stuck.write(&bytes) {
                Ok(count @ 1..) => {
                    idle = 0;
                    written += count;
                }
                Ok(0) => panic!("the forwarded connection takes nothing"),
                Err(_) => {
                    idle += 1;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let begun = Instant::now();
        for number in 0.. {
            if number >= 20 && begun.elapsed() >= stands_still() {
                break;
            }
            session.echoes(&format!("line {number}\n"));
            let bytes = vec![b'o'; 300_000];
            assert_eq!(through(port, &bytes), bytes);
        }
        // Its reader goes on, and nothing was lost. (OpenSSH's client would wait for ever for a reader
        // that leaves now: the bytes that it holds for that reader keep the window shut.)
        stuck.set_nonblocking(false).expect("an option");
        stuck.shutdown(Shutdown::Write).expect("its end");
        let mut rest = Vec::new();
        stuck.read_to_end(&mut rest).expect("what was echoed");
        assert_eq!(rest.len(), written);
        session.ends();
    });
}

#[test]
fn dead_names_and_silent_targets_stop_nobody_else() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (dead, silent, echo) = (free_port(), free_port(), free_port());
        let mut session = Session::start(
            &site,
            &[
                "-L",
                &format!("{dead}:no-such-host.invalid:80"),
                // RFC 5737: nobody answers there.
                "-L",
                &format!("{silent}:192.0.2.1:80"),
                "-L",
                &format!("{echo}:127.0.0.1:{}", target(Does::Echo)),
            ],
        );
        let waiting: Vec<TcpStream> = (0..10).map(|_| connect(silent)).collect();
        let _dead: Vec<TcpStream> = (0..10).map(|_| connect(dead)).collect();
        for number in 0..5 {
            session.echoes(&format!("line {number}\n"));
            assert_eq!(through(echo, b"goes on"), b"goes on");
        }
        drop(waiting);
        drop(session);
    });
}

#[test]
fn a_port_that_the_server_chose_is_reported_and_a_taken_one_is_a_failure() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let spec = format!("0:127.0.0.1:{}", target(Does::Echo));
        let info = "LogLevel INFO\n";
        let mut command = site.ssh(info);
        command
            .args(["-N", "-R", &spec, HOST])
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut running = Background::start(&mut command).expect("a client");
        let mut said = BufReader::new(running.0.stderr.take().expect("its messages"));
        let port = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).expect("a line") > 0);
            if let Some(rest) = line.strip_prefix("Allocated port ") {
                let (port, goal) = rest.split_once(' ').expect("a port");
                assert!(
                    goal.starts_with("for remote forward to 127.0.0.1:"),
                    "{line}"
                );
                break port.parse::<u16>().expect("a port");
            }
        };
        assert_eq!(through(port, b"words"), b"words");
        let taken = format!("{port}:127.0.0.1:1");
        let outcome = site.run_with(info, &["-R", &taken, HOST, "echo on"], Input::Nothing);
        let warning = format!("remote port forwarding failed for listen port {port}");
        assert!(
            outcome.stderr.text().contains(&warning),
            "{}",
            outcome.summary()
        );
        assert_eq!(
            (outcome.status, outcome.stdout.text().as_str()),
            (0, "on\n")
        );
        let strict = ["-oExitOnForwardFailure=yes", "-R", &taken, "-N", HOST];
        let outcome = site.run_with("", &strict, Input::Nothing);
        assert_eq!(outcome.status, 255);
        assert!(
            outcome.stderr.text().contains(&warning),
            "{}",
            outcome.summary()
        );
        // The same for a local port.
        let taken = format!("127.0.0.1:{port}:127.0.0.1:1");
        let outcome = site.run_with(
            "",
            &["-oExitOnForwardFailure=yes", "-L", &taken, "-N", HOST],
            Input::Nothing,
        );
        assert_eq!(outcome.status, 255);
        let said = outcome.stderr.text();
        assert!(
            said.contains(&format!("bind [127.0.0.1]:{port}: Address already in use")),
            "{said}"
        );
        assert!(
            said.contains("Could not request local forwarding."),
            "{said}"
        );
    });
}

#[test]
fn a_port_that_another_program_has_on_one_address_is_reported() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let other = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = other.local_addr().expect("its address").port();
        let spec = format!("{port}:127.0.0.1:1");
        let outcome = site.run_with("", &["-L", &spec, HOST, "echo on"], Input::Nothing);
        let said = outcome.stderr.text();
        let bind = format!("bind [127.0.0.1]:{port}: Address already in use");
        assert!(said.contains(&bind), "{said}");
        assert_eq!(
            (outcome.status, outcome.stdout.text().as_str()),
            (0, "on\n")
        );
    });
}

#[test]
fn the_program_goes_to_the_background_when_its_listeners_are_ready() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let echo = target(Does::Echo);
        let (local, remote) = (free_port(), free_port());
        let pid = site.running.daemon.scratch().join("pid");
        let mut command = site.ssh("ExitOnForwardFailure yes\n");
        command.args([
            "-f",
            "-L",
            &format!("{local}:127.0.0.1:{echo}"),
            "-R",
            &format!("{remote}:127.0.0.1:{echo}"),
            HOST,
            &format!(
                "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60",
                pid.display()
            ),
        ]);
        let [input, output, errors] = [(); 3].map(|()| Stdio::null());
        let status = command.stdin(input).stdout(output).stderr(errors).status();
        assert!(status.expect("a client").success());
        // No wait: both listen already.
        for port in [local, remote] {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listener");
            let back = exchange(stream, b"ready", |stream| {
                stream.shutdown(Shutdown::Write).expect("half-close");
            });
            assert_eq!(back, b"ready");
        }
        assert!(until(LIMIT, || pid.exists()));
        let number = std::fs::read_to_string(&pid).expect("a number");
        interop::process::kill(number.trim().parse().expect("a number"));
    });
}

#[test]
fn a_program_in_the_background_leaves_its_callers_streams() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let echo = target(Does::Echo);
        let (local, remote) = (free_port(), free_port());
        let forward = |port: u16| format!("{port}:127.0.0.1:{echo}");
        for (flag, port, extra) in [
            ("-L", local, ""),
            ("-R", remote, "ExitOnForwardFailure yes\n"),
        ] {
            // Waits for the end of both pipes.
            let outcome = site.run_with(
                extra,
                &["-f", "-N", flag, &forward(port), HOST],
                Input::Bytes(b"unread"),
            );
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            assert_eq!(through(port, b"forwarded"), b"forwarded");
        }
        let left = clients(&site);
        assert_eq!(left.len(), 2, "{left:?}");
        for pid in left {
            interop::process::kill(pid);
        }
    });
}

/// The processes whose command line names the site's configuration.
fn clients(site: &Site) -> Vec<u32> {
    let folder = site.running.daemon.scratch().join("ssh_config.");
    let folder = folder.display().to_string();
    let named = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&folder))
    };
    let pids = std::fs::read_dir("/proc").expect("processes");
    let pids = pids
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(named).collect()
}

#[test]
fn many_connections_at_once_all_arrive() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let echo = target(Does::Echo);
        let session = Session::start(
            &site,
            &[
                "-L",
                &format!("{local}:127.0.0.1:{echo}"),
                "-R",
                &format!("{remote}:127.0.0.1:{echo}"),
            ],
        );
        thread::scope(|scope| {
            for worker in 0..16 {
                scope.spawn(move || {
                    for round in 0..20 {
                        let bytes = format!("{worker} {round}").repeat(100).into_bytes();
                        let port = [local, remote][round % 2];
                        assert_eq!(through(port, &bytes), bytes);
                    }
                });
            }
        });
        session.ends();
    });
}

#[test]
fn listeners_of_the_server_are_where_gateway_ports_puts_them() {
    for (value, bind, everywhere) in [
        ("no", "", false),
        ("no", "*:", false),
        ("yes", "", true),
        ("clientspecified", "", false),
        ("clientspecified", "*:", true),
    ] {
        let site = Site::new(
            Kind::Fulmar,
            Kind::Fulmar,
            &format!("GatewayPorts {value}\n"),
        );
        let port = free_port();
        let spec = format!("{bind}{port}:127.0.0.1:1");
        let session = Session::start(&site, &["-R", &spec]);
        let any = std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
        let found = sys::socket::is_listening_in(std::process::id(), any).expect("a list");
        assert_eq!(found, everywhere, "{value} {bind:?}");
        let local: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        assert!(TcpStream::connect(local).is_ok());
        session.ends();
    }
}

#[test]
fn a_socks_client_of_the_server_reaches_only_permitted_targets() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let (yes, no) = (target(Does::Greet), target(Does::Greet));
    let port = free_port();
    let permit = format!("PermitRemoteOpen=127.0.0.1:{yes}");
    let session = Session::start(&site, &["-o", &permit, "-R", &port.to_string()]);
    for (asked, code) in [(yes, 0), (no, 2)] {
        let mut stream = connect(port);
        stream.write_all(&socks5(1, asked)).expect("a request");
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply, [5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
    session.ends();
}

/// As many listeners as programs that forward whole ranges of ports ask for (505 were too many for
/// SSH.NET): two descriptors each, more than the soft limit.
#[test]
fn a_thousand_listeners_of_the_server_all_serve() {
    each(|client, server| {
        // OpenSSH's server does not raise its limit of open files.
        if server != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "GatewayPorts clientspecified\n");
        let to = target(Does::Greet);
        let mut command = site.ssh("LogLevel INFO\nExitOnForwardFailure yes\n");
        // Clients request the same forwarding only once, so each has its own address.
        let addresses: Vec<Ipv4Addr> = (0..4)
            .flat_map(|net| (1..=250).map(move |host| Ipv4Addr::new(127, 1, net, host)))
            .collect();
        for address in &addresses {
            command.args(["-R", &format!("{address}:0:127.0.0.1:{to}")]);
        }
        command
            .args(["-N", HOST])
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut client = Background::start(&mut command).expect("a client");
        let log = BufReader::new(client.0.stderr.take().expect("its log"));
        let ports = log.lines().map_while(Result::ok).filter_map(|line| {
            let rest = line.strip_prefix("Allocated port ")?;
            rest.split(' ').next()?.parse::<u16>().ok()
        });
        let ports: Vec<u16> = ports.take(addresses.len()).collect();
        assert_eq!(ports.len(), addresses.len());
        for place in addresses.into_iter().zip(ports) {
            let mut stream = TcpStream::connect(place).expect("a forwarded port");
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            let mut greeting = [0; GREETING.len()];
            let read = stream.read_exact(&mut greeting);
            read.expect("the target speaks first");
            assert_eq!(greeting, GREETING);
        }
    });
}
