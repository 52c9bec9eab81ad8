//! Copies with an in-memory server that lies, fails or answers in odd pieces.

mod adversary;

#[path = "lying_server/trees.rs"]
mod trees;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sftp::attributes::mode;
use sftp::{Attributes, Code, vendor};
use transfer::engine::{Engine, EngineError};
use transfer::get::{Get, Item as GetItem};
use transfer::options::{Options, Resume};
use transfer::part::PartNames;
use transfer::put::{Item as PutItem, Put};
use transfer::remote::Remote;

use adversary::{Adversary, Heard, Nature, Place, Ranges, bytes};
use trees::{get_tree, told};

fn get(
    adversary: Adversary,
    from: &str,
    to: &Path,
    options: Options,
) -> (Result<(), EngineError>, Heard, Engine<Adversary>) {
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let item = GetItem {
        from: from.as_bytes().to_vec(),
        to: to.to_path_buf(),
        attributes: None,
    };
    let links = engine.links();
    let mut work = Get::new(options, vec![item], links, &mut heard);
    let result = engine.run(&mut work);
    (result, heard, engine)
}

fn put(nature: Nature, from: &Path) -> (Result<(), EngineError>, Heard, Engine<Adversary>) {
    put_to(Adversary::new(nature), from, Options::default(), false)
}

fn put_to(
    adversary: Adversary,
    from: &Path,
    options: Options,
    fresh: bool,
) -> (Result<(), EngineError>, Heard, Engine<Adversary>) {
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let item = PutItem {
        from: from.to_path_buf(),
        to: b"/target".to_vec(),
        fresh,
    };
    let links = engine.links();
    let mut work = Put::new(options, vec![item], links, &mut heard);
    let result = engine.run(&mut work);
    (result, heard, engine)
}

fn recursive() -> Options {
    Options {
        recursive: true,
        ..Options::default()
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_the_rest_arrives() {
    let place = Place::new("names");
    let names: Vec<Vec<u8>> = [
        "../out",
        "/tmp/fulmar-out",
        "a/b",
        "",
        "..",
        "good",
        "\x1b[2J",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    let nature = Nature {
        names,
        ..Nature::default()
    };
    let mut adversary = Adversary::new(nature);
    adversary
        .files
        .insert(b"/dir/good".to_vec(), b"hello".to_vec());
    adversary
        .files
        .insert(b"/dir/\x1b[2J".to_vec(), b"hello".to_vec());
    let (result, heard, _) = get(adversary, "/dir", &place.join("x"), recursive());
    result.unwrap();
    assert_eq!(heard.good, 2);
    assert_eq!(heard.errors.len(), 4, "{:?}", heard.errors);
    assert!(
        heard
            .errors
            .iter()
            .all(|error| error.contains("suspect path"))
    );
    assert!(!heard.errors.iter().any(|error| error.contains('\x1b')));
    assert_eq!(fs::read(place.join("x/good")).unwrap(), b"hello");
    assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(place.join("x")).unwrap().count(), 2);
}

#[test]
fn a_server_that_sends_more_than_it_may_is_told_off() {
    let place = Place::new("tree-flood");
    let entry = told(
        b"f",
        None,
        Attributes::with_permissions(mode::REGULAR | 0o644),
    );
    let answer = entry.repeat(1000);
    let tree = vec![answer; 200];
    let (heard, failures, mut engine) = get_tree(tree, None, &place.join("x"));
    assert!(
        failures > 0
            && heard
                .errors
                .iter()
                .any(|line| line.contains("more than it may"))
    );
    let log = &engine.transport().log;
    assert!(log.iter().any(|line| line.starts_with("CANCEL")));
    // The number of entries received before is bounded: the window divided by the minimum charge of
    // an entry.
    assert!(heard.errors.len() < 40_000, "{}", heard.errors.len());
}

#[test]
fn answers_to_nothing_and_data_that_nobody_asked_for_end_the_connection() {
    for nature in [
        Nature {
            wrong_ids: true,
            ..Nature::default()
        },
        Nature {
            too_long: true,
            ..Nature::default()
        },
        Nature {
            empty: true,
            ..Nature::default()
        },
    ] {
        let place = Place::new("broken");
        let mut adversary = Adversary::new(nature);
        adversary.files.insert(b"/f".to_vec(), bytes(100_000));
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), Options::default());
        assert!(matches!(result, Err(EngineError::Broken(_))), "{result:?}");
        assert_eq!(heard.good, 0);
    }
}

