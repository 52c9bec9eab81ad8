//! Against dropbear, an implementation with other behaviour (no EXT_INFO in older versions, one
//! write per message, a strict limit on unauthenticated connections).

mod support;

use std::process::Command;

use support::{Scratch, Server, installed, key, run, run_with_input, ssh, stderr, stdout};

const DROPBEAR: &str = "/usr/sbin/dropbear";

fn dropbear() -> Option<(Server, Scratch)> {
    if !installed(DROPBEAR) || !installed("/usr/bin/dropbearkey") {
        return None;
    }
    let scratch = Scratch::new();
    let host = scratch.path("host");
    let made = run(Command::new("/usr/bin/dropbearkey")
        .args(["-t", "ed25519", "-f"])
        .arg(&host));
    assert!(made.status.success(), "{}", stderr(&made));
    // Dropbear reads keys from the home directory only.
    std::fs::create_dir_all(scratch.path(".ssh")).unwrap();
    scratch.write(
        ".ssh/authorized_keys",
        format!("{}\n", key(1).public().to_line()),
    );
    let server = Server::start(DROPBEAR, |port| {
        vec![
            "-F".into(),
            "-r".into(),
            host.clone().into_os_string(),
            "-p".into(),
            format!("127.0.0.1:{port}").into(),
        ]
    });
    Some((server, scratch))
}

/// Puts the test key where dropbear looks: the user's own file, which the tests must not change.
/// Without a separate home directory only the transport is tested.
fn reaches_authentication(more: &[&str]) {
    let Some((server, scratch)) = dropbear() else {
        return;
    };
    let identity = scratch.key("identity", &key(1), None);
    let mut command = ssh(&scratch, server.port);
    command
        .arg("-i")
        .arg(identity)
        .args(["-v", "-o", "BatchMode=yes"])
        .args(more);
    let output = run(command.args(["127.0.0.1", "true"]));
    let said = stderr(&output);
    assert!(said.contains("kex: algorithm: "), "{more:?}: {said}");
    let ended = output.status.success() || said.contains("Permission denied (publickey");
    assert!(ended, "{more:?}: {said}");
}

#[test]
fn the_transport_is_secured_with_each_algorithm() {
    for more in [
        &[][..],
        &["-o", "KexAlgorithms=curve25519-sha256"][..],
        &["-o", "KexAlgorithms=ecdh-sha2-nistp256"][..],
        &["-o", "KexAlgorithms=diffie-hellman-group14-sha256"][..],
        &["-o", "Ciphers=chacha20-poly1305@openssh.com"][..],
        &["-o", "Ciphers=aes256-ctr", "-o", "MACs=hmac-sha2-256"][..],
        &["-C"][..],
    ] {
        reaches_authentication(more);
    }
}

/// With its own home directory dropbear serves whole sessions: `unshare` gives one to root.
#[test]
fn a_session_runs_where_the_home_directory_can_be_lent() {
    let Some((server, scratch)) = dropbear() else {
        return;
    };
    drop(server);
    let namespace = ["--mount", "--", "sh", "-c"];
    let possible = Command::new("unshare")
        .args(namespace)
        .arg("mount --bind \"$1\" /root")
        .arg("sh")
        .arg(&scratch.0)
        .output()
        .is_ok_and(|output| output.status.success());
    if !possible {
        eprintln!("skipped: cannot lend dropbear a home directory here");
        return;
    }
    let host = scratch.path("host");
    let script = "mount --bind \"$1\" /root && exec /usr/sbin/dropbear -F -r \"$2\" -p \"$3\"";
    let server = Server::start("/usr/bin/unshare", |port| {
        let mut arguments: Vec<std::ffi::OsString> = namespace.iter().map(Into::into).collect();
        arguments.extend([
            script.into(),
            "sh".into(),
            scratch.0.clone().into_os_string(),
        ]);
        arguments.extend([
            host.clone().into_os_string(),
            format!("127.0.0.1:{port}").into(),
        ]);
        arguments
    });
    let identity = scratch.key("identity", &key(1), None);
    let client = || {
        let mut command = ssh(&scratch, server.port);
        command.arg("-i").arg(&identity);
        command
    };
    let output = run(client().args(["root@127.0.0.1", "echo out; exit 5"]));
    assert_eq!(
        (stdout(&output).as_str(), output.status.code()),
        ("out\n", Some(5)),
        "{}",
        stderr(&output)
    );
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|n| n.to_le_bytes()[1]).collect();
    for more in [&[][..], &["-C"][..]] {
        let output = run_with_input(client().args(more).args(["root@127.0.0.1", "cat"]), &bytes);
        assert!(output.stdout == bytes, "{}", stderr(&output));
    }
}
