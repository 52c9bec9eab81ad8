//! From a server.

use std::path::{Path, PathBuf};

use transfer::get::{DownloadSource, Get, Item};
use transfer::plan::shown;
use transfer::text;

use super::operand::{Operand, os};
use super::options::ScpOptions;
use super::{Fatal, connect, copy_here, hang_up, local_name, lost, prepared_pattern};
use crate::AnyRemote;
use crate::{Console, RemoteHost};

/// Copies every source to a local path.
pub(super) fn perform(
    options: &ScpOptions,
    console: &mut Console,
    sources: &[Operand],
    target: &Path,
) -> Result<(), Fatal> {
    // One connection serves all sources of a server that follow each other.
    let mut open: Option<(RemoteHost, AnyRemote)> = None;
    for source in sources {
        let (server, path) = match source {
            Operand::Local(from) => {
                copy_here(options, from, target, console);
                continue;
            }
            Operand::Remote { server, path } => (server, path),
        };
        if options.old_protocol {
            super::legacy::get(options, console, (server, path), target)
                .or_else(|fatal| super::legacy::go_on(console, fatal))?;
            continue;
        }
        let same = matches!(&open, Some((there, _)) if there == server);
        if !same {
            if let Some((_, remote)) = open.take() {
                hang_up(remote);
            }
            open = Some((server.clone(), connect(options, server)?));
        }
        if let Some((_, remote)) = &mut open {
            get(options, console, remote, path, target)?;
        }
    }
    if let Some((_, mut remote)) = open {
        if options.copy.verify {
            super::verify::perform(&mut remote, console, super::verify::ResultSide::From)?;
        }
        hang_up(remote);
    }
    Ok(())
}

fn get(
    options: &ScpOptions,
    console: &mut Console,
    remote: &mut AnyRemote,
    path: &[u8],
    target: &Path,
) -> Result<(), Fatal> {
    let pattern = prepared_pattern(remote, path)?;
    let links = remote.engine().links();
    let mut ahead = DownloadSource::new(&pattern, &options.copy, links);
    if let Some(ahead) = &mut ahead {
        remote.engine().run(ahead).map_err(|error| lost(&error))?;
    }
    let found = match ahead.as_ref().and_then(DownloadSource::found) {
        Some(found) => vec![found],
        None => super::found(remote, console, &pattern)?,
    };
    if found.is_empty() {
        console.error(&format!("{}: No such file or directory", text::name(path)));
        return Ok(());
    }
    let there = std::fs::metadata(target);
    let mut into = there.as_ref().is_ok_and(std::fs::Metadata::is_dir);
    if found.len() > 1 && !into {
        let to = shown(target);
        if there.is_ok() {
            console.error(&format!(
                "Multiple files match pattern, but destination \"{to}\" is not a directory"
            ));
            return Ok(());
        }
        if let Err(error) = std::fs::create_dir(target) {
            console.error(&format!("local mkdir \"{to}\": {}", text::reason(&error)));
            return Ok(());
        }
        into = true;
    }
    let mut items = Vec::new();
    for each in found {
        let name = local_name(path, &each.path);
        let to: PathBuf = match (into, name) {
            // `..`, `.` and `/` are copied into the target itself.
            (true, b".." | b"." | b"/" | b"") | (false, _) => target.to_path_buf(),
            (true, name) => target.join(os(name)),
        };
        items.push(Item {
            from: each.path,
            to,
            attributes: each.attributes,
        });
    }
    let mut work = Get::new(options.copy.clone(), items, links, console);
    if let Some(ahead) = ahead {
        work = work.with_source(ahead);
    }
    remote.engine().run(&mut work).map_err(|error| lost(&error))
}
