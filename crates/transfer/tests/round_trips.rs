//! The number of round trips of a copy: over a long path they determine its time beyond that of its
//! bytes.

mod adversary;
mod served;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use sftp::server::Permits;
use sftp::server::{Serve, Work};
use transfer::engine::{EngineError, Exchange, Transport};
use transfer::get::{DownloadSource, Get, Item as GetItem};
use transfer::glob::{self, Match};
use transfer::options::{Options, Resume};
use transfer::put::{Item as PutItem, Put, Target};
use transfer::remote::Remote;

use adversary::{Heard, Place, bytes};
use served::{Plain, Silent};

/// Fulmar's server at the end of a path so long that the client has sent all it can before the
/// first answer arrives.
struct Far {
    serve: Serve,
    reads_on: bool,
    is_fulmar: bool,
    trips: usize,
}

impl Transport for Far {
    fn links(&self) -> usize {
        1
    }

    fn reads_on(&self, _link: usize) -> bool {
        self.reads_on
    }

    fn is_fulmar(&self, _link: usize) -> bool {
        self.is_fulmar
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        let mut sent = 0;
        loop {
            let mut room = vec![0; 32_768];
            let count = exchange.fill(0, &mut room);
            if count == 0 {
                break;
            }
            room.truncate(count);
            sent += count;
            self.serve.receive(Bytes::from(room));
        }
        let mut came = Vec::new();
        loop {
            let work = self.serve.work(&mut Plain).unwrap();
            let before = came.len();
            while let Some(buf) = self.serve.outbox().next(usize::MAX, &mut Plain) {
                came.push(Bytes::copy_from_slice(buf.payload()));
            }
            if work == Work::Waiting && came.len() == before {
                break;
            }
        }
        if exchange.is_over() {
            // No later answer delays the copy.
            return Ok(true);
        }
        assert!(sent > 0, "nothing was asked, and it is not over");
        self.trips += 1;
        for bytes in came {
            exchange.feed(0, bytes)?;
        }
        Ok(true)
    }
}

fn far(reads_on: bool) -> Remote<Far> {
    far_that(reads_on, true, Permits::everything())
}

fn far_that(reads_on: bool, is_fulmar: bool, permits: Permits) -> Remote<Far> {
    let place = sys::fs::PathRoot::everywhere(b"/").unwrap();
    Remote::unmet(Far {
        serve: Serve::new(place, permits, 500, Box::new(Silent)),
        reads_on,
        is_fulmar,
        trips: 0,
    })
}

/// Returns the round trips of a copy with this number of successful files and no error.
fn trips(remote: &mut Remote<Far>, heard: &Heard, good: usize) -> usize {
    assert!(heard.errors.is_empty(), "{:?}", heard.errors);
    assert_eq!(heard.good, good);
    remote.engine().transport().trips
}

/// Uploads a file as scp does; returns the round trips.
fn put(reads_on: bool, from: &Path, to: &Path, options: &Options) -> usize {
    let mut remote = far(reads_on);
    let to = to.as_os_str().as_bytes().to_vec();
    assert!(!remote.is_directory(&to).unwrap());
    let items = vec![PutItem {
        from: from.to_path_buf(),
        to,
        fresh: false,
    }];
    let mut heard = Heard::default();
    let mut work = Put::new(options.clone(), items, 1, &mut heard);
    remote.engine().run(&mut work).unwrap();
    trips(&mut remote, &heard, 1)
}

/// Uploads one large file as scp does; returns the round trips.
fn put_large(reads_on: bool, from: &Path, to: &Path) -> usize {
    let mut remote = far(reads_on);
    let below = to.join(from.file_name().unwrap());
    let [to, below] = [to, &below].map(|path| path.as_os_str().as_bytes().to_vec());
    let mut target = Target::new(to.clone(), below.clone(), Some(0o640));
    remote.engine().run(&mut target).unwrap();
    let items = vec![PutItem {
        from: from.to_path_buf(),
        to: if target.is_directory() { below } else { to },
        fresh: false,
    }];
    let mut heard = Heard::default();
    let mut work = Put::new(Options::default(), items, 1, &mut heard).with_target(target);
    remote.engine().run(&mut work).unwrap();
    trips(&mut remote, &heard, 1)
}

/// Downloads the matches of a pattern as scp does.
fn get(reads_on: bool, pattern: &Path, to: &Path, options: &Options) -> usize {
    get_from(far(reads_on), pattern, to, options)
}

