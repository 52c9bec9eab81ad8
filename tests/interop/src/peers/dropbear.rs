//! dropbear and dbclient. They have no options for key exchange methods and host key algorithms,
//! use their own format of keys, and read authorized_keys only from the user's home.

use std::process::Command;
use std::sync::OnceLock;

use super::{Client, Order, Running, Server, converted};
use crate::account::Guest;
use crate::fixture;
use crate::offers;
use crate::process::{COMMAND_LIMIT, Daemon, Outcome, installed, run, tool};
use crate::scratch::{Scratch, free_port};
use crate::suite::Algorithms;

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct Dbclient;

/// The server.
#[derive(Clone, Copy, Debug)]
pub struct Dropbear;

/// Host key types that dropbear serves: one ECDSA key only.
const HOST_KEYS: [&str; 3] = ["host_ed25519", "host_ecdsa256", "host_rsa"];

fn convert(key: &str) -> Result<std::path::PathBuf, String> {
    let program = installed("dropbearconvert").ok_or("dropbear is not installed")?;
    converted(key, "dropbear", |from, to| {
        tool(
            &program,
            &[
                "openssh".as_ref(),
                "dropbear".as_ref(),
                from.as_os_str(),
                to.as_os_str(),
            ],
        )
    })
}

/// dbclient with its files in `home`, up to its operands.
pub(super) fn client(home: &Scratch, order: &Order<'_>) -> Result<Command, String> {
    let program = installed("dbclient").ok_or("dbclient is not installed")?;
    std::fs::create_dir(home.join(".ssh")).map_err(|error| error.to_string())?;
    // dbclient 2022.83 stores hosts without ports, and treats a comment as part of the key.
    let lines: String = std::fs::read_to_string(order.known_hosts)
        .map_err(|error| error.to_string())?
        .lines()
        .filter(|line| !line.starts_with('@'))
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            Some(format!("127.0.0.1 {} {}\n", fields.next()?, fields.next()?))
        })
        .collect();
    home.write(".ssh/known_hosts", lines);
    let mut command = Command::new(program);
    command
        .env("HOME", home.path())
        .arg("-i")
        .arg(convert(order.identity)?)
        .args(["-p", &order.port.to_string(), "-l", order.user]);
    Ok(command)
}

impl Client for Dbclient {
    fn name(&self) -> String {
        "dbclient".into()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        let program = installed("dbclient").ok_or("dbclient is not installed")?;
        static OFFERS: OnceLock<Result<Algorithms, String>> = OnceLock::new();
        OFFERS
            .get_or_init(|| {
                let home = Scratch::new();
                offers::of_peer(|port| {
                    let mut command = Command::new(program);
                    command.env("HOME", home.path());
                    command.args(["-y", "-p", &port.to_string(), "127.0.0.1", "true"]);
                    command
                })
            })
            .clone()
    }

    fn chooses(&self) -> bool {
        false
    }

    fn run(&self, order: &Order<'_>) -> Result<Outcome, String> {
        let home = Scratch::new();
        let mut command = client(&home, order)?;
        command.args(["-T", "127.0.0.1", order.command]);
        run(&mut command, order.input, COMMAND_LIMIT).map_err(|error| error.to_string())
    }
}

impl Server for Dropbear {
    fn name(&self) -> String {
        "dropbear".into()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        static OFFERS: OnceLock<Result<Algorithms, String>> = OnceLock::new();
        OFFERS
            .get_or_init(|| {
                let running = self.start(&Algorithms::default(), None)?;
                offers::of_server(running.daemon.port).map_err(|error| error.to_string())
            })
            .clone()
    }

    /// It refuses the sixth connection from an address that has not logged in.
    fn logins_at_once(&self) -> usize {
        5
    }

    fn start(&self, _: &Algorithms, _: Option<u64>) -> Result<Running, String> {
        let program = installed("dropbear").ok_or("dropbear is not installed")?;
        let guest = Guest::new()?;
        let keys: String = fixture::authorized_keys()
            .lines()
            .filter(|line| !line.starts_with("cert-authority"))
            .map(|line| format!("{line}\n"))
            .collect();
        guest.write(".ssh/authorized_keys", keys, 0o600);
        guest.write(".ssh/known", "", 0o600);
        std::fs::set_permissions(
            guest.home().join(".ssh"),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .map_err(|error| error.to_string())?;
        let scratch = Scratch::new();
        let port = free_port();
        let known = fixture::known_hosts(&format!("[127.0.0.1]:{port}"));
        let known_hosts = scratch.write("known_hosts", known);
        let mut command = Command::new(program);
        command.args(["-F", "-E", "-m", "-s", "-p", &format!("127.0.0.1:{port}")]);
        command.arg("-P").arg(scratch.join("pid"));
        for key in HOST_KEYS {
            command.arg("-r").arg(convert(key)?);
        }
        let daemon = Daemon::start(&mut command, port, scratch)?;
        let user = guest.name.clone();
        Ok(Running {
            daemon,
            user,
            known_hosts,
            guest: Some(guest),
        })
    }
}
