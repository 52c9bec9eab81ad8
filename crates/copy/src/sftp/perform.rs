//! The commands.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command as Program;

use sftp::attributes::mode;
use sftp::extension;
use sftp::{Attributes, Owner};
use transfer::engine::EngineError;
use transfer::glob::{self, Match};
use transfer::options::Options as CopyOptions;
use transfer::plan::joined;
use transfer::remote::RemoteError;
use transfer::text;

use super::command::{CopyFlags, LsFlags, SftpCommand};
use super::listing::{self, Shown};
use super::options::SftpOptions;
use super::os;
use crate::{AnyRemote, Console, CopyLinks};

/// What the help says.
const HELP: &str = "\
Available commands:
bye                                Quit sftp
cd path                            Change remote directory to 'path'
chgrp [-h] grp path                Change group of file 'path' to 'grp'
chmod [-h] mode path               Change permissions of file 'path' to 'mode'
chown [-h] own path                Change owner of file 'path' to 'own'
copy oldpath newpath               Copy remote file
cp oldpath newpath                 Copy remote file
df [-hi] [path]                    Display statistics for current directory or
                                   filesystem containing 'path'
exit                               Quit sftp
get [-afpR] remote [local]         Download file
help                               Display this help text
lcd path                           Change local directory to 'path'
lls [ls-options [path]]            Display local directory listing
lmkdir [-p] path                   Create local directory
ln [-s] oldpath newpath            Link remote file (-s for symlink)
lpwd                               Print local working directory
ls [-1afhlnrSt] [path]             Display remote directory listing
lumask umask                       Set local umask to 'umask'
mkdir [-p] path                    Create remote directory
progress                           Toggle display of progress meter
put [-afpR] local [remote]         Upload file
pwd                                Display remote working directory
quit                               Quit sftp
reget [-fpR] remote [local]        Resume download file
rename oldpath newpath             Rename remote file
reput [-fpR] local [remote]        Resume upload file
rm path                            Delete remote file
rmdir path                         Remove remote directory
symlink oldpath newpath            Symlink remote file
version                            Show SFTP version
!command                           Execute 'command' in local shell
!                                  Escape to local shell
?                                  Synonym for help
";

/// The longest path that a system takes (`PATH_MAX`), for `mkdir -p`, which asks for each directory
/// that leads there.
const MAX_PATH_BYTES: usize = 4096;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum CommandFailure {
    /// It was said.
    Said,
    /// To be said.
    Line(String),
    /// The connection is gone.
    Lost(String),
}

impl From<EngineError> for CommandFailure {
    fn from(error: EngineError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// Puts words before a refusal; a lost connection stays one.
pub(super) fn saying<'w>(words: &'w str) -> impl Fn(RemoteError) -> CommandFailure + 'w {
    move |error| match error {
        RemoteError::Engine(error) => error.into(),
        other => CommandFailure::Line(format!("{words}: {other}")),
    }
}

/// A server with a directory in which commands act.
pub(super) struct Sftp {
    pub(super) remote: AnyRemote,
    pub(super) console: Console,
    pub(super) copy: CopyOptions,
    pub(super) defaults: CopyFlags,
    pub(super) here: Vec<u8>,
    start: Vec<u8>,
    pub(super) quiet: bool,
    progress: bool,
    exact: bool,
    users: HashMap<(u32, bool), String>,
}

impl Sftp {
    pub(super) fn new(
        remote: AnyRemote,
        start: Vec<u8>,
        options: &SftpOptions,
        console: Console,
        quiet: bool,
        progress: bool,
    ) -> Self {
        Self {
            remote,
            console,
            copy: options.copy.clone(),
            defaults: options.flags,
            here: start.clone(),
            start,
            quiet,
            progress,
            exact: false,
            users: HashMap::new(),
        }
    }

    pub(super) fn hang_up(&mut self) {
        crate::connector::finish(&mut self.remote, CopyLinks::finish);
    }

