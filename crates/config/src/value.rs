//! The values of keywords between the file and the typed options, and how each kind of value is
//! read and printed.
//!
//! A [`Table`] of [`Keyword`]s describes one kind of file. Parser, defaults, dump (`ssh -G`, `sshd
//! -T`), the encoded form and the manual's table are made from it, so that each keyword is
//! described once.

use crate::algorithms::Class;
use crate::units;

/// A value in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `yes` or `no`.
    Flag(bool),
    /// A whole number or a time in seconds; -1 is `none`.
    Number(i64),
    /// One word, or the rest of the line.
    Word(String),
    /// Several words, of one line or accumulated.
    Words(Vec<String>),
}

/// How a keyword's arguments are read.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes`/`true` or `no`/`false`.
    Flag,
    /// `yes` or `no`; OpenSSH's sshd does not accept `true` and `false` here.
    YesNo,
    /// One of a list of pairs: the accepted spelling and the canonical word.
    Choice(&'static [(&'static str, &'static str)]),
    /// A whole number within bounds.
    Integer {
        /// Smallest accepted.
        min: i64,
        /// Largest accepted.
        max: i64,
    },
    /// An octal file mode.
    Mode,
    /// A TCP port.
    Port,
    /// A time in seconds; `none` is kept as -1 where allowed.
    Seconds {
        /// True if `none` is accepted.
        none: bool,
    },
    /// One word.
    Text,
    /// A file name, relative to the working directory; `none` is kept as it is.
    Path,
    /// One or more file names, each as [`Kind::Path`]; `none` stands alone.
    Paths,
    /// One or more words.
    Words,
    /// The rest of the line, unchanged.
    Rest,
    /// A list of algorithms with the modifiers `+ - ^`.
    Algorithms(Class),
    /// Words in a special form; the function returns the canonical words or the error text.
    Parsed(fn(&[String]) -> Result<Vec<String>, String>),
    /// Host, Match and Include, which the parser carries out.
    Structure,
}

/// How far this suite supports a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Carried out.
    Carried,
    /// It restricts or configures a feature that this suite lacks, so nothing needs to be done.
    Fulfilled,
    /// It would enable a feature that is not implemented: ignored with a warning. The listed
    /// canonical values enable nothing and give no warning.
    Enabling(&'static [&'static str]),
    /// Carried out in part: the listed canonical values are carried out; others give a warning with
    /// this text.
    Partly(&'static [&'static str], &'static str),
    /// It would restrict something but is not implemented: the configuration is refused. The listed
    /// canonical values restrict nothing and are accepted.
    Restricting(&'static [&'static str]),
    /// OpenSSH no longer has it: ignored, and reported with `-v`.
    Deprecated,
    /// OpenSSH can be built without it, and this suite lacks it: ignored, and reported with `-v`.
    Unsupported,
    /// Accepted and silently ignored, as in OpenSSH.
    Ignored,
}

/// Where a keyword may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Not inside a Match block of sshd_config.
    Global,
    /// Anywhere.
    Everywhere,
}

/// The effect of a second line with the same keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// None: the first value wins.
    First,
    /// Its words are added to those before.
    Add,
    /// It supplies the words that earlier lines left out at their end.
    Complete,
}

/// How the dump prints a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// Not at all (aliases, structure, deprecated keywords).
    Never,
    /// One line, if there is a value.
    Line,
    /// One line, if there is a value other than `none`.
    UnlessNone,
    /// One line, with this word if there is no value.
    OrWord(&'static str),
    /// One line per word.
    PerWord,
    /// One line per word, or one line with this word if there are none.
    PerWordOr(&'static str),
    /// One line, joined with commas.
    Comma,
    /// One line with the number in octal.
    Octal,
}

/// One keyword of a table.
#[derive(Clone, Copy)]
pub struct Keyword {
    /// The name as documented; compared without case.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// How it is read.
    pub kind: Kind,
    /// The default, as written in a file; empty if there is none.
    pub default: &'static str,
    /// How far it is supported.
    pub support: Support,
    /// Where it may be used.
    pub scope: Scope,
    /// The effect of a second line.
    pub repeat: Repeat,
    /// How the dump prints it.
    pub dump: Dump,
}

/// The keywords of one kind of file, in the order of the dump.
///
/// A function instead of an array: the strings of an array are pointers, which the dynamic loader
/// would relocate, and so copy into private memory, in each process that runs this program.
#[derive(Clone, Copy)]
pub struct Table {
    rows: usize,
    row: fn(usize) -> Option<Keyword>,
}

impl Table {
    /// A table of `rows` rows, which `row` returns by index.
    pub(crate) const fn new(rows: usize, row: fn(usize) -> Option<Keyword>) -> Table {
        Table { rows, row }
    }

    /// Number of keywords.
    pub const fn len(self) -> usize {
        self.rows
    }

    /// True if the table is empty.
    pub const fn is_empty(self) -> bool {
        self.rows == 0
    }

    /// The keyword with this index.
    pub fn get(self, index: usize) -> Option<Keyword> {
        (self.row)(index)
    }

    /// All keywords in order.
    pub fn iter(self) -> impl Iterator<Item = Keyword> {
        (0..self.rows).filter_map(self.row)
    }
}

/// Finds a keyword by name or alias, ignoring case; returns its index.
pub fn find(table: Table, name: &str) -> Option<usize> {
    table.iter().position(|keyword| {
        keyword.name.eq_ignore_ascii_case(name)
            || keyword
                .aliases
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(name))
    })
}

