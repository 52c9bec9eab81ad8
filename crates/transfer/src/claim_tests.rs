//! Claims by several open files, with a clock of the test's own.

use std::fs::{File, FileTimes};
use std::path::Path;

use super::*;
use crate::scratch::Scratch;

const SECOND: Duration = Duration::from_secs(1);

fn open(path: &Path) -> File {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false);
    file.open(path).unwrap()
}

fn take(file: &File, how: How, at: Duration) -> Result<Claim, Busy> {
    match Claim::take_at(file, how, at).unwrap() {
        Taken::Ours(Some(claim), _) => Ok(claim),
        Taken::Ours(None, _) => panic!("folders for temporary files are on a local file system"),
        Taken::Busy => Err(Busy),
    }
}

fn check(claim: &mut Claim, file: &File, at: Duration) -> Result<(), Lost> {
    claim.check_at(file, || None, at)
}

/// Writes as at another time.
fn write(file: &File, at: Duration) {
    let times = FileTimes::new().set_modified(UNIX_EPOCH + at);
    file.set_times(times).unwrap();
}

#[test]
fn one_writes_and_the_next_behind_it() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    for how in [How::Brief, How::Alone, How::First] {
        let (one, two) = (open(&path), open(&path));
        let now = now();
        let mut first = take(&one, how, now).unwrap();
        for other in [How::Brief, How::Alone, How::First] {
            assert_eq!(take(&two, other, now).unwrap_err(), Busy);
            assert_eq!(take(&two, other, now + SECOND).unwrap_err(), Busy);
        }
        check(&mut first, &one, now + SECOND).unwrap();
        assert!(!Claim::take_new(&two, path.as_os_str().as_encoded_bytes()));
        drop(one);
        std::fs::write(&path, b"other").unwrap();
        assert!(!Claim::take_new(&two, path.as_os_str().as_encoded_bytes()));
        std::fs::write(&path, b"").unwrap();
        assert!(Claim::take_new(&two, path.as_os_str().as_encoded_bytes()));
        let mut second = take(&two, How::Alone, now).unwrap();
        check(&mut second, &two, now).unwrap();
        assert_eq!(take(&open(&path), How::Alone, now).unwrap_err(), Busy);
    }
}

#[test]
fn whoever_reads_or_asks_for_nothing_is_not_in_the_way() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let reader = open(&path);
    sys::file::lock(&reader, false).unwrap();
    let writer = open(&path);
    let _claim = take(&writer, How::Alone, now()).unwrap();
    std::fs::write(&path, b"other").unwrap();
    let further = take(&reader, How::Further, now()).unwrap();
    assert_eq!(further.how, How::Further);
    // A device has no content of anybody's.
    let null = open(Path::new("/dev/null"));
    let taken = Claim::take(&null, How::Alone).unwrap();
    assert!(matches!(taken, Taken::Ours(None, _)));
}

#[test]
fn one_that_does_not_write_is_overtaken_and_finds_out_when_it_wakes() {
    let scratch = Scratch::new();
    for ends in [false, true] {
        let path = scratch.join(if ends { "ends" } else { "goes on" });
        let [one, two, three] = [(); 3].map(|()| open(&path));
        let begun = now();
        let later = begun + STALE + 2 * SECOND;
        let mut first = take(&one, How::Alone, begun).unwrap();
        let mut second = take(&two, How::Alone, later).unwrap();
        // It writes, as far as anybody knows.
        assert_eq!(take(&three, How::Alone, later).unwrap_err(), Busy);
        write(&two, later);
        check(&mut second, &two, later).unwrap();
        let two = (!ends).then_some(two);
        assert_eq!(check(&mut first, &one, later), Err(Lost));
        assert_eq!(check(&mut first, &one, begun), Err(Lost), "it stays so");
        if let Some(two) = two {
            check(&mut second, &two, later + 2 * SECOND).unwrap();
            // And that one in its turn.
            let last = later + STALE + 4 * SECOND;
            let mut third = take(&three, How::Alone, last).unwrap();
            assert_eq!(check(&mut second, &two, last + SECOND), Err(Lost));
            check(&mut third, &three, last).unwrap();
        }
    }
}

#[test]
fn one_that_wakes_first_keeps_what_is_its_own() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let (one, two) = (open(&path), open(&path));
    let begun = now();
    let mut first = take(&one, How::Alone, begun).unwrap();
    let later = begun + STALE + 2 * SECOND;
    check(&mut first, &one, later).unwrap();
    assert_eq!(take(&two, How::Alone, later).unwrap_err(), Busy);
    // Somebody who does not ask has written.
    write(&one, later + 4 * SECOND);
    assert_eq!(check(&mut first, &one, later + 5 * SECOND), Err(Lost));
}

#[test]
fn of_a_file_with_several_handles_the_name_tells() {
    let scratch = Scratch::new();
    let path = scratch.join("part");
    let (one, two) = (open(&path), open(&path));
    let begun = now();
    let later = begun + STALE + 2 * SECOND;
    let mut first = take(&one, How::First, begun).unwrap();
    let mut further = take(&two, How::Further, begun).unwrap();
    let named = || content::info(File::open(&path).unwrap()).ok();
    // The other handle has written.
    write(&one, begun + 4 * SECOND);
    first.check_at(&one, named, later).unwrap();
    further.check_at(&two, named, later).unwrap();
    std::fs::rename(&path, scratch.join("target")).unwrap();
    std::fs::write(&path, b"another's").unwrap();
    let later = later + 2 * SECOND;
    assert_eq!(first.check_at(&one, named, later), Err(Lost));
    assert_eq!(further.check_at(&two, || None, later), Err(Lost));
}

#[test]
fn as_many_as_there_are_places_may_die() {
    let scratch = Scratch::new();
    let path = scratch.join("file");
    let begun = now() + STALE;
    let mut dead = Vec::new();
    for number in 0..u32::try_from(PLACES).unwrap() {
        let file = open(&path);
        let at = begun + number * (STALE + 2 * SECOND);
        dead.push((take(&file, How::Alone, at).unwrap(), file));
    }
    let late = begun + 1000 * SECOND;
    let last = open(&path);
    assert_eq!(take(&last, How::Alone, late).unwrap_err(), Busy);
    dead.clear();
    take(&last, How::Alone, late).unwrap();
}
