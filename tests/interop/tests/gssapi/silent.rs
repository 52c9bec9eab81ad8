//! A KDC or a library that does not answer: how long each side waits.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Daemon, Input};
use interop::realm::{HOST, REALM};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port};
use interop::site::finish;

use super::Case;

const LIMIT: Duration = Duration::from_secs(120);

/// A KDC that takes requests and does not answer.
struct SilentKdc {
    configuration: PathBuf,
    _files: Scratch,
    _sockets: (UdpSocket, TcpListener),
}

impl SilentKdc {
    fn start() -> Self {
        // The port of one may be somebody else's of the other.
        let both = || {
            let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
            Some((udp, tcp))
        };
        let (udp, tcp) = (0..100).find_map(|_| both()).unwrap();
        let address = udp.local_addr().unwrap();
        let files = Scratch::new();
        let configuration = files.write(
            "krb5.conf",
            format!(
                "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n \
                 dns_canonicalize_hostname = false\n rdns = false\n[realms]\n {REALM} = {{\n  \
                 kdc = {address}\n }}\n[domain_realm]\n {HOST} = {REALM}\n"
            ),
        );
        fs::set_permissions(&configuration, fs::Permissions::from_mode(0o644)).unwrap();
        Self {
            configuration,
            _files: files,
            _sockets: (udp, tcp),
        }
    }
}

/// Without the limit the library says after half a minute that it cannot contact any KDC.
#[test]
fn connect_timeout_ends_the_wait_of_a_key_exchange_for_a_kdc() {
    let Some(mut case) = Case::new() else { return };
    let kdc = SilentKdc::start();
    case.configuration = Some(kdc.configuration.clone());
    let arguments = [
        "-oGSSAPIKeyExchange=yes",
        "-oGSSAPIAuthentication=no",
        "-oConnectTimeout=2",
    ];
    let ended = case.run(Kind::Fulmar, Kind::Fulmar, &arguments);
    assert!(!ended.logged_in, "{ended:?}");
    assert!(
        ended.said.contains("the GSS-API process does not answer"),
        "{ended:?}"
    );
    assert!(
        ended.said.contains("no key exchange by GSSAPI is offered"),
        "{ended:?}"
    );
}

#[test]
fn a_local_password_counts_after_a_kdc_that_does_not_answer() {
    let Some(mut case) = Case::new() else { return };
    let kdc = SilentKdc::start();
    case.configuration = Some(kdc.configuration.clone());
    case.keytab = "keytab".to_owned();
    case.guest.set_password("local-one").unwrap();
    case.answer = Some("local-one".to_owned());
    let arguments = [
        "-oBatchMode=no",
        "-oPreferredAuthentications=password",
        "-oGSSAPIAuthentication=no",
        "-oNumberOfPasswordPrompts=1",
    ];
    case.server_options = "KerberosAuthentication yes\nPasswordAuthentication yes\n";
    let ended = case.run(Kind::Fulmar, Kind::Fulmar, &arguments);
    let silent = "Kerberos password authentication failed: the GSS-API process does not answer";
    assert!(ended.logged_in && ended.log.contains(silent), "{ended:?}");
    // The time for the login is not exceeded.
    case.server_options =
        "LoginGraceTime 3\nKerberosAuthentication yes\nPasswordAuthentication yes\n";
    let ended = case.run(Kind::Fulmar, Kind::Fulmar, &arguments);
    assert!(!ended.logged_in, "{ended:?}");
    assert!(
        ended.log.contains("Timeout before authentication"),
        "{ended:?}"
    );
}

/// The library opens a pipe in place of its configuration, and waits for somebody who writes.
#[test]
fn a_server_starts_though_the_library_does_not_answer() {
    let files = Scratch::new();
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let pipe = files.join("krb5.conf");
    let made = finish(
        Command::new("mkfifo").args(["-m", "644"]).arg(&pipe),
        Input::Nothing,
    );
    if made.status != 0 {
        return skipped("a library that stands still", &made.summary());
    }
    let port = free_port();
    let configuration = files.write(
        "sshd_config",
        format!(
            "GSSAPIAuthentication yes\nGSSAPIKeyExchange yes\nListenAddress 127.0.0.1\nPort {port}\n\
             HostKey {}\nUsePAM no\nPidFile none\n",
            fixture::file("host_ed25519").display()
        ),
    );
    let mut command = Kind::Fulmar.sshd().unwrap();
    command
        .args(["-D", "-e", "-f"])
        .arg(configuration)
        .env("KRB5_CONFIG", &pipe);
    let server = Daemon::start(&mut command, port, Scratch::new()).unwrap();
    let line = "GSSAPIKeyExchange: the library does not answer";
    assert!(server.log().contains(line), "{}", server.log());
    // What may work later is offered.
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(b"SSH-2.0-client\r\n").unwrap();
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&received).contains("gss-curve25519-sha256-") {
        let count = client.read(&mut chunk).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&chunk[..count]);
    }
}
