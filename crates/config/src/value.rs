//! The values of keywords between the file and the typed options, and how each kind of value is
//! read; [`printing`](crate::printing) prints them.
//!
//! A [`Table`] of [`Keyword`]s describes one kind of file. Parser, defaults, dump (`ssh -G`, `sshd
//! -T`), the encoded form and the manual's table are made from it, so that each keyword is
//! described once.

use crate::address::{ExemptList, ListenEntry};
use crate::algorithms::{Class, Side};
use crate::channel_timeouts::ChannelTimeouts;
use crate::client::types::{
    AddKeysToAgent, AgentName, CnameRule, ControlPersist, JumpTemplates, NameOrVariable,
    TunnelDevice,
};
use crate::forward::{ForwardListen, ForwardSpec, ForwardTo};
use crate::penalties::{MaxStartups, PerSourcePenalties};
use crate::permit::PermitList;
use crate::server::options::{AgentSocketPath, PubkeyAuthOptions, UserEnvironment};
use crate::types::{EscapeChar, IpQos, Keystrokes, LogLevel, RekeyLimit, Subsystem, Variable};
use crate::units;

/// A value, read once into its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `yes` or `no`.
    Flag(bool),
    /// A whole number or a time in seconds; -1 is `none`.
    Number(i64),
    /// One word, or the rest of the line.
    Word(String),
    /// Several words, of one line or accumulated; empty is `none`.
    Words(Vec<String>),
    /// One of a fixed set.
    Choice(Choice),
    /// `RekeyLimit`.
    Rekey {
        /// Bytes; 0 is the cipher's own limit.
        bytes: u64,
        /// Seconds; `None` if a later line may still give them.
        seconds: Option<u32>,
    },
    /// `IPQoS`.
    IpQos(IpQos),
    /// A number of threads; `None` is `auto`.
    Threads(Option<usize>),
    /// `EscapeChar`.
    Escape(EscapeChar),
    /// `ObscureKeystrokeTiming`.
    Keystrokes(Keystrokes),
    /// `MaxStartups`.
    Startups(MaxStartups),
    /// `PerSourceNetBlockSize`: bits of IPv4 and IPv6.
    NetBlock(u8, u8),
    /// `PerSourcePenalties`: each a number of the table of penalties, with its value.
    Penalties(Vec<(u8, u64)>),
    /// `Port` of sshd_config.
    Ports(Vec<u16>),
    /// `ListenAddress`.
    Listeners(Vec<ListenEntry>),
    /// `SetEnv`.
    Variables(Vec<Variable>),
    /// `Subsystem`.
    Subsystems(Vec<Subsystem>),
    /// `AuthenticationMethods`: each entry a chain of methods; none for `any`.
    Chains(Vec<Vec<String>>),
    /// `LocalForward` and `RemoteForward`.
    Forwards(Vec<ForwardSpec>),
    /// `DynamicForward`.
    SocksListeners(Vec<ForwardListen>),
    /// `ControlPersist`.
    Persist(ControlPersist),
    /// `AddKeysToAgent`.
    AddKeys(AddKeysToAgent),
    /// `TunnelDevice`.
    TunnelDevice(TunnelDevice),
    /// `ChannelTimeout`.
    ChannelTimeouts(ChannelTimeouts),
    /// `PermitOpen`, `PermitListen` and `PermitRemoteOpen`.
    Permits(PermitList),
    /// `PubkeyAuthOptions`.
    PubkeyAuth(PubkeyAuthOptions),
    /// `PermitUserEnvironment`.
    UserEnvironment(UserEnvironment),
    /// `AgentSocketPath`.
    AgentSocket(AgentSocketPath),
    /// `CanonicalizePermittedCNAMEs`.
    CnameRules(Vec<CnameRule>),
    /// `PerSourcePenaltyExemptList`.
    Exempt(ExemptList),
    /// `IdentityAgent` and `ForwardAgent`, before expansion.
    Agent(AgentName),
    /// `ProxyJump`, before expansion.
    Jumps(JumpTemplates),
    /// `PKCS11Provider` and `SecurityKeyProvider` of ssh_config; `None` is `none`.
    Library(Option<NameOrVariable>),
}

