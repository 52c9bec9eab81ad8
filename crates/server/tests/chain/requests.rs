//! Requests that OpenSSH's client does not make, or not in this order.

use proto::Event;
use proto::channel::Request;
use wire::Put;

use crate::Test;
use crate::client::Client;
use crate::fake_monitor::{Policy, Server};
use crate::peer::Marker;

pub const TESTS: &[Test] = &[
    ("status_then_eof_then_close", status_then_eof_then_close),
    (
        "a_client_that_closes_early_still_hears_the_status",
        a_client_that_closes_early_still_hears_the_status,
    ),
    (
        "a_channel_has_one_command_and_one_terminal",
        a_channel_has_one_command_and_one_terminal,
    ),
    (
        "a_window_of_any_size_is_taken",
        a_window_of_any_size_is_taken,
    ),
    (
        "signals_reach_the_command_unless_it_is_forced",
        signals_reach_the_command,
    ),
    (
        "data_before_a_command_is_for_nobody",
        data_before_a_command_is_for_nobody,
    ),
    (
        "data_with_the_request_reaches_the_command",
        data_with_the_request_reaches_the_command,
    ),
    (
        "forwardings_that_are_not_served_are_refused",
        forwardings_that_are_not_served_are_refused,
    ),
    (
        "no_session_after_the_last_one",
        no_session_after_the_last_one,
    ),
    (
        "sessions_are_counted_with_what_still_runs",
        sessions_are_counted_with_what_still_runs,
    ),
    (
        "malformed_terminal_modes_change_nothing",
        malformed_terminal_modes_change_nothing,
    ),
    (
        "many_refused_channels_leave_nothing_behind",
        many_refused_channels_leave_nothing_behind,
    ),
    (
        "a_client_that_reads_nothing_stops_the_command",
        a_client_that_reads_nothing_stops_the_command,
    ),
];

fn start(change: impl FnOnce(&mut Policy)) -> Server {
    let mut policy = Policy::new("/", Vec::new());
    change(&mut policy);
    Server::start(policy)
}

fn logged_in(change: impl FnOnce(&mut Policy)) -> (Server, Client) {
    let server = start(change);
    let client = Client::login(&server);
    (server, client)
}

fn exec(command: &str) -> Request {
    Request::Exec {
        command: command.as_bytes().to_vec(),
    }
}

fn pty(columns: u32, rows: u32, modes: &[u8]) -> Request {
    Request::Pty {
        term: b"vt100".to_vec(),
        columns,
        rows,
        width_px: 0,
        height_px: 0,
        modes: modes.to_vec(),
    }
}

fn status_then_eof_then_close() {
    let (_server, mut client) = logged_in(|_| {});
    for (command, status, signal) in [
        ("printf x; exit 3", Some(3), None),
        ("printf x; exec 1>&- 2>&-; exit 4", Some(4), None),
        ("printf x; kill -KILL $$", None, Some("KILL")),
        (
            "(exec >&-; exec 2>&-; read x) < /dev/null & printf x; exit 5",
            Some(5),
            None,
        ),
    ] {
        for terminal in [false, true] {
            let channel = client.session();
            if terminal {
                assert!(client.ask(channel, &pty(80, 24, &[])));
            }
            assert!(client.ask(channel, &exec(command)));
            let outcome = client.finish(channel);
            assert_eq!(outcome.output, b"x", "{command}: {outcome:?}");
            assert_eq!(
                (outcome.status, outcome.signal.as_deref()),
                (status, signal),
                "{command}"
            );
            assert!(outcome.in_order, "{command} {terminal}: {outcome:?}");
        }
    }
}

fn a_client_that_closes_early_still_hears_the_status() {
    let (_server, mut client) = logged_in(|_| {});
    // The output is over, the command is not: its input keeps it for as long as we want.
    let channel = client.session();
    let marker = Marker::new("closed");
    let command = format!("exec 1>&- 2>&-; : > {marker}; read x; exit 13");
    assert!(client.ask(channel, &exec(&command)));
    while !marker.path.exists() {
        std::thread::yield_now();
    }
    drop(marker);
    // Both outputs have ended once a later request is answered.
    assert!(!client.ask(channel, &Request::Break { ms: 1 }));
    client.send(channel, b"\n");
    client.close(channel);
    assert_eq!(client.finish(channel).status, Some(13));
    // Neither is over: the channel ends at once, and the command goes on without it.
    let channel = client.session();
    assert!(client.ask(channel, &exec("echo ready; sleep 10")));
    client.wait_output("ready");
    client.close(channel);
    client.finish_close(channel);
}

