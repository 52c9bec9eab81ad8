use super::*;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};

/// A temporary directory for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-sys-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(std::fs::canonicalize(path).unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_fifo_neither_blocks_nor_passes_for_a_file() {
    let scratch = Scratch::new("fifo");
    let fifo = scratch.file("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let error = open_regular(&fifo, FollowLinks::Follow).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(open_append(&fifo, 0o600).is_err());
    assert!(open_regular(&scratch.0, FollowLinks::Follow).is_err());
    assert!(open_regular("/dev/zero", FollowLinks::Follow).is_err());
}

#[test]
fn a_file_is_read_into_memory_that_never_moves() {
    let scratch = Scratch::new("reserve");
    let path = scratch.file("text");
    for len in [0, 1, 31, 32, 33, 411, 8192, 100_000] {
        std::fs::write(&path, vec![7; len]).unwrap();
        let bytes = read_bounded(&path, 100_000, FollowLinks::Follow).unwrap();
        assert_eq!(bytes.len(), len);
        // Reallocation would have at least doubled the capacity.
        assert!(bytes.capacity() <= len + READ_ROOM_BYTES, "{len}");
    }
    assert!(read_bounded(&path, 99_999, FollowLinks::Follow).is_err());
    // Files in /proc report size 0.
    assert!(
        !read_bounded("/proc/self/status", 1 << 20, FollowLinks::Follow)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn links_are_followed_only_when_asked() {
    let scratch = Scratch::new("links");
    let target = scratch.file("target");
    let link = scratch.file("link");
    std::fs::write(&target, "text").unwrap();
    symlink(&target, &link).unwrap();
    assert_eq!(
        read_bounded(&link, 4, FollowLinks::Follow).unwrap(),
        b"text"
    );
    assert!(read_bounded(&link, 4, FollowLinks::Refuse).is_err());
    let error = read_bounded(&link, 3, FollowLinks::Follow).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_private_file_is_private_and_never_overwrites() {
    let scratch = Scratch::new("private");
    let path = scratch.file("key");
    write_private(&path, b"secret").unwrap();
    let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let error = write_private(&path, b"other").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"secret");
    let dangling = scratch.file("dangling");
    symlink(scratch.file("elsewhere"), &dangling).unwrap();
    assert!(write_private(&dangling, b"x").is_err());
    assert!(!scratch.file("elsewhere").exists());
    let file = File::open(&path).unwrap();
    assert_eq!(too_open_for_a_key(&file).unwrap(), None);
    chmod(&path, 0o644);
    assert_eq!(too_open_for_a_key(&file).unwrap(), Some(0o644));
}

#[test]
fn replacing_leaves_no_temporary_and_sets_the_mode() {
    let scratch = Scratch::new("replace");
    let path = scratch.file("known_hosts");
    replace(&path, b"one", 0o600).unwrap();
    replace(&path, b"two", 0o644).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
    assert!(replace(scratch.file("none/x"), b"", 0o600).is_err());
    assert!(replace("/", b"", 0o600).is_err());
}

#[test]
fn a_device_and_a_pipe_are_not_replaced() {
    let scratch = Scratch::new("special");
    let pipe = scratch.file("pipe");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(is_special(&pipe) && is_special("/dev/null") && !is_special("/dev"));
    assert!(replace(&pipe, b"x", 0o600).is_err(), "nobody reads");
    let reader = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&pipe)
        .unwrap();
    replace(&pipe, b"x", 0o600).unwrap();
    assert!(is_special(&pipe));
    assert_eq!(std::io::read_to_string(reader).unwrap(), "x");
    replace("/dev/null", b"x", 0o600).unwrap();
    assert!(is_special("/dev/null"));
}

#[test]
fn what_takes_the_place_of_a_pipe_is_not_written_to() {
    let scratch = Scratch::new("exchanged");
    let victim = scratch.file("victim");
    std::fs::write(&victim, "mine").unwrap();
    let link = scratch.file("link");
    symlink(&victim, &link).unwrap();
    // As if each had been a pipe when it was looked at.
    for path in [&link, &victim, &scratch.0, &scratch.file("gone")] {
        assert!(open_special(path).unwrap().is_none(), "{path:?}");
    }
    replace(&link, b"ours", 0o600).unwrap();
    assert_eq!(std::fs::read(&link).unwrap(), b"ours");
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn a_link_to_a_device_is_neither_followed_nor_replaced() {
    let scratch = Scratch::new("device");
    let link = scratch.file("link");
    symlink("/dev/null", &link).unwrap();
    let error = replace(&link, b"x", 0o600).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[test]
fn a_log_is_written_where_a_link_leads() {
    let scratch = Scratch::new("append");
    std::os::unix::fs::symlink("log.1", scratch.file("log")).unwrap();
    for word in ["a", "b"] {
        let mut file = open_append(scratch.file("log"), 0o600).unwrap();
        file.write_all(word.as_bytes()).unwrap();
    }
    assert_eq!(std::fs::read(scratch.file("log.1")).unwrap(), b"ab");
}

#[test]
fn the_lock_keeps_a_second_holder_out() {
    let scratch = Scratch::new("lock");
    let path = scratch.file("lock");
    let first = open_append(&path, 0o600).unwrap();
    let second = open_append(&path, 0o600).unwrap();
    lock(&first, true).unwrap();
    let error = lock(&second, false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(first);
    lock(&second, false).unwrap();
}

#[test]
fn strict_modes_judges_each_component_up_to_home() {
    let scratch = Scratch::new("strict");
    let uid = rustix::process::geteuid().as_raw();
    let home = scratch.file("home");
    let ssh = home.join(".ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    let keys = ssh.join("authorized_keys");
    std::fs::write(&keys, "").unwrap();
    for path in [&home, &ssh] {
        chmod(path, 0o755);
    }
    chmod(&keys, 0o644);
    let judge = || secure_path(&File::open(&keys).unwrap(), &keys, &home, uid);
    // The directory above home is not checked, whatever the mode of /tmp is.
    chmod(&scratch.0, 0o777);
    judge().unwrap();
    chmod(&keys, 0o664);
    assert!(matches!(judge(), Err(InsecurePath::Mode { path, .. }) if path == keys));
    chmod(&keys, 0o600);
    chmod(&ssh, 0o777);
    assert!(matches!(judge(), Err(InsecurePath::Mode { path, .. }) if path == ssh));
    chmod(&ssh, 0o700);
    chmod(&home, 0o775);
    assert!(matches!(judge(), Err(InsecurePath::Mode { path, .. }) if path == home));
    chmod(&home, 0o755);
    judge().unwrap();
    // Outside home all directories up to the root are checked, including the open one.
    let outside = secure_path(&File::open(&keys).unwrap(), &keys, &ssh.join("no"), uid);
    assert!(matches!(outside, Err(InsecurePath::Mode { path, .. }) if path == scratch.0));
    if uid == 0 {
        std::os::unix::fs::chown(&keys, Some(12_345), None).unwrap();
        assert!(matches!(
            judge(),
            Err(InsecurePath::Owner { uid: 12_345, .. })
        ));
    } else {
        eprintln!("skipped: changing a file's owner needs root");
    }
    let directory = File::open(&ssh).unwrap();
    assert!(matches!(
        secure_path(&directory, &ssh, &home, uid),
        Err(InsecurePath::NotRegular(_))
    ));
}

#[test]
fn a_chroot_must_be_roots_all_the_way() {
    let scratch = Scratch::new("chroot");
    assert!(secure_chroot(Path::new("relative")).is_err());
    // /tmp is writable by all users.
    assert!(secure_chroot(&scratch.0).is_err());
    if std::fs::metadata("/usr").unwrap().mode() & 0o022 == 0 {
        secure_chroot(Path::new("/usr")).unwrap();
    }
}

#[test]
fn a_root_may_have_a_second_owner_and_no_more() {
    // A directory that only root may write, if this machine has one.
    let Ok(above) = std::fs::canonicalize("/var/lib") else {
        return;
    };
    if secure_chroot(&above).is_err() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let root = above.join(format!("fulmar-sys-{}", std::process::id()));
    std::fs::create_dir(&root).unwrap();
    let judge = |owner: u32, mode: u32, second: u32| {
        std::os::unix::fs::chown(&root, Some(owner), None).unwrap();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(mode)).unwrap();
        secure_root(&root, second)
    };
    let verdicts = [
        judge(0, 0o755, 0).is_ok(),
        judge(0, 0o755, 1000).is_ok(),
        judge(1000, 0o755, 1000).is_ok(),
        judge(1000, 0o755, 0).is_ok(),
        judge(1001, 0o755, 1000).is_ok(),
        judge(0, 0o775, 0).is_ok(),
        judge(1000, 0o777, 1000).is_ok(),
    ];
    std::fs::remove_dir(&root).unwrap();
    assert_eq!(verdicts, [true, true, true, false, false, false, false]);
}

#[test]
fn a_named_pipe_is_read_whole_into_memory_that_never_moves() {
    let (reading, writing) = crate::io::pipe().unwrap();
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reading));
    let writer = std::thread::spawn(move || {
        // More than a pipe holds.
        File::from(writing).write_all(&[7; 100_000]).unwrap();
    });
    let file = open_named(&path).unwrap();
    let bytes = read_file_bounded(&file, 200_000).unwrap();
    writer.join().unwrap();
    assert_eq!(bytes, [7; 100_000]);
    assert_eq!(bytes.capacity(), 200_000 + READ_ROOM_BYTES);
    let endless = open_named("/dev/zero").unwrap();
    assert!(read_file_bounded(&endless, 99_999).is_err());
}

#[test]
fn rewriting_leaves_links_and_devices_where_they_are() {
    let scratch = Scratch::new("rewrite");
    let (target, link) = (scratch.file("target"), scratch.file("link"));
    symlink("target", &link).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    // The link leads nowhere yet.
    rewrite(&link, b"one", RewriteMode::Exact(0o600)).unwrap();
    assert_eq!(
        (std::fs::read(&target).unwrap(), mode(&target)),
        (b"one".to_vec(), 0o600)
    );
    chmod(&target, 0o664);
    rewrite(&link, b"two", RewriteMode::Kept(0o644)).unwrap();
    assert_eq!(
        (std::fs::read(&target).unwrap(), mode(&target)),
        (b"two".to_vec(), 0o664)
    );
    rewrite(&link, b"three", RewriteMode::Exact(0o600)).unwrap();
    assert_eq!(
        (std::fs::read(&target).unwrap(), mode(&target)),
        (b"three".to_vec(), 0o600)
    );
    assert!(link.is_symlink());
    let device = scratch.file("device");
    symlink("/dev/null", &device).unwrap();
    rewrite(&device, b"nothing", RewriteMode::Exact(0o600)).unwrap();
    assert!(device.is_symlink());
    let (reading, writing) = crate::io::pipe().unwrap();
    let pipe = scratch.file("pipe");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&writing);
    symlink(format!("/dev/fd/{fd}"), &pipe).unwrap();
    // More than a pipe holds, for a reader that comes late.
    let long = vec![b'x'; 1 << 20];
    let late = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut read = vec![0; 1 << 20];
        File::from(reading).read_exact(&mut read).unwrap();
        read
    });
    rewrite(&pipe, &long, RewriteMode::Kept(0o644)).unwrap();
    assert!(late.join().unwrap() == long && pipe.is_symlink());
}

