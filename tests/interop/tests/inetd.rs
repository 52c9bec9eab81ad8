//! A server on standard input and output, started like by a ProxyCommand or inetd: `sshd -i`.

use std::process::Command;

use interop::account::current_user;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::{Kind, binary};
use interop::process::{Input, command_line};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish};

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

/// For each connection a listener of OpenSSH before 9.8 executes its name, which is our program after
/// `fulmar install --replace-openssh`.
#[test]
fn a_listener_of_openssh_whose_name_was_taken_serves_until_it_is_restarted() {
    let Ok(sshd) = Kind::OpenSsh.sshd() else {
        return skipped(
            "a listener whose name is taken",
            &"OpenSSH's sshd is not installed",
        );
    };
    let scratch = Scratch::new();
    let programs = Scratch::new();
    let (name, aside) = (programs.join("sshd"), programs.join("sshd.openssh"));
    std::fs::copy(sshd.get_program(), &name).expect("a copy");
    let config = openssh::server_config(Kind::OpenSsh, &scratch);
    let server = openssh::start_by(Command::new(&name), Kind::OpenSsh, scratch, &config);
    let running = server.unwrap_or_else(|why| panic!("{why}"));
    std::fs::rename(&name, &aside).expect("the other name");
    std::os::unix::fs::symlink(binary(), &name).expect("a link");
    let site = Site {
        client: Kind::Fulmar,
        running,
    };
    let mut command = site.ssh("");
    command.args(["-v", HOST, "echo in"]);
    let outcome = finish(&mut command, Input::Nothing);
    outcome.assert_in(&site.running.daemon.log());
    let said = outcome.stderr.text();
    assert!(said.contains("OpenSSH_"), "{said}");
}
