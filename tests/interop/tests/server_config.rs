//! The same sshd_config with `sshd -T` of both programs: refusals with their status, and the
//! results of accepted lines.

use std::fs;
use std::process::Command;

use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{COMMAND_LIMIT, Input, run};
use interop::report::skipped;
use interop::scratch::Scratch;

/// OpenSSH's exit status for a configuration that it refuses.
const REFUSED: i32 = 255;

/// A configuration, and its lines of `sshd -T`; `None` if it is refused.
type Row = (&'static str, Option<&'static [&'static str]>);

const ROWS: &[Row] = &[
    // Only these two words, in this case, are not patterns of names.
    (
        "PermitUserEnvironment TRUE",
        Some(&["permituserenvironment TRUE"]),
    ),
    (
        "PermitUserEnvironment Yes",
        Some(&["permituserenvironment Yes"]),
    ),
    (
        "PermitUserEnvironment yes",
        Some(&["permituserenvironment yes"]),
    ),
    (
        "PermitUserEnvironment no",
        Some(&["permituserenvironment no"]),
    ),
    // Restrictions that name nothing.
    ("PermitOpen *", None),
    ("PermitOpen 8080", None),
    ("PermitOpen h/80", None),
    ("PermitOpen h:1 i", None),
    ("PermitOpen *:*", Some(&["permitopen *:*"])),
    ("PermitOpen none", Some(&["permitopen none"])),
    ("HostbasedAcceptedAlgorithms !ssh-ed25519", None),
    ("PubkeyAcceptedAlgorithms *,!ssh-ed25519", None),
    ("PubkeyAcceptedAlgorithms nothing*", None),
    ("HostKeyAlgorithms *,!ssh-ed25519", None),
    ("CASignatureAlgorithms !ssh-ed25519", None),
    (
        "PubkeyAcceptedAlgorithms ssh-ed25519",
        Some(&["pubkeyacceptedalgorithms ssh-ed25519"]),
    ),
    // Addresses.
    ("ListenAddress host.invalid", None),
    ("ListenAddress -x", None),
    ("ListenAddress 256.0.0.1", None),
    ("ListenAddress \"\"", None),
    ("ListenAddress :22", None),
    ("ListenAddress 127.0.0.1:99999", None),
    (
        "ListenAddress 127.0.0.1:77",
        Some(&["listenaddress 127.0.0.1:77"]),
    ),
    // Words and their case.
    ("PasswordAuthentication false", None),
    ("PermitTTY true", None),
    ("StrictModes TRUE", None),
    ("PermitTTY NO", Some(&["permittty no"])),
    ("IgnoreRhosts true", None),
    ("PermitTunnel NO", None),
    ("PermitTunnel false", None),
    ("PerSourceMaxStartups NONE", None),
    ("PerSourceMaxStartups 07", Some(&["persourcemaxstartups 7"])),
    ("Banner NONE", Some(&["banner none"])),
    ("ForceCommand NONE", Some(&["forcecommand none"])),
    ("MaxStartups 10", Some(&["maxstartups 10:30:10"])),
    // Invalid lines.
    ("NoSuchKeyword yes", None),
    ("Port", None),
    ("Port \"22", None),
    ("Port 22 23", None),
    ("PermitTTY yes no", None),
    ("Match", None),
    ("Match Nonsense x", None),
    ("Match User nobody\nNoSuchKeyword yes", None),
    ("Match User nobody\nPermitRootLogin bogus", None),
    // An unknown connection matches only the block for all.
    ("Match all\nMaxSessions 3", Some(&["maxsessions 3"])),
    (
        "Match User nobody\nMaxSessions 3",
        Some(&["maxsessions 10"]),
    ),
];

#[test]
fn a_configuration_is_refused_or_read_by_both_alike() {
    let scratch = Scratch::new();
    let file = scratch.write("sshd_config", "");
    let key = fixture::host_key_file("ssh-ed25519")
        .map(fixture::file)
        .expect("a host key");
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        let program = match kind.sshd() {
            Ok(program) => program,
            Err(reason) => {
                skipped("configurations", &reason);
                continue;
            }
        };
        for (text, lines) in ROWS {
            fs::write(&file, format!("{text}\n")).expect("the configuration");
            let mut command = Command::new(program.get_program());
            command.args(program.get_args()).arg("-T");
            command.arg("-f").arg(&file).arg("-h").arg(&key);
            let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("sshd");
            let expected = if lines.is_some() { 0 } else { REFUSED };
            assert_eq!(
                outcome.status,
                expected,
                "{kind:?} {text:?} {}",
                outcome.summary()
            );
            // OpenSSH 9.2 prints keywords in lower case, 10.6 and Fulmar as the manual page writes them.
            let lines_of = |dump: &str| -> Vec<String> {
                let lines = dump
                    .lines()
                    .map(|line| line.split_once(' ').unwrap_or((line, "")));
                lines
                    .map(|(keyword, value)| format!("{} {value}", keyword.to_lowercase()))
                    .collect()
            };
            let dump = outcome.stdout.text();
            let have = lines_of(&dump);
            for line in lines.unwrap_or_default() {
                assert!(
                    have.iter().any(|have| have == line),
                    "{kind:?} {text:?}: {dump}"
                );
            }
        }
    }
}

/// Debian's unit does not restart a server that ends with this status. Without `-D` OpenSSH has left
/// for the background by then and gives 0; Fulmar waits until its daemon listens.
#[test]
fn a_port_in_use_ends_the_server_with_the_status_of_a_bad_configuration() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let scratch = Scratch::new();
    let key = fixture::host_key_file("ssh-ed25519")
        .map(fixture::file)
        .expect("a host key");
    for (kind, flags, status) in [
        (Kind::OpenSsh, &["-D"][..], REFUSED),
        (Kind::Fulmar, &["-D"], REFUSED),
        (Kind::Fulmar, &[], REFUSED),
    ] {
        let mut command = match kind.sshd() {
            Ok(program) => program,
            Err(reason) => {
                skipped("a port in use", &reason);
                continue;
            }
        };
        command
            .args(flags)
            .args(["-f", "/dev/null", "-o", "PidFile=none"]);
        command.args(["-o", &format!("ListenAddress=127.0.0.1:{port}")]);
        command
            .arg("-h")
            .arg(&key)
            .arg("-E")
            .arg(scratch.join("log"));
        let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("sshd");
        assert_eq!(
            outcome.status,
            status,
            "{kind:?} {flags:?} {}",
            outcome.summary()
        );
    }
}
