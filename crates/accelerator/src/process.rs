//! [`Accelerator`]: the process that has loaded a library, and its lanes.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use compress::provider::{
    Provider, Run, RunEncoder, RunError, RunOutput, self_test, software_time,
};
use sys::process::{Child, ExitStatus, SelfExe};
use sys::signals::Signal;

use crate::lane::{LaneFault, RunLane, answer};
use crate::layout::{CONTROL_FD, DEVICES, FIRST_LANE_FD, HELLO, MAX_LANES, Reply, text};
use crate::request::LibraryRequest;

/// Environment variables that libraries read; no other variables reach the process.
const ENVIRONMENT: &[&str] = &["ZLIB_*", "QAT_*"];

/// Time limit for the exit of a process that has closed its socket, before it is killed without a
/// known exit status.
const ENDING_LIMIT: Duration = Duration::from_millis(500);
/// Time limit for the end of a killed process. One that is blocked in a device driver may take any
/// time; it is then left to the system.
const KILLED_LIMIT: Duration = Duration::from_millis(20);

/// Maximum length of the library's own output that is added to an error message, bytes.
const PRINTED_BYTES: usize = 300;

/// A loaded library. Its process ends when this value and all its encoders are dropped.
pub struct Accelerator {
    shared: Arc<Shared>,
    description: Description,
}

/// The properties of a loaded library, for logs.
#[derive(Debug, Clone, Default)]
struct Description {
    path: PathBuf,
    version: String,
    missing: String,
    cage: String,
    devices: Vec<String>,
    took: Duration,
    software: Duration,
    verify: bool,
}

struct Shared {
    child: Mutex<Child>,
    /// Read end of the process's standard error, to which libraries print.
    printed: OwnedFd,
    /// The control socket; the process exits when it closes.
    control: OwnedFd,
    lanes: Mutex<Vec<RunLane>>,
    returned: Condvar,
    /// Set at the first failure; the library is not used again.
    over: AtomicBool,
    verify: bool,
    run_limit: Duration,
}

/// A process that has been started and has not yet reported its library.
pub(crate) struct Starting {
    shared: Arc<Shared>,
    level: u8,
    deadline: Instant,
}

impl Starting {
    /// Starts the process for `library`; the start limit counts from here.
    pub(crate) fn new(
        request: &LibraryRequest,
        library: &Path,
        binary: &SelfExe,
    ) -> Result<Self, String> {
        let deadline = Instant::now() + request.start_limit;
        Ok(Self {
            shared: spawn(request, library, binary)?,
            level: request.level,
            deadline,
        })
    }

    /// Returns a handle that makes [`Starting::finish`] fail at once, from any thread.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.shared))
    }

    /// Waits until the process has loaded the library, then runs the self-test.
    pub(crate) fn finish(self) -> Result<Accelerator, String> {
        let Self {
            shared,
            level,
            deadline,
        } = self;
        let explain = |fault| shared.explain(fault);
        let mut description =
            match answer(&shared.control, HELLO, left(deadline)).map_err(explain)? {
                Reply::Says(texts) => described(texts),
                Reply::Failed(why) => return Err(shared.with_printed(why)),
                Reply::Done(_) => return Err("its answer is malformed".to_owned()),
            };
        let mut encoder = RemoteEncoder::take(&shared)?;
        encoder.verify = true;
        encoder.deadline = Some(deadline);
        description.took = self_test(&mut encoder, level).map_err(|RunError(why)| why)?;
        drop(encoder);
        let question = DEVICES.to_le_bytes();
        let asked = sys::socket::send_with_fds(&shared.control, &question, &[]);
        asked.map_err(|error| explain(error.into()))?;
        let devices = answer(&shared.control, DEVICES, left(deadline)).map_err(explain)?;
        if let Reply::Says(devices) = devices {
            description.devices = devices.into_iter().filter(|it| !it.is_empty()).collect();
        }
        description.verify = shared.verify;
        description.software = software_time(level);
        Ok(Accelerator {
            shared,
            description,
        })
    }
}

/// Kills a process whose library is no longer wanted.
pub(crate) struct Canceller(Arc<Shared>);

impl Canceller {
    pub(crate) fn cancel(&self) {
        self.0.over.store(true, Ordering::Release);
        self.0.stop();
    }
}

