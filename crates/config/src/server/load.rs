//! Reads sshd_config: lines to sections, with Include and Match; applies each keyword's `Support`.

use std::path::Path;

use crate::environment::Files;
use crate::error::{ConfigError, Place, Severity, Warning};
use crate::include::{self, Budget};
use crate::lexer;
use crate::server::build::AGENT_VARIABLE;
use crate::server::matching::{self, Criterion};
use crate::server::table::{Row, SERVER_TABLE};
use crate::server::{Section, ServerArguments, ServerConfig, build};
use crate::value::{self, Keyword, Kind, Repeat, Scope, Support, Value};

/// Directory of relative Include patterns of sshd_config.
const INCLUDE_DIRECTORY: &str = "/etc/ssh/";
/// Error messages beyond this number are counted, not stored.
const MAX_MESSAGES: usize = 100;
/// Replaces the file name in messages about a line from `-o`.
const COMMAND_LINE: &str = "command-line";
/// Largest number of Subsystem lines.
const MAX_SUBSYSTEMS: usize = 256;

impl ServerConfig {
    /// Reads a file and the `-o` arguments.
    ///
    /// # Errors
    /// If the file cannot be read, a line is invalid, a keyword would restrict something that this
    /// server does not support, or values contradict each other. Every invalid line is named.
    pub fn load(
        path: &Path,
        files: &dyn Files,
        arguments: &ServerArguments,
    ) -> Result<ServerConfig, ConfigError> {
        let name = path.to_string_lossy().into_owned();
        let bytes = files.read(path).map_err(|error| ConfigError::Unreadable {
            file: name.clone(),
            reason: error.to_string(),
        })?;
        ServerConfig::parse(&name, &bytes, files, arguments)
    }

    /// Reads the text of a file called `name`.
    ///
    /// # Errors
    /// As [`ServerConfig::load`].
    pub fn parse(
        name: &str,
        text: &[u8],
        files: &dyn Files,
        arguments: &ServerArguments,
    ) -> Result<ServerConfig, ConfigError> {
        let mut loader = Loader {
            files,
            arguments,
            budget: Budget::default(),
            sections: Vec::new(),
            warnings: Vec::new(),
            messages: Vec::new(),
            subsystems: 0,
            sftp_roots: Vec::new(),
        };
        let ports = arguments.ports.iter().map(|port| format!("Port={port}"));
        for option in ports.chain(arguments.options.iter().cloned()) {
            loader.start(&Conditions::default());
            let place = Place {
                file: COMMAND_LINE.to_owned(),
                line: 0,
            };
            loader.line(&option, &place, &mut Conditions::default(), 0);
        }
        let mut scope = Conditions::default();
        loader.start(&scope);
        loader.file(name, text, &mut scope, 0);
        if !loader.messages.is_empty() {
            return Err(ConfigError::BadLines {
                messages: loader.messages,
                file: name.to_owned(),
            });
        }
        let sftp_roots = std::mem::take(&mut loader.sftp_roots);
        let mut config = ServerConfig {
            sections: std::mem::take(&mut loader.sections),
            aes_hardware: arguments.aes_hardware,
            warnings: Vec::new(),
        };
        for (conditions, place) in sftp_roots {
            let options = config.where_conditions_are(&conditions);
            let text = options.sftp_root_gap(options.session.force_command.as_deref());
            if let Some(text) = text {
                loader.warn(&place, text.to_owned(), Severity::Notice);
            }
        }
        config.warnings = loader.warnings;
        // A block of `Match all` is part of what every connection gets.
        build::check(&config.where_conditions_are(&[vec![Criterion::All]]))?;
        Ok(config)
    }

    pub(super) fn from_sections(sections: Vec<Section>, aes_hardware: bool) -> ServerConfig {
        ServerConfig {
            sections,
            aes_hardware,
            warnings: Vec::new(),
        }
    }
}

/// Conditions that apply to a line: those of the including block, and those of its own Match line.
#[derive(Clone, Default)]
struct Conditions {
    outer: Vec<Vec<Criterion>>,
    own: Option<Vec<Criterion>>,
}

impl Conditions {
    fn all(&self) -> Vec<Vec<Criterion>> {
        self.outer.iter().chain(&self.own).cloned().collect()
    }

    fn is_global(&self) -> bool {
        self.outer.is_empty() && self.own.is_none()
    }

    /// True if there is no condition but `Match all`.
    fn is_all(&self) -> bool {
        let mut conditions = self.outer.iter().chain(&self.own);
        conditions.all(|criteria| criteria.as_slice() == [Criterion::All])
    }
}

/// Checks that an option of the command line has a known keyword and an argument; what the argument may be
/// is checked when the configuration is read.
///
/// # Errors
/// The message for the user.
pub fn check_option(line: &str) -> Result<(), String> {
    let Ok(Some(line)) = lexer::read_line(line) else {
        return Ok(());
    };
    let place = Place {
        file: COMMAND_LINE.to_owned(),
        line: 0,
    };
    if line.rest.is_empty() {
        return Err(no_argument(&place, &line.keyword));
    }
    match value::find(SERVER_TABLE, &line.keyword) {
        Some(_) => Ok(()),
        None => Err(crate::reader::bad_option(&place, &line.keyword)),
    }
}

