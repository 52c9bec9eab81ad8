//! The work of one host when files are copied: the copy engine of scp on the host's thread, its
//! connection on another.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use client::ClientError;
use client::flags::SessionRequest;
use client::session::AnyLocalEnd;
use copy::host_copy::{HostCopied, HostCopy, HostCopyWay};

use crate::command::{Common, has_no_room};
use crate::crew::HostWork;
use crate::hosts::Host;
use crate::outcome::{self, HostOutcome};
use crate::output::{HostOutput, locked};
use crate::session::Control;

/// Stands for the host's name in the target of files that are fetched.
const HOST_MARK: &str = "{host}";

/// Copies files.
pub(crate) struct CopyFiles {
    pub(crate) common: Arc<Common>,
    pub(crate) way: HostCopyWay,
    pub(crate) sources: Vec<OsString>,
    pub(crate) target: OsString,
    pub(crate) recursive: bool,
    pub(crate) preserve: bool,
}

impl CopyFiles {
    /// The target for a host. Files that are fetched go to a directory of the host's own below the target,
    /// or to the path that has the name in place of [`HOST_MARK`].
    fn target(&self, host: &Host) -> Result<OsString, String> {
        if self.way == HostCopyWay::Put {
            return Ok(self.target.clone());
        }
        let name = host.name.replace('/', "_");
        let (path, directory) = match self.target.to_str() {
            Some(pattern) if pattern.contains(HOST_MARK) => {
                let path = PathBuf::from(pattern.replace(HOST_MARK, &name));
                let above = path.parent().map(Path::to_owned).unwrap_or_default();
                (path, above)
            }
            _ => {
                let path = Path::new(&self.target).join(name);
                (path.clone(), path)
            }
        };
        if !directory.as_os_str().is_empty() {
            std::fs::create_dir_all(&directory).map_err(|error| {
                let reason = error.to_string();
                let shown = escape::one_line(directory.as_os_str().as_encoded_bytes());
                format!("{shown}: {}", escape::system_words(&reason))
            })?;
        }
        Ok(path.into_os_string())
    }

    fn copy(&self, host: &Host, target: OsString, control: &Arc<Control>, way: &Way) -> HostCopy {
        let (user, name) = match host.destination.rsplit_once('@') {
            Some((user, name)) if !host.destination.starts_with("ssh://") => {
                (Some(user.to_owned()), name.to_owned())
            }
            _ => (None, host.destination.clone()),
        };
        let given_up = Arc::clone(control);
        let way = way.clone();
        HostCopy {
            host: name,
            user,
            flags: self.common.flags(host),
            way: self.way.clone(),
            sources: self.sources.clone(),
            target,
            recursive: self.recursive,
            preserve: self.preserve,
            connect: Arc::new(move |request, local| way.connect(request, local)),
            is_given_up: Arc::new(move || given_up.is_abandoned()),
        }
    }
}

/// How the connection of one host is made, and why it ended.
#[derive(Clone)]
struct Way {
    common: Arc<Common>,
    output: Arc<Mutex<HostOutput>>,
    control: Arc<Control>,
    error: Arc<Mutex<Option<ClientError>>>,
}

impl Way {
    fn connect(&self, request: SessionRequest, local: &mut AnyLocalEnd) {
        let result = self
            .common
            .connect(request, local, &self.output, &self.control);
        if let Err(error) = result {
            locked(&self.error).get_or_insert(error);
        }
    }
}

fn outcome_of(copied: &HostCopied, error: Option<&ClientError>, said: Option<&str>) -> HostOutcome {
    if !copied.has_failed {
        return HostOutcome::exit(0);
    }
    if let Some(error) = error {
        return HostOutcome::failed(outcome::cause(error));
    }
    if copied.has_lost_connection {
        let last = copied.errors.last().map(String::as_str);
        return HostOutcome::failed(said.or(last).unwrap_or("connection lost"));
    }
    let first = copied.errors.first().map_or("copy failed", String::as_str);
    HostOutcome {
        status: Some(1),
        cause: Some(first.to_owned()),
    }
}

impl HostWork for CopyFiles {
    fn output(&self, host: usize, control: &Control) -> HostOutput {
        self.common.output(host, control)
    }

    fn work(
        &self,
        host: usize,
        control: &Arc<Control>,
        output: &Arc<Mutex<HostOutput>>,
        is_last: bool,
    ) -> Result<HostOutcome, ()> {
        let Some(of_host) = self.common.hosts.get(host) else {
            return Ok(HostOutcome::failed("no host"));
        };
        locked(output).open(&of_host.name);
        let way = Way {
            common: Arc::clone(&self.common),
            output: Arc::clone(output),
            control: Arc::clone(control),
            error: Arc::default(),
        };
        let copied = match self.target(of_host) {
            Ok(target) => self.copy(of_host, target, control, &way).run(),
            Err(why) => HostCopied {
                errors: vec![why],
                has_failed: true,
                ..HostCopied::default()
            },
        };
        let error = locked(&way.error).take();
        if let Some(error) = &error
            && has_no_room(error)
            && !is_last
        {
            return Err(());
        }
        let mut output = locked(output);
        let said = output.last_message().map(str::to_owned);
        if !control.is_abandoned() {
            let text = error.as_ref().map(ToString::to_string);
            // Without a connection, the copy's last error says only that.
            let known =
                copied.errors.len() - usize::from(error.is_some() && !copied.errors.is_empty());
            for line in copied.errors.iter().take(known).chain(&text) {
                if !line.is_empty() {
                    output.message(line);
                }
            }
        }
        Ok(outcome_of(&copied, error.as_ref(), said.as_deref()))
    }

    fn end(&self) {
        self.common.questions.end();
    }
}

/// True if a local source of a copy does not exist: the same for each host, and said once.
pub(crate) fn missing(sources: &[OsString]) -> Option<&OsStr> {
    let exists = |source: &&OsString| std::fs::symlink_metadata(source).is_ok();
    sources
        .iter()
        .find(|source| !exists(source))
        .map(OsString::as_os_str)
}