    /// A path from where we are.
    pub(super) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        match path.first() {
            Some(b'/') => path.to_vec(),
            _ => joined(&self.here, path),
        }
    }

    /// A pattern from where we are; where we are is none.
    pub(super) fn pattern(&self, pattern: &[u8]) -> Vec<u8> {
        below(&self.here, pattern)
    }

    /// Lets times come to the nanosecond.
    pub(super) fn exact_times(&mut self) -> Result<(), CommandFailure> {
        if !std::mem::replace(&mut self.exact, true) {
            self.remote.ask_exact_times()?;
        }
        Ok(())
    }

    /// Goes to a directory, if that is what the path is.
    pub(super) fn goes_to(&mut self, path: &[u8]) -> Result<bool, CommandFailure> {
        let path = self.absolute(path);
        if !self.remote.is_directory(&path)? {
            return Ok(false);
        }
        if !self.quiet {
            println!("Changing to: {}", text::name(&path));
        }
        self.change_directory(Some(&glob::escaped(&path)))?;
        Ok(true)
    }

    /// What to fetch for a path of the command line: a pattern, unless nothing fits it; then what is
    /// there by that very name.
    pub(super) fn source(&mut self, path: &[u8]) -> Result<Vec<u8>, CommandFailure> {
        let literal = glob::escaped(path);
        if literal != path {
            let pattern = self.pattern(path);
            if self.found(&pattern)?.is_empty() {
                return Ok(literal);
            }
        }
        Ok(path.to_vec())
    }

    /// What a pattern comes to; itself, if nothing.
    pub(super) fn matches(&mut self, pattern: &[u8]) -> Result<Vec<Match>, CommandFailure> {
        let pattern = self.pattern(pattern);
        let found = self.found(&pattern)?;
        if !found.is_empty() {
            return Ok(found);
        }
        Ok(vec![Match {
            path: glob::unescaped(&pattern),
            attributes: None,
            listed: None,
        }])
    }

    /// What a pattern comes to.
    pub(super) fn found(&mut self, pattern: &[u8]) -> Result<Vec<Match>, CommandFailure> {
        let mut suspects = Vec::new();
        let found = glob::expand(&mut self.remote, pattern, &mut |name| {
            suspects.push(text::name(name));
        })?;
        for name in suspects {
            eprintln!("Server sent suspect path \"{name}\" during readdir");
        }
        Ok(found)
    }

    /// Carries a command out.
    pub(super) fn perform(&mut self, command: SftpCommand) -> Result<(), CommandFailure> {
        match command {
            SftpCommand::Bye => {}
            SftpCommand::Cd(path) => self.change_directory(path.as_deref())?,
            SftpCommand::Chmod(path, permissions, of_link) => {
                let attributes = Attributes::with_permissions(permissions);
                self.change(&path, "mode", of_link, &|_| Some(attributes))?;
            }
            SftpCommand::Chown(path, uid, of_link) => {
                self.change(&path, "owner", of_link, &|there| {
                    let gid = there.owner?.gid;
                    Some(Attributes {
                        owner: Some(Owner { uid, gid }),
                        ..Attributes::NONE
                    })
                })?;
            }
            SftpCommand::Chgrp(path, gid, of_link) => {
                self.change(&path, "group", of_link, &|there| {
                    let uid = there.owner?.uid;
                    Some(Attributes {
                        owner: Some(Owner { uid, gid }),
                        ..Attributes::NONE
                    })
                })?;
            }
            SftpCommand::Copy(from, to) => {
                let (from, to) = (self.absolute(&from), self.absolute(&to));
                self.remote.copy(&from, &to).map_err(CommandFailure::Line)?;
            }
            SftpCommand::Df {
                path,
                units,
                inodes,
            } => self.disk(path.as_deref(), units, inodes)?,
            SftpCommand::Get(flags, from, to) => self.get(flags, &from, to.as_deref())?,
            SftpCommand::Put(flags, from, to) => self.put(flags, &from, to.as_deref())?,
            SftpCommand::Help => print!("{HELP}"),
            SftpCommand::Link(old, new) => {
                let (old, new) = (self.absolute(&old), self.absolute(&new));
                let words = two("remote link", &old, &new);
                self.remote.hardlink(&old, &new).map_err(saying(&words))?;
            }
            SftpCommand::Symlink(target, link) => {
                let link = self.absolute(&link);
                let words = two("remote symlink file", &target, &link);
                self.remote
                    .symlink(&target, &link)
                    .map_err(saying(&words))?;
            }
            SftpCommand::Ls(flags, path) => self.list(flags, path.as_deref())?,
            SftpCommand::Mkdir(parents, path) => {
                let path = self.absolute(&path);
                match parents {
                    true => self.make_directories(&path)?,
                    false => self.make_directory(&path)?,
                }
            }
            SftpCommand::Rmdir(path) => {
                let path = self.absolute(&path);
                let words = format!("remote rmdir \"{}\"", text::name(&path));
                self.remote.rmdir(&path).map_err(saying(&words))?;
            }
            SftpCommand::Pwd => println!("Remote working directory: {}", text::name(&self.here)),
            SftpCommand::Rename(old, new, plain) => {
                let (old, new) = (self.absolute(&old), self.absolute(&new));
                let words = two("remote rename", &old, &new);
                self.remote
                    .rename(&old, &new, plain)
                    .map_err(saying(&words))?;
            }
            SftpCommand::Rm(path) => self.remove(&path)?,
            SftpCommand::Version => println!("SFTP protocol version {}", sftp::VERSION),
            SftpCommand::Progress => {
                self.progress = !self.progress;
                self.console.set_show(Console::for_output(self.progress));
                let now = if self.progress { "enabled" } else { "disabled" };
                println!("Progress meter {now}");
            }
            SftpCommand::Lcd(_)
            | SftpCommand::Lls(_)
            | SftpCommand::Lmkdir(..)
            | SftpCommand::Lpwd
            | SftpCommand::Lumask(_)
            | SftpCommand::Shell(_) => perform_here(&command)?,
        }
        Ok(())
    }

    fn change_directory(&mut self, path: Option<&[u8]>) -> Result<(), CommandFailure> {
        let path = match path {
            Some(path) => self.absolute(&glob::unescaped(path)),
            None => self.start.clone(),
        };
        let path = match self.remote.realpath(&path) {
            Ok(path) => path,
            Err(error) => {
                let words = format!("realpath {}", text::name(&path));
                return Err(saying(&words)(error));
            }
        };
        let there = self.remote.stat(&path).map_err(saying("stat remote"))?;
        let shown = text::name(&path);
        if there.permissions.is_none() {
            return Err(CommandFailure::Line(
                "Can't change directory: Can't check target".to_owned(),
            ));
        }
        if !there.is(mode::DIRECTORY) {
            return Err(CommandFailure::Line(format!(
                "Can't change directory: \"{shown}\" is not a directory"
            )));
        }
        self.here = path;
        Ok(())
    }

    fn make_directory(&mut self, path: &[u8]) -> Result<(), CommandFailure> {
        let words = format!("remote mkdir \"{}\"", text::name(path));
        self.remote.mkdir(path, 0o777).map_err(saying(&words))
    }

    /// Makes a directory with those that lead there; one that exists already is no error.
    fn make_directories(&mut self, path: &[u8]) -> Result<(), CommandFailure> {
        if path.len() > MAX_PATH_BYTES {
            return Err(CommandFailure::Line(format!(
                "remote mkdir: the path is longer than {MAX_PATH_BYTES} bytes"
            )));
        }
        let mut missing = Vec::new();
        let mut path = path;
        while !path.is_empty() && !self.remote.is_directory(path)? {
            missing.push(path);
            path = above(path);
        }
        for path in missing.into_iter().rev() {
            let made = self.make_directory(path);
            // `a/..` exists as soon as `a` does.
            if made.is_err() && !self.remote.is_directory(path)? {
                return made;
            }
        }
        Ok(())
    }

    /// Changes attributes of what a pattern comes to.
    fn change(
        &mut self,
        pattern: &[u8],
        what: &str,
        of_link: bool,
        wanted: &dyn Fn(&Attributes) -> Option<Attributes>,
    ) -> Result<(), CommandFailure> {
        let mut failed = false;
        for each in self.matches(pattern)? {
            if sys::signals::interrupts() > 0 {
                return Err(CommandFailure::Said);
            }
            let shown = text::name(&each.path);
            let there = match (what, of_link) {
                ("mode", _) => Ok(Attributes::NONE),
                (_, true) => self.remote.lstat(&each.path),
                (_, false) => self.remote.stat(&each.path),
            };
            let there = match there {
                Ok(there) => there,
                Err(RemoteError::Engine(error)) => return Err(error.into()),
                Err(error) => {
                    eprintln!("stat remote \"{shown}\": {error}");
                    failed = true;
                    continue;
                }
            };
            let Some(attributes) = wanted(&there) else {
                eprintln!("Can't get current ownership of remote file \"{shown}\"");
                failed = true;
                continue;
            };
            if !self.quiet {
                println!("Changing {what} on {shown}");
            }
            match self.remote.setstat(&each.path, attributes, !of_link) {
                Ok(()) => {}
                Err(RemoteError::Engine(error)) => return Err(error.into()),
                Err(error) => {
                    let call = if of_link { "lsetstat" } else { "setstat" };
                    eprintln!("remote {call} \"{shown}\": {error}");
                    failed = true;
                }
            }
        }
        said(failed)
    }

    fn remove(&mut self, pattern: &[u8]) -> Result<(), CommandFailure> {
        let mut failed = false;
        for each in self.matches(pattern)? {
            if sys::signals::interrupts() > 0 {
                return Err(CommandFailure::Said);
            }
            let shown = text::name(&each.path);
            if !self.quiet {
                println!("Removing {shown}");
            }
            match self.remote.remove(&each.path) {
                Ok(()) => {}
                Err(RemoteError::Engine(error)) => return Err(error.into()),
                Err(error) => {
                    eprintln!("remote delete {shown}: {error}");
                    failed = true;
                }
            }
        }
        said(failed)
    }

    fn disk(
        &mut self,
        path: Option<&[u8]>,
        units: bool,
        inodes: bool,
    ) -> Result<(), CommandFailure> {
        let path = self.absolute(&glob::unescaped(path.unwrap_or(b".")));
        if !self.remote.has(extension::STATVFS, "2") {
            return Err(CommandFailure::Line(
                "Server does not support statvfs@openssh.com extension".to_owned(),
            ));
        }
        let words = format!("remote statvfs \"{}\"", text::name(&path));
        let there = self.remote.statvfs(&path).map_err(saying(&words))?;
        let share = |part: u64, whole: u64| u128::from(part) * 100 / u128::from(whole.max(1));
        if inodes {
            let used = there.files.saturating_sub(there.files_free);
            println!("     Inodes        Used       Avail      (root)    %Capacity");
            println!(
                "{:>11} {used:>11} {:>11} {:>11}         {:>3}%",
                there.files,
                there.files_available,
                there.files_free,
                share(used, there.files)
            );
            return Ok(());
        }
        let used = there.blocks.saturating_sub(there.blocks_free);
        let capacity = share(used, there.blocks);
        let bytes = |blocks: u64| blocks.saturating_mul(there.fragment_size.max(1));
        let amounts = [
            there.blocks,
            used,
            there.blocks_available,
            there.blocks_free,
        ]
        .map(bytes);
        if units {
            let [size, used, available, free] = amounts.map(crate::units::bytes);
            println!("    Size     Used    Avail   (root)    %Capacity");
            println!("{size:>8} {used:>8} {available:>8} {free:>8}         {capacity:>3}%");
        } else {
            let [size, used, available, free] = amounts.map(|bytes| bytes / 1024);
            println!("        Size         Used        Avail       (root)    %Capacity");
            println!("{size:>12} {used:>12} {available:>12} {free:>12}         {capacity:>3}%");
        }
        Ok(())
    }

    // ---- ls -------------------------------------------------------------------------------

    fn list(&mut self, flags: LsFlags, path: Option<&[u8]>) -> Result<(), CommandFailure> {
        let pattern = path.unwrap_or(b".");
        let absolute = self.pattern(pattern);
        let found = match path {
            None => vec![Match {
                path: self.here.clone(),
                attributes: Some(Attributes::with_permissions(mode::DIRECTORY)),
                listed: None,
            }],
            Some(_) => self.found(&absolute)?,
        };
        let mut cell = 0;
        let shown = match found.as_slice() {
            [] => {
                let shown = text::name(&glob::unescaped(&absolute));
                return Err(CommandFailure::Line(format!(
                    "Can't ls: \"{shown}\" not found"
                )));
            }
            [one] if one.is_directory() => {
                let suspects = &mut |name: &[u8]| {
                    eprintln!("Server sent suspect path \"{}\"", text::name(name));
                };
                let words = format!("remote readdir(\"{}\")", text::name(&one.path));
                let entries = self
                    .remote
                    .list(&one.path, true, suspects)
                    .map_err(saying(&words))?;
                let prefix = match path {
                    None => b"".as_slice(),
                    Some([b'/', ..]) => &one.path,
                    Some(_) => listing::below(&one.path, &self.here),
                };
                listing::of_directory(entries, prefix, flags)
            }
            found => {
                let mut with = Vec::new();
                for each in found {
                    if sys::signals::interrupts() > 0 {
                        break;
                    }
                    // What a link leads to, as OpenSSH shows it here; the link if that is nothing.
                    if let Some(known) = each.attributes.or(each.listed) {
                        with.push((each.clone(), known));
                        continue;
                    }
                    match self.remote.lstat(&each.path) {
                        Ok(attributes) => with.push((each.clone(), attributes)),
                        Err(RemoteError::Engine(error)) => return Err(error.into()),
                        Err(_) => with.push((each.clone(), Attributes::NONE)),
                    }
                }
                cell = listing::cell_of_matches(found);
                let here = match pattern.first() {
                    Some(b'/') => Vec::new(),
                    _ => self.here.clone(),
                };
                let mut shown = listing::of_matches(&with, &here);
                listing::sort(&mut shown, flags);
                shown
            }
        };
        self.print(&shown, flags, cell)
    }

    /// Prints entries, in columns for names of at least `cell` characters.
    fn print(
        &mut self,
        shown: &[Shown],
        flags: LsFlags,
        cell: usize,
    ) -> Result<(), CommandFailure> {
        use std::io::Write;
        let mut out = String::new();
        if flags.long {
            if !flags.numeric {
                self.learn_names(shown)?;
            }
            let names = |id: u32, group: bool| {
                self.users
                    .get(&(id, group))
                    .cloned()
                    .unwrap_or_else(|| id.to_string())
            };
            for each in shown {
                out.push_str(&listing::long_line(each, flags, &names));
                out.push('\n');
            }
        } else {
            let names: Vec<String> = shown.iter().map(|each| text::name(&each.name)).collect();
            let width = sys::terminal::window_size(sys::io::stdout())
                .ok()
                .map(|size| usize::from(size.columns))
                .filter(|width| *width > 0)
                .unwrap_or(80);
            if flags.one_column {
                for name in names {
                    out.push_str(&name);
                    out.push('\n');
                }
            } else {
                out = listing::columns(&names, width, cell);
            }
        }
        // A reader that left has seen enough.
        let _ = std::io::stdout().write_all(out.as_bytes());
        Ok(())
    }

    /// Asks for the names of users and groups that are not known yet.
    fn learn_names(&mut self, shown: &[Shown]) -> Result<(), CommandFailure> {
        let mut wanted: Vec<(u32, bool)> = shown
            .iter()
            .filter_map(|each| each.attributes.owner)
            .flat_map(|owner| [(owner.uid, false), (owner.gid, true)])
            .filter(|wanted| !self.users.contains_key(wanted))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(1000);
        if wanted.is_empty() {
            return Ok(());
        }
        match self.remote.names(&wanted) {
            Ok(found) => self.users.extend(found),
            Err(RemoteError::Engine(error)) => return Err(error.into()),
            // Then numbers are shown.
            Err(_) => {}
        }
        Ok(())
    }
}

