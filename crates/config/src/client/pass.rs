//! One pass over the command line and the files of ssh_config.

use std::path::Path;

use crate::client::knowledge::Knowledge;
use crate::client::matching::{self, Facts};
use crate::client::options::SessionType;
use crate::client::table::{CLIENT_TABLE, Row, jumps};
use crate::client::{ClientConfig, CommandLine, CommandLineSetting, ConfigSource, methods};
use crate::environment::Environment;
use crate::error::{Place, Severity, Warning};
use crate::forms;
use crate::include::{self, Budget};
use crate::lexer;
use crate::pattern::{self, Case};
use crate::printing;
use crate::reader::{self, Judgement};
use crate::tokens::{self, BAD_USER, Purpose};
use crate::value::{self, Keyword, Kind, Repeat, Support, Value, Values};

/// Most error messages kept; further errors are only counted.
const MAX_MESSAGES: usize = 100;

/// Most words that a keyword accumulates over all its lines.
const MAX_ACCUMULATED: usize = 256;
/// The same for forwardings, which programs list by port: what one connection can have.
const MAX_FORWARDINGS: usize = 4096;

/// The state of one pass.
pub(crate) struct Pass<'a> {
    pub(crate) config: &'a ClientConfig,
    pub(crate) environment: &'a dyn Environment,
    pub(crate) command_line: &'a CommandLine,
    pub(crate) knowledge: &'a Knowledge,
    pub(crate) final_pass: bool,
    pub(crate) wants_final: bool,
    pub(crate) values: Values,
    /// `User` comes from a flag or the destination, where tokens and variables have no meaning.
    pub(crate) user_is_literal: bool,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) messages: Vec<String>,
    pub(crate) budget: Budget,
}

/// The context of a line: whether it applies, and in which file it is.
#[derive(Clone, Copy)]
struct Context<'s> {
    source: Option<&'s ConfigSource>,
    /// False inside an including block that does not apply.
    reachable: bool,
    depth: usize,
}

