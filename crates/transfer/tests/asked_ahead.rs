//! Files that the server opens and reads in the flight that looks them up: with servers that lie,
//! files that change, and targets that cannot be written.

mod adversary;

use std::fs;
use std::path::Path;

use transfer::engine::{Engine, EngineError};
use transfer::get::{DownloadSource, Get, Item as GetItem};
use transfer::glob;
use transfer::options::{Options, Resume};
use transfer::remote::{Remote, RemoteError};

use adversary::{Adversary, Heard, Nature, Opens, Place, bytes};

/// Downloads one file as scp does; returns the reports and the server.
fn get(nature: Nature, content: &[u8], to: &Path) -> (Heard, Adversary) {
    let adversary = Adversary::with(nature, "/file", content);
    get_from(adversary, b"/file", to, &Options::default()).unwrap()
}

fn get_from(
    adversary: Adversary,
    from: &[u8],
    to: &Path,
    options: &Options,
) -> Result<(Heard, Adversary), EngineError> {
    let mut remote = Remote::with(Engine::new(adversary));
    let mut source = DownloadSource::new(from, options, 1).unwrap();
    remote.engine().run(&mut source)?;
    let found = match source.found() {
        Some(found) => vec![found],
        None => glob::expand(&mut remote, from, &mut |_| {})?,
    };
    let items = found.into_iter().map(|found| GetItem {
        from: found.path,
        to: to.to_path_buf(),
        attributes: found.attributes,
    });
    let mut heard = Heard::default();
    let mut work = Get::new(options.clone(), items.collect(), 1, &mut heard).with_source(source);
    remote.engine().run(&mut work)?;
    // The connection is usable for the next work.
    match remote.realpath(b"/file") {
        Err(RemoteError::Engine(error)) => return Err(error),
        other => assert!(other.is_ok()),
    }
    let adversary = std::mem::replace(
        remote.engine().transport(),
        Adversary::new(Nature::default()),
    );
    assert_eq!(adversary.open_handles(), 0, "{:?}", adversary.log);
    Ok((heard, adversary))
}

fn opens(opens: Opens) -> Nature {
    Nature {
        opens: Some(opens),
        ..Nature::default()
    }
}

fn count(adversary: &Adversary, what: &str) -> usize {
    adversary
        .log
        .iter()
        .filter(|line| line.starts_with(what))
        .count()
}

#[test]
fn a_file_comes_whole_in_whatever_pieces() {
    let place = Place::new("ahead-whole");
    let to = place.join("to");
    for len in [0, 1, 29_999, 30_000, 30_001, 1_000_000] {
        let content = bytes(len);
        for (piece, chance) in [(0, None), (1 << 12, None), (7, Some(3)), (0, Some(9))] {
            let nature = Nature {
                piece,
                chance,
                ..opens(Opens::Honest)
            };
            let (heard, adversary) = get(nature, &content, &to);
            assert!(heard.errors.is_empty(), "{:?}", heard.errors);
            assert!(heard.good == 1 && fs::read(&to).unwrap() == content);
            assert_eq!(adversary.log, ["STAT /file", "OPEN-READ /file"]);
            // An existing file is replaced the next time.
            fs::write(&to, bytes(2_000_000)).unwrap();
        }
    }
    // A device is written in order.
    let (heard, _) = get(
        opens(Opens::Honest),
        &bytes(100_000),
        Path::new("/dev/null"),
    );
    assert_eq!(heard.good, 1);
}

#[test]
fn what_the_server_will_not_do_is_done_in_the_usual_way() {
    let place = Place::new("ahead-usual");
    let to = place.join("to");
    let content = bytes(400_000);
    for lie in [Opens::Refused, Opens::OtherKind] {
        let (heard, adversary) = get(opens(lie), &content, &to);
        assert!(heard.errors.is_empty(), "{lie:?} {:?}", heard.errors);
        assert!(fs::read(&to).unwrap() == content, "{lie:?}");
        assert_eq!(count(&adversary, "OPEN /file"), 1, "{lie:?}");
        fs::remove_file(&to).unwrap();
    }
    // Not a regular file, and a path that does not exist.
    let adversary = Adversary::with(opens(Opens::Honest), "/file", b"");
    let (heard, adversary) = get_from(adversary, b"/dir", &to, &Options::default()).unwrap();
    assert!(heard.errors.concat().contains("not a regular file"));
    assert_eq!(count(&adversary, "OPEN /"), 0);
    let adversary = Adversary::with(opens(Opens::Honest), "/file", b"");
    let (heard, _) = get_from(adversary, b"/none", &to, &Options::default()).unwrap();
    assert!(heard.good == 0 && heard.errors.is_empty() && !to.exists());
}

