//! `EnableHwCompression`: an unprivileged process probes the compression library at start and at
//! each reload, so that a failing `require` is refused before anybody logs in. The listener loads
//! no library itself and does not block on the probe while it serves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use config::hardware::{HardwareWish, Tried, in_use_line, warning_line};
use config::server::{CompressionOptions, ServerOptions};
use privsep::LogLevel;
use sys::process::{Child, Credentials, SelfExe};
use sys::signals::Signal;

use super::confinement::Confinement;
use crate::log::Log;

/// First argument of the probing process (`accelerator::PROBE_ROLE`).
const ROLE: &str = "compress-probe";
/// Prefix of the probe's answer if a library works; its description follows
/// (`accelerator::probe_main`).
const WORKS: &str = "works ";
/// Prefix of the probe's answer if no library works; the reason follows.
const FAILS: &str = "fails ";
/// Time limit for all libraries together. Libraries that hang are probed in parallel, two seconds
/// each.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the exit of a probing process that has answered or was killed.
const ENDING_LIMIT: Duration = Duration::from_secs(1);
/// The longest answer, bytes.
const ANSWER_BYTES: usize = 8192;

/// Probes the libraries that `options` name, waits for the outcome and logs it; a library that
/// works is logged at `level`.
///
/// # Errors
/// The message for the administrator, if a library is required and none works.
pub(crate) fn probe(
    options: &ServerOptions,
    confinement: Option<&Confinement>,
    log: &Log,
    level: LogLevel,
) -> Result<(), String> {
    match Trial::begin(&options.compression, confinement) {
        None => Ok(()),
        Some(mut trial) => {
            trial.wait();
            trial.settle(&options.compression, log, level)
        }
    }
}

/// A probe of compression libraries.
pub(crate) struct Trial {
    /// The probing process, and the pipe on which it answers.
    process: Option<(Child, OwnedFd)>,
    text: Vec<u8>,
    /// The description of the working library, or the reason why none works; `None` until the
    /// outcome is known.
    outcome: Option<Result<String, String>>,
    /// Monotonic milliseconds after which the probe is abandoned.
    deadline_ms: u64,
}

impl Trial {
    /// Starts a probe of the configured libraries; `None` without any.
    pub(crate) fn begin(
        compression: &CompressionOptions,
        confinement: Option<&Confinement>,
    ) -> Option<Self> {
        let wish = compression.hardware()?;
        let mut trial = Self {
            process: None,
            text: Vec::new(),
            outcome: None,
            deadline_ms: now_ms() + u64::try_from(LIMIT.as_millis()).unwrap_or(u64::MAX),
        };
        match start(&wish, confinement) {
            Ok(process) => trial.process = Some(process),
            Err(error) => trial.outcome = Some(Err(format!("cannot try it: {error}"))),
        }
        Some(trial)
    }

    /// The pipe of the answer; `None` once the outcome is known.
    pub(crate) fn answer(&self) -> Option<BorrowedFd<'_>> {
        let (_, answer) = self.process.as_ref()?;
        self.outcome.is_none().then(|| answer.as_fd())
    }

    /// Monotonic milliseconds after which [`Trial::hear`] must be called, with or without an
    /// answer.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    /// Reads the available part of the answer without blocking. After the deadline it kills the
    /// process and the outcome is an error.
    pub(crate) fn hear(&mut self, now_ms: u64) {
        let Some((child, answer)) = self.process.as_ref() else {
            return;
        };
        let mut bytes = [0; 1024];
        while self.outcome.is_none() {
            match sys::io::read(answer, &mut bytes) {
                Ok(count @ 1..) if self.text.len() + count <= ANSWER_BYTES => {
                    let heard = bytes.get(..count).unwrap_or_default();
                    self.text.extend_from_slice(heard);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if now_ms < self.deadline_ms {
                        return;
                    }
                    // The libraries are loaded by children of this process, which end with it.
                    let _ = child.signal(Signal::KILL);
                    let why = "no answer from the process that tries it";
                    self.outcome = Some(Err(why.to_owned()));
                }
                // End of the answer, an answer longer than `ANSWER_BYTES`, or a read error.
                Ok(_) | Err(_) => self.outcome = Some(understood(&self.text)),
            }
        }
    }

    /// Waits until the outcome is known and reaps the process, which nothing else does on this
    /// path.
    fn wait(&mut self) {
        while let Some(answer) = self.answer() {
            let left = Duration::from_millis(self.deadline_ms.saturating_sub(now_ms()));
            let _ = sys::io::wait_readable(answer, Some(left));
            self.hear(now_ms());
        }
        if let Some((child, _)) = &mut self.process {
            let _ = sys::io::wait_readable(child.pidfd(), Some(ENDING_LIMIT));
            let _ = child.try_wait();
        }
    }

    /// Logs the outcome of the probe; a library that works is logged at `level`.
    ///
    /// # Errors
    /// As [`probe`].
    pub(crate) fn settle(
        mut self,
        compression: &CompressionOptions,
        log: &Log,
        level: LogLevel,
    ) -> Result<(), String> {
        let (Some(wish), Some(outcome)) = (compression.hardware(), self.outcome.take()) else {
            return Ok(());
        };
        match wish.settle(outcome) {
            Tried::InUse(description) => log.line(level, &in_use_line(&description)),
            Tried::Refused(why) => return Err(why),
            Tried::Software(why) => {
                let line = warning_line("", &why, "sessions use software compression");
                log.line(LogLevel::Info, &line);
            }
        }
        Ok(())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some((child, _)) = &self.process {
            // A signal to a process that has ended has no effect.
            let _ = child.signal(Signal::KILL);
        }
    }
}