#[test]
fn reads_that_come_short_and_in_odd_pieces_are_completed() {
    for (short, piece) in [(1000, 0), (0, 1), (0, 7), (20_000, 333)] {
        let place = Place::new("short");
        let mut adversary = Adversary::new(Nature {
            short,
            piece,
            ..Nature::default()
        });
        adversary.files.insert(b"/f".to_vec(), bytes(100_000));
        adversary.files.insert(b"/empty".to_vec(), Vec::new());
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?}", heard.errors);
        assert_eq!(fs::read(place.join("x")).unwrap(), bytes(100_000));
    }
}

#[test]
fn a_connection_that_ends_anywhere_leaves_a_prefix_and_says_so() {
    let content = bytes(300_000);
    for answers in 0..13 {
        let place = Place::new("cut");
        let mut adversary = Adversary::new(Nature {
            answers: Some(answers),
            ..Nature::default()
        });
        adversary.files.insert(b"/f".to_vec(), content.clone());
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), Options::default());
        assert!(matches!(result, Err(EngineError::Closed)));
        assert_eq!(heard.good, 0);
        if let Ok(there) = fs::read(place.join("x")) {
            assert!(content.starts_with(&there), "behind {answers} answers");
            assert!(heard.errors[0].contains("/f"), "{:?}", heard.errors);
        }
    }
}

#[test]
fn a_write_that_fails_in_the_middle_leaves_what_stands_before_it() {
    let place = Place::new("full");
    let content = bytes(400_000);
    fs::write(place.join("f"), &content).unwrap();
    for failing in [0, 3, 11] {
        let nature = Nature {
            failing_write: Some(failing),
            ..Nature::default()
        };
        let (result, heard, mut engine) = put(nature, &place.join("f"));
        result.unwrap();
        assert_eq!(heard.errors.len(), 1);
        assert!(heard.errors[0].contains("write remote \"/target\": Failure"));
        let there = engine.transport().file("/target");
        assert_eq!(there.len(), failing * 32 * 1024);
        assert!(content.starts_with(there));
    }
    let (result, heard, mut engine) = put(Nature::default(), &place.join("f"));
    result.unwrap();
    assert_eq!(heard.good, 1);
    assert!(engine.transport().file("/target") == content);
}

#[test]
fn a_part_is_gone_on_with_only_if_it_is_one() {
    let place = Place::new("part");
    let content = bytes(200_000);
    let options = Options {
        resume: Resume::Proven,
        ..Options::default()
    };
    for (part, moved_all) in [
        (content[..120_000].to_vec(), false),
        (vec![1; 120_000], true),
    ] {
        fs::write(place.join("x"), &part).unwrap();
        let mut adversary = Adversary::new(Nature::default());
        adversary.files.insert(b"/f".to_vec(), content.clone());
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), options.clone());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?} {moved_all}", heard.errors);
        assert!(fs::read(place.join("x")).unwrap() == content);
    }
}

#[test]
fn what_is_there_and_longer_is_cut() {
    let place = Place::new("longer");
    fs::write(place.join("x"), bytes(50_000)).unwrap();
    let mut adversary = Adversary::new(Nature::default());
    adversary.files.insert(b"/f".to_vec(), bytes(300));
    let (result, ..) = get(adversary, "/f", &place.join("x"), Options::default());
    result.unwrap();
    assert_eq!(fs::read(place.join("x")).unwrap(), bytes(300));
}

