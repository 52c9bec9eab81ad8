//! Options, extensions and names of certificates, and the options of the authority's line.

use keys::Permission;

use crate::row::Row;

const TRUSTED: &str = "AuthorizedKeysFile none\nTrustedUserCAKeys {here}/authority";

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![Row::certificate(&[])];
    rows.extend(extensions());
    rows.extend(tunnels());
    rows.extend(commands());
    rows.extend(critical());
    rows.extend(names_and_times());
    rows.extend(lines_of_authorities());
    rows.extend(trusted());
    rows
}

/// Each permission alone: taken from the default certificate, and given to one without extensions.
fn extensions() -> Vec<Row> {
    let mut rows = vec![
        Row::certificate(&["clear"]).restricted(),
        Row::certificate(&["no-touch-required"]),
        Row::certificate(&["extension:unknown@example.org"]),
        Row::certificate(&["extension:unknown@example.org=1"]),
        Row::certificate(&["clear", "extension:permit-pty=x"]).refused(),
        Row::certificate(&["extension:permit-user-rc=x", "no-user-rc"]).refused(),
    ];
    for permission in Permission::ALL {
        let without: &str = format!("no-{}", permission.option().to_lowercase()).leak();
        rows.push(Row::certificate(&["clear", permission.extension()]).of_one(*permission));
        rows.push(Row::certificate(&[without]).without(*permission));
    }
    rows
}

fn tunnels() -> Vec<Row> {
    let tunnel = |row: Row| {
        let mut row = row.with("PermitTunnel yes").root().but("tunnel", "yes");
        row.with_tunnel = true;
        row
    };
    vec![
        tunnel(Row::certificate(&[])),
        tunnel(Row::certificate(&["clear"]).restricted()),
        tunnel(
            Row::certificate(&["no-port-forwarding"])
                .authorized("cert-authority,tunnel=\"any\" {ca}\n")
                .no_ports(),
        ),
    ]
}

fn commands() -> Vec<Row> {
    let force = "force-command={forced}";
    vec![
        Row::certificate(&[force]).forced(),
        Row::certificate(&["clear", force]).forced().restricted(),
        Row::certificate(&["clear", "permit-pty", force])
            .forced()
            .no_user_rc()
            .no_ports()
            .no_agent(),
        Row::certificate(&["critical:force-command="]).empty_command(),
        Row::certificate(&["force-command=internal-sftp"]).sftp_only(),
        Row::certificate(&["critical:force-command"]).refused(),
        Row::certificate(&[force])
            .authorized("cert-authority,command=\"{forced}\" {ca}\n")
            .forced(),
        Row::certificate(&[force])
            .authorized("cert-authority,command=\"true\" {ca}\n")
            .refused(),
        Row::certificate(&[force])
            .authorized("cert-authority,command=\"\" {ca}\n")
            .refused(),
        Row::certificate(&["critical:force-command="])
            .authorized("cert-authority,command=\"true\" {ca}\n")
            .refused(),
        Row::certificate(&[force])
            .with("ForceCommand true")
            .but("subsystem", "nothing sshrc")
            .no_output()
            .all_sessions("nothing sshrc"),
    ]
}

fn critical() -> Vec<Row> {
    vec![
        Row::certificate(&["source-address=127.0.0.1/32"]),
        Row::certificate(&["source-address=127.0.0.0/8"]),
        Row::certificate(&["source-address=10.0.0.0/8"]).refused(),
        Row::certificate(&["source-address=::ffff:127.0.0.1/128"]).refused(),
        Row::certificate(&["critical:source-address=127.*"]).refused(),
        Row::certificate(&["critical:source-address="]).refused(),
        Row::certificate(&["source-address=127.0.0.1/32"])
            .authorized("cert-authority,from=\"10.0.0.0/8\" {ca}\n")
            .refused(),
        Row::certificate(&["verify-required"]),
        Row::certificate(&["critical:unknown@example.org"]).refused(),
        Row::certificate(&["critical:unknown@example.org=1"]).refused(),
        Row::certificate(&["critical:permit-pty"]).refused(),
        Row::certificate(&["extension:force-command={forced}"]),
    ]
}

