//! Copies with a server in memory that lies, fails or answers in odd pieces.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use sftp::attributes::{Attributes, mode};
use sftp::frame::{Piece, Side, Splitter};
use sftp::message::reply::{Handle, NameEntry, Names, Status, data_head, encode_attrs};
use sftp::message::{Request, Version, open_flag, request};
use sftp::{Code, message};
use transfer::engine::{Engine, EngineError, Exchange, Transport};
use transfer::get::{Get, Item as GetItem};
use transfer::options::{Options, Resume};
use transfer::put::{Item as PutItem, Put};
use transfer::report::{FileResult, Report};

/// What the server is like.
#[derive(Default, Clone)]
struct Nature {
    /// Names in every directory.
    names: Vec<Vec<u8>>,
    /// Each id is answered with one more than it was.
    wrong_ids: bool,
    /// DATA are longer than was asked for.
    too_long: bool,
    /// DATA are empty.
    empty: bool,
    /// READs bring at most so much.
    short: usize,
    /// This WRITE, counted from 0, fails; those behind it do not.
    failing_write: Option<usize>,
    /// The stream ends behind so many answers.
    answers: Option<usize>,
    /// Files are said to be this large.
    size: Option<u64>,
    /// What comes is fed in pieces of this size.
    piece: usize,
}

/// A server in memory: its files by path.
struct Liar {
    nature: Nature,
    requests: Splitter,
    partial: Option<(u32, Bytes, u64, Vec<u8>)>,
    files: HashMap<Vec<u8>, Vec<u8>>,
    handles: HashMap<Vec<u8>, Vec<u8>>,
    listed: Vec<Vec<u8>>,
    writes: usize,
    answered: usize,
    out: Vec<u8>,
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

impl Liar {
    fn new(nature: Nature) -> Self {
        Self {
            nature,
            requests: Splitter::new(Side::Server),
            partial: None,
            files: HashMap::new(),
            handles: HashMap::new(),
            listed: Vec::new(),
            writes: 0,
            answered: 0,
            out: Vec::new(),
        }
    }

    fn status(&mut self, id: u32, code: Code) {
        Status { code, message: b"" }.encode_into(id, &mut self.out);
    }

    fn attributes(&self, path: &[u8]) -> Option<Attributes> {
        if path == b"/dir" {
            return Some(Attributes::with_permissions(mode::DIRECTORY | 0o755));
        }
        let file = self.files.get(path)?;
        Some(Attributes {
            size: Some(
                self.nature
                    .size
                    .unwrap_or(u64::try_from(file.len()).unwrap()),
            ),
            ..Attributes::with_permissions(mode::REGULAR | 0o644)
        })
    }

    fn write(&mut self, id: u32, handle: &[u8], offset: u64, data: &[u8]) {
        self.writes += 1;
        if self.nature.failing_write == Some(self.writes - 1) {
            return self.status(id, Code::FAILURE);
        }
        let path = self.handles.get(handle).cloned().unwrap();
        let file = self.files.entry(path).or_default();
        let begin = usize::try_from(offset).unwrap();
        if file.len() < begin + data.len() {
            file.resize(begin + data.len(), 0);
        }
        file[begin..begin + data.len()].copy_from_slice(data);
        self.status(id, Code::OK);
    }