#[test]
fn rewriting_waits_for_the_reader_of_a_named_pipe() {
    let scratch = Scratch::new("waits");
    let pipe = scratch.file("pipe");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let long = vec![b'x'; 1 << 20];
    let late = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::read(pipe).unwrap()
        }
    });
    rewrite(&pipe, &long, RewriteMode::Exact(0o600)).unwrap();
    assert!(late.join().unwrap() == long && is_special(&pipe));
}

#[test]
fn rewriting_keeps_the_other_names_and_the_owner_of_a_file() {
    let scratch = Scratch::new("names");
    let (file, other) = (scratch.file("file"), scratch.file("other"));
    std::fs::write(&file, "a longer text").unwrap();
    std::fs::hard_link(&file, &other).unwrap();
    rewrite(&file, b"new", RewriteMode::Exact(0o600)).unwrap();
    assert_eq!(std::fs::read(&other).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&other).unwrap().mode() & 0o777, 0o600);
    // One without any name.
    let open = File::open(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&other).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    rewrite(format!("/dev/fd/{fd}"), b"newer", RewriteMode::Kept(0o600)).unwrap();
    assert_eq!(std::io::read_to_string(&open).unwrap(), "newer");
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: changing a file's owner needs root");
        return;
    }
    std::fs::write(&file, "theirs").unwrap();
    std::os::unix::fs::chown(&file, Some(12_345), Some(12_346)).unwrap();
    let before = std::fs::metadata(&file).unwrap();
    rewrite(&file, b"new", RewriteMode::Exact(0o600)).unwrap();
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((after.uid(), after.gid()), (12_345, 12_346));
    assert_ne!(before.ino(), after.ino());
}

