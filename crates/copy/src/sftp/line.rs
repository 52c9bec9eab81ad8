//! Lines that a person types: editing, history, completion of commands and of names on both
//! sides.

use std::cell::RefCell;

use rustyline::completion::{Completer, Pair};
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use sftp::attributes::mode;
use transfer::text;

use super::command::{Completes, NAMES};
use super::os;
use super::perform::Sftp;

/// Lines that are remembered.
const MAX_LINES: usize = 1000;

/// Reads lines from the terminal.
#[derive(Debug, Default)]
pub(super) struct Typed {
    history: Vec<String>,
}

/// Completes with the help of the server.
struct NameCompleter<'s> {
    sftp: RefCell<&'s mut Sftp>,
}

impl Helper for NameCompleter<'_> {}
impl Highlighter for NameCompleter<'_> {}
impl Validator for NameCompleter<'_> {}
impl Hinter for NameCompleter<'_> {
    type Hint = String;
}

impl Typed {
    /// The next line; none at the end.
    pub(super) fn read(&mut self, sftp: &mut Sftp) -> Option<Vec<u8>> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(MAX_LINES)
            .ok()?
            .auto_add_history(false)
            .build();
        let mut editor: Editor<NameCompleter<'_>, MemHistory> =
            Editor::with_history(config.clone(), MemHistory::with_config(&config)).ok()?;
        for line in &self.history {
            let _ = editor.add_history_entry(line);
        }
        editor.set_helper(Some(NameCompleter {
            sftp: RefCell::new(sftp),
        }));
        loop {
            match editor.readline("sftp> ") {
                Ok(line) => {
                    if !line.trim().is_empty() && self.history.last() != Some(&line) {
                        self.history.push(line.clone());
                        let excess = self.history.len().saturating_sub(MAX_LINES);
                        self.history.drain(..excess);
                    }
                    return Some(line.into_bytes());
                }
                Err(ReadlineError::Interrupted) => println!("^C"),
                Err(_) => return None,
            }
        }
    }
}

impl Completer for NameCompleter<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or(line);
        let begin = word_begin(typed);
        let word = typed.get(begin..).unwrap_or_default();
        let head = typed.get(..begin).unwrap_or_default().trim();
        if head.is_empty() {
            let names = NAMES.iter().filter(|(name, ..)| name.starts_with(word));
            let pairs = names.map(|(name, ..)| Pair {
                display: (*name).to_owned(),
                replacement: format!("{name} "),
            });
            return Ok((begin, pairs.collect()));
        }
        let command = head.split_ascii_whitespace().next().unwrap_or_default();
        let completes = NAMES
            .iter()
            .find(|(name, ..)| *name == command)
            .map_or(Completes::Nothing, |(_, completes, _)| *completes);
        // A name of the other side follows the names that are read.
        let others = head
            .split_ascii_whitespace()
            .skip(1)
            .filter(|word| !word.starts_with('-'))
            .count();
        let completes = match (command, others, completes) {
            ("get" | "mget" | "reget", 1.., _) => Completes::Local,
            ("put" | "mput" | "reput", 1.., _) => Completes::Remote,
            (_, _, completes) => completes,
        };
        let word = unquoted(word);
        let (folder, start) = match word.rfind('/') {
            Some(at) => word.split_at(at + 1),
            None => ("", word.as_str()),
        };
        let found = match completes {
            Completes::Nothing => Vec::new(),
            Completes::Local => local(folder),
            Completes::Remote => self.remote(folder),
        };
        let mut pairs: Vec<Pair> = found
            .into_iter()
            .filter(|(name, _)| name.starts_with(start))
            .filter(|(name, _)| !name.starts_with('.') || start.starts_with('.'))
            .map(|(name, is_directory)| {
                let behind = if is_directory { "/" } else { " " };
                Pair {
                    display: text::one_line(&name),
                    replacement: format!("{}{behind}", quoted(&format!("{folder}{name}"))),
                }
            })
            .collect();
        pairs.sort_by(|one, other| one.display.cmp(&other.display));
        Ok((begin, pairs))
    }
}

impl NameCompleter<'_> {
    fn remote(&self, folder: &str) -> Vec<(String, bool)> {
        let Ok(mut sftp) = self.sftp.try_borrow_mut() else {
            return Vec::new();
        };
        let path = match folder {
            "" => sftp.here.clone(),
            folder => sftp.absolute(folder.as_bytes()),
        };
        let entries = sftp.remote.list(&path, false, &mut |_| {});
        let entries = entries.unwrap_or_default().into_iter();
        entries
            .filter_map(|entry| {
                let is_directory = entry.attributes.is(mode::DIRECTORY);
                // What cannot be typed is not offered.
                let name = String::from_utf8(entry.name).ok()?;
                (!name.chars().any(char::is_control)).then_some((name, is_directory))
            })
            .collect()
    }
}

fn local(folder: &str) -> Vec<(String, bool)> {
    let folder = if folder.is_empty() { "." } else { folder };
    let entries = std::fs::read_dir(os(folder.as_bytes()));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let is_directory = entry.path().is_dir();
            Some((entry.file_name().into_string().ok()?, is_directory))
        })
        .collect()
}

/// Start of the last word: after the last blank that no backslash escapes.
fn word_begin(typed: &str) -> usize {
    let mut begin = 0;
    let mut kept = false;
    for (at, letter) in typed.char_indices() {
        if letter.is_ascii_whitespace() && !kept {
            begin = at + 1;
        }
        kept = letter == '\\' && !kept;
    }
    begin
}

/// A word without its backslashes, and without an open quote before it.
fn unquoted(word: &str) -> String {
    let word = word.trim_start_matches(['"', '\'']);
    let bytes = transfer::glob::unescaped(word.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name as a word.
fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if matches!(
            letter,
            ' ' | '\t' | '"' | '\'' | '\\' | '*' | '?' | '[' | '#'
        ) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_behind_blanks_and_names_come_back_as_they_were() {
        assert_eq!(word_begin("get a"), 4);
        assert_eq!(word_begin("get a\\ b"), 4);
        assert_eq!(word_begin("get "), 4);
        for name in ["a b", "x*[1]", "it's", "a\\b", "plain"] {
            assert_eq!(unquoted(&quoted(name)), name);
            let words = super::super::words::split(quoted(name).as_bytes()).unwrap();
            let literal = transfer::glob::unescaped(&words[0]);
            assert_eq!(literal, name.as_bytes());
        }
    }
}