#[test]
fn a_lie_is_an_error_and_leaves_a_prefix() {
    let place = Place::new("ahead-lies");
    let to = place.join("to");
    let content = bytes(300_000);
    for (lie, words) in [
        (Opens::ToldTwice, "unexpected type"),
        (Opens::Directory, "not a regular file"),
        (Opens::Short, "had 300000 bytes and ends at 299999"),
        (Opens::Grown, "had 300000 bytes and has more"),
        (Opens::Endless, "had 300000 bytes and has more"),
        (Opens::Failing, "read remote \"/file\": Failure"),
    ] {
        for chance in [None, Some(1), Some(2)] {
            let nature = Nature {
                chance,
                ..opens(lie)
            };
            let (heard, adversary) = get(nature, &content, &to);
            assert_eq!(heard.good, 0, "{lie:?}");
            let said = heard.errors.join("\n");
            assert!(said.contains(words), "{lie:?}: {said}");
            assert_eq!(heard.errors.len(), 1, "{said}");
            let there = fs::read(&to).unwrap_or_default();
            assert!(content.starts_with(&there), "{lie:?}");
            if lie == Opens::Failing {
                assert_eq!(there.len(), 60_000);
            }
            if lie == Opens::Endless {
                assert_eq!(count(&adversary, "CANCEL"), 1);
            }
            let _ = fs::remove_file(&to);
        }
    }
    // If nothing is open, the ordinary way is used.
    for lie in [Opens::OddFields, Opens::DataFirst] {
        let (heard, _) = get(opens(lie), &content, &to);
        assert!(
            heard.good == 1 && heard.errors.is_empty(),
            "{:?}",
            heard.errors
        );
        assert!(fs::read(&to).unwrap() == content);
    }
}

/// As for files of sysfs, and for a log written in between.
#[test]
fn a_small_file_is_as_long_as_what_came() {
    let place = Place::new("ahead-fiction");
    let to = place.join("to");
    for (size, len) in [
        (4096, 5),
        (65_536, 64_999),
        (4096, 0),
        (1, 40_000),
        (100, 65_536),
        (0, 200_000),
    ] {
        for (piece, chance) in [(0, None), (7, Some(3)), (0, Some(9))] {
            let nature = Nature {
                size: Some(size),
                piece,
                chance,
                ..opens(Opens::Honest)
            };
            fs::write(&to, bytes(90_000)).unwrap();
            let (heard, adversary) = get(nature, &bytes(len), &to);
            assert!(heard.errors.is_empty(), "{size} {len}: {:?}", heard.errors);
            assert!(fs::read(&to).unwrap() == bytes(len), "{size} {len}");
            assert_eq!(
                adversary.log,
                ["STAT /file", "OPEN-READ /file"],
                "{size} {len}"
            );
        }
    }
    // A file larger than claimed and not small is written before it is complete.
    let nature = Nature {
        size: Some(100),
        ..opens(Opens::Endless)
    };
    let (heard, adversary) = get(nature, &bytes(50), &to);
    let said = heard.errors.join("\n");
    assert!(said.contains("had 100 bytes and has more"), "{said}");
    assert_eq!(count(&adversary, "CANCEL"), 1);
}

