//! `fulmar agent` and `fulmar add` beside the installed ssh-agent and ssh-add: each program with
//! OpenSSH's other half, the same words and exit codes, and the protocol's limits.
//!
//! The test program runs itself with `FULMAR_ROLE` set to be one of the programs under test.

#[path = "agent/answers.rs"]
mod answers;
#[path = "../../keygen/tests/keygen/named.rs"]
mod named_tests;
#[path = "agent/protocol.rs"]
mod protocol;
#[path = "agent/security_keys.rs"]
mod security_keys;
#[path = "agent/start.rs"]
mod start;
#[path = "agent/tools.rs"]
mod tools;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use named_tests::{named, run_named};

use agent::AgentClient;

const ROLE: &str = "FULMAR_ROLE";
/// Limit on the time of anything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

type Test = fn(&Folder);

fn main() {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == fido::ROLE) {
        std::process::exit(fido::main(args));
    }
    match std::env::var(ROLE).as_deref() {
        Ok("agent") => std::process::exit(agentd::run(args)),
        Ok("add") => std::process::exit(add::run(args)),
        _ => {}
    }
    let tests: &[(&str, Test)] = &[
        named!(tools::keys_of_all_types_are_added_listed_tested_and_removed),
        named!(tools::the_words_and_statuses_are_those_of_ssh_add),
        named!(tools::certificates_go_with_their_keys_and_expire),
        named!(tools::passphrases_are_asked_for_and_kept_for_the_next_key),
        named!(tools::a_locked_agent_shows_nothing),
        named!(tools::git_signs_with_a_key_of_the_agent),
        named!(start::shells_are_told_what_ssh_agent_tells_them),
        named!(start::a_command_has_its_own_agent),
        named!(start::the_service_manager_passes_a_socket),
        named!(start::sockets_go_with_their_agents),
        named!(start::the_process_is_confined),
        named!(start::its_user_cannot_trace_or_dump_it),
        named!(answers::each_agent_gives_the_same_answers),
        named!(answers::attempts_to_unlock_from_elsewhere_delay_nobody_here),
        named!(answers::questions_from_elsewhere_leave_room_for_those_from_here),
        named!(protocol::a_key_that_waits_for_its_user_delays_nobody),
        named!(protocol::pipelined_requests_are_answered_in_order),
        named!(protocol::wrong_passphrases_are_slowed_down),
        named!(protocol::lifetimes_end_and_a_signal_drops_keys),
        named!(protocol::no_provider_is_loaded_for_anybody),
        named!(security_keys::a_token_that_waits_delays_nobody),
        named!(security_keys::clients_that_leave_free_no_room),
        named!(security_keys::libraries_are_loaded_for_local_clients_only),
        named!(security_keys::keys_of_web_sites_sign_no_other_data),
        named!(security_keys::resident_keys_are_added_with_their_constraints),
        named!(security_keys::the_dummy_token_of_openssh_signs_over_each_agent),
        named!(protocol::bindings_are_verified_and_count_while_locked),
        named!(protocol::restricted_keys_sign_only_on_their_path),
        named!(protocol::a_bad_client_harms_no_other),
        named!(protocol::a_thousand_clients_are_served),
    ];
    run_named(tests, |name, test: Test| test(&Folder::new(name)));
}

/// The programs under test, or OpenSSH's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Theirs,
}

impl Whose {
    /// Ours, and OpenSSH's if this machine has it.
    fn all() -> Vec<Self> {
        match has("ssh-agent") && has("ssh-add") {
            true => vec![Self::Ours, Self::Theirs],
            false => {
                println!("skipped: OpenSSH's agent is not installed");
                vec![Self::Ours]
            }
        }
    }

