//! The role `hop`: a plain relay of connections.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use sys::socket::ShutdownDirection;

/// Bytes of one read.
const BULK_BYTES: usize = 256 << 10;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// `hop`: a plain relay. Listens on `address` and joins each connection with one to `target`. Ends
/// with its standard input.
pub(super) fn hop(address: SocketAddr, target: SocketAddr) -> io::Result<()> {
    thread::spawn(|| {
        let _ = sys::io::read(sys::io::stdin(), &mut [0]);
        std::process::exit(0);
    });
    let listener = sys::socket::listen(address, BACKLOG, true, false)?;
    sys::io::set_nonblocking(&listener, false)?;
    loop {
        let (near, _) = sys::socket::accept(&listener)?;
        sys::io::set_nonblocking(&near, false)?;
        sys::socket::set_nodelay(&near, true)?;
        thread::spawn(move || {
            let far = TcpStream::connect(target)?;
            far.set_nodelay(true)?;
            let far = File::from(OwnedFd::from(far));
            let near = File::from(near);
            let (from_far, to_near) = (far.try_clone()?, near.try_clone()?);
            let down = thread::spawn(move || relay(from_far, to_near));
            let up = relay(near, far);
            let _ = down.join();
            up
        });
    }
}

fn relay(mut from: File, mut to: File) -> io::Result<()> {
    let mut buffer = vec![0; BULK_BYTES];
    loop {
        match from.read(&mut buffer)? {
            0 => return sys::socket::shutdown(to.as_fd(), ShutdownDirection::Write),
            count => to.write_all(buffer.get(..count).unwrap_or_default())?,
        }
    }
}
