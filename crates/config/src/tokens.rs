//! Expansion of `%` tokens, `${NAME}` and `~` in configured words (ssh_config(5) TOKENS, ENVIRONMENT VARIABLES).
//!
//! A template is expanded in one pass: the value of a token is never expanded again, so a host
//! named `%r` or `${HOME}` stays unchanged. Words that become part of a shell command are expanded
//! with [`Purpose::Shell`], which refuses values that a shell would interpret.

use std::fmt;

use crate::environment::Environment;

/// Longest expansion, bytes; a longer one is an error.
pub const MAX_EXPANSION_BYTES: usize = 64 << 10;

/// The use of an expanded template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A name, path or text that no shell reads.
    Plain,
    /// A file name of the server: a user name in it must be a single component, so `../x` names nothing.
    Path,
    /// A command for a shell.
    Shell,
}

/// Why a template cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpandError {
    /// `%` at the end, or a token that is not allowed here.
    UnknownToken(String),
    /// `${NAME}` without the closing brace, or of an unset variable.
    Variable(String),
    /// `~name` of an unknown user.
    UnknownUser(String),
    /// A token's value contains characters that a shell would interpret.
    Unsafe {
        /// The token's letter.
        token: char,
        /// Its value, escaped.
        value: String,
    },
    /// A user name that is not a single path component would change the directory.
    NotAComponent(String),
    /// The result exceeds [`MAX_EXPANSION_BYTES`].
    TooLong,
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpandError::UnknownToken(token) => write!(f, "unknown key %{token}"),
            ExpandError::Variable(name) => write!(f, "environment variable ${{{name}}} is not set"),
            ExpandError::UnknownUser(name) => write!(f, "no such user {name}"),
            ExpandError::Unsafe { token, value } => write!(
                f,
                "%{token} is {value}, which holds characters that a shell would act on; choose another name"
            ),
            ExpandError::NotAComponent(value) => {
                write!(f, "user name {value} cannot be part of a file name")
            }
            ExpandError::TooLong => f.write_str("expansion is too long"),
        }
    }
}

impl std::error::Error for ExpandError {}

/// Values of tokens, by letter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    values: Vec<(char, String)>,
}

impl Tokens {
    /// An empty set, which expands `%%` only.
    pub fn new() -> Tokens {
        Tokens::default()
    }

    /// Sets a token, replacing an earlier value.
    pub fn set(&mut self, letter: char, value: impl Into<String>) {
        let value = value.into();
        match self.values.iter_mut().find(|(l, _)| *l == letter) {
            Some(slot) => slot.1 = value,
            None => self.values.push((letter, value)),
        }
    }

    /// As [`Tokens::set`], for chains.
    pub fn with(mut self, letter: char, value: impl Into<String>) -> Tokens {
        self.set(letter, value);
        self
    }

    /// The value of a token.
    pub fn value(&self, letter: char) -> Option<&str> {
        self.values
            .iter()
            .find(|(l, _)| *l == letter)
            .map(|(_, value)| value.as_str())
    }

    /// A copy with only the tokens whose letters are in `letters`: those that one keyword accepts.
    pub fn only(&self, letters: &str) -> Tokens {
        Tokens {
            values: self
                .values
                .iter()
                .filter(|(l, _)| letters.contains(*l))
                .cloned()
                .collect(),
        }
    }

    /// Replaces `%` tokens of a template.
    ///
    /// # Errors
    /// [`ExpandError`] if a token is not in this set, the result is too long, or a value is unsafe
    /// for `purpose`.
    pub fn expand(&self, template: &str, purpose: Purpose) -> Result<String, ExpandError> {
        self.expand_parts(template, purpose, None)
    }

    /// Replaces `%` tokens and `${NAME}`.
    ///
    /// # Errors
    /// As [`Tokens::expand`], also if a variable is not set.
    pub fn expand_with_variables(
        &self,
        template: &str,
        purpose: Purpose,
        environment: &dyn Environment,
    ) -> Result<String, ExpandError> {
        self.expand_parts(template, purpose, Some(environment))
    }