fn get_from(mut remote: Remote<Far>, pattern: &Path, to: &Path, options: &Options) -> usize {
    let pattern = pattern.as_os_str().as_bytes();
    let mut ahead = DownloadSource::new(pattern, options, 1);
    if let Some(ahead) = &mut ahead {
        remote.engine().run(ahead).unwrap();
    }
    let found = match ahead.as_ref().and_then(DownloadSource::found) {
        Some(found) => vec![found],
        None => glob::expand(&mut remote, pattern, &mut |_| {}).unwrap(),
    };
    let count = found.len();
    let items = found.into_iter().map(|each| GetItem {
        to: match count {
            1 => to.to_path_buf(),
            _ => to.join(
                String::from_utf8(each.path.clone())
                    .unwrap()
                    .replace('/', "_"),
            ),
        },
        from: each.path,
        attributes: each.attributes,
    });
    let items: Vec<GetItem> = items.collect();
    let mut heard = Heard::default();
    let mut work = Get::new(options.clone(), items, 1, &mut heard);
    if let Some(ahead) = ahead {
        work = work.with_source(ahead);
    }
    remote.engine().run(&mut work).unwrap();
    trips(&mut remote, &heard, count)
}

#[test]
fn a_file_waits_for_as_few_answers_as_it_can() {
    let place = Place::new("trips");
    let (from, to) = (place.join("from"), place.join("to"));
    let content = bytes(3_000_000);
    fs::write(&from, &content).unwrap();
    let resumes = Options {
        resume: Resume::Proven,
        ..Options::default()
    };
    // The target and the limits; the file; its data with its end. A downloaded file comes with all
    // of that at once.
    for (reads_on, trips, whole) in [(true, 3, 1), (false, 5, 3)] {
        assert_eq!(put(reads_on, &from, &to, &Options::default()), trips);
        assert!(fs::read(&to).unwrap() == content);
        fs::write(&to, &content[..2_000_000]).unwrap();
        // STAT; the comparison.
        assert_eq!(put(reads_on, &from, &to, &resumes), trips + 2);
        assert!(fs::read(&to).unwrap() == content);
        fs::remove_file(&to).unwrap();
        // The client sees itself that the file is complete, and does not wait for the answer to
        // CLOSE.
        assert_eq!(get(reads_on, &from, &to, &Options::default()), whole);
        assert!(fs::read(&to).unwrap() == content);
        fs::write(&to, &content[..2_000_000]).unwrap();
        assert_eq!(get(reads_on, &from, &to, &resumes), trips + 1);
        assert!(fs::read(&to).unwrap() == content);
        fs::remove_file(&to).unwrap();
    }
    fs::write(&from, b"small").unwrap();
    assert_eq!(put(true, &from, &to, &Options::default()), 2);
    fs::remove_file(&to).unwrap();
    assert_eq!(get(true, &from, &to, &Options::default()), 1);
    assert_eq!(fs::read(&to).unwrap(), b"small");
}

/// As in OpenSSH, whose suite tests it (sftp-perm).
#[test]
fn a_name_that_lstat_does_not_confirm_is_not_found() {
    let place = Place::new("lstat");
    let (file, link, nowhere) = (
        place.join("file"),
        place.join("link"),
        place.join("nowhere"),
    );
    fs::write(&file, b"text").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    std::os::unix::fs::symlink("nothing", &nowhere).unwrap();
    let found = |name: &Path, is_fulmar: bool, denied: &[&str]| {
        let permits = Permits::new(false, None::<[&str; 0]>, denied.iter().copied()).unwrap();
        let mut remote = far_that(true, is_fulmar, permits);
        let word = name.as_os_str().as_bytes();
        let mut ahead = DownloadSource::new(word, &Options::default(), 1).unwrap();
        remote.engine().run(&mut ahead).unwrap();
        let expanded = glob::expand(&mut remote, word, &mut |_| {}).unwrap();
        let size = |each: Match| each.attributes.map(|there| there.size);
        (
            ahead.found().map(size),
            expanded.into_iter().map(size).collect::<Vec<_>>(),
        )
    };
    for is_fulmar in [true, false] {
        for name in [&file, &link] {
            let there = Some(Some(4));
            assert_eq!(found(name, is_fulmar, &[]), (Some(there), vec![there]));
            assert_eq!(found(name, is_fulmar, &["lstat"]), (None, Vec::new()));
        }
        // A link that leads nowhere is found, and nothing at its end.
        assert_eq!(found(&nowhere, is_fulmar, &[]), (None, vec![None]));
    }
}

