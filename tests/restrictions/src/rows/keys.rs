//! Options of authorized_keys.

use keys::Permission;

use crate::row::{Row, X11};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row::new("nothing restricted").datagrams("A B", "A B"),
        Row::new("nothing restricted, X11")
            .with(X11)
            .but("x11", "yes"),
    ];
    rows.extend(permissions());
    rows.extend(commands());
    rows.extend(environment());
    rows.extend(origins());
    rows.extend(ports());
    rows.extend(datagrams());
    rows.extend(of_authorities());
    rows.extend(faulty());
    rows
}

/// Each permission alone: taken from an unrestricted key, and given back after `restrict`.
fn permissions() -> Vec<Row> {
    let restrict = |options: &str| Row::key(options).restricted();
    let mut rows = vec![
        restrict("restrict"),
        restrict("RESTRICT"),
        restrict("pty,restrict"),
        restrict("restrict").with(X11),
        Row::key("no-touch-required"),
        Row::key("verify-required"),
    ];
    for permission in Permission::ALL {
        let option = permission.option();
        rows.push(Row::key(&format!("restrict,{option}")).of_one(*permission));
        rows.push(Row::key(&format!("no-{option}")).without(*permission));
    }
    rows
}

fn commands() -> Vec<Row> {
    vec![
        Row::key(r#"command="{forced}""#).forced(),
        Row::key(r#"no-pty,command="{forced}""#).forced().no_pty(),
        Row::key(r#"restrict,command="{forced}""#)
            .forced()
            .restricted(),
        Row::key(r#"restrict,pty,command="{forced}""#)
            .forced()
            .no_user_rc()
            .no_ports()
            .no_agent(),
        Row::key(r#"command="""#).empty_command(),
        Row::key(r#"restrict,command="""#)
            .empty_command()
            .no_user_rc()
            .no_ports(),
        Row::key(r#"command="internal-sftp""#).sftp_only(),
        Row::key(r#"restrict,command="internal-sftp""#)
            .sftp_only()
            .no_user_rc()
            .no_ports(),
        Row::key(r#"command="internal-sftp -R""#)
            .sftp_only()
            .but("subsystem", "home sshrc"),
        Row::key(r#"command="/usr/lib/openssh/sftp-server""#)
            .no_output()
            .but("shell", "sftp rc")
            .but("pty", "fails rc")
            .but("exec", "sftp rc")
            .but("internal-sftp", "sftp rc"),
        Row::key(r#"command="{forced}",command="{forced}""#).refused(),
        Row::key("command={forced}").refused(),
        Row::key("command").refused(),
    ]
}

fn environment() -> Vec<Row> {
    let option = r#"environment="RESTRICT_KEY=yes""#;
    vec![
        Row::key(option),
        Row::key(option).with("PermitUserEnvironment no"),
        Row::key(option)
            .with("PermitUserEnvironment yes")
            .but("env", "KEY FILE"),
        Row::key(option)
            .with("PermitUserEnvironment RESTRICT_K*")
            .but("env", "KEY"),
        Row::key(&format!("restrict,{option}"))
            .with("PermitUserEnvironment yes")
            .restricted()
            .but("env", "KEY FILE"),
        Row::key(r#"environment="RESTRICT KEY=yes""#).refused(),
        Row::key(r#"environment="RESTRICT_KEY""#).refused(),
    ]
}

fn origins() -> Vec<Row> {
    let yes = |patterns: &str| Row::key(&format!("from=\"{patterns}\""));
    let no = |patterns: &str| yes(patterns).refused();
    vec![
        yes("127.0.0.1"),
        yes("127.0.0.0/8"),
        yes("10.0.0.0/8,127.*"),
        no("10.0.0.0/8"),
        no("!127.0.0.1,*"),
        no("!127.0.0.0/8,*"),
        no("*.example.org"),
        no("::ffff:127.0.0.1"),
        no("::ffff:0:0/96"),
        no("127.0.0.1/99"),
        no("127.0.0.1/8"),
        no(""),
        Row::key(r#"expiry-time="20400101""#),
        Row::key(r#"expiry-time="20200101""#).refused(),
        Row::key(r#"expiry-time="202001010000Z""#).refused(),
        Row::key(r#"expiry-time="never""#).refused(),
    ]
}

fn ports() -> Vec<Row> {
    // A list of ports contains no sockets.
    let open = |option: &str| Row::key(option).but("streamlocal", "no");
    let at = |mut row: Row, host: &'static str| {
        row.host = host;
        row.named(&format!("asked as {host}"))
    };
    vec![
        open(r#"permitopen="127.0.0.1:{a}""#).but("tcp", "A"),
        open(r#"permitopen="127.0.0.1:*""#).datagrams("none", "A B"),
        open(r#"permitopen="*:{a}""#).but("tcp", "A"),
        open(r#"permitopen="localhost:{a}""#).but("tcp", "none"),
        at(
            open(r#"permitopen="localhost:{a}""#).but("tcp", "A"),
            "localhost",
        ),
        at(
            open(r#"permitopen="localhost:{a}""#).but("tcp", "none"),
            "LOCALHOST",
        ),
        open(r#"permitopen="127.0.0.1:{a}",permitopen="127.0.0.1:{b}""#).datagrams("none", "A B"),
        Row::key(r#"restrict,permitopen="127.0.0.1:{a}""#).restricted(),
        Row::key(r#"restrict,port-forwarding,permitopen="127.0.0.1:{a}""#)
            .no_pty()
            .no_user_rc()
            .no_agent()
            .but("tcp", "A")
            .but("streamlocal", "no"),
        open(r#"permitopen="127.0.0.1:{a}""#)
            .with("PermitOpen 127.0.0.1:{b}")
            .but("tcp", "none"),
        Row::key(r#"permitopen="127.0.0.1:0""#).refused(),
        Row::key(r#"permitopen="*:0""#).refused(),
        Row::key(r#"permitopen="127.0.0.1""#).refused(),
        Row::key(r#"permitopen="127.0.0.1:99999""#).refused(),
        Row::key(r#"permitlisten="{la}""#).but("remote-tcp", "A"),
        Row::key(r#"permitlisten="localhost:{la}""#).but("remote-tcp", "A"),
        Row::key(r#"permitlisten="127.0.0.1:{la}""#).but("remote-tcp", "none"),
        Row::key(r#"permitlisten="*:{lb}""#).but("remote-tcp", "B"),
        Row::key(r#"restrict,permitlisten="{la}""#).restricted(),
        Row::key(r#"permitlisten="*:0""#).refused(),
        Row::key(r#"permitlisten="127.0.0.1:0""#).refused(),
        Row::key(r#"tunnel="0""#),
        Row::key(r#"tunnel="none""#).refused(),
    ]
}

/// Lists that name datagrams, which OpenSSH takes for malformed.
fn datagrams() -> Vec<Row> {
    let ours = |option: &str| {
        let mut row = Row::key(option);
        row.is_ours_alone = true;
        row
    };
    let open = |option: &str| ours(option).but("streamlocal", "no");
    vec![
        open(r#"permitopen="udp/127.0.0.1:{a}""#)
            .but("tcp", "none")
            .datagrams("A", "A B"),
        open(r#"permitopen="udp/*:{b}",permitopen="127.0.0.1:{a}""#)
            .but("tcp", "A")
            .datagrams("B", "A B"),
        open(r#"permitopen="udp/localhost:{a}""#)
            .but("tcp", "none")
            .datagrams("none", "A B"),
        open(r#"permitopen="udp/127.0.0.1:{a}""#)
            .with("PermitOpen 127.0.0.1:{a}")
            .but("tcp", "none")
            .datagrams("none", "A B"),
        ours(r#"restrict,permitopen="udp/127.0.0.1:{a}""#)
            .restricted()
            .datagrams("none", "none"),
        ours(r#"permitlisten="udp/{la}""#)
            .but("remote-tcp", "none")
            .datagrams("A B", "A"),
        ours(r#"permitlisten="udp/*:{lb}",permitlisten="{la}""#)
            .but("remote-tcp", "A")
            .datagrams("A B", "B"),
        ours(r#"permitopen="udp/127.0.0.1:0""#).refused(),
        ours(r#"permitlisten="udp/localhost""#).refused(),
    ]
}

fn of_authorities() -> Vec<Row> {
    vec![
        Row::key("cert-authority").refused(),
        Row::key(r#"principals="{user}""#).refused(),
        Row::key(r#"principals="other""#).refused(),
        Row::key(r#"restrict,principals="{user}""#).refused(),
    ]
}

fn faulty() -> Vec<Row> {
    vec![
        Row::key("no-such-option").refused(),
        Row::key(r#"no-such-option="1""#).refused(),
        Row::key("restrict,no-such-option").refused(),
        Row::key("no-pty, no-user-rc").refused(),
        Row::key(r#"command="{forced}"#).refused(),
        Row::key("no-pty=yes").refused(),
        Row::new("lines")
            .authorized("no-such-option {key}\nno-pty {key}\n")
            .no_pty(),
        Row::new("lines")
            .authorized("no-pty {key}\n{key}\n")
            .no_pty(),
        Row::new("lines")
            .authorized("from=\"10.0.0.0/8\" {key}\nno-pty {key}\n")
            .no_pty(),
        Row::new("lines").authorized("# {key}\n").refused(),
        Row::new("lines").authorized("{other}\n").refused(),
    ]
}
