//! The one binary: `ssh`, `sshd`, `keygen`, … by subcommand or by the name it is called by.
//!
//! Roles of the privilege chain (`sshd-monitor`, `sshd-auth`, `sshd-session`) are executions of
//! this binary by itself and no commands for people.
#![forbid(unsafe_code)]

mod dispatch;

fn main() {
    let status = dispatch::run(std::env::args_os().collect());
    std::process::exit(status);
}