#[test]
fn a_part_of_what_is_empty_now_is_left_alone() {
    let place = Place::new("emptied");
    fs::write(place.join("x"), b"part").unwrap();
    let mut adversary = Adversary::new(Nature::default());
    adversary.files.insert(b"/f".to_vec(), Vec::new());
    let options = Options {
        resume: Resume::BySize,
        ..Options::default()
    };
    let (result, heard, _) = get(adversary, "/f", &place.join("x"), options);
    result.unwrap();
    assert!(heard.errors[0].contains("larger than remote"));
    assert_eq!(fs::read(place.join("x")).unwrap(), b"part");
}

/// A server may answer a READ of 0 bytes with an empty DATA, as OpenSSH's does.
#[test]
fn of_nothing_no_proof_is_asked_for() {
    let place = Place::new("nothing");
    let from = place.join("f");
    fs::write(&from, b"").unwrap();
    let nature = Nature {
        empty: true,
        ..Nature::default()
    };
    let options = Options {
        resume: Resume::Proven,
        ..Options::default()
    };
    let adversary = Adversary::with(nature, "/target", &bytes(70_000));
    let (result, heard, mut engine) = put_to(adversary, &from, options, false);
    result.unwrap();
    assert!(heard.errors.is_empty(), "{:?}", heard.errors);
    assert!(engine.transport().file("/target").is_empty());
}

/// As files of sysfs, which claim a page: the end must be seen again after the same claim.
#[test]
fn a_file_that_claims_more_than_it_has_is_as_long_as_what_came() {
    let place = Place::new("claims");
    for (claims, good) in [(4096, true), (40_000, false)] {
        let mut adversary = Adversary::new(Nature {
            size: Some(claims),
            ..Nature::default()
        });
        adversary.files.insert(b"/f".to_vec(), bytes(23));
        let (result, heard, mut engine) =
            get(adversary, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert_eq!(heard.good, usize::from(good), "{:?}", heard.errors);
        assert_eq!(fs::read(place.join("x")).unwrap(), bytes(23));
        assert_eq!(engine.transport().open_handles(), 0);
    }
    // A file truncated during the copy claims less afterwards.
    let mut adversary = Adversary::new(Nature {
        size_once: Some(4096),
        ..Nature::default()
    });
    adversary.files.insert(b"/f".to_vec(), bytes(23));
    let (result, heard, _) = get(adversary, "/f", &place.join("x"), Options::default());
    result.unwrap();
    assert!(heard.errors[0].contains("file changed while it was copied"));
}

#[test]
fn a_size_that_no_file_has_is_refused() {
    let place = Place::new("size");
    for size in [u64::MAX, 1 << 63] {
        let mut adversary = Adversary::new(Nature {
            size: Some(size),
            ..Nature::default()
        });
        adversary.files.insert(b"/f".to_vec(), bytes(300));
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors[0].contains("\"/f\""), "{:?}", heard.errors);
        assert!(!place.join("x").exists());
    }
}

#[test]
fn of_files_with_one_target_the_last_is_there_whole() {
    let place = Place::new("one");
    let mut adversary = Adversary::new(Nature {
        short: 1000,
        ..Nature::default()
    });
    let (mut gets, mut puts) = (Vec::new(), Vec::new());
    for (at, len) in [200_000, 100_000, 150_000].into_iter().enumerate() {
        let content = vec![u8::try_from(at).unwrap() + 1; len];
        let from = place.join(format!("f{at}"));
        fs::write(&from, &content).unwrap();
        adversary
            .files
            .insert(format!("/f{at}").into_bytes(), content);
        gets.push(GetItem {
            from: format!("/f{at}").into_bytes(),
            to: place.join("x"),
            attributes: None,
        });
        puts.push(PutItem {
            from,
            to: b"/target".to_vec(),
            fresh: false,
        });
    }
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let mut work = Get::new(Options::default(), gets, 1, &mut heard);
    engine.run(&mut work).unwrap();
    assert_eq!(heard.good, 3, "{:?}", heard.errors);
    assert!(fs::read(place.join("x")).unwrap() == vec![3; 150_000]);

    let mut heard = Heard::default();
    let mut engine = Engine::new(Adversary::new(Nature::default()));
    let mut work = Put::new(Options::default(), puts, 1, &mut heard);
    engine.run(&mut work).unwrap();
    assert_eq!(heard.good, 3, "{:?}", heard.errors);
    let there = engine.transport().file("/target");
    assert!(there == vec![3; 150_000]);
}