/// Values by keyword: one slot per row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    slots: Vec<Option<Value>>,
}

impl Values {
    /// Empty slots for `count` keywords.
    pub fn empty(count: usize) -> Values {
        Values {
            slots: vec![None; count],
        }
    }

    /// The value of a keyword, if it has one.
    pub fn at(&self, index: usize) -> Option<&Value> {
        self.slots.get(index).and_then(Option::as_ref)
    }

    /// Sets a value, replacing an earlier one.
    pub fn put(&mut self, index: usize, value: Value) {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(value);
        }
    }

    /// Sets the default of each keyword of `table` without a value.
    pub(crate) fn put_defaults(&mut self, table: Table) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.is_none() {
                *slot = table.get(index).and_then(|keyword| default_of(&keyword));
            }
        }
    }

    /// Takes the words out; empty if there is no value.
    pub(crate) fn take_words(&mut self, index: usize) -> Vec<String> {
        match self.slots.get_mut(index).and_then(Option::take) {
            Some(Value::Words(words)) => words,
            _ => Vec::new(),
        }
    }

    /// As [`take_words`](Self::take_words); the single word `none` means no words.
    pub(crate) fn take_words_unless_none(&mut self, index: usize) -> Vec<String> {
        match self.take_words(index) {
            words if matches!(&words[..], [only] if is_none(only)) => Vec::new(),
            words => words,
        }
    }

    /// Takes the word out; empty if there is no value.
    pub(crate) fn take_word(&mut self, index: usize) -> String {
        match self.slots.get_mut(index).and_then(Option::take) {
            Some(Value::Word(word)) => word,
            _ => String::new(),
        }
    }

    /// As [`take_word`](Self::take_word); `None` if there is no value or it is `none`.
    pub(crate) fn take_word_unless_none(&mut self, index: usize) -> Option<String> {
        let word = self.take_word(index);
        (!word.is_empty() && !is_none(&word)).then_some(word)
    }

    /// Removes a value.
    pub fn clear(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = None;
        }
    }

    /// Applies a value as a line of the file does: the first value wins, or words are added, as
    /// `repeat` says.
    pub fn enter(&mut self, index: usize, repeat: Repeat, value: Value) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let value = match (repeat, value) {
            (Repeat::Add, Value::Word(word)) => Value::Words(vec![word]),
            (_, value) => value,
        };
        match (repeat, slot.as_mut(), value) {
            (_, None, value) => *slot = Some(value),
            (Repeat::Add, Some(Value::Words(have)), Value::Words(more)) => have.extend(more),
            (Repeat::Complete, Some(Value::Words(have)), Value::Words(more)) => {
                have.extend(more.into_iter().skip(have.len()));
            }
            _ => {}
        }
    }

    /// Replaces the values by those that `other` has.
    pub(crate) fn override_with(&mut self, table: Table, other: &Values) {
        for (index, slot) in other.slots.iter().enumerate() {
            let Some(mut value) = slot.clone() else {
                continue;
            };
            let completes = table
                .get(index)
                .is_some_and(|keyword| keyword.repeat == Repeat::Complete);
            if let Value::Words(words) = &mut value
                && completes
            {
                words.extend(self.words(index).iter().skip(words.len()).cloned());
            }
            self.put(index, value);
        }
    }

    /// Number of keywords.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if no keyword has a value.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// A flag; false if there is no value.
    pub fn flag(&self, index: usize) -> bool {
        matches!(self.at(index), Some(Value::Flag(true)))
    }

    /// A number; -1 if there is no value.
    pub fn number(&self, index: usize) -> i64 {
        match self.at(index) {
            Some(Value::Number(n)) => *n,
            _ => -1,
        }
    }

    /// A number as u32; `None` if it is negative, missing or too large.
    pub fn count(&self, index: usize) -> Option<u32> {
        u32::try_from(self.number(index)).ok()
    }

    /// One word; empty if there is no value.
    pub fn word(&self, index: usize) -> &str {
        match self.at(index) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// One word; `None` if there is no value or it is `none`.
    pub fn word_unless_none(&self, index: usize) -> Option<String> {
        let word = self.word(index);
        (!word.is_empty() && !word.eq_ignore_ascii_case("none")).then(|| word.to_owned())
    }

    /// The words; empty if there is no value.
    pub fn words(&self, index: usize) -> &[String] {
        match self.at(index) {
            Some(Value::Words(words)) => words,
            _ => &[],
        }
    }

    /// The words as owned strings; the single word `none` means no words.
    pub fn words_unless_none(&self, index: usize) -> Vec<String> {
        match self.words(index) {
            [only] if only.eq_ignore_ascii_case("none") => Vec::new(),
            words => words.to_vec(),
        }
    }
}

