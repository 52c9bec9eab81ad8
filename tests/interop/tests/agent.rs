//! Forwarded agents, between both suites: OpenSSH's `ssh-agent` and `ssh-add` use what is forwarded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use interop::agent::RealAgent;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, installed, quoted_command_line};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, each, finish, here, program};

/// The client's configuration that forwards this agent.
fn forwards(agent: &RealAgent) -> String {
    format!("ForwardAgent yes\n{}", agent.line())
}

fn text(site: &Site, extra: &str, command: &str) -> String {
    let outcome = site.run_with(extra, &[HOST, command], Input::Nothing);
    assert_eq!(outcome.status, 0, "{command}: {}", outcome.summary());
    outcome.stdout.text().trim_end().to_owned()
}

#[test]
fn the_agent_is_reached_over_one_hop_and_over_two() {
    let Some(agent) = RealAgent::start(&["ed25519", "rsa"]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let listed = text(&site, &forwards(&agent), "ssh-add -l");
        assert_eq!(listed.lines().count(), 2, "{listed}");
        // The second hop logs in with a key of the agent, and forwards it again.
        let public = fixture::file("user_ed25519.pub");
        for next in [Kind::Fulmar, client] {
            let config = site.config("ForwardAgent yes\nIdentityAgent SSH_AUTH_SOCK\n");
            let lines = fs::read_to_string(&config).expect("a configuration");
            let key = fixture::file("user_ed25519").display().to_string();
            fs::write(&config, lines.replace(&key, &public.display().to_string()))
                .expect("a configuration");
            let ssh = next.ssh().expect("a client");
            let words = quoted_command_line(&ssh);
            let hop = format!("{} -F {} {HOST} ssh-add -l", words, here(&config));
            assert_eq!(text(&site, &forwards(&agent), &hop), listed);
        }
    });
}

#[test]
fn the_agent_is_forwarded_only_if_the_user_says_so() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let told = |extra: &str, flags: &[&str]| {
            let mut command = site.ssh(extra);
            command
                .env("AGENT_OF_THE_TEST", &agent.socket)
                .env("SSH_AUTH_SOCK", &agent.socket)
                .args(flags)
                .args([HOST, "ssh-add -l >/dev/null 2>&1 && echo yes; true"]);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            outcome.stdout.text() == "yes\n"
        };
        let (line, path) = (agent.line(), agent.socket.display());
        let environment = "IdentityAgent SSH_AUTH_SOCK\n";
        assert!(!told(&line, &[]), "default");
        assert!(told(&line, &["-A"]), "-A");
        assert!(told(environment, &["-A"]), "SSH_AUTH_SOCK");
        assert!(!told(&forwards(&agent), &["-a"]), "-a");
        assert!(!told(&forwards(&agent), &["-A", "-a"]), "-A -a");
        assert!(!told("ForwardAgent yes\nIdentityAgent none\n", &[]), "none");
        let named = format!("ForwardAgent {path}\n{environment}");
        assert!(told(&named, &[]), "a path");
        let variable = format!("ForwardAgent $AGENT_OF_THE_TEST\n{environment}");
        assert!(told(&variable, &[]), "a variable");
        let unset = format!("ForwardAgent $NOTHING_OF_THE_TEST\n{environment}");
        assert!(!told(&unset, &[]), "a variable that is not set");
        let gone = "IdentityAgent /nonexistent/agent\n";
        assert!(!told(gone, &["-A"]), "no agent");
    });
}

#[test]
fn sixty_four_signatures_at_once_are_all_made() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let public = scratch.write("key.pub", fixture::text("user_ed25519.pub"));
        let command = format!(
            "for n in $(seq 64); do (echo $n | ssh-keygen -q -Y sign -n git -f {} | grep -c BEGIN) & done; wait",
            here(&public)
        );
        let made = text(&site, &forwards(&agent), &command);
        assert_eq!(made, ["1"; 64].join("\n"));
    });
}

