//! A copy ends, whatever exists at the target and in whatever order the answers arrive.
//!
//! Fulmar's server is reached through connections that accept random amounts of data and deliver
//! its answers in every order that the protocol permits. It appears as one of three servers:
//! itself, OpenSSH, and one that knows only version 3. A copy that waits for nothing is an error of
//! the engine; a file that is reported as successful holds its source's bytes.

mod adversary;
mod served;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use sftp::extension::Limits;
use sftp::message::Version;
use sftp::message::reply::{Status, encode_extended};
use sftp::server::Permits;
use sftp::server::{Serve, Work};
use sftp::{Code, message};
use transfer::engine::{Engine, EngineError, Exchange, Transport};
use transfer::get::{Get, Item as GetItem};
use transfer::options::{Options, Resume};
use transfer::put::{Item as PutItem, Put};
use transfer::report::{FileResult, Report};

use adversary::Place;
use served::{Plain, Silent};

/// Maximum number of turns, many times what any copy here takes.
const MAX_TURNS: usize = 1_000_000;
const CASES: u64 = 60;
const MIB: u64 = 1 << 20;

/// xorshift64*: small, and the same everywhere.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }
}

/// The server as it appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    Fulmar,
    OpenSsh,
    Bare,
}

struct Wire {
    serve: Serve,
    came: Vec<u8>,
    /// Undelivered answers, with their ids; VERSION has none.
    answers: VecDeque<(Option<u32>, Vec<u8>)>,
}

struct Far {
    face: Face,
    chance: Chance,
    wires: Vec<Wire>,
    limits: Limits,
    /// One of this number of answers is replaced by a failure; 0 for none.
    fails: usize,
    reads_on: bool,
    turns: usize,
    /// The connections end after this number of answers.
    ends_behind: usize,
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

impl Far {
    /// Returns an answer as the client sees it: a whole message after its length.
    fn shown(&mut self, answer: &[u8]) -> (Option<u32>, Vec<u8>) {
        let mut out = Vec::new();
        let body = &answer[4..];
        if body[0] == message::number::VERSION {
            let version = Version::decode(body).unwrap();
            let extensions = version
                .extensions
                .iter()
                .filter(|(name, _)| match self.face {
                    Face::Fulmar => true,
                    Face::OpenSsh => name.ends_with(b"@openssh.com"),
                    Face::Bare => false,
                });
            let extensions: Vec<_> = extensions
                .map(|(name, data)| (str::from_utf8(name).unwrap(), str::from_utf8(data).unwrap()))
                .collect();
            Version::encode(3, extensions.iter().copied(), &mut out);
            return (None, out);
        }
        let id = number(&body[1..]);
        let is_limits = body[0] == message::number::EXTENDED_REPLY && body.len() == 5 + 32;
        if is_limits {
            let limits = self.limits;
            encode_extended(id, &mut out, |fields| limits.write(fields));
            return (Some(id), out);
        }
        let is_ok = body[0] == message::number::STATUS && number(&body[5..]) == 0;
        if is_ok && self.fails > 0 && self.chance.one_in(self.fails) {
            let code = Code::FAILURE;
            Status {
                code,
                message: code.text().as_bytes(),
            }
            .encode_into(id, &mut out);
            return (Some(id), out);
        }
        (Some(id), answer.to_vec())
    }

    fn serve(&mut self, link: usize, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        let room = self.chance.of(&[0, 100, 5_000, 32_768, 1 << 20]);
        let mut room = vec![0; room];
        let sent = exchange.fill(link, &mut room);
        let mut moved = room.is_empty() || sent > 0;
        room.truncate(sent);
        let wire = &mut self.wires[link];
        wire.serve.receive(Bytes::from(room));
        loop {
            let work = wire.serve.work(&mut Plain).unwrap();
            let before = wire.came.len();
            while let Some(buf) = wire.serve.outbox().next(usize::MAX, &mut Plain) {
                wire.came.extend_from_slice(buf.payload());
            }
            if work == Work::Waiting && wire.came.len() == before {
                break;
            }
        }
        let mut came = std::mem::take(&mut self.wires[link].came);
        let mut at = 0;
        while came.len() >= at + 4 {
            let end = at + 4 + number(&came[at..]) as usize;
            if came.len() < end {
                break;
            }
            let shown = self.shown(&came[at..end]);
            self.wires[link].answers.push_back(shown);
            at = end;
        }
        came.drain(..at);
        self.wires[link].came = came;
        let waiting = self.wires[link].answers.len();
        for _ in 0..self.chance.below(waiting + 1) {
            self.ends_behind = match self.ends_behind.checked_sub(1) {
                Some(left) => left,
                None => return Err(EngineError::Closed),
            };
            let answers = &mut self.wires[link].answers;
            let any = self.chance.below(answers.len());
            // The answers to one request arrive in order, and VERSION before all others.
            let id = match answers[0].0 {
                None => None,
                Some(_) => answers[any].0,
            };
            let first = answers.iter().position(|(each, _)| *each == id).unwrap();
            let (_, answer) = answers.remove(first).unwrap();
            let cut = self.chance.below(answer.len());
            exchange.feed(link, Bytes::copy_from_slice(&answer[..cut]))?;
            exchange.feed(link, Bytes::copy_from_slice(&answer[cut..]))?;
        }
        moved |= waiting > 0;
        Ok(moved)
    }
}

impl Transport for Far {
    fn links(&self) -> usize {
        self.wires.len()
    }