fn a_channel_has_one_command_and_one_terminal() {
    let (_server, mut client) =
        logged_in(|policy| policy.config = "AcceptEnv *\nSubsystem s true\n".into());
    let channel = client.session();
    assert!(!client.ask(
        channel,
        &Request::WindowChange {
            columns: 1,
            rows: 1,
            width_px: 0,
            height_px: 0
        }
    ));
    assert!(!client.ask(channel, &Request::Break { ms: 1 }));
    assert!(!client.ask(
        channel,
        &Request::Signal {
            name: "TERM".into()
        }
    ));
    assert!(!client.ask(channel, &Request::ExitStatus { status: 0 }));
    assert!(!client.ask(
        channel,
        &Request::Unknown {
            name: "x".into(),
            fields: vec![1, 2, 3]
        }
    ));
    assert!(!client.ask(channel, &exec("a\0b")));
    assert!(client.ask(channel, &pty(80, 24, &[])));
    assert!(!client.ask(channel, &pty(80, 24, &[])));
    assert!(client.ask(channel, &Request::Break { ms: 1 }));
    assert!(client.ask(channel, &exec("read x; exit 5")));
    assert!(!client.ask(channel, &exec("true")));
    assert!(!client.ask(channel, &Request::Shell));
    assert!(!client.ask(
        channel,
        &Request::Subsystem {
            name: b"s".to_vec()
        }
    ));
    assert!(!client.ask(channel, &pty(80, 24, &[])));
    assert!(!client.ask(
        channel,
        &Request::Env {
            name: b"A".to_vec(),
            value: b"1".to_vec()
        }
    ));
    client.send(channel, b"\n");
    assert_eq!(client.finish(channel).status, Some(5));
}

fn a_window_of_any_size_is_taken() {
    let (_server, mut client) = logged_in(|_| {});
    let channel = client.session();
    assert!(client.ask(channel, &pty(u32::MAX, 0, &[])));
    assert!(client.ask(channel, &exec("stty size; read x; stty size")));
    client.wait_output("65535");
    let huge = Request::WindowChange {
        columns: u32::MAX,
        rows: u32::MAX,
        width_px: u32::MAX,
        height_px: 1,
    };
    assert!(client.ask(channel, &huge));
    client.send(channel, b"\n");
    let outcome = client.finish(channel);
    let said = String::from_utf8_lossy(&outcome.output).into_owned();
    assert!(said.contains("65535 65535"), "{said}");
}

fn signals_reach_the_command() {
    let (_server, mut client) = logged_in(|_| {});
    let channel = client.session();
    assert!(client.ask(
        channel,
        &exec("trap 'echo got it; exit 6' USR1; echo ready; read x; sleep 100")
    ));
    client.wait_output("ready");
    for name in ["STOP", "SIGTERM", "RTMIN", "", "9", "INFO@x"] {
        assert!(
            !client.ask(channel, &Request::Signal { name: name.into() }),
            "{name}"
        );
    }
    assert!(client.ask(
        channel,
        &Request::Signal {
            name: "USR1".into()
        }
    ));
    assert_eq!(client.finish(channel).status, Some(6));
    let (_server, mut client) =
        logged_in(|policy| policy.forced_command = Some("echo ready; read x; exit 7".into()));
    let channel = client.session();
    assert!(client.ask(channel, &Request::Shell));
    client.wait_output("ready");
    assert!(!client.ask(
        channel,
        &Request::Signal {
            name: "KILL".into()
        }
    ));
    client.send(channel, b"\n");
    assert_eq!(client.finish(channel).status, Some(7));
}

fn data_before_a_command_is_for_nobody() {
    let (_server, mut client) = logged_in(|_| {});
    let channel = client.session();
    client.send(channel, b"early\n");
    assert!(
        !client.ask(channel, &Request::Break { ms: 1 }),
        "the early data has been seen"
    );
    assert!(client.ask(channel, &exec("read x; echo got $x")));
    client.send(channel, b"late\n");
    assert_eq!(client.finish(channel).output, b"got late\n");
}

fn data_with_the_request_reaches_the_command() {
    let (_server, mut client) = logged_in(|_| {});
    for terminal in [false, true] {
        let channel = client.session();
        if terminal {
            // No echo (53), so that the output is the command's alone.
            assert!(client.ask(channel, &pty(80, 24, &[53, 0, 0, 0, 0, 0])));
        }
        // One flight: the request, its input and the input's end.
        client
            .connection()
            .channel_request(channel, &exec("read x; echo got $x"), true)
            .expect("open");
        client.send(channel, b"word\n");
        client.connection().channel_eof(channel).expect("open");
        let outcome = client.finish(channel);
        let said = String::from_utf8_lossy(&outcome.output).into_owned();
        assert_eq!(said.trim_end(), "got word", "{terminal}");
    }
}