#[test]
fn the_socket_is_the_users_alone_and_ends_with_the_connection() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut command = site.ssh(&forwards(&agent));
        command
            .args([HOST, "echo $SSH_AUTH_SOCK; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut session = Background::start(&mut command).expect("a client");
        let mut line = String::new();
        let output = session.0.stdout.take().expect("its output");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("its line");
        let socket = Path::new(line.trim_end()).to_owned();
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
        // That of OpenSSH before 10.1 is protected by its directory alone.
        if server == Kind::Fulmar {
            assert_eq!(mode(&socket) & 0o777, 0o600);
        }
        assert_eq!(mode(socket.parent().expect("a parent")) & 0o777, 0o700);
        drop(session.0.stdin.take());
        assert!(until(COMMAND_LIMIT, || !socket.exists()), "{socket:?}");
    });
}

#[test]
fn a_server_that_is_told_to_end_leaves_no_socket() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let scratch = Scratch::new();
    let name = scratch.join("name");
    // The parent of the user's shell is the session process; the shell has the default signals.
    let command = format!(
        "echo $SSH_AUTH_SOCK >{}; sh -c 'kill -TERM $$'; kill -TERM $PPID; cat",
        here(&name)
    );
    let outcome = site.run_with(&forwards(&agent), &[HOST, &command], Input::Nothing);
    assert_ne!(outcome.status, 0, "{}", outcome.summary());
    let socket = fs::read_to_string(&name).expect("the socket's name");
    assert!(socket.len() > 1);
    assert!(until(COMMAND_LIMIT, || !Path::new(socket.trim_end()).exists()));
}

#[test]
fn the_socket_is_where_agent_socket_path_puts_it() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let scratch = Scratch::new();
    let at = here(scratch.path());
    let long = format!("{at}/{}", "long/".repeat(20));
    for (place, found) in [
        (format!("user:{at}/made/%u"), format!("{at}/made/")),
        (format!("shared:{at}"), format!("{at}/ssh-")),
        ("none".to_owned(), "none".to_owned()),
        (format!("user:{long}"), "none".to_owned()),
    ] {
        let lines = format!("AgentSocketPath {place}\n");
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, &lines);
        let command = "echo ${SSH_AUTH_SOCK:-none}; [ -z \"$SSH_AUTH_SOCK\" ] || ssh-add -l";
        let told = text(&site, &forwards(&agent), command);
        assert!(told.starts_with(&found), "{place}: {told}");
        let lines = if found == "none" { 1 } else { 2 };
        assert_eq!(told.lines().count(), lines, "{place}: {told}");
        let has_ended = || {
            let mut left = fs::read_dir(scratch.path()).expect("a directory").flatten();
            left.all(|entry| !entry.file_name().to_string_lossy().starts_with("ssh-"))
        };
        assert!(until(COMMAND_LIMIT, has_ended), "{place}");
    }
}

#[test]
fn copies_forward_the_agent_only_with_a_flag() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let server = "/usr/lib/openssh/sftp-server";
    if installed("sshd").is_none() || !Path::new(server).exists() {
        return skipped("openssh's SFTP server", &"not installed");
    }
    for kind in [Kind::Fulmar, Kind::OpenSsh] {
        let scratch = Scratch::new();
        let (seen, file) = (scratch.join("seen"), scratch.write("file", "content"));
        let script = format!(
            "#!/bin/sh\necho \"[$SSH_AUTH_SOCK]\" >{}\nexec {server}\n",
            here(&seen)
        );
        let script = scratch.write("server.sh", script);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
        let site = Site::new(
            Kind::Fulmar,
            kind,
            &format!("Subsystem sftp {}\n", here(&script)),
        );
        for (flags, is_forwarded) in [(&["-A"][..], true), (&[], false)] {
            for name in ["scp", "sftp"] {
                let mut command = program(&site, name);
                let config = site.config(&forwards(&agent));
                command.arg("-F").arg(config).args(flags);
                match name {
                    "scp" => command.args([here(&file), format!("{HOST}:{}", here(&file))]),
                    _ => command.args(["-b", "/dev/null", HOST]),
                };
                let outcome = finish(&mut command, Input::Nothing);
                assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
                let told = fs::read_to_string(&seen).expect("what the server has seen");
                assert_eq!(told != "[]\n", is_forwarded, "{name} {flags:?}: {told}");
            }
        }
    }
}