fn names_and_times() -> Vec<Row> {
    let changed = |name: &str, principals: Option<&'static str>, validity: Option<&'static str>| {
        let mut row = Row::certificate(&[]).named(name);
        if let Some(certificate) = &mut row.certificate {
            certificate.principals = principals;
            certificate.validity = validity;
        }
        row
    };
    let user = Some("{user}");
    let mut host = changed("host certificate", user, None).refused();
    if let Some(certificate) = &mut host.certificate {
        certificate.is_host = true;
        certificate.options.clear();
    }
    vec![
        host,
        changed("valid", user, Some("20200101:20400101")),
        changed("expired", user, Some("20200101:20210101")).refused(),
        changed("not yet valid", user, Some("20390101:20400101")).refused(),
        changed("several names", Some("other,{user}"), None),
        changed("wrong name", Some("other"), None).refused(),
        changed("pattern as name", Some("*"), None).refused(),
        // Named explicitly by principals=, whose default is the user's own name.
        changed("role", Some("role"), None).authorized("cert-authority,principals=\"role\" {ca}\n"),
        changed("role of many", Some("role"), None)
            .authorized("cert-authority,principals=\"x,role\" {ca}\n"),
        changed("other role", Some("other"), None)
            .authorized("cert-authority,principals=\"role\" {ca}\n")
            .refused(),
        changed("user's name and a role", user, None)
            .authorized("cert-authority,principals=\"role\" {ca}\n")
            .refused(),
        changed("no names", None, None),
        changed("no names, role", None, None)
            .authorized("cert-authority,principals=\"role\" {ca}\n")
            .refused(),
        changed("no names, trusted", None, None)
            .with(TRUSTED)
            .file("authority", "{ca}\n")
            .refused(),
    ]
}

fn lines_of_authorities() -> Vec<Row> {
    let by = |options: &str| {
        Row::certificate(&[]).authorized(&format!("cert-authority,{options} {{ca}}\n"))
    };
    vec![
        by("no-pty").no_pty(),
        by("restrict").restricted(),
        by("restrict,pty").no_user_rc().no_ports().no_agent(),
        by("command=\"{forced}\"").forced(),
        by("command=\"\"").empty_command(),
        by("from=\"10.0.0.0/8\"").refused(),
        by("expiry-time=\"20200101\"").refused(),
        by("permitopen=\"127.0.0.1:{a}\"")
            .but("tcp", "A")
            .but("streamlocal", "no"),
        by("no-such-option").refused(),
        Row::certificate(&["clear"])
            .authorized("cert-authority,pty,user-rc,port-forwarding {ca}\n")
            .restricted(),
        Row::certificate(&[]).authorized("{ca}\n").refused(),
        Row::certificate(&[])
            .with("CASignatureAlgorithms rsa-sha2-512")
            .refused(),
        Row::certificate(&[])
            .with("PubkeyAcceptedAlgorithms ssh-ed25519")
            .refused(),
        Row::certificate(&[])
            .with("RevokedKeys {here}/revoked")
            .file("revoked", "{ca}\n")
            .refused(),
        Row::certificate(&[])
            .with("RevokedKeys {here}/revoked")
            .file("revoked", "{key}\n")
            .refused(),
    ]
}

fn trusted() -> Vec<Row> {
    let trusted = || Row::certificate(&[]).with(TRUSTED);
    let principals = |lines: &str| {
        let row = trusted().file("authority", "{ca}\n");
        row.with("AuthorizedPrincipalsFile {here}/names")
            .file("names", lines)
    };
    vec![
        trusted().file("authority", "{ca}\n"),
        trusted().file("authority", "{other}\n{ca}\n"),
        trusted().file("authority", "# a comment\n\n{ca}\n"),
        trusted().file("authority", "{other}\n").refused(),
        trusted().file("authority", "garbage\n{ca}\n").refused(),
        trusted().file("authority", "restrict {ca}\n").refused(),
        trusted().refused(),
        principals("{user}\n"),
        principals("other\n{user}\n"),
        principals("other\n").refused(),
        principals("").refused(),
        trusted()
            .file("authority", "{ca}\n")
            .with("AuthorizedPrincipalsFile {here}/none")
            .refused(),
        principals("no-pty {user}\n").no_pty(),
        principals("restrict {user}\n").restricted(),
        principals("command=\"{forced}\" {user}\n").forced(),
        principals("command=\"\" {user}\n").empty_command(),
        principals("from=\"10.0.0.0/8\" {user}\n").refused(),
        principals("no-such-option {user}\n").refused(),
        principals("principals=\"x\" {user}\n").refused(),
        principals("cert-authority {user}\n").refused(),
        principals("{user}\r\n").refused(),
    ]
}
