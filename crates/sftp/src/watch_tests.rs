//! What a copy notices of others at its file, and what not.

use std::fs::{File, FileTimes, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::UNIX_EPOCH;

use super::*;
use crate::scratch::Scratch;

/// On each kind of file system that is at hand.
fn files() -> impl Iterator<Item = (Scratch, File)> {
    let here = [Some(Scratch::new()), Scratch::in_memory()];
    here.into_iter().flatten().map(|scratch| {
        let file = File::create_new(scratch.join("file")).unwrap();
        (scratch, file)
    })
}

/// A time that nothing else here has.
fn set_time(file: &File, seconds: u64) {
    let at = UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_modified(at)).unwrap();
}

#[test]
fn our_own_changes_are_ours() {
    for (scratch, file) in files() {
        let mut watch = Watch::of_empty();
        for (at, bytes) in [(0, &b"one"[..]), (100, b"two"), (3, b"three"), (50, b"")] {
            watch.check(&file).unwrap();
            file.write_all_at(bytes, at).unwrap();
            let end = if bytes.is_empty() {
                0
            } else {
                at + bytes.len() as u64
            };
            watch.wrote(&file, end).unwrap();
        }
        for len in [7, 0, 900] {
            file.set_len(len).unwrap();
            watch.cut(&file, len).unwrap();
            watch.check(&file).unwrap();
        }
        set_time(&file, 5);
        watch.changed(&file).unwrap();
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        std::fs::hard_link(scratch.join("file"), scratch.join("link")).unwrap();
        std::fs::rename(scratch.join("file"), scratch.join("other")).unwrap();
        watch.check(&file).unwrap();
        file.write_all_at(b"last", 1000).unwrap();
        watch.wrote_last(1004);
        watch.check(&file).unwrap();
    }
}

/// What it makes of the file, and how.
type Change<'c> = (&'c str, &'c dyn Fn(&File));

#[test]
fn others_changes_are_noticed_at_once_and_for_good() {
    let changes: [Change<'_>; 4] = [
        ("longer", &|file| file.set_len(8).unwrap()),
        ("shorter", &|file| file.set_len(1).unwrap()),
        ("older", &|file| set_time(file, 5)),
        ("newer", &|file| set_time(file, 1 << 32)),
    ];
    for (what, change) in changes {
        for (scratch, file) in files() {
            let mut watch = Watch::of(&file).unwrap();
            file.write_all_at(b"one", 0).unwrap();
            watch.wrote(&file, 3).unwrap();
            let other = File::options().write(true).open(scratch.join("file"));
            change(&other.unwrap());
            for _ in 0..2 {
                let error = watch.check(&file).unwrap_err();
                assert_eq!(error.to_string(), OTHER, "{what}");
            }
            // Even if it looks again as it was.
            watch.restart(&file).unwrap();
            watch.changed(&file).unwrap_err();
        }
    }
}

#[test]
fn the_size_tells_of_another_whatever_the_clock() {
    for (_scratch, file) in files() {
        // The other has written further than we have.
        let mut behind = Watch::of_empty();
        file.write_all_at(b"one, two", 0).unwrap();
        let mut ahead = Watch::of(&file).unwrap();
        behind.wrote(&file, 3).unwrap_err();
        // The writer that is further in the file learns that the other wrote into its content.
        ahead.check(&file).unwrap_err();
        // It has cut what we wrote, and we wrote on.
        let mut before = Watch::of(&file).unwrap();
        file.set_len(0).unwrap();
        before.changed(&file).unwrap_err();
        let mut whole = Watch::of_empty();
        whole.wrote_last(8);
        whole.check(&file).unwrap_err();
    }
}

/// Two that write the same places in turn; one takes the other's time for its own.
#[test]
fn who_overlooked_the_others_write_hears_of_it_when_the_other_notices() {
    for (_scratch, file) in files() {
        file.set_len(8).unwrap();
        let (mut one, mut other) = (Watch::of(&file).unwrap(), Watch::of(&file).unwrap());
        file.write_all_at(b"one", 0).unwrap();
        file.write_all_at(b"other", 0).unwrap();
        // Both check after both writes.
        one.wrote(&file, 3).unwrap();
        other.wrote(&file, 5).unwrap();
        set_time_later(&file);
        one.changed(&file).unwrap();
        other.check(&file).unwrap_err();
        one.check(&file).unwrap_err();
    }
}

/// As a write a moment later does.
fn set_time_later(file: &File) {
    let at = file.metadata().unwrap().modified().unwrap();
    let at = at + std::time::Duration::from_millis(9);
    file.set_times(FileTimes::new().set_modified(at)).unwrap();
}

#[test]
fn whoever_came_when_we_stood_still_or_cut_the_file_keeps_its_time() {
    for (_scratch, file) in files() {
        let wrote = || {
            set_time(&file, 100);
            let mut watch = Watch::of(&file).unwrap();
            file.write_all_at(b"one, two", 0).unwrap();
            set_time(&file, 100);
            watch.wrote(&file, 8).unwrap();
            watch
        };
        let time = || file.metadata().unwrap().modified().unwrap();
        let mut still = wrote();
        set_time(&file, 102);
        let before = time();
        still.check(&file).unwrap_err();
        assert_eq!(time(), before);
        let mut cut = wrote();
        file.set_len(3).unwrap();
        set_time(&file, 101);
        let before = time();
        cut.check(&file).unwrap_err();
        assert_eq!(time(), before);
        // It has only looked.
        set_time(&file, 100);
        let mut looked = Watch::of(&file).unwrap();
        set_time(&file, 101);
        looked.check(&file).unwrap_err();
        assert_eq!(time(), before);
    }
}

#[test]
fn what_tells_nothing_is_not_watched() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let mut watch = Watch::of(&null).unwrap();
    watch.wrote(&null, 9).unwrap();
    watch.check(&null).unwrap();
    // Made up by the kernel: a regular file without a size.
    let made_up = File::options().write(true).open("/proc/self/comm").unwrap();
    let mut watch = Watch::of(&made_up).unwrap();
    (&made_up).write_all(b"writer").unwrap();
    watch.wrote(&made_up, 6).unwrap();
    watch.check(&made_up).unwrap();
}

#[test]
fn one_copy_may_write_a_file_under_several_names() {
    for (_scratch, file) in files() {
        let targets = Targets::default();
        let mut one = Watch::of(&file).unwrap();
        targets.add(&one);
        file.write_all_at(b"one", 0).unwrap();
        one.wrote(&file, 3).unwrap();
        // The same file by another name: cut, written and closed while the first is open.
        file.set_len(0).unwrap();
        let mut other = Watch::of(&file).unwrap();
        targets.add(&other);
        file.write_all_at(b"other", 0).unwrap();
        other.wrote(&file, 5).unwrap();
        other.check(&file).unwrap();
        drop(other);
        one.check(&file).unwrap();
        drop(one);
        // Later copies are watched as ever.
        let mut later = Watch::of(&file).unwrap();
        targets.add(&later);
        file.set_len(1).unwrap();
        later.check(&file).unwrap_err();
    }
}
