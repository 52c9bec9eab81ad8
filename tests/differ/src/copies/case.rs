//! A case of a copy: the contents of two directories, the program and its arguments.

use std::fmt::Write as _;

use interop::random::Random;

/// The object of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A file with this number of bytes.
    File(usize),
    /// A file with a hole of one MiB between two bytes.
    Sparse,
    Folder,
    /// A symbolic link to this target.
    Link(&'static str),
    Fifo,
    /// The device of /dev/null.
    Null,
}

/// A name in one of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path relative to the directory of the case.
    pub(crate) path: Vec<u8>,
    pub(crate) what: What,
    pub(crate) mode: u32,
    /// Modification time in seconds, long ago.
    pub(crate) time: u64,
}

/// The copying program and its form of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// scp over SFTP.
    Scp,
    /// scp -O.
    Old,
    /// A batch of sftp.
    Sftp,
}

/// A removable part of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Entry(Entry),
    Flag(&'static str),
    /// A name in `from` to copy; true if characters with a meaning for a shell are quoted.
    Source(Vec<u8>, bool),
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) tool: Tool,
    pub(crate) is_get: bool,
    /// Local names are relative to their directory.
    pub(crate) is_relative: bool,
    pub(crate) pieces: Vec<Piece>,
    /// The target in `into`; empty for the directory itself.
    pub(crate) target: Vec<u8>,
}

const NAMES: [&[u8]; 26] = [
    b"a",
    b"b",
    b"c.txt",
    b"b c",
    b"it's",
    b"q\"q",
    b"*",
    b"?x",
    b"[ab]",
    b"new\nline",
    "é".as_bytes(),
    b"\xff\xfe",
    b"-x",
    b"~",
    b"$HOME",
    b"`id`",
    b"a;b",
    b".hidden",
    b"a:b",
    b"%n",
    b"back\\slash",
    b" lead",
    b"trail ",
    b"#c",
    b"{a,b}",
    b"tab\tx",
];
const PLAIN: [&[u8]; 4] = [b"a", b"b", b"d", b"x.y"];
const MODES: [u32; 9] = [
    0o644, 0o755, 0o600, 0o444, 0o777, 0o4755, 0o2755, 0o000, 0o640,
];
const FOLDER_MODES: [u32; 6] = [0o755, 0o755, 0o700, 0o555, 0o2775, 0o1777];
const SIZES: [usize; 8] = [0, 0, 1, 5, 4096, 32_768, 70_001, 300_000];

