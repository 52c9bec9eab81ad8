//! Path parsing and resolution.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::{FileKind, LastLink, PathRoot, info};

/// Limit on symbolic links in one path, the kernel's own.
const MAX_LINKS: usize = 40;

/// Longest resolved path in bytes (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// Path of an open file in /proc.
pub(super) fn proc_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Splits a path into its directory and its last component.
pub(super) fn split(path: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/');
    let trimmed = match end {
        Some(end) => path.get(..=end).unwrap_or(path),
        None if path.is_empty() => return Err(Errno::NOENT.into()),
        // The root directory has no name.
        None => return Err(Errno::INVAL.into()),
    };
    let (parent, name) = match trimmed.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => trimmed.split_at(slash + 1),
        None => (b".".as_slice(), trimmed),
    };
    if matches!(name, b"." | b"..") {
        return Err(Errno::INVAL.into());
    }
    Ok((parent, name))
}

/// Implements [`PathRoot::real_path`].
pub(super) fn real_path(place: &PathRoot, path: &[u8]) -> io::Result<Vec<u8>> {
    let path = place.absolute(if path.is_empty() { b"." } else { path });
    let mut resolved = Vec::new();
    // Components still to be resolved, the next one last.
    let mut pending = components(&path);
    // A path that ends in a slash names an existing directory.
    let may_be_missing = path.last() != Some(&b'/');
    let mut links = 0;
    while let Some(component) = pending.pop() {
        match component.as_slice() {
            b"." => continue,
            b".." => {
                let slash = resolved.iter().rposition(|byte| *byte == b'/');
                resolved.truncate(slash.unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let parent = resolved.len();
        resolved.push(b'/');
        resolved.extend_from_slice(&component);
        if resolved.len() > MAX_PATH_BYTES {
            return Err(Errno::NAMETOOLONG.into());
        }
        match place.info(&resolved, LastLink::Stay) {
            Ok(found) if found.kind() == FileKind::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = place.read_link(&resolved)?;
                resolved.truncate(if target.first() == Some(&b'/') {
                    0
                } else {
                    parent
                });
                pending.extend(components(&target));
            }
            Ok(found) if found.kind() != FileKind::Directory && !pending.is_empty() => {
                return Err(Errno::NOTDIR.into());
            }
            Ok(_) => {}
            // The last component may be missing: clients ask for the path before they create the
            // file.
            Err(error)
                if info::is(&error, Errno::NOENT) && pending.is_empty() && may_be_missing => {}
            Err(error) => return Err(error),
        }
    }
    if resolved.is_empty() {
        resolved.push(b'/');
    }
    Ok(resolved)
}

/// Splits a path into its components, in reverse order.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}