    fn expand_parts(
        &self,
        template: &str,
        purpose: Purpose,
        environment: Option<&dyn Environment>,
    ) -> Result<String, ExpandError> {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['%', '$']) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let mut letters = from.chars();
            let mark = letters.next();
            let after = letters.as_str();
            if mark == Some('$') {
                rest = match (environment, after.strip_prefix('{')) {
                    (Some(environment), Some(inner)) => {
                        let (name, tail) = inner
                            .split_once('}')
                            .ok_or_else(|| ExpandError::Variable(inner.to_owned()))?;
                        let value = environment
                            .variable(name)
                            .filter(|_| !name.is_empty())
                            .ok_or_else(|| ExpandError::Variable(name.to_owned()))?;
                        out.push_str(&value);
                        tail
                    }
                    _ => {
                        out.push('$');
                        after
                    }
                };
            } else {
                let letter = letters.next();
                self.push_token(&mut out, letter, purpose)?;
                rest = letters.as_str();
            }
            if out.len() > MAX_EXPANSION_BYTES {
                return Err(ExpandError::TooLong);
            }
        }
        out.push_str(rest);
        if out.len() > MAX_EXPANSION_BYTES {
            return Err(ExpandError::TooLong);
        }
        Ok(out)
    }

    fn push_token(
        &self,
        out: &mut String,
        letter: Option<char>,
        purpose: Purpose,
    ) -> Result<(), ExpandError> {
        let unknown = || ExpandError::UnknownToken(letter.map(String::from).unwrap_or_default());
        let letter = letter.ok_or_else(unknown)?;
        if letter == '%' {
            out.push('%');
            return Ok(());
        }
        let value = self.value(letter).ok_or_else(unknown)?;
        if purpose == Purpose::Shell && !is_shell_safe(letter, value) {
            return Err(ExpandError::Unsafe {
                token: letter,
                value: escape::one_line(value),
            });
        }
        if purpose == Purpose::Path && letter == 'u' && !is_component(value) {
            return Err(ExpandError::NotAComponent(escape::one_line(value)));
        }
        out.push_str(value);
        Ok(())
    }
}

/// Replaces a leading `~` or `~user`; without a path after it, the result ends in a slash, as in
/// OpenSSH.
///
/// # Errors
/// [`ExpandError`] if the user is unknown.
pub fn expand_tilde(path: &str, environment: &dyn Environment) -> Result<String, ExpandError> {
    let Some(rest) = path.strip_prefix('~') else {
        return Ok(path.to_owned());
    };
    let (user, tail) = rest.split_once('/').unwrap_or((rest, ""));
    let home = if user.is_empty() {
        environment.local_user().home
    } else {
        environment
            .home_of(user)
            .ok_or_else(|| ExpandError::UnknownUser(user.to_owned()))?
    };
    Ok(format!(
        "{}/{}",
        home.trim_end_matches('/'),
        tail.trim_start_matches('/')
    ))
}

/// True if `host` may come from a command line, a URI or a hop of `ProxyJump`, by the rules of
/// OpenSSH 10.6. Refuses a leading `-`, white space, control characters, shell metacharacters, and
/// the comma that separates the names of known_hosts. Names from a configuration file (`HostName`)
/// are not checked with this.
pub fn is_valid_host(host: &str) -> bool {
    !host.contains(',') && is_shell_safe_host(host)
}

/// OpenSSH's error text for a user name that is unsafe in a shell.
pub(crate) const BAD_USER: &str = "remote username contains invalid characters";

/// True if `user` may come from a command line, a URI or a hop of `ProxyJump`, by the rules of
/// OpenSSH 10.6 (CVE-2026-106583): no shell metacharacters (including `$` and `\`), no control
/// character, and no `-` at the start or after a blank. Names from a configuration file (`User`)
/// are not checked with this.
pub fn is_valid_user(user: &str) -> bool {
    !user.contains('\\') && is_shell_safe_user(user)
}

fn is_shell_safe_host(host: &str) -> bool {
    !host.starts_with('-')
        && !host
            .chars()
            .any(|c| "'`\"$\\;&<>|(){}".contains(c) || c.is_whitespace() || c.is_control())
}

/// True if the user of `%r` is safe in a command. The name may come from a file, where
/// `DOMAIN\user` is common, so a backslash inside is permitted; a final one would escape the
/// character after the token.
fn is_shell_safe_user(user: &str) -> bool {
    if user.starts_with('-') || user.ends_with('\\') {
        return false;
    }
    let mut after_blank = false;
    for c in user.chars() {
        if c.is_control() || "'`\"$;&<>|(){}".contains(c) || (after_blank && c == '-') {
            return false;
        }
        after_blank = c.is_whitespace();
    }
    true
}

/// True if the text contains control characters, which no name may have: they would forge log lines
/// or end strings early.
pub fn has_control_characters(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn is_component(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// True if the value of a token is safe in a shell command. Checks names that the peer or a command
/// line chose; paths and digests that this program makes are not checked.
fn is_shell_safe(letter: char, value: &str) -> bool {
    match letter {
        'h' | 'n' | 'k' | 'H' => is_shell_safe_host(value),
        'r' => is_shell_safe_user(value),
        'j' => {
            !has_control_characters(value) && !value.contains(|c| "'`\"$\\;&<>|(){}".contains(c))
        }
        _ => !has_control_characters(value),
    }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