fn is_none(word: &str) -> bool {
    word.eq_ignore_ascii_case("none")
}

impl Kind {
    /// True if only a single word is read, without quoting.
    fn takes_one_word(&self) -> bool {
        !matches!(
            self,
            Kind::Words | Kind::Paths | Kind::Parsed(_) | Kind::Structure
        )
    }

    /// Reads the arguments of a line. `words` are the split arguments, `rest` is the line after the
    /// keyword.
    ///
    /// # Errors
    /// The error text for the user, without file and line.
    pub fn read(&self, keyword: &str, words: &[String], rest: &str) -> Result<Value, String> {
        let several = matches!(
            self,
            Kind::Words | Kind::Paths | Kind::Parsed(_) | Kind::Rest | Kind::Structure
        );
        let first = match words.first() {
            Some(first) => first.as_str(),
            None if matches!(self, Kind::Rest) => "",
            None => return Err(format!("no argument after keyword \"{keyword}\"")),
        };
        let empty_first = first.is_empty() && !several;
        if empty_first {
            return Err("missing argument.".to_owned());
        }
        let value = self.read_first(first, words, rest);
        let extra = !several && words.len() > 1 && value.is_ok();
        if extra || value.as_ref().is_err_and(|text| text == EXTRA) {
            return Err(format!("keyword {keyword} {EXTRA}"));
        }
        value
    }

    fn read_first(&self, first: &str, words: &[String], rest: &str) -> Result<Value, String> {
        match self {
            Kind::Flag => {
                let is_one_of = |words: [&str; 2]| {
                    let mut words = words.into_iter();
                    words.any(|word| word.eq_ignore_ascii_case(first))
                };
                if is_one_of(["yes", "true"]) {
                    Ok(Value::Flag(true))
                } else if is_one_of(["no", "false"]) {
                    Ok(Value::Flag(false))
                } else {
                    Err(unsupported(first))
                }
            }
            Kind::YesNo => match first {
                yes if yes.eq_ignore_ascii_case("yes") => Ok(Value::Flag(true)),
                no if no.eq_ignore_ascii_case("no") => Ok(Value::Flag(false)),
                _ => Err(unsupported(first)),
            },
            Kind::Choice(choices) => choices
                .iter()
                .find(|(spelling, _)| spelling.eq_ignore_ascii_case(first))
                .map(|(_, canonical)| Value::Word((*canonical).to_owned()))
                .ok_or_else(|| unsupported(first)),
            Kind::Integer { min, max } => read_integer(first, *min, *max),
            Kind::Mode => units::parse_mode(first)
                .map(|mode| Value::Number(i64::from(mode)))
                .ok_or_else(|| "Bad mask.".to_owned()),
            Kind::Port => units::parse_port(first)
                .map(|port| Value::Number(i64::from(port)))
                .ok_or_else(|| format!("Bad port '{first}'.")),
            Kind::Seconds { none } => {
                if *none && first == "none" {
                    return Ok(Value::Number(-1));
                }
                units::parse_seconds(first)
                    .map(|seconds| Value::Number(i64::from(seconds)))
                    .ok_or_else(|| "invalid time value.".to_owned())
            }
            Kind::Path if is_none(first) => Ok(Value::Word("none".to_owned())),
            Kind::Text | Kind::Path => Ok(Value::Word(first.to_owned())),
            Kind::Words | Kind::Paths => {
                if words.iter().any(String::is_empty) {
                    return Err("empty argument.".to_owned());
                }
                let names_none = words.iter().any(|word| is_none(word));
                if matches!(self, Kind::Paths) && words.len() > 1 && names_none {
                    return Err("\"none\" argument must appear alone.".to_owned());
                }
                if matches!(self, Kind::Paths) && names_none {
                    return Ok(Value::Words(vec!["none".to_owned()]));
                }
                Ok(Value::Words(words.to_vec()))
            }
            Kind::Rest => Ok(Value::Word(rest.to_owned())),
            Kind::Algorithms(class) => {
                class.check(first)?;
                Ok(Value::Word(first.to_owned()))
            }
            Kind::Parsed(read) => read(words).map(Value::Words),
            Kind::Structure => Ok(Value::Words(words.to_vec())),
        }
    }
}