/// The case of these numbers.
pub(crate) fn case(seed: u64, number: u64) -> Case {
    let mut random = Random::of_case(seed ^ 0x636f_7079, number);
    let random = &mut random;
    let tool = *random.pick_of(&[
        Tool::Scp,
        Tool::Scp,
        Tool::Scp,
        Tool::Old,
        Tool::Old,
        Tool::Sftp,
    ]);
    let is_get = random.chance(50);
    let mut pieces = Vec::new();
    for flag in ["-r", "-p", "-q"] {
        if random.chance(if flag == "-q" { 15 } else { 50 })
            && !(flag == "-q" && tool == Tool::Sftp)
        {
            pieces.push(Piece::Flag(flag));
        }
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let name = name(random, tool);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in &names {
        // Some sources are missing.
        if random.chance(92) {
            let path = [b"from/", name.as_slice()].concat();
            let first = pieces.len();
            tree(random, &mut pieces, path, 0, tool);
            // OpenSSH's client waits for a writer of a FIFO that it sends.
            if let Some(Piece::Entry(entry)) = pieces.get_mut(first)
                && entry.what == What::Fifo
                && !is_get
                && tool != Tool::Old
            {
                entry.what = What::File(5);
            }
        }
    }
    for name in &names {
        let is_escaped = random.chance(70);
        pieces.push(Piece::Source(name.clone(), is_escaped));
    }
    if random.chance(6) {
        pieces.push(Piece::Source(
            random
                .pick_of(&[b"*".to_vec(), b"no*".to_vec(), b"".to_vec(), b".".to_vec()])
                .clone(),
            false,
        ));
    }
    let target = target(random, &mut pieces, &names);
    Case {
        tool,
        is_get,
        is_relative: random.chance(30),
        pieces,
        target,
    }
}

fn name(random: &mut Random, tool: Tool) -> Vec<u8> {
    loop {
        let from: &[&[u8]] = if random.chance(40) { &PLAIN } else { &NAMES };
        let name = random.pick(from);
        // A batch line cannot express this name.
        if tool != Tool::Sftp || !name.contains(&b'\n') {
            return name.to_vec();
        }
    }
}

/// A file, or a directory with its content.
fn tree(random: &mut Random, pieces: &mut Vec<Piece>, path: Vec<u8>, depth: usize, tool: Tool) {
    let what = match random.below(20) {
        0..=8 => What::File(*random.pick_of(&SIZES)),
        9 => What::Sparse,
        10..=15 if depth < 3 => What::Folder,
        16 => What::Link(random.pick(&["a", "b", "nowhere", "..", "."])),
        17 => What::Fifo,
        18 => What::Null,
        _ => What::File(3),
    };
    // A link to its own directory would be endless.
    let is_recursive = pieces.contains(&Piece::Flag("-r"));
    let what = match what {
        What::Link(to) if (depth > 0 || is_recursive) && to.starts_with('.') => {
            What::Link("nowhere")
        }
        what => what,
    };
    let modes: &[u32] = if what == What::Folder {
        &FOLDER_MODES
    } else {
        &MODES
    };
    let is_folder = what == What::Folder;
    pieces.push(Piece::Entry(Entry {
        path: path.clone(),
        what,
        mode: *random.pick_of(modes),
        time: 1_000_000_000 + u64::try_from(random.below(100_000_000)).unwrap_or(0),
    }));
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..if is_folder { random.below(4) } else { 0 } {
        let name = name(random, tool);
        if !names.contains(&name) {
            tree(
                random,
                pieces,
                [&path, b"/".as_slice(), &name].concat(),
                depth + 1,
                tool,
            );
            names.push(name);
        }
    }
}

/// The object with the target's name.
fn target(random: &mut Random, pieces: &mut Vec<Piece>, names: &[Vec<u8>]) -> Vec<u8> {
    let mut target = match random.below(10) {
        0..=3 => return Vec::new(),
        4..=5 => b"t".to_vec(),
        6 => b"t/u".to_vec(),
        _ => random.pick_of(&NAMES[..24]).to_vec(),
    };
    target.retain(|byte| *byte != b'\n');
    let path = [b"into/", target.as_slice()].concat();
    let mut put = |path: &[u8], what: What, mode: u32| {
        pieces.push(Piece::Entry(Entry {
            path: path.to_vec(),
            what,
            mode,
            time: 900_000_000,
        }));
    };
    match random.below(9) {
        0 | 1 => {}
        2 => put(&path, What::File(100_000), *random.pick_of(&MODES)),
        3 => put(&path, What::Link("elsewhere"), 0),
        4 => {
            put(&path, What::Link("real"), 0);
            let what = if random.chance(50) {
                What::Folder
            } else {
                What::File(9)
            };
            let mode = if what == What::Folder { 0o755 } else { 0o644 };
            put(b"into/real", what, mode);
        }
        5 => put(&path, What::Null, 0o666),
        _ => {
            put(&path, What::Folder, *random.pick_of(&FOLDER_MODES));
            // The object with a source's name.
            if let Some(name) = names.first().filter(|_| random.chance(60)) {
                let inner = [&path, b"/".as_slice(), name].concat();
                let what = match random.below(4) {
                    0 => What::Folder,
                    1 => What::Link("elsewhere"),
                    _ => What::File(200_000),
                };
                let mode = if what == What::Folder {
                    0o755
                } else {
                    *random.pick_of(&MODES)
                };
                put(&inner, what, mode);
            }
        }
    }
    if random.chance(25) {
        target.push(b'/');
    }
    target
}

impl Case {
    /// One line, in the format of the list of differences.
    pub(crate) fn text(&self) -> String {
        let mut text = match self.tool {
            Tool::Scp => "scp",
            Tool::Old => "scp -O",
            Tool::Sftp => "sftp",
        }
        .to_owned();
        for piece in &self.pieces {
            if let Piece::Flag(flag) = piece {
                let _ = write!(text, " {flag}");
            }
        }
        text.push_str(if self.is_get { " get" } else { " put" });
        if self.is_relative {
            text.push_str(" (relative)");
        }
        for piece in &self.pieces {
            if let Piece::Source(name, is_escaped) = piece {
                let _ = write!(
                    text,
                    " '{}'{}",
                    name.escape_ascii(),
                    if *is_escaped { "" } else { " (raw)" }
                );
            }
        }
        let _ = write!(text, " -> '{}'", self.target.escape_ascii());
        for piece in &self.pieces {
            if let Piece::Entry(entry) = piece {
                let what = match &entry.what {
                    What::File(size) => format!("file of {size}"),
                    What::Sparse => "sparse".into(),
                    What::Folder => "folder".into(),
                    What::Link(to) => format!("link to {to}"),
                    What::Fifo => "fifo".into(),
                    What::Null => "null".into(),
                };
                let _ = write!(
                    text,
                    "; {}: {what} {:o}",
                    entry.path.escape_ascii(),
                    entry.mode
                );
            }
        }
        text
    }

    /// Every case with one part removed.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for at in 0..self.pieces.len() {
            let mut case = self.clone();
            let gone = case.pieces.remove(at);
            if let Piece::Entry(gone) = &gone {
                let inside = [gone.path.as_slice(), b"/"].concat();
                case.pieces.retain(|piece| !matches!(piece, Piece::Entry(entry) if entry.path.starts_with(&inside)));
            }
            found.push(case);
        }
        if self.is_relative {
            found.push(Self {
                is_relative: false,
                ..self.clone()
            });
        }
        for at in 0..self.pieces.len() {
            let Piece::Entry(entry) = &self.pieces[at] else {
                continue;
            };
            let usual = match entry.what {
                What::Folder => 0o755,
                _ => 0o644,
            };
            let plain = match &entry.what {
                What::File(size) if *size > 3 => Some(What::File(3)),
                _ => None,
            };
            for (what, mode) in [
                (plain, None),
                (None, (entry.mode != usual).then_some(usual)),
            ] {
                if what.is_none() && mode.is_none() {
                    continue;
                }
                let mut case = self.clone();
                if let Piece::Entry(entry) = &mut case.pieces[at] {
                    entry.what = what.unwrap_or(entry.what.clone());
                    entry.mode = mode.unwrap_or(entry.mode);
                }
                found.push(case);
            }
        }
        found.retain(|case| {
            case.pieces
                .iter()
                .any(|piece| matches!(piece, Piece::Source(..)))
        });
        found
    }
}
