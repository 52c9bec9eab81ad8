//! StrictModes: files that permit logins and that others could have written.

use crate::place::UID;
use crate::row::Row;

/// A user who is neither root nor the user of the login.
const ANOTHER: u32 = UID + 7;

pub(super) fn rows() -> Vec<Row> {
    [keys(), principals()].concat()
}

fn keys() -> Vec<Row> {
    let lines =
        |strict: &str| format!("StrictModes {strict}\nAuthorizedKeysFile .ssh/authorized_keys");
    let in_home = |strict: &str| {
        Row::config(&lines(strict))
            .file("home/.ssh/authorized_keys", "{key}\n")
            .mode("home/.ssh/authorized_keys", UID, 0o644)
    };
    let elsewhere = |strict: &str| {
        Row::config(&format!(
            "StrictModes {strict}\nAuthorizedKeysFile {{jail}}/keys"
        ))
        .file("jail/keys", "{key}\n")
    };
    let mut rows = vec![
        in_home("yes"),
        in_home("yes").mode("home/.ssh/authorized_keys", 0, 0o644),
        in_home("yes")
            .mode("home", 0, 0o755)
            .but("subsystem", "home sshrc"),
        elsewhere("yes"),
        elsewhere("yes").mode("jail/keys", UID, 0o600),
        // A file that the user cannot read permits no login.
        elsewhere("no").mode("jail/keys", 0, 0o600).refused(),
    ];
    for (name, owner, mode) in [
        ("home/.ssh/authorized_keys", UID, 0o664),
        ("home/.ssh/authorized_keys", UID, 0o646),
        ("home/.ssh/authorized_keys", ANOTHER, 0o644),
        ("home/.ssh", UID, 0o775),
        ("home/.ssh", UID, 0o757),
        ("home/.ssh", UID, 0o1777),
        ("home/.ssh", ANOTHER, 0o755),
        ("home", UID, 0o775),
        ("home", UID, 0o757),
        ("home", UID, 0o1777),
        ("home", ANOTHER, 0o777),
    ] {
        rows.push(in_home("yes").mode(name, owner, mode).refused());
        rows.push(in_home("no").mode(name, owner, mode));
    }
    for (name, owner, mode) in [
        ("jail/keys", 0, 0o664),
        ("jail/keys", ANOTHER, 0o644),
        ("jail", 0, 0o775),
        ("jail", 0, 0o1777),
        ("jail", ANOTHER, 0o755),
    ] {
        rows.push(elsewhere("yes").mode(name, owner, mode).refused());
        rows.push(elsewhere("no").mode(name, owner, mode));
    }
    rows
}

fn principals() -> Vec<Row> {
    let row = |strict: &str| {
        Row::certificate(&[])
            .with("AuthorizedKeysFile none\nTrustedUserCAKeys {here}/authority")
            .with(&format!(
                "StrictModes {strict}\nAuthorizedPrincipalsFile %h/.ssh/names"
            ))
            .file("authority", "{ca}\n")
            .file("home/.ssh/names", "{user}\n")
    };
    let mut rows = vec![row("yes")];
    for (name, owner, mode) in [
        ("home/.ssh/names", UID, 0o664),
        ("home/.ssh/names", ANOTHER, 0o644),
        ("home/.ssh", UID, 0o775),
        ("home", UID, 0o757),
    ] {
        rows.push(row("yes").mode(name, owner, mode).refused());
        rows.push(row("no").mode(name, owner, mode));
    }
    // Only root writes authorities: their permissions are not checked.
    rows.push(row("yes").mode("authority", UID, 0o666));
    rows
}
