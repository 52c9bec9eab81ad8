//! A server in memory that lies, fails or answers in odd pieces.
#![allow(dead_code)]

use std::collections::HashMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use sftp::attributes::{Attributes, Owner, mode};
use sftp::extension::{self, Extended};
use sftp::frame::{FramePiece, ReadingSide, Splitter};
use sftp::message::reply::{
    Handle, NameEntry, Names, Status, data_head, encode_attrs, encode_extended,
};
use sftp::message::{Request, Version, open_flag, request};
use sftp::{Code, message, vendor};
use transfer::engine::{EngineError, Exchange, Transport};
use transfer::report::{FileResult, Report};

/// Turns in which any copy of a test is done, many times over.
const MAX_TURNS: usize = 100_000;

/// What the server is like.
#[derive(Default, Clone)]
pub struct Nature {
    /// Names in every directory.
    pub names: Vec<Vec<u8>>,
    /// Each id is answered with one more than it was.
    pub wrong_ids: bool,
    /// DATA are longer than was asked for.
    pub too_long: bool,
    /// DATA are empty.
    pub empty: bool,
    /// Largest number of bytes per READ.
    pub short: usize,
    /// This WRITE, counted from 0, fails; later ones succeed.
    pub failing_write: Option<usize>,
    /// The stream ends after this number of answers.
    pub answers: Option<usize>,
    /// Files are said to be this large.
    pub size: Option<u64>,
    /// Files are said to be this large the first time that it is asked.
    pub size_once: Option<u64>,
    /// Data are fed in pieces of this size.
    pub piece: usize,
    /// How many connections there are; 0 is one.
    pub links: usize,
    /// Connections move by chance, from this seed.
    pub chance: Option<u32>,
    /// A second name of a file, as by a hard link, and its first.
    pub alias: Option<(Vec<u8>, Vec<u8>)>,
    /// It can copy by itself.
    pub copies: bool,
    /// The form in which the server reports holes in ranges.
    pub ranges: Option<Ranges>,
    /// It opens and reads by one request, so.
    pub opens: Option<Opens>,
    /// This process is interrupted after this number of requests, and parts of a file that it
    /// opened and reads.
    pub interrupt: Option<usize>,
    /// The server sends trees: the fields of each answer.
    pub tree: Option<Vec<Vec<u8>>>,
    /// How it ends that; none for not at all.
    pub tree_ends: Option<Code>,
    /// Connections after the first exist from this turn on.
    pub others_from: usize,
}

/// How ranges are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ranges {
    /// As they should.
    Honest,
    /// The first hole is longer than the requested range.
    LongHole,
    /// Holes' lengths cannot be read.
    OddHole,
    /// More data come than were asked for.
    LongData,
    /// The last block is missing, and OK is said.
    Short,
    /// Another block follows where the file should end.
    Grown,
    /// FAILURE in the middle.
    Failing,
}

/// How a file that is opened and read by one request comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// As it should.
    Honest,
    /// It may not be opened.
    Refused,
    /// With an answer of another kind.
    OtherKind,
    /// With fields that cannot be read.
    OddFields,
    /// Data arrive before the attributes.
    DataFirst,
    /// The attributes arrive twice.
    ToldTwice,
    /// As a directory that can be read.
    Directory,
    /// The last byte is missing, and OK is said.
    Short,
    /// A byte follows where the file should end.
    Grown,
    /// Nothing ends it but that it is cancelled.
    Endless,
    /// FAILURE in the middle.
    Failing,
    /// FAILURE where the first byte should come.
    Unreadable,
}

/// One connection: sent data that the server has not read, and answers that it has not sent.
struct Wire {
    requests: Splitter,
    partial: Option<(u32, Bytes, u64, Vec<u8>)>,
    answers: Vec<u8>,
}

/// The server: its files by path.
pub struct Adversary {
    pub nature: Nature,
    pub files: HashMap<Vec<u8>, Vec<u8>>,
    /// The requests, in words.
    pub log: Vec<String>,
    wires: Vec<Wire>,
    /// Open handles, with the connection and the path of each.
    handles: HashMap<Vec<u8>, (usize, Vec<u8>)>,
    opened: usize,
    listed: Vec<Vec<u8>>,
    writes: usize,
    answered: usize,
    /// The connection that is served.
    link: usize,
    turns: usize,
    out: Vec<u8>,
    /// A tree without end.
    walk: Option<u32>,
    /// A file that is being sent: the request, its remaining data, the number of sent parts.
    stream: Option<(u32, Bytes, usize)>,
}

