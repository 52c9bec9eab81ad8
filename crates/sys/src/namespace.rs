//! Namespaces of a thread: private mounts and a private network (unshare(2)), for tools that
//! measure or test whole programs without changing the machine. Processes and threads that the
//! thread starts later inherit them; they vanish with the last process in them.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ffi::{c_string, check};

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number only. Other threads keep their namespaces; nothing in this process
    // relies on threads sharing working directory, mounts or network.
    check(unsafe { libc::unshare(flags) })?;
    Ok(())
}

/// Gives this thread a private mount namespace: later mounts are not visible outside.
///
/// # Errors
/// `EPERM` without privilege.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    // Mounts shared with the outside would propagate changes to it.
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

/// Bind-mounts `source` on `target`. Call [`unshare_mounts`] before, else the mount is visible to
/// the whole system.
///
/// # Errors
/// `EPERM` without privilege, `ENOENT` if `source` or `target` is missing.
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

/// Mounts an empty tmpfs on `target`. Call [`unshare_mounts`] before.
///
/// # Errors
/// As [`bind`].
pub fn mount_memory(target: &Path) -> io::Result<()> {
    let target = c_string(target.as_os_str().as_bytes())?;
    // SAFETY: terminated strings; tmpfs takes no data.
    check(unsafe {
        libc::mount(
            c"tmpfs".as_ptr(),
            target.as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

/// Mounts an overlay on the directory `target`: `upper` over the previous content of `target`.
/// Unlike a [`bind`] mount on a file it stays in effect if a file below is replaced. `work` is an
/// empty directory on the file system of `upper`. Call [`unshare_mounts`] before.
///
/// # Errors
/// As [`bind`]; `ENODEV` without overlayfs; `InvalidInput` for paths with `,`, `:` or `\`.
pub fn overlay(target: &Path, upper: &Path, work: &Path) -> io::Result<()> {
    let mut options = b"lowerdir=".to_vec();
    for (name, path) in [("", target), (",upperdir=", upper), (",workdir=", work)] {
        let path = path.as_os_str().as_bytes();
        if path.iter().any(|byte| b",:\\".contains(byte)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        options.extend_from_slice(name.as_bytes());
        options.extend_from_slice(path);
    }
    let target = c_string(target.as_os_str().as_bytes())?;
    let options = c_string(options)?;
    // SAFETY: terminated strings, of which the kernel reads at most a page.
    check(unsafe {
        libc::mount(
            c"overlay".as_ptr(),
            target.as_ptr(),
            c"overlay".as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    })?;
    Ok(())
}

/// Gives this thread a private network namespace, which has only a loopback interface that is down.
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
            // Refused without privilege.
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            }
        }
        assert_eq!(std::fs::read_to_string(&one).unwrap(), "one");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_overlay_outlives_the_replacement_of_a_file_below() {
        let directory = std::env::temp_dir().join(format!("sys-overlay-{}", std::process::id()));
        let (below, memory) = (directory.join("below"), directory.join("memory"));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir_all(&memory).unwrap();
        std::fs::write(below.join("file"), "below").unwrap();
        std::fs::write(below.join("other"), "other").unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (tell, ready) = std::sync::mpsc::channel();
        let thread = {
            let (below, memory) = (below.clone(), memory.clone());
            std::thread::spawn(move || {
                let mounted = (|| {
                    unshare_mounts()?;
                    mount_memory(&memory)?;
                    let (upper, work) = (memory.join("upper"), memory.join("work"));
                    std::fs::create_dir(&upper)?;
                    std::fs::create_dir(&work)?;
                    std::fs::write(upper.join("file"), "above")?;
                    overlay(&below, &upper, &work)
                })();
                tell.send(()).unwrap();
                wait.recv().unwrap();
                mounted?;
                let read = |name: &str| std::fs::read_to_string(below.join(name));
                Ok::<_, io::Error>(read("file")? + &read("other")?)
            })
        };
        ready.recv().unwrap();
        std::fs::write(below.join("new"), "new").unwrap();
        std::fs::rename(below.join("new"), below.join("file")).unwrap();
        go.send(()).unwrap();
        match thread.join().unwrap() {
            Ok(text) => assert_eq!(text, "aboveother"),
            Err(error) => {
                let refused = [libc::EPERM, libc::ENODEV, libc::EINVAL];
                let code = error.raw_os_error().unwrap_or(0);
                assert!(refused.contains(&code), "{error}");
                println!("skipped: {error}");
            }
        }
        assert_eq!(std::fs::read_to_string(below.join("file")).unwrap(), "new");
        assert!(std::fs::read_dir(&memory).unwrap().next().is_none());
        std::fs::remove_dir_all(&directory).unwrap();
        let odd = Path::new("/tmp/a,b");
        assert!(overlay(odd, odd, odd).is_err());
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
