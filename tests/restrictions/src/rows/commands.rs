//! AuthorizedKeysCommand and AuthorizedPrincipalsCommand: their output restricts like a file's
//! lines, and only root may have write access to them.

use crate::place::UID;
use crate::row::Row;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for row in [of_keys(), of_principals()].concat() {
        rows.push(row.in_match());
        rows.push(row);
    }
    rows.extend(not_started());
    rows
}

/// A program that others cannot change, whose last command is this.
fn program(row: Row, command: &str) -> Row {
    row.file("jail/list", &format!("#!/bin/sh\n{command}\n"))
        .mode("jail/list", 0, 0o755)
}

/// A program that prints this line.
fn prints(row: Row, line: &str) -> Row {
    program(row, &format!("cat <<'end'\n{line}\nend"))
}

fn of_keys() -> Vec<Row> {
    let row = |more: &str| {
        Row::config(&format!(
            "AuthorizedKeysCommand {{jail}}/list{more}\nAuthorizedKeysCommandUser nobody"
        ))
    };
    let alone = || row("").with("AuthorizedKeysFile none");
    let run_by = |test: &str| program(alone(), &format!("[ {test} ] && echo '{{key}}'"));
    let mut as_user = Row::config(
        "AuthorizedKeysCommand {jail}/list\nAuthorizedKeysCommandUser {user}\nAuthorizedKeysFile none",
    );
    as_user = program(as_user, &format!("[ $(id -u) = {UID} ] && echo '{{key}}'"));
    let mut no_user = Row::config(
        "AuthorizedKeysCommand {jail}/list\nAuthorizedKeysCommandUser nobody-at-all\nAuthorizedKeysFile none",
    );
    no_user = prints(no_user, "{key}");
    let changed = |name: &'static str, owner: u32, mode: u32| {
        prints(alone(), "{key}").mode(name, owner, mode)
    };
    vec![
        prints(alone(), "{key}"),
        prints(alone(), "{other}\n# a comment\n{key}"),
        prints(alone(), "{other}").refused(),
        prints(alone(), "no-pty {key}").no_pty(),
        prints(alone(), "restrict {key}").restricted(),
        prints(alone(), "command=\"{forced}\" {key}").forced(),
        prints(alone(), "command=\"\" {key}").empty_command(),
        prints(alone(), "permitopen=\"127.0.0.1:{a}\" {key}")
            .but("tcp", "A")
            .but("streamlocal", "no"),
        prints(alone(), "from=\"10.0.0.0/8\" {key}").refused(),
        prints(alone(), "expiry-time=\"20200101\" {key}").refused(),
        prints(alone(), "no-such-option {key}").refused(),
        prints(alone(), "from=\"10.0.0.0/8\" {key}\nno-pty {key}").no_pty(),
        prints(alone(), "restrict {key}\n{key}").restricted(),
        // The output of a program that fails is ignored.
        program(alone(), "echo '{key}'; exit 1").refused(),
        program(alone(), "echo '{key}'; kill -9 $$").refused(),
        // Its user, groups and argument.
        run_by("$(id -u) = $(id -u nobody)"),
        run_by("\"$(id -G)\" = \"$(id -G nobody)\""),
        run_by("$(id -u) = 0").refused(),
        run_by("$1 = {user}"),
        run_by("$# = 2").refused(),
        program(
            row(" %u %h %t").with("AuthorizedKeysFile none"),
            "[ \"$*\" = '{user} {home} ssh-ed25519' ] && echo '{key}'",
        ),
        as_user,
        no_user.refused(),
        // The files come first.
        prints(row(""), "restrict {key}"),
        prints(row(""), "{key}")
            .authorized("no-pty {key}\n")
            .no_pty(),
        prints(row(""), "no-pty {key}")
            .authorized("{other}\n")
            .no_pty(),
        prints(row(""), "no-pty {key}")
            .authorized("from=\"10.0.0.0/8\" {key}\n")
            .no_pty(),
        program(row(""), "exit 1"),
        // Others could have written it; StrictModes has no effect on this check.
        changed("jail/list", 0, 0o775).refused(),
        changed("jail/list", 0, 0o757).refused(),
        changed("jail/list", UID, 0o755).refused(),
        changed("jail", 0, 0o775).refused(),
        changed("jail", 0, 0o757).refused(),
        changed("jail", 0, 0o1777).refused(),
        changed("jail", UID, 0o755).refused(),
        changed("jail/list", 0, 0o644).refused(),
    ]
}

fn of_principals() -> Vec<Row> {
    let with = |arguments: &str, more: &str| {
        Row::certificate(&[])
            .with("AuthorizedKeysFile none\nTrustedUserCAKeys {here}/authority")
            .with(&format!(
                "AuthorizedPrincipalsCommand {{jail}}/list{arguments}\n\
                 AuthorizedPrincipalsCommandUser nobody\n{more}"
            ))
            .file("authority", "{ca}\n")
    };
    let alone = || with("", "AuthorizedPrincipalsFile none");
    let run_by = |test: &str| program(alone(), &format!("[ {test} ] && echo '{{user}}'"));
    let changed = |name: &'static str, owner: u32, mode: u32| {
        prints(alone(), "{user}").mode(name, owner, mode)
    };
    let beside_a_file = |line: &str| {
        prints(with("", "AuthorizedPrincipalsFile {here}/names"), line).file("names", "{user}\n")
    };
    vec![
        prints(alone(), "{user}"),
        prints(alone(), "other\n{user}"),
        prints(alone(), "other").refused(),
        prints(alone(), "").refused(),
        prints(alone(), "no-pty {user}").no_pty(),
        prints(alone(), "restrict {user}").restricted(),
        prints(alone(), "command=\"{forced}\" {user}").forced(),
        prints(alone(), "from=\"10.0.0.0/8\" {user}").refused(),
        prints(alone(), "no-such-option {user}").refused(),
        program(alone(), "echo '{user}'; exit 1").refused(),
        run_by("$(id -u) = $(id -u nobody)"),
        run_by("$(id -u) = 0").refused(),
        // Unlike the other it has no argument of its own.
        run_by("$# = 0"),
        program(
            with(" %u %i %T", "AuthorizedPrincipalsFile none"),
            "[ \"$*\" = '{user} row ssh-ed25519' ] && echo '{user}'",
        ),
        // The file comes first.
        beside_a_file("restrict {user}"),
        beside_a_file("other"),
        changed("jail/list", 0, 0o775).refused(),
        changed("jail/list", UID, 0o755).refused(),
        changed("jail", 0, 0o757).refused(),
        changed("jail", UID, 0o755).refused(),
    ]
}

fn not_started() -> Vec<Row> {
    vec![
        Row::config("AuthorizedKeysCommand list\nAuthorizedKeysCommandUser nobody").no_start(),
        Row::config("AuthorizedKeysCommand {jail}/list").no_start(),
        Row::config("AuthorizedPrincipalsCommand list\nAuthorizedPrincipalsCommandUser nobody")
            .no_start(),
        Row::config("AuthorizedPrincipalsCommand {jail}/list").no_start(),
    ]
}
