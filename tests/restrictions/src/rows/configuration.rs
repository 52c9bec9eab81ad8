//! Keywords of sshd_config. Those that are permitted in a Match block are also tried in one.

use crate::row::{Row, SESSIONS};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for row in [sessions(), environment(), forwarding()].concat() {
        rows.push(row.in_match());
        rows.push(row);
    }
    rows.extend(who());
    rows.extend(blocks());
    rows.extend(not_in_match());
    rows.extend(ours_alone());
    rows.extend(styles());
    rows
}

fn sessions() -> Vec<Row> {
    let jailed = |row: Row| {
        row.all_sessions("fails")
            .no_output()
            .but("subsystem", "jail")
            .but("streamlocal", "no")
            .but("remote-streamlocal", "no")
    };
    let mut one = Row::config("MaxSessions 1").but("second", "fails");
    one.with_second = true;
    let mut two = Row::config("MaxSessions 2").but("second", "own rc");
    two.with_second = true;
    vec![
        Row::config("ForceCommand {forced}").forced().no_user_rc(),
        Row::config("ForceCommand none"),
        // The quotes are the shell's: a command of an empty name.
        Row::config("ForceCommand \"\"")
            .all_sessions("fails sshrc")
            .but("subsystem", "fails sshrc")
            .no_output(),
        Row::config("ForceCommand true")
            .all_sessions("nothing sshrc")
            .but("subsystem", "nothing sshrc")
            .no_output(),
        Row::config("ForceCommand internal-sftp")
            .sftp_only()
            .no_user_rc(),
        Row::config("ForceCommand internal-sftp -R")
            .sftp_only()
            .no_user_rc()
            .but("subsystem", "home sshrc"),
        Row::config("ForceCommand {forced}")
            .authorized("command=\"true\" {key}\n")
            .forced()
            .no_user_rc(),
        Row::config("ForceCommand {forced}")
            .authorized("command=\"\" {key}\n")
            .forced()
            .no_user_rc(),
        Row::config("ForceCommand {forced}\nPermitTTY no")
            .forced()
            .no_user_rc()
            .no_pty(),
        jailed(Row::config("ChrootDirectory {jail}")),
        jailed(Row::config(
            "ChrootDirectory {jail}\nForceCommand internal-sftp",
        ))
        .all_sessions("sftp-only"),
        Row::config("ChrootDirectory {here}/jail").cut(),
        Row::config("PermitTTY no").no_pty(),
        Row::config("PermitUserRC no").no_user_rc(),
        Row::config("MaxSessions 0")
            .all_sessions("fails")
            .no_output()
            .but("subsystem", "fails"),
        one,
        two,
    ]
}

fn environment() -> Vec<Row> {
    vec![
        Row::config("AcceptEnv RESTRICT_CLIENT").but("env", "CLIENT"),
        Row::config("AcceptEnv RESTRICT_*").but("env", "CLIENT"),
        Row::config("AcceptEnv OTHER"),
        Row::config("SetEnv RESTRICT_SERVER=yes").but("env", "SERVER"),
    ]
}

