//! A lying client against `gssapi-with-mic` of the real `fulmar sshd`, with MIT's library and a keytab
//! of an invented key: no realm is needed to lie.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crypto::kex::{Initiator, KexAlgorithm};
use hostile::adversary::{Offer, userauth};
use hostile::place::Server;
use interop::account::is_root;
use interop::process::descendants;
use interop::report::skipped;
use interop::scratch::Scratch;
use wire::Put;
use wire::algorithms::{GSS_KEX, KERBEROS_KEX_SUFFIX};
use wire::message::KexGssInit;

/// A keytab (MIT's file format, version 2) with one AES-256 key of host/gss.test.
fn keytab() -> Vec<u8> {
    let counted = |out: &mut Vec<u8>, text: &[u8]| {
        out.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        out.extend_from_slice(text);
    };
    let mut entry = 2_u16.to_be_bytes().to_vec();
    for part in [&b"FULMAR.TEST"[..], b"host", b"gss.test"] {
        counted(&mut entry, part);
    }
    // Type of the name (a host's service), time, version of the key, type of the key.
    entry.put_u32(3);
    entry.put_u32(1_700_000_000);
    entry.push(2);
    entry.extend(18_u16.to_be_bytes());
    counted(&mut entry, &[0x5a; 32]);
    let mut file = vec![5, 2];
    file.put_string(&entry);
    file
}

fn message(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number];
    message.put_string(bytes);
    message
}

fn kerberos() -> Vec<u8> {
    let mut fields = Vec::new();
    wire::userauth::put_gssapi_fields(&mut fields);
    fields.split_off(4 + "gssapi-with-mic".len())
}

/// A server that accepts Kerberos; `None` if this machine has no library for it.
fn server(files: &Scratch, lines: &[&str]) -> Option<Server> {
    server_with(files, lines, "")
}

