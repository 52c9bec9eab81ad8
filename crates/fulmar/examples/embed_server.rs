//! A program with an SSH server of its own: who may log in, one command, and one channel type.
//!
//! ```text
//! cargo run --example embed_server -- USER PASSWORD
//! ```
//!
//! Listens on a free loopback port, prints it and the host key, and serves until its standard input
//! ends: the command `whoami`, and channels of the type `upper@example.org`, which return their
//! input in upper case. It gives access to no shell, file or other program.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpListener;

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
        let is_right = self.1.len() == password.len() && differences == 0;
        (is_right && attempt.user == self.0).into()
    }
}

struct Service;

impl Handler for Service {
    fn accepts_channel(&self, _: &Login, kind: &str, _: &[u8]) -> bool {
        kind == "upper@example.org"
    }

    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> Exit {
        let served = match start {
            Start::Channel { .. } => upper(channel),
            Start::Exec(command) if command == b"whoami" => writeln!(channel, "{}", login.user),
            _ => return Exit::Status(127),
        };
        Exit::Status(u32::from(served.is_err()))
    }
}

fn upper(channel: &mut Channel) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while let count @ 1.. = channel.read(&mut buffer)? {
        channel.write_all(&buffer[..count].to_ascii_uppercase())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(user), Some(password)) = (args.next(), args.next()) else {
        return Err("usage: embed_server USER PASSWORD".into());
    };
    let host_key = PrivateKey::generate(KeySpec::Ed25519)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("port: {}", listener.local_addr()?.port());
    println!("host key: {}", host_key.public().to_line());
    let config = Config::new(vec![host_key]);
    let server = Server::new(config, OneUser(user, password), Service)?;
    let stopper = server.stopper();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        stopper.stop();
    });
    Ok(server.serve(listener)?)
}
