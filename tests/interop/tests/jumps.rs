//! Connections through another host: `-J`, `-W`, ProxyCommand.

use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::scratch::free_port;
use interop::site::{HOST, Site, each};

/// A jump host of the server's suite, and its lines for the client's configuration.
fn jump(client: Kind, server: Kind) -> (Site, String) {
    let site = Site::new(client, server, "");
    let lines = format!(
        "Host jump\nHostName 127.0.0.1\nPort {}\nUser {}\nUserKnownHostsFile {}\nHost *\n",
        site.running.daemon.port,
        site.running.user,
        site.running.known_hosts.display()
    );
    (site, lines)
}

#[test]
fn a_jump_leads_through_one_host_and_through_two() {
    each(|client, server| {
        let target = Site::new(client, server, "");
        let (first, first_lines) = jump(client, server);
        let (second, second_lines) = jump(client, server);
        let lines = format!(
            "{first_lines}{}",
            second_lines.replace("Host jump", "Host second")
        );
        let asked = "echo through; exit 5";
        for way in ["jump", "jump,second"] {
            let outcome = target.run_with(&lines, &["-J", way, HOST, asked], Input::Nothing);
            assert_eq!(
                outcome.stdout.text(),
                "through\n",
                "{way}: {}",
                outcome.summary()
            );
            assert_eq!(outcome.status, 5);
        }
        let lines = format!("{lines}ProxyJump jump\n");
        let lines = lines.replace("Host *\nProxyJump", &format!("Host {HOST}\nProxyJump"));
        let outcome = target.run_with(&lines, &[HOST, asked], Input::Nothing);
        assert_eq!(
            outcome.stdout.text(),
            "through\n",
            "ProxyJump: {}",
            outcome.summary()
        );
        drop(first);
        let outcome = target.run_with(&lines, &[HOST, asked], Input::Nothing);
        assert_eq!(outcome.status, 255, "it did not go through the jump host");
        drop(second);
    });
}

#[test]
fn much_data_goes_through_a_jump() {
    each(|client, server| {
        let target = Site::new(client, server, "");
        let (_first, lines) = jump(client, server);
        let (data, digest) = interop::matrix::test_data();
        let outcome = target.run_with(&lines, &["-J", "jump", HOST, "cat"], Input::File(data));
        assert_eq!(outcome.stdout.sha256, digest, "{}", outcome.status);
    });
}

#[test]
fn a_connection_can_be_joined_to_standard_input() {
    each(|client, server| {
        let target = Site::new(client, server, "");
        let there = format!("127.0.0.1:{}", target.running.daemon.port);
        let outcome = target.run_with(
            "",
            &["-W", &there, HOST],
            Input::Bytes(b"SSH-2.0-nobody\r\n"),
        );
        assert!(
            outcome.stdout.text().starts_with("SSH-2.0-"),
            "{}",
            outcome.summary()
        );
        let nowhere = format!("127.0.0.1:{}", free_port());
        let outcome = target.run_with("", &["-W", &nowhere, HOST], Input::Nothing);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert!(!outcome.stderr.text().is_empty());
    });
}

#[test]
fn another_program_can_be_the_connection() {
    each(|client, server| {
        let target = Site::new(client, server, "");
        let (first, _) = jump(client, server);
        let through = format!(
            "ProxyCommand {} -W %h:%p {HOST}\n",
            first.wrapper().display()
        );
        let outcome = target.run_with(&through, &[HOST, "echo in"], Input::Nothing);
        assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
        let fails = target.run_with("ProxyCommand exit 1\n", &[HOST, "echo in"], Input::Nothing);
        assert_eq!(fails.status, 255);
    });
}

#[test]
fn a_server_can_forbid_the_way() {
    each(|client, server| {
        let target = Site::new(client, server, "AllowTcpForwarding no\n");
        let there = format!("127.0.0.1:{}", target.running.daemon.port);
        let outcome = target.run_with("", &["-W", &there, HOST], Input::Nothing);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert_eq!(outcome.stdout.length, 0);
        let site = Site::new(client, server, "");
        let key = fixture::text("user_ed25519.pub");
        site.running
            .daemon
            .scratch()
            .write("authorized_keys", format!("restrict {key}"));
        let there = format!("127.0.0.1:{}", site.running.daemon.port);
        let outcome = site.run_with("", &["-W", &there, HOST], Input::Nothing);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
    });
}
