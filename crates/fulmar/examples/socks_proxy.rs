//! A SOCKS proxy for browsers, whose connections an SSH server makes:
//! `cargo run --example socks_proxy -- USER KEY_FILE HOST PORT`
//!
//! Prints the loopback port on which it listens. The host's key must be in `known_hosts`.

use std::error::Error;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use fulmar::client::{Auth, Channel, Config, Session, SocksRequest};
use fulmar::keys::private_file;

/// Copies both ways until both directions have ended.
fn join(channel: &Channel, stream: &TcpStream) -> io::Result<()> {
    thread::scope(|scope| {
        scope.spawn(|| {
            let copied = io::copy(&mut &*stream, &mut &*channel);
            channel.send_eof();
            copied
        });
        io::copy(&mut &*channel, &mut &*stream)?;
        stream.shutdown(Shutdown::Write)
    })
}

fn serve(session: &Session, stream: TcpStream) -> Result<(), fulmar::Error> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = SocksRequest::read(stream)?;
    match session.connect_tcp(request.host(), request.port()) {
        Ok(channel) => {
            let stream = request.grant()?;
            stream.set_read_timeout(None)?;
            Ok(join(&channel, &stream)?)
        }
        Err(error) => Ok(request.refuse(&error)?),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [user, key_file, host, port] = args.as_slice() else {
        return Err("usage: socks_proxy USER KEY_FILE HOST PORT".into());
    };
    let key = private_file::parse(&private_file::load(key_file.as_ref())?, None)?.key;
    let mut session = Session::connect(host, port.parse()?, Config::default())?;
    session.authenticate(user, Auth::Key(&key))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    thread::scope(|scope| {
        for stream in listener.incoming().flatten() {
            // A connection that fails concerns its client only.
            scope.spawn(|| drop(serve(&session, stream)));
        }
    });
    Ok(())
}
