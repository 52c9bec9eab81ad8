//! Determines with OpenSSH's client what one login can do.
//!
//! All probes of a row use one connection, by the client's multiplexing. Outcomes:
//!
//! - `login`: `yes`, `no`, or `cut` (granted, and the connection closed before anything runs).
//! - `shell`, `pty`, `exec`, `sftp-server`, `internal-sftp`: the program that ran (`own`: the
//!   client's request, `shell`: a shell that it did not request, `forced`, `sftp`: an SFTP server,
//!   `sftp-only`: none, with a message that only SFTP is permitted, `nothing`: status 0 without
//!   output, `fails`), then the rc file that ran (`rc`: the user's, `sshrc`: the system's), `tty`,
//!   and the content of SSH_ORIGINAL_COMMAND (`orig`: the client's request).
//! - `subsystem`: the same for a session with the subsystem of SFTP; if that is an SFTP server, the
//!   files that the client sees (`home`, `jail`), and `rw` if it can create a directory there.
//! - `env`: the source of the variables of `exec`'s command; `agent`, `x11`: whether it has them;
//!   `-` if no program ran that could report it.
//! - `tcp`, `remote-tcp`: which of two ports are available (`*`: for all addresses).
//! - `udp`, `remote-udp`: the same for datagrams, with our client, as OpenSSH has none; only for rows
//!   that expect them ([`crate::rows::all`]).
//! - `takeover`: whether it gets back a port of a lost client ([`crate::takeover`]), with our client and
//!   server; only for rows that expect it.
//! - `early`: whether sessions whose requests leave with CHANNEL_OPEN, in one flight, can do what others
//!   can (`same`, or what differs), with our client and server, whose master shares its connection; the same
//!   of a passenger in proxy mode and of `fulmar each`; and whether the master tells its status. For every
//!   row that logs in.
//! - `streamlocal`: also whether a user reaches a socket that only root may use (`and root's`);
//!   `remote-streamlocal`: also whose the server's socket is, if it is not the user's.
//! - `tunnel`, `second` (a session beside another).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use interop::peers::ours::{Kind, binary};
use interop::process::{
    Background, COMMAND_LIMIT, Input, Outcome, installed, run, status_number, wait,
};
use interop::scratch::until;

use crate::place::{Place, UID, home_of};
use crate::row::{Outcomes, Row};
use crate::services::{GREETING, Services};

/// The bytes of SSH_FXP_VERSION: length, type, and the version.
const VERSION_HEAD: usize = 9;

/// What a server of this kind permits to the holder of the row's key.
///
/// # Panics
/// If a file cannot be written or a program does not exist.
#[must_use]
pub fn outcomes(row: &Row, kind: Kind, services: &Services) -> (Outcomes, String) {
    let place = loop {
        match Place::start(row, kind, services) {
            Ok(place) => break place,
            // Another process took the port before the server did.
            Err(why) if why.contains("in use") => {}
            Err(why) => return ([("start", "no".to_owned())].into(), why),
        }
    };
    let is_ours = kind == Kind::Fulmar;
    let taken = (is_ours && row.expected.contains_key("takeover"))
        .then(|| crate::takeover::outcomes(&place, services));
    let prober = Prober {
        row,
        place: &place,
        services,
        by: Kind::OpenSsh,
    };
    let mut found = prober.all();
    found.extend(taken.into_iter().flatten());
    if is_ours && found.contains_key("exec") {
        found.insert("early", prober.early(&found));
    }
    if is_ours && found.contains_key("exec") && row.expected.contains_key("udp") {
        found.extend(crate::datagrams::outcomes(row, &place, services));
    }
    let log = place.running.daemon.log();
    (found, log)
}

/// One login to one server.
struct Prober<'a> {
    row: &'a Row,
    place: &'a Place,
    services: &'a Services,
    /// Whose client it is.
    by: Kind,
}

