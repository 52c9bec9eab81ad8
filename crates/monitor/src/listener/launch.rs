//! Starts monitors: executes this program again through the descriptor opened at start, with the
//! configuration in a sealed memfd and the host keys in a pipe.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use config::server::{AuthenticationOptions, ServerConfig};
use privsep::{Message, MonitorConnection, MonitorSecrets, MonitorStart, Secret, roles};
use sys::process::{Child, ChildCommand, SelfExe};
use zeroize::Zeroizing;

use super::confinement::Confinement;
use super::early_banner::{Greet, Greeting};
use super::hostkeys::HostKeys;
use super::reader::ReaderProcess;
use crate::connection::{MAX_SECRETS_BYTES, PATH};
use crate::log::Log;

/// What every monitor receives until the next reload.
#[derive(Debug)]
pub(crate) struct Launch {
    kept: Kept,
    /// Monitors report what the metrics count.
    has_metrics: bool,
    start: OwnedFd,
    private_keys: Vec<Secret>,
    keep_stderr: bool,
    oom_score: Option<i32>,
    confinement: Option<Confinement>,
    greeting: Option<Rc<Greeting>>,
}

/// What stays over all reloads.
#[derive(Debug)]
pub(crate) struct Kept {
    executable: SelfExe,
    delay_secret: Secret,
    /// The pipe of the monitors' reports, its reading end first; made with the first configuration
    /// that asks for metrics.
    reports: Option<(OwnedFd, OwnedFd)>,
}

impl Kept {
    /// What every server has from its start.
    pub(crate) fn new(executable: SelfExe, delay_secret: Secret) -> Self {
        Self {
            executable,
            delay_secret,
            reports: None,
        }
    }

    fn share(&self) -> io::Result<Self> {
        let ends = self.reports.as_ref();
        let ends = ends.map(|(reader, writer)| -> io::Result<_> {
            Ok((sys::io::dup(reader)?, sys::io::dup(writer)?))
        });
        Ok(Self {
            executable: SelfExe::from_fd(sys::io::dup(&self.executable)?),
            delay_secret: self.delay_secret.clone(),
            reports: ends.transpose()?,
        })
    }

    fn open_reports(&mut self) -> io::Result<()> {
        if self.reports.is_none() {
            let (reader, writer) = sys::io::pipe()?;
            sys::io::set_nonblocking(&reader, true)?;
            sys::io::set_nonblocking(&writer, true)?;
            self.reports = Some((reader, writer));
        }
        Ok(())
    }
}

/// Properties of the monitors that come from the command line and the server's privileges.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) log_to_stderr: bool,
    /// As in [`MonitorStart::log_override`].
    pub(crate) log_override: u32,
    /// Empty directory and ids of the auth process; `None` without root privilege.
    pub(crate) confinement: Option<Confinement>,
    /// The OOM score that monitors get: the listener's own before it protected itself.
    pub(crate) oom_score: Option<i32>,
    /// Makes the early banner; `None` for a single connection.
    pub(crate) greet: Option<Greet>,
}

impl Launch {
    /// Prepares the data that all monitors share.
    ///
    /// # Errors
    /// If the memfd cannot be created.
    pub(crate) fn new(
        mut kept: Kept,
        config: &ServerConfig,
        host_keys: HostKeys,
        shape: &Shape,
    ) -> io::Result<Self> {
        // A server of one connection has no listener that would count.
        let has_metrics = shape.greet.is_some() && config.global().logging.has_metrics();
        if has_metrics {
            kept.open_reports()?;
        }
        let greeting = shape
            .greet
            .and_then(|greet| Greeting::new(config, &host_keys.offered, greet));
        let start = MonitorStart {
            config: config.encode(),
            log_to_stderr: shape.log_to_stderr,
            log_override: shape.log_override,
            host_keys: host_keys.offered,
            chroot: shape
                .confinement
                .as_ref()
                .map(|confinement| confinement.chroot.clone()),
            auth_ids: shape
                .confinement
                .as_ref()
                .map(|confinement| confinement.ids),
            host_key_agent: host_keys.agent,
            reports: has_metrics,
        };
        Ok(Self {
            kept,
            has_metrics,
            start: sys::memfd::sealed("sshd-monitor", &start.encode_body())?,
            private_keys: host_keys.files,
            keep_stderr: shape.log_to_stderr,
            oom_score: shape.oom_score,
            confinement: shape.confinement.clone(),
            greeting: greeting.map(Rc::new),
        })
    }

    /// Copies what the `Launch` that replaces this one after a reload keeps; this one stays usable.
    ///
    /// # Errors
    /// If a descriptor cannot be duplicated.
    pub(crate) fn kept(&self) -> io::Result<Kept> {
        self.kept.share()
    }

    /// The program that all processes of connections execute.
    pub(super) fn executable(&self) -> &SelfExe {
        &self.kept.executable
    }

    /// The pipe of the monitors' reports; `None` as long as no configuration asked for metrics.
    pub(super) fn reports(&self) -> Option<&OwnedFd> {
        self.kept.reports.as_ref().map(|(reader, _)| reader)
    }

    /// The early banner; `None` if each auth process sends its own.
    pub(super) fn greeting(&self) -> Option<Rc<Greeting>> {
        self.greeting.clone()
    }

