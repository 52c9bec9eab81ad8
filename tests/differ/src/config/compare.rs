//! Compares the programs' results of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use interop::process::Outcome;

use super::case::{Case, Form};
use crate::peers::Program;

/// How our result differs from those of all peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Ours ends by a signal or with the exit status of a panic.
    Dies,
    /// Ours refuses a case that every peer accepts.
    Refuses,
    /// Ours accepts a case that every peer refuses.
    Takes,
    /// Ours has another value of this keyword than every peer that accepts the case.
    Prints(String),
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dies => f.write_str("dies"),
            Self::Refuses => f.write_str("refuses"),
            Self::Takes => f.write_str("takes"),
            Self::Prints(keyword) => write!(f, "prints {keyword}"),
        }
    }
}

/// Values by keyword, in the order in which they are printed.
type Dump = BTreeMap<String, Vec<String>>;

/// One program's answer to a case.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    dump: Dump,
}

impl Answer {
    fn is_taken(&self) -> bool {
        self.outcome.status == 0
    }

    /// Its output for a keyword, for a report.
    pub(crate) fn printed(&self, how: &How) -> String {
        match how {
            How::Prints(keyword) if self.is_taken() => self
                .dump
                .get(keyword)
                .map_or("nothing".into(), |values| format!("{values:?}")),
            _ if self.is_taken() => "taken".into(),
            _ => {
                let said = self.outcome.stderr.text();
                let last = said.lines().rfind(|line| !line.contains("terminating,"));
                let status = self.outcome.status;
                format!("status {status}, {:?}", last.unwrap_or_default())
            }
        }
    }
}

/// A program with its output for empty files, and the keywords that it does not know.
pub(crate) struct Reader {
    pub(crate) program: Program,
    plain: [Dump; 2],
    unknown: [BTreeSet<String>; 2],
}

impl Reader {
    /// Determines the program's output for empty files and which of `keywords` (of ssh_config and
    /// of sshd_config) it knows.
    pub(crate) fn new(program: Program, folder: &Path, keywords: [&[String]; 2]) -> Self {
        let mut reader = Self {
            program,
            plain: Default::default(),
            unknown: Default::default(),
        };
        for (index, form) in [Form::Client, Form::Server].into_iter().enumerate() {
            let mut case = Case {
                form,
                pieces: Vec::new(),
                subject: Vec::new(),
            };
            if form == Form::Client {
                case.subject.push("h".into());
            }
            let plain = reader.ask(&case, folder);
            assert!(
                plain.is_taken(),
                "{}: {}",
                reader.program.name,
                plain.outcome.summary()
            );
            reader.plain[index] = plain.dump;
            for keyword in keywords[index] {
                case.pieces = vec![(0, super::case::Piece::Line(format!("{keyword} \u{1}")))];
                let said = case.ask(&reader.program, folder).stderr.text();
                if said.contains("Bad configuration option") {
                    reader.unknown[index].insert(keyword.to_ascii_lowercase());
                }
            }
        }
        reader
    }

    /// True if it knows a keyword.
    pub(crate) fn knows(&self, form: Form, keyword: &str) -> bool {
        !self.unknown[side(form)].contains(&keyword.to_ascii_lowercase())
    }

    /// Keywords that it prints for an empty file.
    pub(crate) fn keywords(&self, form: Form) -> impl Iterator<Item = &String> {
        self.plain[side(form)].keys()
    }

    /// Its answer to a case.
    pub(crate) fn ask(&self, case: &Case, folder: &Path) -> Answer {
        let outcome = case.ask(&self.program, folder);
        let text = outcome
            .stdout
            .text()
            .replace(&folder.display().to_string(), "{here}");
        let mut dump = Dump::new();
        for line in text.lines() {
            let (keyword, value) = match case.form.is_dump() {
                true => line.split_once(' ').unwrap_or((line, "")),
                false => ("output", line),
            };
            let values = dump.entry(keyword.to_ascii_lowercase()).or_default();
            values.push(if case.form.is_dump() {
                canonical(value)
            } else {
                value.to_owned()
            });
        }
        Answer { outcome, dump }
    }

