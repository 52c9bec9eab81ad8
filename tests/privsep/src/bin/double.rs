//! Replaces the auth or session process of a real monitor, controlled by a test: forwards the RPC
//! of the monitor over the network socket that it inherits.
//!
//! It makes no decisions and starts nothing, with one exception: if `real-session` exists beside
//! it, that program becomes the session process, so that a test with a compromised auth process
//! uses the real one. `privsep_tests::double` defines the frames between it and the test.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use privsep::roles;
use privsep_tests::double::{Down, Up, read_down, write_up};
use sys::io::PollFd;

/// Largest number of RPC bytes per frame to the test.
const CHUNK_BYTES: usize = 64 * 1024;
/// Largest number of descriptors that the monitor may send at once.
const MAX_DESCRIPTORS: usize = 4;

fn main() {
    // A test that has ended is not an error.
    let _ = serve();
}

fn serve() -> io::Result<()> {
    let role = std::env::args().nth(1).unwrap_or_default();
    if role == roles::ROLE_SESSION {
        let beside = std::env::current_exe()?.with_file_name("real-session");
        if beside.exists() {
            // It gets our descriptors: none has been used yet.
            return Err(Command::new(beside).arg0("fulmar").arg(role).exec());
        }
    }
    let network = sys::io::inherited(roles::NETWORK_FD)?;
    let rpc = sys::io::inherited(roles::RPC_FD)?;
    if role == roles::ROLE_SESSION {
        // It starts while its predecessor still has the connection.
        sys::io::wait_readable(&rpc, None)?;
    }
    sys::io::set_nonblocking(&network, false)?;
    write_up(
        &network,
        &Up::Started {
            role,
            pid: std::process::id(),
        },
    )?;
    let mut listening = true;
    loop {
        let mut fds = [
            PollFd::new(network.as_fd(), true, false),
            PollFd::new(rpc.as_fd(), listening, false),
        ];
        let polled = if listening { 2 } else { 1 };
        sys::io::poll(fds.get_mut(..polled).unwrap_or_default(), None)?;
        let [from_test, from_monitor] = &fds;
        if listening && from_monitor.is_readable() {
            listening = carry_up(&rpc, &network)?;
        } else if from_test.is_readable() && !carry_down(&network, &rpc)? {
            return Ok(());
        }
    }
}

/// False if the monitor has closed its end.
fn carry_up(rpc: &OwnedFd, network: &OwnedFd) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let received = match sys::socket::recv_with_fds(rpc, &mut chunk, MAX_DESCRIPTORS) {
        Ok(received) if received.len > 0 => received,
        _ => {
            write_up(network, &Up::Ended)?;
            return Ok(false);
        }
    };
    chunk.truncate(received.len);
    let descriptors = u32::try_from(received.fds.len()).unwrap_or(u32::MAX);
    write_up(
        network,
        &Up::Bytes {
            descriptors,
            bytes: chunk,
        },
    )?;
    Ok(true)
}

/// False if the test ends this process.
fn carry_down(network: &OwnedFd, rpc: &OwnedFd) -> io::Result<bool> {
    match read_down(network)? {
        // The monitor may have closed its end already: the test gets a frame about it.
        Down::Write(bytes) => drop(sys::io::write_all(rpc, &bytes)),
        Down::WriteWithDescriptors { count, bytes } => {
            let copies: Vec<OwnedFd> = (0..count)
                .map(|_| sys::io::null())
                .collect::<io::Result<_>>()?;
            let borrowed: Vec<_> = copies.iter().map(AsFd::as_fd).collect();
            drop(sys::socket::send_with_fds(rpc, &bytes, &borrowed));
        }
        Down::End => return Ok(false),
    }
    Ok(true)
}
