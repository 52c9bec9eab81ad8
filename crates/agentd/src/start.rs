//! Starts the agent: makes its socket and its process, and prints the commands for the starting shell.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use agent::socket::{self, AgentPlace, AgentSocket, SOCKET_MASK, SocketOwner};
use sys::process::PidFd;
use sys::signals::{Signal, SignalFd};

use crate::event_loop::{AgentLoop, LoopEnd, LoopSources};
use crate::helper::{Helper, HelperTask};
use crate::keyring::Keyring;
use crate::log::AgentLog;
use crate::options::{RunMode, ServeOptions, Shell, SocketChoice};
use crate::requests::KeyAgent;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Exit status after a signal.
const STATUS_SIGNAL: i32 = 2;

const SOCKET_VARIABLE: &str = "SSH_AUTH_SOCK";
const PID_VARIABLE: &str = "SSH_AGENT_PID";

/// The user of this process.
pub(crate) struct Person {
    name: String,
    uid: u32,
    home: String,
}

impl Person {
    /// Home is that of the environment, else that of the user database.
    pub(crate) fn find() -> Result<Self, String> {
        let uid = sys::process::effective_uid();
        let known = sys::users::by_uid(uid)
            .ok()
            .flatten()
            .ok_or_else(|| format!("No user exists for uid {uid}"))?;
        let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
        let home = home.unwrap_or_else(|| known.home.to_string_lossy().into_owned());
        Ok(Self {
            name: known.name,
            uid,
            home,
        })
    }

    fn owner(&self) -> SocketOwner<'_> {
        SocketOwner {
            user: &self.name,
            uid: self.uid,
            home: &self.home,
            pid: std::process::id(),
            program: "local",
        }
    }
}

/// Removes stale sockets (`-u`).
pub(crate) fn clean(of_any_host: bool) -> Result<(), String> {
    socket::remove_stale(
        &socket::default_place(),
        &Person::find()?.owner(),
        of_any_host,
    );
    println!("Deleted stale agent sockets in ~/.ssh/agent");
    Ok(())
}

/// Ends the agent of `SSH_AGENT_PID` (`-k`).
pub(crate) fn kill(shell: Option<Shell>) -> Result<(), String> {
    let text = std::env::var(PID_VARIABLE)
        .map_err(|_| format!("{PID_VARIABLE} not set, cannot kill agent"))?;
    let pid: i32 =
        text.parse().ok().filter(|pid| *pid > 1).ok_or_else(|| {
            format!("{PID_VARIABLE}=\"{text}\", which is not a good PID: invalid")
        })?;
    sys::signals::send(pid, Signal::TERM)
        .map_err(|error| format!("kill: {}", escape::system_words(&error.to_string())))?;
    let verb = match shell.unwrap_or_else(Shell::of_environment) {
        Shell::C => "unsetenv",
        Shell::Bourne => "unset",
    };
    println!("{verb} {SOCKET_VARIABLE};");
    println!("{verb} {PID_VARIABLE};");
    println!("echo Agent pid {pid} killed;");
    Ok(())
}

/// The listening socket, and its place unless the service manager made it.
struct Listening {
    listener: OwnedFd,
    socket: Option<AgentSocket>,
}

/// Holds keys until the end; returns the exit status.
pub(crate) fn serve(options: ServeOptions) -> Result<i32, String> {
    sys::memory::use_one_heap();
    // The limits of core files are those of the agent alone, not of a command that is started.
    sys::process::set_dumpable(false).map_err(|error| error.to_string())?;
    let listening = listen(&options)?;
    let shell = options.shell.unwrap_or_else(Shell::of_environment);
    match options.mode.clone() {
        RunMode::Foreground | RunMode::Debug => {
            if let Some(socket) = &listening.socket {
                announce(shell, &socket.path, None);
                println!("echo Agent pid {};", std::process::id());
            }
            run(&options, listening, None, || Ok(()))
        }
        RunMode::Background => {
            let path = listening.socket.as_ref().map(|socket| socket.path.clone());
            match in_background(options, listening, None)? {
                AfterFork::Agent(status) => Ok(status),
                AfterFork::Starter(pid) => {
                    announce(shell, &path.unwrap_or_default(), Some(pid));
                    println!("echo Agent pid {pid};");
                    Ok(0)
                }
            }
        }
        RunMode::Command(command) => {
            let path = listening.socket.as_ref().map(|socket| socket.path.clone());
            let own =
                PidFd::open(sys::process::harden::pid()).map_err(|error| error.to_string())?;
            match in_background(options, listening, Some(own))? {
                AfterFork::Agent(status) => Ok(status),
                AfterFork::Starter(pid) => Err(execute(&command, &path.unwrap_or_default(), pid)),
            }
        }
    }
}

