//! No path leads out of a confined place, and other paths have their usual meaning.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A temporary directory that holds a root and files beside the root.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-fs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root/dir")).unwrap();
        fs::write(path.join("secret"), "secret").unwrap();
        fs::create_dir(path.join("root10")).unwrap();
        fs::write(path.join("root/file"), "inside").unwrap();
        Self(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn confined(&self) -> PathRoot {
        PathRoot::confined(self.root().as_os_str().as_bytes(), b"/").unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[test]
fn no_path_leaves_a_confined_place() {
    let scratch = Scratch::new("confined");
    let root = scratch.root();
    symlink(scratch.0.join("secret"), root.join("absolute")).unwrap();
    symlink("../secret", root.join("up")).unwrap();
    symlink("..", root.join("dir/twice")).unwrap();
    symlink("../../..", root.join("dir/far")).unwrap();
    let place = scratch.confined();
    let secret = scratch.0.join("secret");
    for path in [
        b"absolute".as_slice(),
        b"up",
        b"../secret",
        b"/../secret",
        b"dir/../../secret",
        b"dir/far/secret",
        b"dir/twice/../secret",
        b"../root10",
        bytes(&secret),
    ] {
        assert!(place.open(path, How::READ, 0).is_err());
        assert!(place.info(path, LastLink::Follow).is_err());
        assert!(place.set_mode(path, 0o777, LastLink::Follow).is_err());
        assert!(place.set_len(path, 0).is_err());
        assert!(place.open_directory(path).is_err());
        let moment = Time::default();
        assert!(
            place
                .set_times(path, moment, moment, LastLink::Follow)
                .is_err()
        );
        assert!(place.set_owner(path, 0, 0, LastLink::Follow).is_err());
    }
    for path in [b"../made".as_slice(), b"dir/far/made", b"/../made"] {
        let how = How {
            write: true,
            create: true,
            ..How::READ
        };
        drop(place.open(path, how, 0o600));
        let _ = place.make_directory(path, 0o700);
        let _ = place.rename(b"file", path);
        let _ = place.hard_link(b"file", path);
        let _ = place.symlink(b"x", path);
        let _ = place.rename(path, b"file");
    }
    assert!(!scratch.0.join("made").exists());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::metadata(&secret).unwrap().size(), 6);
    // Links within the root are followed.
    symlink("/dir/../file", root.join("good")).unwrap();
    let mut found = [0; 16];
    let file = place.open(b"good", How::READ, 0).unwrap();
    assert_eq!(content::read_at(&file, &mut found, 0).unwrap(), 6);
    assert_eq!(place.real_path(b"good").unwrap(), b"/file");
    assert_eq!(place.real_path(b"../..").unwrap(), b"/");
    assert_eq!(place.real_path(b"dir/far/dir").unwrap(), b"/dir");
}

#[test]
fn the_same_things_can_be_done_in_both_kinds_of_place() {
    for confined in [true, false] {
        let scratch = Scratch::new(&format!("both-{confined}"));
        let root = scratch.root();
        let place = if confined {
            scratch.confined()
        } else {
            PathRoot::everywhere(bytes(&root)).unwrap()
        };
        place.set_mode(b"file", 0o640, LastLink::Follow).unwrap();
        let mode = fs::metadata(root.join("file")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o640);
        let time = |seconds| Time {
            seconds,
            nanoseconds: 123_456_789,
        };
        place
            .set_times(b"file", time(5), time(1 << 31), LastLink::Follow)
            .unwrap();
        let info = place.info(b"file", LastLink::Follow).unwrap();
        assert_eq!((info.accessed, info.modified), (time(5), time(1 << 31)));
        place.set_len(b"file", 100).unwrap();
        assert_eq!(place.info(b"file", LastLink::Stay).unwrap().size, 100);
        place.symlink(b"nowhere", b"link").unwrap();
        assert_eq!(place.read_link(b"link").unwrap(), b"nowhere");
        assert!(place.info(b"link", LastLink::Follow).is_err());
        assert_eq!(
            place.info(b"link", LastLink::Stay).unwrap().kind(),
            FileKind::Symlink
        );
        assert!(place.set_mode(b"link", 0o600, LastLink::Stay).is_err());
        place
            .set_times(b"link", time(7), time(8), LastLink::Stay)
            .unwrap();
        place.make_directory(b"new", 0o755).unwrap();
        place.hard_link(b"file", b"new/again").unwrap();
        let error = place.rename_new(b"link", b"new/again").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        place.rename(b"link", b"new/again").unwrap();
        place.rename_new(b"new/again", b"new/\xff\n").unwrap();
        let mut names = Vec::new();
        let mut directory = place.open_directory(b"new").unwrap();
        while let Some(name) = directory.next_name().unwrap() {
            names.push(name);
        }
        names.sort();
        assert_eq!(names, [b".".as_slice(), b"..", b"\xff\n"]);
        assert_eq!(directory.read_link(b"\xff\n").unwrap(), b"nowhere");
        assert!(place.remove_directory(b"new").is_err());
        place.remove_file(b"new/\xff\n").unwrap();
        place.remove_directory(b"new").unwrap();
        assert!(place.file_system(b"file").unwrap().block_size > 0);
        let error = place.open(b"missing\0x", How::READ, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_real_path_has_no_links_and_its_last_component_may_be_missing() {
    let scratch = Scratch::new("real");
    let root = fs::canonicalize(scratch.root()).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("dir", root.join("to-dir")).unwrap();
    let place = PathRoot::everywhere(bytes(&root)).unwrap();
    let real = |path: &[u8]| place.real_path(path);
    assert_eq!(real(b"").unwrap(), bytes(&root));
    assert_eq!(real(b".//./file").unwrap(), bytes(&root.join("file")));
    assert_eq!(real(b"to-dir/new").unwrap(), bytes(&root.join("dir/new")));
    assert_eq!(real(b"to-dir/").unwrap(), bytes(&root.join("dir")));
    for missing in [b"missing/new".as_slice(), b"missing/", b"to-dir/new//"] {
        assert_eq!(
            real(missing).unwrap_err().kind(),
            io::ErrorKind::NotFound,
            "{}",
            missing.escape_ascii()
        );
    }
    assert!(real(b"file/x").is_err());
    assert_eq!(
        real(b"loop").unwrap_err().raw_os_error(),
        Some(Errno::LOOP.raw_os_error())
    );
    assert_eq!(real(b"/../..").unwrap(), b"/");
}

#[test]
fn what_is_done_by_one_name_stays_in_its_directory() {
    let scratch = Scratch::new("parent");
    let root = scratch.root();
    let parent = Parent::open(&root).unwrap();
    parent.make_directory(b"new", 0o755).unwrap();
    let below = parent.below(b"new").unwrap();
    drop(below.make_file(b"made", 0o640).unwrap());
    let mode = fs::metadata(root.join("new/made")).unwrap().mode() & 0o777;
    assert_eq!(mode & !0o640, 0);
    let error = below.make_file(b"made", 0o600).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    // A symbolic link counts as an existing name too.
    symlink("../out", root.join("new/link")).unwrap();
    assert!(below.make_file(b"link", 0o600).is_err());
    for name in [
        b"".as_slice(),
        b".",
        b"..",
        b"../out",
        b"/tmp/x",
        b"a/b",
        b"a\0",
    ] {
        assert!(below.make_file(name, 0o600).is_err());
        assert!(below.make_directory(name, 0o700).is_err());
        assert!(below.below(name).is_err());
    }
    assert!(!root.join("out").exists());

    let place = PathRoot::everywhere(bytes(&root)).unwrap();
    let mut directory = place.open_directory(b"new").unwrap();
    let mut seen = Vec::new();
    let mut name = Vec::new();
    while let Some(kind) = directory.next_entry(&mut name).unwrap() {
        seen.push((std::mem::take(&mut name), kind));
    }
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(seen.len(), 2);
    assert!(matches!(seen[0].1, None | Some(FileKind::Symlink)));
    assert!(matches!(seen[1].1, None | Some(FileKind::Regular)));
    assert!(directory.open_file(b"made").is_ok());
    for name in [b"link".as_slice(), b"../file", b"..", b"."] {
        assert!(directory.open_file(name).is_err());
        assert!(directory.open_directory(name).is_err());
    }
}

#[test]
fn a_fifo_does_not_block() {
    let scratch = Scratch::new("fifo");
    let path = scratch.root().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let place = scratch.confined();
    assert!(place.open(b"fifo", How::READ, 0).is_ok());
    let how = How {
        read: false,
        write: true,
        ..How::READ
    };
    assert!(place.open(b"fifo", how, 0).is_err());
}

#[test]
fn holes_are_found() {
    let scratch = Scratch::new("holes");
    let place = scratch.confined();
    let how = How {
        write: true,
        create: true,
        ..How::READ
    };
    let file = place.open(b"sparse", how, 0o600).unwrap();
    content::set_len(&file, 8 << 20).unwrap();
    content::write_all_at(&file, &[1; 4096], 4 << 20).unwrap();
    // A file system without holes reports that everything is data.
    let data = content::next_data(&file, 0).unwrap().unwrap();
    assert!(data == 0 || data == 4 << 20);
    if data > 0 {
        let hole = content::next_hole(&file, data).unwrap();
        assert!(hole > data && hole < 5 << 20);
        assert_eq!(content::next_data(&file, 6 << 20).unwrap(), None);
    }
}