#[test]
fn what_cannot_be_replaced_is_written_and_what_cannot_be_written_is_not_replaced() {
    let scratch = Scratch::new("denied");
    let (file, fixed) = (scratch.file("file"), scratch.file("fixed"));
    for path in [&file, &fixed] {
        std::fs::write(path, "a longer text").unwrap();
    }
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let before = inode(&file);
    chmod(&fixed, 0o400);
    let try_both = || {
        let refused = rewrite(&fixed, b"new", RewriteMode::Exact(0o600)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        chmod(&scratch.0, 0o500);
        let done = rewrite(&file, b"new", RewriteMode::Exact(0o600));
        chmod(&scratch.0, 0o700);
        done.unwrap();
    };
    match rustix::process::geteuid().is_root() {
        false => try_both(),
        // Of this thread alone.
        true => {
            for path in [&scratch.0, &file, &fixed] {
                std::os::unix::fs::chown(path, Some(12_345), Some(12_345)).unwrap();
            }
            std::thread::scope(|scope| {
                let user = || {
                    let user = rustix::process::Uid::from_raw(12_345);
                    let group = rustix::process::Gid::from_raw(12_345);
                    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                    try_both();
                };
                scope.spawn(user).join().unwrap();
            });
        }
    }
    assert_eq!(std::fs::read(&fixed).unwrap(), b"a longer text");
    assert_eq!(
        (std::fs::read(&file).unwrap(), inode(&file)),
        (b"new".to_vec(), before)
    );
}
