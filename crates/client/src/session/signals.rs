//! Signals that reach the program during a session, and the state of the terminal.

use std::os::fd::AsFd;

use proto::channel::Request;
use sys::signals::{Signal, SignalFd};

use super::{ClientSession, Ended, FAILURE, Next, TOKEN_SIGNALS};
use crate::error::ClientError;
use crate::log::{debug1, info, verbose};
use crate::text::one_line;

impl ClientSession<'_> {
    pub(super) fn take_signals(&mut self) -> Result<(), ClientError> {
        let mut signals = vec![Signal::WINCH, Signal::CONT];
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
            // A signal that the parent process set to be ignored (nohup) stays ignored.
            if !sys::signals::is_ignored(signal).unwrap_or(false) {
                signals.push(signal);
            }
        }
        let fd = SignalFd::new(&signals).map_err(ClientError::system("signalfd"))?;
        self.driver
            .watch(fd.as_fd(), TOKEN_SIGNALS, true, false)
            .map_err(ClientError::system("signalfd"))?;
        self.signals = Some(fd);
        Ok(())
    }

    /// As [`Self::take_signals`], in a child of the process that did it.
    pub(super) fn renew_signals(&mut self) -> Result<(), ClientError> {
        if let Some(fd) = self.signals.take() {
            self.driver.unwatch(fd.as_fd());
        }
        self.take_signals()
    }

    pub(super) fn handle_signals(&mut self) -> Result<Next, ClientError> {
        loop {
            let Some(signals) = &self.signals else {
                return Ok(Next::Continue);
            };
            let next = signals.read().map_err(ClientError::system("signalfd"))?;
            match next.map(|info| info.signal) {
                None => return Ok(Next::Continue),
                // As in OpenSSH, it cancels the line.
                Some(Signal::INT) if self.terminal.line_mut().is_some() => {
                    self.take_line_input(&[])?;
                }
                Some(Signal::WINCH) => {
                    self.send_window_size()?;
                    if let Some(master) = &self.master {
                        master.send_window_sizes(self.driver)?;
                    }
                }
                Some(Signal::CONT) => self.resumed()?,
                Some(signal) => {
                    self.terminal.leave_raw_mode();
                    verbose!("Killed by signal {}.", signal.as_raw());
                    // As in OpenSSH: a tunnel that its service manager ends has not failed.
                    if signal == Signal::TERM && !self.plan.what.is_session() {
                        return Ok(Next::Finish(0));
                    }
                    self.outcome.ended = Some(Ended::Signal);
                    return Ok(Next::Finish(FAILURE));
                }
            }
        }
    }

    pub(super) fn send_window_size(&mut self) -> Result<(), ClientError> {
        let Some(channel) = self.channel.filter(|_| self.plan.pty.is_some()) else {
            return Ok(());
        };
        if !self.driver.connection().channel_is_open(channel) {
            return Ok(());
        }
        let Some(size) = crate::terminal::window_size() else {
            return Ok(());
        };
        let request = Request::WindowChange {
            columns: size.columns,
            rows: size.rows,
            width_px: size.width_px,
            height_px: size.height_px,
        };
        self.request(channel, &request, false)
    }

    /// Resumed after a stop: the shell may have changed the terminal's modes.
    pub(super) fn resumed(&mut self) -> Result<(), ClientError> {
        if self.terminal.resume() {
            self.send_window_size()?;
        }
        Ok(())
    }

    /// Logs the end of the session.
    pub(super) fn farewell(&mut self) {
        if self.plan.pty.is_some() && self.outcome.started {
            info!("Connection to {} closed.", one_line(&self.peer.host));
        }
        let (received, sent) = self.driver.wire_bytes();
        let ms = self.driver.now().saturating_sub(self.begun_ms);
        let (seconds, tenth) = (ms / 1000, ms % 1000 / 100);
        verbose!(
            "Transferred: sent {sent}, received {received} bytes, in {seconds}.{tenth} seconds"
        );
        let rate = |bytes: u64| {
            let tenths = bytes.saturating_mul(10_000).checked_div(ms);
            let tenths = tenths.unwrap_or_default();
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        verbose!(
            "Bytes per second: sent {}, received {}",
            rate(sent),
            rate(received)
        );
        debug1!("Exit status {}", self.exit_code());
    }
}