/// The end of the error text for surplus words; [`Kind::read`] puts the keyword in front.
pub(crate) const EXTRA: &str = "extra arguments at end of line";

/// The error text for a word that is not accepted.
pub fn unsupported(word: &str) -> String {
    format!("unsupported option \"{word}\".")
}

fn read_integer(text: &str, min: i64, max: i64) -> Result<Value, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("integer value invalid.".to_owned());
    }
    match text.parse::<i64>() {
        Ok(n) if n < min => Err("integer value too small.".to_owned()),
        Ok(n) if n > max => Err("integer value too large.".to_owned()),
        Ok(n) => Ok(Value::Number(n)),
        Err(_) if text.starts_with('-') => Err("integer value too small.".to_owned()),
        Err(_) => Err("integer value too large.".to_owned()),
    }
}

/// Formats a value in one line, as the dump prints it.
pub fn show(value: &Value, dump: Dump) -> String {
    match value {
        Value::Flag(true) => "yes".to_owned(),
        Value::Flag(false) => "no".to_owned(),
        Value::Number(n) if dump == Dump::Octal => format!("0{n:o}"),
        Value::Number(-1) => "none".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::Word(word) => word.clone(),
        Value::Words(words) if dump == Dump::Comma => words.join(","),
        Value::Words(words) => words.join(" "),
    }
}

/// Prints the values as `ssh -G` and `sshd -T` do: lower-case keyword, a space, the value.
pub fn dump(table: Table, values: &Values) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        out.push_str(&name.to_ascii_lowercase());
        out.push(' ');
        out.push_str(text);
        out.push('\n');
    };
    for (index, keyword) in table.iter().enumerate() {
        match (keyword.dump, values.at(index)) {
            (Dump::Never, _) => {}
            (Dump::PerWord, Some(Value::Words(words))) if words.is_empty() => {}
            (Dump::UnlessNone, Some(value)) if is_none(&show(value, keyword.dump)) => {}
            (Dump::PerWord | Dump::PerWordOr(_), Some(Value::Words(words)))
                if !words.is_empty() =>
            {
                for word in words {
                    line(keyword.name, word);
                }
            }
            (Dump::OrWord(word) | Dump::PerWordOr(word), None) => line(keyword.name, word),
            (Dump::OrWord(word) | Dump::PerWordOr(word), Some(Value::Words(words)))
                if words.is_empty() =>
            {
                line(keyword.name, word);
            }
            (_, None) => {}
            (how, Some(value)) => line(keyword.name, &show(value, how)),
        }
    }
    out
}

/// The table as rows of a manual page: keyword, default and support.
pub fn manual_rows(table: Table) -> Vec<[String; 3]> {
    table
        .iter()
        .map(|keyword| {
            let support = match keyword.support {
                Support::Carried => "carried out",
                Support::Fulfilled => "nothing to do",
                Support::Enabling(_) => "not carried out; warns",
                Support::Partly(_, _) => "carried out in part",
                Support::Restricting(_) => "not carried out; refused",
                Support::Deprecated => "deprecated",
                Support::Unsupported => "unsupported",
                Support::Ignored => "ignored",
            };
            [
                keyword.name.to_owned(),
                keyword.default.to_owned(),
                support.to_owned(),
            ]
        })
        .collect()
}

/// The default of a keyword, read as a line of a file; `None` if it has none.
pub(crate) fn default_of(keyword: &Keyword) -> Option<Value> {
    if keyword.default.is_empty() {
        return None;
    }
    let text = keyword.default;
    // Avoids copies: each process with a configuration reads about a hundred defaults.
    if keyword.kind.takes_one_word() && !text.contains(' ') {
        return keyword.kind.read_first(text, &[], text).ok();
    }
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    keyword.kind.read(keyword.name, &words, text).ok()
}

/// The form in which a value is compared with the lists of [`Support`].
pub(crate) fn canonical(value: &Value) -> String {
    show(value, Dump::Line)
}
