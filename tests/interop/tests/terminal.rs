//! Sessions with a terminal, through a pseudo-terminal.

use std::process::Command;

use interop::agent::{RealAgent, program};
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Input, command_line};
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each_with_terminals as each};
use interop::terminal::Terminal;

/// A shell with a unique prompt.
fn shell(site: &Site, extra: &str, columns: u16, rows: u16) -> Terminal {
    let mut command = site.ssh(extra);
    command
        .env("TERM", "vt220")
        .args(["-tt", HOST, "PS1='<ready>' ENV= /bin/sh -i"]);
    let mut terminal = Terminal::new(&command, columns, rows);
    terminal.expect("<ready>");
    terminal
}

/// A script in a shell at a terminal of this machine.
fn local(script: &str) -> Terminal {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Terminal::new(&command, 80, 24)
}

#[test]
fn size_and_type_of_the_terminal_arrive_and_changes_too() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut terminal = shell(&site, "", 93, 41);
        terminal.type_text("stty size; echo \"on $TERM\"; tty\n");
        terminal.expect("41 93\r\n");
        terminal.expect("on vt220\r\n");
        terminal.expect("/dev/pts/");
        terminal.type_text("trap 'echo; echo now $(stty size)' WINCH; echo s''et\n");
        terminal.expect("set\r\n");
        terminal.resize(120, 50);
        // The trap runs after the shell has read a line; more lines until the change is visible.
        terminal.type_until("\n", "now 50 120");
        terminal.type_text("exit 5\n");
        assert_eq!(terminal.end(), 5);
    });
}

/// `ssh -tt` in a script: the server's terminal has no size, and escapes count.
#[test]
fn a_terminal_without_one_here_has_no_size_and_obeys_escapes() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let shared = format!(
            "ControlPath {}\nControlMaster auto\nControlPersist yes\n",
            site.running.daemon.scratch().join("control").display()
        );
        for extra in ["", &*shared] {
            let run = |arguments: &[&str], input: &[u8]| {
                let outcome = site.run_with(extra, arguments, Input::Bytes(input));
                (outcome.status, outcome.stdout.text())
            };
            let size = run(&["-tt", HOST, "stty size"], b"");
            assert_eq!((size.0, size.1.trim_end()), (0, "0 0"), "{extra}");
            let (status, said) = run(&["-tt", HOST, "stty -echo; echo on; cat"], b"~.\n");
            assert!(status == 255 && !said.contains("~."), "{extra}: {said}");
            let none = ["-tt", "-e", "none", HOST, "stty -echo; head -n 1"];
            let (status, said) = run(&none, b"~.\n");
            assert!(
                status == 0 && said.trim_end().ends_with("~."),
                "{extra}: {said}"
            );
            assert_eq!(run(&["-T", HOST, "cat"], b"~.\n"), (0, "~.\n".into()));
        }
        let _ = site.run_with(&shared, &["-O", "exit", HOST], Input::Nothing);
    });
}

#[test]
fn a_long_type_of_terminal_does_not_end_the_connection() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let run = |bytes: usize| {
            let mut command = site.ssh("");
            command.env("TERM", "x".repeat(bytes));
            command.args(["-t", HOST, "echo is ${#TERM}; exit 3"]);
            let mut terminal = Terminal::new(&command, 80, 24);
            (terminal.end(), terminal.screen())
        };
        let (status, screen) = run(300);
        assert_eq!(status, 3, "{screen}");
        assert!(screen.contains("is 300"), "{screen}");
        // Our server refuses a terminal of such a type, and the client then ends.
        let (status, screen) = run(5000);
        assert!(!screen.contains("malformed message"), "{screen}");
        let wanted = if server == Kind::Fulmar { 255 } else { 3 };
        assert_eq!(status, wanted, "{client:?} {screen}");
    });
}

