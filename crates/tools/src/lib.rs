//! Programs beside ssh and sshd: key generation, the demonstration, measurements and the
//! installer. Each has a `run(args) -> exit status` that the one binary calls.
#![forbid(unsafe_code)]

// What is printed is nothing to panic about.
#[macro_use]
extern crate sys;

pub mod bench;
mod copy;
mod corpus;
pub mod demo;
pub mod install;
mod json;
pub mod keygen;
mod lab;
mod moduli;
pub mod scp;
pub mod sftp;
pub mod sftp_server;
pub mod speed;
mod table;