fn forwarding() -> Vec<Row> {
    vec![
        Row::config("DisableForwarding yes").no_ports().no_agent(),
        Row::config("DisableForwarding yes\nX11Forwarding yes\nAllowTcpForwarding yes")
            .no_ports()
            .no_agent(),
        // It includes sockets.
        Row::config("AllowTcpForwarding no").no_ports(),
        Row::config("AllowTcpForwarding local").no_remote(),
        Row::config("AllowTcpForwarding remote").no_local(),
        Row::config("AllowStreamLocalForwarding no")
            .but("streamlocal", "no")
            .but("remote-streamlocal", "no"),
        Row::config("AllowStreamLocalForwarding local").but("remote-streamlocal", "no"),
        Row::config("AllowStreamLocalForwarding remote").but("streamlocal", "no"),
        Row::config("AllowAgentForwarding no").no_agent(),
        Row::config("X11Forwarding yes").but("x11", "yes"),
        Row::config("X11Forwarding no"),
        Row::config("GatewayPorts no"),
        Row::config("GatewayPorts yes").but("remote-tcp", "A* B*"),
        Row::config("GatewayPorts clientspecified").but("remote-tcp", "A B*"),
        Row::config("PermitOpen none").no_local(),
        Row::config("PermitOpen any"),
        Row::config("PermitOpen 127.0.0.1:{a}")
            .no_local()
            .but("tcp", "A"),
        Row::config("PermitOpen *:{a}").no_local().but("tcp", "A"),
        Row::config("PermitOpen 127.0.0.1:*")
            .but("streamlocal", "no")
            .datagrams("none", "A B"),
        Row::config("PermitOpen localhost:{a}").no_local(),
        Row::config("PermitListen none").but("remote-tcp", "none"),
        Row::config("PermitListen any"),
        Row::config("PermitListen {la}").but("remote-tcp", "A"),
        Row::config("PermitListen localhost:{la}").but("remote-tcp", "A"),
        Row::config("PermitListen *:{lb}").but("remote-tcp", "B"),
    ]
}

fn who() -> Vec<Row> {
    let mut rsa = Row::config("RequiredRSASize 2048");
    rsa.identity = "user_rsa";
    let mut small = Row::config("RequiredRSASize 3072").refused();
    small.identity = "user_rsa";
    let rows = vec![
        rsa,
        small,
        Row::config("RequiredRSASize 3072").named("another type"),
        Row::config("PubkeyAuthentication no").refused(),
        Row::config("PubkeyAcceptedAlgorithms rsa-sha2-512").refused(),
        Row::config("AuthenticationMethods publickey"),
        Row::config("AuthenticationMethods any"),
        Row::config("AuthenticationMethods publickey,password")
            .with("PasswordAuthentication yes")
            .refused(),
        Row::config("AuthenticationMethods publickey,publickey").refused(),
        Row::config("AuthorizedKeysFile none").refused(),
        Row::config("RevokedKeys {here}/revoked")
            .file("revoked", "{key}\n")
            .refused(),
        Row::config("RevokedKeys {here}/revoked").file("revoked", "{other}\n"),
        Row::config("RevokedKeys {here}/missing").refused(),
        Row::config("RevokedKeys {here}/revoked").file("revoked", ""),
        Row::config("RevokedKeys {here}/revoked")
            .file("revoked", "garbage\n")
            .refused(),
        Row::config("AllowUsers {user}"),
        Row::config("AllowUsers other {user}"),
        Row::config("AllowUsers other").refused(),
        Row::config("AllowUsers {user}@127.0.0.0/8"),
        Row::config("AllowUsers {user}@127.0.0.1"),
        Row::config("AllowUsers {user}@10.0.0.0/8").refused(),
        // Each pattern is separate.
        Row::config("AllowUsers !{user} *"),
        Row::config("DenyUsers {user}").refused(),
        Row::config("DenyUsers other"),
        Row::config("DenyUsers *").refused(),
        Row::config("DenyUsers {user}@127.0.0.0/8").refused(),
        Row::config("DenyUsers {user}@10.0.0.0/8"),
        Row::config("AllowUsers {user}\nDenyUsers {user}").refused(),
        Row::config("AllowGroups {user}"),
        Row::config("AllowGroups {group}"),
        Row::config("AllowGroups other").refused(),
        Row::config("AllowGroups !{group} {user}"),
        Row::config("DenyGroups {group}").refused(),
        Row::config("DenyGroups {user}").refused(),
        Row::config("DenyGroups other"),
        Row::config("AllowUsers {user}\nDenyGroups {group}").refused(),
        Row::config("AllowUsers {user}\nAllowGroups other").refused(),
    ];
    let in_match = rows.iter().map(Row::in_match).collect();
    [rows, in_match].concat()
}

