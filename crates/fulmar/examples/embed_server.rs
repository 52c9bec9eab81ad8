//! A program with an SSH server of its own: `cargo run --example embed_server -- USER PASSWORD`
//!
//! Listens on a free loopback port, prints it and the host key, and serves until its standard input
//! ends: the command `whoami`, and channels of the type `upper@example.org`, which return their
//! input (text of at most 1 MiB) in upper case. It gives access to no shell, file or other program.
use std::io::{self, Read, Write};

use fulmar::Exit;
use fulmar::keys::{KeySpec, PrivateKey};
use fulmar::server::{Attempt, Authenticator, Channel, Config, Decision};
use fulmar::server::{Handler, Login, Server, Start};

struct OneUser(String, String);

impl Authenticator for OneUser {
    fn password(&self, attempt: &Attempt<'_>, password: &[u8]) -> Decision {
        // Takes the same time wherever the first wrong byte is.
        let pairs = self.1.bytes().zip(password);
        let differences = pairs.fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        (self.1.len() == password.len() && differences == 0 && attempt.user == self.0).into()
    }
}

struct Service;

impl Handler for Service {
    fn accepts_channel(&self, _: &Login, kind: &str, _: &[u8]) -> bool {
        kind == "upper@example.org"
    }

    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> Exit {
        let text = match start {
            Start::Channel { .. } => io::read_to_string(Read::take(&mut *channel, 1 << 20))
                .map(|text| text.to_uppercase()),
            Start::Exec(command) if command == b"whoami" => Ok(format!("{}\n", login.user)),
            _ => return Exit::Status(127),
        };
        let served = text.and_then(|text| channel.write_all(text.as_bytes()));
        Exit::Status(u32::from(served.is_err()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (user, password) = args.next().zip(args.next()).ok_or("USER PASSWORD")?;
    let host_key = PrivateKey::generate(KeySpec::Ed25519)?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    println!("port: {}", listener.local_addr()?.port());
    println!("host key: {}", host_key.public().to_line());
    let server = Server::new(
        Config::new(vec![host_key]),
        OneUser(user, password),
        Service,
    )?;
    let (stopper, mut input) = (server.stopper(), io::stdin());
    std::thread::spawn(move || io::copy(&mut input, &mut io::sink()).map(|_| stopper.stop()));
    Ok(server.serve(listener)?)
}
