//! How the agent starts and ends, and what its process may do.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use keys::KeySpec;
use sys::signals::Signal;

use crate::{Agent, Folder, Whose, exists, has, run, until};

/// The variables that a shell gets from an agent's output, with the process id replaced.
fn told(folder: &Folder, whose: Whose, flags: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = folder.command(whose, "agent");
    command.args(flags).envs(environment.iter().copied());
    let socket = folder.join("told");
    command.arg("-a").arg(&socket);
    let run = run(&mut command, "");
    assert_eq!(run.status, Some(0), "{whose:?} {run:?}");
    let digits: Vec<&str> = run
        .out
        .split(|c: char| !c.is_ascii_digit())
        .filter(|text| text.len() > 1)
        .collect();
    let pid = *digits.last().expect("a process id");
    let mut kill = folder.command(whose, "agent");
    kill.arg("-k")
        .env("SSH_AGENT_PID", pid)
        .env("SHELL", "/bin/sh");
    let killed = crate::run(&mut kill, "");
    let expected =
        format!("unset SSH_AUTH_SOCK;\nunset SSH_AGENT_PID;\necho Agent pid {pid} killed;\n");
    assert_eq!((killed.status, killed.out), (Some(0), expected));
    match whose {
        Whose::Ours => until(|| !exists(&socket)),
        // It leaves its socket if the signal comes before it has a handler.
        Whose::Theirs => {
            let agent_has_ended = || std::os::unix::net::UnixStream::connect(&socket).is_err();
            until(agent_has_ended);
            let _ = std::fs::remove_file(&socket);
        }
    }
    run.out.replace(pid, "PID")
}

/// Flags and the environment.
type ShellCase<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

pub(crate) fn shells_are_told_what_ssh_agent_tells_them(folder: &Folder) {
    let cases: &[ShellCase<'_>] = &[
        (&["-s"], &[]),
        (&["-c"], &[]),
        (&[], &[("SHELL", "/bin/tcsh")]),
        (&[], &[("SHELL", "/bin/bash")]),
    ];
    for (flags, environment) in cases {
        let all = Whose::all();
        let texts: Vec<String> = all
            .iter()
            .map(|whose| told(folder, *whose, flags, environment))
            .collect();
        assert!(
            texts.windows(2).all(|pair| pair[0] == pair[1]),
            "{texts:#?}"
        );
        assert!(texts[0].contains("SSH_AGENT_PID") && texts[0].ends_with("echo Agent pid PID;\n"));
    }
    for whose in Whose::all() {
        let mut command = folder.command(whose, "agent");
        let none = run(command.arg("-k"), "");
        assert_eq!(none.err, "SSH_AGENT_PID not set, cannot kill agent\n");
        assert_eq!(none.status, Some(1));
        let mut command = folder.command(whose, "agent");
        let taken = run(command.args(["-a", "/nonexistent/socket"]), "");
        assert_eq!(taken.status, Some(1), "{whose:?} {taken:?}");
    }
}

pub(crate) fn a_command_has_its_own_agent(folder: &Folder) {
    for whose in Whose::all() {
        let mut command = folder.command(whose, "agent");
        let script = "ssh-add -l; echo $SSH_AUTH_SOCK; test -S $SSH_AUTH_SOCK && kill -0 $SSH_AGENT_PID; exit 7";
        let ran = run(command.args(["sh", "-c", script]), "");
        assert_eq!(ran.status, Some(7), "{whose:?} {ran:?}");
        let socket = ran.out.lines().last().expect("a socket").to_owned();
        assert!(
            ran.out.starts_with("The agent has no identities.\n"),
            "{ran:?}"
        );
        if whose == Whose::Ours {
            assert!(socket.contains("/.ssh/agent/s."), "{socket}");
            until(|| !exists(socket.as_ref()));
            let mut command = folder.command(whose, "agent");
            command.args(["-T", "sh", "-c", "echo $SSH_AUTH_SOCK"]);
            let ran = run(command.env("TMPDIR", &folder.path), "");
            let below = folder.path.display().to_string() + "/ssh-";
            assert!(ran.out.starts_with(&below), "{ran:?}");
        }
        let mut command = folder.command(whose, "agent");
        let missing = run(command.arg("/nonexistent/program"), "");
        assert_eq!(
            (missing.status, &*missing.err),
            (Some(1), "/nonexistent/program: No such file or directory\n")
        );
    }
}

pub(crate) fn the_service_manager_passes_a_socket(folder: &Folder) {
    let path = folder.join("activated");
    let listener = UnixListener::bind(&path).unwrap();
    let mut script = Command::new("sh");
    // LISTEN_PID is that of the program itself.
    script.args(["-c", "LISTEN_PID=$$ exec \"$AGENT\" -D 3<&0"]);
    let ours = std::env::current_exe().unwrap();
    script
        .current_dir(&folder.path)
        .env("HOME", &folder.path)
        .env("AGENT", ours)
        .env(crate::ROLE, "agent")
        .env("LISTEN_FDS", "1")
        .stdin(std::process::Stdio::from(
            listener.as_fd().try_clone_to_owned().unwrap(),
        ))
        .stdout(std::process::Stdio::piped());
    drop(listener);
    let process = script.spawn().unwrap();
    let mut agent = Agent {
        process,
        socket: path.clone(),
    };
    assert!(agent.connect().list().unwrap().is_empty());
    agent.signal(sys::signals::Signal::TERM);
    assert_eq!(agent.process.wait().unwrap().code(), Some(2));
    // The socket is the service manager's.
    assert!(exists(&path));
}