    fn command(self, role: &str) -> Command {
        let program = match self {
            Self::Theirs => PathBuf::from(format!("ssh-{role}")),
            Self::Ours => std::env::current_exe().expect("this program"),
        };
        let mut command = match role {
            // In a session of its own: passphrases are asked for at the terminal, if there is one.
            "add" => Command::new("setsid"),
            _ => Command::new(&program),
        };
        if role == "add" {
            command.arg("--wait").arg(program);
        }
        if self == Self::Ours {
            command.env(ROLE, role);
        }
        command
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// What a run gave.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    status: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command with input to its end.
fn run(command: &mut Command, input: &str) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program");
    let mut stdin = child.stdin.take().expect("its input");
    // A program that ends early reads nothing.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("its output");
    Run {
        status: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        // OpenSSH ends the lines of its log for terminals in raw mode.
        err: String::from_utf8_lossy(&output.stderr).replace("\r\n", "\n"),
    }
}

/// Waits for a condition.
fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "it does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A folder that goes with its test; it is the programs' home.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Self {
        let short: String = name.chars().filter(char::is_ascii_alphabetic).collect();
        let short = short.get(short.len().saturating_sub(12)..).unwrap_or("x");
        let path = std::env::temp_dir().join(format!("fag-{}-{short}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self { path }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a key by ssh-keygen's work, in this process.
    fn key(&self, name: &str, spec: keys::KeySpec, passphrase: Option<&str>) -> keys::PrivateKey {
        let key = keys::PrivateKey::generate(spec).expect("a key");
        let secret = passphrase.map(str::as_bytes);
        let text = keys::private_file::write_openssh(&key, name, secret).expect("its file");
        let path = self.join(name);
        let _ = std::fs::remove_file(&path);
        sys::file::write_private(&path, text.as_bytes()).expect("a file");
        let public = keys::PresentedKey::from(key.public().clone());
        let line = keys::public_file::to_line(&public, name) + "\n";
        std::fs::write(self.join(&format!("{name}.pub")), line).expect("a file");
        key
    }

    /// A program in this folder, without an agent in its environment.
    fn command(&self, whose: Whose, role: &str) -> Command {
        let mut command = whose.command(role);
        command
            .current_dir(&self.path)
            .env("HOME", &self.path)
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("SSH_AGENT_PID")
            .env_remove("SSH_ASKPASS")
            .env_remove("SSH_ASKPASS_REQUIRE")
            .env_remove("DISPLAY");
        command
    }

    /// A program that answers for the user: writes its question to a file, then waits for a file
    /// that says yes or no.
    fn askpass(&self) -> PathBuf {
        let path = self.join("askpass");
        let (asked, answer) = (self.join("asked"), self.join("answer"));
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$1\" >> {0}\necho \"hint $SSH_ASKPASS_PROMPT\" >> {0}\n\
             while ! test -e {1}; do test -e {0} || exit 1; sleep 0.02; done\ntest \"$(cat {1})\" = yes\n",
            asked.display(),
            answer.display()
        );
        std::fs::write(&path, text).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&path, mode).expect("its mode");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A running agent, ended with its test.
struct Agent {
    process: std::process::Child,
    socket: PathBuf,
}

impl Agent {
    fn start(folder: &Folder, whose: Whose, flags: &[&str]) -> Self {
        Self::start_with(folder, whose, flags, |_| {})
    }

    fn start_with(
        folder: &Folder,
        whose: Whose,
        flags: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let socket = folder.join(match whose {
            Whose::Ours => "ours",
            Whose::Theirs => "theirs",
        });
        let _ = std::fs::remove_file(&socket);
        let mut command = folder.command(whose, "agent");
        command.args(["-D", "-a"]).arg(&socket).args(flags);
        command.stdout(Stdio::null()).stdin(Stdio::null());
        change(&mut command);
        let process = command.spawn().expect("an agent");
        let agent = Self { process, socket };
        until(|| UnixStream::connect(&agent.socket).is_ok());
        // An agent that answers also handles its signals.
        agent.connect().list().expect("an answer");
        agent
    }

    /// Our agent, which asks the folder's askpass.
    fn start_asking(folder: &Folder, flags: &[&str]) -> Self {
        let askpass = folder.askpass();
        Self::start_with(folder, Whose::Ours, flags, |command| {
            command
                .env("SSH_ASKPASS", &askpass)
                .env("SSH_ASKPASS_REQUIRE", "force");
        })
    }

    fn connect(&self) -> AgentClient<UnixStream> {
        AgentClient::new(UnixStream::connect(&self.socket).expect("an agent"))
    }

    /// An ssh-add for this agent.
    fn add(&self, folder: &Folder, whose: Whose, args: &[&str]) -> Run {
        self.add_with(folder, whose, args, "")
    }

    fn add_with(&self, folder: &Folder, whose: Whose, args: &[&str], input: &str) -> Run {
        let mut command = folder.command(whose, "add");
        command.env("SSH_AUTH_SOCK", &self.socket).args(args);
        run(&mut command, input)
    }

    fn signal(&self, signal: sys::signals::Signal) {
        let pid = i32::try_from(self.process.id()).expect("a process id");
        sys::signals::send(pid, signal).expect("a signal");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(sys::signals::Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