#[test]
fn what_fails_before_it_is_worth_it_leaves_the_local_file_as_it_was() {
    let place = Place::new("ahead-mine");
    let to = place.join("to");
    fs::write(&to, "mine").unwrap();
    let is_mine = || fs::read(&to).unwrap() == b"mine";
    for (lie, len, words) in [
        (Opens::Unreadable, 10, "read remote \"/file\": Failure"),
        (Opens::Unreadable, 300_000, "read remote \"/file\": Failure"),
        (Opens::Failing, 61_000, "read remote \"/file\": Failure"),
        (Opens::ToldTwice, 10, "unexpected type"),
        (Opens::ToldTwice, 300_000, "unexpected type"),
    ] {
        for (piece, chance) in [(0, None), (7, Some(3)), (0, Some(9))] {
            let nature = Nature {
                piece,
                chance,
                ..opens(lie)
            };
            let (heard, _) = get(nature, &bytes(len), &to);
            assert_eq!(heard.errors.len(), 1, "{lie:?} {:?}", heard.errors);
            assert!(heard.errors[0].contains(words), "{:?}", heard.errors);
            assert!(is_mine(), "{lie:?} {len}");
        }
    }
    // The connection breaks: a small file is complete here, or nothing of it.
    let content = bytes(61_000);
    let mut lost = 0;
    for answers in 0..8 {
        let nature = Nature {
            answers: Some(answers),
            ..opens(Opens::Honest)
        };
        let adversary = Adversary::with(nature, "/file", &content);
        let result = get_from(adversary, b"/file", &to, &Options::default());
        if fs::read(&to).unwrap() == content {
            fs::write(&to, "mine").unwrap();
            continue;
        }
        assert!(result.is_err() && is_mine(), "{answers}");
        lost += 1;
    }
    // INIT, LSTAT, the request, three parts, the end.
    assert_eq!(lost, 7);
}

#[test]
fn a_size_that_no_file_has_is_refused_and_the_file_is_closed() {
    let place = Place::new("ahead-size");
    let nature = Nature {
        size: Some(u64::MAX),
        ..opens(Opens::Endless)
    };
    let (heard, adversary) = get(nature, &bytes(1000), &place.join("to"));
    let said = heard.errors.join("\n");
    assert!(said.contains("18446744073709551615 bytes"), "{said}");
    assert_eq!(count(&adversary, "CANCEL"), 1);
    assert!(!place.join("to").exists());
}

#[test]
fn a_target_that_cannot_be_written_ends_what_is_on_its_way() {
    let place = Place::new("ahead-target");
    // The stream would never end by itself.
    for (to, words) in [
        (place.join("nowhere/to"), "No such file or directory"),
        (
            "/dev/full".into(),
            "write local \"/dev/full\": No space left on device",
        ),
    ] {
        let (heard, adversary) = get(opens(Opens::Endless), &bytes(100_000), &to);
        let said = heard.errors.join("\n");
        assert!(heard.good == 0 && said.contains(words), "{said}");
        assert_eq!(count(&adversary, "CANCEL"), 1);
    }
}

#[test]
fn what_was_asked_for_and_is_not_copied_is_ended() {
    let place = Place::new("ahead-other");
    let to = place.join("to");
    let content = bytes(100_000);
    let mut remote = Remote::with(Engine::new(Adversary::with(
        opens(Opens::Endless),
        "/file",
        &content,
    )));
    let mut source = DownloadSource::new(b"/file", &Options::default(), 1).unwrap();
    remote.engine().run(&mut source).unwrap();
    let found = source.found().unwrap();
    let item = |from: &str| GetItem {
        from: from.as_bytes().to_vec(),
        to: to.clone(),
        attributes: found.attributes,
    };
    let mut heard = Heard::default();
    let mut work = Get::new(Options::default(), vec![item("/other")], 1, &mut heard);
    work = work.with_source(source);
    remote.engine().run(&mut work).unwrap();
    assert!(heard.errors.concat().contains("remote open \"/other\""));
    let adversary = remote.engine().transport();
    assert_eq!(
        (adversary.open_handles(), count(adversary, "CANCEL")),
        (0, 1)
    );
}

#[test]
fn only_one_whole_file_at_full_speed_is_asked_for_ahead() {
    let plain = Options::default();
    assert!(DownloadSource::new(b"a/b", &plain, 1).is_some());
    assert!(DownloadSource::new(b"a/\\*", &plain, 1).is_some());
    for word in [b"a/*".as_slice(), b"[ab]", b"?", b""] {
        assert!(DownloadSource::new(word, &plain, 1).is_none());
    }
    assert!(DownloadSource::new(b"a", &plain, 2).is_none());
    for options in [
        Options {
            resume: Resume::BySize,
            ..Options::default()
        },
        Options {
            resume: Resume::Proven,
            ..Options::default()
        },
        Options {
            sparse: true,
            ..Options::default()
        },
        Options {
            limit_bytes: 1,
            ..Options::default()
        },
    ] {
        assert!(DownloadSource::new(b"a", &options, 1).is_none());
    }
}