/// A pattern in a directory whose own name is none.
fn below(here: &[u8], pattern: &[u8]) -> Vec<u8> {
    match pattern.first() {
        Some(b'/') => pattern.to_vec(),
        _ => joined(&glob::escaped(here), pattern),
    }
}

/// The directory of an absolute path; empty for the root's. Several slashes are as one.
fn above(path: &[u8]) -> &[u8] {
    let without_slashes = |path: &'_ [u8]| {
        let last = path.iter().rposition(|byte| *byte != b'/');
        last.map_or(0, |last| last + 1)
    };
    let name_end = without_slashes(path);
    let named = path.get(..name_end).unwrap_or_default();
    let slash = named.iter().rposition(|byte| *byte == b'/');
    let parent = named.get(..slash.unwrap_or(0)).unwrap_or_default();
    match without_slashes(parent) {
        0 if named.is_empty() => b"",
        0 => b"/",
        end => parent.get(..end).unwrap_or_default(),
    }
}

fn two(words: &str, old: &[u8], new: &[u8]) -> String {
    format!("{words} \"{}\" to \"{}\"", text::name(old), text::name(new))
}

pub(super) fn said(failed: bool) -> Result<(), CommandFailure> {
    match failed {
        true => Err(CommandFailure::Said),
        false => Ok(()),
    }
}

