//! Namespaces of one thread: mounts and a network of its own (unshare(2)), for programs that
//! measure or test whole programs without touching the machine. What the thread starts
//! afterwards inherits them; they are gone with the last process inside.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ffi::{c_string, check};

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: a number only. Other threads keep what they have; nothing in this process relies
    // on threads sharing working directory, mounts or network.
    check(unsafe { libc::unshare(flags) })?;
    Ok(())
}

/// Gives this thread mounts of its own: changes from now on are not seen outside.
///
/// # Errors
/// `EPERM` without privilege.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    // What is shared with the outside would carry changes there.
    // SAFETY: terminated strings or null, as mount(2) allows with MS_REC | MS_PRIVATE.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

/// Lets `target` show what `source` holds. Call [`unshare_mounts`] before, or everybody sees it.
///
/// # Errors
/// `EPERM` without privilege, `ENOENT` where either is missing.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    let source = c_string(source.as_os_str().as_bytes())?;
    let target = c_string(target.as_os_str().as_bytes())?;
    // SAFETY: both paths are terminated strings; type and data are not read for a bind.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            std::ptr::null(),
            libc::MS_BIND,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

/// Gives this thread a network of its own: a loopback interface that is down, and nothing else.
///
/// # Errors
/// `EPERM` without privilege.
pub fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_mounts_nobody_else_sees() {
        let directory = std::env::temp_dir().join(format!("sys-namespace-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (one, two) = (directory.join("one"), directory.join("two"));
        std::fs::write(&one, "one").unwrap();
        std::fs::write(&two, "two").unwrap();
        let seen = {
            let (one, two) = (one.clone(), two.clone());
            std::thread::spawn(move || {
                unshare_mounts()?;
                bind(&two, &one)?;
                std::fs::read_to_string(&one)
            })
            .join()
            .unwrap()
        };
        match seen {
            Ok(text) => assert_eq!(text, "two"),
            // Without privilege it is refused; with it, it works.
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            }
        }
        assert_eq!(std::fs::read_to_string(&one).unwrap(), "one");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_network_of_its_own_has_nothing_but_loopback() {
        let devices = std::thread::spawn(|| {
            unshare_network()?;
            std::fs::read_to_string("/proc/thread-self/net/dev")
        })
        .join()
        .unwrap();
        match devices {
            Ok(text) => {
                let names: Vec<&str> = text
                    .lines()
                    .filter_map(|line| line.split_once(':'))
                    .map(|(name, _)| name.trim())
                    .collect();
                assert!(names.contains(&"lo"), "{text}");
                assert!(!names.iter().any(|name| name.starts_with("eth")), "{text}");
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }
}
