//! From one server to another: through us, or (`-R`) by a copy that the first one makes.

use std::ffi::OsString;

use sftp::Attributes;
use sftp::attributes::mode;
use transfer::options::{MAX_DEPTH, Resume};
use transfer::plan::joined;
use transfer::relay::{Relay, RelayItem};
use transfer::remote::{Remote, RemoteError};
use transfer::text;

use super::operand::os;
use super::options::ScpOptions;
use super::{Fatal, found, local_name, lost, prepared, prepared_pattern};
use crate::{AnyRemote, Console, RemoteHost};

/// Files that are carried over in one go: what is walked ahead.
const MAX_AHEAD: usize = 1000;

/// Copies what a path comes to on one server to a path of another.
pub(super) fn perform(
    options: &ScpOptions,
    console: &mut Console,
    (from, source): (&RemoteHost, &[u8]),
    (to, target): (&RemoteHost, &[u8]),
    into_directory: bool,
) -> Result<(), Fatal> {
    let copy = &options.copy;
    for (given, flag) in [
        (copy.atomic, "--atomic"),
        (copy.resume != Resume::Never, "-Z"),
        (copy.sparse, "--sparse"),
        (copy.verify, "--verify"),
    ] {
        if given {
            return Err(Fatal::new(format!(
                "{flag} does not work from one server to another: leave it out, or copy through a local file"
            )));
        }
    }
    if options.remote_to_remote {
        return by_the_first(options, console, (from, source), (to, target));
    }
    if options.old_protocol {
        return super::legacy::between(options, (from, source), (to, target), into_directory);
    }
    let mut links = options.way.links();
    for server in [from, to] {
        let added = options.way.add(&mut links, server);
        added.map_err(Fatal::connection)?;
    }
    let mut remote = Remote::new(links).map_err(|error| lost(&error))?;
    let mut walk = Walk {
        options,
        console,
        remote: &mut remote,
        items: Vec::new(),
        directories: Vec::new(),
    };
    walk.copy(source, target, into_directory)?;
    walk.flush()?;
    walk.settle_directories()?;
    super::hang_up(remote);
    Ok(())
}

struct Walk<'w> {
    options: &'w ScpOptions,
    console: &'w mut Console,
    remote: &'w mut AnyRemote,
    items: Vec<RelayItem>,
    /// Those that are there at the target, with what they are to have when all is in them: what is
    /// in a directory comes after it.
    directories: Vec<(Vec<u8>, Attributes)>,
}

