//! Part files: several copies to one target, existing files of a part's name, and resuming after an
//! interruption. The server is Fulmar's, in memory, on real files.

mod near;
mod served;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use transfer::options::{Options, Resume};

use near::{Event, Place, content, copy, spread};

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names
}

fn atomic(resume: Resume) -> Options {
    Options {
        atomic: true,
        resume,
        ..Options::default()
    }
}

/// Options, connections, and the lengths of the files.
fn modes() -> Vec<(Options, usize, usize)> {
    vec![
        (atomic(Resume::Never), 1, 900_000),
        (atomic(Resume::Proven), 1, 900_000),
        (spread(Resume::Never), 3, (16 << 20) + 5),
        (spread(Resume::Proven), 3, (16 << 20) + 5),
    ]
}

#[test]
fn of_copies_to_one_target_each_that_ends_well_leaves_its_whole_content() {
    for (options, links, len) in modes() {
        for up in [true, false] {
            for same_source in [false, true] {
                for at in [2, 4, 6, 9] {
                    let place = Place::new();
                    let (one, two) = (content(1, len), content(2, len + 3000));
                    let first = place.write("one", &one);
                    let second = match same_source {
                        true => first.clone(),
                        false => place.write("two", &two),
                    };
                    let folder = place.empty("to");
                    let to = folder.join("target");
                    let what = format!("up {up}, {links}, {:?}, turn {at}", options.resume);
                    let mut inner = None;
                    let mut run = || {
                        let result = copy(up, &second, &to, &options, links, Event::Nothing);
                        // Nobody writes to the part once it is renamed.
                        let there = fs::read(&to).ok();
                        inner = Some((result.error, there));
                    };
                    let event = Event::Runs(at, &mut run);
                    let outer = copy(up, &first, &to, &options, links, event);
                    let Some((inner, there)) = inner else {
                        // The copy was complete by then.
                        assert_eq!((outer.error, at > 4), (None, true), "{what}");
                        continue;
                    };
                    let second = if same_source { &one } else { &two };
                    let whole = fs::read(&to).unwrap();
                    match (&outer.error, &inner) {
                        (None, _) => assert!(whole == one, "{what}"),
                        (Some(_), None) => assert!(whole == *second, "{what}"),
                        (Some(outer), Some(inner)) => panic!("{what}: {outer}; {inner}"),
                    }
                    if inner.is_none() {
                        assert!(there.as_ref() == Some(second), "{what}");
                    }
                    // Two copies of one source share a part only if both resume.
                    let shares = same_source && options.resume == Resume::Proven;
                    assert!(shares || outer.error.is_none() && inner.is_none(), "{what}");
                    assert_eq!(names(&folder), [to], "{what}");
                }
            }
        }
    }
}

#[test]
fn what_a_cut_leaves_is_gone_on_with_and_nothing_else_is_left() {
    for (options, links, len) in modes() {
        if options.resume == Resume::Never {
            continue;
        }
        for up in [true, false] {
            let place = Place::new();
            let whole = content(1, len);
            let from = place.write("from", &whole);
            let folder = place.empty("to");
            let to = folder.join("target");
            // The part's name shows its source, whether or not the interrupted copy resumes. A copy
            // without `resume` would remove its part when interrupted.
            let cut = (3..).find(|at| {
                let folder = place.empty("to");
                let cut = copy(up, &from, &to, &options, links, Event::Cut(*at));
                assert!(cut.error.is_some());
                let left = names(&folder);
                let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
                left.first().map(size) > Some(u64::try_from(len / 4).unwrap())
            });
            assert!(cut.is_some());
            let left = names(&folder);
            assert_eq!(left.len(), 1, "{left:?}");
            assert!(left[0] != to);
            fs::set_permissions(&left[0], fs::Permissions::from_mode(0o600)).unwrap();
            let result = copy(up, &from, &to, &options, links, Event::Nothing);
            assert_eq!(result.error, None, "up {up}");
            if links == 1 {
                assert!(result.resumed_bytes > 0, "up {up}");
            }
            assert!(fs::read(&to).unwrap() == whole);
            // As if it had just been created.
            let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
            let made = mode(&from) & !sys::process::umask();
            assert_eq!(mode(&to), made, "up {up}");
            assert_eq!(names(&folder), [to], "up {up}");
        }
    }
}

/// Kinds of existing files at a part's name.
const PLANTED: &[&str] = &["file", "link", "second name", "folder", "fifo", "another's"];

