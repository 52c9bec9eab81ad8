//! What a program with many connections does with a login that it has given up: the login goes no further, and the
//! processes that it waits for (proxies, commands of the configuration) are ended.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sys::process::{Child, ChildCommand, PidFd, SpawnError, SpawnStep};
use sys::signals::Signal;

use crate::error::ClientError;

const GIVEN_UP: &str = "the login was given up";

thread_local! {
    /// Those of the login on this thread, if its program may end them.
    static OWN: RefCell<Option<Arc<LoginProcesses>>> = const { RefCell::new(None) };
}

/// The processes of one login.
#[derive(Debug, Default)]
pub struct LoginProcesses {
    is_given_up: AtomicBool,
    /// Those that are not dropped yet.
    running: Mutex<Vec<Weak<PidFd>>>,
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

    /// The login goes no further than its present step: it starts no process, believes no answer of one, accepts no
    /// host key, and sends no proof and no command.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::SeqCst)
    }

    /// Gives the login up, and ends the processes that run with SIGTERM.
    pub fn end(&self) {
        self.give_up();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for process in running.drain(..).filter_map(|it| it.upgrade()) {
            // One that has ended needs none.
            let _ = process.signal(Signal::TERM);
        }
    }

    /// No lock is held while the process starts: that may wait for a file system, and [`Self::end`] must not. One that
    /// starts meanwhile is ended here.
    fn spawn(&self, command: &mut ChildCommand) -> Result<Child, SpawnError> {
        if self.is_given_up() {
            return Err(SpawnError {
                step: SpawnStep::Clone,
                error: io::Error::other(GIVEN_UP),
            });
        }
        let child = command.spawn()?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|it| it.strong_count() > 0);
        running.push(child.weak_pidfd());
        drop(running);
        if self.is_given_up() {
            let _ = child.signal(Signal::TERM);
        }
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

/// True if the program has given up this thread's login. What a process has said then is the end that the program
/// has made of it.
pub(crate) fn is_given_up() -> bool {
    OWN.with_borrow(|own| own.as_ref().is_some_and(|own| own.is_given_up()))
}

/// To be asked before a step with consequences.
///
/// # Errors
/// [`ClientError::Refused`] if the program has given up this thread's login.
pub(crate) fn go_on() -> Result<(), ClientError> {
    match is_given_up() {
        true => Err(ClientError::Refused(GIVEN_UP.to_owned())),
        false => Ok(()),
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
        processes.noted_during(|| assert!(is_given_up() && go_on().is_err()));
        assert!(go_on().is_ok());
        let mut other = sleep().unwrap();
        processes.end();
        assert_eq!(other.try_wait().unwrap(), None);
        other.signal(Signal::KILL).unwrap();
        other.wait().unwrap();
    }
}
