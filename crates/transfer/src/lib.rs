//! Files moved in bulk. [`serve`] is the server's side: it carries out what an SFTP client asks.
//!
//! Messages and their rules are in `sftp`, the way to a channel in `driver`, system calls in
//! `sys`.
#![forbid(unsafe_code)]

pub mod serve;