pub(crate) fn sockets_go_with_their_agents(folder: &Folder) {
    use sys::signals::Signal;
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL] {
        let mut agent = Agent::start(folder, Whose::Ours, &[]);
        agent.signal(signal);
        agent.process.wait().unwrap();
        match signal {
            Signal::KILL => until(|| !exists(&agent.socket)),
            // Another agent may listen there at once.
            _ => assert!(!exists(&agent.socket)),
        }
    }
    let mut command = folder.command(Whose::Ours, "agent");
    let cleaned = run(command.arg("-u"), "");
    assert_eq!(cleaned.out, "Deleted stale agent sockets in ~/.ssh/agent\n");
}

pub(crate) fn the_process_is_confined(folder: &Folder) {
    folder.key("rsa", KeySpec::Rsa { bits: 2048 }, None);
    let agent = Agent::start(folder, Whose::Ours, &[]);
    agent.add(folder, Whose::Ours, &["-q", "rsa"]);
    // A thread signs after the sandbox is in effect.
    assert_eq!(
        agent.add(folder, Whose::Ours, &["-T", "rsa.pub"]).status,
        Some(0)
    );
    let pid = agent.process.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1))
            .unwrap_or("")
            .to_owned()
    };
    assert_eq!(
        (field("Seccomp:"), field("NoNewPrivs:")),
        ("2".to_owned(), "1".to_owned())
    );
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    assert!(
        core.is_some_and(|line| line.split_whitespace().nth(4) == Some("0")),
        "{core:?}"
    );
    // A process that may not be traced by its user belongs to root in /proc.
    use std::os::unix::fs::MetadataExt;
    assert_eq!(
        std::fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid(),
        0
    );
    assert_ne!(field("VmLck:"), "0", "{status}");
}

/// Runs the command as the user of the agent under test: as somebody without privilege, if this process
/// is root, whom nothing keeps from tracing.
fn as_user(command: &mut Command) -> &mut Command {
    const NOBODY: u32 = 65_534;
    match sys::process::is_root() {
        true => command.uid(NOBODY).gid(NOBODY),
        false => command,
    }
}

/// The error of a program of the agent's user that reads the memory of process `pid`, which takes the
/// same right as ptrace's attach (proc_pid_mem(5)).
fn told_by_memory_of(pid: u32) -> String {
    let mut reader = Command::new("head");
    reader.args(["-c", "1"]).arg(format!("/proc/{pid}/mem"));
    run(as_user(&mut reader), "").err
}

/// Neither ptrace nor a core file gives keys to other programs of the user, and they are not swapped.
pub(crate) fn its_user_cannot_trace_or_dump_it(folder: &Folder) {
    let may_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder.path, may_all).unwrap();
    let mut agent = Agent::start_with(folder, Whose::Ours, &[], |command| {
        as_user(command);
    });
    folder.key("key", KeySpec::Ed25519, None);
    assert_eq!(
        agent.add(folder, Whose::Ours, &["-q", "key"]).status,
        Some(0)
    );
    let pid = agent.process.id();
    let refused = told_by_memory_of(pid);
    assert!(refused.contains("Permission denied"), "{refused}");
    // Another process of that user, if the system's settings permit to trace it.
    let mut sleeps = Command::new("sleep");
    let mut other = as_user(sleeps.arg("600"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until(|| std::fs::read(format!("/proc/{}/comm", other.id())).is_ok_and(|it| it == b"sleep\n"));
    let allowed = told_by_memory_of(other.id());
    if allowed.contains("Permission denied") {
        println!("skipped: this system permits no tracing");
    } else {
        assert!(allowed.contains("Input/output error"), "{allowed}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    if has("strace") {
        let mut tracer = Command::new("strace");
        tracer.args(["-o", "/dev/null", "-p", &pid.to_string()]);
        let traced = run(as_user(&mut tracer), "");
        assert_ne!(traced.status, Some(0));
        assert!(traced.err.contains("not permitted"), "{}", traced.err);
    }
    // Only root reads the state of its memory: the heap, where keys are, is locked and in no core file.
    if let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/smaps")) {
        let (_, heap) = maps.split_once("[heap]").expect("a heap");
        let flags = heap.lines().find_map(|line| line.strip_prefix("VmFlags:"));
        let flags: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
        assert!(flags.contains(&"lo"), "{flags:?}");
    }
    agent.signal(Signal::ABRT);
    let ended = agent.process.wait().unwrap();
    assert_eq!(ended.signal(), Some(6), "{ended:?}");
    assert!(!ended.core_dumped());
}