#[test]
fn the_size_of_a_part_that_many_wrote_proves_nothing() {
    let place = Place::new("gaps");
    let content = bytes((17 << 20) + 5);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    for (links, atomic) in [(2, false), (1, true)] {
        let nature = Nature {
            links,
            ..Nature::default()
        };
        let options = Options {
            resume: Resume::BySize,
            atomic,
            ..Options::default()
        };
        // State after an abrupt end: a hole in the middle of the written data.
        let part = [&content[..4096], &vec![0; 12 << 20]].concat();
        let adversary = Adversary::with(nature.clone(), "/f", &content);
        let names = PartNames::of_remote(b"/f", &adversary.attributes(b"/f").unwrap(), b"x");
        let beside = place.join(String::from_utf8(names.first()).unwrap());
        fs::write(&beside, &part).unwrap();
        let (result, heard, _) = get(adversary, "/f", &place.join("x"), options.clone());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?}", heard.errors);
        assert!(fs::read(place.join("x")).unwrap() == content, "{links}");
        assert!(!beside.exists(), "it was not taken over");
        fs::remove_file(place.join("x")).unwrap();

        // An interrupted copy shows the part's name.
        let cut = Nature {
            answers: Some(40),
            ..nature.clone()
        };
        let (_, _, mut engine) = put_to(Adversary::new(cut), &from, options.clone(), false);
        let names: Vec<&Vec<u8>> = engine.transport().files.keys().collect();
        let name = String::from_utf8(names[0].clone()).unwrap();
        assert!(names.len() == 1 && name.ends_with(".fulmar-part"), "{name}");
        let adversary = Adversary::with(nature, &name, &part);
        let (result, heard, mut engine) = put_to(adversary, &from, options, false);
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?}", heard.errors);
        assert!(engine.transport().file("/target") == content, "{links}");
        assert_eq!(engine.transport().files.len(), 1, "{links}");
    }
}

#[test]
fn connections_that_move_by_chance_come_to_the_same_end() {
    let place = Place::new("chance");
    let content = bytes((16 << 20) + 70_001);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    for seed in 0..6 {
        let nature = Nature {
            links: 3,
            chance: Some(seed),
            ..Nature::default()
        };
        let adversary = Adversary::with(nature.clone(), "/f", &content);
        let (result, heard, mut engine) =
            get(adversary, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors.is_empty(), "seed {seed}: {:?}", heard.errors);
        assert!(fs::read(place.join("x")).unwrap() == content, "seed {seed}");
        assert_eq!(engine.transport().open_handles(), 0, "seed {seed}");

        let adversary = Adversary::new(nature);
        let (result, heard, mut engine) = put_to(adversary, &from, Options::default(), false);
        result.unwrap();
        assert!(heard.errors.is_empty(), "seed {seed}: {:?}", heard.errors);
        assert!(engine.transport().file("/target") == content, "seed {seed}");
        assert_eq!(engine.transport().open_handles(), 0, "seed {seed}");
    }
}

