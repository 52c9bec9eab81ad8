//! Processes: starting ([`spawn`]), waiting ([`wait`]), change of user ([`credentials`]), limits
//! and hardening of the own process ([`limits`], [`harden`]).

pub mod affinity;
pub mod credentials;
pub mod harden;
pub mod limits;
pub mod spawn;
pub mod title;
pub mod usage;
pub mod wait;

mod child;
mod daemon;
mod end;
mod names;
mod printed;

#[cfg(test)]
mod tests;

pub use affinity::{affinity, set_affinity, set_nice};
pub use child::SpawnStep;
pub use credentials::{
    AsUser, Credentials, WithGroups, become_user, effective_uid, give_up_group, is_elevated,
    is_root, own_credentials, real_credentials,
};
pub use daemon::{background, daemonize, fork, is_daemon, leave_terminal, new_session};
pub use end::exit_at_once;
pub use harden::{
    close_from, close_inherited, disable_core_dumps, drop_capabilities, is_dumpable, lock_memory,
    no_new_privs, parent_pid, pid, refuse_exec_gain, set_dumpable, set_name, set_no_new_privs,
    set_oom_score, set_parent_death_signal, set_umask, umask,
};
pub use limits::{Limit, Resource, limit, raise_open_files, set_limit};
pub use names::{find_program, link_chain};
pub use printed::PrintedText;
pub use spawn::{ChildCommand, SelfExe, SpawnError};
pub use title::{set_long_title, set_title};
pub use usage::{Usage, own_usage, wait_usage};
pub use wait::{Child, ExitStatus, PidFd, reap_any};
