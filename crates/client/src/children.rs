//! The processes that a login starts and waits for: proxies, and commands of the configuration. A program with
//! many connections ends those of a login that it has given up.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sys::process::{Child, ChildCommand, PidFd, SpawnError, SpawnStep};
use sys::signals::Signal;

thread_local! {
    /// Those of the login on this thread, if its program may end them.
    static OWN: RefCell<Option<Arc<LoginProcesses>>> = const { RefCell::new(None) };
}

/// The processes of one login.
#[derive(Debug, Default)]
pub struct LoginProcesses(Mutex<StartedProcesses>);

#[derive(Debug, Default)]
struct StartedProcesses {
    /// Those that are not dropped yet.
    running: Vec<Weak<PidFd>>,
    have_ended: bool,
}

impl LoginProcesses {
    /// Notes what this thread starts while `work` runs.
    pub fn noted_during<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Forget;
        impl Drop for Forget {
            fn drop(&mut self) {
                OWN.set(None);
            }
        }
        OWN.set(Some(Arc::clone(self)));
        let _forget = Forget;
        work()
    }

    /// Ends those that run with SIGTERM. No other starts.
    pub fn end(&self) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.have_ended = true;
        for process in started.running.drain(..).filter_map(|it| it.upgrade()) {
            // One that has ended needs none.
            let _ = process.signal(Signal::TERM);
        }
    }

    /// The lock is held until the process has started: when [`Self::end`] returns, none is missed.
    fn spawn(&self, command: &mut ChildCommand) -> Result<Child, SpawnError> {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if started.have_ended {
            return Err(SpawnError {
                step: SpawnStep::Clone,
                error: io::Error::other("the login was given up"),
            });
        }
        let child = command.spawn()?;
        started.running.retain(|it| it.strong_count() > 0);
        started.running.push(child.weak_pidfd());
        Ok(child)
    }
}

/// Starts a process of this thread's login.
///
/// # Errors
/// [`SpawnError`], also when the login was given up.
pub(crate) fn spawn(command: &mut ChildCommand) -> Result<Child, SpawnError> {
    let own = OWN.with_borrow(Clone::clone);
    match own {
        Some(own) => own.spawn(command),
        None => command.spawn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::process::ExitStatus;

    #[test]
    fn processes_end_with_their_login_and_none_starts_later() {
        let sleep = || {
            let mut command = ChildCommand::new("/bin/sleep");
            spawn(command.args(["sleep", "1000"]).without_stdio())
        };
        let processes = Arc::<LoginProcesses>::default();
        let (mut before, after) = processes.noted_during(|| {
            let before = sleep();
            processes.end();
            (before.unwrap(), sleep())
        });
        assert!(matches!(
            before.wait().unwrap(),
            ExitStatus::Signaled {
                signal: Signal::TERM,
                ..
            }
        ));
        assert!(after.is_err());
        let mut other = sleep().unwrap();
        processes.end();
        assert_eq!(other.try_wait().unwrap(), None);
        other.signal(Signal::KILL).unwrap();
        other.wait().unwrap();
    }
}
