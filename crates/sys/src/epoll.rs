//! Readiness: level-triggered epoll, and the descriptors that wake it (eventfd,
//! timerfd). Signals as a descriptor are in [`crate::signals`].

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll as kernel;
use rustix::event::{EventfdFlags, Timespec};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

/// Conditions to wait for on one descriptor. Errors and hang-up are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Errors and hang-up only.
    pub const NONE: Self = Self(0);
    /// Bytes (or end of file, or a connection) to read.
    pub const READABLE: Self = Self(1);
    /// Bytes to read and room to write.
    pub const BOTH: Self = Self(3);

    /// Builds an interest from two conditions.
    #[must_use]
    pub const fn when(readable: bool, writable: bool) -> Self {
        Self(readable as u8 | (writable as u8) << 1)
    }

    /// True if reading is included.
    #[must_use]
    pub const fn readable(self) -> bool {
        self.0 & 1 != 0
    }

    /// True if writing is included.
    #[must_use]
    pub const fn writable(self) -> bool {
        self.0 & 2 != 0
    }

    fn flags(self) -> kernel::EventFlags {
        let mut flags = kernel::EventFlags::empty();
        flags.set(kernel::EventFlags::IN, self.readable());
        // RDHUP is requested only with reads: with reads paused, a half-closed peer would wake a
        // level-triggered loop endlessly.
        flags.set(kernel::EventFlags::RDHUP, self.readable());
        flags.set(kernel::EventFlags::OUT, self.writable());
        flags
    }
}

/// A ready descriptor, identified by the token that it was added with.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Token given to [`Epoll::add`] or [`Epoll::modify`].
    pub token: u64,
    flags: kernel::EventFlags,
}

impl Event {
    /// A read will not block: bytes, end of file, or an error to fetch.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        use kernel::EventFlags as F;
        self.flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR)
    }

    /// A write will not block; it may fail.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        use kernel::EventFlags as F;
        self.flags.intersects(F::OUT | F::HUP | F::ERR)
    }

    /// Both directions are closed. Reported even with [`Interest::NONE`]: remove the descriptor, or
    /// the loop spins.
    #[must_use]
    pub fn is_hangup(&self) -> bool {
        self.flags.contains(kernel::EventFlags::HUP)
    }
}

/// Largest number of events that one wait returns.
const MAX_EVENTS: usize = 256;

/// Buffer for the events of one wait. The events are copied out of the kernel's structure, which
/// may hold a pointer, so that this buffer is `Send`.
#[derive(Debug)]
pub struct Events {
    ready: Vec<Event>,
    capacity: usize,
}

impl Events {
    /// Creates a buffer for `capacity` events per wait, clamped to 1..=256.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, MAX_EVENTS);
        Self {
            ready: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.ready.iter().copied()
    }