/// With another server, or one that denies the combined request, a file takes no more round trips
/// than before.
#[test]
fn a_file_that_does_not_come_with_the_first_answer_comes_as_ever() {
    let place = Place::new("as-ever");
    let (from, to) = (place.join("from"), place.join("to"));
    let denied = || Permits::new(false, None::<[&str; 0]>, ["open-read"]).unwrap();
    for (len, trips) in [(3_000_000, 3), (5, 2)] {
        let content = bytes(len);
        fs::write(&from, &content).unwrap();
        for (is_fulmar, permits) in [
            (false, Permits::everything()),
            (true, denied()),
            (false, denied()),
        ] {
            let remote = far_that(true, is_fulmar, permits);
            let options = Options::default();
            assert_eq!(get_from(remote, &from, &to, &options), trips);
            assert!(fs::read(&to).unwrap() == content);
            fs::remove_file(&to).unwrap();
        }
        // Copies other than of a whole file at full speed are requested in the ordinary way.
        let sparse = Options {
            sparse: true,
            ..Options::default()
        };
        assert_eq!(get(true, &from, &to, &sparse), trips);
        assert!(fs::read(&to).unwrap() == content);
        fs::remove_file(&to).unwrap();
    }
    // A directory is not a file.
    let folder = place.join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), b"content").unwrap();
    let tree = Options {
        recursive: true,
        ..Options::default()
    };
    assert_eq!(get(true, &folder, &to, &tree), 2);
    assert_eq!(fs::read(to.join("file")).unwrap(), b"content");
}

/// STAT, the request for limits and the file itself are sent together, whether the target is a
/// directory or not.
#[test]
fn a_large_file_is_opened_with_the_first_question() {
    let place = Place::new("ahead");
    let (from, to) = (place.join("from"), place.join("to"));
    let content = bytes(3_000_000);
    fs::write(&from, &content).unwrap();
    for (reads_on, trips) in [(true, 2), (false, 4)] {
        assert_eq!(put_large(reads_on, &from, &to), trips);
        assert!(fs::read(&to).unwrap() == content);
        // An existing file is replaced, even if it is longer.
        fs::write(&to, bytes(3_000_100)).unwrap();
        assert_eq!(put_large(reads_on, &from, &to), trips);
        assert!(fs::read(&to).unwrap() == content);
        fs::remove_file(&to).unwrap();
        fs::create_dir(&to).unwrap();
        assert_eq!(put_large(reads_on, &from, &to), trips);
        assert!(fs::read(to.join("from")).unwrap() == content);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
        fs::remove_dir_all(&to).unwrap();
        // A link is followed, and the file itself is not truncated.
        std::os::unix::fs::symlink(&from, &to).unwrap();
        put_large(reads_on, &from, &to);
        assert!(fs::read(&from).unwrap() == content);
        fs::remove_file(&to).unwrap();
    }
    assert_eq!(fs::read_dir(place.join(".")).unwrap().count(), 1);
}

#[test]
fn a_target_that_cannot_be_opened_is_named_with_its_reason() {
    let place = Place::new("refused");
    let (from, to) = (place.join("from"), place.join("nowhere/to"));
    fs::write(&from, bytes(100_000)).unwrap();
    let mut remote = far(true);
    let path = to.as_os_str().as_bytes().to_vec();
    let mut target = Target::new(path.clone(), [&path[..], b"/from"].concat(), Some(0o640));
    remote.engine().run(&mut target).unwrap();
    assert!(!target.is_directory());
    let items = vec![PutItem {
        from,
        to: path,
        fresh: false,
    }];
    let mut heard = Heard::default();
    let mut work = Put::new(Options::default(), items, 1, &mut heard).with_target(target);
    remote.engine().run(&mut work).unwrap();
    assert_eq!(heard.good, 0);
    let said = heard.errors.join("\n");
    assert!(
        said.contains("dest open") && said.contains("No such file"),
        "{said}"
    );
}

/// The matches of a pattern are known from the listing; only links need a STAT each.
#[test]
fn many_files_that_fit_a_pattern_are_not_asked_for_one_by_one() {
    let place = Place::new("pattern");
    let (from, to) = (place.join("from"), place.join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    for index in 0..300 {
        fs::write(from.join(format!("{index}.x")), b"content").unwrap();
    }
    let few = get(true, &from.join("*.x"), &to, &Options::default());
    assert!(few < 20, "{few}");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 300);
    std::os::unix::fs::symlink("1.x", from.join("link.x")).unwrap();
    assert_eq!(
        get(true, &from.join("*.x"), &to, &Options::default()),
        few + 1
    );
    assert_eq!(fs::read_dir(&to).unwrap().count(), 301);
    for entry in fs::read_dir(&to).unwrap() {
        assert_eq!(fs::read(entry.unwrap().path()).unwrap(), b"content");
    }
}