fn now_ms() -> u64 {
    sys::time::monotonic_ms()
}

/// Starts the probing process; returns it and the pipe of its answer.
fn start(
    wish: &HardwareWish<'_>,
    confinement: Option<&Confinement>,
) -> io::Result<(Child, OwnedFd)> {
    let (answer, writer) = sys::io::pipe()?;
    sys::io::set_nonblocking(&answer, true)?;
    let own = SelfExe::open()?;
    let mut command = own.command()?;
    command
        .args(["fulmar", ROLE])
        .arg(if confinement.is_some() {
            "root"
        } else {
            "user"
        })
        .args(wish.libraries)
        .fd(sys::io::null()?, 0)
        .fd(writer, 1)
        .fd(sys::io::null()?, 2)
        .current_dir("/")
        .no_new_privs();
    if let Some(Confinement {
        ids: (uid, gid), ..
    }) = confinement
    {
        command.credentials(Credentials {
            uid: *uid,
            gid: *gid,
            groups: vec![*gid],
        });
    }
    // Dropping the command closes this process's copy of the pipe's write end, which would keep the
    // answer open.
    Ok((command.spawn()?, answer))
}

/// Parses the answer.
fn understood(text: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().unwrap_or_default();
    match (line.strip_prefix(WORKS), line.strip_prefix(FAILS)) {
        (Some(description), _) => Ok(description.to_owned()),
        (_, Some(why)) => Err(why.to_owned()),
        (None, None) => Err("the process that tries it has failed".to_owned()),
    }
}

#[cfg(test)]
impl Trial {
    /// A probe that runs a shell script instead.
    pub(crate) fn by(script: &str) -> Self {
        let (answer, writer) = sys::io::pipe().unwrap();
        sys::io::set_nonblocking(&answer, true).unwrap();
        let mut command = sys::process::ChildCommand::new("/bin/sh");
        command.args(["sh", "-c", script]);
        command.fd(sys::io::null().unwrap(), 0).fd(writer, 1);
        command.fd(sys::io::null().unwrap(), 2);
        Self {
            process: Some((command.spawn().unwrap(), answer)),
            text: Vec::new(),
            outcome: None,
            deadline_ms: now_ms() + 60_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood_and_none_is_a_reason() {
        for (script, expected) in [
            ("echo works /lib/x: IN USE", Ok("/lib/x: IN USE")),
            ("echo fails /lib/x: no; echo more", Err("/lib/x: no")),
            ("exit 0", Err("the process that tries it has failed")),
            ("kill -9 $$", Err("the process that tries it has failed")),
            (
                "echo something else",
                Err("the process that tries it has failed"),
            ),
            (
                "head -c 9000 /dev/zero; exec sleep 600",
                Err("the process that tries it has failed"),
            ),
        ] {
            let mut trial = Trial::by(script);
            trial.wait();
            let outcome = trial.outcome.clone().unwrap();
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(outcome, expected, "{script}");
        }
    }

    #[test]
    fn one_that_is_late_is_given_up() {
        let mut late = Trial::by("exec sleep 600");
        late.hear(late.deadline_ms - 1);
        assert!(late.answer().is_some());
        late.hear(late.deadline_ms);
        assert!(late.answer().is_none());
        let outcome = late.outcome.clone().unwrap();
        assert!(outcome.unwrap_err().contains("no answer"));
        late.wait();
    }
}