    /// Number of events of the last wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// True if the last wait returned no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}

/// A level-triggered epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an empty instance (close-on-exec).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        Ok(Self(kernel::create(kernel::CreateFlags::CLOEXEC)?))
    }

    /// Starts to watch `fd`.
    ///
    /// # Errors
    /// `EPERM` for regular files (they are always ready: do not wait for them), `EEXIST` if `fd` is
    /// already watched.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = kernel::EventData::new_u64(token);
        Ok(kernel::add(&self.0, fd.as_fd(), data, interest.flags())?)
    }

    /// Changes the conditions and the token of `fd`.
    ///
    /// # Errors
    /// `ENOENT` if `fd` is not watched.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = kernel::EventData::new_u64(token);
        Ok(kernel::modify(&self.0, fd.as_fd(), data, interest.flags())?)
    }

    /// Stops watching `fd`. Call it before closing a descriptor that was duplicated or passed on:
    /// the kernel removes it only when the last duplicate is closed.
    ///
    /// # Errors
    /// `ENOENT` if `fd` is not watched.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(kernel::delete(&self.0, fd.as_fd())?)
    }

    /// Waits for events, at most for `timeout` (`None`: without limit), and returns their number; 0
    /// if a signal interrupts the wait.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout: Option<Timespec> = timeout.map(crate::time::timespec);
        events.ready.clear();
        let mut room = [const { MaybeUninit::uninit() }; MAX_EVENTS];
        let (room, _) = room.split_at_mut(events.capacity);
        let ready = match kernel::wait(&self.0, room, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(0),
            other => other?.0,
        };
        events.ready.extend(ready.iter().map(|event| {
            let kernel::Event { flags, data } = *event;
            let token = data.u64();
            Event { token, flags }
        }));
        Ok(ready.len())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A counter with which other threads wake an epoll loop.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Creates a counter at zero (close-on-exec, non-blocking).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    /// Makes the descriptor readable; several signals before one drain count as one.
    ///
    /// # Errors
    /// The kernel's error; a full counter is not an error.
    pub fn signal(&self) -> io::Result<()> {
        match crate::io::write(&self.0, &1_u64.to_ne_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Resets the counter; true if it was signalled since the last drain.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn drain(&self) -> io::Result<bool> {
        drain_counter(&self.0)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A one-shot timer as a descriptor, by the monotonic clock.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// Creates a disarmed timer (close-on-exec, non-blocking).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(fd))
    }

    /// Arms the timer to fire once after `delay`; zero fires at once, `None` disarms.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, delay: Option<Duration>) -> io::Result<()> {
        // An it_value of zero would disarm: the shortest delay is a nanosecond.
        let value = delay.map_or(Duration::ZERO, |delay| delay.max(Duration::from_nanos(1)));
        let timer = Itimerspec {
            it_interval: crate::time::timespec(Duration::ZERO),
            it_value: crate::time::timespec(value),
        };
        rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }

    /// True if the timer has fired since the last call.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn drain(&self) -> io::Result<bool> {
        drain_counter(&self.0)
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn drain_counter(fd: &OwnedFd) -> io::Result<bool> {
    let mut counter = [0_u8; 8];
    match crate::io::read(fd, &mut counter) {
        Ok(count) => Ok(count == counter.len()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signalled_eventfd_is_reported_until_drained() {
        let epoll = Epoll::new().unwrap();
        let wake = EventFd::new().unwrap();
        epoll.add(&wake, 7, Interest::READABLE).unwrap();
        let mut events = Events::with_capacity(4);
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        wake.signal().unwrap();
        wake.signal().unwrap();
        assert_eq!(epoll.wait(&mut events, None).unwrap(), 1);
        let event = events.iter().next().unwrap();
        assert_eq!(event.token, 7);
        assert!(event.is_readable() && !event.is_writable());
        assert!(wake.drain().unwrap());
        assert!(!wake.drain().unwrap());
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }

    #[test]
    fn interest_can_change_and_hangup_is_always_reported() {
        let epoll = Epoll::new().unwrap();
        let (reader, writer) = crate::io::pipe().unwrap();
        epoll.add(&reader, 1, Interest::NONE).unwrap();
        let mut events = Events::with_capacity(4);
        crate::io::write_all(&writer, b"x").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        epoll
            .modify(&reader, 1, Interest::when(true, false))
            .unwrap();
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 1);
        epoll.modify(&reader, 1, Interest::NONE).unwrap();
        drop(writer);
        assert_eq!(epoll.wait(&mut events, None).unwrap(), 1);
        assert!(events.iter().all(|event| event.is_hangup()));
        epoll.remove(&reader).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }

    #[test]
    fn one_wait_brings_no_more_than_the_capacity() {
        let epoll = Epoll::new().unwrap();
        let wakes: Vec<EventFd> = (0..8).map(|_| EventFd::new().unwrap()).collect();
        for (token, wake) in (0_u64..).zip(&wakes) {
            epoll.add(wake, token, Interest::READABLE).unwrap();
            wake.signal().unwrap();
        }
        let mut events = Events::with_capacity(3);
        let count = epoll.wait(&mut events, None).unwrap();
        assert_eq!(count, 3);
        assert_eq!(count, events.len());
    }

    #[test]
    fn a_timer_of_zero_fires_and_a_disarmed_one_does_not() {
        let timer = TimerFd::new().unwrap();
        timer.set(Some(Duration::ZERO)).unwrap();
        assert!(crate::io::wait_readable(&timer, None).unwrap());
        assert!(timer.drain().unwrap());
        timer.set(Some(Duration::from_secs(3600))).unwrap();
        timer.set(None).unwrap();
        assert!(!timer.drain().unwrap());
    }
}
