//! `-i`: the only connection is on standard input and output. If they are one socket, the monitor
//! receives that socket. If they are pipes (a ProxyCommand), this process copies bytes between them
//! and a socket pair, without parsing.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use config::server::ServerOptions;
use privsep::MonitorConnection;
use sys::io::PollFd;
use sys::process::{Child, ExitStatus};

use super::launch::Launch;
use super::reader::{self, is_balancer};
use super::sockets;
use crate::log::Log;

/// Most bytes buffered in each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// Exit status of a connection that is closed before it has a monitor.
const NOT_SERVED: i32 = 255;

/// Serves the connection; returns the exit status of its monitor.
pub(crate) fn serve(launch: &Launch, options: &ServerOptions, log: &Log) -> io::Result<i32> {
    let mut connection = MonitorConnection {
        accepted_ms: sys::time::monotonic_ms(),
        greeted: None,
        client: None,
    };
    if sys::socket::is_socket(sys::io::stdin()) {
        let network = sys::io::dup(sys::io::stdin())?;
        let balancer = sys::socket::peer_address(&network);
        let balancer = balancer.ok().map(sys::socket::unmapped);
        let balancer = balancer.filter(|peer| is_balancer(&options.connection, peer.ip()));
        if let Some(balancer) = balancer {
            match await_header(launch, &network)? {
                Ok(client) => connection.client = client.map(reader::client_field),
                Err(why) => {
                    log.info(&reader::refusal(balancer, &why));
                    return Ok(NOT_SERVED);
                }
            }
        }
        sockets::prepare(&network, &options.connection);
        let (monitor, _news) = launch.start(network, &connection)?;
        // Closes this process's copies, so that only the monitor holds the connection.
        let null = sys::io::null()?;
        for number in [0, 1] {
            sys::io::replace_stdio(&null, number)?;
        }
        return status_of(monitor);
    }
    let (ours, theirs) = sys::socket::stream_pair()?;
    let (monitor, news) = launch.start(theirs, &connection)?;
    drop(news);
    carry(&ours)?;
    drop(ours);
    status_of(monitor)
}

/// Waits for the PROXY header of a load balancer; returns the client that it names, or why the
/// connection must be closed.
fn await_header(
    launch: &Launch,
    network: &OwnedFd,
) -> io::Result<Result<Option<SocketAddr>, String>> {
    let reader = launch.start_reader()?;
    reader.ask(0, network)?;
    if !sys::io::wait_readable(reader.socket(), Some(reader::HEADER_LIMIT))? {
        return Ok(Err(reader::TOO_LATE.to_owned()));
    }
    let answer = reader.answer()?;
    let ended = || io::Error::other(reader::READER_ENDED);
    Ok(answer.ok_or_else(ended)?.client)
}

fn status_of(mut monitor: Child) -> io::Result<i32> {
    Ok(match monitor.wait()? {
        ExitStatus::Exited(status) => i32::from(status),
        ExitStatus::Signaled { .. } => 255,
    })
}

/// One direction of the copy.
struct InetdDirection<'fd> {
    from: BorrowedFd<'fd>,
    to: BorrowedFd<'fd>,
    waiting: Vec<u8>,
    ended: bool,
}

impl<'fd> InetdDirection<'fd> {
    fn new(from: BorrowedFd<'fd>, to: BorrowedFd<'fd>) -> Self {
        Self {
            from,
            to,
            waiting: Vec::new(),
            ended: false,
        }
    }

    fn wants_to_read(&self) -> bool {
        !self.ended && self.waiting.is_empty()
    }

    /// Reads and writes without blocking. Returns false if the destination no longer accepts bytes.
    fn advance(&mut self, readable: bool) -> bool {
        if readable && self.wants_to_read() {
            let mut chunk = vec![0; BUFFER_BYTES];
            match sys::io::read(self.from, &mut chunk) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    chunk.truncate(count);
                    self.waiting = chunk;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.ended = true,
            }
        }
        if self.waiting.is_empty() {
            return true;
        }
        match sys::io::write(self.to, &self.waiting) {
            Ok(count) => {
                self.waiting.drain(..count.min(self.waiting.len()));
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Copies bytes both ways until the monitor closes its end and everything it sent is written.
fn carry(socket: &OwnedFd) -> io::Result<()> {
    let (stdin, stdout) = (sys::io::stdin(), sys::io::stdout());
    for fd in [stdin, stdout, socket.as_fd()] {
        sys::io::set_nonblocking(fd, true)?;
    }
    let mut inward = InetdDirection::new(stdin, socket.as_fd());
    let mut outward = InetdDirection::new(socket.as_fd(), stdout);
    let mut half_closed = false;
    while !(outward.ended && outward.waiting.is_empty()) {
        let mut fds = [
            PollFd::new(stdin, inward.wants_to_read(), false),
            PollFd::new(
                socket.as_fd(),
                outward.wants_to_read(),
                !inward.waiting.is_empty(),
            ),
            PollFd::new(stdout, false, !outward.waiting.is_empty()),
        ];
        // poll(2) reports a hang-up even for a descriptor with no requested events; such a
        // descriptor is left out, or the loop would spin.
        let first = usize::from(!inward.wants_to_read());
        let last = if outward.waiting.is_empty() { 2 } else { 3 };
        let polled = fds.get_mut(first..last).unwrap_or_default();
        sys::io::poll(polled, None)?;
        let [input, middle, _] = &fds;
        let (readable_in, readable_socket) =
            (first == 0 && input.is_readable(), middle.is_readable());
        if !outward.advance(readable_socket) {
            return Ok(());
        }
        if !inward.advance(readable_in) {
            inward.ended = true;
            inward.waiting.clear();
        }
        if inward.ended && inward.waiting.is_empty() && !half_closed {
            half_closed = true;
            let _ = sys::socket::shutdown(socket, sys::socket::ShutdownDirection::Write);
        }
    }
    Ok(())
}