impl Value {
    /// The entries of a list, each as the dump prints it; `None` for a value that is no list.
    pub(crate) fn entries(&self) -> Option<Vec<String>> {
        fn shown<T: ToString>(entries: &[T]) -> Option<Vec<String>> {
            Some(entries.iter().map(T::to_string).collect())
        }
        match self {
            Value::Words(words) => Some(words.clone()),
            Value::Ports(ports) => shown(ports),
            Value::Listeners(entries) => shown(entries),
            Value::Variables(variables) => shown(variables),
            Value::Subsystems(subsystems) => shown(subsystems),
            Value::Forwards(forwards) => shown(forwards),
            Value::SocksListeners(listeners) => shown(listeners),
            _ => None,
        }
    }

    /// Adds the entries of `more`, a list of the same kind; otherwise the value stays as it is.
    fn extend(&mut self, more: Value) {
        match (self, more) {
            (Value::Words(have), Value::Words(more)) => have.extend(more),
            (Value::Penalties(have), Value::Penalties(more)) => have.extend(more),
            (Value::Ports(have), Value::Ports(more)) => have.extend(more),
            (Value::Listeners(have), Value::Listeners(more)) => have.extend(more),
            (Value::Subsystems(have), Value::Subsystems(more)) => have.extend(more),
            (Value::Forwards(have), Value::Forwards(more)) => have.extend(more),
            (Value::SocksListeners(have), Value::SocksListeners(more)) => have.extend(more),
            _ => {}
        }
    }
}

/// A value out of a fixed set: the number of the variant, and the word that the dump prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub(crate) number: u8,
    /// The canonical word.
    pub word: &'static str,
}

impl Choice {
    /// A flag with other words than `yes` and `no`.
    pub(crate) const fn flag(on: bool, word: &'static str) -> Choice {
        Choice {
            number: on as u8,
            word,
        }
    }
}

/// Accepted spellings, each with its choice.
pub type Spellings = &'static [(&'static str, Choice)];

/// The choice that a word spells, without regard to case.
pub(crate) fn spelled(spellings: Spellings, word: &str) -> Option<Value> {
    let found = spellings.iter().find(|(s, _)| s.eq_ignore_ascii_case(word));
    found.map(|(_, choice)| Value::Choice(*choice))
}

/// The type of an option.
pub(crate) trait Setting: Sized {
    /// Takes the option out of its value; `None` if the value is of another type.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! settings {
    ($($type:ty: $($pattern:pat => $option:expr),+;)*) => {$(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<$type> {
                match value {
                    $($pattern => $option,)+
                    _ => None,
                }
            }
        }
    )*};
}

settings! {
    bool: Value::Flag(flag) => Some(flag), Value::Choice(choice) => Some(choice.number != 0);
    u8: Value::Number(number) => number.try_into().ok();
    u16: Value::Number(number) => number.try_into().ok();
    u32: Value::Number(number) => number.try_into().ok();
    u64: Value::Number(number) => number.try_into().ok();
    Option<u32>: Value::Number(-1) => Some(None),
        Value::Number(number) => number.try_into().ok().map(Some),
        Value::Keystrokes(keystrokes) => Some(keystrokes.interval_ms());
    Option<usize>: Value::Threads(threads) => Some(threads);
    String: Value::Word(word) => Some(word),
        Value::Words(words) => Some(words.into_iter().next().unwrap_or_default());
    Option<String>: Value::Word(word) => Some((!word.is_empty() && !is_none(&word)).then_some(word));
    Vec<String>: Value::Words(words) => Some(words),
        Value::Word(list) => Some(list.split(',').map(str::to_owned).collect());
    RekeyLimit: Value::Rekey { bytes, seconds } => {
        Some(RekeyLimit { bytes, seconds: seconds.unwrap_or(0) })
    };
    LogLevel: Value::Choice(choice) => LogLevel::ALL.get(usize::from(choice.number)).copied();
    IpQos: Value::IpQos(qos) => Some(qos);
    EscapeChar: Value::Escape(escape) => Some(escape);
    MaxStartups: Value::Startups(startups) => Some(startups);
    PerSourcePenalties: Value::Penalties(parts) => Some(PerSourcePenalties::new(&parts));
    (u8, u8): Value::NetBlock(four, six) => Some((four, six));
    Vec<u16>: Value::Ports(ports) => Some(ports);
    Vec<ListenEntry>: Value::Listeners(entries) => Some(entries);
    Vec<Variable>: Value::Variables(variables) => Some(variables);
    Vec<Subsystem>: Value::Subsystems(subsystems) => Some(subsystems);
    Vec<Vec<String>>: Value::Chains(chains) => Some(chains);
    Vec<ForwardSpec>: Value::Forwards(forwards) => Some(forwards),
        Value::SocksListeners(listeners) => {
            let socks = |listen| ForwardSpec { listen, to: ForwardTo::Socks };
            Some(listeners.into_iter().map(socks).collect())
        };
    ControlPersist: Value::Persist(persist) => Some(persist);
    AddKeysToAgent: Value::AddKeys(adds) => Some(adds);
    TunnelDevice: Value::TunnelDevice(devices) => Some(devices);
    ChannelTimeouts: Value::ChannelTimeouts(timeouts) => Some(timeouts);
    PermitList: Value::Permits(list) => Some(list);
    PubkeyAuthOptions: Value::PubkeyAuth(options) => Some(options);
    UserEnvironment: Value::UserEnvironment(permitted) => Some(permitted);
    AgentSocketPath: Value::AgentSocket(path) => Some(path);
    ExemptList: Value::Exempt(list) => Some(list);
    AgentName: Value::Agent(name) => Some(name);
    JumpTemplates: Value::Jumps(jumps) => Some(jumps);
    Option<NameOrVariable>: Value::Library(library) => Some(library);
}

