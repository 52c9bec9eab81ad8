use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::scratch::Scratch;

const ANEW: Opening = Opening::Anew {
    len: None,
    modified: None,
};

fn part_names(target: &Path) -> PartNames {
    let target = target.as_os_str().as_bytes();
    PartNames::of_remote(b"/source", &sftp::Attributes::NONE, target)
}

#[test]
fn pieces_in_any_order_become_a_file_and_a_gap_cuts_it() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let mut sink = Sink::open(&path, 0o600, ANEW, None, false, &Targets::default()).unwrap();
    sink.write(3, b"def").unwrap();
    sink.write(8, b"i").unwrap();
    assert_eq!(sink.front(), 0);
    sink.write(0, b"abc").unwrap();
    assert_eq!(sink.front(), 6);
    sink.give_up(false);
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");

    let mut sink = Sink::open(&path, 0o600, ANEW, None, false, &Targets::default()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    sink.write(2, b"x").unwrap();
    sink.write(0, b"yz").unwrap();
    sink.finish(Some((0o640, None)), true).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"yzx");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn what_may_be_the_source_is_not_cut_by_opening() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    std::fs::write(&path, b"content").unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    let seconds = crate::source::times_of(&metadata).modified.seconds;
    let same = Opening::Anew {
        len: Some(7),
        modified: Some(seconds),
    };
    for holes in [false, true] {
        let sink = Sink::open(&path, 0o600, same, None, holes, &Targets::default()).unwrap();
        assert!(!sink.holes);
        sink.give_up(false);
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
    }
    let mut sink = Sink::open(&path, 0o600, same, None, false, &Targets::default()).unwrap();
    sink.write(0, b"content").unwrap();
    sink.finish(None, false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"content");
}

#[test]
fn a_part_gets_its_name_at_the_end_or_goes() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let names = part_names(&path);
    let count = || std::fs::read_dir(&*scratch).unwrap().count();
    let mut sink =
        Sink::open(&path, 0o600, ANEW, Some(&names), false, &Targets::default()).unwrap();
    sink.write(0, b"a").unwrap();
    assert!(!path.exists() && count() == 1);
    sink.give_up(false);
    assert_eq!(count(), 0);
    let mut sink =
        Sink::open(&path, 0o600, ANEW, Some(&names), false, &Targets::default()).unwrap();
    sink.write(0, b"a").unwrap();
    sink.finish(None, false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"a");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
    let mut sink =
        Sink::open(&path, 0o666, ANEW, Some(&names), false, &Targets::default()).unwrap();
    sink.write(0, b"b").unwrap();
    sink.finish(None, false).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, count()), (0o604, 1));
    // A part file that cannot be renamed is removed too.
    let sink = Sink::open(&path, 0o600, ANEW, Some(&names), false, &Targets::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("full")).unwrap();
    assert!(sink.finish(None, false).unwrap_err().contains("rename"));
    assert_eq!(count(), 1);
}

