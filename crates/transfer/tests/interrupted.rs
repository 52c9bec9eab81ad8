//! State after an interrupt: the connection is usable, the target is a prefix or unchanged. The
//! test is alone in its process, since a signal affects the whole process.

mod adversary;

use std::fs;

use transfer::engine::Engine;
use transfer::get::{DownloadSource, Get, Item as GetItem};
use transfer::options::{Options, Resume};
use transfer::put::{Item as PutItem, Put};
use transfer::remote::Remote;

use adversary::{Adversary, Heard, Nature, Opens, Place, bytes};

#[test]
fn an_interrupt_ends_the_work_and_not_the_connection() {
    sys::signals::count_interrupts().unwrap();
    let content = bytes(400_000);
    let cases = [
        (Resume::Never, 1, 0),
        (Resume::Never, 2, 0),
        // The second connection is not open yet.
        (Resume::Never, 2, usize::MAX),
        (Resume::BySize, 1, 0),
        (Resume::Proven, 1, 0),
    ];
    for at in 1..30 {
        gets_ahead(at, &content);
    }
    for at in 1..6 {
        gets_small(at);
    }
    for (resume, links, others_from) in cases {
        for at in 1..30 {
            let nature = Nature {
                interrupt: Some(at),
                links,
                others_from,
                ..Nature::default()
            };
            let options = Options {
                recursive: true,
                resume,
                ..Options::default()
            };
            let what = format!("{resume:?}, {links} connections, behind {at} requests");
            gets(&what, nature.clone(), &options, &content);
            puts(&what, nature, &options, &content);
        }
    }
}

/// At any time: before the file is open, during the transfer, and when all data has arrived.
fn gets_ahead(at: usize, content: &[u8]) {
    sys::signals::forget_interrupts();
    let what = format!("asked ahead, behind {at} requests and parts");
    let place = Place::new("interrupted-ahead");
    let nature = Nature {
        opens: Some(Opens::Honest),
        interrupt: Some(at),
        ..Nature::default()
    };
    let mut engine = Engine::new(Adversary::with(nature, "/f", content));
    let mut source = DownloadSource::new(b"/f", &Options::default(), 1).unwrap();
    engine.run(&mut source).expect(&what);
    let found = source.found();
    let items = found.into_iter().map(|found| GetItem {
        from: found.path,
        to: place.join("x"),
        attributes: found.attributes,
    });
    let items: Vec<GetItem> = items.collect();
    let wanted = !items.is_empty();
    let mut heard = Heard::default();
    let mut work = Get::new(Options::default(), items, 1, &mut heard).with_source(source);
    engine.run(&mut work).expect(&what);
    let failed = work.failures() > 0;
    let was_interrupted = sys::signals::interrupts() > 0;
    let adversary = goes_on(&what, engine);
    let there = fs::read(place.join("x")).unwrap_or_default();
    assert!(content.starts_with(&there), "{what}");
    assert!(failed || !wanted || there.len() == content.len(), "{what}");
    assert!(was_interrupted || wanted && !failed, "{what}");
    drop(adversary);
}

/// A small file is requested whole. The answer has no content, because the file has grown: after an
/// interrupt it is not opened.
fn gets_small(at: usize) {
    sys::signals::forget_interrupts();
    let what = format!("small, behind {at} requests");
    let place = Place::new("interrupted-small");
    let nature = Nature {
        tree: Some(Vec::new()),
        interrupt: Some(at),
        ..Nature::default()
    };
    let adversary = Adversary::with(nature, "/f", b"hello");
    let item = GetItem {
        from: b"/f".to_vec(),
        to: place.join("x"),
        attributes: adversary.attributes(b"/f"),
    };
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let mut work = Get::new(Options::default(), vec![item], 1, &mut heard);
    engine.run(&mut work).expect(&what);
    let failed = work.failures() > 0;
    let adversary = goes_on(&what, engine);
    // The requests are INIT, WALK, OPEN, READ and CLOSE.
    assert_eq!(failed, at <= 3, "{what}");
    assert_eq!(adversary.log.is_empty(), at <= 2, "{what}");
    assert_eq!(place.join("x").exists(), at > 2, "{what}");
}

/// The connection is usable for the next work, and nothing is left open.
fn goes_on(what: &str, engine: Engine<Adversary>) -> Adversary {
    sys::signals::forget_interrupts();
    let mut remote = Remote::with(engine);
    remote.realpath(b"/f").expect(what);
    let adversary = std::mem::replace(
        remote.engine().transport(),
        Adversary::new(Nature::default()),
    );
    assert_eq!(adversary.open_handles(), 0, "{what}");
    adversary
}

fn gets(what: &str, nature: Nature, options: &Options, content: &[u8]) {
    let place = Place::new("interrupted-get");
    let names = (0..5).map(|number| format!("f{number}").into_bytes());
    let mut adversary = Adversary::new(Nature {
        names: names.clone().collect(),
        ..nature.clone()
    });
    for name in names {
        let path = [b"/dir/", name.as_slice()].concat();
        adversary.files.insert(path, b"hello".to_vec());
    }
    adversary.files.insert(b"/f".to_vec(), content.to_vec());
    fs::write(place.join("x"), &content[..50_000]).unwrap();
    let items = [("/f", "x"), ("/dir", "dir")].map(|(from, to)| GetItem {
        from: from.as_bytes().to_vec(),
        to: place.join(to),
        attributes: None,
    });
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let mut work = Get::new(options.clone(), items.into(), nature.links, &mut heard);
    engine.run(&mut work).expect(what);
    let failed = work.failures() > 0;
    goes_on(what, engine);
    let there = fs::read(place.join("x")).unwrap();
    assert!(content.starts_with(&there), "{what}");
    assert!(
        options.resume == Resume::Never || there.len() >= 50_000,
        "{what}"
    );
    assert!(failed || there.len() == content.len(), "{what}");
}

fn puts(what: &str, nature: Nature, options: &Options, content: &[u8]) {
    let place = Place::new("interrupted-put");
    fs::write(place.join("f"), content).unwrap();
    fs::create_dir(place.join("dir")).unwrap();
    for number in 0..5 {
        fs::write(place.join(format!("dir/f{number}")), "hello").unwrap();
    }
    let links = nature.links;
    let adversary = Adversary::with(nature, "/target", &content[..50_000]);
    let items = [("f", "/target"), ("dir", "/dir")].map(|(from, to)| PutItem {
        from: place.join(from),
        to: to.as_bytes().to_vec(),
        fresh: false,
    });
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let mut work = Put::new(options.clone(), items.into(), links, &mut heard);
    engine.run(&mut work).expect(what);
    let failed = work.failures() > 0;
    let adversary = goes_on(what, engine);
    let there = adversary.file("/target");
    assert!(content.starts_with(there), "{what}");
    assert!(
        options.resume == Resume::Never || there.len() >= 50_000,
        "{what}"
    );
    assert!(failed || there.len() == content.len(), "{what}");
}
