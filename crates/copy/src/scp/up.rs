//! To a server.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use transfer::options::Resume;
use transfer::plan::{base_name, joined, shown};
use transfer::put::{Item, Put, Target};
use transfer::source::Source;
use transfer::text;

use super::operand::Operand;
use super::options::ScpOptions;
use super::{Fatal, connect, hang_up, lost, prepared};
use crate::AnyRemote;
use crate::{Console, RemoteHost};

/// Copies every source to a path of the server.
pub(super) fn perform(
    options: &ScpOptions,
    console: &mut Console,
    sources: &[Operand],
    (server, path): (&RemoteHost, &[u8]),
    into_directory: bool,
) -> Result<(), Fatal> {
    let mut local: Vec<&OsString> = Vec::new();
    for source in sources {
        match source {
            Operand::Local(source) => local.push(source),
            Operand::Remote {
                server: from,
                path: source,
            } => {
                let done = super::remote_to_remote::perform(
                    options,
                    console,
                    (from, source),
                    (server, path),
                    into_directory,
                );
                match done {
                    Err(fatal) if options.old_protocol => super::legacy::go_on(console, fatal)?,
                    done => done?,
                }
            }
        }
    }
    if local.is_empty() {
        return Ok(());
    }
    if options.old_protocol {
        return super::legacy::put(options, console, &local, (server, path), into_directory);
    }
    let mut remote = connect(options, server)?;
    let result = put(options, console, &mut remote, &local, path, into_directory);
    if result.is_ok() {
        hang_up(remote);
    }
    result
}

/// A source in a directory of the server.
fn below(target: &[u8], source: &OsStr) -> Vec<u8> {
    let name = base_name(source.as_encoded_bytes());
    // `..` goes into the target, not beside it.
    let name: &[u8] = if name == b".." { b"." } else { name };
    joined(target, name)
}

/// A look at the target that saves the copy of one large file a round trip or two.
fn looked_ahead(
    options: &ScpOptions,
    remote: &mut AnyRemote,
    source: &OsStr,
    target: &[u8],
) -> Option<Target> {
    if options.copy.resume != Resume::Never {
        return None;
    }
    // What cannot be read here is opened nowhere.
    let source_here = Source::open(Path::new(source)).ok()?;
    if source_here.len <= Target::WORTH_BYTES {
        return None;
    }
    let alone = remote.engine().links() == 1 && !options.copy.atomic;
    let opens = alone.then_some(source_here.mode);
    Some(Target::new(target.to_vec(), below(target, source), opens))
}

fn put(
    options: &ScpOptions,
    console: &mut Console,
    remote: &mut AnyRemote,
    sources: &[&OsString],
    path: &[u8],
    into_directory: bool,
) -> Result<(), Fatal> {
    let target = prepared(remote, path)?;
    let mut ahead = match sources {
        [source] if !into_directory => looked_ahead(options, remote, source, &target),
        _ => None,
    };
    let mut is_directory = match &mut ahead {
        Some(ahead) => remote.engine().run(ahead).map(|()| ahead.is_directory()),
        None => remote.is_directory(&target),
    }
    .map_err(|error| lost(&error))?;
    let mut items = Vec::new();
    let mut missing = false;
    for source in sources {
        let from = PathBuf::from(source);
        let metadata = match std::fs::metadata(&from) {
            Ok(metadata) => metadata,
            Err(error) => {
                // The others are copied all the same.
                let why = text::reason(&error);
                console.error(&format!("stat local \"{}\": {why}", shown(&from)));
                missing = true;
                continue;
            }
        };
        if into_directory && !is_directory {
            let mode = metadata.permissions().mode() & 0o777 | 0o700;
            remote.mkdir(&target, mode).map_err(|error| {
                Fatal::connection(format!("remote mkdir \"{}\": {error}", text::name(&target)))
            })?;
            is_directory = true;
        }
        let to = match is_directory {
            true => below(&target, source),
            false => target.clone(),
        };
        items.push(Item {
            from,
            to,
            fresh: false,
        });
    }
    let links = remote.engine().links();
    let mut work = Put::new(options.copy.clone(), items, links, console);
    if let Some(ahead) = ahead {
        work = work.with_target(ahead);
    }
    let run = remote.engine().run(&mut work);
    console.failed_sources(sources.iter().map(|source| source.as_encoded_bytes()), path);
    run.map_err(|error| lost(&error))?;
    if options.copy.verify {
        super::verify::perform(remote, console, super::verify::ResultSide::To)?;
    }
    match missing {
        // OpenSSH's status for it.
        true => Err(Fatal::connection("")),
        false => Ok(()),
    }
}