/// The channel to the agent waits for its answer to the first request; nothing else does.
#[test]
fn an_agent_that_never_answers_delays_nobody_else() {
    each(|client, server| {
        // OpenSSH's client waits for its agent with everything.
        if client == Kind::OpenSsh {
            return;
        }
        let scratch = Scratch::new();
        let socket = scratch.join("agent");
        let listener = UnixListener::bind(&socket).expect("a socket");
        thread::spawn(move || {
            let held: Vec<UnixStream> = listener.incoming().flatten().collect();
            drop(held);
        });
        let site = Site::new(client, server, "");
        let extra = format!("ForwardAgent {}\n", here(&socket));
        let command = "ssh-add -l >/dev/null 2>&1 & pid=$!; echo first; echo second; kill $pid";
        assert_eq!(text(&site, &extra, command), "first\nsecond");
    });
}

#[test]
fn an_agent_without_session_bind_is_served() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    // Refuses each extension, and passes other requests on.
    let scratch = Scratch::new();
    let socket = scratch.join("agent");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let real = agent.socket.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let real = UnixStream::connect(&real).expect("the agent");
            thread::spawn(move || pass_on(stream, real));
        }
    });
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let extra = format!("ForwardAgent {}\n", here(&socket));
    let listed = text(&site, &extra, "ssh-add -l");
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

/// SSH_AGENTC_EXTENSION and SSH_AGENT_FAILURE.
const EXTENSION: u8 = 27;
const REFUSAL: [u8; 5] = [0, 0, 0, 1, 5];

