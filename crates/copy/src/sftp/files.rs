//! `get` and `put`.

use std::path::{Path, PathBuf};

use transfer::get::{DownloadSource, Get, Item as GetItem};
use transfer::glob;
use transfer::options::{Options, Resume};
use transfer::plan::{base_name, joined};
use transfer::put::{Item as PutItem, Put};
use transfer::text;

use super::command::CopyFlags;
use super::os;
use super::perform::{CommandFailure, Sftp, said};

impl Sftp {
    fn options(&mut self, flags: CopyFlags) -> Result<Options, CommandFailure> {
        let defaults = self.defaults;
        let options = Options {
            recursive: flags.recursive || defaults.recursive,
            preserve: flags.preserve || defaults.preserve,
            sync: flags.sync || defaults.sync,
            resume: match flags.resume || defaults.resume {
                true => Resume::BySize,
                false => Resume::Never,
            },
            ..self.copy.clone()
        };
        if options.preserve {
            self.exact_times()?;
        }
        Ok(options)
    }

    pub(super) fn get(
        &mut self,
        flags: CopyFlags,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(), CommandFailure> {
        let options = self.options(flags)?;
        let pattern = self.pattern(from);
        let mut ahead = DownloadSource::new(&pattern, &options, 1);
        if let Some(ahead) = &mut ahead {
            self.remote.engine().run(ahead)?;
        }
        let found = match ahead.as_ref().and_then(DownloadSource::found) {
            Some(found) => vec![found],
            None => self.found(&pattern)?,
        };
        if found.is_empty() {
            let shown = text::name(&glob::unescaped(&pattern));
            return Err(CommandFailure::Line(format!("File \"{shown}\" not found.")));
        }
        let into = to.is_none_or(|to| Path::new(os(to)).is_dir());
        if found.len() > 1 && !into {
            let shown = text::name(to.unwrap_or_default());
            return Err(CommandFailure::Line(format!(
                "Multiple source paths, but destination \"{shown}\" is not a directory"
            )));
        }
        let mut items = Vec::new();
        for each in found {
            let target = to.map_or_else(PathBuf::new, |to| PathBuf::from(os(to)));
            let to = match (into, base_name(&each.path)) {
                (false, _) => target,
                // `..`, `.` and `/` are copied into the target itself.
                (true, b"." | b".." | b"/" | b"") => target.join("."),
                (true, name) => target.join(os(name)),
            };
            if !self.quiet {
                let verb = match options.resume {
                    Resume::Never => "Fetching",
                    _ => "Resuming",
                };
                let mark = if each.is_directory() { "/" } else { "" };
                let to = transfer::plan::shown(&to);
                println!("{verb} {}{mark} to {to}", text::name(&each.path));
            }
            items.push(GetItem {
                from: each.path,
                to,
                attributes: each.attributes,
            });
        }
        self.console.restart();
        self.console.name_directories("Retrieving");
        let mut work = Get::new(options, items, 1, &mut self.console);
        if let Some(ahead) = ahead {
            work = work.with_source(ahead);
        }
        let run = self.remote.engine().run(&mut work);
        let failed = work.failures() > 0;
        self.console.finish();
        run?;
        said(failed)
    }

    pub(super) fn put(
        &mut self,
        flags: CopyFlags,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(), CommandFailure> {
        let options = self.options(flags)?;
        let sources = local_matches(from);
        let target = match to {
            Some(to) => self.absolute(to),
            None => self.here.clone(),
        };
        let into = to.is_none() || self.remote.is_directory(&target)?;
        if sources.len() > 1 && !into {
            let shown = text::name(&target);
            return Err(CommandFailure::Line(format!(
                "Multiple paths match, but destination \"{shown}\" is not a directory"
            )));
        }
        let mut items = Vec::new();
        let mut failed = false;
        for source in sources {
            let mut name = source.as_os_str().as_encoded_bytes().to_vec();
            match std::fs::metadata(&source) {
                // OpenSSH marks a directory, here and in what its copy says.
                Ok(there) if there.is_dir() && !name.ends_with(b"/") => name.push(b'/'),
                Ok(_) => {}
                Err(error) => {
                    eprintln!("stat {}: {}", text::name(&name), text::reason(&error));
                    failed = true;
                    continue;
                }
            }
            let to = match (into, base_name(&name)) {
                (false, _) => target.clone(),
                (true, b"." | b".." | b"/" | b"") => joined(&target, b"."),
                (true, name) => joined(&target, name),
            };
            if !self.quiet {
                let verb = match options.resume {
                    Resume::Never => "Uploading",
                    _ => "Resuming upload of",
                };
                println!("{verb} {} to {}", text::name(&name), text::name(&to));
            }
            items.push(PutItem {
                from: PathBuf::from(os(&name)),
                to,
                fresh: false,
            });
        }
        self.console.restart();
        self.console.name_directories("Entering");
        let mut work = Put::new(options, items, 1, &mut self.console);
        let run = self.remote.engine().run(&mut work);
        failed |= work.failures() > 0;
        self.console.finish();
        run?;
        said(failed)
    }
}

/// What a pattern comes to here; itself, if nothing.
fn local_matches(pattern: &[u8]) -> Vec<PathBuf> {
    let literal = || vec![PathBuf::from(os(&glob::unescaped(pattern)))];
    if !glob::is_pattern(pattern) {
        return literal();
    }
    let absolute = pattern.first() == Some(&b'/');
    let mut found = vec![PathBuf::from(if absolute { "/" } else { "" })];
    for part in pattern
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
    {
        let mut next = Vec::new();
        for path in &found {
            if !glob::is_pattern(part) {
                next.push(path.join(os(&glob::unescaped(part))));
                continue;
            }
            let folder = match path.as_os_str().is_empty() {
                true => Path::new("."),
                false => path,
            };
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if glob::fits(part, entry.file_name().as_encoded_bytes()) {
                    next.push(path.join(entry.file_name()));
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found.sort();
    match found.is_empty() {
        true => literal(),
        false => found,
    }
}