/// A copy does not wait for connections that are still being opened, nor for those that never are.
#[test]
fn connections_that_come_late_or_never_join_or_are_done_without() {
    let place = Place::new("late");
    let content = bytes((24 << 20) + 70_001);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    for (others_from, piece) in [(5, 0), (40, 0), (80, 7000), (usize::MAX, 0)] {
        let nature = Nature {
            links: 3,
            others_from,
            piece,
            ..Nature::default()
        };
        let adversary = Adversary::with(nature.clone(), "/f", &content);
        let (result, heard, mut engine) =
            get(adversary, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{others_from}: {:?}", heard.errors);
        assert!(fs::read(place.join("x")).unwrap() == content);
        assert_eq!(engine.transport().open_handles(), 0, "{others_from}");

        let (result, heard, mut engine) =
            put_to(Adversary::new(nature), &from, Options::default(), false);
        result.unwrap();
        assert!(heard.errors.is_empty(), "{others_from}: {:?}", heard.errors);
        let adversary = engine.transport();
        assert!(adversary.file("/target") == content);
        assert_eq!(adversary.open_handles(), 0, "{others_from}");
        let opened = adversary.log.iter().filter(|line| line.starts_with("OPEN"));
        let joined = others_from < usize::MAX;
        assert_eq!(opened.count(), if joined { 3 } else { 1 }, "{others_from}");
    }
}

/// Name, whether the target is known to be new, its content, and the requests before the first
/// WRITE.
type Case<'c> = (&'c str, bool, Option<&'c [u8]>, &'c [&'c str]);

#[test]
fn what_is_new_is_opened_at_once_and_what_is_there_is_looked_at_before_it_is_cut() {
    let place = Place::new("fresh");
    let content = bytes(200_000);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    let other = bytes(300_000);
    let same = vec![7; content.len()];
    let shorter = bytes(10);
    let cases: [Case<'_>; 5] = [
        ("new", true, None, &["OPEN /target cutting"]),
        ("none there", false, None, &["STAT /target", "OPEN /target"]),
        (
            "longer",
            false,
            Some(&other),
            &["STAT /target", "OPEN /target", "CUT /target 0"],
        ),
        (
            "shorter",
            false,
            Some(&shorter),
            &["STAT /target", "OPEN /target", "CUT /target 0"],
        ),
        // The file may be the source: equal size, and no time that differs.
        (
            "alike",
            false,
            Some(&same),
            &["STAT /target", "OPEN /target"],
        ),
    ];
    for (case, fresh, there, begins) in cases {
        let mut adversary = Adversary::new(Nature::default());
        if let Some(there) = there {
            adversary.files.insert(b"/target".to_vec(), there.to_vec());
        }
        let (result, heard, mut engine) = put_to(adversary, &from, Options::default(), fresh);
        result.unwrap();
        assert!(heard.errors.is_empty(), "{case}: {:?}", heard.errors);
        let adversary = engine.transport();
        assert!(adversary.file("/target") == content, "{case}");
        let (before, writes) = adversary.log.split_at(begins.len());
        assert_eq!(before, begins, "{case}");
        assert!(writes.iter().all(|said| said == "WRITE /target"), "{case}");
        assert_eq!(writes.len(), 7, "{case}");
    }
}

#[test]
fn what_may_be_the_source_is_not_cut_when_a_write_fails() {
    let place = Place::new("in-place");
    let content = bytes(200_000);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    let nature = Nature {
        failing_write: Some(2),
        ..Nature::default()
    };
    let adversary = Adversary::with(nature.clone(), "/target", &content);
    let (result, heard, mut engine) = put_to(adversary, &from, Options::default(), false);
    result.unwrap();
    assert_eq!(heard.errors.len(), 1, "{:?}", heard.errors);
    assert!(engine.transport().file("/target") == content);
    // Another file of different size is truncated to the bytes certainly written.
    let adversary = Adversary::with(nature, "/target", &bytes(500));
    let (result, heard, mut engine) = put_to(adversary, &from, Options::default(), false);
    result.unwrap();
    assert_eq!(heard.errors.len(), 1, "{:?}", heard.errors);
    assert!(engine.transport().file("/target") == &content[..2 * 32 * 1024]);
}

#[test]
fn a_small_file_goes_in_one_flight_and_replaces_what_is_there() {
    let place = Place::new("small");
    let content = bytes(30_000);
    let from = place.join("f");
    fs::write(&from, &content).unwrap();
    for there in [bytes(50_000), vec![9; 30_000], Vec::new()] {
        let adversary = Adversary::with(Nature::default(), "/target", &there);
        let (result, heard, mut engine) = put_to(adversary, &from, Options::default(), false);
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?}", heard.errors);
        let adversary = engine.transport();
        assert!(adversary.file("/target") == content);
        assert_eq!(adversary.log, ["OPEN /target cutting", "WRITE /target"]);
    }
}

#[test]
fn a_file_is_not_copied_onto_itself() {
    let content = bytes(1000);
    let nature = Nature {
        copies: true,
        alias: Some((b"/hard".to_vec(), b"/f".to_vec())),
        ..Nature::default()
    };
    let mut remote = Remote::new(Adversary::with(nature, "/f", &content)).unwrap();
    for (from, to) in [("/f", "/f"), ("/f", "//./f")] {
        let why = remote.copy(from.as_bytes(), to.as_bytes()).unwrap_err();
        assert!(why.contains("onto itself"), "{why}");
        assert!(remote.engine().transport().file("/f") == content);
    }
    // Under another name it is overwritten with its own bytes.
    for (from, to) in [("/f", "/hard"), ("/hard", "/f")] {
        remote.copy(from.as_bytes(), to.as_bytes()).unwrap();
        assert!(remote.engine().transport().file("/f") == content);
    }
    for there in [bytes(5000), vec![1; 1000], Vec::new()] {
        let adversary = remote.engine().transport();
        adversary.files.insert(b"/g".to_vec(), there);
        remote.copy(b"/f", b"/g").unwrap();
        assert!(remote.engine().transport().file("/g") == content);
    }
}

#[test]
fn holes_are_asked_for_and_what_a_server_says_of_them_is_looked_at() {
    let mut content = bytes(9_100_000);
    content[200_000..5_000_000].fill(0);
    let sparse = Options {
        sparse: true,
        ..Options::default()
    };
    for (lie, said) in [
        (Ranges::Honest, None),
        (Ranges::LongHole, Some("sent more than requested")),
        (Ranges::OddHole, Some("malformed answer")),
        (Ranges::LongData, Some("sent more than requested")),
        (Ranges::Short, Some("file changed while it was copied")),
        (Ranges::Grown, Some("has more")),
        (Ranges::Failing, Some("Failure")),
    ] {
        let place = Place::new("ranges");
        let nature = Nature {
            ranges: Some(lie),
            piece: 70_001,
            ..Nature::default()
        };
        let adversary = Adversary::with(nature, "/f", &content);
        let target = place.join("x");
        let (result, heard, mut engine) = get(adversary, "/f", &target, sparse.clone());
        result.unwrap();
        let there = fs::read(&target).unwrap();
        let asked = &engine.transport().log;
        assert!(asked.contains(&"RANGE /f".to_owned()), "{asked:?}");
        assert_eq!(engine.transport().open_handles(), 0);
        match said {
            None => {
                assert!(heard.errors.is_empty(), "{:?}", heard.errors);
                assert!(there == content);
                use std::os::unix::fs::MetadataExt;
                let allocated = fs::metadata(&target).unwrap().blocks() * 512;
                assert!(allocated < 6_000_000, "{allocated}");
            }
            Some(said) => {
                assert!(heard.errors[0].contains(said), "{:?}", heard.errors);
                assert_eq!((heard.good, heard.errors.len()), (0, 1));
                assert!(there.len() < content.len() || lie == Ranges::Grown);
                assert!(content.starts_with(&there));
            }
        }
    }
}