/// Runs a command in the user's shell.
fn shell(command: Option<&[u8]>) -> Result<(), CommandFailure> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    let mut program = Program::new(&shell);
    if let Some(command) = command {
        program.arg("-c").arg(os(command));
    }
    match program.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            // No failure of a command of ours: a batch goes on.
            match status.code() {
                Some(code) => eprintln!("Shell exited with status {code}"),
                None => eprintln!("Shell exited abnormally"),
            }
            Ok(())
        }
        Err(error) => Err(CommandFailure::Line(format!(
            "Couldn't execute \"{}\": {}",
            shell.to_string_lossy(),
            text::reason(&error)
        ))),
    }
}

fn perform_here(command: &SftpCommand) -> Result<(), CommandFailure> {
    let failed = |what: String| {
        move |error: std::io::Error| {
            CommandFailure::Line(format!("{what}: {}", text::reason(&error)))
        }
    };
    match command {
        SftpCommand::Lcd(path) => {
            let path = match path {
                Some(path) => PathBuf::from(os(path)),
                None => std::env::var_os("HOME").unwrap_or_default().into(),
            };
            let shown = transfer::plan::shown(&path);
            std::env::set_current_dir(&path).map_err(failed(format!(
                "Couldn't change local directory to \"{shown}\""
            )))?;
        }
        SftpCommand::Lls(args) => {
            let mut line = b"ls ".to_vec();
            line.extend_from_slice(args);
            shell(Some(&line))?;
        }
        SftpCommand::Lmkdir(parents, path) => {
            let shown = text::name(path);
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(*parents).create(os(path));
            made.map_err(failed(format!(
                "Couldn't create local directory \"{shown}\""
            )))?;
        }
        SftpCommand::Lpwd => {
            let here =
                std::env::current_dir().map_err(failed("Couldn't get local cwd".to_owned()))?;
            println!("Local working directory: {}", transfer::plan::shown(&here));
        }
        SftpCommand::Lumask(mask) => {
            sys::process::set_umask(*mask);
            println!("Local umask: {mask:03o}");
        }
        SftpCommand::Shell(line) => shell(Some(line.as_slice()).filter(|line| !line.is_empty()))?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_above_has_no_slashes_behind_it() {
        for (path, parent) in [
            ("/a/b", "/a"),
            ("/a//b///", "/a"),
            ("/a", "/"),
            ("///a", "/"),
            ("/", ""),
            ("///", ""),
            ("a/b", "a"),
        ] {
            assert_eq!(above(path.as_bytes()), parent.as_bytes(), "{path}");
        }
    }

    #[test]
    fn the_directory_s_own_name_is_no_pattern() {
        assert_eq!(below(b"/d[1]*", b"x*"), b"/d\\[1\\]\\*/x*");
        assert_eq!(glob::unescaped(&below(b"/d[1]*", b"x")), b"/d[1]*/x");
        assert_eq!(below(b"/d[1]", b"/x*"), b"/x*");
    }
}