    fn answer(&mut self, message: &[u8]) {
        if message[0] == message::number::INIT {
            Version::encode(3, [], &mut self.out);
            return;
        }
        let (id, asked) = Request::decode(message).unwrap();
        let id = if self.nature.wrong_ids { id + 1 } else { id };
        match asked {
            Request::Open(request::Open { path, flags, .. }) => {
                if flags & open_flag::CREATE != 0 {
                    let file = self.files.entry(path.to_vec()).or_default();
                    if flags & open_flag::TRUNCATE != 0 {
                        file.clear();
                    }
                } else if !self.files.contains_key(path) {
                    return self.status(id, Code::NO_SUCH_FILE);
                }
                self.handles.insert(path.to_vec(), path.to_vec());
                Handle { handle: path }.encode_into(id, &mut self.out);
            }
            Request::Opendir(request::Opendir { path }) => {
                Handle { handle: path }.encode_into(id, &mut self.out);
            }
            Request::Readdir(request::Readdir { handle }) => {
                if self.listed.iter().any(|listed| listed == handle) {
                    return self.status(id, Code::EOF);
                }
                self.listed.push(handle.to_vec());
                let mut encoded = Vec::new();
                for name in &self.nature.names {
                    NameEntry {
                        name,
                        long_name: b"",
                        attributes: Attributes {
                            size: Some(5),
                            ..Attributes::with_permissions(mode::REGULAR | 0o644)
                        },
                    }
                    .encode_into(&mut encoded);
                }
                let count = u32::try_from(self.nature.names.len()).unwrap();
                Names::encode_into(id, count, &encoded, &mut self.out);
            }
            Request::Read(request::Read {
                handle,
                offset,
                len,
            }) => {
                let hello = b"hello".to_vec();
                let file = self.files.get(handle).unwrap_or(&hello);
                let begin = usize::try_from(offset).unwrap().min(file.len());
                let mut data = file[begin..].to_vec();
                data.truncate(usize::try_from(len).unwrap());
                if self.nature.short > 0 {
                    data.truncate(self.nature.short);
                }
                if self.nature.too_long {
                    data = vec![1; usize::try_from(len).unwrap() + 1];
                }
                if data.is_empty() && !self.nature.empty {
                    return self.status(id, Code::EOF);
                }
                if self.nature.empty {
                    data.clear();
                }
                let head = data_head(id, u32::try_from(data.len()).unwrap());
                self.out.extend_from_slice(&head);
                self.out.extend_from_slice(&data);
            }
            Request::Stat(request::Stat { path }) | Request::Lstat(request::Lstat { path }) => {
                match self.attributes(path) {
                    Some(attributes) => encode_attrs(id, &attributes, &mut self.out),
                    None => self.status(id, Code::NO_SUCH_FILE),
                }
            }
            Request::Fstat(request::Fstat { handle }) => {
                let attributes = self.attributes(handle).unwrap();
                encode_attrs(id, &attributes, &mut self.out);
            }
            Request::Fsetstat(request::Fsetstat { handle, attributes }) => {
                if let Some(size) = attributes.size {
                    let file = self.files.get_mut(handle).unwrap();
                    file.resize(usize::try_from(size).unwrap(), 0);
                }
                self.status(id, Code::OK);
            }
            Request::Close(_) => self.status(id, Code::OK),
            _ => self.status(id, Code::OP_UNSUPPORTED),
        }
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Message(message) => self.answer(&message),
            Piece::Write {
                id, handle, offset, ..
            } => self.partial = Some((id, handle, offset, Vec::new())),
            Piece::Payload { bytes, left } => {
                let (id, handle, offset, mut data) = self.partial.take().unwrap();
                data.extend_from_slice(&bytes);
                match left {
                    0 => self.write(id, &handle, offset, &data),
                    _ => self.partial = Some((id, handle, offset, data)),
                }
            }
            Piece::Data { .. } => panic!("a client sends no DATA"),
        }
    }
}

impl Transport for Liar {
    fn links(&self) -> usize {
        1
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        let mut room = vec![0; 100_000];
        let count = exchange.fill(0, &mut room);
        room.truncate(count);
        self.requests.push(Bytes::from(room));
        while let Some(piece) = self.requests.next_piece().unwrap() {
            self.take(piece);
            self.answered += 1;
            if self.nature.answers.is_some_and(|most| self.answered > most) {
                return Err(EngineError::Closed);
            }
        }
        let out = std::mem::take(&mut self.out);
        let step = if self.nature.piece == 0 {
            1 << 20
        } else {
            self.nature.piece
        };
        for piece in out.chunks(step) {
            exchange.feed(0, Bytes::copy_from_slice(piece))?;
        }
        Ok(count > 0 || !out.is_empty())
    }
}

#[derive(Default)]
struct Heard {
    errors: Vec<String>,
    good: usize,
}

impl Report for Heard {
    fn ends(&mut self, result: &FileResult) {
        match &result.error {
            Some(error) => self.errors.push(error.clone()),
            None => self.good += 1,
        }
    }
    fn fails(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }
    fn says(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }
}

fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("fulmar-lying-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("in")).unwrap();
    path.join("in")
}

fn get(
    liar: Liar,
    from: &str,
    to: &Path,
    options: Options,
) -> (Result<(), EngineError>, Heard, Engine<Liar>) {
    let mut heard = Heard::default();
    let mut engine = Engine::new(liar);
    let item = GetItem {
        from: from.as_bytes().to_vec(),
        to: to.to_path_buf(),
        attributes: None,
    };
    let mut work = Get::new(options, vec![item], 1, &mut heard);
    let result = engine.run(&mut work);
    (result, heard, engine)
}

fn put(nature: Nature, from: &Path) -> (Result<(), EngineError>, Heard, Engine<Liar>) {
    let mut heard = Heard::default();
    let mut engine = Engine::new(Liar::new(nature));
    let item = PutItem {
        from: from.to_path_buf(),
        to: b"/target".to_vec(),
        fresh: false,
    };
    let mut work = Put::new(Options::default(), vec![item], 1, &mut heard);
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
    let place = place("names");
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
    let mut liar = Liar::new(nature);
    liar.files.insert(b"/dir/good".to_vec(), b"hello".to_vec());
    liar.files
        .insert(b"/dir/\x1b[2J".to_vec(), b"hello".to_vec());
    let (result, heard, _) = get(liar, "/dir", &place.join("x"), recursive());
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
        let place = place("broken");
        let mut liar = Liar::new(nature);
        liar.files.insert(b"/f".to_vec(), bytes(100_000));
        let (result, heard, _) = get(liar, "/f", &place.join("x"), Options::default());
        assert!(matches!(result, Err(EngineError::Broken(_))), "{result:?}");
        assert_eq!(heard.good, 0);
    }
}