#[test]
fn keys_for_signals_reach_the_command_and_not_the_client() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut terminal = shell(&site, "", 80, 24);
        // The program that reads a line runs, and gets the signal with its shell.
        terminal.type_text("(trap 'echo inter''rupted; exit' INT; cat; sleep 60)\n");
        terminal.type_text("reading\n");
        terminal.expect("reading\r\nreading\r\n");
        terminal.type_text("\u{3}");
        terminal.expect("interrupted");
        terminal.expect("<ready>");
        terminal.type_text("cat\n");
        terminal.type_text("running\n");
        terminal.expect("running\r\nrunning\r\n");
        terminal.type_text("\u{1c}");
        terminal.expect("<ready>");
        terminal.type_text("cat\n");
        terminal.type_text("line\n");
        terminal.expect("line\r\nline\r\n");
        terminal.type_text("\u{4}");
        terminal.expect("<ready>");
        terminal.type_text("exit\n");
        terminal.end();
    });
}

#[test]
fn a_command_with_a_terminal_ends_with_its_own_status() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut command = site.ssh("");
        command.args([
            "-t",
            HOST,
            "test -t 0 && test -t 1 && test -t 2 && echo terminal; exit 17",
        ]);
        let mut terminal = Terminal::new(&command, 80, 24);
        assert_eq!(terminal.end(), 17);
        terminal.expect("terminal\r\n");
        // The complete last output, although the program ends before it is read.
        let mut command = site.ssh("");
        command.args(["-t", HOST, "seq 1 20000; echo the end"]);
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.expect("19999\r\n20000\r\nthe end\r\n");
        assert_eq!(terminal.end(), 0);
    });
}

#[test]
fn no_terminal_is_asked_for_without_a_reason() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        // A command gets none, even from a client at a terminal.
        let mut command = site.ssh("");
        command.args([HOST, "test -t 0 || echo plain"]);
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.expect("plain");
        assert_eq!(terminal.end(), 0);
        // -t without a local terminal requests none, -tt does.
        let outcome = site.run_with("", &["-t", HOST, "tty"], Input::Nothing);
        outcome.assert_shows("not a tty");
        let outcome = site.run_with("", &["-tt", HOST, "tty"], Input::Nothing);
        outcome.assert_shows("/dev/pts/");
    });
}

#[test]
fn modes_of_the_local_terminal_are_those_of_the_remote_one() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let ssh = command_line(&site.ssh(""));
        let script = format!("stty erase ^X intr ^Y -echoe -ixon; {ssh} -t {HOST} 'stty -a'");
        let mut terminal = local(&script);
        assert_eq!(terminal.end(), 0);
        terminal.expect("intr = ^Y");
        terminal.expect("erase = ^X");
        let screen = terminal.screen();
        for mode in ["-echoe", "-ixon"] {
            assert!(
                screen
                    .split([' ', ';', '\r', '\n'])
                    .any(|word| word == mode),
                "{mode}: {screen}"
            );
        }
    });
}

#[test]
fn the_local_terminal_is_as_before_when_the_client_has_ended() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let ssh = command_line(&site.ssh(""));
        let script = format!(
            "stty -g >{0}/before; {ssh} -t {HOST} 'exit 3'; echo status $?; stty -g >{0}/after; cmp {0}/before {0}/after && echo same",
            site.running.daemon.scratch().path().display()
        );
        let mut terminal = local(&script);
        terminal.expect("status 3\r\n");
        terminal.expect("same\r\n");
        assert_eq!(terminal.end(), 0);
    });
}

#[test]
fn escapes_at_the_start_of_a_line_are_the_clients() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut terminal = shell(&site, "", 80, 24);
        terminal.type_text("echo a~.b\n");
        terminal.expect("a~.b\r\n");
        terminal.expect("<ready>");
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~?");
        terminal.expect("~.");
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~~echo tilde\r");
        terminal.expect("~echo: ");
        terminal.expect("<ready>");
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~.");
        assert_eq!(terminal.end(), 255);
    });
}