/// A client's output.
struct Answer {
    status: i32,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// The result of a session.
struct Session {
    outcome: String,
    env: String,
    agent: String,
    x11: String,
}

impl Prober<'_> {
    fn all(&self) -> Outcomes {
        let mut found = Outcomes::new();
        if !self.log_in() {
            found.insert("login", "no".into());
            return found;
        }
        let report = self.report();
        let shell = bilingual(&self.lines("shell"));
        let exec = self.session(&["-Y", "mux", &report], &shell, &report);
        // A busy client notices later that the server has ended the connection.
        let looks = if exec.outcome.starts_with("fails") {
            10
        } else {
            1
        };
        let stays = (0..looks).all(|look| {
            if look > 0 {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            self.is_connected()
        });
        if !stays {
            found.insert("login", "cut".into());
            return found;
        }
        found.insert("login", "yes".into());
        self.programs(exec, &mut found);
        found.insert("subsystem", self.subsystem(&shell));
        found.insert("tcp", self.tcp());
        found.insert("streamlocal", self.streamlocal());
        found.insert("remote-tcp", self.remote_tcp());
        found.insert("remote-streamlocal", self.remote_streamlocal());
        if self.row.with_second {
            found.insert("second", self.second(&report));
        }
        if self.row.with_tunnel {
            found.insert("tunnel", self.tunnel(&report));
        }
        found
    }

    /// The command that reports.
    fn report(&self) -> String {
        format!("sh {}/report own", self.place.here.display())
    }

    /// The outcomes of sessions with programs; `exec` is that of the command.
    fn programs(&self, exec: Session, found: &mut Outcomes) {
        let own = self.lines("own");
        let shell = bilingual(&self.lines("shell"));
        found.insert("exec", exec.outcome);
        found.insert("env", exec.env);
        found.insert("agent", exec.agent);
        found.insert("x11", exec.x11);
        let asked = self.session(&["-T", "mux"], &bilingual(&own), "");
        found.insert("shell", asked.outcome);
        let pty = self.session(&["-tt", "mux"], own.as_bytes(), "");
        found.insert("pty", pty.outcome);
        for (probe, program) in [
            ("sftp-server", "/usr/lib/openssh/sftp-server"),
            ("internal-sftp", "internal-sftp"),
        ] {
            let session = self.session(&["mux", program], &shell, program);
            found.insert(probe, session.outcome);
        }
    }

    /// The same sessions by our client, through our master. The outcomes that differ, or `same`.
    fn early(&self, found: &Outcomes) -> String {
        self.run(&["-O", "exit", "mux"], b"");
        let socket = self.place.here.join("m");
        assert!(
            until(COMMAND_LIMIT, || !socket.exists()),
            "the master stays"
        );
        let ours = Prober {
            by: Kind::Fulmar,
            ..*self
        };
        let log = self.place.here.join("early.log");
        let shown = log.display().to_string();
        let logged_in = ours.run(&["-f", "-N", "-vv", "-E", &shown, "direct"], b"");
        if logged_in.status != 0 {
            return format!("no login: {}", logged_in.summary());
        }
        let report = self.report();
        let shell = bilingual(&self.lines("shell"));
        let mut again = Outcomes::new();
        let exec = ours.session(&["-Y", "mux", &report], &shell, &report);
        ours.programs(exec, &mut again);
        again.insert("tcp", ours.tcp());
        let mut differing: Vec<String> = again
            .iter()
            .filter(|(probe, outcome)| found.get(*probe) != Some(outcome))
            .map(|(probe, outcome)| format!("{probe}: {outcome}"))
            .collect();
        differing.extend(ours.others(&report, &shell, found));
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(
            said.contains("CHANNEL_OPEN and requests, not waiting"),
            "{}: no early requests: {said}",
            self.row.name
        );
        ours.run(&["-O", "exit", "mux"], b"");
        match differing.is_empty() {
            true => "same".into(),
            false => differing.join("; "),
        }
    }

    /// A command in proxy mode and by `fulmar each`, and the master's status; what differs from `found`.
    fn others(&self, report: &str, shell: &[u8], found: &Outcomes) -> Vec<String> {
        let mut differing = Vec::new();
        let expected = found.get("exec").map_or("", String::as_str);
        let proxied = self.session(&["-O", "proxy", "mux", report], shell, report);
        if proxied.outcome != expected {
            differing.push(format!("exec in proxy mode: {}", proxied.outcome));
        }
        let status = self.run(&["-O", "status", "mux"], b"");
        if status.status != 0 {
            differing.push(format!("status: {}", status.summary()));
        }
        let by_each = self.by_each(report);
        let has_reported =
            |outcome: &str| ["own", "shell", "forced"].contains(&first_word(outcome));
        // It gives an SFTP server no input.
        let differs = has_reported(expected) || has_reported(&by_each);
        if differs && by_each != expected {
            differing.push(format!("exec by each: {by_each}"));
        }
        differing
    }

    /// The outcome of a command by `fulmar each`, which has a login of its own.
    fn by_each(&self, report: &str) -> String {
        let mut command = Command::new(binary());
        command
            .arg("each")
            .arg("-F")
            .arg(self.place.here.join("ssh_config"))
            .args(["alone", "--", report]);
        let mut command = self.equip(command);
        let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT)
            .unwrap_or_else(|why| panic!("{}: {command:?}: {why}", self.row.name));
        let answer = Answer {
            status: outcome.status,
            stdout: outcome.stdout.text().into_bytes(),
            stderr: outcome.stderr.text().into_bytes(),
        };
        self.session_of(&answer, report, "").outcome
    }