    /// Starts a reader.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(super) fn start_reader(&self) -> io::Result<ReaderProcess> {
        ReaderProcess::start(
            &self.kept.executable,
            self.confinement.as_ref(),
            self.oom_score,
        )
    }

    /// Starts a monitor for `network` without waiting for it. Returns the monitor and the pipe of
    /// its news.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(crate) fn start(
        &self,
        network: OwnedFd,
        connection: &MonitorConnection,
    ) -> io::Result<(Child, OwnedFd)> {
        let (news, news_writer) = sys::io::pipe()?;
        let mut command = self.command(Some(connection), news_writer)?;
        command.fd(network, roles::NETWORK_FD);
        sys::io::set_nonblocking(&news, true)?;
        Ok((command.spawn()?, news))
    }

    /// Starts a monitor for a future connection without waiting for it. Returns the monitor and the
    /// socket through which it receives the connection and then sends its news.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(super) fn start_ahead(&self) -> io::Result<(Child, OwnedFd)> {
        let (ours, theirs) = sys::socket::stream_pair()?;
        let mut command = self.command(None, theirs)?;
        sys::io::set_nonblocking(&ours, true)?;
        Ok((command.spawn()?, ours))
    }

    /// The command of a monitor, with its descriptors and environment.
    fn command(
        &self,
        connection: Option<&MonitorConnection>,
        news: OwnedFd,
    ) -> io::Result<ChildCommand> {
        let keys = self.key_pipe(connection)?;
        let mut command = self.kept.executable.command()?;
        command
            .args(["fulmar", roles::ROLE_MONITOR, roles::TITLE_ROOM])
            .env("PATH", PATH)
            .without_stdio()
            .fd(news, roles::MONITOR_NEWS_FD)
            .fd_shared(&self.start, roles::MONITOR_CONFIG_FD)
            .fd(keys, roles::MONITOR_KEYS_FD)
            .fd_shared(&self.kept.executable, roles::MONITOR_BINARY_FD)
            .new_session();
        if let Some((_, writer)) = self.kept.reports.as_ref().filter(|_| self.has_metrics) {
            command.fd_shared(writer, roles::MONITOR_REPORTS_FD);
        }
        if let Some(score) = self.oom_score {
            command.oom_score(score);
        }
        if self.keep_stderr {
            command.fd_shared(sys::io::stderr(), 2);
        } else {
            command.fd(sys::io::null()?, 2);
        }
        let kerberos = gssapi::VARIABLES;
        // LANG is for the programs of AuthorizedKeysCommand.
        for name in ["TZ", "LANG", crypto::arch::FEATURES_VARIABLE]
            .into_iter()
            .chain(kerberos)
        {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }

    /// The sealed start record.
    #[cfg(test)]
    pub(super) fn start_record(&self) -> &OwnedFd {
        &self.start
    }

    /// Returns a pipe that already holds all secrets and whose writer is closed.
    pub(super) fn key_pipe(&self, connection: Option<&MonitorConnection>) -> io::Result<OwnedFd> {
        let secrets = MonitorSecrets {
            accepted_ms: connection.map(|each| each.accepted_ms),
            greeted: connection.and_then(|each| each.greeted.clone()),
            client: connection.and_then(|each| each.client.clone()),
            delay_secret: self.kept.delay_secret.clone(),
            private_keys: self.private_keys.clone(),
        };
        let bytes = Zeroizing::new(secrets.encode_body());
        let (reader, writer) = sys::io::pipe()?;
        if bytes.len() > MAX_SECRETS_BYTES
            || (bytes.len() > 4096
                && sys::io::set_pipe_size(&writer, bytes.len()).unwrap_or(65_536) < bytes.len())
        {
            return Err(io::Error::other("the host keys are too large in total"));
        }
        sys::io::set_nonblocking(&writer, true)?;
        if sys::io::write(&writer, &bytes)? != bytes.len() {
            return Err(io::Error::other("host keys do not fit into a pipe"));
        }
        Ok(reader)
    }
}

/// Excludes the listener from the OOM killer's choice: without the listener nobody could log in to
/// repair the machine. Returns the previous score, which children are to have; `None` if nothing
/// was changed.
pub(crate) fn protect_from_oom(log: &Log) -> Option<i32> {
    const NEVER: i32 = -1000;
    if !sys::process::is_root() {
        return None;
    }
    match sys::process::set_oom_score(NEVER) {
        Ok(before) => Some(before),
        Err(error) => {
            // A container may lack CAP_SYS_RESOURCE; everything else works.
            log.debug(&format!("error writing oom_score_adj: {error}"));
            None
        }
    }
}

/// Does something with the OOM score that this process had before, `None` for the one that it has.
pub(crate) fn unprotect_from_oom<T>(before: Option<i32>, what: impl FnOnce() -> T) -> T {
    let Some(before) = before else { return what() };
    let own = sys::process::set_oom_score(before);
    let done = what();
    let _ = own.map(sys::process::set_oom_score);
    done
}

/// Encodes the level that `-d` and `-q` force, for [`MonitorStart::log_override`].
pub(crate) fn log_override(debug: u8, quiet: bool) -> u32 {
    match (debug, quiet) {
        (0, false) => 0,
        (0, true) => 1,
        // 6 is DEBUG1; -ddd is DEBUG3.
        (count, _) => 5 + u32::from(count.min(3)),
    }
}

/// The log line for a server started without root privilege whose options ask for PAM.
pub(crate) fn without_privilege(authentication: &AuthenticationOptions) -> Option<&'static str> {
    (!sys::process::is_root() && authentication.use_pam)
        .then_some("not started as root: UsePAM has no effect, and only our own user is served")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forced_level_travels() {
        use crate::log::forced_level;
        use privsep::LogLevel;
        assert_eq!(forced_level(log_override(0, false)), None);
        assert_eq!(forced_level(log_override(0, true)), Some(LogLevel::Quiet));
        assert_eq!(forced_level(log_override(1, false)), Some(LogLevel::Debug1));
        assert_eq!(forced_level(log_override(3, true)), Some(LogLevel::Debug3));
    }
}
