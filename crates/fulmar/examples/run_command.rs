//! Logs in to a server and runs one command there.
//!
//! ```text
//! cargo run --example run_command -- HOST PORT USER COMMAND
//! ```
//!
//! Logs in with the key file that `SSH_KEY` names, or with the agent's keys; with `SSH_PASSWORD`,
//! by password. The server's key must be in `known_hosts`, or be the public key in `SSH_HOST_KEY`.
//! Exits with the command's status, or 255.

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

use fulmar::client::{Auth, Config, FixedKey, Session};
use fulmar::keys::{private_file, public_file};
use fulmar::{Exit, keys};

fn config() -> Result<Config, Box<dyn Error>> {
    let Ok(line) = std::env::var("SSH_HOST_KEY") else {
        return Ok(Config::default());
    };
    let keys::PresentedKey::Plain(key) = public_file::parse(line.as_bytes())?.key else {
        return Err("SSH_HOST_KEY is a certificate, not a key".into());
    };
    Ok(Config::new(FixedKey(key)))
}

fn log_in(session: &mut Session, user: &str) -> Result<(), Box<dyn Error>> {
    if let Ok(password) = std::env::var("SSH_PASSWORD") {
        session.authenticate(user, Auth::Password(&password))?;
    } else if let Some(path) = std::env::var_os("SSH_KEY") {
        let file = private_file::load(path.as_ref())?;
        let key = private_file::parse(&file, None)?.key;
        session.authenticate(user, Auth::Key(&key))?;
    } else {
        session.authenticate(user, Auth::Agent)?;
    }
    Ok(())
}

fn run() -> Result<u8, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, command] = args.as_slice() else {
        return Err("usage: run_command HOST PORT USER COMMAND".into());
    };
    let mut session = Session::connect(host, port.parse()?, config()?)?;
    log_in(&mut session, user)?;

    let mut channel = session.exec(command)?;
    channel.send_eof();
    // The two streams share one window: read both, each on a thread.
    let mut stderr = channel.stderr();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    std::io::copy(&mut channel, &mut std::io::stdout())?;
    let errors = errors.join().map_err(|_| "reading stderr failed")??;
    std::io::stderr().write_all(&errors)?;

    match channel.wait()? {
        Exit::Status(status) => Ok(u8::try_from(status).unwrap_or(255)),
        other => Err(other.to_string().into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("run_command: {error}");
            ExitCode::from(255)
        }
    }
}