/// How a keyword's arguments are read.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes`/`true` or `no`/`false`.
    Flag,
    /// `yes` or `no`; OpenSSH's sshd does not accept `true` and `false` here.
    YesNo,
    /// One of a fixed set.
    Choice(Spellings),
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
    /// One or more file names, each as [`Kind::Path`]; `none` must appear alone.
    Paths,
    /// One or more words.
    Words,
    /// The rest of the line, unchanged.
    Rest,
    /// A list of algorithms with the modifiers `+ - ^`.
    Algorithms(Class),
    /// Words in a special form; the function returns the value or the error text.
    Parsed(fn(&[String]) -> Result<Value, String>),
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
    /// It supplies the time that earlier lines of `RekeyLimit` left out.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// Resolves the lists of algorithms, and sets the default of each other keyword of `table`
    /// without a value.
    pub(crate) fn complete(&mut self, table: Table, side: Side, aes_hardware: bool) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !matches!(slot, None | Some(Value::Word(_))) {
                continue;
            }
            let Some(keyword) = table.get(index) else {
                continue;
            };
            match (keyword.kind, &slot) {
                (Kind::Algorithms(class), Some(Value::Word(spec))) => {
                    *slot = Some(Value::Words(class.resolve(spec, side, aes_hardware)));
                }
                (Kind::Algorithms(class), None) => {
                    let names = class.defaults(side, aes_hardware);
                    *slot = Some(Value::Words(
                        names.iter().map(|name| (*name).to_owned()).collect(),
                    ));
                }
                (_, None) => *slot = default_of(&keyword),
                _ => {}
            }
        }
    }

    /// Takes a value out.
    pub(crate) fn take(&mut self, index: usize) -> Option<Value> {
        self.slots.get_mut(index).and_then(Option::take)
    }

    /// The option of a keyword; `None` if it has no value.
    pub(crate) fn get<T: Setting>(&self, index: usize) -> Option<T> {
        self.at(index).cloned().and_then(T::from_value)
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
            (Repeat::Add, Some(have), more) => have.extend(more),
            (
                Repeat::Complete,
                Some(Value::Rekey {
                    seconds: have @ None,
                    ..
                }),
                Value::Rekey { seconds, .. },
            ) => *have = seconds,
            _ => {}
        }
    }

    /// Replaces the values by those that `other` has.
    pub(crate) fn override_with(&mut self, table: Table, other: &Values) {
        for (index, slot) in other.slots.iter().enumerate() {
            let Some(value) = slot.clone() else {
                continue;
            };
            let before = self.take(index);
            self.put(index, value);
            if let Some(before) = before
                && table
                    .get(index)
                    .is_some_and(|row| row.repeat == Repeat::Complete)
            {
                self.enter(index, Repeat::Complete, before);
            }
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
}

pub(crate) fn is_none(word: &str) -> bool {
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
            Kind::Choice(spellings) => spelled(spellings, first).ok_or_else(|| unsupported(first)),
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
                    return Ok(Value::Words(Vec::new()));
                }
                Ok(Value::Words(words.to_vec()))
            }
            Kind::Rest => Ok(Value::Word(rest.to_owned())),
            Kind::Algorithms(class) => {
                class.check(first)?;
                Ok(Value::Word(first.to_owned()))
            }
            Kind::Parsed(read) => read(words),
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

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