impl Pass<'_> {
    /// Applies the settings of the command line.
    pub(crate) fn command_line(&mut self) {
        let place = Place {
            file: "command-line".to_owned(),
            line: 0,
        };
        let context = Context {
            source: None,
            reachable: true,
            depth: 0,
        };
        for setting in &self.command_line.settings {
            match setting {
                CommandLineSetting::Line(line) => {
                    let mut active = true;
                    self.line(line, &place, context, &mut active);
                }
                CommandLineSetting::Words(keyword, words) => {
                    let row = value::find(CLIENT_TABLE, keyword);
                    // As in OpenSSH, the first -l or -p counts and the others are ignored, whatever
                    // their value.
                    let first_counts = [Row::User, Row::Port].map(|row| Some(row.index()));
                    if first_counts.contains(&row)
                        && row.is_some_and(|row| self.values.at(row).is_some())
                    {
                        continue;
                    }
                    let rest = words.join(" ");
                    let mut active = true;
                    let had_user = self.has(Row::User);
                    self.words(keyword, words, &rest, &place, context, &mut active);
                    self.user_is_literal |= !had_user && self.has(Row::User);
                }
            }
        }
    }

    /// Applies a file.
    pub(crate) fn source(&mut self, source: &ConfigSource) {
        let context = Context {
            source: Some(source),
            reachable: true,
            depth: 0,
        };
        let name = source.path.to_string_lossy().into_owned();
        match self.config.files.read(&source.path) {
            Ok(bytes) => {
                if source.check_owner
                    && let Err(text) = self.config.files.check_owner(&source.path)
                {
                    return self.complain(text);
                }
                self.file(&name, &bytes, context, true);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !source.required => {}
            Err(error) => self.complain(format!("Can't open user config file {name}: {error}")),
        }
    }

    fn complain(&mut self, message: String) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }

    fn file(&mut self, name: &str, bytes: &[u8], context: Context<'_>, active: bool) {
        if let Err(text) = self.budget.charge(bytes.len()) {
            return self.complain(format!("{name}: {text}"));
        }
        let mut active = active;
        let mut number: u32 = 0;
        for line in bytes.split(|b| *b == b'\n') {
            number = number.saturating_add(1);
            let place = Place {
                file: name.to_owned(),
                line: number,
            };
            match reader::text_of(line) {
                Ok(line) => self.line(&line, &place, context, &mut active),
                Err(text) => self.complain(format!("{place}: {text}")),
            }
        }
    }

    fn line(&mut self, line: &str, place: &Place, context: Context<'_>, active: &mut bool) {
        let (keyword, rest) = match lexer::read_line(line) {
            Ok(None) => return,
            // As in OpenSSH, the client reports keywords in lower case, the server as written.
            Ok(Some(line)) => (line.keyword.to_ascii_lowercase(), line.rest),
            Err(error) => return self.complain(format!("{place}: {error}")),
        };
        if rest.is_empty() {
            return self.complain(format!("{place}: no argument after keyword \"{keyword}\""));
        }
        match lexer::split_words(rest, true) {
            Ok(words) => self.words(&keyword, &words, rest, place, context, active),
            Err(error) => self.complain(format!("{place}: {error}")),
        }
    }

    fn words(
        &mut self,
        keyword: &str,
        words: &[String],
        rest: &str,
        place: &Place,
        context: Context<'_>,
        active: &mut bool,
    ) {
        let found = value::find(CLIENT_TABLE, keyword);
        let Some((index, row)) = found.and_then(|i| Some((i, CLIENT_TABLE.get(i)?))) else {
            if !self.is_ignored(keyword) {
                self.complain(reader::bad_option(place, keyword));
            }
            return;
        };
        // Hops are not words.
        let hops = [rest.to_owned()];
        let words = if index == Row::ProxyJump.index() {
            &hops
        } else {
            words
        };
        let structures = [Row::Host, Row::Match, Row::Include].map(Row::index);
        if context.source.is_none() && structures.contains(&index) {
            return self.complain(format!(
                "{} directive not supported as a command-line option",
                row.name
            ));
        }
        let result = if index == Row::Host.index() {
            matching::host_line(self.knowledge.host(), words)
                .map(|applies| *active = applies && context.reachable)
        } else if index == Row::Match.index() {
            self.match_line(words, place, context)
                .map(|applies| *active = applies && context.reachable)
        } else if index == Row::Include.index() {
            self.include(words, place, context, *active)
        } else {
            row.kind.read(keyword, words, rest).and_then(|value| {
                check_names(index, &value, context.source.is_none())?;
                self.enter(index, &row, value, keyword, place, *active)
            })
        };
        match result {
            Ok(()) => {}
            // As in OpenSSH, an error in the name of the command line has no line number.
            Err(text) if text == BAD_USER => self.complain(text),
            Err(text) => self.complain(format!("{place}: {text}")),
        }
    }

    fn is_ignored(&self, keyword: &str) -> bool {
        let list = self.values.word(Row::IgnoreUnknown.index());
        !list.is_empty() && pattern::match_list(keyword, list, Case::Ignored).is_yes()
    }

    fn match_line(
        &mut self,
        words: &[String],
        place: &Place,
        context: Context<'_>,
    ) -> Result<bool, String> {
        let user = self.values.word(Row::User.index());
        let user = if user.is_empty() {
            &self.knowledge.local.name
        } else {
            user
        };
        let command = self.command_line.command.as_deref().unwrap_or_default();
        let session_type = match self.values.get(Row::SessionType.index()) {
            Some(session @ (SessionType::None | SessionType::Subsystem)) => session.word(),
            _ if command.is_empty() => "shell",
            _ => "exec",
        };
        let current = self.knowledge.hostname(&self.values)?;
        let tokens = self.knowledge.tokens(&self.values, &current);
        let facts = Facts {
            host: &current,
            original_host: &self.knowledge.host_argument,
            user,
            local_user: &self.knowledge.local.name,
            tag: self.values.word(Row::Tag.index()),
            session_type,
            command,
            final_pass: self.final_pass,
            tokens: &tokens,
            environment: self.environment,
            reachable: context.reachable,
        };
        let outcome = matching::match_line(words, &facts, place)?;
        self.wants_final |= outcome.wants_final;
        Ok(outcome.applies)
    }

    fn enter(
        &mut self,
        index: usize,
        row: &Keyword,
        value: Value,
        keyword: &str,
        place: &Place,
        active: bool,
    ) -> Result<(), String> {
        if !active {
            return Ok(());
        }
        if index == Row::RefuseConnection.index() {
            let said = escape::one_line(printing::canonical(&value));
            return Err(format!("{}: {said}", row.name));
        }
        // As in OpenSSH, a time of `none` counts as unset: later lines and the default apply.
        if matches!(row.kind, Kind::Seconds { .. }) && value == Value::Number(-1) {
            return Ok(());
        }
        let taken = row.repeat == Repeat::First && self.values.at(index).is_some();
        if taken || self.proxy_is_set(index) {
            return Ok(());
        }
        let passed_over = match (row.kind, &value) {
            (Kind::Algorithms(class), Value::Word(spec)) => class.passed_over(spec),
            (_, Value::Word(list)) if index == Row::PreferredAuthentications.index() => {
                methods::passed_over(list)
            }
            _ => None,
        };
        if let Some(text) = passed_over {
            let text = format!("{}: {text}", row.name);
            self.warn(row, place, text, Severity::Debug);
        }
        match reader::judge(row.support, &value) {
            Judgement::Keep => {}
            Judgement::Warn(text) => {
                self.warn(row, place, format!("{} {text}", row.name), Severity::Later);
            }
            Judgement::Refuse => {
                let harmless = match row.support {
                    Support::Restricting([value, ..]) => *value,
                    _ => "none",
                };
                return Err(format!(
                    "{} is not supported yet and would restrict; remove it or set it to \"{harmless}\"",
                    row.name
                ));
            }
            Judgement::Drop(severity, word) => {
                if let Some(severity) = severity {
                    self.warn(row, place, format!("{word} option \"{keyword}\""), severity);
                }
                return Ok(());
            }
        }
        let forwardings = [Row::LocalForward, Row::RemoteForward, Row::DynamicForward];
        let most = match forwardings.iter().any(|each| each.index() == index) {
            true => MAX_FORWARDINGS,
            false => MAX_ACCUMULATED,
        };
        let have = self.values.at(index).and_then(Value::entries);
        if row.repeat == Repeat::Add && have.is_some_and(|have| have.len() >= most) {
            return Err(format!("Too many {} entries (max {most})", row.name));
        }
        if index == Row::SendEnv.index() {
            let mut have = self.values.words(index).to_vec();
            if let Value::Words(more) = &value {
                let fresh: Vec<String> =
                    more.iter().filter(|w| !have.contains(w)).cloned().collect();
                forms::client::merge_send_env(&mut have, &fresh);
            }
            self.values.put(index, Value::Words(have));
            return Ok(());
        }
        let duplicate = |word: &String| self.values.words(index).contains(word);
        let have = self.values.at(index);
        let value = match (row.repeat, value, have) {
            (Repeat::Add, Value::Word(word), _) if duplicate(&word) => return Ok(()),
            (Repeat::Add, Value::Words(words), _) => {
                Value::Words(words.into_iter().filter(|word| !duplicate(word)).collect())
            }
            (Repeat::Add, Value::Forwards(more), Some(Value::Forwards(have)))
                if more.iter().all(|spec| have.contains(spec)) =>
            {
                return Ok(());
            }
            (Repeat::Add, Value::SocksListeners(more), Some(Value::SocksListeners(have)))
                if more.iter().all(|listen| have.contains(listen)) =>
            {
                return Ok(());
            }
            (_, value, _) => value,
        };
        self.values.enter(index, row.repeat, value);
        Ok(())
    }

    fn has(&self, row: Row) -> bool {
        self.values.at(row.index()).is_some()
    }

    /// `ProxyCommand` and `ProxyJump` exclude each other: the first counts. `ProxyJump none` only
    /// disables later jumps and leaves a later `ProxyCommand` in force.
    fn proxy_is_set(&self, index: usize) -> bool {
        if index == Row::ProxyJump.index() {
            self.has(Row::ProxyCommand)
        } else if index == Row::ProxyCommand.index() {
            !jumps(&self.values).is_empty()
        } else {
            false
        }
    }

    /// Keeps the first warning of each keyword.
    fn warn(&mut self, row: &Keyword, place: &Place, text: String, severity: Severity) {
        let prefix = |have: &Warning| {
            let word = have.text.split([' ', ':']).next().unwrap_or_default();
            row.name.eq_ignore_ascii_case(word) || have.text == text
        };
        if !self.warnings.iter().any(prefix) {
            self.warn_anew(place, text, severity);
        }
    }

    fn warn_anew(&mut self, place: &Place, text: String, severity: Severity) {
        if self.warnings.len() < MAX_MESSAGES {
            self.warnings.push(Warning {
                place: place.clone(),
                text,
                severity,
            });
        }
    }

    fn include(
        &mut self,
        patterns: &[String],
        place: &Place,
        context: Context<'_>,
        active: bool,
    ) -> Result<(), String> {
        if context.depth + 1 >= include::MAX_DEPTH {
            return Err("Too many recursive configuration includes".to_owned());
        }
        let of_user = context.source.is_none_or(|source| source.of_user);
        let current = self.knowledge.hostname(&self.values)?;
        let tokens = self.knowledge.tokens(&self.values, &current);
        let home = self.home_of_includes();
        for pattern in patterns {
            if pattern.is_empty() {
                return Err("keyword include empty argument".to_owned());
            }
            if pattern.starts_with('~') && !of_user {
                return Err(format!("bad include path {pattern}."));
            }
            let expanded = tokens
                .expand_with_variables(pattern, Purpose::Plain, self.environment)
                .and_then(|path| match path.strip_prefix("~/") {
                    Some(inner) => Ok(format!("{home}/{inner}")),
                    None => tokens::expand_tilde(&path, self.environment),
                });
            let expanded = match expanded {
                Ok(expanded) => expanded,
                Err(error) => {
                    let pattern = escape::one_line(pattern);
                    let text = format!("Unable to expand include path '{pattern}': {error}");
                    self.warn_anew(place, text, Severity::Notice);
                    continue;
                }
            };
            let absolute = if expanded.starts_with('/') {
                expanded
            } else if of_user {
                format!("{home}/.ssh/{expanded}")
            } else {
                format!("/etc/ssh/{expanded}")
            };
            match include::expand(&absolute, self.config.files.as_ref()) {
                Ok(found) => {
                    for path in found {
                        self.included(&path, place, context, active);
                    }
                }
                Err(text) => self.complain(format!("{place}: include: {text}")),
            }
        }
        Ok(())
    }

    /// The home directory for `Include`: there $HOME counts, as for the C library's glob(3), by which OpenSSH finds the
    /// files; elsewhere the user's entry in passwd(5) counts.
    fn home_of_includes(&self) -> String {
        let home = self
            .environment
            .variable("HOME")
            .filter(|home| !home.is_empty());
        let home = home.unwrap_or_else(|| self.config.home.to_string_lossy().into_owned());
        home.trim_end_matches('/').to_owned()
    }

    fn included(&mut self, path: &Path, place: &Place, context: Context<'_>, active: bool) {
        let name = path.to_string_lossy().into_owned();
        let checked = context.source.is_some_and(|source| source.check_owner);
        let bytes = match self.config.files.read(path) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory
                ) =>
            {
                return;
            }
            Err(error) => {
                return self.complain(format!(
                    "{place}: Can't open user config file {name}: {error}"
                ));
            }
        };
        if checked && let Err(text) = self.config.files.check_owner(path) {
            return self.complain(text);
        }
        let inner = Context {
            source: context.source,
            reachable: context.reachable && active,
            depth: context.depth + 1,
        };
        self.file(&name, &bytes, inner, active);
    }
}

/// Refuses names with control characters; those of the command line must also be safe in a shell.
fn check_names(index: usize, value: &Value, from_command_line: bool) -> Result<(), String> {
    let word = match value {
        Value::Word(word) => word,
        Value::Jumps(jumps) if from_command_line && !jumps.has_safe_names() => {
            return Err("ProxyJump names a host or user with invalid characters".to_owned());
        }
        _ => return Ok(()),
    };
    let is_user = index == Row::User.index();
    let is_host = index == Row::HostName.index() || index == Row::HostKeyAlias.index();
    if (is_user || is_host) && tokens::has_control_characters(word) {
        return Err("name contains control characters".to_owned());
    }
    if is_user && from_command_line && !tokens::is_valid_user(word) {
        return Err(BAD_USER.to_owned());
    }
    Ok(())
}
