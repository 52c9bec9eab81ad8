//! What a login that is restricted can still make the server do: one table for both servers.
//!
//! [`rows`] has one [`row::Row`] for each option of sshd_config, of authorized_keys and of
//! certificates that restricts, with what OpenSSH's server permits under it. [`probe`] logs in with
//! OpenSSH's client and tries everything: shell, terminal, command, subsystem, SFTP servers, rc
//! files, environments and each kind of forwarding. [`place`] holds the server and its files in a
//! mount namespace of its own, so that no account, no `/etc/ssh/sshrc` and no home of the machine is
//! changed. [`differences`] lists where ours differs on purpose or not yet, with the reason;
//! `tests/table.rs` fails on a difference that is not listed, and on a listed one that is gone.
#![forbid(unsafe_code)]

pub mod differences;
pub mod place;
pub mod probe;
pub mod row;
pub mod rows;
pub mod services;