/// Whether a block applies, detected by the refusal of a terminal.
fn blocks() -> Vec<Row> {
    let block = |criteria: &str| {
        let mut row = Row::new(format!("sshd_config: Match {criteria}"));
        row.blocks = format!("Match {criteria}\nPermitTTY no\n");
        row
    };
    vec![
        block("all").no_pty(),
        block("User {user}").no_pty(),
        block("User other"),
        block("User !{user},*"),
        block("User other,{user}").no_pty(),
        block("Group {group}").no_pty(),
        block("Group {user}").no_pty(),
        block("Group other"),
        block("Address 127.0.0.1").no_pty(),
        block("Address 127.0.0.0/8").no_pty(),
        block("Address 127.0/8").no_pty(),
        block("Address 127.1").no_pty(),
        block("Address 10.0.0.0/8"),
        block("Address !10.0.0.0/8,*").no_pty(),
        block("Address ::ffff:127.0.0.1"),
        block("Address ::ffff:0:0/96"),
        block("Address 127.0.0.1/8").no_start(),
        block("Address 127.0.0.0/33").no_start(),
        block("LocalAddress 127.0.0.1").no_pty(),
        block("LocalAddress 10.0.0.1"),
        block("User {user} Address 10.0.0.0/8"),
        block("User {user} Address 127.0.0.0/8").no_pty(),
        block("Host 127.0.0.1").no_pty(),
        // The first matching block decides.
        {
            let mut row = Row::new("sshd_config: two blocks");
            row.blocks =
                "Match User {user}\nPermitTTY yes\nMatch all\nPermitTTY no\nPermitUserRC no\n"
                    .into();
            row.no_user_rc()
        },
    ]
}

fn not_in_match() -> Vec<Row> {
    let tunnel = |row: Row, outcome: &str| {
        let mut row = row.root().but("tunnel", outcome);
        row.with_tunnel = true;
        row
    };
    let external = "Subsystem sftp /usr/lib/openssh/sftp-server";
    let mut missing = Row::new("sshd_config: Subsystem whose program is missing");
    missing.first = "Subsystem sftp /nonexistent/program\n".into();
    let mut twice = Row::new("sshd_config: two subsystems of one name").no_start();
    twice.first = format!("{external}\nSubsystem sftp internal-sftp\n");
    vec![
        Row::config("PermitUserEnvironment no"),
        Row::config("PermitUserEnvironment yes").but("env", "FILE"),
        Row::config("PermitUserEnvironment RESTRICT_F*").but("env", "FILE"),
        Row::config("PermitUserEnvironment OTHER"),
        Row::config("PermitUserEnvironment TRUE"),
        Row::config("PermitOpen *").no_start(),
        Row::config("PermitOpen 127.0.0.1").no_start(),
        Row::config("PermitTunnel maybe").no_start(),
        Row::config("ForceCommand").no_start(),
        Row::config("AllowTcpForwarding maybe").no_start(),
        Row::config("AuthenticationMethods nothing").no_start(),
        tunnel(Row::config("PermitTunnel no"), "no"),
        tunnel(Row::config("PermitTunnel yes"), "yes"),
        tunnel(Row::config("PermitTunnel point-to-point"), "yes"),
        tunnel(Row::config("PermitTunnel ethernet"), "no"),
        tunnel(
            Row::config("PermitTunnel yes\nDisableForwarding yes"),
            "yes",
        )
        .no_ports()
        .no_agent(),
        tunnel(
            Row::config("PermitTunnel yes")
                .authorized("restrict {key}\n")
                .restricted(),
            "yes",
        ),
        // Given back by name.
        tunnel(
            Row::config("PermitTunnel yes")
                .authorized("restrict,tunnel=\"any\" {key}\n")
                .restricted(),
            "yes",
        ),
        tunnel(
            Row::config("PermitTunnel yes")
                .authorized("no-port-forwarding {key}\n")
                .no_ports(),
            "yes",
        ),
        Row::config(external),
        Row::config("Subsystem sftp internal-sftp -R").but("subsystem", "home sshrc"),
        missing.but("subsystem", "fails sshrc"),
        twice,
    ]
}

