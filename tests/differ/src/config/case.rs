//! A case of configuration: the lines of its files, its arguments, and the query to the programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use interop::fixture;
use interop::process::Outcome;

use crate::peers::Program;

/// Placeholder in texts for a byte that is not UTF-8.
pub(crate) const BAD_BYTE: char = '\u{f8ff}';

/// The query to the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `ssh -G` with an ssh_config.
    Client,
    /// `sshd -T` with an sshd_config.
    Server,
    /// `ssh-keygen -F` in a known_hosts.
    Lookup,
    /// `ssh-keygen -l` of a file of keys.
    Listing,
}

impl Form {
    /// Its name in lists and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "ssh_config",
            Self::Server => "sshd_config",
            Self::Lookup => "lookup",
            Self::Listing => "listing",
        }
    }

    /// True if the output is a dump of keywords.
    pub(crate) fn is_dump(self) -> bool {
        matches!(self, Self::Client | Self::Server)
    }
}

/// A removable part of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line of the file.
    Line(String),
    /// A line of the file that `{here}/more` names.
    More(String),
    /// An argument, of one or two words.
    Argument(Vec<String>),
}

/// A case. In its texts `{here}` is replaced by the directory of its files, `{ed25519}` and so on
/// by keys of the fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) form: Form,
    /// Each with a number that identifies it while others are removed.
    pub(crate) pieces: Vec<(usize, Piece)>,
    /// The last argument.
    pub(crate) subject: Vec<String>,
}

impl Case {
    /// One line, in the format of the list of differences.
    pub(crate) fn text(&self) -> String {
        let lines = self.pieces.iter().map(|(_, piece)| match piece {
            Piece::Line(line) => line.clone(),
            Piece::More(line) => format!("more: {line}"),
            Piece::Argument(words) => words.join(" "),
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Several lines for a report.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        for (_, piece) in &self.pieces {
            let _ = match piece {
                Piece::Line(line) => writeln!(text, "  | {}", escaped(line)),
                Piece::More(line) => writeln!(text, "  | (more) {}", escaped(line)),
                Piece::Argument(words) => writeln!(text, "  with {words:?}"),
            };
        }
        let _ = writeln!(text, "  of {:?}", self.subject);
        text
    }

    /// Without these pieces.
    pub(crate) fn without(&self, gone: &[usize]) -> Self {
        let mut case = self.clone();
        case.pieces.retain(|(number, _)| !gone.contains(number));
        case
    }

    /// A program's result, with `folder` for its files.
    pub(crate) fn ask(&self, program: &Program, folder: &Path) -> Outcome {
        let here = folder.display().to_string();
        let (mut main, mut more) = (Vec::new(), Vec::new());
        let mut arguments = Vec::new();
        for (_, piece) in &self.pieces {
            match piece {
                Piece::Line(line) => add(&mut main, &filled(line, &here)),
                Piece::More(line) => add(&mut more, &filled(line, &here)),
                Piece::Argument(words) => {
                    // No argument can contain a NUL.
                    let words = words.iter().map(|word| filled(word, &here));
                    arguments.extend(words.map(|word| word.replace('\0', "")));
                }
            }
        }
        let file = folder.join("file");
        let key = folder.join("host_key");
        fs::write(&file, main).expect("a file of the case");
        fs::write(folder.join("more"), more).expect("a file of the case");
        let file = file.display().to_string();
        let words = |fixed: &[&str]| {
            fixed
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let subject = self.subject.iter().map(|word| filled(word, &here));
        let (tool, mut all) = match self.form {
            Form::Client => ("ssh", words(&["-G", "-F", &file])),
            Form::Server => (
                "sshd",
                words(&["-T", "-f", &file, "-h", &key.display().to_string()]),
            ),
            Form::Lookup => ("ssh-keygen", words(&["-f", &file, "-F"])),
            Form::Listing => ("ssh-keygen", words(&["-l", "-f", &file])),
        };
        if self.form == Form::Lookup {
            all.extend(subject);
            all.extend(arguments);
        } else {
            all.extend(arguments);
            all.extend(subject);
        }
        program.run(tool, &all, folder)
    }
}

fn add(text: &mut Vec<u8>, line: &str) {
    for (index, part) in line.split(BAD_BYTE).enumerate() {
        if index > 0 {
            text.push(0xff);
        }
        text.extend_from_slice(part.as_bytes());
    }
    text.push(b'\n');
}

/// Keys of the fixture that a text may name.
pub(crate) const KEYS: [(&str, &str); 6] = [
    ("{ed25519}", "user_ed25519.pub"),
    ("{ecdsa}", "user_ecdsa256.pub"),
    ("{rsa}", "user_rsa.pub"),
    ("{ca}", "user_ca.pub"),
    ("{cert}", "user_ed25519-cert.pub"),
    ("{rsacert}", "user_rsa-cert.pub"),
];

fn filled(text: &str, here: &str) -> String {
    let mut text = text.replace("{here}", here);
    for (name, file) in KEYS {
        if text.contains(name) {
            let key = fixture::text(file);
            // The type and the key, without the comment.
            let words = key.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            text = text.replace(name, &words);
        }
        let blob = name.replace('}', ".blob}");
        if text.contains(&blob) {
            let key = fixture::text(file);
            text = text.replace(&blob, key.split_whitespace().nth(1).unwrap_or_default());
        }
    }
    text
}

fn escaped(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            BAD_BYTE => "\\xff".to_owned(),
            c if c.is_control() => c.escape_default().to_string(),
            c => c.to_string(),
        })
        .collect()
}
