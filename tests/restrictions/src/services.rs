//! Destinations of forwardings: two ports, of TCP and UDP, and a socket with a greeting, one that only root
//! may use, and an agent's socket.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use interop::scratch::Scratch;

/// The greeting of each of them.
pub const GREETING: &str = "a greeting";

/// The listeners, which serve until the process ends.
#[derive(Debug)]
pub struct Services {
    /// Two ports on 127.0.0.1; that of UDP answers each datagram with the greeting.
    pub ports: [u16; 2],
    scratch: Scratch,
}

/// A port that is free for TCP and UDP.
fn one_port() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its number");
        if let Ok(datagrams) = UdpSocket::bind(address) {
            return (listener, datagrams);
        }
    }
}

impl Services {
    /// Starts them.
    ///
    /// # Panics
    /// If a socket cannot be created.
    #[must_use]
    pub fn start() -> Self {
        let scratch = Scratch::new();
        let ports = [(), ()].map(|()| {
            let (listener, datagrams) = one_port();
            let port = listener.local_addr().expect("its number").port();
            thread::spawn(move || {
                while let Ok((_, from)) = datagrams.recv_from(&mut [0; 64]) {
                    let _ = datagrams.send_to(GREETING.as_bytes(), from);
                }
            });
            thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let _ = stream.write_all(GREETING.as_bytes());
                }
            });
            port
        });
        for (name, greeting, mode) in [
            ("echo.sock", GREETING, 0o777),
            ("root.sock", GREETING, 0o600),
            ("agent.sock", "", 0o777),
        ] {
            let path = scratch.join(name);
            let listener = UnixListener::bind(&path).expect("a socket");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let _ = stream.write_all(greeting.as_bytes());
                }
            });
        }
        Self { ports, scratch }
    }

    /// The socket with a greeting.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.scratch.join("echo.sock")
    }

    /// The same, for root alone.
    #[must_use]
    pub fn roots_socket(&self) -> PathBuf {
        self.scratch.join("root.sock")
    }

    /// The socket of a client's agent, which closes every connection.
    #[must_use]
    pub fn agent(&self) -> PathBuf {
        self.scratch.join("agent.sock")
    }

    /// The directory of the sockets.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }
}
