//! The processes that a login starts and waits for: proxies, and commands of the configuration. A program with
//! many connections ends those of a login that it has given up.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sys::process::{Child, PidFd};
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

    /// Ends those that run with SIGTERM, and each that is started later.
    pub fn end(&self) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.have_ended = true;
        for process in started.running.drain(..).filter_map(|it| it.upgrade()) {
            // One that has ended needs none.
            let _ = process.signal(Signal::TERM);
        }
    }

    fn add(&self, child: &Child) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if started.have_ended {
            let _ = child.signal(Signal::TERM);
            return;
        }
        started.running.retain(|it| it.strong_count() > 0);
        started.running.push(child.weak_pidfd());
    }
}

/// Notes a process that this thread's login has started.
pub(crate) fn started(child: &Child) {
    OWN.with_borrow(|own| {
        if let Some(own) = own {
            own.add(child);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::process::{ChildCommand, ExitStatus};

    #[test]
    fn processes_end_with_their_login_and_later_ones_too() {
        let sleep = || {
            let mut command = ChildCommand::new("/bin/sleep");
            let child = command.args(["sleep", "1000"]).without_stdio().spawn();
            let child = child.unwrap();
            started(&child);
            child
        };
        let is_ended = |mut child: Child| {
            let status = child.wait().unwrap();
            matches!(
                status,
                ExitStatus::Signaled {
                    signal: Signal::TERM,
                    ..
                }
            )
        };
        let processes = Arc::<LoginProcesses>::default();
        let (before, after) = processes.noted_during(|| {
            let before = sleep();
            processes.end();
            (before, sleep())
        });
        assert!(is_ended(before) && is_ended(after));
        let mut other = sleep();
        processes.end();
        assert_eq!(other.try_wait().unwrap(), None);
        other.signal(Signal::KILL).unwrap();
        other.wait().unwrap();
    }
}