    /// The input that makes a shell report with this name and exit.
    fn lines(&self, who: &str) -> String {
        format!("\nsh {}/report {who}\nexit\n", self.place.here.display())
    }

    /// `program` with the client's configuration and these arguments.
    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = match self.by {
            Kind::Fulmar => self.by.ssh().expect("our client"),
            Kind::OpenSsh => {
                let path = installed(program);
                Command::new(path.unwrap_or_else(|| panic!("{program} is not installed")))
            }
        };
        command
            .arg("-F")
            .arg(self.place.here.join("ssh_config"))
            .args(arguments);
        self.equip(command)
    }

    /// The client `command` with its environment.
    fn equip(&self, mut command: Command) -> Command {
        command
            .env("SSH_AUTH_SOCK", self.services.agent())
            .env("SSH_ASKPASS", self.place.here.join("askpass"))
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("DISPLAY", ":77")
            .env("XAUTHORITY", self.place.here.join("xauthority"));
        self.place.client(command)
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Outcome {
        let mut command = self.client("ssh", arguments);
        run(&mut command, Input::Bytes(input), COMMAND_LIMIT)
            .unwrap_or_else(|why| panic!("{}: {command:?}: {why}", self.row.name))
    }

    /// Starts the shared connection; its client is in the background when this returns.
    fn log_in(&self) -> bool {
        self.run(&["-f", "-N", "direct"], b"").status == 0
    }

    fn is_connected(&self) -> bool {
        self.run(&["-O", "check", "mux"], b"").status == 0
    }

    /// Runs a client through the shared connection; if that has ended afterwards, it is started
    /// again and reported.
    fn through(&self, arguments: &[&str], input: &[u8]) -> (Outcome, &'static str) {
        let outcome = self.run(arguments, input);
        let lost = self.reconnect(outcome.status);
        (outcome, lost)
    }

    /// After a client with this exit status: returns true if the connection has ended, and starts
    /// it again.
    fn reconnect(&self, status: i32) -> &'static str {
        if status == 0 || self.is_connected() {
            return "";
        }
        self.log_in();
        ", connection lost"
    }

    /// Runs a client through the shared connection and keeps its standard input open until an
    /// answer arrives: OpenSSH's SFTP server does not answer after the end of its input.
    fn answer(&self, arguments: &[&str], input: &[u8]) -> Answer {
        let mut command = self.client("ssh", arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut client = Background::start(&mut command).expect("a client");
        let mut stdin = client.0.stdin.take().expect("its input");
        let mut stdout = client.0.stdout.take().expect("its output");
        let mut stderr = client.0.stderr.take().expect("its complaints");
        let (answered, wait_for_answer) = mpsc::channel();
        let output = thread::spawn(move || {
            let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stdout.read(&mut chunk) {
                all.extend_from_slice(&chunk[..count]);
                if all.len() >= VERSION_HEAD {
                    let _ = answered.send(());
                }
            }
            all
        });
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            text
        });
        // A client that has ended accepts no input.
        let _ = stdin.write_all(input);
        // The end of its output is an answer as well.
        let _ = wait_for_answer.recv_timeout(COMMAND_LIMIT);
        drop(stdin);
        let status = wait(&mut client.0, COMMAND_LIMIT)
            .unwrap_or_else(|why| panic!("{}: {command:?}: {why}", self.row.name));
        Answer {
            status: status_number(status),
            stdout: output.join().expect("its output"),
            stderr: complaints.join().expect("its complaints"),
        }
    }

    fn session(&self, arguments: &[&str], input: &[u8], asked: &str) -> Session {
        let answer = self.answer(arguments, input);
        let lost = self.reconnect(answer.status);
        self.session_of(&answer, asked, lost)
    }

    /// What a client's output says about its session.
    fn session_of(&self, answer: &Answer, asked: &str, lost: &str) -> Session {
        let text = String::from_utf8_lossy(&answer.stdout);
        let report = text
            .split_once("<<")
            .and_then(|(_, rest)| rest.split_once(">>"))
            .map(|(report, _)| report.splitn(7, '|').collect::<Vec<_>>());
        let mut words = String::new();
        let mut session = Session {
            outcome: String::new(),
            env: "-".into(),
            agent: "-".into(),
            x11: "-".into(),
        };
        let mut tail = String::new();
        if let Some([who, uid, tty, env, agent, x11, original]) = report.as_deref() {
            words.push_str(who);
            let wanted = if self.row.as_root { 0 } else { UID };
            if *uid != wanted.to_string() {
                tail.push_str(&format!(" uid={uid}"));
            }
            if *tty == "yes" {
                tail.push_str(" tty");
            }
            tail.push_str(&said_original(original, asked));
            session.env = env.trim().to_owned();
            session.agent = (*agent).to_owned();
            session.x11 = (*x11).to_owned();
        } else {
            words.push_str(what_ran(answer));
        }
        words.push_str(&self.marks());
        words.push_str(&tail);
        words.push_str(lost);
        session.outcome = words;
        session
    }

    /// The rc files that ran since the last call.
    fn marks(&self) -> String {
        ["rc", "sshrc"]
            .into_iter()
            .filter(|name| fs::remove_file(self.place.here.join("marks").join(name)).is_ok())
            .map(|name| format!(" {name}"))
            .collect()
    }

    /// The subsystem of SFTP; if an SFTP server answers, the files that its client sees.
    fn subsystem(&self, shell: &[u8]) -> String {
        let session = self.session(&["-s", "mux", "sftp"], shell, "");
        let Some(rest) = session.outcome.strip_prefix("sftp") else {
            return session.outcome;
        };
        let mut command = self.client("sftp", &["-b", "-", "mux"]);
        let batch = b"ls -1\n-mkdir made\n";
        let outcome = run(&mut command, Input::Bytes(batch), COMMAND_LIMIT)
            .unwrap_or_else(|why| panic!("{}: {why}", self.row.name));
        let text = outcome.stdout.text();
        let mut words = ["home", "jail"]
            .into_iter()
            .find(|name| text.contains(&format!("seen-{name}")))
            .unwrap_or("nothing")
            .to_owned();
        for folder in [home_of(self.row), "jail"] {
            if fs::remove_dir(self.place.here.join(folder).join("made")).is_ok() {
                words.push_str(" rw");
            }
        }
        let _ = self.marks();
        words + rest + self.reconnect(outcome.status)
    }

    fn tcp(&self) -> String {
        which(|which| {
            let to = format!("{}:{}", self.row.host, self.services.ports[which]);
            let (outcome, lost) = self.through(&["-W", &to, "mux"], b"");
            let is_open = outcome.stdout.text() == GREETING;
            is_open
                .then_some("")
                .or_else(|| (!lost.is_empty()).then_some(lost))
        })
    }

    fn streamlocal(&self) -> String {
        let found = self.greets("l", &self.services.socket());
        let is_users = found && !self.row.as_root;
        // Servers that connected as root (CVE-2016-10010, CVE-2025-14282) reached every socket.
        let roots = is_users && self.greets("lr", &self.services.roots_socket());
        yes_or_no(found) + if roots { " and root's" } else { "" }
    }

    /// True if a socket here leads to `there`.
    fn greets(&self, here: &str, there: &Path) -> bool {
        let local = self.place.here.join(here);
        let spec = format!("{}:{}", local.display(), there.display());
        self.run(&["-O", "forward", "-L", &spec, "mux"], b"");
        let mut text = String::new();
        if let Ok(mut stream) = UnixStream::connect(&local) {
            let _ = stream.read_to_string(&mut text);
        }
        text == GREETING
    }

    fn remote_tcp(&self) -> String {
        which(|which| {
            // The first requests no address, the second all.
            let bind = ["", "0.0.0.0:"][which];
            let port = self.place.listen[which];
            let spec = format!("{bind}{port}:127.0.0.1:{}", self.services.ports[which]);
            let (outcome, lost) = self.through(&["-O", "forward", "-R", &spec, "mux"], b"");
            if outcome.status != 0 {
                return (!lost.is_empty()).then_some(lost);
            }
            Some(if is_everywhere(port) { "*" } else { "" })
        })
    }

    fn remote_streamlocal(&self) -> String {
        let socket = self.place.here.join("marks/r");
        let spec = format!("{}:127.0.0.1:{}", socket.display(), self.services.ports[0]);
        let (outcome, lost) = self.through(&["-O", "forward", "-R", &spec, "mux"], b"");
        let wanted = if self.row.as_root { 0 } else { UID };
        let owner = fs::symlink_metadata(socket).ok().map(|found| found.uid());
        let others = owner.filter(|owner| *owner != wanted);
        let whose = others.map(|owner| format!(" of {owner}"));
        yes_or_no(outcome.status == 0) + &whose.unwrap_or_default() + lost
    }

    /// A session while another one is open.
    fn second(&self, report: &str) -> String {
        let held = format!("{report}; exec cat");
        let mut command = self.client("ssh", &["mux", &held]);
        let (_first, line) = first_line(command.stdin(Stdio::piped()));
        assert!(line.contains("<<"), "{}: no first session", self.row.name);
        let _ = self.marks();
        self.session(&["mux", report], b"", report).outcome
    }

    /// A tunnel device at both ends. The server answers this request before that for the session. A
    /// client whose forwarding failed runs nothing; otherwise the client runs as long as the device
    /// exists.
    fn tunnel(&self, report: &str) -> String {
        let mut command = self.client("ssh", &["-w", "any:any"]);
        command.args(["-o", "ExitOnForwardFailure=yes", "alone", report]);
        let (_client, line) = first_line(command.stdin(Stdio::null()));
        yes_or_no(line.contains("<<"))
    }
}