#[test]
fn escapes_can_be_another_character_or_none() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut terminal = shell(&site, "EscapeChar %\n", 80, 24);
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("%.");
        assert_eq!(terminal.end(), 255);
        let mut terminal = shell(&site, "EscapeChar none\n", 80, 24);
        terminal.type_text("\r~.\r");
        terminal.expect("~.");
        terminal.expect("<ready>");
        terminal.type_text("exit 8\r");
        assert_eq!(terminal.end(), 8);
    });
}

#[test]
fn a_login_shell_is_one() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut command = site.ssh("");
        command.arg(HOST);
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.type_text("echo \"shell is ${0%%[a-z]*} on ${SSH_TTY%%[0-9]*}\"; exit 4\n");
        terminal.expect("shell is - on /dev/pts/");
        assert_eq!(terminal.end(), 4);
    });
}

#[test]
fn a_server_without_terminals_says_so() {
    each(|client, server| {
        let site = Site::new(client, server, "PermitTTY no\n");
        let mut command = site.ssh("");
        command.args(["-t", HOST, "test -t 0 || echo without"]);
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.expect("PTY");
        // A client that was told to request a terminal fails.
        assert_eq!(terminal.end(), 255, "{client:?}");
    });
}

#[test]
fn script_records_a_session() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let ssh = site.wrapper();
        let mut command = Command::new("script");
        command
            .args([
                "-q",
                "-e",
                "-c",
                &format!("{} -t {HOST} 'tty; exit 21'", ssh.display()),
            ])
            .arg("/dev/null");
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        outcome.assert_shows("/dev/pts/");
        assert_eq!(outcome.status, 21);
    });
}

#[test]
fn keystrokes_are_hidden_where_the_server_answers_pings() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let mut terminal = shell(
            &site,
            "LogLevel DEBUG3\nObscureKeystrokeTiming yes\n",
            80,
            24,
        );
        terminal.type_text("echo typ''ed\n");
        // The client may be idle before the server has answered.
        terminal.expect_somewhere("typed\r\n");
        let pings = server == Kind::Fulmar || !terminal.screen().contains("is not hidden");
        if pings {
            terminal.expect_somewhere("keystroke timing: at rest after ");
            assert!(!terminal.screen().contains("at rest after 0 pings"));
        }
        // The connection still works.
        terminal.type_text("exit 6\n");
        assert_eq!(terminal.end(), 6);
    });
}

/// Standard input may be the data to sign, or a list that a loop reads: the passphrase is typed.
#[test]
fn passphrases_are_typed_beside_a_piped_input() {
    let scratch = Scratch::new();
    let key = scratch.write("key", fixture::text("user_ed25519"));
    let path = key.display().to_string();
    fixture::run_keygen(&["-q", "-p", "-P", "", "-N", "open sesame", "-f", &path]).expect("-p");
    scratch.write("key.pub", fixture::text("user_ed25519.pub"));
    for suite in [Kind::OpenSsh, Kind::Fulmar] {
        let (Some(agent), Ok(keygen), Ok(add)) = (
            RealAgent::start_of(suite, &[]),
            program(suite, "keygen"),
            program(suite, "add"),
        ) else {
            continue;
        };
        let (keygen, add) = (command_line(&keygen), command_line(&add));
        for script in [
            format!("echo data | {keygen} -Y sign -n file -f {path}"),
            format!("echo other | {keygen} -y -f {path}"),
            format!("echo {path} | while read key; do {add} $key; done"),
        ] {
            let mut terminal = local(&format!(
                "unset DISPLAY WAYLAND_DISPLAY SSH_ASKPASS_REQUIRE; \
                 SSH_AUTH_SOCK={}; export SSH_AUTH_SOCK; {script}",
                agent.socket.display()
            ));
            terminal.expect("passphrase");
            terminal.type_text("open sesame\n");
            assert_eq!(terminal.end(), 0, "{suite:?} {}", terminal.screen());
            let screen = terminal.screen();
            assert!(!screen.contains("sesame"), "{suite:?} {screen}");
        }
    }
}