/// A pattern without a period that a block has.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

impl Adversary {
    pub fn new(nature: Nature) -> Self {
        let wires = (0..nature.links.max(1)).map(|_| Wire {
            requests: Splitter::new(ReadingSide::Server),
            partial: None,
            answers: Vec::new(),
        });
        Self {
            wires: wires.collect(),
            nature,
            files: HashMap::new(),
            log: Vec::new(),
            handles: HashMap::new(),
            opened: 0,
            listed: Vec::new(),
            writes: 0,
            answered: 0,
            link: 0,
            turns: 0,
            out: Vec::new(),
            walk: None,
            stream: None,
        }
    }

    /// One with a file.
    pub fn with(nature: Nature, path: &str, content: &[u8]) -> Self {
        let mut adversary = Self::new(nature);
        adversary
            .files
            .insert(path.as_bytes().to_vec(), content.to_vec());
        adversary
    }

    pub fn file(&self, path: &str) -> &[u8] {
        &self.files[path.as_bytes()]
    }

    /// How many files and directories are open.
    pub fn open_handles(&self) -> usize {
        self.handles.len()
    }

    fn note(&mut self, what: &str, path: &[u8], more: &str) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.log.push(format!("{what} {path}{more}"));
    }

    fn status(&mut self, id: u32, code: Code) {
        Status { code, message: b"" }.encode_into(id, &mut self.out);
    }

    /// The name under which a file's content is kept.
    fn real(&self, path: &[u8]) -> Vec<u8> {
        match &self.nature.alias {
            Some((alias, real)) if alias == path => real.clone(),
            _ => path.to_vec(),
        }
    }

    fn handle(&mut self, id: u32, path: Vec<u8>) {
        let handle = self.new_handle(path);
        Handle { handle: &handle }.encode_into(id, &mut self.out);
    }

    fn new_handle(&mut self, path: Vec<u8>) -> Vec<u8> {
        self.opened += 1;
        let handle = format!("{}-{}", self.link, self.opened).into_bytes();
        self.handles.insert(handle.clone(), (self.link, path));
        handle
    }

    fn open_read(&mut self, id: u32, path: &[u8]) {
        self.note("OPEN-READ", path, "");
        let path = self.real(path);
        let (Some(lie), Some(mut attributes)) = (self.nature.opens, self.attributes(&path)) else {
            return self.status(id, Code::NO_SUCH_FILE);
        };
        let told = |this: &mut Self, handle: &[u8], attributes| {
            encode_extended(id, &mut this.out, |out| match lie {
                Opens::OddFields => out.push(0),
                _ => vendor::OpenedFile { attributes, handle }.write(out),
            });
        };
        match lie {
            Opens::Refused => return self.status(id, Code::PERMISSION_DENIED),
            Opens::OtherKind => return encode_attrs(id, &attributes, &mut self.out),
            Opens::DataFirst => self.data(id, b"data"),
            Opens::Directory => {
                attributes = Attributes::with_permissions(mode::DIRECTORY | 0o755);
            }
            _ if !attributes.is(mode::REGULAR) => {
                told(self, b"", attributes);
                return self.status(id, Code::OK);
            }
            _ => {}
        }
        let handle = match lie {
            // Nobody could close it.
            Opens::OddFields => Vec::new(),
            _ => self.new_handle(path.clone()),
        };
        told(self, &handle, attributes);
        if lie == Opens::ToldTwice {
            told(self, &handle, attributes);
        }
        let mut content = self.files[&path].clone();
        match lie {
            Opens::Short => {
                content.pop();
            }
            Opens::Grown => content.push(7),
            _ => {}
        }
        self.stream = Some((id, content.into(), 0));
    }

    fn data(&mut self, id: u32, data: &[u8]) {
        let head = data_head(id, u32::try_from(data.len()).unwrap());
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(data);
    }

    /// Sends the next part of a file that is on its way.
    fn stream_on(&mut self) {
        let Some((id, mut left, parts)) = self.stream.take() else {
            return;
        };
        let lie = self.nature.opens;
        if lie == Some(Opens::Endless) && left.is_empty() {
            self.data(id, &[7; 30_000]);
        } else if lie == Some(Opens::Unreadable) || lie == Some(Opens::Failing) && parts == 2 {
            return self.status(id, Code::FAILURE);
        } else if left.is_empty() {
            return self.status(id, Code::OK);
        } else {
            let part = left.split_to(left.len().min(30_000));
            self.data(id, &part);
        }
        self.stream = Some((id, left, parts + 1));
    }

    /// The file of a handle, on the connection that the handle belongs to.
    fn held(&self, handle: &[u8]) -> Option<Vec<u8>> {
        let (link, path) = self.handles.get(handle)?;
        (*link == self.link).then(|| path.clone())
    }

    pub fn attributes(&self, path: &[u8]) -> Option<Attributes> {
        if path == b"/dir" {
            return Some(Attributes::with_permissions(mode::DIRECTORY | 0o755));
        }
        let file = self.files.get(path)?;
        let len = u64::try_from(file.len()).unwrap();
        Some(Attributes {
            size: Some(self.nature.size.unwrap_or(len)),
            owner: Some(Owner { uid: 7, gid: 7 }),
            ..Attributes::with_permissions(mode::REGULAR | 0o644)
        })
    }

    fn write(&mut self, id: u32, handle: &[u8], offset: u64, data: &[u8]) {
        self.writes += 1;
        let path = self.held(handle);
        self.note("WRITE", path.as_deref().unwrap_or(b"?"), "");
        let failing = self.nature.failing_write == Some(self.writes - 1);
        let Some(path) = path.filter(|_| !failing) else {
            return self.status(id, Code::FAILURE);
        };
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
            let known = [
                (extension::COPY_DATA, "1", self.nature.copies),
                (vendor::READ_RANGE, "1", self.nature.ranges.is_some()),
                (vendor::WALK, "2", self.nature.tree.is_some()),
                (vendor::OPEN_READ, "1", self.nature.opens.is_some()),
            ];
            let extensions = known.into_iter().filter(|(_, _, has)| *has);
            let extensions = extensions.map(|(name, version, _)| (name, version));
            Version::encode(3, extensions, &mut self.out);
            return;
        }
        let (id, asked) = Request::decode(message).unwrap();
        let id = if self.nature.wrong_ids { id + 1 } else { id };
        match asked {
            Request::Open(request::Open { path, flags, .. }) => self.open(id, path, flags),
            Request::Opendir(request::Opendir { path }) => {
                self.note("OPENDIR", path, "");
                self.handle(id, path.to_vec());
            }
            Request::Readdir(request::Readdir { handle }) => self.list(id, handle),
            Request::Read(request::Read {
                handle,
                offset,
                len,
            }) => self.read(id, handle, offset, len),
            Request::Stat(request::Stat { path }) | Request::Lstat(request::Lstat { path }) => {
                self.note("STAT", path, "");
                let mut attributes = self.attributes(&self.real(path));
                if let (Some(there), Some(size)) = (&mut attributes, self.nature.size_once.take()) {
                    there.size = Some(size);
                }
                match attributes {
                    Some(attributes) => encode_attrs(id, &attributes, &mut self.out),
                    None => self.status(id, Code::NO_SUCH_FILE),
                }
            }
            Request::Fstat(request::Fstat { handle }) => match self.held(handle) {
                Some(path) => {
                    let attributes = self.attributes(&path).unwrap();
                    encode_attrs(id, &attributes, &mut self.out);
                }
                None => self.status(id, Code::FAILURE),
            },
            Request::Fsetstat(request::Fsetstat { handle, attributes }) => {
                let Some(path) = self.held(handle) else {
                    return self.status(id, Code::FAILURE);
                };
                if let Some(size) = attributes.size {
                    self.note("CUT", &path, &format!(" {size}"));
                    let file = self.files.get_mut(&path).unwrap();
                    file.resize(usize::try_from(size).unwrap(), 0);
                }
                self.status(id, Code::OK);
            }
            Request::Realpath(request::Realpath { path }) => {
                Names::encode_path_into(id, path, &mut self.out);
            }
            Request::Remove(request::Remove { path }) => {
                self.note("REMOVE", path, "");
                match self.files.remove(path) {
                    Some(_) => self.status(id, Code::OK),
                    None => self.status(id, Code::NO_SUCH_FILE),
                }
            }
            Request::Rename(request::Rename { old, new }) => {
                self.note("RENAME", old, "");
                match self.files.remove(old) {
                    Some(content) => {
                        self.files.insert(new.to_vec(), content);
                        self.status(id, Code::OK);
                    }
                    None => self.status(id, Code::NO_SUCH_FILE),
                }
            }
            Request::Extended(Extended::CopyData(copy)) => {
                match (self.held(copy.from), self.held(copy.to)) {
                    (Some(from), Some(to)) => {
                        let content = self.files[&from].clone();
                        let target = self.files.get_mut(&to).unwrap();
                        let len = target.len().max(content.len());
                        target.resize(len, 0);
                        target[..content.len()].copy_from_slice(&content);
                        self.status(id, Code::OK);
                    }
                    _ => self.status(id, Code::FAILURE),
                }
            }
            Request::Extended(Extended::ReadRange(range)) => self.range(id, &range),
            Request::Extended(Extended::OpenRead(asked)) => self.open_read(id, asked.path),
            Request::Extended(Extended::Walk(walk))
                if walk.flags & vendor::walk_flag::FILE != 0 =>
            {
                self.status(id, Code::OP_UNSUPPORTED);
            }
            Request::Extended(Extended::Walk(walk)) => {
                self.note("WALK", walk.path, "");
                for fields in self.nature.tree.iter().flatten() {
                    encode_extended(id, &mut self.out, |out| out.extend_from_slice(fields));
                }
                match self.nature.tree_ends {
                    Some(code) => self.status(id, code),
                    None => self.walk = Some(id),
                }
            }
            Request::Extended(Extended::WalkOn(_)) => self.status(id, Code::OK),
            Request::Extended(Extended::Cancel(_)) => {
                self.note("CANCEL", b"", "");
                if let Some(walk) = self.walk.take() {
                    self.status(walk, Code::FAILURE);
                }
                if let Some((stream, ..)) = self.stream.take() {
                    self.status(stream, Code::FAILURE);
                }
                self.status(id, Code::OK);
            }
            Request::Close(request::Close { handle }) => {
                let code = match self.held(handle) {
                    Some(_) => Code::OK,
                    None => Code::FAILURE,
                };
                self.handles.remove(handle);
                self.status(id, code);
            }
            _ => self.status(id, Code::OP_UNSUPPORTED),
        }
    }

    fn open(&mut self, id: u32, path: &[u8], flags: u32) {
        let cuts = flags & open_flag::TRUNCATE != 0;
        self.note("OPEN", path, if cuts { " cutting" } else { "" });
        let path = self.real(path);
        if flags & open_flag::EXCLUSIVE != 0 && self.files.contains_key(&path) {
            return self.status(id, Code::FAILURE);
        }
        if flags & open_flag::CREATE != 0 {
            let file = self.files.entry(path.clone()).or_default();
            if cuts {
                file.clear();
            }
        } else if !self.files.contains_key(&path) {
            return self.status(id, Code::NO_SUCH_FILE);
        }
        self.handle(id, path);
    }

    fn list(&mut self, id: u32, handle: &[u8]) {
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

    fn read(&mut self, id: u32, handle: &[u8], offset: u64, len: u32) {
        let Some(path) = self.held(handle) else {
            return self.status(id, Code::FAILURE);
        };
        let file = &self.files[&path];
        let begin = usize::try_from(offset).unwrap().min(file.len());
        let len = usize::try_from(len).unwrap();
        let mut data = file[begin..file.len().min(begin + len)].to_vec();
        if self.nature.short > 0 {
            data.truncate(self.nature.short);
        }
        if self.nature.too_long {
            data = vec![1; len + 1];
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

    /// Blocks of zeros are holes.
    fn range(&mut self, id: u32, asked: &extension::ReadRange<'_>) {
        const BLOCK: usize = 65_536;
        let (Some(path), Some(lie)) = (self.held(asked.handle), self.nature.ranges) else {
            return self.status(id, Code::FAILURE);
        };
        self.note("RANGE", &path, "");
        let mut file = self.files[&path].clone();
        if lie == Ranges::Grown {
            file.extend(bytes(BLOCK));
        }
        let begin = usize::try_from(asked.offset).unwrap().min(file.len());
        let asked_len = usize::try_from(asked.len).unwrap();
        let end = match lie {
            Ranges::LongData => file.len(),
            _ => file.len().min(begin + asked_len),
        };
        let mut blocks: Vec<&[u8]> = file[begin..end].chunks(BLOCK).collect();
        if lie == Ranges::Short {
            blocks.pop();
        }
        for (index, block) in blocks.iter().enumerate() {
            if lie == Ranges::Failing && index == 3 {
                return self.status(id, Code::FAILURE);
            }
            if block.iter().any(|byte| *byte != 0) {
                let head = data_head(id, u32::try_from(block.len()).unwrap());
                self.out.extend_from_slice(&head);
                self.out.extend_from_slice(block);
                continue;
            }
            let len = match lie {
                Ranges::LongHole => asked.len + 1,
                _ => block.len() as u64,
            };
            encode_extended(id, &mut self.out, |fields| match lie {
                Ranges::OddHole => fields.push(1),
                _ => vendor::Hole { len }.write(fields),
            });
        }
        self.status(id, Code::OK);
    }

    fn take(&mut self, piece: FramePiece) {
        let link = self.link;
        match piece {
            FramePiece::Message(message) => self.answer(&message),
            FramePiece::Write {
                id, handle, offset, ..
            } => self.wires[link].partial = Some((id, handle, offset, Vec::new())),
            FramePiece::Payload { bytes, left } => {
                let (id, handle, offset, mut data) = self.wires[link].partial.take().unwrap();
                data.extend_from_slice(&bytes);
                match left {
                    0 => self.write(id, &handle, offset, &data),
                    _ => self.wires[link].partial = Some((id, handle, offset, data)),
                }
            }
            FramePiece::Data { .. } => panic!("a client sends no DATA"),
        }
    }

    /// True by chance, if that is its nature.
    fn happens(&mut self) -> bool {
        let Some(state) = &mut self.nature.chance else {
            return true;
        };
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *state >> 31 == 1
    }

    /// Interrupts this process, if that is due.
    fn interrupt(&mut self) {
        if self.nature.interrupt == Some(self.answered) {
            let own = i32::try_from(std::process::id()).unwrap();
            sys::signals::send(own, sys::signals::Signal::INT).unwrap();
            // Another thread may take it.
            while sys::signals::interrupts() == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Takes requests in and sends answers on one connection.
    fn serve(&mut self, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        let link = self.link;
        let mut count = 0;
        if self.happens() {
            let mut room = vec![0; 100_000];
            count = exchange.fill(link, &mut room);
            room.truncate(count);
            self.wires[link].requests.push(Bytes::from(room));
        }
        while let Some(piece) = self.wires[link].requests.next_piece().unwrap() {
            self.take(piece);
            self.answered += 1;
            if self.nature.answers.is_some_and(|most| self.answered > most) {
                return Err(EngineError::Closed);
            }
            self.interrupt();
        }
        if self.stream.is_some() {
            self.stream_on();
            self.answered += 1;
            if self.nature.answers.is_some_and(|most| self.answered > most) {
                return Err(EngineError::Closed);
            }
            self.interrupt();
        }
        let answers = std::mem::take(&mut self.out);
        self.wires[link].answers.extend(answers);
        if !self.happens() {
            return Ok(count > 0);
        }
        let out = std::mem::take(&mut self.wires[link].answers);
        let step = match self.nature.piece {
            0 => 1 << 20,
            piece => piece,
        };
        for piece in out.chunks(step) {
            exchange.feed(link, Bytes::copy_from_slice(piece))?;
        }
        Ok(count > 0 || !out.is_empty())
    }
}

impl Transport for Adversary {
    fn links(&self) -> usize {
        self.wires.len()
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        let mut moved = self.nature.chance.is_some();
        self.turns += 1;
        assert!(self.turns < MAX_TURNS, "the copy does not come to an end");
        let there = match self.turns < self.nature.others_from {
            true => 1,
            false => self.wires.len(),
        };
        for link in 0..there {
            self.link = link;
            moved |= self.serve(exchange)?;
        }
        Ok(moved)
    }
}

#[derive(Default)]
pub struct Heard {
    pub errors: Vec<String>,
    pub good: usize,
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

/// A folder in a folder of its own; both go with it.
pub struct Place {
    root: PathBuf,
    inner: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("fulmar-lying-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let inner = root.join("in");
        fs::create_dir_all(&inner).unwrap();
        Self { root, inner }
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.inner
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