fn first_word(outcome: &str) -> &str {
    outcome.split(' ').next().unwrap_or_default()
}

/// Starts a program and reads its first line, which is empty if it ends without one.
fn first_line(command: &mut Command) -> (Background, String) {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Background::start(command).expect("a client");
    let output = program.0.stdout.take().expect("its output");
    let mut line = String::new();
    let _ = BufReader::new(output).read_line(&mut line);
    (program, line)
}

/// Lines for a shell that are also two SFTP packets: SSH_FXP_INIT of version 3, and
/// SSH_FXP_REALPATH of a path that consists of these lines. A shell reports errors for the packets'
/// headers and executes the lines; an SFTP server answers. The output therefore identifies the
/// reader.
fn bilingual(lines: &str) -> Vec<u8> {
    let length = u32::try_from(lines.len()).expect("few bytes");
    let mut packets = b"\0\0\0\x05\x01\0\0\0\x03".to_vec();
    packets.extend((length + 9).to_be_bytes());
    packets.extend(b"\x10\0\0\0\x01");
    packets.extend(length.to_be_bytes());
    packets.extend(lines.as_bytes());
    packets
}

/// The content of SSH_ORIGINAL_COMMAND, compared with the request.
fn said_original(original: &str, asked: &str) -> String {
    if original.is_empty() {
        String::new()
    } else if original == asked {
        " orig".into()
    } else {
        format!(" orig={original}")
    }
}

/// The outcome of a session without a report.
fn what_ran(answer: &Answer) -> &'static str {
    let said = [answer.stdout.as_slice(), &answer.stderr].concat();
    if answer.stdout.get(4..VERSION_HEAD) == Some(&[2, 0, 0, 0, 3]) {
        "sftp"
    } else if String::from_utf8_lossy(&said).contains("allows sftp connections only") {
        "sftp-only"
    } else if answer.status == 0 {
        "nothing"
    } else {
        "fails"
    }
}

/// `A`, `B`, both or none, each followed by the result of `try_one`.
fn which(try_one: impl Fn(usize) -> Option<&'static str>) -> String {
    let found: Vec<String> = ["A", "B"]
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some(format!("{name}{}", try_one(index)?)))
        .collect();
    if found.is_empty() {
        "none".into()
    } else {
        found.join(" ")
    }
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}

/// True if a listener on this port accepts connections to every address.
fn is_everywhere(port: u16) -> bool {
    let any = std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    sys::socket::is_listening_in(std::process::id(), any).unwrap_or(false)
}
