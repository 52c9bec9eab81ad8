//! What a restricted login can still do: one table for both servers.
//!
//! [`rows`] has one [`row::Row`] for each option of sshd_config, of authorized_keys and of
//! certificates that restricts, with what OpenSSH's server permits under it. [`probe`] logs in with
//! OpenSSH's client and tries everything: shell, terminal, command, subsystem, SFTP servers, rc
//! files, environments and each kind of forwarding. [`place`] runs the server with its files in a
//! private mount namespace, so that no account, no `/etc/ssh/sshrc` and no home of the machine is
//! changed. [`differences`] lists our known differences with reasons; `tests/table.rs` fails for an
//! unlisted difference, and for a listed one that does not occur.
#![forbid(unsafe_code)]

pub mod datagrams;
pub mod differences;
pub mod place;
pub mod probe;
pub mod row;
pub mod rows;
pub mod services;
pub mod takeover;