impl Accelerator {
    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.description.path
    }

    /// Returns the devices that the library has opened. Empty for a library that works in software
    /// or with CPU instructions.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.description.devices
    }

    /// Returns the time that the self-test took for 32 KiB of text.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.description.took
    }

    /// Describes the library in one line: file, version, devices, self-test, sandbox.
    #[must_use]
    pub fn describe(&self) -> String {
        let Description {
            devices,
            missing,
            took,
            software,
            cage,
            ..
        } = &self.description;
        let mut line = format!("{}: ", self.name());
        match devices.as_slice() {
            [] => line.push_str("no device open"),
            devices => line.push_str(&format!("device {} open", devices.join(", "))),
        }
        line.push_str(&format!(
            ", self-test ok, 32 KiB in {} us (software {} us)",
            took.as_micros(),
            software.as_micros()
        ));
        if !missing.is_empty() {
            line.push_str(&format!(", without {missing}"));
        }
        let checked = if self.description.verify {
            "each run inflated and compared"
        } else {
            "runs not compared"
        };
        line.push_str(&format!(", own process ({cage}), {checked}: IN USE"));
        line
    }
}

impl Provider for Accelerator {
    fn name(&self) -> String {
        let path = self.description.path.display();
        match self.description.version.as_str() {
            "" => path.to_string(),
            version => format!("{path} ({version})"),
        }
    }

    fn encoder(&self) -> Result<Box<dyn RunEncoder>, RunError> {
        let encoder = RemoteEncoder::take(&self.shared).map_err(RunError)?;
        Ok(Box::new(encoder))
    }

    fn has_spare(&self) -> bool {
        self.shared.lanes().iter().any(RunLane::has_spare)
    }

    fn shed(&self) {
        // Lanes in use are not in this list.
        self.shared.lanes().iter_mut().for_each(RunLane::shed);
    }
}

impl fmt::Debug for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accelerator")
            .field(&self.description)
            .finish()
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn described(texts: Vec<String>) -> Description {
    let mut texts = texts.into_iter();
    let mut next = || texts.next().unwrap_or_default();
    Description {
        path: PathBuf::from(next()),
        version: next(),
        missing: next(),
        cage: next(),
        ..Description::default()
    }
}

