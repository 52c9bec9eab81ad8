//! Commands and restrictions that the server or a key imposes.

use std::fs;

use wire::permissions::Permission;

use crate::Test;
use crate::fake_monitor::{Policy, Server};
use crate::peer::{Place, complains, served, text};

pub const TESTS: &[Test] = &[
    (
        "what_is_forced_runs_and_sees_what_was_asked",
        what_is_forced_runs,
    ),
    (
        "an_empty_forced_command_runs_nothing",
        an_empty_forced_command_runs_nothing,
    ),
    (
        "forced_internal_sftp_says_that_it_is_all",
        forced_internal_sftp_says_that_it_is_all,
    ),
    (
        "the_users_rc_file_does_not_run_under_force_command",
        the_users_rc_file_does_not_run_under_force_command,
    ),
    ("restrictions_of_a_key_hold", restrictions_of_a_key_hold),
    (
        "an_expired_password_leaves_only_passwd",
        an_expired_password_leaves_only_passwd,
    ),
];

/// A place and a server that forces a command, and that has this subsystem `sftp`.
fn forced(name: &str, command: &str, sftp: &str) -> Option<(Place, Server)> {
    served(name, |policy: &mut Policy| {
        policy.forced_command = Some(command.to_owned());
        policy.config = format!("Subsystem sftp {sftp}\n");
    })
}

fn what_is_forced_runs() {
    let Some((place, server)) = forced(
        "forced",
        "echo \"forced: $SSH_ORIGINAL_COMMAND\"",
        "/bin/false",
    ) else {
        return;
    };
    let marker = place.path.join("marker");
    let out = place.run(&server, &[], &[&format!("touch {}", marker.display())], b"");
    assert_eq!(
        text(&out.stdout),
        format!("forced: touch {}\n", marker.display())
    );
    assert!(!marker.exists());
    let out = place.run(&server, &["-T"], &[], b"");
    assert_eq!(text(&out.stdout), "forced: \n");
    let out = place.run(&server, &["-s"], &["sftp"], b"");
    assert_eq!(text(&out.stdout), "forced: /bin/false\n");
}

fn an_empty_forced_command_runs_nothing() {
    let Some((place, server)) = forced("empty", "", "internal-sftp") else {
        return;
    };
    for (flags, command) in [
        (&["-T"][..], &[][..]),
        (&["-tt"], &[]),
        (&[], &["echo in"]),
        (&["-s"], &["sftp"]),
    ] {
        let out = place.run(&server, flags, command, b"echo in\nexit 3\n");
        assert_eq!(out.status.code(), Some(0), "{flags:?}");
        assert_eq!(
            text(&out.stdout).replace("echo in\r\nexit 3\r\n", ""),
            "",
            "{flags:?}"
        );
    }
}

fn forced_internal_sftp_says_that_it_is_all() {
    let Some((place, server)) = forced("onlysftp", "internal-sftp", "internal-sftp") else {
        return;
    };
    for (flags, command) in [
        (&["-T"][..], &[][..]),
        (&["-tt"], &[]),
        (&[], &["/usr/lib/openssh/sftp-server"]),
    ] {
        let out = place.run(&server, flags, command, b"");
        assert_eq!(out.status.code(), Some(1), "{flags:?}");
        assert_eq!(
            text(&out.stdout).replace('\r', ""),
            "This service allows sftp connections only.\n",
            "{flags:?}"
        );
        assert_eq!(text(&out.stderr), "", "{flags:?}");
    }
}

fn the_users_rc_file_does_not_run_under_force_command() {
    let Some(place) = Place::new("forcedrc") else {
        return;
    };
    let marker = place.path.join("marker");
    fs::write(
        place.home().join(".ssh/rc"),
        format!("echo rc >>{}\n", marker.display()),
    )
    .expect("a file");
    let mut policy = place.policy();
    policy.forced_command = Some("echo forced".into());
    policy.config = "ForceCommand echo forced\n".into();
    let server = Server::start(policy.clone());
    for flags in [&["-T"][..], &["-tt"]] {
        let out = place.run(&server, flags, &["echo mine"], b"");
        assert_eq!(text(&out.stdout).replace('\r', ""), "forced\n");
    }
    assert!(!marker.exists());
    // Forced by the key alone it runs, as in OpenSSH.
    policy.config = String::new();
    let server = Server::start(policy);
    let out = place.run(&server, &[], &["echo mine"], b"");
    assert_eq!(text(&out.stdout), "forced\n");
    assert!(marker.exists());
}

fn restrictions_of_a_key_hold() {
    let Some(place) = Place::new("restrict") else {
        return;
    };
    let mut policy = place.policy();
    for denied in [
        Permission::Pty,
        Permission::UserRc,
        Permission::PortForwarding,
    ] {
        policy.restrictions.permissions.set(denied, false);
    }
    fs::write(place.home().join(".ssh/rc"), "echo rc ran\n").expect("a file");
    let server = Server::start(policy);
    let out = place.run(&server, &["-tt"], &["tty"], b"");
    let said = text(&out.stderr);
    assert!(said.contains("PTY allocation request failed"), "{said}");
    let out = place.run(&server, &[], &["tty"], b"");
    assert_eq!(text(&out.stdout), "not a tty\n");
    let out = place.run(&server, &["-v", "-W", "127.0.0.1:9"], &[], b"");
    assert!(!out.status.success());
    complains(&out, "administratively prohibited");
}

fn an_expired_password_leaves_only_passwd() {
    let Some((place, server)) = served("expired", |policy| policy.password_expired = true) else {
        return;
    };
    let marker = place.path.join("marker");
    let out = place.run(&server, &[], &[&format!("touch {}", marker.display())], b"");
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(
        text(&out.stderr),
        "WARNING: Your password has expired.\n\
         Password change required but no TTY available.\n"
    );
    assert!(!marker.exists());
}