fn listen(options: &ServeOptions) -> Result<Listening, String> {
    let bind = |path: &Path| sys::socket::listen_unix(path, BACKLOG, SOCKET_MASK);
    let in_foreground = matches!(options.mode, RunMode::Foreground | RunMode::Debug);
    if options.socket == SocketChoice::Default && in_foreground {
        let mut passed = sys::systemd::listen_fds().map_err(|error| error.to_string())?;
        match (passed.pop(), passed.is_empty()) {
            (Some(listener), true) => {
                return Ok(Listening {
                    listener,
                    socket: None,
                });
            }
            (Some(_), false) => {
                return Err("the service manager passed more than one socket".to_owned());
            }
            (None, _) => {}
        }
    }
    let (place, made) = match &options.socket {
        SocketChoice::Path(path) => {
            let made = bind(path).map(|listener| (listener, AgentSocket::at(path.clone())));
            (None, (path.display().to_string(), made))
        }
        SocketChoice::Temporary => {
            let parent = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
            let parent = parent.unwrap_or_else(|| OsString::from("/tmp"));
            let made = socket::listen_below(parent.as_ref(), std::process::id(), bind);
            (None, (parent.display().to_string(), made))
        }
        SocketChoice::Place(text) => {
            let place = AgentPlace::parse(text).ok_or_else(|| {
                format!(
                    "cannot make the agent's socket ({}): the place is user:DIRECTORY or \
                     shared:/DIRECTORY",
                    escape::one_line(text)
                )
            })?;
            let made = at_place(&place, bind)?;
            (Some(place), made)
        }
        SocketChoice::Default => {
            let place = socket::default_place();
            let made = at_place(&place, bind)?;
            (Some(place), made)
        }
    };
    if let Some(place) = place.filter(|_| !options.keeps_stale_sockets) {
        socket::remove_stale(&place, &Person::find()?.owner(), false);
    }
    let (named, made) = made;
    let (listener, socket) = made.map_err(|error| {
        let words = error.to_string();
        let words = escape::system_words(&words);
        format!("cannot make the agent's socket ({named}): {words}")
    })?;
    Ok(Listening {
        listener,
        socket: Some(socket),
    })
}

type Made = (String, io::Result<(OwnedFd, AgentSocket)>);

fn at_place(
    place: &AgentPlace,
    bind: impl FnOnce(&Path) -> io::Result<OwnedFd>,
) -> Result<Made, String> {
    let person = Person::find()?;
    Ok((
        place.to_string(),
        socket::listen(place, &person.owner(), bind),
    ))
}

/// Prints what the shell is to set.
fn announce(shell: Shell, path: &Path, pid: Option<i32>) {
    let path = quoted(&path.to_string_lossy());
    let variables = [
        (SOCKET_VARIABLE, Some(path)),
        (PID_VARIABLE, pid.map(|pid| pid.to_string())),
    ];
    for (name, value) in variables {
        let Some(value) = value else { continue };
        match shell {
            Shell::C => println!("setenv {name} {value};"),
            Shell::Bourne => println!("{name}={value}; export {name};"),
        }
    }
}

/// A word for either shell: in quotes if it has other than harmless characters, as in OpenSSH in
/// double ones if nothing in it has a meaning there.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else if text.contains(['$', '`', '"', '\\', '!']) {
        format!("'{}'", text.replace('\'', "'\\''"))
    } else {
        format!("\"{text}\"")
    }
}

/// Which process goes on.
enum AfterFork {
    /// The agent, at its end, with its exit status.
    Agent(i32),
    /// The process that has started the agent with this id, which serves by now.
    Starter(i32),
}

/// The first byte of the report of an agent that serves; any other begins the reason why it does not.
const READY: u8 = 0;
/// Longest reason, bytes.
const MAX_REASON_BYTES: usize = 4096;