fn pass_on(mut stream: UnixStream, mut real: UnixStream) {
    use std::io::Write;
    while let Ok(request) = frame(&mut stream) {
        let answer = match request.get(4) {
            Some(&EXTENSION) => REFUSAL.to_vec(),
            _ => {
                real.write_all(&request).expect("the agent");
                frame(&mut real).expect("its answer")
            }
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn frame(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes)?;
    let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.resize(4 + length as usize, 0);
    stream.read_exact(&mut bytes[4..])?;
    Ok(bytes)
}

#[test]
fn a_git_commit_is_signed_through_the_agent() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    if installed("git").is_none() {
        return skipped("git", &"not installed");
    }
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let scratch = Scratch::new();
    let public = scratch.write("key.pub", fixture::text("user_ed25519.pub"));
    let command = format!(
        "cd {at} && git init -q repo && cd repo && git -c user.name=n -c user.email=e@x \
         -c gpg.format=ssh -c user.signingkey={key} commit -q --allow-empty -S -m m \
         && git cat-file commit HEAD | grep -c 'BEGIN SSH SIGNATURE'",
        at = here(scratch.path()),
        key = here(&public)
    );
    assert_eq!(text(&site, &forwards(&agent), &command), "1");
}

#[test]
fn the_agent_of_gnupg_is_forwarded() {
    if installed("gpg-agent").is_none() {
        return skipped("gpg-agent", &"not installed");
    }
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    let home = here(scratch.path());
    // It ends with its child, the shell.
    let mut command = Command::new("gpg-agent");
    command
        .args(["--homedir", &home, "--enable-ssh-support", "--daemon"])
        .args(["sh", "-c", "echo \"$SSH_AUTH_SOCK\"; exec sleep 60"])
        .stdout(Stdio::piped());
    let mut agent = Background::start(&mut command).expect("gpg-agent");
    let mut line = String::new();
    let output = agent.0.stdout.take().expect("its output");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let extra = format!("ForwardAgent {}\n", line.trim_end());
    let told = text(&site, &extra, "ssh-add -l; [ $? = 1 ]");
    assert_eq!(told, "The agent has no identities.");
}

/// A session with a forwarded agent that lasts until this is dropped: its socket, and the process
/// that serves it.
struct Lasting {
    socket: std::path::PathBuf,
    server: u32,
    session: Background,
}

impl Lasting {
    fn start(site: &Site, agent: &RealAgent) -> Self {
        let mut command = site.ssh(&forwards(agent));
        command
            .args([HOST, "echo $SSH_AUTH_SOCK; echo $PPID; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut session = Background::start(&mut command).expect("a client");
        let output = session.0.stdout.take().expect("its output");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
        let mut line = || lines.next().expect("a line").expect("a text");
        Self {
            socket: line().into(),
            server: line().parse().expect("a process"),
            session,
        }
    }

    /// Ends the session, and waits until its socket is gone.
    fn end(mut self) {
        drop(self.session.0.stdin.take());
        assert!(until(COMMAND_LIMIT, || !self.socket.exists()));
    }
}

#[test]
fn one_name_leads_to_the_agent_of_the_newest_session() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let scratch = Scratch::new();
    let at = here(scratch.path());
    let lines = format!("AgentSocketPath user:{at}/agent\n");
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, &lines);
    let name = Command::new("uname").arg("-n").output().expect("a name");
    let name = String::from_utf8(name.stdout).expect("a text");
    let folder = scratch.path().join("agent");
    let link = folder.join(format!("current.{}", name.trim_end()));
    let leads_to = |session: &Lasting| {
        let found = || fs::read_link(&link).is_ok_and(|name| folder.join(name) == session.socket);
        assert!(
            until(COMMAND_LIMIT, found),
            "{:?} {:?}",
            fs::read_link(&link),
            session.socket
        );
    };
    let serves = || {
        let mut command = Command::new("ssh-add");
        command.arg("-l").env("SSH_AUTH_SOCK", &link);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    };
    let first = Lasting::start(&site, &agent);
    leads_to(&first);
    serves();
    let second = Lasting::start(&site, &agent);
    leads_to(&second);
    serves();
    // The older one ends: nothing changes.
    first.end();
    leads_to(&second);
    let third = Lasting::start(&site, &agent);
    leads_to(&third);
    // The newer one ends: the name leads to the one before.
    third.end();
    leads_to(&second);
    serves();
    // One that is killed leaves its socket, and the next that begins or ends mends the name.
    let killed = Lasting::start(&site, &agent);
    leads_to(&killed);
    interop::process::kill(killed.server);
    let last = Lasting::start(&site, &agent);
    leads_to(&last);
    last.end();
    leads_to(&second);
    serves();
    second.end();
    assert!(until(COMMAND_LIMIT, || fs::symlink_metadata(&link).is_err()));
}

#[test]
fn without_agent_socket_link_there_is_no_other_name() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let scratch = Scratch::new();
    let at = here(scratch.path());
    let lines = format!("AgentSocketPath user:{at}/agent\nAgentSocketLink no\n");
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, &lines);
    let command = format!("ls {at}/agent | grep -c current");
    let outcome = site.run_with(&forwards(&agent), &[HOST, &command], Input::Nothing);
    assert_eq!(outcome.stdout.text().trim(), "0", "{}", outcome.summary());
}

/// Otherwise a key that may run one command would receive the keys that other sessions add.
#[test]
fn the_name_leads_to_no_agent_of_a_forced_command() {
    let Some(agent) = RealAgent::start(&["ed25519"]) else {
        return;
    };
    let scratch = Scratch::new();
    let at = here(scratch.path());
    let lines = format!("AgentSocketPath user:{at}/agent\nForceCommand ls {at}/agent\n");
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, &lines);
    let outcome = site.run_with(&forwards(&agent), &[HOST, "true"], Input::Nothing);
    let found = outcome.stdout.text();
    assert!(found.contains(".sshd-forced."), "{}", outcome.summary());
    assert!(!found.contains("current."), "{}", outcome.summary());
}