fn spawn(
    request: &LibraryRequest,
    library: &Path,
    binary: &SelfExe,
) -> Result<Arc<Shared>, String> {
    let failed = |error: std::io::Error| format!("cannot start its process: {error}");
    let (control, theirs) = sys::socket::seqpacket_pair().map_err(failed)?;
    let (printed, prints) = sys::io::pipe().map_err(failed)?;
    // Nonblocking, so that a library whose output fills the pipe does not hang.
    sys::io::set_nonblocking(&prints, true).map_err(failed)?;
    sys::io::set_nonblocking(&printed, true).map_err(failed)?;
    let mut command = binary.command().map_err(failed)?;
    let count = request.lanes.clamp(1, MAX_LANES);
    command
        .arg("fulmar")
        .arg(crate::ROLE)
        .arg(count.to_string())
        .arg(library)
        .fd(sys::io::null().map_err(failed)?, 0)
        .fd(sys::io::null().map_err(failed)?, 1)
        .fd(prints, 2)
        .fd(theirs, CONTROL_FD)
        .current_dir("/")
        .no_new_privs();
    let mut lanes = Vec::new();
    let mut next = FIRST_LANE_FD;
    for _ in 0..count {
        let (lane, socket, memory) = RunLane::new().map_err(failed)?;
        command.fd(socket, next).fd(memory, next + 1);
        lanes.push(lane);
        next += 2;
    }
    command.env("LC_ALL", "C").inherit_env_of(ENVIRONMENT);
    if let Some(user) = &request.user {
        command.credentials(user.clone());
    }
    if request.ends_with_starter {
        command.death_signal(Signal::KILL);
    }
    let child = command.spawn().map_err(|error| failed(error.into()))?;
    Ok(Arc::new(Shared {
        child: Mutex::new(child),
        printed,
        control,
        lanes: Mutex::new(lanes),
        returned: Condvar::new(),
        over: AtomicBool::new(false),
        verify: request.verify,
        run_limit: request.run_limit,
    }))
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Vec<RunLane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free lane; waits for one if all are in use, at most as long as a run takes.
    fn take_lane(&self) -> Result<RunLane, String> {
        let mut lanes = self.lanes();
        loop {
            if self.over.load(Ordering::Acquire) {
                return Err("it has failed before".to_owned());
            }
            if let Some(lane) = lanes.pop() {
                return Ok(lane);
            }
            lanes = self
                .returned
                .wait(lanes)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_lane(&self, lane: RunLane) {
        let mut lanes = self.lanes();
        // After a failure no lane is taken again.
        if !self.over.load(Ordering::Acquire) {
            lanes.push(lane);
        }
        drop(lanes);
        self.returned.notify_one();
    }

    /// Marks the library as failed, ends its process and returns the reason for the user.
    fn explain(&self, fault: LaneFault) -> String {
        let first = !self.over.swap(true, Ordering::AcqRel);
        // Frees the lanes' memory and wakes the threads that wait for a lane.
        self.lanes().clear();
        self.returned.notify_all();
        match fault {
            LaneFault::Wrong(why) => {
                self.stop();
                self.with_printed(why)
            }
            LaneFault::Late(limit) => {
                self.stop();
                let limit = format!("no answer within {} ms", limit.as_millis());
                self.with_printed(limit)
            }
            // Another thread has stopped the process in the meantime.
            LaneFault::Ended if !first => "it has failed before".to_owned(),
            LaneFault::Ended => {
                let ended = collect(&mut self.child(), ENDING_LIMIT);
                self.stop();
                let why = match ended {
                    Some(ExitStatus::Signaled { signal, .. }) => {
                        format!("its process was killed by {signal:?}")
                    }
                    Some(ExitStatus::Exited(code)) => format!("its process exited with {code}"),
                    None => "its process has ended".to_owned(),
                };
                self.with_printed(why)
            }
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        kill(&mut self.child());
    }

    /// Appends the last line that the library printed, often the only reason it gives.
    fn with_printed(&self, why: String) -> String {
        let mut printed = vec![0; 4096];
        let len = sys::io::read(&self.printed, &mut printed).unwrap_or(0);
        let printed = printed.get(..len).unwrap_or_default();
        let mut lines = printed.split(|byte| *byte == b'\n');
        let last = lines.rfind(|line| !line.is_empty());
        match last.map(|line| text(line.get(..PRINTED_BYTES).unwrap_or(line))) {
            Some(line) => format!("{why} (its output: {line})"),
            None => why,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        kill(self.child.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the exit status of the process if it ends within `limit`. `None` also if it is by now
/// the child of another process (`ssh -f`), which makes the status unknown.
fn collect(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let ended = sys::io::wait_readable(child.pidfd(), Some(limit)).unwrap_or(false);
    ended.then(|| child.try_wait().ok().flatten()).flatten()
}

fn kill(child: &mut Child) {
    let _ = child.signal(Signal::KILL);
    let _ = collect(child, KILLED_LIMIT);
}

/// An encoder that holds a lane until it is dropped.
struct RemoteEncoder {
    shared: Arc<Shared>,
    /// `None` after a failure.
    lane: Option<RunLane>,
    verify: bool,
    /// Deadline of all runs together, if any; otherwise each run has the run limit.
    deadline: Option<Instant>,
}

impl RemoteEncoder {
    fn take(shared: &Arc<Shared>) -> Result<Self, String> {
        Ok(Self {
            lane: Some(shared.take_lane()?),
            verify: shared.verify,
            shared: Arc::clone(shared),
            deadline: None,
        })
    }
}

impl RunEncoder for RemoteEncoder {
    fn encode_run(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError> {
        let Some(mut lane) = self.lane.take() else {
            return Err(RunError("it has failed before".to_owned()));
        };
        let limit = self.deadline.map_or(self.shared.run_limit, left);
        match lane.encode(run, self.verify, limit, out) {
            Ok(()) => {
                self.lane = Some(lane);
                Ok(())
            }
            Err(fault) => Err(RunError(self.shared.explain(fault))),
        }
    }
}

impl Drop for RemoteEncoder {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.shared.give_lane(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_not_waited_for() {
        let mut command = sys::process::ChildCommand::new("/bin/sleep");
        command.args(["sleep", "600"]);
        for number in 0..3 {
            command.fd(sys::io::null().unwrap(), number);
        }
        let mut child = command.spawn().unwrap();
        // Stands for a process blocked in a driver, which no signal has reached.
        assert_eq!(collect(&mut child, KILLED_LIMIT), None);
        child.signal(Signal::KILL).unwrap();
        let ended = collect(&mut child, Duration::from_secs(60));
        let killed = ExitStatus::Signaled {
            signal: Signal::KILL,
            core_dumped: false,
        };
        assert_eq!(ended, Some(killed));
        // A second kill is harmless.
        kill(&mut child);
    }
}
