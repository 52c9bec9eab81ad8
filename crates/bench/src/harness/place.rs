//! Where processes are started: here, or on a thread of its own that was put elsewhere first (a
//! CPU, a network namespace), which its children inherit.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::account::Account;

type BenchCommand = Box<dyn FnOnce() + Send>;

/// A thread that works off jobs in an environment of its own.
#[derive(Debug)]
struct Executor {
    jobs: Sender<BenchCommand>,
}

impl Executor {
    /// Starts the thread; `prepare` puts it where it is to be.
    fn start<T: Send + 'static>(
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(Self, T)> {
        let (jobs, queue): (Sender<BenchCommand>, Receiver<BenchCommand>) = channel();
        let (tell, told) = channel();
        std::thread::Builder::new()
            .name("place".into())
            .spawn(move || {
                let prepared = prepare();
                let usable = prepared.is_ok();
                // Nobody listens only when the maker is gone; then the queue is closed, too.
                let _ = tell.send(prepared);
                if usable {
                    for job in queue {
                        job();
                    }
                }
            })?;
        let prepared = told
            .recv()
            .map_err(|_| io::Error::other("the thread of a place ended"))??;
        Ok((Self { jobs }, prepared))
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let gone = || io::Error::other("the thread of a place ended");
        let (tell, told) = channel();
        self.jobs
            .send(Box::new(move || {
                let _ = tell.send(work());
            }))
            .map_err(|_| gone())?;
        told.recv().map_err(|_| gone())
    }
}

/// Where processes are started, and the address that servers started there listen on.
#[derive(Debug, Clone)]
pub(crate) struct ServerHost {
    executor: Option<Arc<Executor>>,
    address: IpAddr,
    /// The account of what logs in here, where it is not the user's own.
    account: Option<Arc<Account>>,
}

impl ServerHost {
    /// Where this process is, on the loopback network.
    pub(crate) fn here() -> Self {
        Self {
            executor: None,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            account: None,
        }
    }

    /// This machine's loopback with a plain account to log in to, where this user may have that.
    pub(crate) fn for_servers() -> io::Result<Self> {
        Ok(Self::with_account(IpAddr::V4(Ipv4Addr::LOCALHOST), || Ok(()))?.0)
    }

    /// As [`ServerHost::for_servers`], with this name server where there is an account.
    pub(crate) fn with_name_server(server: Ipv4Addr) -> io::Result<Self> {
        let list = Some(format!("nameserver {server}\n"));
        Ok(Self::with_layer(IpAddr::V4(Ipv4Addr::LOCALHOST), list, || Ok(()))?.0)
    }

    /// As [`ServerHost::prepared`], with a plain account to log in to where this user may have
    /// that.
    pub(crate) fn with_account<T: Send + 'static>(
        address: IpAddr,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(Self, T)> {
        Self::with_layer(address, None, prepare)
    }

    fn with_layer<T: Send + 'static>(
        address: IpAddr,
        name_servers: Option<String>,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(Self, T)> {
        // An account that /etc/passwd does not name cannot be made a plain one.
        let account = Account::new().ok();
        let layer = account.as_ref().map(|account| {
            let mut layer = account.layer();
            layer.name_servers = name_servers;
            layer
        });
        let (mut place, (entered, made)) = Self::prepared(address, move || {
            // Not for ordinary users, nor for root in many a container.
            let entered = layer.is_some_and(|layer| layer.enter().is_ok());
            Ok((entered, prepare()?))
        })?;
        place.account = account.filter(|_| entered).map(Arc::new);
        Ok((place, made))
    }

    /// A place of its own on a network where it has `address`: `prepare` takes the thread there,
    /// and what it made comes back.
    pub(crate) fn prepared<T: Send + 'static>(
        address: IpAddr,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(Self, T)> {
        let (executor, made) = Executor::start(prepare)?;
        let place = Self {
            executor: Some(Arc::new(executor)),
            address,
            account: None,
        };
        Ok((place, made))
    }

    /// As [`ServerHost::for_servers`], on one CPU alone.
    pub(crate) fn on_cpu(cpu: usize) -> io::Result<Self> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (place, ()) = Self::with_account(address, move || sys::process::set_affinity(&[cpu]))?;
        Ok(place)
    }

    /// The account of what logs in here; none where it is the user's own.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    /// The address of what listens here.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Does `work` here.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        match &self.executor {
            None => Ok(work()),
            Some(executor) => executor.run(work),
        }
    }

    /// Starts `command` here. The command is dropped, with its copies of descriptors.
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.run(move || command.spawn())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_in_a_place_inherits_it() {
        let cpu = sys::process::affinity().unwrap()[0];
        let place = ServerHost::on_cpu(cpu).unwrap();
        let mut command = Command::new("grep");
        command
            .args(["Cpus_allowed_list", "/proc/self/status"])
            .stdout(std::process::Stdio::piped());
        let child = place.spawn(command).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, list) = text.split_once(':').unwrap();
        assert_eq!(list.trim(), cpu.to_string());
    }

    #[test]
    fn a_place_that_cannot_be_had_says_why() {
        let missing = ServerHost::prepared(IpAddr::V4(Ipv4Addr::LOCALHOST), || {
            Err::<(), _>(io::Error::other("no such place"))
        });
        assert_eq!(missing.unwrap_err().to_string(), "no such place");
    }
}
