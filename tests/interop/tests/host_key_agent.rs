//! HostKeyAgent: an agent holds the server's keys, and HostKey names their public halves.

use std::os::unix::net::UnixListener;
use std::path::Path;

use interop::agent::RealAgent;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::scratch::Scratch;
use interop::site::{HOST, Site};

/// A server whose keys are the public halves `names` of the fixture, with `extra` first.
fn serve(client: Kind, names: &[&str], extra: &str) -> Site {
    let scratch = Scratch::new();
    let config = openssh::server_config(Kind::Fulmar, &scratch);
    let mut lines: Vec<String> = config
        .lines()
        .filter(|line| !line.starts_with("Host"))
        .map(str::to_owned)
        .collect();
    for name in names {
        let public = scratch.write(name, fixture::text(&format!("host_{name}.pub")));
        let certificate = fixture::file(&format!("host_{name}-cert.pub"));
        lines.push(format!("HostKey {}", public.display()));
        lines.push(format!("HostCertificate {}", certificate.display()));
    }
    let text = format!("{extra}{}\n", lines.join("\n"));
    let running = openssh::start_with(Kind::Fulmar, scratch, &text);
    let running = running.unwrap_or_else(|why| panic!("{why}"));
    Site { client, running }
}

fn agent_with_host_keys(of: Kind, names: &[&str]) -> Option<RealAgent> {
    let agent = RealAgent::start_of(of, &[])?;
    agent.add_files(names.iter().map(|name| format!("host_{name}")));
    Some(agent)
}

fn line(socket: &Path) -> String {
    format!("HostKeyAgent {}\n", socket.display())
}

#[test]
fn each_key_and_certificate_signs_from_the_agent() {
    let names = ["ed25519", "ecdsa256", "rsa"];
    for of in [Kind::Fulmar, Kind::OpenSsh] {
        let Some(agent) = agent_with_host_keys(of, &names) else {
            return;
        };
        for client in [Kind::Fulmar, Kind::OpenSsh] {
            let site = serve(client, &names, &line(&agent.socket));
            for algorithm in [
                "ssh-ed25519",
                "ecdsa-sha2-nistp256",
                "rsa-sha2-512",
                "rsa-sha2-256",
                "ssh-ed25519-cert-v01@openssh.com",
            ] {
                let extra = format!("HostKeyAlgorithms {algorithm}\n");
                let outcome = site.run_with(&extra, &[HOST, "true"], Input::Nothing);
                assert_eq!(
                    outcome.status,
                    0,
                    "{of:?} {client:?} {algorithm}: {}",
                    outcome.summary()
                );
            }
        }
    }
}

#[test]
fn exchanges_during_a_session_are_signed_too() {
    let Some(agent) = agent_with_host_keys(Kind::Fulmar, &["ed25519"]) else {
        return;
    };
    for client in [Kind::Fulmar, Kind::OpenSsh] {
        let site = serve(client, &["ed25519"], &line(&agent.socket));
        let outcome = site.run_with(
            "RekeyLimit 64K\n",
            &[HOST, "head -c 1000000 /dev/zero | cksum; cat | cksum"],
            Input::Bytes(&[0; 500_000]),
        );
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    }
}

#[test]
fn an_agent_that_hangs_or_has_gone_stops_its_own_connections_only() {
    let scratch = Scratch::new();
    let socket = scratch.join("agent");
    let hanging = UnixListener::bind(&socket).expect("a socket");
    let private = fixture::file("host_ecdsa256");
    let extra = format!("{}HostKey {}\n", line(&socket), private.display());
    let site = serve(Kind::Fulmar, &["ed25519"], &extra);
    let options = "HostKeyAlgorithms ssh-ed25519\n";
    let mut waits = site.ssh(options);
    let mut waits = waits.args([HOST, "true"]).spawn().expect("a client");
    // The monitor has sent its request: the agent has it.
    let (client, _) = hanging.accept().expect("a monitor");
    for _ in 0..3 {
        let other = "HostKeyAlgorithms ecdsa-sha2-nistp256\n";
        let outcome = site.run_with(other, &[HOST, "true"], Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    }
    assert!(waits.try_wait().expect("a child").is_none());
    drop((client, hanging));
    assert!(!waits.wait().expect("a child").success());
    std::fs::remove_file(&socket).expect("a socket");
    let outcome = site.run_with(options, &[HOST, "true"], Input::Nothing);
    assert_ne!(outcome.status, 0, "no agent, no key");
}