    fn reads_on(&self, _link: usize) -> bool {
        self.reads_on
    }

    fn is_fulmar(&self, _link: usize) -> bool {
        self.face == Face::Fulmar
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        self.turns += 1;
        assert!(self.turns < MAX_TURNS, "the copy does not come to an end");
        let mut moved = false;
        for link in 0..self.wires.len() {
            moved |= self.serve(link, exchange)?;
        }
        Ok(moved)
    }
}

#[derive(Default)]
struct Heard {
    good: Vec<FileResult>,
    errors: Vec<String>,
}

impl Report for Heard {
    fn ends(&mut self, result: &FileResult) {
        match &result.error {
            Some(error) => self.errors.push(error.clone()),
            None => self.good.push(result.clone()),
        }
    }

    fn fails(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }

    fn says(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }
}

/// A file of mostly holes, whose data depends on its offset.
fn make(path: &Path, len: u64, chance: &mut Chance) {
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    let mark = chance.below(usize::MAX >> 33) as u64;
    let marks = (0..len / MIB).map(|mib| mib * MIB + mark % MIB);
    for at in marks.chain([0, len.saturating_sub(8)]) {
        let text = (mark ^ at).to_be_bytes();
        let left = usize::try_from(len - at).unwrap();
        file.write_all_at(&text[..left.min(8)], at).unwrap();
    }
}

/// State of the target before the copy.
fn make_part(from: &Path, to: &Path, chance: &mut Chance) {
    let len = fs::metadata(from).unwrap().len();
    let there = match chance.below(8) {
        0..=3 => len,
        4 => len / 2,
        5 => len.saturating_sub(1000),
        6 => len + 5,
        _ => return,
    };
    let made = std::process::Command::new("cp")
        .arg("--sparse=always")
        .args([from, to])
        .status();
    assert!(made.unwrap().success());
    let file = File::options().write(true).open(to).unwrap();
    file.set_len(there).unwrap();
    if chance.one_in(4) && there > 0 {
        file.write_all_at(
            b"other bytes"[..there.min(11) as usize].as_ref(),
            there - there.min(11),
        )
        .unwrap();
    }
}

/// The pairs of files to copy.
fn make_files(place: &Path, tree: bool, chance: &mut Chance) -> Vec<(PathBuf, PathBuf)> {
    fs::create_dir_all(place.join("from/below")).unwrap();
    fs::create_dir_all(place.join("to/below")).unwrap();
    let mut left = 120 * MIB;
    let count = 1 + chance.below(7);
    let files = (0..count).map(|number| {
        let len = chance.of(&[
            0,
            1,
            1000,
            65_536,
            65_537,
            MIB,
            5 * MIB,
            17 * MIB,
            33 * MIB,
            33 * MIB,
            40 * MIB,
        ]);
        let len = len.min(left);
        left -= len;
        let name = match tree && chance.one_in(3) {
            true => format!("below/{number}"),
            false => format!("{number}"),
        };
        let (from, to) = (place.join("from").join(&name), place.join("to").join(&name));
        make(&from, len, chance);
        make_part(&from, &to, chance);
        (from, to)
    });
    files.collect()
}

fn is_equal(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

/// Copies each file or tree to its counterpart.
fn run(
    far: Far,
    put: bool,
    wanted: &[(PathBuf, PathBuf)],
    options: &Options,
) -> (Result<(), EngineError>, Heard) {
    let links = far.wires.len();
    let mut heard = Heard::default();
    let mut engine = Engine::new(far);
    let result = if put {
        let items = wanted.iter().map(|(from, to)| PutItem {
            from: from.clone(),
            to: to.as_os_str().as_bytes().to_vec(),
            fresh: false,
        });
        let mut work = Put::new(options.clone(), items.collect(), links, &mut heard);
        engine.run(&mut work)
    } else {
        let items = wanted.iter().map(|(from, to)| GetItem {
            from: from.as_os_str().as_bytes().to_vec(),
            to: to.clone(),
            attributes: None,
        });
        let mut work = Get::new(options.clone(), items.collect(), links, &mut heard);
        engine.run(&mut work)
    };
    (result, heard)
}

fn wires(count: usize) -> Vec<Wire> {
    let everywhere = || sys::fs::PathRoot::everywhere(b"/").unwrap();
    let wires = (0..count).map(|_| Wire {
        serve: Serve::new(everywhere(), Permits::everything(), 500, Box::new(Silent)),
        came: Vec::new(),
        answers: VecDeque::new(),
    });
    wires.collect()
}

fn copy(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for _ in 0..8 {
        chance.below(2);
    }
    let place = Place::new(&format!("liveness-{seed}"));
    let tree = chance.one_in(2);
    let links = chance.of(&[1, 1, 1, 1, 2, 3]);
    let options = Options {
        recursive: true,
        preserve: chance.one_in(2),
        resume: chance.of(&[
            Resume::Never,
            Resume::BySize,
            Resume::Proven,
            Resume::Proven,
            Resume::Proven,
        ]),
        sync: chance.one_in(4),
        sparse: chance.one_in(4),
        atomic: chance.one_in(6),
        ..Options::default()
    };
    let files = make_files(&place, tree, &mut chance);
    let face = chance.of(&[Face::Fulmar, Face::OpenSsh, Face::OpenSsh, Face::Bare]);
    let far = Far {
        face,
        wires: wires(links),
        limits: Limits {
            max_message_bytes: 256 << 10,
            max_read_bytes: chance.of(&[0, 32 << 10, 255 << 10]),
            max_write_bytes: chance.of(&[0, 32 << 10, 255 << 10]),
            max_handles: chance.of(&[0, 1, 18, 20, 100]),
        },
        fails: chance.of(&[0, 0, 0, 10, 100]),
        reads_on: chance.one_in(3),
        turns: 0,
        ends_behind: usize::MAX,
        chance: chance.clone(),
    };
    let fails = far.fails;
    let put = !chance.one_in(3);
    let what =
        format!("{seed}: put {put}, tree {tree}, {face:?}, {links} connections, {options:?}");
    let mut wanted: Vec<(PathBuf, PathBuf)> = match tree {
        true => vec![(place.join("from"), place.join("to"))],
        false => files.clone(),
    };
    if !tree && chance.one_in(4) {
        wanted.extend(wanted.first().cloned());
    }
    let (result, heard) = run(far, put, &wanted, &options);
    assert!(result.is_ok(), "{what}: {result:?}, {:?}", heard.errors);
    if options.resume == Resume::BySize {
        return;
    }
    assert!(
        fails > 0 || heard.errors.is_empty(),
        "{what}: {:?}",
        heard.errors
    );
    for result in &heard.good {
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        let (from, to) = (path(&result.from), path(&result.to));
        assert!(is_equal(&from, &to), "{what}: {}", to.display());
    }
    let all = files.len() + wanted.len() - if tree { 1 } else { files.len() };
    assert!(fails > 0 || heard.good.len() == all, "{what}");
}

#[test]
fn a_copy_never_waits_for_nothing() {
    for seed in 1..=CASES {
        copy(seed);
    }
}

/// A complete file may be reported as successful; the report then names what is missing: the tree,
/// or another file.
#[test]
fn a_lost_connection_names_what_it_leaves_undone() {
    let options = Options {
        recursive: true,
        preserve: true,
        ..Options::default()
    };
    let ways = [Face::Fulmar, Face::Bare].map(|face| [(face, true), (face, false)]);
    for (number, (face, put)) in ways.into_iter().flatten().enumerate() {
        for tree in [true, false] {
            let place = Place::new(&format!("lost-{number}-{tree}"));
            for name in ["from/a", "from/b"] {
                fs::create_dir_all(place.join("from")).unwrap();
                fs::write(place.join(name), "small").unwrap();
            }
            let pair = |name: &str| (place.join("from").join(name), place.join("to").join(name));
            let wanted = match tree {
                true => vec![(place.join("from"), place.join("to"))],
                false => vec![pair("a"), pair("b")],
            };
            for ends_behind in 0.. {
                let _ = fs::remove_dir_all(place.join("to"));
                if !tree {
                    fs::create_dir(place.join("to")).unwrap();
                }
                let far = Far {
                    face,
                    chance: Chance(3),
                    wires: wires(1),
                    limits: Limits {
                        max_message_bytes: 0,
                        max_read_bytes: 0,
                        max_write_bytes: 0,
                        max_handles: 0,
                    },
                    fails: 0,
                    reads_on: false,
                    turns: 0,
                    ends_behind,
                };
                let (result, heard) = run(far, put, &wanted, &options);
                let what = format!("{face:?}, put {put}, tree {tree}, behind {ends_behind}");
                if result.is_ok() {
                    assert!(heard.errors.is_empty() && heard.good.len() == 2, "{what}");
                    break;
                }
                let mut named = heard.errors.iter();
                let each = heard.good.len() + heard.errors.len() >= 2;
                assert!(named.any(|line| line.contains("remote \"/")), "{what}");
                assert!(tree || each, "{what}: {:?}", heard.errors);
            }
        }
    }
}
