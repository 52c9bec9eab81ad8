//! Forwarded connections of other implementations: their clients with our server, our client with
//! their servers, and both with OpenSSH, whose result is the standard.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use interop::forwarded::{
    Does, GREETING, connect, socks5, target, through, through_unix, unix_target,
};
use interop::peers::Running;
use interop::peers::dropbear::Dropbear;
use interop::peers::python::AsyncsshServer;
use interop::peers::tunnel::{Forwarder, Tunnel, with_client, with_server};
use interop::scratch::{Scratch, free_port};

/// Ports in both directions: a target that speaks first, one that answers after the end of its
/// input, one that nobody listens to, and many connections at once.
fn ports(client: Forwarder, running: &Running) -> Result<(), String> {
    let targets = [
        target(Does::Greet),
        target(Does::Count),
        target(Does::Echo),
        free_port(),
    ];
    let mut flags = Vec::new();
    for flag in ["-L", "-R"] {
        for to in targets {
            let port = free_port();
            flags.push((flag, port, format!("{port}:127.0.0.1:{to}")));
        }
    }
    let specs: Vec<(&str, &str)> = flags
        .iter()
        .map(|(flag, _, spec)| (*flag, spec.as_str()))
        .collect();
    let mut tunnel = Tunnel::start(client, running, &specs)?;
    for ports in flags.chunks(targets.len()) {
        let [
            (flag, greet, _),
            (_, count, _),
            (_, echo, _),
            (_, closed, _),
        ] = ports
        else {
            unreachable!("four for each flag");
        };
        let mut first = connect(*greet);
        let mut line = [0; GREETING.len()];
        first.read_exact(&mut line).unwrap_or_else(|why| {
            panic!("{flag}: the target speaks first: {why}: {}", tunnel.log())
        });
        assert_eq!(line, GREETING, "{flag}");
        assert_eq!(through(*count, &vec![7; 3 << 20]), b"3145728\n", "{flag}");
        let mut refused = connect(*closed);
        let mut back = Vec::new();
        // A reset says the same as an end.
        let _ = refused.read_to_end(&mut back);
        assert!(back.is_empty(), "{flag}");
        thread::scope(|scope| {
            for worker in 0..8 {
                scope.spawn(move || {
                    let bytes = vec![worker; 300_000];
                    assert!(through(*echo, &bytes) == bytes, "{flag}: {worker}");
                });
            }
        });
    }
    assert!(tunnel.is_running(), "{}", tunnel.log());
    Ok(())
}

/// Unix sockets at both ends, in both directions.
fn paths(client: Forwarder, running: &Running) -> Result<(), String> {
    let scratch = Scratch::new();
    let mode = |mode| PermissionsExt::from_mode(mode);
    // The server's user may be another one.
    std::fs::set_permissions(scratch.path(), mode(0o777)).expect("a mode");
    let to = unix_target(&scratch, Does::Echo);
    std::fs::set_permissions(&to, mode(0o777)).expect("a mode");
    let (to, port) = (to.display(), target(Does::Echo));
    let (local, remote) = (scratch.join("local"), scratch.join("remote"));
    let (local_port, remote_port) = (free_port(), free_port());
    let flags = [
        ("-L", format!("{}:{to}", local.display())),
        ("-L", format!("{local_port}:{to}")),
        ("-R", format!("{}:127.0.0.1:{port}", remote.display())),
        ("-R", format!("{remote_port}:{to}")),
    ];
    let flags: Vec<(&str, &str)> = flags
        .iter()
        .map(|(flag, spec)| (*flag, spec.as_str()))
        .collect();
    let _tunnel = Tunnel::start(client, running, &flags)?;
    let bytes = vec![b'u'; 200_000];
    for path in [&local, &remote] {
        assert!(through_unix(path, &bytes) == bytes, "{}", path.display());
    }
    for port in [local_port, remote_port] {
        assert!(through(port, &bytes) == bytes, "{port}");
    }
    Ok(())
}

/// A SOCKS listener of the client.
fn dynamic(client: Forwarder, running: &Running) -> Result<(), String> {
    let (port, to) = (free_port(), target(Does::Greet));
    let _tunnel = Tunnel::start(client, running, &[("-D", &port.to_string())])?;
    let mut stream = connect(port);
    stream.write_all(&socks5(1, to)).expect("a request");
    let mut back = [0; 12 + GREETING.len()];
    stream.read_exact(&mut back).expect("a reply");
    assert_eq!(back[..4], [5, 0, 5, 0]);
    assert_eq!(&back[12..], GREETING);
    Ok(())
}

#[test]
fn dbclient_forwards_ports() {
    with_client(Forwarder::Dbclient, ports);
}

#[test]
fn plink_forwards_ports_and_serves_socks() {
    with_client(Forwarder::Plink, ports);
    with_client(Forwarder::Plink, dynamic);
}

#[test]
fn asyncssh_forwards_ports_and_paths() {
    with_client(Forwarder::Asyncssh, ports);
    with_client(Forwarder::Asyncssh, paths);
    with_client(Forwarder::Asyncssh, dynamic);
}

#[test]
fn paramiko_forwards_ports() {
    with_client(Forwarder::Paramiko, ports);
}

#[test]
fn go_forwards_ports_and_paths() {
    with_client(Forwarder::Go, ports);
    with_client(Forwarder::Go, paths);
}

#[test]
fn a_dropbear_server_forwards_ports() {
    with_server(&Dropbear, ports);
    with_server(&Dropbear, dynamic);
}

#[test]
fn an_asyncssh_server_forwards_ports_and_paths() {
    with_server(&AsyncsshServer, ports);
    with_server(&AsyncsshServer, paths);
}