/// The same with this line on the realm in krb5.conf.
fn server_with(files: &Scratch, lines: &[&str], kdc: &str) -> Option<Server> {
    let configuration = files.write(
        "krb5.conf",
        format!(
            "[libdefaults]\n default_realm = FULMAR.TEST\n dns_canonicalize_hostname = false\n \
             dns_lookup_kdc = false\n[realms]\n FULMAR.TEST = {{\n{kdc} }}\n"
        ),
    );
    // The acceptor reads it as the unprivileged user; only the keytab is read as root.
    for (path, mode) in [(files.path(), 0o755), (&configuration, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let keytab = files.write("keytab", keytab());
    let lines = [
        &["GSSAPIAuthentication yes", "GSSAPIStrictAcceptorCheck no"],
        lines,
    ]
    .concat();
    let server = Server::with_environment(
        "",
        &lines,
        &[("KRB5_CONFIG", &configuration), ("KRB5_KTNAME", &keytab)],
    );
    let mut adversary = server.ready();
    let answer = adversary.ask(server.user.as_bytes(), "gssapi-with-mic", &kerberos());
    if answer.first() == Some(&60) {
        return Some(server);
    }
    assert!(
        server.daemon.log().contains("libgssapi_krb5"),
        "{}",
        server.daemon.log()
    );
    skipped("gssapi", &"needs libgssapi_krb5.so.2");
    None
}

/// Tokens that are none: not ASN.1, of other mechanisms, cut short, with lengths that lie.
fn lies() -> Vec<Vec<u8>> {
    let kerberos = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
    let framed = |body: &[u8]| {
        let inner = [&kerberos[..], b"\x01\x00", body].concat();
        let mut token = vec![0x60, 0x82];
        token.extend(u16::try_from(inner.len()).unwrap().to_be_bytes());
        token.extend(inner);
        token
    };
    let mut lies = vec![
        Vec::new(),
        vec![0],
        b"NTLMSSP\0\x01\0\0\0".to_vec(),
        vec![0x60, 0x84, 0xff, 0xff, 0xff, 0xff],
        framed(b""),
        framed(&[0x6e, 0x84, 0x7f, 0xff, 0xff, 0xff]),
        framed(&[0x6e; 4000]),
        framed(&[0x30; 60_000]),
        vec![0xff; 128 * 1024],
        b"\x60\x08\x06\x06\x2b\x06\x01\x05\x05\x02".to_vec(),
    ];
    // A small generator (xorshift): each run tells the same lies.
    let mut state = 0x2545_f491_u32;
    lies.extend((0..6).map(|_| {
        let body: Vec<u8> = (0..200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state.to_be_bytes()[0]
            })
            .collect();
        framed(&body)
    }));
    lies
}

#[test]
fn no_token_lets_a_liar_in_and_each_costs_a_try() {
    let files = Scratch::new();
    let Some(server) = server(&files, &["MaxAuthTries 100"]) else {
        return;
    };
    let user = server.user.clone();
    let mut adversary = server.ready();
    for lie in lies() {
        assert_eq!(
            adversary.ask(user.as_bytes(), "gssapi-with-mic", &kerberos())[0],
            60
        );
        adversary.send(&message(61, &lie));
        let answer = adversary.answer();
        assert_eq!(answer.first(), Some(&51), "{:?}", &lie[..lie.len().min(20)]);
        // What follows a failure is passed over.
        adversary.send(&message(66, b"mic"));
    }
    // A MIC, or the end of the exchange, before any context.
    for end in [message(66, b""), message(66, &[4; 28]), vec![63]] {
        assert_eq!(
            adversary.ask(user.as_bytes(), "gssapi-with-mic", &kerberos())[0],
            60
        );
        adversary.send(&end);
        assert_eq!(adversary.answer().first(), Some(&51));
    }
    drop(adversary);
    assert!(!server.daemon.log().contains("Accepted"));
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn no_token_of_a_key_exchange_gets_a_mic() {
    let files = Scratch::new();
    let Some(server) = server(&files, &["GSSAPIKeyExchange yes"]) else {
        return;
    };
    let name = format!("{}{}", GSS_KEX[0], KERBEROS_KEX_SUFFIX);
    let kex = KexAlgorithm::from_name(&name).unwrap();
    let exchanging = || {
        let mut adversary = server.connect();
        adversary.hello();
        adversary.kexinit(&Offer::kex(&name));
        adversary.expect_kexinit();
        adversary
    };
    for lie in lies() {
        let mut adversary = exchanging();
        let (_, public) = Initiator::new(kex).unwrap();
        adversary.say(&KexGssInit {
            token: &lie,
            public: &public,
        });
        let received = adversary.rest();
        let numbers: Vec<u8> = received.iter().map(|payload| payload[0]).collect();
        // An error token may precede the error; nothing else is said.
        assert!(numbers == [34] || numbers == [31, 34], "{numbers:?}");
        adversary.ends_with("GSS-API key exchange failed");
    }
    // Clients that go away before their token.
    for _ in 0..3 {
        drop(exchanging());
    }
    let log = server.daemon.log();
    assert!(!log.contains("Accepted"), "{log}");
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn an_exchange_that_the_client_leaves_is_a_try() {
    let files = Scratch::new();
    let Some(server) = server(&files, &["MaxAuthTries 3"]) else {
        return;
    };
    for user in [server.user.as_str(), "nosuchuser"] {
        for gives_up in [true, false] {
            let mut adversary = server.ready();
            for _ in 0..3 {
                assert_eq!(
                    adversary.ask(user.as_bytes(), "gssapi-with-mic", &kerberos())[0],
                    60
                );
                if gives_up {
                    adversary.send(&message(65, b"error"));
                }
            }
            // The third exchange is left by this request, after which no try remains.
            assert_eq!(
                adversary.ask_or_end(user.as_bytes(), "none", b""),
                None,
                "{user}"
            );
        }
    }
    let log = server.daemon.log();
    assert!(
        log.contains("maximum authentication attempts exceeded"),
        "{log}"
    );
    server.leaves_nothing_behind();
    server.still_serves();
}

/// The processes with the library.
fn helpers(server: &Server) -> Vec<u32> {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm"));
    descendants(server.daemon.pid())
        .into_iter()
        .filter(|pid| name(pid).is_ok_and(|name| name == "gssapi\n"))
        .collect()
}

fn has_no_rights(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    assert_eq!(line("NoNewPrivs:"), "1", "{status}");
    assert_eq!(line("Seccomp:"), "2", "{status}");
    assert_eq!(line("Threads:"), "1", "{status}");
    if is_root() {
        let ids = line("Uid:");
        assert!(!ids.split_whitespace().any(|id| id == "0"), "{status}");
        assert_eq!(line("CapEff:"), "0000000000000000", "{status}");
    }
}

#[test]
fn the_acceptor_has_no_rights_and_exists_only_during_an_exchange() {
    let files = Scratch::new();
    let Some(server) = server(&files, &[]) else {
        return;
    };
    server.leaves_nothing_behind();
    let user = server.user.clone();
    let mut adversary = server.ready();
    adversary.ask(user.as_bytes(), "none", b"");
    assert_eq!(helpers(&server), [0_u32; 0]);
    assert_eq!(
        adversary.ask(user.as_bytes(), "gssapi-with-mic", &kerberos())[0],
        60
    );
    let [acceptor] = helpers(&server)[..] else {
        panic!("not one acceptor: {}", server.daemon.log());
    };
    has_no_rights(acceptor);
    adversary.ask(user.as_bytes(), "none", b"");
    assert_eq!(helpers(&server), [0_u32; 0]);
}

/// A KDC that says anything but its protocol lets nobody in.
#[test]
fn the_process_that_asks_a_kdc_has_no_rights_and_is_not_awaited_for_ever() {
    let files = Scratch::new();
    let kdc = UdpSocket::bind("127.0.0.1:0").unwrap();
    kdc.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let address = kdc.local_addr().unwrap();
    // The library also tries TCP, and must not be refused there.
    let _tcp = std::net::TcpListener::bind(address).unwrap();
    let lines = [
        "KerberosAuthentication yes",
        "KerberosOrLocalPasswd no",
        "MaxAuthTries 100",
        "PermitRootLogin yes",
    ];
    let Some(server) = server_with(&files, &lines, &format!("  kdc = {address}\n")) else {
        return;
    };
    server.leaves_nothing_behind();
    let user = server.user.clone();
    let mut password = vec![0];
    password.put_string(b"s3cret-w0rd");
    for (user, asked) in [
        (user.as_str(), user.as_str()),
        ("nosuchuser", "no such user"),
    ] {
        let mut adversary = server.ready();
        adversary.send(&userauth(user.as_bytes(), "password", &password));
        // Requests for the name before may be left.
        let asker = loop {
            let mut request = [0; 4096];
            let (length, asker) = kdc.recv_from(&mut request).unwrap();
            let request = &request[..length];
            let has = |text: &[u8]| request.windows(text.len()).any(|window| window == text);
            if has(asked.as_bytes()) {
                break asker;
            }
        };
        let [helper] = helpers(&server)[..] else {
            panic!("not one process: {}", server.daemon.log());
        };
        has_no_rights(helper);
        for lie in lies() {
            let _ = kdc.send_to(&lie, asker);
        }
        assert_eq!(adversary.answer().first(), Some(&51), "{user}");
        assert_eq!(helpers(&server), [0_u32; 0]);
    }
    let log = server.daemon.log();
    assert!(
        !log.contains("Accepted") && !log.contains("s3cret"),
        "{log}"
    );
    server.leaves_nothing_behind();
    server.still_serves();
}
