//! The connection's socket. Reads go directly into the splitter's slab; writev writes sealed
//! packets in batches.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use proto::{Connection, TransportOutput};
use sys::epoll::{Epoll, Interest};

use super::error::DriverError;
use super::lanes::Lanes;
use super::level_controller::{Activity, ByteTotals, LevelController};
use super::out_queue::OutQueue;
use super::poller::{EventTarget, Poller, Registration};
use super::send_limits::SendLimits;

/// Maximum packets in one writev.
const MAX_SLICES: usize = 64;
/// A shorter read has probably emptied the socket. Epoll reports if not, and a keystroke costs one
/// system call less.
const SHORT_READ_BYTES: usize = 16 * 1024;
/// Maximum compressed bytes written at once where the socket may run dry meanwhile.
const DRY_WRITE_BYTES: usize = 64 * 1024;

/// Output left by [`SocketLink::pump_out`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingOutput {
    Nothing,
    /// Output that the full socket does not accept now.
    ForSocket,
    /// Output that is being compressed or sealed.
    InLane,
}

pub(super) struct SocketLink {
    read: OwnedFd,
    write: Option<OwnedFd>,
    read_registration: Registration,
    /// Set only if writing has its own descriptor.
    write_registration: Option<Registration>,
    readable: bool,
    writable: bool,
    out: OutQueue,
    closed: bool,
    reported: bool,
    write_broken: bool,
    received: u64,
    sent: u64,
    send_limits: SendLimits,
    /// Controller of the compression level, if compression is adaptive.
    level_controller: Option<LevelController>,
    /// The socket is TCP, so the kernel knows which bytes are acknowledged.
    is_tcp: bool,
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl SocketLink {
    pub(super) fn new(
        poller: &mut Poller,
        read: OwnedFd,
        write: Option<OwnedFd>,
    ) -> io::Result<Self> {
        sys::io::set_nonblocking(&read, true)?;
        if let Some(write) = &write {
            sys::io::set_nonblocking(write, true)?;
        }
        let send_limits = SendLimits::new();
        // Fails for a pipe and for other kinds of socket, which hold little anyway.
        let socket = write.as_ref().unwrap_or(&read);
        let is_tcp = sys::socket::set_notsent_lowat(socket, send_limits.unsent_bytes()).is_ok();
        let read_registration = poller.register(&read, EventTarget::SocketRead)?;
        let write_registration = match &write {
            Some(write) => Some(poller.register(write, EventTarget::SocketWrite)?),
            None => None,
        };
        Ok(Self {
            read,
            write,
            read_registration,
            write_registration,
            readable: true,
            writable: true,
            out: OutQueue::default(),
            closed: false,
            reported: false,
            write_broken: false,
            received: 0,
            sent: 0,
            send_limits,
            level_controller: None,
            is_tcp,
        })
    }

    pub(super) fn read_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    pub(super) fn write_fd(&self) -> BorrowedFd<'_> {
        self.write.as_ref().unwrap_or(&self.read).as_fd()
    }

    pub(super) fn wire_bytes(&self) -> (u64, u64) {
        (self.received, self.sent)
    }

    pub(super) fn into_parts(self) -> (OwnedFd, Option<OwnedFd>) {
        (self.read, self.write)
    }

