//! Tests that need a separate process with one thread: each runs this program again as a child with
//! the name of a scenario, through `SelfExe` as the roles do.

mod cage;
mod scenarios;

use std::os::fd::OwnedFd;

use sys::io::{pipe, read_to_end, stderr};
use sys::process::{Child, ChildCommand, Credentials, ExitStatus, SelfExe};
use sys::signals::Signal;

/// A child that runs a scenario, with its standard input and output as pipes.
pub struct Running {
    /// The child.
    pub child: Child,
    /// Its standard input, until closed.
    pub input: Option<OwnedFd>,
    /// Its standard output.
    pub output: OwnedFd,
}

impl Running {
    /// Waits for the child; returns its exit status and output.
    pub fn finish(mut self) -> (ExitStatus, String) {
        drop(self.input.take());
        let output = read_to_end(&self.output, 1 << 20).unwrap();
        let status = self.child.wait().unwrap();
        (status, String::from_utf8_lossy(&output).into_owned())
    }
}

/// Starts a scenario, as another user if one is given.
pub fn start(
    scenario: &str,
    user: Option<Credentials>,
    prepare: impl FnOnce(&mut ChildCommand),
) -> Running {
    let (stdin, input) = pipe().unwrap();
    let (output, stdout) = pipe().unwrap();
    let mut command = SelfExe::open().unwrap().command().unwrap();
    command.args(["roles-child", "--scenario", scenario]);
    command.fd(stdin, 0).fd(stdout, 1).fd_shared(stderr(), 2);
    if let Some(user) = user {
        command.credentials(user);
    }
    prepare(&mut command);
    Running {
        child: command.spawn().unwrap(),
        input: Some(input),
        output,
    }
}

/// Runs a scenario to its end.
pub fn run(scenario: &str, user: Option<Credentials>) -> (ExitStatus, String) {
    start(scenario, user, |_| ()).finish()
}

/// A user that does not exist.
pub fn stranger() -> Credentials {
    Credentials {
        uid: 54_321,
        gid: 54_322,
        groups: vec![54_322],
    }
}

/// True if `signal` killed the process, with or without a core file.
pub fn was_killed_by(status: ExitStatus, wanted: Signal) -> bool {
    matches!(status, ExitStatus::Signaled { signal, .. } if signal == wanted)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--scenario") => {
            let scenario = arguments.get(2).map_or("", String::as_str);
            if !cage::child(scenario) && !scenarios::child(scenario) {
                panic!("unknown scenario {scenario}");
            }
        }
        Some("--list") => {}
        _ => {
            let ourselves = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(ourselves)).unwrap();
            let wanted = arguments.get(1).filter(|name| !name.starts_with('-'));
            let tests = cage::TESTS.iter().chain(scenarios::TESTS);
            for (name, test) in tests {
                if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
                    test();
                    println!("test roles::{name} ... ok");
                }
            }
        }
    }
}