fn forwardings_that_are_not_served_are_refused() {
    let (_server, mut client) = logged_in(|_| {});
    let mut fields = Vec::new();
    fields.put_string(b"/tmp/x");
    fields.put_string(b"");
    fields.put_u32(0);
    for kind in [
        "direct-streamlocal@openssh.com",
        "tun@openssh.com",
        "x11",
        "forwarded-tcpip",
        "nonsense",
        "",
    ] {
        assert!(client.open(kind, &fields).is_err(), "{kind}");
    }
    let channel = client.session();
    let display = Request::X11 {
        single_connection: false,
        protocol: b"MIT-MAGIC-COOKIE-1".to_vec(),
        cookie: b"00".repeat(16),
        screen: 0,
    };
    let unknown = Request::Unknown {
        name: "auth-agent-req".into(),
        fields: Vec::new(),
    };
    for request in [display, unknown] {
        assert!(!client.ask(channel, &request), "{}", request.name());
    }
    assert!(client.ask(channel, &exec("env")));
    let said = String::from_utf8_lossy(&client.finish(channel).output).into_owned();
    assert!(
        !said.contains("DISPLAY=") && !said.contains("SSH_AUTH_SOCK="),
        "{said}"
    );
}

fn no_session_after_the_last_one() {
    let (_server, mut client) = logged_in(|_| {});
    let channel = client.session();
    client
        .connection()
        .send_no_more_sessions()
        .expect("we are logged in");
    client
        .connection()
        .open_channel("session", &[])
        .expect("we are logged in");
    let _ = channel;
    loop {
        match client.next() {
            Ok(Event::ChannelOpened(_) | Event::ChannelRefused { .. }) => {
                panic!("the connection ends")
            }
            Ok(_) => {}
            Err(error) => {
                assert!(
                    format!("{error:?}").contains("additional sessions disabled"),
                    "{error:?}"
                );
                return;
            }
        }
    }
}

fn sessions_are_counted_with_what_still_runs() {
    let (_server, mut client) = logged_in(|policy| policy.config = "MaxSessions 1\n".into());
    let channel = client.session();
    // It runs for as long as the marker is there, or for a minute.
    let marker = Marker::new("still-runs");
    let command = format!(
        "trap '' HUP; : >'{marker}'; echo ready; read x < /proc/$$/fd/0; i=0; \
         while [ -e '{marker}' ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"
    );
    assert!(client.ask(channel, &exec(&command)));
    client.wait_output("ready");
    client.close(channel);
    client.finish_close(channel);
    assert_eq!(
        client.open("session", &[]),
        Err(wire::message::open_failure::CONNECT_FAILED)
    );
}

fn malformed_terminal_modes_change_nothing() {
    let (_server, mut client) = logged_in(|_| {});
    let modes: [Vec<u8>; 5] = [
        vec![],
        vec![1, 2],
        vec![255; 300],
        (0..4096_u32).map(|n| n.to_le_bytes()[0]).collect(),
        vec![159; 4000],
    ];
    for modes in modes {
        let channel = client.session();
        assert!(
            client.ask(channel, &pty(80, 24, &modes)),
            "{} bytes",
            modes.len()
        );
        assert!(client.ask(channel, &exec("exit 1")));
        assert_eq!(client.finish(channel).status, Some(1));
    }
}

fn many_refused_channels_leave_nothing_behind() {
    let (_server, mut client) = logged_in(|_| {});
    let mut fields = Vec::new();
    fields.put_string(b"127.0.0.1");
    fields.put_u32(1);
    fields.put_string(b"");
    fields.put_u32(0);
    for number in 0..2000 {
        let refused = client.open("direct-tcpip", &fields);
        assert_eq!(
            refused,
            Err(wire::message::open_failure::CONNECT_FAILED),
            "{number}"
        );
    }
    let channel = client.session();
    assert!(client.ask(
        channel,
        &exec("ls /proc/$PPID/fd | wc -l; grep VmRSS /proc/$PPID/status")
    ));
    let said = String::from_utf8_lossy(&client.finish(channel).output).into_owned();
    let open: usize = said
        .lines()
        .next()
        .expect("a line")
        .trim()
        .parse()
        .expect("a number");
    assert!(open < 20, "{said}");
}

fn a_client_that_reads_nothing_stops_the_command() {
    let (_server, mut client) = logged_in(|_| {});
    let flood = client.session();
    let marker = Marker::new("flood");
    let command = format!("head -c 100000000 /dev/zero && touch {marker}");
    // Our client's window is what it is: nothing of the channel's data is consumed here.
    client
        .connection()
        .channel_request(flood, &exec(&command), false)
        .expect("an open channel");
    let other = client.session_without_consuming();
    // Half a second is long enough for 100 MB, if nothing held them back.
    let look = format!(
        "sleep 0.5; grep VmRSS /proc/$PPID/status; ls {} 2>&1",
        marker.path.display()
    );
    let rss = client.ask_without_consuming(other, &exec(&look));
    assert!(!marker.path.exists(), "100 MB do not fit into the window");
    let kilobytes: u64 = rss
        .split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    assert!(kilobytes < 40_000, "the session holds {kilobytes} kB");
}
