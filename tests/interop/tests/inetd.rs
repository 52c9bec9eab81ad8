//! A server on standard input and output, started like by a ProxyCommand or inetd: `sshd -i`.

use std::process::Command;

use interop::account::current_user;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{Input, command_line};
use interop::scratch::Scratch;
use interop::site::{HOST, each, finish};

/// `sshd -i` of this kind, its files in `scratch`.
fn server(kind: Kind, scratch: &Scratch) -> Command {
    let config = scratch.write("sshd_config", openssh::server_config(kind, scratch));
    let mut command = kind.sshd().unwrap_or_else(|why| panic!("{why}"));
    command.arg("-i").arg("-f").arg(config);
    command
}

#[test]
fn a_connection_by_pipes_has_addresses_of_no_host() {
    each(|client, kind| {
        let scratch = Scratch::new();
        let behind = server(kind, &scratch);
        let words = command_line(&behind);
        let known_hosts = scratch.write("known_hosts", fixture::known_hosts(HOST));
        let config = format!(
            "ProxyCommand {}\nUser {}\n{}",
            words,
            current_user(),
            openssh::client_config(&known_hosts, "user_ed25519")
        );
        let mut command = client.ssh().unwrap_or_else(|why| panic!("{why}"));
        command.arg("-F").arg(scratch.write("ssh_config", config));
        command.args([HOST, "echo $SSH_CONNECTION; echo $SSH_CLIENT"]);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(
            outcome.stdout.text(),
            "UNKNOWN 65535 UNKNOWN 65535\nUNKNOWN 65535 65535\n",
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn where_nobody_logged_in_the_status_is_255() {
    each(|_, kind| {
        let scratch = Scratch::new();
        for said in [
            b"SSH-1.5-HALLO\n".as_slice(),
            b"GET / HTTP/1.0\r\n\r\n",
            b"",
        ] {
            let outcome = finish(&mut server(kind, &scratch), Input::Bytes(said));
            assert_eq!(outcome.status, 255, "{}", outcome.summary());
        }
    });
}
