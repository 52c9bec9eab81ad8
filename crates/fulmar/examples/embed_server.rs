//! A program that accepts logins and serves two commands of its own.
//!
//! ```text
//! cargo run --example embed_server -- [PORT]
//! ```
//!
//! It listens on the loopback address, prints its port, its host key and a password made for this
//! run, and serves `echo WORDS` and `cat` (which returns its input) to any user with that password,
//! until its standard input ends. It gives access to no shell, file or other program.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use fulmar::keys::{KeySpec, PrivateKey};
use fulmar::server::{Attempt, Authenticator, Channel, Config, Decision, Login, Server, Start};

/// One password for all users.
struct Password(String);

impl Authenticator for Password {
    fn password(&self, _attempt: &Attempt<'_>, password: &[u8]) -> Decision {
        // Takes the same time wherever the first wrong byte is.
        let ours = self.0.as_bytes();
        let differences = ours
            .iter()
            .zip(password)
            .fold(0, |all, (a, b)| all | (a ^ b));
        (ours.len() == password.len() && differences == 0).into()
    }
}

fn serve(login: &Login, start: &Start, channel: &mut Channel) -> u32 {
    let Start::Exec(command) = start else {
        let _ = writeln!(channel.stderr(), "say echo or cat, {}", login.user);
        return 1;
    };
    let served = match command.as_slice() {
        b"cat" => copy(channel),
        command => match command.strip_prefix(b"echo ") {
            Some(words) => channel.write_all(words).and_then(|()| writeln!(channel)),
            None => {
                let _ = writeln!(channel.stderr(), "no such command");
                return 127;
            }
        },
    };
    u32::from(served.is_err())
}

/// Reading and writing wait for the client, so this needs no more memory than its buffer.
fn copy(channel: &Channel) -> io::Result<()> {
    let (mut input, mut output) = (channel, channel);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = input.read(&mut buffer)?;
        match buffer.get(..count) {
            Some([]) | None => return Ok(()),
            Some(bytes) => output.write_all(bytes)?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = match std::env::args().nth(1) {
        Some(port) => port.parse()?,
        None => 0,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let host_key = PrivateKey::generate(KeySpec::Ed25519)?;
    let mut random = [0; 18];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let password = fulmar::keys::base64::encode(&random);

    println!("port: {}", listener.local_addr()?.port());
    println!("host key: {}", host_key.public().to_line());
    println!("password: {password}");
    io::stdout().flush()?;

    let server = Server::new(Config::new(vec![host_key]), Password(password), serve)?;
    let stopper = server.stopper();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        stopper.stop();
    });
    server.serve(listener)?;
    Ok(())
}