#[test]
fn nothing_but_a_part_of_ours_that_nobody_writes_is_taken_for_one() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let names = part_names(&path);
    let part = path.with_file_name(OsStr::from_bytes(&names.first()));
    let subject = scratch.join("subject");
    std::fs::write(&subject, b"subject").unwrap();
    let makers: [(&str, &dyn Fn()); 4] = [
        ("a link", &|| {
            std::os::unix::fs::symlink(&subject, &part).unwrap()
        }),
        ("a second name", &|| {
            std::fs::hard_link(&subject, &part).unwrap()
        }),
        ("a directory", &|| std::fs::create_dir(&part).unwrap()),
        ("a FIFO", &|| {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &part, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }),
    ];
    for (what, make) in makers {
        for opening in [ANEW, Opening::GoOn] {
            make();
            let before = std::fs::symlink_metadata(&part).unwrap().ino();
            let mut sink = Sink::open(
                &path,
                0o600,
                opening,
                Some(&names),
                false,
                &Targets::default(),
            )
            .unwrap();
            assert_eq!(sink.len_before(), 0, "{what}");
            sink.write(0, b"content").unwrap();
            sink.finish(None, false).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"content", "{what}");
            assert_eq!(std::fs::read(&subject).unwrap(), b"subject", "{what}");
            let after = std::fs::symlink_metadata(&part).unwrap();
            assert_eq!(after.ino(), before, "{what}");
            match after.is_dir() {
                true => std::fs::remove_dir(&part).unwrap(),
                false => std::fs::remove_file(&part).unwrap(),
            }
        }
    }
    // A second writer has its own part file, and the first one's content stays complete.
    let mut one = Sink::open(&path, 0o600, ANEW, Some(&names), false, &Targets::default()).unwrap();
    one.write(0, b"one").unwrap();
    let mut other = Sink::open(
        &path,
        0o600,
        Opening::GoOn,
        Some(&names),
        false,
        &Targets::default(),
    )
    .unwrap();
    assert_eq!(other.len_before(), 0);
    other.write(0, b"other").unwrap();
    one.finish(None, false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    other.give_up(true);
    assert_eq!(std::fs::read_dir(&*scratch).unwrap().count(), 2);
    // The part file of a copy that has ended is continued.
    let mut left =
        Sink::open(&path, 0o600, ANEW, Some(&names), false, &Targets::default()).unwrap();
    left.write(0, b"le").unwrap();
    left.give_up(true);
    std::fs::remove_file(&path).unwrap();
    // With the mode of a new file.
    let again = Sink::open(
        &path,
        0o640,
        Opening::GoOn,
        Some(&names),
        false,
        &Targets::default(),
    )
    .unwrap();
    let mode = std::fs::metadata(&part).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640 & !sys::process::umask());
    assert_eq!(again.len_before(), 2);
    again.give_up(false);
    assert!(!part.exists());
}

#[test]
fn room_that_was_not_used_is_given_back_whatever_becomes_of_the_copy() {
    use std::os::unix::fs::MetadataExt;
    let taken = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
    let piece = [Bytes::from(vec![1; 1 << 20])];
    for scratch in [Some(Scratch::new()), Scratch::in_memory()] {
        let Some(scratch) = scratch else {
            continue;
        };
        for fails in [false, true] {
            let path = scratch.join(if fails { "failed" } else { "whole" });
            let mut sink =
                Sink::open(&path, 0o600, ANEW, None, false, &Targets::default()).unwrap();
            sink.expect(64 << 20);
            sink.write_pieces(0, &piece).unwrap();
            while sink.has_work() {
                sink.work();
            }
            let aside = match sys::fs::content::keeping(sink.file()).unwrap() {
                sys::fs::content::Keeping::Other => 1 << 20,
                _ => 64 << 20,
            };
            assert!(taken(&path) >= aside, "{} of {aside}", taken(&path));
            match fails {
                // The file ended earlier than announced.
                false => sink.finish(None, false).unwrap(),
                true => sink.give_up(false),
            }
            assert!(taken(&path) < 2 << 20, "{}", taken(&path));
            assert_eq!(std::fs::read(&path).unwrap(), piece[0]);
        }
        // With holes nothing is preallocated.
        let path = scratch.join("sparse");
        let mut sink = Sink::open(&path, 0o600, ANEW, None, true, &Targets::default()).unwrap();
        sink.expect(64 << 20);
        sink.write(0, &piece[0]).unwrap();
        assert!(!sink.has_work() && taken(&path) < 2 << 20);
    }
}

#[test]
fn zeros_become_holes_and_the_length_stays() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let mut sink = Sink::open(&path, 0o600, ANEW, None, true, &Targets::default()).unwrap();
    sink.write(0, &[1; 4096]).unwrap();
    sink.write(4096, &[0; 1 << 20]).unwrap();
    sink.finish(None, false).unwrap();
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 4096 + (1 << 20));
    assert!(metadata.blocks() * 512 < 1 << 20);
}