    pub(super) fn set_ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        if writable && !self.writable {
            self.send_limits.takes_more(sys::time::monotonic_ms());
        }
        self.writable |= writable;
    }

    /// Returns true once after the peer closed.
    pub(super) fn take_closed(&mut self) -> bool {
        self.closed && !std::mem::replace(&mut self.reported, true)
    }

    /// Reads once, if the socket is readable and there is room; returns true if bytes arrived.
    pub(super) fn pump_in(&mut self, connection: &mut Connection) -> io::Result<bool> {
        if self.closed || !connection.wants_input() || !(self.readable || self.write_broken) {
            return Ok(false);
        }
        let (buffer, most) = connection.receive_room();
        match sys::io::read_at_most(&self.read, buffer, most) {
            Ok(0) => {
                self.closed = true;
                Ok(false)
            }
            Ok(count) => {
                self.received += u64::try_from(count).unwrap_or_default();
                self.readable = count >= SHORT_READ_BYTES;
                Ok(true)
            }
            Err(error) if is_transient(&error) => {
                self.readable = false;
                // Everything that the peer sent before it closed has been read.
                self.closed |= self.write_broken;
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.closed = true;
                if self.write_broken {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Returns true if the next read will probably return bytes: the last one was not short.
    pub(super) fn has_more(&self) -> bool {
        self.readable && !self.closed
    }

    /// Returns true if writing failed, so that the peer's last bytes remain to be read.
    pub(super) fn has_last_words(&self) -> bool {
        self.write_broken && !self.closed
    }

    /// Compresses, seals and writes as much as possible without waiting.
    pub(super) fn pump_out(
        &mut self,
        connection: &mut Connection,
        lanes: &mut Lanes,
    ) -> Result<PendingOutput, DriverError> {
        if !connection.is_compressing() {
            return self.pump(connection, lanes);
        }
        self.begin_work(connection);
        let left = self.pump(connection, lanes)?;
        self.end_work(left);
        Ok(left)
    }

    fn begin_work(&mut self, connection: &mut Connection) {
        let Some(through) = self.through(connection) else {
            return;
        };
        let now = sys::time::monotonic_us();
        if self.level_controller.is_none() {
            let library = connection
                .compressor()
                .is_some_and(|compressor| compressor.has_provider());
            let settings = connection.compress_settings();
            if settings.adaptive && !library {
                self.level_controller = Some(LevelController::new(settings.level, now, through));
            }
        }
        // A full socket still counts as waiting.
        if let Some(controller) = self.level_controller.as_mut().filter(|_| self.writable)
            && controller.resume(now, through)
        {
            connection.set_compress_level(controller.level());
        }
    }

    fn end_work(&mut self, left: PendingOutput) {
        if let Some(controller) = &mut self.level_controller {
            let doing = match left {
                PendingOutput::InLane => Activity::Work,
                PendingOutput::Nothing | PendingOutput::ForSocket => Activity::Wait,
            };
            controller.does(doing, sys::time::monotonic_us());
        }
    }

    fn through(&self, connection: &Connection) -> Option<ByteTotals> {
        let totals = connection.compress_report()?.totals;
        Some(ByteTotals {
            raw: totals.raw_bytes,
            compressed: totals.compressed_bytes,
            sent: self.sent,
        })
    }

    /// To be called before a write: checks whether the socket ran dry while this side compressed.
    fn look_at_socket(&mut self, connection: &mut Connection) {
        if !self.may_run_dry() {
            return;
        }
        let Some(through) = self.through(connection) else {
            return;
        };
        let socket = self.write.as_ref().unwrap_or(&self.read);
        let under_way = || sys::socket::unacked_bytes(socket).ok().map(u64::from);
        let now = sys::time::monotonic_us();
        if let Some(controller) = &mut self.level_controller
            && controller.runs_dry(now, through, under_way)
        {
            connection.set_compress_level(controller.level());
        }
    }

    /// Returns true if the peer's system has acknowledged all written bytes; false if unknown.
    pub(super) fn is_delivered(&self) -> bool {
        let socket = self.write.as_ref().unwrap_or(&self.read);
        self.is_tcp && sys::socket::unacked_bytes(socket).is_ok_and(|bytes| bytes == 0)
    }

    fn may_run_dry(&self) -> bool {
        self.is_tcp
            && self
                .level_controller
                .as_ref()
                .is_some_and(LevelController::may_run_dry)
    }

    fn pump(
        &mut self,
        connection: &mut Connection,
        lanes: &mut Lanes,
    ) -> Result<PendingOutput, DriverError> {
        loop {
            self.seal(connection, lanes)?;
            if self.write_broken {
                self.out = OutQueue::default();
                return Ok(PendingOutput::Nothing);
            }
            if self.out.is_empty() {
                return Ok(match lanes.unsealed_bytes() {
                    0 if lanes.is_deflating() => PendingOutput::InLane,
                    0 => PendingOutput::Nothing,
                    _ => PendingOutput::InLane,
                });
            }
            if !self.writable {
                return Ok(PendingOutput::ForSocket);
            }
            self.look_at_socket(connection);
            self.write_once(connection)?;
        }
    }

    /// Writes all output that the socket accepts now, waiting for workers to seal it.
    pub(super) fn write_out(
        &mut self,
        connection: &mut Connection,
        lanes: &mut Lanes,
    ) -> Result<PendingOutput, DriverError> {
        loop {
            match self.pump_out(connection, lanes)? {
                PendingOutput::InLane => lanes.wait_sealed(),
                left => return Ok(left),
            }
        }
    }

    /// Seals output until enough waits for the socket. The rest of the connection's queue stays
    /// unsealed, which blocks its senders.
    fn seal(&mut self, connection: &mut Connection, lanes: &mut Lanes) -> Result<(), DriverError> {
        loop {
            let mut any = false;
            lanes.deflate(connection)?;
            let limit = lanes.seal_limit_bytes().min(self.send_limits.limit_bytes());
            let limit = if self.may_run_dry() {
                limit.min(DRY_WRITE_BYTES)
            } else {
                limit
            };
            while lanes.takes_seal() && self.out.bytes() + lanes.unsealed_bytes() < limit {
                match lanes.poll_output(connection) {
                    Some(TransportOutput::Seal(job)) => lanes.push_seal(job),
                    Some(TransportOutput::Raw(line)) => self.out.push_line(line),
                    None => break,
                }
                any = true;
            }
            self.out.push_with(|packets| lanes.seal(packets))?;
            if !any {
                return Ok(());
            }
        }
    }

    fn write_once(&mut self, connection: &mut Connection) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let filled = self.out.slices(&mut slices);
        match sys::io::writev(self.write_fd(), &slices[..filled]) {
            Ok(count) => {
                self.sent += u64::try_from(count).unwrap_or_default();
                self.out.advance(count, connection);
            }
            Err(error) if is_transient(&error) => {
                self.writable = false;
                if let Some(controller) = &mut self.level_controller {
                    controller.is_full(sys::time::monotonic_us());
                }
                let socket = self.write.as_ref().unwrap_or(&self.read);
                let unsent = || {
                    let info = sys::socket::tcp_info(socket).ok();
                    info.map(|info| u64::from(info.notsent_bytes))
                };
                let now = sys::time::monotonic_ms();
                if self.send_limits.is_full(self.sent, now, unsent) {
                    if let Ok(info) = sys::socket::tcp_info(self.write_fd()) {
                        self.send_limits.set_round_trip(info.min_rtt_us);
                    }
                    connection.set_output_limit(self.send_limits.limit_bytes());
                    let unsent_bytes = self.send_limits.unsent_bytes();
                    let _ = sys::socket::set_notsent_lowat(self.write_fd(), unsent_bytes);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                // The peer's last messages may still be unread and say why.
                self.write_broken = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns true if there is output and the socket is full.
    pub(super) fn waits_for_socket(&self) -> bool {
        !self.out.is_empty() && !self.writable && !self.write_broken
    }

    /// Waits until the socket is writable; returns false if `limit` expires first.
    pub(super) fn wait_writable(&mut self, limit: Option<Duration>) -> io::Result<bool> {
        let ready = sys::io::wait_writable(self.write_fd(), limit)?;
        self.writable |= ready;
        Ok(ready)
    }

    pub(super) fn update_interest(&mut self, epoll: &Epoll, wants_input: bool) -> io::Result<()> {
        let read = wants_input && !self.closed;
        let write = self.waits_for_socket();
        match (&self.write, &mut self.write_registration) {
            (Some(fd), Some(registration)) => {
                registration.set(epoll, fd, Interest::when(false, write))?;
                self.read_registration
                    .set(epoll, &self.read, Interest::when(read, false))
            }
            _ => self
                .read_registration
                .set(epoll, &self.read, Interest::when(read, write)),
        }
    }
}