fn in_background(
    options: ServeOptions,
    listening: Listening,
    parent: Option<PidFd>,
) -> Result<AfterFork, String> {
    let text = |error: io::Error| error.to_string();
    let (report, ours) = sys::io::pipe().map_err(text)?;
    if let Some(pid) = sys::process::fork().map_err(text)? {
        drop((ours, listening));
        let mut bytes = vec![0; MAX_REASON_BYTES];
        let length = sys::io::read(&report, &mut bytes).map_err(text)?;
        return match bytes.get(..length).unwrap_or_default() {
            [] => Err("the agent has ended before it served".to_owned()),
            [READY, ..] => Ok(AfterFork::Starter(pid)),
            reason => Err(String::from_utf8_lossy(reason).into_owned()),
        };
    }
    drop(report);
    let ready = sys::io::dup(&ours).map_err(text)?;
    let ended = leave_starter().map_err(text).and_then(|()| {
        run(&options, listening, parent, move || {
            sys::io::write_all(&ready, &[READY])
        })
    });
    match ended {
        Ok(status) => Ok(AfterFork::Agent(status)),
        Err(reason) => {
            let _ = sys::io::write_all(&ours, reason.as_bytes());
            Err(String::new())
        }
    }
}

/// Leaves the terminal, the directory, the standard streams and all other descriptors of the
/// starting shell, whose readers and locks would wait for the agent's end.
fn leave_starter() -> io::Result<()> {
    sys::process::new_session()?;
    std::env::set_current_dir("/")?;
    let null = sys::io::null()?;
    for target in 0..3 {
        sys::io::replace_stdio(&null, target)?;
    }
    sys::process::close_inherited()
}

/// Serves in this process. `ready` reports that, after everything that may fail.
fn run(
    options: &ServeOptions,
    listening: Listening,
    parent: Option<PidFd>,
    ready: impl FnOnce() -> io::Result<()>,
) -> Result<i32, String> {
    let place = listening.socket.clone();
    let ended = prepare(options, listening, parent).and_then(|mut agent| {
        let end = ready().and_then(|()| agent.run());
        agent.finish();
        end
    });
    match ended {
        Ok(LoopEnd::Signal | LoopEnd::ParentEnded) => Ok(STATUS_SIGNAL),
        Err(error) => {
            if let Some(socket) = place {
                socket.remove();
            }
            Err(format!("the agent ends: {error}"))
        }
    }
}

fn prepare(
    options: &ServeOptions,
    listening: Listening,
    parent: Option<PidFd>,
) -> io::Result<AgentLoop> {
    let log = match options.mode {
        RunMode::Debug => AgentLog::debugging(),
        RunMode::Foreground => AgentLog::foreground(),
        _ => AgentLog::background(),
    };
    let task = HelperTask {
        socket: listening.socket,
        allowed_providers: options.providers.allowed.clone(),
    };
    let (helper, listener) = Helper::start(task, listening.listener)?;
    let mut signals = vec![Signal::TERM, Signal::HUP, Signal::USR1];
    match options.mode {
        RunMode::Debug | RunMode::Foreground => signals.push(Signal::INT),
        _ => sys::signals::ignore(Signal::INT)?,
    }
    let signals = SignalFd::new(&signals)?;
    let agent = KeyAgent {
        keyring: Keyring::default(),
        log,
        default_lifetime: options.lifetime,
        fingerprint_hash: options.fingerprint_hash,
        allows_remote_providers: options.allows_remote_providers,
        websafe: options.providers.websafe.clone(),
        has_grown: false,
    };
    let sources = LoopSources {
        listener,
        signals,
        helper,
        parent,
        code: sys::memory::CodePages::find(),
        heap_start: sys::memory::heap_start(),
    };
    let agent = AgentLoop::new(agent, sources)?;
    sys::sandbox::key_agent()?;
    Ok(agent)
}

/// Becomes the command; returns only if that fails, with the reason.
fn execute(command: &[OsString], path: &Path, pid: i32) -> String {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = command.split_first() else {
        return String::new();
    };
    let error = std::process::Command::new(program)
        .args(arguments)
        .env(SOCKET_VARIABLE, path)
        .env(PID_VARIABLE, pid.to_string())
        .exec();
    let error = error.to_string();
    format!("{}: {}", program.display(), escape::system_words(&error))
}