    fn plain(&self, form: Form, keyword: &str) -> Option<&Vec<String>> {
        self.plain[side(form)]
            .get(keyword)
            .filter(|_| form.is_dump())
    }
}

fn side(form: Form) -> usize {
    usize::from(form == Form::Server)
}

/// Spellings that versions of OpenSSH changed.
fn canonical(value: &str) -> String {
    let words = value.split(' ').map(|word| match word {
        "true" => "yes".to_owned(),
        "false" => "no".to_owned(),
        "without-password" => "prohibit-password".to_owned(),
        // Fractions of seconds.
        _ => word.strip_suffix(".000000").unwrap_or(word).to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Every way in which ours differs from all of `peers`, the gravest first. `known` are the keywords
/// that ours prints.
pub(crate) fn apart(
    case: &Case,
    ours: (&Reader, &Answer),
    peers: &[(&Reader, Answer)],
    known: impl Fn(&str) -> bool,
) -> Vec<How> {
    let (reader, mine) = ours;
    let mut found = Vec::new();
    if !matches!(mine.outcome.status, 0 | 1 | 255) {
        found.push(How::Dies);
    }
    if peers.is_empty() {
        return found;
    }
    if peers
        .iter()
        .all(|(_, answer)| answer.is_taken() != mine.is_taken())
    {
        found.push(if mine.is_taken() {
            How::Takes
        } else {
            How::Refuses
        });
        return found;
    }
    let taking: Vec<_> = peers
        .iter()
        .filter(|(_, answer)| answer.is_taken())
        .collect();
    if !mine.is_taken() || taking.is_empty() {
        return found;
    }
    let all = taking
        .iter()
        .map(|(_, answer)| &answer.dump)
        .chain([&mine.dump]);
    let keywords: BTreeSet<&String> = all.flat_map(BTreeMap::keys).collect();
    for keyword in keywords {
        if case.form.is_dump() && !known(keyword) {
            continue;
        }
        let is = mine.dump.get(keyword);
        let plain = reader.plain(case.form, keyword);
        let same = |(peer, answer): &&&(&Reader, Answer)| {
            let other = answer.dump.get(keyword);
            let theirs = peer.plain(case.form, keyword);
            is == other
                || (case.form.is_dump() && is == plain && other == theirs)
                || changed(is, plain, other, theirs)
        };
        if !taking.iter().any(|taken| same(&taken)) {
            found.push(How::Prints(keyword.clone()));
        }
    }
    found
}

/// True if two lists of names, joined with commas, differ from their defaults by the same names, as
/// far as both sides have these.
fn changed(
    is: Option<&Vec<String>>,
    plain: Option<&Vec<String>>,
    other: Option<&Vec<String>>,
    theirs: Option<&Vec<String>>,
) -> bool {
    let names = |list: Option<&Vec<String>>| {
        let text = list.and_then(|values| values.first())?;
        text.contains(['@', '-', ','])
            .then(|| text.split(',').map(str::to_owned).collect())
    };
    let all: Option<Vec<Vec<String>>> = [is, plain, other, theirs].into_iter().map(names).collect();
    let Some([is, plain, other, theirs]) = all.and_then(|lists| <[_; 4]>::try_from(lists).ok())
    else {
        return false;
    };
    let both = |name: &&String| plain.contains(name) == theirs.contains(name);
    let new = |list: &[String], by_default: &[String]| -> Vec<String> {
        // A default of one side may have to be configured on the other.
        let new = list
            .iter()
            .filter(|name| !by_default.contains(name))
            .filter(both);
        new.cloned().collect()
    };
    let gone = |list: &[String], by_default: &[String]| -> BTreeSet<String> {
        let gone = by_default
            .iter()
            .filter(|name| !list.contains(name))
            .filter(both);
        gone.cloned().collect()
    };
    // True if the first remaining name of the default is still first.
    let moved = |list: &[String], by_default: &[String]| {
        list.first() != by_default.iter().find(|name| list.contains(name))
    };
    let first = |list: &[String]| list.iter().find(|name| both(name)).cloned();
    let is_moved = moved(&is, &plain) || moved(&other, &theirs);
    new(&is, &plain) == new(&other, &theirs)
        && gone(&is, &plain) == gone(&other, &theirs)
        && (!is_moved || first(&is) == first(&other))
}