impl Walk<'_> {
    fn copy(&mut self, source: &[u8], target: &[u8], into: bool) -> Result<(), Fatal> {
        self.remote.use_link(1);
        let target = prepared(self.remote, target)?;
        let mut is_directory = self
            .remote
            .is_directory(&target)
            .map_err(|error| lost(&error))?;
        if into && !is_directory {
            if !self.make_directory(&target, 0o777)? {
                return Ok(());
            }
            is_directory = true;
        }
        self.remote.use_link(0);
        let pattern = prepared_pattern(self.remote, source)?;
        let found = found(self.remote, self.console, &pattern)?;
        if found.is_empty() {
            let shown = text::name(source);
            self.console
                .error(&format!("{shown}: No such file or directory"));
        }
        if found.len() > 1 && !is_directory {
            let shown = text::name(&target);
            self.console.error(&format!(
                "multiple files match, but destination \"{shown}\" is not a directory"
            ));
            return Ok(());
        }
        for each in found {
            let to = match (is_directory, local_name(source, &each.path)) {
                (false, _) => target.clone(),
                (true, b"." | b".." | b"/" | b"") => joined(&target, b"."),
                (true, name) => joined(&target, name),
            };
            self.one(&each.path, &to, 0)?;
        }
        Ok(())
    }

    /// Makes a directory, or finds it there; false where neither is so, which was said.
    fn make_directory(&mut self, path: &[u8], mode: u32) -> Result<bool, Fatal> {
        self.remote.use_link(1);
        let made = self.remote.mkdir(path, mode | 0o700);
        let there = match made {
            Ok(()) => true,
            Err(RemoteError::Engine(error)) => return Err(lost(&error)),
            Err(_) => self
                .remote
                .is_directory(path)
                .map_err(|error| lost(&error))?,
        };
        if !there {
            let shown = text::name(path);
            self.console
                .error(&format!("remote mkdir \"{shown}\" failed"));
        }
        self.remote.use_link(0);
        Ok(there)
    }

    /// Sets the modes and times of directories, the innermost first: what is made in one changes
    /// its time.
    fn settle_directories(&mut self) -> Result<(), Fatal> {
        self.remote.use_link(1);
        while let Some((path, attributes)) = self.directories.pop() {
            match self.remote.setstat(&path, attributes, true) {
                Ok(()) => {}
                Err(RemoteError::Engine(error)) => return Err(lost(&error)),
                Err(error) => {
                    let shown = text::name(&path);
                    self.console
                        .error(&format!("remote setstat \"{shown}\": {error}"));
                }
            }
        }
        self.remote.use_link(0);
        Ok(())
    }

    fn one(&mut self, from: &[u8], to: &[u8], depth: usize) -> Result<(), Fatal> {
        let shown = text::name(from);
        let attributes = match self.remote.stat(from) {
            Ok(attributes) => attributes,
            Err(RemoteError::Engine(error)) => return Err(lost(&error)),
            Err(error) => {
                self.console
                    .error(&format!("stat remote \"{shown}\": {error}"));
                return Ok(());
            }
        };
        if !attributes.is(mode::DIRECTORY) {
            let regular = attributes
                .permissions
                .is_none_or(|mode| matches!(mode & mode::TYPE, mode::REGULAR | 0));
            if !regular {
                self.console
                    .error(&format!("crossload \"{shown}\": not a regular file"));
                return Ok(());
            }
            self.items.push(RelayItem {
                from: from.to_vec(),
                to: to.to_vec(),
                attributes,
            });
            if self.items.len() >= MAX_AHEAD {
                self.flush()?;
            }
            return Ok(());
        }
        if !self.options.copy.recursive {
            self.console
                .error(&format!("crossload \"{shown}\": not a regular file"));
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            self.console.error(&format!(
                "Maximum directory depth exceeded: {MAX_DEPTH} levels: \"{shown}\""
            ));
            return Ok(());
        }
        let mode = attributes.permissions.unwrap_or(0o777) & mode::KEPT_OF_DIRECTORY;
        if !self.make_directory(to, mode)? {
            return Ok(());
        }
        if self.options.copy.preserve {
            let kept = Attributes {
                times: attributes.times,
                ..Attributes::with_permissions(mode)
            };
            self.directories.push((to.to_vec(), kept));
        }
        let mut suspects = Vec::new();
        let entries = self.remote.list(from, false, &mut |name| {
            suspects.push(text::name(name));
        });
        for name in suspects {
            self.console.error(&format!(
                "Server sent suspect path \"{name}\" during readdir of \"{shown}\""
            ));
        }
        let entries = match entries {
            Ok(entries) => entries,
            Err(RemoteError::Engine(error)) => return Err(lost(&error)),
            Err(error) => {
                self.console
                    .error(&format!("remote readdir(\"{shown}\"): {error}"));
                return Ok(());
            }
        };
        for entry in entries {
            self.one(
                &joined(from, &entry.name),
                &joined(to, &entry.name),
                depth + 1,
            )?;
        }
        Ok(())
    }

    /// Carries over what was found so far.
    fn flush(&mut self) -> Result<(), Fatal> {
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return Ok(());
        }
        let copy = &self.options.copy;
        let mut work = Relay::new(items, copy.preserve, copy.limit_bytes, self.console);
        self.remote
            .engine()
            .run(&mut work)
            .map_err(|error| lost(&error))
    }
}

/// Lets the first server's own `scp` copy to the second.
fn by_the_first(
    options: &ScpOptions,
    console: &mut Console,
    (from, source): (&RemoteHost, &[u8]),
    (to, target): (&RemoteHost, &[u8]),
) -> Result<(), Fatal> {
    let mut words = OsString::from("scp");
    for (given, flag) in [
        (options.way.verbose > 0, " -v"),
        (options.copy.recursive, " -r"),
        (options.copy.preserve, " -p"),
        (options.old_protocol, " -O"),
    ] {
        if given {
            words.push(flag);
        }
    }
    let user = to.user.as_ref().map(|user| format!("{user}@"));
    let host = match to.host.contains(':') {
        true => format!("[{}]", to.host),
        false => to.host.clone(),
    };
    words.push(" -- ");
    words.push(os(source));
    words.push(" ");
    words.push(format!("{}{host}:", user.unwrap_or_default()));
    words.push(os(target));
    let mut command = options
        .way
        .command(from, false, &words)
        .map_err(Fatal::new)?;
    command.stdin(std::process::Stdio::null());
    match super::status_of(&mut command) {
        Ok(true) => {}
        Ok(false) => console.error(&format!("copy from {} failed", text::one_line(&from.host))),
        Err(error) => console.error(&text::reason(&error)),
    }
    Ok(())
}
