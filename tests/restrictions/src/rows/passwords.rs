//! Logins by password and by PAM: restrictions of keys apply to them as well.

use crate::row::{Row, Typed};

const UNIX: &str = "auth required pam_unix.so nullok\naccount required pam_unix.so\nsession required pam_permit.so\n";

pub(super) fn rows() -> Vec<Row> {
    [passwords(), roots(), accounts(), pam()].concat()
}

/// A password login with these lines in a Match block.
fn restricted(lines: &str) -> Row {
    Row::config(lines)
        .in_match()
        .with("PasswordAuthentication yes")
        .typed("password")
}

fn passwords() -> Vec<Row> {
    let blocks = |lines: &str, block: &str| {
        let mut row = Row::config(lines).typed("password");
        row.blocks = format!("Match User {{user}}\n{block}\n");
        row.named(&format!("but {block}"))
    };
    let mut wrong = Row::config("PasswordAuthentication yes").typed("password");
    wrong.typed = Some(Typed {
        method: "password",
        password: "open barley",
    });
    let mut empty = Row::config("PasswordAuthentication yes").typed("password");
    empty.hash = "";
    empty.typed = Some(Typed {
        method: "password",
        password: "",
    });
    vec![
        Row::config("PasswordAuthentication yes").typed("password"),
        wrong.named("a wrong one").refused(),
        empty.clone().named("none at all").refused(),
        empty.with("PermitEmptyPasswords yes"),
        Row::config("PasswordAuthentication no")
            .typed("password")
            .refused(),
        blocks("PasswordAuthentication yes", "PasswordAuthentication no").refused(),
        blocks("PasswordAuthentication no", "PasswordAuthentication yes"),
        blocks(
            "PasswordAuthentication yes",
            "AuthenticationMethods publickey",
        )
        .refused(),
        blocks(
            "PasswordAuthentication yes",
            "AuthenticationMethods password",
        ),
        restricted("ForceCommand {forced}").forced().no_user_rc(),
        restricted("ForceCommand internal-sftp")
            .sftp_only()
            .no_user_rc(),
        jailed(restricted("ChrootDirectory {jail}")),
        restricted("PermitTTY no").no_pty(),
        restricted("PermitUserRC no").no_user_rc(),
        restricted("DisableForwarding yes").no_ports().no_agent(),
        restricted("PermitOpen 127.0.0.1:{a}")
            .no_local()
            .but("tcp", "A"),
        restricted("DenyUsers {user}").refused(),
        // A key's options apply to the key only.
        restricted("PermitTTY yes").authorized("restrict {key}\n"),
    ]
}

fn jailed(row: Row) -> Row {
    row.all_sessions("fails")
        .no_output()
        .but("subsystem", "jail")
        .but("streamlocal", "no")
        .but("remote-streamlocal", "no")
}

fn roots() -> Vec<Row> {
    let root = |lines: &str| {
        Row::config(lines)
            .with("PasswordAuthentication yes")
            .typed("password")
            .root()
    };
    vec![
        root("PermitRootLogin yes"),
        root("PermitRootLogin prohibit-password").refused(),
        root("PermitRootLogin forced-commands-only").refused(),
        root("PermitRootLogin no").refused(),
    ]
}

/// Accounts without a matching password.
fn accounts() -> Vec<Row> {
    let account = |hash: &'static str, lines: &str| {
        let mut row = Row::config(lines);
        row.hash = hash;
        row.named(&format!("the password is {hash:?}"))
    };
    vec![
        account("!", "UsePAM no").refused(),
        account("!*", "UsePAM no").refused(),
        account("*", "UsePAM no"),
        account("x", "UsePAM no"),
        account("!", "UsePAM yes").file("etc/pam.d/sshd", UNIX),
    ]
}

fn pam() -> Vec<Row> {
    let row = |lines: &str, stack: &str| {
        Row::config(lines)
            .in_match()
            .with("UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes")
            .file("etc/pam.d/sshd", stack)
    };
    let mut rows = Vec::new();
    for method in ["password", "keyboard-interactive"] {
        let typed = |lines: &str| row(lines, UNIX).typed(method);
        let root = |lines: &str| {
            Row::config(lines)
                .with("UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes")
                .file("etc/pam.d/sshd", UNIX)
                .typed(method)
                .root()
        };
        rows.extend([
            typed("PermitTTY yes"),
            typed("ForceCommand {forced}").forced().no_user_rc(),
            typed("ForceCommand internal-sftp").sftp_only().no_user_rc(),
            jailed(typed("ChrootDirectory {jail}")),
            typed("PermitTTY no").no_pty(),
            typed("DisableForwarding yes").no_ports().no_agent(),
            typed("AuthenticationMethods publickey").refused(),
            typed("DenyUsers {user}").refused(),
            typed("PasswordAuthentication no\nKbdInteractiveAuthentication no").refused(),
            root("PermitRootLogin yes"),
            root("PermitRootLogin prohibit-password").refused(),
            root("PermitRootLogin forced-commands-only").refused(),
            root("PermitRootLogin no").refused(),
        ]);
    }
    let denied = |part: &str| {
        let deny = |line: &str| match line.starts_with(part) {
            true => format!("{part} required pam_deny.so\n"),
            false => format!("{line}\n"),
        };
        UNIX.lines().map(deny).collect::<String>()
    };
    rows.extend([
        row("PermitTTY no", UNIX).no_pty(),
        // PAM does not check keys, but it checks the account.
        row("PermitTTY no", &denied("auth")).no_pty(),
        row("PermitTTY no", &denied("account")).refused(),
        row("PermitTTY no", &denied("session"))
            .all_sessions("fails")
            .but("subsystem", "fails")
            .no_output()
            .no_ports(),
    ]);
    rows
}