#[test]
fn reads_that_come_short_and_in_odd_pieces_are_completed() {
    for (short, piece) in [(1000, 0), (0, 1), (0, 7), (20_000, 333)] {
        let place = place("short");
        let mut liar = Liar::new(Nature {
            short,
            piece,
            ..Nature::default()
        });
        liar.files.insert(b"/f".to_vec(), bytes(100_000));
        liar.files.insert(b"/empty".to_vec(), Vec::new());
        let (result, heard, _) = get(liar, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?}", heard.errors);
        assert_eq!(fs::read(place.join("x")).unwrap(), bytes(100_000));
    }
}

#[test]
fn a_connection_that_ends_anywhere_leaves_a_prefix_and_says_so() {
    let content = bytes(300_000);
    for answers in 0..13 {
        let place = place("cut");
        let mut liar = Liar::new(Nature {
            answers: Some(answers),
            ..Nature::default()
        });
        liar.files.insert(b"/f".to_vec(), content.clone());
        let (result, heard, _) = get(liar, "/f", &place.join("x"), Options::default());
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
    let place = place("full");
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
        let there = &engine.transport().files[b"/target".as_slice()];
        assert_eq!(there.len(), failing * 32 * 1024);
        assert!(content.starts_with(there));
    }
    let (result, heard, mut engine) = put(Nature::default(), &place.join("f"));
    result.unwrap();
    assert_eq!(heard.good, 1);
    assert!(engine.transport().files[b"/target".as_slice()] == content);
}

#[test]
fn a_part_is_gone_on_with_only_if_it_is_one() {
    let place = place("part");
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
        let mut liar = Liar::new(Nature::default());
        liar.files.insert(b"/f".to_vec(), content.clone());
        let (result, heard, _) = get(liar, "/f", &place.join("x"), options.clone());
        result.unwrap();
        assert!(heard.errors.is_empty(), "{:?} {moved_all}", heard.errors);
        assert!(fs::read(place.join("x")).unwrap() == content);
    }
}

#[test]
fn what_is_there_and_longer_is_cut() {
    let place = place("longer");
    fs::write(place.join("x"), bytes(50_000)).unwrap();
    let mut liar = Liar::new(Nature::default());
    liar.files.insert(b"/f".to_vec(), bytes(300));
    let (result, ..) = get(liar, "/f", &place.join("x"), Options::default());
    result.unwrap();
    assert_eq!(fs::read(place.join("x")).unwrap(), bytes(300));
}

#[test]
fn a_part_of_what_is_empty_now_is_left_alone() {
    let place = place("emptied");
    fs::write(place.join("x"), b"part").unwrap();
    let mut liar = Liar::new(Nature::default());
    liar.files.insert(b"/f".to_vec(), Vec::new());
    let options = Options {
        resume: Resume::BySize,
        ..Options::default()
    };
    let (result, heard, _) = get(liar, "/f", &place.join("x"), options);
    result.unwrap();
    assert!(heard.errors[0].contains("larger than remote"));
    assert_eq!(fs::read(place.join("x")).unwrap(), b"part");
}

#[test]
fn a_size_that_no_file_has_is_refused() {
    let place = place("size");
    for size in [u64::MAX, 1 << 63] {
        let mut liar = Liar::new(Nature {
            size: Some(size),
            ..Nature::default()
        });
        liar.files.insert(b"/f".to_vec(), bytes(300));
        let (result, heard, _) = get(liar, "/f", &place.join("x"), Options::default());
        result.unwrap();
        assert!(heard.errors[0].contains("\"/f\""), "{:?}", heard.errors);
        assert!(!place.join("x").exists());
    }
}

#[test]
fn of_files_with_one_target_the_last_is_there_whole() {
    let place = place("one");
    let mut liar = Liar::new(Nature {
        short: 1000,
        ..Nature::default()
    });
    let (mut gets, mut puts) = (Vec::new(), Vec::new());
    for (at, len) in [200_000, 100_000, 150_000].into_iter().enumerate() {
        let content = vec![u8::try_from(at).unwrap() + 1; len];
        let from = place.join(format!("f{at}"));
        fs::write(&from, &content).unwrap();
        liar.files.insert(format!("/f{at}").into_bytes(), content);
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
    let mut engine = Engine::new(liar);
    let mut work = Get::new(Options::default(), gets, 1, &mut heard);
    engine.run(&mut work).unwrap();
    assert_eq!(heard.good, 3, "{:?}", heard.errors);
    assert!(fs::read(place.join("x")).unwrap() == vec![3; 150_000]);

    let mut heard = Heard::default();
    let mut engine = Engine::new(Liar::new(Nature::default()));
    let mut work = Put::new(Options::default(), puts, 1, &mut heard);
    engine.run(&mut work).unwrap();
    assert_eq!(heard.good, 3, "{:?}", heard.errors);
    let there = engine.transport().files.get(b"/target".as_slice()).unwrap();
    assert!(*there == vec![3; 150_000]);
}