/// Creates such a file at `part`; returns false if that is not possible here. `subject` is the
/// target of links.
fn plant(what: &str, part: &Path, subject: &Path) -> bool {
    match what {
        "file" => fs::write(part, b"").unwrap(),
        "link" => symlink(subject, part).unwrap(),
        "second name" => fs::hard_link(subject, part).unwrap(),
        "folder" => fs::create_dir(part).unwrap(),
        "fifo" => {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, part, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        _ => {
            fs::write(part, b"another's").unwrap();
            return std::os::unix::fs::chown(part, Some(12_345), None).is_ok();
        }
    }
    true
}

#[test]
fn what_stands_at_the_name_of_a_part_is_neither_followed_nor_written_to() {
    for (resume, up, what) in [Resume::Never, Resume::Proven]
        .into_iter()
        .flat_map(|resume| [true, false].map(|up| (resume, up)))
        .flat_map(|(resume, up)| PLANTED.iter().map(move |what| (resume, up, *what)))
    {
        // An empty file of ours may be a part that has just begun: here it is ours to take.
        let taken = !up && what == "file";
        if taken {
            continue;
        }
        // SFTP does not report the link count of a file: this name is removed, the other remains.
        let removed = up && resume == Resume::Proven && what == "second name";
        let place = Place::new();
        let whole = content(1, 900_000);
        let from = place.write("from", &whole);
        let subject = place.write("subject", b"subject");
        let folder = place.empty("to");
        let to = folder.join("target");
        let shown = format!("{what}, up {up}, {resume:?}");
        // An interrupted copy leaves a part, which shows its name.
        let options = atomic(Resume::Proven);
        let cut = (3..).find(|at| {
            copy(up, &from, &to, &options, 1, Event::Cut(*at));
            !names(&folder).is_empty()
        });
        assert!(cut.is_some());
        let part = names(&folder).remove(0);
        fs::remove_file(&part).unwrap();
        if !plant(what, &part, &subject) {
            continue;
        }
        let before = fs::symlink_metadata(&part).unwrap();
        let result = copy(up, &from, &to, &atomic(resume), 1, Event::Nothing);
        assert_eq!(result.error, None, "{shown}");
        assert!(fs::read(&to).unwrap() == whole, "{shown}");
        assert!(fs::symlink_metadata(&to).unwrap().is_file(), "{shown}");
        assert_eq!(fs::read(&subject).unwrap(), b"subject", "{shown}");
        if removed {
            assert_eq!(names(&folder), [to], "{shown}");
            continue;
        }
        let after = fs::symlink_metadata(&part).unwrap();
        assert_eq!(
            (after.ino(), after.len()),
            (before.ino(), before.len()),
            "{shown}"
        );
        assert_eq!(names(&folder).len(), 2, "{shown}");
    }
}

#[test]
fn a_part_that_cannot_be_given_its_name_goes() {
    for up in [true, false] {
        for full in [true, false] {
            let place = Place::new();
            let from = place.write("from", &content(1, 900_000));
            let folder = place.empty("to");
            // A folder appears where the file is to be; or the name is no file's.
            let to = match full {
                true => folder.join("target"),
                false => folder.join("none/"),
            };
            let mut run = || fs::create_dir_all(folder.join("target/in")).unwrap();
            let event = match full {
                true => Event::Runs(4, &mut run),
                false => Event::Nothing,
            };
            let result = copy(up, &from, &to, &atomic(Resume::Never), 1, event);
            assert!(result.error.is_some(), "up {up}");
            assert_eq!(names(&folder).len(), usize::from(full), "up {up}");
        }
    }
}

/// A file of /proc claims size 0, one of sysfs claims a page.
#[test]
fn a_source_whose_size_is_not_its_own_goes_up_whole() {
    let page = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    let symbols = Path::new("/proc/kallsyms");
    for from in [Path::new("/proc/version"), page, symbols] {
        let Ok(content) = fs::read(from) else {
            continue;
        };
        for resume in [Resume::Never, Resume::Proven] {
            let place = Place::new();
            let to = place.write("to", &vec![1; 9000]);
            let result = copy(true, from, &to, &spread(resume), 1, Event::Nothing);
            let shown = format!("{} {resume:?}", from.display());
            assert_eq!(result.error, None, "{shown}");
            assert!(fs::read(&to).unwrap() == content, "{shown}");
        }
    }
    let content = fs::read(page).unwrap_or_default();
    if let Some(part) = content.get(..2) {
        let place = Place::new();
        let to = place.write("to", part);
        let options = Options {
            resume: Resume::BySize,
            ..Options::default()
        };
        let result = copy(true, page, &to, &options, 1, Event::Nothing);
        assert_eq!((result.error, result.resumed_bytes), (None, 2));
        assert!(fs::read(&to).unwrap() == content);
    }
}

#[test]
fn nothing_gone_on_with_over_something_is_nothing() {
    for up in [true, false] {
        let place = Place::new();
        let from = place.write("from", b"");
        let to = place.write("to", &content(1, 70_000));
        let options = spread(Resume::Proven);
        let result = copy(up, &from, &to, &options, 1, Event::Nothing);
        assert_eq!(result.error, None, "up {up}");
        assert_eq!(fs::read(&to).unwrap(), b"", "up {up}");
    }
}