/// Keywords that Debian 12's OpenSSH does not have.
fn ours_alone() -> Vec<Row> {
    let alone = |mut row: Row| {
        row.is_ours_alone = true;
        row
    };
    vec![
        alone(
            Row::config("SftpRoot {jail}\nX11Forwarding yes")
                .but("subsystem", "jail sshrc")
                .but("agent", "no")
                .but("streamlocal", "no")
                .but("remote-streamlocal", "no"),
        ),
        alone(
            Row::config("SftpRoot {jail}\nForceCommand internal-sftp")
                .sftp_only()
                .no_user_rc()
                .but("subsystem", "jail sshrc")
                .but("streamlocal", "no")
                .but("remote-streamlocal", "no"),
        ),
        alone(
            Row::config("SftpRoot {jail}")
                .authorized("command=\"internal-sftp\" {key}\n")
                .sftp_only()
                .but("subsystem", "jail sshrc")
                .but("streamlocal", "no")
                .but("remote-streamlocal", "no"),
        ),
        alone(
            Row::config("PermitOpen udp/127.0.0.1:{a} 127.0.0.1:{b}")
                .no_local()
                .but("tcp", "B")
                .datagrams("A", "A B"),
        ),
        alone(
            Row::config("PermitListen udp/{la} localhost:{lb}")
                .but("remote-tcp", "none")
                .datagrams("A B", "A"),
        ),
        alone(
            Row::config("AllowStreamLocalForwarding no")
                .but("streamlocal", "no")
                .but("remote-streamlocal", "no")
                .datagrams("A B", "A B")
                .named("and datagrams"),
        ),
        alone(
            Row::config("SftpRoot {jail}")
                .but("subsystem", "jail sshrc")
                .but("agent", "no")
                .but("streamlocal", "no")
                .but("remote-streamlocal", "no")
                .datagrams("A B", "A B"),
        ),
        alone(Row::config("RefuseConnection yes").refused()),
        alone(refusing("User {user}").refused()),
        alone(refusing("Group {group}").refused()),
        alone(refusing("Address 127.0.0.1").refused()),
        alone(refusing("User other")),
        alone(refusing("Group other")),
        alone(many_files("{key}\n", "{other}\n")),
        alone(many_files("{other}\n", "restrict {key}\n").restricted()),
        // The first matching line is used, in the order of the files' names.
        alone(many_files("no-pty {key}\n", "{key}\n").no_pty()),
        alone(many_files("from=\"10.0.0.0/8\" {key}\n", "no-pty {key}\n").no_pty()),
        alone(many_files("{other}\n", "").refused()),
        alone(many_files("{key}\n", "{other}\n").in_match()),
        alone(Row::config("AuthorizedKeysFile {here}/none.*").refused()),
    ]
}

/// Two files that match a pattern.
fn many_files(first: &str, second: &str) -> Row {
    Row::config("AuthorizedKeysFile {here}/keys.?")
        .file("keys.a", first)
        .file("keys.b", second)
}

/// `user:style`: the style has no effect here.
fn styles() -> Vec<Row> {
    let styled = |mut row: Row| {
        row.style = ":style";
        row.named("with a style")
    };
    vec![
        styled(Row::new("user")),
        styled(Row::config("AllowUsers {user}")),
        styled(Row::config("AllowUsers {user}:style").refused()),
        styled(Row::config("DenyUsers {user}").refused()),
        styled(Row::config("DenyUsers *:style")),
        styled(Row::config("ForceCommand {forced}").forced().no_user_rc()).in_match(),
        styled(Row::config("PermitRootLogin no").refused().root()),
        styled(Row::key("restrict").restricted()),
    ]
}

fn refusing(criteria: &str) -> Row {
    let mut row = Row::new(format!(
        "sshd_config: RefuseConnection yes (in Match {criteria})"
    ));
    row.blocks = format!("Match {criteria}\nRefuseConnection yes\n");
    row
}

impl Row {
    /// The outcome of every session except the subsystem.
    #[must_use]
    pub(super) fn all_sessions(mut self, outcome: &str) -> Self {
        for probe in SESSIONS {
            self.expected.insert(probe, outcome.to_owned());
        }
        self
    }
}