fn no_argument(place: &Place, keyword: &str) -> String {
    format!("{place}: no argument after keyword \"{keyword}\"")
}

struct Loader<'a> {
    files: &'a dyn Files,
    arguments: &'a ServerArguments,
    budget: Budget,
    sections: Vec<Section>,
    warnings: Vec<Warning>,
    messages: Vec<String>,
    subsystems: usize,
    /// The places that set SftpRoot, with their conditions.
    sftp_roots: Vec<(Vec<Vec<Criterion>>, Place)>,
}

impl Loader<'_> {
    fn start(&mut self, scope: &Conditions) {
        let conditions = scope.all();
        match self.sections.last_mut() {
            Some(last) if last.entries.is_empty() => last.conditions = conditions,
            _ => self.sections.push(Section {
                conditions,
                entries: Vec::new(),
            }),
        }
    }

    fn complain(&mut self, message: String) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }

    fn file(&mut self, name: &str, text: &[u8], scope: &mut Conditions, depth: usize) {
        if let Err(text) = self.budget.charge(text.len()) {
            self.complain(format!("{name}: {text}"));
            return;
        }
        let mut number: u32 = 0;
        for line in text.split(|b| *b == b'\n') {
            number = number.saturating_add(1);
            let place = Place {
                file: name.to_owned(),
                line: number,
            };
            match crate::reader::text_of(line) {
                Ok(line) => self.line(&line, &place, scope, depth),
                Err(text) => self.complain(format!("{place}: {text}")),
            }
        }
    }

    fn line(&mut self, line: &str, place: &Place, scope: &mut Conditions, depth: usize) {
        let (keyword, rest) = match lexer::read_line(line) {
            Ok(None) => return,
            Ok(Some(line)) => (line.keyword, line.rest),
            Err(error) => return self.complain(format!("{place}: {error}")),
        };
        if rest.is_empty() {
            return self.complain(no_argument(place, &keyword));
        }
        let found = value::find(SERVER_TABLE, &keyword);
        let Some((index, row)) = found.and_then(|i| Some((i, SERVER_TABLE.get(i)?))) else {
            return self.complain(crate::reader::bad_option(place, &keyword));
        };
        let structure = matches!(row.kind, Kind::Structure);
        if structure && place.line == 0 && place.file == COMMAND_LINE {
            let name = row.name;
            return self.complain(format!(
                "{name} directive not supported as a command-line option"
            ));
        }
        let words = match lexer::split_words(rest, true) {
            Ok(words) => words,
            Err(error) => return self.complain(format!("{place}: {error}")),
        };
        if place.line == 0 && [Row::Match, Row::Include].map(Row::index).contains(&index) {
            return self.complain(format!(
                "{} directive not supported as a command-line option",
                row.name
            ));
        }
        if row.scope == Scope::Global && !scope.is_all() {
            return self.complain(format!(
                "{place}: Directive '{keyword}' is not allowed within a Match block"
            ));
        }
        if index == Row::Match.index() {
            match matching::read_criteria(&words) {
                Ok(criteria) => {
                    for name in criteria.iter().flat_map(Criterion::names_for_addresses) {
                        let name = escape::one_line(name);
                        let text = format!(
                            "Match: \"{name}\" is a name, and a list of addresses never matches names"
                        );
                        self.warn(place, text, Severity::Notice);
                    }
                    scope.own = Some(criteria);
                }
                Err(text) => self.complain(format!("{place}: {text}")),
            }
            self.start(scope);
        } else if index == Row::Include.index() {
            self.include(&words, place, scope, depth);
        } else {
            // After `Match all`, which ends a block, a line for the whole server has the effect of
            // one before all blocks.
            let is_apart = row.scope == Scope::Global && !scope.is_global();
            if is_apart {
                self.start(&Conditions::default());
            }
            match self.value(&row, &keyword, &words, rest) {
                Ok(value) => self.enter(index, &row, value, &keyword, place),
                Err(text)
                    if matches!(row.kind, Kind::Integer { .. }) && !text.starts_with("keyword") =>
                {
                    self.complain(format!("{place}: {keyword} {text}"));
                }
                Err(text) => self.complain(format!("{place}: {text}")),
            }
            if is_apart {
                self.start(scope);
            }
        }
    }

    fn value(
        &self,
        row: &Keyword,
        keyword: &str,
        words: &[String],
        rest: &str,
    ) -> Result<Value, String> {
        let value = row.kind.read(keyword, words, rest)?;
        let names_files = matches!(row.kind, Kind::Path | Kind::Paths)
            || row.name == "AuthorizedKeysFile"
            || row.name == "AuthorizedPrincipalsFile";
        if names_files && words.iter().any(|word| word.starts_with('~')) {
            // OpenSSH inserts the home directory of the server's own user, which is never intended.
            return Err(format!(
                "keyword {keyword} does not expand \"~\"; write the path, or %h for the user's home"
            ));
        }
        match (&row.kind, value) {
            (_, Value::Word(word))
                if row.default == "none" && word.eq_ignore_ascii_case("none") =>
            {
                Ok(Value::Word("none".to_owned()))
            }
            (Kind::Rest, Value::Word(rest)) => {
                if row.name.ends_with("Command") && row.name.starts_with("Authorized") {
                    forms_command(row.name, &rest)?;
                }
                Ok(Value::Word(rest))
            }
            // Their tokens expand to directories of the user.
            (Kind::Path, Value::Word(path))
                if path.starts_with('%') && matches!(row.name, "ChrootDirectory" | "SftpRoot") =>
            {
                Ok(Value::Word(path))
            }
            (Kind::Path, Value::Word(name))
                if row.name == "HostKeyAgent" && name == AGENT_VARIABLE =>
            {
                Ok(Value::Word(name))
            }
            (Kind::Path, Value::Word(path)) => Ok(Value::Word(self.absolute(path))),
            (Kind::Paths, Value::Words(paths)) => {
                let absolute = paths.into_iter().map(|path| self.absolute(path));
                Ok(Value::Words(absolute.collect()))
            }
            (_, value) => Ok(value),
        }
    }

    fn absolute(&self, path: String) -> String {
        let special =
            path.eq_ignore_ascii_case("none") || path == "internal" || path.starts_with('/');
        match &self.arguments.working_directory {
            Some(directory) if !special => directory.join(&path).to_string_lossy().into_owned(),
            _ => path,
        }
    }

    fn enter(&mut self, index: usize, row: &Keyword, value: Value, keyword: &str, place: &Place) {
        if let Kind::Algorithms(class) = row.kind
            && let Value::Word(spec) = &value
            && let Some(text) = class.passed_over(spec)
        {
            self.warn(place, format!("{keyword}: {text}"), Severity::Notice);
        }
        match crate::reader::judge(row.support, &value) {
            crate::reader::Judgement::Keep => {}
            crate::reader::Judgement::Warn(text) => {
                self.warn(place, format!("{} {text}", row.name), Severity::Notice);
            }
            crate::reader::Judgement::Refuse => {
                let harmless = match row.support {
                    Support::Restricting([value, ..]) => *value,
                    _ => "none",
                };
                return self.complain(format!(
                    "{place}: {keyword} is not supported yet and would restrict; \
                     remove it or set it to \"{harmless}\""
                ));
            }
            crate::reader::Judgement::Drop(severity, word) => {
                if severity.is_some() {
                    self.warn(place, format!("{word} option {keyword}"), Severity::Notice);
                }
                return;
            }
        }
        if index == Row::Port.index() && place.line > 0 && !self.arguments.ports.is_empty() {
            return;
        }
        if index == Row::Subsystem.index() {
            self.subsystems += 1;
            if self.subsystems > MAX_SUBSYSTEMS {
                return self.complain(format!("{place}: too many subsystems defined."));
            }
        }
        if index == Row::SftpRoot.index()
            && self.sftp_roots.len() < MAX_MESSAGES
            && let Some(section) = self.sections.last()
        {
            let conditions = section.conditions.clone();
            self.sftp_roots.push((conditions, place.clone()));
        }
        let value = match (row.repeat, value) {
            (Repeat::Add, Value::Word(word)) => Value::Words(vec![word]),
            (_, value) => value,
        };
        if let Some(section) = self.sections.last_mut() {
            section.entries.push((index, value));
        }
    }

    fn warn(&mut self, place: &Place, text: String, severity: Severity) {
        if self.warnings.len() < MAX_MESSAGES {
            self.warnings.push(Warning {
                place: place.clone(),
                text,
                severity,
            });
        }
    }

    fn include(&mut self, patterns: &[String], place: &Place, scope: &Conditions, depth: usize) {
        if depth + 1 >= include::MAX_DEPTH {
            return self.complain(format!(
                "{place}: Too many recursive configuration includes"
            ));
        }
        if patterns.is_empty() {
            return self.complain(format!("{place}: missing filename for Include"));
        }
        for pattern in patterns {
            let absolute = match pattern.strip_prefix('/') {
                Some(_) => pattern.clone(),
                None => format!("{INCLUDE_DIRECTORY}{pattern}"),
            };
            let found = match include::expand(&absolute, self.files) {
                Ok(found) => found,
                Err(text) => return self.complain(format!("{place}: include {pattern}: {text}")),
            };
            for path in found {
                let name = path.to_string_lossy().into_owned();
                let mut inner = Conditions {
                    outer: scope.all(),
                    own: None,
                };
                self.start(&inner);
                match self.files.read(&path) {
                    Ok(bytes) => self.file(&name, &bytes, &mut inner, depth + 1),
                    Err(error) => self.complain(format!("{place}: include {name}: {error}")),
                }
            }
        }
        self.start(scope);
    }
}

fn forms_command(name: &str, rest: &str) -> Result<(), String> {
    crate::forms::server::check_command(rest).map_err(|text| format!("{name} {text}"))
}
